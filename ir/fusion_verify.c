/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fusion_verify.c - checks groups: what a group computes and what it is made of stand in its function, nodes in one block; a piece is an
 * operand of what it is a piece of; the kernel's operands have their values' element types; a value is stored by one group only.
 */
#include "ir/kernel_int.h"

static bool bad(const struct ir_func *f, const struct kn_group *g, const char *text)
{
    struct ir_ctx *ctx = f->module->ctx;
    const char *node = g->root && g->root->where.node ? g->root->where.node : "";
    ir_invalid(ctx, NULL, ctx->parsing ? IR_D_ERROR : IR_D_BUG,
               ir_internf(ctx, "fusion of @%s: group of %s: %s", f->name, node, text));
    return false;
}

static bool of_func(const struct ir_func *f, const struct ir_value *v)
{
    return v && v->block && v->block->func == f;
}

static bool check_kernel(const struct ir_func *f, const struct kn_group *g)
{
    for (int i = 0, a = 0; i < g->kernel->noperands; i++) {
        const struct kn_operand *o = &g->kernel->operands[i];
        if (o->use == KN_LOCAL)
            continue;
        const struct ir_value *v = g->args[a++];
        if (!of_func(f, v) || !ir_is_tensor(v->type) || v->type->dtype != o->dtype)
            return bad(f, g, "an operand of the kernel is not of its value's type");
    }
    return true;
}

static bool check_group(const struct ir_func *f, const struct kn_group *g, bool *stored)
{
    if (!g->root || g->root->nout != 1 || !of_func(f, g->root->out[0]) || !of_func(f, g->value))
        return bad(f, g, "what it stores is no value of the function");
    if (g->anchor && g->anchor->block != g->root->block)
        return bad(f, g, "its anchor stands in another block");
    for (int i = 0; i < g->nnodes; i++)
        if (g->nodes[i]->block != g->root->block)
            return bad(f, g, "a node stands in another block");
    if (g->dest && (!of_func(f, g->dest) || !g->dest->def || g->piece >= g->dest->def->nin ||
                    g->dest->def->in[g->piece].value != g->value))
        return bad(f, g, "it stores into a value of which its own is no such piece");
    if (!g->dest && stored[g->value->id])
        return bad(f, g, "another group stores its value");
    stored[g->value->id] |= !g->dest;
    return !g->kernel || check_kernel(f, g);
}

bool kn_verify_fusion(const struct ir_func *f)
{
    struct ir_arena *scratch = ir_arena_new(f->module->ctx);
    bool *stored = ir_arena_alloc(scratch, f->nvalues + 1u), ok = true;
    for (int i = 0; f->fusion && ok && i < f->fusion->n; i++)
        ok = check_group(f, &f->fusion->at[i], stored);
    ir_arena_free(scratch);
    return ok;
}
