/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster.h - planning training on many ranks without running it: what a step takes on a described cluster.
 *
 *   describe.c   the cluster's description, a small text
 *   model.c      a model as the planner sees it: what its nodes cost, hold and send
 *   events.c     pipelines and averages of gradients, by simulating events
 *   predict.c    a layout's prediction
 *   search.c     all layouts that fit, the best first
 *
 * Units: seconds, bytes, operations, and those a second. Nothing here is shared between contexts; all memory is the
 * context's.
 */
#ifndef TCC_PASSES_CLUSTER_CLUSTER_H
#define TCC_PASSES_CLUSTER_CLUSTER_H

#include "passes/parallel/partition.h"
#include "passes/parallel/stage_order.h"
#include "passes/parallel/tensor.h"
#include "passes/train/train.h"

/* -- The cluster --------------------------------------------------------------------------------------------------- */

struct plan_link {
    double latency;             /* seconds of a message */
    double bandwidth, reduce;   /* bytes a second, each way: of messages; while gradients are averaged */
    double overlap;             /* 0..1: of a message's time that costs the ranks' devices nothing */
};
/* cluster.def says what the fields mean. */
struct plan_cluster {
    int nodes, devices;
    bool divided;
    double flops, bf16_flops, bandwidth, node_bandwidth, memory, cache, cache_bandwidth, host_bandwidth, launch;
    struct plan_link local, remote;
};

/* Reads a description; `name` is the file's, for messages. False after a diagnostic that names the line. */
bool plan_cluster_read(struct ir_ctx *ctx, const char *name, const char *text, struct plan_cluster *c);
/* Writes one that reads back the same to four digits. */
void plan_cluster_write(FILE *out, const struct plan_cluster *c);

/* -- The model ----------------------------------------------------------------------------------------------------- */

/* Bytes, or operations, as a function of the samples in a batch. */
struct plan_size { double fixed, each; };

/* A node of the forward pass (struct partition_item number the same). */
struct plan_item {
    struct plan_size flops, bytes;      /* forward: operations; bytes that go to and from memory */
    struct plan_size kept;              /* of its results, what the backward pass reads: bytes */
    struct plan_size work;              /* bytes of its operands and results, with their gradients, for a moment */
    bool half;                          /* products of bf16 or fp16 */
    double backward;                    /* times the forward pass: 2 for products, else 1 */
    bool free;                          /* a view */
    double weights;                     /* bytes of the variables that it is the first to read, and of constants */
    double trained;                     /* bytes of the trained parameters that it is the first to read, as gradients */
    /* forward, backward: bytes that ranks with parts of the same tensors all-reduce, */
    struct plan_size exchanged[2];
    int exchanges[2];                   /* in so many exchanges */
};
/* What a run on this machine took against its prediction. */
struct plan_measure {
    /* forward and backward pass: measured time is compute * predicted + call, for a microbatch */
    double compute;
    double call;
    /* what a stage takes besides for each microbatch, where there are stages or microbatches */
    double task;
    double update;              /* the factor of the update */
    double owned;               /* the same with --zero, of all parameters; 0: as without */
};

/* What a rank has where tensors are divided among `parts` ranks. */
struct plan_part {
    int parts;
    enum tensor_how how;                /* what they divide */
    const char *why;                    /* it can't be; NULL: it can */
    struct plan_item *items;            /* part->n of the model */
    double trained, state;              /* bytes: gradients of the trained parameters, the optimizer's state */
    double scores;                      /* its part of what the loss reads */
    struct plan_measure *measure;       /* as the model's; NULL: that holds */
    struct plan_part *next;
};
/* A value that a cut could send: from an item to the last item that reads it. */
struct plan_value { int from; int nusers; const int *users; struct plan_size bytes; bool gradient; };

struct plan_model {
    struct ir_ctx *ctx;
    const char *name;
    struct partition *part;     /* as it was cut last */
    struct plan_cut *cuts;      /* made so far */
    struct plan_part *parts;    /* counted so far; the first: one part */
    struct counter *counter;    /* what counts others */
    int nvalues;
    struct plan_value *values;
    const char *batch;          /* the symbol that the batch is; NULL: it is a number */
    const char *const *sizes;   /* other symbols of inputs, ended by NULL */
    int64_t fixed_batch;        /* samples that the model is made for; 0: any number */
    int micros;                 /* --microbatches it may be cut into; 0: any number */
    double scores_each, loss_fixed;     /* bytes of what the loss reads, a sample; and whatever the batch is */
    /* bytes: all variables of the model, gradients of the trained ones, the optimizer's state */
    double weights, trained, state;
    double bucket_first, bucket_cap;    /* bytes of buckets of gradients */
    /* [0] of one device, [1] of all of a node; NULL: the cluster's own figures hold */
    const struct plan_measure *measure;
};

/*
 * From a module that was read for training (functions @main, @train; it is used up) and the options of its training, of
 * which `stages` tells how to cut (partitions and microbatches are not looked at, but microbatches 1 allows models
 * whose batch can't be split). NULL after a diagnostic.
 */
struct plan_model *plan_model_new(struct ir_module *m, const struct train_options *o);

/* Counted once, then found again. */
const struct plan_part *plan_part(struct plan_model *m, int parts, enum tensor_how how);
void plan_set_measure(struct plan_model *m, int parts, enum tensor_how how, struct plan_measure *measure);

/* -- A layout ------------------------------------------------------------------------------------------------------ */

struct plan_layout {
    int partitions, copies, micros;     /* ranks = partitions * copies * parts */
    int parts;                          /* ranks that share tensors, neighbours */
    enum tensor_how how;                /* what these divide */
    bool offload_activations, offload_optimizer;
    enum pipeline_kind kind;
    int chunks;                         /* 1F1B_INTERLEAVED; else 1 */
    int active;                         /* most microbatches in flight; 0: the schedule's own bound */
    /* divided among the copies: 1: the optimizer's state, 2: gradients too, 3: parameters too */
    int zero;
    bool spread;                        /* neighbouring ranks are copies, not stages */
    int64_t batch;                      /* samples of a step, of all ranks */
};

enum plan_bytes { PLAN_ACTIVATIONS, PLAN_GRADIENTS, PLAN_AVERAGES, PLAN_SHARES, PLAN_PARTS, PLAN_BYTES };

/* Times are those of a step, memory and bytes those of the rank that has most. */
struct plan_prediction {
    struct plan_layout layout;
    double step;                        /* the whole step */
    double pipeline;                    /* until the last stage's last backward pass has ended */
    /* of the ranks' time until then, in which they neither compute nor move bytes */
    double bubble;
    double compute;                     /* of the busiest rank: forward and backward passes */
    double average;                     /* of gradients: all of it; `exposed`: what goes beyond the backward pass */
    double exposed;
    double parts;                       /* exchanges of parts of tensors, of the busiest rank */
    double update;                      /* with what --zero=1 and 2 share */
    double memory, weights, gradients, state, activations, work;
    /* memory is that of the layout's plan: work is its largest arena, activations what lies in slots */
    bool compiled;
    double bytes[PLAN_BYTES];           /* sent */
    double balance;                     /* slowest stage's time over the mean */
    bool extended;                      /* the schedule of fewer microbatches was simulated, and extended */
};

/* What the layout is expected to take on the cluster. False: it can't be (more stages than there is work, more ranks
 * than devices of a cluster that doesn't divide them, microbatches that don't fit the schedule); *why says so, in a few
 * words. */
bool plan_predict(struct plan_model *m, const struct plan_cluster *c, const struct plan_layout *l,
                  struct plan_prediction *out,
                  const char **why);

/* -- All of them --------------------------------------------------------------------------------------------------- */

struct plan_search {
    int ranks;
    int64_t batch;                      /* of all ranks; 0: the model's own for each, else 32 */
    int partitions, micros, zero;       /* 0 (zero: -1): any */
    int parts, how;                     /* 0: any; -1: of tensors, with and without their sequence */
    int offload;                        /* bits 1: activations, 2: the optimizer's state; -1: where it must be to fit */
    int kind, chunks, active;           /* -1, 0: any */
    int spread;                         /* -1: any */
    /* that many are wanted exactly; slower ones may be passed over unseen; 0: all */
    int top;
    /* Comes out: */
    int considered, too_large, impossible, slower;
    double least_memory;                /* of the layouts that don't fit */
    const char *why;                    /* of one that is impossible */
};
/* Predictions, the fastest first (least time a sample); their number in *n, which is 0 where nothing fits. */
struct plan_prediction *plan_search(struct plan_model *m, const struct plan_cluster *c, struct plan_search *s, int *n);

/* Bytes that a rank has, of so many. */
double plan_memory_of(const struct plan_cluster *c, int ranks);

/* -- Events (events.c) --------------------------------------------------------------------------------------------- */

/* Bytes that go from a segment to another, with each microbatch, and the link they take. */
struct plan_message { int from, to; double bytes; bool backward; };
struct plan_pipeline {
    const struct pipeline_order *order;
    const double *forward, *backward;   /* by segment: seconds of a rank that has its share of the devices for itself */
    int nmessages;
    const struct plan_message *messages;
    const struct plan_link *const *link;        /* by stage: to other stages of the pipeline, [from * stages + to] */
    /* by link entry: ranks that send through it at once (of links that a node's ranks share) */
    const double *sharers;
    double devices;                     /* of a node that ranks compete for; 0: each has its own */
    const int *node;                    /* by stage */
    const double *weight;               /* by stage: ranks that run it on that node */
};
struct plan_run { double makespan, *busy, *end; };      /* by stage: time that it works; when its last task ends */
/* Plays the order with its messages. A stage begins a task when its operands have come and it is free; messages of one
 * stage leave one after another. False: the stages wait for each other. */
bool plan_simulate(struct ir_ctx *ctx, const struct plan_pipeline *p, struct plan_run *out);

/* Seconds to average `bytes` over `copies` ranks, `here` of them on one node, `sharers` of a node's ranks doing so at
 * once: two rounds (parts to their owners; sums to all), in each of which a rank sends every other one its 1/copies. */
double plan_all_reduce(const struct plan_cluster *c, double bytes, int copies, int here, int sharers);
/* n buckets, ready at these times (ascending), are averaged one after another; a part 1 - overlap of each delays what
 * is computed behind it. Returns when the last is done; *compute: when the computation, which would end at `end`,
 * ends. */
double plan_buckets(int n, const double *ready, const double *seconds, double overlap, double end, double *compute);

#endif
