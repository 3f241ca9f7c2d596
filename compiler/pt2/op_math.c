/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise functions that are formulas of others. Sums and quotients of 16-bit floats are computed in f32 and
 * rounded once. */
#include "compiler/pt2/pt2_int.h"

#include <math.h>

/* The sign bit as a bool: 1 / -0 is -inf, which tells -0 from 0. */
static struct ir_value *negative(struct pt2 *p, struct ir_value *x)
{
    return imp_formula(p->im, x && imp_is_float(x) ? "or(lt(x, 0), and(eq(x, 0), lt(recip(x), 0)))" : "lt(x, 0)", x);
}

/* -- One operand */

enum { DEGREES, RADIANS };

/* rad2deg, deg2rad: of whole numbers, in the result's type */
bool aten_turn(struct pt2 *p)
{
    struct ir_value *x = pt2_wide_float(p, pt2_need(p, "self"));
    return pt2_out(p, 0, imp_with(p->im, IR_mul, x, p->row->arg == DEGREES ? 180 / M_PI : M_PI / 180));
}

bool aten_erfc(struct pt2 *p)
{
    return pt2_out(p, 0, imp_erfc(p->im, pt2_wide_float(p, pt2_need(p, "self"))));
}

/* log(x / (1 - x)), x brought to eps .. 1 - eps where that is given */
bool aten_logit(struct pt2 *p)
{
    struct ir_value *x = pt2_wide_float(p, pt2_need(p, "self"));
    double eps = pt2_f(p, "eps", -1);
    if (eps >= 0) /* above 0.5, too, where the ends change places */
        x = imp_formula_n(p->im, "select(lt(x, a), a, min(x, b))", IMP_NUMBERS(eps, 1 - eps), x);
    return pt2_out(p, 0, imp_formula(p->im, "log(x / (1 - x))", x));
}

/* sin(pi x) / (pi x), 1 at 0 */
bool aten_sinc(struct pt2 *p)
{
    struct ir_value *x = imp_with(p->im, IR_mul, pt2_wide_float(p, pt2_need(p, "self")), M_PI);
    struct ir_value *safe = imp_formula(p->im, "select(eq(x, 0), 1, x)", x);
    return pt2_out(p, 0, imp_formula(p->im, "select(eq(x, 0), 1, sin(y) / y)", x, safe));
}

/* |x| > lambd ? x : 0, and (arg 1) that much nearer to 0; NaN stays what it is */
bool aten_shrink(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    double lambd = pt2_f(p, "lambd", 0.5);
    return pt2_out(p, 0,
                   imp_formula_n(p->im, "select(gt(x, a), x - b, select(lt(x, -a), x + b, select(isnan(x), x, 0)))",
                                 IMP_NUMBERS(lambd, p->row->arg ? lambd : 0), x));
}

/* arg 1: +inf, -1: -inf */
bool aten_infinite(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    if (x && !imp_is_float(x))
        return pt2_out(p, 0, imp_splat(p->im, TCC_BOOL, 0, imp_rank(x), x->type->dim));
    return pt2_out(p, 0, imp_with(p->im, IR_eq, x, p->row->arg * INFINITY));
}

bool aten_signbit(struct pt2 *p)
{
    return pt2_out(p, 0, negative(p, pt2_need(p, "self")));
}

/* NaN, inf and -inf replaced, by default by 0 and the type's largest numbers */
bool aten_nan_to_num(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    if (!x)
        return false;
    double most = tcc_largest(imp_dtype(x)), nan = pt2_f(p, "nan", 0);
    double high = pt2_f(p, "posinf", most), low = pt2_f(p, "neginf", -most);
    if (!imp_is_float(x))
        return pt2_out(p, 0, x);
    return pt2_out(p, 0,
                   imp_formula_n(p->im, "select(eq(x, -d), c, select(eq(x, d), b, select(isnan(x), a, x)))",
                                 IMP_NUMBERS(nan, high, low, INFINITY), x));
}

/* rrelu(self, lower, upper, training), rrelu_with_noise_functional (self, noise, ..), which gives the noise too: the
 * slope in the middle; a drawn one is not trained */
bool aten_rrelu(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    double slope = (pt2_f(p, "lower", 1.0 / 8) + pt2_f(p, "upper", 1.0 / 3)) / 2;
    if (pt2_b(p, "training", false) && !p->eval)
        return imp_unsupported(p->im, "slopes that are drawn");
    struct ir_value *noise = pt2_given(p, "noise") ? pt2_need(p, "noise") : NULL;
    return pt2_out(p, 0, imp_with(p->im, IR_leaky_relu, x, slope)) && (!pt2_wants(p, 1) || pt2_out(p, 1, noise));
}

/* alpha_dropout, feature_alpha_dropout, where they do nothing */
bool aten_alpha_dropout(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, pt2_given(p, "self") ? "self" : "input");
    bool train = pt2_b(p, "train", true), drops = pt2_f(p, "p", 0.5) > 0;
    if (train && drops && !p->eval)
        return imp_unsupported(p->im, "it is trained");
    return pt2_out(p, 0, x);
}

/* glu(self, dim): the first half times the sigmoid of the second */
bool aten_glu(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    int64_t axis;
    if (!x || !imp_rank(x) || !pt2_axis(p, "dim", -1, imp_rank(x), &axis))
        return false;
    ir_expr half = ir_floordiv(p->ctx, imp_dim(x, (int)axis), ir_const(p->ctx, 2));
    struct ir_value *a = imp_slice1(p->im, x, (int)axis, ir_const(p->ctx, 0), half),
                    *b = imp_slice1(p->im, x, (int)axis, half, half);
    struct ir_value *gate = a && b ? imp_un(p->im, IR_sigmoid, imp_wide(p->im, b)) : NULL;
    return a && b && pt2_out(p, 0, imp_bin(p->im, IR_mul, imp_wide(p->im, a), gate));
}

/* -- Two operands */

/* log(exp(a) + exp(b)), of base 2 with arg 1: the larger one and what the other adds to it */
bool aten_logaddexp(struct pt2 *p)
{
    struct pt2_operands o;
    if (!pt2_pair_of(p, "self", "other", pt2_out_type(p, 0), &o))
        return false;
    struct ir_value *a = imp_wide(p->im, o.a), *b = imp_wide(p->im, o.b);
    double base = p->row->arg ? M_LN2 : 1; /* of infinite ones that are equal there is no difference */
    return pt2_out(p, 0,
                   imp_formula_n(p->im,
                                 "select(and(eq(x, y), isinf(x)), x, max(x, y) + log1p(exp(neg(abs(x - y)) * a)) / a)",
                                 IMP_NUMBERS(base), a, b));
}

bool aten_hypot(struct pt2 *p)
{
    struct pt2_operands o;
    if (!pt2_pair_of(p, "self", "other", pt2_out_type(p, 0), &o))
        return false;
    struct ir_value *b_wide = imp_wide(p->im, o.b);
    return pt2_out(p, 0, imp_hypot(p->im, imp_wide(p->im, o.a), b_wide));
}

bool aten_copysign(struct pt2 *p)
{
    struct pt2_operands o;
    if (!pt2_pair_of(p, "self", "other", pt2_out_type(p, 0), &o))
        return false;
    return pt2_out(p, 0, imp_formula(p->im, "select(y, -abs(x), abs(x))", o.a, negative(p, o.b)));
}

/* heaviside(self, values): 0 below 0 and for NaN, 1 above, `values` at 0 */
bool aten_heaviside(struct pt2 *p)
{
    struct pt2_operands o;
    if (!pt2_pair_of(p, "self", "values", pt2_out_type(p, 0), &o))
        return false;
    struct ir_value *step = imp_cast(p->im, imp_with(p->im, IR_gt, o.a, 0), o.type);
    return pt2_out(p, 0, imp_select(p->im, imp_with(p->im, IR_eq, o.a, 0), o.b, step));
}

/* self log(other), of other + 1 with arg 1: 0 where self is 0, NaN where other is */
bool aten_xlogy(struct pt2 *p)
{
    struct pt2_operands o;
    if (!pt2_pair_of(p, "self", "other", pt2_out_type(p, 0), &o))
        return false;
    struct ir_value *a = imp_wide(p->im, o.a), *b = imp_wide(p->im, o.b);
    /* 0 where the logarithm has no value, or an infinite one; elsewhere 0 times it, whose gradient it is. */
    struct ir_value *none = imp_formula_n(p->im, "and(eq(x, 0), or(le(y, a), eq(y, b)))",
                                          IMP_NUMBERS(p->row->arg ? -1 : 0, INFINITY), a, b);
    struct ir_value *safe = imp_formula(p->im, "select(y, 1, x)", b, none);
    return pt2_out(
        p, 0,
        imp_formula(p->im, p->row->arg ? "select(z, 0, x * log1p(y))" : "select(z, 0, x * log(y))", a, safe, none));
}

/* x * 2^n, n a whole number, as C's ldexp has it: by four factors of which none overflows where the result doesn't. n
 * is an int there, and behind `most` all is 0 or infinite. */
static struct ir_value *scaled_by(struct pt2 *p, struct ir_value *x, struct ir_value *n)
{
    double most = imp_dtype(x) == TCC_F64 ? 2200 : 300;
    n = imp_cast(p->im, imp_cast(p->im, n, TCC_I32), imp_dtype(x));
    n = imp_formula_n(p->im, "max(min(x, a), b)", IMP_NUMBERS(most, -most), n);
    struct ir_value *part = imp_formula(p->im, "trunc(x / 4)", n);
    return imp_formula(p->im, "x * pow(2, z) * pow(2, z) * pow(2, z) * pow(2, y - 3 * z)", x, n, part);
}

/* self * 2^other, the power in its own type */
bool aten_ldexp(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *x = pt2_need(p, "self"), *n = x ? pt2_need(p, "other") : NULL;
    if (!n)
        return false;
    if (imp_is_float(x) && !imp_is_float(n))
        return pt2_out(p, 0, scaled_by(p, imp_wide(im, x), n));
    enum tcc_dtype own = imp_is_float(n) ? imp_dtype(n) : TCC_F32;
    struct ir_value *power = imp_cast(im, imp_formula(im, "pow(2, x)", imp_wide(im, imp_cast(im, n, own))), own);
    return pt2_out(p, 0, pt2_times(p, x, power));
}

/* In float64, whatever the operands are. */
bool aten_float_power(struct pt2 *p)
{
    struct pt2_operands o;
    return pt2_pair_of(p, "self", "exponent", TCC_F64, &o) && pt2_out(p, 0, imp_bin(p->im, IR_pow, o.a, o.b));
}

/* fmax, fmin: of a number and NaN the number */
bool aten_number_of(struct pt2 *p)
{
    struct pt2_operands o;
    if (!pt2_pair_of(p, "self", "other", pt2_out_type(p, 0), &o))
        return false;
    struct ir_value *y = pt2_bin(p, (enum ir_op)p->row->arg, o.a, o.b);
    if (tcc_is_float(o.type))
        y = imp_formula(p->im, "select(isnan(x), y, select(isnan(y), x, z))", o.a, o.b, y);
    return pt2_out(p, 0, y);
}

/* |a - b| <= atol + rtol |b|; what is equal is close, infinities too */
bool aten_isclose(struct pt2 *p)
{
    struct pt2_operands o;
    double rtol = pt2_f(p, "rtol", 1e-5), atol = pt2_f(p, "atol", 1e-8);
    bool nan = pt2_b(p, "equal_nan", false);
    if (!pt2_pair_of(p, "self", "other", TCC_NONE, &o))
        return false;
    struct ir_value *same = imp_bin(p->im, IR_eq, o.a, o.b);
    struct ir_value *a = pt2_wide_float(p, imp_cast(p->im, o.a, tcc_is_float(o.type) ? o.type : TCC_F64)),
                    *b = pt2_wide_float(p, imp_cast(p->im, o.b, tcc_is_float(o.type) ? o.type : TCC_F64));
    struct ir_value *apart = imp_formula(p->im, "abs(x - y)", a, b);
    struct ir_value *close = imp_formula_n(p->im, "or(z, and(lt(x, c), le(x, abs(y) * a + b)))",
                                           IMP_NUMBERS(rtol, atol, INFINITY), apart, b, same);
    return pt2_out(p, 0, nan ? imp_formula(p->im, "or(x, and(isnan(y), isnan(z)))", close, a, b) : close);
}
