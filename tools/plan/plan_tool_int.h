/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to tccc-plan.
 *
 *   tccc-plan         options, what is searched
 *   plan_report       tables, JSON, the commands that realise a layout
 *   plan_calibrate    --calibrate: this machine's figures
 *   plan_machine    --calibrate=MACHINE: a cluster of simulated GPUs
 *   plan_measure      --measure: the model's step on this machine
 *   plan_compiled     memory, of compiled plans
 */
#ifndef TCCC_TOOLS_PLAN_TOOL_INT_H
#define TCCC_TOOLS_PLAN_TOOL_INT_H

#include "passes/pass.h"
#include "tools/run/model_int.h"

#define PLAN_GUESS 64 /* symbols that are not the batch, as the partitioner guesses them */

struct tccc_train;
struct planner {
    const struct options *o;
    const struct tccc_train *train;     /* without what a layout decides */
    const char *model, *cluster_file;
    struct ir_ctx *ctx;
    struct plan_cluster cluster;
    struct plan_model *plan;
    struct plan_measure measure[2];     /* of one device, of all of a node */
    int64_t batch;                      /* 0: not given */
    int64_t top;
};

struct plan_result { struct plan_search search; struct plan_prediction *list; int n; };

/* By enum tensor_how: the letter behind a number of parts, the option of that number, and in words what is divided. */
static const struct { const char *letter; enum option_id option; const char *told; } plan_divides[] = {
    {"", OPT_tensor_parallel, ""},
    {"s", OPT_tensor_parallel, ", of the sequence too"},
    {"c", OPT_context_parallel, " of the sequence"},
    {"e", OPT_expert_parallel, " of the experts"}
};

void plan_report_text(const struct planner *p, const struct plan_result *r, int n);
void plan_report_json(const struct planner *p, const struct plan_result *r, int n);
/* For Slurm's sbatch: the last one's best. */
void plan_report_sbatch(const struct planner *p, const struct plan_result *r, int n);

int plan_calibrate(const struct options *o);
/* Servers of that simulated machine, as many as so many ranks need (0: one). False: there is none. */
bool plan_machine(const char *machine, int ranks, struct plan_cluster *c);
/* Fills in p->measure, for batches near `batch`; where the device is simulated, what so many ranks may divide tensors
 * into too. */
int plan_measure_step(struct planner *p, const struct plan_search *wanted, int ranks, int64_t batch);

/* Compiles the layout to its plan, whose memory takes the place of the prediction's. False: it can't be; why
 * (ERROR_SIZE) says so. */
bool plan_compiled(const struct planner *p, struct plan_prediction *q, char *why);

/* Seconds of a run, the least of several in about half a second; < 0: it failed. */
double plan_time(void *arg, bool (*run)(void *arg));

#endif
