/* SPDX-License-Identifier: Apache-2.0 */
/*
 * split_int.h - cpu-split: the host's kernels over a memory that the host can't touch. It is there for tests: what
 * works on it doesn't depend on a memory that the host shares, nor on work being done when it is given.
 *
 *   card.c     the memory: addresses that nobody may touch, and a mapping of the same bytes that only kernels and
 *              copies see
 *   clock.c    who has waited for whom: a vector clock a queue, and the last accesses of every range of bytes
 *   queue.c    work that was given, and the order in which it runs: seeded, legal, and as unlike the order given as it
 *              may be
 *   program.c  work that is recorded once and replayed
 *   split.c    the door
 */
#ifndef TCCRT_DEVICE_SPLIT_INT_H
#define TCCRT_DEVICE_SPLIT_INT_H

#include "runtime/device/cpu/cpu_int.h"

#define SPLIT_POISON 0xff        /* a NaN in every float type, -1 in signed integers */
#define SPLIT_MAX_QUEUES 32

/* -- card.c: one a process, as a machine's memory is. Thread-safe */

struct split_card;
struct split_card *split_card_get(void);                             /* NULL: there is none, message set */
void split_card_put(struct split_card *c);                           /* the last one gives its memory back */
size_t split_card_bytes(const struct split_card *c);
/* An address of `bytes` bytes with `room` addresses behind it (at least bytes). Its bytes are 0 or poison. NULL: no
 * memory. */
void *split_card_alloc(struct split_card *c, size_t bytes, size_t room, bool zeroed);
/* as far as its room goes; new bytes are poison */
bool split_card_extend(struct split_card *c, void *p, size_t bytes);
/* free() has been called, work that was given before may still use it; and it is gone. */
void split_card_retire(struct split_card *c, void *p);
void split_card_free(struct split_card *c, void *p);
/* Where kernels see [p, p + bytes); NULL: not all of it lies in one allocation. *what: why not. retired: one that was
 * freed will do. */
void *split_card_see(struct split_card *c, const void *p, size_t bytes, bool retired, const char **what);
/* is it one of its addresses, of an allocation or not? */
bool split_card_owns(const struct split_card *c, const void *p);

/* -- clock.c */

struct split_segment { uintptr_t from, to; uint32_t write, written, reads[SPLIT_MAX_QUEUES + 1]; const char *node[2]; };
struct split_clocks {
    uint32_t now[SPLIT_MAX_QUEUES + 1][SPLIT_MAX_QUEUES + 1];        /* 0: the host; q + 1: queue q */
    uint32_t (*events)[SPLIT_MAX_QUEUES + 1];
    uint32_t nevents;
    struct split_segment *segments;                                  /* by address, disjoint */
    size_t nsegments, room;
};
/* Work begins in a queue (-1: the host does something): then each of its accesses. TCC_EBUG: something that it doesn't
 * wait for. */
void split_clock_begin(struct split_clocks *k, int queue);
int split_clock_access(struct split_clocks *k, int queue, const struct tcr_access *a, const char *node);
/* would a write be waited for? */
bool split_clock_free_of(struct split_clocks *k, int queue, const void *at, size_t bytes);
int split_clock_events(struct split_clocks *k, uint32_t n);          /* room for them */
void split_clock_record(struct split_clocks *k, int queue, uint32_t event);
void split_clock_wait(struct split_clocks *k, int queue, uint32_t event);
void split_clock_all(struct split_clocks *k);                        /* the host has waited for everything */
int split_clock_forget(struct split_clocks *k, const void *at, size_t bytes);        /* other memory lies there now */

/* -- queue.c */

enum split_kind {
    SPLIT_LAUNCH, SPLIT_COPY, SPLIT_FILL, SPLIT_FREE, SPLIT_RECORD, SPLIT_WAIT, SPLIT_CONTROL, SPLIT_VALUES,
    SPLIT_PROGRAM
};
struct split_program;
struct split_op {
    struct split_op *next;
    enum split_kind kind;
    const char *node;
    struct tcr_kernel_launch launch;                                 /* its lists are the op's own */
    struct tcr_copy copy;                                            /* COPY; FILL, FREE: `to` and `bytes` */
    int byte;
    uint32_t tag;                                                    /* for profiles */
    uint32_t event, turn;                                            /* RECORD, WAIT: of the event */
    /* CONTROL; its values are launch.sizes, and so are those of VALUES */
    uint64_t seed; int64_t run;
    uint32_t first;                                                  /* VALUES: the number of their first one */
    struct split_program *program;
    bool kept;                                                       /* a program's: not freed when it has run */
};
struct split_queue { struct split_op *first, **last; };
struct split_event { uint32_t recorded, done; };

struct split_program {
    struct split_program *next;
    uint32_t number;
    uint64_t digest, age;
    struct split_op *ops, **last;
    struct split_op *at;                                             /* while it is compared: the one to come */
    int64_t runs, launches;                                          /* launches: that it holds */
};

struct tcr_split {
    struct tcr_device device;        /* first */
    struct tcr_cpu *cpu;             /* threads and kernels */
    struct split_card *card;
    struct tcr_env *envs;            /* by thread: struct tcc_env in the card's memory, the fault word with it */
    int64_t *control;                /* there too: the values of the control block */
    uint32_t ncontrol;
    struct split_queue queues[SPLIT_MAX_QUEUES];
    int nqueues;
    struct split_event *events;
    uint32_t nevents;
    struct split_clocks clocks;
    uint64_t random, seed;
    struct tcr_timed *timed;
    size_t ntimed, timed_room;
    const struct tccrt_device_allocator *allocator;                  /* the caller's; NULL: the card's */
    void *own_weights;               /* with it */
    struct tcc_env met;              /* of the kernel that met a bad index, and its launch's `checks` */
    const char *met_checks;
    struct split_program *programs, *recording, *comparing;
    uint64_t age;
    enum split_kind drop_kind;       /* for tests: the wait or copy that is left out */
    int64_t drop;                    /* how many come before it */
};

struct split_op *split_op_new(enum split_kind kind, const char *node);       /* NULL: no memory, message set */
void split_op_free(struct split_op *op);
/* gives memory back: to the caller's allocator, or the card */
void split_put(struct tcr_split *s, void *p);
/* Gives work to a queue, or to the program that is being recorded; takes it over. */
int split_give(struct tcr_split *s, int queue, struct split_op *op);
int split_run(struct tcr_split *s, struct split_op *op);             /* now */
/* Runs what an event needs (TCR_ALL: all there is), and whatever comes before it in the seed's order. */
int split_until(struct tcr_split *s, uint32_t event);

/* -- program.c */
int split_program(struct tcr_device *d, int queue, uint32_t number, uint64_t digest, int *how);
int split_program_end(struct tcr_device *d, int queue);
/* while one is recorded or compared; takes it over */
int split_program_add(struct tcr_split *s, struct split_op *op);
void split_programs_free(struct tcr_split *s);
void split_program_abort(struct tcr_split *s);              /* a run that failed within one */
/* What the work does to memory, checked and remembered. */
int split_accesses(struct tcr_split *s, int queue, const struct split_op *op);

int tcr_device_split(const struct tcr_device_request *r, struct tcr_device **out);

#endif
