/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program: steps of one compute queue that stand together become a PROGRAM, which a device compiles or records as one
 * thing. Copies to the device that stand among them and wait for none of them move in front. What waited for one of the
 * steps waits for the program; what they waited for, the program waits for, as far as none of these waits implies
 * another.
 */
#include "passes/lower_int.h"

bool pass_program_run(struct pass_run *r);

struct program {
    struct ir_ctx *ctx;
    struct kn_program *p;
    const struct pass_machine *machine;
    int *event; /* by event: that of the program which its step has become a part of, else itself */
    int nevents;
};

/* A library call in a queue of the device's is a user's device code, which becomes a launch. */
static bool may_hold(const struct program *g, const struct kn_step *s)
{
    bool user = s->kind == TCC_STEP_LIB;
    return (s->kind == TCC_STEP_LAUNCH || s->kind == TCC_STEP_COPY || user) && !s->nregions &&
           g->p->queues[s->queue].kind == TCC_QUEUE_COMPUTE && g->p->queues[s->queue].memory &&
           (user || !g->machine || !g->machine->holds || g->machine->holds(g->machine, s));
}

static bool may_move_up(const struct program *g, const struct kn_steps *steps, int first, int at)
{
    const struct kn_step *s = &steps->at[at];
    if (g->p->queues[s->queue].kind != TCC_QUEUE_COPY_IN)
        return false;
    for (int w = 0; w < s->nwaits; w++)
        for (int i = first; i < at; i++)
            if (steps->at[i].event == s->waits[w] && may_hold(g, &steps->at[i]))
                return false;
    return true;
}

/* One wait for each program, in place of those for its steps. */
static void rename_waits(const struct program *g, struct kn_step *s)
{
    int n = 0;
    for (int i = 0; i < s->nwaits; i++) {
        int event = g->event[s->waits[i]], k = 0;
        while (k < n && s->waits[k] != event)
            k++;
        if (k == n)
            s->waits[n++] = event;
    }
    s->nwaits = n;
}

static void add_wait(struct program *g, struct kn_step *to, int event)
{
    int *more = IR_NEWN(g->ctx, to->nwaits + 1, int);
    for (int i = 0; i < to->nwaits; i++) {
        if (to->waits[i] == event)
            return;
        more[i] = to->waits[i];
    }
    more[to->nwaits++] = event;
    to->waits = more;
}

/* Steps [first, last) of `from`: copies that move up, then the program. */
static void form(struct program *g, const struct kn_steps *from, int first, int last, struct kn_steps *to)
{
    struct kn_step made = {.kind = TCC_STEP_PROGRAM,
                           .queue = from->at[first].queue,
                           .nregions = 1,
                           .node = from->at[first].node,
                           .op = from->at[first].op};
    made.regions = IR_NEW(g->ctx, struct kn_region);
    for (int i = first; i < last; i++) {
        struct kn_step s = from->at[i];
        if (!may_hold(g, &s)) {
            lw_push_step(g->ctx, to, s);
            continue;
        }
        for (int w = 0; w < s.nwaits; w++)
            add_wait(g, &made, s.waits[w]);
        if (s.event && !made.event)
            made.event = s.event;
        if (s.event)
            g->event[s.event] = made.event;
        s.event = s.nwaits = 0;
        lw_push_step(g->ctx, &made.regions->steps, s);
    }
    lw_push_step(g->ctx, to, made);
}

static void walk(struct program *g, struct kn_steps *steps)
{
    struct kn_steps to = {0};
    for (int i = 0, end; i < steps->n; i = end) {
        int held = 0, last = i;
        end = i + 1;
        rename_waits(g, &steps->at[i]);
        if (may_hold(g, &steps->at[i])) {
            int queue = steps->at[i].queue;
            for (end = i; end < steps->n; end++) {
                if (end > i)
                    rename_waits(g, &steps->at[end]);
                if (may_hold(g, &steps->at[end]) && steps->at[end].queue == queue) {
                    held++;
                    last = end + 1;
                } else if (!may_move_up(g, steps, i, end)) {
                    break;
                }
            }
            end = last;
        }
        if (held > 1) {
            form(g, steps, i, end, &to);
            continue;
        }
        end = i + 1;
        for (int r = 0; r < steps->at[i].nregions; r++)
            walk(g, &steps->at[i].regions[r].steps);
        lw_push_step(g->ctx, &to, steps->at[i]);
    }
    *steps = to;
}

/* Without waits that others imply: a step's own list has none, but a program's is made of several. */
static void reduce(struct kn_order *o, struct kn_steps *steps)
{
    for (int i = 0; i < steps->n; i++) {
        struct kn_step *s = &steps->at[i];
        kn_order_reduce(o, s);
        kn_order_step(o, s, 0);
        for (int r = 0; r < s->nregions; r++) {
            kn_order_enter(o, s);
            reduce(o, &s->regions[r].steps);
            kn_order_leave(o, s, 0);
        }
    }
}

bool pass_program_run(struct pass_run *r)
{
    struct ir_ctx *ctx = pass_ctx(r);
    struct kn_program *p = pass_module(r)->program;
    if (!p)
        return ir_error(ctx, NULL, "program: the module has not been lowered");
    for (int e = 0; e < p->nentries && p->nmemories > 1; e++) {
        struct program g = {.ctx = ctx, .p = p, .machine = pass_opts(r)->machine};
        g.nevents = kn_count_steps(&p->entries[e].steps);
        g.event = IR_NEWN(ctx, g.nevents + 1, int);
        for (int i = 0; i <= g.nevents; i++)
            g.event[i] = i;
        walk(&g, &p->entries[e].steps);
        struct ir_arena *scratch = ir_arena_new(ctx);
        reduce(kn_order_new(ctx, scratch, p, &p->entries[e], 0, 0), &p->entries[e].steps);
        ir_arena_free(scratch);
    }
    return true;
}
