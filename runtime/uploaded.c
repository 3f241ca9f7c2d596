/* SPDX-License-Identifier: Apache-2.0 */
/* uploaded.c - a model's weights on machines with a memory of their own: there once, for all sessions, until the model
 * is closed. */
#include <pthread.h>
#include <stdlib.h>

#include "runtime/rt_int.h"

size_t tcr_device_weights(const struct tccrt_model *m)
{
    uint64_t most = m->desc->weights_size, end = 0;

    for (uint32_t i = 0; i < m->plan->buffers.count; i++) {
        const struct tcc_pbuffer *b = &m->buffers[i];
        const struct tcc_pexpr *at, *bytes;

        if (b->space != TCC_SPACE_WEIGHT || (m->plan->memories.count > 1 && !b->memory))
            continue;
        at = &m->exprs[b->offset];
        bytes = &m->exprs[b->bytes];
        if (m->plan->memories.count <= 1 || at->op != TCC_EX_CONST || bytes->op != TCC_EX_CONST)
            return most;
        end = (uint64_t)at->k + (uint64_t)bytes->k > end ? (uint64_t)at->k + (uint64_t)bytes->k : end;
    }
    return end < most ? end : most;
}

struct tcr_uploaded {
    struct tcr_uploaded *next;
    void *machine, *at;
    void (*end)(void *machine, void *at);
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const void *find(const struct tccrt_model *m, const void *machine)
{
    for (const struct tcr_uploaded *u = m->uploaded; u; u = u->next)
        if (u->machine == machine)
            return u->at;
    return NULL;
}

const void *tcr_uploaded(struct tccrt_model *m, const void *machine)
{
    const void *at;

    pthread_mutex_lock(&lock);
    at = find(m, machine);
    pthread_mutex_unlock(&lock);
    return at;
}

const void *tcr_keep_uploaded(struct tccrt_model *m, void *machine, void *at, void (*end)(void *machine, void *at))
{
    struct tcr_uploaded *u = calloc(1, sizeof *u);
    const void *there;

    pthread_mutex_lock(&lock);
    there = find(m, machine);
    if (!there && u) {
        *u = (struct tcr_uploaded){m->uploaded, machine, at, end};
        m->uploaded = u;
        there = at;
        u = NULL;
    } else if (!there) {
        tcr_fail(TCC_EENV, "no memory for the weights of a model on a device");
    }
    pthread_mutex_unlock(&lock);
    free(u);
    return there;
}

void tcr_uploaded_free(struct tccrt_model *m)
{
    while (m->uploaded) {
        struct tcr_uploaded *u = m->uploaded;

        m->uploaded = u->next;
        u->end(u->machine, u->at);
        free(u);
    }
}
