/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sort.c - the kernel of sort: a row and its positions, private to the kernel, are
 * sorted, and the first k stored.
 *
 *   outer: all axes but the sorted one; inner c, p < k
 *   stage (c)   keys[c] = x[.., c]; at[c] = c, or the place that is given
 *   stage ()    sort keys at
 *   stage (p)   the epilogue of keys[p] or at[p], the store
 *   stage (p)   where both are wanted, the store of the places
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

bool lw_build_sort(struct kb *k, struct lw_group *g)
{
    const struct ir_node *n = g->anchor;
    struct ir_value *x = n->in[0].value, *places = n->nin > 1 ? n->in[1].value : NULL;
    enum tcc_dtype dtype = (enum tcc_dtype)x->type->dtype;
    int axis = (int)ir_get_i(n, IR_ATTR_axis, 0);
    ir_expr idx[TCC_MAX_RANK];
    uint32_t in_c = 0, in_p = 0;
    if (k->lw->layout[n->out[0]->id] || k->lw->layout[g->results[0].value->id])
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
    idx[axis] = p;
    for (int i = 0; i < 2; i++) {
        if (!ir_has_uses(n->out[i]))
            continue;
        stage = kb_stage_new(k, in_p);
        int id = row_access(k, stage, i ? at : keys, p, -1);
        if (!lw_store_result(k, g, i, stage, idx, i ? kb_cast(k, stage, id, TCC_I64) : id))
            return false;
    }
    return !k->failed;
}
