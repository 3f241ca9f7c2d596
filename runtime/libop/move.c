/* SPDX-License-Identifier: Apache-2.0 */
/* Moves of any element type and rank: transpose, gather, concat, expand, select, tile, split, reverse_sequence. */
#include "runtime/libop/libop_int.h"
#include "base/mutant.h"

/* y[dims] = x at index . strides */
static int copy_strided(struct tcc_lib_call *call, const struct tcc_tensor *x, int rank, const int64_t *dims,
                        const int64_t *strides)
{
    int64_t index[TCC_MAX_RANK] = {0}, n = lib_product(rank, dims);
    void *y = lib_out(call, 0, x->dtype, rank, dims);

    if (!y)
        return TCC_EENV;
    for (int64_t i = 0; i < n; i++) {
        if (!lib_copy(y, i, x, lib_dot(rank, index, strides)))
            return LIB_NO_MEMORY(call);
        lib_next(rank, dims, index);
    }
    return TCC_OK;
}

/* (x) attr perm (absent: axes reversed) */
int tccrt_lib_dyn_transpose(struct tcc_lib_call *call)
{
    const struct tcc_attr *perm = lib_attr(call, "perm");
    const struct tcc_tensor *x;
    int64_t dims[TCC_MAX_RANK], strides[TCC_MAX_RANK], moved[TCC_MAX_RANK];
    bool seen[TCC_MAX_RANK] = {false};
    int status = lib_need(call, 0, -1, 0, &x);

    if (status)
        return status;
    if (perm && (perm->kind != TCC_ATTR_INTS || perm->n != x->rank))
        return LIB_FAIL(call, "perm must have %d values", x->rank);
    lib_strides(x, x->rank, x->dims, strides);
    for (int i = 0; i < x->rank; i++) {
        int64_t a = perm ? perm->ints[i] : x->rank - 1 - i;

        if (a < 0 || a >= x->rank || seen[a])
            return LIB_FAIL(call, "perm is not a permutation");
        seen[a] = true;
        dims[i] = x->dims[a];
        moved[i] = strides[a];
    }
    return copy_strided(call, x, x->rank, dims, moved);
}

/* (x, shape): both broadcast against each other */
int tccrt_lib_dyn_expand(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x;
    struct tcc_tensor shape = {0};
    int64_t dims[TCC_MAX_RANK], strides[TCC_MAX_RANK];
    int rank, status = lib_need(call, 0, -1, 0, &x);

    if (status)
        return status;
    if ((shape.rank = lib_values(call, 1, shape.dims, TCC_MAX_RANK)) < 0 ||
        (rank = lib_broadcast(call, x, &shape, dims)) < 0)
        return TCC_EINPUT;
    for (int i = 0; i < rank; i++)
        if (dims[i] < 0)
            return LIB_FAIL(call, "size %lld is negative", (long long)dims[i]);
    lib_strides(x, rank, dims, strides);
    return copy_strided(call, x, rank, dims, strides);
}

/* (x, repeats) */
int tccrt_lib_dyn_tile(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x;
    int64_t repeats[TCC_MAX_RANK], dims[TCC_MAX_RANK], index[TCC_MAX_RANK] = {0}, strides[TCC_MAX_RANK], n;
    int status = lib_need(call, 0, -1, 0, &x);
    void *y;

    if (status)
        return status;
    if (lib_values(call, 1, repeats, TCC_MAX_RANK) != x->rank)
        return LIB_FAIL(call, "repeats must have %d values", x->rank);
    for (int i = 0; i < x->rank; i++)
        if (repeats[i] < 0 || __builtin_mul_overflow(x->dims[i], repeats[i], &dims[i]))
            return LIB_FAIL(call, "repeats[%d] is %lld", i, (long long)repeats[i]);
    if (!(y = lib_out(call, 0, x->dtype, x->rank, dims)))
        return TCC_EENV;
    lib_strides(x, x->rank, x->dims, strides);
    n = lib_product(x->rank, dims);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0;

        for (int a = 0; a < x->rank; a++)
            at += index[a] % x->dims[a] * strides[a];
        if (!lib_copy(y, i, x, at))
            return LIB_NO_MEMORY(call);
        lib_next(x->rank, dims, index);
    }
    return TCC_OK;
}

/* (x, indices) attr axis: numpy.take; negative indices count from the end */
int tccrt_lib_dyn_gather(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x, *index;
    int64_t dims[TCC_MAX_RANK], outer, inner, length, n;
    int axis, rank, status;
    void *y;

    if ((status = lib_need(call, 0, -1, 0, &x)) || (status = lib_need(call, 1, -1, LIB_NUMBER, &index)))
        return status;
    axis = lib_axis(lib_int(call, "axis", 0), x->rank);
    rank = x->rank + index->rank - 1;
    if (axis < 0 || rank > TCC_MAX_RANK)
        return LIB_FAIL(call, "axis %lld is outside a tensor of rank %d", (long long)lib_int(call, "axis", 0), x->rank);
    memcpy(dims, x->dims, (size_t)axis * sizeof *dims);
    memcpy(dims + axis, index->dims, (size_t)index->rank * sizeof *dims);
    memcpy(dims + axis + index->rank, x->dims + axis + 1, (size_t)(x->rank - axis - 1) * sizeof *dims);
    outer = lib_product(axis, x->dims);
    inner = lib_product(x->rank - axis - 1, x->dims + axis + 1);
    length = x->dims[axis];
    n = lib_count(index);
    if (!(y = lib_out(call, 0, x->dtype, rank, dims)))
        return TCC_EENV;
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t i = 0; i < n; i++) {
            int64_t k = lib_get_int(index, i);

            k += k < 0 ? length : 0;
            if (k < 0 || k >= length)
                return call->host->fail(call, TCC_EINDEX, "index %lld is outside [%lld, %lld)",
                                        (long long)lib_get_int(index, i), -(long long)length, (long long)length);
            if (!lib_copy_n(y, (o * n + i) * inner, x, (o * length + k) * inner, inner))
                return LIB_NO_MEMORY(call);
        }
    }
    return TCC_OK;
}

/* (x, indices) attr axis: numpy.take_along_axis; negative indices count from the end */
int tccrt_lib_dyn_gather_elements(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x, *index;
    int64_t at[TCC_MAX_RANK] = {0}, strides[TCC_MAX_RANK];
    int axis, status;
    void *y;

    if ((status = lib_need(call, 0, -1, 0, &x)) || (status = lib_need(call, 1, x->rank, LIB_NUMBER, &index)))
        return status;
    if ((axis = lib_axis(lib_int(call, "axis", 0), x->rank)) < 0)
        return LIB_FAIL(call, "axis %lld is outside a tensor of rank %d", (long long)lib_int(call, "axis", 0), x->rank);
    for (int a = 0; a < x->rank; a++)
        if (a != axis && index->dims[a] > x->dims[a])
            return LIB_FAIL(call, "more indices than elements along axis %d", a);
    lib_strides(x, x->rank, x->dims, strides);
    if (!(y = lib_out(call, 0, x->dtype, x->rank, index->dims)))
        return TCC_EENV;
    for (int64_t i = 0, n = lib_count(index); i < n; i++) {
        int64_t k = lib_get_int(index, i), length = x->dims[axis], from = 0;

        k += k < 0 ? length : 0;
        if (k < 0 || k >= length)
            return call->host->fail(call, TCC_EINDEX, "index %lld is outside [%lld, %lld)",
                                    (long long)lib_get_int(index, i), -(long long)length, (long long)length);
        for (int a = 0; a < x->rank; a++)
            from += (a == MUTANT(410, axis, 0) ? k : at[a]) * strides[a];
        if (!lib_copy(y, i, x, from))
            return LIB_NO_MEMORY(call);
        lib_next(x->rank, index->dims, at);
    }
    return TCC_OK;
}

/* (x...) attr axis */
int tccrt_lib_dyn_concat(struct tcc_lib_call *call)
{
    const struct tcc_tensor *first, *t;
    int64_t dims[TCC_MAX_RANK], outer, inner, total = 0, at = 0;
    int axis, status = lib_need(call, 0, -1, 0, &first);
    void *y;

    if (status)
        return status;
    axis = lib_axis(lib_int(call, "axis", 0), first->rank);
    if (axis < 0)
        return LIB_FAIL(call, "axis %lld is outside a tensor of rank %d", (long long)lib_int(call, "axis", 0),
                        first->rank);
    for (int i = 0; i < call->nin; i++) {
        if ((status = lib_need(call, i, first->rank, first->dtype, &t)))
            return status;
        for (int a = 0; a < t->rank; a++)
            if (a != axis && t->dims[a] != first->dims[a])
                return LIB_FAIL(call, "operand %d has size %lld on axis %d, operand 0 has %lld", i,
                                (long long)t->dims[a], a, (long long)first->dims[a]);
        total += t->dims[axis];
    }
    memcpy(dims, first->dims, sizeof dims);
    dims[axis] = total;
    outer = lib_product(axis, dims);
    inner = lib_product(first->rank - axis - 1, dims + axis + 1);
    if (!(y = lib_out(call, 0, first->dtype, first->rank, dims)))
        return TCC_EENV;
    for (int64_t o = 0; o < outer; o++) {
        for (int i = 0; i < call->nin; i++) {
            int64_t n = lib_in(call, i)->dims[axis] * inner;

            if (!lib_copy_n(y, at, lib_in(call, i), o * n, n))
                return LIB_NO_MEMORY(call);
            at += n;
        }
    }
    return TCC_OK;
}

/* (condition: bool, x, y) -> x where condition holds, else y; all three broadcast */
int tccrt_lib_dyn_select(struct tcc_lib_call *call)
{
    const struct tcc_tensor *c, *a, *b;
    struct tcc_tensor both = {0};
    int64_t dims[TCC_MAX_RANK], index[TCC_MAX_RANK] = {0}, sc[TCC_MAX_RANK], sa[TCC_MAX_RANK], sb[TCC_MAX_RANK], n;
    int rank, status;
    void *y;

    if ((status = lib_need(call, 0, -1, TCC_BOOL, &c)) || (status = lib_need(call, 1, -1, 0, &a)) ||
        (status = lib_need(call, 2, -1, a->dtype, &b)))
        return status;
    if ((both.rank = lib_broadcast(call, a, b, both.dims)) < 0 || (rank = lib_broadcast(call, c, &both, dims)) < 0)
        return TCC_EINPUT;
    lib_strides(c, rank, dims, sc);
    lib_strides(a, rank, dims, sa);
    lib_strides(b, rank, dims, sb);
    if (!(y = lib_out(call, 0, a->dtype, rank, dims)))
        return TCC_EENV;
    n = lib_product(rank, dims);
    for (int64_t i = 0; i < n; i++) {
        bool first = ((const uint8_t *)c->data)[lib_dot(rank, index, sc)] != 0;

        if (!lib_copy(y, i, first ? a : b, lib_dot(rank, index, first ? sa : sb)))
            return LIB_NO_MEMORY(call);
        lib_next(rank, dims, index);
    }
    return TCC_OK;
}

/* (x, split?) attrs axis, num_outputs (the number of outputs): pieces of the sizes listed, or of equal size, the last
 * smaller */
int tccrt_lib_dyn_split(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x, *split = lib_in(call, 1);
    int64_t dims[TCC_MAX_RANK], outer, inner, length, at = 0, each;
    int axis, status = lib_need(call, 0, -1, 0, &x);

    if (status)
        return status;
    axis = lib_axis(lib_int(call, "axis", 0), x->rank);
    if (axis < 0 || call->nout < 1 || (split && lib_count(split) != call->nout))
        return LIB_FAIL(call, "axis %lld, %d pieces", (long long)lib_int(call, "axis", 0), call->nout);
    length = x->dims[axis];
    outer = lib_product(axis, x->dims);
    inner = lib_product(x->rank - axis - 1, x->dims + axis + 1);
    each = (length + call->nout - 1) / call->nout;
    memcpy(dims, x->dims, sizeof dims);
    for (int i = 0; i < call->nout; i++) {
        int64_t size = split ? lib_get_int(split, i) : each < length - at ? each : length - at;
        void *y;

        if (size < 0 || size > length - at || (i == call->nout - 1 && at + size != length))
            return LIB_FAIL(call, "the pieces do not add up to %lld", (long long)length);
        dims[axis] = size;
        if (!(y = lib_out(call, i, x->dtype, x->rank, dims)))
            return TCC_EENV;
        for (int64_t o = 0; o < outer; o++)
            if (!lib_copy_n(y, o * size * inner, x, (o * length + at) * inner, size * inner))
                return LIB_NO_MEMORY(call);
        at += size;
    }
    return TCC_OK;
}

/* (x, sequence_lens: i64[batch]) attrs batch_axis (default 1), time_axis (default 0): the first `len` steps of each
 * batch entry in reverse order */
int tccrt_lib_dyn_reverse_sequence(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x, *lens;
    int64_t index[TCC_MAX_RANK] = {0}, strides[TCC_MAX_RANK], n;
    int batch, time, status;
    void *y;

    if ((status = lib_need(call, 0, -1, 0, &x)) || (status = lib_need(call, 1, 1, LIB_NUMBER, &lens)))
        return status;
    batch = lib_axis(lib_int(call, "batch_axis", 1), x->rank);
    time = lib_axis(lib_int(call, "time_axis", 0), x->rank);
    if (batch < 0 || time < 0 || batch == time || lens->dims[0] != x->dims[batch])
        return LIB_FAIL(call, "batch and time axes must be two axes of x, with a length for each batch entry");
    for (int64_t i = 0; i < lens->dims[0]; i++)
        if (lib_get_int(lens, i) < 0 || lib_get_int(lens, i) > x->dims[time])
            return LIB_FAIL(call, "length %lld is outside [0, %lld]", (long long)lib_get_int(lens, i),
                            (long long)x->dims[time]);
    lib_strides(x, x->rank, x->dims, strides);
    if (!(y = lib_out(call, 0, x->dtype, x->rank, x->dims)))
        return TCC_EENV;
    n = lib_count(x);
    for (int64_t i = 0; i < n; i++) {
        int64_t len = lib_get_int(lens, index[batch]), t = index[time];

        if (!lib_copy(y, i, x, i + (t < len ? len - 1 - 2 * t : 0) * (x->dims[time] == 1 ? 0 : strides[time])))
            return LIB_NO_MEMORY(call);
        lib_next(x->rank, x->dims, index);
    }
    return TCC_OK;
}
