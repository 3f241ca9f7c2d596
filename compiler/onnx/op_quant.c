/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantisation: QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear, and the integer and quantised products.
 *
 * Scales and zero points are one for the tensor, one for each index of an axis, or one for each block of it; all three
 * become a tensor that broadcasts against x.
 */
#include "compiler/onnx/quant_int.h"
#include "base/mutant.h"

#include <string.h>

/* Each element along the axis `block` times, cut to `size` in all. */
struct ir_value *imp_repeat_blocks(struct imp *im, struct ir_value *s, int axis, int64_t block, ir_expr size)
{
    struct ir_ctx *c = im->ctx;
    ir_expr wide[TCC_MAX_RANK], dims[TCC_MAX_RANK];
    int64_t behind = axis + 1;
    if (!s || imp_rank(s) + 1 > TCC_MAX_RANK)
        return s ? (imp_unsupported(im, "%d dims in blocks", imp_rank(s)), NULL) : NULL;
    int rank = imp_rank(s);
    for (int k = 0, j = 0; k < rank; k++) {
        wide[j++] = imp_dim(s, k);
        dims[k] = k == axis ? ir_mulc(c, imp_dim(s, k), block) : imp_dim(s, k);
        if (k == axis)
            wide[j++] = ir_const(c, block);
    }
    struct ir_value *y = imp_reshape(im, imp_expand(im, imp_unsqueeze(im, s, 1, &behind), rank + 1, wide), rank, dims);
    return imp_slice1(im, y, axis, ir_const(c, 0), size);
}

/* A scale or zero point of `x`, so that it broadcasts. */
static struct ir_value *spread(struct imp *im, struct ir_value *s, const struct ir_value *x, int64_t axis)
{
    struct ir_ctx *c = im->ctx;
    int rank = imp_rank(x);
    int64_t block = imp_i(im, "block_size", 0);
    if (!s || imp_rank(s) == 0)
        return s;
    if (imp_rank(s) == 1 && (ir_is_value(imp_dim(s, 0), 1) || rank == 0) && !block)
        return imp_reshape(im, s, 0, NULL);
    if (!imp_axis(im, &axis, rank))
        return NULL;
    if (imp_rank(s) == 1 && !block)
        return imp_along(im, s, (int)axis, rank);
    if (imp_rank(s) != rank || block < 1)
        return imp_bad(im, "a scale %s for x %s", ir_type_text(c, s->type), ir_type_text(c, x->type)), NULL;
    return imp_repeat_blocks(im, s, (int)axis, block, imp_dim(x, (int)axis));
}

static const struct {
    enum tcc_dtype dtype;
    double lo, hi;
} ranges[] = {{TCC_U8, 0, 255}, {TCC_I8, -128, 127}, {TCC_U16, 0, 65535}, {TCC_I16, -32768, 32767},
              {TCC_U4, 0, 15},  {TCC_I4, -8, 7},     {TCC_U2, 0, 3},      {TCC_I2, -2, 1}};

struct ir_value *imp_saturate(struct imp *im, struct ir_value *x, struct ir_value *zero, enum tcc_dtype to)
{
    for (size_t k = 0; x && k < sizeof ranges / sizeof *ranges; k++) {
        if (ranges[k].dtype != to)
            continue;
        x = imp_un(im, MUTANT(125, IR_round, IR_floor), imp_wide(im, x));
        if (x && zero)
            x = imp_bin(im, IR_add, x, imp_cast(im, zero, imp_dtype(x)));
        x = x ? imp_tri(im, IR_clip, x, imp_like(im, x, ranges[k].lo), imp_like(im, x, ranges[k].hi)) : NULL;
        return imp_cast(im, x, to);
    }
    return imp_unsupported(im, "quantisation to %s", tcc_dtype_name(to)), NULL;
}

bool onnx_op_quantize(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *scale = x ? imp_tensor(im, 1) : NULL, *zero = imp_in(im, 2);
    int64_t axis = imp_i(im, "axis", 1), asked = imp_i(im, "output_dtype", 0), precision = imp_i(im, "precision", 0);
    if (!scale)
        return false;
    enum tcc_dtype to = zero ? imp_dtype(zero) : asked ? imp_dtype_of(im, asked) : TCC_U8;
    enum tcc_dtype in = precision                          ? imp_dtype_of(im, precision)
                        : imp_dtype(x) == imp_dtype(scale) ? imp_dtype(x)
                                                           : TCC_F32;
    if (to == TCC_NONE || in == TCC_NONE)
        return false;
    scale = spread(im, scale, x, axis);
    zero = zero ? spread(im, zero, x, axis) : NULL;
    struct ir_value *y = scale ? imp_bin(im, IR_div, imp_cast(im, x, in), imp_cast(im, scale, in)) : NULL;
    if (!tcc_is_float(to))
        return y && imp_out(im, 0, imp_saturate(im, y, zero, to));
    if (y && zero && to == TCC_F4E2M1)
        y = imp_bin(im, IR_add, y, imp_cast(im, zero, in));
    return y && imp_out(im, 0,
                        imp_op(im, IR_cast, 1, &y,
                               IR_ATTRS(ir_attr_dtype(IR_ATTR_to, to),
                                        ir_attr_i(IR_ATTR_saturate, imp_i(im, "saturate", 1)))));
}

bool onnx_op_dequantize(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *scale = x ? imp_tensor(im, 1) : NULL, *zero = imp_in(im, 2);
    int64_t axis = imp_i(im, "axis", 1), asked = imp_i(im, "output_dtype", 0);
    if (!scale)
        return false;
    enum tcc_dtype to = asked ? imp_dtype_of(im, asked) : imp_dtype(scale);
    if (to == TCC_NONE)
        return false;
    enum tcc_dtype in = imp_dtype(scale) == TCC_F64 ? TCC_F64 : TCC_F32;
    scale = spread(im, scale, x, axis);
    zero = zero && !tcc_is_float(imp_dtype(zero)) ? spread(im, zero, x, axis) : NULL;
    struct ir_value *y = imp_cast(im, x, in);
    if (zero)
        y = imp_bin(im, IR_sub, y, imp_cast(im, zero, in));
    y = scale ? imp_bin(im, IR_mul, y, imp_cast(im, scale, in)) : NULL;
    return imp_out(im, 0, imp_cast(im, y, to));
}

struct ir_value *imp_dynamic_quantize(struct imp *im, struct ir_value *x, bool rows, struct ir_value **scale,
                                      struct ir_value **point)
{
    int64_t axes[TCC_MAX_RANK];
    int n = rows ? 1 : imp_rank(x);
    for (int k = 0; k < n; k++)
        axes[k] = rows ? imp_rank(x) - 1 : k;
    struct ir_value *zero = imp_like(im, x, 0);
    struct ir_value *hi = imp_bin(im, IR_max, imp_reduce(im, IR_reduce_max, x, n, axes, rows), zero);
    struct ir_value *lo = imp_bin(im, IR_min, imp_reduce(im, IR_reduce_min, x, n, axes, rows), zero);
    struct ir_value *range = MUTANT(126, imp_bin(im, IR_sub, hi, lo), hi);
    *scale = imp_bin(im, IR_div, range, imp_like(im, x, 255));
    if (*scale) /* nothing but zeros, or nothing at all: 1, as ONNX Runtime has it */
        *scale = imp_tri(im, IR_select, imp_bin(im, IR_eq, range, zero), imp_like(im, x, 1), *scale);
    *point = imp_bin(im, IR_sub, zero, imp_bin(im, IR_div, lo, *scale));
    if (!*point)
        return NULL;
    *point = imp_cast(im, imp_un(im, IR_round, imp_tri(im, IR_clip, *point, zero, imp_like(im, x, 255))), TCC_U8);
    return imp_saturate(im, imp_bin(im, IR_div, x, *scale), *point, TCC_U8);
}

bool onnx_op_dynamic_quantize(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *scale = NULL, *point = NULL, *y;
    y = x ? imp_dynamic_quantize(im, x, false, &scale, &point) : NULL;
    return y && imp_out(im, 0, y) && imp_out(im, 1, scale) && imp_out(im, 2, point);
}

struct ir_value *imp_one(struct imp *im, struct ir_value *v)
{
    return v && imp_rank(v) == 1 && ir_is_value(imp_dim(v, 0), 1) ? imp_reshape(im, v, 0, NULL) : v;
}

struct ir_value *imp_centred(struct imp *im, struct ir_value *x, struct ir_value *zero, int axis)
{
    x = imp_cast(im, x, TCC_I32);
    if (!x || !zero)
        return x;
    zero = imp_cast(im, zero, TCC_I32);
    if (zero && imp_rank(zero) == 1)
        zero =
            ir_is_value(imp_dim(zero, 0), 1) ? imp_reshape(im, zero, 0, NULL) : imp_along(im, zero, axis, imp_rank(x));
    return imp_bin(im, IR_sub, x, zero);
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
    struct ir_value *y = imp_bin(im, IR_mul, imp_cast(im, product, TCC_F32), imp_cast(im, factor, TCC_F32));
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
