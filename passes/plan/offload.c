/* SPDX-License-Identifier: Apache-2.0 */
/*
 * offload: what leaves a device's memory for the host's while nobody there looks at it, and comes back (--offload),
 * after M. Rhu et al., vDNN: Virtualized Deep Neural Networks for Scalable, Memory-Efficient Neural Network Design,
 * 2016, arXiv 1602.08124, and J. Ren et al., ZeRO-Offload: Democratizing Billion-Scale Model Training, 2021, arXiv
 * 2101.06840. Kernels stay what they are, and so do all results.
 *
 * Activations. The forward pass ends with the launch that makes the loss, an entry point's first output. A value that
 * steps up to there have made and steps behind read is copied to the host behind its last use in the forward pass, and
 * back, into another buffer, in front of its first in the backward pass; between them its memory is free. Small values
 * stay, and so do those that are wanted again so soon that a copy would not be there.
 *
 * In stages what a microbatch's forward pass keeps for its backward pass lies in slots of the host's, between calls of
 * two entry points: a copy to there begins behind the last step that writes the value, and one from there in front of
 * the launch before the first that reads it.
 *
 * The optimizer's state. The pass `place` copies a variable that lies with the host (struct ir_state, on_host) to the
 * device in front of its update, and what the update has made of it back. Here these copies come to run beside the
 * updates of other parameters: a parameter's go to the device before the update of the one in front of it.
 *
 * These copies say by `ahead` how many of them may be under way to the host (queues.c), so that what they read is free
 * for the launches behind; those to the device begin behind the launches in front of which they stand, when the memory
 * that they fill is free.
 */
#include "passes/lower_int.h"

#include <stdlib.h>
#include <string.h>

bool pass_offload_run(struct pass_run *r);

enum {
    HOST,
    DEVICE,
    LEAST = 16384,  /* bytes that take as long to move as a copy to start: a microsecond at 16 GB/s */
    LEAST_GAP = 8,  /* steps between last and first use */
    AN_EIGHTH = 8,  /* of the values may be under way to the host, */
    FETCH_PART = 16 /* and this part of them on their way back */
};

/* What lies with the host between the steps number `last` and `first`. */
struct moved {
    int buffer, last, first;
    int at, host, back; /* the step in front of which it comes back; its buffers then */
};

struct offload {
    struct ir_ctx *ctx;
    struct kn_program *p;
    struct pass_run *run;
    int n; /* buffers as they came */
    VEC(struct kn_buffer) buffers;
    /* Of one entry point: */
    int boundary;      /* the last step of the forward pass */
    int *last, *first; /* by root buffer: its last use up to there, its first behind; -1: none */
    bool *stays;       /* by root buffer: written behind, or handed over at a region's border */
    int *renamed;      /* by buffer: what it is behind the boundary; -1: not asked for yet */
    VEC(struct moved) moved;
    bool slots; /* it is a call of stages, whose slots lie with the host */
};

static int root(const struct offload *o, int b)
{
    return kn_storage(o->buffers.at, b);
}

static int add_buffer(struct offload *o, struct kn_buffer b)
{
    VEC_PUSH(o->ctx, o->buffers, b);
    return o->buffers.n - 1;
}

static void set_ahead(struct offload *o, struct kn_step *s, int ahead)
{
    struct ir_attr *a = IR_NEW(o->ctx, struct ir_attr);
    *a = (struct ir_attr){.key = IR_ATTR_user, .kind = IR_A_INT, .name = "ahead", .i = ahead};
    s->attrs = a;
    s->nattrs = 1;
}

static struct kn_step copy_step(struct offload *o, int from, int to, int ahead)
{
    struct kn_step s = {.kind = TCC_STEP_COPY, .nargs = 2, .args = IR_NEWN(o->ctx, 2, int)};
    s.args[0] = from;
    s.args[1] = to;
    s.node = o->buffers.at[from].name;
    set_ahead(o, &s, ahead);
    return s;
}

/* -- Activations: which ----------------------------------------------------------------------------------- */

static bool writes(const struct offload *o, const struct kn_step *s, int buffer)
{
    for (int a = 0; a < s->nargs; a++)
        if (s->args[a] >= 0 && root(o, s->args[a]) == buffer && kn_use(s, a) != KN_IN)
            return true;
    for (int r = 0; r < s->nregions; r++)
        for (int i = 0; i < s->regions[r].steps.n; i++)
            if (writes(o, &s->regions[r].steps.at[i], buffer))
                return true;
    return false;
}

/* The step that computes the loss: what it goes through behind, averages over ranks and copies, need nothing else of
 * the forward pass. -1: nobody does. */
static int find_boundary(const struct offload *o, const struct kn_entry *e)
{
    int value = e->noutputs ? root(o, e->output_buffers[0]) : -1;
    for (int i = e->steps.n - 1; i >= 0 && value >= 0; i--) {
        const struct kn_step *s = &e->steps.at[i];
        if (!writes(o, s, value))
            continue;
        if (s->kind != TCC_STEP_COPY && s->kind != TCC_STEP_COLLECTIVE)
            return i;
        value = s->nargs && s->args[0] >= 0 ? root(o, s->args[0]) : -1;
    }
    return -1;
}

static void note_border(struct offload *o, int n, const int *list)
{
    for (int i = 0; list && i < n; i++)
        if (list[i] >= 0)
            o->stays[root(o, list[i])] = true;
}

/* Step number `at` of the entry point, or one in its regions. */
static void note_step(struct offload *o, const struct kn_step *s, int at)
{
    for (int a = 0; a < s->nargs; a++) {
        int b = s->args[a] < 0 ? -1 : root(o, s->args[a]);
        if (b < 0)
            continue;
        if (at <= o->boundary)
            o->last[b] = at;
        else if (o->first[b] < 0)
            o->first[b] = at;
        o->stays[b] |= at > o->boundary && kn_use(s, a) != KN_IN;
    }
    for (int r = 0; r < s->nregions; r++) {
        const struct kn_region *g = &s->regions[r];
        note_border(o, g->nparams, g->params);
        note_border(o, g->nresults, g->results);
        note_border(o, g->exits ? g->nresults - (s->kind == TCC_STEP_LOOP) : 0, g->exits);
        for (int i = 0; i < g->steps.n; i++)
            note_step(o, &g->steps.at[i], at);
    }
}

static int sooner_back(const void *a, const void *b)
{
    const struct moved *x = a, *y = b;
    return x->first != y->first ? (x->first < y->first ? -1 : 1) : x->buffer - y->buffer;
}

static void choose_moved(struct offload *o, const struct kn_entry *e)
{
    int64_t bytes, sum = 0;
    size_t n = (size_t)o->n + 1;
    memset(o->last, -1, n * sizeof *o->last);
    memset(o->first, -1, n * sizeof *o->first);
    memset(o->stays, 0, n);
    o->moved.n = 0;
    for (int i = 0; i < e->steps.n; i++)
        note_step(o, &e->steps.at[i], i);
    note_border(o, e->noutputs, e->output_buffers);
    for (int b = 0; b < o->n; b++) {
        const struct kn_buffer *x = &o->buffers.at[b];
        if (x->space != TCC_SPACE_ARENA || x->memory != DEVICE || o->stays[b] || o->last[b] < 0 ||
            o->first[b] < o->last[b] + LEAST_GAP)
            continue;
        if (ir_is_const(x->bytes, &bytes) && bytes < LEAST)
            continue;
        if (!pass_changed(o->run))
            break;
        VEC_PUSH(o->ctx, o->moved, (struct moved){b, o->last[b], o->first[b], -1, -1, -1});
        sum += ir_is_const(x->bytes, &bytes) ? bytes : 0;
    }
    if (o->moved.n)
        qsort(o->moved.at, (size_t)o->moved.n, sizeof *o->moved.at, sooner_back);
    if (o->moved.n)
        ir_detail(o->ctx, "@%s: %d values of the forward pass%s lie with the host until the backward pass reads them",
                  ir_shown(e->name), o->moved.n, sum ? ir_internf(o->ctx, ", %lld bytes,", (long long)sum) : "");
}

/* -- Activations: there and back -------------------------------------------------------------------------- */

/* Values that one step reads first come back together, so many such steps ahead. */
static void choose_places(struct offload *o)
{
    int ngroups = 0;
    int *starts = IR_NEWN(o->ctx, o->moved.n + 1, int), *group = IR_NEWN(o->ctx, o->moved.n + 1, int);
    for (int i = 0; i < o->moved.n; i++) {
        if (!i || o->moved.at[i].first != o->moved.at[i - 1].first)
            starts[ngroups++] = o->moved.at[i].first;
        group[i] = ngroups - 1;
    }
    int ahead = ngroups / FETCH_PART > 1 ? ngroups / FETCH_PART : 1;
    for (int i = 0; i < o->moved.n; i++)
        o->moved.at[i].at = group[i] < ahead ? o->boundary + 1 : starts[group[i] - ahead];
}

static void make_buffers(struct offload *o)
{
    memset(o->renamed, -1, ((size_t)o->n + 1) * sizeof *o->renamed);
    for (int i = 0; i < o->moved.n; i++) {
        struct moved *m = &o->moved.at[i];
        struct kn_buffer b = o->buffers.at[m->buffer];
        b.offset = NULL;
        m->back = add_buffer(o, b);
        b.memory = HOST;
        m->host = add_buffer(o, b);
        o->renamed[m->buffer] = m->back;
    }
}

/* What the buffer is in the backward pass. */
static int behind(struct offload *o, int b)
{
    if (b < 0 || b >= o->n || o->renamed[root(o, b)] < 0)
        return b;
    if (o->renamed[b] < 0) {
        struct kn_buffer view = o->buffers.at[b];
        view.index = behind(o, view.index);
        o->renamed[b] = add_buffer(o, view);
    }
    return o->renamed[b];
}

static void rename_step(struct offload *o, struct kn_step *s)
{
    int *args = IR_NEWN(o->ctx, s->nargs + 1, int);
    for (int a = 0; a < s->nargs; a++)
        args[a] = behind(o, s->args[a]);
    s->args = args;
    for (int r = 0; r < s->nregions; r++)
        for (int i = 0; i < s->regions[r].steps.n; i++)
            rename_step(o, &s->regions[r].steps.at[i]);
}

static void move_activations(struct offload *o, struct kn_entry *e)
{
    struct kn_steps to = {0};
    o->boundary = find_boundary(o, e);
    if (o->boundary < 0)
        return;
    choose_moved(o, e);
    if (!o->moved.n)
        return;
    int ahead = o->moved.n / AN_EIGHTH > 2 ? o->moved.n / AN_EIGHTH : 2;
    choose_places(o);
    make_buffers(o);
    for (int i = 0; i < e->steps.n; i++) {
        struct kn_step s = e->steps.at[i];
        for (int k = 0; k < o->moved.n; k++)
            if (o->moved.at[k].at == i)
                lw_push_step(o->ctx, &to, copy_step(o, o->moved.at[k].host, o->moved.at[k].back, ahead));
        if (i > o->boundary)
            rename_step(o, &s);
        lw_push_step(o->ctx, &to, s);
        for (int k = 0; k < o->moved.n; k++)
            if (o->moved.at[k].last == i)
                lw_push_step(o->ctx, &to, copy_step(o, o->moved.at[k].buffer, o->moved.at[k].host, ahead));
    }
    e->steps = to;
}

/* -- State ------------------------------------------------------------------------------------------------- */

/* State, and what lies in slots. */
static bool is_host_state(const struct offload *o, int b)
{
    enum tcc_space space = o->buffers.at[b].space;
    bool slot = o->slots && (space == TCC_SPACE_INPUT || space == TCC_SPACE_OUTPUT);
    return (slot || space == TCC_SPACE_STATE) && o->buffers.at[b].memory == HOST;
}

/* To the device (m DEVICE) or back from there. */
static bool moves_state(const struct offload *o, const struct kn_step *s, int m)
{
    return s->kind == TCC_STEP_COPY && is_host_state(o, s->args[m == DEVICE ? 0 : 1]) &&
           o->buffers.at[s->args[m == DEVICE ? 1 : 0]].memory == DEVICE;
}

/* May a copy of state to the device move up across s? */
static bool may_cross(const struct offload *o, const struct kn_step *copy, const struct kn_step *s)
{
    for (int a = 0; a < s->nargs; a++) {
        int b = s->args[a] < 0 ? -1 : root(o, s->args[a]);
        if (b == copy->args[1] || (b == copy->args[0] && kn_use(s, a) != KN_IN))
            return false;
    }
    return !s->nregions;
}

static bool reads_any(const struct offload *o, const struct kn_step *s, const bool *of)
{
    for (int a = 0; a < s->nargs; a++)
        if (s->args[a] >= 0 && root(o, s->args[a]) < o->n && of[root(o, s->args[a])])
            return true;
    return false;
}

static void insert(struct offload *o, struct kn_steps *to, int at, struct kn_step s)
{
    lw_push_step(o->ctx, to, s);
    memmove(to->at + at + 1, to->at + at, (size_t)(to->n - 1 - at) * sizeof s);
    to->at[at] = s;
}

/* Copies of state to the device: in front of the launch that uses such copies before the one that uses theirs. */
static void fetch_state(struct offload *o, struct kn_steps *steps, bool *there)
{
    struct kn_steps to = {0};
    int before = -1;
    for (int i = 0; i < steps->n; i++) {
        struct kn_step s = steps->at[i];
        bool may = moves_state(o, &s, DEVICE) && before >= 0;
        for (int k = before; may && k < to.n; k++)
            may = may_cross(o, &s, &to.at[k]);
        if (moves_state(o, &s, DEVICE) && s.args[1] < o->n)
            there[s.args[1]] = true;
        if (may && pass_changed(o->run)) {
            insert(o, &to, before++, s);
            continue;
        }
        lw_push_step(o->ctx, &to, s);
        if (s.kind == TCC_STEP_LAUNCH && reads_any(o, &s, there))
            before = to.n - 1;
    }
    *steps = to;
}

/* Of the copies of state to the host as many may be under way as stand together. */
static void bound_state(struct offload *o, struct kn_steps *steps)
{
    int most = 0, together = 0;
    for (int i = 0; i < steps->n; i++) {
        together = moves_state(o, &steps->at[i], HOST) ? together + 1 : 0;
        most = together > most ? together : most;
    }
    for (int i = 0; i < steps->n; i++)
        if (moves_state(o, &steps->at[i], HOST))
            set_ahead(o, &steps->at[i], most);
}

static void move_state(struct offload *o, struct kn_steps *steps)
{
    bool *there = IR_NEWN(o->ctx, o->n + 1, bool);
    fetch_state(o, steps, there);
    bound_state(o, steps);
    for (int i = 0; i < steps->n; i++)
        for (int r = 0; r < steps->at[i].nregions; r++)
            move_state(o, &steps->at[i].regions[r].steps);
}

/* -- Slots -------------------------------------------------------------------------------------------------- */

/* Copies to slots, which stand at the end: behind the last step that writes what they copy. */
static void export_early(struct offload *o, struct kn_steps *steps)
{
    struct kn_steps to = {0};
    int n = 0;
    for (int i = 0; i < steps->n; i++)
        n += moves_state(o, &steps->at[i], HOST) && o->buffers.at[steps->at[i].args[1]].space == TCC_SPACE_OUTPUT;
    for (int i = 0; i < steps->n; i++) {
        struct kn_step s = steps->at[i];
        int at = to.n;
        if (moves_state(o, &s, HOST) && o->buffers.at[s.args[1]].space == TCC_SPACE_OUTPUT && pass_changed(o->run)) {
            while (at > 0 && !writes(o, &to.at[at - 1], root(o, s.args[0])))
                at--;
            set_ahead(o, &s, n / AN_EIGHTH > 2 ? n / AN_EIGHTH : 2);
        }
        insert(o, &to, at, s);
    }
    *steps = to;
}

/* -- The pass ---------------------------------------------------------------------------------------------- */

bool pass_offload_run(struct pass_run *r)
{
    struct ir_ctx *ctx = pass_ctx(r);
    struct kn_program *p = pass_module(r)->program;
    if (!p)
        return ir_error(ctx, NULL, "offload: the module has not been lowered");
    bool state = false, activations = pass_opts(r)->offload || !strcmp(pass_param(r, "what", ""), "activations");
    for (const struct ir_state *s = p->module->states; s; s = s->next)
        state |= s->on_host;
    if (p->nmemories < 2 || p->memories[DEVICE].shared || (!state && !activations))
        return true;
    size_t n = (size_t)p->nbuffers + 1;
    struct offload o = {.ctx = ctx, .p = p, .run = r, .n = p->nbuffers};
    for (int b = 0; b < p->nbuffers; b++)
        add_buffer(&o, p->buffers[b]);
    o.last = IR_NEWN(ctx, n, int);
    o.first = IR_NEWN(ctx, n, int);
    o.stays = IR_NEWN(ctx, n, bool);
    o.renamed = IR_NEWN(ctx, n, int);
    o.slots = activations && p->module->staged; /* all entry points are calls of stages */
    for (int e = 0; e < p->nentries; e++) {
        if (activations && !o.slots)
            move_activations(&o, &p->entries[e]);
        if (state || o.slots)
            move_state(&o, &p->entries[e].steps);
        if (o.slots)
            export_early(&o, &p->entries[e].steps);
    }
    p->memories[HOST].pinned = true;
    VEC_GIVE(o.buffers, p->buffers, p->nbuffers);
    return true;
}
