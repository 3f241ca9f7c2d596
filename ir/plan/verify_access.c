/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verify_access.c - what holds of a buffer where a step accesses it: it has been written and not freed, it lies in the
 * memory of the step's queue, accesses one of which writes are ordered, and the step says which version of a state
 * variable it reads or makes.
 */
#include "base/format.h"
#include "ir/plan/verify_int.h"
#include "ir/text/kernel_words_int.h"

bool verify_bad(struct verifier *v, const struct kn_step *s, const char *format, ...)
{
    FORMATTED(text, 512, format);
    const char *what = s ? kn_step_words[s->kind] : "", *node = s && s->node ? s->node : "";
    if (v->ok)
        ir_invalid(v->ctx, NULL, v->ctx->parsing ? IR_D_ERROR : IR_D_BUG,
                   ir_internf(v->ctx, "plan of '%s': %s%s%s%s%s", v->entry ? v->entry->name : "", what,
                              *node ? " of " : "", node, s ? ": " : "", text));
    v->ok = false;
    return false;
}

int verify_root(const struct kn_program *p, int b)
{
    for (int i = 0; p->buffers[b].space == TCC_SPACE_ALIAS && i < 100; i++)
        b = p->buffers[b].index;
    return b;
}

/* Does the step say which version of a variable it reads, or makes? What regions hand over, and the end of what was
 * started, need not. */
static void says_version(struct verifier *v, const struct kn_step *s, int b, bool makes)
{
    if (!s || s->nregions || s->kind == KN_STEP_WAIT || v->p->buffers[b].space != TCC_SPACE_STATE)
        return;
    for (int i = 0; i < s->nversions; i++)
        if (s->versions[i].buffer == b && (makes ? s->versions[i].makes : s->versions[i].reads) >= 0)
            return;
    verify_bad(v, s, "does not say which version of state variable %d it %s", b, makes ? "makes" : "reads");
}

void verify_begin_versions(struct verifier *v, const struct kn_step *s)
{
    for (int i = 0; i < s->nversions && v->ok; i++) {
        const struct kn_version *x = &s->versions[i];
        if (x->buffer < 0 || x->buffer >= v->p->nbuffers || v->p->buffers[x->buffer].space != TCC_SPACE_STATE)
            verify_bad(v, s, "buffer %d is no state variable", x->buffer);
        else if (x->reads >= 0 && x->reads != v->version[x->buffer])
            verify_bad(v, s, "reads version %d of state variable %d, which holds version %d here", x->reads, x->buffer,
                       v->version[x->buffer]);
    }
}

void verify_make_versions(struct verifier *v, const struct kn_step *s)
{
    for (int i = 0; i < s->nversions && v->ok; i++)
        if (s->versions[i].makes >= 0)
            v->version[s->versions[i].buffer] = s->versions[i].makes;
}

/* Behind regions, variables hold what the step makes; others what they held before. */
void verify_join_versions(struct verifier *v, const struct kn_step *s, const int *before)
{
    for (int b = 0; b < v->p->nbuffers && v->ok; b++) {
        bool made = v->version[b] == before[b];
        for (int i = 0; i < s->nversions && !made; i++)
            made = s->versions[i].buffer == b && s->versions[i].makes >= 0;
        if (!made)
            verify_bad(v, s, "a region leaves version %d of state variable %d, but the step makes none", v->version[b],
                       b);
        v->version[b] = before[b];
    }
    verify_make_versions(v, s);
}

/* The host's memory; that of a device for its queues, and for communication that works there. Before the pass `queues`
 * all is in order, wherever it runs. */
static void in_memory(struct verifier *v, const struct kn_step *s, int b)
{
    const struct kn_program *p = v->p;
    int m = p->buffers[b].memory, of = p->nqueues ? p->queues[s->queue].memory : m;
    bool copies = s->kind == TCC_STEP_COPY && m == 0, manages = s->kind == TCC_STEP_ALLOC || s->kind == TCC_STEP_DIMS;
    if (m == of || copies || manages || s->nregions ||
        (p->nmemories && (p->memories[m].shared && p->memories[of].shared)))
        return;
    verify_bad(v, s, "buffer %d lies in memory %d, queue %d works on memory %d", b, m, s->queue, of);
}

/* Without a path from one access to the other, which runs first is left to chance. */
static void ordered(struct verifier *v, const struct kn_step *s, int b, bool write)
{
    struct accesses *a = &v->accesses[b];
    const struct kn_moment *late = a->write && a->write != v->now && !kn_before(a->write, v->now) ? a->write : NULL;
    for (struct reader *r = a->reads; r && write && !late; r = r->next)
        late = r->at == v->now || kn_before(r->at, v->now) ? NULL : r->at;
    if (late)
        verify_bad(v, s,
                   "buffer %d is %s by a step of queue %d that nothing orders behind step %d of queue %d, which %s it",
                   b, write ? "written" : "read", v->now->queue, late->index, late->queue,
                   late == a->write ? "writes" : "reads");
}

void verify_accessed(struct verifier *v, const struct kn_step *s, int b, bool write)
{
    struct accesses *a = &v->accesses[b];
    if (!v->now)
        return;
    if (s)
        in_memory(v, s, b);
    ordered(v, s, b, write);
    kn_order_touch(v->order, b, v->now);
    if (write) {
        *a = (struct accesses){.write = v->now};
        return;
    }
    struct reader *r = a->reads;
    while (r && r->at->queue != v->now->queue)
        r = r->next;
    if (!r) {
        r = ir_arena_alloc(v->scratch, sizeof *r);
        r->next = a->reads;
        a->reads = r;
    }
    r->at = v->now;
}

void verify_live(struct verifier *v, int b)
{
    struct kn_life *l = &v->life[b];
    if (l->first < 0 || v->position < l->first)
        l->first = v->position;
    if (v->position > l->last)
        l->last = v->position;
}

bool verify_in_range(struct verifier *v, const struct kn_step *s, int b)
{
    return (b >= 0 && b < v->p->nbuffers) || verify_bad(v, s, "buffer %d does not exist", b);
}

void verify_read(struct verifier *v, const struct kn_step *s, int b)
{
    if (!verify_in_range(v, s, b))
        return;
    int r = verify_root(v->p, b);
    verify_live(v, r);
    if (v->freed[r])
        verify_bad(v, s, "buffer %d is read after it was freed", b);
    else if (!v->written[r] && !(v->p->buffers[r].bytes && ir_is_value(v->p->buffers[r].bytes, 0)))
        verify_bad(v, s, "buffer %d is read before it is written", b);
    says_version(v, s, r, false);
    verify_accessed(v, s, r, false);
}

void verify_write(struct verifier *v, const struct kn_step *s, int b)
{
    if (!verify_in_range(v, s, b))
        return;
    int r = verify_root(v->p, b);
    enum tcc_space space = v->p->buffers[r].space;
    verify_live(v, r);
    if (space == TCC_SPACE_INPUT || space == TCC_SPACE_WEIGHT)
        verify_bad(v, s, "buffer %d, an input or weight, is written", b);
    if (v->freed[r])
        verify_bad(v, s, "buffer %d is written after it was freed", b);
    says_version(v, s, r, true);
    verify_accessed(v, s, r, true);
    v->written[r] = true;
}
