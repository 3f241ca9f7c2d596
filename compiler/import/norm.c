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
    struct ir_value *inverse = imp_un(im, IR_rsqrt, imp_bin(im, IR_add, mean, imp_like(im, mean, epsilon)));
    if (inverse_out)
        *inverse_out = inverse;
    return imp_bin(im, IR_mul, x, inverse);
}

struct ir_value *imp_over_ranks(struct imp *im, struct ir_value *x, const char *mode)
{
    if (!x || !im->sync_bn)
        return x;
    struct ir_node *n = ir_build(&im->b, IR_all_reduce, 1, &x,
                                 IR_ATTRS(ir_attr_s(IR_ATTR_group, "dp"), ir_attr_s(IR_ATTR_mode, mode),
                                          ir_attr_types(IR_ATTR_types, 1, &x->type)));
    return n ? n->out[0] : NULL;
}

bool imp_check_statistics(struct imp *im, const struct ir_value *x, int n, const int64_t *axes)
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

struct ir_value *imp_run_on(struct imp *im, struct ir_value *count, struct ir_value *running, struct ir_value *next)
{
    return count && next ? imp_tri(im, IR_select, imp_bin(im, MUTANT(336, IR_gt, IR_ge), count, imp_like(im, count, 0)),
                                   next, running)
                         : NULL;
}
