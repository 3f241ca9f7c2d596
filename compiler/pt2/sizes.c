/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symbols that a program's inputs give. The sizes of a program's inputs, dims and integers alike, are written as
 * expressions of symbols, such as 2 n or m k: backward graphs take what the forward graph made of its own sizes. The
 * run takes a symbol from a dim, or an integer, that is nothing but the symbol. So a dim that is an expression of
 * symbols which no dim gives becomes a symbol itself, by which those are expressed: n = N floordiv 2. Where there are
 * several, as in m k, the expression is replaced as a whole wherever it occurs.
 */
#include "compiler/pt2/pt2_int.h"

struct sizes {
    struct pt2 *p;
    int n;
    ir_type *types;
    ir_expr *numbers;
};

/* -- Which symbols are given */

struct search {
    const struct sizes *s;
    ir_expr first; /* that no dim gives */
    bool more;     /* there is another one */
};

static bool is_dim(const struct sizes *s, ir_expr sym)
{
    for (int k = 0; k < s->n; k++)
        for (int i = 0; i < s->types[k]->rank; i++)
            if (s->types[k]->dim[i] == sym)
                return true;
    return false;
}

static void note_unknown(void *user, ir_expr sym)
{
    struct search *u = user;
    if (is_dim(u->s, sym) || sym == u->first)
        return;
    u->more |= u->first != NULL;
    u->first = u->first ? u->first : sym;
}

static struct search unknowns(const struct sizes *s, ir_expr e)
{
    struct search u = {.s = s};
    ir_each_sym(e, note_unknown, &u);
    return u;
}

/* -- Replacing */

/* Takes the operands of `part` out of those of `e`, both sums or both products; what is left, or NULL: they are not all
 * there. */
static ir_expr without(struct ir_ctx *ctx, ir_expr e, ir_expr part)
{
    bool sum = e->kind == IR_X_ADD;
    bool *taken = IR_NEWN(ctx, e->nargs + 1, bool);
    ir_expr left = ir_const(ctx, sum ? 0 : 1);
    for (int k = 0; k < part->nargs; k++) {
        int i = 0;
        while (i < e->nargs && (taken[i] || e->arg[i] != part->arg[k]))
            i++;
        if (i == e->nargs)
            return NULL;
        taken[i] = true;
    }
    for (int i = 0; i < e->nargs; i++)
        if (!taken[i])
            left = sum ? ir_add(ctx, left, e->arg[i]) : ir_mul(ctx, left, e->arg[i]);
    return left;
}

static ir_expr replaced(struct ir_ctx *ctx, ir_expr e, ir_expr part, ir_expr by)
{
    if (e == part)
        return by;
    if (!e->nargs)
        return e;
    if (e->kind == part->kind && (e->kind == IR_X_ADD || e->kind == IR_X_MUL)) {
        ir_expr left = without(ctx, e, part);
        if (left)
            return e->kind == IR_X_ADD ? ir_add(ctx, by, left) : ir_mul(ctx, by, left);
    }
    ir_expr *args = IR_NEWN(ctx, e->nargs, ir_expr);
    for (int i = 0; i < e->nargs; i++)
        args[i] = replaced(ctx, e->arg[i], part, by);
    return ir_rebuild(ctx, e, args);
}

/* In all sizes `whole` stands for e, and then `solved`, if there is one, for the symbol in it. */
static void put(const struct sizes *s, ir_expr e, ir_expr whole, ir_expr sym, ir_expr solved)
{
    struct ir_ctx *ctx = s->p->ctx;
    ir_expr dims[TCC_MAX_RANK];
    for (int k = 0; k < s->n; k++) {
        ir_type t = s->types[k];
        for (int i = 0; i < t->rank; i++) {
            dims[i] = replaced(ctx, t->dim[i], e, whole);
            dims[i] = solved ? ir_subst(ctx, dims[i], 1, &sym, &solved) : dims[i];
        }
        s->types[k] = ir_tensor_type(ctx, (enum tcc_dtype)t->dtype, t->rank, dims);
        if (!s->numbers[k])
            continue;
        s->numbers[k] = replaced(ctx, s->numbers[k], e, whole);
        s->numbers[k] = solved ? ir_subst(ctx, s->numbers[k], 1, &sym, &solved) : s->numbers[k];
    }
}

static ir_expr symbol_for(struct ir_ctx *ctx, ir_expr e, ir_expr sym)
{
    return ir_sym_bounded(ctx, ir_internf(ctx, "%s_%u", sym->name, e->id), e->lo < 0 ? 0 : e->lo, e->hi);
}

/* Names one expression whose symbols are not given: with `one`, where there is only one, which is expressed by it.
 * False: there is none. */
static bool name_dim(const struct sizes *s, ir_expr e, bool one)
{
    struct ir_ctx *ctx = s->p->ctx;
    struct search u = unknowns(s, e);
    ir_expr factor, rest;
    if (!u.first || e == u.first || u.more == one)
        return false;
    ir_expr whole = symbol_for(ctx, e, u.first);
    if (!one) {
        put(s, e, whole, NULL, NULL);
        return true;
    }
    if (!ir_linear_in(ctx, e, u.first, &factor, &rest) || factor->lo < 1)
        return false;
    put(s, e, whole, u.first, ir_floordiv(ctx, ir_sub(ctx, whole, rest), factor));
    return true;
}

static bool name_some_dim(const struct sizes *s, bool one)
{
    for (int k = 0; k < s->n; k++)
        for (int i = 0; i < s->types[k]->rank; i++)
            if (name_dim(s, s->types[k]->dim[i], one))
                return true;
    return false;
}

/* An integer that is an expression of one symbol which nothing else gives. */
static void name_number(const struct sizes *s, ir_expr e)
{
    struct ir_ctx *ctx = s->p->ctx;
    struct search u = unknowns(s, e);
    ir_expr factor, rest;
    for (int k = 0; k < s->n && u.first; k++)
        if (s->numbers[k] == u.first)
            return;
    if (!u.first || u.more || !ir_linear_in(ctx, e, u.first, &factor, &rest) || factor->lo < 1)
        return;
    ir_expr whole = symbol_for(ctx, e, u.first), solved = ir_floordiv(ctx, ir_sub(ctx, whole, rest), factor);
    put(s, e, whole, u.first, solved);
}

void pt2_name_sizes(struct pt2 *p, int n, ir_type *types, ir_expr *numbers)
{
    struct sizes s = {p, n, types, numbers};
    while (name_some_dim(&s, true) || name_some_dim(&s, false))
        ;
    for (int k = 0; k < n; k++)
        if (numbers[k] && numbers[k]->kind != IR_X_SYM)
            name_number(&s, numbers[k]);
}
