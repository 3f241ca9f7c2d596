/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on memory of devices, by a library of the devices' own (NCCL; struct tcr_peers_ops). The engine's messages
 * carry what the ranks begin with, a communicator's name, and watch over it meanwhile: an operation of a device is in
 * the net's list like any other until the device has passed it. So a rank that is gone or hangs is found and named as
 * in any operation; the communicator is then abandoned, and the streams go on.
 *
 * What the library doesn't reduce to the letter, or anything where exact bits are asked for, is gathered by it and
 * reduced by the host in the order of ranks, as between hosts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm_int.h"

/* An operation under way: from `before` on it may wait for others, behind `after` it is over. */
struct device_op {
    struct tcr_mark *before, *after;
    bool began; /* the device has come to it */
};

/* -- Elements that belong to ranks -------------------------------------------------------------------- */

/* A part of what is reduced or exchanged, and the rank that gets it. */
struct part {
    int owner;
    char *in, *out; /* out: of the owner */
    int64_t n;
};

/* reduce_scatter: a part a rank; reduce_owned: a part a tensor. Returns how many; -1: no memory. */
static int parts_of(const struct tcr_coll *c, struct part **out)
{
    bool tensors = c->kind == TCC_REDUCE_OWNED;
    int n = tensors ? c->npieces : c->c->size, owner = 0;
    struct part *p = *out = calloc((size_t)n + 1, sizeof *p);
    int64_t at = 0;

    for (int i = 0; p && i < n; i++) {
        if (!tensors) {
            p[i] = (struct part){i, c->in[0].data + (size_t)c->in_first[i] * c->size, c->out[0].data,
                                 c->in_first[i + 1] - c->in_first[i]};
            continue;
        }
        while (at >= c->in_first[owner + 1] && owner < c->c->size - 1)
            owner++;
        p[i] = (struct part){owner, c->in[i].data, c->out[i].data, c->in[i].n};
        at += c->in[i].n;
    }
    return p ? n : -1;
}

static bool equal_parts(const struct tccrt_comm *c, const int64_t *first)
{
    for (int k = 1; k < c->size; k++)
        if (first[k + 1] - first[k] != first[1] - first[0])
            return false;
    return true;
}

/* -- Lists of items ------------------------------------------------------------------------------------- */

struct items {
    struct tcr_peer_item *at;
    int n;
    char *gathered; /* of the device: what is reduced in order */
    size_t bytes;
};

static bool reduces(int kind)
{
    return kind == TCC_ALL_REDUCE || kind == TCC_REDUCE || kind == TCC_REDUCE_SCATTER || kind == TCC_REDUCE_OWNED;
}

static void add(struct items *l, const struct tcr_coll *c, enum tcr_peer_kind kind, const char *in, char *out,
                int64_t n, int root)
{
    if (n)
        l->at[l->n++] = (struct tcr_peer_item){kind, in, out, n, c->dtype, c->how, c->scale, root};
}

/* In order: all have all; or each owner all of its part. */
static void gather_items(struct items *l, const struct tcr_coll *c, const struct part *parts, int n)
{
    char *at = l->gathered;
    int me = c->c->rank;

    for (int i = 0; !parts && i < c->npieces; at += (size_t)c->in[i].n * c->size * (size_t)c->c->size, i++)
        add(l, c, TCR_PEER_ALL_GATHER, c->in[i].data, at, c->in[i].n, 0);
    for (int i = 0; i < n; i++) {
        if (parts[i].owner != me) {
            add(l, c, TCR_PEER_SEND, parts[i].in, NULL, parts[i].n, parts[i].owner);
            continue;
        }
        for (int k = 0; k < c->c->size; k++, at += (size_t)parts[i].n * c->size) {
            if (k == me)
                add(l, c, TCR_PEER_SEND, parts[i].in, NULL, parts[i].n, me);
            add(l, c, TCR_PEER_RECV, NULL, at, parts[i].n, k);
        }
    }
}

static void reduce_items(struct items *l, const struct tcr_coll *c, const struct part *parts, int n)
{
    for (int i = 0; !parts && i < c->npieces; i++)
        add(l, c, c->kind == TCC_REDUCE ? TCR_PEER_REDUCE : TCR_PEER_ALL_REDUCE, c->in[i].data,
            c->out[i].data ? c->out[i].data : c->in[i].data, c->in[i].n, c->root);
    if (n && c->kind == TCC_REDUCE_SCATTER && equal_parts(c->c, c->in_first)) {
        add(l, c, TCR_PEER_REDUCE_SCATTER, parts[0].in, parts[0].out, parts[0].n, 0);
        return;
    }
    for (int i = 0; i < n; i++)
        add(l, c, TCR_PEER_REDUCE, parts[i].in, parts[i].owner == c->c->rank ? parts[i].out : parts[i].in, parts[i].n,
            parts[i].owner);
}

static void move_items(struct items *l, const struct tcr_coll *c)
{
    const int64_t *give = c->in_first, *get = c->out_first;

    switch (c->kind) {
    case TCC_BROADCAST:
        for (int i = 0; i < c->npieces; i++)
            add(l, c, TCR_PEER_BROADCAST, c->out[i].data, c->out[i].data, c->out[i].n, c->root);
        return;
    case TCC_ALL_GATHER:
        if (equal_parts(c->c, get)) {
            add(l, c, TCR_PEER_ALL_GATHER, c->in[0].data, c->out[0].data, c->in[0].n, 0);
            return;
        }
        for (int k = 0; k < c->c->size; k++)
            add(l, c, TCR_PEER_BROADCAST, c->in[0].data, c->out[0].data + (size_t)get[k] * c->size, get[k + 1] - get[k],
                k);
        return;
    case TCC_ALL_TO_ALL:
        for (int k = 0; k < c->c->size; k++) {
            add(l, c, TCR_PEER_SEND, c->in[0].data + (size_t)give[k] * c->size, NULL, give[k + 1] - give[k], k);
            add(l, c, TCR_PEER_RECV, NULL, c->out[0].data + (size_t)get[k] * c->size, get[k + 1] - get[k], k);
        }
        return;
    case TCR_SEND: add(l, c, TCR_PEER_SEND, c->in[0].data, NULL, c->n, c->root); return;
    default: add(l, c, TCR_PEER_RECV, NULL, c->out[0].data, c->n, c->root);
    }
}

static bool in_order(const struct tcr_coll *c)
{
    return reduces(c->kind) && (c->c->net->exact || !c->device->ops->peers->takes(c->dtype, c->how, c->scale));
}

/* Elements of all ranks that this one gathers. */
static int64_t to_gather(const struct tcr_coll *c, const struct part *parts, int n)
{
    int64_t total = parts ? 0 : c->n;

    for (int i = 0; i < n; i++)
        total += parts[i].owner == c->c->rank ? parts[i].n : 0;
    return total * c->c->size;
}

static int list_items(const struct tcr_coll *c, struct items *l)
{
    struct part *parts = NULL;
    bool owned = c->kind == TCC_REDUCE_SCATTER || c->kind == TCC_REDUCE_OWNED;
    int n = owned ? parts_of(c, &parts) : 0, status = TCC_OK;

    *l = (struct items){0};
    if (n >= 0)
        l->at = calloc((size_t)(n + c->npieces + 2) * (size_t)(c->c->size + 1), sizeof *l->at);
    if (n < 0 || !l->at) {
        free(parts);
        return tcr_fail(TCC_EENV, "no memory for %s", tcr_coll_name(c->kind));
    }
    if (in_order(c)) {
        l->bytes = (size_t)to_gather(c, parts, n) * c->size;
        if (l->bytes && !(l->gathered = c->device->ops->alloc(c->device, c->queue, l->bytes, false)))
            status = TCC_EENV;
        else
            gather_items(l, c, parts, n);
    } else if (reduces(c->kind)) {
        reduce_items(l, c, parts, n);
    } else {
        move_items(l, c);
    }
    free(parts);
    return status;
}

/* -- Reductions in the order of ranks --------------------------------------------------------------------- */

struct ordered {
    int dtype, how, ranks;
    double scale;
    int64_t n;
    size_t stride;
    const void *in[];
};

static void reduce_ordered(void *arg, const void *from, void *to)
{
    struct ordered *o = arg;

    for (int k = 0; k < o->ranks; k++)
        o->in[k] = (const char *)from + (size_t)k * o->stride;
    tcr_reduce(o->dtype, o->how, o->scale, o->ranks, o->in, to, o->n);
}

static int apply_one(const struct tcr_coll *c, int ranks, const char *from, char *to, int64_t n)
{
    struct ordered *o = malloc(sizeof *o + (size_t)ranks * sizeof o->in[0]);
    size_t bytes = (size_t)n * c->size;

    if (!o)
        return tcr_fail(TCC_EENV, "no memory for %s", tcr_coll_name(c->kind));
    *o = (struct ordered){c->dtype, c->how, ranks, c->scale, n, bytes};
    return c->device->ops->peers->apply(
        c->device, c->queue, &(struct tcr_apply){reduce_ordered, o, from, bytes * (size_t)ranks, to, bytes, c->node});
}

/* What was gathered becomes results. */
static int apply_all(const struct tcr_coll *c, const struct items *l)
{
    struct part *parts = NULL;
    bool owned = c->kind == TCC_REDUCE_SCATTER || c->kind == TCC_REDUCE_OWNED;
    int n = owned ? parts_of(c, &parts) : 0, status = n < 0 ? tcr_fail(TCC_EENV, "no memory") : TCC_OK;
    const char *at = l->gathered;

    for (int i = 0; !owned && i < c->npieces && !status; i++) {
        if (c->in[i].n && (c->kind != TCC_REDUCE || c->root == c->c->rank))
            status = apply_one(c, c->c->size, at, c->out[i].data, c->in[i].n);
        at += (size_t)c->in[i].n * c->size * (size_t)c->c->size;
    }
    for (int i = 0; i < n && !status; i++) {
        if (parts[i].owner != c->c->rank || !parts[i].n)
            continue;
        status = apply_one(c, c->c->size, at, parts[i].out, parts[i].n);
        at += (size_t)parts[i].n * c->size * (size_t)c->c->size;
    }
    free(parts);
    return status;
}

/* Behind what the caller's stream was given; or the stream behind it. */
static int order(const struct tcr_coll *c, bool behind)
{
    return c->streamed ? c->device->ops->stream(c->device, c->stream, c->queue, behind) : TCC_OK;
}

int tcr_peers_alone(const struct tcr_coll *c)
{
    int status = order(c, false);

    for (int i = 0; i < c->npieces && !status; i++) {
        const struct tcr_piece *in = &c->in[i], *out = &c->out[i];

        if (!in->n || !out->data || (in->data == out->data && c->scale == 1))
            continue;
        if (reduces(c->kind) && c->scale != 1)
            status = apply_one(c, 1, in->data, out->data, in->n);
        else
            status = tcr_comm_copy(c->device, c->queue, out->data, in->data, (size_t)in->n * c->size);
    }
    return status ? status : order(c, true);
}

int tcr_comm_copy(struct tcr_device *d, int queue, void *to, const void *from, size_t bytes)
{
    if (!bytes || to == from)
        return TCC_OK;
    if (d)
        return d->ops->copy(d, queue, &(struct tcr_copy){TCR_WITHIN, to, from, bytes, .node = "", .carried = true});
    memmove(to, from, bytes);
    return TCC_OK;
}

/* -- An operation under way ------------------------------------------------------------------------------- */

/* A communicator that begins has no marks: it is ready, or not. */
static int join_advance(struct tcr_op *op, bool *moved)
{
    int status = op->c.device->ops->peers->ready(op->c.peers, &op->done);

    *moved |= op->done;
    return status;
}

/* As long as the device has not come to it nobody is waited for, and this rank computes. */
static int device_advance(struct tcr_op *op, bool *moved)
{
    const struct tcr_peers_ops *o = op->c.device->ops->peers;
    struct device_op *d = op->state;
    bool ready;
    int status = o->ready(op->c.peers, &ready);

    if (!status && !d->began && d->before) {
        status = o->passed(d->before, &d->began);
        *moved = true;
        tcr_work++;
    }
    op->awaited = d->began ? op->c.c->ranks[(op->c.c->rank + 1) % op->c.c->size] : -1;
    if (op->c.kind == TCR_SEND || op->c.kind == TCR_RECV)
        op->awaited = d->began ? op->c.c->ranks[op->c.root] : -1;
    if (!status && d->after)
        status = o->passed(d->after, &op->done);
    *moved |= op->done;
    if (status && op->c.node && *op->c.node) {
        char text[400];

        snprintf(text, sizeof text, "%s", tccrt_error());
        tcr_fail(status, "node '%s': %s", op->c.node, text);
    }
    return status;
}

void tcr_peers_end(struct tcr_op *op)
{
    const struct tcr_peers_ops *o = op->c.device->ops->peers;
    struct device_op *d = op->state;

    if (!op->done)
        o->abandon(op->c.peers);
    if (d && d->before)
        o->unmark(d->before);
    if (d && d->after)
        o->unmark(d->after);
}

int tcr_peers_begin(struct tcr_op *op)
{
    bool joins = op->c.kind == TCR_JOIN;

    op->advance = joins ? join_advance : device_advance;
    op->awaited = joins ? op->c.c->ranks[(op->c.c->rank + 1) % op->c.c->size] : -1;
    if (!joins && !(op->state = calloc(1, sizeof(struct device_op))))
        return tcr_fail(TCC_EENV, "no memory for %s", tcr_coll_name(op->c.kind));
    return TCC_OK;
}

/* Until the library has enqueued what it was given: others get on meanwhile, and whoever is missing is found. */
static int wait_ready(struct tcr_op *op)
{
    struct tcr_net *net = op->net;
    bool ready = false;
    int idle = 0, status;

    for (;;) {
        tcr_net_lock(net);
        tcr_net_progress(net);
        if (!(status = tcr_net_status(net)))
            status = op->c.device->ops->peers->ready(op->c.peers, &ready);
        tcr_net_unlock(net);
        if (status || ready)
            return status;
        tcr_pause(&idle);
    }
}

/* A mark of an operation that the net may have ended meanwhile. */
static void keep(struct tcr_op *op, struct tcr_mark *m, bool behind)
{
    struct device_op *d = op->state;

    tcr_net_lock(op->net);
    if (op->done && m)
        op->c.device->ops->peers->unmark(m);
    else
        *(behind ? &d->after : &d->before) = m;
    tcr_net_unlock(op->net);
}

static int give_items(struct tcr_op *op)
{
    const struct tcr_coll *c = &op->c;
    const struct tcr_device_ops *o = c->device->ops;
    struct items l = {0};
    int status = list_items(c, &l);

    if (!status && l.n && !(status = o->peers->give(c->device, c->queue, c->peers, l.at, l.n)))
        status = wait_ready(op);
    if (!status && l.gathered)
        status = apply_all(c, &l);
    if (l.gathered)
        o->free(c->device, c->queue, l.gathered, l.bytes, false);
    free(l.at);
    return status;
}

/* The operation is in the net's list: it is given to the device, between two marks. */
int tcr_peers_give(struct tcr_op *op)
{
    const struct tcr_coll *c = &op->c;
    const struct tcr_peers_ops *o = c->device->ops->peers;
    struct tcr_mark *m = NULL;
    int status = order(c, false);

    if (!status && !(status = o->mark(c->device, c->queue, 0, &m)))
        keep(op, m, false);
    if (!status)
        status = give_items(op);
    if (!status && !(status = o->mark(c->device, c->queue, (size_t)c->n * c->size + 1, &m)))
        keep(op, m, true);
    if (!status)
        status = order(c, true);
    tcr_net_lock(op->net);
    if (status)
        tcr_net_break(op->net, true, "rank %d: %s", op->net->rank, tccrt_error());
    status = tcr_net_status(op->net);
    tcr_net_unlock(op->net);
    return status;
}

/* -- Communicators ------------------------------------------------------------------------------------------ */

struct said {
    int32_t there;
    char why[252];
};

/* Have all ranks the library? *lacks: the first that has not. */
static int ask_all(struct tccrt_comm *c, struct tcr_device *d, int *lacks, char *why, size_t room)
{
    struct said mine = {.there = d->ops->peers->there(d) == TCC_OK}, *all = calloc((size_t)c->size, sizeof *all);
    struct tcc_tensor in = {&mine, TCC_U8, 1, {sizeof mine}}, out = {all, TCC_U8, 1, {(int64_t)sizeof mine * c->size}};
    int status;

    if (!all)
        return tcr_fail(TCC_EENV, "no memory for a communicator");
    if (!mine.there)
        snprintf(mine.why, sizeof mine.why, "%s", tccrt_error());
    status = tccrt_comm_all_gather(c, &in, &out, NULL, NULL);
    *lacks = -1;
    for (int k = c->size; k-- > 0 && !status;)
        if (!all[k].there) {
            *lacks = k;
            snprintf(why, room, "%.*s", (int)sizeof all[k].why - 1, all[k].why);
        }
    free(all);
    return status;
}

static int join_all(struct tccrt_comm *c, struct tcr_device *d)
{
    unsigned char id[TCR_PEERS_ID] = {0};
    struct tcc_tensor t = {id, TCC_U8, 1, {sizeof id}};
    struct tcr_coll k = {.kind = TCR_JOIN, .c = c, .device = d};
    struct tcr_op *op;
    double ended = 0;
    int status = c->rank ? TCC_OK : d->ops->peers->id(d, id);

    if (status) /* the others wait for the id */
        tccrt_comm_abort(c, tccrt_error());
    else
        status = tccrt_comm_broadcast(c, 0, 1, &t, NULL);
    if (!status && (status = d->ops->peers->join(d, id, c->rank, c->size, &c->peers)))
        tccrt_comm_abort(c, tccrt_error());
    if (status)
        return status;
    k.peers = c->peers;
    if (!(status = tcr_op_start(&k, &op)))
        status = tcr_op_finish(op, &ended);
    return status;
}

int tcr_peers_of(struct tccrt_comm *c, struct tcr_device *d, bool *has)
{
    char why[256] = "";
    int lacks = -1, status;

    *has = c->peers != NULL;
    if (c->peers || c->no_peers || c->size < 2)
        return TCC_OK;
    if (c->net->peers == TCR_PEERS_NEVER || !d->ops->peers) {
        c->no_peers = true;
        return TCC_OK;
    }
    if ((status = ask_all(c, d, &lacks, why, sizeof why)))
        return status;
    if (lacks >= 0 && c->net->peers == TCR_PEERS_ALWAYS)
        return tcr_fail(TCC_EENV, "rank %d: %s", c->ranks[lacks], why);
    c->no_peers = lacks >= 0;
    if (!c->no_peers && !(status = join_all(c, d))) {
        c->peers_ops = d->ops->peers;
        *has = true;
    }
    return status;
}

void tcr_peers_leave(struct tccrt_comm *c)
{
    if (c->peers && c->peers_ops)
        c->peers_ops->leave(c->peers);
    c->peers = NULL;
}

/* -- Of a session ------------------------------------------------------------------------------------------- */

/* Until the device has passed all that it exchanges. */
static int drain(struct tcr_net *net, const struct tcr_device *d)
{
    bool any = true;
    int idle = 0, status = TCC_OK;

    while (any) {
        tcr_net_lock(net);
        tcr_net_progress(net);
        any = false;
        for (const struct tcr_op *op = net->ops; op; op = op->next)
            any |= op->c.device == d;
        status = tcr_net_status(net);
        tcr_net_unlock(net);
        if (any)
            tcr_pause(&idle);
    }
    return status;
}

int tcr_peers_settle(struct tccrt_session *s)
{
    struct tcr_net *net = s->exchanging;

    s->exchanging = NULL;
    return net ? drain(net, s->device) : TCC_OK;
}

/* -- Groups on a device of the caller's --------------------------------------------------------------------- */

int tccrt_comm_device(struct tccrt_comm *c, const char *device, void *stream, struct tccrt_comm **out)
{
    static struct tcr_heap heap;
    static const struct tccrt_options options;
    struct tcr_device_request request = {.heap = &heap, .options = &options};
    struct tccrt_comm *g;
    bool has;
    int status;

    tcr_clear_error();
    *out = NULL;
    if (!c || !device || c->device)
        return tcr_fail(TCC_EUSAGE, "a group of hosts and a device's name are required");
    tcr_heap_init(&heap, NULL);
    if (!(g = calloc(1, sizeof *g)))
        return tcr_fail(TCC_EENV, "no memory for a group of %d ranks", c->size);
    *g = *c;
    g->base = c;
    g->stream = (uintptr_t)stream;
    g->streamed = true;
    status = tcr_device_open(device, &request, &g->device);
    if (!status && !g->device->ops->peers)
        status = tcr_fail(TCC_EUSAGE, "device '%s' exchanges nothing with others", device);
    if (!status)
        status = g->device->ops->reserve(g->device, 0, 1, 0);
    if (!status && !(status = tcr_peers_of(c, g->device, &has)) && !has && c->size > 1)
        status = tcr_fail(TCC_EENV, "a rank has no library for exchanges between devices");
    if (status) {
        char text[512];

        snprintf(text, sizeof text, "%s", tccrt_error());
        if (g->device)
            g->device->ops->close(g->device);
        free(g);
        return tcr_fail(status, "%s", text);
    }
    atomic_fetch_add(&c->world->ngroups, 1);
    *out = g;
    return TCC_OK;
}

void tcr_peers_close(struct tccrt_comm *g)
{
    if (g->net)
        drain(g->net, g->device);
    g->device->ops->sync(g->device, TCR_ALL);
    g->device->ops->close(g->device);
}
