/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard.c - state variables of which each rank of a group holds a part (struct tcc_pshard): where it lies in the whole,
 * and the way from one to the other. Checkpoints hold the whole, and so do the weights of which first values are parts.
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

/* The whole is `count` rows, in each of which all ranks have `run` bytes one behind the other, but for `padding` at its
 * end. */
struct layout {
    uint64_t count, run, padding;
};

static struct layout layout_of(const struct tccrt_model *m, const struct tcc_pstate *p)
{
    struct layout l = {.count = p->shard.blocks};
    uint64_t rows = (uint64_t)m->exprs[m->u32s[p->dims.first + p->shard.axis - 1]].k;

    for (uint32_t d = 0; d + 1 < p->shard.axis; d++)
        l.count *= (uint64_t)m->exprs[m->u32s[p->dims.first + d]].k;
    l.run = l.count ? p->bytes / l.count : 0;
    l.padding = p->shard.padding ? l.run / rows * p->shard.padding : 0;
    return l;
}

uint64_t tcr_whole_bytes(const struct tccrt_model *m, const struct tcc_pstate *p)
{
    return p->shard.axis ? p->bytes * p->shard.parts - layout_of(m, p).count * layout_of(m, p).padding : p->bytes;
}

/* Where row i's run of that rank begins in the whole, and how much of it is no padding. */
static uint64_t place_of(const struct layout *l, uint32_t parts, int rank, uint64_t i, uint64_t *bytes)
{
    uint64_t row = parts * l->run - l->padding, at = (uint64_t)rank * l->run, left = at < row ? row - at : 0;

    *bytes = left < l->run ? left : l->run;
    return i * row + at;
}

void tcr_take_part(const struct tccrt_model *m, const struct tcc_pstate *p, int rank, const void *whole, void *part)
{
    struct layout l = layout_of(m, p);
    uint64_t n;

    for (uint64_t i = 0; i < l.count && l.run; i++) {
        uint64_t at = place_of(&l, p->shard.parts, rank, i, &n);

        if (n)
            memcpy((char *)part + i * l.run, (const char *)whole + at, n);
        memset((char *)part + i * l.run + n, 0, l.run - n);
    }
}

static void tcr_put_part(const struct tccrt_model *m, const struct tcc_pstate *p, int rank, const void *part,
                         void *whole)
{
    struct layout l = layout_of(m, p);
    uint64_t n;

    for (uint64_t i = 0; i < l.count && l.run; i++) {
        uint64_t at = place_of(&l, p->shard.parts, rank, i, &n);

        if (n)
            memcpy((char *)whole + at, (const char *)part + i * l.run, n);
    }
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
        return tcr_fail(TCC_EUSAGE,
                        "model '%s' was compiled for %d parts of tensors (--tensor-parallel and its like): it runs in "
                        "%d processes, "
                        "each of which holds one (tccc-train; in C tccrt_options.tensor)",
                        m->desc->name, parts, parts);
    return TCC_OK;
}
