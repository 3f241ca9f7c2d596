/* SPDX-License-Identifier: Apache-2.0 */
/*
 * facts.c - checks: what inference takes for granted of the sizes (ir_assumptions) and nothing decides yet is compared
 * before the node runs.
 *
 * What the shape version's guards say, and checks that stand in front, needs no check. Those that the inputs decide
 * stand first, before anything has been written, but for nodes in regions, which may not run at all.
 */
#include "passes/lower_int.h"

#include <string.h>

#include "base/mutant.h"

void lw_know_guards(struct lw *lw)
{
    const struct ir_version *v = lw->func->version;
    struct ir_fact f;
    lw->facts.n = 0;
    for (int i = 0; v && i < v->nguards; i++)
        if (ir_guard_fact(&v->guards[i], &f))
            VEC_PUSH(lw->ctx, lw->facts, f);
}

struct checks {
    struct lw *lw;
    VEC(struct ir_fact) open;
};

static void note(void *user, const struct ir_fact *f)
{
    struct checks *c = user;
    struct lw *lw = c->lw;
    if (!lw_bound(lw, f->a) || !lw_bound(lw, f->b) ||
        MUTANT(320, ir_fact_holds(lw->ctx, f, lw->facts.n, lw->facts.at) == IR_YES, f->relation == IR_LE))
        return;
    VEC_PUSH(lw->ctx, lw->facts, *f);
    VEC_PUSH(lw->ctx, c->open, *f);
}

static bool decided_by_inputs(const struct lw *lw, const struct ir_fact *f)
{
    return lw_level(lw, f->a) == 0 && lw_level(lw, f->b) == 0;
}

static void set_facts(struct lw *lw, struct kn_step *s, const char *why, const struct ir_fact *f, int count)
{
    s->what = f->relation;
    s->nsizes = 2 * count;
    s->sizes = IR_NEWN(lw->ctx, s->nsizes, ir_expr);
    for (int i = 0; i < count; i++) {
        s->sizes[2 * i] = f[i].a;
        s->sizes[2 * i + 1] = f[i].b;
    }
    if (!why)
        return;
    struct ir_attr *said = IR_NEW(lw->ctx, struct ir_attr);
    *said = ir_attr_user_s(ir_intern(lw->ctx, "why"), why);
    s->attrs = said;
    s->nattrs = 1;
}

/* One check of facts that are alike: in `to`, or in front of everything. */
static void add_step(struct lw *lw, struct ir_node *n, struct kn_steps *to, const struct ir_fact *f, int count)
{
    bool early = n->block == lw->func->body && decided_by_inputs(lw, f);
    set_facts(lw, lw_step(lw, early ? &lw->checks : to, TCC_STEP_CHECK, n, 0, NULL), f->what, f, count);
}

static bool like(const struct lw *lw, const struct ir_fact *f, const struct ir_fact *g)
{
    return f->relation == g->relation && f->what == g->what && decided_by_inputs(lw, f) == decided_by_inputs(lw, g);
}

void lw_check(struct lw *lw, struct ir_node *n, struct kn_steps *to)
{
    struct checks c = {.lw = lw};
    ir_assumptions(n, note, &c);
    for (int i = 0, last; i < c.open.n; i = last) {
        for (last = i + 1; last < c.open.n && like(lw, &c.open.at[i], &c.open.at[last]);)
            last++;
        add_step(lw, n, to, &c.open.at[i], last - i);
    }
}

static const char *too_short(struct lw *lw, const struct kn_kernel *k, const struct kn_requirement *r)
{
    const char *name = k->operands[r->operand].name;
    return ir_internf(lw->ctx, "axis %d of '%s' is too short for what is read or written there", r->axis,
                      name ? name : "a value");
}

static ir_expr at_launch(struct lw *lw, const struct kn_kernel *k, const ir_expr *sizes, ir_expr e)
{
    return ir_subst(lw->ctx, e, k->nsizes, k->sizes, sizes);
}

struct launch {
    struct lw *lw;
    struct ir_node *n;
    const struct kn_kernel *k;
    const ir_expr *sizes;
    struct kn_steps *to;
};

/* A check that holds of all numbers is one that the product is a number: sizes are computed in checked arithmetic. */
static void check_product(void *user, ir_expr greatest)
{
    const struct launch *l = user;
    struct lw *lw = l->lw;
    struct ir_fact f = {IR_LE, ir_const(lw->ctx, 0), at_launch(lw, l->k, l->sizes, greatest),
                        "an index does not fit in 64 bits"};
    for (int i = 0; i < lw->facts.n; i++)
        if (lw->facts.at[i].a == f.a && lw->facts.at[i].b == f.b)
            return;
    if (MUTANT(330, f.b->hi != INT64_MAX, true))
        return;
    f.what = ir_intern(lw->ctx, f.what);
    VEC_PUSH(lw->ctx, lw->facts, f);
    add_step(lw, l->n, l->to, &f, 1);
}

void lw_require(struct lw *lw, struct ir_node *n, const struct kn_kernel *k, const ir_expr *sizes, struct kn_steps *to)
{
    for (int i = 0; i < MUTANT(322, k->nrequired, 0); i++) {
        const struct kn_requirement *r = &k->required[i];
        struct ir_fact f = {IR_LE, at_launch(lw, k, sizes, r->a), at_launch(lw, k, sizes, r->b), NULL};
        ir_expr points = at_launch(lw, k, sizes, r->points);
        if (ir_fact_holds(lw->ctx, &f, lw->facts.n, lw->facts.at) == IR_YES)
            continue;
        f.a = ir_mul(lw->ctx, f.a, points);
        f.b = ir_mul(lw->ctx, f.b, points);
        if (ir_fact_holds(lw->ctx, &f, lw->facts.n, lw->facts.at) == IR_YES)
            continue;
        f.what = too_short(lw, k, r);
        VEC_PUSH(lw->ctx, lw->facts, f);
        add_step(lw, n, to, &f, 1);
    }
    kn_each_product(lw->ctx, k, check_product, &(struct launch){lw, n, k, sizes, to});
}

/* A check in front of a launch that has none: what kernels require may be more when launches have been joined. */
static bool check_launch(void *user, struct kn_steps *steps, int *at, const struct kn_requirement *r,
                         const struct ir_fact *f)
{
    struct lw *lw = user;
    struct kn_steps before = {0};
    const struct kn_step launch = steps->at[*at];
    struct kn_step *s =
        lw_push_step(lw->ctx, &before, (struct kn_step){.kind = TCC_STEP_CHECK, .node = launch.node, .op = launch.op});
    set_facts(lw, s, too_short(lw, launch.kernel, r), f, 1);
    lw_push_step(lw->ctx, steps, launch); /* room for one more */
    memmove(&steps->at[*at + 1], &steps->at[*at], (size_t)(steps->n - 1 - *at) * sizeof *steps->at);
    steps->at[(*at)++] = before.at[0];
    return true;
}

void lw_require_again(struct lw *lw, struct kn_entry *e)
{
    if (MUTANT(329, true, false))
        kn_each_unchecked(lw->ctx, e, check_launch, lw);
}

void lw_checks_first(struct lw *lw, struct kn_steps *steps)
{
    struct kn_steps all = lw->checks;
    for (int i = 0; i < steps->n; i++)
        lw_push_step(lw->ctx, &all, steps->at[i]);
    *steps = all;
    lw->checks = (struct kn_steps){0};
}
