/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch.c - which launches a device may run as one, as a BATCH step: of one kernel, in one queue, each on tensors of
 * its own. An optimizer's updates are such.
 *
 * What they write is state: buffers of an arena may share memory, one behind the other, and who decides that has taken
 * launches to be in order.
 */
#include "ir/ir.h"

/* Each point by itself. */
static bool is_map(const struct kn_kernel *k)
{
    return k && !k->custom && kn_is_map(k) && !k->split.combine && !kn_has_operand(k, KN_BIT(KN_LOCAL)) &&
           !kn_has(k, KN_BIT(KN_INDEX));
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

/* May it be one of several? */
static bool may_be_one(const struct kn_program *p, const struct kn_step *s)
{
    return s->kind == TCC_STEP_LAUNCH && s->queue < p->nqueues && p->queues[s->queue].memory && is_map(s->kernel) &&
           writes_state_alone(p, s);
}

bool kn_may_batch(const struct kn_program *p, const struct kn_step *a, const struct kn_step *b)
{
    return may_be_one(p, a) && may_be_one(p, b) && a->kernel == b->kernel && a->queue == b->queue && !conflict(p, a, b);
}
