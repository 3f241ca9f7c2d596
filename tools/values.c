/* SPDX-License-Identifier: Apache-2.0 */
/* Values: files, the screen, comparison, random ones. */
#include "tools/values_int.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -- Files ------------------------------------------------------------------------------------ */

unsigned char *file_read(const char *path, size_t *size, char *error)
{
    FILE *in = fopen(path, "re");
    unsigned char *data = NULL;
    size_t room = 65536, n = 0, got;

    if (!in) {
        snprintf(error, ERROR_SIZE, "cannot open '%s': %s", path, strerror(errno));
        return NULL;
    }
    if (fseek(in, 0, SEEK_END) == 0 && ftell(in) > 0)
        room = (size_t)ftell(in) + 1;
    rewind(in);
    data = malloc(room);
    while (data && (got = fread(data + n, 1, room - n, in)) > 0) {
        n += got;
        if (n == room) {
            unsigned char *grown = realloc(data, room *= 2);
            if (!grown)
                free(data);
            data = grown;
        }
    }
    if (!data || ferror(in)) {
        snprintf(error, ERROR_SIZE, data ? "cannot read '%s': %s" : "no memory for '%s': %s", path, strerror(errno));
        free(data);
        data = NULL;
    }
    fclose(in);
    *size = n;
    return data;
}

struct tcc_object *value_read(const char *path, enum value_kind kind, char **name, char *error)
{
    const char *dot = strrchr(path, '.');

    if (name)
        *name = NULL;
    if (dot && strcmp(dot, ".npy") == 0) {
        if (kind != VALUE_SEQUENCE)
            return npy_read(path, error);
        snprintf(error, ERROR_SIZE, "%s: a sequence is read from a .pb file", path);
        return NULL;
    }
    if (dot && strcmp(dot, ".pb") == 0)
        return pb_read(path, kind, name, error);
    snprintf(error, ERROR_SIZE, "%s: expected a .npy or .pb file", path);
    return NULL;
}

/* -- Printing ---------------------------------------------------------------------------------- */

#define SHOWN 8

static void print_string(FILE *out, const struct tcc_string *s)
{
    fputc('"', out);
    for (int64_t i = 0; i < s->size && i < 60; i++) {
        unsigned char c = (unsigned char)s->data[i];
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 32 || c == 127)
            fprintf(out, "\\x%02x", c);
        else
            fputc(c, out);
    }
    fputs(s->size > 60 ? "...\"" : "\"", out);
}

static void print_element(FILE *out, int dtype, const void *data, int64_t i)
{
    const char *p = (const char *)data + i * tcc_dtype_bytes((enum tcc_dtype)dtype);
    float c[2];
    double d[2];
    uint64_t u;

    switch (tcc_dtype_class((enum tcc_dtype)dtype)) {
    case TCC_CLASS_STRING: print_string(out, (const struct tcc_string *)p); break;
    case TCC_CLASS_COMPLEX:
        if (dtype == TCC_C64) {
            memcpy(c, p, sizeof c);
            d[0] = c[0], d[1] = c[1];
        } else {
            memcpy(d, p, sizeof d);
        }
        fprintf(out, "%g%+gi", d[0], d[1]);
        break;
    case TCC_CLASS_FLOAT:
        fprintf(out, dtype == TCC_F64 ? "%.10g" : "%.7g", tcc_load_f64((enum tcc_dtype)dtype, p));
        break;
    case TCC_CLASS_BOOL: fputs(*p ? "true" : "false", out); break;
    default:
        if (dtype == TCC_U64) {
            memcpy(&u, p, sizeof u);
            fprintf(out, "%" PRIu64, u);
        } else {
            fprintf(out, "%" PRId64, tcc_load_i64((enum tcc_dtype)dtype, p));
        }
    }
}

void value_print(FILE *out, const struct tcc_object *v)
{
    if (v->kind == TCC_OBJ_NONE) {
        fputs("none", out);
        return;
    }
    if (v->kind == TCC_OBJ_SEQUENCE) {
        fprintf(out, "sequence of %" PRId64 " [", v->n);
        for (int64_t i = 0; i < v->n && i < SHOWN; i++) {
            fputs(i ? "; " : "", out);
            value_print(out, v->items[i]);
        }
        fputs(v->n > SHOWN ? "; ...]" : "]", out);
        return;
    }
    int64_t n = shape_elements(v->t.rank, v->t.dims);
    fprintf(out, "%s[", tcc_dtype_name((enum tcc_dtype)v->t.dtype));
    for (int i = 0; i < v->t.rank; i++)
        fprintf(out, "%s%" PRId64, i ? "," : "", v->t.dims[i]);
    fputs("]:", out);
    for (int64_t i = 0; i < n && i < SHOWN; i++) {
        fputc(' ', out);
        print_element(out, v->t.dtype, v->t.data, i);
    }
    fputs(n > SHOWN ? " ..." : "", out);
}

/* -- Comparison --------------------------------------------------------------------------------- */

static void index_text(char *to, size_t size, const struct tcc_tensor *t, int64_t i)
{
    int64_t index[TCC_MAX_RANK];
    size_t used = 1;

    for (int k = t->rank - 1; k >= 0; k--) {
        index[k] = i % t->dims[k];
        i /= t->dims[k];
    }
    to[0] = '[';
    for (int k = 0; k < t->rank; k++)
        used += (size_t)snprintf(to + used, size - used, "%s%" PRId64, k ? "," : "", index[k]);
    snprintf(to + used, size - used, "]");
}

static void element_text(char *to, size_t size, const struct tcc_tensor *t, int64_t i)
{
    FILE *out = fmemopen(to, size, "w");
    to[0] = '\0';
    if (out) {
        print_element(out, t->dtype, t->data, i);
        fclose(out);
    }
    to[size - 1] = '\0';
}

/* Part `part` (0, or 1 for the imaginary one) of a float or complex element. */
static double load_part(const struct tcc_tensor *t, int64_t i, int part)
{
    if (t->dtype == TCC_C64)
        return ((const float *)t->data)[2 * i + part];
    if (t->dtype == TCC_C128)
        return ((const double *)t->data)[2 * i + part];
    return tcc_load_f64((enum tcc_dtype)t->dtype,
                        (const char *)t->data + i * tcc_dtype_bytes((enum tcc_dtype)t->dtype));
}

static bool exact_equal(const struct tcc_tensor *a, const struct tcc_tensor *b, int64_t i)
{
    size_t bytes = (size_t)tcc_dtype_bytes((enum tcc_dtype)a->dtype);
    if (a->dtype == TCC_STRING) {
        const struct tcc_string *x = (const struct tcc_string *)a->data + i,
                                *y = (const struct tcc_string *)b->data + i;
        return x->size == y->size && (x->size == 0 || memcmp(x->data, y->data, (size_t)x->size) == 0);
    }
    if (a->dtype == TCC_BOOL)
        return !((const uint8_t *)a->data)[i] == !((const uint8_t *)b->data)[i];
    return memcmp((const char *)a->data + (size_t)i * bytes, (const char *)b->data + (size_t)i * bytes, bytes) == 0;
}

/* By how much a float is out of the tolerance, as a factor: up to 1 is equal. */
static double excess(double got, double expected, double rtol, double atol)
{
    if (isnan(got) || isnan(expected))
        return isnan(got) && isnan(expected) ? 0 : INFINITY;
    if (isinf(got) || isinf(expected))
        return got == expected ? 0 : INFINITY;
    double difference = fabs(got - expected), allowed = rtol * fabs(expected) + atol;
    return difference <= allowed ? 0 : allowed > 0 ? difference / allowed : INFINITY;
}

static double largest_finite(const struct tcc_tensor *t, int64_t n, int parts)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        for (int p = 0; p < parts; p++) {
            double v = fabs(load_part(t, i, p));
            if (isfinite(v) && v > largest)
                largest = v;
        }
    return largest;
}

static bool same_type(const struct tcc_tensor *got, const struct tcc_tensor *expected, char *error)
{
    bool same = got->dtype == expected->dtype && got->rank == expected->rank;
    for (int i = 0; same && i < got->rank; i++)
        same = got->dims[i] == expected->dims[i];
    if (same)
        return true;
    char text[2][200];
    const struct tcc_tensor *both[] = {got, expected};
    for (int k = 0; k < 2; k++) {
        size_t used = (size_t)snprintf(text[k], sizeof text[k], "%s[", tcc_dtype_name((enum tcc_dtype)both[k]->dtype));
        for (int i = 0; i < both[k]->rank; i++)
            used +=
                (size_t)snprintf(text[k] + used, sizeof text[k] - used, "%s%" PRId64, i ? "," : "", both[k]->dims[i]);
        snprintf(text[k] + used, sizeof text[k] - used, "]");
    }
    snprintf(error, ERROR_SIZE, "got %s, expected %s", text[0], text[1]);
    return false;
}

static bool tensors_equal(const struct tcc_tensor *got, const struct tcc_tensor *expected,
                          const struct tolerance *tolerance, char *error)
{
    if (!same_type(got, expected, error))
        return false;
    enum tcc_class class = tcc_dtype_class((enum tcc_dtype)got->dtype);
    bool exact = class != TCC_CLASS_FLOAT && class != TCC_CLASS_COMPLEX;
    int parts = class == TCC_CLASS_COMPLEX ? 2 : 1;
    int64_t n = shape_elements(got->rank, got->dims), first = -1, worst = -1, bad = 0;
    double atol = tolerance->absolute || exact ? tolerance->atol : tolerance->atol * largest_finite(expected, n, parts);
    double most = 0;

    for (int64_t i = 0; i < n; i++) {
        double by = exact && !exact_equal(got, expected, i) ? INFINITY : 0;
        for (int p = 0; p < parts && !exact; p++)
            by = fmax(by, excess(load_part(got, i, p), load_part(expected, i, p), tolerance->rtol, atol));
        if (by == 0)
            continue;
        bad++;
        if (first < 0)
            first = i;
        if (worst < 0 || by > most) {
            worst = i;
            most = by;
        }
    }
    if (!bad)
        return true;
    char at[2][160], has[2][80], wants[2][80];
    int64_t which[] = {first, worst};
    for (int k = 0; k < 2; k++) {
        index_text(at[k], sizeof at[k], got, which[k]);
        element_text(has[k], sizeof has[k], got, which[k]);
        element_text(wants[k], sizeof wants[k], expected, which[k]);
    }
    snprintf(error, ERROR_SIZE,
             "%" PRId64 " of %" PRId64
             " elements differ; first at %s: got %s, expected %s; worst at %s: got %s, expected %s",
             bad, n, at[0], has[0], wants[0], at[1], has[1], wants[1]);
    return false;
}

static const char *kind_text(const struct tcc_object *v)
{
    return v->kind == TCC_OBJ_NONE ? "none" : v->kind == TCC_OBJ_SEQUENCE ? "a sequence" : "a tensor";
}

bool value_equal(const struct tcc_object *got, const struct tcc_object *expected, const struct tolerance *tolerance,
                 char *error)
{
    if (got->kind != expected->kind) {
        snprintf(error, ERROR_SIZE, "got %s, expected %s", kind_text(got), kind_text(expected));
        return false;
    }
    if (got->kind == TCC_OBJ_TENSOR)
        return tensors_equal(&got->t, &expected->t, tolerance, error);
    if (got->kind == TCC_OBJ_NONE)
        return true;
    if (got->n != expected->n) {
        snprintf(error, ERROR_SIZE, "got a sequence of %" PRId64 ", expected one of %" PRId64, got->n, expected->n);
        return false;
    }
    for (int64_t i = 0; i < got->n; i++) {
        char inner[ERROR_SIZE];
        if (!value_equal(got->items[i], expected->items[i], tolerance, inner)) {
            snprintf(error, ERROR_SIZE, "item %" PRId64 ": %.900s", i, inner);
            return false;
        }
    }
    return true;
}

/* -- Random values ------------------------------------------------------------------------------ */

/* splitmix64: one step per element, so that a value depends on seed, stream and position only. */
static uint64_t scramble(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

struct tcc_object *value_random(int dtype, int rank, const int64_t *dims, uint64_t seed, int stream)
{
    struct tcc_object *v = tccrt_object_tensor(dtype, rank, dims);
    int64_t n = shape_elements(rank, dims);
    enum tcc_class class = tcc_dtype_class((enum tcc_dtype)dtype);
    uint64_t key = scramble(seed ^ scramble((uint64_t)stream));

    for (int64_t i = 0; v && i < n && (class == TCC_CLASS_FLOAT || class == TCC_CLASS_COMPLEX); i++) {
        double x = (double)(scramble(key + (uint64_t)i) >> 11) * 0x1p-52 - 1;
        if (dtype == TCC_C64)
            ((float *)v->t.data)[2 * i] = (float)x;
        else if (dtype == TCC_C128)
            ((double *)v->t.data)[2 * i] = x;
        else
            tcc_store_f64((enum tcc_dtype)dtype, (char *)v->t.data + i * tcc_dtype_bytes((enum tcc_dtype)dtype), x);
    }
    return v;
}
