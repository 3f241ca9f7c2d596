/* SPDX-License-Identifier: Apache-2.0 */
/* place_int.h - a program whose buffers and steps get their memories: what place.c and place_where.c share. */
#ifndef TCC_PASSES_PLACE_INT_H
#define TCC_PASSES_PLACE_INT_H

#include "passes/lower_int.h"

enum { HOST, DEVICE };

struct place {
    struct ir_ctx *ctx;
    struct kn_program *p;
    bool customs;  /* the device runs users' device code */
    bool *refused; /* by kernel: the machine can't run it */
    int n;         /* buffers of the program as it came; behind them stand twins */
    VEC(struct kn_buffer) buffers;
    VEC(int) twin; /* by buffer: its copy in the other memory; -1: none yet */
    int *home,
        *joined;    /* by root buffer: its memory; another that a border hands over from or to it (itself at the end) */
    uint8_t *valid; /* by root buffer: bit m: up to date in memory m; 0: not written yet */
    uint8_t *reads, *writes; /* by root buffer: bit m: by steps that run there */
    bool *measured;          /* by root buffer: its sizes are taken from it when it has been made */
    const bool *on_host;     /* by state variable */
    bool *first;             /* by buffer: a weight that is a state variable's first value */
    bool *host_kernel;       /* by launch, in the order in which they stand */
    int launch;
};

static inline int root(const struct place *pl, int b)
{
    return kn_storage(pl->buffers.at, b);
}

/* place_where.c. In order: which buffers' sizes are taken from them when they have been made; who reads and writes
 * which buffer from where; then, by turns of launches (pl->launch), a step's memory. */
void place_find_measured(struct place *pl, const struct kn_steps *steps);
void place_decide_steps(struct place *pl);
int place_runs_on(struct place *pl, const struct kn_step *s);
bool place_is_dense_copy(const struct place *pl, const struct kn_step *s);
/* A user's operators that stay with the host, and why: to those who ask (-v). */
void place_tell_host_customs(const struct place *pl, const struct kn_steps *steps);

#endif
