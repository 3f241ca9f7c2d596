/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gelu: products that come to x times 1/2 times (1 + erf(x / sqrt 2)), in any order, become GELU where the machine has
 * one instruction for it and one for its derivative. In a small type nothing in between is rounded then, and the
 * backward pass reads x alone.
 *
 * Bounded: the value is rounded once instead of up to five times, each a relative error of half a unit.
 */
#include "passes/rewrite_int.h"

#include <math.h>

bool pass_gelu_run(struct pass_run *r);

/* Is it x / sqrt 2, within what its type's numbers are apart? */
static struct ir_value *over_root_of_two(const struct ir_value *v)
{
    const struct ir_node *n = v->def;
    double by;
    if (!n || (n->op != IR_mul && n->op != IR_div))
        return NULL;
    for (int i = 0; i < (n->op == IR_mul ? 2 : 1); i++)
        if (ir_splat_f(n->in[1 - i].value, &by) && fabs((n->op == IR_mul ? by : 1 / by) - sqrt(0.5)) < 1e-6)
            return n->in[i].value;
    return NULL;
}

/* x of 1 + erf(x / sqrt 2) */
static struct ir_value *by_erf(const struct ir_value *v)
{
    const struct ir_node *n = v->def;
    double one;
    for (int i = 0; n && n->op == IR_add && i < 2; i++) {
        const struct ir_node *erf = rewrite_operand_node(n, i, IR_erf);
        if (erf && ir_splat_f(n->in[1 - i].value, &one) && one == 1)
            return over_root_of_two(erf->in[0].value);
    }
    return NULL;
}

/* The factors of n's product, up to three. */
static int factors_of(const struct ir_node *n, struct ir_value **to)
{
    for (int i = 0; i < 2; i++) {
        const struct ir_node *m = rewrite_operand_node(n, i, IR_mul);
        if (m && !by_erf(n->in[i].value)) {
            to[0] = m->in[0].value;
            to[1] = m->in[1].value;
            to[2] = n->in[1 - i].value;
            return 3;
        }
    }
    return 0;
}

static struct ir_value *gelu_of_erf(struct rewrite *w, struct ir_node *n)
{
    struct ir_value *f[3], *x;
    double half;
    int count = factors_of(n, f);
    for (int i = 0; i < count; i++)
        for (int j = 0; (x = by_erf(f[i])) && j < 3; j++)
            if (j != i && f[j] == x && ir_splat_f(f[3 - i - j], &half) && half == 0.5 && rewrite_has_result_type(n, x))
                return rewrite_go(w) ? ir_unary(&w->b, IR_gelu, x) : NULL;
    return NULL;
}

RULES(gelu, false, RULE(mul, gelu_of_erf));

bool pass_gelu_run(struct pass_run *r)
{
    const struct pass_machine *m = pass_opts(r)->machine;
    if ((!m || m->gelu) && pass_bounded(r))
        rewrite_module(r, &gelu);
    return true;
}
