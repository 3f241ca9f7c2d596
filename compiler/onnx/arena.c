/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arena that a model read from an ONNX file lives in: blocks that double up to 1 MiB, freed together, so
 * that a message that fails half-way leaks nothing and closing a model is one walk over few blocks.
 */
#include "compiler/onnx/decode_int.h"

#include <stdlib.h>
#include <string.h>

struct block {
    struct block *next;
    size_t used, room;
    _Alignas(16) unsigned char bytes[];
};

struct onnx_arena {
    struct block *blocks;
};

struct onnx_arena *onnx_arena_new(void)
{
    return calloc(1, sizeof(struct onnx_arena));
}

void *onnx_arena_alloc(struct onnx_arena *a, size_t count, size_t size)
{
    if (size && count > (SIZE_MAX / 4) / size)
        return NULL;
    size_t want = (count * size + 15) & ~(size_t)15;
    struct block *b = a->blocks;
    if (!want)
        want = 16;
    if (!b || b->room - b->used < want) {
        size_t room = b && b->room < ((size_t)1 << 20) ? b->room * 2 : b ? b->room : 4096;
        if (room > ((size_t)1 << 20))
            room = (size_t)1 << 20;
        if (room < want)
            room = want;
        struct block *fresh = malloc(sizeof *fresh + room);
        if (!fresh)
            return NULL;
        fresh->used = 0;
        fresh->room = room;
        fresh->next = b;
        a->blocks = b = fresh;
    }
    void *p = b->bytes + b->used;
    b->used += want;
    return memset(p, 0, want);
}

void onnx_arena_free(struct onnx_arena *a)
{
    if (!a)
        return;
    for (struct block *b = a->blocks; b;) {
        struct block *next = b->next;
        free(b);
        b = next;
    }
    free(a);
}
