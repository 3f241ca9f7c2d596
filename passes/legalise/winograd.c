/* SPDX-License-Identifier: Apache-2.0 */
/*
 * winograd.c - convolutions of floats by Winograd's algorithm (ir/winograd.h), where the machine is faster so: 36
 * products instead of 144 for 16 results of 3x3. Bounded; doc/numerics.md. Groups of channels are one each.
 */
#include "passes/legalise/legalise_int.h"
#include "ir/winograd.h"

#include <string.h>

typedef double row[IR_WINOGRAD_MOST];

static bool of_floats(const struct ir_node *n)
{
    return n->in[0].value->type->dtype == TCC_F32 && n->in[1].value->type->dtype == TCC_F32 &&
           n->out[0]->type->dtype == TCC_F32;
}

/* Weights of each axis, of each point each tap's. */
struct weights {
    row of[2][IR_WINOGRAD_MOST];
};

static void by_point(const struct ir_winograd w[2], struct weights *g)
{
    for (int axis = 0; axis < 2; axis++)
        for (int i = 0; i < w[axis].points; i++)
            for (int t = 0; t < w[axis].taps; t++)
                g->of[axis][i][t] = ir_winograd_weight(&w[axis], i, t);
}

static int taps_of(const struct ir_winograd w[2])
{
    return w[0].taps * w[1].taps;
}

static void transform_weights(const struct ir_winograd w[2], const struct weights *g, const float *tap, float *u,
                              int64_t step)
{
    row rows[IR_WINOGRAD_MOST] = {{0}};
    int across = w[1].taps;
    for (int i = 0; i < w[0].points; i++)
        for (int t = 0; t < taps_of(w); t++)
            rows[i][t % across] += g->of[0][i][t / across] * tap[t];
    for (int i = 0; i < w[0].points; i++)
        for (int j = 0; j < w[1].points; j++) {
            double sum = 0;
            for (int t = 0; t < across; t++)
                sum += rows[i][t] * g->of[1][j][t];
            u[(i * w[1].points + j) * step] = (float)sum;
        }
}

/* Weights that are there when compiling, of `out` output channels from `first` on, transformed: [points, filters * in,
 * out]. A long filter's last taps are 0. */
static struct ir_value *transformed_now(struct ir_builder *b, const struct ir_tensor *t, const struct ir_winograd w[2],
                                        int64_t first, int64_t out)
{
    int64_t in = t->dims[1], taps = taps_of(w), filters = ir_winograd_filters(w), all = t->nelems / (t->dims[0] * in),
            dims[3] = {ir_winograd_points(w), filters * in, out};
    struct ir_tensor *u = ir_tensor_new(TCC_F32, 3, dims);
    struct weights g;
    if (!u)
        ir_no_memory(b->ctx);
    by_point(w, &g);
    for (int64_t o = 0; o < out; o++)
        for (int64_t i = 0; i < filters * in; i++) {
            float tap[IR_WINOGRAD_ELEMENTS] = {0};
            int64_t from = i / in * taps, row = ((first + o) * in + i % in) * all;
            for (int64_t k = 0; k < taps && from + k < all; k++) /* weights in a model's file may lie at any address */
                memcpy(&tap[k], ir_tensor_at(t, row + from + k), sizeof tap[k]);
            transform_weights(w, &g, tap, (float *)u->data + i * out + o, filters * in * out);
        }
    return ir_constant(b, u);
}

/* Weights that are trained, transformed in each run: a product of the matrix that does so, a column for each tap, and
 * the taps, for all channels. */
static struct ir_value *transformed_later(struct ir_builder *b, struct ir_value *v, const struct ir_winograd w[2])
{
    static const int64_t taps_first[2][4] = {{2, 1, 0}, {2, 3, 1, 0}};
    int64_t taps = taps_of(w), dims[2] = {ir_winograd_points(w), taps};
    ir_expr in = v->type->dim[1], out = v->type->dim[0], rows = ir_const(b->ctx, dims[0]);
    ir_expr flat[] = {ir_const(b->ctx, taps), ir_mul(b->ctx, in, out)}, full[] = {rows, in, out};
    struct ir_tensor *t = ir_tensor_new(TCC_F32, 2, dims);
    struct weights g;
    if (!t)
        ir_no_memory(b->ctx);
    by_point(w, &g);
    for (int64_t i = 0; i < dims[0] * taps; i++) {
        const double *down = g.of[0][i / taps / w[1].points], *across = g.of[1][i / taps % w[1].points];
        ((float *)t->data)[i] = (float)(down[i % taps / w[1].taps] * across[i % taps % w[1].taps]);
    }
    struct ir_value *by[2] = {ir_constant(b, t), NULL};
    by[1] = ir_build1(b, IR_transpose, 1, &v,
                      IR_ATTRS(ir_attr_ints(IR_ATTR_perm, v->type->rank, taps_first[v->type->rank - 3])));
    by[1] = by[0] && by[1] ? ir_reshape_to(b, by[1], 2, flat) : NULL;
    struct ir_value *u = by[1] ? ir_build1(b, IR_matmul, 2, by, NULL) : NULL;
    return u ? ir_reshape_to(b, u, 3, full) : NULL;
}

/* The part of v along an axis that is the group's; v itself, if there is one group. */
static struct ir_value *part(struct ir_builder *b, struct ir_value *v, int axis, int64_t groups, int64_t group)
{
    int64_t size = v ? ir_const_or(v->type->dim[axis], 0) / groups : 0;
    return v && groups > 1 ? ir_slice_axis(b, v, axis, ir_const(b->ctx, group * size), ir_const(b->ctx, size)) : v;
}

static struct ir_value *of_group(struct ir_builder *b, const struct ir_node *n, const struct ir_winograd w[2],
                                 int64_t groups, int64_t group)
{
    struct ir_value *weights = n->in[1].value, *bias = n->nin > 2 ? n->in[2].value : NULL;
    int axes = n->out[0]->type->rank - 2;
    int64_t kernel[2], strides[2], dilations[2], out = ir_const_or(weights->type->dim[0], 0) / groups;
    for (int i = 0; i < axes; i++) {
        const struct ir_winograd *along = &w[2 - axes + i];
        kernel[i] = ir_const_or(weights->type->dim[2 + i], 0);
        strides[i] = along->stride;
        dilations[i] = along->dilation;
    }
    struct ir_value *args[3] = {part(b, n->in[0].value, 1, groups, group)};
    if (ir_const_of(weights)) {
        args[1] = transformed_now(b, ir_const_of(weights), w, group * out, out);
    } else {
        struct ir_value *own = part(b, weights, 0, groups, group);
        args[1] = own ? transformed_later(b, own, w) : NULL;
    }
    args[2] = part(b, bias, 0, groups, group);
    if (!args[0] || !args[1] || (bias && !args[2]))
        return NULL;
    return ir_build1(b, IR_winograd, bias ? 3 : 2, args,
                     IR_ATTRS(ir_attr_ints(IR_ATTR_kernel, axes, kernel), ir_attr_ints(IR_ATTR_strides, axes, strides),
                              ir_attr_ints(IR_ATTR_dilations, axes, dilations),
                              ir_attr_exprs(IR_ATTR_before, axes, ir_attr(n, IR_ATTR_before)->exprs),
                              ir_attr_exprs(IR_ATTR_shape, axes, n->out[0]->type->dim + 2)));
}

bool legalise_winograd(struct pass_run *r, struct ir_builder *b, const struct ir_node *n, struct ir_value **v)
{
    struct ir_winograd w[2];
    bool may = n->op == IR_conv && pass_opts(r)->level > 0 && pass_bounded(r) && of_floats(n);
    int64_t groups = ir_get_i(n, IR_ATTR_groups, 1);
    *v = NULL;
    if (!may || !ir_winograd_of(n, (int)legalise_window(r, n, PASS_WINDOW_TILE), w))
        return true;
    struct ir_value **parts = IR_NEWN(b->ctx, groups, struct ir_value *);
    for (int64_t i = 0; i < groups; i++) {
        parts[i] = of_group(b, n, w, groups, i);
        if (!parts[i])
            return false;
    }
    *v = groups > 1 ? ir_concat(b, (int)groups, parts, 1) : parts[0];
    return *v != NULL;
}
