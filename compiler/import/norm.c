/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisations, as reductions and elementwise ops that later fuse into one staged kernel. */
#include "compiler/import/import.h"

#include "base/mutant.h"

struct ir_value *imp_softmax_from(struct imp *im, struct ir_value *x, int axis, bool log)
{
    ir_expr dims[2] = {ir_const(im->ctx, 1), ir_const(im->ctx, 1)};
    for (int k = 0; x && k < imp_rank(x); k++)
        dims[k >= axis] = ir_mul(im->ctx, dims[k >= axis], imp_dim(x, k));
    struct ir_value *y = x ? imp_softmax(im, imp_reshape(im, x, 2, dims), 1, log) : NULL;
    return y ? imp_reshape(im, y, imp_rank(x), x->type->dim) : NULL;
}

struct ir_value *imp_normalise(struct imp *im, struct ir_value *x, int n, const int64_t *axes, double epsilon,
                               struct ir_value **mean_out, struct ir_value **inverse_out)
{
    struct ir_value *mean = imp_mean(im, x, n, axes, true);
    struct ir_value *centred = imp_bin(im, IR_sub, x, mean);
    struct ir_value *variance = imp_mean(im, imp_un(im, IR_square, centred), n, axes, true);
    if (!variance)
        return NULL;
    struct ir_value *inverse = imp_un(im, IR_rsqrt, imp_bin(im, IR_add, variance, imp_like(im, x, epsilon)));
    if (mean_out)
        *mean_out = mean;
    if (inverse_out)
        *inverse_out = inverse;
    return imp_bin(im, IR_mul, centred, inverse);
}

struct ir_value *imp_rms_normalise(struct imp *im, struct ir_value *x, int n, const int64_t *axes, double epsilon,
                                   struct ir_value **inverse_out)
{
    struct ir_value *mean = imp_mean(im, imp_un(im, IR_square, x), n, axes, true);
    if (!mean)
        return NULL;
    struct ir_value *inverse = imp_un(im, IR_rsqrt, imp_with(im, IR_add, mean, epsilon));
    if (inverse_out)
        *inverse_out = inverse;
    return imp_bin(im, IR_mul, x, inverse);
}

struct ir_value *imp_scaled(struct imp *im, struct ir_value *y, struct ir_value *scale, struct ir_value *bias)
{
    if (scale)
        y = imp_bin(im, IR_mul, y, imp_cast(im, scale, imp_dtype(y)));
    return bias ? imp_bin(im, IR_add, y, imp_cast(im, bias, imp_dtype(y))) : y;
}

struct ir_value *imp_grouped(struct imp *im, struct ir_value *x, int channels, int64_t groups, int *n, int64_t *axes)
{
    ir_expr dims[TCC_MAX_RANK], size = ir_const(im->ctx, groups);
    *n = 0;
    if (!x)
        return NULL;
    for (int k = 0; k <= imp_rank(x); k++) {
        dims[k] = k == channels       ? size
                  : k == channels + 1 ? ir_floordiv(im->ctx, imp_dim(x, channels), size)
                                      : imp_dim(x, k > channels ? k - 1 : k);
        if (k && k != channels)
            axes[(*n)++] = k;
    }
    return imp_reshape(im, x, imp_rank(x) + 1, dims);
}

/* -- Batch normalisation */

/* The sum over the ranks that train together (--sync-bn); otherwise the value itself. */
static struct ir_value *over_ranks(struct imp *im, struct ir_value *x)
{
    if (!x || !im->sync_bn)
        return x;
    struct ir_node *n = ir_build(&im->b, IR_all_reduce, 1, &x,
                                 IR_ATTRS(ir_attr_s(IR_ATTR_group, "dp"), ir_attr_s(IR_ATTR_mode, "sum"),
                                          ir_attr_types(IR_ATTR_types, 1, &x->type)));
    return n ? n->out[0] : NULL;
}

/* The statistics of a batch that is trained on need more than one value, as in PyTorch: an error where the axes of x
 * have one; where they may have at run time, such a run is refused. False after a message. */
static bool check_statistics(struct imp *im, const struct ir_value *x, int n, const int64_t *axes)
{
    ir_expr count = ir_const(im->ctx, 1), one = ir_const(im->ctx, 1);
    int64_t size, known = 1;
    for (int k = 0; k < n; k++) {
        count = ir_mul(im->ctx, count, imp_dim(x, (int)axes[k]));
        known *= ir_is_const(imp_dim(x, (int)axes[k]), &size) ? size : 1;
    }
    if (im->sync_bn || known != 1 || ir_expr_eq(im->ctx, count, one) == IR_NO)
        return true;
    if (ir_is_value(count, 1))
        return imp_bad(im, "more than 1 value per channel is expected when training, found 1");
    /* None are as many as PyTorch takes: 2 stand for them. */
    ir_expr none = ir_mulc(im->ctx, ir_sub(im->ctx, one, ir_min(im->ctx, count, one)), 2);
    return imp_assume(im, IR_LE, ir_const(im->ctx, 2), ir_max(im->ctx, count, none),
                      "there are too few values per channel for statistics, when training");
}

/* `some` where the batch, of `count` values, has any, and `none` where it is empty. */
static struct ir_value *if_any(struct imp *im, struct ir_value *count, struct ir_value *some, struct ir_value *none)
{
    return count && some && none
               ? imp_select(im, imp_bin(im, MUTANT(336, IR_gt, IR_ge), count, imp_like(im, count, 0)), some, none)
               : NULL;
}

/* Of each channel, or (axis < 0) of each element of a sample. */
static struct ir_value *along(struct imp *im, const struct imp_batch_norm *b, struct ir_value *v)
{
    int rank = imp_rank(b->x);
    return b->axis < 0 ? imp_to_rank(im, v, rank) : imp_along(im, v, b->axis, rank);
}

struct ir_value *imp_batch_norm(struct imp *im, const struct imp_batch_norm *b)
{
    enum tcc_dtype d = imp_dtype(b->var);
    struct ir_value *a = imp_un(im, IR_rsqrt, imp_with(im, IR_add, b->var, b->epsilon));
    if (b->scale)
        a = imp_bin(im, IR_mul, imp_cast(im, b->scale, d), a);
    struct ir_value *c = imp_bin(im, IR_mul, b->mean, a);
    c = b->bias ? imp_bin(im, IR_sub, imp_cast(im, b->bias, d), c) : imp_un(im, IR_neg, c);
    a = along(im, b, a);
    c = along(im, b, c);
    return imp_bin(im, IR_add, imp_bin(im, IR_mul, imp_cast(im, b->x, d), a), c);
}

/* running * keep + batch * fresh, and, as in PyTorch, as they were where the batch, of `count` values, is empty. */
static bool update_running(struct imp *im, struct imp_batch_norm *b, struct ir_value *count)
{
    enum tcc_dtype d = imp_dtype(b->mean);
    struct ir_value *running[] = {b->mean, b->var}, *batch[] = {b->batch_mean, b->batch_var};
    if (!b->biased) {
        count = imp_cast(im, count, d);
        struct ir_value *factor = imp_formula(im, "x / max(x - 1, 1)", count);
        batch[1] = imp_bin(im, IR_mul, imp_cast(im, batch[1], d), factor);
    }
    for (int k = 0; k < 2; k++) {
        struct ir_value *now =
            imp_formula_n(im, "x * a + y * b", IMP_NUMBERS(b->keep, b->fresh), running[k], imp_cast(im, batch[k], d));
        b->next[k] = b->biased ? now : if_any(im, count, now, running[k]);
    }
    return b->next[1] != NULL;
}

/* The mean over `axes` and, with --sync-bn, over the ranks, which may have batches of other sizes, or none. */
static struct ir_value *mean_over_ranks(struct imp *im, struct ir_value *x, int n, const int64_t *axes,
                                        struct ir_value *count)
{
    if (!im->sync_bn)
        return imp_mean(im, x, n, axes, false);
    struct ir_value *sum = over_ranks(im, imp_reduce(im, IR_reduce_sum, x, n, axes, false));
    return sum ? imp_bin(im, IR_div, sum, count) : NULL;
}

struct ir_value *imp_batch_norm_train(struct imp *im, struct imp_batch_norm *b, enum tcc_dtype d)
{
    int64_t axes[TCC_MAX_RANK];
    int n = 0;
    for (int k = 0; k < imp_rank(b->x); k++)
        if (k != b->axis)
            axes[n++] = k;
    if (!b->biased && !check_statistics(im, b->x, n, axes))
        return NULL;
    struct ir_value *wide = imp_cast(im, b->x, d);
    struct ir_value *count = over_ranks(im, imp_count(im, b->x, n, axes, d));
    b->batch_mean = mean_over_ranks(im, wide, n, axes, count);
    struct ir_value *centred = imp_bin(im, IR_sub, wide, along(im, b, b->batch_mean));
    b->batch_var = mean_over_ranks(im, imp_un(im, IR_square, centred), n, axes, count);
    if (!b->batch_var || (b->mean && !update_running(im, b, count)))
        return NULL;
    if (!b->biased) /* NaN of no values would be the scale's gradient */
        b->batch_var = if_any(im, count, b->batch_var, imp_like(im, b->batch_var, 0));
    b->inverse = imp_un(im, IR_rsqrt, imp_with(im, IR_add, b->batch_var, b->epsilon));
    struct ir_value *a = b->scale ? imp_bin(im, IR_mul, imp_cast(im, b->scale, d), b->inverse) : b->inverse;
    struct ir_value *y = imp_bin(im, IR_mul, centred, along(im, b, a));
    return b->bias ? imp_bin(im, IR_add, y, along(im, b, imp_cast(im, b->bias, d))) : y;
}
