/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connectionist temporal classification: Graves, Fernandez, Gomez, Schmidhuber (2006), the forward recursion in
 * logarithms, as a loop over time that the gradient pass differentiates. The labels with blanks between them and around
 * them are L = 2 S + 1 states; alpha[s] is the logarithm of the probability of all ways that end in state s:
 *   alpha'[s] = log p(label of s) + log(e^alpha[s] + e^alpha[s-1] + (e^alpha[s-2] where s is a label other than that of
 *   s-2))
 * A target's length is how many of its labels are not negative. What cannot be has a logarithm of -1e30, so that no
 * infinities are subtracted.
 */
#include "passes/train/loss_build_int.h"

#include <math.h>

#define NEVER (-1e30)

struct ctc {
    struct loss_build *l;
    ir_expr n, time, labels, states;
    struct ir_value *target, *extended; /* i64[n, S], i64[n, L] */
    struct ir_value *lengths;           /* i64[n, 1] */
    struct ir_value *skips;             /* bool[n, L]: may be reached from two states before */
    struct ir_value *scores;            /* [time, n, L] */
};

static struct ir_value *join(struct loss_build *l, int axis, struct ir_value *x, struct ir_value *y)
{
    struct ir_value *in[] = {x, y};
    return ir_concat(l->b, 2, in, axis);
}

/* x [n, L], moved `by` states on; NEVER comes in. */
static struct ir_value *shift(struct ctc *c, struct ir_value *x, int by)
{
    struct loss_build *l = c->l;
    ir_expr k = ir_const(l->b->ctx, by), dims[2] = {c->n, k};
    struct ir_value *never = ir_expand_to(l->b, num(l, NEVER), 2, dims);
    return join(l, 1, never, ir_slice_axis(l->b, x, 1, ir_const(l->b->ctx, 0), ir_sub(l->b->ctx, c->states, k)));
}

static struct ir_value *pick(struct loss_build *l, struct ir_value *from, struct ir_value *at, int axis)
{
    struct ir_value *in[] = {from, at};
    return ir_build1(l->b, IR_gather_elements, 2, in, IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis)));
}

/* The labels with blanks between, and which of them may be reached by leaving a blank out. */
static bool extend(struct ctc *c)
{
    struct loss_build *l = c->l;
    struct ir_builder *b = l->b;
    ir_expr one = ir_const(b->ctx, 1), two = ir_const(b->ctx, 2);
    ir_expr column[3] = {c->n, c->labels, one}, flat[2] = {c->n, ir_mul(b->ctx, two, c->labels)}, last[2] = {c->n, one};
    struct ir_value *blank = ir_constant_i(b, TCC_I64, l->loss->blank), *zero = ir_constant_i(b, TCC_I64, 0);
    struct ir_value *counts = op2(l, IR_ge, c->target, zero);
    struct ir_value *safe = choose(l, counts, c->target, blank);
    struct ir_value *safe_shaped = ir_reshape_to(b, safe, 3, column);
    struct ir_value *pairs = join(l, 2, ir_expand_to(l->b, blank, 3, column), safe_shaped);

    c->lengths = reduce(l, IR_reduce_sum, ir_cast_to(b, counts, TCC_I64), 1);
    struct ir_value *expand_blank = ir_expand_to(l->b, blank, 2, last);
    c->extended = join(l, 1, ir_reshape_to(b, pairs, 2, flat), expand_blank);
    ir_expr first[2] = {c->n, two};
    struct ir_value *more = ir_slice_axis(l->b, c->extended, 1, ir_const(b->ctx, 0), ir_sub(b->ctx, c->states, two));
    struct ir_value *before = join(l, 1, ir_expand_to(l->b, blank, 2, first), more);
    struct ir_value *other = op2(l, IR_ne, c->extended, blank);
    c->skips = op2(l, IR_and, op2(l, IR_ne, c->extended, before), other);
    return c->lengths && c->extended && c->skips;
}

/* Logarithms of the labels' probabilities, [time, n, L]. */
static bool score(struct ctc *c)
{
    struct loss_build *l = c->l;
    struct ir_value *shifted = op2(l, IR_sub, l->x, reduce(l, IR_reduce_max, l->x, 2));
    struct ir_value *log_sum = op1(l, IR_log, reduce(l, IR_reduce_sum, op1(l, IR_exp, shifted), 2));
    ir_expr row[3] = {c->n, ir_const(l->b->ctx, 1), c->states}, all[3] = {c->n, c->time, c->states};
    struct ir_value *at = ir_expand_to(l->b, ir_reshape_to(l->b, c->extended, 3, row), 3, all);
    struct ir_value *picked = pick(l, op2(l, IR_sub, shifted, log_sum), at, 2);
    int64_t order[3] = {1, 0, 2};
    c->scores = ir_build1(l->b, IR_transpose, 1, &picked, IR_ATTRS(ir_attr_ints(IR_ATTR_perm, 3, order)));
    return c->scores != NULL;
}

static struct ir_value *at_time(struct ctc *c, struct ir_value *t)
{
    return ir_gather(c->l->b, c->scores, t, 0);
}

static struct ir_value *advance(struct ctc *c, struct ir_value *alpha, struct ir_value *t)
{
    struct loss_build *l = c->l;
    struct ir_value *one = shift(c, alpha, 1), *never = num(l, NEVER);
    struct ir_value *two = choose(l, c->skips, shift(c, alpha, 2), never);
    struct ir_value *most = ir_formula(l->b, "max(x, max(y, z))", alpha, one, two);
    return ir_formula_n(l->b, "max(u + log(exp(x - u) + (exp(y - u) + exp(z - u))) + v, a)", IR_NUMBERS(NEVER), alpha,
                        one, two, most, at_time(c, t));
}

/* At the first time only states 0 and 1 can be. */
static struct ir_value *begin(struct ctc *c)
{
    struct loss_build *l = c->l;
    ir_expr dims[2] = {c->n, c->states};
    struct ir_value *iota = ir_iota(l->b, 2, dims, 1, TCC_I64);
    struct ir_value *start = op2(l, IR_le, iota, ir_constant_i(l->b, TCC_I64, 1));
    struct ir_value *never = num(l, NEVER);
    return choose(l, start, at_time(c, ir_constant_i(l->b, TCC_I64, 0)), never);
}

static struct ir_value *run(struct ctc *c)
{
    struct ir_builder *b = c->l->b, outside = *b;
    ir_expr steps = ir_sub(b->ctx, c->time, ir_const(b->ctx, 1));
    struct ir_value *trip = ir_dim_value(b, steps);
    struct ir_value *first = begin(c), *in[3] = {trip, NULL, first};
    if (!trip || !first)
        return NULL;
    ir_type type = first->type;
    struct ir_node *loop = ir_build_typed(
        b, IR_loop, 3, in, IR_ATTRS(ir_attr_i(IR_ATTR_nscan, 0), ir_attr_types(IR_ATTR_types, 1, &type)), 1, &type);
    if (!loop)
        return NULL;
    struct ir_block *region = ir_region_new(b->func, loop);
    struct ir_value *t = ir_param_new(region, ir_scalar_type(b->ctx, TCC_I64), "t");
    struct ir_value *go = ir_param_new(region, ir_scalar_type(b->ctx, TCC_BOOL), "go");
    struct ir_value *alpha = ir_param_new(region, type, "alpha");
    b->block = region;
    b->before = NULL;
    struct ir_value *out[2] = {go, advance(c, alpha, op2(c->l, IR_add, t, ir_constant_i(b, TCC_I64, 1)))};
    bool ok = out[1] && ir_build(b, IR_yield, 2, out, NULL);
    b->block = outside.block;
    b->before = outside.before;
    return ok ? loop->out[0] : NULL;
}

/* -log of the probabilities of the last label and of the blank behind it. */
static struct ir_value *costs(struct ctc *c, struct ir_value *alpha)
{
    struct loss_build *l = c->l;
    struct ir_value *one = ir_constant_i(l->b, TCC_I64, 1), *zero = ir_constant_i(l->b, TCC_I64, 0);
    struct ir_value *end = op2(l, IR_mul, c->lengths, ir_constant_i(l->b, TCC_I64, 2)),
                    *some = op2(l, IR_gt, c->lengths, zero);
    struct ir_value *x = pick(l, alpha, end, 1), *never = num(l, NEVER);
    struct ir_value *y = choose(l, some, pick(l, alpha, op2(l, IR_max, op2(l, IR_sub, end, one), zero), 1), never);
    struct ir_value *most = op2(l, IR_max, x, y);
    struct ir_value *cost = ir_formula(l->b, "-(z + log(exp(x - z) + exp(y - z)))", x, y, most);
    return ir_formula_n(l->b, "select(lt(x, a), x, b)",
                        IR_NUMBERS(-NEVER / 2, l->loss->zero_infinity != 0 ? 0 : HUGE_VAL), cost);
}

bool loss_ctc(struct loss_build *l)
{
    ir_type t = l->target->type;
    struct ctc c = {.l = l, .target = ir_cast_to(l->b, l->target, TCC_I64)};

    if (l->rank != 3 || t->rank != 2 || !tcc_is_int((enum tcc_dtype)t->dtype) ||
        ir_expr_eq(l->b->ctx, t->dim[0], l->x->type->dim[0]) == IR_NO)
        return loss_wrong(l, "ctc takes scores [samples, time, classes] and labels [samples, most labels]");
    c.n = l->x->type->dim[0];
    c.time = l->x->type->dim[1];
    c.labels = t->dim[1];
    c.states = ir_add(l->b->ctx, ir_mul(l->b->ctx, ir_const(l->b->ctx, 2), c.labels), ir_const(l->b->ctx, 1));
    if (!extend(&c) || !score(&c))
        return false;
    struct ir_value *alpha = run(&c), *cost = alpha ? costs(&c, alpha) : NULL;
    if (!cost)
        return false;
    bool mean = l->loss->reduction == REDUCE_MEAN;
    struct ir_value *lengths = op2(l, IR_max, c.lengths, ir_constant_i(l->b, TCC_I64, 1));
    cost = mean ? op2(l, IR_div, cost, ir_cast_to(l->b, lengths, l->dtype)) : cost;
    return loss_elements(l, ir_reshape_to(l->b, cost, 1, &c.n), NULL);
}
