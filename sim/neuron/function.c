/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of the Scalar engine. The hardware's are piecewise polynomials whose coefficients are not published;
 * these are computed in double precision without the C library's, so that every host gives the same bits, and rounded
 * once: within 1 ulp of the exact value. Nothing branches, so that loops over a row become vector loops. Series:
 * Abramowitz and Stegun, 4.1, 4.2, 4.3, 4.4, 7.1; erfc by a polynomial in 2 / (2 + x), as Press et al. (Numerical
 * Recipes, 3rd edition, 6.2.2) have it, of our own coefficients.
 */
#include <math.h>
#include <string.h>

#include "sim/neuron/neuron_int.h"

#define INLINE static inline __attribute__((always_inline))

INLINE double double_of(uint64_t u)
{
    double d;
    memcpy(&d, &u, 8);
    return d;
}

INLINE uint64_t bits_of(double d)
{
    uint64_t u;
    memcpy(&u, &d, 8);
    return u;
}

/* sum of c[k] x^k */
#define POLYNOMIAL(c, x, sum)                                                                       \
    _Pragma("GCC unroll 20") for (int k_ = (int)(sizeof(c) / sizeof *(c)) - 1; k_ >= 0; k_--) sum = \
        (sum) * (x) + (c)[k_]

/* Whole numbers of doubles below 2^51 are the lowest bits of what this is added to. */
static const double whole = 0x1.8p52;

/* e^x = 2^n e^r, |r| <= ln 2 / 2; 1 / k! */
INLINE double exponential(double x)
{
    static const double c[] = {1.0,       1.0,        1.0 / 2,     1.0 / 6,      1.0 / 24,      1.0 / 120,
                               1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800};
    double a = x > 700    ? 700
               : x < -700 ? -700
                          : x,
           n = a * 1.4426950408889634 + whole, m = n - whole,
           r = a - m * 6.93147180369123816490e-01 - m * 1.90821492927058770002e-10, sum = 0;
    POLYNOMIAL(c, r, sum);
    sum *= double_of((bits_of(n) + 1023) << 52);
    return x > 700 ? (double)INFINITY : x < -700 ? 0 : sum;
}

/* log(m 2^n) = n ln 2 + 2 artanh((m - 1) / (m + 1)); 1 / (2 k + 1). Of normal numbers. */
INLINE double logarithm(double x)
{
    static const double c[] = {1.0, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17};
    uint64_t u = bits_of(x), above = (u & 0xfffffffffffff) > 0x6a09e667f3bcd; /* the root of 2 */
    double m = double_of((u & 0xfffffffffffff) | (1023 - above) << 52),
           n = double_of(bits_of(whole) + (u >> 52) + above - 1023) - whole, t = (m - 1) / (m + 1), s = t * t, sum = 0;
    POLYNOMIAL(c, s, sum);
    sum = 2 * t * sum + n * 0.693147180559945309;
    return x > 0 ? x > 1e300 ? x : sum : x == 0 ? -(double)INFINITY : (double)NAN;
}

/* sin(n pi + r) = +- sin r, |r| <= pi / 2 */
INLINE double sine(double x)
{
    static const double c[] = {1.0,
                               -1.0 / 6,
                               1.0 / 120,
                               -1.0 / 5040,
                               1.0 / 362880,
                               -1.0 / 39916800,
                               1.0 / 6227020800,
                               -1.0 / 1307674368000,
                               1.0 / 355687428096000,
                               -1.0 / 121645100408832000};
    double n = x * 0.318309886183790672 + whole, r = x - (n - whole) * 3.14159265358979324, s = r * r, sum = 0;
    POLYNOMIAL(c, s, sum);
    return (bits_of(n) & 1 ? -r : r) * sum;
}

/* Of the fourth part of the angle. */
INLINE double arctangent(double x)
{
    static const double c[] = {1.0, -1.0 / 3, 1.0 / 5, -1.0 / 7, 1.0 / 9, -1.0 / 11, 1.0 / 13, -1.0 / 15, 1.0 / 17};
    double a = fabs(x), t = a > 1 ? 1 / a : a, sum = 0;
    t = t / (1 + sqrt(1 + t * t));
    t = t / (1 + sqrt(1 + t * t));
    double s = t * t;
    POLYNOMIAL(c, s, sum);
    t = 4 * t * sum;
    t = a > 1 ? 1.5707963267948966 - t : t;
    return x < 0 ? -t : t;
}

/* 1 - erf(a) for a >= 0 = t e^(P(2 t - 1) - a^2), t = 2 / (2 + a); P fits up to 27 within 6e-12, relatively. */
INLINE double complement(double a)
{
    static const double c[] = {-0.671794084061465893,    0.672643224003150416,     0.0473433076581292808,
                               -0.0468956114442390767,   -0.00987271246167471719,  0.00882495656256207147,
                               0.00175918653099414954,   -0.00234594499426842391,  -0.000147643140141870628,
                               0.000674264623145515656,  -0.000089376525384181551, -0.000175988453340143317,
                               0.0000633414967427022668, 0.0000349465803669524452, -0.0000214014954583353587,
                               -3.78386694453675872e-6,  3.31899360318467786e-6};
    double t = 2 / (2 + a), u = 2 * t - 1, sum = 0;
    POLYNOMIAL(c, u, sum);
    sum = t * exponential(sum - a * a);
    return a > 26 ? 0 : sum;
}

/* 1 + erf(x), without cancellation for negative x. */
INLINE double one_plus_erf(double x)
{
    double e = complement(fabs(x));
    return x < 0 ? e : 2 - e;
}

/* Small ones by the series of x^(2 k + 1), (-1)^k / (k! (2 k + 1)). */
INLINE double error_function(double x)
{
    static const double c[] = {1.0,        -1.0 / 3,     1.0 / 10,     -1.0 / 42,      1.0 / 216,     -1.0 / 1320,
                               1.0 / 9360, -1.0 / 75600, 1.0 / 685440, -1.0 / 6894720, 1.0 / 76204800};
    double a = fabs(x), s = a * a, sum = 0, e = 1 - complement(a);
    POLYNOMIAL(c, s, sum);
    e = a < 0.5 ? 1.1283791670955126 * a * sum : e;
    return x < 0 ? -e : e;
}

INLINE double tangent(double x) /* hyperbolic */
{
    double a = fabs(x), e = exponential(-2 * a);
    e = (1 - e) / (1 + e);
    return a < 1e-4 ? x - x * x * x / 3 : x < 0 ? -e : e;
}

INLINE double sigmoid(double x)
{
    double e = exponential(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

INLINE double softplus(double x)
{
    double e = exponential(-fabs(x)), u = 1 + e, l = logarithm(u) * e / (u - 1);
    return (x > 0 ? x : 0) + (u == 1 ? e : l) + (x == x ? 0 : x);
}

/* 0 times an infinity is the limit, where no expression that kernels spell out (compiler/neuron/words.def) says NaN. */
INLINE double times(double x, double factor)
{
    return factor == 0 && x == x ? 0 : x * factor;
}

INLINE double silu_dx(double x)
{
    double s = sigmoid(x);
    return s + times(x, s * sigmoid(-x));
}

INLINE double gelu_dx(double x)
{
    return 0.5 * one_plus_erf(x * 0.7071067811865476) + x * (0.3989422804014327 * exponential(-0.5 * x * x));
}

#define EACH(id, value)                   \
    case NEURON_FUNC_##id:                \
        for (int64_t k = 0; k < n; k++) { \
            double x = (double)v[k];      \
            v[k] = (float)(value);        \
        }                                 \
        return

NEURON_WIDE void neuron_functions(enum neuron_func f, float parameter, int64_t n, float *v)
{
    const double twice_root = 1.5957691216057308 /* 2 sqrt(2 / pi) */, alpha = (double)parameter;
    switch (f) {
        EACH(COPY, x);
        EACH(SQUARE, x * x);
        EACH(SIGMOID, sigmoid(x));
        EACH(RELU, x > 0 || !(x == x) ? x : 0);
        EACH(PRELU, x > 0 || !(x == x) ? x : times(x, alpha));
        EACH(GELU, x * (0.5 * one_plus_erf(x * 0.7071067811865476)));
        EACH(GELU_DX, gelu_dx(x));
        EACH(GELU_TANH, x * sigmoid(twice_root * (x + 0.044715 * x * x * x)));
        EACH(GELU_SIGMOID, times(x, sigmoid(1.702 * x)));
        EACH(SILU, x * sigmoid(x));
        EACH(SILU_DX, silu_dx(x));
        EACH(TANH, tangent(x));
        EACH(SOFTPLUS, softplus(x));
        EACH(MISH, times(x, tangent(softplus(x))));
        EACH(ERF, error_function(x));
        EACH(ERF_DX, 1.1283791670955126 * exponential(-x * x));
        EACH(EXP, exponential(x));
        EACH(LOG, logarithm(x));
        EACH(SIN, sine(x));
        EACH(ARCTAN, arctangent(x));
        EACH(SQRT, sqrt(x));
        EACH(RSQRT, 1 / sqrt(x));
        EACH(RECIPROCAL, 1 / x);
        EACH(SIGN, x > 0 ? 1 : x < 0 ? -1 : x);
        EACH(ABS, fabs(x));
    case NEURON_NFUNCS: return;
    }
}

/* a to the power b = e^(b log a), with the signs and limits of IEEE 754's pow. */
NEURON_WIDE void neuron_powers(int64_t n, const float *base, const float *exponent, int64_t step, float *to)
{
    for (int64_t k = 0; k < n; k++) {
        double a = (double)base[k], b = (double)exponent[k * step], half = b / 2, size = fabs(a);
        bool integer = b == rint(b), odd = integer && half != rint(half) && fabs(b) < 0x1p24;
        double e = b * logarithm(size), p = exponential(e);
        p = e == e ? p : 1;
        p = odd && signbit(a) ? -p : p;
        p = !(a == a) || !(b == b) || (a < 0 && size < (double)INFINITY && !integer) ? (double)NAN : p;
        to[k] = (float)(b == 0 || a == 1 ? 1 : p);
    }
}

/* Documented ranges; NaN has none. A reciprocal's holds for both signs, down to the smallest normal number that it can
 * take. */
static bool in_range(enum neuron_func f, float x)
{
    const struct func_row *row = isa_func(f);
    if (f == NEURON_FUNC_RECIPROCAL)
        return !(fabsf(x) > 0x1p42f) && !(fabsf(x) < 0x1p-42f);
    return !(x < row->lo) && !(x > row->hi);
}

static void ranges(struct run *r, int lane, enum neuron_func f, int64_t n, const float *x)
{
    const struct func_row *row = isa_func(f);
    int beyond = f == NEURON_FUNC_RECIPROCAL;
    for (int64_t k = 0; k < n; k++)
        beyond |= x[k] < row->lo || x[k] > row->hi;
    for (int64_t k = 0; beyond && k < n; k++)
        if (!in_range(f, x[k]))
            neuron_fail(r, NEURON_CHECK_RANGE, "partition %d, element %lld: %s(%g)", r->i->operand[0].start + lane,
                        (long long)k, neuron_func_name(f), (double)x[k]);
}

/* func(src * scale + bias), summed in the accumulators where it is asked for. */
void neuron_activation(struct run *r)
{
    struct neuron_sim *s = r->s;
    enum neuron_func f = (enum neuron_func)neuron_attr(r->i, NEURON_ATTR_FN).i;
    float alpha = neuron_attr(r->i, NEURON_ATTR_ALPHA).f, *x = s->row[0];
    int acc = neuron_attr(r->i, NEURON_ATTR_ACC).i;
    int64_t n = neuron_free_size(&r->i->operand[1]);
    for (int lane = 0; lane < r->i->operand[0].count; lane++) {
        float scale = r->i->noperands > 2 ? neuron_column(r, 2, lane) : 1,
              bias = r->i->noperands > 3 ? neuron_column(r, 3, lane) : 0;
        float *sum = &s->acc[r->i->operand[0].start + lane];
        neuron_get(r, 1, lane, x);
        *sum = acc == NEURON_ACC_RESET || acc == NEURON_ACC_RESET_REDUCE ? 0 : *sum;
        for (int64_t k = 0; k < n; k++)
            x[k] = x[k] * scale + bias;
        if (s->c.checks)
            ranges(r, lane, f, n, x);
        if (f != NEURON_FUNC_COPY) /* a number with a NaN's bits stays as it is */
            neuron_functions(f, alpha, n, x);
        for (int64_t k = 0; acc >= NEURON_ACC_REDUCE && k < n; k++)
            *sum += x[k];
        neuron_put(r, 0, lane, x);
    }
}
