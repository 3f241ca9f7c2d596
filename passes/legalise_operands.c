/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operands of products in types below f32, for machines that multiply floats: cast to f32 once, where they are defined, instead of in
 * each tile of each kernel that reads them; constants are cast now. Exact: products of small floats are summed in f32 anyway.
 */
#include "passes/legalise_int.h"
#include "passes/rewrite_int.h"

/* The cast of v to f32 right behind its definition (one for all that want it), or NULL. */
static struct ir_value *cast_behind(const struct ir_value *v, struct ir_node *at)
{
    for (; at && at->op == IR_cast && at->in[0].value == v; at = at->next)
        if (at->out[0]->type->dtype == TCC_F32)
            return at->out[0];
    return NULL;
}

static struct ir_value *widened(struct ir_builder *b, struct ir_value *v)
{
    struct ir_tensor *constant[1] = {NULL};
    b->block = v->block;
    b->before = v->def ? v->def->next : v->block->first;
    struct ir_value *wide = cast_behind(v, b->before);
    if (wide)
        return wide;
    wide = ir_cast_to(b, v, TCC_F32);
    if (!wide || !ir_const_of(v) || !ir_interp_node(wide->def, constant) || !constant[0])
        return wide;
    ir_remove(wide->def);
    return ir_constant(b, constant[0]);
}

/* n on operands of f32; its result is rounded to its own type behind it, so that n is a product of floats like any other. */
static bool widen(struct pass_run *r, struct ir_func *f, struct ir_node *n)
{
    struct ir_builder b = {pass_ctx(r), f, n->block, n, n->where};
    enum tcc_dtype was = n->out[0]->type->dtype;
    struct ir_value *in[4] = {NULL};
    struct ir_attr *attrs = IR_NEWN(b.ctx, n->nattrs + 1, struct ir_attr);
    int nattrs = 0;
    if (!attrs || n->nin > 4)
        return false;
    for (int i = 0; i < n->nin; i++) {
        in[i] = n->in[i].value;
        if (in[i] && ir_is_tensor(in[i]->type) && tcc_small_float(in[i]->type->dtype))
            in[i] = widened(&b, in[i]);
        if (n->in[i].value && !in[i])
            return false;
    }
    for (int i = 0; i < n->nattrs; i++)
        if (n->attrs[i].key != IR_ATTR_to)
            attrs[nattrs++] = n->attrs[i];
    b.block = n->block;
    b.before = n;
    struct ir_value *wide = ir_build1(&b, n->op, n->nin, in, attrs), *result = wide ? ir_cast_to(&b, wide, was) : NULL;
    if (!result)
        return false;
    result->name = n->out[0]->name;
    ir_replace_uses(n->out[0], result);
    ir_remove(n);
    return true;
}

bool legalise_operands(struct pass_run *r, struct ir_func *f, struct ir_block *block)
{
    const struct pass_machine *m = pass_opts(r)->machine;
    if (!m || !m->widen)
        return true;
    for (struct ir_node *n = block->first, *next; n; n = next) {
        next = n->next;
        for (int i = 0; i < n->nregions; i++)
            if (!legalise_operands(r, f, n->regions[i]))
                return false;
        enum ir_kind kind = ir_op_info(n->op)->kind;
        if ((kind == IR_K_CONTRACT || kind == IR_K_WINDOW) && n->nin > 1 && n->in[1].value && m->widen(m, n) &&
            !widen(r, f, n))
            return false;
    }
    return true;
}
