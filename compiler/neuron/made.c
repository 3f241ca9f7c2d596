/* SPDX-License-Identifier: Apache-2.0 */
/*
 * made.c - sizes that are made of others. Turns (open.c) go along dims that are numbers times sizes. A dim that is
 * another one, as what a convolution with a stride leaves of W, (W + 1) / 2 rounded down, or keys behind a cache,
 * P + S, becomes a size: a program says how it is made of those that a launch has (runtime/neuron_isa.h), which its
 * loader works out. Of sums the number that all terms have as a factor, and sizes, stay factors.
 */
#include <string.h>

#include "compiler/neuron/neuron_int.h"

struct making {
    struct ir_ctx *ctx;
    struct kn_kernel *k; /* its sizes are all that there are so far */
    int given;           /* so many of them are the launch's */
    struct nk_made_sizes *made;
    ir_expr of[NEURON_SIZES];
};

static ir_expr in_factors(struct making *g, ir_expr e);

/* The size that is made so, and is e. NULL: there is no room for it. */
static ir_expr size_of(struct making *g, ir_expr e, const struct neuron_size *how)
{
    struct kn_kernel *k = g->k;
    if (k->nsizes == NEURON_SIZES)
        return NULL;
    ir_expr size = ir_sym_bounded(g->ctx, ir_internf(g->ctx, "size %d of a program", k->nsizes), 0, INT64_C(1) << 40);
    g->of[g->made->n] = e;
    g->made->how[g->made->n++] = *how;
    k->sizes[k->nsizes++] = size;
    return size;
}

/* Adds e times `times`; false: it is no sum of sizes. */
static bool add_terms(struct making *g, ir_expr e, int64_t times, struct neuron_size *to)
{
    int64_t c;
    bool fine = e->kind == IR_X_ADD;
    if (ir_is_const(e, &c)) {
        to->plus += times * c;
        return true;
    }
    int s = nk_size_of(g->k, e);
    if (s < 0 && e->kind == IR_X_FLOORDIV)
        s = nk_size_of(g->k, in_factors(g, e));
    if (s >= 0) {
        to->by[s] += times;
        return true;
    }
    if (e->kind == IR_X_MUL && e->nargs == 2)
        for (int a = 0; a < 2; a++)
            if (ir_is_const(e->arg[a], &c))
                return add_terms(g, e->arg[1 - a], times * c, to);
    for (int a = 0; fine && a < e->nargs; a++)
        fine = add_terms(g, e->arg[a], times, to);
    return fine;
}

/* A quotient and a number, as one quotient; false: it is none. */
static bool is_quotient(struct making *g, ir_expr e, struct neuron_size *to)
{
    int64_t plus = 0, c;
    ir_expr q = e->kind == IR_X_FLOORDIV ? e : NULL;
    for (int a = 0; e->kind == IR_X_ADD && a < e->nargs; a++) {
        bool number = ir_is_const(e->arg[a], &c);
        if (!number && (q || e->arg[a]->kind != IR_X_FLOORDIV))
            return false;
        plus += number ? c : 0;
        q = number ? q : e->arg[a];
    }
    if (!q || !ir_is_const(q->arg[1], &to->over) || to->over < 1 || !add_terms(g, q->arg[0], 1, to))
        return false;
    to->plus += plus * to->over;
    return true;
}

/* A sum whose terms all have that size as a factor, without it; NULL: one has not. */
static ir_expr without(struct making *g, ir_expr e, ir_expr size)
{
    ir_expr sum = ir_const(g->ctx, 0);
    for (int a = 0; a < e->nargs; a++) {
        ir_expr term = e->arg[a], rest = term == size ? ir_const(g->ctx, 1) : NULL;
        for (int b = 0; !rest && term->kind == IR_X_MUL && b < term->nargs; b++) {
            if (term->arg[b] != size)
                continue;
            rest = ir_const(g->ctx, 1);
            for (int c = 0; c < term->nargs; c++)
                rest = c == b ? rest : ir_mul(g->ctx, rest, term->arg[c]);
        }
        if (!rest)
            return NULL;
        sum = ir_add(g->ctx, sum, rest);
    }
    return sum;
}

static int64_t common_factor(const struct neuron_size *how)
{
    int64_t all = how->plus < 0 ? -how->plus : how->plus;
    for (int s = 0; s < NEURON_SIZES; s++)
        for (int64_t b = how->by[s] < 0 ? -how->by[s] : how->by[s], rest; b; b = rest) {
            rest = all % b;
            all = b;
        }
    return all;
}

/* A sum or a quotient as a size, and its factors; as it is, if it can't be one. */
static ir_expr made_size(struct making *g, ir_expr e)
{
    struct neuron_size how = {.over = 1}, quotient = {0};
    for (int s = 0; s < g->made->n; s++)
        if (g->of[s] == e)
            return g->k->sizes[g->given + s];
    for (int s = 0; e->kind == IR_X_ADD && s < g->k->nsizes; s++) {
        ir_expr rest = without(g, e, g->k->sizes[s]);
        if (rest)
            return ir_mul(g->ctx, g->k->sizes[s], in_factors(g, rest));
    }
    if (is_quotient(g, e, &quotient)) {
        ir_expr size = size_of(g, e, &quotient);
        return size ? size : e;
    }
    if (e->kind == IR_X_FLOORDIV || !add_terms(g, e, 1, &how)) /* of a quotient add_terms() asks here */
        return e;
    int64_t by = common_factor(&how);
    if (by > 1) {
        ir_expr rest = ir_const(g->ctx, how.plus / by);
        for (int s = 0; s < g->k->nsizes; s++)
            rest = ir_add(g->ctx, rest, ir_mulc(g->ctx, g->k->sizes[s], how.by[s] / by));
        return ir_mulc(g->ctx, in_factors(g, rest), by);
    }
    ir_expr size = size_of(g, e, &how);
    return size ? size : e;
}

static ir_expr in_factors(struct making *g, ir_expr e)
{
    int64_t c;
    if (ir_is_const(e, &c) || nk_size_of(g->k, e) >= 0 || !nk_uses_size(g->k, e))
        return e;
    if (e->kind != IR_X_MUL)
        return e->kind == IR_X_ADD || e->kind == IR_X_FLOORDIV ? made_size(g, e) : e;
    ir_expr all = ir_const(g->ctx, 1);
    for (int a = 0; a < e->nargs; a++)
        all = ir_mul(g->ctx, all, in_factors(g, e->arg[a]));
    return all;
}

/* What dims were, and what they are. */
struct replaced {
    int n;
    ir_expr *from, *to;
};

static void note(struct making *g, struct replaced *r, ir_expr e)
{
    ir_expr to = in_factors(g, e);
    if (to == e)
        return;
    r->from[r->n] = e;
    r->to[r->n++] = to;
}

static const struct kn_kernel *with_sizes(struct making *g, const struct kn_kernel *from)
{
    struct kn_kernel *k = nk_copy_kernel(g->ctx, from);
    int room = from->ndims + from->noperands * TCC_MAX_RANK + NEURON_SIZES;
    struct replaced r = {.from = IR_NEWN(g->ctx, room, ir_expr), .to = IR_NEWN(g->ctx, room, ir_expr)};
    for (int d = 0; d < k->ndims; d++)
        note(g, &r, k->dims[d].extent);
    for (int o = 0; o < k->noperands; o++)
        for (int d = 0; d < k->operands[o].rank; d++)
            note(g, &r, k->operands[o].dims[d]);
    for (int s = 0; s < g->made->n; s++)
        r.from[r.n] = g->of[s], r.to[r.n++] = g->k->sizes[g->given + s];
    kn_subst(g->ctx, k, r.n, r.from, r.to);
    for (int i = 0; i < k->ninsns; i++) /* values are made of the launch's */
        if (k->insns[i].code == KN_EXPR)
            k->insns[i].expr = from->insns[i].expr;
    return k;
}

void nk_make_sizes(struct ir_ctx *ctx, const struct kn_kernel **k, int n, struct nk_made_sizes *made)
{
    struct kn_kernel *all = nk_copy_kernel(ctx, k[0]); /* whose sizes are those of all */
    struct making g = {.ctx = ctx, .k = all, .given = k[0]->nsizes, .made = made};
    const struct kn_kernel **to = IR_NEWN(ctx, n + 1, const struct kn_kernel *);
    *made = (struct nk_made_sizes){0};
    if (g.given > NEURON_SIZES)
        return;
    all->sizes = IR_NEWN(ctx, NEURON_SIZES, ir_expr);
    memcpy(all->sizes, k[0]->sizes, (size_t)g.given * sizeof *all->sizes);
    for (int i = 0; i < n; i++)
        to[i] = with_sizes(&g, k[i]);
    for (int i = 0; i < n && made->n; i++) {
        struct kn_kernel *with = nk_copy_kernel(ctx, to[i]);
        with->nsizes = all->nsizes;
        with->sizes = all->sizes;
        k[i] = with;
    }
}
