/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run: a queue of events in time. An engine's next instruction starts when its semaphores have their values, what
 * it needs of earlier ones of the engine is visible, and nobody else holds the memory that it may not share; it
 * computes there and then, holds its engine for its cycles, and signals when its result is visible. With a seed,
 * durations are drawn instead of modelled: the same machine then takes another of the orders that it might take.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/grow.h"
#include "sim/neuron/neuron_int.h"

/* -- Events: a heap by time, then by the order in which they were added -- */

static bool before(const struct event *a, const struct event *b)
{
    return a->time != b->time ? a->time < b->time : a->order < b->order;
}

void neuron_event(struct neuron_sim *s, uint64_t time, int kind, int a, uint32_t value, struct transfer *t)
{
    if (!GROWN(s->heap, s->nheap, s->heap_room, 256)) {
        s->out_of_memory = true;
        return;
    }
    int k = s->nheap++;
    struct event e = {time, s->order++, kind, a, value, t};
    for (; k && before(&e, &s->heap[(k - 1) / 2]); k = (k - 1) / 2)
        s->heap[k] = s->heap[(k - 1) / 2];
    s->heap[k] = e;
}

static struct event next_event(struct neuron_sim *s)
{
    struct event first = s->heap[0], last = s->heap[--s->nheap];
    int k = 0;
    for (int child; (child = 2 * k + 1) < s->nheap; k = child) {
        child += child + 1 < s->nheap && before(&s->heap[child + 1], &s->heap[child]);
        if (!before(&s->heap[child], &last))
            break;
        s->heap[k] = s->heap[child];
    }
    s->heap[k] = last;
    return first;
}

/* -- Durations -- */

static uint64_t neuron_draw(struct neuron_sim *s)
{
    uint64_t x = s->random += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Drawn ones differ by powers of two, so that one engine may be far behind another. */
uint64_t neuron_duration(struct neuron_sim *s, uint64_t modelled)
{
    if (!s->c.seed)
        return modelled;
    uint64_t x = neuron_draw(s);
    return 1 + (x >> 8) % (UINT64_C(1) << x % 16);
}

uint64_t neuron_ns(const struct neuron_sim *s, uint64_t ns)
{
    return ns * (uint64_t)s->t->ticks_in_10ns / 10;
}

/* -- What an instruction touches -- */

static bool on_chip(const struct neuron_operand *o)
{
    return o->space == NEURON_SBUF || o->space == NEURON_PSUM;
}

static bool writes(const struct neuron_instr *i, int k)
{
    char kind = neuron_op_row((enum neuron_op)i->op)->operands[k];
    return kind == 'O' || kind == 'B' || kind == 'Q' || kind == 'D' || kind == 'W';
}

static int64_t offset_of(const struct engine *e, const struct neuron_operand *o)
{
    return o->offset + (o->reg != NEURON_NO_REGISTER ? (int64_t)(int32_t)e->regs[o->reg] : 0);
}

/* Places of the operands, registers added. False: one of them is out of its memory. */
static bool find_places(struct run *r)
{
    struct neuron_sim *s = r->s;
    for (int k = 0; k < r->i->noperands; k++) {
        const struct neuron_operand *o = &r->i->operand[k];
        int64_t lo, hi;
        if (!on_chip(o) && o->space != NEURON_HBM)
            continue;
        r->at[k] = (struct place){o, neuron_memory(s, o), offset_of(&s->engine[r->engine], o)};
        bool open = o->space == NEURON_HBM && s->p->nsizes;
        if (o->reg == NEURON_NO_REGISTER && !open)
            continue;
        neuron_extent(o, r->at[k].offset, &lo, &hi);
        bool bank = neuron_op_row((enum neuron_op)r->i->op)->operands[k] == 'Q' &&
                    lo / NEURON_BANK_BYTES != (hi - 1) / NEURON_BANK_BYTES;
        if (lo >= 0 && hi <= r->at[k].m->lane && !bank && r->at[k].offset % isa_type(o->type)->bytes == 0)
            continue;
        char reg[32] = "";
        if (o->reg != NEURON_NO_REGISTER)
            snprintf(reg, sizeof reg, " r%d is %d:", o->reg, (int)s->engine[r->engine].regs[o->reg]);
        neuron_fail(r, NEURON_CHECK_BOUNDS, "operand %d:%s bytes %lld to %lld of %lld%s", k + 1, reg, (long long)lo,
                    (long long)hi - 1, (long long)r->at[k].m->lane, bank ? ", in more than one bank" : "");
        return false;
    }
    return true;
}

static void list_accesses(struct run *r, uint32_t epoch)
{
    const struct clock *knows = &r->s->engine[r->engine].clock;
    for (int pass = 0; pass < 2; pass++) /* reads, then writes */
        for (int k = 0; k < r->i->noperands; k++) {
            bool write = writes(r->i, k);
            if ((on_chip(&r->i->operand[k]) || r->i->operand[k].space == NEURON_HBM) && (write ? pass == 1 : pass == 0))
                neuron_access(r, r->engine, epoch, knows, k, write);
        }
}

/* When all that an instruction reads of its engine's own results can be seen. The tensor engine adds to PSUM without a
 * wait. */
static uint64_t visible_at(const struct neuron_sim *s, int engine, const struct neuron_instr *i)
{
    const struct engine *e = &s->engine[engine];
    uint64_t at = 0;
    if (neuron_is_dma((enum neuron_op)i->op))
        return e->visible;
    for (int n = 0; n < e->nout; n++)
        for (int k = 0; k < i->noperands && e->out[n].visible > s->now; k++) {
            const struct neuron_operand *o = &i->operand[k];
            int64_t lo, hi;
            if (o->space != e->out[n].space || writes(i, k))
                continue;
            neuron_extent(o, offset_of(e, o), &lo, &hi);
            if (lo < e->out[n].hi && hi > e->out[n].lo && o->start <= e->out[n].last &&
                o->start + o->count > e->out[n].first)
                at = at > e->out[n].visible ? at : e->out[n].visible;
        }
    return at;
}

static void remember_outputs(struct neuron_sim *s, struct run *r, uint64_t visible)
{
    struct engine *e = &s->engine[r->engine];
    for (int k = 0; k < r->i->noperands; k++) {
        const struct neuron_operand *o = &r->i->operand[k];
        if (!on_chip(o) || !writes(r->i, k))
            continue;
        int at = e->nout < OUTPUTS ? e->nout++ : 0;
        for (int n = 0; at == 0 && e->nout == OUTPUTS && n < OUTPUTS; n++)
            at = e->out[n].visible < e->out[at].visible ? n : at;
        struct output *out = &e->out[at];
        neuron_extent(o, r->at[k].offset, &out->lo, &out->hi);
        out->space = o->space;
        out->first = o->start;
        out->last = (uint8_t)(o->start + o->count - 1);
        out->visible = visible;
    }
}

/* -- Memory that engines may not share: v2: SBUF of Vector and GpSimd, PSUM of Vector and Scalar; v3: SBUF in Vector's
 * fast modes, one bank of PSUM -- */

static bool uses_sbuf(const struct neuron_sim *s, int engine, const struct neuron_instr *i)
{
    if (engine == NEURON_VECTOR && s->generation >= 3 && !neuron_fast_mode(s, i))
        return false;
    for (int k = 0; k < i->noperands && !neuron_is_dma((enum neuron_op)i->op); k++)
        if (i->operand[k].space == NEURON_SBUF)
            return engine == NEURON_VECTOR || engine == NEURON_GPSIMD;
    return false;
}

/* A bit for each bank; v2 knows no difference between banks. */
static unsigned uses_psum(const struct neuron_sim *s, int engine, const struct neuron_instr *i)
{
    unsigned banks = 0;
    for (int k = 0; k < i->noperands && (engine == NEURON_VECTOR || engine == NEURON_SCALAR); k++) {
        int64_t lo, hi;
        if (i->operand[k].space != NEURON_PSUM)
            continue;
        neuron_extent(&i->operand[k], offset_of(&s->engine[engine], &i->operand[k]), &lo, &hi);
        for (int64_t b = lo / NEURON_BANK_BYTES; b <= (hi - 1) / NEURON_BANK_BYTES; b++)
            banks |= b >= 0 && b < 8 ? 1u << b : 0;
    }
    return banks && s->generation < 3 ? 0xff : banks;
}

static uint64_t held_until(const struct neuron_sim *s, int engine, const struct neuron_instr *i)
{
    uint64_t until = 0;
    unsigned banks = uses_psum(s, engine, i);
    int other = engine == NEURON_VECTOR ? NEURON_SCALAR : NEURON_VECTOR;
    if (uses_sbuf(s, engine, i))
        until = s->sbuf_held[engine == NEURON_VECTOR];
    for (int b = 0; b < 8; b++)
        if (banks >> b & 1 && s->psum_held[other][b] > until)
            until = s->psum_held[other][b];
    return until;
}

static void hold(struct neuron_sim *s, int engine, const struct neuron_instr *i, uint64_t until)
{
    unsigned banks = uses_psum(s, engine, i);
    if (uses_sbuf(s, engine, i))
        s->sbuf_held[engine != NEURON_VECTOR] = until;
    for (int b = 0; b < 8; b++)
        if (banks >> b & 1)
            s->psum_held[engine][b] = until;
}

/* -- Sequencers -- */

static uint32_t value_of(const struct engine *e, const struct neuron_operand *o)
{
    return o->reg != NEURON_NO_REGISTER ? e->regs[o->reg] : (uint32_t)o->offset;
}

static bool compares(int op, int32_t a, int32_t b)
{
    switch ((enum neuron_alu)op) {
    case NEURON_ALU_EQ: return a == b;
    case NEURON_ALU_NE: return a != b;
    case NEURON_ALU_GE: return a >= b;
    case NEURON_ALU_GT: return a > b;
    case NEURON_ALU_LE: return a <= b;
    default: return a < b;
    }
}

static void begin_loop(struct run *r)
{
    struct engine *e = &r->s->engine[r->engine];
    int32_t count = (int32_t)value_of(e, &r->i->operand[0]);
    if (count > 0)
        e->loop[e->nloops++] = (struct turns){e->pc, (uint32_t)count};
    else
        e->pc = neuron_loop_end(&r->s->p->stream[r->engine], e->pc);
}

static bool end_turn(struct engine *e)
{
    struct turns *l = &e->loop[e->nloops - 1];
    if (--l->left)
        e->pc = l->head;
    else
        e->nloops--;
    return l->left != 0;
}

static void sequence(struct run *r)
{
    struct engine *e = &r->s->engine[r->engine];
    const struct neuron_operand *o = r->i->operand;
    switch ((enum neuron_op)r->i->op) {
    case NEURON_OP_SET: e->regs[o[0].reg] = value_of(e, &o[1]); break;
    case NEURON_OP_REG_ADD: e->regs[o[0].reg] = value_of(e, &o[1]) + value_of(e, &o[2]); break;
    case NEURON_OP_REG_MUL: e->regs[o[0].reg] = value_of(e, &o[1]) * value_of(e, &o[2]); break;
    case NEURON_OP_REG_AND: e->regs[o[0].reg] = value_of(e, &o[1]) & value_of(e, &o[2]); break;
    case NEURON_OP_REG_SHR: e->regs[o[0].reg] = value_of(e, &o[1]) >> (value_of(e, &o[2]) & 31); break;
    case NEURON_OP_REG_LOAD:
        e->regs[o[0].reg] = 0; /* time alone: there are no values */
        if (r->s->c.values)
            neuron_get_bits(r, 1, 0, &e->regs[o[0].reg]);
        break;
    case NEURON_OP_REG_STORE:
        if (r->s->c.values)
            neuron_put_bits(r, 0, 0, &e->regs[o[1].reg]);
        break;
    case NEURON_OP_JUMP:
        if (compares(neuron_attr(r->i, NEURON_ATTR_OP0).i, (int32_t)value_of(e, &o[1]), (int32_t)value_of(e, &o[2])))
            e->pc = (int)o[0].offset - 1;
        break;
    case NEURON_OP_LOOP: begin_loop(r); break;
    case NEURON_OP_END_LOOP: r->s->turned |= end_turn(e); break;
    default: break;
    }
}

static void compute(struct run *r)
{
    switch ((enum neuron_op)r->i->op) {
    case NEURON_OP_LOAD_STATIONARY:
    case NEURON_OP_LOAD_STATIONARY_MX:
    case NEURON_OP_MATMUL:
    case NEURON_OP_MATMUL_MX:
    case NEURON_OP_PE_TRANSPOSE: neuron_pe(r); return;
    case NEURON_OP_NOP:
    case NEURON_OP_SET:
    case NEURON_OP_REG_ADD:
    case NEURON_OP_REG_MUL:
    case NEURON_OP_REG_AND:
    case NEURON_OP_REG_SHR:
    case NEURON_OP_REG_LOAD:
    case NEURON_OP_REG_STORE:
    case NEURON_OP_JUMP:
    case NEURON_OP_LOOP:
    case NEURON_OP_END_LOOP: sequence(r); return;
    default: break;
    }
    if (!r->s->c.values || neuron_is_dma((enum neuron_op)r->i->op))
        return;
    switch ((enum neuron_op)r->i->op) {
    case NEURON_OP_ACTIVATION: neuron_activation(r); return;
    case NEURON_OP_MAX8:
    case NEURON_OP_FIND_INDEX8:
    case NEURON_OP_MATCH_REPLACE8:
    case NEURON_OP_RANGE_SELECT:
    case NEURON_OP_IOTA:
    case NEURON_OP_AFFINE_SELECT:
    case NEURON_OP_LOCAL_GATHER:
    case NEURON_OP_RNG:
    case NEURON_OP_DROPOUT:
    case NEURON_OP_READ_ACC:
    case NEURON_OP_STREAM_SHUFFLE:
    case NEURON_OP_QUANTIZE_MX:
    case NEURON_OP_TRANSPOSE32: neuron_select(r); return;
    default: neuron_lanes(r);
    }
}

/* -- Starting -- */

static bool waits_hold(const struct neuron_sim *s, int engine)
{
    const struct engine *e = &s->engine[engine];
    const struct neuron_instr *i = &s->p->stream[engine].code[e->pc];
    for (int k = 0; k < i->nwaits; k++)
        if (s->sem[i->wait[k].semaphore].value < neuron_wanted(e, &i->wait[k]))
            return false;
    return true;
}

/* When the engine may start its next instruction, as far as is known; UINT64_MAX: when a semaphore allows it. */
static uint64_t may_start(const struct neuron_sim *s, int engine, bool *held)
{
    const struct engine *e = &s->engine[engine];
    const struct neuron_instr *i = &s->p->stream[engine].code[e->pc];
    *held = false;
    if (e->free > s->now)
        return e->free;
    if (!waits_hold(s, engine))
        return UINT64_MAX;
    uint64_t at = visible_at(s, engine, i);
    if (engine == NEURON_TENSOR && neuron_is_load((enum neuron_op)i->op))
        at = at > s->load_free ? at : s->load_free;
    else if (neuron_is_product((enum neuron_op)i->op) || i->op == NEURON_OP_PE_TRANSPOSE) {
        uint64_t pe = s->load_free > s->product_free ? s->load_free : s->product_free;
        at = at > pe ? at : pe;
    }
    uint64_t until = held_until(s, engine, i);
    *held = until > s->now && until >= at;
    return at > until ? at : until;
}

/* How long the engine is busy, and its result on the way. Loads of the tensor engine run behind its products. */
static void take_time(struct neuron_sim *s, struct run *r, uint64_t waited)
{
    struct engine *e = &s->engine[r->engine];
    uint64_t cycle = (uint64_t)s->t->cycle[r->engine],
             cost = neuron_duration(s, neuron_cycles(s, r->engine, r->i) * cycle);
    uint64_t latency = neuron_latency(s, r->engine, r->i) * cycle, end = s->now + cost;
    latency = latency && s->c.seed ? neuron_duration(s, latency) : latency;
    e->free = end;
    bool load = neuron_is_load((enum neuron_op)r->i->op);
    if (load) {
        s->load_free = end;
        e->free = s->now + cycle;
    } else if (neuron_is_product((enum neuron_op)r->i->op) || r->i->op == NEURON_OP_PE_TRANSPOSE) {
        s->product_free = end;
        e->free = s->now + cycle;
    }
    hold(s, r->engine, r->i, end);
    e->visible = e->visible > end + latency ? e->visible : end + latency; /* results appear in order */
    remember_outputs(s, r, e->visible);
    s->n.engine[r->engine].busy += load ? 0 : cost;
    if (s->trace)
        s->trace(s->user, &(struct neuron_event){r->engine, s->now, end, waited, r->i});
}

static void start(struct neuron_sim *s, int engine)
{
    struct engine *e = &s->engine[engine];
    struct run r = {.s = s, .i = &s->p->stream[engine].code[e->pc], .engine = engine};
    if (e->executed == s->c.limit) {
        neuron_fail(&r, NEURON_CHECK_LIMIT, "%llu instructions were executed", (unsigned long long)e->executed);
        return;
    }
    if (!find_places(&r))
        return;
    for (int k = 0; k < r.i->nwaits; k++)
        neuron_wait_done(s, &r, &r.i->wait[k], neuron_wanted(e, &r.i->wait[k]));
    e->executed++;
    s->n.engine[engine].instructions++;
    uint64_t waited = e->blocked ? s->now - e->free : 0;
    s->n.engine[engine].waiting += waited;
    e->blocked = e->held = false;
    uint32_t epoch = e->clock.at[engine] + 1;
    bool dma = neuron_is_dma((enum neuron_op)r.i->op);
    if (s->c.checks && !dma)
        list_accesses(&r, epoch);
    take_time(s, &r, waited);
    compute(&r);
    if (dma)
        neuron_dma_issue(&r, e->visible);
    e->clock.at[engine] = epoch;
    for (int k = 0; k < r.i->nsignals && !dma; k++) {
        neuron_signal_given(s, &r, engine, r.i->signal[k].semaphore, r.i->signal[k].value, &e->clock, &e->clock);
        neuron_event(s, e->visible, EVENT_SIGNAL, r.i->signal[k].semaphore, r.i->signal[k].value, NULL);
    }
    if (neuron_is_product((enum neuron_op)r.i->op))
        s->n.flops += (r.i->op == NEURON_OP_MATMUL_MX ? 2.0 * NEURON_PACKED : 2.0) * r.i->operand[0].count *
                      r.i->operand[1].count * (double)neuron_free_size(&r.i->operand[1]);
    e->pc++;
    if (e->pc < s->p->stream[engine].n)
        neuron_event(s, e->free, EVENT_WAKE, engine, 0, NULL);
}

/* Starts what can start now: of several that want the same, who asked first, then the first engine. */
static void start_all(struct neuron_sim *s)
{
    for (;;) {
        int best = -1;
        uint64_t asked = UINT64_MAX;
        for (int k = 0; k < NEURON_NENGINES && !s->stopped; k++) {
            int engine = s->c.seed ? (int)((s->random + (uint64_t)k) % NEURON_NENGINES) : k;
            struct engine *e = &s->engine[engine];
            bool held;
            if (e->pc >= s->p->stream[engine].n)
                continue;
            uint64_t at = may_start(s, engine, &held);
            if (at == UINT64_MAX) {
                e->blocked = true;
                continue;
            }
            if (at > s->now) {
                if (e->free <= s->now && !e->held) {
                    e->asked = s->now;
                    e->held = held;
                }
                if (e->free <= s->now && e->wake != at)
                    neuron_event(s, e->wake = at, EVENT_WAKE, engine, 0, NULL);
                continue;
            }
            uint64_t since = e->held ? e->asked : s->now;
            if (since < asked) {
                asked = since;
                best = engine;
            }
        }
        if (best < 0)
            return;
        start(s, best);
    }
}

/* -- The end -- */

static bool finished(const struct neuron_sim *s)
{
    for (int e = 0; e < NEURON_NENGINES; e++)
        if (s->engine[e].pc < s->p->stream[e].n)
            return false;
    return true;
}

/* SBUF, PSUM and semaphores as after power-on. What lists accesses is for one run: tensors' accesses of an earlier one
 * came before. */
static void reset(struct neuron_sim *s)
{
    struct shadow *all[] = {&s->sbuf_shadow, &s->psum_shadow};
    neuron_order_clear(s);
    if (s->ran) {
        neuron_memory_clear(&s->sbuf, NEURON_PARTITIONS);
        neuron_memory_clear(&s->psum, NEURON_PARTITIONS);
        neuron_memory_clear(&s->product, NEURON_PARTITIONS);
    }
    s->ran = true;
    for (int k = 0; k < 2 + s->ntensors; k++) {
        struct shadow *h = k < 2 ? all[k] : &s->hbm_shadow[k - 2];
        for (int b = 0; b < h->nbuckets; b++)
            h->buckets[b].n = 0;
    }
    memset(s->engine, 0, sizeof s->engine);
    for (int e = 0; e < NEURON_NENGINES; e++)
        for (int k = 0; k < s->p->nsizes; k++)
            s->engine[e].regs[s->p->size[k].reg] = (uint32_t)s->p->size[k].value;
    memset(s->dma, 0, sizeof s->dma);
    memset(s->ring_epoch, 0, sizeof s->ring_epoch);
    memset(s->ring_clock, 0, sizeof s->ring_clock);
    memset(s->ring_arrival, 0, sizeof s->ring_arrival);
    memset(s->dge_free, 0, sizeof s->dge_free);
    memset(s->sbuf_held, 0, sizeof s->sbuf_held);
    memset(s->psum_held, 0, sizeof s->psum_held);
    memset(s->acc, 0, sizeof s->acc);
    memset(&s->n, 0, sizeof s->n);
    s->load_free = s->product_free = s->now = s->order = 0;
    s->random = s->c.seed;
    s->nheap = 0;
    s->loaded = s->stopped = s->out_of_memory = s->turned = false;
    *s->stop_text = 0;
}

static void count(struct neuron_sim *s, struct neuron_counters *counters)
{
    uint64_t end = s->now > s->product_free ? s->now : s->product_free;
    for (int e = 0; e < NEURON_NENGINES; e++)
        end = end > s->engine[e].visible ? end : s->engine[e].visible;
    s->n.ticks = end;
    s->n.ticks_in_10ns = (uint64_t)s->t->ticks_in_10ns;
    s->n.seconds = (double)end / s->t->ticks_in_10ns * 1e-8;
    s->n.peak_flops = (double)end / s->t->cycle[NEURON_TENSOR] * 2 * NEURON_PARTITIONS * NEURON_STATIONARY;
    if (counters)
        *counters = s->n;
}

bool neuron_sim_run(struct neuron_sim *s, struct neuron_counters *counters, char *error)
{
    if (s->lacks_memory) {
        snprintf(error, NEURON_ERROR, "no memory");
        return false;
    }
    reset(s);
    start_all(s);
    while (s->nheap && !s->stopped && !s->out_of_memory) {
        struct event e = next_event(s);
        s->now = e.time;
        if (e.kind == EVENT_SIGNAL)
            s->sem[e.a].value += e.value;
        else if (e.kind == EVENT_ARRIVE)
            neuron_dma_arrive(s, e.t);
        else if (e.kind == EVENT_PACKET)
            neuron_dma_packet(s, e.a);
        if (!s->nheap || s->heap[0].time > s->now)
            start_all(s);
        if (s->turned && s->nheap && s->heap[0].time > s->now)
            neuron_fold(s);
        s->turned = false;
    }
    neuron_fold_clear(s);
    if (!s->stopped && !s->out_of_memory && !finished(s))
        neuron_deadlock(s);
    for (int k = 0; k < s->nheap; k++)
        if (s->heap[k].kind == EVENT_ARRIVE) {
            free(s->heap[k].t->index);
            free(s->heap[k].t);
        }
    neuron_dma_drop(s);
    count(s, counters);
    if (s->out_of_memory)
        snprintf(error, NEURON_ERROR, "no memory");
    else if (s->stopped)
        snprintf(error, NEURON_ERROR, "%s", s->stop_text);
    return !s->stopped && !s->out_of_memory;
}
