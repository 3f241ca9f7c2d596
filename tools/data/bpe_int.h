/* SPDX-License-Identifier: Apache-2.0 */
/* bpe_int.h - a tokenizer's merges, and a text that is being encoded by them: what bpe.c and bpe_join.c share. */
#ifndef TCC_DATA_BPE_INT_H
#define TCC_DATA_BPE_INT_H

#include "tools/data/data_int.h"

#include <jansson.h>

#define NO_ID UINT32_MAX

struct bpe_merge {
    uint64_t pair; /* ids of both; UINT64_MAX: free */
    uint32_t rank, to;
};

struct bpe_added {
    char *text;
    size_t n;
    uint32_t id;
    bool left, right; /* takes the spaces on that side along */
};

/* A pair that may be joined: the symbols at `at` and behind it, as they were. */
struct bpe_candidate {
    uint32_t rank, at, left, right, to;
};

struct data_bpe {
    struct data_cut *cut;
    json_t *vocab;
    bool bytes, fallback, fuse, whole; /* whole: a word of the vocabulary is not cut (ignore_merges) */
    uint32_t byte[256];                /* ids of bytes; NO_ID: there is none */
    uint32_t letter[256];              /* that stand for bytes */
    uint32_t unknown;
    size_t nmerges; /* a power of two */
    struct bpe_merge *merges;
    size_t nadded;
    struct bpe_added *added;
    int64_t row[3]; /* of padding and truncation: data_bpe_row() */
    char digest[17];
};

/* What an encoding writes to, and works in. */
struct bpe_encoder {
    const struct data_bpe *b;
    uint32_t *ids; /* of all words so far, then those of this one */
    size_t n, room;
    uint32_t *next, *before; /* of a word: its symbols as a list */
    struct bpe_candidate *heap;
    size_t nheap, heap_room, list_room;
    char *spelled;
    size_t spelled_room;
};

/* bpe_join.c. Where a pair's merge is, or a free place. */
struct bpe_merge *bpe_slot(const struct data_bpe *b, uint64_t pair);
/* The list with room for n of `size` bytes, twice as much if it must grow; NULL: no memory, and the list is as it
 * was. */
void *bpe_grow(void *list, size_t *room, size_t n, size_t size);
/* Room for so many ids more; joins the last n of them, best pair first. False: no memory. */
bool bpe_reserve(struct bpe_encoder *e, size_t more);
bool bpe_join(struct bpe_encoder *e, size_t n);

#endif
