/* SPDX-License-Identifier: Apache-2.0 */
/* access.c - the interpreter's element access: runs of elements to and from f64 and i64; tensors and objects. */
#include <string.h>

#include "ir/interp/interp_int.h"

bool it_counts_as_float(enum tcc_dtype d)
{
    return tcc_is_float(d) || tcc_dtype_class(d) == TCC_CLASS_COMPLEX;
}

void it_strides(int rank, const int64_t *dims, int64_t *strides)
{
    int64_t s = 1;
    for (int i = rank - 1; i >= 0; i--) {
        strides[i] = s;
        s *= dims[i]; /* no overflow: see tcc_elements */
    }
}

int64_t it_product(const int64_t *dims, int first, int last)
{
    return tcc_elements(last - first, dims + first);
}

/* Most runs are of neighbours, which compilers make vector code of. */
#define RUN(type, expr)                                  \
    do {                                                 \
        const type *p = (const type *)t->data + at;      \
        if (stride == 1)                                 \
            for (int64_t i = 0; i < n; i++, p++)         \
                out[i] = (expr);                         \
        else                                             \
            for (int64_t i = 0; i < n; i++, p += stride) \
                out[i] = (expr);                         \
        return;                                          \
    } while (0)

#define STORE(type)                                      \
    do {                                                 \
        type *p = (type *)t->data + at;                  \
        if (stride == 1)                                 \
            for (int64_t i = 0; i < n; i++)              \
                p[i] = (type)in[i];                      \
        else                                             \
            for (int64_t i = 0; i < n; i++, p += stride) \
                *p = (type)in[i];                        \
        return;                                          \
    } while (0)

void it_load_f64s(const struct ir_tensor *t, int64_t at, int64_t stride, int64_t n, double *out)
{
    enum tcc_dtype d = it_dtype(t);
    switch (d) {
    case TCC_F32: RUN(float, (double)*p);
    case TCC_F64: RUN(double, *p);
    case TCC_I32: RUN(int32_t, (double)*p);
    case TCC_I64: RUN(int64_t, (double)*p);
    default: break;
    }
    const char *p = (const char *)t->data + at * tcc_dtype_bytes(d);
    for (int64_t i = 0; i < n; i++, p += stride * tcc_dtype_bytes(d))
        out[i] = tcc_load_f64(d, p);
}

void it_load_i64s(const struct ir_tensor *t, int64_t at, int64_t stride, int64_t n, int64_t *out)
{
    enum tcc_dtype d = it_dtype(t);
    switch (d) {
    case TCC_I64: RUN(int64_t, *p);
    case TCC_I32: RUN(int32_t, *p);
    case TCC_U8: RUN(uint8_t, *p);
    case TCC_I8: RUN(int8_t, *p);
    case TCC_BOOL: RUN(uint8_t, *p != 0);
    default: break;
    }
    const char *p = (const char *)t->data + at * tcc_dtype_bytes(d);
    for (int64_t i = 0; i < n; i++, p += stride * tcc_dtype_bytes(d))
        out[i] = tcc_load_i64(d, p);
}

void it_store_f64s(struct ir_tensor *t, int64_t at, int64_t stride, int64_t n, const double *in)
{
    enum tcc_dtype d = it_dtype(t);
    if (d == TCC_F32) {
        float *p = (float *)t->data + at;
        for (int64_t i = 0; i < n; i++, p += stride)
            *p = (float)in[i];
        return;
    }
    char *p = (char *)t->data + at * tcc_dtype_bytes(d);
    for (int64_t i = 0; i < n; i++, p += stride * tcc_dtype_bytes(d))
        tcc_store_f64(d, p, in[i]);
}

void it_store_i64s(struct ir_tensor *t, int64_t at, int64_t stride, int64_t n, const int64_t *in)
{
    enum tcc_dtype d = it_dtype(t);
    switch (d) {
    case TCC_I64: STORE(int64_t);
    case TCC_I32: STORE(int32_t);
    case TCC_U8: STORE(uint8_t);
    case TCC_I8: STORE(int8_t);
    default: break;
    }
    char *p = (char *)t->data + at * tcc_dtype_bytes(d);
    for (int64_t i = 0; i < n; i++, p += stride * tcc_dtype_bytes(d))
        tcc_store_i64(d, p, in[i]);
}

static double combine_f64(enum it_combine how, double x, double y)
{
    switch (how) {
    case IT_ADD: return x + y;
    case IT_MUL: return x * y;
    case IT_MIN: return x < y || x != x ? x : y;
    case IT_MAX: return x > y || x != x ? x : y;
    default: return y;
    }
}

static int64_t combine_i64(enum it_combine how, bool u64, int64_t x, int64_t y)
{
    bool less = u64 ? (uint64_t)x < (uint64_t)y : x < y;
    switch (how) {
    case IT_ADD: return (int64_t)((uint64_t)x + (uint64_t)y);
    case IT_MUL: return (int64_t)((uint64_t)x * (uint64_t)y);
    case IT_MIN: return less ? x : y;
    case IT_MAX: return less ? y : x;
    default: return y;
    }
}

void it_combine(enum it_combine how, enum tcc_dtype d, void *to, const void *from)
{
    if (how == IT_SET)
        memcpy(to, from, (size_t)tcc_dtype_bytes(d));
    else if (it_counts_as_float(d))
        tcc_store_f64(d, to, combine_f64(how, tcc_load_f64(d, to), tcc_load_f64(d, from)));
    else
        tcc_store_i64(d, to, combine_i64(how, d == TCC_U64, tcc_load_i64(d, to), tcc_load_i64(d, from)));
}

static bool copy_strings(struct tcc_string *to, const struct tcc_string *from, int64_t n, bool splat)
{
    for (int64_t i = 0; i < n; i++)
        if (tccrt_string_set(&to[i], from[splat ? 0 : i].data, from[splat ? 0 : i].size))
            return false;
    return true;
}

struct ir_tensor *it_from_object(const struct tcc_object *o)
{
    struct ir_tensor *t = ir_tensor_new((enum tcc_dtype)o->t.dtype, o->t.rank, o->t.dims);
    if (!t)
        return NULL;
    if (it_dtype(t) != TCC_STRING) {
        if (t->bytes)
            memcpy(it_data(t), o->t.data, (size_t)t->bytes);
    } else if (!copy_strings(it_data(t), o->t.data, t->nelems, false)) {
        ir_tensor_unref(t);
        return NULL;
    }
    return t;
}

struct tcc_object *it_to_object(const struct ir_tensor *t)
{
    struct tcc_object *o = tccrt_object_tensor(t->dtype, t->rank, t->dims);
    size_t size = (size_t)tcc_dtype_bytes(it_dtype(t));
    if (!o)
        return NULL;
    if (it_dtype(t) == TCC_STRING) {
        if (!copy_strings(o->t.data, t->data, t->nelems, t->splat)) {
            tccrt_object_unref(o);
            return NULL;
        }
    } else if (t->splat) {
        for (int64_t i = 0; i < t->nelems; i++)
            memcpy((char *)o->t.data + (size_t)i * size, t->data, size);
    } else if (t->bytes) {
        memcpy(o->t.data, t->data, (size_t)t->bytes);
    }
    return o;
}
