/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisations and softmax, as reductions and elementwise ops that later fuse into one staged kernel. */
#include "compiler/onnx/import_int.h"

/* Softmax, LogSoftmax: from opset 13 along one axis, before over all axes from `axis` on. `arg`: 1 is the logarithm. */
bool onnx_op_softmax(struct imp *im)
{
    int arg = im->row->arg;
    struct ir_value *x = imp_tensor(im, 0);
    int64_t axis = imp_i(im, "axis", im->opset < 13 ? 1 : -1);
    if (!x)
        return false;
    int rank = imp_rank(x);
    if (!rank && im->opset >= 13)
        return imp_bad(im, "a scalar has no axes");
    if (im->opset >= 13 || (axis == rank - 1 && rank) || (axis == -1 && rank))
        return imp_axis(im, &axis, rank) && imp_out(im, 0, imp_softmax(im, x, (int)axis, arg));
    if (axis < 0)
        axis += rank;
    if (axis < 0 || axis > rank)
        return imp_bad(im, "axis %lld of a tensor with %d dims", (long long)axis, rank);
    return imp_out(im, 0, imp_softmax_from(im, x, (int)axis, arg));
}

/* Hardmax: 1 at the first maximum. */
bool onnx_op_hardmax(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    int64_t axis = imp_i(im, "axis", im->opset < 13 ? 1 : -1);
    if (!x || !imp_axis(im, &axis, imp_rank(x)))
        return false;
    int rank = imp_rank(x);
    ir_expr dims[2] = {ir_const(im->ctx, 1), ir_const(im->ctx, 1)};
    struct ir_value *v = x;
    if (im->opset < 13) {
        for (int k = 0; k < rank; k++)
            dims[k >= axis] = ir_mul(im->ctx, dims[k >= axis], imp_dim(x, k));
        v = imp_reshape(im, x, 2, dims);
        axis = 1;
    }
    struct ir_value *best =
        v ? imp_op(im, IR_argmax, 1, &v, IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis), ir_attr_i(IR_ATTR_keepdims, 1)))
          : NULL;
    struct ir_value *index = v ? imp_iota(im, imp_rank(v), v->type->dim, (int)axis, TCC_I64) : NULL;
    struct ir_value *y = imp_cast(im, imp_bin(im, IR_eq, index, best), imp_dtype(x));
    return imp_out(im, 0, imp_reshape(im, y, rank, x->type->dim));
}

bool onnx_op_layer_norm(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *scale = x ? imp_tensor(im, 1) : NULL, *bias = imp_in(im, 2), *mean,
                    *inverse;
    int64_t axis = imp_i(im, "axis", -1), axes[TCC_MAX_RANK];
    if (!scale || !imp_axis(im, &axis, imp_rank(x)))
        return false;
    enum tcc_dtype stash = imp_dtype_of(im, imp_i(im, "stash_type", 1));
    int n = imp_axes_from((int)axis, imp_rank(x), axes);
    struct ir_value *wide = stash == TCC_F32 && imp_dtype(x) != TCC_F64 ? imp_cast(im, x, TCC_F32) : x;
    struct ir_value *y = imp_normalise(im, wide, n, axes, imp_f(im, "epsilon", 1e-5f), &mean, &inverse);
    if (!y)
        return false;
    return imp_out(im, 0, imp_scaled(im, imp_cast(im, y, imp_dtype(x)), scale, bias)) &&
           (!imp_wants(im, 1) || imp_out(im, 1, mean)) && (!imp_wants(im, 2) || imp_out(im, 2, inverse));
}

/* RMSNormalization, SimplifiedLayerNormalization. */
bool onnx_op_rms_norm(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *scale = x ? imp_tensor(im, 1) : NULL;
    int64_t axis = imp_i(im, "axis", -1), axes[TCC_MAX_RANK];
    if (!scale || !imp_axis(im, &axis, imp_rank(x)))
        return false;
    int n = imp_axes_from((int)axis, imp_rank(x), axes);
    struct ir_value *inverse = NULL;
    struct ir_value *y = imp_rms_normalise(im, imp_wide(im, x), n, axes, imp_f(im, "epsilon", 1e-5f), &inverse);
    return y && imp_out(im, 0, imp_bin(im, IR_mul, imp_cast(im, y, imp_dtype(scale)), scale)) &&
           (!imp_wants(im, 1) || imp_out(im, 1, inverse));
}

/* Up to opset 13 there are two more results, those that y was made with; exporters name them and nobody reads them. */
static bool saved_statistics(struct imp *im, struct ir_value *mean, struct ir_value *var)
{
    return (!imp_wants(im, 3) || imp_out(im, 3, mean)) && (!imp_wants(im, 4) || imp_out(im, 4, var));
}

/* Training: as the model is trained, or (biased) as the node says, which infers all the same. */
static bool train_batch_norm(struct imp *im, struct imp_batch_norm *b)
{
    struct ir_state *s[] = {imp_state_of(b->mean), imp_state_of(b->var)};
    double momentum = imp_f(im, "momentum", 0.9f);
    b->keep = momentum;
    b->fresh = 1 - momentum;
    struct ir_value *y = imp_batch_norm_train(im, b, imp_dtype(b->mean));
    for (int k = 0; y && k < 2; k++)
        if ((im->train && s[k] && !imp_update_buffer(im, s[k], b->next[k])) ||
            (imp_wants(im, 1 + k) && !imp_out(im, 1 + k, b->next[k])))
            return false;
    return y && imp_out(im, 0, imp_cast(im, y, imp_dtype(b->x))) && saved_statistics(im, b->batch_mean, b->batch_var);
}

/* BatchNormalization: up to opset 8 scale and the like may be of each element of a sample, not of each channel. */
bool onnx_op_batch_norm(struct imp *im)
{
    struct imp_batch_norm b = {imp_tensor(im, 0), imp_in(im, 1), imp_in(im, 2),
                               imp_in(im, 3),     imp_in(im, 4), .epsilon = imp_f(im, "epsilon", 1e-5f)};
    int rank = imp_rank(b.x);
    bool elements = im->opset < 9 && !imp_i(im, "spatial", 1);
    if (!b.x)
        return false;
    if (!b.scale || !b.bias || !b.mean || !b.var)
        return imp_bad(im, "five operands are expected");
    b.axis = elements ? -1 : rank > 1;
    if (im->train && elements)
        return imp_unsupported(im, "training with spatial = 0");
    if (im->train && rank < 2)
        return imp_unsupported(im, "training with operands of fewer than 2 dims");
    for (int k = 3; im->training && k <= 4; k++) {
        struct ir_state *s = imp_state_of(imp_in(im, k));
        if (s)
            s->flags = IR_STATE_BUFFER;
    }
    b.biased = !im->training && !im->infers && (im->opset >= 14 ? imp_i(im, "training_mode", 0) : imp_wants(im, 1));
    if (b.biased && (im->opset < 14 || rank < 2))
        return imp_unsupported(im, "training mode before opset 14");
    if (im->train || b.biased)
        return train_batch_norm(im, &b);
    struct ir_value *y = imp_batch_norm(im, &b);
    return y && imp_out(im, 0, imp_cast(im, y, imp_dtype(b.x))) && (!imp_wants(im, 1) || imp_out(im, 1, b.mean)) &&
           (!imp_wants(im, 2) || imp_out(im, 2, b.var)) && saved_statistics(im, b.mean, b.var);
}

bool onnx_op_instance_norm(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *scale = imp_in(im, 1), *bias = imp_in(im, 2);
    int64_t axes[TCC_MAX_RANK];
    if (!x)
        return false;
    if (!scale || !bias || imp_rank(x) < 3)
        return imp_bad(im, "x[n, c, spatial...], scale and bias are expected");
    int n = imp_axes_from(2, imp_rank(x), axes);
    struct ir_value *y = imp_normalise(im, imp_wide(im, x), n, axes, imp_f(im, "epsilon", 1e-5f), NULL, NULL);
    struct ir_value *shift = y ? imp_along(im, bias, 1, imp_rank(x)) : NULL;
    struct ir_value *factor = y ? imp_along(im, scale, 1, imp_rank(x)) : NULL;
    return y && imp_out(im, 0, imp_scaled(im, imp_cast(im, y, imp_dtype(x)), factor, shift));
}

/* Up to opset 20 scale and bias are per group, then per channel. */
bool onnx_op_group_norm(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *scale = imp_in(im, 1), *bias = imp_in(im, 2);
    int64_t groups = imp_i(im, "num_groups", 0), axes[TCC_MAX_RANK];
    if (!x)
        return false;
    int rank = imp_rank(x);
    if (!scale || !bias || rank < 3 || groups < 1 || rank + 1 > TCC_MAX_RANK)
        return imp_bad(im, "x[n, c, spatial...], scale, bias and a positive num_groups are expected");
    int n, per_group = im->opset < 21;
    struct ir_value *g = imp_grouped(im, imp_wide(im, x), 1, groups, &n, axes);
    struct ir_value *y = imp_normalise(im, g, n, axes, imp_f(im, "epsilon", 1e-5f), NULL, NULL);
    if (!per_group)
        y = imp_reshape(im, y, rank, x->type->dim);
    struct ir_value *shift = y ? imp_along(im, bias, 1, rank + per_group) : NULL;
    struct ir_value *factor = y ? imp_along(im, scale, 1, rank + per_group) : NULL;
    y = y ? imp_scaled(im, imp_cast(im, y, imp_dtype(x)), factor, shift) : NULL;
    return imp_out(im, 0, imp_reshape(im, y, rank, x->type->dim));
}

/* Local response normalisation: squares summed over `size` neighbouring channels, as a pool over a channel axis. */
bool onnx_op_lrn(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    int64_t size = imp_i(im, "size", 0);
    if (!x)
        return false;
    if (imp_rank(x) < 2 || size < 1)
        return imp_bad(im, "x[n, c, spatial...] and a positive size are expected");
    struct ir_ctx *c = im->ctx;
    ir_expr one = ir_const(c, 1), rest = one;
    for (int k = 2; k < imp_rank(x); k++)
        rest = ir_mul(c, rest, imp_dim(x, k));
    ir_expr dims[4] = {imp_dim(x, 0), one, imp_dim(x, 1), rest};
    ir_expr none = ir_const(c, 0);
    struct imp_window w = {
        2, {size, 1}, {1, 1}, {1, 1}, {NULL}, {ir_const(c, (size - 1) / 2), none}, {ir_const(c, size / 2), none}};
    struct ir_value *squares = imp_reshape(im, imp_un(im, IR_square, x), 4, dims);
    struct ir_value *sum = imp_pool(im, IR_avg_pool, squares, &w, "sum");
    sum = imp_reshape(im, sum, imp_rank(x), x->type->dim);
    struct ir_value *scale = imp_like(im, x, imp_f(im, "alpha", 1e-4f) / (double)size);
    struct ir_value *base = imp_with(im, IR_add, imp_bin(im, IR_mul, sum, scale), imp_f(im, "bias", 1));
    return imp_out(im, 0, imp_bin(im, IR_div, x, imp_bin(im, IR_pow, base, imp_like(im, x, imp_f(im, "beta", 0.75)))));
}

bool onnx_op_mvn(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    static const int64_t usual[] = {0, 2, 3};
    int n;
    const int64_t *axes = imp_ints(im, "axes", &n);
    int64_t sorted[TCC_MAX_RANK];
    if (!x)
        return false;
    n = axes ? imp_axes(im, 99, imp_rank(x), sorted) : 3;
    if (n < 0)
        return false;
    axes = axes ? sorted : usual;
    if (axes == usual && imp_rank(x) < 4)
        return imp_bad(im, "the default axes 0, 2, 3 need 4 dims");
    struct ir_value *centred = imp_bin(im, IR_sub, x, imp_mean(im, x, n, axes, true));
    struct ir_value *spread = imp_un(im, IR_sqrt, imp_mean(im, imp_un(im, IR_square, centred), n, axes, true));
    return imp_out(im, 0, imp_bin(im, IR_div, centred, imp_bin(im, IR_add, spread, imp_like(im, x, 1e-9))));
}

/* x / norm; where the norm is 0 the result is 0. */
bool onnx_op_lp_norm(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    int64_t axis = imp_i(im, "axis", -1), p = imp_i(im, "p", 2);
    if (!x || !imp_axis(im, &axis, imp_rank(x)))
        return false;
    if (p != 1 && p != 2)
        return imp_bad(im, "p = %lld; 1 or 2 is expected", (long long)p);
    struct ir_value *sum = imp_reduce(im, IR_reduce_sum, imp_un(im, p == 1 ? IR_abs : IR_square, x), 1, &axis, true);
    struct ir_value *norm = p == 1 ? sum : imp_un(im, IR_sqrt, sum);
    struct ir_value *none = norm ? imp_bin(im, IR_eq, norm, imp_like(im, x, 0)) : NULL;
    struct ir_value *y = imp_bin(im, IR_div, x, imp_select(im, none, imp_like(im, x, 1), norm));
    return imp_out(im, 0, y);
}
