/* SPDX-License-Identifier: Apache-2.0 */
/* state_int.h - between the files of the pass `state`. */
#ifndef TCC_PASSES_OPT_STATE_INT_H
#define TCC_PASSES_OPT_STATE_INT_H

#include "passes/pass.h"

/*
 * Where `out` stacks, along another axis than `axis`, what is appended to each part of input `in` by itself (keys and
 * values of a layer in one tensor): appends to `in` as a whole instead, makes the parts of that what was stacked, and
 * gives it. `out` where it is nothing such.
 */
struct ir_value *pass_unstack(struct ir_func *f, struct ir_value *in, struct ir_value *out, int axis);

#endif
