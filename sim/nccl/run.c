/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An operation in the simulator's queue. When it begins it reads all that it gives; then its bytes go through the pipes
 * between the ranks as far as there is room; when all have come it writes its results. A communicator's operations run
 * one behind the other, whatever their streams.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/nccl/nccl_int.h"

struct header {
    uint64_t bytes;
    int32_t kind, type;
};

/* -- Beginning -- */

static char *room(size_t bytes)
{
    return malloc(bytes + 1);
}

static bool flow(struct fake_op *op, const struct fake_item *i, bool out, int peer, char *data, size_t bytes)
{
    struct fake_flow *f = calloc(1, sizeof *f);
    if (!f || !data) {
        free(f);
        return false;
    }
    *f = (struct fake_flow){.peer = peer, .out = out, .bytes = bytes, .data = data, .type = i->type};
    f->kind = i->kind == FAKE_RECV ? FAKE_SEND : i->kind;
    *op->last_flow = f;
    op->last_flow = &f->next;
    return true;
}

/* Between this rank and another: what the one gives the other. */
static bool flows_with(struct fake_op *op, struct fake_item *i, int peer)
{
    size_t n = i->n * fake_bytes(i->type);
    int me = op->comm->rank;
    bool gives = true, gets = true;
    char *from = i->mine;
    if (i->kind == FAKE_REDUCE) {
        gives = peer == i->root;
        gets = me == i->root;
    } else if (i->kind == FAKE_BROADCAST) {
        gives = me == i->root;
        gets = peer == i->root;
    } else if (i->kind == FAKE_REDUCE_SCATTER) {
        from += (size_t)peer * n;
    }
    if (gets && !(i->theirs[peer] = room(n)))
        return false;
    return (!gives || flow(op, i, true, peer, from, n)) && (!gets || flow(op, i, false, peer, i->theirs[peer], n));
}

static enum sim_outside begin_item(struct fake_op *op, struct fake_item *i)
{
    struct ncclComm *c = op->comm;
    size_t n = i->n * fake_bytes(i->type), given = i->kind == FAKE_REDUCE_SCATTER ? n * (size_t)c->size : n;
    bool reads = i->kind != FAKE_RECV && (i->kind != FAKE_BROADCAST || c->rank == i->root);
    i->mine = room(given);
    i->theirs = calloc((size_t)c->size, sizeof *i->theirs);
    if (!i->mine || !i->theirs) {
        fake_fail(c, ncclSystemError, true, "no memory");
        return SIM_DONE;
    }
    i->theirs[c->rank] = i->mine;
    if (reads && !ptx_driver_read(i->mine, i->in, given)) {
        fake_fail(c, ncclUnhandledCudaError, true, "%s of rank %d reads what is not memory of a device",
                  fake_name(i->kind), c->rank);
        return SIM_ILLEGAL;
    }
    bool fine = true;
    for (int k = 1; k < c->size && fine && fake_collective(i->kind); k++)
        fine = flows_with(op, i, (c->rank + k) % c->size);
    if (!fake_collective(i->kind))
        fine = flow(op, i, i->kind == FAKE_SEND, i->root, i->mine, n);
    if (!fine)
        fake_fail(c, ncclSystemError, true, "no memory");
    return SIM_PENDING;
}

/* -- Pipes -- */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t put(struct fake_pipe *p, const char *from, size_t n)
{
    uint64_t written = atomic_load(&p->written);
    size_t done = least(n, FAKE_PIPE - (size_t)(written - atomic_load(&p->taken)));
    size_t at = (size_t)written % FAKE_PIPE, part = least(done, FAKE_PIPE - at);
    if (!done) /* of nothing there is no address */
        return 0;
    memcpy(p->data + at, from, part);
    memcpy(p->data, from + part, done - part);
    atomic_store(&p->written, written + done);
    return done;
}

static size_t take(struct fake_pipe *p, char *to, size_t n)
{
    uint64_t taken = atomic_load(&p->taken);
    size_t done = least(n, (size_t)(atomic_load(&p->written) - taken));
    size_t at = (size_t)taken % FAKE_PIPE, part = least(done, FAKE_PIPE - at);
    if (!done)
        return 0;
    memcpy(to, p->data + at, part);
    memcpy(to + part, p->data, done - part);
    atomic_store(&p->taken, taken + done);
    return done;
}

static void push(struct ncclComm *c, struct fake_flow *f)
{
    struct fake_pipe *p = fake_pipe_of(c, c->rank, f->peer);
    struct header h = {f->bytes, f->kind, f->type};
    if (!f->headed && FAKE_PIPE - (size_t)(atomic_load(&p->written) - atomic_load(&p->taken)) < sizeof h)
        return;
    if (!f->headed)
        put(p, (const char *)&h, sizeof h);
    f->headed = true;
    f->at += put(p, f->data + f->at, f->bytes - f->at);
    f->over = f->at == f->bytes;
}

static void pull(struct ncclComm *c, struct fake_flow *f)
{
    struct fake_pipe *p = fake_pipe_of(c, f->peer, c->rank);
    struct header h;
    if (!f->headed) {
        if (atomic_load(&p->written) - atomic_load(&p->taken) < sizeof h)
            return;
        take(p, (char *)&h, sizeof h);
        f->headed = true;
        if (h.bytes != f->bytes || h.kind != f->kind || h.type != f->type) {
            fake_fail(
                c, ncclInvalidUsage, true,
                "rank %d expects %s of %llu bytes of type %d from rank %d, which gives it %s of %llu bytes of type %d",
                c->rank, fake_name(f->kind), (unsigned long long)f->bytes, f->type, f->peer, fake_name(h.kind),
                (unsigned long long)h.bytes, h.type);
            return;
        }
    }
    f->at += take(p, f->data + f->at, f->bytes - f->at);
    f->over = f->at == f->bytes;
}

/* As far as they go; those to or from one rank one behind the other. All over? */
static bool move(struct fake_op *op)
{
    uint64_t busy[2] = {0, 0};
    bool all = true;
    for (struct fake_flow *f = op->flows; f && !op->comm->error; f = f->next) {
        uint64_t bit = (uint64_t)1 << f->peer;
        if (!f->over && !(busy[f->out] & bit))
            (f->out ? push : pull)(op->comm, f);
        if (!f->over)
            busy[f->out] |= bit;
        all &= f->over;
    }
    return all;
}

/* -- Results -- */

static bool write_reduced(struct ncclComm *c, const struct fake_item *i)
{
    size_t size = fake_bytes(i->type), slice = (i->n + (size_t)c->size - 1) / (size_t)c->size;
    int how = i->op >= ncclNumOps ? -1 : i->op;
    char *out = room(i->n * size);
    bool fine = out != NULL;
    if (i->kind == FAKE_REDUCE_SCATTER && fine) /* theirs: each rank's contribution to this one's part */
        memmove(i->mine, i->mine + (size_t)c->rank * i->n * size, i->n * size);
    for (int k = 0; k < c->size && fine; k++) { /* slice k ends at rank k */
        size_t at = least((size_t)k * slice, i->n), n = least(slice, i->n - at);
        int owner = i->kind == FAKE_ALL_REDUCE ? k : i->kind == FAKE_REDUCE ? i->root : c->rank;
        fake_reduce(i->type, how, i->factor, c->size, (owner + 1) % c->size, i->theirs, at, n, out + at * size);
    }
    fine = fine && ptx_driver_write(i->out, out, i->n * size);
    free(out);
    return fine;
}

static bool write_item(struct ncclComm *c, const struct fake_item *i)
{
    size_t bytes = i->n * fake_bytes(i->type);
    switch (i->kind) {
    case FAKE_SEND: return true;
    case FAKE_RECV: return ptx_driver_write(i->out, i->mine, bytes);
    case FAKE_BROADCAST: return ptx_driver_write(i->out, i->theirs[i->root], bytes);
    case FAKE_REDUCE: return c->rank != i->root || write_reduced(c, i);
    case FAKE_ALL_GATHER:
        for (int k = 0; k < c->size; k++)
            if (!ptx_driver_write(i->out + (uint64_t)k * bytes, i->theirs[k], bytes))
                return false;
        return true;
    default: return write_reduced(c, i);
    }
}

/* -- What the driver asks -- */

static enum sim_outside over(struct fake_op *op, enum sim_outside how)
{
    struct ncclComm *c = op->comm;
    op->done = true;
    while (c->first && c->first->done) {
        struct fake_op *first = c->first;
        c->first = first->next;
        if (!c->first)
            c->last = NULL;
        for (int k = 0; k < first->nitems; k++)
            if (fake_collective(first->items[k].kind))
                atomic_fetch_add(&c->shared->ranks[c->rank].done, 1);
        fake_op_unref(first);
    }
    return how;
}

static enum sim_outside begin(struct fake_op *op)
{
    op->started = true;
    op->last_flow = &op->flows;
    for (int k = 0; k < op->nitems && !op->comm->error; k++)
        if (begin_item(op, &op->items[k]) == SIM_ILLEGAL)
            return SIM_ILLEGAL;
    return SIM_PENDING;
}

static enum sim_outside poll_locked(struct fake_op *op)
{
    struct ncclComm *c = op->comm;
    if (!op->since)
        op->since = fake_seconds();
    for (int k = 0; k < op->nitems && !c->aborted && !c->error; k++)
        if (fake_collective(op->items[k].kind))
            fake_compare(c, &op->items[k]);
    if (!c->error && atomic_load(&c->shared->failed))
        fake_fail(c, ncclRemoteError, false, "%s", c->shared->why);
    if (!c->error && fake_seconds() - op->since > fake_patience())
        fake_fail(c, ncclSystemError, true, "%s of rank %d: not all ranks took part within %g s",
                  fake_name(op->items[0].kind), c->rank, fake_patience());
    if (c->aborted || c->error)
        return over(op, SIM_DONE);
    if (c->first != op)
        return SIM_PENDING;
    if (!op->started && begin(op) == SIM_ILLEGAL)
        return over(op, SIM_ILLEGAL);
    if (c->error || !move(op))
        return SIM_PENDING;
    for (int k = 0; k < op->nitems; k++)
        if (!write_item(c, &op->items[k])) {
            fake_fail(c, ncclUnhandledCudaError, true, "%s of rank %d writes what is not memory of a device",
                      fake_name(op->items[k].kind), c->rank);
            return over(op, SIM_ILLEGAL);
        }
    return over(op, SIM_DONE);
}

enum sim_outside fake_poll(void *data)
{
    pthread_mutex_lock(&fake.lock);
    enum sim_outside r = poll_locked(data);
    pthread_mutex_unlock(&fake.lock);
    return r;
}

/* A collective goes on from when its last rank could begin; messages from when this rank could. */
static bool last_start(struct ncclComm *c, const struct fake_item *i, double *start)
{
    struct fake_row *mine = &c->shared->ranks[c->rank].rows[i->number % FAKE_RING];
    mine->start = *start;
    atomic_store(&mine->timed, i->number + 1);
    for (int k = 0; k < c->size; k++) {
        struct fake_row *r = &c->shared->ranks[k].rows[i->number % FAKE_RING];
        if (atomic_load(&r->timed) < i->number + 1)
            return c->aborted || c->error || atomic_load(&c->shared->ranks[k].here) == 2;
        *start = r->start > *start ? r->start : *start;
    }
    return true;
}

bool fake_time(void *data, double start, double *end)
{
    static const enum sim_exchange kinds[] = {SIM_ALL_REDUCE,     SIM_REDUCE, SIM_BROADCAST, SIM_ALL_GATHER,
                                              SIM_REDUCE_SCATTER, SIM_SEND,   SIM_SEND};
    struct fake_op *op = data;
    struct ncclComm *c = op->comm;
    double bytes[FAKE_RECV + 1] = {0};
    *end = 0;
    for (int k = 0; k < op->nitems; k++) {
        const struct fake_item *i = &op->items[k];
        int ranks = i->kind == FAKE_ALL_GATHER || i->kind == FAKE_REDUCE_SCATTER ? c->size : 1;
        if (fake_collective(i->kind) && c->size > 1 && !last_start(c, i, &start))
            return false;
        bytes[i->kind] += (double)(i->n * fake_bytes(i->type)) * ranks;
    }
    for (int kind = 0; kind <= FAKE_RECV;
         kind++) /* a group's are one launch: those of a kind are as one, different ones together */
        if (bytes[kind] > 0) {
            double one = sim_exchange_seconds(ptx_driver_machine(), kinds[kind],
                                              fake_collective((enum fake_kind)kind) ? c->size : 2, bytes[kind]);
            *end = one > *end ? one : *end;
        }
    *end += start;
    return true;
}

void fake_drop(void *data)
{
    pthread_mutex_lock(&fake.lock);
    fake_op_unref(data);
    pthread_mutex_unlock(&fake.lock);
}
