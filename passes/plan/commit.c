/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commit.c - a run that fails leaves the state as it was: writes of state stand behind the last step that may fail.
 *
 * Updates of parameters stand at a step's end anyway; running statistics are written in the forward pass and move down.
 * What may fail for the data's or the memory's sake: kernels with indices read from tensors, library calls, checks,
 * sizes bound from data, objects. A write stays where a later step looks at the variable, and inside regions.
 *
 * Ranks that train together vote before any of them writes state (two-phase commit): the vote stands behind the last
 * step that may fault, for reasons of its rank's own, where other communication begins, so that it keeps no launches
 * apart and runs beside the rest. A list in which nothing may fault needs none.
 */
#include "passes/lower_int.h"

#include <string.h>

static bool steps_may_fail(const struct kn_steps *steps);

bool lw_may_fault(const struct kn_step *s)
{
    bool may = false;
    for (int r = 0; r < s->nregions; r++)
        for (int i = 0; i < s->regions[r].steps.n && !may; i++)
            may = lw_may_fault(&s->regions[r].steps.at[i]);
    if (s->nregions || s->kind == TCC_STEP_COLLECTIVE || s->kind == KN_STEP_WAIT)
        return may;
    return !lw_communicates(s) && lw_may_fail(s);
}

bool lw_may_fail(const struct kn_step *s)
{
    switch (s->kind) {
    case TCC_STEP_LAUNCH: return kn_has(s->kernel, KN_BIT(KN_INDEX));
    case TCC_STEP_COPY:
    case TCC_STEP_EVAL:
    case TCC_STEP_FREE: return false;
    case TCC_STEP_IF: return steps_may_fail(&s->regions[0].steps) || steps_may_fail(&s->regions[1].steps);
    case TCC_STEP_LOOP: return steps_may_fail(&s->regions[0].steps);
    default: return true;
    }
}

static bool steps_may_fail(const struct kn_steps *steps)
{
    for (int i = 0; i < steps->n; i++)
        if (lw_may_fail(&steps->at[i]))
            return true;
    return false;
}

/* A copy from one variable to another stays: the first may be written meanwhile. */
static bool writes_state(const struct lw *lw, const struct kn_step *s)
{
    return s->kind == TCC_STEP_COPY && lw->buffers.at[s->args[1]].space == TCC_SPACE_STATE &&
           lw->buffers.at[s->args[0]].space != TCC_SPACE_STATE;
}

/* Steps (first, last] use the variable that step `first` writes. */
static bool used_between(const struct lw *lw, const struct kn_steps *steps, int first, int last)
{
    for (int i = first + 1; i <= last; i++)
        if (lw_touches(lw, &steps->at[i], steps->at[first].args[1]))
            return true;
    return false;
}

/* -- Votes ------------------------------------------------------------------------------------------- */

static bool lists_write_state(const struct lw *lw, const struct kn_step *s)
{
    for (int a = 0; a < s->nargs; a++)
        if (s->args[a] >= 0 && kn_use(s, a) != KN_IN &&
            lw->buffers.at[lw_storage(lw, s->args[a])].space == TCC_SPACE_STATE)
            return true;
    for (int r = 0; r < s->nregions; r++)
        for (int i = 0; i < s->regions[r].steps.n; i++)
            if (lists_write_state(lw, &s->regions[r].steps.at[i]))
                return true;
    return false;
}

/* Where they stand: behind what may fault, in front of what writes state, at the next communication. -1: nothing may
 * fault. */
static int place_of_votes(const struct lw *lw, const struct kn_steps *steps)
{
    int at = steps->n, write = 0;
    while (at > 0 && !lw_may_fault(&steps->at[at - 1]))
        at--;
    while (write < steps->n && !lists_write_state(lw, &steps->at[write]))
        write++;
    if (at == 0 || write == steps->n)
        return -1;
    at = at < write ? at : write;
    for (int i = at; i <= write; i++)
        if (lw_communicates(&steps->at[i]) || steps->at[i].kind == KN_STEP_WAIT)
            return i;
    return at;
}

/* One vote a group. */
static void place_votes(struct lw *lw, struct kn_steps *steps)
{
    VEC(struct kn_step) votes = {0};
    struct kn_steps to = {0};
    int n = 0;
    for (int i = 0; i < steps->n; i++) {
        const struct kn_step *s = &steps->at[i];
        bool known = !kn_is_vote(s);
        for (int k = 0; k < votes.n && !known; k++)
            known = votes.at[k].attrs[0].s == s->attrs[0].s; /* interned */
        if (!known)
            VEC_PUSH(lw->ctx, votes, *s);
        if (!kn_is_vote(s))
            steps->at[n++] = *s;
    }
    steps->n = n;
    int at = votes.n ? place_of_votes(lw, steps) : -1;
    for (int i = 0; at >= 0 && i < n; i++) {
        for (int k = 0; k < votes.n && i == at; k++)
            lw_push_step(lw->ctx, &to, votes.at[k]);
        lw_push_step(lw->ctx, &to, steps->at[i]);
    }
    if (at >= 0)
        *steps = to;
}

static void sink_state_stores(struct lw *lw, struct kn_steps *steps)
{
    int last = steps->n - 1, n = 0, nmoved = 0;
    while (last >= 0 && !lw_may_fail(&steps->at[last]))
        last--;
    if (last < 0)
        return;
    struct kn_step *moved = IR_NEWN(lw->ctx, last + 1, struct kn_step);
    for (int i = 0; i <= last; i++) {
        if (writes_state(lw, &steps->at[i]) && !used_between(lw, steps, i, last) && lw_may_change(lw))
            moved[nmoved++] = steps->at[i];
        else
            steps->at[n++] = steps->at[i];
    }
    memcpy(steps->at + n, moved, (size_t)nmoved * sizeof *moved);
}

void lw_commit(struct lw *lw, struct kn_steps *steps)
{
    sink_state_stores(lw, steps);
    place_votes(lw, steps);
}
