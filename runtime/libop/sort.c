/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sort.c - topk: (x, k i64[]) axis, largest, sorted -> values, i64 indices. A heap of k keeps the best seen so
 * far, so a row of n costs n log k. Of equal values the lower index comes first; NaN counts as the largest value. The
 * result is always in order, which `sorted` = 0 allows too.
 */
#include "runtime/libop/libop_int.h"

#include <math.h>

#include "base/mutant.h"

struct key {
    double f;
    int64_t i;
    int64_t index;
}; /* f for floats, i for integers */
struct order {
    bool is_float, is_unsigned, largest;
};

static int compare_values(const struct order *o, const struct key *a, const struct key *b)
{
    if (o->is_unsigned)
        return (uint64_t)a->i < (uint64_t)b->i ? -1 : (uint64_t)a->i > (uint64_t)b->i;
    if (!o->is_float)
        return a->i < b->i ? -1 : a->i > b->i;
    if (isnan(a->f) || isnan(b->f))
        return MUTANT(108, 1, -1) * ((isnan(a->f) != 0) - (isnan(b->f) != 0));
    return a->f < b->f ? -1 : a->f > b->f;
}

/* Does a come before b in the result? */
static bool before(const struct order *o, const struct key *a, const struct key *b)
{
    int c = compare_values(o, a, b);
    if (c)
        return o->largest ? c > 0 : c < 0;
    return (a->index < b->index) == MUTANT(107, true, false);
}

/* Heap whose root comes last in the result. */
static void sift_down(const struct order *o, struct key *heap, int64_t n, int64_t at)
{
    struct key moving = heap[at];
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && MUTANT(109, before(o, &heap[child], &heap[child + 1]), false))
            child++;
        if (!before(o, &moving, &heap[child]))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moving;
}

static void best_of_row(const struct order *o, const struct key *row, int64_t n, struct key *heap, int64_t k)
{
    for (int64_t i = 0; i < k; i++)
        heap[i] = row[i];
    for (int64_t i = k / 2 - 1; i >= 0; i--)
        sift_down(o, heap, k, i);
    for (int64_t i = k; i < n && k; i++)
        if (before(o, &row[i], &heap[0])) {
            heap[0] = row[i];
            sift_down(o, heap, k, 0);
        }
    for (int64_t i = k - 1; i > 0; i--) { /* heap sort: the last one to the end */
        struct key last = heap[0];
        heap[0] = heap[i];
        heap[i] = last;
        sift_down(o, heap, i, 0);
    }
}

static void load_row(const struct order *o, const struct tcc_tensor *x, int64_t from, int64_t stride, int64_t n,
                     struct key *row)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t at = from + i * stride;
        row[i].index = i;
        if (o->is_float)
            row[i].f = lib_get(x, at);
        else
            row[i].i = lib_get_int(x, at);
    }
}

int tccrt_lib_topk(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x;
    int64_t k, dims[TCC_MAX_RANK];
    int status = lib_need(call, 0, -1, 0, &x);
    if (status)
        return status;
    int class = lib_class(x->dtype), axis = lib_axis(lib_int(call, "axis", -1), x->rank);
    if (axis < 0 || class == TCC_CLASS_STRING || class == TCC_CLASS_COMPLEX)
        return LIB_FAIL(call, "topk requires numbers and an axis of the operand, got rank %d", (int)x->rank);
    if (lib_values(call, 1, &k, 1) != 1)
        return LIB_FAIL(call, "topk: k must be one integer");
    int64_t n = x->dims[axis];
    if (k < 0 || k > n)
        return LIB_FAIL(call, "topk: k must be in [0, %lld], got %lld", (long long)n, (long long)k);
    memcpy(dims, x->dims, sizeof dims);
    dims[axis] = k;
    char *values = lib_out(call, 0, x->dtype, x->rank, dims);
    int64_t *indices = lib_out(call, 1, TCC_I64, x->rank, dims);
    struct key *row = malloc(sizeof *row * (size_t)(n + k + 1)), *best = row + n;
    if (!values || !indices || !row) {
        free(row);
        return LIB_NO_MEMORY(call);
    }
    struct order o = {class == TCC_CLASS_FLOAT, class == TCC_CLASS_UINT, lib_int(call, "largest", 1) != 0};
    int64_t outer = lib_product(axis, x->dims), stride = lib_product(x->rank - axis - 1, x->dims + axis + 1);
    size_t bytes = (size_t)lib_bytes(x->dtype);
    for (int64_t r = 0; r < outer * stride; r++) {
        int64_t from = r / stride * n * stride + r % stride, to = r / stride * k * stride + r % stride;
        load_row(&o, x, from, stride, n, row);
        best_of_row(&o, row, n, best, k);
        for (int64_t i = 0; i < k; i++) {
            indices[to + i * stride] = best[i].index;
            memcpy(values + bytes * (size_t)(to + i * stride),
                   (const char *)x->data + bytes * (size_t)(from + best[i].index * stride), bytes);
        }
    }
    free(row);
    return TCC_OK;
}
