/* SPDX-License-Identifier: Apache-2.0 */
/*
 * expr.c - builds the expressions of grad.def as nodes.
 *
 *   sum     = product { ("+" | "-") product }
 *   product = factor { ("*" | "/") factor }
 *   factor  = "-" factor | number | name | word "(" sum { "," sum } ")" | "sum" "(" sum ")" | "(" sum ")"
 *
 * The language is that of scalar.def's bodies (ir/scalar.c), over values instead of scalars.
 */
#include "passes/grad/grad_int.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    struct grad *g;
    const char *at;
    const struct grad_names *names;
    ir_type to;
    enum tcc_dtype dtype; /* of literals */
};

static struct ir_value *sum(struct reader *r);

static bool eat(struct reader *r, char c)
{
    r->at += strspn(r->at, " ");
    if (*r->at != c)
        return false;
    r->at++;
    return true;
}

/* Sums over the axes that the operand does not have, or has as 1. */
static struct ir_value *to_operand(struct reader *r, struct ir_value *v)
{
    return r->to && v ? grad_fit(r->g, v, ir_with_dtype(r->g->ctx, r->to, (enum tcc_dtype)v->type->dtype)) : v;
}

static struct ir_value *call_word(struct reader *r, const char *word, size_t length)
{
    struct ir_value *args[3] = {NULL};
    char name[32];
    int n = 0;
    do {
        struct ir_value *v = sum(r);
        if (n < 3)
            args[n++] = v;
    } while (eat(r, ','));
    eat(r, ')');
    snprintf(name, sizeof name, "%.*s", (int)length, word);
    if (!strcmp(name, "sum"))
        return to_operand(r, args[0]);
    return ir_build1(r->g->b, ir_op_by_name(name), n, args, NULL);
}

static struct ir_value *named(const struct grad_names *names, char c)
{
    switch (c) {
    case 'x': return names->x;
    case 'y': return names->y;
    case 'z': return names->z;
    case 'r': return names->r;
    default: return names->d;
    }
}

static struct ir_value *factor(struct reader *r)
{
    if (eat(r, '-')) {
        r->at += strspn(r->at, " ");
        if (!isdigit((unsigned char)*r->at))
            return ir_unary(r->g->b, IR_neg, factor(r));
        r->at--;
        char *end;
        double v = strtod(r->at, &end);
        r->at = end;
        return ir_constant_f(r->g->b, r->dtype, v);
    }
    if (eat(r, '(')) {
        struct ir_value *v = sum(r);
        eat(r, ')');
        return v;
    }
    r->at += strspn(r->at, " ");
    if (isdigit((unsigned char)*r->at)) {
        char *end;
        double v = strtod(r->at, &end);
        r->at = end;
        return ir_constant_f(r->g->b, r->dtype, v);
    }
    const char *word = r->at;
    while (isalnum((unsigned char)*r->at) || *r->at == '_')
        r->at++;
    size_t length = (size_t)(r->at - word);
    return eat(r, '(') ? call_word(r, word, length) : named(r->names, *word);
}

static struct ir_value *product(struct reader *r)
{
    struct ir_value *v = factor(r);
    for (;;) {
        enum ir_op op = eat(r, '*') ? IR_mul : eat(r, '/') ? IR_div : IR_OP_NONE;
        if (op == IR_OP_NONE)
            return v;
        v = ir_binary(r->g->b, op, v, factor(r));
    }
}

static struct ir_value *sum(struct reader *r)
{
    struct ir_value *v = product(r);
    for (;;) {
        enum ir_op op = eat(r, '+') ? IR_add : eat(r, '-') ? IR_sub : IR_OP_NONE;
        if (op == IR_OP_NONE)
            return v;
        v = ir_binary(r->g->b, op, v, product(r));
    }
}

struct ir_value *grad_expr(struct grad *g, const char *text, const struct grad_names *names, ir_type to)
{
    struct reader r = {.g = g, .at = text, .names = names, .to = to, .dtype = (enum tcc_dtype)names->d->type->dtype};
    return names->d ? sum(&r) : NULL;
}
