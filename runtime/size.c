/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The integer program: dims, offsets and sizes as functions of symbols, evaluated level by level. Level 0 depends on
 * the inputs' dims; a later level on symbols that steps bind while the plan runs. A value that depends on an unbound
 * symbol, or whose computation overflows, is poison and is reported by whoever uses it: sizes of a branch that is not
 * taken may well be nonsense.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/rt_int.h"

#include "base/mutant.h"

static int64_t floordiv(int64_t a, int64_t b)
{
    int64_t q;

    if (b == -1)
        return a == INT64_MIN ? TCR_BAD : -a;
    q = a / b;
    return q - MUTANT(100, a % b != 0 && (a < 0) != (b < 0), 0);
}

int64_t tcr_compute(uint32_t op, int64_t a, int64_t b)
{
    int64_t r;

    switch (op) {
    case TCC_EX_ADD: return __builtin_add_overflow(a, b, &r) || !TCR_IS_VALUE(r) ? TCR_BAD : r;
    case TCC_EX_MUL: return __builtin_mul_overflow(a, b, &r) || !TCR_IS_VALUE(r) ? TCR_BAD : r;
    case TCC_EX_FLOORDIV: return b == 0 ? TCR_BAD : floordiv(a, b);
    case TCC_EX_MOD: return b == 0 ? TCR_BAD : b == -1 ? 0 : a - floordiv(a, b) * b;
    case TCC_EX_MIN: return (a < b) == MUTANT(101, true, false) ? a : b;
    default: return a > b ? a : b;
    }
}

void tcr_eval_level(struct tccrt_session *s, uint32_t level)
{
    const struct tccrt_model *m = s->m;
    int64_t *v = s->values;

    for (uint32_t i = m->level_first[level]; i < m->level_first[level + 1]; i++) {
        uint32_t n = m->level_exprs[i];
        const struct tcc_pexpr *e = &m->exprs[n];

        if (e->op == TCC_EX_CONST)
            v[n] = e->k;
        else if (e->op == TCC_EX_SYM)
            v[n] = s->syms[e->k];
        else if (TCR_IS_VALUE(v[e->a]) && TCR_IS_VALUE(v[e->b]))
            v[n] = tcr_compute(e->op, v[e->a], v[e->b]);
        else
            v[n] = v[e->a] == TCR_BAD || v[e->b] == TCR_BAD ? TCR_BAD : TCR_UNBOUND;
    }
}

void tcr_forget_levels(struct tccrt_session *s)
{
    const struct tccrt_model *m = s->m;

    if (m->plan->levels < 2)
        return;
    for (uint32_t i = m->level_first[1]; i < m->level_first[m->plan->levels]; i++) {
        const struct tcc_pexpr *e = &m->exprs[m->level_exprs[i]];

        s->values[m->level_exprs[i]] = TCR_UNBOUND;
        if (e->op == TCC_EX_SYM)
            s->syms[e->k] = TCR_UNBOUND;
    }
}

int tcr_bind_sym(struct tccrt_session *s, uint32_t sym, int64_t value, const char *node)
{
    const struct tcc_psym *p = &s->m->syms[sym];

    if (value < p->lo || value > p->hi || !TCR_IS_VALUE(value))
        return tcr_fail(TCC_EINPUT, "node '%s': size '%s' must be in [%lld, %lld], got %lld", node,
                        tcr_string(s->m, p->name), (long long)p->lo, (long long)p->hi, (long long)value);
    s->syms[sym] = value;
    return TCC_OK;
}

int tcr_size(struct tccrt_session *s, uint32_t expr, const char *what, const char *node, int64_t *out)
{
    int64_t v = s->values[expr];

    if (v >= 0) {
        *out = v;
        return TCC_OK;
    }
    if (v == TCR_UNBOUND)
        return tcr_fail(TCC_EBUG, "node '%s': %s is used before its size is known", node, what);
    if (v == TCR_BAD)
        return tcr_fail(TCC_EINPUT, "node '%s': %s overflows, or is divided by zero, with these input shapes", node,
                        what);
    return tcr_fail(TCC_EINPUT, "node '%s': %s is %lld with these input shapes; it must not be negative", node, what,
                    (long long)v);
}

int tcr_dims(struct tccrt_session *s, struct tcc_range dims, const char *what, const char *node, int64_t *out)
{
    for (uint32_t i = 0; i < dims.count; i++) {
        int status = tcr_size(s, s->m->u32s[dims.first + i], what, node, &out[i]);

        if (status)
            return status;
    }
    return TCC_OK;
}

/* Expressions share operands, so a text may be exponentially long: it is cut at the size of its buffer. */
struct text {
    char at[512];
    size_t n;
};

static void put(struct text *t, const char *s)
{
    size_t room = sizeof t->at - 1 - t->n, n = strlen(s);

    memcpy(t->at + t->n, s, n < room ? n : room);
    t->n += n < room ? n : room;
}

static void put_number(struct text *t, int64_t k)
{
    char number[32];

    snprintf(number, sizeof number, "%lld", (long long)k);
    put(t, number);
}

/* How closely an expression's operator binds: as the compiler prints them (ir_print_expr). */
static int precedence(const struct tcc_pexpr *e)
{
    switch (e->op) {
    case TCC_EX_ADD: return 0;
    case TCC_EX_MUL:
    case TCC_EX_FLOORDIV:
    case TCC_EX_MOD: return 1;
    default: return 2;
    }
}

static void put_expr(const struct tccrt_model *m, struct text *t, uint32_t n, int least);

/* The second term of a sum: a - b rather than a + b * -1. */
static void put_term(const struct tccrt_model *m, struct text *t, uint32_t n)
{
    const struct tcc_pexpr *e = &m->exprs[n];
    const struct tcc_pexpr *k = e->op == TCC_EX_MUL ? &m->exprs[e->b] : e;
    bool minus = k->op == TCC_EX_CONST && k->k < 0 && k->k != INT64_MIN;

    put(t, minus ? " - " : " + ");
    if (!minus) {
        put_expr(m, t, n, 1);
    } else if (k == e) {
        put_number(t, -k->k);
    } else {
        put_expr(m, t, e->a, 1);
        if (k->k != -1) {
            put(t, " * ");
            put_number(t, -k->k);
        }
    }
}

static void put_expr(const struct tccrt_model *m, struct text *t, uint32_t n, int least)
{
    static const char *const words[] = {[TCC_EX_MUL] = " * ",
                                        [TCC_EX_FLOORDIV] = " floordiv ",
                                        [TCC_EX_MOD] = " mod ",
                                        [TCC_EX_MIN] = "min(",
                                        [TCC_EX_MAX] = "max("};
    const struct tcc_pexpr *e = &m->exprs[n];
    bool call = e->op == TCC_EX_MIN || e->op == TCC_EX_MAX;
    bool paren = precedence(e) < least || (e->op == TCC_EX_CONST && e->k < 0 && least > 0);

    if (t->n == sizeof t->at - 1)
        return;
    if (e->op == TCC_EX_SYM) {
        put(t, tcr_string(m, m->syms[e->k].name));
        return;
    }
    put(t, paren ? "(" : "");
    if (e->op == TCC_EX_CONST) {
        put_number(t, e->k);
    } else if (e->op == TCC_EX_ADD) {
        put_expr(m, t, e->a, 0);
        put_term(m, t, e->b);
    } else {
        bool product = e->op == TCC_EX_MUL;

        put(t, call ? words[e->op] : "");
        put_expr(m, t, e->a, call ? 0 : product && m->exprs[e->a].op == TCC_EX_MUL ? 1 : 2);
        put(t, call ? ", " : words[e->op]);
        put_expr(m, t, e->b, call || (product && m->exprs[e->b].op == TCC_EX_CONST) ? 0 : 2);
        put(t, call ? ")" : "");
    }
    put(t, paren ? ")" : "");
}

char *tcr_expr_text(const struct tccrt_model *m, uint32_t expr)
{
    struct text t = {.n = 0};
    char *copy;

    put_expr(m, &t, expr, 0);
    copy = malloc(t.n + 1);
    if (copy) {
        memcpy(copy, t.at, t.n);
        copy[t.n] = 0;
    }
    return copy;
}

/* The symbols of expressions, each once, as many as a message has room for; expressions share operands, so there is an
 * end to looking. */
struct names {
    uint32_t at[8];
    int n, steps;
};

static void find_names(const struct tccrt_model *m, struct names *x, uint32_t n)
{
    const struct tcc_pexpr *e = &m->exprs[n];

    if (e->op == TCC_EX_CONST || x->n == 8 || x->steps++ > 1000)
        return;
    if (e->op == TCC_EX_SYM) {
        for (int i = 0; i < x->n; i++)
            if (x->at[i] == (uint32_t)e->k)
                return;
        x->at[x->n++] = (uint32_t)e->k;
        return;
    }
    find_names(m, x, e->a);
    find_names(m, x, e->b);
}

void tcr_expr_names(const struct tccrt_session *s, const uint32_t *exprs, int n, char *to, size_t size)
{
    struct names x = {.n = 0};
    struct text t = {.n = 0};

    for (int i = 0; i < n; i++)
        if (s->m->exprs[exprs[i]].op != TCC_EX_SYM)
            find_names(s->m, &x, exprs[i]);
    for (int i = 0; i < x.n; i++) {
        put(&t, i ? ", " : "");
        put(&t, tcr_string(s->m, s->m->syms[x.at[i]].name));
        put(&t, " = ");
        put_number(&t, s->syms[x.at[i]]);
    }
    snprintf(to, size, "%.*s", (int)t.n, t.at);
}
