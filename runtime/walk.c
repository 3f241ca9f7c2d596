/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan walker: runs a list of steps in order, one function per kind of step. Control flow and sequences are in
 * control.c, launches in launch.c, library calls in lib.c. Lists of stages, which stop in their middle, are stages.c's.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm_int.h"

#include "base/mutant.h"

/* -- Copies between buffers and objects ------------------------------------------------------------------- */

static int box(struct tccrt_session *s, uint32_t from, uint32_t to, const char *node)
{
    struct tcc_object head, *o;
    struct tcc_tensor t;
    int status = tcr_host_tensor(s, from, node, TCC_READS, &t);

    if (status)
        return status;
    tcr_object_borrow(&head, &t);
    o = tccrt_object_ref(&head);
    if (!o)
        return tcr_fail(TCC_EENV, "node '%s': no memory for '%s'", node, tcr_buffer_name(s, to));
    tcr_slot_set(s, &s->slots[s->m->slot_of[to]], o);
    return TCC_OK;
}

static int unbox(struct tccrt_session *s, uint32_t from, uint32_t to, const char *node)
{
    const struct tcc_pbuffer *p = &s->m->buffers[to];
    struct tcc_object *o = s->slots[s->m->slot_of[from]].object;
    struct tcc_tensor t;
    char want[256], found[256];
    int64_t bytes;
    int status;

    if (!o || o->kind != TCC_OBJ_TENSOR)
        return tcr_fail(TCC_EINPUT, "node '%s': expected a tensor, got a sequence or nothing", node);
    if (o->t.dtype != (int)p->dtype || o->t.rank != (int)p->rank)
        return tcr_fail(TCC_EINPUT, "node '%s': expected a result of dtype %s and rank %u, got %s and rank %d", node,
                        tcr_dtype_name((int)p->dtype), p->rank, tcr_dtype_name(o->t.dtype), o->t.rank);
    bytes = tcr_elements(o->t.dtype, o->t.rank, o->t.dims) * tcr_dtype_bytes(o->t.dtype);
    if ((status = tcr_buffer_tensor(s, to, node, &t)))
        return status;
    if (MUTANT(402, o->t.rank, 0) && memcmp(t.dims, o->t.dims, (size_t)o->t.rank * sizeof *t.dims))
        return tcr_fail(TCC_EINPUT, "node '%s': expected a result of shape %s, got %s", node,
                        tcr_dims_text(want, t.rank, t.dims), tcr_dims_text(found, o->t.rank, o->t.dims));
    if (s->discrete && bytes && (status = tcr_hold(s, (struct tcr_held){.object = tccrt_object_ref(o)})))
        return status;
    return bytes ? tcr_copy(s, tcr_memory(s, to), t.data, 0, o->t.data, (size_t)bytes, node) : TCC_OK;
}

static int share(struct tccrt_session *s, uint32_t from, uint32_t to, const char *node)
{
    struct tcc_object *o = s->slots[s->m->slot_of[from]].object;

    if (!o)
        return tcr_fail(TCC_EBUG, "node '%s': '%s' is used before it is made", node, tcr_buffer_name(s, from));
    o = tccrt_object_ref(o);
    if (!o)
        return tcr_fail(TCC_EENV, "node '%s': no memory for '%s'", node, tcr_buffer_name(s, to));
    tcr_slot_set(s, &s->slots[s->m->slot_of[to]], o);
    return TCC_OK;
}

static int copy_dense(struct tccrt_session *s, uint32_t from, uint32_t to, const char *node)
{
    int64_t bytes, have;
    void *a, *b;
    int status;

    if (tcr_lacks(s, from) || tcr_lacks(s, to)) /* the owner's alone: nobody else looks at it */
        return TCC_OK;
    status = tcr_buffer_bytes(s, from, node, &have);

    if (status || (status = tcr_buffer_bytes(s, to, node, &bytes)) || (status = tcr_address(s, from, node, &a)) ||
        (status = tcr_address(s, to, node, &b)))
        return status;
    if (bytes != have)
        return tcr_fail(TCC_EBUG, "node '%s': copy of %lld bytes ('%s') to %lld ('%s')", node, (long long)have,
                        tcr_buffer_name(s, from), (long long)bytes, tcr_buffer_name(s, to));
    if (!bytes || a == b)
        return TCC_OK;
    s->writes_state = tcr_is_state(s, to);
    status = tcr_copy(s, tcr_memory(s, to), b, tcr_memory(s, from), a, (size_t)bytes, node);
    s->writes_state = false;
    return status;
}

/* Copies between any two buffers; an object is shared. */
int tcr_copy_buffer(struct tccrt_session *s, uint32_t from, uint32_t to, const char *node)
{
    bool a = s->m->buffers[from].space == TCC_SPACE_OBJECT, b = s->m->buffers[to].space == TCC_SPACE_OBJECT;

    return a ? (b ? share : unbox)(s, from, to, node) : (b ? box : copy_dense)(s, from, to, node);
}

/* -- Steps -------------------------------------------------------------------------------------------------- */

static const char *node_of(const struct tccrt_session *s, const struct tcc_pstep *p)
{
    return tcr_string(s->m, p->node);
}

/* COPY, BOX, UNBOX, REF */
static int step_copy(struct tccrt_session *s, const struct tcc_pstep *p)
{
    const uint32_t *a = s->m->u32s + p->args.first;

    return tcr_copy_buffer(s, a[0], a[1], node_of(s, p));
}

static int step_bind(struct tccrt_session *s, const struct tcc_pstep *p)
{
    uint32_t b = s->m->u32s[p->args.first];
    struct tcc_tensor t;
    int status = tcr_host_tensor(s, b, node_of(s, p), TCC_READS, &t);

    if (status)
        return status;
    if (t.dtype != TCC_I64 || tcr_elements(t.dtype, t.rank, t.dims) != p->syms.count)
        return tcr_fail(TCC_EINPUT, "node '%s': '%s' must have %u values", node_of(s, p), tcr_buffer_name(s, b),
                        p->syms.count);
    for (uint32_t i = 0; i < p->syms.count; i++) {
        uint32_t sym = s->m->u32s[p->syms.first + i];

        if (sym != TCC_NO && (status = tcr_bind_sym(s, sym, ((const int64_t *)t.data)[i], node_of(s, p))))
            return status;
    }
    return TCC_OK;
}

static int step_dims(struct tccrt_session *s, const struct tcc_pstep *p)
{
    uint32_t b = s->m->u32s[p->args.first];
    struct tcc_tensor t;
    int status = tcr_buffer_tensor(s, b, node_of(s, p), &t);

    if (status)
        return status;
    if (t.rank != (int)p->syms.count)
        return tcr_fail(TCC_EINPUT, "node '%s': '%s' must have rank %u, got %d", node_of(s, p), tcr_buffer_name(s, b),
                        p->syms.count, t.rank);
    for (uint32_t i = 0; i < p->syms.count; i++) {
        uint32_t sym = s->m->u32s[p->syms.first + i];

        if (sym != TCC_NO && (status = tcr_bind_sym(s, sym, t.dims[i], node_of(s, p))))
            return status;
    }
    return TCC_OK;
}

static int step_eval(struct tccrt_session *s, const struct tcc_pstep *p)
{
    tcr_eval_level(s, p->what);
    return TCC_OK;
}

static int step_alloc(struct tccrt_session *s, const struct tcc_pstep *p)
{
    for (uint32_t i = 0; i < p->args.count; i++) {
        int status = tcr_make_dynamic(s, s->m->u32s[p->args.first + i], node_of(s, p));

        if (status)
            return status;
    }
    return TCC_OK;
}

static int step_free(struct tccrt_session *s, const struct tcc_pstep *p)
{
    for (uint32_t i = 0; i < p->args.count; i++)
        tcr_slot_clear(s, &s->slots[s->m->slot_of[s->m->u32s[p->args.first + i]]]);
    return TCC_OK;
}

static const char *why(const struct tccrt_session *s, const struct tcc_pstep *p)
{
    const struct tcc_pattr *a = p->attrs.count ? &s->m->attrs[p->attrs.first] : NULL;

    return a && a->kind == TCC_ATTR_STRINGS && a->n ? tcr_string(s->m, s->m->u32s[a->data]) : NULL;
}

static int unrelated(struct tccrt_session *s, const struct tcc_pstep *p, const uint32_t *pair, int64_t a, int64_t b)
{
    char *left = tcr_expr_text(s->m, pair[0]), *right = tcr_expr_text(s->m, pair[1]), names[300], text[1024];

    tcr_expr_names(s, pair, 2, names, sizeof names);
    tcr_relation_text(text, sizeof text, p->what, why(s, p), (struct tcc_side){left, a}, (struct tcc_side){right, b},
                      names);
    free(left);
    free(right);
    return tcr_fail(TCC_EINPUT, "node '%s': %s", node_of(s, p), text);
}

/* What a version for some sizes refuses, it refuses in the words of the one for all of them. */
static int refuse(struct tccrt_session *s, const struct tcc_pstep *p, const uint32_t *pair, const int64_t *v)
{
    const struct tcc_pentry *some = s->running, *all = tcr_last_version(s);
    int status = TCC_OK;

    if (MUTANT(400, all != some, false)) {
        s->running = all;
        status = tcr_check_first(s, all);
        s->running = some;
    }
    return status ? status : unrelated(s, p, pair, v[0], v[1]);
}

static int step_check(struct tccrt_session *s, const struct tcc_pstep *p)
{
    for (uint32_t i = 0; i < p->sizes.count; i += 2) {
        const uint32_t *pair = s->m->u32s + p->sizes.first + i;
        int64_t v[2] = {s->values[pair[0]], s->values[pair[1]]};
        int status, first = MUTANT(321, 0, 1);

        for (int k = 0; k < 2; k++)
            if (!TCR_IS_VALUE(v[k]) && (status = tcr_size(s, pair[k], "a size", node_of(s, p), &v[k])))
                return status;
        if (!tcc_related(p->what, v[first], v[1 - first]))
            return refuse(s, p, pair, v);
    }
    return TCC_OK;
}

int tcr_check_first(struct tccrt_session *s, const struct tcc_pentry *e)
{
    int status = TCC_OK;

    for (uint32_t i = 0; i < e->steps.count && !status; i++) {
        const struct tcc_pstep *p = &s->m->steps[e->steps.first + i];

        if (p->kind != TCC_STEP_CHECK)
            break;
        status = step_check(s, p);
    }
    return status;
}

static int (*const step_fns[])(struct tccrt_session *s, const struct tcc_pstep *p) = {
    [TCC_STEP_LAUNCH] = tcr_step_launch,
    [TCC_STEP_COPY] = step_copy,
    [TCC_STEP_LIB] = tcr_step_lib,
    [TCC_STEP_BIND] = step_bind,
    [TCC_STEP_DIMS] = step_dims,
    [TCC_STEP_EVAL] = step_eval,
    [TCC_STEP_ALLOC] = step_alloc,
    [TCC_STEP_FREE] = step_free,
    [TCC_STEP_IF] = tcr_step_if,
    [TCC_STEP_LOOP] = tcr_step_loop,
    [TCC_STEP_BOX] = step_copy,
    [TCC_STEP_UNBOX] = step_copy,
    [TCC_STEP_ACCUM] = tcr_step_accum,
    [TCC_STEP_STACK] = tcr_step_stack,
    [TCC_STEP_CHECK] = step_check,
    [TCC_STEP_REF] = step_copy,
    [TCC_STEP_COLLECTIVE] = tcr_step_collective,
    [TCC_STEP_SEND] = tcr_step_message,
    [TCC_STEP_RECV] = tcr_step_message,
    [TCC_STEP_PROGRAM] = tcr_step_program,
    [TCC_STEP_PARALLEL] = tcr_step_parallel,
    [TCC_STEP_BATCH] = tcr_step_batch,
};

/* Where the device's memory is not the host's, what a step looked at of it goes back. A step of a region has views of
 * its own: what the step around it saw may have been written since. */
static int do_step(struct tccrt_session *s, const struct tcc_pstep *p)
{
    size_t views = s->nviews, outer = s->first_view;
    int status;

    s->first_view = views;
    status = step_fns[p->kind](s, p);
    status = s->discrete ? tcr_views_end(s, views, status) : status;
    s->first_view = outer;
    return status;
}

/* Waits for one step: of communication, which the host itself waits for; of the device, by its event. */
static int await(struct tccrt_session *s, const struct tcc_pstep *p, uint32_t step)
{
    const struct tcr_device_ops *o = s->device->ops;
    uint32_t event = s->ordered ? s->event_of[step] : 0;
    int status = tcr_await(s, step);

    if (status || !event)
        return status;
    return s->m->queues[p->queue].memory ? o->wait(s->device, (int)p->queue, event - 1) : tcr_sync_event(s, event - 1);
}

/* A step of a device's queue is given to that queue. */
static int do_in_queue(struct tccrt_session *s, const struct tcc_pstep *p)
{
    uint32_t event = s->event_of[p - s->m->steps];
    int status;

    s->queue = (int)p->queue;
    status = do_step(s, p);
    s->queue = 0;
    if (s->requests[p->queue]) /* it has only begun: tcr_await() */
        return status;
    return status || !event ? status : s->device->ops->record(s->device, (int)p->queue, event - 1);
}

static int give_step(struct tccrt_session *s, const struct tcc_pstep *p)
{
    int status = TCC_OK;
    double start;

    for (uint32_t i = 0; i < p->waits.count && !status; i++)
        status = await(s, p, s->m->u32s[p->waits.first + i]);
    s->device->tag = (uint32_t)(p - s->m->steps);
    if (!status && s->ordered && s->m->queues[p->queue].memory) {
        if (s->profile)
            tcr_profile_given(s, p);
        return do_in_queue(s, p);
    }
    if (status || !s->profile)
        return status ? status : do_step(s, p);
    start = tcr_now();
    status = do_step(s, p);
    tcr_profile_step(s, p, start, tcr_now());
    return status;
}

static int run_step(struct tccrt_session *s, const struct tcc_pstep *p)
{
    int status;

    if (s->guard)
        tcr_guard_step(s);
    status = give_step(s, p);
    if (s->guard && !status)
        status = tcr_guard_check(s, p);
    return status || !s->observer ? status : tcr_observe_step(s, p);
}

/* Others see that we get on. Threads that run loops at the same time would take the number from each other in each
 * step. */
static void get_on(struct tccrt_session *s)
{
    enum { SELDOM = 1024 };

    if (!s->lane || ++s->lane % SELDOM == 0)
        atomic_fetch_add_explicit(&tcr_work, 1, memory_order_relaxed);
}

int tcr_walk(struct tccrt_session *s, struct tcc_range steps)
{
    const struct tcc_pstep *p = s->m->steps + steps.first, *end = p + steps.count;
    bool whole = s->giving && steps.first == s->running->steps.first && steps.count == s->running->steps.count;
    int status = TCC_OK;

    for (; p < end && !status; p++) {
        status = run_step(s, p);
        get_on(s);
    }
    if (!status && s->max_queues >= 2)
        status = tcr_await_list(s, steps); /* it may give the device copies of what has arrived */
    if (!status && s->max_queues >= 2 && s->ordered && !s->in_program && !whole)
        status = tcr_sync(s);
    if (!status && whole)
        status = tcr_join(s);
    s->device->tag = TCC_NO;
    if (status)
        s->failed_at = (uint32_t)(p - 1 - s->m->steps); /* lists around it say theirs later */
    return status;
}
