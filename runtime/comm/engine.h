/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h - engines of communication: what carries messages between the ranks of a job. runtime/comm/engines.def lists
 * them;
 * --comm, TCCC_COMM and tccrt_comm_options.engine name one.
 *
 * An engine gives: a beginning (who am I of how many, and who shares my machine), tagged messages of host memory that
 * don't block, a turn for the library to get on, and an end. All else is made of that once, for every engine:
 * collectives, reductions, groups, time limits, and who is to blame when a rank fails
 * (coll.c, sum.c, net.c, failure_detector.c).
 * So results are the same bits whatever the engine.
 *
 * Operations on memory of devices are done by a library of the devices' (NCCL; peers.c); an engine's messages are what
 * ranks begin with there, and watch each other by.
 *
 * Each function but open() and rest() is called with the net's lock held, by one thread at a time, though not always
 * the same one. They return a tcc_status with a message in tccrt_error(), and never block.
 */
#ifndef TCCRT_COMM_ENGINE_H
#define TCCRT_COMM_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Messages of different lanes do not see each other. */
enum tcr_lane { TCR_LANE_COLLECTIVE, TCR_LANE_POINT, TCR_LANE_CONTROL, TCR_NLANES };
#define TCR_TAG_BITS 22                      /* of any lane */
#define TCR_MESSAGE_BYTES ((size_t)1 << 30)  /* the longest message */
#define TCR_POINT_BITS 13                    /* of a send's own tag; the rest names the group */

struct tcr_net;
struct tccrt_comm_options;

/* A message that is under way, the engine's own. */
union tcr_handle { void *pointer; int number; };
struct tcr_pending { union tcr_handle at[2]; };

/* What tells processes who they are. */
enum tcr_launcher {
    TCR_LAUNCHER_MPI,                /* what mpirun and srun set: OMPI_*, PMIX_*, PMI_*, SLURM_* */
    TCR_LAUNCHER_VARIABLES           /* RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT */
};

struct tcr_engine {
    const char *name;                /* "mpi", as --comm has it */
    const char *title;               /* "MPI", in messages */
    enum tcr_launcher launcher;
    /* Begins: fills in net->rank, size, local_rank, local_size, threaded (may a thread of ours call it while the
     * program computes?). May block until all ranks are there, for tcr_net_patience() at most where that is in its
     * hands; ranks that have not come are named by tcr_net_absent(). On failure close() is not called. */
    int (*open)(struct tcr_net *net, const struct tccrt_comm_options *options);
    /* Ends. broken: ranks may be gone, the job is given up, nothing that waits for others may be called. */
    void (*close)(struct tcr_net *net, bool broken);
    /* NULL, or moves on everything; called before a round of test(). */
    void (*progress)(struct tcr_net *net);
    /* NULL, or sleeps a few ms, or until something has come since the last progress(). Without the net's lock, by any
     * thread. */
    void (*rest)(struct tcr_net *net);
    /* Starts a message of at most TCR_MESSAGE_BYTES, in order for each (lane, rank, tag); the memory is the engine's
     * until test() says done. from -1: anybody. A rank that is lost is no failure of the message: it stays under way,
     * and tcr_watch_lost() is told. */
    int (*send)(struct tcr_net *net, int lane, int to, int tag, const void *data, size_t bytes, struct tcr_pending *p);
    int (*recv)(struct tcr_net *net, int lane, int from, int tag, void *data, size_t bytes, struct tcr_pending *p);
    int (*test)(struct tcr_net *net, struct tcr_pending *p, bool *done);
    void (*cancel)(struct tcr_net *net, struct tcr_pending *p);              /* forgets a message */
};
extern const struct tcr_engine tcr_mpi, tcr_ucx, tcr_shared;

/* What the ranks begin with: what `options` or TCCC_COMM names, "ENGINE[+nccl[:exact]]" or "nccl[:exact]", else what
 * the launcher suits. engine is NULL where the process was started alone. TCC_EUSAGE: no engine of that name; TCC_EENV:
 * the launcher does not suit it. */
enum tcr_peers_use { TCR_PEERS_WHERE_THERE, TCR_PEERS_NEVER, TCR_PEERS_ALWAYS };    /* an engine alone: never */
struct tcr_choice { const struct tcr_engine *engine; enum tcr_peers_use peers; bool exact; };
int tcr_engine_choose(const struct tccrt_comm_options *options, struct tcr_choice *choice);

/* What the variables of TCR_LAUNCHER_VARIABLES say. */
struct tcr_launch {
    int rank, size;
    int local_rank, local_size;      /* -1: not said */
    const char *host;                /* of rank 0 */
    int port;                        /* of rank 0: the first that is tried */
    bool port_taken;                 /* the launcher itself listens there */
    /* A world that may lose ranks and take new ones (rendezvous_again.c). before: the meeting of the world that this
     * rank comes from; ready: it comes from none, to a job that runs. With fewer than `least` ranks there is no job. */
    bool elastic, ready;
    struct tcr_meeting *before;
    int least;
};
int tcr_launch_read(struct tcr_launch *l);   /* TCC_EENV: what is missing or wrong */

/* -- Meeting (rendezvous.c) ------------------------------------------------------------------------
 * Ranks that have nothing but the variables find each other: all connect to rank 0 by TCP, each gives a card (bytes
 * that the engine chooses) and gets those of all. */
#define TCR_CARD_BYTES ((size_t)1 << 16)     /* the longest card */
#define TCR_ELASTIC_RANKS 64                 /* of a world that may take ranks, at most */

struct tcr_meeting;
struct tcr_card { size_t bytes; const unsigned char *data; };

/* Blocks until `seconds` are over at most. The meeting is the caller's, cards[size] live as long as it. TCC_EENV: ranks
 * that have not come or are gone, by their numbers; all others are told the same. */
int tcr_meet(const struct tcr_launch *l, const char *title, double seconds, double limit, struct tcr_card mine,
             struct tcr_meeting **out, const struct tcr_card **cards);
/* Bits that only who took part knows: of the table and the job's secret. */
uint32_t tcr_meet_tag(const struct tcr_meeting *m);
/* Everybody meets again at the end: true when all have come to this call, or have gone. Does not block; to be called
 * until then. */
bool tcr_meet_again(struct tcr_meeting *m);
void tcr_meet_free(struct tcr_meeting *m);   /* NULL: nothing */

/* Who this rank has become. False: nobody yet: the job runs already, and takes new ranks between steps. */
bool tcr_meet_place(const struct tcr_meeting *m, int *rank, int *size);
/* While an elastic world lasts: who has come is heard. True: a rank has begun to meet anew. Does not block. */
bool tcr_meet_tend(struct tcr_meeting *m);
bool tcr_meet_gone(const struct tcr_meeting *m, int rank);   /* has its connection ended? rank 0 sees all, others it */
int tcr_meet_waiting(const struct tcr_meeting *m);           /* rank 0: processes that wait to become ranks */

#endif
