/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes as PyTorch writes them: sympy's srepr, such as Add(Mul(Integer(2), Symbol('s17', positive=True, integer=True)),
 * Integer(-1)). Floats may lie between, as in TruncToInt(Mul(Float('1.5', precision=53), ToFloat(Symbol('s17'...)))).
 * They are read as fractions, where PyTorch's double precision gives the same: with factors that are sums of few powers
 * of two, and a division last.
 */
#include "compiler/pt2/pt2_int.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NESTED 64

struct text {
    struct pt2 *p;
    struct ir_ctx *ctx;
    const char *at;
    int depth;
};

bool pt2_take(const char **at, const char *word)
{
    size_t n = strlen(word);
    *at += strspn(*at, " ");
    if (strncmp(*at, word, n))
        return false;
    *at += n;
    return true;
}

static bool take(struct text *t, const char *word)
{
    return pt2_take(&t->at, word);
}

static ir_expr integer(struct text *t)
{
    char *end;
    errno = 0;
    long long v = strtoll(t->at, &end, 10);
    if (end == t->at || errno)
        return NULL;
    t->at = end;
    return ir_const(t->ctx, v);
}

const char *pt2_dim_name(struct pt2 *p, const char *symbol)
{
    const char *name = js_string(p->archive->dim_names, symbol);
    return name ? ir_internf(p->ctx, "%s", name) : symbol;
}

/* 's17', and what sympy assumes of it, which range_constraints say better. */
static ir_expr symbol(struct text *t)
{
    const char *from = t->at + 1, *end = *t->at == '\'' ? strchr(from, '\'') : NULL;
    if (!end || end == from || end - from > 200)
        return NULL;
    t->at = end + 1;
    t->at += strcspn(t->at, ")");
    return ir_sym(t->ctx, pt2_dim_name(t->p, ir_internf(t->ctx, "%.*s", (int)(end - from), from)));
}

/* A divisor that is never negative is not 0 either: PyTorch would have failed. */
ir_expr pt2_divisor(struct ir_ctx *ctx, ir_expr b)
{
    return b->lo > 0 ? b : b->lo == 0 ? ir_max(ctx, b, ir_const(ctx, 1)) : NULL;
}

static ir_expr divide(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    ir_expr by = pt2_divisor(ctx, b);
    return by ? ir_floordiv(ctx, a, by) : NULL;
}

static ir_expr modulus(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    ir_expr by = pt2_divisor(ctx, b);
    return by ? ir_mod(ctx, a, by) : NULL;
}

ir_expr pt2_power(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    int64_t n;
    ir_expr e = ir_const(ctx, 1);
    if (!ir_is_const(b, &n) || n < 0 || n > 16)
        return NULL;
    for (int64_t k = 0; k < n; k++)
        e = ir_mul(ctx, e, a);
    return e;
}

static const struct {
    const char *name;
    ir_expr (*f)(struct ir_ctx *ctx, ir_expr a, ir_expr b);
} functions[] = {
    {"Add(", ir_add},         {"Mul(", ir_mul},    {"FloorDiv(", divide},        {"CleanDiv(", divide},
    {"CeilDiv(", ir_ceildiv}, {"Mod(", modulus},   {"PythonMod(", modulus},      {"Max(", ir_max},
    {"Min(", ir_min},         {"Pow(", pt2_power}, {"PowByNatural(", pt2_power},
};

static ir_expr expression(struct text *t), rounding(struct text *t);

static ir_expr call(struct text *t, ir_expr (*f)(struct ir_ctx *ctx, ir_expr a, ir_expr b))
{
    ir_expr e = expression(t);
    while (e && take(t, ",")) {
        ir_expr next = expression(t);
        e = next ? f(t->ctx, e, next) : NULL;
    }
    return e && take(t, ")") ? e : NULL;
}

static ir_expr expression(struct text *t)
{
    ir_expr e = NULL;
    if (++t->depth > MAX_NESTED)
        return NULL;
    if (take(t, "Integer(")) {
        e = integer(t);
        e = e && take(t, ")") ? e : NULL;
    } else if (take(t, "Symbol(")) {
        e = symbol(t);
        e = e && take(t, ")") ? e : NULL;
    } else {
        size_t k = 0, n = sizeof functions / sizeof *functions;
        while (k < n && !take(t, functions[k].name))
            k++;
        e = k < n ? call(t, functions[k].f) : rounding(t);
    }
    t->depth--;
    return e;
}

/* -- Floats */

struct fraction {
    ir_expr above, below;
    bool rounded; /* by a division: nothing but rounding to an integer may follow */
};

static struct fraction fraction(struct text *t);

/* '1.5', precision=53: in so few bits that products with sizes are exact. */
static struct fraction number(struct text *t)
{
    struct fraction none = {0};
    char *end;
    if (!take(t, "'"))
        return none;
    double v = strtod(t->at, &end);
    int64_t below = 1;
    for (; below < (1 << 20) && v != (double)(int64_t)v && fabs(v) < 1 << 20; below *= 2)
        v *= 2;
    if (end == t->at || *end != '\'' || !(fabs(v) < 1 << 20) || v != (double)(int64_t)v)
        return none;
    t->at = end + strcspn(end, ")");
    return (struct fraction){take(t, ")") ? ir_const(t->ctx, (int64_t)v) : NULL, ir_const(t->ctx, below), false};
}

static struct fraction times(struct ir_ctx *ctx, struct fraction a, struct fraction b)
{
    return (struct fraction){a.rounded || b.rounded ? NULL : ir_mul(ctx, a.above, b.above),
                             ir_mul(ctx, a.below, b.below), false};
}

static struct fraction plus(struct ir_ctx *ctx, struct fraction a, struct fraction b)
{
    ir_expr above =
        a.rounded || b.rounded ? NULL : ir_add(ctx, ir_mul(ctx, a.above, b.below), ir_mul(ctx, b.above, a.below));
    return (struct fraction){above, ir_mul(ctx, a.below, b.below), false};
}

static struct fraction over(struct ir_ctx *ctx, struct fraction a, struct fraction b)
{
    ir_expr by = a.rounded || b.rounded ? NULL : pt2_divisor(ctx, b.above);
    return (struct fraction){by ? ir_mul(ctx, a.above, b.below) : NULL, by ? ir_mul(ctx, a.below, by) : NULL, true};
}

static const struct {
    const char *name;
    struct fraction (*f)(struct ir_ctx *ctx, struct fraction a, struct fraction b);
} float_functions[] = {
    {"Mul(", times}, {"Add(", plus}, {"FloatTrueDiv(", over}, {"IntTrueDiv(", over}, {"ToFloat(", NULL}};

static struct fraction fraction(struct text *t)
{
    struct fraction f = {0};
    if (take(t, "Float("))
        return number(t);
    for (size_t k = 0; k < sizeof float_functions / sizeof *float_functions; k++) {
        if (!take(t, float_functions[k].name))
            continue;
        bool deep = ++t->depth > MAX_NESTED;
        f = deep ? f : fraction(t);
        while (f.above && float_functions[k].f && take(t, ",")) {
            struct fraction next = fraction(t);
            f = next.above ? float_functions[k].f(t->ctx, f, next) : (struct fraction){0};
        }
        t->depth--;
        return f.above && take(t, ")") ? f : (struct fraction){0};
    }
    return (struct fraction){expression(t), ir_const(t->ctx, 1), false};
}

/* Toward zero, where it is the same as down. */
static ir_expr truncated(struct ir_ctx *ctx, ir_expr above, ir_expr below)
{
    return above->lo >= 0 ? ir_floordiv(ctx, above, below) : NULL;
}

static const struct {
    const char *name;
    ir_expr (*f)(struct ir_ctx *ctx, ir_expr above, ir_expr below);
} roundings[] = {{"TruncToInt(", truncated}, {"FloorToInt(", ir_floordiv}, {"CeilToInt(", ir_ceildiv}};

/* An integer that is made of floats; NULL, with nothing taken: none. */
static ir_expr rounding(struct text *t)
{
    for (size_t k = 0; k < sizeof roundings / sizeof *roundings; k++) {
        if (!take(t, roundings[k].name))
            continue;
        struct fraction f = fraction(t);
        return f.above && take(t, ")") ? roundings[k].f(t->ctx, f.above, f.below) : NULL;
    }
    return NULL;
}

ir_expr pt2_symbols(struct pt2 *p, const char *text)
{
    struct text t = {.p = p, .ctx = p->ctx, .at = text};
    ir_expr e = expression(&t);
    return e && !*t.at ? e : NULL;
}
