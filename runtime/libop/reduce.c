/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions and running sums whose axes are known at run time only: dyn_reduce, dyn_arg, dyn_cumulate. Floats in
 * doubles, integers in 64 bits (wrapping). */
#include <math.h>

#include "runtime/libop/libop_int.h"

enum kind { SUM, MEAN, PROD, MAX, MIN, L1, L2, LOG_SUM, LOG_SUM_EXP, SUM_SQUARE, NKINDS };
static const char *const kind_names[NKINDS] = {"sum", "mean", "prod",    "max",         "min",
                                               "l1",  "l2",   "log_sum", "log_sum_exp", "sum_square"};

/* One result: `n` elements of x at base + index . strides over the reduced dims. */
struct lines {
    const struct tcc_tensor *x;
    int rank;
    int64_t dims[TCC_MAX_RANK], strides[TCC_MAX_RANK], n;
};

static double reduce_float(const struct lines *l, enum kind kind, int64_t base)
{
    int64_t index[TCC_MAX_RANK] = {0};
    double acc = kind == PROD                         ? 1
                 : kind == MAX || kind == LOG_SUM_EXP ? -INFINITY
                 : kind == MIN                        ? INFINITY
                                                      : 0,
           top = acc, sum = 0;

    for (int64_t i = 0; i < l->n; i++) {
        double v = lib_get(l->x, base + lib_dot(l->rank, index, l->strides));

        if (kind == SUM || kind == MEAN || kind == LOG_SUM)
            acc += v;
        else if (kind == PROD)
            acc *= v;
        else if (kind == L1)
            acc += fabs(v);
        else if (kind == L2 || kind == SUM_SQUARE)
            acc += v * v;
        else if (kind == MIN)
            acc = isnan(v) || v < acc ? v : acc;
        else if (isnan(v) || v > acc)
            acc = v;
        lib_next(l->rank, l->dims, index);
        if (isnan(acc) && (kind == MAX || kind == MIN))
            return acc;
    }
    if (kind == LOG_SUM_EXP) {
        top = isinf(acc) ? 0 : acc;
        for (int64_t i = 0; i < l->n; i++) {
            sum += exp(lib_get(l->x, base + lib_dot(l->rank, index, l->strides)) - top);
            lib_next(l->rank, l->dims, index);
        }
        return log(sum) + top;
    }
    return kind == MEAN ? acc / (double)l->n : kind == L2 ? sqrt(acc) : kind == LOG_SUM ? log(acc) : acc;
}

static int64_t reduce_int(const struct lines *l, enum kind kind, int64_t base)
{
    bool is_unsigned = lib_class(l->x->dtype) != TCC_CLASS_INT;
    int64_t index[TCC_MAX_RANK] = {0}, bits = 8 * lib_bytes(l->x->dtype);
    int64_t lowest = is_unsigned ? 0 : INT64_MIN >> (64 - bits),
            highest = is_unsigned ? (int64_t)(UINT64_MAX >> (64 - bits)) : ~(INT64_MIN >> (64 - bits));
    uint64_t acc = kind == PROD  ? 1
                   : kind == MAX ? (uint64_t)lowest
                   : kind == MIN ? (uint64_t)(l->x->dtype == TCC_BOOL ? 1 : highest)
                                 : 0;

    for (int64_t i = 0; i < l->n; i++) {
        int64_t v = lib_get_int(l->x, base + lib_dot(l->rank, index, l->strides));
        bool less = is_unsigned ? (uint64_t)v < acc : v < (int64_t)acc;

        if (kind == PROD)
            acc *= (uint64_t)v;
        else if (kind == MAX || kind == MIN)
            acc = less == (kind == MIN) ? (uint64_t)v : acc;
        else if (kind == L1)
            acc += v < 0 && !is_unsigned ? 0 - (uint64_t)v : (uint64_t)v;
        else
            acc += kind == L2 || kind == SUM_SQUARE ? (uint64_t)v * (uint64_t)v : (uint64_t)v;
        lib_next(l->rank, l->dims, index);
    }
    if (kind == MEAN)
        return l->n ? (int64_t)acc / l->n : 0;
    if (kind == L2)
        return (int64_t)sqrt((double)(int64_t)acc);
    return (int64_t)acc;
}

/* Splits x's axes into kept ones (result) and reduced ones (l). `result` gets the dims with 1 for the reduced,
 * kept_strides theirs. */
static void split_axes(const struct tcc_tensor *x, const bool *reduced, struct lines *l, int64_t *result,
                       int64_t *kept_strides)
{
    int64_t strides[TCC_MAX_RANK];

    lib_strides(x, x->rank, x->dims, strides);
    l->x = x;
    l->rank = 0;
    l->n = 1;
    for (int i = 0; i < x->rank; i++) {
        result[i] = reduced[i] ? 1 : x->dims[i];
        kept_strides[i] = reduced[i] ? 0 : strides[i];
        if (reduced[i]) {
            l->dims[l->rank] = x->dims[i];
            l->strides[l->rank++] = strides[i];
            l->n *= x->dims[i];
        }
    }
}

static int without(const bool *reduced, int rank, const int64_t *dims, bool keep, int64_t *to)
{
    int n = 0;

    for (int i = 0; i < rank; i++)
        if (keep || !reduced[i])
            to[n++] = dims[i];
    return n;
}

/* (x, axes?) */
int tccrt_lib_dyn_reduce(struct tcc_lib_call *call)
{
    const char *name = lib_text(call, "kind", "sum");
    bool keep = lib_int(call, "keepdims", 1) != 0, reduced[TCC_MAX_RANK] = {false}, floats;
    int64_t dims[TCC_MAX_RANK], out[TCC_MAX_RANK], strides[TCC_MAX_RANK], index[TCC_MAX_RANK] = {0}, n;
    int axes[TCC_MAX_RANK], naxes, kind = -1, status;
    const struct tcc_tensor *x;
    struct lines l;
    void *y;

    if ((status = lib_need(call, 0, -1, LIB_NUMBER, &x)))
        return status;
    for (int i = 0; i < NKINDS; i++)
        kind = strcmp(kind_names[i], name) == 0 ? i : kind;
    if (kind < 0 || lib_class(x->dtype) == TCC_CLASS_STRING || lib_class(x->dtype) == TCC_CLASS_COMPLEX)
        return LIB_FAIL(call, "reduction '%s' of element type %d", name, x->dtype);
    if ((naxes = lib_axes(call, 1, x->rank, axes)) < 0)
        return TCC_EINPUT;
    for (int i = 0; i < x->rank; i++)
        reduced[i] = naxes == 0 && !lib_int(call, "noop_with_empty_axes", 0);
    for (int i = 0; i < naxes; i++)
        reduced[axes[i]] = true;
    split_axes(x, reduced, &l, dims, strides);
    if (!(y = lib_out(call, 0, x->dtype, without(reduced, x->rank, dims, keep, out), out)))
        return TCC_EENV;
    floats = lib_class(x->dtype) == TCC_CLASS_FLOAT;
    n = lib_product(x->rank, dims);
    for (int64_t i = 0; i < n; i++) {
        int64_t base = lib_dot(x->rank, index, strides);

        if (floats || kind == LOG_SUM || kind == LOG_SUM_EXP)
            lib_put(y, x->dtype, i, reduce_float(&l, (enum kind)kind, base));
        else
            lib_put_int(y, x->dtype, i, reduce_int(&l, (enum kind)kind, base));
        lib_next(x->rank, dims, index);
    }
    return TCC_OK;
}

/* (x, axis?) attrs kind (argmax, argmin), axis, keepdims, select_last_index; NaN wins */
int tccrt_lib_dyn_arg(struct tcc_lib_call *call)
{
    bool keep = lib_int(call, "keepdims", 1) != 0, last = lib_int(call, "select_last_index", 0) != 0,
         reduced[TCC_MAX_RANK] = {false};
    double sign = strcmp(lib_text(call, "kind", "argmax"), "argmin") == 0 ? -1 : 1;
    int64_t dims[TCC_MAX_RANK], out[TCC_MAX_RANK], strides[TCC_MAX_RANK], index[TCC_MAX_RANK] = {0}, n, *y;
    const struct tcc_tensor *x, *at = lib_in(call, 1);
    struct lines l;
    int axis, status = lib_need(call, 0, -1, LIB_NUMBER, &x);

    if (status)
        return status;
    axis = lib_axis(at && lib_count(at) ? lib_get_int(at, 0) : lib_int(call, "axis", 0), x->rank);
    if (axis < 0 || x->dims[axis] == 0)
        return LIB_FAIL(call, "the axis is outside a tensor of rank %d, or empty", x->rank);
    reduced[axis] = true;
    split_axes(x, reduced, &l, dims, strides);
    if (!(y = lib_out(call, 0, TCC_I64, without(reduced, x->rank, dims, keep, out), out)))
        return TCC_EENV;
    n = lib_product(x->rank, dims);
    for (int64_t i = 0; i < n; i++) {
        int64_t base = lib_dot(x->rank, index, strides), best = 0;
        double top = sign * lib_get(x, base);

        for (int64_t k = 1; k < l.n; k++) {
            double v = sign * lib_get(x, base + k * l.strides[0]);

            if ((isnan(v) && (!isnan(top) || last)) || v > top || (last && v == top)) {
                top = v;
                best = k;
            }
        }
        y[i] = best;
        lib_next(x->rank, dims, index);
    }
    return TCC_OK;
}

/* (x, axis) attrs kind (sum, prod), exclusive, reverse */
int tccrt_lib_dyn_cumulate(struct tcc_lib_call *call)
{
    bool product = strcmp(lib_text(call, "kind", "sum"), "prod") == 0, exclusive = lib_int(call, "exclusive", 0) != 0,
         reverse = lib_int(call, "reverse", 0) != 0;
    const struct tcc_tensor *x, *at;
    int64_t outer, inner, length;
    bool floats;
    int axis, status;
    void *y;

    if ((status = lib_need(call, 0, -1, LIB_NUMBER, &x)) || (status = lib_need(call, 1, -1, LIB_NUMBER, &at)))
        return status;
    axis = lib_count(at) == 1 ? lib_axis(lib_get_int(at, 0), x->rank) : -1;
    if (axis < 0)
        return LIB_FAIL(call, "the axis is outside a tensor of rank %d", x->rank);
    if (!(y = lib_out(call, 0, x->dtype, x->rank, x->dims)))
        return TCC_EENV;
    outer = lib_product(axis, x->dims);
    inner = lib_product(x->rank - axis - 1, x->dims + axis + 1);
    length = x->dims[axis];
    floats = lib_class(x->dtype) == TCC_CLASS_FLOAT;
    for (int64_t line = 0; line < outer * inner; line++) {
        int64_t base = line / inner * length * inner + line % inner;
        double f = product;
        uint64_t n = product;

        for (int64_t k = 0; k < length; k++) {
            int64_t i = base + (reverse ? length - 1 - k : k) * inner;

            for (int pass = 0; pass < 2; pass++) {
                if (pass == exclusive) {
                    f = product ? f * lib_get(x, i) : f + lib_get(x, i);
                    n = product ? n * (uint64_t)lib_get_int(x, i) : n + (uint64_t)lib_get_int(x, i);
                } else if (floats) {
                    lib_put(y, x->dtype, i, f);
                } else {
                    lib_put_int(y, x->dtype, i, (int64_t)n);
                }
            }
        }
    }
    return TCC_OK;
}
