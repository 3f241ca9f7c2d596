/* SPDX-License-Identifier: Apache-2.0 */
/* gather.c - indexed moves: types and values of gather, gather_elements, gather_nd, scatter_elements, scatter_nd. */
#include <string.h>

#include "base/index.h"
#include "ir/infer_int.h"
#include "ir/interp/interp_int.h"

/* -- Types */

/* There is an element for an index to name, if there are indices. */
static bool not_from_nothing(struct ir_ctx *ctx, struct ir_node *n, ir_type t, ir_type index, int axis)
{
    ir_expr any = ir_min(ctx, ir_num_elements(ctx, index), ir_const(ctx, 1));
    return infer_assume_le(ctx, n, any, t->dim[axis], "there are indices into axis %d of the operand, which is empty",
                           axis);
}

INFER(gather)
{
    ir_type t = infer_tensor(ctx, n, 0), index;
    ir_expr dims[2 * TCC_MAX_RANK];
    int64_t axis;
    int rank = 0;
    if (!t || !infer_int_index(ctx, n, 1, &index) || !infer_axis(ctx, n, t->rank, &axis) ||
        !not_from_nothing(ctx, n, t, index, (int)axis))
        return false;
    for (int i = 0; i < axis; i++)
        dims[rank++] = t->dim[i];
    for (int i = 0; i < index->rank; i++)
        dims[rank++] = index->dim[i];
    for (int i = (int)axis + 1; i < t->rank; i++)
        dims[rank++] = t->dim[i];
    return infer_set(ctx, n, 0, t->dtype, rank, dims);
}

/* index[d] <= x[d] along all axes but `axis`. */
static bool index_fits(struct ir_ctx *ctx, struct ir_node *n, ir_type t, ir_type index, int64_t axis)
{
    if (index->rank != t->rank)
        return infer_fail(ctx, n, "indices and data must have one rank, got %s and %s", ir_type_text(ctx, index),
                          ir_type_text(ctx, t));
    for (int i = 0; i < t->rank; i++) {
        if (i != axis && ir_expr_le(ctx, index->dim[i], t->dim[i]) == IR_NO)
            return infer_fail(ctx, n, "indices %s reach beyond %s along axis %d", ir_type_text(ctx, index),
                              ir_type_text(ctx, t), i);
        if (i != axis && !infer_assume_le(ctx, n, index->dim[i], t->dim[i],
                                          "there are more indices along axis %d than the operand has elements", i))
            return false;
    }
    return not_from_nothing(ctx, n, t, index, (int)axis);
}

INFER(gather_elements)
{
    ir_type t = infer_tensor(ctx, n, 0), index;
    int64_t axis;
    return t && infer_int_index(ctx, n, 1, &index) && infer_axis(ctx, n, t->rank, &axis) &&
           index_fits(ctx, n, t, index, axis) && infer_set(ctx, n, 0, t->dtype, index->rank, index->dim);
}

/* Length of the index tuples of GatherND and ScatterND into t's axes from `first` on: the last dim of the indices, a
 * constant. */
static bool tuple_length(struct ir_ctx *ctx, struct ir_node *n, ir_type index, ir_type t, int first, int64_t *k)
{
    if (index->rank < 1 || !ir_is_const(index->dim[index->rank - 1], k))
        return infer_fail(ctx, n, "the last dim of the indices must be a constant, got %s", ir_type_text(ctx, index));
    if (*k < 0 || *k > t->rank - first)
        return infer_fail(ctx, n, "index tuples of length %lld don't fit rank %d", (long long)*k, t->rank - first);
    for (int i = 0; i < *k; i++)
        if (!not_from_nothing(ctx, n, t, index, first + i))
            return false;
    return true;
}

INFER(gather_nd)
{
    ir_type t = infer_tensor(ctx, n, 0), index;
    ir_expr dims[2 * TCC_MAX_RANK];
    int64_t k, batch = ir_get_i(n, IR_ATTR_batch_dims, 0);
    int rank = 0;
    if (!t || !infer_int_index(ctx, n, 1, &index))
        return false;
    if (batch < 0 || batch > t->rank || batch >= index->rank)
        return infer_fail(ctx, n, "batch_dims is %lld for %s and %s", (long long)batch, ir_type_text(ctx, t),
                          ir_type_text(ctx, index));
    if (!tuple_length(ctx, n, index, t, (int)batch, &k))
        return false;
    for (int i = 0; i < index->rank - 1; i++) {
        dims[rank] = i < batch ? infer_merge(ctx, index->dim[i], t->dim[i]) : index->dim[i];
        if (!dims[rank++])
            return infer_fail(ctx, n, "batch dims differ: %s and %s", ir_type_text(ctx, t), ir_type_text(ctx, index));
    }
    for (int i = (int)(batch + k); i < t->rank; i++)
        dims[rank++] = t->dim[i];
    return infer_set(ctx, n, 0, t->dtype, rank, dims);
}

static bool scatter_mode(struct ir_ctx *ctx, struct ir_node *n)
{
    static const char *const modes[] = {"none", "add", "mul", "min", "max"};
    const char *mode = ir_get_s(n, IR_ATTR_mode, "none");
    for (int i = 0; i < 5; i++) {
        if (strcmp(mode, modes[i]) == 0)
            return true;
    }
    return infer_fail(ctx, n, "mode must be none, add, mul, min or max, got '%s'", mode);
}

static bool updates_are(struct ir_ctx *ctx, struct ir_node *n, ir_type updates, int rank, const ir_expr *dims)
{
    bool ok = updates->rank == rank;
    for (int i = 0; ok && i < rank; i++)
        ok = infer_merge(ctx, updates->dim[i], dims[i]) != NULL;
    return ok ||
           infer_fail(ctx, n, "updates must be %s, got %s",
                      ir_type_text(ctx, ir_tensor_type(ctx, updates->dtype, rank, dims)), ir_type_text(ctx, updates));
}

/* scatter_elements and scatter_nd: they differ in what the indices mean, which op's attributes say. */
INFER(scatter)
{
    ir_type t = infer_tensor(ctx, n, 0), index, updates = infer_tensor(ctx, n, 2);
    ir_expr dims[2 * TCC_MAX_RANK];
    int64_t axis, k;
    int rank = 0;
    if (!t || !updates || !infer_int_index(ctx, n, 1, &index) || !scatter_mode(ctx, n) ||
        !infer_same_dtype(ctx, n, 0, 2))
        return false;
    if (ir_attr_allowed(n->op, IR_ATTR_axis))
        return infer_axis(ctx, n, t->rank, &axis) && index_fits(ctx, n, t, index, axis) &&
               updates_are(ctx, n, updates, index->rank, index->dim) && infer_set_type(ctx, n, 0, t);
    if (!tuple_length(ctx, n, index, t, 0, &k))
        return false;
    for (int i = 0; i < index->rank - 1; i++)
        dims[rank++] = index->dim[i];
    for (int i = (int)k; i < t->rank; i++)
        dims[rank++] = t->dim[i];
    if (rank > TCC_MAX_RANK)
        return infer_fail(ctx, n, "updates would need rank %d", rank);
    return updates_are(ctx, n, updates, rank, dims) && infer_set_type(ctx, n, 0, t);
}

/* -- Values */

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
