/* SPDX-License-Identifier: Apache-2.0 */
/* expr.c - builds the expressions of grad.def (ir/formula.c) as nodes; sum(..) is a sum over the axes that the operand
 * does not have, or has as 1. */
#include "passes/grad/grad_int.h"

#include <string.h>

struct expr {
    struct grad *g;
    const struct grad_names *names;
    ir_type to;
    enum tcc_dtype dtype; /* of literals */
};

static void *number(void *user, double v)
{
    const struct expr *e = user;
    return ir_constant_f(e->g->b, e->dtype, v);
}

static void *named(void *user, char c)
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

static void *apply(void *user, const char *word, int n, void *const *args)
{
    const struct expr *e = user;
    struct grad *g = e->g;
    struct ir_value *x = args[0], *in[3] = {x, n > 1 ? args[1] : NULL, n > 2 ? args[2] : NULL};
    if (strcmp(word, "sum") != 0)
        return ir_build1(g->b, ir_op_by_name(word), n, in, NULL);
    return e->to && x ? grad_fit(g, x, ir_with_dtype(g->ctx, e->to, (enum tcc_dtype)x->type->dtype)) : x;
}

struct ir_value *grad_expr(struct grad *g, const char *text, const struct grad_names *names, ir_type to)
{
    struct expr e = {g, names, to, names->d ? (enum tcc_dtype)names->d->type->dtype : TCC_F32};
    return names->d ? ir_read_formula(&(struct ir_reading){&e, number, named, apply}, text) : NULL;
}
