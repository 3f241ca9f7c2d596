/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes as PyTorch writes them: sympy's srepr, such as Add(Mul(Integer(2), Symbol('s17', positive=True, integer=True)), Integer(-1)).
 */
#include "compiler/pt2/pt2_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NESTED 64

struct text {
    struct ir_ctx *ctx;
    const char *at;
    int depth;
};

static bool take(struct text *t, const char *word)
{
    size_t n = strlen(word);
    while (*t->at == ' ')
        t->at++;
    if (strncmp(t->at, word, n))
        return false;
    t->at += n;
    return true;
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

/* 's17', and what sympy assumes of it, which range_constraints say better. */
static ir_expr symbol(struct text *t)
{
    const char *from = t->at + 1, *end = *t->at == '\'' ? strchr(from, '\'') : NULL;
    if (!end || end == from || end - from > 200)
        return NULL;
    t->at = end + 1;
    t->at += strcspn(t->at, ")");
    return ir_sym(t->ctx, ir_internf(t->ctx, "%.*s", (int)(end - from), from));
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

static ir_expr power(struct ir_ctx *ctx, ir_expr a, ir_expr b)
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
    {"Add(", ir_add},         {"Mul(", ir_mul},  {"FloorDiv(", divide},    {"CleanDiv(", divide},
    {"CeilDiv(", ir_ceildiv}, {"Mod(", modulus}, {"PythonMod(", modulus},  {"Max(", ir_max},
    {"Min(", ir_min},         {"Pow(", power},   {"PowByNatural(", power},
};

static ir_expr expression(struct text *t);

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
        for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
            if (!take(t, functions[k].name))
                continue;
            e = call(t, functions[k].f);
            break;
        }
    }
    t->depth--;
    return e;
}

ir_expr pt2_symbols(struct ir_ctx *ctx, const char *text)
{
    struct text t = {.ctx = ctx, .at = text};
    ir_expr e = expression(&t);
    return e && !*t.at ? e : NULL;
}
