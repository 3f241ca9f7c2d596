/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checks.c - checks that what a kernel requires of the sizes holds where it is launched: by their bounds, by the guards
 * of the shape version, or by checks in front, in the step's list or in one around it. So no pass that moves, joins or
 * rewrites launches loses a check.
 */
#include "ir/text/kernel_words_int.h"

struct checks {
    struct ir_ctx *ctx;
    VEC(struct ir_fact) known;
    kn_unchecked_fn missing;
    void *user;
};

static bool is_known(const struct checks *c, const struct ir_fact *f)
{
    return ir_fact_holds(c->ctx, f, c->known.n, c->known.at) == IR_YES;
}

static bool look_at_launch(struct checks *c, struct kn_steps *steps, int *at)
{
    struct ir_ctx *ctx = c->ctx;
    const struct kn_kernel *k = steps->at[*at].kernel;
    for (int i = 0; i < k->nrequired; i++) {
        const struct kn_requirement *r = &k->required[i];
        const struct kn_step *s = &steps->at[*at];
        ir_expr of[] = {r->a, r->b, r->points}, e[3];
        for (int x = 0; x < 3; x++)
            e[x] = ir_subst(ctx, of[x], k->nsizes, k->sizes, s->sizes);
        struct ir_fact plain = {IR_LE, e[0], e[1], NULL};
        struct ir_fact f = {IR_LE, ir_mul(ctx, e[0], e[2]), ir_mul(ctx, e[1], e[2]), NULL};
        if (is_known(c, &plain) || is_known(c, &f))
            continue;
        if (!c->missing(c->user, steps, at, r, &f))
            return false;
        VEC_PUSH(ctx, c->known, f);
    }
    return true;
}

static bool walk(struct checks *c, struct kn_steps *steps)
{
    int known = c->known.n;
    bool ok = true;
    for (int i = 0; i < steps->n && ok; i++) {
        const struct kn_step *s = &steps->at[i];
        for (int k = 0; s->kind == TCC_STEP_CHECK && k + 1 < s->nsizes; k += 2)
            VEC_PUSH(c->ctx, c->known,
                     ((struct ir_fact){(enum ir_relation)s->what, s->sizes[k], s->sizes[k + 1], NULL}));
        if (s->kind == TCC_STEP_LAUNCH)
            ok = look_at_launch(c, steps, &i);
        for (int r = 0; ok && r < steps->at[i].nregions; r++)
            ok = walk(c, &steps->at[i].regions[r].steps);
    }
    c->known.n = known;
    return ok;
}

bool kn_each_unchecked(struct ir_ctx *ctx, struct kn_entry *e, kn_unchecked_fn missing, void *user)
{
    struct checks c = {.ctx = ctx, .missing = missing, .user = user};
    const struct ir_version *v = e->func ? e->func->version : NULL;
    struct ir_fact f;
    for (int i = 0; v && i < v->nguards; i++)
        if (ir_guard_fact(&v->guards[i], &f))
            VEC_PUSH(ctx, c.known, f);
    return walk(&c, &e->steps);
}

struct entry {
    struct ir_ctx *ctx;
    const char *name;
};

static bool refuse(void *user, struct kn_steps *steps, int *at, const struct kn_requirement *r, const struct ir_fact *f)
{
    const struct entry *e = user;
    const struct kn_kernel *k = steps->at[*at].kernel;
    (void)f;
    ir_invalid(e->ctx, NULL, e->ctx->parsing ? IR_D_ERROR : IR_D_BUG,
               ir_internf(e->ctx, "plan of '%s': nothing says that %s <= %s, as a launch of %s requires", e->name,
                          ir_expr_text(e->ctx, r->a), ir_expr_text(e->ctx, r->b), k->name ? k->name : "a kernel"));
    return false;
}

bool kn_verify_checks(const struct kn_program *p, const struct kn_entry *e)
{
    struct kn_entry copy = *e; /* whose steps are only looked at */
    return kn_each_unchecked(p->module->ctx, &copy, refuse, &(struct entry){p->module->ctx, e->name});
}
