/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops that may run at the same time (TCC_STEP_PARALLEL), each on one thread of the host: iterations that have too
 * little work for several threads, as a step of a recurrent layer, don't meet in each launch then. A thread walks its
 * loop in a session of its own, a copy of the running one that lies on the same memory. What a walk may change of a
 * session for good (outputs that get memory, sizes, scratch) is done before the threads begin.
 */
#include <string.h>

#include "runtime/rt_int.h"

struct lane {
    _Alignas(TCR_ALIGN) struct tccrt_session s;
    const struct tcc_pstep *loop;
    int status;
    char message[512]; /* the thread's */
};

/* The loop of region i. */
static const struct tcc_pstep *loop_of(const struct tccrt_session *s, const struct tcc_pstep *p, uint32_t i)
{
    return &s->m->steps[s->m->regions[p->regions.first + i].steps.first];
}

static const struct tcc_pregion *body_of(const struct tccrt_session *s, const struct tcc_pstep *loop)
{
    return &s->m->regions[loop->regions.first];
}

/* Are the loop's steps launches and copies that are ready to run, and each too small for several threads? *scratch: the
 * most that one takes. */
static bool runs_alone(const struct tccrt_session *s, const struct tcc_pstep *loop, int64_t *scratch)
{
    struct tcc_range steps = body_of(s, loop)->steps;

    for (const struct tcc_pstep *p = s->m->steps + steps.first, *end = p + steps.count; p < end; p++) {
        if (p->kind == TCC_STEP_COPY)
            continue;
        if (p->kind != TCC_STEP_LAUNCH || !TCR_IS_VALUE(s->values[p->tiles]) ||
            (s->values[p->tiles] > 1 && !tcr_is_small(s, p)) ||
            (p->scratch != TCC_NO && !TCR_IS_VALUE(s->values[p->scratch])))
            return false;
        if (p->scratch != TCC_NO && s->values[p->scratch] > *scratch)
            *scratch = s->values[p->scratch];
    }
    return true;
}

/* Who observes steps or profiles them sees each by itself. scratch: as runs_alone() has it. */
static bool run_together(const struct tccrt_session *s, const struct tcc_pstep *p, int64_t *scratch)
{
    if (s->device != s->host || s->device->threads < 2 || s->device->checks || s->observer || s->profile ||
        s->max_queues >= 2)
        return false;
    for (uint32_t i = 0; i < p->regions.count; i++)
        if (!runs_alone(s, loop_of(s, p, i), scratch))
            return false;
    return true;
}

static int find_memory(struct tccrt_session *s, struct tcc_range buffers, const char *node)
{
    for (uint32_t i = 0; i < buffers.count; i++) {
        uint32_t b = s->m->u32s[buffers.first + i];
        void *at;
        int status = b == TCC_NO ? TCC_OK : tcr_address(s, b, node, &at);

        if (status)
            return status;
    }
    return TCC_OK;
}

/* Memory of all that a loop touches. *swaps: what it carries is handed on through memory that the heap has to give. */
static int get_ready(struct tccrt_session *s, const struct tcc_pstep *loop, bool *swaps)
{
    const struct tcc_pregion *r = body_of(s, loop);
    const struct tcc_range lists[] = {loop->args, r->params, r->results, r->exits};
    const char *node = tcr_string(s->m, loop->node);
    bool overlap = false;
    int status = TCC_OK;

    for (size_t i = 0; i < sizeof lists / sizeof *lists && !status; i++)
        status = find_memory(s, lists[i], node);
    for (uint32_t i = 0; i < r->steps.count && !status; i++)
        status = find_memory(s, s->m->steps[r->steps.first + i].args, node);
    if (!status)
        status = tcr_carried_overlap(s, loop, &overlap);
    *swaps = *swaps || overlap;
    return status;
}

static int run_in_turn(struct tccrt_session *s, const struct tcc_pstep *p)
{
    int status = TCC_OK;

    for (uint32_t i = 0; i < p->regions.count && !status; i++)
        status = tcr_walk(s, s->m->regions[p->regions.first + i].steps);
    return status;
}

static void run_lane(void *arg, int64_t i)
{
    struct lane *l = (struct lane *)arg + i;

    l->status = tcr_step_loop(&l->s, l->loop);
    if (l->status)
        strncat(l->message, tccrt_error(), sizeof l->message - 1);
}

/* A session for a thread; `busy`, which others look at, stays out of it. */
static bool open_lane(struct tccrt_session *s, struct lane *l, uint32_t i, uint8_t *room, const struct tcc_pstep *loop)
{
    size_t shared = offsetof(struct tccrt_session, m);

    memset(l, 0, sizeof *l);
    memcpy((char *)&l->s + shared, (const char *)s + shared, sizeof l->s - shared);
    l->s.device = l->s.host = tcr_host_lane(s->host, (int)i);
    l->s.args = (void **)(void *)room;
    l->s.sizes = (int64_t *)(void *)(room + s->max_args * sizeof *s->args);
    l->s.lane = 1;
    l->loop = loop;
    return l->s.device != NULL;
}

/* n loops from that of region `first` on, as many as the host has threads, at most. */
static int run_some(struct tccrt_session *s, const struct tcc_pstep *p, uint32_t first, uint32_t n)
{
    size_t each = TCR_ROUND(s->max_args * sizeof *s->args + s->max_sizes * sizeof *s->sizes),
           bytes = n * (sizeof(struct lane) + each);
    struct lane *lanes = tcr_heap_alloc(&s->heap, bytes);
    int status = lanes ? TCC_OK : TCC_EENV;

    for (uint32_t i = 0; i < n && !status; i++)
        if (!open_lane(s, &lanes[i], i, (uint8_t *)(lanes + n) + i * each, loop_of(s, p, first + i)))
            status = TCC_EENV;
    if (!status)
        tcr_host_each(s->host, n, run_lane, lanes);
    for (uint32_t i = 0; i < n && !status; i++)
        if (lanes[i].status)
            status = tcr_fail(lanes[i].status, "%s", lanes[i].message);
    tcr_heap_free(&s->heap, lanes, lanes ? bytes : 0);
    return status;
}

int tcr_step_parallel(struct tccrt_session *s, const struct tcc_pstep *p)
{
    uint32_t threads = (uint32_t)s->host->threads, n = p->regions.count;
    int64_t scratch = 1;
    bool swaps = false;
    int status = TCC_OK;

    if (!run_together(s, p, &scratch))
        return run_in_turn(s, p);
    for (uint32_t i = 0; i < n && !status; i++)
        status = get_ready(s, loop_of(s, p, i), &swaps);
    if (!status)
        status = s->host->ops->reserve(s->host, scratch, 0, 0);
    if (status || swaps)
        return status ? status : run_in_turn(s, p);
    for (uint32_t i = 0; i < n && !status; i += threads)
        status = run_some(s, p, i, n - i < threads ? n - i : threads);
    return status;
}
