/* SPDX-License-Identifier: Apache-2.0 */
/*
 * window.c - gradients of convolutions and pools. Each is another op of the family with the same strides,
 * dilations and padding: conv by x is conv_transpose, conv_transpose by x is conv, both by their weights are
 * conv_grad_weight with x and dy changing places.
 */
#include "passes/grad/grad_int.h"

#include <string.h>

#include "base/mutant.h"

#define MAX_ATTRS 8

/* The window attributes that the ops of the family share; others are added behind. */
static int shared_attrs(const struct ir_node *n, bool kernel, struct ir_attr *out)
{
    static const enum ir_attr_key keys[] = {IR_ATTR_strides, IR_ATTR_dilations, IR_ATTR_before};
    int count = 0;
    for (int i = 0; i < 3; i++)
        if (ir_attr(n, keys[i]))
            out[count++] = *ir_attr(n, keys[i]);
    if (kernel)
        out[count++] = *ir_attr(n, IR_ATTR_kernel);
    else
        out[count++] = ir_attr_i(IR_ATTR_groups, ir_get_i(n, IR_ATTR_groups, 1));
    return count;
}

/* Attribute `shape`: the spatial dims of t. */
static struct ir_attr spatial(ir_type t)
{
    return ir_attr_exprs(IR_ATTR_shape, t->rank - 2, t->dim + 2);
}

static struct ir_value *build(struct grad *g, enum ir_op op, struct ir_value *x, struct ir_value *y,
                              const struct ir_attr *attrs)
{
    struct ir_value *in[] = {x, y};
    return ir_build1(g->b, op, y ? 2 : 1, in, attrs);
}

/* op(x, y), conv_transpose or conv_grad_weight, with n's window, to the spatial dims of t. */
static struct ir_value *windowed(struct grad *g, enum ir_op op, const struct ir_node *n, struct ir_value *x,
                                 struct ir_value *y, ir_type t)
{
    struct ir_attr attrs[MAX_ATTRS] = {{0}};
    int count = shared_attrs(n, false, attrs);
    attrs[count] = spatial(t);
    return x && y ? build(g, op, x, y, attrs) : NULL;
}

/* conv(d, w) with n's window, as long as t, which may be nothing. Behind d is as much padding as the last window needs;
 * a conv that would go further (rows that the strides leave over) is cut. */
static struct ir_value *convolved(struct grad *g, const struct ir_node *n, struct ir_value *d, struct ir_value *w,
                                  ir_type t)
{
    struct ir_attr attrs[MAX_ATTRS] = {{0}};
    ir_expr after[TCC_MAX_RANK];
    int count = shared_attrs(n, false, attrs);
    const struct ir_attr *strides = ir_attr(n, IR_ATTR_strides), *dilations = ir_attr(n, IR_ATTR_dilations),
                         *in_front = ir_attr(n, IR_ATTR_before);
    if (!d || !w)
        return NULL;
    for (int i = 0; i < t->rank - 2; i++) {
        int64_t dilation = MUTANT(13, dilations != NULL, false) ? dilations->ints[i] : 1;
        ir_expr reach = ir_mulc(g->ctx, ir_addc(g->ctx, w->type->dim[i + 2], -1), dilation);
        ir_expr last = ir_mulc(g->ctx, ir_addc(g->ctx, t->dim[i + 2], -1), strides ? strides->ints[i] : 1);
        ir_expr need = ir_addc(g->ctx, ir_add(g->ctx, last, reach), 1);
        need = ir_sub(g->ctx, need, d->type->dim[i + 2]);
        need = in_front ? ir_sub(g->ctx, need, in_front->exprs[i]) : need;
        after[i] = ir_max(g->ctx, need, ir_const(g->ctx, 0));
    }
    attrs[count++] = ir_attr_exprs(IR_ATTR_after, t->rank - 2, after);
    for (int i = 2; i < t->rank; i++)
        if (t->dim[i]->lo < 1)
            attrs[count] = ir_attr_s(IR_ATTR_mode, "empty");
    struct ir_value *v = build(g, IR_conv, d, w, attrs);
    for (int i = 2; i < t->rank && v; i++)
        if (ir_expr_eq(g->ctx, v->type->dim[i], t->dim[i]) != IR_YES)
            v = ir_slice_axis(g->b, v, i, ir_const(g->ctx, 0), t->dim[i]);
    return v;
}

/* To the bias: the sum over all but channels. */
static void accumulate_bias(struct grad *g, struct ir_node *n, struct ir_value *d)
{
    if (grad_wants(g, n, 2))
        grad_accumulate(g, n, 2, grad_reduce(g, IR_reduce_sum, d, ((1u << d->type->rank) - 1) & ~2u, false));
}

void grad_rule_conv(struct grad *g, struct ir_node *n)
{
    struct ir_value *x = n->in[0].value, *w = n->in[1].value, *d = grad_out(g, n, 0);
    if (!d)
        return;
    accumulate_bias(g, n, d);
    d = ir_cast_to(g->b, d, (enum tcc_dtype)x->type->dtype);
    if (grad_wants(g, n, 0))
        grad_accumulate(g, n, 0, windowed(g, IR_conv_transpose, n, d, w, x->type));
    if (grad_wants(g, n, 1))
        grad_accumulate(g, n, 1, windowed(g, IR_conv_grad_weight, n, x, d, w->type));
}

void grad_rule_conv_transpose(struct grad *g, struct ir_node *n)
{
    struct ir_value *x = n->in[0].value, *w = n->in[1].value, *d = grad_out(g, n, 0);
    if (!d)
        return;
    accumulate_bias(g, n, d);
    if (grad_wants(g, n, 0))
        grad_accumulate(g, n, 0, convolved(g, n, d, w, x->type));
    if (grad_wants(g, n, 1))
        grad_accumulate(g, n, 1, windowed(g, IR_conv_grad_weight, n, d, x, w->type));
}

/* (x, dy) -> weights w: it is linear in both, and <w', conv_grad_weight(x, dy)> = <dy, conv(x, w')>. */
void grad_rule_conv_grad_weight(struct grad *g, struct ir_node *n)
{
    struct ir_value *x = n->in[0].value, *y = n->in[1].value, *d = grad_out(g, n, 0);
    if (grad_wants(g, n, 0))
        grad_accumulate(g, n, 0, windowed(g, IR_conv_transpose, n, y, d, x->type));
    if (grad_wants(g, n, 1))
        grad_accumulate(g, n, 1, convolved(g, n, x, d, y->type));
}

/* -- Pools ----------------------------------------------------------------------------------------- */

static struct ir_value *pool_back(struct grad *g, const struct ir_node *n, enum ir_op op, struct ir_value *d,
                                  struct ir_value *index, ir_type t)
{
    struct ir_attr attrs[MAX_ATTRS] = {{0}};
    int count = shared_attrs(n, true, attrs);
    attrs[count] = spatial(t);
    return d ? build(g, op, d, index, attrs) : NULL;
}

void grad_rule_max_pool(struct grad *g, struct ir_node *n)
{
    struct ir_value *x = n->in[0].value, *d = grad_out(g, n, 0);
    struct ir_attr attrs[MAX_ATTRS] = {{0}};
    int count = shared_attrs(n, true, attrs);
    if (!d)
        return;
    if (ir_attr(n, IR_ATTR_after))
        attrs[count] = *ir_attr(n, IR_ATTR_after);
    struct ir_value *index = build(g, IR_max_pool_index, x, NULL, attrs);
    grad_accumulate(g, n, 0, index ? pool_back(g, n, IR_max_pool_grad, d, index, x->type) : NULL);
}

/* [n, c, spatial...] as [n, c, all] */
static struct ir_value *planes(struct grad *g, struct ir_value *v)
{
    ir_expr dims[3] = {NULL, NULL, ir_const(g->ctx, 1)};
    if (!v)
        return NULL;
    dims[0] = v->type->dim[0];
    dims[1] = v->type->dim[1];
    for (int i = 2; i < v->type->rank; i++)
        dims[2] = ir_mul(g->ctx, dims[2], v->type->dim[i]);
    return ir_reshape_to(g->b, v, 3, dims);
}

void grad_rule_max_pool_grad(struct grad *g, struct ir_node *n)
{
    ir_type t = n->in[0].value->type;
    struct ir_value *in[] = {planes(g, grad_out(g, n, 0)), planes(g, n->in[1].value)};
    struct ir_value *v = ir_build1(g->b, IR_gather_elements, 2, in, IR_ATTRS(ir_attr_i(IR_ATTR_axis, 2)));
    grad_accumulate(g, n, 0, v ? ir_reshape_to(g->b, v, t->rank, t->dim) : NULL);
}

static struct ir_value *sum_pool(struct grad *g, const struct ir_node *n, struct ir_value *x, const ir_expr *after)
{
    struct ir_attr attrs[MAX_ATTRS] = {{0}};
    int count = shared_attrs(n, true, attrs);
    if (after)
        attrs[count++] = ir_attr_exprs(IR_ATTR_after, x->type->rank - 2, after);
    attrs[count] = ir_attr_s(IR_ATTR_mode, "sum");
    return x ? build(g, IR_avg_pool, x, NULL, attrs) : NULL;
}

static bool padded(const struct ir_node *n)
{
    const struct ir_attr *both[] = {ir_attr(n, IR_ATTR_before), ir_attr(n, IR_ATTR_after)};
    for (int k = 0; k < 2; k++)
        for (int i = 0; both[k] && i < both[k]->n; i++)
            if (!ir_is_value(both[k]->exprs[i], 0))
                return true;
    return false;
}

/* What a mean is divided by: the number of taps, or, where padding does not count, a tensor of numbers. */
static struct ir_value *tap_counts(struct grad *g, const struct ir_node *n, ir_type t, const char *mode)
{
    const struct ir_attr *kernel = ir_attr(n, IR_ATTR_kernel), *after = ir_attr(n, IR_ATTR_after);
    ir_expr dims[TCC_MAX_RANK];
    double taps = 1;
    for (int i = 0; i < kernel->n; i++)
        taps *= (double)kernel->ints[i];
    if (!strcmp(mode, "full") || MUTANT(12, !padded(n), true))
        return ir_constant_f(g->b, (enum tcc_dtype)t->dtype, taps);
    memcpy(dims, t->dim, (size_t)t->rank * sizeof *dims);
    dims[0] = dims[1] = ir_const(g->ctx, 1);
    struct ir_value *ones = grad_full(g, ir_tensor_type(g->ctx, (enum tcc_dtype)t->dtype, t->rank, dims), 1);
    /* A window that holds nothing of x divides nothing. */
    struct ir_value *one = ir_constant_f(g->b, (enum tcc_dtype)t->dtype, 1);
    return ir_binary(g->b, IR_max, sum_pool(g, n, ones, after ? after->exprs : NULL), one);
}

void grad_rule_avg_pool(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0);
    const char *mode = ir_get_s(n, IR_ATTR_mode, "valid");
    ir_type t = n->in[0].value->type;
    if (d && strcmp(mode, "sum") != 0)
        d = ir_binary(g->b, IR_div, d, tap_counts(g, n, t, mode));
    grad_accumulate(g, n, 0, pool_back(g, n, IR_sum_pool_grad, d, NULL, t));
}

void grad_rule_sum_pool_grad(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0);
    const struct ir_attr *kernel = ir_attr(n, IR_ATTR_kernel), *strides = ir_attr(n, IR_ATTR_strides),
                         *dilations = ir_attr(n, IR_ATTR_dilations), *in_front = ir_attr(n, IR_ATTR_before);
    ir_type t = n->in[0].value->type;
    ir_expr after[TCC_MAX_RANK];
    if (!d)
        return;
    for (int i = 0; i < t->rank - 2; i++) {
        int64_t reach = (kernel->ints[i] - 1) * (dilations ? dilations->ints[i] : 1) + 1;
        ir_expr need = ir_mulc(g->ctx, ir_addc(g->ctx, t->dim[i + 2], -1), strides ? strides->ints[i] : 1);
        need = ir_sub(g->ctx, ir_addc(g->ctx, need, reach), d->type->dim[i + 2]);
        need = in_front ? ir_sub(g->ctx, need, in_front->exprs[i]) : need;
        after[i] = ir_max(g->ctx, need, ir_const(g->ctx, 0));
    }
    struct ir_value *v = sum_pool(g, n, d, after);
    for (int i = 2; i < t->rank && v; i++)
        if (ir_expr_eq(g->ctx, v->type->dim[i], t->dim[i]) != IR_YES)
            v = ir_slice_axis(g->b, v, i, ir_const(g->ctx, 0), t->dim[i]);
    grad_accumulate(g, n, 0, v);
}
