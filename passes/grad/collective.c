/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collective.c - gradients of collectives, in the convention of data parallel training: each rank computes the gradient
 * of its own loss, and what is wanted is the mean over ranks. A sum over ranks then has as gradient the same sum of the
 * ranks' gradients.
 */
#include "passes/grad/grad_int.h"

#include <string.h>

void grad_rule_all_reduce(struct grad *g, struct ir_node *n)
{
    const char *mode = ir_get_s(n, IR_ATTR_mode, "sum");
    if (strcmp(mode, "sum") && strcmp(mode, "avg")) {
        grad_fail(g, n, "of mode %s", mode);
        return;
    }
    for (int i = 0; i < n->nin; i++) {
        struct ir_value *d = grad_wants(g, n, i) ? grad_out(g, n, i) : NULL;
        if (!d)
            continue;
        struct ir_node *back =
            ir_build(g->b, IR_all_reduce, 1, &d,
                     IR_ATTRS(ir_attr_s(IR_ATTR_group, ir_get_s(n, IR_ATTR_group, "world")),
                              ir_attr_s(IR_ATTR_mode, mode), ir_attr_f(IR_ATTR_scale, ir_get_f(n, IR_ATTR_scale, 1)),
                              ir_attr_types(IR_ATTR_types, 1, &d->type)));
        grad_accumulate(g, n, i, back ? back->out[0] : NULL);
    }
}
