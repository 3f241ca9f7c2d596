/* SPDX-License-Identifier: Apache-2.0 */
/*
 * expr.c - integer expressions, hash-consed and canonical when built.
 *
 * A sum is kept as a polynomial: monomials (sorted products of atoms) with integer coefficients, sorted, constant last.
 * Atoms are symbols and floordiv, mod, min and max nodes. In nodes: ADD holds terms; a term is a monomial, a constant,
 * or MUL(monomial, constant); a monomial is an atom or MUL of two or more atoms. What overflows int64 or has more than
 * IR_MAX_TERMS terms stays as it was built and counts as an atom. The order is structural (names, not addresses), so
 * that equal modules print equal text. Sums of floordiv and mod of one dividend are put together again.
 * Division and modulus are in expr_div.c, questions in expr_query.c.
 */
#include <string.h>

#include "ir/ir_int.h"

#include "base/mutant.h"

#define MAX_FACTORS 16

static uint64_t node_hash(enum ir_expr_kind kind, int n, const ir_expr *arg)
{
    uint64_t h = (uint64_t)kind + 17;
    for (int i = 0; i < n; i++)
        h = ir_hash_mix(h, arg[i]->id);
    return h;
}

static struct ir_expr_node *new_node(struct ir_ctx *ctx, enum ir_expr_kind kind, int n, int64_t lo, int64_t hi)
{
    struct ir_expr_node *e = ir_alloc(ctx, sizeof *e + (size_t)n * sizeof(ir_expr));
    e->kind = (uint8_t)kind;
    e->nargs = (uint16_t)n;
    e->id = ctx->nexprs++;
    e->lo = lo;
    e->hi = hi;
    return e;
}

/* The node as given, without canonical form. */
ir_expr ir_expr_raw(struct ir_ctx *ctx, enum ir_expr_kind kind, int n, const ir_expr *arg, int64_t lo, int64_t hi)
{
    uint64_t hash = node_hash(kind, n, arg);
    uint32_t pos = UINT32_MAX;
    for (ir_expr e; (e = ir_set_next(&ctx->exprs, hash, &pos));) {
        if (e->kind == kind && e->nargs == n && memcmp(e->arg, arg, (size_t)n * sizeof *arg) == 0)
            return e;
    }
    struct ir_expr_node *e = new_node(ctx, kind, n, lo, hi);
    memcpy(e->arg, arg, (size_t)n * sizeof *arg);
    ir_set_add(ctx, &ctx->exprs, hash, e);
    return e;
}

ir_expr ir_const(struct ir_ctx *ctx, int64_t value)
{
    bool small = value >= 0 && value < (int64_t)(sizeof ctx->small / sizeof *ctx->small);
    if (small && ctx->small[value])
        return ctx->small[value];
    uint64_t hash = ir_hash_mix(3, (uint64_t)value);
    uint32_t pos = UINT32_MAX;
    for (ir_expr e; (e = ir_set_next(&ctx->exprs, hash, &pos));) {
        if (e->kind == IR_X_CONST && e->value == value)
            return e;
    }
    struct ir_expr_node *e = new_node(ctx, IR_X_CONST, 0, value, value);
    e->value = value;
    ir_set_add(ctx, &ctx->exprs, hash, e);
    if (small)
        ctx->small[value] = e;
    return e;
}

ir_expr ir_sym_find(struct ir_ctx *ctx, const char *name)
{
    uint64_t hash = ir_hash_mix(5, ir_hash_bytes(name, strlen(name)));
    uint32_t pos = UINT32_MAX;
    for (ir_expr e; (e = ir_set_next(&ctx->exprs, hash, &pos));) {
        if (e->kind == IR_X_SYM && strcmp(e->name, name) == 0)
            return e;
    }
    return NULL;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Fresh names count on from those that a text has, so that symbols stand in the order of their making there too. */
static void count_on(struct ir_ctx *ctx, const char *name)
{
    size_t i = 0;
    uint64_t n = 0;
    while (name[i] >= 'a' && name[i] <= 'z')
        i++;
    for (; i && is_digit(name[i]) && n < 1000000000; i++)
        n = 10 * n + (uint64_t)(name[i] - '0');
    if (i && !name[i] && is_digit(name[i - 1]) && n < 1000000000 && n >= ctx->fresh)
        ctx->fresh = (uint32_t)n + 1;
}

static ir_expr make_sym(struct ir_ctx *ctx, const char *name, int64_t lo, int64_t hi, ir_expr extent)
{
    ir_expr known = ir_sym_find(ctx, name);
    if (known)
        return known;
    count_on(ctx, name);
    struct ir_expr_node *e = new_node(ctx, IR_X_SYM, 0, lo, hi);
    e->name = ir_intern(ctx, name);
    e->extent = extent;
    ir_set_add(ctx, &ctx->exprs, ir_hash_mix(5, ir_hash_bytes(name, strlen(name))), e);
    return e;
}

ir_expr ir_sym(struct ir_ctx *ctx, const char *name)
{
    return make_sym(ctx, name, 0, IR_SYM_HI, NULL);
}

ir_expr ir_sym_bounded(struct ir_ctx *ctx, const char *name, int64_t lo, int64_t hi)
{
    return make_sym(ctx, name, lo, hi < lo ? lo : hi, NULL);
}

static const char *fresh_name(struct ir_ctx *ctx, const char *prefix)
{
    const char *name;
    do
        name = ir_internf(ctx, "%s%u", prefix, ctx->fresh++);
    while (ir_sym_find(ctx, name));
    return name;
}

ir_expr ir_fresh(struct ir_ctx *ctx, const char *prefix, int64_t lo, int64_t hi)
{
    return make_sym(ctx, fresh_name(ctx, prefix), lo, hi < lo ? lo : hi, NULL);
}

ir_expr ir_fresh_as(struct ir_ctx *ctx, const char *name, int64_t lo, int64_t hi)
{
    if (!ir_sym_find(ctx, name))
        return make_sym(ctx, name, lo, hi < lo ? lo : hi, NULL);
    /* It has been made just now, and nobody else has it yet. */
    bool letter =
        *name && !is_digit(name[strlen(name) - 1]) && ir_is_identifier(name); /* "N" becomes "N7", "y.0" "y.0~7" */
    struct ir_expr_node *e = (struct ir_expr_node *)ir_fresh(ctx, letter ? name : ir_internf(ctx, "%s~", name), lo, hi);
    e->said = ir_intern(ctx, name);
    return e;
}

const char *ir_sym_said(ir_expr sym)
{
    return sym->said ? sym->said : sym->name;
}

ir_expr ir_iter(struct ir_ctx *ctx, const char *prefix, ir_expr extent)
{
    return ir_iter_named(ctx, fresh_name(ctx, prefix), extent);
}

ir_expr ir_iter_named(struct ir_ctx *ctx, const char *name, ir_expr extent)
{
    int64_t hi = extent->hi == INT64_MAX ? INT64_MAX : extent->hi - 1;
    return make_sym(ctx, name, 0, hi < 0 ? 0 : hi, extent);
}

ir_expr ir_iter_at(struct ir_ctx *ctx, int position, ir_expr extent)
{
    const char *name;
    int64_t n;
    if (ir_is_const(extent, &n)) {
        name = ir_internf(ctx, "i%d_%lld", position, (long long)n);
    } else if (extent->kind == IR_X_SYM && ir_is_identifier(extent->name)) {
        name = ir_internf(ctx, "i%d_%s", position, extent->name);
    } else {
        uint32_t h = 2166136261u; /* FNV-1a */
        for (const char *c = ir_expr_text(ctx, extent); *c; c++)
            h = (h ^ (unsigned char)*c) * 16777619u;
        name = ir_internf(ctx, "i%d_x%08x", position, h);
    }
    for (;; name = ir_internf(ctx, "%s_", name)) {
        ir_expr known = ir_sym_find(ctx, name);
        if (!known)
            return ir_iter_named(ctx, name, extent);
        if (known->extent == extent)
            return known;
    }
}

/* == Order == */

/* As strcmp, but numbers in names by their value: i9 comes before i10, so that symbols with fresh names are in the
 * order of their making. */
static int name_cmp(const char *a, const char *b)
{
    size_t i = 0;
    while (a[i] && a[i] == b[i])
        i++;
    if ((is_digit(a[i]) || is_digit(b[i])) && ((i && is_digit(a[i - 1])) || (is_digit(a[i]) && is_digit(b[i])))) {
        size_t p = i, q = i;
        while (is_digit(a[p]))
            p++;
        while (is_digit(b[q]))
            q++;
        if (p != q)
            return p < q ? -1 : 1;
    }
    return (unsigned char)a[i] - (unsigned char)b[i];
}

static int kind_rank(enum ir_expr_kind kind)
{
    static const int8_t rank[] = {[IR_X_SYM] = 0, [IR_X_FLOORDIV] = 1, [IR_X_MOD] = 2, [IR_X_MIN] = 3,
                                  [IR_X_MAX] = 4, [IR_X_MUL] = 5,      [IR_X_ADD] = 6, [IR_X_CONST] = 7};
    return rank[kind];
}

int ir_expr_cmp(ir_expr a, ir_expr b)
{
    if (a == b)
        return 0;
    if (a->kind != b->kind)
        return kind_rank(a->kind) - kind_rank(b->kind);
    if (a->kind == IR_X_SYM)
        return name_cmp(a->name, b->name);
    if (a->kind == IR_X_CONST)
        return (a->value > b->value) - (a->value < b->value);
    for (int i = 0; i < a->nargs && i < b->nargs; i++) {
        int c = ir_expr_cmp(a->arg[i], b->arg[i]);
        if (c)
            return c;
    }
    return (int)a->nargs - (int)b->nargs;
}

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

/* == Bounds == */

static int64_t ir_sat_add(int64_t a, int64_t b)
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

static void mul_bounds(int64_t *lo, int64_t *hi, int64_t blo, int64_t bhi)
{
    int64_t p[4] = {ir_sat_mul(*lo, blo), ir_sat_mul(*lo, bhi), ir_sat_mul(*hi, blo), ir_sat_mul(*hi, bhi)};
    *lo = *hi = p[0];
    for (int i = 1; i < 4; i++) {
        *lo = p[i] < *lo ? p[i] : *lo;
        *hi = p[i] > *hi ? p[i] : *hi;
    }
}

/* Lower bounds add up with -inf winning, upper ones with +inf. */
static int64_t add_hi(int64_t a, int64_t b)
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
        mul_bounds(&l, &h, p->at[i].coef, p->at[i].coef);
        *lo = ir_sat_add(*lo, l);
        *hi = add_hi(*hi, h);
    }
}

/* == Polynomials == */

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
    mul_bounds(&lo, &hi, t.coef, t.coef);
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
        mul_bounds(&lo, &hi, all[i]->lo, all[i]->hi);
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
        mul_bounds(&lo, &hi, x[i]->lo, x[i]->hi);
    }
    if (j < n)
        return NULL;
    *ok = true;
    return k == 1 ? rest[0] : ir_expr_raw(ctx, IR_X_MUL, k, rest, lo, hi);
}

/* p += k * mono * e */
static bool add_product(struct ir_ctx *ctx, struct ir_poly *p, ir_expr mono, ir_expr e, int64_t k)
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
static bool recompose_one(struct ir_ctx *ctx, struct ir_poly *p)
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
        if (ir_poly_add(&q, p->at[i].mono, -k) && add_product(ctx, &q, rest, atom->arg[0], k) &&
            add_product(ctx, &q, rest, whole, -k) && q.n < p->n) {
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
            add_product(ctx, &q, rest, x, k)) {
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
    while (recompose_one(ctx, p))
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

/* == Building == */

ir_expr ir_add(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    struct ir_poly p, q;
    int64_t sum;
    if (ir_is_value(a, 0))
        return b;
    if (ir_is_value(b, 0))
        return a;
    if (a->kind == IR_X_CONST && b->kind == IR_X_CONST && !__builtin_add_overflow(a->value, b->value, &sum))
        return ir_const(ctx, sum);
    if (ir_poly_of(&p, a) && ir_poly_of(&q, b) && ir_poly_add_scaled(&p, &q, 1))
        return ir_poly_expr(ctx, &p);
    return ir_expr_raw(ctx, IR_X_ADD, 2, (ir_expr[]){a, b}, ir_sat_add(a->lo, b->lo), add_hi(a->hi, b->hi));
}

ir_expr ir_sub(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    struct ir_poly p, q;
    if (a == b)
        return ir_const(ctx, 0);
    if (ir_poly_of(&p, a) && ir_poly_of(&q, b) && ir_poly_add_scaled(&p, &q, -1))
        return ir_poly_expr(ctx, &p);
    return ir_add(ctx, a, ir_mulc(ctx, b, -1));
}

ir_expr ir_mul(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    struct ir_poly p, q = {0};
    int64_t product;
    if (a->kind == IR_X_CONST && b->kind == IR_X_CONST && !__builtin_mul_overflow(a->value, b->value, &product))
        return ir_const(ctx, product);
    if (ir_is_value(a, 1))
        return b;
    if (ir_is_value(b, 1))
        return a;
    bool ok = ir_poly_of(&p, a);
    for (int i = 0; ok && i < p.n; i++)
        ok = add_product(ctx, &q, p.at[i].mono, b, p.at[i].coef);
    if (ok)
        return ir_poly_expr(ctx, &q);
    int64_t lo = a->lo, hi = a->hi;
    mul_bounds(&lo, &hi, b->lo, b->hi);
    bool swap = ir_expr_cmp(a, b) > 0;
    return ir_expr_raw(ctx, IR_X_MUL, 2, (ir_expr[]){swap ? b : a, swap ? a : b}, lo, hi);
}

ir_expr ir_addc(struct ir_ctx *ctx, ir_expr a, int64_t c)
{
    return c == 0 ? a : ir_add(ctx, a, ir_const(ctx, c));
}

ir_expr ir_mulc(struct ir_ctx *ctx, ir_expr a, int64_t c)
{
    return ir_mul(ctx, a, ir_const(ctx, c));
}

static ir_expr extreme(struct ir_ctx *ctx, ir_expr a, ir_expr b, bool greater)
{
    if (a == b)
        return a;
    if (ir_expr_le(ctx, a, b) == IR_YES)
        return greater ? b : a;
    if (ir_expr_le(ctx, b, a) == IR_YES)
        return greater ? a : b;
    bool swap = ir_expr_cmp(a, b) > 0;
    int64_t lo = (a->lo < b->lo) != greater ? a->lo : b->lo, hi = (a->hi < b->hi) != greater ? a->hi : b->hi;
    return ir_expr_raw(ctx, greater ? IR_X_MAX : IR_X_MIN, 2, (ir_expr[]){swap ? b : a, swap ? a : b}, lo, hi);
}

ir_expr ir_min(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    return extreme(ctx, a, b, false);
}

ir_expr ir_max(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    return extreme(ctx, a, b, true);
}
