/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state.c - updates in place. A new value of a state variable is computed into the arena and copied to the variable at
 * the end; where nobody reads the old value after the launch that computes the new one, that launch writes the variable
 * itself, and the copy goes. The launch may read the old value, point by point at the place that it writes (an optimizer's update).
 * Values that a loop carries are state variables of this kind: what an iteration makes of them needs no copy into the next one.
 */
#include "passes/lower/lower_int.h"

#include <string.h>

/* Where a buffer is met, in the order of the entry's steps (regions in between). */
struct place {
    struct kn_steps *list;
    struct kn_step *step;
    int position;
};

struct updates {
    struct lw *lw;
    VEC(struct place) places;
};

static void collect(struct updates *u, struct kn_steps *steps)
{
    for (int i = 0; i < steps->n; i++) {
        struct place p = {steps, &steps->at[i], u->places.n};
        VEC_PUSH(u->lw->ctx, u->places, p);
        for (int r = 0; r < steps->at[i].nregions; r++)
            collect(u, &steps->at[i].regions[r].steps);
    }
}

/* Operand numbers of a launch's buffers: its arguments leave TEMPs out. */
static int operand_of(const struct kn_kernel *k, int arg)
{
    for (int i = 0; i < k->noperands; i++)
        if (k->operands[i].use != KN_TEMP && arg-- == 0)
            return i;
    return -1;
}

/* Stage of an instruction. */
static int stage_of(const struct kn_kernel *k, int insn)
{
    int s = 0;
    while (insn >= k->stages[s].last)
        s++;
    return s;
}

/* Is every load of operand `in` at the point that the one store to `out` writes, in the store's stage? Each point is then read
 * before it is written, and by nobody else. */
static bool pointwise(const struct kn_kernel *k, int in, int out)
{
    const struct kn_operand *a = &k->operands[in], *b = &k->operands[out];
    int store = -1;
    if (a->rank != b->rank || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims))
        return false;
    for (int i = 0; i < k->ninsns; i++)
        if (k->insns[i].code == KN_STORE && k->insns[i].operand == out) {
            if (store >= 0)
                return false;
            store = i;
        }
    for (int i = 0; i < k->ninsns; i++)
        if (k->insns[i].code == KN_LOAD && k->insns[i].operand == in &&
            (store < i || !lw_same_index(&k->insns[i], &k->insns[store]) || stage_of(k, i) != stage_of(k, store)))
            return false;
    return store >= 0;
}

/* Operand `in` becomes operand `out`, which is read as well. Its argument is taken from the step. */
static void merge_operands(struct kn_step *s, int arg, int in, int out)
{
    struct kn_kernel *k = s->kernel;
    k->operands[out].use = KN_INOUT;
    for (int i = 0; i < k->ninsns; i++)
        if (k->insns[i].code == KN_LOAD || k->insns[i].code == KN_STORE) {
            if (k->insns[i].operand == in)
                k->insns[i].operand = out;
            if (k->insns[i].operand > in)
                k->insns[i].operand--;
        }
    for (int i = in; i + 1 < k->noperands; i++)
        k->operands[i] = k->operands[i + 1];
    k->noperands--;
    k->contraction.a -= k->contraction.a > in;
    k->contraction.b -= k->contraction.b > in;
    for (int i = arg; i + 1 < s->nargs; i++)
        s->args[i] = s->args[i + 1];
    s->nargs--;
}

/* The launch that writes `from` before position `copy`: its only writer, in the copy's list. NULL: none such. */
static struct place *writer_of(struct updates *u, int from, const struct place *copy)
{
    struct place *writer = NULL;
    for (int i = 0; i < u->places.n; i++) {
        struct place *p = &u->places.at[i];
        if (!lw_names(u->lw, p->step, from) || p == copy)
            continue;
        if (p->step->kind == TCC_STEP_LAUNCH && !writer && p->list == copy->list && p->position < copy->position)
            writer = p; /* the first to touch it writes it */
        else if (!writer)
            return NULL;
        else if (p->step->kind == TCC_STEP_LAUNCH)
            for (int a = 0; a < p->step->nargs; a++)
                if (lw_storage(u->lw, p->step->args[a]) == from &&
                    p->step->kernel->operands[operand_of(p->step->kernel, a)].use != KN_IN)
                    return NULL;
    }
    return writer;
}

static int argument(const struct kn_step *s, int buffer, bool output)
{
    int found = -1;
    for (int a = 0; a < s->nargs; a++) {
        bool writes = s->kernel->operands[operand_of(s->kernel, a)].use != KN_IN;
        if (s->args[a] == buffer && writes == output)
            found = found < 0 ? a : -2;
    }
    return found;
}

static void rename_buffer(struct updates *u, int from, int to)
{
    for (int i = 0; i < u->places.n; i++) {
        struct kn_step *s = u->places.at[i].step;
        for (int a = 0; a < s->nargs; a++)
            if (s->args[a] == from)
                s->args[a] = to;
    }
}

static bool has_alias(const struct lw *lw, int buffer)
{
    for (int i = 0; i < lw->buffers.n; i++)
        if (lw->buffers.at[i].space == TCC_SPACE_ALIAS && lw_storage(lw, i) == buffer)
            return true;
    return false;
}

/* Lets the writer of copy's source write the variable itself. */
static bool update_in_place(struct updates *u, const struct place *copy)
{
    struct lw *lw = u->lw;
    int from = copy->step->args[0], to = copy->step->args[1];
    const struct kn_buffer *b = &lw->buffers.at[from], *state = &lw->buffers.at[to];
    if (b->space != TCC_SPACE_ARENA || b->layout || b->dtype != state->dtype || b->bytes != state->bytes ||
        has_alias(lw, from))
        return false;
    struct place *writer = writer_of(u, from, copy);
    if (!writer)
        return false;
    for (int i = writer->position; i < u->places.n; i++) /* a run that fails leaves the state as it was */
        if (lw_may_fail(u->places.at[i].step))
            return false;
    for (int i = writer->position + 1; i < u->places.n; i++) /* the old value must be out of use */
        if (&u->places.at[i] != copy && lw_names(lw, u->places.at[i].step, to))
            return false;
    for (int i = 0; i < u->places.n; i++) /* regions name buffers in ways that are not renamed here */
        if (u->places.at[i].step->nregions && lw_names(lw, u->places.at[i].step, from))
            return false;
    struct kn_step *s = writer->step;
    int out = argument(s, from, true), in = argument(s, to, false);
    if (out < 0 || in == -2 || (in == -1 && lw_names(lw, s, to)))
        return false;
    if (in >= 0) {
        int o = operand_of(s->kernel, out), i = operand_of(s->kernel, in);
        if (!pointwise(s->kernel, i, o))
            return false;
        merge_operands(s, in, i, o);
    }
    rename_buffer(u, from, to);
    return true;
}

/* -- Carried values */

static int times_listed(int n, const int *list, int buffer)
{
    int times = 0;
    for (int i = 0; i < n; i++)
        times += list[i] == buffer;
    return times;
}

/* The launch of the body that alone writes `from`, before anyone reads it and after which nobody names `to`; -1: none such. */
static int carrying_launch(struct lw *lw, const struct kn_steps *steps, int from, int to)
{
    int writer = -1;
    for (int i = 0; i < steps->n; i++) {
        const struct kn_step *s = &steps->at[i];
        bool names = lw_names(lw, s, from);
        if (s->nregions && (lw_touches(lw, s, from) || lw_touches(lw, s, to)))
            return -1;
        if (writer >= 0 && lw_names(lw, s, to))
            return -1;
        if (!names)
            continue;
        if (s->kind != TCC_STEP_LAUNCH && (writer < 0 || s->kind != TCC_STEP_COPY || s->args[1] == from))
            return -1;
        if (s->kind == TCC_STEP_LAUNCH && argument(s, from, true) != -1) {
            if (writer >= 0)
                return -1;
            writer = i;
        } else if (writer < 0) {
            return -1;
        }
    }
    return writer;
}

/* Lets the launch that computes carried value i for the next iteration write it where the next iteration reads it. */
static void carry_in_place(struct lw *lw, struct kn_region *g, int i)
{
    int from = g->results[1 + i], to = g->params[2 + i];
    if (from < 0 || to < 0 || from == to)
        return;
    const struct kn_buffer *a = &lw->buffers.at[from], *b = &lw->buffers.at[to];
    if (a->space != TCC_SPACE_ARENA || b->space != TCC_SPACE_ARENA || a->layout || b->layout || a->dtype != b->dtype ||
        a->bytes != b->bytes || has_alias(lw, from) || has_alias(lw, to) ||
        times_listed(g->nresults, g->results, from) != 1 || times_listed(g->nresults, g->results, to) ||
        times_listed(g->nparams, g->params, to) != 1 || times_listed(g->nparams, g->params, from))
        return;
    int w = carrying_launch(lw, &g->steps, from, to);
    if (w < 0)
        return;
    struct kn_step *s = &g->steps.at[w];
    int out = argument(s, from, true), in = argument(s, to, false);
    if (out < 0 || in == -2 || (in == -1 && lw_names(lw, s, to)))
        return;
    if (in >= 0) {
        int o = operand_of(s->kernel, out), x = operand_of(s->kernel, in);
        if (!pointwise(s->kernel, x, o))
            return;
        merge_operands(s, in, x, o);
    }
    for (int j = 0; j < g->steps.n; j++)
        for (int k = 0; k < g->steps.at[j].nargs; k++)
            if (g->steps.at[j].args[k] == from)
                g->steps.at[j].args[k] = to;
    g->results[1 + i] = to;
}

static void carry_all(struct lw *lw, struct kn_steps *steps)
{
    for (int i = 0; i < steps->n; i++) {
        struct kn_step *s = &steps->at[i];
        for (int r = 0; r < s->nregions; r++)
            carry_all(lw, &s->regions[r].steps);
        for (int c = 0; s->kind == TCC_STEP_LOOP && c < s->regions[0].nresults - 1; c++)
            carry_in_place(lw, &s->regions[0], c);
    }
}

/* Takes out the copies that update_in_place() has made of no effect. */
static void drop_copies(struct kn_steps *steps)
{
    int n = 0;
    for (int i = 0; i < steps->n; i++) {
        struct kn_step *s = &steps->at[i];
        for (int r = 0; r < s->nregions; r++)
            drop_copies(&s->regions[r].steps);
        if (s->kind != TCC_STEP_COPY || s->args[0] != s->args[1])
            steps->at[n++] = *s;
    }
    steps->n = n;
}

void lw_update_in_place(struct lw *lw, struct kn_entry *e)
{
    struct updates u = {.lw = lw};
    collect(&u, &e->steps);
    for (int i = 0; i < u.places.n; i++) {
        const struct kn_step *s = u.places.at[i].step;
        if (s->kind == TCC_STEP_COPY && lw->buffers.at[s->args[1]].space == TCC_SPACE_STATE && s->args[0] != s->args[1])
            update_in_place(&u, &u.places.at[i]);
    }
    drop_copies(&e->steps);
    carry_all(lw, &e->steps);
}
