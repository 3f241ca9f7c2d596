/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Narrow floats and directed roundings by integer arithmetic on the bits of a double, so that nothing depends on the
 * host's rounding mode. Formats: binary16, bfloat16, E4M3 and E5M2 (OCP 8-bit floating point), tf32 as f32 with 10 bits
 * of mantissa.
 */
#include <math.h>

#include "sim/ptx/ptx_int.h"

static uint64_t bits_of(double v)
{
    uint64_t b;
    memcpy(&b, &v, 8);
    return b;
}

/* 2^e, e in the range of normal numbers. */
static double power_of_two(int e)
{
    uint64_t bits = (uint64_t)(e + 1023) << 52;
    double v;
    memcpy(&v, &bits, 8);
    return v;
}

/* Decodes exponent and mantissa fields. */
static double decode(uint32_t sign, int exponent, uint32_t mantissa, int mantissa_bits, int bias)
{
    uint32_t whole = exponent ? mantissa | 1u << mantissa_bits : mantissa;
    double v = whole * power_of_two((exponent ? exponent : 1) - bias - mantissa_bits);
    return sign ? -v : v;
}

double ptx_half_to_double(uint16_t h)
{
    int e = h >> 10 & 31;
    if (e == 31)
        return h & 1023 ? NAN : h >> 15 ? -INFINITY : INFINITY;
    return decode(h >> 15, e, h & 1023, 10, 15);
}

double ptx_bf16_to_double(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

double ptx_fp8_to_double(uint8_t v, bool e5m2)
{
    int e = e5m2 ? v >> 2 & 31 : v >> 3 & 15;
    if (e5m2 && e == 31)
        return v & 3 ? NAN : v >> 7 ? -INFINITY : INFINITY;
    if (!e5m2 && (v & 127) == 127)
        return NAN;
    return e5m2 ? decode(v >> 7, e, v & 3, 2, 15) : decode(v >> 7, e, v & 7, 3, 7);
}

/* Is the magnitude to be rounded up? `rest`: 0 exact, 1 below half, 2 half, 3 above half. */
static bool up(int round, bool negative, bool odd, int rest)
{
    switch (round) {
    case 0: return rest == 3 || (rest == 2 && odd);
    case 1: return false;
    case 2: return rest && negative;
    case 3: return rest && !negative;
    default: return rest >= 2;
    }
}

/* A finite magnitude to exponent and mantissa fields, concatenated, with a carry into the exponent where it must; may
 * reach the field of infinity or beyond. */
static uint32_t encode(double v, int mantissa_bits, int bias, int round)
{
    uint64_t b = bits_of(v) & INT64_MAX;
    bool negative = signbit(v);
    int e = (int)(b >> 52) - 1023, shift = 52 - mantissa_bits;
    uint64_t m = (b & ((UINT64_C(1) << 52) - 1)) | (b >> 52 ? UINT64_C(1) << 52 : 0);
    if (!m)
        return 0;
    if (e < 1 - bias)
        shift += 1 - bias - e; /* subnormal */
    uint64_t kept = shift > 63 ? 0 : m >> shift, lost = shift > 63 ? m : m & ((UINT64_C(1) << shift) - 1);
    uint64_t half = shift > 63 || shift < 1 ? UINT64_MAX : UINT64_C(1) << (shift - 1);
    int rest = !lost ? 0 : lost < half ? 1 : lost == half ? 2 : 3;
    kept += up(round, negative, kept & 1, rest);
    if (e < 1 - bias)
        return (uint32_t)kept;
    kept += (uint64_t)(e + bias - 1) << mantissa_bits;
    return kept > UINT32_MAX ? UINT32_MAX : (uint32_t)kept;
}

/* Overflow: infinity, or the largest finite where the rounding goes towards zero. */
static uint32_t limit(uint32_t v, uint32_t infinity, int round, bool negative)
{
    if (v < infinity)
        return v;
    return round == 1 || (round == 2 && !negative) || (round == 3 && negative) ? infinity - 1 : infinity;
}

/* 16 bits with so many of mantissa. */
static uint16_t narrow(double v, int mantissa, int bias, uint32_t infinity, int round)
{
    uint32_t sign = signbit(v) ? 0x8000 : 0;
    if (isnan(v))
        return 0x7fff;
    if (isinf(v))
        return (uint16_t)(sign | infinity);
    return (uint16_t)(sign | limit(encode(v, mantissa, bias, round), infinity, round, sign));
}

uint16_t ptx_double_to_half(double v, int round)
{
    return narrow(v, 10, 15, 0x7c00, round);
}

uint16_t ptx_double_to_bf16(double v, int round)
{
    return narrow(v, 7, 127, 0x7f80, round);
}

uint8_t ptx_double_to_fp8(double v, bool e5m2)
{
    uint32_t sign = signbit(v) ? 128 : 0, most = e5m2 ? 0x7b : 0x7e;
    if (isnan(v))
        return 0x7f;
    uint32_t m = isinf(v) ? most : e5m2 ? encode(v, 2, 15, 0) : encode(v, 3, 7, 0);
    return (uint8_t)(sign | (m > most ? most : m));
}

float ptx_double_to_float(double v, int round)
{
    uint32_t bits, sign = signbit(v) ? 0x80000000 : 0;
    float f;
    if (isnan(v))
        bits = 0x7fffffff;
    else if (round == 0) /* the host's own rounding, as everywhere in rows.c */
        return (float)v;
    else if (isinf(v))
        bits = sign | 0x7f800000;
    else
        bits = sign | limit(encode(v, 23, 127, round), 0x7f800000, round, sign);
    memcpy(&f, &bits, 4);
    return f;
}

float ptx_round_tf32(float v, bool away)
{
    uint32_t bits;
    if (isnan(v) || isinf(v))
        return v;
    memcpy(&bits, &v, 4);
    uint32_t low = bits & 0x1fff, odd = bits >> 13 & 1;
    bits &= ~0x1fffu;
    bits += low > 0x1000 || (low == 0x1000 && (away || odd)) ? 0x2000 : 0;
    memcpy(&v, &bits, 4);
    return v;
}
