/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stages_int.h - what the files of stages share: stages.c walks their lists, stages_mail.c brings values from one to
 * another, stages_net.c to and from other processes, stages_result.c puts microbatches' outputs together.
 */
#ifndef TCCRT_STAGES_INT_H
#define TCCRT_STAGES_INT_H

#include "runtime/rt_int.h"

#define AGAIN (-1)                               /* a step that must wait for another stage's */

/* A value's memory for one microbatch: of the device's where nobody but the stage's calls looks at it, and its size is
 * known beforehand. */
struct pslot {
    void *data;
    size_t held;
    uint32_t memory;
    int32_t rank;
    int64_t dims[TCC_MAX_RANK];
    struct tccrt_request *sending, *receiving, *telling, *hearing;
    uint32_t micro;                              /* that is being received */
    double sent_at, heard;                       /* modelled time, while it is being told */
};
/* at: the step to come. gave: to the gather it stands at */
struct stage { struct pslot *slots; uint32_t at; bool gave; };
struct message {
    uint32_t value, micro, from, to;
    size_t bytes;
    void *data;
    struct tcc_tensor t;
    struct message *next;
};
struct slice { void *data; size_t held; };
/* An output as it comes together. sums: doubles, where it is a sum or mean. */
struct result { void *data; size_t held; struct tcc_tensor t; uint32_t seen; };

/* a variable as it was before the run, if `now` */
struct kept { void *data; bool now; };

/* A session's memory for one entry point in stages. */
struct tcr_staged {
    struct stage *stages;
    uint32_t *first_slot, nslots;                /* by value: where its slots begin in a stage's */
    int64_t (*dims)[TCC_MAX_RANK];               /* by value; TCR_UNBOUND: not known beforehand */
    struct tcc_tensor *inputs;                   /* the caller's */
    struct slice *slices;
    struct result *results;
    struct message *mail;                        /* between stages of this process */
    struct kept *kept;                           /* by state variable, NULL: none */
    bool *in_on_device, *out_on_device;          /* of a call: by input and output, does its slot lie there? */
    struct tcc_tensor *out;                      /* and of those outputs, their memory */
};

struct run {
    struct tccrt_session *s;
    const struct tcc_pentry *e;
    const struct tcc_pstaged *p;
    const struct tcc_pbuffer *values;
    const struct tcc_presult *outputs;
    struct tcr_staged *state;
    struct tccrt_comm *group;                    /* NULL: all stages are here */
    int64_t runs;
    bool keeps;                                  /* state->kept is this run's */
    bool started;                                /* others may wait for this stage by now */
};

/* Operand i of a step, among the values; the other stage of a message; the microbatch. */
static inline uint32_t
tcr_stage_value(const struct run *r, const struct tcc_pstep *t, uint32_t i)
{
    return r->s->m->u32s[t->args.first + i] - r->p->buffers.first;
}
static inline uint32_t
tcr_stage_peer(const struct run *r, const struct tcc_pstep *t)
{
    return (uint32_t)r->s->m->exprs[r->s->m->u32s[t->sizes.first]].k;
}

/* stages.c */
const char *tcr_stages_value_name(const struct run *r, uint32_t v);
struct tcc_tensor tcr_stages_tensor(const struct run *r, uint32_t v, const struct pslot *x); /* in the slot */

/* stages_mail.c, inside a process: value v of a microbatch to another stage, and from one (AGAIN: it is not there). */
int tcr_stages_post(struct run *r, uint32_t v, uint32_t micro, uint32_t from, uint32_t to, const struct pslot *x);
int tcr_stages_pick_up(struct run *r, uint32_t v, uint32_t micro, uint32_t from, uint32_t stage, struct pslot *x);
/* All stages' tensors of a value, one behind the other: each sends its own to all, itself too. */
int tcr_stages_gather_here(struct run *r, uint32_t stage, uint32_t v, const struct pslot *own, struct pslot *all);
void tcr_stages_drop(struct message **at);         /* out of the list */

/* stages_net.c */
int tcr_stages_send(struct run *r, struct pslot *x, const struct tcc_pstep *t);
int tcr_stages_begin_recv(struct run *r, struct pslot *x, const struct tcc_pstep *t);
int tcr_stages_recv(struct run *r, struct pslot *x, const struct tcc_pstep *t);
int tcr_stages_gather(struct run *r, const struct pslot *own, struct pslot *all, const struct tcc_pstep *t);
int tcr_stages_settle(struct pslot *x);            /* waits for what it sends or receives */
int tcr_stages_broadcast(struct run *r, uint32_t k);       /* output k from the stage that makes it to all */

int tcr_stages_meet(struct run *r);                /* modelled time: all stages go on when the last one is there */

/* stages_result.c */
int tcr_stages_result_room(struct result *x, size_t bytes);
int tcr_stages_begin_results(struct run *r);
int tcr_stages_reduce(struct run *r, uint32_t k, uint32_t micro, const struct tcc_tensor *v);
int tcr_stages_share_results(struct run *r);
int tcr_stages_give_result(struct run *r, uint32_t k);     /* to the caller */

#endif
