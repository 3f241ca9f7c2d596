/* SPDX-License-Identifier: Apache-2.0 */
/* ai.onnx.ml: feature handling (scaler, imputer, encoders) and label maps. Each function's comment gives operands and
 * attributes. */
#include <math.h>

#include "runtime/libop/libop_int.h"

static const struct tcc_string *strings(const struct tcc_tensor *t)
{
    return t->data;
}

static bool same_text(const struct tcc_string *s, const char *text)
{
    return s->size == (int64_t)strlen(text) && memcmp(s->data ? s->data : "", text, (size_t)s->size) == 0;
}

/* (x[..., n], indices) -> x[..., indices]; a vector counts as one row */
int tccrt_lib_array_feature_extractor(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x, *index;
    int64_t dims[TCC_MAX_RANK], n, rows, width;
    int rank, status;
    void *y;

    if ((status = lib_need(call, 0, -1, 0, &x)) || (status = lib_need(call, 1, -1, LIB_NUMBER, &index)))
        return status;
    if (x->rank < 1)
        return LIB_FAIL(call, "x must not be a scalar");
    rank = x->rank == 1 ? 2 : x->rank;
    n = lib_count(index);
    width = x->dims[x->rank - 1];
    rows = lib_product(x->rank - 1, x->dims);
    dims[0] = 1;
    memcpy(dims + (x->rank == 1), x->dims, (size_t)x->rank * sizeof *dims);
    dims[rank - 1] = n;
    if (!(y = lib_out(call, 0, x->dtype, rank, dims)))
        return TCC_EENV;
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < n; i++) {
            int64_t k = lib_get_int(index, i);

            if (k < 0 || k >= width)
                return call->host->fail(call, TCC_EINDEX, "index %lld is outside [0, %lld)", (long long)k,
                                        (long long)width);
            if (!lib_copy(y, r * n + i, x, r * width + k))
                return LIB_NO_MEMORY(call);
        }
    }
    return TCC_OK;
}

/* x attr threshold -> x > threshold as a number of x's type */
int tccrt_lib_binarizer(struct tcc_lib_call *call)
{
    double threshold = lib_float(call, "threshold", 0);
    const struct tcc_tensor *x;
    int status = lib_need(call, 0, -1, LIB_NUMBER, &x);
    void *y;

    if (status)
        return status;
    if (!(y = lib_out(call, 0, x->dtype, x->rank, x->dims)))
        return TCC_EENV;
    for (int64_t i = 0, n = lib_count(x); i < n; i++)
        lib_put(y, x->dtype, i, lib_get(x, i) > threshold);
    return TCC_OK;
}

/* x attrs offset, scale: a value, or one for each column -> f32 */
int tccrt_lib_scaler(struct tcc_lib_call *call)
{
    const struct tcc_attr *offset = lib_attr(call, "offset"), *scale = lib_attr(call, "scale");
    int64_t no = lib_list_size(offset), ns = lib_list_size(scale), width, n;
    const struct tcc_tensor *x;
    float *y;
    int status = lib_need(call, 0, -1, LIB_NUMBER, &x);

    if (status)
        return status;
    width = x->rank ? x->dims[x->rank - 1] : 1;
    if ((no > 1 && no != width) || (ns > 1 && ns != width))
        return LIB_FAIL(call, "offset and scale must have one or %lld values", (long long)width);
    if (!(y = lib_out(call, 0, TCC_F32, x->rank, x->dims)))
        return TCC_EENV;
    n = lib_count(x);
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)((lib_get(x, i) - (no ? lib_list_value(offset, no > 1 ? i % width : 0) : 0)) *
                       (ns ? lib_list_value(scale, ns > 1 ? i % width : 0) : 1));
    return TCC_OK;
}

/* x attrs imputed_value_floats or imputed_value_int64s (one or one a column), replaced_value_float (may be NaN) or
 * _int64 */
int tccrt_lib_imputer(struct tcc_lib_call *call)
{
    const struct tcc_attr *values = lib_attr(call, "imputed_value_floats");
    const struct tcc_tensor *x;
    double replaced;
    int64_t width, n, count;
    int status = lib_need(call, 0, -1, LIB_NUMBER, &x);
    void *y;

    if (status)
        return status;
    replaced = lib_float(call, lib_list_size(values) ? "replaced_value_float" : "replaced_value_int64", 0);
    values = lib_list_size(values) ? values : lib_attr(call, "imputed_value_int64s");
    count = lib_list_size(values);
    width = x->rank ? x->dims[x->rank - 1] : 1;
    if (count != 1 && count != width)
        return LIB_FAIL(call, "expected one or %lld imputed values, got %lld", (long long)width, (long long)count);
    if (!(y = lib_out(call, 0, x->dtype, x->rank, x->dims)))
        return TCC_EENV;
    n = lib_count(x);
    for (int64_t i = 0; i < n; i++) {
        double v = lib_get(x, i);

        if (isnan(replaced) ? isnan(v) : v == replaced)
            lib_put(y, x->dtype, i, lib_list_value(values, count == 1 ? 0 : i % width));
        else
            lib_copy(y, i, x, i);
    }
    return TCC_OK;
}

/* x[n, c] attr norm -> f32: each row divided by its largest magnitude, sum of magnitudes or length */
int tccrt_lib_normalizer(struct tcc_lib_call *call)
{
    const char *norm = lib_text(call, "norm", "MAX");
    const struct tcc_tensor *x;
    int64_t width, rows;
    float *y;
    int status = lib_need(call, 0, -1, LIB_NUMBER, &x);

    if (status)
        return status;
    width = x->rank ? x->dims[x->rank - 1] : 1;
    rows = width ? lib_count(x) / width : 0;
    if (!(y = lib_out(call, 0, TCC_F32, x->rank, x->dims)))
        return TCC_EENV;
    for (int64_t r = 0; r < rows; r++) {
        double d = 0;

        for (int64_t i = 0; i < width; i++) {
            double v = fabs(lib_get(x, r * width + i));

            d = strcmp(norm, "L1") == 0 ? d + v : strcmp(norm, "L2") == 0 ? d + v * v : fmax(d, v);
        }
        d = fmax(strcmp(norm, "L2") == 0 ? sqrt(d) : d, 1e-30);
        for (int64_t i = 0; i < width; i++)
            y[r * width + i] = (float)(lib_get(x, r * width + i) / d);
    }
    return TCC_OK;
}

/* Index of element i in a list of categories; -1: none. */
static int64_t category(const struct tcc_attr *a, const struct tcc_tensor *x, int64_t i)
{
    int64_t n = lib_list_size(a);

    for (int64_t k = 0; k < n; k++) {
        if (a->kind == TCC_ATTR_STRINGS ? same_text(strings(x) + i, a->strings[k])
            : x->dtype == TCC_STRING
                ? a->kind == TCC_ATTR_TENSOR && a->tensor->dtype == TCC_STRING &&
                      lib_compare_strings(strings(a->tensor) + k, strings(x) + i) == 0
                : lib_list_value(a, k) == lib_get(x, i) || (isnan(lib_list_value(a, k)) && isnan(lib_get(x, i))))
            return k;
    }
    return -1;
}

/* x attrs cats_int64s or cats_strings, zeros (default 1: unknown categories give zeros, else they are an error) ->
 * f32[..., cats] */
int tccrt_lib_one_hot_encoder(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x;
    const struct tcc_attr *cats;
    int64_t dims[TCC_MAX_RANK], n;
    float *y;
    int status = lib_need(call, 0, -1, 0, &x);

    if (status)
        return status;
    cats = lib_attr(call, x->dtype == TCC_STRING ? "cats_strings" : "cats_int64s");
    if (!lib_list_size(cats) || x->rank == TCC_MAX_RANK)
        return LIB_FAIL(call, "categories of x's type are needed");
    memcpy(dims, x->dims, sizeof dims);
    dims[x->rank] = lib_list_size(cats);
    if (!(y = lib_out(call, 0, TCC_F32, x->rank + 1, dims)))
        return TCC_EENV;
    n = lib_count(x);
    memset(y, 0, (size_t)(n * dims[x->rank]) * sizeof *y);
    for (int64_t i = 0; i < n; i++) {
        int64_t k = category(cats, x, i);

        if (k < 0 && !lib_int(call, "zeros", 1))
            return LIB_FAIL(call, "element %lld is none of the categories", (long long)i);
        if (k >= 0)
            y[i * dims[x->rank] + k] = 1;
    }
    return TCC_OK;
}

/* (x[n, c]...) attr inputdimensions: columns taken of each (missing ones are 0) -> f32 */
int tccrt_lib_feature_vectorizer(struct tcc_lib_call *call)
{
    const struct tcc_attr *cut = lib_attr(call, "inputdimensions");
    int64_t dims[2] = {0, 0}, at = 0;
    const struct tcc_tensor *x;
    float *y;
    int status;

    if (!cut || cut->kind != TCC_ATTR_INTS || cut->n != call->nin)
        return LIB_FAIL(call, "inputdimensions must have a value for each input");
    for (int k = 0; k < call->nin; k++) {
        if ((status = lib_need(call, k, -1, LIB_NUMBER, &x)))
            return status;
        if (x->rank < 1 || x->rank > 2 || (k && x->dims[0] != dims[0]) || cut->ints[k] < 0)
            return LIB_FAIL(call, "inputs must be [n, c] with the same n");
        dims[0] = x->dims[0];
        dims[1] += cut->ints[k];
    }
    if (!(y = lib_out(call, 0, TCC_F32, 2, dims)))
        return TCC_EENV;
    memset(y, 0, (size_t)(dims[0] * dims[1]) * sizeof *y);
    for (int k = 0; k < call->nin; at += cut->ints[k++]) {
        int64_t width;

        x = lib_in(call, k);
        width = x->rank == 2 ? x->dims[1] : 1;
        for (int64_t r = 0; r < dims[0]; r++)
            for (int64_t c = 0; c < width && c < cut->ints[k]; c++)
                y[r * dims[1] + at + c] = (float)lib_get(x, r * width + c);
    }
    return TCC_OK;
}

/* -- Label maps ------------------------------------------------------------------------------------------------------
 */

static const struct tcc_attr *first_list(struct tcc_lib_call *call, const char *const *names)
{
    for (; *names; names++)
        if (lib_list_size(lib_attr(call, *names)))
            return lib_attr(call, *names);
    return NULL;
}

/* Result element i = values[k], or the default when k < 0. */
static bool put_label(struct tcc_lib_call *call, void *y, int64_t i, const struct tcc_attr *values, int64_t k)
{
    const struct tcc_attr *t = lib_attr(call, "default_tensor");
    const char *text;

    if (values->kind == TCC_ATTR_STRINGS) {
        text = k < 0 ? lib_text(call, "default_string", "_Unused") : values->strings[k];
        return tccrt_string_set((struct tcc_string *)y + i, text, (int64_t)strlen(text)) == 0;
    }
    if (values->kind == TCC_ATTR_TENSOR) {
        if (k >= 0)
            return lib_copy(y, i, values->tensor, k);
        if (t && t->kind == TCC_ATTR_TENSOR && t->tensor->dtype == values->tensor->dtype && lib_count(t->tensor) > 0)
            return lib_copy(y, i, t->tensor, 0);
        lib_put(y, values->tensor->dtype, i, lib_class(values->tensor->dtype) == TCC_CLASS_FLOAT ? -0.0 : -1);
        return true;
    }
    if (values->kind == TCC_ATTR_INTS)
        ((int64_t *)y)[i] = k < 0 ? lib_int(call, "default_int64", -1) : values->ints[k];
    else
        ((float *)y)[i] = (float)(k < 0 ? lib_float(call, "default_float", -0.0) : values->floats[k]);
    return true;
}

static int map_labels(struct tcc_lib_call *call, const struct tcc_tensor *x, const struct tcc_attr *keys,
                      const struct tcc_attr *values)
{
    static const int dtypes[] = {
        [TCC_ATTR_INTS] = TCC_I64, [TCC_ATTR_FLOATS] = TCC_F32, [TCC_ATTR_STRINGS] = TCC_STRING};
    int64_t n = lib_count(x);
    void *y;

    if (!keys || !values || lib_list_size(keys) != lib_list_size(values))
        return LIB_FAIL(call, "keys and values must be lists of the same length");
    if (x->dtype == TCC_STRING && keys->kind != TCC_ATTR_STRINGS &&
        !(keys->kind == TCC_ATTR_TENSOR && keys->tensor->dtype == TCC_STRING))
        return LIB_FAIL(call, "x has strings, the keys have none");
    if (x->dtype != TCC_STRING && keys->kind == TCC_ATTR_STRINGS)
        return LIB_FAIL(call, "the keys are strings, x has none");
    y = lib_out(call, 0, values->kind == TCC_ATTR_TENSOR ? values->tensor->dtype : dtypes[values->kind], x->rank,
                x->dims);
    if (!y)
        return TCC_EENV;
    for (int64_t i = 0; i < n; i++)
        if (!put_label(call, y, i, values, category(keys, x, i)))
            return LIB_NO_MEMORY(call);
    return TCC_OK;
}

/* x attrs keys_TYPEs or keys_tensor, values_TYPEs or values_tensor, default_TYPE or default_tensor (TYPE: string,
 * int64, float) */
int tccrt_lib_label_encoder(struct tcc_lib_call *call)
{
    static const char *const keys[] = {"keys_strings", "keys_int64s", "keys_floats", "keys_tensor", NULL};
    static const char *const values[] = {"values_strings", "values_int64s", "values_floats", "values_tensor", NULL};
    const struct tcc_tensor *x;
    int status = lib_need(call, 0, -1, 0, &x);

    return status ? status : map_labels(call, x, first_list(call, keys), first_list(call, values));
}

/* x (strings or i64) attrs cats_strings, cats_int64s -> the other one of the pair */
int tccrt_lib_category_mapper(struct tcc_lib_call *call)
{
    const struct tcc_attr *texts = lib_attr(call, "cats_strings"), *ints = lib_attr(call, "cats_int64s");
    const struct tcc_tensor *x;
    int status = lib_need(call, 0, -1, 0, &x);

    if (status)
        return status;
    return x->dtype == TCC_STRING ? map_labels(call, x, texts, ints) : map_labels(call, x, ints, texts);
}
