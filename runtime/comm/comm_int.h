/* SPDX-License-Identifier: Apache-2.0 */
/*
 * comm_int.h - communication, inside: groups, operations, and the net of a process over an engine (engine.h).
 *
 *   comm.c        the public calls on tensors: arguments become operations
 *   group.c       the world, its beginning and end, groups
 *   presence.c    who is here: who has not come when the job begins, whose process is gone
 *   rank_cores.c  a process's share of its machine
 *   coll.c        operations as sequences of messages
 *   peers.c       operations on devices' memory, by a library of theirs
 *   sum.c         what reductions do to the elements
 *   net.c         the net of a process: what is under way, the thread that moves it on
 *   failure_detector.c  who is waited for, who hangs, who has failed
 *   engine.c      which engine, and what the launcher says
 *   mpi.c         an engine: MPI; mpi_lib.c: its library, opened at run time
 *   ucx.c         an engine: UCX; rendezvous.c: how its ranks find each other
 *   shared.c      an engine: memory that processes of one machine share
 *   step.c        the plan's steps
 *   vote.c        one of them: no rank writes state where another has failed
 */
#ifndef TCC_RUNTIME_COMM_COMM_INT_H
#define TCC_RUNTIME_COMM_COMM_INT_H

#include <stdatomic.h>

#include "runtime/comm/engine.h"
#include "runtime/rt_int.h"

/* -- Reductions (sum.c) ------------------------------------------------------------------------- */
int tcr_reduction_by_name(const char *name);                     /* "sum", "avg", "min", "max", "product"; -1: none */
int tcr_reduction_check(int dtype, int how, double scale);       /* TCC_OK, or a message */
/* out[0, n) from in[ranks][0, n), in the order of ranks, times scale (avg: / ranks too). out may be one of in[]. */
void tcr_reduce(int dtype, int how, double scale, int ranks, const void *const *in, void *out, int64_t n);

/* -- Groups ------------------------------------------------------------------------------------------- */
struct tccrt_comm {
    /* NULL: this process alone: a world of one, or the first of several ranks alike for which it stands */
    struct tcr_net *net;
    struct tccrt_comm *world;        /* itself for the world */
    int rank, size;
    int *ranks;                      /* in the world */
    uint32_t id;                     /* differs from that of any other group that shares a rank */
    uint32_t turn;                   /* collectives started so far */
    int64_t next_id;                 /* world: of the next group */
    atomic_int ngroups;              /* world: groups not yet freed */
    struct tcr_peers *peers;         /* the communicator of its ranks' devices; NULL: not begun */
    const struct tcr_peers_ops *peers_ops;
    bool no_peers;                   /* not all of them have a library for one */
    /* Of a group on a device: its tensors lie there. base: the group of hosts that it stands for */
    struct tccrt_comm *base;
    struct tcr_device *device;
    int queue;
    bool streamed;                   /* its operations are given to a stream of the caller's */
    uintptr_t stream;
    const char *node;                /* of the plan: a session's group */
};
/* The group of hosts that a group on a device stands for, or itself. */
static inline struct tccrt_comm *
tcr_hosts(struct tccrt_comm *c)
{
    return c && c->device ? c->base : c;
}
struct tccrt_comm *tcr_comm_alone(void);     /* a group of this process only; nobody's to free */

/* -- The plan's steps ---------------------------------------------------------------------------------- */
/* tcr_comm_alone() where the session was given none */
struct tccrt_comm *tcr_step_group(const struct tccrt_session *s, const struct tcc_pstep *p);
int tcr_vote_begin(struct tccrt_session *s, const struct tcc_pstep *p, struct tccrt_comm *c,
                   struct tccrt_request **request);
/* In an elastic world, behind a step of communication; nothing where others follow. */
int tcr_commit(struct tccrt_session *s, const struct tcc_pstep *p, struct tccrt_comm *c);
/* what it began has ended */
int tcr_vote_end(struct tccrt_session *s, const struct tcc_pstep *p, struct tccrt_comm *c);

/* -- Operations --------------------------------------------------------------------------------------- */

/* Memory of a tensor, or of one of a list that is treated as if it were one. */
struct tcr_piece { char *data; int64_t n; };         /* elements */

enum { TCR_SEND = TCC_NCOLLECTIVES, TCR_RECV, TCR_JOIN };

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
    struct tcr_device *device;       /* NULL: the memory is the host's */
    struct tcr_peers *peers;
    int queue;
    bool streamed;                   /* between what a stream of the caller's is given before, and after */
    uintptr_t stream;
    const char *node;                /* of the plan, for messages; NULL: there is none */
};
/* The operation in a group of one. */
void tcr_coll_alone(const struct tcr_coll *c);
void tcr_coll_free(struct tcr_coll *c);             /* its arrays */

/* A list's tensors divided among the ranks, about as many bytes each: owners[i]. Each tensor from its owner; and the
 * reduction of some tensors of a list, each for its owner. */
int tcr_owners(const struct tccrt_comm *c, int n, const int64_t *bytes, int *owners);
/* a list's sizes; numbers of n of its tensors */
struct tcr_members { int nall; const int64_t *bytes; int n; const int64_t *at; };
int tcr_comm_reduce_owned(struct tccrt_comm *c, int how, double scale, const struct tcr_members *m,
                          const struct tcc_tensor *in,
                          const struct tcc_tensor *out, struct tccrt_request **request);
int tcr_comm_share(struct tccrt_comm *c, int n, const struct tcr_members *m, const struct tcc_tensor *in,
                   const struct tcc_tensor *out,
                   struct tccrt_request **request);      /* m: the list that they belong to; NULL: they are all of it */
/* Of an IS_OWNER step: the rank that owns each tensor of its list (the caller's to free). */
int tcr_step_owners(struct tccrt_comm *c, const struct tccrt_model *m, const struct tcc_pstep *p, int **owners);
/* In groups of ranks that are not there the process is the one whose update takes longest. */
int tcr_owners_fold(struct tccrt_session *s);
/* The value of a variable that one rank owns goes there from `root`, which drops its mirror. */
int tcr_state_carry(struct tccrt_comm *c, struct tccrt_session *s, uint32_t i, int root);

/* An operation under way. Those of a net are in its list until they are done. */
struct tcr_op {
    struct tcr_op *next;
    struct tcr_net *net;
    struct tcr_coll c;
    /* Moves on; sets *moved if anything happened, op->done when all is over, op->awaited. Failures are the net's. */
    int (*advance)(struct tcr_op *op, bool *moved);
    void *state;                     /* the algorithm's, one block */
    int tag;
    int awaited;                     /* a rank of the world that it needs to get on; -1: none */
    double since;                    /* when something happened last, seconds; when done: the end */
    bool done;
    bool detached;                   /* nobody asks for it: it frees itself */
    int status;
};
/* Starts it; takes over c's arrays, also when it fails. */
int tcr_op_start(struct tcr_coll *c, struct tcr_op **out);
void tcr_op_detach(struct tcr_op *op);       /* nobody will ask for it: an operation on a device */
bool tcr_op_done(struct tcr_op *op);         /* moves on what is under way */
/* waits, frees, returns its status; *ended, tcr_now(), grows to its end */
int tcr_op_finish(struct tcr_op *op, double *ended);
int tcr_request_wait(struct tccrt_request *r, double *ended);        /* tccrt_comm_wait */
const char *tcr_coll_name(int kind);
/* coll.c: chooses the algorithm: op->advance and op->state. */
int tcr_coll_begin(struct tcr_op *op);
void tcr_coll_end(struct tcr_op *op);        /* frees what it holds; what is not done is cancelled */

/* -- Operations on devices (peers.c) ---------------------------------------------------------------- */
/* The communicator of the group's devices, made when it is first asked for, by all ranks. *has: there is one */
int tcr_peers_of(struct tccrt_comm *c, struct tcr_device *d, bool *has);
void tcr_peers_leave(struct tccrt_comm *c);
int tcr_peers_begin(struct tcr_op *op);      /* locked */
int tcr_peers_give(struct tcr_op *op);       /* not locked; a failure breaks the net */
void tcr_peers_end(struct tcr_op *op);       /* locked: frees its marks; abandons what is not done */
int tcr_peers_alone(const struct tcr_coll *c);               /* in a group of one */
void tcr_peers_close(struct tccrt_comm *g);                  /* the device of a group on one */
/* within the device, or the host's memory where it is NULL */
int tcr_comm_copy(struct tcr_device *d, int queue, void *to, const void *from, size_t bytes);

/* -- Messages, cut into what an engine takes (net.c; the net's lock is held) -------------------- */
struct tcr_msg {
    struct tcr_pending p;
    char *data;
    size_t bytes, at, part;          /* part: of the message under way */
    int16_t lane;
    bool send, active;
    int peer, tag;
};
int tcr_msg_start(struct tcr_net *net, struct tcr_msg *m, bool send, int lane, int peer, int tag, void *data,
                  size_t bytes);
int tcr_msg_poll(struct tcr_net *net, struct tcr_msg *m, bool *moved);      /* m->active turns false when it is over */
void tcr_msg_cancel(struct tcr_net *net, struct tcr_msg *m);

/* -- The net of a process -------------------------------------------------------------------------------- */
struct tcr_watch;
struct tcr_net {
    const struct tcr_engine *engine;
    void *data;                      /* the engine's */
    int rank, size, local_rank, local_size;
    bool threaded;                   /* a thread of ours may call the engine */
    struct tcr_op *ops;              /* under way */
    struct tcr_watch *watch;
    double timeout, first_timeout;   /* seconds; as it began */
    bool broken;                     /* for good; `why` says what happened */
    char why[512];
    struct tcr_lock *lock;
    atomic_int waiting;              /* callers that move things on themselves */
    enum tcr_peers_use peers;        /* exchanges between devices by a library of theirs */
    bool exact;                      /* in them, too, sums are in the order of ranks */
    struct tcr_meeting *meeting;     /* NULL: the engine's ranks don't meet so */
    /* A world that may lose ranks and take new ones. joins: this process is no rank yet, since the job runs already. */
    bool elastic, joins;
    struct tcr_launch from;          /* where it comes from: before, ready, least */
};
/* from: NULL, or what an elastic world is made from anew. *out is NULL where this process has to join later. */
int tcr_net_open(const struct tcr_engine *engine, const struct tccrt_comm_options *options, double timeout,
                 const struct tcr_launch *from, struct tcr_net **out);
/* For engines: their ranks meet, by which this one becomes the net's, and says who it has become. */
int tcr_net_meet(struct tcr_net *net, struct tcr_launch *l, struct tcr_card mine, const struct tcr_card **cards);
/* The net goes, without a word to the others; the meeting is the caller's. */
struct tcr_meeting *tcr_net_leave(struct tcr_net *net);
int tcr_net_close(struct tcr_net *net, const char *why);
double tcr_net_patience(const struct tcr_net *net);              /* seconds that an engine may take to begin */
void tcr_net_lock(struct tcr_net *net);
void tcr_net_unlock(struct tcr_net *net);
void tcr_net_progress(struct tcr_net *net);                      /* locked: moves on everything */
/* Locked: the net is broken from now on, whatever is under way fails; the others are told unless it was they who said
 * so. */
void tcr_net_break(struct tcr_net *net, bool tell, const char *format, ...) __attribute__((format(printf, 3, 4)));
int tcr_net_status(struct tcr_net *net);                         /* TCC_OK, or TCC_EENV with why it is broken */
/* presence.c: whose variables say which rank this is; before anything else */
void tcr_launched(enum tcr_launcher how);
void tcr_arrive(bool here);                  /* this rank has come, and others see its process; or it leaves */
void tcr_absent(char *text, size_t size);    /* "rank 1, 3 has", for "... not come" */
/* The process of a rank of this machine that has been there; *process: its number, 0 at first. */
enum tcr_life { TCR_ALIVE, TCR_STOPPED, TCR_GONE };
enum tcr_life tcr_look(int rank, long *process);
/* A rank of this machine that was there at an earlier call, or is since this one, and whose process has ended; -1:
 * none. */
int tcr_left(void);
void tcr_accuse(int rank);                   /* of being dead: tcr_left() of all others of this machine gives it too */
/* has a rank of this machine waited for another in vain? tcr_absent() tells the others so */
bool tcr_given_up(void);
/* Before a rank that gives up ends, which must not be taken for the one that is missing: waits until all others of this
 * machine give up too, between `least` and `most` seconds. */
void tcr_part(double least, double most);
/* are ranks of this world named as the launcher numbered them? */
bool tcr_numbered_as_launched(int rank, int size);
double tcr_seconds(void);
/* between looks at something: the longer idle, the longer */
void tcr_pause(int *idle);

/* -- failure_detector.c ------------------------------------------------------------------------------- */
extern atomic_ullong tcr_work;               /* counts what this process does: steps, calls */
int tcr_watch_new(struct tcr_net *net);
void tcr_watch_free(struct tcr_net *net);
int tcr_watch_poll(struct tcr_net *net, double now);             /* locked */
/* locked: the engine has no connection to it any more */
void tcr_watch_lost(struct tcr_net *net, int rank);
void tcr_watch_tell(struct tcr_net *net, const char *why);       /* all ranks: this one has failed */
void tcr_watch_bye(struct tcr_net *net, const char *why);        /* all ranks: this one has ended */
bool tcr_watch_alone(struct tcr_net *net, int *missing);         /* have all others ended? else one that has not */
bool tcr_watch_quiet(struct tcr_net *net);                       /* nothing is left to be sent */

#endif
