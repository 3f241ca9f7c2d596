/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_staged.c - checks of what runs in stages: its values, slots and lists, and that the lists find in each slot
 * what they expect there.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/check_int.h"

static bool check_values(struct tcr_check *c, const struct tcc_pstaged *p)
{
    for (uint32_t i = 0; i < p->buffers.count; i++) {
        const struct tcc_pbuffer *b = &c->m->buffers[p->buffers.first + i];

        if (b->space != TCC_SPACE_INPUT && b->space < TCC_SPACE_SLOT)
            return tcr_bad_plan(c, "a buffer of a stage's list is in the space", b->space, TCC_SPACE_SLOT);
        if (b->space == TCC_SPACE_SLOT && (b->index < 1 || b->index > p->micros + 1))
            return tcr_bad_plan(c, "slots", b->index, p->micros);
        if (b->space == TCC_SPACE_INPUT && !tcr_index_ok(c, "stages' input", b->index, p->axes.count))
            return false;
    }
    for (uint32_t i = 0; i < p->results.count; i++) {
        const struct tcc_presult *x = &c->m->results[p->results.first + i];

        if (!tcr_index_ok(c, "result's buffer", x->buffer - p->buffers.first, p->buffers.count) ||
            !tcr_index_ok(c, "result's stage", x->stage, p->stages))
            return false;
    }
    return true;
}

/* Operands from number `first` on have slots; where others than calls look at them, those lie with the host. */
static bool slots_ok(struct tcr_check *c, const struct tcc_pstep *s, uint32_t first)
{
    for (uint32_t i = first; i < s->args.count; i++) {
        const struct tcc_pbuffer *b = &c->m->buffers[c->m->u32s[s->args.first + i]];

        if (b->space != TCC_SPACE_SLOT || (b->memory && s->kind != TCC_STEP_CALL))
            return tcr_bad_plan(c, "an operand of a stage's step has no slot there", i, s->args.count);
    }
    return true;
}

/* An operand of a call has its entry's element type and rank. */
static bool call_ok(struct tcr_check *c, const struct tcc_pstep *s)
{
    const struct tcc_pentry *e = &c->m->entries[s->what];

    for (uint32_t i = 0; i < s->args.count; i++) {
        const struct tcc_pbuffer *b = &c->m->buffers[c->m->u32s[s->args.first + i]];
        uint32_t k = i < s->nin ? e->inputs.first + i : e->outputs.first + (i - s->nin);

        if (c->m->signatures[k].dtype != b->dtype || c->m->signatures[k].rank != b->rank)
            return tcr_bad_plan(c, "an operand of a call is of another type", i, s->args.count);
    }
    return true;
}

static bool staged_step_ok(struct tcr_check *c, const struct tcc_pstaged *p, const struct tcc_pstep *s, bool last)
{
    const struct tcc_pentry *e = &c->m->entries[s->kind == TCC_STEP_CALL ? s->what : 0];
    bool message = s->kind == TCC_STEP_SEND || s->kind == TCC_STEP_RECV;
    const uint32_t most[] = {message ? p->stages : p->micros, p->micros};

    if (s->sizes.count != (s->kind == TCC_STEP_COLLECTIVE ? 0u : 1u + message))
        return tcr_bad_plan(c, "sizes of a stage's step", s->sizes.count, 2);
    for (uint32_t i = 0; i < s->sizes.count; i++) {
        const struct tcc_pexpr *x = &c->m->exprs[c->m->u32s[s->sizes.first + i]];

        if (x->op != TCC_EX_CONST || x->k < 0 || x->k >= most[i])
            return tcr_bad_plan(c, "a stage's step is of the stage or microbatch", (uint64_t)x->k, most[i]);
    }
    for (uint32_t i = 0; i < s->args.count; i++)
        if (!tcr_index_ok(c, "operand of a stage's step", c->m->u32s[s->args.first + i] - p->buffers.first,
                          p->buffers.count))
            return false;
    if (s->kind == TCC_STEP_CALL)
        return (!e->staged && e->inputs.count == s->nin && e->outputs.count == s->args.count - s->nin &&
                slots_ok(c, s, s->nin) && call_ok(c, s)) ||
               tcr_bad_plan(c, "a call does not match its entry point", s->what, c->p->entries.count);
    if (s->kind == TCC_STEP_RESULT && tcr_index_ok(c, "result", s->what, p->results.count) &&
        c->m->results[p->results.first + s->what].buffer != c->m->u32s[s->args.first])
        return tcr_bad_plan(c, "another buffer than the result's", s->what, p->results.count);
    return (!last &&
            (message || (s->kind == TCC_STEP_COLLECTIVE && s->what == TCC_ALL_GATHER) ||
             (s->kind == TCC_STEP_RESULT && tcr_index_ok(c, "result", s->what, p->results.count))) &&
            slots_ok(c, s, 0)) ||
           tcr_bad_plan(c, "a stage's list has a step of kind", s->kind, TCC_NSTEPS);
}

/* By buffer where its slots begin, by slot 1 + the microbatch there, by result how many have come. */
struct held {
    uint32_t *first, nslots, *micro, *results;
};

static bool step_finds(struct tcr_check *c, const struct tcc_pstaged *p, const struct held *h,
                       const struct tcc_pstep *s)
{
    bool lists = s->kind == TCC_STEP_CALL || s->kind == TCC_STEP_COLLECTIVE;
    uint32_t reads = lists ? s->nin : s->kind != TCC_STEP_RECV, micro = tcr_stage_micro(c->m, s);

    for (uint32_t i = 0; i < s->args.count; i++) {
        uint32_t b = c->m->u32s[s->args.first + i] - p->buffers.first, n = c->m->buffers[p->buffers.first + b].index;

        if (c->m->buffers[p->buffers.first + b].space != TCC_SPACE_SLOT)
            continue;
        if (i >= reads)
            h->micro[h->first[b] + micro % n] = micro + 1;
        else if (h->micro[h->first[b] + micro % n] != micro + 1)
            return tcr_bad_plan(c, "what a stage's step reads is not in its slot: microbatch", micro, p->micros);
    }
    if (s->kind == TCC_STEP_RESULT)
        h->results[s->what]++;
    return true;
}

/* Each stage's list, and behind it the one of all: does each step find what it reads? */
static bool lists_find(struct tcr_check *c, const struct tcc_pstaged *p, struct held *h)
{
    const struct tcc_pregion *lists = c->m->regions + p->lists.first;
    const struct tcc_pbuffer *x = c->m->buffers + p->buffers.first;

    h->results = h->first + p->buffers.count;
    for (uint32_t b = 0; b < p->buffers.count; b++) {
        h->first[b] = h->nslots;
        h->nslots += x[b].space == TCC_SPACE_SLOT ? x[b].index : 0;
    }
    if (!(h->micro = malloc(((size_t)h->nslots + 1) * sizeof *h->micro)))
        return tcr_check_no_memory(c);
    for (uint32_t l = 0; l < p->stages; l++) {
        memset(h->micro, 0, (size_t)h->nslots * sizeof *h->micro);
        for (uint32_t i = 0; i < lists[l].steps.count; i++)
            if (!step_finds(c, p, h, &c->m->steps[lists[l].steps.first + i]))
                return false;
        for (uint32_t i = 0; i < lists[p->stages].steps.count; i++)
            if (!step_finds(c, p, h, &c->m->steps[lists[p->stages].steps.first + i]))
                return false;
    }
    for (uint32_t i = 0; i < p->results.count; i++)
        if (h->results[i] != p->micros)
            return tcr_bad_plan(c, "microbatches of a result", h->results[i], p->micros);
    return true;
}

static bool check_slots(struct tcr_check *c, const struct tcc_pstaged *p)
{
    struct held h = {.first = calloc((size_t)p->buffers.count + p->results.count + 1, sizeof *h.first)};
    bool ok = h.first ? lists_find(c, p, &h) : tcr_check_no_memory(c);

    free(h.first);
    free(h.micro);
    return ok;
}

bool tcr_check_staged(struct tcr_check *c)
{
    const struct tcc_pstaged *p = &c->m->staged[c->at];

    if (p->stages < 1 || p->stages > 1024 || p->micros < 1 || p->micros > 1 << 16)
        return tcr_bad_plan(c, "stages or microbatches", p->stages, 1024);
    if (p->counter && c->m->states[p->counter - 1].bytes != 8)
        return tcr_bad_plan(c, "counter", c->m->states[p->counter - 1].bytes, 8);
    if (p->peaks.count && p->peaks.count != 4 * p->stages)
        return tcr_bad_plan(c, "peaks of stages", p->peaks.count, 4 * p->stages);
    if (p->lists.count != p->stages + 1)
        return tcr_bad_plan(c, "lists of stages", p->lists.count, p->stages + 1);
    if (!check_values(c, p))
        return false;
    for (uint32_t l = 0; l < p->lists.count; l++) {
        struct tcc_range r = c->m->regions[p->lists.first + l].steps;

        for (uint32_t i = r.first; i < r.first + r.count; i++)
            if (!staged_step_ok(c, p, &c->m->steps[i], l == p->stages))
                return false;
    }
    return check_slots(c, p);
}
