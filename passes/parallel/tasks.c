/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a schedule to what each stage does (ir/stages.h): calls, with sends behind them and receives before them, for
 * each value and microbatch once a stage that wants it. How many slots a value needs follows from the schedule's times:
 * microbatch m lies in slot m % slots, which must be free when m comes.
 */
#include "passes/parallel/stages_int.h"
#include "base/safe.h"

#include <string.h>

struct tasks {
    struct stages *x;
    struct kn_staged *p;
    const struct pipeline_order *order;
    bool *have;           /* by stage, value, microbatch: received or made there */
    double *first, *last; /* by stage, value, microbatch: when it comes, when it may go; first < 0: never there */
    const int *made_by;   /* by value: call; -1: none */
    bool *wanted;         /* by value and stage: a call of that stage takes it */
};

struct kn_step *stages_add_step(struct stages *x, struct kn_staged *p, int list, enum tcc_step_kind kind, int value,
                                int micro)
{
    int *args = IR_NEWN(x->ctx, 2, int);
    args[0] = value;
    VEC_PUSH(x->ctx, p->lists[list], (struct kn_step){.kind = kind, .nargs = 1, .args = args, .micro = micro});
    return &p->lists[list].at[p->lists[list].n - 1];
}

void stages_add_call(struct stages *x, struct kn_staged *p, int list, int call, int micro)
{
    struct kn_step s = x->calls.at[call].step;
    s.micro = micro;
    VEC_PUSH(x->ctx, p->lists[list], s);
}

static size_t place(const struct tasks *k, int stage, int value, int micro)
{
    return ((size_t)stage * (size_t)k->p->nbuffers + (size_t)value) * (size_t)k->p->micros + (size_t)micro;
}

static bool is_slot(const struct tasks *k, int value)
{
    return k->p->buffers[value].space == TCC_SPACE_SLOT;
}

static void extend(struct tasks *k, int stage, int value, int micro, double from, double to)
{
    size_t i = place(k, stage, value, micro);
    if (k->first[i] < 0)
        k->first[i] = from;
    if (to > k->last[i])
        k->last[i] = to;
}

static void add_call(struct tasks *k, int stage, int call, const struct pipeline_task *t)
{
    const struct kn_step *c = &k->x->calls.at[call].step;
    for (int i = 0; i < c->nin; i++) {
        int v = c->args[i], from = is_slot(k, v) ? k->x->calls.at[k->made_by[v]].stage : stage;
        if (!is_slot(k, v))
            continue;
        if (from != stage && !k->have[place(k, stage, v, t->micro)]) {
            stages_add_step(k->x, k->p, stage, TCC_STEP_RECV, v, t->micro)->peer = from;
            k->have[place(k, stage, v, t->micro)] = true;
            extend(k, from, v, t->micro, 0, t->start); /* there it may go now */
        }
        extend(k, stage, v, t->micro, t->start, t->end);
    }
    stages_add_call(k->x, k->p, stage, call, t->micro);
    for (int i = c->nin; i < c->nargs; i++) {
        int v = c->args[i];
        extend(k, stage, v, t->micro, t->start, t->end);
        for (int o = 0; o < k->p->noutputs; o++)
            if (k->p->outputs[o].buffer == v)
                stages_add_step(k->x, k->p, stage, TCC_STEP_RESULT, v, t->micro)->what = o;
        for (int s = 0; s < k->p->stages; s++)
            if (s != stage && k->wanted[v * k->p->stages + s])
                stages_add_step(k->x, k->p, stage, TCC_STEP_SEND, v, t->micro)->peer = s;
    }
}

/* The fewest slots in which no microbatch comes before the one that lies there may go. */
static void count_slots(struct tasks *k)
{
    for (int v = 0; v < k->p->nbuffers; v++) {
        int slots = 1;
        for (int s = 0; s < k->p->stages && is_slot(k, v); s++)
            for (int m = 1; m < k->p->micros; m++)
                for (int older = m - 1; older >= 0; older--) {
                    size_t now = place(k, s, v, m), old = place(k, s, v, older);
                    if (k->first[now] >= 0 && k->first[old] >= 0 && k->last[old] > k->first[now] + 1e-12 &&
                        m - older + 1 > slots)
                        slots = m - older + 1;
                }
        /* What comes from another stage has one to spare: it may be on its way while its predecessors are in use. */
        bool crosses = false;
        for (int s = 0; s < k->p->stages && k->made_by[v] >= 0; s++)
            crosses |= s != k->x->calls.at[k->made_by[v]].stage && k->wanted[v * k->p->stages + s];
        if (is_slot(k, v))
            k->p->buffers[v].index = slots + (crosses && slots < k->p->micros);
    }
}

/* All stages' steps in the order of time, so that each value's producer comes before its consumers. */
static void lay_out(struct tasks *k)
{
    const struct pipeline_order *o = k->order;
    int *at = IR_NEWN(k->x->ctx, o->stages + 1, int);
    for (;;) {
        int best = -1;
        for (int s = 0; s < o->stages; s++)
            if (at[s] < o->stage[s].n && (best < 0 || o->stage[s].at[at[s]].start < o->stage[best].at[at[best]].start))
                best = s;
        if (best < 0)
            return;
        const struct pipeline_task *t = &o->stage[best].at[at[best]++];
        const struct segment *seg = &k->x->segments[t->segment];
        int call = t->backward ? seg->backward : seg->forward;
        if (call >= 0)
            add_call(k, best, call, t);
    }
}

static struct pipeline_order *make_order(struct stages *x, const struct pipeline_options *o)
{
    bool *empty = IR_NEWN(x->ctx, x->nsegments, bool);
    double *forward = IR_NEWN(x->ctx, x->nsegments, double), *backward = IR_NEWN(x->ctx, x->nsegments, double);
    for (int i = 0; i < x->part->n; i++)
        forward[x->part->items[i].segment] += x->part->items[i].time;
    for (int s = 0; s < x->nsegments; s++) {
        empty[s] = x->segments[s].forward < 0 && x->segments[s].backward < 0;
        forward[s] /= x->training ? 3 : 1;
        backward[s] = 2 * forward[s];
    }
    return pipeline_make(x->ctx, o, x->o->partitions, x->nsegments, empty, forward, backward, x->training);
}

static bool draw(struct stages *x, const struct pipeline_order *order)
{
    const char *path = x->training ? x->o->chart : NULL, *dot = path ? strrchr(path, '.') : NULL;
    if (x->o->schedule) {
        fprintf(x->o->schedule, "; pipeline @%s: %d stages, %d microbatches\n", x->name, order->stages,
                order->o.micros);
        pipeline_print(x->o->schedule, order);
    }
    struct tcr_save save;
    if (!path)
        return true;
    if (!tcr_save_open(&save, path, TCR_SAVE_STREAM)) {
        (dot && !strcmp(dot, ".svg") ? pipeline_draw_svg : pipeline_draw_trace)(save.stream, order);
        if (!tcr_save_commit(&save))
            return true;
    }
    return train_complain(x->t, "--pipeline-chart=%s: cannot be written: %m", path);
}

struct kn_staged *stages_schedule(struct stages *x)
{
    struct pipeline_options o = {.micros = x->o->microbatches, .active = x->o->active};
    if (!pipeline_parse(x->ctx, x->o->schedule_of_stages, &o))
        return NULL;
    struct pipeline_order *order = make_order(x, &o);
    if (!order || !draw(x, order))
        return NULL;
    struct kn_staged *p = stages_new(x, o.micros);
    struct tasks k = {.x = x, .p = p, .order = order};
    size_t all = (size_t)p->stages * (size_t)p->nbuffers * (size_t)p->micros;
    int *made_by = IR_NEWN(x->ctx, p->nbuffers + 1, int);
    k.have = IR_NEWN(x->ctx, all + 1, bool);
    k.first = IR_NEWN(x->ctx, all + 1, double);
    k.last = IR_NEWN(x->ctx, all + 1, double);
    k.wanted = IR_NEWN(x->ctx, p->nbuffers * p->stages + 1, bool);
    k.made_by = made_by;
    for (size_t i = 0; i < all; i++)
        k.first[i] = k.last[i] = -1;
    for (int c = 0; c < x->calls.n; c++) {
        const struct kn_step *s = &x->calls.at[c].step;
        for (int i = s->nin; i < s->nargs; i++)
            made_by[s->args[i]] = c;
        for (int i = 0; i < s->nin; i++)
            k.wanted[s->args[i] * p->stages + x->calls.at[c].stage] = true;
    }
    lay_out(&k);
    count_slots(&k);
    return p;
}
