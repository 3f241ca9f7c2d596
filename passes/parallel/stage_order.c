/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schedules. All but Megatron's come from one simulation of the stages: whenever a stage is idle it takes the best
 * of the tasks that are ready, and the schedules differ in what is best and what must wait. For equal stages these are
 * the textbook orders: Huang et al., GPipe (2019, arXiv 1811.06965); Narayanan et al., PipeDream-flush, 1F1B (2021,
 * arXiv 2006.09503); SageMaker's "simple" and "interleaved" pipelines (arXiv 2111.05972). Interleaved 1F1B is written
 * out: Narayanan et al., Megatron-LM (2021, arXiv 2104.04473).
 */
#include "passes/parallel/stage_order.h"
#include "base/mutant.h"

#include <stdlib.h>
#include <string.h>

struct maker {
    struct ir_ctx *ctx;
    struct pipeline_order *order;
    const bool *empty;
    const double *forward, *backward;
    bool training;
    int last;                   /* segment with work */
    int first;                  /* segment with work */
    double *done_f, *done_b;    /* by segment and micro: when it ends; < 0: not begun */
    int *live, *limit;          /* by segment: microbatches held, allowed */
    int *next_f, *next_b;       /* by segment: the microbatch to come */
    double *free_at;            /* by stage */
    int started, finished, cap; /* microbatches; most in flight */
    struct pipeline_task *pick; /* by stage: what it would begin with */
    double *at;                 /* when; < 0: with nothing */
    int *first_of, leaves;      /* a tree over the stages: which of those below begins first; -1: none */
};

bool pipeline_parse(struct ir_ctx *ctx, const char *text, struct pipeline_options *o)
{
    static const char *const names[] = {"simple", "interleaved", "1f1b", "1f1b-interleaved"};
    static const char chunks[] = ":chunks=";
    size_t n = text ? strcspn(text, ":") : 0;
    o->kind = PIPELINE_INTERLEAVED;
    o->chunks = 1;
    if (!text)
        return true;
    for (int i = 0; i < 4; i++) {
        if (strlen(names[i]) != n || strncmp(names[i], text, n))
            continue;
        o->kind = (enum pipeline_kind)i;
        if (o->kind != PIPELINE_1F1B_INTERLEAVED && !text[n])
            return true;
        char *end = NULL;
        long v = strncmp(text + n, chunks, strlen(chunks)) ? 0 : strtol(text + n + strlen(chunks), &end, 10);
        if (o->kind == PIPELINE_1F1B_INTERLEAVED && !text[n])
            v = 2;
        else if (!end || *end)
            v = 0;
        o->chunks = (int)v;
        if (o->kind == PIPELINE_1F1B_INTERLEAVED && v >= 1 && v <= 1024)
            return true;
    }
    return ir_error(ctx, NULL, "--pipeline=%s: expected simple, interleaved, 1f1b or 1f1b-interleaved:chunks=V", text);
}

static int stage_of(const struct maker *k, int segment)
{
    return segment % k->order->stages;
}

static double time_of(const struct maker *k, const struct pipeline_task *t)
{
    double f = k->forward ? k->forward[t->segment] : 1;
    return !t->backward ? f : k->backward ? k->backward[t->segment] : 2 * f;
}

static bool is_empty(const struct maker *k, int segment)
{
    return k->empty && k->empty[segment];
}

static double *done(const struct maker *k, const struct pipeline_task *t)
{
    return (t->backward ? k->done_b : k->done_f) + (size_t)t->segment * (size_t)k->order->o.micros + (size_t)t->micro;
}

/* When its operands are there; < 0: not known yet. */
static double ready_at(const struct maker *k, const struct pipeline_task *t)
{
    struct pipeline_task before = *t;
    if (t->backward && t->segment == k->last) {
        before.backward = false;
        return *done(k, &before);
    }
    if (!t->backward && t->segment == k->first)
        return 0;
    int step = t->backward ? 1 : -1;
    for (before.segment += step; is_empty(k, before.segment);)
        before.segment += step;
    return *done(k, &before);
}

static void append(struct maker *k, struct pipeline_task t)
{
    struct pipeline_order *o = k->order;
    int stage = stage_of(k, t.segment);
    o->stage[stage].at[o->stage[stage].n++] = t;
}

static struct maker maker_new(struct ir_ctx *ctx, struct pipeline_order *order, const bool *empty,
                              const double *forward, const double *backward)
{
    struct maker k = {.ctx = ctx, .order = order, .empty = empty, .forward = forward, .backward = backward};
    size_t all = (size_t)order->segments * (size_t)order->o.micros;
    k.done_f = IR_NEWN(ctx, all + 1, double);
    k.done_b = IR_NEWN(ctx, all + 1, double);
    for (size_t i = 0; i < all; i++)
        k.done_f[i] = k.done_b[i] = -1;
    k.free_at = IR_NEWN(ctx, order->stages, double);
    k.pick = IR_NEWN(ctx, order->stages, struct pipeline_task);
    k.at = IR_NEWN(ctx, order->stages, double);
    for (k.leaves = 1; k.leaves < order->stages;)
        k.leaves *= 2;
    k.first_of = IR_NEWN(ctx, 2 * (size_t)k.leaves, int);
    for (int i = 0; i < 2 * k.leaves; i++)
        k.first_of[i] = -1;
    k.live = IR_NEWN(ctx, order->segments + 1, int);
    k.limit = IR_NEWN(ctx, order->segments + 1, int);
    k.next_f = IR_NEWN(ctx, order->segments + 1, int);
    k.next_b = IR_NEWN(ctx, order->segments + 1, int);
    k.first = 0;
    while (k.first < order->segments - 1 && is_empty(&k, k.first))
        k.first++;
    k.last = order->segments - 1;
    while (k.last > k.first && is_empty(&k, k.last))
        k.last--;
    return k;
}

/* -- Schedules by simulation --------------------------------------------------------------------------------------- */

/* May the stage take that task now? Its operands are another question. */
static bool allowed(const struct maker *k, const struct pipeline_task *t)
{
    const struct pipeline_options *o = &k->order->o;
    if (!t->backward)
        return MUTANT(142, k->live[t->segment] < k->limit[t->segment], true) &&
               (t->segment != k->first || k->started - k->finished < k->cap);
    if (o->kind != PIPELINE_SIMPLE)
        return true;
    /* All forward passes of the wave first. */
    int wave = (t->micro / k->cap + 1) * k->cap;
    for (int s = stage_of(k, t->segment); s < k->order->segments; s += k->order->stages)
        if (!is_empty(k, s) && k->next_f[s] < (wave < o->micros ? wave : o->micros))
            return false;
    return true;
}

/* Does the stage rather take a? Backward first; then the older microbatch; then the later segment. */
static bool better(const struct pipeline_task *a, const struct pipeline_task *b)
{
    if (a->backward != b->backward)
        return MUTANT(143, a->backward, b->backward);
    if (a->micro != b->micro)
        return a->micro < b->micro;
    return a->segment > b->segment;
}

/* The task that the stage would begin with first; *start: when. */
static bool choose(const struct maker *k, int stage, struct pipeline_task *best, double *start)
{
    bool found = false;
    for (int s = stage; s < k->order->segments; s += k->order->stages) {
        if (is_empty(k, s))
            continue;
        struct pipeline_task two[2] = {{.segment = s, .micro = k->next_f[s]},
                                       {.backward = true, .segment = s, .micro = k->next_b[s]}};
        for (int i = 0; i < 1 + k->training; i++) {
            struct pipeline_task *t = &two[i];
            double at = t->micro < k->order->o.micros && allowed(k, t) ? ready_at(k, t) : -1;
            if (at < 0)
                continue;
            at = at > k->free_at[stage] ? at : k->free_at[stage];
            if (found && (at > *start || (at == *start && !better(t, best))))
                continue;
            *best = *t;
            *start = at;
            found = true;
        }
    }
    return found;
}

static void begin(struct maker *k, struct pipeline_task t, double start)
{
    int stage = stage_of(k, t.segment);
    t.start = start;
    t.end = start + time_of(k, &t);
    *done(k, &t) = t.end;
    k->free_at[stage] = t.end;
    (t.backward ? k->next_b : k->next_f)[t.segment]++;
    k->live[t.segment] += t.backward ? -1 : k->training;
    k->started += !t.backward && t.segment == k->first;
    k->finished += t.segment == (k->training ? k->first : k->last) && t.backward == k->training;
    append(k, t);
}

/* What the stage would do may be another by now. */
static void choose_again(struct maker *k, int stage)
{
    bool any = choose(k, stage, &k->pick[stage], &k->at[stage]);
    int at = k->leaves + stage;
    k->first_of[at] = any ? stage : -1;
    while (at > 1) {
        at /= 2;
        int a = k->first_of[2 * at], b = k->first_of[2 * at + 1];
        k->first_of[at] = b < 0 || (a >= 0 && k->at[a] <= k->at[b]) ? a : b;
    }
}

/* A task that has begun changes what its own stage would do, the stage that gets its result, and the first one, which
 * counts. */
static void touch(struct maker *k, const struct pipeline_task *t)
{
    int step = t->backward ? -1 : 1, next = t->segment + step;
    while (next >= 0 && next < k->order->segments && is_empty(k, next))
        next += step;
    choose_again(k, stage_of(k, t->segment));
    choose_again(k, stage_of(k, k->first));
    if (next >= 0 && next < k->order->segments)
        choose_again(k, stage_of(k, next));
}

/* Always the earliest task of all stages, so that what is decided never depends on what comes later. */
static void simulate_greedy(struct maker *k)
{
    for (int s = 0; s < k->order->stages; s++)
        choose_again(k, s);
    while (k->first_of[1] >= 0) {
        int stage = k->first_of[1];
        struct pipeline_task t = k->pick[stage];
        begin(k, t, k->at[stage]);
        touch(k, &t);
    }
}

static void greedy(struct maker *k)
{
    const struct pipeline_options *o = &k->order->o;
    int behind = 0;
    for (int s = k->order->segments - 1; s >= 0; s--) {
        behind += !is_empty(k, s);
        k->limit[s] = k->training && o->kind == PIPELINE_1F1B ? behind : o->micros;
    }
    k->cap = o->active ? o->active : o->kind == PIPELINE_INTERLEAVED ? k->order->stages + 2 : o->micros;
    if (!k->training || k->cap > o->micros)
        k->cap = o->micros;
    simulate_greedy(k);
}

/* -- Megatron's ---------------------------------------------------------------------------------------------------- */

static struct pipeline_task numbered(const struct maker *k, int stage, int i, int group, bool backward)
{
    int p = k->order->stages, v = k->order->o.chunks;
    int chunk = i % (group * v) / group;
    chunk = backward ? v - 1 - chunk : chunk;
    return (struct pipeline_task){backward, chunk * p + stage, i / (group * v) * group + i % group, 0, 0};
}

static void megatron(struct maker *k)
{
    const struct pipeline_options *o = &k->order->o;
    int p = k->order->stages, v = o->chunks, m = o->micros, rounds = m / p > 1 ? m / p : 1, group = m / rounds;
    for (int r = 0; r < p; r++) {
        int total = m * v, warm = (v - 1) * group + 2 * (p - 1 - r);
        warm = !k->training || warm > total ? total : warm;
        for (int i = 0; i < warm; i++)
            append(k, numbered(k, r, i, group, false));
        for (int i = warm; i < total; i++) {
            append(k, numbered(k, r, i, group, false));
            append(k, numbered(k, r, i - warm, group, true));
        }
        for (int i = total - warm; k->training && i < total; i++)
            append(k, numbered(k, r, i, group, true));
    }
}

/* -- The door ------------------------------------------------------------------------------------------------------ */

static void count_peaks(struct pipeline_order *o)
{
    for (int s = 0; s < o->stages; s++) {
        int live = 0;
        o->peak[s] = 0;
        o->busy[s] = 0;
        for (int i = 0; i < o->stage[s].n; i++) {
            const struct pipeline_task *t = &o->stage[s].at[i];
            live += t->backward ? -1 : 1;
            o->peak[s] = live > o->peak[s] ? live : o->peak[s];
            o->busy[s] += t->end - t->start;
        }
    }
}

/* Gives every task its times, with every stage's tasks in the order in which they stand. False: the stages wait for
 * each other. */
static bool pipeline_simulate(struct ir_ctx *ctx, struct pipeline_order *order, const bool *empty,
                              const double *forward, const double *backward)
{
    struct maker k = maker_new(ctx, order, empty, forward, backward);
    int *at = IR_NEWN(ctx, order->stages, int), left = 0;
    for (int s = 0; s < order->stages; s++)
        left += order->stage[s].n;
    order->makespan = 0;
    for (bool moved = true; left && moved;) {
        moved = false;
        for (int s = 0; s < order->stages; s++)
            while (at[s] < order->stage[s].n) {
                struct pipeline_task *t = &order->stage[s].at[at[s]];
                double ready = ready_at(&k, t);
                if (ready < 0)
                    break;
                t->start = ready > k.free_at[s] ? ready : k.free_at[s];
                t->end = k.free_at[s] = t->start + time_of(&k, t);
                *done(&k, t) = t->end;
                order->makespan = t->end > order->makespan ? t->end : order->makespan;
                at[s]++;
                left--;
                moved = true;
            }
    }
    count_peaks(order);
    return !left;
}

struct pipeline_order *pipeline_make(struct ir_ctx *ctx, const struct pipeline_options *o, int stages, int segments,
                                     const bool *empty, const double *forward, const double *backward, bool training)
{
    struct pipeline_order *order = IR_NEW(ctx, struct pipeline_order);
    int rounds = o->micros / stages > 1 ? o->micros / stages : 1;
    if (o->kind == PIPELINE_1F1B_INTERLEAVED && o->micros % rounds)
        return ir_error(ctx, NULL, "--microbatches=%d: 1f1b-interleaved on %d stages requires a multiple of %d",
                        o->micros, stages, stages),
               NULL;
    *order = (struct pipeline_order){.o = *o, .stages = stages, .segments = segments};
    order->stage = ir_alloc_n(ctx, (size_t)stages + 1, sizeof *order->stage);
    order->peak = IR_NEWN(ctx, stages + 1, int);
    order->busy = IR_NEWN(ctx, stages + 1, double);
    for (int s = 0; s < stages; s++)
        order->stage[s].at =
            IR_NEWN(ctx, 2 * (size_t)(segments / stages + 1) * (size_t)o->micros + 1, struct pipeline_task);
    struct maker k = maker_new(ctx, order, empty, forward, backward);
    bool regular = o->kind == PIPELINE_1F1B_INTERLEAVED && segments == stages * o->chunks;
    for (int s = 0; s < segments; s++)
        regular = regular && !is_empty(&k, s);
    k.training = training;
    if (regular)
        megatron(&k);
    else
        greedy(&k);
    if (pipeline_simulate(ctx, order, empty, forward, backward))
        return order;
    return ir_error(ctx, NULL, "--pipeline: the stages would wait for each other (%d stages, %d microbatches)", stages,
                    o->micros),
           NULL;
}

double pipeline_bubble(const struct pipeline_order *order)
{
    double busy = 0;
    for (int s = 0; s < order->stages; s++)
        busy += order->busy[s];
    return order->makespan > 0 ? 1 - busy / (order->makespan * order->stages) : 0;
}
