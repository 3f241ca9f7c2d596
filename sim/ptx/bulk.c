/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk copies and tensor copies (PTX ISA, "cp.async.bulk", "cp.async.bulk.tensor", "Tensors"). A copy is noted when it
 * is issued and lands at a moment drawn from the seed: loads then complete bytes on their mbarrier, stores are complete
 * at the wait for their group. A load's target holds ones until then, and is not to be read before a wait for the
 * mbarrier has succeeded. The addresses within a box are swizzled by the bits of the shared address.
 */

#include "sim/grow.h"
#include "sim/ptx/text_int.h"

enum { BULK_LOAD, BULK_STORE, BULK_SHARED };

/* -- Tensors -- */

static uint64_t swizzled(const struct ptx_tensor *t, uint64_t a)
{
    static const unsigned bits[] = {0, 1, 3, 7};
    return a ^ ((a >> 7 & bits[t->swizzle]) << 4);
}

/* Bytes of a box in shared memory, those outside the tensor too. */
static size_t box_bytes(const struct ptx_tensor *t)
{
    size_t n = (size_t)t->bytes;
    if (t->im2col)
        return n * (size_t)t->channels * (size_t)t->pixels;
    for (int d = 0; d < t->rank; d++)
        n *= d ? (t->box[d] + t->step[d] - 1) / t->step[d] : t->box[d];
    return n;
}

/* The tensor's coordinates of pixel k of an im2col column: from the start, over the width, height, depth of the box,
 * then the next image. */
static void pixel(const struct ptx_bulk *c, int k, int64_t *at)
{
    const struct ptx_tensor *t = &c->map;
    int n = t->rank - 2;
    for (int d = 0; d < t->rank; d++)
        at[d] = c->coord[d];
    while (k-- > 0)
        for (int d = 0; d <= n; d++) {
            if (d == n) {
                at[t->rank - 1]++;
                break;
            }
            at[d + 1] += t->step[d + 1];
            if (at[d + 1] <= (int64_t)t->dims[d + 1] - 1 + t->upper[d])
                break;
            at[d + 1] = t->lower[d];
        }
    for (int d = 0; d < n; d++)
        at[d + 1] += c->offset[d];
}

typedef void run_fn(struct ptx_bulk *c, uint8_t *shared, uint64_t address, size_t bytes);

/* Elements from `at` along the innermost dimension that are alike inside the tensor or outside of it, at most n. */
static size_t run_of(const struct ptx_tensor *t, int64_t at, size_t n, bool *in)
{
    int64_t end = (int64_t)t->dims[0], left = at < 0 ? -at : end - at;
    *in = at >= 0 && at < end;
    return left > 0 && (uint64_t)left < n ? (size_t)left : n;
}

/*
 * Calls back for each run of a box's elements that lie side by side, within 16 bytes of shared memory, which no swizzle
 * parts: its place in shared memory, its address, 0 outside the tensor, and its bytes. Of a device that is dry, where
 * nothing comes to that place, for each row.
 */
static void each_run(struct ptx_bulk *c, run_fn *fn)
{
    const struct ptx_tensor *t = &c->map;
    size_t each = (size_t)t->bytes, rows = box_bytes(t) / each, inner = t->im2col ? (size_t)t->channels : t->box[0];
    int64_t at[5] = {0};
    rows /= inner;
    for (size_t row = 0; row < rows; row++) {
        size_t rest = row;
        if (t->im2col)
            pixel(c, (int)row, at);
        for (int d = 1; d < t->rank && !t->im2col; d++) {
            uint32_t n = (t->box[d] + t->step[d] - 1) / t->step[d];
            at[d] = c->coord[d] + (int64_t)(rest % n) * t->step[d];
            rest /= n;
        }
        uint64_t base = t->base, to = c->at + row * inner * each;
        bool inside = true;
        for (int d = 1; d < t->rank; d++) {
            inside &= at[d] >= 0 && (uint64_t)at[d] < t->dims[d];
            base += (uint64_t)at[d] * t->strides[d];
        }
        for (size_t k = 0, n; k < inner; k += n) {
            bool in;
            int64_t first = c->coord[0] + (int64_t)k;
            n = c->b->d->dry ? inner : (16 - (to + k * each) % 16) / each;
            n = run_of(t, first, n < inner - k ? n : inner - k, &in);
            fn(c, c->b->shared + swizzled(t, to + k * each), in && inside ? base + (uint64_t)first * each : 0,
               n * each);
        }
    }
}

/* -- Landing -- */

static struct ptx_alloc *memory(struct ptx_bulk *c, uint64_t address, size_t bytes)
{
    struct ptx_alloc *a = ptx_lookup(c->b->d, address);
    return a && a->live && bytes <= a->size - (address - a->base) ? a : NULL;
}

static void load_run(struct ptx_bulk *c, uint8_t *shared, uint64_t address, size_t n)
{
    static const uint8_t nans[16] = {0xff, 0x7f, 0xff, 0x7f, 0xff, 0x7f, 0xff, 0x7f,
                                     0xff, 0x7f, 0xff, 0x7f, 0xff, 0x7f, 0xff, 0x7f};
    struct ptx_alloc *a = address ? memory(c, address, n) : NULL;
    if (a)
        memcpy(shared, a->data + (address - a->base), n);
    else if (c->map.nan_fill)
        memcpy(shared, nans, n);
    else
        memset(shared, 0, n);
}

static double number(enum ptx_type t, const uint8_t *p)
{
    uint16_t h;
    float f;
    memcpy(&h, p, 2);
    if (t == PT_F16)
        return ptx_half_to_double(h);
    if (t == PT_BF16)
        return ptx_bf16_to_double(h);
    memcpy(&f, p, 4);
    return f;
}

static void put_number(enum ptx_type t, uint8_t *p, double v)
{
    float f = (float)v;
    uint16_t h = t == PT_F16 ? ptx_double_to_half(v, 0) : ptx_double_to_bf16(v, 0);
    if (t == PT_F32)
        memcpy(p, &f, 4);
    else
        memcpy(p, &h, 2);
}

/* Elements into memory, added to what is there where the store reduces. */
static void store(struct ptx_bulk *c, const uint8_t *shared, uint64_t address, size_t n)
{
    struct ptx_alloc *a = memory(c, address, n);
    if (!a)
        return;
    uint8_t *to = a->data + (address - a->base);
    enum ptx_type t = (enum ptx_type)c->type;
    if (!c->reduce) {
        memcpy(to, shared, n);
    } else {
        size_t each = ptx_types[t].bytes;
        pthread_mutex_lock(&c->b->g->lock);
        for (size_t k = 0; k < n; k += each) {
            if (ptx_types[t].cls == 'f') {
                double x = number(t, to + k), y = number(t, shared + k);
                put_number(t, to + k, c->reduce == '+' ? x + y : c->reduce == '<' ? (x < y ? x : y) : (x > y ? x : y));
                continue;
            }
            uint64_t x = 0, y = 0;
            memcpy(&x, to + k, each);
            memcpy(&y, shared + k, each);
            x = c->reduce == '+' ? x + y : c->reduce == '<' ? (x < y ? x : y) : (x > y ? x : y);
            memcpy(to + k, &x, each);
        }
        pthread_mutex_unlock(&c->b->g->lock);
    }
    if (a->shadow)
        memset(a->shadow + (address - a->base), 1, n);
}

static void store_run(struct ptx_bulk *c, uint8_t *shared, uint64_t address, size_t n)
{
    if (address)
        store(c, shared, address, n);
}

void ptx_bulk_land(struct ptx_block *lead, int k)
{
    struct ptx_bulk *c = &lead->bulk[k];
    if (c->landed)
        return;
    c->landed = true;
    if (c->store) {
        if (c->b->d->dry)
            return;
        if (c->is_tensor)
            each_run(c, store_run);
        else
            store(c, c->b->shared + c->at, c->global, c->bytes);
        return;
    }
    if (c->b->d->dry) {
        memset(c->b->shared + c->at, 0, c->bytes);
    } else if (c->is_tensor) {
        each_run(c, load_run);
    } else {
        struct ptx_alloc *a = memory(c, c->global, c->bytes);
        if (a)
            memcpy(c->b->shared + c->at, a->data + (c->global - a->base), c->bytes);
        else /* from shared memory of the issuing block */
            memcpy(c->b->shared + c->at, c->w->b->shared + c->global, c->bytes);
    }
    for (uint32_t at = c->at / 128; c->is_tensor && at <= (c->at + c->bytes - 1) / 128; at++)
        c->b->tags[at] = (uint8_t)(c->map.swizzle + 1);
    ptx_mbar_complete(c->bar_block, c->bar, (uint32_t)c->bytes, c);
}

/* Somebody has seen the mbarrier's phase complete: what landed on it may be read from now on. */
void ptx_bulk_waited(struct ptx_block *b, uint32_t bar)
{
    struct ptx_block *lead = b->lead;
    for (int k = lead->nbulk - 1; k >= 0; k--) {
        struct ptx_bulk *c = &lead->bulk[k];
        if (c->store || !c->landed || c->bar_block != b || c->bar != bar)
            continue;
        memset(c->b->shadow + c->at, 1, c->bytes);
        *c = lead->bulk[--lead->nbulk];
    }
}

/* -- Issue -- */

static struct ptx_bulk *new_bulk(struct ptx_warp *w)
{
    struct ptx_block *lead = w->b->lead;
    if (!GROWN(lead->bulk, lead->nbulk, lead->bulk_room, 32)) {
        w->b->g->no_memory = true;
        w->b->stop = true;
        return NULL;
    }
    return memset(&lead->bulk[lead->nbulk], 0, sizeof *lead->bulk);
}

static bool misfit(struct ptx_warp *w, int lane, uint64_t at, const char *what)
{
    return ptx_report(w, PTX_CHECK_DESCRIPTOR, lane, at, "'%s': %s", w->at->text, what), false;
}

/* Reads a tensor map from parameters or global memory. */
static bool read_map(struct ptx_warp *w, uint64_t address, int lane, int rank, struct ptx_tensor *t)
{
    struct ptx_place p;
    if (address & 63)
        return misfit(w, lane, address, "a tensor map must be aligned to 64 bytes");
    if (!ptx_place(w, SP_GENERIC, address, 64, lane, false, &p) ||
        !ptx_place(w, SP_GENERIC, address + 64, 64, lane, false, &p))
        return false;
    ptx_place(w, SP_GENERIC, address, 64, lane, false, &p);
    if (!ptx_tensor_decode(p.data, t))
        return misfit(w, lane, address, "these 128 bytes are no tensor map");
    if (t->rank != rank)
        return misfit(w, lane, address, "the tensor map has another rank");
    return true;
}

/* Global accesses of a whole copy, as the async proxy's, by its issuer. */
static bool global_side(struct ptx_warp *w, struct ptx_bulk *c, int lane, uint64_t address, size_t bytes, bool write)
{
    struct ptx_place p;
    for (size_t k = 0; k < bytes; k += 16) {
        size_t n = bytes - k < 16 ? bytes - k : 16;
        if (!ptx_place(w, SP_GLOBAL, address + k, n == 16 ? 16 : 1, lane, write, &p))
            return false;
        if (!write)
            ptx_check_read(w, &p, n, lane, address + k);
        ptx_race_global(w, lane, &p, n, write, c->reduce != 0);
        ptx_count_lines(w, p.a, address + k, n);
    }
    w->b->count.global_requests++;
    w->b->count.global_sectors += (bytes + 31) / 32;
    w->b->count.ideal_sectors += (bytes + 31) / 32;
    return true;
}

static void check_run(struct ptx_bulk *c, uint8_t *shared, uint64_t address, size_t n)
{
    size_t each = (size_t)c->map.bytes;
    bool whole = n == each || (!(n & (n - 1)) && address % n == 0); /* or no access that is checked at once */
    struct ptx_place p;
    size_t step = n > 16 && address % 16 == 0 ? 16 : each;
    for (size_t k = 0; address && !whole && k < n; k += step)
        check_run(c, shared + k, address + k, step < n - k ? step : n - k);
    if (!address || !whole || c->landed)
        return;
    if (!ptx_place(c->w, SP_GLOBAL, address, n, c->lane, c->store, &p)) {
        c->landed = true; /* nothing more of it */
        return;
    }
    if (!c->store)
        ptx_check_read(c->w, &p, n, c->lane, address);
    ptx_race_global(c->w, c->lane, &p, n, c->store, c->reduce != 0);
    ptx_count_lines(c->w, p.a, address, n);
}

static bool tensor_side(struct ptx_bulk *c)
{
    static const unsigned align[] = {128, 256, 512, 1024};
    c->bytes = box_bytes(&c->map);
    if (c->at % 128 || (c->map.swizzle && c->at % align[c->map.swizzle]))
        return misfit(c->w, c->lane, c->at, "the shared address is not aligned to the swizzle's pattern");
    if (!ptx_in_shared(c->b, c->at, c->bytes)) {
        ptx_beyond_shared(c->w, c->b, c->lane, c->at, c->bytes, "a box");
        return false;
    }
    each_run(c, check_run);
    if (c->again) /* it has been read */
        return !c->landed;
    c->w->b->count.global_requests++;
    c->w->b->count.global_sectors += (c->bytes + 31) / 32;
    c->w->b->count.ideal_sectors += (c->bytes + 31) / 32;
    return !c->landed;
}

static bool shared_place(struct ptx_warp *w, uint64_t address, size_t bytes, int lane, bool write, struct ptx_place *p)
{
    struct ptx_place last;
    if (address % 16)
        return misfit(w, lane, address, "a shared address must be a multiple of 16");
    return ptx_place(w, SP_SHARED, address, 1, lane, write, p) &&
           ptx_place(w, SP_SHARED, address + bytes - 1, 1, lane, write, &last);
}

/* One copy into one block's shared memory. Of a multicast those after the first are `again`: they arrive with it. */
static void issue_load(struct ptx_warp *w, struct ptx_bulk *like, uint64_t to, uint64_t bar, int lane)
{
    struct ptx_place p, m;
    struct ptx_bulk *c = new_bulk(w);
    if (!c)
        return;
    *c = *like;
    if (!ptx_place(w, SP_SHARED, bar, 8, lane, true, &m) || !shared_place(w, to, 1, lane, true, &p))
        return;
    if (m.shadow[0] != 1) {
        ptx_report(w, PTX_CHECK_MBARRIER, lane, bar, "the mbarrier has not been initialised");
        return;
    }
    c->b = p.b, c->at = (uint32_t)p.offset, c->bar_block = m.b, c->bar = (uint32_t)m.offset;
    if (c->is_tensor ? !tensor_side(c) : !shared_place(w, to, c->bytes, lane, true, &p))
        return;
    if (memchr(c->b->shadow + c->at, 2, c->bytes))
        ptx_report(w, PTX_CHECK_ASYNC, lane, to, "a copy over the target of another one that is on its way");
    ptx_race(w, c->b, lane, c->at, c->bytes, true, RACE_ASYNC);
    c->era = w->b->lead->era++;
    c->done = like->done = like->again ? like->done : ptx_path_bulk(w, c->bytes);
    like->again = true;
    memset(c->b->shared + c->at, 0xff, c->bytes);
    memset(c->b->shadow + c->at, 2, c->bytes);
    w->b->lead->nbulk++;
    w->b->count.async_copies++;
}

static void issue_store(struct ptx_warp *w, const struct ptx_bulk *like, uint64_t from, int lane)
{
    struct ptx_place p;
    struct ptx_bulk *c = new_bulk(w);
    if (!c)
        return;
    *c = *like;
    if (!shared_place(w, from, 1, lane, false, &p))
        return;
    c->b = p.b, c->at = (uint32_t)p.offset, c->group = w->bulk_group[lane], c->store = true;
    if (c->is_tensor
            ? !tensor_side(c)
            : !shared_place(w, from, c->bytes, lane, false, &p) || !global_side(w, c, lane, c->global, c->bytes, true))
        return;
    p = (struct ptx_place){c->b->shared + c->at, c->b->shadow + c->at, SP_SHARED, c->at, NULL, c->b};
    ptx_check_read(w, &p, c->bytes, lane, from);
    ptx_race(w, c->b, lane, c->at, c->bytes, false, RACE_ASYNC);
    ptx_proxy_read(w, c->b, lane, c->at, c->bytes);
    c->done = ptx_path_bulk(w, c->bytes);
    w->b->lead->nbulk++;
    w->b->count.async_copies++;
}

static uint64_t operand(struct ptx_warp *w, const struct ptx_insn *i, int s, int64_t offset, int lane)
{
    return (i->s[s].sink ? 0 : ptx_lane(w, &i->s[s], lane)) + (uint64_t)offset;
}

/* s[0]: shared address, s[1]: global address or map, s[2]: mbarrier, s[3]: size; more: coordinates, im2col offsets,
 * multicast mask. */
struct bulk_form {
    int64_t offset[3];
    int rank, noffsets;
    bool multicast, im2col;
};

static void one(struct ptx_warp *w, const struct ptx_insn *i, int lane)
{
    const struct bulk_form *f = (const struct bulk_form *)i->call;
    struct ptx_bulk c = {.w = w, .lane = lane, .is_tensor = f->rank > 0, .reduce = (char)i->vec, .type = i->type2};
    uint64_t shared = operand(w, i, 0, f->offset[0], lane), outer = operand(w, i, 1, f->offset[1], lane);
    int k = 0;
    if (f->rank) {
        if (!read_map(w, outer, lane, f->rank, &c.map))
            return;
        c.type = (uint8_t)c.map.type;
        if (c.map.im2col != f->im2col) {
            misfit(w, lane, outer, "tile and im2col maps are not the same");
            return;
        }
        for (; k < f->rank; k++)
            c.coord[k] = (int32_t)ptx_lane(w, &i->more[k], lane);
        for (int j = 0; j < f->noffsets; j++, k++)
            c.offset[j] = (uint16_t)ptx_lane(w, &i->more[k], lane);
    } else {
        c.bytes = (uint32_t)ptx_lane(w, &i->s[3], lane);
        c.global = outer;
        if (!c.bytes || c.bytes % 16 || outer % 16) {
            misfit(w, lane, outer, "addresses and size must be multiples of 16");
            return;
        }
    }
    if (i->op == BULK_STORE) {
        issue_store(w, &c, shared, lane);
        return;
    }
    if (!f->rank && i->op == BULK_LOAD && !global_side(w, &c, lane, outer, c.bytes, false))
        return;
    uint64_t bar = operand(w, i, 2, f->offset[2], lane);
    if (!f->multicast) {
        issue_load(w, &c, shared, bar, lane);
        return;
    }
    uint32_t to = (uint16_t)ptx_lane(w, &i->more[k], lane), low = (1u << RANK_SHIFT) - 1;
    if (to >> w->b->nblocks) {
        misfit(w, lane, shared, "the multicast mask names blocks that the cluster does not have");
        return;
    }
    EACH_LANE(rank, to)
        issue_load(w, &c, (uint64_t)(rank + 1) << RANK_SHIFT | (shared & low),
                   (uint64_t)(rank + 1) << RANK_SHIFT | (bar & low), lane);
}

static void run_bulk(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    for (int s = 0; s < 3; s++)
        if (!i->s[s].sink && (s < 2 || i->op != BULK_STORE))
            ptx_need_defined(w, &i->s[s], mask, "the address");
    EACH_LANE(l, mask)
        one(w, i, (int)l);
}

static void run_commit(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    (void)i;
    EACH_LANE(l, mask)
        w->bulk_group[l]++;
}

static void run_wait(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    struct ptx_block *lead = w->b->lead;
    for (int k = lead->nbulk - 1; k >= 0; k--) {
        struct ptx_bulk *c = &lead->bulk[k];
        if (!c->store || c->w != w || !(mask >> c->lane & 1) || c->group >= w->bulk_group[c->lane] - (int)i->imm)
            continue;
        ptx_path_wait(w, &c->done);
        ptx_bulk_land(lead, k);
        *c = lead->bulk[--lead->nbulk];
    }
}

/* -- Decoding -- */

static void address(struct ptx_parse *p, struct ptx_insn *i, struct bulk_form *f, const struct ptx_operand *o, int s,
                    enum ptx_space space)
{
    uint8_t before = i->space;
    i->space = (uint8_t)space;
    ptx_address(p, i, o, s);
    if (s == 1 && o->name && i->s[1].sink) /* a variable: its generic address */
        i->imm += ptx_symbol(p, o->name)->space == SP_PARAM ? (int64_t)WINDOW_PARAM : 0;
    f->offset[s] = i->imm;
    i->imm = 0;
    i->space = before;
}

static void take_reduction(struct ptx_parse *p, struct ptx_insn *i)
{
    i->vec = ptx_take(p, "add") ? '+' : ptx_take(p, "min") ? '<' : ptx_take(p, "max") ? '>' : 0;
    ptx_take(p, "noftz");
}

/* Those that copy nothing; false: it is another. */
static bool decode_groups(struct ptx_parse *p, struct ptx_insn *i)
{
    if (ptx_take(p, "commit_group")) {
        ptx_operands(p, 0);
        ptx_run_by(i, run_commit);
    } else if (ptx_take(p, "wait_group")) {
        ptx_take(p, "read");
        ptx_operands(p, 1);
        i->imm = (int64_t)p->st.op[0].value;
        ptx_run_by(i, run_wait);
    } else if (ptx_take(p, "prefetch")) {
        p->st.nmod = 0;
        ptx_run_by(i, ptx_run_nothing);
    } else {
        return false;
    }
    return true;
}

void ptx_decode_bulk(struct ptx_parse *p, struct ptx_insn *i)
{
    struct ptx_operand *o = p->st.op;
    struct bulk_form *f = ptx_new(p, sizeof *f);
    bool reduce = ptx_take(p, "reduce"), tensor, hint;
    ptx_take(p, "async"), ptx_take(p, "bulk");
    i->kind = K_RUN;
    if (decode_groups(p, i))
        return;
    tensor = ptx_take(p, "tensor");
    for (int d = 1; d <= 5 && tensor; d++) {
        char name[3] = {(char)('0' + d), 'd', 0};
        f->rank = ptx_take(p, name) ? d : f->rank;
    }
    ptx_take(p, "tile");
    f->im2col = ptx_take(p, "im2col");
    f->multicast = ptx_take(p, "multicast::cluster");
    hint = ptx_take(p, "L2::cache_hint");
    bool cluster = ptx_take(p, "shared::cluster"), cta = ptx_take(p, "shared::cta"), global = ptx_take(p, "global");
    bool bar = ptx_take(p, "mbarrier::complete_tx::bytes"), group = ptx_take(p, "bulk_group");
    i->op = group ? BULK_STORE : global ? BULK_LOAD : BULK_SHARED;
    if (reduce)
        take_reduction(p, i);
    if (reduce && !tensor)
        i->type2 = (uint8_t)ptx_take_type(p);
    if (bar == group || (tensor && !f->rank) || (!cluster && !cta) || reduce != (i->vec != 0) || (reduce && !group) ||
        (i->op == BULK_SHARED && !(cluster && cta)))
        ptx_fail(p, p->st.line, "instruction '%s' is not supported", i->text);
    int n = 0;
    const struct ptx_operand *to = &o[n++], *from = &o[n++], *shared = group ? from : to, *outer = group ? to : from;
    address(p, i, f, shared, 0, SP_SHARED);
    address(p, i, f, outer, 1, i->op == BULK_SHARED ? SP_SHARED : SP_GENERIC);
    i->s[2] = (struct ptx_op){.sink = 1, .constant = 1};
    i->nsrc = 0;
    if (tensor) {
        if (!outer->second || outer->second->kind != O_VEC || outer->second->n != f->rank)
            ptx_fail(p, p->st.line, "'%s' requires %d coordinates", i->text, f->rank);
        ptx_vector(p, i, outer->second, PT_B32, false);
    } else {
        i->s[3] = ptx_source(p, &o[n++], PT_B32);
    }
    if (bar)
        address(p, i, f, &o[n++], 2, SP_SHARED);
    if (f->im2col && !group) {
        f->noffsets = f->rank - 2;
        if (o[n].kind != O_VEC || o[n].n != f->noffsets)
            ptx_fail(p, p->st.line, "'%s' requires %d offsets", i->text, f->noffsets);
        ptx_vector(p, i, &o[n++], PT_B16, false);
    }
    if (f->multicast)
        ptx_vector(p, i, &o[n++], PT_B16, false);
    ptx_operands(p, n + hint);
    i->call = (const struct ptx_call *)f;
    ptx_run_by(i, run_bulk);
}
