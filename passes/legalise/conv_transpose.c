/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lower_conv_transpose: transposed convolutions, and so the gradients of convolutions by their data, become
 * convolutions.
 *
 * Position p of the result, P = p + before, gets x[i] w[t] where P = i * stride + t * dilation. With stride 1 that is
 * the convolution of x with the flipped taps. With a larger stride s and no dilation, positions with P = s * Q + r are
 * reached only by taps t = r + s * j, from i = Q - j: a convolution with stride 1 for each residue r, whose results are
 * interleaved (Shi et al., "Is the deconvolution layer the same as a convolutional layer?", arXiv 1609.07009). No
 * product with an inserted zero is computed. Sums are the same, in another order (bounded). Where channels are few and
 * residues read the same elements, one convolution has them all as channels, which are moved apart behind it.
 *
 * Along one axis with a stride of more residues than that, as where frames of a spectrum become a signal: a product of
 * matrices gives what each x[i] adds to all positions that it reaches, and these frames are cut in pieces as long as
 * the stride, laid side by side and added (overlap-add).
 */
#include "passes/rewrite_int.h"
#include "base/mutant.h"

bool pass_lower_conv_transpose_run(struct pass_run *r);

enum { MOST_PIECES = 16 };

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
    return ir_slice(t->b, v, starts, sizes, steps);
}

/* The convolution with stride 1 that starts `before` elements before x and has `out` positions: none, maybe, of
 * nothing. */
static struct ir_value *convolve(const struct transposed *t, struct ir_value *w, const int64_t *n,
                                 const int64_t *before, const ir_expr *out)
{
    struct ir_ctx *ctx = t->b->ctx;
    struct ir_value *in[2] = {t->x, w};
    ir_expr first[TCC_MAX_RANK], after[TCC_MAX_RANK];
    int64_t ones[TCC_MAX_RANK];
    struct ir_attr mode = {0};
    for (int i = 0; i < t->rank; i++) {
        ones[i] = 1;
        if (out[i]->lo < 1)
            mode = ir_attr_s(IR_ATTR_mode, "empty");
        first[i] = ir_const(ctx, before[i]);
        after[i] = ir_addc(ctx, ir_sub(ctx, out[i], t->x->type->dim[i + 2]), (n[i] - 1) * t->dilations[i] - before[i]);
    }
    return ir_build1(
        t->b, IR_conv, 2, in,
        IR_ATTRS(ir_attr_ints(IR_ATTR_strides, t->rank, ones), ir_attr_ints(IR_ATTR_dilations, t->rank, t->dilations),
                 ir_attr_exprs(IR_ATTR_before, t->rank, first), ir_attr_exprs(IR_ATTR_after, t->rank, after),
                 ir_attr_i(IR_ATTR_groups, t->groups), mode));
}

/* -- Larger strides -------------------------------------------------------------------------------------
 * Result p = s * q + r, counted from `first`, is reached from i = q + shift - j by taps (r + first) mod s + s * j.
 * Counted from the first position of the result itself, no position is worked out in vain; where that would cut
 * elements of x off, positions are counted from P = 0, and those in front cut off. */

struct residues {
    const struct transposed *t;
    ir_expr q[TCC_MAX_RANK]; /* positions of a residue */
    int64_t first[TCC_MAX_RANK];
};

/* Taps of residue r along axis i, and how many elements before x their convolution starts. */
static int64_t taps_of(const struct residues *a, int i, int64_t r, int64_t *tap, int64_t *before)
{
    const struct transposed *t = a->t;
    int64_t at = r + a->first[i], s = t->strides[i], n = 0;
    *tap = at % s;
    if (*tap < t->taps[i])
        n = (t->taps[i] - *tap + s - 1) / s;
    *before = MUTANT(133, n - 1 - at / s, n - 1);
    return n;
}

static void count_from(struct residues *a, const struct transposed *t, bool result)
{
    struct ir_ctx *ctx = t->b->ctx;
    a->t = t;
    for (int i = 0; i < t->rank; i++) {
        a->first[i] = result ? t->before[i] : 0;
        a->q[i] = ir_ceildiv(ctx, ir_addc(ctx, t->shape[i], t->before[i] - a->first[i]), ir_const(ctx, t->strides[i]));
    }
}

/* Do all residues' convolutions start and end at x or outside of it? */
static bool cuts_nothing(const struct residues *a)
{
    const struct transposed *t = a->t;
    struct ir_ctx *ctx = t->b->ctx;
    int64_t tap, before;
    for (int i = 0; i < t->rank; i++)
        for (int64_t r = 0; r < t->strides[i]; r++) {
            int64_t n = taps_of(a, i, r, &tap, &before);
            if (n && (before < 0 ||
                      ir_expr_le(ctx, t->x->type->dim[i + 2], ir_addc(ctx, a->q[i], n - 1 - before)) != IR_YES))
                return false;
        }
    return true;
}

/* The first tap of one residue along each axis, how many it has, and where it starts. Does any tap reach it? */
static bool window_of(const struct residues *a, int64_t number, int64_t *tap, int64_t *n, int64_t *before)
{
    bool reached = true;
    for (int i = a->t->rank - 1; i >= 0; i--) {
        n[i] = taps_of(a, i, number % a->t->strides[i], &tap[i], &before[i]);
        number /= a->t->strides[i];
        reached = reached && n[i];
    }
    return reached;
}

/* The positions of one residue: [n, o, q...], zero where no tap reaches them. */
static struct ir_value *residue(const struct residues *a, int64_t number)
{
    const struct transposed *t = a->t;
    int64_t n[TCC_MAX_RANK], before[TCC_MAX_RANK], tap[TCC_MAX_RANK];
    if (window_of(a, number, tap, n, before))
        return convolve(t, flipped_taps(t, tap, n), n, before, a->q);
    ir_expr dims[TCC_MAX_RANK] = {t->x->type->dim[0], t->weight->type->dim[0]};
    for (int i = 0; i < t->rank; i++)
        dims[i + 2] = a->q[i];
    return ir_expand_to(t->b, ir_constant_f(t->b, t->x->type->dtype, 0), t->rank + 2, dims);
}

static struct ir_value *one_by_one(const struct residues *a, int64_t count)
{
    const struct transposed *t = a->t;
    struct ir_value *pieces[MOST_PIECES];
    for (int64_t i = 0; i < count; i++)
        if (!(pieces[i] = residue(a, i)))
            return NULL;
    return ir_build1(t->b, IR_interleave, (int)count, pieces,
                     IR_ATTRS(ir_attr_ints(IR_ATTR_strides, t->rank, t->strides)));
}

/*
 * Channels so few that they fill no vector, of residues with as many taps from the same element on: one convolution
 * gives those of all residues, [n, s.., o, q..], and reads x once. Then they are moved apart (Shi et al., "Real-time
 * single image and video super-resolution using an efficient sub-pixel convolutional neural network", CVPR 2016). A
 * single channel's long sums run along a vector by themselves.
 */
static bool few_channels(struct residues *a, int64_t count)
{
    enum { FEW = 8, VECTOR = 16 };
    const struct transposed *t = a->t;
    int64_t o = ir_const_or(t->weight->type->dim[0], FEW), sum = ir_const_or(t->weight->type->dim[1], 0);
    bool aligned = true;
    for (int i = 0; i < t->rank; i++) {
        if (t->taps[i] % t->strides[i])
            return false;
        sum *= t->taps[i] / t->strides[i];
        aligned = aligned && a->first[i] % t->strides[i] == 0;
    }
    if (t->groups != 1 || o >= FEW || (o == 1 && sum > VECTOR * count) || 2 * t->rank + 2 > TCC_MAX_RANK)
        return false;
    if (!aligned)
        count_from(a, t, false);
    return true;
}

static struct ir_value *all_at_once(const struct residues *a, int64_t count)
{
    const struct transposed *t = a->t;
    struct ir_builder *b = t->b;
    int64_t n[TCC_MAX_RANK], before[TCC_MAX_RANK], tap[TCC_MAX_RANK], perm[TCC_MAX_RANK] = {0, t->rank + 1};
    ir_expr split[TCC_MAX_RANK], joined[TCC_MAX_RANK];
    struct ir_value *weights[MOST_PIECES];
    for (int64_t i = 0; i < count; i++) {
        window_of(a, i, tap, n, before);
        if (!(weights[i] = flipped_taps(t, tap, n)))
            return NULL;
    }
    split[0] = joined[0] = t->x->type->dim[0];
    split[t->rank + 1] = joined[1] = t->weight->type->dim[0];
    for (int i = 0; i < t->rank; i++) {
        split[i + 1] = ir_const(b->ctx, t->strides[i]);
        split[i + t->rank + 2] = a->q[i];
        joined[i + 2] = ir_mulc(b->ctx, a->q[i], t->strides[i]);
        perm[2 * i + 2] = i + t->rank + 2;
        perm[2 * i + 3] = i + 1;
    }
    struct ir_value *w = ir_concat(b, (int)count, weights, 0), *v = w ? convolve(t, w, n, before, a->q) : NULL;
    v = v ? ir_reshape_to(b, v, 2 * t->rank + 2, split) : NULL;
    v = v ? ir_transpose_by(b, v, perm) : NULL;
    return v ? ir_reshape_to(b, v, t->rank + 2, joined) : NULL;
}

static struct ir_value *by_residues(const struct transposed *t)
{
    struct ir_ctx *ctx = t->b->ctx;
    ir_expr starts[TCC_MAX_RANK], sizes[TCC_MAX_RANK], steps[TCC_MAX_RANK];
    struct residues a;
    int64_t n = 1;
    bool whole = true;
    count_from(&a, t, true);
    if (!cuts_nothing(&a))
        count_from(&a, t, false);
    for (int i = 0; i < t->rank; i++)
        n *= t->strides[i];
    struct ir_value *v = few_channels(&a, n) ? all_at_once(&a, n) : one_by_one(&a, n);
    for (int i = 0; v && i < t->rank + 2; i++) {
        starts[i] = ir_const(ctx, i < 2 ? 0 : t->before[i - 2] - a.first[i - 2]);
        sizes[i] = i < 2 ? v->type->dim[i] : t->shape[i - 2];
        steps[i] = ir_const(ctx, 1);
        whole = whole && ir_expr_eq(ctx, sizes[i], v->type->dim[i]) == IR_YES;
    }
    if (!v || whole)
        return v;
    return ir_slice(t->b, v, starts, sizes, steps);
}

/* -- Frames ------------------------------------------------------------------------------------------------- */

/* Pieces of a frame; along one axis, without groups or dilation, where the result ends within the frames. */
static int64_t frame_pieces(const struct transposed *t)
{
    struct ir_ctx *ctx = t->b->ctx;
    int64_t n = (t->taps[0] + t->strides[0] - 1) / t->strides[0];
    if (t->rank != 1 || t->groups != 1 || t->dilations[0] != 1 || n > MOST_PIECES)
        return 0;
    ir_expr reach = ir_mulc(ctx, ir_addc(ctx, t->x->type->dim[2], n - 1), t->strides[0]);
    return ir_expr_le(ctx, ir_addc(ctx, t->shape[0], t->before[0]), reach) == IR_YES ? n : 0;
}

static struct ir_value *by_frames(const struct transposed *t)
{
    static const int64_t turn[3] = {0, 2, 1}, order[4] = {0, 2, 1, 3};
    struct ir_builder *b = t->b;
    struct ir_ctx *ctx = b->ctx;
    int64_t pieces = frame_pieces(t), s = t->strides[0];
    ir_type w = t->weight->type, x = t->x->type; /* [o, c, taps], [n, c, i] */
    ir_expr o = w->dim[0], count = x->dim[2], all = ir_addc(ctx, count, pieces - 1);
    struct ir_value *in[2] = {ir_transpose_by(b, t->x, turn), NULL}, *sum = NULL;
    static const int64_t columns[3] = {1, 0, 2};
    in[1] = ir_pad_axis(b, ir_transpose_by(b, t->weight, columns), NULL, 2, ir_const(ctx, 0),
                        ir_const(ctx, pieces * s - t->taps[0]));
    if (!in[0] || !in[1])
        return NULL;
    in[1] = ir_reshape_to(b, in[1], 2, (ir_expr[]){w->dim[1], ir_mulc(ctx, o, pieces * s)});
    struct ir_value *frames =
        ir_build1(b, IR_matmul, 2, in, IR_ATTRS(ir_attr_dtype(IR_ATTR_to, (enum tcc_dtype)x->dtype)));
    if (!frames)
        return NULL;
    frames = ir_reshape_to(b, frames, 5, (ir_expr[]){x->dim[0], count, o, ir_const(ctx, pieces), ir_const(ctx, s)});
    for (int64_t k = 0; k < pieces; k++) {
        struct ir_value *piece = ir_slice_axis(b, frames, 3, ir_const(b->ctx, k), ir_const(ctx, 1));
        if (!piece)
            return NULL;
        piece = ir_reshape_to(b, piece, 4, (ir_expr[]){x->dim[0], count, o, ir_const(ctx, s)});
        piece = ir_pad_axis(b, piece, NULL, 1, ir_const(ctx, k), ir_const(ctx, pieces - 1 - k));
        sum = sum && piece ? ir_binary(b, IR_add, sum, piece) : piece;
        if (!sum)
            return NULL;
    }
    sum = ir_transpose_by(b, sum, order);
    return ir_slice_axis(b, ir_reshape_to(b, sum, 3, (ir_expr[]){x->dim[0], o, ir_mulc(ctx, all, s)}), 2,
                         ir_const(b->ctx, t->before[0]), t->shape[0]);
}

/* -- What can be rewritten ----------------------------------------------------------------------------------- */

static struct ir_value *by_flipping(const struct transposed *t)
{
    int64_t first[TCC_MAX_RANK] = {0}, before[TCC_MAX_RANK];
    for (int i = 0; i < t->rank; i++)
        before[i] = (t->taps[i] - 1) * MUTANT(134, t->dilations[i], 1) - t->before[i];
    return convolve(t, flipped_taps(t, first, t->taps), t->taps, before, t->shape);
}

enum way { NO_WAY, FLIPPED, RESIDUES, FRAMES };

/* Reads the node's attributes. A way there is if padding is constant and no position of x is cut off. */
static enum way read_attributes(struct transposed *t, const struct ir_node *n)
{
    struct ir_ctx *ctx = t->b->ctx;
    const struct ir_attr *strides = ir_attr(n, IR_ATTR_strides), *dilations = ir_attr(n, IR_ATTR_dilations),
                         *before = ir_attr(n, IR_ATTR_before);
    ir_type w = n->in[1].value->type;
    bool unit = true, wide = false;
    int64_t pieces = 1;
    for (int i = 0; i < t->rank; i++) {
        t->strides[i] = strides ? strides->ints[i] : 1;
        t->dilations[i] = dilations ? dilations->ints[i] : 1;
        t->before[i] = before ? ir_const_or(before->exprs[i], -1) : 0;
        unit = unit && t->strides[i] == 1;
        wide = wide || t->strides[i] > 8;
        if (!ir_is_const(w->dim[i + 2], &t->taps[i]) || t->before[i] < 0)
            return NO_WAY;
        pieces *= wide ? 1 : t->strides[i];
    }
    if (wide || pieces > MOST_PIECES)
        return frame_pieces(t) ? FRAMES : NO_WAY;
    for (int i = 0; i < t->rank; i++) {
        int64_t reach = (t->taps[i] - 1) * t->dilations[i];
        ir_expr in = t->x->type->dim[i + 2];
        ir_expr end = ir_addc(ctx, t->shape[i], t->before[i]); /* of P */
        if (unit ? t->before[i] > reach || ir_expr_le(ctx, in, end) != IR_YES
                 : t->dilations[i] > 1 ||
                       ir_expr_le(ctx, in, ir_ceildiv(ctx, end, ir_const(ctx, t->strides[i]))) != IR_YES)
            return NO_WAY;
    }
    return unit ? FLIPPED : RESIDUES;
}

static struct ir_value *lower_conv_transpose(struct rewrite *w, struct ir_node *n)
{
    struct transposed t = {.b = &w->b, .x = n->in[0].value, .groups = ir_get_i(n, IR_ATTR_groups, 1)};
    enum way way;
    t.rank = t.x->type->rank - 2;
    t.shape = ir_attr(n, IR_ATTR_shape)->exprs;
    if (t.rank + 3 > TCC_MAX_RANK || !tcc_is_float(t.x->type->dtype) ||
        !ir_is_const(n->in[1].value->type->dim[0], NULL) || !ir_is_const(n->in[1].value->type->dim[1], NULL) ||
        (way = read_attributes(&t, n)) == NO_WAY || !rewrite_go(w))
        return NULL;
    t.weight = swap_channels(t.b, n->in[1].value, t.groups);
    struct ir_value *v = !t.weight        ? NULL
                         : way == FLIPPED ? by_flipping(&t)
                         : way == FRAMES  ? by_frames(&t)
                                          : by_residues(&t);
    struct ir_value *bias = n->nin > 2 ? n->in[2].value : NULL;
    if (!v || !bias)
        return v;
    ir_expr dims[TCC_MAX_RANK] = {ir_const(t.b->ctx, 1), v->type->dim[1]};
    for (int i = 0; i < t.rank; i++)
        dims[i + 2] = dims[0];
    return ir_binary(t.b, IR_add, v, ir_reshape_to(t.b, bias, t.rank + 2, dims));
}

/* -- What follows -------------------------------------------------------------------------------------------------
 * An elementwise node whose other operands are the same for all positions is applied to the pieces instead, where it
 * joins the convolution's kernel. */

static bool same_everywhere(const struct ir_value *v, int rank, int axes)
{
    for (int i = 0; i < v->type->rank; i++)
        if (rank - v->type->rank + i >= rank - axes && !ir_is_value(v->type->dim[i], 1))
            return false;
    return true;
}

static bool follows(const struct ir_node *n, const struct ir_node *woven, int axes)
{
    const struct ir_value *v = woven->out[0];
    if (ir_op_info(n->op)->kind != IR_K_MAP || n->nout != 1 || n->nin > 8 || woven->nin > MOST_PIECES ||
        !ir_has_one_use(v) || n->out[0]->type->rank != v->type->rank || n->block != woven->block)
        return false;
    for (int d = 0; d < v->type->rank; d++)
        if (n->out[0]->type->dim[d] != v->type->dim[d])
            return false;
    for (int i = 0; i < n->nin; i++)
        if (!n->in[i].value || !ir_is_tensor(n->in[i].value->type) ||
            (n->in[i].value != v && !same_everywhere(n->in[i].value, v->type->rank, axes)))
            return false;
    return true;
}

/* Applies n to the operands of the interleave that it reads, in front of n; n is left without uses. */
static bool sink(struct pass_run *r, struct ir_func *f, struct ir_node *n, const struct ir_node *woven)
{
    struct ir_builder b = {pass_ctx(r), f, n->block, n, n->where};
    struct ir_value *pieces[MOST_PIECES], *in[8];
    const struct ir_attr *strides = ir_attr(woven, IR_ATTR_strides);
    struct ir_attr *attrs = IR_NEWN(b.ctx, n->nattrs + 1, struct ir_attr); /* ends with zeros */
    for (int i = 0; i < n->nattrs; i++)
        attrs[i] = n->attrs[i];
    for (int i = 0; i < woven->nin; i++) {
        for (int k = 0; k < n->nin; k++)
            in[k] = n->in[k].value == woven->out[0] ? woven->in[i].value : n->in[k].value;
        if (!(pieces[i] = ir_build1(&b, n->op, n->nin, in, attrs)))
            return false;
    }
    struct ir_value *v = ir_build1(&b, IR_interleave, woven->nin, pieces,
                                   IR_ATTRS(ir_attr_ints(IR_ATTR_strides, strides->n, strides->ints)));
    if (v)
        ir_replace_uses(n->out[0], v);
    return v != NULL;
}

static bool sink_block(struct pass_run *r, struct ir_func *f, struct ir_block *block)
{
    for (struct ir_node *n = block->first, *next; n; n = next) {
        next = n->next;
        for (int i = 0; i < n->nregions; i++)
            if (!sink_block(r, f, n->regions[i]))
                return false;
        for (int i = 0; i < n->nin; i++) {
            struct ir_node *woven = n->in[i].value ? n->in[i].value->def : NULL;
            if (!woven || woven->op != IR_interleave || !follows(n, woven, ir_attr(woven, IR_ATTR_strides)->n) ||
                !pass_changed(r))
                continue;
            if (!sink(r, f, n, woven))
                return false;
            next = n->next;
            ir_remove(n);
            break;
        }
    }
    return true;
}

RULES(conv_transpose, false, RULE(conv_transpose, lower_conv_transpose));

bool pass_lower_conv_transpose_run(struct pass_run *r)
{
    rewrite_module(r, &conv_transpose);
    for (struct ir_func *f = pass_module(r)->funcs; f; f = f->next)
        if (!sink_block(r, f, f->body))
            return false;
    return true;
}
