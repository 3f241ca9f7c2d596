/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place_where.c - where each step of a program runs: on the device, but for what the walker itself looks at, and for
 * kernels of few integers that only such steps read. place.c brings values to where they are needed.
 */
#include "passes/plan/place_int.h"

#include <string.h>

enum { SMALL = 4096 }; /* bytes of an operand of a kernel of few integers, at most */

void place_find_measured(struct place *pl, const struct kn_steps *steps)
{
    for (int i = 0; i < steps->n; i++) {
        const struct kn_step *s = &steps->at[i];
        if (s->kind == TCC_STEP_DIMS && s->args[0] >= 0)
            pl->measured[root(pl, s->args[0])] = true;
        for (int r = 0; r < s->nregions; r++)
            place_find_measured(pl, &s->regions[r].steps);
    }
}

bool place_is_dense_copy(const struct place *pl, const struct kn_step *s)
{
    return s->kind == TCC_STEP_COPY && pl->buffers.at[s->args[0]].space != TCC_SPACE_OBJECT &&
           pl->buffers.at[s->args[1]].space != TCC_SPACE_OBJECT;
}

/* A user's operator with device code, whose results have sizes that are known before it runs. */
static bool is_device_code(const struct place *pl, const struct kn_step *s)
{
    const struct ir_custom *x = s->kind == TCC_STEP_LIB && pl->customs ? ir_custom_find(pl->ctx, s->lib) : NULL;
    if (!x || !x->device || s->nargs == s->nin)
        return false;
    for (int a = 0; a < s->nargs; a++)
        if (s->args[a] >= 0 && (pl->buffers.at[root(pl, s->args[a])].space == TCC_SPACE_OBJECT ||
                                (a >= s->nin && pl->measured[root(pl, s->args[a])])))
            return false;
    return true;
}

void place_tell_host_customs(const struct place *pl, const struct kn_steps *steps)
{
    for (int i = 0; i < steps->n; i++) {
        const struct kn_step *s = &steps->at[i];
        const struct ir_custom *x = s->kind == TCC_STEP_LIB ? ir_custom_find(pl->ctx, s->lib) : NULL;
        if (x && !is_device_code(pl, s))
            ir_detail(pl->ctx, "node '%s': custom operator '%s' runs on the host: %s", ir_shown(s->node ? s->node : ""),
                      ir_shown(s->lib),
                      !pl->customs ? "the target runs no users' device code"
                      : !x->device ? "it has no device code"
                                   : "sizes of its results are known when it has run");
        for (int r = 0; r < s->nregions; r++)
            place_tell_host_customs(pl, &s->regions[r].steps);
    }
}

int place_runs_on(struct place *pl, const struct kn_step *s)
{
    bool device = is_device_code(pl, s) || s->kind == TCC_STEP_SEND || s->kind == TCC_STEP_RECV ||
                  (s->kind == TCC_STEP_COLLECTIVE && s->what != TCC_IS_OWNER) ||
                  (s->kind == TCC_STEP_LAUNCH && !pl->host_kernel[pl->launch++]);
    return device ? DEVICE : HOST;
}

static bool may_be_host_kernel(const struct place *pl, const struct kn_step *s)
{
    int64_t bytes;
    for (int a = 0; a < s->nargs; a++) {
        const struct kn_buffer *b = &pl->buffers.at[root(pl, s->args[a])];
        enum tcc_class class = tcc_dtype_class(b->dtype);
        bool writes = kn_use(s, a) != KN_IN;
        if ((class != TCC_CLASS_INT && class != TCC_CLASS_UINT && class != TCC_CLASS_BOOL) || !b->bytes ||
            !ir_is_const(b->bytes, &bytes) || bytes > SMALL || b->space == TCC_SPACE_STATE ||
            (writes && b->space == TCC_SPACE_OUTPUT))
            return false;
    }
    return true;
}

static void note(struct place *pl, uint8_t *of, int buffer, int memory)
{
    if (buffer >= 0)
        of[root(pl, buffer)] |= (uint8_t)(1 << memory);
}

/* Who reads and writes buffers. What borders hand over counts as read by the device, but for what the walker looks
 * at. */
static void find_accesses(struct place *pl, const struct kn_steps *steps)
{
    for (int i = 0; i < steps->n; i++) {
        const struct kn_step *s = &steps->at[i];
        if (s->kind == KN_STEP_WAIT || place_is_dense_copy(pl, s))
            continue;
        int m = place_runs_on(pl, s);
        for (int a = 0; a < s->nargs; a++) {
            if (kn_use(s, a) != KN_OUT)
                note(pl, pl->reads, s->args[a], m);
            if (kn_use(s, a) != KN_IN)
                note(pl, pl->writes, s->args[a], m);
        }
        for (int r = 0; r < s->nregions; r++) {
            const struct kn_region *g = &s->regions[r];
            bool loop = s->kind == TCC_STEP_LOOP;
            for (int k = 0; k < g->nresults; k++)
                note(pl, pl->reads, g->results[k], loop && k == 0 ? HOST : DEVICE);
            find_accesses(pl, &g->steps);
        }
    }
}

/* A copy's source is read where its destination is. */
static bool follow_copies(struct place *pl, const struct kn_steps *steps)
{
    bool changed = false;
    for (int i = 0; i < steps->n; i++) {
        const struct kn_step *s = &steps->at[i];
        for (int r = 0; r < s->nregions; r++)
            changed |= follow_copies(pl, &s->regions[r].steps);
        if (!place_is_dense_copy(pl, s))
            continue;
        int from = root(pl, s->args[0]), to = root(pl, s->args[1]);
        uint8_t reads = pl->reads[to];
        if (pl->buffers.at[to].space == TCC_SPACE_STATE)
            reads = pl->first[from] ? 0 : (uint8_t)(reads | 1 << DEVICE);
        changed |= (pl->reads[from] | reads) != pl->reads[from];
        pl->reads[from] |= reads;
    }
    return changed;
}

/* Host kernels: those that may be, all of whose results are read, and only on the host. */
static bool choose_host_kernels(struct place *pl, const struct kn_steps *steps, bool first)
{
    bool changed = false;
    for (int i = 0; i < steps->n; i++) {
        const struct kn_step *s = &steps->at[i];
        if (s->kind == TCC_STEP_LAUNCH) {
            bool *host = &pl->host_kernel[pl->launch++], keep = first ? may_be_host_kernel(pl, s) : *host;
            bool must = pl->refused[s->kernel->id];
            keep |= must;
            for (int a = 0; a < s->nargs && !first && !must; a++)
                keep = keep && (kn_use(s, a) == KN_IN || pl->reads[root(pl, s->args[a])] == 1 << HOST);
            changed |= *host != keep;
            *host = keep;
        }
        for (int r = 0; r < s->nregions; r++)
            changed |= choose_host_kernels(pl, &s->regions[r].steps, first);
    }
    return changed;
}

void place_decide_steps(struct place *pl)
{
    const struct kn_program *p = pl->p;
    int launches = 0;
    for (int e = 0; e < p->nentries; e++)
        launches += kn_count_steps(&p->entries[e].steps);
    pl->host_kernel = IR_NEWN(pl->ctx, launches + 1, bool);
    for (bool first = true, changed = true; changed; first = false) {
        memset(pl->reads, 0, (size_t)pl->n);
        memset(pl->writes, 0, (size_t)pl->n);
        pl->launch = 0;
        for (int e = 0; e < p->nentries && !first; e++)
            find_accesses(pl, &p->entries[e].steps);
        for (bool more = !first; more;) {
            more = false;
            for (int e = 0; e < p->nentries; e++)
                more |= follow_copies(pl, &p->entries[e].steps);
        }
        pl->launch = 0;
        changed = first;
        for (int e = 0; e < p->nentries; e++)
            changed |= choose_host_kernels(pl, &p->entries[e].steps, first);
    }
}
