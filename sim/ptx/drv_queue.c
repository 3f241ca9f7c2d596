/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of deferred work. An op runs when all it depends on is done; which of the ready ones comes next is drawn
 * from the seed: each op has a rank that it shares with its neighbours of the same chain, so that whole stretches of
 * one stream run before another's. Each chain of ops has a slot in the vector clocks by which races between launches
 * are found. Modelled time is computed in the order of submission, once an op and all before it are done, so that it
 * depends on the program alone and not on the order of execution.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/grow.h"
#include "sim/ptx/drv_int.h"
#include "sim/ptx/ptx_int.h"

static CUresult grow(void *list, int n, int *room, size_t each)
{
    return drv_room(list, n, room, each) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* -- Ops -- */

void drv_unref(struct drv_op *op)
{
    if (!op || --op->refs)
        return;
    for (int k = 0; k < op->ndeps; k++)
        drv_unref(op->deps[k]);
    drv_work_free(&op->work);
    free(op->deps);
    free(op->next);
    free(op);
}

CUresult drv_dep(struct drv_deps *deps, struct drv_op *op)
{
    for (int k = 0; k < deps->n; k++)
        if (deps->at[k] == op)
            return CUDA_SUCCESS;
    if (!op || grow(&deps->at, deps->n, &deps->room, sizeof *deps->at))
        return op ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
    op->refs++;
    deps->at[deps->n++] = op;
    return CUDA_SUCCESS;
}

static void join(uint64_t *to, const uint64_t *from)
{
    for (int k = 0; k < PTX_SLOTS; k++)
        to[k] = from[k] > to[k] ? from[k] : to[k];
}

static void make_ready(struct drv_op *op)
{
    if (!grow(&drv.queue, drv.nqueue, &drv.queue_room, sizeof *drv.queue))
        drv.queue[drv.nqueue++] = op;
}

static void append_untimed(struct drv_op *op)
{
    op->refs++;
    *drv.untimed_end = op;
    drv.untimed_end = &op->later;
}

static void *helper(void *unused);

static void start_helper(void)
{
    pthread_t t;
    if (drv.helper)
        return;
    drv.helper = !pthread_create(&t, NULL, helper, NULL);
    if (drv.helper)
        pthread_detach(t);
}

CUresult drv_push(struct drv_deps *deps, struct drv_work *w, struct drv_op **out)
{
    struct drv_op *op = calloc(1, sizeof *op);
    CUresult r = op ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (int k = 0; k < deps->n && !r; k++)
        if (!deps->at[k]->done)
            r = grow(&deps->at[k]->next, deps->at[k]->nnext, &deps->at[k]->next_room, sizeof *deps->at[k]->next);
    if (r) {
        for (int k = 0; k < deps->n; k++)
            drv_unref(deps->at[k]);
        free(deps->at);
        drv_work_free(w);
        free(op);
        return r;
    }
    op->work = *w;
    op->id = ++drv.ids;
    op->refs = 2; /* the queue's and the caller's */
    op->deps = deps->at;
    op->ndeps = deps->n;
    op->slot = -1;
    memcpy(op->clock, drv.host, sizeof op->clock);
    for (int k = 0; k < op->ndeps; k++) {
        struct drv_op *d = op->deps[k];
        join(op->clock, d->clock);
        if (!d->extended && op->slot < 0) {
            op->slot = d->slot;
            d->extended = true;
        }
        if (!d->done) {
            d->next[d->nnext++] = op;
            op->waiting++;
        }
    }
    if (op->slot < 0)
        op->slot = drv.slots++ % PTX_SLOTS;
    op->clock[op->slot] = op->id;
    join(w->ctx->clock, op->clock);
    uint64_t mix = drv.seed * 0x9e3779b97f4a7c15 + (uint64_t)op->slot * 0x2545f4914f6cdd1d + op->id / 8;
    op->rank = (mix ^ mix >> 29) * 0xbf58476d1ce4e5b9;
    append_untimed(op);
    if (!op->waiting)
        make_ready(op);
    start_helper();
    pthread_cond_broadcast(&drv.changed);
    *out = op;
    return CUDA_SUCCESS;
}

/* -- Modelled time -- */

/* What an op keeps busy; NULL: nothing. */
static double *engine_of(const struct drv_op *op)
{
    struct drv_device *dev = &drv.devices[op->work.ctx->device];
    switch (op->work.kind) {
    case WORK_KERNEL:
    case WORK_FILL: return &dev->engine_free[0];
    case WORK_COPY:
        return &dev->engine_free[drv_device_of(op->work.from.at) < 0 ? 1 : drv_device_of(op->work.to.at) < 0 ? 2 : 0];
    case WORK_OUTSIDE: return &dev->links_free;
    default: return NULL;
    }
}

/* When one begins and ends; false: others that take part in it are not that far. */
static bool time_of(struct drv_op *op)
{
    double start = drv.host_time + (op->in_graph ? 0 : 2e-6); /* what a call costs the host */
    double host = start, *engine = engine_of(op);
    struct drv_device *dev = &drv.devices[op->work.ctx->device];
    for (int k = 0; k < op->ndeps; k++)
        start = op->deps[k]->end > start ? op->deps[k]->end : start;
    if (engine && *engine > start)
        start = *engine;
    op->start = start;
    op->end = start + op->seconds;
    if (op->work.kind == WORK_OUTSIDE && !op->work.outside.time(op->work.outside.data, start, &op->end))
        return false;
    drv.host_time = host;
    if (engine)
        *engine = op->end;
    if (engine && op->work.kind != WORK_OUTSIDE)
        dev->engine_busy[engine - dev->engine_free] += op->seconds;
    drv.last_end = op->end > drv.last_end ? op->end : drv.last_end;
    if (op->work.kind == WORK_MARK && op->ndeps) { /* the first dependency is its stream's last */
        bool mark = op->deps[0]->work.kind == WORK_MARK;
        op->before[0] = mark ? op->deps[0]->before[0] : op->deps[0]->start;
        op->before[1] = mark ? op->deps[0]->before[1] : op->deps[0]->end;
        op->bound = op->deps[0]->bound;
    }
    return true;
}

/* From the oldest op on. */
static void drv_settle_times(void)
{
    while (drv.untimed && (drv.untimed->done || (drv.untimed->is_sync && drv.untimed->deps[0]->timed))) {
        struct drv_op *op = drv.untimed;
        if (!op->is_sync && !time_of(op))
            return;
        if (op->is_sync)
            drv.host_time = op->deps[0]->end > drv.host_time ? op->deps[0]->end : drv.host_time;
        drv.untimed = op->later;
        if (!drv.untimed)
            drv.untimed_end = &drv.untimed;
        op->timed = true;
        for (int k = 0; k < op->ndeps; k++)
            drv_unref(op->deps[k]);
        op->ndeps = 0;
        drv_unref(op);
    }
}

/* -- Running -- */

static void finish(struct drv_op *op)
{
    op->done = true;
    for (int k = 0; k < op->nnext; k++)
        if (!--op->next[k]->waiting)
            make_ready(op->next[k]);
    drv_settle_times();
    pthread_cond_broadcast(&drv.changed);
    drv_unref(op);
}

/* The ready op with the highest rank, one time in four another. */
static struct drv_op *draw(void)
{
    int best = 0;
    if (drv_draw() & 3)
        for (int k = 1; k < drv.nqueue; k++)
            best = drv.queue[k]->rank > drv.queue[best]->rank ? k : best;
    else
        best = (int)(drv_draw() % (unsigned)drv.nqueue);
    struct drv_op *op = drv.queue[best];
    drv.queue[best] = drv.queue[--drv.nqueue];
    return op;
}

/* With the lock released for a moment: others are to get on. */
static void rest(void)
{
    struct timespec moment = {0, 50000};
    pthread_mutex_unlock(&drv.lock);
    nanosleep(&moment, NULL);
    pthread_mutex_lock(&drv.lock);
}

/* An op that is not over takes its place again, behind all others that are ready. */
static void again_later(struct drv_op *op)
{
    bool others = false;
    op->rank = 0;
    drv.queue[drv.nqueue++] = op; /* where it was taken from */
    for (int k = 0; k < drv.nqueue; k++)
        others |= drv.queue[k]->work.kind != WORK_OUTSIDE;
    pthread_cond_broadcast(&drv.changed);
    if (!others)
        rest();
}

/* Runs one ready op, or waits for the one that another thread runs. False: there is nothing to run. */
static bool step(void)
{
    if (drv.executing) {
        pthread_cond_wait(&drv.changed, &drv.lock);
        return true;
    }
    if (!drv.nqueue)
        return false;
    struct drv_op *op = draw();
    drv.executing = true;
    bool again = false;
    op->seconds = drv_run(&op->work, op, &again); /* releases the lock meanwhile */
    drv.executing = false;
    if (again)
        again_later(op);
    else
        finish(op);
    return true;
}

void drv_quiet(void)
{
    while (drv.executing)
        pthread_cond_wait(&drv.changed, &drv.lock);
}

void drv_seen(struct drv_op *op)
{
    struct drv_op *sync = op ? calloc(1, sizeof *sync) : NULL;
    if (!op)
        return;
    join(drv.host, op->clock);
    if (sync && (sync->deps = malloc(sizeof(struct drv_op *)))) {
        sync->is_sync = true;
        sync->deps[0] = op;
        sync->ndeps = 1;
        op->refs++;
        append_untimed(sync);
        drv_settle_times();
        return;
    }
    free(sync);
}

CUresult drv_wait(struct drv_op *op)
{
    if (!op)
        return CUDA_SUCCESS;
    op->refs++;
    while (!op->done && step()) {
    }
    bool done = op->done;
    if (done)
        drv_seen(op);
    drv_unref(op);
    return done ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

void drv_time(struct drv_op *op)
{
    while (!op->timed) {
        drv_settle_times();
        if (!op->timed && !step())
            rest(); /* other processes' parts of it */
    }
}

void drv_settle_all(void)
{
    drv_settle_times();
    while (drv.untimed && drv.untimed->done) {
        rest();
        drv_settle_times();
    }
}

static void seen_all(CUcontext ctx)
{
    join(drv.host, ctx->clock);
    drv_seen(ctx->legacy.last);
    for (CUstream s = ctx->streams; s; s = s->next)
        drv_seen(s->last);
}

void drv_drain(CUcontext ctx)
{
    for (;;) {
        struct drv_op *last = NULL;
        for (struct drv_op *op = drv.untimed; op; op = op->later)
            if (!op->is_sync && !op->done && (!ctx || op->work.ctx == ctx))
                last = op;
        if (last && !drv_wait(last))
            continue;
        break;
    }
    for (int k = 0; k < drv.ndevices; k++) /* what was done before somebody waited is known to be done now, too */
        if (drv.devices[k].primary && (!ctx || ctx == drv.devices[k].primary))
            seen_all(drv.devices[k].primary);
    if (ctx)
        seen_all(ctx);
}

/* Progress without anybody who waits: what is ready runs after a moment, in which the host may run ahead. */
static void *helper(void *unused)
{
    struct timespec moment = {0, 300000};
    for (;;) {
        nanosleep(&moment, NULL);
        pthread_mutex_lock(&drv.lock);
        drv_settle_times(); /* others may wait for them */
        while (!drv.nqueue && !(drv.untimed && drv.untimed->done))
            pthread_cond_wait(&drv.changed, &drv.lock);
        if (drv.nqueue && !drv.executing && drv_draw() & 1)
            step();
        pthread_mutex_unlock(&drv.lock);
    }
    return unused;
}

uint64_t drv_draw(void)
{
    return ptx_random(&drv.random);
}

bool drv_room(void *list, int n, int *room, size_t each)
{
    return n < *room || sim_grow(list, each, room, sizeof *room, 16);
}
