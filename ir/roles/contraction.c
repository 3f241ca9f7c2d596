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

/* Stage 0 is a sum of products of two loads. */
static bool find_product(const struct kn_kernel *k, struct kn_contraction *c)
{
    uint32_t outer = 0;
    *c = (struct kn_contraction){.reduce = -1};
    if (k->nstages < 2 || !k->stages[0].inner)
        return false;
    for (int i = k->stages[0].first; i < k->stages[0].last; i++)
        if (k->insns[i].code == KN_REDUCE && k->insns[i].reducer == KN_SUM)
            c->reduce = i;
    if (c->reduce < 0)
        return false;
    c->mul = k->insns[c->reduce].arg[0];
    if (k->insns[c->mul].code != KN_SCALAR || k->insns[c->mul].op != IR_mul)
        return false;
    c->load_a = kn_without_casts(k, k->insns[c->mul].arg[0]);
    c->load_b = kn_without_casts(k, k->insns[c->mul].arg[1]);
    if (k->insns[c->load_a].code != KN_LOAD || k->insns[c->load_b].code != KN_LOAD)
        return false;
    c->a = k->insns[c->load_a].operand;
    c->b = k->insns[c->load_b].operand;
    uint32_t in_a = dims_in(k, &k->insns[c->load_a]), in_b = dims_in(k, &k->insns[c->load_b]);
    for (int d = 0; d < k->ndims; d++)
        if (k->dims[d].role == KN_OUTER)
            outer |= UINT32_C(1) << d;
    c->k = k->stages[0].inner;
    c->m = outer & in_a & ~in_b;
    c->n = outer & in_b & ~in_a;
    c->batch = outer & ~c->m & ~c->n;
    c->present = true;
    return true;
}

bool kn_find_contraction(const struct kn_kernel *k, struct kn_contraction *c)
{
    bool later = false;
    for (int s = 1; s < k->nstages; s++)
        later = later || k->stages[s].inner;
    if (!later && find_product(k, c))
        return true;
    *c = (struct kn_contraction){0};
    return false;
}

bool kn_contraction_holds(const struct kn_kernel *k)
{
    const struct kn_contraction *c = &k->contraction;
    struct kn_contraction is;
    return find_product(k, &is) && c->a == is.a && c->b == is.b && c->load_a == is.load_a && c->load_b == is.load_b &&
           c->mul == is.mul && c->reduce == is.reduce && c->batch == is.batch && c->m == is.m && c->n == is.n &&
           c->k == is.k;
}

static bool has_rows(const struct kn_kernel *k)
{
    for (int i = 0; i < k->noperands; i++)
        if (k->operands[i].use == KN_LOCAL)
            return true;
    return false;
}

/* Is it more than scalar arithmetic at each point of its stage? */
static bool is_more(const struct kn_insn *n)
{
    return n->code == KN_REDUCE || n->code == KN_ARGREDUCE || n->code == KN_SCAN || n->code == KN_SORT ||
           n->code == KN_INDEX || n->code == KN_STORE;
}

bool kn_only_multiplies(const struct kn_kernel *k)
{
    if (!k->contraction.present || has_rows(k))
        return false;
    for (int s = 0; s < k->nstages; s++)
        if (k->stages[s].repeat || (s && k->stages[s].inner))
            return false;
    for (int i = k->stages[0].first; i < k->stages[0].last; i++)
        if (i != k->contraction.reduce && is_more(&k->insns[i]))
            return false;
    return true;
}

bool kn_find_reduction(const struct kn_kernel *k, struct kn_roles *r)
{
    struct kn_contraction c;
    int n = 0;
    if (!k->nstages || !k->stages[0].inner || k->split.combine || has_rows(k) ||
        (kn_find_contraction(k, &c) && (c.m | c.n)))
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
