/* SPDX-License-Identifier: Apache-2.0 */
/* control_int.h - what op_if.c and op_loop.c share (control.c). */
#ifndef TCC_ONNX_CONTROL_INT_H
#define TCC_ONNX_CONTROL_INT_H

#include "compiler/onnx/import_int.h"

#define MAX_RESULTS 256

/* A graph of at most MAX_RESULTS inputs and outputs; NULL after a message. */
const struct onnx_graph *control_graph(struct imp *im, const char *name);
/* Opens a region for building, with names of its own; control_close() puts the builder back. */
struct ir_block *control_open(struct imp *im, struct ir_node *parent, struct imp_scope *scope,
                              struct ir_builder *saved);
void control_close(struct imp *im, const struct ir_builder *saved);
/* Did a node inside have to be refused? Then this one is too, without a message of its own. */
bool control_poisoned(struct imp *im, size_t n, struct ir_value *const *v);
/* The id from which symbols are made from now on. */
uint32_t control_mark(struct imp *im);
/* Dims of a result in the types outside its region: an expression over symbols that the region itself binds (of an id
 * from `first_inside` on) means nothing there, and becomes a size of that output of the node. */
ir_expr control_outside_dim(struct imp *im, ir_expr e, uint32_t first_inside, int output, int axis);
ir_type control_outside_type(struct imp *im, ir_type t, uint32_t first_inside, int output);
/* The type that holds both: equal dims stay, others become fresh. NULL: they have nothing in common. */
ir_type control_common_type(struct imp *im, ir_type a, ir_type b, uint32_t first_inside, int output);
/* A value as the type that another branch or iteration needs: a tensor as an object, a sequence with looser items, an
 * optional. */
struct ir_value *control_as_type(struct imp *im, struct ir_value *v, ir_type t);
/* A condition or a number of iterations, which may have any rank. */
struct ir_value *control_operand(struct imp *im, int k);

#endif
