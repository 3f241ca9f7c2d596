/* SPDX-License-Identifier: Apache-2.0 */
/*
 * whole.c - softmax, its logarithm, log-sum-exp and variance, as front ends spell them, differentiated in one step.
 *
 * The chain rule over their parts is right too, but computes sums that are zero: whatever is subtracted from a row
 * before exp does not matter to the result, and deviations from a mean sum to zero. Besides, what is left is one
 * reduction where the parts need three.
 *
 *   r = e / sum(e), e = exp(x - m)          dx = r (d - sum(d r))
 *   0 where a row of it is NaN or masked    the same, of what is left: 0 where the chain rule multiplies NaN by 0
 *   r = s - log(sum(exp(s))), s = x - m     dx = d - exp(r) sum(d)
 *   r = log(sum(exp(x - m))) + m            dx = d exp(x - r)
 *   r = sum((x - mean)^2) / n               dx = 2 d / n (x - mean)
 */
#include "passes/grad/grad_int.h"

#include <math.h>

#include "base/mutant.h"

/* The node that computes operand i, if it is of that op and its result is no x. */
static struct ir_node *made_by(const struct grad *g, const struct ir_node *n, int i, enum ir_op op)
{
    struct ir_value *v = n ? grad_in(n, i) : NULL;
    return v && v->def && v->def->op == op && v->id < g->nvalues && !g->is_leaf[v->id] ? v->def : NULL;
}

/* The same, under moves that keep the elements' order. */
static struct ir_node *made_under(const struct grad *g, const struct ir_node *n, int i, enum ir_op op)
{
    struct ir_node *moved;
    while ((moved = made_by(g, n, i, IR_reshape)) != NULL) {
        n = moved;
        i = 0;
    }
    return made_by(g, n, i, op);
}

/* Is v, which broadcasts to t, one value along the axes? */
static bool constant_along(const struct ir_value *v, ir_type t, unsigned axes)
{
    int lead = t->rank - v->type->rank;
    for (int i = 0; i < t->rank; i++)
        if (axes >> i & 1 && i >= lead && !ir_is_value(v->type->dim[i - lead], 1))
            return false;
    return lead >= 0;
}

/* The result of a reduction of t, broadcast against t: is it where reduced axes are kept as 1? */
static bool kept(struct grad *g, const struct ir_value *v, ir_type t, unsigned axes)
{
    bool same = v->type->rank == t->rank && constant_along(v, t, axes);
    for (int i = 0; i < t->rank && same; i++)
        same = axes >> i & 1 || ir_expr_eq(g->ctx, v->type->dim[i], t->dim[i]) == IR_YES;
    return same;
}

/* x of x - m, m being one value along the axes; s itself otherwise. */
static struct ir_value *unshifted(const struct grad *g, struct ir_value *s, unsigned axes)
{
    struct ir_node *sub = s->def;
    if (!sub || sub->op != IR_sub || s->id >= g->nvalues || g->is_leaf[s->id] || sub->in[0].value->type != s->type ||
        !constant_along(sub->in[1].value, s->type, axes))
        return s;
    return sub->in[0].value;
}

/* Is n, a division, a softmax? The sum it divides by, whose axes are the rows'; *x: what it is a softmax of. */
static struct ir_node *softmax_sum(struct grad *g, struct ir_node *n, struct ir_value **x)
{
    struct ir_node *e = made_by(g, n, 0, IR_exp), *guard = made_by(g, n, 1, IR_max);
    struct ir_node *sum =
        made_under(g, guard && ir_const_of(grad_in(guard, 1)) ? guard : n, guard ? 0 : 1, IR_reduce_sum);
    if (!e || !sum || sum->in[0].value != e->out[0] || e->out[0]->type != n->out[0]->type)
        return NULL;
    unsigned axes = grad_axes(sum);
    if (!kept(g, n->in[1].value, n->out[0]->type, axes))
        return NULL;
    *x = unshifted(g, e->in[0].value, axes);
    return sum;
}

static void accumulate_softmax(struct grad *g, struct ir_value *x, struct ir_node *n, unsigned axes)
{
    struct ir_value *d = grad_out(g, n, 0), *r = n->out[0];
    struct ir_value *inner = grad_reduce(g, IR_reduce_sum, ir_binary(g->b, IR_mul, d, r), axes, true);
    grad_accumulate_value(g, x, ir_binary(g->b, IR_mul, r, ir_binary(g->b, IR_sub, d, inner)));
}

static bool softmax(struct grad *g, struct ir_node *n)
{
    struct ir_value *x;
    struct ir_node *sum = softmax_sum(g, n, &x);
    if (sum)
        accumulate_softmax(g, x, n, grad_axes(sum));
    return sum != NULL;
}

/* 0 in rows that a softmax has no number for: those that are NaN, or for which a condition on the whole row holds. */
static bool safe_softmax(struct grad *g, struct ir_node *n)
{
    struct ir_node *div = made_by(g, n, 2, IR_div);
    struct ir_value *x, *c = n->in[0].value;
    struct ir_node *sum = div && div->out[0]->type == n->out[0]->type ? softmax_sum(g, div, &x) : NULL;
    double zero;
    if (!sum || !ir_splat_f(n->in[1].value, &zero) || zero != 0)
        return false;
    bool nan = c->def && c->def->op == IR_isnan && c->def->in[0].value == div->out[0];
    if (!nan && !constant_along(c, n->out[0]->type, grad_axes(sum)))
        return false;
    accumulate_softmax(g, x, n, grad_axes(sum));
    return true;
}

static bool log_softmax(struct grad *g, struct ir_node *n)
{
    struct ir_value *s = n->in[0].value;
    struct ir_node *log = made_by(g, n, 1, IR_log), *sum = made_under(g, log, 0, IR_reduce_sum);
    struct ir_node *e = made_by(g, sum, 0, IR_exp);
    if (!e || e->in[0].value != s || s->type != n->out[0]->type)
        return false;
    unsigned axes = grad_axes(sum);
    if (!kept(g, n->in[1].value, s->type, axes))
        return false;
    struct ir_value *d = grad_out(g, n, 0);
    struct ir_value *inner = grad_reduce(g, IR_reduce_sum, d, axes, true);
    struct ir_value *p = ir_unary(g->b, IR_exp, n->out[0]);
    grad_accumulate_value(g, unshifted(g, s, axes), ir_binary(g->b, IR_sub, d, ir_binary(g->b, IR_mul, p, inner)));
    return true;
}

static bool log_sum_exp(struct grad *g, struct ir_node *n)
{
    int at = made_by(g, n, 0, IR_log) ? 0 : 1;
    struct ir_node *log = made_by(g, n, at, IR_log), *sum = made_by(g, log, 0, IR_reduce_sum);
    struct ir_node *e = made_by(g, sum, 0, IR_exp), *sub = made_by(g, e, 0, IR_sub);
    if (!sub || sub->in[1].value != n->in[1 - at].value || sub->in[0].value->type != sub->out[0]->type)
        return false;
    struct ir_value *x = sub->in[0].value, *d = grad_out(g, n, 0);
    if (!kept(g, n->out[0], x->type, grad_axes(sum)) || n->out[0]->type != log->out[0]->type)
        return false;
    struct ir_value *p = ir_unary(g->b, IR_exp, ir_binary(g->b, IR_sub, x, n->out[0]));
    grad_accumulate_value(g, x, ir_binary(g->b, IR_mul, d, p));
    return true;
}

/* Is v the number of elements of t along the axes (or one divided by it), as a constant or a dim? */
static bool is_count(struct grad *g, const struct ir_value *v, ir_type t, unsigned axes, bool inverse)
{
    ir_expr count = ir_const(g->ctx, 1);
    double c;
    int64_t n;
    for (int i = 0; i < t->rank; i++)
        if (axes >> i & 1)
            count = ir_mul(g->ctx, count, t->dim[i]);
    if (ir_splat_f(v, &c)) {
        double expected = ir_is_const(count, &n) && n ? inverse ? 1 / (double)n : (double)n : 0;
        return expected != 0 && fabs(c - expected) <= 1e-6 * expected;
    }
    const struct ir_node *cast = v->def, *dim = cast && cast->op == IR_cast ? cast->in[0].value->def : NULL;
    return !inverse && dim && dim->op == IR_dim &&
           ir_expr_eq(g->ctx, ir_attr(dim, IR_ATTR_exprs)->exprs[0], count) == IR_YES;
}

/* The sum under a mean over the axes, written as a division or as a product. */
static struct ir_node *summed(struct grad *g, struct ir_node *mean)
{
    struct ir_node *sum =
        mean && (mean->op == IR_div || mean->op == IR_mul) ? made_by(g, mean, 0, IR_reduce_sum) : NULL;
    return sum && is_count(g, mean->in[1].value, sum->in[0].value->type, grad_axes(sum), mean->op == IR_mul) ? sum
                                                                                                             : NULL;
}

static struct ir_node *squared(const struct grad *g, struct ir_node *sum)
{
    struct ir_node *n;
    double two;
    if ((n = made_by(g, sum, 0, IR_square)) != NULL)
        return n;
    if ((n = made_by(g, sum, 0, IR_mul)) != NULL)
        return n->in[0].value == n->in[1].value ? n : NULL;
    n = made_by(g, sum, 0, IR_pow);
    return n && ir_splat_f(n->in[1].value, &two) && two == 2 && n->in[0].value->type == n->out[0]->type ? n : NULL;
}

static bool variance(struct grad *g, struct ir_node *n)
{
    struct ir_node *sum = summed(g, n), *sub = made_by(g, sum ? squared(g, sum) : NULL, 0, IR_sub);
    struct ir_node *mean = made_under(g, sub, 1, IR_div);
    mean = mean ? mean : made_under(g, sub, 1, IR_mul);
    struct ir_node *inner = summed(g, mean);
    struct ir_value *x = sub ? sub->in[0].value : NULL;
    if (!inner || inner->in[0].value != x || x->type != sub->out[0]->type || grad_axes(inner) != grad_axes(sum) ||
        !kept(g, sub->in[1].value, x->type, grad_axes(sum)))
        return false;
    struct ir_value *d = grad_out(g, n, 0);
    d = ir_binary(g->b, n->op, MUTANT(15, ir_binary(g->b, IR_add, d, d), d), n->in[1].value);
    grad_accumulate_value(g, x, ir_binary(g->b, IR_mul, sub->out[0], grad_keep(g, sum, d)));
    return true;
}

bool grad_whole(struct grad *g, struct ir_node *n)
{
    switch (n->op) {
    case IR_div: return softmax(g, n) || variance(g, n);
    case IR_mul: return variance(g, n);
    case IR_select: return safe_softmax(g, n);
    case IR_sub: return log_softmax(g, n);
    case IR_add: return log_sum_exp(g, n);
    default: return false;
    }
}
