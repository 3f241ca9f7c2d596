/* SPDX-License-Identifier: Apache-2.0 */
/*
 * position.c - state variables that sizes depend on: the number of elements that caches hold. Such a variable has a
 * symbol, which is bound to its value when a call begins; a run that ends well advances it. One for which there is no
 * room is refused before it begins.
 */

#include "runtime/rt_int.h"

int tcr_bind_positions(struct tccrt_session *s)
{
    for (uint32_t i = 0; i < s->m->plan->states.count; i++) {
        const struct tcc_pstate *p = &s->m->states[i];
        const struct tcc_psym *sym = p->sym == TCC_NO ? NULL : &s->m->syms[p->sym];
        int64_t now = 0;
        int status = sym && s->states[i] ? tcr_state_read(s, i, 0, sizeof now, &now) : TCC_OK;

        if (status)
            return status;
        if (sym && (now < sym->lo || now > sym->hi))
            return tcr_fail(TCC_EINPUT,
                            "state variable '%s' is %lld; a run begins with %lld to %lld, and no more fit "
                            "(tccrt_state_reset() begins anew)",
                            tcr_string(s->m, p->name), (long long)now, (long long)sym->lo, (long long)sym->hi);
        if (sym) {
            s->syms[p->sym] = now;
            s->origin[p->sym] = -1;
        }
    }
    return TCC_OK;
}

int tcr_check_advances(struct tccrt_session *s, const struct tcc_pentry *e)
{
    for (uint32_t i = 0; i < e->advances.count; i += 2) {
        const uint32_t *pair = s->m->u32s + e->advances.first + i;
        const struct tcc_pstate *p = &s->m->states[pair[0]];
        const struct tcc_psym *sym = &s->m->syms[p->sym];
        int64_t to = s->values[pair[1]];

        if (!TCR_IS_VALUE(to) || to < sym->lo || to > sym->hi + 1)
            return tcr_fail(TCC_EINPUT,
                            "state variable '%s' is %lld, and this run would make it %lld; at most %lld fit "
                            "(tccrt_state_reset() begins anew)",
                            tcr_string(s->m, p->name), (long long)s->syms[p->sym], (long long)to,
                            (long long)sym->hi + 1);
    }
    return TCC_OK;
}

int tcr_advance(struct tccrt_session *s, const struct tcc_pentry *e)
{
    int status = TCC_OK;

    for (uint32_t i = 0; i < e->advances.count && !status; i += 2) {
        const uint32_t *pair = s->m->u32s + e->advances.first + i;

        status = tcr_state_write(s, pair[0], &s->values[pair[1]]);
    }
    return status;
}
