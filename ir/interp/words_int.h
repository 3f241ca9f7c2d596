/* SPDX-License-Identifier: Apache-2.0 */
/*
 * words_int.h - the meaning of scalar.def's primitive scalar ops as C expressions, for the interpreters of both levels.
 *
 * Lists X(word, expression). Floats: x, y are f64; the result is rounded to the type that is computed in (for f32 and
 * smaller, to f32), which for + - * / sqrt is the correctly rounded result. Integers: a third operand is z.
 */
#ifndef TCC_WORDS_INT_H
#define TCC_WORDS_INT_H

#include <math.h>

#include "ir/ir.h"

static inline double
ir_floored_mod(double x, double y)
{
    double r = fmod(x, y);
    if (r == 0)
        return copysign(0.0, y);
    return (r < 0) != (y < 0) ? r + y : r;
}

static inline double
ir_sign_of(double x)
{
    return x != x ? x : (double)((x > 0) - (x < 0));
}

static inline double
ir_dither(double x, double y)
{
    union { float f; uint32_t u; } v = {.f = (float)x};
    if ((v.u & 0x7F800000) == 0x7F800000)
        return x;
    v.u = (v.u + (uint32_t)(y >= 0 && y < 65536 ? y : 0)) & 0xFFFF0000;
    return v.f;
}

#define IR_FLOAT_WORDS(X) \
    X(add, x + y) X(sub, x - y) X(mul, x * y) X(div, x / y) X(mod, ir_floored_mod(x, y)) X(fmod, fmod(x, y)) \
    X(pow, pow(x, y)) X(min, x < y || x != x ? x : y) X(max, x > y || x != x ? x : y) X(neg, -x) X(abs, fabs(x)) \
    X(sign, ir_sign_of(x)) X(floor, floor(x)) X(ceil, ceil(x)) X(trunc, trunc(x)) X(round, nearbyint(x)) \
    X(sqrt, sqrt(x)) X(dither, ir_dither(x, y)) X(exp, exp(x)) X(expm1, expm1(x)) X(log, log(x)) X(log1p, log1p(x)) \
    X(sin, sin(x)) \
    X(cos, cos(x)) X(tan, tan(x)) X(asin, asin(x)) X(acos, acos(x)) X(atan, atan(x)) X(sinh, sinh(x)) \
    X(cosh, cosh(x)) X(tanh, tanh(x)) X(asinh, asinh(x)) X(acosh, acosh(x)) X(atanh, atanh(x)) X(erf, erf(x))
#define IR_FLOAT_TESTS(X) \
    X(eq, x == y) X(ne, x != y) X(lt, x < y) X(le, x <= y) X(gt, x > y) X(ge, x >= y) \
    X(isnan, x != x) X(isinf, x == INFINITY || x == -INFINITY)

/* -- Integers: x, y are int64_t (u64: uint64_t), w is the type's width; results wrap. */

static inline int
ir_width_of(enum tcc_dtype d)
{
    switch (d) {
    case TCC_U4: case TCC_I4: return 4;
    case TCC_U2: case TCC_I2: return 2;
    case TCC_BOOL: return 1;
    default: return 8 * tcc_dtype_bytes(d);
    }
}

static inline int64_t
ir_wrap(enum tcc_dtype d, uint64_t v)
{
    int w = ir_width_of(d);
    if (w == 64)
        return (int64_t)v;
    uint64_t mask = ((uint64_t)1 << w) - 1, top = tcc_is_signed(d) ? (uint64_t)1 << (w - 1) : 0;
    return (int64_t)(((v & mask) ^ top) - top);
}

static inline int64_t
ir_div_s(int64_t x, int64_t y)
{
    return y == 0 ? 0 : y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y;
}

static inline int64_t
ir_fmod_s(int64_t x, int64_t y)
{
    return y == 0 || y == -1 ? 0 : x % y;
}

static inline int64_t
ir_mod_s(int64_t x, int64_t y)
{
    int64_t r = ir_fmod_s(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

static inline uint64_t
ir_power(uint64_t x, uint64_t y)
{
    uint64_t r = 1;
    for (; y; y >>= 1, x *= x)
        if (y & 1)
            r *= x;
    return r;
}

static inline int64_t
ir_pow_s(int64_t x, int64_t y)
{
    if (y >= 0)
        return (int64_t)ir_power((uint64_t)x, (uint64_t)y);
    return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
}

/* Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a block of four
 * words. */
static inline void
ir_philox_block(uint64_t key, const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)c0 * 0xD2511F53u, b = (uint64_t)c2 * 0xCD9E8D57u;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

static inline uint64_t
ir_philox(uint64_t x, uint64_t y, uint64_t z)
{
    uint32_t counter[4] = {(uint32_t)(x >> 2), (uint32_t)(x >> 34), (uint32_t)z, (uint32_t)(z >> 32)}, out[4];
    ir_philox_block(y, counter, out);
    return out[x & 3];
}

#define IR_SIGNED_WORDS(X) \
    X(add, (uint64_t)(x) + (uint64_t)(y)) X(sub, (uint64_t)(x) - (uint64_t)(y)) \
    X(mul, (uint64_t)(x) * (uint64_t)(y)) X(div, ir_div_s(x, y)) X(mod, ir_mod_s(x, y)) \
    X(fmod, ir_fmod_s(x, y)) X(pow, ir_pow_s(x, y)) X(min, x < y ? x : y) X(max, x > y ? x : y) \
    X(neg, 0 - (uint64_t)(x)) \
    X(abs, x < 0 ? 0 - (uint64_t)(x) : (uint64_t)(x)) X(sign, (x > 0) - (x < 0)) X(and, x & y) X(or, x | y) \
    X(xor, x ^ y) \
    X(not, ~(uint64_t)(x)) X(shl, (uint64_t)(y) >= (uint64_t)(w) ? 0 : (uint64_t)(x) << y) \
    X(shr, (uint64_t)(y) >= (uint64_t)(w) ? (x < 0 ? -1 : 0) : x >> y) \
    X(philox, ir_philox((uint64_t)(x), (uint64_t)(y), (uint64_t)(z)))
#define IR_UNSIGNED_WORDS(X) \
    X(add, x + y) X(sub, x - y) X(mul, x * y) X(div, y ? x / y : 0) X(mod, y ? x % y : 0) X(fmod, y ? x % y : 0) \
    X(pow, ir_power(x, y)) X(min, x < y ? x : y) X(max, x > y ? x : y) X(neg, 0 - x) X(abs, x) X(sign, x > 0) \
    X(and, x & y) X(or, x | y) X(xor, x ^ y) X(not, ~x) X(shl, y >= (uint64_t)(w) ? 0 : x << y) \
    X(shr, y >= (uint64_t)(w) ? 0 : x >> y) X(philox, ir_philox(x, y, z))
#define IR_INT_TESTS(X) X(eq, x == y) X(ne, x != y) X(lt, x < y) X(le, x <= y) X(gt, x > y) X(ge, x >= y)

#endif
