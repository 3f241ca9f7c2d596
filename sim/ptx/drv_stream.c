/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and events (CUDA Driver API, "Stream management", "Event management"). The legacy stream waits for all
 * blocking streams of its context, and they for it. While a stream is being captured (drv_capture.c) its calls become
 * nodes of a graph; an event recorded there carries the nodes it stands for, and a stream that waits for it joins the
 * capture.
 */
#include <stdlib.h>

#include "sim/grow.h"
#include "sim/ptx/drv_int.h"

static CUstream per_thread(CUcontext ctx)
{
    CUstream s = ctx->streams;
    while (s && !(s->per_thread && pthread_equal(s->owner, pthread_self())))
        s = s->next;
    if (s || !(s = calloc(1, sizeof *s)))
        return s;
    *s = (struct CUstream_st){
        .magic = MAGIC_STREAM, .ctx = ctx, .owner = pthread_self(), .per_thread = true, .next = ctx->streams};
    return ctx->streams = s;
}

CUresult drv_stream(CUstream handle, CUstream *s)
{
    CUcontext ctx = drv_current();
    *s = !handle || handle == CU_STREAM_LEGACY ? &ctx->legacy
         : handle == CU_STREAM_PER_THREAD      ? per_thread(ctx)
                                               : handle;
    return !*s ? CUDA_ERROR_OUT_OF_MEMORY : IS(*s, STREAM) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static bool blocks(const struct CUstream_st *s)
{
    return !s->legacy && !(s->flags & CU_STREAM_NON_BLOCKING);
}

/* A use of the legacy stream while a blocking stream of its context is being captured would tie them together. */
bool drv_ties_capture(CUcontext ctx)
{
    for (CUstream s = ctx->streams; s; s = s->next)
        if (s->capture && blocks(s)) {
            s->capture->broken = true;
            return true;
        }
    return false;
}

static CUresult stream_deps(CUstream s, struct drv_deps *deps)
{
    CUresult r = drv_dep(deps, s->last);
    if (s->legacy)
        for (CUstream t = s->ctx->streams; t && !r; t = t->next)
            r = blocks(t) ? drv_dep(deps, t->last) : CUDA_SUCCESS;
    else if (blocks(s))
        r = r ? r : drv_dep(deps, s->ctx->legacy.last);
    return r;
}

static CUresult push(CUstream s, struct drv_deps *deps, struct drv_work *w)
{
    struct drv_op *op;
    w->ctx = s->ctx;
    CUresult r = drv_push(deps, w, &op);
    if (r)
        return r;
    drv_unref(s->last);
    s->last = op;
    return CUDA_SUCCESS;
}

static int node_type(enum drv_kind k)
{
    return k == WORK_KERNEL ? CU_GRAPH_NODE_TYPE_KERNEL
           : k == WORK_COPY ? CU_GRAPH_NODE_TYPE_MEMCPY
           : k == WORK_FILL ? CU_GRAPH_NODE_TYPE_MEMSET
           : k == WORK_HOST ? CU_GRAPH_NODE_TYPE_HOST
           : k == WORK_FREE ? CU_GRAPH_NODE_TYPE_MEM_FREE
                            : CU_GRAPH_NODE_TYPE_EMPTY;
}

static CUresult wait_for(CUstream s)
{
    CUcontext ctx = s->ctx;
    if (s->capture)
        return drv_capture_breaks(s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (s->legacy && drv_ties_capture(s->ctx))
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (s->legacy) { /* it stands for the blocking ones, too */
        struct drv_deps deps = {0};
        CUresult r = stream_deps(s, &deps);
        for (int k = 0; k < deps.n; k++) {
            r = r ? r : drv_wait(deps.at[k]);
            drv_unref(deps.at[k]);
        }
        free(deps.at);
        return r ? r : ctx->sticky;
    }
    CUresult r = drv_wait(s->last);
    return r ? r : ctx->sticky;
}

CUresult drv_enqueue(CUstream s, struct drv_work *w, bool wait)
{
    struct drv_deps deps = {0};
    struct drv_capture *c = s->capture;
    w->ctx = s->ctx;
    drv_next_work(w);
    if (c && (c->broken || wait || w->kind == WORK_FREE)) {
        CUresult r = c->broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                               : drv_capture_breaks(c, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        drv_work_free(w);
        return r;
    }
    if (c) {
        CUgraphNode node;
        CUresult r = drv_node_add(c->graph, node_type(w->kind), w, s->tips.at, (size_t)s->tips.n, &node);
        s->tips.n = 0;
        return r ? r : drv_nodes_add(&s->tips, node) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (s->legacy && drv_ties_capture(s->ctx)) {
        drv_work_free(w);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    CUresult r = stream_deps(s, &deps);
    if (r) {
        drv_work_free(w);
        return r;
    }
    r = push(s, &deps, w);
    if (r || !wait)
        return r;
    drv.faults.waits++;
    return wait_for(s);
}

static CUresult create(CUstream *out, unsigned flags, int priority)
{
    CUcontext ctx = drv_current();
    CUstream s;
    if (!out || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    if (!(s = calloc(1, sizeof *s)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    *s = (struct CUstream_st){
        .magic = MAGIC_STREAM, .ctx = ctx, .flags = flags, .priority = priority, .next = ctx->streams};
    *out = ctx->streams = s;
    return CUDA_SUCCESS;
}
API(cuStreamCreate, NEED_CTX, (CUstream * stream, unsigned flags), create(stream, flags, 0))
API(cuStreamCreateWithPriority, NEED_CTX, (CUstream * stream, unsigned flags, int priority),
    create(stream, flags, priority))

void drv_stream_drop(CUstream s)
{
    UNLINK(s->ctx->streams, s);
    if (s->capture) {
        s->capture->broken = true;
        drv_capture_unref(s->capture);
    }
    drv_nodes_free(&s->tips);
    drv_unref(s->last);
    s->magic = 0;
    s->last = NULL;
    s->capture = NULL;
    if (!s->legacy)
        free(s);
}

static CUresult destroy(CUstream s)
{
    if (!s || s == CU_STREAM_LEGACY || s == CU_STREAM_PER_THREAD || !IS(s, STREAM) || s->legacy || s->per_thread)
        return CUDA_ERROR_INVALID_HANDLE;
    drv_stream_drop(s); /* what is pending runs all the same */
    return CUDA_SUCCESS;
}
API(cuStreamDestroy_v2, NEED_CTX, (CUstream stream), destroy(stream))

static CUresult synchronize(CUstream handle)
{
    CUstream s;
    CUresult r = drv_stream(handle, &s);
    return r ? r : wait_for(s);
}
API(cuStreamSynchronize, NEED_CTX | WAITS, (CUstream stream), synchronize(stream))

/* Is it done? Seeing that it is orders what the host does next after it. */
static CUresult ask(struct drv_op *op, CUcontext ctx)
{
    if (op && !op->done)
        return CUDA_ERROR_NOT_READY;
    drv_seen(op);
    return ctx->sticky;
}

static CUresult query(CUstream handle)
{
    CUstream s;
    CUresult r = drv_stream(handle, &s);
    if (r)
        return r;
    if (s->capture)
        return drv_capture_breaks(s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (s->legacy && drv_ties_capture(s->ctx))
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    for (CUstream t = s->legacy ? s->ctx->streams : NULL; t && !r; t = t->next)
        r = blocks(t) ? ask(t->last, s->ctx) : CUDA_SUCCESS;
    return r ? r : ask(s->last, s->ctx);
}
API(cuStreamQuery, NEED_CTX, (CUstream stream), query(stream))

static CUresult get(CUstream handle, unsigned *flags, int *priority, CUcontext *ctx)
{
    CUstream s;
    CUresult r = drv_stream(handle, &s);
    if (r || (!flags && !priority && !ctx))
        return r ? r : CUDA_ERROR_INVALID_VALUE;
    if (flags)
        *flags = s->flags;
    if (priority)
        *priority = s->priority;
    if (ctx)
        *ctx = s->ctx;
    return CUDA_SUCCESS;
}
API(cuStreamGetFlags, NEED_CTX, (CUstream stream, unsigned *flags), get(stream, flags, NULL, NULL))
API(cuStreamGetPriority, NEED_CTX, (CUstream stream, int *priority), get(stream, NULL, priority, NULL))
API(cuStreamGetCtx, NEED_CTX, (CUstream stream, CUcontext *ctx), get(stream, NULL, NULL, ctx))

/* -- Events -- */

static CUresult event_create(CUevent *out, unsigned flags)
{
    CUcontext ctx = drv_current();
    CUevent e;
    if (!out || flags & ~7u || (flags & 4 && !(flags & CU_EVENT_DISABLE_TIMING)))
        return CUDA_ERROR_INVALID_VALUE;
    if (!(e = calloc(1, sizeof *e)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *e = (struct CUevent_st){.magic = MAGIC_EVENT, .ctx = ctx, .flags = flags, .next = ctx->events};
    *out = ctx->events = e;
    return CUDA_SUCCESS;
}
API(cuEventCreate, NEED_CTX, (CUevent * event, unsigned flags), event_create(event, flags))

static void event_clear(CUevent e)
{
    drv_unref(e->op);
    drv_capture_unref(e->capture);
    drv_nodes_free(&e->tips);
    e->op = NULL;
    e->capture = NULL;
}

void drv_event_drop(CUevent e)
{
    UNLINK(e->ctx->events, e);
    event_clear(e);
    e->magic = 0;
    free(e);
}

static CUresult event_destroy(CUevent e)
{
    if (!IS(e, EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    drv_event_drop(e);
    return CUDA_SUCCESS;
}
API(cuEventDestroy_v2, NEED_CTX, (CUevent event), event_destroy(event))

static CUresult record(CUevent e, CUstream handle, unsigned flags)
{
    CUstream s;
    CUresult r = drv_stream(handle, &s);
    if (r || !IS(e, EVENT) || e->ctx != s->ctx)
        return r ? r : CUDA_ERROR_INVALID_HANDLE;
    if (flags & ~1u)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->capture) {
        if (s->capture->broken)
            return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        if (flags & CU_EVENT_RECORD_EXTERNAL)
            return CUDA_ERROR_NOT_SUPPORTED;
        event_clear(e);
        e->capture = s->capture;
        e->capture->refs++;
        return drv_nodes_set(&e->tips, &s->tips) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct drv_work w = {.kind = WORK_MARK};
    r = drv_enqueue(s, &w, false);
    if (r)
        return r;
    event_clear(e);
    e->op = s->last;
    e->op->refs++;
    return CUDA_SUCCESS;
}
API(cuEventRecord, NEED_CTX, (CUevent event, CUstream stream), record(event, stream, 0))
API(cuEventRecordWithFlags, NEED_CTX, (CUevent event, CUstream stream, unsigned flags), record(event, stream, flags))

static CUresult captured(CUevent e)
{
    e->capture->broken = true;
    return CUDA_ERROR_CAPTURED_EVENT;
}

static CUresult event_query(CUevent e)
{
    return !IS(e, EVENT) ? CUDA_ERROR_INVALID_HANDLE : e->capture ? captured(e) : ask(e->op, e->ctx);
}
API(cuEventQuery, NEED_CTX, (CUevent event), event_query(event))

static CUresult event_wait(CUevent e)
{
    if (!IS(e, EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    if (e->capture)
        return captured(e);
    CUcontext ctx = e->ctx;
    CUresult r = drv_wait(e->op);
    return r ? r : ctx->sticky;
}
API(cuEventSynchronize, NEED_CTX | WAITS, (CUevent event), event_wait(event))

static CUresult elapsed(float *ms, CUevent a, CUevent b)
{
    if (!ms || !IS(a, EVENT) || !IS(b, EVENT))
        return ms ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    if (a->capture || b->capture)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (!a->op || !b->op || (a->flags | b->flags) & CU_EVENT_DISABLE_TIMING)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!a->op->done || !b->op->done)
        return CUDA_ERROR_NOT_READY;
    struct drv_op *x = a->op, *y = b->op;
    drv_time(x);
    drv_time(y);
    *ms = (float)((y->end - x->end) * 1e3);
    return CUDA_SUCCESS;
}
static CUresult times(CUevent e, double *start, double *end)
{
    if (!start || !end || !IS(e, EVENT) || !e->op)
        return IS(e, EVENT) && e->op ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    if (!e->op->done)
        return CUDA_ERROR_NOT_READY;
    drv_time(e->op);
    *start = e->op->before[0];
    *end = e->op->before[1];
    return CUDA_SUCCESS;
}
static CUresult bound(CUevent e, const char **to)
{
    double start, end;
    CUresult r = to ? times(e, &start, &end) : CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *to = e->op->bound;
    return r;
}
API(ptx_driver_bound, NEED_CTX, (CUevent e, const char **to), bound(e, to))
API(ptx_driver_times, NEED_CTX, (CUevent e, double *start, double *end), times(e, start, end))

API(cuEventElapsedTime, NEED_CTX, (float *ms, CUevent a, CUevent b), elapsed(ms, a, b))
API(cuEventElapsedTime_v2, NEED_CTX, (float *ms, CUevent a, CUevent b), elapsed(ms, a, b))

/* A stream that waits for an event of a capture joins it. */
static CUresult wait_captured(CUstream s, CUevent e)
{
    struct drv_capture *c = e->capture;
    if (c->broken || c->over)
        return c->over ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (s->legacy)
        return drv_capture_breaks(c, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    if (s->capture && s->capture != c) {
        s->capture->broken = true;
        return drv_capture_breaks(c, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    if (!s->capture) {
        s->capture = c;
        c->refs++;
    }
    for (int k = 0; k < e->tips.n; k++)
        if (!drv_nodes_add(&s->tips, e->tips.at[k]))
            return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

static CUresult wait_event(CUstream handle, CUevent e, unsigned flags)
{
    CUstream s;
    struct drv_deps deps = {0};
    CUresult r = drv_stream(handle, &s);
    if (r || !IS(e, EVENT))
        return r ? r : CUDA_ERROR_INVALID_HANDLE;
    if (flags & ~1u)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->capture && s->capture->broken)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (e->capture)
        return wait_captured(s, e);
    if (!e->op)
        return CUDA_SUCCESS;
    if (s->capture)
        return drv_capture_breaks(s->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    if (s->legacy && drv_ties_capture(s->ctx))
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    struct drv_work w = {.kind = WORK_MARK};
    r = stream_deps(s, &deps);
    r = r ? r : drv_dep(&deps, e->op);
    return r ? r : push(s, &deps, &w);
}
API(cuStreamWaitEvent, NEED_CTX, (CUstream stream, CUevent event, unsigned flags), wait_event(stream, event, flags))

static CUresult host_func(CUstream handle, CUhostFn fn, void *data)
{
    CUstream s;
    CUresult r = drv_stream(handle, &s);
    struct drv_work w = {.kind = WORK_HOST, .fn = fn, .data = data};
    return r ? r : fn ? drv_enqueue(s, &w, false) : CUDA_ERROR_INVALID_VALUE;
}
API(cuLaunchHostFunc, NEED_CTX, (CUstream stream, CUhostFn fn, void *data), host_func(stream, fn, data))

static CUresult outside(CUstream handle, const struct ptx_outside_work *given)
{
    CUstream s;
    CUresult r = drv_stream(handle, &s);
    struct drv_work w = {.kind = WORK_OUTSIDE};
    if (r || !given || !given->poll || !given->time || !given->drop)
        return r ? r : CUDA_ERROR_INVALID_VALUE;
    if (s->capture)
        return drv_capture_breaks(s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    w.outside = *given;
    w.outside.drop = NULL; /* the caller's, until the work is taken */
    r = drv_enqueue(s, &w, false);
    if (!r)
        s->last->work.outside.drop = given->drop;
    return r;
}
API(ptx_driver_outside, NEED_CTX, (CUstream stream, const struct ptx_outside_work *w), outside(stream, w))
