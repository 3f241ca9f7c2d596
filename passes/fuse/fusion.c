/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The passes that work on the graph: `layout` chooses how values lie in memory (layout.c), `fuse` which nodes become
 * one kernel (group.c), and `build` makes these kernels (build.c). What one finds stays with the functions: a layout
 * with each value, the groups as struct kn_fusion.
 */
#include "passes/lower_int.h"

bool pass_layout_run(struct pass_run *r);
bool pass_fuse_run(struct pass_run *r);
bool pass_build_run(struct pass_run *r);

/* -- Layouts ---------------------------------------------------------------------------------------- */

static void load_layouts(struct lw *lw, const struct ir_block *block)
{
    for (int i = 0; i < block->nparams; i++)
        lw->layout[block->params[i]->id] = block->params[i]->layout;
    IR_EACH_NODE(n, block) {
        for (int i = 0; i < n->nout; i++)
            lw->layout[n->out[i]->id] = n->out[i]->layout;
        for (int i = 0; i < n->nregions; i++)
            load_layouts(lw, n->regions[i]);
    }
}

static void keep_layouts(const struct lw *lw, const struct ir_block *block)
{
    for (int i = 0; i < block->nparams; i++)
        block->params[i]->layout = lw->layout[block->params[i]->id];
    IR_EACH_NODE(n, block) {
        for (int i = 0; i < n->nout; i++)
            n->out[i]->layout = lw->layout[n->out[i]->id];
        for (int i = 0; i < n->nregions; i++)
            keep_layouts(lw, n->regions[i]);
    }
}

void lw_enter(struct lw *lw, struct ir_func *f)
{
    lw->func = f;
    lw_leave(lw);
    lw->tables = ir_arena_new(lw->ctx);
    lw->value_room = lw->node_room = 0;
    lw_side_tables_grow(lw);
    load_layouts(lw, f->body);
}

void lw_leave(struct lw *lw)
{
    ir_arena_free(lw->tables);
    lw->tables = NULL;
}

bool pass_layout_run(struct pass_run *r)
{
    struct lw lw;
    lw_open(&lw, r);
    for (struct ir_func *f = pass_module(r)->funcs; f; f = f->next) {
        lw_enter(&lw, f);
        lw_choose_layouts(&lw, f);
        keep_layouts(&lw, f->body);
    }
    lw_leave(&lw);
    return true;
}

/* -- Groups between passes -------------------------------------------------------------------------- */

static void keep_launches(struct lw *lw, const struct ir_block *block, struct kn_fusion *to)
{
    IR_EACH_NODE(n, block) {
        for (int i = 0; i < lw->launches[n->id].n; i++) {
            struct lw_group *g = lw->launches[n->id].at[i];
            VEC_PUSH(lw->ctx, *to,
                     (struct kn_group){.root = n,
                                       .results = {g->results[0], g->results[1]},
                                       .nresults = g->nresults,
                                       .anchor = g->anchor,
                                       .updates = g->updates,
                                       .collects = g->collects});
            g->number = to->n;
        }
        for (int i = 0; i < n->nregions; i++)
            keep_launches(lw, n->regions[i], to);
    }
}

/* What has its place without a group of its own. */
static void keep_places(struct lw *lw, const struct ir_block *block, struct kn_places *to)
{
    IR_EACH_NODE(n, block) {
        for (int i = 0; i < n->nin && n->nout == 1; i++)
            if (lw_is_part(lw, n, i) || lw_is_unchanged(lw, n, i))
                VEC_PUSH(lw->ctx, *to, (struct kn_place){n->out[0], i, lw_is_unchanged(lw, n, i)});
        for (int i = 0; i < n->nregions; i++)
            keep_places(lw, n->regions[i], to);
    }
}

static void load_places(struct lw *lw, const struct kn_places *from)
{
    for (int i = 0; i < from->n; i++) {
        const struct kn_place *q = &from->at[i];
        struct ir_node *n = q->into->def;
        struct ir_value *v = n->in[q->piece].value;
        struct lw_pieces *p = &lw->pieces[n->id];
        if (!q->stays) {
            lw->part[v->id] = (struct lw_part){n, q->piece};
            continue;
        }
        p->stays |= 1u << q->piece;
        p->updated = n->op == IR_concat ? v->def->in[0].value : v;
    }
}

static void keep_members(struct lw *lw, const struct ir_block *block, struct kn_fusion *to)
{
    IR_EACH_NODE(n, block) {
        const struct lw_set *in = &lw->in[n->id];
        for (int i = 0; i < in->n; i++) {
            struct kn_group *g = in->at[i]->number ? &to->at[in->at[i]->number - 1] : NULL;
            if (!g || (lw_is_view(n) && !g->anchor &&
                       g->root != n)) /* moves belong to those groups only that have them in front of a store */
                continue;
            IR_PUSH(lw->ctx, g->nodes, g->nnodes, g->cap, n);
        }
        for (int i = 0; i < n->nregions; i++)
            keep_members(lw, n->regions[i], to);
    }
}

/* What lives in a buffer: all but what is evaluated inside kernels only. */
static void mark_materialised(struct lw *lw, const struct ir_block *block)
{
    for (int i = 0; i < block->nparams; i++)
        lw->materialised[block->params[i]->id] = true;
    IR_EACH_NODE(n, block) {
        bool inside = lw->fuse && lw_is_kernel_node(n) && (lw_is_view(n) || lw->in[n->id].n);
        for (int i = 0; i < n->nout && !inside; i++)
            lw->materialised[n->out[i]->id] = true;
        for (int i = 0; i < n->nregions; i++)
            mark_materialised(lw, n->regions[i]);
    }
}

static struct ir_value **operands_of(struct lw *lw, const struct kn_group *q)
{
    struct ir_value **values = IR_NEWN(lw->ctx, q->kernel->noperands + 1, struct ir_value *);
    for (int i = 0, a = 0; i < q->kernel->noperands; i++)
        values[i] = q->kernel->operands[i].use == KN_LOCAL ? NULL : q->args[a++];
    return values;
}

void lw_load_groups(struct lw *lw)
{
    const struct kn_fusion *from = lw->func->fusion;
    for (int i = 0; i < from->n; i++) {
        const struct kn_group *q = &from->at[i];
        struct lw_group *g = IR_NEW(lw->ctx, struct lw_group);
        *g = (struct lw_group){.root = q->root,
                               .results = {q->results[0], q->results[1]},
                               .nresults = q->nresults,
                               .anchor = q->anchor,
                               .updates = q->updates,
                               .collects = q->collects,
                               .kernel = q->kernel,
                               .sizes = q->sizes,
                               .number = i + 1};
        if (q->kernel)
            g->values = operands_of(lw, q);
        if (q->results[0].into)
            lw_place_in(lw, g, q->results[0].into->def, q->results[0].piece);
        for (int k = 0; k < q->nnodes; k++)
            VEC_PUSH(lw->ctx, lw->in[q->nodes[k]->id], g);
        VEC_PUSH(lw->ctx, lw->launches[q->root->id], g);
        if (q->collects)
            lw->collected[q->collects->id] = g;
        lw->materialised[q->results[0].into ? q->results[0].into->id
                         : q->collects      ? q->collects->id
                                            : q->results[0].value->id] = true;
        for (int r = 1; r < q->nresults; r++)
            lw->materialised[q->results[r].value->id] = true;
    }
    load_places(lw, &from->places);
    mark_materialised(lw, lw->func->body);
}

/* -- fuse -------------------------------------------------------------------------------------------- */

/* Symbols that the node binds when it has run: at a level, whichever, behind the inputs'. */
static void learn_node(struct lw *lw, const struct ir_node *n)
{
    const struct ir_attr *syms = n->op == IR_bind ? ir_attr(n, IR_ATTR_syms) : NULL;
    for (int i = 0; syms && i < syms->n; i++)
        lw_define_symbol(lw, syms->exprs[i], 1);
    for (int i = 0; i < n->nout; i++)
        lw_define_symbols(lw, n->out[i]->type, 1);
}

/* What the block's loops collect, each with what is known when it begins. */
static void place_collected(struct lw *lw, struct ir_block *block)
{
    int known = lw->known.n;
    IR_EACH_NODE(n, block) {
        if (n->op == IR_loop)
            lw_collect_in_place(lw, n);
        if (!lw_is_kernel_node(n))
            learn_node(lw, n);
    }
    lw->known.n = lw->depths.n = known;
}

/* A block's groups are formed with what is known when it begins to run. */
static void fuse_block(struct lw *lw, struct ir_block *block)
{
    lw_place_parts(lw, block);
    lw_find_updates(lw, block);
    lw_form_groups(lw, block);
    IR_EACH_NODE(n, block) {
        for (int r = 0; r < n->nregions; r++) {
            for (int i = 0; i < n->regions[r]->nparams; i++)
                lw_define_symbols(lw, n->regions[r]->params[i]->type, 1);
            place_collected(lw, n->regions[r]);
            fuse_block(lw, n->regions[r]);
        }
        if (!lw_is_kernel_node(n))
            learn_node(lw, n);
    }
}

bool pass_fuse_run(struct pass_run *r)
{
    struct lw lw;
    lw_open(&lw, r);
    for (struct ir_func *f = pass_module(r)->funcs; f; f = f->next) {
        struct kn_entry e = {0};
        lw_enter(&lw, f);
        lw_make_inputs(&lw, &e);
        place_collected(&lw, f->body);
        lw_place_outputs(&lw, &e);
        fuse_block(&lw, f->body);
        f->fusion = IR_NEW(lw.ctx, struct kn_fusion);
        keep_launches(&lw, f->body, f->fusion);
        keep_places(&lw, f->body, &f->fusion->places);
        keep_members(&lw, f->body, f->fusion);
    }
    lw_leave(&lw);
    return true;
}

/* -- build ------------------------------------------------------------------------------------------- */

/* The kernel's own sizes, but for where a piece starts in a concat of many. */
static ir_expr *sizes_of(struct lw *lw, const struct lw_group *g)
{
    const struct kn_kernel *k = g->kernel;
    ir_expr *sizes = IR_NEWN(lw->ctx, k->nsizes + 1, ir_expr);
    for (int i = 0; i < k->nsizes; i++)
        sizes[i] = g->into_start && k->sizes[i] == lw->start ? g->into_start : k->sizes[i];
    return sizes;
}

static bool build_group(struct lw *lw, struct lw_group *g, struct kn_group *q)
{
    int nargs = 0;
    if (!lw_build(lw, g))
        return ir_error(lw->ctx, &q->root->where, "no kernel can be built for %s", ir_op_info(q->root->op)->name);
    lw_add_kernel(lw, g->kernel);
    q->kernel = g->kernel;
    q->args = IR_NEWN(lw->ctx, g->kernel->noperands + 1, struct ir_value *);
    for (int i = 0; i < g->kernel->noperands; i++)
        if (g->kernel->operands[i].use != KN_LOCAL)
            q->args[nargs++] = g->values[i];
    q->sizes = lw_shorten_sums(lw, g->kernel, sizes_of(lw, g));
    return kn_require(lw->ctx, g->kernel);
}

static bool build_block(struct lw *lw, const struct ir_block *block)
{
    IR_EACH_NODE(n, block) {
        for (int i = 0; i < lw->launches[n->id].n; i++) {
            struct lw_group *g = lw->launches[n->id].at[i];
            if (!build_group(lw, g, &lw->func->fusion->at[g->number - 1]))
                return false;
        }
        for (int i = 0; i < n->nregions; i++)
            if (!build_block(lw, n->regions[i]))
                return false;
    }
    return true;
}

bool pass_build_run(struct pass_run *r)
{
    struct ir_module *m = pass_module(r);
    struct lw lw;
    lw_open(&lw, r);
    m->program = lw.prog = IR_NEW(lw.ctx, struct kn_program);
    m->program->module = m;
    lw.kernels.n = lw.kernels.cap = lw.buffers.n = lw.buffers.cap = 0;
    for (struct ir_func *f = m->funcs; f; f = f->next) {
        if (!f->fusion)
            return ir_error(lw.ctx, NULL, "build: @%s has no groups of nodes", f->name);
        lw_enter(&lw, f);
        lw_load_groups(&lw);
        if (!build_block(&lw, f->body))
            return false;
    }
    VEC_GIVE(lw.kernels, m->program->kernels, m->program->nkernels);
    lw_leave(&lw);
    return true;
}
