/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device's memory. Addresses come from a reserved range that nobody can touch (PROT_NONE), so that a device pointer used by the
 * host faults; the bytes lie elsewhere. Allocations are separated by at least 256 bytes; dead ones are remembered, for reports.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/sim/ptx/ptx_int.h"

#define GRAIN 256u

struct ptx_device *ptx_device_new(const struct ptx_config *config, char *error)
{
    struct ptx_device *d = calloc(1, sizeof *d);
    if (!d) {
        snprintf(error, PTX_ERROR, "no memory");
        return NULL;
    }
    if (config)
        d->config = *config;
    if (d->config.threads <= 0)
        d->config.threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (!d->config.limit)
        d->config.limit = UINT64_C(1) << 36;
    if (!d->config.shared_limit)
        d->config.shared_limit = 232448;
    d->rows = ptx_rows_best();
    for (d->reserve_size = UINT64_C(1) << 42; d->reserve_size >= UINT64_C(1) << 30; d->reserve_size >>= 1) {
        void *p = mmap(NULL, d->reserve_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p != MAP_FAILED) {
            d->reserve = (uint64_t)(uintptr_t)p;
            break;
        }
    }
    if (!d->reserve) {
        snprintf(error, PTX_ERROR, "no address space for device memory: %s", strerror(errno));
        free(d);
        return NULL;
    }
    d->next = d->reserve + 4096;
    pthread_mutex_init(&d->lock, NULL);
    return d;
}

static void release(struct ptx_alloc *a)
{
    if (a->data)
        munmap(a->data, a->size + 64);
    if (a->shadow)
        munmap(a->shadow, a->size + 64);
    a->data = a->shadow = NULL;
}

void ptx_device_free(struct ptx_device *d)
{
    if (!d)
        return;
    for (int i = 0; i < d->n; i++) {
        release(d->allocs[i]);
        free(d->allocs[i]);
    }
    free(d->allocs);
    munmap((void *)(uintptr_t)d->reserve, d->reserve_size);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

static void *pages(size_t bytes)
{
    void *p = mmap(NULL, bytes + 64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

uint64_t ptx_alloc(struct ptx_device *d, size_t bytes, const char *name, char *error)
{
    struct ptx_alloc *a = calloc(1, sizeof *a);
    size_t span = (bytes + 2 * GRAIN - 1) & ~(size_t)(GRAIN - 1);
    if (d->n == d->room) {
        int room = d->room ? 2 * d->room : 64;
        struct ptx_alloc **grown = realloc(d->allocs, (size_t)room * sizeof(struct ptx_alloc *));
        d->allocs = grown ? grown : d->allocs;
        d->room = grown ? room : d->room;
    }
    if (a && bytes && bytes < d->reserve_size && d->next + span < d->reserve + d->reserve_size && d->n < d->room) {
        a->size = bytes;
        a->data = pages(bytes);
        a->shadow = pages(bytes);
    }
    if (!a || !a->data || !a->shadow) {
        if (a)
            release(a);
        free(a);
        snprintf(error, PTX_ERROR, bytes ? "no device memory for %zu bytes" : "an allocation of %zu bytes", bytes);
        return 0;
    }
    snprintf(a->name, sizeof a->name, "%s", name ? name : "");
    a->base = d->next;
    a->live = true;
    d->next += span;
    d->allocs[d->n++] = a;
    return a->base;
}

/* The last allocation that begins at or below the address and reaches it (or its end), live or dead. */
struct ptx_alloc *ptx_lookup(const struct ptx_device *d, uint64_t address)
{
    int lo = 0, hi = d->n;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (d->allocs[mid]->base <= address)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo && address - d->allocs[lo - 1]->base < d->allocs[lo - 1]->size ? d->allocs[lo - 1] : NULL;
}

bool ptx_free(struct ptx_device *d, uint64_t address, char *error)
{
    struct ptx_alloc *a = ptx_lookup(d, address);
    if (!a || !a->live || a->base != address) {
        snprintf(error, PTX_ERROR, "%#llx is not the address of a live allocation", (unsigned long long)address);
        return false;
    }
    a->live = false;
    release(a);
    return true;
}

static struct ptx_alloc *range(struct ptx_device *d, uint64_t at, size_t bytes, char *error)
{
    struct ptx_alloc *a = ptx_lookup(d, at);
    if (a && a->live && bytes <= a->size - (at - a->base))
        return a;
    snprintf(error, PTX_ERROR, "%zu bytes at %#llx are not within a live allocation", bytes, (unsigned long long)at);
    return NULL;
}

static void written(struct ptx_alloc *a, uint64_t at, size_t bytes)
{
    memset(a->shadow + (at - a->base), 1, bytes);
    if (bytes == a->size)
        a->whole = true;
}

bool ptx_write(struct ptx_device *d, uint64_t to, const void *from, size_t bytes, char *error)
{
    struct ptx_alloc *a = bytes ? range(d, to, bytes, error) : NULL;
    if (!a)
        return !bytes;
    memcpy(a->data + (to - a->base), from, bytes);
    written(a, to, bytes);
    return true;
}

bool ptx_fill(struct ptx_device *d, uint64_t to, int byte, size_t bytes, char *error)
{
    struct ptx_alloc *a = bytes ? range(d, to, bytes, error) : NULL;
    if (!a)
        return !bytes;
    memset(a->data + (to - a->base), byte, bytes);
    written(a, to, bytes);
    return true;
}

bool ptx_read(struct ptx_device *d, void *to, uint64_t from, size_t bytes, char *error)
{
    struct ptx_alloc *a = bytes ? range(d, from, bytes, error) : NULL;
    if (!a)
        return !bytes;
    memcpy(to, a->data + (from - a->base), bytes);
    return true;
}

const struct ptx_rows *ptx_rows_best(void)
{
#ifdef PTX_ROWS_V3
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &ptx_rows_v3;
#endif
    return &ptx_rows_base;
}
