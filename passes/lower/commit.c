/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commit.c - a run that fails leaves the state as it was: writes of state stand behind the last step that may fail.
 *
 * Updates of parameters stand at a step's end anyway; running statistics are written in the forward pass and move down. What
 * may fail for the data's or the memory's sake: kernels with indices read from tensors, library calls, checks, sizes bound
 * from data, objects. A write stays where a later step looks at the variable, and inside regions.
 */
#include "passes/lower/lower_int.h"

#include <string.h>

static bool steps_may_fail(const struct kn_steps *steps);

static bool kernel_may_fail(const struct kn_kernel *k)
{
    for (int i = 0; i < k->ninsns; i++)
        if (k->insns[i].code == KN_INDEX)
            return true;
    return false;
}

bool lw_may_fail(const struct kn_step *s)
{
    switch (s->kind) {
    case TCC_STEP_LAUNCH: return kernel_may_fail(s->kernel);
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

void lw_sink_state_stores(struct lw *lw, struct kn_steps *steps)
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
