/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions, scans, sorting, softmax. Sums of 16-bit floats are kept in f32. */
#include "compiler/pt2/pt2_int.h"

#include <math.h>

/* The operand in the type in which a reduction computes, and its axes. */
struct reduced {
    struct ir_value *x;
    int n;
    int64_t axes[TCC_MAX_RANK];
    bool keep;
};

static bool read_reduced(struct pt2 *p, enum tcc_dtype type, struct reduced *r)
{
    bool prims = pt2_given(p, "inp"); /* the names that PyTorch's primitives have */
    r->x = pt2_need(p, prims ? "inp" : "self");
    r->n = r->x ? pt2_axes(p, prims ? "dims" : "dim", imp_rank(r->x), r->axes) : -1;
    pt2_ignore(p, "output_dtype");
    r->keep = pt2_b(p, "keepdim", false);
    if (r->n < 0)
        return false;
    if (type != TCC_NONE)
        r->x = imp_cast(p->im, r->x, type);
    return r->x != NULL;
}

/* There is no extreme of no elements. */
bool pt2_some(struct pt2 *p, const struct ir_value *x, int n, const int64_t *axes)
{
    ir_expr count = ir_const(p->ctx, 1);
    for (int k = 0; k < n; k++)
        count = ir_mul(p->ctx, count, imp_dim(x, (int)axes[k]));
    if (ir_is_value(count, 0))
        return imp_unsupported(p->im, "no elements, of which there is no extreme");
    return imp_assume(p->im, IR_LE, ir_const(p->ctx, 1), count, "there is no extreme of no elements");
}

static enum tcc_dtype wide(enum tcc_dtype d)
{
    return tcc_small_float(d) ? TCC_F32 : d;
}

/* sum, prod: in the result's type. */
bool aten_reduce(struct pt2 *p)
{
    struct reduced r;
    pt2_ignore(p, "dtype");
    return read_reduced(p, wide(pt2_out_type(p, 0)), &r) &&
           pt2_out(p, 0, imp_reduce(p->im, (enum ir_op)p->row->arg, r.x, r.n, r.axes, r.keep));
}

bool aten_mean(struct pt2 *p)
{
    struct reduced r;
    pt2_ignore(p, "dtype");
    return read_reduced(p, wide(pt2_out_type(p, 0)), &r) && pt2_out(p, 0, imp_mean(p->im, r.x, r.n, r.axes, r.keep));
}

/* amax, amin, and max and min of all elements. */
bool aten_extreme(struct pt2 *p)
{
    struct reduced r;
    return read_reduced(p, TCC_NONE, &r) && pt2_some(p, r.x, r.n, r.axes) &&
           pt2_out(p, 0, imp_reduce(p->im, (enum ir_op)p->row->arg, r.x, r.n, r.axes, r.keep));
}

bool aten_any(struct pt2 *p)
{
    struct reduced r;
    return read_reduced(p, TCC_BOOL, &r) &&
           pt2_out(p, 0, imp_reduce(p->im, (enum ir_op)p->row->arg, r.x, r.n, r.axes, r.keep));
}

static struct ir_value *arg_of(struct pt2 *p, enum ir_op op, struct ir_value *x, int64_t axis, bool keep)
{
    if (!x)
        return NULL;
    if (!imp_rank(x))
        return imp_int(p->im, TCC_I64, 0);
    return imp_op(p->im, op, 1, &x, IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis), ir_attr_i(IR_ATTR_keepdims, keep)));
}

/* The element of each row that `at` says, whose the gradient is. */
static struct ir_value *element_at(struct pt2 *p, struct ir_value *x, struct ir_value *at, int64_t axis, bool keep)
{
    struct ir_value *y = imp_gather_elements(p->im, x, at, (int)axis);
    return y && !keep ? imp_squeeze(p->im, y, 1, &axis) : y;
}

/* max.dim, min.dim: values and where they are. In training equal ones have no share: the one whose place is told has
 * all. */
bool aten_extreme_dim(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *x = pt2_need(p, "self");
    int64_t axis;
    bool keep = pt2_b(p, "keepdim", false);
    if (!x || !pt2_axis(p, "dim", 0, imp_rank(x), &axis) || !pt2_some(p, x, imp_rank(x) > 0, &axis))
        return false;
    bool places = pt2_wants(p, 1), taken = p->im->training && imp_is_float(x) && imp_rank(x);
    struct ir_value *at =
        places || taken ? arg_of(p, arg == IR_reduce_max ? IR_argmax : IR_argmin, x, axis, keep || taken) : NULL;
    struct ir_value *y =
        taken ? element_at(p, x, at, axis, keep) : imp_reduce(p->im, (enum ir_op)arg, x, imp_rank(x) > 0, &axis, keep);
    if (taken && at && !keep)
        at = imp_squeeze(p->im, at, 1, &axis);
    return pt2_out(p, 0, y) && (!places || pt2_out(p, 1, at));
}

/* argmax, argmin: along an axis, or of all elements as a vector. */
bool aten_arg(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *x = pt2_need(p, "self");
    int64_t axis = 0;
    bool keep = pt2_b(p, "keepdim", false), all = !pt2_given(p, "dim");
    if (!x || (!all && !pt2_axis(p, "dim", 0, imp_rank(x), &axis)))
        return false;
    int64_t every[TCC_MAX_RANK];
    if (!pt2_some(p, x, all ? imp_axes_from(0, imp_rank(x), every) : imp_rank(x) > 0, all ? every : &axis))
        return false;
    if (!all)
        return pt2_out(p, 0, arg_of(p, (enum ir_op)arg, x, axis, keep));
    ir_expr ones[TCC_MAX_RANK];
    for (int k = 0; k < imp_rank(x); k++)
        ones[k] = ir_const(p->ctx, 1);
    struct ir_value *at = arg_of(p, (enum ir_op)arg, pt2_flat(p, x), 0, false);
    return pt2_out(p, 0, keep && at ? imp_reshape(p->im, at, imp_rank(x), ones) : at);
}

/* -- Variance: `unbiased`, or `correction` elements less */

/* x less the greatest of each row. */
static struct ir_value *below_greatest(struct pt2 *p, const struct reduced *r)
{
    struct imp *im = p->im;
    struct ir_value *greatest = imp_reduce(im, IR_reduce_max, r->x, r->n, r->axes, true);
    return imp_bin(im, IR_sub, r->x, im->train ? imp_un(im, IR_stop_gradient, greatest) : greatest);
}

static struct ir_value *variance(struct pt2 *p, const struct reduced *r, double correction)
{
    struct imp *im = p->im;
    struct ir_value *x = below_greatest(p, r);
    struct ir_value *centred = imp_bin(im, IR_sub, x, imp_mean(im, x, r->n, r->axes, true));
    struct ir_value *sum = imp_reduce(im, IR_reduce_sum, imp_un(im, IR_square, centred), r->n, r->axes, r->keep);
    if (!sum)
        return NULL;
    struct ir_value *n = imp_count(im, r->x, r->n, r->axes, imp_dtype(r->x));
    struct ir_value *count = imp_with(im, IR_sub, n, correction);
    if (correction < 0) /* of no elements it is NaN all the same */
        sum = imp_bin(im, IR_mul, sum, imp_bin(im, IR_div, n, n));
    return imp_bin(im, IR_div, sum, imp_bin(im, IR_max, count, imp_like(im, r->x, 0)));
}

/* arg: 1 the root of it; 2 the mean as well. Of equal elements both are 0 exactly, as in PyTorch (Welford's sums),
 * whose derivative of the root is 0 there: of the 1e-9 that a rounded mean leaves it is some number. */
bool aten_var(struct pt2 *p)
{
    int arg = p->row->arg;
    struct reduced r;
    double correction = pt2_given(p, "unbiased") ? pt2_b(p, "unbiased", true) : pt2_f(p, "correction", 1);
    if (!read_reduced(p, wide(pt2_out_type(p, 0)), &r))
        return false;
    struct ir_value *v = variance(p, &r, correction);
    return pt2_out(p, 0, arg & 1 ? pt2_root(p, v) : v) &&
           (!(arg & 2) || pt2_out(p, 1, imp_mean(p->im, r.x, r.n, r.axes, r.keep)));
}

/* x, which is not negative, to the power of a number; in training without a gradient where it is 0, as PyTorch's norms
 * have none there. */
static struct ir_value *power(struct pt2 *p, struct ir_value *x, double exponent)
{
    struct imp *im = p->im;
    struct ir_value *none = x && im->train ? imp_with(im, IR_eq, x, 0) : NULL;
    struct ir_value *base = none ? imp_select(im, none, imp_like(im, x, 1), x) : x;
    struct ir_value *y = exponent == 0.5 ? imp_un(im, IR_sqrt, base) : imp_with(im, IR_pow, base, exponent);
    return none && y ? imp_select(im, none, imp_like(im, x, exponent > 0 ? 0 : INFINITY), y) : y;
}

struct ir_value *pt2_root(struct pt2 *p, struct ir_value *x)
{
    return power(p, x, 0.5);
}

struct ir_value *pt2_norm(struct pt2 *p, struct ir_value *x, double order, int n, const int64_t *axes, bool keep)
{
    struct imp *im = p->im;
    struct ir_value *a = imp_un(im, IR_abs, x);
    if (!a)
        return NULL;
    if (isinf(order))
        return imp_reduce(im, order > 0 ? IR_reduce_max : IR_reduce_min, a, n, axes, keep);
    if (order == 0)
        return imp_reduce(im, IR_reduce_sum, imp_cast(im, imp_with(im, IR_ne, a, 0), imp_dtype(x)), n, axes, keep);
    if (order == 1)
        return imp_reduce(im, IR_reduce_sum, a, n, axes, keep);
    if (order == 2)
        return pt2_root(p, imp_reduce(im, IR_reduce_sum, imp_un(im, IR_square, x), n, axes, keep));
    struct ir_value *sum = imp_reduce(im, IR_reduce_sum, power(p, a, order), n, axes, keep);
    return power(p, sum, 1 / order);
}

/* linalg_vector_norm(x, ord, dim, keepdim), norm(x, p, dim, keepdim) */
bool aten_norm(struct pt2 *p)
{
    struct reduced r;
    double order = pt2_f(p, p->row->arg ? "p" : "ord", 2);
    pt2_ignore(p, "dtype");
    return read_reduced(p, wide(pt2_out_type(p, 0)), &r) && pt2_out(p, 0, pt2_norm(p, r.x, order, r.n, r.axes, r.keep));
}

bool aten_logsumexp(struct pt2 *p)
{
    struct reduced r;
    return read_reduced(p, wide(pt2_out_type(p, 0)), &r) &&
           pt2_out(p, 0, imp_log_sum_exp(p->im, r.x, r.n, r.axes, r.keep));
}

/* -- Scans */

bool aten_cumulate(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    int64_t axis;
    pt2_ignore(p, "dtype");
    if (!x || !pt2_axis(p, "dim", 0, imp_rank(x), &axis))
        return false;
    x = imp_cast(p->im, x, wide(pt2_out_type(p, 0)));
    return pt2_out(
        p, 0, imp_rank(x) ? imp_op(p->im, (enum ir_op)p->row->arg, 1, &x, IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis))) : x);
}

/* -- Softmax: _softmax(self, dim, half_to_float), softmax.int(self, dim, dtype); arg 1: the logarithm */

bool aten_softmax(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *x = pt2_need(p, "self");
    int64_t axis;
    pt2_ignore(p, "half_to_float", "dtype", "_stacklevel");
    if (!x || !pt2_axis(p, "dim", -1, imp_rank(x), &axis))
        return false;
    x = imp_cast(p->im, x, wide(pt2_out_type(p, 0)));
    if (!imp_rank(x))
        return pt2_out(p, 0, imp_like(p->im, x, !arg));
    return pt2_out(p, 0, imp_softmax(p->im, x, (int)axis, arg));
}

bool aten_safe_softmax(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    int64_t axis;
    pt2_ignore(p, "dtype");
    if (!x || !pt2_axis(p, "dim", -1, imp_rank(x), &axis))
        return false;
    x = imp_cast(p->im, x, wide(pt2_out_type(p, 0)));
    return pt2_out(p, 0, imp_rank(x) ? imp_safe_softmax(p->im, x, (int)axis) : imp_like(p->im, x, 1));
}

/* -- Sorting */

static bool topk(struct pt2 *p, struct ir_value *x, int64_t axis, ir_expr k, bool largest, bool sorted)
{
    struct ir_node *n = imp_topk(p->im, x, axis, k, largest, sorted);
    return n && pt2_out(p, 0, n->out[0]) && pt2_out(p, 1, n->out[1]);
}

bool pt2_alone(struct pt2 *p, struct ir_value *x)
{
    return pt2_out(p, 0, x) && (!pt2_wants(p, 1) || pt2_out(p, 1, imp_int(p->im, TCC_I64, 0)));
}

bool aten_topk(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    int64_t axis;
    ir_expr k = pt2_e(p, "k", 1);
    if (!x || !k || !pt2_axis(p, "dim", -1, imp_rank(x), &axis))
        return false;
    bool largest = pt2_b(p, "largest", true), sorted = pt2_b(p, "sorted", true);
    return imp_rank(x) ? topk(p, x, axis, k, largest, sorted) : pt2_alone(p, x);
}

bool aten_sort(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    int64_t axis;
    bool descending = pt2_b(p, "descending", false);
    pt2_ignore(p, "stable"); /* of equals the lower index is always first */
    if (!x || !pt2_axis(p, "dim", -1, imp_rank(x), &axis))
        return false;
    return imp_rank(x) ? topk(p, x, axis, imp_dim(x, (int)axis), descending, true) : pt2_alone(p, x);
}

bool aten_argsort(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    int64_t axis;
    bool descending = pt2_b(p, "descending", false);
    pt2_ignore(p, "stable");
    if (!x || !pt2_axis(p, "dim", -1, imp_rank(x), &axis))
        return false;
    if (!imp_rank(x))
        return pt2_out(p, 0, imp_int(p->im, TCC_I64, 0));
    struct ir_node *n = imp_topk(p->im, x, axis, imp_dim(x, (int)axis), descending, true);
    return n && pt2_out(p, 0, n->out[1]);
}
