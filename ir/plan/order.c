/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order.c - what happens before what in an entry point, by the rules of runtime/abi.h: vector clocks (Fidge; Mattern,
 * 1988-89) with a component for each queue. A step's clock says how many steps of each queue have ended when it begins;
 * a step has ended before another begins when the other's clock counts it.
 *
 * Whoever walks a plan tells the steps in the order in which they stand, and where regions begin and end. Branches of
 * an if don't run both: behind it is known what is known behind either. A loop may run no iteration, and each begins
 * when that before it has ended, so one walk over its body stands for all.
 */
#include <string.h>

#include "ir/text/kernel_words_int.h"

struct frame {
    const struct kn_step *step;
    int region, nevents;
    int *host, *count, **last; /* when the step began */
    int *joined;               /* known when all steps of the regions so far have ended */
    int *inside;               /* by queue: the last step of the region that runs */
};

struct touched {
    const struct kn_moment *moment;
    struct touched *next; /* of another queue */
};

struct kn_order {
    struct ir_ctx *ctx;
    struct ir_arena *scratch;
    const struct kn_program *p;
    int nqueues, nevent;
    int *count;          /* by queue: steps so far */
    int *host;           /* what has ended where the host stands */
    int **last;          /* by queue: what has ended when its last step has; NULL: there was none */
    const int **event;   /* by number: the same of the step that has it; NULL: none before */
    struct touched **of; /* by buffer: the last step of each queue that touches it */
    VEC(int) events;     /* those of the regions around, in order */
    VEC(struct frame) frames;
    VEC(const struct kn_moment *) moments;
    int **least; /* by queue: the least that moments from each on know of it; NULL: not asked yet */
};

static int *vector(struct kn_order *o)
{
    return ir_arena_alloc(o->scratch, ((size_t)o->nqueues + 1) * sizeof(int));
}

static int *copy_of(struct kn_order *o, const int *v)
{
    int *to = vector(o);
    memcpy(to, v, (size_t)o->nqueues * sizeof *to);
    return to;
}

static void join(const struct kn_order *o, int *to, const int *from)
{
    for (int q = 0; from && q < o->nqueues; q++)
        to[q] = from[q] > to[q] ? from[q] : to[q];
}

static int largest_event(const struct kn_steps *steps)
{
    int n = 0;
    for (int i = 0; i < steps->n; i++) {
        n = steps->at[i].event > n ? steps->at[i].event : n;
        for (int r = 0; r < steps->at[i].nregions; r++) {
            int inner = largest_event(&steps->at[i].regions[r].steps);
            n = inner > n ? inner : n;
        }
    }
    return n;
}

struct kn_order *kn_order_new(struct ir_ctx *ctx, struct ir_arena *scratch, const struct kn_program *p,
                              const struct kn_entry *e, int nqueues, int nevents)
{
    struct kn_order *o = ir_arena_alloc(scratch, sizeof *o);
    int n = largest_event(&e->steps);
    *o = (struct kn_order){.ctx = ctx, .scratch = scratch, .p = p, .nqueues = nqueues ? nqueues : p->nqueues};
    o->nqueues = o->nqueues ? o->nqueues : 1;
    o->nevent = nevents > n ? nevents : n;
    o->count = vector(o);
    o->host = vector(o);
    o->last = ir_arena_alloc(scratch, ((size_t)o->nqueues + 1) * sizeof *o->last);
    o->least = ir_arena_alloc(scratch, ((size_t)o->nqueues + 1) * sizeof *o->least);
    o->event = ir_arena_alloc(scratch, ((size_t)o->nevent + 1) * sizeof *o->event);
    o->of = ir_arena_alloc(scratch, ((size_t)p->nbuffers + 1) * sizeof *o->of);
    return o;
}

int *kn_order_known(struct kn_order *o, int queue)
{
    int *known = copy_of(o, o->host);
    join(o, known, o->last[queue]);
    known[queue] = o->count[queue];
    return known;
}

static struct kn_moment *moment(struct kn_order *o, int queue, int *known, int position)
{
    struct kn_moment *m = ir_arena_alloc(o->scratch, sizeof *m);
    *m = (struct kn_moment){queue, ++o->count[queue], position, o->moments.n, known};
    VEC_PUSH(o->ctx, o->moments, m);
    return m;
}

/* what is known when it has ended */
static int *kn_order_ended(struct kn_order *o, const struct kn_moment *m)
{
    int *ended = copy_of(o, m->known);
    ended[m->queue] = m->index;
    return ended;
}

/* The step has ended: with its queue, for the host where it is the host's, for those that name its event, and for its
 * region. */
static void ends(struct kn_order *o, const struct kn_step *s, const struct kn_moment *m)
{
    int *ended = kn_order_ended(o, m);
    o->last[m->queue] = ended;
    if (m->queue == 0)
        o->host = ended;
    for (int i = 0; i < o->frames.n; i++)
        join(o, o->frames.at[i].inside, ended);
    if (s && s->event > 0 && s->event <= o->nevent) {
        o->event[s->event] = ended;
        VEC_PUSH(o->ctx, o->events, s->event);
    }
}

/* Events of a region are known within it only; one of a step outside stays when the region ends. */
void kn_order_name(struct kn_order *o, int event, const struct kn_moment *m)
{
    o->event[event] = kn_order_ended(o, m);
}

/* Is all of a known to b? */
static bool implied(const struct kn_order *o, const int *a, const int *b)
{
    for (int q = 0; q < o->nqueues; q++)
        if (a[q] > b[q])
            return false;
    return true;
}

void kn_order_reduce(struct kn_order *o, struct kn_step *s)
{
    int n = 0;
    for (int i = 0; i < s->nwaits; i++) {
        int *known = kn_order_known(o, s->queue);
        for (int k = 0; k < s->nwaits; k++) /* those that stay, and those that are yet to be asked */
            if (k < n || k > i)
                join(o, known, o->event[s->waits[k]]);
        if (!o->event[s->waits[i]] || !implied(o, o->event[s->waits[i]], known))
            s->waits[n++] = s->waits[i];
    }
    s->nwaits = n;
}

const struct kn_moment *kn_order_step(struct kn_order *o, const struct kn_step *s, int position)
{
    if (s->queue < 0 || s->queue >= o->nqueues)
        return NULL;
    int *known = kn_order_known(o, s->queue);
    for (int i = 0; i < s->nwaits; i++) {
        if (s->waits[i] < 1 || s->waits[i] > o->nevent || !o->event[s->waits[i]])
            return NULL;
        join(o, known, o->event[s->waits[i]]);
    }
    const struct kn_moment *m = moment(o, s->queue, known, position);
    if (!s->nregions) {
        ends(o, s, m);
    } else { /* its regions begin with what it knows; it ends with the last of them */
        if (s->queue == 0)
            o->host = kn_order_ended(o, m);
        o->last[s->queue] = kn_order_ended(o, m);
    }
    return m;
}

void kn_order_enter(struct kn_order *o, const struct kn_step *s)
{
    struct frame *f = o->frames.n ? &o->frames.at[o->frames.n - 1] : NULL;
    if (!f || f->step != s) {
        struct frame new = {.step = s, .nevents = o->events.n, .host = o->host, .count = copy_of(o, o->count)};
        new.last = ir_arena_alloc(o->scratch, ((size_t)o->nqueues + 1) * sizeof *new.last);
        memcpy(new.last, o->last, (size_t)o->nqueues * sizeof *new.last);
        new.inside = vector(o);
        VEC_PUSH(o->ctx, o->frames, new);
        return;
    }
    /* Another branch: what ran in that before it did not, and so is nothing to wait for. */
    int *host = copy_of(o, f->host);
    for (int q = 0; q < o->nqueues; q++)
        host[q] = host[q] >= f->count[q] ? o->count[q] : host[q];
    o->host = host;
    memcpy(o->last, f->last, (size_t)o->nqueues * sizeof *o->last);
    f->inside = vector(o);
}

/* Behind regions of which one, or none, has run. */
static int *either(struct kn_order *o, const struct frame *f, const int *a, const int *b)
{
    int *known = vector(o);
    for (int q = 0; q < o->nqueues; q++) {
        int least = a[q] < b[q] ? a[q] : b[q];
        known[q] = least >= f->count[q] ? o->count[q] : least;
    }
    return known;
}

const struct kn_moment *kn_order_leave(struct kn_order *o, const struct kn_step *s, int position)
{
    struct frame *f = &o->frames.at[o->frames.n - 1];
    bool bundle = kn_is_bundle(s);
    int queue = bundle ? s->queue : 0;
    int *known = kn_order_known(o, queue);
    if (!bundle)
        join(o, known, f->inside);
    for (; o->events.n > f->nevents; o->events.n--)
        o->event[o->events.at[o->events.n - 1]] = NULL;
    const struct kn_moment *m = moment(o, queue, known, position);
    int *ended = kn_order_ended(o, m);
    f->joined = f->joined                  ? either(o, f, f->joined, ended)
                : s->kind == TCC_STEP_LOOP ? either(o, f, f->host, ended)
                                           : ended;
    if (++f->region < s->nregions)
        return m;
    struct frame done = *f;
    o->frames.n--;
    if (!bundle) {
        memcpy(o->last, done.last, (size_t)o->nqueues * sizeof *o->last);
        o->host = done.joined;
        o->last[0] = done.joined;
    }
    struct kn_moment end = {queue, o->count[queue], position, 0, bundle ? known : done.joined};
    ends(o, s, &end);
    return m;
}

bool kn_before(const struct kn_moment *a, const struct kn_moment *b)
{
    return b->known[a->queue] >= a->index;
}

/* == How long buffers live == */

void kn_order_touch(struct kn_order *o, int buffer, const struct kn_moment *m)
{
    struct touched *t = o->of[buffer];
    while (t && t->moment->queue != m->queue)
        t = t->next;
    if (!t) {
        t = ir_arena_alloc(o->scratch, sizeof *t);
        t->next = o->of[buffer];
        o->of[buffer] = t;
    }
    t->moment = m;
}

/* The position behind which all steps happen after that moment. */
static int until(struct kn_order *o, const struct kn_moment *m)
{
    int n = o->moments.n, lo = m->number + 1, hi = n, q = m->queue;
    if (q == 0)
        return m->position;
    if (!o->least[q]) {
        o->least[q] = ir_arena_alloc(o->scratch, ((size_t)n + 1) * sizeof(int));
        for (int i = n - 1; i >= 0; i--) {
            int known = o->moments.at[i]->known[q];
            o->least[q][i] = i + 1 < n && o->least[q][i + 1] < known ? o->least[q][i + 1] : known;
        }
    }
    while (lo < hi) { /* the first from which on all know it */
        int middle = lo + (hi - lo) / 2;
        if (o->least[q][middle] >= m->index)
            hi = middle;
        else
            lo = middle + 1;
    }
    return o->moments.at[lo - 1]->position;
}

int kn_order_until(struct kn_order *o, int buffer)
{
    int last = -1;
    for (const struct touched *t = o->of[buffer]; t; t = t->next) {
        int p = until(o, t->moment);
        last = p > last ? p : last;
    }
    return last;
}
