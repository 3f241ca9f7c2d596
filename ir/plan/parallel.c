/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parallel.c - which loops may run at the same time, as the regions of a PARALLEL step do: loops on the host whose
 * bodies are launches and copies, of which none touches what another writes, as the two directions of a recurrent
 * layer.
 *
 * Two may store to one buffer where they do so apart: at positions that differ in what is left of them modulo a stride,
 * as the directions' halves of each row of the layer's result.
 */
#include <stdlib.h>

#include "ir/text/kernel_words_int.h"

enum { MOST_STEPS = 64, MOST_ACCESSES = 512 };

struct access {
    int buffer;
    bool write;
    const struct kn_step *launch; /* NULL: all of the buffer */
    int arg;
};
struct accesses {
    int n;
    bool known; /* these are all */
    struct access at[MOST_ACCESSES];
};

static void add(struct accesses *to, int buffer, bool write, const struct kn_step *launch, int arg)
{
    if (buffer < 0)
        return;
    to->known = to->known && to->n < MOST_ACCESSES;
    if (to->known)
        to->at[to->n++] = (struct access){buffer, write, launch, arg};
}

static void add_list(struct accesses *to, int n, const int *buffers, bool write)
{
    for (int i = 0; buffers && i < n; i++)
        add(to, buffers[i], write, NULL, 0);
}

static void collect(struct accesses *to, const struct kn_step *s)
{
    bool plain = s->kind == TCC_STEP_LAUNCH || s->kind == TCC_STEP_COPY || s->kind == TCC_STEP_LIB,
         loop = s->kind == TCC_STEP_LOOP;
    to->known = to->known && (plain || loop) && !s->nversions && !s->queue && !s->event && !s->nwaits;
    for (int a = 0; a < s->nargs; a++)
        add(to, s->args[a], !loop && kn_use(s, a) != KN_IN, s->kind == TCC_STEP_LAUNCH ? s : NULL, a);
    for (int r = 0; r < s->nregions && to->known; r++) {
        const struct kn_region *g = &s->regions[r];
        add_list(to, g->nparams, g->params, true);
        add_list(to, g->nresults, g->results, false);
        add_list(to, g->nresults - 1, g->exits, true);
        for (int i = 0; i < g->steps.n && to->known; i++)
            collect(to, &g->steps.at[i]);
    }
}

/* Do two offsets differ in what is left of them modulo the stride at which `sym` steps through the first? */
static bool differ_by(struct ir_ctx *ctx, ir_expr sym, ir_expr a, ir_expr b)
{
    ir_expr coefficient, rest;
    int64_t stride;
    if (!ir_uses_sym(a, sym) || !ir_linear_in(ctx, a, sym, &coefficient, &rest) || !ir_is_const(coefficient, &stride) ||
        stride == INT64_MIN || llabs(stride) < 2)
        return false;
    ir_expr d = ir_const(ctx, llabs(stride)), x = ir_mod(ctx, a, d), y = ir_mod(ctx, b, d);
    return x->hi < y->lo || y->hi < x->lo;
}

/* Do two offsets never meet, the first one of an access of this kernel? */
static bool never_meet(struct ir_ctx *ctx, const struct kn_kernel *k, ir_expr a, ir_expr b)
{
    for (int i = 0; i < k->ninsns; i++)
        if (k->insns[i].code == KN_INDEX && differ_by(ctx, k->insns[i].expr, a, b))
            return true;
    for (int d = 0; d < k->ndims; d++)
        if (differ_by(ctx, k->dims[d].var, a, b))
            return true;
    return false;
}

/* Are all places that the two launches touch there, one of them writing, apart? */
static bool touch_apart(struct ir_ctx *ctx, const struct access *a, const struct access *b)
{
    if (!a->launch || !b->launch || a->buffer != b->buffer)
        return false;
    const struct kn_kernel *k = a->launch->kernel, *l = b->launch->kernel;
    int x = kn_operand_of(k, a->arg), y = kn_operand_of(l, b->arg);
    if (k->custom || l->custom || k->operands[x].use == KN_PARTIAL || l->operands[y].use == KN_PARTIAL)
        return false;
    for (int i = 0; i < k->ninsns; i++) {
        const struct kn_insn *p = &k->insns[i];
        if (!kn_accesses(p, x))
            continue;
        for (int j = 0; j < l->ninsns; j++) {
            const struct kn_insn *q = &l->insns[j];
            if (!kn_accesses(q, y) || (p->code == KN_LOAD && q->code == KN_LOAD))
                continue;
            if (!never_meet(ctx, k, kn_flat_offset(ctx, &k->operands[x], p->index),
                            kn_flat_offset(ctx, &l->operands[y], q->index)))
                return false;
        }
    }
    return true;
}

bool kn_independent(const struct kn_program *p, const struct kn_step *a, const struct kn_step *b)
{
    struct accesses x = {.known = true}, y = {.known = true};
    collect(&x, a);
    collect(&y, b);
    for (int i = 0; x.known && y.known && i < x.n; i++)
        for (int j = 0; j < y.n; j++)
            if ((x.at[i].write || y.at[j].write) &&
                kn_storage(p->buffers, x.at[i].buffer) == kn_storage(p->buffers, y.at[j].buffer) &&
                !touch_apart(p->module->ctx, &x.at[i], &y.at[j]))
                return false;
    return x.known && y.known;
}

/* A loop that a thread may run by itself: all memory that it touches is there before it begins. */
static bool runs_alone(const struct kn_program *p, const struct kn_step *s)
{
    struct accesses all = {.known = true};
    if (s->kind != TCC_STEP_LOOP || s->nregions != 1 || s->regions[0].steps.n > MOST_STEPS)
        return false;
    for (int i = 0; i < s->regions[0].steps.n; i++) {
        const struct kn_step *inner = &s->regions[0].steps.at[i];
        if (inner->kind != TCC_STEP_COPY && (inner->kind != TCC_STEP_LAUNCH || inner->kernel->custom))
            return false;
    }
    collect(&all, s);
    for (int i = 0; all.known && i < all.n; i++) {
        enum tcc_space space = p->buffers[kn_storage(p->buffers, all.at[i].buffer)].space;
        if (space != TCC_SPACE_ARENA && space != TCC_SPACE_INPUT && space != TCC_SPACE_OUTPUT &&
            space != TCC_SPACE_WEIGHT)
            return false;
    }
    return all.known;
}

bool kn_parallel(const struct kn_program *p, const struct kn_step *a, const struct kn_step *b)
{
    return p->nmemories <= 1 && runs_alone(p, a) && runs_alone(p, b) && kn_independent(p, a, b);
}
