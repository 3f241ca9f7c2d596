/* SPDX-License-Identifier: Apache-2.0 */
/* op_vision.c - torchvision's operators, by the operators of ONNX that mean the same. */
#include "compiler/pt2/pt2_int.h"

#define UNUSED(arg) ((void)(arg))

/* nms(dets [n, 4], scores [n], iou_threshold) -> the numbers of those that stay, by falling scores */
bool aten_nms(struct pt2 *p, int arg)
{
    UNUSED(arg);
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
    struct ir_value *rows = in[0] && in[1] ? pt2_onnx1(p, "NonMaxSuppression", 11, 4, in, 0, NULL) : NULL;
    if (!rows)
        return false;
    struct ir_value *column = imp_slice1(im, rows, 1, ir_const(p->ctx, 2), ir_const(p->ctx, 1));
    return pt2_out(p, 0, column ? imp_reshape(im, column, 1, (const ir_expr[]){imp_dim(rows, 0)}) : NULL);
}

/* The words that regions are read by, the same for both directions. */
static void roi_words(struct pt2 *p, struct onnx_attr *attrs)
{
    int64_t ratio = pt2_i(p, "sampling_ratio", -1);
    attrs[0] =
        pt2_attr_s("coordinate_transformation_mode", pt2_b(p, "aligned", false) ? "half_pixel" : "output_half_pixel");
    attrs[1] = pt2_attr_f("spatial_scale", pt2_f(p, "spatial_scale", 1));
    attrs[2] = pt2_attr_i("output_height", pt2_i(p, "pooled_height", 1));
    attrs[3] = pt2_attr_i("output_width", pt2_i(p, "pooled_width", 1));
    attrs[4] = pt2_attr_i("sampling_ratio", ratio < 0 ? 0 : ratio);
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
bool aten_roi_align(struct pt2 *p, int arg)
{
    UNUSED(arg);
    struct ir_value *in[3] = {pt2_need(p, "input")};
    struct onnx_attr attrs[5];
    roi_words(p, attrs);
    return in[0] && split_rois(p, &in[1], &in[2]) && pt2_out(p, 0, pt2_onnx1(p, "RoiAlign", 16, 3, in, 5, attrs));
}

/* _roi_align_backward(grad, rois, ..., batch_size, channels, height, width, ...) */
bool aten_roi_align_backward(struct pt2 *p, int arg)
{
    UNUSED(arg);
    static const char *const sizes[] = {"batch_size", "channels", "height", "width"};
    struct ir_value *in[4] = {pt2_need(p, "grad")};
    struct onnx_attr attrs[5];
    struct ir_attr words[5];
    ir_expr dims[4];
    for (int k = 0; k < 4; k++)
        if (!(dims[k] = pt2_e(p, sizes[k], 0)))
            return false;
    if (!in[0] || !split_rois(p, &in[1], &in[2]))
        return false;
    in[3] = imp_splat(p->im, imp_dtype(in[0]), 0, 4, dims);
    roi_words(p, attrs);
    for (int k = 0; k < 5; k++)
        if (!imp_user_attr(p->im, &attrs[k], &words[k]))
            return false;
    struct ir_node *n = in[3] ? imp_lib_of(p->im, "roialign_grad", 4, in, 1, &in[3]->type, 5, words) : NULL;
    return n && pt2_out(p, 0, n->out[0]);
}

/* deform_conv2d(input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups,
 * offset_groups, use_mask) */
bool aten_deform_conv2d(struct pt2 *p, int arg)
{
    UNUSED(arg);
    struct ir_value *in[] = {pt2_need(p, "input"), pt2_need(p, "weight"), pt2_need(p, "offset"), pt2_need(p, "bias"),
                             pt2_b(p, "use_mask", false) ? pt2_need(p, "mask") : NULL};
    int64_t h = pt2_i(p, "pad_h", 0), w = pt2_i(p, "pad_w", 0), pads[] = {h, w, h, w};
    int64_t strides[] = {pt2_i(p, "stride_h", 1), pt2_i(p, "stride_w", 1)},
            dilations[] = {pt2_i(p, "dilation_h", 1), pt2_i(p, "dilation_w", 1)};
    struct onnx_attr attrs[] = {pt2_attr_ints("pads", 4, pads), pt2_attr_ints("strides", 2, strides),
                                pt2_attr_ints("dilations", 2, dilations), pt2_attr_i("group", pt2_i(p, "groups", 1)),
                                pt2_attr_i("offset_group", pt2_i(p, "offset_groups", 1))};
    pt2_ignore(p, "mask"); /* without use_mask it is empty */
    return in[0] && in[1] && in[2] && in[3] &&
           pt2_out(p, 0, pt2_onnx1(p, "DeformConv", 19, in[4] ? 5 : 4, in, 5, attrs));
}
