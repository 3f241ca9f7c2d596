/* SPDX-License-Identifier: Apache-2.0 */
/* map.c - the map: open addressing in a table of a power of two entries, half of them free at least. */
#include "ir/map.h"

#include "ir/ir.h"

/* The key's entry, or the free one (of key 0) where it belongs. */
static struct ir_map_entry *entry_of(const struct ir_map *m, uint64_t key)
{
    uint32_t i = (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (m->room - 1);
    while (m->at[i].key && m->at[i].key != key)
        i = (i + 1) & (m->room - 1);
    return &m->at[i];
}

void **ir_map_find(const struct ir_map *m, uint64_t key)
{
    struct ir_map_entry *e = m->room ? entry_of(m, key + !key) : NULL;
    return e && e->key ? &e->value : NULL;
}

void **ir_map_add(struct ir_ctx *ctx, struct ir_map *m, uint64_t key)
{
    if (2 * m->n >= m->room) {
        struct ir_map bigger = {.n = m->n, .room = m->room ? 2 * m->room : 16};
        bigger.at = IR_NEWN(ctx, bigger.room, struct ir_map_entry);
        for (uint32_t i = 0; i < m->room; i++)
            if (m->at[i].key)
                *entry_of(&bigger, m->at[i].key) = m->at[i];
        *m = bigger;
    }
    struct ir_map_entry *e = entry_of(m, key + !key);
    m->n += !e->key;
    e->key = key + !key;
    return &e->value;
}
