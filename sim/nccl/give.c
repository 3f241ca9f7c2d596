/* SPDX-License-Identifier: Apache-2.0 */
/* Calls become operations of a communicator and a stream; those of a group are one. */
#include <stdlib.h>
#include <time.h>

#include "sim/grow.h"
#include "sim/nccl/nccl_int.h"

static __thread int depth;
static __thread struct fake_op *group; /* what the thread's group has so far */
static __thread ncclResult_t group_error;

const char *fake_name(int kind)
{
    static const char *const names[] = {"all_reduce",     "reduce", "broadcast", "all_gather",
                                        "reduce_scatter", "send",   "recv"};
    return names[kind];
}

bool fake_collective(enum fake_kind k)
{
    return k < FAKE_SEND;
}

void fake_op_unref(struct fake_op *op)
{
    if (--op->refs)
        return;
    for (int k = 0; k < op->nitems; k++) {
        free(op->items[k].mine);
        for (int r = 0; op->items[k].theirs && r < op->comm->size; r++)
            if (r != op->comm->rank)
                free(op->items[k].theirs[r]);
        free(op->items[k].theirs);
    }
    for (struct fake_flow *f = op->flows, *next; f; f = next) {
        next = f->next;
        free(f);
    }
    free(op->items);
    fake_unref(op->comm);
    free(op);
}

static struct fake_op *op_for(struct fake_op **list, struct ncclComm *c, void *stream)
{
    struct fake_op **at = list, *op;
    while (*at && ((*at)->comm != c || (*at)->stream != stream))
        at = &(*at)->next;
    if (!*at && (op = calloc(1, sizeof *op))) {
        *op = (struct fake_op){.comm = c, .stream = stream, .refs = 1};
        c->refs++;
        *at = op;
    }
    return *at;
}

static ncclResult_t add(struct fake_op *op, const struct fake_item *i)
{
    if (!GROWN(op->items, op->nitems, op->room, 4))
        return fake_say(ncclSystemError, "no memory");
    op->items[op->nitems] = *i;
    if (i->op >= ncclNumOps)
        op->items[op->nitems].factor = op->comm->factors[i->op - ncclNumOps].value;
    op->nitems++;
    return ncclSuccess;
}

/* -- Into the streams -- */

static ncclResult_t enqueue_one(struct fake_op *op)
{
    struct ncclComm *c = op->comm;
    CUcontext before;
    pthread_mutex_lock(&fake.lock);
    op->refs++; /* the driver's */
    op->next = NULL;
    *(c->last ? &c->last->next : &c->first) = op;
    c->last = op;
    pthread_mutex_unlock(&fake.lock);
    cuCtxPushCurrent_v2(c->ctx);
    int r = ptx_driver_outside(op->stream, &(struct sim_outside_work){fake_poll, fake_time, fake_drop, op});
    cuCtxPopCurrent_v2(&before);
    if (!r)
        return ncclSuccess;
    pthread_mutex_lock(&fake.lock);
    op->done = true; /* whoever comes next passes over it */
    fake_fail(c, ncclUnhandledCudaError, true, "%s can't be enqueued: error %d of the driver",
              fake_name(op->items[0].kind), r);
    fake_op_unref(op);
    pthread_mutex_unlock(&fake.lock);
    return ncclUnhandledCudaError;
}

ncclResult_t fake_enqueue(struct ncclComm *c)
{
    ncclResult_t r = ncclSuccess;
    pthread_mutex_lock(&fake.lock);
    struct fake_op *list = c->waiting;
    pthread_mutex_unlock(&fake.lock);
    for (struct fake_op *op = list, *next; op; op = next) {
        next = op->next;
        ncclResult_t one = enqueue_one(op);
        r = r ? r : one;
    }
    pthread_mutex_lock(&fake.lock);
    c->waiting = NULL;
    pthread_mutex_unlock(&fake.lock);
    return r;
}

/* The operations of a communicator: at once, or when it has been asked a few times. Locked on entry and exit. */
static ncclResult_t give_one(struct fake_op *op)
{
    struct ncclComm *c = op->comm;
    for (int k = 0; k < op->nitems; k++)
        if (fake_collective(op->items[k].kind))
            fake_describe(c, &op->items[k]);
    struct fake_op **at = &c->waiting;
    while (*at)
        at = &(*at)->next;
    op->next = NULL;
    *at = op;
    fake.draws = fake.draws * 6364136223846793005u + 1442695040888963407u;
    c->polls = (int)(fake.draws >> 60) % 3;
    return c->blocking ? ncclSuccess : ncclInProgress;
}

static ncclResult_t give_all(struct fake_op *list)
{
    ncclResult_t r = ncclSuccess;
    struct ncclComm *blocking[16];
    int n = 0;
    pthread_mutex_lock(&fake.lock);
    for (struct fake_op *op = list, *next; op; op = next) {
        next = op->next;
        ncclResult_t one = give_one(op);
        r = one ? one : r;
        if (op->comm->blocking && n < 16 && (!n || blocking[n - 1] != op->comm))
            blocking[n++] = op->comm;
    }
    pthread_mutex_unlock(&fake.lock);
    for (int k = 0; k < n; k++) {
        ncclResult_t one = fake_enqueue(blocking[k]);
        r = one ? one : r;
    }
    return r;
}

static void forget(struct fake_op *list)
{
    pthread_mutex_lock(&fake.lock);
    for (struct fake_op *op = list, *next; op; op = next) {
        next = op->next;
        fake_op_unref(op);
    }
    pthread_mutex_unlock(&fake.lock);
}

ncclResult_t ncclGroupStart(void)
{
    if (!depth++) {
        group = NULL;
        group_error = ncclSuccess;
    }
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    struct fake_op *list = group;
    if (!depth)
        return fake_say(ncclInvalidUsage, "ncclGroupEnd() without ncclGroupStart()");
    if (--depth)
        return ncclSuccess;
    group = NULL;
    if (!group_error)
        return give_all(list);
    forget(list);
    return group_error;
}

/* -- Calls -- */

/* Rows are used again: no rank is far ahead of the others. The driver gets on meanwhile. */
static void wait_for_room(struct ncclComm *c)
{
    double since = fake_seconds();
    uint64_t least = 0;
    while (!c->error && fake_seconds() - since < fake_patience()) {
        least = c->given;
        for (int k = 0; k < c->size; k++)
            least = atomic_load(&c->shared->ranks[k].done) < least ? atomic_load(&c->shared->ranks[k].done) : least;
        if (c->given - least < FAKE_RING / 2)
            return;
        pthread_mutex_unlock(&fake.lock);
        nanosleep(&(struct timespec){0, 200000}, NULL);
        pthread_mutex_lock(&fake.lock);
    }
}

static ncclResult_t check(struct ncclComm *c, const struct fake_item *i)
{
    if (!fake_is(c))
        return fake_say(ncclInvalidArgument, "no communicator");
    if (i->type < 0 || i->type >= ncclNumTypes || i->root < 0 || i->root >= c->size || i->op < 0 ||
        i->op >= ncclNumOps + 16 || (i->op >= ncclNumOps && !c->factors[i->op - ncclNumOps].used))
        return fake_say(ncclInvalidArgument, "%s: type %d, operation %d or rank %d is not valid", fake_name(i->kind),
                        i->type, i->op, i->root);
    wait_for_room(c);
    if (c->error)
        return c->error;
    if (!c->ready || c->waiting)
        return fake_say(ncclInvalidUsage,
                        "%s: the call before it is in progress: ncclCommGetAsyncError() says when it is over",
                        fake_name(i->kind));
    return ncclSuccess;
}

static ncclResult_t call(struct ncclComm *c, void *stream, const struct fake_item *i)
{
    struct fake_op *op;
    pthread_mutex_lock(&fake.lock);
    ncclResult_t r = check(c, i);
    if (!r && !(op = op_for(&group, c, stream)))
        r = fake_say(ncclSystemError, "no memory");
    r = r ? r : add(op, i);
    pthread_mutex_unlock(&fake.lock);
    if (depth) {
        group_error = group_error ? group_error : r;
        return r;
    }
    op = group;
    group = NULL;
    if (r)
        forget(op);
    return r ? r : give_all(op);
}

#define AT(p) ((uint64_t)(uintptr_t)(p))
#define ITEM(...) (&(struct fake_item){__VA_ARGS__})

ncclResult_t ncclAllReduce(const void *in, void *out, size_t n, ncclDataType_t type, ncclRedOp_t op, ncclComm_t c,
                           cudaStream_t stream)
{
    return call(c, stream,
                ITEM(.kind = FAKE_ALL_REDUCE, .in = AT(in), .out = AT(out), .n = n, .type = (int)type, .op = (int)op));
}

ncclResult_t ncclReduce(const void *in, void *out, size_t n, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t c, cudaStream_t stream)
{
    return call(c, stream,
                ITEM(.kind = FAKE_REDUCE, .in = AT(in), .out = AT(out), .n = n, .type = (int)type, .op = (int)op,
                     .root = root));
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t n, ncclDataType_t type, int root, ncclComm_t c,
                           cudaStream_t stream)
{
    return call(c, stream,
                ITEM(.kind = FAKE_BROADCAST, .in = AT(in), .out = AT(out), .n = n, .type = (int)type, .root = root));
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t n, ncclDataType_t type, ncclComm_t c, cudaStream_t stream)
{
    return call(c, stream, ITEM(.kind = FAKE_ALL_GATHER, .in = AT(in), .out = AT(out), .n = n, .type = (int)type));
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t n, ncclDataType_t type, ncclRedOp_t op, ncclComm_t c,
                               cudaStream_t stream)
{
    return call(
        c, stream,
        ITEM(.kind = FAKE_REDUCE_SCATTER, .in = AT(in), .out = AT(out), .n = n, .type = (int)type, .op = (int)op));
}

ncclResult_t ncclSend(const void *in, size_t n, ncclDataType_t type, int peer, ncclComm_t c, cudaStream_t stream)
{
    return call(c, stream, ITEM(.kind = FAKE_SEND, .in = AT(in), .n = n, .type = (int)type, .root = peer));
}

ncclResult_t ncclRecv(void *out, size_t n, ncclDataType_t type, int peer, ncclComm_t c, cudaStream_t stream)
{
    return call(c, stream, ITEM(.kind = FAKE_RECV, .out = AT(out), .n = n, .type = (int)type, .root = peer));
}
