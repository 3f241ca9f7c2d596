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
    return (struct pt2_complex){imp_formula(p->im, "exp(x) * cos(y)", z.re, z.im),
                                imp_formula(p->im, "exp(x) * sin(y)", z.re, z.im)};
}

/* log |z| + i arg z; |z| = big sqrt(1 + (small / big)^2), whose squares neither overflow nor vanish. */
static struct pt2_complex logarithm(struct pt2 *p, struct pt2_complex z)
{
    struct ir_value *big = imp_formula(p->im, "max(abs(x), abs(y))", z.re, z.im),
                    *small = imp_formula(p->im, "min(abs(x), abs(y))", z.re, z.im);
    /* 0 / 0 and inf / inf are none. */
    struct ir_value *ratio = imp_formula(p->im, "select(eq(x, y), 1, y / x)", big, small);
    return (struct pt2_complex){imp_formula(p->im, "log(x) + log1p(square(y)) * 0.5", big, ratio),
                                pt2_atan2(p, z.im, z.re)};
}

/* (a - b)(a + b) + 2abi */
static struct pt2_complex square(struct pt2 *p, struct pt2_complex z)
{
    struct ir_value *product = imp_bin(p->im, IR_mul, z.re, z.im);
    return (struct pt2_complex){imp_formula(p->im, "(x - y) * (x + y)", z.re, z.im),
                                imp_bin(p->im, IR_add, product, product)};
}

/* With t = sqrt((|a| + |z|) / 2): t + b / 2t i right of the imaginary axis, |b| / 2t + sign(b) t i left of it; neither
 * sum cancels. */
static struct pt2_complex square_root(struct pt2 *p, struct pt2_complex z)
{
    struct imp *im = p->im;
    struct ir_value *a = imp_un(im, IR_abs, z.re), *b = imp_un(im, IR_abs, z.im);
    struct ir_value *none = imp_formula(im, "eq(max(x, y), 0)", a, b),
                    *scale = imp_formula(im, "select(z, 1, max(x, y))", a, b, none);
    struct ir_value *x = imp_bin(im, IR_div, a, scale), *y = imp_bin(im, IR_div, b, scale);
    struct ir_value *size = imp_formula(im, "sqrt(square(x) + square(y))", x, y);
    struct ir_value *t = imp_formula(im, "select(u, 1, sqrt(z) * sqrt((x + y) * 0.5))", x, size, scale, none);
    struct ir_value *other = imp_formula(im, "x / y * 0.5", b, t);
    t = imp_formula(im, "select(y, 0, x)", t, none);
    struct ir_value *size_of_im = imp_formula(im, "select(lt(x, 0), y, z)", z.re, t, other);
    z.re = imp_formula(im, "select(lt(x, 0), z, y)", z.re, t, other);
    z.im = imp_formula(im, "select(or(lt(x, 0), lt(1 / x, 0)), -y, y)", z.im, size_of_im); /* or -0 */
    return z;
}

static struct pt2_complex sine(struct pt2 *p, struct pt2_complex z)
{
    return (struct pt2_complex){imp_formula(p->im, "sin(x) * cosh(y)", z.re, z.im),
                                imp_formula(p->im, "cos(x) * sinh(y)", z.re, z.im)};
}

static struct pt2_complex cosine(struct pt2 *p, struct pt2_complex z)
{
    return (struct pt2_complex){imp_formula(p->im, "cos(x) * cosh(y)", z.re, z.im),
                                imp_formula(p->im, "-(sin(x) * sinh(y))", z.re, z.im)};
}

static struct pt2_complex hyperbolic_sine(struct pt2 *p, struct pt2_complex z)
{
    return (struct pt2_complex){imp_formula(p->im, "sinh(x) * cos(y)", z.re, z.im),
                                imp_formula(p->im, "cosh(x) * sin(y)", z.re, z.im)};
}

static struct pt2_complex hyperbolic_cosine(struct pt2 *p, struct pt2_complex z)
{
    return (struct pt2_complex){imp_formula(p->im, "cosh(x) * cos(y)", z.re, z.im),
                                imp_formula(p->im, "sinh(x) * sin(y)", z.re, z.im)};
}

/* (sinh a cosh a + i sin b cos b) / (sinh^2 a + cos^2 b), all of it over cosh^2 a, which may overflow. */
static struct pt2_complex hyperbolic_tangent(struct pt2 *p, struct pt2_complex z)
{
    struct ir_value *t = imp_un(p->im, IR_tanh, z.re), *s = imp_formula(p->im, "square(1 / cosh(x))", z.re);
    struct ir_value *size = imp_formula(p->im, "square(x) + square(cos(y)) * z", t, z.im, s);
    return (struct pt2_complex){imp_bin(p->im, IR_div, t, size),
                                imp_formula(p->im, "sin(x) * cos(x) * y / z", z.im, s, size)};
}

/* (1 + tanh(z / 2)) / 2 */
static struct pt2_complex logistic(struct pt2 *p, struct pt2_complex z)
{
    z.re = imp_formula(p->im, "x * 0.5", z.re);
    z.im = imp_formula(p->im, "x * 0.5", z.im);
    z = hyperbolic_tangent(p, z);
    return (struct pt2_complex){imp_formula(p->im, "x * 0.5 + 0.5", z.re), imp_formula(p->im, "x * 0.5", z.im)};
}

#define UNARY(name, function)               \
    bool aten_complex_##name(struct pt2 *p) \
    {                                       \
        return unary(p, function);          \
    }

UNARY(sin, sine)
UNARY(cos, cosine)
UNARY(sinh, hyperbolic_sine)
UNARY(cosh, hyperbolic_cosine)
UNARY(tanh, hyperbolic_tangent)
UNARY(sigmoid, logistic)
UNARY(exp, exponential)
UNARY(log, logarithm)
UNARY(square, square)
UNARY(sqrt, square_root)

/* e^(w log z); of 0 it is 0, but 1 where w is 0. */
bool aten_complex_pow(struct pt2 *p)
{
    struct ir_value *base[2], *power[2];
    if (!pt2_parts_of(p, "self", base) || !pt2_parts_of(p, "exponent", power))
        return false;
    struct pt2_complex z = {base[0], base[1] ? base[1] : imp_like(p->im, base[0], 0)};
    struct pt2_complex w = {power[0], power[1] ? power[1] : imp_like(p->im, power[0], 0)};
    static const char none[] = "eq(max(abs(x), abs(y)), 0)";
    struct ir_value *no_base = imp_formula(p->im, none, z.re, z.im), *no_power = imp_formula(p->im, none, w.re, w.im);
    z.re = imp_formula(p->im, "select(y, 1, x)", z.re, no_base);
    struct pt2_complex l = logarithm(p, z);
    struct pt2_complex product = {imp_formula(p->im, "x * z - y * u", w.re, w.im, l.re, l.im),
                                  imp_formula(p->im, "y * z + x * u", w.re, w.im, l.re, l.im)};
    z = exponential(p, product);
    z.re = imp_formula(p->im, "select(z, 1, select(y, 0, x))", z.re, no_base, no_power);
    z.im = imp_formula(p->im, "select(y, 0, x)", z.im, no_base);
    return give(p, &z);
}

/* Rows of n become rows of ceil(n / parts): filled with ones, their first half times the second, and so on. `parts` is
 * a power of two. */
static struct pt2_complex shortened(struct pt2 *p, struct pt2_complex z, int axis, int64_t parts)
{
    struct imp *im = p->im;
    ir_expr none = ir_const(p->ctx, 0), n = imp_dim(z.re, axis), after[TCC_MAX_RANK], before[TCC_MAX_RANK];
    ir_expr length = ir_ceildiv(p->ctx, n, ir_const(p->ctx, parts));
    for (int k = 0; k < imp_rank(z.re); k++)
        before[k] = after[k] = none;
    after[axis] = ir_sub(p->ctx, ir_mulc(p->ctx, length, parts), n);
    z.re = imp_pad(im, z.re, imp_like(im, z.re, 1), before, after, "constant");
    z.im = imp_pad(im, z.im, imp_like(im, z.im, 0), before, after, "constant");
    while (parts > 1 && z.re && z.im) {
        ir_expr half = ir_mulc(p->ctx, length, parts /= 2);
        struct ir_value *a = imp_slice1(im, z.re, axis, none, half), *b = imp_slice1(im, z.im, axis, none, half);
        struct ir_value *c = imp_slice1(im, z.re, axis, half, half), *d = imp_slice1(im, z.im, axis, half, half);
        z.re = imp_formula(im, "x * z - y * u", a, b, c, d);
        z.im = imp_formula(im, "x * u + y * z", a, b, c, d);
    }
    return z;
}

/* Products of rows, by halves; of no elements it is 1. */
bool aten_complex_prod(struct pt2 *p)
{
    struct ir_value *part[2];
    int64_t axis = 0;
    pt2_ignore(p, "dtype");
    if (!pt2_parts_of(p, "self", part) || !part[0] || !part[1])
        return false;
    bool all = !pt2_given(p, "dim"), keep = pt2_b(p, "keepdim", false);
    ir_expr count = ir_num_elements(p->ctx, part[0]->type);
    for (int k = 0; all && k < 2; k++)
        part[k] = imp_reshape(p->im, part[k], 1, &count);
    if (!part[0] || !part[1] || (!all && !pt2_axis(p, "dim", 0, imp_rank(part[0]), &axis)))
        return false;
    struct pt2_complex z = {part[0], part[1]};
    if (!imp_rank(z.re))
        return give(p, &z);
    int64_t most = imp_dim(z.re, (int)axis)->hi, parts; /* a length that is open: as often as its bound asks for */
    for (most = most < IMP_MAX_DIM ? most : IMP_MAX_DIM; most > 1 && z.re && z.im; most = (most + parts - 1) / parts) {
        for (parts = 2; parts < 16 && parts < most;)
            parts *= 2;
        z = shortened(p, z, (int)axis, parts);
    }
    if (!z.re || !z.im)
        return false;
    z.re = imp_reduce(p->im, IR_reduce_prod, z.re, 1, &axis, keep);
    z.im = imp_reduce(p->im, IR_reduce_sum, z.im, 1, &axis, keep);
    return give(p, &z);
}
