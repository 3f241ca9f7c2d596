/* SPDX-License-Identifier: Apache-2.0 */
/*
 * anchor.c - kernels whose loop nest an op prescribes: what they share, matrix products and scatters. The anchor's
 * result, at the point that the outer dims name, is an accumulator; the group's other nodes are its epilogue, built by
 * inline.c from the root at the index that the anchor's index becomes on its way through moves.
 */
#include "passes/lower_int.h"
#include "base/mutant.h"

bool lw_is_anchor(const struct ir_node *n)
{
    enum ir_kind kind = ir_op_info(n->op)->kind;
    return kind == IR_K_CONTRACT || kind == IR_K_WINDOW || kind == IR_K_ATTENTION || kind == IR_K_SORT;
}

/* -- Epilogues --------------------------------------------------------------------------------------------- */

/* The index in n's output of the element that came from operand element idx (of type from); false: none or several. */
static bool push_index(struct kb *k, const struct ir_node *n, ir_type from, const ir_expr *idx, ir_expr *out)
{
    ir_type to = n->out[0]->type;
    if (ir_op_info(n->op)->kind == IR_K_MAP) {
        for (int i = 0; i < to->rank; i++) {
            int j = i - (to->rank - from->rank);
            if (j >= 0 ? to->dim[i] != from->dim[j] : !ir_is_value(to->dim[i], 1))
                return false;
            out[i] = j >= 0 ? idx[j] : ir_const(k->ctx, 0);
        }
        return true;
    }
    if (n->op == IR_reshape) {
        lw_reshape_index(k->ctx, from, to, idx, out);
        return true;
    }
    if (n->op == IR_transpose) {
        const struct ir_attr *perm = ir_attr(n, IR_ATTR_perm);
        for (int i = 0; i < perm->n; i++)
            out[i] = idx[perm->ints[i]];
        return true;
    }
    return false;
}

/* Follows the anchor's element to the root. */
bool lw_push_to_root(struct kb *k, const struct lw_group *g, const ir_expr *idx, ir_expr *out)
{
    struct {
        const struct ir_value *v;
        ir_expr at[TCC_MAX_RANK];
    } seen[66];
    int nseen = 1;
    seen[0].v = lw_anchored(g);
    for (int i = 0; i < seen[0].v->type->rank; i++)
        seen[0].at[i] = idx[i];
    for (struct ir_node *n = g->anchor->next; n && g->root != g->anchor && nseen < 65; n = n->next) {
        if (lw_in_group(k->lw, n, g) && n->nout == 1) {
            bool from_anchor = false;
            for (int i = 0; i < n->nin && !from_anchor; i++)
                for (int s = 0; s < nseen && !from_anchor; s++)
                    if (seen[s].v == n->in[i].value) {
                        if (!push_index(k, n, seen[s].v->type, seen[s].at, seen[nseen].at))
                            return false;
                        from_anchor = true;
                    }
            if (from_anchor)
                seen[nseen++].v = n->out[0];
        }
        if (n == g->root)
            break;
    }
    if (seen[nseen - 1].v != g->results[0].value)
        return false;
    for (int i = 0; i < g->results[0].value->type->rank; i++)
        out[i] = seen[nseen - 1].at[i];
    return true;
}

/* v, which casts make of the value that is `id`. */
static int cast_through(struct kb *k, int stage, const struct ir_value *v, int id)
{
    if (v->def->op == IR_cast)
        id = cast_through(k, stage, v->def->in[0].value, id);
    return kb_cast(k, stage, id, v->type->dtype);
}

bool lw_store_result(struct kb *k, const struct lw_group *g, int which, int stage, const ir_expr *idx, int id)
{
    const struct ir_value *v = g->anchor->out[which];
    int r = 0;
    if (v == lw_anchored(g))
        return lw_finish(k, g, stage, idx, id);
    for (int i = 0; i < which; i++)
        r += ir_has_uses(g->anchor->out[i]);
    kb_store(k, stage, g->results[r].value, idx, cast_through(k, stage, g->results[r].value, id));
    kb_stage_end(k, stage);
    return !k->failed;
}

/* The root's layout as one of the anchor's result: its axes are followed back through the transposes between them.
 * NULL: the axes don't correspond one to one. */
static kn_layout anchor_layout(struct kb *k, const struct lw_group *g)
{
    struct ir_value *v = g->anchor->out[0];
    kn_layout l = k->lw->layout[g->results[0].value->id];
    ir_expr probe[TCC_MAX_RANK], at[TCC_MAX_RANK];
    struct kn_axis axes[2 * TCC_MAX_RANK];
    if (!l || g->results[0].value == v || g->results[0].value->type->rank != v->type->rank)
        return g->results[0].value->type->rank == v->type->rank ? l : NULL;
    for (int i = 0; i < v->type->rank; i++)
        probe[i] = ir_fresh(k->ctx, "p", 0, INT64_C(1) << 40);
    if (!lw_push_to_root(k, g, probe, at))
        return l;
    for (int p = 0; p < l->naxes; p++) {
        int from = -1;
        for (int j = 0; j < v->type->rank; j++)
            if (at[l->at[p].axis] == probe[j])
                from = j;
        if (from < 0)
            return NULL;
        axes[p] = l->at[p];
        axes[p].axis = (int16_t)from;
    }
    return kn_layout_make(k->ctx, v->type->rank, l->naxes, axes);
}

/* Has the value's buffer elements that pad a dim to whole blocks? */
static bool is_padded(const struct kb *k, const struct ir_value *v)
{
    kn_layout l = k->lw->layout[v->id];
    for (int p = 0; l && p < l->naxes; p++)
        if (l->at[p].mod &&
            !ir_is_value(ir_mod(k->ctx, v->type->dim[l->at[p].axis], ir_const(k->ctx, l->at[p].mod)), 0))
            return true;
    return false;
}

bool lw_finish(struct kb *k, const struct lw_group *g, int stage, const ir_expr *idx, int acc)
{
    struct ir_value *v = lw_anchored(g);
    ir_expr at[TCC_MAX_RANK];
    acc = kb_cast(k, stage, acc, v->type->dtype);
    kb_remember(k, stage, v, idx, acc);
    if (MUTANT(404, is_padded(k, g->results[0].value), false) && !anchor_layout(k, g))
        k->failed = "padding that the anchor's dims do not reach";
    else if (!lw_push_to_root(k, g, idx, at))
        k->failed = "an epilogue that does not follow the anchor's index";
    else
        kb_store_root(k, stage, g, at);
    kb_stage_end(k, stage);
    return !k->failed;
}

void lw_outer_index(struct kb *k, const struct lw_group *g, ir_expr *idx)
{
    struct ir_value *v = g->anchor->out[0];
    kn_layout l = anchor_layout(k, g);
    ir_expr dims[TCC_MAX_RANK], physical[TCC_MAX_RANK];
    int n = kn_physical_dims(k->ctx, v->type, l, dims);
    for (int p = 0; p < n; p++) {
        int d = ir_is_value(dims[p], 1) ? -1 : kb_dim(k, dims[p], KN_OUTER);
        physical[p] = d < 0 ? ir_const(k->ctx, 0) : k->dims.at[d].var;
    }
    kb_logical_index(k, v->type, l, physical, idx);
}

/* An inner dim; of extent 1 too, so that every contraction has one. */
ir_expr lw_inner_dim(struct kb *k, ir_expr extent, uint32_t *set)
{
    int d = kb_dim(k, extent, KN_INNER);
    *set |= 1u << d;
    return k->dims.at[d].var;
}

/* Is instruction `id` 0 wherever one of the n guards in force does not hold? Loads are; constants and indices are
 * not. */
static bool zero_outside(const struct kb *k, int id, int n)
{
    const struct kn_insn *insn = &k->insns.at[id].insn;
    if (insn->code == KN_LOAD)
        return insn->nguards >= n;
    if (insn->code == KN_CONST)
        return insn->fvalue == 0 && insn->ivalue == 0;
    if (insn->code != KN_SCALAR)
        return false;
    if (insn->op == IR_cast)
        return zero_outside(k, insn->arg[0], n);
    return insn->op == IR_select && zero_outside(k, insn->arg[1], n) && zero_outside(k, insn->arg[2], n);
}

int lw_operand(struct kb *k, int stage, struct ir_value *v, const ir_expr *idx, enum tcc_dtype acc)
{
    __typeof__(*k->guard_sets.at) guards = k->guard_sets.at[k->guards];
    k->operand_only = true;
    int id = kb_value(k, stage, v, idx);
    id = kb_cast(k, stage, id, acc);
    k->operand_only = false;
    if (!guards.n || k->failed || zero_outside(k, id, guards.n))
        return id;
    int args[3] = {kb_inside(k, stage, guards.n, guards.at), id, kb_const(k, stage, acc, 0, 0)};
    return kb_scalar(k, stage, IR_select, acc, 3, args);
}

int lw_reduce(struct kb *k, int stage, enum kn_reducer r, enum tcc_dtype dtype, int id)
{
    struct kn_insn insn = {.code = KN_REDUCE, .dtype = dtype, .reducer = r, .nargs = 1, .arg = {id, -1, -1}};
    return kb_insn(k, stage, insn);
}

/* -- Contractions -------------------------------------------------------------------------------------------- */

static void batch_index(struct kb *k, ir_type operand, ir_type result, const ir_expr *idx, ir_expr *at)
{
    int r = operand->rank - 2, shift = result->rank - operand->rank;
    for (int i = 0; i < r; i++)
        at[i] = ir_is_value(operand->dim[i], 1) ? ir_const(k->ctx, 0) : idx[i + shift];
}

/* The points of a product's sum. Of MX formats, four neighbours are a dim of their own: what one element of them
 * holds. */
static ir_expr summed(struct kb *k, const struct ir_node *n, ir_expr extent, uint32_t *inner)
{
    enum { PACKED = 4 };
    if (!ir_attr(n, IR_ATTR_mx))
        return lw_inner_dim(k, extent, inner);
    ir_expr four = ir_const(k->ctx, PACKED), outer = lw_inner_dim(k, ir_floordiv(k->ctx, extent, four), inner);
    return ir_add(k->ctx, ir_mul(k->ctx, outer, four), lw_inner_dim(k, four, inner));
}

static bool build_matmul(struct kb *k, struct lw_group *g)
{
    const struct ir_node *n = g->anchor;
    struct ir_value *a = n->in[0].value, *b = n->in[1].value, *v = n->out[0];
    bool ta = ir_get_i(n, IR_ATTR_trans_a, 0), tb = ir_get_i(n, IR_ATTR_trans_b, 0);
    int r = v->type->rank, ra = a->type->rank, rb = b->type->rank;
    enum tcc_dtype acc = kb_acc_dtype(v->type->dtype);
    ir_expr idx[TCC_MAX_RANK], at[TCC_MAX_RANK];
    uint32_t inner = 0;
    lw_outer_index(k, g, idx);
    ir_expr kk = summed(k, n, a->type->dim[ta ? ra - 2 : ra - 1], &inner);
    int stage = kb_stage_new(k, inner);
    batch_index(k, a->type, v->type, idx, at);
    at[ra - 2] = ta ? kk : idx[r - 2];
    at[ra - 1] = ta ? idx[r - 2] : kk;
    int args[2];
    args[0] = lw_operand(k, stage, a, at, acc);
    batch_index(k, b->type, v->type, idx, at);
    at[rb - 2] = tb ? idx[r - 1] : kk;
    at[rb - 1] = tb ? kk : idx[r - 1];
    args[1] = lw_operand(k, stage, b, at, acc);
    int id = lw_reduce(k, stage, KN_SUM, acc, kb_scalar(k, stage, IR_mul, acc, 2, args));
    kb_stage_end(k, stage);
    return lw_finish(k, g, kb_stage_new(k, 0), idx, id);
}

bool lw_build_anchor(struct kb *k, struct lw_group *g)
{
    switch (g->anchor->op) {
    case IR_matmul: return build_matmul(k, g);
    case IR_winograd: return lw_build_winograd(k, g);
    case IR_attention:
    case IR_attention_lse:
    case IR_attention_grad_q:
    case IR_attention_grad_vk: return lw_build_attention(k, g);
    case IR_sort: return lw_build_sort(k, g);
    default: return lw_build_window(k, g);
    }
}

/* -- Scatters ------------------------------------------------------------------------------------------------ */

/* Elements of a row that one thread scatters where each has its own index. */
#define ROW 256

/* The dims of a scatter, those of the owners first, and the index of an update: of axes in front of `by` (nd), or of
 * that axis, each point names where it goes. Returns the inner ones. */
static uint32_t scatter_dims(struct kb *k, ir_type updates, bool nd, int by, ir_expr *u)
{
    uint32_t inner = 0;
    int rows = nd || by == updates->rank - 1 ? -1 : updates->rank - 1;
    for (int i = 0; i < updates->rank; i++) { /* the owners' dims come first */
        if (nd ? i < by : i == by)
            continue;
        ir_expr extent = updates->dim[i];
        if (i == rows) /* each element has an index of its own there: a row is read in order */
            extent = ir_is_value(ir_mod(k->ctx, extent, ir_const(k->ctx, ROW)), 0)
                         ? ir_floordiv(k->ctx, extent, ir_const(k->ctx, ROW))
                         : ir_const(k->ctx, 1);
        int d = ir_is_value(extent, 1) ? -1 : kb_dim(k, extent, KN_OUTER);
        u[i] = d < 0 ? ir_const(k->ctx, 0) : k->dims.at[d].var;
    }
    for (int i = 0; i < updates->rank; i++) {
        ir_expr extent = updates->dim[i];
        if (nd ? i < by : i == by)
            u[i] = lw_inner_dim(k, extent, &inner);
        else if (i == rows && ir_is_const(u[i], NULL))
            u[i] = lw_inner_dim(k, extent, &inner);
        else if (i == rows)
            u[i] = ir_add(k->ctx, ir_mulc(k->ctx, u[i], ROW), lw_inner_dim(k, ir_const(k->ctx, ROW), &inner));
    }
    if (!inner)
        lw_inner_dim(k, ir_const(k->ctx, 1), &inner);
    return inner;
}

/* The second half of a scatter, after its data has been copied to the result: updates applied in row-major order, which
 * is part of the meaning (ONNX leaves equal indexes open; we say last wins). Dims of the result that no index is for
 * are outer ones: each of their points owns its elements and applies their updates in order, so that no two threads
 * write one element. */
bool lw_build_scatter(struct lw *lw, struct lw_group *g)
{
    struct kb kb, *k = &kb;
    kb_init(k, lw, g);
    const struct ir_node *n = g->root;
    struct ir_value *v = n->out[0], *index = n->in[1].value, *updates = n->in[2].value;
    bool nd = n->op == IR_scatter_nd;
    const char *mode = ir_get_s(n, IR_ATTR_mode, "none");
    ir_expr at[TCC_MAX_RANK], u[TCC_MAX_RANK], sub[TCC_MAX_RANK];
    int axis = ir_get_i(n, IR_ATTR_axis, 0), q = index->type->rank;
    uint32_t inner = scatter_dims(k, updates->type, nd, nd ? q - 1 : axis, u);
    struct kn_scatter *roles = &k->roles.scatter;
    k->roles = kn_roles_of(KN_SCATTER);
    int stage = kb_stage_new(k, inner);
    int r = v->type->rank, depth = nd ? (int)ir_const_or(index->type->dim[q - 1], 0) : 1;
    for (int i = 0; i < (nd ? q - 1 : q); i++)
        sub[i] = u[i];
    for (int d = 0; d < depth; d++) {
        if (nd)
            sub[q - 1] = ir_const(k->ctx, d);
        int id = kb_load(k, stage, index, sub), to = nd ? d : axis;
        ir_expr sym = ir_fresh(k->ctx, "g", 0, INT64_C(1) << 40);
        VEC_PUSH(k->ctx, k->locals, (__typeof__(*k->locals.at)){sym, stage});
        roles->index[d] = kb_index(k, stage, n, id, sym, v->type->dim[to]);
        at[to] = sym;
    }
    for (int i = 0; i < r; i++)
        if (nd ? i >= depth : i != axis)
            at[i] = nd ? u[q - 1 + i - depth] : u[i];
    int id = roles->update = kb_load(k, stage, updates, u);
    if (mode[0] != 'n') {
        enum tcc_dtype d = v->type->dtype, acc = kb_acc_dtype(d);
        enum ir_op op = mode[0] == 'a' ? IR_add : mode[1] == 'u' ? IR_mul : mode[1] == 'i' ? IR_min : IR_max;
        roles->load = kb_load(k, stage, v, at);
        int args[2] = {kb_cast(k, stage, roles->load, acc), kb_cast(k, stage, id, acc)};
        roles->update = args[1];
        roles->combine = kb_scalar(k, stage, op, acc, 2, args);
        id = kb_cast(k, stage, roles->combine, d);
    }
    kb_store(k, stage, v, at, id);
    roles->store = k->insns.n - 1;
    roles->result = k->insns.at[roles->store].insn.operand;
    kb_stage_end(k, stage);
    g->kernel = kb_finish(k, g);
    if (!g->kernel)
        return false;
    g->kernel->kind = IR_K_MOVE;
    lw_settle_roles(g->kernel); /* without any where each element has an index of its own */
    return true;
}
