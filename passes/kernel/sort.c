/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sort.c - the kernel of topk_values, topk_positions, or both: a row and its positions, private to the kernel, are
 * sorted, and the first k stored.
 *
 *   outer: all axes but the sorted one; inner c, p < k
 *   stage (c)   keys[c] = x[.., c]; at[c] = c, or the place that is given
 *   stage ()    sort keys at
 *   stage (p)   the epilogue of keys[p] or at[p], the store
 *   stage (p)   where both are wanted, the store of the other
 */
#include "passes/lower_int.h"

static int add_row(struct kb *k, ir_expr extent, enum tcc_dtype dtype, const char *name)
{
    struct kn_operand row = {.use = KN_LOCAL, .space = KN_SCRATCH, .dtype = dtype, .name = name, .rank = 1};
    row.dims[0] = extent;
    VEC_PUSH(k->ctx, k->operands, row);
    VEC_PUSH(k->ctx, k->values, NULL);
    return k->operands.n - 1;
}

/* stored -1: loads. */
static int row_access(struct kb *k, int stage, int row, ir_expr at, int stored)
{
    ir_expr *index = IR_NEWN(k->ctx, 1, ir_expr);
    *index = at;
    return kb_insn(k, stage,
                   (struct kn_insn){.code = stored >= 0 ? KN_STORE : KN_LOAD,
                                    .dtype = k->operands.at[row].dtype,
                                    .nargs = stored >= 0,
                                    .arg = {stored, -1, -1},
                                    .operand = row,
                                    .nindex = 1,
                                    .index = index});
}

/* What that op's result is at place p. */
static int result(struct kb *k, int stage, enum ir_op op, int keys, int at, ir_expr p)
{
    return op == IR_topk_values ? row_access(k, stage, keys, p, -1)
                                : kb_cast(k, stage, row_access(k, stage, at, p, -1), TCC_I64);
}

bool lw_build_topk(struct kb *k, struct lw_group *g)
{
    const struct ir_node *n = g->anchor, *beside = lw_beside(g);
    struct ir_value *x = n->in[0].value, *places = n->nin > 1 ? n->in[1].value : NULL;
    enum tcc_dtype dtype = (enum tcc_dtype)x->type->dtype;
    int axis = (int)ir_get_i(n, IR_ATTR_axis, 0);
    ir_expr idx[TCC_MAX_RANK];
    uint32_t in_c = 0, in_p = 0;
    if (k->lw->layout[n->out[0]->id] || k->lw->layout[g->value->id])
        k->failed = "a sort in a blocked layout";
    for (int i = 0; i < x->type->rank; i++) {
        ir_expr extent = x->type->dim[i];
        int d = i == axis || ir_is_value(extent, 1) ? -1 : kb_dim(k, extent, KN_OUTER);
        idx[i] = d < 0 ? ir_const(k->ctx, 0) : k->dims.at[d].var;
    }
    ir_expr c = lw_inner_dim(k, x->type->dim[axis], &in_c), p = lw_inner_dim(k, n->out[0]->type->dim[axis], &in_p);
    int keys = add_row(k, x->type->dim[axis], dtype, "keys"), at = add_row(k, x->type->dim[axis], TCC_I32, "at");
    int stage = kb_stage_new(k, in_c);
    idx[axis] = c;
    row_access(k, stage, keys, c, lw_operand(k, stage, x, idx, dtype));
    row_access(k, stage, at, c, places ? lw_operand(k, stage, places, idx, TCC_I32) : kb_expr(k, stage, TCC_I32, c));
    kb_stage_end(k, stage);
    stage = kb_stage_new(k, 0);
    kb_insn(k, stage,
            (struct kn_insn){.code = KN_SORT,
                             .dtype = dtype,
                             .reducer = ir_get_i(n, IR_ATTR_largest, 1) ? KN_MAX : KN_MIN,
                             .operand = keys,
                             .ivalue = at,
                             .arg = {-1, -1, -1}});
    kb_stage_end(k, stage);
    stage = kb_stage_new(k, in_p);
    idx[axis] = p;
    if (!lw_finish(k, g, stage, idx, result(k, stage, n->op, keys, at, p)))
        return false;
    if (beside) {
        stage = kb_stage_new(k, in_p);
        lw_store_second(k, g, stage, idx, result(k, stage, beside->op, keys, at, p));
    }
    return !k->failed;
}
