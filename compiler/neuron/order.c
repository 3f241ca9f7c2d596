/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order.c - in which order the instructions of a stage are made, and which loads are one. Engines run their
 * instructions in order: what the longest chain goes through comes first, so that what does not belong to it fills the
 * time in which Vector waits for powers of GpSimd or functions of Scalar. Results are stored as soon as they are there.
 */
#include "compiler/neuron/neuron_int.h"

bool nk_loads_same(const struct kn_kernel *k, int first, int second)
{
    const struct kn_insn *a = &k->insns[first], *b = &k->insns[second];
    bool same = a->code == KN_LOAD && b->code == KN_LOAD && a->operand == b->operand && a->nargs == b->nargs &&
                a->nguards == b->nguards && a->nindex == b->nindex;
    for (int i = 0; same && i < a->nargs; i++)
        same = a->arg[i] == b->arg[i];
    for (int i = 0; same && i < a->nindex; i++)
        same = a->index[i] == b->index[i];
    for (int g = 0; same && g < a->nguards; g++)
        same = a->guards[g].e == b->guards[g].e && a->guards[g].lo == b->guards[g].lo &&
               a->guards[g].hi == b->guards[g].hi;
    for (int i = first; same && i < second; i++)
        same = k->insns[i].code != KN_STORE || k->insns[i].operand != a->operand;
    return same;
}

void nk_find_same(const struct kn_kernel *k, const struct kn_stage *g, int *same)
{
    for (int i = g->first; i < g->last; i++) {
        same[i] = i;
        for (int j = g->first; j < i && same[i] == i; j++)
            if (nk_loads_same(k, j, i))
                same[i] = j;
    }
}

/* Must instruction `first` come before `second`, which stands behind it? */
static bool before(const struct kn_kernel *k, const int *same, int first, int second)
{
    const struct kn_insn *a = &k->insns[first], *b = &k->insns[second];
    bool memory = (a->code == KN_STORE && (b->code == KN_LOAD || b->code == KN_STORE)) ||
                  (a->code == KN_LOAD && b->code == KN_STORE);
    for (int i = 0; i < b->nargs; i++)
        if (b->arg[i] == first)
            return true;
    return same[second] == first || (memory && a->operand == b->operand);
}

static int weight(const struct kn_insn *n)
{
    enum { SIMPLE = 2, FUNCTION = 6 };
    if (n->code != KN_SCALAR)
        return n->code == KN_LOAD || n->code == KN_STORE || n->code == KN_CONST ? 0 : SIMPLE;
    bool function = n->op >= IR_NOPS || ir_is_expensive((enum ir_op)n->op); /* words.c */
    return function || n->op == IR_div || n->op == IR_sqrt ? FUNCTION : SIMPLE;
}

void nk_order(struct nk *nk, const struct kn_stage *g, const int *same, int *order)
{
    enum { MOST = 256 };
    const struct kn_kernel *k = nk->k;
    int n = g->last - g->first, *height = IR_NEWN(nk->ctx, n + 1, int);
    bool *done = IR_NEWN(nk->ctx, n + 1, bool), fixed = n > MOST;
    for (int i = 0; i < n; i++) {
        order[i] = g->first + i;
        fixed |= k->insns[g->first + i].code == KN_INDEX;
    }
    if (fixed)
        return;
    for (int i = n - 1; i >= 0; i--) {
        for (int j = i + 1; j < n; j++)
            if (before(k, same, g->first + i, g->first + j) && height[j] > height[i])
                height[i] = height[j];
        height[i] += weight(&k->insns[g->first + i]);
        if (k->insns[g->first + i].code == KN_STORE)
            height[i] = 1 << 20;
    }
    for (int i = 0; i < n; i++)
        if (k->insns[g->first + i].code != KN_STORE && height[i] >= 1 << 20)
            height[i] -= 1 << 20;
    for (int at = 0; at < n; at++) {
        int best = -1;
        for (int i = 0; i < n; i++) {
            bool ready = !done[i];
            for (int j = 0; ready && j < i; j++)
                ready = done[j] || !before(k, same, g->first + j, g->first + i);
            if (ready && (best < 0 || height[i] > height[best]))
                best = i;
        }
        done[best] = true;
        order[at] = g->first + best;
    }
}
