/* SPDX-License-Identifier: Apache-2.0 */
/*
 * untranspose: transposed convolutions, and so the gradients of convolutions by their data, become convolutions.
 *
 * Position p of the result, P = p + before, gets x[i] w[t] where P = i * stride + t * dilation. With stride 1 that is the
 * convolution of x with the flipped taps. With a larger stride s and no dilation, positions with P = s * Q + r are reached
 * only by taps t = r + s * j, from i = Q - j: a convolution with stride 1 for each residue r, whose results are interleaved
 * (Shi et al., "Is the deconvolution layer the same as a convolutional layer?", arXiv 1609.07009). No product with an
 * inserted zero is computed. Sums are the same, in another order (bounded).
 */
#include "passes/rewrite_int.h"

bool pass_untranspose_run(struct pass_run *r);

struct transposed {
    struct ir_builder *b;
    struct ir_value *x, *weight; /* weight: [o, c/groups, taps...], as conv wants it, not yet flipped */
    int rank;                    /* spatial */
    int64_t groups, strides[TCC_MAX_RANK], dilations[TCC_MAX_RANK], before[TCC_MAX_RANK], taps[TCC_MAX_RANK];
    const ir_expr *shape;
};

/* [g * c, o, taps...] -> [g * o, c, taps...] */
static struct ir_value *swap_channels(struct ir_builder *b, struct ir_value *w, int64_t groups)
{
    ir_type t = w->type;
    ir_expr split[TCC_MAX_RANK], joined[TCC_MAX_RANK];
    int64_t perm[TCC_MAX_RANK] = {0, 2, 1};
    split[0] = ir_const(b->ctx, groups);
    split[1] = ir_floordiv(b->ctx, t->dim[0], split[0]);
    split[2] = t->dim[1];
    joined[0] = ir_mulc(b->ctx, t->dim[1], groups);
    joined[1] = split[1];
    for (int i = 2; i < t->rank; i++) {
        split[i + 1] = joined[i] = t->dim[i];
        perm[i + 1] = i + 1;
    }
    struct ir_value *v = ir_transpose_by(b, ir_reshape_to(b, w, t->rank + 1, split), perm);
    return ir_reshape_to(b, v, t->rank, joined);
}

/* Every s-th tap from r[i] on along each axis, last first. */
static struct ir_value *flipped_taps(const struct transposed *t, const int64_t *r, const int64_t *n)
{
    ir_type w = t->weight->type;
    ir_expr starts[TCC_MAX_RANK], sizes[TCC_MAX_RANK];
    ir_expr steps[TCC_MAX_RANK];
    for (int i = 0; i < 2; i++) {
        steps[i] = ir_const(t->b->ctx, 1);
        starts[i] = ir_const(t->b->ctx, 0);
        sizes[i] = w->dim[i];
    }
    for (int i = 0; i < t->rank; i++) {
        starts[i + 2] = ir_const(t->b->ctx, r[i] + t->strides[i] * (n[i] - 1));
        sizes[i + 2] = ir_const(t->b->ctx, n[i]);
        steps[i + 2] = ir_const(t->b->ctx, -t->strides[i]);
    }
    struct ir_value *v = t->weight;
    return ir_build1(t->b, IR_slice, 1, &v,
                     IR_ATTRS(ir_attr_exprs(IR_ATTR_starts, w->rank, starts),
                              ir_attr_exprs(IR_ATTR_sizes, w->rank, sizes),
                              ir_attr_exprs(IR_ATTR_steps, w->rank, steps)));
}

/* The convolution with stride 1 that starts `before` elements before x and has `out` positions. */
static struct ir_value *convolve(const struct transposed *t, struct ir_value *w, const int64_t *n,
                                 const int64_t *before, const ir_expr *out)
{
    struct ir_ctx *ctx = t->b->ctx;
    struct ir_value *in[2] = {t->x, w};
    ir_expr first[TCC_MAX_RANK], after[TCC_MAX_RANK];
    int64_t ones[TCC_MAX_RANK];
    for (int i = 0; i < t->rank; i++) {
        ones[i] = 1;
        first[i] = ir_const(ctx, before[i]);
        after[i] = ir_addc(ctx, ir_sub(ctx, out[i], t->x->type->dim[i + 2]), (n[i] - 1) * t->dilations[i] - before[i]);
    }
    return ir_build1(t->b, IR_conv, 2, in,
                     IR_ATTRS(ir_attr_ints(IR_ATTR_strides, t->rank, ones),
                              ir_attr_ints(IR_ATTR_dilations, t->rank, t->dilations),
                              ir_attr_exprs(IR_ATTR_before, t->rank, first),
                              ir_attr_exprs(IR_ATTR_after, t->rank, after), ir_attr_i(IR_ATTR_groups, t->groups)));
}

/* -- Larger strides ------------------------------------------------------------------------------------- */

/* The positions of one residue: [n, o, Q...], zero where no tap reaches them. */
static struct ir_value *residue(const struct transposed *t, const int64_t *r, const ir_expr *q)
{
    int64_t n[TCC_MAX_RANK], before[TCC_MAX_RANK];
    bool reached = true;
    for (int i = 0; i < t->rank; i++) {
        n[i] = r[i] < t->taps[i] ? (t->taps[i] - r[i] + t->strides[i] - 1) / t->strides[i] : 0;
        before[i] = n[i] - 1;
        reached = reached && n[i];
    }
    if (reached)
        return convolve(t, flipped_taps(t, r, n), n, before, q);
    ir_expr dims[TCC_MAX_RANK] = {t->x->type->dim[0], t->weight->type->dim[0]};
    for (int i = 0; i < t->rank; i++)
        dims[i + 2] = q[i];
    return ir_expand_to(t->b, ir_constant_f(t->b, t->x->type->dtype, 0), t->rank + 2, dims);
}

/* Residues of axes `axis` and on, given those of the axes before it: [n, o, Q.., 1] pieces joined along a new last axis that is
 * then joined with its Q. */
static struct ir_value *interleave(const struct transposed *t, int axis, int64_t *r, const ir_expr *q)
{
    if (axis == t->rank)
        return residue(t, r, q);
    struct ir_value *pieces[8];
    struct ir_ctx *ctx = t->b->ctx;
    ir_expr dims[TCC_MAX_RANK];
    int64_t s = t->strides[axis];
    for (r[axis] = 0; r[axis] < s; r[axis]++) {
        struct ir_value *v = interleave(t, axis + 1, r, q);
        if (!v)
            return NULL;
        for (int i = 0; i < v->type->rank; i++)
            dims[i + (i > axis + 2)] = v->type->dim[i];
        dims[axis + 3] = ir_const(ctx, 1);
        pieces[r[axis]] = s == 1 ? v : ir_reshape_to(t->b, v, t->rank + 3, dims);
    }
    if (s == 1)
        return pieces[0];
    struct ir_value *v = ir_build1(t->b, IR_concat, (int)s, pieces, IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis + 3)));
    if (!v)
        return NULL;
    for (int i = 0; i < t->rank + 2; i++)
        dims[i] = v->type->dim[i + (i > axis + 2)];
    dims[axis + 2] = ir_mulc(ctx, q[axis], s);
    return ir_reshape_to(t->b, v, t->rank + 2, dims);
}

static struct ir_value *by_residues(const struct transposed *t)
{
    struct ir_ctx *ctx = t->b->ctx;
    ir_expr q[TCC_MAX_RANK], starts[TCC_MAX_RANK], sizes[TCC_MAX_RANK];
    ir_expr steps[TCC_MAX_RANK];
    int64_t r[TCC_MAX_RANK];
    for (int i = 0; i < t->rank; i++)
        q[i] = ir_ceildiv(ctx, ir_addc(ctx, t->shape[i], t->before[i]), ir_const(ctx, t->strides[i]));
    struct ir_value *v = interleave(t, 0, r, q);
    if (!v)
        return NULL;
    for (int i = 0; i < t->rank + 2; i++) {
        starts[i] = ir_const(ctx, i < 2 ? 0 : t->before[i - 2]);
        sizes[i] = i < 2 ? v->type->dim[i] : t->shape[i - 2];
        steps[i] = ir_const(ctx, 1);
    }
    return ir_build1(t->b, IR_slice, 1, &v,
                     IR_ATTRS(ir_attr_exprs(IR_ATTR_starts, t->rank + 2, starts),
                              ir_attr_exprs(IR_ATTR_sizes, t->rank + 2, sizes),
                              ir_attr_exprs(IR_ATTR_steps, t->rank + 2, steps)));
}

/* -- What can be rewritten ----------------------------------------------------------------------------------- */

static struct ir_value *by_flipping(const struct transposed *t)
{
    int64_t first[TCC_MAX_RANK] = {0}, before[TCC_MAX_RANK];
    for (int i = 0; i < t->rank; i++)
        before[i] = (t->taps[i] - 1) * t->dilations[i] - t->before[i];
    return convolve(t, flipped_taps(t, first, t->taps), t->taps, before, t->shape);
}

/* Reads the node's attributes; true if padding is constant and no position of x is cut off. */
static bool read_attributes(struct transposed *t, const struct ir_node *n, bool *unit)
{
    struct ir_ctx *ctx = t->b->ctx;
    const struct ir_attr *strides = ir_attr(n, IR_ATTR_strides), *dilations = ir_attr(n, IR_ATTR_dilations),
                         *before = ir_attr(n, IR_ATTR_before);
    ir_type w = n->in[1].value->type;
    *unit = true;
    int64_t pieces = 1;
    for (int i = 0; i < t->rank; i++) {
        t->strides[i] = strides ? strides->ints[i] : 1;
        t->dilations[i] = dilations ? dilations->ints[i] : 1;
        t->before[i] = before ? ir_const_or(before->exprs[i], -1) : 0;
        *unit = *unit && t->strides[i] == 1;
        pieces *= t->strides[i];
        if (!ir_is_const(w->dim[i + 2], &t->taps[i]) || t->before[i] < 0 || t->strides[i] > 8)
            return false;
    }
    for (int i = 0; i < t->rank; i++) {
        int64_t reach = (t->taps[i] - 1) * t->dilations[i];
        ir_expr in = t->x->type->dim[i + 2];
        ir_expr end = ir_addc(ctx, t->shape[i], t->before[i]); /* of P */
        if (*unit ? t->before[i] > reach || ir_expr_le(ctx, in, end) != IR_YES
                  : t->dilations[i] > 1 ||
                        ir_expr_le(ctx, in, ir_ceildiv(ctx, end, ir_const(ctx, t->strides[i]))) != IR_YES)
            return false;
    }
    return pieces <= 16;
}

static struct ir_value *untranspose(struct rewrite *w, struct ir_node *n)
{
    struct transposed t = {.b = &w->b, .x = n->in[0].value, .groups = ir_get_i(n, IR_ATTR_groups, 1)};
    bool unit;
    t.rank = t.x->type->rank - 2;
    t.shape = ir_attr(n, IR_ATTR_shape)->exprs;
    if (t.rank + 3 > TCC_MAX_RANK || !tcc_is_float(t.x->type->dtype) ||
        !ir_is_const(n->in[1].value->type->dim[0], NULL) || !ir_is_const(n->in[1].value->type->dim[1], NULL) ||
        !read_attributes(&t, n, &unit) || !rewrite_go(w))
        return NULL;
    t.weight = swap_channels(t.b, n->in[1].value, t.groups);
    struct ir_value *v = !t.weight ? NULL : unit ? by_flipping(&t) : by_residues(&t);
    struct ir_value *bias = n->nin > 2 ? n->in[2].value : NULL;
    if (!v || !bias)
        return v;
    ir_expr dims[TCC_MAX_RANK] = {ir_const(t.b->ctx, 1), v->type->dim[1]};
    for (int i = 0; i < t.rank; i++)
        dims[i + 2] = dims[0];
    return ir_binary(t.b, IR_add, v, ir_reshape_to(t.b, bias, t.rank + 2, dims));
}

static const struct rewrite_rule rules[] = {{IR_conv_transpose, untranspose}};

bool pass_untranspose_run(struct pass_run *r)
{
    return rewrite_module(r, rules, (int)(sizeof rules / sizeof *rules));
}
