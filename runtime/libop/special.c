/* SPDX-License-Identifier: Apache-2.0 */
/*
 * special.c - special functions, element by element, in doubles: gamma and its relatives, inverses of the normal
 * distribution and of erf, Bessel functions. Series, continued fractions and asymptotic expansions as the NIST Digital
 * Library of Mathematical Functions (DLMF, https://dlmf.nist.gov) numbers them.
 */
#include <float.h>
#include <math.h>

#include "runtime/libop/libop_int.h"

enum { TERMS = 100000, PIECE = 1024 }; /* of a series at most; elements that a thread takes at once */

static const double PI = 3.14159265358979323846, EULER = 0.57721566490153286061, ROOT2 = 1.41421356237309504880;

/* -- Gamma ------------------------------------------------------------------------------------------ */

static double special_lgamma(double x)
{
    int sign;

    return isinf(x) ? INFINITY : lgamma_r(x, &sign);
}

/* DLMF 5.5.2, 5.5.4 up to 10, from there 5.11.2. */
static double special_digamma(double x)
{
    static const double bernoulli[] = {1 / 12., -1 / 120., 1 / 252., -1 / 240., 1 / 132., -691 / 32760., 1 / 12.};
    double sum = 0, power, square;

    if (x == 0)
        return copysign(INFINITY, -x);
    if (x < 0) {
        double whole, part = modf(x, &whole);

        if (part == 0)
            return NAN;
        return special_digamma(1 - x) - PI / tan(PI * part);
    }
    for (; x < 10; x++)
        sum -= 1 / x;
    square = power = 1 / (x * x);
    for (size_t k = 0; k < sizeof bernoulli / sizeof *bernoulli && isfinite(x); k++, power *= square)
        sum -= bernoulli[k] * power;
    return sum + log(x) - 0.5 / x;
}

/* Euler and Maclaurin's sum (DLMF 25.11.5): ten terms, then the integral and derivatives. */
static double special_zeta(double x, double q)
{
    static const double factor[] = {12.0,
                                    -720.0,
                                    30240.0,
                                    -1209600.0,
                                    47900160.0,
                                    -1.8924375803183791606e9,
                                    7.47242496e10,
                                    -2.950130727918164224e12,
                                    1.1646782814350067249e14,
                                    -4.5979787224074726105e15,
                                    1.8152105401943546773e17,
                                    -7.1661652561756670113e18}; /* (2k)! / B_2k */
    double a = q, b = 0, sum, rising = 1, power, k = 0;

    if (x == 1)
        return INFINITY;
    if (isnan(x) || isnan(q) || x < 1)
        return NAN;
    if (q <= 0 && q == floor(q))
        return INFINITY;
    if (q <= 0 && x != floor(x))
        return NAN;
    sum = pow(q, -x);
    for (int i = 0; i < 9 || a <= 9; i++) {
        a += 1;
        b = pow(a, -x);
        sum += b;
        if (fabs(b) < DBL_EPSILON / 2 * fabs(sum))
            return sum;
    }
    power = b;
    sum += b * a / (x - 1) - 0.5 * b;
    for (size_t i = 0; i < sizeof factor / sizeof *factor; i++) {
        rising *= x + k;
        power /= a;
        double term = rising * power / factor[i];
        sum += term;
        if (fabs(term) < DBL_EPSILON / 2 * fabs(sum))
            break;
        rising *= x + k + 1;
        power /= a;
        k += 2;
    }
    return sum;
}

/* DLMF 5.15.6 below a half for the first derivative; 25.11.12. */
static double special_polygamma(double n, double x)
{
    if (n < 0 || n != floor(n))
        return NAN;
    if (n == 0)
        return special_digamma(x);
    if (isinf(x) && x > 0)
        return 0;
    if (n == 1 && x < 0.5) {
        double sine = sin(PI * (x - floor(x)));

        return PI * PI / (sine * sine) - special_zeta(2, 1 - x);
    }
    return (fmod(n, 2) ? 1 : -1) * tgamma(n + 1) * special_zeta(n + 1, x);
}

/* log(1 + u) - u; near 0 by its series. */
static double log1p_less(double u)
{
    double term = u, sum = 0;

    if (fabs(u) > 0.4)
        return log1p(u) - u;
    for (int k = 2; k < TERMS; k++) {
        term *= -u;
        sum += term / k;
        if (fabs(term) < DBL_EPSILON / 4 * fabs(sum) || term == 0)
            break;
    }
    return sum;
}

/* x^a e^-x / gamma(a + 1). For larger a by Stirling's series (DLMF 5.11.1), so that no large numbers cancel. */
static double gamma_weight(double a, double x)
{
    static const double stirling[] = {1 / 12., -1 / 360., 1 / 1260., -1 / 1680., 1 / 1188., -691 / 360360., 1 / 156.};
    double power = 1 / a, correction = 0;

    if (a < 10)
        return exp(a * log(x) - x) / tgamma(a + 1);
    for (size_t k = 0; k < sizeof stirling / sizeof *stirling; k++, power /= a * a)
        correction += stirling[k] * power;
    return exp(a * log1p_less((x - a) / a) - correction) / sqrt(2 * PI * a);
}

/* P by its series (DLMF 8.7.1), for x up to a + 1. */
static double lower_series(double a, double x)
{
    double term = 1, sum = 1;

    for (int k = 1; k < TERMS && term > DBL_EPSILON / 4 * sum; k++) {
        term *= x / (a + k);
        sum += term;
    }
    return sum * gamma_weight(a, x);
}

/* Q by its continued fraction (DLMF 8.9.2) as Lentz evaluates one, for x above a + 1. */
static double upper_fraction(double a, double x)
{
    double b = x + 1 - a, c = 1 / DBL_MIN, d = 1 / b, h = d;

    for (int k = 1; k < TERMS; k++) {
        double an = -k * (k - a);

        b += 2;
        d = an * d + b;
        d = 1 / (fabs(d) < DBL_MIN ? DBL_MIN : d);
        c = b + an / c;
        c = fabs(c) < DBL_MIN ? DBL_MIN : c;
        h *= d * c;
        if (fabs(d * c - 1) < DBL_EPSILON)
            break;
    }
    return h * gamma_weight(a, x) * a;
}

/* Values at the ends of the domain; false: within it. */
static bool incomplete_end(double a, double x, bool upper, double *value)
{
    if (isnan(a) || isnan(x) || a < 0 || x < 0 || (a == 0 && x == 0) || (isinf(a) && isinf(x)))
        *value = NAN;
    else if (a == 0 || isinf(x))
        *value = !upper;
    else if (x == 0 || isinf(a))
        *value = upper;
    else
        return false;
    return true;
}

/* Q for x up to 1.1, where 1 - P would cancel: 1 / gamma(a + 1) near 0 (DLMF 8.7.3). */
static double upper_small(double a, double x)
{
    double term = 1, sum = 0, first = -expm1(a * log(x) - special_lgamma(1 + a));

    for (int k = 1; k < TERMS; k++) {
        term *= -x / k;
        sum += term / (a + k);
        if (fabs(term) < DBL_EPSILON / 4 * fabs(sum * (a + k)))
            break;
    }
    return first - exp(a * log(x) - special_lgamma(a)) * sum;
}

static double special_igammac(double a, double x)
{
    double value;

    if (incomplete_end(a, x, true, &value))
        return value;
    if (x <= 1.1 && a < 1)
        return upper_small(a, x);
    return x < a + 1 ? 1 - lower_series(a, x) : upper_fraction(a, x);
}

static double special_igamma(double a, double x)
{
    double value;

    if (incomplete_end(a, x, false, &value))
        return value;
    return x < a + 1 ? lower_series(a, x) : 1 - upper_fraction(a, x);
}

/* -- The normal distribution -------------------------------------------------------------------------- */

/* exp(x^2), the square's rounding made good. */
static double exp_square(double x)
{
    double high = x * x, low = fma(x, x, -high);

    return isinf(high) ? INFINITY : exp(high) * (1 + low);
}

/* DLMF 7.12.1 where erfc has no digits left. */
static double special_erfcx(double x)
{
    double inverse = 0.5 / (x * x), sum = 1, term = 1;

    if (x < 25)
        return exp_square(x) * erfc(x);
    for (int k = 1; k < 8; k++) {
        term *= -(2 * k - 1) * inverse;
        sum += term;
    }
    return sum / (x * sqrt(PI));
}

static double special_log_ndtr(double x)
{
    double t = x / ROOT2;

    return x < -1 ? log(special_erfcx(-t) / 2) - t * t : log1p(-erfc(t) / 2);
}

/* The inverse of erfc for p of at most 1: Newton's method, quadratic terms too (Halley), on log(erfc), which is nearly
 * a parabola. */
static double erfc_inverse(double p)
{
    double x = p > 0.1 ? (1 - p) * sqrt(PI) / 2 : sqrt(-log(p * sqrt(PI * -log(p))));

    for (int i = 0; i < 60; i++) {
        double scaled = special_erfcx(x), f = log(scaled) - x * x - log(p), slope = -2 / (sqrt(PI) * scaled),
               bend = -slope * (slope + 2 * x), step = f / slope;

        step /= 1 - step * bend / (2 * slope);
        x -= step;
        if (fabs(step) <= DBL_EPSILON * fabs(x))
            break;
    }
    return x;
}

static double special_erfinv(double y)
{
    double a = fabs(y), x;

    if (!(a < 1))
        return a == 1 ? copysign(INFINITY, y) : NAN;
    if (a > 0.5)
        return copysign(erfc_inverse(1 - a), y);
    x = y * sqrt(PI) / 2;
    for (int i = 0; i < 8; i++) {
        double step = (erf(x) - y) / (2 / sqrt(PI) * exp(-x * x));

        step /= 1 + x * step;
        x -= step;
        if (fabs(step) <= DBL_EPSILON / 2 * fabs(x))
            break;
    }
    return x;
}

static double special_ndtri(double p)
{
    if (!(p > 0 && p < 1))
        return p == 0 ? -INFINITY : p == 1 ? INFINITY : NAN;
    if (p > 0.25 && p < 0.75)
        return ROOT2 * special_erfinv(2 * p - 1);
    return p < 0.5 ? -ROOT2 * erfc_inverse(2 * p) : ROOT2 * erfc_inverse(2 * (1 - p));
}

static double special_entr(double x)
{
    return isnan(x) ? x : x > 0 ? -x * log(x) : x == 0 ? 0 : -INFINITY;
}

/* -- Bessel functions --------------------------------------------------------------------------------- */

static double special_y0(double x)
{
    return x < 0 ? NAN : x == 0 ? -INFINITY : y0(x);
}

static double special_y1(double x)
{
    return x < 0 ? NAN : x == 0 ? -INFINITY : y1(x);
}

static double special_spherical_j0(double x)
{
    return isinf(x) ? 0 : fabs(x) < 1e-8 ? 1 : sin(x) / x;
}

/* exp(-x) I_n(x), n of 0 or 1, x at least 0: the series of positive terms (DLMF 10.25.2), or the asymptotic one
 * (10.40.1). */
static double modified_first(int n, double x)
{
    double quarter = x * x / 4, term = 1, sum = 1;

    if (x <= 30) {
        for (int k = 1; term > DBL_EPSILON / 4 * sum; k++) {
            term *= quarter / ((double)k * (k + n));
            sum += term;
        }
        return sum * (n ? x / 2 : 1) * exp(-x);
    }
    for (int k = 1; k < 40 && fabs(term) > DBL_EPSILON / 4; k++) {
        term *= -(4.0 * n * n - (2.0 * k - 1) * (2 * k - 1)) / (8 * k * x);
        sum += term;
    }
    return isinf(x) ? 0 : sum / sqrt(2 * PI * x);
}

static double special_i0e(double x)
{
    return isnan(x) ? x : modified_first(0, fabs(x));
}

static double special_i1e(double x)
{
    return isnan(x) ? x : copysign(modified_first(1, fabs(x)), x);
}

/* exp(x) is beyond the range before its product is. */
static double special_i0(double x)
{
    double half = exp(fabs(x) / 2);

    return special_i0e(x) * half * half;
}

static double special_i1(double x)
{
    double half = exp(fabs(x) / 2);

    return isinf(x) ? x : special_i1e(x) * half * half;
}

/* K_0 and K_1 up to 2, by their series (DLMF 10.31.2, 10.31.1). */
static double modified_second_near(int n, double x)
{
    double quarter = x * x / 4, term = 1, harmonic = 0, sum = 0, lead = log(x / 2) + EULER;

    if (!n) {
        sum = -lead;
        for (int k = 1; k < 40; k++) {
            term *= quarter / ((double)k * k);
            harmonic += 1.0 / k;
            sum += term * (harmonic - lead);
        }
        return sum;
    }
    for (int k = 0; k < 40; k++) {
        if (k) {
            term *= quarter / ((double)k * (k + 1));
            harmonic += 1.0 / k;
        }
        sum += term * (lead - harmonic - 0.5 / (k + 1));
    }
    return 1 / x + x / 2 * sum;
}

/* exp(x) K_n(x) above 2 by Steed's continued fraction (Temme 1975; Press and others, Numerical Recipes, 6.6.1). */
static double modified_second_far(int n, double x)
{
    double b = 2 * (1 + x), d = 1 / b, h = d, delta = d, q1 = 0, q2 = 1, c = 0.25, q = c, a = -c, s = 1 + q * delta, k0;

    for (int i = 2; i < TERMS && isfinite(x); i++) {
        double next = 0;

        a -= 2 * (i - 1);
        c = -a * c / i;
        next = (q1 - b * q2) / a;
        q1 = q2;
        q2 = next;
        q += c * next;
        b += 2;
        d = 1 / (b + a * d);
        delta = (b * d - 1) * delta;
        h += delta;
        double ds = q * delta;
        s += ds;
        if (fabs(ds / s) < DBL_EPSILON / 2)
            break;
    }
    k0 = isinf(x) ? 0 : sqrt(PI / (2 * x)) / s;
    return n ? k0 * (x + 0.5 - 0.25 * h) / x : k0;
}

static double modified_second(int n, double x, bool scaled)
{
    if (isnan(x) || x < 0)
        return NAN;
    if (x == 0)
        return INFINITY;
    if (x <= 2)
        return modified_second_near(n, x) * (scaled ? exp(x) : 1);
    return isinf(x) ? 0 : modified_second_far(n, x) * (scaled ? 1 : exp(-x));
}

static double special_k0(double x)
{
    return modified_second(0, x, false);
}

static double special_k0e(double x)
{
    return modified_second(0, x, true);
}

static double special_k1(double x)
{
    return modified_second(1, x, false);
}

static double special_k1e(double x)
{
    return modified_second(1, x, true);
}

/* -- The op ------------------------------------------------------------------------------------------- */

static const struct special {
    const char *name;
    double (*one)(double);
    double (*two)(double, double);
} functions[] = {
#define SPECIAL1(name, function, meaning) {#name, function, NULL},
#define SPECIAL2(name, function, meaning) {#name, NULL, function},
#include "runtime/libop/special.def"
#undef SPECIAL1
#undef SPECIAL2
};

struct work {
    const struct special *f;
    const struct tcc_tensor *x, *y;
    void *out;
    int64_t n;
};

static void piece(void *arg, int64_t i)
{
    const struct work *w = arg;

    for (int64_t k = i * PIECE; k < (i + 1) * PIECE && k < w->n; k++) {
        double x = lib_get(w->x, k);

        lib_put(w->out, w->x->dtype, k, w->f->one ? w->f->one(x) : w->f->two(x, lib_get(w->y, k)));
    }
}

int tccrt_lib_special(struct tcc_lib_call *call)
{
    const char *name = lib_text(call, "function", "");
    struct work w = {0};
    int status = lib_need(call, 0, -1, LIB_NUMBER, &w.x);

    for (size_t k = 0; k < sizeof functions / sizeof *functions && !w.f; k++)
        w.f = strcmp(functions[k].name, name) ? NULL : &functions[k];
    if (!w.f)
        return LIB_FAIL(call, "there is no special function '%s'", name);
    if (!status && lib_class(w.x->dtype) != TCC_CLASS_FLOAT)
        return LIB_FAIL(call, "floating-point numbers expected");
    if (!status && w.f->two) {
        status = lib_need(call, 1, (int)w.x->rank, w.x->dtype, &w.y);
        if (!status && memcmp(w.x->dims, w.y->dims, (size_t)w.x->rank * sizeof *w.x->dims) != 0)
            return LIB_FAIL(call, "operands of equal dims expected");
    }
    if (status)
        return status;
    w.out = lib_out(call, 0, w.x->dtype, (int)w.x->rank, w.x->dims);
    if (!w.out)
        return LIB_NO_MEMORY(call);
    w.n = lib_count(w.x);
    int64_t pieces = (w.n + PIECE - 1) / PIECE;
    if (call->host->each)
        call->host->each(call, pieces, piece, &w);
    for (int64_t i = 0; !call->host->each && i < pieces; i++)
        piece(&w, i);
    return TCC_OK;
}

/* -- Divisors ----------------------------------------------------------------------------------------- */

/* Of the moduli; the lowest integer's is itself, as in PyTorch, and a remainder has the sign of what is divided. */
static int64_t divisor(int64_t a, int64_t b, int64_t lowest)
{
    a = a < 0 && a != lowest ? -a : a;
    b = b < 0 && b != lowest ? -b : b;
    while (a) {
        int64_t c = a;

        a = a == -1 ? 0 : b % a;
        b = c;
    }
    return b;
}

/* (x, y) of one type of integers and equal dims -> greatest common divisors. */
int tccrt_lib_gcd(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x, *y;
    int status = lib_need(call, 0, -1, LIB_NUMBER, &x);
    void *out;

    if (!status)
        status = lib_need(call, 1, (int)x->rank, x->dtype, &y);
    if (status)
        return status;
    if (lib_class(x->dtype) == TCC_CLASS_FLOAT || memcmp(x->dims, y->dims, (size_t)x->rank * sizeof *x->dims) != 0)
        return LIB_FAIL(call, "whole numbers of equal dims expected");
    if (!(out = lib_out(call, 0, x->dtype, (int)x->rank, x->dims)))
        return LIB_NO_MEMORY(call);
    int64_t lowest = INT64_MIN >> (64 - 8 * lib_bytes(x->dtype));
    for (int64_t i = 0, n = lib_count(x); i < n; i++)
        lib_put_int(out, x->dtype, i, divisor(lib_get_int(x, i), lib_get_int(y, i), lowest));
    return TCC_OK;
}
