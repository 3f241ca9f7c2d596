/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order statistics, running extremes, searches and counts. What compares each element with each (searches, counts by
 * value, running extremes) is one reduction over the pairs, which are not stored.
 */
#include "compiler/pt2/pt2_int.h"

#include <math.h>
#include <string.h>

/* -- The k-th of a row */

/* A row sorted: values and where they were. */
static bool sorted(struct pt2 *p, struct ir_value *x, int64_t axis, ir_expr k, struct ir_value **values,
                   struct ir_value **at)
{
    struct ir_node *n = imp_topk(p->im, x, axis, k, false, true);
    if (!n)
        return false;
    *values = n->out[0];
    *at = n->out[1];
    return true;
}

static struct ir_value *place(struct pt2 *p, struct ir_value *x, int64_t axis, ir_expr k, bool keep)
{
    struct ir_value *y = imp_slice1(p->im, x, (int)axis, k, ir_const(p->ctx, 1));
    return keep || !y ? y : imp_squeeze(p->im, y, 1, &axis);
}

/* The operand with the axis of `dim`, or as a vector where there is none. */
static struct ir_value *along(struct pt2 *p, struct ir_value *x, int64_t *axis)
{
    *axis = 0;
    if (!x || (pt2_given(p, "dim") && imp_rank(x)))
        return x && pt2_axis(p, "dim", -1, imp_rank(x), axis) ? x : NULL;
    pt2_ignore(p, "dim");
    return pt2_flat(p, x);
}

/* kthvalue(self, k, dim): the k-th smallest, from 1 */
bool aten_kthvalue(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self"), *values, *at;
    int64_t axis;
    ir_expr k = pt2_e(p, "k", 1);
    bool keep = pt2_b(p, "keepdim", false);
    if (!x || !k || !pt2_axis(p, "dim", -1, imp_rank(x), &axis))
        return false;
    if (!imp_rank(x))
        return pt2_alone(p, x);
    if (!sorted(p, x, axis, k, &values, &at))
        return false;
    ir_expr last = ir_addc(p->ctx, k, -1);
    return pt2_out(p, 0, place(p, values, axis, last, keep)) &&
           (!pt2_wants(p, 1) || pt2_out(p, 1, place(p, at, axis, last, keep)));
}

/* For gradients as PyTorch has them: y, one of the row's elements, as the greatest of those that equal it, which share
 * alike. */
static struct ir_value *shared(struct pt2 *p, struct ir_value *x, struct ir_value *y, int64_t axis)
{
    struct ir_value *among =
        imp_formula_n(p->im, "select(or(eq(x, y), and(isnan(x), isnan(y))), x, a)", IMP_NUMBERS(-INFINITY), x, y);
    return imp_reduce(p->im, IR_reduce_max, among, 1, &axis, false);
}

/* The middle one of a row's elements that are numbers, the lower one of two; NaN where there are none. values: the row
 * sorted, NaN last; at: where they were. */
static bool middle_number(struct pt2 *p, struct ir_value *values, struct ir_value *at, int64_t axis, bool keep,
                          struct ir_value **y, struct ir_value **where)
{
    struct imp *im = p->im;
    struct ir_value *number = imp_cast(im, imp_un(im, IR_not, imp_un(im, IR_isnan, values)), TCC_I64);
    struct ir_value *n = imp_reduce(im, IR_reduce_sum, number, 1, &axis, true);
    struct ir_value *k = imp_with(im, IR_div, imp_with(im, IR_max, imp_with(im, IR_sub, n, 1), 0), 2);
    *y = imp_gather_elements(im, values, k, (int)axis);
    *where = imp_gather_elements(im, at, k, (int)axis);
    if (!keep && *y && *where) {
        *y = imp_squeeze(im, *y, 1, &axis);
        *where = imp_squeeze(im, *where, 1, &axis);
    }
    return *y && *where;
}

/* The median of no elements: NaN, and in whole numbers what PyTorch on x86 makes of that. */
static struct ir_value *of_none(struct pt2 *p, enum tcc_dtype d)
{
    if (tcc_is_float(d))
        return imp_splat(p->im, d, NAN, 0, NULL);
    return imp_int(p->im, d, d == TCC_I64 ? INT64_MIN : d == TCC_I32 ? INT32_MIN : d == TCC_BOOL);
}

/* median, median.dim: the lower one of two; of a row with NaN, NaN. nanmedian, arg 1: of those that are numbers */
bool aten_median(struct pt2 *p)
{
    struct ir_value *values, *at, *number, *its;
    int64_t axis;
    bool keep = pt2_b(p, "keepdim", false), places = pt2_wants(p, 1), all = !pt2_given(p, "dim");
    struct ir_value *self = pt2_need(p, "self"), *x = along(p, self, &axis);
    if (x && !imp_rank(self))
        return pt2_alone(p, self);
    if (x && all && ir_is_value(imp_dim(x, 0), 0))
        return pt2_out(p, 0, of_none(p, imp_dtype(x)));
    if (!x || !pt2_some(p, x, 1, &axis))
        return false;
    ir_expr n = imp_dim(x, (int)axis), middle = ir_floordiv(p->ctx, ir_addc(p->ctx, n, -1), ir_const(p->ctx, 2));
    if (!sorted(p, x, axis, n, &values, &at)) /* all, for NaN is last */
        return false;
    struct ir_value *y = place(p, values, axis, middle, keep),
                    *last = place(p, values, axis, ir_addc(p->ctx, n, -1), keep);
    struct ir_value *where = places ? place(p, at, axis, middle, keep) : NULL;
    if (p->row->arg && imp_is_float(x)) {
        if (!middle_number(p, values, at, axis, keep, &number, &its))
            return false;
        y = number;
        where = places ? its : NULL;
    } else if (imp_is_float(x)) {
        struct ir_value *odd = imp_un(p->im, IR_isnan, last),
                        *worst = imp_reduce(p->im, IR_reduce_max, x, 1, &axis, keep);
        y = imp_select(p->im, odd, worst, y);
        if (places) /* the first NaN's */
            where = imp_select(p->im, odd,
                               imp_op(p->im, IR_argmax, 1, &x,
                                      IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis), ir_attr_i(IR_ATTR_keepdims, keep))),
                               where);
    }
    if (all && y && p->im->training && imp_is_float(x))
        y = shared(p, x, imp_un(p->im, IR_stop_gradient, y), axis);
    return pt2_out(p, 0, y) && (!places || pt2_out(p, 1, where));
}

/* msort(self): along the first axis */
bool aten_msort(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self"), *values, *at;
    if (!x || !imp_rank(x))
        return pt2_out(p, 0, x);
    return sorted(p, x, 0, imp_dim(x, 0), &values, &at) && pt2_out(p, 0, values);
}

/* The sorted row's elements at the positions `at`, whole numbers, one for each element of a vector: [.., q]. */
static struct ir_value *picked(struct pt2 *p, struct ir_value *values, struct ir_value *at)
{
    return imp_gather(p->im, values, imp_cast(p->im, at, TCC_I64), imp_rank(values) - 1);
}

enum { LINEAR, LOWER, HIGHER, MIDPOINT, NEAREST, INTERPOLATIONS };
static const char *const interpolations[] = {"linear", "lower", "higher", "midpoint", "nearest"};

/* Between the elements below and above position q (n - 1). */
static struct ir_value *interpolated(struct pt2 *p, struct ir_value *values, struct ir_value *q, int how)
{
    ir_expr n = imp_dim(values, imp_rank(values) - 1);
    struct ir_value *at = imp_bin(
        p->im, IR_mul, q, imp_cast(p->im, imp_dim_value(p->im, ir_addc(p->ctx, n, -1)), q ? imp_dtype(q) : TCC_F32));
    struct ir_value *below = imp_un(p->im, IR_floor, at), *above = imp_un(p->im, IR_ceil, at);
    if (how == LOWER || how == HIGHER || how == NEAREST)
        return picked(p, values, how == LOWER ? below : how == HIGHER ? above : imp_un(p->im, IR_round, at));
    struct ir_value *a = picked(p, values, below), *b = picked(p, values, above);
    struct ir_value *weight = how == MIDPOINT ? imp_like(p->im, at, 0.5) : imp_bin(p->im, IR_sub, at, below);
    return pt2_between(p, a, b, weight);
}

/* quantile(self, q, dim, keepdim, interpolation): of a vector q its axis comes first; a row with NaN gives NaN */
bool aten_quantile(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *self = pt2_need(p, "self"), *values, *at;
    int64_t axis, perm[TCC_MAX_RANK];
    bool number, keep = pt2_b(p, "keepdim", false), all = !pt2_given(p, "dim") || !imp_rank(self);
    const char *name = pt2_s(p, "interpolation", "linear");
    struct ir_value *q = pt2_operand(p, "q", &number), *x = along(p, self, &axis);
    int how = LINEAR;
    while (how < INTERPOLATIONS && strcmp(interpolations[how], name))
        how++;
    if (!x || !q || how == INTERPOLATIONS)
        return x && q && imp_unsupported(im, "interpolation '%s'", name);
    if (!pt2_some(p, x, 1, &axis))
        return false;
    int rank = imp_rank(x), vector = imp_rank(q), n = 0;
    for (int k = 0; k < rank; k++) {
        if (k != axis)
            perm[n++] = k;
    }
    perm[n] = axis;
    x = imp_transpose(im, x, perm);
    if (!x || !sorted(p, x, rank - 1, imp_dim(x, rank - 1), &values, &at))
        return false;
    struct ir_value *y = interpolated(p, values, imp_to_rank(im, imp_cast(im, q, imp_dtype(x)), 1), how);
    struct ir_value *nan = place(p, values, rank - 1, ir_addc(p->ctx, imp_dim(x, rank - 1), -1), true);
    y = imp_select(im, imp_un(im, IR_isnan, nan), nan, y);
    if (!y)
        return false;
    /* [.., q] to [q, ..], with the axis that is gone as 1 where it is kept. */
    ir_expr dims[TCC_MAX_RANK + 1];
    n = 0;
    for (int k = 0; k < rank; k++)
        perm[k] = k ? k - 1 : rank - 1;
    y = imp_transpose(im, y, perm);
    if (!y)
        return false;
    if (vector)
        dims[n++] = imp_dim(y, 0);
    for (int k = 0, from = 1; k < (all ? imp_rank(self) : rank); k++) {
        if (all ? keep : k == axis && keep)
            dims[n++] = ir_const(p->ctx, 1);
        else if (!all && k != axis)
            dims[n++] = imp_dim(y, from++);
    }
    return n <= TCC_MAX_RANK && pt2_out(p, 0, imp_reshape(im, y, n, dims));
}

/* aminmax(self, dim, keepdim) */
bool aten_aminmax(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    int64_t axes[TCC_MAX_RANK];
    int n = x ? pt2_axes(p, "dim", imp_rank(x), axes) : -1;
    bool keep = pt2_b(p, "keepdim", false);
    return n >= 0 && pt2_some(p, x, n, axes) && pt2_out(p, 0, imp_reduce(p->im, IR_reduce_min, x, n, axes, keep)) &&
           (!pt2_wants(p, 1) || pt2_out(p, 1, imp_reduce(p->im, IR_reduce_max, x, n, axes, keep)));
}

/* -- Running extremes */

/* x[.., i] for each i: [.., 1, i], and which of these lie at or before j: [j, i]. The axis is the last. */
static struct ir_value *before(struct pt2 *p, struct ir_value *x, struct ir_value **row)
{
    int64_t last = imp_rank(x) - 1;
    ir_expr dims[2] = {imp_dim(x, (int)last), imp_dim(x, (int)last)};
    *row = imp_unsqueeze(p->im, x, 1, &last);
    return imp_band(p->im, IR_le, dims, imp_int(p->im, TCC_I64, 0));
}

static struct ir_value *to_last(struct pt2 *p, struct ir_value *x, int64_t axis)
{
    int64_t perm[TCC_MAX_RANK];
    for (int k = 0; x && k < imp_rank(x); k++)
        perm[k] = k == axis ? imp_rank(x) - 1 : k == imp_rank(x) - 1 ? axis : k;
    return imp_transpose(p->im, x, perm);
}

/* cummax (IR_reduce_max), cummin: values, and where the last of them is */
bool aten_running(struct pt2 *p)
{
    int arg = p->row->arg;
    struct imp *im = p->im;
    struct ir_value *x = pt2_need(p, "self"), *row;
    int64_t axis;
    if (!x || !pt2_axis(p, "dim", 0, imp_rank(x), &axis))
        return false;
    if (!imp_rank(x))
        return pt2_alone(p, x);
    x = to_last(p, x, axis);
    int64_t last = x ? imp_rank(x) : 0;
    if (!x || last == TCC_MAX_RANK)
        return x && imp_unsupported(im, "a tensor of %d dims", imp_rank(x));
    struct ir_value *seen = before(p, x, &row),
                    *values = imp_reduce(im, (enum ir_op)arg,
                                         imp_select(im, seen, row, pt2_outermost(p, x, arg == IR_reduce_max)), 1, &last,
                                         false);
    bool places = pt2_wants(p, 1), taken = im->training && imp_is_float(x);
    if (!places && !taken)
        return pt2_out(p, 0, to_last(p, values, axis));
    struct ir_value *same = imp_bin(im, IR_eq, row, imp_unsqueeze(im, values, 1, &last));
    if (imp_is_float(x)) /* NaN is the extreme from where it first stands, and its last place counts */
        same = imp_bin(im, IR_or, same, imp_un(im, IR_isnan, row));
    struct ir_value *at = imp_iota(im, 1, &x->type->dim[last - 1], 0, TCC_I64);
    struct ir_value *zero = imp_int(im, TCC_I64, 0);
    at = imp_reduce(im, IR_reduce_max, imp_select(im, imp_bin(im, IR_and, seen, same), at, zero), 1, &last, false);
    if (taken && at) { /* of equal ones that one has the gradient whose place is told */
        values = imp_gather_elements(im, x, at, (int)last - 1);
    }
    return pt2_out(p, 0, to_last(p, values, axis)) && (!places || pt2_out(p, 1, to_last(p, at, axis)));
}

/* logcumsumexp(self, dim) */
bool aten_logcumsumexp(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *x = imp_wide(im, pt2_need(p, "self")), *row;
    int64_t axis;
    if (!x || !pt2_axis(p, "dim", 0, imp_rank(x), &axis) || !imp_rank(x))
        return pt2_out(p, 0, x);
    x = to_last(p, x, axis);
    int64_t last = x ? imp_rank(x) : 0;
    if (!x || last == TCC_MAX_RANK)
        return x && imp_unsupported(im, "a tensor of %d dims", imp_rank(x));
    struct ir_value *seen = before(p, x, &row), *none = pt2_outermost(p, x, true);
    row = imp_select(im, seen, row, none);
    struct ir_value *top = imp_reduce(im, IR_reduce_max, row, 1, &last, true);
    struct ir_value *zero = imp_like(im, x, 0);
    top = imp_select(im, imp_un(im, IR_isinf, top), zero, top);
    struct ir_value *sum =
        imp_reduce(im, IR_reduce_sum, imp_un(im, IR_exp, imp_bin(im, IR_sub, row, top)), 1, &last, true);
    struct ir_value *y = imp_bin(im, IR_add, imp_un(im, IR_log, sum), top);
    return y && pt2_out(p, 0, to_last(p, imp_squeeze(im, y, 1, &last), axis));
}

/* -- Searches */

/* How many of seq[.., n] lie before each of x[.., m] (`right`: or are equal): where x would be put in. */
static struct ir_value *searched(struct pt2 *p, struct ir_value *seq, struct ir_value *x, bool right)
{
    struct imp *im = p->im;
    int64_t last = x ? imp_rank(x) : 0, row = seq ? imp_rank(seq) - 1 : 0;
    if (!x || !seq)
        return NULL;
    enum tcc_dtype d = pt2_promote(seq, false, x, false);
    seq = imp_cast(im, seq, d);
    struct ir_value *each = imp_unsqueeze(im, imp_cast(im, x, d), 1, &last),
                    *all = row > 0 ? imp_unsqueeze(im, seq, 1, &row) : seq;
    /* As PyTorch's search asks: NaN comes behind all numbers. */
    struct ir_value *lower = imp_un(im, IR_not, imp_bin(im, right ? IR_gt : IR_ge, all, each));
    return imp_reduce(im, IR_reduce_sum, imp_cast(im, lower, TCC_I64), 1, &last, false);
}

/* bucketize(self, boundaries, out_int32, right) */
bool aten_bucketize(struct pt2 *p)
{
    bool number, right = pt2_b(p, "right", false);
    struct ir_value *x = pt2_operand(p, "self", &number), *seq = x ? pt2_need(p, "boundaries") : NULL;
    pt2_ignore(p, "out_int32");
    return seq && pt2_out(p, 0, searched(p, seq, x, right));
}

/* searchsorted(sorted_sequence, self, out_int32, right, side, sorter) */
bool aten_searchsorted(struct pt2 *p)
{
    bool number, right = pt2_b(p, "right", false) || !strcmp(pt2_s(p, "side", "left"), "right");
    struct ir_value *seq = pt2_need(p, "sorted_sequence"), *x = seq ? pt2_operand(p, "self", &number) : NULL,
                    *order = x ? pt2_t(p, "sorter") : NULL;
    pt2_ignore(p, "out_int32");
    if (!x)
        return false;
    if (order)
        seq = imp_gather_elements(p->im, seq, order, imp_rank(seq) - 1);
    return pt2_out(p, 0, searched(p, seq, x, right));
}

/* isin(elements, test_elements, invert): is it one of these? */
bool aten_isin(struct pt2 *p)
{
    struct imp *im = p->im;
    bool number, invert = pt2_b(p, "invert", false);
    struct ir_value *x = pt2_operand(p, pt2_given(p, "elements") ? "elements" : "element", &number);
    struct ir_value *tests =
        x ? pt2_operand(p, pt2_given(p, "test_elements") ? "test_elements" : "test_element", &number) : NULL;
    pt2_ignore(p, "assume_unique");
    if (!tests)
        return false;
    int64_t last = imp_rank(x);
    enum tcc_dtype d = pt2_promote(x, false, tests, false);
    struct ir_value *each = imp_unsqueeze(im, imp_cast(im, x, d), 1, &last);
    struct ir_value *found =
        imp_reduce(im, IR_reduce_max, imp_bin(im, IR_eq, each, pt2_flat(p, imp_cast(im, tests, d))), 1, &last, false);
    return pt2_out(p, 0, invert ? imp_un(im, IR_not, found) : found);
}

/* -- Counts */

/* histc(self, bins, min, max): min == max: those of the data */
bool aten_histc(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *x = pt2_wide_float(p, pt2_need(p, "self"));
    int64_t bins = pt2_i(p, "bins", 100), first = 0, last = 1;
    double low = pt2_f(p, "min", 0), high = pt2_f(p, "max", 0);
    if (!x || bins < 1)
        return false;
    ir_expr count = ir_const(p->ctx, bins);
    x = pt2_flat(p, x);
    struct ir_value *from = imp_like(im, x, low), *to = imp_like(im, x, high);
    if (low == high) { /* and of equal data, one to either side */
        struct ir_value *least = imp_reduce(im, IR_reduce_min, x, 1, &first, false);
        struct ir_value *most = imp_reduce(im, IR_reduce_max, x, 1, &first, false);
        from = imp_formula(im, "select(eq(x, y), x - 1, x)", least, most);
        to = imp_formula(im, "select(eq(x, y), y + 1, y)", least, most);
    }
    struct ir_value *at = imp_formula_n(im, "select(eq(x, z), b, floor((x - y) * a / (z - y)))",
                                        IMP_NUMBERS((double)bins, (double)bins - 1), x, from, to);
    struct ir_value *bin = imp_cast(im, imp_iota(im, 1, &count, 0, TCC_I64), imp_dtype(x));
    bin = imp_unsqueeze(im, bin, 1, &last);
    struct ir_value *hit = imp_formula(im, "and(eq(x, y), and(ge(z, u), le(z, v)))", bin, at, x, from, to);
    return pt2_out(p, 0, imp_reduce(im, IR_reduce_sum, imp_cast(im, hit, imp_dtype(x)), 1, &last, false));
}

/* count_nonzero(self, dim) */
bool aten_count_nonzero(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    int64_t axes[TCC_MAX_RANK];
    int n = x ? pt2_axes(p, "dim", imp_rank(x), axes) : -1;
    return n >= 0 && pt2_out(p, 0,
                             imp_reduce(p->im, IR_reduce_sum, imp_cast(p->im, imp_with(p->im, IR_ne, x, 0), TCC_I64), n,
                                        axes, false));
}

/* nansum, nanmean (arg 1): of what is a number */
bool aten_nan_sum(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *x = pt2_need(p, "self");
    int64_t axes[TCC_MAX_RANK];
    int n = x ? pt2_axes(p, "dim", imp_rank(x), axes) : -1;
    bool keep = pt2_b(p, "keepdim", false);
    enum tcc_dtype d = pt2_out_type(p, 0);
    pt2_ignore(p, "dtype");
    if (n < 0)
        return false;
    struct ir_value *nan =
        imp_is_float(x) ? imp_un(im, IR_isnan, x) : imp_splat(im, TCC_BOOL, 0, imp_rank(x), x->type->dim);
    x = imp_cast(im, x, tcc_small_float(d) ? TCC_F32 : d);
    struct ir_value *sum = imp_reduce(im, IR_reduce_sum, imp_select(im, nan, imp_like(im, x, 0), x), n, axes, keep);
    if (!p->row->arg)
        return pt2_out(p, 0, sum);
    struct ir_value *count =
        imp_reduce(im, IR_reduce_sum, imp_cast(im, imp_un(im, IR_not, nan), x ? imp_dtype(x) : TCC_F32), n, axes, keep);
    return pt2_out(p, 0, imp_bin(im, IR_div, sum, count));
}

/* -- Indices */

/* take(self, index): of the flat tensor */
bool aten_take(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self"), *at = x ? pt2_need(p, "index") : NULL;
    return at && pt2_out(p, 0, imp_gather(p->im, pt2_flat(p, x), at, 0));
}

/* take_along_dim(self, indices, dim): gather of operands that broadcast; with no dim of flat ones */
bool aten_take_along_dim(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *x = pt2_need(p, "self"), *at = x ? pt2_need(p, "indices") : NULL;
    int64_t axis = 0;
    if (!at)
        return false;
    if (!pt2_given(p, "dim")) {
        x = pt2_flat(p, x);
        at = pt2_flat(p, at);
    } else if (imp_rank(x) != imp_rank(at) || !pt2_axis(p, "dim", 0, imp_rank(x), &axis)) {
        return imp_bad(im, "operands of %d and %d dims", imp_rank(x), imp_rank(at));
    }
    ir_expr from[TCC_MAX_RANK], to[TCC_MAX_RANK];
    for (int k = 0; x && at && k < imp_rank(x); k++) {
        bool thin = ir_is_value(imp_dim(x, k), 1);
        from[k] = k == axis || !thin ? imp_dim(x, k) : imp_dim(at, k);
        to[k] = k == axis || !ir_is_value(imp_dim(at, k), 1) ? imp_dim(at, k) : imp_dim(x, k);
    }
    x = x ? imp_expand(im, x, imp_rank(x), from) : NULL;
    at = at ? imp_expand(im, at, imp_rank(at), to) : NULL;
    return pt2_out(p, 0, imp_gather_elements(im, x, at, (int)axis));
}
