/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes from operands that are known at run time only, as small i64 tensors: a compiler binds them to symbols and goes
 * on with ordinary ops. Also shape and size themselves, for values whose rank is not known.
 */
#include "runtime/libop/libop_int.h"

static int give_list(struct tcc_lib_call *call, const int64_t *v, int64_t n)
{
    int64_t *y = lib_out(call, 0, TCC_I64, 1, &n);

    if (!y)
        return TCC_EENV;
    memcpy(y, v, (size_t)n * sizeof *y);
    return TCC_OK;
}

/* ONNX Reshape's target: 0 copies x's dim (unless allowzero), one -1 takes what is left. */
static int resolve_shape(struct tcc_lib_call *call, int rank, const int64_t *dims, int n, int64_t *shape,
                         bool allowzero)
{
    int64_t total = lib_product(rank, dims), known = 1;
    int rest = -1;

    for (int i = 0; i < n; i++) {
        if (shape[i] == 0 && !allowzero) {
            if (i >= rank)
                return LIB_FAIL(call, "shape[%d] is 0, but x has rank %d", i, rank);
            shape[i] = dims[i];
        }
        if (shape[i] < -1 || (shape[i] == -1 && rest >= 0))
            return LIB_FAIL(call, "shape[%d] is %lld", i, (long long)shape[i]);
        if (shape[i] == -1)
            rest = i;
        else if (__builtin_mul_overflow(known, shape[i], &known))
            return LIB_FAIL(call, "the shape is too large");
    }
    if (rest >= 0) {
        if (known == 0 || total % known)
            return LIB_FAIL(call, "%lld elements do not fill a shape with steps of %lld", (long long)total,
                            (long long)known);
        shape[rest] = total / known;
        known *= shape[rest];
    }
    return known == total
               ? TCC_OK
               : LIB_FAIL(call, "%lld elements cannot take a shape of %lld", (long long)total, (long long)known);
}

/* (dims of x, shape) attr allowzero */
int tccrt_lib_reshape_dims(struct tcc_lib_call *call)
{
    int64_t dims[TCC_MAX_RANK], shape[TCC_MAX_RANK];
    int rank = lib_values(call, 0, dims, TCC_MAX_RANK), n = rank < 0 ? -1 : lib_values(call, 1, shape, TCC_MAX_RANK),
        status;

    if (n < 0)
        return TCC_EINPUT;
    status = resolve_shape(call, rank, dims, n, shape, lib_int(call, "allowzero", 0) != 0);
    return status ? status : give_list(call, shape, n);
}

/* (x, shape) attr allowzero: the same elements */
int tccrt_lib_dyn_reshape(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x;
    int64_t shape[TCC_MAX_RANK];
    int n, status = lib_need(call, 0, -1, 0, &x);
    void *y;

    if (status)
        return status;
    if ((n = lib_values(call, 1, shape, TCC_MAX_RANK)) < 0)
        return TCC_EINPUT;
    if ((status = resolve_shape(call, x->rank, x->dims, n, shape, lib_int(call, "allowzero", 0) != 0)))
        return status;
    if (!(y = lib_out(call, 0, x->dtype, n, shape)))
        return TCC_EENV;
    return lib_copy_n(y, 0, x, 0, lib_count(x)) ? TCC_OK : LIB_NO_MEMORY(call);
}

static int give_reshaped(struct tcc_lib_call *call, const struct tcc_tensor *x, int rank, const int64_t *dims)
{
    void *y = lib_out(call, 0, x->dtype, rank, dims);

    if (!y)
        return TCC_EENV;
    return lib_copy_n(y, 0, x, 0, lib_count(x)) ? TCC_OK : LIB_NO_MEMORY(call);
}

/* (x) attr axis (default 1) */
int tccrt_lib_dyn_flatten(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x;
    int64_t axis = lib_int(call, "axis", 1), dims[2];
    int status = lib_need(call, 0, -1, 0, &x);

    if (status)
        return status;
    axis += axis < 0 ? x->rank : 0;
    if (axis < 0 || axis > x->rank)
        return LIB_FAIL(call, "axis %lld is outside a tensor of rank %d", (long long)axis, x->rank);
    dims[0] = lib_product((int)axis, x->dims);
    dims[1] = lib_product(x->rank - (int)axis, x->dims + axis);
    return give_reshaped(call, x, 2, dims);
}

/* (x, axes?) attr axes; none: all axes of size 1 */
int tccrt_lib_dyn_squeeze(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x;
    int64_t dims[TCC_MAX_RANK];
    int axes[TCC_MAX_RANK], n, rank = 0, status = lib_need(call, 0, -1, 0, &x);
    bool gone[TCC_MAX_RANK] = {false};

    if (status)
        return status;
    if ((n = lib_axes(call, 1, x->rank, axes)) < 0)
        return TCC_EINPUT;
    for (int i = 0; i < n; i++) {
        if (x->dims[axes[i]] != 1)
            return LIB_FAIL(call, "axis %d has size %lld, not 1", axes[i], (long long)x->dims[axes[i]]);
        gone[axes[i]] = true;
    }
    for (int i = 0; i < x->rank; i++)
        if (!(lib_has(call, 1) || lib_attr(call, "axes") ? gone[i] : x->dims[i] == 1))
            dims[rank++] = x->dims[i];
    return give_reshaped(call, x, rank, dims);
}

/* (x, axes?) attr axes: axes of the result that are new, of size 1 */
int tccrt_lib_dyn_unsqueeze(struct tcc_lib_call *call)
{
    const struct tcc_attr *a = lib_attr(call, "axes");
    const struct tcc_tensor *x;
    const struct tcc_tensor *list = lib_in(call, 1);
    int64_t dims[TCC_MAX_RANK], count = list ? lib_count(list) : a ? a->n : 0;
    int axes[TCC_MAX_RANK], n, rank, status = lib_need(call, 0, -1, 0, &x);
    bool added[TCC_MAX_RANK] = {false};

    if (status)
        return status;
    if (count > TCC_MAX_RANK - x->rank)
        return LIB_FAIL(call, "the result's rank would be above %d", TCC_MAX_RANK);
    rank = x->rank + (int)count;
    if ((n = lib_axes(call, 1, rank, axes)) < 0)
        return TCC_EINPUT;
    for (int i = 0; i < n; i++) {
        if (added[axes[i]])
            return LIB_FAIL(call, "axis %d is listed twice", axes[i]);
        added[axes[i]] = true;
    }
    for (int i = 0, k = 0; i < rank; i++)
        dims[i] = added[i] ? 1 : x->dims[k++];
    return give_reshaped(call, x, rank, dims);
}

/* (x) attrs start, end */
int tccrt_lib_dyn_shape(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x;
    int64_t start = lib_int(call, "start", 0), end;
    int status = lib_need(call, 0, -1, 0, &x);

    if (status)
        return status;
    end = lib_int(call, "end", x->rank);
    start += start < 0 ? x->rank : 0;
    end += end < 0 ? x->rank : 0;
    start = start < 0 ? 0 : start > x->rank ? x->rank : start;
    end = end < start ? start : end > x->rank ? x->rank : end;
    return give_list(call, x->dims + start, end - start);
}

/* (x...) -> i64[n] */
int tccrt_lib_broadcast_dims(struct tcc_lib_call *call)
{
    struct tcc_tensor all = {.rank = 0};
    int status;

    for (int i = 0; i < call->nin; i++) {
        const struct tcc_tensor *x;
        int64_t dims[TCC_MAX_RANK];

        if ((status = lib_need(call, i, -1, 0, &x)))
            return status;
        if ((all.rank = lib_broadcast(call, &all, x, dims)) < 0)
            return TCC_EINPUT;
        memcpy(all.dims, dims, sizeof dims);
    }
    return give_list(call, all.dims, all.rank);
}

int tccrt_lib_dyn_size(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x;
    int64_t *y;
    int status = lib_need(call, 0, -1, 0, &x);

    if (status)
        return status;
    if (!(y = lib_out(call, 0, TCC_I64, 0, NULL)))
        return TCC_EENV;
    *y = lib_count(x);
    return TCC_OK;
}

/* -- Slices ---------------------------------------------------------------------------------------------------- */

struct bounds {
    int64_t start[TCC_MAX_RANK], size[TCC_MAX_RANK], step[TCC_MAX_RANK];
};

static int64_t clamp(int64_t v, int64_t lo, int64_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

/* Operands from `at` on: starts, ends, axes?, steps?. */
static int read_bounds(struct tcc_lib_call *call, int at, int rank, const int64_t *dims, struct bounds *b)
{
    int64_t starts[TCC_MAX_RANK], ends[TCC_MAX_RANK], steps[TCC_MAX_RANK];
    int axes[TCC_MAX_RANK], n = lib_values(call, at, starts, TCC_MAX_RANK), naxes;

    if (n < 0)
        return TCC_EINPUT;
    if (lib_values(call, at + 1, ends, TCC_MAX_RANK) != n)
        return LIB_FAIL(call, "starts and ends must have equally many values");
    naxes = lib_axes(call, at + 2, rank, axes);
    if (naxes < 0)
        return TCC_EINPUT;
    for (int i = 0; !lib_has(call, at + 2) && i < n && i < rank; i++)
        axes[i] = i;
    if ((lib_has(call, at + 2) ? naxes != n : n > rank) ||
        (lib_has(call, at + 3) && lib_values(call, at + 3, steps, TCC_MAX_RANK) != n))
        return LIB_FAIL(call, "starts, axes and steps must have equally many values, at most %d", rank);
    for (int i = 0; i < rank; i++) {
        b->start[i] = 0;
        b->size[i] = dims[i];
        b->step[i] = 1;
    }
    for (int i = 0; i < n; i++) {
        int64_t d = dims[axes[i]], step = lib_has(call, at + 3) ? steps[i] : 1, start = starts[i], end = ends[i], size;

        if (step == 0 || step == INT64_MIN)
            return LIB_FAIL(call, "step %lld", (long long)step);
        start += start < 0 ? d : 0;
        end += end < 0 ? d : 0;
        start = step > 0 ? clamp(start, 0, d) : clamp(start, 0, d - 1);
        end = step > 0 ? clamp(end, 0, d) : clamp(end, -1, d - 1);
        size = step > 0 ? (end - start + (step - 1 < d ? step - 1 : d)) / step
                        : (start - end + (-step - 1 < d ? -step - 1 : d)) / -step;
        if (step > d || -step > d)
            size = step > 0 ? end > start : start > end;
        b->start[axes[i]] = start;
        b->size[axes[i]] = size < 0 ? 0 : size;
        b->step[axes[i]] = step;
    }
    return TCC_OK;
}

/* (dims of x, starts, ends, axes?, steps?) -> starts, sizes, steps of all axes, one list after the other */
int tccrt_lib_slice_bounds(struct tcc_lib_call *call)
{
    int64_t dims[TCC_MAX_RANK], all[3 * TCC_MAX_RANK];
    struct bounds b;
    int rank = lib_values(call, 0, dims, TCC_MAX_RANK), status;

    if (rank < 0)
        return TCC_EINPUT;
    if ((status = read_bounds(call, 1, rank, dims, &b)))
        return status;
    for (int i = 0; i < rank; i++) {
        all[i] = b.start[i];
        all[rank + i] = b.size[i];
        all[2 * rank + i] = b.step[i];
    }
    return give_list(call, all, 3 * rank);
}

/* (x, starts, ends, axes?, steps?) */
int tccrt_lib_dyn_slice(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x;
    int64_t index[TCC_MAX_RANK] = {0}, strides[TCC_MAX_RANK], origin = 0, n;
    struct bounds b;
    void *y;
    int status = lib_need(call, 0, -1, 0, &x);

    if (status || (status = read_bounds(call, 1, x->rank, x->dims, &b)))
        return status;
    if (!(y = lib_out(call, 0, x->dtype, x->rank, b.size)))
        return TCC_EENV;
    for (int i = x->rank - 1, s = 0; i >= 0; i--, s++) {
        strides[i] = lib_product(s, x->dims + i + 1);
        origin += b.start[i] * strides[i];
        strides[i] *= b.step[i];
    }
    n = lib_product(x->rank, b.size);
    for (int64_t i = 0; i < n; i++) {
        if (!lib_copy(y, i, x, origin + lib_dot(x->rank, index, strides)))
            return LIB_NO_MEMORY(call);
        lib_next(x->rank, b.size, index);
    }
    return TCC_OK;
}

/* -- Pads ------------------------------------------------------------------------------------------------------- */

/* Amounts for all axes from operands `pads` (at) and `axes` (at_axes): in front of each, then behind each. */
static int read_pads(struct tcc_lib_call *call, int at, int at_axes, int rank, int64_t *all)
{
    int64_t pads[2 * TCC_MAX_RANK];
    int axes[TCC_MAX_RANK], n = lib_values(call, at, pads, 2 * TCC_MAX_RANK), naxes;

    if (n < 0 || (naxes = lib_axes(call, at_axes, rank, axes)) < 0)
        return TCC_EINPUT;
    if (!lib_has(call, at_axes)) {
        naxes = rank;
        for (int i = 0; i < rank; i++)
            axes[i] = i;
    }
    if (n != 2 * naxes)
        return LIB_FAIL(call, "pads must have %d values, got %d", 2 * naxes, n);
    memset(all, 0, 2 * (size_t)rank * sizeof *all);
    for (int i = 0; i < naxes; i++) {
        all[axes[i]] = pads[i];
        all[rank + axes[i]] = pads[naxes + i];
    }
    return TCC_OK;
}

/* (rank: i64[], pads, axes?) */
int tccrt_lib_pad_amounts(struct tcc_lib_call *call)
{
    const struct tcc_tensor *r;
    int64_t all[2 * TCC_MAX_RANK], rank;
    int status = lib_need(call, 0, -1, TCC_I64, &r);

    if (status)
        return status;
    rank = lib_count(r) ? lib_get_int(r, 0) : -1;
    if (rank < 0 || rank > TCC_MAX_RANK)
        return LIB_FAIL(call, "rank %lld", (long long)rank);
    status = read_pads(call, 1, 2, (int)rank, all);
    return status ? status : give_list(call, all, 2 * rank);
}

enum pad_mode { CONSTANT, EDGE, REFLECT, WRAP };

/* Index into the operand for position i of the padded axis; -1: the constant. */
static int64_t source(enum pad_mode mode, int64_t i, int64_t n)
{
    int64_t period;

    if (i >= 0 && i < n)
        return i;
    switch (mode) {
    case EDGE: return i < 0 ? 0 : n - 1;
    case REFLECT:
        if (n == 1)
            return 0;
        period = 2 * (n - 1);
        i = ((i % period) + period) % period;
        return i < n ? i : period - i;
    case WRAP: return ((i % n) + n) % n;
    default: return -1;
    }
}

static int fill_padded(struct tcc_lib_call *call, const struct tcc_tensor *x, const int64_t *pads, const int64_t *dims,
                       enum pad_mode mode, void *y)
{
    const struct tcc_tensor *value = lib_in(call, 2);
    int64_t index[TCC_MAX_RANK] = {0}, strides[TCC_MAX_RANK], n = lib_product(x->rank, dims);
    bool ok = true;

    lib_strides(x, x->rank, x->dims, strides);
    if (x->dtype != TCC_STRING)
        memset(y, 0, (size_t)n * (size_t)lib_bytes(x->dtype));
    for (int64_t i = 0; i < n && ok; i++) {
        int64_t at = 0;

        for (int a = 0; a < x->rank && at >= 0; a++) {
            int64_t k = source(mode, index[a] - pads[a], x->dims[a]);

            at = k < 0 ? -1 : at + k * strides[a];
        }
        if (at >= 0)
            ok = lib_copy(y, i, x, at);
        else if (value && lib_count(value) == 1)
            ok = lib_copy(y, i, value, 0);
        lib_next(x->rank, dims, index);
    }
    return ok ? TCC_OK : LIB_NO_MEMORY(call);
}

/* (x, pads, value?, axes?) attr mode */
int tccrt_lib_dyn_pad(struct tcc_lib_call *call)
{
    static const char *const names[] = {"constant", "edge", "reflect", "wrap"};
    const char *name = lib_text(call, "mode", "constant");
    const struct tcc_tensor *x, *value = lib_in(call, 2);
    int64_t pads[2 * TCC_MAX_RANK], dims[TCC_MAX_RANK];
    int mode = -1, status = lib_need(call, 0, -1, 0, &x);
    void *y;

    if (status || (status = read_pads(call, 1, 3, x->rank, pads)))
        return status;
    for (int i = 0; i < 4; i++)
        mode = strcmp(names[i], name) == 0 ? i : mode;
    if (mode < 0 || (value && value->dtype != x->dtype))
        return LIB_FAIL(call, "mode '%s' is not known, or the value's type is not x's", name);
    for (int i = 0; i < x->rank; i++) {
        if (__builtin_add_overflow(x->dims[i], pads[i], &dims[i]) ||
            __builtin_add_overflow(dims[i], pads[x->rank + i], &dims[i]) || dims[i] < 0)
            return LIB_FAIL(call, "axis %d of size %lld cannot be padded by %lld and %lld", i, (long long)x->dims[i],
                            (long long)pads[i], (long long)pads[x->rank + i]);
        if (dims[i] > 0 && x->dims[i] == 0 && mode != CONSTANT)
            return LIB_FAIL(call, "axis %d is empty: there is nothing to repeat", i);
    }
    if (!(y = lib_out(call, 0, x->dtype, x->rank, dims)))
        return TCC_EENV;
    return fill_padded(call, x, pads, dims, (enum pad_mode)mode, y);
}
