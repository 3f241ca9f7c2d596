/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.c - the layouts that products on tensor cores want: channels last, so that the terms of a convolution lie
 * together and tiles of them come by vectors of 16 bytes, or by tensor copies. The pass `layout` puts conversions where
 * such regions begin and end; what is computed element by element, and pools, follow.
 */
#include "compiler/cuda/cuda_int.h"

enum { VECTOR = 16 }; /* bytes */

/* That axis innermost, the others in their order. */
static kn_layout last(struct ir_ctx *ctx, int rank, int axis)
{
    struct kn_axis at[TCC_MAX_RANK];
    int p = 0;
    for (int i = 0; i < rank; i++)
        if (i != axis)
            at[p++] = (struct kn_axis){(int16_t)i, 1, 0};
    at[p++] = (struct kn_axis){(int16_t)axis, 1, 0};
    return kn_layout_make(ctx, rank, p, at);
}

/* Are the value's channels a number of whole vectors of 16-bit elements, which it is or will be read as? */
static bool whole_vectors(ir_type t)
{
    int64_t n;
    return ir_is_const(t->dim[1], &n) && n % (VECTOR / 2) == 0;
}

/* Of a convolution: the result too where what is read has few channels. Weights of one whose groups are channels are
 * read by neighbours for neighbouring channels. Weights that are learned are converted in each step, with the cast to
 * 16 bits. */
static kn_layout conv_layout(struct ir_ctx *ctx, const struct ir_node *n, int operand)
{
    ir_type x = n->in[0].value->type, w = n->in[1].value->type, y = n->out[0]->type;
    if (!tcc_is_half((enum tcc_dtype)x->dtype) || x->dtype != w->dtype || x->rank < 3)
        return NULL;
    bool reads = whole_vectors(x);
    switch (operand) {
    case -1: return whole_vectors(y) ? last(ctx, y->rank, 1) : NULL;
    case 0: return reads ? last(ctx, x->rank, 1) : NULL;
    case 1:
        return reads && whole_vectors(w)            ? last(ctx, w->rank, 1)
               : reads && ir_is_value(w->dim[1], 1) ? last(ctx, w->rank, 0)
                                                    : NULL;
    default: return NULL;
    }
}

/* Of a convolution's gradient by its weights, whose terms are places: images and the result's gradients with channels
 * last, and the gradient as well, so that rows that are neighbours in it are neighbours in the image. */
static kn_layout grad_weight_layout(struct ir_ctx *ctx, const struct ir_node *n, int operand)
{
    ir_type x = n->in[0].value->type, t = operand < 0 ? x : n->in[operand].value->type;
    if (!tcc_is_half((enum tcc_dtype)t->dtype) || t->rank < 3 || ir_get_i(n, IR_ATTR_groups, 1) != 1)
        return NULL;
    return whole_vectors(t) ? last(ctx, t->rank, 1) : NULL;
}

kn_layout cuda_layout(const struct pass_machine *m, struct ir_ctx *ctx, const struct ir_node *n, int operand)
{
    (void)m;
    return n->op == IR_conv               ? conv_layout(ctx, n, operand)
           : n->op == IR_conv_grad_weight ? grad_weight_layout(ctx, n, operand)
                                          : NULL;
}
