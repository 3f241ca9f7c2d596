/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling backwards, by the places of the maxima, and pooling by windows that random numbers place. */
#include "compiler/pt2/pt2_int.h"

#define SPATIAL 3

/* The last n axes of x as one. */
static struct ir_value *joined(struct pt2 *p, struct ir_value *x, int n)
{
    ir_expr dims[TCC_MAX_RANK];
    int rank = x ? imp_rank(x) - n : 0;
    for (int k = 0; k < rank; k++)
        dims[k] = imp_dim(x, k);
    if (x)
        dims[rank] = pt2_product(p, x, rank, rank + n);
    return x ? imp_reshape(p->im, x, rank + 1, dims) : NULL;
}

/* max_unpool2d, max_unpool3d (self, indices, output_size, stride, padding): each element where its index says, zeros
 * elsewhere */
bool aten_max_unpool(struct pt2 *p)
{
    int n = p->row->arg;
    struct ir_value *x = pt2_need(p, "self"), *index = x ? pt2_need(p, "indices") : NULL;
    ir_expr sizes[SPATIAL], dims[TCC_MAX_RANK], flat[TCC_MAX_RANK];
    pt2_ignore(p, "stride", "padding");
    if (!index || pt2_exprs(p, "output_size", SPATIAL, sizes) != n || imp_rank(x) < n + 1)
        return index && imp_bad(p->im, "%d sizes, and an operand of %d or %d dims are expected", n, n + 1, n + 2);
    int outer = imp_rank(x) - n;
    flat[outer] = ir_const(p->ctx, 1);
    for (int k = 0; k < imp_rank(x); k++) {
        dims[k] = k < outer ? imp_dim(x, k) : sizes[k - outer];
        if (k < outer)
            flat[k] = dims[k];
        else
            flat[outer] = ir_mul(p->ctx, flat[outer], dims[k]);
    }
    struct ir_value *in[] = {imp_splat(p->im, imp_dtype(x), 0, outer + 1, flat),
                             imp_from_zero(p->im, joined(p, index, n)), joined(p, x, n)};
    struct ir_value *y = in[1] && in[2]
                             ? imp_op(p->im, IR_scatter_elements, 3, in,
                                      IR_ATTRS(ir_attr_i(IR_ATTR_axis, outer), ir_attr_s(IR_ATTR_mode, "none")))
                             : NULL;
    return y && pt2_out(p, 0, imp_reshape(p->im, y, imp_rank(x), dims));
}

/* Where the windows along an axis begin, i64[.., out], from the random numbers u[..]: they lie evenly, shifted by u;
 * the last one ends where the axis does. */
static struct ir_value *starts(struct pt2 *p, struct ir_value *u, ir_expr in, int64_t out, int64_t kernel)
{
    struct imp *im = p->im;
    ir_expr n = ir_const(p->ctx, out), last = ir_addc(p->ctx, in, -kernel);
    int64_t behind = u ? imp_rank(u) : 0;
    if (!u ||
        (last->lo < 0 && !imp_assume(im, IR_LE, ir_const(p->ctx, kernel), in, "the window is no longer than the axis")))
        return NULL;
    struct ir_value *i = imp_iota(im, 1, &n, 0, imp_dtype(u)), *end = imp_dim_value(im, last);
    struct ir_value *step = imp_with(im, IR_div, imp_cast(im, end, imp_dtype(u)), out > 1 ? (double)(out - 1) : 1);
    struct ir_value *shift = imp_unsqueeze(im, u, 1, &behind);
    struct ir_value *at = imp_cast(im, imp_bin(im, IR_mul, imp_bin(im, IR_add, i, shift), step), TCC_I64);
    at = at ? imp_bin(im, IR_sub, at, imp_cast(im, imp_bin(im, IR_mul, shift, step), TCC_I64)) : NULL;
    return imp_select(im, imp_with(im, IR_eq, i, (double)(out - 1)), end, at);
}

/* The row-major numbers of the elements in each window: [b, c, out..., kernel...]. */
static struct ir_value *window_elements(struct pt2 *p, struct ir_value *x, struct ir_value *u, int n,
                                        const int64_t *kernel, const int64_t *out)
{
    struct imp *im = p->im;
    struct ir_value *all = NULL;
    for (int a = 0; a < n; a++) {
        int which = n == 2 ? 1 - a : a; /* of two axes the last one has the first number */
        int64_t last = 2, axes[TCC_MAX_RANK];
        ir_expr taps = ir_const(p->ctx, kernel[a]);
        struct ir_value *number = imp_slice1(im, u, 2, ir_const(p->ctx, which), ir_const(p->ctx, 1));
        struct ir_value *at = starts(p, imp_squeeze(im, number, 1, &last), imp_dim(x, 2 + a), out[a], kernel[a]);
        last = 3;
        struct ir_value *tap = at ? imp_iota(im, 1, &taps, 0, TCC_I64) : NULL;
        at = at ? imp_bin(im, IR_add, imp_unsqueeze(im, at, 1, &last), tap) : NULL;
        int m = 0;
        for (int k = 0; k < 2 * n; k++) /* axis 2 + a and 2 + n + a are this one's */
            if (k != a && k != n + a)
                axes[m++] = 2 + k;
        at = imp_unsqueeze(im, at, m, axes);
        all = all && at ? imp_bin(im, IR_add, imp_bin(im, IR_mul, all, imp_dim_value(im, imp_dim(x, 2 + a))), at) : at;
        if (!all)
            return NULL;
    }
    return all;
}

/* fractional_max_pool2d, fractional_max_pool3d (self, kernel_size, output_size, random_samples[b, c, n]) */
bool aten_fractional_max_pool(struct pt2 *p)
{
    int n = p->row->arg;
    struct imp *im = p->im;
    struct ir_value *x = pt2_need(p, "self"), *u = x ? pt2_need(p, "random_samples") : NULL;
    int64_t kernel[SPATIAL], out[SPATIAL], last = 3, front = 0;
    if (!u || pt2_ints(p, "kernel_size", SPATIAL, kernel) != n || pt2_ints(p, "output_size", SPATIAL, out) != n)
        return false;
    bool single = imp_rank(x) == n + 1;
    x = single ? imp_unsqueeze(im, x, 1, &front) : x;
    if (!x || imp_rank(x) != n + 2 || imp_rank(u) != 3)
        return x && imp_bad(im, "%s, and random samples of %d dims", ir_type_text(p->ctx, x->type), imp_rank(u));
    for (int k = 0; k < n; k++)
        if (kernel[k] < 1 || out[k] < 1)
            return imp_bad(im, "windows of %lld elements, %lld of them", (long long)kernel[k], (long long)out[k]);
    struct ir_value *which = window_elements(p, x, u, n, kernel, out), *flat = joined(p, x, n);
    ir_expr dims[TCC_MAX_RANK];
    which = joined(p, which, n); /* [b, c, out..., kernel] */
    if (!which || !flat)
        return false;
    for (int k = 0; k < 2 + n; k++)
        dims[k] = imp_dim(which, k);
    struct ir_value *values = imp_gather_elements(im, flat, joined(p, which, n + 1), 2);
    values = values ? imp_reshape(im, values, n + 3, which->type->dim) : NULL;
    last = n + 2;
    struct ir_value *best = values ? imp_op(im, IR_argmax, 1, &values,
                                            IR_ATTRS(ir_attr_i(IR_ATTR_axis, last), ir_attr_i(IR_ATTR_keepdims, 1)))
                                   : NULL;
    struct ir_value *y = imp_gather_elements(im, values, best, (int)last),
                    *at = imp_gather_elements(im, which, best, (int)last);
    y = y ? imp_reshape(im, y, n + 2 - single, dims + single) : NULL;
    at = at ? imp_reshape(im, at, n + 2 - single, dims + single) : NULL;
    return pt2_out(p, 0, y) && (!pt2_wants(p, 1) || pt2_out(p, 1, at));
}
