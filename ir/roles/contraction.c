/* SPDX-License-Identifier: Apache-2.0 */
/* contraction.c - the roles of contractions, and those of other reductions. */
#include "ir/roles/roles_int.h"

static uint32_t dims_in(const struct kn_kernel *k, const struct kn_insn *load)
{
    uint32_t set = 0;
    for (int d = 0; d < k->ndims; d++) {
        bool uses = kn_runs_along(load, k->dims[d].var);
        for (int i = 0; i < load->nguards; i++)
            uses = uses || ir_uses_sym(load->guards[i].e, k->dims[d].var);
        set |= (uint32_t)uses << d;
    }
    return set;
}

/* The one reduction of the first stage, if it is a sum; -1. */
static int first_sum(const struct kn_kernel *k)
{
    int sum = -1;
    for (int i = k->stages[0].first; i < k->stages[0].last; i++) {
        if (k->insns[i].code == KN_REDUCE && (sum >= 0 || k->insns[i].reducer != KN_SUM))
            return -1;
        sum = k->insns[i].code == KN_REDUCE ? i : sum;
    }
    return sum;
}

bool kn_find_contraction(const struct kn_kernel *k, struct kn_roles *r)
{
    struct kn_contraction *c = &r->contraction;
    uint32_t outer = 0, in[2];
    if (k->nstages < 2 || !k->stages[0].inner || (c->reduce = first_sum(k)) < 0)
        return false;
    for (int s = 1; s < k->nstages; s++)
        if (k->stages[s].inner)
            return false;
    c->mul = k->insns[c->reduce].arg[0];
    if (k->insns[c->mul].code != KN_SCALAR || k->insns[c->mul].op != IR_mul)
        return false;
    for (int i = 0; i < 2; i++) {
        c->factor[i] = k->insns[c->mul].arg[i];
        c->load[i] = kn_without_casts(k, c->factor[i]);
        if (k->insns[c->load[i]].code != KN_LOAD)
            return false;
        in[i] = dims_in(k, &k->insns[c->load[i]]);
    }
    for (int d = 0; d < k->ndims; d++)
        if (k->dims[d].role == KN_OUTER)
            outer |= UINT32_C(1) << d;
    c->k = k->stages[0].inner;
    c->m = outer & in[0] & ~in[1];
    c->n = outer & in[1] & ~in[0];
    c->batch = outer & ~c->m & ~c->n;
    return true;
}

/* Is it more than scalar arithmetic at each point of its stage? */
static bool is_more(const struct kn_insn *n)
{
    return n->code == KN_REDUCE || n->code == KN_ARGREDUCE || n->code == KN_SCAN || n->code == KN_SORT ||
           n->code == KN_INDEX || n->code == KN_STORE;
}

bool kn_is_product(const struct kn_kernel *k)
{
    return k->roles.form == KN_CONTRACTION && (k->roles.contraction.m | k->roles.contraction.n);
}

bool kn_only_multiplies(const struct kn_kernel *k)
{
    if (k->roles.form != KN_CONTRACTION || kn_has_operand(k, KN_BIT(KN_LOCAL)))
        return false;
    for (int s = 0; s < k->nstages; s++)
        if (k->stages[s].repeat || (s && k->stages[s].inner))
            return false;
    for (int i = k->stages[0].first; i < k->stages[0].last; i++)
        if (i != k->roles.contraction.reduce && is_more(&k->insns[i]))
            return false;
    return true;
}

bool kn_find_reduction(const struct kn_kernel *k, struct kn_roles *r)
{
    struct kn_roles product;
    int n = 0;
    if (!k->nstages || !k->stages[0].inner || k->split.combine || kn_has_operand(k, KN_BIT(KN_LOCAL)) ||
        (kn_find_form(k, KN_CONTRACTION, &product) && (product.contraction.m | product.contraction.n)))
        return false;
    for (int s = 0; s < k->nstages; s++)
        if (k->stages[s].repeat || (s && k->stages[s].inner))
            return false;
    for (int i = 0; i < k->ninsns; i++) {
        bool first = i < k->stages[0].last, stores = k->insns[i].code == KN_STORE || k->insns[i].code == KN_INDEX;
        if (k->insns[i].code == KN_REDUCE && first && n < KN_MAX_REDUCTIONS)
            r->reduction.reduce[n++] = i;
        else if (is_more(&k->insns[i]) && (first || !stores))
            return false;
    }
    return n > 0;
}
