/* SPDX-License-Identifier: Apache-2.0 */
/* special.c - gradients of special functions (runtime/libop/special.c), by themselves and by others of them (DLMF 5, 7,
 * 8, 10). */
#include <string.h>

#include "passes/grad/grad_int.h"

/* d: the gradient of the result r by operand x (of one) or y (of two); z: `with` of `of` ("": of x). */
static const struct rule {
    const char *function, *with, *of, *text;
} rules[] = {
    {"lgamma", "digamma", "", "d * z"},
    {"erfinv", NULL, NULL, "d * 0.88622692545275801365 * exp(r * r)"},
    {"erfcx", NULL, NULL, "d * (2 * x * r - 1.12837916709551257390)"},
    {"ndtri", NULL, NULL, "d * 2.50662827463100050242 * exp(r * r * 0.5)"},
    {"log_ndtr", "erfcx", "x * -0.70710678118654752440", "d * 0.79788456080286535588 / z"},
    {"entr", NULL, NULL, "d * (-log(x) - 1)"},
    {"i0", "i1", "", "d * z"},
    {"i0e", "i1e", "", "d * (z - sign(x) * r)"},
    {"i1", "i0", "", "d * select(eq(x, 0), 0.5, z - r / x)"},
    {"i1e", "i0e", "", "d * select(eq(x, 0), 0.5, z - r * (sign(x) + 1 / x))"},
};

static struct ir_value *call(struct grad *g, const char *function, struct ir_value *x, struct ir_value *y)
{
    struct ir_value *in[] = {x, y};
    return grad_library(g, "special", y ? 2 : 1, in, x->type, IR_ATTRS(ir_attr_user_s("function", function)));
}

static void one(struct grad *g, struct ir_node *n, const struct rule *rule)
{
    struct grad_names v = {.x = n->in[0].value, .r = n->out[0], .d = grad_out(g, n, 0)};
    if (rule->with)
        v.z = call(g, rule->with, *rule->of ? grad_expr(g, rule->of, &v, NULL) : v.x, NULL);
    grad_accumulate(g, n, 0, grad_expr(g, rule->text, &v, NULL));
}

/* The m-th derivative of digamma, m a value: its next one. */
static struct ir_value *next_polygamma(struct grad *g, struct ir_value *m, struct ir_value *x)
{
    struct ir_value *one_more = ir_constant_f(g->b, (enum tcc_dtype)x->type->dtype, 1);
    return call(g, "polygamma", m ? ir_binary(g->b, IR_add, m, one_more) : grad_full(g, x->type, 1), x);
}

static void two(struct grad *g, struct ir_node *n, const char *function)
{
    struct grad_names v = {.x = n->in[0].value, .y = n->in[1].value, .r = n->out[0], .d = grad_out(g, n, 0)};
    const char *text = "d * z";
    if (grad_wants(g, n, 0) && strcmp(function, "polygamma") != 0) {
        grad_fail(g, n, "%s has no derivative by its first operand here, nor in PyTorch", function);
        return;
    }
    if (!strcmp(function, "polygamma")) {
        v.z = next_polygamma(g, v.x, v.y);
    } else if (!strcmp(function, "zeta")) {
        v.z = call(g, "zeta", ir_binary(g->b, IR_add, v.x, ir_constant_f(g->b, (enum tcc_dtype)v.x->type->dtype, 1)),
                   v.y);
        text = "-(d * x * z)";
    } else {
        v.z = call(g, "lgamma", v.x, NULL);
        text =
            strcmp(function, "igamma") ? "-(d * exp((x - 1) * log(y) - y - z))" : "d * exp((x - 1) * log(y) - y - z)";
    }
    grad_accumulate(g, n, 1, grad_expr(g, text, &v, NULL));
}

void grad_special(struct grad *g, struct ir_node *n)
{
    const char *function = ir_user_s(n, "function", "");
    struct ir_value *d = grad_out(g, n, 0), *x = n->in[0].value;
    if (!d)
        return;
    if (n->nin == 2) {
        two(g, n, function);
        return;
    }
    if (!strcmp(function, "digamma")) {
        grad_accumulate(g, n, 0, ir_binary(g->b, IR_mul, d, next_polygamma(g, NULL, x)));
        return;
    }
    for (size_t k = 0; k < sizeof rules / sizeof *rules; k++)
        if (!strcmp(rules[k].function, function)) {
            one(g, n, &rules[k]);
            return;
        }
    grad_fail(g, n, "%s has no derivative here, nor in PyTorch", function);
}
