/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One update of all parameters, as graph IR: are all gradients finite, unscaling, clipping by the global norm, the
 * optimizer's formula per parameter, and the bookkeeping of steps and loss scale.
 *
 * Each parameter's formula is elementwise in the state that it reads and writes, and takes from outside only scalars
 * that are computed once; so it becomes one kernel that reads parameter, gradient and moments once and writes in place.
 * A gradient that is not finite selects every old value, without leaving the step. The loss scale follows
 * torch.amp.GradScaler.
 */
#include "passes/train/optim_int.h"

#include <math.h>

#include "base/mutant.h"
#include "passes/util_int.h"

#define LARGE 4096 /* elements of tensors that are reduced in two steps */

static bool writes(const struct ir_node *n, const struct ir_state *s)
{
    if (n->op == IR_state_write && ir_state_of(n) == s)
        return true;
    for (int i = 0; i < n->nregions; i++)
        IR_EACH_NODE(inner, n->regions[i])
            if (writes(inner, s))
                return true;
    return false;
}

struct ir_value *optim_read(struct ir_builder *b, const char *name)
{
    struct ir_state *s = ir_state_by_name(b->func->module, name);
    const struct ir_block *block = b->block;
    const struct ir_node *n = b->before ? b->before->prev : block->last;

    for (; block; n = block->parent ? block->parent->prev : NULL, block = block->parent ? block->parent->block : NULL) {
        for (; n; n = n->prev) {
            if (n->op == IR_state_read && ir_state_of(n) == s)
                return n->out[0];
            if (writes(n, s))
                return ir_read_state(b, s);
        }
    }
    return ir_read_state(b, s);
}

static bool optim_write(struct ir_builder *b, const char *name, struct ir_value *v)
{
    return ir_write_state(b, ir_state_by_name(b->func->module, name), v);
}

struct ir_value *optim_loss_scale(struct ir_builder *b, const struct train_options *o)
{
    const struct optim_config *c = optim_parse(b->ctx, o);
    return c && c->scaler.init != 0 ? optim_read(b, "train.scale") : NULL;
}

/* -- Questions about all gradients */

/* Of large tensors first row by row, which threads share. */
static struct ir_value *reduce_all(struct ir_builder *b, enum ir_op op, struct ir_value *x)
{
    if (x && x->type->rank > 1 && ir_num_elements(b->ctx, x->type)->hi > LARGE)
        x = ir_reduce_from(b, op, x, 1);
    x = ir_reduce_from(b, op, x, 0);
    return x ? ir_cast_to(b, x, TCC_F32) : NULL;
}

/* Combines values two by two, so that sums of many keep their low bits. Overwrites the array. */
static struct ir_value *combine(struct ir_builder *b, enum ir_op op, int n, struct ir_value **values)
{
    if (!n)
        return ir_constant_f(b, TCC_F32, 0);
    for (; n > 1; n = (n + 1) / 2) {
        for (int i = 0; i < n / 2; i++)
            values[i] = ir_binary(b, op, values[2 * i], values[2 * i + 1]);
        if (n % 2)
            values[n / 2] = values[n - 1];
    }
    return values[0];
}

/* f32[]: the largest magnitude in a gradient, NaN if an element is. */
static struct ir_value *largest_of(struct ir_builder *b, struct ir_value *grad)
{
    return reduce_all(b, IR_reduce_max, ir_unary(b, IR_abs, grad));
}

/* f32[]: the sum of the squares of a gradient that is multiplied by `factor` first (NULL: 1). */
static struct ir_value *sum_of_squares(struct ir_builder *b, struct ir_value *g, struct ir_value *factor)
{
    if (g && factor)
        g = ir_binary(b, IR_mul, g, ir_cast_to(b, factor, (enum tcc_dtype)g->type->dtype));
    return reduce_all(b, IR_reduce_sum, ir_binary(b, IR_mul, g, g));
}

/* -- The update */

struct update {
    struct ir_builder *b;
    const struct optim_config *c;
    struct optim_shared shared;
    struct optim_shared *waiting;   /* by group, of those that wait: `ok` says that they wait no longer, too */
    struct ir_value **active;       /* bool[] by group: it waits no longer; NULL: it never waits */
    struct ir_value *rate;          /* f64[]: the base rate by now */
    struct ir_value *factor;        /* f32[]: gradients are multiplied by it; NULL: 1 */
    struct ir_value *norm;          /* f32[]: of all gradients, unscaled and not clipped; NULL where nothing asks */
    struct ir_value **owned;        /* bool[] by parameter: is it this rank's to update? NULL: all are */
    struct ir_value *key, *dithers; /* stochastic rounding: random key u32[], is it on? bool[]; NULL: none */
};

/* torch.nn.utils.clip_grad_norm_: min(1, limit / (norm + 1e-6)) */
static struct ir_value *clip_factor(struct ir_builder *b, double limit, struct ir_value *norm)
{
    struct ir_value *f = ir_binary(b, IR_add, norm, ir_constant_f(b, TCC_F32, 1e-6));
    f = ir_binary(b, IR_div, ir_constant_f(b, TCC_F32, limit), f);
    return MUTANT(29, ir_binary(b, IR_min, f, ir_constant_f(b, TCC_F32, 1)), f);
}

/* What gradients are multiplied by to undo the loss scale; NULL: nothing. */
static struct ir_value *unscale(struct ir_builder *b, const struct optim_config *c)
{
    struct ir_value *scale = c->scaler.init != 0 ? optim_read(b, "train.scale") : NULL;
    return scale ? ir_binary(b, IR_div, ir_constant_f(b, TCC_F32, 1), scale) : NULL;
}

/* The gradient's numbers: NULL for those that nobody asks for. */
static bool measure_one(const struct update *u, struct ir_builder *b, struct ir_value *grad, struct ir_value **largest,
                        struct ir_value **squares)
{
    *largest = largest_of(b, grad);
    *squares = optim_needs_norm(u->c) ? sum_of_squares(b, grad, u->factor) : NULL;
    return *largest && (*squares || !optim_needs_norm(u->c));
}

/* The gradient in the type in which it is used: a narrow one in f32. That of a group that waits is 0, in the norm
 * too. */
static struct ir_value *used_grad(const struct update *u, struct ir_builder *b, const struct train_param *param)
{
    enum tcc_dtype dtype = optim_update_type(param->state);
    struct ir_value *active = u->active[optim_group_of(u->c, param->state->name) - u->c->groups];
    struct ir_value *grad = ir_cast_to(b, param->grad, dtype);
    if (param->scale != 0 && grad)
        grad = ir_binary(b, IR_mul, grad, ir_constant_f(b, dtype, param->scale));
    return grad && active ? ir_select(b, active, grad, ir_constant_f(b, dtype, 0)) : grad;
}

/* if (mine) its numbers, else zeros */
static bool measure_if_owned(const struct update *u, struct ir_value *mine, const struct train_param *param,
                             struct ir_value **largest, struct ir_value **squares)
{
    struct ir_builder *outer = u->b;
    const ir_type one = ir_scalar_type(outer->ctx, TCC_F32), types[] = {one, one};
    int n = optim_needs_norm(u->c) ? 2 : 1;
    struct ir_value *given[2], *none[2];
    struct pass_if own;

    if (!pass_begin_if(outer, mine, n, types, &own))
        return false;
    none[0] = none[1] = ir_constant_f(&own.otherwise, TCC_F32, 0);
    if (!measure_one(u, &own.then, used_grad(u, &own.then, param), &given[0], &given[1]) ||
        !pass_end_if(&own, given, none))
        return false;
    *largest = own.node->out[0];
    *squares = n > 1 ? own.node->out[1] : NULL;
    return true;
}

/* Owners of gradients tell the others, so that all add up the same numbers in the same order. */
static struct optim_totals measure(struct update *u, int n, const struct train_param *params,
                                   struct ir_value *const *grads)
{
    struct ir_value **values = IR_NEWN(u->b->ctx, (size_t)(2 * n) + 1, struct ir_value *);
    struct optim_totals none = {0};

    for (int i = 0; i < n; i++)
        if (!(u->owned ? measure_if_owned(u, u->owned[i], &params[i], &values[i], &values[n + i])
                       : measure_one(u, u->b, grads[i], &values[i], &values[n + i])))
            return none;
    if (u->owned && !train_parallel_reduce_scalars(u->b, optim_needs_norm(u->c) ? 2 * n : n, values))
        return none;
    return (struct optim_totals){.largest = combine(u->b, IR_max, n, values),
                                 .squares = optim_needs_norm(u->c) ? combine(u->b, IR_add, n, values + n) : NULL};
}

/* Whose `from` has come. */
static bool build_active(struct update *u)
{
    struct ir_builder *b = u->b;

    u->active = IR_NEWN(b->ctx, u->c->ngroups, struct ir_value *);
    for (int g = 0; g < u->c->ngroups; g++)
        if (optim_waits(u->c, g)) {
            struct ir_value *from = ir_constant_i(b, TCC_I64, (int64_t)u->c->groups[g].value[OPT_from]);
            u->active[g] = ir_binary(b, IR_ge, optim_read(b, "train.epoch"), from);
            if (!u->active[g])
                return false;
        }
    return true;
}

/* A group that waited counts its own updates: its moments begin as if training did. */
static void build_waiting(struct update *u, struct ir_value *step)
{
    struct ir_builder *b = u->b;

    u->waiting = IR_NEWN(b->ctx, u->c->ngroups, struct optim_shared);
    for (int g = 0; g < u->c->ngroups; g++) {
        if (!u->active[g])
            continue;
        struct ir_value *waited = optim_read(b, optim_waited_name(b->ctx, g));
        struct ir_value *own = ir_binary(b, IR_sub, step, waited);
        u->waiting[g] =
            (struct optim_shared){.ok = ir_binary(b, IR_and, u->shared.ok, u->active[g]),
                                  .first = ir_binary(b, IR_eq, step, waited),
                                  .t = ir_cast_to(b, ir_binary(b, IR_add, own, ir_constant_i(b, TCC_I64, 1)), TCC_F64),
                                  .norm = u->shared.norm};
    }
}

static bool build_shared(struct update *u, int n, const struct train_param *params, struct ir_value *const *grads,
                         const struct optim_totals *given)
{
    struct ir_builder *b = u->b;
    const struct optim_config *c = u->c;
    const struct schedule_config *s = &c->schedule;
    struct ir_value *step = optim_read(b, "train.step"), *base = optim_read(b, "train.rate"), *norm = NULL;

    if (!step || !base)
        return false;
    u->factor = unscale(b, c);
    struct optim_totals totals = given ? *given : measure(u, n, params, grads);
    if (!totals.largest || (optim_needs_norm(c) && !totals.squares))
        return false;
    u->shared.ok = ir_binary(b, IR_lt, totals.largest, ir_constant_f(b, TCC_F32, INFINITY));
    u->shared.first = ir_binary(b, IR_eq, step, ir_constant_i(b, TCC_I64, 0));
    u->shared.t = ir_cast_to(b, ir_binary(b, IR_add, step, ir_constant_i(b, TCC_I64, 1)), TCC_F64);
    u->rate = ir_cast_to(b, base, TCC_F64);
    if (c->rounding) {
        u->key = optim_random_key(b);
        struct ir_value *zero = ir_constant_i(b, TCC_I32, 0);
        u->dithers = ir_binary(b, IR_ne, optim_read(b, "train.rounding"), zero);
        if (!u->key || !u->dithers)
            return false;
    }
    if (s->kind != SCHEDULE_constant || s->warmup) {
        struct ir_value *scheduled = optim_read(b, "train.scheduled");
        struct ir_value *by = schedule_rate(b, s, u->rate, step, s->by_step ? NULL : optim_read(b, "train.epoch"));
        u->rate = ir_select(b, ir_binary(b, IR_ne, scheduled, ir_constant_i(b, TCC_I32, 0)), by, u->rate);
    }
    if (optim_needs_norm(c))
        u->norm = norm = ir_unary(b, IR_sqrt, totals.squares);
    if (c->clip_norm != 0 && isfinite(c->clip_norm)) {
        struct ir_value *clip = clip_factor(b, c->clip_norm, norm);
        u->factor = u->factor ? ir_binary(b, IR_mul, u->factor, clip) : clip;
        norm = ir_binary(b, IR_mul, norm, clip);
    }
    u->shared.norm = norm;
    build_waiting(u, step);
    return u->shared.ok && u->shared.t && u->rate && (c->scaler.init == 0 || u->factor) &&
           (!optim_needs_norm(c) || norm);
}

/* Writes the value, rounded to the state's type, or keeps the old one where not `ok`. */
static bool write_back(struct update *u, struct ir_value *ok, const char *name, struct ir_value *old,
                       struct ir_value *now)
{
    if (!now)
        return false;
    if (u->dithers && old->type->dtype == TCC_BF16)
        now = ir_select(u->b, u->dithers, optim_dither(u->b, u->key, name, now), now);
    if (!now)
        return false;
    now = ir_cast_to(u->b, now, (enum tcc_dtype)old->type->dtype);
    return optim_write(u->b, name, MUTANT(30, ir_select(u->b, ok, now, old), now));
}

static bool read_slots(struct update *u, struct optim_update *p, const char *parameter, const char **names,
                       struct ir_value **old)
{
    for (int i = 0, k = 0; i < optim_nslots; i++) {
        const struct optim_slot *slot = &optim_slots[i];
        if (slot->optimizer != u->c->kind)
            continue;
        if (slot->option == OPT_lr || p->opt[slot->option] != 0) {
            names[k] = optim_slot_name(u->b->ctx, slot, parameter);
            old[k] = ir_read_state(u->b, ir_state_by_name(u->b->func->module, names[k])); /* nobody else reads it */
            if (!old[k])
                return false;
            p->slot[k] = ir_cast_to(u->b, old[k], p->dtype);
        }
        k++;
    }
    return true;
}

/*
 * The average of a parameter that is `now` behind the update: torch.optim.swa_utils.AveragedModel with
 * get_ema_multi_avg_fn(decay), whose first update copies. One that waits is averaged as it is. Parameters that are
 * narrower than f32 count as they are before they are rounded.
 */
static bool update_average(struct update *u, struct optim_update *p, const struct ir_state *state, struct ir_value *now)
{
    const char *name = optim_average_name(u->b->ctx, state);
    struct ir_value *old = ir_read_state(u->b, ir_state_by_name(u->b->func->module, name));
    struct ir_value *mean = old && now ? optim_lerp(p, old, now, 1 - u->c->ema) : NULL;

    mean = mean ? ir_select(u->b, u->shared.first, now, mean) : NULL;
    return mean && optim_write(u->b, name, ir_select(u->b, u->shared.ok, mean, old));
}

static bool update_parameter(struct update *u, const struct train_param *param, struct ir_value *grad)
{
    struct ir_builder *b = u->b;
    const struct ir_state *state = param->state;
    const struct optim_group *group = optim_group_of(u->c, state->name), *first = &u->c->groups[0];
    struct optim_update p = {
        .b = b, .dtype = optim_update_type(state), .opt = group->value, .shared = &u->shared, .rate = u->rate};
    int g = (int)(group - first);
    p.shared = u->active[g] ? &u->waiting[g] : &u->shared;
    struct ir_value *ok = p.shared->ok;
    bool master = optim_has_master(u->c, state);
    const char *names[OPTIM_MAX_SLOTS] = {0},
               *name = master ? ir_internf(b->ctx, "master.%s", state->name) : state->name;
    struct ir_value *old[OPTIM_MAX_SLOTS] = {0}, *p_new;
    struct ir_value *p_old = param->value && !master ? param->value : optim_read(b, name);

    if (!p_old || !read_slots(u, &p, state->name, names, old))
        return false;
    if (group->value[OPT_lr] != first->value[OPT_lr])
        p.rate = ir_binary(b, IR_mul, u->rate, ir_constant_f(b, TCC_F64, group->value[OPT_lr] / first->value[OPT_lr]));
    p.p = ir_cast_to(b, p_old, p.dtype);
    p.g = ir_cast_to(b, grad, p.dtype);
    if (u->factor)
        p.g = ir_binary(b, IR_mul, p.g, ir_cast_to(b, u->factor, p.dtype));
    p_new = optim_rules[u->c->kind](&p);
    for (int i = 0; i < OPTIM_MAX_SLOTS; i++)
        if (p.slot[i] && !write_back(u, ok, names[i], old[i], p.slot_new[i]))
            return false;
    if (u->c->ema != 0 && !update_average(u, &p, state, p_new && u->active[g] ? ir_select(b, ok, p_new, p.p) : p_new))
        return false;
    if (master && p_new) { /* the parameter is the copy, rounded to nearest */
        struct ir_value *kept = ir_select(b, ok, p_new, p_old);
        return optim_write(b, name, kept) &&
               optim_write(b, state->name, ir_cast_to(b, kept, (enum tcc_dtype)state->type->dtype));
    }
    return write_back(u, ok, name, p_old, p_new);
}

/* f32[]: scale * factor, rounded once, as torch's kernel does. */
static struct ir_value *scaled(struct ir_builder *b, struct ir_value *scale, double factor)
{
    struct ir_value *factor_value = ir_constant_f(b, TCC_F64, factor);
    struct ir_value *v = ir_binary(b, IR_mul, ir_cast_to(b, scale, TCC_F64), factor_value);
    return v ? ir_cast_to(b, v, TCC_F32) : NULL;
}

/* GradScaler.update: `backoff` after an overflow, `growth` after `interval` good steps unless that overflows. */
static bool update_scale(struct update *u)
{
    struct ir_builder *b = u->b;
    const struct optim_scaler *s = &u->c->scaler;
    struct ir_value *scale = optim_read(b, "train.scale"), *growth = optim_read(b, "train.growth");
    struct ir_value *zero = ir_constant_i(b, TCC_I32, 0), *count, *full, *larger;

    count = ir_binary(b, IR_add, growth, ir_constant_i(b, TCC_I32, 1));
    full = ir_binary(b, IR_ge, count, ir_constant_i(b, TCC_I32, (int64_t)s->interval));
    larger = scaled(b, scale, s->growth);
    larger = ir_select(b, ir_binary(b, IR_lt, larger, ir_constant_f(b, TCC_F32, INFINITY)), larger, scale);
    larger = ir_select(b, full, larger, scale);
    count = MUTANT(31, ir_select(b, full, zero, count), count);
    return optim_write(b, "train.scale", ir_select(b, u->shared.ok, larger, scaled(b, scale, s->backoff))) &&
           optim_write(b, "train.growth", ir_select(b, u->shared.ok, count, zero));
}

static bool count_step(struct update *u)
{
    struct ir_builder *b = u->b;
    struct ir_value *step = optim_read(b, "train.step"), *skipped = optim_read(b, "train.skipped");
    struct ir_value *skips = ir_unary(b, IR_not, u->shared.ok);

    for (int g = 0; g < u->c->ngroups; g++) {
        if (!u->active[g])
            continue;
        const char *name = optim_waited_name(b->ctx, g);
        struct ir_value *idle = ir_binary(b, IR_and, u->shared.ok, ir_unary(b, IR_not, u->active[g]));
        struct ir_value *one = idle ? ir_cast_to(b, idle, TCC_I64) : NULL;
        if (!idle || !optim_write(b, name, ir_binary(b, IR_add, optim_read(b, name), one)))
            return false;
    }
    return skips && optim_write(b, "train.step", ir_binary(b, IR_add, step, ir_cast_to(b, u->shared.ok, TCC_I64))) &&
           optim_write(b, "train.skipped",
                       ir_binary(b, IR_add, skipped, ir_cast_to(b, MUTANT(32, skips, u->shared.ok), TCC_I64)));
}

/* Where owners alone have gradients, they ask for it. */
static bool widen(struct update *u, int n, const struct train_param *params, struct ir_value **grads)
{
    if (!u->c || !build_active(u))
        return false;
    for (int i = 0; i < n; i++)
        if (!(grads[i] = u->owned ? params[i].grad : used_grad(u, u->b, &params[i])))
            return false;
    return true;
}

struct owned_update {
    struct update *u;
    const struct train_param *param;
};

/* The others leave the parameter and its state alone, which they need not have. */
static bool update_owned(struct ir_builder *then, void *user)
{
    struct owned_update *x = user;
    struct ir_builder *outer = x->u->b;

    x->u->b = then;
    bool good = update_parameter(x->u, x->param, used_grad(x->u, then, x->param));
    x->u->b = outer;
    return good;
}

static bool update_if_owned(struct update *u, struct ir_value *mine, const struct train_param *param)
{
    return train_zero_if(u->b, mine, update_owned, &(struct owned_update){u, param});
}

bool optim_measure(struct ir_builder *b, const struct train_options *o, int n, const struct train_param *params,
                   struct optim_totals *totals)
{
    struct update u = {.b = b, .c = optim_parse(b->ctx, o)};
    struct ir_value **grads = IR_NEWN(b->ctx, (size_t)n + 1, struct ir_value *);

    if (!train_parallel_is_owner(b, o, n, params, &u.owned) || !widen(&u, n, params, grads))
        return false;
    u.factor = unscale(b, u.c);
    *totals = measure(&u, n, params, grads);
    return totals->largest && (totals->squares || !optim_needs_norm(u.c));
}

bool optim_update_part(struct ir_builder *b, const struct train_options *o, int n, const struct train_param *params,
                       const struct optim_totals *totals, bool counters, struct ir_value **rate)
{
    struct update u = {.b = b, .c = optim_parse(b->ctx, o)};
    struct ir_value **grads = IR_NEWN(b->ctx, (size_t)n + 1, struct ir_value *);

    if (!train_parallel_is_owner(b, o, n, params, &u.owned) || !widen(&u, n, params, grads) ||
        !build_shared(&u, n, params, grads, totals))
        return false;
    for (int i = 0; i < n; i++)
        if (!(u.owned ? update_if_owned(&u, u.owned[i], &params[i]) : update_parameter(&u, &params[i], grads[i])))
            return false;
    if (u.owned && !train_parallel_broadcast_from_owner(b, o, n, params))
        return false;
    *rate = ir_cast_to(b, u.rate, TCC_F32);
    if (!counters)
        return *rate;
    return (!u.c->scaler.dynamic || update_scale(&u)) && (!u.norm || optim_write(b, "train.norm", u.norm)) &&
           count_step(&u) && *rate && optim_write(b, "train.lr", *rate);
}

bool optim_update(struct ir_builder *b, const struct train_options *o, int n, const struct train_param *params,
                  struct ir_value **rate)
{
    return optim_update_part(b, o, n, params, NULL, true, rate);
}
