/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Races on shared memory, by happens-before. The block counts eras: each arrival at a barrier and each completion
 * begins one. A warp's clock[v] is the era up to which the accesses of warp v happened before what it does now;
 * clock[own] the era of its last bar.warp.sync or barrier, which orders its own lanes. A word of memory remembers two
 * writers and two readers, each with its era, thread and bytes: a bounded memory loses races, never invents one
 * (compare FastTrack, Flanagan and Freund 2009).
 */
#include "sim/ptx/ptx_int.h"

/* A record: era 32 bits, by the async proxy 1, atomic 1, thread 16, bytes 4; 0: none. */
#define ERA(r) ((uint32_t)((r) >> 32))
#define ASYNC(r) ((r) >> 21 & 1)
#define ASYNC_BIT (UINT64_C(1) << 21)
#define ATOMIC(r) ((r) >> 20 & 1)
#define THREAD(r) ((unsigned)((r) >> 4 & 0xffff))
#define BYTES(r) ((unsigned)(r)&15)

static inline bool ordered(const struct ptx_warp *w, uint64_t r, unsigned thread)
{
    unsigned other = THREAD(r);
    if (!r || other == thread)
        return true;
    return ERA(r) <= w->clock[other / LANES];
}

__attribute__((noinline)) static void conflict(struct ptx_warp *w, int lane, uint32_t word, uint64_t r, bool write,
                                               bool before_write)
{
    unsigned t = THREAD(r);
    ptx_report(w, PTX_CHECK_RACE, lane, word * 4u,
               "%s of shared memory that thread %u %s without a barrier between them", write ? "write" : "read",
               t & 1023, before_write ? "wrote" : "read");
}

/* Keeps a record: in its thread's place, in an ordered or empty one, else at random. */
static inline void keep(struct ptx_warp *w, uint64_t *list, uint64_t r, unsigned thread)
{
    for (int k = 0; k < 2; k++)
        if (list[k] && THREAD(list[k]) == thread && ERA(list[k]) == ERA(r)) {
            list[k] = r | BYTES(list[k]);
            return;
        }
    for (int k = 0; k < 2; k++)
        if (ordered(w, list[k], thread)) {
            list[k] = r;
            return;
        }
    list[ptx_random(&w->b->random) & 1] = r;
}

/*
 * What happened before all that the block does now (floor: the era of the last barrier at which all of its warps met)
 * is ordered, without looking at whose it was; but not what the async proxy did, whose copies land when they like.
 */
static inline __attribute__((always_inline)) void word_access(struct ptx_warp *w, struct ptx_cell *c, int lane,
                                                              uint32_t word, uint64_t r, uint64_t floor, bool write)
{
    bool async = (c->write[0] | c->write[1] | c->read[0] | c->read[1]) & ASYNC_BIT;
    bool quiet = c->write[0] <= floor && c->write[1] <= floor && !async;
    uint64_t *list = write ? c->write : c->read;
    if (quiet && c->read[0] <= floor && c->read[1] <= floor) {
        list[0] = r;
        return;
    }
    unsigned thread = THREAD(r), bytes = BYTES(r);
    bool atomic = ATOMIC(r);
    for (int k = 0; k < 2 && !(quiet && !write); k++) {
        if (c->write[k] && BYTES(c->write[k]) & bytes && !(atomic && ATOMIC(c->write[k])) &&
            !ordered(w, c->write[k], thread)) {
            conflict(w, lane, word, c->write[k], write, true);
            break;
        }
        if (write && c->read[k] && BYTES(c->read[k]) & bytes && !(atomic && ATOMIC(c->read[k])) &&
            !ordered(w, c->read[k], thread)) {
            conflict(w, lane, word, c->read[k], true, false);
            break;
        }
    }
    keep(w, list, r, thread);
}

/* r: the record of the warp's first thread, without bytes. */
static inline __attribute__((always_inline)) void span(struct ptx_warp *w, struct ptx_cell *cells, unsigned lane,
                                                       uint32_t offset, size_t bytes, uint64_t r, uint64_t floor,
                                                       bool write)
{
    r += (uint64_t)lane << 4;
    if (!((offset | bytes) & 3)) {
        struct ptx_cell *c = &cells[offset / 4];
        for (uint32_t k = 0; k < bytes / 4; k++)
            word_access(w, c + k, (int)lane, offset / 4 + k, r | 15, floor, write);
        return;
    }
    for (uint32_t at = offset, end = offset + (uint32_t)bytes; at < end;) {
        uint32_t word = at / 4, from = at % 4, to = end - word * 4 < 4 ? end - word * 4 : 4;
        word_access(w, &cells[word], (int)lane, word, r | (((1u << to) - 1) & ~((1u << from) - 1)), floor, write);
        at = word * 4 + 4;
    }
}

static inline uint64_t record(const struct ptx_warp *w, int how)
{
    return (uint64_t)w->b->lead->era << 32 | (uint64_t)(how & RACE_ASYNC) << 20 | (uint64_t)(how & RACE_ATOMIC) << 20 |
           (uint64_t)ptx_index(w) * LANES << 4;
}

static inline uint64_t floor_of(const struct ptx_warp *w)
{
    return (uint64_t)w->floor << 32 | UINT32_MAX;
}

void ptx_race(struct ptx_warp *w, struct ptx_block *b, int lane, uint32_t offset, size_t bytes, bool write, int how)
{
    if (b->cells)
        span(w, b->cells, (unsigned)lane, offset, bytes, record(w, how), floor_of(w), write);
}

void ptx_race_lanes(struct ptx_warp *w, const uint64_t *address, uint64_t base, uint32_t mask, size_t bytes, bool write)
{
    struct ptx_cell *cells = w->b->cells;
    uint64_t r = record(w, 0), floor = floor_of(w);
    if (!cells)
        return;
    if (write)
        EACH_LANE(l, mask)
            span(w, cells, l, (uint32_t)(address[l] - base), bytes, r, floor, true);
    else
        EACH_LANE(l, mask)
            span(w, cells, l, (uint32_t)(address[l] - base), bytes, r, floor, false);
}

void ptx_race_warp(struct ptx_warp *w)
{
    w->clock[ptx_index(w)] = w->b->lead->era++;
}

/* -- The async proxy (PTX ISA, "Async proxy") -- */

bool ptx_by_async(const struct ptx_block *b, uint32_t offset)
{
    const struct ptx_cell *c = b->cells ? &b->cells[offset / 4] : NULL;
    if (!c)
        return false;
    return ASYNC(c->write[ERA(c->write[0]) >= ERA(c->write[1]) ? 0 : 1]);
}

bool ptx_proxy_read(struct ptx_warp *w, struct ptx_block *b, int lane, uint32_t offset, size_t bytes)
{
    for (uint32_t word = offset / 4; b->cells && word <= (offset + bytes - 1) / 4; word++)
        for (int k = 0; k < 2; k++) {
            uint64_t r = b->cells[word].write[k];
            if (!r || ASYNC(r))
                continue;
            const struct ptx_block *writer = &b->lead[THREAD(r) >> 10];
            if (ERA(r) <= writer->warps[(THREAD(r) & 1023) / LANES].proxy[THREAD(r) % LANES])
                continue;
            return ptx_report(w, PTX_CHECK_PROXY, lane, offset,
                              "'%s' reads shared memory that thread %u wrote without a fence.proxy.async after it",
                              w->at->text, THREAD(r) & 1023),
                   false;
        }
    return true;
}

void ptx_run_proxy_fence(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    (void)i;
    EACH_LANE(l, mask)
        w->proxy[l] = w->b->lead->era;
    w->b->lead->era++;
}
