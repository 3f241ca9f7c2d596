/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contract_micro.c - the register tile of contractions: an outer-product micro-kernel whose accumulators stay in vector
 * registers over the whole sum.
 *
 * Long sums are taken in parts of about SUM_PART products, each begun at zero: rounding errors then grow with the root
 * of a part's length and of the number of parts, not with that of the whole (Higham, Accuracy and Stability of
 * Numerical Algorithms, 4.2).
 *
 * A step of the sum loads cv vectors of B and, for each row, one element of A that is splat into a vector, and does
 * mr * cv multiply-adds. Loops of the sum carry the accumulators as phis. Where padding cuts rows off (start >= 0), the
 * guarded loop is unrolled and each tap runs only the rows that it has, known at compile time.
 */
#include "compiler/cpu/contract_step_int.h"
#include "ir/ir.h"
#include "base/mutant.h"

#define SUM_PART 256

static LLVMValueRef offset_of(struct sum *s, LLVMValueRef base, int level, LLVMValueRef index, bool b)
{
    return cg_step(s->g, base, index, b ? s->sb[level] : s->sa[level], b ? s->eb[level] : s->ea[level]);
}

/* Are the taps that a row has known when compiling, and not all rows have the same? */
static bool by_taps(const struct sum *s)
{
    return s->start >= 0 || (s->start <= CG_FIRST_ROWS && s->start >= CG_BOTH_ROWS);
}

/* Rows of this register tile that the current taps reach. */
static struct em_span active_rows(struct sum *s)
{
    const struct ct *c = &s->g->c;
    struct em_span all = em_span(0, s->mr);
    if (!by_taps(s))
        return all;
    if (s->start >= 0)
        return em_span_cut(all, em_span_from(ct_row_range(c, s->tap), s->start));
    int64_t tap = s->tap[c->guards[c->edge].k];
    int64_t first = s->start == CG_LAST_ROWS ? 0 : ct_cut_rows(c, false, tap);
    int64_t last = s->start == CG_FIRST_ROWS ? 0 : ct_cut_rows(c, true, tap);
    return em_span_cut(all, em_span(first, s->mr - last));
}

/* Points of the low part of a dim, of which the last block has less. */
static struct em_range in_block(struct sum *s, int level)
{
    struct em *e = s->g->e;
    const struct ct_k *low = &s->g->c.ks[level], *high = s->g->c.ks;
    while (high->dim != low->dim)
        high++;
    LLVMValueRef last = em_i64(e, high->n - 1), at = s->at[high - s->g->c.ks];
    LLVMValueRef ends = LLVMBuildICmp(e->b, LLVMIntEQ, at, last, "");
    return em_below(e, LLVMBuildSelect(e->b, ends, em_i64(e, low->last), em_i64(e, low->n), ""));
}

/* Points of loop `level`: its extent, cut by the guards that hold its variable and no row. */
static struct em_range bounds(struct sum *s, int level)
{
    const struct ct *c = &s->g->c;
    struct ir_ctx *ctx = c->ctx;
    if (c->ks[level].last)
        return in_block(s, level);
    ir_expr lo = ir_const(ctx, 0), hi = c->ks[level].extent;
    for (int i = 0; i < c->nguards; i++) {
        const struct ct_guard *t = &c->guards[i];
        if (t->k != level || (t->row_coef && s->start != CG_ONE_ROW))
            continue;
        ir_expr d = ir_const(ctx, t->k_coef), rest = t->rest;
        if (t->row_coef)
            rest = ir_add(ctx, rest, ir_mulc(ctx, c->k->dims[c->row].var, t->row_coef));
        lo = ir_max(ctx, lo, ir_ceildiv(ctx, ir_sub(ctx, t->lo, rest), d));
        hi = ir_min(ctx, hi, ir_ceildiv(ctx, ir_sub(ctx, t->hi, rest), d));
    }
    return em_range_of(s->g->e, lo, hi);
}

/* Of rows, those whose sums are held together. */
static struct em_span held(const struct sum *s, struct em_span rows)
{
    return s->g->c.square ? em_span(rows.lo / 2 * 2, ct_held_rows(&s->g->c, rows.hi)) : rows;
}

/* A loop's accumulators: only those of the active rows go around. */
static void carry(struct sum *s, struct em_loop *l, struct em_span rows)
{
    rows = held(s, rows);
    for (int c = 0; c < s->cv && s->sums_less; c++)
        s->less[c] = em_loop_carry(s->g->e, l, s->less[c]);
    for (int64_t i = rows.lo * s->cv; i < rows.hi * s->cv; i++)
        s->acc[i] = em_loop_carry(s->g->e, l, s->acc[i]);
}

static void carry_end(struct sum *s, struct em_loop *l, struct em_span rows)
{
    rows = held(s, rows);
    int n = s->sums_less ? s->cv : 0;
    for (int c = 0; c < n; c++)
        em_loop_next(l, c, s->less[c]);
    for (int64_t i = rows.lo * s->cv, j = n; i < rows.hi * s->cv; i++, j++)
        em_loop_next(l, (int)j, s->acc[i]);
    em_loop_end(s->g->e, l);
    for (int c = 0; c < n; c++)
        s->less[c] = l->phi[c];
    for (int64_t i = rows.lo * s->cv, j = n; i < rows.hi * s->cv; i++, j++)
        s->acc[i] = l->phi[j];
}

/* Sums of f16 are short, and none longer than CT_HALF_PART steps: they would lose too much, and overflow. */
static void plan_half_parts(struct sum *s)
{
    const struct ct *c = &s->g->c;
    int64_t inner = 1, most = s->apart ? CT_HALF_PART / 2 : CT_HALF_PART; /* each sum takes both of a pair */
    int level = c->nks - 1;
    while (level > 0 && c->ks[level].n != CT_DYN && inner * c->ks[level].n <= most)
        inner *= c->ks[level--].n;
    int64_t n = c->ks[level].n;
    if (!inner || (n != CT_DYN && inner * n <= most))
        return;
    s->part_level = level;
    s->part = most / inner;
    if (n != CT_DYN) {
        int64_t parts = (n + s->part - 1) / s->part;
        s->part = (n + parts - 1) / parts;
    }
    if (level == c->nks - 1 && c->by_lane) /* of whole turns; so is the most */
        s->part = (s->part + c->by_lane - 1) / c->by_lane * c->by_lane;
}

int64_t ct_part_points(const struct ct *c, int level, int64_t inner)
{
    /* A part of the innermost loop alone costs about what 4 of its steps do: there they are longer. */
    int64_t n = c->ks[level].n, most = level == c->nks - 1 ? 2 * SUM_PART : SUM_PART;
    if (MUTANT(349, !inner, false) || (n != CT_DYN && inner * n < most + most / 2))
        return 0; /* short, or of nothing: an extent is 0 */
    int64_t part = most / inner;
    if (n != CT_DYN) {
        int64_t parts = (inner * n + most - 1) / most;
        part = (n + parts - 1) / parts;
    }
    return level == c->nks - 1 ? (part + 3) & ~(int64_t)3 : part;
}

/* The outermost loop of which a point is no more than a part; per point of the loops around it, its points are
 * grouped. */
static void plan_parts(struct sum *s)
{
    const struct ct *c = &s->g->c;
    int64_t inner = 1;
    int level = c->nks - 1;
    s->part_level = -1;
    if (!tcc_is_float(c->dtype) || c->nks < 1)
        return;
    if (ct_half(c)) {
        plan_half_parts(s);
        return;
    }
    while (level > 0 && c->ks[level].n != CT_DYN && inner * c->ks[level].n <= SUM_PART)
        inner *= c->ks[level--].n;
    s->part = ct_part_points(c, level, inner);
    s->part_level = s->part ? level : -1;
}

static void part_begin(struct sum *s, LLVMValueRef *so_far)
{
    for (int i = 0; i < ct_held_rows(&s->g->c, s->mr) * s->cv; i++) {
        so_far[i] = s->acc[i];
        s->acc[i] = LLVMConstNull(cg_dot_sums(s->g, s->pairs));
    }
}

static void part_end(struct sum *s, LLVMValueRef *so_far)
{
    LLVMOpcode add = tcc_is_float(s->g->c.dtype) ? LLVMFAdd : LLVMAdd;
    for (int i = 0; i < ct_held_rows(&s->g->c, s->mr) * s->cv; i++) {
        LLVMValueRef sums = s->acc[i], all = so_far[i];
        if (s->apart && i % 2 == 0)
            s->acc[i + 1] = sums;
        if (!LLVMIsNull(sums)) {
            LLVMValueRef total = s->apart ? cg_apart_total(s->g, sums, i % 2) : cg_dot_total(s->g, sums);
            all = LLVMBuildBinOp(s->g->e->b, add, all, total, "");
        }
        s->acc[i] = all;
    }
}

/* -- Loops ------------------------------------------------------------------------------------------------ */

/* How many points are there, where they are known to begin at 0? */
static int64_t known_points(struct em_range r)
{
    int64_t lo = 1, hi;
    return em_known(r.lo, &lo) && lo == 0 && em_known(r.hi, &hi) ? hi : CT_DYN;
}

/* As many steps from the i-th on as lanes of A give at once. */
static void steps_by_lane_at(struct sum *s, int level, LLVMValueRef a, LLVMValueRef b, int64_t i, struct em_span rows)
{
    LLVMValueRef at_b = cg_gepc(s->g, b, i * s->sb[level]);
    cg_sum_steps_by_lane(s, cg_gepc(s->g, a, i * s->sa[level]), at_b, rows);
}

/* Points of the innermost loop: unrolled by two or four, the rest after it. */
static void points(struct sum *s, LLVMValueRef a, LLVMValueRef b, struct em_range all)
{
    struct cg *g = s->g;
    struct em *e = g->e;
    struct em_loop l;
    int level = g->c.nks - 1, u = cg_unroll(s);
    int64_t n = known_points(all);
    struct em_span active = active_rows(s);
    if (s->sa[level] == CT_DYN || s->sb[level] == CT_DYN)
        u = 1;
    struct em_parts parts = {.whole = all};
    bool whole = g->c.ks[level].last && g->c.ks[level].last % u == 0 && g->c.ks[level].n % u == 0;
    if (u > 1 && !whole)
        parts = em_tiles(e, all, u);
    em_loop_begin(e, &l, parts.whole, em_i64(e, MUTANT(160, u, u + 1)), "k");
    carry(s, &l, active);
    LLVMValueRef pa = offset_of(s, a, level, l.iv, false), pb = offset_of(s, b, level, l.iv, true);
    cg_fetch(s, pb);
    bool by_lane = g->c.by_lane && u > 1;
    for (int i = 0; i < u && by_lane; i += g->c.by_lane)
        steps_by_lane_at(s, level, pa, pb, i, active);
    for (int i = 0; i < u && !by_lane; i++)
        cg_sum_step_at(s, level, pa, pb, i, active);
    carry_end(s, &l, active);
    if (n != CT_DYN) {
        for (int64_t i = MUTANT(161, n / u * u, n); i < n; i++)
            cg_sum_step_at(s, level, a, b, i, active);
    } else if (u > 1 && !whole) {
        em_loop_begin(e, &l, parts.rest, em_i64(e, 1), "krest");
        carry(s, &l, active);
        LLVMValueRef other = offset_of(s, b, level, l.iv, true);
        cg_sum_step(s, offset_of(s, a, level, l.iv, false), other, active);
        carry_end(s, &l, active);
    }
}

/* One part of the innermost loop: n of its points. */
static void one_part(struct sum *s, LLVMValueRef a, LLVMValueRef b, LLVMValueRef at, LLVMValueRef n)
{
    LLVMValueRef so_far[CPU_TILE_SUMS];
    int level = s->g->c.nks - 1;
    part_begin(s, so_far);
    LLVMValueRef right = offset_of(s, b, level, at, true);
    points(s, offset_of(s, a, level, at, false), right, em_below(s->g->e, n));
    part_end(s, so_far);
}

/* The innermost loop in parts. */
static void innermost_parts(struct sum *s, LLVMValueRef a, LLVMValueRef b, struct em_range all)
{
    struct em *e = s->g->e;
    bool known = known_points(all) != CT_DYN;
    struct em_parts parts = {.whole = all};
    if (known)
        parts = em_tiles(e, all, s->part);
    struct em_loop l;
    LLVMValueRef part = em_i64(e, s->part);
    em_loop_begin(e, &l, parts.whole, part, "part");
    carry(s, &l, em_span(0, s->mr));
    one_part(s, a, b, l.iv, known ? part : em_length(e, em_first(e, all, l.iv, part)));
    carry_end(s, &l, em_span(0, s->mr));
    if (known && MUTANT(162, known_points(parts.whole) != known_points(all), false))
        one_part(s, a, b, parts.rest.lo, em_length(e, parts.rest));
}

static void innermost(struct sum *s, int level, LLVMValueRef a, LLVMValueRef b)
{
    int64_t small = cg_crowded(s) ? 1 : cg_few_steps(s);
    struct em_span active = active_rows(s);
    if (active.lo == active.hi)
        return;
    struct em_range all = level == 0 && s->g->by_passes ? s->g->sum : bounds(s, level);
    int64_t n = known_points(all);
    if (n != CT_DYN && n <= small && (s->sa[level] != CT_DYN && s->sb[level] != CT_DYN)) {
        int together = s->g->c.by_lane;
        for (int64_t i = 0; i < n; i++) {
            if (together && i % together == 0 && i + together <= n)
                steps_by_lane_at(s, level, a, b, i, active);
            else if (!together || i >= n / together * together)
                cg_sum_step_at(s, level, a, b, i, active);
        }
        return;
    }
    (level == s->part_level ? innermost_parts : points)(s, a, b, all);
}

static void nest(struct sum *s, int level, LLVMValueRef a, LLVMValueRef b);

/* What A's signs make too little is summed for all rows alike. Of a tap that some rows lack it is summed apart, in
 * `so_far` stands the rest, and those rows get it back. */
static bool tap_begin(struct sum *s, LLVMValueRef *so_far)
{
    struct em_span rows = active_rows(s);
    bool apart = s->sums_less && rows.hi - rows.lo < s->mr;
    for (int c = 0; c < s->cv && apart; c++) {
        so_far[c] = s->less[c];
        s->less[c] = LLVMConstNull(s->g->vec);
    }
    return apart;
}

static void tap_end(struct sum *s, const LLVMValueRef *so_far)
{
    LLVMBuilderRef b = s->g->e->b;
    struct em_span rows = active_rows(s);
    for (int i = 0; i < s->mr * s->cv; i++)
        if (i / s->cv < rows.lo || i / s->cv >= rows.hi)
            s->acc[i] = LLVMBuildAdd(b, s->acc[i], s->less[i % s->cv], "");
    for (int c = 0; c < s->cv; c++)
        s->less[c] = LLVMBuildAdd(b, so_far[c], s->less[c], "");
}

/* Loop `level` with constant numbers, for taps that not all rows have. */
static void nest_unrolled(struct sum *s, int level, LLVMValueRef a, LLVMValueRef b)
{
    struct cg *g = s->g;
    struct em *e = g->e;
    LLVMValueRef so_far[CPU_TILE_SUMS];
    bool parts = level == s->part_level;
    LLVMValueRef less[CPU_TILE_VECTORS];
    bool whole_tap = true; /* no loop inside is one of taps */
    for (int i = level + 1; i < g->c.nks; i++)
        whole_tap = whole_tap && !g->c.ks[i].unroll;
    int64_t n = g->c.ks[level].n;
    for (int64_t i = 0; i < n; i++) {
        s->tap[level] = i;
        s->at[level] = em_i64(e, i);
        LLVMValueRef ai =
            s->sa[level] != CT_DYN ? cg_gepc(g, a, i * s->sa[level]) : offset_of(s, a, level, em_i64(e, i), false);
        LLVMValueRef bi =
            s->sb[level] != CT_DYN ? cg_gepc(g, b, i * s->sb[level]) : offset_of(s, b, level, em_i64(e, i), true);
        if (parts && i % s->part == 0)
            part_begin(s, so_far);
        bool apart = whole_tap && tap_begin(s, less);
        if (level < g->c.nks - 1)
            nest(s, level + 1, ai, bi);
        else
            cg_sum_step(s, ai, bi, active_rows(s));
        if (apart)
            tap_end(s, less);
        if (parts && (i % s->part == s->part - 1 || i == n - 1))
            part_end(s, so_far);
    }
}

static void nest_points(struct sum *s, int level, LLVMValueRef a, LLVMValueRef b, struct em_range all)
{
    struct em *e = s->g->e;
    struct em_loop l;
    em_loop_begin(e, &l, all, em_i64(e, 1), "k");
    carry(s, &l, em_span(0, s->mr));
    s->at[level] = l.iv;
    LLVMValueRef right = offset_of(s, b, level, l.iv, true);
    nest(s, level + 1, offset_of(s, a, level, l.iv, false), right);
    carry_end(s, &l, em_span(0, s->mr));
}

/* Loop `level` of the sum and those inside it. a, b: addresses of the first row's and first column's element. */
static void nest(struct sum *s, int level, LLVMValueRef a, LLVMValueRef b)
{
    struct cg *g = s->g;
    struct em *e = g->e;
    LLVMValueRef so_far[CPU_TILE_SUMS];
    struct em_loop l;
    if (g->c.ks[level].unroll && by_taps(s)) {
        nest_unrolled(s, level, a, b);
        return;
    }
    if (level == g->c.nks - 1) {
        innermost(s, level, a, b);
        return;
    }
    struct em_range all = bounds(s, level);
    s->at[level] = all.lo;
    if (known_points(all) == 1) {
        nest(s, level + 1, a, b);
        return;
    }
    if (level == 0 && g->by_passes)
        all = g->sum;
    if (level != s->part_level) {
        nest_points(s, level, a, b, all);
        return;
    }
    em_loop_begin(e, &l, all, em_i64(e, s->part), "part");
    carry(s, &l, em_span(0, s->mr));
    part_begin(s, so_far);
    s->at[level] = l.iv;
    if (s->part == 1) {
        LLVMValueRef right = offset_of(s, b, level, l.iv, true);
        nest(s, level + 1, offset_of(s, a, level, l.iv, false), right);
    } else {
        nest_points(s, level, a, b, em_first(e, all, l.iv, em_i64(e, s->part)));
    }
    part_end(s, so_far);
    carry_end(s, &l, em_span(0, s->mr));
}

/* -- One tile --------------------------------------------------------------------------------------- */

/* Strides of packed operands: rows of A are k long, B has cv vectors per step. */
static void packed_strides(struct sum *s)
{
    struct cg *g = s->g;
    struct ir_ctx *ctx = g->c.ctx;
    ir_expr inner = ir_const(ctx, 1);
    for (int i = g->c.nks - 1; i >= 0; i--) {
        if (g->packed_a) {
            s->ea[i] = ir_mulc(ctx, g->c.a_by_k ? ir_mul(ctx, inner, g->a_ld) : inner, g->packed_step);
            s->sa[i] = ir_const_or(s->ea[i], CT_DYN);
        }
        if (g->packed_b) {
            s->eb[i] = ir_mulc(ctx, inner, (int64_t)g->cv * g->lanes * g->per_step);
            s->sb[i] = ir_const_or(s->eb[i], CT_DYN);
        }
        inner = ir_mul(ctx, inner, g->c.ks[i].extent);
    }
    if (g->packed_a) {
        ir_expr row = ir_mulc(ctx, g->c.a_by_k ? ir_const(ctx, 1) : g->a_ld, g->packed_step);
        s->row_sa = ir_const_or(row, CT_DYN);
        s->row_value = em_expr(g->e, row);
    }
}

/* What earlier passes over the sum have stored for row r0 + r and the c-th vector; zeros in the first pass. */
static LLVMValueRef sum_so_far(struct cg *g, LLVMValueRef x, LLVMValueRef r0, int r, int c)
{
    struct em *e = g->e;
    const struct kn_insn *store = &g->c.k->insns[g->c.resume];
    struct kn_guard *guards = IR_NEWN(g->c.ctx, store->nguards + 1, struct kn_guard);
    struct kn_insn load = *store;
    for (int i = 0; i < store->nguards; i++)
        guards[i] = store->guards[i];
    guards[load.nguards++] = (struct kn_guard){g->sum_begun, ir_const(g->c.ctx, 1), ir_const(g->c.ctx, INT64_MAX)};
    load.code = KN_LOAD;
    load.guards = guards;
    load.nargs = 0;
    load.arg[0] = load.arg[1] = load.arg[2] = -1;
    cg_column_lanes(g, x, c);
    cg_bind_row(g, LLVMBuildAdd(e->b, r0, em_i64(e, r), ""));
    return em_splat(e, em_load_insn(e, &load), g->lanes);
}

/* Strides, and the addresses of A's first row and B's first column. */
static void sum_begin(struct sum *s, LLVMValueRef x, LLVMValueRef r0, LLVMValueRef *a, LLVMValueRef *b)
{
    struct cg *g = s->g;
    struct em *e = g->e;
    const struct ct *c = &g->c;
    LLVMValueRef zero[CT_MAX_K];
    for (int i = 0; i < c->nks; i++) {
        s->sa[i] = c->ks[i].sa;
        s->sb[i] = c->ks[i].sb;
        s->ea[i] = c->ks[i].ea;
        s->eb[i] = c->ks[i].eb;
        zero[i] = em_i64(e, 0);
    }
    if (c->row_sa == CT_DYN)
        s->row_value = em_expr(e, c->row_ea);
    packed_strides(s);
    for (int i = 0; i < s->cv; i++) {
        int64_t at = (int64_t)i * g->lanes, column = c->unpaired ? 1 : g->per_step;
        s->vec_off[i] = !g->packed_b && c->panel && (int64_t)s->cv * g->lanes > c->panel
                            ? at / c->panel * c->panel_stride + at % c->panel * column
                            : at * column;
    }
    em_set_lanes(e, NULL, 1, NULL);
    cg_bind_column(g, x);
    cg_bind_row(g, r0);
    cg_bind_k(g, zero, 0);
    LLVMValueRef from = LLVMBuildSub(e->b, r0, g->packed_row, "");
    if (s->only_less)
        *a = NULL;
    else if (g->packed_a)
        *a = s->row_sa != CT_DYN ? cg_step(g, g->packed_a, from, s->row_sa, NULL)
                                 : cg_gep(g, g->packed_a, LLVMBuildMul(e->b, from, s->row_value, ""));
    else
        *a = em_address(e, c->k->insns[c->load_a].operand, em_expr(e, c->off_a));
    *b = g->packed_b ? g->packed_b : em_address(e, c->k->insns[c->load_b].operand, em_expr(e, c->off_b));
    *a = *a ? *a : *b; /* nothing is loaded there */
}

void cg_column_sums(struct cg *g, LLVMValueRef x, int cv)
{
    struct sum s = {.g = g, .mr = 1, .cv = cv, .start = CG_ALL_ROWS, .row_sa = g->c.row_sa, .part_level = -1};
    LLVMValueRef a, b;
    s.shifted = s.only_less = true;
    sum_begin(&s, x, g->rows.lo, &a, &b);
    for (int i = 0; i < cv; i++)
        s.acc[i] = LLVMConstNull(g->vec);
    nest(&s, 0, a, b);
    for (int i = 0; i < cv; i++)
        g->less[i] = s.acc[i];
}

void cg_micro(struct cg *g, LLVMValueRef x, LLVMValueRef r0, int mr, int cv, int64_t start)
{
    struct em *e = g->e;
    const struct ct *c = &g->c;
    struct sum s = {.g = g, .mr = mr, .cv = cv, .start = start, .row_sa = c->row_sa};
    s.apart = ct_apart(c, cv) && cg_half_sums(g);
    LLVMValueRef a, b;
    sum_begin(&s, x, r0, &a, &b);
    cg_start_fetch(&s, r0, b);
    int held_sums = (int)ct_held_rows(c, mr) * cv;
    for (int i = 0; i < held_sums; i++)
        s.acc[i] = g->by_passes && !c->square ? sum_so_far(g, x, r0, i / cv, i % cv) : LLVMConstNull(g->vec);
    em_set_lanes(e, NULL, 1, NULL);
    cg_bind_column(g, x);
    cg_bind_row(g, r0);
    plan_parts(&s);
    LLVMValueRef so_far[CPU_TILE_SUMS];
    bool taps = by_taps(&s);
    s.shifted = c->shifted && em_cpu(e)->dot_bytes_signed && (!taps || em_cpu(e)->multiplies_bytes);
    s.pairs = s.shifted && !taps && c->pairs && em_cpu(e)->dot_bytes_pairs;
    bool one_part = s.pairs || (ct_half(c) && s.part_level < 0);
    if (one_part)
        part_begin(&s, so_far);
    s.sums_less = s.shifted && !g->less[0];
    for (int i = 0; i < cv; i++)
        s.less[i] = s.sums_less ? LLVMConstNull(g->vec) : g->less[i];
    nest(&s, 0, a, b);
    if (one_part)
        part_end(&s, so_far);
    if (c->square)
        cg_square_rows(g, held_sums / cv, cv, s.acc);
    for (int i = 0; i < mr * cv && c->square && g->by_passes; i++)
        s.acc[i] = LLVMBuildBinOp(e->b, tcc_is_float(c->dtype) ? LLVMFAdd : LLVMAdd, s.acc[i],
                                  sum_so_far(g, x, r0, i / cv, i % cv), "");
    for (int i = 0; i < mr * cv && s.shifted; i++)
        s.acc[i] = LLVMBuildSub(e->b, s.acc[i], s.less[i % cv], "");
    int wide = cv + g->padding;
    for (int i = mr * wide - 1; i >= 0; i--)
        s.acc[i] = i % wide < cv ? s.acc[i / wide * cv + i % wide] : LLVMConstNull(g->vec);
    cg_epilogue(g, x, r0, mr, wide, s.acc);
}
