/* SPDX-License-Identifier: Apache-2.0 */
/* legalise_int.h - the pieces of pass legalise. */
#ifndef TCC_LEGALISE_INT_H
#define TCC_LEGALISE_INT_H

#include "passes/pass.h"

/* Operands of products that the machine wants as f32 (struct pass_machine's widen) become so. False: no memory. */
bool legalise_operands(struct pass_run *r, struct ir_func *f, struct ir_block *block);

/* What a library op `resize` or `upsample` gives, of ops that have kernels; NULL: it stays. */
struct ir_value *legalise_resize(struct pass_run *r, struct ir_builder *b, const struct ir_node *n);

/* legalise_bytes.c: what a convolution of bytes with few channels becomes, or NULL. */
struct ir_value *legalise_bytes(struct pass_run *r, struct ir_builder *b, struct ir_node *n);

/* The numbers of random_uniform or random_normal; NULL: no memory. */
struct ir_value *legalise_random(struct ir_builder *b, const struct ir_node *n);

#endif
