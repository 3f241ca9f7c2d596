/* SPDX-License-Identifier: Apache-2.0 */
/*
 * move.c - sources and views: constant, dims, iota, reshape, transpose, expand, slice, concat, interleave, pad. What
 * type a result has (INFER) stands beside how it is computed: an op that is added here needs one other file of ir/,
 * ops.def.
 */
#include <string.h>

#include "base/mutant.h"
#include "ir/infer_int.h"
#include "ir/interp/interp_int.h"

/* -- Sources */

INFER(constant)
{
    const struct ir_attr *a = infer_list(ctx, n, IR_ATTR_value, -1);
    return a && infer_set_type(ctx, n, 0, ir_tensor_type_i(ctx, a->t->dtype, a->t->rank, a->t->dims));
}

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

INFER(dims)
{
    const struct ir_attr *a = infer_list(ctx, n, IR_ATTR_exprs, -1);
    return a && infer_set(ctx, n, 0, TCC_I64, 1, (ir_expr[]){ir_const(ctx, a->n)});
}

INFER(dim)
{
    return infer_list(ctx, n, IR_ATTR_exprs, 1) && infer_set(ctx, n, 0, TCC_I64, 0, NULL);
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

INFER(iota)
{
    const struct ir_attr *shape = infer_list(ctx, n, IR_ATTR_shape, -1);
    enum tcc_dtype dtype;
    int64_t axis;
    return shape && infer_dtype(ctx, n, &dtype) && infer_axis(ctx, n, shape->n, &axis) &&
           infer_sizes_fit(ctx, n, shape->n, shape->exprs) && infer_set(ctx, n, 0, dtype, shape->n, shape->exprs);
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

/* random.c of passes/legalise makes it. */
INFER(random_key)
{
    return infer_set(ctx, n, 0, TCC_U64, 1, (ir_expr[]){ir_const(ctx, 2)});
}

/* -- Views */

/* The result has the attribute's shape, and the operand's type of elements. */
static bool infer_given_shape(struct ir_ctx *ctx, struct ir_node *n, ir_type t)
{
    const struct ir_attr *shape = t ? infer_list(ctx, n, IR_ATTR_shape, -1) : NULL;
    return shape && infer_sizes_fit(ctx, n, shape->n, shape->exprs) &&
           infer_set(ctx, n, 0, t->dtype, shape->n, shape->exprs);
}

INFER(reshape)
{
    ir_type t = infer_tensor(ctx, n, 0);
    if (!infer_given_shape(ctx, n, t))
        return false;
    ir_expr from = ir_num_elements(ctx, t), to = ir_num_elements(ctx, n->out[0]->type);
    ir_assume(ctx, &(struct ir_fact){IR_EQ, from, to, NULL});
    return ir_expr_eq(ctx, from, to) != IR_NO ||
           infer_fail(ctx, n, "%s has %s elements, %s would have %s", ir_type_text(ctx, t), ir_expr_text(ctx, from),
                      ir_type_text(ctx, n->out[0]->type), ir_expr_text(ctx, to));
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

INFER(expand)
{
    ir_type t = infer_tensor(ctx, n, 0);
    if (!infer_given_shape(ctx, n, t))
        return false;
    ir_type y = n->out[0]->type;
    for (int i = 0; i < t->rank; i++) {
        int to = i + y->rank - t->rank;
        if (to < 0 || (!ir_is_value(t->dim[i], 1) && !infer_merge(ctx, t->dim[i], y->dim[to])))
            return infer_fail(ctx, n, "%s cannot be broadcast to %s", ir_type_text(ctx, t), ir_type_text(ctx, y));
    }
    return true;
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
