/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Races on global memory, by happens-before. Each word remembers its last write and its last read: the launch or copy
 * (epoch), the block, the thread and the block's era, in 64 bits. Within a block accesses are ordered as those of
 * shared memory are (race.c). Between blocks: a fence of the device's scope marks an era as fenced; an atomic
 * operation, or a volatile or ordered store, after it publishes that era at its address, and what reads the address so
 * takes it over. Between launches: by the clocks of their streams (ptx_begin). One write and one read a word, and eras
 * that end: a bounded memory loses races, never invents one.
 */
#include <stdlib.h>

#include "sim/grow.h"
#include "sim/ptx/ptx_int.h"

/* A record: epoch 12 bits, block 20, thread 10, era 17, atomic 1, bytes 4; 0: none. */
#define EPOCH(r) ((unsigned)((r) >> 52))
#define BLOCK(r) ((uint32_t)((r) >> 32 & 0xfffff))
#define THREAD(r) ((unsigned)((r) >> 22 & 0x3ff))
#define ERA(r) ((uint32_t)((r) >> 5 & 0x1ffff))
#define ATOMIC (UINT64_C(1) << 4)
#define BYTES(r) ((unsigned)(r)&15)
#define MAX_ERA 0x1ffff
#define HOST_BLOCK 0xfffffu

static uint64_t record(unsigned epoch, uint32_t block, unsigned thread, uint32_t era, bool atomic)
{
    return (uint64_t)epoch << 52 | (uint64_t)block << 32 | (uint64_t)thread << 22 | (uint64_t)era << 5 |
           (atomic ? ATOMIC : 0);
}

/* -- What a block has seen of others -- */

static struct ptx_seen *slot_of(const struct ptx_seen_set *s, uint32_t block)
{
    uint32_t at = block * 2654435761u & (s->room - 1);
    while (s->at[at].block && s->at[at].block != block)
        at = (at + 1) & (s->room - 1);
    return &s->at[at];
}

static bool see(struct ptx_seen_set *s, uint32_t block, uint32_t era)
{
    if (2 * s->n >= s->room) {
        struct ptx_seen_set grown = {.room = s->room ? 2 * s->room : 16, .n = s->n};
        grown.at = calloc(grown.room, sizeof *grown.at);
        if (!grown.at)
            return false;
        for (uint32_t k = 0; k < s->room; k++)
            if (s->at[k].block)
                *slot_of(&grown, s->at[k].block) = s->at[k];
        free(s->at);
        *s = grown;
    }
    struct ptx_seen *e = slot_of(s, block);
    s->n += !e->block;
    e->block = block;
    e->era = era > e->era ? era : e->era;
    return true;
}

static void see_all(struct ptx_block *b, struct ptx_seen_set *to, const struct ptx_seen_set *from)
{
    for (uint32_t k = 0; k < from->room; k++)
        if (from->at[k].block && !see(to, from->at[k].block, from->at[k].era)) {
            b->g->no_memory = true;
            b->stop = true;
        }
}

void ptx_race_fence(struct ptx_warp *w)
{
    w->b->fenced = w->b->lead->era++;
}

static struct ptx_flag *flag_at(struct ptx_grid *g, uint64_t address)
{
    for (int k = 0; k < g->nflags; k++)
        if (g->flags[k].address == address)
            return &g->flags[k];
    if (!GROWN(g->flags, g->nflags, g->flag_room, 16))
        return NULL;
    g->flags[g->nflags] = (struct ptx_flag){.address = address};
    return &g->flags[g->nflags++];
}

void ptx_race_sync(struct ptx_warp *w, uint64_t address, int how)
{
    struct ptx_block *b = w->b;
    if (!b->d->config.checks || !b->number)
        return;
    pthread_mutex_lock(&b->g->lock);
    struct ptx_flag *f = flag_at(b->g, address);
    if (f && how & SYNC_RELEASE && b->fenced) {
        see_all(b, &f->seen, &b->seen);
        see(&f->seen, b->number, b->fenced);
    }
    if (f && how & SYNC_ACQUIRE)
        see_all(b, &b->seen, &f->seen);
    pthread_mutex_unlock(&b->g->lock);
}

/* -- Accesses -- */

/* Did the access happen before what thread `thread` of the warp does now? */
static bool ordered(const struct ptx_warp *w, uint64_t r, unsigned thread)
{
    const struct ptx_block *b = w->b;
    const struct ptx_device *d = b->d;
    if (EPOCH(r) != d->epoch) {
        const struct ptx_epoch *e = &d->epochs[EPOCH(r)];
        return !d->clock || d->clock[e->slot] >= e->id;
    }
    if (b->nblocks > 1 && BLOCK(r) != b->number) /* another block of the cluster: its barrier orders, too */
        for (int k = 0; k < b->nblocks; k++)
            if (b->lead[k].number == BLOCK(r) && ERA(r) <= w->clock[k * MAX_WARPS + (int)(THREAD(r) / LANES)])
                return true;
    if (BLOCK(r) == b->number)
        return THREAD(r) == thread || ERA(r) <= w->clock[b->rank * MAX_WARPS + (int)(THREAD(r) / LANES)];
    return b->seen.room && slot_of(&b->seen, BLOCK(r))->block && slot_of(&b->seen, BLOCK(r))->era >= ERA(r);
}

static void conflict(struct ptx_warp *w, int lane, uint64_t address, uint64_t r, bool write, bool wrote)
{
    const char *verb = write ? "write" : "read", *other = wrote ? "wrote" : "read";
    if (EPOCH(r) != w->b->d->epoch)
        ptx_report(w, PTX_CHECK_STREAM_RACE, lane, address,
                   "%s of memory that an earlier operation, which nothing orders before this launch, %s", verb, other);
    else if (BLOCK(r) == w->b->number)
        ptx_report(w, PTX_CHECK_RACE, lane, address,
                   "%s of global memory that thread %u of the block %s without a barrier between them", verb, THREAD(r),
                   other);
    else
        ptx_report(w, PTX_CHECK_BLOCK_RACE, lane, address,
                   "%s of global memory that block %u %s, with no release and acquire between them", verb, BLOCK(r) - 1,
                   other);
}

static inline bool clashes(const struct ptx_warp *w, uint64_t old, uint64_t r, unsigned thread)
{
    return old && BYTES(old) & BYTES(r) && !(old & r & ATOMIC) && !ordered(w, old, thread);
}

static inline void word(struct ptx_warp *w, int lane, uint64_t *cell, uint64_t address, uint64_t r, bool write)
{
    uint64_t before = __atomic_load_n(&cell[0], __ATOMIC_RELAXED), read = __atomic_load_n(&cell[1], __ATOMIC_RELAXED);
    unsigned thread = THREAD(r);
    if (before && clashes(w, before, r, thread))
        conflict(w, lane, address, before, write, true);
    else if (write && read && clashes(w, read, r, thread))
        conflict(w, lane, address, read, true, false);
    uint64_t own = write ? before : read;
    __atomic_store_n(&cell[write ? 0 : 1], (own ^ r) >> 4 ? r : r | BYTES(own), __ATOMIC_RELAXED);
    if (write && read && !(BYTES(read) & ~BYTES(r)) &&
        !(r & ATOMIC)) /* what comes after the write comes after the read */
        __atomic_store_n(&cell[1], 0, __ATOMIC_RELAXED);
}

static bool recorded(const struct ptx_warp *w, const struct ptx_place *p)
{
    return p->a && p->a->cells && w->b->number && w->b->lead->era < MAX_ERA;
}

static void span(struct ptx_warp *w, int lane, const struct ptx_place *p, uint64_t offset, size_t bytes, bool write,
                 bool atomic)
{
    uint64_t r =
        record(w->b->d->epoch, w->b->number, (unsigned)w->id * LANES + (unsigned)lane, w->b->lead->era, atomic);
    for (uint64_t at = offset, end = offset + bytes; at < end;) {
        uint64_t k = at / 4, from = at % 4, to = end - k * 4 < 4 ? end - k * 4 : 4;
        word(w, lane, p->a->cells + 2 * k, p->a->base + at, r | (((1u << to) - 1) & ~((1u << from) - 1)), write);
        at = k * 4 + 4;
    }
}

void ptx_race_global(struct ptx_warp *w, int lane, const struct ptx_place *p, size_t bytes, bool write, bool atomic)
{
    if (recorded(w, p))
        span(w, lane, p, p->offset - p->a->base, bytes, write, atomic);
}

void ptx_race_run(struct ptx_warp *w, const struct ptx_place *p, size_t bytes, bool write, bool atomic)
{
    if (!recorded(w, p))
        return;
    uint64_t offset = p->offset - p->a->base;
    if (bytes != 4) {
        for (unsigned l = 0; l < LANES; l++)
            span(w, (int)l, p, offset + l * bytes, bytes, write, atomic);
        return;
    }
    uint64_t r = record(w->b->d->epoch, w->b->number, (unsigned)w->id * LANES, w->b->lead->era, atomic) | 15;
    for (unsigned l = 0; l < LANES; l++)
        word(w, (int)l, p->a->cells + 2 * (offset / 4 + l), p->offset + 4 * l, r + ((uint64_t)l << 22), write);
}

/* -- Copies and fills -- */

static void copy_conflict(struct ptx_device *d, uint64_t address, bool write, bool wrote)
{
    ptx_report_host(d, PTX_CHECK_STREAM_RACE, address,
                    "%s of memory that an earlier operation, which nothing orders before this one, %s",
                    write ? "write" : "read", wrote ? "wrote" : "read");
}

static bool unordered(const struct ptx_device *d, uint64_t old, unsigned bytes)
{
    const struct ptx_epoch *e = &d->epochs[EPOCH(old)];
    return old && BYTES(old) & bytes && EPOCH(old) != d->epoch && d->clock && d->clock[e->slot] < e->id;
}

void ptx_race_copy(struct ptx_device *d, const struct ptx_alloc *a, uint64_t offset, size_t bytes, bool write)
{
    if (!a->cells)
        return;
    uint64_t r = record(d->epoch, HOST_BLOCK, 0, 0, false);
    for (uint64_t at = offset, end = offset + bytes; at < end;) {
        uint64_t k = at / 4, from = at % 4, to = end - k * 4 < 4 ? end - k * 4 : 4, *cell = a->cells + 2 * k;
        unsigned mask = ((1u << to) - 1) & ~((1u << from) - 1);
        if (unordered(d, cell[0], mask))
            copy_conflict(d, a->base + at, write, true);
        else if (write && unordered(d, cell[1], mask))
            copy_conflict(d, a->base + at, write, false);
        cell[write ? 0 : 1] = r | mask;
        if (write && !(BYTES(cell[1]) & ~mask))
            cell[1] = 0;
        at = k * 4 + 4;
    }
}

/* -- Ranges of a launch -- */

bool ptx_in_range(struct ptx_warp *w, const struct ptx_alloc *a, uint64_t address, size_t bytes, int lane, bool write)
{
    const struct ptx_device *d = w->b->d;
    const struct ptx_range *near = NULL;
    for (int k = 0; k < d->nranges; k++) {
        const struct ptx_range *r = &d->ranges[k];
        if (address >= r->address && address + bytes <= r->address + r->bytes && (r->writable || !write))
            return true;
        if (r->address <= address && (!near || near->address <= r->address))
            near = r;
    }
    if (near && address + bytes <= near->address + near->bytes)
        ptx_report(w, PTX_CHECK_READONLY, lane, address, "write of %zu bytes in '%s', which the launch only reads",
                   bytes, near->name);
    else
        ptx_report(w, PTX_CHECK_BOUNDS, lane, address, "%s of %zu bytes, %lld bytes past the end of '%s' in '%s'",
                   write ? "write" : "read", bytes,
                   near ? (long long)(address - near->address - near->bytes) : (long long)(address - a->base),
                   near ? near->name : "no range", a->name);
    return false;
}
