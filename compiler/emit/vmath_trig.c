/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trigonometric functions and their inverses, in double lanes (float goes through double).
 *
 * x = n pi/2 + r by three parts of pi/2 while n is small; beyond that by Payne and Hanek's method in integers: the bits
 * of 2/pi that matter for the exponent of x are multiplied by its mantissa, which leaves the quadrant and a fraction of
 * 190 bits. Sources: Payne and Hanek, Radian reduction for trigonometric functions, SIGNUM Newsletter 18 (1983);
 * Muller, Elementary Functions, chapter 11. Coefficients are our own (build-aux/vmath-coefficients.py).
 */
#include "compiler/emit/vmath.h"
#include "compiler/emit/vmath_coeffs.h"

#include <math.h>

#define V LLVMValueRef

/* -- Reduction of huge arguments -------------------------------------------------------------------- */

/* The table of 2/pi as a constant of the module. */
static V table_of_bits(struct em *e)
{
    static const char name[] = "vm_two_over_pi";
    V words[sizeof vm_two_over_pi / sizeof *vm_two_over_pi], table = LLVMGetNamedGlobal(e->mod, name);
    unsigned n = sizeof vm_two_over_pi / sizeof *vm_two_over_pi;
    if (table)
        return table;
    for (unsigned i = 0; i < n; i++)
        words[i] = LLVMConstInt(e->t_i64, vm_two_over_pi[i], 0);
    table = LLVMAddGlobal(e->mod, LLVMArrayType2(e->t_i64, n), name);
    LLVMSetInitializer(table, LLVMConstArray2(e->t_i64, words, n));
    LLVMSetLinkage(table, LLVMInternalLinkage);
    LLVMSetGlobalConstant(table, 1);
    return table;
}

/* 64 bits of 2/pi from bit `at` (from the binary point) on, zero-extended to i128. */
static V bits_at(struct em *e, V table, V at)
{
    LLVMBuilderRef b = e->b;
    LLVMTypeRef t128 = LLVMIntTypeInContext(e->lc, 128);
    V index = LLVMBuildLShr(b, at, em_i64(e, 6), ""), shift = LLVMBuildAnd(b, at, em_i64(e, 63), "");
    V next = LLVMBuildAdd(b, index, em_i64(e, 1), "");
    V hi = LLVMBuildLoad2(b, e->t_i64, LLVMBuildGEP2(b, e->t_i64, table, &index, 1, ""), "");
    V lo = LLVMBuildLoad2(b, e->t_i64, LLVMBuildGEP2(b, e->t_i64, table, &next, 1, ""), "");
    V word = em_intrinsic(e, "llvm.fshl", 1, &e->t_i64, 3, (V[]){hi, lo, shift});
    return LLVMBuildZExt(b, word, t128, "");
}

/* Body of double vm_reduce(double x): r * 2^(128 quadrant). As 2^-70 < |r| < 1 the exponent tells the two apart. x is
 * finite and at least 2^20 in size. */
static void make_reduce(struct em *e, V fn)
{
    LLVMBuilderRef b = e->b;
    LLVMTypeRef t128 = LLVMIntTypeInContext(e->lc, 128);
    V x = LLVMGetParam(fn, 0), bits = LLVMBuildBitCast(b, x, e->t_i64, ""), table = table_of_bits(e);
    V exponent = LLVMBuildAnd(b, LLVMBuildLShr(b, bits, em_i64(e, 52), ""), em_i64(e, 0x7ff), "");
    V mantissa = LLVMBuildAnd(b, bits, em_i64(e, (1ll << 52) - 1), "");
    mantissa = LLVMBuildZExt(b, LLVMBuildOr(b, mantissa, em_i64(e, 1ll << 52), ""), t128, "");
    /* |x| = mantissa * 2^s, s = exponent - 1075. Bits of 2/pi above weight 2^(2-s) give multiples of 4 only. With the
     * table led by 64 zero bits, bit number p has weight 2^(63-p); start where the weight is 2^(1-s): p = 62 + s. */
    V at = LLVMBuildSub(b, exponent, em_i64(e, 1075 - 62), "");
    V word[3], c64 = LLVMConstInt(t128, 64, 0);
    for (int i = 0; i < 3; i++)
        word[i] = bits_at(e, table, LLVMBuildAdd(b, at, em_i64(e, 64 * i), ""));
    /* Product modulo 2^192, whose top two bits are the quadrant: words from high to low. */
    V low = LLVMBuildMul(b, mantissa, word[2], ""), mid = LLVMBuildMul(b, mantissa, word[1], "");
    V high = LLVMBuildMul(b, mantissa, word[0], "");
    mid = LLVMBuildAdd(b, mid, LLVMBuildLShr(b, low, c64, ""), "");
    V top = LLVMBuildAdd(b, LLVMBuildShl(b, high, c64, ""), mid, ""); /* bits 64..191 of the product */
    /* Quadrant: round to nearest: add one eighth of the circle, that is half a quadrant, first. */
    V half = LLVMBuildShl(b, LLVMConstInt(t128, 1, 0), LLVMConstInt(t128, 125, 0), "");
    V moved = LLVMBuildAdd(b, top, half, "");
    V quadrant = LLVMBuildTrunc(b, LLVMBuildLShr(b, moved, LLVMConstInt(t128, 126, 0), ""), e->t_i64, "");
    V fraction =
        LLVMBuildSub(b, top, LLVMBuildShl(b, LLVMBuildZExt(b, quadrant, t128, ""), LLVMConstInt(t128, 126, 0), ""), "");
    V negative = LLVMBuildICmp(b, LLVMIntSLT, fraction, LLVMConstNull(t128), "");
    V size = LLVMBuildSelect(b, negative, LLVMBuildNeg(b, fraction, ""), fraction, "");
    V zeros = em_intrinsic(e, "llvm.ctlz", 1, &t128, 2, (V[]){size, LLVMConstInt(e->t_i1, 0, 0)});
    V normal = LLVMBuildShl(b, size, LLVMBuildAnd(b, zeros, LLVMConstInt(t128, 127, 0), ""), "");
    V lead = LLVMBuildTrunc(b, LLVMBuildLShr(b, normal, LLVMConstInt(t128, 65, 0), ""), e->t_i64, ""); /* 63 bits */
    /* fraction = lead * 2^(65 - zeros) * 2^-126 of a quadrant. */
    V f = LLVMBuildSIToFP(b, lead, e->t_f64, "");
    V power = LLVMBuildSub(b, em_i64(e, 1023 + 65 - 126), LLVMBuildTrunc(b, zeros, e->t_i64, ""), "");
    V r = LLVMBuildFMul(b, f, LLVMBuildBitCast(b, LLVMBuildShl(b, power, em_i64(e, 52), ""), e->t_f64, ""), "");
    r = LLVMBuildFMul(b, r, em_fp(e->t_f64, M_PI_2), "");
    /* sin(-x): quadrant and fraction change sign together. */
    V minus = LLVMBuildICmp(b, LLVMIntSLT, bits, em_i64(e, 0), "");
    V flip = LLVMBuildXor(b, negative, minus, "");
    r = LLVMBuildSelect(b, flip, LLVMBuildFNeg(b, r, ""), r, "");
    quadrant = LLVMBuildSelect(b, minus, LLVMBuildNeg(b, quadrant, ""), quadrant, "");
    quadrant = LLVMBuildAnd(b, quadrant, em_i64(e, 3), "");
    LLVMValueRef shifted = LLVMBuildShl(b, quadrant, em_i64(e, 59), "");
    V packed = LLVMBuildAdd(b, LLVMBuildBitCast(b, r, e->t_i64, ""), shifted, "");
    LLVMBuildRet(b, LLVMBuildBitCast(b, packed, e->t_f64, ""));
}

/* -- Reduction ------------------------------------------------------------------------------------------ */

/* x = q pi/2 + r + *low modulo 2 pi, |r| <= pi/4 (a little more); q in the low bits of an integer. */
static V reduce(const struct vm *m, V x, V *low, V *q)
{
    V n, nf = vm_nearest(m, vm_mul(m, x, vm_k(m, M_2_PI)), &n), minus = vm_neg(m, nf), r, limit;
    if (m->e->m->fma) {
        /* pi/2 in three parts of 53 bits. */
        V a = vm_fma(m, minus, vm_k(m, 0x1.921fb54442d18p0), x);
        V p = vm_mul(m, nf, vm_k(m, 0x1.1a62633145c07p-54));
        V p_low = vm_fma(m, nf, vm_k(m, 0x1.1a62633145c07p-54), vm_neg(m, p));
        r = vm_sub(m, a, p);
        *low = vm_sub(m, vm_sub(m, vm_sub(m, a, r), p), p_low);
        *low = vm_fma(m, minus, vm_k(m, -0x1.f1976b7ed8fbcp-110), *low);
        limit = vm_k(m, 0x1p27);
    } else {
        /* Parts of 33 bits: products with n below 2^20 are exact. */
        V a = vm_sub(m, x, vm_mul(m, nf, vm_k(m, 0x1.921fb544p0)));
        V p = vm_mul(m, nf, vm_k(m, 0x1.0b4611a6p-34)), s = vm_sub(m, a, p);
        V lost = vm_sub(m, vm_sub(m, a, s), p), t = vm_mul(m, nf, vm_k(m, 0x1.3198a2e037073p-69));
        r = vm_sub(m, s, t);
        *low = vm_add(m, vm_sub(m, vm_sub(m, s, r), t), lost);
        limit = vm_k(m, 0x1p20);
    }
    V huge = vm_not(m, vm_lt(m, vm_abs(m, x), limit));
    V bits = vm_bits(m, vm_per_lane(m, "vm_reduce", make_reduce, huge, 1, &x, x));
    V exponent = LLVMBuildAnd(m->e->b, LLVMBuildLShr(m->e->b, bits, vm_ik(m, 52), ""), vm_ik(m, 0x7ff), "");
    V quadrant = LLVMBuildAShr(m->e->b, vm_iadd(m, exponent, vm_ik(m, 100 - 1023)), vm_ik(m, 7), "");
    *q = vm_sel(m, huge, quadrant, n);
    *low = vm_sel(m, huge, vm_k(m, 0), *low);
    return vm_sel(m, huge, vm_float(m, LLVMBuildSub(m->e->b, bits, vm_shl(m, quadrant, 59), "")), r);
}

static V sin_reduced(const struct vm *m, V r, V low)
{
    V z = vm_mul(m, r, r), r3 = vm_mul(m, z, r);
    /* sin(r + low) = sin r + low cos r, nearly low (1 - z/2). */
    V fix = vm_mul(m, low, vm_fma(m, z, vm_k(m, -0.5), vm_k(m, 1)));
    return vm_add(m, r, vm_fma(m, r3, VM_POLY(m, z, vm_sin_f64), fix));
}

static V cos_reduced(const struct vm *m, V r, V low)
{
    V z = vm_mul(m, r, r), half = vm_mul(m, z, vm_k(m, 0.5)), one = vm_k(m, 1), w = vm_sub(m, one, half);
    V lost = vm_sub(m, vm_sub(m, one, w), half);
    V poly = VM_POLY(m, z, vm_cos_f64);
    V tail = vm_mul(m, vm_mul(m, z, z), poly);
    return vm_add(m, w, vm_add(m, lost, vm_sub(m, tail, vm_mul(m, r, low))));
}

static V bit_set(const struct vm *m, V q, int bit)
{
    V masked = LLVMBuildAnd(m->e->b, q, vm_ik(m, 1 << bit), "");
    return LLVMBuildICmp(m->e->b, LLVMIntNE, masked, vm_ik(m, 0), "");
}

/* Infinity has no sine; NaN stays. */
static V finite_only(const struct vm *m, V x, V result)
{
    V difference = vm_sub(m, x, x);
    return vm_sel(m, vm_lt(m, vm_abs(m, x), vm_k(m, INFINITY)), result, difference);
}

static V sine(const struct vm *m, V x, int shift)
{
    V low, q, r = reduce(m, x, &low, &q);
    q = vm_iadd(m, q, vm_ik(m, shift));
    V sin_reduced_low = sin_reduced(m, r, low);
    V cos_reduced_low = cos_reduced(m, r, low);
    V v = vm_sel(m, bit_set(m, q, 0), cos_reduced_low, sin_reduced_low);
    V negated = vm_neg(m, v);
    return finite_only(m, x, vm_sel(m, bit_set(m, q, 1), negated, v));
}

V vm_sin(const struct vm *m, V x)
{
    V sine_x = sine(m, x, 0);
    return vm_sel(m, vm_eq(m, x, vm_k(m, 0)), x, sine_x);
}

V vm_cos(const struct vm *m, V x)
{
    return sine(m, x, 1);
}

V vm_tan(const struct vm *m, V x)
{
    V low, q, r = reduce(m, x, &low, &q), s = sin_reduced(m, r, low), c = cos_reduced(m, r, low),
              odd = bit_set(m, q, 0);
    V selected = vm_sel(m, odd, s, c);
    V v = vm_div(m, vm_sel(m, odd, vm_neg(m, c), s), selected);
    V finite_only_x = finite_only(m, x, v);
    return vm_sel(m, vm_eq(m, x, vm_k(m, 0)), x, finite_only_x);
}

/* -- Inverses ---------------------------------------------------------------------------------------------- */

#define PI_2_HI 0x1.921fb54442d18p0
#define PI_2_LO 0x1.1a62633145c07p-54

/* asin(x) for |x| <= 1/2, x + x^3 P(x^2). */
static V asin_small(const struct vm *m, V x, V z)
{
    V poly = VM_POLY(m, z, vm_asin_f64);
    return vm_fma(m, vm_mul(m, x, z), poly, x);
}

/* For |x| > 1/2, asin |x| = pi/2 - 2 asin(sqrt((1 - |x|) / 2)): the root and what rounding it lost. */
static V half_angle(const struct vm *m, V a, V *z, V *low)
{
    V square_low;
    *z = vm_mul(m, vm_sub(m, vm_k(m, 1), a), vm_k(m, 0.5));
    V s = vm_sqrt(m, *z), p = vm_two_product(m, s, s, &square_low);
    V residue = vm_sub(m, vm_sub(m, *z, p), square_low);
    *low = vm_div(m, residue, vm_max(m, vm_add(m, s, s), vm_k(m, 0x1p-1022)));
    return s;
}

V vm_asin(const struct vm *m, V x)
{
    V a = vm_abs(m, x), z, low, s = half_angle(m, a, &z, &low), two = vm_k(m, 2);
    V poly = VM_POLY(m, z, vm_asin_f64);
    V tail = vm_fma(m, vm_mul(m, s, z), poly, low);
    V difference = vm_sub(m, vm_mul(m, two, tail), vm_k(m, PI_2_LO));
    V large = vm_sub(m, vm_sub(m, vm_k(m, PI_2_HI), vm_mul(m, two, s)), difference);
    V small = asin_small(m, x, vm_mul(m, x, x));
    V signed_result = vm_copysign(m, large, x);
    return vm_sel(m, vm_gt(m, a, vm_k(m, 0.5)), signed_result, small);
}

V vm_acos(const struct vm *m, V x)
{
    V a = vm_abs(m, x), z, low, s = half_angle(m, a, &z, &low), two = vm_k(m, 2);
    V poly = VM_POLY(m, z, vm_asin_f64);
    V tail = vm_fma(m, vm_mul(m, s, z), poly, low);
    V large = vm_mul(m, two, vm_add(m, s, tail));
    V negative = vm_sub(m, vm_k(m, 2 * PI_2_HI), vm_sub(m, large, vm_k(m, 2 * PI_2_LO)));
    V zx = vm_mul(m, x, x);
    V poly_zx = VM_POLY(m, zx, vm_asin_f64);
    V cubic = vm_mul(m, vm_mul(m, x, zx), poly_zx);
    V small = vm_sub(m, vm_k(m, PI_2_HI), vm_sub(m, x, vm_sub(m, vm_k(m, PI_2_LO), cubic)));
    V outer = vm_sel(m, vm_lt(m, x, vm_k(m, 0)), negative, large);
    V result = vm_sel(m, vm_gt(m, a, vm_k(m, 0.5)), outer, small);
    return vm_sel(m, vm_gt(m, a, vm_k(m, 1)), vm_k(m, NAN), result);
}

V vm_atan(const struct vm *m, V x)
{
    V a = vm_abs(m, x), one = vm_k(m, 1), zero = vm_k(m, 0);
    /* One division brings every argument to |t| <= tan(pi/8): t = a, (a - 1) / (a + 1) or -1 / a. */
    V big = vm_gt(m, a, vm_k(m, 0x1.3504f333f9de6p1)), middle = vm_gt(m, a, vm_k(m, 0x1.a827999fcef32p-2));
    V num = vm_sel(m, big, vm_k(m, -1), vm_sel(m, middle, vm_sub(m, a, one), a));
    V den = vm_sel(m, big, a, vm_sel(m, middle, vm_add(m, a, one), one));
    V base = vm_sel(m, big, vm_k(m, PI_2_HI), vm_sel(m, middle, vm_k(m, PI_2_HI / 2), zero));
    V rest = vm_sel(m, big, vm_k(m, PI_2_LO), vm_sel(m, middle, vm_k(m, PI_2_LO / 2), zero));
    V t = vm_div(m, num, den), z = vm_mul(m, t, t);
    V poly = VM_POLY(m, z, vm_atan_f64);
    V tail = vm_fma(m, vm_mul(m, t, z), poly, rest);
    V r = vm_add(m, base, vm_add(m, t, tail));
    V signed_result = vm_copysign(m, r, x);
    return vm_sel(m, vm_nan(m, x), x, signed_result);
}
