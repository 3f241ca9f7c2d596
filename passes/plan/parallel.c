/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parallel: loops that may run at the same time (kn_parallel()) become one PARALLEL step where the first of them
 * stands, in front of which comes what the others need that doesn't need it. Such are the directions of a recurrent
 * layer, and recurrent layers of one input: each iteration is too small for several threads, the loops are not.
 */
#include "passes/lower_int.h"

#include <string.h>

enum { WINDOW = 64 /* steps between two loops */, MOST_LOOPS = 15 /* beside the first */ };

static bool may_move(const struct kn_step *s)
{
    return s->kind == TCC_STEP_LAUNCH || s->kind == TCC_STEP_COPY;
}

/* Which of the steps between the loops [first, last] and loop `j` does that need in front of it? Marks it and them;
 * false: they can't go before `first`. */
static bool find_needed(const struct kn_program *p, const struct kn_steps *steps, int first, int last, int j,
                        bool *needed)
{
    memset(needed, 0, (size_t)steps->n * sizeof *needed);
    needed[j] = true;
    for (int i = j - 1; i > last; i--) {
        for (int k = i + 1; k <= j && !needed[i]; k++)
            needed[i] = needed[k] && !kn_independent(p, &steps->at[i], &steps->at[k]);
        if (needed[i] && !may_move(&steps->at[i]))
            return false;
    }
    /* They pass by the loops and by what stays. */
    for (int i = first; i < j; i++)
        for (int k = i + 1; k <= j && !needed[i]; k++)
            if (needed[k] && !kn_independent(p, &steps->at[i], &steps->at[k]))
                return false;
    return true;
}

/* Loop j to behind the loops [first, last], what it needs to in front of them. Returns how many steps went there. */
static int move(struct ir_ctx *ctx, struct kn_steps *steps, int first, int last, int j, const bool *needed)
{
    struct kn_step *old = IR_NEWN(ctx, j + 1, struct kn_step);
    int n = first, before;
    memcpy(old, steps->at, ((size_t)j + 1) * sizeof *old);
    for (int i = last + 1; i < j; i++)
        if (needed[i])
            steps->at[n++] = old[i];
    before = n - first;
    for (int i = first; i <= last; i++)
        steps->at[n++] = old[i];
    steps->at[n++] = old[j];
    for (int i = last + 1; i < j; i++)
        if (!needed[i])
            steps->at[n++] = old[i];
    return before;
}

/* Steps that are known to stay where they are, or may, in front of a loop that moves. */
static bool passes_by(const struct kn_step *s)
{
    return may_move(s) || s->kind == TCC_STEP_LIB || s->kind == TCC_STEP_LOOP;
}

/* The loops [first, last] as one step. */
static void form(struct ir_ctx *ctx, struct kn_steps *steps, int first, int last)
{
    struct kn_step made = {.kind = TCC_STEP_PARALLEL,
                           .nregions = last - first + 1,
                           .regions = IR_NEWN(ctx, last - first + 1, struct kn_region),
                           .node = steps->at[first].node,
                           .op = steps->at[first].op};
    for (int i = first; i <= last; i++)
        lw_push_step(ctx, &made.regions[i - first].steps, steps->at[i]);
    steps->at[first] = made;
    memmove(&steps->at[first + 1], &steps->at[last + 1], (size_t)(steps->n - last - 1) * sizeof made);
    steps->n -= last - first;
}

void lw_parallel_loops(struct lw *lw, struct kn_steps *steps)
{
    bool *needed = IR_NEWN(lw->ctx, steps->n + 1, bool);
    for (int i = 0; i < steps->n; i++)
        for (int r = 0; r < steps->at[i].nregions; r++)
            lw_parallel_loops(lw, &steps->at[i].regions[r].steps);
    for (int i = 0; i < steps->n; i++) {
        int last = i;
        if (steps->at[i].kind != TCC_STEP_LOOP)
            continue;
        for (int j = last + 1; j < steps->n && j <= last + WINDOW && passes_by(&steps->at[j]); j++) {
            if (last - i >= MOST_LOOPS || !kn_parallel(lw->prog, &steps->at[i], &steps->at[j]) ||
                !find_needed(lw->prog, steps, i, last, j, needed) || !lw_may_change(lw))
                continue;
            int before = move(lw->ctx, steps, i, last, j, needed);
            i += before;
            j = last += before + 1;
        }
        if (last > i)
            form(lw->ctx, steps, i, last);
    }
}
