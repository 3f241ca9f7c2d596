/* SPDX-License-Identifier: Apache-2.0 */
/* Private to control.c and loop.c. */
#ifndef TCC_PASSES_GRAD_CONTROL_INT_H
#define TCC_PASSES_GRAD_CONTROL_INT_H

#include "passes/grad/grad_int.h"

struct grad_values { VEC(struct ir_value *) at; };

/* The active values that n's regions take from outside of n, each once. */
void grad_captures(struct grad *g, struct ir_node *n, struct grad_values *out);

#endif
