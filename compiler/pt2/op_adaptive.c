/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pooling to given sizes: of `in` elements along an axis, window i of `out` ones is floor(i in / out) to ceil((i + 1)
 * in / out), so that windows differ in length and may overlap. Means are products with a matrix; maxima are sought
 * among positions that are gathered, axis by axis, the last one first, so that of equals the first in row-major order
 * wins. Sizes may be open.
 */
#include "compiler/pt2/pt2_int.h"

#define SPATIAL (TCC_MAX_RANK - 2)

/* Of each of `out` windows the first position and the last one, i64[out]. */
struct windows {
    struct ir_value *first, *last;
};

static struct windows windows_of(struct pt2 *p, ir_expr out, ir_expr in)
{
    struct imp *im = p->im;
    struct ir_value *i = imp_iota(im, 1, &out, 0, TCC_I64), *n = imp_dim_value(im, in), *m = imp_dim_value(im, out);
    struct ir_value *begin = imp_bin(im, IR_mul, i, n), *end = imp_bin(im, IR_add, begin, n),
                    *one = imp_int(im, TCC_I64, 1);
    end = imp_bin(im, IR_add, end, imp_bin(im, IR_sub, m, one));
    return (struct windows){imp_bin(im, IR_div, begin, m), imp_bin(im, IR_sub, imp_bin(im, IR_div, end, m), one)};
}

/* -- Means */

/* [out, in], known: 1 / length of the window where it covers the element. */
static struct ir_value *averaging_known(struct pt2 *p, enum tcc_dtype d, int64_t out, int64_t in)
{
    const int64_t dims[] = {out, in};
    struct ir_tensor *t = ir_tensor_new(d, 2, dims);
    uint8_t *at = t ? (uint8_t *)(uintptr_t)t->data : NULL;
    for (int64_t i = 0; t && i < out; i++) {
        int64_t from = i * in / out, to = ((i + 1) * in + out - 1) / out;
        for (int64_t k = from; k < to; k++)
            tcc_store_f64(d, at + (i * in + k) * tcc_dtype_bytes(d), 1 / (double)(to - from));
    }
    return imp_const(p->im, t);
}

static struct ir_value *averaging(struct pt2 *p, enum tcc_dtype d, ir_expr out, ir_expr in)
{
    struct imp *im = p->im;
    int64_t n, m, behind = 1;
    if (ir_is_const(out, &n) && ir_is_const(in, &m))
        return averaging_known(p, d, n, m);
    struct windows w = windows_of(p, out, in);
    if (!w.first || !w.last)
        return NULL;
    struct ir_value *first = imp_unsqueeze(im, w.first, 1, &behind), *last = imp_unsqueeze(im, w.last, 1, &behind);
    struct ir_value *at = imp_iota(im, 1, &in, 0, TCC_I64);
    struct ir_value *length = imp_cast(im, imp_formula(im, "y - x + 1", first, last), d);
    return imp_formula(im, "select(and(ge(y, z), le(y, u)), 1 / x, 0)", length, at, first, last);
}

/* The axis at `axis` multiplied by a matrix [out, in], or by its transpose. */
static struct ir_value *along_axis(struct pt2 *p, struct ir_value *x, int axis, struct ir_value *matrix,
                                   bool transposed)
{
    int64_t perm[TCC_MAX_RANK];
    int last = imp_rank(x) - 1;
    for (int k = 0; k <= last; k++)
        perm[k] = k == axis ? last : k == last ? axis : k;
    struct ir_value *y = imp_matmul(p->im, imp_transpose(p->im, x, perm), matrix, false, !transposed, TCC_NONE);
    return y ? imp_transpose(p->im, y, perm) : NULL;
}

bool aten_adaptive_avg_pool(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    int64_t out, axes[SPATIAL];
    ir_expr sizes[SPATIAL];
    int n = pt2_exprs(p, "output_size", SPATIAL, sizes), ones = 0;
    if (!x || n != p->row->arg || imp_rank(x) < n)
        return false;
    x = imp_wide(p->im, x);
    for (int k = 0; x && k < n; k++) {
        int axis = imp_rank(x) - n + k;
        if (ir_is_const(sizes[k], &out) && out == 1)
            axes[ones++] = axis;
        else if (sizes[k] != imp_dim(x, axis))
            x = along_axis(p, x, axis, averaging(p, imp_dtype(x), sizes[k], imp_dim(x, axis)), false);
    }
    return x && pt2_out(p, 0, imp_mean(p->im, x, ones, axes, true));
}

bool aten_adaptive_avg_pool_backward(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *dy = pt2_need(p, "grad_output"), *x = dy ? pt2_need(p, "self") : NULL;
    if (!x || imp_rank(x) != imp_rank(dy) || imp_rank(x) < arg)
        return false;
    for (int k = 0; dy && k < arg; k++) {
        int axis = imp_rank(x) - arg + k;
        ir_expr in = imp_dim(x, axis), out = imp_dim(dy, axis);
        if (in != out)
            dy = along_axis(p, dy, axis, averaging(p, imp_dtype(dy), out, in), true);
    }
    return pt2_out(p, 0, dy);
}

/* -- Maxima */

/* No window is longer. */
static ir_expr longest(struct pt2 *p, ir_expr out, ir_expr in)
{
    ir_expr by = pt2_divisor(p->ctx, out);
    return by ? ir_min(p->ctx, in, ir_addc(p->ctx, ir_ceildiv(p->ctx, in, by), 1)) : NULL;
}

/* The elements of x where `at` says, whose axis behind `axis` is one long; that axis goes. */
static struct ir_value *chosen(struct pt2 *p, struct ir_value *x, struct ir_value *at, int axis)
{
    int64_t behind = axis + 1;
    struct ir_value *y = imp_gather_elements(p->im, x, at, axis + 1);
    return y ? imp_squeeze(p->im, y, 1, &behind) : NULL;
}

/* Maxima along one axis; *flat is each element's position in the operand, counted along the axes from `axis` on,
 * `inner` in a row. */
static struct ir_value *maxima(struct pt2 *p, struct ir_value *x, int axis, ir_expr out, ir_expr inner,
                               struct ir_value **flat)
{
    struct imp *im = p->im;
    ir_expr in = imp_dim(x, axis), most = longest(p, out, in);
    int64_t behind = 1, window = axis + 1;
    if (!most)
        return imp_unsupported(im, "an output size that may be negative"), NULL;
    struct windows w = windows_of(p, out, in);
    if (!w.first || !w.last)
        return NULL;
    struct ir_value *rows = imp_iota(im, 1, &most, 0, TCC_I64);
    struct ir_value *at = imp_bin(im, IR_add, imp_unsqueeze(im, w.first, 1, &behind), rows);
    at = imp_bin(im, IR_min, at, imp_unsqueeze(im, w.last, 1, &behind)); /* the last one again is no other */
    struct ir_value *all = at ? imp_gather(im, x, at, axis) : NULL;
    struct ir_value *best =
        all ? imp_op(im, IR_argmax, 1, &all, IR_ATTRS(ir_attr_i(IR_ATTR_axis, window), ir_attr_i(IR_ATTR_keepdims, 1)))
            : NULL;
    if (!best)
        return NULL;
    struct ir_value *first = imp_along(im, w.first, axis, imp_rank(x)),
                    *last = imp_along(im, w.last, axis, imp_rank(x));
    struct ir_value *row = imp_bin(im, IR_min, imp_bin(im, IR_add, imp_squeeze(im, best, 1, &window), first), last);
    row = imp_bin(im, IR_mul, row, imp_dim_value(im, inner));
    *flat = *flat ? imp_bin(im, IR_add, row, chosen(p, imp_gather(im, *flat, at, axis), best, axis)) : row;
    return chosen(p, all, best, axis);
}

bool pt2_adaptive_max(struct pt2 *p, struct ir_value *x, int n, const ir_expr *sizes)
{
    struct ir_value *flat = NULL;
    ir_expr inner = ir_const(p->ctx, 1);
    for (int k = n - 1; x && k >= 0; k--) {
        int axis = imp_rank(x) - n + k;
        ir_expr in = imp_dim(x, axis);
        x = maxima(p, x, axis, sizes[k], inner, &flat);
        inner = ir_mul(p->ctx, inner, in);
    }
    return x && pt2_out(p, 0, x) && (!pt2_wants(p, 1) || pt2_out(p, 1, flat));
}

/* Each element's gradient goes to where the maximum was found. */
bool aten_adaptive_max_pool_backward(struct pt2 *p)
{
    int arg = p->row->arg;
    struct imp *im = p->im;
    struct ir_value *dy = pt2_need(p, "grad_output"), *x = dy ? pt2_need(p, "self") : NULL,
                    *index = x ? pt2_need(p, "indices") : NULL;
    ir_expr dims[TCC_MAX_RANK], in = ir_const(p->ctx, 1), out = in;
    if (!index || imp_rank(x) != imp_rank(dy) || imp_rank(index) != imp_rank(dy) || imp_rank(x) < arg)
        return false;
    int front = imp_rank(x) - arg;
    for (int k = 0; k < imp_rank(x); k++) {
        dims[k] = imp_dim(x, k);
        in = k < front ? in : ir_mul(p->ctx, in, dims[k]);
        out = k < front ? out : ir_mul(p->ctx, out, imp_dim(dy, k));
    }
    dims[front] = out;
    struct ir_value *updates = imp_reshape(im, dy, front + 1, dims), *at = imp_reshape(im, index, front + 1, dims);
    dims[front] = in;
    struct ir_value *scatter[] = {imp_splat(im, imp_dtype(dy), 0, front + 1, dims), at, updates};
    if (!scatter[0] || !at || !updates)
        return false;
    struct ir_value *dx = imp_op(im, IR_scatter_elements, 3, scatter,
                                 IR_ATTRS(ir_attr_i(IR_ATTR_axis, front), ir_attr_s(IR_ATTR_mode, "add")));
    return dx && pt2_out(p, 0, imp_reshape(im, dx, imp_rank(x), x->type->dim));
}
