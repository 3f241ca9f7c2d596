/* SPDX-License-Identifier: Apache-2.0 */
/*
 * formula.c - reads expressions: scalar.def's bodies (scalar.c), those of gradients (grad.def), and what is
 * written as formulas of values (form.c). What they are made into, the caller says.
 *
 *   sum     = product { ("+" | "-") product }
 *   product = factor { ("*" | "/") factor }
 *   factor  = "-" factor | number | name | word "(" sum { "," sum } ")" | "(" sum ")"
 *
 * A name is one letter.
 */
#include "ir/ir.h"

#include <ctype.h>
#include <stdlib.h>

struct reader {
    const char *at;
    const struct ir_reading *of;
    bool bad;
};

static void *sum(struct reader *r);

static bool eat(struct reader *r, char c)
{
    r->at += strspn(r->at, " ");
    if (*r->at != c)
        return false;
    r->at++;
    return true;
}

static void *call(struct reader *r, const char *word, size_t length)
{
    void *args[3] = {NULL};
    char name[32];
    int n = 0;
    do {
        void *v = sum(r);
        if (n < 3)
            args[n] = v;
        n++;
    } while (eat(r, ',') && !r->bad);
    r->bad |= !eat(r, ')') || n > 3;
    snprintf(name, sizeof name, "%.*s", (int)length, word);
    return r->bad ? NULL : r->of->apply(r->of->user, name, n, args);
}

static void *number(struct reader *r, double sign)
{
    char *end;
    double v = strtod(r->at, &end);
    r->at = end;
    return r->of->number(r->of->user, sign * v);
}

static void *factor(struct reader *r)
{
    bool minus = eat(r, '-');
    r->at += strspn(r->at, " ");
    if (isdigit((unsigned char)*r->at))
        return number(r, minus ? -1 : 1);
    if (minus) {
        void *x = factor(r);
        return r->of->apply(r->of->user, "neg", 1, &x);
    }
    if (eat(r, '(')) {
        void *v = sum(r);
        r->bad |= !eat(r, ')');
        return v;
    }
    const char *word = r->at;
    while (isalnum((unsigned char)*r->at) || *r->at == '_')
        r->at++;
    size_t length = (size_t)(r->at - word);
    if (length && eat(r, '('))
        return call(r, word, length);
    r->bad |= length != 1;
    return r->bad ? NULL : r->of->name(r->of->user, *word);
}

/* Operands of `next` between signs of the one or the other word, from the left. All are read, whatever becomes of the
 * first. */
static void *chain(struct reader *r, void *(*next)(struct reader *), const char *signs, const char *const *words)
{
    void *v = next(r);
    for (;;) {
        int i = eat(r, signs[0]) ? 0 : eat(r, signs[1]) ? 1 : -1;
        if (i < 0 || r->bad)
            return v;
        void *args[2] = {v, next(r)};
        v = args[0] && args[1] ? r->of->apply(r->of->user, words[i], 2, args) : NULL;
    }
}

static void *product(struct reader *r)
{
    return chain(r, factor, "*/", (const char *const[]){"mul", "div"});
}

static void *sum(struct reader *r)
{
    return chain(r, product, "+-", (const char *const[]){"add", "sub"});
}

void *ir_read_formula(const struct ir_reading *of, const char *text)
{
    struct reader r = {.at = text, .of = of};
    void *v = sum(&r);
    return r.bad || *r.at ? NULL : v;
}
