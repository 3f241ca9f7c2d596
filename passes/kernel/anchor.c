/* SPDX-License-Identifier: Apache-2.0 */
/*
 * anchor.c - kernels whose loop nest an op prescribes: contractions, windows, scatters. The anchor's result, at the
 * point that the outer dims name, is an accumulator; the group's other nodes are its epilogue, built by inline.c from
 * the root at the index that the anchor's index becomes on its way through moves.
 */
#include "passes/lower_int.h"

#include <math.h>

#include "base/mutant.h"

bool lw_is_anchor(const struct ir_node *n)
{
    enum ir_kind kind = ir_op_info(n->op)->kind;
    return kind == IR_K_CONTRACT || kind == IR_K_WINDOW || kind == IR_K_ATTENTION || kind == IR_K_SORT;
}

struct ir_value *lw_anchored(const struct lw_group *g)
{
    int i = 0;
    while (i < g->anchor->nout - 1 && !ir_has_uses(g->anchor->out[i]))
        i++;
    return g->anchor->out[i];
}

int lw_nanchored(const struct lw_group *g)
{
    int n = 0;
    for (int i = 0; g->anchor && i < g->anchor->nout; i++)
        n += ir_has_uses(g->anchor->out[i]);
    return n ? n : 1;
}

/* -- Epilogues --------------------------------------------------------------------------------------------- */

/* Index of a reshape's other side: of a `to` element, given the index of the `from` element. */
void lw_reshape_index(struct ir_ctx *ctx, ir_type from, ir_type to, const ir_expr *idx, ir_expr *out)
{
    int i = 0, j = 0, r = from->rank, q = to->rank;
    while (i < r || j < q) {
        int i0 = i, j0 = j;
        ir_expr a = i < r ? from->dim[i++] : ir_const(ctx, 1);
        ir_expr b = j < q ? to->dim[j++] : ir_const(ctx, 1);
        while (a != b && (i < r || j < q)) {
            int64_t av, bv;
            bool both = ir_is_const(a, &av) && ir_is_const(b, &bv);
            bool grow = i < r && (j >= q || (both ? av < bv : ir_is_const(a, NULL) || ir_expr_le(ctx, a, b) == IR_YES));
            if (grow)
                a = ir_mul(ctx, a, from->dim[i++]);
            else if (j < q)
                b = ir_mul(ctx, b, to->dim[j++]);
            else
                a = ir_mul(ctx, a, from->dim[i++]);
        }
        ir_expr linear = ir_const(ctx, 0);
        for (int p = i0; p < i; p++)
            linear = ir_add(ctx, ir_mul(ctx, linear, from->dim[p]), idx[p]);
        bool more = true;
        for (int p = j - 1; p >= j0; p--) {
            if (ir_is_value(to->dim[p], 1)) {
                out[p] = ir_const(ctx, 0);
                continue;
            }
            more = false;
            for (int o = j0; o < p; o++)
                more = more || !ir_is_value(to->dim[o], 1);
            out[p] = more ? ir_mod(ctx, linear, to->dim[p]) : linear;
            linear = ir_floordiv(ctx, linear, to->dim[p]);
        }
    }
}

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

bool lw_finish(struct kb *k, const struct lw_group *g, int stage, const ir_expr *idx, int acc)
{
    struct ir_value *v = lw_anchored(g);
    ir_expr at[TCC_MAX_RANK];
    acc = kb_cast(k, stage, acc, v->type->dtype);
    kb_remember(k, stage, v, idx, acc);
    if (!lw_push_to_root(k, g, idx, at))
        k->failed = "an epilogue that does not follow the anchor's index";
    else
        kb_store_root(k, stage, g, at);
    kb_stage_end(k, stage);
    return !k->failed;
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

/* Outer dims for the anchor's result. They run over physical axes where the root is stored in the anchor's shape. */
static void outer_index(struct kb *k, const struct lw_group *g, ir_expr *idx)
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

static bool build_matmul(struct kb *k, struct lw_group *g)
{
    const struct ir_node *n = g->anchor;
    struct ir_value *a = n->in[0].value, *b = n->in[1].value, *v = n->out[0];
    bool ta = ir_get_i(n, IR_ATTR_trans_a, 0), tb = ir_get_i(n, IR_ATTR_trans_b, 0);
    int r = v->type->rank, ra = a->type->rank, rb = b->type->rank;
    enum tcc_dtype acc = kb_acc_dtype(v->type->dtype);
    ir_expr idx[TCC_MAX_RANK], at[TCC_MAX_RANK];
    uint32_t inner = 0;
    outer_index(k, g, idx);
    ir_expr kk = lw_inner_dim(k, a->type->dim[ta ? ra - 2 : ra - 1], &inner);
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

/* -- Windows --------------------------------------------------------------------------------------------------- */

/* Taps: inner dims for the window's extents; at[2..] = position read, guards where it may lie outside. */
static int window(struct kb *k, const struct ir_node *n, const ir_expr *idx, const ir_expr *taps, ir_expr *at,
                  struct kn_guard *guards)
{
    ir_type x = n->in[0].value->type;
    int nguards = 0;
    for (int i = 2; i < x->rank; i++) {
        int64_t stride = ir_attr(n, IR_ATTR_strides)->ints[i - 2],
                dilation = ir_attr(n, IR_ATTR_dilations)->ints[i - 2];
        ir_expr e = ir_add(k->ctx, ir_mulc(k->ctx, idx[i], stride), ir_mulc(k->ctx, taps[i - 2], dilation));
        at[i] = ir_sub(k->ctx, e, ir_attr(n, IR_ATTR_before)->exprs[i - 2]);
        struct kn_guard g = {at[i], ir_const(k->ctx, 0), x->dim[i]};
        if (ir_expr_le(k->ctx, g.lo, g.e) != IR_YES || ir_expr_le(k->ctx, ir_addc(k->ctx, g.e, 1), g.hi) != IR_YES)
            guards[nguards++] = g;
    }
    return nguards;
}

/* Input channel of a convolution: the group's first one plus an inner dim, split in two where the data is blocked. The
 * inner lane comes last, after the taps; so the caller makes the dims: this tells the block (1: not blocked). */
static int64_t channel_block(const struct kb *k, const struct ir_value *x)
{
    kn_layout l = x ? k->lw->layout[x->id] : NULL;
    if (!l)
        return 1;
    for (int p = 0; p < l->naxes; p++)
        if (l->at[p].axis == 1 && l->at[p].mod)
            return l->at[p].mod;
    return 1;
}

/* Are channels (axis 1) what lies together in that value? */
static bool channels_last(const struct kb *k, const struct ir_value *v)
{
    kn_layout l = k->lw->layout[v->id];
    return l && l->at[l->naxes - 1].axis == 1 && !l->at[l->naxes - 1].mod;
}

/* Elements along an axis that a value's buffer holds, padding included. */
static ir_expr held(const struct kb *k, const struct ir_value *x, int axis)
{
    kn_layout l = k->lw->layout[x->id];
    ir_expr block = ir_const(k->ctx, 1);
    for (int p = 0; l && p < l->naxes; p++)
        if (l->at[p].axis == axis && l->at[p].mod)
            block = ir_mulc(k->ctx, block, l->at[p].mod);
    return ir_mul(k->ctx, ir_ceildiv(k->ctx, x->type->dim[axis], block), block);
}

/* Index i of an axis of x that may lie in the result's padding, where x holds none: the last element then. Such lanes
 * get zeros in the end (store_value). */
static ir_expr no_padding(const struct kb *k, const struct ir_value *x, int axis, ir_expr i)
{
    if (ir_expr_le(k->ctx, ir_addc(k->ctx, i, 1), held(k, x, axis)) == IR_YES)
        return i;
    return ir_min(k->ctx, i, ir_addc(k->ctx, x->type->dim[axis], -1));
}

/*
 * The first of the per_in channels of the group that channel `o` of the result belongs to. Lanes that pad the result
 * belong to none: where fewer channels than theirs are held, they read the last group's.
 */
static ir_expr first_channel(struct ir_ctx *ctx, ir_expr o, int64_t groups, ir_expr per_in, ir_expr per_out,
                             ir_expr channels)
{
    ir_expr group = ir_floordiv(ctx, o, per_out), first = ir_mul(ctx, group, per_in);
    if (groups == 1)
        return ir_const(ctx, 0);
    return ir_expr_le(ctx, ir_add(ctx, first, per_in), channels) == IR_YES
               ? first
               : ir_mul(ctx, ir_min(ctx, group, ir_const(ctx, groups - 1)), per_in);
}

static bool build_conv(struct kb *k, struct lw_group *g)
{
    const struct ir_node *n = g->anchor;
    struct ir_value *x = n->in[0].value, *w = n->in[1].value, *bias = n->nin > 2 ? n->in[2].value : NULL,
                    *v = n->out[0];
    struct ir_ctx *ctx = k->ctx;
    enum tcc_dtype acc = kb_acc_dtype(v->type->dtype);
    int64_t groups = ir_get_i(n, IR_ATTR_groups, 1), block = channel_block(k, x);
    ir_expr per_in = w->type->dim[1], per_out = ir_floordiv(ctx, w->type->dim[0], ir_const(ctx, groups));
    ir_expr idx[TCC_MAX_RANK], at[TCC_MAX_RANK], wat[TCC_MAX_RANK], taps[TCC_MAX_RANK];
    struct kn_guard guards[TCC_MAX_RANK];
    uint32_t inner = 0;
    outer_index(k, g, idx);
    ir_expr ic = ir_const(ctx, 0);
    bool depthwise = ir_is_value(per_in, 1);
    bool split = !depthwise && block > 1, after_taps = !depthwise && channels_last(k, x);
    if (split)
        ic = ir_mulc(ctx, lw_inner_dim(k, ir_ceildiv(ctx, per_in, ir_const(ctx, block)), &inner), block);
    else if (!depthwise && !after_taps)
        ic = lw_inner_dim(k, per_in, &inner);
    for (int i = 2; i < w->type->rank; i++)
        taps[i - 2] = lw_inner_dim(k, w->type->dim[i], &inner);
    if (after_taps)
        ic = lw_inner_dim(k, per_in, &inner);
    if (split) {
        /* Of one block that is not full, the channels that there are, in whole groups of bytes: the rest are zeros. */
        int64_t channels = (ir_const_or(per_in, block) + 3) / 4 * 4;
        ic = ir_add(ctx, ic, lw_inner_dim(k, ir_const(ctx, channels < block ? channels : block), &inner));
    }
    if (!inner)
        lw_inner_dim(k, ir_const(ctx, 1), &inner);
    int stage = kb_stage_new(k, inner);
    at[0] = idx[0];
    at[1] = ir_add(ctx, first_channel(ctx, idx[1], groups, per_in, per_out, held(k, x, 1)), ic);
    int nguards = window(k, n, idx, taps, at, guards), saved = kb_push_guards(k, nguards, guards), args[2];
    args[0] = lw_operand(k, stage, x, at, acc);
    k->guards = saved;
    wat[0] = no_padding(k, w, 0, idx[1]);
    wat[1] = ic;
    for (int i = 2; i < w->type->rank; i++)
        wat[i] = taps[i - 2];
    args[1] = lw_operand(k, stage, w, wat, acc);
    int id = lw_reduce(k, stage, KN_SUM, acc, kb_scalar(k, stage, IR_mul, acc, 2, args));
    kb_stage_end(k, stage);
    stage = kb_stage_new(k, 0);
    if (bias) {
        struct kn_guard inside = {idx[1], ir_const(ctx, 0), v->type->dim[1]};
        saved = kb_push_guards(k, 1, &inside);
        int sum[2] = {id, kb_cast(k, stage, kb_value(k, stage, bias, &idx[1]), acc)};
        k->guards = saved;
        id = kb_scalar(k, stage, IR_add, acc, 2, sum);
    }
    return lw_finish(k, g, stage, idx, id);
}

/* out[p] = sum over taps t and channels of x[i] w[t] where i * stride = p + before - t * dilation. */
static bool build_conv_transpose(struct kb *k, struct lw_group *g)
{
    const struct ir_node *n = g->anchor;
    struct ir_value *x = n->in[0].value, *w = n->in[1].value, *bias = n->nin > 2 ? n->in[2].value : NULL,
                    *v = n->out[0];
    struct ir_ctx *ctx = k->ctx;
    enum tcc_dtype acc = kb_acc_dtype(v->type->dtype);
    int64_t groups = ir_get_i(n, IR_ATTR_groups, 1);
    ir_expr per_in = ir_floordiv(ctx, w->type->dim[0], ir_const(ctx, groups)), per_out = w->type->dim[1],
            zero = ir_const(ctx, 0);
    ir_expr idx[TCC_MAX_RANK], at[TCC_MAX_RANK], wat[TCC_MAX_RANK];
    struct kn_guard guards[2 * TCC_MAX_RANK];
    uint32_t inner = 0;
    int nguards = 0;
    outer_index(k, g, idx);
    ir_expr ic = lw_inner_dim(k, per_in, &inner);
    at[0] = idx[0];
    at[1] = wat[0] = ir_add(ctx, first_channel(ctx, idx[1], groups, per_in, per_out, w->type->dim[0]), ic);
    wat[1] = groups == 1 ? no_padding(k, w, 1, idx[1]) : ir_mod(ctx, idx[1], per_out);
    for (int i = 2; i < w->type->rank; i++) {
        int64_t stride = ir_attr(n, IR_ATTR_strides)->ints[i - 2],
                dilation = ir_attr(n, IR_ATTR_dilations)->ints[i - 2];
        wat[i] = lw_inner_dim(k, w->type->dim[i], &inner);
        ir_expr e =
            ir_add(ctx, idx[i], ir_sub(ctx, ir_attr(n, IR_ATTR_before)->exprs[i - 2], ir_mulc(ctx, wat[i], dilation)));
        at[i] = ir_floordiv(ctx, e, ir_const(ctx, stride));
        guards[nguards++] = (struct kn_guard){at[i], zero, x->type->dim[i]};
        if (stride > 1)
            guards[nguards++] = (struct kn_guard){ir_mod(ctx, e, ir_const(ctx, stride)), zero, ir_const(ctx, 1)};
    }
    int stage = kb_stage_new(k, inner), saved = kb_push_guards(k, nguards, guards), args[2];
    args[0] = lw_operand(k, stage, x, at, acc);
    k->guards = MUTANT(332, k->guards, saved);
    args[1] = lw_operand(k, stage, w, wat, acc); /* between elements of x there is no product, of infinity neither */
    k->guards = saved;
    int id = lw_reduce(k, stage, KN_SUM, acc, kb_scalar(k, stage, IR_mul, acc, 2, args));
    kb_stage_end(k, stage);
    stage = kb_stage_new(k, 0);
    if (bias) {
        int sum[2] = {id, kb_cast(k, stage, kb_value(k, stage, bias, &idx[1]), acc)};
        id = kb_scalar(k, stage, IR_add, acc, 2, sum);
    }
    return lw_finish(k, g, stage, idx, id);
}

static int lowest(struct kb *k, int stage, enum tcc_dtype d)
{
    int bits = 8 * tcc_dtype_bytes(d);
    int64_t i = tcc_dtype_class(d) == TCC_CLASS_INT ? (bits == 64 ? INT64_MIN : -(INT64_C(1) << (bits - 1))) : 0;
    return kb_const(k, stage, d, -INFINITY, i);
}

/* Number of taps t in [0, kernel) with lo <= i * stride + t * dilation < hi, as an expression. */
static ir_expr taps_inside(struct ir_ctx *ctx, ir_expr i, int64_t kernel, int64_t stride, int64_t dilation, ir_expr lo,
                           ir_expr hi)
{
    ir_expr start = ir_mulc(ctx, i, stride), d = ir_const(ctx, dilation), zero = ir_const(ctx, 0),
            all = ir_const(ctx, kernel);
    ir_expr first = ir_max(ctx, zero, ir_ceildiv(ctx, ir_sub(ctx, lo, start), d));
    ir_expr end = ir_max(ctx, zero, ir_min(ctx, all, ir_ceildiv(ctx, ir_sub(ctx, hi, start), d)));
    return ir_max(ctx, zero, ir_sub(ctx, end, first));
}

/* How many taps along axis i of x lie inside it, or (full) inside its padding too. */
static ir_expr taps_along(struct ir_ctx *ctx, const struct ir_node *n, const ir_expr *idx, int i, bool full)
{
    ir_expr before = ir_attr(n, IR_ATTR_before)->exprs[i - 2], after = ir_attr(n, IR_ATTR_after)->exprs[i - 2];
    ir_expr lo = full ? ir_const(ctx, 0) : before, hi = ir_add(ctx, n->in[0].value->type->dim[i], before);
    return taps_inside(ctx, idx[i], ir_attr(n, IR_ATTR_kernel)->ints[i - 2], ir_attr(n, IR_ATTR_strides)->ints[i - 2],
                       ir_attr(n, IR_ATTR_dilations)->ints[i - 2], lo, full ? ir_add(ctx, hi, after) : hi);
}

static int pool_divisor(struct kb *k, int stage, const struct ir_node *n, const ir_expr *idx, enum tcc_dtype acc)
{
    bool full = ir_get_s(n, IR_ATTR_mode, "valid")[0] == 'f';
    ir_expr count = ir_const(k->ctx, 1);
    for (int i = 2; i < n->in[0].value->type->rank; i++)
        count = ir_mul(k->ctx, count, taps_along(k->ctx, n, idx, i, full));
    return kb_expr(k, stage, acc, count);
}

/* The place of the maximum; -1 where the window has no tap inside x, as padding, or a rate beyond x, allow. */
static int pool_place(struct kb *k, int stage, const struct ir_node *n, const ir_expr *idx, int id)
{
    struct ir_ctx *ctx = k->ctx;
    struct kn_guard some[TCC_MAX_RANK];
    ir_expr one = ir_const(ctx, 1);
    int nsome = 0;
    for (int i = 2; i < n->in[0].value->type->rank; i++) {
        ir_expr count = taps_along(ctx, n, idx, i, false);
        if (ir_expr_le(ctx, one, count) != IR_YES)
            some[nsome++] = (struct kn_guard){count, one, ir_addc(ctx, count, 1)};
    }
    int args[3] = {nsome ? kb_inside(k, stage, nsome, some) : -1, id, nsome ? kb_const(k, stage, TCC_I64, 0, -1) : -1};
    return nsome ? kb_scalar(k, stage, IR_select, TCC_I64, 3, args) : id;
}

/* The place in x, counted over its spatial dims, of the tap at `at`. A tap in front of x may win when all of the window
 * is the lowest number: it stands for the first tap of its axis that x has, which is its place modulo the dilation. */
static ir_expr tap_place(struct ir_ctx *ctx, const struct ir_node *n, const ir_expr *at)
{
    ir_type x = n->in[0].value->type;
    ir_expr place = ir_const(ctx, 0);
    for (int i = 2; i < x->rank; i++) {
        ir_expr first = ir_mod(ctx, at[i], ir_const(ctx, ir_attr(n, IR_ATTR_dilations)->ints[i - 2]));
        bool inside = ir_expr_le(ctx, ir_const(ctx, 0), at[i]) == IR_YES;
        place = ir_add(ctx, ir_mul(ctx, place, x->dim[i]), inside ? at[i] : ir_max(ctx, at[i], first));
    }
    return place;
}

static bool build_pool(struct kb *k, struct lw_group *g)
{
    const struct ir_node *n = g->anchor;
    struct ir_value *x = n->in[0].value;
    struct ir_ctx *ctx = k->ctx;
    bool average = n->op == IR_avg_pool, position = n->op == IR_max_pool_index;
    enum tcc_dtype d = x->type->dtype, acc = average ? kb_acc_dtype(d) : d;
    const struct ir_attr *extent = ir_attr(n, IR_ATTR_kernel);
    ir_expr idx[TCC_MAX_RANK], at[TCC_MAX_RANK], taps[TCC_MAX_RANK];
    struct kn_guard guards[TCC_MAX_RANK];
    uint32_t inner = 0;
    outer_index(k, g, idx);
    for (int i = 0; i < extent->n; i++)
        taps[i] = lw_inner_dim(k, ir_const(ctx, extent->ints[i]), &inner);
    int stage = kb_stage_new(k, inner);
    at[0] = idx[0];
    at[1] = idx[1];
    int nguards = window(k, n, idx, taps, at, guards), outside = average || !nguards ? -1 : lowest(k, stage, d);
    int saved = kb_push_guards(k, nguards, guards);
    int own = k->guard_sets.at[k->guards].n, id;
    if (average) {
        id = lw_operand(k, stage, x, at, acc);
    } else {
        k->operand_only = true;
        id = kb_value(k, stage, x, at);
        k->operand_only = false;
    }
    k->guards = saved;
    if (k->failed)
        return false;
    struct kn_insn *load = &k->insns.at[id].insn;
    if (outside >= 0 && load->code == KN_LOAD && load->nguards == own) { /* no guards of a pad: that one gives 0 */
        load->arg[0] = outside;
        load->nargs = 1;
    } else if (outside >= 0) {
        int args[3] = {kb_inside(k, stage, nguards, guards), id, outside};
        id = kb_scalar(k, stage, IR_select, d, 3, args);
    }
    if (position) {
        struct kn_insn insn = {
            .code = KN_ARGREDUCE, .dtype = TCC_I64, .reducer = KN_MAX, .nargs = 2, .arg = {id, -1, -1}};
        insn.arg[1] = kb_expr(k, stage, TCC_I64, tap_place(ctx, n, at));
        id = kb_insn(k, stage, insn);
    } else {
        id = lw_reduce(k, stage, average ? KN_SUM : KN_MAX, acc, id);
    }
    kb_stage_end(k, stage);
    stage = kb_stage_new(k, 0);
    if (average && ir_get_s(n, IR_ATTR_mode, "valid")[0] != 's') {
        int args[2] = {id, pool_divisor(k, stage, n, idx, acc)};
        id = kb_scalar(k, stage, IR_div, acc, 2, args);
    }
    if (position)
        id = pool_place(k, stage, n, idx, id);
    return lw_finish(k, g, stage, idx, id);
}

/* dw[o, c, t] = sum over n and positions p of dy[n, o, p] x[n, c of o's group, p * stride + t * dilation - before]. */
static bool build_conv_grad_weight(struct kb *k, struct lw_group *g)
{
    const struct ir_node *n = g->anchor;
    struct ir_value *x = n->in[0].value, *dy = n->in[1].value, *v = n->out[0];
    struct ir_ctx *ctx = k->ctx;
    enum tcc_dtype acc = kb_acc_dtype(v->type->dtype);
    int64_t groups = ir_get_i(n, IR_ATTR_groups, 1);
    ir_expr idx[TCC_MAX_RANK], at[TCC_MAX_RANK], pos[TCC_MAX_RANK];
    struct kn_guard guards[TCC_MAX_RANK];
    uint32_t inner = 0;
    outer_index(k, g, idx);
    at[0] = pos[0] = lw_inner_dim(k, dy->type->dim[0], &inner);
    pos[1] = no_padding(k, dy, 1, idx[0]);
    for (int i = 2; i < dy->type->rank; i++)
        pos[i] = lw_inner_dim(k, dy->type->dim[i], &inner);
    int stage = kb_stage_new(k, inner);
    ir_expr per_out = ir_floordiv(ctx, v->type->dim[0], ir_const(ctx, groups));
    at[1] = ir_add(ctx, first_channel(ctx, idx[0], groups, v->type->dim[1], per_out, held(k, x, 1)), idx[1]);
    int nguards = window(k, n, pos, idx + 2, at, guards), saved = kb_push_guards(k, nguards, guards), args[2];
    args[0] = lw_operand(k, stage, x, at, acc);
    k->guards = saved;
    args[1] = lw_operand(k, stage, dy, pos, acc);
    int id = lw_reduce(k, stage, KN_SUM, acc, kb_scalar(k, stage, IR_mul, acc, 2, args));
    kb_stage_end(k, stage);
    return lw_finish(k, g, kb_stage_new(k, 0), idx, id);
}

/*
 * dx[p] = sum of dy[i] over the windows i that hold p, for max pools those whose maximum lies at p. Along an axis these
 * are i = (p + before) div stride - j, as long as tap (p + before) - i * stride is one of the kernel's, so j runs to
 * ceil(reach / stride); with a dilation, only multiples of it are taps.
 */
static bool build_pool_grad(struct kb *k, struct lw_group *g)
{
    const struct ir_node *n = g->anchor;
    struct ir_value *dy = n->in[0].value, *index = n->op == IR_max_pool_grad ? n->in[1].value : NULL, *v = n->out[0];
    struct ir_ctx *ctx = k->ctx;
    enum tcc_dtype d = v->type->dtype, acc = kb_acc_dtype(d);
    const struct ir_attr *extent = ir_attr(n, IR_ATTR_kernel);
    ir_expr idx[TCC_MAX_RANK], at[TCC_MAX_RANK], zero = ir_const(ctx, 0), linear = zero;
    struct kn_guard guards[3 * TCC_MAX_RANK];
    uint32_t inner = 0;
    int nguards = 0;
    outer_index(k, g, idx);
    at[0] = idx[0];
    at[1] = idx[1];
    for (int i = 2; i < dy->type->rank; i++) {
        int64_t stride = ir_attr(n, IR_ATTR_strides)->ints[i - 2],
                dilation = ir_attr(n, IR_ATTR_dilations)->ints[i - 2];
        int64_t reach = (extent->ints[i - 2] - 1) * dilation + 1, windows = (reach + stride - 1) / stride;
        ir_expr e = ir_add(ctx, idx[i], ir_attr(n, IR_ATTR_before)->exprs[i - 2]);
        at[i] = ir_floordiv(ctx, e, ir_const(ctx, stride));
        if (windows > 1)
            at[i] = ir_sub(ctx, at[i], lw_inner_dim(k, ir_const(ctx, windows), &inner));
        ir_expr tap = ir_sub(ctx, e, ir_mulc(ctx, at[i], stride));
        guards[nguards++] = (struct kn_guard){at[i], zero, dy->type->dim[i]};
        if (reach % stride || reach < stride)
            guards[nguards++] = (struct kn_guard){tap, zero, ir_const(ctx, reach)};
        if (dilation > 1)
            guards[nguards++] = (struct kn_guard){ir_mod(ctx, tap, ir_const(ctx, dilation)), zero, ir_const(ctx, 1)};
        linear = ir_add(ctx, ir_mul(ctx, linear, v->type->dim[i]), idx[i]);
    }
    if (!inner)
        lw_inner_dim(k, ir_const(ctx, 1), &inner);
    int stage = kb_stage_new(k, inner), saved = kb_push_guards(k, nguards, guards);
    int id = lw_operand(k, stage, dy, at, acc);
    if (index) {
        int same[2] = {lw_operand(k, stage, index, at, TCC_I64), kb_expr(k, stage, TCC_I64, linear)};
        int args[3] = {kb_scalar(k, stage, IR_eq, TCC_BOOL, 2, same), id, kb_const(k, stage, acc, 0, 0)};
        id = kb_scalar(k, stage, IR_select, acc, 3, args);
    }
    k->guards = saved;
    id = lw_reduce(k, stage, KN_SUM, acc, id);
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
    case IR_conv: return build_conv(k, g);
    case IR_conv_transpose: return build_conv_transpose(k, g);
    case IR_max_pool:
    case IR_max_pool_index:
    case IR_avg_pool: return build_pool(k, g);
    case IR_conv_grad_weight: return build_conv_grad_weight(k, g);
    case IR_max_pool_grad:
    case IR_sum_pool_grad: return build_pool_grad(k, g);
    default: k->failed = "no loop nest for this op"; return false;
    }
}

/* -- Scatters
 * ------------------------------------------------------------------------------------------------------------ */

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
