/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise formulas as text, in the language of ir/scalar.def: shorter to read than the calls that build them. */
#include "compiler/import/import.h"

#include <string.h>

#define MAX_NUMBERS 24

struct formula {
    struct imp *im;
    const double *numbers;
    struct ir_value *const *operands;
    /* Numbers get their type from what they stand beside; until then each is one of these. */
    struct ir_value number[MAX_NUMBERS];
    double value[MAX_NUMBERS];
    int n;
};

static void *number(void *user, double v)
{
    struct formula *f = user;
    if (f->n == MAX_NUMBERS)
        return NULL;
    f->value[f->n] = v;
    return &f->number[f->n++];
}

static void *named(void *user, char c)
{
    struct formula *f = user;
    static const char operands[] = "xyzuvw";
    if (c >= 'a' && c <= 'd')
        return number(user, f->numbers[c - 'a']);
    const char *at = strchr(operands, c);
    return at ? f->operands[at - operands] : NULL;
}

static bool is_number(const struct formula *f, const struct ir_value *v)
{
    return v >= f->number && v < f->number + MAX_NUMBERS;
}

static void *apply(void *user, const char *word, int n, void *const *args)
{
    struct formula *f = user;
    enum ir_op op = ir_op_by_name(word);
    const struct ir_value *like = f->operands[0];
    struct ir_value *in[3] = {NULL};
    for (int k = n - 1; k >= (op == IR_select); k--)
        like = is_number(f, args[k]) ? like : args[k];
    for (int k = 0; k < n; k++)
        in[k] = is_number(f, args[k]) ? imp_like(f->im, like, f->value[(const struct ir_value *)args[k] - f->number])
                                      : args[k];
    return imp_op(f->im, op, n, in, NULL);
}

struct ir_value *imp_formula_of(struct imp *im, const char *text, const double *numbers,
                                struct ir_value *const *operands)
{
    struct formula f = {.im = im, .numbers = numbers, .operands = operands};
    return ir_read_formula(&(struct ir_reading){&f, number, named, apply}, text);
}
