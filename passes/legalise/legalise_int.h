/* SPDX-License-Identifier: Apache-2.0 */
/* legalise_int.h - the pieces of pass legalise. */
#ifndef TCC_PASSES_LEGALISE_LEGALISE_INT_H
#define TCC_PASSES_LEGALISE_LEGALISE_INT_H

#include "passes/pass.h"

/* attention.c: results of that ATTENTION node that the machine has no kernel for, spelled out in front of it. False
 * after a diagnostic. */
bool legalise_attention(struct pass_run *r, struct ir_builder *b, struct ir_node *n);
/* symbols.c: symbols that a run binds are bound by one node each. False after a diagnostic. */
bool legalise_symbols(struct ir_module *m);
/* Products become such of the type that the machine multiplies in (struct pass_machine's product_type). False: no
 * memory. */
bool legalise_operands(struct pass_run *r, struct ir_func *f, struct ir_block *block);

/* mx.c: what products round to MX formats, by ops of floats where the machine can't. False after a diagnostic. */
bool legalise_mx(struct pass_run *r, struct ir_func *f, struct ir_block *block);

/* topk.c: topk as nodes that have kernels. False after a diagnostic. */
bool legalise_topk(struct ir_builder *b, struct ir_node *n);

/* What a library op `resize` or `upsample` gives, of ops that have kernels; NULL: it stays. */
struct ir_value *legalise_resize(struct pass_run *r, struct ir_builder *b, const struct ir_node *n);

/* few_channels.c: what a convolution of bytes or bf16 with few channels becomes, or NULL. */
struct ir_value *legalise_few_channels(struct pass_run *r, struct ir_builder *b, struct ir_node *n);

/* padding.c: the convolution n over x with its padding written out, and `more` columns behind it, by weights w; NULL
 * after a diagnostic. */
struct ir_value *legalise_conv_padded(struct ir_builder *b, const struct ir_node *n, struct ir_value *w, int64_t more);
/* What the machine says (struct pass_machine's window). */
int64_t legalise_window(struct pass_run *r, const struct ir_node *n, enum pass_window what);
/* So where the machine wants it (PASS_WINDOW_PADDED); NULL: not, or after a diagnostic. */
struct ir_value *legalise_padding(struct pass_run *r, struct ir_builder *b, const struct ir_node *n);
/* A convolution of one tap over the points that it steps on, where the machine wants it (PASS_WINDOW_GATHERED); NULL as
 * before. */
struct ir_value *legalise_strided(struct pass_run *r, struct ir_builder *b, const struct ir_node *n);

/* winograd.c: a convolution by Winograd's algorithm, where that pays; *v NULL: it stays. False after a diagnostic. */
bool legalise_winograd(struct pass_run *r, struct ir_builder *b, const struct ir_node *n, struct ir_value **v);

/* The numbers of random_uniform or random_normal; NULL: no memory. */
struct ir_value *legalise_random(struct ir_builder *b, const struct ir_node *n);

#endif
