/* SPDX-License-Identifier: Apache-2.0 */
/* softmax.c - the roles of a row's largest element and the sum of exp(x - largest): what a target may find in one pass
 * (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018). */
#include "ir/roles/roles_int.h"

/* A stage of a load, what converts it to float32, and the reduction; `more` instructions stand before that. */
static bool is_reduction(const struct kn_kernel *k, const struct kn_stage *g, enum kn_reducer by, int more, int *load,
                         int *cast)
{
    int n = g->last - g->first;
    if ((n != more + 2 && n != more + 3) || g->repeat)
        return false;
    const struct kn_insn *x = &k->insns[g->first], *last = &k->insns[g->last - 1];
    *load = g->first;
    *cast = n == more + 3 ? g->first + 1 : g->first;
    return x->code == KN_LOAD && !x->nargs && !x->nguards && k->operands[x->operand].use == KN_IN &&
           (*cast == *load || kn_is_cast_of(k, *cast, *load)) && k->insns[*cast].dtype == TCC_F32 &&
           last->code == KN_REDUCE && last->reducer == by && last->dtype == TCC_F32;
}

static bool is_op(const struct kn_kernel *k, int insn, enum ir_op op, int a, int b)
{
    const struct kn_insn *n = &k->insns[insn];
    return n->code == KN_SCALAR && n->op == op && n->arg[0] == a && (b < 0 || n->arg[1] == b);
}

/* Does the stage find the largest element, and the next one with inner dims the sum? */
static bool find_at(const struct kn_kernel *k, int stage, struct kn_softmax *s)
{
    const struct kn_stage *first = &k->stages[stage];
    int load, cast, then = stage + 1;
    if (!is_reduction(k, first, KN_MAX, 0, &s->load, &s->cast) || __builtin_popcount(first->inner) != 1)
        return false;
    s->top = first->last - 1;
    s->along = __builtin_ctz(first->inner);
    while (then < k->nstages && !k->stages[then].inner)
        then++;
    if (k->insns[s->top].arg[0] != s->cast || then == k->nstages || k->stages[then].inner != first->inner ||
        !is_reduction(k, &k->stages[then], KN_SUM, 2, &load, &cast) ||
        !kn_same_element(&k->insns[s->load], &k->insns[load]))
        return false;
    s->sum = k->stages[then].last - 1;
    return is_op(k, cast + 1, IR_sub, cast, s->top) && is_op(k, cast + 2, IR_exp, cast + 1, -1) &&
           k->insns[s->sum].arg[0] == cast + 2;
}

bool kn_find_softmax(const struct kn_kernel *k, struct kn_roles *r)
{
    for (int s = 0; s + 1 < k->nstages; s++) {
        *r = kn_roles_of(KN_SOFTMAX);
        if (find_at(k, s, &r->softmax))
            return true;
    }
    return false;
}
