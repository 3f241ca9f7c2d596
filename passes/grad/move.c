/* SPDX-License-Identifier: Apache-2.0 */
/*
 * move.c - gradients of the ops that move elements by fixed places: views, slices, concat, pads.
 * Those that move by indices are in gather.c.
 */
#include "passes/grad/grad_int.h"

#include <string.h>

#include "base/mutant.h"

void grad_rule_same(struct grad *g, struct ir_node *n)
{
    grad_accumulate(g, n, 0, grad_out(g, n, 0));
}

void grad_rule_reshape(struct grad *g, struct ir_node *n)
{
    ir_type t = n->in[0].value->type;
    struct ir_value *d = grad_out(g, n, 0);
    grad_accumulate(g, n, 0, d ? ir_reshape_to(g->b, d, t->rank, t->dim) : NULL);
}

void grad_rule_transpose(struct grad *g, struct ir_node *n)
{
    const int64_t *perm = ir_attr(n, IR_ATTR_perm)->ints;
    const struct grad_sum *sum = &g->sums[n->out[0]->id];
    int64_t back[TCC_MAX_RANK];
    for (int i = 0; i < n->out[0]->type->rank; i++)
        back[perm[i]] = i;
    if (sum->parts.n == 1 && sum->parts.at[0].form == GRAD_PRODUCT && perm[0] == 1) { /* (v' w)' = w' v */
        struct cotangent p = sum->parts.at[0];
        grad_add_cotangent(g, n->in[0].value, (struct cotangent){.form = GRAD_PRODUCT, .v = p.w, .w = p.v, .to = p.to});
        return;
    }
    grad_accumulate(g, n, 0, ir_transpose_by(g->b, grad_out(g, n, 0), MUTANT(5, back, perm)));
}

void grad_rule_expand(struct grad *g, struct ir_node *n)
{
    grad_accumulate(g, n, 0, grad_out(g, n, 0));
}

/* -- slice ----------------------------------------------------------------------------------------- */

/* Steps of -1 and below: the other way round, from the last element taken. */
static struct ir_value *ascending(struct grad *g, struct ir_value *d, ir_expr *starts, int64_t *steps)
{
    ir_expr from[TCC_MAX_RANK], sizes[TCC_MAX_RANK], by[TCC_MAX_RANK];
    int rank = d->type->rank;
    bool any = false;
    for (int i = 0; i < rank; i++) {
        bool down = steps[i] < 0;
        ir_expr last = ir_addc(g->ctx, d->type->dim[i], -1);
        from[i] = down ? last : ir_const(g->ctx, 0);
        sizes[i] = d->type->dim[i];
        by[i] = ir_const(g->ctx, down ? -1 : 1);
        if (down) {
            starts[i] = ir_add(g->ctx, starts[i], ir_mulc(g->ctx, last, steps[i]));
            steps[i] = -steps[i];
        }
        any |= down;
    }
    if (!any)
        return d;
    return ir_slice(g->b, d, from, sizes, by);
}

static bool known_le(struct grad *g, ir_expr a, ir_expr b)
{
    return ir_fact_holds(g->ctx, &(struct ir_fact){.relation = IR_LE, .a = a, .b = b}, 0, NULL) == IR_YES;
}

/* A start at which `size` elements lie inside the axis. The slice says so itself where it takes any; where it takes
 * none, it may begin anywhere. */
static ir_expr start_inside(struct grad *g, ir_expr start, ir_expr size, ir_expr dim)
{
    ir_expr zero = ir_const(g->ctx, 0), most = ir_sub(g->ctx, dim, size);
    if (size->lo >= MUTANT(333, 1, INT64_MIN))
        return start;
    if (!known_le(g, start, most))
        start = ir_min(g->ctx, start, most);
    return known_le(g, zero, start) ? start : ir_max(g->ctx, start, zero);
}

/* step - 1 zeros behind each element along axis, as far as `room` elements go. */
static struct ir_value *spread_out(struct grad *g, struct ir_value *d, int axis, int64_t step, ir_expr room)
{
    ir_expr dims[TCC_MAX_RANK + 1];
    int rank = d->type->rank;
    for (int i = 0; i <= rank; i++)
        dims[i] = i <= axis ? d->type->dim[i] : i == axis + 1 ? ir_const(g->ctx, 1) : d->type->dim[i - 1];
    d = ir_reshape_to(g->b, d, rank + 1, dims);
    d = ir_pad_axis(g->b, d, NULL, axis + 1, ir_const(g->ctx, 0), ir_const(g->ctx, step - 1));
    if (!d)
        return NULL;
    memmove(dims + axis + 1, dims + axis + 2, (size_t)(rank - axis - 1) * sizeof *dims);
    ir_expr length = dims[axis] = ir_mulc(g->ctx, dims[axis], step);
    d = ir_reshape_to(g->b, d, rank, dims);
    ir_expr kept = ir_min(g->ctx, length, room); /* of nothing, room may be below 0 */
    if (!known_le(g, ir_const(g->ctx, 0), kept))
        kept = ir_max(g->ctx, kept, ir_const(g->ctx, 0));
    return kept == length ? d : ir_slice_axis(g->b, d, axis, ir_const(g->ctx, 0), kept);
}

static struct ir_value *number(struct grad *g, ir_expr e)
{
    int64_t c;
    if (ir_is_const(e, &c))
        return ir_constant_i(g->b, TCC_I64, c);
    return ir_dim_value(g->b, e);
}

/* A step known only at run time: added up at start + i * step along axis. */
static struct ir_value *put_back(struct grad *g, struct ir_value *d, ir_type t, int axis, ir_expr start, ir_expr step)
{
    ir_expr dims[TCC_MAX_RANK], size = d->type->dim[axis];
    memcpy(dims, d->type->dim, (size_t)t->rank * sizeof *dims);
    dims[axis] = t->dim[axis];
    struct ir_value *step_value = number(g, step);
    struct ir_value *index = ir_binary(g->b, IR_mul, ir_iota(g->b, 1, &size, 0, TCC_I64), step_value);
    index = ir_binary(g->b, IR_add, index, number(g, start));
    return grad_put(g, ir_tensor_type(g->ctx, (enum tcc_dtype)t->dtype, t->rank, dims), axis, index, d);
}

void grad_rule_slice(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0);
    ir_type t = n->in[0].value->type;
    ir_expr starts[TCC_MAX_RANK], behind[TCC_MAX_RANK];
    int64_t steps[TCC_MAX_RANK];
    int cut = -1, ncut = 0;

    for (int i = 0; i < t->rank && d; i++) {
        ir_expr step = ir_attr(n, IR_ATTR_steps)->exprs[i];
        starts[i] = ir_attr(n, IR_ATTR_starts)->exprs[i];
        if (ir_is_const(step, &steps[i]))
            continue;
        d = put_back(g, d, t, i, starts[i], step);
        starts[i] = ir_const(g->ctx, 0);
        steps[i] = 1;
    }
    d = d ? ascending(g, d, starts, steps) : NULL;
    for (int i = 0; i < t->rank && d; i++)
        if (steps[i] > 1)
            d = spread_out(g, d, i, steps[i], ir_sub(g->ctx, t->dim[i], starts[i]));
    for (int i = 0; i < t->rank && d; i++) {
        starts[i] = start_inside(g, starts[i], d->type->dim[i], t->dim[i]);
        behind[i] = ir_sub(g->ctx, t->dim[i], ir_add(g->ctx, starts[i], d->type->dim[i]));
        if (d->type->dim[i] == t->dim[i])
            starts[i] = behind[i] = ir_const(g->ctx, 0);
        else
            ncut++, cut = i;
    }
    if (d && ncut == 1)
        grad_add_cotangent(g, n->in[0].value,
                           (struct cotangent){.form = GRAD_SLICE, .axis = cut, .start = starts[cut], .v = d});
    else if (d)
        grad_accumulate(g, n, 0, ir_pad(g->b, d, NULL, starts, behind));
}

void grad_rule_concat(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0);
    int axis = (int)ir_get_i(n, IR_ATTR_axis, 0);
    ir_expr at = ir_const(g->ctx, 0);
    for (int i = 0; i < n->nin && d; i++) {
        ir_expr size = n->in[i].value->type->dim[axis];
        if (grad_wants(g, n, i))
            grad_accumulate(g, n, i, ir_slice_axis(g->b, d, axis, at, size));
        at = MUTANT(6, ir_add(g->ctx, at, size), at);
    }
}

void grad_rule_interleave(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0);
    const struct ir_attr *strides = ir_attr(n, IR_ATTR_strides);
    ir_expr starts[TCC_MAX_RANK], steps[TCC_MAX_RANK];
    for (int i = 0; i < n->nin && d; i++) {
        ir_type t = n->in[i].value->type;
        for (int a = t->rank - 1, k = strides->n - 1, r = i; a >= 0; a--, k--) {
            int64_t s = k >= 0 ? strides->ints[k] : 1;
            starts[a] = ir_const(g->ctx, r % s);
            steps[a] = ir_const(g->ctx, s);
            r /= (int)s;
        }
        if (grad_wants(g, n, i))
            grad_accumulate(g, n, i, ir_slice(g->b, d, starts, t->dim, steps));
    }
}

/* -- pad ------------------------------------------------------------------------------------------- */

/* The sum of the gradient outside of what x fills. */
static void pad_value(struct grad *g, struct ir_node *n, struct ir_value *d, struct ir_value *inner)
{
    unsigned all = (1u << d->type->rank) - 1;
    struct ir_value *total = grad_reduce(g, IR_reduce_sum, d, all, false),
                    *inside = grad_reduce(g, IR_reduce_sum, inner, all, false);
    grad_accumulate(g, n, 1, total && inside ? ir_binary(g->b, IR_sub, total, inside) : NULL);
}

/* i64[out]: where along its axis of `in` elements each of the result's came from. Reflection has period 2 (in - 1). */
static struct ir_value *sources(struct grad *g, const char *mode, ir_expr in, ir_expr in_front, ir_expr out)
{
    struct ir_builder *b = g->b;
    struct ir_value *in_front_value = number(g, in_front);
    struct ir_value *i = ir_binary(b, IR_sub, ir_iota(g->b, 1, &out, 0, TCC_I64), in_front_value);
    struct ir_value *size = number(g, in), *zero = ir_constant_i(b, TCC_I64, 0),
                    *last = number(g, ir_addc(g->ctx, in, -1));
    if (!strcmp(mode, "edge"))
        return ir_binary(b, IR_min, ir_binary(b, IR_max, i, zero), last);
    if (!strcmp(mode, "wrap"))
        return ir_binary(b, IR_mod, i, size);
    struct ir_value *one = ir_constant_i(b, TCC_I64, 1);
    struct ir_value *period = ir_binary(b, IR_max, ir_binary(b, IR_add, last, MUTANT(7, last, size)), one);
    struct ir_value *in_period = ir_binary(b, IR_mod, i, period);
    return ir_binary(b, IR_min, in_period, ir_binary(b, IR_sub, period, in_period));
}

static struct ir_value *pad_other(struct grad *g, const struct ir_node *n, struct ir_value *d, const char *mode)
{
    ir_type t = n->in[0].value->type;
    const ir_expr *in_front = ir_attr(n, IR_ATTR_before)->exprs, *behind = ir_attr(n, IR_ATTR_after)->exprs;
    for (int i = 0; i < t->rank && d; i++) {
        ir_expr dims[TCC_MAX_RANK];
        if (ir_is_value(in_front[i], 0) && ir_is_value(behind[i], 0))
            continue;
        memcpy(dims, d->type->dim, (size_t)t->rank * sizeof *dims);
        dims[i] = t->dim[i];
        d = grad_put(g, ir_tensor_type(g->ctx, (enum tcc_dtype)t->dtype, t->rank, dims), i,
                     sources(g, mode, t->dim[i], in_front[i], d->type->dim[i]), d);
    }
    return d;
}

void grad_rule_pad(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0), *inner = d;
    ir_type t = n->in[0].value->type;
    const char *mode = ir_get_s(n, IR_ATTR_mode, "constant");
    if (d && strcmp(mode, "constant") != 0) {
        grad_accumulate(g, n, 0, pad_other(g, n, d, mode));
        return;
    }
    for (int i = 0; i < t->rank && inner; i++)
        if (inner->type->dim[i] != t->dim[i])
            inner = ir_slice_axis(g->b, inner, i, ir_attr(n, IR_ATTR_before)->exprs[i], t->dim[i]);
    grad_accumulate(g, n, 0, inner);
    if (d && inner && grad_wants(g, n, 1))
        pad_value(g, n, d, inner);
}
