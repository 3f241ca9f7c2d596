/* SPDX-License-Identifier: Apache-2.0 */
/* plan_int.h - what the parts of the plan's verifier tell each other. */
#ifndef TCC_PLAN_INT_H
#define TCC_PLAN_INT_H

#include "ir/ir.h"

struct kn_life { int first, last; };     /* positions of an entry point's steps; first < 0: never accessed */

/* overlap.c: what is wrong with where an entry point's buffers lie, which live so long (by buffer that is no alias), or
 * NULL. */
const char *kn_memory_error(const struct kn_program *p, const struct kn_entry *e, const struct kn_life *life);

#endif
