/* SPDX-License-Identifier: Apache-2.0 */
/* move.c - sources and views: constant, dims, iota, reshape, transpose, expand, slice, concat, pad. */
#include <string.h>

#include "ir/interp/interp_int.h"

int interp_constant(struct it_call *c)
{
    const struct ir_attr *a = ir_attr(c->n, IR_ATTR_value);
    if (!a || !a->t)
        return it_fail(c, TCC_EBUG, "no value");
    c->out[0] = ir_tensor_ref(a->t);
    return TCC_OK;
}

int interp_identity(struct it_call *c)
{
    c->out[0] = ir_tensor_ref(c->in[0]);
    return TCC_OK;
}

int interp_dims(struct it_call *c)
{
    const struct ir_attr *a = ir_attr(c->n, IR_ATTR_exprs);
    int64_t n = a ? a->n : 0;
    struct ir_tensor *t = it_out(c, 0, c->n->out[0]->type->rank, &n);
    if (!t || t->nelems != n)
        return it_fail(c, TCC_EBUG, "expected %lld expressions", t ? (long long)t->nelems : 0);
    it_exprs(c, IR_ATTR_exprs, (int)n, it_data(t));
    return c->status;
}

/* The attribute `shape` as dims; -1 after it_fail. */
static int shape_attr(struct it_call *c, int64_t *dims)
{
    const struct ir_attr *a = ir_attr(c->n, IR_ATTR_shape);
    if (!a || a->n > TCC_MAX_RANK) {
        it_fail(c, TCC_EBUG, "no shape");
        return -1;
    }
    if (!it_exprs(c, IR_ATTR_shape, a->n, dims))
        return -1;
    for (int i = 0; i < a->n; i++) {
        if (dims[i] < 0) {
            it_fail(c, TCC_EINPUT, "dim %d is %lld", i, (long long)dims[i]);
            return -1;
        }
    }
    return a->n;
}

int interp_iota(struct it_call *c)
{
    int64_t dims[TCC_MAX_RANK];
    int rank = shape_attr(c, dims), axis = (int)ir_get_i(c->n, IR_ATTR_axis, 0);
    struct ir_tensor *t = rank < 0 ? NULL : it_out(c, 0, rank, dims);
    if (!t)
        return c->status;
    int64_t inner = it_product(dims, axis + 1, rank), extent = rank ? dims[axis] : 1;
    for (int64_t i = 0; i < t->nelems; i++)
        tcc_store_i64(it_dtype(t), (char *)it_data(t) + i * tcc_dtype_bytes(it_dtype(t)), i / inner % extent);
    return TCC_OK;
}

int interp_reshape(struct it_call *c)
{
    int64_t dims[TCC_MAX_RANK];
    int rank = shape_attr(c, dims);
    struct ir_tensor *t = rank < 0 ? NULL : it_out(c, 0, rank, dims);
    if (!t)
        return c->status;
    if (t->nelems != c->in[0]->nelems)
        return it_fail(c, TCC_EINPUT, "%lld elements do not fit a shape of %lld", (long long)c->in[0]->nelems,
                       (long long)t->nelems);
    if (t->bytes)
        memcpy(it_data(t), c->in[0]->data, (size_t)t->bytes);
    return TCC_OK;
}

/* to's elements in row-major order = from[sum of index * stride + at]; both of one element size. */
static void copy_strided(struct ir_tensor *to, const struct ir_tensor *from, int64_t at, const int64_t *strides)
{
    size_t size = (size_t)tcc_dtype_bytes(it_dtype(to));
    int64_t index[TCC_MAX_RANK] = {0}, row = to->rank ? to->dims[to->rank - 1] : 1,
            step = to->rank ? strides[to->rank - 1] : 0;
    char *out = it_data(to);
    const char *in = from->data;
    for (int64_t done = 0; done < to->nelems; done += row) {
        if (step == 1) {
            memcpy(out, in + at * (int64_t)size, (size_t)row * size);
            out += (size_t)row * size;
        } else {
            for (int64_t j = 0; j < row; j++, out += size)
                memcpy(out, in + (at + j * step) * (int64_t)size, size);
        }
        for (int i = to->rank - 2; i >= 0; i--) {
            at += strides[i];
            if (++index[i] < to->dims[i])
                break;
            at -= to->dims[i] * strides[i];
            index[i] = 0;
        }
    }
}

int interp_transpose(struct it_call *c)
{
    const struct ir_tensor *x = c->in[0];
    int64_t perm[TCC_MAX_RANK], dims[TCC_MAX_RANK], strides[TCC_MAX_RANK], from[TCC_MAX_RANK];
    it_ints(c->n, IR_ATTR_perm, x->rank, 0, perm);
    it_strides(x->rank, x->dims, from);
    for (int i = 0; i < x->rank; i++) {
        dims[i] = x->dims[perm[i]];
        strides[i] = from[perm[i]];
    }
    if (it_out(c, 0, x->rank, dims))
        copy_strided(c->out[0], x, 0, strides);
    return c->status;
}

int interp_expand(struct it_call *c)
{
    const struct ir_tensor *x = c->in[0];
    int64_t dims[TCC_MAX_RANK], strides[TCC_MAX_RANK], from[TCC_MAX_RANK];
    int rank = shape_attr(c, dims), shift = rank - x->rank;
    if (rank < 0)
        return c->status;
    if (shift < 0)
        return it_fail(c, TCC_EBUG, "a lower rank");
    it_strides(x->rank, x->dims, from);
    for (int i = 0; i < rank; i++) {
        int64_t d = i < shift ? 1 : x->dims[i - shift];
        if (d != 1 && d != dims[i])
            return it_fail(c, TCC_EINPUT, "axis %d: %lld does not expand to %lld", i, (long long)d, (long long)dims[i]);
        strides[i] = d == 1 ? 0 : from[i - shift];
    }
    if (it_out(c, 0, rank, dims))
        copy_strided(c->out[0], x, 0, strides);
    return c->status;
}

int interp_slice(struct it_call *c)
{
    const struct ir_tensor *x = c->in[0];
    int rank = x->rank;
    int64_t starts[TCC_MAX_RANK], sizes[TCC_MAX_RANK], steps[TCC_MAX_RANK], strides[TCC_MAX_RANK], at = 0;
    if (!it_exprs(c, IR_ATTR_starts, rank, starts) || !it_exprs(c, IR_ATTR_sizes, rank, sizes) ||
        !it_exprs(c, IR_ATTR_steps, rank, steps))
        return c->status;
    it_strides(rank, x->dims, strides);
    for (int i = 0; i < rank; i++) {
        int64_t last = starts[i] + (sizes[i] - 1) * steps[i];
        if (sizes[i] < 0 || steps[i] == 0 ||
            (sizes[i] > 0 && (starts[i] < 0 || starts[i] >= x->dims[i] || last < 0 || last >= x->dims[i])))
            return it_fail(c, TCC_EINPUT, "axis %d: %lld elements from %lld by %lld leave the axis of %lld", i,
                           (long long)sizes[i], (long long)starts[i], (long long)steps[i], (long long)x->dims[i]);
        at += starts[i] * strides[i];
        strides[i] *= steps[i];
    }
    if (it_out(c, 0, rank, sizes))
        copy_strided(c->out[0], x, at, strides);
    return c->status;
}

int interp_concat(struct it_call *c)
{
    int axis = (int)ir_get_i(c->n, IR_ATTR_axis, 0), rank = c->in[0]->rank;
    int64_t dims[TCC_MAX_RANK];
    memcpy(dims, c->in[0]->dims, sizeof dims);
    for (int k = 1; k < c->n->nin; k++) {
        for (int i = 0; i < rank; i++)
            if (i != axis && c->in[k]->dims[i] != dims[i])
                return it_fail(c, TCC_EINPUT, "axis %d: %lld and %lld", i, (long long)dims[i],
                               (long long)c->in[k]->dims[i]);
        dims[axis] += c->in[k]->dims[axis];
    }
    struct ir_tensor *t = it_out(c, 0, rank, dims);
    if (!t)
        return c->status;
    int64_t size = tcc_dtype_bytes(it_dtype(t)), inner = it_product(dims, axis + 1, rank) * size;
    int64_t outer = it_product(dims, 0, axis), offset = 0;
    for (int k = 0; k < c->n->nin; k++) {
        int64_t row = c->in[k]->dims[axis] * inner;
        for (int64_t o = 0; o < outer && row; o++)
            memcpy((char *)it_data(t) + o * dims[axis] * inner + offset, (const char *)c->in[k]->data + o * row,
                   (size_t)row);
        offset += row;
    }
    return TCC_OK;
}

/* Puts the elements of `from` where residue r of the last nstrides axes has its places. */
static void place_residue(struct ir_tensor *to, const struct ir_tensor *from, const int64_t *strides, int nstrides,
                          int r)
{
    int64_t step[TCC_MAX_RANK], index[TCC_MAX_RANK] = {0}, at = 0, inner = 1, size = tcc_dtype_bytes(it_dtype(to));
    int rank = to->rank;
    for (int i = rank - 1, k = nstrides - 1; i >= 0; i--, k--) {
        int64_t s = k >= 0 ? strides[k] : 1;
        at += r % s * inner;
        r /= (int)s;
        step[i] = s * inner;
        inner *= to->dims[i];
    }
    for (int64_t e = 0; e < from->nelems; e++) {
        memcpy((char *)it_data(to) + at * size, (const char *)from->data + e * size, (size_t)size);
        for (int i = rank - 1; i >= 0; i--) {
            at += step[i];
            if (++index[i] < from->dims[i])
                break;
            at -= from->dims[i] * step[i];
            index[i] = 0;
        }
    }
}

int interp_interleave(struct it_call *c)
{
    const struct ir_attr *strides = ir_attr(c->n, IR_ATTR_strides);
    int64_t dims[TCC_MAX_RANK];
    int rank = c->in[0]->rank;
    memcpy(dims, c->in[0]->dims, sizeof dims);
    for (int k = 1; k < c->n->nin; k++)
        for (int i = 0; i < rank; i++)
            if (c->in[k]->dims[i] != dims[i])
                return it_fail(c, TCC_EINPUT, "axis %d: %lld and %lld", i, (long long)dims[i],
                               (long long)c->in[k]->dims[i]);
    for (int i = 0; i < strides->n; i++)
        dims[rank - strides->n + i] *= strides->ints[i];
    struct ir_tensor *t = it_out(c, 0, rank, dims);
    for (int k = 0; t && k < c->n->nin; k++)
        place_residue(t, c->in[k], strides->ints, strides->n, k);
    return c->status;
}

/* Where element i of the padded axis comes from; -1: from the padding value. `i` counts from the operand's first
 * element. */
static int64_t pad_source(const char *mode, int64_t i, int64_t n)
{
    if (i >= 0 && i < n)
        return i;
    if (mode[0] == 'e') /* edge */
        return i < 0 ? 0 : n - 1;
    if (mode[0] == 'w') /* wrap */
        return ((i % n) + n) % n;
    if (mode[0] == 'r') { /* reflect */
        int64_t period = n > 1 ? 2 * (n - 1) : 1;
        i = ((i % period) + period) % period;
        return i < n ? i : period - i;
    }
    return -1;
}

int interp_pad(struct it_call *c)
{
    const struct ir_tensor *x = c->in[0];
    int rank = x->rank;
    const char *mode = ir_get_s(c->n, IR_ATTR_mode, "constant");
    int64_t before[TCC_MAX_RANK], after[TCC_MAX_RANK], dims[TCC_MAX_RANK], strides[TCC_MAX_RANK],
        index[TCC_MAX_RANK] = {0};
    if (!it_exprs(c, IR_ATTR_before, rank, before) || !it_exprs(c, IR_ATTR_after, rank, after))
        return c->status;
    for (int i = 0; i < rank; i++) {
        dims[i] = before[i] + x->dims[i] + after[i];
        if (before[i] < 0 || after[i] < 0)
            return it_fail(c, TCC_EINPUT, "axis %d: a negative amount", i);
        if (mode[0] != 'c' && x->dims[i] == 0 && dims[i])
            return it_fail(c, TCC_EINPUT, "axis %d is empty: there is nothing to pad with", i);
    }
    struct ir_tensor *t = it_out(c, 0, rank, dims);
    if (!t)
        return c->status;
    size_t size = (size_t)tcc_dtype_bytes(it_dtype(t));
    const void *value = c->n->nin > 1 && c->in[1] ? c->in[1]->data : NULL;
    it_strides(rank, x->dims, strides);
    for (int64_t o = 0; o < t->nelems; o++) {
        int64_t at = 0;
        for (int i = 0; i < rank && at >= 0; i++) {
            int64_t j = pad_source(mode, index[i] - before[i], x->dims[i]);
            at = j < 0 ? -1 : at + j * strides[i];
        }
        if (at >= 0)
            memcpy((char *)it_data(t) + (size_t)o * size, (const char *)x->data + (size_t)at * size, size);
        else if (value)
            memcpy((char *)it_data(t) + (size_t)o * size, value, size);
        for (int i = rank - 1; i >= 0 && ++index[i] == dims[i]; i--)
            index[i] = 0;
    }
    return TCC_OK;
}
