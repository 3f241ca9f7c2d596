/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program.c - PROGRAM: steps that a device records once and replays. What a recorded launch has for good are addresses, the grid, scratch; sizes and numbers of
 * tiles it reads in the control block, which is uploaded once a run. So one program serves all runs for which the former are equal: they are
 * its digest.
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
};

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

static int digest_of(struct tccrt_session *s, struct tcc_range steps, uint64_t *out)
{
    struct digest d = {.n = 0};
    int status = TCC_OK;

    tcr_xxh3_begin(&d.x);
    for (uint32_t i = steps.first; i < steps.first + steps.count && !status; i++) {
        const struct tcc_pstep *p = &s->m->steps[i];

        if (p->kind != TCC_STEP_LAUNCH && p->kind != TCC_STEP_COPY)
            return tcr_fail(TCC_EBUG, "node '%s': a program holds launches and copies only", tcr_string(s->m, p->node));
        status = (p->kind == TCC_STEP_LAUNCH ? add_launch : add_copy)(s, p, &d);
    }
    tcr_xxh3_add(&d.x, d.words, d.n * sizeof *d.words);
    *out = tcr_xxh3_end(&d.x);
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

    if (!s->ordered || !o->program)
        return tcr_walk(s, steps);
    s->in_program = true;
    status = upload_late(s, p);
    if (!status && s->device->timing) { /* each launch by itself */
        status = tcr_walk(s, steps);
        s->in_program = false;
        return status;
    }
    if (!status)
        status = digest_of(s, steps, &digest);
    if (!status)
        status = o->program(s->device, (int)p->queue, (uint32_t)(p - s->m->steps), digest, &how);
    if (!status && how != TCR_REPLAY)
        status = tcr_walk(s, steps);
    s->in_program = false;
    return status || how != TCR_RECORD ? status : o->end(s->device, (int)p->queue);
}
