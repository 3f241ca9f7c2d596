/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample.c - the gradient of grid_sample, by x and by the grid: the op spelled out in ops that have gradients, and the
 * sweep over those. runtime/libop/sample.c says what it computes.
 */
#include "passes/grad/grad_int.h"

#include <string.h>

struct sampler {
    struct grad *g;
    struct ir_builder *b;
    enum tcc_dtype wide;
    bool align, zeros, reflection;
    int ntaps;                 /* along an axis: 1 nearest, 2 linear, 4 cubic */
    int nd;                    /* spatial dims */
    struct ir_value *x, *grid; /* x[n, c, spatial...], grid[n, p, nd] */
    ir_expr points;
};

static struct ir_value *number(const struct sampler *s, ir_expr e, double scale, double offset)
{
    struct ir_value *v = ir_cast_to(s->b, ir_dim_value(s->b, e), s->wide);
    return ir_formula_n(s->b, "x * a + b", IR_NUMBERS(scale, offset), v);
}

/* Back and forth between the ends of an axis of `size` elements, their outer halves included unless corners are
 * aligned: a triangle wave. */
static struct ir_value *reflected(const struct sampler *s, struct ir_value *v, ir_expr size)
{
    const double *lo = IR_NUMBERS(s->align ? 0 : -0.5);
    struct ir_value *range = number(s, size, 1, s->align ? -1 : 0);
    struct ir_value *twice = ir_formula(s->b, "max(x + x, 1)", range); /* of one aligned element anything but 0 */
    struct ir_value *t = ir_formula_n(s->b, "mod(abs(x - a), y)", lo, v, twice);
    return ir_formula_n(s->b, "min(x, y - x) + a", lo, t, twice);
}

/* [n, p]: positions in elements along a spatial axis; the grid's last axis counts axes from the last. Cubic: not
 * brought in, its taps are. */
static struct ir_value *position(const struct sampler *s, int axis)
{
    ir_expr size = s->x->type->dim[2 + axis], dims[2] = {s->x->type->dim[0], s->points};
    struct ir_value *v =
        ir_slice_axis(s->g->b, s->grid, 2, ir_const(s->g->ctx, s->nd - 1 - axis), ir_const(s->g->ctx, 1));
    v = ir_cast_to(s->b, v ? ir_reshape_to(s->b, v, 2, dims) : NULL, s->wide);
    struct ir_value *half = number(s, size, 0.5, s->align ? -0.5 : 0);
    v = ir_formula(s->b, s->align ? "(x + 1) * y" : "(x + 1) * y - 0.5", v, half);
    if (s->ntaps == 1)
        v = ir_unary(s->b, IR_round, v);
    if (s->zeros || s->ntaps == 4)
        return v;
    if (s->reflection)
        v = reflected(s, v, size);
    return ir_formula(s->b, "clip(x, 0, y)", v, number(s, size, 1, -1));
}

/* The weight of tap k (0 .. 3) at `t` behind tap 1: cubic convolution with a = -0.75. */
static struct ir_value *cubic_weight(const struct sampler *s, int k, struct ir_value *t)
{
    const double a = -0.75;
    /* Of the distance d to the tap: up to 1 (a + 2) d^3 - (a + 3) d^2 + 1, up to 2 a d^3 - 5a d^2 + 8a d - 4a. */
    const double near[4] = {a + 2, -(a + 3), 0, 1}, far[4] = {a, -5 * a, 8 * a, -4 * a};
    struct ir_value *d = ir_formula_n(s->b, k < 2 ? "x + a" : "b - x", IR_NUMBERS(1 - k, k - 1), t);
    return ir_formula_n(s->b, "((x * a + b) * x + c) * x + d", k == 1 || k == 2 ? near : far, d);
}

/* Tap k of an axis for positions v: its index along it, and its weight. */
static struct ir_value *tap(const struct sampler *s, int axis, int k, struct ir_value *v, struct ir_value **weight)
{
    ir_expr size = s->x->type->dim[2 + axis];
    struct ir_value *fraction = ir_formula(s->b, "x - floor(x)", v), *last = number(s, size, 1, -1);
    struct ir_value *at = ir_formula_n(s->b, "floor(x) + a", IR_NUMBERS(s->ntaps == 4 ? k - 1 : k), v);
    *weight = s->ntaps == 4   ? cubic_weight(s, k, fraction)
              : s->ntaps == 1 ? ir_constant_f(s->b, s->wide, 1)
              : k             ? fraction
                              : ir_formula(s->b, "1 - x", fraction);
    if (s->zeros)
        *weight = ir_formula(s->b, "select(and(ge(x, 0), le(x, y)), z, 0)", at, last, *weight);
    else if (s->reflection && s->ntaps == 4)
        at = reflected(s, at, size);
    return ir_cast_to(s->b, ir_formula(s->b, "clip(x, 0, y)", at, last), TCC_I64);
}

/* The op's result, [n, c, p]. */
static struct ir_value *sampled(const struct sampler *s)
{
    struct ir_ctx *ctx = s->g->ctx;
    struct ir_value *v[TCC_MAX_RANK], *sum = NULL;
    const ir_expr *x = s->x->type->dim;
    ir_expr flat[3] = {x[0], x[1], ir_const(ctx, 1)}, row[3] = {x[0], ir_const(ctx, 1), s->points},
            all[3] = {x[0], x[1], s->points};
    int ncombined = 1; /* taps of all axes together */
    for (int a = 0; a < s->nd; a++) {
        flat[2] = ir_mul(ctx, flat[2], x[2 + a]);
        v[a] = position(s, a);
        ncombined *= s->ntaps;
    }
    struct ir_value *planes = ir_cast_to(s->b, ir_reshape_to(s->b, s->x, 3, flat), s->wide);
    for (int k = 0; k < ncombined; k++) {
        struct ir_value *index = NULL, *weight = NULL, *w;
        for (int a = 0, rest = k; a < s->nd; a++, rest /= s->ntaps) {
            struct ir_value *i = tap(s, a, rest % s->ntaps, v[a], &w);
            struct ir_value *size = ir_dim_value(s->b, x[2 + a]);
            index = index ? ir_binary(s->b, IR_add, ir_binary(s->b, IR_mul, index, size), i) : i;
            weight = weight ? ir_binary(s->b, IR_mul, weight, w) : w;
        }
        index = index ? ir_reshape_to(s->b, index, 3, row) : NULL;
        struct ir_value *in[2] = {planes, index ? ir_expand_to(s->b, index, 3, all) : NULL};
        struct ir_value *read = ir_build1(s->b, IR_gather_elements, 2, in, IR_ATTRS(ir_attr_i(IR_ATTR_axis, 2)));
        if (weight && weight->type->rank)
            weight = ir_reshape_to(s->b, weight, 3, row);
        struct ir_value *term = ir_binary(s->b, IR_mul, read, weight);
        sum = sum ? ir_binary(s->b, IR_add, sum, term) : term;
    }
    return ir_cast_to(s->b, sum, (enum tcc_dtype)s->x->type->dtype);
}

void grad_grid_sample(struct grad *g, struct ir_node *n)
{
    struct ir_value *x = n->in[0].value, *grid = n->in[1].value, *d = grad_out(g, n, 0);
    const char *mode = ir_user_s(n, "mode", "linear"), *padding = ir_user_s(n, "padding_mode", "zeros");
    enum tcc_dtype dt = (enum tcc_dtype)grid->type->dtype;
    struct sampler s = {.g = g, .b = g->b, .x = x, .nd = x->type->rank - 2};
    s.wide = tcc_small_float(dt) ? TCC_F32 : dt;
    s.align = ir_user_i(n, "align_corners", 0) != 0;
    s.ntaps = !strcmp(mode, "nearest") ? 1 : strstr(mode, "cubic") ? 4 : 2;
    s.zeros = !strcmp(padding, "zeros");
    s.reflection = !strcmp(padding, "reflection");
    s.points = ir_const(g->ctx, 1);
    for (int i = 1; i <= s.nd; i++)
        s.points = ir_mul(g->ctx, s.points, grid->type->dim[i]);
    ir_expr dims[3] = {grid->type->dim[0], s.points, ir_const(g->ctx, s.nd)},
            out[3] = {x->type->dim[0], x->type->dim[1], s.points};
    s.grid = ir_reshape_to(g->b, grid, 3, dims);
    struct ir_value *y = s.grid ? sampled(&s) : NULL;
    if (!d || !y)
        return;
    /* A sweep of its own over what was just built. */
    struct grad *sub = grad_new(g->ctx, g->b, g->b->func);
    struct ir_value *ends[2] = {x, grid};
    for (int i = 0; i < 2; i++)
        sub->active[ends[i]->id] = sub->is_leaf[ends[i]->id] = grad_wants_value(g, ends[i]);
    grad_mark(sub, g->b->block, g->b->before);
    grad_accumulate_value(sub, y, ir_reshape_to(g->b, d, 3, out));
    grad_sweep(sub, g->b->block, y->def);
    g->failed |= sub->failed;
    for (int i = 0; i < 2; i++)
        grad_accumulate(g, n, i, grad_total(sub, ends[i]));
}
