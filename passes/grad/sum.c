/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sum.c - adds up the contributions to a value's gradient.
 *
 * Slices of one axis that don't overlap become one concat, with zeros in the gaps: a tensor that was split in n parts
 * costs one pass over its gradient, not n.
 */
#include "passes/grad/grad_int.h"

#include "base/mutant.h"

static bool before(struct grad *g, ir_expr a, ir_expr b)
{
    return a != b && ir_expr_le(g->ctx, a, b) == IR_YES;
}

static ir_expr end_of(struct grad *g, const struct cotangent *p)
{
    return ir_add(g->ctx, p->start, p->v->type->dim[p->axis]);
}

static struct ir_value *zeros_like(struct grad *g, const struct cotangent *p, ir_expr size)
{
    ir_expr dims[TCC_MAX_RANK];
    ir_type t = p->v->type;
    for (int i = 0; i < t->rank; i++)
        dims[i] = i == p->axis ? size : t->dim[i];
    return grad_full(g, ir_tensor_type(g->ctx, (enum tcc_dtype)t->dtype, t->rank, dims), 0);
}

static struct ir_value *padded(struct grad *g, const struct cotangent *p, ir_type t)
{
    return ir_pad_axis(g->b, p->v, NULL, p->axis, p->start, ir_sub(g->ctx, t->dim[p->axis], end_of(g, p)));
}

/* The slices among the parts that lie side by side along the axis of the first one, as one value; they are taken
 * out. */
static struct ir_value *tile(struct grad *g, struct grad_sum *s, ir_type t)
{
    VEC(struct ir_value *) pieces = {0};
    struct cotangent first = {.form = GRAD_WHOLE};
    ir_expr at = ir_const(g->ctx, 0);

    for (int i = 0; i < s->parts.n && first.form != GRAD_SLICE; i++)
        first = s->parts.at[i];
    if (first.form != GRAD_SLICE)
        return NULL;
    int axis = first.axis, taken = 0;
    for (;;) {
        int next = -1;
        for (int i = 0; i < s->parts.n; i++) {
            const struct cotangent *p = &s->parts.at[i];
            if (p->form != GRAD_SLICE || p->axis != axis || ir_expr_le(g->ctx, at, p->start) != IR_YES)
                continue;
            if (next < 0 || before(g, p->start, s->parts.at[next].start))
                next = i;
        }
        if (next < 0)
            break;
        struct cotangent p = s->parts.at[next];
        if (ir_expr_eq(g->ctx, at, p.start) != IR_YES)
            VEC_PUSH(g->ctx, pieces, zeros_like(g, &first, ir_sub(g->ctx, p.start, at)));
        VEC_PUSH(g->ctx, pieces, p.v);
        at = end_of(g, &p);
        s->parts.at[next] = s->parts.at[--s->parts.n];
        taken++;
        first = p;
    }
    if (!taken) { /* its place is not provably >= 0, as of no use to us here: it was checked when the slice was made */
        for (int i = 0; i < s->parts.n; i++)
            if (s->parts.at[i].form == GRAD_SLICE) {
                struct ir_value *v = padded(g, &s->parts.at[i], t);
                s->parts.at[i] = s->parts.at[--s->parts.n];
                return v;
            }
    }
    if (taken == 1)
        return padded(g, &first, t);
    if (ir_expr_eq(g->ctx, at, t->dim[axis]) != IR_YES)
        VEC_PUSH(g->ctx, pieces, zeros_like(g, &first, ir_sub(g->ctx, t->dim[axis], at)));
    return ir_concat(g->b, pieces.n, pieces.at, axis);
}

/* A contribution as a value of the whole type. */
static struct ir_value *whole(struct grad *g, const struct cotangent *p, ir_type t)
{
    enum tcc_dtype d = (enum tcc_dtype)t->dtype;
    switch (p->form) {
    case GRAD_PICK: return grad_put(g, t, p->axis, p->w, p->v);
    case GRAD_PRODUCT: return ir_cast_to(g->b, ir_matmul(g->b, p->v, p->w, true, false, p->to ? p->to : d), d);
    case GRAD_SLICE: return padded(g, p, t);
    case GRAD_WHOLE: break;
    }
    return p->v;
}

struct ir_value *grad_total(struct grad *g, struct ir_value *v)
{
    struct ir_value *total = NULL, *next;
    if (!grad_wants_value(g, v) || !g->sums[v->id].parts.n)
        return NULL;
    struct grad_sum *s = &g->sums[v->id];
    if (s->parts.n == 1 && s->parts.at[0].form == GRAD_WHOLE)
        return s->parts.at[0].v;
    for (int i = 0; i < s->parts.n; i++) {
        if (s->parts.at[i].form == GRAD_SLICE)
            continue;
        next = whole(g, &s->parts.at[i], v->type);
        total = MUTANT(11, total, NULL) ? ir_binary(g->b, IR_add, total, next) : next;
        s->parts.at[i--] = s->parts.at[--s->parts.n];
    }
    while ((next = tile(g, s, v->type)) != NULL)
        total = total ? ir_binary(g->b, IR_add, total, next) : next;
    total = grad_fit(g, total, v->type);
    s->parts.n = 0;
    if (total)
        VEC_PUSH(g->ctx, s->parts, (struct cotangent){.form = GRAD_WHOLE, .v = total});
    return total;
}
