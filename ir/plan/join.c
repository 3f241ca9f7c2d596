/* SPDX-License-Identifier: Apache-2.0 */
/*
 * join.c - launches that a device may run as one: neighbours in a queue, of one kernel, each on tensors of its own. An
 * optimizer's updates are such.
 *
 * What they write is state: buffers of an arena may share memory, one behind the other, and who decides that has taken
 * launches to be in order.
 */
#include "ir/ir.h"

/* Each point by itself. */
static bool is_map(const struct kn_kernel *k)
{
    if (!k || k->custom || k->nstages != 1 || k->stages[0].inner || k->split.combine)
        return false;
    for (int i = 0; i < k->noperands; i++)
        if (k->operands[i].use == KN_LOCAL)
            return false;
    for (int i = 0; i < k->ninsns; i++)
        if (k->insns[i].code == KN_INDEX)
            return false;
    return true;
}

static const struct kn_buffer *storage(const struct kn_program *p, int buffer)
{
    return &p->buffers[kn_storage(p->buffers, buffer)];
}

static bool is_same(const struct kn_buffer *a, const struct kn_buffer *b)
{
    return a == b || (a->space == TCC_SPACE_STATE && b->space == TCC_SPACE_STATE && a->index == b->index);
}

static bool writes_state_alone(const struct kn_program *p, const struct kn_step *s)
{
    for (int i = 0; i < s->nargs; i++)
        if (s->kernel->operands[i].use != KN_IN && storage(p, s->args[i])->space != TCC_SPACE_STATE)
            return false;
    return true;
}

/* Does one write what the other accesses? */
static bool conflict(const struct kn_program *p, const struct kn_step *a, const struct kn_step *b)
{
    for (int i = 0; i < a->nargs; i++)
        for (int j = 0; j < b->nargs; j++)
            if ((a->kernel->operands[i].use != KN_IN || b->kernel->operands[j].use != KN_IN) &&
                is_same(storage(p, a->args[i]), storage(p, b->args[j])))
                return true;
    return false;
}

int kn_joined(const struct kn_program *p, const struct kn_steps *steps, int first)
{
    const struct kn_step *a = &steps->at[first];
    int n = 0;
    if (a->kind != TCC_STEP_LAUNCH || a->queue >= p->nqueues || !p->queues[a->queue].memory || !is_map(a->kernel) ||
        !writes_state_alone(p, a))
        return 0;
    for (int i = first + 1; i < steps->n && n < KN_MOST_JOINED; i++, n++) {
        const struct kn_step *b = &steps->at[i];
        if (b->kind != TCC_STEP_LAUNCH || b->kernel != a->kernel || b->queue != a->queue || b->nwaits || b->event ||
            !writes_state_alone(p, b))
            return n;
        for (int j = first; j < i; j++)
            if (conflict(p, &steps->at[j], b))
                return n;
    }
    return n;
}
