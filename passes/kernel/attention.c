/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention.c - attention as one kernel: scores of a row, their softmax, and the mean of the values by it, with the row
 * of scores private to the kernel. A target need not hold the whole row: the maximum and the sum may be corrected while
 * keys come in (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al., FlashAttention,
 * 2022).
 *
 *   outer b, h, s; inner t (keys), d, e
 *   stage (d) repeat (t)   dot = sum of q k
 *   stage () repeat (t)   row[t] = dot * scale + mask, hidden where causal
 *   stage (t)            top = max row[t]
 *   stage ()             bounded away from -inf, so that a hidden key weighs 0
 *   stage (t)            row2[t] = exp(row[t] - top), sum
 *   stage (t) repeat (e)   mean = sum of row2[t] v
 *   stage () repeat (e)   mean / sum, the epilogue, the store
 *   stage ()              log(sum) + top, where the rows' logarithms are read (attention_lse)
 *
 * Its gradients work the weights out again from those logarithms (Dao, "FlashAttention-2", 2023, section 3); there are
 * no sums that several points share. By q; by k the same with rows and keys in each other's place, behind that by
 * v, from p, in one kernel:
 *
 *   outer b, h, s; inner t (keys), d, e
 *   stage (d) repeat (t)   dot = sum of q k
 *   stage (e) repeat (t)   dp = sum of dy v
 *   stage () repeat (t)   p = exp(dot * scale + mask - lse); row[t] = p * (dp - delta); by v: row2[t] = p
 *   stage (t) repeat (e)   by v: sum of row2[t] dy
 *   stage () repeat (e)   the epilogue, the store
 *   stage (t) repeat (d)   sum of row[t] k
 *   stage () repeat (d)   times scale, the store (by q the epilogue before)
 */
#include "passes/lower_int.h"

#include <float.h>
#include <math.h>

struct attention {
    const struct ir_node *n;
    struct ir_value *q, *k, *v, *mask, *dy, *lse, *delta;
    ir_expr idx[4], s, t, d;   /* idx: of the result; the query, the key */
    uint32_t in_t, in_d, in_e; /* t: of what an outer point goes over: keys, or queries */
    ir_expr over, along;       /* its extent and its index */
    enum tcc_dtype acc;
    struct kn_score *is; /* roles that the score's instructions get */
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
    row.dims[0] = a->over;
    VEC_PUSH(k->ctx, k->operands, row);
    VEC_PUSH(k->ctx, k->values, NULL);
    return k->operands.n - 1;
}

static int row_access(struct kb *k, int stage, const struct attention *a, int row, int stored)
{
    ir_expr *index = IR_NEWN(k->ctx, 1, ir_expr);
    index[0] = a->along;
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

/* The sum of the products of two operands along d or e; the factors. */
static int dot(struct kb *k, const struct attention *a, struct ir_value *q, struct ir_value *keys, ir_expr last,
               uint32_t inner, int args[2])
{
    ir_expr at[4] = {a->idx[0], a->idx[1], a->s, last};
    int stage = stage_of(k, inner, a->in_t);
    args[0] = lw_operand(k, stage, q, at, a->acc);
    key_index(k, a, last, at);
    args[1] = lw_operand(k, stage, keys, at, a->acc);
    int id = lw_reduce(k, stage, KN_SUM, a->acc, kb_scalar(k, stage, IR_mul, a->acc, 2, args));
    kb_stage_end(k, stage);
    return id;
}

/* Is that outer dim the rows', of which the loads in front have own ones, and the n others the same? */
static bool is_row(const struct kb *k, int dim, int nown, int n, const int *loads)
{
    for (int i = 0; i < n; i++)
        if (loads[i] < 0 || kn_runs_along(&k->insns.at[loads[i]].insn, k->dims.at[dim].var) != (i < nown))
            return false;
    return true;
}

static int row_of(const struct kb *k, int nown, int n, const int *loads)
{
    int row = -1;
    for (int d = 0; d < k->dims.n && k->dims.at[d].role == KN_OUTER; d++)
        row = is_row(k, d, nown, n, loads) ? d : row;
    return row;
}

static int dim_of(uint32_t set)
{
    return __builtin_ctz(set);
}

/* The score of a query and a key, of which `id` is the product. */
static int masked(struct kb *k, int stage, const struct attention *a, int id)
{
    ir_expr at[4];
    int args[3];
    double scale = ir_get_f(a->n, IR_ATTR_scale, 1.0);
    if (scale != 1.0) {
        args[0] = id;
        args[1] = a->is->scale = kb_const(k, stage, a->acc, scale, 0);
        id = kb_scalar(k, stage, IR_mul, a->acc, 2, args);
    }
    a->is->scaled = id;
    if (a->mask) {
        ir_expr full[4] = {a->idx[0], a->idx[1], a->s, a->t};
        int r = a->mask->type->rank;
        for (int i = 0; i < r; i++)
            at[i] = ir_is_value(a->mask->type->dim[i], 1) ? ir_const(k->ctx, 0) : full[4 - r + i];
        args[0] = id;
        args[1] = kb_cast(k, stage, kb_value(k, stage, a->mask, at), a->acc);
        id = kb_scalar(k, stage, IR_add, a->acc, 2, args);
    }
    a->is->unmasked = id;
    if (ir_get_i(a->n, IR_ATTR_causal, 0)) {
        int compared[2] = {kb_expr(k, stage, TCC_I64, a->s), kb_expr(k, stage, TCC_I64, a->t)};
        args[0] = kb_scalar(k, stage, IR_ge, TCC_BOOL, 2, compared);
        args[1] = id;
        args[2] = kb_const(k, stage, a->acc, -INFINITY, 0);
        id = kb_scalar(k, stage, IR_select, a->acc, 3, args);
        if (ir_is_const(a->s, NULL) || ir_is_const(a->t, NULL)) { /* one of them is at one place: no range is known */
            a->is->unmasked = id;
        } else {
            a->is->compare = args[0];
            a->is->query = compared[0];
            a->is->key = compared[1];
        }
    }
    return a->is->score = id;
}

static int scores(struct kb *k, struct attention *a)
{
    struct kn_attention *r = &k->roles.attention;
    int row = row_buffer(k, a), args[2];
    r->dot = dot(k, a, a->q, a->k, a->d, a->in_d, args);
    r->val_q = args[0];
    r->val_k = args[1];
    int stage = stage_of(k, 0, a->in_t);
    row_access(k, stage, a, row, masked(k, stage, a, r->dot));
    kb_stage_end(k, stage);
    return row;
}

/* Weights in a row buffer of their own, unless `sum_alone`. */
static int weights(struct kb *k, struct attention *a, int row, bool sum_alone)
{
    struct kn_attention *r = &k->roles.attention;
    int stage = stage_of(k, a->in_t, 0), args[2], result = sum_alone ? -1 : row_buffer(k, a);
    r->top = lw_reduce(k, stage, KN_MAX, a->acc, row_access(k, stage, a, row, -1));
    kb_stage_end(k, stage);
    stage = stage_of(k, 0, 0);
    args[0] = r->top;
    args[1] = kb_const(k, stage, a->acc, -tcc_largest(a->acc), 0);
    r->clamped = kb_scalar(k, stage, IR_max, a->acc, 2, args);
    kb_stage_end(k, stage);
    stage = stage_of(k, a->in_t, 0);
    args[0] = row_access(k, stage, a, row, -1);
    args[1] = r->clamped;
    args[0] = kb_scalar(k, stage, IR_sub, a->acc, 2, args);
    int e = kb_scalar(k, stage, IR_exp, a->acc, 1, args);
    if (!sum_alone)
        row_access(k, stage, a, result, e);
    r->sum = lw_reduce(k, stage, KN_SUM, a->acc, e);
    kb_stage_end(k, stage);
    return result;
}

/* At least the smallest normal number: of a row that sees no key it is 0. */
static int positive(struct kb *k, int stage, const struct attention *a, int sum)
{
    int args[2] = {sum, kb_const(k, stage, a->acc, FLT_MIN, 0)};
    return kb_scalar(k, stage, IR_max, a->acc, 2, args);
}

/* Where a row that sees no key is NaN: 0 / 0 there, but 0 where there are no keys at all, whose mean is a sum of
 * nothing. */
static int unless_empty(struct kb *k, int stage, const struct attention *a, int sum)
{
    ir_expr one = ir_const(k->ctx, 1), empty = ir_sub(k->ctx, one, ir_min(k->ctx, one, a->over));
    if (ir_is_value(empty, 0))
        return sum;
    int args[2] = {sum, kb_cast(k, stage, kb_expr(k, stage, TCC_I64, empty), a->acc)};
    return kb_scalar(k, stage, IR_max, a->acc, 2, args);
}

static int logarithm(struct kb *k, int stage, const struct attention *a, int sum, int top)
{
    int log = positive(k, stage, a, sum), args[2] = {kb_scalar(k, stage, IR_log, a->acc, 1, &log), top};
    return kb_scalar(k, stage, IR_add, a->acc, 2, args);
}

/* The operands, and outer dims for the result's first three axes. */
static struct attention begin(struct kb *k, const struct lw_group *g)
{
    const struct ir_node *n = g->anchor;
    struct attention a = {.n = n, .q = n->in[0].value, .k = n->in[1].value};
    bool grad = n->op != IR_attention_lse && n->op != IR_attention;
    int mask = grad ? 6 : 3;
    a.v = n->in[2].value;
    a.dy = grad ? n->in[3].value : NULL;
    a.lse = grad ? n->in[4].value : NULL;
    a.delta = grad ? n->in[5].value : NULL;
    a.mask = n->nin > mask ? n->in[mask].value : NULL;
    a.acc = kb_acc_dtype(a.q->type->dtype);
    if (k->lw->layout[n->out[0]->id] || k->lw->layout[g->results[0].value->id])
        k->failed = "attention in a blocked layout";
    for (int i = 0; i < 3; i++) {
        ir_expr extent = n->out[0]->type->dim[i];
        int d = ir_is_value(extent, 1) ? -1 : kb_dim(k, extent, KN_OUTER);
        a.idx[i] = d < 0 ? ir_const(k->ctx, 0) : k->dims.at[d].var;
    }
    return a;
}

/* The stage for the rows' logarithms, and those. */
static int logarithm_stage(struct kb *k, const struct attention *a, int *id)
{
    struct kn_attention *r = &k->roles.attention;
    r->lse = stage_of(k, 0, 0);
    *id = logarithm(k, r->lse, a, r->sum, r->clamped);
    return r->lse;
}

/* The sum of the weighted values over the sum of the weights; the stage behind it, in which it is stored. */
static int mean(struct kb *k, const struct attention *a, int row)
{
    struct kn_attention *r = &k->roles.attention;
    int stage = stage_of(k, a->in_t, a->in_e), args[2];
    ir_expr at[4];
    key_index(k, a, a->idx[3], at);
    args[0] = row_access(k, stage, a, row, -1);
    args[1] = r->val_v = lw_operand(k, stage, a->v, at, a->acc);
    r->mean = lw_reduce(k, stage, KN_SUM, a->acc, kb_scalar(k, stage, IR_mul, a->acc, 2, args));
    kb_stage_end(k, stage);
    stage = r->last = stage_of(k, 0, a->in_e);
    args[0] = r->mean;
    args[1] = ir_get_s(a->n, IR_ATTR_mode, "zero")[0] != 'n' ? positive(k, stage, a, r->sum)
                                                             : unless_empty(k, stage, a, r->sum);
    return kb_scalar(k, stage, IR_div, a->acc, 2, args);
}

/* Dims, and the loads behind the factors; a score of doubles is nothing that targets know. */
static void forward_roles(struct kb *k, const struct attention *a)
{
    struct kn_attention *r = &k->roles.attention;
    bool alone = r->mean < 0;
    r->t = dim_of(a->in_t);
    r->d = dim_of(a->in_d);
    r->load_q = kb_load_of(k, r->val_q);
    r->load_k = kb_load_of(k, r->val_k);
    if (!alone) {
        r->e = dim_of(a->in_e);
        r->load_v = kb_load_of(k, r->val_v);
    }
    int loads[3] = {r->load_q, r->load_k, r->load_v};
    r->row = row_of(k, 1, alone ? 2 : 3, loads);
    if (a->acc != TCC_F32)
        k->roles.form = KN_NO_FORM;
}

static bool build_forward(struct kb *k, struct lw_group *g, struct attention *a)
{
    bool y = ir_has_uses(a->n->out[0]);
    struct kn_attention *r = &k->roles.attention;
    int id;
    k->roles = kn_roles_of(KN_ATTENTION);
    a->is = &r->is;
    a->s = a->idx[2];
    a->over = a->k->type->dim[2];
    a->along = a->t = lw_inner_dim(k, a->over, &a->in_t);
    a->d = lw_inner_dim(k, a->q->type->dim[3], &a->in_d);
    if (y)
        a->idx[3] = lw_inner_dim(k, a->n->out[0]->type->dim[3], &a->in_e);
    int row = weights(k, a, scores(k, a), !y);
    if (y) {
        id = mean(k, a, row);
        if (!lw_store_result(k, g, 0, r->last, a->idx, id))
            return false;
    }
    if (a->n->nout > 1 && ir_has_uses(a->n->out[1])) {
        int stage = logarithm_stage(k, a, &id);
        if (!lw_store_result(k, g, 1, stage, a->idx, id))
            return false;
    }
    forward_roles(k, a);
    return true;
}

/* Weights p and p (dp - delta) in row buffers; p_row -1: the first are not wanted. */
static void grad_weights(struct kb *k, struct attention *a, int p_row, int ds_row, bool by_q)
{
    struct kn_attention_grad *r = &k->roles.attention_grad;
    const ir_expr at[3] = {a->idx[0], a->idx[1], a->s};
    int val[2][2], args[2];
    r->dot[0] = dot(k, a, a->q, a->k, a->d, a->in_d, val[0]);
    r->dot[1] = dot(k, a, a->dy, a->v, a->idx[3], a->in_e, val[1]);
    for (int i = 0; i < 2; i++) {
        r->val_row[i] = val[i][!by_q];
        r->val_col[i] = val[i][by_q];
        r->load_row[i] = kb_load_of(k, r->val_row[i]);
        r->load_col[i] = kb_load_of(k, r->val_col[i]);
    }
    int stage = stage_of(k, 0, a->in_t);
    args[0] = masked(k, stage, a, r->dot[0]);
    args[1] = r->lse = kb_value(k, stage, a->lse, at);
    r->less = kb_scalar(k, stage, IR_sub, a->acc, 2, args);
    r->weight[1] = kb_scalar(k, stage, IR_exp, a->acc, 1, &r->less);
    if (p_row >= 0)
        row_access(k, stage, a, p_row, r->weight[1]);
    args[0] = r->dot[1];
    args[1] = r->delta = kb_value(k, stage, a->delta, at);
    args[1] = kb_scalar(k, stage, IR_sub, a->acc, 2, args);
    args[0] = r->weight[1];
    r->weight[0] = kb_scalar(k, stage, IR_mul, a->acc, 2, args);
    row_access(k, stage, a, ds_row, r->weight[0]);
    kb_stage_end(k, stage);
}

/* The sum of row[..] times x's rows, and the stage behind it, in which it is stored: the first side's columns', or the
 * second's. */
static int grad_sum(struct kb *k, const struct attention *a, int row, struct ir_value *x, ir_expr last,
                    uint32_t in_last, int side)
{
    struct kn_attention_grad *r = &k->roles.attention_grad;
    ir_expr at[4] = {a->idx[0], a->idx[1], a->s, last};
    int stage = stage_of(k, a->in_t, in_last), args[2];
    if (x == a->k)
        key_index(k, a, last, at);
    args[0] = row_access(k, stage, a, row, -1);
    args[1] = lw_operand(k, stage, x, at, a->acc);
    r->sum[side] = lw_reduce(k, stage, KN_SUM, a->acc, kb_scalar(k, stage, IR_mul, a->acc, 2, args));
    kb_stage_end(k, stage);
    r->last[side] = stage_of(k, 0, in_last);
    return r->sum[side];
}

/* The gradient by v, or by q or k, in the stage in which it is stored. */
static int gradient_of(struct kb *k, const struct attention *a, bool by_v, int p_row, int ds_row, int *stage)
{
    struct kn_attention_grad *r = &k->roles.attention_grad;
    double scale = ir_get_f(a->n, IR_ATTR_scale, 1.0);
    int args[2];
    if (by_v) {
        args[0] = grad_sum(k, a, p_row, a->dy, a->idx[3], a->in_e, 1);
        *stage = r->last[1];
        return args[0];
    }
    args[0] = grad_sum(k, a, ds_row, a->n->op == IR_attention_grad_q ? a->k : a->q, a->d, a->in_d, 0);
    *stage = r->last[0];
    args[1] = kb_const(k, *stage, a->acc, scale, 0);
    return kb_scalar(k, *stage, IR_mul, a->acc, 2, args);
}

static bool build_gradient(struct kb *k, struct lw_group *g, struct attention *a)
{
    bool by_q = a->n->op == IR_attention_grad_q;
    struct kn_attention_grad *r = &k->roles.attention_grad;
    int stage;
    k->roles = kn_roles_of(KN_ATTENTION_GRAD);
    a->is = &r->is;
    a->over = (by_q ? a->k : a->q)->type->dim[2];
    a->along = lw_inner_dim(k, a->over, &a->in_t);
    a->s = by_q ? a->idx[2] : a->along;
    a->t = by_q ? a->along : a->idx[2];
    a->d = lw_inner_dim(k, a->q->type->dim[3], &a->in_d);
    a->idx[3] = lw_inner_dim(k, a->dy->type->dim[3], &a->in_e);
    r->col = dim_of(a->in_t);
    r->d = dim_of(a->in_d);
    r->e = dim_of(a->in_e);
    int ds_row = row_buffer(k, a), p_row = !by_q && ir_has_uses(a->n->out[0]) ? row_buffer(k, a) : -1;
    grad_weights(k, a, p_row, ds_row, by_q);
    r->row = row_of(k, 2, 4, (int[]){r->load_row[0], r->load_row[1], r->load_col[0], r->load_col[1]});
    for (int i = 0; i < a->n->nout; i++) {
        bool by_v = !by_q && !i;
        ir_expr idx[4] = {a->idx[0], a->idx[1], a->idx[2], by_v ? a->idx[3] : a->d};
        if (!ir_has_uses(a->n->out[i]))
            continue;
        int id = gradient_of(k, a, by_v, p_row, ds_row, &stage);
        if (!lw_store_result(k, g, i, stage, idx, id))
            return false;
    }
    if (a->acc != TCC_F32)
        k->roles.form = KN_NO_FORM;
    return true;
}

bool lw_build_attention(struct kb *k, struct lw_group *g)
{
    struct attention a = begin(k, g);
    if (k->failed)
        return false;
    return a.dy ? build_gradient(k, g, &a) : build_forward(k, g, &a);
}
