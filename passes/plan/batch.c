/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch: neighbours that the device may run as one launch (kn_may_batch()) become a BATCH, which waits for what the
 * first of them did. An optimizer's updates, which the pass `join` has put together, are such.
 */
#include "passes/lower_int.h"

bool pass_batch_run(struct pass_run *r);

enum { MOST_LAUNCHES = 512 };

/* Where the launches end, of which the first is step `first`, that may be one. */
static int end_of(const struct kn_program *p, const struct kn_steps *steps, int first)
{
    int end = first + 1;
    for (; end < steps->n && end - first < MOST_LAUNCHES; end++) {
        const struct kn_step *s = &steps->at[end];
        bool fits = !s->nwaits && !s->event;
        for (int i = first; i < end && fits; i++)
            fits = kn_may_batch(p, &steps->at[i], s);
        if (!fits)
            break;
    }
    return end;
}

static struct kn_step form(struct ir_ctx *ctx, const struct kn_step *launches, int n)
{
    struct kn_step made = *launches;
    struct kn_step all = {.kind = TCC_STEP_BATCH,
                          .queue = made.queue,
                          .event = made.event,
                          .nwaits = made.nwaits,
                          .waits = made.waits,
                          .nregions = 1,
                          .regions = IR_NEW(ctx, struct kn_region),
                          .node = made.node,
                          .op = made.op};
    made.event = made.nwaits = 0;
    lw_push_step(ctx, &all.regions->steps, made);
    for (int i = 1; i < n; i++)
        lw_push_step(ctx, &all.regions->steps, launches[i]);
    return all;
}

static void walk(struct pass_run *r, const struct kn_program *p, struct kn_steps *steps)
{
    int n = 0;
    for (int i = 0, end; i < steps->n; i = end) {
        end = end_of(p, steps, i);
        if (end - i > 1 && pass_changed(r)) {
            steps->at[n++] = form(pass_ctx(r), &steps->at[i], end - i);
            continue;
        }
        end = i + 1;
        for (int g = 0; g < steps->at[i].nregions; g++)
            walk(r, p, &steps->at[i].regions[g].steps);
        steps->at[n++] = steps->at[i];
    }
    steps->n = n;
}

bool pass_batch_run(struct pass_run *r)
{
    struct kn_program *p = pass_module(r)->program;
    if (!p)
        return ir_error(pass_ctx(r), NULL, "batch: the module has not been lowered");
    for (int e = 0; e < p->nentries && pass_cost(pass_opts(r)->machine)->joins; e++)
        walk(r, p, &p->entries[e].steps);
    return true;
}
