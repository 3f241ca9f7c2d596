/* SPDX-License-Identifier: Apache-2.0 */
/*
 * abreast: loops that may run at the same time (kn_abreast()) stand together: behind the first of them, in front of
 * which comes what the others need that doesn't need it. Such are the directions of a recurrent layer, and recurrent
 * layers of one input: each iteration is too small for several threads, the loops are not.
 */
#include "passes/lower_int.h"

#include <string.h>

enum { WINDOW = 64 }; /* steps between two loops */

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

void lw_loops_abreast(struct lw *lw, struct kn_steps *steps)
{
    bool *needed = IR_NEWN(lw->ctx, steps->n + 1, bool);
    for (int i = 0; i < steps->n; i++)
        for (int r = 0; r < steps->at[i].nregions; r++)
            lw_loops_abreast(lw, &steps->at[i].regions[r].steps);
    for (int i = 0; i < steps->n; i++) {
        int last = i + kn_abreast(lw->prog, steps, i);
        if (steps->at[i].kind != TCC_STEP_LOOP)
            continue;
        for (int j = last + 1; j < steps->n && j <= last + WINDOW && passes_by(&steps->at[j]); j++) {
            struct kn_steps two = {.n = 2, .at = (struct kn_step[]){steps->at[i], steps->at[j]}};
            if (last - i >= KN_MOST_ABREAST || !kn_abreast(lw->prog, &two, 0) ||
                !find_needed(lw->prog, steps, i, last, j, needed) || !lw_may_change(lw))
                continue;
            i += move(lw->ctx, steps, i, last, j, needed);
            last = i + kn_abreast(lw->prog, steps, i);
            j = last;
        }
        i = last;
    }
}
