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
 *   stage ()              log(sum) + top, where the group stores the rows' logarithms beside it (attention_lse)
 *
 * Its gradients work the weights out again from those logarithms (Dao, "FlashAttention-2", 2023, section 3); there are
 * no sums that several points share. By q; by k the same with rows and keys in each other's place, and by v from p,
 * where both are wanted in one kernel:
 *
 *   outer b, h, s; inner t (keys), d, e
 *   stage (d) repeat (t)   dot = sum of q k
 *   stage (e) repeat (t)   dp = sum of dy v
 *   stage () repeat (t)   p = exp(dot * scale + mask - lse); row[t] = p * (dp - delta); by v too: row2[t] = p
 *   stage (t) repeat (d)   sum of row[t] k
 *   stage () repeat (d)   times scale, the epilogue, the store
 *   stage (t) repeat (e)   by v: sum of row2[t] dy
 *   stage () repeat (e)   its store
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
    args[1] = kb_const(k, stage, a->acc, a->acc == TCC_F64 ? -DBL_MAX : -FLT_MAX, 0);
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

/* v, which casts make of the value that is `id`. */
static int cast_through(struct kb *k, int stage, const struct ir_value *v, int id)
{
    if (v->def->op == IR_cast)
        id = cast_through(k, stage, v->def->in[0].value, id);
    return kb_cast(k, stage, id, v->type->dtype);
}

/* What the group stores beside its value. */
void lw_store_second(struct kb *k, const struct lw_group *g, int stage, const ir_expr *idx, int id)
{
    kb_store(k, stage, g->second, idx, cast_through(k, stage, g->second, id));
    kb_stage_end(k, stage);
}

/* The operands, and outer dims for the result's first three axes. */
static struct attention begin(struct kb *k, const struct lw_group *g)
{
    const struct ir_node *n = g->anchor;
    struct attention a = {.n = n, .q = n->in[0].value, .k = n->in[1].value};
    bool lse = n->op == IR_attention_lse, grad = !lse && n->op != IR_attention;
    int mask = lse ? 2 : grad ? 6 : 3;
    a.v = lse ? NULL : n->in[2].value;
    a.dy = grad ? n->in[3].value : NULL;
    a.lse = grad ? n->in[4].value : NULL;
    a.delta = grad ? n->in[5].value : NULL;
    a.mask = n->nin > mask ? n->in[mask].value : NULL;
    a.acc = kb_acc_dtype(a.q->type->dtype);
    if (k->lw->layout[n->out[0]->id] || k->lw->layout[g->value->id])
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
    bool lse = a->n->op == IR_attention_lse;
    struct kn_attention *r = &k->roles.attention;
    int id, stage;
    k->roles = kn_roles_of(KN_ATTENTION);
    a->is = &r->is;
    a->s = a->idx[2];
    a->over = a->k->type->dim[2];
    a->along = a->t = lw_inner_dim(k, a->over, &a->in_t);
    a->d = lw_inner_dim(k, a->q->type->dim[3], &a->in_d);
    if (!lse)
        a->idx[3] = lw_inner_dim(k, a->n->out[0]->type->dim[3], &a->in_e);
    int row = weights(k, a, scores(k, a), lse);
    if (lse) {
        stage = logarithm_stage(k, a, &id);
    } else {
        id = mean(k, a, row);
        stage = r->last;
    }
    if (!lw_finish(k, g, stage, a->idx, id))
        return false;
    if (lw_beside(g)) {
        stage = logarithm_stage(k, a, &id);
        lw_store_second(k, g, stage, a->idx, id);
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

/* The gradient of that op, in the stage in which it is stored. */
static int gradient_of(struct kb *k, const struct attention *a, enum ir_op op, int p_row, int ds_row, int *stage)
{
    struct kn_attention_grad *r = &k->roles.attention_grad;
    double scale = ir_get_f(a->n, IR_ATTR_scale, 1.0);
    int args[2];
    if (op == IR_attention_grad_v) {
        args[0] = grad_sum(k, a, p_row, a->dy, a->idx[3], a->in_e, 1);
        *stage = r->last[1];
        return args[0];
    }
    args[0] = grad_sum(k, a, ds_row, op == IR_attention_grad_q ? a->k : a->q, a->d, a->in_d, 0);
    *stage = r->last[0];
    args[1] = kb_const(k, *stage, a->acc, scale, 0);
    return kb_scalar(k, *stage, IR_mul, a->acc, 2, args);
}

static bool build_gradient(struct kb *k, struct lw_group *g, struct attention *a)
{
    bool by_q = a->n->op == IR_attention_grad_q, by_v = a->n->op == IR_attention_grad_v;
    const struct ir_node *beside = lw_beside(g);
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
    int ds_row = row_buffer(k, a), p_row = by_v || beside ? row_buffer(k, a) : -1;
    grad_weights(k, a, p_row, ds_row, by_q);
    r->row = row_of(k, 2, 4, (int[]){r->load_row[0], r->load_row[1], r->load_col[0], r->load_col[1]});
    const struct ir_node *node[2] = {a->n, beside};
    for (int i = 0; i < 2 && node[i]; i++) {
        ir_expr idx[4] = {a->idx[0], a->idx[1], a->idx[2], node[i]->op == IR_attention_grad_v ? a->idx[3] : a->d};
        int id = gradient_of(k, a, node[i]->op, p_row, ds_row, &stage);
        if (i)
            lw_store_second(k, g, stage, idx, id);
        else if (!lw_finish(k, g, stage, idx, id))
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

/* -- Two in one
 * -------------------------------------------------------------------------------------------------------- */

/* Is it of those whose kernels may store two results? */
static bool has_two(const struct ir_node *n)
{
    return ir_op_info(n->op)->kind == IR_K_ATTENTION || ir_op_info(n->op)->kind == IR_K_SORT;
}

/* The node of which a group of attention, or of a sort, stores the value, or a cast of it, beside its own; NULL:
 * none. */
const struct ir_node *lw_beside(const struct lw_group *g)
{
    const struct ir_value *v = g->second;
    while (v && v->def && v->def->op == IR_cast)
        v = v->def->in[0].value;
    bool own = !v || !v->def || !g->anchor || v->def == g->anchor || !has_two(v->def) || !has_two(g->anchor);
    return own ? NULL : v->def;
}

static bool sorts_the_same(const struct ir_node *n, const struct ir_node *m)
{
    return m->op != n->op && ir_op_info(m->op)->kind == IR_K_SORT && m->block == n->block && m->nout == 1 &&
           m->nin == n->nin && m->in[0].value == n->in[0].value && m->in[m->nin - 1].value == n->in[n->nin - 1].value &&
           ir_get_i(m, IR_ATTR_axis, 0) == ir_get_i(n, IR_ATTR_axis, 0) &&
           ir_get_i(m, IR_ATTR_largest, 1) == ir_get_i(n, IR_ATTR_largest, 1) &&
           ir_attr(m, IR_ATTR_k)->e == ir_attr(n, IR_ATTR_k)->e;
}

/* Is m what n's kernel can give as well: the rows' logarithms of attention; of the gradients by k and v the other; of
 * sorted values and their positions? */
static bool goes_with(const struct ir_node *n, const struct ir_node *m)
{
    if (ir_op_info(n->op)->kind == IR_K_SORT)
        return sorts_the_same(n, m);
    bool lse = n->op == IR_attention && m->op == IR_attention_lse;
    if (!lse && (n->op != IR_attention_grad_k || m->op != IR_attention_grad_v) &&
        (n->op != IR_attention_grad_v || m->op != IR_attention_grad_k))
        return false;
    if (m->block != n->block || ir_get_f(n, IR_ATTR_scale, 1) != ir_get_f(m, IR_ATTR_scale, 1) ||
        ir_get_i(n, IR_ATTR_causal, 0) != ir_get_i(m, IR_ATTR_causal, 0) || n->nin != m->nin + lse)
        return false;
    for (int i = 0; i < m->nin; i++)
        if (m->in[i].value != n->in[lse && i == 2 ? 3 : i].value)
            return false;
    return true;
}

/* Nobody reads v, or a view of it, up to the group's root, where its kernel runs. */
static bool read_behind(const struct lw_group *g, const struct ir_value *v)
{
    enum { MOST = 16 };
    const struct ir_value *same[MOST] = {v};
    int nsame = 1;
    for (const struct ir_node *n = g->anchor; n; n = n->next) {
        bool reads = false;
        for (int i = 0; i < n->nin; i++)
            for (int j = 0; j < nsame; j++)
                reads |= n->in[i].value == same[j];
        if (reads && (!lw_is_view(n) || nsame == MOST))
            return false;
        if (reads)
            same[nsame++] = n->out[0];
        if (n == g->root)
            return true;
    }
    return false;
}

/* The cast that alone reads v; NULL: there is none. */
static struct ir_node *only_cast(const struct lw *lw, const struct ir_value *v)
{
    struct ir_node *n = ir_has_one_use(v) && !lw->live_out[v->id] ? v->uses->user : NULL;
    return n && n->op == IR_cast && n->block == v->block && !lw->in[n->id].n ? n : NULL;
}

void lw_take_beside(struct lw *lw, struct lw_group *g)
{
    struct ir_node *m = NULL;
    for (const struct ir_use *u = g->anchor->in[0].value->uses; u && !m; u = u->next)
        if (!u->index && goes_with(g->anchor, u->user) && !lw->in[u->user->id].n)
            m = u->user;
    if (!m || g->second || !(ir_has_uses(m->out[0]) || lw->live_out[m->out[0]->id]))
        return;
    g->second = m->out[0];
    lw_set_add(lw, &lw->in[m->id], g);
    for (struct ir_node *c; (c = only_cast(lw, g->second)) != NULL; g->second = c->out[0])
        lw_set_add(lw, &lw->in[c->id], g);
    if (read_behind(g, g->second) && !lw->layout[g->second->id] && lw_build(lw, g) && lw_may_change(lw)) {
        lw->materialised[g->second->id] = true;
        return;
    }
    for (const struct ir_node *c = g->second->def; c != m; c = c->in[0].value->def)
        lw->in[c->id].n = 0;
    g->second = NULL;
    lw->in[m->id].n = 0;
    lw_build(lw, g);
}
