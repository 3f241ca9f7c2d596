/* SPDX-License-Identifier: Apache-2.0 */
/*
 * epilogue.c - groups of contractions and windows: the nodes behind one that its kernel computes too, as far as one
 * value leaves, casts of its operands, and views and pieces of a larger tensor that it stores into.
 */
#include "passes/lower_int.h"
#include "base/mutant.h"

struct chain {
    struct ir_node *nodes[40];
    int n;
    const struct ir_value *values[41];
};

static int reads_chain(const struct chain *c, const struct ir_node *n)
{
    int reads = 0;
    for (int i = 0; i < n->nin; i++)
        for (int v = 0; v <= c->n; v++)
            reads += n->in[i].value == c->values[v];
    return reads;
}

/* Values of the chain that somebody outside it reads; *last: the newest value is one of them. */
static int open_values(const struct lw *lw, const struct chain *c, bool *last)
{
    int open = 0;
    for (int v = 0; v <= c->n; v++) {
        bool outside = lw->live_out[c->values[v]->id];
        for (struct ir_use *u = c->values[v]->uses; u && !outside; u = u->next) {
            bool inside = false;
            for (int i = 0; i < c->n && !inside; i++)
                inside = c->nodes[i] == u->user;
            outside = !inside;
        }
        open += outside;
        *last = outside;
    }
    return open;
}

static bool may_follow(const struct lw *lw, const struct chain *c, const struct ir_node *n)
{
    if (!lw_is_kernel_node(n) || lw->in[n->id].n)
        return false;
    const struct ir_value *from = c->values[c->n];
    if (ir_op_info(n->op)->kind == IR_K_MAP)
        return ir_same_dims(n->out[0]->type, from->type);
    bool last;
    return (n->op == IR_reshape || n->op == IR_transpose) && !lw->layout[from->id] && open_values(lw, c, &last) == 1 &&
           last;
}

/* Is node i of the chain elementwise, with constants only beside the chain? */
static bool by_constants(const struct chain *c, int i)
{
    const struct ir_node *n = c->nodes[i];
    if (ir_op_info(n->op)->kind != IR_K_MAP)
        return false;
    for (int k = 0; k < n->nin; k++)
        if (n->in[k].value != c->values[i] && !ir_const_of(n->in[k].value))
            return false;
    return true;
}

/* Where a chain of n nodes is best cut: bytes that become wider numbers are stored as bytes, and the readers widen
 * them. */
static int narrowest_end(const struct lw *lw, struct chain *c, int n)
{
    int best = n, bytes = tcc_dtype_bytes((enum tcc_dtype)c->values[n]->type->dtype);
    if (lw->live_out[c->values[n]->id])
        return n;
    for (int i = n - 1; i > 0 && by_constants(c, i); i--) {
        int narrow = tcc_dtype_bytes((enum tcc_dtype)c->values[i]->type->dtype);
        bool last;
        c->n = i;
        if (narrow < bytes && open_values(lw, c, &last) == 1 && last) {
            best = i;
            bytes = narrow;
        }
    }
    return best;
}

/* Nobody reads v, or a view of it, up to the group's root, where its kernel runs. */
static bool read_behind(const struct lw_group *g, const struct ir_value *v)
{
    enum { MOST = 16 };
    const struct ir_value *same[MOST] = {v};
    int nsame = 1;
    for (const struct ir_node *n = g->anchor; n; n = n->next) {
        bool reads = false;
        for (int i = 0; i < n->nin; i++)
            for (int j = 0; j < nsame; j++)
                reads |= n->in[i].value == same[j];
        if (reads && (!lw_is_view(n) || nsame == MOST))
            return false;
        if (reads)
            same[nsame++] = n->out[0];
        if (n == g->root)
            return true;
    }
    return false;
}

/* So it is with all results but the first. */
static bool further_read_behind(const struct lw_group *g)
{
    for (int r = 1; r < g->nresults; r++)
        if (!read_behind(g, g->results[r].value))
            return false;
    return true;
}

/* Does g have a kernel? */
static bool take_epilogue(struct lw *lw, struct lw_group *g)
{
    struct chain c = {.values = {lw_anchored(g)}};
    int committed = 0, distance = 0;
    for (struct ir_node *n = g->anchor->next; n && c.n < 40 && distance < 500; n = n->next, distance++) {
        if (!reads_chain(&c, n))
            continue;
        if (!may_follow(lw, &c, n))
            break;
        c.nodes[c.n++] = n;
        c.values[c.n] = n->out[0];
        bool last;
        if (open_values(lw, &c, &last) == 1 && last)
            committed = c.n;
    }
    committed = narrowest_end(lw, &c, committed);
    /* The longest chain whose kernel can be built; trailing moves are left to the readers, who fold them. */
    for (; committed > 0; committed--) {
        c.n = committed;
        bool last;
        struct ir_node *end = c.nodes[committed - 1];
        if (open_values(lw, &c, &last) != 1 || !last)
            continue;
        for (int i = 0; i < committed; i++)
            lw_set_add(lw, &lw->in[c.nodes[i]->id], g);
        g->root = end;
        g->results[0].value = end->out[0];
        if (further_read_behind(g) && lw_build(lw, g) && lw_may_change(lw))
            return true;
        for (int i = 0; i < committed; i++)
            lw->in[c.nodes[i]->id].n = 0;
    }
    g->root = g->anchor;
    g->results[0].value = lw_anchored(g);
    return lw_build(lw, g);
}

/* The cast that alone reads v; NULL: there is none. */
static struct ir_node *only_cast(const struct lw *lw, const struct ir_value *v)
{
    struct ir_node *n = ir_has_one_use(v) && !lw->live_out[v->id] ? v->uses->user : NULL;
    return n && n->op == IR_cast && n->block == v->block && !lw->in[n->id].n && !lw->layout[n->out[0]->id] ? n : NULL;
}

/* What casts that alone read a further result of the anchor make of it is stored instead. */
static void take_casts(struct lw *lw, struct lw_group *g, struct kn_result *r)
{
    for (struct ir_node *c; (c = only_cast(lw, r->value)) != NULL; r->value = c->out[0])
        lw_set_add(lw, &lw->in[c->id], g);
}

/* Index expressions that are not linear in the kernel's dims keep the fast templates away: such operands are stored
 * first. */
static bool linear_load(struct lw *lw, const struct kn_kernel *k, const struct kn_insn *load)
{
    for (int i = 0; i < load->nindex; i++)
        for (int d = 0; d < k->ndims; d++) {
            ir_expr c, rest;
            if (ir_uses_sym(load->index[i], k->dims[d].var) &&
                !ir_linear_in(lw->ctx, load->index[i], k->dims[d].var, &c, &rest))
                return false;
        }
    return true;
}

static void store_views(struct lw *lw, const struct ir_node *anchor, struct lw_group *g)
{
    const struct kn_roles *r = &g->kernel->roles;
    for (int i = 0; i < 2; i++) {
        struct ir_value *v = anchor->in[i].value;
        while (v->def && v->def->op == IR_cast)
            v = v->def->in[0].value;
        if (r->form != KN_CONTRACTION ||
            (!linear_load(lw, g->kernel, &g->kernel->insns[r->contraction.load[i]]) && !lw->layout[v->id]))
            if (v->def && lw_is_view(v->def))
                lw->live_out[v->id] = lw->materialised[v->id] = true;
    }
}

/* Nodes whose operands are stored in its buffer, each in its place. */
struct lw_pieces *lw_pieces_of(struct lw *lw, const struct ir_node *n)
{
    struct lw_pieces *p = &lw->pieces[n->id];
    if (!p->group)
        p->group = IR_NEWN(lw->ctx, n->nin + 1, struct lw_group *);
    return p;
}

ir_expr lw_piece_position(struct lw *lw, const struct ir_node *n, int piece)
{
    struct lw_pieces *p = lw_pieces_of(lw, n);
    if (!p->position) {
        int axis = (int)ir_get_i(n, IR_ATTR_axis, 0);
        ir_expr position = ir_const(lw->ctx, 0);
        p->position = IR_NEWN(lw->ctx, n->nin + 1, ir_expr);
        for (int i = 0; i < n->nin; i++) {
            p->position[i] = position;
            position = ir_add(lw->ctx, position, n->in[i].value->type->dim[axis]);
        }
    }
    return p->position[piece];
}

/* Pieces of a concat of many share kernels, which are told where to store; those of few have theirs, with that place
 * built in. */
static ir_expr start_of(struct lw *lw, struct lw_group *g, ir_expr position, int npieces)
{
    enum { MANY = 32 };
    if (npieces < MANY)
        return position;
    if (!lw->start)
        lw->start = ir_fresh(lw->ctx, "start", 0, INT64_C(1) << 40);
    g->into_start = position;
    return lw->start;
}

void lw_place_in(struct lw *lw, struct lw_group *g, const struct ir_node *n, int piece)
{
    const struct ir_attr *strides = n->op == IR_interleave ? ir_attr(n, IR_ATTR_strides) : NULL;
    int rank = n->out[0]->type->rank;
    g->results[0].into = n->out[0];
    g->results[0].piece = piece;
    for (int a = rank - 1, k = strides ? strides->n - 1 : -1, r = piece; a >= 0; a--, k--) {
        int64_t s = k >= 0 ? strides->ints[k] : 1;
        g->into_offset[a] = ir_const(lw->ctx, k >= 0 ? r % s : 0);
        g->into_step[a] = s;
        r /= (int)s;
    }
    if (n->op == IR_concat)
        g->into_offset[ir_get_i(n, IR_ATTR_axis, 0)] = start_of(lw, g, lw_piece_position(lw, n, piece), n->nin);
    if (lw_joins_pieces(n))
        lw_pieces_of(lw, n)->group[piece] = g;
}

static bool has_symbol(ir_type t, ir_expr sym)
{
    for (int i = 0; i < t->rank; i++)
        if (ir_uses_sym(t->dim[i], sym))
            return true;
    return false;
}

/* A symbol of the one type that is not known when the block begins, nor by the other. */
static bool asks_for(const struct lw *lw, ir_expr sym, ir_type t, ir_type known)
{
    return sym->kind == IR_X_SYM && !lw_bound(lw, sym) && has_symbol(t, sym) && !has_symbol(known, sym);
}

/*
 * Does a node between the group's and n, which stands behind it in the block, bind a size of n's buffer? Then that
 * can't be allocated where the group runs. The sizes of the group's own value are bound in front of it.
 */
static bool sized_later(const struct lw *lw, const struct lw_group *g, const struct ir_node *n)
{
    ir_type of = n->out[0]->type;
    for (const struct ir_node *at = lw_type_bound(lw, of) ? n : g->root->next; at && at != n; at = at->next) {
        const struct ir_attr *syms = at->op == IR_bind ? ir_attr(at, IR_ATTR_syms) : NULL;
        if (!(ir_op_info(at->op)->flags & IR_F_DEFINES_SYMS))
            continue;
        for (int i = 0; syms && i < syms->n; i++)
            if (asks_for(lw, syms->exprs[i], of, g->results[0].value->type))
                return true;
        for (int i = 0; i < at->nout; i++)
            for (int d = 0; at->out[i]->type->kind == IR_T_TENSOR && d < at->out[i]->type->rank; d++)
                if (asks_for(lw, at->out[i]->type->dim[d], of, g->results[0].value->type))
                    return true;
    }
    return false;
}

/* The last value goes straight into its place in a concat or interleave, if it goes nowhere else. */
static void store_into_piece(struct lw *lw, struct lw_group *g)
{
    struct ir_value *v = g->results[0].value;
    if (lw->live_out[v->id] || !ir_has_one_use(v))
        return;
    struct ir_use *use = v->uses;
    struct ir_node *n = use->user;
    if (!lw_joins_pieces(n) || !lw_is_kernel_node(n) || lw_is_view(n) || n->block != g->root->block ||
        lw->layout[n->out[0]->id] != lw->layout[v->id] || MUTANT(352, sized_later(lw, g, n), false))
        return;
    lw_place_in(lw, g, n, use->index);
    if (lw_build(lw, g) && lw_may_change(lw))
        return;
    g->results[0].into = NULL;
    lw->pieces[n->id].group[use->index] = NULL;
}

void lw_form_anchor(struct lw *lw, struct ir_node *n)
{
    struct lw_group *g = lw_group_new(lw, n, NULL);
    g->anchor = n;
    g->nresults = 0;
    for (int i = 0; i < n->nout; i++)
        if (ir_has_uses(n->out[i]))
            g->results[g->nresults++].value = n->out[i];
    lw_set_add(lw, &lw->in[n->id], g);
    for (int r = 1; r < g->nresults && lw->fuse; r++)
        take_casts(lw, g, &g->results[r]);
    if (lw->fuse && take_epilogue(lw, g) && ir_op_info(n->op)->kind == IR_K_CONTRACT)
        store_views(lw, n, g);
    if (lw->fuse)
        store_into_piece(lw, g);
    for (int r = 0; r < g->nresults; r++)
        if (!g->results[r].into)
            lw->materialised[g->results[r].value->id] = true;
    lw_launch_at(lw, g->root, g);
}
