/* SPDX-License-Identifier: Apache-2.0 */
/* scatter.c - the roles of a scatter by rows: what lw_build_scatter() makes, where indices name whole rows. */
#include "ir/roles/roles_int.h"

#include <stdlib.h>

static bool uses_dims(const struct kn_kernel *k, const struct kn_insn *n, bool inner)
{
    for (int d = 0; d < k->ndims; d++)
        if ((k->dims[d].role == KN_INNER) == inner && kn_insn_uses(n, k->dims[d].var))
            return true;
    return false;
}

/* Is instruction i the same for all outer points, and not read from the result, where that is known of those before? */
static bool is_index(const struct kn_kernel *k, int i, int result, const bool *fine)
{
    const struct kn_insn *n = &k->insns[i];
    if (uses_dims(k, n, false) || (n->code == KN_LOAD && n->operand == result))
        return false;
    for (int a = 0; a < n->nargs; a++)
        if (n->arg[a] >= i || (n->arg[a] >= 0 && !fine[n->arg[a]]))
            return false;
    for (int j = 0; j < i; j++)
        if (!fine[j] && k->insns[j].code == KN_INDEX && kn_insn_uses(n, k->insns[j].expr))
            return false;
    return true;
}

/* The one store, and the one load of what is there. */
static bool find_accesses(const struct kn_kernel *k, struct kn_scatter *s)
{
    for (int i = 0; i < k->ninsns; i++) {
        const struct kn_insn *n = &k->insns[i];
        if (n->code == KN_STORE && s->store >= 0)
            return false;
        if (n->code == KN_STORE)
            s->store = i;
    }
    if (s->store < 0)
        return false;
    const struct kn_insn *store = &k->insns[s->store];
    s->result = store->operand;
    for (int i = 0; i < k->ninsns; i++) {
        const struct kn_insn *n = &k->insns[i];
        if (n->code != KN_LOAD || n->operand != s->result)
            continue;
        if (s->load >= 0 || !kn_same_element(n, store))
            return false;
        s->load = i;
    }
    return !uses_dims(k, store, true);
}

/* What names the row; nothing but the load and the store uses it. */
static bool find_index_of(const struct kn_kernel *k, struct kn_scatter *s, bool *fine)
{
    int n = 0;
    for (int i = 0; i < s->store; i++)
        fine[i] = is_index(k, i, s->result, fine);
    for (int i = 0; i < k->ninsns; i++) {
        if (k->insns[i].code != KN_INDEX || !kn_insn_uses(&k->insns[s->store], k->insns[i].expr))
            continue;
        if (n == TCC_MAX_RANK || i > s->store || !fine[i])
            return false;
        for (int j = i + 1; j < k->ninsns; j++)
            if (j != s->load && j != s->store && kn_insn_uses(&k->insns[j], k->insns[i].expr))
                return false;
        s->index[n++] = i;
    }
    return n > 0;
}

static bool find_index(const struct kn_kernel *k, struct kn_scatter *s)
{
    bool *fine = calloc((size_t)k->ninsns + 1, sizeof *fine), found = fine && find_index_of(k, s, fine);
    free(fine);
    return found;
}

bool kn_find_scatter(const struct kn_kernel *k, struct kn_roles *r)
{
    struct kn_scatter *s = &r->scatter;
    if (k->nstages != 1 || !k->stages[0].inner || k->stages[0].repeat || k->split.combine ||
        kn_has_operand(k, KN_BIT(KN_LOCAL)) ||
        kn_has(k, KN_BIT(KN_REDUCE) | KN_BIT(KN_ARGREDUCE) | KN_BIT(KN_SCAN) | KN_BIT(KN_SORT) | KN_BIT(KN_ENV)))
        return false;
    if (!find_accesses(k, s) || !find_index(k, s))
        return false;
    s->update = k->insns[s->store].arg[0];
    if (s->load < 0)
        return true;
    s->combine = kn_without_casts(k, s->update);
    const struct kn_insn *n = &k->insns[s->combine];
    s->update = n->arg[1];
    return n->code == KN_SCALAR && n->nargs == 2 && kn_without_casts(k, n->arg[0]) == s->load;
}
