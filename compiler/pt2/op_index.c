/* SPDX-License-Identifier: Apache-2.0 */
/* Indexing by tensors: gathers and scatters, x[i, :, j], masks. */
#include "compiler/pt2/pt2_int.h"

#include <math.h>
#include <string.h>

/* -- Along one axis: an index that is negative is an error here, in x[i] below it counts from the end */

bool aten_gather(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self"), *index = x ? pt2_need(p, "index") : NULL;
    int64_t axis;
    pt2_ignore(p, "sparse_grad");
    if (!index || !pt2_axis(p, "dim", 0, imp_rank(x), &axis))
        return false;
    if (!imp_rank(x))
        return pt2_out(p, 0, pt2_expand_as(p, x, index));
    index = imp_from_zero(p->im, index);
    return pt2_out(p, 0, imp_gather_elements(p->im, x, index, (int)axis));
}

bool aten_index_select(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self"), *index = x ? pt2_need(p, "index") : NULL;
    int64_t axis;
    if (!index || !pt2_axis(p, "dim", 0, imp_rank(x), &axis))
        return false;
    if (!imp_rank(x))
        return pt2_out(p, 0, x);
    index = imp_from_zero(p->im, imp_rank(index) ? index : imp_to_rank(p->im, index, 1));
    return pt2_out(p, 0, imp_gather(p->im, x, index, (int)axis));
}

/* How a scatter combines elements: the sum of bools is true where one of them is. */
static struct ir_attr combining(const struct ir_value *x, const char *mode)
{
    return ir_attr_s(IR_ATTR_mode, x && imp_dtype(x) == TCC_BOOL && !strcmp(mode, "add") ? "max" : mode);
}

static struct ir_value *scatter(struct pt2 *p, struct ir_value *x, struct ir_value *index, struct ir_value *src,
                                int64_t axis, const char *mode)
{
    struct ir_value *in[] = {x, index, src};
    return imp_op(p->im, IR_scatter_elements, 3, in, IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis), combining(x, mode)));
}

/* Rows y of w, each with its share of the row's gradient: the mean over where the row is used. */
static struct ir_value *shared_by_uses(struct pt2 *p, struct ir_value *w, struct ir_value *index, struct ir_value *y)
{
    struct imp *im = p->im;
    ir_expr rows = imp_dim(w, 0);
    int64_t last = imp_rank(index);
    struct ir_value *flat = pt2_flat(p, index),
                    *ones = flat ? imp_splat(im, imp_dtype(w), 1, 1, flat->type->dim) : NULL;
    struct ir_value *uses = ones ? scatter(p, imp_splat(im, imp_dtype(w), 0, 1, &rows), flat, ones, 0, "add") : NULL;
    struct ir_value *of_each = uses ? imp_unsqueeze(im, imp_gather(im, uses, index, 0), 1, &last) : NULL;
    struct ir_value *fixed = imp_un(im, IR_stop_gradient, y);
    return of_each ? imp_formula(im, "x + (y - x) / z", fixed, y, of_each) : NULL;
}

struct ir_value *pt2_rows(struct pt2 *p, struct ir_value *w, struct ir_value *index, bool by_frequency)
{
    struct ir_value *y = index ? imp_gather(p->im, w, index, 0) : NULL;
    return y && by_frequency ? shared_by_uses(p, w, index, y) : y;
}

/* embedding(weight, indices, padding_idx): the row padding_idx learns nothing. */
bool aten_embedding(struct pt2 *p)
{
    struct ir_value *w = pt2_need(p, "weight"), *index = w ? pt2_need(p, "indices") : NULL;
    int64_t padding = pt2_i(p, "padding_idx", -1), last;
    bool by_frequency = pt2_b(p, "scale_grad_by_freq", false) && p->im->train;
    pt2_ignore(p, "sparse");
    index = index ? imp_from_zero(p->im, index) : NULL;
    struct ir_value *y = pt2_rows(p, w, index, by_frequency);
    if (y && p->im->train && padding >= 0) {
        last = imp_rank(index);
        struct ir_value *padded = imp_with(p->im, IR_eq, index, (double)padding);
        struct ir_value *chosen = imp_un(p->im, IR_stop_gradient, y);
        y = imp_select(p->im, imp_unsqueeze(p->im, padded, 1, &last), chosen, y);
    }
    return pt2_out(p, 0, y);
}

/* The part of src that index has elements for. */
static struct ir_value *covered(struct pt2 *p, struct ir_value *src, const struct ir_value *index)
{
    for (int k = 0; src && k < imp_rank(index); k++)
        src = imp_slice1(p->im, src, k, ir_const(p->ctx, 0), imp_dim(index, k));
    return src;
}

static const char *const scatter_modes[][2] = {{"sum", "add"},  {"add", "add"},  {"prod", "mul"}, {"multiply", "mul"},
                                               {"amax", "max"}, {"amin", "min"}, {"mean", "add"}};

static const char *scatter_mode(const char *reduce)
{
    for (size_t k = 0; k < sizeof scatter_modes / sizeof *scatter_modes; k++) {
        if (!strcmp(scatter_modes[k][0], reduce))
            return scatter_modes[k][1];
    }
    return NULL;
}

struct ir_value *pt2_outermost(struct pt2 *p, const struct ir_value *x, bool least)
{
    enum tcc_dtype d = imp_dtype(x);
    int bits = 8 * tcc_dtype_bytes(d);
    if (tcc_is_float(d))
        return imp_like(p->im, x, least ? -INFINITY : INFINITY);
    if (d == TCC_BOOL || !tcc_is_signed(d))
        return imp_int(p->im, d, least ? 0 : d == TCC_BOOL ? 1 : bits == 64 ? -1 : (INT64_C(1) << bits) - 1);
    return imp_int(p->im, d, least ? INT64_MIN >> (64 - bits) : INT64_MAX >> (64 - bits));
}

/* What changes nothing when combined. */
static struct ir_value *neutral(struct pt2 *p, const struct ir_value *x, const char *mode)
{
    if (!strcmp(mode, "max") || !strcmp(mode, "min"))
        return pt2_outermost(p, x, !strcmp(mode, "max"));
    return imp_like(p->im, x, !strcmp(mode, "mul"));
}

/* src combined with those elements of x that the index says; include: x's own count. */
static struct ir_value *combined(struct pt2 *p, struct ir_value *x, struct ir_value *index, struct ir_value *src,
                                 int64_t axis, const char *reduce, bool include)
{
    struct imp *im = p->im;
    const char *mode = *reduce ? scatter_mode(reduce) : "none";
    struct ir_value *to = x;
    if (!include)
        to = scatter(p, x, index, pt2_expand_as(p, neutral(p, x, mode), index), axis, "none");
    struct ir_value *y = scatter(p, to, index, src, axis, mode);
    if (strcmp(reduce, "mean") != 0)
        return y;
    struct ir_value *ones = imp_splat(im, imp_dtype(x), 1, imp_rank(index), index->type->dim);
    struct ir_value *count =
        scatter(p, imp_splat(im, imp_dtype(x), include, imp_rank(x), x->type->dim), index, ones, axis, "add");
    count = imp_bin(im, IR_max, count, imp_like(im, x, 1));
    return y && !imp_is_float(y) ? pt2_floor_div(p, y, count) /* rounded down */ : imp_bin(im, IR_div, y, count);
}

/* scatter.src, .value, .reduce, .value_reduce; arg 1: scatter_add; arg 2: scatter_reduce.two */
bool aten_scatter(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *x = pt2_need(p, "self"), *index = x ? pt2_need(p, "index") : NULL;
    bool number, include = pt2_b(p, "include_self", true);
    const char *reduce = pt2_s(p, "reduce", p->row->arg == 1 ? "add" : ""),
               *mode = *reduce ? scatter_mode(reduce) : "none";
    struct ir_value *src = index ? pt2_operand(p, pt2_given(p, "src") ? "src" : "value", &number) : NULL;
    int64_t axis;
    if (!src || !pt2_axis(p, "dim", 0, imp_rank(x), &axis))
        return false;
    if (!mode)
        return imp_unsupported(im, "reduce '%s'", reduce);
    src = imp_cast(im, src, imp_dtype(x));
    bool scalar = !imp_rank(x);
    index = imp_from_zero(p->im, index);
    if (!index)
        return false;
    if (scalar) { /* as vectors of one */
        x = imp_to_rank(im, x, 1);
        index = imp_to_rank(im, index, 1);
        src = imp_to_rank(im, src, 1);
    }
    src = imp_rank(src) ? covered(p, src, index) : pt2_expand_as(p, src, index);
    if (!src)
        return false;
    struct ir_value *y = combined(p, x, index, src, axis, reduce, include);
    return y && pt2_out(p, 0, scalar ? imp_reshape(im, y, 0, NULL) : y);
}

/* An index of slices along an axis, as one of elements; src as many of them. */
static struct ir_value *of_slices(struct pt2 *p, struct ir_value *x, struct ir_value *index, int64_t axis,
                                  struct ir_value **src)
{
    ir_expr dims[TCC_MAX_RANK];
    for (int k = 0; k < imp_rank(x); k++)
        dims[k] = k == axis ? imp_dim(index, 0) : imp_dim(x, k);
    *src = imp_expand(p->im, imp_cast(p->im, *src, imp_dtype(x)), imp_rank(x), dims);
    return imp_expand(p->im, imp_along(p->im, index, (int)axis, imp_rank(x)), imp_rank(x), dims);
}

/* index_add(self, dim, index, source, alpha), index_copy (arg 1), index_fill (arg 2: value) */
bool aten_index_add(struct pt2 *p)
{
    int arg = p->row->arg;
    struct imp *im = p->im;
    struct ir_value *self = pt2_need(p, "self"), *index = self ? pt2_need(p, "index") : NULL;
    bool number;
    struct ir_value *src = index ? pt2_operand(p, arg == 2 ? "value" : "source", &number) : NULL;
    struct ir_value *x = src ? imp_to_rank(im, self, 1) : NULL;
    double alpha = pt2_f(p, "alpha", 1);
    int64_t axis;
    if (!x || !pt2_axis(p, "dim", 0, imp_rank(self), &axis))
        return false;
    index = imp_to_rank(im, index, 1);
    index = arg == 2 ? index : imp_from_zero(p->im, index); /* index_fill counts from the end */
    if (!index)
        return false;
    index = of_slices(p, x, index, axis, &src);
    if (alpha != 1)
        src = imp_bin(im, IR_mul, src, imp_like(im, x, alpha));
    struct ir_value *y = src && index ? scatter(p, x, index, src, axis, arg ? "none" : "add") : NULL;
    return y && pt2_out(p, 0, imp_reshape(im, y, imp_rank(self), self->type->dim));
}

/* index_reduce(self, dim, index, source, reduce, include_self) */
bool aten_index_reduce(struct pt2 *p)
{
    struct ir_value *self = pt2_need(p, "self"), *index = self ? pt2_need(p, "index") : NULL,
                    *src = index ? pt2_need(p, "source") : NULL, *x = src ? imp_to_rank(p->im, self, 1) : NULL;
    const char *reduce = pt2_s(p, "reduce", "");
    bool include = pt2_b(p, "include_self", true);
    int64_t axis;
    if (!x || !pt2_axis(p, "dim", 0, imp_rank(self), &axis))
        return false;
    if (!*reduce || !scatter_mode(reduce))
        return imp_bad(p->im, "reduce '%s'; prod, mean, amax or amin is expected", reduce);
    index = imp_from_zero(p->im, imp_to_rank(p->im, index, 1));
    index = index ? of_slices(p, x, index, axis, &src) : NULL;
    struct ir_value *y = index && src ? combined(p, x, index, src, axis, reduce, include) : NULL;
    return y && pt2_out(p, 0, imp_reshape(p->im, y, imp_rank(self), self->type->dim));
}

/* put(self, index, source, accumulate): among the elements in row-major order */
bool aten_put(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self"), *index = x ? pt2_flat(p, pt2_need(p, "index")) : NULL,
                    *src = index ? pt2_flat(p, imp_cast(p->im, pt2_need(p, "source"), imp_dtype(x))) : NULL;
    bool add = pt2_b(p, "accumulate", false);
    if (!src || !imp_assume(p->im, IR_EQ, imp_dim(index, 0), imp_dim(src, 0), "an element for each index"))
        return false;
    struct ir_value *y = scatter(p, pt2_flat(p, x), index, src, 0, add ? "add" : "none");
    return y && pt2_out(p, 0, imp_reshape(p->im, y, imp_rank(x), x->type->dim));
}

/* -- Several axes */

/* The index tensors of the node's list, broadcast together; the operand with the indexed axes in front. */
struct indexed {
    struct ir_value *x, *where;     /* where: [index dims..., n] */
    int n, first, index_rank, rank; /* axes indexed, the first of them, dims of an index, of the operand */
    bool together;
    int64_t perm[TCC_MAX_RANK];
    ir_expr index_dims[TCC_MAX_RANK];
};

/* The columns of a mask's nonzero elements. Returns their number; -1 after a message. */
static int columns(struct pt2 *p, struct ir_value *mask, struct ir_value **out)
{
    struct ir_value *at = imp_nonzero(p->im, mask);
    if (!at)
        return -1;
    for (int k = 0; k < imp_rank(mask); k++) {
        ir_expr n = imp_dim(at, 1);
        out[k] = imp_slice1(p->im, at, 0, ir_const(p->ctx, k), ir_const(p->ctx, 1));
        out[k] = out[k] ? imp_reshape(p->im, out[k], 1, &n) : NULL;
        if (!out[k])
            return -1;
    }
    return imp_rank(mask);
}

/* Masks become index lists. The list has an entry for each axis of x, NULL where it is taken whole. */
static bool index_list(struct pt2 *p, struct indexed *t, struct ir_value **list)
{
    struct ir_value **given;
    int n = pt2_list(p, "indices", &given), at = 0;
    memset(list, 0, TCC_MAX_RANK * sizeof *list);
    for (int k = 0; k < n; k++) {
        bool mask = given[k] && (imp_dtype(given[k]) == TCC_BOOL || imp_dtype(given[k]) == TCC_U8);
        int takes = mask ? imp_rank(given[k]) : 1;
        if (at + takes > t->rank)
            return imp_bad(p->im, "more indices than the %d dims", t->rank);
        if (mask && takes && columns(p, imp_cast(p->im, given[k], TCC_BOOL), list + at) < 0)
            return false;
        if (mask && !takes)
            return imp_unsupported(p->im, "a mask without dims");
        if (!mask && given[k])
            list[at] = imp_cast(p->im, given[k], TCC_I64);
        at += takes;
    }
    return n >= 0;
}

static bool read_indexed(struct pt2 *p, struct indexed *t)
{
    struct ir_value *list[TCC_MAX_RANK], *parts[TCC_MAX_RANK];
    int last = -1, count = 0;
    t->rank = imp_rank(t->x);
    if (!index_list(p, t, list))
        return false;
    for (int k = 0; k < t->rank; k++) {
        if (!list[k])
            continue;
        if (!t->n)
            t->first = k;
        t->together = !t->n || (t->together && k == last + 1);
        last = k;
        t->perm[t->n++] = k;
        t->index_rank = imp_rank(list[k]) > t->index_rank ? imp_rank(list[k]) : t->index_rank;
    }
    for (int k = 0; k < t->index_rank; k++)
        t->index_dims[k] = ir_const(p->ctx, 1);
    count = t->n;
    for (int k = 0; k < t->rank; k++) {
        for (int i = 0; list[k] && i < imp_rank(list[k]); i++) {
            int at = i + t->index_rank - imp_rank(list[k]);
            t->index_dims[at] = ir_is_value(t->index_dims[at], 1) ? imp_dim(list[k], i) : t->index_dims[at];
        }
        if (!list[k])
            t->perm[count++] = k;
    }
    int64_t end = t->index_rank;
    for (int k = 0; k < t->n; k++) {
        parts[k] = imp_expand(p->im, list[t->perm[k]], t->index_rank, t->index_dims);
        parts[k] = parts[k] ? imp_unsqueeze(p->im, parts[k], 1, &end) : NULL;
        if (!parts[k])
            return false;
    }
    t->where = t->n ? imp_concat(p->im, t->n, parts, t->index_rank) : NULL;
    return !t->n || t->where;
}

/* The index's dims stand first in what a gather gives; where the indexed axes were together, theirs is the place. perm:
 * of that result. */
static bool index_first(const struct indexed *t, int64_t *perm, int64_t *back)
{
    int rank = t->index_rank + t->rank - t->n, n = 0, before = t->together ? t->first : 0;
    for (int k = 0; k < before; k++)
        perm[n++] = t->index_rank + k;
    for (int k = 0; k < t->index_rank; k++)
        perm[n++] = k;
    while (n < rank)
        perm[n] = n, n++;
    for (int k = 0; k < rank; k++)
        back[perm[k]] = k;
    return before > 0;
}

bool aten_index(struct pt2 *p)
{
    struct indexed t = {.x = pt2_need(p, "self")};
    int64_t perm[2 * TCC_MAX_RANK], back[2 * TCC_MAX_RANK];
    if (!t.x || !read_indexed(p, &t))
        return false;
    if (!t.n)
        return pt2_out(p, 0, t.x);
    if (t.index_rank + t.rank - t.n > TCC_MAX_RANK)
        return imp_unsupported(p->im, "a result with more than %d dims", TCC_MAX_RANK);
    if (t.n == 1) { /* numpy.take's own order */
        int axis = t.first;
        struct ir_value *index = imp_reshape(p->im, t.where, t.index_rank, t.index_dims);
        return pt2_out(p, 0, imp_gather(p->im, t.x, index, axis));
    }
    struct ir_value *in[] = {imp_transpose(p->im, t.x, t.perm), t.where};
    struct ir_value *y = imp_op(p->im, IR_gather_nd, 2, in, IR_ATTRS(ir_attr_i(IR_ATTR_batch_dims, 0)));
    return pt2_out(p, 0, y && index_first(&t, perm, back) ? imp_transpose(p->im, y, perm) : y);
}

/* x[mask] = one value for all */
static struct ir_value *put_mask(struct pt2 *p, struct ir_value *x, struct ir_value *values)
{
    struct ir_value **list;
    int n = pt2_list(p, "indices", &list);
    bool single = true;
    for (int k = 0; k < imp_rank(values); k++)
        single &= ir_is_value(imp_dim(values, k), 1);
    if (n != 1 || !list[0] || imp_dtype(list[0]) != TCC_BOOL || !single || pt2_b(p, "accumulate", false) ||
        !imp_rank(list[0]))
        return NULL;
    ir_expr dims[TCC_MAX_RANK];
    for (int k = 0; k < imp_rank(x); k++)
        dims[k] = k < imp_rank(list[0]) ? imp_dim(list[0], k) : ir_const(p->ctx, 1);
    struct ir_value *mask = imp_reshape(p->im, list[0], imp_rank(x), dims);
    return imp_select(p->im, mask, imp_reshape(p->im, values, 0, NULL), x);
}

bool aten_index_put(struct pt2 *p)
{
    struct imp *im = p->im;
    struct indexed t = {.x = pt2_need(p, "self")};
    struct ir_value *values = t.x ? pt2_need(p, "values") : NULL;
    int64_t perm[2 * TCC_MAX_RANK], back[2 * TCC_MAX_RANK], inverse[TCC_MAX_RANK];
    ir_expr dims[2 * TCC_MAX_RANK], placed[2 * TCC_MAX_RANK];
    bool add = pt2_b(p, "accumulate", false);
    pt2_ignore(p, "unsafe");
    if (!values)
        return false;
    values = imp_cast(im, values, imp_dtype(t.x));
    struct ir_value *masked = put_mask(p, t.x, values);
    if (masked)
        return pt2_out(p, 0, masked);
    if (!read_indexed(p, &t) || !t.n || t.index_rank + t.rank - t.n > TCC_MAX_RANK)
        return false;
    int rank = t.index_rank + t.rank - t.n;
    struct ir_value *front = imp_transpose(im, t.x, t.perm);
    for (int k = 0; k < rank; k++)
        dims[k] = k < t.index_rank ? t.index_dims[k] : imp_dim(front, t.n + k - t.index_rank);
    bool moved = index_first(&t, perm, back);
    for (int k = 0; k < rank; k++)
        placed[k] = dims[perm[k]];
    values = imp_expand(im, values, rank, placed);
    if (values && moved)
        values = imp_transpose(im, values, back);
    struct ir_value *in[] = {front, t.where, values};
    struct ir_value *y = imp_op(im, IR_scatter_nd, 3, in, IR_ATTRS(combining(in[0], add ? "add" : "none")));
    for (int k = 0; k < t.rank; k++)
        inverse[t.perm[k]] = k;
    return y && pt2_out(p, 0, imp_transpose(im, y, inverse));
}

/* -- Masks */

/* Elements of source, in order, go where the mask is set. */
bool aten_masked_scatter(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *x = pt2_need(p, "self"), *mask = x ? pt2_need(p, "mask") : NULL,
                    *src = mask ? pt2_need(p, "source") : NULL;
    mask = src ? pt2_expand_as(p, mask, x) : NULL;
    if (!mask)
        return false;
    ir_expr n = ir_num_elements(p->ctx, x->type), m = ir_num_elements(p->ctx, src->type);
    struct ir_value *flat = imp_cast(im, imp_reshape(im, mask, 1, &n), TCC_I64);
    struct ir_value *at =
        flat ? imp_op(im, IR_cumsum, 1, &flat, IR_ATTRS(ir_attr_i(IR_ATTR_axis, 0), ir_attr_i(IR_ATTR_exclusive, 1)))
             : NULL;
    struct ir_value *zero = imp_int(im, TCC_I64, 0);
    at = imp_bin(im, IR_min, at, imp_bin(im, IR_max, imp_dim_value(im, ir_addc(p->ctx, m, -1)), zero));
    src = imp_reshape(im, src, 1, &m);
    if (m->lo < 1) { /* where no element of the mask is set there may be none; what is gathered then is not looked at */
        ir_expr none = ir_const(p->ctx, 0), some = ir_const(p->ctx, 1);
        src = imp_pad(im, src, imp_like(im, src, 0), &none, &some, "constant");
    }
    struct ir_value *values = at ? imp_gather(im, src, at, 0) : NULL;
    values = values ? imp_reshape(im, values, imp_rank(x), x->type->dim) : NULL;
    return pt2_out(p, 0, imp_select(im, mask, values, x));
}

bool aten_nonzero(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    struct ir_value *at = imp_nonzero(p->im, x);
    return at && pt2_out(p, 0, imp_transpose(p->im, at, (const int64_t[]){1, 0}));
}

/* nonzero_numpy(self): the positions along each axis, a result each */
bool aten_nonzero_numpy(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    if (x && !imp_rank(x))
        x = pt2_flat(p, x);
    struct ir_value *at = imp_nonzero(p->im, x);
    for (int k = 0; at && k < pt2_nouts(p); k++) {
        struct ir_value *row = imp_slice1(p->im, at, 0, ir_const(p->ctx, k), ir_const(p->ctx, 1));
        if (!row || (pt2_wants(p, k) && !pt2_out(p, k, imp_reshape(p->im, row, 1, at->type->dim + 1))))
            return false;
    }
    return at != NULL;
}

bool aten_masked_select(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self"), *mask = x ? pt2_need(p, "mask") : NULL;
    if (!mask)
        return false;
    mask = pt2_expand_as(p, mask, x);
    struct ir_value *flat = pt2_flat(p, mask), *at[1];
    if (!flat || columns(p, flat, at) < 0)
        return false;
    return pt2_out(p, 0, imp_gather(p->im, pt2_flat(p, x), at[0], 0));
}

/* one_hot(self, num_classes) */
bool aten_one_hot(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    ir_expr classes = pt2_e(p, "num_classes", -1);
    if (!x || !classes || classes->lo < 1)
        return x && imp_unsupported(p->im, "a number of classes that the data decides");
    int64_t last = imp_rank(x);
    struct ir_value *all = imp_iota(p->im, 1, &classes, 0, TCC_I64);
    x = imp_gather(p->im, all, imp_from_zero(p->im, imp_cast(p->im, x, TCC_I64)), 0); /* itself, or an error */
    return x && pt2_out(p, 0, imp_bin(p->im, IR_eq, imp_unsqueeze(p->im, x, 1, &last), all));
}
