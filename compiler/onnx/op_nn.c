/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions, pooling. Normalisations are in op_norm.c. */
#include "compiler/onnx/import_int.h"
#include "base/mutant.h"

#include <string.h>

#define SPATIAL IMP_SPATIAL

static bool read_list(struct imp *im, const char *name, int n, int64_t otherwise, int64_t least, int64_t *out)
{
    int given;
    const int64_t *v = imp_ints(im, name, &given);
    if (v && given != n)
        return imp_bad(im, "%s has %d values for %d spatial axes", name, given, n);
    for (int k = 0; k < n; k++) {
        out[k] = v ? v[k] : otherwise;
        if (out[k] < least || out[k] > INT32_MAX)
            return imp_bad(im, "%s has the value %lld", name, (long long)out[k]);
    }
    return true;
}

/* auto_pad SAME: the result has ceil(in / stride) elements; an odd pad more goes behind (UPPER) or in front (LOWER). */
static void same_pads(struct imp *im, const struct ir_value *x, struct imp_window *w, int k, bool lower)
{
    struct ir_ctx *c = im->ctx;
    ir_expr in = imp_dim(x, k + 2), stride = ir_const(c, w->strides[k]);
    ir_expr out = ir_ceildiv(c, in, stride);
    ir_expr need = ir_sub(c, ir_add(c, ir_mul(c, ir_addc(c, out, -1), stride), imp_reach(im, w, k)), in);
    need = ir_max(c, ir_const(c, 0), need);
    ir_expr half = ir_floordiv(c, need, ir_const(c, MUTANT(115, 2, 1)));
    w->before[k] = lower ? ir_sub(c, need, half) : half;
    w->after[k] = lower ? half : ir_sub(c, need, half);
}

static bool same(struct imp *im, const char *which)
{
    return !strcmp(imp_s(im, "auto_pad", "NOTSET"), which);
}

/* Reads strides, dilations and pads; the kernel's extents are known already. */
static bool read_window(struct imp *im, const struct ir_value *x, struct imp_window *w)
{
    int given;
    const int64_t *pads = imp_ints(im, "pads", &given);
    const char *how = imp_s(im, "auto_pad", "NOTSET");
    if (!read_list(im, "strides", w->n, 1, 1, w->strides) || !read_list(im, "dilations", w->n, 1, 1, w->dilations))
        return false;
    if (pads && given != 2 * w->n)
        return imp_bad(im, "pads has %d values for %d spatial axes", given, w->n);
    for (int k = 0; k < w->n; k++) {
        bool use = pads && (!*how || !strcmp(how, "NOTSET"));
        if (use && (pads[k] < 0 || pads[k + w->n] < 0))
            return imp_unsupported(im, "negative pads");
        w->before[k] = ir_const(im->ctx, use ? pads[k] : 0);
        w->after[k] = ir_const(im->ctx, use ? pads[k + w->n] : 0);
        if (same(im, "SAME_UPPER") || same(im, "SAME_LOWER"))
            same_pads(im, x, w, k, same(im, "SAME_LOWER"));
    }
    return true;
}

/* kernel_shape of a convolution: the weight's, which the attribute may repeat, or says where the weight's is open. */
static bool kernel_of_weight(struct imp *im, struct ir_value **w, struct imp_window *win)
{
    bool given = imp_attr(im, "kernel_shape");
    ir_expr dims[TCC_MAX_RANK] = {NULL};
    const char *what[TCC_MAX_RANK];
    if (given && !read_list(im, "kernel_shape", win->n, 1, 1, win->kernel))
        return false;
    for (int k = 0; k < win->n; k++) {
        if (!given && !ir_is_const(imp_dim(*w, k + 2), &win->kernel[k]))
            win->open[k] = imp_dim(*w, k + 2);
        if (!imp_assume(im, IR_LE, ir_const(im->ctx, 1), imp_dim(*w, k + 2),
                        "the kernel is empty along spatial axis %d", k))
            return false;
        dims[k + 2] = win->open[k] ? win->open[k] : ir_const(im->ctx, win->kernel[k]);
        what[k + 2] = "the weight has the sizes of kernel_shape";
    }
    *w = imp_with_dims(im, *w, dims, what);
    return *w != NULL;
}

struct ir_value *imp_conv(struct imp *im, struct ir_value *x, struct ir_value *w, struct ir_value *bias,
                          enum tcc_dtype to)
{
    struct imp_window win = {.n = x ? imp_rank(x) - 2 : 0};
    if (!x || !w)
        return NULL;
    if (win.n < 1 || imp_rank(w) != imp_rank(x))
        return imp_bad(im, "operands %s and %s; x[n, c, spatial...] and w[o, c/group, kernel...] are expected",
                       ir_type_text(im->ctx, x->type), ir_type_text(im->ctx, w->type)),
               NULL;
    if (!kernel_of_weight(im, &w, &win) || !read_window(im, x, &win))
        return NULL;
    int64_t group = imp_i(im, "group", 1);
    if (group < 1)
        return imp_bad(im, "group %lld", (long long)group), NULL;
    return imp_convolve(im, &win, x, w, bias, group, to);
}

bool onnx_op_conv(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *w = x ? imp_tensor(im, 1) : NULL;
    return w && imp_out(im, 0, imp_conv(im, x, w, imp_in(im, 2), imp_dtype(x)));
}

/*
 * ConvTranspose: out = stride * (in - 1) + output_padding + (kernel - 1) * dilation + 1 - pads; output_shape turns that
 * round and gives the pads.
 */
bool onnx_op_conv_transpose(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *w = x ? imp_tensor(im, 1) : NULL, *bias = imp_in(im, 2);
    struct ir_ctx *c = im->ctx;
    struct imp_window win = {.n = x ? imp_rank(x) - 2 : 0};
    int64_t extra[SPATIAL];
    ir_expr shape[SPATIAL];
    int given;
    const int64_t *wanted = imp_ints(im, "output_shape", &given);
    if (!w)
        return false;
    if (win.n < 1 || imp_rank(w) != imp_rank(x))
        return imp_bad(im, "operands of %d and %d dims", imp_rank(x), imp_rank(w));
    if (!kernel_of_weight(im, &w, &win) || !read_window(im, x, &win) ||
        !read_list(im, "output_padding", win.n, 0, 0, extra))
        return false;
    if (wanted && given != win.n && given != win.n + 2)
        return imp_bad(im, "output_shape has %d values for %d spatial axes", given, win.n);
    bool upper = same(im, "SAME_UPPER"), fitted = upper || same(im, "SAME_LOWER");
    for (int k = 0; k < win.n; k++) {
        ir_expr full = ir_addc(c, ir_mulc(c, ir_addc(c, imp_dim(x, k + 2), -1), win.strides[k]), extra[k]);
        full = ir_add(c, full, imp_reach(im, &win, k));
        if (wanted)
            shape[k] = ir_const(c, wanted[given - win.n + k]);
        else if (fitted)
            shape[k] = ir_mulc(c, imp_dim(x, k + 2), win.strides[k]);
        else
            shape[k] = ir_sub(c, full, ir_add(c, win.before[k], win.after[k]));
        if (wanted || fitted) {
            ir_expr total = ir_max(c, ir_const(c, 0), ir_sub(c, full, shape[k])),
                    half = ir_floordiv(c, total, ir_const(c, 2));
            win.before[k] = MUTANT(117, upper, !upper) ? half : ir_sub(c, total, half);
            win.after[k] = ir_sub(c, total, win.before[k]);
        }
    }
    return imp_out(im, 0, imp_convolve_transposed(im, &win, x, w, bias, imp_i(im, "group", 1), shape));
}

static bool read_pool(struct imp *im, const struct ir_value *x, struct imp_window *w)
{
    *w = (struct imp_window){.n = imp_rank(x) - 2};
    if (w->n < 1)
        return imp_bad(im, "%s; x[n, c, spatial...] is expected", ir_type_text(im->ctx, x->type));
    if (!imp_attr(im, "kernel_shape"))
        return imp_bad(im, "kernel_shape is missing");
    if (!read_list(im, "kernel_shape", w->n, 1, 1, w->kernel) || !read_window(im, x, w))
        return false;
    if (imp_i(im, "ceil_mode", 0) && !same(im, "SAME_UPPER") && !same(im, "SAME_LOWER"))
        imp_ceil_pads(im, x, w);
    return true;
}

/* Indices count within the whole tensor in row-major order, or with the spatial axes in column-major order. */
static struct ir_value *pool_indices(struct imp *im, struct ir_value *x, const struct imp_window *w)
{
    struct ir_value *plane = imp_pool(im, IR_max_pool_index, x, w, NULL);
    struct ir_ctx *c = im->ctx;
    ir_expr size = ir_const(c, 1);
    if (!plane)
        return NULL;
    for (int k = 0; k < w->n; k++)
        size = ir_mul(c, size, imp_dim(x, k + 2));
    if (imp_i(im, "storage_order", 0)) {
        struct ir_value *rest = plane, *column = imp_int(im, TCC_I64, 0);
        for (int k = w->n - 1; k >= 0; k--) {
            struct ir_value *d = imp_dim_value(im, imp_dim(x, k + 2));
            ir_expr below = ir_const(c, 1);
            for (int j = MUTANT(118, 0, 1); j < k; j++)
                below = ir_mul(c, below, imp_dim(x, j + 2));
            struct ir_value *below_size = imp_dim_value(im, below);
            column = imp_bin(im, IR_add, column, imp_bin(im, IR_mul, imp_bin(im, IR_mod, rest, d), below_size));
            rest = imp_bin(im, IR_div, rest, d);
        }
        plane = column;
    }
    ir_expr nc[2] = {imp_dim(x, 0), imp_dim(x, 1)};
    struct ir_value *columns = imp_iota(im, 2, nc, 1, TCC_I64);
    struct ir_value *other = imp_dim_value(im, nc[1]);
    struct ir_value *which = imp_bin(im, IR_add, imp_bin(im, IR_mul, imp_iota(im, 2, nc, 0, TCC_I64), other), columns);
    int64_t axes[SPATIAL];
    for (int k = 0; k < w->n; k++)
        axes[k] = k + 2;
    return imp_bin(im, IR_add, plane,
                   imp_unsqueeze(im, imp_bin(im, IR_mul, which, imp_dim_value(im, size)), w->n, axes));
}

struct ir_value *imp_max_pool(struct imp *im, struct ir_value *x)
{
    struct imp_window w;
    return read_pool(im, x, &w) ? imp_pool(im, IR_max_pool, x, &w, NULL) : NULL;
}

bool onnx_op_max_pool(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    struct imp_window w;
    if (!x || !read_pool(im, x, &w))
        return false;
    return imp_out(im, 0, imp_pool(im, IR_max_pool, x, &w, NULL)) &&
           (!imp_wants(im, 1) || imp_out(im, 1, pool_indices(im, x, &w)));
}

struct ir_value *imp_average_pool(struct imp *im, struct ir_value *x)
{
    struct imp_window w;
    if (!read_pool(im, x, &w))
        return NULL;
    if (!imp_i(im, "count_include_pad", 0))
        return imp_pool(im, IR_avg_pool, x, &w, "valid");
    if (!imp_i(im, "ceil_mode", 0))
        return imp_pool(im, IR_avg_pool, x, &w, "full");
    /* Pads that only ceil_mode added don't count: divide the sum by the number of taps inside operand and declared
     * pads. */
    struct imp_window declared = w;
    if (!read_window(im, x, &declared))
        return NULL;
    ir_expr before[TCC_MAX_RANK], after[TCC_MAX_RANK];
    struct imp_window bare = w;
    for (int k = 0; k < imp_rank(x); k++)
        before[k] = after[k] = ir_const(im->ctx, 0);
    for (int k = 0; k < w.n; k++) {
        before[k + 2] = declared.before[k];
        after[k + 2] = declared.after[k];
        bare.before[k] = ir_const(im->ctx, 0);
        bare.after[k] = ir_sub(im->ctx, w.after[k], declared.after[k]);
    }
    struct ir_value *padded = imp_pad(im, x, NULL, before, after, "constant");
    return imp_pool(im, IR_avg_pool, padded, &bare, "valid");
}

bool onnx_op_average_pool(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    return x && imp_out(im, 0, imp_average_pool(im, x));
}

bool onnx_op_lp_pool(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    struct imp_window w;
    double p = im->opset < 2 ? imp_f(im, "p", 2) : (double)imp_i(im, "p", 2);
    if (!x || !read_pool(im, x, &w))
        return false;
    struct ir_value *wide = imp_un(im, IR_abs, imp_wide(im, x));
    struct ir_value *powers = p == 1 ? wide : p == 2 ? imp_un(im, IR_square, wide) : imp_with(im, IR_pow, wide, p);
    struct ir_value *sum = imp_pool(im, IR_avg_pool, powers, &w, "sum");
    struct ir_value *y = p == 1   ? sum
                         : p == 2 ? imp_un(im, IR_sqrt, sum)
                                  : imp_bin(im, IR_pow, sum, imp_like(im, wide, 1 / p));
    return y && imp_out(im, 0, imp_cast(im, y, imp_dtype(x)));
}

/* Global pooling is a reduction over the spatial axes. */
static int spatial_axes(struct imp *im, const struct ir_value *x, int64_t *axes)
{
    if (imp_rank(x) < 2)
        return imp_bad(im, "%s; x[n, c, spatial...] is expected", ir_type_text(im->ctx, x->type)), -1;
    for (int k = 2; k < imp_rank(x); k++)
        axes[k - 2] = k;
    return imp_rank(x) - 2;
}

bool onnx_op_global_average_pool(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    int64_t axes[TCC_MAX_RANK];
    int n = x ? spatial_axes(im, x, axes) : -1;
    return n >= 0 && imp_out(im, 0, imp_mean(im, x, n, axes, true));
}

bool onnx_op_global_max_pool(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    int64_t axes[TCC_MAX_RANK];
    int n = x ? spatial_axes(im, x, axes) : -1;
    return n >= 0 && imp_out(im, 0, imp_reduce(im, IR_reduce_max, x, n, axes, true));
}

bool onnx_op_global_lp_pool(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    int64_t axes[TCC_MAX_RANK];
    int n = x ? spatial_axes(im, x, axes) : -1;
    double p = im->opset < 2 ? imp_f(im, "p", 2) : (double)imp_i(im, "p", 2);
    if (n < 0)
        return false;
    struct ir_value *powers = imp_with(im, IR_pow, imp_un(im, IR_abs, x), p);
    return imp_out(im, 0, imp_with(im, IR_pow, imp_reduce(im, IR_reduce_sum, powers, n, axes, true), 1 / p));
}
