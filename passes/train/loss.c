/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The losses: their values and their gradients by the scores, PyTorch's to the letter (torch.nn.functional; for classes
 * aten/src/ATen/native/LossNLL.cpp).
 *
 * Classes, row n with target class t, scores x, weights w:
 *   l(n) = -w[t] (x[t] - m - log s), m = max x, s = sum exp(x - m); 0 where t is ignore_index
 *   mean = sum l / sum w[t] over the rows that count
 * Smoothing by e over C classes adds e/C of -sum over c of w[c] log p[c], its mean over the same sum of weights, and takes 1 - e
 * of the above. Against probabilities q: -sum over c of w[c] q'[c] log p[c], q' = (1 - e) q + e/C, mean over the rows.
 *
 * The gradient is p[c] sum of row weights - weight of class c, which needs nothing of the forward pass but m and s.
 * A label outside [0, C) makes the gather that picks its score fail when it runs; nothing has been written by then.
 */
#include "passes/train/loss_int.h"

#include <string.h>

#include "runtime/mutant.h"

/* One loss being built. */
struct loss_build {
    struct ir_builder *b;
    const struct train_loss *loss;
    struct ir_value *x, *target; /* x: f32 or f64 */
    struct ir_value *factor;     /* of x's type, rank 0, or NULL */
    enum tcc_dtype dtype;        /* of x */
    int rank, axis;              /* of classes */
    bool want_gradient;
    struct ir_value *value, *gradient;
};

static struct ir_value *op1(struct loss_build *l, enum ir_op op, struct ir_value *x)
{
    return ir_unary(l->b, op, x);
}

static struct ir_value *op2(struct loss_build *l, enum ir_op op, struct ir_value *x, struct ir_value *y)
{
    return ir_binary(l->b, op, x, y);
}

static struct ir_value *choose(struct loss_build *l, struct ir_value *c, struct ir_value *x, struct ir_value *y)
{
    struct ir_value *in[] = {c, x, y};
    return ir_build1(l->b, IR_select, 3, in, NULL);
}

static struct ir_value *num(struct loss_build *l, double v)
{
    return ir_constant_f(l->b, l->dtype, v);
}

static struct ir_value *times(struct loss_build *l, struct ir_value *x, struct ir_value *y)
{
    return x && y ? op2(l, IR_mul, x, y) : x ? x : y;
}

static struct ir_value *reduce(struct loss_build *l, enum ir_op op, struct ir_value *x, int axis)
{
    int64_t axes[1] = {axis};
    return ir_build1(l->b, op, 1, &x, IR_ATTRS(ir_attr_ints(IR_ATTR_axes, 1, axes), ir_attr_i(IR_ATTR_keepdims, 1)));
}

/* Over all axes, to rank 0. */
static struct ir_value *total(struct loss_build *l, struct ir_value *x)
{
    int64_t axes[TCC_MAX_RANK];
    if (!x || !x->type->rank)
        return x;
    for (int i = 0; i < x->type->rank; i++)
        axes[i] = i;
    return ir_build1(l->b, IR_reduce_sum, 1, &x,
                     IR_ATTRS(ir_attr_ints(IR_ATTR_axes, x->type->rank, axes), ir_attr_i(IR_ATTR_keepdims, 0)));
}

/* How many elements a value of that type has, but for axis `without`; of x's type, rank 0. */
static struct ir_value *count(struct loss_build *l, ir_type t, int without)
{
    ir_expr n = ir_const(l->b->ctx, 1);
    int64_t known;
    for (int i = 0; i < t->rank; i++)
        if (i != without)
            n = ir_mul(l->b->ctx, n, t->dim[i]);
    if (ir_is_const(n, &known))
        return num(l, (double)known);
    return ir_cast_to(l->b, ir_build1(l->b, IR_dim, 0, NULL, IR_ATTRS(ir_attr_exprs(IR_ATTR_exprs, 1, &n))), l->dtype);
}

/* A list of numbers along an axis of tensors of l->rank dims. */
static struct ir_value *along(struct loss_build *l, int n, const double *v, int axis)
{
    int64_t dims[TCC_MAX_RANK];
    for (int i = 0; i < l->rank; i++)
        dims[i] = i == axis ? n : 1;
    struct ir_tensor *t = ir_tensor_new(l->dtype, l->rank, dims);
    if (!t)
        ir_no_memory(l->b->ctx);
    for (int i = 0; i < n; i++)
        tcc_store_f64(l->dtype, (char *)(uintptr_t)t->data + (size_t)i * (size_t)tcc_dtype_bytes(l->dtype), v[i]);
    return ir_constant(l->b, t);
}

static bool wrong(struct loss_build *l, const char *what)
{
    ir_error(l->b->ctx, NULL, "--loss: %s (scores %s, target %s)", what, ir_type_text(l->b->ctx, l->x->type),
             ir_type_text(l->b->ctx, l->target->type));
    return false;
}

/* -- Classes ------------------------------------------------------------------------------------------------------ */

static bool same_dims_without(ir_type scores, ir_type target, int axis)
{
    bool same = target->rank == scores->rank - 1;
    for (int i = 0; same && i < target->rank; i++)
        same = target->dim[i] == scores->dim[i + (i >= axis)];
    return same;
}

/* The class axis: as asked, else the last one when the target's dims are the scores' without it, else 1. */
static bool class_axis(const struct train_loss *loss, ir_type scores, ir_type target, int *axis)
{
    int rank = scores->rank;
    int64_t a = loss->has_axis ? loss->axis : rank < 2 || same_dims_without(scores, target, rank - 1) ? rank - 1 : 1;
    *axis = (int)(a < 0 ? a + rank : a);
    return *axis >= 0 && *axis < rank;
}

/* A row's numbers for log p[c] = x[c] - m - log s. For nll x holds logarithms already. */
struct rows {
    struct ir_value *max, *shifted; /* m, x - m */
    struct ir_value *exps, *sum;    /* NULL: nll */
    struct ir_value *log_sum;
};

static struct rows soften(struct loss_build *l)
{
    struct rows r = {.shifted = l->x};
    if (l->loss->kind == LOSS_nll)
        return r;
    r.max = reduce(l, IR_reduce_max, l->x, l->axis);
    r.shifted = op2(l, IR_sub, l->x, r.max);
    r.exps = op1(l, IR_exp, r.shifted);
    r.sum = reduce(l, IR_reduce_sum, r.exps, l->axis);
    r.log_sum = op1(l, IR_log, r.sum);
    return r;
}

static struct ir_value *log_p(struct loss_build *l, const struct rows *r)
{
    return r->log_sum ? op2(l, IR_sub, r->shifted, r->log_sum) : r->shifted;
}

/* -sum over c of weights[c] log p[c] with weights q (broadcasts to x), and its gradient by x, each row's times `by` (broadcasts). */
static struct ir_value *against(struct loss_build *l, const struct rows *r, struct ir_value *q)
{
    return op1(l, IR_neg, reduce(l, IR_reduce_sum, op2(l, IR_mul, log_p(l, r), q), l->axis));
}

static struct ir_value *slope(struct loss_build *l, const struct rows *r, struct ir_value *q, struct ir_value *row_sum)
{
    if (!r->sum)
        return op1(l, IR_neg, q);
    return op2(l, IR_sub, op2(l, IR_mul, op2(l, IR_div, r->exps, r->sum), row_sum), q);
}

static bool probabilities(struct loss_build *l)
{
    const struct train_loss *o = l->loss;
    ir_type t = l->target->type;
    bool fits = t->rank == l->rank;
    for (int i = 0; fits && i < l->rank; i++)
        fits = ir_expr_eq(l->b->ctx, t->dim[i], l->x->type->dim[i]) != IR_NO;
    if (!fits)
        return wrong(l, "probabilities must have the scores' dims");
    if (o->kind == LOSS_nll)
        return wrong(l, "nll takes class numbers");
    struct ir_value *q = ir_cast_to(l->b, l->target, l->dtype);
    if (o->smoothing > 0) {
        ir_expr classes = l->x->type->dim[l->axis];
        int64_t n;
        if (!ir_is_const(classes, &n))
            return wrong(l, "label_smoothing requires a constant number of classes");
        q = op2(l, IR_add, op2(l, IR_mul, q, num(l, 1 - o->smoothing)),
                num(l, o->smoothing / (double)MUTANT(35, n, n - 1)));
    }
    if (o->weights)
        q = op2(l, IR_mul, q, along(l, o->nweights, o->weights, l->axis));
    struct rows r = soften(l);
    struct ir_value *sum = total(l, against(l, &r, q));
    struct ir_value *scale = o->sum ? NULL : op1(l, IR_recip, count(l, l->x->type, l->axis));
    l->value = o->sum ? sum : op2(l, IR_div, sum, count(l, l->x->type, l->axis));
    if (!l->want_gradient)
        return l->value != NULL;
    struct ir_value *g = slope(l, &r, q, reduce(l, IR_reduce_sum, q, l->axis));
    scale = times(l, scale, l->factor);
    l->gradient = times(l, g, scale);
    return l->value && l->gradient;
}

/* The target with an axis of 1 for the classes; what counts as a label. */
static struct ir_value *labels(struct loss_build *l, struct ir_value **counts)
{
    struct ir_builder *b = l->b;
    ir_expr dims[TCC_MAX_RANK];
    for (int i = 0; i < l->rank; i++)
        dims[i] = i == l->axis ? ir_const(b->ctx, 1) : l->target->type->dim[i - (i > l->axis)];
    struct ir_value *t = ir_cast_to(b, l->target, TCC_I64);
    t = t && l->rank != t->type->rank ? ir_reshape_to(b, t, l->rank, dims) : t;
    *counts = op2(l, IR_ne, t, ir_constant_i(b, TCC_I64, MUTANT(34, l->loss->ignore_index, INT64_MIN)));
    return t;
}

/* What picks a row's score: ignored rows take class 0, negative labels one that is not there (gather would count from the end). */
static struct ir_value *safe_labels(struct loss_build *l, struct ir_value *t, struct ir_value *counts)
{
    ir_expr classes = l->x->type->dim[l->axis];
    struct ir_value *zero = ir_constant_i(l->b, TCC_I64, 0);
    struct ir_value *outside = ir_build1(l->b, IR_dim, 0, NULL, IR_ATTRS(ir_attr_exprs(IR_ATTR_exprs, 1, &classes)));
    return choose(l, counts, choose(l, op2(l, IR_lt, t, zero), outside, t), zero);
}

static struct ir_value *pick(struct loss_build *l, struct ir_value *from, struct ir_value *at)
{
    struct ir_value *in[] = {from, at};
    return ir_build1(l->b, IR_gather_elements, 2, in, IR_ATTRS(ir_attr_i(IR_ATTR_axis, l->axis)));
}

/* Each row's weight w[t], 0 where it is ignored. The weights have l->rank dims, so they are made a list first. */
static struct ir_value *row_weights(struct loss_build *l, struct ir_value *weights, struct ir_value *at,
                                    struct ir_value *counts)
{
    if (!weights)
        return ir_cast_to(l->b, counts, l->dtype);
    ir_expr n = weights->type->dim[l->axis];
    struct ir_value *in[] = {ir_reshape_to(l->b, weights, 1, &n), at};
    if (!in[0] || !at)
        return NULL;
    return choose(l, counts, ir_build1(l->b, IR_gather, 2, in, IR_ATTRS(ir_attr_i(IR_ATTR_axis, 0))), num(l, 0));
}

/* iota along the class axis == label: x's dims. */
static struct ir_value *is_label(struct loss_build *l, struct ir_value *t)
{
    ir_expr dims[TCC_MAX_RANK];
    for (int i = 0; i < l->rank; i++)
        dims[i] = i == l->axis ? l->x->type->dim[i] : ir_const(l->b->ctx, 1);
    struct ir_value *iota = ir_build1(l->b, IR_iota, 0, NULL,
                                      IR_ATTRS(ir_attr_exprs(IR_ATTR_shape, l->rank, dims),
                                               ir_attr_i(IR_ATTR_axis, l->axis), ir_attr_dtype(IR_ATTR_to, TCC_I64)));
    return op2(l, IR_eq, iota, t);
}

static bool classes(struct loss_build *l)
{
    const struct train_loss *o = l->loss;
    int64_t nclasses = 0;
    bool smooth = o->smoothing > 0, fixed = ir_is_const(l->x->type->dim[l->axis], &nclasses);
    if (l->target->type->rank != l->rank - 1)
        return wrong(l, "class numbers must have the scores' dims without the class axis");
    if (smooth && !fixed)
        return wrong(l, "label_smoothing requires a constant number of classes");
    if (o->weights && fixed && nclasses != o->nweights)
        return wrong(l, ir_internf(l->b->ctx, "%d weights for %lld classes", o->nweights, (long long)nclasses));
    struct ir_value *weights = o->weights ? along(l, o->nweights, o->weights, l->axis) : NULL, *counts;
    struct ir_value *t = labels(l, &counts), *at = safe_labels(l, t, counts);
    struct ir_value *w = row_weights(l, weights, at, counts), *norm = o->sum ? NULL : total(l, w);
    struct rows r = soften(l);
    /* Picked from the scores, not from their logarithms of probabilities, which then need not be kept. */
    struct ir_value *picked = pick(l, l->x, at);
    if (r.log_sum)
        picked = op2(l, IR_sub, op2(l, IR_sub, picked, r.max), r.log_sum);
    struct ir_value *sum = op1(l, IR_neg, total(l, choose(l, counts, op2(l, IR_mul, picked, w), num(l, 0))));
    l->value = norm ? op2(l, IR_div, sum, norm) : sum;
    struct ir_value *shared = weights ? weights : num(l, 1), *live = ir_cast_to(l->b, counts, l->dtype);
    double part = smooth ? o->smoothing / (double)nclasses : 0;
    if (smooth) {
        struct ir_value *all = total(l, choose(l, counts, against(l, &r, shared), num(l, 0)));
        all = norm ? op2(l, IR_div, all, norm) : all;
        l->value =
            op2(l, IR_add, op2(l, IR_mul, l->value, num(l, 1 - o->smoothing)), op2(l, IR_mul, all, num(l, part)));
    }
    if (!l->want_gradient)
        return l->value != NULL;
    /* Rows times `scale`; class c of a row weighs (1 - e) w[t] if c is t, plus e/C w[c]. */
    struct ir_value *scale = times(l, norm ? op1(l, IR_recip, norm) : NULL, l->factor);
    struct ir_value *row = times(l, w, scale);
    if (smooth)
        row = op2(l, IR_mul, row, num(l, 1 - o->smoothing));
    struct ir_value *q = choose(l, is_label(l, t), row, num(l, 0)), *row_sum = row;
    if (smooth) {
        double sum_weights = o->weights ? 0 : (double)nclasses;
        for (int i = 0; i < o->nweights; i++)
            sum_weights += o->weights[i];
        struct ir_value *spread = op2(l, IR_mul, times(l, live, scale), num(l, part));
        q = op2(l, IR_add, q, op2(l, IR_mul, spread, shared));
        row_sum = op2(l, IR_add, row_sum, op2(l, IR_mul, spread, num(l, sum_weights)));
    }
    l->gradient = slope(l, &r, q, row_sum);
    return l->value && l->gradient;
}

/* -- Values ---------------------------------------------------------------------------------------------------------- */

/* From each element's loss and slope. */
static bool elements(struct loss_build *l, struct ir_value *each, struct ir_value *slopes)
{
    struct ir_value *sum = total(l, each), *n = count(l, l->x->type, -1);
    l->value = l->loss->sum ? sum : op2(l, IR_div, sum, n);
    if (!l->want_gradient)
        return l->value != NULL;
    struct ir_value *scale = times(l, l->loss->sum ? NULL : op1(l, IR_recip, n), l->factor);
    l->gradient = times(l, slopes, scale);
    return l->value && l->gradient;
}

static bool distance(struct loss_build *l)
{
    struct ir_value *d = op2(l, IR_sub, l->x, ir_cast_to(l->b, l->target, l->dtype));
    double beta = l->loss->beta;
    if (l->loss->kind == LOSS_mse)
        return elements(l, op1(l, IR_square, d), op2(l, IR_mul, d, num(l, 2)));
    struct ir_value *size = op1(l, IR_abs, d), *sign = op1(l, IR_sign, d);
    if (l->loss->kind == LOSS_l1 || beta == 0)
        return elements(l, size, sign);
    struct ir_value *near = op2(l, IR_lt, size, num(l, beta));
    struct ir_value *square = op2(l, IR_mul, op1(l, IR_square, d), num(l, 0.5 / beta));
    return elements(l, choose(l, near, square, op2(l, IR_sub, size, num(l, beta / 2))),
                    choose(l, near, op2(l, IR_mul, d, num(l, 1 / beta)), sign));
}

/* (1 - t) x + v softplus(-x), v = 1 + (pos_weight - 1) t; slope (1 - t) - v (1 - sigmoid(x)) */
static bool logits(struct loss_build *l)
{
    const struct train_loss *o = l->loss;
    struct ir_value *t = ir_cast_to(l->b, l->target, l->dtype), *x = l->x, *one = num(l, 1);
    struct ir_value *rest = op2(l, IR_sub, one, t), *minus = op1(l, IR_neg, x), *v = NULL;
    int last = l->rank - 1;
    if (o->pos_weights) {
        struct ir_value *more = op2(l, IR_sub, along(l, o->npos_weights, o->pos_weights, last), one);
        v = op2(l, IR_add, op2(l, IR_mul, more, t), one);
    }
    struct ir_value *each = op2(l, IR_add, op2(l, IR_mul, rest, x), times(l, op1(l, IR_softplus, minus), v));
    struct ir_value *slopes = op2(l, IR_sub, rest, times(l, op1(l, IR_sigmoid, minus), v));
    if (o->weights) {
        struct ir_value *w = along(l, o->nweights, o->weights, last);
        each = op2(l, IR_mul, each, w);
        slopes = op2(l, IR_mul, slopes, w);
    }
    return elements(l, each, slopes);
}

static bool values_fit(struct loss_build *l)
{
    ir_type t = l->target->type;
    bool fits = t->rank <= l->rank;
    for (int i = 0; fits && i < t->rank; i++)
        fits = ir_is_value(t->dim[i], 1) ||
               ir_expr_eq(l->b->ctx, t->dim[i], l->x->type->dim[l->rank - t->rank + i]) != IR_NO;
    int64_t n;
    if (!fits)
        return wrong(l, "the target must broadcast to the scores' dims");
    for (int i = 0; i < 2; i++) {
        int given = i ? l->loss->npos_weights : l->loss->nweights;
        if (given > 1 && (!l->rank || (ir_is_const(l->x->type->dim[l->rank - 1], &n) && n != given)))
            return wrong(l, ir_internf(l->b->ctx, "%d weights for the last axis", given));
    }
    return true;
}

/* -- The door ----------------------------------------------------------------------------------------------------------- */

ir_type train_loss_target(struct ir_ctx *ctx, const struct train_loss *loss, ir_type scores)
{
    enum tcc_dtype dtype = loss->target_type;
    if (loss->kind != LOSS_cross_entropy && loss->kind != LOSS_nll)
        return ir_with_dtype(ctx, scores, scores->dtype == TCC_F64 ? TCC_F64 : TCC_F32);
    if (dtype == TCC_F32)
        return ir_with_dtype(ctx, scores, dtype);
    ir_expr dims[TCC_MAX_RANK];
    int64_t axis = loss->has_axis ? loss->axis : scores->rank - 1;
    axis += axis < 0 ? scores->rank : 0;
    int n = 0;
    for (int i = 0; i < scores->rank; i++)
        if (i != axis)
            dims[n++] = scores->dim[i];
    return ir_tensor_type(ctx, dtype == TCC_NONE ? TCC_I64 : dtype, n, dims);
}

bool train_loss_build(struct ir_builder *b, const struct train_loss *loss, struct ir_value *scores,
                      struct ir_value *target, struct ir_value *factor, struct ir_value **value,
                      struct ir_value **gradient)
{
    enum tcc_dtype own = (enum tcc_dtype)scores->type->dtype, dtype = own == TCC_F64 ? TCC_F64 : TCC_F32;
    struct loss_build l = {.b = b,
                           .loss = loss,
                           .x = ir_cast_to(b, scores, dtype),
                           .target = target,
                           .factor = factor ? ir_cast_to(b, factor, dtype) : NULL,
                           .dtype = dtype,
                           .rank = scores->type->rank,
                           .want_gradient = gradient != NULL};
    bool ok;
    if (loss->kind == LOSS_cross_entropy || loss->kind == LOSS_nll) {
        if (!l.rank || !class_axis(loss, scores->type, target->type, &l.axis))
            return wrong(&l, "the scores have no class axis");
        ok = tcc_is_float((enum tcc_dtype)target->type->dtype) ? probabilities(&l) : classes(&l);
    } else {
        ok = values_fit(&l) && (loss->kind == LOSS_bce_with_logits ? logits(&l) : distance(&l));
    }
    if (!ok)
        return false;
    *value = ir_cast_to(b, l.value, TCC_F32);
    if (gradient)
        *gradient = ir_cast_to(b, l.gradient, own);
    return *value && (!gradient || *gradient);
}
