/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.c - places the buffers of an entry point in the arena when their sizes are bound: largest first, at the lowest
 * offset that no buffer of the same memory living at the same time covers ("greedy by size", Pisarchyk and Lee, 2020,
 * arXiv 2001.03288), as the compiler does when it knows the sizes. Done once for each new set of sizes; where a device
 * keeps programs, for the most that they may be (bounds.c).
 */
#include "runtime/rt_int.h"

#include <stdlib.h>
#include <string.h>

struct item {
    uint32_t buffer, first, last, arena;
    uint64_t bytes, offset;
};

static int larger_first(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

/* Gives items[i] its place; by_offset holds those before it, in order of their offsets. */
static bool place_one(struct item *items, uint32_t i, uint32_t *by_offset)
{
    struct item *x = &items[i];
    uint64_t at = 0, end;
    uint32_t k = 0, into = 0;

    for (; k < i; k++) {
        const struct item *p = &items[by_offset[k]];

        if (p->last < x->first || x->last < p->first || p->arena != x->arena)
            continue;
        if (p->offset >= at && p->offset - at >= x->bytes)
            break;
        if (p->offset + p->bytes > at)
            at = p->offset + p->bytes;
    }
    if (__builtin_add_overflow(at, x->bytes, &end) || end > INT64_MAX / 2)
        return false;
    x->offset = at;
    while (into < i && items[by_offset[into]].offset <= at)
        into++;
    memmove(by_offset + into + 1, by_offset + into, (i - into) * sizeof *by_offset);
    by_offset[into] = i;
    return true;
}

/* Reads the sizes; true if they are those of the last time. */
static int read_sizes(struct tccrt_session *s, const struct tcc_pentry *e, struct tcr_placement *p, bool *same)
{
    *same = p->done;
    for (uint32_t i = 0; i < e->placed.count; i++) {
        uint32_t b = s->m->u32s[e->placed.first + i];
        int64_t bytes;
        int status = tcr_size(s, s->m->buffers[b].bytes, tcr_string(s->m, s->m->buffers[b].name), "", &bytes);

        if (status)
            return status;
        if (s->ranges && tcr_most(s, s->m->buffers[b].bytes) <= INT64_MAX / 2) /* programs keep addresses */
            bytes = tcr_most(s, s->m->buffers[b].bytes);
        if (bytes > INT64_MAX / 2)
            return tcr_fail(TCC_EINPUT, "buffer '%s': its size overflows", tcr_string(s->m, s->m->buffers[b].name));
        *same = *same && p->sizes[i] == bytes;
        p->sizes[i] = bytes;
    }
    return TCC_OK;
}

int tcr_place(struct tccrt_session *s, const struct tcc_pentry *e, int64_t *arenas)
{
    struct tcr_placement *p = &s->placements[e - s->m->entries];
    uint32_t n = e->placed.count, *by_offset;
    struct item *items;
    bool same, fits = true;
    int status;

    arenas[0] = arenas[1] = 0;
    if (n == 0)
        return TCC_OK;
    if (!p->sizes && !(p->sizes = tcr_heap_alloc(&s->heap, n * sizeof *p->sizes)))
        return TCC_EENV;
    if ((status = read_sizes(s, e, p, &same)))
        p->done = false;
    if (status || same) {
        for (int i = 0; i < 2; i++)
            arenas[i] = (int64_t)p->arenas[i];
        return status;
    }
    p->done = false;
    p->arenas[0] = p->arenas[1] = 0;
    items = tcr_heap_alloc(&s->heap, n * sizeof *items);
    by_offset = tcr_heap_alloc(&s->heap, n * sizeof *by_offset);
    for (uint32_t i = 0; items && i < n; i++) {
        uint32_t b = s->m->u32s[e->placed.first + i];

        items[i] = (struct item){.buffer = b,
                                 .first = s->m->buffers[b].first,
                                 .last = s->m->buffers[b].last,
                                 .arena = tcr_arena(s, b),
                                 .bytes = TCR_ROUND((uint64_t)p->sizes[i])};
    }
    if (items && by_offset) {
        qsort(items, n, sizeof *items, larger_first);
        for (uint32_t i = 0; i < n && fits; i++) {
            fits = place_one(items, i, by_offset);
            s->places[items[i].buffer] = items[i].offset;
            if (items[i].offset + items[i].bytes > p->arenas[items[i].arena])
                p->arenas[items[i].arena] = items[i].offset + items[i].bytes;
        }
        p->done = fits;
    }
    for (int i = 0; i < 2; i++)
        arenas[i] = (int64_t)p->arenas[i];
    status = !items || !by_offset ? TCC_EENV : fits ? TCC_OK : tcr_fail(TCC_EINPUT, "the arena's size overflows");
    tcr_heap_free(&s->heap, items, n * sizeof *items);
    tcr_heap_free(&s->heap, by_offset, n * sizeof *by_offset);
    return status;
}
