/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cost.h - what things cost: the one table that fusion, partition, rematerialisation and the planner ask. A machine
 * says how fast it is (struct pass_machine's `cost`; a cluster file does for the planner), this file counts the
 * operations and bytes of a node.
 */
#ifndef TCC_PASSES_COST_H
#define TCC_PASSES_COST_H

#include "ir/ir.h"

struct pass_machine;

/* A machine's rates. Figures are typical, not measured for one model: most who ask want proportions. */
struct pass_cost {
    double flops;               /* operations a second, of products */
    double half_flops;          /* of products of bf16 and f16; 0: as flops */
    double bandwidth;           /* bytes a second, between memory and where is computed */
    double cache;               /* bytes; what moves no more does so at cache_bandwidth; 0: no such cache */
    double cache_bandwidth;
    double launch;              /* seconds that a kernel takes at least */
    int function;               /* instructions that a function of the math library (ir_is_expensive) takes */
    int piece;                  /* launches that a piece of work lasts for at least: cutting it costs that */
    /* pieces of work that a launch has where all of such a machine takes part: of its kind, not of one machine */
    int pieces;
    /* products of fewer rows or columns have no template: they are cut in pieces as sums are */
    int products;
    int rows;                   /* so few long rows leave most of it idle where each is one piece of work */
    bool scans;                 /* they are cut in pieces too, though all is read twice then */
    /* elements that so many kernels read, at most, are worked out in each where that saves a store (lw_join_all()) */
    int recomputes;
    /* bytes of a row that launches hand on within a kernel (the pass chain); 0: rows go by memory, if they are more
     * than a number */
    int chain;
    int chain_rows;             /* rows that such a kernel has at least */
    /* threads that share a row meet between a kernel's stages: what follows a row's reductions is run with them
     * (lw_rows_pay()) */
    bool rows_merge;
    bool joins;                 /* launches of one kernel on tensors of their own run as one (kn_may_batch()) */
    /* outer points that are one piece of work, where neighbours in memory run side by side */
    int lanes;
    /* instructions of a kernel at most: code generators take more than linear time for straight code */
    int kernel;
};

/* The machine's; that of a plain machine where it has none or is NULL. */
const struct pass_cost *pass_cost(const struct pass_machine *m);
/* To move bytes. */
double pass_move_seconds(const struct pass_cost *c, double bytes);
/* Of a kernel with so many operations and bytes, the larger of both; half: its products are of bf16 or f16. */
double pass_seconds(const struct pass_cost *c, double flops, double bytes, bool half);

/* Sizes to count with: the symbol `batch` (NULL: none) is `value`, others are guessed within their bounds. NULL for the
 * guess of all. */
struct pass_sizes { ir_expr batch; int64_t value; };
double pass_extent(const struct pass_sizes *z, ir_expr e);     /* at least 1 */
double pass_elements(const struct pass_sizes *z, ir_type t);
double pass_bytes(const struct pass_sizes *z, ir_type t);
/* Floating-point operations of a node, with its regions; *contracts (may be NULL): its gradient takes two of the same
 * size. */
double pass_flops(const struct pass_sizes *z, const struct ir_node *n, bool *contracts);
/* Bytes of a node's operands and results. */
double pass_node_bytes(const struct pass_sizes *z, const struct ir_node *n);
/* A result that is its operand's memory, or a copy that costs little beside what reads it. */
bool pass_is_free(const struct ir_node *n);

#endif
