/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops in time. Where only time is wanted, what happens in a loop repeats as soon as the state of the machine does:
 * engines, DMA rings and events that are on the way, all as far from now as they were some turns ago, semaphores and
 * registers further by what they go on in that while. What is left of the loops is then many times the same, and is
 * added at once: the figures are those of running it.
 *
 * A moment is looked at when a turn of a loop has ended. Two that are alike, and a third one before them from which
 * everything went on by the same steps, make a period. It may be repeated as often as
 *   - each engine that moved has turns left in the loop whose turns it counted: one loop of those that it is in;
 *   - no engine that waited all the while would have come to the end of its wait;
 *   - each wait in these loops counts on by what its semaphore does, or is for a value that is there already;
 *   - operands on chip stay where they are, counts of loops too; no jumps, products of registers or loaded ones;
 *   - each engine learns of the others as fast as they go on, so that no race comes of a turn long ago.
 * At least one more period is run: what moves in HBM moves evenly, so its bounds are checked at both ends.
 *
 * Anything else (loops of jumps, a count from memory, engines that drift apart) is run turn by turn.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/neuron/neuron_int.h"

enum { MOMENTS = 128, TRIES = 4, MOST_SKIPPED = 10 };

struct moment_engine {
    uint64_t executed;
    uint32_t regs[NEURON_REGISTERS], left[NEURON_LOOPS];
    struct clock clock;
};
struct moment {
    uint64_t hash, now, sem[NEURON_SEMAPHORES];
    struct moment_engine engine[NEURON_NENGINES];
    uint32_t ring_epoch[NEURON_QUEUES];
    struct clock ring_clock[NEURON_QUEUES];
    struct neuron_counters n;
    int nsources;
    uint64_t sum[MOST_SOURCES]; /* what each source of signals has begun to give */
};
struct fold {
    struct moment at[MOMENTS];
    uint64_t n; /* so many were looked at */
    int refused, skip;
};

/* -- The state, relative to now -- */

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * UINT64_C(0xff51afd7ed558ccd);
    return h ^ h >> 32;
}

/* What lies behind is all the same. */
static uint64_t ahead(const struct neuron_sim *s, uint64_t time)
{
    return time > s->now ? time - s->now : 0;
}

static uint64_t hash_engine(const struct neuron_sim *s, const struct engine *e, uint64_t h)
{
    h = mix(mix(h, (uint64_t)e->pc), (uint64_t)e->nloops);
    h = mix(mix(h, ahead(s, e->free)), ahead(s, e->visible));
    h = mix(mix(h, (uint64_t)e->blocked << 1 | e->held), e->held ? s->now - e->asked : 0);
    uint64_t results = 0; /* in whatever place they are */
    for (int k = 0; k < e->nout; k++) {
        const struct output *o = &e->out[k];
        if (o->visible > s->now)
            results += mix(mix(mix(mix(o->visible - s->now, (uint64_t)o->lo), (uint64_t)o->hi), o->space),
                           (uint64_t)o->first << 8 | o->last);
    }
    return mix(h, results);
}

static uint64_t hash_dma(const struct neuron_sim *s, uint64_t h)
{
    for (int d = 0; d < PARTS; d++) {
        const struct dma_engine *e = &s->dma[d];
        h = mix(mix(h, e->busy ? e->packet : 0), (uint64_t)e->current);
        for (int ring = 0; ring < NEURON_QUEUES; ring++)
            for (const struct transfer *t = e->ring[ring].first; t; t = t->next[d])
                h = mix(mix(mix(h, (uint64_t)ring), t->left[d]), (uint64_t)(uintptr_t)t->i);
    }
    for (int ring = 0; ring < NEURON_QUEUES; ring++)
        h = mix(h, ahead(s, s->ring_arrival[ring]));
    return h;
}

static int in_time(const void *x, const void *y)
{
    const struct event *a = x, *b = y;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

/* Sorting keeps it a heap. */
static uint64_t hash_events(struct neuron_sim *s, uint64_t h)
{
    qsort(s->heap, (size_t)s->nheap, sizeof *s->heap, in_time);
    for (int k = 0; k < s->nheap; k++) {
        const struct event *e = &s->heap[k];
        h = mix(mix(mix(h, e->time - s->now), (uint64_t)e->kind << 32 | (uint32_t)e->a), e->value);
        h = e->t ? mix(h, (uint64_t)(uintptr_t)e->t->i) : h;
    }
    return h;
}

static uint64_t hash_state(struct neuron_sim *s)
{
    uint64_t h = 1;
    for (int e = 0; e < NEURON_NENGINES; e++)
        if (s->engine[e].pc < s->p->stream[e].n)
            h = mix(hash_engine(s, &s->engine[e], h), ahead(s, s->dge_free[e]));
    for (int e = 0; e < NEURON_NENGINES; e++)
        for (int b = 0; b < 8; b++)
            h = mix(h, ahead(s, s->psum_held[e][b]));
    h = mix(mix(h, ahead(s, s->sbuf_held[0])), ahead(s, s->sbuf_held[1]));
    h = mix(mix(h, ahead(s, s->load_free)), ahead(s, s->product_free));
    h = mix(mix(h, (uint64_t)s->stationary_rows << 32 | (uint32_t)s->stationary_columns), s->loaded);
    h = mix(mix(h, (uint64_t)s->stationary_start), (uint64_t)s->stationary_type);
    return hash_events(s, hash_dma(s, h));
}

static void take(struct neuron_sim *s, struct moment *m)
{
    m->hash = hash_state(s);
    m->now = s->now;
    for (int k = 0; k < NEURON_SEMAPHORES; k++)
        m->sem[k] = s->sem[k].value;
    for (int e = 0; e < NEURON_NENGINES; e++) {
        const struct engine *from = &s->engine[e];
        struct moment_engine *to = &m->engine[e];
        to->executed = from->executed;
        memcpy(to->regs, from->regs, sizeof to->regs);
        for (int l = 0; l < NEURON_LOOPS; l++)
            to->left[l] = l < from->nloops ? from->loop[l].left : 0;
        to->clock = from->clock;
    }
    memcpy(m->ring_epoch, s->ring_epoch, sizeof m->ring_epoch);
    memcpy(m->ring_clock, s->ring_clock, sizeof m->ring_clock);
    m->n = s->n;
    m->nsources = s->nsources;
    for (int k = 0; k < s->nsources; k++)
        m->sum[k] = s->source[k]->sum;
}

/* Did everything go on from a to b by what it did from b to c? Counters need not. */
static bool evenly(const struct moment *a, const struct moment *b, const struct moment *c)
{
    bool same = b->now - a->now == c->now - b->now;
    for (int k = 0; k < NEURON_SEMAPHORES && same; k++)
        same = b->sem[k] - a->sem[k] == c->sem[k] - b->sem[k];
    for (int k = 0; k < NEURON_NENGINES && same; k++) {
        const struct moment_engine *x = &a->engine[k], *y = &b->engine[k], *z = &c->engine[k];
        same = y->executed - x->executed == z->executed - y->executed;
        for (int r = 0; r < NEURON_REGISTERS && same; r++)
            same = y->regs[r] - x->regs[r] == z->regs[r] - y->regs[r];
        for (int l = 0; l < NEURON_LOOPS && same; l++)
            same = y->left[l] - x->left[l] == z->left[l] - y->left[l];
    }
    return same;
}

/* -- How often -- */

struct period {
    struct neuron_sim *s;
    const struct moment *a, *b; /* its beginning and its end, which is now */
    uint64_t ticks, times;
    int level[NEURON_NENGINES]; /* of the loop whose turns an engine counted; -1: it stood still */
};

static uint32_t step_of(const struct period *p, int engine, uint8_t reg)
{
    return reg == NEURON_NO_REGISTER ? 0 : p->b->engine[engine].regs[reg] - p->a->engine[engine].regs[reg];
}

static uint64_t risen(const struct period *p, int semaphore)
{
    return p->b->sem[semaphore] - p->a->sem[semaphore];
}

static void at_most(struct period *p, uint64_t times)
{
    p->times = times < p->times ? times : p->times;
}

/* Turns that are left allow for so many periods, and one more. False: the engine did not count one loop's. */
static bool count_turns(struct period *p, int e)
{
    const struct moment_engine *a = &p->a->engine[e], *b = &p->b->engine[e];
    p->level[e] = -1;
    if (a->executed == b->executed || p->s->engine[e].pc >= p->s->p->stream[e].n)
        return true;
    for (int l = 0; l < NEURON_LOOPS; l++) {
        if (a->left[l] == b->left[l])
            continue;
        if (p->level[e] >= 0 || a->left[l] < b->left[l])
            return false;
        uint64_t turns = a->left[l] - b->left[l], periods = (b->left[l] - 1) / turns;
        p->level[e] = l;
        at_most(p, periods ? periods - 1 : 0);
    }
    uint64_t room = p->s->c.limit - b->executed;
    at_most(p, room / (b->executed - a->executed));
    return p->level[e] >= 0;
}

/* An engine that stood still would wait on for so long. */
static void count_waiting(struct period *p, int e)
{
    const struct engine *engine = &p->s->engine[e];
    if (engine->pc >= p->s->p->stream[e].n || p->a->engine[e].executed != p->b->engine[e].executed)
        return;
    const struct neuron_instr *i = &p->s->p->stream[e].code[engine->pc];
    uint64_t most = 0;
    for (int k = 0; k < i->nwaits; k++) {
        uint64_t value =
            i->wait[k].value + (uint64_t)(i->wait[k].reg != NEURON_NO_REGISTER ? engine->regs[i->wait[k].reg] : 0);
        uint64_t is = p->s->sem[i->wait[k].semaphore].value, by = risen(p, i->wait[k].semaphore), times;
        if (is >= value)
            continue;
        times = by ? (value - is - 1) / by : UINT64_MAX;
        times = by && times ? times - 1 : times;
        most = times > most ? times : most;
    }
    at_most(p, most);
}

static bool on_chip(const struct neuron_operand *o)
{
    return o->space == NEURON_SBUF || o->space == NEURON_PSUM;
}

static bool is_even(const struct period *p, int e, const struct neuron_instr *i)
{
    const struct neuron_operand *o = i->operand;
    if (i->op == NEURON_OP_JUMP || i->op == NEURON_OP_REG_MUL || i->op == NEURON_OP_REG_AND ||
        i->op == NEURON_OP_REG_SHR || i->op == NEURON_OP_REG_LOAD)
        return false;
    if (i->op == NEURON_OP_REG_ADD && o[1].reg != NEURON_NO_REGISTER && o[2].reg != NEURON_NO_REGISTER)
        return false;
    for (int k = 0; k < i->noperands; k++)
        if ((on_chip(&o[k]) || i->op == NEURON_OP_LOOP) && step_of(p, e, o[k].reg))
            return false;
    for (int k = 0; k < i->nwaits; k++) {
        const struct neuron_wait *w = &i->wait[k];
        if (risen(p, w->semaphore) != step_of(p, e, w->reg) &&
            (w->reg != NEURON_NO_REGISTER || p->s->sem[w->semaphore].value < w->value))
            return false;
    }
    return true;
}

/* What an engine knows of a stream, a ring's clock too. */
static bool learns(const struct period *p, const struct clock *a, const struct clock *b, int stream)
{
    uint32_t by = b->at[stream] - a->at[stream];
    uint32_t on = stream < NEURON_NENGINES
                      ? p->b->engine[stream].clock.at[stream] - p->a->engine[stream].clock.at[stream]
                      : p->b->ring_epoch[stream - NEURON_NENGINES] - p->a->ring_epoch[stream - NEURON_NENGINES];
    return by == on;
}

static bool can_repeat(struct period *p)
{
    const struct neuron_sim *s = p->s;
    p->times = UINT64_MAX;
    for (int e = 0; e < NEURON_NENGINES; e++) {
        if (!count_turns(p, e))
            return false;
        count_waiting(p, e);
    }
    if (!p->times || p->times == UINT64_MAX)
        return false;
    for (int e = 0; e < NEURON_NENGINES; e++) {
        const struct neuron_stream *t = &s->p->stream[e];
        if (p->level[e] < 0)
            continue;
        int head = s->engine[e].loop[p->level[e]].head, end = neuron_loop_end(t, head);
        for (int k = head + 1; k < end; k++)
            if (!is_even(p, e, &t->code[k]))
                return false;
        for (int k = 0; k < STREAMS && s->c.checks; k++)
            if (!learns(p, &p->a->engine[e].clock, &p->b->engine[e].clock, k))
                return false;
    }
    return true;
}

/* -- Going on -- */

static void later(struct period *p, uint64_t *time, bool moved)
{
    if (moved || *time > p->b->now)
        *time += p->times * p->ticks;
}

static void clock_on(const struct period *p, struct clock *c, const struct clock *a, const struct clock *b)
{
    for (int k = 0; k < STREAMS; k++)
        c->at[k] += (uint32_t)p->times * (b->at[k] - a->at[k]);
}

static void engines_on(struct period *p)
{
    struct neuron_sim *s = p->s;
    for (int n = 0; n < NEURON_NENGINES; n++) {
        struct engine *e = &s->engine[n];
        const struct moment_engine *a = &p->a->engine[n], *b = &p->b->engine[n];
        bool moved = p->level[n] >= 0;
        later(p, &e->free, moved);
        later(p, &e->visible, moved);
        later(p, &e->asked, moved);
        later(p, &e->wake, moved);
        for (int k = 0; k < e->nout; k++)
            later(p, &e->out[k].visible, moved);
        later(p, &s->dge_free[n], false);
        for (int k = 0; k < 8; k++)
            later(p, &s->psum_held[n][k], false);
        if (moved)
            e->loop[p->level[n]].left -= (uint32_t)p->times * (a->left[p->level[n]] - b->left[p->level[n]]);
        for (int r = 0; r < NEURON_REGISTERS; r++)
            e->regs[r] += (uint32_t)p->times * (b->regs[r] - a->regs[r]);
        e->executed += p->times * (b->executed - a->executed);
        clock_on(p, &e->clock, &a->clock, &b->clock);
    }
    for (int r = 0; r < NEURON_QUEUES; r++) {
        later(p, &s->ring_arrival[r], false);
        s->ring_epoch[r] += (uint32_t)p->times * (p->b->ring_epoch[r] - p->a->ring_epoch[r]);
        clock_on(p, &s->ring_clock[r], &p->a->ring_clock[r], &p->b->ring_clock[r]);
    }
    later(p, &s->sbuf_held[0], false);
    later(p, &s->sbuf_held[1], false);
    later(p, &s->load_free, false);
    later(p, &s->product_free, false);
}

static void counters_on(struct period *p)
{
    struct neuron_counters *n = &p->s->n;
    const struct neuron_counters *a = &p->a->n, *b = &p->b->n;
    for (int e = 0; e < NEURON_NENGINES; e++) {
        uint64_t more = p->times * (b->engine[e].instructions - a->engine[e].instructions);
        n->engine[e].instructions += more;
        n->folded += more;
        n->engine[e].busy += p->times * (b->engine[e].busy - a->engine[e].busy);
        n->engine[e].waiting += p->times * (b->engine[e].waiting - a->engine[e].waiting);
    }
    n->dma_transfers += p->times * (b->dma_transfers - a->dma_transfers);
    n->dma_rows += p->times * (b->dma_rows - a->dma_rows);
    n->dma_bytes += p->times * (b->dma_bytes - a->dma_bytes);
    n->dma_paid_bytes += p->times * (b->dma_paid_bytes - a->dma_paid_bytes);
    n->dma_busy += p->times * (b->dma_busy - a->dma_busy);
    n->hbm_read += p->times * (b->hbm_read - a->hbm_read);
    n->hbm_written += p->times * (b->hbm_written - a->hbm_written);
    n->flops += (double)p->times * (b->flops - a->flops);
}

static uint32_t epoch_of(const struct moment *m, int stream)
{
    return stream < NEURON_NENGINES ? m->engine[stream].clock.at[stream] : m->ring_epoch[stream - NEURON_NENGINES];
}

/* Whom a semaphore's signals come from: those of the last turns are those of the turns that are left out. */
static void signals_on(struct period *p)
{
    for (int k = 0; k < NEURON_SEMAPHORES; k++) {
        struct semaphore *m = &p->s->sem[k];
        m->value += p->times * risen(p, k);
        for (int e = 0; e < NEURON_NENGINES; e++)
            if (m->waited[e] > epoch_of(p->a, e))
                m->waited[e] += (uint32_t)p->times * (epoch_of(p->b, e) - epoch_of(p->a, e));
    }
    for (int k = 0; k < p->s->nsources; k++) {
        struct source *from = p->s->source[k];
        int f = from->stream;
        uint64_t by = p->times * (from->sum - (k < p->a->nsources ? p->a->sum[k] : 0));
        const struct clock *a = f < NEURON_NENGINES ? &p->a->engine[f].clock : &p->a->ring_clock[f - NEURON_NENGINES],
                           *b = f < NEURON_NENGINES ? &p->b->engine[f].clock : &p->b->ring_clock[f - NEURON_NENGINES];
        from->dropped += by / PARTS; /* of a ring: transfers */
        from->sum += by;
        for (size_t g = 0; g < from->n && by; g++) {
            from->list[g].before += by;
            clock_on(p, &from->list[g].clock, a, b);
        }
    }
}

static bool known(const struct neuron_sim *s, const struct access *a)
{
    for (int e = 0; e < NEURON_NENGINES; e++)
        if (s->engine[e].pc < s->p->stream[e].n && s->engine[e].clock.at[a->stream] < a->epoch)
            return false;
    return true;
}

/* Accesses that somebody does not know of are those of the last turns; before clocks go on. */
static void accesses_on(struct period *p, struct shadow *h)
{
    struct bucket moved = {0};
    for (int b = 0; b < h->nbuckets; b++)
        for (int k = 0; k < h->buckets[b].n; k++) {
            struct access *a = &h->buckets[b].list[k];
            if (known(p->s, a))
                continue;
            const struct neuron_operand *o = &a->i->operand[a->operand];
            int64_t by = (int64_t)p->times * (int32_t)step_of(p, neuron_engine_of(p->s, a->i), o->reg);
            a->epoch += (uint32_t)p->times * (epoch_of(p->b, a->stream) - epoch_of(p->a, a->stream));
            if (!by)
                continue;
            struct access old = *a;
            *a = h->buckets[b].list[--h->buckets[b].n];
            k--;
            if (old.lo / h->granule != b && b) /* it stands in several */
                continue;
            old.lo += by;
            old.hi += by;
            old.offset += by;
            if (!neuron_shadow_keep(p->s, &moved, &old))
                p->s->out_of_memory = true;
        }
    for (int k = 0; k < moved.n; k++)
        for (int64_t b = moved.list[k].lo / h->granule; b <= (moved.list[k].hi - 1) / h->granule && b < h->nbuckets;
             b++)
            if (!neuron_shadow_keep(p->s, &h->buckets[b], &moved.list[k]))
                p->s->out_of_memory = true;
    free(moved.list);
}

static void repeat(struct period *p)
{
    struct neuron_sim *s = p->s;
    p->ticks = p->b->now - p->a->now;
    if (s->c.checks) {
        accesses_on(p, &s->sbuf_shadow);
        accesses_on(p, &s->psum_shadow);
        for (int k = 0; k < s->ntensors; k++)
            accesses_on(p, &s->hbm_shadow[k]);
    }
    for (int k = 0; k < s->nheap; k++)
        s->heap[k].time += p->times * p->ticks;
    signals_on(p);
    engines_on(p);
    counters_on(p);
    s->now += p->times * p->ticks;
}

/* -- Moments -- */

static struct moment *moment(struct fold *f, uint64_t back)
{
    return &f->at[(f->n - back) % MOMENTS];
}

static bool find_period(struct neuron_sim *s, struct fold *f)
{
    const struct moment *c = moment(f, 1);
    uint64_t most = f->n < MOMENTS ? f->n : MOMENTS;
    int tries = 0;
    bool alike = false;
    for (uint64_t j = 2; j <= most && tries < TRIES; j++) {
        const struct moment *b = moment(f, j);
        if (b->hash != c->hash || b->now == c->now)
            continue;
        tries++;
        for (uint64_t k = j + 1; k <= most && c->now >= b->now; k++) {
            const struct moment *a = moment(f, k);
            if (a->hash != c->hash || b->now - a->now != c->now - b->now || !evenly(a, b, c))
                continue;
            struct period p = {.s = s, .a = b, .b = c};
            alike = true;
            if (can_repeat(&p)) {
                repeat(&p);
                return true;
            }
            break;
        }
    }
    f->refused += alike;
    return false;
}

void neuron_fold(struct neuron_sim *s)
{
    if (s->c.values || s->c.seed || s->c.unfolded || s->trace || s->stopped || s->nsources > MOST_SOURCES)
        return;
    if (!s->fold && !(s->fold = calloc(1, sizeof *s->fold)))
        return; /* it takes longer, then */
    struct fold *f = s->fold;
    if (f->skip && f->skip--)
        return;
    f->n++;
    take(s, moment(f, 1));
    int refused = f->refused;
    if (find_period(s, f)) {
        f->refused = 0;
        f->n++; /* the moment that it is now */
        take(s, moment(f, 1));
    } else if (f->refused > refused) {
        f->skip = 1 << (f->refused < 4 ? 0 : f->refused - 4 < MOST_SKIPPED ? f->refused - 4 : MOST_SKIPPED);
    }
}

void neuron_fold_clear(struct neuron_sim *s)
{
    free(s->fold);
    s->fold = NULL;
}
