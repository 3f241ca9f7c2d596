/* SPDX-License-Identifier: Apache-2.0 */
/* Views and parts by sizes and axes. op_arrange.c has repeats, turns and pads, op_index.c indexing by tensors. */
#include "compiler/pt2/pt2_int.h"

/* -- Bounds */

/* An index, from the end where it is negative. Where sizes make it, the exporter took a sign for granted: -n is from
 * the end, for no n of 0, and n - m from the front. What the data decide may be either. NULL after a message. */
static ir_expr pt2_wrap(struct pt2 *p, ir_expr i, ir_expr size)
{
    if (i->lo >= 0)
        return i;
    if (i->hi < 0)
        return ir_add(p->ctx, i, size);
    if (!imp_of_inputs(p->im, i)) {
        ir_expr above = ir_max(p->ctx, pt2_zero(p), ir_mulc(p->ctx, i, -1));
        return ir_add(p->ctx, i, ir_mul(p->ctx, size, ir_min(p->ctx, pt2_one(p), above)));
    }
    if (i->hi > 0)
        return i;
    return imp_assume(p->im, IR_LE, i, ir_const(p->ctx, -1), "an index from the end is negative")
               ? ir_add(p->ctx, i, size)
               : NULL;
}

ir_expr pt2_clamp(struct pt2 *p, ir_expr i, ir_expr size)
{
    i = pt2_wrap(p, i, size);
    return i ? ir_max(p->ctx, pt2_zero(p), ir_min(p->ctx, i, size)) : NULL;
}

/* -- Reshapes */

/* The factors of a product of sizes. */
struct factors {
    int n;
    ir_expr at[16 * TCC_MAX_RANK];
};

static void add_factors(struct factors *f, ir_expr e)
{
    int n = e->kind == IR_X_MUL ? e->nargs : 1;
    for (int k = 0; k < n && f->n < 16 * TCC_MAX_RANK; k++)
        f->at[f->n++] = e->kind == IR_X_MUL ? e->arg[k] : e;
}

static ir_expr product(struct pt2 *p, const struct factors *f)
{
    ir_expr e = pt2_one(p);
    for (int k = 0; k < f->n; k++)
        e = ir_mul(p->ctx, e, f->at[k]);
    return e;
}

/*
 * The size of -1 where n others are dims[from ...]: what the sizes of x have that those have not. Factors that both
 * have cancel, though they may be 0: PyTorch refuses -1 beside a size of 0. So do signs: a size rounded up is
 * -1 times the floor of its negative.
 */
static ir_expr open_size(struct pt2 *p, int nwhole, const ir_expr *whole, int n, const ir_expr *dims, int open)
{
    struct factors all = {0}, others = {0};
    for (int k = 0; k < nwhole; k++)
        add_factors(&all, whole[k]);
    for (int k = 0; k < n; k++)
        if (k != open)
            add_factors(&others, dims[k]);
    for (int k = 0; k < others.n; k++) {
        int same = 0;
        while (same < all.n && all.at[same] != others.at[k])
            same++;
        if (same < all.n && (!ir_is_const(others.at[k], NULL) || ir_is_value(others.at[k], -1)))
            all.at[same] = others.at[k] = pt2_one(p);
    }
    ir_expr by = product(p, &others);
    if (by->hi < 0)
        return imp_bad(p->im, "a size of -1 beside one that is negative"), NULL;
    if (!imp_assume(p->im, IR_LE, pt2_zero(p), by, "sizes beside one of -1 are not negative"))
        return NULL;
    return ir_floordiv(p->ctx, product(p, &all), ir_max(p->ctx, by, pt2_one(p)));
}

/* Sizes of which one may be -1. */
static struct ir_value *view(struct pt2 *p, struct ir_value *x, int n, ir_expr *dims)
{
    int open = -1;
    for (int k = 0; k < n; k++) {
        if (ir_is_value(dims[k], -1) && open >= 0)
            return imp_bad(p->im, "two sizes of -1"), NULL;
        if (ir_is_value(dims[k], -1))
            open = k;
    }
    if (open >= 0)
        dims[open] = open_size(p, imp_rank(x), x->type->dim, n, dims, open);
    if (open >= 0 && !dims[open])
        return NULL;
    return imp_reshape(p->im, x, n, dims);
}

/* view, reshape, _unsafe_view */
bool aten_view(struct pt2 *p)
{
    ir_expr dims[TCC_MAX_RANK];
    struct ir_value *x = pt2_need(p, "self");
    int n = x ? pt2_exprs(p, pt2_given(p, "shape") ? "shape" : "size", TCC_MAX_RANK, dims) : -2;
    return n >= 0 && pt2_out(p, 0, view(p, x, n, dims));
}

bool aten_view_as(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self"), *like = x ? pt2_need(p, "other") : NULL;
    return like && pt2_out(p, 0, imp_reshape(p->im, x, imp_rank(like), like->type->dim));
}

bool aten_flatten(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    ir_expr dims[TCC_MAX_RANK];
    int64_t from, to;
    int n = 0;
    if (!x || !pt2_axis(p, "start_dim", 0, imp_rank(x), &from) || !pt2_axis(p, "end_dim", -1, imp_rank(x), &to))
        return false;
    for (int k = 0; k < imp_rank(x); k++) {
        if (k > from && k <= to)
            dims[n - 1] = ir_mul(p->ctx, dims[n - 1], imp_dim(x, k));
        else
            dims[n++] = imp_dim(x, k);
    }
    if (!n)
        dims[n++] = pt2_one(p);
    return pt2_out(p, 0, imp_reshape(p->im, x, n, dims));
}

bool aten_unflatten(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    ir_expr dims[2 * TCC_MAX_RANK], sizes[TCC_MAX_RANK];
    int64_t axis;
    int n = pt2_exprs(p, "sizes", TCC_MAX_RANK, sizes), count = 0, open = -1;
    if (!x || n < 1 || !pt2_axis(p, "dim", 0, imp_rank(x), &axis) || imp_rank(x) + n - 1 > TCC_MAX_RANK)
        return false;
    for (int k = 0; k < imp_rank(x); k++) {
        for (int i = 0; i < n && k == axis; i++) {
            if (ir_is_value(sizes[i], -1))
                open = i;
            dims[count++] = sizes[i];
        }
        if (k != axis)
            dims[count++] = imp_dim(x, k);
    }
    if (open >= 0)
        dims[axis + open] = open_size(p, 1, x->type->dim + axis, n, sizes, open);
    if (open >= 0 && !dims[axis + open])
        return false;
    return pt2_out(p, 0, imp_reshape(p->im, x, count, dims));
}

bool aten_unsqueeze(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    int64_t axis;
    return x && pt2_axis(p, "dim", 0, imp_rank(x) + 1, &axis) && pt2_out(p, 0, imp_unsqueeze(p->im, x, 1, &axis));
}

/* Axes of size 1 only go; with no `dim` all of them. */
bool aten_squeeze(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    int64_t axes[TCC_MAX_RANK], gone[TCC_MAX_RANK];
    bool given = pt2_given(p, "dim");
    int64_t none[TCC_MAX_RANK];
    if (!x || (given && pt2_ints(p, "dim", TCC_MAX_RANK, none) == 0))
        return pt2_out(p, 0, x);
    int n = pt2_axes(p, "dim", imp_rank(x), axes), count = 0;
    for (int k = 0; k < n; k++) {
        if (ir_is_value(imp_dim(x, (int)axes[k]), 1))
            gone[count++] = axes[k];
    }
    return n >= 0 && pt2_out(p, 0, imp_squeeze(p->im, x, count, gone));
}

bool aten_expand(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    ir_expr dims[TCC_MAX_RANK];
    int n = x ? pt2_exprs(p, "size", TCC_MAX_RANK, dims) : -1;
    pt2_ignore(p, "implicit");
    if (n < 0 || n < imp_rank(x))
        return false;
    for (int k = 0; k < n; k++) {
        if (ir_is_value(dims[k], -1) && k >= n - imp_rank(x))
            dims[k] = imp_dim(x, k - n + imp_rank(x));
    }
    return pt2_out(p, 0, imp_expand(p->im, x, n, dims));
}

/* Each of the list in the shape that all of them have together. */
bool aten_broadcast_tensors(struct pt2 *p)
{
    struct ir_value **list;
    int n = pt2_list(p, "tensors", &list);
    for (int k = 0; k < n; k++) {
        const char *name = pt2_out_name(p, k);
        json_t *meta = name ? pt2_meta(p, name) : NULL;
        ir_type t = meta && list[k] ? pt2_meta_type(p, meta) : NULL;
        if (!t || !pt2_out(p, k, imp_expand(p->im, list[k], t->rank, t->dim)))
            return false;
    }
    return n > 0;
}

bool aten_expand_as(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    return pt2_out(p, 0, pt2_expand_as(p, x, x ? pt2_need(p, "other") : NULL));
}

/* -- Axes */

bool aten_permute(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    int64_t perm[TCC_MAX_RANK];
    int n = pt2_ints(p, "dims", TCC_MAX_RANK, perm);
    unsigned seen = 0;
    if (!x || n != imp_rank(x))
        return false;
    for (int k = 0; k < n; k++) {
        perm[k] += perm[k] < 0 ? n : 0;
        if (perm[k] < 0 || perm[k] >= n || seen >> perm[k] & 1)
            return imp_bad(p->im, "dims are no permutation");
        seen |= 1u << perm[k];
    }
    return pt2_out(p, 0, imp_transpose(p->im, x, perm));
}

/* transpose.int, swapaxes; of the last two axes (arg 1: t, numpy_T, mT), conjugated (arg 2: mH, adjoint) */
bool aten_transpose(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    int64_t perm[TCC_MAX_RANK], a = 0, b = 0;
    if (!x)
        return false;
    int rank = imp_rank(x);
    if (p->row->arg)
        a = rank - 2, b = rank - 1;
    else if (!pt2_axis(p, pt2_given(p, "axis0") ? "axis0" : "dim0", 0, rank, &a) ||
             !pt2_axis(p, pt2_given(p, "axis1") ? "axis1" : "dim1", 0, rank, &b)) /* swapaxes says axis */
        return false;
    for (int k = 0; k < rank; k++)
        perm[k] = k == a ? b : k == b ? a : k;
    x = rank < 2 ? x : imp_transpose(p->im, x, perm);
    bool conjugated = p->row->arg == 2 && p->part[0] == PT2_IMAGINARY; /* mH, adjoint */
    return pt2_out(p, 0, x && conjugated ? imp_un(p->im, IR_neg, x) : x);
}

bool aten_movedim(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    int64_t from[TCC_MAX_RANK], to[TCC_MAX_RANK], perm[TCC_MAX_RANK];
    int n = pt2_ints(p, "source", TCC_MAX_RANK, from), m = pt2_ints(p, "destination", TCC_MAX_RANK, to), next = 0;
    bool moved[TCC_MAX_RANK] = {false};
    if (!x || n < 0 || n != m)
        return false;
    int rank = imp_rank(x) ? imp_rank(x) : 1; /* without dims: as a vector of one */
    for (int k = 0; k < rank; k++)
        perm[k] = -1;
    for (int k = 0; k < n; k++) {
        from[k] += from[k] < 0 ? rank : 0;
        to[k] += to[k] < 0 ? rank : 0;
        if (from[k] < 0 || from[k] >= rank || to[k] < 0 || to[k] >= rank || moved[from[k]] || perm[to[k]] >= 0)
            return imp_bad(p->im, "source and destination do not fit");
        moved[from[k]] = true;
        perm[to[k]] = from[k];
    }
    for (int k = 0; k < rank; k++) {
        if (perm[k] >= 0)
            continue;
        while (moved[next])
            next++;
        perm[k] = next++;
    }
    return pt2_out(p, 0, imp_rank(x) ? imp_transpose(p->im, x, perm) : x);
}

/* -- Parts */

static struct ir_value *strided(struct pt2 *p, struct ir_value *x, int axis, ir_expr start, ir_expr size, int64_t step)
{
    ir_expr starts[TCC_MAX_RANK], sizes[TCC_MAX_RANK], steps[TCC_MAX_RANK];
    for (int k = 0; k < imp_rank(x); k++) {
        starts[k] = k == axis ? start : pt2_zero(p);
        sizes[k] = k == axis ? size : imp_dim(x, k);
        steps[k] = ir_const(p->ctx, k == axis ? step : 1);
    }
    return imp_slice(p->im, x, starts, sizes, steps);
}

/* start, end, step of the node along `axis` of x. False after a message. */
static bool read_slice(struct pt2 *p, const struct ir_value *x, int64_t axis, ir_expr *start, ir_expr *size,
                       int64_t *step)
{
    ir_expr extent = imp_dim(x, (int)axis), from = pt2_e(p, "start", 0), to = pt2_e(p, "end", INT64_MAX);
    *step = pt2_i(p, "step", 1);
    if (!from || !to || *step < 1)
        return from && to && imp_bad(p->im, "step %lld", (long long)*step);
    bool whole = ir_is_const(to, NULL) && to->lo >= INT64_C(1) << 40;
    *start = pt2_clamp(p, from, extent);
    to = whole ? extent : pt2_clamp(p, to, extent);
    if (!*start || !to)
        return false;
    ir_expr span = ir_max(p->ctx, pt2_zero(p), ir_sub(p->ctx, to, *start));
    *size = *step == 1 ? span : ir_ceildiv(p->ctx, span, ir_const(p->ctx, *step));
    return true;
}

bool aten_slice(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    int64_t axis, step;
    ir_expr start, size;
    return x && imp_rank(x) && pt2_axis(p, "dim", 0, imp_rank(x), &axis) &&
           read_slice(p, x, axis, &start, &size, &step) && pt2_out(p, 0, strided(p, x, (int)axis, start, size, step));
}

bool aten_narrow(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    int64_t axis;
    ir_expr start = pt2_e(p, "start", 0), size = pt2_e(p, "length", 0);
    return x && start && size && pt2_axis(p, "dim", 0, imp_rank(x), &axis) &&
           (start = pt2_wrap(p, start, imp_dim(x, (int)axis))) &&
           pt2_out(p, 0, imp_slice1(p->im, x, (int)axis, start, size));
}

static struct ir_value *element(struct pt2 *p, struct ir_value *x, int64_t axis, ir_expr index)
{
    ir_expr at = pt2_wrap(p, index, imp_dim(x, (int)axis));
    struct ir_value *part = at ? imp_slice1(p->im, x, (int)axis, at, pt2_one(p)) : NULL;
    return part ? imp_squeeze(p->im, part, 1, &axis) : NULL;
}

bool aten_select(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    int64_t axis;
    ir_expr index = pt2_e(p, "index", 0);
    return x && index && imp_rank(x) && pt2_axis(p, "dim", 0, imp_rank(x), &axis) &&
           pt2_out(p, 0, element(p, x, axis, index));
}

/* x with the positions start + i * step along `axis` replaced by `part`. */
static struct ir_value *replace(struct pt2 *p, struct ir_value *x, struct ir_value *part, int64_t axis, ir_expr start,
                                ir_expr size, int64_t step)
{
    struct imp *im = p->im;
    if (step == 1) {
        ir_expr behind = ir_add(p->ctx, start, size);
        struct ir_value *in[] = {imp_slice1(im, x, (int)axis, pt2_zero(p), start), part,
                                 imp_slice1(im, x, (int)axis, behind, ir_sub(p->ctx, imp_dim(x, (int)axis), behind))};
        return in[0] && in[1] && in[2] ? imp_concat(im, 3, in, (int)axis) : NULL;
    }
    struct ir_value *at = imp_iota(im, 1, &size, 0, TCC_I64);
    struct ir_value *start_size = imp_dim_value(im, start);
    at = imp_bin(im, IR_add, imp_bin(im, IR_mul, at, imp_int(im, TCC_I64, step)), start_size);
    struct ir_value *in[] = {x, pt2_expand_as(p, at ? imp_along(im, at, (int)axis, imp_rank(x)) : NULL, part), part};
    return imp_op(im, IR_scatter_elements, 3, in,
                  IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis), ir_attr_s(IR_ATTR_mode, "none")));
}

bool aten_slice_scatter(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self"), *src = x ? pt2_need(p, "src") : NULL;
    int64_t axis, step;
    ir_expr start, size, dims[TCC_MAX_RANK];
    if (!src || !imp_rank(x) || !pt2_axis(p, "dim", 0, imp_rank(x), &axis) ||
        !read_slice(p, x, axis, &start, &size, &step))
        return false;
    for (int k = 0; k < imp_rank(x); k++)
        dims[k] = k == axis ? size : imp_dim(x, k);
    src = imp_expand(p->im, imp_cast(p->im, src, imp_dtype(x)), imp_rank(x), dims);
    return src && pt2_out(p, 0, replace(p, x, src, axis, start, size, step));
}

bool aten_select_scatter(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self"), *src = x ? pt2_need(p, "src") : NULL;
    int64_t axis;
    ir_expr index = pt2_e(p, "index", 0);
    if (!src || !index || !imp_rank(x) || !pt2_axis(p, "dim", 0, imp_rank(x), &axis))
        return false;
    src = imp_unsqueeze(p->im, imp_cast(p->im, src, imp_dtype(x)), 1, &axis);
    index = pt2_wrap(p, index, imp_dim(x, (int)axis));
    return src && index && pt2_out(p, 0, replace(p, x, src, axis, index, pt2_one(p), 1));
}

/* -- Lists of parts */

/* arg 0: sizes given (split_with_sizes), 1: one size (split.Tensor), 2: a number of parts (chunk), 3: parts of one,
 * without their axis (unbind) */
bool aten_split(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *x = pt2_need(p, "self");
    static const char *const names[] = {"split_sizes", "split_size", "chunks", "none"};
    ir_expr *sizes = IR_NEWN(p->ctx, PT2_MAX_LIST, ir_expr), at = pt2_zero(p);
    int64_t axis;
    int n = pt2_nouts(p), given = arg == 3 ? -1 : pt2_exprs(p, names[arg], PT2_MAX_LIST, sizes);
    if (!x || !imp_rank(x) || given < -1 || !pt2_axis(p, "dim", 0, imp_rank(x), &axis))
        return false;
    if ((arg == 1 || arg == 2) && (given != 1 || (arg == 2 && sizes[0]->lo <= 0)))
        return imp_bad(p->im, "argument '%s' is no size", names[arg]);
    ir_expr extent = imp_dim(x, (int)axis), each = arg == 1 ? sizes[0] : pt2_one(p);
    if (arg == 2)
        each = ir_ceildiv(p->ctx, extent, sizes[0]);
    for (int k = 0; k < n; k++) {
        ir_expr size = arg ? each : sizes[k];
        if (arg == 0 && k >= given)
            return imp_bad(p->im, "more results than sizes");
        if ((arg == 1 || arg == 2) && k == n - 1)
            size = ir_sub(p->ctx, extent, at);
        if (pt2_makes(p, k) &&
            !pt2_out(p, k, arg == 3 ? element(p, x, axis, at) : imp_slice1(p->im, x, (int)axis, at, size)))
            return false;
        at = ir_add(p->ctx, at, size);
    }
    return true;
}

/* arg 1: stack */
bool aten_cat(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value **in;
    int n = pt2_list(p, "tensors", &in), count = 0;
    enum tcc_dtype d = pt2_out_type(p, 0);
    int64_t axis;
    for (int k = 0; k < n; k++) {
        if (!in[k])
            return false;
        if (!arg && imp_rank(in[k]) == 1 && ir_is_value(imp_dim(in[k], 0), 0) && n > 1)
            continue; /* an empty vector goes with anything */
        in[count++] = imp_cast(p->im, in[k], d);
    }
    if (count < 1)
        return n > 0 && pt2_out(p, 0, in[0]);
    if (!in[0] || !pt2_axis(p, "dim", 0, imp_rank(in[0]) + (arg != 0), &axis))
        return false;
    for (int k = 0; arg && k < count; k++)
        in[k] = in[k] ? imp_unsqueeze(p->im, in[k], 1, &axis) : NULL;
    return pt2_out(p, 0, imp_concat(p->im, count, in, (int)axis));
}
