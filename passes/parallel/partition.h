/* SPDX-License-Identifier: Apache-2.0 */
/*
 * partition.h - cutting a model's function into pipeline stages: what each node costs, and where to cut.
 *
 *   partition_cost.c   items (nodes in order) with time, memory, bytes that cross; which must stay together
 *   partition_cut.c    exact min-max cuts of a sequence of costs
 *   partition_map.c    placing by hand: name patterns to stages
 *   partition.c        the whole: stages and segments of a function, the report
 *
 * A *stage* is what one rank runs. A *segment* is what a stage runs at one go: nodes that need nothing of a later
 * segment. Where a stage's nodes lie before and behind another's (weights that are tied, two chunks a stage, a map by
 * hand) it has several. Segments are numbered in the order in which data flows; segment s belongs to stage s % stages,
 * and may be empty.
 */
#ifndef TCC_PASSES_PARALLEL_PARTITION_H
#define TCC_PASSES_PARALLEL_PARTITION_H

#include "passes/cost.h"

struct partition_options {
    int stages;                 /* 1.. */
    const struct pass_machine *machine;      /* whose time it is; NULL: a plain one */
    int chunks;                 /* contiguous pieces a stage (1f1b-interleaved); 0: 1 */
    double memory_weight;       /* 0..1: weight of memory against time in a node's cost */
    bool training;              /* time of the backward pass, memory of gradients and moments count */
    const char *map;            /* text of a map file; NULL: automatic */
    const char *map_name;       /* for messages */
    int default_stage;          /* for nodes that the map leaves out; -1: none */
    const bool *shared;         /* by state index: only ever read, so several stages may have it; NULL: none */
};

/* A node of the function's body that is placed. Sources (constants, reads of state, sizes, and views and casts of
 * these) are not: they follow their users. */
struct partition_item {
    struct ir_node *node;
    double time;                /* seconds a microbatch, forward and backward; of sizes that are not known, guesses */
    double params, activations; /* bytes */
    double cost;                /* what is balanced: all items together 1 */
    /* the item whose stage this one shares (tied weights); itself for most. Its cost is then the anchor's */
    int anchor;
    int stage, segment;
};

struct partition {
    struct ir_ctx *ctx;
    const struct ir_func *func;
    struct partition_options o;
    struct pass_sizes sizes;   /* the batch: the symbol of the leading dim of the first input that has one */
    int n;
    struct partition_item *items;
    int *item_of;               /* by node id: -1 for sources; nodes in regions: that of the node that holds them */
    double *load;               /* n: the items' costs with those of followers added to their anchors' */
    bool *may_cut;              /* n + 1: before item i? */
    double *crossing;           /* n + 1: bytes a microbatch that would cross a cut before item i */
    int nsegments;              /* a multiple of the stages */
};

/* The items of a function with their costs, unplaced. */
struct partition *partition_analyse(const struct ir_func *f, const struct partition_options *o);
/* Stages and segments. False after diagnostics: items that a map leaves out, state that two stages would share. */
bool partition_place(struct partition *p);
void partition_number(struct partition *p);      /* segments, where the items' stages are there */
/* parameters, activations, predicted time and bytes that cross, a line a stage. */
/* outputs: by stage, bytes a microbatch of outputs that it sends besides. */
void partition_report(const struct partition *p, const double *outputs, FILE *to);
/* Is the map's text well-formed? False after a diagnostic (a usage error). */
bool partition_map_check(struct ir_ctx *ctx, const struct partition_options *o);

/*
 * Cuts items 0..n-1 into k contiguous parts so that the greatest cost of a part is least, exactly; among cuts whose
 * most_expensive part costs at most (1 + slack) times that, one over which fewest bytes cross. may_cut, crossing (n + 1
 * each; crossing may be NULL): before item i. first (k + 1): part j is [first[j], first[j+1]), without work only where
 * there are too few places. Returns the cost of the most_expensive part.
 */
double partition_cut(struct ir_ctx *ctx, int n, const double *cost, const bool *may_cut, const double *crossing, int k,
                     double slack, int *first);

/* partition_map.c: fills in items' stages; -1 where nothing fits. False after diagnostics. */
bool partition_by_map(struct partition *p);
/* The parameter or other state variable that a value is, or is a view or cast of; NULL: none. */
const struct ir_state *partition_state_of(const struct ir_value *v);
bool partition_is_source(const struct ir_node *n);

#endif
