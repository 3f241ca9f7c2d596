/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that move elements or ask for shapes: Reshape, Transpose, Concat, Split, Expand, ... */
#include "compiler/onnx/import_int.h"
#include "base/mutant.h"

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
