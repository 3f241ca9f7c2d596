/* SPDX-License-Identifier: Apache-2.0 */
/*
 * map.c - gradients of the MAP words: by grad.def's expressions, else by the chain rule over the word's body.
 *
 * Element types below f32 are widened first, so that a gradient is rounded once, as the word itself is.
 */
#include "passes/grad/grad_int.h"

#include <string.h>

#define MAX_BODY 40

#define BODY NULL
static const struct map_row {
    enum ir_op op;
    const char *by[3];
} map_rows[] = {
#define GRAD_MAP(word, x, y, z) {IR_##word, {x, y, z}},
#define GRAD_OP(op, rule, meaning)
#define GRAD_NONE(op, why) {IR_##op, {"", "", ""}},
#include "passes/grad/grad.def"
#undef GRAD_MAP
#undef GRAD_OP
#undef GRAD_NONE
};

const char *grad_text(enum ir_op op, int operand)
{
    for (size_t i = 0; i < sizeof map_rows / sizeof *map_rows; i++)
        if (map_rows[i].op == op)
            return map_rows[i].by[operand];
    return NULL;
}

/* Without a row, words whose body is theirs pass; primitive ones (comparisons, logic) don't. */
bool grad_map_passes(enum ir_op op, int i)
{
    const char *text = grad_text(op, i);
    const struct ir_scalar_body *body = ir_scalar_body(op);
    return text ? *text != 0 : body && !body->primitive;
}

static struct ir_value *widen(struct grad *g, struct ir_value *v)
{
    return v && tcc_small_float((enum tcc_dtype)v->type->dtype) ? ir_cast_to(g->b, v, TCC_F32) : v;
}

/* -- Bodies ---------------------------------------------------------------------------------------- */

struct body {
    struct grad *g;
    const struct ir_scalar_body *s;
    struct ir_value *v[MAX_BODY], *d[MAX_BODY]; /* per node: its value, its gradient */
    bool wants[MAX_BODY];
};

/* The body's inner values, and which of them depend on the operand. */
static void evaluate(struct body *b, const struct grad_names *names, int operand)
{
    struct ir_value *args[3] = {names->x, names->y, names->z};
    for (int i = 0; i < b->s->nnodes; i++) {
        const struct ir_scalar_node *n = &b->s->nodes[i];
        struct ir_value *in[3] = {NULL};
        int nin = 0;
        switch ((enum ir_scalar_kind)n->kind) {
        case IR_S_ARG:
            b->v[i] = args[n->arg[0]];
            b->wants[i] = n->arg[0] == operand;
            break;
        case IR_S_CONST: b->v[i] = ir_constant_f(b->g->b, (enum tcc_dtype)names->d->type->dtype, n->value); break;
        case IR_S_CALL:
            for (; nin < 3 && n->arg[nin] >= 0; nin++) {
                in[nin] = b->v[n->arg[nin]];
                b->wants[i] |= b->wants[n->arg[nin]] && grad_map_passes((enum ir_op)n->op, nin);
            }
            b->v[i] =
                i == b->s->nnodes - 1 && names->r ? names->r : ir_build1(b->g->b, (enum ir_op)n->op, nin, in, NULL);
            break;
        }
    }
}

static struct ir_value *by_body(struct grad *g, enum ir_op op, const struct grad_names *names, int operand)
{
    struct body b = {.g = g, .s = ir_scalar_body(op)};
    if (!b.s || b.s->nnodes > MAX_BODY)
        return NULL;
    evaluate(&b, names, operand);
    b.d[b.s->nnodes - 1] = names->d;
    for (int i = b.s->nnodes - 1; i >= 0; i--) {
        const struct ir_scalar_node *n = &b.s->nodes[i];
        if (n->kind != IR_S_CALL || !b.d[i])
            continue;
        struct grad_names inner = {.r = b.v[i], .d = b.d[i]};
        struct ir_value **places[3] = {&inner.x, &inner.y, &inner.z};
        for (int k = 0; k < 3 && n->arg[k] >= 0; k++)
            *places[k] = b.v[n->arg[k]];
        for (int k = 0; k < 3 && n->arg[k] >= 0; k++) {
            const char *text = b.wants[n->arg[k]] ? grad_text((enum ir_op)n->op, k) : NULL;
            if (!text || !*text)
                continue;
            struct ir_value *part = grad_expr(g, text, &inner, NULL), **sum = &b.d[n->arg[k]];
            *sum = *sum ? ir_binary(g->b, IR_add, *sum, part) : part;
        }
    }
    return b.d[operand];
}

/* -- Rules ----------------------------------------------------------------------------------------- */

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
        return "d * y * pow(x, y - 1)";
    }
    return grad_text(n->op, i);
}

void grad_map(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0);
    for (int i = 0; i < n->nin && d; i++) {
        if (!grad_wants(g, n, i) || !grad_passes(n, i))
            continue;
        const char *text = text_of(n, i);
        if (text && !strcmp(text, "d")) {
            grad_give(g, n, i, d);
            continue;
        }
        struct grad_names names = {.x = widen(g, grad_in(n, 0)),
                                   .y = widen(g, grad_in(n, 1)),
                                   .z = widen(g, grad_in(n, 2)),
                                   .r = widen(g, n->out[0]),
                                   .d = widen(g, d)};
        if (!text)
            grad_give(g, n, i, by_body(g, n->op, &names, i));
        else if (*text)
            grad_give(g, n, i, grad_expr(g, text, &names, grad_in(n, i)->type));
    }
}

void grad_rule_cast(struct grad *g, struct ir_node *n)
{
    grad_give(g, n, 0, grad_out(g, n, 0));
}
