/* SPDX-License-Identifier: Apache-2.0 */
/*
 * version.c - the versions of state variables. Each write makes a new one, and a step says which one it reads, so that
 * later passes can't move a read behind a write, or a write in front of a read, unnoticed: the plan's verifier follows
 * the versions. They are numbered while the plan still has the order of the nodes and only copies access variables. An
 * if that writes a variable makes a version of those that its branches leave; a loop's begins each iteration, and is
 * there behind the loop.
 */
#include "passes/lower_int.h"

#include <string.h>

struct numbering {
    struct lw *lw;
    VEC(int) states; /* buffers */
    int *now, *last; /* by buffer */
};

struct kn_version *lw_version(struct lw *lw, struct kn_step *s, int state)
{
    for (int i = 0; i < s->nversions; i++)
        if (s->versions[i].buffer == state)
            return &s->versions[i];
    struct kn_version *more = IR_LONGER(lw->ctx, s->versions, s->nversions);
    more[s->nversions] = (struct kn_version){state, -1, -1};
    s->versions = more;
    return &more[s->nversions++];
}

void lw_merge_versions(struct lw *lw, struct kn_step *to, const struct kn_step *from)
{
    for (int i = 0; i < from->nversions; i++) {
        const struct kn_version *y = &from->versions[i];
        struct kn_version *x = lw_version(lw, to, y->buffer);
        x->reads = x->reads < 0 ? y->reads : x->reads;
        x->makes = x->makes < 0 ? y->makes : x->makes;
    }
}

static int make(struct numbering *g, struct kn_step *s, int state)
{
    return g->now[state] = lw_version(g->lw, s, state)->makes = ++g->last[state];
}

static bool writes(const struct kn_steps *steps, int state)
{
    for (int i = 0; i < steps->n; i++) {
        const struct kn_step *s = &steps->at[i];
        if (s->kind == TCC_STEP_COPY && s->args[1] == state)
            return true;
        for (int r = 0; r < s->nregions; r++)
            if (writes(&s->regions[r].steps, state))
                return true;
    }
    return false;
}

static void number(struct numbering *g, struct kn_steps *steps);

static void number_if(struct numbering *g, struct kn_step *s)
{
    int *before = IR_NEWN(g->lw->ctx, g->states.n + 1, int);
    for (int i = 0; i < g->states.n; i++)
        before[i] = g->now[g->states.at[i]];
    for (int r = 0; r < s->nregions; r++) {
        number(g, &s->regions[r].steps);
        for (int i = 0; i < g->states.n; i++)
            g->now[g->states.at[i]] = before[i];
    }
    for (int i = 0; i < g->states.n; i++)
        if (writes(&s->regions[0].steps, g->states.at[i]) || writes(&s->regions[1].steps, g->states.at[i]))
            make(g, s, g->states.at[i]);
}

static void number_loop(struct numbering *g, struct kn_step *s)
{
    for (int i = 0; i < g->states.n; i++)
        if (writes(&s->regions[0].steps, g->states.at[i]))
            make(g, s, g->states.at[i]);
    number(g, &s->regions[0].steps);
    for (int i = 0; i < s->nversions; i++)
        g->now[s->versions[i].buffer] = s->versions[i].makes;
}

static void number(struct numbering *g, struct kn_steps *steps)
{
    const struct kn_buffer *buffers = g->lw->buffers.at;
    for (int i = 0; i < steps->n; i++) {
        struct kn_step *s = &steps->at[i];
        if (s->kind == TCC_STEP_COPY && buffers[s->args[0]].space == TCC_SPACE_STATE)
            lw_version(g->lw, s, s->args[0])->reads = g->now[s->args[0]];
        if (s->kind == TCC_STEP_COPY && buffers[s->args[1]].space == TCC_SPACE_STATE)
            make(g, s, s->args[1]);
        if (s->kind == TCC_STEP_IF)
            number_if(g, s);
        if (s->kind == TCC_STEP_LOOP)
            number_loop(g, s);
    }
}

void lw_number_versions(struct lw *lw, struct kn_entry *e)
{
    struct numbering g = {.lw = lw};
    g.now = IR_NEWN(lw->ctx, lw->buffers.n + 1, int);
    g.last = IR_NEWN(lw->ctx, lw->buffers.n + 1, int);
    for (int b = 0; b < lw->buffers.n; b++)
        if (lw->buffers.at[b].space == TCC_SPACE_STATE)
            VEC_PUSH(lw->ctx, g.states, b);
    number(&g, &e->steps);
}
