/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grad.h - the door of the gradient pass: reverse-mode differentiation on the graph IR.
 *
 * Rules are looked up by kind and op (grad.def: one row an op; MAP ops are differentiated from their bodies in
 * ir/scalar.def, so a new word needs a row only for what is not smooth). Regions (if, loop) are differentiated by
 * building their gradient regions. What is built is ordinary graph IR: the interpreter runs it and every later pass
 * sees it.
 */
#ifndef TCC_PASSES_GRAD_GRAD_H
#define TCC_PASSES_GRAD_GRAD_H

#include "ir/ir.h"

/*
 * Builds, at b's point, d(sum over i of <ys[i], seeds[i]>) / d xs[j] for each j. seeds[i] NULL: ones. ys and xs are
 * values of b's block that stand before b's point (xs may be inputs, constants, state_reads or intermediate values;
 * nothing flows through an x to what it was computed from). grads[j] has xs[j]'s type, or is NULL where no y depends on
 * xs[j] differentiably. Values of float type only carry gradients.
 * False after diagnostics: one per op on the way that has no gradient, naming the source model's node.
 */
bool grad_build(struct ir_builder *b, int ny, struct ir_value *const *ys, struct ir_value *const *seeds, int nx,
                struct ir_value *const *xs, struct ir_value **grads);

/*
 * Where gradients of a parameter stop. Do the ys depend on x in the graph, by a gradient or without one? If so, stops:
 * the nodes on the way that pass none by definition, and why (integers, comparisons, roundings, what says stop); at
 * most `max` of them, *n are written.
 */
struct grad_stop { const struct ir_node *node; const char *why; };
bool grad_stops(struct ir_builder *b, int ny, struct ir_value *const *ys, struct ir_value *x, int max,
                struct grad_stop *stops, int *n);

/* For documents: the rows. how: how tests/train checks it ("fd": finite differences), or why nothing flows; text: what
 * the gradient is, NULL for a MAP op: see grad_text(). */
struct grad_row { enum ir_op op; bool checked; const char *how, *text; };
bool grad_table_row(int i, struct grad_row *out);        /* false: there are no more */
/* a MAP op's row: an expression, "" (nothing); NULL: no row */
const char *grad_text(enum ir_op map_op, int operand);
/* Names of the library ops that have gradients, ended by NULL. */
const char *const *grad_libs(void);

#endif
