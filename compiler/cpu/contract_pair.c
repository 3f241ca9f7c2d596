/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contract_pair.c - contractions of bf16 operands on machines with VDPBF16PS (Intel SDM, volume 2): each 32-bit lane holds two
 * neighbours along the sum, and an instruction adds both products to a float. So a step of the register tile takes two points of
 * the innermost loop of the sum.
 *
 * B is ready where its layout has pairs innermost (weights: layout.c), else it is packed. A is read where it lies if the sum's innermost
 * loop has unit stride there; else it is packed, by rows, or by steps where rows are what is consecutive in memory. A value of type
 * bf16 is an exact float in registers, so that two of them make a pair by shifting and masking.
 */
#include "compiler/cpu/contract_emit_int.h"
#include "ir/ir.h"

bool ct_pairs(struct ct *c)
{
    struct ir_ctx *ctx = c->ctx;
    struct ct_k *last = &c->ks[c->nks - 1];
    bool even = last->n != CT_DYN && last->n % 2 == 0,
         a_ready = last->sa == 1 && even && !last->unroll && c->pair_a == c->load_a;
    for (int g = 0; g < c->nguards; g++)
        if (c->guards[g].k == c->nks - 1)
            return false;
    if (c->nks > 1 && last->n == 2 && last->sb == 1 && c->vec_sb == 2 && c->panel && c->panel_stride != CT_DYN &&
        c->pair_b == c->load_b && !c->k->insns[c->load_b].nguards && a_ready) {
        c->nks--;
        c->nk = c->nk == CT_DYN ? CT_DYN : c->nk / 2;
        c->ksize = ir_floordiv(ctx, c->ksize, ir_const(ctx, 2));
        c->pack_a = c->pack_b = false;
        return true;
    }
    if (last->scale != 1 || last->unroll)
        return false;
    c->pack_b = true;
    c->pack_a = !a_ready;
    c->a_by_k = c->pack_a && last->sa != 1 && c->row >= 0 && c->row_sa == 1 && c->nrows != 1;
    c->pair_n = even ? NULL : last->extent;
    last->step = 2;
    last->extent = ir_ceildiv(ctx, last->extent, ir_const(ctx, 2));
    last->n = ir_const_or(last->extent, CT_DYN);
    last->ea = ir_mulc(ctx, last->ea, 2);
    last->sa = ir_const_or(last->ea, CT_DYN);
    c->ksize = ir_const(ctx, 1);
    for (int i = 0; i < c->nks; i++)
        c->ksize = ir_mul(ctx, c->ksize, c->ks[i].extent);
    c->nk = ir_const_or(c->ksize, CT_DYN);
    return true;
}

LLVMValueRef cg_pair_load(struct cg *g, LLVMValueRef p, int lanes, int operand)
{
    LLVMValueRef v = LLVMBuildLoad2(g->e->b, em_vec(g->e->t_i32, lanes), p, "");
    LLVMSetAlignment(v, operand < 0 ? 4 : 2);
    em_tag(g->e, v, operand);
    return v;
}

LLVMValueRef cg_pair_products(struct cg *g, LLVMValueRef a, LLVMValueRef b, LLVMValueRef acc)
{
    struct em *e = g->e;
    LLVMTypeRef t = LLVMVectorType(LLVMBFloatTypeInContext(e->lc), (unsigned)g->lanes * 2);
    LLVMValueRef args[3] = {acc, LLVMBuildBitCast(e->b, a, t, ""), LLVMBuildBitCast(e->b, b, t, "")};
    const char *name = g->lanes == 16  ? "llvm.x86.avx512bf16.dpbf16ps.512"
                       : g->lanes == 8 ? "llvm.x86.avx512bf16.dpbf16ps.256"
                                       : "llvm.x86.avx512bf16.dpbf16ps.128";
    return em_intrinsic(e, name, 0, NULL, 3, args);
}

static LLVMValueRef second_point(struct cg *g, int value, LLVMValueRef none, const LLVMValueRef *part)
{
    struct em *e = g->e;
    struct em_if f;
    cg_bind_k(g, part, true);
    if (!g->c.pair_n)
        return em_splat(e, cg_operand_value(g, value), g->lanes);
    LLVMValueRef at = LLVMBuildShl(e->b, part[g->c.nks - 1], em_i64(e, 1), "");
    LLVMValueRef exists =
        LLVMBuildICmp(e->b, LLVMIntSLT, LLVMBuildAdd(e->b, at, em_i64(e, 1), ""), em_expr(e, g->c.pair_n), "");
    em_if_begin(e, &f, exists);
    LLVMValueRef v = em_splat(e, cg_operand_value(g, value), g->lanes);
    return em_if_end_value(e, &f, v, none);
}

LLVMValueRef cg_pair_of(struct cg *g, int value, const LLVMValueRef *part)
{
    struct em *e = g->e;
    LLVMTypeRef bits = em_vec(e->t_i32, g->lanes);
    cg_bind_k(g, part, false);
    LLVMValueRef low = em_splat(e, cg_operand_value(g, value), g->lanes);
    LLVMValueRef high = second_point(g, value, LLVMConstNull(LLVMTypeOf(low)), part);
    low = LLVMBuildLShr(e->b, LLVMBuildBitCast(e->b, low, bits, ""), em_int(bits, 16), "");
    high = LLVMBuildAnd(e->b, LLVMBuildBitCast(e->b, high, bits, ""), em_int(bits, -65536), "");
    return LLVMBuildOr(e->b, low, high, "");
}

/* For each step of the sum, the tile's rows side by side. */
static void pack_by_k(struct cg *g)
{
    struct em *e = g->e;
    struct em_loop l[CT_MAX_K], r;
    LLVMValueRef part[CT_MAX_K], at = cg_k_loops_begin(g, l, g->c.nks, part);
    LLVMValueRef line = cg_gep(g, g->packed_a, LLVMBuildMul(e->b, at, em_expr(e, ir_mulc(e->ctx, g->a_ld, 2)), ""));
    em_loop_begin(e, &r, g->row_lo, g->row_hi, em_i64(e, g->lanes), "pa");
    em_set_lanes(e, NULL, 1, NULL);
    cg_bind_row(g, r.iv);
    LLVMValueRef mask = em_tail_mask(e, LLVMBuildSub(e->b, g->row_hi, r.iv, ""), g->lanes);
    em_set_lanes(e, g->c.k->dims[g->c.row].var, g->lanes, mask);
    LLVMValueRef v = cg_pair_of(g, g->c.pair_a, part);
    em_set_lanes(e, NULL, 1, NULL);
    LLVMValueRef to = LLVMBuildShl(e->b, LLVMBuildSub(e->b, r.iv, g->row_lo, ""), em_i64(e, 1), "");
    em_store(e, TCC_I32, cg_gep(g, line, to), v, NULL, -1);
    em_loop_end(e, &r);
    cg_k_loops_end(g, l, g->c.nks);
}

/* Rows one after the other, as in memory. */
static void pack_by_rows(struct cg *g)
{
    struct em *e = g->e;
    const struct ct_k *last = &g->c.ks[g->c.nks - 1];
    struct em_loop r, l[CT_MAX_K], v;
    LLVMValueRef part[CT_MAX_K];
    int w = g->lanes * 2;
    em_loop_begin(e, &r, g->row_lo, g->row_hi, em_i64(e, 1), "pa");
    LLVMValueRef from = LLVMBuildSub(e->b, r.iv, g->row_lo, "");
    LLVMValueRef row = cg_gep(g, g->packed_a, LLVMBuildMul(e->b, from, em_expr(e, ir_mulc(e->ctx, g->a_ld, 2)), ""));
    LLVMValueRef at = cg_k_loops_begin(g, l, g->c.nks - 1, part), n = em_expr(e, last->extent);
    em_loop_begin(e, &v, em_i64(e, 0), n, em_i64(e, g->lanes), "pv");
    at = LLVMBuildShl(e->b, LLVMBuildAdd(e->b, LLVMBuildMul(e->b, at, n, ""), v.iv, ""), em_i64(e, 1), "");
    part[g->c.nks - 1] = v.iv;
    em_set_lanes(e, NULL, 1, NULL);
    cg_bind_row(g, r.iv);
    cg_bind_k(g, part, false);
    LLVMValueRef done = LLVMBuildShl(e->b, v.iv, em_i64(e, 1), ""), room = NULL, mask = NULL;
    if (last->n == CT_DYN || last->n % g->lanes)
        room = em_tail_mask(e, LLVMBuildSub(e->b, LLVMBuildShl(e->b, n, em_i64(e, 1), ""), done, ""), w);
    mask = g->c.pair_n ? em_tail_mask(e, LLVMBuildSub(e->b, em_expr(e, g->c.pair_n), done, ""), w) : room;
    em_set_lanes(e, g->c.k->dims[last->dim].var, w, mask);
    LLVMValueRef x = em_splat(e, cg_operand_value(g, g->c.pair_a), w);
    if (g->c.pair_n)
        x = LLVMBuildSelect(e->b, mask, x, LLVMConstNull(LLVMTypeOf(x)), "");
    em_set_lanes(e, NULL, 1, NULL);
    em_store(e, TCC_BF16, cg_gep(g, row, at), x, room, -1);
    em_loop_end(e, &v);
    cg_k_loops_end(g, l, g->c.nks - 1);
    em_loop_end(e, &r);
}

void cg_pack_a_pairs(struct cg *g)
{
    if (g->c.a_by_k)
        pack_by_k(g);
    else
        pack_by_rows(g);
}
