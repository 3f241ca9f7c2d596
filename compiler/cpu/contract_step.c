/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contract_step.c - one step of a register tile's sum: what it takes of A and B, as elements or groups of bytes and
 * halves, and its multiply-adds; and the addresses and symbols of contractions. contract_micro.c has the loops.
 */
#include "compiler/cpu/contract_step_int.h"
#include "ir/ir.h"

LLVMValueRef cg_gep(struct cg *g, LLVMValueRef base, LLVMValueRef elements)
{
    return LLVMBuildGEP2(g->e->b, g->unit, base, &elements, 1, "");
}

LLVMValueRef cg_gepc(struct cg *g, LLVMValueRef base, int64_t elements)
{
    return elements ? cg_gep(g, base, em_i64(g->e, elements)) : base;
}

LLVMValueRef cg_step(struct cg *g, LLVMValueRef base, LLVMValueRef index, int64_t stride, ir_expr symbolic)
{
    LLVMValueRef s = stride != CT_DYN ? em_i64(g->e, stride) : em_expr(g->e, symbolic);
    return cg_gep(g, base, LLVMBuildMul(g->e->b, index, s, ""));
}

void cg_bind_row(struct cg *g, LLVMValueRef row)
{
    for (int d = 0; d < g->c.k->ndims; d++)
        if (g->c.collapsed >> d & 1)
            em_bind(g->e, g->c.k->dims[d].var, d == g->c.row ? row : em_i64(g->e, 0));
}

void cg_bind_column(struct cg *g, LLVMValueRef x)
{
    struct em *e = g->e;
    if (g->c.block < 0) {
        for (int d = 0; d < g->c.k->ndims; d++)
            if (g->c.columns >> d & 1)
                em_bind(e, g->c.k->dims[d].var, d == g->c.vec ? x : em_i64(e, 0));
        return;
    }
    LLVMValueRef w = em_i64(e, g->c.width);
    em_bind(e, g->c.k->dims[g->c.block].var, LLVMBuildUDiv(e->b, x, w, ""));
    em_bind(e, g->c.k->dims[g->c.vec].var, LLVMBuildURem(e->b, x, w, ""));
}

void cg_column_lanes(struct cg *g, LLVMValueRef x, int c)
{
    em_set_lanes(g->e, NULL, 1, NULL);
    cg_bind_column(g, LLVMBuildAdd(g->e->b, x, em_i64(g->e, (int64_t)c * g->lanes), ""));
    em_set_lanes(g->e, g->c.k->dims[g->c.vec].var, g->lanes, g->mask[c]);
    g->e->aligned = g->aligned;
}

void cg_bind_k(struct cg *g, const LLVMValueRef *part, int which)
{
    struct em *e = g->e;
    LLVMValueRef point[CT_MAX_K];
    for (int i = 0; i < g->c.nks; i++) {
        point[i] = LLVMBuildMul(e->b, part[i], em_i64(e, g->c.ks[i].step), "");
        if (which && i == g->c.nks - 1)
            point[i] = LLVMBuildAdd(e->b, point[i], em_i64(e, which), "");
    }
    for (int i = 0; i < g->c.nks; i++) {
        LLVMValueRef v = em_i64(e, 0);
        for (int j = 0; j < g->c.nks; j++)
            if (g->c.ks[j].dim == g->c.ks[i].dim)
                v = LLVMBuildAdd(e->b, v, LLVMBuildMul(e->b, point[j], em_i64(e, g->c.ks[j].scale), ""), "");
        em_bind(e, g->c.k->dims[g->c.ks[i].dim].var, v);
        em_bind(e, g->c.ks[i].var, point[i]);
    }
}

/* What a step takes of A or B: elements, or groups of them. */
static LLVMValueRef load_step(struct cg *g, LLVMValueRef p, int lanes, LLVMValueRef mask, int operand)
{
    if (g->c.depth > 1)
        return cg_dot_load(g, p, lanes, operand);
    return em_load(g->e, g->c.dtype, p, lanes, mask, NULL, operand);
}

/* A's of one row; more lanes than one are those of as many steps. */
static LLVMValueRef load_row(struct sum *s, LLVMValueRef p, int lanes)
{
    struct cg *g = s->g;
    LLVMValueRef less = em_int(em_vec(g->e->t_i32, lanes), (int)0x80808080);
    if (s->only_less)
        return less;
    LLVMValueRef v = load_step(g, p, lanes, NULL, g->packed_a ? -1 : g->c.k->insns[g->c.load_a].operand);
    return s->shifted && !cg_packs_signed(g) ? LLVMBuildXor(g->e->b, v, less, "") : v;
}

static LLVMValueRef row_at(struct sum *s, LLVMValueRef a, int64_t r)
{
    struct em *e = s->g->e;
    return s->row_sa != CT_DYN ? cg_gepc(s->g, a, r * s->row_sa)
           : r                 ? cg_gep(s->g, a, LLVMBuildMul(e->b, em_i64(e, r), s->row_value, ""))
                               : a;
}

/* The c-th vector of f16's columns that lie unpaired; where sums are apart, of each two vectors the two steps. */
static LLVMValueRef load_unpaired(struct sum *s, LLVMValueRef b, int c, int op_b)
{
    struct cg *g = s->g;
    LLVMValueRef next = cg_gepc(g, b, s->sb[g->c.nks - 1] / g->per_step);
    if (s->apart)
        return cg_dot_load(g, cg_gepc(g, c % 2 ? next : b, s->vec_off[c - c % 2]), g->lanes, op_b);
    LLVMValueRef second = cg_dot_load(g, cg_gepc(g, next, s->vec_off[c]), g->lanes / 2, op_b);
    return cg_pairs_of(g, cg_dot_load(g, cg_gepc(g, b, s->vec_off[c]), g->lanes / 2, op_b), second);
}

/* What a step takes of B. */
static void load_columns(struct sum *s, LLVMValueRef b, LLVMValueRef *bv)
{
    struct cg *g = s->g;
    int op_b = g->packed_b ? -1 : g->c.k->insns[g->c.load_b].operand;
    for (int c = 0; c < s->cv && g->c.unpaired; c++)
        bv[c] = load_unpaired(s, b, c, op_b);
    for (int c = 0; c < s->cv && !g->c.unpaired; c++) {
        LLVMValueRef mask = g->packed_b || g->c.panel ? NULL : g->mask[c];
        bv[c] = load_step(g, cg_gepc(g, b, s->vec_off[c]), g->lanes, mask, op_b);
        if (s->sums_less)
            s->less[c] = cg_product(g, true, em_int(em_vec(g->e->t_i32, g->lanes), (int)0x80808080), bv[c], s->less[c]);
    }
}

/* A row's products of two steps, the lane-th pair of av's. */
static void add_apart(struct sum *s, int64_t r, LLVMValueRef av, int lane, const LLVMValueRef *bv)
{
    for (int c = 0; c < s->cv; c++) {
        LLVMValueRef *acc = &s->acc[r * s->cv + c - c % 2];
        *acc = cg_apart_product(s->g, av, 2 * lane + c % 2, bv[c], *acc);
    }
}

/* A's groups lie apart in halves; B's are taken apart, once for all rows. */
static void step_halves(struct sum *s, LLVMValueRef a, const LLVMValueRef *bv, struct em_span rows)
{
    struct cg *g = s->g;
    LLVMValueRef half[2][CPU_TILE_VECTORS];
    for (int i = 0; i < 2 * s->cv; i++)
        half[i % 2][i / 2] = cg_dot_half(g, bv[i / 2], i % 2);
    for (int64_t r = rows.lo; r < rows.hi; r++) {
        LLVMValueRef p = row_at(s, a, r);
        for (int i = 0; i < 2; i++) {
            LLVMValueRef av = em_splat(g->e, cg_dot_load(g, cg_gepc(g, p, (int64_t)i * g->per_step), 1, -1), g->lanes);
            for (int c = 0; c < s->cv; c++)
                s->acc[r * s->cv + c] = cpu_dot_halves(g->e, av, half[i][c], s->acc[r * s->cv + c]);
        }
    }
}

/* The same step in squares: two rows by half a vector of columns at a time. */
static void step_squares(struct sum *s, LLVMValueRef a, LLVMValueRef b, struct em_span rows)
{
    struct cg *g = s->g;
    int64_t lo = rows.lo / 2 * 2;
    struct cg_pair pair[CPU_TILE_SUMS];
    for (int64_t r = lo; r < rows.hi; r += 2) {
        LLVMValueRef second = r + 1 < rows.hi ? row_at(s, a, r + 1) : NULL;
        pair[r - lo] = cg_load_pair(g, r < rows.lo ? NULL : row_at(s, a, r), second);
    }
    for (int c = 0; c < 2 * s->cv; c++) {
        int64_t at = s->vec_off[c / 2] + c % 2 * (g->lanes / 2) * g->per_step;
        LLVMValueRef bv = cg_dot_load(g, cg_gepc(g, b, at), g->lanes, g->c.k->insns[g->c.load_b].operand);
        for (int64_t r = lo; r < rows.hi; r += 2) {
            LLVMValueRef *acc = &s->acc[(r + c % 2) * s->cv + c / 2];
            *acc = cg_square_product(g, &pair[r - lo], bv, *acc);
        }
    }
}

/* One step of the sum for those rows. */
void cg_sum_step(struct sum *s, LLVMValueRef a, LLVMValueRef b, struct em_span rows)
{
    struct cg *g = s->g;
    struct em *e = g->e;
    LLVMValueRef bv[CPU_TILE_VECTORS];
    if (rows.lo == rows.hi)
        return;
    if (g->c.square) {
        step_squares(s, a, b, rows);
        return;
    }
    load_columns(s, b, bv);
    if (g->c.halves) {
        step_halves(s, a, bv, rows);
        return;
    }
    for (int64_t r = rows.lo; r < rows.hi; r++) {
        LLVMValueRef av = em_splat(e, load_row(s, row_at(s, a, r), 1), g->lanes);
        if (s->apart)
            add_apart(s, r, av, 0, bv);
        for (int c = 0; c < s->cv && !s->apart; c++)
            s->acc[r * s->cv + c] = cg_product(g, s->shifted, av, bv[c], s->acc[r * s->cv + c]);
    }
}

/* The i-th of steps along a level. */
void cg_sum_step_at(struct sum *s, int level, LLVMValueRef a, LLVMValueRef b, int64_t i, struct em_span rows)
{
    LLVMValueRef at_b = cg_gepc(s->g, b, i * s->sb[level]);
    cg_sum_step(s, cg_gepc(s->g, a, i * s->sa[level]), at_b, rows);
}

/* Several steps: of each row one load of A, whose lanes they take one after the other. */
void cg_sum_steps_by_lane(struct sum *s, LLVMValueRef a, LLVMValueRef b, struct em_span rows)
{
    struct cg *g = s->g;
    LLVMValueRef av[CPU_TILE_SUMS];
    for (int64_t r = rows.lo; r < rows.hi; r++)
        av[r] = load_row(s, row_at(s, a, r), g->c.by_lane);
    for (int i = 0; i < g->c.by_lane; i++) {
        LLVMValueRef bv[CPU_TILE_VECTORS];
        load_columns(s, cg_gepc(g, b, i * s->sb[g->c.nks - 1]), bv);
        for (int64_t r = rows.lo; r < rows.hi && s->apart; r++)
            add_apart(s, r, av[r], i, bv);
        for (int64_t r = rows.lo; r < rows.hi && !s->apart; r++)
            for (int c = 0; c < s->cv; c++)
                s->acc[r * s->cv + c] = cg_lane_product(g, s->shifted, av[r], i, bv[c], s->acc[r * s->cv + c]);
    }
}
