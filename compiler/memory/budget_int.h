/* SPDX-License-Identifier: Apache-2.0 */
/* Private to compiler/: the memory of a training step. */
#ifndef TCCC_BUDGET_INT_H
#define TCCC_BUDGET_INT_H

#include "compiler/target.h"
#include "passes/pass.h"

/*
 * Before lowering: chooses what @step (and @grad alike) computes again so that its memory, state included, takes at
 * most `budget` bytes (0: no bound), and says the exact peak in a note. `report` (may be NULL): a line a value that the
 * backward pass reads. False after a diagnostic: nothing fits, or sizes are unknown.
 */
bool budget_fit(struct ir_ctx *ctx, struct ir_module *m, const struct pass_options *p, uint64_t budget, FILE *report);
/*
 * The same for a step in stages, each of which is to fit by itself: m is the module as the front end made it, and stays
 * so. `passes` runs the graph passes as they will be run. *chosen: by stage, for frontend_train(); NULL: nothing is
 * recomputed. False after a diagnostic.
 */
typedef bool budget_passes(void *user, struct ir_module *m, const struct pass_options *p);
struct tccc_train;
struct train_recompute;
bool budget_fit_stages(const struct ir_module *m, const struct tccc_train *t, const struct pass_options *p,
                       budget_passes *passes,
                       void *user, struct train_recompute **chosen);
/* After lowering: a note a stage, its exact peak. Where sizes are unknown there is none, which `report` (may be NULL)
 * is told. */
void budget_tell_stages(const struct ir_module *m, const struct train_recompute *chosen, FILE *report);
/* After lowering: what the process of a stage takes at its peak while it runs the entry point, scratch apart, and the
 * scratch of a thread. False: sizes are unknown. */
bool budget_stage_bytes(const struct ir_module *m, const struct kn_staged *p, int stage, uint64_t *bytes,
                        uint64_t *scratch);
/* The bytes that a budget bounds: of the memory in which kernels run, the device's where there is one. NULL: not
 * known. */
ir_expr budget_arena(const struct kn_program *p, const struct kn_entry *e);

/* After lowering, where the number of copies is not known: what copies divide (--zero) is all this one's. Changes the
 * plan's sizes and places. */
bool budget_settle_owners(struct ir_module *m, const struct pass_options *options);

/* Bytes of the stage's slots, of those in a device's memory or of all. False: sizes are unknown. */
bool budget_slots(struct ir_ctx *ctx, const struct kn_staged *p, int stage, bool on_device, uint64_t *bytes);
/* memory_report.c, --dump-ir=memory, after lowering: what each stage's process takes, where so many copies of it divide
 * what --zero divides. False after a diagnostic: sizes are unknown. Places of buffers in arenas are those of one of the
 * copies then. */
bool figures_print(struct ir_module *m, const struct pass_options *options, int copies, FILE *out);

/* plan_report.c, --report. After lowering: the arenas of each entry point, a line a buffer of them, and whether that
 * takes the memory of earlier ones; what m expects of products of bytes; where there is a device, how many steps each
 * memory's queues run, and what of the host's computes with floats. */
void plan_report(struct ir_ctx *ctx, const struct kn_program *p, const struct pass_machine *m, FILE *out);
/* A warning of each entry point whose device leaves kernels or library calls of floats to the host, which and why;
 * strict: an error, and false. */
bool plan_host_steps(struct ir_ctx *ctx, const struct kn_program *p, const struct target *t,
                     const struct pass_machine *m, bool strict);

#endif
