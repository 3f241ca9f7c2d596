/* SPDX-License-Identifier: Apache-2.0 */
/* attention_read.c - code that computes q, k and v of a tile and lays them into its scratch (attention_int.h). */
#include "compiler/cpu/attention_emit_int.h"

#include "compiler/cpu/contract_emit_int.h"

LLVMValueRef ag_pieces(struct ag *g, LLVMValueRef n, int64_t unit)
{
    return LLVMBuildUDiv(g->e->b, ag_add(g, n, em_i64(g->e, unit - 1)), em_i64(g->e, unit), "");
}

void ag_bind_dim(struct ag *g, int dim, LLVMValueRef v)
{
    if (dim >= 0)
        em_bind(g->e, g->a.k->dims[dim].var, v);
}

void ag_bind_row(struct ag *g, LLVMValueRef r)
{
    LLVMValueRef right = LLVMBuildSub(g->e->b, g->hi, em_i64(g->e, 1), "");
    ag_bind_dim(g, g->a.r.row, em_least(g->e, ag_add(g, g->lo, r), right));
}

LLVMValueRef ag_value(struct ag *g, int i)
{
    const struct kn_stage *s = &g->a.k->stages[kn_stage_of(g->a.k, i)];
    em_insn_needed(g->e, i);
    LLVMValueRef v = em_splat(g->e, g->e->value[i], g->a.lanes);
    em_forget(g->e, s->first, s->last);
    return v;
}

void ag_lanes_along(struct ag *g, int dim, LLVMValueRef first, LLVMValueRef mask)
{
    em_set_lanes(g->e, NULL, 1, NULL);
    ag_bind_dim(g, dim, first);
    em_set_lanes(g->e, g->a.k->dims[dim].var, g->a.lanes, mask);
}

void ag_no_lanes(struct ag *g)
{
    em_set_lanes(g->e, NULL, 1, NULL);
}

LLVMValueRef ag_const_mask(struct ag *g, int64_t first, int64_t n)
{
    return first + g->a.lanes <= n ? NULL : em_tail_mask(g->e, em_i64(g->e, n - first), g->a.lanes);
}

void ag_take_queries(struct ag *g)
{
    struct em *e = g->e;
    struct em_loop l;
    em_loop_begin(e, &l, em_below(e, ag_times(g, ag_pieces(g, g->rows, g->a.mr), g->a.mr)), em_i64(e, 1), "q");
    ag_bind_row(g, l.iv);
    LLVMValueRef right = ag_times(g, l.iv, g->a.nd);
    LLVMValueRef to = ag_element(g, ag_part(g, g->at.q), right);
    for (int64_t d = 0; d < g->a.nd; d += g->a.lanes) {
        LLVMValueRef mask = ag_const_mask(g, d, g->a.nd);
        ag_lanes_along(g, g->a.r.d, em_i64(e, d), mask);
        LLVMValueRef v = ag_value(g, g->a.r.val_q);
        em_store(e, TCC_F32, ag_element(g, to, em_i64(e, d)), v, mask, -1);
        ag_no_lanes(g);
    }
    em_loop_end(e, &l);
}

bool ag_keys_are_lanes(struct ag *g)
{
    const struct kn_insn *n = &g->a.k->insns[g->a.r.load_k];
    int64_t stride;
    ir_expr off = kn_flat_offset(g->a.ctx, &g->a.k->operands[n->operand], n->index);
    return em_lane_stride(g->a.ctx, off, g->a.k->dims[g->a.r.t].var, g->a.lanes, false, &stride) && stride == 1;
}

/* `lanes` keys from `key` on, width by width, to `to`, `panel` elements apart. */
static void take_key_vectors(struct ag *g, LLVMValueRef key, LLVMValueRef to, int64_t panel)
{
    struct em *e = g->e;
    struct em_loop l;
    LLVMValueRef mask = em_tail_mask(e, LLVMBuildSub(e->b, em_extent(e, g->a.r.t), key, ""), g->a.lanes);
    em_loop_begin(e, &l, em_below(e, em_i64(e, g->a.nd)), em_i64(e, 1), "d");
    ag_bind_dim(g, g->a.r.d, l.iv);
    ag_lanes_along(g, g->a.r.t, key, mask);
    LLVMValueRef v = ag_value(g, g->a.r.val_k);
    ag_no_lanes(g);
    ag_store(g, ag_element(g, to, ag_times(g, l.iv, panel)), v);
    em_loop_end(e, &l);
}

/* The same by squares, transposed in registers; keys behind the last one repeat it. */
static void take_key_square(struct ag *g, LLVMValueRef key, LLVMValueRef to, int64_t panel, LLVMValueRef d, int count)
{
    struct em *e = g->e;
    struct cg square = {.e = e, .lanes = g->a.lanes};
    LLVMValueRef v[16], last = LLVMBuildSub(e->b, em_extent(e, g->a.r.t), em_i64(e, 1), "");
    LLVMValueRef mask = count < g->a.lanes ? em_tail_mask(e, em_i64(e, count), g->a.lanes) : NULL;
    for (int j = 0; j < g->a.lanes; j++) {
        ag_no_lanes(g);
        ag_bind_dim(g, g->a.r.t, em_least(g->e, ag_add(g, key, em_i64(e, j)), last));
        ag_lanes_along(g, g->a.r.d, d, mask);
        v[j] = ag_value(g, g->a.r.val_k);
    }
    ag_no_lanes(g);
    cg_transpose(&square, v);
    for (int j = 0; j < count; j++)
        ag_store(g, ag_element(g, to, ag_times(g, ag_add(g, d, em_i64(e, j)), panel)), v[j]);
}

void ag_take_keys(struct ag *g, LLVMValueRef t0, LLVMValueRef n)
{
    struct em *e = g->e;
    struct em_loop l, s;
    int64_t panel = (int64_t)g->a.cv * g->a.lanes, whole = g->a.nd / g->a.lanes * g->a.lanes;
    LLVMValueRef cv = em_i64(e, g->a.cv);
    em_loop_begin(e, &l, em_below(e, ag_times(g, ag_pieces(g, n, panel), g->a.cv)), em_i64(e, 1), "keys");
    LLVMValueRef right = ag_times(g, LLVMBuildURem(e->b, l.iv, cv, ""), g->a.lanes);
    LLVMValueRef to = ag_add(g, ag_times(g, LLVMBuildUDiv(e->b, l.iv, cv, ""), g->a.nd * panel), right);
    to = ag_element(g, ag_part(g, g->at.keys), to);
    LLVMValueRef key = ag_add(g, t0, ag_times(g, l.iv, g->a.lanes));
    if (ag_keys_are_lanes(g)) {
        take_key_vectors(g, key, to, panel);
    } else {
        if (whole) {
            em_loop_begin(e, &s, em_below(e, em_i64(e, whole)), em_i64(e, g->a.lanes), "square");
            take_key_square(g, key, to, panel, s.iv, g->a.lanes);
            em_loop_end(e, &s);
        }
        if (whole < g->a.nd)
            take_key_square(g, key, to, panel, em_i64(e, whole), (int)(g->a.nd - whole));
    }
    em_loop_end(e, &l);
}

void ag_take_values(struct ag *g, LLVMValueRef t0, LLVMValueRef n)
{
    struct em *e = g->e;
    struct em_loop l;
    if (g->a.off_v)
        return;
    int64_t width = at_round(g->a.ne, g->a.lanes);
    em_loop_begin(e, &l, em_below(e, n), em_i64(e, 1), "v");
    LLVMValueRef right = ag_times(g, l.iv, width);
    LLVMValueRef to = ag_element(g, ag_part(g, g->at.values), right);
    ag_bind_dim(g, g->a.r.t, ag_add(g, t0, l.iv));
    for (int64_t x = 0; x < g->a.ne; x += g->a.lanes) {
        ag_lanes_along(g, g->a.r.e, em_i64(e, x), ag_const_mask(g, x, g->a.ne));
        LLVMValueRef v = ag_value(g, g->a.r.val_v);
        ag_no_lanes(g);
        ag_store(g, ag_element(g, to, em_i64(e, x)), v);
    }
    em_loop_end(e, &l);
}
