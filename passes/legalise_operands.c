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

static bool widen(struct pass_run *r, struct ir_func *f, struct ir_node *n)
{
    struct ir_builder b = {pass_ctx(r), f, n->block, n, n->where};
    enum tcc_dtype was = n->out[0]->type->dtype;
    for (int i = 0; i < n->nin; i++) {
        struct ir_value *v = n->in[i].value;
        if (!v || !ir_is_tensor(v->type) || !tcc_small_float(v->type->dtype))
            continue;
        v = widened(&b, v);
        if (!v)
            return false;
        ir_set_operand(n, i, v);
    }
    if (!ir_attr(n, IR_ATTR_to))
        ir_set_attr(n, ir_attr_dtype(IR_ATTR_to, was));
    return true;
}

bool legalise_operands(struct pass_run *r, struct ir_func *f, struct ir_block *block)
{
    const struct pass_machine *m = pass_opts(r)->machine;
    if (!m || !m->widen)
        return true;
    for (struct ir_node *n = block->first; n; n = n->next) {
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
