/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What library ops share. Elements are read and written as doubles or 64-bit integers: these ops are the long tail,
 * their loops are plain. Narrow floats are described by a table (exponent and mantissa bits, bias, what overflow
 * gives).
 */
#include <math.h>
#include <stdio.h>

#include "runtime/libop/libop_int.h"

/* -- Operands, attributes, results ------------------------------------------------------------------------ */

bool lib_has(const struct tcc_lib_call *call, int i)
{
    return i < call->nin && call->in[i] && call->in[i]->kind != TCC_OBJ_NONE;
}

const struct tcc_tensor *lib_in(const struct tcc_lib_call *call, int i)
{
    return lib_has(call, i) && call->in[i]->kind == TCC_OBJ_TENSOR ? &call->in[i]->t : NULL;
}

static bool is_number(int dtype)
{
    int class = lib_class(dtype);

    return class != TCC_CLASS_NONE && class != TCC_CLASS_STRING && class != TCC_CLASS_COMPLEX;
}

int lib_need(struct tcc_lib_call *call, int i, int rank, int dtype, const struct tcc_tensor **out)
{
    const struct tcc_tensor *t = lib_in(call, i);

    *out = t;
    if (!t)
        return LIB_FAIL(call, "operand %d must be a tensor", i);
    if (rank >= 0 && t->rank != rank)
        return LIB_FAIL(call, "operand %d must have rank %d, got %d", i, rank, t->rank);
    if (dtype == LIB_NUMBER ? !is_number(t->dtype) : dtype && t->dtype != dtype)
        return LIB_FAIL(call, "operand %d has an element type (%d) that does not fit (%d expected, -1: a number)", i,
                        t->dtype, dtype);
    return TCC_OK;
}

const struct tcc_attr *lib_attr(const struct tcc_lib_call *call, const char *name)
{
    for (int i = 0; i < call->nattrs; i++)
        if (strcmp(call->attrs[i].name, name) == 0)
            return &call->attrs[i];
    return NULL;
}

int64_t lib_int(const struct tcc_lib_call *call, const char *name, int64_t otherwise)
{
    const struct tcc_attr *a = lib_attr(call, name);

    if (!a || a->n < 1)
        return otherwise;
    return a->kind == TCC_ATTR_INTS ? a->ints[0] : a->kind == TCC_ATTR_FLOATS ? (int64_t)a->floats[0] : otherwise;
}

double lib_float(const struct tcc_lib_call *call, const char *name, double otherwise)
{
    const struct tcc_attr *a = lib_attr(call, name);

    if (!a || a->n < 1)
        return otherwise;
    return a->kind == TCC_ATTR_FLOATS ? a->floats[0] : a->kind == TCC_ATTR_INTS ? (double)a->ints[0] : otherwise;
}

const char *lib_text(const struct tcc_lib_call *call, const char *name, const char *otherwise)
{
    const struct tcc_attr *a = lib_attr(call, name);

    return a && a->kind == TCC_ATTR_STRINGS && a->n > 0 ? a->strings[0] : otherwise;
}

int64_t lib_list_size(const struct tcc_attr *a)
{
    return !a ? 0 : a->kind == TCC_ATTR_TENSOR ? lib_count(a->tensor) : a->n;
}

double lib_list_value(const struct tcc_attr *a, int64_t i)
{
    switch (a->kind) {
    case TCC_ATTR_FLOATS: return a->floats[i];
    case TCC_ATTR_INTS: return (double)a->ints[i];
    default: return a->kind == TCC_ATTR_TENSOR ? lib_get(a->tensor, i) : 0;
    }
}

const struct tcc_attr *lib_list(const struct tcc_lib_call *call, const char *name)
{
    char as_tensor[96];
    const struct tcc_attr *a = lib_attr(call, name);

    if (lib_list_size(a))
        return a;
    snprintf(as_tensor, sizeof as_tensor, "%s_as_tensor", name);
    a = lib_attr(call, as_tensor);
    return lib_list_size(a) ? a : NULL;
}

void *lib_out(struct tcc_lib_call *call, int k, int dtype, int rank, const int64_t *dims)
{
    return call->host->output(call, k, dtype, rank, dims);
}

bool lib_wants(const struct tcc_lib_call *call, int k)
{
    return k < call->nout;
}

int lib_values(struct tcc_lib_call *call, int i, int64_t *to, int room)
{
    const struct tcc_tensor *t;
    int64_t n;

    if (lib_need(call, i, -1, 0, &t))
        return -1;
    n = lib_count(t);
    if ((t->dtype != TCC_I64 && t->dtype != TCC_I32) || t->rank > 1 || n > room) {
        LIB_FAIL(call, "operand %d must be a list of at most %d integers", i, room);
        return -1;
    }
    for (int64_t k = 0; k < n; k++)
        to[k] = lib_get_int(t, k);
    return (int)n;
}

int lib_axis(int64_t axis, int rank)
{
    axis += axis < 0 ? rank : 0;
    return axis >= 0 && axis < rank ? (int)axis : -1;
}

int lib_axes(struct tcc_lib_call *call, int i, int rank, int *axes)
{
    const struct tcc_attr *a = lib_attr(call, "axes");
    int64_t values[TCC_MAX_RANK];
    int n = 0;

    if (lib_has(call, i)) {
        n = lib_values(call, i, values, TCC_MAX_RANK);
    } else if (a && a->kind == TCC_ATTR_INTS && a->n <= TCC_MAX_RANK) {
        n = a->n;
        memcpy(values, a->ints, (size_t)n * sizeof *values);
    }
    for (int k = 0; k < n; k++) {
        axes[k] = lib_axis(values[k], rank);
        if (axes[k] < 0) {
            LIB_FAIL(call, "axis %lld is outside a tensor of rank %d", (long long)values[k], rank);
            return -1;
        }
    }
    return n;
}

/* -- Shapes ------------------------------------------------------------------------------------------------ */

int lib_class(int dtype)
{
    static const uint8_t classes[TCC_NDTYPES] = {
#define X(id, n, name, bytes, class) [n] = TCC_CLASS_##class,
        TCC_DTYPES(X)
#undef X
    };

    return dtype > 0 && dtype < TCC_NDTYPES ? classes[dtype] : TCC_CLASS_NONE;
}

int lib_bytes(int dtype)
{
    static const uint8_t bytes_of[TCC_NDTYPES] = {
#define X(id, n, name, bytes, class) [n] = bytes,
        TCC_DTYPES(X)
#undef X
    };

    return dtype > 0 && dtype < TCC_NDTYPES ? bytes_of[dtype] : 0;
}

int64_t lib_product(int rank, const int64_t *dims)
{
    int64_t n = tcc_elements(rank, dims);

    return n < 0 ? INT64_MAX : n;
}

int64_t lib_count(const struct tcc_tensor *t)
{
    return lib_product(t->rank, t->dims);
}

int lib_broadcast(struct tcc_lib_call *call, const struct tcc_tensor *a, const struct tcc_tensor *b, int64_t *dims)
{
    int rank = a->rank > b->rank ? a->rank : b->rank;

    for (int i = 0; i < rank; i++) {
        int ia = i - (rank - a->rank), ib = i - (rank - b->rank);
        int64_t x = ia < 0 ? 1 : a->dims[ia], y = ib < 0 ? 1 : b->dims[ib];

        if (x != y && x != 1 && y != 1) {
            LIB_FAIL(call, "shapes do not broadcast: %lld and %lld on axis %d", (long long)x, (long long)y, i);
            return -1;
        }
        dims[i] = x == 1 ? y : x;
    }
    return rank;
}

void lib_strides(const struct tcc_tensor *t, int rank, const int64_t *dims, int64_t *strides)
{
    int64_t s = 1;

    for (int i = rank - 1; i >= 0; i--) {
        int k = i - (rank - t->rank);

        strides[i] = k < 0 || (t->dims[k] == 1 && dims[i] != 1) ? 0 : s;
        s *= k < 0 ? 1 : t->dims[k];
    }
}

bool lib_next(int rank, const int64_t *dims, int64_t *index)
{
    for (int i = rank - 1; i >= 0; i--) {
        if (++index[i] < dims[i])
            return true;
        index[i] = 0;
    }
    return false;
}

int64_t lib_dot(int rank, const int64_t *index, const int64_t *strides)
{
    int64_t at = 0;

    for (int i = 0; i < rank; i++)
        at += index[i] * strides[i];
    return at;
}

/* -- Narrow floats ------------------------------------------------------------------------------------------ */

enum overflow { TO_INF, TO_MAX };
static const struct narrow {
    uint8_t exponent, mantissa; /* bits */
    int16_t bias;
    uint8_t overflow;
    bool inf; /* all-ones exponent is infinity and NaN, as IEEE has it */
    bool uz;  /* no -0; its code is NaN */
    double max;
    uint16_t nan;
} narrows[TCC_NDTYPES] = {
    [TCC_F16] = {5, 10, 15, TO_INF, true, false, 65504, 0x7e00},
    [TCC_BF16] = {8, 7, 127, TO_INF, true, false, 0x1.fep127, 0x7fc0},
    [TCC_F8E4M3FN] = {4, 3, 7, TO_MAX, false, false, 448, 0x7f},
    [TCC_F8E4M3FNUZ] = {4, 3, 8, TO_MAX, false, true, 240, 0x80},
    [TCC_F8E5M2] = {5, 2, 15, TO_MAX, true, false, 57344, 0x7f},
    [TCC_F8E5M2FNUZ] = {5, 2, 16, TO_MAX, false, true, 57344, 0x80},
    [TCC_F4E2M1] = {2, 1, 1, TO_MAX, false, false, 6, 0},
};

static double narrow_get(const struct narrow *f, uint32_t code)
{
    uint32_t bits = (uint32_t)f->exponent + f->mantissa, ones = (1u << f->exponent) - 1;
    uint32_t m = code & ((1u << f->mantissa) - 1), e = code >> f->mantissa & ones;
    double sign = code >> bits & 1 ? -1 : 1;

    if (f->inf && e == ones)
        return m ? NAN : sign * INFINITY;
    if (!f->inf && f->nan && (f->uz ? code == f->nan : (code & 0x7f) == f->nan))
        return NAN;
    return sign *
           (e ? ldexp(m + (1u << f->mantissa), (int)e - f->bias - f->mantissa) : ldexp(m, 1 - f->bias - f->mantissa));
}

static uint32_t narrow_code(const struct narrow *f, double v, bool saturate)
{
    uint32_t sign = signbit(v) ? 1u << (f->exponent + f->mantissa) : 0, q;
    double a = fabs(v), scaled;
    int e;

    if (isnan(v))
        return f->nan ? f->nan : 1u << (f->exponent + f->mantissa); /* f4e2m1 has none: -0, as the ONNX cases have it */
    if (isinf(v))
        a = f->overflow == TO_MAX && saturate ? f->max : a;
    if (!isinf(a)) {
        frexp(a, &e); /* a in [2^(e-1), 2^e) */
        e = a == 0 || e - 1 < 1 - f->bias ? 1 - f->bias : e - 1;
        scaled = nearbyint(ldexp(a, f->mantissa - e)); /* in units of the last place; exact but for the rounding */
        if (ldexp(scaled, e - f->mantissa) <= f->max) {
            q = (uint32_t)scaled;
            q = q >> f->mantissa ? q + ((uint32_t)(e + f->bias - 1) << f->mantissa) : q;
            return q || !f->uz ? q | sign : 0;
        }
    }
    if (f->inf && (f->overflow == TO_INF || !saturate))
        return sign | ((1u << f->exponent) - 1) << f->mantissa;
    if (!saturate && f->nan)
        return f->uz ? f->nan : sign | f->nan;
    return sign | narrow_code(f, f->max, true);
}

/* -- Elements -------------------------------------------------------------------------------------------------- */

/* Towards zero, with x86's answer (the smallest integer) where there is none. */
static int64_t to_int(double v, bool is_unsigned)
{
    if (is_unsigned && v >= 0x1p63 && v < 0x1p64)
        return (int64_t)(uint64_t)v;
    return v > -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN;
}

/* The same, out of range the nearest value of the type (4- and 2-bit integers: of i32), NaN 0: as the word `cast` does.
 */
static int64_t to_range(double v, int dtype)
{
    bool is_unsigned = lib_class(dtype) == TCC_CLASS_UINT;
    int bits = lib_bytes(dtype) == 1 && dtype != TCC_U8 && dtype != TCC_I8 ? 32 : 8 * lib_bytes(dtype);

    if (bits == 32 && lib_bytes(dtype) == 1)
        is_unsigned = false;
    if (isnan(v))
        return 0;
    if (is_unsigned)
        return v <= 0 ? 0 : v >= ldexp(1, bits) ? (int64_t)(UINT64_MAX >> (64 - bits)) : to_int(v, true);
    return v < -ldexp(1, bits - 1)   ? INT64_MIN >> (64 - bits)
           : v >= ldexp(1, bits - 1) ? ~(INT64_MIN >> (64 - bits))
                                     : to_int(v, false);
}

double lib_get(const struct tcc_tensor *t, int64_t i)
{
    const void *p = t->data;

    switch (t->dtype) {
    case TCC_F32: return ((const float *)p)[i];
    case TCC_F64: return ((const double *)p)[i];
    case TCC_F16:
    case TCC_BF16: return narrow_get(&narrows[t->dtype], ((const uint16_t *)p)[i]);
    case TCC_F8E8M0: return ((const uint8_t *)p)[i] == 255 ? NAN : ldexp(1, ((const uint8_t *)p)[i] - 127);
    case TCC_U64: return (double)((const uint64_t *)p)[i];
    default:
        return narrows[t->dtype].exponent ? narrow_get(&narrows[t->dtype], ((const uint8_t *)p)[i])
                                          : (double)lib_get_int(t, i);
    }
}

int64_t lib_get_int(const struct tcc_tensor *t, int64_t i)
{
    const void *p = t->data;

    switch (t->dtype) {
    case TCC_I64:
    case TCC_U64: return ((const int64_t *)p)[i];
    case TCC_I32: return ((const int32_t *)p)[i];
    case TCC_U32: return ((const uint32_t *)p)[i];
    case TCC_I16: return ((const int16_t *)p)[i];
    case TCC_U16: return ((const uint16_t *)p)[i];
    case TCC_I8:
    case TCC_I4:
    case TCC_I2: return ((const int8_t *)p)[i];
    case TCC_U8:
    case TCC_U4:
    case TCC_U2:
    case TCC_BOOL: return ((const uint8_t *)p)[i];
    case TCC_STRING:
    case TCC_C64:
    case TCC_C128: return 0;
    default: return to_int(lib_get(t, i), false);
    }
}

void lib_put_int(void *p, int dtype, int64_t i, int64_t v)
{
    switch (dtype) {
    case TCC_I64:
    case TCC_U64: ((int64_t *)p)[i] = v; break;
    case TCC_I32:
    case TCC_U32: ((int32_t *)p)[i] = (int32_t)v; break;
    case TCC_I16:
    case TCC_U16: ((int16_t *)p)[i] = (int16_t)v; break;
    case TCC_I8:
    case TCC_U8: ((int8_t *)p)[i] = (int8_t)v; break;
    case TCC_BOOL: ((uint8_t *)p)[i] = v != 0; break;
    case TCC_U4: ((uint8_t *)p)[i] = v & 15; break;
    case TCC_U2: ((uint8_t *)p)[i] = v & 3; break;
    case TCC_I4: ((int8_t *)p)[i] = (int8_t)(((v & 15) ^ 8) - 8); break;
    case TCC_I2: ((int8_t *)p)[i] = (int8_t)(((v & 3) ^ 2) - 2); break;
    case TCC_STRING:
    case TCC_C64:
    case TCC_C128: break; /* not a number: callers ask for LIB_NUMBER */
    default: lib_put(p, dtype, i, (double)v);
    }
}

void lib_put(void *p, int dtype, int64_t i, double v)
{
    const struct narrow *f = &narrows[dtype];

    switch (dtype) {
    case TCC_F32: ((float *)p)[i] = (float)v; break;
    case TCC_F64: ((double *)p)[i] = v; break;
    case TCC_F16:
    case TCC_BF16: ((uint16_t *)p)[i] = (uint16_t)narrow_code(f, v, true); break;
    case TCC_F8E8M0: {
        int e;
        double m = frexp(fabs(v), &e); /* rounds up to a power of two: the default of Cast */

        e += m > 0.5 ? 127 : 126;
        ((uint8_t *)p)[i] = isnan(v) || signbit(v) ? 255 : v == 0 || e < 0 ? 0 : isinf(v) || e > 254 ? 254 : (uint8_t)e;
        break;
    }
    case TCC_BOOL: ((uint8_t *)p)[i] = v != 0; break;
    default:
        if (f->exponent)
            ((uint8_t *)p)[i] = (uint8_t)narrow_code(f, v, true);
        else
            lib_put_int(p, dtype, i, to_range(v, dtype));
    }
}

void lib_put_overflowing(void *p, int dtype, int64_t i, double v)
{
    if (lib_bytes(dtype) == 1 && narrows[dtype].exponent)
        ((uint8_t *)p)[i] = (uint8_t)narrow_code(&narrows[dtype], v, false);
    else
        lib_put(p, dtype, i, v);
}

bool lib_copy(void *to, int64_t i, const struct tcc_tensor *from, int64_t k)
{
    size_t size = (size_t)lib_bytes(from->dtype);

    if (from->dtype == TCC_STRING) {
        const struct tcc_string *s = (const struct tcc_string *)from->data + k;

        return tccrt_string_set((struct tcc_string *)to + i, s->data, s->size) == 0;
    }
    memcpy((char *)to + (size_t)i * size, (const char *)from->data + (size_t)k * size, size);
    return true;
}

bool lib_copy_n(void *to, int64_t i, const struct tcc_tensor *from, int64_t k, int64_t n)
{
    size_t size = (size_t)lib_bytes(from->dtype);

    if (from->dtype != TCC_STRING) {
        if (n > 0)
            memcpy((char *)to + (size_t)i * size, (const char *)from->data + (size_t)k * size, (size_t)n * size);
        return true;
    }
    for (int64_t j = 0; j < n; j++)
        if (!lib_copy(to, i + j, from, k + j))
            return false;
    return true;
}

int lib_compare_strings(const struct tcc_string *a, const struct tcc_string *b)
{
    size_t n = (size_t)(a->size < b->size ? a->size : b->size);
    int c = n ? memcmp(a->data, b->data, n) : 0;

    return c ? c : (a->size > b->size) - (a->size < b->size);
}
