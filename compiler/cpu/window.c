/* SPDX-License-Identifier: Apache-2.0 */
/*
 * window.c - sliding windows without a sum over channels, depthwise convolution and pooling in a channel-blocked
 * layout; and convolutions to one channel, which are the same but for a sum over the lanes at the end.
 *
 * The vector runs over channel lanes, a register tile holds mr neighbouring outputs of one row of the image, and every
 * tap is one load (and one multiply-add or maximum) for each of them. Padding along rows is cut at compile time,
 * padding along the other axes by the bounds of their tap loops; so no load is masked. Of rows whose length is known
 * only at run time, what all taps reach is taken by register tiles, and each element beside it has bounds of its own.
 * The kernel must have: one reducing stage whose loads are linear in row and taps, later stages without inner dims.
 *
 * Of a convolution to one channel the lanes are channels that are summed up: each neighbour has a vector of partial
 * sums. Those of as many neighbours as there are lanes are folded together, so that what follows runs in lanes along
 * the row.
 */
#include "compiler/cpu/emit_int.h"
#include "ir/ir.h"
#include "base/mutant.h"

#define W_MAX_LOADS 4
#define W_MAX_REDS KN_MAX_REDUCTIONS
#define W_MAX_TAPS 4
#define W_MAX_GUARDS 8
enum { W_ROW_TILE = 8 }; /* of rows of unknown length */

struct w_load {
    int insn;
    int64_t row;
    bool uniform;
    ir_expr off, tap[W_MAX_TAPS]; /* elements to the next tap: sizes may be in it */
};
struct w_guard {
    int64_t row_coef, tap_coef;
    int tap;
    ir_expr rest, lo, hi;
};

struct window {
    struct ir_ctx *ctx;
    const struct kn_kernel *k;
    bool folds;    /* lanes are summed up: vec is an inner dim */
    int vec, row;  /* kernel dims: lanes, neighbours */
    int64_t nrows; /* 0: known only at run time, as are the rows that all taps reach */
    int lanes, mr;
    int ntaps, tap_dim[W_MAX_TAPS];
    int64_t tap_n[W_MAX_TAPS];
    bool unroll[W_MAX_TAPS];
    int nloads, nreds, nguards;
    struct w_load load[W_MAX_LOADS];
    int red[W_MAX_REDS];
    struct w_guard guard[W_MAX_GUARDS];
    int dot_u, dot_s; /* loads whose bytes are multiplied, unsigned and signed: several taps at once; -1: none */
    bool in_floats;   /* .. one tap at a time, by multiply-adds of floats, whose sums are exact */
};

static bool coefficient_expr(struct ir_ctx *ctx, ir_expr e, ir_expr sym, ir_expr *c)
{
    ir_expr rest;
    *c = ir_const(ctx, 0);
    return !ir_uses_sym(e, sym) || ir_linear_in(ctx, e, sym, c, &rest);
}

static bool coefficient(struct ir_ctx *ctx, ir_expr e, ir_expr sym, int64_t *c)
{
    ir_expr coef;
    return coefficient_expr(ctx, e, sym, &coef) && ir_is_const(coef, c);
}

static ir_expr flat_offset(struct ir_ctx *ctx, const struct kn_kernel *k, const struct kn_insn *in)
{
    const struct kn_operand *o = &k->operands[in->operand];
    ir_expr off = ir_const(ctx, 0);
    for (int p = 0; p < o->rank; p++)
        off = ir_add(ctx, ir_mul(ctx, off, o->dims[p]), in->index[p]);
    return off;
}

/* Is it the constant that a maximum (a minimum) of its type begins with? */
static bool is_extreme(const struct kn_insn *c, bool most)
{
    enum tcc_dtype d = c ? (enum tcc_dtype)c->dtype : TCC_NONE;
    if (!c || (!tcc_is_float(d) && !tcc_is_int(d)))
        return false;
    if (tcc_is_float(d))
        return c->fvalue == (most ? __builtin_inf() : -__builtin_inf());
    int bits = 8 * tcc_dtype_bytes(d);
    int64_t high = tcc_is_signed(d) ? (int64_t)((UINT64_C(1) << (bits - 1)) - 1) : (int64_t)((UINT64_C(1) << bits) - 1);
    return bits < 64 && c->ivalue == (most ? high : tcc_is_signed(d) ? -high - 1 : 0);
}

/* What a load gives where its guards fail leaves reduction r as it was. */
static bool skips(const struct kn_kernel *k, const struct kn_insn *load, const struct kn_insn *red, int value)
{
    const struct kn_insn *in = &k->insns[value], *other = load->arg[0] >= 0 ? &k->insns[load->arg[0]] : NULL;
    if (in == load) {
        double f = other ? other->fvalue : 0;
        if (other && other->code != KN_CONST)
            return false;
        return red->reducer == KN_SUM   ? (other ? tcc_is_float(other->dtype) ? f == 0 : other->ivalue == 0 : true)
               : red->reducer == KN_MAX ? is_extreme(other, false)
               : red->reducer == KN_MIN ? is_extreme(other, true)
                                        : false;
    }
    if (red->reducer != KN_SUM || in->code != KN_SCALAR || (in->op != IR_mul && in->op != IR_cast))
        return false;
    for (int a = 0; a < in->nargs; a++)
        if (skips(k, load, red, in->arg[a]))
            return true;
    return false;
}

static bool find_guards(struct window *w, const struct kn_insn *in)
{
    for (int r = 0; r < w->nreds; r++)
        if (in->nguards && !skips(w->k, in, &w->k->insns[w->red[r]], w->k->insns[w->red[r]].arg[0]))
            return false;
    for (int g = 0; g < in->nguards; g++) {
        if (w->nguards == W_MAX_GUARDS)
            return false;
        struct w_guard *t = &w->guard[w->nguards++];
        ir_expr coef, e = in->guards[g].e;
        *t = (struct w_guard){.tap = -1, .lo = in->guards[g].lo, .hi = in->guards[g].hi};
        for (int i = 0; i < w->ntaps; i++) {
            ir_expr v = w->k->dims[w->tap_dim[i]].var;
            if (!ir_uses_sym(e, v))
                continue;
            if (t->tap >= 0 || !ir_linear_in(w->ctx, e, v, &coef, &t->rest))
                return false;
            t->tap = i;
            t->tap_coef = ir_const_or(coef, 0);
            e = t->rest;
        }
        ir_expr v = w->k->dims[w->row].var;
        if (ir_uses_sym(e, v)) {
            if (!ir_linear_in(w->ctx, e, v, &coef, &t->rest))
                return false;
            t->row_coef = ir_const_or(coef, 0);
            e = t->rest;
            bool known = ir_is_const(e, NULL) && ir_is_const(t->lo, NULL) && ir_is_const(t->hi, NULL);
            if (t->row_coef <= 0 || (t->tap >= 0 && w->tap_n[t->tap] > 16) || (w->nrows && !known) ||
                (!w->nrows && (t->tap < 0 || t->tap_coef <= 0)))
                return false;
            if (t->tap >= 0)
                w->unroll[t->tap] = true;
        } else if (t->tap < 0 || t->tap_coef <= 0) {
            return false;
        }
        if (ir_uses_sym(e, w->k->dims[w->vec].var))
            return false;
        t->rest = e;
    }
    return true;
}

/* Elements from one step of a tap to the next; lanes that don't fit in a vector are a tap too. */
static ir_expr tap_step(const struct window *w, int tap, ir_expr coef)
{
    return ir_mulc(w->ctx, coef, w->tap_dim[tap] == w->vec ? w->lanes : 1);
}

/* Does it change from one element that is made to the next, or from tap to tap? */
static bool changes(const struct window *w, ir_expr e)
{
    bool does = ir_uses_sym(e, w->k->dims[w->row].var) || ir_uses_sym(e, w->k->dims[w->vec].var);
    for (int t = 0; t < w->ntaps; t++)
        does = does || ir_uses_sym(e, w->k->dims[w->tap_dim[t]].var);
    return does;
}

static bool find_load(struct window *w, int i)
{
    const struct kn_insn *in = &w->k->insns[i];
    if (w->nloads == W_MAX_LOADS)
        return false;
    struct w_load *l = &w->load[w->nloads++];
    int64_t c;
    l->insn = i;
    l->off = flat_offset(w->ctx, w->k, in);
    if (!coefficient(w->ctx, l->off, w->k->dims[w->row].var, &l->row) ||
        !coefficient(w->ctx, l->off, w->k->dims[w->vec].var, &c) || (c != 0 && c != 1))
        return false;
    l->uniform = c == 0;
    for (int t = 0; t < w->ntaps; t++)
        if (!coefficient_expr(w->ctx, l->off, w->k->dims[w->tap_dim[t]].var, &l->tap[t]) || changes(w, l->tap[t]))
            return false;
    for (int t = 0; t < w->ntaps; t++)
        l->tap[t] = tap_step(w, t, l->tap[t]);
    for (int g = 0; w->folds && g < in->nguards; g++)
        if (ir_uses_sym(in->guards[g].e, w->k->dims[w->vec].var))
            return false;
    return (!w->folds || !l->uniform) && find_guards(w, in);
}

/* The lane dim: short, constant, of unit stride in the first store; of sums over the lanes the last inner one. */
static bool find_lanes(struct window *w, const struct cpu_machine *m)
{
    const struct kn_kernel *k = w->k;
    int64_t n = 0, c;
    w->vec = -1;
    for (int d = 0; w->folds && d < k->ndims; d++)
        if (k->dims[d].role == KN_INNER && ir_is_const(k->dims[d].extent, &n) && n > 1)
            w->vec = d;
    for (int i = k->stages[0].last; !w->folds && i < k->ninsns && w->vec < 0; i++) {
        if (k->insns[i].code != KN_STORE)
            continue;
        ir_expr off = flat_offset(w->ctx, k, &k->insns[i]);
        for (int d = 0; d < em_nouter(k); d++)
            if (coefficient(w->ctx, off, k->dims[d].var, &c) && c == 1 && ir_is_const(k->dims[d].extent, &n) && n > 1)
                w->vec = d;
        break;
    }
    if (w->vec < 0)
        return false;
    n = ir_const_or(k->dims[w->vec].extent, 0);
    w->lanes = cpu_lanes(m, 4);
    while (w->lanes > 1 && n % w->lanes)
        w->lanes /= 2;
    return w->lanes >= 4;
}

/* The row: the last outer dim beside the lanes. */
static bool find_dims(struct window *w, const struct cpu_machine *m)
{
    const struct kn_kernel *k = w->k;
    int64_t n;
    w->row = -1;
    if (!find_lanes(w, m))
        return false;
    for (int d = 0; d < em_nouter(k); d++)
        if (d != w->vec && ir_const_or(k->dims[d].extent, 2) > 1)
            w->row = d;
    for (int d = 0; d < k->ndims; d++) {
        if (k->dims[d].role != KN_INNER)
            continue;
        if (!ir_is_const(k->dims[d].extent, &n))
            return false;
        n = d == w->vec ? n / w->lanes : n;
        if (d == w->vec && n == 1)
            continue;
        if (w->ntaps == W_MAX_TAPS)
            return false;
        w->tap_n[w->ntaps] = n;
        w->tap_dim[w->ntaps++] = d;
    }
    w->nrows = w->row < 0 ? 0 : ir_const_or(k->dims[w->row].extent, 0);
    return w->row >= 0 && w->ntaps;
}

/* The load that instruction i widens to i32, if it is one of bytes of type d; or -1. */
static int widened(const struct window *w, int i, enum tcc_dtype d)
{
    const struct kn_insn *n = &w->k->insns[i];
    for (int l = 0; n->code == KN_SCALAR && n->op == IR_cast && n->dtype == TCC_I32 && l < w->nloads; l++)
        if (w->load[l].insn == n->arg[0] && w->k->insns[n->arg[0]].dtype == d && !w->load[l].uniform)
            return l;
    return -1;
}

/* A sum of products of unsigned by signed bytes, whose innermost taps are unrolled? */
static void find_dot(struct window *w)
{
    const struct kn_insn *red = &w->k->insns[w->red[0]], *mul = &w->k->insns[red->arg[0]];
    w->dot_u = w->dot_s = -1;
    if (w->nreds != 1 || w->nloads != 2 || red->reducer != KN_SUM || red->dtype != TCC_I32 || mul->code != KN_SCALAR ||
        mul->op != IR_mul || !w->unroll[w->ntaps - 1] || !ir_is_const(w->load[0].tap[w->ntaps - 1], NULL) ||
        !ir_is_const(w->load[1].tap[w->ntaps - 1], NULL))
        return;
    for (int i = 0; i < 2; i++) {
        int u = widened(w, mul->arg[i], TCC_U8), s = widened(w, mul->arg[1 - i], TCC_I8);
        if (u >= 0 && s >= 0) {
            w->dot_u = u;
            w->dot_s = s;
        }
    }
}

/*
 * Without an instruction for groups of bytes a float's multiply-add takes a tap, where widened bytes take a product of
 * two taps and a sum, and shifts that bring their taps together. What is converted serves all taps of a row.
 */
static bool floats_pay(const struct cpu_machine *m, const struct window *w)
{
    int64_t most = 255 * 128; /* a tap's product */
    for (int t = 0; t < w->ntaps; t++)
        most *= w->tap_n[t] < 1 << 12 ? w->tap_n[t] : 1 << 12;
    return w->dot_u >= 0 && m->dot_halves && !m->multiplies_bytes && m->emit.fma && most <= 1 << 24;
}

/* Neighbours in a register tile. */
static int tile_rows(const struct cpu_machine *m, const struct window *w)
{
    int max = m->registers / 2 / w->nreds; /* the rest for loads that LLVM moves up */
    if (w->folds)
        return w->lanes < max ? w->lanes : max;
    max = max < 1 ? 1 : max > 14 ? 14 : max;
    int64_t blocks = (w->nrows + max - 1) / max;
    return w->nrows ? (int)((w->nrows + blocks - 1) / blocks) : max < W_ROW_TILE ? max : W_ROW_TILE;
}

/* Sums of floats, one in each point, may be folded. */
static bool may_fold(const struct window *w)
{
    const struct kn_insn *red = &w->k->insns[w->red[0]];
    return w->nreds == 1 && red->reducer == KN_SUM && red->dtype == TCC_F32;
}

/* What a pooling reduces, or a convolution whose results have no columns of their own. */
static bool find_reductions(struct window *w)
{
    const struct kn_contraction *c = &w->k->roles.contraction;
    if (w->k->roles.form == KN_REDUCTION)
        for (; w->nreds < W_MAX_REDS && w->k->roles.reduction.reduce[w->nreds] >= 0; w->nreds++)
            w->red[w->nreds] = w->k->roles.reduction.reduce[w->nreds];
    else if (kn_only_multiplies(w->k) && !c->n)
        w->red[w->nreds++] = c->reduce;
    return w->nreds > 0;
}

static bool analyse(const struct cpu_machine *m, struct ir_ctx *ctx, const struct kn_kernel *k, bool folds,
                    struct window *w)
{
    *w = (struct window){.ctx = ctx, .k = k, .folds = folds};
    if (k->kind != IR_K_WINDOW || !find_reductions(w) || !find_dims(w, m))
        return false;
    for (int i = k->stages[0].first; i < k->stages[0].last; i++) {
        int code = k->insns[i].code;
        if (code != KN_REDUCE && code != KN_LOAD && code != KN_SCALAR && code != KN_CONST)
            return false;
    }
    for (int i = k->stages[0].first; i < k->stages[0].last; i++)
        if (k->insns[i].code == KN_LOAD && !find_load(w, i))
            return false;
    if (!w->nloads || (folds && !may_fold(w)))
        return false;
    for (int t = 0; t < w->ntaps; t++) {
        bool bounded =
            false; /* by guards that don't depend on the row: bounds of the tap's loop, which has to be one then */
        for (int i = 0; i < w->nguards; i++)
            bounded |= w->guard[i].tap == t && !w->guard[i].row_coef;
        if (bounded && w->unroll[t])
            return false;
        w->unroll[t] |= !bounded && t == w->ntaps - 1 && w->tap_n[t] <= 7;
    }
    find_dot(w);
    w->in_floats = floats_pay(m, w);
    w->mr = tile_rows(m, w);
    return true;
}

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
        em_forget(e, k->stages[0].first, k->stages[0].last);
        for (int l = 0; l < g->w.nloads; l++) {
            const struct w_load *t = &g->w.load[l];
            const struct kn_insn *in = &k->insns[t->insn];
            LLVMValueRef p = element(g, l, at[l], em_i64(e, r * t->row));
            e->value[t->insn] =
                em_load(e, k->operands[in->operand].dtype, p, t->uniform ? 1 : g->w.lanes, NULL, NULL, in->operand);
        }
        em_insns(e, k->stages[0].first, k->stages[0].last);
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

/* Bytes of load l at p + offset, as floats. */
static LLVMValueRef floats_at(struct wg *g, int l, LLVMValueRef base, int64_t offset)
{
    struct em *e = g->e;
    int operand = g->w.k->insns[g->w.load[l].insn].operand;
    enum tcc_dtype d = g->w.k->operands[operand].dtype;
    LLVMValueRef p = element(g, l, base, em_i64(e, offset));
    return em_cast(e, TCC_F32, d, em_load(e, d, p, g->w.lanes, NULL, NULL, operand));
}

/* The innermost taps, products of bytes as floats. */
static void float_taps(struct wg *g, LLVMValueRef *at)
{
    const struct window *w = &g->w;
    const struct w_load *u = &w->load[w->dot_u], *s = &w->load[w->dot_s];
    int level = w->ntaps - 1;
    int64_t step_u = ir_const_or(u->tap[level], 0), step_s = ir_const_or(s->tap[level], 0), *t = &g->tap[level];
    for (*t = 0; *t < w->tap_n[level]; ++*t) {
        struct em_span rows = reached(g);
        LLVMValueRef weights = rows.lo < rows.hi ? floats_at(g, w->dot_s, at[w->dot_s], *t * step_s) : NULL;
        for (int64_t r = rows.lo; r < rows.hi; r++) {
            LLVMValueRef x = floats_at(g, w->dot_u, at[w->dot_u], r * u->row + *t * step_u);
            g->acc[0][r] = em_fma(g->e, x, weights, g->acc[0][r]);
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
        if (rows.lo == rows.hi)
            continue;
        LLVMValueRef p = element(g, w->dot_s, at[w->dot_s], em_i64(e, t * step_s));
        LLVMValueRef weights = cpu_dot_group(e, p, step_s, (int)n, w->lanes, op_s);
        for (int64_t r = rows.lo; r < rows.hi; r++) {
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
    if (level == w->ntaps) {
        tap(g, at);
        return;
    }
    if (level == w->ntaps - 1 && w->dot_u >= 0 && !g->edge) {
        (w->in_floats ? float_taps : dot_taps)(g, at);
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
        em_insns(e, k->stages[0].last, k->ninsns);
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
        em_insns(e, k->stages[0].last, k->ninsns);
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
    if (!analyse(em_cpu(e), e->ctx, k, s.how == CPU_FOLD, &g.w))
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
    if (!analyse(m, ctx, k, how == CPU_FOLD, &w))
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
