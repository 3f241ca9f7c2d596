/* SPDX-License-Identifier: Apache-2.0 */
/* gather.c - indexed moves: gather, gather_elements, gather_nd, scatter_elements, scatter_nd. */
#include <string.h>

#include "base/index.h"
#include "ir/interp/interp_int.h"

/* Index i of `index` into an axis of extent n, negative from the end; -1 after it_fail. */
static int64_t index_at(struct it_call *c, const struct ir_tensor *index, int64_t i, int64_t n)
{
    int64_t v = tcc_load_i64(it_dtype(index), ir_tensor_at(index, i)), j = v < 0 ? v + n : v;
    if (j >= 0 && j < n)
        return j;
    it_fail(c, TCC_EINDEX, "index %lld is outside an axis of %lld", (long long)tcc_index_told(v), (long long)n);
    return -1;
}

static void move(struct ir_tensor *to, int64_t i, const struct ir_tensor *from, int64_t j, int64_t n)
{
    size_t size = (size_t)tcc_dtype_bytes(it_dtype(to));
    if (n)
        memcpy((char *)it_data(to) + (size_t)i * size, (const char *)from->data + (size_t)j * size, (size_t)n * size);
}

int interp_gather(struct it_call *c)
{
    const struct ir_tensor *x = c->in[0], *index = c->in[1];
    int axis = (int)ir_get_i(c->n, IR_ATTR_axis, 0), rank = x->rank - 1 + index->rank;
    int64_t dims[2 * TCC_MAX_RANK];
    if (rank > TCC_MAX_RANK)
        return it_fail(c, TCC_EINPUT, "a result of rank %d", rank);
    memcpy(dims, x->dims, (size_t)axis * sizeof *dims);
    memcpy(dims + axis, index->dims, index->rank * sizeof *dims);
    memcpy(dims + axis + index->rank, x->dims + axis + 1, (size_t)(x->rank - axis - 1) * sizeof *dims);
    struct ir_tensor *t = it_out(c, 0, rank, dims);
    if (!t)
        return c->status;
    int64_t outer = it_product(x->dims, 0, axis), inner = it_product(x->dims, axis + 1, x->rank);
    for (int64_t i = 0; i < index->nelems; i++) {
        int64_t j = t->nelems ? index_at(c, index, i, x->dims[axis]) : 0;
        if (j < 0)
            return c->status;
        for (int64_t o = 0; o < outer && t->nelems; o++)
            move(t, (o * index->nelems + i) * inner, x, (o * x->dims[axis] + j) * inner, inner);
    }
    return TCC_OK;
}

/* Number of the element of x that index position `at` names, when coordinate `axis` is replaced by j. */
static int64_t element_of(const struct ir_tensor *x, const int64_t *at, int axis, int64_t j)
{
    int64_t n = 0;
    for (int i = 0; i < x->rank; i++)
        n = n * x->dims[i] + (i == axis ? j : at[i]);
    return n;
}

static void next_index(int rank, const int64_t *dims, int64_t *at)
{
    for (int i = rank - 1; i >= 0 && ++at[i] == dims[i]; i--)
        at[i] = 0;
}

static int fits_inside(struct it_call *c, const struct ir_tensor *x, const struct ir_tensor *index, int axis)
{
    if (index->rank != x->rank)
        return it_fail(c, TCC_EINPUT, "index of rank %d for data of rank %d", index->rank, x->rank);
    for (int i = 0; i < x->rank; i++)
        if (i != axis && index->dims[i] > x->dims[i])
            return it_fail(c, TCC_EINPUT, "axis %d: %lld indices for %lld elements", i, (long long)index->dims[i],
                           (long long)x->dims[i]);
    return TCC_OK;
}

int interp_gather_elements(struct it_call *c)
{
    const struct ir_tensor *x = c->in[0], *index = c->in[1];
    int axis = (int)ir_get_i(c->n, IR_ATTR_axis, 0);
    int64_t at[TCC_MAX_RANK] = {0};
    struct ir_tensor *t = fits_inside(c, x, index, axis) ? NULL : it_out(c, 0, index->rank, index->dims);
    if (!t)
        return c->status;
    for (int64_t i = 0; i < index->nelems; i++) {
        int64_t j = index_at(c, index, i, x->dims[axis]);
        if (j < 0)
            return c->status;
        move(t, i, x, element_of(x, at, axis, j), 1);
        next_index(index->rank, index->dims, at);
    }
    return TCC_OK;
}

/* First element of the slice of x that tuple i of `index` (k long) names, after `lead` axes fixed at `base`; -1 on
 * failure. */
static int64_t tuple_at(struct it_call *c, const struct ir_tensor *x, const struct ir_tensor *index, int64_t i,
                        int64_t k, int lead, int64_t base)
{
    for (int64_t a = 0; a < k; a++) {
        int64_t j = index_at(c, index, i * k + a, x->dims[lead + a]);
        if (j < 0)
            return -1;
        base = base * x->dims[lead + a] + j;
    }
    return base * it_product(x->dims, lead + (int)k, x->rank);
}

int interp_gather_nd(struct it_call *c)
{
    const struct ir_tensor *x = c->in[0], *index = c->in[1];
    int lead = (int)ir_get_i(c->n, IR_ATTR_batch_dims, 0);
    int64_t k = index->rank ? index->dims[index->rank - 1] : 0, dims[2 * TCC_MAX_RANK];
    if (!index->rank || lead + k > x->rank || lead >= index->rank)
        return it_fail(c, TCC_EINPUT, "tuples of %lld indices for data of rank %d", (long long)k, x->rank);
    int tail = x->rank - lead - (int)k, rank = index->rank - 1 + tail;
    if (rank > TCC_MAX_RANK)
        return it_fail(c, TCC_EINPUT, "a result of rank %d", rank);
    memcpy(dims, index->dims, (size_t)(index->rank - 1) * sizeof *dims);
    memcpy(dims + index->rank - 1, x->dims + x->rank - tail, (size_t)tail * sizeof *dims);
    for (int i = 0; i < lead; i++)
        if (x->dims[i] != index->dims[i])
            return it_fail(c, TCC_EINPUT, "batch axis %d: %lld and %lld", i, (long long)x->dims[i],
                           (long long)index->dims[i]);
    struct ir_tensor *t = it_out(c, 0, rank, dims);
    if (!t)
        return c->status;
    int64_t inner = it_product(x->dims, x->rank - tail, x->rank), tuples = it_product(index->dims, 0, index->rank - 1);
    int64_t per_batch = it_product(index->dims, lead, index->rank - 1);
    for (int64_t i = 0; i < tuples && t->nelems; i++) {
        int64_t from = tuple_at(c, x, index, i, k, lead, i / per_batch);
        if (from < 0)
            return c->status;
        move(t, i * inner, x, from, inner);
    }
    return TCC_OK;
}

static enum it_combine mode_of(const struct ir_node *n)
{
    const char *mode = ir_get_s(n, IR_ATTR_mode, "none");
    return !strcmp(mode, "add")   ? IT_ADD
           : !strcmp(mode, "mul") ? IT_MUL
           : !strcmp(mode, "min") ? IT_MIN
           : !strcmp(mode, "max") ? IT_MAX
                                  : IT_SET;
}

/* The result of a scatter, which starts as a copy of operand 0. */
static struct ir_tensor *copy_of_data(struct it_call *c)
{
    struct ir_tensor *t = it_out(c, 0, c->in[0]->rank, c->in[0]->dims);
    if (t)
        move(t, 0, c->in[0], 0, t->nelems);
    return t;
}

static void update(struct ir_tensor *t, enum it_combine how, int64_t at, const struct ir_tensor *from, int64_t i)
{
    it_combine(how, it_dtype(t), (void *)ir_tensor_at(t, at), ir_tensor_at(from, i));
}

int interp_scatter_elements(struct it_call *c)
{
    const struct ir_tensor *x = c->in[0], *index = c->in[1], *updates = c->in[2];
    int axis = (int)ir_get_i(c->n, IR_ATTR_axis, 0);
    int64_t at[TCC_MAX_RANK] = {0};
    if (index->rank != updates->rank || memcmp(index->dims, updates->dims, index->rank * sizeof *index->dims))
        return it_fail(c, TCC_EINPUT, "index and updates differ in shape");
    struct ir_tensor *t = fits_inside(c, x, index, axis) ? NULL : copy_of_data(c);
    for (int64_t i = 0; t && i < index->nelems; i++) {
        int64_t j = index_at(c, index, i, x->dims[axis]);
        if (j < 0)
            return c->status;
        update(t, mode_of(c->n), element_of(x, at, axis, j), updates, i);
        next_index(index->rank, index->dims, at);
    }
    return c->status;
}

int interp_scatter_nd(struct it_call *c)
{
    const struct ir_tensor *x = c->in[0], *index = c->in[1], *updates = c->in[2];
    int64_t k = index->rank ? index->dims[index->rank - 1] : 0;
    if (!index->rank || k > x->rank)
        return it_fail(c, TCC_EINPUT, "tuples of %lld indices for data of rank %d", (long long)k, x->rank);
    int64_t inner = it_product(x->dims, (int)k, x->rank), tuples = it_product(index->dims, 0, index->rank - 1);
    if (updates->nelems != inner * tuples)
        return it_fail(c, TCC_EINPUT, "%lld updates, expected %lld", (long long)updates->nelems,
                       (long long)(inner * tuples));
    struct ir_tensor *t = copy_of_data(c);
    for (int64_t i = 0; t && i < tuples && inner; i++) {
        int64_t to = tuple_at(c, x, index, i, k, 0, 0);
        if (to < 0)
            return c->status;
        for (int64_t j = 0; j < inner; j++)
            update(t, mode_of(c->n), to + j, updates, i * inner + j);
    }
    return c->status;
}
