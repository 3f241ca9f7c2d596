/* SPDX-License-Identifier: Apache-2.0 */
/* predict_int.h - a layout whose time is predicted: what predict.c and pipeline.c share. */
#ifndef TCC_CLUSTER_PREDICT_INT_H
#define TCC_CLUSTER_PREDICT_INT_H

#include "passes/cluster/cluster_int.h"

struct sim_context {
    struct plan_model *m;
    const struct plan_cluster *c;
    const struct plan_layout *l;
    const struct plan_part *part;
    const struct plan_cut *cut;
    const struct plan_measure *measure;
    int per_node;               /* ranks of a node */
    double share;               /* devices that a rank has for itself; at least 1 where it must share one */
    double slow;                /* times slower when all ranks of a node work; 1: each has its own devices */
    struct pass_cost cost;      /* of a rank */
    double samples;             /* of a microbatch */
    double *forward, *backward; /* by segment, seconds */
    double *exchanged[2];       /* by segment, seconds of a microbatch: forward, backward */
    double *trained, *saved;    /* by segment, bytes: of gradients; of what a microbatch keeps */
    double *kept, *work;        /* by stage, bytes of a microbatch */
    double *incoming;           /* by stage: bytes of a microbatch that come from others */
    double *sent[2];            /* by stage: forward, backward; bytes of a microbatch */
    int *here;                  /* by stage: its copies on the node of the first */
};

/* busy, end: of each stage, seconds; peak: microbatches whose activations it keeps at once, at most. */
struct pipeline_result {
    double makespan;
    double *busy, *end;
    int *peak;
};

int plan_node_of(const struct sim_context *x, int copy, int stage);  /* predict.c: where that stage's copy runs */
/* pipeline.c. simulate: not by a lower bound alone; extended: some microbatches were not simulated. False: they don't
 * fit the schedule. */
bool plan_run_pipeline(const struct sim_context *x, struct ir_ctx *ctx, bool simulate, struct pipeline_result *r,
                       bool *extended);

#endif
