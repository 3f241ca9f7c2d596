/* SPDX-License-Identifier: Apache-2.0 */
/* Resizing, sampling, patches; distances; bags of embeddings. */
#include "compiler/pt2/pt2_int.h"

#include <math.h>
#include <string.h>

/* -- upsample_*: to output_size, or by scale_factors (or scales, scales_h and scales_w), which then place the samples
 * too */

enum { NEAREST, LINEAR, CUBIC, NEAREST_EXACT };

static int given_scales(struct pt2 *p, int n, double *scales)
{
    static const char *const names[] = {"scales_d", "scales_h", "scales_w"};
    if (pt2_given(p, "scale_factors"))
        return pt2_floats(p, "scale_factors", 3, scales);
    if (n == 1 && pt2_given(p, "scales"))
        return pt2_floats(p, "scales", 1, scales);
    for (int k = 0; k < n; k++) {
        if (!pt2_given(p, names[3 - n + k]))
            return -1;
        scales[k] = pt2_f(p, names[3 - n + k], 1);
    }
    return n;
}

/* x of these sizes (NULL: as the run finds them), by scales, or without them. */
static struct ir_value *resized(struct pt2 *p, struct ir_value *x, struct ir_value *scales, const ir_expr *sizes, int n,
                                const struct ir_attr *words)
{
    struct ir_value *in[] = {x, NULL, scales, scales ? NULL : imp_dims(p->im, imp_rank(x), sizes)};
    ir_type type = imp_fresh_type(p->im, imp_dtype(x), imp_rank(x), sizes);
    return imp_resizes_something(p->im, x, sizes) ? imp_lib_value(p->im, "resize", 4, in, type, n, words) : NULL;
}

static struct ir_value *scales_of(struct pt2 *p, int64_t n, const double *scales)
{
    struct ir_tensor *t = ir_tensor_new(TCC_F64, 1, &n);
    for (int64_t k = 0; t && k < n; k++)
        tcc_store_f64(TCC_F64, (char *)(uintptr_t)ir_tensor_at(t, k), scales[k]);
    return imp_const(p->im, t);
}

bool aten_upsample(struct pt2 *p)
{
    int arg = p->row->arg;
    static const char *const modes[] = {"nearest", "linear", "cubic", "nearest"};
    struct imp *im = p->im;
    struct ir_value *x = pt2_need(p, pt2_given(p, "input") ? "input" : "self");
    double scales[3];
    ir_expr sizes[TCC_MAX_RANK];
    bool aligned = pt2_b(p, "align_corners", false);
    bool nearest = arg == NEAREST || arg == NEAREST_EXACT; /* whose coordinates are f32 in PyTorch always */
    bool bytes = x && imp_dtype(x) == TCC_U8 && !nearest;
    bool precise = bytes || (x && imp_dtype(x) == TCC_F64 && !nearest);
    int n = x ? imp_rank(x) - 2 : 0, wanted = pt2_exprs(p, "output_size", 3, sizes + 2),
        scaled = given_scales(p, n, scales);
    if (!x || n < 1 || n > 3 || (wanted != n && scaled != n))
        return false;
    struct ir_value *by = NULL;
    sizes[0] = imp_dim(x, 0);
    sizes[1] = imp_dim(x, 1);
    if (scaled == n && !aligned) {
        const int64_t axes[] = {0, 1, 2, 3, 4};
        double all[5] = {1, 1};
        for (int k = 0; k < n; k++)
            all[k + 2] = scales[k];
        by = scales_of(p, n + 2, all);
        if (!imp_scaled_dims(im, x, all, true, n + 2, axes, sizes))
            return false;
    } else {
        for (int k = 0; wanted != n && k < n; k++) {
            int64_t size;
            if (ir_is_const(imp_dim(x, k + 2), &size))
                sizes[k + 2] = ir_const(p->ctx, (int64_t)floor((double)size * scales[k]));
            else if (scales[k] >= 1 && scales[k] < 1e9 && scales[k] == floor(scales[k]))
                sizes[k + 2] = ir_mulc(p->ctx, imp_dim(x, k + 2), (int64_t)scales[k]);
            else
                return imp_open_size(im, imp_dim(x, k + 2), NULL,
                                     "align_corners by a broken scale of a size known only at run time");
        }
    }
    const char *where = arg == NEAREST ? "asymmetric" : aligned ? "align_corners" : "half_pixel";
    const struct ir_attr words[] = {
        imp_user_text(im, "mode", modes[arg]),
        imp_user_text(im, "coordinate_transformation_mode", where),
        imp_user_text(im, "nearest_mode", arg == NEAREST_EXACT ? "round_prefer_ceil" : "floor"),
        imp_user_num(im, "cubic_coeff_a", -0.75f),
        imp_user_int(im, "precise", precise),
        imp_user_int(im, "fixed_point", bytes)};
    return pt2_out(p, 0, resized(p, x, by, sizes, 6, words));
}

/* -- _upsample_*_aa, and (BACKWARD) their gradients: each result is a weighted mean of the elements below a filter that
 * is as wide as the step, as in Pillow (ImagingResample), so each axis is a product with a matrix where the sizes are
 * known. */

enum { AA_FILTER = 3, BACKWARD = 4 };
enum { LARGEST_MATRIX = 1 << 20 }; /* larger ones are almost all zeros: the library op then */

static double triangle(double x)
{
    return fmax(0, 1 - fabs(x));
}

static double cubic(double x) /* Keys 1981, with a = -0.5 */
{
    x = fabs(x);
    return x < 1 ? (1.5 * x - 2.5) * x * x + 1 : x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
}

static double sinc(double x)
{
    return x == 0 ? 1 : sin(M_PI * x) / (M_PI * x);
}

static double lanczos(double x)
{
    return fabs(x) < 3 ? sinc(x) * sinc(x / 3) : 0;
}

static const struct {
    double (*weight)(double x);
    double reach;
} filters[] = {{triangle, 1}, {cubic, 2}, {lanczos, 3}};

/* [to, from]; `step`: elements from one result to the next. NULL: no memory. */
static struct ir_value *resampling(struct pt2 *p, int filter, int64_t from, int64_t to, double step)
{
    struct ir_tensor *t = ir_tensor_new(TCC_F64, 2, (const int64_t[]){to, from});
    double *w = t ? (double *)(uintptr_t)t->data : NULL, wide = fmax(step, 1), reach = filters[filter].reach * wide;
    for (int64_t i = 0; w && i < to; i++, w += from) {
        double centre = step * ((double)i + 0.5), sum = 0;
        double begin =
            fmin(fmax(centre - reach + 0.5, 0), (double)from); /* a scale that is given may lie about the sizes */
        int64_t first = (int64_t)begin, last = (int64_t)fmin(centre + reach + 0.5, (double)from);
        for (int64_t j = first; j < last; j++)
            sum += w[j] = filters[filter].weight(((double)j - centre + 0.5) / wide);
        for (int64_t j = first; j < last && sum != 0; j++)
            w[j] /= sum;
    }
    return imp_const(p->im, t);
}

/* Both axes of x[.., h, w]: from the sizes `from` to `to`; backwards, the gradient of what had them the other way
 * round. */
static struct ir_value *resample(struct pt2 *p, struct ir_value *x, int arg, const int64_t from[2], const int64_t to[2],
                                 const double step[2])
{
    struct imp *im = p->im;
    enum tcc_dtype d = imp_dtype(x), sum = tcc_wide_float(d);
    const int64_t turned[] = {1, 0};
    struct ir_value *m[2];
    x = imp_cast(im, x, sum);
    for (int k = 0; k < 2; k++) {
        m[k] = imp_cast(im, resampling(p, arg & AA_FILTER, from[k], to[k], step[k]), sum);
        if ((k == 1) != !!(arg & BACKWARD))
            m[k] = imp_transpose(im, m[k], turned);
    }
    x = m[0] && m[1] ? imp_matmul_nd(im, x, m[1], sum) : NULL;
    return x ? imp_cast(im, imp_matmul_nd(im, m[0], x, sum), d) : NULL;
}

bool aten_upsample_aa(struct pt2 *p)
{
    int arg = p->row->arg;
    static const char *const modes[] = {"linear", "cubic"};
    struct imp *im = p->im;
    bool back = arg & BACKWARD, aligned = pt2_b(p, "align_corners", false), known = true;
    struct ir_value *x = pt2_need(p, back ? "grad_output" : pt2_given(p, "input") ? "input" : "self");
    ir_expr in[4], out[4];
    double scales[3] = {0}, step[2];
    int64_t from[2], to[2];
    int wanted = pt2_exprs(p, "output_size", 2, out + 2), scaled = given_scales(p, 2, scales);
    if (!x || imp_rank(x) != 4 || (wanted != 2 && scaled != 2) || (back && pt2_exprs(p, "input_size", 4, in) != 4))
        return false;
    bool bytes = imp_dtype(x) == TCC_U8;
    if (!imp_is_float(x) && !bytes)
        return imp_unsupported(im, "integers but uint8");
    if (bytes && (aligned || (arg & AA_FILTER) > 1))
        return imp_unsupported(im, "uint8 with %s: cast to float32, and round the result",
                               aligned ? "align_corners" : "this filter");
    for (int k = 0; k < 4 && !back; k++)
        in[k] = imp_dim(x, k);
    for (int k = 0; k < 2; k++) {
        known = ir_is_const(in[k + 2], &from[k]) && known;
        if (scaled == 2 && !(scales[k] > 0 && scales[k] < LARGEST_MATRIX))
            return imp_bad(im, "a scale must be positive and below %d", LARGEST_MATRIX);
        if (known && wanted != 2)
            out[k + 2] = ir_const(p->ctx, (int64_t)fmin(floor((double)from[k] * scales[k]), 0x1p60));
        known = known && ir_is_const(out[k + 2], &to[k]);
        if (known && (from[k] < 1 || to[k] < 1))
            return imp_bad(im, "sizes must be positive");
        known = known && from[k] <= LARGEST_MATRIX / to[k];
        if (known)
            step[k] = aligned       ? to[k] > 1 ? (double)(from[k] - 1) / (double)(to[k] - 1) : 0
                      : scaled == 2 ? 1 / scales[k]
                                    : (double)from[k] / (double)to[k];
    }
    if (known && !bytes)
        return pt2_out(p, 0, resample(p, x, arg, from, to, step));
    if (back || aligned || (arg & AA_FILTER) > 1)
        return imp_open_size(im, imp_dim(x, 2), imp_dim(x, imp_rank(x) - 1),
                             "sizes known only at run time, or of more than %d elements together", LARGEST_MATRIX);
    const int64_t axes[] = {0, 1, 2, 3};
    const double all[] = {1, 1, scales[0], scales[1]};
    struct ir_value *by = scaled == 2 ? scales_of(p, 4, all) : NULL;
    out[0] = in[0];
    out[1] = in[1];
    if (by && !imp_scaled_dims(im, x, all, true, 4, axes, out))
        return false;
    const struct ir_attr words[] = {
        imp_user_text(im, "mode", modes[arg]),    imp_user_text(im, "coordinate_transformation_mode", "half_pixel"),
        imp_user_int(im, "antialias", 1),         imp_user_int(im, "exclude_outside", 1),
        imp_user_num(im, "cubic_coeff_a", -0.5f), imp_user_int(im, "precise", bytes),
        imp_user_int(im, "fixed_point", bytes)};
    return pt2_out(p, 0, resized(p, x, by, out, 7, words));
}

/* grid_sampler_2d, grid_sampler_3d (input, grid, interpolation_mode, padding_mode, align_corners) */
bool aten_grid_sampler(struct pt2 *p)
{
    static const char *const modes[] = {"linear", "nearest", "cubic"}, *const pads[] = {"zeros", "border",
                                                                                        "reflection"};
    struct ir_value *x = pt2_need(p, "input"), *grid = pt2_need(p, "grid");
    int64_t mode = pt2_i(p, "interpolation_mode", 0), pad = pt2_i(p, "padding_mode", 0);
    bool aligned = pt2_b(p, "align_corners", false);
    if (mode < 0 || mode > 2 || pad < 0 || pad > 2)
        return false;
    const struct ir_attr words[] = {imp_user_text(p->im, "mode", modes[mode]),
                                    imp_user_text(p->im, "padding_mode", pads[pad]),
                                    imp_user_int(p->im, "align_corners", aligned)};
    return pt2_out(p, 0, imp_grid_sample(p->im, x, grid, 3, words));
}

/* n positions of centres in -1 .. 1, or from one end to the other */
static struct ir_value *positions(struct pt2 *p, enum tcc_dtype d, ir_expr n, bool aligned)
{
    struct imp *im = p->im;
    struct ir_value *i = imp_iota(im, 1, &n, 0, d), *count = imp_cast(im, imp_dim_value(im, n), d),
                    *one = imp_num(im, d, 1), *two = imp_num(im, d, 2);
    struct ir_value *x = imp_bin(im, IR_mul, i, two);
    if (aligned)
        count = imp_bin(im, IR_max, imp_bin(im, IR_sub, count, one), one);
    else
        x = imp_bin(im, IR_add, x, one);
    return imp_bin(im, IR_sub, imp_bin(im, IR_div, x, count), one);
}

/* affine_grid_generator(theta[n, 2, 3], size, align_corners): theta times (x, y, 1) for each position of the result [n,
 * h, w, 2] */
bool aten_affine_grid(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *theta = pt2_need(p, "theta");
    ir_expr size[5];
    int n = pt2_exprs(p, "size", 5, size);
    bool aligned = pt2_b(p, "align_corners", false);
    if (!theta || n != 4)
        return theta && imp_unsupported(im, "grids of 3 axes");
    enum tcc_dtype d = imp_dtype(theta);
    ir_expr plane[] = {size[2], size[3], ir_const(p->ctx, 1)},
            rows[] = {ir_mul(p->ctx, size[2], size[3]), ir_const(p->ctx, 3)},
            out[] = {size[0], size[2], size[3], ir_const(p->ctx, 2)};
    const int64_t across[] = {0, 2}, down[] = {1, 2};
    struct ir_value *x = positions(p, d, size[3], aligned), *y = positions(p, d, size[2], aligned);
    struct ir_value *in[] = {x ? imp_expand(im, imp_unsqueeze(im, x, 2, across), 3, plane) : NULL,
                             y ? imp_expand(im, imp_unsqueeze(im, y, 2, down), 3, plane) : NULL,
                             imp_splat(im, d, 1, 3, plane)};
    struct ir_value *base = in[0] && in[1] && in[2] ? imp_reshape(im, imp_concat(im, 3, in, 2), 2, rows) : NULL;
    struct ir_value *grid = imp_matmul(im, base, theta, false, true, TCC_NONE);
    return grid && pt2_out(p, 0, imp_reshape(im, grid, 4, out));
}

/* -- Patches */

static bool pair(struct pt2 *p, const char *name, int64_t otherwise, int64_t *out)
{
    int n = pt2_ints(p, name, 2, out);
    if (n == -1 || n == 0)
        out[0] = out[1] = otherwise;
    if (n == 1)
        out[1] = out[0];
    return n >= -1;
}

/* col2im(self, output_size, kernel_size, dilation, padding, stride) */
bool aten_col2im(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *x = pt2_need(p, "self");
    ir_expr size[2];
    int64_t kernel[2], dilation[2], pads[4], stride[2], front = 0;
    if (!x || pt2_exprs(p, "output_size", 2, size) != 2 || !pair(p, "kernel_size", 1, kernel) ||
        !pair(p, "dilation", 1, dilation) || !pair(p, "padding", 0, pads) || !pair(p, "stride", 1, stride))
        return false;
    pads[2] = pads[0];
    pads[3] = pads[1];
    bool single = imp_rank(x) == 2;
    struct ir_value *in[] = {single ? imp_unsqueeze(im, x, 1, &front) : x, imp_dims(im, 2, size),
                             imp_i64s(im, 2, kernel)};
    const struct ir_attr words[] = {imp_user_ints(im, "dilations", 2, dilation), imp_user_ints(im, "pads", 4, pads),
                                    imp_user_ints(im, "strides", 2, stride)};
    struct ir_value *y = imp_col2im(im, in, 3, words);
    return y && pt2_out(p, 0, single ? imp_squeeze(im, y, 1, &front) : y);
}

/* im2col(self, kernel_size, dilation, padding, stride): [n, c kh kw, windows], a strided part of the padded operand for
 * each tap */
bool aten_im2col(struct pt2 *p)
{
    struct ir_ctx *c = p->ctx;
    struct ir_value *x = pt2_need(p, "self"), **at;
    struct imp_window w = {.n = 2};
    int64_t pads[2], n, axis = 2;
    if (!x || imp_rank(x) != 4 || !pair(p, "kernel_size", 1, w.kernel) || !pair(p, "dilation", 1, w.dilations) ||
        !pair(p, "padding", 0, pads) || !pair(p, "stride", 1, w.strides))
        return false;
    for (int k = 0; k < 2; k++)
        w.before[k] = w.after[k] = ir_const(c, pads[k]);
    if (!(at = imp_places(p->im, &w, x, &n)))
        return false;
    const ir_expr *out = at[0]->type->dim, flat[3] = {out[0], ir_mulc(c, out[1], n), ir_mul(c, out[2], out[3])};
    for (int64_t k = 0; k < n; k++)
        if (!(at[k] = imp_unsqueeze(p->im, at[k], 1, &axis)))
            return false;
    struct ir_value *y = imp_concat(p->im, (int)n, at, 2);
    return y && pt2_out(p, 0, imp_reshape(p->im, y, 3, flat));
}

/* pixel_shuffle (arg 0): channels become pixels; pixel_unshuffle (arg 1) */
bool aten_pixel_shuffle(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_ctx *c = p->ctx;
    struct ir_value *x = pt2_need(p, "self");
    int64_t r = pt2_i(p, arg ? "downscale_factor" : "upscale_factor", 1), perm[TCC_MAX_RANK];
    ir_expr dims[TCC_MAX_RANK], out[TCC_MAX_RANK], by = ir_const(c, r);
    if (!x || imp_rank(x) < 3 || imp_rank(x) + 3 > TCC_MAX_RANK || r < 1)
        return false;
    int n = imp_rank(x) - 3;
    static const int64_t places[2][5] = {{0, 3, 1, 4, 2}, {0, 2, 4, 1, 3}};
    for (int k = 0; k < n; k++) {
        dims[k] = out[k] = imp_dim(x, k);
        perm[k] = k;
    }
    for (int k = 0; k < 5; k++)
        perm[n + k] = n + places[arg][k];
    ir_expr ch = imp_dim(x, n), h = imp_dim(x, n + 1), w = imp_dim(x, n + 2);
    if (arg) {
        memcpy(dims + n, (ir_expr[]){ch, ir_floordiv(c, h, by), by, ir_floordiv(c, w, by), by}, 5 * sizeof *dims);
        memcpy(out + n, (ir_expr[]){ir_mulc(c, ch, r * r), ir_floordiv(c, h, by), ir_floordiv(c, w, by)},
               3 * sizeof *out);
    } else {
        memcpy(dims + n, (ir_expr[]){ir_floordiv(c, ch, ir_const(c, r * r)), by, by, h, w}, 5 * sizeof *dims);
        memcpy(out + n, (ir_expr[]){dims[n], ir_mulc(c, h, r), ir_mulc(c, w, r)}, 3 * sizeof *out);
    }
    struct ir_value *y = imp_transpose(p->im, imp_reshape(p->im, x, n + 5, dims), perm);
    return y && pt2_out(p, 0, imp_reshape(p->im, y, n + 3, out));
}

/* -- Distances of rows, by the norm of order p */

/* The greatest element along the last axis, with PyTorch's gradient for distances: each of equal ones has all of it. */
static struct ir_value *largest(struct pt2 *p, struct ir_value *a, int64_t last)
{
    struct imp *im = p->im;
    struct ir_value *y = imp_un(im, IR_stop_gradient, imp_reduce(im, IR_reduce_max, a, 1, &last, true));
    struct ir_value *each = imp_formula(im, "select(and(eq(x, y), not(isinf(x))), x - stop_gradient(x), 0)", a,
                                        y); /* nothing, to add to y */
    y = imp_bin(im, IR_add, y, imp_reduce(im, IR_reduce_sum, each, 1, &last, true));
    return y ? imp_squeeze(im, y, 1, &last) : NULL;
}

static struct ir_value *distance(struct pt2 *p, struct ir_value *d, double order)
{
    int64_t last = d ? imp_rank(d) - 1 : 0;
    if (d && isinf(order) && p->im->training)
        return largest(p, imp_un(p->im, IR_abs, d), last);
    return pt2_norm(p, d, order, 1, &last, false);
}

/* _cdist_forward(x1, x2, p, compute_mode) */
bool aten_cdist(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *a = pt2_need(p, "x1"), *b = a ? pt2_need(p, "x2") : NULL;
    double order = pt2_f(p, "p", 2);
    pt2_ignore(p, "compute_mode");
    if (!b || imp_rank(a) < 2 || imp_rank(b) < 2)
        return false;
    int64_t rows = imp_rank(a) - 1, columns = imp_rank(b) - 2;
    struct ir_value *shaped = imp_unsqueeze(im, b, 1, &columns);
    return pt2_out(p, 0, distance(p, imp_bin(im, IR_sub, imp_unsqueeze(im, a, 1, &rows), shaped), order));
}

/* What a pair's distance, of the norm of this order, changes by with each component of their difference d. */
static struct ir_value *by_component(struct pt2 *p, struct ir_value *d, struct ir_value *distance, double order)
{
    struct imp *im = p->im;
    if (order == 0)
        return imp_splat(im, imp_dtype(d), 0, imp_rank(d), d->type->dim);
    if (order == 1)
        return imp_un(im, IR_sign, d);
    if (isinf(order))
        return imp_formula(im, "select(eq(abs(x), y), sign(x), 0)", d, distance);
    struct ir_value *part = imp_formula(im, "abs(x) / select(eq(y, 0), 1, y)", d, distance);
    if (order != 2) /* (|d| / distance)^(order - 1); none of a component that is 0, as PyTorch has it */
        part = imp_formula_n(im, "select(eq(abs(x), 0), 0, pow(y, a))", IMP_NUMBERS(order - 1), d, part);
    return imp_formula(im, "select(eq(y, 0), 0, sign(x) * z)", d, distance, part);
}

/* _cdist_backward(grad_output or, before PyTorch 2.15, grad, x1, x2, p, cdist): by x1 */
bool aten_cdist_backward(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *dy = pt2_need(p, pt2_given(p, "grad") ? "grad" : "grad_output"),
                    *a = dy ? pt2_need(p, "x1") : NULL, *b = a ? pt2_need(p, "x2") : NULL,
                    *y = b ? pt2_need(p, "cdist") : NULL;
    double order = pt2_f(p, "p", 2);
    if (!y || imp_rank(a) < 2 || imp_rank(b) < 2 || imp_rank(dy) < 2)
        return false;
    int64_t rows = imp_rank(a) - 1, columns = imp_rank(b) - 2, last = imp_rank(dy), pairs = last - 1;
    struct ir_value *shaped = imp_unsqueeze(im, b, 1, &columns);
    struct ir_value *d = imp_bin(im, IR_sub, imp_unsqueeze(im, a, 1, &rows), shaped);
    struct ir_value *part = d ? by_component(p, d, imp_unsqueeze(im, y, 1, &last), order) : NULL;
    struct ir_value *each = imp_bin(im, IR_mul, part, imp_unsqueeze(im, dy, 1, &last));
    return each && pt2_out(p, 0, imp_reduce(im, IR_reduce_sum, each, 1, &pairs, false));
}

/* _pdist_forward(self, p): each pair of rows once */
bool aten_pdist(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *x = pt2_need(p, "self");
    double order = pt2_f(p, "p", 2);
    int64_t n;
    if (!x || imp_rank(x) != 2 || !ir_is_const(imp_dim(x, 0), &n))
        return x && imp_open_size(im, imp_rank(x) == 2 ? imp_dim(x, 0) : NULL, NULL,
                                  "a number of rows that is known only at run time");
    if (n > 4096)
        return imp_unsupported(im, "more than 4096 rows");
    const int64_t count[] = {n * (n - 1) / 2};
    struct ir_tensor *first = ir_tensor_new(TCC_I64, 1, count), *second = ir_tensor_new(TCC_I64, 1, count);
    if (!first || !second)
        ir_no_memory(p->ctx);
    int64_t *a = (int64_t *)(uintptr_t)first->data, *b = (int64_t *)(uintptr_t)second->data;
    for (int64_t i = 0, at = 0; i < n; i++) {
        for (int64_t k = i + 1; k < n; k++, at++) {
            a[at] = i;
            b[at] = k;
        }
    }
    struct ir_value *from = imp_const(im, first), *to = imp_const(im, second);
    struct ir_value *gather = imp_gather(im, x, to, 0);
    return pt2_out(p, 0, distance(p, imp_bin(im, IR_sub, imp_gather(im, x, from, 0), gather), order));
}

/* -- Bags */

/* Which row of the table each bag's maximum is of, along each column of kept [bags, n, columns]; -1 of an empty
 * bag. */
static struct ir_value *largest_rows(struct pt2 *p, struct ir_value *kept, struct ir_value *index,
                                     struct ir_value *none)
{
    struct ir_value *at = kept ? imp_op(p->im, IR_argmax, 1, &kept, IR_ATTRS(ir_attr_i(IR_ATTR_axis, 1))) : NULL;
    struct ir_value *gather = at ? imp_gather(p->im, index, at, 0) : NULL;
    return at ? imp_select(p->im, none, imp_int(p->im, TCC_I64, -1), gather) : NULL;
}

/* _embedding_bag(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset,
 * padding_idx) */
bool aten_embedding_bag(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *w = pt2_need(p, "weight"), *index = w ? pt2_need(p, "indices") : NULL,
                    *offsets = index ? pt2_need(p, "offsets") : NULL, *samples = pt2_t(p, "per_sample_weights");
    int64_t mode = pt2_i(p, "mode", 0), padding = pt2_i(p, "padding_idx", -1), one = 1, zero = 0, last = 2;
    bool by_frequency = pt2_b(p, "scale_grad_by_freq", false) && im->train;
    pt2_ignore(p, "sparse");
    if (!offsets || imp_rank(index) != 1 || imp_rank(offsets) != 1)
        return false;
    index = imp_from_zero(p->im, imp_cast(im, index, TCC_I64));
    offsets = imp_cast(im, offsets, TCC_I64);
    ir_expr n = imp_dim(index, 0),
            bags = ir_addc(p->ctx, imp_dim(offsets, 0), pt2_b(p, "include_last_offset", false) ? -1 : 0);
    struct ir_value *from = imp_slice1(im, offsets, 0, ir_const(p->ctx, 0), bags), *rest = imp_dim_value(im, n);
    struct ir_value *ends[] = {from, imp_to_rank(im, rest, 1)}, *all = imp_concat(im, 2, ends, 0);
    struct ir_value *to = imp_slice1(im, all, 0, ir_const(p->ctx, 1), bags),
                    *at = imp_unsqueeze(im, imp_iota(im, 1, &n, 0, TCC_I64), 1, &zero);
    /* inside: [bags, n] */
    struct ir_value *is_less = imp_bin(im, IR_lt, at, imp_unsqueeze(im, to, 1, &one));
    struct ir_value *inside = imp_bin(im, IR_and, imp_bin(im, IR_ge, at, imp_unsqueeze(im, from, 1, &one)), is_less);
    if (padding >= 0)
        inside = imp_bin(im, IR_and, inside,
                         imp_unsqueeze(im, imp_bin(im, IR_ne, index, imp_int(im, TCC_I64, padding)), 1, &zero));
    struct ir_value *rows = pt2_rows(p, w, index, by_frequency), *member = imp_cast(im, inside, imp_dtype(w)), *y;
    struct ir_value *count = imp_reduce(im, IR_reduce_sum, imp_cast(im, inside, TCC_I64), 1, &one, false);
    if (!rows || !member || !count)
        return false;
    if (mode == 2) {
        struct ir_value *kept = imp_unsqueeze(im, inside, 1, &last);
        struct ir_value *minus_infinity = imp_like(im, rows, -INFINITY);
        y = imp_select(im, kept, imp_unsqueeze(im, rows, 1, &zero), minus_infinity);
        struct ir_value *none = imp_unsqueeze(im, imp_with(im, IR_eq, count, 0), 1, &one);
        if (pt2_wants(p, 3) && !pt2_out(p, 3, largest_rows(p, y, index, none)))
            return false;
        y = imp_reduce(im, IR_reduce_max, y, 1, &one, false);
        y = imp_select(im, none, imp_like(im, rows, 0), y);
    } else {
        if (samples)
            rows = imp_bin(im, IR_mul, rows, imp_unsqueeze(im, samples, 1, &one));
        y = imp_matmul(im, member, rows, false, false, TCC_NONE);
        if (mode == 1)
            y = imp_bin(im, IR_div, y,
                        imp_unsqueeze(im,
                                      imp_cast(im, imp_bin(im, IR_max, count, imp_int(im, TCC_I64, 1)), imp_dtype(w)),
                                      1, &one));
    }
    /* The other results are bookkeeping of the backward pass. */
    for (int k = 1; k < pt2_nouts(p); k++) {
        if (pt2_wants(p, k) && !(mode == 2 && k == 3))
            return imp_unsupported(im, "its result %d", k);
    }
    return pt2_out(p, 0, y);
}
