/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elide.c - copies between a buffer and a state variable, or between what a loop's body yields and its carried
 * parameters, go where both can be the same memory.
 *
 * Lowering copies a variable to a buffer where it is read and a buffer to the variable where it is written: each
 * version of the variable that somebody uses has memory of its own. One interference query decides which of these
 * buffers may be the variable itself (Chaitin, 1982, with the rule that a copy makes no interference: behind it both
 * hold the same value): nobody may read one's value behind a write of another value to the other. Control flow is the
 * plan's tree of regions: the branches of an if exclude each other, and what stands in a loop comes again, in front of
 * as well as behind what else stands there.
 *
 * A launch that computes a variable's new value may then read the old one point by point at the place that it writes
 * (an optimizer's update): the two operands become one.
 */
#include "passes/lower_int.h"
#include "base/mutant.h"

#include <string.h>

/* A point of the plan: a step and its arguments, or the end of one of its regions, where results are handed over. */
struct point {
    struct kn_steps *list; /* that the step stands in; a region's end: the region's */
    struct kn_step *step;
    struct kn_region *region; /* NULL: the step itself */
    int up, branch;           /* place of the step around it, and which of its regions; -1: none */
    int end;                  /* behind its last region's end */
};

struct access {
    int at;
    bool reads, writes;
};

struct elision {
    struct lw *lw;
    VEC(struct point) points;
    VEC(struct access) * of; /* by buffer that is no alias */
    bool *aliased;           /* by buffer: others are parts of it */
    int last_failing;        /* place */
};

/* -- Accesses ------------------------------------------------------------------------------------------------- */

static void note(struct elision *e, int buffer, int at, bool reads, bool writes)
{
    if (buffer < 0)
        return;
    buffer = lw_storage(e->lw, buffer);
    int n = e->of[buffer].n;
    if (n && e->of[buffer].at[n - 1].at == at) {
        e->of[buffer].at[n - 1].reads |= reads;
        e->of[buffer].at[n - 1].writes |= writes;
    } else {
        VEC_PUSH(e->lw->ctx, e->of[buffer], (struct access){at, reads, writes});
    }
}

static void collect(struct elision *e, struct kn_steps *steps, int up, int branch)
{
    for (int i = 0; i < steps->n; i++) {
        struct kn_step *s = &steps->at[i];
        int here = e->points.n;
        VEC_PUSH(e->lw->ctx, e->points, (struct point){steps, s, NULL, up, branch, 0});
        for (int a = 0; a < s->nargs; a++) {
            enum kn_operand_use use = kn_use(s, a);
            note(e, s->args[a], here, use != KN_OUT, use != KN_IN);
        }
        if (lw_may_fail(s))
            e->last_failing = here;
        for (int r = 0; r < s->nregions; r++) {
            struct kn_region *g = &s->regions[r];
            for (int p = 0; p < g->nparams; p++)
                note(e, g->params[p], here, true, p < 2);
            collect(e, &g->steps, here, r);
            int end = e->points.n;
            VEC_PUSH(e->lw->ctx, e->points, (struct point){&g->steps, s, g, here, r, end + 1});
            for (int k = 0; k < g->nresults; k++)
                note(e, g->results[k], end, true, false);
            for (int k = 0; g->exits && k < g->nresults - (s->kind == TCC_STEP_LOOP); k++)
                note(e, g->exits[k], end, false, true);
        }
        e->points.at[here].end = e->points.n;
    }
}

static void analyse(struct elision *e, struct kn_entry *entry)
{
    struct lw *lw = e->lw;
    e->of = ir_alloc_n(lw->ctx, (size_t)lw->buffers.n + 1, sizeof *e->of);
    e->aliased = IR_NEWN(lw->ctx, lw->buffers.n + 1, bool);
    e->last_failing = -1;
    for (int b = 0; b < lw->buffers.n; b++)
        if (lw->buffers.at[b].space == TCC_SPACE_ALIAS)
            e->aliased[lw_storage(lw, b)] = true;
    collect(e, &entry->steps, -1, -1);
}

/* -- Interference ------------------------------------------------------------------------------------------------- */

static bool holds(const struct elision *e, int step, int point)
{
    return step < point && point < e->points.at[step].end;
}

/* Do the two stand in different branches of an if? */
static bool exclusive(const struct elision *e, int a, int b)
{
    for (; e->points.at[a].up >= 0; a = e->points.at[a].up) {
        int step = e->points.at[a].up, in = b;
        if (!holds(e, step, b))
            continue;
        while (e->points.at[in].up != step)
            in = e->points.at[in].up;
        return e->points.at[in].branch != e->points.at[a].branch;
    }
    return false;
}

/* May a run come from `from` to `to` without passing `barrier`, which lies on every way to `to` from in front of it, or
 * on every way from `from` to behind it? */
static bool reaches(const struct elision *e, int from, int to, int barrier)
{
    for (int up = e->points.at[from].up; up >= 0; up = e->points.at[up].up)
        if (e->points.at[up].step->kind == TCC_STEP_LOOP && holds(e, up, to) && !holds(e, up, barrier))
            return true;
    return from < to && !(from < barrier && barrier < to) && !exclusive(e, from, to);
}

/* Does the place hand over b to w: a COPY, or a value that a loop's body yields? */
static bool hands_over(const struct elision *e, int point, int b, int w)
{
    const struct point *p = &e->points.at[point];
    if (!p->region)
        return p->step->kind == TCC_STEP_COPY && p->step->args[0] == b && p->step->args[1] == w;
    for (int i = 0; p->step->kind == TCC_STEP_LOOP && i < p->region->nresults - 1; i++)
        if (p->region->results[1 + i] == b && p->region->params[2 + i] == w)
            return true;
    return false;
}

/* Where b's value, written at `from`, becomes w's in the same list; -1: nowhere. */
static int handed_over_at(const struct elision *e, int b, int w, int from)
{
    for (int i = 0; i < e->of[b].n; i++) {
        int at = e->of[b].at[i].at;
        if (at > from && e->points.at[at].list == e->points.at[from].list && hands_over(e, at, b, w))
            return at;
    }
    return -1;
}

/*
 * Would it show if w's memory were b's too? b's first access writes it, in front of all others. Where w gets another
 * value than b has, nobody may read b behind; where b gets one that w has not, w must get it too, in the same list, and
 * nobody may meet w in between. Step `update`, -1: none, writes b and may read w.
 */
static bool interferes(const struct elision *e, int b, int w, int update)
{
    for (int i = 0; i < e->of[w].n; i++) {
        const struct access *x = &e->of[w].at[i];
        if (!x->writes || hands_over(e, x->at, b, w))
            continue;
        for (int j = 0; j < e->of[b].n; j++)
            if (e->of[b].at[j].reads &&
                (e->of[b].at[j].at == x->at || reaches(e, x->at, e->of[b].at[j].at, e->of[b].at[0].at)))
                return MUTANT(170, true, false);
    }
    for (int j = 0; j < e->of[b].n; j++) {
        int at = e->of[b].at[j].at;
        if (!e->of[b].at[j].writes || hands_over(e, at, w, b))
            continue;
        int end = handed_over_at(e, b, w, at);
        if (end < 0)
            return true;
        for (int i = 0; i < e->of[w].n; i++)
            if (e->of[w].at[i].at >= at && e->of[w].at[i].at < end && e->of[w].at[i].at != update)
                return true;
    }
    return false;
}

/* -- Making two buffers one --------------------------------------------------------------------------------------- */

static void replace(int n, int *list, int from, int to)
{
    for (int i = 0; i < n; i++)
        if (list[i] == from)
            list[i] = to;
}

/* A copy of variable w's version `to` into itself goes; `from`, which it made, is no other version. */
static void same_version(struct elision *e, int w, int from, int to)
{
    for (int i = 0; i < e->of[w].n; i++) {
        struct kn_step *s = e->points.at[e->of[w].at[i].at].step;
        for (int k = 0; k < s->nversions; k++)
            if (s->versions[k].buffer == w && s->versions[k].reads == from)
                s->versions[k].reads = to;
    }
}

/* Steps that access b will access variable w: they say which version. */
static void take_versions(struct elision *e, int b, int w)
{
    int version = -1;
    for (int i = 0; i < e->of[b].n; i++) {
        const struct access *a = &e->of[b].at[i];
        const struct point *p = &e->points.at[a->at];
        if (hands_over(e, a->at, w, b))
            version = lw_version(e->lw, p->step, w)->reads;
        else if (hands_over(e, a->at, b, w))
            same_version(e, w, lw_version(e->lw, p->step, w)->makes, version);
        else if (!p->region) {
            if (a->reads)
                lw_version(e->lw, p->step, w)->reads = version;
            if (a->writes) {
                if (version >= 0) /* a part of it is overwritten */
                    lw_version(e->lw, p->step, w)->reads = version;
                version = lw_version(e->lw, e->points.at[handed_over_at(e, b, w, a->at)].step, w)->makes;
                lw_version(e->lw, p->step, w)->makes = version;
            }
        }
    }
}

static void rename_buffer(struct elision *e, int from, int to)
{
    if (e->lw->buffers.at[to].space == TCC_SPACE_STATE)
        take_versions(e, from, to);
    for (int i = 0; i < e->of[from].n; i++) {
        struct point *p = &e->points.at[e->of[from].at[i].at];
        if (p->region)
            replace(p->region->nresults, p->region->results, from, to);
        else
            replace(p->step->nargs, p->step->args, from, to);
        VEC_PUSH(e->lw->ctx, e->of[to], e->of[from].at[i]);
    }
    e->of[from].n = 0;
}

/* A plain buffer of the arena that is as large as w, and of which no other is a part. */
static bool can_be(const struct elision *e, int b, int w)
{
    const struct kn_buffer *from = &e->lw->buffers.at[b], *to = &e->lw->buffers.at[w];
    return from->space == TCC_SPACE_ARENA && !from->layout && !to->layout && from->dtype == to->dtype &&
           from->bytes == to->bytes && !e->aliased[b] && !e->aliased[w];
}

/* A read: the buffer gets the variable's value, and another only from a collective step that works in place. */
static void elide_read(struct elision *e, int copy)
{
    const struct kn_step *s = e->points.at[copy].step;
    int w = s->args[0], b = s->args[1];
    if (!can_be(e, b, w) || e->of[b].at[0].at != copy)
        return;
    for (int i = 1; i < e->of[b].n; i++) {
        const struct point *p = &e->points.at[e->of[b].at[i].at];
        if (e->of[b].at[i].writes &&
            (p->region || (p->step->kind != TCC_STEP_COLLECTIVE && p->step->kind != KN_STEP_WAIT)))
            return;
    }
    if (!interferes(e, b, w, -1) && lw_may_change(e->lw))
        rename_buffer(e, b, w);
}

/* Is every load of operand `in` at the point that the one store to `out` writes, in the store's stage? Each point is
 * then read before it is written, and by nobody else. */
static bool pointwise(const struct kn_kernel *k, int in, int out)
{
    const struct kn_operand *a = &k->operands[in], *b = &k->operands[out];
    int store = kn_store_to(k, out);
    if (a->rank != b->rank || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims))
        return false;
    for (int i = 0; i < k->ninsns; i++)
        if (k->insns[i].code == KN_LOAD && k->insns[i].operand == in &&
            (store < i || !lw_same_index(&k->insns[i], &k->insns[store]) || kn_stage_of(k, i) != kn_stage_of(k, store)))
            return false;
    return store >= 0;
}

/* Operand `in` becomes operand `out`, which is read as well. Its argument is taken from the step. */
static void merge_operands(struct kn_step *s, int arg, int in, int out)
{
    struct kn_kernel *k = s->kernel;
    k->operands[out].use = KN_INOUT;
    for (int i = 0; i < k->ninsns; i++)
        if ((k->insns[i].code == KN_LOAD || k->insns[i].code == KN_STORE) && k->insns[i].operand == in)
            k->insns[i].operand = out;
    kn_remove_operand(k, in);
    for (int i = arg; i + 1 < s->nargs; i++)
        s->args[i] = s->args[i + 1];
    s->nargs--;
}

/* The step's one argument in that buffer's memory; -1: none, -2: several, or others that are parts of it. */
static int argument(const struct elision *e, const struct kn_step *s, int buffer)
{
    int found = -1;
    for (int a = 0; a < s->nargs; a++)
        if (lw_storage(e->lw, s->args[a]) == buffer)
            found = found < 0 && s->args[a] == buffer ? a : -2;
    return found;
}

/* The launch in the list of place `end` that alone writes b, with all else behind it; -1: none. */
static int only_launch(const struct elision *e, int b, int end)
{
    int first = e->of[b].at[0].at;
    const struct point *p = &e->points.at[first];
    if (p->region || p->step->kind != TCC_STEP_LAUNCH || p->list != e->points.at[end].list || first >= end)
        return -1;
    for (int i = 0; i < e->of[b].n; i++)
        if (e->of[b].at[i].writes != (i == 0))
            return -1;
    return first;
}

/* A write: the launch that computes b's value, handed over to w at place `end`, writes w itself. */
static bool elide_write(struct elision *e, int end, int b, int w)
{
    int at = can_be(e, b, w) ? only_launch(e, b, end) : -1;
    if (at < 0 || interferes(e, b, w, at))
        return false;
    struct kn_step *s = e->points.at[at].step;
    int out = argument(e, s, b), in = argument(e, s, w);
    if (out < 0 || in == -2)
        return false;
    if (in >= 0) {
        int o = kn_operand_of(s->kernel, out), i = kn_operand_of(s->kernel, in);
        if (s->kernel->operands[i].use != KN_IN || !pointwise(s->kernel, i, o))
            return false;
        if (!lw_may_change(e->lw))
            return false;
        merge_operands(s, in, i, o);
    } else if (!lw_may_change(e->lw)) {
        return false;
    }
    rename_buffer(e, b, w);
    return true;
}

/* May what stands in variable w be overwritten although the run may yet fail? */
static bool is_cache(const struct elision *e, int w)
{
    const struct ir_state *s = e->lw->prog->module->states;
    while (s && s->index != e->lw->buffers.at[w].index)
        s = s->next;
    return s && (s->flags & IR_STATE_CACHE);
}

/* An update: b begins as a copy of variable w, a part of it is overwritten, and it becomes w's new value at place
 * `end`. */
static bool elide_update(struct elision *e, int end, int b, int w)
{
    const struct point *first = e->of[b].n ? &e->points.at[e->of[b].at[0].at] : NULL;
    if (!first || !can_be(e, b, w) || !hands_over(e, e->of[b].at[0].at, w, b) || first->list != e->points.at[end].list)
        return false;
    for (int i = 1; i < e->of[b].n; i++) {
        const struct point *p = &e->points.at[e->of[b].at[i].at];
        if (p->region || (e->of[b].at[i].writes && (p->list != first->list || p->step->kind != TCC_STEP_LAUNCH ||
                                                    (e->of[b].at[i].at <= e->last_failing && !is_cache(e, w)))))
            return false;
    }
    if (interferes(e, b, w, -1))
        return false;
    rename_buffer(e, b, w);
    return true;
}

static int times_listed(int n, const int *list, int buffer)
{
    int times = 0;
    for (int i = 0; i < n; i++)
        times += list[i] == buffer;
    return times;
}

/* A carried value: what an iteration makes of it needs no copy into the next one. Yielded values become parameters all
 * at once. */
static void elide_carried(struct elision *e, int end, int i)
{
    struct kn_region *g = e->points.at[end].region;
    int from = g->results[1 + i], to = g->params[2 + i];
    if (from < 0 || to < 0 || from == to || e->lw->buffers.at[to].space != TCC_SPACE_ARENA ||
        times_listed(g->nresults, g->results, from) != 1 || times_listed(g->nresults, g->results, to) ||
        times_listed(g->nparams, g->params, to) != 1 || times_listed(g->nparams, g->params, from))
        return;
    elide_write(e, end, from, to);
}

/* Takes out the copies of a buffer to itself. */
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

void lw_elide_reads(struct lw *lw, struct kn_entry *entry)
{
    struct elision e = {.lw = lw};
    analyse(&e, entry);
    for (int i = 0; i < e.points.n; i++) {
        const struct point *p = &e.points.at[i];
        if (!p->region && p->step->kind == TCC_STEP_COPY && lw->buffers.at[p->step->args[0]].space == TCC_SPACE_STATE)
            elide_read(&e, i);
    }
    drop_copies(&entry->steps);
}

void lw_elide_writes(struct lw *lw, struct kn_entry *entry)
{
    struct elision e = {.lw = lw};
    analyse(&e, entry);
    for (int i = 0; i < e.points.n; i++) {
        const struct point *p = &e.points.at[i];
        const int *args = p->step->args;
        for (int k = 0; p->region && p->step->kind == TCC_STEP_LOOP && k < p->region->nresults - 1; k++)
            elide_carried(&e, i, k);
        /* A run that fails leaves the state as it was. */
        if (!p->region && p->step->kind == TCC_STEP_COPY && lw->buffers.at[args[1]].space == TCC_SPACE_STATE &&
            e.of[args[0]].n && !elide_update(&e, i, args[0], args[1]) && e.of[args[0]].at[0].at > e.last_failing)
            elide_write(&e, i, args[0], args[1]);
    }
    drop_copies(&entry->steps);
}
