/* SPDX-License-Identifier: Apache-2.0 */
/*
 * infer_int.h - what the type inference hooks share: infer_*.c, and of moves interp/move.c and gather.c. A hook sets
 * its node's output types or diagnoses.
 */
#ifndef TCC_INFER_INT_H
#define TCC_INFER_INT_H

#include "ir/ir_int.h"

#define INFER(name) bool infer_##name(struct ir_ctx *ctx, struct ir_node *n)

/* Reports "OP: message" at the node; returns false. */
bool infer_fail(struct ir_ctx *ctx, const struct ir_node *n, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Sets output k; fails on a rank that is too big or a dim that is negative. */
bool infer_set(struct ir_ctx *ctx, struct ir_node *n, int k, enum tcc_dtype dtype, int rank, const ir_expr *dims);
bool infer_set_type(struct ir_ctx *ctx, struct ir_node *n, int k, ir_type t);
/* Type of operand i, which must be a ranked tensor of numbers or bools; NULL after a diagnostic. */
ir_type infer_tensor(struct ir_ctx *ctx, struct ir_node *n, int i);
/* Attributes that must be there, with a list's length (-1: any). NULL or false after a diagnostic. */
const struct ir_attr *infer_list(struct ir_ctx *ctx, struct ir_node *n, enum ir_attr_key key, int length);
bool infer_axis(struct ir_ctx *ctx, struct ir_node *n, int rank, int64_t *axis);
bool infer_dtype(struct ir_ctx *ctx, struct ir_node *n, enum tcc_dtype *out); /* attribute `to` */
bool infer_same_dtype(struct ir_ctx *ctx, struct ir_node *n, int i, int j);
/* of a product: one type, or i8 and u8 with a type `to` */
bool infer_factors(struct ir_ctx *ctx, struct ir_node *n);
bool infer_int_index(struct ir_ctx *ctx, struct ir_node *n, int i, ir_type *t); /* i32 or i64 operand */
/* One dim out of two that must be equal: the constant one, else the first in structural order. NULL: provably
 * different. */
ir_expr infer_merge(struct ir_ctx *ctx, ir_expr a, ir_expr b);
/* Sizes that an attribute gives are no less than 0: noted where that is not certain. False after a diagnostic. */
bool infer_sizes_fit(struct ir_ctx *ctx, struct ir_node *n, int rank, const ir_expr *dims);
/* Notes that the node is right only where a <= b (ir_assumptions); the sentence says what is wrong where it isn't
 * (struct ir_fact). False after a diagnostic: it holds for no sizes. Sizes that must agree: ir_assume(). */
bool infer_assume_le(struct ir_ctx *ctx, struct ir_node *n, ir_expr a, ir_expr b, const char *what, ...)
    __attribute__((format(printf, 5, 6)));
/* Does it hold for all sizes? Asked only while facts are looked for (ir_assumptions): false otherwise. */
bool ir_fact_known(struct ir_ctx *ctx, enum ir_relation relation, ir_expr a, ir_expr b);
/* NumPy broadcasting of two dim lists, aligned at the end. Returns the rank, -1 when they don't fit. `out` may be `a`.
 */
int infer_broadcast(struct ir_ctx *ctx, int ra, const ir_expr *a, int rb, const ir_expr *b, ir_expr *out);

#endif
