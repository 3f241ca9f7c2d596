/* SPDX-License-Identifier: Apache-2.0 */
/* winograd.c - the roles of a convolution by Winograd, found from kernels as passes/kernel/winograd.c draws them. */
#include "ir/roles/roles_int.h"

enum { TAKE, SUM, KEEP, GIVE, STAGES };
enum { IMAGE, TILE, OUT_BLOCK, OUT_LANE, IN_BLOCK, IN_LANE, FREQUENCY, DIMS, FILTER = DIMS };

/* The operand that the last instruction of a stage stores to; -1: it does not. */
static int stored_last(const struct kn_kernel *k, int stage)
{
    const struct kn_stage *s = &k->stages[stage];
    return s->first < s->last && k->insns[s->last - 1].code == KN_STORE ? k->insns[s->last - 1].operand : -1;
}

bool kn_find_winograd(const struct kn_kernel *k, struct kn_roles *r)
{
    struct kn_winograd *w = &r->winograd;
    const struct kn_stage *s = k->stages;
    bool filters = k->ndims == DIMS + 1;
    uint32_t taken = 1u << IN_BLOCK | 1u << IN_LANE | (filters ? 1u << FILTER : 0);
    if (k->kind != IR_K_WINDOW || k->nstages != STAGES || (k->ndims != DIMS && !filters) ||
        k->dims[OUT_LANE].role != KN_OUTER || k->dims[IN_BLOCK].role != KN_INNER || k->split.combine)
        return false;
    if (s[TAKE].inner || s[KEEP].inner || s[GIVE].inner || s[GIVE].repeat || s[TAKE].repeat != taken ||
        s[SUM].inner != s[TAKE].repeat || s[SUM].repeat != 1u << FREQUENCY || s[KEEP].repeat != s[SUM].repeat)
        return false;
    *w = (struct kn_winograd){.image = IMAGE,
                              .tile = TILE,
                              .out_block = OUT_BLOCK,
                              .out_lane = OUT_LANE,
                              .in_block = IN_BLOCK,
                              .in_lane = IN_LANE,
                              .frequency = FREQUENCY,
                              .filter = filters ? FILTER : -1,
                              .v = stored_last(k, TAKE),
                              .m = stored_last(k, KEEP),
                              .load_u = -1,
                              .sum = -1,
                              .take = TAKE,
                              .give = GIVE};
    for (int i = s[SUM].first; i < s[SUM].last; i++) {
        if (k->insns[i].code == KN_LOAD && k->insns[i].operand != w->v)
            w->load_u = i;
        if (k->insns[i].code == KN_REDUCE)
            w->sum = i;
    }
    return w->v >= 0 && k->operands[w->v].use == KN_LOCAL && w->m >= 0 && k->operands[w->m].use == KN_LOCAL &&
           w->load_u >= 0 && w->sum >= 0;
}
