/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exchanges between GPUs by NCCL: libnccl.so.2 (or $TCCC_NCCL_LIBRARY), opened when ranks first want it;
 * libtcccnccl.so.0 for the simulator's devices.
 *
 * Communicators do not block: what is in progress is asked for (ready()) by who gives work, and by the thread that
 * moves communication on, so that a rank that does not come can be told from the outside, and the communicator be
 * aborted. An abort has a thread of its own, since NCCL's may wait for what never comes (nccl issue 829).
 */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/device/cuda/cuda_int.h"

typedef struct ncclComm *nccl_comm;
struct nccl_id {
    char bytes[TCR_PEERS_ID];
};
/* The beginning that NCCL 2.14 knows; later libraries take it as it is. */
struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking;
};
enum { NCCL_OLDEST = 21400, NCCL_MAGIC = (int)0xcafebeef, NCCL_IN_PROGRESS = 7, NCCL_HOST_SCALAR = 1 };
enum { NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN, NCCL_AVG, NCCL_U8 = 1, NCCL_F32 = 7, NCCL_F64 = 8 };

struct nccl {
    void *library;
    int version;
#define NEEDS(name, args) int(*name) args;
#include "runtime/device/cuda/nccl.def"
    const char *(*ncclGetErrorString)(int result);
    const char *(*ncclGetLastError)(nccl_comm comm); /* since 2.13 */
};
static struct nccl libraries[2]; /* of "cuda" and of "sim" */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct tcr_peers {
    struct cuda_machine *m;
    const struct nccl *n;
    nccl_comm comm; /* NULL: aborted */
    int size;
};
struct tcr_mark {
    struct cuda_machine *m;
    cuda_event event;
};

/* -- The library -------------------------------------------------------------------------------------- */

static int find_functions(struct nccl *n, const char *path)
{
    const char *lacks = NULL;

#define NEEDS(fn, args)                               \
    if (!(*(void **)&n->fn = dlsym(n->library, #fn))) \
        lacks = #fn;
#include "runtime/device/cuda/nccl.def"
    *(void **)&n->ncclGetErrorString = dlsym(n->library, "ncclGetErrorString");
    *(void **)&n->ncclGetLastError = dlsym(n->library, "ncclGetLastError");
    if (lacks || !n->ncclGetErrorString || n->ncclGetVersion(&n->version))
        return tcr_fail(TCC_EENV, "NCCL (%s) has no %s", path, lacks ? lacks : "ncclGetVersion");
    if (n->version < NCCL_OLDEST)
        return tcr_fail(TCC_EENV, "NCCL (%s) is too old: code %d, expected 2.14 (%d) or newer", path, n->version,
                        NCCL_OLDEST);
    return TCC_OK;
}

static int open_library(struct nccl *n, bool simulated)
{
    const char *given = simulated ? NULL : tccrt_env_text("TCCC_NCCL_LIBRARY"), *why;
    char found[PATH_MAX];
    const char *path = given ? given : simulated ? tcr_library_path("libtcccnccl.so.0", found) : "libnccl.so.2";
    int status;

    if (n->library)
        return TCC_OK;
    if (!(n->library = dlopen(path, RTLD_NOW | RTLD_LOCAL))) {
        why = dlerror();
        return tcr_fail(TCC_EENV, "no NCCL (%s)", why ? why : path);
    }
    if ((status = find_functions(n, path))) {
        dlclose(n->library);
        n->library = NULL;
    }
    return status;
}

static struct nccl *library_of(const struct cuda_machine *m)
{
    return &libraries[!strcmp(m->cu->name, "sim")];
}

static int there(struct tcr_device *d)
{
    const struct cuda_machine *m = cuda_of(d)->m;
    int status;

    pthread_mutex_lock(&lock);
    status = open_library(library_of(m), !strcmp(m->cu->name, "sim"));
    pthread_mutex_unlock(&lock);
    return status;
}

static int says(const struct cuda_machine *m, const struct nccl *n, nccl_comm comm, int result, const char *call)
{
    const char *more = n->ncclGetLastError ? n->ncclGetLastError(comm) : NULL;

    return tcr_fail(TCC_EENV, "device '%s:%d': %s: %s%s%s", m->cu->name, m->ordinal, call,
                    n->ncclGetErrorString(result), more && *more ? ": " : "", more ? more : "");
}

/* -- Communicators ------------------------------------------------------------------------------------ */

static int id(struct tcr_device *d, unsigned char *to)
{
    struct cuda_machine *m = cuda_of(d)->m;
    const struct nccl *n = library_of(m);
    struct nccl_id made;
    int result = n->ncclGetUniqueId(&made);

    if (result)
        return says(m, n, NULL, result, "ncclGetUniqueId");
    memcpy(to, &made, sizeof made);
    return TCC_OK;
}

static int join(struct tcr_device *d, const unsigned char *given, int rank, int size, struct tcr_peers **out)
{
    struct tcr_cuda *c = cuda_of(d);
    struct nccl_config config = {sizeof config, (unsigned)NCCL_MAGIC, NCCL_OLDEST, 0};
    struct tcr_peers *p = calloc(1, sizeof *p);
    struct nccl_id name;
    int status, result;

    if (!p)
        return tcr_fail(TCC_EENV, "no memory for a communicator");
    *p = (struct tcr_peers){.m = c->m, .n = library_of(c->m), .size = size};
    memcpy(&name, given, sizeof name);
    if (!(status = cuda_enter(c))) {
        result = p->n->ncclCommInitRankConfig(&p->comm, size, name, rank, &config);
        if (result && result != NCCL_IN_PROGRESS)
            status = says(c->m, p->n, NULL, result, "ncclCommInitRankConfig");
    }
    cuda_leave(c, TCC_OK);
    if (status) {
        free(p);
        return status;
    }
    cuda_machine_hold(p->m);
    *out = p;
    return TCC_OK;
}

static int ready(struct tcr_peers *p, bool *is_ready)
{
    int state = 0, result = p->comm ? p->n->ncclCommGetAsyncError(p->comm, &state) : 0;

    *is_ready = !state;
    if (result || (state && state != NCCL_IN_PROGRESS))
        return says(p->m, p->n, p->comm, result ? result : state, "NCCL");
    return TCC_OK;
}

struct aborting {
    const struct nccl *n;
    nccl_comm comm;
    cuda_context context;
    const struct cuda_api *cu;
};

static void *abort_it(void *arg)
{
    struct aborting *a = arg;
    cuda_context before;

    a->cu->cuCtxPushCurrent_v2(a->context);
    a->n->ncclCommAbort(a->comm);
    a->cu->cuCtxPopCurrent_v2(&before);
    free(a);
    return NULL;
}

#define ABORT_SECONDS 2

static void abandon(struct tcr_peers *p)
{
    struct aborting *a = p->comm ? malloc(sizeof *a) : NULL;
    struct timespec until;
    pthread_t thread;

    if (!a)
        return;
    *a = (struct aborting){p->n, p->comm, p->m->context, p->m->cu};
    p->comm = NULL;
    if (pthread_create(&thread, NULL, abort_it, a)) {
        free(a);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ABORT_SECONDS;
    if (pthread_timedjoin_np(thread, NULL, &until))
        pthread_detach(thread);
}

static void leave(struct tcr_peers *p)
{
    cuda_context before;

    if (p->comm) {
        p->m->cu->cuCtxPushCurrent_v2(p->m->context);
        p->n->ncclCommDestroy(p->comm);
        p->m->cu->cuCtxPopCurrent_v2(&before);
    }
    cuda_machine_put(p->m);
    free(p);
}

/* -- Work --------------------------------------------------------------------------------------------- */

/* NCCL's number of a type that it reduces; -1: it has none. */
static int type_of(int dtype)
{
    static const struct {
        int dtype, type;
    } types[] = {{TCC_I8, 0},  {TCC_U8, 1},  {TCC_I32, 2}, {TCC_U32, 3}, {TCC_I64, 4},
                 {TCC_U64, 5}, {TCC_F16, 6}, {TCC_F32, 7}, {TCC_F64, 8}, {TCC_BF16, 9}};

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].dtype == dtype)
            return types[i].type;
    return -1;
}

/* Minima of floats it computes without their NaN, means of integers rounded otherwise; factors it has for what is
 * added. */
static bool takes(int dtype, int how, double scale)
{
    int type = type_of(dtype);
    bool is_float = type >= 6, wide = type == NCCL_F32 || type == NCCL_F64;

    if (how >= TCCRT_AND)
        return false;
    if (how == TCCRT_MIN || how == TCCRT_MAX || how == TCCRT_AVG)
        return type >= 0 && is_float == (how == TCCRT_AVG) && (scale == 1 || (wide && how == TCCRT_AVG));
    return type >= 0 && (scale == 1 || (wide && how == TCCRT_SUM));
}

struct operation {
    int op;
    bool made;
};

static int operation(const struct tcr_peers *p, const struct tcr_peer_item *i, struct operation *o)
{
    static const int plain[] = {[TCCRT_SUM] = NCCL_SUM,
                                [TCCRT_AVG] = NCCL_AVG,
                                [TCCRT_MIN] = NCCL_MIN,
                                [TCCRT_MAX] = NCCL_MAX,
                                [TCCRT_PRODUCT] = NCCL_PROD};
    double factor = i->how == TCCRT_AVG ? i->scale / p->size : i->scale;
    float narrow = (float)factor;

    *o = (struct operation){.op = plain[i->how]};
    if (i->scale == 1)
        return 0;
    o->made = true;
    return p->n->ncclRedOpCreatePreMulSum(&o->op, i->dtype == TCC_F64 ? (void *)&factor : (void *)&narrow,
                                          type_of(i->dtype), NCCL_HOST_SCALAR, p->comm);
}

static int give_one(const struct tcr_peers *p, const struct tcr_peer_item *i, const struct operation *o,
                    cuda_stream stream)
{
    const struct nccl *n = p->n;
    int type = type_of(i->dtype);
    size_t count = (size_t)i->n, bytes = count * (size_t)tcr_dtype_bytes(i->dtype);

    switch (i->kind) {
    case TCR_PEER_ALL_REDUCE: return n->ncclAllReduce(i->in, i->out, count, type, o->op, p->comm, stream);
    case TCR_PEER_REDUCE: return n->ncclReduce(i->in, i->out, count, type, o->op, i->root, p->comm, stream);
    case TCR_PEER_REDUCE_SCATTER: return n->ncclReduceScatter(i->in, i->out, count, type, o->op, p->comm, stream);
    case TCR_PEER_BROADCAST: return n->ncclBroadcast(i->in, i->out, bytes, NCCL_U8, i->root, p->comm, stream);
    case TCR_PEER_ALL_GATHER: return n->ncclAllGather(i->in, i->out, bytes, NCCL_U8, p->comm, stream);
    case TCR_PEER_SEND: return n->ncclSend(i->in, bytes, NCCL_U8, i->root, p->comm, stream);
    default: return n->ncclRecv(i->out, bytes, NCCL_U8, i->root, p->comm, stream);
    }
}

static bool fine(int result)
{
    return !result || result == NCCL_IN_PROGRESS;
}

static int give_all(struct tcr_cuda *c, int queue, const struct tcr_peers *p, const struct tcr_peer_item *items, int n)
{
    bool reduces = n && (items[0].kind == TCR_PEER_ALL_REDUCE || items[0].kind == TCR_PEER_REDUCE ||
                         items[0].kind == TCR_PEER_REDUCE_SCATTER);
    struct operation o = {0};
    int result = reduces ? operation(p, &items[0], &o) : 0, ended; /* one type, one way */

    if (!fine(result))
        return says(c->m, p->n, p->comm, result, "ncclRedOpCreatePreMulSum");
    p->n->ncclGroupStart();
    for (int i = 0; i < n && fine(result); i++)
        result = give_one(p, &items[i], &o, c->queues[queue].stream);
    ended = p->n->ncclGroupEnd();
    if (o.made)
        p->n->ncclRedOpDestroy(o.op, p->comm);
    result = fine(result) ? ended : result;
    return fine(result) ? TCC_OK : says(c->m, p->n, p->comm, result, "NCCL");
}

static int give(struct tcr_device *d, int queue, struct tcr_peers *p, const struct tcr_peer_item *items, int n)
{
    struct tcr_cuda *c = cuda_of(d);
    int status = cuda_enter(c);

    if (!status && !(status = cuda_queue_ok(c, queue)) && !p->comm)
        status = tcr_fail(TCC_EENV, "device '%s': its communicator was given up", c->name);
    if (!status && !(status = cuda_time_from(c, queue)))
        status = give_all(c, queue, p, items, n);
    return cuda_leave(c, status);
}

/* -- Marks -------------------------------------------------------------------------------------------- */

static int mark(struct tcr_device *d, int queue, size_t bytes, struct tcr_mark **out)
{
    struct tcr_cuda *c = cuda_of(d);
    struct tcr_mark *m = calloc(1, sizeof *m);
    int status = m ? cuda_enter(c) : tcr_fail(TCC_EENV, "no memory for an event");

    if (!m)
        return status;
    if (!status && bytes)
        status = cuda_time_to(c, queue, TCR_TIMED_COPY, bytes);
    m->m = c->m;
    if (!status)
        status = CU(c, NULL, cuEventCreate, &m->event, CUDA_EVENT_NO_TIMING);
    if (!status)
        status = CU(c, NULL, cuEventRecord, m->event, c->queues[queue].stream);
    cuda_leave(c, TCC_OK);
    if (status) {
        free(m);
        return status;
    }
    cuda_machine_hold(m->m);
    *out = m;
    return TCC_OK;
}

static int passed(struct tcr_mark *m, bool *is_passed)
{
    cuda_context before;
    int result;

    m->m->cu->cuCtxPushCurrent_v2(m->m->context);
    result = m->m->cu->cuEventQuery(m->event);
    m->m->cu->cuCtxPopCurrent_v2(&before);
    *is_passed = !result;
    return !result || result == CUDA_NOT_READY ? TCC_OK : cuda_says(m->m, result, "cuEventQuery", NULL);
}

static void unmark(struct tcr_mark *m)
{
    cuda_context before;

    m->m->cu->cuCtxPushCurrent_v2(m->m->context);
    m->m->cu->cuEventDestroy_v2(m->event);
    m->m->cu->cuCtxPopCurrent_v2(&before);
    cuda_machine_put(m->m);
    free(m);
}

/* -- Functions of the host ---------------------------------------------------------------------------- */

/* Its bytes are pinned; they stay until the host finds that the event has been passed. */
struct cuda_applied {
    struct cuda_applied *next;
    void (*fn)(void *arg, const void *from, void *to);
    void *arg;
    char *from, *to;
    cuda_event passed;
};

static void run_applied(void *data)
{
    struct cuda_applied *a = data;

    a->fn(a->arg, a->from, a->to);
}

static void applied_free(struct tcr_cuda *c, struct cuda_applied *a)
{
    if (a->from)
        c->m->cu->cuMemFreeHost(a->from);
    if (a->passed)
        c->m->cu->cuEventDestroy_v2(a->passed);
    free(a->arg);
    free(a);
}

void cuda_applied_free(struct tcr_cuda *c, bool all)
{
    for (struct cuda_applied **at = &c->applied, *a; (a = *at);) {
        if (!all && c->m->cu->cuEventQuery(a->passed) == CUDA_NOT_READY) {
            at = &a->next;
            continue;
        }
        *at = a->next;
        applied_free(c, a);
    }
}

static int give_applied(struct tcr_cuda *c, int queue, struct cuda_applied *a, const struct tcr_apply *w)
{
    cuda_stream s = c->queues[queue].stream;
    void *room = NULL;
    int status;

    if (!c->m->cu->cuLaunchHostFunc)
        return tcr_fail(TCC_EENV, "device '%s': this CUDA driver calls no functions of the host", c->name);
    if ((status = CU(c, w->node, cuMemHostAlloc, &room, TCR_ROUND(w->from_bytes) + w->to_bytes + 1, 0)))
        return status;
    a->from = room;
    a->to = a->from + TCR_ROUND(w->from_bytes);
    if ((status = CU(c, w->node, cuEventCreate, &a->passed, CUDA_EVENT_NO_TIMING)) ||
        (status = CU(c, w->node, cuMemcpyDtoHAsync_v2, a->from, (uint64_t)(uintptr_t)w->from, w->from_bytes, s)) ||
        (status = CU(c, w->node, cuLaunchHostFunc, s, run_applied, a)) ||
        (status = CU(c, w->node, cuMemcpyHtoDAsync_v2, (uint64_t)(uintptr_t)w->to, a->to, w->to_bytes, s)))
        return status;
    return CU(c, w->node, cuEventRecord, a->passed, s);
}

static int apply(struct tcr_device *d, int queue, const struct tcr_apply *w)
{
    struct tcr_cuda *c = cuda_of(d);
    struct cuda_applied *a = calloc(1, sizeof *a);
    int status = a ? cuda_enter(c) : tcr_fail(TCC_EENV, "no memory for a function of the host");

    if (!a) {
        free(w->arg);
        return status;
    }
    *a = (struct cuda_applied){.next = c->applied, .fn = w->fn, .arg = w->arg};
    if (!status)
        status = give_applied(c, queue, a, w);
    if (!a->passed) {
        applied_free(c, a);
        return cuda_leave(c, status);
    }
    c->applied = a; /* also after a failure: something may be under way */
    return cuda_leave(c, status);
}

const struct tcr_peers_ops cuda_peers = {.there = there,
                                         .id = id,
                                         .join = join,
                                         .ready = ready,
                                         .takes = takes,
                                         .give = give,
                                         .mark = mark,
                                         .passed = passed,
                                         .unmark = unmark,
                                         .apply = apply,
                                         .abandon = abandon,
                                         .leave = leave};
