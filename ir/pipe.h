/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipe.h - entry points that are run by several stages, microbatch by microbatch: what becomes abi.h's stages. Part of the door ir.h; do not include it by itself.
 *
 * A pipeline calls functions of its module. What a call takes and gives are the pipeline's values: slices of the
 * caller's inputs, and slots, of which a stage keeps as many as microbatches are in flight. A stage's tasks stand in
 * the order in which it runs them; what another stage made comes by a SEND there and a RECV here. In text, a section of
 * the module behind its functions and its plan (doc/ir.md).
 */
#ifndef TCC_PIPE_H
#define TCC_PIPE_H

enum tcc_pipe_space {
    TCC_PIPE_INPUT,     /* `input`'s microbatch */
    TCC_PIPE_SLOT,
    TCC_PIPE_DIMS       /* no data: a tensor of no elements whose dims are the sizes that the call's symbols have */
};
enum tcc_task_kind {
    TCC_TASK_CALL,      /* what: call */
    TCC_TASK_SEND,      /* what: value, to stage `peer` */
    TCC_TASK_RECV,      /* what: value, from stage `peer` */
    TCC_TASK_GATHER,    /* what: value; every stage's, stacked on a new axis 0 in value `peer`, on every stage */
    TCC_TASK_OUTPUT     /* what: output; the microbatch's value goes into it */
};
struct pipe_value {
    const char *name;
    ir_type type;                    /* of a microbatch */
    enum tcc_pipe_space space;
    int input;                       /* INPUT: number */
    int slots;                       /* SLOT: that a stage needs at most */
    /* SLOT: in the memory of the stage's device, for nobody looks at it but the stage's own calls */
    bool on_device;
};
struct pipe_call {
    const char *name;                /* of the function, and of its entry point in the plan */
    struct ir_func *func;            /* NULL: of a plan's text without functions */
    int stage, nin, nout;
    int *in, *out;                   /* values, in the order of the function's */
};
struct pipe_task { enum tcc_task_kind kind; int what, micro, peer; };          /* micro 0: once a step */
struct pipe_tasks { struct pipe_task *at; int n, cap; };
/* of a microbatch; axis -1: not split */
struct pipe_input { const char *name; ir_type type; int axis; };
/* axis: CONCAT's */
struct pipe_output { const char *name; ir_type type; int value, stage; enum tcc_pipe_reduce how; int axis; };

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
    /* state variables, by index, that are written before the end: put back if the run fails */
    int nearly, *early;
    struct pipe *next;
};

void pipe_print(FILE *out, const struct ir_module *m, const struct pipe *p);
/*
 * Checks every pipeline of the module, and against its plan where there is one: calls fit their functions; what a task
 * reads lies in its slot, neither overwritten nor received over; each receive has its send; all outputs come together;
 * the stages cannot wait for each other for ever; state that a failing run must put back is named. False after
 * diagnostics of that kind.
 */
bool pipe_verify(const struct ir_module *m, enum ir_diag_kind kind);
struct pipe *pipe_by_name(const struct ir_module *m, const char *name);      /* NULL: none has that name */

/*
 * Runs all stages in this process by the reference interpreter, messages as queues between them, as runtime/pipe.c runs
 * an artifact's: the inputs are the caller's, whole batches; outputs belong to the caller. A run that fails leaves the
 * state as it was. Otherwise as ir_interp().
 */
int ir_interp_pipe(const struct ir_module *m, const struct pipe *p, struct ir_interp_state *state,
                   struct tcc_object *const *in,
                   struct tcc_object **out, char *error, size_t error_size);

#endif
