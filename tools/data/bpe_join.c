/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bpe_join.c - joins a word's symbols pair by pair: the pair that comes first in the list of merges first, of equal
 * ones the leftmost. Pairs that may be joined wait in a heap; symbols are a list.
 */
#include "tools/data/bpe_int.h"

#include <jansson.h>
#include <stdlib.h>

static uint64_t spread(uint64_t x)
{
    x = (x ^ x >> 31) * 0x9e3779b97f4a7c15;
    return x ^ x >> 29;
}

struct bpe_merge *bpe_slot(const struct data_bpe *b, uint64_t pair)
{
    size_t i = (size_t)spread(pair) & (b->nmerges - 1);

    while (b->merges[i].pair != UINT64_MAX && b->merges[i].pair != pair)
        i = (i + 1) & (b->nmerges - 1);
    return &b->merges[i];
}

void *bpe_grow(void *list, size_t *room, size_t n, size_t size)
{
    if (n <= *room)
        return list;
    void *grown = n > SIZE_MAX / 2 / size - 64 ? NULL : realloc(list, (2 * n + 64) * size);
    if (grown)
        *room = 2 * n + 64;
    return grown;
}

bool bpe_reserve(struct bpe_encoder *e, size_t more)
{
    uint32_t *ids = bpe_grow(e->ids, &e->room, e->n + more, sizeof *ids);

    e->ids = ids ? ids : e->ids;
    return ids != NULL;
}

static bool reserve_lists(struct bpe_encoder *e, size_t n)
{
    size_t room = e->list_room;
    uint32_t *next = bpe_grow(e->next, &room, n, sizeof *next);
    e->next = next ? next : e->next;
    uint32_t *before = next ? bpe_grow(e->before, &e->list_room, n, sizeof *before) : NULL;
    e->before = before ? before : e->before;
    return before != NULL;
}

static bool sooner(const struct bpe_candidate *a, const struct bpe_candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static bool push(struct bpe_encoder *e, const uint32_t *at, uint32_t i, uint32_t j)
{
    const struct bpe_merge *m = bpe_slot(e->b, (uint64_t)at[i] << 32 | at[j]);

    if (m->pair == UINT64_MAX)
        return true;
    struct bpe_candidate *heap = bpe_grow(e->heap, &e->heap_room, e->nheap + 1, sizeof *heap);
    if (!heap)
        return false;
    e->heap = heap;
    size_t k = e->nheap++;
    struct bpe_candidate c = {m->rank, i, at[i], at[j], m->to};
    for (; k && sooner(&c, &e->heap[(k - 1) / 2]); k = (k - 1) / 2)
        e->heap[k] = e->heap[(k - 1) / 2];
    e->heap[k] = c;
    return true;
}

static struct bpe_candidate pop(struct bpe_encoder *e)
{
    struct bpe_candidate top = e->heap[0], last = e->heap[--e->nheap];
    size_t k = 0;

    for (size_t child; (child = 2 * k + 1) < e->nheap; k = child) {
        child += child + 1 < e->nheap && sooner(&e->heap[child + 1], &e->heap[child]);
        if (!sooner(&e->heap[child], &last))
            break;
        e->heap[k] = e->heap[child];
    }
    if (e->nheap)
        e->heap[k] = last;
    return top;
}

bool bpe_join(struct bpe_encoder *e, size_t n)
{
    uint32_t *at = e->ids + e->n, end = (uint32_t)n;
    size_t kept = 0;

    if (n && !reserve_lists(e, n))
        return false;
    e->nheap = 0;
    for (uint32_t i = 0; i < end; i++) {
        e->next[i] = i + 1;
        e->before[i] = i ? i - 1 : NO_ID;
        if (i + 1 < end && !push(e, at, i, i + 1))
            return false;
    }
    while (e->nheap) {
        struct bpe_candidate c = pop(e);
        uint32_t other = at[c.at] == NO_ID ? end : e->next[c.at];
        if (other >= end || at[c.at] != c.left || at[other] != c.right)
            continue; /* joined with others meanwhile */
        uint32_t behind = e->next[other], front = e->before[c.at];
        at[c.at] = c.to;
        at[other] = NO_ID;
        e->next[c.at] = behind;
        if (behind < end)
            e->before[behind] = c.at;
        if ((front != NO_ID && !push(e, at, front, c.at)) || (behind < end && !push(e, at, c.at, behind)))
            return false;
    }
    for (size_t i = 0; i < n; i++)
        if (at[i] != NO_ID)
            at[kept++] = at[i];
    e->n += kept;
    return true;
}
