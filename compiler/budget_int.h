/* SPDX-License-Identifier: Apache-2.0 */
/* Private to compiler/: the memory of a training step. */
#ifndef TCCC_BUDGET_INT_H
#define TCCC_BUDGET_INT_H

#include "passes/pass.h"

/*
 * Before lowering: chooses what @step (and @grad alike) computes again so that its memory, state included, takes at most `budget` bytes
 * (0: no bound), and says the exact peak in a note. `report` (may be NULL): a line a value that the backward pass reads. False after
 * a diagnostic: nothing fits, or sizes are unknown.
 */
bool budget_fit(struct ir_ctx *ctx, struct ir_module *m, const struct pass_options *p, uint64_t budget, FILE *report);
/* After lowering: a line a buffer of the arena, and whether it takes the memory of earlier ones. */
void budget_report(const struct kn_program *p, FILE *out);

#endif
