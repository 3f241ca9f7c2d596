/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.c - when buffers live, and where in the arena.
 *
 * Positions number the steps of an entry point in the order in which they stand, regions included. A buffer lives from
 * its first step until all that stands behind happens after its last one (plan/order.c); what a region reads from
 * outside lives as long as the whole region, but for a program's or batch's. Buffers of constant size are placed
 * largest first at the lowest offset that no buffer living at the same time covers ("greedy by size", Pisarchyk and
 * Lee, 2020, arXiv 2001.03288), or in the order of their lifetimes where that takes less. Where an entry point has
 * buffers of symbolic size, the runtime does the same for all of its buffers when the symbols are bound
 * (runtime/place.c), so that the plan is exact at every size.
 */
#include "passes/lower_int.h"

#include <stdlib.h>

#define ALIGN 64

struct live {
    int first, last;
    struct touch *home;
};

/* A region and the positions that it spans; parents of touches. */
struct touch {
    struct touch *parent;
    int first, last;
};

struct memory {
    struct ir_ctx *ctx;
    struct kn_program *p;
    struct live *live;   /* per buffer; first < 0: untouched */
    struct touch **home; /* innermost region that holds all its steps */
    int position;
    struct kn_order *order;
    const struct kn_moment *now;
};

static int depth(const struct touch *t)
{
    int d = 0;
    for (; t; t = t->parent)
        d++;
    return d;
}

static void touch(struct memory *m, int buffer, struct touch *region)
{
    if (buffer < 0)
        return;
    buffer = kn_storage(m->p->buffers, buffer);
    struct live *l = &m->live[buffer];
    kn_order_touch(m->order, buffer, m->now);
    if (l->first < 0) {
        l->first = l->last = m->position;
        m->home[buffer] = region;
        return;
    }
    struct touch *a = m->home[buffer], *b = region;
    int da = depth(a), db = depth(b);
    for (; da > db; da--)
        a = a->parent;
    for (; db > da; db--)
        b = b->parent;
    while (a != b) {
        a = a->parent;
        b = b->parent;
    }
    m->home[buffer] = a;
    if (m->position > l->last)
        l->last = m->position;
    if (m->position < l->first)
        l->first = m->position;
}

/* Regions are walked twice: the second time their spans are known, so that touches from outside can be extended. False:
 * the steps' order is broken. */
static bool walk(struct memory *m, struct kn_steps *steps, struct touch *region)
{
    for (int i = 0; i < steps->n; i++) {
        struct kn_step *s = &steps->at[i];
        m->position++;
        if (!(m->now = kn_order_step(m->order, s, m->position)))
            return false;
        for (int a = 0; a < s->nargs; a++)
            touch(m, s->args[a], region);
        for (int r = 0; r < s->nregions; r++) {
            struct kn_region *nested = &s->regions[r];
            struct touch *inside = IR_NEW(m->ctx, struct touch);
            inside->parent = region;
            inside->first = ++m->position;
            for (int j = 0; j < nested->nparams; j++)
                touch(m, nested->params[j], region);
            kn_order_enter(m->order, s);
            if (!walk(m, &nested->steps, inside))
                return false;
            m->now = kn_order_leave(m->order, s, ++m->position);
            for (int j = 0; j < nested->nresults; j++) {
                touch(m, nested->results[j], inside);
            }
            m->position++;
            for (int j = 0; j < nested->nparams; j++)
                touch(m, nested->params[j], region);
            for (int j = 0; nested->exits && j < nested->nresults - (s->kind == TCC_STEP_LOOP); j++)
                touch(m, nested->exits[j], region);
            inside->last = m->position;
        }
        m->position++;
    }
    return true;
}

/* What lives in one of several regions that may run at the same time lives as long as all of them. */
static void extend_over(struct memory *m, int first, int last)
{
    for (int b = 0; b < m->p->nbuffers; b++) {
        struct live *l = &m->live[b];
        if (l->first < 0 || l->first > last || l->last < first)
            continue;
        l->first = l->first < first ? l->first : first;
        l->last = l->last > last ? l->last : last;
    }
}

/* A buffer touched inside regions below its home lives as long as those regions; but for a program's or a
 * batch's, whose steps run once and in their order. */
static void extend_live_ranges(struct memory *m, struct kn_steps *steps, struct touch *region, int *position)
{
    for (int i = 0; i < steps->n; i++) {
        struct kn_step *s = &steps->at[i];
        int begin = ++*position;
        for (int r = 0; r < s->nregions; r++) {
            int first = ++*position;
            struct touch inside = {region, first, 0};
            extend_live_ranges(m, &s->regions[r].steps, &inside, position);
            *position += 2;
            for (int b = 0; b < m->p->nbuffers && !kn_is_bundle(s); b++) {
                struct live *l = &m->live[b];
                if (l->first < 0)
                    continue;
                bool inner = m->home[b] && m->home[b]->first >= first && m->home[b]->last <= *position;
                if (inner)
                    continue;
                if (l->last >= first && l->last < *position)
                    l->last = *position;
                if (l->first > first && l->first <= *position)
                    l->first = first;
            }
        }
        (*position)++;
        if (s->kind == TCC_STEP_PARALLEL)
            extend_over(m, begin, *position);
    }
}

static bool interfere(const struct live *a, const struct live *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static int64_t aligned(int64_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

struct placed {
    int buffer, first, life;
    int64_t bytes, offset;
};

static int larger_first(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->buffer - y->buffer;
}

static int longer_first(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    return x->life != y->life ? y->life - x->life : larger_first(a, b);
}

static int earlier_first(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    return x->first != y->first ? x->first - y->first : larger_first(a, b);
}

static int by_offset(const void *a, const void *b)
{
    const struct placed *x = *(const struct placed *const *)a, *y = *(const struct placed *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Buffers by the stretches of positions in which they live, so that those that live with another are found without
 * looking at all. */
enum { STRETCH = 64, LONG = 16 };
struct numbers {
    int *at, n, cap;
};
struct stretches {
    struct numbers *at;  /* by stretch: buffers */
    struct numbers many; /* those of more than LONG stretches, which are in no other list */
    int *seen, n;        /* by buffer: the last search that found it; stretches */
};

static void stretches_add(struct memory *m, struct stretches *s, const struct placed *p, int number)
{
    int first = p->first / STRETCH, last = (p->first + p->life) / STRETCH;
    if (last - first > LONG) {
        VEC_PUSH(m->ctx, s->many, number);
        return;
    }
    for (int i = first; i <= last; i++)
        VEC_PUSH(m->ctx, s->at[i], number);
}

/* Those of the n buffers of a list that live together with buffer i; returns how many there are in `near` then. */
static int live_with(struct memory *m, struct stretches *s, const struct placed *all, int i, int n, const int *list,
                     const struct placed **near, int beside)
{
    for (int j = 0; j < n; j++)
        if (s->seen[list[j]] != i && interfere(&m->live[all[list[j]].buffer], &m->live[all[i].buffer])) {
            s->seen[list[j]] = i;
            near[beside++] = &all[list[j]];
        }
    return beside;
}

/* Offsets of all, in the order in which they stand; returns the bytes that they take together. */
static int64_t place_in_order(struct memory *m, struct placed *all, int n, const struct placed **near,
                              struct stretches *s)
{
    int64_t top = 0;
    s->many.n = 0;
    for (int i = 0; i < s->n; i++)
        s->at[i].n = 0;
    for (int i = 0; i < n; i++)
        s->seen[i] = -1;
    for (int i = 0; i < n; i++) {
        int last = (all[i].first + all[i].life) / STRETCH;
        int beside = live_with(m, s, all, i, s->many.n, s->many.at, near, 0);
        for (int j = all[i].first / STRETCH; j <= last; j++)
            beside = live_with(m, s, all, i, s->at[j].n, s->at[j].at, near, beside);
        if (beside)
            qsort(near, (size_t)beside, sizeof *near, by_offset);
        int64_t at = 0;
        for (int j = 0; j < beside && near[j]->offset < at + all[i].bytes; j++)
            if (near[j]->offset + near[j]->bytes > at)
                at = near[j]->offset + near[j]->bytes;
        all[i].offset = at;
        if (at + all[i].bytes > top)
            top = at + all[i].bytes;
        stretches_add(m, s, &all[i], i);
    }
    return top;
}

static int64_t place_constant_sizes(struct memory *m, int memory)
{
    static int (*const orders[])(const void *, const void *) = {larger_first, longer_first, earlier_first};
    VEC(struct placed) all = {0};
    int64_t bytes, top = 0;
    for (int b = 0; b < m->p->nbuffers; b++)
        if (m->p->buffers[b].space == TCC_SPACE_ARENA && m->p->buffers[b].memory == memory && m->live[b].first >= 0 &&
            ir_is_const(m->p->buffers[b].bytes, &bytes))
            VEC_PUSH(m->ctx, all,
                     (struct placed){b, m->live[b].first, m->live[b].last - m->live[b].first, aligned(bytes), 0});
    const struct placed **near = IR_NEWN(m->ctx, all.n + 1, const struct placed *);
    struct stretches s = {.n = m->position / STRETCH + 1};
    s.at = IR_NEWN(m->ctx, s.n, struct numbers);
    s.seen = IR_NEWN(m->ctx, all.n + 1, int);
    for (int o = 0; all.n && o < 3; o++) {
        qsort(all.at, (size_t)all.n, sizeof *all.at, orders[o]);
        int64_t takes = place_in_order(m, all.at, all.n, near, &s);
        if (o && takes >= top)
            continue;
        top = takes;
        for (int i = 0; i < all.n; i++)
            m->p->buffers[all.at[i].buffer].offset = ir_const(m->ctx, all.at[i].offset);
    }
    return top;
}

/* Do all buffers of the arena have constant sizes? */
static bool constant_sizes(const struct memory *m)
{
    for (int b = 0; b < m->p->nbuffers; b++)
        if (m->p->buffers[b].space == TCC_SPACE_ARENA && m->live[b].first >= 0 &&
            !ir_is_const(m->p->buffers[b].bytes, NULL))
            return false;
    return true;
}

/* Largest sum of bytes that live at one position: no plan can do better. */
static ir_expr largest_live_set(struct memory *m)
{
    int64_t best = 0, sum = 0, bytes, *change = IR_NEWN(m->ctx, m->position + 2, int64_t);
    for (int b = 0; b < m->p->nbuffers; b++) {
        if (m->p->buffers[b].space != TCC_SPACE_ARENA || m->live[b].first < 0)
            continue;
        if (!ir_is_const(m->p->buffers[b].bytes, &bytes))
            return NULL;
        change[m->live[b].first] += aligned(bytes);
        change[m->live[b].last + 1] -= aligned(bytes);
    }
    for (int i = 0; i <= m->position; i++) {
        sum += change[i];
        if (sum > best)
            best = sum;
    }
    return ir_const(m->ctx, best);
}

/* -- Dynamic buffers and objects: made before their first step, released after their last, in the region that is their
 * home. */

static void insert(struct memory *m, struct kn_steps *steps, int at, enum tcc_step_kind kind, int buffer)
{
    struct kn_step s = {.kind = kind, .nargs = 1, .args = IR_NEW(m->ctx, int)};
    s.args[0] = buffer;
    lw_push_step(m->ctx, steps, s);
    for (int i = steps->n - 1; i > at; i--)
        steps->at[i] = steps->at[i - 1];
    steps->at[at] = s;
}

static bool mentions(const struct kn_step *s, int buffer)
{
    for (int a = 0; a < s->nargs; a++)
        if (s->args[a] == buffer)
            return true;
    for (int r = 0; r < s->nregions; r++) {
        const struct kn_region *g = &s->regions[r];
        for (int i = 0; i < g->nparams; i++)
            if (g->params[i] == buffer)
                return true;
        for (int i = 0; i < g->nresults; i++)
            if (g->results[i] == buffer)
                return true;
        for (int i = 0; g->exits && i < g->nresults - (s->kind == TCC_STEP_LOOP); i++)
            if (g->exits[i] == buffer)
                return true;
        for (int i = 0; i < g->steps.n; i++)
            if (mentions(&g->steps.at[i], buffer))
                return true;
    }
    return false;
}

static bool listed(const int *list, int n, int buffer)
{
    for (int i = 0; i < n; i++)
        if (list && list[i] == buffer)
            return true;
    return false;
}

static void alloc_and_free(struct memory *m, struct kn_steps *steps, const struct kn_region *region, bool *done)
{
    for (int b = 0; b < m->p->nbuffers; b++) {
        const struct kn_buffer *buffer = &m->p->buffers[b];
        if ((buffer->space != TCC_SPACE_DYNAMIC && buffer->space != TCC_SPACE_OBJECT) || done[b])
            continue;
        int first = -1, last = -1, steps_with = 0;
        for (int i = 0; i < steps->n; i++)
            if (mentions(&steps->at[i], b)) {
                first = first < 0 ? i : first;
                last = i;
                steps_with++;
            }
        bool result =
            region && (listed(region->results, region->nresults, b) || listed(region->params, region->nparams, b));
        if (first < 0 || (steps_with == 1 && steps->at[first].nregions && !result &&
                          !listed(steps->at[first].args, steps->at[first].nargs, b))) {
            /* At home in a deeper region, unless it is handed over at that region's border. */
            bool border = false;
            for (int r = 0; first >= 0 && r < steps->at[first].nregions; r++) {
                const struct kn_region *g = &steps->at[first].regions[r];
                border = border || listed(g->params, g->nparams, b) ||
                         listed(g->exits, g->nresults - (steps->at[first].kind == TCC_STEP_LOOP), b);
            }
            if (!border)
                continue;
        }
        done[b] = true;
        bool output = false;
        for (int e = 0; e < m->p->nentries; e++)
            output = output || listed(m->p->entries[e].output_buffers, m->p->entries[e].noutputs, b) ||
                     listed(m->p->entries[e].input_buffers, m->p->entries[e].ninputs, b);
        if (!output && !result)
            insert(m, steps, last + 1, TCC_STEP_FREE, b);
        if (buffer->space == TCC_SPACE_DYNAMIC && (steps->at[first].kind != TCC_STEP_LIB || buffer->memory))
            insert(m, steps, first, TCC_STEP_ALLOC, b);
    }
    for (int i = 0; i < steps->n; i++)
        for (int r = 0; r < steps->at[i].nregions; r++)
            alloc_and_free(m, &steps->at[i].regions[r].steps, &steps->at[i].regions[r], done);
}

void lw_release_buffers(struct ir_ctx *ctx, struct kn_program *p, struct kn_entry *e)
{
    struct memory m = {.ctx = ctx, .p = p};
    alloc_and_free(&m, &e->steps, NULL, IR_NEWN(ctx, p->nbuffers + 1, bool));
}

static void place_arenas(struct memory *m, struct kn_entry *e)
{
    if (!constant_sizes(m))
        return;
    e->arena = ir_const(m->ctx, place_constant_sizes(m, 0));
    if (m->p->nmemories > 1)
        e->arenas = IR_NEWN(m->ctx, m->p->nmemories, ir_expr);
    for (int i = 1; i < m->p->nmemories; i++)
        e->arenas[i - 1] = ir_const(m->ctx, place_constant_sizes(m, i));
}

bool lw_plan_memory(struct ir_ctx *ctx, struct kn_program *p, struct kn_entry *e)
{
    struct memory m = {.ctx = ctx, .p = p};
    struct ir_arena *scratch = ir_arena_new(ctx);
    m.order = kn_order_new(ctx, scratch, p, e, 0, 0);
    m.live = IR_NEWN(ctx, p->nbuffers + 1, struct live);
    m.home = IR_NEWN(ctx, p->nbuffers + 1, struct touch *);
    for (int b = 0; b < p->nbuffers; b++)
        m.live[b].first = -1;
    bool ok = walk(&m, &e->steps, NULL);
    for (int b = 0; b < p->nbuffers && ok; b++) { /* until all that stands behind happens after its last use */
        int last = kn_order_until(m.order, b);
        m.live[b].last = last > m.live[b].last ? last : m.live[b].last;
    }
    ir_arena_free(scratch);
    if (!ok)
        return ir_error(ctx, NULL, "memory: a step of '%s' waits for what does not stand before it", e->name);
    int position = 0;
    extend_live_ranges(&m, &e->steps, NULL, &position);
    place_arenas(&m, e);
    e->peak_live = largest_live_set(&m);
    for (int b = 0; b < p->nbuffers; b++)
        if (m.live[b].first >= 0) {
            p->buffers[b].first_step = m.live[b].first;
            p->buffers[b].last_step = m.live[b].last;
        }
    return true;
}
