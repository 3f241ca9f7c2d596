/* SPDX-License-Identifier: Apache-2.0 */
/* Joins, splits, grids and diagonals as NumPy spells them. */
#include "compiler/pt2/pt2_int.h"

#include <string.h>

/* -- Ranks */

/* x as atleast_1d, 2d and 3d have it: a vector is a row of a matrix, [1, n, 1] of three dims; a matrix gets its third
 * dim last. */
static struct ir_value *at_least(struct pt2 *p, struct ir_value *x, int rank)
{
    if (!x || imp_rank(x) >= rank)
        return x;
    if (rank < 3 || imp_rank(x) == 0)
        return imp_to_rank(p->im, x, rank);
    int64_t last = 2;
    return imp_unsqueeze(p->im, imp_to_rank(p->im, x, 2), 1, &last);
}

/* One tensor, or each of a list. */
bool aten_at_least(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value **list;
    if (pt2_given(p, "self"))
        return pt2_out(p, 0, at_least(p, pt2_need(p, "self"), arg));
    int n = pt2_list(p, "tensors", &list);
    for (int k = 0; k < n; k++) {
        if (!pt2_out(p, k, at_least(p, list[k], arg)))
            return false;
    }
    return n > 0;
}

/* ravel(self): as a vector */
bool aten_ravel(struct pt2 *p)
{
    return pt2_out(p, 0, pt2_flat(p, pt2_need(p, "self")));
}

/* -- Joins */

enum { H, V, D, COLUMNS };

/* hstack, vstack, dstack, column_stack: cat along one axis of what has at least so many dims */
bool aten_numpy_stack(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value **in;
    int n = pt2_list(p, "tensors", &in);
    enum tcc_dtype d = pt2_out_type(p, 0);
    for (int k = 0; k < n; k++) {
        if (arg == COLUMNS && in[k] && imp_rank(in[k]) < 2) /* vectors are columns */
            in[k] = imp_along(p->im, at_least(p, in[k], 1), 0, 2);
        in[k] = imp_cast(p->im, at_least(p, in[k], arg == H ? 1 : arg == D ? 3 : 2), d);
        if (!in[k])
            return false;
    }
    if (n < 1)
        return false;
    int axis = arg == H ? imp_rank(in[0]) > 1 : arg == V ? 0 : arg == D ? 2 : 1;
    return pt2_out(p, 0, imp_concat(p->im, n, in, axis));
}

/* Matrices along the diagonal of one, zeros elsewhere. */
bool aten_block_diag(struct pt2 *p)
{
    struct ir_value **in;
    int n = pt2_list(p, "tensors", &in);
    ir_expr width = ir_const(p->ctx, 0), at = width;
    for (int k = 0; k < n; k++) {
        in[k] = imp_cast(p->im, at_least(p, in[k], 2), pt2_out_type(p, 0));
        if (!in[k])
            return false;
        width = ir_add(p->ctx, width, imp_dim(in[k], 1));
    }
    for (int k = 0; k < n; k++) {
        ir_expr zero = ir_const(p->ctx, 0), before[] = {zero, at}, after[] = {zero, NULL};
        at = ir_add(p->ctx, at, imp_dim(in[k], 1));
        after[1] = ir_sub(p->ctx, width, at);
        in[k] = imp_pad(p->im, in[k], imp_like(p->im, in[k], 0), before, after, "constant");
    }
    return n > 0 && pt2_out(p, 0, imp_concat(p->im, n, in, 0));
}

/* -- Splits */

/* tensor_split.sections (the first parts are one longer) and .indices (arg -1: along `dim`); hsplit, vsplit, dsplit:
 * along axis arg, hsplit of a vector along its only one */
bool aten_tensor_split(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *x = pt2_need(p, "self");
    ir_expr *cuts = IR_NEWN(p->ctx, PT2_MAX_LIST, ir_expr);
    int64_t axis = arg, sections = 0;
    int n = pt2_nouts(p), given = pt2_given(p, "indices") ? pt2_exprs(p, "indices", PT2_MAX_LIST, cuts) : -1;
    if (!x || !imp_rank(x))
        return false;
    if (arg < 0 && !pt2_axis(p, "dim", 0, imp_rank(x), &axis))
        return false;
    if (arg == 1 && imp_rank(x) == 1)
        axis = 0;
    if (axis >= imp_rank(x))
        return imp_bad(p->im, "axis %lld of %d dims", (long long)axis, imp_rank(x));
    ir_expr extent = imp_dim(x, (int)axis), at = ir_const(p->ctx, 0);
    if (given < 0) {
        sections = pt2_i(p, "sections", n);
        if (sections < 1 || sections > PT2_MAX_LIST || n > sections)
            return imp_bad(p->im, "%lld sections", (long long)sections);
        ir_expr count = ir_const(p->ctx, sections);
        /* k + 1 parts hold (k + 1) floor(extent / sections), and one more each of the first extent mod sections. */
        for (int k = 0; k < n - 1; k++)
            cuts[k] = ir_add(p->ctx, ir_mulc(p->ctx, ir_floordiv(p->ctx, extent, count), k + 1),
                             ir_min(p->ctx, ir_const(p->ctx, k + 1), ir_mod(p->ctx, extent, count)));
    } else if (given < n - 1) {
        return imp_bad(p->im, "more results than indices");
    }
    for (int k = 0; k < n; k++) {
        ir_expr to = k == n - 1 ? extent : given < 0 ? cuts[k] : pt2_clamp(p, cuts[k], extent);
        if (!to)
            return false;
        ir_expr size = given < 0 ? ir_sub(p->ctx, to, at) : ir_max(p->ctx, ir_const(p->ctx, 0), ir_sub(p->ctx, to, at));
        if (pt2_makes(p, k) && !pt2_out(p, k, imp_slice1(p->im, x, (int)axis, at, size)))
            return false;
        at = to;
    }
    return true;
}

/* -- Grids */

/* Vectors as the axes of one grid; indexing "xy" exchanges the first two of them. */
bool aten_meshgrid(struct pt2 *p)
{
    struct ir_value **in;
    int n = pt2_list(p, "tensors", &in);
    bool xy = !strcmp(pt2_s(p, "indexing", "ij"), "xy") && n > 1;
    ir_expr dims[TCC_MAX_RANK];
    if (n < 1 || n > TCC_MAX_RANK)
        return n > 0 && imp_unsupported(p->im, "a grid of %d dims", n);
    for (int k = 0; k < n; k++) {
        in[k] = at_least(p, in[k], 1);
        if (!in[k])
            return false;
        dims[xy && k < 2 ? 1 - k : k] = imp_dim(in[k], 0);
    }
    for (int k = 0; k < n; k++) {
        struct ir_value *along = imp_along(p->im, in[k], xy && k < 2 ? 1 - k : k, n);
        if (!pt2_out(p, k, imp_expand(p->im, along, n, dims)))
            return false;
    }
    return true;
}

/* The rows of the grid of these vectors; of one vector itself. */
bool aten_cartesian_prod(struct pt2 *p)
{
    struct ir_value **in;
    int n = pt2_list(p, "tensors", &in);
    int64_t last = 1;
    ir_expr dims[TCC_MAX_RANK], count = pt2_one(p);
    if (n < 1 || n > TCC_MAX_RANK)
        return n > 0 && imp_unsupported(p->im, "a grid of %d dims", n);
    for (int k = 0; k < n; k++) {
        if (!in[k])
            return false;
        dims[k] = imp_dim(in[k], 0);
        count = ir_mul(p->ctx, count, dims[k]);
    }
    if (n == 1)
        return pt2_out(p, 0, in[0]);
    for (int k = 0; k < n; k++) {
        struct ir_value *whole =
            imp_reshape(p->im, imp_expand(p->im, imp_along(p->im, in[k], k, n), n, dims), 1, &count);
        in[k] = imp_unsqueeze(p->im, whole, 1, &last);
    }
    return pt2_out(p, 0, imp_concat(p->im, n, in, 1));
}

/* -- Repeats */

/* repeat_interleave.self_int: each slice along `dim`, or each element of the flat tensor, so many times */
static bool repeat_each(struct pt2 *p, struct ir_value *x, int64_t axis, ir_expr times)
{
    ir_expr dims[TCC_MAX_RANK + 1], flat[TCC_MAX_RANK];
    int64_t behind = axis + 1;
    int rank = imp_rank(x);
    if (rank == TCC_MAX_RANK)
        return imp_unsupported(p->im, "a tensor of %d dims", rank);
    for (int k = 0; k <= rank; k++)
        dims[k] = k == behind ? times : imp_dim(x, k > behind ? k - 1 : k);
    for (int k = 0; k < rank; k++)
        flat[k] = k == axis ? ir_mul(p->ctx, imp_dim(x, k), times) : imp_dim(x, k);
    struct ir_value *wide = imp_expand(p->im, imp_unsqueeze(p->im, x, 1, &behind), rank + 1, dims);
    return pt2_out(p, 0, imp_reshape(p->im, wide, rank, flat));
}

/* Which element the result's k-th is a copy of: as many before it end at k or earlier. `repeats`: i64[n] */
static struct ir_value *sources(struct pt2 *p, struct ir_value *repeats)
{
    struct imp *im = p->im;
    if (!imp_check_all(im, repeats, ir_const(p->ctx, IMP_MAX_DIM), "a number of repeats"))
        return NULL;
    repeats = imp_cast(im, repeats, TCC_I64);
    struct ir_value *ends = repeats ? imp_op(im, IR_cumsum, 1, &repeats, IR_ATTRS(ir_attr_i(IR_ATTR_axis, 0))) : NULL;
    int64_t first = 0, last = 1;
    ir_expr total;
    if (!ends)
        return NULL;
    if (pt2_given(p, "output_size")) {
        total = pt2_e(p, "output_size", 0);
    } else {
        struct ir_value *sum = imp_reduce(im, IR_reduce_sum, repeats, 1, &first, false);
        if (!sum || imp_bound_exprs(im, sum, 1, 0, INT64_C(1) << 40, &total) != 1)
            return NULL;
    }
    struct ir_value *at = total ? imp_unsqueeze(im, imp_iota(im, 1, &total, 0, TCC_I64), 1, &last) : NULL;
    struct ir_value *before = imp_cast(im, imp_bin(im, IR_le, imp_unsqueeze(im, ends, 1, &first), at), TCC_I64);
    return imp_reduce(im, IR_reduce_sum, before, 1, &last, false);
}

/* repeat_interleave.self_int, .self_Tensor (times for each) and .Tensor (the places themselves) */
bool aten_repeat_interleave(struct pt2 *p)
{
    const char *kind;
    pt2_arg(p, "repeats", &kind);
    bool tensor = kind && !strcmp(kind, "as_tensor"), alone = !pt2_given(p, "self");
    struct ir_value *x = alone ? NULL : pt2_need(p, "self");
    int64_t axis = 0;
    if (alone)
        return pt2_out(p, 0, sources(p, pt2_need(p, "repeats")));
    if (!x)
        return false;
    if (!pt2_given(p, "dim"))
        x = pt2_flat(p, x);
    else if (!pt2_axis(p, "dim", 0, imp_rank(x), &axis))
        return false;
    if (!tensor) {
        ir_expr times = pt2_e(p, "repeats", 1);
        pt2_ignore(p, "output_size");
        return x && times && repeat_each(p, x, axis, times);
    }
    struct ir_value *repeats = pt2_need(p, "repeats");
    if (!x || !repeats)
        return false;
    if (imp_rank(repeats) == 0 || ir_is_value(imp_dim(repeats, 0), 1)) {
        ir_expr n = imp_dim(x, (int)axis);
        repeats = imp_expand(p->im, imp_to_rank(p->im, repeats, 1), 1, &n);
    }
    struct ir_value *at = sources(p, repeats);
    return at && pt2_out(p, 0, imp_gather(p->im, x, at, (int)axis));
}

/* -- Diagonals */

/* diag_embed(self, offset, dim1, dim2): the last axis becomes the diagonal of two new ones. */
static struct ir_value *embedded(struct pt2 *p, struct ir_value *x, int64_t offset, int64_t a, int64_t b)
{
    struct imp *im = p->im;
    int rank = imp_rank(x) + 1, n = 0;
    int64_t last = rank - 1, perm[TCC_MAX_RANK];
    ir_expr size[2] = {ir_addc(p->ctx, imp_dim(x, rank - 2), offset < 0 ? -offset : offset), NULL},
            zero = ir_const(p->ctx, 0);
    ir_expr before[TCC_MAX_RANK], after[TCC_MAX_RANK];
    size[1] = size[0];
    /* The values stand in the columns that they go to, and in each row all but one are covered. */
    for (int k = 0; k < rank - 1; k++)
        before[k] = after[k] = zero;
    before[rank - 2] = ir_const(p->ctx, offset > 0 ? offset : 0);
    after[rank - 2] = ir_const(p->ctx, offset < 0 ? -offset : 0);
    struct ir_value *row =
        imp_unsqueeze(im, imp_pad(im, x, imp_like(im, x, 0), before, after, "constant"), 1, &(int64_t){last - 1});
    struct ir_value *on = imp_band(im, IR_eq, size, imp_int(im, TCC_I64, offset)), *zero_x = imp_like(im, x, 0);
    struct ir_value *y = imp_select(im, on, row, zero_x);
    for (int k = 0; k < rank; k++)
        perm[k] = k == a ? rank - 2 : k == b ? rank - 1 : n++;
    return imp_transpose(im, y, perm);
}

bool aten_diag_embed(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    int64_t a, b, offset = pt2_i(p, "offset", 0);
    if (!x || !imp_rank(x) || imp_rank(x) == TCC_MAX_RANK || !pt2_axis(p, "dim1", -2, imp_rank(x) + 1, &a) ||
        !pt2_axis(p, "dim2", -1, imp_rank(x) + 1, &b) || a == b)
        return false;
    return pt2_out(p, 0, embedded(p, x, offset, a, b));
}

/* diag: of a vector the matrix, of a matrix its diagonal; diagflat (arg 1): the matrix of all elements */
bool aten_diag(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    int64_t offset = pt2_i(p, pt2_given(p, "offset") ? "offset" : "diagonal", 0);
    if (p->row->arg)
        x = pt2_flat(p, x);
    return x && pt2_out(p, 0, imp_rank(x) < 2 ? embedded(p, x, offset, 0, 1) : pt2_diagonal(p, x, offset, 0, 1));
}

/* trace: the diagonal's sum */
bool aten_trace(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    const int64_t first = 0;
    if (!x || imp_rank(x) != 2)
        return false;
    x = imp_cast(p->im, x, tcc_small_float(imp_dtype(x)) ? TCC_F32 : pt2_out_type(p, 0));
    return pt2_out(p, 0, imp_reduce(p->im, IR_reduce_sum, x ? pt2_diagonal(p, x, 0, 0, 1) : NULL, 1, &first, false));
}

/* -- Orders */

/* rot90(self, k, dims): k quarter turns from the first axis towards the second */
bool aten_rot90(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    int64_t axes[2] = {0, 1}, perm[TCC_MAX_RANK], turns = pt2_i(p, "k", 1) & 3;
    if (!x || (pt2_given(p, "dims") && pt2_ints(p, "dims", 2, axes) != 2))
        return false;
    int rank = imp_rank(x);
    axes[0] += axes[0] < 0 ? rank : 0;
    axes[1] += axes[1] < 0 ? rank : 0;
    if (axes[0] < 0 || axes[0] >= rank || axes[1] < 0 || axes[1] >= rank || axes[0] == axes[1])
        return imp_bad(p->im, "dims %lld and %lld", (long long)axes[0], (long long)axes[1]);
    for (int k = 0; k < rank; k++)
        perm[k] = turns & 1 && (k == axes[0] || k == axes[1]) ? axes[0] + axes[1] - k : k;
    /* One turn: the second axis backwards, then both exchanged; two: both backwards; three: the first. */
    struct ir_value *y = pt2_flip(p, x, turns ? 1 + (turns == 2) : 0, turns == 1 ? axes + 1 : axes);
    return pt2_out(p, 0, imp_transpose(p->im, y, perm));
}

/* channel_shuffle(self, groups): channels [groups, each] in the order [each, groups] */
bool aten_channel_shuffle(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    int64_t groups = pt2_i(p, "groups", 1), perm[TCC_MAX_RANK];
    ir_expr dims[TCC_MAX_RANK];
    if (!x || imp_rank(x) < 3 || imp_rank(x) == TCC_MAX_RANK || groups < 1)
        return false;
    for (int k = 0; k <= imp_rank(x); k++) {
        dims[k] = k == 1   ? ir_const(p->ctx, groups)
                  : k == 2 ? ir_floordiv(p->ctx, imp_dim(x, 1), ir_const(p->ctx, groups))
                           : imp_dim(x, k > 2 ? k - 1 : k);
        perm[k] = k == 1 ? 2 : k == 2 ? 1 : k;
    }
    struct ir_value *y = imp_transpose(p->im, imp_reshape(p->im, x, imp_rank(x) + 1, dims), perm);
    return pt2_out(p, 0, imp_reshape(p->im, y, imp_rank(x), x->type->dim));
}

/* tril_indices, triu_indices (arg 1): row and column of each element of the triangle of a matrix, row by row */
bool aten_tri_indices(struct pt2 *p)
{
    int64_t rows = pt2_i(p, "row", 0), columns = pt2_i(p, "col", 0), offset = pt2_i(p, "offset", 0), n = 0;
    pt2_ignore(p, "dtype");
    if (rows < 0 || columns < 0 || rows > 1 << 15 || columns > 1 << 15)
        return imp_unsupported(p->im, "a matrix of %lld x %lld", (long long)rows, (long long)columns);
    int64_t *at = IR_NEWN(p->ctx, 2 * rows * columns + 1, int64_t), *across = at + rows * columns;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            if (p->row->arg ? j - i >= offset : j - i <= offset) {
                at[n] = i;
                across[n++] = j;
            }
        }
    }
    memmove(at + n, across, (size_t)n * sizeof *at);
    ir_expr dims[] = {ir_const(p->ctx, 2), ir_const(p->ctx, n)};
    return pt2_out(p, 0, imp_reshape(p->im, imp_i64s(p->im, (int)(2 * n), at), 2, dims));
}
