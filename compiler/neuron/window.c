/* SPDX-License-Identifier: Apache-2.0 */
/*
 * window.c - loads of windows: points of a convolution or pooling look at elements of which each belongs to several
 * windows, or which lie apart in HBM. What a tile's windows cover is loaded once, in rows as long as HBM has them, and
 * the load is a view of it, with strides; what guards keep out is filled in. Products take the taps of a convolution
 * one after the other: what all of them cover is loaded for the first and kept.
 */
#include "compiler/emit/span.h"
#include "compiler/neuron/neuron_int.h"

enum {
    LARGEST = 16 << 10,
    MOST_BYTES = 48 << 10,
    BLOCK = 32
}; /* bytes of a window, of all that are kept; partitions of a quadrant */

/* What of an axis of the operand is covered, and where something is; how far a point of partitions moves it. */
struct cover {
    struct em_span covered, there;
    int64_t across, step;
};

static bool same_box(const struct nk_window *w, const struct kn_insn *n, const struct nk_tile *t, int rank,
                     const struct cover *c)
{
    bool same = w->buffer && w->load == n && w->partitions == t->axis[0].extent;
    for (int i = 0; same && i < rank; i++)
        same = w->lo[i] == c[i].covered.lo && w->hi[i] == c[i].covered.hi && w->across[i] == c[i].across;
    return same;
}

/* The window's number among those that are kept; -1: it is none. */
static int find(const struct nk *nk, const struct kn_insn *n, const struct nk_tile *t, int rank, const struct cover *c)
{
    for (int i = 0; i < NK_WINDOWS; i++)
        if (same_box(&nk->window[i], n, t, rank, c))
            return i;
    return -1;
}

static void drop(struct nk *nk, struct nk_window *w)
{
    if (!w->buffer)
        return;
    w->buffer->stays = false;
    nk_release(nk, w->buffer);
    nk->window_bytes -= w->buffer->bytes;
    *w = (struct nk_window){0};
}

/* A free place for a window of that many bytes; NULL: this tile has all of them. */
static struct nk_window *make_room(struct nk *nk, int64_t bytes)
{
    struct nk_window *free = NULL;
    for (int64_t oldest = 0; oldest < nk->tiles && (!free || nk->window_bytes + bytes > MOST_BYTES);) {
        int64_t following = nk->tiles;
        for (int i = 0; i < NK_WINDOWS; i++) {
            struct nk_window *w = &nk->window[i];
            if (w->buffer && w->tile <= oldest && (!free || nk->window_bytes + bytes > MOST_BYTES))
                drop(nk, w);
            if (!w->buffer)
                free = w;
            else if (w->tile < following)
                following = w->tile;
        }
        oldest = following;
    }
    return nk->window_bytes + bytes <= MOST_BYTES ? free : NULL;
}

/* What the points of the box cover of index i, and the guards on it; false: indices or guards of another form. */
static bool cover_of(struct nk *nk, const struct nk_tile *t, const struct kn_insn *n, int i, struct nk_line *line,
                     struct cover *c)
{
    struct nk_tile one = *t;
    struct nk_box b;
    struct nk_line l;
    int axis;
    int64_t at, lo, hi;
    for (int d = 0; d < nk->k->ndims; d++) /* taps: from the first one on */
        if (nk->taps >> d & 1)
            one.base[d] = 0;
    b = nk_whole(t);
    if (nk_line_of(nk, t, &b, n->index[i], line, &axis, &at) != NK_LINEAR ||
        nk_line_of(nk, &one, &b, n->index[i], &l, &axis, &at) != NK_LINEAR)
        return false;
    c->across = l.coef[0];
    l.coef[0] = 0;
    nk_line_range(&l, &b, &lo, &hi);
    for (int d = 0; d < nk->k->ndims; d++) {
        struct nk_tile last = one, second = one;
        struct nk_line far, near;
        if (!(nk->taps >> d & 1) || nk->extent[d] == 1)
            continue;
        last.base[d] = nk->extent[d] - 1;
        second.base[d] = 1;
        if (nk_line_of(nk, &last, &b, n->index[i], &far, &axis, &at) != NK_LINEAR ||
            nk_line_of(nk, &second, &b, n->index[i], &near, &axis, &at) != NK_LINEAR ||
            far.base - l.base != (near.base - l.base) * (nk->extent[d] - 1))
            return false;
        *(far.base < l.base ? &lo : &hi) += far.base - l.base;
    }
    c->covered = em_span(lo, hi + 1);
    c->there = em_span(0, ir_const_or(nk->k->operands[n->operand].dims[i], 0));
    return true;
}

static bool guards_of(const struct kn_insn *n, struct cover *c)
{
    for (int g = 0; g < n->nguards; g++) {
        const struct kn_guard *guard = &n->guards[g];
        int64_t lo, hi, i = 0;
        while (i < n->nindex && n->index[i] != guard->e)
            i++;
        if (i == n->nindex || c[i].across || !ir_is_const(guard->lo, &lo) || !ir_is_const(guard->hi, &hi))
            return false;
        c[i].there = em_span_cut(c[i].there, em_span(lo, hi));
    }
    return true;
}

/* A DMA of what is there of the box. */
static void load(struct nk *nk, const struct nk_tile *t, const struct kn_insn *n, const struct cover *c,
                 const struct nk_value *v)
{
    const struct kn_operand *o = &nk->k->operands[n->operand];
    struct nk_pattern near = {0}, far = {0};
    struct neuron_instr i = {.op = NEURON_OP_DMA, .noperands = 2};
    int64_t row = 1, base = 0, across = 0, at = 0, size[TCC_MAX_RANK], step[TCC_MAX_RANK];
    for (int x = n->nindex - 1; x >= 0; x--) {
        struct em_span r = c[x].across ? c[x].covered : em_span_cut(c[x].covered, c[x].there);
        size[x] = em_span_length(r);
        step[x] = row;
        base += r.lo * row;
        across += c[x].across * row;
        at += (r.lo - c[x].covered.lo) * c[x].step;
        row *= ir_const_or(o->dims[x], 0);
        if (size[x] < 1)
            return;
    }
    int64_t bytes = neuron_type_bytes((enum neuron_type)v->type);
    if (t->quarter)
        nk_pattern_add(&far, t->axis[0].extent / BLOCK, across * t->quarter, true);
    nk_pattern_add(&far, t->quarter ? BLOCK : t->axis[0].extent, across, true);
    for (int x = 0; x < n->nindex; x++) {
        nk_pattern_add(&near, size[x], c[x].step, false);
        nk_pattern_add(&far, size[x], step[x], x == 0);
    }
    i.operand[0] = (struct neuron_operand){.space = NEURON_SBUF,
                                           .type = v->type,
                                           .reg = NEURON_NO_REGISTER,
                                           .count = (uint8_t)t->axis[0].extent,
                                           .offset = v->buffer->offset + at * bytes};
    i.operand[1] = (struct neuron_operand){.space = NEURON_HBM,
                                           .type = v->type,
                                           .reg = NEURON_NO_REGISTER,
                                           .tensor = nk->hbm[n->operand]->tensor,
                                           .offset = base * bytes};
    if (!nk_pattern_put(&near, &i.operand[0], 4) || !nk_pattern_put(&far, &i.operand[1], NEURON_DIMS))
        nk_refuse(nk, "a window that has no pattern");
    neuron_set_attr(&i, NEURON_ATTR_QUEUE, (union neuron_value){.i = NK_QUEUE_IN});
    nk_emit(nk, NEURON_SYNC, &i, 2, (struct nk_use[]){{v->buffer, true, 0}, {nk->hbm[n->operand], false, 0}});
}

/* Is it worth it? Fewer elements than the load has, or such as come one by one otherwise. */
static bool pays(const struct nk *nk, const struct nk_tile *t, const struct nk_line *whole, const struct cover *last,
                 int64_t covered)
{
    enum { APART = 4 };
    int64_t points = 1;
    bool apart = em_span_length(last->covered) > 1;
    for (int d = 0; d < nk->k->ndims; d++)
        if (nk->taps >> d & 1)
            points *= nk->extent[d];
    for (int a = 1; a < t->n; a++) {
        if (whole->coef[a])
            points *= t->axis[a].extent;
        apart &= t->axis[a].extent == 1 || whole->coef[a] != 1;
    }
    return covered < points || (apart && covered <= APART * points);
}

/* Are a view's dims few enough for an operand? */
static bool few_dims(const struct nk_tile *t, const struct nk_value *v)
{
    struct nk_pattern p = {0};
    for (int a = 1; a < t->n; a++)
        nk_pattern_add(&p, t->axis[a].extent, v->stride[a], false);
    return p.n <= 4;
}

const struct nk_value *nk_window(struct nk *nk, const struct nk_tile *t, const struct kn_insn *n,
                                 const struct nk_value *otherwise)
{
    const struct kn_operand *o = &nk->k->operands[n->operand];
    enum { LEAST_ROOM = 16 };
    struct nk_tile flat = *t; /* quadrants as the first one */
    struct cover c[TCC_MAX_RANK];
    struct nk_line line[TCC_MAX_RANK], whole = {0};
    struct nk_value *v = IR_NEW(nk->ctx, struct nk_value);
    int64_t elements = 1, row = 1, offset = 0;
    if (n->nindex < 2 || o->use != KN_IN || nk_is_wide(o->dtype) || (otherwise && !otherwise->is_number) ||
        nk->room * LEAST_ROOM < NK_ROOM)
        return NULL;
    flat.quarter = 0;
    for (int i = n->nindex - 1; i >= 0; i--) {
        if (!cover_of(nk, &flat, n, i, &line[i], &c[i]))
            return NULL;
        c[i].step = elements;
        elements *= em_span_length(c[i].covered);
        if (elements > LARGEST)
            return NULL;
        for (int a = 0; a < t->n; a++)
            whole.coef[a] += line[i].coef[a] * row;
        row *= ir_const_or(o->dims[i], 0);
    }
    *v = (struct nk_value){.dtype = o->dtype, .type = (uint8_t)nk_type(nk, o->dtype)};
    for (int i = 0; i < n->nindex; i++) {
        offset += (line[i].base - c[i].covered.lo) * c[i].step;
        for (int a = 1; a < t->n; a++)
            v->stride[a] += (int32_t)(line[i].coef[a] * c[i].step);
    }
    int64_t bytes = neuron_type_bytes((enum neuron_type)v->type);
    v->offset = offset * bytes;
    if (!guards_of(n, c) || !pays(nk, t, &whole, &c[n->nindex - 1], elements) || elements * bytes > LARGEST ||
        !few_dims(t, v))
        return NULL;
    int at = find(nk, n, t, n->nindex, c);
    if (at >= 0) {
        v->buffer = nk->window[at].buffer;
        nk->window[at].tile = nk->tiles;
        return v;
    }
    struct nk_window *w = make_room(nk, elements * bytes);
    if (!w)
        return NULL;
    struct nk_tile box = {.n = 2, .nouter = 2, .axis = {t->axis[0], {KN_MAX_DIMS - 1, 1, elements}}};
    struct nk_value *covered = nk_new(nk, &box, o->dtype);
    bool filled = false;
    for (int i = 0; i < n->nindex; i++)
        filled |= !c[i].across && !em_span_holds(c[i].there, c[i].covered.lo, c[i].covered.hi);
    if (filled)
        nk_fill(nk, &box, covered, otherwise ? otherwise->number : 0);
    load(nk, t, n, c, covered);
    v->buffer = covered->buffer;
    *w = (struct nk_window){.load = n, .buffer = v->buffer, .partitions = t->axis[0].extent, .tile = nk->tiles};
    for (int i = 0; i < n->nindex; i++) {
        w->lo[i] = c[i].covered.lo;
        w->hi[i] = c[i].covered.hi;
        w->across[i] = c[i].across;
    }
    v->buffer->stays = true;
    nk->window_bytes += v->buffer->bytes;
    return v;
}
