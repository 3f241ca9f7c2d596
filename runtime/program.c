/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program.c - PROGRAM: steps that a device records once and replays. What a recorded launch has for good are addresses,
 * the grid, scratch; sizes and numbers of tiles it reads in the control block, which is uploaded once a run. So one
 * program serves all runs for which the former are equal: they are its digest. That is computed anew only when
 * something that it may depend on has changed; where a cache stands is not among it.
 */
#include "runtime/rt_int.h"

void tcr_control(struct tccrt_session *s, const struct tcc_pentry *e, struct tcr_control *out)
{
    const uint32_t *list = s->m->u32s + e->control.first;

    if (!s->control_at)
        return;
    if (s->controlled != e) {
        const struct tcc_pentry *old = s->controlled;

        for (uint32_t i = 0; old && i < old->control.count; i++)
            s->control_at[s->m->u32s[old->control.first + i]] = 0;
        for (uint32_t i = 0; i < e->control.count; i++)
            s->control_at[list[i]] = i + 1;
        s->controlled = e;
    }
    for (uint32_t i = 0; i < e->control.count; i++)
        s->control_values[i] = s->values[list[i]];
    out->nvalues = s->ncontrol;
    out->values = s->control_values;
}

/* -- What a program has for good ---------------------------------------------------------------------- */

struct digest {
    struct tcr_xxh3 x;
    uint64_t words[64];
    uint32_t n;
    bool settled; /* all of it follows from what key_of() looks at */
};

/* An expression that has one value at all positions. */
static bool is_settled(const struct tccrt_session *s, uint32_t expr)
{
    struct tcr_interval r;

    if (expr == TCC_NO || !s->ranges)
        return true;
    r = tcr_range(s, expr);
    return !s->m->exprs[expr].level && tcr_is_bounded(r) && r.lo == r.hi;
}

/* One whose most is known. */
static bool is_bounded(const struct tccrt_session *s, uint32_t expr)
{
    return !s->ranges || (!s->m->exprs[expr].level && tcr_is_bounded(s->ranges[expr]));
}

/* A buffer that lies at one place at all positions, as long as the arena and state variables do. */
static bool is_settled_place(const struct tccrt_session *s, uint32_t b)
{
    const struct tcc_pbuffer *p = &s->m->buffers[b];

    if (!is_settled(s, p->offset) || !is_bounded(s, p->bytes))
        return false;
    return p->space == TCC_SPACE_ALIAS
               ? is_settled_place(s, p->index)
               : p->space == TCC_SPACE_ARENA || p->space == TCC_SPACE_WEIGHT || p->space == TCC_SPACE_STATE;
}

static bool is_settled_step(const struct tccrt_session *s, const struct tcc_pstep *p, bool by_control)
{
    bool all = by_control || (is_settled(s, p->tiles) && is_settled(s, p->combining) && is_settled(s, p->scratch));

    for (uint32_t i = 0; i < p->args.count && all; i++) {
        uint32_t b = s->m->u32s[p->args.first + i];

        all = is_settled_place(s, b) && (by_control || is_settled(s, s->m->buffers[b].bytes));
    }
    for (uint32_t i = 0; i < p->sizes.count && all && !by_control; i++)
        all = is_settled(s, s->m->u32s[p->sizes.first + i]);
    return all;
}

static void add(struct digest *d, uint64_t word)
{
    if (d->n == 64) {
        tcr_xxh3_add(&d->x, d->words, sizeof d->words);
        d->n = 0;
    }
    d->words[d->n++] = word;
}

static int add_launch(struct tccrt_session *s, const struct tcc_pstep *p, struct digest *d)
{
    struct tcr_made_launch x;
    const struct tcr_kernel_launch *l = &x.l;
    int status = tcr_make_launch(s, p, &x);

    if (status)
        return status;
    d->settled = d->settled && is_settled_step(s, p, l->at != NULL);
    add(d, x.made);
    for (uint32_t i = 0; i < l->nargs && x.made; i++) {
        add(d, (uintptr_t)l->args[i]);
        if (l->access)
            add(d, l->access[i].bytes);
    }
    add(d, (uint64_t)l->scratch);
    add(d, x.shape);
    for (uint32_t i = 0; i < l->nsizes && !l->at && x.made; i++)
        add(d, (uint64_t)l->sizes[i]);
    if (!l->at) {
        add(d, (uint64_t)l->tiles);
        add(d, (uint64_t)l->combining);
    }
    return TCC_OK;
}

static int add_copy(struct tccrt_session *s, const struct tcc_pstep *p, struct digest *d)
{
    const uint32_t *buffers = s->m->u32s + p->args.first;
    const char *node = tcr_string(s->m, p->node);
    int status = TCC_OK;

    d->settled = d->settled && is_settled_step(s, p, false);
    for (int i = 0; i < 2 && !status; i++) {
        int64_t bytes;
        void *at;

        if (s->m->buffers[buffers[i]].space == TCC_SPACE_OBJECT)
            return tcr_fail(TCC_EBUG, "node '%s': an object within a program", node);
        if ((status = tcr_address(s, buffers[i], node, &at)) ||
            (status = tcr_buffer_bytes(s, buffers[i], node, &bytes)))
            break;
        add(d, (uintptr_t)at);
        add(d, (uint64_t)bytes);
    }
    return status;
}

/* What sizes and addresses follow from, but for positions. */
static uint64_t key_of(const struct tccrt_session *s)
{
    uint64_t parts[5] = {(uintptr_t)s->running, (uintptr_t)s->arenas[1]};

    parts[2] = tcr_xxh3(s->states, s->m->plan->states.count * sizeof *s->states);
    if (s->rebound) /* blocks in place of buffers, which may be others in each run */
        parts[4] = tcr_xxh3(s->rebound, s->m->plan->buffers.count * sizeof *s->rebound);
    if (!s->ranges) {
        parts[3] = tcr_xxh3(s->syms, s->m->plan->syms.count * sizeof *s->syms);
        return tcr_xxh3(parts, sizeof parts);
    }
    for (uint32_t i = 0; i < s->m->plan->syms.count; i++) {
        bool known = tcr_is_bounded(s->sym_ranges[i]);
        uint64_t one[3] = {parts[3], (uint64_t)(known ? s->sym_ranges[i].lo : s->syms[i]),
                           (uint64_t)s->sym_ranges[i].hi};

        parts[3] = tcr_xxh3(one, sizeof one);
    }
    return tcr_xxh3(parts, sizeof parts);
}

static int add_steps(struct tccrt_session *s, struct tcc_range steps, struct digest *d)
{
    int status = TCC_OK;

    for (uint32_t i = steps.first; i < steps.first + steps.count && !status; i++) {
        const struct tcc_pstep *p = &s->m->steps[i];

        if (p->kind == TCC_STEP_BATCH)
            status = add_steps(s, s->m->regions[p->regions.first].steps, d);
        else if (p->kind == TCC_STEP_LAUNCH || p->kind == TCC_STEP_COPY)
            status = (p->kind == TCC_STEP_LAUNCH ? add_launch : add_copy)(s, p, d);
        else
            return tcr_fail(TCC_EBUG, "node '%s': a program holds launches and copies only", tcr_string(s->m, p->node));
    }
    return status;
}

static int compute(struct tccrt_session *s, struct tcc_range steps, bool *settled, uint64_t *out)
{
    struct digest d = {.settled = true};
    int status;

    tcr_xxh3_begin(&d.x);
    status = add_steps(s, steps, &d);
    tcr_xxh3_add(&d.x, d.words, d.n * sizeof *d.words);
    *out = tcr_xxh3_end(&d.x);
    *settled = d.settled;
    return status;
}

static int digest_of(struct tccrt_session *s, const struct tcc_pstep *p, uint64_t *out)
{
    struct tcr_program_digest *last = &s->program_digests[p - s->m->steps];
    uint64_t key = key_of(s);
    int status;

    if (last->settled && last->key == key) {
        *out = last->digest;
        return TCC_OK;
    }
    status = compute(s, s->m->regions[p->regions.first].steps, &last->settled, out);
    last->settled = last->settled && !status;
    last->key = key;
    last->digest = *out;
    return status;
}

/* What of its sizes was not known when the run began. */
static int upload_late(struct tccrt_session *s, const struct tcc_pstep *p)
{
    for (uint32_t i = 0; i < p->sizes.count; i++) {
        uint32_t expr = s->m->u32s[p->sizes.first + i];

        s->control_at[expr] = p->what + i + 1;
        s->control_values[p->what + i] = s->values[expr];
    }
    return p->sizes.count
               ? s->device->ops->control(s->device, (int)p->queue, p->what, p->sizes.count, s->control_values + p->what)
               : TCC_OK;
}

/* The steps of a PROGRAM, one after the other. */
int tcr_step_program(struct tccrt_session *s, const struct tcc_pstep *p)
{
    struct tcc_range steps = s->m->regions[p->regions.first].steps;
    const struct tcr_device_ops *o = s->device->ops;
    int how = TCR_WALK, status;
    uint64_t digest;

    if (!s->ordered)
        return tcr_walk(s, steps);
    s->in_program = true;
    status = o->program ? upload_late(s, p) : TCC_OK;
    if (!status && (s->device->timing || s->observer || !o->program)) { /* each launch by itself */
        status = tcr_walk(s, steps);
        s->in_program = false;
        return status;
    }
    if (!status)
        status = digest_of(s, p, &digest);
    if (!status)
        status = o->program(s->device, (int)p->queue, (uint32_t)(p - s->m->steps), digest, &how);
    if (!status && how != TCR_REPLAY)
        status = tcr_walk(s, steps);
    s->in_program = false;
    return status || how != TCR_RECORD ? status : o->end(s->device, (int)p->queue);
}
