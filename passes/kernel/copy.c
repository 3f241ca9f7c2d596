/* SPDX-License-Identifier: Apache-2.0 */
/* copy.c - instructions of one kernel in another that is made of it, with other variables. */
#include "passes/lower_int.h"

int lw_copy_add(struct lw_copy *c, struct kn_insn n)
{
    struct kn_kernel *k = c->to;
    k->insns[k->ninsns++] = n;
    return k->ninsns - 1;
}

void lw_copy_stage(struct lw_copy *c, uint32_t inner, int first)
{
    struct kn_kernel *k = c->to;
    k->stages[k->nstages++] = (struct kn_stage){.inner = inner, .first = first, .last = k->ninsns};
}

int lw_copy_insn(struct lw_copy *c, int i)
{
    struct kn_insn n = c->from->insns[i];
    for (int j = 0; j < n.nargs; j++)
        if (n.arg[j] >= 0)
            n.arg[j] = c->number[n.arg[j]];
    kn_subst_insn(c->ctx, &n, c->from->ndims, c->old, c->new);
    return c->number[i] = lw_copy_add(c, n);
}

int lw_copy_needed(struct lw_copy *c, int i)
{
    const struct kn_insn *n = &c->from->insns[i];
    if (c->number[i] >= 0)
        return c->number[i];
    for (int j = 0; j < n->nargs; j++)
        if (n->arg[j] >= 0)
            lw_copy_needed(c, n->arg[j]);
    return lw_copy_insn(c, i);
}

void lw_copy_forget(struct lw_copy *c)
{
    for (int i = 0; i < c->from->ninsns; i++)
        c->number[i] = -1;
}
