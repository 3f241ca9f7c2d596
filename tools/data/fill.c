/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One batch of one array: rows are gathered, brought to the input's element type and looked at. What no training step
 * can use (NaN, an integer that the input's type can't hold) is refused here, where batch and sample can be named.
 */
#include "tools/data/data_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int data_other_dims(int rank, const int64_t *dims, int axis, int64_t *others)
{
    int n = 0;

    for (int i = 0; i < rank; i++)
        if (i != axis)
            others[n++] = dims[i];
    return rank < 0 || axis >= rank ? -1 : n;
}

int64_t data_row_elements(const struct data_array *a)
{
    int64_t dims[TCC_MAX_RANK];

    return a->rank ? tcc_elements(data_other_dims(a->rank, a->dims, a->axis, dims), dims) : 1;
}

size_t data_batch_bytes(const struct data_set *set, int i, int64_t rows)
{
    const struct data_array *a = &set->arrays[i];
    size_t bytes = (size_t)data_row_elements(a) * (size_t)tcc_dtype_bytes((enum tcc_dtype)set->inputs[i].dtype);

    if (__builtin_mul_overflow(bytes, a->axis < 0 ? 1 : (size_t)rows, &bytes) || bytes > SIZE_MAX - 64)
        return 0;
    return (bytes + 64) / 64 * 64;
}

void data_bind(const struct data_set *set, const struct batch *b, struct tcc_tensor *in)
{
    for (int i = 0; i < set->n; i++) {
        const struct data_array *a = &set->arrays[i];
        in[i] = (struct tcc_tensor){.data = b->data[i], .dtype = set->inputs[i].dtype, .rank = a->rank};
        memcpy(in[i].dims, a->dims, sizeof a->dims);
        if (a->axis >= 0)
            in[i].dims[a->axis] = b->rows;
    }
}

void data_copy_rows(const struct data_set *set, int i, struct data_rows to, struct data_rows from, int64_t n,
                    bool repeat)
{
    const struct data_array *a = &set->arrays[i];
    size_t bytes = (size_t)data_row_elements(a) * (size_t)tcc_dtype_bytes((enum tcc_dtype)set->inputs[i].dtype),
           piece = bytes / (size_t)(a->outer ? a->outer : 1);

    if (a->axis < 0 && to.data != from.data)
        memcpy(to.data, from.data, bytes);
    for (int64_t p = 0; p < a->outer && a->axis >= 0; p++)
        for (int64_t k = 0; k < n; k++)
            memcpy((char *)to.data + (size_t)(p * to.rows + to.first + k) * piece,
                   (const char *)from.data + (size_t)(p * from.rows + from.first + (repeat ? 0 : k)) * piece, piece);
}

/* Where a row went wrong: the element and what it is. */
struct fault {
    int64_t at;
    const char *what;
};

static uint64_t load_bits(const unsigned char *p, int bytes, bool swap)
{
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)p[swap ? bytes - 1 - i : i] << 8 * i;
    return v;
}

/* An element as a number: integers exactly in *i (returns true), floats in *d. */
static bool load(const struct data_array *a, const unsigned char *p, int64_t *i, double *d)
{
    int bytes = tcc_dtype_bytes(a->dtype);
    uint64_t v = load_bits(p, bytes, a->swap);
    enum tcc_class class = tcc_dtype_class(a->dtype);

    if (class == TCC_CLASS_FLOAT) {
        *d = tcc_load_f64(a->dtype, &v);
        return false;
    }
    if (class == TCC_CLASS_INT && bytes < 8 && v >> (8 * bytes - 1))
        v |= ~(uint64_t)0 << 8 * bytes;
    *i = (int64_t)v;
    *d = class == TCC_CLASS_UINT ? (double)v : (double)*i;
    return true;
}

static bool fits(int64_t v, enum tcc_dtype to)
{
    int bits = 8 * tcc_dtype_bytes(to);
    if (tcc_dtype_class(to) == TCC_CLASS_BOOL)
        return v == 0 || v == 1;
    if (tcc_dtype_class(to) == TCC_CLASS_UINT)
        return v >= 0 && (bits == 64 || v >> bits == 0);
    return bits == 64 || (v >= -((int64_t)1 << (bits - 1)) && v < (int64_t)1 << (bits - 1));
}

static void convert_row(const struct data_array *a, enum tcc_dtype to, const unsigned char *from, unsigned char *out,
                        int64_t n, struct fault *fault)
{
    int in_bytes = tcc_dtype_bytes(a->dtype), out_bytes = tcc_dtype_bytes(to);
    bool to_float = tcc_dtype_class(to) == TCC_CLASS_FLOAT;

    for (int64_t k = 0; k < n; k++) {
        int64_t i = 0;
        double d;
        bool integer = load(a, from + k * in_bytes, &i, &d);
        if (to_float) {
            d = (d * a->scale - a->mean) / a->std;
            tcc_store_f64(to, out + k * out_bytes, d);
            if (isfinite(d) && !isfinite(tcc_load_f64(to, out + k * out_bytes))) {
                *fault = (struct fault){k, "a value that the input's type cannot hold"};
                return;
            }
        } else if (!integer || !fits(i, to)) {
            *fault = (struct fault){k, "a value that the input's type cannot hold"};
            return;
        } else {
            memcpy(out + k * out_bytes, &i, (size_t)out_bytes);
        }
    }
}

static bool plain(const struct data_array *a, enum tcc_dtype to)
{
    return a->dtype == to && !a->swap && a->scale == 1 && a->mean == 0 && a->std == 1;
}

/* The first NaN among n elements; -1: none. */
static int64_t find_nan(enum tcc_dtype dtype, const void *data, int64_t n)
{
    if (dtype == TCC_F32) {
        const float *x = data;
        float sum = 0;
        for (int64_t i = 0; i < n; i++) /* a NaN anywhere makes this a NaN; infinities do not (0 * inf would) */
            sum = isnan(x[i]) ? x[i] : sum;
        if (!isnan(sum))
            return -1;
    }
    for (int64_t i = 0; i < n; i++)
        if (isnan(tcc_load_f64(dtype, (const unsigned char *)data + i * tcc_dtype_bytes(dtype))))
            return i;
    return -1;
}

/* One piece of a row, brought to the input's type and looked at. */
static bool fill_piece(const struct data_array *a, enum tcc_dtype dtype, const unsigned char *from, unsigned char *out,
                       int64_t n, struct fault *fault)
{
    *fault = (struct fault){-1, NULL};
    if (plain(a, dtype))
        memcpy(out, from, (size_t)n * (size_t)tcc_dtype_bytes(dtype));
    else
        convert_row(a, dtype, from, out, n, fault);
    if (fault->at < 0 && tcc_dtype_class(dtype) == TCC_CLASS_FLOAT && (fault->at = find_nan(dtype, out, n)) >= 0)
        fault->what = "NaN";
    return fault->at < 0;
}

/* Row k of the batch: made by its source, or where it lies in the file. NULL after `error`. */
static const unsigned char *row_of(const struct data_fill *f, const struct data_array *a, int64_t k, int64_t row,
                                   unsigned char *made, char *error)
{
    char why[ERROR_SIZE];

    if (!a->source)
        return a->at + (size_t)(row * a->stride) * (size_t)tcc_dtype_bytes(a->dtype);
    if (a->source->row(a->source, row, f->draw, made, why))
        return made;
    return put_error(error, "%.600s (batch %lld, sample %lld: row %lld)", why, (long long)f->batch, (long long)k,
                     (long long)row),
           NULL;
}

int64_t data_set_row(const struct data_set *set, int64_t sample)
{
    return set->rows ? set->rows[sample] : sample;
}

const char *data_set_name(const struct data_set *set, int64_t sample)
{
    for (int i = 0; i < set->n; i++) {
        const struct data_source *s = set->arrays[i].source;
        if (s && s->name && set->arrays[i].axis >= 0)
            return s->name(s, data_set_row(set, sample));
    }
    return NULL;
}

bool data_fill(struct data_fill *f, int i, void *to, char *error)
{
    const struct data_array *a = &f->set->arrays[i];
    enum tcc_dtype dtype = (enum tcc_dtype)f->set->inputs[i].dtype;
    int64_t each = a->outer ? data_row_elements(a) / a->outer : 0, n = a->axis < 0 ? 1 : f->n;
    size_t in_bytes = (size_t)tcc_dtype_bytes(a->dtype), out_bytes = (size_t)tcc_dtype_bytes(dtype);
    unsigned char *made = a->source ? malloc((size_t)data_row_elements(a) * in_bytes + 1) : NULL;
    struct fault fault = {-1, NULL};
    int64_t k, jump = a->source ? each : a->jump;

    f->bad = -1;
    if (a->source && !made)
        return put_error(error, "no memory");
    for (k = 0; k < n && f->bad < 0; k++) {
        int64_t row = a->axis < 0 ? 0 : data_set_row(f->set, f->rows[k]);
        const unsigned char *from = row_of(f, a, k, row, made, error);
        f->bad = from ? -1 : k;
        for (int64_t p = 0; p < a->outer && f->bad < 0; p++) {
            if (fill_piece(a, dtype, from + (size_t)(p * jump) * in_bytes,
                           (unsigned char *)to + (size_t)((p * n + k) * each) * out_bytes, each, &fault))
                continue;
            snprintf(error, ERROR_SIZE,
                     "%s: batch %lld, sample %lld (row %lld of the file), element %lld: %s for input '%s'", a->name,
                     (long long)f->batch, (long long)k, (long long)row, (long long)(p * each + fault.at), fault.what,
                     f->set->inputs[i].name);
            f->bad = k;
        }
    }
    free(made);
    return f->bad < 0;
}
