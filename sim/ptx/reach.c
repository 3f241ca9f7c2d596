/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accesses of a whole warp at once. Where all active lanes' bytes lie in one piece of memory that may be accessed so,
 * bounds and alignment are checked by the least and the greatest address; what depends on a lane's bytes (were they
 * written? races) stays with the lane. Anything else, and whatever is wrong, is left to access.c, which looks at lane
 * by lane and reports. Lanes that access neighbouring elements are one copy.
 */
#include "sim/ptx/ptx_int.h"

/* The range that was right for the last access of the warp is tried first. */
/* Of an allocation with ranges: is it in one that allows it? */
static bool ptx_within(struct ptx_warp *w, const struct ptx_alloc *a, uint64_t address, uint64_t bytes, bool write)
{
    const struct ptx_device *d = w->b->d;
    const struct ptx_range *r = w->range;
    if (!a->ranged)
        return true;
    for (int k = -1; k < d->nranges; k++, r = &d->ranges[k])
        if (r && address >= r->address && address + bytes <= r->address + r->bytes && (r->writable || !write)) {
            w->range = r;
            return true;
        }
    return false;
}

/* The allocation in which the bytes from one address on lie, if they may be accessed. */
static struct ptx_alloc *allocation(struct ptx_warp *w, uint64_t at, uint64_t bytes, bool write)
{
    struct ptx_alloc *a = w->last;
    if (!a || at < a->base || at - a->base >= a->size)
        a = ptx_lookup(w->b->d, at);
    if (!a || !a->live || (write && a->constant) || bytes > a->size - (at - a->base) ||
        !ptx_within(w, a, at, bytes, write))
        return NULL;
    return w->last = a;
}

static bool is_shared(enum ptx_space space, uint64_t address)
{
    return space == SP_SHARED || (space == SP_GENERIC && (address & WINDOW_MASK) == WINDOW_SHARED);
}

bool ptx_reach(struct ptx_warp *w, enum ptx_space space, const uint64_t *address, uint32_t mask, size_t bytes,
               bool write, struct ptx_reach *to)
{
    struct ptx_block *b = w->b;
    uint64_t x[3];
    w->rows->extent(address, mask, x);
    uint64_t all = x[1] - x[0] + bytes;
    if (x[2] & (bytes - 1) || bytes & (bytes - 1) || all > UINT64_MAX / 2)
        return false;
    if (is_shared(space, x[0])) {
        uint64_t base = space == SP_SHARED ? 0 : WINDOW_SHARED;
        *to = (struct ptx_reach){b->shared, b->shadow, base, NULL, !b->d->config.checks};
        return ptx_in_shared(b, x[0] - base, all) && !(write && b->lead->nbulk);
    }
    if ((space != SP_GLOBAL && space != SP_GENERIC) || (write && b->d->dry))
        return false;
    struct ptx_alloc *a = allocation(w, x[0], all, write);
    if (!a)
        return false;
    *to =
        (struct ptx_reach){a->data, a->shadow, a->base, a,
                           !b->d->config.checks || !a->shadow || atomic_load_explicit(&a->whole, memory_order_relaxed)};
    return true;
}

/* -- Neighbouring elements -- */

/* Do the 32 lanes access neighbouring elements, or vectors of them, by registers of their width? */
static bool is_run(const struct ptx_insn *i, const uint64_t *address, uint32_t mask, size_t bytes)
{
    uint64_t differ = 0;
    if (mask != FULL || (i->vec > 1 && bytes != 16) || address[LANES - 1] != address[0] + (LANES - 1) * bytes)
        return false;
    for (int k = 0; k < i->vec; k++)
        if (i->more[k].sink || i->more[k].bytes != bytes / i->vec || i->more[k].bytes > 8 || i->more[k].bytes < 2)
            return false;
    for (unsigned l = 0; l < LANES; l++)
        differ |= address[l] ^ (address[0] + l * bytes);
    return !differ && !(address[0] & (bytes - 1));
}

static bool all_written(const uint8_t *shadow, size_t bytes)
{
    uint64_t differ = 0, part;
    for (size_t k = 0; k < bytes; k += 8) {
        memcpy(&part, shadow + k, 8);
        differ |= part ^ 0x0101010101010101;
    }
    return !differ;
}

static bool place_shared_run(struct ptx_block *b, uint64_t at, size_t bytes, bool write, struct ptx_place *to)
{
    size_t all = LANES * bytes;
    if (!ptx_in_shared(b, at, all) || (write && b->lead->nbulk))
        return false;
    *to = (struct ptx_place){b->shared + at, b->shadow + at, SP_SHARED, at, NULL, b};
    if (b->d->config.checks && (write ? memchr(to->shadow, 2, all) != NULL : !all_written(to->shadow, all)))
        return false;
    b->count.shared_requests++;
    b->count.shared_wavefronts += bytes > 4 ? bytes / 4 : 1;
    b->count.shared_ideal += bytes > 4 ? bytes / 4 : 1;
    return true;
}

/* Where a run lies; false: look at each lane. Counts it. */
static bool place_run(struct ptx_warp *w, const struct ptx_insn *i, uint64_t first, size_t bytes, bool write,
                      struct ptx_place *to)
{
    struct ptx_block *b = w->b;
    size_t all = LANES * bytes;
    if (is_shared(i->space, first))
        return place_shared_run(b, i->space == SP_SHARED ? first : first - WINDOW_SHARED, bytes, write, to);
    if (i->space != SP_GLOBAL && i->space != SP_GENERIC)
        return false;
    struct ptx_alloc *a = allocation(w, first, all, write);
    if (!a)
        return false;
    *to = (struct ptx_place){
        a->data + (first - a->base), a->shadow ? a->shadow + (first - a->base) : NULL, SP_GLOBAL, first, a, NULL};
    if (write && b->d->dry) {
        to->data = b->sink;
        to->shadow = NULL;
    }
    if (!write && b->d->config.checks && !atomic_load_explicit(&a->whole, memory_order_relaxed) &&
        !all_written(to->shadow, all))
        return false;
    ptx_count_lines(w, a, first, all);
    b->count.global_requests++;
    b->count.global_sectors += ((first + all - 1) >> 5) - (first >> 5) + 1;
    b->count.ideal_sectors += (all + 31) / 32;
    return true;
}

/* Elements of a run to and from registers: vectors lie side by side in memory, a row for each of their elements in the
 * frame. */
#define EACH_ELEMENT(T, to, from)                   \
    for (int k = 0; k < i->vec; k++) {              \
        T *row = ptx_row(w, &i->more[k]), *all = m; \
        for (int l = 0; l < LANES; l++)             \
            to = from;                              \
    }

static void put_run(struct ptx_warp *w, const struct ptx_insn *i, void *m)
{
    switch (i->more[0].bytes) {
    case 2: EACH_ELEMENT(uint16_t, row[l], all[l * i->vec + k]) break;
    case 4: EACH_ELEMENT(uint32_t, row[l], all[l * i->vec + k]) break;
    default: EACH_ELEMENT(uint64_t, row[l], all[l * i->vec + k])
    }
    for (int k = 0; k < i->vec; k++)
        w->frame->def[i->more[k].reg] = FULL;
}

static void get_run(struct ptx_warp *w, const struct ptx_insn *i, void *m)
{
    switch (i->more[0].bytes) {
    case 2: EACH_ELEMENT(uint16_t, all[l * i->vec + k], row[l]) break;
    case 4: EACH_ELEMENT(uint32_t, all[l * i->vec + k], row[l]) break;
    default: EACH_ELEMENT(uint64_t, all[l * i->vec + k], row[l])
    }
}

bool ptx_run_of_lanes(struct ptx_warp *w, const struct ptx_insn *i, const uint64_t *address, uint32_t mask,
                      size_t bytes, bool write)
{
    struct ptx_place p;
    if (i->flags & F_VOLATILE || !is_run(i, address, mask, bytes) || !place_run(w, i, address[0], bytes, write, &p))
        return false;
    if (p.space == SP_SHARED)
        ptx_race_lanes(w, address, address[0] - p.offset, FULL, bytes, write);
    if (p.space == SP_GLOBAL)
        ptx_race_run(w, &p, bytes, write, false);
    if (write) {
        get_run(w, i, p.data);
        ptx_mark_written(&p, LANES * bytes);
    } else {
        put_run(w, i, p.data);
    }
    return true;
}
