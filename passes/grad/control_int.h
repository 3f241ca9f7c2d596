/* SPDX-License-Identifier: Apache-2.0 */
/* Private to control.c, loop.c and state.c. */
#ifndef TCC_PASSES_GRAD_CONTROL_INT_H
#define TCC_PASSES_GRAD_CONTROL_INT_H

#include "passes/grad/grad_int.h"

struct grad_values { VEC(struct ir_value *) at; };

/* The active values that n's regions take from outside of n, each once. */
void grad_captures(struct grad *g, struct ir_node *n, struct grad_values *out);

/* A copied region must not update state once more: takes out its writes and the versions that its ifs and loops hand
 * on. Nothing in it may read a version that it makes (grad_forward_state()). */
void grad_drop_writes(struct ir_block *b);

#endif
