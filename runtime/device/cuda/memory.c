/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a device. Where it has pools, memory is taken and given back in the order of a stream, and the other
 * streams wait for what stream 0 was given; else an allocation is there at once, and giving it back waits for all work.
 * A block that grows is a range of addresses into which memory is mapped piece by piece. Weights are uploaded once for
 * each model and device.
 */
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "runtime/device/cuda/cuda_int.h"

static void *pointer(uint64_t at)
{
    return (void *)(uintptr_t)at;
}

static uint64_t address(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

static int no_memory(struct tcr_cuda *c, int result, const char *call, size_t bytes)
{
    size_t free_bytes = 0, total = 0;

    if (result != CUDA_NO_MEMORY)
        return cuda_check(c, result, call, NULL);
    c->m->cu->cuMemGetInfo_v2(&free_bytes, &total);
    return tcr_fail(TCC_EENV, "device '%s': no memory for %zu bytes: %zu of its %zu are free", c->name, bytes,
                    free_bytes, total);
}

static int get_of_caller(struct tcr_cuda *c, int queue, uint64_t *at, size_t bytes)
{
    const struct tccrt_device_allocator *a = c->allocator;
    void *p = a->alloc(a->user, bytes, (uintptr_t)c->queues[queue].stream);

    *at = address(p);
    if (!p)
        return tcr_fail(TCC_EENV, "device '%s': the caller's allocator has no memory for %zu bytes", c->name, bytes);
    if (*at % TCR_ALIGN == 0)
        return TCC_OK;
    a->free(a->user, p, (uintptr_t)c->queues[queue].stream);
    *at = 0;
    return tcr_fail(TCC_EUSAGE, "device '%s': the caller's allocator gave memory at %p, expected %d-byte alignment",
                    c->name, p, TCR_ALIGN);
}

int cuda_get(struct tcr_cuda *c, int queue, uint64_t *at, size_t bytes)
{
    const struct cuda_api *cu = c->m->cu;
    size_t size = TCR_ROUND(bytes ? bytes : 1);
    int result;

    if (c->allocator)
        return get_of_caller(c, queue, at, size);
    if (c->m->pools)
        result = cu->cuMemAllocAsync(at, size, c->queues[queue].stream);
    else
        result = cu->cuMemAlloc_v2(at, size);
    return result ? no_memory(c, result, "cuMemAlloc", bytes) : TCC_OK;
}

void cuda_give(struct tcr_cuda *c, int queue, uint64_t at)
{
    if (!at)
        return;
    if (c->allocator)
        c->allocator->free(c->allocator->user, pointer(at), (uintptr_t)c->queues[queue].stream);
    else if (c->m->pools)
        c->m->cu->cuMemFreeAsync(at, c->queues[queue].stream);
    else
        c->m->cu->cuMemFree_v2(at);
}

void *cuda_alloc(struct tcr_device *d, int queue, size_t bytes, bool zeroed)
{
    struct tcr_cuda *c = cuda_of(d);
    uint64_t at = 0;
    int status = cuda_enter(c);

    if (!status)
        status = cuda_queue_ok(c, queue);
    if (!status)
        status = cuda_get(c, queue, &at, bytes);
    if (!status && zeroed && bytes)
        status = CU(c, NULL, cuMemsetD8Async, at, 0, bytes, c->queues[queue].stream);
    if (!status && (zeroed || c->m->pools || c->allocator))
        status = cuda_order_all(c, queue);
    if (cuda_leave(c, status))
        return NULL;
    tcr_holds(d, (ptrdiff_t)(TCR_ROUND(bytes ? bytes : 1)));
    return pointer(at);
}

void cuda_free(struct tcr_device *d, int queue, void *p, size_t bytes, bool zeroed)
{
    struct tcr_cuda *c = cuda_of(d);

    (void)zeroed;
    if (!p)
        return;
    tcr_holds(d, -(ptrdiff_t)TCR_ROUND(bytes ? bytes : 1));
    if (!cuda_enter(c) && !cuda_queue_ok(c, queue))
        cuda_give(c, queue, address(p));
    cuda_leave(c, TCC_OK);
}

/* -- Pinned memory of the host ------------------------------------------------------------------------------ */

void *cuda_host_alloc(struct tcr_device *d, size_t bytes)
{
    struct tcr_cuda *c = cuda_of(d);
    void *p = NULL;
    int status = cuda_enter(c);

    if (!status && !GROWN(c->hosts, c->nhosts, c->hosts_room, 16))
        status = tcr_fail(TCC_EENV, "no memory for a list of pinned memory");
    if (!status)
        status = CU(c, NULL, cuMemHostAlloc, &p, TCR_ROUND(bytes ? bytes : 1), 0);
    if (cuda_leave(c, status))
        return NULL;
    memset(p, 0, bytes);
    c->hosts[c->nhosts++] = (struct cuda_host){p, bytes};
    c->heap->held += TCR_ROUND(bytes ? bytes : 1);
    return p;
}

void cuda_host_free(struct tcr_device *d, void *p, size_t bytes)
{
    struct tcr_cuda *c = cuda_of(d);

    if (!p)
        return;
    for (size_t i = 0; i < c->nhosts; i++)
        if (c->hosts[i].at == p)
            c->hosts[i] = c->hosts[--c->nhosts];
    c->heap->held -= TCR_ROUND(bytes ? bytes : 1);
    if (!cuda_enter(c))
        c->m->cu->cuMemFreeHost(p);
    cuda_leave(c, TCC_OK);
}

/* -- Blocks that grow ------------------------------------------------------------------------------------ */

static struct cuda_range *range_of(struct tcr_cuda *c, uint64_t at)
{
    for (int i = 0; i < CUDA_MAX_RANGES; i++)
        if (c->ranges[i].at == at)
            return &c->ranges[i];
    return NULL;
}

static size_t up(const struct tcr_cuda *c, size_t bytes)
{
    return (bytes + c->m->granule - 1) / c->m->granule * c->m->granule;
}

/* Maps memory behind what the range has. */
static int map_more(struct tcr_cuda *c, struct cuda_range *r, size_t bytes)
{
    const struct cuda_api *cu = c->m->cu;
    struct cuda_memory_kind kind = {.type = 1, .location = 1, .id = c->m->device};
    struct cuda_memory_access access = {1, c->m->device, 3};
    size_t more = up(c, bytes) - r->mapped;
    uint64_t handle;
    int result = cu->cuMemCreate(&handle, more, &kind, 0);

    if (result)
        return no_memory(c, result, "cuMemCreate", more);
    result = cu->cuMemMap(r->at + r->mapped, more, 0, handle, 0);
    cu->cuMemRelease(handle); /* the mapping holds it */
    if (result)
        return cuda_check(c, result, "cuMemMap", NULL);
    if ((result = cu->cuMemSetAccess(r->at + r->mapped, more, &access, 1))) {
        cu->cuMemUnmap(r->at + r->mapped, more);
        return cuda_check(c, result, "cuMemSetAccess", NULL);
    }
    r->mapped += more;
    return TCC_OK;
}

static void end_range(struct tcr_cuda *c, struct cuda_range *r)
{
    if (r->mapped)
        c->m->cu->cuMemUnmap(r->at, r->mapped);
    c->m->cu->cuMemAddressFree(r->at, r->room);
    *r = (struct cuda_range){0};
}

/* Addresses for as much as the device has. NULL: none, and a block moves when it grows. */
static struct cuda_range *new_range(struct tcr_cuda *c)
{
    struct cuda_range *r = c->m->virtual_memory && !c->allocator ? range_of(c, 0) : NULL;
    size_t room = r ? up(c, c->m->memory) : 0;
    uint64_t at;

    if (!r || c->m->cu->cuMemAddressReserve(&at, room, 0, 0, 0))
        return NULL;
    *r = (struct cuda_range){at, room, 0};
    return r;
}

static void drop(struct tcr_cuda *c, uint64_t at)
{
    struct cuda_range *r = at ? range_of(c, at) : NULL;

    if (r)
        end_range(c, r);
    else if (c->allocator)
        cuda_give(c, 0, at);
    else if (at)
        c->m->cu->cuMemFree_v2(at);
}

static int grow(struct tcr_cuda *c, void **p, size_t *held, size_t bytes)
{
    struct cuda_range *r = *p ? range_of(c, address(*p)) : new_range(c);
    uint64_t at = 0;
    int result, status;

    if (r && bytes <= r->room) {
        if (up(c, bytes) > r->mapped && (status = map_more(c, r, bytes ? bytes : 1))) {
            if (!*p)
                end_range(c, r);
            return status;
        }
        *p = pointer(r->at);
        tcr_holds(&c->device, (ptrdiff_t)(TCR_ROUND(bytes) - TCR_ROUND(*held)));
        *held = bytes;
        return TCC_OK;
    }
    drop(c, address(*p));
    tcr_holds(&c->device, -(ptrdiff_t)TCR_ROUND(*held));
    *p = NULL;
    *held = 0;
    if (c->allocator) {
        if ((status = cuda_get(c, 0, &at, bytes)) || (status = cuda_order_all(c, 0)))
            return status;
    } else if ((result = c->m->cu->cuMemAlloc_v2(&at, TCR_ROUND(bytes ? bytes : 1)))) {
        return no_memory(c, result, "cuMemAlloc", bytes);
    }
    *p = pointer(at);
    tcr_holds(&c->device, (ptrdiff_t)(TCR_ROUND(bytes)));
    *held = bytes;
    return TCC_OK;
}

int cuda_grow(struct tcr_device *d, void **p, size_t *held, size_t bytes)
{
    struct tcr_cuda *c = cuda_of(d);
    int status;

    if (*p && *held >= bytes)
        return TCC_OK;
    status = cuda_enter(c);
    return cuda_leave(c, status ? status : grow(c, p, held, bytes));
}

void cuda_release(struct tcr_device *d, void *p, size_t held)
{
    struct tcr_cuda *c = cuda_of(d);

    if (!p)
        return;
    tcr_holds(d, -(ptrdiff_t)TCR_ROUND(held));
    if (!cuda_enter(c))
        drop(c, address(p));
    cuda_leave(c, TCC_OK);
}

/* -- Weights ------------------------------------------------------------------------------------------- */

static void free_weights(void *machine, void *p)
{
    struct cuda_machine *m = machine;
    cuda_context before;

    m->cu->cuCtxPushCurrent_v2(m->context);
    m->cu->cuMemFree_v2(address(p));
    m->cu->cuCtxPopCurrent_v2(&before);
    cuda_machine_put(m);
}

static int upload_weights(struct tcr_cuda *c, struct tccrt_model *m, const uint8_t **p)
{
    size_t bytes = tcr_device_weights(m);
    uint64_t at = 0;
    int result = c->m->cu->cuMemAlloc_v2(&at, TCR_ROUND(bytes)), status;

    if (result)
        return no_memory(c, result, "cuMemAlloc", bytes);
    status = cuda_upload(c, 0, at, m->weights, bytes, false, "weights");
    if (!status)
        status = CU(c, NULL, cuStreamSynchronize, c->queues[0].stream);
    if (!status) {
        cuda_machine_hold(c->m); /* the model's hold on it */
        *p = tcr_keep_uploaded(m, c->m, pointer(at), free_weights);
        if (*p == pointer(at))
            return TCC_OK;
        cuda_machine_put(c->m); /* another session was faster, or there is no memory */
        status = *p ? TCC_OK : TCC_EENV;
    }
    c->m->cu->cuMemFree_v2(at);
    return status;
}

/* A session with an allocator has weights of its own. */
static int own_weights(struct tcr_cuda *c, const struct tccrt_model *m, const uint8_t **p)
{
    size_t bytes = tcr_device_weights(m);
    int status = cuda_get(c, 0, &c->own_weights, bytes);

    if (!status)
        status = cuda_upload(c, 0, c->own_weights, m->weights, bytes, false, "weights");
    if (!status)
        status = CU(c, NULL, cuStreamSynchronize, c->queues[0].stream);
    *p = pointer(c->own_weights);
    return status;
}

int cuda_weights(struct tcr_device *d, struct tccrt_model *m, const uint8_t **p)
{
    struct tcr_cuda *c = cuda_of(d);
    size_t bytes = tcr_device_weights(m);
    int status;

    *p = NULL;
    if (c->allocator && bytes) {
        status = cuda_enter(c);
        return cuda_leave(c, status ? status : own_weights(c, m, p));
    }
    if ((*p = tcr_uploaded(m, c->m)) || !bytes)
        return TCC_OK;
    status = cuda_enter(c);
    return cuda_leave(c, status ? status : upload_weights(c, m, p));
}
