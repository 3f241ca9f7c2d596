/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DMA. A transfer's elements are cut into rows, runs that are contiguous on all sides; the rows are dealt out to 16
 * engines in contiguous parts, each of which runs in order in its ring and adds 1 to the transfer's semaphores when its
 * part has arrived. An engine serves its rings in turns, a packet of up to 4 KiB at a time. A row takes as long as 512
 * bytes at least. Types are converted through float32; bytes of one type are copied as they are.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/neuron/neuron_int.h"

enum { PACKET = 4096 };

static bool indexed(const struct transfer *t)
{
    return t->i->op == NEURON_OP_DMA_GATHER || t->i->op == NEURON_OP_DMA_SCATTER;
}

static int64_t sides(const struct transfer *t)
{
    return t->i->op == NEURON_OP_DMA_ADD ? 3 : 2;
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The rows' part of a table that is indexed: its pattern without the outermost dim. */
static struct neuron_operand inner(const struct neuron_operand *o)
{
    struct neuron_operand in = *o;
    memmove(in.size, in.size + 1, sizeof in.size - sizeof *in.size);
    memmove(in.stride, in.stride + 1, sizeof in.stride - sizeof *in.stride);
    in.ndims--;
    return in;
}

/* Where element `e` of a side lies: lane and byte of its memory. */
static struct memory *locate(struct neuron_sim *s, const struct transfer *t, int side, int64_t e, int64_t *lane,
                             int64_t *byte)
{
    const struct neuron_operand *o = &t->i->operand[side];
    *lane = 0;
    if (o->space == NEURON_SBUF) {
        int64_t n = neuron_free_size(o);
        *lane = o->start + e / n;
        e %= n;
    } else if (t->index) {
        struct neuron_operand in = inner(o);
        int64_t n = neuron_free_size(&in);
        *byte = neuron_address(&in, t->offset[side], e % n) +
                (int64_t)t->index[e / n] * o->stride[0] * isa_type(o->type)->bytes;
        return neuron_memory(s, o);
    }
    *byte = neuron_address(o, t->offset[side], e);
    return neuron_memory(s, o);
}

/* -- Values: elements from `e` on, of a row or a part of it -- */

static void load(struct neuron_sim *s, const struct transfer *t, int side, int64_t e, int64_t n, float *to)
{
    const struct neuron_operand *o = &t->i->operand[side];
    int64_t lane, byte, bytes = isa_type(o->type)->bytes;
    struct memory *m = locate(s, t, side, e, &lane, &byte);
    neuron_load_floats(o->type, m->data + lane * m->lane + byte, 1, n, to);
    if (neuron_written(m, lane, byte, n * bytes))
        return;
    struct run r = {.s = s, .i = t->i, .engine = t->engine};
    for (int64_t k = 0; k < n; k++)
        if (!neuron_written(m, lane, byte + k * bytes, bytes)) {
            to[k] = isa_type(o->type)->class == 'f' ? NAN : 4;
            neuron_fail(&r, NEURON_CHECK_UNINIT, "operand %d, element %lld: byte %lld%s%.0lld was never written",
                        side + 1, (long long)(e + k), (long long)(byte + k * bytes),
                        o->space == NEURON_SBUF ? " of partition " : "", (long long)lane);
        }
}

static void store(struct neuron_sim *s, const struct transfer *t, int64_t e, int64_t n, const float *from)
{
    const struct neuron_operand *o = &t->i->operand[0];
    int64_t lane, byte, bytes = isa_type(o->type)->bytes;
    struct memory *m = locate(s, t, 0, e, &lane, &byte);
    uint8_t *to = m->data + lane * m->lane + byte;
    bool random = s->c.stochastic && isa_type(o->type)->class == 'f' && o->type != NEURON_F32;
    uint32_t four[4];
    for (int64_t k = 0; random && k < n; k++) {
        if (k == 0 || (e + k) % 4 == 0)
            neuron_philox(s->c.rounding_seed, (uint64_t)((e + k) / 4),
                          t->number << 8 | (uint64_t)(NEURON_NENGINES + t->ring), four);
        neuron_from_float((enum neuron_type)o->type, from[k], true, four[(e + k) % 4], to + k * bytes);
    }
    if (!random)
        neuron_store_floats(o->type, to, 1, n, from);
    neuron_mark(m, lane, byte, n * bytes);
}

static bool copied(struct neuron_sim *s, const struct transfer *t, int64_t e, int64_t n)
{
    int64_t from_lane, from, to_lane, to, bytes = isa_type(t->i->operand[0].type)->bytes;
    if (t->i->operand[0].type != t->i->operand[1].type || sides(t) != 2)
        return false;
    struct memory *a = locate(s, t, 1, e, &from_lane, &from), *b = locate(s, t, 0, e, &to_lane, &to);
    if (!neuron_written(a, from_lane, from, n * bytes))
        return false;
    memmove(b->data + to_lane * b->lane + to, a->data + from_lane * a->lane + from, (size_t)(n * bytes));
    neuron_mark(b, to_lane, to, n * bytes);
    return true;
}

static void transpose(struct neuron_sim *s, const struct transfer *t, int64_t first, int64_t last)
{
    const struct neuron_operand *o = &t->i->operand[0];
    int64_t outer = o->space == NEURON_SBUF ? o->count : o->size[0], width = t->total / outer,
            bytes = isa_type(o->type)->bytes;
    for (int64_t e = first; e < last; e++) {
        int64_t from_lane, from, to_lane, to, other = e % width * outer + e / width;
        float f;
        load(s, t, 1, other, 1, &f); /* reports what was never written */
        struct memory *a = locate(s, t, 1, other, &from_lane, &from), *b = locate(s, t, 0, e, &to_lane, &to);
        memcpy(b->data + to_lane * b->lane + to, a->data + from_lane * a->lane + from, (size_t)bytes);
        neuron_mark(b, to_lane, to, bytes);
    }
}

static int64_t first_row(const struct transfer *t, int part)
{
    return (int64_t)((unsigned __int128)t->rows * (unsigned)part / PARTS);
}

static void move(struct neuron_sim *s, const struct transfer *t, int part)
{
    int64_t first = first_row(t, part), last = first_row(t, part + 1);
    if (t->i->op == NEURON_OP_DMA_TRANSPOSE) {
        transpose(s, t, first * t->run, last * t->run);
        return;
    }
    for (int64_t row = first; row < last; row++)
        for (int64_t e = row * t->run, end = e + t->run; e < end;) {
            int64_t n = end - e < ROW ? end - e : ROW;
            if (!copied(s, t, e, n)) {
                load(s, t, 1, e, n, s->row[0]);
                for (int k = 2; k < sides(t); k++) {
                    load(s, t, k, e, n, s->row[1]);
                    neuron_alu(NEURON_ALU_ADD, n, s->row[0], s->row[1], 1, s->row[0]);
                }
                store(s, t, e, n, s->row[0]);
            }
            e += n;
        }
}

/* -- Time -- */

static void start_packet(struct neuron_sim *s, int d)
{
    struct dma_engine *e = &s->dma[d];
    for (int k = 0; k < NEURON_QUEUES; k++) {
        int ring = (e->current + 1 + k) % NEURON_QUEUES;
        struct transfer *t = e->ring[ring].first;
        if (!t)
            continue;
        e->current = ring;
        e->busy = true;
        e->packet = t->left[d] < PACKET ? t->left[d] : PACKET;
        uint64_t ticks = (e->packet * (uint64_t)s->t->ticks_in_10ns + (uint64_t)t->rate - 1) / (uint64_t)t->rate;
        s->n.dma_busy += ticks;
        neuron_event(s, s->now + neuron_duration(s, ticks), EVENT_PACKET, d, 0, NULL);
        return;
    }
}

void neuron_dma_arrive(struct neuron_sim *s, struct transfer *t)
{
    t->began = s->now;
    for (int d = 0; d < PARTS; d++) {
        struct part_queue *q = &s->dma[d].ring[t->ring];
        t->left[d] = (uint64_t)(first_row(t, d + 1) - first_row(t, d)) * t->paid;
        t->next[d] = NULL;
        if (q->last)
            q->last->next[d] = t;
        else
            q->first = t;
        q->last = t;
        if (!s->dma[d].busy)
            start_packet(s, d);
    }
}

static void drop(struct transfer *t)
{
    free(t->index);
    free(t);
}

void neuron_dma_packet(struct neuron_sim *s, int d)
{
    struct dma_engine *e = &s->dma[d];
    struct part_queue *q = &e->ring[e->current];
    struct transfer *t = q->first;
    e->busy = false;
    t->left[d] -= e->packet;
    if (!t->left[d]) {
        q->first = t->next[d];
        q->last = q->first ? q->last : NULL;
        if (s->c.values)
            move(s, t, d);
        for (int k = 0; k < t->i->nsignals; k++)
            s->sem[t->i->signal[k].semaphore].value++;
        if (!--t->parts) {
            if (s->trace)
                s->trace(s->user, &(struct neuron_event){NEURON_NENGINES + t->ring, t->began, s->now, 0, t->i});
            drop(t);
        }
    }
    start_packet(s, d);
}

/* Transfers stand in 16 queues until their parts have ended. */
void neuron_dma_drop(struct neuron_sim *s)
{
    for (int d = 0; d < PARTS; d++)
        for (int k = 0; k < NEURON_QUEUES; k++) {
            struct transfer *t = s->dma[d].ring[k].first;
            while (t) {
                struct transfer *next = t->next[d];
                if (!--t->parts)
                    drop(t);
                t = next;
            }
            s->dma[d].ring[k] = (struct part_queue){0};
        }
}

/* -- Triggers -- */

static bool read_index(struct run *r, struct transfer *t)
{
    int count = r->i->operand[2].count;
    const struct neuron_operand *table = &r->i->operand[r->i->op == NEURON_OP_DMA_GATHER];
    t->index = calloc((size_t)count, sizeof *t->index);
    for (int k = 0; t->index && r->s->c.values && k < count; k++) {
        neuron_get_bits(r, 2, k, &t->index[k]);
        if (t->index[k] >= table->size[0]) {
            neuron_fail(r, NEURON_CHECK_INDEX, "partition %d: index %d of %u rows", r->i->operand[2].start + k,
                        (int32_t)t->index[k], table->size[0]);
            return false;
        }
    }
    return t->index != NULL;
}

static void measure(struct neuron_sim *s, struct transfer *t)
{
    const struct neuron_operand *o = t->i->operand;
    int64_t bytes = 0;
    bool chip = true;
    t->total = (o[0].space == NEURON_SBUF ? o[0].count : 1) * neuron_free_size(&o[0]);
    if (indexed(t) && o[0].space == NEURON_HBM)
        t->total = o[1].count * neuron_free_size(&o[1]);
    for (int k = 0; k < sides(t); k++) {
        struct neuron_operand side = t->index && o[k].space == NEURON_HBM ? inner(&o[k]) : o[k];
        t->run = gcd(t->run, neuron_run_length(&side));
        bytes = isa_type(o[k].type)->bytes > bytes ? isa_type(o[k].type)->bytes : bytes;
        chip &= o[k].space == NEURON_SBUF;
    }
    if (t->i->op == NEURON_OP_DMA_TRANSPOSE)
        t->run = neuron_run_length(&o[0]);
    t->rows = t->total / t->run;
    int64_t row = t->run * bytes * (sides(t) - 1);
    int64_t least = s->figures[DMA_LEAST_ROW_BYTES];
    t->paid = (uint64_t)(row > least ? row : least);
    int share = s->t->hbm_rate / s->c.sharers / PARTS;
    t->rate = chip || share > s->t->dma_rate ? s->t->dma_rate : share;
    if (t->i->op == NEURON_OP_DMA_TRANSPOSE)
        t->rate = t->rate * s->figures[chip ? TRANSPOSE_IN_SBUF_TENTHS : TRANSPOSE_TENTHS] / 10;
    s->n.dma_transfers++;
    s->n.dma_rows += (uint64_t)t->rows;
    s->n.dma_bytes += (uint64_t)(row * t->rows);
    s->n.dma_paid_bytes += t->paid * (uint64_t)t->rows;
    for (int k = 0; k < sides(t); k++)
        if (o[k].space == NEURON_HBM)
            *(k ? &s->n.hbm_read : &s->n.hbm_written) += (uint64_t)(t->total * isa_type(o[k].type)->bytes);
}

void neuron_dma_issue(struct run *r, uint64_t start)
{
    struct neuron_sim *s = r->s;
    struct transfer *t = calloc(1, sizeof *t);
    int ring = neuron_attr(r->i, NEURON_ATTR_QUEUE).i, stream = NEURON_NENGINES + ring;
    struct clock *knows = &s->engine[r->engine].clock;
    if (!t) {
        s->out_of_memory = true;
        return;
    }
    t->i = r->i;
    t->ring = ring;
    t->engine = r->engine;
    t->parts = PARTS;
    t->number = s->ring_epoch[ring];
    for (int k = 0; k < r->i->noperands && k < 3; k++)
        t->offset[k] = r->at[k].offset;
    if (indexed(t) && !read_index(r, t)) {
        s->out_of_memory |= !t->index;
        drop(t);
        return;
    }
    measure(s, t);
    uint32_t epoch = ++s->ring_epoch[ring];
    for (int k = 0; s->c.checks && k < sides(t); k++)
        neuron_access(r, stream, epoch, knows, k, k == 0);
    for (int k = 0; k < STREAMS; k++)
        s->ring_clock[ring].at[k] = knows->at[k] > s->ring_clock[ring].at[k] ? knows->at[k] : s->ring_clock[ring].at[k];
    s->ring_clock[ring].at[stream] = epoch;
    for (int k = 0; k < r->i->nsignals; k++)
        neuron_signal_given(s, r, stream, r->i->signal[k].semaphore, PARTS, knows, &s->ring_clock[ring]);
    if (s->t->dge_ns && (r->engine == NEURON_SCALAR || r->engine == NEURON_SYNC)) {
        start =
            (start > s->dge_free[r->engine] ? start : s->dge_free[r->engine]) + neuron_ns(s, (uint64_t)s->t->dge_ns);
        s->dge_free[r->engine] = start;
    }
    uint64_t at = start + neuron_duration(s, neuron_ns(s, (uint64_t)s->figures[DMA_START_NS]));
    s->ring_arrival[ring] =
        at > s->ring_arrival[ring] ? at : s->ring_arrival[ring]; /* in order, drawn durations or not */
    neuron_event(s, s->ring_arrival[ring], EVENT_ARRIVE, 0, 0, t);
}
