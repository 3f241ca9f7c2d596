/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_int.h - inside of the simulated NCCL.
 *
 *   init.c      unique ids, the memory that ranks share, communicators: beginning, end, errors
 *   give.c      calls become operations; groups; what a communicator that doesn't block has still to enqueue
 *   run.c       an operation in the simulator's queue: its bytes through pipes, results, modelled time
 *   check.c     do the ranks do the same, in the same order?
 *   numbers.c   element types and reductions
 *
 * The id's bytes name a file without a name (memfd) of the process that made it, which the others open through /proc.
 * In it each rank has a row: what it was given, when it could begin; and each pair of ranks a pipe. One lock guards
 * what a process has of it; the driver is never called with it held, as the driver calls time() and drop() with its
 * own.
 */
#ifndef TCCC_SIM_NCCL_INT_H
#define TCCC_SIM_NCCL_INT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sim/link.h"
#include "sim/nccl/nccl.h"

/* -- The simulator's driver (sim/ptx/driver.h), as far as it is used here -- */
typedef struct CUctx_st *CUcontext;
enum sim_outside { SIM_PENDING, SIM_DONE, SIM_ILLEGAL };
struct sim_outside_work {
    enum sim_outside (*poll)(void *data);
    bool (*time)(void *data, double start, double *end);
    void (*drop)(void *data);
    void *data;
};
extern int ptx_driver_outside(void *stream, const struct sim_outside_work *w);
extern bool ptx_driver_read(void *to, uint64_t from, size_t bytes);
extern bool ptx_driver_write(uint64_t to, const void *from, size_t bytes);
extern const char *ptx_driver_machine(void);
extern int cuCtxGetCurrent(CUcontext *ctx), cuCtxPushCurrent_v2(CUcontext ctx), cuCtxPopCurrent_v2(CUcontext *ctx),
                           cuCtxGetDevice(int *device);
extern int cuDeviceGetUuid_v2(char uuid[16], int device);

/* -- Shared by the ranks -- */
enum { FAKE_MAX_RANKS = 64, FAKE_RING = 512, FAKE_OTHERS = 4, FAKE_PIPE = 1 << 20 };
#define FAKE_MAGIC 0x6c63636e63636374u

enum fake_kind {
    FAKE_ALL_REDUCE, FAKE_REDUCE, FAKE_BROADCAST, FAKE_ALL_GATHER, FAKE_REDUCE_SCATTER, FAKE_SEND, FAKE_RECV
};
/* collectives of another communicator that the process was given before */
struct fake_other { uint64_t tag, count; };
struct fake_row {                                            /* of a collective; number + 1 says that it is there */
    _Atomic uint64_t written, timed;
    int kind, type, op, root;
    uint64_t n;
    struct fake_other others[FAKE_OTHERS];
    double start;                                            /* modelled; there when `timed` is */
};
struct fake_rank {
    _Atomic int here;                                        /* 1: its process and device can be read; 2: it has left */
    pid_t process;
    char device[16];
    _Atomic uint64_t done;                                   /* collectives */
    struct fake_row rows[FAKE_RING];
};
struct fake_pipe { _Alignas(64) _Atomic uint64_t written; _Alignas(64) _Atomic uint64_t taken; char data[FAKE_PIPE]; };
struct fake_shared {
    uint64_t magic, secret;
    _Atomic int size, failed;                                /* failed: by whom, rank + 1 */
    char why[400];
    struct fake_rank ranks[];                                /* then size * size pipes */
};

/* -- Of a rank -- */
/* theirs: by rank */
struct fake_item {
    enum fake_kind kind;
    uint64_t in, out;
    size_t n;
    int type, op, root;
    uint64_t number;
    double factor;
    char *mine, **theirs;
};
struct fake_flow {
    struct fake_flow *next;
    int peer;
    bool out, headed, over;
    int kind, type;
    uint64_t bytes, at;
    char *data;
};
struct fake_op {                                             /* of one communicator and stream, a group's */
    struct fake_op *next;
    struct ncclComm *comm;
    void *stream;
    int nitems, room, refs;
    struct fake_item *items;
    bool started, done;
    double since;
    struct fake_flow *flows, **last_flow;
};
struct fake_factor { double value; bool used; };
struct ncclComm {
    uint64_t magic;
    struct ncclComm *next;
    struct fake_shared *shared;
    size_t bytes;
    uint64_t tag;
    int rank, size, device, refs;
    CUcontext ctx;
    bool blocking, ready, aborted;
    ncclResult_t error;
    char why[400];
    double since;
    uint64_t given;                                          /* collectives */
    struct fake_op *first, *last;                            /* enqueued and not done */
    struct fake_op *waiting;                                 /* to be enqueued */
    int polls;                                               /* before it is */
    struct fake_factor factors[16];
};
extern struct fake { pthread_mutex_t lock; struct ncclComm *comms; uint64_t draws; } fake;

double fake_seconds(void);
double fake_patience(void);
bool fake_is(const struct ncclComm *c);
/* The communicator has failed, for good, in all ranks if `tell`. Locked. */
ncclResult_t fake_fail(struct ncclComm *c, ncclResult_t r, bool tell, const char *format,
                       ...) __attribute__((format(printf, 4, 5)));
/* without one */
ncclResult_t fake_say(ncclResult_t r, const char *format, ...) __attribute__((format(printf, 2, 3)));
void fake_unref(struct ncclComm *c);                         /* locked */
struct fake_pipe *fake_pipe_of(const struct ncclComm *c, int from, int to);

/* give.c */
ncclResult_t fake_enqueue(struct ncclComm *c);               /* what is waiting; not locked */
void fake_op_unref(struct fake_op *op);                      /* locked */
const char *fake_name(int kind);
bool fake_collective(enum fake_kind k);
/* run.c: what the driver calls */
enum sim_outside fake_poll(void *op);
bool fake_time(void *op, double start, double *end);
void fake_drop(void *op);
/* check.c, locked */
void fake_describe(struct ncclComm *c, struct fake_item *i);
bool fake_compare(struct ncclComm *c, const struct fake_item *i);            /* false: it has failed */
/* numbers.c */
size_t fake_bytes(int type);
/* Elements of `ranks` ranks become one, from rank `first` on, in the order of a ring. op < 0: the sum of products with
 * `factor` */
void fake_reduce(int type, int op, double factor, int ranks, int first, char *const *in, size_t at, size_t n,
                 char *out);

#endif
