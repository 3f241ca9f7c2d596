/* SPDX-License-Identifier: Apache-2.0 */
/* infer_move.c - types of sources and of the ops that move elements. */
#include <string.h>

#include "ir/infer_int.h"

#include "base/mutant.h"

/* -- Sources */

INFER(constant)
{
    const struct ir_attr *a = infer_list(ctx, n, IR_ATTR_value, -1);
    return a && infer_set_type(ctx, n, 0, ir_tensor_type_i(ctx, a->t->dtype, a->t->rank, a->t->dims));
}

INFER(dims)
{
    const struct ir_attr *a = infer_list(ctx, n, IR_ATTR_exprs, -1);
    return a && infer_set(ctx, n, 0, TCC_I64, 1, (ir_expr[]){ir_const(ctx, a->n)});
}

INFER(dim)
{
    return infer_list(ctx, n, IR_ATTR_exprs, 1) && infer_set(ctx, n, 0, TCC_I64, 0, NULL);
}

INFER(iota)
{
    const struct ir_attr *shape = infer_list(ctx, n, IR_ATTR_shape, -1);
    enum tcc_dtype dtype;
    int64_t axis;
    return shape && infer_dtype(ctx, n, &dtype) && infer_axis(ctx, n, shape->n, &axis) &&
           infer_sizes_fit(ctx, n, shape->n, shape->exprs) && infer_set(ctx, n, 0, dtype, shape->n, shape->exprs);
}

/* random.c of passes/legalise makes it. */
INFER(random_key)
{
    return infer_set(ctx, n, 0, TCC_U64, 1, (ir_expr[]){ir_const(ctx, 2)});
}

/* -- Views */

INFER(reshape)
{
    ir_type t = infer_tensor(ctx, n, 0);
    const struct ir_attr *shape = t ? infer_list(ctx, n, IR_ATTR_shape, -1) : NULL;
    if (!shape || !infer_sizes_fit(ctx, n, shape->n, shape->exprs) ||
        !infer_set(ctx, n, 0, t->dtype, shape->n, shape->exprs))
        return false;
    ir_expr from = ir_num_elements(ctx, t), to = ir_num_elements(ctx, n->out[0]->type);
    ir_assume(ctx, &(struct ir_fact){IR_EQ, from, to, NULL});
    return ir_expr_eq(ctx, from, to) != IR_NO ||
           infer_fail(ctx, n, "%s has %s elements, %s would have %s", ir_type_text(ctx, t), ir_expr_text(ctx, from),
                      ir_type_text(ctx, n->out[0]->type), ir_expr_text(ctx, to));
}

INFER(transpose)
{
    ir_type t = infer_tensor(ctx, n, 0);
    const struct ir_attr *perm = t ? infer_list(ctx, n, IR_ATTR_perm, t->rank) : NULL;
    ir_expr dims[TCC_MAX_RANK];
    unsigned seen = 0;
    if (!perm)
        return false;
    for (int i = 0; i < t->rank; i++) {
        int64_t p = perm->ints[i];
        if (p < 0 || p >= t->rank || MUTANT(75, seen >> p & 1, 0))
            return infer_fail(ctx, n, "perm must be a permutation of 0..%d", t->rank - 1);
        seen |= 1u << p;
        dims[i] = t->dim[p];
    }
    return infer_set(ctx, n, 0, t->dtype, t->rank, dims);
}

INFER(expand)
{
    ir_type t = infer_tensor(ctx, n, 0);
    const struct ir_attr *shape = t ? infer_list(ctx, n, IR_ATTR_shape, -1) : NULL;
    if (!shape || !infer_sizes_fit(ctx, n, shape->n, shape->exprs) ||
        !infer_set(ctx, n, 0, t->dtype, shape->n, shape->exprs))
        return false;
    for (int i = 0; i < t->rank; i++) {
        int to = i + shape->n - t->rank;
        if (to < 0 || (!ir_is_value(t->dim[i], 1) && !infer_merge(ctx, t->dim[i], shape->exprs[to])))
            return infer_fail(ctx, n, "%s cannot be broadcast to %s", ir_type_text(ctx, t),
                              ir_type_text(ctx, n->out[0]->type));
    }
    return true;
}

/* Of how many elements are taken, where any are: front ends write max(length, 0). */
static ir_expr length_of(ir_expr size)
{
    if (size->kind == IR_X_MAX && ir_is_value(size->arg[0], 0))
        return size->arg[1];
    return size->kind == IR_X_MAX && ir_is_value(size->arg[1], 0) ? size->arg[0] : size;
}

/*
 * low >= 0 and high < dim, of the least and the greatest index that is taken: unless none is, and then a factor of
 * min(size, 1) makes the relation hold.
 */
static bool range_inside(struct ir_ctx *ctx, struct ir_node *n, int axis, ir_expr size, ir_expr low, ir_expr high,
                         ir_expr dim)
{
    ir_expr zero = ir_const(ctx, 0), some = ir_min(ctx, size, ir_const(ctx, 1)), end = ir_addc(ctx, high, 1);
    bool taken = size->lo >= MUTANT(328, 1, 0);
    if ((taken || !ir_fact_known(ctx, IR_LE, zero, low)) &&
        !infer_assume_le(ctx, n, zero, taken ? low : ir_mul(ctx, some, low), "the slice begins in front of axis %d",
                         axis))
        return false;
    return (!taken && ir_fact_known(ctx, IR_LE, end, dim)) ||
           infer_assume_le(ctx, n, taken ? end : ir_mul(ctx, some, end), dim,
                           "axis %d of the operand is too short for the slice", axis);
}

static bool slice_inside(struct ir_ctx *ctx, struct ir_node *n, int axis, ir_expr dim, ir_expr start, ir_expr size,
                         ir_expr step)
{
    if (ir_is_value(step, 0))
        return infer_fail(ctx, n, "the step along axis %d is 0", axis);
    if (size->hi < 0)
        return infer_fail(ctx, n, "the size along axis %d is %s", axis, ir_expr_text(ctx, size));
    if (size->hi == 0 || (size == dim && ir_is_value(start, 0) && ir_is_value(step, 1)))
        return true;
    ir_expr last = ir_add(ctx, start, ir_mul(ctx, ir_addc(ctx, length_of(size), -1), step));
    if (step->lo >= 0)
        return range_inside(ctx, n, axis, size, start, last, dim);
    if (step->hi <= 0)
        return range_inside(ctx, n, axis, size, last, start, dim);
    return range_inside(ctx, n, axis, size, start, start, dim) && range_inside(ctx, n, axis, size, last, last, dim);
}

INFER(slice)
{
    ir_type t = infer_tensor(ctx, n, 0);
    if (!t)
        return false;
    const struct ir_attr *starts = infer_list(ctx, n, IR_ATTR_starts, t->rank), *steps = NULL, *sizes = NULL;
    if (!starts || !(sizes = infer_list(ctx, n, IR_ATTR_sizes, t->rank)) ||
        !(steps = infer_list(ctx, n, IR_ATTR_steps, t->rank)))
        return false;
    for (int i = 0; i < t->rank; i++) {
        if (!slice_inside(ctx, n, i, t->dim[i], starts->exprs[i], sizes->exprs[i], steps->exprs[i]))
            return false;
    }
    return infer_sizes_fit(ctx, n, t->rank, sizes->exprs) && infer_set(ctx, n, 0, t->dtype, t->rank, sizes->exprs);
}

INFER(concat)
{
    ir_type t = infer_tensor(ctx, n, 0);
    ir_expr dims[TCC_MAX_RANK];
    int64_t axis;
    if (!t || !infer_axis(ctx, n, t->rank, &axis))
        return false;
    memcpy(dims, t->dim, (size_t)t->rank * sizeof *dims);
    for (int i = 1; i < n->nin; i++) {
        ir_type u = infer_tensor(ctx, n, i);
        if (!u || !infer_same_dtype(ctx, n, 0, i))
            return false;
        if (u->rank != t->rank)
            return infer_fail(ctx, n, "operands must have one rank, got %s and %s", ir_type_text(ctx, t),
                              ir_type_text(ctx, u));
        for (int d = 0; d < t->rank; d++) {
            dims[d] =
                d == axis ? ir_add(ctx, dims[d], u->dim[d]) : MUTANT(76, infer_merge(ctx, dims[d], u->dim[d]), dims[d]);
            if (!dims[d])
                return infer_fail(ctx, n, "operands must agree but along axis %lld, got %s and %s", (long long)axis,
                                  ir_type_text(ctx, t), ir_type_text(ctx, u));
        }
    }
    return infer_set(ctx, n, 0, t->dtype, t->rank, dims);
}

INFER(interleave)
{
    ir_type t = infer_tensor(ctx, n, 0);
    const struct ir_attr *strides = t ? infer_list(ctx, n, IR_ATTR_strides, -1) : NULL;
    ir_expr dims[TCC_MAX_RANK];
    int64_t pieces = 1;
    if (!strides)
        return false;
    if (strides->n > t->rank)
        return infer_fail(ctx, n, "%d strides for rank %d", strides->n, t->rank);
    memcpy(dims, t->dim, (size_t)t->rank * sizeof *dims);
    for (int i = 1; i < n->nin; i++) {
        ir_type u = infer_tensor(ctx, n, i);
        if (!u || !infer_same_dtype(ctx, n, 0, i))
            return false;
        for (int d = 0; u->rank == t->rank && d < t->rank && dims[d]; d++)
            dims[d] = infer_merge(ctx, dims[d], u->dim[d]);
        for (int d = 0; d < t->rank; d++)
            if (u->rank != t->rank || !dims[d])
                return infer_fail(ctx, n, "operands must have one shape, got %s and %s", ir_type_text(ctx, t),
                                  ir_type_text(ctx, u));
    }
    for (int i = 0; i < strides->n; i++) {
        int64_t s = strides->ints[i];
        int d = t->rank - strides->n + i;
        if (s < 1 || s > n->nin)
            return infer_fail(ctx, n, "stride %lld of %d operands", (long long)s, n->nin);
        pieces *= pieces > n->nin ? 1 : s;
        dims[d] = ir_mulc(ctx, dims[d], s);
    }
    if (pieces != n->nin)
        return infer_fail(ctx, n, "as many operands as residues are expected, got %d", n->nin);
    return infer_set(ctx, n, 0, t->dtype, t->rank, dims);
}

static bool pad_mode(struct ir_ctx *ctx, struct ir_node *n, ir_type t, const struct ir_attr *before,
                     const struct ir_attr *after)
{
    const char *mode = ir_get_s(n, IR_ATTR_mode, "constant");
    if (strcmp(mode, "constant") == 0)
        return true;
    if (strcmp(mode, "edge") != 0 && strcmp(mode, "reflect") != 0 && strcmp(mode, "wrap") != 0)
        return infer_fail(ctx, n, "mode must be constant, edge, reflect or wrap, got '%s'", mode);
    /* ONNX lets reflection bounce several times, but not off nothing. */
    for (int i = 0; i < t->rank; i++) {
        ir_expr added = ir_add(ctx, before->exprs[i], after->exprs[i]);
        if (!infer_assume_le(ctx, n, ir_min(ctx, added, ir_const(ctx, 1)), t->dim[i],
                             "axis %d is empty, nothing to pad it with (mode %s)", i, mode))
            return false;
    }
    return true;
}

INFER(pad)
{
    ir_type t = infer_tensor(ctx, n, 0);
    ir_expr dims[TCC_MAX_RANK];
    const struct ir_attr *before = t ? infer_list(ctx, n, IR_ATTR_before, t->rank) : NULL;
    const struct ir_attr *after = before ? infer_list(ctx, n, IR_ATTR_after, t->rank) : NULL;
    if (!after || !pad_mode(ctx, n, t, before, after))
        return false;
    for (int i = 0; i < t->rank; i++) {
        if (before->exprs[i]->hi < 0 || after->exprs[i]->hi < 0)
            return infer_fail(ctx, n, "amounts must not be negative, got %s and %s along axis %d",
                              ir_expr_text(ctx, before->exprs[i]), ir_expr_text(ctx, after->exprs[i]), i);
        if (!infer_assume_le(ctx, n, ir_const(ctx, 0), before->exprs[i], "a negative amount in front of axis %d", i) ||
            !infer_assume_le(ctx, n, ir_const(ctx, 0), after->exprs[i], "a negative amount behind axis %d", i))
            return false;
        dims[i] = ir_add(ctx, t->dim[i], ir_add(ctx, before->exprs[i], after->exprs[i]));
    }
    if (n->nin > 1 && n->in[1].value) {
        ir_type v = infer_tensor(ctx, n, 1);
        if (!v || !infer_same_dtype(ctx, n, 0, 1))
            return false;
        if (v->rank != 0)
            return infer_fail(ctx, n, "the value must be a scalar, got %s", ir_type_text(ctx, v));
    }
    return infer_sizes_fit(ctx, n, t->rank, dims) && infer_set(ctx, n, 0, t->dtype, t->rank, dims);
}

/* -- Indirect moves */

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
