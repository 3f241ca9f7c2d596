/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stages.h - entry points that run in stages, microbatch by microbatch. Part of the door kernel.h.
 *
 * A schedule of stages is a plan: for each stage a list of the plan's own steps, on buffers of the plan's own kind, and
 * one list more, which every process runs once at the end. It stands in the module from the training transformation
 * on, before there is a program: until then a CALL names a function, and then that function's entry point too.
 *
 * Steps. CALL runs another entry point: its inputs, then its outputs. SEND and RECV carry a buffer to or from the list
 * `peer`. COLLECTIVE is ALL_GATHER: every list's first buffer, stacked on a new axis 0, in the second one. RESULT puts
 * what a microbatch has in a buffer together with the others' to output number `what`. Each is of one microbatch,
 * `micro`; what is done once a step is of number 0. There are no waits: a list's steps run in their order, a SEND does
 * not wait, a RECV waits for its SEND, a COLLECTIVE for all lists.
 *
 * Buffers. INPUT is the microbatch's part of an input. SIZES has no elements: its dims are sizes that a call needs.
 * SLOT is memory of the stage, as much for each microbatch that is in flight: microbatch m lies in slot m mod `index`
 * on each stage that names it. The stage owns it from the CALL or RECV that fills it until the last step that reads
 * that microbatch; a SEND's slot is the sender's until it has gone, which the runtime sees to. Where there is a slot to
 * spare a RECV may begin as soon as the one before of that buffer has ended. In a device's memory (1) only calls look
 * at it.
 *
 * Gradients are state: calls of backward passes add to grad.PARAM, divided by the microbatches, which begins at zero
 * (`accumulates`), or goes on where the counter is not 0. What else is written before the end is `early`: a run that
 * fails puts it back.
 *
 * Where lists come from: passes/parallel/stage_order.c orders forward and backward passes on each stage (simple,
 * interleaved, 1f1b, 1f1b-interleaved), tasks.c puts a RECV in front of the first call on a stage that reads what
 * another makes, SENDs and RESULTs behind the call that makes it, and counts slots by the times of the schedule.
 *
 * What is proved (plan/stages.c), of all lists together: each step finds its microbatch in its slot, and no RECV may
 * fill one that is still read; each SEND has its one RECV and the other way round, and lists gather alike; run as above
 * they all come to their ends, so no stage waits for ever; every microbatch goes once into each output; state is
 * accessed where it is. Memory reports count a stage's slots, the largest of its calls' arenas and its state
 * (compiler/memory/). In text this is the section `stages` (doc/ir.md); sections as they were before version 23 of the
 * ABI, with values, numbered calls and tasks, are read too.
 */
#ifndef TCC_STAGES_H
#define TCC_STAGES_H

/* of a microbatch; axis -1: not split */
struct kn_stage_input { const char *name; ir_type type; int axis; };
/* axis: CONCAT's */
struct kn_stage_output { const char *name; ir_type type; int buffer, stage; enum tcc_combine how; int axis; };

struct kn_staged {
    const char *name;                /* of the entry point */
    int stages, micros;
    int ninputs, noutputs, nbuffers;
    struct kn_stage_input *inputs;
    struct kn_stage_output *outputs;
    struct kn_buffer *buffers;       /* INPUT, SLOT, SIZES: types of a microbatch */
    struct kn_steps *lists;          /* by stage; behind them that of every process's end */
    bool accumulates;                /* gradients (IR_STATE_GRADIENT) begin at zero, */
    const struct ir_state *counter;  /* unless this is not 0; NULL: always */
    /* state variables, by index, that are written before the end: put back if the run fails */
    int nearly, *early;
    struct kn_staged *next;
};
/* A call that a list makes, for each microbatch or once: its first step; list `stages`: every process makes it. */
struct kn_call { struct kn_step *step; int list, made; };
int kn_calls(struct ir_ctx *ctx, const struct kn_staged *p, struct kn_call **out);

void kn_print_staged(FILE *out, const struct ir_module *m, const struct kn_staged *p);
/* Checks all of the module, and against its program where there is one. False after diagnostics of that kind. */
bool kn_verify_staged(const struct ir_module *m, enum ir_diag_kind kind);
struct kn_staged *kn_staged_by_name(const struct ir_module *m, const char *name);    /* NULL: none has that name */

/*
 * Runs all stages in this process by the reference interpreter, messages as queues between them, as runtime/stages.c
 * runs an artifact's: the inputs are the caller's, whole batches; outputs belong to the caller. A run that fails leaves
 * the state as it was. Otherwise as ir_interp().
 */
int ir_interp_staged(const struct ir_module *m, const struct kn_staged *p, struct ir_interp_state *state,
                     struct tcc_object *const *in, struct tcc_object **out, char *error, size_t error_size);

#endif
