/* SPDX-License-Identifier: Apache-2.0 */
/*
 * expr.c - integer expressions, hash-consed and canonical when built.
 *
 * A sum is kept as a polynomial: monomials (sorted products of atoms) with integer coefficients, sorted, constant last.
 * Atoms are symbols and floordiv, mod, min and max nodes. In nodes: ADD holds terms; a term is a monomial, a constant,
 * or MUL(monomial, constant); a monomial is an atom or MUL of two or more atoms. What overflows int64 or has more than
 * IR_MAX_TERMS terms stays as it was built and counts as an atom. The order is structural (names, not addresses), so
 * that equal modules print equal text. Polynomials are in poly.c, division and modulus in expr_div.c, questions in
 * expr_query.c.
 */
#include <string.h>

#include "ir/ir_int.h"

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
    return ir_expr_raw(ctx, IR_X_ADD, 2, (ir_expr[]){a, b}, ir_sat_add(a->lo, b->lo), ir_sat_add_hi(a->hi, b->hi));
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
        ok = ir_poly_add_product(ctx, &q, p.at[i].mono, b, p.at[i].coef);
    if (ok)
        return ir_poly_expr(ctx, &q);
    int64_t lo = a->lo, hi = a->hi;
    ir_mul_bounds(&lo, &hi, b->lo, b->hi);
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
