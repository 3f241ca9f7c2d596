/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owned.c - state that one rank of a group has, its owner (--zero): S. Rajbhandari et al., ZeRO: Memory Optimizations
 * Toward Training Trillion Parameter Models, 2020, arXiv 1910.02054. An IS_OWNER step's list says who owns what; its
 * symbols are 1 where this rank does, and give variables, and buffers whose sizes they are factors of, memory there
 * only. Without a group a session owns all.
 *
 * Elsewhere a variable has at most a copy in the host's memory (a mirror), which loading and collecting fill, and from
 * which checkpoints are written; or, for entry points that know nothing of owners, memory of its own until
 * tccrt_comm_release().
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm_int.h"

#define OWNED_TAG 8191
#define UPDATE_BYTES (128 << 10) /* in the time of an update's start so many of a parameter are updated, about */

/* -- Who owns what ---------------------------------------------------------------------------------------- */

static bool is_list(const struct tcc_pstep *p)
{
    return p->kind == TCC_STEP_COLLECTIVE && p->what == TCC_IS_OWNER;
}

static const struct tcc_pattr *tcr_int_list(const struct tccrt_model *m, const struct tcc_pstep *p, const char *name)
{
    for (uint32_t i = 0; i < p->attrs.count; i++) {
        const struct tcc_pattr *a = &m->attrs[p->attrs.first + i];

        if (a->kind == TCC_ATTR_INTS && a->n >= 1 && strcmp(tcr_string(m, a->name), name) == 0)
            return a;
    }
    return NULL;
}

int tcr_step_owners(struct tccrt_comm *c, const struct tccrt_model *m, const struct tcc_pstep *p, int **owners)
{
    const struct tcc_pattr *bytes = tcr_int_list(m, p, "bytes");

    *owners = NULL;
    if (!bytes || bytes->n != p->args.count)
        return tcr_fail(TCC_EINPUT, "is_owner: its list is missing");
    if (!(*owners = calloc((size_t)bytes->n + 1, sizeof **owners)))
        return tcr_fail(TCC_EENV, "no memory for a list of owners");
    return tcr_owners(c, (int)bytes->n, (const int64_t *)(m->bytes + bytes->data), *owners);
}

int tcr_owners_fold(struct tccrt_session *s)
{
    const struct tccrt_model *m = s->m;
    int status = TCC_OK;

    for (uint32_t k = 0; k < m->plan->steps.count && !status; k++) {
        const struct tcc_pstep *p = &m->steps[k];
        struct tccrt_comm *c = is_list(p) ? tcr_step_group(s, p) : NULL;
        int64_t *load = c ? calloc((size_t)c->size, sizeof *load) : NULL;
        int *owners = NULL;

        if (!c)
            continue;
        status =
            load ? tcr_step_owners(c, m, p, &owners) : tcr_fail(TCC_EENV, "no memory for what %d ranks own", c->size);
        for (uint32_t i = 0; i < p->args.count && !status; i++) {
            load[owners[i]] += UPDATE_BYTES + ((const int64_t *)(m->bytes + tcr_int_list(m, p, "bytes")->data))[i];
            c->rank = load[owners[i]] > load[c->rank] ? owners[i] : c->rank;
        }
        free(owners);
        free(load);
    }
    return status;
}

int tcr_owners_find(struct tccrt_session *s)
{
    const struct tccrt_model *m = s->m;
    int status = TCC_OK;

    for (uint32_t k = 0; k < m->plan->steps.count && !status; k++) {
        const struct tcc_pstep *p = &m->steps[k];
        int *owners = NULL;

        if (!is_list(p) || !p->syms.count)
            continue;
        status = tcr_step_owners(tcr_step_group(s, p), m, p, &owners);
        for (uint32_t i = 0; i < p->syms.count && i < p->args.count && !status; i++) {
            uint32_t sym = m->u32s[p->syms.first + i];

            if (sym != TCC_NO) /* one that nothing depends on, as with an optimizer that has no state, has no number */
                s->owner[sym] = (struct tcr_owner){true, owners[i] == tcr_step_group(s, p)->rank, owners[i]};
        }
        free(owners);
    }
    for (uint32_t i = 0; i < m->plan->states.count && !status; i++) {
        if (!tcr_is_elsewhere(s, i) || !s->states[i] || s->borrowed[i] || s->placed_states[i])
            continue;
        if ((status = tcr_settle(s)))
            return status;
        tcr_state_free(s, &m->states[i], s->states[i]);
        s->states[i] = NULL;
    }
    s->states_due = true;
    memset(s->entered, 0, m->plan->entries.count);
    return status;
}

void tcr_owners_bind(struct tccrt_session *s)
{
    for (uint32_t i = 0; i < s->m->plan->syms.count; i++)
        if (s->owner[i].known) {
            s->syms[i] = s->owner[i].mine;
            s->origin[i] = -1;
        }
}

bool tcr_is_elsewhere(const struct tccrt_session *s, uint32_t i)
{
    uint32_t sym = s->m->states[i].owner;

    return sym != TCC_NO && s->owner[sym].known && !s->owner[sym].mine;
}

/* Of the group that has the variable in parts; -1: all of it have it. */
static int owner_of(const struct tccrt_session *s, uint32_t i)
{
    uint32_t sym = s->m->states[i].owner;

    return sym != TCC_NO && s->owner[sym].known ? s->owner[sym].rank : -1;
}

bool tcr_has_state(const struct tccrt_session *s, uint32_t i)
{
    return s->states[i] || (tcr_is_elsewhere(s, i) && s->mirrors[i]);
}

int tcr_state_absent(const struct tccrt_session *s, uint32_t i)
{
    const char *name = tcr_string(s->m, s->m->states[i].name);

    if (!tcr_has_stage(s, s->m->states[i].owner_stage))
        return tcr_fail(TCC_EUSAGE, "state variable '%s' belongs to stage %u, and this session runs stage %d", name,
                        s->m->states[i].owner_stage - 1, s->stage - 1);
    return tcr_fail(TCC_EUSAGE,
                    "state variable '%s' lies with rank %d of its group alone (--zero): tccrt_comm_collect() gives its "
                    "value, tccrt_comm_params() memory for entry points that gather nothing",
                    name, owner_of(s, i));
}

bool tcr_lacks(const struct tccrt_session *s, uint32_t b)
{
    const struct tcc_pbuffer *p = &s->m->buffers[b];

    while (p->space == TCC_SPACE_ALIAS)
        p = &s->m->buffers[p->index];
    return p->space == TCC_SPACE_STATE && !s->states[p->index] && tcr_is_elsewhere(s, p->index);
}

/* -- Their memory ----------------------------------------------------------------------------------------- */

int tcr_state_make(struct tccrt_session *s, uint32_t i)
{
    const struct tcc_pstate *p = &s->m->states[i];

    if (s->states[i] || tcr_is_elsewhere(s, i) || !tcr_has_stage(s, p->owner_stage))
        return TCC_OK;
    if (!(s->states[i] = tcr_state_alloc(s, p)))
        return TCC_EENV;
    return s->discrete ? tcr_sync(s) : TCC_OK; /* the copy reads the first value */
}

int tcr_states_make(struct tccrt_session *s)
{
    const struct tccrt_model *m = s->m;
    int status = TCC_OK;

    for (uint32_t i = 0; s->states_due && i < m->plan->states.count && !status; i++)
        if (m->states[i].owner != TCC_NO && !(m->states[i].flags & TCCRT_STATE_GRADIENT))
            status = tcr_state_make(s, i);
    s->states_due = status != TCC_OK;
    return status;
}

static int make_used(struct tccrt_session *s, struct tcc_range steps)
{
    const struct tccrt_model *m = s->m;
    int status = TCC_OK;

    for (uint32_t k = steps.first; k < steps.first + steps.count && !status; k++) {
        const struct tcc_pstep *p = &m->steps[k];

        for (uint32_t a = 0; a < p->args.count && !status; a++) {
            uint32_t b = m->u32s[p->args.first + a];

            while (b != TCC_NO && m->buffers[b].space == TCC_SPACE_ALIAS)
                b = m->buffers[b].index;
            if (b != TCC_NO && m->buffers[b].space == TCC_SPACE_STATE)
                status = tcr_state_make(s, m->buffers[b].index);
        }
        for (uint32_t r = 0; r < p->regions.count && !status; r++)
            status = make_used(s, m->regions[p->regions.first + r].steps);
    }
    return status;
}

int tcr_entry_states(struct tccrt_session *s, const struct tcc_pentry *e)
{
    bool *entered = &s->entered[e - s->m->entries];
    int status = tcr_states_make(s);

    if (!status && !*entered)
        *entered = !(status = make_used(s, e->steps));
    return status;
}

int tcr_mirror(struct tccrt_session *s, uint32_t i, void **out)
{
    if (!s->mirrors[i] && !(s->mirrors[i] = tcr_heap_alloc(&s->heap, s->m->states[i].bytes)))
        return TCC_EENV;
    *out = s->mirrors[i];
    return TCC_OK;
}

static void drop_mirror(struct tccrt_session *s, uint32_t i)
{
    tcr_heap_free(&s->heap, s->mirrors[i], s->m->states[i].bytes);
    s->mirrors[i] = NULL;
}

/* -- Between ranks ---------------------------------------------------------------------------------------- */

/* The value of variable i goes from `from`, which has it, to `to`: there into a mirror, or into the variable where it
 * has memory. */
static int carry(struct tccrt_comm *c, struct tccrt_session *s, uint32_t i, int from, int to)
{
    struct tcc_tensor t = {NULL, TCC_U8, 1, {(int64_t)s->m->states[i].bytes}};
    void *room = NULL;
    const void *data = NULL;
    int status;

    if (c->rank == from) {
        status = tcr_state_on_host(s, i, &room, &data);
        t.data = (void *)data;
        status = status ? status : tccrt_comm_send(c, to, OWNED_TAG, &t, NULL);
    } else if (tcr_is_elsewhere(s, i) && !s->states[i]) {
        status = tcr_mirror(s, i, &t.data);
        status = status ? status : tccrt_comm_recv(c, from, OWNED_TAG, &t, NULL);
    } else {
        t.data = room = malloc((size_t)s->m->states[i].bytes + 1);
        status = room ? tccrt_comm_recv(c, from, OWNED_TAG, &t, NULL)
                      : tcr_fail(TCC_EENV, "no memory for '%s'", tcr_string(s->m, s->m->states[i].name));
        status = status ? status : tcr_state_write(s, i, room);
    }
    free(room);
    return status;
}

int tcr_state_carry(struct tccrt_comm *c, struct tccrt_session *s, uint32_t i, int root)
{
    int owner = owner_of(s, i), status = TCC_OK;

    if (owner >= 0 && owner != root && (c->rank == owner || c->rank == root))
        status = carry(c, s, i, root, owner);
    if (owner >= 0 && tcr_is_elsewhere(s, i) && s->mirrors[i])
        drop_mirror(s, i);
    return status;
}

/* What the ranks own goes to `root`, or to all of them. */
static int collect(struct tccrt_comm *c, int root, struct tccrt_session *s, int flags)
{
    bool gradients = false;
    int status = tcr_states_make(s);

    if (!status && !(flags & TCCRT_STATE_PARAM))
        status = tcr_accumulating(s, &gradients);
    for (uint32_t i = 0; i < s->m->plan->states.count && !status; i++) {
        const struct tcc_pstate *p = &s->m->states[i];
        int owner = owner_of(s, i);

        if (owner < 0 || !p->bytes || !tcr_has_stage(s, p->owner_stage) || (flags && !((int)p->flags & flags)) ||
            (p->flags & TCCRT_STATE_GRADIENT && !gradients))
            continue;
        if (!s->states[i] && !tcr_is_elsewhere(s, i) && (status = tcr_state_make(s, i)))
            return status;
        if (flags && !s->states[i] && (root < 0 || c->rank == root) && !(s->states[i] = tcr_state_alloc(s, p)))
            return TCC_EENV;
        for (int to = root < 0 ? 0 : root; to < c->size && (root < 0 || to == root) && !status; to++)
            if (to != owner && (c->rank == to || c->rank == owner))
                status = carry(c, s, i, owner, to);
    }
    return status;
}

static int collect_checked(struct tccrt_comm *c, int root, struct tccrt_session *s, int flags)
{
    tcr_clear_error();
    if (!c || !s)
        return tcr_fail(TCC_EUSAGE, "a group and a session are required, got NULL");
    c = tcr_hosts(c);
    if (root < -1 || root >= c->size)
        return tcr_fail(TCC_EUSAGE, "collect: unknown rank %d of %d", root, c->size);
    return c->size > 1 ? collect(c, root, s, flags) : TCC_OK;
}

int tccrt_comm_collect(struct tccrt_comm *c, int root, struct tccrt_session *s)
{
    return collect_checked(c, root, s, 0);
}

int tccrt_comm_params(struct tccrt_comm *c, int root, struct tccrt_session *s)
{
    return collect_checked(c, root, s, TCCRT_STATE_PARAM);
}

int tccrt_comm_release(struct tccrt_session *s)
{
    int status;

    tcr_clear_error();
    if (!s)
        return tcr_fail(TCC_EUSAGE, "a session is required, got NULL");
    status = tcr_settle(s);
    for (uint32_t i = 0; i < s->m->plan->states.count && !status; i++) {
        if (!tcr_is_elsewhere(s, i))
            continue;
        if (s->states[i] && !s->borrowed[i] && !s->placed_states[i]) {
            tcr_state_free(s, &s->m->states[i], s->states[i]);
            s->states[i] = NULL;
        }
        if (s->mirrors[i])
            drop_mirror(s, i);
    }
    return status;
}
