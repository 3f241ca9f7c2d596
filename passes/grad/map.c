/* SPDX-License-Identifier: Apache-2.0 */
/*
 * map.c - gradients of the MAP ops, by grad.def's expressions.
 *
 * Element types below f32 are widened first, so that a gradient is rounded once, as the word itself is.
 */
#include "passes/grad/grad_int.h"

#include <string.h>

#include "base/mutant.h"

static const struct map_row {
    enum ir_op op;
    const char *by[3];
} map_rows[] = {
#define GRAD_MAP(word, x, y, z) {IR_##word, {x, y, z}},
#define GRAD_OP(op, rule, meaning)
#define GRAD_REFUSED(op, why)
#define GRAD_NONE(op, why) {IR_##op, {"", "", ""}},
#include "passes/grad/grad.def"
};

const char *grad_text(enum ir_op op, int operand)
{
    for (size_t i = 0; i < sizeof map_rows / sizeof *map_rows; i++)
        if (map_rows[i].op == op)
            return map_rows[i].by[operand];
    return NULL;
}

static struct ir_value *widen(struct grad *g, struct ir_value *v)
{
    return v && tcc_small_float((enum tcc_dtype)v->type->dtype) ? ir_cast_to(g->b, v, TCC_F32) : v;
}

/* Cheaper forms of pow by a constant exponent. */
static const struct {
    double exponent;
    const char *text;
} powers[] = {{2, "d * (x + x)"},
              {3, "d * 3 * x * x"},
              {0.5, "d / (r + r)"},
              {-0.5, "d * -0.5 * r / x"},
              {-1, "-(d * r * r)"},
              {1, "d"},
              {0, ""}};

static const char *text_of(const struct ir_node *n, int i)
{
    double exponent;
    if (n->op == IR_pow && i == 0 && ir_splat_f(n->in[1].value, &exponent)) {
        for (size_t k = 0; k < sizeof powers / sizeof *powers; k++)
            if (powers[k].exponent == exponent)
                return powers[k].text;
        return MUTANT(2, "d * y * pow(x, y - 1)", "d * pow(x, y - 1)");
    }
    return grad_text(n->op, MUTANT(1, i, 0));
}

/* Words without a row (comparisons, logic) don't. */
bool grad_map_passes(const struct ir_node *n, int i)
{
    const char *text = text_of(n, i);
    return text && *text;
}

void grad_map(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0);
    for (int i = 0; i < n->nin && d; i++) {
        if (!grad_wants(g, n, i) || !grad_passes(n, i))
            continue;
        const char *text = text_of(n, i);
        if (text && !strcmp(text, "d")) {
            grad_accumulate(g, n, i, d);
            continue;
        }
        struct grad_names names = {.x = widen(g, grad_in(n, 0)),
                                   .y = widen(g, grad_in(n, 1)),
                                   .z = widen(g, grad_in(n, 2)),
                                   .r = widen(g, n->out[0]),
                                   .d = widen(g, d)};
        if (text && *text)
            grad_accumulate(g, n, i, grad_expr(g, text, &names, grad_in(n, i)->type));
    }
}

/* A product stays one: what turns the operand (a weight that autocast casts behind its transposition) turns it too. */
void grad_rule_cast(struct grad *g, struct ir_node *n)
{
    const struct grad_sum *sum = &g->sums[n->out[0]->id];
    if (sum->parts.n == 1 && sum->parts.at[0].form == GRAD_PRODUCT && !sum->parts.at[0].to && grad_wants(g, n, 0)) {
        struct cotangent p = sum->parts.at[0];
        p.to = (enum tcc_dtype)n->out[0]->type->dtype;
        grad_add_cotangent(g, n->in[0].value, p);
        return;
    }
    grad_accumulate(g, n, 0, grad_out(g, n, 0));
}
