/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Element types in memory and in registers: conversions by bit operations (LLVM would call library functions for most),
 * by F16C instructions where the machine has them; and the word `cast`.
 *
 * Small floats are described by one table: exponent and mantissa bits, bias, and what the all-ones exponent means. The
 * conversions round to nearest even; subnormals are handled by adding a power of two whose last place is the type's
 * smallest step, so that neither they nor anything else depends on the flush-to-zero mode. 8-bit and 4-bit
 * floats saturate (ONNX's default).
 * Source for the technique: F. Giesen, "float->half variants", 2012.
 */
#include "compiler/emit/emit.h"

#define V LLVMValueRef

/* Specials: IEEE: all-ones exponent is infinity and NaN; FN: only all ones is NaN; FNUZ: only the sign bit alone is
 * NaN. */
enum special { IEEE, FN, FNUZ, FINITE };
struct small_float {
    enum tcc_dtype d;
    int exponent, mantissa, bias;
    enum special special;
    uint32_t largest;
};
static const struct small_float small_floats[] = {
    /*                     e  m  bias special largest finite value's bits */
    {TCC_F16, 5, 10, 15, IEEE, 0x7bff}, {TCC_F8E4M3FN, 4, 3, 7, FN, 0x7e},      {TCC_F8E4M3FNUZ, 4, 3, 8, FNUZ, 0x7f},
    {TCC_F8E5M2, 5, 2, 15, IEEE, 0x7b}, {TCC_F8E5M2FNUZ, 5, 2, 16, FNUZ, 0x7f}, {TCC_F4E2M1, 2, 1, 1, FINITE, 0x7},
};

static const struct small_float *small_float(enum tcc_dtype d)
{
    for (size_t i = 0; i < sizeof small_floats / sizeof *small_floats; i++)
        if (small_floats[i].d == d)
            return &small_floats[i];
    return NULL;
}

static LLVMTypeRef i32_like(struct em *e, V v)
{
    return em_like(e->t_i32, v);
}
static LLVMTypeRef f32_like(struct em *e, V v)
{
    return em_like(e->t_f32, v);
}
static V as_f32(struct em *e, V v)
{
    return LLVMBuildBitCast(e->b, v, f32_like(e, v), "");
}
static V as_i32(struct em *e, V v)
{
    return LLVMBuildBitCast(e->b, v, i32_like(e, v), "");
}
static V k32(struct em *e, V like, uint32_t c)
{
    return em_int(i32_like(e, like), (int64_t)c);
}
static V and32(struct em *e, V v, uint32_t c)
{
    return LLVMBuildAnd(e->b, v, k32(e, v, c), "");
}
static V or32(struct em *e, V v, uint32_t c)
{
    return LLVMBuildOr(e->b, v, k32(e, v, c), "");
}
static V add32(struct em *e, V v, uint32_t c)
{
    return LLVMBuildAdd(e->b, v, k32(e, v, c), "");
}
static V shl32(struct em *e, V v, int n)
{
    return LLVMBuildShl(e->b, v, k32(e, v, (uint32_t)n), "");
}
static V lshr32(struct em *e, V v, int n)
{
    return LLVMBuildLShr(e->b, v, k32(e, v, (uint32_t)n), "");
}
static V cmp32(struct em *e, LLVMIntPredicate p, V v, uint32_t c)
{
    return LLVMBuildICmp(e->b, p, v, k32(e, v, c), "");
}
static V select_(struct em *e, V c, V a, V b)
{
    return LLVMBuildSelect(e->b, c, a, b, "");
}

/* 2^n as a float's bits (normal range). */
static uint32_t power_bits(int n)
{
    return (uint32_t)(n + 127) << 23;
}

/* -- From bits ------------------------------------------------------------------------------------ */

/* b: i32 holding the type's bits. */
static V widen_small(struct em *e, const struct small_float *s, V b)
{
    uint32_t low = (1u << (s->exponent + s->mantissa)) - 1;
    V magnitude = and32(e, b, low), sign = shl32(e, and32(e, b, low + 1), 31 - s->exponent - s->mantissa);
    V normal = add32(e, shl32(e, magnitude, 23 - s->mantissa), (uint32_t)(127 - s->bias) << 23);
    /* Subnormal: the mantissa under a leading one, minus that one. */
    uint32_t one = power_bits(1 - s->bias);
    V with_one = or32(e, shl32(e, magnitude, 23 - s->mantissa), one);
    V tiny = LLVMBuildFSub(e->b, as_f32(e, with_one), em_fp(f32_like(e, b), __builtin_ldexp(1, 1 - s->bias)), "");
    LLVMValueRef as_i32_tiny = as_i32(e, tiny);
    V v = select_(e, cmp32(e, LLVMIntULT, magnitude, 1u << s->mantissa), as_i32_tiny, normal);
    if (s->special == IEEE) {
        V special = or32(e, shl32(e, magnitude, 23 - s->mantissa), 0x7f800000u);
        uint32_t top = ((1u << s->exponent) - 1) << s->mantissa;
        v = select_(e, cmp32(e, LLVMIntUGE, magnitude, top), special, v);
    } else if (s->special == FN) {
        v = select_(e, cmp32(e, LLVMIntEQ, magnitude, low), k32(e, b, 0x7fc00000u), v);
    }
    v = LLVMBuildOr(e->b, v, sign, "");
    if (s->special == FNUZ)
        v = select_(e, cmp32(e, LLVMIntEQ, and32(e, b, low * 2 + 1), low + 1), k32(e, b, 0x7fc00000u), v);
    return as_f32(e, v);
}

static V widen_e8m0(struct em *e, V b)
{
    LLVMValueRef as_exponent = shl32(e, b, 23);
    V v = select_(e, cmp32(e, LLVMIntEQ, b, 0), k32(e, b, 0x00400000u), as_exponent);
    return as_f32(e, select_(e, cmp32(e, LLVMIntEQ, b, 255), k32(e, b, 0x7fc00000u), v));
}

/* Element l of a scalar or vector; all of them as such again. */
static V lane_of(struct em *e, V v, int l)
{
    return em_lanes_of(v) == 1 ? v : LLVMBuildExtractElement(e->b, v, em_i64(e, l), "");
}

static V of_lanes(struct em *e, const V *lane, int n)
{
    V v = n == 1 ? lane[0] : LLVMGetPoison(em_vec(LLVMTypeOf(lane[0]), n));
    for (int l = 0; l < n && n > 1; l++)
        v = LLVMBuildInsertElement(e->b, v, lane[l], em_i64(e, l), "");
    return v;
}

/* Of bf16, two in a word of 32 bits: where a machine rounds them in pairs, they stay so on their way from and to
 * memory. */
static bool in_pairs(struct em *e, V v)
{
    return e->m->pair_bf16 && em_lanes_of(v) % 2 == 0 && em_lanes_of(v) <= 16;
}

/* The f32 of n bf16, whose words are word[]. */
static V widen_pairs(struct em *e, const V *word, int n)
{
    V lane[16];
    for (int l = 0; l < n; l++) {
        V w = word[l / 2];
        lane[l] = l % 2 ? and32(e, w, 0xffff0000u) : shl32(e, w, 16);
    }
    return as_f32(e, of_lanes(e, lane, n));
}

V em_from_bits(struct em *e, enum tcc_dtype d, V bits)
{
    if (d == TCC_BOOL)
        return LLVMBuildICmp(e->b, LLVMIntNE, bits, LLVMConstNull(LLVMTypeOf(bits)), "");
    if (!tcc_small_float(d))
        return bits;
    if (d == TCC_F16 && e->m->converts_f16) {
        V half = LLVMBuildBitCast(e->b, bits, em_like(LLVMHalfTypeInContext(e->lc), bits), "");
        return LLVMBuildFPExt(e->b, half, f32_like(e, bits), "");
    }
    if (d == TCC_BF16 && in_pairs(e, bits)) {
        int n = em_lanes_of(bits);
        V word[8], words = LLVMBuildBitCast(e->b, bits, em_vec(e->t_i32, n / 2), "");
        for (int l = 0; l < n / 2; l++)
            word[l] = lane_of(e, words, l);
        return widen_pairs(e, word, n);
    }
    V b = LLVMBuildZExt(e->b, bits, i32_like(e, bits), "");
    if (d == TCC_BF16)
        return as_f32(e, shl32(e, b, 16));
    if (d == TCC_F8E8M0)
        return widen_e8m0(e, b);
    return widen_small(e, small_float(d), b);
}

/* -- To bits --------------------------------------------------------------------------------------- */

/* f32 as the machine rounds them, in pairs, as f32 again. */
static V round_pairs(struct em *e, V v)
{
    int n = em_lanes_of(v);
    V word[8];
    for (int l = 0; l < n; l += 2) {
        LLVMValueRef high = n == 1 ? em_fp(e->t_f32, 0) : lane_of(e, v, l + 1);
        word[l / 2] = e->m->pair_bf16(e, lane_of(e, v, l), high);
    }
    return widen_pairs(e, word, n);
}

/* The words of f32 that are exact as bf16. */
static V words_of(struct em *e, V v)
{
    int n = em_lanes_of(v);
    V word[8], x = as_i32(e, v);
    for (int l = 0; l < n; l += 2) {
        LLVMValueRef upper_half = and32(e, lane_of(e, x, l + 1), 0xffff0000u);
        word[l / 2] = LLVMBuildOr(e->b, lshr32(e, lane_of(e, x, l), 16), upper_half, "");
    }
    return LLVMBuildBitCast(e->b, of_lanes(e, word, n / 2), em_vec(e->t_i16, n), "");
}

static V narrow_bf16(struct em *e, V x)
{
    V odd = and32(e, lshr32(e, x, 16), 1);
    V rounded = LLVMBuildAdd(e->b, add32(e, x, 0x7fff), odd, "");
    V number = as_f32(e, x), nan = LLVMBuildFCmp(e->b, LLVMRealUNO, number, number, "");
    return lshr32(e, select_(e, nan, or32(e, x, 0x00400000u), rounded), 16);
}

/* What comes of values beyond the largest, and of NaN, by the kind of type. a: |x|'s bits; r: rounded bits without
 * sign. FNUZ and FINITE types have their NaN (the latter: -0) without a sign of its own; narrow_small adds it. */
static V narrow_specials(struct em *e, const struct small_float *s, V a, V r, bool saturate)
{
    uint32_t low = (1u << (s->exponent + s->mantissa)) - 1, top = ((1u << s->exponent) - 1) << s->mantissa;
    V nan = cmp32(e, LLVMIntUGT, a, 0x7f800000u), high = cmp32(e, LLVMIntUGE, a, 0x7f800000u);
    high = LLVMBuildOr(e->b, high, cmp32(e, LLVMIntUGT, r, s->largest), "");
    /* f16 overflows to infinity, whose bits are one above the largest; f8e4m3fn without saturation to NaN, likewise. */
    uint32_t beyond = saturate || s->special == FINITE ? s->largest : s->largest + 1;
    r = select_(e, high, k32(e, a, beyond), r);
    uint32_t nan_bits = s->special == IEEE ? top | 1u << (s->mantissa - 1) : low;
    return s->special == FNUZ || s->special == FINITE ? r : select_(e, nan, k32(e, a, nan_bits), r);
}

/* x: f32's bits; returns the type's bits in i32. */
static V narrow_small(struct em *e, const struct small_float *s, V x, bool saturate)
{
    int drop = 23 - s->mantissa, width = s->exponent + s->mantissa;
    V a = and32(e, x, 0x7fffffffu), sign = and32(e, lshr32(e, x, 31 - width), 1u << width);
    V odd = and32(e, lshr32(e, a, drop), 1);
    V normal = add32(e, a, (1u << (drop - 1)) - 1 - ((uint32_t)(127 - s->bias) << 23));
    normal = lshr32(e, LLVMBuildAdd(e->b, normal, odd, ""), drop);
    /* Subnormal: adding 2^k puts the result's last place at the float's. */
    int k = 1 - s->bias - s->mantissa + 23;
    V moved = LLVMBuildFAdd(e->b, as_f32(e, a), em_fp(f32_like(e, x), __builtin_ldexp(1, k)), "");
    V tiny = add32(e, as_i32(e, moved), -power_bits(k));
    V r = select_(e, cmp32(e, LLVMIntULT, a, power_bits(1 - s->bias)), tiny, normal);
    /* Large values would wrap in `normal` only beyond the float's range, so that comparisons below see them. */
    r = narrow_specials(e, s, a, r, saturate);
    V bits = LLVMBuildOr(e->b, r, sign, "");
    if (s->special != FNUZ && s->special != FINITE)
        return bits;
    V nan = cmp32(e, LLVMIntUGT, a, 0x7f800000u);
    if (s->special == FNUZ) {
        if (!saturate)
            nan = LLVMBuildOr(e->b, nan, cmp32(e, LLVMIntUGT, r, s->largest), "");
        bits = select_(e, cmp32(e, LLVMIntEQ, r, 0), k32(e, x, 0), bits);
    }
    return select_(e, nan, k32(e, x, 1u << width), bits);
}

/* f8e8m0 drops the sign; infinities and NaN are 255. It rounds up unless told otherwise. */
static V narrow_e8m0(struct em *e, V x, int mode)
{
    V a = and32(e, x, 0x7fffffffu), exponent = lshr32(e, a, 23), more,
      any = cmp32(e, LLVMIntNE, and32(e, a, 0x7fffffu), 0);
    if (mode & EM_CAST_DOWN) {
        more = LLVMConstNull(LLVMTypeOf(any));
    } else if (mode & EM_CAST_NEAREST) {
        V half = cmp32(e, LLVMIntNE, and32(e, a, 0x400000u), 0), rest = cmp32(e, LLVMIntNE, and32(e, a, 0x3fffffu), 0);
        more = LLVMBuildAnd(e->b, half, LLVMBuildOr(e->b, rest, cmp32(e, LLVMIntUGT, exponent, 0), ""), "");
    } else {
        more = any;
    }
    if (!(mode & EM_CAST_WRAP))
        more = LLVMBuildAnd(e->b, more, cmp32(e, LLVMIntULT, exponent, 0xfe), "");
    V r = LLVMBuildAdd(e->b, exponent, LLVMBuildZExt(e->b, more, i32_like(e, x), ""), "");
    return select_(e, cmp32(e, LLVMIntEQ, exponent, 255), k32(e, x, 255), r);
}

static V to_bits(struct em *e, enum tcc_dtype d, V value, int mode)
{
    if (d == TCC_BOOL)
        return LLVMBuildZExt(e->b, value, em_like(e->t_i8, value), "");
    if (!tcc_small_float(d))
        return value;
    if (d == TCC_F16 && e->m->converts_f16) {
        V half = LLVMBuildFPTrunc(e->b, value, em_like(LLVMHalfTypeInContext(e->lc), value), "");
        return LLVMBuildBitCast(e->b, half, em_like(e->t_i16, value), "");
    }
    V x = as_i32(e, value), bits;
    if (d == TCC_BF16)
        bits = narrow_bf16(e, x);
    else if (d == TCC_F8E8M0)
        bits = narrow_e8m0(e, x, mode);
    else
        bits = narrow_small(e, small_float(d), x, d != TCC_F16 && !(mode & EM_CAST_WRAP));
    return LLVMBuildTrunc(e->b, bits, em_like(em_mem_type(e, d), value), "");
}

V em_to_bits(struct em *e, enum tcc_dtype d, V value)
{
    if (d == TCC_BF16 && in_pairs(e, value))
        return words_of(e, value);
    if (d == TCC_BF16)
        return LLVMBuildTrunc(e->b, lshr32(e, as_i32(e, value), 16), em_like(e->t_i16, value), "");
    return to_bits(e, d, value, EM_CAST_WRAP | EM_CAST_DOWN); /* exact in the type: an infinity stays one, 2^-127 too */
}

/* Its bits in i32 by the machine's own instruction; NULL: not here. */
static V flushed_bf16(struct em *e, V value)
{
    V v = e->flush && e->m->flushed_bf16 ? e->m->flushed_bf16(e, value) : NULL;
    return v ? LLVMBuildZExt(e->b, LLVMBuildBitCast(e->b, v, em_like(e->t_i16, value), ""), i32_like(e, value), "")
             : NULL;
}

static V round_by(struct em *e, enum tcc_dtype d, V value, int mode)
{
    if (!tcc_small_float(d))
        return value;
    V bits = d == TCC_BF16 ? flushed_bf16(e, value) : NULL;
    if (bits)
        return as_f32(e, shl32(e, bits, 16));
    if (d == TCC_BF16 && e->m->pair_bf16 && (em_lanes_of(value) == 1 || in_pairs(e, value)))
        return round_pairs(e, value);
    if (d == TCC_BF16)
        return as_f32(e, shl32(e, narrow_bf16(e, as_i32(e, value)), 16));
    return em_from_bits(e, d, to_bits(e, d, value, mode));
}

V em_round_to(struct em *e, enum tcc_dtype d, V value)
{
    return round_by(e, d, value, 0);
}

/* -- Casts --------------------------------------------------------------------------------------------- */

static int int_bits(enum tcc_dtype d)
{
    switch (d) {
    case TCC_U4:
    case TCC_I4: return 4;
    case TCC_U2:
    case TCC_I2: return 2;
    default: return 8 * tcc_dtype_bytes(d);
    }
}

V em_wrap(struct em *e, enum tcc_dtype d, V v)
{
    int bits = int_bits(d);
    if (bits >= 8)
        return v;
    LLVMTypeRef t = LLVMTypeOf(v);
    if (!tcc_is_signed(d))
        return LLVMBuildAnd(e->b, v, em_int(t, (1 << bits) - 1), "");
    V n = em_int(t, 8 - bits);
    return LLVMBuildAShr(e->b, LLVMBuildShl(e->b, v, n, ""), n, "");
}

/* f64 as f32 whose last bit says whether anything was cut off: rounded once more to a small float, it is what the f64
 * rounds to (to_odd() of ir/dtype.c). */
static V to_odd(struct em *e, V v)
{
    V f = LLVMBuildFPTrunc(e->b, v, f32_like(e, v), ""), back = LLVMBuildFPExt(e->b, f, LLVMTypeOf(v), "");
    V above = LLVMBuildFCmp(e->b, LLVMRealOGT, back, v, ""), below = LLVMBuildFCmp(e->b, LLVMRealOLT, back, v, "");
    V negative = LLVMBuildFCmp(e->b, LLVMRealOLT, v, LLVMConstNull(LLVMTypeOf(v)), ""), bits = as_i32(e, f);
    V away = LLVMBuildZExt(e->b, select_(e, negative, below, above), i32_like(e, f), "");
    V odd = or32(e, LLVMBuildSub(e->b, bits, away, ""), 1);
    return as_f32(e, select_(e, LLVMBuildOr(e->b, above, below, ""), odd, bits));
}

/* Small floats are reached through f32, as in the interpreter (ir/dtype.c). */
static V cast_float_float(struct em *e, enum tcc_dtype to, enum tcc_dtype from, V v, int mode)
{
    if (to == TCC_F64)
        return from == TCC_F64 ? v : LLVMBuildFPExt(e->b, v, em_like(e->t_f64, v), "");
    if (from == TCC_F64)
        v = tcc_small_float(to) ? to_odd(e, v) : LLVMBuildFPTrunc(e->b, v, f32_like(e, v), "");
    return to == from ? v : round_by(e, to, v, mode);
}

/* The least and the greatest number of an integer type of 8 or 16 bits. */
static double least(enum tcc_dtype d)
{
    return tcc_is_signed(d) ? -(double)(1 << (int_bits(d) - 1)) : 0;
}

static double greatest(enum tcc_dtype d)
{
    return (double)((1 << (int_bits(d) - tcc_is_signed(d))) - 1);
}

/* NaN gives lo. */
static V between(struct em *e, V v, double lo, double hi)
{
    V low = em_fp(LLVMTypeOf(v), lo), high = em_fp(LLVMTypeOf(v), hi);
    v = select_(e, LLVMBuildFCmp(e->b, LLVMRealOGT, v, low, ""), v, low);
    return select_(e, LLVMBuildFCmp(e->b, LLVMRealOLT, v, high, ""), v, high);
}

/* v where x is a number, else 0. */
static V of_number(struct em *e, V x, V v)
{
    return select_(e, LLVMBuildFCmp(e->b, LLVMRealUNO, x, x, ""), LLVMConstNull(LLVMTypeOf(v)), v);
}

/* To 8 or 16 bits by way of i32, in vectors (llvm.fpto*.sat takes such apart): what is out of range is cut off
 * before. NaN gives 0; where 0 is the lowest value, the comparison has seen to that. */
static V cast_float_short(struct em *e, enum tcc_dtype to, V v)
{
    V i = e->m->to_byte && int_bits(to) == 8 ? e->m->to_byte(e, to, v, 0, false) : NULL;
    if (i)
        return i;
    i = LLVMBuildFPToSI(e->b, between(e, v, least(to), greatest(to)), em_like(e->t_i32, v), "");
    i = tcc_is_signed(to) ? of_number(e, v, i) : i;
    return LLVMBuildTrunc(e->b, i, em_like(em_reg_type(e, to), v), "");
}

V em_quantise(struct em *e, enum tcc_dtype to, V y, double zero)
{
    LLVMTypeRef t = em_like(e->t_i32, y);
    double lo = least(to), hi = greatest(to);
    /* Below all others, and NaN, stays so when `zero` is added, where conversions give -2^31 for it. */
    bool saturates = e->m->narrows_saturated && int_bits(to) == 8 && zero >= 0 && em_lanes_of(y) > 1;
    V high = em_fp(LLVMTypeOf(y), hi - zero), i = NULL, x;
    V byte = e->m->to_byte && int_bits(to) == 8 ? e->m->to_byte(e, to, y, zero, true) : NULL;
    if (byte)
        return byte;
    x = saturates ? select_(e, LLVMBuildFCmp(e->b, LLVMRealOLT, high, y, ""), high, y)
                  : between(e, y, lo - zero, hi - zero);
    i = e->m->round_to_int ? e->m->round_to_int(e, x) : NULL;
    if (!i) {
        saturates = false;
        x = between(e, y, lo - zero, hi - zero);
        i = LLVMBuildFPToSI(e->b, em_unary_intrinsic(e, "llvm.roundeven", x), t, "");
    }
    i = LLVMBuildAdd(e->b, i, em_int(t, (int64_t)zero), "");
    i = tcc_is_signed(to) ? of_number(e, y, i) : i;
    if (saturates) { /* two instructions that pack with saturation */
        i = em_intrinsic(e, "llvm.smax", 1, &t, 2, (V[]){i, em_int(t, (int64_t)lo)});
        i = em_intrinsic(e, "llvm.smin", 1, &t, 2, (V[]){i, em_int(t, (int64_t)hi)});
    }
    return LLVMBuildTrunc(e->b, i, em_like(em_reg_type(e, to), y), "");
}

V em_cast_and_back(struct em *e, enum tcc_dtype by, V v, bool whole)
{
    V x = between(e, v, least(by), greatest(by));
    x = whole ? x : em_unary_intrinsic(e, "llvm.trunc", x);
    if (!tcc_is_signed(by))
        return x;
    return of_number(e, v, LLVMBuildFAdd(e->b, x, LLVMConstNull(LLVMTypeOf(x)), "")); /* -0 is 0 then */
}

/* Saturates; 4-bit and 2-bit integers saturate to i32 and then wrap. */
static V cast_float_int(struct em *e, enum tcc_dtype to, V v)
{
    bool narrow = int_bits(to) < 8, sign = narrow || tcc_is_signed(to);
    if (!narrow && int_bits(to) <= 16)
        return cast_float_short(e, to, v);
    LLVMTypeRef types[2] = {em_like(narrow ? e->t_i32 : em_reg_type(e, to), v), LLVMTypeOf(v)};
    v = em_intrinsic(e, sign ? "llvm.fptosi.sat" : "llvm.fptoui.sat", 2, types, 1, &v);
    return narrow ? em_wrap(e, to, LLVMBuildTrunc(e->b, v, em_like(e->t_i8, v), "")) : v;
}

static V cast_int_float(struct em *e, enum tcc_dtype to, enum tcc_dtype from, V v, int mode)
{
    LLVMTypeRef t = em_like(to == TCC_F64 ? e->t_f64 : e->t_f32, v);
    V f = tcc_is_signed(from) ? LLVMBuildSIToFP(e->b, v, t, "") : LLVMBuildUIToFP(e->b, v, t, "");
    return round_by(e, to, f, mode);
}

V em_cast(struct em *e, enum tcc_dtype to, enum tcc_dtype from, V v)
{
    return em_cast_by(e, to, from, v, 0);
}

V em_cast_by(struct em *e, enum tcc_dtype to, enum tcc_dtype from, V v, int mode)
{
    enum tcc_class a = tcc_dtype_class(from), b = tcc_dtype_class(to);
    if (to == from)
        return v;
    if (b == TCC_CLASS_BOOL) {
        if (a == TCC_CLASS_FLOAT)
            return LLVMBuildFCmp(e->b, LLVMRealUNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
        return LLVMBuildICmp(e->b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
    }
    if (a == TCC_CLASS_FLOAT)
        return b == TCC_CLASS_FLOAT ? cast_float_float(e, to, from, v, mode) : cast_float_int(e, to, v);
    if (b == TCC_CLASS_FLOAT)
        return cast_int_float(e, to, from, v, mode);
    LLVMTypeRef t = em_like(em_reg_type(e, to), v);
    if (a == TCC_CLASS_BOOL)
        return LLVMBuildZExt(e->b, v, t, "");
    return em_wrap(e, to, LLVMBuildIntCast2(e->b, v, t, tcc_is_signed(from), ""));
}
