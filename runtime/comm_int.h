/* SPDX-License-Identifier: Apache-2.0 */
/*
 * comm_int.h - communication, inside: groups, operations, and the transports that carry messages.
 *
 *   comm.c        the public calls on tensors: arguments become operations
 *   comm_group.c  the world, its beginning and end, groups
 *   comm_coll.c   operations as sequences of messages
 *   comm_sum.c    what reductions do to the elements
 *   comm_net.c    the net of a process: what is under way, the thread that moves it on
 *   comm_watch.c  who is waited for, who hangs, who has failed
 *   comm_mpi.c    a transport: MPI, opened at run time
 *   comm_step.c   the plan's steps
 *
 * A transport moves bytes between ranks of the world without blocking; everything else (collectives, reductions, groups, time
 * limits) is made of that once. A transport that has collectives of its own (NCCL, a simulator's) takes them over by `collective`.
 */
#ifndef TCCRT_COMM_INT_H
#define TCCRT_COMM_INT_H

#include <stdatomic.h>

#include "runtime/rt_int.h"

/* -- Transports ----------------------------------------------------------------------------------- */

/* Messages of different lanes do not see each other. */
enum tcr_lane { TCR_LANE_COLLECTIVE, TCR_LANE_POINT, TCR_LANE_CONTROL, TCR_NLANES };
#define TCR_TAG_BITS 22                      /* of any lane */
#define TCR_MESSAGE_BYTES ((size_t)1 << 30)  /* the longest message */
#define TCR_POINT_BITS 13                    /* of a send's own tag; the rest names the group */

struct tcr_net;
struct tcr_coll;

/* A message that is under way, the transport's own. */
struct tcr_pending { void *at[2]; };

/* All functions but open() are called with the net's lock held, one at a time. They return a tcc_status with a message. */
struct tcr_transport {
    const char *name;
    /* Fills in net->rank, size, local_rank, local_size, threaded; may block until all ranks are there. */
    int (*open)(struct tcr_net *net, const struct tccrt_comm_options *options);
    /* Ends it. broken: ranks may be gone; nothing that waits for others may be called. */
    void (*close)(struct tcr_net *net, bool broken);
    int (*send)(struct tcr_net *net, int lane, int to, int tag, const void *data, size_t bytes, struct tcr_pending *p);
    int (*recv)(struct tcr_net *net, int lane, int from, int tag, void *data, size_t bytes, struct tcr_pending *p); /* from -1: anybody */
    int (*test)(struct tcr_net *net, struct tcr_pending *p, bool *done);     /* moves on everything; done: p is over */
    void (*cancel)(struct tcr_net *net, struct tcr_pending *p);              /* forgets a message */
    /* NULL, or starts the whole operation; *taken false: do it with messages. */
    int (*collective)(struct tcr_net *net, const struct tcr_coll *c, struct tcr_pending *p, bool *taken);
};
extern const struct tcr_transport tcr_mpi;

/* -- Reductions (comm_sum.c) ------------------------------------------------------------------------- */
int tcr_reduction_by_name(const char *name);                     /* "sum", "avg", "min", "max", "product"; -1: none */
int tcr_reduction_check(int dtype, int how, double scale);       /* TCC_OK, or a message */
/* out[0, n) from in[ranks][0, n), in the order of ranks, times scale (avg: / ranks too). out may be one of in[]. */
void tcr_reduce(int dtype, int how, double scale, int ranks, const void *const *in, void *out, int64_t n);

/* -- Groups ------------------------------------------------------------------------------------------- */
struct tccrt_comm {
    struct tcr_net *net;             /* NULL: a world of one, without a transport */
    struct tccrt_comm *world;        /* itself for the world */
    int rank, size;
    int *ranks;                      /* in the world */
    uint32_t id;                     /* differs from that of any other group that shares a rank */
    uint32_t turn;                   /* collectives started so far */
    atomic_int ngroups;              /* world: groups not yet freed */
};
struct tccrt_comm *tcr_comm_alone(void);     /* a group of this process only; nobody's to free */

/* -- Operations --------------------------------------------------------------------------------------- */

/* Memory of a tensor, or of one of a list that is treated as if it were one. */
struct tcr_piece { char *data; int64_t n; };         /* elements */

enum { TCR_SEND = TCC_NCOLLECTIVES, TCR_RECV };

/* What is to be done: a collective on tensors of one type. */
struct tcr_coll {
    int kind;                        /* enum tcc_collective, TCR_SEND, TCR_RECV */
    struct tccrt_comm *c;
    int dtype, how;
    size_t size;                     /* of an element */
    double scale;
    int root, tag;                   /* root: SEND and RECV: the other rank */
    int npieces;
    struct tcr_piece *in, *out;      /* npieces each; in places where in equals out */
    int64_t n;                       /* elements in all pieces */
    int64_t *in_first, *out_first;   /* size + 1: where the part of each rank begins; NULL: equal parts */
};
/* The operation in a group of one. */
void tcr_coll_alone(const struct tcr_coll *c);

struct tcr_op;                       /* an operation under way */
/* Starts it; takes over c's arrays, also when it fails. */
int tcr_op_start(struct tcr_coll *c, struct tcr_op **out);
bool tcr_op_done(struct tcr_op *op);         /* moves on what is under way */
int tcr_op_finish(struct tcr_op *op);        /* waits, frees, returns its status */
const char *tcr_coll_name(int kind);

#endif
