/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The learning rate at a time, in closed form, so that any step can be computed from the counters alone. PyTorch's
 * schedulers, which multiply from step to step, agree but for rounding.
 *
 * With warmup = N the rate rises as (t + 1) / N for N units, and the schedule proper starts after them: PyTorch's
 * SequentialLR([LinearLR(start_factor=1/N, total_iters=N-1), schedule], milestones=[N]).
 */
#include "passes/train/optim_int.h"

#include <math.h>

#include "base/mutant.h"

struct schedule_build {
    struct ir_builder *b;
    const struct schedule_config *s;
    struct ir_value *base, *t; /* f64[]: rate; whole units since the schedule began */
};

static struct ir_value *number(struct schedule_build *u, double v)
{
    return ir_constant_f(u->b, TCC_F64, v);
}

static struct ir_value *op(struct schedule_build *u, enum ir_op word, struct ir_value *x, struct ir_value *y)
{
    return ir_binary(u->b, word, x, y);
}

static struct ir_value *constant(struct schedule_build *u)
{
    return u->base;
}

static struct ir_value *step(struct schedule_build *u)
{
    struct ir_value *times = ir_unary(u->b, IR_floor, op(u, IR_div, u->t, number(u, u->s->value[SET_size])));
    return op(u, IR_mul, u->base, op(u, IR_pow, number(u, u->s->value[SET_gamma]), times));
}

static struct ir_value *multistep(struct schedule_build *u)
{
    struct ir_value *times = number(u, 0);

    for (int i = 0; i < u->s->nmilestones; i++) {
        struct ir_value *passed = op(u, IR_ge, u->t, number(u, (double)u->s->milestones[i]));
        times = passed ? op(u, IR_add, times, ir_cast_to(u->b, passed, TCC_F64)) : NULL;
    }
    return op(u, IR_mul, u->base, op(u, IR_pow, number(u, u->s->value[SET_gamma]), times));
}

/* From the base at t = 0 to `min` at t = period; both f64[]. */
static struct ir_value *half_cosine(struct schedule_build *u, struct ir_value *t, struct ir_value *period)
{
    struct ir_value *low = number(u, u->s->value[SET_min]);
    struct ir_value *angle = op(u, IR_mul, t, op(u, IR_div, number(u, acos(-1)), period));
    struct ir_value *cosine = ir_unary(u->b, IR_cos, angle);
    struct ir_value *share = op(u, IR_add, number(u, 1), cosine);
    struct ir_value *half = number(u, 0.5);
    return op(u, IR_add, low, op(u, IR_mul, op(u, IR_mul, op(u, IR_sub, u->base, low), share), half));
}

static struct ir_value *cosine(struct schedule_build *u)
{
    return half_cosine(u, u->t, number(u, u->s->value[SET_period]));
}

/* Period n is T g^n long and begins at T (g^n - 1) / (g - 1): n is the whole part of log(t / T (g - 1) + 1) / log g, to
 * which a little is added, since at the beginning of a period that is a whole number but for rounding. */
static struct ir_value *restarts(struct schedule_build *u)
{
    double period = u->s->value[SET_period], g = u->s->value[SET_growth];
    struct ir_value *passed = op(u, IR_div, u->t, number(u, period));

    if (g == 1) {
        struct ir_value *period_value = number(u, period);
        struct ir_value *whole_period = number(u, period);
        return half_cosine(u, op(u, IR_sub, u->t, op(u, IR_mul, ir_unary(u->b, IR_floor, passed), whole_period)),
                           period_value);
    }
    struct ir_value *other = number(u, 1);
    struct ir_value *share = op(u, IR_add, op(u, IR_mul, passed, number(u, g - 1)), other);
    struct ir_value *more = number(u, 1e-9);
    struct ir_value *rest = number(u, log(g));
    struct ir_value *n =
        ir_unary(u->b, IR_floor, op(u, IR_add, op(u, IR_div, ir_unary(u->b, IR_log, share), rest), more));
    struct ir_value *times = op(u, IR_pow, number(u, g), n);
    struct ir_value *last = number(u, period / (g - 1));
    struct ir_value *start = op(u, IR_mul, op(u, IR_sub, times, number(u, 1)), last);
    struct ir_value *right2 = op(u, IR_mul, times, number(u, period));
    return half_cosine(u, op(u, IR_sub, u->t, start), right2);
}

static struct ir_value *linear(struct schedule_build *u)
{
    double start = u->s->value[SET_start], slope = (u->s->value[SET_end] - start) / u->s->value[SET_length];
    struct ir_value *t = op(u, IR_min, u->t, number(u, u->s->value[SET_length]));
    struct ir_value *product = op(u, IR_mul, t, number(u, slope));
    return op(u, IR_mul, u->base, op(u, IR_add, number(u, start), product));
}

static struct ir_value *(*const schedules[])(struct schedule_build *u) = {
#define SCHEDULE(name, meaning) name,
#include "passes/train/lr_schedule.def"
};

struct ir_value *schedule_rate(struct ir_builder *b, const struct schedule_config *s, struct ir_value *base,
                               struct ir_value *step_count, struct ir_value *epoch)
{
    struct ir_value *count = MUTANT(28, s->by_step, !s->by_step) ? step_count : epoch, *rate, *warm;
    struct schedule_build u = {b, s, base, count ? ir_cast_to(b, count, TCC_F64) : NULL};

    if (!s->warmup)
        return schedules[s->kind](&u);
    struct ir_value *warmup_value = number(&u, (double)s->warmup);
    warm = op(&u, IR_mul, base, op(&u, IR_div, op(&u, IR_add, u.t, number(&u, 1)), warmup_value));
    u.t = op(&u, IR_sub, u.t, number(&u, (double)MUTANT(27, s->warmup, s->warmup - 1)));
    rate = schedules[s->kind](&u);
    return ir_select(b, op(&u, IR_lt, u.t, number(&u, 0)), warm, rate);
}
