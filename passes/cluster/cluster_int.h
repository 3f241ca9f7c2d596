/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_int.h - between cut.c, predict.c and search.c. */
#ifndef TCC_PASSES_CLUSTER_CLUSTER_INT_H
#define TCC_PASSES_CLUSTER_CLUSTER_INT_H

#include "passes/cluster/cluster.h"

/* A model cut into partitions * chunks pieces, for any batch and cluster. */
struct plan_cut {
    int partitions, chunks;
    const struct plan_part *part;
    bool fits;                  /* there is work for all stages */
    int nsegments;
    bool *empty;                /* by segment */
    int *segment;               /* by item */
    double *order_time;         /* by segment: what the compiler takes it for when it makes the schedule */
    double *weights, *trained;  /* by stage: bytes of variables; of gradients */
    int nsends;                 /* from segment to segment, each value once a stage that wants it */
    struct plan_send { int from, to; struct plan_size forward, backward; } *sends;
    struct plan_cut *next;
};
/* Made once, then found again. */
const struct plan_cut *plan_cut(struct plan_model *m, const struct plan_part *part, int partitions, int chunks);

static inline double
plan_at(struct plan_size s, double samples)
{
    return s.fixed + s.each * samples;
}

/* plan_predict(), or with `simulate` false: no schedule is made, the pipeline's time is that which its slowest stage
 * can't go below. */
bool plan_evaluate(struct plan_model *m, const struct plan_cluster *c, const struct plan_layout *l, bool simulate,
                   struct plan_prediction *out, const char **why);

static inline void
plan_add(struct plan_size *to, struct plan_size s)
{
    to->fixed += s.fixed;
    to->each += s.each;
}

#endif
