/* SPDX-License-Identifier: Apache-2.0 */
/*
 * map.h - a map from numbers to pointers: keys are digests, and interned names and other pointers as numbers
 * (ir_map_key). Begins as {0}; memory from the context's arena.
 */
#ifndef TCC_IR_MAP_H
#define TCC_IR_MAP_H

#include <stdint.h>

struct ir_ctx;

struct ir_map {
    struct ir_map_entry { uint64_t key; void *value; } *at;
    uint32_t n, room;
};

static inline uint64_t ir_map_key(const void *p) { return (uint64_t)(uintptr_t)p; }
/* Where a key's value is, until another key is added; NULL: the map has not that key. */
void **ir_map_find(const struct ir_map *m, uint64_t key);
void **ir_map_add(struct ir_ctx *ctx, struct ir_map *m, uint64_t key);  /* likewise; a new key's value is NULL */

#endif
