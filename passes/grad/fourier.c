/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fourier.c - gradients of Fourier transforms.
 *
 * A transform is a matrix F of roots of unity; as a function of real and imaginary parts its gradient is the conjugate
 * transpose: F's is the inverse times its length, and the other way round. One-sided, what is left out of the result
 * has no gradient (zeros behind the rest), and what a real result takes from both sides of the spectrum counts twice.
 */
#include "passes/grad/grad_int.h"
#include "passes/rewrite_int.h"

#include <string.h>

/* An integer operand as an expression: what the function says of it, else a size that the transform makes known;
 * absent: `otherwise`. */
static ir_expr size_of(struct grad *g, struct ir_value *v, ir_expr otherwise)
{
    ir_expr e;
    return !v ? otherwise : pass_exprs_of(g->ctx, v, &e, 1) == 1 ? e : ir_fresh(g->ctx, "u", 1, INT64_C(1) << 40);
}

struct transform {
    ir_expr length;
    int axis;
    bool inverse, onesided;
};

/* x[..., 1 or 2] through the library op. */
static struct ir_value *transformed(struct grad *g, struct ir_value *x, const struct transform *t)
{
    ir_expr dims[TCC_MAX_RANK];
    if (!x)
        return NULL;
    int rank = x->type->rank;
    memcpy(dims, x->type->dim, (size_t)rank * sizeof *dims);
    dims[t->axis] = t->onesided && !t->inverse ? ir_addc(g->ctx, ir_floordiv(g->ctx, t->length, ir_const(g->ctx, 2)), 1)
                                               : t->length;
    dims[rank - 1] = ir_const(g->ctx, t->onesided && t->inverse ? 1 : 2);
    ir_type type = ir_tensor_type(g->ctx, (enum tcc_dtype)x->type->dtype, rank, dims);
    struct ir_value *in[] = {x, ir_dim_value(g->b, t->length)};
    return grad_library(g, "dft", 2, in, type,
                        IR_ATTRS(ir_attr_user_i("axis", t->axis), ir_attr_user_i("inverse", t->inverse),
                                 ir_attr_user_i("onesided", t->onesided)));
}

/* The first `size` elements along the axis, zeros behind what there is. */
static struct ir_value *resized(struct grad *g, struct ir_value *v, int axis, ir_expr size)
{
    ir_expr zero = ir_const(g->ctx, 0);
    if (!v || ir_expr_eq(g->ctx, v->type->dim[axis], size) == IR_YES)
        return v;
    ir_expr more = ir_max(g->ctx, zero, ir_sub(g->ctx, size, v->type->dim[axis]));
    return ir_slice_axis(g->b, ir_pad_axis(g->b, v, NULL, axis, zero, more), axis, zero, size);
}

/* v times or divided by a size. */
static struct ir_value *scaled(struct grad *g, enum ir_op op, struct ir_value *v, ir_expr size)
{
    return v ? ir_binary(g->b, op, v, ir_cast_to(g->b, ir_dim_value(g->b, size), (enum tcc_dtype)v->type->dtype))
             : NULL;
}

/* The gradient d of the result of t, by its operand: as many elements along the axis as the transform is long
 * (one-sided: as it reads), pairs. */
static struct ir_value *by_operand(struct grad *g, struct ir_value *d, const struct transform *t)
{
    struct transform back = *t;
    back.inverse = !t->inverse;
    if (!t->inverse || !t->onesided) {
        back.onesided = false;
        return scaled(g, t->inverse ? IR_div : IR_mul, transformed(g, d, &back), t->length);
    }
    struct ir_value *y = transformed(g, d, &back);
    ir_expr dims[TCC_MAX_RANK];
    if (!y)
        return NULL;
    for (int k = 0; k < y->type->rank; k++)
        dims[k] = ir_const(g->ctx, 1);
    dims[t->axis] = y->type->dim[t->axis];
    struct ir_value *k = ir_iota(g->b, y->type->rank, dims, t->axis, TCC_I64);
    y = ir_formula(g->b, "x * select(or(eq(y, 0), eq(y * 2, z)), 1, 2)", y, k, ir_dim_value(g->b, t->length));
    return scaled(g, IR_div, y, t->length);
}

/* Of pairs, what an operand with a last axis of `parts` has. */
static struct ir_value *kept_parts(struct grad *g, struct ir_value *v, ir_expr parts)
{
    return v && ir_is_value(parts, 1) ? ir_slice_axis(g->b, v, v->type->rank - 1, ir_const(g->ctx, 0), parts) : v;
}

/* (x[..., 1 or 2], length?, axis?) inverse, onesided, axis */
void grad_dft(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0), *at = grad_in(n, 2);
    ir_type t = n->in[0].value->type;
    int64_t axis = -2, parts;
    ir_expr e;
    if (!d)
        return;
    bool known = !at || (pass_exprs_of(g->ctx, at, &e, 1) == 1 && ir_is_const(e, &axis));
    axis = ir_user_i(n, "axis", known ? axis : TCC_MAX_RANK);
    axis += axis < 0 ? t->rank : 0;
    if (axis < 0 || axis > t->rank - 2 || !ir_is_const(t->dim[t->rank - 1], &parts)) {
        grad_fail(g, n, "the axis, or whether its numbers are complex, is known only at run time");
        return;
    }
    struct transform f = {
        .axis = (int)axis, .inverse = ir_user_i(n, "inverse", 0) != 0, .onesided = ir_user_i(n, "onesided", 0) != 0};
    f.length = f.inverse || !f.onesided ? d->type->dim[axis] : size_of(g, grad_in(n, 1), t->dim[axis]);
    grad_accumulate(g, n, 0,
                    kept_parts(g, resized(g, by_operand(g, d, &f), f.axis, t->dim[axis]), t->dim[t->rank - 1]));
}

/* (signal[b, length, 1 or 2] or [b, length], step, window?, frame length?) onesided -> [b, frames, bins, 2]: by signal
 * and window */
void grad_stft(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0), *x = n->in[0].value, *step = grad_in(n, 1), *window = grad_in(n, 2);
    ir_type t = x->type;
    struct transform f = {.axis = 2};
    int64_t parts = 1;
    if (!d)
        return;
    if (t->rank == 3 && !ir_is_const(t->dim[2], &parts)) {
        grad_fail(g, n, "whether its numbers are complex is known only at run time");
        return;
    }
    f.length = size_of(g, grad_in(n, 3), window ? window->type->dim[0] : t->dim[1]);
    struct ir_value *y = kept_parts(g, by_operand(g, d, &f), ir_const(g->ctx, parts));
    if (!y || !step)
        return;
    ir_expr dims[4] = {t->dim[0], d->type->dim[1], f.length, ir_const(g->ctx, parts)}, one = ir_const(g->ctx, 1);
    y = ir_reshape_to(g->b, y, t->rank + 1, dims); /* without its last axis where the signal has none */
    step = ir_cast_to(g->b, ir_reshape_to(g->b, step, 0, NULL), TCC_I64);
    struct ir_value *index = ir_binary(g->b, IR_mul, ir_iota(g->b, 2, dims + 1, 0, TCC_I64), step);
    index = ir_binary(g->b, IR_add, index, ir_iota(g->b, 2, dims + 1, 1, TCC_I64));
    if (window && grad_wants(g, n, 2)) {
        struct ir_value *read = ir_gather(g->b, x, index, 1);
        struct ir_value *sum =
            grad_reduce(g, IR_reduce_sum, ir_binary(g->b, IR_mul, y, read), t->rank == 3 ? 11 : 3, false);
        grad_accumulate(g, n, 2, resized(g, sum, 0, window->type->dim[0]));
    }
    if (window) {
        ir_expr along[2] = {f.length, one};
        window = ir_reshape_to(g->b, resized(g, window, 0, f.length), t->rank - 1, along);
        y = ir_binary(g->b, IR_mul, y, window);
    }
    if (grad_wants(g, n, 0))
        grad_accumulate(g, n, 0, grad_put(g, t, 1, index, y));
}
