/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times of launches and copies, for profiles: an event before and one behind each (CUDA Driver API, "Event management":
 * about half a microsecond of resolution), relative to one at the beginning. The simulator says when what an event
 * stands behind began and ended in modelled time, so the event behind is enough.
 */
#include <stdlib.h>

#include "runtime/device/cuda/cuda_int.h"

#define MOST 65536 /* between two readings; what comes later has no times */

static int more_timers(struct tcr_cuda *c)
{
    struct cuda_timer *t;
    int status;

    if (c->ntimers < c->timers_made)
        return TCC_OK;
    if (c->timers_made == c->timers_room) {
        size_t room = c->timers_room ? 2 * c->timers_room : 64;
        struct cuda_timer *grown = realloc(c->timers, room * sizeof *grown);
        struct tcr_timed *list = grown ? realloc(c->timed, room * sizeof *list) : NULL;

        c->timers = grown ? grown : c->timers;
        c->timed = list ? list : c->timed;
        if (!list)
            return tcr_fail(TCC_EENV, "no memory for the times of a run");
        c->timers_room = room;
    }
    t = &c->timers[c->timers_made];
    if ((status = CU(c, NULL, cuEventCreate, &t->from, 0)))
        return status;
    if ((status = CU(c, NULL, cuEventCreate, &t->to, 0))) {
        c->m->cu->cuEventDestroy_v2(t->from);
        return status;
    }
    c->timers_made++;
    return TCC_OK;
}

static bool is_timed(const struct tcr_cuda *c)
{
    return c->device.timing && !c->recording && c->ntimers < MOST;
}

int cuda_time_from(struct tcr_cuda *c, int queue)
{
    int status = is_timed(c) ? more_timers(c) : TCC_OK;

    if (!status && is_timed(c) && !c->m->cu->ptx_driver_times)
        status = CU(c, NULL, cuEventRecord, c->timers[c->ntimers].from, c->queues[queue].stream);
    return status;
}

int cuda_time_to(struct tcr_cuda *c, int queue, enum tcr_timed_kind kind, size_t bytes)
{
    struct cuda_timer *t;

    if (!is_timed(c))
        return TCC_OK;
    t = &c->timers[c->ntimers];
    t->what = (struct tcr_timed){.tag = c->device.tag, .queue = queue, .kind = kind, .bytes = bytes};
    c->ntimers++;
    return CU(c, NULL, cuEventRecord, t->to, c->queues[queue].stream);
}

/* In nanoseconds behind the first. */
static int read_times(struct tcr_cuda *c, struct cuda_timer *t, double *start, double *end)
{
    const struct cuda_api *cu = c->m->cu;
    float from = 0, to = 0;
    int status;

    if (cu->ptx_driver_times) {
        if ((status = CU(c, NULL, ptx_driver_times, t->to, start, end)))
            return status;
        if (cu->ptx_driver_bound && t->what.kind == TCR_TIMED_LAUNCH)
            cu->ptx_driver_bound(t->to, &t->what.bound);
        *start *= 1e9;
        *end *= 1e9;
        return TCC_OK;
    }
    if (!cu->cuEventElapsedTime)
        return tcr_fail(TCC_EENV, "device '%s': this CUDA driver measures no times", c->name);
    if ((status = CU(c, NULL, cuEventElapsedTime, &from, c->timers[0].from, t->from)) ||
        (status = CU(c, NULL, cuEventElapsedTime, &to, c->timers[0].from, t->to)))
        return status;
    *start = from * 1e6;
    *end = to * 1e6;
    return TCC_OK;
}

int cuda_timed(struct tcr_device *d, const struct tcr_timed **list, size_t *n)
{
    struct tcr_cuda *c = cuda_of(d);
    int status = cuda_enter(c);
    double base = 0, start = 0, end = 0;

    for (size_t i = 0; i < c->ntimers && !status; i++) {
        struct tcr_timed *x = &c->timed[i];

        status = read_times(c, &c->timers[i], &start, &end);
        *x = c->timers[i].what;
        x->start = start;
        x->end = end;
        base = i ? base : x->start;
        x->start -= base;
        x->end -= base;
    }
    *list = c->timed;
    *n = status ? 0 : c->ntimers;
    c->ntimers = 0;
    return cuda_leave(c, status);
}

void cuda_timing_free(struct tcr_cuda *c)
{
    for (size_t i = 0; i < c->timers_made; i++) {
        c->m->cu->cuEventDestroy_v2(c->timers[i].from);
        c->m->cu->cuEventDestroy_v2(c->timers[i].to);
    }
    free(c->timers);
    free(c->timed);
}

int cuda_simulated(struct tcr_device *d, struct tccrt_sim *out)
{
    struct tcr_cuda *c = cuda_of(d);
    double now, busy[3];

    if (!c->m->cu->ptx_driver_modelled)
        return tcr_fail(TCC_EUSAGE, "device '%s' models no time: it takes it", c->name);
    c->m->cu->ptx_driver_modelled(c->m->ordinal, &now, busy);
    *out = (struct tccrt_sim){.seconds = now,
                              .copy_seconds = busy[1] + busy[2],
                              .launches = d->counts.launches,
                              .copies = d->counts.copies,
                              .copy_bytes = c->copy_bytes,
                              .core = c->m->name,
                              .nengines = 1,
                              .engines = {{.name = "kernels", .instructions = d->counts.launches, .busy = busy[0]}}};
    return TCC_OK;
}
