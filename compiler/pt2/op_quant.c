/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantisation: what PT2E's quantiser writes (quantized_decomposed.*) and fake quantisation, as ONNX's QuantizeLinear
 * and DequantizeLinear, so that products between them become products of bytes as they do there.
 */
#include "compiler/pt2/pt2_int.h"

static struct ir_value *operand(struct pt2 *p, const char *one, const char *many)
{
    bool number;
    return pt2_operand(p, pt2_given(p, many) ? many : one, &number);
}

static bool read_scaled(struct pt2 *p, const struct ir_value *x, bool channels, enum tcc_dtype stored,
                        struct imp_scales *q)
{
    *q = (struct imp_scales){operand(p, "scale", "scales"), operand(p, "zero_point", "zero_points"), 0, 0};
    if (!x || !q->scale || (channels && !pt2_axis(p, "axis", 0, imp_rank(x), &q->axis)))
        return false;
    q->scale = imp_cast(p->im, q->scale, TCC_F32);
    q->zero = q->zero ? imp_cast(p->im, q->zero, stored) : NULL;
    if (!channels) {
        q->scale = imp_reshape(p->im, q->scale, 0, NULL);
        q->zero = q->zero ? imp_reshape(p->im, q->zero, 0, NULL) : NULL;
    }
    return q->scale != NULL;
}

/* The bounds that the node names, where they are narrower than the type's (as -127 .. 127 of i8). */
static struct ir_value *bounded(struct pt2 *p, struct ir_value *q)
{
    static const struct {
        enum tcc_dtype type;
        int64_t low, high;
    } types[] = {{TCC_I8, -128, 127}, {TCC_U8, 0, 255}};
    int64_t low = pt2_i(p, "quant_min", INT64_MIN), high = pt2_i(p, "quant_max", INT64_MAX);
    for (size_t k = 0; q && k < sizeof types / sizeof *types; k++) {
        if (types[k].type != imp_dtype(q))
            continue;
        if (low > types[k].low)
            q = imp_with(p->im, IR_max, q, (double)low);
        if (high < types[k].high)
            q = imp_with(p->im, IR_min, q, (double)high);
    }
    return q;
}

static bool stored(struct pt2 *p, enum tcc_dtype d)
{
    return d == TCC_I8 || d == TCC_U8 || imp_unsupported(p->im, "quantisation to %s", tcc_dtype_name(d));
}

/* quantize_per_tensor(input, scale, zero_point, quant_min, quant_max, dtype), quantize_per_channel (arg 1: scales,
 * zero_points, axis) */
bool aten_quantize(struct pt2 *p)
{
    struct imp_scales q;
    struct ir_value *x = imp_cast(p->im, pt2_need(p, "input"), TCC_F32);
    enum tcc_dtype d = pt2_out_type(p, 0);
    pt2_ignore(p, "dtype", "eps", "ch_axis");
    return x && stored(p, d) && read_scaled(p, x, p->row->arg, d, &q) &&
           pt2_out(p, 0, bounded(p, imp_quantize(p->im, x, &q, TCC_F32, d, true)));
}

/* dequantize_per_tensor, dequantize_per_channel (arg 1) */
bool aten_dequantize(struct pt2 *p)
{
    struct imp_scales q;
    struct ir_value *x = pt2_need(p, "input");
    pt2_ignore(p, "quant_min", "quant_max", "dtype", "out_dtype"); /* what is stored lies within its bounds */
    return x && stored(p, imp_dtype(x)) && read_scaled(p, x, p->row->arg, imp_dtype(x), &q) &&
           pt2_out(p, 0, imp_dequantize(p->im, x, &q, TCC_F32));
}

/* choose_qparams.tensor(input, quant_min, quant_max, eps, dtype): scale f64[1] and zero point i64[1] of the data's
 * range, 0 within it */
bool aten_choose_qparams(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *x = imp_cast(im, pt2_need(p, "input"), TCC_F32);
    double low = pt2_f(p, "quant_min", 0), high = pt2_f(p, "quant_max", 255),
           eps = pt2_f(p, "eps", 1.1920928955078125e-7);
    int64_t axes[TCC_MAX_RANK];
    ir_expr one = ir_const(p->ctx, 1);
    pt2_ignore(p, "dtype");
    for (int k = 0; k < TCC_MAX_RANK; k++)
        axes[k] = k;
    if (!x)
        return false;
    struct ir_value *least = imp_with(im, IR_min, imp_reduce(im, IR_reduce_min, x, imp_rank(x), axes, false), 0),
                    *most = imp_with(im, IR_max, imp_reduce(im, IR_reduce_max, x, imp_rank(x), axes, false), 0);
    struct ir_value *scale = imp_formula_n(im, "max((y - x) / a, b)", IMP_NUMBERS(high - low, eps), least, most);
    struct ir_value *zero = imp_formula_n(im, "min(max(a - round(x / y), a), b)", IMP_NUMBERS(low, high), least, scale);
    return pt2_out(p, 0, imp_reshape(im, scale, 1, &one)) && pt2_out(p, 1, imp_reshape(im, zero, 1, &one));
}

/* fake_quantize_per_tensor_affine(self, scale, zero_point, quant_min, quant_max), .._per_channel_affine (arg 1: axis):
 * rounded to the grid; the gradient goes through where nothing is cut off, which the second result of .._cachemask
 * says */
bool aten_fake_quantize(struct pt2 *p)
{
    int arg = p->row->arg;
    struct imp *im = p->im;
    struct ir_value *x = imp_wide(im, pt2_need(p, "self"));
    bool number;
    struct ir_value *scale = x ? pt2_operand(p, "scale", &number) : NULL,
                    *zero = scale ? pt2_operand(p, "zero_point", &number) : NULL;
    double low = pt2_f(p, "quant_min", 0), high = pt2_f(p, "quant_max", 255);
    int64_t axis = 0;
    if (!zero || (arg && !pt2_axis(p, "axis", 0, imp_rank(x), &axis)))
        return false;
    scale = imp_cast(im, scale, imp_dtype(x));
    zero = imp_cast(im, zero, imp_dtype(x));
    if (arg) {
        scale = imp_along(im, scale, (int)axis, imp_rank(x));
        zero = imp_along(im, zero, (int)axis, imp_rank(x));
    } else {
        scale = imp_reshape(im, scale, 0, NULL);
        zero = imp_reshape(im, zero, 0, NULL);
    }
    const double *ends = IMP_NUMBERS(low, high);
    struct ir_value *level = imp_formula(im, "round(x * recip(y)) + z", x, scale, zero);
    struct ir_value *y = imp_formula_n(im, "(min(max(x, a), b) - z) * y", ends, level, scale, zero);
    struct ir_value *inside = imp_formula_n(im, "and(ge(x, a), le(x, b))", ends, level);
    if (im->train) { /* straight through: x, and what rounding changes as a constant */
        struct ir_value *through = imp_formula(im, "select(y, x, stop_gradient(x))", x, inside);
        y = imp_formula(im, "x + stop_gradient(y - x)", through, y);
    }
    struct ir_value *enabled = pt2_t(p, "fake_quant_enabled");
    if (enabled)
        y = imp_select(im, imp_with(im, IR_ne, imp_reshape(im, enabled, 0, NULL), 0), y, x);
    return pt2_out(p, 0, y) && (!pt2_wants(p, 1) || pt2_out(p, 1, inside));
}
