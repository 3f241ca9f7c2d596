/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contract_pack.c - copies of a tile's factors in the order in which the micro-kernel reads them: columns of B once for
 * all rows of a block, rows of A once for all columns.
 */
#include "compiler/cpu/contract_emit_int.h"
#include "ir/ir.h"

LLVMValueRef cg_operand_value(struct cg *g, int i)
{
    const struct kn_stage *stage = kn_main_stage(g->c.k);
    em_forget(g->e, stage->first, stage->last);
    em_insn_needed(g->e, i);
    LLVMValueRef v = g->e->value[i];
    em_forget(g->e, stage->first, stage->last);
    return v;
}

LLVMValueRef cg_k_loops_begin(struct cg *g, struct em_loop *l, int n, LLVMValueRef *part)
{
    struct em *e = g->e;
    LLVMValueRef at = em_i64(e, 0);
    for (int i = 0; i < n; i++) {
        LLVMValueRef extent = em_expr(e, g->c.ks[i].extent);
        em_loop_begin(e, &l[i], em_below(e, extent), em_i64(e, 1), "pk");
        part[i] = l[i].iv;
        at = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, at, extent, ""), part[i], "");
    }
    return at;
}

void cg_k_loops_end(struct cg *g, struct em_loop *l, int n)
{
    for (int i = n - 1; i >= 0; i--)
        em_loop_end(g->e, &l[i]);
}

/* Stores the groups of the c-th vector of columns of a step at p. */
static void store_groups(struct cg *g, LLVMValueRef p, int c, LLVMValueRef groups)
{
    struct em *e = g->e;
    LLVMTypeRef half = em_vec(LLVMInt16TypeInContext(e->lc), g->lanes);
    int64_t column = (int64_t)c * g->lanes;
    if (!g->c.unpaired) {
        em_store(e, TCC_I32, cg_gepc(g, p, column * g->per_step), groups, NULL, -1);
        return;
    }
    for (int i = 0; i < g->per_step; i++) {
        LLVMValueRef one = LLVMBuildLShr(e->b, groups, em_int(LLVMTypeOf(groups), 16 * i), "");
        one = LLVMBuildTrunc(e->b, one, half, "");
        em_store(e, TCC_I16, cg_gepc(g, p, (int64_t)i * g->cv * g->lanes + column), one, NULL, -1);
    }
}

/* Steps of the innermost loop of the sum, one at a time: a vector of columns is loaded however it lies. */
static void pack_b_steps(struct cg *g, LLVMValueRef x, int cv, LLVMValueRef at, LLVMValueRef *part,
                         struct em_range steps)
{
    struct em *e = g->e;
    int last = g->c.nks - 1;
    struct em_loop l;
    em_loop_begin(e, &l, steps, em_i64(e, 1), "pk");
    part[last] = l.iv;
    at = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, at, em_expr(e, g->c.ks[last].extent), ""), l.iv, "");
    int64_t vector = (int64_t)g->lanes * g->per_step;
    LLVMValueRef p = cg_gep(g, g->packed_b, LLVMBuildMul(e->b, at, em_i64(e, g->cv * vector), ""));
    for (int c = 0; c < cv; c++) {
        em_set_lanes(e, NULL, 1, NULL);
        cg_bind_k(g, part, 0);
        cg_column_lanes(g, x, c);
        if (g->c.depth > 1) {
            store_groups(g, p, c, cg_dot_of(g, g->c.dot_b, part));
        } else {
            LLVMValueRef right = em_splat(e, cg_operand_value(g, g->c.val_b), g->lanes);
            em_store(e, g->c.dtype, cg_gepc(g, p, c * vector), right, NULL, -1);
        }
    }
    em_set_lanes(e, NULL, 1, NULL);
    em_loop_end(e, &l);
}

/* lanes elements of the sum's type, or as many groups, as floats. */
static LLVMValueRef load_raw(struct cg *g, LLVMValueRef p, int op)
{
    if (g->c.depth > 1)
        return LLVMBuildBitCast(g->e->b, cg_dot_load(g, p, g->lanes, op), em_vec(g->e->t_f32, g->lanes), "");
    return em_load(g->e, g->c.dtype, p, g->lanes, NULL, NULL, op);
}

/* B lies with the sum's innermost loop at consecutive addresses: squares of lanes x lanes elements (or groups) are
 * transposed in registers. Columns past the end read the last one again; what they give is never stored. Returns the
 * first step that is left. */
static LLVMValueRef pack_b_squares(struct cg *g, LLVMValueRef x, LLVMValueRef x_end, int cv, LLVMValueRef at,
                                   LLVMValueRef *part)
{
    struct em *e = g->e;
    int last = g->c.nks - 1, w = g->lanes, op = g->c.k->insns[g->c.load_b].operand;
    int64_t vector = (int64_t)w * g->per_step;
    ir_expr steps = g->c.dot_n ? ir_floordiv(e->ctx, g->c.dot_n, ir_const(e->ctx, g->c.depth)) : g->c.ks[last].extent;
    LLVMValueRef n = em_expr(e, g->c.ks[last].extent), v[16];
    struct em_range whole = em_tiles(e, em_below(e, em_expr(e, steps)), w).whole;
    struct em_loop l;
    part[last] = em_i64(e, 0);
    em_set_lanes(e, NULL, 1, NULL);
    cg_bind_column(g, x);
    cg_bind_k(g, part, 0);
    LLVMValueRef first = em_address(e, op, em_expr(e, g->c.off_b));
    LLVMValueRef most = LLVMBuildSub(e->b, LLVMBuildSub(e->b, x_end, x, ""), em_i64(e, 1), "");
    em_loop_begin(e, &l, whole, em_i64(e, w), "pt");
    at = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, at, n, ""), l.iv, "");
    LLVMValueRef to = cg_gep(g, g->packed_b, LLVMBuildMul(e->b, at, em_i64(e, g->cv * vector), ""));
    LLVMValueRef from = cg_gep(g, first, LLVMBuildMul(e->b, l.iv, em_i64(e, g->per_step), ""));
    for (int c = 0; c < cv; c++) {
        for (int j = 0; j < w; j++) {
            LLVMValueRef column = em_least(e, em_i64(e, c * w + j), most);
            v[j] = load_raw(g, cg_step(g, from, column, g->c.vec_sb, g->c.vec_eb), op);
        }
        cg_transpose(g, v);
        for (int j = 0; j < w; j++) {
            LLVMValueRef step = cg_gepc(g, to, j * g->cv * vector);
            if (g->c.unpaired)
                store_groups(g, step, c, LLVMBuildBitCast(e->b, v[j], em_vec(e->t_i32, w), ""));
            else
                em_store(e, TCC_F32, cg_gepc(g, step, c * vector), v[j], NULL, -1);
        }
    }
    em_loop_end(e, &l);
    return whole.hi;
}

void cg_pack_b(struct cg *g, LLVMValueRef x, LLVMValueRef x_end, int cv)
{
    struct em *e = g->e;
    struct em_loop l[CT_MAX_K];
    int last = g->c.nks - 1;
    LLVMValueRef part[CT_MAX_K], at = cg_k_loops_begin(g, l, last, part), from = em_i64(e, 0);
    const struct kn_insn *load = &g->c.k->insns[g->c.load_b];
    bool as_loaded = g->c.depth > 1 ? g->c.dot_b == g->c.load_b
                                    : !g->c.chain_b && g->c.k->operands[load->operand].dtype == g->c.dtype;
    bool in_k = g->c.ks[last].sb == 1 && g->c.ks[last].scale == 1 && !g->c.panel && as_loaded && !load->nguards;
    if (in_k && (g->c.dtype == TCC_F32 || g->c.depth > 1) && (g->lanes == 16 || g->lanes == 8 || g->lanes == 4))
        from = pack_b_squares(g, x, x_end, cv, at, part);
    pack_b_steps(g, x, cv, at, part, em_range(e, from, em_expr(e, g->c.ks[last].extent)));
    cg_k_loops_end(g, l, last);
}

void cg_pack_a(struct cg *g)
{
    struct em *e = g->e;
    if (g->c.depth > 1 || g->c.a_by_k) {
        cg_dot_pack_a(g);
        return;
    }
    int last = g->c.nks - 1;
    struct em_loop r, l[CT_MAX_K], v;
    LLVMValueRef part[CT_MAX_K];
    bool vectors = g->c.ks[last].scale == 1;
    int w = vectors ? g->lanes : 1;
    em_loop_begin(e, &r, g->rows, em_i64(e, 1), "pa");
    LLVMValueRef row =
        cg_step(g, g->packed_a, LLVMBuildSub(e->b, r.iv, g->rows.lo, ""), ir_const_or(g->a_ld, CT_DYN), g->a_ld);
    LLVMValueRef at = cg_k_loops_begin(g, l, last, part), n = em_expr(e, g->c.ks[last].extent);
    em_loop_begin(e, &v, em_below(e, n), em_i64(e, w), "pv");
    at = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, at, n, ""), v.iv, "");
    part[last] = v.iv;
    em_set_lanes(e, NULL, 1, NULL);
    cg_bind_row(g, r.iv);
    cg_bind_k(g, part, 0);
    LLVMValueRef mask = NULL;
    if (vectors) {
        if (g->c.ks[last].n == CT_DYN || g->c.ks[last].n % w)
            mask = em_tail_mask(e, LLVMBuildSub(e->b, n, v.iv, ""), w);
        em_set_lanes(e, g->c.k->dims[g->c.ks[last].dim].var, w, mask);
    }
    LLVMValueRef value = em_splat(e, cg_operand_value(g, g->c.val_a), w);
    em_store(e, g->c.dtype, cg_gep(g, row, at), value, mask, -1);
    em_set_lanes(e, NULL, 1, NULL);
    em_loop_end(e, &v);
    cg_k_loops_end(g, l, last);
    em_loop_end(e, &r);
}
