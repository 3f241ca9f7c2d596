/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.c - which values are stored in a blocked layout.
 *
 * The machine says what layouts the operands and results of contractions and windows want. Constants get them as they
 * are (their bytes are laid out at compile time). Activations: every window that wants a result in a layout of its own
 * starts a region; the layout spreads through elementwise nodes, pools, resizes between windows, and concats along the
 * blocked axis whose pieces fill whole blocks; at the region's borders a relayout node converts. A value has one
 * layout. One that only orders the axes (channels last) has no blocks to be kept whole: it spreads through pads, slices
 * and all pools too.
 */
#include "passes/lower_int.h"

static bool spreads(const struct ir_node *n)
{
    return ir_op_info(n->op)->kind == IR_K_MAP && ir_is_tensor(n->out[0]->type);
}

/* l, or NULL where it is the plain one for a value of that type: blocks aside, it moves axes of extent 1 only. */
static kn_layout settled(ir_type t, kn_layout l)
{
    int before = -1;
    for (int p = 0; l && p < l->naxes; p++) {
        if (l->at[p].mod || l->at[p].div > 1)
            return l;
        if (ir_is_value(t->dim[l->at[p].axis], 1))
            continue;
        if (l->at[p].axis < before)
            return l;
        before = l->at[p].axis;
    }
    return NULL;
}

static kn_layout wanted(struct lw *lw, const struct ir_node *n, int operand)
{
    const struct ir_value *v = operand < 0 ? n->out[0] : n->in[operand].value;
    kn_layout l = lw->machine->layout && v ? lw->machine->layout(lw->machine, lw->ctx, n, operand) : NULL;
    return l ? settled(v->type, l) : NULL;
}

/* Can all readers of a constant have it in layout l? Those want it, or pick single rows of it, as an embedding does
 * whose table is also the matrix of the last product. */
static bool shared(struct lw *lw, const struct ir_value *v, kn_layout l)
{
    for (const struct ir_use *u = v->uses; u; u = u->next) {
        bool picks = u->user->op == IR_gather && u->index == 0 && ir_get_i(u->user, IR_ATTR_axis, 0) == 0;
        if (!picks && wanted(lw, u->user, u->index) != l)
            return false;
    }
    return true;
}

/* Constants, in the form that their readers want. */
static void layout_constant(struct lw *lw, struct ir_node *n, int operand)
{
    struct ir_value *v = n->in[operand].value;
    if (!v || !ir_const_of(v))
        return;
    kn_layout l = wanted(lw, n, operand);
    if (!l || lw->layout[v->id] == l)
        return;
    if (shared(lw, v, l)) {
        lw->layout[v->id] = l;
        return;
    }
    /* Other readers keep the plain one: this reader gets a constant of its own. */
    struct ir_builder b = {lw->ctx, lw->func, n->block, n, n->where};
    struct ir_value *copy = ir_constant(&b, ir_tensor_ref(ir_const_of(v)));
    lw_side_tables_grow(lw);
    copy->name = v->name;
    lw->layout[copy->id] = l;
    ir_set_operand(n, operand, copy);
}

/* The axis that l splits in blocks, and their size. */
static int blocked_axis(kn_layout l, int64_t *block)
{
    for (int p = 0; p < l->naxes; p++)
        if (l->at[p].mod) {
            *block = l->at[p].mod;
            return l->at[p].axis;
        }
    *block = 1;
    return -1;
}

/* Does l only order the axes? */
static bool orders(kn_layout l)
{
    int64_t block;
    return l && blocked_axis(l, &block) < 0;
}

/* A window without a wish of its own, and without weights, that takes its operand in any order. */
static bool follows(struct lw *lw, const struct ir_node *n, int operand)
{
    return ir_op_info(n->op)->kind == IR_K_WINDOW && n->nin == 1 && operand == 0 &&
           orders(lw->layout[n->in[0].value->id]) && !wanted(lw, n, 0);
}

static bool joins_pieces(const struct ir_node *n)
{
    return (n->op == IR_concat && !lw_is_view(n)) || n->op == IR_interleave;
}

/* That of the operands of an interleave that have one, if it doesn't take the blocked axis apart; the others are
 * converted. */
static kn_layout interleave_layout(struct lw *lw, const struct ir_node *n)
{
    kn_layout l = NULL;
    int64_t block;
    for (int i = 0; i < n->nin; i++) {
        kn_layout own = lw->layout[n->in[i].value->id];
        if (own && l && own != l)
            return NULL;
        l = own ? own : l;
    }
    bool apart = l && blocked_axis(l, &block) >= n->out[0]->type->rank - ir_attr(n, IR_ATTR_strides)->n;
    return apart ? NULL : l;
}

/* A concat along the blocked axis stays blocked when its pieces fill whole blocks. */
static kn_layout joined_layout(struct lw *lw, const struct ir_node *n)
{
    kn_layout l = lw->layout[n->in[0].value->id];
    int64_t block, dim;
    int axis = ir_get_i(n, IR_ATTR_axis, 0);
    if (n->op == IR_interleave)
        return interleave_layout(lw, n);
    if (!l)
        return NULL;
    bool along = blocked_axis(l, &block) == axis;
    for (int i = 0; i < n->nin; i++) {
        const struct ir_value *x = n->in[i].value;
        if (lw->layout[x->id] != l || (along && (!ir_is_const(x->type->dim[axis], &dim) || dim % block)))
            return NULL;
    }
    return l;
}

/* Does the node compute with state, element by element? */
static bool meets_state(const struct lw *lw, const struct ir_node *n)
{
    for (int i = 0; i < n->nin; i++) {
        const struct ir_value *x = n->in[i].value;
        if (x && x->def && x->def->op == IR_state_read && !lw->layout[x->id] && ir_same_dims(x->type, n->out[0]->type))
            return true;
    }
    return false;
}

/* Does nothing but sums and extremes come of it? */
static bool only_reduced(const struct ir_node *n, int depth)
{
    if (ir_op_info(n->op)->kind == IR_K_REDUCE)
        return true;
    if (!spreads(n) || depth > 12 || !n->out[0]->uses)
        return false;
    for (const struct ir_use *u = n->out[0]->uses; u; u = u->next)
        if (!only_reduced(u->user, depth + 1))
            return false;
    return true;
}

/* Part of an update of state, which is held plain: so is what is computed with it, and what only serves that, sums and
 * extremes of it aside. Nothing but the gradient is converted then. */
static bool updates_state(const struct lw *lw, const struct ir_node *n, int depth)
{
    if (!spreads(n) || depth > 12) /* as far as AdamW goes from a gradient to what it changes */
        return false;
    if (meets_state(lw, n))
        return true;
    bool serves = false;
    for (const struct ir_use *u = n->out[0]->uses; u; u = u->next) {
        if (only_reduced(u->user, depth + 1))
            continue;
        if (u->user->op != IR_state_write && !updates_state(lw, u->user, depth + 1))
            return false;
        serves = true;
    }
    return serves;
}

/*
 * Do windows that want v in layout l read it, or what elementwise nodes, joins and steps of resizes make of it, and
 * nothing else? It may grow on the way: whoever wants it plain should have converted what it was made from.
 */
static bool leads_to_blocks(struct lw *lw, const struct ir_value *v, kn_layout l, int depth)
{
    if (!v->uses || depth > 12)
        return false;
    for (const struct ir_use *u = v->uses; u; u = u->next) {
        const struct ir_node *n = u->user;
        bool passes = spreads(n) || joins_pieces(n) || (n->op == IR_gather && u->index == 0) || n->op == IR_pad;
        if (ir_op_info(n->op)->kind == IR_K_WINDOW ? wanted(lw, n, u->index) != l
                                                   : !passes || !leads_to_blocks(lw, n->out[0], l, depth + 1))
            return false;
    }
    return true;
}

/* A pad keeps the blocks that begins with its operand's, if it adds to the blocked axis only where blocks are read. */
static bool pads_behind_blocks(struct lw *lw, const struct ir_node *n)
{
    int64_t block;
    kn_layout l = lw->layout[n->in[0].value->id];
    int axis = l ? blocked_axis(l, &block) : -1;
    if (orders(l))
        return true;
    return axis >= 0 && ir_is_value(ir_attr(n, IR_ATTR_before)->exprs[axis], 0) &&
           (ir_is_value(ir_attr(n, IR_ATTR_after)->exprs[axis], 0) || leads_to_blocks(lw, n->out[0], l, 0));
}

/* Rows or columns picked by numbers, as a resize does: channels stay in their blocks. */
static bool picks_beside_blocks(struct lw *lw, const struct ir_node *n)
{
    int64_t block;
    kn_layout l = lw->layout[n->in[0].value->id];
    int axis = l ? blocked_axis(l, &block) : -1, along = ir_get_i(n, IR_ATTR_axis, 0);
    along += along < 0 ? n->in[0].value->type->rank : 0;
    return axis >= 0 && along != axis && n->in[1].value->type->rank == 1 && leads_to_blocks(lw, n->out[0], l, 0);
}

/* A slice of whole blocks keeps them, and one that only ends earlier within the last. */
static bool slices_blocks(struct lw *lw, const struct ir_node *n)
{
    int64_t block, start, size;
    kn_layout l = lw->layout[n->in[0].value->id];
    int axis = l ? blocked_axis(l, &block) : -1;
    if (orders(l))
        return true;
    if (axis < 0)
        return false;
    const struct ir_attr *starts = ir_attr(n, IR_ATTR_starts), *sizes = ir_attr(n, IR_ATTR_sizes);
    int64_t all = ir_const_or(n->in[0].value->type->dim[axis], 0);
    return ir_is_value(ir_attr(n, IR_ATTR_steps)->exprs[axis], 1) && ir_is_const(starts->exprs[axis], &start) &&
           ir_is_const(sizes->exprs[axis], &size) && start % block == 0 &&
           (size % block == 0 || (!start && size > (all - 1) / block * block));
}

/* Moves that keep the layout of what they move. */
static bool keeps_blocks(struct lw *lw, const struct ir_node *n)
{
    switch (n->op) {
    case IR_pad: return pads_behind_blocks(lw, n);
    case IR_slice: return slices_blocks(lw, n);
    case IR_gather: return picks_beside_blocks(lw, n);
    default: return false;
    }
}

static kn_layout chosen(struct lw *lw, const struct ir_node *n)
{
    kn_layout l = wanted(lw, n, -1);
    return l && lw_may_change(lw) ? l : NULL;
}

/* What a value's layout is when its producer's wish (windows) or its operands' layout (elementwise, concat, reductions
 * that keep the blocked axis) decides. */
static kn_layout produced(struct lw *lw, const struct ir_node *n)
{
    int64_t block;
    if (follows(lw, n, 0))
        return lw->layout[n->in[0].value->id];
    if (ir_op_info(n->op)->kind == IR_K_WINDOW)
        return chosen(lw, n);
    if (joins_pieces(n))
        return joined_layout(lw, n);
    if (ir_op_info(n->op)->kind == IR_K_REDUCE && ir_attr(n, IR_ATTR_axes) && ir_get_i(n, IR_ATTR_keepdims, 0)) {
        const struct ir_attr *axes = ir_attr(n, IR_ATTR_axes);
        kn_layout l = lw->layout[n->in[0].value->id];
        for (int i = 0; l && i < axes->n; i++)
            if (axes->ints[i] == blocked_axis(l, &block))
                return NULL;
        return l;
    }
    if (keeps_blocks(lw, n))
        return lw->layout[n->in[0].value->id];
    if (spreads(n) && !updates_state(lw, n, 0))
        for (int i = 0; i < n->nin; i++) {
            const struct ir_value *x = n->in[i].value;
            if (x && lw->layout[x->id] && !ir_const_of(x) && ir_same_dims(x->type, n->out[0]->type))
                return lw->layout[x->id];
        }
    return NULL;
}

static void convert(struct lw *lw, struct ir_node *n, int operand, kn_layout to)
{
    struct ir_value *v = n->in[operand].value;
    for (struct ir_use *u = v->uses; u; u = u->next) /* one that another reader has made */
        if (u->user->op == IR_relayout && lw->layout[u->user->out[0]->id] == to && u->user->block == n->block &&
            (u->user->id < n->id || u->user->id >= lw->made_from)) {
            ir_set_operand(n, operand, u->user->out[0]);
            return;
        }
    struct ir_builder b = {lw->ctx, lw->func, n->block, n, n->where};
    if (v->def && v->def->block == n->block)
        b.before = v->def->next;
    struct ir_value *r = ir_unary(&b, IR_relayout, v);
    lw_side_tables_grow(lw);
    r->name = v->name;
    lw->layout[r->id] = to;
    ir_set_operand(n, operand, r);
}

/* What layout a reader wants operand i in: its own for elementwise nodes of the same shape, a window's wish, else
 * plain. Layouts of smaller operands that broadcast (a channel's bias) stay plain: the kernel's access map does the
 * rest. */
static kn_layout read_layout(struct lw *lw, const struct ir_node *n, int i)
{
    enum ir_kind kind = ir_op_info(n->op)->kind;
    const struct ir_value *x = n->in[i].value;
    if (follows(lw, n, i))
        return lw->layout[x->id];
    if (kind == IR_K_WINDOW || kind == IR_K_CONTRACT)
        return wanted(lw, n, i);
    if (updates_state(lw, n, 0))
        return NULL;
    if (i == 0 && keeps_blocks(lw, n))
        return lw->layout[x->id];
    if (n->op == IR_interleave)
        return interleave_layout(lw, n);
    if (kind == IR_K_MAP || kind == IR_K_REDUCE || (joins_pieces(n) && joined_layout(lw, n)))
        return lw->layout[x->id];
    return n->op == IR_relayout ? lw->layout[x->id] : NULL;
}

static void layout_block(struct lw *lw, struct ir_block *block)
{
    for (struct ir_node *n = block->first, *next; n; n = next) {
        next = n->next;
        enum ir_kind kind = ir_op_info(n->op)->kind;
        if (kind == IR_K_WINDOW || kind == IR_K_CONTRACT)
            for (int i = 0; i < n->nin; i++)
                layout_constant(lw, n, i);
        if (n->op != IR_relayout)
            for (int i = 0; i < n->nin; i++) {
                struct ir_value *x = n->in[i].value;
                if (!x || !ir_is_tensor(x->type) || ir_const_of(x))
                    continue;
                kn_layout l = settled(x->type, read_layout(lw, n, i));
                if (l != lw->layout[x->id])
                    convert(lw, n, i, l);
            }
        if (n->op != IR_relayout && n->nout == 1 && ir_is_tensor(n->out[0]->type) && n->op != IR_constant)
            lw->layout[n->out[0]->id] = settled(n->out[0]->type, produced(lw, n));
        for (int r = 0; r < n->nregions; r++)
            layout_block(lw, n->regions[r]);
    }
}

void lw_choose_layouts(struct lw *lw, struct ir_func *f)
{
    lw->made_from = f->nnodes;
    if (lw->machine->layout && lw->fuse)
        layout_block(lw, f->body);
}
