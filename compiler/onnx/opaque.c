/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Axes, steps and the like that are known only at run time, for operands of known rank.
 *
 * The trick is the same everywhere: a list of axes becomes a mask over all axes (`scatter` into a vector of the rank's
 * length), the sizes of the result are computed from it by ordinary integer ops, and bound to fresh symbols. No library
 * op is needed, and every pass and target sees plain moves.
 */
#include "compiler/onnx/import_int.h"

/* `values` (or 1s) placed at `axes` (negative ones count from the end) in a vector [rank] of `otherwise`. */
static struct ir_value *at_axes(struct imp *im, struct ir_value *axes, struct ir_value *values, int rank,
                                struct ir_value *otherwise)
{
    ir_expr one = ir_const(im->ctx, 1);
    axes = imp_cast(im, axes, TCC_I64);
    if (!axes || !otherwise || !imp_check_values(im, axes, -rank, rank - 1))
        return NULL;
    if (!imp_rank(axes))
        axes = imp_reshape(im, axes, 1, &one);
    struct ir_value *index = imp_bin(im, IR_mod, axes, imp_int(im, TCC_I64, rank ? rank : 1));
    if (!index)
        return NULL;
    if (!values)
        values = imp_splat(im, TCC_I64, 1, 1, index->type->dim);
    ir_expr n = ir_const(im->ctx, rank);
    struct ir_value *in[] = {imp_expand(im, otherwise, 1, &n), index, imp_cast(im, values, TCC_I64)};
    return imp_op(im, IR_scatter_elements, 3, in,
                  IR_ATTRS(ir_attr_i(IR_ATTR_axis, 0), ir_attr_s(IR_ATTR_mode, "none")));
}

static struct ir_value *mask_of(struct imp *im, struct ir_value *axes, int rank)
{
    return imp_cast(im, at_axes(im, axes, NULL, rank, imp_int(im, TCC_I64, 0)), TCC_BOOL);
}

/* How many axes a run-time list has, if that is known. */
static int count_of(struct imp *im, const struct ir_value *axes)
{
    int64_t n = 1;
    if (!axes || imp_rank(axes) > 1 || imp_rank(axes) < 0 ||
        (imp_rank(axes) == 1 && !ir_is_const(imp_dim(axes, 0), &n)))
        return imp_open_size(im, axes && imp_rank(axes) == 1 ? imp_dim(axes, 0) : NULL, NULL,
                             "how many axes there are is known only at run time"),
               -1;
    return (int)n;
}

/* The positions where `mask` is false, in order: i64[n]. */
static struct ir_value *unmasked(struct imp *im, struct ir_value *mask, int rank, int n)
{
    ir_expr r = ir_const(im->ctx, rank);
    struct ir_value *rank_value = imp_int(im, TCC_I64, rank);
    struct ir_value *product = imp_bin(im, IR_mul, imp_cast(im, mask, TCC_I64), rank_value);
    struct ir_value *key = imp_bin(im, IR_add, imp_iota(im, 1, &r, 0, TCC_I64), product);
    struct ir_node *top = imp_topk(im, key, 0, ir_const(im->ctx, n), false, true);
    return top ? top->out[1] : NULL;
}

static bool reshape_bound(struct imp *im, struct ir_value *x, struct ir_value *shape)
{
    ir_expr dims[TCC_MAX_RANK];
    int n = shape ? imp_bound_exprs(im, shape, TCC_MAX_RANK, 0, IMP_MAX_DIM, dims) : -1;
    return n >= 0 && imp_out(im, 0, imp_reshape(im, x, n, dims));
}

bool imp_squeeze_opaque(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *axes = imp_in(im, 1);
    int n = count_of(im, axes), rank = imp_rank(x);
    if (n < 0)
        return false;
    if (n > rank)
        return imp_bad(im, "%d axes of a tensor with %d dims", n, rank);
    if (n == rank)
        return imp_out(im, 0, imp_reshape(im, x, 0, NULL));
    struct ir_value *kept = unmasked(im, mask_of(im, axes, rank), rank, rank - n);
    return reshape_bound(im, x, imp_gather(im, imp_shape(im, x), kept, 0));
}

/* `n` axes are added: each of the others takes the next dim of x. */
bool imp_unsqueeze_opaque(struct imp *im, int n)
{
    struct ir_value *x = imp_tensor(im, 0);
    int rank = imp_rank(x) + n;
    struct ir_value *mask = mask_of(im, imp_in(im, 1), rank), *one = imp_int(im, TCC_I64, 1);
    struct ir_value *open = imp_bin(im, IR_sub, one, imp_cast(im, mask, TCC_I64));
    struct ir_value *before =
        open ? imp_op(im, IR_cumsum, 1, &open, IR_ATTRS(ir_attr_i(IR_ATTR_axis, 0), ir_attr_i(IR_ATTR_exclusive, 1)))
             : NULL;
    if (!imp_rank(x))
        return before && reshape_bound(im, x, imp_splat(im, TCC_I64, 1, 1, before->type->dim));
    before = imp_bin(im, IR_min, before, imp_int(im, TCC_I64, imp_rank(x) - 1));
    return reshape_bound(im, x, imp_select(im, mask, one, imp_gather(im, imp_shape(im, x), before, 0)));
}

/*
 * Element i goes to the place in the result that its coordinates give without the reduced axes, and is combined there.
 * -> the result; *count: how many elements were combined, i64[].
 */
struct ir_value *imp_reduce_scatter(struct imp *im, struct ir_value *x, struct ir_value *axes, bool keep, enum ir_op op,
                                    struct ir_value **count)
{
    int n = count_of(im, axes), rank = imp_rank(x);
    ir_expr dims[TCC_MAX_RANK], flat = ir_num_elements(im->ctx, x->type);
    int64_t axis = 0;
    if (n < 0)
        return NULL;
    if (n == 0 || !rank)
        return imp_unsupported(im, "axes known only at run time, of a scalar or possibly none"), NULL;
    struct ir_value *mask = mask_of(im, axes, rank), *shape = imp_shape(im, x), *one = imp_int(im, TCC_I64, 1),
                    *zero = imp_int(im, TCC_I64, 0);
    struct ir_value *reduced = imp_select(im, mask, one, shape);
    *count = imp_reduce(im, IR_reduce_prod, imp_select(im, mask, shape, one), 1, &axis, false);
    struct ir_value *stride = reduced ? imp_op(im, IR_cumprod, 1, &reduced,
                                               IR_ATTRS(ir_attr_i(IR_ATTR_axis, 0), ir_attr_i(IR_ATTR_exclusive, 1),
                                                        ir_attr_i(IR_ATTR_reverse, 1)))
                                      : NULL;
    stride = imp_select(im, mask, zero, stride);
    struct ir_value *place = NULL;
    for (int k = 0; k < rank; k++) {
        struct ir_value *s = imp_reshape(
            im, stride ? imp_slice1(im, stride, 0, ir_const(im->ctx, k), ir_const(im->ctx, 1)) : NULL, 0, NULL);
        struct ir_value *part = imp_bin(im, IR_mul, imp_iota(im, rank, x->type->dim, k, TCC_I64), s);
        place = place ? imp_bin(im, IR_add, place, part) : part;
    }
    if (imp_bound_exprs(im, reduced, TCC_MAX_RANK, 0, IMP_MAX_DIM, dims) != rank || !place)
        return NULL;
    ir_expr total = ir_const(im->ctx, 1);
    for (int k = 0; k < rank; k++)
        total = ir_mul(im->ctx, total, dims[k]);
    /* The neutral element of the reduction is that of an empty one. */
    ir_expr none = ir_const(im->ctx, 0);
    struct ir_value *empty = imp_splat(im, imp_dtype(x), 0, 1, &none);
    struct ir_value *neutral = imp_reduce(im, op, empty, 1, &axis, false);
    const char *mode = op == IR_reduce_sum ? "add" : op == IR_reduce_prod ? "mul" : op == IR_reduce_max ? "max" : "min";
    struct ir_value *in[] = {imp_expand(im, neutral, 1, &total), imp_reshape(im, place, 1, &flat),
                             imp_reshape(im, x, 1, &flat)};
    struct ir_value *y =
        imp_op(im, IR_scatter_elements, 3, in, IR_ATTRS(ir_attr_i(IR_ATTR_axis, 0), ir_attr_s(IR_ATTR_mode, mode)));
    if (keep || n > rank)
        return imp_reshape(im, y, rank, dims);
    ir_expr kept[TCC_MAX_RANK];
    struct ir_value *sizes = n == rank ? NULL : imp_gather(im, shape, unmasked(im, mask, rank, rank - n), 0);
    if (n < rank && imp_bound_exprs(im, sizes, TCC_MAX_RANK, 0, IMP_MAX_DIM, kept) < 0)
        return NULL;
    return imp_reshape(im, y, rank - n, kept);
}

bool imp_cumulate_opaque(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *axis = imp_in(im, 1), *y = NULL;
    if (!axis || !imp_rank(x))
        return imp_bad(im, "an axis is expected");
    if (!imp_check_values(im, axis, -imp_rank(x), imp_rank(x) - 1))
        return false;
    struct ir_value *rank_value = imp_int(im, TCC_I64, imp_rank(x));
    axis = imp_bin(im, IR_mod, imp_reshape(im, imp_cast(im, axis, TCC_I64), 0, NULL), rank_value);
    for (int k = 0; k < imp_rank(x); k++) {
        struct ir_value *v =
            imp_op(im, (enum ir_op)im->row->arg, 1, &x,
                   IR_ATTRS(ir_attr_i(IR_ATTR_axis, k), ir_attr_i(IR_ATTR_exclusive, imp_i(im, "exclusive", 0)),
                            ir_attr_i(IR_ATTR_reverse, imp_i(im, "reverse", 0))));
        y = y ? imp_select(im, imp_bin(im, IR_eq, axis, imp_int(im, TCC_I64, k)), v, y) : v;
    }
    return imp_out(im, 0, y);
}

/* first, count and step of every axis as tensors, clamped as ONNX says, then bound. */
bool imp_slice_opaque(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *starts = imp_in(im, 1), *ends = imp_in(im, 2), *axes = imp_in(im, 3),
                    *steps = imp_in(im, 4);
    int rank = imp_rank(x);
    ir_expr first[TCC_MAX_RANK], count[TCC_MAX_RANK], by[TCC_MAX_RANK];
    int n = count_of(im, starts);
    if (n < 0 || !ends)
        return false;
    if (n > rank)
        return imp_bad(im, "%d starts for a tensor with %d dims", n, rank);
    ir_expr few = ir_const(im->ctx, n);
    if (!axes)
        axes = imp_iota(im, 1, &few, 0, TCC_I64);
    struct ir_value *low = imp_int(im, TCC_I64, -IMP_MAX_DIM), *high = imp_int(im, TCC_I64, IMP_MAX_DIM),
                    *zero = imp_int(im, TCC_I64, 0);
    struct ir_value *one = imp_int(im, TCC_I64, 1), *minus = imp_int(im, TCC_I64, -1), *dim = imp_shape(im, x);
    starts = imp_tri(im, IR_clip, imp_cast(im, starts, TCC_I64), low, high);
    ends = imp_tri(im, IR_clip, imp_cast(im, ends, TCC_I64), low, high);
    struct ir_value *start = at_axes(im, axes, starts, rank, zero), *end = at_axes(im, axes, ends, rank, high);
    struct ir_value *step =
        steps ? at_axes(im, axes, imp_tri(im, IR_clip, imp_cast(im, steps, TCC_I64), low, high), rank, one)
              : imp_expand(im, one, 1, (ir_expr[]){ir_const(im->ctx, rank)});
    if (imp_bound_exprs(im, step, TCC_MAX_RANK, -IMP_MAX_DIM, IMP_MAX_DIM, by) < 0)
        return false;
    for (int k = 0; k < rank; k++)
        if (!imp_assume(im, IR_LE, ir_const(im->ctx, 1), ir_max(im->ctx, by[k], ir_mulc(im->ctx, by[k], -1)),
                        "the step along axis %d is 0", k))
            return false;
    struct ir_value *back = imp_bin(im, IR_lt, step, zero);
    struct ir_value *bottom = imp_select(im, back, minus, zero);
    struct ir_value *top = imp_select(im, back, imp_bin(im, IR_sub, dim, one), dim);
    struct ir_value *sum = imp_bin(im, IR_add, start, dim);
    start = imp_select(im, imp_bin(im, IR_lt, start, zero), sum, start);
    struct ir_value *end_counted = imp_bin(im, IR_add, end, dim);
    end = imp_select(im, imp_bin(im, IR_lt, end, zero), end_counted, end);
    start = imp_tri(im, IR_clip, start, bottom, top);
    end = imp_tri(im, IR_clip, end, bottom, top);
    /* count = ceil((end - start) / step), at least 0; the spans have the step's sign or are empty. */
    struct ir_value *span = imp_un(im, IR_abs, imp_bin(im, IR_sub, end, start)), *stride = imp_un(im, IR_abs, step);
    struct ir_value *is_at_most = imp_bin(im, IR_le, end, start);
    struct ir_value *empty = imp_select(im, back, imp_bin(im, IR_ge, end, start), is_at_most);
    struct ir_value *full = imp_bin(im, IR_div, imp_bin(im, IR_sub, imp_bin(im, IR_add, span, stride), one), stride);
    struct ir_value *taken = imp_select(im, empty, zero, full);
    if (imp_bound_exprs(im, start, TCC_MAX_RANK, -1, IMP_MAX_DIM, first) < 0 ||
        imp_bound_exprs(im, taken, TCC_MAX_RANK, 0, IMP_MAX_DIM, count) < 0)
        return false;
    return imp_out(im, 0, imp_slice(im, x, first, count, by));
}

bool imp_pad_opaque(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *pads = imp_in(im, 1), *fill = imp_in(im, 2), *axes = imp_in(im, 3);
    ir_expr front[TCC_MAX_RANK], back[TCC_MAX_RANK];
    const char *mode = imp_s(im, "mode", "constant");
    int n = count_of(im, axes), rank = imp_rank(x);
    if (n < 0)
        return false;
    ir_expr zero = ir_const(im->ctx, 0), half = ir_const(im->ctx, n);
    struct ir_value *none = imp_int(im, TCC_I64, 0);
    if (!pads || count_of(im, pads) != 2 * n)
        return imp_bad(im, "twice as many pads as axes are expected");
    struct ir_value *before = at_axes(im, axes, imp_slice1(im, pads, 0, zero, half), rank, none);
    struct ir_value *after = at_axes(im, axes, imp_slice1(im, pads, 0, half, half), rank, none);
    if (imp_bound_exprs(im, before, TCC_MAX_RANK, 0, IMP_MAX_DIM, front) < 0 ||
        imp_bound_exprs(im, after, TCC_MAX_RANK, 0, IMP_MAX_DIM, back) < 0)
        return false;
    if (fill && imp_rank(fill) == 1)
        fill = imp_reshape(im, fill, 0, NULL);
    return imp_out(im, 0, imp_pad(im, x, mode[0] == 'c' ? fill : NULL, front, back, mode));
}
