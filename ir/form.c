/* SPDX-License-Identifier: Apache-2.0 */
/*
 * form.c - elementwise formulas as text, built as nodes: shorter to read than the calls that build them, and in the
 * same order whichever compiler built tccc. The language is that of scalar.def (formula.c).
 */
#include "ir/ir.h"

#include <string.h>

#define MAX_NUMBERS 24

struct forming {
    const struct ir_forming *how;
    const double *numbers;
    struct ir_value *const *operands;
    /* Numbers get their type from what they stand beside; until then each is one of these. */
    struct ir_value number[MAX_NUMBERS];
    double value[MAX_NUMBERS];
    int n;
};

static void *number(void *user, double v)
{
    struct forming *f = user;
    if (f->n == MAX_NUMBERS)
        return NULL;
    f->value[f->n] = v;
    return &f->number[f->n++];
}

static void *named(void *user, char c)
{
    struct forming *f = user;
    static const char operands[] = "xyzuvw";
    if (c >= 'a' && c <= 'd')
        return number(user, f->numbers[c - 'a']);
    const char *at = strchr(operands, c);
    return at ? f->operands[at - operands] : NULL;
}

static bool is_number(const struct forming *f, const struct ir_value *v)
{
    return v >= f->number && v < f->number + MAX_NUMBERS;
}

static void *apply(void *user, const char *word, int n, void *const *args)
{
    struct forming *f = user;
    enum ir_op op = ir_op_by_name(word);
    const struct ir_value *like = f->operands[0];
    struct ir_value *in[3] = {NULL};
    for (int k = n - 1; k >= (op == IR_select); k--)
        like = is_number(f, args[k]) ? like : args[k];
    for (int k = 0; k < n; k++)
        in[k] = is_number(f, args[k])
                    ? f->how->literal(f->how->user, like, f->value[(const struct ir_value *)args[k] - f->number])
                    : args[k];
    return f->how->op(f->how->user, op, n, in);
}

struct ir_value *ir_form(const struct ir_forming *how, const char *text, const double *numbers,
                         struct ir_value *const *operands)
{
    struct forming f = {.how = how, .numbers = numbers, .operands = operands};
    return ir_read_formula(&(struct ir_reading){&f, number, named, apply}, text);
}

static struct ir_value *build(void *b, enum ir_op op, int n, struct ir_value *const *in)
{
    return ir_build1(b, op, n, in, NULL);
}

static struct ir_value *literal(void *b, const struct ir_value *like, double v)
{
    return like ? ir_constant_f(b, (enum tcc_dtype)like->type->dtype, v) : NULL;
}

struct ir_value *ir_formula_of(struct ir_builder *b, const char *text, const double *numbers,
                               struct ir_value *const *operands)
{
    return ir_form(&(struct ir_forming){b, build, literal}, text, numbers, operands);
}
