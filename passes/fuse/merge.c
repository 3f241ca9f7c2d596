/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge.c - launches of elementwise kernels over the same points become one launch (horizontal fusion). Groups have one
 * root each (group.c), so values that are computed from the same operands, or one from another that is stored as
 * well, start as kernels of their own: an optimizer's moments and its parameter, a gate's several gradients. Run
 * together they read each operand once, and what the first stores the second need not load.
 *
 * The second launch moves up to the first, so nothing in between may write what it reads or touch what it writes.
 *
 * Which launches may become one is asked here, for all who make one of two (struct lw_fusable, lw_can_hoist): steps
 * write memory, in an order. Nodes have values that are never written again: which of them may become one kernel is
 * what inline.c can make of them (sketch.c). Whether it pays is one question for both (lw_worth).
 */
#include "passes/lower_int.h"

#include <string.h>

enum { WINDOW = 64, MAX_OPERANDS = 24 };

/* One point at a time, nothing summed, nothing private. */
static const struct lw_fusable by_points = {.map = true, .uses = KN_BIT(KN_LOCAL) | KN_BIT(KN_INOUT)};

bool lw_may_fuse(const struct kn_step *s, const struct lw_fusable *f)
{
    const struct kn_kernel *k = s->kernel;
    if (s->kind != TCC_STEP_LAUNCH || s->nregions || k->custom || k->split.combine || k->kind == IR_K_ATTENTION ||
        (f->map && !kn_is_map(k)) || (f->known && k->nsizes))
        return false;
    for (int i = 0; i < k->nstages; i++)
        if (k->stages[i].repeat)
            return false;
    return !kn_has(k, f->codes) && !kn_has_operand(k, f->uses);
}

static bool same_points(const struct kn_kernel *a, const struct kn_kernel *b)
{
    for (int d = 0; d < a->ndims && d < b->ndims; d++)
        if (a->dims[d].var != b->dims[d].var || a->dims[d].extent != b->dims[d].extent ||
            a->dims[d].role != b->dims[d].role)
            return false;
    return a->ndims == b->ndims;
}

bool lw_can_hoist(const struct lw *lw, const struct kn_step *later, const struct kn_step *s)
{
    if (s->nregions || (s->kind != TCC_STEP_LAUNCH && s->kind != TCC_STEP_COPY && s->kind != TCC_STEP_LIB))
        return false;
    for (int a = 0; a < later->nargs; a++)
        for (int b = 0; b < s->nargs; b++)
            if (lw_storage(lw, later->args[a]) == lw_storage(lw, s->args[b]) &&
                (kn_writes(later, a) || kn_writes(s, b)))
                return false;
    return true;
}

bool lw_same_shape(const struct kn_operand *a, const struct kn_operand *b)
{
    return a->rank == b->rank && a->dtype == b->dtype &&
           memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

/* Do all of b's accesses to its operand `y` happen at the point at which a accesses its operand `x`, whole and
 * unguarded? */
static bool at_same_points(const struct kn_kernel *a, int x, const struct kn_kernel *b, int y)
{
    if (!lw_same_shape(&a->operands[x], &b->operands[y]))
        return false;
    for (int i = 0; i < a->ninsns; i++) {
        const struct kn_insn *p = &a->insns[i];
        if (!kn_accesses(p, x))
            continue;
        for (int j = 0; j < b->ninsns; j++) {
            const struct kn_insn *q = &b->insns[j];
            if (kn_accesses(q, y) && (!lw_same_index(p, q) || p->nguards || q->nguards))
                return false;
        }
    }
    return true;
}

/* Do the two read something in common, or the second what the first writes? Conflicts end it (false). */
static bool worth_merging(const struct lw *lw, const struct kn_step *a, const struct kn_step *b)
{
    bool shared = false;
    for (int i = 0; i < a->nargs; i++)
        for (int j = 0; j < b->nargs; j++) {
            if (lw_storage(lw, a->args[i]) != lw_storage(lw, b->args[j]))
                continue;
            if (kn_writes(a, i) || kn_writes(b, j)) {
                if (kn_writes(b, j) || a->args[i] != b->args[j] || kn_store_to(a->kernel, i) < 0 ||
                    !at_same_points(a->kernel, i, b->kernel, j))
                    return false;
                shared = true;
            } else if (lw_same_shape(&a->kernel->operands[i], &b->kernel->operands[j])) {
                int64_t n;
                shared = shared || !ir_is_const(lw->buffers.at[b->args[j]].bytes, &n) || n > 64;
            }
        }
    return shared;
}

static int functions(const struct kn_kernel *k)
{
    int n = 0;
    for (int i = 0; i < k->ninsns; i++)
        n += k->insns[i].code == KN_SCALAR && ir_is_expensive(k->insns[i].op);
    return n;
}

bool lw_fit_together(const struct lw *lw, const struct kn_step *first, const struct kn_step *second)
{
    const struct kn_kernel *a = first->kernel, *b = second->kernel;
    for (int i = 0; i < b->nsizes; i++) {
        bool known = false;
        for (int j = 0; j < a->nsizes; j++)
            known = known || (a->sizes[j] == b->sizes[i] && first->sizes[j] == second->sizes[i]);
        if (!known)
            return false;
    }
    struct pass_fusion f = {.instructions = a->ninsns + b->ninsns, .points = -1};
    if (a->noperands + b->noperands > MAX_OPERANDS || !lw_worth(lw, &f))
        return false;
    f.functions = functions(a) + functions(b);
    return lw_worth(lw, &f);
}

/* Appends b's kernel to a's: operands that are one buffer become one, loads of what a stores become the value. */
static void append(struct lw *lw, struct kn_step *a, const struct kn_step *b)
{
    const struct kn_kernel *ka = a->kernel, *kb = b->kernel;
    struct kn_kernel *k = IR_NEW(lw->ctx, struct kn_kernel);
    int *operand = IR_NEWN(lw->ctx, kb->noperands + 1, int), *insn = IR_NEWN(lw->ctx, kb->ninsns + 1, int);
    *k = *ka;
    k->operands = IR_NEWN(lw->ctx, ka->noperands + kb->noperands, struct kn_operand);
    k->insns = IR_NEWN(lw->ctx, ka->ninsns + kb->ninsns, struct kn_insn);
    int *args = IR_NEWN(lw->ctx, a->nargs + b->nargs + 1, int);
    memcpy(k->operands, ka->operands, (size_t)ka->noperands * sizeof *k->operands);
    memcpy(k->insns, ka->insns, (size_t)ka->ninsns * sizeof *k->insns);
    memcpy(args, a->args, (size_t)a->nargs * sizeof *args);
    for (int j = 0; j < kb->noperands; j++) {
        int i = 0;
        while (i < ka->noperands && (a->args[i] != b->args[j] || !lw_same_shape(&ka->operands[i], &kb->operands[j])))
            i++;
        operand[j] = i < ka->noperands ? i : k->noperands++;
        if (operand[j] >= ka->noperands) {
            k->operands[operand[j]] = kb->operands[j];
            args[operand[j]] = b->args[j];
        }
    }
    for (int j = 0; j < kb->ninsns; j++) {
        struct kn_insn n = kb->insns[j];
        for (int i = 0; i < 3; i++)
            if (n.arg[i] >= 0)
                n.arg[i] = insn[n.arg[i]];
        if (n.code == KN_LOAD || n.code == KN_STORE)
            n.operand = operand[n.operand];
        if (n.code == KN_LOAD && n.operand < ka->noperands && ka->operands[n.operand].use == KN_OUT) {
            insn[j] = ka->insns[kn_store_to(ka, n.operand)].arg[0];
            continue;
        }
        insn[j] = k->ninsns;
        k->insns[k->ninsns++] = n;
    }
    a->kernel = k;
    a->args = args;
    a->nargs = k->noperands;
    lw_merge_versions(lw, a, b);
    k->stages = IR_NEW(lw->ctx, struct kn_stage);
    k->stages[0] = (struct kn_stage){.last = k->ninsns};
    lw_add_kernel(lw, k);
}

/* Does the launch read constants and nothing else? What it makes is made where it is read (opt/unpack.c). */
static bool reads_weights_alone(const struct lw *lw, const struct kn_step *s)
{
    for (int i = 0; i < s->nargs; i++)
        if (kn_use(s, i) == KN_IN && lw->buffers.at[s->args[i]].space != TCC_SPACE_WEIGHT)
            return false;
    return true;
}

static bool join(struct lw *lw, void *none, struct kn_step *a, const struct kn_step *b)
{
    (void)none;
    if (!lw_may_fuse(a, &by_points) || reads_weights_alone(lw, b) || !same_points(a->kernel, b->kernel) ||
        !worth_merging(lw, a, b) || !lw_fit_together(lw, a, b) || !lw_may_change(lw))
        return false;
    append(lw, a, b);
    return true;
}

/* Step j as a part of the nearest earlier launch that it can join; false: there is none. */
static bool join_earlier(struct lw *lw, const struct kn_steps *steps, int j, const struct lw_merger *m)
{
    const struct kn_step *b = &steps->at[j];
    for (int i = j - 1; i >= 0 && j - i <= WINDOW; i--) {
        if (m->join(lw, m->user, &steps->at[i], b))
            return true;
        if (!lw_can_hoist(lw, b, &steps->at[i]))
            return false;
    }
    return false;
}

void lw_merge_by(struct lw *lw, struct kn_steps *steps, const struct lw_merger *m)
{
    int n = 0;
    for (int j = 0; j < steps->n; j++) {
        for (int r = 0; r < steps->at[j].nregions; r++)
            lw_merge_by(lw, &steps->at[j].regions[r].steps, m);
        steps->at[n] = steps->at[j];
        n += !lw_may_fuse(&steps->at[n], &m->takes) || !join_earlier(lw, steps, n, m);
    }
    steps->n = n;
}

void lw_merge_launches(struct lw *lw, struct kn_steps *steps)
{
    lw_merge_by(lw, steps, &(struct lw_merger){.takes = by_points, .join = join});
}
