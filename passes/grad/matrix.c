/* SPDX-License-Identifier: Apache-2.0 */
/* matrix.c - gradients of two library ops that are linear: affine_grid, col2im. */
#include "passes/grad/grad_int.h"
#include "passes/rewrite_int.h"

/* -- affine_grid ----------------------------------------------------------------------------------- */

/* [points, 1]: coordinate j of the points whose axes are `dims`; the last axis comes first, behind them all a 1. */
static struct ir_value *coordinate(struct grad *g, int k, const ir_expr *dims, int j, bool align, enum tcc_dtype dt)
{
    struct ir_builder *b = g->b;
    ir_expr column[2] = {ir_const(g->ctx, 1), ir_const(g->ctx, 1)};
    for (int i = 0; i < k; i++)
        column[0] = ir_mul(g->ctx, column[0], dims[i]);
    if (j == k)
        return ir_expand_to(b, ir_constant_f(b, dt, 1), 2, column);
    int axis = k - 1 - j;
    struct ir_value *v = ir_iota(g->b, k, dims, axis, dt), *size = ir_cast_to(b, ir_dim_value(b, dims[axis]), dt);
    v = ir_formula(b, align ? "(x + x) / max(y - 1, 1) - 1" : "(x + x + 1) / y - 1", v, size);
    return ir_reshape_to(b, v, 2, column);
}

/* The result is theta times the points' coordinates: d times these, summed over the points. */
void grad_affine_grid(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0), *columns[TCC_MAX_RANK];
    if (!d)
        return;
    int k = d->type->rank - 2;
    enum tcc_dtype dt = (enum tcc_dtype)d->type->dtype, wide = tcc_small_float(dt) ? TCC_F32 : dt;
    for (int j = 0; j <= k; j++)
        columns[j] = coordinate(g, k, d->type->dim + 1, j, ir_user_i(n, "align_corners", 0) != 0, wide);
    struct ir_value *points = ir_concat(g->b, k + 1, columns, 1);
    if (!points)
        return;
    ir_expr dims[3] = {d->type->dim[0], points->type->dim[0], d->type->dim[k + 1]};
    d = ir_cast_to(g->b, ir_reshape_to(g->b, d, 3, dims), wide);
    grad_accumulate(g, n, 0, ir_matmul(g->b, d, points, true, false, wide));
}

/* -- col2im ---------------------------------------------------------------------------------------- */

struct windows {
    int nd;
    ir_expr image[TCC_MAX_RANK], block[TCC_MAX_RANK], dims[TCC_MAX_RANK]; /* image: padded; dims: block, then windows */
    int64_t strides[TCC_MAX_RANK], dilations[TCC_MAX_RANK], before[TCC_MAX_RANK], after[TCC_MAX_RANK];
};

static bool read_windows(struct grad *g, struct ir_node *n, struct windows *w)
{
    const int64_t *strides, *dilations, *pads;
    struct ir_ctx *c = g->ctx;
    int nstrides = ir_user_ints(n, "strides", &strides), ndilations = ir_user_ints(n, "dilations", &dilations),
        npads = ir_user_ints(n, "pads", &pads);
    w->nd = n->out[0]->type->rank - 2;
    if (2 * w->nd > TCC_MAX_RANK || pass_exprs_of(c, n->in[2].value, w->block, w->nd) != w->nd)
        return grad_fail(g, n, "its windows' sizes are known only at run time, or have too many axes"), false;
    for (int i = 0; i < w->nd; i++) {
        w->strides[i] = i < nstrides ? strides[i] : 1;
        w->dilations[i] = i < ndilations ? dilations[i] : 1;
        w->before[i] = i < npads ? pads[i] : 0;
        w->after[i] = w->nd + i < npads ? pads[w->nd + i] : 0;
        w->image[i] = ir_addc(c, n->out[0]->type->dim[2 + i], w->before[i] + w->after[i]);
        ir_expr span = ir_addc(c, ir_mulc(c, ir_addc(c, w->block[i], -1), w->dilations[i]), 1);
        w->dims[i] = w->block[i];
        w->dims[w->nd + i] = ir_addc(c, ir_floordiv(c, ir_sub(c, w->image[i], span), ir_const(c, w->strides[i])), 1);
    }
    return true;
}

/* Where in a plane of the padded image a window's element lies, by its place in the window and the window's. */
static struct ir_value *places(struct grad *g, const struct windows *w)
{
    struct ir_builder *b = g->b;
    struct ir_value *sum = ir_constant_i(b, TCC_I64, 0);
    for (int i = 0; i < w->nd; i++) {
        struct ir_value *in = ir_iota(g->b, 2 * w->nd, w->dims, i, TCC_I64),
                        *of = ir_iota(g->b, 2 * w->nd, w->dims, w->nd + i, TCC_I64);
        const double *by = IR_NUMBERS((double)w->dilations[i], (double)w->strides[i]);
        sum = ir_formula_n(b, "x * y + (z * a + u * b)", by, sum, ir_dim_value(b, w->image[i]), in, of);
    }
    return sum;
}

/* Each element went to one place, or into the padding. */
void grad_col2im(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0);
    ir_type t = n->in[0].value->type;
    struct windows w = {0};
    ir_expr before[TCC_MAX_RANK], after[TCC_MAX_RANK], zero = ir_const(g->ctx, 0);
    if (!d || !read_windows(g, n, &w))
        return;
    ir_expr flat[3] = {d->type->dim[0], d->type->dim[1], ir_const(g->ctx, 1)}, count = ir_const(g->ctx, 1);
    for (int i = 0; i < w.nd + 2; i++) {
        before[i] = i < 2 ? zero : ir_const(g->ctx, w.before[i - 2]);
        after[i] = i < 2 ? zero : ir_const(g->ctx, w.after[i - 2]);
    }
    for (int i = 0; i < 2 * w.nd; i++)
        count = ir_mul(g->ctx, count, w.dims[i]);
    for (int i = 0; i < w.nd; i++)
        flat[2] = ir_mul(g->ctx, flat[2], w.image[i]);
    struct ir_value *image = ir_pad(g->b, d, NULL, before, after);
    struct ir_value *in[] = {ir_reshape_to(g->b, image, 3, flat), ir_reshape_to(g->b, places(g, &w), 1, &count)};
    struct ir_value *v = ir_gather(g->b, in[0], in[1], 2);
    grad_accumulate(g, n, 0, v ? ir_reshape_to(g->b, v, 3, t->dim) : NULL);
}
