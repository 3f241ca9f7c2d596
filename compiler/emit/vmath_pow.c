/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pow and fmod, in double lanes (float goes through double).
 *
 * pow: log2 of the base as an unevaluated sum of two doubles (about 68 bits), times y, then exp of such a sum.
 * fmod: where the quotient fits a mantissa, one division and an exact remainder; else long division of the mantissas
 * in integers, one lane at a time. Sources: Muller, Handbook of Floating-Point Arithmetic, chapters 4 (error-free
 * transformations) and 10.
 */
#include "compiler/emit/vmath.h"
#include "compiler/emit/vmath_coeffs.h"

#include <math.h>

#define V LLVMValueRef

/* -- pow ------------------------------------------------------------------------------------------------ */

/* a + b = sum + *low exactly when |a| >= |b| or a is 0. */
static V fast_two_sum(const struct vm *m, V a, V b, V *low)
{
    V s = vm_add(m, a, b);
    *low = vm_sub(m, b, vm_sub(m, s, a));
    return s;
}

static V two_sum(const struct vm *m, V a, V b, V *low)
{
    V s = vm_add(m, a, b), bb = vm_sub(m, s, a);
    V difference = vm_sub(m, b, bb);
    *low = vm_add(m, vm_sub(m, a, vm_sub(m, s, bb)), difference);
    return s;
}

/* log(1 + f) + k ln 2 as hi + *low, 1 + f in [sqrt 1/2, sqrt 2). */
static V log_two(const struct vm *m, V f, V k, V *low)
{
    /* s + sl = f / (2 + f) */
    V dl, d = two_sum(m, vm_k(m, 2), f, &dl), s = vm_div(m, f, d), pl, p = vm_two_product(m, s, d, &pl);
    V product_dl = vm_mul(m, s, dl);
    V sl = vm_sub(m, vm_sub(m, vm_sub(m, f, p), pl), product_dl);
    sl = vm_div(m, sl, d);
    /* s^2 and s^3 as sums of two. */
    V zl, z = vm_two_product(m, s, s, &zl);
    zl = vm_fma(m, vm_mul(m, vm_k(m, 2), s), sl, zl);
    V cl, c = vm_two_product(m, z, s, &cl);
    cl = vm_add(m, cl, vm_fma(m, z, sl, vm_mul(m, zl, s)));
    /* 2/3 s^3, then 2 s + 2/3 s^3 + s^5 R(s^2). */
    V third = vm_k(m, 0x1.5555555555555p-1), tl, t = vm_two_product(m, c, third, &tl);
    tl = vm_add(m, tl, vm_fma(m, c, vm_k(m, 0x1.5555555555555p-55), vm_mul(m, cl, third)));
    V poly = VM_POLY(m, z, vm_log5_f64);
    V rest = vm_mul(m, vm_mul(m, c, z), poly);
    V two = vm_k(m, 2), h1, a = fast_two_sum(m, vm_mul(m, two, s), t, &h1);
    V other = vm_mul(m, two, sl);
    V small = vm_add(m, vm_add(m, vm_add(m, h1, tl), other), rest);
    /* k ln 2: the first part's product is exact. */
    V b_low, b = two_sum(m, vm_mul(m, k, vm_k(m, 0x1.62e42fefa0000p-1)), a, &b_low);
    small = vm_add(m, small, vm_add(m, b_low, vm_mul(m, k, vm_k(m, 0x1.cf79abc9e3b3ap-40))));
    return fast_two_sum(m, b, small, low);
}

/* x = 2^k (1 + f) for positive finite x, subnormals included. */
static V split(const struct vm *m, V x, V *k)
{
    LLVMBuilderRef b = m->e->b;
    V tiny = vm_lt(m, x, vm_k(m, 0x1p-1022)), scaled = vm_sel(m, tiny, vm_mul(m, x, vm_k(m, 0x1p54)), x);
    V bits = vm_bits(m, scaled), above = LLVMBuildSub(b, bits, vm_ik(m, 0x3fe6a09e667f3bcdll), "");
    V exponent = LLVMBuildAShr(b, above, vm_ik(m, 52), ""), magic = vm_k(m, 0x1.8p52);
    V f = vm_sub(m, vm_float(m, LLVMBuildSub(b, bits, vm_shl(m, exponent, 52), "")), vm_k(m, 1));
    *k = vm_sub(m, vm_float(m, vm_iadd(m, exponent, vm_bits(m, magic))), magic);
    *k = vm_sub(m, *k, vm_sel(m, tiny, vm_k(m, 54), vm_k(m, 0)));
    return f;
}

/* C's rules for zeros, infinities, NaN and negative bases. r: |x|^y. */
static V pow_specials(const struct vm *m, V x, V y, V r)
{
    V zero = vm_k(m, 0), one = vm_k(m, 1), inf = vm_k(m, INFINITY), a = vm_abs(m, x), ay = vm_abs(m, y);
    V whole = em_unary_intrinsic(m->e, "llvm.floor", y), is_whole = vm_eq(m, whole, y);
    V half = vm_mul(m, y, vm_k(m, 0.5));
    V is_odd = vm_and(m, is_whole, vm_not(m, vm_eq(m, em_unary_intrinsic(m->e, "llvm.floor", half), half)));
    V y_up = vm_gt(m, y, zero);
    /* Bases 0 and infinity. */
    V is_less = vm_lt(m, y, zero);
    V both = vm_and(m, vm_eq(m, a, inf), is_less);
    V gives_zero = vm_or(m, vm_and(m, vm_eq(m, a, zero), y_up), both);
    V other = vm_lt(m, y, zero);
    V more = vm_and(m, vm_eq(m, a, zero), other);
    V gives_inf = vm_or(m, vm_and(m, vm_eq(m, a, inf), y_up), more);
    /* Infinite exponents. */
    V y_inf = vm_eq(m, ay, inf);
    V is_less_a = vm_lt(m, a, one);
    V grows = vm_sel(m, y_up, vm_gt(m, a, one), is_less_a);
    r = vm_sel(m, y_inf, vm_sel(m, grows, inf, zero), r);
    r = vm_sel(m, vm_and(m, y_inf, vm_eq(m, a, one)), one, r);
    r = vm_sel(m, gives_zero, zero, vm_sel(m, gives_inf, inf, r));
    V negative = vm_lt(m, vm_copysign(m, one, x), zero);
    V negated = vm_neg(m, r);
    r = vm_sel(m, vm_and(m, negative, is_odd), negated, r);
    V rest = vm_lt(m, a, inf);
    V proper = vm_and(m, vm_lt(m, x, zero), rest);
    r = vm_sel(m, vm_and(m, proper, vm_not(m, is_whole)), vm_k(m, NAN), r);
    V last = vm_add(m, x, y);
    V right2 = vm_nan(m, y);
    r = vm_sel(m, vm_or(m, vm_nan(m, x), right2), last, r);
    V right3 = vm_eq(m, y, zero);
    return vm_sel(m, vm_or(m, vm_eq(m, x, one), right3), one, r);
}

V vm_pow(const struct vm *m, V x, V y)
{
    V k, f = split(m, vm_abs(m, x), &k), low, hi = log_two(m, f, k, &low);
    V p_low, p = vm_two_product(m, y, hi, &p_low);
    p_low = vm_fma(m, y, low, p_low);
    /* Beyond the range the parts may be infinite or NaN; only the first counts there. */
    V in_range = vm_lt(m, vm_abs(m, p), vm_k(m, 800));
    p = vm_sel(m, in_range, p, vm_copysign(m, vm_k(m, 800), p));
    V r = vm_exp_sum(m, p, vm_sel(m, in_range, p_low, vm_k(m, 0)));
    return pow_specials(m, x, y, r);
}

/* x^(1/4), x^(1/2), x^(3/4) = x / x^(1/4), x^(5/4) = x x^(1/4), x^(3/2) = x x^(1/2): at most 1.6 ULP, where the product
 * of both roots has 2.1. */
V vm_pow_quarters(const struct vm *m, V x, double y)
{
    if (y != 0.25 && y != 0.5 && y != 0.75 && y != 1.25 && y != 1.5)
        return NULL;
    /* Roots of -0 and of -infinity would be -0 and NaN; powers have +0 and infinity. */
    V zero = vm_k(m, 0), inf = vm_k(m, INFINITY);
    V sum = vm_add(m, x, zero);
    V base = vm_sel(m, vm_eq(m, x, vm_k(m, -INFINITY)), inf, sum);
    V root = vm_sqrt(m, base);
    if (y != 0.5 && y != 1.5)
        root = vm_sqrt(m, root);
    if (y < 0.75)
        return root;
    if (y > 1)
        return vm_mul(m, base, root);
    V quotient = vm_div(m, base, root);
    V is_equal = vm_eq(m, base, inf);
    return vm_sel(m, vm_or(m, vm_eq(m, base, zero), is_equal), base, quotient);
}

/* -- fmod ---------------------------------------------------------------------------------------------------- */

/* Mantissa with its leading bit, and exponent, of a positive finite double; subnormals are normalised. */
static void unpack(struct em *e, V bits, V *mantissa, V *exponent)
{
    LLVMBuilderRef b = e->b;
    V field = LLVMBuildLShr(b, bits, em_i64(e, 52), ""),
      fraction = LLVMBuildAnd(b, bits, em_i64(e, (1ll << 52) - 1), "");
    V subnormal = LLVMBuildICmp(b, LLVMIntEQ, field, em_i64(e, 0), "");
    V zeros = em_intrinsic(e, "llvm.ctlz", 1, &e->t_i64, 2, (V[]){fraction, LLVMConstInt(e->t_i1, 0, 0)});
    V shift = LLVMBuildAnd(b, LLVMBuildSub(b, zeros, em_i64(e, 11), ""), em_i64(e, 63), "");
    V lifted = LLVMBuildShl(b, fraction, shift, "");
    *mantissa = LLVMBuildSelect(b, subnormal, lifted, LLVMBuildOr(b, fraction, em_i64(e, 1ll << 52), ""), "");
    *exponent = LLVMBuildSelect(b, subnormal, LLVMBuildSub(b, em_i64(e, 1), shift, ""), field, "");
}

/* Body of double vm_fmod(double x, double y) for finite positive x >= y > 0: shift and subtract. */
static void make_fmod(struct em *e, V fn)
{
    LLVMBuilderRef b = e->b;
    V mx, my, ex, ey;
    unpack(e, LLVMBuildBitCast(b, LLVMGetParam(fn, 0), e->t_i64, ""), &mx, &ex);
    unpack(e, LLVMBuildBitCast(b, LLVMGetParam(fn, 1), e->t_i64, ""), &my, &ey);
    struct em_loop l;
    em_loop_begin(e, &l, em_range(e, ey, ex), em_i64(e, 1), "divide");
    V r = em_loop_carry(e, &l, mx);
    V less = LLVMBuildSub(b, r, my, ""), fits = LLVMBuildICmp(b, LLVMIntUGE, r, my, "");
    em_loop_next(&l, 0, LLVMBuildShl(b, LLVMBuildSelect(b, fits, less, r, ""), em_i64(e, 1), ""));
    em_loop_end(e, &l);
    r = l.phi[0];
    LLVMValueRef difference = LLVMBuildSub(b, r, my, "");
    r = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntUGE, r, my, ""), difference, r, "");
    /* r * 2^(ey - 1075), which is exact: normalise, then drop below the subnormals' last place nothing. */
    V zeros = em_intrinsic(e, "llvm.ctlz", 1, &e->t_i64, 2, (V[]){r, LLVMConstInt(e->t_i1, 0, 0)});
    V up = LLVMBuildSub(b, zeros, em_i64(e, 11), ""), field = LLVMBuildSub(b, ey, up, "");
    V is_zero = LLVMBuildICmp(b, LLVMIntEQ, r, em_i64(e, 0), "");
    V normal = LLVMBuildICmp(b, LLVMIntSGT, field, em_i64(e, 0), "");
    V lifted = LLVMBuildShl(b, r, LLVMBuildAnd(b, up, em_i64(e, 63), ""), "");
    LLVMValueRef shifted = LLVMBuildShl(b, field, em_i64(e, 52), "");
    V norm = LLVMBuildOr(b, LLVMBuildAnd(b, lifted, em_i64(e, (1ll << 52) - 1), ""), shifted, "");
    /* Subnormal results: value r * 2^(ey - 1), in units of the last place; ey may itself be below 1. */
    V distance = LLVMBuildSub(b, ey, em_i64(e, 1), ""), left = LLVMBuildICmp(b, LLVMIntSGE, distance, em_i64(e, 0), "");
    V masked = LLVMBuildAnd(b, LLVMBuildNeg(b, distance, ""), em_i64(e, 63), "");
    LLVMValueRef shifted_r = LLVMBuildLShr(b, r, masked, "");
    V sub =
        LLVMBuildSelect(b, left, LLVMBuildShl(b, r, LLVMBuildAnd(b, distance, em_i64(e, 63), ""), ""), shifted_r, "");
    V bits = LLVMBuildSelect(b, is_zero, em_i64(e, 0), LLVMBuildSelect(b, normal, norm, sub, ""), "");
    LLVMBuildRet(b, LLVMBuildBitCast(b, bits, e->t_f64, ""));
}

V vm_fmod(const struct vm *m, V x, V y)
{
    V a = vm_abs(m, x), d = vm_abs(m, y), zero = vm_k(m, 0), inf = vm_k(m, INFINITY);
    V quotient = vm_div(m, a, d), q = em_unary_intrinsic(m->e, "llvm.trunc", quotient);
    V p_low, p = vm_two_product(m, q, d, &p_low), r = vm_sub(m, vm_sub(m, a, p), p_low);
    /* The rounded quotient may be one too large. */
    V sum = vm_add(m, r, d);
    r = vm_sel(m, vm_lt(m, r, zero), sum, r);
    V below = vm_lt(m, a, d);
    /* Splitting products needs room in the exponents where there is no fused multiply-add. */
    V is_less = vm_lt(m, a, vm_k(m, 0x1p900));
    V both = vm_and(m, vm_gt(m, d, vm_k(m, 0x1p-900)), is_less);
    V easy = vm_and(m, vm_lt(m, quotient, vm_k(m, 0x1p52)), both);
    V other = vm_lt(m, d, inf);
    V more = vm_lt(m, a, inf);
    V proper = vm_and(m, vm_and(m, vm_gt(m, d, zero), more), other);
    V rest = vm_not(m, easy);
    V hard = vm_and(m, proper, vm_and(m, vm_not(m, below), rest));
    r = vm_per_lane(m, "vm_fmod", make_fmod, hard, 2, (V[]){a, d}, r);
    r = vm_sel(m, below, a, r);
    V last = vm_eq(m, d, zero);
    V right2 = vm_or(m, vm_eq(m, a, inf), last);
    V right3 = vm_nan(m, y);
    V bad = vm_or(m, vm_or(m, vm_nan(m, x), right3), right2);
    return vm_sel(m, bad, vm_k(m, NAN), vm_copysign(m, r, x));
}
