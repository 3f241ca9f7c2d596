/* SPDX-License-Identifier: Apache-2.0 */
/*
 * poly.c - sums as polynomials: monomials (sorted products of atoms) with integer coefficients, and what they are at
 * least and at most. Sums of floordiv and mod of one dividend are put together again, so are max and min with what they
 * lack. expr.c says which forms expressions have.
 */
#include "ir/ir_int.h"

#include "base/mutant.h"

#define MAX_FACTORS 16

/* Higher degree first, then by atoms; NULL (the constant) last. */
static int mono_cmp(ir_expr a, ir_expr b)
{
    if (a == b)
        return 0;
    if (!a || !b)
        return a ? -1 : 1;
    const ir_expr *x, *y;
    int m = ir_mono_factors(&a, &x), n = ir_mono_factors(&b, &y);
    if (m != n)
        return n - m;
    for (int i = 0; i < n; i++) {
        int c = ir_expr_cmp(x[i], y[i]);
        if (c)
            return c;
    }
    return 0;
}

int64_t ir_sat_add(int64_t a, int64_t b)
{
    if (a == INT64_MIN || b == INT64_MIN)
        return INT64_MIN;
    if (a == INT64_MAX || b == INT64_MAX)
        return INT64_MAX;
    int64_t r;
    return __builtin_add_overflow(a, b, &r) ? (a < 0 ? INT64_MIN : INT64_MAX) : r;
}

int64_t ir_sat_mul(int64_t a, int64_t b)
{
    if (a == 0 || b == 0)
        return 0;
    int64_t r;
    bool infinite = a == INT64_MIN || a == INT64_MAX || b == INT64_MIN || b == INT64_MAX;
    if (infinite || __builtin_mul_overflow(a, b, &r))
        return (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
    return r;
}

void ir_mul_bounds(int64_t *lo, int64_t *hi, int64_t blo, int64_t bhi)
{
    int64_t p[4] = {ir_sat_mul(*lo, blo), ir_sat_mul(*lo, bhi), ir_sat_mul(*hi, blo), ir_sat_mul(*hi, bhi)};
    *lo = *hi = p[0];
    for (int i = 1; i < 4; i++) {
        *lo = p[i] < *lo ? p[i] : *lo;
        *hi = p[i] > *hi ? p[i] : *hi;
    }
}

/* Lower bounds add up with -inf winning, upper ones with +inf. */
int64_t ir_sat_add_hi(int64_t a, int64_t b)
{
    return a == INT64_MAX || b == INT64_MAX ? INT64_MAX : ir_sat_add(a, b);
}

void ir_poly_bounds(const struct ir_poly *p, int64_t *lo, int64_t *hi)
{
    *lo = *hi = 0;
    for (int i = 0; i < p->n; i++) {
        int64_t l = 1, h = 1;
        if (p->at[i].mono) {
            l = p->at[i].mono->lo;
            h = p->at[i].mono->hi;
        }
        ir_mul_bounds(&l, &h, p->at[i].coef, p->at[i].coef);
        *lo = ir_sat_add(*lo, l);
        *hi = ir_sat_add_hi(*hi, h);
    }
}

bool ir_poly_add(struct ir_poly *p, ir_expr mono, int64_t coef)
{
    if (coef == 0)
        return true;
    for (int i = 0; i < p->n; i++) {
        if (p->at[i].mono != mono)
            continue;
        if (__builtin_add_overflow(p->at[i].coef, coef, &p->at[i].coef))
            return false;
        if (p->at[i].coef == 0)
            p->at[i] = p->at[--p->n];
        return true;
    }
    if (p->n == IR_MAX_TERMS)
        return false;
    p->at[p->n++] = (struct ir_term){mono, coef};
    return true;
}

static struct ir_term term_of(ir_expr e)
{
    if (e->kind == IR_X_CONST)
        return (struct ir_term){NULL, e->value};
    if (e->kind == IR_X_MUL && e->nargs == 2 && e->arg[1]->kind == IR_X_CONST && e->arg[0]->kind != IR_X_CONST)
        return (struct ir_term){e->arg[0], e->arg[1]->value};
    return (struct ir_term){e, 1};
}

bool ir_poly_of(struct ir_poly *p, ir_expr e)
{
    p->n = 0;
    if (e->kind != IR_X_ADD) {
        struct ir_term t = term_of(e);
        return ir_poly_add(p, t.mono, t.coef);
    }
    for (int i = 0; i < e->nargs; i++) {
        struct ir_term t = term_of(e->arg[i]);
        if (!ir_poly_add(p, t.mono, t.coef)) { /* a sum that was left as it was */
            p->n = 1;
            p->at[0] = (struct ir_term){e, 1};
            return true;
        }
    }
    return true;
}

bool ir_poly_add_scaled(struct ir_poly *p, const struct ir_poly *q, int64_t k)
{
    for (int i = 0; i < q->n; i++) {
        int64_t c;
        if (__builtin_mul_overflow(q->at[i].coef, k, &c) || !ir_poly_add(p, q->at[i].mono, c))
            return false;
    }
    return true;
}

static ir_expr term_expr(struct ir_ctx *ctx, struct ir_term t)
{
    if (!t.mono)
        return ir_const(ctx, t.coef);
    if (t.coef == 1)
        return t.mono;
    int64_t lo = t.mono->lo, hi = t.mono->hi;
    ir_mul_bounds(&lo, &hi, t.coef, t.coef);
    return ir_expr_raw(ctx, IR_X_MUL, 2, (ir_expr[]){t.mono, ir_const(ctx, t.coef)}, lo, hi);
}

/* Is it min(size, 1), of that size? */
static bool is_indicator_of(ir_expr x, ir_expr size)
{
    return x->kind == IR_X_MIN && size->lo >= 0 &&
           ((x->arg[0] == size && ir_is_value(x->arg[1], 1)) || (x->arg[1] == size && ir_is_value(x->arg[0], 1)));
}

/* "Is there any?", min(size, 1), changes neither the size as a factor nor itself. Returns how many factors are left. */
static int drop_indicators(ir_expr *factor, int n)
{
    int kept = 0;
    for (int i = 0; i < n; i++) {
        bool again = kept && factor[kept - 1] == factor[i] && factor[i]->kind == IR_X_MIN &&
                     (is_indicator_of(factor[i], factor[i]->arg[0]) || is_indicator_of(factor[i], factor[i]->arg[1]));
        for (int j = 0; j < n && !again; j++)
            again = is_indicator_of(factor[i], factor[j]);
        if (!again)
            factor[kept++] = factor[i];
    }
    return kept;
}

/* a * b for monomials (NULL: 1); false: too many factors. */
static bool mono_mul(struct ir_ctx *ctx, ir_expr a, ir_expr b, ir_expr *out)
{
    if (!a || !b) {
        *out = a ? a : b;
        return true;
    }
    const ir_expr *x, *y;
    int m = ir_mono_factors(&a, &x), n = ir_mono_factors(&b, &y), k = 0;
    ir_expr all[MAX_FACTORS];
    if (m + n > MAX_FACTORS)
        return false;
    int64_t lo = 1, hi = 1;
    for (int i = 0, j = 0; i < m || j < n;)
        all[k++] = j == n || (i < m && ir_expr_cmp(x[i], y[j]) <= 0) ? x[i++] : y[j++];
    k = drop_indicators(all, k);
    for (int i = 0; i < k; i++)
        ir_mul_bounds(&lo, &hi, all[i]->lo, all[i]->hi);
    *out = k == 1 ? all[0] : ir_expr_raw(ctx, IR_X_MUL, k, all, lo, hi);
    return true;
}

ir_expr ir_mono_div(struct ir_ctx *ctx, ir_expr a, ir_expr b, bool *ok)
{
    *ok = true;
    if (!b)
        return a;
    if (a == b)
        return NULL;
    *ok = false;
    if (!a)
        return NULL;
    const ir_expr *x, *y;
    int m = ir_mono_factors(&a, &x), n = ir_mono_factors(&b, &y), k = 0, j = 0;
    if (n >= m)
        return NULL;
    ir_expr rest[MAX_FACTORS];
    int64_t lo = 1, hi = 1;
    for (int i = 0; i < m; i++) {
        if (j < n && MUTANT(74, x[i] == y[j], true)) {
            j++;
            continue;
        }
        if (k == MAX_FACTORS)
            return NULL;
        rest[k++] = x[i];
        ir_mul_bounds(&lo, &hi, x[i]->lo, x[i]->hi);
    }
    if (j < n)
        return NULL;
    *ok = true;
    return k == 1 ? rest[0] : ir_expr_raw(ctx, IR_X_MUL, k, rest, lo, hi);
}

bool ir_poly_add_product(struct ir_ctx *ctx, struct ir_poly *p, ir_expr mono, ir_expr e, int64_t k)
{
    struct ir_poly q;
    if (!ir_poly_of(&q, e))
        return false;
    for (int i = 0; i < q.n; i++) {
        ir_expr m;
        int64_t c;
        if (!mono_mul(ctx, mono, q.at[i].mono, &m) || __builtin_mul_overflow(q.at[i].coef, k, &c) ||
            !ir_poly_add(p, m, c))
            return false;
    }
    return true;
}

static bool has_kind(ir_expr mono, enum ir_expr_kind kind, ir_expr *atom)
{
    const ir_expr *x;
    int n = ir_mono_factors(&mono, &x);
    for (int i = 0; i < n; i++) {
        if (x[i]->kind == kind) {
            *atom = x[i];
            return true;
        }
    }
    return false;
}

/* y mod c = y - c * (y floordiv c), where that makes the sum shorter: (y floordiv c) * c + y mod c = y. */
bool ir_poly_recompose(struct ir_ctx *ctx, struct ir_poly *p)
{
    for (int i = 0; i < p->n; i++) {
        ir_expr atom;
        bool ok;
        if (!has_kind(p->at[i].mono, IR_X_MOD, &atom))
            continue;
        ir_expr rest = ir_mono_div(ctx, p->at[i].mono, atom, &ok);
        int64_t k = p->at[i].coef;
        if (!ok || k == INT64_MIN)
            continue;
        ir_expr whole = ir_mul(ctx, ir_floordiv(ctx, atom->arg[0], atom->arg[1]), atom->arg[1]);
        struct ir_poly q = *p;
        if (ir_poly_add(&q, p->at[i].mono, -k) && ir_poly_add_product(ctx, &q, rest, atom->arg[0], k) &&
            ir_poly_add_product(ctx, &q, rest, whole, -k) && q.n < p->n) {
            *p = q;
            return true;
        }
    }
    return false;
}

/* max(x, 0) - max(-x, 0) = x: what is padded less what is cut. */
static bool recompose_extreme(struct ir_ctx *ctx, struct ir_poly *p)
{
    for (int i = 0; i < p->n; i++) {
        ir_expr atom, other;
        bool ok;
        if (p->at[i].coef <= 0 || !has_kind(p->at[i].mono, IR_X_MAX, &atom))
            continue;
        ir_expr x = ir_is_value(atom->arg[1], 0) ? atom->arg[0] : ir_is_value(atom->arg[0], 0) ? atom->arg[1] : NULL;
        ir_expr rest = x ? ir_mono_div(ctx, p->at[i].mono, atom, &ok) : NULL;
        if (!x || !ok || !mono_mul(ctx, rest, ir_max(ctx, ir_mulc(ctx, x, -1), ir_const(ctx, 0)), &other))
            continue;
        int64_t k = p->at[i].coef;
        struct ir_poly q = *p;
        if (ir_poly_add(&q, p->at[i].mono, -k) && ir_poly_add(&q, other, k) && q.n <= p->n - 2 &&
            ir_poly_add_product(ctx, &q, rest, x, k)) {
            *p = q;
            return true;
        }
    }
    return false;
}

static void recompose(struct ir_ctx *ctx, struct ir_poly *p)
{
    int ndiv = 0, nmod = 0, nmax = 0;
    ir_expr atom;
    for (int i = 0; i < p->n; i++) {
        ndiv += has_kind(p->at[i].mono, IR_X_FLOORDIV, &atom);
        nmod += has_kind(p->at[i].mono, IR_X_MOD, &atom);
        nmax += has_kind(p->at[i].mono, IR_X_MAX, &atom);
    }
    if (nmax > 1 && ctx->expr_depth <= IR_MAX_EXPR_DEPTH) {
        ctx->expr_depth++;
        while (recompose_extreme(ctx, p))
            ;
        ctx->expr_depth--;
    }
    if (nmod == 0 || nmod + ndiv < 2 || ctx->expr_depth > IR_MAX_EXPR_DEPTH)
        return;
    ctx->expr_depth++;
    while (ir_poly_recompose(ctx, p))
        ;
    ctx->expr_depth--;
}

static void sort_terms(struct ir_poly *p)
{
    for (int i = 1; i < p->n; i++) {
        struct ir_term t = p->at[i];
        int j = i;
        for (; j > 0 && mono_cmp(t.mono, p->at[j - 1].mono) < 0; j--)
            p->at[j] = p->at[j - 1];
        p->at[j] = t;
    }
}

ir_expr ir_poly_expr(struct ir_ctx *ctx, struct ir_poly *p)
{
    recompose(ctx, p);
    if (p->n == 0)
        return ir_const(ctx, 0);
    if (p->n == 1)
        return term_expr(ctx, p->at[0]);
    sort_terms(p);
    ir_expr terms[IR_MAX_TERMS];
    int64_t lo, hi;
    for (int i = 0; i < p->n; i++)
        terms[i] = term_expr(ctx, p->at[i]);
    ir_poly_bounds(p, &lo, &hi);
    return ir_expr_raw(ctx, IR_X_ADD, p->n, terms, lo, hi);
}

ir_expr ir_poly_sum(struct ir_ctx *ctx, const struct ir_poly *p)
{
    struct ir_poly copy = *p;
    return ir_poly_expr(ctx, &copy);
}
