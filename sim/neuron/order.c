/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens before what, independent of timing. Streams are the five engines and the 16 DMA rings; a vector clock
 * says of each stream which of its instructions or transfers is known to have ended. A wait for a semaphore's value
 * learns only what every order of the signals would tell: of each stream that signals it, the shortest beginning
 * without which the value could not be reached if all others had given all they have begun. Where a later signal would
 * have made that beginning shorter, it must itself come after the wait; else the wait was a matter of luck, which is
 * reported.
 *
 * A ring counts 1 on each of 16 engines for a transfer, in no order between the engines: with k transfers begun, the
 * m-th has ended for certain when m - 1 + 15 k would not do.
 *
 * Accesses are boxes (partitions x bytes) in lists by address. A new one is compared with those it meets; those that a
 * write behind them covers need not be kept, since who conflicts with them and not with the write has a conflict with
 * neither (FastTrack, Flanagan and Freund 2009, for intervals).
 */
#include <stdlib.h>
#include <string.h>

#include "sim/grow.h"
#include "sim/neuron/neuron_int.h"

enum { KEPT_SIGNALS = 65536, KEPT_ACCESSES = 512 };

static void join(struct clock *to, const struct clock *from)
{
    for (int k = 0; k < STREAMS; k++)
        to->at[k] = to->at[k] > from->at[k] ? to->at[k] : from->at[k];
}

/* -- Semaphores -- */

static bool is_ring(int stream)
{
    return stream >= NEURON_NENGINES;
}

/* A stream has begun what will add `value` to a semaphore, in the whole, and will then tell `tells`. */
void neuron_signal_given(struct neuron_sim *s, struct run *r, int stream, int semaphore, uint64_t value,
                         const struct clock *issuer, const struct clock *tells)
{
    struct semaphore *m = &s->sem[semaphore];
    struct source *f = m->from[stream];
    if (!s->c.checks)
        return;
    for (int w = 0; w < NEURON_NENGINES; w++) {
        uint32_t others = m->relied[w] & (is_ring(stream) ? UINT32_MAX : ~(UINT32_C(1) << stream));
        if (others && m->waited[w] > issuer->at[w] && w != r->engine)
            neuron_fail(r, NEURON_CHECK_SEMAPHORE,
                        "signals s%d, for which the %s engine waits to know of others: this signal could end that wait "
                        "too early; it must "
                        "come after the wait, or use another semaphore",
                        semaphore, neuron_engine_name((enum neuron_engine)w));
    }
    if (!f) {
        if (!(f = m->from[stream] = calloc(1, sizeof *f))) {
            s->out_of_memory = true;
            return;
        }
        f->stream = stream;
        if (s->nsources < MOST_SOURCES)
            s->source[s->nsources] = f;
        s->nsources++;
    }
    if (f->n == KEPT_SIGNALS) {
        memmove(f->list, f->list + KEPT_SIGNALS / 2, KEPT_SIGNALS / 2 * sizeof *f->list);
        f->n = KEPT_SIGNALS / 2;
        f->dropped += KEPT_SIGNALS / 2;
    }
    if (!GROWN(f->list, f->n, f->room, 8)) {
        s->out_of_memory = true;
        return;
    }
    f->list[f->n++] = (struct given){f->sum, *tells};
    f->sum += value;
}

/* What a wait for `value` that has been fulfilled tells of one stream; NULL: nothing. */
static const struct given *certain(const struct source *f, bool ring, uint64_t value, uint64_t others)
{
    size_t lo = 0, hi = f->n; /* those with before + others < value are certain, for an engine */
    if (!f->n)
        return NULL;
    if (ring) {
        uint64_t k = f->sum / PARTS, short_of = (PARTS - 1) * k + others; /* m <= value - short_of */
        uint64_t m = value > short_of ? value - short_of : 0;
        m = m < k ? m : k;
        return m > f->dropped ? &f->list[m - f->dropped - 1] : NULL;
    }
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (f->list[mid].before + others < value)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo ? &f->list[lo - 1] : NULL;
}

void neuron_wait_done(struct neuron_sim *s, struct run *r, const struct neuron_wait *w, uint64_t value)
{
    struct semaphore *m = &s->sem[w->semaphore];
    struct clock *clock = &s->engine[r->engine].clock;
    uint64_t all = 0;
    uint32_t relied = 0;
    if (!s->c.checks)
        return;
    for (int k = 0; k < STREAMS; k++)
        all += m->from[k] ? m->from[k]->sum : 0;
    for (int k = 0; k < STREAMS; k++) {
        const struct given *g = m->from[k] ? certain(m->from[k], is_ring(k), value, all - m->from[k]->sum) : NULL;
        if (!g || g->clock.at[k] <= clock->at[k])
            continue;
        join(clock, &g->clock);
        relied |= UINT32_C(1) << k;
    }
    if (relied) {
        m->relied[r->engine] |= relied;
        m->waited[r->engine] = clock->at[r->engine] + 1;
    }
}

/* -- Accesses -- */

bool neuron_shadow_new(struct shadow *h, int64_t bytes)
{
    int64_t least = (bytes + 127) / 128;
    h->granule = least < 2048 ? 2048 : least;
    h->nbuckets = (int)((bytes + h->granule - 1) / h->granule);
    h->buckets = calloc((size_t)h->nbuckets, sizeof *h->buckets);
    return h->buckets != NULL;
}

void neuron_shadow_clear(struct shadow *h)
{
    for (int k = 0; k < h->nbuckets; k++)
        free(h->buckets[k].list);
    free(h->buckets);
    *h = (struct shadow){0};
}

static bool ordered(const struct access *a, const struct clock *knows)
{
    return knows->at[a->stream] >= a->epoch;
}

static const struct neuron_operand *operand_of(const struct access *a)
{
    return &a->i->operand[a->operand];
}

/* Do two patterns lie in different columns of the same pitch? Quick, and says no where it does not know. */
static bool other_columns(const struct access *a, const struct access *b)
{
    const struct access *both[2] = {a, b};
    int64_t lo[2], hi[2];
    for (int d = 0; d < operand_of(a)->ndims; d++) {
        int64_t pitch = llabs(operand_of(a)->stride[d]) * isa_type(operand_of(a)->type)->bytes;
        bool fits = pitch > 0 && operand_of(a)->size[d] > 1;
        for (int side = 0; side < 2 && fits; side++) {
            const struct neuron_operand *o = operand_of(both[side]);
            int64_t bytes = isa_type(o->type)->bytes, first = both[side]->offset, last = first + bytes;
            for (int k = 0; k < o->ndims; k++) {
                int64_t step = o->stride[k] * bytes, span = ((int64_t)o->size[k] - 1) * step;
                if (step % pitch == 0)
                    continue;
                *(span < 0 ? &first : &last) += span;
            }
            fits = last - first <= pitch && first >= 0 && first / pitch == (last - 1) / pitch;
            lo[side] = first % pitch;
            hi[side] = lo[side] + last - first;
        }
        if (fits && (hi[0] <= lo[1] || hi[1] <= lo[0]))
            return true;
    }
    return false;
}

/* Whether they have a byte in common; their boxes have. */
static bool meet(const struct access *a, const struct access *b)
{
    int64_t lo = a->lo > b->lo ? a->lo : b->lo, hi = a->hi < b->hi ? a->hi : b->hi;
    const struct access *both[2] = {a, b};
    bool dense[2], found = false;
    for (int k = 0; k < 2; k++)
        dense[k] = neuron_free_size(operand_of(both[k])) * isa_type(operand_of(both[k])->type)->bytes ==
                   both[k]->hi - both[k]->lo;
    if (dense[0] && dense[1])
        return true;
    if (other_columns(a, b) || other_columns(b, a))
        return false;
    uint8_t *map = calloc((size_t)(hi - lo), 1);
    for (int side = 0; map && side < 2; side++) {
        const struct neuron_operand *o = operand_of(both[side]);
        int64_t n = neuron_free_size(o), run = neuron_run_length(o), bytes = isa_type(o->type)->bytes;
        for (int64_t e = 0; e < n && !found; e += run) {
            int64_t from = neuron_address(o, both[side]->offset, e), to = from + run * bytes;
            from = from > lo ? from : lo;
            to = to < hi ? to : hi;
            if (from >= to)
                continue;
            if (side)
                found = memchr(map + (from - lo), 1, (size_t)(to - from)) != NULL;
            else
                memset(map + (from - lo), 1, (size_t)(to - from));
        }
    }
    free(map);
    return found || !map;
}

/* Forgets accesses that every engine which still runs knows of; DMA rings begin where an engine triggers them. */
static void forget(struct neuron_sim *s, struct bucket *b)
{
    struct clock known;
    memset(&known, 255, sizeof known);
    for (int e = 0; e < NEURON_NENGINES; e++)
        for (int k = 0; k < STREAMS && s->engine[e].pc < s->p->stream[e].n; k++)
            known.at[k] = known.at[k] < s->engine[e].clock.at[k] ? known.at[k] : s->engine[e].clock.at[k];
    int n = 0;
    for (int k = 0; k < b->n; k++)
        if (!ordered(&b->list[k], &known))
            b->list[n++] = b->list[k];
    b->n = n;
}

/* An instruction may write what it reads; a transfer, whose parts run side by side, where each element goes to its own
 * place. */
static bool itself(const struct access *a, const struct access *old)
{
    const struct neuron_operand *x = operand_of(a), *y = operand_of(old);
    if (a->stream != old->stream || a->epoch != old->epoch)
        return false;
    return !is_ring(a->stream) ||
           (a->offset == old->offset && x->ndims == y->ndims && x->type == y->type && x->start == y->start &&
            memcmp(x->size, y->size, sizeof x->size) == 0 && memcmp(x->stride, y->stride, sizeof x->stride) == 0);
}

static void conflict(struct run *r, const struct access *a, const struct access *old)
{
    char line[64], text[200];
    const struct neuron_operand *o = operand_of(old);
    neuron_instr_text(r->s->p, old->i, text, sizeof text);
    neuron_fail(r, NEURON_CHECK_RACE,
                "operand %d %s what %s (%.160s) %s, in %s bytes %lld to %lld; no semaphore orders them", a->operand + 1,
                a->write ? "writes" : "reads", neuron_line(r->s, old->i, line), text, old->write ? "writes" : "reads",
                o->space == NEURON_SBUF   ? "SBUF"
                : o->space == NEURON_PSUM ? "PSUM"
                                          : r->s->p->tensors[o->tensor].name,
                (long long)(a->lo > old->lo ? a->lo : old->lo), (long long)(a->hi < old->hi ? a->hi : old->hi) - 1);
}

bool neuron_shadow_keep(struct neuron_sim *s, struct bucket *b, const struct access *a)
{
    if (b->n >= KEPT_ACCESSES && b->n == b->room)
        forget(s, b);
    if (!GROWN(b->list, b->n, b->room, 4))
        return false;
    b->list[b->n++] = *a;
    return true;
}

/* Lists a new access of `operand` by a stream that knows `knows`, comparing it with the others. */
void neuron_access(struct run *r, int stream, uint32_t epoch, const struct clock *knows, int operand, bool write)
{
    struct neuron_sim *s = r->s;
    const struct neuron_operand *o = &r->i->operand[operand];
    struct shadow *h = o->space == NEURON_SBUF   ? &s->sbuf_shadow
                       : o->space == NEURON_PSUM ? &s->psum_shadow
                                                 : &s->hbm_shadow[o->tensor];
    struct access a = {.i = r->i,
                       .offset = r->at[operand].offset,
                       .epoch = epoch,
                       .stream = (uint8_t)stream,
                       .operand = (uint8_t)operand,
                       .write = write};
    neuron_extent(o, a.offset, &a.lo, &a.hi);
    a.first = o->space == NEURON_HBM ? 0 : o->start;
    a.last = o->space == NEURON_HBM ? 0 : (uint8_t)(o->start + o->count - 1);
    bool dense = neuron_free_size(o) * isa_type(o->type)->bytes == a.hi - a.lo;
    for (int64_t k = a.lo / h->granule; k <= (a.hi - 1) / h->granule; k++) {
        struct bucket *b = &h->buckets[k];
        int64_t lo = k * h->granule, hi = lo + h->granule;
        for (int at = 0; at < b->n; at++) {
            struct access *old = &b->list[at];
            if (old->last < a.first || old->first > a.last || old->hi <= a.lo || old->lo >= a.hi)
                continue;
            bool known = ordered(old, knows);
            int64_t from = old->lo > lo ? old->lo : lo, to = old->hi < hi ? old->hi : hi;
            if (known && dense && (a.write || !old->write) && a.lo <= from && a.hi >= to && a.first <= old->first &&
                a.last >= old->last)
                b->list[at--] = b->list[--b->n];
            else if (!known && (a.write || old->write) && !itself(&a, old) && meet(&a, old))
                conflict(r, &a, old);
        }
        if (!neuron_shadow_keep(s, b, &a))
            s->out_of_memory = true;
    }
}

void neuron_order_clear(struct neuron_sim *s)
{
    for (int k = 0; k < NEURON_SEMAPHORES; k++) {
        for (int f = 0; f < STREAMS; f++)
            if (s->sem[k].from[f]) {
                free(s->sem[k].from[f]->list);
                free(s->sem[k].from[f]);
            }
        s->sem[k] = (struct semaphore){0};
    }
    s->nsources = 0;
}
