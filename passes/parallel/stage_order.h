/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stage_order.h - pipeline schedules as plain data: which stage runs which segment's forward or backward pass for which
 * microbatch, in which order.
 *
 *   stage_order.c   the schedules, and their simulation
 *   stage_draw.c    as text, as a Chrome trace, as an SVG chart
 *
 * Segment s belongs to stage s % stages (partition.h). forward(s, m) needs forward(s-1, m); backward(s, m) needs
 * backward(s+1, m), that of the last segment its forward. Every schedule runs a stage's backward passes in the order of
 * the microbatches, so that sums of gradients have the same bits in all of them.
 */
#ifndef TCC_PASSES_PARALLEL_STAGE_ORDER_H
#define TCC_PASSES_PARALLEL_STAGE_ORDER_H

#include "ir/ir.h"

enum pipeline_kind {
    PIPELINE_SIMPLE,            /* all forward passes, then all backward passes (GPipe) */
    /* a backward pass as soon as one is ready (SageMaker's word), at most `active` microbatches in flight */
    PIPELINE_INTERLEAVED,
    PIPELINE_1F1B,              /* the same, and segment s of n holds at most n - s microbatches (PipeDream-flush) */
    /* Megatron-LM's: every stage has `chunks` segments, taken in turn for groups of microbatches */
    PIPELINE_1F1B_INTERLEAVED
};

struct pipeline_options {
    enum pipeline_kind kind;
    int chunks;                 /* 1F1B_INTERLEAVED; else 1 */
    int micros;                 /* microbatches */
    int active;                 /* most in flight; 0: the schedule's own (interleaved: stages + 2, else no bound) */
};

/* "simple", "interleaved", "1f1b", "1f1b-interleaved:chunks=V"; NULL: interleaved. False after a diagnostic. */
bool pipeline_parse(struct ir_ctx *ctx, const char *text, struct pipeline_options *o);

struct pipeline_task { bool backward; int segment, micro; double start, end; };
struct pipeline_order {
    struct pipeline_options o;
    int stages, segments;
    struct { struct pipeline_task *at; int n; } *stage;      /* each stage's tasks in order */
    double makespan;
    double *busy;               /* by stage: time that it works */
    /* by stage: most segments' microbatches at once between their forward and backward pass */
    int *peak;
};

/*
 * The order of a step. forward, backward: each segment's time (NULL: 1, and twice the forward's); empty: segments
 * without work (may be NULL); training false: forward passes only. NULL after a diagnostic: microbatches that don't fit
 * the schedule.
 */
struct pipeline_order *pipeline_make(struct ir_ctx *ctx, const struct pipeline_options *o, int stages, int segments,
                                     const bool *empty, const double *forward, const double *backward, bool training);
/* The part of the stages' time in which they wait. */
double pipeline_bubble(const struct pipeline_order *order);

/* A line a stage (F0 F1 B0 ...), and below them makespan and bubble. */
void pipeline_print(FILE *out, const struct pipeline_order *order);
void pipeline_draw_svg(FILE *out, const struct pipeline_order *order);
void pipeline_draw_trace(FILE *out, const struct pipeline_order *order);

#endif
