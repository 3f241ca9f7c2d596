/* SPDX-License-Identifier: Apache-2.0 */
/*
 * group.c - fusion: which nodes of a block become one kernel.
 *
 * First every contraction and window takes its epilogue: the elementwise nodes (and reshapes, transposes) behind it
 * whose other operands come from elsewhere, up to the last point where only one value leaves. Then the remaining nodes,
 * last to first: a node all of whose users are in one group joins it if that is legal and pays (sketch.c, profit.c),
 * else it becomes the root of a new group.
 *
 * Greedy and deterministic. A value is computed twice only where the machine says that this is cheaper than to store it
 * (recompute.c). Views (index arithmetic) join every group that reads them. At -O0 each node is a group.
 */
#include "passes/lower_int.h"
#include "base/mutant.h"

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

static struct lw_group *group_new(struct lw *lw, struct ir_node *root, struct ir_value *value)
{
    struct lw_group *g = IR_NEW(lw->ctx, struct lw_group);
    g->root = root;
    g->results[0].value = value;
    g->nresults = 1;
    return g;
}

static void launch_at(struct lw *lw, struct ir_node *n, struct lw_group *g)
{
    VEC_PUSH(lw->ctx, lw->launches[n->id], g);
}

/* -- Epilogues ------------------------------------------------------------------------------------------- */

static bool is_scatter(const struct ir_node *n)
{
    return n->op == IR_scatter_elements || n->op == IR_scatter_nd;
}

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
static bool joins_pieces(const struct ir_node *n)
{
    return n->op == IR_concat || n->op == IR_interleave;
}

static struct lw_pieces *pieces_of(struct lw *lw, const struct ir_node *n)
{
    struct lw_pieces *p = &lw->pieces[n->id];
    if (!p->group)
        p->group = IR_NEWN(lw->ctx, n->nin + 1, struct lw_group *);
    return p;
}

ir_expr lw_piece_position(struct lw *lw, const struct ir_node *n, int piece)
{
    struct lw_pieces *p = pieces_of(lw, n);
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
    if (joins_pieces(n))
        pieces_of(lw, n)->group[piece] = g;
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
    if (!joins_pieces(n) || !lw_is_kernel_node(n) || lw_is_view(n) || n->block != g->root->block ||
        lw->layout[n->out[0]->id] != lw->layout[v->id] || MUTANT(352, sized_later(lw, g, n), false))
        return;
    lw_place_in(lw, g, n, use->index);
    if (lw_build(lw, g) && lw_may_change(lw))
        return;
    g->results[0].into = NULL;
    lw->pieces[n->id].group[use->index] = NULL;
}

static void form_anchor(struct lw *lw, struct ir_node *n)
{
    struct lw_group *g = group_new(lw, n, NULL);
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
    launch_at(lw, g->root, g);
}

/* -- The rest ----------------------------------------------------------------------------------------------- */

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
    return pieces_of(lw, n)->group[i] || lw_is_part(lw, n, i) || lw_is_unchanged(lw, n, i);
}

/* concat, interleave: a group for each piece that has no place in it yet. */
static void form_pieces(struct lw *lw, struct ir_node *n)
{
    for (int i = 0; i < n->nin; i++) {
        struct ir_value *v = n->in[i].value;
        bool placed = has_place(lw, n, i);
        if (!placed && !(n->op == IR_concat && ir_is_value(v->type->dim[ir_get_i(n, IR_ATTR_axis, 0)], 0))) {
            struct lw_group *g = group_new(lw, n, v);
            lw_place_in(lw, g, n, i);
            launch_at(lw, n, g);
        }
    }
    lw->materialised[n->out[0]->id] = true;
}

/* scatter: copy the data, unless they are there already, then apply the updates. */
static void form_scatter(struct lw *lw, struct ir_node *n)
{
    struct lw_group *copy = lw_updated(lw, n) ? NULL : group_new(lw, n, n->in[0].value);
    struct lw_group *updates = group_new(lw, n, n->out[0]);
    if (copy)
        lw_place_in(lw, copy, n, 0);
    updates->updates = true;
    lw_set_add(lw, &lw->in[n->id], copy ? copy : updates);
    if (copy)
        launch_at(lw, n, copy);
    launch_at(lw, n, updates);
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
    if (joins_pieces(n) && !(lw_is_view(n) && lw->fuse)) {
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
    struct lw_group *g = group_new(lw, n, v);
    lw_set_add(lw, &lw->in[n->id], g);
    launch_at(lw, n, g);
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
            form_anchor(lw, n);
    for (struct ir_node *n = block->last; n; n = n->prev)
        if (lw_is_kernel_node(n))
            form_node(lw, n);
    IR_EACH_NODE(n, block)
        if (n->op == IR_cast && is_materialised(lw, n) && lw_is_kernel_node(n))
            store_beside(lw, n);
}
