/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversions between the core's types and float32, and Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy
 * as 1, 2, 3", 2011). Short floats are IEEE-like with subnormals, infinities and NaN. Integers take the nearest even
 * one, at their limits where a value is beyond them, NaN as 0; no document says what the hardware does.
 */
#include <math.h>
#include <string.h>

#include "sim/neuron/neuron_int.h"

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

/* -- Short floats: e bits of exponent, m of mantissa -- */

/* Of a finite |number|, as if exponents had no end. */
static uint32_t magnitude(uint32_t a, int e, int m, bool stochastic, uint32_t random)
{
    uint32_t mantissa = (a & 0x7fffff) | (a >= 0x800000 ? 0x800000 : 0);
    int bias = (1 << (e - 1)) - 1, exponent = (a >= 0x800000 ? (int)(a >> 23) : 1) - 127 + bias;
    int dropped = 23 - m + (exponent < 1 ? 1 - exponent : 0);
    uint32_t kept = dropped < 32 ? mantissa >> dropped : 0;
    uint64_t rest = mantissa - (dropped < 32 ? (uint64_t)kept << dropped : 0); /* of 2^dropped */
    if (stochastic)
        kept += (dropped <= 32 ? rest << (32 - dropped) : dropped < 64 ? rest >> (dropped - 32) : 0) > random;
    else if (dropped < 40)
        kept += rest > UINT64_C(1) << (dropped - 1) || (rest == UINT64_C(1) << (dropped - 1) && (kept & 1));
    /* A mantissa that has become 2 carries into the exponent; a subnormal one that has become 1 is the least normal
     * number. */
    return exponent < 1 ? kept : kept + ((uint32_t)(exponent - 1) << m);
}

static uint32_t shorten(uint32_t u, int e, int m, bool stochastic, uint32_t random)
{
    uint32_t sign = u >> 31 << (e + m), a = u & 0x7fffffff, special = (uint32_t)((1 << e) - 1) << m;
    if (a >= 0x7f800000)
        return sign | special | (a > 0x7f800000 ? 1u << (m - 1) | (a >> (23 - m) & ((1u << m) - 1)) : 0);
    uint32_t out = magnitude(a, e, m, stochastic, random);
    return sign | (out > special ? special : out);
}

static uint32_t widen(uint32_t v, int e, int m)
{
    uint32_t sign = v >> (e + m) << 31, exponent = v >> m & ((1u << e) - 1), mantissa = v & ((1u << m) - 1);
    int bias = (1 << (e - 1)) - 1;
    if (exponent == (1u << e) - 1)
        return sign | 0x7f800000 | mantissa << (23 - m);
    if (exponent)
        return sign | (exponent + 127 - (uint32_t)bias) << 23 | mantissa << (23 - m);
    if (!mantissa)
        return sign;
    return sign | bits_of(ldexpf((float)mantissa, 1 - bias - m));
}

uint32_t neuron_round_tf32(uint32_t u)
{
    return shorten(u, 8, 10, false, 0) << 13;
}

/* -- OCP's Microscaling formats (MX 1.0): numbers of an element of type t, and scales, powers of two -- */

/* Codes of the largest number of each, and what is NaN (or may stand for it). */
static uint32_t mx_largest(enum neuron_type t, uint32_t *nan)
{
    *nan = t == NEURON_E5M2X4 ? 0x7e : 0x7f;
    return t == NEURON_E4M3X4 ? 0x7e : t == NEURON_E5M2X4 ? 0x7b : 0x7;
}

/* To the nearest even; what is beyond the largest becomes that. */
uint32_t neuron_mx_encode(enum neuron_type t, float f)
{
    const struct type_row *r = isa_type(t);
    uint32_t u = bits_of(f), a = u & 0x7fffffff, nan, largest = mx_largest(t, &nan);
    if (a > 0x7f800000)
        return nan;
    uint32_t code = a == 0x7f800000 ? largest : magnitude(a, r->exponent, r->mantissa, false, 0);
    return u >> 31 << (r->exponent + r->mantissa) | (code > largest ? largest : code);
}

float neuron_mx_decode(enum neuron_type t, uint32_t code)
{
    const struct type_row *r = isa_type(t);
    int e = r->exponent, m = r->mantissa, bias = (1 << (e - 1)) - 1;
    uint32_t a = code & ((1u << (e + m)) - 1), nan, largest = mx_largest(t, &nan);
    float sign = code >> (e + m) & 1 ? -1 : 1;
    if (a > largest)
        return t == NEURON_E5M2X4 && a == largest + 1 ? sign * INFINITY : NAN;
    uint32_t mantissa = a & ((1u << m) - 1), exponent = a >> m;
    return sign * ldexpf((float)(exponent ? mantissa | 1u << m : mantissa), (exponent ? (int)exponent : 1) - bias - m);
}

/* 2^(floor(log2(amax)) - the exponent of the format's largest number + margin); 255, NaN, where amax is no number. */
uint32_t neuron_mx_scale(enum neuron_type t, float amax, int margin)
{
    uint32_t nan, a = bits_of(amax) & 0x7fffffff;
    const struct type_row *r = isa_type(t);
    int bias = (1 << (r->exponent - 1)) - 1, most = (int)(mx_largest(t, &nan) >> r->mantissa) - bias;
    int code = (int)(a >> 23) - most + margin;
    return a >= 0x7f800000 ? 255 : code < 0 ? 0 : (uint32_t)code;
}

float neuron_mx_power(uint32_t scale)
{
    return scale == 255 ? NAN : ldexpf(1, (int)scale - 127);
}

/* -- One element -- */

static int64_t to_integer(float f, int64_t lo, int64_t hi)
{
    if (!(f == f))
        return 0;
    if (f <= (float)lo)
        return lo;
    if (f >= (float)hi)
        return hi;
    return (int64_t)nearbyintf(f);
}

float neuron_to_float(enum neuron_type t, const void *from)
{
    uint8_t b;
    uint16_t h;
    uint32_t w;
    memcpy(&b, from, 1);
    const struct type_row *r = isa_type(t);
    if (r->bytes == 1) {
        if (r->class == 'f')
            return float_of(widen(b, r->exponent, r->mantissa));
        return r->class == 'u' ? (float)b : (float)(int8_t)b;
    }
    if (r->bytes == 2) {
        memcpy(&h, from, 2);
        if (r->class == 'f')
            return t == NEURON_BF16 ? float_of((uint32_t)h << 16) : float_of(widen(h, r->exponent, r->mantissa));
        return r->class == 'u' ? (float)h : (float)(int16_t)h;
    }
    memcpy(&w, from, 4);
    if (r->class == 'f')
        return float_of(w);
    return r->class == 'u' ? (float)w : (float)(int32_t)w;
}

void neuron_from_float(enum neuron_type t, float f, bool stochastic, uint32_t random, void *to)
{
    static const int64_t lo[] = {0, -128, 0, -32768, 0, INT32_MIN},
                         hi[] = {255, 127, 65535, 32767, UINT32_MAX, INT32_MAX};
    const struct type_row *r = isa_type(t);
    uint32_t w = bits_of(f);
    if (t <= NEURON_I32)
        w = (uint32_t)to_integer(f, lo[t], hi[t]);
    else if (t == NEURON_TF32)
        w = shorten(w, 8, 10, stochastic, random) << 13;
    else if (t != NEURON_F32)
        w = shorten(w, r->exponent, r->mantissa, stochastic, random);
    if (r->bytes == 1)
        *(uint8_t *)to = (uint8_t)w;
    else if (r->bytes == 2)
        memcpy(to, &(uint16_t){(uint16_t)w}, 2);
    else
        memcpy(to, &w, 4);
}

/* -- Rows; strides in elements -- */

NEURON_WIDE void neuron_load_floats(int type, const uint8_t *from, int64_t stride, int64_t n, float *to)
{
    int64_t bytes = isa_type(type)->bytes;
    if ((type == NEURON_F32 || type == NEURON_TF32) && stride == 1) {
        memcpy(to, from, (size_t)n * 4);
    } else if (type == NEURON_F32 || type == NEURON_TF32) {
        for (int64_t k = 0; k < n; k++)
            memcpy(to + k, from + k * stride * 4, 4);
    } else if (type == NEURON_BF16) {
        for (int64_t k = 0; k < n; k++) {
            uint16_t h;
            memcpy(&h, from + k * stride * 2, 2);
            to[k] = float_of((uint32_t)h << 16);
        }
    } else {
        for (int64_t k = 0; k < n; k++)
            to[k] = neuron_to_float((enum neuron_type)type, from + k * stride * bytes);
    }
}

/* To the nearest even. */
NEURON_WIDE void neuron_store_floats(int type, uint8_t *to, int64_t stride, int64_t n, const float *from)
{
    int64_t bytes = isa_type(type)->bytes;
    if (type == NEURON_F32 && stride == 1) {
        memcpy(to, from, (size_t)n * 4);
    } else if (type == NEURON_F32) {
        for (int64_t k = 0; k < n; k++)
            memcpy(to + k * stride * 4, from + k, 4);
    } else if (type == NEURON_BF16) {
        for (int64_t k = 0; k < n; k++) {
            uint32_t u = bits_of(from[k]), nan = u >> 16 | 0x40, even = (u + 0x7fff + (u >> 16 & 1)) >> 16;
            uint16_t h = (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : even);
            memcpy(to + k * stride * 2, &h, 2);
        }
    } else {
        for (int64_t k = 0; k < n; k++)
            neuron_from_float((enum neuron_type)type, from[k], false, 0, to + k * stride * bytes);
    }
}

/* -- Random numbers: a key and a counter of 128 bits give 4 x 32 -- */

void neuron_philox(uint64_t key, uint64_t a, uint64_t b, uint32_t out[4])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32),
             c[4] = {(uint32_t)a, (uint32_t)(a >> 32), (uint32_t)b, (uint32_t)(b >> 32)};
    for (int round = 0; round < 10; round++) {
        uint64_t p = UINT64_C(0xd2511f53) * c[0], q = UINT64_C(0xcd9e8d57) * c[2];
        uint32_t n[4] = {(uint32_t)(q >> 32) ^ c[1] ^ k0, (uint32_t)q, (uint32_t)(p >> 32) ^ c[3] ^ k1, (uint32_t)p};
        memcpy(c, n, sizeof c);
        k0 += 0x9e3779b9;
        k1 += 0xbb67ae85;
    }
    memcpy(out, c, sizeof c);
}
