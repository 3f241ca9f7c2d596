/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantisation: QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear, and the integer and quantised products.
 */
#include "compiler/onnx/quant_int.h"

static struct imp_scales scales_of(struct imp *im)
{
    return (struct imp_scales){imp_tensor(im, 1), imp_in(im, 2), imp_i(im, "axis", 1), imp_i(im, "block_size", 0)};
}

bool onnx_op_quantize(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    struct imp_scales s = scales_of(im);
    int64_t asked = imp_i(im, "output_dtype", 0), precision = imp_i(im, "precision", 0);
    if (!x || !s.scale)
        return false;
    enum tcc_dtype to = s.zero ? imp_dtype(s.zero) : asked ? imp_dtype_of(im, asked) : TCC_U8;
    enum tcc_dtype in = precision                            ? imp_dtype_of(im, precision)
                        : imp_dtype(x) == imp_dtype(s.scale) ? imp_dtype(x)
                                                             : TCC_F32;
    return to != TCC_NONE && in != TCC_NONE &&
           imp_out(im, 0, imp_quantize(im, x, &s, in, to, imp_i(im, "saturate", 1)));
}

bool onnx_op_dequantize(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    struct imp_scales s = scales_of(im);
    int64_t asked = imp_i(im, "output_dtype", 0);
    enum tcc_dtype to = asked ? imp_dtype_of(im, asked) : imp_dtype(s.scale);
    return x && s.scale && to != TCC_NONE && imp_out(im, 0, imp_dequantize(im, x, &s, to));
}

bool onnx_op_dynamic_quantize(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *scale = NULL, *point = NULL, *y;
    y = x ? imp_dynamic_quantize(im, x, false, &scale, &point) : NULL;
    return y && imp_out(im, 0, y) && imp_out(im, 1, scale) && imp_out(im, 2, point);
}

bool onnx_op_matmul_integer(struct imp *im)
{
    struct ir_value *a = imp_tensor(im, 0), *b = a ? imp_tensor(im, 1) : NULL;
    if (!b)
        return false;
    a = imp_centred(im, a, imp_in(im, 2), imp_rank(a) - 2);
    b = imp_centred(im, b, imp_in(im, 3), imp_rank(b) - 1);
    return imp_out(im, 0, imp_matmul_nd(im, a, b, TCC_I32));
}

bool imp_requantise(struct imp *im, struct ir_value *product, struct ir_value *sa, struct ir_value *sb,
                    struct ir_value *sy, struct ir_value *zero)
{
    if (!product || !sa || !sb || !sy || !zero)
        return product && imp_bad(im, "scales and zero points are missing");
    struct ir_value *factor = imp_bin(im, IR_div, imp_bin(im, IR_mul, sa, sb), sy);
    struct ir_value *factor_cast = imp_cast(im, factor, TCC_F32);
    struct ir_value *y = imp_bin(im, IR_mul, imp_cast(im, product, TCC_F32), factor_cast);
    return imp_out(im, 0, imp_saturate(im, y, zero, imp_dtype(zero)));
}

bool onnx_op_qlinear_matmul(struct imp *im)
{
    struct ir_value *a = imp_tensor(im, 0), *b = a ? imp_tensor(im, 3) : NULL;
    if (!b)
        return false;
    struct ir_value *sa = imp_in(im, 1), *sb = imp_in(im, 4);
    if (sa && imp_rank(sa) == 1 && !ir_is_value(imp_dim(sa, 0), 1))
        sa = imp_along(im, sa, 0, 2);
    a = imp_centred(im, a, imp_in(im, 2), imp_rank(a) - 2);
    b = imp_centred(im, b, imp_in(im, 5), imp_rank(b) - 1);
    return imp_requantise(im, imp_matmul_nd(im, a, b, TCC_I32), sa, sb, imp_in(im, 6), imp_in(im, 7));
}

bool onnx_op_conv_integer(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *w = x ? imp_tensor(im, 1) : NULL;
    if (!w)
        return false;
    x = imp_centred(im, x, imp_in(im, 2), 1);
    w = imp_centred(im, w, imp_in(im, 3), 0);
    return imp_out(im, 0, imp_conv(im, x, w, NULL, TCC_I32));
}

bool onnx_op_qlinear_conv(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *w = x ? imp_tensor(im, 3) : NULL, *sw = imp_in(im, 4);
    if (!w)
        return false;
    if (sw && imp_rank(sw) == 1)
        sw = ir_is_value(imp_dim(sw, 0), 1) ? imp_reshape(im, sw, 0, NULL) : imp_along(im, sw, 1, imp_rank(x));
    bool last = imp_i(im, "channels_last", 0); /* in ONNX Runtime's form of the operator */
    x = imp_centred(im, last ? imp_channels_first(im, x) : x, imp_in(im, 2), 1);
    w = imp_centred(im, w, imp_in(im, 5), 0);
    x = imp_conv(im, x, w, imp_in(im, 8), TCC_I32);
    if (last && sw && imp_rank(sw))
        sw = imp_channels_last(im, sw);
    return imp_requantise(im, last ? imp_channels_last(im, x) : x, imp_in(im, 1), sw, imp_in(im, 6), imp_in(im, 7));
}
