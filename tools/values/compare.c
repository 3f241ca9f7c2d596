/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When are two results the same? The one answer, for --test-data, --test-suite, --check, tccc-ckpt diff and the tests
 * (DESIGN, section 8, "Comparison"): element type and shape exactly; floats within rtol |expected| + atol, NaN equal to
 * NaN, an infinity to the same infinity and to nothing else; everything else bit for bit. The first and the worst
 * difference are told.
 */
#include "tools/values/values_int.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

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
        value_print_element(out, t->dtype, t->data, i);
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

double float_excess(double got, double expected, double rtol, double atol)
{
    if (isnan(got) || isnan(expected))
        return isnan(got) && isnan(expected) ? 0 : INFINITY;
    if (isinf(got) || isinf(expected))
        return got == expected ? 0 : INFINITY;
    double difference = fabs(got - expected), allowed = rtol * fabs(expected) + atol;
    return difference <= allowed ? 0 : allowed > 0 ? difference / allowed : INFINITY;
}

static int parts_of(const struct tcc_tensor *t)
{
    enum tcc_class class = tcc_dtype_class((enum tcc_dtype)t->dtype);
    return class == TCC_CLASS_COMPLEX ? 2 : class == TCC_CLASS_FLOAT ? 1 : 0;
}

double tensor_largest(const struct tcc_tensor *t)
{
    int64_t n = tcc_elements(t->rank, t->dims);
    int parts = parts_of(t);
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
    return put_error(error, "got %s, expected %s", text[0], text[1]);
}

/* 0: element i is equal; else by which factor it is out of the tolerance. */
static double element_excess(const struct tcc_tensor *got, const struct tcc_tensor *expected, int64_t i, int parts,
                             const struct tolerance *t, double atol)
{
    double by = 0;

    if (!parts)
        return exact_equal(got, expected, i) ? 0 : INFINITY;
    for (int p = 0; p < parts; p++) {
        double x = load_part(got, i, p), y = load_part(expected, i, p);
        by = fmax(by, float_excess(x, y, t->rtol, atol));
        if (t->signed_zero && x == 0 && y == 0 && signbit(x) != signbit(y))
            by = INFINITY;
    }
    return by;
}

static void tell(const struct tcc_tensor *got, const struct tcc_tensor *expected, const struct difference *d,
                 char *error)
{
    char at[2][160], has[2][80], wants[2][80];
    int64_t which[] = {d->first, d->worst};

    for (int k = 0; k < 2; k++) {
        index_text(at[k], sizeof at[k], got, which[k]);
        element_text(has[k], sizeof has[k], got, which[k]);
        element_text(wants[k], sizeof wants[k], expected, which[k]);
    }
    snprintf(error, ERROR_SIZE,
             "%" PRId64 " of %" PRId64
             " elements differ; first at %s: got %s, expected %s; worst at %s: got %s, expected %s",
             d->count, tcc_elements(got->rank, got->dims), at[0], has[0], wants[0], at[1], has[1], wants[1]);
}

bool tensor_equal(const struct tcc_tensor *got, const struct tcc_tensor *expected, const struct tolerance *t,
                  struct difference *difference, char *error)
{
    struct difference unused, *d = difference ? difference : &unused;
    double most = 0;

    *d = (struct difference){.first = -1, .worst = -1};
    if (!same_type(got, expected, error))
        return false;
    int parts = parts_of(got);
    int64_t n = tcc_elements(got->rank, got->dims);
    double atol = t->absolute ? t->atol : t->atol * tensor_largest(expected);
    for (int64_t i = 0; i < n; i++) {
        double by = element_excess(got, expected, i, parts, t, atol);
        if (by == 0)
            continue;
        d->count++;
        if (d->first < 0)
            d->first = i;
        if (d->worst < 0 || by > most) {
            d->worst = i;
            most = by;
        }
    }
    if (d->count)
        tell(got, expected, d, error);
    return !d->count;
}

static const char *kind_text(const struct tcc_object *v)
{
    return v->kind == TCC_OBJ_NONE ? "none" : v->kind == TCC_OBJ_SEQUENCE ? "a sequence" : "a tensor";
}

bool value_equal(const struct tcc_object *got, const struct tcc_object *expected, const struct tolerance *tolerance,
                 char *error)
{
    if (got->kind != expected->kind)
        return put_error(error, "got %s, expected %s", kind_text(got), kind_text(expected));
    if (got->kind == TCC_OBJ_TENSOR)
        return tensor_equal(&got->t, &expected->t, tolerance, NULL, error);
    if (got->kind == TCC_OBJ_NONE)
        return true;
    if (got->n != expected->n)
        return put_error(error, "got a sequence of %" PRId64 ", expected one of %" PRId64, got->n, expected->n);
    for (int64_t i = 0; i < got->n; i++) {
        char inner[ERROR_SIZE];
        if (!value_equal(got->items[i], expected->items[i], tolerance, inner))
            return put_error(error, "item %" PRId64 ": %.900s", i, inner);
    }
    return true;
}
