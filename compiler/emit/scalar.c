/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Primitive scalar ops (ir/scalar.def) as LLVM instructions. A word is a row of one of the tables below: a direct
 * builder per class of type. Transcendental words are in vmath.c.
 */
#include "compiler/emit/emit.h"
#include "compiler/emit/vmath.h"
#include "base/mutant.h"

#define V LLVMValueRef

static V zero_like(V v)
{
    return LLVMConstNull(LLVMTypeOf(v));
}
static V select_(struct em *e, V c, V a, V b)
{
    return LLVMBuildSelect(e->b, c, a, b, "");
}

static V compare(struct em *e, enum ir_op op, enum tcc_dtype d, V a, V b)
{
    static const struct {
        enum ir_op op;
        LLVMRealPredicate f;
        LLVMIntPredicate s, u;
    } rows[] = {
        {IR_eq, LLVMRealOEQ, LLVMIntEQ, LLVMIntEQ},   {IR_ne, LLVMRealUNE, LLVMIntNE, LLVMIntNE},
        {IR_lt, LLVMRealOLT, LLVMIntSLT, LLVMIntULT}, {IR_le, LLVMRealOLE, LLVMIntSLE, LLVMIntULE},
        {IR_gt, LLVMRealOGT, LLVMIntSGT, LLVMIntUGT}, {IR_ge, LLVMRealOGE, LLVMIntSGE, LLVMIntUGE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].op != op)
            continue;
        if (tcc_is_float(d))
            return LLVMBuildFCmp(e->b, rows[i].f, a, b, "");
        return LLVMBuildICmp(e->b, tcc_is_signed(d) ? rows[i].s : rows[i].u, a, b, "");
    }
    return NULL;
}

/* Divisor with which the instruction can't trap: 1 where it is 0, or where lowest / -1 would overflow. */
static V safe_divisor(struct em *e, enum tcc_dtype d, V a, V b)
{
    LLVMTypeRef t = LLVMTypeOf(b);
    V bad = LLVMBuildICmp(e->b, LLVMIntEQ, b, zero_like(b), "");
    if (tcc_is_signed(d)) {
        V lowest = em_int(t, (int64_t)(1ull << (8 * tcc_dtype_bytes(d) - 1)));
        LLVMValueRef is_equal = LLVMBuildICmp(e->b, LLVMIntEQ, b, em_int(t, -1), "");
        V wraps = LLVMBuildAnd(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, a, lowest, ""), is_equal, "");
        bad = LLVMBuildOr(e->b, bad, wraps, "");
    }
    return select_(e, bad, em_int(t, 1), b);
}

static V int_divide(struct em *e, enum ir_op op, enum tcc_dtype d, V a, V b)
{
    bool sign = tcc_is_signed(d);
    V safe = safe_divisor(e, d, a, b), none = LLVMBuildICmp(e->b, LLVMIntEQ, b, zero_like(b), ""), r;
    if (op == IR_div) {
        r = sign ? LLVMBuildSDiv(e->b, a, safe, "") : LLVMBuildUDiv(e->b, a, safe, "");
    } else {
        r = sign ? LLVMBuildSRem(e->b, a, safe, "") : LLVMBuildURem(e->b, a, safe, "");
        if (MUTANT(90, op == IR_mod, false) && sign) {
            V differ = LLVMBuildICmp(e->b, LLVMIntSLT, LLVMBuildXor(e->b, r, safe, ""), zero_like(r), "");
            V odd = LLVMBuildAnd(e->b, differ, LLVMBuildICmp(e->b, LLVMIntNE, r, zero_like(r), ""), "");
            r = select_(e, odd, LLVMBuildAdd(e->b, r, safe, ""), r);
        }
    }
    return select_(e, none, zero_like(a), r);
}

/* Repeated squaring over the bits of the exponent; negative exponents give 0, but for bases 1 and -1. */
static V int_power(struct em *e, enum tcc_dtype d, V a, V b)
{
    LLVMTypeRef t = LLVMTypeOf(a);
    V one = em_int(t, 1), zero = em_int(t, 0), negative = NULL;
    V exponent = b;
    if (tcc_is_signed(d)) {
        /* |b| has the parity that decides for -1. */
        negative = LLVMBuildICmp(e->b, LLVMIntSLT, b, zero, "");
        exponent = select_(e, negative, LLVMBuildNeg(e->b, b, ""), b);
    }
    struct em_loop l;
    em_loop_begin(e, &l, em_below(e, em_i64(e, 8 * tcc_dtype_bytes(d))), em_i64(e, 1), "pow");
    V result = em_loop_carry(e, &l, one), base = em_loop_carry(e, &l, a), rest = em_loop_carry(e, &l, exponent);
    V odd = LLVMBuildICmp(e->b, LLVMIntNE, LLVMBuildAnd(e->b, rest, one, ""), zero, "");
    em_loop_next(&l, 0, select_(e, odd, LLVMBuildMul(e->b, result, base, ""), result));
    em_loop_next(&l, 1, LLVMBuildMul(e->b, base, base, ""));
    em_loop_next(&l, 2, LLVMBuildLShr(e->b, rest, one, ""));
    em_loop_end(e, &l);
    if (!negative)
        return result;
    V is_one = LLVMBuildICmp(e->b, LLVMIntEQ, a, one, ""),
      is_minus = LLVMBuildICmp(e->b, LLVMIntEQ, a, em_int(t, -1), "");
    LLVMValueRef either = LLVMBuildOr(e->b, is_one, is_minus, "");
    V keep = LLVMBuildOr(e->b, LLVMBuildNot(e->b, negative, ""), either, "");
    return select_(e, keep, result, zero);
}

/* Shifts by the width or more (negative counts are large unsigned ones) give 0, or copies of the sign. */
static V shift(struct em *e, enum ir_op op, enum tcc_dtype d, V a, V b)
{
    LLVMTypeRef t = LLVMTypeOf(a);
    int width = d == TCC_U4 || d == TCC_I4 ? 4 : d == TCC_U2 || d == TCC_I2 ? 2 : 8 * tcc_dtype_bytes(d);
    V fits = LLVMBuildICmp(e->b, LLVMIntULT, b, em_int(t, width), "");
    V n = select_(e, fits, b, em_int(t, width == 8 * tcc_dtype_bytes(d) ? width - 1 : width));
    if (op == IR_shr && tcc_is_signed(d))
        return LLVMBuildAShr(e->b, a, n, "");
    V r = op == IR_shl ? LLVMBuildShl(e->b, a, n, "") : LLVMBuildLShr(e->b, a, n, "");
    return MUTANT(92, select_(e, fits, r, em_int(t, 0)), r);
}

/* x < y or x is NaN ? x : y; the first comparison and select are one minps or maxps. */
static V extreme(struct em *e, bool min, enum tcc_dtype d, V a, V b)
{
    LLVMTypeRef t = LLVMTypeOf(a);
    if (e->m->passes_nan && tcc_is_float(d) && !e->fast_math)
        return em_intrinsic(e, min ? "llvm.minimum" : "llvm.maximum", 1, &t, 2, (V[]){a, b});
    V c = compare(e, min ? IR_lt : IR_gt, d, a, b), r = select_(e, c, a, b);
    if (MUTANT(91, !tcc_is_float(d), true) || e->fast_math)
        return r;
    return select_(e, LLVMBuildFCmp(e->b, LLVMRealUNO, a, a, ""), a, r);
}

static V sign_of(struct em *e, enum tcc_dtype d, V a)
{
    LLVMTypeRef t = LLVMTypeOf(a);
    V zero = zero_like(a);
    if (!tcc_is_float(d)) {
        V up = select_(e, compare(e, IR_gt, d, a, zero), em_int(t, 1), zero);
        return tcc_is_signed(d) ? select_(e, compare(e, IR_lt, d, a, zero), em_int(t, -1), up) : up;
    }
    V r = select_(e, compare(e, IR_gt, d, a, zero), em_fp(t, 1), zero);
    r = select_(e, compare(e, IR_lt, d, a, zero), em_fp(t, -1), r);
    return select_(e, LLVMBuildFCmp(e->b, LLVMRealUNO, a, a, ""), a, r);
}

static V absolute(struct em *e, enum tcc_dtype d, V a)
{
    if (tcc_is_float(d))
        return em_unary_intrinsic(e, "llvm.fabs", a);
    if (!tcc_is_signed(d))
        return a;
    LLVMValueRef chosen = LLVMBuildNeg(e->b, a, "");
    return select_(e, compare(e, IR_lt, d, a, zero_like(a)), chosen, a);
}

/* r = fmod(x, y), moved into the divisor's sign; a zero gets that sign too. */
static V float_mod(struct em *e, enum tcc_dtype d, V a, V b)
{
    V r = vm_scalar(e, IR_fmod, 2, (V[]){a, b}), zero = zero_like(r);
    LLVMTypeRef t = LLVMTypeOf(r);
    V low = compare(e, IR_lt, d, r, zero), negative = compare(e, IR_lt, d, b, zero);
    LLVMValueRef chosen = LLVMBuildFAdd(e->b, r, b, "");
    V moved = select_(e, LLVMBuildXor(e->b, low, negative, ""), chosen, r);
    V none = em_intrinsic(e, "llvm.copysign", 1, &t, 2, (V[]){zero, b});
    return select_(e, compare(e, IR_eq, d, r, zero), none, moved);
}

/* Integer arithmetic on the bits of the f32. */
static V dither(struct em *e, enum tcc_dtype d, V a, V b)
{
    V x = em_cast(e, TCC_F32, d, a), y = em_cast(e, TCC_F32, d, b);
    LLVMTypeRef t = em_like(e->t_i32, a);
    V bits = LLVMBuildBitCast(e->b, x, t, ""), infinite = em_int(t, 0x7F800000), r;
    V none = LLVMBuildICmp(e->b, LLVMIntEQ, LLVMBuildAnd(e->b, bits, infinite, ""), infinite, "");
    r = LLVMBuildAnd(e->b, LLVMBuildAdd(e->b, bits, em_cast(e, TCC_I32, TCC_F32, y), ""), em_int(t, -65536), "");
    r = LLVMBuildBitCast(e->b, r, LLVMTypeOf(x), "");
    return em_cast(e, d, TCC_F32, select_(e, none, x, r));
}

/* hi of a 32-bit product, in the low half of 64 bits: the operands' high halves are cut off, so this is one instruction
 * a vector. */
static V long_product(struct em *e, V a, uint64_t by)
{
    LLVMTypeRef t = LLVMTypeOf(a);
    return LLVMBuildMul(e->b, LLVMBuildAnd(e->b, a, em_int(t, 0xFFFFFFFF), ""), em_int(t, (int64_t)by), "");
}

/* Each lane computes its block. Words are in the low halves of 64 bits; what is in the high ones is cut off where it
 * matters. */
static V philox(struct em *e, enum tcc_dtype d, V x, V key, V z)
{
    enum tcc_dtype wide = TCC_U64;
    x = em_cast(e, wide, d, x), key = em_cast(e, wide, d, key), z = em_cast(e, wide, d, z);
    LLVMTypeRef t = LLVMTypeOf(x);
    V half = em_int(t, 32), low = em_int(t, 0xFFFFFFFF), two = em_int(t, 2);
    V c[4] = {LLVMBuildLShr(e->b, x, two, ""), LLVMBuildLShr(e->b, x, em_int(t, 34), ""), z,
              LLVMBuildLShr(e->b, z, half, "")};
    V k[2] = {key, LLVMBuildLShr(e->b, key, half, "")};
    for (int round = 0; round < 10; round++) {
        V a = long_product(e, c[0], 0xD2511F53), b = long_product(e, c[2], 0xCD9E8D57);
        LLVMValueRef flipped = LLVMBuildXor(e->b, c[1], k[0], "");
        c[0] = LLVMBuildXor(e->b, LLVMBuildLShr(e->b, b, half, ""), flipped, "");
        LLVMValueRef flipped_c3 = LLVMBuildXor(e->b, c[3], k[1], "");
        c[2] = LLVMBuildXor(e->b, LLVMBuildLShr(e->b, a, half, ""), flipped_c3, "");
        c[1] = b;
        c[3] = a;
        k[0] = LLVMBuildAdd(e->b, k[0], em_int(t, 0x9E3779B9), "");
        k[1] = LLVMBuildAdd(e->b, k[1], em_int(t, 0xBB67AE85), "");
    }
    V odd = LLVMBuildICmp(e->b, LLVMIntNE, LLVMBuildAnd(e->b, x, em_int(t, 1), ""), em_int(t, 0), "");
    V differs = LLVMBuildICmp(e->b, LLVMIntNE, LLVMBuildAnd(e->b, x, two, ""), em_int(t, 0), "");
    LLVMValueRef selected = select_(e, odd, c[1], c[0]);
    V word = select_(e, differs, select_(e, odd, c[3], c[2]), selected);
    return em_cast(e, d, wide, LLVMBuildAnd(e->b, word, low, ""));
}

/* Marks an operation as one whose rounding may be saved, and with --fast-math as one that may be written otherwise. */
static V bounded(struct em *e, V v)
{
    if (LLVMIsAInstruction(v) && LLVMCanValueUseFastMathFlags(v) && e->level > 0 && !e->exact) {
        LLVMFastMathFlags flags = LLVMFastMathAllowContract;
        if (e->fast_math)
            flags |= LLVMFastMathAllowReassoc | LLVMFastMathAllowReciprocal | LLVMFastMathNoSignedZeros;
        LLVMSetFastMathFlags(v, flags);
    }
    return v;
}

static bool is_product(V v)
{
    return LLVMIsAInstruction(v) && LLVMGetInstructionOpcode(v) == LLVMFMul &&
           LLVMGetFastMathFlags(v) & LLVMFastMathAllowContract;
}

/*
 * a + b, or a - b. A product among them is not rounded: one instruction does both. Of two it is the first, so that a
 * sum has the same bits in every kernel; LLVM would choose by what stands around it.
 */
static V sum(struct em *e, bool less, V a, V b)
{
    if (!e->fast_math && e->m->fma && is_product(a))
        return em_fma(e, LLVMGetOperand(a, 0), LLVMGetOperand(a, 1), less ? LLVMBuildFNeg(e->b, b, "") : b);
    if (!e->fast_math && e->m->fma && is_product(b)) {
        V x = LLVMGetOperand(b, 0);
        return em_fma(e, less ? LLVMBuildFNeg(e->b, x, "") : x, LLVMGetOperand(b, 1), a);
    }
    V v = less ? LLVMBuildFSub(e->b, a, b, "") : LLVMBuildFAdd(e->b, a, b, "");
    return e->fast_math ? bounded(e, v) : v;
}

static V float_op(struct em *e, enum ir_op op, enum tcc_dtype d, V a, V b)
{
    switch (op) {
    case IR_add:
    case IR_sub: return sum(e, op == IR_sub, a, b);
    case IR_mul: return bounded(e, LLVMBuildFMul(e->b, a, b, ""));
    case IR_div: return bounded(e, LLVMBuildFDiv(e->b, a, b, ""));
    case IR_mod: return float_mod(e, d, a, b);
    case IR_neg: return LLVMBuildFNeg(e->b, a, "");
    case IR_floor: return em_unary_intrinsic(e, "llvm.floor", a);
    case IR_ceil: return em_unary_intrinsic(e, "llvm.ceil", a);
    case IR_trunc: return em_unary_intrinsic(e, "llvm.trunc", a);
    case IR_round: return em_unary_intrinsic(e, "llvm.roundeven", a);
    case IR_sqrt: return em_unary_intrinsic(e, "llvm.sqrt", a);
    case IR_dither: return dither(e, d, a, b);
    case IR_isnan: return LLVMBuildFCmp(e->b, LLVMRealUNO, a, a, "");
    case IR_isinf:
        return LLVMBuildFCmp(e->b, LLVMRealOEQ, em_unary_intrinsic(e, "llvm.fabs", a),
                             em_fp(LLVMTypeOf(a), __builtin_inf()), "");
    default: return NULL;
    }
}

static V int_op(struct em *e, enum ir_op op, enum tcc_dtype d, V a, V b)
{
    switch (op) {
    case IR_add: return LLVMBuildAdd(e->b, a, b, "");
    case IR_sub: return LLVMBuildSub(e->b, a, b, "");
    case IR_mul: return LLVMBuildMul(e->b, a, b, "");
    case IR_div:
    case IR_mod:
    case IR_fmod: return int_divide(e, op, d, a, b);
    case IR_pow: return int_power(e, d, a, b);
    case IR_neg: return LLVMBuildNeg(e->b, a, "");
    case IR_and: return LLVMBuildAnd(e->b, a, b, "");
    case IR_or: return LLVMBuildOr(e->b, a, b, "");
    case IR_xor: return LLVMBuildXor(e->b, a, b, "");
    case IR_not: return LLVMBuildNot(e->b, a, "");
    case IR_shl:
    case IR_shr: return shift(e, op, d, a, b);
    case IR_floor:
    case IR_ceil:
    case IR_trunc:
    case IR_round: return a;
    case IR_isnan:
    case IR_isinf: return LLVMConstNull(em_like(e->t_i1, a));
    default: return NULL;
    }
}

V em_scalar(struct em *e, enum ir_op op, enum tcc_dtype d, int nargs, V *args)
{
    V a = args[0], b = nargs > 1 ? args[1] : NULL, v;
    switch (op) {
    case IR_select: return select_(e, a, b, args[2]);
    case IR_min:
    case IR_max: return extreme(e, op == IR_min, d, a, b);
    case IR_abs: return absolute(e, d, a);
    case IR_sign: return sign_of(e, d, a);
    case IR_philox: return philox(e, d, a, b, args[2]);
    default: break;
    }
    v = compare(e, op, d, a, b);
    if (!v)
        v = tcc_is_float(d) ? float_op(e, op, d, a, b) : em_wrap(e, d, int_op(e, op, d, a, b));
    return v ? v : vm_scalar(e, op, nargs, args);
}
