/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_steps.c - steps as the plan has them: their attributes, groups, regions, and what programs read in the control
 * block.
 */
#include "compiler/artifact/plan_int.h"

#include <string.h>

struct control {
    bool *has; /* by expression: is it in the list? */
    VEC(int) list;
};

uint32_t plan_group_number(struct plan_writer *w, const char *name)
{
    uint32_t s = plan_string(w, name);
    int i = 0;
    while (i < w->groups.n && w->groups.at[i].name != s)
        i++;
    if (i == w->groups.n)
        VEC_PUSH(w->ctx, w->groups, (struct tcc_pgroup){s, 0});
    return (uint32_t)i;
}

static uint32_t lib_number(struct plan_writer *w, const char *name)
{
    for (int i = 0; i < w->libs.n; i++)
        if (!strcmp(w->libs.at[i], name))
            return (uint32_t)i;
    VEC_PUSH(w->ctx, w->libs, name);
    return (uint32_t)w->libs.n - 1;
}

/* The attribute by which communication names its group, which becomes a number. */
static bool names_group(const struct kn_step *s, const struct ir_attr *a)
{
    return kn_communicates(s) && a->kind == IR_A_STRING && !strcmp(a->name, "group");
}

static uint32_t group(struct plan_writer *w, const struct kn_step *s)
{
    for (int i = 0; i < s->nattrs; i++)
        if (names_group(s, &s->attrs[i]))
            return plan_group_number(w, s->attrs[i].s);
    return kn_communicates(s) ? plan_group_number(w, s->group ? s->group : "world") : 0;
}

void plan_tensor_attr(struct plan_writer *w, struct tcc_pattr *x, const struct ir_tensor *t)
{
    uint32_t dims[TCC_MAX_RANK];
    x->kind = TCC_ATTR_TENSOR;
    x->n = 1;
    x->dtype = t->dtype;
    x->rank = t->rank;
    for (int d = 0; d < t->rank; d++)
        dims[d] = (uint32_t)t->dims[d];
    x->dims = plan_list(w, t->rank, dims);
    if (t->dtype == TCC_STRING) {
        uint32_t *u = IR_NEWN(w->ctx, t->nelems + 1, uint32_t);
        for (int64_t j = 0; j < t->nelems; j++) {
            const struct tcc_string *text = ir_tensor_at(t, j);
            char *copy = ir_alloc(w->ctx, (size_t)text->size + 1); /* zeroed: terminated */
            if (text->size)
                memcpy(copy, text->data, (size_t)text->size);
            u[j] = plan_string(w, copy);
        }
        x->data = plan_list(w, (int)t->nelems, u).first;
        return;
    }
    size_t size = (size_t)tcc_dtype_bytes(t->dtype);
    uint8_t *elements = IR_NEWN(w->ctx, size * (size_t)t->nelems + 1, uint8_t);
    for (int64_t j = 0; j < t->nelems; j++)
        memcpy(elements + size * (size_t)j, ir_tensor_at(t, j), size);
    x->data = plan_data(w, elements, size * (size_t)t->nelems);
}

static struct tcc_range attrs(struct plan_writer *w, const struct kn_step *s)
{
    struct tcc_range r = {(uint32_t)w->attrs.n, 0};
    for (int i = 0; i < s->nattrs; i++) {
        const struct ir_attr *a = &s->attrs[i];
        if (names_group(s, a))
            continue;
        r.count++;
        struct tcc_pattr x = {.name = plan_string(w, a->name), .n = (uint32_t)a->n};
        if (a->kind == IR_A_INTS || a->kind == IR_A_INT) {
            x.kind = TCC_ATTR_INTS;
            x.n = a->kind == IR_A_INT ? 1 : a->n;
            x.data = plan_data(w, a->kind == IR_A_INT ? &a->i : a->ints, 8 * (size_t)x.n);
        } else if (a->kind == IR_A_FLOATS || a->kind == IR_A_FLOAT) {
            x.kind = TCC_ATTR_FLOATS;
            x.n = a->kind == IR_A_FLOAT ? 1 : a->n;
            x.data = plan_data(w, a->kind == IR_A_FLOAT ? &a->f : a->floats, 8 * (size_t)x.n);
        } else if (a->kind == IR_A_STRINGS || a->kind == IR_A_STRING) {
            x.kind = TCC_ATTR_STRINGS;
            x.n = a->kind == IR_A_STRING ? 1 : a->n;
            uint32_t *u = IR_NEWN(w->ctx, x.n + 1, uint32_t);
            for (uint32_t j = 0; j < x.n; j++)
                u[j] = plan_string(w, a->kind == IR_A_STRING ? a->s : a->strings[j]);
            x.data = plan_list(w, (int)x.n, u).first;
        } else {
            plan_tensor_attr(w, &x, a->t);
        }
        VEC_PUSH(w->ctx, w->attrs, x);
    }
    return r;
}

static struct tcc_range regions(struct plan_writer *w, const struct kn_step *s)
{
    struct tcc_pregion *made = IR_NEWN(w->ctx, s->nregions + 1, struct tcc_pregion);
    for (int i = 0; i < s->nregions; i++) {
        const struct kn_region *g = &s->regions[i];
        int nexits = g->nresults - (s->kind == TCC_STEP_LOOP);
        made[i].steps = plan_steps(w, &g->steps);
        made[i].params = plan_int_list(w, g->nparams, g->params);
        made[i].results = plan_int_list(w, g->nresults, g->results);
        made[i].exits = plan_int_list(w, g->exits ? nexits : 0, g->exits);
    }
    struct tcc_range r = {(uint32_t)w->regions.n, (uint32_t)s->nregions};
    for (int i = 0; i < s->nregions; i++)
        VEC_PUSH(w->ctx, w->regions, made[i]);
    return r;
}

static struct tcc_pstep step(struct plan_writer *w, const struct kn_step *s)
{
    struct tcc_pstep x = {
        .kind = s->kind, .queue = (uint32_t)s->queue, .what = (uint32_t)s->what, .nin = (uint32_t)s->nin};
    x.node = plan_string(w, s->node);
    x.op = s->op ? plan_string(w, s->op) + 1 : 0;
    x.checks = s->checks ? plan_string(w, s->checks) + 1 : 0;
    x.args = plan_int_list(w, s->nargs, s->args);
    x.sizes = plan_expr_list(w, s->nsizes, s->sizes);
    uint32_t *syms = IR_NEWN(w->ctx, s->nsyms + 1, uint32_t);
    for (int i = 0; i < s->nsyms; i++)
        syms[i] = s->syms[i] ? (uint32_t)plan_sym_number(w, s->syms[i]) : TCC_NO;
    x.syms = plan_list(w, s->nsyms, syms);
    x.attrs = attrs(w, s);
    x.regions = regions(w, s);
    x.waits = plan_int_list(w, s->nwaits, s->waits);
    x.group = group(w, s);
    x.tiles = s->tiles ? plan_expr(w, s->tiles) : TCC_NO;
    x.scratch = s->scratch ? plan_expr(w, s->scratch) : TCC_NO;
    x.combining = s->combining ? plan_expr(w, s->combining) : TCC_NO;
    x.flops = TCC_NO;
    if (s->kind == TCC_STEP_LAUNCH) { /* a kernel's own symbols stand for this step's sizes */
        x.what = (uint32_t)s->kernel->id;
        w->kernels.at[x.what].flags |= w->queues.at[x.queue].memory ? TCC_KERNEL_DEVICE : TCC_KERNEL_HOST;
        w->kernels.at[x.what].flags |= s->kernel->custom ? TCC_KERNEL_BY_VALUE : 0;
        x.flops = plan_expr(w, ir_subst(w->ctx, s->kernel->flops, s->nsizes, s->kernel->sizes, s->sizes));
    }
    if (s->kind == TCC_STEP_BATCH)
        x.what = (uint32_t)s->regions[0].steps.at[0].kernel->id;
    if (s->kind == TCC_STEP_LIB)
        x.what = lib_number(w, s->lib);
    if (s->kind == TCC_STEP_PROGRAM)
        x.sizes = plan_control(w, &s->regions[0].steps, true);
    return x;
}

struct tcc_range plan_steps(struct plan_writer *w, const struct kn_steps *s)
{
    struct tcc_pstep *made = IR_NEWN(w->ctx, s->n + 1, struct tcc_pstep);
    for (int i = 0; i < s->n; i++)
        made[i] = step(w, &s->at[i]);
    struct tcc_range r = {(uint32_t)w->steps.n, (uint32_t)s->n};
    for (int i = 0; i < s->n; i++) {
        while (w->event_step.n <= s->at[i].event)
            VEC_PUSH(w->ctx, w->event_step, 0);
        w->event_step.at[s->at[i].event] = (uint32_t)w->steps.n;
        VEC_PUSH(w->ctx, w->steps, made[i]);
    }
    return r;
}

/* Adds what a program's launches of a list read in the control block: sizes and numbers of tiles of launches of which
 * something differs from run to run; those that are known when a run begins, or the others. */
static void control_of(struct plan_writer *w, const struct kn_steps *s, bool program, bool late, struct control *to)
{
    for (int i = 0; i < s->n; i++) {
        const struct kn_step *x = &s->at[i];
        for (int r = 0; r < x->nregions; r++)
            control_of(w, &x->regions[r].steps, program || x->kind == TCC_STEP_PROGRAM, late, to);
        if (!program || x->kind != TCC_STEP_LAUNCH)
            continue;
        bool varies = false;
        for (int k = 0; k < x->nsizes + 2; k++) {
            ir_expr e = k < x->nsizes ? x->sizes[k] : k == x->nsizes ? x->tiles : x->combining;
            varies |= e && e->kind != IR_X_CONST;
        }
        for (int k = 0; varies && k < x->nsizes + 2; k++) {
            ir_expr e = k < x->nsizes ? x->sizes[k] : k == x->nsizes ? x->tiles : x->combining;
            if (!e || to->has[plan_expr(w, e)] || (w->exprs.at[plan_expr(w, e)].level > 0) != late)
                continue;
            to->has[plan_expr(w, e)] = true;
            VEC_PUSH(w->ctx, to->list, (int)plan_expr(w, e));
        }
    }
}

struct tcc_range plan_control(struct plan_writer *w, const struct kn_steps *s, bool program)
{
    if (program && w->levels < 2)
        return (struct tcc_range){0, 0};
    struct control c = {.has = IR_NEWN(w->ctx, w->exprs.n + 1, bool)};
    control_of(w, s, program, program, &c);
    return plan_int_list(w, c.list.n, c.list.at);
}
