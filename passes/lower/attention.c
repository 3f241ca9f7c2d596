/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention.c - attention as one kernel: scores of a row, their softmax, and the mean of the values by it, with the row
 * of scores private to the kernel. A target need not hold the whole row: the maximum and the sum may be corrected while keys
 * come in (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al., FlashAttention, 2022).
 *
 *   outer b, h, s; inner t (keys), d, e
 *   stage (d) repeat (t)   dot = sum of q k
 *   stage () repeat (t)   row[t] = dot * scale + mask, hidden where causal
 *   stage (t)            top = max row[t]
 *   stage ()             bounded away from -inf, so that a hidden key weighs 0
 *   stage (t)            row2[t] = exp(row[t] - top), sum
 *   stage (t) repeat (e)   mean = sum of row2[t] v
 *   stage () repeat (e)   mean / sum, the epilogue, the store
 */
#include "passes/lower/lower_int.h"

#include <float.h>
#include <math.h>

struct attention {
    const struct ir_node *n;
    struct ir_value *q, *k, *v, *mask;
    ir_expr idx[4], t, d; /* idx: of the result */
    uint32_t in_t, in_d, in_e;
    enum tcc_dtype acc;
};

static int stage_of(struct kb *k, uint32_t inner, uint32_t repeat)
{
    int s = kb_stage_new(k, inner);
    k->stages.at[s].repeat = repeat;
    return s;
}

/* A row buffer along the keys. */
static int row_buffer(struct kb *k, const struct attention *a)
{
    struct kn_operand row = {.use = KN_LOCAL, .space = KN_SCRATCH, .dtype = a->acc, .name = "row", .rank = 1};
    row.dims[0] = a->k->type->dim[2];
    VEC_PUSH(k->ctx, k->operands, row);
    VEC_PUSH(k->ctx, k->values, NULL);
    return k->operands.n - 1;
}

static int row_access(struct kb *k, int stage, const struct attention *a, int row, int stored)
{
    ir_expr *index = IR_NEWN(k->ctx, 1, ir_expr);
    index[0] = a->t;
    struct kn_insn n = {.code = stored >= 0 ? KN_STORE : KN_LOAD,
                        .dtype = a->acc,
                        .nargs = stored >= 0,
                        .arg = {stored, -1, -1},
                        .operand = row,
                        .nindex = 1,
                        .index = index};
    return kb_insn(k, stage, n);
}

/* Index of k and v: heads that share keys follow each other. */
static void key_index(struct kb *k, const struct attention *a, ir_expr last, ir_expr *at)
{
    ir_expr share = ir_floordiv(k->ctx, a->q->type->dim[1], a->k->type->dim[1]);
    at[0] = a->idx[0];
    at[1] = ir_floordiv(k->ctx, a->idx[1], share);
    at[2] = a->t;
    at[3] = last;
}

static int scores(struct kb *k, struct attention *a)
{
    ir_expr at[4];
    int stage = stage_of(k, a->in_d, a->in_t), args[3], row = row_buffer(k, a);
    at[0] = a->idx[0];
    at[1] = a->idx[1];
    at[2] = a->idx[2];
    at[3] = a->d;
    args[0] = lw_operand(k, stage, a->q, at, a->acc);
    key_index(k, a, a->d, at);
    args[1] = lw_operand(k, stage, a->k, at, a->acc);
    int id = lw_reduce(k, stage, KN_SUM, a->acc, kb_scalar(k, stage, IR_mul, a->acc, 2, args));
    kb_stage_end(k, stage);
    stage = stage_of(k, 0, a->in_t);
    double scale = ir_get_f(a->n, IR_ATTR_scale, 1.0);
    if (scale != 1.0) {
        args[0] = id;
        args[1] = kb_const(k, stage, a->acc, scale, 0);
        id = kb_scalar(k, stage, IR_mul, a->acc, 2, args);
    }
    if (a->mask) {
        ir_expr full[4] = {a->idx[0], a->idx[1], a->idx[2], a->t};
        int r = a->mask->type->rank;
        for (int i = 0; i < r; i++)
            at[i] = ir_is_value(a->mask->type->dim[i], 1) ? ir_const(k->ctx, 0) : full[4 - r + i];
        args[0] = id;
        args[1] = kb_cast(k, stage, kb_value(k, stage, a->mask, at), a->acc);
        id = kb_scalar(k, stage, IR_add, a->acc, 2, args);
    }
    if (ir_get_i(a->n, IR_ATTR_causal, 0)) {
        int compared[2] = {kb_expr(k, stage, TCC_I64, a->idx[2]), kb_expr(k, stage, TCC_I64, a->t)};
        args[0] = kb_scalar(k, stage, IR_ge, TCC_BOOL, 2, compared);
        args[1] = id;
        args[2] = kb_const(k, stage, a->acc, -INFINITY, 0);
        id = kb_scalar(k, stage, IR_select, a->acc, 3, args);
    }
    row_access(k, stage, a, row, id);
    kb_stage_end(k, stage);
    return row;
}

/* Weights in a row buffer of their own; *sum: their sum. */
static int weights(struct kb *k, struct attention *a, int row, int *sum)
{
    int stage = stage_of(k, a->in_t, 0), args[2], result = row_buffer(k, a);
    int top = lw_reduce(k, stage, KN_MAX, a->acc, row_access(k, stage, a, row, -1));
    kb_stage_end(k, stage);
    stage = stage_of(k, 0, 0);
    args[0] = top;
    args[1] = kb_const(k, stage, a->acc, a->acc == TCC_F64 ? -DBL_MAX : -FLT_MAX, 0);
    top = kb_scalar(k, stage, IR_max, a->acc, 2, args);
    kb_stage_end(k, stage);
    stage = stage_of(k, a->in_t, 0);
    args[0] = row_access(k, stage, a, row, -1);
    args[1] = top;
    args[0] = kb_scalar(k, stage, IR_sub, a->acc, 2, args);
    int e = kb_scalar(k, stage, IR_exp, a->acc, 1, args);
    row_access(k, stage, a, result, e);
    *sum = lw_reduce(k, stage, KN_SUM, a->acc, e);
    kb_stage_end(k, stage);
    return result;
}

bool lw_build_attention(struct kb *k, struct lw_group *g)
{
    struct attention a = {.n = g->anchor, .q = g->anchor->in[0].value, .k = g->anchor->in[1].value};
    a.v = a.n->in[2].value;
    a.mask = a.n->nin > 3 ? a.n->in[3].value : NULL;
    a.acc = kb_acc_dtype(a.q->type->dtype);
    ir_type out = a.n->out[0]->type;
    if (k->lw->layout[a.n->out[0]->id] || k->lw->layout[g->value->id]) {
        k->failed = "attention in a blocked layout";
        return false;
    }
    for (int i = 0; i < 3; i++) {
        int d = ir_is_value(out->dim[i], 1) ? -1 : kb_dim(k, out->dim[i], KN_OUTER);
        a.idx[i] = d < 0 ? ir_const(k->ctx, 0) : k->dims.at[d].var;
    }
    a.t = lw_inner_dim(k, a.k->type->dim[2], &a.in_t);
    a.d = lw_inner_dim(k, a.q->type->dim[3], &a.in_d);
    a.idx[3] = lw_inner_dim(k, out->dim[3], &a.in_e);
    int sum, row = weights(k, &a, scores(k, &a), &sum), stage = stage_of(k, a.in_t, a.in_e), args[2];
    ir_expr at[4];
    key_index(k, &a, a.idx[3], at);
    args[0] = row_access(k, stage, &a, row, -1);
    args[1] = lw_operand(k, stage, a.v, at, a.acc);
    int mean = lw_reduce(k, stage, KN_SUM, a.acc, kb_scalar(k, stage, IR_mul, a.acc, 2, args));
    kb_stage_end(k, stage);
    stage = stage_of(k, 0, a.in_e);
    if (ir_get_s(a.n, IR_ATTR_mode, "zero")[0] != 'n') {
        args[0] = sum;
        args[1] = kb_const(k, stage, a.acc, FLT_MIN, 0);
        sum = kb_scalar(k, stage, IR_max, a.acc, 2, args);
    }
    args[0] = mean;
    args[1] = sum;
    return lw_finish(k, g, stage, a.idx, kb_scalar(k, stage, IR_div, a.acc, 2, args));
}
