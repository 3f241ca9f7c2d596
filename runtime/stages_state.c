/* SPDX-License-Identifier: Apache-2.0 */
/* State that is spread over stages: who has what, and how it comes together. */
#include <stdlib.h>
#include <string.h>

#include "runtime/rt_int.h"

#define TAG 8191

int tccrt_microbatches(const struct tccrt_model *m, const char *entry)
{
    const struct tcc_pentry *e = tcr_find_entry(m, entry);

    return e && e->staged ? (int)m->staged[e->staged - 1].micros : 1;
}

int tccrt_split_axis(const struct tccrt_model *m, const char *entry, int i)
{
    const struct tcc_pentry *e = tcr_find_entry(m, entry);
    const struct tcc_pstaged *p = e && e->staged ? &m->staged[e->staged - 1] : NULL;

    return p && i >= 0 && (uint32_t)i < p->axes.count ? (int)m->u32s[p->axes.first + (uint32_t)i] : -2;
}

int tccrt_state_stage(const struct tccrt_model *m, int i)
{
    return m && i >= 0 && (uint32_t)i < m->plan->states.count ? (int)m->states[i].owner_stage - 1 : -1;
}

/* Where the host finds the whole variable, or in *room, which is the caller's to free; nothing, on a rank that only
 * gave its part. */
static int find_whole(struct tccrt_session *s, uint32_t i, void **room, const void **data)
{
    const struct tcc_pstate *p = &s->m->states[i];

    *data = NULL;
    if (!p->shard.axis)
        return tcr_state_on_host(s, i, room, data);
    if (s->tensor == 1 && !(*room = malloc(tcr_whole_bytes(s->m, p) + 1)))
        return tcr_fail(TCC_EENV, "no memory for '%s'", tcr_string(s->m, p->name));
    *data = *room;
    return tcr_gather_parts(s, i, *room);
}

/* From the stage that has it to `root`; where both are one, to its caller. */
static int pass_whole(struct tccrt_session *s, uint32_t i, int root, void *to)
{
    const struct tcc_pstate *p = &s->m->states[i];
    struct tccrt_comm *group = s->stage ? tcr_session_group(s, "pp") : NULL;
    int here = s->stage - 1, owner = p->owner_stage ? (int)p->owner_stage - 1 : root;
    struct tcc_tensor t = {.dtype = TCC_U8, .rank = 1, .dims = {(int64_t)tcr_whole_bytes(s->m, p)}};

    if (!group || owner == root) {
        if (!tcr_has_state(s, i) && tcr_has_stage(s, p->owner_stage) && (!group || here == root))
            return tcr_state_absent(s, i);
        if (!s->states[i] && !tcr_is_elsewhere(s, i) && (!group || here == root))
            return tcr_fail(TCC_EUSAGE, "state variable '%s' is not here, and the session has no group \"pp\"",
                            tcr_string(s->m, p->name));
        if ((group && here != root) || (!to && !p->shard.axis) || (to && (to == s->states[i] || to == s->mirrors[i])))
            return TCC_OK;
        return p->shard.axis ? tcr_gather_parts(s, i, to) : tcr_state_read(s, i, 0, p->bytes, to);
    }
    if (here == owner) {
        void *room = NULL;
        const void *data;
        int status = find_whole(s, i, &room, &data);

        t.data = (void *)data;
        if (!status && (data || !p->shard.axis))
            status = tccrt_comm_send(group, root, TAG, &t, NULL);
        free(room);
        return status;
    }
    t.data = to;
    return here == root && s->tensor <= 1 ? tccrt_comm_recv(group, owner, TAG, &t, NULL) : TCC_OK;
}

int tcr_state_gather(struct tccrt_session *s, uint32_t i, int root, void *to)
{
    /* What is whole on all ranks of a stage comes from the first of them. */
    return s->tensor > 1 && !s->m->states[i].shard.axis ? TCC_OK : pass_whole(s, i, root, to);
}

int tccrt_state_gather(struct tccrt_session *s, const char *name, int root, const struct tcc_tensor *out)
{
    struct tccrt_value_info info;
    uint32_t i = 0;

    tcr_clear_error();
    if (!s || !name)
        return tcr_fail(TCC_EUSAGE, "state: a session and a name are required, got NULL");
    while (i < s->m->plan->states.count && strcmp(tcr_string(s->m, s->m->states[i].name), name))
        i++;
    if (i == s->m->plan->states.count)
        return tcr_no_state(s, name);
    if (root < 0 || root >= tccrt_stages(s->m))
        return tcr_fail(TCC_EUSAGE, "unknown stage %d", root);
    tccrt_state_info(s->m, (int)i, &info);
    if ((!s->stage || s->stage - 1 == root) &&
        (!out || !out->data || out->dtype != info.dtype || out->rank != info.rank ||
         memcmp(out->dims, info.dims, (size_t)info.rank * sizeof *info.dims)))
        return tcr_fail(TCC_EINPUT, "state variable '%s': memory of another type or shape was given", name);
    return tcr_state_gather(s, i, root, out ? out->data : NULL);
}
