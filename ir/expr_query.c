/* SPDX-License-Identifier: Apache-2.0 */
/* expr_query.c - questions about integer expressions: comparison, evaluation, substitution, linear form, text. */
#include <string.h>

#include "ir/ir_int.h"

#include "base/mutant.h"

bool ir_is_const(ir_expr e, int64_t *value)
{
    if (e->kind != IR_X_CONST)
        return false;
    if (value)
        *value = e->value;
    return true;
}

int64_t ir_const_or(ir_expr e, int64_t otherwise)
{
    return e->kind == IR_X_CONST ? e->value : otherwise;
}

bool ir_is_value(ir_expr e, int64_t value)
{
    return e->kind == IR_X_CONST && e->value == value;
}

/* How often atom is a factor of mono, and mono without one of them. */
static int times_in(struct ir_ctx *ctx, ir_expr mono, ir_expr atom, ir_expr *without)
{
    bool ok;
    const ir_expr *factor;
    int n = 0, nfactors = ir_mono_factors(&mono, &factor);
    for (int i = 0; i < nfactors; i++)
        n += factor[i] == atom;
    if (n)
        *without = ir_mono_div(ctx, mono, atom, &ok);
    return n;
}

/* == Bounds that see how terms hang together ==
 * The least value of a sum: each symbol (and each mod, which is like a symbol below its divisor) that the sum is
 * linear in, with a coefficient of known sign, is put at the end of its range that makes the sum least. */

static bool next_atom(const struct ir_poly *p, int from, bool iterations, ir_expr *atom)
{
    for (int i = 0, seen = 0; i < p->n; i++) {
        const ir_expr *atoms;
        int n = ir_mono_factors(&p->at[i].mono, &atoms);
        for (int j = 0; j < n; j++) {
            ir_expr a = atoms[j];
            bool iteration = (a->kind == IR_X_SYM && a->extent) || a->kind == IR_X_MOD;
            if ((a->kind != IR_X_SYM && a->kind != IR_X_MOD) || iteration != iterations)
                continue;
            if (seen++ == from) {
                *atom = a;
                return true;
            }
        }
    }
    return false;
}

/* Puts `atom` at its best end in p; false when that can't be told. */
static bool settle(struct ir_ctx *ctx, struct ir_poly *p, ir_expr atom)
{
    struct ir_poly rest = {0}, coefficient = {0};
    for (int i = 0; i < p->n; i++) {
        ir_expr without = NULL;
        int n = times_in(ctx, p->at[i].mono, atom, &without);
        if (n > 1 || !ir_poly_add(n ? &coefficient : &rest, n ? without : p->at[i].mono, p->at[i].coef))
            return false;
    }
    int64_t lo, hi;
    ir_poly_bounds(&coefficient, &lo, &hi);
    ir_expr end;
    if (lo >= 0 && atom->lo != INT64_MIN)
        end = ir_const(ctx, atom->lo);
    else if (hi > 0)
        return false;
    else if (atom->kind == IR_X_MOD)
        end = ir_addc(ctx, atom->arg[1], -1);
    else if (atom->extent)
        end = ir_addc(ctx, atom->extent, -1);
    else if (atom->hi != INT64_MAX)
        end = ir_const(ctx, atom->hi);
    else
        return false;
    struct ir_poly product;
    ir_expr e = ir_mul(ctx, ir_poly_sum(ctx, &coefficient), end);
    if (!ir_poly_of(&product, e) || !ir_poly_add_scaled(&rest, &product, 1))
        return false;
    while (ir_poly_recompose(ctx, &rest)) /* (x floordiv c) c + x mod c - x is 0: no end for each of them */
        ;
    *p = rest;
    return true;
}

/* y floordiv c lies in [(y - c + 1) / c, y / c]: replaces it where its coefficient is divisible by c and of known sign.
 */
bool ir_settle_division(struct ir_ctx *ctx, struct ir_poly *p)
{
    for (int i = 0; i < p->n; i++) {
        struct ir_term t = p->at[i];
        ir_expr div = t.mono, rest = NULL;
        for (int j = 0; div && div->kind == IR_X_MUL && j < div->nargs; j++) {
            if (div->arg[j]->kind == IR_X_FLOORDIV)
                div = div->arg[j];
        }
        int64_t c, n;
        bool ok;
        if (!div || div->kind != IR_X_FLOORDIV || !ir_is_const(div->arg[1], &c) || c <= 0 || t.coef % c ||
            t.coef == INT64_MIN)
            continue;
        rest = ir_mono_div(ctx, t.mono, div, &ok);
        if (!ok || (rest && rest->lo < 0))
            continue;
        n = t.coef / c;
        ir_expr bound = ir_mulc(ctx, n > 0 ? ir_addc(ctx, div->arg[0], 1 - c) : div->arg[0], n);
        struct ir_poly product, q = *p;
        if (!ir_poly_of(&product, rest ? ir_mul(ctx, rest, bound) : bound) || !ir_poly_add(&q, t.mono, -t.coef) ||
            !ir_poly_add_scaled(&q, &product, 1))
            continue;
        *p = q;
        return true;
    }
    return false;
}

int64_t ir_lower_bound(struct ir_ctx *ctx, ir_expr e)
{
    struct ir_poly p;
    int64_t lo, hi, best = e->lo;
    if (e->kind == IR_X_CONST || !ir_poly_of(&p, e) || ctx->expr_depth > IR_MAX_EXPR_DEPTH)
        return best;
    ctx->expr_depth++;
    for (int pass = 0; pass < 2; pass++) { /* iteration variables first: their extents hold symbols */
        for (int i = 0; i < IR_MAX_TERMS && ir_settle_division(ctx, &p); i++) {
            ir_poly_bounds(&p, &lo, &hi);
            best = lo > best ? lo : best;
        }
        ir_expr atom;
        for (int from = 0, rounds = 0; rounds < 64 && next_atom(&p, from, pass == 0, &atom); rounds++) {
            if (settle(ctx, &p, atom))
                from = 0;
            else
                from++;
            ir_poly_bounds(&p, &lo, &hi);
            best = lo > best ? lo : best;
        }
    }
    ir_poly_bounds(&p, &lo, &hi);
    ctx->expr_depth--;
    return lo > best ? lo : best;
}

ir_expr ir_least(struct ir_ctx *ctx, ir_expr e)
{
    struct ir_poly p;
    ir_expr atom;
    if (e->kind == IR_X_CONST || !ir_poly_of(&p, e) || ctx->expr_depth > IR_MAX_EXPR_DEPTH)
        return e;
    ctx->expr_depth++;
    for (int from = 0, rounds = 0; rounds < 64 && next_atom(&p, from, true, &atom); rounds++)
        from = settle(ctx, &p, atom) ? 0 : from + 1;
    ctx->expr_depth--;
    return ir_poly_expr(ctx, &p);
}

enum ir_tri ir_expr_le(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    if (a == b || a->hi <= b->lo + MUTANT(72, 0, 1))
        return IR_YES;
    if (a->lo > b->hi)
        return IR_NO;
    ir_expr d = ir_sub(ctx, b, a);
    if (ir_lower_bound(ctx, d) >= 0)
        return IR_YES;
    return ir_lower_bound(ctx, ir_mulc(ctx, d, -1)) > 0 ? IR_NO : IR_MAYBE;
}

enum ir_tri ir_expr_eq(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    if (a == b)
        return IR_YES;
    if (a->hi < b->lo + MUTANT(73, 0, 1) || b->hi < a->lo)
        return IR_NO;
    ir_expr d = ir_sub(ctx, b, a);
    if (d->kind == IR_X_CONST)
        return d->value == 0 ? IR_YES : IR_NO;
    return ir_lower_bound(ctx, d) > 0 || ir_lower_bound(ctx, ir_mulc(ctx, d, -1)) > 0 ? IR_NO : IR_MAYBE;
}

/* == Substitution and evaluation == */

ir_expr ir_rebuild(struct ir_ctx *ctx, ir_expr e, const ir_expr *arg)
{
    ir_expr r = arg[0];
    switch ((enum ir_expr_kind)e->kind) {
    case IR_X_ADD:
        for (int i = 1; i < e->nargs; i++)
            r = ir_add(ctx, r, arg[i]);
        return r;
    case IR_X_MUL:
        for (int i = 1; i < e->nargs; i++)
            r = ir_mul(ctx, r, arg[i]);
        return r;
    case IR_X_FLOORDIV: return ir_floordiv(ctx, arg[0], arg[1]);
    case IR_X_MOD: return ir_mod(ctx, arg[0], arg[1]);
    case IR_X_MIN: return ir_min(ctx, arg[0], arg[1]);
    case IR_X_MAX: return ir_max(ctx, arg[0], arg[1]);
    default: return e;
    }
}

ir_expr ir_subst(struct ir_ctx *ctx, ir_expr e, int n, const ir_expr *from, const ir_expr *to)
{
    for (int i = 0; i < n; i++)
        if (from[i] == e)
            return to[i];
    if (!e->nargs)
        return e;
    ir_expr small[IR_MAX_TERMS];
    ir_expr *arg = e->nargs <= IR_MAX_TERMS ? small : IR_NEWN(ctx, e->nargs, ir_expr);
    bool changed = false;
    for (int i = 0; i < e->nargs; i++) {
        arg[i] = ir_subst(ctx, e->arg[i], n, from, to);
        changed |= arg[i] != e->arg[i];
    }
    return changed ? ir_rebuild(ctx, e, arg) : e;
}

static bool apply(enum ir_expr_kind kind, int64_t a, int64_t b, int64_t *out)
{
    switch (kind) {
    case IR_X_ADD: return !__builtin_add_overflow(a, b, out);
    case IR_X_MUL: return !__builtin_mul_overflow(a, b, out);
    case IR_X_FLOORDIV:
    case IR_X_MOD: {
        if (b <= 0)
            return false;
        int64_t r = a % b;
        r = r < 0 ? r + b : r;
        *out = kind == IR_X_MOD ? r : a / b - (a % b < 0);
        return true;
    }
    case IR_X_MIN: *out = a < b ? a : b; return true;
    case IR_X_MAX: *out = a > b ? a : b; return true;
    default: return false;
    }
}

/* wraps: a sum or product that overflows is what is left of it. */
static bool eval(ir_expr e, ir_value_of value, void *user, bool wraps, int64_t *out)
{
    int64_t b;
    if (e->kind == IR_X_CONST) {
        *out = e->value;
        return true;
    }
    if (e->kind == IR_X_SYM)
        return value && value(user, e, out);
    if (!eval(e->arg[0], value, user, wraps, out))
        return false;
    for (int i = 1; i < e->nargs; i++) {
        if (!eval(e->arg[i], value, user, wraps, &b))
            return false;
        if (!apply(e->kind, *out, b, out) && !(wraps && (e->kind == IR_X_ADD || e->kind == IR_X_MUL)))
            return false;
    }
    return true;
}

bool ir_eval(ir_expr e, ir_value_of value, void *user, int64_t *out)
{
    return eval(e, value, user, false, out);
}

bool ir_eval_data(ir_expr e, ir_value_of value, void *user, int64_t *out)
{
    return eval(e, value, user, MUTANT(412, true, false), out);
}

int ir_count_formula(ir_expr e)
{
    int n = 1;
    for (int i = 0; i < e->nargs; i++)
        n += ir_count_formula(e->arg[i]);
    return n;
}

struct ir_formula *ir_fill_formula(struct ir_formula *node, struct ir_formula *next, ir_expr e,
                                   const int64_t *(*where)(void *user, ir_expr sym), void *user)
{
    struct ir_formula *arg = next;
    *node = (struct ir_formula){.value = e->value, .kind = e->kind, .nargs = e->nargs, .arg = arg};
    if (e->kind == IR_X_CONST)
        node->at = &node->value;
    else if (e->kind == IR_X_SYM)
        node->at = where(user, e);
    next += e->nargs;
    for (int i = 0; i < e->nargs; i++)
        next = ir_fill_formula(&arg[i], next, e->arg[i], where, user);
    return next;
}

bool ir_eval_inner(const struct ir_formula *n, int64_t *out)
{
    int64_t a, b;
    if (!n->nargs || !ir_eval_formula(&n->arg[0], &a))
        return false;
    for (int i = 1; i < n->nargs; i++) {
        if (!ir_eval_formula(&n->arg[i], &b) || !apply(n->kind, a, b, &a))
            return false;
    }
    *out = a;
    return true;
}

bool ir_uses_sym(ir_expr e, ir_expr sym)
{
    if (e == sym)
        return true;
    for (int i = 0; i < e->nargs; i++) {
        if (ir_uses_sym(e->arg[i], sym))
            return true;
    }
    return false;
}

void ir_each_sym(ir_expr e, void (*visit)(void *user, ir_expr sym), void *user)
{
    if (e->kind == IR_X_SYM)
        visit(user, e);
    for (int i = 0; i < e->nargs; i++)
        ir_each_sym(e->arg[i], visit, user);
}

bool ir_linear_in(struct ir_ctx *ctx, ir_expr e, ir_expr sym, ir_expr *coefficient, ir_expr *rest)
{
    struct ir_poly p, c = {0}, r = {0};
    if (!ir_poly_of(&p, e))
        return false;
    for (int i = 0; i < p.n; i++) {
        ir_expr without = NULL;
        int n = times_in(ctx, p.at[i].mono, sym, &without);
        ir_expr kept = n ? without : p.at[i].mono;
        if (n > 1 || (kept && ir_uses_sym(kept, sym)))
            return false;
        ir_poly_add(n ? &c : &r, kept, p.at[i].coef);
    }
    *coefficient = ir_poly_expr(ctx, &c);
    *rest = ir_poly_expr(ctx, &r);
    return true;
}

/* == Text == */

/* Precedence: 0 sum, 1 product, 2 operand. */
static int precedence(ir_expr e)
{
    switch ((enum ir_expr_kind)e->kind) {
    case IR_X_ADD: return 0;
    case IR_X_MUL:
    case IR_X_FLOORDIV:
    case IR_X_MOD: return 1;
    default: return 2;
    }
}

static void print_in(FILE *out, ir_expr e, int least)
{
    bool negative = e->kind == IR_X_CONST && e->value < 0 && least > 0;
    bool paren = precedence(e) < least || negative;
    if (paren)
        fputc('(', out);
    ir_print_expr(out, e);
    if (paren)
        fputc(')', out);
}

/* As messages of a run have it: ir_expr_said(). */
static _Thread_local bool saying;

static void print_symbol(FILE *out, ir_expr sym)
{
    const char *name = saying ? ir_sym_said(sym) : sym->name;
    static const char *const reserved[] = {"floordiv", "mod", "min", "max"};
    bool plain = saying || ir_is_identifier(name);
    for (int i = 0; i < 4; i++)
        plain &= saying || strcmp(name, reserved[i]) != 0;
    if (plain)
        fputs(name, out);
    else
        ir_print_string(out, name);
}

/* a - b rather than a + b * -1 */
static void print_sum(FILE *out, ir_expr e)
{
    for (int i = 0; i < e->nargs; i++) {
        ir_expr t = e->arg[i];
        int64_t c = 1;
        if (t->kind == IR_X_CONST)
            c = t->value;
        else if (t->kind == IR_X_MUL && t->nargs == 2 && t->arg[1]->kind == IR_X_CONST)
            c = t->arg[1]->value;
        bool minus = i > 0 && c < 0 && c != INT64_MIN;
        if (i > 0)
            fputs(minus ? " - " : " + ", out);
        if (!minus)
            print_in(out, t, 1);
        else if (t->kind == IR_X_CONST)
            fprintf(out, "%lld", (long long)-c);
        else {
            print_in(out, t->arg[0], 1);
            if (c != -1)
                fprintf(out, " * %lld", (long long)-c);
        }
    }
}

void ir_print_expr(FILE *out, ir_expr e)
{
    static const char *const word[] = {[IR_X_MUL] = " * ",
                                       [IR_X_FLOORDIV] = " floordiv ",
                                       [IR_X_MOD] = " mod ",
                                       [IR_X_MIN] = "min(",
                                       [IR_X_MAX] = "max("};
    switch ((enum ir_expr_kind)e->kind) {
    case IR_X_CONST: fprintf(out, "%lld", (long long)e->value); break;
    case IR_X_SYM: print_symbol(out, e); break;
    case IR_X_ADD: print_sum(out, e); break;
    case IR_X_MUL:
    case IR_X_FLOORDIV:
    case IR_X_MOD:
        for (int i = 0; i < e->nargs; i++) {
            if (i)
                fputs(word[e->kind], out);
            bool last_constant = i && e->kind == IR_X_MUL && e->arg[i]->kind == IR_X_CONST;
            bool mono_first = i == 0 && e->kind == IR_X_MUL && e->arg[0]->kind == IR_X_MUL;
            print_in(out, e->arg[i], last_constant ? 0 : mono_first ? 1 : 2);
        }
        break;
    case IR_X_MIN:
    case IR_X_MAX:
        fputs(word[e->kind], out);
        ir_print_expr(out, e->arg[0]);
        fputs(", ", out);
        ir_print_expr(out, e->arg[1]);
        fputc(')', out);
        break;
    }
}

static void print_any(FILE *out, const void *e)
{
    ir_print_expr(out, e);
}

const char *ir_expr_text(struct ir_ctx *ctx, ir_expr e)
{
    return ir_text_of(ctx, print_any, e);
}

const char *ir_expr_said(struct ir_ctx *ctx, ir_expr e)
{
    saying = true;
    const char *text = ir_text_of(ctx, print_any, e);
    saying = false;
    return text;
}
