/* SPDX-License-Identifier: Apache-2.0 */
/* op_vision.c - torchvision's operators, by the operators of ONNX that mean the same. */
#include "compiler/pt2/pt2_int.h"

/* nms(dets [n, 4], scores [n], iou_threshold) -> the numbers of those that stay, by falling scores */
bool aten_nms(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *boxes = pt2_need(p, "dets"), *scores = boxes ? pt2_need(p, "scores") : NULL;
    if (!scores)
        return false;
    if (imp_rank(boxes) != 2 || imp_rank(scores) != 1)
        return imp_bad(im, "boxes [n, 4] and scores [n] are expected");
    struct ir_value *threshold = imp_splat(im, TCC_F32, pt2_f(p, "iou_threshold", 0), 0, NULL);
    struct ir_value *in[] = {imp_unsqueeze(im, imp_cast(im, boxes, TCC_F32), 1, (const int64_t[]){0}),
                             imp_unsqueeze(im, imp_cast(im, scores, TCC_F32), 2, (const int64_t[]){0, 1}),
                             imp_int(im, TCC_I64, INT64_MAX), threshold};
    ir_type type = imp_fresh_type(im, TCC_I64, 2, (const ir_expr[]){NULL, ir_const(p->ctx, 3)});
    struct ir_value *rows = in[0] && in[1] ? imp_lib_value(im, "nonmaxsuppression", 4, in, type, 0, NULL) : NULL;
    if (!rows)
        return false;
    struct ir_value *column = imp_slice1(im, rows, 1, ir_const(p->ctx, 2), ir_const(p->ctx, 1));
    return pt2_out(p, 0, column ? imp_reshape(im, column, 1, (const ir_expr[]){imp_dim(rows, 0)}) : NULL);
}

/* The words that regions are read by, the same for both directions. */
static void roi_words(struct pt2 *p, struct ir_attr *attrs)
{
    int64_t ratio = pt2_i(p, "sampling_ratio", -1);
    attrs[0] = imp_user_text(p->im, "coordinate_transformation_mode",
                             pt2_b(p, "aligned", false) ? "half_pixel" : "output_half_pixel");
    attrs[1] = imp_user_num(p->im, "spatial_scale", (float)pt2_f(p, "spatial_scale", 1));
    attrs[2] = imp_user_int(p->im, "output_height", pt2_i(p, "pooled_height", 1));
    attrs[3] = imp_user_int(p->im, "output_width", pt2_i(p, "pooled_width", 1));
    attrs[4] = imp_user_int(p->im, "sampling_ratio", ratio < 0 ? 0 : ratio);
}

/* A row of rois [r, 5] is its picture's number and its corners. */
static bool split_rois(struct pt2 *p, struct ir_value **corners, struct ir_value **pictures)
{
    struct imp *im = p->im;
    struct ir_value *rois = pt2_need(p, "rois");
    if (rois && imp_rank(rois) != 2)
        return imp_bad(im, "regions [r, 5] are expected");
    struct ir_value *number = rois ? imp_slice1(im, rois, 1, ir_const(p->ctx, 0), ir_const(p->ctx, 1)) : NULL;
    *corners = rois ? imp_slice1(im, rois, 1, ir_const(p->ctx, 1), ir_const(p->ctx, 4)) : NULL;
    *pictures = number ? imp_cast(im, imp_reshape(im, number, 1, rois->type->dim), TCC_I64) : NULL;
    return *corners && *pictures;
}

/* roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned) */
bool aten_roi_align(struct pt2 *p)
{
    struct ir_value *in[3] = {pt2_need(p, "input")};
    struct ir_attr attrs[5];
    int64_t h = pt2_i(p, "pooled_height", 1), w = pt2_i(p, "pooled_width", 1);
    roi_words(p, attrs);
    return in[0] && split_rois(p, &in[1], &in[2]) && pt2_out(p, 0, imp_roi_align(p->im, in, h, w, 5, attrs));
}

/* -- Regions whose maxima are taken */

/* The row-major numbers, among the elements of pictures of these dims, of those that argmax [r, c, ph, pw] has for
 * each region. */
static struct ir_value *numbers_of(struct pt2 *p, const ir_expr *dims, struct ir_value *pictures,
                                   struct ir_value *argmax)
{
    struct imp *im = p->im;
    ir_expr plane = ir_mul(p->ctx, dims[2], dims[3]);
    int64_t behind = 1;
    struct ir_value *channel = imp_iota(im, 1, &dims[1], 0, TCC_I64);
    struct ir_value *dims1_size = imp_dim_value(im, dims[1]);
    struct ir_value *first = imp_bin(im, IR_mul, imp_unsqueeze(im, pictures, 1, &behind), dims1_size);
    struct ir_value *plane_size = imp_dim_value(im, plane);
    first = imp_bin(im, IR_mul, imp_bin(im, IR_add, first, channel), plane_size); /* [r, c] */
    const int64_t last[] = {2, 3};
    struct ir_value *at = imp_with(im, IR_max, imp_cast(im, argmax, TCC_I64), 0);
    return imp_bin(im, IR_add, imp_unsqueeze(im, first, 2, last), at);
}

/* roi_pool(input, rois, spatial_scale, pooled_height, pooled_width) -> the maxima, 0 of a part without elements, and
 * where in its plane each is */
bool aten_roi_pool(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *x = pt2_need(p, "input"), *rois = x ? pt2_need(p, "rois") : NULL, *corners, *pictures;
    int64_t h = pt2_i(p, "pooled_height", 1), w = pt2_i(p, "pooled_width", 1);
    struct ir_attr attrs[5];
    roi_words(p, attrs);
    if (!rois || !split_rois(p, &corners, &pictures))
        return false;
    if (imp_rank(x) != 4 || h < 1 || w < 1)
        return imp_bad(im, "pictures [n, c, h, w] and sizes of at least 1 are expected");
    const ir_expr dims[] = {imp_dim(rois, 0), imp_dim(x, 1), ir_const(p->ctx, h), ir_const(p->ctx, w)};
    ir_type type = ir_tensor_type(p->ctx, TCC_I32, 4, dims);
    struct ir_value *in[] = {x, rois};
    struct ir_node *n = imp_lib_of(im, "roi_pool", 2, in, 1, &type, 3, attrs + 1);
    if (!n)
        return false;
    struct ir_value *argmax = n->out[0], *which = numbers_of(p, x->type->dim, pictures, argmax);
    struct ir_value *y = which ? imp_gather(im, pt2_flat(p, x), which, 0) : NULL;
    struct ir_value *zero = y ? imp_like(im, x, 0) : NULL;
    y = y ? imp_select(im, imp_with(im, IR_lt, argmax, 0), zero, y) : NULL;
    return pt2_out(p, 0, y) && (!pt2_wants(p, 1) || pt2_out(p, 1, argmax));
}

/* The sizes of the operand that a gradient is by. */
static bool read_sizes(struct pt2 *p, ir_expr *dims)
{
    static const char *const sizes[] = {"batch_size", "channels", "height", "width"};
    for (int k = 0; k < 4; k++)
        if (!(dims[k] = pt2_e(p, sizes[k], 0)))
            return false;
    return true;
}

/* _roi_pool_backward(grad, rois, argmax, ..., batch_size, channels, height, width) */
bool aten_roi_pool_backward(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *dy = pt2_need(p, "grad"), *argmax = dy ? pt2_need(p, "argmax") : NULL, *corners, *pictures;
    ir_expr dims[4];
    pt2_ignore(p, "spatial_scale", "pooled_height", "pooled_width");
    if (!argmax || !read_sizes(p, dims) || !split_rois(p, &corners, &pictures))
        return false;
    ir_expr all = ir_mul(p->ctx, ir_mul(p->ctx, dims[0], dims[1]), ir_mul(p->ctx, dims[2], dims[3]));
    struct ir_value *zero = imp_like(im, dy, 0);
    dy = imp_select(im, imp_with(im, IR_lt, argmax, 0), zero, dy);
    struct ir_value *in[] = {imp_splat(im, dy ? imp_dtype(dy) : TCC_F32, 0, 1, &all),
                             pt2_flat(p, numbers_of(p, dims, pictures, argmax)), pt2_flat(p, dy)};
    struct ir_value *dx = in[1] && in[2] ? imp_op(im, IR_scatter_elements, 3, in,
                                                  IR_ATTRS(ir_attr_i(IR_ATTR_axis, 0), ir_attr_s(IR_ATTR_mode, "add")))
                                         : NULL;
    return dx && pt2_out(p, 0, imp_reshape(im, dx, 4, dims));
}

/* -- Regions each part of which reads channels of its own: to RoiAlign each part is a region, each such group of
 * channels a picture */

/* The parts of regions along one axis, [r, n]: where each begins, or ends. Of a ratio that the length decides the ends
 * are a rounding error early, lest a part of a whole length be one sample longer. */
static struct ir_value *bounds_of_parts(struct pt2 *p, struct ir_value *corners, int axis, int64_t n, bool end,
                                        double scale)
{
    struct imp *im = p->im;
    ir_expr count = ir_const(p->ctx, n), one = ir_const(p->ctx, 1);
    struct ir_value *from = imp_slice1(im, corners, 1, ir_const(p->ctx, axis), one),
                    *to = imp_slice1(im, corners, 1, ir_const(p->ctx, axis + 2), one);
    struct ir_value *length = imp_with(im, IR_div, imp_bin(im, IR_sub, to, from), (double)n);
    struct ir_value *i = imp_iota(im, 1, &count, 0, imp_dtype(corners));
    struct ir_value *at = imp_bin(im, IR_add, from, imp_bin(im, IR_mul, length, i));
    return end ? imp_bin(im, IR_add, at, imp_with(im, IR_mul, length, scale)) : at;
}

/* Regions as RoiAlign takes them: corners [r h w, 4], pictures [r h w]. */
static bool parts_of_regions(struct pt2 *p, int64_t h, int64_t w, bool sampled, struct ir_value **corners,
                             struct ir_value **pictures)
{
    struct imp *im = p->im;
    if (!split_rois(p, corners, pictures))
        return false;
    double scale = sampled ? 1 : imp_dtype(*corners) == TCC_F64 ? 1 - 1e-14 : 1 - 1e-6;
    ir_expr dims[] = {imp_dim(*corners, 0), ir_const(p->ctx, h), ir_const(p->ctx, w)},
            all = ir_mulc(p->ctx, dims[0], h * w), bins = ir_const(p->ctx, h * w), four = ir_const(p->ctx, 4);
    struct ir_value *parts[4];
    const int64_t by_row = 1, by_column = 2, last = 3, behind = 1;
    for (int k = 0; k < 4; k++) { /* x, y, x, y */
        int axis = k % 2;
        parts[k] = bounds_of_parts(p, *corners, axis, axis ? h : w, k > 1, scale);
        parts[k] = imp_unsqueeze(im, parts[k], 1, axis ? &by_column : &by_row);
        parts[k] = imp_unsqueeze(im, parts[k] ? imp_expand(im, parts[k], 3, dims) : NULL, 1, &last);
        if (!parts[k])
            return false;
    }
    struct ir_value *number = imp_with(im, IR_mul, imp_unsqueeze(im, *pictures, 1, &behind), (double)(h * w));
    number = imp_bin(im, IR_add, number, imp_iota(im, 1, &bins, 0, TCC_I64));
    *corners = imp_reshape(im, imp_concat(im, 4, parts, 3), 2, (const ir_expr[]){all, four});
    *pictures = number ? imp_reshape(im, number, 1, &all) : NULL;
    return *corners && *pictures;
}

/* Axes 1 and 2 of [a, b, c, ...] swapped, and the first two, or axes 1 and 2, joined then. */
static struct ir_value *regrouped(struct pt2 *p, struct ir_value *x, const ir_expr *from, const ir_expr *to)
{
    static const int64_t swap[] = {0, 2, 1, 3, 4};
    x = x ? imp_transpose(p->im, imp_reshape(p->im, x, 5, from), swap) : NULL;
    return x ? imp_reshape(p->im, x, 4, to) : NULL;
}

struct ps_roi {
    int64_t h, w;
    struct ir_attr attrs[5];
    struct ir_value *in[4];
    ir_expr bins, channels; /* of a part */
};

static bool read_ps_roi(struct pt2 *p, ir_expr channels, struct ps_roi *r)
{
    r->h = pt2_i(p, "pooled_height", 1);
    r->w = pt2_i(p, "pooled_width", 1);
    roi_words(p, r->attrs);
    r->attrs[0] = imp_user_text(p->im, "coordinate_transformation_mode", "half_pixel");
    r->attrs[2] = imp_user_int(p->im, "output_height", 1);
    r->attrs[3] = imp_user_int(p->im, "output_width", 1);
    if (r->h < 1 || r->w < 1)
        return imp_bad(p->im, "sizes of at least 1 are expected");
    r->bins = ir_const(p->ctx, r->h * r->w);
    r->channels = ir_floordiv(p->ctx, channels, r->bins);
    return imp_assume(p->im, IR_EQ, ir_mul(p->ctx, r->channels, r->bins), channels,
                      "the channels are a multiple of the parts of a region") &&
           parts_of_regions(p, r->h, r->w, pt2_i(p, "sampling_ratio", -1) > 0, &r->in[1], &r->in[2]);
}

/* The second result, of these dims: which channel each is of. */
static bool channel_mapping(struct pt2 *p, const ir_expr *dims)
{
    ir_expr all = ir_mul(p->ctx, ir_mul(p->ctx, dims[1], dims[2]), dims[3]);
    struct ir_value *which = imp_reshape(p->im, imp_iota(p->im, 1, &all, 0, TCC_I32), 3, dims + 1);
    return !pt2_wants(p, 1) || pt2_out(p, 1, which ? imp_expand(p->im, which, 4, dims) : NULL);
}

/* ps_roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio) -> means, which channel each
 * is of */
bool aten_ps_roi_align(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *x = pt2_need(p, "input");
    struct ps_roi r;
    if (!x || imp_rank(x) != 4 || !read_ps_roi(p, imp_dim(x, 1), &r))
        return x && imp_rank(x) != 4 && imp_bad(im, "pictures [n, c, h, w] are expected");
    const ir_expr from[] = {imp_dim(x, 0), r.channels, r.bins, imp_dim(x, 2), imp_dim(x, 3)},
                  to[] = {ir_mul(p->ctx, from[0], r.bins), r.channels, from[3], from[4]};
    r.in[0] = regrouped(p, x, from, to);
    struct ir_value *y = imp_roi_align(im, r.in, 1, 1, 5, r.attrs);
    if (!y)
        return false;
    const ir_expr h = ir_const(p->ctx, r.h), w = ir_const(p->ctx, r.w), regions = imp_dim(pt2_need(p, "rois"), 0),
                  parts[] = {regions, h, w, r.channels}, dims[] = {regions, r.channels, h, w};
    static const int64_t order[] = {0, 3, 1, 2};
    return pt2_out(p, 0, imp_transpose(im, imp_reshape(im, y, 4, parts), order)) && channel_mapping(p, dims);
}

/* RoiAlign's gradient by its pictures of these dims. */
static struct ir_value *roi_align_gradient(struct pt2 *p, struct ir_value **in, const ir_expr *dims,
                                           const struct ir_attr *attrs)
{
    in[3] = in[0] ? imp_splat(p->im, imp_dtype(in[0]), 0, 4, dims) : NULL;
    return in[3] ? imp_lib_value(p->im, "roialign_grad", 4, in, in[3]->type, 5, attrs) : NULL;
}

/* _ps_roi_align_backward(grad, rois, channel_mapping, ..., batch_size, channels, height, width) */
bool aten_ps_roi_align_backward(struct pt2 *p)
{
    struct imp *im = p->im;
    static const int64_t order[] = {0, 2, 3, 1};
    struct ir_value *dy = pt2_need(p, "grad");
    struct ps_roi r;
    ir_expr dims[4], one = ir_const(p->ctx, 1);
    pt2_ignore(p, "channel_mapping");
    if (!dy || !read_sizes(p, dims) || !read_ps_roi(p, dims[1], &r))
        return false;
    const ir_expr parts[] = {ir_mul(p->ctx, imp_dim(dy, 0), r.bins), r.channels, one, one},
                  small[] = {ir_mul(p->ctx, dims[0], r.bins), r.channels, dims[2], dims[3]},
                  from[] = {dims[0], r.bins, r.channels, dims[2], dims[3]};
    dy = imp_transpose(im, dy, order);
    r.in[0] = dy ? imp_reshape(im, dy, 4, parts) : NULL;
    return pt2_out(p, 0, regrouped(p, roi_align_gradient(p, r.in, small, r.attrs), from, dims));
}

/* _roi_align_backward(grad, rois, ..., batch_size, channels, height, width, ...) */
bool aten_roi_align_backward(struct pt2 *p)
{
    struct ir_value *in[4] = {pt2_need(p, "grad")};
    struct ir_attr attrs[5];
    ir_expr dims[4];
    if (!in[0] || !read_sizes(p, dims) || !split_rois(p, &in[1], &in[2]))
        return false;
    roi_words(p, attrs);
    return pt2_out(p, 0, roi_align_gradient(p, in, dims, attrs));
}

/* -- Regions each part of which reads channels of its own, whole elements of them */

/* Numbers rounded as C's round() does, halves away from 0. */
static struct ir_value *rounded(struct pt2 *p, struct ir_value *x)
{
    return imp_formula(p->im, "sign(x) * floor(abs(x) + 0.5)", x);
}

/* Which of `size` elements along one axis are in each of n parts of a region, [r, n, size]; *count [r, n]: how many. As
 * torchvision has it, a picture's last element is in none. */
static struct ir_value *elements_of_parts(struct pt2 *p, struct ir_value *corners, int axis, int64_t n, double scale,
                                          ir_expr size, struct ir_value **count)
{
    struct imp *im = p->im;
    ir_expr parts = ir_const(p->ctx, n), one = ir_const(p->ctx, 1);
    const int64_t behind = 2;
    struct ir_value *from = rounded(
                        p, imp_with(im, IR_mul, imp_slice1(im, corners, 1, ir_const(p->ctx, axis), one), scale)),
                    *to = rounded(
                        p, imp_with(im, IR_mul, imp_slice1(im, corners, 1, ir_const(p->ctx, axis + 2), one), scale));
    struct ir_value *width = imp_formula_n(im, "max(y - x, 1) / a", IMP_NUMBERS((double)n), from, to);
    struct ir_value *i = imp_iota(im, 1, &parts, 0, imp_dtype(corners));
    struct ir_value *last = imp_cast(im, imp_dim_value(im, ir_addc(p->ctx, size, -1)), imp_dtype(corners)), *ends[2];
    ends[0] = imp_formula(im, "min(max(floor(x * y) + z, 0), u)", width, i, from, last);
    ends[1] = imp_formula(im, "min(max(ceil(x * (y + 1)) + z, 0), u)", width, i, from, last);
    struct ir_value *place = imp_iota(im, 1, &size, 0, imp_dtype(corners));
    *count = imp_formula(im, "max(y - x, 0)", ends[0], ends[1]);
    for (int k = 0; k < 2; k++)
        if (!ends[k] || !(ends[k] = imp_unsqueeze(im, ends[k], 1, &behind)))
            return NULL;
    return imp_cast(im, imp_formula(im, "and(ge(x, y), lt(x, z))", place, ends[0], ends[1]), imp_dtype(corners));
}

/* ps_roi_pool's regions: what element (y, x) of a picture of `dims` weighs in part (i, j) of each, [r, 1, h, w, y,
 * x]. */
static struct ir_value *weights_of_parts(struct pt2 *p, const ir_expr *dims, ir_expr *parts, struct ir_value **pictures)
{
    struct imp *im = p->im;
    struct ir_value *corners, *count[2], *in[2];
    int64_t n[2] = {pt2_i(p, "pooled_height", 1), pt2_i(p, "pooled_width", 1)};
    double scale = pt2_f(p, "spatial_scale", 1);
    static const int64_t rows[] = {1, 3, 5}, columns[] = {1, 2, 4}, area[] = {1, 4, 5};
    if (n[0] < 1 || n[1] < 1)
        return imp_bad(im, "sizes of at least 1 are expected"), NULL;
    if (!split_rois(p, &corners, pictures))
        return NULL;
    for (int k = 0; k < 2; k++) {
        parts[k] = ir_const(p->ctx, n[k]);
        in[k] = elements_of_parts(p, corners, 1 - k, n[k], scale, dims[2 + k], &count[k]);
    }
    ir_expr rest = ir_mod(p->ctx, dims[1], ir_const(p->ctx, n[0] * n[1]));
    if (!in[0] || !in[1] ||
        !imp_assume(im, IR_EQ, rest, ir_const(p->ctx, 0), "the channels are a multiple of the parts of a region"))
        return NULL;
    struct ir_value *shaped = imp_unsqueeze(im, in[1], 3, columns);
    struct ir_value *all = imp_bin(im, IR_mul, imp_unsqueeze(im, in[0], 3, rows), shaped);
    const int64_t first = 2, second = 1;
    struct ir_value *other = imp_unsqueeze(im, count[1], 1, &second);
    struct ir_value *elements = imp_bin(im, IR_mul, imp_unsqueeze(im, count[0], 1, &first), other);
    struct ir_value *share = elements ? imp_unsqueeze(im, imp_with(im, IR_max, elements, 1), 3, area) : NULL;
    return imp_bin(im, IR_div, all, share);
}

/* ps_roi_pool(input, rois, spatial_scale, pooled_height, pooled_width) -> means, which channel each is of */
bool aten_ps_roi_pool(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *x = pt2_need(p, "input"), *pictures;
    ir_expr parts[2];
    static const int64_t plane[] = {4, 5};
    if (!x || imp_rank(x) != 4)
        return x && imp_bad(im, "pictures [n, c, h, w] are expected");
    struct ir_value *weights = weights_of_parts(p, x->type->dim, parts, &pictures);
    if (!weights)
        return false;
    const ir_expr channels = ir_floordiv(p->ctx, imp_dim(x, 1), ir_mul(p->ctx, parts[0], parts[1])),
                  dims[] = {imp_dim(pictures, 0), channels, parts[0], parts[1], imp_dim(x, 2), imp_dim(x, 3)};
    struct ir_value *read = imp_gather(im, x, pictures, 0);
    struct ir_value *each = imp_bin(im, IR_mul, read ? imp_reshape(im, read, 6, dims) : NULL, weights);
    return pt2_out(p, 0, imp_reduce(im, IR_reduce_sum, each, 2, plane, false)) && channel_mapping(p, dims);
}

/* _ps_roi_pool_backward(grad, rois, channel_mapping, ..., batch_size, channels, height, width) */
bool aten_ps_roi_pool_backward(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *dy = pt2_need(p, "grad"), *pictures;
    ir_expr dims[4], parts[2];
    static const int64_t plane[] = {4, 5}, behind = 1;
    pt2_ignore(p, "channel_mapping");
    if (!dy || !read_sizes(p, dims))
        return false;
    struct ir_value *weights = weights_of_parts(p, dims, parts, &pictures);
    if (!weights)
        return false;
    const ir_expr flat[] = {imp_dim(pictures, 0), ir_mul(p->ctx, dims[1], ir_mul(p->ctx, dims[2], dims[3]))};
    struct ir_value *each = imp_bin(im, IR_mul, imp_unsqueeze(im, dy, 2, plane), weights);
    struct ir_value *rows = imp_iota(im, 1, dims, 0, TCC_I64);
    struct ir_value *whose = imp_bin(im, IR_eq, imp_unsqueeze(im, pictures, 1, &behind), rows);
    struct ir_value *each_shaped = each ? imp_reshape(im, each, 2, flat) : NULL;
    struct ir_value *dx = imp_matmul(im, imp_cast(im, whose, imp_dtype(dy)), each_shaped, true, false, imp_dtype(dy));
    return dx && pt2_out(p, 0, imp_reshape(im, dx, 4, dims));
}
