/* SPDX-License-Identifier: Apache-2.0 */
/* window.c - kernels that slide a window over x: convolutions, pools, and the gradients of both. */
#include "passes/lower_int.h"

#include <math.h>

#include "base/mutant.h"

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

/* Floats of several blocks, of which the last is not full: their channels are one dim, whose extent says so. */
static bool part_filled(const struct ir_node *n, int64_t block)
{
    int64_t per_in = ir_const_or(n->in[1].value->type->dim[1], 0);
    return per_in > block && per_in % block && n->in[0].value->type->dtype == TCC_F32 &&
           n->in[1].value->type->dtype == TCC_F32;
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
    lw_outer_index(k, g, idx);
    ir_expr ic = ir_const(ctx, 0);
    bool depthwise = ir_is_value(per_in, 1);
    bool split = !depthwise && block > 1 && !part_filled(n, block), after_taps = !depthwise && channels_last(k, x);
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
    lw_outer_index(k, g, idx);
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
    lw_outer_index(k, g, idx);
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
    lw_outer_index(k, g, idx);
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
    lw_outer_index(k, g, idx);
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

bool lw_build_window(struct kb *k, struct lw_group *g)
{
    switch (g->anchor->op) {
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
