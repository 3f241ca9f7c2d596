/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_prove.c - proves that a sum is at least 0 at every point: by its least value, by cases of its min, max,
 * floordiv and mod, by facts that are subtracted (kernel_bounds.c has the rules' reasons). A search of bounded depth,
 * which gives up rather than err.
 */
#include "ir/kernel_prove_int.h"

#include "base/mutant.h"

enum { DEPTH = 4, STEPS = 400 }; /* of a proof; sums looked at for one question */

static bool holds(struct prover *p, ir_expr f, int depth);

void prover_know(struct prover *p, ir_expr fact)
{
    p->never |= fact->hi < 0;
    if (p->nfacts < MOST_FACTS && fact->lo < 0)
        p->fact[p->nfacts++] = fact;
}

/* -- By cases ------------------------------------------------------------------------------------------------------ */

/* f = c atom + rest, with the sign of c known; *sign. */
bool prover_split(struct prover *p, ir_expr f, ir_expr atom, ir_expr *c, ir_expr *rest, int *sign)
{
    if (!ir_linear_in(p->ctx, f, atom, c, rest))
        return false;
    *sign = (*c)->lo >= 0 ? 1 : (*c)->hi <= 0 ? -1 : 0;
    return *sign != 0;
}

ir_expr prover_plus(struct prover *p, ir_expr rest, ir_expr c, ir_expr x)
{
    return ir_add(p->ctx, rest, ir_mul(p->ctx, c, x));
}

static bool by_extreme(struct prover *p, ir_expr atom, ir_expr c, ir_expr rest, int sign, int depth)
{
    bool both = (atom->kind == IR_X_MIN) == MUTANT(343, sign > 0, sign < 0);
    bool first = holds(p, prover_plus(p, rest, c, atom->arg[0]), depth - 1);
    if (first != both)
        return first;
    if (holds(p, prover_plus(p, rest, c, atom->arg[1]), depth - 1))
        return true;
    /* The lesser of two is at most half of both (reflection): 2 f >= -1 is enough. */
    ir_expr sum = ir_add(p->ctx, atom->arg[0], atom->arg[1]);
    return !both && holds(p, ir_addc(p->ctx, prover_plus(p, ir_mulc(p->ctx, rest, 2), c, sum), 1), depth - 1);
}

/* k q + rest >= 0 is q + (rest floordiv k) >= 0, -k q + rest >= 0 likewise, where rest floordiv k is a sum. */
void prover_divide_by_factor(struct prover *p, ir_expr *c, ir_expr *rest)
{
    struct ir_poly terms;
    int64_t n, k;
    if (!ir_is_const(*c, &n) || n == INT64_MIN || (k = n < 0 ? -n : n) < 2 || !ir_poly_of(&terms, *rest))
        return;
    for (int i = 0; i < terms.n; i++)
        if (terms.at[i].mono && terms.at[i].coef % k)
            return;
    *rest = ir_floordiv(p->ctx, *rest, ir_const(p->ctx, k));
    *c = ir_const(p->ctx, n / k);
}

/* What q + rest >= 0, or rest - q >= 0 (c: 1 or -1), is the same as, for the quotient q = y floordiv d. */
ir_expr prover_without_quotient(struct prover *p, ir_expr q, ir_expr c, ir_expr rest)
{
    struct ir_ctx *ctx = p->ctx;
    ir_expr y = q->arg[0], d = q->arg[1];
    if (ir_is_value(c, -1)) /* q <= rest: y < d (rest + 1) */
        return ir_sub(ctx, ir_addc(ctx, ir_mul(ctx, d, ir_addc(ctx, rest, 1)), -1), y);
    return prover_plus(p, y, d, rest); /* q >= -rest: y >= -d rest */
}

static bool by_quotient(struct prover *p, ir_expr atom, ir_expr c, ir_expr rest, int sign, int depth)
{
    struct ir_ctx *ctx = p->ctx;
    ir_expr y = atom->arg[0], d = atom->arg[1], f;
    if (d->lo < 0 && !holds(p, ir_addc(ctx, d, -1), depth - 1)) /* where it is 0 nothing is evaluated */
        return false;
    prover_divide_by_factor(p, &c, &rest);
    if (ir_is_value(c, -1) || ir_is_value(c, 1))
        f = prover_without_quotient(p, atom, c, rest);
    else
        f = prover_plus(p, ir_mul(ctx, d, rest), c, sign > 0 ? ir_addc(ctx, ir_sub(ctx, y, d), 1) : y);
    return holds(p, f, depth - 1);
}

static bool by_remainder(struct prover *p, ir_expr atom, ir_expr c, ir_expr rest, int sign, int depth)
{
    return sign < 0 && holds(p, atom->arg[0], depth - 1) && holds(p, prover_plus(p, rest, c, atom->arg[0]), depth - 1);
}

static bool by_case(struct prover *p, ir_expr f, ir_expr atom, int depth)
{
    ir_expr c, rest;
    int sign;
    if (atom->kind < IR_X_FLOORDIV || !prover_split(p, f, atom, &c, &rest, &sign))
        return false;
    switch ((enum ir_expr_kind)atom->kind) {
    case IR_X_MIN:
    case IR_X_MAX: return by_extreme(p, atom, c, rest, sign, depth);
    case IR_X_FLOORDIV: return by_quotient(p, atom, c, rest, sign, depth);
    case IR_X_MOD: return by_remainder(p, atom, c, rest, sign, depth);
    default: return false;
    }
}

static bool by_cases(struct prover *p, ir_expr f, int depth)
{
    struct ir_poly terms;
    if (!ir_poly_of(&terms, f))
        return false;
    for (int i = 0; i < terms.n; i++) {
        const ir_expr *atom;
        int n = ir_mono_factors(&terms.at[i].mono, &atom);
        for (int a = 0; a < n; a++)
            if (by_case(p, f, atom[a], depth))
                return true;
    }
    return false;
}

/* -- By facts ------------------------------------------------------------------------------------------------------ */

/* The factor, at least 1 or a product of what is not negative, by which term g becomes term f. */
static bool factor_of(struct prover *p, struct ir_term f, struct ir_term g, ir_expr *factor)
{
    bool divides;
    ir_expr m = ir_mono_div(p->ctx, f.mono, g.mono, &divides);
    if (!divides || f.coef % g.coef || f.coef / g.coef < 1 || (m && m->lo < 0))
        return false;
    *factor = m ? ir_mulc(p->ctx, m, f.coef / g.coef) : ir_const(p->ctx, f.coef / g.coef);
    return true;
}

/* By one fact: is f less a multiple of it that lacks a term of f at least 0? */
static bool by_fact(struct prover *p, ir_expr f, ir_expr fact, int depth)
{
    struct ir_poly terms, known;
    ir_expr factor = NULL, tried[8];
    int ntried = 0;
    if (!ir_poly_of(&terms, f) || !ir_poly_of(&known, fact))
        return false;
    for (int i = 0; i < terms.n; i++) {
        for (int j = 0; j < known.n; j++) {
            bool again = !terms.at[i].mono || !known.at[j].mono || !factor_of(p, terms.at[i], known.at[j], &factor);
            for (int t = 0; t < ntried && !again; t++)
                again = tried[t] == factor;
            if (again || ntried == 8)
                continue;
            tried[ntried++] = factor;
            if (holds(p, ir_sub(p->ctx, f, ir_mul(p->ctx, factor, fact)), depth - 1))
                return true;
        }
    }
    return false;
}

static bool by_facts(struct prover *p, ir_expr f, int depth)
{
    for (int i = 0; i < p->nfacts; i++)
        if (by_fact(p, f, p->fact[i], depth))
            return true;
    return false;
}

/* -- By rows ------------------------------------------------------------------------------------------------------- */

/*
 * 0 <= e < n for an element of a row-major array: e = c v + r and n = c E, where E is the extent of variable v. Then r
 * has to lie in [0, c), and so on. It is for extents whose signs bounds don't tell: that there are points says that c
 * is at least 1.
 */
bool prover_in_rows(struct prover *p, ir_expr e, ir_expr n, int left)
{
    struct ir_poly terms;
    ir_expr c, r;
    if (e->lo >= 0 && ir_lower_bound(p->ctx, ir_sub(p->ctx, ir_addc(p->ctx, n, -1), e)) >= 0)
        return true;
    if (left == 0 || !ir_poly_of(&terms, e))
        return false;
    for (int i = 0; i < terms.n; i++) {
        const ir_expr *v;
        int count = ir_mono_factors(&terms.at[i].mono, &v);
        for (int a = 0; a < count; a++)
            if (v[a]->kind == IR_X_SYM && v[a]->extent && ir_linear_in(p->ctx, e, v[a], &c, &r) &&
                ir_mul(p->ctx, c, v[a]->extent) == n)
                return prover_in_rows(p, r, c, left - 1);
    }
    return false;
}

/* Is f >= 0 at every point? */
static bool holds(struct prover *p, ir_expr f, int depth)
{
    if (f->lo >= 0 || ir_lower_bound(p->ctx, f) >= 0)
        return true;
    if (depth <= 0 || --p->steps < 0)
        return false;
    if (by_facts(p, f, depth) || by_cases(p, f, depth))
        return true;
    ir_expr least = ir_least(p->ctx, f);
    return least != f && holds(p, least, depth - 1);
}

bool prover_proves(struct prover *p, ir_expr f)
{
    p->steps = STEPS;
    return holds(p, f, DEPTH);
}
