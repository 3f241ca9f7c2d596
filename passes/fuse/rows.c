/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows.c - kernels that reduce the same rows, and what is made of the rows and of what they come to, become one kernel:
 * a cross entropy's largest score, sum of exponentials and gradient, a norm's mean, deviation and result. The row is
 * read from near memory then, but for the first time; what a row comes to is stored all the same where others want it
 * (dead.c).
 *
 * The later launch moves up to the earlier one, as in merge.c. What it takes from it is a number a row, which all
 * points of the row have at hand.
 */
#include "passes/lower_int.h"

enum { LEAST_POINTS = 256 /* of a row */, LEAST_ROWS = 128 };

static bool plain(const struct kn_step *s)
{
    const struct kn_kernel *k = s->kernel;
    if (s->kind != TCC_STEP_LAUNCH || s->nregions || k->custom || k->contraction.present || k->split.combine)
        return false;
    for (int i = 0; i < k->noperands; i++)
        if (k->operands[i].use != KN_IN && k->operands[i].use != KN_OUT)
            return false;
    for (int i = 0; i < k->nstages; i++)
        if (k->stages[i].repeat)
            return false;
    for (int i = 0; i < k->ninsns; i++)
        if (k->insns[i].code == KN_INDEX || k->insns[i].code == KN_ARGREDUCE || k->insns[i].code == KN_SCAN ||
            k->insns[i].code == KN_SORT)
            return false;
    return true;
}

/* Rows by known numbers; *inner: the dims along them. */
static bool has_rows(const struct kn_kernel *k, uint32_t *inner)
{
    double points = 1, rows = 1;
    *inner = 0;
    for (int d = 0; d < k->ndims; d++) {
        int64_t n;
        if (!ir_is_const(k->dims[d].extent, &n))
            return false;
        *inner |= (uint32_t)(k->dims[d].role == KN_INNER) << d;
        *(k->dims[d].role == KN_INNER ? &points : &rows) *= (double)n;
    }
    for (int s = 0; s < k->nstages; s++)
        if (k->stages[s].inner && k->stages[s].inner != *inner)
            return false;
    return *inner && points >= LEAST_POINTS && rows >= LEAST_ROWS;
}

/* The same dims; b's are rows and what is along them too, or all points, one by one. */
static bool same_rows(const struct kn_kernel *a, const struct kn_kernel *b)
{
    bool map = b->nstages == 1 && !b->stages[0].inner;
    for (int d = 0; d < a->ndims && d < b->ndims; d++)
        if (a->dims[d].var != b->dims[d].var || a->dims[d].extent != b->dims[d].extent ||
            b->dims[d].role != (map ? KN_OUTER : a->dims[d].role))
            return false;
    return a->ndims == b->ndims && (map || b->kind == IR_K_REDUCE);
}

static bool in_inner_stage(const struct kn_kernel *k, const struct kn_insn *n)
{
    for (int s = 0; s < k->nstages; s++)
        if (n >= k->insns + k->stages[s].first && n < k->insns + k->stages[s].last)
            return k->stages[s].inner != 0;
    return true;
}

/* Does b take a number a row from a, and read rows that a reads? Conflicts end it (false). */
static bool worth_merging(const struct lw *lw, const struct kn_step *a, const struct kn_step *b)
{
    bool takes = false, shares = false;
    for (int i = 0; i < a->nargs; i++)
        for (int j = 0; j < b->nargs; j++) {
            if (lw_storage(lw, a->args[i]) != lw_storage(lw, b->args[j]))
                continue;
            if (kn_use(b, j) != KN_IN)
                return false;
            if (kn_use(a, i) != KN_IN) {
                const struct kn_insn *store = lw_store_to(a->kernel, i);
                if (a->args[i] != b->args[j] || !store || in_inner_stage(a->kernel, store) ||
                    !lw_at_same_points(a->kernel, i, b->kernel, j))
                    return false;
                takes = true;
            } else if (lw_same_shape(&a->kernel->operands[i], &b->kernel->operands[j])) {
                shares = shares || ir_const_or(lw->buffers.at[b->args[j]].bytes, 0) >= 1 << 20;
            }
        }
    return takes && shares;
}

static bool join(struct lw *lw, void *none, struct kn_step *a, const struct kn_step *b)
{
    (void)none;
    uint32_t inner;
    if (!plain(a) || a->kernel->kind != IR_K_REDUCE || !has_rows(a->kernel, &inner) ||
        !same_rows(a->kernel, b->kernel) || !worth_merging(lw, a, b) || !lw_fit_together(lw, a, b) ||
        !lw_may_change(lw))
        return false;
    const struct kn_kernel *ka = a->kernel, *kb = b->kernel;
    int *insn = IR_NEWN(lw->ctx, kb->ninsns + 1, int), first = ka->ninsns;
    struct kn_kernel *k = lw_append(lw, a, b, insn);
    k->stages = IR_NEWN(lw->ctx, ka->nstages + kb->nstages, struct kn_stage);
    for (int s = 0; s < ka->nstages; s++)
        k->stages[s] = ka->stages[s];
    for (int s = 0; s < kb->nstages; s++) {
        int last = first;
        for (int i = kb->stages[s].first; i < kb->stages[s].last; i++)
            last = insn[i] >= last ? insn[i] + 1 : last;
        bool map = kb->nstages == 1 && !kb->stages[0].inner;
        if (last > first)
            k->stages[k->nstages++] =
                (struct kn_stage){.inner = map ? inner : kb->stages[s].inner, .first = first, .last = last};
        first = last;
    }
    return true;
}

void lw_merge_rows(struct lw *lw, struct kn_steps *steps)
{
    lw_merge_by(lw, steps, &(struct lw_merger){.takes = plain, .join = join});
}
