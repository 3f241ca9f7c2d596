/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of complex numbers, on real and imaginary parts. */
#include "compiler/pt2/pt2_int.h"

struct pt2_complex {
    struct ir_value *re, *im;
};

static bool give(struct pt2 *p, const struct pt2_complex *z)
{
    return pt2_out(p, 0, pt2_pair(p, z->re, z->im));
}

/* The result of f of `self`. */
static bool unary(struct pt2 *p, struct pt2_complex (*f)(struct pt2 *p, struct pt2_complex z))
{
    struct ir_value *part[2];
    if (!pt2_parts_of(p, "self", part))
        return false;
    struct pt2_complex z = f(p, (struct pt2_complex){part[0], part[1]});
    return give(p, &z);
}

/* e^a (cos b + i sin b) */
static struct pt2_complex exponential(struct pt2 *p, struct pt2_complex z)
{
    struct ir_value *size = pt2_un(p, IR_exp, z.re);
    return (struct pt2_complex){pt2_bin(p, IR_mul, size, pt2_un(p, IR_cos, z.im)),
                                pt2_bin(p, IR_mul, size, pt2_un(p, IR_sin, z.im))};
}

/* log |z| + i arg z; |z| = big sqrt(1 + (small / big)^2), whose squares neither overflow nor vanish. */
static struct pt2_complex logarithm(struct pt2 *p, struct pt2_complex z)
{
    struct ir_value *a = pt2_un(p, IR_abs, z.re), *b = pt2_un(p, IR_abs, z.im);
    struct ir_value *big = pt2_bin(p, IR_max, a, b), *small = pt2_bin(p, IR_min, a, b);
    struct ir_value *ratio = pt2_choose(p, pt2_bin(p, IR_eq, big, small), imp_like(p->im, big, 1),
                                        pt2_bin(p, IR_div, small, big)); /* 0 / 0 and inf / inf are none */
    struct ir_value *rest = pt2_with(p, IR_mul, pt2_un(p, IR_log1p, pt2_un(p, IR_square, ratio)), 0.5);
    return (struct pt2_complex){pt2_bin(p, IR_add, pt2_un(p, IR_log, big), rest), pt2_atan2(p, z.im, z.re)};
}

/* (a - b)(a + b) + 2abi */
static struct pt2_complex square(struct pt2 *p, struct pt2_complex z)
{
    struct ir_value *product = pt2_bin(p, IR_mul, z.re, z.im);
    z.re = pt2_bin(p, IR_mul, pt2_bin(p, IR_sub, z.re, z.im), pt2_bin(p, IR_add, z.re, z.im));
    z.im = pt2_bin(p, IR_add, product, product);
    return z;
}

/* With t = sqrt((|a| + |z|) / 2): t + b / 2t i right of the imaginary axis, |b| / 2t + sign(b) t i left of it; neither
 * sum cancels. */
static struct pt2_complex square_root(struct pt2 *p, struct pt2_complex z)
{
    struct ir_value *zero = imp_like(p->im, z.re, 0), *one = imp_like(p->im, z.re, 1);
    struct ir_value *a = pt2_un(p, IR_abs, z.re), *b = pt2_un(p, IR_abs, z.im), *big = pt2_bin(p, IR_max, a, b);
    struct ir_value *none = pt2_bin(p, IR_eq, big, zero), *scale = pt2_choose(p, none, one, big);
    struct ir_value *x = pt2_bin(p, IR_div, a, scale), *y = pt2_bin(p, IR_div, b, scale);
    struct ir_value *size = pt2_un(p, IR_sqrt, pt2_bin(p, IR_add, pt2_un(p, IR_square, x), pt2_un(p, IR_square, y)));
    struct ir_value *t = pt2_bin(p, IR_mul, pt2_un(p, IR_sqrt, scale),
                                 pt2_un(p, IR_sqrt, pt2_with(p, IR_mul, pt2_bin(p, IR_add, x, size), 0.5)));
    t = pt2_choose(p, none, one, t);
    struct ir_value *other = pt2_with(p, IR_mul, pt2_bin(p, IR_div, b, t), 0.5);
    t = pt2_choose(p, none, zero, t);
    struct ir_value *left = pt2_bin(p, IR_lt, z.re, zero), *size_of_im = pt2_choose(p, left, t, other);
    z.re = pt2_choose(p, left, other, t);
    struct ir_value *below = pt2_bin(p, IR_or, pt2_bin(p, IR_lt, z.im, zero), /* or -0 */
                                     pt2_bin(p, IR_lt, pt2_bin(p, IR_div, one, z.im), zero));
    z.im = pt2_choose(p, below, pt2_un(p, IR_neg, size_of_im), size_of_im);
    return z;
}

bool aten_complex_exp(struct pt2 *p)
{
    return unary(p, exponential);
}

bool aten_complex_log(struct pt2 *p)
{
    return unary(p, logarithm);
}

bool aten_complex_square(struct pt2 *p)
{
    return unary(p, square);
}

bool aten_complex_sqrt(struct pt2 *p)
{
    return unary(p, square_root);
}

/* e^(w log z); of 0 it is 0, but 1 where w is 0. */
bool aten_complex_pow(struct pt2 *p)
{
    struct ir_value *base[2], *power[2];
    if (!pt2_parts_of(p, "self", base) || !pt2_parts_of(p, "exponent", power))
        return false;
    struct pt2_complex z = {base[0], base[1] ? base[1] : imp_like(p->im, base[0], 0)};
    struct pt2_complex w = {power[0], power[1] ? power[1] : imp_like(p->im, power[0], 0)};
    struct ir_value *no_base = pt2_bin(p, IR_eq, pt2_bin(p, IR_max, pt2_un(p, IR_abs, z.re), pt2_un(p, IR_abs, z.im)),
                                       imp_like(p->im, z.re, 0));
    struct ir_value *no_power = pt2_bin(p, IR_eq, pt2_bin(p, IR_max, pt2_un(p, IR_abs, w.re), pt2_un(p, IR_abs, w.im)),
                                        imp_like(p->im, w.re, 0));
    z.re = pt2_choose(p, no_base, imp_like(p->im, z.re, 1), z.re);
    struct pt2_complex l = logarithm(p, z);
    struct pt2_complex product = {pt2_bin(p, IR_sub, pt2_bin(p, IR_mul, w.re, l.re), pt2_bin(p, IR_mul, w.im, l.im)),
                                  pt2_bin(p, IR_add, pt2_bin(p, IR_mul, w.im, l.re), pt2_bin(p, IR_mul, w.re, l.im))};
    z = exponential(p, product);
    struct ir_value *zero = imp_like(p->im, z.re, 0), *one = imp_like(p->im, z.re, 1);
    z.re = pt2_choose(p, no_power, one, pt2_choose(p, no_base, zero, z.re));
    z.im = pt2_choose(p, no_base, zero, z.im);
    return give(p, &z);
}
