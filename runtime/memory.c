/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a session by the plan's memories: 0 is the host's, others are the device's. Where the device's memory is
 * the host's (struct tcr_device, shared) they are one, and nothing here costs anything. Where it is not, the host waits
 * before it looks at what the device has made; what it reads or writes of the device's goes through blocks of its own
 * (views); and memory of the host that a copy under way may still read is kept until the host has waited for all
 * (held).
 */
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "runtime/rt_int.h"

void *tcr_alloc(struct tccrt_session *s, uint32_t memory, size_t bytes)
{
    struct tcr_device *d = tcr_device_of(s, memory);

    return d->ops->alloc(d, memory ? s->queue : 0, bytes, false);
}

void tcr_free(struct tccrt_session *s, uint32_t memory, void *p, size_t bytes)
{
    struct tcr_device *d = tcr_device_of(s, memory);

    if (p && s->discrete && !memory)
        tcr_hold(s, (struct tcr_held){.data = p, .bytes = bytes});
    else
        d->ops->free(d, memory ? s->queue : 0, p, bytes, false);
}

/* Makes the host's block *(void **)pp at least `bytes` long; its contents are lost if it moves. */
int tcr_grow(struct tccrt_session *s, uint32_t memory, void *pp, size_t *held, size_t bytes)
{
    void **at = pp;

    if (*at && (s->guard ? *held == bytes : *held >= bytes))
        return TCC_OK;
    tcr_free(s, memory, *at, *held);
    *held = 0;
    *at = tcr_alloc(s, memory, bytes);
    if (!*at)
        return TCC_EENV;
    *held = bytes;
    return TCC_OK;
}

/* -- Copies -------------------------------------------------------------------------------------------- */

int tcr_copy(struct tccrt_session *s, uint32_t to_memory, void *to, uint32_t from_memory, const void *from,
             size_t bytes, const char *node)
{
    static const enum tcr_copy_kind kinds[2][2] = {{TCR_WITHIN, TCR_TO_DEVICE}, {TCR_TO_HOST, TCR_WITHIN}};
    struct tcr_copy c = {.kind = kinds[from_memory != 0][to_memory != 0],
                         .to = to,
                         .from = from,
                         .bytes = bytes,
                         .node = node,
                         .carried = s->carries,
                         .guarded = s->writes_state};
    struct tcr_device *d = tcr_device_of(s, from_memory | to_memory);

    if (s->discrete && !(from_memory | to_memory)) {
        int status = tcr_touch(s, from, bytes, TCC_READS, node);

        if (status || (status = tcr_touch(s, to, bytes, TCC_WRITES, node)))
            return status;
    }
    return d->ops->copy(d, s->queue, &c);
}

int tcr_download(struct tccrt_session *s, void *to, const void *from, size_t bytes)
{
    int status = tcr_copy(s, 0, to, 1, from, bytes, "");

    return status || !s->discrete ? status : tcr_sync(s);
}

/* -- Waiting ------------------------------------------------------------------------------------------- */

int tcr_hold(struct tccrt_session *s, struct tcr_held what)
{
    if (!GROWN(s->held, s->nheld, s->held_room, 16)) { /* then there is no later */
        int status = tcr_sync_event(s, TCR_ALL);

        tcr_heap_free(&s->heap, what.data, what.bytes);
        tccrt_object_unref(what.object);
        return status;
    }
    s->held[s->nheld++] = what;
    return TCC_OK;
}

int tcr_sync_event(struct tccrt_session *s, uint32_t event)
{
    double start = s->profile ? tcr_now() : 0;
    int status = tcr_peers_settle(s), synced = s->device->ops->sync(s->device, event);

    status = status ? status : synced;

    if (s->profile && s->discrete)
        tcr_profile_waited(s, tcr_now() - start);
    return status;
}

int tcr_sync(struct tccrt_session *s)
{
    int status = tcr_sync_event(s, TCR_ALL);

    for (size_t i = 0; i < s->nheld; i++) {
        s->host->ops->free(s->host, 0, s->held[i].data, s->held[i].bytes, false);
        tccrt_object_unref(s->held[i].object);
    }
    s->nheld = 0;
    return status;
}

int tcr_join(struct tccrt_session *s)
{
    const struct tcr_device_ops *o = s->device->ops;
    uint32_t queues = s->ordered ? s->max_queues : 0, event = s->nevents; /* behind those of the plan's steps */
    int status = TCC_OK;

    for (uint32_t q = 1; q < queues && !status; q++)
        if (s->m->queues[q].memory && !(status = o->record(s->device, (int)q, event + q)))
            status = o->wait(s->device, 0, event + q);
    if (queues > 1 && !status)
        status = o->record(s->device, 0, event);
    for (uint32_t q = 1; q < queues && !status; q++)
        if (s->m->queues[q].memory)
            status = o->wait(s->device, (int)q, event);
    return status;
}

int tcr_touch(struct tccrt_session *s, const void *at, size_t bytes, unsigned how, const char *node)
{
    struct tcr_access a = {at, bytes, how};

    return s->device->ops->touch && bytes ? s->device->ops->touch(s->device, &a, node) : TCC_OK;
}

/* -- Views --------------------------------------------------------------------------------------------- */

static int add_view(struct tccrt_session *s, struct tcr_view v)
{
    if (!GROWN(s->views, s->nviews, s->views_room, 8))
        return tcr_fail(TCC_EENV, "no memory for a list of tensors");
    s->views[s->nviews++] = v;
    return TCC_OK;
}

int tcr_view(struct tccrt_session *s, uint32_t b, const char *node, unsigned how, void **data, size_t bytes)
{
    struct tcr_view v = {.device = *data,
                         .bytes = bytes,
                         .writes = how & TCC_WRITES,
                         .state = tcr_is_state(s, b),
                         .carried = s->carries};
    int status;

    if (!s->discrete || !bytes)
        return TCC_OK;
    if (!tcr_memory(s, b))
        return tcr_touch(s, *data, bytes, how, node);
    for (size_t i = s->nviews; i-- > s->first_view && !s->views[i].until;) /* the step has one of it: in place */
        if (s->views[i].device == v.device && s->views[i].bytes == bytes) {
            s->views[i].writes |= v.writes;
            *data = s->views[i].host;
            return TCC_OK;
        }
    if (!(v.host = s->host->ops->alloc(s->host, 0, bytes, false)))
        return TCC_EENV;
    if ((status = add_view(s, v))) {
        s->host->ops->free(s->host, 0, v.host, bytes, false);
        return status;
    }
    *data = v.host;
    /* What it writes of a part, too. */
    return tcr_download(s, v.host, v.device, bytes);
}

int tcr_views_end(struct tccrt_session *s, size_t first, int status)
{
    size_t n = first;

    if (first >= s->nviews) /* none, or tcr_views_done() has ended more than these */
        return status;
    for (size_t i = first; i < s->nviews; i++) {
        struct tcr_view v = s->views[i];

        if (v.until) {
            s->views[n++] = v;
            continue;
        }
        s->writes_state = v.state; /* not behind a bad index, then */
        s->carries = v.carried;
        if (v.writes && !status)
            status = tcr_copy(s, 1, v.device, 0, v.host, v.bytes, "");
        s->writes_state = s->carries = false;
        tcr_hold(s, (struct tcr_held){.data = v.host, .bytes = v.bytes});
    }
    s->nviews = n;
    return status;
}

void tcr_views_until(struct tccrt_session *s, size_t first, uint32_t queue)
{
    for (size_t i = first; i < s->nviews; i++)
        s->views[i].until = queue;
}

int tcr_views_done(struct tccrt_session *s, uint32_t queue, int status)
{
    for (size_t i = 0; i < s->nviews; i++)
        if (queue == TCC_NO || s->views[i].until == queue)
            s->views[i].until = 0;
    return tcr_views_end(s, 0, status);
}

/* -- State --------------------------------------------------------------------------------------------- */

/* The memory that state variable i lies in: the plan may have left it with the host. */
static uint32_t state_memory(const struct tccrt_session *s, const struct tcc_pstate *p)
{
    return s->discrete && (!s->placed || p->memory);
}

bool tcr_pins(const struct tccrt_session *s)
{
    return s->discrete && s->placed && s->m->memories[0].flags & TCC_MEMORY_PINNED && s->device->ops->host_alloc;
}

bool tcr_state_stays(const struct tccrt_session *s, uint32_t i)
{
    return s->discrete && !state_memory(s, &s->m->states[i]);
}

/* A state variable's memory, with its first value. */
/* The first value, or the session's part of it. The copy to a device has been made when a part's memory goes. */
static int upload_first_value(struct tccrt_session *s, const struct tcc_pstate *p, void *at)
{
    void *part;
    int status;

    if (!p->shard.axis)
        return tcr_copy(s, state_memory(s, p), at, 0, s->m->weights + p->init, p->bytes, "");
    if (!(part = malloc(p->bytes + 1)))
        return tcr_fail(TCC_EENV, "no memory for '%s'", tcr_string(s->m, p->name));
    tcr_take_part(s->m, p, s->tensor - 1, s->m->weights + p->init, part);
    status = tcr_copy(s, state_memory(s, p), at, 0, part, p->bytes, "");
    if (!status && s->discrete)
        status = tcr_sync(s);
    free(part);
    return status;
}

void *tcr_state_alloc(struct tccrt_session *s, const struct tcc_pstate *p)
{
    bool zeros = p->init == ~(uint64_t)0;
    struct tcr_device *d = tcr_device_of(s, state_memory(s, p));
    bool pinned = d == s->host && tcr_pins(s);
    void *at = pinned ? s->device->ops->host_alloc(s->device, p->bytes) : d->ops->alloc(d, 0, p->bytes, zeros);
    int64_t rank = s->tensor - 1;
    int status = TCC_OK;

    if (at && !zeros)
        status = upload_first_value(s, p, at);
    else if (at && p->flags & TCCRT_STATE_LOCAL && p->bytes == sizeof rank && s->tensor) /* its number */
        status = tcr_copy(s, state_memory(s, p), at, 0, &rank, sizeof rank, "");
    if (!status && at && p->flags & TCCRT_STATE_LOCAL && s->discrete)
        status = tcr_sync(s);
    if (status) {
        tcr_state_free(s, p, at);
        return NULL;
    }
    return at;
}

void tcr_state_free(struct tccrt_session *s, const struct tcc_pstate *p, void *at)
{
    struct tcr_device *d = tcr_device_of(s, state_memory(s, p));

    if (s->discrete && d == s->host && at) /* a copy under way may read or write it */
        tcr_sync(s);
    if (d == s->host && tcr_pins(s))
        s->device->ops->host_free(s->device, at, p->bytes);
    else
        d->ops->free(d, 0, at, p->bytes, p->init == ~(uint64_t)0);
}

int tcr_state_read(struct tccrt_session *s, uint32_t i, size_t first, size_t bytes, void *to)
{
    int status = tcr_settle(s);

    if (!status && !s->states[i]) {
        if (!tcr_has_state(s, i))
            return tcr_state_absent(s, i);
        memcpy(to, (const char *)s->mirrors[i] + first, bytes);
        return TCC_OK;
    }
    if (!status && bytes && tcr_state_stays(s, i) && !(status = tcr_sync(s))) {
        memcpy(to, (const char *)s->states[i] + first, bytes);
        return TCC_OK;
    }
    return status || !bytes ? status : tcr_download(s, to, (const char *)s->states[i] + first, bytes);
}

int tcr_state_write(struct tccrt_session *s, uint32_t i, const void *from)
{
    size_t bytes = s->m->states[i].bytes;
    int status = tcr_settle(s);
    void *mirror;

    status = status ? status : tcr_state_make(s, i);
    if (!status && tcr_is_elsewhere(s, i) && !s->states[i]) {
        if (!(status = tcr_mirror(s, i, &mirror)))
            memcpy(mirror, from, bytes);
        return status;
    }
    if (!status && bytes && tcr_state_stays(s, i))
        status = tcr_sync(s); /* what is under way may read it */
    if (!status)
        status = bytes ? tcr_copy(s, state_memory(s, &s->m->states[i]), s->states[i], 0, from, bytes, "") : TCC_OK;

    return status || !s->discrete ? status : tcr_sync(s);
}

int tcr_state_zero(struct tccrt_session *s, uint32_t i)
{
    int status = tcr_settle(s);
    void *mirror;

    if (status)
        return status;
    if (tcr_is_elsewhere(s, i) && !s->states[i]) {
        if (!(status = tcr_mirror(s, i, &mirror)))
            memset(mirror, 0, s->m->states[i].bytes);
        return status;
    }
    if (!s->states[i]) /* it has none yet, and begins with zeros */
        return TCC_OK;
    if (tcr_state_stays(s, i)) {
        if (!(status = tcr_sync(s)))
            memset(s->states[i], 0, s->m->states[i].bytes);
        return status;
    }
    return s->m->states[i].bytes ? s->device->ops->fill(s->device, 0, s->states[i], 0, s->m->states[i].bytes) : TCC_OK;
}

int tcr_state_on_host(struct tccrt_session *s, uint32_t i, void **room, const void **out)
{
    size_t bytes = s->m->states[i].bytes;

    *out = s->states[i];
    if (!s->states[i] && tcr_is_elsewhere(s, i)) {
        *out = s->mirrors[i];
        return *out ? TCC_OK : tcr_state_absent(s, i);
    }
    if (!s->discrete || !s->states[i])
        return TCC_OK;
    if (!*room && !(*room = malloc(bytes + 1)))
        return tcr_fail(TCC_EENV, "no memory for '%s'", tcr_string(s->m, s->m->states[i].name));
    *out = *room;
    return tcr_state_read(s, i, 0, bytes, *room);
}
