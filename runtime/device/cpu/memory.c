/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the host: the session's allocator, 64-byte aligned; blocks that are worth it lie on huge pages. Large zeroed ones (moments of
 * optimizers) come from the kernel, which hands out pages when they are first written: a session that only evaluates never pays for them.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/device/cpu/cpu_int.h"

#define HUGE_PAGE ((size_t)2 << 20)
#define LAZY_BYTES ((size_t)256 << 10)

static void *default_alloc(void *user, size_t bytes, size_t alignment)
{
    void *p;

    (void)user;
    if (bytes < 2 * HUGE_PAGE)
        return aligned_alloc(alignment, bytes);
    p = aligned_alloc(HUGE_PAGE, (bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));
    if (p)
        madvise(p, bytes, MADV_HUGEPAGE);
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
    void *p = size < bytes ? NULL : h->allocator.alloc(h->allocator.user, size, TCR_ALIGN);

    if (!p) {
        tcr_fail(TCC_EENV, "no memory for %zu bytes", bytes);
        return NULL;
    }
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

void *tcr_cpu_alloc(struct tcr_device *d, size_t bytes, bool zeroed)
{
    struct tcr_heap *h = ((struct tcr_cpu *)d)->heap;
    void *p;

    if (!lazy(h, bytes, zeroed)) {
        p = tcr_heap_alloc(h, bytes);
        if (p && zeroed)
            memset(p, 0, bytes);
        return p;
    }
    p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        tcr_fail(TCC_EENV, "no memory for %zu bytes", bytes);
        return NULL;
    }
    if (bytes >= 2 * HUGE_PAGE)
        madvise(p, bytes, MADV_HUGEPAGE);
    h->held += TCR_ROUND(bytes);
    return p;
}

void tcr_cpu_free(struct tcr_device *d, void *p, size_t bytes, bool zeroed)
{
    struct tcr_heap *h = ((struct tcr_cpu *)d)->heap;

    if (!p || !lazy(h, bytes, zeroed)) {
        tcr_heap_free(h, p, bytes);
        return;
    }
    h->held -= TCR_ROUND(bytes);
    munmap(p, bytes);
}

int tcr_cpu_copy(struct tcr_device *d, enum tcr_copy_kind kind, void *to, const void *from, size_t bytes)
{
    (void)d, (void)kind;
    if (bytes && to != from)
        memmove(to, from, bytes);
    return TCC_OK;
}
