/* SPDX-License-Identifier: Apache-2.0 */
/* expr.c - builds the expressions of grad.def (formula.c) as nodes; sum(..) is a sum over the axes that the operand
 * does not have, or has as 1. */
#include "passes/grad/grad_int.h"

#include <string.h>

struct expr {
    struct grad *g;
    const struct grad_names *names;
    ir_type to;
    enum tcc_dtype dtype; /* of literals */
};

static struct ir_value *number(void *user, double v)
{
    const struct expr *e = user;
    return ir_constant_f(e->g->b, e->dtype, v);
}

static struct ir_value *named(void *user, char c)
{
    const struct grad_names *names = ((const struct expr *)user)->names;
    switch (c) {
    case 'x': return names->x;
    case 'y': return names->y;
    case 'z': return names->z;
    case 'r': return names->r;
    default: return names->d;
    }
}

static struct ir_value *apply(void *user, const char *word, int n, struct ir_value **args)
{
    const struct expr *e = user;
    struct grad *g = e->g;
    if (strcmp(word, "sum") != 0)
        return ir_build1(g->b, ir_op_by_name(word), n, args, NULL);
    return e->to && args[0] ? grad_fit(g, args[0], ir_with_dtype(g->ctx, e->to, (enum tcc_dtype)args[0]->type->dtype))
                            : args[0];
}

struct ir_value *grad_expr(struct grad *g, const char *text, const struct grad_names *names, ir_type to)
{
    struct expr e = {g, names, to, names->d ? (enum tcc_dtype)names->d->type->dtype : TCC_F32};
    return names->d ? grad_formula(&(struct grad_formula){&e, number, named, apply}, text) : NULL;
}
