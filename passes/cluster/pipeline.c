/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipeline.c - a layout's stages in time: the compiler's own schedule is simulated with what each part takes
 * (events.c). Large schedules are extended from two small ones: once a pipeline is full, each microbatch adds the same
 * time.
 */
#include "passes/cluster/predict_int.h"

#include <math.h>

#define SIMULATED 5e5 /* tasks that are simulated in full */
/* the same, of schedules that are extended and need as many microbatches to fill the pipeline twice */
#define EXTENDED 5e6

/* Ranks of the sender's node that send to another node at the same time, on the same way. */
static double sharers(const struct sim_context *x, int from, int to)
{
    int n = 0, node = plan_node_of(x, 0, from);
    for (int d = 0; d < x->l->copies && n < x->per_node; d++)
        n += plan_node_of(x, d, from) == node && plan_node_of(x, d, to) != node;
    return n > 1 ? n : 1;
}

static void set_links(const struct sim_context *x, struct ir_ctx *ctx, struct plan_pipeline *p)
{
    int n = x->l->partitions;
    const struct plan_link **link = IR_NEWN(ctx, (size_t)n * (size_t)n + 1, const struct plan_link *);
    double *many = IR_NEWN(ctx, (size_t)n * (size_t)n + 1, double), *weight = IR_NEWN(ctx, n, double);
    int *node = IR_NEWN(ctx, n, int);
    for (int i = 0; i < x->cut->nsends; i++) {
        int from = x->cut->sends[i].from % n, to = x->cut->sends[i].to % n;
        bool near = plan_node_of(x, 0, from) == plan_node_of(x, 0, to);
        link[from * n + to] = link[to * n + from] = near ? &x->c->local : &x->c->remote;
        many[from * n + to] = near ? 1 : sharers(x, from, to);
        many[to * n + from] = near ? 1 : sharers(x, to, from);
    }
    for (int s = 0; s < n; s++) {
        node[s] = plan_node_of(x, 0, s) - plan_node_of(x, 0, 0);
        node[s] = node[s] < n ? node[s] : n - 1;
        weight[s] = x->here[s];
    }
    p->link = link;
    p->sharers = many;
    p->node = node;
    p->weight = weight;
    p->devices = x->slow > 1 ? x->c->devices : 0;
}

static void set_messages(const struct sim_context *x, struct ir_ctx *ctx, struct plan_pipeline *p)
{
    struct plan_message *list = IR_NEWN(ctx, 2 * (size_t)x->cut->nsends + 1, struct plan_message);
    int n = 0;
    for (int i = 0; i < x->cut->nsends; i++) {
        const struct plan_send *d = &x->cut->sends[i];
        double back = plan_at(d->backward, x->samples);
        list[n++] = (struct plan_message){d->from, d->to, plan_at(d->forward, x->samples), false};
        if (back > 0)
            list[n++] = (struct plan_message){d->to, d->from, back, true};
    }
    p->messages = list;
    p->nmessages = n;
}

/* The compiler's order, which it makes by its own costs (parallel/tasks.c), simulated with these times. */
static bool simulate_step(const struct sim_context *x, struct ir_ctx *ctx, int micros, struct pipeline_result *r)
{
    const struct plan_cut *u = x->cut;
    struct pipeline_options o = {x->l->kind, x->l->chunks, micros, x->l->active};
    double *forward = IR_NEWN(ctx, u->nsegments, double), *backward = IR_NEWN(ctx, u->nsegments, double);
    for (int g = 0; g < u->nsegments; g++) {
        forward[g] = u->order_time[g] / 3;
        backward[g] = 2 * forward[g];
    }
    struct pipeline_order *order =
        pipeline_make(ctx, &o, u->partitions, u->nsegments, u->empty, forward, backward, true);
    struct plan_pipeline p = {.order = order, .forward = x->forward, .backward = x->backward};
    struct plan_run run;
    if (!order)
        return false;
    set_links(x, ctx, &p);
    set_messages(x, ctx, &p);
    if (!plan_simulate(ctx, &p, &run))
        return false;
    *r = (struct pipeline_result){run.makespan, run.busy, run.end, order->peak};
    return true;
}

/* Microbatches of a stage that are between forward and backward pass, for schedules too large to make. */
static int peak_of(const struct sim_context *x, int stage)
{
    const struct plan_layout *l = x->l;
    int p = l->partitions, m = l->micros, most = m;
    if (l->kind == PIPELINE_INTERLEAVED)
        most = l->active ? l->active : p + 2;
    else if (l->active)
        most = l->active;
    if (l->kind == PIPELINE_1F1B && p - stage < most)
        most = p - stage;
    if (l->kind != PIPELINE_1F1B_INTERLEAVED)
        return most < m ? most : m;
    int group = m / p > 0 ? m / (m / p) : m, warm = (l->chunks - 1) * group + 2 * (p - 1 - stage) + 1;
    return warm < m * l->chunks ? warm : m * l->chunks;
}

/* What no schedule goes below: the slowest stage's work, and what is before its first and behind its last task. */
static void bound(const struct sim_context *x, struct pipeline_result *r)
{
    int n = x->l->partitions;
    double before = 0;
    for (int s = 0; s < n; s++) {
        double own = 0, first = 0;
        for (int g = s; g < x->cut->nsegments; g += n) {
            own += x->forward[g] + x->backward[g];
            first += g == s ? own : 0;
        }
        r->busy[s] = own * x->l->micros;
        r->makespan = fmax(r->makespan, before + own * x->l->micros);
        before += first;
    }
    for (int s = 0; s < n; s++)
        r->end[s] = r->makespan; /* all but the slowest may end earlier, so averages don't count */
}

/* Tasks of a microbatch. */
static double effort(const struct sim_context *x)
{
    return 2.0 * x->cut->nsegments;
}

/* Two small schedules: the time that a microbatch adds. */
static bool extend(const struct sim_context *x, struct ir_ctx *ctx, struct pipeline_result *r)
{
    int p = x->l->partitions, many = (int)(SIMULATED / effort(x)), step = 1;
    if (many < 2 * p)
        many = 2 * p * effort(x) <= EXTENDED ? 2 * p : (int)(EXTENDED / effort(x));
    if (x->l->kind == PIPELINE_1F1B_INTERLEAVED)
        many = many / (2 * p) * 2 * (step = p);
    many = many < 4 * step ? 4 * step : many;
    int few = many / 2;
    struct pipeline_result a = *r, b = *r;
    if (!simulate_step(x, ctx, few, &a) || !simulate_step(x, ctx, many, &b))
        return false;
    double more = (double)(x->l->micros - many) / (many - few);
    r->makespan = b.makespan + more * (b.makespan - a.makespan);
    for (int s = 0; s < p; s++) {
        r->busy[s] = b.busy[s] + more * (b.busy[s] - a.busy[s]);
        r->end[s] = b.end[s] + more * (b.end[s] - a.end[s]);
        r->peak[s] = peak_of(x, s);
    }
    return true;
}

bool plan_run_pipeline(const struct sim_context *x, struct ir_ctx *ctx, bool simulate, struct pipeline_result *r,
                       bool *extended)
{
    int n = x->l->partitions;
    *r = (struct pipeline_result){0, IR_NEWN(ctx, n, double), IR_NEWN(ctx, n, double), IR_NEWN(ctx, n, int)};
    for (int s = 0; s < n; s++)
        r->peak[s] = peak_of(x, s);
    *extended = effort(x) * x->l->micros > SIMULATED && x->l->micros > (n < 2 ? 4 : 4 * n);
    if (!simulate)
        bound(x, r);
    else if (*extended)
        return extend(x, ctx, r);
    else if (n == 1) {
        bound(x, r); /* one stage: its work */
        for (int s = 0; s < n; s++)
            r->makespan = r->busy[s] = r->end[s] = r->makespan * x->slow;
    } else {
        return simulate_step(x, ctx, x->l->micros, r);
    }
    return true;
}
