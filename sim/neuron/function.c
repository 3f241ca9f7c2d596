/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of the Scalar engine. The hardware's are piecewise polynomials whose coefficients are not published;
 * these are computed in double precision without the C library's, so that every host gives the same bits, and rounded
 * once: within 1 ulp of the exact value. Series: Abramowitz and Stegun, 4.1, 4.2, 4.3, 4.4, 7.1.
 */
#include <math.h>
#include <string.h>

#include "sim/neuron/neuron_int.h"

static double power_of_2(int n)
{
    uint64_t u = (uint64_t)(n + 1023) << 52;
    double d;
    memcpy(&d, &u, 8);
    return d;
}

/* e^x = 2^n e^r, |r| <= ln 2 / 2. */
static double exponential(double x)
{
    if (!(x == x))
        return x;
    if (x > 700)
        return INFINITY;
    if (x < -700)
        return 0;
    double n = rint(x * 1.4426950408889634), r = x - n * 6.93147180369123816490e-01 - n * 1.90821492927058770002e-10,
           sum = 1;
    for (int k = 14; k > 0; k--)
        sum = 1 + sum * r / k;
    return sum * power_of_2((int)n);
}

/* log(m 2^n) = n ln 2 + 2 artanh((m - 1) / (m + 1)) */
static double logarithm(double x)
{
    uint64_t u;
    if (!(x > 0) || x > 1e300)
        return x == 0 ? -INFINITY : x > 0 ? x : NAN;
    double scale = x < 1e-300 ? 60 : 0;
    x *= scale ? 0x1p60 : 1;
    memcpy(&u, &x, 8);
    int n = (int)(u >> 52) - 1023;
    u = (u & 0xfffffffffffffu) | UINT64_C(1023) << 52;
    memcpy(&x, &u, 8);
    if (x > 1.4142135623730951) {
        x /= 2;
        n++;
    }
    double t = (x - 1) / (x + 1), sum = 0;
    for (int k = 21; k > 0; k -= 2)
        sum = sum * t * t + 1.0 / k;
    return 2 * t * sum + (n - scale) * 0.693147180559945309;
}

static double sine(double x)
{
    x -= 6.283185307179586 * rint(x / 6.283185307179586);
    double sum = 0;
    for (int k = 31; k > 1; k -= 2)
        sum = (1 + sum) * -x * x / (k * (k - 1));
    return x * (1 + sum);
}

static double arctangent(double x)
{
    double a = fabs(x), flip = a > 1 ? 1.5707963267948966 : 0, sum = 0;
    double t = flip > 0 ? 1 / a : a;
    t = t / (1 + sqrt(1 + t * t)); /* half the angle, twice */
    t = t / (1 + sqrt(1 + t * t));
    for (int k = 31; k > 0; k -= 2)
        sum = 1.0 / k - sum * t * t;
    t = 4 * t * sum;
    t = flip > 0 ? flip - t : t;
    return x < 0 ? -t : t;
}

/* 1 - erf(a) for a >= 2, by the continued fraction; erf(a) by the series with positive terms below. */
static double erfc_large(double a)
{
    double f = 0;
    for (int k = 60; k > 0; k--)
        f = 0.5 * k / (a + f);
    return exponential(-a * a) / (1.7724538509055160 * (a + f));
}

static double erf_small(double a)
{
    double term = a, sum = a;
    for (int k = 1; k < 80 && term > sum * 1e-18; k++) {
        term *= 2 * a * a / (2 * k + 1);
        sum += term;
    }
    return 1.1283791670955126 * exponential(-a * a) * sum;
}

/* 1 + erf(x), without cancellation for negative x. */
static double one_plus_erf(double x)
{
    if (!(x == x))
        return x;
    if (x <= -2)
        return x < -26 ? 0 : erfc_large(-x);
    if (x < 2)
        return x < 0 ? 1 - erf_small(-x) : 1 + erf_small(x);
    return x > 26 ? 2 : 2 - erfc_large(x);
}

static double error_function(double x)
{
    double a = fabs(x);
    if (!(x == x))
        return x;
    a = a < 2 ? erf_small(a) : a > 26 ? 1 : 1 - erfc_large(a);
    return x < 0 ? -a : a;
}

static double tangent(double x) /* hyperbolic */
{
    double a = fabs(x), e;
    if (a < 1e-4)
        return x - x * x * x / 3;
    e = exponential(-2 * a);
    e = (1 - e) / (1 + e);
    return x < 0 ? -e : e;
}

static double sigmoid(double x)
{
    double e = exponential(-fabs(x));
    return x < 0 ? e / (1 + e) : 1 / (1 + e);
}

static double softplus(double x)
{
    double e = exponential(-fabs(x)), u = 1 + e;
    double l = u == 1 ? e : logarithm(u) * e / (u - 1);
    return (x > 0 ? x : 0) + l + (x == x ? 0 : x);
}

/* 0 times an infinity is the limit. */
static double times(double x, double factor)
{
    return factor == 0 && x == x ? 0 : x * factor;
}

static double apply(enum neuron_func f, double x, double alpha)
{
    static const double k = 0.7978845608028654; /* sqrt(2 / pi) */
    double t;
    switch (f) {
    case NEURON_FUNC_COPY: return x;
    case NEURON_FUNC_SQUARE: return x * x;
    case NEURON_FUNC_SIGMOID: return sigmoid(x);
    case NEURON_FUNC_RELU: return x > 0 || !(x == x) ? x : 0;
    case NEURON_FUNC_PRELU: return x > 0 || !(x == x) ? x : times(x, alpha);
    case NEURON_FUNC_GELU: return times(x, 0.5 * one_plus_erf(x * 0.7071067811865476));
    case NEURON_FUNC_GELU_DX:
        return 0.5 * one_plus_erf(x * 0.7071067811865476) + times(x, 0.3989422804014327 * exponential(-0.5 * x * x));
    case NEURON_FUNC_GELU_TANH: return times(x, sigmoid(2 * k * (x + 0.044715 * x * x * x)));
    case NEURON_FUNC_GELU_SIGMOID: return times(x, sigmoid(1.702 * x));
    case NEURON_FUNC_SILU: return times(x, sigmoid(x));
    case NEURON_FUNC_SILU_DX: t = sigmoid(x); return t + times(x, t * sigmoid(-x));
    case NEURON_FUNC_TANH: return tangent(x);
    case NEURON_FUNC_SOFTPLUS: return softplus(x);
    case NEURON_FUNC_MISH: return times(x, tangent(softplus(x)));
    case NEURON_FUNC_ERF: return error_function(x);
    case NEURON_FUNC_ERF_DX: return 1.1283791670955126 * exponential(-x * x);
    case NEURON_FUNC_EXP: return exponential(x);
    case NEURON_FUNC_LOG: return logarithm(x);
    case NEURON_FUNC_SIN: return sine(x);
    case NEURON_FUNC_ARCTAN: return arctangent(x);
    case NEURON_FUNC_SQRT: return sqrt(x);
    case NEURON_FUNC_RSQRT: return 1 / sqrt(x);
    case NEURON_FUNC_RECIPROCAL: return 1 / x;
    case NEURON_FUNC_SIGN: return x > 0 ? 1 : x < 0 ? -1 : x;
    case NEURON_FUNC_ABS: return fabs(x);
    case NEURON_NFUNCS: break;
    }
    return x;
}

float neuron_function(enum neuron_func f, float x, float alpha)
{
    return (float)apply(f, (double)x, (double)alpha);
}

/* a to the power b = e^(b log a), with the signs and limits of IEEE 754's pow. */
float neuron_power(float a, float b)
{
    bool whole = b == rintf(b), odd = whole && fabsf(b) < 0x1p24f && fmodf(b, 2) != 0;
    if (b == 0 || a == 1)
        return 1;
    if (!(a == a) || !(b == b) || (a < 0 && isfinite(a) && !whole))
        return NAN;
    double e = b * logarithm(fabs((double)a)), p = !(e == e) ? 1 : exponential(e);
    return (float)(odd && signbit(a) ? -p : p);
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
        for (int64_t k = 0; k < n; k++) {
            float at = x[k] * scale + bias;
            if (s->c.checks && !in_range(f, at))
                neuron_fail(r, NEURON_CHECK_RANGE, "partition %d, element %lld: %s(%g)", r->i->operand[0].start + lane,
                            (long long)k, neuron_func_name(f), (double)at);
            x[k] = f == NEURON_FUNC_COPY ? at : neuron_function(f, at, alpha);
            if (acc >= NEURON_ACC_REDUCE)
                *sum += x[k];
        }
        neuron_put(r, 0, lane, x);
    }
}
