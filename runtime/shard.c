/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard.c - state variables of which each rank of a group holds a part (struct tcc_pshard): where it lies in the whole, and the way from one to the
 * other. Checkpoints hold the whole, and so do the weights of which first values are parts.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/rt_int.h"

#define TAG 8190

int tccrt_tensor_parts(const struct tccrt_model *m)
{
    for (uint32_t i = 0; m && i < m->plan->states.count; i++)
        if (m->states[i].shard.axis)
            return (int)m->states[i].shard.parts;
    return 1;
}

int tccrt_state_axis(const struct tccrt_model *m, int i)
{
    return m && i >= 0 && (uint32_t)i < m->plan->states.count ? (int)m->states[i].shard.axis - 1 : -1;
}

const char *tcr_shard_group(const struct tccrt_model *m)
{
    for (uint32_t i = 0; i < m->plan->states.count; i++)
        if (m->states[i].shard.axis)
            return tcr_string(m, m->groups[m->states[i].shard.group].name);
    return NULL;
}

uint64_t tcr_whole_bytes(const struct tcc_pstate *p)
{
    return p->shard.axis ? p->bytes * p->shard.parts : p->bytes;
}

/* The whole is `count` runs of bytes for each rank in turn, `run` bytes each. */
static void measure(const struct tccrt_model *m, const struct tcc_pstate *p, uint64_t *count, uint64_t *run)
{
    *count = p->shard.blocks;
    for (uint32_t d = 0; d + 1 < p->shard.axis; d++)
        *count *= (uint64_t)m->exprs[m->u32s[p->dims.first + d]].k;
    *run = *count ? p->bytes / *count : 0;
}

void tcr_take_part(const struct tccrt_model *m, const struct tcc_pstate *p, int rank, const void *whole, void *part)
{
    uint64_t count, run;

    measure(m, p, &count, &run);
    for (uint64_t i = 0; i < count && run; i++)
        memcpy((char *)part + i * run, (const char *)whole + (i * p->shard.parts + (uint64_t)rank) * run, run);
}

void tcr_put_part(const struct tccrt_model *m, const struct tcc_pstate *p, int rank, const void *part, void *whole)
{
    uint64_t count, run;

    measure(m, p, &count, &run);
    for (uint64_t i = 0; i < count && run; i++)
        memcpy((char *)whole + (i * p->shard.parts + (uint64_t)rank) * run, (const char *)part + i * run, run);
}

int tcr_state_write_whole(struct tccrt_session *s, uint32_t i, const void *whole)
{
    const struct tcc_pstate *p = &s->m->states[i];
    void *part;
    int status;

    if (!p->shard.axis)
        return tcr_state_write(s, i, whole);
    if (!(part = malloc(p->bytes + 1)))
        return tcr_fail(TCC_EENV, "no memory for '%s'", tcr_string(s->m, p->name));
    tcr_take_part(s->m, p, s->tensor - 1, whole, part);
    status = tcr_state_write(s, i, part);
    free(part);
    return status;
}

/* Rank 0's share of it: the others' parts come one after the other. */
static int receive_parts(struct tccrt_session *s, const struct tcc_pstate *p, struct tccrt_comm *group, void *whole)
{
    struct tcc_tensor t = {malloc(p->bytes + 1), TCC_U8, 1, {(int64_t)p->bytes}};
    int status = t.data ? TCC_OK : tcr_fail(TCC_EENV, "no memory for '%s'", tcr_string(s->m, p->name));

    for (int r = 1; r < (int)p->shard.parts && !status; r++) {
        status = tccrt_comm_recv(group, r, TAG, &t, NULL);
        if (!status)
            tcr_put_part(s->m, p, r, t.data, whole);
    }
    free(t.data);
    return status;
}

int tcr_gather_parts(struct tccrt_session *s, uint32_t i, void *whole)
{
    const struct tcc_pstate *p = &s->m->states[i];
    struct tccrt_comm *group = tcr_session_group(s, tcr_string(s->m, s->m->groups[p->shard.group].name));
    struct tcc_tensor t = {.dtype = TCC_U8, .rank = 1, .dims = {(int64_t)p->bytes}};
    void *room = NULL;
    const void *data;
    int status = group ? tcr_state_on_host(s, i, &room, &data)
                       : tcr_fail(TCC_EUSAGE,
                                  "state variable '%s' is divided among %u ranks, and the session has no group of them",
                                  tcr_string(s->m, p->name), p->shard.parts);

    if (!status && s->tensor > 1) {
        t.data = (void *)data;
        status = tccrt_comm_send(group, 0, TAG, &t, NULL);
    } else if (!status) {
        tcr_put_part(s->m, p, 0, data, whole);
        status = receive_parts(s, p, group, whole);
    }
    free(room);
    return status;
}

int tcr_check_tensor(const struct tccrt_model *m, int tensor)
{
    int parts = tccrt_tensor_parts(m);

    if (parts == 1 && tensor > 1)
        return tcr_fail(TCC_EUSAGE, "session: rank %d of tensors that are not divided", tensor - 1);
    if (parts > 1 && (tensor < 1 || tensor > parts))
        return tcr_fail(
            TCC_EUSAGE,
            "model '%s' was compiled with --tensor-parallel=%d: it runs in %d processes, each of which holds a part of "
            "its tensors (tccc-train; in C tccrt_options.tensor)",
            m->desc->name, parts, parts);
    return TCC_OK;
}
