/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of signal processing, random tensors, centred cropping and padding, reinterpreted bits. */
#include "compiler/onnx/import_int.h"

#include <math.h>

/* a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N); N is the size, or one less when the window is symmetric. */
static const double windows[][3] = {{0.5, 0.5, 0}, {25.0 / 46, 1 - 25.0 / 46, 0}, {0.42, 0.5, 0.08}};

/* `arg`: 0 Hann, 1 Hamming, 2 Blackman. */
bool onnx_op_window(struct imp *im)
{
    ir_expr n;
    enum tcc_dtype to = imp_dtype_of(im, imp_i(im, "output_datatype", 1));
    if (to == TCC_NONE || imp_bound_exprs(im, imp_in(im, 0), 1, 0, IMP_MAX_DIM, &n) != 1)
        return false;
    ir_expr period = imp_i(im, "periodic", 1) ? n : ir_addc(im->ctx, n, -1);
    enum tcc_dtype wide = tcc_wide_float(to);
    const double *a = windows[im->row->arg];
    struct ir_value *i = imp_iota(im, 1, &n, 0, wide), *length = imp_cast(im, imp_dim_value(im, period), wide);
    struct ir_value *turn = imp_formula_n(im, "x * a / y", IMP_NUMBERS(2 * acos(-1)), i, length);
    struct ir_value *y = imp_formula_n(im, "a - b * cos(x)", a, turn);
    if (a[2] != 0)
        y = imp_formula_n(im, "y + c * cos(x + x)", a, turn, y);
    return y && imp_out(im, 0, imp_cast(im, y, to));
}

/* -- Random tensors. ONNX fixes no generator. */

static struct ir_value *random_values(struct imp *im, enum ir_op op, int rank, const ir_expr *dims,
                                      enum tcc_dtype dtype)
{
    double seed = imp_f(im, "seed", 0);
    return imp_random(im, op, rank, dims, dtype, isfinite(seed) && fabs(seed) < 9e15 ? (int64_t)seed : 0);
}

/* `arg`: 1 normal, 0 uniform; + 2: the shape is the operand's. */
bool onnx_op_random(struct imp *im)
{
    int arg = im->row->arg;
    bool normal = arg & 1, like = arg & 2;
    struct ir_value *x = like ? imp_tensor(im, 0) : NULL;
    ir_expr dims[TCC_MAX_RANK];
    int n = 0;
    const int64_t *shape = like ? NULL : imp_ints(im, "shape", &n);
    if ((like && !x) || n > TCC_MAX_RANK)
        return like ? false : imp_bad(im, "more than %d dims", TCC_MAX_RANK);
    enum tcc_dtype to = imp_attr(im, "dtype") || !x ? imp_dtype_of(im, imp_i(im, "dtype", 1)) : imp_dtype(x);
    if (to == TCC_NONE)
        return false;
    for (int k = 0; k < n; k++)
        dims[k] = ir_const(im->ctx, shape[k]);
    enum tcc_dtype in = tcc_wide_float(to);
    struct ir_value *r = random_values(im, normal ? IR_random_normal : IR_random_uniform, x ? imp_rank(x) : n,
                                       x ? x->type->dim : dims, in);
    double low = normal ? imp_f(im, "mean", 0) : imp_f(im, "low", 0);
    double scale = normal ? imp_f(im, "scale", 1) : imp_f(im, "high", 1) - low;
    return imp_out(im, 0, imp_cast(im, imp_formula_n(im, "x * a + b", IMP_NUMBERS(scale, low), r), to));
}

/* 1 with the probability that x says, drawn where a uniform number lies below it. */
bool onnx_op_bernoulli(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    enum tcc_dtype to = !x ? TCC_NONE : imp_attr(im, "dtype") ? imp_dtype_of(im, imp_i(im, "dtype", 1)) : imp_dtype(x);
    if (to == TCC_NONE)
        return false;
    struct ir_value *p = imp_wide(im, x),
                    *r = random_values(im, IR_random_uniform, imp_rank(x), x->type->dim, imp_dtype(p));
    return imp_out(im, 0, imp_cast(im, imp_bin(im, IR_lt, r, p), to));
}

/*
 * Multinomial: classes drawn by their log-probabilities, which need not be normalised: the class whose log-probability
 * plus a Gumbel number of its own, -log(-log(uniform)), is the largest (E. J. Gumbel, 1954).
 */
bool onnx_op_multinomial(struct imp *im)
{
    struct ir_value *x = imp_wide(im, imp_tensor(im, 0));
    int64_t samples = imp_i(im, "sample_size", 1), one = 1;
    enum tcc_dtype to = imp_dtype_of(im, imp_i(im, "dtype", 6));
    if (!x || to == TCC_NONE)
        return false;
    if (imp_rank(x) != 2 || samples < 1)
        return imp_bad(im, "log-probabilities with 2 dims and a sample_size of at least 1 are expected");
    ir_expr dims[3] = {imp_dim(x, 0), ir_const(im->ctx, samples), imp_dim(x, 1)};
    struct ir_value *u = random_values(im, IR_random_uniform, 3, dims, imp_dtype(x));
    struct ir_value *score = imp_formula(im, "x + (-log(-log(y)))", imp_unsqueeze(im, x, 1, &one), u); /* Gumbel's */
    struct ir_value *y =
        score ? imp_op(im, IR_argmax, 1, &score, IR_ATTRS(ir_attr_i(IR_ATTR_axis, 2), ir_attr_i(IR_ATTR_keepdims, 0)))
              : NULL;
    return imp_out(im, 0, imp_cast(im, y, to));
}

/* MelWeightMatrix: a library op; its dims are known now where its sizes are. */
bool onnx_op_mel_weights(struct imp *im)
{
    enum tcc_dtype to = imp_dtype_of(im, imp_i(im, "output_datatype", 1));
    struct ir_value *in[5];
    int64_t n;
    ir_expr dims[2] = {NULL, NULL};
    if (to == TCC_NONE)
        return false;
    for (int k = 0; k < 5; k++)
        if (!(in[k] = imp_tensor(im, k)))
            return false;
    if (imp_ints_of(im, in[1], 1, &n) == 1 && n >= 0)
        dims[0] = ir_const(im->ctx, n / 2 + 1);
    if (imp_ints_of(im, in[0], 1, &n) == 1 && n >= 0)
        dims[1] = ir_const(im->ctx, n);
    ir_type t = imp_fresh_type(im, to, 2, dims);
    struct ir_node *node = imp_lib(im, "mel_weight_matrix", 5, in, 1, &t, NULL);
    return node && imp_out(im, 0, node->out[0]);
}

/* -- CenterCropPad: cut or pad each axis evenly; the odd element is cut in front and padded behind. */

bool onnx_op_center_crop_pad(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    struct ir_ctx *c = im->ctx;
    ir_expr wanted[TCC_MAX_RANK], start[TCC_MAX_RANK], size[TCC_MAX_RANK], step[TCC_MAX_RANK], before[TCC_MAX_RANK],
        after[TCC_MAX_RANK];
    int given, n = x ? imp_bound_exprs(im, imp_in(im, 1), TCC_MAX_RANK, 0, IMP_MAX_DIM, wanted) : -1;
    const int64_t *axes = imp_ints(im, "axes", &given);
    ir_expr zero = ir_const(c, 0), two = ir_const(c, 2);
    if (n < 0)
        return false;
    if (n != (axes ? given : imp_rank(x)))
        return imp_bad(im, "%d sizes for %d axes", n, axes ? given : imp_rank(x));
    for (int k = 0; k < imp_rank(x); k++) {
        start[k] = before[k] = after[k] = zero;
        size[k] = imp_dim(x, k);
        step[k] = ir_const(c, 1);
    }
    for (int k = 0; k < n; k++) {
        int64_t a = axes ? axes[k] : k;
        if (!imp_axis(im, &a, imp_rank(x)))
            return false;
        ir_expr cut = ir_max(c, zero, ir_sub(c, size[a], wanted[k])),
                add = ir_max(c, zero, ir_sub(c, wanted[k], size[a]));
        start[a] = ir_floordiv(c, cut, two);
        before[a] = ir_floordiv(c, add, two);
        after[a] = ir_sub(c, add, before[a]);
        size[a] = ir_sub(c, size[a], cut);
    }
    return imp_out(im, 0, imp_pad(im, imp_slice(im, x, start, size, step), NULL, before, after, "constant"));
}

/* The same bits as another type of the same width, which tf2onnx names otherwise. */
bool onnx_op_bitcast(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    bool theirs = imp_attr(im, "type") != NULL;
    int64_t named = imp_i(im, theirs ? "type" : "to", 0);
    enum tcc_dtype to = imp_dtype_of(im, named);
    if (!x || to == TCC_NONE)
        return false;
    if (onnx_dtype_bits(to) != onnx_dtype_bits(imp_dtype(x)))
        return imp_bad(im, "%s and %s differ in size", tcc_dtype_name(imp_dtype(x)), tcc_dtype_name(to));
    ir_type t = ir_with_dtype(im->ctx, x->type, to);
    struct ir_node *n = imp_lib(im, "bitcast", 1, &x, 1, &t, theirs ? IR_ATTRS(imp_user_int(im, "to", named)) : NULL);
    return n && imp_out(im, 0, n->out[0]);
}

/* -- Rfft, Irfft of com.microsoft: transforms of real numbers along the last signal_ndim axes, one after the other */

struct ir_value *imp_transform(struct imp *im, struct ir_value *x, int axis, bool inverse, bool real)
{
    const struct ir_attr words[] = {imp_user_int(im, "axis", axis), imp_user_int(im, "inverse", inverse),
                                    imp_user_int(im, "onesided", real)};
    ir_expr dims[TCC_MAX_RANK];
    if (!x)
        return NULL;
    int rank = imp_rank(x);
    for (int k = 0; k < rank; k++)
        dims[k] = imp_dim(x, k);
    if (real && inverse)
        dims[axis] = ir_addc(im->ctx, ir_mulc(im->ctx, dims[axis], 2), -2);
    else if (real)
        dims[axis] = ir_addc(im->ctx, ir_floordiv(im->ctx, dims[axis], ir_const(im->ctx, 2)), 1);
    dims[rank - 1] = ir_const(im->ctx, real && inverse ? 1 : 2);
    return imp_lib_value(im, "dft", 1, &x, ir_tensor_type(im->ctx, imp_dtype(x), rank, dims), 3, words);
}

/* `arg`: 1 is the inverse, which divides by the number of elements. */
bool onnx_op_rfft(struct imp *im)
{
    int arg = im->row->arg;
    struct ir_value *x = imp_tensor(im, 0);
    int64_t n = imp_i(im, "signal_ndim", 1), last;
    if (!x)
        return false;
    if (imp_i(im, "normalized", 0) || !imp_i(im, "onesided", 1))
        return imp_unsupported(im, "normalized = 1 or onesided = 0");
    last = imp_rank(x);
    if (arg && last && !ir_is_const(imp_dim(x, (int)last - 1), NULL))
        return imp_open_size(im, imp_dim(x, (int)last - 1), NULL, "a last dim that is known only at run time, not 2");
    if (n < 1 || n > imp_rank(x) - arg || (arg && !ir_is_value(imp_dim(x, imp_rank(x) - 1), 2)))
        return imp_bad(im, "%s with %lld signal axes", ir_type_text(im->ctx, x->type), (long long)n);
    if (!arg)
        x = imp_transform(im, imp_unsqueeze(im, x, 1, &last), imp_rank(x) - 1, false, true);
    for (int64_t k = 2; x && k <= n; k++)
        x = imp_transform(im, x, imp_rank(x) - 1 - (int)k, arg, false);
    if (!arg || !x)
        return imp_out(im, 0, x);
    last = imp_rank(x) - 1;
    return imp_out(im, 0, imp_squeeze(im, imp_transform(im, x, imp_rank(x) - 2, true, true), 1, &last));
}
