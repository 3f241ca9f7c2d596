/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.c - gradients of if and of what control flow has in common: the values that regions take from outside.
 *
 * The gradient of an if is an if by the same condition whose regions run the old ones again (values cannot leave a
 * region that may not have run) and yield the gradients of what they take from outside.
 */
#include "passes/grad/control_int.h"

#include <string.h>

static bool inside(const struct ir_value *v, const struct ir_node *n)
{
    for (const struct ir_block *b = v->block; b && b->parent; b = b->parent->block)
        if (b->parent == n)
            return true;
    return false;
}

static void capture(struct grad *g, struct ir_node *control, struct ir_block *block, struct grad_values *out)
{
    IR_EACH_NODE(n, block) {
        for (int i = 0; i < n->nin; i++) {
            struct ir_value *v = n->in[i].value;
            bool known = !grad_wants_value(g, v) || inside(v, control);
            for (int k = 0; k < out->at.n && !known; k++)
                known = out->at.at[k] == v;
            if (!known)
                VEC_PUSH(g->ctx, out->at, v);
        }
        for (int r = 0; r < n->nregions; r++)
            capture(g, control, n->regions[r], out);
    }
}

void grad_captures(struct grad *g, struct ir_node *n, struct grad_values *out)
{
    for (int r = 0; r < n->nregions; r++)
        capture(g, n, n->regions[r], out);
}

/* Fills one region of the gradient: the old region's nodes, the sweep over them, the captures' gradients. */
static void fill_region(struct grad *g, struct ir_node *n, int r, struct ir_node *made,
                        const struct grad_values *captures, struct ir_value *const *d)
{
    struct ir_func *f = g->b->func;
    struct ir_builder inner = {.ctx = g->ctx, .func = f, .block = ir_region_new(f, made), .where = n->where};
    struct ir_value **map = IR_NEWN(g->ctx, f->nvalues, struct ir_value *),
                    **results = IR_NEWN(g->ctx, n->nout, struct ir_value *),
                    **yields = IR_NEWN(g->ctx, captures->at.n, struct ir_value *);
    ir_clone_block(&inner, n->regions[r], map, results);
    grad_drop_writes(inner.block);
    struct grad *sub = grad_new(g->ctx, &inner, f);
    for (int i = 0; i < captures->at.n; i++)
        sub->active[captures->at.at[i]->id] = true;
    memcpy(sub->hidden, g->hidden, g->nvalues * sizeof *sub->hidden);
    grad_mark(sub, inner.block, NULL);
    struct ir_node *last = inner.block->last;
    for (int k = 0; k < n->nout; k++)
        grad_accumulate_value(sub, results[k], d[k]);
    grad_sweep(sub, inner.block, last);
    for (int i = 0; i < captures->at.n; i++) {
        yields[i] = grad_total(sub, captures->at.at[i]);
        if (!yields[i])
            yields[i] = grad_full(sub, captures->at.at[i]->type, 0);
    }
    ir_build(&inner, IR_yield, captures->at.n, yields, NULL);
    g->failed |= sub->failed;
}

void grad_rule_if(struct grad *g, struct ir_node *n)
{
    struct grad_values captures = {0};
    struct ir_value **d = IR_NEWN(g->ctx, n->nout, struct ir_value *);
    grad_captures(g, n, &captures);
    int count = captures.at.n;
    ir_type *types = IR_NEWN(g->ctx, count, ir_type);
    for (int i = 0; i < count; i++)
        types[i] = captures.at.at[i]->type;
    for (int k = 0; k < n->nout; k++)
        d[k] = grad_out(g, n, k);
    struct ir_node *made = ir_build_typed(g->b, IR_if, 1, &n->in[0].value,
                                          IR_ATTRS(ir_attr_types(IR_ATTR_types, count, types)), count, types);
    for (int r = 0; r < n->nregions; r++)
        fill_region(g, n, r, made, &captures, d);
    for (int i = 0; i < count; i++)
        grad_accumulate_value(g, captures.at.at[i], made->out[i]);
}
