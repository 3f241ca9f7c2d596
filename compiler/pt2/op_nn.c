/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions and pooling, and their backward ops as decompositions write them. */
#include "compiler/pt2/pt2_int.h"

#include <string.h>

#define SPATIAL IMP_SPATIAL

/* A list of one for each spatial axis; one number stands for all of them. */
static bool spatial(struct pt2 *p, const char *name, int n, int64_t otherwise, int64_t least, int64_t *out)
{
    int given = pt2_ints(p, name, SPATIAL, out);
    if (given < -1 || (given > 1 && given != n))
        return imp_bad(p->im, "%s has %d values for %d axes", name, given, n);
    for (int k = n - 1; k >= 0; k--) {
        out[k] = given <= 0 ? otherwise : given == 1 ? out[0] : out[k];
        if (out[k] < least || out[k] > INT32_MAX)
            return imp_bad(p->im, "%s has the value %lld", name, (long long)out[k]);
    }
    return true;
}

/* A window, and the padding that is declared, the same at both ends. */
struct window {
    struct imp_window of;
    int64_t pads[SPATIAL];
};

static bool read_window(struct pt2 *p, int n, struct window *w)
{
    const char *kind;
    w->of.n = n;
    if (n < 1 || n > SPATIAL || !spatial(p, "stride", n, 1, 1, w->of.strides) ||
        !spatial(p, "dilation", n, 1, 1, w->of.dilations))
        return false;
    json_t *padding = pt2_arg(p, "padding", &kind);
    const char *how = json_string_value(padding);
    if (!how && !spatial(p, "padding", n, 0, 0, w->pads))
        return false;
    for (int k = 0; k < n; k++) {
        int64_t all = how && !strcmp(how, "same") ? (w->of.kernel[k] - 1) * w->of.dilations[k] : 0;
        w->of.open[k] = NULL;
        w->of.before[k] = ir_const(p->ctx, how ? all / 2 : w->pads[k]);
        w->of.after[k] = ir_const(p->ctx, how ? all - all / 2 : w->pads[k]);
    }
    return true;
}

/* -- Convolution */

static bool kernel_of(struct pt2 *p, const struct ir_value *w, struct window *win)
{
    for (int k = 0; k < imp_rank(w) - 2; k++) {
        if (!ir_is_const(imp_dim(w, k + 2), &win->of.kernel[k]))
            return imp_open_size(p->im, imp_dim(w, k + 2), NULL, "a kernel whose size is known only at run time");
    }
    return true;
}

static bool transposed_shape(struct pt2 *p, const struct window *w, const struct ir_value *x, ir_expr *shape)
{
    int64_t extra[SPATIAL];
    if (!spatial(p, "output_padding", w->of.n, 0, 0, extra))
        return false;
    for (int k = 0; k < w->of.n; k++)
        shape[k] = ir_addc(p->ctx, ir_mulc(p->ctx, ir_addc(p->ctx, imp_dim(x, k + 2), -1), w->of.strides[k]),
                           extra[k] + (w->of.kernel[k] - 1) * w->of.dilations[k] + 1 - 2 * w->pads[k]);
    return true;
}

/* Each channel by itself, as many as only the run knows: the sum over a window's places of what stands there, each
 * times the channels' weights [c, 1, ...]. */
static struct ir_value *each_channel(struct pt2 *p, const struct imp_window *win, struct ir_value *x,
                                     struct ir_value *w, struct ir_value *bias)
{
    struct imp *im = p->im;
    int64_t places, axis = 1;
    struct ir_value **at = imp_places(im, win, x, &places), *sum = bias ? imp_along(im, bias, 1, imp_rank(x)) : NULL;
    const ir_expr flat[] = {imp_dim(w, 0), ir_const(p->ctx, places)}, one = ir_const(p->ctx, 1);
    struct ir_value *weights = at ? imp_reshape(im, w, 2, flat) : NULL;
    for (int64_t k = 0; weights && k < places; k++) {
        struct ir_value *row = imp_slice1(im, weights, 1, ir_const(p->ctx, k), one);
        row = row ? imp_along(im, imp_squeeze(im, row, 1, &axis), 1, imp_rank(x)) : NULL;
        struct ir_value *here = imp_bin(im, IR_mul, at[k], row);
        sum = sum ? imp_bin(im, IR_add, sum, here) : here;
    }
    return weights ? sum : NULL;
}

/* Weights for each channel of x alone, as many as only the run knows? */
static bool is_each_channel(struct pt2 *p, const struct ir_value *x, const struct ir_value *w)
{
    ir_expr groups = pt2_e(p, "groups", 1);
    return groups && !ir_is_const(groups, NULL) && imp_rank(w) > 2 &&
           ir_expr_eq(p->ctx, groups, imp_dim(x, 1)) == IR_YES && ir_expr_eq(p->ctx, groups, imp_dim(w, 0)) == IR_YES &&
           ir_expr_eq(p->ctx, imp_dim(w, 1), ir_const(p->ctx, 1)) == IR_YES;
}

/* convolution, conv1d..3d; conv_transpose1d..3d (arg 1). Without a batch, one of 1. */
bool aten_conv(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "input"), *w = x ? pt2_need(p, "weight") : NULL, *y;
    /* Of the four products of complex numbers two have it, a part each. */
    struct ir_value *bias = w && p->part[0] != PT2_IMAGINARY ? pt2_t(p, "bias") : NULL;
    struct window win;
    ir_expr shape[SPATIAL];
    int64_t front = 0;
    bool transposed = p->row->arg || pt2_b(p, "transposed", false), single = w && imp_rank(x) == imp_rank(w) - 1;
    x = single ? imp_unsqueeze(p->im, x, 1, &front) : x;
    bool each = w && x && !transposed && is_each_channel(p, x, w);
    int64_t groups = each ? 1 : pt2_i(p, "groups", 1);
    if (!w || groups < 1)
        return false;
    if (!x || imp_rank(x) != imp_rank(w) || !kernel_of(p, w, &win) || !read_window(p, imp_rank(w) - 2, &win))
        return false;
    if (transposed) {
        y = transposed_shape(p, &win, x, shape) ? imp_convolve_transposed(p->im, &win.of, x, w, bias, groups, shape)
                                                : NULL;
    } else {
        pt2_ignore(p, "output_padding");
        y = each ? each_channel(p, &win.of, x, w, bias)
                 : imp_convolve(p->im, &win.of, x, w, bias, groups, imp_dtype(x));
    }
    return y && pt2_out(p, 0, single ? imp_squeeze(p->im, y, 1, &front) : y);
}

/* By operand, weight and bias, as output_mask asks. */
bool aten_convolution_backward(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *dy = pt2_need(p, "grad_output"), *x = dy ? pt2_need(p, "input") : NULL,
                    *w = x ? pt2_need(p, "weight") : NULL;
    struct window win;
    int64_t groups = pt2_i(p, "groups", 1), axes[TCC_MAX_RANK];
    bool transposed = pt2_b(p, "transposed", false);
    pt2_ignore(p, "bias_sizes", "output_padding", "output_mask");
    if (!w || !kernel_of(p, w, &win) || !read_window(p, imp_rank(w) - 2, &win))
        return false;
    struct ir_value *pair[] = {transposed ? dy : x, transposed ? x : dy};
    if (pt2_wants(p, 0) &&
        !pt2_out(p, 0,
                 transposed ? imp_convolve(p->im, &win.of, dy, w, NULL, groups, imp_dtype(dy))
                            : imp_convolve_transposed(p->im, &win.of, dy, w, NULL, groups, x->type->dim + 2)))
        return false;
    if (pt2_wants(p, 1) && !pt2_out(p, 1,
                                    imp_op(im, IR_conv_grad_weight, 2, pair,
                                           IR_ATTRS(IMP_WINDOW(&win.of), ir_attr_i(IR_ATTR_groups, groups),
                                                    ir_attr_exprs(IR_ATTR_shape, win.of.n, w->type->dim + 2),
                                                    ir_attr_dtype(IR_ATTR_to, imp_dtype(w))))))
        return false;
    axes[0] = 0;
    for (int k = 2; k < imp_rank(dy); k++)
        axes[k - 1] = k;
    return !pt2_wants(p, 2) || pt2_out(p, 2, imp_reduce(im, IR_reduce_sum, dy, imp_rank(dy) - 1, axes, false));
}

/* -- Pooling */

/* kernel_size, stride (by default the kernel's), padding, dilation, ceil_mode; a batch is put in front where there is
 * none (*single). */
static struct ir_value *read_pool(struct pt2 *p, const char *operand, int n, struct window *w, bool *single)
{
    struct ir_value *x = pt2_need(p, operand);
    int64_t given[SPATIAL], front = 0;
    if (!x || !spatial(p, "kernel_size", n, 1, 1, w->of.kernel) || !read_window(p, n, w))
        return NULL;
    if (pt2_ints(p, "stride", SPATIAL, given) <= 0)
        memcpy(w->of.strides, w->of.kernel, sizeof w->of.strides);
    *single = imp_rank(x) == n + 1;
    x = *single ? imp_unsqueeze(p->im, x, 1, &front) : x;
    if (!x || imp_rank(x) != n + 2)
        return x ? (imp_bad(p->im, "%s", ir_type_text(p->ctx, x->type)), NULL) : NULL;
    if (pt2_b(p, "ceil_mode", false))
        imp_ceil_pads(p->im, x, &w->of);
    return x;
}

static struct ir_value *without_batch(struct pt2 *p, struct ir_value *y, bool single)
{
    return y && single ? imp_squeeze(p->im, y, 1, (const int64_t[]){0}) : y;
}

/* max_poolNd and max_poolNd_with_indices; arg: spatial axes. */
bool aten_max_pool(struct pt2 *p)
{
    struct window w;
    bool single;
    struct ir_value *x = read_pool(p, "self", p->row->arg, &w, &single);
    if (!x || !pt2_out(p, 0, without_batch(p, imp_pool(p->im, IR_max_pool, x, &w.of, NULL), single)))
        return false;
    return !pt2_wants(p, 1) ||
           pt2_out(p, 1, without_batch(p, imp_pool(p->im, IR_max_pool_index, x, &w.of, NULL), single));
}

bool aten_max_pool_backward(struct pt2 *p)
{
    int arg = p->row->arg;
    struct window w;
    bool single;
    struct ir_value *x = read_pool(p, "self", arg, &w, &single), *dy = x ? pt2_need(p, "grad_output") : NULL,
                    *index = dy ? pt2_need(p, "indices") : NULL;
    if (!index)
        return false;
    struct ir_value *in[] = {single ? imp_to_rank(p->im, dy, arg + 2) : dy,
                             single ? imp_to_rank(p->im, index, arg + 2) : index};
    struct ir_value *dx = imp_op(p->im, IR_max_pool_grad, 2, in,
                                 IR_ATTRS(ir_attr_ints(IR_ATTR_kernel, w.of.n, w.of.kernel), IMP_WINDOW(&w.of),
                                          ir_attr_exprs(IR_ATTR_shape, w.of.n, x->type->dim + 2)));
    return pt2_out(p, 0, without_batch(p, dx, single));
}

/* How many elements each window divides by: those in the operand, or in it and its declared padding; what ceil_mode
 * adds never counts. */
static struct ir_value *counts(struct pt2 *p, const struct window *w, const struct ir_value *x, bool padding)
{
    struct window all = *w;
    ir_expr dims[TCC_MAX_RANK] = {ir_const(p->ctx, 1), ir_const(p->ctx, 1)};
    for (int k = 0; k < w->of.n; k++) {
        int64_t pad = padding ? w->pads[k] : 0;
        dims[k + 2] = ir_addc(p->ctx, imp_dim(x, k + 2), 2 * pad);
        all.of.before[k] = ir_addc(p->ctx, w->of.before[k], -pad);
        all.of.after[k] = ir_max(p->ctx, ir_addc(p->ctx, w->of.after[k], -pad), ir_const(p->ctx, 0));
    }
    return imp_pool(p->im, IR_avg_pool, imp_splat(p->im, imp_dtype(x), 1, w->of.n + 2, dims), &all.of, "sum");
}

static bool divides_simply(struct pt2 *p, bool *padding, double *divisor)
{
    *padding = pt2_b(p, "count_include_pad", true);
    *divisor = pt2_f(p, "divisor_override", 0);
    return *divisor == 0 && !(pt2_b(p, "ceil_mode", false) && *padding);
}

bool aten_avg_pool(struct pt2 *p)
{
    struct window w;
    bool single, padding;
    double divisor;
    struct ir_value *x = read_pool(p, "self", p->row->arg, &w, &single), *y;
    if (!x)
        return false;
    if (divides_simply(p, &padding, &divisor)) {
        y = imp_pool(p->im, IR_avg_pool, x, &w.of, padding ? "full" : "valid");
    } else {
        struct ir_value *wide = imp_wide(p->im, x);
        struct ir_value *by = divisor != 0 ? imp_like(p->im, wide, divisor) : counts(p, &w, wide, padding);
        y = imp_bin(p->im, IR_div, imp_pool(p->im, IR_avg_pool, wide, &w.of, "sum"), by);
    }
    return pt2_out(p, 0, without_batch(p, y, single));
}

bool aten_avg_pool_backward(struct pt2 *p)
{
    int arg = p->row->arg;
    struct window w;
    bool single, padding;
    double divisor;
    struct ir_value *x = read_pool(p, "self", arg, &w, &single), *dy = x ? pt2_need(p, "grad_output") : NULL;
    if (!dy)
        return false;
    dy = single ? imp_to_rank(p->im, dy, arg + 2) : dy;
    divides_simply(p, &padding, &divisor);
    dy = imp_bin(p->im, IR_div, dy, divisor != 0 ? imp_like(p->im, dy, divisor) : counts(p, &w, x, padding));
    struct ir_value *dx = dy ? imp_op(p->im, IR_sum_pool_grad, 1, &dy,
                                      IR_ATTRS(ir_attr_ints(IR_ATTR_kernel, w.of.n, w.of.kernel), IMP_WINDOW(&w.of),
                                               ir_attr_exprs(IR_ATTR_shape, w.of.n, x->type->dim + 2)))
                             : NULL;
    return pt2_out(p, 0, without_batch(p, dx, single));
}

/* Max pooling to given sizes: where they divide the operand's, as usual pooling. */
bool aten_adaptive_max_pool(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *x = pt2_need(p, "self");
    struct window w = {.of.n = arg};
    ir_expr sizes[SPATIAL];
    int64_t out, in, front = 0;
    if (!x || pt2_exprs(p, "output_size", SPATIAL, sizes) != arg || imp_rank(x) < arg)
        return false;
    bool single = imp_rank(x) == arg + 1;
    x = single ? imp_unsqueeze(p->im, x, 1, &front) : x;
    for (int k = 0; x && k < arg; k++) {
        if (!ir_is_const(sizes[k], &out) || !ir_is_const(imp_dim(x, k + 2), &in) || out < 1 || in % out)
            return pt2_adaptive_max(p, pt2_need(p, "self"), arg, sizes);
        w.of.kernel[k] = w.of.strides[k] = in / out;
        w.of.dilations[k] = 1;
        w.of.before[k] = w.of.after[k] = ir_const(p->ctx, 0);
    }
    if (!x || !pt2_out(p, 0, without_batch(p, imp_pool(p->im, IR_max_pool, x, &w.of, NULL), single)))
        return false;
    return !pt2_wants(p, 1) ||
           pt2_out(p, 1, without_batch(p, imp_pool(p->im, IR_max_pool_index, x, &w.of, NULL), single));
}
