/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dtype.c - the element types: their table, and exact conversions between scalars.
 *
 * Every float format smaller than f32 is described by a row of `formats` and handled by one decoder and one encoder.
 * Conversions to them from f64 and from integers go through f32 (as PyTorch and ONNX Runtime do), which is also what
 * compiled code does; everything else rounds once, to nearest even.
 *
 * Formats: IEEE 754; the OCP 8-bit floating point specification (e4m3fn, e5m2), OCP microscaling formats (e2m1, e8m0),
 * and ONNX's "float stored in 8 bits" notes for the fnuz forms. What Cast does outside a type's range follows ONNX's
 * tables and, where those are silent (4-bit and 2-bit integers, e8m0), the data of the official cases.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "ir/ir.h"

struct dtype_row {
    const char *name;
    uint8_t bytes, class;
};
static const struct dtype_row rows[TCC_NDTYPES] = {[TCC_NONE] = {"none", 0, TCC_CLASS_NONE},
#define X(id, n, name, bytes, class) [TCC_##id] = {name, bytes, TCC_CLASS_##class},
                                                   TCC_DTYPES(X)
#undef X
};

static const struct dtype_row *row_of(enum tcc_dtype d)
{
    return (unsigned)d < TCC_NDTYPES ? &rows[d] : &rows[TCC_NONE];
}

int tcc_random_bits(enum tcc_dtype d)
{
    switch (d) {
    case TCC_F64: return 32;
    case TCC_F32: return 24;
    case TCC_F16: return 11;
    case TCC_BF16: return 8;
    case TCC_F8E4M3FN:
    case TCC_F8E4M3FNUZ: return 4;
    default: return 3;
    }
}

int tcc_dtype_bytes(enum tcc_dtype d)
{
    return row_of(d)->bytes;
}

const char *tcc_dtype_name(enum tcc_dtype d)
{
    return row_of(d)->name;
}

enum tcc_dtype tcc_dtype_by_name(const char *name)
{
    for (int d = 1; d < TCC_NDTYPES; d++)
        if (!strcmp(rows[d].name, name))
            return (enum tcc_dtype)d;
    return TCC_NONE;
}

enum tcc_class tcc_dtype_class(enum tcc_dtype d)
{
    return (enum tcc_class)row_of(d)->class;
}

bool tcc_is_float(enum tcc_dtype d)
{
    return row_of(d)->class == TCC_CLASS_FLOAT;
}

bool tcc_is_int(enum tcc_dtype d)
{
    return row_of(d)->class == TCC_CLASS_INT || row_of(d)->class == TCC_CLASS_UINT;
}

bool tcc_is_signed(enum tcc_dtype d)
{
    return row_of(d)->class == TCC_CLASS_INT || row_of(d)->class == TCC_CLASS_FLOAT;
}

bool tcc_small_float(enum tcc_dtype d)
{
    return tcc_is_float(d) && d != TCC_F32 && d != TCC_F64;
}

/* -- Small floats --------------------------------------------------------------------- */

enum specials { IEEE, FN, FNUZ, FINITE }; /* inf and NaN; NaN all ones; NaN is -0; neither */
struct format {
    uint8_t ebits, mbits, bias, specials;
    uint16_t largest; /* code of the largest finite value */
    uint16_t nan;     /* FINITE: what NaN becomes */
};
static const struct format formats[TCC_NDTYPES] = {
    [TCC_F16] = {5, 10, 15, IEEE, 0x7bff, 0x7e00}, [TCC_BF16] = {8, 7, 127, IEEE, 0x7f7f, 0x7fc0},
    [TCC_F8E4M3FN] = {4, 3, 7, FN, 0x7e, 0x7f},    [TCC_F8E4M3FNUZ] = {4, 3, 8, FNUZ, 0x7f, 0x80},
    [TCC_F8E5M2] = {5, 2, 15, IEEE, 0x7b, 0x7e},   [TCC_F8E5M2FNUZ] = {5, 2, 16, FNUZ, 0x7f, 0x80},
    [TCC_F4E2M1] = {2, 1, 1, FINITE, 0x7, 0x8},
};

static float bits_f32(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint32_t f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static uint64_t f64_bits(double f)
{
    uint64_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static double bits_f64(uint64_t u)
{
    double f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* 2^e for -149 <= e <= 127. */
static float pow2(int e)
{
    return e >= -126 ? bits_f32((uint32_t)(e + 127) << 23) : bits_f32(1u << (e + 149));
}

static float decode(const struct format *f, uint32_t code)
{
    uint32_t sign = code >> (f->ebits + f->mbits) & 1;
    uint32_t magnitude = code & ((1u << (f->ebits + f->mbits)) - 1);
    if (f->specials == FNUZ ? code == f->nan : f->specials != FINITE && magnitude > f->largest) {
        bool inf = f->specials == IEEE && magnitude == (uint32_t)f->largest + 1;
        return bits_f32(sign << 31 | 0x7f800000u | (inf ? 0 : 0x400000u));
    }
    uint32_t e = magnitude >> f->mbits, m = magnitude & ((1u << f->mbits) - 1);
    int scale = (e ? (int)e : 1) - f->bias - f->mbits; /* never below -133 */
    float value = (float)(e ? m | 1u << f->mbits : m) * pow2(scale);
    return sign ? -value : value;
}

/* Rounds |v| to the format, to nearest even. The code's exponent field comes out right by addition, even on a carry. */
static uint32_t encode(const struct format *f, float v, bool saturate)
{
    uint32_t sign = f32_bits(v) >> 31 << (f->ebits + f->mbits);
    if (v != v)
        return f->specials == FNUZ || f->specials == FINITE ? f->nan : sign | f->nan;
    double a = fabs((double)v);
    uint64_t code;
    if (a == INFINITY) {
        code = UINT32_MAX;
    } else {
        /* As ldexp() and nearbyint() say, without the calls: |v| is a normal f64, and below 2^52 the sum rounds to a
         * whole number. */
        int e = (int)(f64_bits(a) >> 52) - 1023;
        if (e < 1 - f->bias)
            e = 1 - f->bias;
        double scaled = a * bits_f64((uint64_t)(1023 + f->mbits - e) << 52);
        code = ((uint64_t)(e + f->bias - 1) << f->mbits) + (uint64_t)(scaled + 0x1p52 - 0x1p52);
    }
    if (code > f->largest) {
        if (saturate || f->specials == FINITE)
            code = f->largest;
        else
            return f->specials == FNUZ ? f->nan : sign | (uint32_t)(f->largest + 1);
    }
    if (code == 0 && f->specials == FNUZ)
        return 0;
    return sign | (uint32_t)code;
}

static uint16_t encode_bf16(float v)
{
    uint32_t u = f32_bits(v);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((u >> 31 << 15) | 0x7fc0);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

double tcc_largest(enum tcc_dtype d)
{
    const struct format *f = &formats[d];
    return f->mbits ? (double)decode(f, f->largest) : d == TCC_F64 ? DBL_MAX : FLT_MAX;
}

static float decode_e8m0(uint8_t code)
{
    return code == 0xff ? bits_f32(0x7fc00000u) : pow2((int)code - 127);
}

/* The sign is dropped; below the range the exponent field is taken as it is (ONNX's to_float8e8m0), which rounds 2^-127
 * up. mode NULL: a value that is stored, of which the type's own stay what they are. */
static uint8_t encode_e8m0(float v, bool saturate, const char *mode)
{
    uint32_t u = f32_bits(v), exponent = u >> 23 & 0xff;
    bool up;
    if (exponent == 0xff)
        return 0xff;
    if (mode && !strcmp(mode, "down"))
        up = false;
    else if (mode && !strcmp(mode, "nearest"))
        up = (u & 0x400000u) && ((u & 0x3fffffu) || exponent > 0);
    else
        up = (u & 0x7fffffu) != 0 && (mode || (u & 0x7fffffffu) != 0x400000u);
    if (exponent == 0xfe && saturate)
        up = false;
    return (uint8_t)(exponent + up);
}

static float load_small(enum tcc_dtype d, const void *p)
{
    uint16_t u16;
    switch (d) {
    case TCC_BF16: memcpy(&u16, p, 2); return bits_f32((uint32_t)u16 << 16);
    case TCC_F16: memcpy(&u16, p, 2); return decode(&formats[TCC_F16], u16);
    case TCC_F8E8M0: return decode_e8m0(*(const uint8_t *)p);
    default: return decode(&formats[d], *(const uint8_t *)p);
    }
}

static void store_small(enum tcc_dtype d, void *p, float v, bool saturate, const char *mode)
{
    uint16_t u16;
    switch (d) {
    case TCC_BF16:
        u16 = encode_bf16(v);
        memcpy(p, &u16, 2);
        return;
    case TCC_F16:
        u16 = (uint16_t)encode(&formats[TCC_F16], v, false);
        memcpy(p, &u16, 2);
        return;
    case TCC_F8E8M0: *(uint8_t *)p = encode_e8m0(v, saturate, mode); return;
    default: *(uint8_t *)p = (uint8_t)encode(&formats[d], v, saturate);
    }
}

int tcc_mx_exponent(enum tcc_dtype d)
{
    const struct format *f = &formats[d];
    return (f->largest >> f->mbits) - f->bias;
}

void tcc_mx_round(enum tcc_dtype d, double *v, int64_t stride)
{
    const struct format *f = &formats[d];
    double most = 0;
    for (int i = 0; i < TCC_MX_GROUP; i++) {
        double a = fabs(v[i * stride]);
        most = most != most || a <= most ? most : a;
    }
    int e = most > 0 && most < INFINITY ? ilogb(most) - tcc_mx_exponent(d) : -127;
    e = e < -127 ? -127 : e;
    for (int i = 0; i < TCC_MX_GROUP; i++)
        v[i * stride] = most < INFINITY ? ldexp((double)decode(f, encode(f, (float)ldexp(v[i * stride], -e), true)), e)
                                        : (double)NAN;
}

/* -- Loads and stores ------------------------------------------------------------------- */

#define LOAD(type)                 \
    ({                             \
        type v_;                   \
        memcpy(&v_, p, sizeof v_); \
        v_;                        \
    })
#define STORE(type, value)         \
    do {                           \
        type v_ = (type)(value);   \
        memcpy(p, &v_, sizeof v_); \
    } while (0)

/* Integers of every type as 64 bits: sign- or zero-extended; u64 as its bit pattern. */
static int64_t load_int(enum tcc_dtype d, const void *p)
{
    switch (d) {
    case TCC_U8:
    case TCC_U4:
    case TCC_U2: return *(const uint8_t *)p;
    case TCC_BOOL: return *(const uint8_t *)p != 0;
    case TCC_I8:
    case TCC_I4:
    case TCC_I2: return *(const int8_t *)p;
    case TCC_U16: return LOAD(uint16_t);
    case TCC_I16: return LOAD(int16_t);
    case TCC_U32: return LOAD(uint32_t);
    case TCC_I32: return LOAD(int32_t);
    case TCC_U64:
    case TCC_I64: return LOAD(int64_t);
    default: return 0;
    }
}

static void store_int(enum tcc_dtype d, void *p, int64_t v)
{
    uint64_t u = (uint64_t)v;
    switch (d) {
    case TCC_BOOL: *(uint8_t *)p = v != 0; break;
    case TCC_U8:
    case TCC_I8: *(uint8_t *)p = (uint8_t)u; break;
    case TCC_U4: *(uint8_t *)p = u & 15; break;
    case TCC_I4: *(uint8_t *)p = (uint8_t)(((u & 15) ^ 8) - 8); break;
    case TCC_U2: *(uint8_t *)p = u & 3; break;
    case TCC_I2: *(uint8_t *)p = (uint8_t)(((u & 3) ^ 2) - 2); break;
    case TCC_U16:
    case TCC_I16: STORE(uint16_t, u); break;
    case TCC_U32:
    case TCC_I32: STORE(uint32_t, u); break;
    case TCC_U64:
    case TCC_I64: STORE(uint64_t, u); break;
    default: break;
    }
}

static double load_float(enum tcc_dtype d, const void *p)
{
    if (d == TCC_F32)
        return (double)LOAD(float);
    if (d == TCC_F64)
        return LOAD(double);
    return (double)load_small(d, p);
}

static int64_t saturate_i64(double v)
{
    if (v != v)
        return 0;
    if (v >= 0x1p63)
        return INT64_MAX;
    return v < -0x1p63 ? INT64_MIN : (int64_t)v;
}

/* Truncates toward zero, saturates; 4-bit and 2-bit integers: saturates to i32, then wraps. NaN: 0. */
static void store_float_as_int(enum tcc_dtype d, void *p, double v)
{
    int64_t lo = INT64_MIN, hi = INT64_MAX, i = saturate_i64(v);
    if (d == TCC_U64) {
        uint64_t u = v >= 0x1p64 ? UINT64_MAX : v > 0 ? (uint64_t)v : 0;
        STORE(uint64_t, u);
        return;
    }
    switch (d) {
    case TCC_U8: lo = 0, hi = UINT8_MAX; break;
    case TCC_I8: lo = INT8_MIN, hi = INT8_MAX; break;
    case TCC_U16: lo = 0, hi = UINT16_MAX; break;
    case TCC_I16: lo = INT16_MIN, hi = INT16_MAX; break;
    case TCC_U32: lo = 0, hi = UINT32_MAX; break;
    case TCC_I64: break;
    default: lo = INT32_MIN, hi = INT32_MAX; break;
    }
    store_int(d, p, i < lo ? lo : i > hi ? hi : i);
}

static void store_complex(enum tcc_dtype d, void *p, double re, double im)
{
    if (d == TCC_C64) {
        float v[2] = {(float)re, (float)im};
        memcpy(p, v, sizeof v);
    } else {
        double v[2] = {re, im};
        memcpy(p, v, sizeof v);
    }
}

static void load_complex(enum tcc_dtype d, const void *p, double v[2])
{
    float f[2];
    if (d == TCC_C64) {
        memcpy(f, p, sizeof f);
        v[0] = (double)f[0];
        v[1] = (double)f[1];
    } else {
        memcpy(v, p, 2 * sizeof *v);
    }
}

double tcc_load_f64(enum tcc_dtype d, const void *p)
{
    double v[2];
    switch (tcc_dtype_class(d)) {
    case TCC_CLASS_FLOAT: return load_float(d, p);
    case TCC_CLASS_COMPLEX: load_complex(d, p, v); return v[0];
    default: return d == TCC_U64 ? (double)LOAD(uint64_t) : (double)load_int(d, p);
    }
}

int64_t tcc_load_i64(enum tcc_dtype d, const void *p)
{
    enum tcc_class c = tcc_dtype_class(d);
    return c == TCC_CLASS_FLOAT || c == TCC_CLASS_COMPLEX ? saturate_i64(tcc_load_f64(d, p)) : load_int(d, p);
}

static void store_f64(enum tcc_dtype d, void *p, double v, bool saturate, const char *mode)
{
    switch (tcc_dtype_class(d)) {
    case TCC_CLASS_FLOAT:
        if (d == TCC_F32)
            STORE(float, v);
        else if (d == TCC_F64)
            STORE(double, v);
        else
            store_small(d, p, (float)v, saturate, mode);
        break;
    case TCC_CLASS_COMPLEX: store_complex(d, p, v, 0); break;
    case TCC_CLASS_BOOL: *(uint8_t *)p = v != 0; break;
    default: store_float_as_int(d, p, v);
    }
}

void tcc_store_f64(enum tcc_dtype d, void *p, double v)
{
    store_f64(d, p, v, true, NULL);
}

void tcc_store_i64(enum tcc_dtype d, void *p, int64_t v)
{
    if (d == TCC_F32 || tcc_small_float(d))
        store_f64(d, p, (double)(float)v, true, NULL); /* one rounding to f32, not two by way of f64 */
    else if (d == TCC_F64 || tcc_dtype_class(d) == TCC_CLASS_COMPLEX)
        store_f64(d, p, (double)v, true, NULL);
    else
        store_int(d, p, v);
}

/* v as f32 whose last bit says whether anything was cut off: rounded once more to less than 23 bits, it is what v
 * rounds to. */
static double to_odd(double v)
{
    float f = (float)v;
    if (v != v || (double)f == v)
        return v;
    uint32_t u = f32_bits(f);
    return (double)bits_f32((fabs((double)f) > fabs(v) ? u - 1 : u) | 1);
}

void tcc_cast(enum tcc_dtype to, void *out, enum tcc_dtype from, const void *in, bool saturate, const char *round_mode)
{
    enum tcc_class tc = tcc_dtype_class(to), fc = tcc_dtype_class(from);
    if (!round_mode)
        round_mode = "up"; /* ONNX's default; NULL is what stores values that are exact */
    if (to == from) {
        memcpy(out, in, (size_t)tcc_dtype_bytes(to));
    } else if (fc == TCC_CLASS_COMPLEX && tc == TCC_CLASS_COMPLEX) {
        double v[2];
        load_complex(from, in, v);
        store_complex(to, out, v[0], v[1]);
    } else if (fc == TCC_CLASS_FLOAT || fc == TCC_CLASS_COMPLEX) {
        double v = tcc_load_f64(from, in);
        store_f64(to, out, tcc_small_float(to) ? to_odd(v) : v, saturate, round_mode);
    } else if (tc != TCC_CLASS_FLOAT) {
        tcc_store_i64(to, out, load_int(from, in));
    } else if (to == TCC_F64) {
        tcc_store_f64(to, out, tcc_load_f64(from, in));
    } else {
        int64_t v = load_int(from, in);
        store_f64(to, out, (double)(from == TCC_U64 ? (float)(uint64_t)v : (float)v), saturate, round_mode);
    }
}
