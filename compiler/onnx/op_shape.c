/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that move elements or ask for shapes: Reshape, Transpose, Slice, Concat, Split, Pad, Expand, ... */
#include "compiler/onnx/import_int.h"
#include "base/mutant.h"

#include <string.h>

bool onnx_op_shape(struct imp *im)
{
    struct ir_value *x = imp_in(im, 0);
    if (!x || x->type->kind != IR_T_TENSOR || imp_rank(x) < 0) {
        x = imp_tensor(im, 0);
        return false;
    }
    int64_t rank = imp_rank(x), start = imp_i(im, "start", 0), end = imp_i(im, "end", rank);
    start = start < 0 ? start + rank : start;
    end = end < 0 ? end + rank : end;
    start = start < 0 ? 0 : start > rank ? rank : start;
    end = end < start ? start : end > rank ? rank : end;
    return imp_out(im, 0, imp_dims(im, (int)(end - start), x->type->dim + start));
}

bool onnx_op_size(struct imp *im)
{
    struct ir_value *x = imp_in(im, 0);
    if (!x || x->type->kind != IR_T_TENSOR || imp_rank(x) < 0)
        return imp_tensor(im, 0) && false;
    return imp_out(im, 0, imp_dim_value(im, ir_num_elements(im->ctx, x->type)));
}

/* -- Reshape */

/* The shape operand known only at run time: 0 and -1 are resolved by tensor arithmetic, then its elements are bound. */
static struct ir_value *resolve_shape(struct imp *im, struct ir_value *x, struct ir_value *shape, bool zero_copies)
{
    int64_t axis = 0, n;
    if (!ir_is_const(imp_dim(shape, 0), &n))
        return imp_open_size(im, imp_dim(shape, 0), NULL, "the rank of the result is known only at run time"), NULL;
    struct ir_value *zero = imp_int(im, TCC_I64, 0), *one = imp_int(im, TCC_I64, 1);
    if (zero_copies) {
        ir_expr own[TCC_MAX_RANK];
        if (n > TCC_MAX_RANK)
            return imp_unsupported(im, "more than %d dims", TCC_MAX_RANK), NULL;
        for (int k = 0; k < n; k++)
            own[k] = k < imp_rank(x) ? imp_dim(x, MUTANT(110, k, 0)) : ir_const(im->ctx, -2); /* refused */
        struct ir_value *dims_n = imp_dims(im, (int)n, own);
        shape = imp_select(im, imp_bin(im, IR_eq, shape, zero), dims_n, shape);
    }
    /* One -1 is open; other negative numbers stay, and are refused when they are bound. */
    struct ir_value *open = imp_bin(im, IR_eq, shape, imp_int(im, TCC_I64, -1));
    struct ir_value *count = imp_reduce(im, IR_reduce_sum, imp_cast(im, open, TCC_I64), 1, &axis, false);
    open = imp_bin(im, IR_and, open, imp_bin(im, IR_le, count, one));
    struct ir_value *rest = imp_reduce(im, IR_reduce_prod, imp_select(im, open, one, shape), 1, &axis, false);
    struct ir_value *all = imp_dim_value(im, ir_num_elements(im->ctx, x->type));
    return imp_select(im, open, imp_bin(im, IR_div, all, imp_bin(im, IR_max, rest, one)), shape);
}

/* -1 becomes what is left, 0 the operand's own dim. */
static bool resolve_exprs(struct imp *im, const struct ir_value *x, int n, ir_expr *dims, bool zero_copies)
{
    int open = -1;
    ir_expr total = ir_num_elements(im->ctx, x->type);
    ir_expr rest = ir_const(im->ctx, 1);
    /* Dims that are copied cancel as they are, so that symbolic ones leave nothing to divide. */
    bool cancelled[TCC_MAX_RANK] = {false};
    for (int k = 0; k < n; k++) {
        int64_t v = ir_const_or(dims[k], 1);
        if (v == 0 && zero_copies) {
            if (k >= imp_rank(x))
                return imp_bad(im, "shape has 0 (copy) at %d, but the operand has %d dims", k, imp_rank(x));
            dims[k] = imp_dim(x, k);
            continue;
        }
        if (v < 0) {
            if (v != -1 || open >= 0)
                return imp_bad(im, "shape has %s", v == -1 ? "two dims of -1" : "a negative dim that is not -1");
            open = k;
        }
    }
    if (open < 0)
        return true;
    ir_expr product = ir_const(im->ctx, 1);
    for (int k = 0; k < imp_rank(x); k++)
        cancelled[k] = false;
    for (int k = 0; k < n; k++) {
        if (k == open)
            continue;
        int same = -1;
        for (int j = 0; j < imp_rank(x) && same < 0; j++) {
            if (!cancelled[j] && imp_dim(x, j) == dims[k])
                same = j;
        }
        if (same >= 0)
            cancelled[same] = true;
        else
            product = ir_mul(im->ctx, product, dims[k]);
    }
    for (int k = 0; k < imp_rank(x); k++) {
        if (!cancelled[k])
            rest = ir_mul(im->ctx, rest, imp_dim(x, k));
    }
    int64_t a, b;
    if (ir_is_const(total, &a) && a == 0)
        dims[open] = ir_const(im->ctx, 0);
    else if (ir_is_const(product, &b) && b == 0)
        return imp_bad(im, "shape has -1 beside a dim of 0");
    else if (ir_is_const(product, &b) && ir_is_const(rest, &a) && a % b)
        return imp_bad(im, "%s does not divide into the shape", ir_type_text(im->ctx, x->type));
    else
        dims[open] = ir_floordiv(im->ctx, rest, product);
    return true;
}

static bool reshape_as(struct imp *im, struct ir_value *x, struct ir_value *shape, bool zero_copies)
{
    ir_expr dims[TCC_MAX_RANK];
    if (!x || !shape)
        return false;
    int n = imp_exprs_of(im, shape, TCC_MAX_RANK, dims);
    if (n < 0) {
        if (imp_rank(shape) != 1)
            return imp_bad(im, "a shape of %d dims, expected 1", imp_rank(shape));
        shape = resolve_shape(im, x, imp_cast(im, shape, TCC_I64), zero_copies);
        n = shape ? imp_bound_exprs(im, shape, TCC_MAX_RANK, 0, IMP_MAX_DIM, dims) : -1;
        return n >= 0 && imp_out(im, 0, imp_reshape(im, x, n, dims));
    }
    return resolve_exprs(im, x, n, dims, zero_copies) && imp_out(im, 0, imp_reshape(im, x, n, dims));
}

bool onnx_op_reshape(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    bool zero_copies = !imp_i(im, "allowzero", 0);
    int n;
    if (!x)
        return false;
    if (im->opset >= 5)
        return reshape_as(im, x, x ? imp_tensor(im, 1) : NULL, zero_copies);
    const int64_t *shape = imp_ints(im, "shape", &n);
    return shape ? reshape_as(im, x, imp_i64s(im, n, shape), zero_copies) : imp_bad(im, "no shape is given");
}

bool onnx_op_flatten(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    int64_t axis = imp_i(im, "axis", 1);
    if (!x)
        return false;
    if (axis < 0)
        axis += MUTANT(111, imp_rank(x), imp_rank(x) - 1);
    if (axis < 0 || axis > imp_rank(x))
        return imp_bad(im, "axis %lld of a tensor with %d dims", (long long)axis, imp_rank(x));
    ir_expr dims[2] = {ir_const(im->ctx, 1), ir_const(im->ctx, 1)};
    for (int k = 0; k < imp_rank(x); k++)
        dims[k >= axis] = ir_mul(im->ctx, dims[k >= axis], imp_dim(x, k));
    return imp_out(im, 0, imp_reshape(im, x, 2, dims));
}

/*
 * Squeeze without axes drops every dim of 1. Whether a symbolic one is 1 makes shape versions; where it can't (a size
 * that only the run knows, one version for all sizes), it is not 1 by assumption of the exporters.
 */
bool onnx_op_squeeze(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    int64_t axes[TCC_MAX_RANK];
    if (!x)
        return false;
    int n = imp_axes(im, 1, imp_rank(x), axes);
    if (n == -2)
        return imp_squeeze_opaque(im);
    if (n == -3)
        return false;
    if (n == -1) {
        n = 0;
        for (int k = 0; k < imp_rank(x); k++) {
            bool one = ir_is_value(imp_dim(x, k), 1);
            if (imp_holds(im, TCC_GUARD_EQ, imp_dim(x, k), ir_const(im->ctx, 1), true, &one) && one)
                axes[n++] = k;
            if (im->again)
                return false;
        }
    }
    for (int k = 0; k < n; k++) {
        if (ir_const_or(imp_dim(x, (int)axes[k]), 1) != 1)
            return imp_bad(im, "axis %lld of %s is not 1", (long long)axes[k], ir_type_text(im->ctx, x->type));
    }
    return imp_out(im, 0, imp_squeeze(im, x, n, axes));
}

bool onnx_op_unsqueeze(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    int64_t axes[TCC_MAX_RANK];
    int64_t count;
    int n = 0;
    if (!x)
        return false;
    if (!imp_ints(im, "axes", &n)) {
        struct ir_value *v = imp_tensor(im, 1);
        if (!v || imp_rank(v) > 1)
            return v && imp_bad(im, "axes must be a list");
        if (imp_rank(v) == 1 && !ir_is_const(imp_dim(v, 0), &count))
            return imp_open_size(im, imp_dim(v, 0), NULL, "how many axes there are is known only at run time");
        n = imp_rank(v) ? (int)count : 1;
    }
    if (imp_rank(x) + n > TCC_MAX_RANK)
        return imp_unsupported(im, "more than %d dims", TCC_MAX_RANK);
    int got = imp_axes(im, 1, imp_rank(x) + n, axes);
    if (got == -2)
        return imp_unsqueeze_opaque(im, n);
    return got >= 0 && imp_out(im, 0, imp_unsqueeze(im, x, got, axes));
}

bool onnx_op_transpose(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    int64_t perm[TCC_MAX_RANK];
    bool seen[TCC_MAX_RANK] = {false};
    int n;
    if (!x)
        return false;
    const int64_t *given = imp_ints(im, "perm", &n);
    if (given && n != imp_rank(x))
        return imp_bad(im, "perm has %d axes, the operand %d", n, imp_rank(x));
    for (int k = 0; k < imp_rank(x); k++) {
        perm[k] = given ? given[k] : MUTANT(112, imp_rank(x) - 1 - k, k);
        if (!imp_axis(im, &perm[k], imp_rank(x)))
            return false;
        if (seen[perm[k]])
            return imp_bad(im, "perm lists axis %lld twice", (long long)perm[k]);
        seen[perm[k]] = true;
    }
    return imp_out(im, 0, imp_transpose(im, x, perm));
}

/* The size that an axis of *x, which may be 1, becomes where `want` is asked for, which may be 1 too. Where nothing is
 * known of sizes that only the run has, the larger is the result. */
static ir_expr expanded(struct imp *im, struct ir_value **x, int axis, ir_expr want)
{
    ir_expr own = imp_dim(*x, axis), size;
    switch (imp_joining(im, own, want)) {
    case IMP_EQUAL: return own;
    case IMP_EITHER:
        size = imp_join(im, own, want);
        *x = imp_widen(im, *x, axis, size);
        return *x ? size : NULL;
    default: return ir_is_const(want, NULL) ? want : ir_max(im->ctx, own, want);
    }
}

/* `want`, which the run knows, is 1 or `own`: either way the axis stays as it is. NULL: a message. */
static ir_expr one_or(struct imp *im, int axis, ir_expr want, ir_expr own)
{
    struct ir_ctx *c = im->ctx;
    ir_expr one = ir_const(c, 1), more = ir_addc(c, want, -1), less = ir_sub(c, one, want);
    ir_expr other = ir_min(c, one, ir_max(c, more, less)); /* 0 where it is 1, else 1 */
    return imp_assume(im, IR_EQ, ir_mul(c, other, want), ir_mul(c, other, own),
                      "the operand cannot be expanded along axis %d", axis)
               ? own
               : NULL;
}

/* The result's shape is the broadcast of both: dims of 1 in the shape leave the operand's. */
bool onnx_op_expand(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    ir_expr given[TCC_MAX_RANK], dims[TCC_MAX_RANK];
    int n = x ? imp_bound_exprs(im, imp_in(im, 1), TCC_MAX_RANK, 0, IMP_MAX_DIM, given) : -1;
    if (n < 0)
        return false;
    int rank = n > imp_rank(x) ? n : imp_rank(x);
    for (int k = 0; k < rank; k++) {
        ir_expr own = k >= rank - imp_rank(x) ? imp_dim(x, k - (rank - imp_rank(x))) : ir_const(im->ctx, 1);
        ir_expr want = k >= rank - n ? given[k - (rank - n)] : ir_const(im->ctx, 1);
        if (ir_is_value(want, 1) || own == want)
            dims[k] = own;
        else if (ir_is_value(own, 1))
            dims[k] = want;
        else if (ir_is_const(own, NULL) && ir_is_const(want, NULL))
            return imp_bad(im, "%s cannot be expanded to dim %d of %lld", ir_type_text(im->ctx, x->type), k,
                           (long long)want->value);
        else if (ir_is_const(own, NULL))
            dims[k] = one_or(im, k, want, own);
        else
            dims[k] = expanded(im, &x, k - (rank - imp_rank(x)), want);
        if (!dims[k])
            return false;
    }
    return imp_out(im, 0, imp_expand(im, x, rank, dims));
}

bool onnx_op_tile(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    ir_expr times[TCC_MAX_RANK], wide[TCC_MAX_RANK], dims[TCC_MAX_RANK], split[TCC_MAX_RANK];
    int n = x ? imp_bound_exprs(im, imp_in(im, 1), TCC_MAX_RANK, 0, IMP_MAX_DIM, times) : -1;
    if (n < 0)
        return false;
    int rank = imp_rank(x);
    if (n != rank)
        return imp_bad(im, "%d repeats for a tensor with %d dims", n, rank);
    int m = 0;
    for (int k = 0; k < rank; k++) {
        dims[k] = ir_mul(im->ctx, times[k], imp_dim(x, k));
        if (m + 2 + (rank - k - 1) > TCC_MAX_RANK && !ir_is_value(times[k], 1))
            return imp_unsupported(im, "more than %d dims", TCC_MAX_RANK);
        if (!ir_is_value(times[k], 1)) {
            split[m] = ir_const(im->ctx, 1);
            wide[m++] = times[k];
        }
        split[m] = wide[m] = imp_dim(x, k);
        m++;
    }
    return imp_out(im, 0, imp_reshape(im, imp_expand(im, imp_reshape(im, x, m, split), m, wide), rank, dims));
}

bool onnx_op_concat(struct imp *im)
{
    int n = imp_nin(im);
    struct ir_value **in = IR_NEWN(im->ctx, n + 1, struct ir_value *);
    int64_t axis = imp_i(im, "axis", 1);
    int m = 0;
    for (int k = 0; k < n; k++) {
        if (!(in[m] = imp_tensor(im, k)))
            return false;
        m++;
    }
    return m ? imp_axis(im, &axis, imp_rank(in[0])) && imp_out(im, 0, imp_concat(im, m, in, (int)axis))
             : imp_bad(im, "no operands");
}

/* Sizes by attribute, operand, or equal parts; the last part may be smaller from opset 18 on. */
static bool split_sizes(struct imp *im, struct ir_value *x, int axis, int n, ir_expr *sizes)
{
    int given;
    const int64_t *attr = imp_ints(im, "split", &given);
    if (attr || imp_has(im, 1)) {
        for (int k = 0; attr && k < n && k < given; k++)
            sizes[k] = ir_const(im->ctx, attr[k]);
        if (!attr)
            given = imp_bound_exprs(im, imp_in(im, 1), n, 0, IMP_MAX_DIM, sizes);
        return given == n || (given >= 0 && imp_bad(im, "%d sizes for %d results", given, n));
    }
    int64_t parts = imp_i(im, "num_outputs", n);
    if (parts != n)
        return imp_bad(im, "num_outputs is %lld, but there are %d results", (long long)parts, n);
    ir_expr whole = imp_dim(x, axis),
            each = ir_ceildiv(im->ctx, MUTANT(113, whole, ir_addc(im->ctx, whole, 1 - n)), ir_const(im->ctx, n));
    for (int k = 0; k < n - 1; k++)
        sizes[k] = each;
    sizes[n - 1] = ir_sub(im->ctx, whole, ir_mulc(im->ctx, each, n - 1));
    return ir_const_or(sizes[n - 1], 0) >= 0 ||
           imp_bad(im, "%s cannot be split into %d parts", ir_type_text(im->ctx, x->type), n);
}

bool onnx_op_split(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    int64_t axis = imp_i(im, "axis", 0);
    int n = imp_nout(im);
    ir_expr *sizes = IR_NEWN(im->ctx, n + 1, ir_expr);
    ir_expr at = ir_const(im->ctx, 0);
    if (!x || n < 1 || !imp_axis(im, &axis, imp_rank(x)) || !split_sizes(im, x, (int)axis, n, sizes))
        return false;
    ir_expr total = at, whole = imp_dim(x, (int)axis);
    for (int k = 0; k < n; k++)
        total = ir_add(im->ctx, total, sizes[k]);
    if (ir_is_const(total, NULL) && ir_is_const(whole, NULL) && total != whole)
        return imp_bad(im, "the parts add up to %lld, the axis has %lld", (long long)total->value,
                       (long long)whole->value);
    if (!imp_assume(im, IR_EQ, total, whole, "the parts do not add up to axis %lld", (long long)axis))
        return false;
    for (int k = 0; k < n; k++) {
        if (imp_wants(im, k) && !imp_out(im, k, imp_slice1(im, x, (int)axis, at, sizes[k])))
            return false;
        at = ir_add(im->ctx, at, sizes[k]);
    }
    return true;
}

/* -- Slice */

/* ONNX's clamping of one axis: -> first index taken and how many. `step` is a constant other than 0. */
static void clamp_slice(struct imp *im, ir_expr dim, ir_expr start, ir_expr end, int64_t step, ir_expr *first,
                        ir_expr *count)
{
    struct ir_ctx *c = im->ctx;
    ir_expr zero = ir_const(c, 0);
    ir_expr lo = step > 0 ? zero : ir_const(c, -1), hi = step > 0 ? dim : ir_addc(c, dim, -1);
    ir_expr *both[2] = {&start, &end};
    for (int k = 0; k < 2; k++) {
        ir_expr e = *both[k];
        int64_t v;
        if (ir_is_const(e, &v) && v > IMP_MAX_DIM) {
            *both[k] = hi;
            continue;
        }
        if (ir_is_const(e, &v) && v < -IMP_MAX_DIM) {
            *both[k] = k == 0 && step < 0 ? lo : step < 0 ? lo : zero;
            continue;
        }
        /* e < 0 counts from the end. Symbols can be of either sign: their own bounds tell. */
        if (ir_expr_le(c, zero, e) == IR_YES)
            *both[k] = ir_min(c, e, hi);
        else if (ir_expr_le(c, e, ir_const(c, -1)) == IR_YES)
            *both[k] = ir_max(c, lo, ir_add(c, e, dim));
        else /* (e mod 2^62 moves no value in range): below 0 add the dim, by max(e, min(e + dim, -1) ...) */
            *both[k] = ir_max(
                c, lo,
                ir_min(c, hi,
                       ir_add(c, e, ir_mul(c, dim, ir_max(c, zero, ir_min(c, ir_const(c, 1), ir_sub(c, zero, e)))))));
    }
    if (step > 0) {
        *first = start;
        *count = ir_max(c, zero, ir_ceildiv(c, ir_sub(c, end, start), ir_const(c, step)));
    } else {
        *first = start;
        *count = ir_max(c, zero, ir_ceildiv(c, ir_sub(c, start, end), ir_const(c, -step)));
    }
}

struct slice_operands {
    int n;
    ir_expr starts[TCC_MAX_RANK], ends[TCC_MAX_RANK];
    int64_t axes[TCC_MAX_RANK], steps[TCC_MAX_RANK];
};

static int attr_exprs(struct imp *im, const char *name, ir_expr *out)
{
    int n;
    const int64_t *v = imp_ints(im, name, &n);
    for (int k = 0; v && k < n && k < TCC_MAX_RANK; k++)
        out[k] = ir_const(im->ctx, v[k]);
    return v && n <= TCC_MAX_RANK ? n : -1;
}

/*
 * A list whose length only the run knows (a slice of offsets, say) has as many entries as the other lists; where none
 * says, one, the usual case. The run checks.
 */
static struct ir_value *listed(struct imp *im, struct ir_value *v, const struct ir_value *other, int axes)
{
    int64_t n = 1;
    if (!v || imp_rank(v) != 1 || ir_is_const(imp_dim(v, 0), NULL))
        return v;
    if (axes >= 0)
        n = axes;
    else if (other && imp_rank(other) == 1)
        ir_is_const(imp_dim(other, 0), &n);
    ir_expr count = ir_const(im->ctx, n);
    return imp_reshape(im, v, 1, &count);
}

/* False: refused or wrong, or (with *opaque) axes or steps are known only at run time. */
static bool read_slice(struct imp *im, const struct ir_value *x, struct slice_operands *s, bool *opaque)
{
    int starts, ends, axes = -1, steps = -1;
    if (im->opset < 10) {
        int n = 0;
        const int64_t *a = imp_ints(im, "axes", &n);
        starts = attr_exprs(im, "starts", s->starts);
        ends = attr_exprs(im, "ends", s->ends);
        axes = a && n <= TCC_MAX_RANK ? n : -1;
        for (int k = 0; k < axes; k++)
            s->axes[k] = a[k];
    } else {
        axes = imp_has(im, 3) ? imp_ints_of(im, imp_in(im, 3), TCC_MAX_RANK, s->axes) : -1;
        steps = imp_has(im, 4) ? imp_ints_of(im, imp_in(im, 4), TCC_MAX_RANK, s->steps) : -1;
        *opaque = (imp_has(im, 3) && axes < 0) || (imp_has(im, 4) && steps < 0);
        if (*opaque)
            return false;
        struct ir_value *from = imp_in(im, 1), *to = imp_in(im, 2);
        starts = imp_clipped_exprs(im, listed(im, from, to, axes), TCC_MAX_RANK, s->starts);
        ends = starts < 0 ? -1 : imp_clipped_exprs(im, listed(im, to, from, axes), TCC_MAX_RANK, s->ends);
    }
    s->n = starts;
    if (starts < 0 || ends < 0)
        return false;
    if (ends != starts || (axes >= 0 && axes != starts) || (steps >= 0 && steps != starts) || starts > imp_rank(x))
        return imp_bad(im, "starts, ends, axes and steps differ in length, or are more than the operand's %d dims",
                       imp_rank(x));
    for (int k = 0; k < starts; k++) {
        if (axes < 0)
            s->axes[k] = k;
        if (steps < 0)
            s->steps[k] = 1;
        if (!imp_axis(im, &s->axes[k], imp_rank(x)))
            return false;
        if (!s->steps[k])
            return imp_bad(im, "step 0");
    }
    return true;
}

bool onnx_op_slice(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    struct slice_operands s = {0};
    ir_expr first[TCC_MAX_RANK], count[TCC_MAX_RANK], step[TCC_MAX_RANK];
    bool opaque = false;
    if (!x)
        return false;
    if (!read_slice(im, x, &s, &opaque))
        return opaque && imp_slice_opaque(im);
    for (int k = 0; k < imp_rank(x); k++) {
        first[k] = ir_const(im->ctx, 0);
        count[k] = imp_dim(x, k);
        step[k] = ir_const(im->ctx, 1);
    }
    for (int k = 0; k < s.n; k++) {
        int a = (int)s.axes[k];
        /* A step that leaves the axis at once takes one element: any step as large as the axis is the same. */
        if (s.steps[k] > IMP_MAX_DIM || s.steps[k] < -IMP_MAX_DIM)
            s.steps[k] = s.steps[k] > 0 ? IMP_MAX_DIM : -IMP_MAX_DIM;
        clamp_slice(im, imp_dim(x, a), s.starts[k], s.ends[k], s.steps[k], &first[a], &count[a]);
        step[a] = ir_const(im->ctx, s.steps[k]);
    }
    return imp_out(im, 0, imp_slice(im, x, first, count, step));
}

/* -- Pad */

/* Amounts per axis (axes operand of opset 18), negative ones cut off first. */
static bool pad_by(struct imp *im, struct ir_value *x, struct ir_value *fill, const char *mode, int n,
                   const ir_expr *pads, const int64_t *axes)
{
    struct ir_ctx *c = im->ctx;
    ir_expr before[TCC_MAX_RANK], after[TCC_MAX_RANK], start[TCC_MAX_RANK], size[TCC_MAX_RANK], step[TCC_MAX_RANK];
    ir_expr zero = ir_const(c, 0);
    for (int k = 0; k < imp_rank(x); k++) {
        before[k] = after[k] = start[k] = zero;
        size[k] = imp_dim(x, k);
        step[k] = ir_const(c, 1);
    }
    for (int k = 0; k < n; k++) {
        int a = (int)axes[k];
        ir_expr cut_front = ir_max(c, zero, ir_mulc(c, pads[k], -1)),
                cut_back = ir_max(c, zero, ir_mulc(c, pads[k + n], -1));
        before[a] = ir_max(c, zero, pads[k]);
        after[a] = ir_max(c, zero, pads[k + n]);
        start[a] = cut_front;
        size[a] = ir_sub(c, size[a], ir_add(c, cut_front, cut_back));
        if (ir_const_or(size[a], 0) < 0)
            return imp_bad(im, "pads cut more from axis %d than it has", a);
    }
    return imp_out(im, 0, imp_pad(im, imp_slice(im, x, start, size, step), fill, before, after, mode));
}

/* `arg`: 1 is com.microsoft's, whose pads are an operand in its only version, of one dim or [1, n]. */
bool onnx_op_pad(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *fill = NULL, *by;
    const char *mode = imp_s(im, "mode", "constant");
    ir_expr pads[2 * TCC_MAX_RANK];
    int64_t axes[TCC_MAX_RANK];
    int n, naxes = -1;
    if (!x)
        return false;
    if (strcmp(mode, "constant") && strcmp(mode, "edge") && strcmp(mode, "reflect") && strcmp(mode, "wrap"))
        return imp_bad(im, "mode '%s'; constant, edge, reflect or wrap is expected", mode);
    bool constant = !strcmp(mode, "constant");
    if (im->opset < 11 && !im->row->arg) {
        const int64_t *given = imp_ints(im, "pads", &n);
        if (!given || n != 2 * imp_rank(x))
            return imp_bad(im, "%d pads for a tensor with %d dims", n, imp_rank(x));
        for (int k = 0; k < n; k++)
            pads[k] = ir_const(im->ctx, given[k]);
        if (imp_attr(im, "value"))
            fill = imp_like(im, x, imp_f(im, "value", 0));
    } else {
        naxes = imp_has(im, 3) ? imp_ints_of(im, imp_in(im, 3), TCC_MAX_RANK, axes) : -1;
        if (imp_has(im, 3) && naxes < 0)
            return imp_pad_opaque(im);
        by = imp_in(im, 1);
        if (by && imp_rank(by) == 2 && ir_is_value(imp_dim(by, 0), 1))
            by = imp_reshape(im, by, 1, by->type->dim + 1);
        n = imp_bound_exprs(im, by, 2 * TCC_MAX_RANK, -IMP_MAX_DIM, IMP_MAX_DIM, pads);
        fill = imp_in(im, 2);
        if (n < 0)
            return false;
    }
    if (naxes < 0) {
        for (int k = 0; k < imp_rank(x); k++)
            axes[k] = k;
        naxes = imp_rank(x);
    }
    if (n != 2 * naxes)
        return imp_bad(im, "%d pads for %d axes", n, naxes);
    for (int k = 0; k < naxes; k++) {
        if (!imp_axis(im, &axes[k], imp_rank(x)))
            return false;
    }
    if (fill && imp_rank(fill) == 1)
        fill = imp_reshape(im, fill, 0, NULL);
    return pad_by(im, x, constant ? fill : NULL, mode, naxes, pads, axes);
}

/* -- Space and depth */

bool onnx_op_depth_to_space(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    int64_t b = imp_i(im, "blocksize", 0);
    const char *mode = imp_s(im, "mode", "DCR");
    if (!x)
        return false;
    if (imp_rank(x) != 4 || b < 1)
        return imp_bad(im, "a tensor with 4 dims and a positive blocksize are expected");
    struct ir_ctx *c = im->ctx;
    ir_expr e = ir_const(c, b), depth = ir_floordiv(c, imp_dim(x, 1), ir_const(c, b * b)), h = imp_dim(x, 2),
            w = imp_dim(x, 3);
    bool crd = !strcmp(mode, "CRD");
    ir_expr six[6] = {imp_dim(x, 0), crd ? depth : e, e, crd ? e : depth, h, w};
    int64_t perm[6] = {0, crd ? 1 : 3, 4, crd ? 2 : 1, 5, crd ? 3 : 2};
    ir_expr out[4] = {imp_dim(x, 0), depth, ir_mul(c, h, e), ir_mul(c, w, e)};
    return imp_out(im, 0, imp_reshape(im, imp_transpose(im, imp_reshape(im, x, 6, six), perm), 4, out));
}

bool onnx_op_space_to_depth(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    int64_t b = imp_i(im, "blocksize", 0);
    if (!x)
        return false;
    if (imp_rank(x) != 4 || b < 1)
        return imp_bad(im, "a tensor with 4 dims and a positive blocksize are expected");
    struct ir_ctx *c = im->ctx;
    ir_expr e = ir_const(c, b), h = ir_floordiv(c, imp_dim(x, 2), e), w = ir_floordiv(c, imp_dim(x, 3), e);
    ir_expr six[6] = {imp_dim(x, 0), imp_dim(x, 1), h, e, w, e};
    static const int64_t dcr[6] = {0, 3, 5, 1, 2, 4}, crd[6] = {0, 1, 3, 5, 2, 4};
    const int64_t *perm = strcmp(imp_s(im, "mode", "DCR"), "CRD") ? dcr : crd;
    ir_expr out[4] = {imp_dim(x, 0), ir_mulc(c, imp_dim(x, 1), b * b), h, w};
    return imp_out(im, 0, imp_reshape(im, imp_transpose(im, imp_reshape(im, x, 6, six), perm), 4, out));
}
