/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory (CUDA Driver API, "Memory management", "Unified addressing", "Stream ordered memory allocator", "Virtual
 * memory management"). Pinned memory has one address for host and devices. What cuMemAllocAsync gives is there at once
 * and goes when the stream reaches its cuMemFreeAsync; a use before or after is found by the checks of accesses.
 */
#include <string.h>
#include <sys/mman.h>

#include "sim/ptx/drv_int.h"

#define GRANULE ((size_t)2 << 20)

static struct drv_device *device(void)
{
    return &drv.devices[drv_current()->device];
}

int drv_device_of(uint64_t address)
{
    for (int k = 0; k < drv.nmappings; k++) /* a range of any device's addresses may hold any one's memory */
        if (address - drv.mappings[k].at < drv.mappings[k].bytes)
            return drv.memories[drv.mappings[k].memory].device;
    for (int k = 0; k < drv.ndevices; k++)
        if (ptx_is_device(drv.devices[k].d, address))
            return k;
    return -1;
}

bool drv_is_pinned(uint64_t address, size_t bytes)
{
    for (int k = 0; k < drv.npinned; k++)
        if (address - (uintptr_t)drv.pinned[k].p < drv.pinned[k].bytes &&
            bytes <= drv.pinned[k].bytes - (address - (uintptr_t)drv.pinned[k].p))
            return true;
    return false;
}

static struct drv_alloc *allocation(struct drv_device *d, CUdeviceptr at)
{
    for (int k = 0; k < d->nallocs; k++)
        if (at - d->allocs[k].at < d->allocs[k].bytes)
            return &d->allocs[k];
    return NULL;
}

/* Is all of it in an allocation, or in mapped memory? */
bool drv_is_device(uint64_t address, size_t bytes)
{
    int k = drv_device_of(address);
    char error[PTX_ERROR];
    return k < 0 ? drv_is_pinned(address, bytes) : ptx_valid(drv.devices[k].d, address, bytes, error);
}

/* -- Allocations -- */

static CUresult allocate(CUdeviceptr *address, size_t bytes, bool is_async)
{
    char error[PTX_ERROR];
    struct drv_device *d = device();
    if (!address || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    size_t total = drv.memory;
    if (bytes > total || d->used > total - bytes ||
        !drv_room(&d->allocs, d->nallocs, &d->alloc_room, sizeof *d->allocs))
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t at = ptx_alloc(d->d, bytes, is_async ? "cuMemAllocAsync" : "cuMemAlloc", error);
    if (!at)
        return CUDA_ERROR_OUT_OF_MEMORY;
    d->allocs[d->nallocs++] = (struct drv_alloc){at, bytes, is_async};
    d->used += bytes;
    if (is_async)
        d->pool_high = d->used > d->pool_high ? d->used : d->pool_high;
    *address = at;
    return CUDA_SUCCESS;
}
API(cuMemAlloc_v2, NEED_CTX | NEED_SAFE | NEED_QUIET, (CUdeviceptr * address, size_t bytes),
    allocate(address, bytes, false))

void drv_release(struct drv_device *d, CUdeviceptr at)
{
    char error[PTX_ERROR];
    struct drv_alloc *a = allocation(d, at);
    if (!a || a->at != at)
        return;
    ptx_free(d->d, at, error);
    d->used -= a->bytes;
    *a = d->allocs[--d->nallocs];
}

void drv_device_reset(int k)
{
    struct drv_device *d = &drv.devices[k];
    while (d->nallocs)
        drv_release(d, d->allocs[0].at);
}

static CUresult release(CUdeviceptr at)
{
    if (!at)
        return CUDA_SUCCESS;
    int k = drv_device_of(at);
    struct drv_alloc *a = k < 0 ? NULL : allocation(&drv.devices[k], at);
    if (!a || a->at != at)
        return CUDA_ERROR_INVALID_VALUE;
    drv_drain(NULL); /* it waits for all work that may use it */
    drv_quiet();
    drv_release(&drv.devices[k], at);
    return CUDA_SUCCESS;
}
API(cuMemFree_v2, NEED_CTX | NEED_SAFE | WAITS, (CUdeviceptr address), release(address))

static CUresult info(size_t *free_bytes, size_t *total)
{
    size_t all = drv.memory;
    if (!free_bytes || !total)
        return CUDA_ERROR_INVALID_VALUE;
    *total = all;
    *free_bytes = all - device()->used;
    return CUDA_SUCCESS;
}
API(cuMemGetInfo_v2, NEED_CTX, (size_t * free_bytes, size_t *total), info(free_bytes, total))

static bool range_of(CUdeviceptr at, uint64_t *base, size_t *bytes)
{
    int k = drv_device_of(at);
    struct drv_alloc *a = k < 0 ? NULL : allocation(&drv.devices[k], at);
    if (a) {
        *base = a->at;
        *bytes = a->bytes;
        return true;
    }
    for (int j = 0; j < drv.nmappings; j++)
        if (at - drv.mappings[j].at < drv.mappings[j].bytes) {
            *base = drv.mappings[j].at;
            *bytes = drv.mappings[j].bytes;
            return true;
        }
    for (int j = 0; j < drv.npinned; j++)
        if (at - (uintptr_t)drv.pinned[j].p < drv.pinned[j].bytes) {
            *base = (uintptr_t)drv.pinned[j].p;
            *bytes = drv.pinned[j].bytes;
            return true;
        }
    return false;
}

static CUresult address_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr at)
{
    uint64_t b;
    size_t n;
    if (!range_of(at, &b, &n))
        return CUDA_ERROR_NOT_FOUND;
    if (base)
        *base = b;
    if (bytes)
        *bytes = n;
    return CUDA_SUCCESS;
}
API(cuMemGetAddressRange_v2, NEED_CTX, (CUdeviceptr * base, size_t *bytes, CUdeviceptr at),
    address_range(base, bytes, at))

/* -- Pinned memory -- */

static CUresult pin(void *p, size_t bytes, unsigned flags, bool registered)
{
    char error[PTX_ERROR];
    if (!drv_room(&drv.pinned, drv.npinned, &drv.pinned_room, sizeof *drv.pinned))
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (int k = 0; k < drv.ndevices; k++)
        if (!ptx_map_host(drv.devices[k].d, p, bytes, registered ? "cuMemHostRegister" : "cuMemHostAlloc", error)) {
            while (k-- > 0)
                ptx_unmap(drv.devices[k].d, (uintptr_t)p, error);
            return registered ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : CUDA_ERROR_OUT_OF_MEMORY;
        }
    drv.pinned[drv.npinned++] = (struct drv_pinned){p, bytes, flags, registered};
    return CUDA_SUCCESS;
}

static CUresult unpin(void *p, bool registered)
{
    char error[PTX_ERROR];
    for (int k = 0; k < drv.npinned; k++)
        if (drv.pinned[k].p == p && drv.pinned[k].registered == registered) {
            size_t bytes = drv.pinned[k].bytes;
            drv_drain(NULL);
            drv_quiet();
            for (int d = 0; d < drv.ndevices; d++)
                ptx_unmap(drv.devices[d].d, (uintptr_t)p, error);
            drv.pinned[k] = drv.pinned[--drv.npinned];
            if (!registered)
                munmap(p, bytes);
            return CUDA_SUCCESS;
        }
    return registered ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : CUDA_ERROR_INVALID_VALUE;
}

static CUresult host_alloc(void **out, size_t bytes, unsigned flags)
{
    if (!out || !bytes || flags & ~7u)
        return CUDA_ERROR_INVALID_VALUE;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = pin(p, bytes, flags, false);
    if (r)
        munmap(p, bytes);
    else
        *out = p;
    return r;
}
API(cuMemHostAlloc, NEED_CTX | NEED_SAFE | NEED_QUIET, (void **p, size_t bytes, unsigned flags),
    host_alloc(p, bytes, flags))
API(cuMemAllocHost_v2, NEED_CTX | NEED_SAFE | NEED_QUIET, (void **p, size_t bytes), host_alloc(p, bytes, 0))
API(cuMemFreeHost, NEED_CTX | NEED_SAFE | WAITS, (void *p), p ? unpin(p, false) : CUDA_SUCCESS)
API(cuMemHostRegister_v2, NEED_CTX | NEED_SAFE | NEED_QUIET, (void *p, size_t bytes, unsigned flags),
    p &&bytes && !(flags & ~15u) ? pin(p, bytes, flags, true) : CUDA_ERROR_INVALID_VALUE)
API(cuMemHostUnregister, NEED_CTX | NEED_SAFE | WAITS, (void *p), p ? unpin(p, true) : CUDA_ERROR_INVALID_VALUE)

static CUresult device_pointer(CUdeviceptr *address, void *p, unsigned flags)
{
    if (!address || flags || !drv_is_pinned((uintptr_t)p, 1))
        return CUDA_ERROR_INVALID_VALUE;
    *address = (uintptr_t)p;
    return CUDA_SUCCESS;
}
API(cuMemHostGetDevicePointer_v2, NEED_CTX, (CUdeviceptr * address, void *p, unsigned flags),
    device_pointer(address, p, flags))

static CUresult host_flags(unsigned *flags, void *p)
{
    for (int k = 0; flags && k < drv.npinned; k++)
        if (!drv.pinned[k].registered && (uintptr_t)p - (uintptr_t)drv.pinned[k].p < drv.pinned[k].bytes) {
            *flags = drv.pinned[k].flags | 2; /* devices see it under unified addressing */
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}
API(cuMemHostGetFlags, NEED_CTX, (unsigned *flags, void *p), host_flags(flags, p))

/* -- Pointers -- */

enum {
    P_CONTEXT = 1,
    P_TYPE,
    P_DEVICE_POINTER,
    P_HOST_POINTER,
    P_MANAGED = 8,
    P_ORDINAL,
    P_START = 11,
    P_SIZE,
    P_MAPPED
};

static CUresult pointer(void *value, int which, CUdeviceptr at)
{
    uint64_t base;
    size_t bytes;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    bool known = range_of(at, &base, &bytes);
    int k = drv_device_of(at);
    if (!known && which != P_MANAGED)
        return CUDA_ERROR_INVALID_VALUE;
    switch (which) {
    case P_CONTEXT:
        *(CUcontext *)value = k < 0 ? drv_current() : drv.devices[k].primary ? drv.devices[k].primary : drv_current();
        break;
    case P_TYPE: *(unsigned *)value = k < 0 ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE; break;
    case P_DEVICE_POINTER: *(CUdeviceptr *)value = at; break;
    case P_HOST_POINTER:
        if (k >= 0)
            return CUDA_ERROR_INVALID_VALUE;
        *(void **)value = (void *)(uintptr_t)at;
        break;
    case P_MANAGED: *(unsigned *)value = 0; break;
    case P_ORDINAL: *(int *)value = k < 0 ? drv_current()->device : k; break;
    case P_START: *(uint64_t *)value = base; break;
    case P_SIZE: *(size_t *)value = bytes; break;
    case P_MAPPED: *(int *)value = 1; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}
API(cuPointerGetAttribute, NEED_CTX, (void *value, int which, CUdeviceptr at), pointer(value, which, at))

/* Unlike the single form it is no error that the pointer is unknown: values are 0 then. */
static CUresult pointers(unsigned n, const int *which, void **values, CUdeviceptr at)
{
    static const uint8_t sizes[] = {
        [P_CONTEXT] = 8, [P_TYPE] = 4,  [P_DEVICE_POINTER] = 8, [P_HOST_POINTER] = 8, [P_MANAGED] = 4,
        [P_ORDINAL] = 4, [P_START] = 8, [P_SIZE] = 8,           [P_MAPPED] = 4};
    if (!n || !which || !values)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned k = 0; k < n; k++) {
        if (which[k] < 0 || which[k] > P_MAPPED || !sizes[which[k]] || !values[k])
            return CUDA_ERROR_INVALID_VALUE;
        if (pointer(values[k], which[k], at))
            memset(values[k], which[k] == P_ORDINAL ? 0xfe : 0, sizes[which[k]]);
        if (which[k] == P_ORDINAL && *(int *)values[k] == (int)0xfefefefe)
            *(int *)values[k] = -2;
    }
    return CUDA_SUCCESS;
}
API(cuPointerGetAttributes, NEED_CTX, (unsigned n, int *which, void **values, CUdeviceptr at),
    pointers(n, which, values, at))

/* -- Allocation in stream order -- */

static CUresult alloc_async(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream handle)
{
    CUstream s;
    CUresult r = drv_stream(handle, &s);
    if (r || (pool && pool != &device()->pool))
        return r ? r : CUDA_ERROR_INVALID_VALUE;
    if (s->capture) {
        s->capture->broken = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return allocate(address, bytes, true);
}
API(cuMemAllocAsync, NEED_CTX | NEED_QUIET, (CUdeviceptr * address, size_t bytes, CUstream stream),
    alloc_async(address, bytes, NULL, stream))
API(cuMemAllocFromPoolAsync, NEED_CTX | NEED_QUIET,
    (CUdeviceptr * address, size_t bytes, CUmemoryPool pool, CUstream stream),
    pool ? alloc_async(address, bytes, pool, stream) : CUDA_ERROR_INVALID_VALUE)

static CUresult free_async(CUdeviceptr at, CUstream handle)
{
    CUstream s;
    CUresult r = drv_stream(handle, &s);
    struct drv_alloc *a = allocation(device(), at);
    if (r || !a || a->at != at)
        return r ? r : CUDA_ERROR_INVALID_VALUE;
    struct drv_work w = {.kind = WORK_FREE, .freed = at};
    return drv_enqueue(s, &w, false);
}
API(cuMemFreeAsync, NEED_CTX, (CUdeviceptr at, CUstream stream), free_async(at, stream))

enum { POOL_THRESHOLD = 4, POOL_USED = 7, POOL_HIGH = 8 };

static CUresult pool_value(CUmemoryPool pool, int which, void *value, bool set)
{
    if (!pool || !value || pool < &drv.devices[0].pool)
        return CUDA_ERROR_INVALID_VALUE;
    struct drv_device *d = &drv.devices[pool->device];
    uint64_t used = 0;
    for (int k = 0; k < d->nallocs; k++)
        used += d->allocs[k].async ? d->allocs[k].bytes : 0;
    if (set && which == POOL_THRESHOLD)
        pool->threshold = *(uint64_t *)value;
    else if (set && which == POOL_HIGH)
        d->pool_high = 0;
    else if (set)
        return CUDA_ERROR_INVALID_VALUE;
    else if (which == POOL_THRESHOLD)
        *(uint64_t *)value = pool->threshold;
    else if (which == POOL_USED)
        *(uint64_t *)value = used;
    else if (which == POOL_HIGH)
        *(uint64_t *)value = d->pool_high > used ? d->pool_high : used;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}
API(cuMemPoolSetAttribute, NEED_INIT, (CUmemoryPool pool, int which, void *value), pool_value(pool, which, value, true))
API(cuMemPoolGetAttribute, NEED_INIT, (CUmemoryPool pool, int which, void *value),
    pool_value(pool, which, value, false))
API(cuMemPoolTrimTo, NEED_INIT, (CUmemoryPool pool, size_t keep),
    pool ? ((void)keep, CUDA_SUCCESS) : CUDA_ERROR_INVALID_VALUE)

/* -- Virtual memory: an arena that grows in place -- */

static CUresult granularity(size_t *bytes, const CUmemAllocationProp *p, int option)
{
    if (!bytes || !p || option < 0 || option > 1)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = GRANULE;
    return CUDA_SUCCESS;
}
API(cuMemGetAllocationGranularity, NEED_INIT, (size_t * bytes, const CUmemAllocationProp *p, int option),
    granularity(bytes, p, option))

static CUresult reserve(CUdeviceptr *address, size_t bytes, size_t align, uint64_t flags)
{
    if (!address || !bytes || bytes % GRANULE || flags || align & (align - 1))
        return CUDA_ERROR_INVALID_VALUE;
    if (!drv_room(&drv.reserved, drv.nreserved, &drv.reserved_room, sizeof *drv.reserved))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUcontext ctx = drv_current(); /* a wish for an address is only a hint */
    uint64_t at = ptx_reserve(drv.devices[ctx ? ctx->device : 0].d, bytes, align > GRANULE ? align : GRANULE);
    if (!at)
        return CUDA_ERROR_OUT_OF_MEMORY;
    drv.reserved[drv.nreserved++] = (struct drv_reserved){at, bytes};
    *address = at;
    return CUDA_SUCCESS;
}
API(cuMemAddressReserve, NEED_INIT | NEED_QUIET,
    (CUdeviceptr * address, size_t bytes, size_t align, CUdeviceptr wish, uint64_t flags),
    ((void)wish, reserve(address, bytes, align, flags)))

static bool mapped_in(uint64_t at, size_t bytes)
{
    for (int k = 0; k < drv.nmappings; k++)
        if (drv.mappings[k].at < at + bytes && at < drv.mappings[k].at + drv.mappings[k].bytes)
            return true;
    return false;
}

static CUresult address_free(CUdeviceptr at, size_t bytes)
{
    for (int k = 0; k < drv.nreserved; k++)
        if (drv.reserved[k].at == at && drv.reserved[k].bytes == bytes && !mapped_in(at, bytes)) {
            drv.reserved[k] = drv.reserved[--drv.nreserved];
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}
API(cuMemAddressFree, NEED_INIT, (CUdeviceptr at, size_t bytes), address_free(at, bytes))

static CUresult create(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *p, uint64_t flags)
{
    if (!handle || !p || !bytes || bytes % GRANULE || flags || p->type != 1 || p->location.type != 1 || p->handle_types)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->location.id < 0 || p->location.id >= drv.ndevices)
        return CUDA_ERROR_INVALID_DEVICE;
    struct drv_device *d = &drv.devices[p->location.id];
    size_t total = drv.memory;
    struct ptx_memory *m = bytes <= total - d->used ? ptx_memory_new(d->d, bytes) : NULL;
    if (!m || !drv_room(&drv.memories, drv.nmemories, &drv.memory_room, sizeof *drv.memories)) {
        ptx_memory_free(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    d->used += bytes;
    drv.memories[drv.nmemories++] = (struct drv_memory){m, bytes, p->location.id, 0, false};
    *handle = (uint64_t)drv.nmemories;
    return CUDA_SUCCESS;
}
API(cuMemCreate, NEED_INIT,
    (CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp *p, uint64_t flags),
    create(handle, bytes, p, flags))

static struct drv_memory *memory(CUmemGenericAllocationHandle handle)
{
    return handle && handle <= (uint64_t)drv.nmemories && drv.memories[handle - 1].m ? &drv.memories[handle - 1] : NULL;
}

static void drop_memory(struct drv_memory *m)
{
    if (!m->released || m->maps)
        return;
    drv.devices[m->device].used -= m->bytes;
    ptx_memory_free(m->m);
    m->m = NULL;
}

static CUresult release_memory(CUmemGenericAllocationHandle handle)
{
    struct drv_memory *m = memory(handle);
    if (!m || m->released)
        return CUDA_ERROR_INVALID_VALUE;
    m->released = true;
    drop_memory(m);
    return CUDA_SUCCESS;
}
API(cuMemRelease, NEED_INIT, (CUmemGenericAllocationHandle handle), release_memory(handle))

static CUresult map(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, uint64_t flags)
{
    struct drv_memory *m = memory(handle);
    bool inside = false;
    for (int k = 0; k < drv.nreserved; k++)
        inside |= at >= drv.reserved[k].at && at + bytes <= drv.reserved[k].at + drv.reserved[k].bytes;
    if (!m || m->released || flags || !bytes || (at | bytes | offset) % GRANULE || !inside || offset > m->bytes ||
        bytes > m->bytes - offset)
        return CUDA_ERROR_INVALID_VALUE;
    if (mapped_in(at, bytes))
        return CUDA_ERROR_ALREADY_MAPPED;
    if (!drv_room(&drv.mappings, drv.nmappings, &drv.mapping_room, sizeof *drv.mappings))
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->maps++;
    drv.mappings[drv.nmappings++] = (struct drv_mapping){at, bytes, (int)handle - 1, 0, offset};
    return CUDA_SUCCESS;
}
API(cuMemMap, NEED_INIT,
    (CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, uint64_t flags),
    map(at, bytes, offset, handle, flags))

/* Accessible only from here on, for this device: an access before is outside every allocation. */
static CUresult set_access(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access)
{
    char error[PTX_ERROR];
    size_t found = 0;
    if (access->location.type != 1 || access->location.id < 0 || access->location.id >= drv.ndevices ||
        access->flags != 3)
        return CUDA_ERROR_INVALID_VALUE;
    for (int k = 0; k < drv.nmappings; k++)
        if (drv.mappings[k].at >= at && drv.mappings[k].at + drv.mappings[k].bytes <= at + bytes)
            found += drv.mappings[k].bytes;
    if (found != bytes)
        return CUDA_ERROR_INVALID_VALUE;
    for (int k = 0; k < drv.nmappings; k++) {
        struct drv_mapping *m = &drv.mappings[k];
        unsigned bit = 1u << access->location.id;
        if (m->access & bit || m->at < at || m->at + m->bytes > at + bytes)
            continue;
        if (!ptx_map(drv.devices[access->location.id].d, m->at, drv.memories[m->memory].m, m->offset, m->bytes, error))
            return CUDA_ERROR_OUT_OF_MEMORY;
        m->access |= bit;
    }
    return CUDA_SUCCESS;
}

static CUresult set_accesses(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access, size_t n)
{
    CUresult r = access && n ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t k = 0; k < n && !r; k++)
        r = set_access(at, bytes, &access[k]);
    return r;
}
API(cuMemSetAccess, NEED_INIT | NEED_QUIET, (CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access, size_t n),
    set_accesses(at, bytes, access, n))

static CUresult unmap(CUdeviceptr at, size_t bytes)
{
    char error[PTX_ERROR];
    size_t found = 0;
    for (int k = 0; k < drv.nmappings; k++)
        if (drv.mappings[k].at >= at && drv.mappings[k].at + drv.mappings[k].bytes <= at + bytes)
            found += drv.mappings[k].bytes;
    if (!bytes || found != bytes)
        return CUDA_ERROR_INVALID_VALUE;
    drv_drain(NULL);
    drv_quiet();
    for (int k = drv.nmappings - 1; k >= 0; k--) {
        struct drv_mapping m = drv.mappings[k];
        if (m.at < at || m.at + m.bytes > at + bytes)
            continue;
        for (int d = 0; d < drv.ndevices; d++)
            if (m.access >> d & 1)
                ptx_unmap(drv.devices[d].d, m.at, error);
        drv.memories[m.memory].maps--;
        drop_memory(&drv.memories[m.memory]);
        drv.mappings[k] = drv.mappings[--drv.nmappings];
    }
    return CUDA_SUCCESS;
}
API(cuMemUnmap, NEED_INIT, (CUdeviceptr at, size_t bytes), unmap(at, bytes))
