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

static struct ir_value *constant(struct schedule_build *u)
{
    return u->base;
}

static struct ir_value *step(struct schedule_build *u)
{
    const double *n = IR_NUMBERS(u->s->value[SET_gamma], u->s->value[SET_size]);
    return ir_formula_n(u->b, "x * pow(a, floor(y / b))", n, u->base, u->t);
}

static struct ir_value *multistep(struct schedule_build *u)
{
    struct ir_value *times = number(u, 0);

    for (int i = 0; i < u->s->nmilestones; i++) {
        struct ir_value *passed = ir_formula_n(u->b, "ge(x, a)", IR_NUMBERS((double)u->s->milestones[i]), u->t);
        times = ir_binary(u->b, IR_add, times, passed ? ir_cast_to(u->b, passed, TCC_F64) : NULL);
    }
    return ir_formula_n(u->b, "x * pow(a, y)", IR_NUMBERS(u->s->value[SET_gamma]), u->base, times);
}

/* From the base at t = 0 to `min` at t = period; both f64[]. */
static struct ir_value *half_cosine(struct schedule_build *u, struct ir_value *t, struct ir_value *period)
{
    const double *n = IR_NUMBERS(u->s->value[SET_min], acos(-1));
    return ir_formula_n(u->b, "a + (x - a) * (1 + cos(y * (b / z))) * 0.5", n, u->base, t, period);
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

    if (g == 1) {
        struct ir_value *t = ir_formula_n(u->b, "x - floor(x / a) * a", IR_NUMBERS(period), u->t);
        return half_cosine(u, t, number(u, period));
    }
    struct ir_value *times =
        ir_formula_n(u->b, "pow(d, floor(log(x / a * b + 1) / c + 1e-9))", IR_NUMBERS(period, g - 1, log(g), g), u->t);
    const double *n = IR_NUMBERS(period / (g - 1), period);
    struct ir_value *t = ir_formula_n(u->b, "x - (y - 1) * a", n, u->t, times);
    return half_cosine(u, t, ir_formula_n(u->b, "x * b", n, times));
}

static struct ir_value *linear(struct schedule_build *u)
{
    double start = u->s->value[SET_start], length = u->s->value[SET_length];
    const double *n = IR_NUMBERS(start, length, (u->s->value[SET_end] - start) / length);
    return ir_formula_n(u->b, "x * (a + min(y, b) * c)", n, u->base, u->t);
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
    warm = ir_formula_n(b, "x * ((y + 1) / a)", IR_NUMBERS((double)s->warmup), base, u.t);
    u.t = ir_formula_n(b, "x - a", IR_NUMBERS((double)MUTANT(27, s->warmup, s->warmup - 1)), u.t);
    rate = schedules[s->kind](&u);
    return ir_formula(b, "select(lt(x, 0), y, z)", u.t, warm, rate);
}
