/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exp, expm1, log, log1p, hyperbolic functions and their inverses, erf, for float and double lanes.
 *
 * exp: x = n ln 2 + r (Cody and Waite), polynomial on |r| <= ln 2 / 2, scaled in two steps so that subnormals and the
 * last binade come out right; by the machine's 2^x where it has one. log: x = 2^k m, m in [sqrt 1/2, sqrt 2); for
 * double by s = f / (2 + f) as in fdlibm's e_log.c. Sources: Cody and Waite, Software Manual for the Elementary
 * Functions, 1980; Tang, ACM TOMS 15 and 16; Muller, Handbook of Floating-Point Arithmetic, chapter 10. Coefficients
 * are our own (build-aux/vmath-coefficients.py).
 */
#include "compiler/emit/vmath.h"
#include "compiler/emit/vmath_coeffs.h"
#include "base/mutant.h"

#include <math.h>

#define V LLVMValueRef

/* ln 2 in two parts, the first with trailing zeros so that n times it is exact. */
#define LN2_HI_F32 0x1.62e4p-1
#define LN2_LO_F32 0x1.7f7d1cf79abcap-20
/* log2 e in two parts; ln 2; below the first power of e is 0 in float, the second is the least float above ln 2^128. */
#define LOG2_E_F32 0x1.715476p0
#define LOG2_E_LO_F32 0x1.4ae0bf85ddf44p-26
#define LN2 0x1.62e42fefa39efp-1
#define LEAST_F32 (-104)
#define LEAST_NORMAL_F32 (-87.3365)
#define OVERFLOW_F32 0x1.62e430p6
/* e's power by so much is scaled by a half power of two that is 0 */
#define LEAST_WITHIN (-87)
#define LN2_HI_F64 0x1.62e42fefa0000p-1
#define LN2_LO_F64 0x1.cf79abc9e3b3ap-40

/* 2^n from an integer n that makes a normal number. */
static V power_of_two(const struct vm *m, V n)
{
    return vm_float(m, vm_shl(m, vm_iadd(m, n, vm_ik(m, m->f64 ? 1023 : 127)), m->f64 ? 52 : 23));
}

/* p * 2^n, rounded once also where the result is subnormal, for n from about twice the exponent range down. */
static V scale(const struct vm *m, V p, V n)
{
    V half = LLVMBuildAShr(m->e->b, n, vm_ik(m, 1), ""), rest = LLVMBuildSub(m->e->b, n, half, "");
    V power_of_two_rest = power_of_two(m, rest);
    return vm_mul(m, vm_mul(m, p, power_of_two(m, half)), power_of_two_rest);
}

/* x = n ln 2 + r; returns r. x is within the range where n is small. */
static V reduce(const struct vm *m, V x, V *n_float, V *n)
{
    *n_float = vm_nearest_product(m, x, vm_k(m, 0x1.71547652b82fep0), n);
    V negative = vm_neg(m, *n_float);
    V r = vm_fma(m, negative, vm_k(m, m->f64 ? LN2_HI_F64 : LN2_HI_F32), x);
    return vm_fma(m, negative, vm_k(m, m->f64 ? LN2_LO_F64 : LN2_LO_F32), r);
}

/* e^r - 1 for |r| <= ln 2 / 2. */
static V expm1_reduced(const struct vm *m, V r)
{
    V q = m->f64 ? VM_POLY(m, r, vm_exp_f64) : VM_POLY(m, r, vm_exp_f32);
    return vm_fma(m, vm_mul(m, r, r), q, r);
}

/* Has the machine an instruction for float * 2^n, which rounds once and knows all n? It takes 16 lanes. */
static bool has_scalef(const struct vm *m, V x)
{
    return !m->f64 && m->e->m->scale && em_lanes_of(x) % 16 == 0;
}

/* p * 2^n for a whole float n. */
static V scalef(const struct vm *m, V p, V n)
{
    struct em *e = m->e;
    int lanes = em_lanes_of(p);
    if (lanes == 16)
        return e->m->scale(e, p, n);
    V half[2];
    for (int i = 0; i < 2; i++) {
        V exponent = em_part(e, n, i * lanes / 2, lanes / 2);
        half[i] = scalef(m, em_part(e, p, i * lanes / 2, lanes / 2), exponent);
    }
    return em_side_by_side(e, 2, half);
}

static V clamp(const struct vm *m, V x, double lo, double hi)
{
    return vm_min(m, vm_max(m, x, vm_k(m, lo)), vm_k(m, hi));
}

/* The larger or smaller one in one instruction; NaN stays. */
static V clamp_power(const struct vm *m, V x)
{
    struct em *e = m->e;
    LLVMTypeRef t = LLVMTypeOf(x);
    V above = em_intrinsic(e, "llvm.maximum", 1, &t, 2, (V[]){x, vm_k(m, LEAST_F32)});
    return em_intrinsic(e, "llvm.minimum", 1, &t, 2, (V[]){above, vm_k(m, OVERFLOW_F32)});
}

/* 2^hi (1 + rest), hi being x log2 e as a float, rest what is missing from it times ln 2. Of the clamp's limits the
 * power is 0, and infinite with a rest above 0. */
static V exp_by_power(const struct vm *m, V x, V low)
{
    struct em *e = m->e;
    V c = clamp_power(m, x), hi = vm_mul(m, c, vm_k(m, LOG2_E_F32)), p = LLVMGetPoison(LLVMTypeOf(x));
    V missing = vm_fma(m, c, vm_k(m, LOG2_E_F32), vm_neg(m, hi));
    V rest = vm_fma(m, missing, vm_k(m, LN2), vm_mul(m, c, vm_k(m, LOG2_E_LO_F32 * LN2)));
    rest = low ? vm_add(m, rest, low) : rest;
    if (m->lanes == 1)
        p = e->m->power(e, hi);
    for (int i = 0; i < m->lanes && m->lanes > 1; i++) {
        V index = em_i64(e, i), one = e->m->power(e, LLVMBuildExtractElement(e->b, hi, index, ""));
        p = LLVMBuildInsertElement(e->b, p, one, index, "");
    }
    return vm_fma(m, p, rest, p);
}

/* e^(x + low); of floats 0 where x < least, which is a limit of where numbers are normal, or are any. */
static V exp_from(const struct vm *m, V x, V low, double least)
{
    V nf, n, zero = vm_k(m, 0), c = m->f64 ? clamp(m, x, -760, 710) : vm_min(m, vm_k(m, 89.5), x), some = NULL;
    bool one_step = has_scalef(m, x);
    if (!m->f64) {
        /* What is too small even for a subnormal, -inf above all, takes no slow way to 0. NaN stays. */
        some = vm_not(m, vm_lt(m, x, vm_k(m, least)));
        c = one_step ? c : vm_sel(m, some, c, zero);
    }
    V r = reduce(m, c, &nf, &n);
    if (low)
        r = vm_add(m, r, low);
    V p = vm_add(m, expm1_reduced(m, r), vm_k(m, 1));
    if (one_step)
        return vm_sel(m, some, scalef(m, p, nf), zero);
    V result = scale(m, p, n);
    if (some)
        result = vm_sel(m, some, result, zero);
    return vm_sel(m, vm_nan(m, x), x, result);
}

V vm_exp_sum(const struct vm *m, V x, V low)
{
    if (!m->f64 && m->e->m->power && !m->e->exact)
        return exp_by_power(m, x, low);
    return exp_from(m, x, low, LEAST_F32);
}

V vm_exp(const struct vm *m, V x)
{
    return vm_exp_sum(m, x, NULL);
}

/*
 * e^x for x within [LEAST_WITHIN, 89] or NaN, which needs none of exp's cases: infinite from half of 2^128's binade on,
 * as twice the mantissa is scaled by one power of two that is half, and a number that is lost beside 1 where that is 0.
 */
static V exp_within(const struct vm *m, V x)
{
    V nf, n, two = vm_k(m, 2);
    if (m->e->m->power && !m->e->exact)
        return exp_by_power(m, x, NULL);
    V r = reduce(m, x, &nf, &n), p = expm1_reduced(m, r);
    if (has_scalef(m, x))
        return scalef(m, vm_add(m, p, vm_k(m, 1)), nf);
    V half_power = power_of_two(m, vm_iadd(m, n, vm_ik(m, -1)));
    return vm_mul(m, vm_fma(m, p, two, two), half_power);
}

V vm_exp_normal(const struct vm *m, V x)
{
    if (m->f64 || has_scalef(m, x) || m->e->m->power)
        return exp_from(m, x, NULL, LEAST_NORMAL_F32);
    return exp_within(m, vm_max(m, vm_k(m, LEAST_WITHIN), x));
}

/* Beside 1 small powers don't count, so that two limits take the place of exp's cases. NaN stays. */
V vm_one_plus_exp(const struct vm *m, V x)
{
    if (m->f64)
        return NULL;
    V c = vm_min(m, vm_k(m, 89), vm_max(m, vm_k(m, LEAST_WITHIN), x));
    return vm_add(m, exp_within(m, c), vm_k(m, 1));
}

V vm_expm1(const struct vm *m, V x)
{
    V nf, n, c = m->f64 ? clamp(m, x, -60, 710) : clamp(m, x, -40, 89.5);
    V r = reduce(m, c, &nf, &n), p = expm1_reduced(m, r), one = vm_k(m, 1);
    /* 2^n p + (2^n - 1); where 2^n is so large that the 1 is lost, as exp. */
    V large = LLVMBuildICmp(m->e->b, LLVMIntSGT, n, vm_ik(m, m->f64 ? 60 : 30), "");
    V s = power_of_two(m, vm_sel(m, large, vm_ik(m, 0), n));
    V small = vm_fma(m, s, p, vm_sub(m, s, one));
    V result = vm_sel(m, large, scale(m, vm_add(m, p, one), n), small);
    /* n = 0: r = x, and this keeps -0. */
    result = vm_sel(m, vm_eq(m, x, vm_k(m, 0)), x, result);
    return vm_sel(m, vm_nan(m, x), x, result);
}

/* -- Logarithms ------------------------------------------------------------------------------------------ */

/* x = 2^k (1 + f), for positive normal x; returns f, and k as a float. */
static V split_log(const struct vm *m, V x, V *k)
{
    LLVMBuilderRef b = m->e->b;
    int mantissa = m->f64 ? 52 : 23;
    /* Bits of sqrt 1/2: subtracting them makes the exponent count from there. */
    V root = vm_ik(m, m->f64 ? 0x3fe6a09e667f3bcdll : 0x3f3504f3), bits = vm_bits(m, x);
    V above = LLVMBuildSub(b, bits, root, ""), exponent = LLVMBuildAShr(b, above, vm_ik(m, mantissa), "");
    V one_f = vm_float(m, LLVMBuildSub(b, bits, vm_shl(m, exponent, mantissa), ""));
    /* Small integers to floats by the inverse of vm_nearest's trick: no conversion of i64 lanes is needed. */
    V magic = vm_k(m, m->f64 ? 0x1.8p52 : 0x1.8p23);
    *k = vm_sub(m, vm_float(m, vm_iadd(m, exponent, vm_bits(m, magic))), magic);
    return vm_sub(m, one_f, vm_k(m, 1));
}

/* log(1 + f) + k ln 2 + c, the small c being added where it is not lost. */
static V log_sum(const struct vm *m, V f, V k, V c)
{
    V half = vm_mul(m, vm_mul(m, f, f), vm_k(m, 0.5)), hi = vm_k(m, m->f64 ? LN2_HI_F64 : LN2_HI_F32);
    V low = vm_mul(m, k, vm_k(m, m->f64 ? LN2_LO_F64 : LN2_LO_F32));
    if (c)
        low = vm_add(m, low, c);
    if (!m->f64) {
        V f3 = vm_mul(m, vm_mul(m, f, f), f), q = VM_POLY(m, f, vm_log_f32);
        V y = vm_sub(m, vm_fma(m, f3, q, low), half);
        return vm_fma(m, k, hi, vm_add(m, f, y));
    }
    V s = vm_div(m, f, vm_add(m, f, vm_k(m, 2))), z = vm_mul(m, s, s);
    V r = vm_mul(m, z, VM_POLY(m, z, vm_log_f64));
    /* log(1 + f) = f - (f^2/2 - s (f^2/2 + R)) */
    V t = vm_fma(m, s, vm_add(m, half, r), low);
    return vm_fma(m, k, hi, vm_sub(m, f, vm_sub(m, half, t)));
}

static V log_specials(const struct vm *m, V x, V result)
{
    V zero = vm_k(m, 0);
    result = vm_sel(m, vm_eq(m, x, vm_k(m, INFINITY)), x, result);
    result = vm_sel(m, vm_eq(m, x, zero), vm_k(m, -INFINITY), result);
    result = vm_sel(m, vm_lt(m, x, zero), vm_k(m, NAN), result);
    return vm_sel(m, vm_nan(m, x), x, result);
}

V vm_log(const struct vm *m, V x)
{
    V k, tiny = vm_lt(m, x, vm_k(m, m->f64 ? 0x1p-1022 : 0x1p-126));
    V scaled = vm_sel(m, tiny, vm_mul(m, x, vm_k(m, m->f64 ? 0x1p54 : 0x1p25)), x);
    V f = split_log(m, scaled, &k);
    k = vm_sub(m, k, vm_sel(m, tiny, vm_k(m, m->f64 ? 54 : MUTANT(98, 25, 24)), vm_k(m, 0)));
    return log_specials(m, x, log_sum(m, f, k, NULL));
}

V vm_log1p(const struct vm *m, V x)
{
    V one = vm_k(m, 1), u = vm_add(m, one, x), k;
    /* What rounding 1 + x lost, relative to u. */
    V difference = vm_sub(m, x, vm_sub(m, u, one));
    V difference_one = vm_sub(m, one, vm_sub(m, u, x));
    V lost = vm_sel(m, vm_gt(m, vm_abs(m, x), one), difference_one, difference);
    V f = split_log(m, u, &k), result = log_sum(m, f, k, vm_div(m, lost, u));
    result = log_specials(m, u, result);
    /* Where 1 + x is 1 the function is x itself (-0 too). */
    return MUTANT(99, vm_sel(m, vm_eq(m, u, one), x, result), result);
}

/* -- Hyperbolic functions ----------------------------------------------------------------------------------- */

V vm_sinh(const struct vm *m, V x)
{
    V a = vm_abs(m, x), one = vm_k(m, 1), half = vm_k(m, 0.5), t = vm_expm1(m, a);
    V small = vm_mul(m, half, vm_add(m, t, vm_div(m, t, vm_add(m, t, one))));
    /* Near the end of the range e^a overflows before its half does. */
    V root = vm_exp(m, vm_mul(m, a, half)), large = vm_mul(m, vm_mul(m, half, root), root);
    return vm_copysign(m, vm_sel(m, vm_gt(m, a, vm_k(m, m->f64 ? 700 : 80)), large, small), x);
}

V vm_cosh(const struct vm *m, V x)
{
    V a = vm_abs(m, x), half = vm_k(m, 0.5), t = vm_exp(m, a);
    V quotient = vm_div(m, half, t);
    V small = vm_add(m, vm_mul(m, half, t), quotient);
    V root = vm_exp(m, vm_mul(m, a, half)), large = vm_mul(m, vm_mul(m, half, root), root);
    return vm_sel(m, vm_gt(m, a, vm_k(m, m->f64 ? 700 : 80)), large, small);
}

V vm_tanh(const struct vm *m, V x)
{
    V a = vm_abs(m, x), two = vm_k(m, 2), one = vm_k(m, 1), result;
    V c = vm_min(m, vm_k(m, m->f64 ? 22 : 10), a); /* NaN stays */
    if (m->f64) {
        V t = vm_expm1(m, vm_mul(m, c, two));
        result = vm_div(m, t, vm_add(m, t, two));
    } else {
        V e = exp_within(m, vm_mul(m, c, two)), z = vm_mul(m, c, c);
        V large = vm_sub(m, one, vm_div(m, two, vm_add(m, e, one)));
        V poly = VM_POLY(m, z, vm_tanh_f32);
        V small = vm_fma(m, vm_mul(m, z, c), poly, c);
        result = vm_sel(m, vm_lt(m, a, vm_k(m, 0.625)), small, large);
    }
    return vm_copysign(m, result, x);
}

V vm_asinh(const struct vm *m, V x)
{
    V a = vm_abs(m, x), one = vm_k(m, 1), z = vm_mul(m, a, a);
    V t = vm_add(m, a, vm_div(m, z, vm_add(m, one, vm_sqrt(m, vm_add(m, z, one)))));
    V huge = vm_gt(m, a, vm_k(m, 0x1p60));
    V r = vm_log1p(m, vm_sel(m, huge, a, t));
    return vm_copysign(m, vm_add(m, r, vm_sel(m, huge, vm_k(m, 0x1.62e42fefa39efp-1), vm_k(m, 0))), x);
}

V vm_acosh(const struct vm *m, V x)
{
    V t = vm_sub(m, x, vm_k(m, 1)), huge = vm_gt(m, x, vm_k(m, 0x1p60));
    V u = vm_add(m, t, vm_sqrt(m, vm_fma(m, t, t, vm_mul(m, vm_k(m, 2), t))));
    V r = vm_log1p(m, vm_sel(m, huge, x, u));
    r = vm_add(m, r, vm_sel(m, huge, vm_k(m, 0x1.62e42fefa39efp-1), vm_k(m, 0)));
    return vm_sel(m, vm_lt(m, x, vm_k(m, 1)), vm_k(m, NAN), r);
}

V vm_atanh(const struct vm *m, V x)
{
    V a = vm_abs(m, x);
    V difference = vm_sub(m, vm_k(m, 1), a);
    V t = vm_div(m, vm_mul(m, a, vm_k(m, 2)), difference);
    V r = vm_mul(m, vm_k(m, 0.5), vm_log1p(m, t));
    r = vm_sel(m, vm_gt(m, a, vm_k(m, 1)), vm_k(m, NAN), r);
    return vm_copysign(m, r, x);
}

/* -- Error function --------------------------------------------------------------------------------------------- */

/* 1 - erfc for larger arguments; erfc = e^(-x^2) h, h smooth in t = (x - 2) / (x + 2). */
static V erf_tail_double(const struct vm *m, V a)
{
    V c = vm_min(m, a, vm_k(m, 6)), two = vm_k(m, 2);
    V sum = vm_add(m, c, two);
    V t = vm_div(m, vm_sub(m, c, two), sum);
    V h = VM_POLY(m, t, vm_erfcx_f64), e = vm_exp(m, vm_neg(m, vm_mul(m, c, c)));
    return vm_sub(m, vm_k(m, 1), vm_mul(m, e, h));
}

/* For float, log(erfc(|x|)) is -a - a P(a), a = |x|, up to where erf rounds to 1. NaN stays. */
static V log_erfc(const struct vm *m, V x)
{
    V a = vm_min(m, vm_k(m, MUTANT(351, 4, 3.85)), vm_abs(m, x));
    return vm_neg(m, vm_fma(m, a, VM_POLY(m, a, vm_erf_f32), a));
}

/* 1 - e^y without another way for small arguments: with y = n ln 2 + r, (1 - 2^n) - 2^n (e^r - 1), whose first term is
 * exact, and 0 where n is. */
static V erf_float(const struct vm *m, V x)
{
    V nf, n, r = reduce(m, log_erfc(m, x), &nf, &n);
    V s = power_of_two(m, n), whole = vm_sub(m, vm_k(m, 1), s);
    V near_zero = expm1_reduced(m, r);
    return vm_copysign(m, vm_fma(m, vm_neg(m, s), near_zero, whole), x);
}

/* Of each lane's piece the coefficient that `table` has. */
static V of_piece(const struct vm *m, const double *table, V piece)
{
    struct em *e = m->e;
    int n = e->m->looked_up, parts = m->lanes / n;
    V number[16], part[EM_MAX_LANES / 8];
    for (int i = 0; i < n; i++)
        number[i] = LLVMConstReal(e->t_f32, table[i % VM_PIECES]);
    V all = LLVMConstVector(number, (unsigned)n);
    for (int i = 0; i < parts; i++)
        part[i] = e->m->look_up(e, all, em_part(e, piece, i * n, n));
    return em_side_by_side(e, parts, part);
}

/* 1 + f(x) of an odd f, which is 1 from the pieces' end on, where 2 is rounded to; 0 is chosen before, so that nothing
 * is negative. Beside 1, digits of small values don't count, and 1 added to or less the values in the pieces' middles
 * is exact. NaN stays. */
static V one_plus_pieces(const struct vm *m, const struct vm_pieces *f, V x)
{
    int n = m->e->m->looked_up, parts = n ? m->lanes / n : 0;
    if (m->f64 || !n || m->lanes % n || (parts & (parts - 1)))
        return NULL;
    V a = vm_min(m, vm_k(m, f->end), vm_abs(m, x)), per_unit = vm_k(m, f->per_unit), half = vm_k(m, 0.5);
    V magic = vm_k(m, 0x1.8p23), rounded = vm_add(m, vm_fma(m, a, per_unit, vm_neg(m, half)), magic);
    V piece = vm_bits(m, rounded), middle = vm_add(m, vm_sub(m, rounded, magic), half);
    V t = vm_fma(m, a, per_unit, vm_neg(m, middle)), p = of_piece(m, f->c[VM_PIECE_DEGREE], piece);
    for (int i = VM_PIECE_DEGREE - 1; i > 0; i--)
        p = vm_fma(m, p, t, of_piece(m, f->c[i], piece));
    V sign = vm_and(m, vm_bits(m, x), vm_ik(m, INT32_MIN));
    t = vm_float(m, LLVMBuildXor(m->e->b, vm_bits(m, t), sign, ""));
    V whole = vm_float(m, LLVMBuildOr(m->e->b, vm_bits(m, of_piece(m, f->c[0], piece)), sign, ""));
    V sum = vm_fma(m, p, t, vm_add(m, vm_k(m, 1), whole));
    return vm_sel(m, vm_lt(m, x, vm_k(m, -f->zero)), vm_k(m, 0), sum);
}

V vm_one_plus_erf(const struct vm *m, V x)
{
    return one_plus_pieces(m, &vm_erf_pieces, x);
}

V vm_one_plus_gelu_tanh(const struct vm *m, V x)
{
    return one_plus_pieces(m, &vm_gelu_tanh_pieces, x);
}

V vm_erf(const struct vm *m, V x)
{
    if (!m->f64)
        return erf_float(m, x);
    V a = vm_abs(m, x), z = vm_mul(m, x, x);
    V small = vm_fma(m, x, VM_POLY(m, z, vm_erf_f64), x), large = vm_copysign(m, erf_tail_double(m, a), x);
    V result = vm_sel(m, vm_lt(m, a, vm_k(m, 1)), small, large);
    return vm_sel(m, vm_nan(m, x), x, result);
}
