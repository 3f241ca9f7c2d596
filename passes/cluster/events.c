/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time, by events. A pipeline's stages take their tasks in the order of the schedule; a task begins when the stage is
 * free and its messages have come, and works at the stage's rate: where more ranks are busy than a node has devices,
 * they share them, so rates change whenever a task begins or ends. Between events all rates are constant.
 *
 * All-reduce is the run-time library's: every rank owns a part and gets it from all others, adds up, and sends the sums
 * to all: twice (copies - 1) / copies of the bytes go out of each rank, as with a ring; messages go IN_FLIGHT at a
 * time.
 */
#include "passes/cluster/cluster.h"
#include "base/mutant.h"

#include <math.h>

#define IN_FLIGHT 4

/* -- A pipeline ---------------------------------------------------------------------------------------------------- */

struct sim_context {
    struct ir_ctx *ctx;
    const struct plan_pipeline *p;
    const struct pipeline_order *order;
    int *next;       /* by stage: its next task, or the running one */
    bool *running;   /* by stage */
    bool *done;      /* by stage: its task has ended just now */
    double *left;    /* by stage: work of the running task */
    double *sending; /* by stage: until when its messages occupy its link */
    double *came;    /* by message and micro: arrival; < 0: not sent yet */
    double *load;    /* by stage's node number: weight of the stages that work there */
    const int **in;  /* by segment, 2 each (forward, backward): its messages; ended by -1 */
    const int **out;
};

static int stage_of(const struct sim_context *y, int segment)
{
    return segment % y->order->stages;
}

static bool leaves_stage(const struct sim_context *y, const struct plan_message *g)
{
    return stage_of(y, g->from) != stage_of(y, g->to);
}

/* Seconds on the wire. */
static double transfer(const struct sim_context *y, const struct plan_message *g, const struct plan_link **link)
{
    int at = stage_of(y, g->from) * y->order->stages + stage_of(y, g->to);
    *link = y->p->link[at];
    return g->bytes * (y->p->sharers ? y->p->sharers[at] : 1) / (*link)->bandwidth;
}

static double *arrival(const struct sim_context *y, int message, int micro)
{
    return &y->came[(size_t)message * (size_t)y->order->o.micros + (size_t)micro];
}

static const int *list(struct sim_context *y, int segment, bool backward, bool in)
{
    VEC(int) found = {0};
    for (int i = 0; i < y->p->nmessages; i++) {
        const struct plan_message *g = &y->p->messages[i];
        if (g->backward == backward && (in ? g->to : g->from) == segment)
            VEC_PUSH(y->ctx, found, i);
    }
    VEC_PUSH(y->ctx, found, -1);
    return found.at;
}

/* When the task's operands are there; < 0: not known. */
static double ready(const struct sim_context *y, const struct pipeline_task *t)
{
    double at = 0;
    for (const int *i = y->in [2 * t->segment + t->backward]; *i >= 0; i++) {
        double came = *arrival(y, *i, t->micro);
        if (came < 0)
            return -1;
        at = came > at ? came : at;
    }
    return at;
}

/* Computation, and what the stage's devices do for messages: sender and receiver a half each. */
static double work(const struct sim_context *y, const struct pipeline_task *t)
{
    double seconds = t->backward ? y->p->backward[t->segment] : y->p->forward[t->segment];
    const struct plan_link *link;
    const int *lists[] = {y->in[2 * t->segment + t->backward], y->out[2 * t->segment + t->backward]};
    for (int k = 0; k < 2; k++)
        for (const int *i = lists[k]; *i >= 0; i++)
            if (leaves_stage(y, &y->p->messages[*i])) {
                double wire = transfer(y, &y->p->messages[*i], &link);
                seconds += (1 - link->overlap) * wire / 2;
            }
    return seconds;
}

static void send(struct sim_context *y, const struct pipeline_task *t, double now)
{
    int stage = stage_of(y, t->segment);
    for (const int *i = y->out[2 * t->segment + t->backward]; *i >= 0; i++) {
        const struct plan_message *g = &y->p->messages[*i];
        const struct plan_link *link;
        if (!leaves_stage(y, g)) {
            *arrival(y, *i, t->micro) = now;
            continue;
        }
        double wire = transfer(y, g, &link) * link->overlap;
        double start = y->sending[stage] > now ? y->sending[stage] : now;
        y->sending[stage] = start + wire;
        *arrival(y, *i, t->micro) = start + wire + MUTANT(150, link->latency, 0);
    }
}

/* Begins what can begin now; when the next known operand comes, INFINITY: none does. */
static double begin(struct sim_context *y, double now)
{
    double soonest = INFINITY;
    for (int s = 0; s < y->order->stages; s++) {
        if (y->running[s] || y->next[s] == y->order->stage[s].n)
            continue;
        const struct pipeline_task *t = &y->order->stage[s].at[y->next[s]];
        double at = ready(y, t);
        if (at < 0)
            continue;
        if (at > now) {
            soonest = at < soonest ? at : soonest;
            continue;
        }
        y->running[s] = true;
        y->left[s] = work(y, t);
        if (y->p->devices > 0)
            y->load[y->p->node[s]] += y->p->weight[s];
    }
    return soonest;
}

static double rate(const struct sim_context *y, int stage)
{
    double load = y->p->devices > 0 ? y->load[y->p->node[stage]] : 0;
    return load > y->p->devices ? y->p->devices / load : 1;
}

static void finish(struct sim_context *y, int s, double now, struct plan_run *out)
{
    const struct pipeline_task *t = &y->order->stage[s].at[y->next[s]++];
    y->running[s] = false;
    if (y->p->devices > 0)
        y->load[y->p->node[s]] -= y->p->weight[s];
    out->end[s] = now;
    out->makespan = now > out->makespan ? now : out->makespan;
    send(y, t, now);
}

/* To the next event. False: there is none. */
static bool advance(struct sim_context *y, double *now, struct plan_run *out)
{
    double soonest = begin(y, *now), step = soonest - *now;
    int stages = y->order->stages;
    for (int s = 0; s < stages; s++)
        if (y->running[s] && y->left[s] / rate(y, s) < step)
            step = y->left[s] / rate(y, s);
    if (!isfinite(step))
        return false;
    *now = step == soonest - *now ? soonest : *now + step;
    double slack = *now * 1e-12;
    for (int s = 0; s < stages; s++) {
        y->done[s] = false;
        if (!y->running[s])
            continue;
        double r = rate(y, s);
        y->left[s] -= step * r;
        out->busy[s] += step;
        y->done[s] = y->left[s] <= slack * r;
    }
    for (int s = 0; s < stages; s++)
        if (y->done[s])
            finish(y, s, *now, out);
    return true;
}

/* Stages that need not share anything: a task's times follow from those before it, so each stage goes on as far as it
 * can. */
static void simulate_apart(struct sim_context *y, struct plan_run *out)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (int s = 0; s < y->order->stages; s++)
            while (y->next[s] < y->order->stage[s].n) {
                const struct pipeline_task *t = &y->order->stage[s].at[y->next[s]];
                double start = ready(y, t), takes;
                if (start < 0)
                    break;
                start = start > out->end[s] ? start : out->end[s];
                takes = work(y, t);
                out->busy[s] += takes;
                finish(y, s, start + takes, out);
                moved = true;
            }
    }
}

static bool simulate_step(struct ir_ctx *ctx, const struct plan_pipeline *p, struct plan_run *out)
{
    const struct pipeline_order *o = p->order;
    size_t n = (size_t)o->stages, messages = (size_t)p->nmessages * (size_t)o->o.micros;
    struct sim_context y = {.ctx = ctx, .p = p, .order = o};
    y.next = IR_NEWN(ctx, n, int);
    y.running = IR_NEWN(ctx, n, bool);
    y.done = IR_NEWN(ctx, n, bool);
    y.left = IR_NEWN(ctx, n, double);
    y.sending = IR_NEWN(ctx, n, double);
    y.load = IR_NEWN(ctx, n + 1, double);
    y.came = IR_NEWN(ctx, messages + 1, double);
    y.in = IR_NEWN(ctx, 2 * (size_t)o->segments + 2, const int *);
    y.out = IR_NEWN(ctx, 2 * (size_t)o->segments + 2, const int *);
    for (size_t i = 0; i < messages; i++)
        y.came[i] = -1;
    for (int i = 0; i < 2 * o->segments; i++) {
        y.in[i] = list(&y, i / 2, i % 2, true);
        y.out[i] = list(&y, i / 2, i % 2, false);
    }
    double now = 0;
    if (p->devices > 0)
        while (advance(&y, &now, out)) {
        }
    else
        simulate_apart(&y, out);
    for (int s = 0; s < o->stages; s++)
        if (y.next[s] < o->stage[s].n)
            return false;
    return true;
}

bool plan_simulate(struct ir_ctx *ctx, const struct plan_pipeline *p, struct plan_run *out)
{
    *out = (struct plan_run){0, IR_NEWN(ctx, p->order->stages, double), IR_NEWN(ctx, p->order->stages, double)};
    return simulate_step(ctx, p, out);
}

/* -- Averages ------------------------------------------------------------------------------------------------------ */

double plan_all_reduce(const struct plan_cluster *c, double bytes, int copies, int here, int sharers)
{
    if (copies < 2)
        return 0;
    double part = bytes / copies;
    double near = MUTANT(151, here - 1, copies) * part / c->local.reduce;
    double far = (double)(copies - here) * part * sharers / c->remote.reduce;
    double latency = copies > here ? c->remote.latency : c->local.latency;
    double wire = near > far ? near : far, starts = latency * (copies - 2) / IN_FLIGHT;
    return 2 * (latency + (wire > starts ? wire : starts));
}

double plan_buckets(int n, const double *ready, const double *seconds, double overlap, double end, double *compute)
{
    double late = 0, done = 0; /* how much later than without averages computation is; when the last bucket is there */
    for (int i = 0; i < n; i++) {
        double at = ready[i] + late, start = MUTANT(152, at > done ? at : done, at);
        late += (1 - overlap) * seconds[i];
        done = start + seconds[i];
    }
    *compute = end + late;
    return done > *compute ? done : *compute;
}
