/* SPDX-License-Identifier: Apache-2.0 */
/*
 * expr_div.c - floordiv and mod of integer expressions.
 *
 * The dividend is split as divisor * Q + R, Q taken out, and R made smaller by what its bounds and the extents of
 * iteration variables prove:
 *   R in [0, divisor)                                 R floordiv d = 0, R mod d = R
 *   R = g A + r, r in [0, g), d = g d'                R floordiv d = A floordiv d', R mod d = g (A mod d') + r
 *   R = x floordiv c + k                              R floordiv d = (x + k c) floordiv (c d)
 *   R = x mod c, d divides c                          R floordiv d = (x floordiv d) mod (c / d), R mod d = x mod d
 * Divisors may be symbolic; a divisor is taken to be positive (0 fails when the expression is evaluated).
 */
#include "ir/ir_int.h"

#include "base/mutant.h"

static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return q - MUTANT(70, a % b < 0, 0);
}

/* a - floor_div(a, b) * b, where that product may not be a number; b > 0. */
static int64_t floor_mod(int64_t a, int64_t b)
{
    int64_t r = a % b;
    return r < 0 ? r + b : r;
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a < 0 ? -a : a;
}

/* 0 <= e < limit for all values? */
static bool within(struct ir_ctx *ctx, ir_expr e, ir_expr limit)
{
    if (e->lo >= 0 && e->hi < limit->lo + MUTANT(71, 0, 1))
        return true;
    return ir_lower_bound(ctx, e) >= 0 && ir_lower_bound(ctx, ir_sub(ctx, limit, ir_addc(ctx, e, 1))) >= 0;
}

/* The one term of a monomial divisor (coefficient * mono); false for sums. */
static bool single_term(ir_expr d, struct ir_term *t)
{
    struct ir_poly p;
    if (!ir_poly_of(&p, d) || p.n != 1)
        return false;
    *t = p.at[0];
    return t->coef > 0;
}

/* p = d * quotient + rest for a divisor of one term. Coefficients keep their sign; the constant's rest is in [0, c). */
static void split_by_term(struct ir_ctx *ctx, const struct ir_poly *p, struct ir_term d, struct ir_poly *quotient,
                          struct ir_poly *rest)
{
    quotient->n = rest->n = 0;
    for (int i = 0; i < p->n; i++) {
        struct ir_term t = p->at[i];
        bool ok;
        ir_expr m = ir_mono_div(ctx, t.mono, d.mono, &ok);
        int64_t q = !ok ? 0 : t.mono ? t.coef / d.coef : floor_div(t.coef, d.coef);
        ir_poly_add(quotient, m, q);
        ir_poly_add(rest, t.mono, t.coef - q * d.coef);
    }
}

/* Long division by a sum: by its first term, until nothing is divisible. False unless what is left is in [0, d). */
static bool split_by_sum(struct ir_ctx *ctx, const struct ir_poly *p, ir_expr d, struct ir_poly *quotient,
                         ir_expr *rest)
{
    struct ir_poly left = *p, dp;
    quotient->n = 0;
    if (!ir_poly_of(&dp, d) || dp.n < 2 || !dp.at[0].mono || dp.at[0].coef <= 0)
        return false;
    ir_expr remaining = ir_poly_sum(ctx, p);
    for (int round = 0; round < IR_MAX_TERMS; round++) {
        int i = 0;
        ir_expr m = NULL;
        for (bool ok = false; i < left.n; i++) {
            m = ir_mono_div(ctx, left.at[i].mono, dp.at[0].mono, &ok);
            if (ok && left.at[i].coef % dp.at[0].coef == 0)
                break;
        }
        if (i == left.n)
            break;
        int64_t c = left.at[i].coef / dp.at[0].coef;
        ir_expr q = ir_mulc(ctx, m ? m : ir_const(ctx, 1), c);
        if (!ir_poly_add(quotient, m, c))
            return false;
        remaining = ir_sub(ctx, remaining, ir_mul(ctx, q, d));
        if (!ir_poly_of(&left, remaining))
            return false;
    }
    *rest = remaining;
    return quotient->n > 0 && within(ctx, remaining, d);
}

/* Does g divide the term? g is coefficient * mono. */
static bool term_divides(struct ir_ctx *ctx, struct ir_term g, struct ir_term t, struct ir_term *q)
{
    bool ok;
    q->mono = ir_mono_div(ctx, t.mono, g.mono, &ok);
    if (!ok || t.coef % g.coef)
        return false;
    q->coef = t.coef / g.coef;
    return true;
}

/* r = g * a + low with low in [0, g)? The constant is divided with a rest. */
static bool split_low(struct ir_ctx *ctx, const struct ir_poly *r, struct ir_term g, ir_expr g_expr, struct ir_poly *a,
                      ir_expr *low)
{
    struct ir_poly l = {0};
    a->n = 0;
    for (int i = 0; i < r->n; i++) {
        struct ir_term t = r->at[i], q;
        if (term_divides(ctx, g, t, &q)) {
            ir_poly_add(a, q.mono, q.coef);
        } else if (!t.mono && !g.mono) {
            ir_poly_add(a, NULL, floor_div(t.coef, g.coef));
            ir_poly_add(&l, NULL, t.coef - floor_div(t.coef, g.coef) * g.coef);
        } else {
            ir_poly_add(&l, t.mono, t.coef);
        }
    }
    if (a->n == 0)
        return false;
    *low = ir_poly_sum(ctx, &l);
    return within(ctx, *low, g_expr);
}

/* The factors that two monomials share; NULL: 1. */
static ir_expr mono_gcd(struct ir_ctx *ctx, ir_expr a, ir_expr left)
{
    ir_expr common = NULL;
    const ir_expr *atom;
    int n = ir_mono_factors(&a, &atom);
    for (int i = 0; i < n && left; i++) {
        bool ok;
        ir_expr rest = ir_mono_div(ctx, left, atom[i], &ok);
        if (!ok)
            continue;
        common = common ? ir_mul(ctx, common, atom[i]) : atom[i];
        left = rest;
    }
    return common;
}

/* Looks for a g > 1 that divides divisor d (of one term) so that split_low works; the largest that a term offers. */
static bool find_split(struct ir_ctx *ctx, const struct ir_poly *r, struct ir_term d, struct ir_term *g,
                       struct ir_poly *a, ir_expr *low)
{
    struct ir_term tried[IR_MAX_TERMS];
    int ntried = 0;
    for (int i = 0; i < r->n; i++) {
        struct ir_term t = r->at[i];
        if (!t.mono)
            continue;
        struct ir_term c = {mono_gcd(ctx, t.mono, d.mono), gcd(t.coef == INT64_MIN ? 0 : t.coef, d.coef)};
        if (c.coef == 0 || (c.coef == 1 && !c.mono))
            continue;
        int at = ntried++;
        for (; at > 0 && tried[at - 1].coef < c.coef; at--)
            tried[at] = tried[at - 1];
        tried[at] = c;
    }
    for (int i = 0; i < ntried; i++) {
        *g = tried[i];
        ir_expr ge = g->mono ? ir_mulc(ctx, g->mono, g->coef) : ir_const(ctx, g->coef);
        if (split_low(ctx, r, *g, ge, a, low))
            return true;
    }
    return false;
}

static ir_expr term_value(struct ir_ctx *ctx, struct ir_term t)
{
    return t.mono ? ir_mulc(ctx, t.mono, t.coef) : ir_const(ctx, t.coef);
}

/* d / g, both of one term. */
static ir_expr divide_term(struct ir_ctx *ctx, struct ir_term d, struct ir_term g)
{
    bool ok;
    return term_value(ctx, (struct ir_term){ir_mono_div(ctx, d.mono, g.mono, &ok), d.coef / g.coef});
}

static void div_bounds(ir_expr a, ir_expr b, int64_t *lo, int64_t *hi)
{
    int64_t small = b->lo > 1 ? b->lo : 1, big = b->hi < 1 ? 1 : b->hi;
    *lo = a->lo == INT64_MIN ? INT64_MIN : floor_div(a->lo, a->lo >= 0 ? big : small);
    *hi = a->hi == INT64_MAX ? INT64_MAX : floor_div(a->hi, a->hi >= 0 ? small : big);
    int64_t c;
    if (b->kind != IR_X_FLOORDIV || b->arg[0] != a || b->lo < 1 || !ir_is_const(b->arg[1], &c) || c > INT64_MAX / 2)
        return;
    /* b = a floordiv c, so c b <= a < c b + c */
    *lo = *lo < c ? c : *lo;
    *hi = *hi > 2 * c - 1 ? 2 * c - 1 : *hi;
}

static ir_expr raw_div(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    int64_t lo, hi;
    div_bounds(a, b, &lo, &hi);
    return ir_expr_raw(ctx, IR_X_FLOORDIV, 2, (ir_expr[]){a, b}, lo, hi);
}

static ir_expr raw_mod(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    int64_t hi = b->hi == INT64_MAX ? INT64_MAX : b->hi > 0 ? b->hi - 1 : 0;
    if (a->lo >= 0 && a->hi < hi)
        hi = a->hi;
    return ir_expr_raw(ctx, IR_X_MOD, 2, (ir_expr[]){a, b}, 0, hi);
}

/* (x floordiv c + k) floordiv d and (x mod c) floordiv d, with constant c and d; NULL: not of that form. */
static ir_expr nested_div(struct ir_ctx *ctx, const struct ir_poly *r, int64_t d)
{
    ir_expr inner = NULL;
    int64_t k = 0, c, cd, kc;
    for (int i = 0; i < r->n; i++) {
        if (!r->at[i].mono)
            k = r->at[i].coef;
        else if (inner || r->at[i].coef != 1)
            return NULL;
        else
            inner = r->at[i].mono;
    }
    if (!inner || (inner->kind != IR_X_FLOORDIV && inner->kind != IR_X_MOD) || !ir_is_const(inner->arg[1], &c) ||
        c <= 0)
        return NULL;
    if (inner->kind == IR_X_MOD)
        return k || c % d ? NULL : ir_mod(ctx, ir_floordiv(ctx, inner->arg[0], ir_const(ctx, d)), ir_const(ctx, c / d));
    if (__builtin_mul_overflow(c, d, &cd) || __builtin_mul_overflow(k, c, &kc))
        return NULL;
    return ir_floordiv(ctx, ir_addc(ctx, inner->arg[0], kc), ir_const(ctx, cd));
}

static ir_expr div_rest(struct ir_ctx *ctx, ir_expr rest, ir_expr b, struct ir_term d)
{
    struct ir_poly r, a;
    struct ir_term g;
    ir_expr low;
    if (within(ctx, rest, b))
        return ir_const(ctx, 0);
    int64_t c, lo, hi;
    if (ir_is_const(b, &c)) {
        div_bounds(rest, b, &lo, &hi);
        if (lo == hi && lo != INT64_MIN && hi != INT64_MAX)
            return ir_const(ctx, lo);
    }
    if (!ir_poly_of(&r, rest))
        return raw_div(ctx, rest, b);
    if (find_split(ctx, &r, d, &g, &a, &low))
        return ir_floordiv(ctx, ir_poly_expr(ctx, &a), divide_term(ctx, d, g));
    ir_expr nested = ir_is_const(b, &c) ? nested_div(ctx, &r, c) : NULL;
    return nested ? nested : raw_div(ctx, rest, b);
}

ir_expr ir_floordiv(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    int64_t x, y;
    struct ir_poly p, q, r;
    struct ir_term d;
    if (ir_is_const(b, &y) && (y <= 0 || y == 1))
        return y == 1 ? a : raw_div(ctx, a, b);
    if (ir_is_const(a, &x) && (x == 0 || ir_is_const(b, &y)))
        return ir_const(ctx, x == 0 ? 0 : floor_div(x, y));
    if (a == b)
        return ir_const(ctx, 1);
    if (ctx->expr_depth > IR_MAX_EXPR_DEPTH || !ir_poly_of(&p, a))
        return raw_div(ctx, a, b);
    ctx->expr_depth++;
    ir_expr result, rest;
    if (single_term(b, &d)) {
        while (ir_poly_recompose(ctx, &p)) /* x - x mod c is c (x floordiv c) */
            ;
        split_by_term(ctx, &p, d, &q, &r);
        result = ir_add(ctx, ir_poly_expr(ctx, &q), div_rest(ctx, ir_poly_expr(ctx, &r), b, d));
    } else if (split_by_sum(ctx, &p, b, &q, &rest)) {
        result = ir_poly_expr(ctx, &q);
    } else {
        result = within(ctx, a, b) ? ir_const(ctx, 0) : raw_div(ctx, a, b);
    }
    ctx->expr_depth--;
    return result;
}

/* Under mod d, a term k (x mod c) with d dividing k c is k x. */
static bool drop_inner_mods(struct ir_poly *p, int64_t d)
{
    for (int i = 0; i < p->n; i++) {
        struct ir_term t = p->at[i];
        int64_t c, kc;
        struct ir_poly x;
        if (!t.mono || t.mono->kind != IR_X_MOD || !ir_is_const(t.mono->arg[1], &c) ||
            __builtin_mul_overflow(t.coef, c, &kc) || kc % d || !ir_poly_of(&x, t.mono->arg[0]))
            continue;
        struct ir_poly q = *p;
        if (ir_poly_add(&q, t.mono, -t.coef) && ir_poly_add_scaled(&q, &x, t.coef)) {
            *p = q;
            return true;
        }
    }
    return false;
}

static ir_expr mod_rest(struct ir_ctx *ctx, ir_expr rest, ir_expr b, struct ir_term d)
{
    struct ir_poly r, a;
    struct ir_term g;
    ir_expr low;
    int64_t c, lo, hi;
    if (within(ctx, rest, b))
        return rest;
    if (ir_is_const(b, &c)) {
        div_bounds(rest, b, &lo, &hi);
        if (lo == hi && lo != INT64_MIN && hi != INT64_MAX)
            return ir_addc(ctx, rest, -lo * c);
    }
    if (!ir_poly_of(&r, rest) || !find_split(ctx, &r, d, &g, &a, &low))
        return raw_mod(ctx, rest, b);
    ir_expr high = ir_mod(ctx, ir_poly_expr(ctx, &a), divide_term(ctx, d, g));
    return ir_add(ctx, ir_mul(ctx, high, term_value(ctx, g)), low);
}

ir_expr ir_mod(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    int64_t x, y;
    struct ir_poly p, q, r;
    struct ir_term d;
    if (ir_is_const(b, &y) && (y <= 0 || y == 1))
        return y == 1 ? ir_const(ctx, 0) : raw_mod(ctx, a, b);
    if (ir_is_const(a, &x) && (x == 0 || ir_is_const(b, &y)))
        return ir_const(ctx, x == 0 ? 0 : floor_mod(x, y));
    if (a == b)
        return ir_const(ctx, 0);
    if (ctx->expr_depth > IR_MAX_EXPR_DEPTH || !ir_poly_of(&p, a))
        return raw_mod(ctx, a, b);
    ctx->expr_depth++;
    ir_expr result, rest;
    if (single_term(b, &d)) {
        for (int i = 0; i < IR_MAX_TERMS && !d.mono && drop_inner_mods(&p, d.coef); i++)
            ;
        split_by_term(ctx, &p, d, &q, &r);
        result = mod_rest(ctx, ir_poly_expr(ctx, &r), b, d);
    } else if (split_by_sum(ctx, &p, b, &q, &rest)) {
        result = rest;
    } else {
        result = within(ctx, a, b) ? a : raw_mod(ctx, a, b);
    }
    ctx->expr_depth--;
    return result;
}

ir_expr ir_ceildiv(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    return ir_floordiv(ctx, ir_addc(ctx, ir_add(ctx, a, b), -1), b);
}
