/* SPDX-License-Identifier: Apache-2.0 */
/* Unique ids, what ranks share, the beginning and the end of communicators, errors. */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "sim/grow.h"
#include "sim/nccl/nccl_int.h"

struct fake fake = {.lock = PTHREAD_MUTEX_INITIALIZER};
static __thread char last_error[400]; /* of calls that had no communicator */

struct id {
    uint64_t magic, secret;
    int32_t process, file;
};
_Static_assert(sizeof(struct id) <= sizeof(ncclUniqueId) && sizeof(ncclUniqueId) == 128, "ids");
_Static_assert(sizeof(ncclConfig_t) == 32 && offsetof(ncclConfig_t, blocking) == 16, "configurations");

double fake_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double number(const char *name, double otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtod_l(text, NULL, newlocale(LC_ALL_MASK, "C", (locale_t)0)) : otherwise;
}

double fake_patience(void)
{
    return number("TCCC_SIM_NCCL_TIMEOUT", 120);
}

bool fake_is(const struct ncclComm *c)
{
    return c && c->magic == FAKE_MAGIC;
}

/* -- Errors -- */

ncclResult_t ncclGetVersion(int *version)
{
    if (!version)
        return fake_say(ncclInvalidArgument, "no place for the version");
    *version = (int)number("TCCC_SIM_NCCL_VERSION", 22809);
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t r)
{
    static const char *const texts[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return (unsigned)r < sizeof texts / sizeof *texts ? texts[r] : "unknown result code";
}

ncclResult_t fake_say(ncclResult_t r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(last_error, sizeof last_error, format, args);
    va_end(args);
    return r;
}

const char *ncclGetLastError(ncclComm_t c)
{
    return fake_is(c) && *c->why ? c->why : last_error;
}

ncclResult_t fake_fail(struct ncclComm *c, ncclResult_t r, bool tell, const char *format, ...)
{
    int nobody = 0;
    va_list args;
    if (c->error)
        return c->error;
    c->error = r;
    va_start(args, format);
    vsnprintf(c->why, sizeof c->why, format, args);
    va_end(args);
    if (tell && c->shared && !atomic_load(&c->shared->failed)) {
        snprintf(c->shared->why, sizeof c->shared->why, "%s", c->why);
        atomic_compare_exchange_strong(&c->shared->failed, &nobody, c->rank + 1);
    }
    return r;
}

/* -- Ids -- */

ncclResult_t ncclGetUniqueId(ncclUniqueId *out)
{
    struct id id = {.magic = FAKE_MAGIC, .process = getpid()};
    struct fake_shared *s;
    if (!out || getrandom(&id.secret, sizeof id.secret, 0) != sizeof id.secret)
        return fake_say(ncclSystemError, "no unique id can be made");
    id.file = memfd_create("tccc-nccl", MFD_CLOEXEC); /* stays open: others may come late */
    if (id.file < 0 || ftruncate(id.file, sizeof *s))
        return fake_say(ncclSystemError, "shared memory: %s", strerror(errno));
    s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, id.file, 0);
    if (s == MAP_FAILED)
        return fake_say(ncclSystemError, "shared memory: %s", strerror(errno));
    s->magic = FAKE_MAGIC;
    s->secret = id.secret;
    munmap(s, sizeof *s);
    memset(out, 0, sizeof *out);
    memcpy(out, &id, sizeof id);
    return ncclSuccess;
}

static size_t bytes_of(int size)
{
    size_t n = (size_t)size, rows = sizeof(struct fake_shared) + n * sizeof(struct fake_rank);
    return (rows + 63) / 64 * 64 + n * n * sizeof(struct fake_pipe);
}

struct fake_pipe *fake_pipe_of(const struct ncclComm *c, int from, int to)
{
    size_t n = (size_t)c->size, rows = sizeof(struct fake_shared) + n * sizeof(struct fake_rank);
    char *at = (char *)c->shared + (rows + 63) / 64 * 64;
    return (struct fake_pipe *)(void *)at + (size_t)from * n + (size_t)to;
}

static ncclResult_t map(struct ncclComm *c, const ncclUniqueId *given)
{
    struct id id;
    char path[64];
    int file, unset = 0;
    memcpy(&id, given, sizeof id);
    if (id.magic != FAKE_MAGIC)
        return fake_say(ncclInvalidArgument, "the unique id is none of ncclGetUniqueId()");
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)id.process, (int)id.file);
    file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return fake_say(ncclSystemError, "rank %d can't reach the process that made the unique id: %s", c->rank,
                        strerror(errno));
    c->bytes = bytes_of(c->size);
    if (ftruncate(file, (off_t)c->bytes) ||
        (c->shared = mmap(NULL, c->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)) == MAP_FAILED) {
        c->shared = NULL;
        close(file);
        return fake_say(ncclSystemError, "shared memory: %s", strerror(errno));
    }
    close(file);
    c->tag = id.secret;
    if (c->shared->secret != id.secret)
        return fake_say(ncclSystemError, "the process that made the unique id is gone");
    if (!atomic_compare_exchange_strong(&c->shared->size, &unset, c->size) && unset != c->size)
        return fake_say(ncclInvalidArgument, "rank %d says that there are %d ranks, others %d", c->rank, c->size,
                        unset);
    return ncclSuccess;
}

/* -- Beginning -- */

void fake_unref(struct ncclComm *c)
{
    if (--c->refs)
        return;
    if (c->shared)
        munmap(c->shared, c->bytes);
    free(c);
}

/* NCCL refuses a device twice. */
static void compare_devices(struct ncclComm *c)
{
    for (int k = 0; k < c->size; k++)
        for (int j = 0; j < k; j++)
            if (!memcmp(c->shared->ranks[k].device, c->shared->ranks[j].device, sizeof c->shared->ranks[k].device))
                fake_fail(c, ncclInvalidUsage, true, "Duplicate GPU detected : rank %d and rank %d", j, k);
}

/* locked: are all there? */
static void fake_starting(struct ncclComm *c)
{
    if (c->ready || c->error)
        return;
    for (int k = 0; k < c->size; k++)
        if (!atomic_load(&c->shared->ranks[k].here)) {
            if (fake_seconds() - c->since > fake_patience())
                fake_fail(c, ncclSystemError, false, "rank %d has not come", k);
            return;
        }
    c->ready = true;
    compare_devices(c);
}

static ncclResult_t enter(struct ncclComm *c)
{
    struct fake_rank *mine = &c->shared->ranks[c->rank];
    int absent = 0;
    if (cuDeviceGetUuid_v2(mine->device, c->device))
        return fake_say(ncclUnhandledCudaError, "the current device can't be described");
    mine->process = getpid();
    if (!atomic_compare_exchange_strong(&mine->here, &absent, 1))
        return fake_say(ncclInvalidUsage, "rank %d is there twice", c->rank);
    return ncclSuccess;
}

enum { FIRST_CONFIG = 24 }; /* bytes in NCCL 2.14: up to `blocking` */

static bool good_config(const ncclConfig_t *config)
{
    return !config || (config->magic == NCCL_CONFIG_MAGIC && config->size >= FIRST_CONFIG && config->version >= 21400 &&
                       (config->blocking == NCCL_CONFIG_UNDEF_INT || config->blocking == 0 || config->blocking == 1));
}

static ncclResult_t begin(struct ncclComm *c, const ncclUniqueId *id)
{
    ncclResult_t r;
    if (cuCtxGetCurrent(&c->ctx) || !c->ctx || cuCtxGetDevice(&c->device))
        return fake_say(ncclUnhandledCudaError, "no device is current");
    r = map(c, id);
    return r ? r : enter(c);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int size, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    struct ncclComm *c;
    ncclResult_t r;
    if (!out || size < 1 || size > FAKE_MAX_RANKS || rank < 0 || rank >= size || !good_config(config))
        return fake_say(ncclInvalidArgument, "rank %d of %d, or the configuration, is not valid", rank, size);
    if (!(c = calloc(1, sizeof *c)))
        return fake_say(ncclSystemError, "no memory");
    *c = (struct ncclComm){.magic = FAKE_MAGIC, .size = size, .rank = rank, .refs = 1, .since = fake_seconds()};
    c->blocking = !config || config->blocking != 0;
    if ((r = begin(c, &id))) {
        fake_unref(c);
        return r;
    }
    pthread_mutex_lock(&fake.lock);
    c->next = fake.comms;
    fake.comms = c;
    *out = c;
    while (c->blocking && !c->ready && !c->error) {
        fake_starting(c);
        pthread_mutex_unlock(&fake.lock);
        nanosleep(&(struct timespec){0, 200000}, NULL);
        pthread_mutex_lock(&fake.lock);
    }
    r = c->error ? c->error : c->ready ? ncclSuccess : ncclInProgress;
    pthread_mutex_unlock(&fake.lock);
    return r;
}

/* -- State -- */

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *error)
{
    bool enqueue = false;
    if (!fake_is(c) || !error)
        return fake_say(ncclInvalidArgument, "no communicator");
    pthread_mutex_lock(&fake.lock);
    fake_starting(c);
    if (!c->error && atomic_load(&c->shared->failed))
        fake_fail(c, ncclRemoteError, false, "%s", c->shared->why);
    if (!c->error && c->ready && c->waiting)
        enqueue = !c->polls--;
    pthread_mutex_unlock(&fake.lock);
    if (enqueue)
        fake_enqueue(c);
    pthread_mutex_lock(&fake.lock);
    *error = c->error ? c->error : !c->ready || c->waiting ? ncclInProgress : ncclSuccess;
    pthread_mutex_unlock(&fake.lock);
    return ncclSuccess;
}

/* -- End -- */

/* What is under way then ends without results; the others are told nothing. */
static void leave(struct ncclComm *c)
{
    UNLINK(fake.comms, c);
    c->aborted = true;
    c->magic = 0;
    atomic_store(&c->shared->ranks[c->rank].here, 2);
    for (struct fake_op *op = c->waiting, *next; op; op = next) {
        next = op->next;
        op->next = NULL;
        fake_op_unref(op);
    }
    c->waiting = NULL;
    fake_unref(c);
}

ncclResult_t ncclCommAbort(ncclComm_t c)
{
    if (!fake_is(c))
        return fake_say(ncclInvalidArgument, "no communicator");
    pthread_mutex_lock(&fake.lock);
    leave(c);
    pthread_mutex_unlock(&fake.lock);
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t c)
{
    if (!fake_is(c))
        return fake_say(ncclInvalidArgument, "no communicator");
    pthread_mutex_lock(&fake.lock);
    bool busy = c->first || c->waiting;
    if (!busy)
        leave(c);
    pthread_mutex_unlock(&fake.lock);
    return busy ? fake_say(ncclInvalidUsage, "the communicator has work under way") : ncclSuccess;
}

/* -- Operators with a factor -- */

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type, ncclScalarResidence_t where,
                                      ncclComm_t c)
{
    float f;
    if (!fake_is(c) || !op || !scalar || where != ncclScalarHostImmediate ||
        (type != ncclFloat32 && type != ncclFloat64))
        return fake_say(ncclInvalidArgument, "factors are float32 or float64 of the host here");
    for (int k = 0; k < (int)(sizeof c->factors / sizeof *c->factors); k++)
        if (!c->factors[k].used) {
            memcpy(&f, scalar, sizeof f);
            c->factors[k].used = true;
            c->factors[k].value = f;
            if (type == ncclFloat64)
                memcpy(&c->factors[k].value, scalar, sizeof(double));
            *op = (ncclRedOp_t)(ncclNumOps + k);
            return ncclSuccess;
        }
    return fake_say(ncclInternalError, "too many operators");
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t c)
{
    int k = (int)op - ncclNumOps;
    if (!fake_is(c) || k < 0 || k >= (int)(sizeof c->factors / sizeof *c->factors) || !c->factors[k].used)
        return fake_say(ncclInvalidArgument, "no operator that was created");
    c->factors[k].used = false;
    return ncclSuccess;
}
