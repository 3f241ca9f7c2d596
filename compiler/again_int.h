/* SPDX-License-Identifier: Apache-2.0 */
/* Private to compiler/: the command that goes on from a reproducer, but for the file (again.c). */
#ifndef TCCC_AGAIN_INT_H
#define TCCC_AGAIN_INT_H

struct ir_ctx;
struct tccc_options;
const char *again_command(struct ir_ctx *ctx, const struct tccc_options *o);
/* From the model as it was read to a training step. What is in the module by then is left out. */
const char *again_training(struct ir_ctx *ctx, const struct tccc_options *o);

#endif
