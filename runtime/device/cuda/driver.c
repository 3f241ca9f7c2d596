/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver of the process: libcuda.so.1, or $TCCC_CUDA_LIBRARY; or the simulator, libtccptx.so.0. It is opened
 * when a session first asks for it and stays open, as the driver wants it. Sessions share a device's primary context,
 * which is also the one of other libraries of the process.
 */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/cuda/cuda_int.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cuda_api apis[2] = {{.name = "cuda"}, {.name = "sim"}};
static struct cuda_machine *machines;

void cuda_lock(void)
{
    pthread_mutex_lock(&lock);
}

void cuda_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

int cuda_says(const struct cuda_machine *m, int result, const char *call, const char *node)
{
    const char *text = NULL, *name = NULL;

    m->cu->cuGetErrorString(result, &text);
    m->cu->cuGetErrorName(result, &name);
    return tcr_fail(TCC_EENV, "device '%s:%d': %s%s%s%s: %s (%s)", m->cu->name, m->ordinal,
                    node && *node ? "node '" : "", node && *node ? node : "", node && *node ? "': " : "", call,
                    text ? text : "unknown error", name ? name : "?");
}

/* -- The library -------------------------------------------------------------------------------------- */

static int missing(const struct cuda_api *a, const char *why)
{
    if (a == &apis[1])
        return tcr_fail(TCC_EENV, "no simulator of CUDA devices (%s)", why);
    return tcr_fail(TCC_EENV, "no CUDA driver (%s); --device=sim runs it in the simulator", why);
}

static int find_functions(struct cuda_api *a, const char *path)
{
    const char *lacks = NULL;
    char why[PATH_MAX + 80];
    int result, (*version)(int *) = NULL;

    *(void **)&version = dlsym(a->library, "cuDriverGetVersion");
    if (version && !version(&a->version) && a->version < CUDA_OLDEST)
        return tcr_fail(TCC_EENV,
                        "the CUDA driver (%s) is too old: it is of CUDA %d.%d, expected %d.%d or newer: update it",
                        path, a->version / 1000, a->version % 1000 / 10, CUDA_OLDEST / 1000, CUDA_OLDEST % 1000 / 10);
#define NEEDS(fn, args)                               \
    if (!(*(void **)&a->fn = dlsym(a->library, #fn))) \
        lacks = #fn;
#define MAY(fn, args) *(void **)&a->fn = dlsym(a->library, #fn);
#include "runtime/device/cuda/driver.def"
    if (lacks) {
        snprintf(why, sizeof why, "%s: it has no %s", path, lacks);
        return missing(a, why);
    }
    if ((result = a->cuInit(0)) || (result = a->cuDeviceGetCount(&a->devices)) ||
        (result = a->devices > 0 ? 0 : CUDA_NO_DEVICE)) {
        const char *text = NULL;

        a->cuGetErrorString(result, &text);
        snprintf(why, sizeof why, "%s: %s", path, text ? text : "it could not be started");
        if (a == &apis[1] && result == CUDA_NO_DEVICE && getenv("TCCC_SIM_MACHINE"))
            return tcr_fail(TCC_EENV,
                            "no simulated device: TCCC_SIM_MACHINE=%s is none, or TCCC_SIM_DEVICES=%s no number",
                            getenv("TCCC_SIM_MACHINE"), getenv("TCCC_SIM_DEVICES") ? getenv("TCCC_SIM_DEVICES") : "");
        return result == CUDA_NO_DEVICE
                   ? tcr_fail(TCC_EENV, "no CUDA device (%s); --device=sim runs it in the simulator", why)
                   : missing(a, why);
    }
    return TCC_OK;
}

/* The caller holds the lock. */
static int open_library(struct cuda_api *a)
{
    const char *given = a == &apis[0] ? tccrt_env_text("TCCC_CUDA_LIBRARY") : NULL;
    char found[PATH_MAX];
    const char *path = given ? given : a == &apis[0] ? "libcuda.so.1" : tcr_library_path("libtccptx.so.0", found);
    const char *why;
    int status;

    if (a->library)
        return TCC_OK;
    if (!(a->library = dlopen(path, RTLD_NOW | RTLD_LOCAL))) {
        why = dlerror();
        return missing(a, why ? why : path);
    }
    if ((status = find_functions(a, path))) {
        dlclose(a->library);
        a->library = NULL;
    }
    return status;
}

/* -- Devices ------------------------------------------------------------------------------------------ */

static int attribute(const struct cuda_machine *m, int which)
{
    int value = 0;

    return m->cu->cuDeviceGetAttribute(&value, which, m->device) ? 0 : value;
}

static int load_helper(struct cuda_machine *m)
{
    const struct cuda_api *cu = m->cu;
    int result = cu->cuModuleLoadDataEx(&m->helper, cuda_helper_ptx, 0, NULL, NULL);

    if (!result)
        result = cu->cuModuleGetFunction(&m->copy, m->helper, "tccrt_copy");
    if (!result)
        result = cu->cuModuleGetFunction(&m->note, m->helper, "tccrt_note");
    return result ? result : cu->cuModuleGetFunction(&m->probe, m->helper, "tccrt_probe");
}

/* Freed blocks of its pool stay with the process. */
static void keep_pool(const struct cuda_machine *m)
{
    uint64_t all = UINT64_MAX;
    cuda_pool pool;

    if (m->pools && m->cu->cuDeviceGetDefaultMemPool && m->cu->cuMemPoolSetAttribute &&
        !m->cu->cuDeviceGetDefaultMemPool(&pool, m->device))
        m->cu->cuMemPoolSetAttribute(pool, CUDA_POOL_KEEPS, &all);
}

static int describe(struct cuda_machine *m)
{
    const struct cuda_api *cu = m->cu;
    struct cuda_memory_kind kind = {.type = 1, .location = 1, .id = m->device};

    m->major = attribute(m, CUDA_MAJOR);
    m->minor = attribute(m, CUDA_MINOR);
    m->multiprocessors = attribute(m, CUDA_MULTIPROCESSORS);
    m->pools = attribute(m, CUDA_HAS_POOLS) && cu->cuMemAllocAsync && cu->cuMemFreeAsync;
    m->virtual_memory = attribute(m, CUDA_HAS_VIRTUAL) && cu->cuMemAddressReserve && cu->cuMemAddressFree &&
                        cu->cuMemCreate && cu->cuMemRelease && cu->cuMemMap && cu->cuMemUnmap && cu->cuMemSetAccess &&
                        cu->cuMemGetAllocationGranularity &&
                        !cu->cuMemGetAllocationGranularity(&m->granule, &kind, 0) && m->granule;
    keep_pool(m);
    return cu->cuDeviceGetName(m->name, sizeof m->name, m->device);
}

static struct cuda_machine *open_machine(const struct cuda_api *cu, int ordinal, int *status)
{
    struct cuda_machine *m = calloc(1, sizeof *m);
    const char *call = "cuDeviceGet";
    int result;

    if (!m) {
        *status = tcr_fail(TCC_EENV, "no memory for device '%s'", cu->name);
        return NULL;
    }
    *m = (struct cuda_machine){.next = machines, .cu = cu, .ordinal = ordinal};
    if (!(result = cu->cuDeviceGet(&m->device, ordinal)) && !(result = describe(m)) &&
        !(result = cu->cuDeviceTotalMem_v2(&m->memory, m->device))) {
        call = "cuDevicePrimaryCtxRetain";
        result = cu->cuDevicePrimaryCtxRetain(&m->context, m->device);
    }
    if (!result) {
        cuda_context before;

        call = "cuModuleLoadDataEx";
        cu->cuCtxPushCurrent_v2(m->context);
        result = load_helper(m);
        cu->cuCtxPopCurrent_v2(&before);
    }
    if (result) {
        *status = cuda_says(m, result, call, NULL);
        if (m->context)
            cu->cuDevicePrimaryCtxRelease_v2(m->device);
        free(m);
        return NULL;
    }
    return machines = m;
}

/* Ranks of one machine take its devices in turn. */
static int local_rank(void)
{
    static const char *const names[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]))
            return atoi(getenv(names[i]));
    return 0;
}

enum { NO_NUMBER = -1, NONE_LEFT = -2 };

/* The number behind the colon, of a list the local rank's. Ranks of a machine without a list take its devices in
 * turn. */
static int ordinal_of(const char *name, const struct cuda_api *a)
{
    const char *at = strchr(name, ':');
    int mine = local_rank() & 0xffff, found = NONE_LEFT;
    bool list = at && strchr(at, ',');

    if (!at)
        return mine % a->devices;
    for (int i = 0; *at; i++) { /* behind a colon or comma */
        char *end;
        long k = strtol(at + 1, &end, 10);

        if (at[1] < '0' || at[1] > '9' || (*end && *end != ',') || k >= INT_MAX)
            return NO_NUMBER;
        found = !list || i == mine ? (int)k : found;
        at = end;
    }
    return found;
}

static struct cuda_machine *get(const char *name, int *status)
{
    struct cuda_api *a = &apis[!strncmp(name, "sim", 3)];
    struct cuda_machine *m = machines;
    int k;

    if ((*status = open_library(a)))
        return NULL;
    k = ordinal_of(name, a);
    if (k < 0) {
        *status = k == NONE_LEFT ? tcr_fail(TCC_EUSAGE, "no device in '%s' for local rank %d", name, local_rank())
                                 : tcr_fail(TCC_EUSAGE,
                                            "no device '%s': expected %s, %s:K, a number, or %s:K,K... for local ranks",
                                            name, a->name, a->name, a->name);
        return NULL;
    }
    if (k >= a->devices) {
        *status = tcr_fail(TCC_EENV, "no device '%s': there %s %d", name, a->devices == 1 ? "is" : "are", a->devices);
        return NULL;
    }
    while (m && (m->cu != a || m->ordinal != k))
        m = m->next;
    if (!m && !(m = open_machine(a, k, status)))
        return NULL;
    m->users++;
    return m;
}

struct cuda_machine *cuda_machine_get(const char *name, int *status)
{
    struct cuda_machine *m;

    cuda_lock();
    m = get(name, status);
    cuda_unlock();
    return m;
}

void cuda_machine_hold(struct cuda_machine *m)
{
    cuda_lock();
    m->users++;
    cuda_unlock();
}

void cuda_machine_put(struct cuda_machine *m)
{
    struct cuda_machine **at = &machines;
    cuda_context before;

    cuda_lock();
    if (--m->users == 0) {
        while (*at != m)
            at = &(*at)->next;
        *at = m->next;
        m->cu->cuCtxPushCurrent_v2(m->context);
        m->cu->cuModuleUnload(m->helper);
        m->cu->cuCtxPopCurrent_v2(&before);
        m->cu->cuDevicePrimaryCtxRelease_v2(m->device);
        free(m);
    }
    cuda_unlock();
}
