/* SPDX-License-Identifier: Apache-2.0 */
/*
 * window.c - sliding windows without a sum over channels, depthwise convolution and pooling in a channel-blocked
 * layout; and convolutions to one channel or few, which are the same but for a sum over the lanes at the end.
 *
 * The vector runs over channel lanes, a register tile holds mr neighbouring outputs of one row of the image, and every
 * tap is one load (and one multiply-add or maximum) for each of them. Padding along rows is cut at compile time,
 * padding along the other axes by the bounds of their tap loops; so no load is masked. Of rows whose length is known
 * only at run time, what all taps reach is taken by register tiles, and each element beside it has bounds of its own.
 * The kernel must have: one reducing stage whose loads are linear in row and taps, later stages without inner dims.
 *
 * Of a convolution to one channel the lanes are channels that are summed up: each neighbour has a vector of partial
 * sums. Those of as many neighbours as there are lanes are folded together, so that what follows runs in lanes along
 * the row. Each of several channels is a pass over the image.
 */
#include "compiler/cpu/window_int.h"
#include "base/mutant.h"

/* -- Code ------------------------------------------------------------------------------------------- */

struct wg {
    struct em *e;
    struct window w;
    int rows;      /* of this register tile */
    int64_t start; /* its constant first row, or -1: no row is cut */
    bool edge;     /* a row of which taps may be cut, known at run time */
    int64_t tap[W_MAX_TAPS];
    LLVMValueRef base[W_MAX_LOADS];
    LLVMValueRef acc[W_MAX_REDS][32];
};

static LLVMValueRef element(struct wg *g, int l, LLVMValueRef base, LLVMValueRef n)
{
    LLVMTypeRef t = em_mem_type(g->e, g->w.k->operands[g->w.k->insns[g->w.load[l].insn].operand].dtype);
    return LLVMBuildGEP2(g->e->b, t, base, &n, 1, "");
}

/* The first row with row_coef * row >= bound. */
static int64_t first_row(const struct w_guard *t, int64_t bound)
{
    return bound <= 0 ? 0 : (bound + t->row_coef - 1) / t->row_coef;
}

/* Rows of the whole image row for which the row guards hold at the current taps. */
static struct em_span row_range(const struct window *w, const int64_t *tap)
{
    struct em_span r = em_span(0, w->nrows);
    for (int i = 0; i < w->nguards; i++) {
        const struct w_guard *t = &w->guard[i];
        if (!t->row_coef)
            continue;
        int64_t rest = ir_const_or(t->rest, 0) + (t->tap >= 0 ? t->tap_coef * tap[t->tap] : 0);
        int64_t end = MUTANT(165, ir_const_or(t->hi, 0), ir_const_or(t->hi, 0) - t->row_coef + 1) - rest;
        r = em_span_cut(r, em_span(first_row(t, ir_const_or(t->lo, 0) - rest), first_row(t, end)));
    }
    return r;
}

static struct em_span interior(const struct window *w)
{
    struct em_span r = em_span(0, w->nrows);
    int64_t tap[W_MAX_TAPS] = {0};
    for (int i = 0; i < w->nguards; i++) {
        const struct w_guard *t = &w->guard[i];
        for (int64_t j = 0; t->row_coef && j < (t->tap >= 0 ? w->tap_n[t->tap] : 1); j++) {
            if (t->tap >= 0)
                tap[t->tap] = j;
            r = em_span_cut(r, row_range(w, tap));
        }
    }
    return r;
}

/* The tile's rows that the current taps reach. */
static struct em_span reached(const struct wg *g)
{
    struct em_span all = em_span(0, g->rows);
    return g->start < 0 ? all : em_span_cut(all, em_span_from(row_range(&g->w, g->tap), g->start));
}

/* One tap: its loads for every row that it reaches, and the reductions. */
static void tap(struct wg *g, LLVMValueRef *at)
{
    struct em *e = g->e;
    const struct kn_kernel *k = g->w.k;
    struct em_span rows = reached(g);
    for (int64_t r = rows.lo; r < rows.hi; r++) {
        em_forget(e, kn_main_stage(k)->first, kn_main_stage(k)->last);
        for (int l = 0; l < g->w.nloads; l++) {
            const struct w_load *t = &g->w.load[l];
            const struct kn_insn *in = &k->insns[t->insn];
            LLVMValueRef p = element(g, l, at[l], em_i64(e, r * t->row));
            e->value[t->insn] =
                em_load(e, k->operands[in->operand].dtype, p, t->uniform ? 1 : g->w.lanes, NULL, NULL, in->operand);
        }
        em_insns(e, kn_main_stage(k)->first, kn_main_stage(k)->last);
        for (int i = 0; i < g->w.nreds; i++) {
            const struct kn_insn *red = &k->insns[g->w.red[i]];
            const struct kn_insn *arg = &k->insns[red->arg[0]];
            if (red->reducer == KN_SUM && tcc_is_float(red->dtype) && red->dtype == arg->dtype &&
                arg->code == KN_SCALAR && arg->op == IR_mul) {
                LLVMValueRef right = em_splat(e, e->value[arg->arg[1]], g->w.lanes);
                g->acc[i][r] = em_fma(e, em_splat(e, e->value[arg->arg[0]], g->w.lanes), right, g->acc[i][r]);
            } else
                g->acc[i][r] = em_reduce_step(e, red->reducer, red->dtype, g->acc[i][r],
                                              em_splat(e, e->value[red->arg[0]], g->w.lanes));
        }
    }
}

/* Bytes of load l at p + offset, or floats of them. */
static LLVMValueRef bytes_at(struct wg *g, int l, LLVMValueRef base, int64_t offset)
{
    struct em *e = g->e;
    int operand = g->w.k->insns[g->w.load[l].insn].operand;
    enum tcc_dtype d = g->w.k->operands[operand].dtype;
    LLVMValueRef p = element(g, l, base, em_i64(e, offset));
    LLVMValueRef v = em_load(e, d, p, g->w.lanes, NULL, NULL, operand);
    return g->w.in_floats ? em_cast(e, TCC_F32, d, v) : v;
}

/* The innermost taps, products of bytes one by one. */
static void single_taps(struct wg *g, LLVMValueRef *at)
{
    const struct window *w = &g->w;
    const struct w_load *u = &w->load[w->dot_u], *s = &w->load[w->dot_s];
    int level = w->ntaps - 1;
    int64_t step_u = ir_const_or(u->tap[level], 0), step_s = ir_const_or(s->tap[level], 0), *t = &g->tap[level];
    for (*t = 0; *t < w->tap_n[level]; ++*t) {
        struct em_span rows = reached(g);
        LLVMValueRef weights = NULL;
        for (int64_t r = rows.lo; r < rows.hi; r++) {
            if (!weights || s->row)
                weights = bytes_at(g, w->dot_s, at[w->dot_s], r * s->row + *t * step_s);
            LLVMValueRef x = bytes_at(g, w->dot_u, at[w->dot_u], r * u->row + *t * step_u);
            g->acc[0][r] = w->in_floats ? em_fma(g->e, x, weights, g->acc[0][r])
                                        : em_cpu(g->e)->multiply_bytes(g->e, x, weights, g->acc[0][r]);
        }
    }
}

/* The innermost taps, products of bytes: neighbours that reach the same rows at once, as many as go together. */
static void dot_taps(struct wg *g, LLVMValueRef *at)
{
    struct em *e = g->e;
    const struct window *w = &g->w;
    const struct w_load *u = &w->load[w->dot_u], *s = &w->load[w->dot_s];
    int64_t step_u = ir_const_or(u->tap[w->ntaps - 1], 0), step_s = ir_const_or(s->tap[w->ntaps - 1], 0);
    int level = w->ntaps - 1, op_u = w->k->insns[u->insn].operand, op_s = w->k->insns[s->insn].operand;
    for (int64_t t = 0, n; t < w->tap_n[level]; t += n) {
        g->tap[level] = t;
        struct em_span rows = reached(g);
        for (n = 1; n < 4 && t + n < w->tap_n[level]; n++) {
            g->tap[level] = t + n;
            struct em_span next = reached(g);
            if (next.lo != rows.lo || next.hi != rows.hi)
                break;
        }
        LLVMValueRef weights = NULL;
        for (int64_t r = rows.lo; r < rows.hi; r++) {
            LLVMValueRef p = element(g, w->dot_s, at[w->dot_s], em_i64(e, r * MUTANT(411, s->row, 0) + t * step_s));
            if (!weights || s->row)
                weights = cpu_dot_group(e, p, step_s, (int)n, w->lanes, op_s);
            p = element(g, w->dot_u, at[w->dot_u], em_i64(e, r * u->row + t * step_u));
            LLVMValueRef bytes = cpu_dot_group(e, p, step_u, (int)n, w->lanes, op_u);
            g->acc[0][r] = cpu_dot_bytes(e, bytes, weights, g->acc[0][r]);
        }
    }
}

/* Do guards of row and tap bound the tap? */
static bool cut_by_row(const struct window *w, int level)
{
    for (int i = 0; i < w->nguards; i++)
        if (w->guard[i].tap == level && w->guard[i].row_coef)
            return true;
    return false;
}

static void taps(struct wg *g, int level, LLVMValueRef *at)
{
    struct em *e = g->e;
    const struct window *w = &g->w;
    LLVMValueRef next[W_MAX_LOADS];
    if (level == W_MAX_TAPS || level == w->ntaps) {
        tap(g, at);
        return;
    }
    if (level == w->ntaps - 1 && w->dot_u >= 0 && !g->edge) {
        (w->in_floats || em_cpu(e)->multiply_bytes ? single_taps : dot_taps)(g, at);
        return;
    }
    if (w->unroll[level] && !(g->edge && cut_by_row(w, level))) {
        for (g->tap[level] = 0; g->tap[level] < w->tap_n[level]; g->tap[level]++) {
            for (int l = 0; l < w->nloads; l++)
                next[l] = element(g, l, at[l], em_expr(e, ir_mulc(w->ctx, w->load[l].tap[level], g->tap[level])));
            taps(g, level + 1, next);
        }
        return;
    }
    ir_expr lo = ir_const(w->ctx, 0), hi = ir_const(w->ctx, w->tap_n[level]);
    for (int i = 0; i < w->nguards; i++) {
        const struct w_guard *t = &w->guard[i];
        if (t->tap != level || (t->row_coef && !g->edge))
            continue;
        ir_expr d = ir_const(w->ctx, t->tap_coef);
        ir_expr rest = ir_add(w->ctx, t->rest, ir_mulc(w->ctx, w->k->dims[w->row].var, t->row_coef));
        lo = ir_max(w->ctx, lo, ir_ceildiv(w->ctx, ir_sub(w->ctx, t->lo, rest), d));
        hi = ir_min(w->ctx, hi, ir_ceildiv(w->ctx, ir_sub(w->ctx, t->hi, rest), d));
    }
    struct em_loop loop;
    em_loop_begin(e, &loop, em_range_of(e, lo, hi), em_i64(e, 1), "tap");
    for (int i = 0; i < w->nreds; i++)
        for (int r = 0; r < g->rows; r++)
            g->acc[i][r] = em_loop_carry(e, &loop, g->acc[i][r]);
    for (int l = 0; l < w->nloads; l++)
        next[l] = element(g, l, at[l], LLVMBuildMul(e->b, loop.iv, em_expr(e, w->load[l].tap[level]), ""));
    taps(g, level + 1, next);
    for (int i = 0, j = 0; i < w->nreds; i++)
        for (int r = 0; r < g->rows; r++)
            em_loop_next(&loop, j++, g->acc[i][r]);
    em_loop_end(e, &loop);
    for (int i = 0, j = 0; i < w->nreds; i++)
        for (int r = 0; r < g->rows; r++)
            g->acc[i][r] = loop.phi[j++];
}

/* Halves of all segments, `seg` lanes long each, of a and b (NULL: of a alone), one behind the other. */
static LLVMValueRef halves(struct em *e, LLVMValueRef a, LLVMValueRef b, int seg, int which)
{
    LLVMValueRef at[2 * EM_MAX_LANES];
    unsigned n = 0, lanes = LLVMGetVectorSize(LLVMTypeOf(a)), total = b ? 2 * lanes : lanes;
    for (unsigned i = 0; i < total; i++)
        if ((int)i % seg / (seg / 2) == which)
            at[n++] = LLVMConstInt(e->t_i32, i, 0);
    return LLVMBuildShuffleVector(e->b, a, b ? b : LLVMGetPoison(LLVMTypeOf(a)), LLVMConstVector(at, n), "");
}

/* The sums over the lanes of n vectors, a power of two and not more than lanes: in one vector. A sum's order does not
 * depend on n. */
static LLVMValueRef fold(struct wg *g, LLVMValueRef *v, int n)
{
    struct em *e = g->e;
    for (int seg = g->w.lanes; seg > 1; seg /= 2) {
        for (int i = 0; i < (n + 1) / 2; i++) {
            LLVMValueRef a = v[2 * i], b = n > 1 ? v[2 * i + 1] : NULL;
            LLVMValueRef right = halves(e, a, b, seg, 1);
            v[i] = LLVMBuildFAdd(e->b, halves(e, a, b, seg, 0), right, "");
        }
        n = (n + 1) / 2;
    }
    return v[0];
}

/* What follows the sums of the tile's rows, in lanes along the row where four rows and more are left. */
static void fold_rows(struct wg *g, LLVMValueRef r0)
{
    struct em *e = g->e;
    const struct kn_kernel *k = e->k;
    ir_expr var = k->dims[g->w.row].var;
    for (int r = 0, n; r < g->rows; r += n) {
        for (n = g->w.lanes; n > g->rows - r; n /= 2)
            ;
        n = n < 4 ? 1 : n;
        LLVMValueRef sum = fold(g, &g->acc[0][r], n);
        em_bind(e, var, LLVMBuildAdd(e->b, r0, em_i64(e, r), ""));
        em_set_lanes(e, n > 1 ? var : NULL, n, NULL);
        em_forget(e, 0, k->ninsns);
        e->value[g->w.red[0]] = n > 1 ? sum : LLVMBuildExtractElement(e->b, sum, em_i64(e, 0), "");
        em_insns(e, kn_main_stage(k)->last, k->ninsns);
    }
    em_forget(e, 0, k->ninsns);
    em_set_lanes(e, k->dims[g->w.vec].var, g->w.lanes, NULL);
}

static void micro(struct wg *g, LLVMValueRef r0, int rows, int64_t start)
{
    struct em *e = g->e;
    const struct kn_kernel *k = g->w.k;
    LLVMValueRef at[W_MAX_LOADS];
    g->rows = rows;
    g->start = start;
    em_bind(e, k->dims[g->w.row].var, r0);
    for (int t = 0; t < g->w.ntaps; t++)
        em_bind(e, k->dims[g->w.tap_dim[t]].var, em_i64(e, 0));
    for (int l = 0; l < g->w.nloads; l++)
        at[l] = em_address(e, k->insns[g->w.load[l].insn].operand, em_expr(e, g->w.load[l].off));
    bool in_floats = g->w.in_floats && !g->edge;
    for (int i = 0; i < g->w.nreds; i++) {
        const struct kn_insn *red = &k->insns[g->w.red[i]];
        enum tcc_dtype d = in_floats ? TCC_F32 : (enum tcc_dtype)red->dtype;
        for (int r = 0; r < rows; r++)
            g->acc[i][r] = em_splat(e, em_reduce_init(e, red->reducer, d), g->w.lanes);
    }
    taps(g, 0, at);
    for (int r = 0; in_floats && r < rows; r++)
        g->acc[0][r] = LLVMBuildFPToSI(e->b, g->acc[0][r], em_vec(e->t_i32, g->w.lanes), "");
    if (g->w.folds) {
        fold_rows(g, r0);
        return;
    }
    for (int r = 0; r < rows; r++) {
        em_bind(e, k->dims[g->w.row].var, LLVMBuildAdd(e->b, r0, em_i64(e, r), ""));
        em_forget(e, 0, k->ninsns);
        for (int i = 0; i < g->w.nreds; i++)
            e->value[g->w.red[i]] = g->acc[i][r];
        em_insns(e, kn_main_stage(k)->last, k->ninsns);
    }
    em_forget(e, 0, k->ninsns);
}

static void image_row(struct wg *g)
{
    struct em *e = g->e;
    int64_t n = g->w.nrows, mr = g->w.mr;
    struct em_span inner = interior(&g->w);
    for (int64_t r = 0; r < n;) {
        int64_t size = r + mr <= n ? mr : n - r, blocks = 0;
        while (em_span_holds(inner, r + blocks * mr, r + (blocks + 1) * mr))
            blocks++;
        if (blocks > 1) {
            struct em_loop l;
            em_loop_begin(e, &l, em_range(e, em_i64(e, r), em_i64(e, r + blocks * mr)), em_i64(e, mr), "rows");
            micro(g, l.iv, (int)mr, -1);
            em_loop_end(e, &l);
            r += blocks * mr;
        } else {
            micro(g, em_i64(e, r), (int)size, em_span_holds(inner, r, r + size) ? -1 : r);
            r += size;
        }
    }
}

/* Of a row of unknown length: the elements that all taps reach, and those in front of and behind them. */
static struct em_edges edges_at_run_time(struct wg *g)
{
    const struct window *w = &g->w;
    struct em *e = g->e;
    ir_expr zero = ir_const(w->ctx, 0), n = w->k->dims[w->row].extent, first = zero, last = zero;
    for (int i = 0; i < w->nguards; i++) {
        const struct w_guard *t = &w->guard[i];
        if (!t->row_coef)
            continue;
        ir_expr c = ir_const(w->ctx, t->row_coef),
                reach = ir_addc(w->ctx, t->rest, t->tap_coef * (w->tap_n[t->tap] - 1));
        first = ir_max(w->ctx, first, ir_ceildiv(w->ctx, ir_sub(w->ctx, t->lo, t->rest), c));
        last = ir_max(w->ctx, last, ir_sub(w->ctx, n, ir_ceildiv(w->ctx, ir_sub(w->ctx, t->hi, reach), c)));
    }
    LLVMValueRef right = em_expr(e, last);
    LLVMValueRef second = em_expr(e, first);
    return em_peel(e, em_points(e, w->row), second, right);
}

/* Register tiles of `rows`, as many as there are in r. Returns the rest. */
static struct em_range whole_tiles(struct wg *g, struct em_range r, int rows)
{
    struct em *e = g->e;
    struct em_loop l;
    struct em_parts tiles = em_tiles(e, r, rows);
    em_loop_begin(e, &l, tiles.whole, em_i64(e, rows), "rows");
    micro(g, l.iv, rows, -1);
    em_loop_end(e, &l);
    return tiles.rest;
}

static void row_at_run_time(struct wg *g)
{
    struct em *e = g->e;
    struct em_loop l;
    struct em_edges row = edges_at_run_time(g);
    struct em_range left = row.inner;
    for (int rows = g->w.mr; rows > 0; rows = rows > 3 ? (rows + 1) / 2 : rows - 1)
        left = whole_tiles(g, left, rows);
    LLVMValueRef right = em_length(e, row.last);
    LLVMValueRef edges = LLVMBuildAdd(e->b, em_length(e, row.first), right, "");
    em_loop_begin(e, &l, em_below(e, edges), em_i64(e, 1), "edges");
    LLVMValueRef behind = LLVMBuildAdd(e->b, row.last.lo, LLVMBuildSub(e->b, l.iv, row.first.hi, ""), "");
    LLVMValueRef in_front = LLVMBuildICmp(e->b, LLVMIntSLT, l.iv, row.first.hi, "");
    g->edge = true;
    micro(g, LLVMBuildSelect(e->b, in_front, l.iv, behind, ""), 1, -1);
    g->edge = false;
    em_loop_end(e, &l);
}

static void emit(struct em *e)
{
    struct wg g = {.e = e};
    struct em_tiles t;
    struct em_loop loop[KN_MAX_DIMS], lanes;
    const struct kn_kernel *k = e->k;
    int nouter = em_nouter(k);
    struct cpu_schedule s = cpu_get_schedule(k);
    if (!cpu_find_window(em_cpu(e), e->ctx, k, s.how == CPU_FOLD, &g.w))
        return; /* cannot be: its schedule said that it can */
    g.w.mr = s.mr < g.w.mr ? s.mr : g.w.mr;
    em_tiles_begin(e, &t);
    for (int d = 0; d < nouter; d++) {
        if (d == g.w.vec || d == g.w.row)
            continue;
        em_loop_begin(e, &loop[d], t.at[d], em_i64(e, 1), "d");
        em_bind(e, k->dims[d].var, loop[d].iv);
    }
    if (!g.w.folds)
        em_loop_begin(e, &lanes, t.at[g.w.vec], em_i64(e, g.w.lanes), "lanes");
    em_bind(e, k->dims[g.w.vec].var, g.w.folds ? em_i64(e, 0) : lanes.iv);
    em_set_lanes(e, k->dims[g.w.vec].var, g.w.lanes, NULL);
    if (g.w.nrows)
        image_row(&g);
    else
        row_at_run_time(&g);
    em_set_lanes(e, NULL, 1, NULL);
    if (!g.w.folds)
        em_loop_end(e, &lanes);
    for (int d = nouter - 1; d >= 0; d--)
        if (d != g.w.vec && d != g.w.row)
            em_loop_end(e, &loop[d]);
    em_tiles_end(e, &t);
}

/* -- Schedule --------------------------------------------------------------------------------------- */

static bool schedule(const struct cpu_machine *m, struct ir_ctx *ctx, struct kn_kernel *k, enum cpu_how how)
{
    struct window w;
    if (!cpu_find_window(m, ctx, k, how == CPU_FOLD, &w))
        return false;
    int64_t edges = 0;
    struct em_span inner = interior(&w);
    for (int64_t r = 0; r < w.nrows; r += w.mr)
        edges += !em_span_holds(inner, r, r + w.mr < w.nrows ? r + w.mr : w.nrows);
    if (edges > 8)
        return false;
    cpu_put_schedule(k, (struct cpu_schedule){.how = how, .mr = w.mr});
    /* Tiles of about 5,000 vector steps (a microsecond or two): outer dims are cut from the first on. */
    double now = 1, target = 5000;
    for (int d = 0; d < k->ndims; d++)
        now *= (double)ir_const_or(k->dims[d].extent, d ? CPU_IMAGE_GUESS : 8);
    now /= w.lanes;
    if (now / 64 > target)
        target = now / 64;
    for (int d = 0; d < em_nouter(k) && now > 2 * target; d++) {
        if (d == w.vec || d == w.row)
            continue;
        int64_t n = ir_const_or(k->dims[d].extent, d ? CPU_IMAGE_GUESS : 8), t = (int64_t)(n * target / now) + 1;
        if (n < 2)
            continue;
        k->schedule.tile[d] = t < n ? t : 0;
        now = now * (t < n ? t : n) / n;
    }
    k->tiles = em_tile_count(ctx, k);
    k->scratch = ir_const(ctx, 0);
    return true;
}

static bool schedule_depthwise(const struct cpu_machine *m, struct ir_ctx *ctx, struct kn_kernel *k)
{
    return k->roles.form == KN_CONTRACTION && schedule(m, ctx, k, CPU_DEPTHWISE);
}

static bool schedule_fold(const struct cpu_machine *m, struct ir_ctx *ctx, struct kn_kernel *k)
{
    return k->roles.form == KN_CONTRACTION && schedule(m, ctx, k, CPU_FOLD);
}

static bool schedule_pool(const struct cpu_machine *m, struct ir_ctx *ctx, struct kn_kernel *k)
{
    return k->roles.form != KN_CONTRACTION && schedule(m, ctx, k, CPU_POOL);
}

const struct cpu_template cpu_template_depthwise = {CPU_DEPTHWISE, schedule_depthwise, emit};
const struct cpu_template cpu_template_pool = {CPU_POOL, schedule_pool, emit};
const struct cpu_template cpu_template_fold = {CPU_FOLD, schedule_fold, emit};
