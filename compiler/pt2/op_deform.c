/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deform_conv2d: inference by ONNX's DeformConv; what is trained, and the gradient, by gathers of the four elements
 * around each position, weighed, and a product with the weights.
 */
#include "compiler/pt2/pt2_int.h"

enum { CORNERS = 4 };

struct deform {
    struct ir_value *x, *w, *offset, *mask; /* mask NULL: none */
    int64_t stride[2], pad[2], dilation[2], groups, offset_groups, kernel[2];
    ir_expr n, channels, out, size[2], to[2]; /* size: of the picture, to: of the result */
    ir_expr taps, points;                     /* of a kernel; positions of an offset group: taps x the result's plane */
    /* [n, offset group, 1, points]: an element's number in its plane, and what it counts along either axis, 0 outside;
     * [n, offset group, channels of it, points]: the elements, and their sum as weighed. */
    struct ir_value *at[CORNERS], *weight[CORNERS][2], *is[CORNERS][2], *value[CORNERS], *sampled;
};

static bool read_deform(struct pt2 *p, struct deform *d)
{
    static const char *const words[][2] = {{"stride_h", "stride_w"}, {"pad_h", "pad_w"}, {"dilation_h", "dilation_w"}};
    int64_t *const to[] = {d->stride, d->pad, d->dilation};
    *d = (struct deform){.x = pt2_need(p, "input"), .w = pt2_need(p, "weight"), .offset = pt2_need(p, "offset")};
    if (!d->x || !d->w || !d->offset)
        return false;
    d->mask = pt2_b(p, "use_mask", false) ? pt2_need(p, "mask") : NULL;
    pt2_ignore(p, "mask"); /* without use_mask it is empty */
    for (int k = 0; k < 3; k++)
        for (int axis = 0; axis < 2; axis++)
            to[k][axis] = pt2_i(p, words[k][axis], k != 1);
    d->groups = pt2_i(p, "groups", 1);
    d->offset_groups = pt2_i(p, "offset_groups", 1);
    if (imp_rank(d->x) != 4 || imp_rank(d->w) != 4 || imp_rank(d->offset) != 4 || d->groups < 1 || d->offset_groups < 1)
        return imp_bad(p->im, "input, weight and offset with 4 dims are expected");
    d->n = imp_dim(d->x, 0);
    d->channels = imp_dim(d->x, 1);
    d->out = imp_dim(d->w, 0);
    for (int axis = 0; axis < 2; axis++) {
        d->size[axis] = imp_dim(d->x, 2 + axis);
        d->to[axis] = imp_dim(d->offset, 2 + axis);
        if (!ir_is_const(imp_dim(d->w, 2 + axis), &d->kernel[axis]))
            return imp_unsupported(p->im, "a kernel of open size");
    }
    d->taps = ir_const(p->ctx, d->kernel[0] * d->kernel[1]);
    d->points = ir_mul(p->ctx, d->taps, ir_mul(p->ctx, d->to[0], d->to[1]));
    return true;
}

/* An axis of the positions: [n, offset group, taps, to, to], as the kernel's taps lie, moved by the offsets. */
static struct ir_value *positions(struct pt2 *p, const struct deform *d, int axis)
{
    struct imp *im = p->im;
    const ir_expr pairs[] = {d->n, ir_const(p->ctx, d->offset_groups), d->taps, ir_const(p->ctx, 2),
                             ir_mul(p->ctx, d->to[0], d->to[1])},
                  dims[] = {d->n, pairs[1], d->taps, d->to[0], d->to[1]},
                  grid[] = {ir_const(p->ctx, d->kernel[0]), ir_const(p->ctx, d->kernel[1]), d->to[0], d->to[1]},
                  flat[] = {d->taps, d->to[0], d->to[1]};
    struct ir_value *moved =
        imp_slice1(im, imp_reshape(im, d->offset, 5, pairs), 3, ir_const(p->ctx, axis), ir_const(p->ctx, 1));
    enum tcc_dtype type = imp_dtype(d->offset);
    struct ir_value *tap = imp_with(im, IR_mul, imp_iota(im, 4, grid, axis, type), (double)d->dilation[axis]),
                    *from = imp_with(im, IR_mul, imp_iota(im, 4, grid, 2 + axis, type), (double)d->stride[axis]);
    struct ir_value *base = imp_with(im, IR_sub, imp_bin(im, IR_add, tap, from), (double)d->pad[axis]);
    base = base ? imp_reshape(im, base, 3, flat) : NULL;
    return moved && base ? imp_bin(im, IR_add, imp_reshape(im, moved, 5, dims), base) : NULL;
}

/* Along an axis the elements on either side of each position: their numbers, brought inside, what they count, and are
 * they inside? */
static bool sides(struct pt2 *p, const struct deform *d, int axis, struct ir_value **at, struct ir_value **weight,
                  struct ir_value **inside)
{
    struct imp *im = p->im;
    const ir_expr dims[] = {d->n, ir_const(p->ctx, d->offset_groups), ir_const(p->ctx, 1), d->points};
    struct ir_value *position = positions(p, d, axis);
    position = position ? imp_reshape(im, position, 4, dims) : NULL;
    struct ir_value *size = position ? imp_cast(im, imp_dim_value(im, d->size[axis]), imp_dtype(position)) : NULL;
    struct ir_value *low = imp_un(im, IR_floor, pt2_without_gradient(p, position));
    struct ir_value *part = imp_bin(im, IR_sub, position, low);
    for (int side = 0; part && side < 2; side++) {
        struct ir_value *here = imp_with(im, IR_add, low, side);
        inside[side] = imp_formula(im, "and(ge(x, 0), lt(x, y))", here, size);
        weight[side] = imp_formula(im, side ? "select(y, x, 0)" : "select(y, 1 - x, 0)", part, inside[side]);
        at[side] = imp_cast(im, imp_formula(im, "select(y, x, 0)", here, inside[side]), TCC_I64);
    }
    return part && weight[0] && weight[1];
}

static bool sample(struct pt2 *p, struct deform *d)
{
    struct imp *im = p->im;
    struct ir_value *at[2][2], *weight[2][2], *is[2][2];
    ir_expr group = ir_const(p->ctx, d->offset_groups), each = ir_floordiv(p->ctx, d->channels, group);
    const ir_expr planes[] = {d->n, group, each, ir_mul(p->ctx, d->size[0], d->size[1])},
                  dims[] = {d->n, group, each, d->points};
    struct ir_value *x = imp_reshape(im, d->x, 4, planes);
    if (!x || !sides(p, d, 0, at[0], weight[0], is[0]) || !sides(p, d, 1, at[1], weight[1], is[1]))
        return false;
    for (int k = 0; k < CORNERS; k++) {
        d->weight[k][0] = weight[0][k / 2];
        d->weight[k][1] = weight[1][k % 2];
        d->is[k][0] = is[0][k / 2];
        d->is[k][1] = is[1][k % 2];
        d->at[k] = imp_bin(im, IR_add, imp_bin(im, IR_mul, at[0][k / 2], imp_dim_value(im, d->size[1])), at[1][k % 2]);
        d->at[k] = d->at[k] ? imp_expand(im, d->at[k], 4, dims) : NULL;
        d->value[k] = imp_gather_elements(im, x, d->at[k], 3);
        struct ir_value *part = imp_bin(im, IR_mul, imp_bin(im, IR_mul, d->weight[k][0], d->weight[k][1]), d->value[k]);
        d->sampled = k ? imp_bin(im, IR_add, d->sampled, part) : part;
    }
    return d->sampled != NULL;
}

/* [n, offset group, 1, points] of the mask; what it does to samples, and their gradients. */
static struct ir_value *masked(struct pt2 *p, const struct deform *d, struct ir_value *v)
{
    const ir_expr dims[] = {d->n, ir_const(p->ctx, d->offset_groups), ir_const(p->ctx, 1), d->points};
    return d->mask ? imp_bin(p->im, IR_mul, v, imp_reshape(p->im, d->mask, 4, dims)) : v;
}

/* The dims of what a product is of: weights [g, out / g, channels / g x taps], columns [n, g, channels / g x taps,
 * plane], results [n, g, out / g, plane]. */
struct product {
    ir_expr weight[3], columns[4], result[4];
};

static struct product product_of(struct pt2 *p, const struct deform *d)
{
    ir_expr g = ir_const(p->ctx, d->groups), plane = ir_mul(p->ctx, d->to[0], d->to[1]),
            rows = ir_floordiv(p->ctx, d->out, g), inner = ir_mul(p->ctx, imp_dim(d->w, 1), d->taps);
    return (struct product){{g, rows, inner}, {d->n, g, inner, plane}, {d->n, g, rows, plane}};
}

/* Of what is trained. */
static struct ir_value *composed(struct pt2 *p, struct deform *d, struct ir_value *bias)
{
    struct imp *im = p->im;
    struct product m = product_of(p, d);
    const ir_expr dims[] = {d->n, d->out, d->to[0], d->to[1]};
    if (!sample(p, d))
        return NULL;
    struct ir_value *columns = masked(p, d, d->sampled);
    columns = columns ? imp_reshape(im, columns, 4, m.columns) : NULL;
    struct ir_value *y =
        columns ? imp_matmul(im, imp_reshape(im, d->w, 3, m.weight), columns, false, false, TCC_NONE) : NULL;
    struct ir_value *bias_along = y ? imp_along(im, bias, 1, 4) : NULL;
    return y ? imp_bin(im, IR_add, imp_reshape(im, y, 4, dims), bias_along) : NULL;
}

/* deform_conv2d(input, weight, offset, mask, bias, stride_h, ..., groups, offset_groups, use_mask) */
bool aten_deform_conv2d(struct pt2 *p)
{
    struct deform d;
    struct ir_value *bias = pt2_need(p, "bias");
    if (!bias || !read_deform(p, &d))
        return false;
    if (p->im->train)
        return pt2_out(p, 0, composed(p, &d, bias));
    struct ir_value *in[] = {d.x, d.w, d.offset, bias, d.mask};
    const int64_t pads[] = {d.pad[0], d.pad[1], d.pad[0], d.pad[1]};
    struct imp *im = p->im;
    const struct ir_attr words[] = {imp_user_ints(im, "pads", 4, pads), imp_user_ints(im, "strides", 2, d.stride),
                                    imp_user_ints(im, "dilations", 2, d.dilation), imp_user_int(im, "group", d.groups),
                                    imp_user_int(im, "offset_group", d.offset_groups)};
    const ir_expr dims[] = {d.n, d.out, imp_dim(d.offset, 2), imp_dim(d.offset, 3)};
    ir_type type = ir_tensor_type(p->ctx, imp_dtype(d.x), 4, dims);
    return pt2_out(p, 0, imp_lib_value(im, "deform_conv", in[4] ? 5 : 4, in, type, 5, words));
}

/* By the weights, and by what they were multiplied with. */
static bool product_gradients(struct pt2 *p, struct deform *d, struct ir_value *dy, struct ir_value **columns)
{
    struct imp *im = p->im;
    static const int64_t first = 0;
    struct product m = product_of(p, d);
    struct ir_value *dims = masked(p, d, d->sampled);
    dy = imp_reshape(im, dy, 4, m.result);
    if (!dy || !dims)
        return false;
    struct ir_value *dw = imp_matmul(im, dy, imp_reshape(im, dims, 4, m.columns), false, true, TCC_NONE);
    dw = imp_reduce(im, IR_reduce_sum, dw, 1, &first, false);
    *columns = imp_matmul(im, imp_reshape(im, d->w, 3, m.weight), dy, true, false, TCC_NONE);
    *columns = *columns ? imp_reshape(im, *columns, 4, d->sampled->type->dim) : NULL;
    return *columns && dw && (!pt2_wants(p, 1) || pt2_out(p, 1, imp_reshape(im, dw, 4, d->w->type->dim)));
}

/* By the picture: each sample's to the elements that it is made of. */
static bool picture_gradient(struct pt2 *p, struct deform *d, struct ir_value *ds)
{
    ir_expr group = ir_const(p->ctx, d->offset_groups);
    const ir_expr planes[] = {d->n, group, ir_floordiv(p->ctx, d->channels, group),
                              ir_mul(p->ctx, d->size[0], d->size[1])};
    struct ir_value *dx = imp_splat(p->im, imp_dtype(d->x), 0, 4, planes);
    for (int k = 0; dx && k < CORNERS; k++) {
        struct ir_value *part = imp_bin(p->im, IR_mul, imp_bin(p->im, IR_mul, ds, d->weight[k][0]), d->weight[k][1]);
        struct ir_value *in[] = {dx, d->at[k], part};
        dx = part ? imp_op(p->im, IR_scatter_elements, 3, in,
                           IR_ATTRS(ir_attr_i(IR_ATTR_axis, 3), ir_attr_s(IR_ATTR_mode, "add")))
                  : NULL;
    }
    return dx && pt2_out(p, 0, imp_reshape(p->im, dx, 4, d->x->type->dim));
}

/* By the offsets: the differences of elements along the axis, as the other axis weighs them. */
static bool offset_gradient(struct pt2 *p, struct deform *d, struct ir_value *ds)
{
    struct imp *im = p->im;
    static const int64_t channels = 2, pair = 3;
    const ir_expr dims[] = {d->n, ir_const(p->ctx, d->offset_groups), d->taps, ir_mul(p->ctx, d->to[0], d->to[1])};
    struct ir_value *both[2];
    for (int axis = 0; axis < 2; axis++) {
        struct ir_value *slope = NULL;
        for (int k = 0; k < CORNERS; k++) {
            bool far = axis ? k % 2 : k / 2;
            struct ir_value *part = imp_bin(im, IR_mul, d->weight[k][!axis], d->value[k]);
            part = part ? imp_select(im, d->is[k][axis], part, imp_like(im, part, 0)) : NULL;
            slope = !slope ? imp_un(im, IR_neg, part) : imp_bin(im, far ? IR_add : IR_sub, slope, part);
        }
        struct ir_value *sum = imp_reduce(im, IR_reduce_sum, imp_bin(im, IR_mul, ds, slope), 1, &channels, true);
        both[axis] = sum ? imp_unsqueeze(im, imp_reshape(im, sum, 4, dims), 1, &pair) : NULL;
        if (!both[axis])
            return false;
    }
    struct ir_value *all = imp_concat(im, 2, both, 3);
    return all && pt2_out(p, 2, imp_reshape(im, all, 4, d->offset->type->dim));
}

/* _deform_conv2d_backward(grad, input, weight, offset, mask, bias, ...) -> by input, weight, offset, mask, bias */
bool aten_deform_conv2d_backward(struct pt2 *p)
{
    struct imp *im = p->im;
    struct deform d;
    static const int64_t others[] = {0, 2, 3}, channels = 2;
    struct ir_value *dy = pt2_need(p, "grad"), *columns;
    pt2_ignore(p, "bias");
    if (!dy || !read_deform(p, &d) || !sample(p, &d) || !product_gradients(p, &d, dy, &columns))
        return false;
    struct ir_value *ds = masked(p, &d, columns);
    if (!ds || (pt2_wants(p, 0) && !picture_gradient(p, &d, ds)) || (pt2_wants(p, 2) && !offset_gradient(p, &d, ds)))
        return false;
    if (pt2_wants(p, 3)) {
        struct ir_value *sum =
            imp_reduce(im, IR_reduce_sum, imp_bin(im, IR_mul, columns, d.sampled), 1, &channels, true);
        struct ir_value *mask = d.mask ? d.mask : pt2_t(p, "mask");
        if (!sum || !mask ||
            !pt2_out(p, 3,
                     d.mask ? imp_reshape(im, sum, 4, mask->type->dim)
                            : imp_splat(im, imp_dtype(mask), 0, imp_rank(mask), mask->type->dim)))
            return false;
    }
    return !pt2_wants(p, 4) || pt2_out(p, 4, imp_reduce(im, IR_reduce_sum, dy, 3, others, false));
}
