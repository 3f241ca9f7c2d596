/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the host: the session's allocator, 64-byte aligned; blocks that are worth it lie on huge pages. Large
 * zeroed ones (moments of optimizers) come from the kernel, which hands out pages when they are first written: a
 * session that only evaluates never pays for them.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/device/cpu/cpu_int.h"

#define HUGE_PAGE ((size_t)2 << 20)
#define LAZY_BYTES ((size_t)256 << 10)

static size_t to_pages(size_t bytes)
{
    return (bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
}

/* A page fault of 4 KiB costs about a microsecond, and a huge page is zeroed in the time of some seventy: blocks that
 * don't leave much of one empty. */
static bool on_huge_pages(size_t bytes)
{
    return bytes >= 2 * HUGE_PAGE || to_pages(bytes) - bytes <= bytes / 3;
}

static void *default_alloc(void *user, size_t bytes, size_t alignment)
{
    void *p;

    (void)user;
    if (!on_huge_pages(bytes))
        return aligned_alloc(alignment, bytes);
    p = aligned_alloc(HUGE_PAGE, to_pages(bytes));
    if (p)
        madvise(p, to_pages(bytes), MADV_HUGEPAGE);
    return p;
}

static void default_free(void *user, void *p)
{
    (void)user;
    free(p);
}

void tcr_heap_init(struct tcr_heap *h, const struct tccrt_allocator *allocator)
{
    *h = (struct tcr_heap){.allocator =
                               allocator ? *allocator : (struct tccrt_allocator){default_alloc, default_free, NULL}};
}

void *tcr_heap_alloc(struct tcr_heap *h, size_t bytes)
{
    size_t size = TCR_ROUND(bytes ? bytes : 1);
    void *p = size < bytes ? NULL : h->allocator.alloc(h->allocator.user, h->exact ? bytes : size, TCR_ALIGN);

    if (!p)
        return tcr_fail(TCC_EENV, "no memory for %zu bytes", bytes), NULL;
    h->held += size;
    return p;
}

void tcr_heap_free(struct tcr_heap *h, void *p, size_t bytes)
{
    if (!p)
        return;
    h->held -= TCR_ROUND(bytes ? bytes : 1);
    h->allocator.free(h->allocator.user, p);
}

/* -- The device's --------------------------------------------------------------------------------------- */

static bool lazy(const struct tcr_heap *h, size_t bytes, bool zeroed)
{
    return zeroed && bytes >= LAZY_BYTES && h->allocator.alloc == default_alloc;
}

void *tcr_cpu_alloc(struct tcr_device *d, int queue, size_t bytes, bool zeroed)
{
    struct tcr_heap *h = ((struct tcr_cpu *)d)->heap;
    void *p;

    (void)queue;
    if (!lazy(h, bytes, zeroed)) {
        p = tcr_heap_alloc(h, bytes);
        if (p && zeroed)
            memset(p, 0, bytes);
        return p;
    }
    p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return tcr_fail(TCC_EENV, "no memory for %zu bytes", bytes), NULL;
    if (on_huge_pages(bytes))
        madvise(p, bytes, MADV_HUGEPAGE);
    h->held += TCR_ROUND(bytes);
    return p;
}

void tcr_cpu_free(struct tcr_device *d, int queue, void *p, size_t bytes, bool zeroed)
{
    struct tcr_heap *h = ((struct tcr_cpu *)d)->heap;

    (void)queue;
    if (!p || !lazy(h, bytes, zeroed)) {
        tcr_heap_free(h, p, bytes);
        return;
    }
    h->held -= TCR_ROUND(bytes);
    munmap(p, bytes);
}

int tcr_cpu_copy(struct tcr_device *d, int queue, const struct tcr_copy *c)
{
    (void)d, (void)queue;
    if (c->bytes && c->to != c->from)
        memmove(c->to, c->from, c->bytes);
    return TCC_OK;
}

int tcr_cpu_fill(struct tcr_device *d, int queue, void *to, int byte, size_t bytes)
{
    (void)d, (void)queue;
    if (bytes)
        memset(to, byte, bytes);
    return TCC_OK;
}

/* -- Blocks that grow ------------------------------------------------------------------------------------ */

/* Addresses cost the kernel nothing: a block of the C library's gets many more than it has bytes, and becomes longer by
 * unlocking some of them. Emulators keep a record of every page (QEMU 0.5 s and 360 MB for 64 GiB), so that it is not
 * more of them than sizes grow by. The caller's allocator has no such thing; there a block that must grow is another
 * one, as it is past its room. */
#define LEAST_ROOM ((size_t)1 << 30)
#define MOST_ROOM ((size_t)64 << 30)
#define GROWTH 64

static struct tcr_range *range_of(struct tcr_cpu *c, const void *p)
{
    for (int i = 0; i < TCR_MAX_RANGES; i++)
        if (c->ranges[i].at == p)
            return &c->ranges[i];
    return NULL;
}

/* The addresses of a new block, on a huge page's boundary: otherwise its first and last 2 MiB would be small pages.
 * NULL: take it from the heap. */
static void *reserve_range(struct tcr_cpu *c, size_t bytes)
{
    struct tcr_range *r = range_of(c, NULL);
    char *base;

    if (!r || c->heap->allocator.alloc != default_alloc || bytes > MOST_ROOM)
        return NULL;
    size_t room = bytes > MOST_ROOM / GROWTH ? MOST_ROOM : to_pages(bytes * GROWTH);
    room = room < LEAST_ROOM ? LEAST_ROOM : room;
    base = mmap(NULL, room + HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    *r = (struct tcr_range){base + (-(uintptr_t)base & (HUGE_PAGE - 1)), base, room};
    return r->at;
}

static int unlock(struct tcr_cpu *c, char *p, size_t held, size_t bytes)
{
    size_t from = to_pages(held), to = to_pages(bytes);

    if (to > from && mprotect(p + from, to - from, PROT_READ | PROT_WRITE))
        return tcr_fail(TCC_EENV, "no memory for %zu bytes", bytes);
    if (on_huge_pages(bytes))
        madvise(p, to, MADV_HUGEPAGE);
    c->heap->held += TCR_ROUND(bytes) - TCR_ROUND(held);
    return TCC_OK;
}

int tcr_cpu_grow(struct tcr_device *d, void **p, size_t *held, size_t bytes)
{
    struct tcr_cpu *c = (struct tcr_cpu *)d;
    struct tcr_range *r = *p ? range_of(c, *p) : NULL;
    int status;

    if (*p && *held >= bytes)
        return TCC_OK;
    if (*p && (!r || bytes > r->room)) {
        tcr_cpu_release(d, *p, *held);
        *p = NULL;
        *held = 0;
        r = NULL;
    }
    if (!*p && (*p = reserve_range(c, bytes)))
        r = range_of(c, *p);
    if (!*p && !(*p = tcr_heap_alloc(c->heap, bytes)))
        return TCC_EENV;
    if (r && (status = unlock(c, *p, *held, bytes)))
        return status;
    *held = bytes;
    return TCC_OK;
}

void tcr_cpu_release(struct tcr_device *d, void *p, size_t held)
{
    struct tcr_cpu *c = (struct tcr_cpu *)d;
    struct tcr_range *r = p ? range_of(c, p) : NULL;

    if (!r) {
        tcr_heap_free(c->heap, p, held);
        return;
    }
    munmap(r->base, r->room + HUGE_PAGE);
    c->heap->held -= TCR_ROUND(held);
    *r = (struct tcr_range){0};
}
