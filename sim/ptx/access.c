/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads and stores. ptx_place() finds the bytes of one lane's access in whatever space its address lies, after checking
 * alignment and bounds; a warp whose lanes all stay within one allocation takes a shorter way. Counters follow the CUDA
 * profiler's: a global request touches 32-byte sectors; a shared one takes as many wavefronts as its busiest bank has
 * distinct words (128-bit accesses a quarter warp at a time, 64-bit ones half a warp).
 */
#include "sim/ptx/ptx_int.h"

/* -- Places -- */

static bool misaligned(struct ptx_warp *w, uint64_t address, size_t bytes, int lane)
{
    if (!(address & (bytes - 1)) || bytes & (bytes - 1))
        return false;
    ptx_report(w, PTX_CHECK_MISALIGNED, lane, address,
               "an access of %zu bytes requires an address that is a multiple of %zu", bytes, bytes);
    return true;
}

static bool outside(struct ptx_warp *w, uint64_t address, size_t bytes, int lane, bool write)
{
    const struct ptx_device *d = w->b->d;
    const char *verb = write ? "write" : "read";
    struct ptx_alloc *near = ptx_lookup(d, address);
    if (near && !near->live)
        ptx_report(w, PTX_CHECK_FREED, lane, address, "%s of %zu bytes in freed memory '%s'", verb, bytes, near->name);
    else if (near)
        ptx_report(w, PTX_CHECK_BOUNDS, lane, address, "%s of %zu bytes, %llu bytes into '%s', which has %llu", verb,
                   bytes, (unsigned long long)(address - near->base), near->name, (unsigned long long)near->size);
    else if (address < d->reserve || address >= d->reserve + d->reserve_size)
        ptx_report(
            w, PTX_CHECK_HOST, lane, address,
            "%s of %zu bytes through a pointer that is no address of this device or of a peer that it may access", verb,
            bytes);
    else {
        const struct ptx_alloc *below = NULL;
        for (int k = 0; k < d->n && d->allocs[k]->base <= address; k++)
            below = d->allocs[k];
        ptx_report(w, PTX_CHECK_BOUNDS, lane, address, "%s of %zu bytes, %lld bytes past the end of '%s'", verb, bytes,
                   below ? (long long)(address - below->base - below->size) : 0, below ? below->name : "");
    }
    return false;
}

bool ptx_in_shared(const struct ptx_block *b, uint64_t at, uint64_t bytes)
{
    const struct ptx_func *f = b->f;
    if (at > b->shared_bytes || bytes > b->shared_bytes - at)
        return false;
    for (int k = 0; k < f->nshared; k++)
        if (at >= f->shared[k].from && at + bytes <= f->shared[k].to)
            return true;
    return at >= f->dynamic_at && b->l->shared;
}

void ptx_beyond_shared(struct ptx_warp *w, const struct ptx_block *b, int lane, uint64_t at, uint64_t bytes,
                       const char *what)
{
    const struct ptx_span *last = NULL;
    for (int k = 0; k < b->f->nshared; k++)
        if (b->f->shared[k].from <= at)
            last = &b->f->shared[k];
    if (last && !(b->l->shared && at >= b->f->dynamic_at))
        ptx_report(w, PTX_CHECK_BOUNDS, lane, at,
                   "%s of %llu bytes at shared address %llu, from byte %llu of '%s', which has %llu", what,
                   (unsigned long long)bytes, (unsigned long long)at, (unsigned long long)(at - last->from), last->name,
                   (unsigned long long)(last->to - last->from));
    else
        ptx_report(w, PTX_CHECK_BOUNDS, lane, at,
                   "%s of %llu bytes at shared address %llu, the launch has %zu bytes from %llu", what,
                   (unsigned long long)bytes, (unsigned long long)at, b->l->shared,
                   (unsigned long long)b->f->dynamic_at);
}

static bool place_shared(struct ptx_warp *w, uint64_t at, size_t bytes, int lane, bool write, struct ptx_place *to)
{
    struct ptx_block *b = w->b;
    unsigned rank = (unsigned)(at >> RANK_SHIFT);
    if (rank && rank <= (unsigned)b->nblocks) {
        b = &b->lead[rank - 1];
        at &= (1u << RANK_SHIFT) - 1;
    }
    if (!ptx_in_shared(b, at, bytes)) {
        ptx_beyond_shared(w, b, lane, at, bytes, write ? "write" : "read");
        return false;
    }
    bool gone = b != w->b;
    for (int k = 0; k < b->nwarps && gone; k++)
        gone = b->warps[k].state == W_DONE;
    if (gone)
        return ptx_report(w, PTX_CHECK_BOUNDS, lane, at,
                          "%s of shared memory of block %d of the cluster, which has ended", write ? "write" : "read",
                          b->rank),
               false;
    *to = (struct ptx_place){b->shared + at, b->shadow + at, SP_SHARED, at, NULL, b};
    return true;
}

static bool place_local(struct ptx_warp *w, uint64_t at, size_t bytes, int lane, bool write, struct ptx_place *to)
{
    struct ptx_block *b = w->b;
    size_t own = b->f->local_bytes, all = b->local_bytes;
    uint64_t base = at >= FUNC_LOCAL ? FUNC_LOCAL - own : 0, end = at >= FUNC_LOCAL ? all : own;
    if (at - base > end || bytes > end - (at - base))
        return ptx_report(w, PTX_CHECK_BOUNDS, lane, at, "%s of %zu bytes at local address %llu",
                          write ? "write" : "read", bytes, (unsigned long long)at),
               false;
    size_t offset = ((size_t)w->id * LANES + (size_t)lane) * all + (size_t)(at - base);
    *to = (struct ptx_place){b->local + offset, b->local_shadow + offset, SP_LOCAL, at, NULL, NULL};
    return true;
}

static bool place_param(struct ptx_warp *w, uint64_t at, size_t bytes, int lane, bool write, struct ptx_place *to)
{
    const struct ptx_launch *l = w->b->l;
    if (write)
        return ptx_report(w, PTX_CHECK_READONLY, lane, at, "write to a parameter"), false;
    if (at > l->params_size || bytes > l->params_size - at)
        return ptx_report(w, PTX_CHECK_BOUNDS, lane, at, "read of %zu bytes at %llu of the parameters, which have %zu",
                          bytes, (unsigned long long)at, l->params_size),
               false;
    *to = (struct ptx_place){(uint8_t *)(uintptr_t)l->params + at, NULL, SP_PARAM, at, NULL, NULL};
    return true;
}

/* Of a device that is dry, what is written goes nowhere. */
static void stay_dry(struct ptx_block *b, struct ptx_place *to)
{
    if (!b->d->dry)
        return;
    to->data = b->sink;
    to->shadow = NULL;
}

bool ptx_place(struct ptx_warp *w, enum ptx_space space, uint64_t address, size_t bytes, int lane, bool write,
               struct ptx_place *to)
{
    if (misaligned(w, address, bytes, lane))
        return false;
    uint64_t window = address & WINDOW_MASK;
    if (space == SP_SHARED || (space == SP_GENERIC && window == WINDOW_SHARED))
        return place_shared(w, space == SP_SHARED ? address : address - WINDOW_SHARED, bytes, lane, write, to);
    if (space == SP_LOCAL || (space == SP_GENERIC && window == WINDOW_LOCAL))
        return place_local(w, space == SP_LOCAL ? address : address - WINDOW_LOCAL, bytes, lane, write, to);
    if (space == SP_PARAM || (space == SP_GENERIC && window == WINDOW_PARAM))
        return place_param(w, space == SP_PARAM ? address : address - WINDOW_PARAM, bytes, lane, write, to);
    struct ptx_alloc *a = w->last;
    if (!a || address < a->base || address - a->base >= a->size)
        a = ptx_lookup(w->b->d, address);
    if (!a || !a->live || bytes > a->size - (address - a->base))
        return outside(w, address, bytes, lane, write);
    if (write && a->constant)
        return ptx_report(w, PTX_CHECK_READONLY, lane, address, "write to constant memory '%s'", a->name), false;
    if (a->ranged && !ptx_in_range(w, a, address, bytes, lane, write))
        return false;
    w->last = a;
    *to = (struct ptx_place){
        a->data + (address - a->base), a->shadow ? a->shadow + (address - a->base) : NULL, SP_GLOBAL, address, a, NULL};
    if (write)
        stay_dry(w->b, to);
    return true;
}

void ptx_check_read(struct ptx_warp *w, const struct ptx_place *p, size_t bytes, int lane, uint64_t address)
{
    if (!w->b->d->config.checks || !p->shadow || (p->a && atomic_load_explicit(&p->a->whole, memory_order_relaxed)))
        return;
    for (size_t k = 0; k < bytes; k++) {
        if (p->shadow[k] == 1)
            continue;
        if (p->shadow[k] == 2)
            ptx_report(w, PTX_CHECK_ASYNC, lane, address,
                       "read of %zu bytes that an asynchronous copy writes, before the wait", bytes);
        else
            ptx_report(w, PTX_CHECK_UNINIT, lane, address, "read of %zu bytes of which byte %zu was never written%s%s",
                       bytes, k, p->a && p->a->name[0] ? " in " : "", p->a ? p->a->name : "");
        return;
    }
}

void ptx_mark_written(const struct ptx_place *p, size_t bytes)
{
    if (p->shadow && !(p->a && atomic_load_explicit(&p->a->whole, memory_order_relaxed)))
        memset(p->shadow, 1, bytes);
}

uint64_t ptx_lane_address(struct ptx_warp *w, const struct ptx_insn *i, int s, int lane)
{
    const struct ptx_op *o = &i->s[s];
    uint64_t base = o->sink ? 0 : ptx_lane(w, o, lane);
    return o->bytes == 4 ? (uint32_t)(base + (uint64_t)i->imm) : base + (uint64_t)i->imm;
}

/* -- Counters -- */

/* Lines that this launch touches for the first time come from memory. */
void ptx_count_lines(struct ptx_warp *w, const struct ptx_alloc *a, uint64_t address, size_t bytes)
{
    uint16_t epoch = (uint16_t)w->b->d->epoch;
    uint64_t first = (address - a->base) >> 7, last = (address - a->base + bytes - 1) >> 7;
    struct ptx_counters *c = &w->b->count;
    uint64_t *bytes_of = a->home && a->home != w->b->d ? &c->peer_bytes : &c->memory_bytes;
    for (uint64_t k = first; k <= last; k++)
        if (__atomic_load_n(&a->lines[k], __ATOMIC_RELAXED) != epoch &&
            __atomic_exchange_n(&a->lines[k], epoch, __ATOMIC_RELAXED) != epoch)
            *bytes_of += 128;
}

static void count_line_at(struct ptx_warp *w, uint64_t address)
{
    struct ptx_alloc *a = w->last;
    if (!a || address < a->base || address - a->base >= a->size)
        a = ptx_lookup(w->b->d, address);
    if (a && a->live)
        ptx_count_lines(w, a, address, 1);
}

void ptx_count_global(struct ptx_warp *w, const uint64_t *address, uint32_t mask, size_t bytes)
{
    uint64_t seen[LANES * 2], last = 0;
    int n = 0;
    struct ptx_counters *c = &w->b->count;
    EACH_LANE(l, mask)
        for (uint64_t s = address[l] >> 5; s <= (address[l] + bytes - 1) >> 5; s++) {
            if (n && s == last)
                continue;
            int k = n - 1;
            while (k >= 0 && seen[k] != s)
                k--;
            if (k < 0 && n < LANES * 2) {
                seen[n++] = s;
                count_line_at(w, s << 5 > address[l] ? s << 5 : address[l]);
            }
            last = s;
        }
    c->global_requests++;
    c->global_sectors += (unsigned)n;
    c->ideal_sectors += ((unsigned)__builtin_popcount(mask) * bytes + 31) / 32;
}

/* Is no bank asked for two words? `words`: of a lane. */
static bool no_conflicts(const uint64_t *address, uint32_t mask, unsigned words)
{
    uint64_t word_of[LANES];
    uint32_t taken = 0;
    bool found = false;
    EACH_LANE(l, mask)
        for (uint64_t word = address[l] >> 2, end = word + words; word < end; word++) {
            unsigned bank = word & 31;
            found |= (taken >> bank & 1) && word_of[bank] != word;
            word_of[bank] = word;
            taken |= 1u << bank;
        }
    return !found;
}

static unsigned wavefronts(const uint64_t *address, uint32_t mask, size_t bytes)
{
    if (bytes % 4 == 0 && no_conflicts(address, mask, (unsigned)bytes / 4))
        return 1;
    uint64_t words[LANES][LANES];
    uint8_t n[LANES] = {0};
    unsigned most = 0;
    EACH_LANE(l, mask)
        for (uint64_t word = address[l] >> 2; word <= (address[l] + bytes - 1) >> 2; word++) {
            unsigned bank = word & 31, k = 0;
            while (k < n[bank] && words[bank][k] != word)
                k++;
            if (k == n[bank] && k < LANES) {
                words[bank][n[bank]++] = word;
                most = n[bank] > most ? n[bank] : most;
            }
        }
    return most;
}

void ptx_count_shared(struct ptx_warp *w, const uint64_t *address, uint32_t mask, size_t bytes)
{
    struct ptx_counters *c = &w->b->count;
    unsigned lanes = bytes > 8 ? 8 : bytes > 4 ? 16 : 32;
    uint64_t first = address[__builtin_ctz(mask)];
    bool row = bytes == 4 && mask == FULL, same = bytes <= 4;
    for (unsigned l = 0; l < LANES && (row || same); l++) {
        row &= address[l] == first + 4 * l;
        same &= !(mask >> l & 1) || address[l] == first;
    }
    c->shared_requests++;
    for (unsigned at = 0; at < LANES; at += lanes) {
        uint32_t part = mask & (lanes == 32 ? FULL : ((1u << lanes) - 1) << at);
        if (!part)
            continue;
        c->shared_ideal++;
        c->shared_wavefronts += row || same ? 1 : wavefronts(address, part, bytes);
    }
}

/* -- Loads and stores -- */

static uint64_t extend(uint64_t v, enum ptx_type type)
{
    int bytes = ptx_types[type].bytes;
    return ptx_types[type].cls == 's' && bytes < 8 && v >> (8 * bytes - 1) & 1 ? v | ~((UINT64_C(1) << (8 * bytes)) - 1)
                                                                               : v;
}

static void put_lane(struct ptx_warp *w, const struct ptx_insn *i, int lane, const uint8_t *data)
{
    size_t each = ptx_types[i->type].bytes;
    for (int k = 0; k < i->vec; k++) {
        const struct ptx_op *o = &i->more[k];
        uint64_t v;
        if (o->sink)
            continue;
        if (each == 16) {
            memcpy(w->frame->rows + o->at + (size_t)lane * 16, data + k * 16, 16);
            w->frame->def[o->reg] |= 1u << lane;
            continue;
        }
        v = ptx_get_bytes(data + (size_t)k * each, (int)each);
        ptx_set(w, o, lane, extend(v, i->type));
    }
}

static void get_lane(struct ptx_warp *w, const struct ptx_insn *i, int lane, uint8_t *data)
{
    size_t each = ptx_types[i->type].bytes;
    for (int k = 0; k < i->vec; k++) {
        const struct ptx_op *o = &i->more[k];
        memcpy(data + (size_t)k * each, (const uint8_t *)ptx_row(w, o) + (size_t)lane * o->bytes, each);
    }
}

/* Parameters and variables of calls: a lane's own bytes, or the launch's. */
static uint8_t *variable(struct ptx_warp *w, const struct ptx_insn *i, int lane)
{
    const struct ptx_func *f = w->frame->f;
    if (i->op2 == 2)
        return w->frame->vars + (size_t)lane * f->var_bytes + i->imm;
    return i->op2 == 1 && !f->entry ? w->frame->params + (size_t)lane * f->param_bytes + i->imm : NULL;
}

static void check_register(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    if (!i->s[0].sink)
        ptx_need_defined(w, &i->s[0], mask, "the address");
    for (int k = 0; k < i->nmore && i->fn.run == ptx_run_store && i->space != SP_PARAM; k++)
        ptx_need_defined(w, &i->more[k], mask, "the stored value");
}

static void addresses(struct ptx_warp *w, const struct ptx_insn *i, uint64_t *address, uint32_t mask)
{
    if (!i->s[0].sink && i->s[0].bytes == 8) {
        const uint64_t *base = ptx_row(w, &i->s[0]);
        for (int l = 0; l < LANES; l++)
            address[l] = base[l] + (uint64_t)i->imm;
    } else if (!i->s[0].sink) {
        const uint32_t *base = ptx_row(w, &i->s[0]);
        for (int l = 0; l < LANES; l++)
            address[l] = base[l] + (uint32_t)i->imm;
    } else {
        EACH_LANE(l, mask)
            address[l] = ptx_lane_address(w, i, 0, (int)l);
    }
}

/* Every lane loads the same bytes of the parameters. */
static bool load_parameters(struct ptx_warp *w, const struct ptx_insn *i, const uint64_t *address, uint32_t mask,
                            size_t bytes)
{
    uint64_t first = address[__builtin_ctz(mask)], differ = 0;
    struct ptx_place p;
    EACH_LANE(l, mask)
        differ |= address[l] ^ first;
    if (differ || i->space != SP_PARAM || ptx_types[i->type].bytes > 8 ||
        !ptx_place(w, i->space, first, bytes, __builtin_ctz(mask), false, &p))
        return false;
    for (int k = 0; k < i->vec; k++) {
        const struct ptx_op *o = &i->more[k];
        int each = ptx_types[i->type].bytes;
        uint64_t v = extend(ptx_get_bytes(p.data + (size_t)k * (size_t)each, each), i->type);
        if (o->sink)
            continue;
        EACH_LANE(l, mask)
            ptx_put_bytes(w->frame->rows + o->at + (size_t)l * o->bytes, v, o->bytes);
        w->frame->def[o->reg] |= mask;
    }
    return true;
}

/* One lane's access, for the checks of races; an ordered or volatile one of global memory takes or gives what happened
 * before. */
static void race_lane(struct ptx_warp *w, const struct ptx_insn *i, int lane, const struct ptx_place *p, size_t bytes,
                      bool write)
{
    bool is_volatile = i->flags & F_VOLATILE;
    if (p->space == SP_SHARED)
        ptx_race(w, p->b, lane, (uint32_t)p->offset, bytes, write, is_volatile ? RACE_ATOMIC : 0);
    if (p->space != SP_GLOBAL)
        return;
    if (is_volatile && write && i->flags & F_ORDER)
        ptx_race_fence(w);
    if (is_volatile)
        ptx_race_sync(w, p->offset, write ? SYNC_RELEASE : SYNC_ACQUIRE);
    ptx_race_global(w, lane, p, bytes, write, is_volatile);
}

static void one_load(struct ptx_warp *w, const struct ptx_insn *i, int lane, uint64_t address, size_t bytes)
{
    struct ptx_place p;
    if (!ptx_place(w, i->space, address, bytes, lane, false, &p))
        return;
    ptx_check_read(w, &p, bytes, lane, address);
    race_lane(w, i, lane, &p, bytes, false);
    put_lane(w, i, lane, p.data);
}

/* -- All lanes in one piece of memory (reach.c) -- */

static void check_lanes(struct ptx_warp *w, const struct ptx_reach *r, const uint64_t *address, uint32_t mask,
                        size_t bytes, bool write)
{
    if (!write && !r->written)
        EACH_LANE(l, mask)
            if (!ptx_written(r->shadow + (address[l] - r->base), bytes)) {
                struct ptx_place p = ptx_reach_place(w, r, address[l]);
                ptx_check_read(w, &p, bytes, (int)l, address[l]);
            }
    if (r->a)
        EACH_LANE(l, mask) {
            struct ptx_place p = {.offset = address[l], .a = r->a};
            ptx_race_global(w, (int)l, &p, bytes, write, false);
        }
    else
        ptx_race_lanes(w, address, r->base, mask, bytes, write);
}

/* Registers of four bytes that take four; anything else by put_lane(). */
static bool plain_words(const struct ptx_insn *i)
{
    bool plain = ptx_types[i->type].bytes == 4;
    for (int k = 0; k < i->vec; k++)
        plain &= !i->more[k].sink && i->more[k].bytes == 4;
    return plain;
}

static void load_lanes(struct ptx_warp *w, const struct ptx_insn *i, const struct ptx_reach *r, const uint64_t *address,
                       uint32_t mask)
{
    if (!plain_words(i)) {
        EACH_LANE(l, mask)
            put_lane(w, i, (int)l, r->data + (address[l] - r->base));
        return;
    }
    for (int k = 0; k < i->vec; k++) {
        uint8_t *row = w->frame->rows + i->more[k].at;
        const uint8_t *from = r->data - r->base + 4 * k;
        EACH_LANE(l, mask)
            memcpy(row + 4 * l, from + address[l], 4);
        w->frame->def[i->more[k].reg] |= mask;
    }
}

/* No byte of the lanes is the target of an asynchronous copy. */
static bool no_copies(const struct ptx_reach *r, const uint64_t *address, uint32_t mask, size_t bytes)
{
    bool found = false;
    EACH_LANE(l, mask)
        for (size_t k = 0; k < bytes; k++)
            found |= r->shadow[address[l] - r->base + k] == 2;
    return !found;
}

static void store_lanes(struct ptx_warp *w, const struct ptx_insn *i, const struct ptx_reach *r,
                        const uint64_t *address, uint32_t mask, size_t bytes)
{
    check_lanes(w, r, address, mask, bytes, true);
    EACH_LANE(l, mask) {
        uint64_t at = address[l] - r->base;
        get_lane(w, i, (int)l, r->data + at);
        for (size_t k = 0; k < bytes && !(r->a && r->written); k++)
            r->shadow[at + k] = 1;
    }
}

static void count(struct ptx_warp *w, const struct ptx_insn *i, const uint64_t *address, uint32_t mask, size_t bytes)
{
    uint64_t window = address[__builtin_ctz(mask)] & WINDOW_MASK;
    if (i->space == SP_SHARED || (i->space == SP_GENERIC && window == WINDOW_SHARED))
        ptx_count_shared(w, address, mask, bytes);
    else if (i->space == SP_GLOBAL || (i->space == SP_GENERIC && !window))
        ptx_count_global(w, address, mask, bytes);
}

void ptx_run_load(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    uint64_t address[LANES];
    size_t bytes = (size_t)ptx_types[i->type].bytes * i->vec;
    check_register(w, i, mask);
    if (i->space == SP_PARAM && i->op2 && variable(w, i, 0)) {
        EACH_LANE(l, mask)
            put_lane(w, i, (int)l, variable(w, i, (int)l));
        return;
    }
    addresses(w, i, address, mask);
    if (ptx_run_of_lanes(w, i, address, mask, bytes, false) || load_parameters(w, i, address, mask, bytes))
        return;
    count(w, i, address, mask, bytes);
    struct ptx_reach r;
    if (!(i->flags & F_VOLATILE) && ptx_reach(w, i->space, address, mask, bytes, false, &r)) {
        check_lanes(w, &r, address, mask, bytes, false);
        load_lanes(w, i, &r, address, mask);
        return;
    }
    EACH_LANE(l, mask)
        one_load(w, i, (int)l, address[l], bytes);
}

static void one_store(struct ptx_warp *w, const struct ptx_insn *i, int lane, uint64_t address, size_t bytes)
{
    struct ptx_place p;
    if (!ptx_place(w, i->space, address, bytes, lane, true, &p))
        return;
    if (p.space == SP_SHARED) {
        for (size_t k = 0; k < bytes; k++)
            if (p.shadow[k] == 2) {
                ptx_report(w, PTX_CHECK_ASYNC, lane, address,
                           "write over the target of a cp.async that has not been waited for");
                break;
            }
        if (w->b->lead->nbulk && ptx_bulk_reads(p.b, (uint32_t)p.offset, bytes))
            ptx_report(w, PTX_CHECK_ASYNC, lane, address,
                       "write over the source of a bulk store that has not been waited for");
    }
    race_lane(w, i, lane, &p, bytes, true);
    get_lane(w, i, lane, p.data);
    ptx_mark_written(&p, bytes);
}

void ptx_run_store(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    uint64_t address[LANES];
    size_t bytes = (size_t)ptx_types[i->type].bytes * i->vec;
    check_register(w, i, mask);
    if (i->space == SP_PARAM && i->op2 && variable(w, i, 0)) {
        EACH_LANE(l, mask)
            get_lane(w, i, (int)l, variable(w, i, (int)l));
        return;
    }
    addresses(w, i, address, mask);
    if (ptx_run_of_lanes(w, i, address, mask, bytes, true))
        return;
    count(w, i, address, mask, bytes);
    struct ptx_reach r;
    if (!(i->flags & F_VOLATILE) && ptx_reach(w, i->space, address, mask, bytes, true, &r) &&
        (r.a || no_copies(&r, address, mask, bytes))) {
        store_lanes(w, i, &r, address, mask, bytes);
        return;
    }
    EACH_LANE(l, mask)
        one_store(w, i, (int)l, address[l], bytes);
}

void ptx_need_defined(struct ptx_warp *w, const struct ptx_op *o, uint32_t mask, const char *what)
{
    uint32_t missing = o->sink && o->constant ? 0 : mask & ~w->frame->def[o->reg];
    if (missing && w->b->d->config.checks) {
        ptx_report(w, PTX_CHECK_REGISTER, __builtin_ctz(missing), 0, "%s depends on a register that was never written",
                   what);
        w->frame->def[o->reg] |= missing;
    }
}

bool ptx_bulk_reads(struct ptx_block *b, uint32_t offset, size_t bytes)
{
    for (int k = 0; k < b->lead->nbulk; k++) {
        const struct ptx_bulk *c = &b->lead->bulk[k];
        if (c->store && c->b == b && offset < c->at + c->bytes && c->at < offset + bytes)
            return true;
    }
    return false;
}
