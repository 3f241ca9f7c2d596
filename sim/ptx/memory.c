/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device's memory. Addresses come from a reserved range that nobody can touch (PROT_NONE), so that a device pointer
 * used by the host faults; the bytes lie elsewhere. Allocations are separated by at least 256 bytes; dead ones are
 * remembered, for reports.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/grow.h"
#include "sim/ptx/ptx_int.h"

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

void ptx_time_only(struct ptx_device *d)
{
    d->config.checks = false;
    d->dry = true;
}

static void *pages(size_t bytes)
{
    void *p = mmap(NULL, bytes + 64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static size_t cell_bytes(size_t bytes)
{
    return (bytes / 4 + 2) * 2 * sizeof(uint64_t);
}

static size_t line_bytes(size_t bytes)
{
    return (bytes / 128 + 2) * sizeof(uint16_t);
}

static void release(struct ptx_alloc *a)
{
    if (a->data && !a->borrowed)
        munmap(a->data, a->size + 64);
    if (a->shadow && !a->borrowed)
        munmap(a->shadow, a->size + 64);
    if (a->lines)
        munmap(a->lines, line_bytes(a->size) + 64);
    a->lines = NULL;
    if (a->cells && !a->borrowed)
        munmap(a->cells, cell_bytes(a->size) + 64);
    a->data = a->shadow = NULL;
    a->cells = NULL;
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
    free(d->ranges);
    munmap((void *)(uintptr_t)d->reserve, d->reserve_size);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

/* How many allocations begin at or below the address. */
static int rank(const struct ptx_device *d, uint64_t address)
{
    int lo = 0, hi = d->n;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (d->allocs[mid]->base <= address)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool insert(struct ptx_device *d, struct ptx_alloc *a)
{
    if (!GROWN(d->allocs, d->n, d->room, 64))
        return false;
    int at = rank(d, a->base);
    memmove(d->allocs + at + 1, d->allocs + at, (size_t)(d->n++ - at) * sizeof *d->allocs);
    d->allocs[at] = a;
    return true;
}

static void take_out(struct ptx_device *d, struct ptx_alloc *a)
{
    int at = rank(d, a->base) - 1;
    memmove(d->allocs + at, d->allocs + at + 1, (size_t)(--d->n - at) * sizeof *d->allocs);
    release(a);
    free(a);
}

uint64_t ptx_alloc(struct ptx_device *d, size_t bytes, const char *name, char *error)
{
    struct ptx_alloc *a = calloc(1, sizeof *a);
    size_t span = (bytes + 2 * GRAIN - 1) & ~(size_t)(GRAIN - 1);
    if (a && bytes && bytes < d->reserve_size && d->next + span < d->reserve + d->reserve_size) {
        a->size = bytes;
        a->base = d->next;
        a->data = pages(bytes);
        a->shadow = pages(bytes);
        a->cells = d->config.checks ? pages(cell_bytes(bytes)) : NULL;
        a->lines = pages(line_bytes(bytes));
        a->home = d;
    }
    if (!a || !a->data || !a->shadow || !a->lines || (d->config.checks && !a->cells) || !insert(d, a)) {
        if (a)
            release(a);
        free(a);
        snprintf(error, PTX_ERROR, bytes ? "no device memory for %zu bytes" : "an allocation of %zu bytes", bytes);
        return 0;
    }
    snprintf(a->name, sizeof a->name, "%s", name ? name : "");
    a->live = true;
    d->next += span;
    return a->base;
}

static struct ptx_alloc *own(const struct ptx_device *d, uint64_t address)
{
    int at = rank(d, address);
    return at && address - d->allocs[at - 1]->base < d->allocs[at - 1]->size ? d->allocs[at - 1] : NULL;
}

/* The last allocation that begins at or below the address and reaches it, live or dead. */
struct ptx_alloc *ptx_lookup(const struct ptx_device *d, uint64_t address)
{
    struct ptx_alloc *a = own(d, address);
    for (int k = 0; k < d->npeers && !a; k++)
        if (ptx_is_device(d->peers[k], address))
            a = own(d->peers[k], address);
    return a;
}

void ptx_peers(struct ptx_device *d, struct ptx_device *const *peers, int n)
{
    d->npeers = n < PTX_PEERS ? n : PTX_PEERS;
    for (int k = 0; k < d->npeers; k++)
        d->peers[k] = peers[k];
}

bool ptx_free(struct ptx_device *d, uint64_t address, char *error)
{
    struct ptx_alloc *a = own(d, address);
    if (!a || !a->live || a->base != address || a->borrowed) {
        snprintf(error, PTX_ERROR, "%#llx is not the address of a live allocation", (unsigned long long)address);
        return false;
    }
    a->live = false;
    release(a);
    return true;
}

/* -- Memory that is mapped -- */

struct ptx_memory {
    const struct ptx_device *home;
    uint8_t *data, *shadow;
    uint64_t *cells;
    size_t bytes;
};

struct ptx_memory *ptx_memory_new(const struct ptx_device *home, size_t bytes)
{
    struct ptx_memory *m = calloc(1, sizeof *m);
    bool checks = home->config.checks;
    if (!m)
        return NULL;
    m->home = home;
    m->bytes = bytes;
    m->data = pages(bytes);
    m->shadow = pages(bytes);
    m->cells = checks ? pages(cell_bytes(bytes)) : NULL;
    if (m->data && m->shadow && (m->cells || !checks))
        return m;
    ptx_memory_free(m);
    return NULL;
}

void ptx_memory_free(struct ptx_memory *m)
{
    if (!m)
        return;
    if (m->data)
        munmap(m->data, m->bytes + 64);
    if (m->shadow)
        munmap(m->shadow, m->bytes + 64);
    if (m->cells)
        munmap(m->cells, cell_bytes(m->bytes) + 64);
    free(m);
}

static bool add_mapping(struct ptx_device *d, const struct ptx_alloc *like, const char *name, char *error)
{
    int at = rank(d, like->base + like->size - 1);
    struct ptx_alloc *before = at ? d->allocs[at - 1] : NULL, *a;
    if (before && before->live && before->base + before->size > like->base) {
        snprintf(error, PTX_ERROR, "%#llx is mapped already", (unsigned long long)like->base);
        return false;
    }
    if (!(a = malloc(sizeof *a)) || (*a = *like, !(a->lines = pages(line_bytes(a->size)))) || !insert(d, a)) {
        if (a && a->lines)
            munmap(a->lines, line_bytes(a->size) + 64);
        free(a);
        snprintf(error, PTX_ERROR, "no memory");
        return false;
    }
    a->live = a->borrowed = true;
    snprintf(a->name, sizeof a->name, "%s", name);
    return true;
}

bool ptx_map_host(struct ptx_device *d, void *memory, size_t bytes, const char *name, char *error)
{
    struct ptx_alloc a = {.base = (uintptr_t)memory, .size = bytes, .data = memory, .whole = true};
    return add_mapping(d, &a, name, error);
}

uint64_t ptx_reserve(struct ptx_device *d, size_t bytes, size_t align)
{
    uint64_t at = (d->next + align - 1) & ~((uint64_t)align - 1);
    if (bytes > d->reserve_size || at + bytes + GRAIN > d->reserve + d->reserve_size)
        return 0;
    d->next = at + bytes + GRAIN;
    return at;
}

bool ptx_map(struct ptx_device *d, uint64_t at, struct ptx_memory *m, size_t offset, size_t bytes, char *error)
{
    struct ptx_alloc a = {
        .base = at, .size = bytes, .data = m->data + offset, .shadow = m->shadow + offset, .home = m->home};
    a.cells = m->cells ? m->cells + offset / 4 * 2 : NULL;
    return add_mapping(d, &a, "mapped memory", error);
}

bool ptx_unmap(struct ptx_device *d, uint64_t at, char *error)
{
    struct ptx_alloc *a = own(d, at);
    if (a && a->live && a->borrowed && a->base == at) {
        take_out(d, a);
        return true;
    }
    snprintf(error, PTX_ERROR, "nothing is mapped at %#llx", (unsigned long long)at);
    return false;
}

/* -- Ranges -- */

static void mark_ranges(struct ptx_device *d, bool on)
{
    for (int k = 0; k < d->nranges; k++) {
        struct ptx_alloc *a = ptx_lookup(d, d->ranges[k].address);
        if (a)
            a->ranged = on;
    }
}

bool ptx_ranges(struct ptx_device *d, const struct ptx_range *list, int n)
{
    struct ptx_range *copy = n ? malloc((size_t)n * sizeof *copy) : NULL;
    if (n && !copy)
        return false;
    mark_ranges(d, false);
    free(d->ranges);
    if (n)
        memcpy(copy, list, (size_t)n * sizeof *copy);
    d->ranges = copy;
    d->nranges = n;
    mark_ranges(d, true);
    return true;
}

/* -- Copies of the host -- */

bool ptx_is_device(const struct ptx_device *d, uint64_t address)
{
    return address >= d->reserve && address < d->reserve + d->reserve_size;
}

/* The allocation at an address and how much of the bytes lies in it. NULL: nothing live is there. */
static struct ptx_alloc *piece(const struct ptx_device *d, uint64_t at, size_t bytes, size_t *n)
{
    struct ptx_alloc *a = own(d, at);
    if (!a || !a->live)
        return NULL;
    *n = bytes < a->size - (at - a->base) ? bytes : a->size - (at - a->base);
    return a;
}

bool ptx_valid(const struct ptx_device *d, uint64_t at, size_t bytes, char *error)
{
    size_t n = 0;
    for (size_t done = 0; done < bytes; done += n)
        if (!piece(d, at + done, bytes - done, &n)) {
            snprintf(error, PTX_ERROR, "%zu bytes at %#llx are not within a live allocation", bytes,
                     (unsigned long long)at);
            return false;
        }
    return true;
}

static void written(struct ptx_device *d, struct ptx_alloc *a, uint64_t at, size_t bytes)
{
    ptx_race_copy(d, a, at - a->base, bytes, true);
    if (a->shadow)
        memset(a->shadow + (at - a->base), 1, bytes);
    if (bytes == a->size && !a->borrowed)
        a->whole = true;
}

/* `from` NULL: all are `byte`. */
static bool put(struct ptx_device *d, uint64_t to, const uint8_t *from, int byte, size_t bytes, char *error)
{
    if (!ptx_valid(d, to, bytes, error))
        return false;
    for (size_t n = 0, done = 0; done < bytes; done += n) {
        struct ptx_alloc *a = piece(d, to + done, bytes - done, &n);
        if (from)
            memmove(a->data + (to + done - a->base), from + done, n);
        else
            memset(a->data + (to + done - a->base), byte, n);
        written(d, a, to + done, n);
    }
    return true;
}

bool ptx_write(struct ptx_device *d, uint64_t to, const void *from, size_t bytes, char *error)
{
    return !bytes || put(d, to, from, 0, bytes, error);
}

bool ptx_fill(struct ptx_device *d, uint64_t to, int byte, size_t bytes, char *error)
{
    return put(d, to, NULL, byte, bytes, error);
}

bool ptx_read(struct ptx_device *d, void *to, uint64_t from, size_t bytes, char *error)
{
    if (!ptx_valid(d, from, bytes, error))
        return false;
    for (size_t n = 0, done = 0; done < bytes; done += n) {
        struct ptx_alloc *a = piece(d, from + done, bytes - done, &n);
        memmove((uint8_t *)to + done, a->data + (from + done - a->base), n);
        ptx_race_copy(d, a, from + done - a->base, n, false);
    }
    return true;
}

bool ptx_copy(struct ptx_device *d, uint64_t to, struct ptx_device *from_device, uint64_t from, size_t bytes,
              char *error)
{
    if (!ptx_valid(d, to, bytes, error) || !ptx_valid(from_device, from, bytes, error))
        return false;
    for (size_t n = 0, m = 0, done = 0; done < bytes; done += n) {
        struct ptx_alloc *a = piece(d, to + done, bytes - done, &n);
        struct ptx_alloc *b = piece(from_device, from + done, n, &m);
        n = m;
        ptx_race_copy(from_device, b, from + done - b->base, n, false);
        memmove(a->data + (to + done - a->base), b->data + (from + done - b->base), n);
        written(d, a, to + done, n);
        if (a->shadow && b->shadow && !b->whole) {
            a->whole = false;
            memcpy(a->shadow + (to + done - a->base), b->shadow + (from + done - b->base), n);
        }
    }
    return true;
}

/* -- Epochs -- */

/* Zeros: whole pages are given back, which is cheaper and takes no memory. */
static void clear(void *from, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)from, end = at + bytes;
    uintptr_t first = (at + page - 1) & ~(page - 1), last = end & ~(page - 1);
    if (last <= first || madvise((void *)first, last - first, MADV_DONTNEED)) {
        memset(from, 0, bytes);
        return;
    }
    memset(from, 0, first - at);
    memset((void *)last, 0, end - last);
}

void ptx_begin(struct ptx_device *d, int slot, uint64_t id, const uint64_t *clock, const char *activity)
{
    d->epoch++;
    if (d->epoch == PTX_EPOCHS) { /* records of epochs that come again must not be taken for new ones */
        for (int k = 0; k < d->n; k++) {
            struct ptx_alloc *a = d->allocs[k];
            if (a->cells)
                clear(a->cells, (a->size + 3) / 4 * 2 * sizeof(uint64_t));
            if (a->lines)
                clear(a->lines, line_bytes(a->size));
        }
        d->epoch = 1;
    }
    d->epochs[d->epoch] = (struct ptx_epoch){id, slot};
    d->clock = clock;
    d->activity = activity;
}

const struct ptx_rows *ptx_rows_best(void)
{
#ifdef PTX_ROWS_V3
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &ptx_rows_v3;
#endif
    return &ptx_rows_base;
}
