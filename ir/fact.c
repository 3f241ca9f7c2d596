/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fact.c - facts: what a node takes for granted of its sizes, and which of it other facts decide.
 *
 * Inference hooks state facts (ir_assume, infer_assume_le); what holds for all values of the symbols is never heard of
 * again, what holds for none is an error there, but in regions. The rest is asked again where more is known: a shape
 * version's guards, checks that stand in front.
 *
 * Proof: b - a is a polynomial of atoms with bounds (ir_lower_bound). min and max are split by cases: min(x, y) is x or
 * y, and where less is worse, whichever shows it. Known equalities that name a symbol are put in; one known inequality
 * c <= d gives a <= b where a + d - c <= b, one equality likewise.
 */

#include "ir/infer_int.h"

#include "base/format.h"
#include "base/mutant.h"

/* == Stating them == */

void ir_assume(struct ir_ctx *ctx, const struct ir_fact *f)
{
    if (ctx->assume && ir_fact_holds(ctx, f, 0, NULL) != IR_YES)
        ctx->assume(ctx->assume_user, f);
}

bool ir_fact_known(struct ir_ctx *ctx, enum ir_relation relation, ir_expr a, ir_expr b)
{
    return ctx->assume && ir_fact_holds(ctx, &(struct ir_fact){relation, a, b, NULL}, 0, NULL) == IR_YES;
}

bool infer_assume_le(struct ir_ctx *ctx, struct ir_node *n, ir_expr a, ir_expr b, const char *what, ...)
{
    enum ir_tri holds = ir_expr_le(ctx, a, b);
    if (holds == IR_YES || (holds == IR_MAYBE && !ctx->assume))
        return true;
    FORMATTED(text, 300, what);
    /* A region may not run at all: there it is an error of the run, and so for what has been a region (a loop of one
     * round) when facts are asked for. */
    bool in_region = MUTANT(327, n->block && n->block->parent, false);
    if (holds == IR_NO && !in_region && !ctx->assume)
        return infer_fail(ctx, n, "%s: %s must be at most %s", text, ir_expr_text(ctx, a), ir_expr_text(ctx, b));
    ir_assume(ctx, &(struct ir_fact){IR_LE, a, b, ir_intern(ctx, text)});
    return true;
}

void ir_assumptions(struct ir_node *n, void (*each)(void *user, const struct ir_fact *f), void *user)
{
    struct ir_ctx *ctx = ir_node_ctx(n);
    ir_type *types = IR_NEWN(ctx, n->nout + 1, ir_type);
    for (int i = 0; i < n->nout; i++)
        types[i] = n->out[i]->type;
    ctx->assume = each;
    ctx->assume_user = user;
    ir_infer_node(ctx, n);
    ctx->assume = NULL;
    for (int i = 0; i < n->nout; i++)
        n->out[i]->type = types[i];
}

bool ir_guard_fact(const struct ir_guard *g, struct ir_fact *f)
{
    *f = (struct ir_fact){g->op == TCC_GUARD_EQ ? IR_EQ : IR_LE, g->a, g->b, NULL};
    return g->op == TCC_GUARD_EQ || g->op == TCC_GUARD_LE;
}

bool ir_check(struct ir_builder *b, const struct ir_fact *f)
{
    struct ir_attr attrs[] = {ir_attr_exprs(IR_ATTR_exprs, 2, (ir_expr[]){f->a, f->b}),
                              ir_attr_s(IR_ATTR_mode, f->relation == IR_EQ ? "eq" : "le"),
                              f->what ? ir_attr_s(IR_ATTR_name, f->what) : (struct ir_attr){0},
                              {0}};
    return ir_build(b, IR_check, 0, NULL, attrs) != NULL;
}

/* == Deciding them == */

enum { MOST_SPLITS = 5 };

/* The first min or max that a sum's terms have as factor, and whether less of it makes the sum less in all terms, or in
 * none. */
static ir_expr find_extreme(const struct ir_poly *p, bool *rises, bool *falls)
{
    ir_expr found = NULL;
    *rises = *falls = false;
    for (int i = 0; i < p->n; i++) {
        const ir_expr *a;
        int n = ir_mono_factors(&p->at[i].mono, &a);
        for (int j = 0; j < n && !found; j++)
            found = a[j]->kind == IR_X_MIN || a[j]->kind == IR_X_MAX ? a[j] : NULL;
    }
    for (int i = 0; i < p->n && found; i++) {
        ir_expr m = p->at[i].mono;
        const ir_expr *a;
        int n = ir_mono_factors(&m, &a), times = 0;
        bool known = true;
        for (int j = 0; j < n; j++) {
            times += a[j] == found;
            known &= a[j] == found || (a[j]->lo >= 0 && !ir_uses_sym(a[j], found));
        }
        bool uses = m && ir_uses_sym(m, found);
        *rises |= uses && (p->at[i].coef > 0 || !known || times != 1);
        *falls |= uses && (p->at[i].coef < 0 || !known || times != 1);
    }
    return found;
}

/* e with `from`, any expression, replaced wherever it stands. */
static ir_expr put(struct ir_ctx *ctx, ir_expr e, ir_expr from, ir_expr to)
{
    ir_expr arg[IR_MAX_TERMS];
    bool changed = false;
    if (e == from)
        return to;
    if (e->kind == IR_X_CONST || e->kind == IR_X_SYM || e->nargs > IR_MAX_TERMS)
        return e;
    for (int i = 0; i < e->nargs; i++) {
        arg[i] = put(ctx, e->arg[i], from, to);
        changed |= arg[i] != e->arg[i];
    }
    return changed ? ir_rebuild(ctx, e, arg) : e;
}

/* min(size, 1), "is there any?": 0 or 1. */
static bool is_indicator(ir_expr x)
{
    return x->kind == IR_X_MIN &&
           ((ir_is_value(x->arg[1], 1) && x->arg[0]->lo >= 0) || (ir_is_value(x->arg[0], 1) && x->arg[1]->lo >= 0));
}

static bool at_least(struct ir_ctx *ctx, ir_expr e, int64_t want, int splits);

/* With min or max x of p's terms by cases. */
static bool by_cases(struct ir_ctx *ctx, ir_expr e, ir_expr x, bool either, int64_t want, int splits)
{
    ir_expr cases[2] = {x->arg[0], x->arg[1]};
    if (is_indicator(x)) {
        either = false;
        cases[0] = ir_const(ctx, 0);
        cases[1] = ir_const(ctx, 1);
    }
    bool first = at_least(ctx, put(ctx, e, x, cases[0]), want, splits);
    return first == either ? first : at_least(ctx, put(ctx, e, x, cases[1]), want, splits);
}

/* Is e at least `want`, as far as can be shown? */
static bool at_least(struct ir_ctx *ctx, ir_expr e, int64_t want, int splits)
{
    struct ir_poly p;
    bool rises, falls;
    if (ir_lower_bound(ctx, e) >= want)
        return true;
    if (!splits || !ir_poly_of(&p, e))
        return false;
    /* -min(x, y) is at least -x, and at least -y: one that shows it is enough; max(x, y) likewise. */
    ir_expr x = find_extreme(&p, &rises, &falls);
    if (x && by_cases(ctx, e, x, x->kind == IR_X_MIN ? !rises : !falls, want, splits - 1))
        return true;
    return ir_settle_division(ctx, &p) && at_least(ctx, ir_poly_sum(ctx, &p), want, splits - 1);
}

static enum ir_tri decide(struct ir_ctx *ctx, enum ir_relation relation, ir_expr a, ir_expr b)
{
    enum ir_tri plain = relation == IR_EQ ? ir_expr_eq(ctx, a, b) : ir_expr_le(ctx, a, b);
    if (plain != IR_MAYBE)
        return plain;
    ir_expr d = ir_sub(ctx, b, a), back = ir_mulc(ctx, d, -1);
    bool le = at_least(ctx, d, 0, MOST_SPLITS);
    if (relation == IR_LE)
        return le ? IR_YES : at_least(ctx, back, 1, MOST_SPLITS) ? IR_NO : MUTANT(347, IR_MAYBE, IR_YES);
    if (le && at_least(ctx, back, 0, MOST_SPLITS))
        return IR_YES;
    return at_least(ctx, d, 1, MOST_SPLITS) || at_least(ctx, back, 1, MOST_SPLITS) ? IR_NO : IR_MAYBE;
}

/* == By what is known == */

enum { MOST_EQUAL = 64 };

/* What known equalities say of symbols, each in terms of those that none says anything of. */
struct equalities {
    int n;
    ir_expr from[MOST_EQUAL], to[MOST_EQUAL];
};

static ir_expr by_equalities(struct ir_ctx *ctx, ir_expr e, const struct equalities *q)
{
    return q->n ? ir_subst(ctx, e, q->n, q->from, q->to) : e;
}

static void learn(struct ir_ctx *ctx, struct equalities *q, const struct ir_fact *k)
{
    ir_expr a = by_equalities(ctx, k->a, q), b = by_equalities(ctx, k->b, q);
    bool first = a->kind == IR_X_SYM && !ir_uses_sym(b, a);
    ir_expr from = first ? a : b, to = first ? b : a;
    if (k->relation != IR_EQ || q->n == MOST_EQUAL || from->kind != IR_X_SYM || ir_uses_sym(to, from))
        return;
    for (int i = 0; i < q->n; i++)
        q->to[i] = ir_subst(ctx, q->to[i], 1, &from, &to);
    q->from[q->n] = from;
    q->to[q->n++] = to;
}

/* By one known relation c <= d, a <= b follows from a + d - c <= b; by c = d, of either relation. */
static bool follows(struct ir_ctx *ctx, const struct ir_fact *f, const struct ir_fact *k, const struct equalities *q)
{
    ir_expr by = ir_sub(ctx, by_equalities(ctx, k->b, q), by_equalities(ctx, k->a, q));
    if (ir_is_value(by, 0) || (k->relation == IR_LE && f->relation == IR_EQ))
        return false;
    return decide(ctx, f->relation, ir_add(ctx, f->a, by), f->b) == IR_YES ||
           (k->relation == IR_EQ && decide(ctx, f->relation, ir_sub(ctx, f->a, by), f->b) == IR_YES);
}

enum ir_tri ir_fact_holds(struct ir_ctx *ctx, const struct ir_fact *fact, int n, const struct ir_fact *known)
{
    struct ir_fact f = *fact;
    struct equalities q = {0};
    enum ir_tri holds = decide(ctx, f.relation, f.a, f.b);
    if (holds != IR_MAYBE || !n)
        return holds;
    for (int i = 0; i < n; i++) {
        const struct ir_fact *k = &known[i];
        bool same = k->a == f.a && k->b == f.b, turned = k->relation == IR_EQ && k->a == f.b && k->b == f.a;
        if ((same || turned) && (k->relation == f.relation || k->relation == IR_EQ))
            return IR_YES;
        learn(ctx, &q, k);
    }
    f.a = by_equalities(ctx, f.a, &q);
    f.b = by_equalities(ctx, f.b, &q);
    holds = q.n ? decide(ctx, f.relation, f.a, f.b) : holds;
    for (int i = 0; i < n && holds == IR_MAYBE; i++)
        holds = follows(ctx, &f, &known[i], &q) ? IR_YES : IR_MAYBE;
    return holds;
}
