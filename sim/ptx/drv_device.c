/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Initialisation, devices, contexts, errors, entry points. The environment says what is simulated: TCCC_SIM_MACHINE (an
 * id of machines.def, h100), TCCC_SIM_DEVICES (how many, 1), TCCC_SIM_THREADS (host threads of a launch),
 * TCCC_SIM_CHECK=none (no checks of initialisation and races), TCCC_ORDER_SEED, and what drv_fault.c reads.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/ptx/drv_int.h"
#include "sim/ptx/ptx_int.h"
#include "sim/time.h"

_Static_assert(sizeof(CUlaunchConfig) == 56 && sizeof(CUlaunchAttribute) == 72 && sizeof(CUDA_KERNEL_NODE_PARAMS) == 72,
               "launches");
_Static_assert(sizeof(CUDA_MEMSET_NODE_PARAMS) == 40 && sizeof(CUDA_MEMCPY3D) == 200 && sizeof(CUDA_MEMCPY2D) == 128,
               "copies");
_Static_assert(sizeof(CUmemAllocationProp) == 32 && sizeof(CUmemAccessDesc) == 12 && sizeof(CUuuid) == 16, "memory");

struct drv drv = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .untimed_end = &drv.untimed};

enum { MAX_STACK = 32 };
static __thread CUcontext stack[MAX_STACK];
static __thread int depth;
__thread bool drv_in_callback;

CUcontext drv_current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

CUresult drv_enter(const char *function, int need)
{
    pthread_mutex_lock(&drv.lock);
    CUcontext ctx = drv_current();
    CUresult r;
    if (drv_in_callback)
        return CUDA_ERROR_NOT_PERMITTED;
    if (!drv.ready)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (need & NEED_CTX && !ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (need & NEED_CTX && ctx->magic != MAGIC_CTX)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (need & NEED_CTX && ctx->sticky)
        return ctx->sticky;
    if ((r = drv_fault_call(function))) {
        if (ctx && need & NEED_CTX && drv_is_sticky(r))
            ctx->sticky = r;
        return r;
    }
    if (need & NEED_SAFE && drv_capture_forbids())
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (need & NEED_QUIET)
        drv_quiet();
    drv.faults.waits += need & WAITS ? 1 : 0;
    return CUDA_SUCCESS;
}

CUresult drv_leave(CUresult r)
{
    pthread_mutex_unlock(&drv.lock);
    return r;
}

CUresult drv_told(const char *function, CUresult r)
{
    const char *name;
    if (drv.transcript) {
        cuGetErrorName(r, &name);
        fprintf(drv.transcript, "%s %s\n", function, name ? name : "?");
    }
    return r;
}

/* -- Initialisation -- */

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static CUresult init(unsigned flags)
{
    char error[PTX_ERROR];
    const char *check = getenv("TCCC_SIM_CHECK"), *machine = getenv("TCCC_SIM_MACHINE"),
               *transcript = getenv("TCCC_SIM_CALLS");
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (drv.ready)
        return CUDA_SUCCESS;
    drv.machine = sim_machine(machine && *machine ? machine : "h100");
    drv.ndevices = (int)number("TCCC_SIM_DEVICES", 1);
    if (!drv.machine || drv.ndevices < 1 || drv.ndevices > DRV_MAX_DEVICES)
        return CUDA_ERROR_NO_DEVICE;
    drv.random = drv.seed = number("TCCC_ORDER_SEED", 0);
    if (transcript && *transcript && !drv.transcript && (drv.transcript = fopen(transcript, "w")))
        setvbuf(drv.transcript, NULL, _IOLBF, 0); /* complete whatever becomes of the process */
    drv.memory = (size_t)number("TCCC_SIM_MEMORY", (uint64_t)drv.machine->memory_gib << 30);
    CUresult r = drv_fault_init();
    if (r)
        return r;
    for (int k = 0; k < drv.ndevices; k++) {
        struct ptx_config config = {.threads = (int)number("TCCC_SIM_THREADS", 0),
                                    .seed = drv.seed,
                                    .checks = true,
                                    .shared_limit = drv.machine->shared_block};
        config.checks = !check || strcmp(check, "none") != 0;
        drv.devices[k].pool.device = k;
        if (!(drv.devices[k].d = ptx_device_new(&config, error)))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    drv.ready = true;
    return CUDA_SUCCESS;
}

CUresult cuInit(unsigned flags)
{
    pthread_mutex_lock(&drv.lock);
    return drv_leave(drv_in_callback ? CUDA_ERROR_NOT_PERMITTED : init(flags));
}

CUresult cuDriverGetVersion(int *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&drv.lock);
    CUresult r = drv_fault_init(); /* it may be asked before cuInit() */
    *version = drv.faults.version;
    return drv_leave(r);
}

/* -- Errors and entry points -- */

static const struct {
    int number;
    const char *name, *text;
} errors[] = {
#define ERROR(number, name, text) {number, #name, text},
#include "sim/ptx/errors.def"
};

static CUresult describe(CUresult error, const char **to, bool text)
{
    if (!to)
        return CUDA_ERROR_INVALID_VALUE;
    *to = NULL;
    for (size_t k = 0; k < sizeof errors / sizeof *errors; k++)
        if (errors[k].number == (int)error)
            *to = text ? errors[k].text : errors[k].name;
    return *to ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult drv_error_named(const char *text, size_t n)
{
    char *end;
    long number = strtol(text, &end, 10);
    for (size_t k = 0; k < sizeof errors / sizeof *errors; k++)
        if (end == text + n ? errors[k].number == number
                            : strlen(errors[k].name) == n && !memcmp(errors[k].name, text, n))
            return (CUresult)errors[k].number;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    return describe(error, text, true);
}

CUresult cuGetErrorName(CUresult error, const char **name)
{
    return describe(error, name, false);
}

typedef void any_fn(void);
static const struct {
    const char *name;
    int version;
    any_fn *fn;
} functions[] = {
#define FN(symbol, name, version, args) {name, version, (any_fn *)symbol},
#include "sim/ptx/driver.def"
};

CUresult cuGetProcAddress_v2(const char *name, void **fn, int version, uint64_t flags, int *status)
{
    enum { FOUND, NOT_FOUND, TOO_OLD };
    int state = NOT_FOUND, best = 0;
    if (!name || !fn || flags > 2)
        return CUDA_ERROR_INVALID_VALUE;
    *fn = NULL;
    for (size_t k = 0; k < sizeof functions / sizeof *functions && flags != 2; k++) {
        if (strcmp(functions[k].name, name) != 0)
            continue;
        if (functions[k].version > version) {
            state = state == FOUND ? FOUND : TOO_OLD;
        } else if (functions[k].version >= best) {
            memcpy(fn, &functions[k].fn, sizeof *fn);
            best = functions[k].version;
            state = FOUND;
        }
    }
    if (status)
        *status = state;
    return state == FOUND || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* -- Devices -- */

static CUresult ordinal(CUdevice d)
{
    return d >= 0 && d < drv.ndevices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult text(char *to, int size, CUdevice device, const char *what)
{
    if (!to || size <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = ordinal(device);
    if (!r)
        snprintf(to, (size_t)size, "%s", what);
    return r;
}

static CUresult bus_id(char *to, int size, CUdevice device)
{
    char id[32];
    snprintf(id, sizeof id, "0000:%02X:00.0", device + 1);
    return text(to, size, device, id);
}

static CUresult attribute(int *value, int which, CUdevice device)
{
    const struct sim_machine *m = drv.machine;
    if (!value || which < 1 || which > 147)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = ordinal(device);
    if (r)
        return r;
    switch (which) {
#define ATTRIBUTE(number, is) \
    case number:              \
        *value = (int)(is);   \
        break;
#include "sim/ptx/attributes.def"
#undef ATTRIBUTE
    case 33: *value = device + 1; break; /* PCI bus */
    default: *value = 0;
    }
    return CUDA_SUCCESS;
}

static CUresult uuid(CUuuid *to, CUdevice device)
{
    if (!to || ordinal(device))
        return to ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
    memcpy(to->bytes, "tccc simulator\0", sizeof to->bytes);
    to->bytes[15] = (uint8_t)device;
    return CUDA_SUCCESS;
}

static CUresult put(int *to, int value)
{
    if (!to)
        return CUDA_ERROR_INVALID_VALUE;
    *to = value;
    return CUDA_SUCCESS;
}

static CUresult total(size_t *bytes, CUdevice device)
{
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = drv.memory;
    return ordinal(device);
}

static CUresult pool(CUmemoryPool *to, CUdevice device)
{
    if (!to || ordinal(device))
        return to ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
    *to = &drv.devices[device].pool;
    return CUDA_SUCCESS;
}

API(cuDeviceGet, NEED_INIT, (CUdevice * device, int n), ordinal(n) ? ordinal(n) : put(device, n))
API(cuDeviceGetCount, NEED_INIT, (int *count), put(count, drv.ndevices))
API(cuDeviceGetName, NEED_INIT, (char *name, int size, CUdevice device), text(name, size, device, drv.machine->name))
API(cuDeviceGetUuid_v2, NEED_INIT, (CUuuid * id, CUdevice device), uuid(id, device))
API(cuDeviceGetPCIBusId, NEED_INIT, (char *id, int size, CUdevice device), bus_id(id, size, device))
API(cuDeviceTotalMem_v2, NEED_INIT, (size_t * bytes, CUdevice device), total(bytes, device))
API(cuDeviceGetAttribute, NEED_INIT, (int *value, int which, CUdevice device), attribute(value, which, device))
API(cuDeviceCanAccessPeer, NEED_INIT, (int *can, CUdevice a, CUdevice b),
    ordinal(a) || ordinal(b) ? CUDA_ERROR_INVALID_DEVICE : put(can, a != b))
API(cuDeviceGetDefaultMemPool, NEED_INIT, (CUmemoryPool * to, CUdevice device), pool(to, device))
API(cuDeviceGetMemPool, NEED_INIT, (CUmemoryPool * to, CUdevice device), pool(to, device))

/* -- Contexts -- */

static CUcontext context(int device, unsigned flags, bool primary)
{
    CUcontext c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    *c = (struct CUctx_st){.magic = MAGIC_CTX, .device = device, .refs = 1, .primary = primary, .flags = flags};
    c->legacy = (struct CUstream_st){.magic = MAGIC_STREAM, .ctx = c, .legacy = true};
    return c;
}

/* Ends a context; its handle stays, so that later uses are told from others. */
static void end(CUcontext c)
{
    drv_drain(c);
    drv_quiet();
    while (c->streams)
        drv_stream_drop(c->streams);
    drv_stream_drop(&c->legacy);
    while (c->events)
        drv_event_drop(c->events);
    while (c->modules)
        drv_module_drop(c->modules);
    c->magic = 0;
    if (c->primary) {
        drv.devices[c->device].primary = NULL;
        drv_device_reset(c->device);
    }
}

static CUresult retain(CUcontext *to, CUdevice device)
{
    if (!to || ordinal(device))
        return to ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
    struct drv_device *d = &drv.devices[device];
    if (d->lost)
        return CUDA_ERROR_DEVICE_UNAVAILABLE;
    if (d->primary)
        d->primary->refs++;
    else if (!(d->primary = context(device, d->primary_flags, true)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *to = d->primary;
    return CUDA_SUCCESS;
}

static CUresult release(CUdevice device, bool all)
{
    if (ordinal(device))
        return CUDA_ERROR_INVALID_DEVICE;
    CUcontext c = drv.devices[device].primary;
    if (!c)
        return all ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    if (all || !--c->refs)
        end(c);
    return CUDA_SUCCESS;
}

static CUresult primary_flags(CUdevice device, unsigned flags)
{
    if (ordinal(device) || flags & ~0x1fu)
        return ordinal(device) ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
    drv.devices[device].primary_flags = flags;
    if (drv.devices[device].primary)
        drv.devices[device].primary->flags = flags;
    return CUDA_SUCCESS;
}

static CUresult primary_state(CUdevice device, unsigned *flags, int *active)
{
    if (ordinal(device) || !flags || !active)
        return ordinal(device) ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
    *flags = drv.devices[device].primary_flags;
    *active = drv.devices[device].primary != NULL;
    return CUDA_SUCCESS;
}
API(cuDevicePrimaryCtxRetain, NEED_INIT, (CUcontext * ctx, CUdevice device), retain(ctx, device))
API(cuDevicePrimaryCtxRelease_v2, NEED_INIT, (CUdevice device), release(device, false))
API(cuDevicePrimaryCtxReset_v2, NEED_INIT, (CUdevice device), release(device, true))
API(cuDevicePrimaryCtxSetFlags_v2, NEED_INIT, (CUdevice device, unsigned flags), primary_flags(device, flags))
API(cuDevicePrimaryCtxGetState, NEED_INIT, (CUdevice device, unsigned *flags, int *active),
    primary_state(device, flags, active))

static CUresult push(CUcontext ctx)
{
    if (!IS(ctx, CTX))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (depth == MAX_STACK)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stack[depth++] = ctx;
    return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *ctx)
{
    if (!depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (ctx)
        *ctx = stack[depth];
    return CUDA_SUCCESS;
}

static CUresult set_current(CUcontext ctx)
{
    if (ctx && ctx->magic != MAGIC_CTX)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth -= depth > 0;
    return ctx ? push(ctx) : CUDA_SUCCESS;
}

static CUresult create(CUcontext *to, unsigned flags, CUdevice device)
{
    if (!to || ordinal(device))
        return to ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
    *to = context(device, flags, false);
    return *to ? push(*to) : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult destroy(CUcontext ctx)
{
    if (!IS(ctx, CTX) || ctx->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    end(ctx);
    depth -= depth > 0 && stack[depth - 1] == ctx;
    return CUDA_SUCCESS;
}
API(cuCtxCreate_v2, NEED_INIT, (CUcontext * ctx, unsigned flags, CUdevice device), create(ctx, flags, device))
API(cuCtxDestroy_v2, NEED_INIT, (CUcontext ctx), destroy(ctx))
API(cuCtxSetCurrent, NEED_INIT, (CUcontext ctx), set_current(ctx))
API(cuCtxPushCurrent_v2, NEED_INIT, (CUcontext ctx), push(ctx))
API(cuCtxPopCurrent_v2, NEED_INIT, (CUcontext * ctx), pop(ctx))

static CUresult get_current(CUcontext *ctx)
{
    if (!ctx)
        return CUDA_ERROR_INVALID_VALUE;
    *ctx = drv_current();
    return CUDA_SUCCESS;
}
API(cuCtxGetCurrent, NEED_INIT, (CUcontext * ctx), get_current(ctx))
API(cuCtxGetDevice, NEED_INIT, (CUdevice * device),
    drv_current() ? put(device, drv_current()->device) : CUDA_ERROR_INVALID_CONTEXT)
API(cuCtxGetFlags, NEED_CTX, (unsigned *flags), put((int *)flags, (int)drv_current()->flags))
API(cuCtxGetApiVersion, NEED_INIT, (CUcontext ctx, unsigned *version),
    !ctx || IS(ctx, CTX) ? put((int *)version, 3020) : CUDA_ERROR_INVALID_CONTEXT)

static CUresult synchronize(void)
{
    CUcontext ctx = drv_current();
    for (struct drv_capture *c = drv.captures; c; c = c->next)
        if (c->ctx == ctx) {
            c->broken = true;
            return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    drv_drain(ctx);
    return ctx->sticky;
}
API(cuCtxSynchronize, NEED_CTX | WAITS, (void), synchronize())

static CUresult priorities(int *least, int *greatest)
{
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUDA_SUCCESS;
}
API(cuCtxGetStreamPriorityRange, NEED_CTX, (int *least, int *greatest), priorities(least, greatest))

/* Kernels of the current context reach memory of the peer's device, not the other way round. */
static CUresult peer_access(CUcontext peer, bool enable)
{
    CUcontext c = drv_current();
    if (!IS(peer, CTX))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (peer->device == c->device)
        return enable ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    unsigned bit = 1u << peer->device;
    if (enable == !!(c->peers & bit))
        return enable ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    if (!enable)
        drv_drain(c); /* launches that were given with it keep it */
    c->peers ^= bit;
    return CUDA_SUCCESS;
}
API(cuCtxEnablePeerAccess, NEED_CTX, (CUcontext peer, unsigned flags),
    flags || peer == drv_current() ? CUDA_ERROR_INVALID_VALUE : peer_access(peer, true))
API(cuCtxDisablePeerAccess, NEED_CTX, (CUcontext peer), peer_access(peer, false))

static CUresult peer_attribute(int *value, int which, CUdevice a, CUdevice b)
{
    enum { RANK = 1, SUPPORTED, ATOMICS, ARRAYS };
    if (!value || which < RANK || which > ARRAYS)
        return CUDA_ERROR_INVALID_VALUE;
    if (ordinal(a) || ordinal(b) || a == b)
        return CUDA_ERROR_INVALID_DEVICE;
    return put(value, which == SUPPORTED || which == ATOMICS);
}
API(cuDeviceGetP2PAttribute, NEED_INIT, (int *value, int which, CUdevice a, CUdevice b),
    peer_attribute(value, which, a, b))
