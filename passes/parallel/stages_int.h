/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stages_int.h - between the files that cut a model's training into stages:
 *
 *   stages.c    the whole: what is cut, the pipelines' tables
 *   microbatch.c     what is split, and what forbids it
 *   segment.c   a segment's function: its part of the model, and the gradients of that
 *   stage_grads.c    the microbatches' gradients added up; what copies of a stage divide among them (--zero)
 *   split.c    forward and backward functions of a segment, and what the one keeps for the other
 *   tasks.c     from a schedule to each stage's steps, and slots
 *   stage_update.c   what happens to the gradients
 */
#ifndef TCC_PASSES_PARALLEL_STAGES_INT_H
#define TCC_PASSES_PARALLEL_STAGES_INT_H

#include "passes/train/entry_int.h"

/* A value of the model that is made in one segment and used in others. */
struct cut_value {
    struct ir_value *v;
    int from;                    /* segment */
    bool *to;                    /* by segment */
    int value;                   /* its buffer */
    int *grad;                   /* by segment: the value that holds its part of the gradient; -1: none */
    bool active;                 /* depends on trained parameters: gradients are wanted */
};

/* A gradient that a segment's function has of a parameter that it reads. */
struct segment_grad { struct ir_state *param; struct ir_value *grad; };

struct segment {
    bool empty;
    struct ir_func *func;
    struct { int *at; int n, cap; } in, out;     /* buffers, by func's inputs and outputs */
    struct { struct segment_grad *at; int n, cap; } grads;
    int nforward;                /* outputs of the forward pass; the others are gradients */
    int forward, backward;       /* calls; -1: none */
};

/* As it is made for microbatch 0. */
struct stage_call { struct kn_step step; int stage; };

struct stages {
    struct training *t;
    struct ir_ctx *ctx;
    struct ir_module *m;
    const struct train_split *o;
    const char *name;            /* of the entry point */
    bool training;
    bool predicts;               /* there is no loss: whole's results are outputs alone */
    struct ir_func *whole;       /* what is cut; its first result is the scores, then come the outputs */
    struct partition *part;
    int nsegments;
    struct segment *segments;
    struct { struct cut_value *at; int n, cap; } cut_values;
    struct { struct kn_buffer *at; int n, cap; } values;
    struct { struct stage_call *at; int n, cap; } calls;
    struct { struct kn_stage_input *at; int n, cap; } inputs;
    struct { struct kn_stage_output *at; int n, cap; } outputs;
    struct { const char **at; int n, cap; } names;      /* of the outputs behind the loss */
    struct ir_value **grads;     /* by trained parameter: not NULL once a segment has a gradient of it */
};

/* index: INPUT: number; SLOT: how many */
int stages_value(struct stages *x, const char *name, ir_type type, enum tcc_space space, int index);
int stages_call(struct stages *x, struct ir_func *f, int stage, int nin, const int *in, int nout, const int *out);
/* ENTRY.WHATs; stage < 0: ENTRY.WHAT */
struct ir_func *stages_func(struct stages *x, const char *what, int stage);
/* An entry point of x's tables with empty lists. */
struct kn_staged *stages_new(struct stages *x, int micros);
/* The segment in which a value of `whole` is made (0 for inputs and sources). */
int stages_segment_of(const struct stages *x, const struct ir_value *v);

/* stages.c: what is cut, and its nodes with their costs, not placed yet; *how: by output of --step-outputs, its
 * reduction. False after a diagnostic. */
bool stages_analyse(struct training *t, struct stages *x, int **how);

/* microbatch.c: does f run a microbatch, whatever its size? False after a diagnostic that names the node that pins the
 * batch. */
bool stages_check_batch(struct training *t, struct ir_func *f, const struct train_split *o);

/* segment.c */
void stages_find_cut_values(struct stages *x);
bool stages_build_segment(struct stages *x, int s);

/* stage_grads.c */
/* The trained parameters of a stage, in the order in which all of its functions count them. */
struct ir_state **stages_params(const struct stages *x, int stage, int *n);
/* Once it is known what is trained: adds what the segment's function has of gradients to grad.PARAM, divided by the
 * microbatches, so that behind the last one it is their mean. Where owners alone have gradients (--zero=2) what it has
 * is averaged over the copies first. */
bool stages_add_up(struct stages *x, int s);
/* A forward or backward function reads its parameters from their owners (--zero=3). */
bool stages_gather(struct stages *x, int stage, struct ir_builder *b);

/* split.c: makes the segment's calls. */
bool stages_split_passes(struct stages *x, int s);

/* tasks.c: the entry point of x, put into the module. NULL after a diagnostic. */
struct kn_staged *stages_schedule(struct stages *x);
/* A call for a microbatch; any other step on `value`. */
void stages_add_call(struct stages *x, struct kn_staged *p, int list, int call, int micro);
struct kn_step *stages_add_step(struct stages *x, struct kn_staged *p, int list, enum tcc_step_kind kind, int value,
                                int micro);

/* stage_update.c */
struct stage_updates { struct ir_func **measure, **update, *count; };        /* by stage; of no stage */
struct stage_calls { int own, totals, rate, *measure, *update, last; };      /* values, and calls of these functions */
/* Updates by the gradients' sums of `calls` calls; more than 1: in every such call only. False after a diagnostic. */
bool stages_make_updates(struct stages *x, int calls, struct stage_updates *u);
void stages_call_updates(struct stages *x, const struct stage_updates *u, struct stage_calls *c);
/* behind the tasks that there are */
void stages_task_updates(struct stages *x, struct kn_staged *p, const struct stage_calls *c);
struct ir_state *stages_counter(struct stages *x);                           /* train.micro; NULL: every call updates */
bool stages_build_apply(struct stages *step, const struct stage_updates *u);

#endif
