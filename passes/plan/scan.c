/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan.c - values that a loop collects are stored where they belong while it runs: element t of the collection in
 * iteration t. Where the collection is only turned, reversed or reshaped and then joined with others (both directions
 * of a recurrent layer), its elements go straight into their places in the joined tensor.
 *
 * The collection's size must be known before the loop runs, so the loop must be one that counts: nothing ends it early.
 * Others collect objects (control.c), and so does a loop of one iteration: nothing in its kernels would show that the
 * collection is written whole (level 1 inlines it anyway).
 *
 * `fuse` decides it of each block in the order in which its nodes run, with what is known in front of each loop: a
 * group at the loop's yield stores the element. Who comes later finds that group, and does not ask again.
 */
#include "passes/lower_int.h"
#include "passes/rewrite_int.h"

struct path {
    struct ir_node *into; /* the node that joins pieces; NULL: the collection has a buffer of its own */
    int piece;
};

static bool counts(struct lw *lw, const struct ir_node *n, ir_expr trips)
{
    const struct ir_block *body = n->regions[0];
    const struct ir_tensor *go = n->in[1].value ? ir_const_of(n->in[1].value) : NULL;
    ir_expr count;
    if (!n->in[0].value || pass_exprs_of(lw->ctx, n->in[0].value, &count, 1) != 1 || count != trips)
        return false;
    if (n->in[1].value && (!go || go->nelems != 1 || !tcc_load_i64(TCC_BOOL, ir_tensor_at(go, 0))))
        return false;
    const struct ir_value *goes_on = body->last->in[0].value;
    go = ir_const_of(goes_on);
    return goes_on == body->params[1] || (go && go->nelems == 1 && tcc_load_i64(TCC_BOOL, ir_tensor_at(go, 0)));
}

/* What the body yields for that output of a loop. */
static struct ir_value *element(const struct ir_value *all)
{
    const struct ir_node *n = all->def;
    for (int i = 0; i < n->nout; i++)
        if (n->out[i] == all)
            return n->regions[0]->last->in[1 + i].value;
    return NULL;
}

/* With what is known in front of the loop. */
static bool in_place(struct lw *lw, const struct ir_value *all)
{
    const struct ir_node *n = all->def;
    if (!ir_has_uses(all) || !ir_is_tensor(all->type) || all->type->rank < 1 || lw->layout[all->id] ||
        !lw_type_bound(lw, all->type) || ir_is_value(all->type->dim[0], 1))
        return false;
    const struct ir_value *one = element(all);
    enum tcc_class class = tcc_dtype_class(all->type->dtype);
    if (class == TCC_CLASS_STRING || class == TCC_CLASS_COMPLEX || !ir_is_tensor(one->type) ||
        one->type->dtype != all->type->dtype || one->type->rank != all->type->rank - 1 || lw->layout[one->id])
        return false;
    for (int i = 0; i < one->type->rank; i++)
        if (one->type->dim[i] != all->type->dim[i + 1])
            return false;
    return counts(lw, n, all->type->dim[0]);
}

/* A slice of everything, along some axes backwards. */
static bool reverses(const struct ir_node *n)
{
    ir_type t = n->out[0]->type;
    for (int i = 0; i < t->rank; i++) {
        ir_expr start = ir_attr(n, IR_ATTR_starts)->exprs[i], step = ir_attr(n, IR_ATTR_steps)->exprs[i];
        bool forward = ir_is_value(step, 1) && ir_is_value(start, 0);
        if (t->dim[i] != n->in[0].value->type->dim[i] || (!forward && !ir_is_value(step, -1)))
            return false;
    }
    return true;
}

/* Where the collection becomes a piece of a joined tensor, which has memory before the loop runs, too. */
static struct path follow(struct lw *lw, struct ir_value *all)
{
    struct ir_value *v = all;
    for (int i = 0; i <= KN_MAX_VIEWS && ir_has_one_use(v) && !lw->layout[v->id]; i++) {
        struct ir_node *n = v->uses->user;
        if (n->block != all->def->block || !lw_is_kernel_node(n) || lw->layout[n->out[0]->id])
            break;
        if (n->op == IR_concat && !lw_is_view(n) && lw_type_bound(lw, n->out[0]->type))
            return (struct path){n, v->uses->index};
        if (n->op != IR_reshape && n->op != IR_transpose && (n->op != IR_slice || !reverses(n)))
            break;
        v = n->out[0];
    }
    return (struct path){0};
}

/* The index behind one view. */
static void push(struct kb *k, const struct ir_node *n, ir_expr *at)
{
    ir_expr from[TCC_MAX_RANK];
    int rank = n->in[0].value->type->rank;
    for (int i = 0; i < rank; i++)
        from[i] = at[i];
    if (n->op == IR_reshape)
        lw_reshape_index(k->ctx, n->in[0].value->type, n->out[0]->type, from, at);
    for (int i = 0; n->op == IR_transpose && i < rank; i++)
        at[i] = from[ir_attr(n, IR_ATTR_perm)->ints[i]];
    for (int i = 0; n->op == IR_slice && i < rank; i++)
        if (ir_is_value(ir_attr(n, IR_ATTR_steps)->exprs[i], -1))
            at[i] = ir_sub(k->ctx, ir_attr(n, IR_ATTR_starts)->exprs[i], from[i]);
}

/* Views that lead from what is collected to the piece that it becomes; how many. */
static int views_to(const struct lw_group *g, const struct ir_node **views)
{
    const struct ir_value *last =
                              g->results[0].into ? g->results[0].into->def->in[g->results[0].piece].value : g->collects,
                          *v;
    int n = 0, i;
    for (v = last; v != g->collects; v = v->def->in[0].value)
        n++;
    for (v = last, i = n; i > 0; v = v->def->in[0].value)
        views[--i] = v->def;
    return n;
}

bool lw_build_collected(struct kb *k, struct lw_group *g)
{
    struct ir_value *all = g->collects, *one = g->results[0].value;
    const struct ir_node *views[KN_MAX_VIEWS];
    ir_expr idx[TCC_MAX_RANK], at[TCC_MAX_RANK];
    int64_t trips;
    for (int i = 0; i < one->type->rank; i++) {
        int d = ir_is_value(one->type->dim[i], 1) ? -1 : kb_dim(k, one->type->dim[i], KN_OUTER);
        at[i + 1] = idx[i] = d < 0 ? ir_const(k->ctx, 0) : k->dims.at[d].var;
    }
    int stage = kb_stage_new(k, 0), id = kb_load(k, stage, one, idx),
        t = kb_load(k, stage, all->def->regions[0]->params[0], NULL);
    at[0] =
        ir_fresh(k->ctx, "t", 0, ir_is_const(all->type->dim[0], &trips) && trips > 0 ? trips - 1 : INT64_C(1) << 40);
    VEC_PUSH(k->ctx, k->locals, (__typeof__(*k->locals.at)){at[0], stage});
    kb_index(k, stage, all->def, t, at[0], all->type->dim[0]);
    int nviews = views_to(g, views);
    for (int i = 0; i < nviews; i++)
        push(k, views[i], at);
    for (int i = 0; g->results[0].into && i < g->results[0].into->type->rank; i++)
        at[i] = ir_add(k->ctx, at[i], g->into_offset[i]);
    kb_store(k, stage, g->results[0].into ? g->results[0].into : all, at, id);
    kb_stage_end(k, stage);
    return true;
}

/* -- The decision ---------------------------------------------------------------------------------- */

static void collect(struct lw *lw, struct ir_value *all)
{
    struct ir_node *yield = all->def->regions[0]->last;
    struct lw_group *g = IR_NEW(lw->ctx, struct lw_group);
    struct path p = follow(lw, all);
    g->root = yield;
    g->results[0].value = element(all);
    g->nresults = 1;
    g->collects = all;
    if (p.into)
        lw_place_in(lw, g, p.into, p.piece);
    else
        lw->materialised[all->id] = true;
    lw->collected[all->id] = g;
    VEC_PUSH(lw->ctx, lw->launches[yield->id], g);
}

void lw_collect_in_place(struct lw *lw, struct ir_node *loop)
{
    int nscan = (int)ir_get_i(loop, IR_ATTR_nscan, 0);
    for (int i = loop->nout - nscan; lw->fuse && i < loop->nout; i++)
        if (in_place(lw, loop->out[i]))
            collect(lw, loop->out[i]);
}
