/* SPDX-License-Identifier: Apache-2.0 */
/* group.c - the kernel of a group: about its anchor, a scatter's two, what a loop collects, or element by element. */
#include "passes/lower_int.h"

static enum tcc_dtype type_in(const struct ir_node *n, enum ir_attr_key key)
{
    const struct ir_attr *a = ir_attr(n, key);
    return a ? a->dtype : TCC_NONE;
}

bool lw_build(struct lw *lw, struct lw_group *g)
{
    if (g->updates)
        return lw_build_scatter(lw, g);
    struct kb *k = lw->builder ? lw->builder : IR_NEW(lw->ctx, struct kb);
    lw->builder = NULL; /* until the kernel is finished */
    kb_reset(k, lw, g);
    bool ok = g->collects ? lw_build_collected(k, g) : g->anchor ? lw_build_anchor(k, g) : lw_build_inline(k, g);
    bool reduces = k->have_reduce;
    g->kernel = ok ? kb_finish(k, g) : NULL;
    lw->builder = k;
    if (!g->kernel)
        return false;
    g->kernel->kind = g->collects ? IR_K_MOVE : ir_op_info((g->anchor ? g->anchor : g->root)->op)->kind;
    if (!g->anchor && reduces)
        g->kernel->kind = IR_K_REDUCE;
    if (g->kernel->kind != IR_K_WINDOW && g->kernel->kind != IR_K_ATTENTION && lw->fuse && !g->collects)
        lw_collapse(lw, g->kernel);
    lw_settle_roles(g->kernel);
    if (!g->kernel->roles.form && kn_find_form(g->kernel, KN_CONTRACTION, &g->kernel->roles) && g->anchor) {
        g->kernel->partial = type_in(g->anchor, IR_ATTR_partial);
        g->kernel->mx = type_in(g->anchor, IR_ATTR_mx);
    }
    return true;
}
