/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention.h - what stands between attention's products, and its gradients by kernels of their own, for all that build
 * them: the gradient pass, legalisation, ring attention, and the front end whose models hold the backward op.
 * interp/attention.c has the formulas.
 */
#ifndef TCC_PASSES_ATTENTION_H
#define TCC_PASSES_ATTENTION_H

#include "ir/ir.h"

/* q k' scale + mask, -inf where later keys are hidden, in type `to`. Any number of dims in front of [s, d] and [t, d],
 * to which the mask broadcasts (NULL: none). */
struct ir_value *attention_scores(struct ir_builder *b, struct ir_value *q, struct ir_value *k, struct ir_value *mask,
                                  double scale, bool causal, enum tcc_dtype to);
/* The scores' softmax. Rows that hold -inf only give 0 if the sum is at least `least`; 0: they give NaN. */
struct ir_value *attention_softmax(struct ir_builder *b, struct ir_value *scores, double least);
/* The same by the logarithms of the rows' sums of exp(score), [.., s, 1]. */
struct ir_value *attention_weights(struct ir_builder *b, struct ir_value *scores, struct ir_value *lse);
/* The gradient by the scores, from that by the weights, dp; delta, [.., s, 1]: the rows' sums of dp p. */
struct ir_value *attention_by_scores(struct ir_builder *b, struct ir_value *p, struct ir_value *dp,
                                     struct ir_value *delta);
/* [.., s] -> [.., s, 1] */
struct ir_value *attention_column(struct ir_builder *b, struct ir_value *x);

/*
 * Rows that an added mask hides wholly by large finite numbers, as lse says, which then holds nothing of a sum: bool as
 * lse. And how many keys have the largest number that `mask` (any rank up to 4, broadcast) gives to one of their row,
 * 0: all are -inf; [b, h, s], any of them 1.
 */
struct ir_value *attention_hidden(struct ir_builder *b, struct ir_value *lse);
struct ir_value *attention_ties(struct ir_builder *b, struct ir_value *mask, ir_expr queries, ir_expr keys, bool causal,
                                const struct ir_value *lse);

/* The gradients by q, k and v that are wanted, by the kernels that make them from the result y, its gradient dy (in q's
 * type) and the rows' logarithms. Keys that heads share get the sum over these. False after a message. */
struct attention_parts { struct ir_value *q, *k, *v, *mask, *y, *dy, *lse; double scale; bool causal; };
bool attention_gradients(struct ir_builder *b, const struct attention_parts *a, const bool *wanted,
                         struct ir_value **out);

#endif
