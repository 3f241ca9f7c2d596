/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operators of domain com.microsoft that ONNX Runtime's quantiser writes. Those on single elements, pools and
 * concat are their float operators between DequantizeLinear and QuantizeLinear; products are sums in i32. The pass
 * quantise makes one form of both. Source: ONNX Runtime, docs/ContribOperators.md.
 */
#include "compiler/onnx/quant_int.h"

/* (x - zero) * scale of operands k, k+1, k+2 in f32. */
static struct ir_value *real_of(struct imp *im, int k)
{
    struct ir_value *x = imp_tensor(im, k), *scale = x ? imp_tensor(im, k + 1) : NULL;
    struct ir_value *zero = imp_one(im, imp_in(im, k + 2)), *y = scale ? imp_cast(im, x, TCC_F32) : NULL;
    if (y && zero)
        y = imp_bin(im, IR_sub, y, imp_cast(im, zero, TCC_F32));
    return y ? imp_bin(im, IR_mul, y, imp_one(im, scale)) : NULL;
}

/* Result 0: y by the scale and zero point of operands k, k+1; of type `to` where there is no zero point. */
static bool quantised(struct imp *im, struct ir_value *y, int k, enum tcc_dtype to)
{
    struct ir_value *scale = y ? imp_tensor(im, k) : NULL, *zero = imp_one(im, imp_in(im, k + 1));
    if (!scale)
        return false;
    y = imp_bin(im, IR_div, y, imp_one(im, scale));
    return y && imp_out(im, 0, imp_saturate(im, y, zero, zero ? imp_dtype(zero) : to));
}

static enum tcc_dtype type_of(struct imp *im, int k)
{
    struct ir_value *x = imp_in(im, k);
    return x ? imp_dtype(x) : TCC_U8;
}

bool onnx_op_qlinear_map1(struct imp *im)
{
    int arg = im->row->arg;
    struct ir_value *x = real_of(im, 0);
    if (x && arg == IR_leaky_relu)
        x = imp_bin(im, IR_leaky_relu, x, imp_num(im, TCC_F32, imp_f(im, "alpha", 0.01)));
    else if (x)
        x = imp_un(im, (enum ir_op)arg, x);
    return quantised(im, x, 3, type_of(im, 0));
}

bool onnx_op_qlinear_map2(struct imp *im)
{
    struct ir_value *a = real_of(im, 0), *b = a ? real_of(im, 3) : NULL;
    return b && quantised(im, imp_bin(im, (enum ir_op)im->row->arg, a, b), 6, type_of(im, 0));
}

bool onnx_op_qlinear_where(struct imp *im)
{
    struct ir_value *c = imp_tensor(im, 0), *a = c ? real_of(im, 1) : NULL, *b = a ? real_of(im, 4) : NULL;
    return b && quantised(im, imp_select(im, c, a, b), 7, type_of(im, 1));
}

bool onnx_op_qlinear_softmax(struct imp *im)
{
    struct ir_value *x = real_of(im, 0);
    int64_t axis = imp_i(im, "axis", -1);
    if (!x || !imp_axis(im, &axis, imp_rank(x)))
        return false;
    x = imp_i(im, "opset", 13) < 13 ? imp_softmax_from(im, x, (int)axis, false) : imp_softmax(im, x, (int)axis, false);
    return quantised(im, x, 3, type_of(im, 0));
}

bool onnx_op_qlinear_concat(struct imp *im)
{
    int n = (imp_nin(im) - 2) / 3;
    struct ir_value **in = IR_NEWN(im->ctx, n + 1, struct ir_value *);
    int64_t axis = imp_i(im, "axis", 0);
    if (n < 1 || imp_nin(im) != 3 * n + 2)
        return imp_bad(im, "%d operands; a scale, a zero point, and three for each piece are expected", imp_nin(im));
    for (int k = 0; k < n; k++)
        if (!(in[k] = real_of(im, 2 + 3 * k)))
            return false;
    return imp_axis(im, &axis, imp_rank(in[0])) && quantised(im, imp_concat(im, n, in, (int)axis), 0, type_of(im, 2));
}

bool onnx_op_qlinear_average_pool(struct imp *im)
{
    struct ir_value *x = real_of(im, 0);
    bool last = imp_i(im, "channels_last", 0);
    x = x && last ? imp_channels_first(im, x) : x;
    if (!x)
        return false;
    x = imp_average_pool(im, x);
    return quantised(im, last ? imp_channels_last(im, x) : x, 3, type_of(im, 0));
}

/* The mean over axes, as bytes. That of nothing is NaN, for which there is none. */
static bool quantised_mean(struct imp *im, struct ir_value *x, int n, const int64_t *axes, bool keep)
{
    struct ir_value *mean = imp_mean(im, x, n, axes, keep);
    ir_expr one = ir_const(im->ctx, 1), count = one;
    if (!mean)
        return false;
    for (int k = 0; k < n; k++)
        count = ir_mul(im->ctx, count, imp_dim(x, (int)axes[k]));
    return imp_assume(im, IR_LE, ir_min(im->ctx, one, ir_num_elements(im->ctx, mean->type)), count,
                      "there are elements to take the mean of") &&
           quantised(im, mean, 3, type_of(im, 0));
}

bool onnx_op_qlinear_global_average_pool(struct imp *im)
{
    struct ir_value *x = real_of(im, 0);
    int64_t axes[TCC_MAX_RANK];
    if (!x || imp_rank(x) < 3)
        return x && imp_bad(im, "%s; x[n, c, spatial...] is expected", ir_type_text(im->ctx, x->type));
    bool last = imp_i(im, "channels_last", 0);
    for (int k = 2; k < imp_rank(x); k++)
        axes[k - 2] = last ? k - 1 : k;
    return quantised_mean(im, x, imp_rank(x) - 2, axes, true);
}

bool onnx_op_qlinear_reduce_mean(struct imp *im)
{
    struct ir_value *x = real_of(im, 0);
    int64_t axes[TCC_MAX_RANK];
    int n = 0;
    const int64_t *given = x ? imp_ints(im, "axes", &n) : NULL;
    if (!x)
        return false;
    if (!given || !n)
        n = imp_rank(x);
    for (int k = 0; k < n && k < TCC_MAX_RANK; k++) {
        axes[k] = given ? given[k] : k;
        if (!imp_axis(im, &axes[k], imp_rank(x)))
            return false;
    }
    return quantised_mean(im, x, n, axes, imp_i(im, "keepdims", 1));
}

/* -- Products ------------------------------------------------------------------------------------------------------ */

bool onnx_op_qgemm(struct imp *im)
{
    struct ir_value *a = imp_tensor(im, 0), *b = a ? imp_tensor(im, 3) : NULL, *sa = imp_in(im, 1), *sb = imp_in(im, 4);
    bool ta = imp_i(im, "transA", 0), tb = imp_i(im, "transB", 0);
    if (!b || !sa || !sb)
        return b && imp_bad(im, "scales are missing");
    if (imp_rank(a) != 2 || imp_rank(b) != 2)
        return imp_bad(im, "operands of %d and %d dims; matrices are expected", imp_rank(a), imp_rank(b));
    a = imp_centred(im, a, imp_in(im, 2), 0);
    b = imp_centred(im, b, imp_in(im, 5), tb ? 0 : 1);
    struct ir_value *y = imp_matmul(im, a, b, ta, tb, TCC_I32), *c = imp_in(im, 6);
    double alpha = imp_f(im, "alpha", 1);
    y = y && c ? imp_bin(im, IR_add, y, c) : y;
    sa = imp_one(im, sa);
    if (alpha != 1)
        sa = imp_with(im, IR_mul, sa, alpha);
    sb = imp_one(im, sb); /* [n] broadcasts along the last axis as it is */
    struct ir_value *sy = imp_one(im, imp_in(im, 7)), *zero = imp_one(im, imp_in(im, 8));
    if (zero)
        return imp_requantise(im, y, sa, sb, sy ? sy : imp_like(im, sa, 1), zero);
    sa = imp_bin(im, IR_mul, sa, sb); /* without a zero point floats, divided by the scale all the same */
    struct ir_value *quotient = sy ? imp_bin(im, IR_div, sa, sy) : sa;
    y = imp_bin(im, IR_mul, imp_cast(im, y, TCC_F32), quotient);
    return imp_out(im, 0, y);
}

/* Result 0: the product of bytes a and b, and bias (may be NULL). */
static bool to_float(struct imp *im, struct ir_value *a, struct ir_value *za, struct ir_value *sa, struct ir_value *b,
                     struct ir_value *zb, struct ir_value *sb, struct ir_value *bias)
{
    struct ir_value *y = imp_integer_product(im, a, za, sa, b, zb, sb);
    return y && imp_out(im, 0, bias ? imp_bin(im, IR_add, y, bias) : y);
}

bool onnx_op_matmul_integer_to_float(struct imp *im)
{
    struct ir_value *a = imp_tensor(im, 0), *b = a ? imp_tensor(im, 1) : NULL;
    return b && to_float(im, a, imp_in(im, 4), imp_in(im, 2), b, imp_in(im, 5), imp_in(im, 3), imp_in(im, 6));
}

bool onnx_op_dynamic_quantize_matmul(struct imp *im)
{
    struct ir_value *a = imp_tensor(im, 0), *b = a ? imp_tensor(im, 1) : NULL, *scale = NULL, *zero = NULL;
    if (!b)
        return false;
    if (!imp_quantises(im)) {
        b = imp_centred(im, b, imp_in(im, 3), imp_rank(b) - 1);
        struct ir_value *scale = b && imp_has(im, 2) ? imp_one(im, imp_in(im, 2)) : NULL;
        b = scale ? imp_bin(im, IR_mul, imp_cast(im, b, TCC_F32), scale) : NULL;
        struct ir_value *y = imp_matmul_nd(im, a, b, TCC_F32);
        return imp_out(im, 0, y && imp_has(im, 4) ? imp_bin(im, IR_add, y, imp_in(im, 4)) : y);
    }
    a = imp_dynamic_quantize(im, a, false, &scale, &zero);
    return a && to_float(im, a, zero, scale, b, imp_in(im, 3), imp_in(im, 2), imp_in(im, 4));
}
