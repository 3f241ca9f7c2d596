/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipe.h - entry points that are run by several stages, microbatch by microbatch: the in-memory form of abi.h's pipelines. Part
 * of the door ir.h; do not include it by itself.
 *
 * A pipeline calls functions of its module. What a call takes and gives are the pipeline's values: slices of the caller's inputs,
 * and slots, of which a stage keeps as many as microbatches are in flight. A stage's tasks stand in the order in which it
 * runs them; what another stage made comes by a SEND there and a RECV here.
 */
#ifndef TCC_PIPE_H
#define TCC_PIPE_H

struct pipe_value {
    const char *name;
    ir_type type;                    /* of a microbatch */
    enum tcc_pipe_space space;
    int input;                       /* INPUT: number */
    int slots;                       /* SLOT: that a stage needs at most */
};
struct pipe_call { struct ir_func *func; int stage; int nin, nout; int *in, *out; };   /* values, in the order of the function's */
struct pipe_task { enum tcc_task_kind kind; int what, micro, peer; };                  /* abi.h says what */
struct pipe_tasks { struct pipe_task *at; int n, cap; };
struct pipe_input { const char *name; ir_type type; int axis; };                       /* of a microbatch; axis -1: not split */
struct pipe_output { const char *name; ir_type type; int value, stage; enum tcc_pipe_reduce how; int axis; };     /* axis: CONCAT's */

struct pipe {
    const char *name;                /* of the entry point */
    int stages, micros;
    int ninputs, noutputs, nvalues, ncalls;
    struct pipe_input *inputs;
    struct pipe_output *outputs;
    struct pipe_value *values;
    struct pipe_call *calls;
    struct pipe_tasks *tasks;        /* by stage */
    int last;                        /* call that a process makes once, when all its stages have ended; -1: none */
    bool accumulates;                /* gradients (IR_STATE_GRADIENT) begin at zero, */
    const struct ir_state *counter;  /* unless this is not 0; NULL: always */
    int nearly, *early;              /* state variables, by index, that are written before the end: put back if the run fails */
    struct pipe *next;
};

/* In a comment: the text form does not hold pipelines. */
void pipe_print(FILE *out, const struct pipe *p);

#endif
