/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barriers (bar, barrier, bar.warp.sync) and mbarriers. An mbarrier is 64 bits of shared memory; ours holds pending
 * arrivals (bits 0-19), expected arrivals (20-39), transaction count (40-60, signed) and phase (63). Arrivals publish
 * the warp's clock, waits take it.
 */

#include "sim/grow.h"
#include "sim/ptx/text_int.h"

bool ptx_whole_warp(struct ptx_warp *w, uint32_t mask)
{
    if (mask == w->live)
        return true;
    return ptx_report(w, PTX_CHECK_DIVERGED, __builtin_ctz(mask), 0,
                      "'%s' requires the whole warp, executed by lanes %#x of %#x", w->at->text, mask, w->live),
           false;
}

bool ptx_members(struct ptx_warp *w, const struct ptx_op *members, uint32_t mask)
{
    EACH_LANE(l, mask) {
        uint32_t m = (uint32_t)ptx_lane(w, members, (int)l);
        if (m >> l & 1 && (m & w->live & ~mask) == 0)
            continue;
        return ptx_report(w, PTX_CHECK_MEMBERS, (int)l, 0, "'%s' with the member mask %#x, executed by lanes %#x",
                          w->at->text, m, mask),
               false;
    }
    return true;
}

/* -- Clocks -- */

void ptx_join(const struct ptx_block *b, uint32_t *to, const uint32_t *from)
{
    for (int k = 0; k < b->nclock; k++)
        to[k] = from[k] > to[k] ? from[k] : to[k];
}

static void publish(struct ptx_warp *w, uint32_t *clock)
{
    ptx_join(w->b, clock, w->clock);
    clock[ptx_index(w)] = w->b->lead->era++;
}

/* -- Barriers -- */

enum { BAR_SYNC, BAR_ARRIVE, BAR_AND, BAR_OR, BAR_POPC };

/* All warps of the block wait: what anyone did so far happened before what they do next. */
static bool waits_for_all(const struct ptx_block *b, const struct ptx_barrier *r)
{
    return b->nblocks == 1 && r->waiting == (b->nwarps == MAX_WARPS ? FULL : (1u << b->nwarps) - 1);
}

static void release(struct ptx_block *b, struct ptx_barrier *r)
{
    bool all = waits_for_all(b, r);
    EACH_LANE(k, r->waiting) {
        struct ptx_warp *w = &b->warps[k];
        ptx_join(b, w->clock, r->clock);
        w->floor = all ? b->lead->era : w->floor;
        ptx_path_wait(w, &r->now);
        w->state = W_READY;
        if (r->op == BAR_AND || r->op == BAR_OR)
            ptx_set_pred(w, &w->barrier_out, w->barrier_mask,
                         r->op == BAR_AND ? (r->all ? FULL : 0)
                         : r->any         ? FULL
                                          : 0);
        else if (r->op == BAR_POPC)
            EACH_LANE(l, w->barrier_mask)
                ptx_set(w, &w->barrier_out, (int)l, r->count);
    }
    b->count.barriers++;
    b->lead->era++;
    *r = (struct ptx_barrier){0};
}

/* A barrier for the whole block is complete when all warps that still run are there. */
static bool complete(const struct ptx_block *b, const struct ptx_barrier *r)
{
    if (r->expected)
        return r->arrived >= r->expected;
    for (int k = 0; k < b->nwarps; k++)
        if (b->warps[k].state != W_DONE && b->warps[k].live && !(r->warps >> k & 1))
            return false;
    return r->warps != 0;
}

void ptx_barrier_exit(struct ptx_block *b)
{
    for (int k = 0; k < MAX_BARRIERS; k++)
        if (b->barriers[k].warps && !b->barriers[k].expected && complete(b, &b->barriers[k]))
            release(b, &b->barriers[k]);
    ptx_cluster_exit(b->lead);
}

static bool agree(struct ptx_warp *w, int id, struct ptx_barrier *r, int op, unsigned expected)
{
    int kind = op == BAR_ARRIVE ? BAR_SYNC : op;
    if (r->warps && r->expected != expected)
        ptx_report(w, PTX_CHECK_BARRIER, __builtin_ctz(w->live), 0,
                   "barrier %d with %u threads, others wait there with %u (0: all)", id, expected, r->expected);
    else if (r->warps && r->op != kind)
        ptx_report(w, PTX_CHECK_BARRIER, __builtin_ctz(w->live), 0,
                   "barrier %d is used by another operation at the same time", id);
    else if (expected % LANES)
        ptx_report(w, PTX_CHECK_BARRIER, __builtin_ctz(w->live), 0, "barrier %d with %u threads, not a multiple of 32",
                   id, expected);
    else if (r->warps >> w->id & 1)
        ptx_report(w, PTX_CHECK_BARRIER, __builtin_ctz(w->live), 0, "the warp arrives at barrier %d twice in one phase",
                   id);
    r->op = kind;
    r->expected = expected;
    return !w->b->stop;
}

void ptx_run_bar(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    struct ptx_block *b = w->b;
    int first = __builtin_ctz(mask), id = (int)ptx_lane(w, &i->s[0], first);
    unsigned expected = i->nsrc > 1 ? (unsigned)ptx_lane(w, &i->s[1], first) : 0;
    if (!ptx_whole_warp(w, mask))
        return;
    if (id < 0 || id >= MAX_BARRIERS) {
        ptx_report(w, PTX_CHECK_BARRIER, first, 0, "barrier %d, there are %d", id, MAX_BARRIERS);
        return;
    }
    struct ptx_barrier *r = &b->barriers[id];
    if (!agree(w, id, r, i->op, expected))
        return;
    if (!r->warps)
        r->all = true;
    r->warps |= 1u << w->id;
    r->arrived += LANES;
    publish(w, r->clock);
    ptx_path_arrive(w, &r->now);
    if (i->op >= BAR_AND) {
        uint32_t p = ptx_pred(w, &i->s[2]);
        r->any |= (p & mask) != 0;
        r->all &= (p & mask) == mask;
        r->count += (unsigned)__builtin_popcount(p & mask);
        w->barrier_out = i->d;
        w->barrier_mask = mask;
    }
    if (i->op != BAR_ARRIVE) {
        r->waiting |= 1u << w->id;
        w->state = W_BARRIER;
        w->barrier = id;
    }
    if (complete(b, r))
        release(b, r);
}

void ptx_run_bar_warp(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    if (ptx_members(w, &i->s[0], mask))
        ptx_race_warp(w);
}

void ptx_decode_bar(struct ptx_parse *p, struct ptx_insn *i)
{
    if (ptx_take(p, "cluster")) {
        bool waits = ptx_take(p, "wait");
        if (!waits && !ptx_take(p, "arrive"))
            ptx_fail(p, p->st.line, "this form of 'barrier.cluster' is not supported");
        ptx_take(p, "release"), ptx_take(p, "relaxed"), ptx_take(p, "acquire"), ptx_take(p, "aligned");
        ptx_operands(p, 0);
        ptx_run_by(i, waits ? ptx_run_cluster_wait : ptx_run_cluster_arrive);
        return;
    }
    bool red = ptx_take(p, "red"), arrive = ptx_take(p, "arrive"), popc = ptx_take(p, "popc"), all = ptx_take(p, "and");
    if (ptx_take(p, "warp")) {
        ptx_take(p, "sync");
        ptx_operands(p, 1);
        i->s[0] = ptx_source(p, &p->st.op[0], PT_B32);
        i->nsrc = 1;
        i->kind = K_RUN;
        i->fn.run = ptx_run_bar_warp;
        return;
    }
    if (!all)
        ptx_take(p, "or");
    ptx_take(p, "cta"), ptx_take(p, "aligned"), ptx_take(p, "sync"), ptx_take(p, "u32"), ptx_take(p, "pred");
    i->op = red ? popc ? BAR_POPC : all ? BAR_AND : BAR_OR : arrive ? BAR_ARRIVE : BAR_SYNC;
    int n = p->st.nop, at = red;
    if (n < (red ? 3 : arrive ? 2 : 1) || n > (red ? 4 : 2))
        ptx_fail(p, p->st.line, "'bar' with %d operands", n);
    if (red)
        i->d = ptx_dest(p, &p->st.op[0]);
    i->nsrc = (uint8_t)(n - (red ? 2 : 0));
    for (int s = 0; s < i->nsrc; s++)
        i->s[s] = ptx_source(p, &p->st.op[at + s], PT_B32);
    if (red)
        i->s[2] = ptx_source(p, &p->st.op[n - 1], PT_PRED);
    i->kind = K_RUN;
    i->fn.run = ptx_run_bar;
}

/* A fence of more than the block: what the block did so far can be published by an atomic operation after it. */
void ptx_run_fence(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    (void)i, (void)mask;
    ptx_race_fence(w);
}

/* -- mbarriers -- */

enum { MB_INIT = 1, MB_INVAL, MB_ARRIVE, MB_DROP, MB_EXPECT, MB_COMPLETE, MB_TEST, MB_PENDING };

struct mbar {
    uint32_t pending, expected;
    int32_t tx;
    bool phase;
};

static struct mbar unpack(uint64_t v)
{
    int32_t tx = (int32_t)(v >> 40 & 0x1fffff);
    return (struct mbar){v & 0xfffff, v >> 20 & 0xfffff, tx & 0x100000 ? tx - 0x200000 : tx, v >> 63};
}

static uint64_t packed(const struct mbar *m)
{
    return (uint64_t)m->phase << 63 | (uint64_t)(m->tx & 0x1fffff) << 40 | (uint64_t)m->expected << 20 | m->pending;
}

static struct ptx_mbar *clocks(struct ptx_block *b, uint32_t at)
{
    for (int k = 0; k < b->nmbars; k++)
        if (b->mbars[k].at == at)
            return &b->mbars[k];
    if (!GROWN(b->mbars, b->nmbars, b->mbar_room, 16)) {
        b->stop = true;
        b->g->no_memory = true;
        return NULL;
    }
    struct ptx_mbar *m = &b->mbars[b->nmbars++];
    memset(m, 0, sizeof *m);
    m->at = at;
    return m;
}

/* A phase that ends is progress, also where every warp goes on waiting when its turn is over. */
static void settle(struct ptx_block *b, struct mbar *m)
{
    if (m->pending || m->tx)
        return;
    m->phase = !m->phase;
    m->pending = m->expected;
    b->lead->idle = 0;
}

static void invalid(struct ptx_warp *w, int lane, uint64_t at, const char *what)
{
    ptx_report(w, PTX_CHECK_MBARRIER, lane, at, "%s", what);
}

static void arrive(struct ptx_warp *w, struct ptx_block *b, int lane, uint64_t at, struct mbar *m, uint32_t n,
                   bool drop)
{
    struct ptx_mbar *c = clocks(b, (uint32_t)at);
    if (!c)
        return;
    publish(w, c->clock[m->phase]);
    ptx_path_arrive(w, &c->now[m->phase]);
    if (n > m->pending || !n) {
        invalid(w, lane, at,
                n ? "more arrivals than the mbarrier expects in this phase" : "an arrival with the count 0");
        return;
    }
    m->pending -= n;
    m->expected -= drop ? n : 0;
    settle(b, m);
}

static void wait(struct ptx_warp *w, const struct ptx_insn *i, int lane, uint64_t at, const struct mbar *m,
                 uint64_t operand)
{
    bool phase = i->op2 ? operand & 1 : operand >> 63, done = phase != m->phase;
    struct ptx_mbar *c = clocks(w->b, (uint32_t)at);
    if (!c)
        return;
    if (done) {
        ptx_join(w->b, w->clock, c->clock[phase]);
        ptx_path_wait(w, &c->now[phase]);
        if (w->b->lead->nbulk)
            ptx_bulk_waited(w->b, (uint32_t)at);
    } else {
        w->state = W_WAIT;
        ptx_path_tries(w);
    }
    ptx_set(w, &i->d, lane, done);
}

static void one(struct ptx_warp *w, const struct ptx_insn *i, int lane)
{
    struct ptx_place p;
    uint64_t address = ptx_lane_address(w, i, 0, lane), state, operand = i->nsrc > 1 ? ptx_lane(w, &i->s[1], lane) : 0;
    if (!ptx_place(w, i->space, address, 8, lane, true, &p))
        return;
    if (p.space != SP_SHARED) {
        invalid(w, lane, address, "an mbarrier must lie in shared memory");
        return;
    }
    memcpy(&state, p.data, 8);
    struct mbar m = unpack(state);
    if (i->op == MB_INIT) {
        if (!operand || operand > 0xfffff) {
            invalid(w, lane, address, "an mbarrier of this count of arrivals");
            return;
        }
        m = (struct mbar){.pending = (uint32_t)operand, .expected = (uint32_t)operand};
    } else if (p.shadow[0] != 1 || !m.expected) {
        invalid(w, lane, address, "the mbarrier has not been initialised");
        return;
    }
    switch (i->op) {
    case MB_INVAL: memset(p.shadow, 0, 8); return;
    case MB_ARRIVE:
    case MB_DROP:
        if (i->op2) { /* expect_tx */
            m.tx += (int32_t)operand;
            arrive(w, p.b, lane, p.offset, &m, 1, i->op == MB_DROP);
        } else {
            arrive(w, p.b, lane, p.offset, &m, i->nsrc > 1 ? (uint32_t)operand : 1, i->op == MB_DROP);
        }
        ptx_set(w, &i->d, lane, state);
        break;
    case MB_EXPECT: m.tx += (int32_t)operand; break;
    case MB_COMPLETE: m.tx -= (int32_t)operand, settle(p.b, &m); break;
    case MB_TEST:
        if (p.b != w->b) {
            invalid(w, lane, address, "a wait for an mbarrier of another block");
            return;
        }
        wait(w, i, lane, p.offset, &m, operand);
        return;
    }
    state = packed(&m);
    memcpy(p.data, &state, 8);
    ptx_mark_written(&p, 8);
}

void ptx_run_mbarrier(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    EACH_LANE(l, mask)
        if (i->op == MB_PENDING)
            ptx_set(w, &i->d, (int)l, unpack(ptx_lane(w, &i->s[0], (int)l)).pending);
        else
            one(w, i, (int)l);
}

void ptx_mbar_complete(struct ptx_block *b, uint32_t at, uint32_t bytes, const struct ptx_bulk *from)
{
    struct ptx_mbar *c = clocks(b, at);
    uint64_t state;
    memcpy(&state, b->shared + at, 8);
    struct mbar m = unpack(state);
    if (!c)
        return;
    int index = ptx_index(from->w);
    c->clock[m.phase][index] = from->era > c->clock[m.phase][index] ? from->era : c->clock[m.phase][index];
    ptx_path_latest(&c->now[m.phase], &from->done);
    m.tx -= (int32_t)bytes;
    settle(b, &m);
    state = packed(&m);
    memcpy(b->shared + at, &state, 8);
}

/* cp.async.mbarrier.arrive: the copies issued so far have arrived, then one arrival; without .noinc it is one more than
 * expected. */
void ptx_run_cp_mbarrier(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    struct ptx_insn plain = *i;
    ptx_copies_arrive(w, -1, mask);
    if (!i->op2)
        return;
    plain.op = MB_ARRIVE;
    plain.op2 = 0;
    plain.d = (struct ptx_op){.sink = 1};
    EACH_LANE(l, mask)
        one(w, &plain, (int)l);
}

static bool take_shared(struct ptx_parse *p)
{
    return ptx_take(p, "shared") || ptx_take(p, "shared::cta") || ptx_take(p, "shared::cluster");
}

void ptx_decode_mbarrier(struct ptx_parse *p, struct ptx_insn *i)
{
    static const struct {
        const char *name;
        uint8_t op;
    } ops[] = {{"init", MB_INIT},        {"inval", MB_INVAL},          {"arrive", MB_ARRIVE},
               {"arrive_drop", MB_DROP}, {"complete_tx", MB_COMPLETE}, {"test_wait", MB_TEST},
               {"try_wait", MB_TEST},    {"pending_count", MB_PENDING}};
    struct ptx_operand *o = p->st.op;
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
        if (ptx_take(p, ops[k].name))
            i->op = ops[k].op;
    bool expect = ptx_take(p, "expect_tx");
    if (expect && !i->op)
        i->op = MB_EXPECT;
    ptx_take(p, "noComplete"), ptx_take(p, "release"), ptx_take(p, "acquire"), ptx_take(p, "relaxed"),
        ptx_take(p, "cta"), ptx_take(p, "cluster");
    i->space = take_shared(p) ? SP_SHARED : SP_GENERIC;
    i->op2 = ptx_take(p, "parity") || (expect && i->op != MB_EXPECT);
    ptx_take(p, "b64");
    int n = p->st.nop, at = i->op == MB_ARRIVE || i->op == MB_DROP || i->op == MB_TEST || i->op == MB_PENDING;
    at = at && n && o[0].kind == O_MEM ? 0 : at; /* without a state: remote arrivals */
    if (!i->op || n < at + 1 || n > at + (i->op == MB_TEST ? 3 : 2))
        ptx_fail(p, p->st.line, "this form of 'mbarrier' is not supported");
    i->d = at ? ptx_dest(p, &o[0]) : (struct ptx_op){.sink = 1};
    i->kind = K_RUN;
    i->fn.run = ptx_run_mbarrier;
    i->nsrc = 1;
    if (i->op == MB_PENDING) {
        i->s[0] = ptx_source(p, &o[1], PT_B64);
        return;
    }
    ptx_address(p, i, &o[at], 0);
    if (n > at + 1) {
        bool wide = i->op == MB_TEST && !i->op2;
        i->s[1] = ptx_source(p, &o[at + 1], wide ? PT_B64 : PT_B32);
        i->nsrc = 2;
    }
}

void ptx_cluster_exit(struct ptx_block *lead)
{
    bool any = false;
    for (int k = 0; k < lead->nblocks; k++)
        for (int j = 0; j < lead[k].nwarps; j++) {
            const struct ptx_warp *w = &lead[k].warps[j];
            if (w->state != W_DONE && w->live && !w->in_cluster)
                return;
            any |= w->in_cluster;
        }
    if (!any)
        return;
    lead->cluster_phase++;
    for (int k = 0; k < lead->nblocks; k++)
        for (int j = 0; j < lead[k].nwarps; j++)
            lead[k].warps[j].in_cluster = false;
    lead->era++;
}
