/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan.c - values that a loop collects are stored where they belong while it runs: element t of the collection in
 * iteration t. Where the collection is only turned, reversed or reshaped and then joined with others (both directions of a
 * recurrent layer), its elements go straight into their places in the joined tensor.
 *
 * The collection's size must be known before the loop runs, so the loop must be one that counts: nothing ends it early.
 * Others collect objects (control.c), and so does a loop of one iteration: nothing in its kernels would show that the
 * collection is written whole (level 1 inlines it anyway).
 */
#include "passes/lower/lower_int.h"
#include "passes/rewrite_int.h"

/* Views between a collection and the value that it becomes part of. */
enum { MAX_VIEWS = 8 };

struct path {
    struct ir_node *view[MAX_VIEWS];
    int nviews;
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

bool lw_scan_in_place(struct lw *lw, const struct ir_value *all)
{
    const struct ir_node *n = all->def;
    if (!lw->fuse || !n || n->op != IR_loop || !ir_is_tensor(all->type) || all->type->rank < 1 || lw->layout[all->id] ||
        !lw_type_bound(lw, all->type) || all == n->out[0] || ir_is_value(all->type->dim[0], 1))
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

static struct path follow(struct lw *lw, struct ir_value *all)
{
    struct path p = {.nviews = 0};
    for (struct ir_value *v = all; ir_has_one_use(v) && (v == all || !lw->materialised[v->id]) && !lw->layout[v->id];) {
        struct ir_node *n = v->uses->user;
        if (n->block != all->def->block || !lw_is_kernel_node(n) || lw->layout[n->out[0]->id])
            break;
        if (n->op == IR_concat && !lw_is_view(n)) {
            p.into = n;
            p.piece = v->uses->index;
            return p;
        }
        if ((n->op != IR_reshape && n->op != IR_transpose && (n->op != IR_slice || !reverses(n))) ||
            p.nviews == MAX_VIEWS)
            break;
        p.view[p.nviews++] = n;
        v = n->out[0];
    }
    p.nviews = 0;
    return p;
}

bool lw_scan_is_piece(struct lw *lw, const struct ir_node *n, int piece)
{
    struct ir_value *v = n->in[piece].value;
    for (int i = 0; i < MAX_VIEWS && v->def && v->def->op != IR_loop && v->def->nin == 1; i++)
        v = v->def->in[0].value;
    if (!v->def || v->def->op != IR_loop || v->def->block != n->block || !lw_scan_in_place(lw, v))
        return false;
    struct path p = follow(lw, v);
    return p.into == n && p.piece == piece;
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

struct lw_group *lw_scan_group(struct lw *lw, struct ir_value *all)
{
    struct lw_group *g = IR_NEW(lw->ctx, struct lw_group);
    struct ir_block *body = all->def->regions[0];
    struct ir_value *one = element(all), *to = all;
    struct path p = follow(lw, all);
    struct kb kb, *k = &kb;
    ir_expr idx[TCC_MAX_RANK], at[TCC_MAX_RANK];
    int64_t trips;
    g->root = body->last;
    g->value = one;
    kb_init(k, lw, g);
    for (int i = 0; i < one->type->rank; i++) {
        int d = ir_is_value(one->type->dim[i], 1) ? -1 : kb_dim(k, one->type->dim[i], KN_OUTER);
        at[i + 1] = idx[i] = d < 0 ? ir_const(k->ctx, 0) : k->dims.at[d].var;
    }
    int stage = kb_stage_new(k, 0), id = kb_load(k, stage, one, idx), t = kb_load(k, stage, body->params[0], NULL);
    at[0] =
        ir_fresh(k->ctx, "t", 0, ir_is_const(all->type->dim[0], &trips) && trips > 0 ? trips - 1 : INT64_C(1) << 40);
    VEC_PUSH(k->ctx, k->locals, (__typeof__(*k->locals.at)){at[0], stage});
    kb_insn(k, stage,
            (struct kn_insn){.code = KN_INDEX,
                             .dtype = TCC_I64,
                             .nargs = 1,
                             .arg = {t, -1, -1},
                             .expr = at[0],
                             .bound = all->type->dim[0]});
    for (int i = 0; i < p.nviews; i++)
        push(k, p.view[i], at);
    if (p.into) {
        int axis = (int)ir_get_i(p.into, IR_ATTR_axis, 0);
        to = p.into->out[0];
        for (int i = 0; i < p.piece; i++)
            at[axis] = ir_add(k->ctx, at[axis], p.into->in[i].value->type->dim[axis]);
    }
    kb_store(k, stage, to, at, id);
    kb_stage_end(k, stage);
    g->kernel = kb_finish(k, g);
    if (g->kernel)
        g->kernel->kind = IR_K_MOVE;
    return g->kernel ? g : NULL;
}
