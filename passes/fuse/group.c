/* SPDX-License-Identifier: Apache-2.0 */
/*
 * group.c - fusion: which nodes of a block become one kernel.
 *
 * First every contraction and window takes its epilogue (epilogue.c): the elementwise nodes (and reshapes, transposes)
 * behind it whose other operands come from elsewhere, up to the last point where only one value leaves. Then the
 * remaining nodes, last to first: a node all of whose users are in one group joins it if that is legal and pays
 * (sketch.c, profit.c), else it becomes the root of a new group.
 *
 * Greedy and deterministic. A value is computed twice only where the machine says that this is cheaper than to store it
 * (recompute.c). Views (index arithmetic) join every group that reads them. At -O0 each node is a group.
 */
#include "passes/lower_int.h"

ir_expr lw_whole_slice(const struct ir_node *n, int i, int axis)
{
    const struct ir_value *v = n->in[i].value;
    const struct ir_node *s = v ? v->def : NULL;
    if (!s || s->op != IR_slice)
        return NULL;
    const struct ir_attr *starts = ir_attr(s, IR_ATTR_starts), *steps = ir_attr(s, IR_ATTR_steps);
    for (int d = 0; d < v->type->rank; d++)
        if (!ir_is_value(steps->exprs[d], 1) ||
            (d != axis && (!ir_is_value(starts->exprs[d], 0) || v->type->dim[d] != s->in[0].value->type->dim[d])))
            return NULL;
    return starts->exprs[axis];
}

static bool whole_slice(const struct ir_node *n, int i, int axis, int64_t *start)
{
    ir_expr from = lw_whole_slice(n, i, axis);
    return from && ir_is_const(from, start);
}

bool lw_is_circular_shift(const struct ir_node *n, int64_t *shift, int64_t *size)
{
    int64_t first, second, had, tail;
    int axis = (int)ir_get_i(n, IR_ATTR_axis, 0);
    if (n->op != IR_concat || n->nin != 2 || !ir_is_tensor(n->out[0]->type) || axis >= n->out[0]->type->rank - 1 ||
        !whole_slice(n, 0, axis, &first) || !whole_slice(n, 1, axis, &second) ||
        n->in[0].value->def->in[0].value != n->in[1].value->def->in[0].value)
        return false;
    const struct ir_value *x = n->in[0].value->def->in[0].value;
    *shift = first;
    return ir_is_const(x->type->dim[axis], size) && ir_is_const(n->in[0].value->type->dim[axis], &had) &&
           ir_is_const(n->in[1].value->type->dim[axis], &tail) && first + had == *size && second == 0 && tail == first;
}

bool lw_is_view(const struct ir_node *n)
{
    int64_t v, size;
    switch (n->op) {
    case IR_reshape:
    case IR_transpose:
    case IR_expand:
    case IR_slice:
    case IR_iota:
    case IR_random_key:
    case IR_dim:
    case IR_dims: return true;
    case IR_concat: /* a roll; a few numbers: shape arithmetic */
        if (lw_is_circular_shift(n, &v, &size))
            return true;
        if (!ir_is_tensor(n->out[0]->type) || n->out[0]->type->rank > 1)
            return false;
        return n->out[0]->type->rank == 1 && ir_is_const(n->out[0]->type->dim[0], &v) && v <= 16;
    default: return false;
    }
}

static bool in_buffer(const struct ir_value *v)
{
    return v && ir_is_tensor(v->type);
}

bool lw_is_kernel_node(const struct ir_node *n)
{
    enum ir_kind kind = ir_op_info(n->op)->kind;
    if (kind != IR_K_MAP && kind != IR_K_MOVE && kind != IR_K_REDUCE && kind != IR_K_SCAN && kind != IR_K_CONTRACT &&
        kind != IR_K_WINDOW && kind != IR_K_ATTENTION && kind != IR_K_SORT && kind != IR_K_SOURCE)
        return false;
    for (int i = 0; i < n->nout; i++)
        if (!in_buffer(n->out[i]))
            return false;
    for (int i = 0; i < n->nin && n->op != IR_concat; i++) /* inference refuses a concat of anything else */
        if (n->in[i].value && !in_buffer(n->in[i].value))
            return false;
    return n->nout && n->op != IR_constant;
}

bool lw_in_group(const struct lw *lw, const struct ir_node *n, const struct lw_group *g)
{
    const struct lw_set *s = &lw->in[n->id];
    for (int i = 0; i < s->n; i++)
        if (s->at[i] == g)
            return true;
    return false;
}

void lw_set_add(struct lw *lw, struct lw_set *s, struct lw_group *g)
{
    for (int i = 0; i < s->n; i++)
        if (s->at[i] == g)
            return;
    VEC_PUSH(lw->ctx, *s, g);
}

struct lw_group *lw_group_new(struct lw *lw, struct ir_node *root, struct ir_value *value)
{
    struct lw_group *g = IR_NEW(lw->ctx, struct lw_group);
    g->root = root;
    g->results[0].value = value;
    g->nresults = 1;
    return g;
}

void lw_launch_at(struct lw *lw, struct ir_node *n, struct lw_group *g)
{
    VEC_PUSH(lw->ctx, lw->launches[n->id], g);
}

/* -- The rest ----------------------------------------------------------------------------------------------- */

static bool is_scatter(const struct ir_node *n)
{
    return n->op == IR_scatter_elements || n->op == IR_scatter_nd;
}

/* The groups that read n's value: all if there are fewer than two, else two of them. */
static void reader_groups(struct lw *lw, const struct ir_node *n, struct lw_set *out)
{
    for (struct ir_use *u = n->out[0]->uses; u && out->n < 2; u = u->next) {
        const struct ir_node *user = u->user;
        if (user->block != n->block)
            continue;
        /* A piece of a concat is read by its own group only. */
        struct lw_group *piece = lw->pieces[user->id].group ? lw->pieces[user->id].group[u->index] : NULL;
        if (piece && !piece->collects)
            lw_set_add(lw, out, piece);
        for (int i = 0; i < lw->in[user->id].n && out->n < 2; i++)
            lw_set_add(lw, out, lw->in[user->id].at[i]);
    }
}

/* Has operand i of n its place in n's buffer already? */
static bool has_place(struct lw *lw, const struct ir_node *n, int i)
{
    return lw_pieces_of(lw, n)->group[i] || lw_is_part(lw, n, i) || lw_is_unchanged(lw, n, i);
}

/* concat, interleave: a group for each piece that has no place in it yet. */
static void form_pieces(struct lw *lw, struct ir_node *n)
{
    for (int i = 0; i < n->nin; i++) {
        struct ir_value *v = n->in[i].value;
        bool placed = has_place(lw, n, i);
        if (!placed && !(n->op == IR_concat && ir_is_value(v->type->dim[ir_get_i(n, IR_ATTR_axis, 0)], 0))) {
            struct lw_group *g = lw_group_new(lw, n, v);
            lw_place_in(lw, g, n, i);
            lw_launch_at(lw, n, g);
        }
    }
    lw->materialised[n->out[0]->id] = true;
}

/* scatter: copy the data, unless they are there already, then apply the updates. */
static void form_scatter(struct lw *lw, struct ir_node *n)
{
    struct lw_group *copy = lw_updated(lw, n) ? NULL : lw_group_new(lw, n, n->in[0].value);
    struct lw_group *updates = lw_group_new(lw, n, n->out[0]);
    if (copy)
        lw_place_in(lw, copy, n, 0);
    updates->updates = true;
    lw_set_add(lw, &lw->in[n->id], copy ? copy : updates);
    if (copy)
        lw_launch_at(lw, n, copy);
    lw_launch_at(lw, n, updates);
    lw->materialised[n->out[0]->id] = true;
}

static bool has_placed_piece(struct lw *lw, const struct ir_node *n)
{
    for (int i = 0; i < n->nin; i++)
        if (has_place(lw, n, i))
            return true;
    return false;
}

/* Nothing but moved elements, some negated. */
static bool moved(const struct ir_value *v)
{
    while (v->def && (v->def->op == IR_slice || v->def->op == IR_neg || v->def->op == IR_reshape))
        v = v->def->in[0].value;
    return !v->def || v->def->nin < 1 || lw_is_view(v->def) || ir_op_info(v->def->op)->kind == IR_K_CONTRACT;
}

/* Two halves changed about, as rotary embeddings do: picked by the one elementwise kernel that reads them. */
static bool pick_halves(struct lw *lw, struct ir_node *n)
{
    struct lw_set readers = {0};
    if (n->op != IR_concat || n->nin != 2 || !lw->fuse || lw->live_out[n->out[0]->id] || has_placed_piece(lw, n) ||
        !moved(n->in[0].value) || !moved(n->in[1].value))
        return false;
    reader_groups(lw, n, &readers);
    return readers.n == 1 && !readers.at[0]->anchor && readers.at[0]->joined &&
           ir_op_info(readers.at[0]->root->op)->kind == IR_K_MAP && !readers.at[0]->sketch->have_reduce &&
           lw_join(lw, n, readers.at[0]);
}

static void form_node(struct lw *lw, struct ir_node *n)
{
    struct ir_value *v = n->out[0];
    if (lw->in[n->id].n || !(lw->live_out[v->id] || ir_has_uses(v)))
        return;
    if (is_scatter(n)) {
        form_scatter(lw, n);
        return;
    }
    if (lw_joins_pieces(n) && !(lw_is_view(n) && lw->fuse)) {
        if (pick_halves(lw, n))
            return;
        form_pieces(lw, n);
        return;
    }
    struct lw_set readers = {0};
    reader_groups(lw, n, &readers);
    bool alone = lw->live_out[v->id] || !lw->fuse || ir_op_info(n->op)->kind == IR_K_SCAN || n->op == IR_relayout;
    if (!alone && lw_is_view(n)) {
        lw->in[n->id] = readers;
        return;
    }
    if (!alone && readers.n == 1 && lw_join(lw, n, readers.at[0]))
        return;
    struct lw_set all = {0};
    if (!alone && readers.n > 1 && lw_recomputes(lw, n, &all) && lw_join_all(lw, n, &all))
        return;
    struct lw_group *g = lw_group_new(lw, n, v);
    lw_set_add(lw, &lw->in[n->id], g);
    lw_launch_at(lw, n, g);
    lw->materialised[v->id] = true;
}

/* Is v, or a view of it, what a product multiplies with weights or another such operand? */
static bool multiplied(const struct ir_value *v, int depth)
{
    for (const struct ir_use *u = v->uses; u && depth < 6; u = u->next) {
        enum ir_kind kind = ir_op_info(u->user->op)->kind;
        if (((kind == IR_K_CONTRACT || kind == IR_K_WINDOW) && !u->index && u->user->nin > 1) ||
            (lw_is_view(u->user) && multiplied(u->user->out[0], depth + 1)))
            return true;
    }
    return false;
}

static bool is_materialised(const struct lw *lw, const struct ir_node *n)
{
    return (n->op == IR_cast || n->op == IR_pad || n->op == IR_slice) && lw->fuse && lw->machine->materialise &&
           lw->machine->materialise(lw->machine, n);
}

/* Who must find a value in a buffer: everything that is not evaluated inside kernels of the same block. */
static void mark_live_out(struct lw *lw, struct ir_block *block)
{
    IR_EACH_NODE(n, block) {
        for (int i = 0; i < n->nout; i++) {
            struct ir_value *v = n->out[i];
            int piece;
            if (!lw_is_kernel_node(n) || !lw->fuse)
                lw->materialised[v->id] = true;
            if (lw_part_of(lw, v, &piece))
                lw->live_out[v->id] = true;
            for (struct ir_use *u = v->uses; u; u = u->next)
                if (u->user->block != block || !lw_is_kernel_node(u->user) || (is_scatter(u->user) && u->index > 0))
                    lw->live_out[v->id] = true;
            if (is_materialised(lw, n) && multiplied(v, 0))
                lw->live_out[v->id] = true;
        }
    }
}

/* The group of n, if it stores a cast (n), or several one after the other, of a stored value and nothing else; *from:
 * that value. */
static struct lw_group *only_casts(const struct lw *lw, const struct ir_node *n, struct ir_value **from)
{
    if (n->op != IR_cast || lw->launches[n->id].n != 1)
        return NULL;
    struct lw_group *g = lw->launches[n->id].at[0];
    *from = n->in[0].value;
    while (!lw->materialised[(*from)->id] && (*from)->def && (*from)->def->op == IR_cast)
        *from = (*from)->def->in[0].value;
    return g->root == n && !g->anchor && !g->results[0].into && lw->materialised[(*from)->id] ? g : NULL;
}

/* A stored cast of what another kernel stores is stored by that one. */
static void store_beside(struct lw *lw, struct ir_node *n)
{
    struct ir_value *from = NULL;
    struct lw_group *casts = only_casts(lw, n, &from), *g = NULL;
    if (!casts || !from->def || from->def->block != n->block || lw->layout[from->id] != lw->layout[n->out[0]->id])
        return;
    for (int i = 0; i < lw->launches[from->def->id].n; i++)
        if (lw->launches[from->def->id].at[i]->results[0].value == from)
            g = lw->launches[from->def->id].at[i];
    if (!g || g->results[0].into || g->updates || g->nresults > 1 || g->root != from->def)
        return;
    bool stored = false;
    g->results[g->nresults++] = (struct kn_result){.value = n->out[0]};
    for (const struct ir_node *c = n; c->out[0] != from; c = c->in[0].value->def)
        lw_set_add(lw, &lw->in[c->id], g);
    if (lw_build(lw, g) && lw_may_change(lw))
        for (int i = 0; i < g->kernel->noperands; i++)
            stored |= g->values[i] == n->out[0];
    for (const struct ir_node *c = n; c->out[0] != from; c = c->in[0].value->def)
        lw->in[c->id].n = 0, lw_set_add(lw, &lw->in[c->id], stored ? g : casts);
    if (stored)
        lw->launches[n->id].n = 0;
    else
        g->nresults--;
}

static bool is_read(const struct ir_node *n)
{
    for (int i = 0; i < n->nout; i++)
        if (ir_has_uses(n->out[i]))
            return true;
    return false;
}

void lw_form_groups(struct lw *lw, struct ir_block *block)
{
    for (int i = 0; i < block->nparams; i++)
        lw->materialised[block->params[i]->id] = true;
    mark_live_out(lw, block);
    IR_EACH_NODE(n, block)
        for (int i = 0; i < n->nout; i++)
            if (lw->live_out[n->out[i]->id])
                lw->materialised[n->out[i]->id] = true;
    IR_EACH_NODE(n, block)
        if (lw_is_kernel_node(n) && lw_is_anchor(n) && !lw->in[n->id].n && is_read(n))
            lw_form_anchor(lw, n);
    for (struct ir_node *n = block->last; n; n = n->prev)
        if (lw_is_kernel_node(n))
            form_node(lw, n);
    IR_EACH_NODE(n, block)
        if (n->op == IR_cast && is_materialised(lw, n) && lw_is_kernel_node(n))
            store_beside(lw, n);
}
