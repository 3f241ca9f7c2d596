/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on rows of 32 lanes: plain loops that the C compiler vectorises. The file is compiled once for the host's
 * base instruction set and once more for AVX2 and FMA (PTX_ROWS names the table); all lanes are computed, the caller
 * keeps the active ones. A destination may be one of the sources.
 */
#include <math.h>

#include "sim/ptx/ptx_int.h"
#include "sim/ptx/rows_words.h"

#ifndef PTX_ROWS
#define PTX_ROWS ptx_rows_base
#endif

#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed" /* quotients and calls stay scalar, which is right too */
#define LOOP _Pragma("clang loop vectorize(assume_safety)") for (int i = 0; i < LANES; i++)
#else
#define LOOP _Pragma("GCC ivdep") for (int i = 0; i < LANES; i++)
#endif

#define SIGNED ((T)-1 < (T)1)
#define NEGATIVE(x) (SIGNED && (x) < (T)1 && (x))
#define IS_MINUS1(y) (SIGNED && (y) == (T)-1)

#define LOW24(x) ((T)((T)((x) << 8) >> 8)) /* 24 bits, extended as the type says */

/* div.approx: 0 for a divisor beyond 2^126, NaN where the dividend is infinite then (PTX ISA, div). */
static inline float approx_div(float x, float y)
{
    float a = fabsf(y);
    return a > 0x1p126f && a < INFINITY ? (isinf(x) ? NAN : copysignf(0, x * copysignf(1, y))) : x / y;
}

static inline float fma_f32(float x, float y, float z)
{
    return fmaf(x, y, z);
}
static inline double fma_f64(double x, double y, double z)
{
    return fma(x, y, z);
}
#define FMA(x, y, z) _Generic((x), float : fma_f32, double : fma_f64)(x, y, z)
#define SQRT(x) _Generic((x), float : sqrtf, double : sqrt)(x)
#define NAN_OF(T) ((T)NAN)
#define MIN(x, y) ((x) != (x) ? (y) : (y) != (y) ? (x) : (x) < (y) || ((x) == (y) && signbit(x)) ? (x) : (y))
#define MAX(x, y) ((x) != (x) ? (y) : (y) != (y) ? (x) : (x) > (y) || ((x) == (y) && !signbit(x)) ? (x) : (y))
#define BIT_ABS(x) ((x) & (T)((T)-1 >> 1))
#define BIT_NEG(x) ((x) ^ (T)((T)1 << (8 * sizeof(T) - 1)))

/* -- 16-bit floats: exact in double, rounded once. A sum is made odd where it is inexact, so that the second rounding
 * is right. -- */

static double odd_sum(double a, double b)
{
    double s = a + b, t = s - a, err = (a - (s - t)) + (b - t);
    uint64_t bits;
    if (err == 0 || !isfinite(s))
        return s;
    memcpy(&bits, &s, 8);
    if (!(bits & 1))
        bits += (err > 0) == (s > 0) ? 1 : UINT64_MAX;
    memcpy(&s, &bits, 8);
    return s;
}

enum half_op { H_ADD, H_SUB, H_MUL, H_FMA, H_MIN, H_MAX, H_MINN, H_MAXN, H_EX2, H_TANH, H_RELU };

static double half_value(enum half_op op, double x, double y, double z)
{
    switch (op) {
    case H_ADD: return odd_sum(x, y);
    case H_SUB: return odd_sum(x, -y);
    case H_MUL: return x * y;
    case H_FMA: return odd_sum(x * y, z);
    case H_MIN: return MIN(x, y);
    case H_MAX: return MAX(x, y);
    case H_MINN: return isnan(x) || isnan(y) ? NAN : MIN(x, y);
    case H_MAXN: return isnan(x) || isnan(y) ? NAN : MAX(x, y);
    case H_EX2: return exp2(x);
    case H_TANH: return tanh(x);
    case H_RELU: {
        double v = odd_sum(x * y, z);
        return v < 0 ? 0 : v;
    }
    }
    return 0;
}

static uint16_t half_lane(enum half_op op, bool bf, uint16_t a, uint16_t b, uint16_t c)
{
    double v = bf ? half_value(op, ptx_bf16_to_double(a), ptx_bf16_to_double(b), ptx_bf16_to_double(c))
                  : half_value(op, ptx_half_to_double(a), ptx_half_to_double(b), ptx_half_to_double(c));
    return bf ? ptx_double_to_bf16(v, 0) : ptx_double_to_half(v, 0);
}

static void half_row(enum half_op op, bool bf, int n, void *d_, const void *a_, const void *b_, const void *c_)
{
    uint16_t *d = d_;
    const uint16_t *a = a_, *b = b_ ? b_ : a_, *c = c_ ? c_ : a_;
    for (int i = 0; i < n; i++)
        d[i] = half_lane(op, bf, a[i], b[i], c[i]);
}

#define HALF(op, id)                                                              \
    static void id##_F16(void *d, const void *a, const void *b, const void *c)    \
    {                                                                             \
        half_row(op, false, LANES, d, a, b, c);                                   \
    }                                                                             \
    static void id##_BF16(void *d, const void *a, const void *b, const void *c)   \
    {                                                                             \
        half_row(op, true, LANES, d, a, b, c);                                    \
    }                                                                             \
    static void id##_F16X2(void *d, const void *a, const void *b, const void *c)  \
    {                                                                             \
        half_row(op, false, 2 * LANES, d, a, b, c);                               \
    }                                                                             \
    static void id##_BF16X2(void *d, const void *a, const void *b, const void *c) \
    {                                                                             \
        half_row(op, true, 2 * LANES, d, a, b, c);                                \
    }
HALF(H_ADD, hadd)
HALF(H_SUB, hsub)
HALF(H_MUL, hmul)
HALF(H_FMA, hfma)
HALF(H_MIN, hmin)
HALF(H_MAX, hmax)
HALF(H_MINN, hminn)
HALF(H_MAXN, hmaxn)
HALF(H_EX2, hex2)
HALF(H_TANH, htanh)
HALF(H_RELU, hrelu)

#define HALF_BITS(id, expr16, expr32)                                                \
    static void id##_F16(void *d_, const void *a_, const void *b_, const void *c_)   \
    {                                                                                \
        uint16_t *d = d_;                                                            \
        const uint16_t *a = a_;                                                      \
        (void)b_, (void)c_;                                                          \
        LOOP d[i] = (uint16_t)(a[i] expr16);                                         \
    }                                                                                \
    static void id##_F16X2(void *d_, const void *a_, const void *b_, const void *c_) \
    {                                                                                \
        uint32_t *d = d_;                                                            \
        const uint32_t *a = a_;                                                      \
        (void)b_, (void)c_;                                                          \
        LOOP d[i] = a[i] expr32;                                                     \
    }
HALF_BITS(habs, &0x7fff, &0x7fff7fff)
HALF_BITS(hneg, ^0x8000, ^0x80008000)

/* -- Two integers of 16 bits in a register (PTX ISA: add, min and max from sm_90 on) -- */

#define PAIR(id, T, expr)                                                    \
    static void id(void *d_, const void *a_, const void *b_, const void *c_) \
    {                                                                        \
        T *d = d_;                                                           \
        const T *a = a_, *b = b_;                                            \
        (void)c_;                                                            \
        for (int i = 0; i < 2 * LANES; i++) {                                \
            T x = a[i], y = b[i];                                            \
            d[i] = (T)(expr);                                                \
        }                                                                    \
    }
PAIR(add_x2, uint16_t, x + y)
PAIR(min_u16x2, uint16_t, x < y ? x : y)
PAIR(max_u16x2, uint16_t, x > y ? x : y)
PAIR(min_s16x2, int16_t, x < y ? x : y)
PAIR(max_s16x2, int16_t, x > y ? x : y)
PAIR(min_relu_s16x2, int16_t, x < 0 || y < 0 ? 0 : x < y ? x : y)
PAIR(max_relu_s16x2, int16_t, x < 0 && y < 0 ? 0 : x > y ? x : y)

/* -- The table -- */

/* Lists of types: M(id, PTX type, C type, C type twice as wide) */
#define U16_(M, id) M(id, U16, uint16_t, uint32_t)
#define S16_(M, id) M(id, S16, int16_t, int32_t)
#define U32_(M, id) M(id, U32, uint32_t, uint64_t)
#define S32_(M, id) M(id, S32, int32_t, int64_t)
#define U64_(M, id) M(id, U64, uint64_t, __uint128_t)
#define S64_(M, id) M(id, S64, int64_t, __int128_t)
#define B16_(M, id) M(id, B16, uint16_t, uint32_t)
#define B32_(M, id) M(id, B32, uint32_t, uint64_t)
#define B64_(M, id) M(id, B64, uint64_t, __uint128_t)
#define NARROW(M, id) U16_(M, id) S16_(M, id) U32_(M, id) S32_(M, id)
#define INTS(M, id) NARROW(M, id) U64_(M, id) S64_(M, id)
#define SINTS(M, id) S16_(M, id) S32_(M, id) S64_(M, id)
#define BITS(M, id) B16_(M, id) B32_(M, id) B64_(M, id)
#define I32(M, id) U32_(M, id) S32_(M, id)
#define SHIFTS(M, id) BITS(M, id) INTS(M, id)
#define MOVES(M, id) BITS(M, id) INTS(M, id) F32B(M, id) F64B(M, id) M(id, B128, __uint128_t, __uint128_t)
#define F32B(M, id) M(id, F32, uint32_t, uint64_t)
#define F64B(M, id) M(id, F64, uint64_t, uint64_t)
#define S32_ONLY(M, id) S32_(M, id)
#define B32_ONLY(M, id) B32_(M, id)
#define FLOATS(M, id) M(id, F32, float, double) M(id, F64, double, double)
#define F32_ONLY(M, id) M(id, F32, float, double)
#define SIGN_OPS(M, id) F32B(M, id) F64B(M, id)
#define BIT_COUNT(M, id) B32_(M, id) B64_(M, id)
#define BFIND(M, id) I32(M, id) U64_(M, id) S64_(M, id)

/* f32 results are canonical where they are NaN; the others keep what the host makes. */
static inline float fix_nan(float v)
{
    return v != v ? __builtin_nanf("0x3fffff") : v;
}
#define FIX(v) _Generic((v), float : fix_nan((float)(v)), default : (v))

#define USE_2 const T *b = b_;
#define USE_3        \
    const T *b = b_; \
    const Z *c = c_;
#define BODY_1 T x = a[i];
#define BODY_2 T x = a[i], y = b[i];
#define BODY_3            \
    T x = a[i], y = b[i]; \
    Z z = c[i];           \
    (void)y;
#define BODY_SHIFT \
    T x = a[i];    \
    uint32_t y = n[i];
#define ROW(name, PT, T_, W_, R, Z_, expr, USE, BODY)                                 \
    static void name##_##PT(void *d_, const void *a_, const void *b_, const void *c_) \
    {                                                                                 \
        typedef T_ T;                                                                 \
        typedef W_ W;                                                                 \
        typedef Z_ Z;                                                                 \
        R *d = d_;                                                                    \
        const T *a = a_;                                                              \
        USE(void) b_, (void)c_, (void)(W)0, (void)(Z)0;                               \
        LOOP                                                                          \
        {                                                                             \
            BODY d[i] = FIX(expr);                                                    \
        }                                                                             \
    }
#define OPEN(...) __VA_ARGS__
#define ROW1(idexpr, PT, T, W) ROW1_(OPEN idexpr, PT, T, W)
#define ROW2(idexpr, PT, T, W) ROW2_(OPEN idexpr, PT, T, W)
#define ROW3(idexpr, PT, T, W) ROW3_(OPEN idexpr, PT, T, W)
#define ROWW2(idexpr, PT, T, W) ROWW2_(OPEN idexpr, PT, T, W)
#define ROWW3(idexpr, PT, T, W) ROWW3_(OPEN idexpr, PT, T, W)
#define ROWC(idexpr, PT, T, W) ROWC_(OPEN idexpr, PT, T, W)
#define ROWS(idexpr, PT, T, W) ROWS_(OPEN idexpr, PT, T, W)
#define ROW1_(...) ROW1__(__VA_ARGS__)
#define ROW2_(...) ROW2__(__VA_ARGS__)
#define ROW3_(...) ROW3__(__VA_ARGS__)
#define ROWW2_(...) ROWW2__(__VA_ARGS__)
#define ROWW3_(...) ROWW3__(__VA_ARGS__)
#define ROWC_(...) ROWC__(__VA_ARGS__)
#define ROWS_(...) ROWS__(__VA_ARGS__)
#define ROW1__(id, expr, PT, T, W) ROW(id, PT, T, W, T, T, expr, , BODY_1)
#define ROW2__(id, expr, PT, T, W) ROW(id, PT, T, W, T, T, expr, USE_2, BODY_2)
#define ROW3__(id, expr, PT, T, W) ROW(id, PT, T, W, T, T, expr, USE_3, BODY_3)
#define ROWW2__(id, expr, PT, T, W) ROW(id, PT, T, W, W, T, expr, USE_2, BODY_2)
#define ROWW3__(id, expr, PT, T, W) ROW(id, PT, T, W, W, W, expr, USE_3, BODY_3)
#define ROWC__(id, expr, PT, T, W) ROW(id, PT, T, W, uint32_t, T, expr, , BODY_1)
#define ROWS__(id, expr, PT, T, W) ROW(id, PT, T, W, T, T, expr, const uint32_t *n = b_;, BODY_SHIFT)

#define OP1(id, name, types, expr) types(ROW1, (r_##id, expr))
#define OP2(id, name, types, expr) types(ROW2, (r_##id, expr))
#define OP3(id, name, types, expr) types(ROW3, (r_##id, expr))
#define WIDE2(id, name, types, expr) types(ROWW2, (r_##id, expr))
#define WIDE3(id, name, types, expr) types(ROWW3, (r_##id, expr))
#define COUNT1(id, name, types, expr) types(ROWC, (r_##id, expr))
#define SHIFT(id, name, types, expr) types(ROWS, (r_##id, expr))
#include "sim/ptx/rows.def"
#undef OP1
#undef OP2
#undef OP3
#undef WIDE2
#undef WIDE3
#undef COUNT1
#undef SHIFT

/* `bytes`: of a lane of the result; 0: as its operands. */
struct entry {
    const char *name;
    uint8_t nsrc, bytes; /* bytes: 1 as its operands, 2 twice as wide, 4 four bytes */
    ptx_row_fn *by_type[PT_COUNT];
};
#define AT(id, PT, T, W) [PT_##PT] = id##_##PT,
#define OP1(id, name, types, expr) {name, 1, 1, {types(AT, r_##id)}},
#define OP2(id, name, types, expr) {name, 2, 1, {types(AT, r_##id)}},
#define OP3(id, name, types, expr) {name, 3, 1, {types(AT, r_##id)}},
#define WIDE2(id, name, types, expr) {name, 2, 2, {types(AT, r_##id)}},
#define WIDE3(id, name, types, expr) {name, 3, 2, {types(AT, r_##id)}},
#define COUNT1(id, name, types, expr) {name, 1, 4, {types(AT, r_##id)}},
#define SHIFT(id, name, types, expr) {name, 2, 1, {types(AT, r_##id)}},
#define HALVES(id) [PT_F16] = id##_F16, [PT_BF16] = id##_BF16, [PT_F16X2] = id##_F16X2, [PT_BF16X2] = id##_BF16X2
#define HALF_ONLY(id) [PT_F16] = id##_F16, [PT_BF16] = id##_F16, [PT_F16X2] = id##_F16X2, [PT_BF16X2] = id##_F16X2
static const struct entry entries[] = {
#include "sim/ptx/rows.def"
    {"add", 2, 1, {HALVES(hadd)}},
    {"sub", 2, 1, {HALVES(hsub)}},
    {"mul", 2, 1, {HALVES(hmul)}},
    {"fma", 3, 1, {HALVES(hfma)}},
    {"fma.relu", 3, 1, {HALVES(hrelu)}},
    {"min", 2, 1, {HALVES(hmin)}},
    {"max", 2, 1, {HALVES(hmax)}},
    {"min.NaN", 2, 1, {HALVES(hminn)}},
    {"max.NaN", 2, 1, {HALVES(hmaxn)}},
    {"abs", 1, 1, {HALF_ONLY(habs)}},
    {"neg", 1, 1, {HALF_ONLY(hneg)}},
    {"ex2.approx", 1, 1, {HALVES(hex2)}},
    {"tanh.approx", 1, 1, {HALVES(htanh)}},
    {"add", 2, 1, {[PT_U16X2] = add_x2, [PT_S16X2] = add_x2}},
    {"min", 2, 1, {[PT_U16X2] = min_u16x2, [PT_S16X2] = min_s16x2}},
    {"max", 2, 1, {[PT_U16X2] = max_u16x2, [PT_S16X2] = max_s16x2}},
    {"min.relu", 2, 1, {[PT_S16X2] = min_relu_s16x2}},
    {"max.relu", 2, 1, {[PT_S16X2] = max_relu_s16x2}},
};

static ptx_row_fn *find(const char *name, enum ptx_type type, int *nsrc, int *bytes)
{
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        if (entries[i].by_type[type] && strcmp(entries[i].name, name) == 0) {
            *nsrc = entries[i].nsrc;
            *bytes = entries[i].bytes == 4 ? 4 : ptx_types[type].bytes * entries[i].bytes;
            return entries[i].by_type[type];
        }
    return NULL;
}

/* -- Comparisons -- */

#define CMP(id, PT, T, expr)                                      \
    static uint32_t c_##id##_##PT(const void *a_, const void *b_) \
    {                                                             \
        const T *a = a_, *b = b_;                                 \
        uint32_t m = 0;                                           \
        for (int i = 0; i < LANES; i++) {                         \
            T x = a[i], y = b[i];                                 \
            m |= (uint32_t)(expr) << i;                           \
        }                                                         \
        return m;                                                 \
    }
#define UNORDERED(x, y) ((x) != (x) || (y) != (y))
#define EQUALS(M) M(eq, x == y) M(ne, x != y)
#define ORDERS(M) EQUALS(M) M(lt, x < y) M(le, x <= y) M(gt, x > y) M(ge, x >= y)
#define ORDERED(M) M(eq, x == y) M(ne, x != y && !UNORDERED(x, y)) M(lt, x < y) M(le, x <= y) M(gt, x > y) M(ge, x >= y)
#define OR_NAN(M) M(ltu, !(x >= y)) M(leu, !(x > y)) M(gtu, !(x <= y)) M(geu, !(x < y)) M(neu, x != y)
#define OF_NAN(M) M(equ, x == y || UNORDERED(x, y)) M(num, !UNORDERED(x, y)) M(nan, UNORDERED(x, y))
#define FLOAT_ORDERS(M) ORDERED(M) OR_NAN(M) OF_NAN(M)
#define M(op, expr)              \
    CMP(op, U16, uint16_t, expr) \
    CMP(op, S16, int16_t, expr)  \
    CMP(op, U32, uint32_t, expr) CMP(op, S32, int32_t, expr) CMP(op, U64, uint64_t, expr) CMP(op, S64, int64_t, expr)
ORDERS(M)
#undef M
#define M(op, expr) CMP(op, F32, float, expr) CMP(op, F64, double, expr)
FLOAT_ORDERS(M)
#undef M

struct compare {
    const char *name;
    ptx_cmp_fn *by_type[PT_COUNT];
};
static const struct compare compares[] = {
#define UNSIGNED_OF(op) [PT_U16] = c_##op##_U16, [PT_U32] = c_##op##_U32, [PT_U64] = c_##op##_U64
#define SIGNED_OF(op) [PT_S16] = c_##op##_S16, [PT_S32] = c_##op##_S32, [PT_S64] = c_##op##_S64
#define BITS_OF(op) [PT_B16] = c_##op##_U16, [PT_B32] = c_##op##_U32, [PT_B64] = c_##op##_U64
#define FLOATS_OF(op) [PT_F32] = c_##op##_F32, [PT_F64] = c_##op##_F64
    {"eq", {UNSIGNED_OF(eq), SIGNED_OF(eq), BITS_OF(eq), FLOATS_OF(eq)}},
    {"ne", {UNSIGNED_OF(ne), SIGNED_OF(ne), BITS_OF(ne), FLOATS_OF(ne)}},
    {"lt", {UNSIGNED_OF(lt), SIGNED_OF(lt), FLOATS_OF(lt)}},
    {"le", {UNSIGNED_OF(le), SIGNED_OF(le), FLOATS_OF(le)}},
    {"gt", {UNSIGNED_OF(gt), SIGNED_OF(gt), FLOATS_OF(gt)}},
    {"ge", {UNSIGNED_OF(ge), SIGNED_OF(ge), FLOATS_OF(ge)}},
    {"lo", {UNSIGNED_OF(lt)}},
    {"ls", {UNSIGNED_OF(le)}},
    {"hi", {UNSIGNED_OF(gt)}},
    {"hs", {UNSIGNED_OF(ge)}},
#define M(op, expr) {#op, {FLOATS_OF(op)}},
    M(equ, ) M(neu, ) M(ltu, ) M(leu, ) M(gtu, ) M(geu, ) M(num, ) M(nan, )
#undef M
};

static ptx_cmp_fn *compare(const char *name, enum ptx_type type)
{
    for (size_t i = 0; i < sizeof compares / sizeof *compares; i++)
        if (compares[i].by_type[type] && strcmp(compares[i].name, name) == 0)
            return compares[i].by_type[type];
    return NULL;
}

/* -- Masks and modes -- */

#define BLEND(T)                    \
    for (int l = 0; l < LANES; l++) \
        ((T *)d)[l] = mask >> l & 1 ? ((const T *)t)[l] : ((T *)d)[l];

static void blend(void *d, const void *t, uint32_t mask, int bytes)
{
    switch (bytes) {
    case 2: BLEND(uint16_t) break;
    case 4: BLEND(uint32_t) break;
    case 8: BLEND(uint64_t) break;
    default: BLEND(__uint128_t)
    }
}

static void flush(void *d_, const void *a_, enum ptx_type type)
{
    if (type == PT_F32) {
        uint32_t *d = d_;
        const uint32_t *a = a_;
        LOOP d[i] = a[i] & 0x7f800000 ? a[i] : a[i] & 0x80000000;
    } else if (type == PT_F16 || type == PT_F16X2) {
        uint16_t *d = d_;
        const uint16_t *a = a_;
        for (int i = 0; i < (type == PT_F16 ? LANES : 2 * LANES); i++)
            d[i] = a[i] & 0x7c00 ? a[i] : a[i] & 0x8000;
    } else if (d_ != a_) {
        memcpy(d_, a_, (size_t)LANES * ptx_types[type].bytes);
    }
}

static void saturate(void *d_, enum ptx_type type)
{
    if (type == PT_F32 || type == PT_F64)
        for (int i = 0; i < LANES; i++)
            if (type == PT_F32)
                ((float *)d_)[i] = ((float *)d_)[i] > 0 ? ((float *)d_)[i] < 1 ? ((float *)d_)[i] : 1 : 0;
            else
                ((double *)d_)[i] = ((double *)d_)[i] > 0 ? ((double *)d_)[i] < 1 ? ((double *)d_)[i] : 1 : 0;
    else
        for (int i = 0; i < (ptx_types[type].bytes == 2 ? LANES : 2 * LANES); i++) {
            uint16_t *h = (uint16_t *)d_ + i, one = type == PT_BF16 || type == PT_BF16X2 ? 0x3f80 : 0x3c00;
            uint16_t infinity = one == 0x3f80 ? 0x7f80 : 0x7c00;
            *h = *h & 0x8000 || *h > infinity ? 0 : *h > one ? one : *h;
        }
}

/* Rounds the magnitude to nearest, ties away from zero or to even; infinities and NaN stay. */
static void tf32(void *d_, const void *a_, bool away)
{
    uint32_t *d = d_;
    const uint32_t *a = a_;
    LOOP
    {
        uint32_t v = a[i], up = 0xfff + (away ? 1 : v >> 13 & 1);
        d[i] = (v & 0x7f800000) == 0x7f800000 ? v : (v + up) & ~UINT32_C(0x1fff);
    }
}

/* -- Factors and sums -- */

static inline double half_to_double(uint16_t h) /* 2^112: what the exponents' biases differ by */
{
    uint32_t bits = (uint32_t)(h & 0x7fff) << 13, special;
    float f;
    memcpy(&f, &bits, 4);
    f *= 0x1p112f;
    memcpy(&special, &f, 4);
    special = (h & 0x7c00) == 0x7c00 ? bits | 0x7f800000 : special;
    special |= (uint32_t)(h & 0x8000) << 16;
    memcpy(&f, &special, 4);
    return f;
}

static inline double word_to_double(uint32_t v)
{
    float f;
    memcpy(&f, &v, 4);
    return f;
}

#define WIDEN(T, expr)               \
    for (int i = 0; i < n; i++) {    \
        T v = ((const T *)from_)[i]; \
        to[i] = expr;                \
    }                                \
    break;

static void widen(double *restrict to, const void *restrict from_, int n, enum ptx_type type)
{
    switch (type) {
    case PT_F16: WIDEN(uint16_t, half_to_double(v))
    case PT_BF16: WIDEN(uint16_t, word_to_double((uint32_t)v << 16))
    case PT_TF32: WIDEN(uint32_t, word_to_double(v & 0xffffe000)) /* the low 13 bits are ignored */
    case PT_F32: WIDEN(float, v)
    case PT_S8: WIDEN(int8_t, v)
    case PT_U8: WIDEN(uint8_t, v)
    default:
        for (int i = 0; i < n; i++)
            to[i] = ptx_fp8_to_double(((const uint8_t *)from_)[i], type == PT_E5M2);
    }
}

static void narrow(float *restrict to, const double *restrict from, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = fix_nan((float)from[i]);
}

/* ROWS rows of A by 8 columns: the sums stay in registers. */
typedef double eight __attribute__((vector_size(64), aligned(8)));
#define BLOCK(ROWS)                                             \
    for (int column = 0; column < n; column += 8) {             \
        eight s[ROWS];                                          \
        for (int r = 0; r < ROWS; r++)                          \
            memcpy(&s[r], sum + r * n + column, sizeof(eight)); \
        for (int t = 0; t < k; t++) {                           \
            eight v;                                            \
            memcpy(&v, b + t * n + column, sizeof v);           \
            for (int r = 0; r < ROWS; r++)                      \
                s[r] += a[r * 64 + t] * v;                      \
        }                                                       \
        for (int r = 0; r < ROWS; r++)                          \
            memcpy(sum + r * n + column, &s[r], sizeof(eight)); \
    }

static void product(int m, int n, int k, const double *a, const double *b, double *sum)
{
    for (int row = 0; row < m; row += 4, a += 4 * 64, sum += 4 * n)
        BLOCK(4)
}

static void extent(const uint64_t *address, uint32_t mask, uint64_t out[3])
{
    int64_t first = (int64_t)address[__builtin_ctz(mask)], lo = first, hi = first, bits = first;
    if (mask == FULL) {
        for (int l = 0; l < LANES; l++) {
            int64_t v = (int64_t)address[l];
            lo = v < lo ? v : lo;
            hi = v > hi ? v : hi;
            bits |= v;
        }
    } else {
        for (int l = 0; l < LANES; l++) {
            int64_t v = mask >> l & 1 ? (int64_t)address[l] : first;
            lo = v < lo ? v : lo;
            hi = v > hi ? v : hi;
            bits |= v;
        }
    }
    out[0] = (uint64_t)lo;
    out[1] = (uint64_t)hi;
    out[2] = (uint64_t)bits;
}

const struct ptx_rows PTX_ROWS = {find, compare, blend, flush, saturate, tf32, extent, widen, narrow, product};
