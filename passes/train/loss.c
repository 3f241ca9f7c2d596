/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The losses: their values and their gradients by the scores, PyTorch's to the letter (torch.nn.functional; for classes
 * aten/src/ATen/native/LossNLL.cpp).
 *
 * Classes, row n with target class t, scores x, weights w:
 *   l(n) = -w[t] (x[t] - m - log s), m = max x, s = sum exp(x - m); 0 where t is ignore_index
 *   mean = sum l / sum w[t] over the rows that count
 * Smoothing by e over C classes adds e/C of -sum over c of w[c] log p[c], its mean over the same sum of weights, and
 * takes 1 - e of the above. Against probabilities q: -sum over c of w[c] q'[c] log p[c], q' = (1 - e) q + e/C, mean
 * over the rows.
 *
 * The gradient is p[c] sum of row weights - weight of class c, which needs nothing of the forward pass but m and s.
 * A label outside [0, C) makes the gather that picks its score fail when it runs; nothing has been written by then.
 */
#include "passes/train/loss_build_int.h"

#include "passes/grad/grad.h"
#include "base/mutant.h"

/* Over all axes, to rank 0. */
static struct ir_value *total(struct loss_build *l, struct ir_value *x)
{
    return ir_reduce_from(l->b, IR_reduce_sum, x, 0);
}

static struct ir_value *size_value(struct loss_build *l, ir_expr n)
{
    int64_t known;
    if (ir_is_const(n, &known))
        return num(l, (double)known);
    return ir_cast_to(l->b, ir_dim_value(l->b, n), l->dtype);
}

/* How many elements a value of that type has, but for axis `without` (-1: all); of x's type, rank 0. */
static struct ir_value *loss_count(struct loss_build *l, ir_type t, int without)
{
    ir_expr n = ir_const(l->b->ctx, 1);
    for (int i = 0; i < t->rank; i++)
        if (i != without)
            n = ir_mul(l->b->ctx, n, t->dim[i]);
    return size_value(l, n);
}

/* What a sum over all is divided by, as --loss's reduction says; `mean`: by what for a mean. NULL: by nothing. */
static struct ir_value *loss_divisor(struct loss_build *l, struct ir_value *mean)
{
    if (l->loss->reduction == REDUCE_BATCHMEAN)
        return l->rank ? size_value(l, l->x->type->dim[0]) : NULL;
    return l->loss->reduction == REDUCE_SUM ? NULL : mean;
}

static struct ir_value *divided(struct loss_build *l, struct ir_value *x, struct ir_value *by)
{
    return by ? op2(l, IR_div, x, by) : x;
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

bool loss_wrong(struct loss_build *l, const char *what)
{
    return ir_error(l->b->ctx, NULL, "--loss: %s (scores %s, target %s)", what, ir_type_text(l->b->ctx, l->x->type),
                    l->target ? ir_type_text(l->b->ctx, l->target->type) : "none");
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

/* -sum over c of weights[c] log p[c] with weights q (broadcasts to x), and its gradient by x, each row's times `by`
 * (broadcasts). */
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

/* Rows without their axis of classes, which has one element: what reduction=none gives. */
static struct ir_value *without_classes(struct loss_build *l, struct ir_value *rows)
{
    ir_expr dims[TCC_MAX_RANK];
    int n = 0;
    for (int i = 0; i < l->rank; i++)
        if (i != l->axis)
            dims[n++] = l->x->type->dim[i];
    return l->loss->reduction == REDUCE_NONE ? ir_reshape_to(l->b, rows, n, dims) : NULL;
}

static bool probabilities(struct loss_build *l)
{
    const struct train_loss *o = l->loss;
    ir_type t = l->target->type;
    bool fits = t->rank == l->rank;
    for (int i = 0; fits && i < l->rank; i++)
        fits = ir_expr_eq(l->b->ctx, t->dim[i], l->x->type->dim[i]) != IR_NO;
    if (!fits)
        return loss_wrong(l, "probabilities must have the scores' dims");
    if (o->kind == LOSS_nll)
        return loss_wrong(l, "nll takes class numbers");
    struct ir_value *q = ir_cast_to(l->b, l->target, l->dtype);
    if (o->smoothing > 0) {
        ir_expr classes = l->x->type->dim[l->axis];
        int64_t n;
        if (!ir_is_const(classes, &n))
            return loss_wrong(l, "label_smoothing requires a constant number of classes");
        double each_share = o->smoothing / (double)MUTANT(35, n, n - 1);
        q = ir_formula_n(l->b, "x * a + b", IR_NUMBERS(1 - o->smoothing, each_share), q);
    }
    if (o->weights)
        q = op2(l, IR_mul, q, along(l, o->nweights, o->weights, l->axis));
    struct rows r = soften(l);
    struct ir_value *rows = against(l, &r, q), *by = loss_divisor(l, loss_count(l, l->x->type, l->axis));
    l->each = without_classes(l, rows);
    l->value = divided(l, total(l, rows), by);
    if (!l->want_gradient)
        return l->value != NULL;
    struct ir_value *g = slope(l, &r, q, reduce(l, IR_reduce_sum, q, l->axis));
    struct ir_value *scale = times(l, by ? op1(l, IR_recip, by) : NULL, l->factor);
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

/* What picks a row's score: ignored rows take class 0, negative labels one that is not there (gather would count from
 * the end). */
static struct ir_value *safe_labels(struct loss_build *l, struct ir_value *t, struct ir_value *counts)
{
    ir_expr classes = l->x->type->dim[l->axis];
    struct ir_value *zero = ir_constant_i(l->b, TCC_I64, 0);
    struct ir_value *outside = ir_dim_value(l->b, classes);
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
    struct ir_value *list = ir_reshape_to(l->b, weights, 1, &n), *zero = num(l, 0);
    return choose(l, counts, ir_gather(l->b, list, at, 0), zero);
}

/* iota along the class axis == label: x's dims. */
static struct ir_value *is_label(struct loss_build *l, struct ir_value *t)
{
    ir_expr dims[TCC_MAX_RANK];
    for (int i = 0; i < l->rank; i++)
        dims[i] = i == l->axis ? l->x->type->dim[i] : ir_const(l->b->ctx, 1);
    struct ir_value *iota = ir_iota(l->b, l->rank, dims, l->axis, TCC_I64);
    return op2(l, IR_eq, iota, t);
}

static bool classes(struct loss_build *l)
{
    const struct train_loss *o = l->loss;
    int64_t nclasses = 0;
    bool smooth = o->smoothing > 0, fixed = ir_is_const(l->x->type->dim[l->axis], &nclasses);
    if (l->target->type->rank != l->rank - 1)
        return loss_wrong(l, "class numbers must have the scores' dims without the class axis");
    if (smooth && !fixed)
        return loss_wrong(l, "label_smoothing requires a constant number of classes");
    if (o->weights && fixed && nclasses != o->nweights)
        return loss_wrong(l, ir_internf(l->b->ctx, "%d weights for %lld classes", o->nweights, (long long)nclasses));
    struct ir_value *weights = o->weights ? along(l, o->nweights, o->weights, l->axis) : NULL, *counts;
    struct ir_value *t = labels(l, &counts), *at = safe_labels(l, t, counts);
    struct ir_value *w = row_weights(l, weights, at, counts),
                    *norm = loss_divisor(l, o->reduction == REDUCE_SUM ? NULL : total(l, w));
    struct rows r = soften(l);
    /* Picked from the scores, not from their logarithms of probabilities, which then need not be kept. */
    struct ir_value *picked = pick(l, l->x, at);
    if (r.log_sum)
        picked = ir_formula(l->b, "x - y - z", picked, r.max, r.log_sum);
    struct ir_value *zero = num(l, 0);
    struct ir_value *hit = choose(l, counts, op2(l, IR_mul, picked, w), zero), *rows = op1(l, IR_neg, hit);
    l->value = divided(l, op1(l, IR_neg, total(l, hit)), norm);
    struct ir_value *shared = weights ? weights : num(l, 1);
    double part = smooth ? o->smoothing / (double)nclasses : 0;
    if (smooth) {
        struct ir_value *spread = ir_formula(l->b, "select(x, y, 0)", counts, against(l, &r, shared));
        const double *parts = IR_NUMBERS(1 - o->smoothing, part);
        rows = ir_formula_n(l->b, "x * a + y * b", parts, rows, spread);
        l->value = ir_formula_n(l->b, "x * a + y * b", parts, l->value, divided(l, total(l, spread), norm));
    }
    l->each = without_classes(l, rows);
    if (!l->want_gradient)
        return l->value != NULL;
    /* Rows times `scale`; class c of a row weighs (1 - e) w[t] if c is t, plus e/C w[c]. A row that does not count has
     * no slope, even where none counts and the scale is 1 / 0, as in PyTorch. */
    struct ir_value *scale = times(l, norm ? op1(l, IR_recip, norm) : NULL, l->factor), *none = num(l, 0);
    struct ir_value *live = choose(l, counts, scale ? scale : num(l, 1), none);
    struct ir_value *row = weights ? choose(l, counts, times(l, w, scale), none) : live;
    if (smooth)
        row = op2(l, IR_mul, row, num(l, 1 - o->smoothing));
    struct ir_value *q = choose(l, is_label(l, t), row, none), *row_sum = row;
    if (smooth) {
        double sum_weights = o->weights ? 0 : (double)nclasses;
        for (int i = 0; i < o->nweights; i++)
            sum_weights += o->weights[i];
        struct ir_value *spread = op2(l, IR_mul, live, num(l, part));
        q = ir_formula(l->b, "x + y * z", q, spread, shared);
        row_sum = ir_formula_n(l->b, "x + y * a", IR_NUMBERS(sum_weights), row_sum, spread);
    }
    l->gradient = slope(l, &r, q, row_sum);
    return l->value && l->gradient;
}

/* -- Values -------------------------------------------------------------------------------------------------------- */

bool loss_elements(struct loss_build *l, struct ir_value *each, struct ir_value *slopes)
{
    if (!each)
        return false;
    struct ir_value *by = loss_divisor(l, loss_count(l, each->type, -1));
    l->each = l->loss->reduction == REDUCE_NONE ? each : NULL;
    l->value = divided(l, total(l, each), by);
    if (!l->want_gradient || !slopes)
        return l->value != NULL;
    struct ir_value *scale = times(l, by ? op1(l, IR_recip, by) : NULL, l->factor);
    l->gradient = times(l, slopes, scale);
    return l->value && l->gradient;
}

/* Values and slopes of x, the difference; a: beta, b: beta / 2, c: 0.5 / beta, d: 1 / beta. huber is beta times
 * smooth. */
bool loss_distance(struct loss_build *l)
{
    static const char *const squares[] = {"square(x)", "x * 2"}, *const sizes[] = {"abs(x)", "sign(x)"},
                             *const huber[] = {"select(lt(abs(x), a), square(x) * 0.5, (abs(x) - b) * a)",
                                               "select(lt(abs(x), a), x, sign(x) * a)"},
                             *const smooth[] = {"select(lt(abs(x), a), square(x) * c, abs(x) - b)",
                                                "select(lt(abs(x), a), x * d, sign(x))"};
    if (!loss_values_fit(l))
        return false;
    struct ir_value *x = op2(l, IR_sub, l->x, wanted(l));
    double beta = l->loss->kind == LOSS_huber ? l->loss->delta : l->loss->beta;
    const double *n = IR_NUMBERS(beta, beta / 2, 0.5 / beta, 1 / beta);
    const char *const *texts = l->loss->kind == LOSS_mse               ? squares
                               : l->loss->kind == LOSS_l1 || beta == 0 ? sizes
                               : l->loss->kind == LOSS_huber           ? huber
                                                                       : smooth;
    struct ir_value *each = ir_formula_n(l->b, texts[0], n, x);
    return loss_elements(l, each, ir_formula_n(l->b, texts[1], n, x));
}

/* Where x is far on the target's side, the value and the slope are small: neither is a difference of large numbers, as
 * (1 - t) x + softplus(-x) would be, which float32 rounds to 0 below -17. */
struct ir_value *loss_binary(struct loss_build *l, struct ir_value *negative, struct ir_value *positive,
                             struct ir_value **slopes)
{
    struct ir_value *minus = op1(l, IR_neg, l->x);
    if (slopes)
        *slopes = ir_formula(l->b, "y * sigmoid(x) - z * sigmoid(u)", l->x, negative, positive, minus);
    return ir_formula(l->b, "y * softplus(x) + z * softplus(u)", l->x, negative, positive, minus);
}

bool loss_logits(struct loss_build *l)
{
    const struct train_loss *o = l->loss;
    if (!loss_values_fit(l))
        return false;
    struct ir_value *t = wanted(l), *positive = t, *slopes;
    int last = l->rank - 1;
    if (o->pos_weights)
        positive = op2(l, IR_mul, along(l, o->npos_weights, o->pos_weights, last), t);
    struct ir_value *each = loss_binary(l, op2(l, IR_sub, num(l, 1), t), positive, &slopes);
    if (o->weights) {
        struct ir_value *w = along(l, o->nweights, o->weights, last);
        each = op2(l, IR_mul, each, w);
        slopes = op2(l, IR_mul, slopes, w);
    }
    return loss_elements(l, each, slopes);
}

bool loss_values_fit(struct loss_build *l)
{
    ir_type t = l->target->type;
    bool fits = t->rank <= l->rank;
    for (int i = 0; fits && i < t->rank; i++)
        fits = ir_is_value(t->dim[i], 1) ||
               ir_expr_eq(l->b->ctx, t->dim[i], l->x->type->dim[l->rank - t->rank + i]) != IR_NO;
    int64_t n;
    if (!fits)
        return loss_wrong(l, "the target must broadcast to the scores' dims");
    for (int i = 0; i < 2; i++) {
        int given = i ? l->loss->npos_weights : l->loss->nweights;
        if (given > 1 && (!l->rank || (ir_is_const(l->x->type->dim[l->rank - 1], &n) && n != given)))
            return loss_wrong(l, ir_internf(l->b->ctx, "%d weights for the last axis", given));
    }
    return true;
}

bool loss_classified(struct loss_build *l)
{
    if (!l->rank || !class_axis(l->loss, l->x->type, l->target->type, &l->axis))
        return loss_wrong(l, "the scores have no class axis");
    return tcc_is_float((enum tcc_dtype)l->target->type->dtype) ? probabilities(l) : classes(l);
}

/* -- The door ------------------------------------------------------------------------------------------------------ */

static bool (*const builders[])(struct loss_build *l) = {
#define LOSS(name, target, holds, build, others, keys, doc) loss_##build,
#include "passes/train/losses.def"
};

/* The scores' dims without one axis. */
static ir_type without_axis(struct ir_ctx *ctx, ir_type scores, int64_t axis, enum tcc_dtype dtype)
{
    ir_expr dims[TCC_MAX_RANK];
    int n = 0;
    for (int i = 0; i < scores->rank; i++)
        if (i != axis)
            dims[n++] = scores->dim[i];
    return ir_tensor_type(ctx, dtype, n, dims);
}

ir_type train_loss_target(struct ir_ctx *ctx, const struct train_loss *loss, ir_type scores)
{
    enum tcc_dtype dtype = loss->target_type;
    enum loss_target kind = train_loss_target_kind(loss);
    if (kind == TARGET_VALUES)
        return ir_with_dtype(ctx, scores, tcc_wide_float(scores->dtype));
    if (kind == TARGET_LABELS) {
        ir_expr dims[2] = {scores->rank ? scores->dim[0] : ir_const(ctx, 1),
                           ir_sym(ctx, ir_internf(ctx, "%s.1", loss->target))};
        return ir_tensor_type(ctx, TCC_I64, 2, dims);
    }
    if (dtype == TCC_F32)
        return ir_with_dtype(ctx, scores, dtype);
    int64_t axis = loss->has_axis ? loss->axis : scores->rank - 1;
    return without_axis(ctx, scores, axis + (axis < 0 ? scores->rank : 0), dtype == TCC_NONE ? TCC_I64 : dtype);
}

/* The gradients by all scores, of a loss whose formula is differentiated; in the scores' types. */
static bool differentiate(struct loss_build *l, struct train_loss_use *use, int n)
{
    struct ir_value *xs[LOSS_MOST_SCORES] = {l->x, l->others[0], l->others[1]}, *grads[LOSS_MOST_SCORES];
    if (!grad_build(l->b, 1, &l->value, &l->factor, n, xs, grads))
        return false;
    for (int i = 0; i < n; i++) {
        if (!grads[i])
            return loss_wrong(l, "the loss does not depend on all of its inputs");
        use->gradient[i] = ir_cast_to(l->b, grads[i], (enum tcc_dtype)use->scores[i]->type->dtype);
    }
    return true;
}

bool train_loss_build(struct ir_builder *b, const struct train_loss *loss, struct train_loss_use *use)
{
    ir_type type = use->scores[0]->type;
    enum tcc_dtype dtype = tcc_wide_float(type->dtype);
    int n = train_loss_nscores(loss);
    struct loss_build l = {.b = b,
                           .loss = loss,
                           .x = ir_cast_to(b, use->scores[0], dtype),
                           .target = use->target,
                           .factor = use->factor ? ir_cast_to(b, use->factor, dtype) : NULL,
                           .dtype = dtype,
                           .rank = type->rank,
                           .want_gradient = use->want_gradient};
    for (int i = 1; i < n; i++)
        l.others[i - 1] = ir_cast_to(b, use->scores[i], dtype);
    if (!builders[loss->kind](&l))
        return false;
    use->value = ir_cast_to(b, l.value, TCC_F32);
    use->each = l.each ? ir_cast_to(b, l.each, TCC_F32) : NULL;
    if (use->want_gradient && !l.gradient)
        return use->value && differentiate(&l, use, n);
    if (use->want_gradient)
        use->gradient[0] = ir_cast_to(b, l.gradient, (enum tcc_dtype)type->dtype);
    return use->value && (!use->want_gradient || use->gradient[0]);
}
