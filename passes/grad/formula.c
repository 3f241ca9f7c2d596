/* SPDX-License-Identifier: Apache-2.0 */
/*
 * formula.c - reads expressions over values: of gradients (grad.def), and of what front ends write as formulas
 * (compiler/import/formula.c).
 *
 *   sum     = product { ("+" | "-") product }
 *   product = factor { ("*" | "/") factor }
 *   factor  = "-" factor | number | name | word "(" sum { "," sum } ")" | "(" sum ")"
 *
 * The language is that of scalar.def's bodies (ir/scalar.c), over values instead of scalars; a name is one letter.
 */
#include "passes/grad/grad.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const char *at;
    const struct grad_formula *f;
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

static struct ir_value *apply(struct reader *r, const char *word, struct ir_value *x, struct ir_value *y)
{
    return r->f->apply(r->f->user, word, 1 + (y != NULL), (struct ir_value *[]){x, y});
}

static struct ir_value *call(struct reader *r, const char *word, size_t length)
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
    return r->f->apply(r->f->user, name, n, args);
}

static struct ir_value *number(struct reader *r, double sign)
{
    char *end;
    double v = strtod(r->at, &end);
    r->at = end;
    return r->f->number(r->f->user, sign * v);
}

static struct ir_value *factor(struct reader *r)
{
    bool minus = eat(r, '-');
    r->at += strspn(r->at, " ");
    if (isdigit((unsigned char)*r->at))
        return number(r, minus ? -1 : 1);
    if (minus)
        return apply(r, "neg", factor(r), NULL);
    if (eat(r, '(')) {
        struct ir_value *v = sum(r);
        eat(r, ')');
        return v;
    }
    const char *word = r->at;
    while (isalnum((unsigned char)*r->at) || *r->at == '_')
        r->at++;
    size_t length = (size_t)(r->at - word);
    return eat(r, '(') ? call(r, word, length) : r->f->name(r->f->user, *word);
}

/* Both operands are read, whatever becomes of the first. */
static struct ir_value *both(struct reader *r, const char *word, struct ir_value *x, struct ir_value *y)
{
    return x && y ? apply(r, word, x, y) : NULL;
}

static struct ir_value *product(struct reader *r)
{
    struct ir_value *v = factor(r);
    for (;;) {
        const char *word = eat(r, '*') ? "mul" : eat(r, '/') ? "div" : NULL;
        if (!word)
            return v;
        v = both(r, word, v, factor(r));
    }
}

static struct ir_value *sum(struct reader *r)
{
    struct ir_value *v = product(r);
    for (;;) {
        const char *word = eat(r, '+') ? "add" : eat(r, '-') ? "sub" : NULL;
        if (!word)
            return v;
        v = both(r, word, v, product(r));
    }
}

struct ir_value *grad_formula(const struct grad_formula *f, const char *text)
{
    return sum(&(struct reader){text, f});
}
