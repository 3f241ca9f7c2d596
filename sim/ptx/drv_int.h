/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the driver functions (drv_*.c). One lock guards everything. Work is an op with dependencies: its stream's
 * last op, events waited for, the legacy stream's rules, edges of a graph. An op whose dependencies are done is ready;
 * whoever needs progress runs ready ones, in an order drawn from the seed, with the lock released while one runs
 * (`executing`).
 */
#ifndef TCCC_DRV_INT_H
#define TCCC_DRV_INT_H

#include <pthread.h>
#include <stdio.h>

#include "sim/ptx/driver.h"

#define DRV_MAX_DEVICES 16

/* -- Work -- */
enum drv_kind { WORK_MARK, WORK_KERNEL, WORK_COPY, WORK_FILL, WORK_HOST, WORK_FREE, WORK_OUTSIDE };
/* of a copy: first byte (of the host or a device), bytes between rows and slices */
struct drv_side { uint64_t at, pitch, slice; };
struct drv_work {
    enum drv_kind kind;
    CUcontext ctx;
    char who[64];
    struct ptx_range *ranges; int nranges;               /* owned */
    CUfunction func;                                     /* kernels */
    struct ptx_launch launch;                            /* its params are owned */
    struct drv_side to, from;                            /* copies; fills: to */
    size_t width, height, depth;
    /* owned: what a pageable source held; `from` then lies in it */
    void *staged;
    uint32_t value, element;                             /* fills: element bytes */
    CUhostFn fn; void *data;
    CUdeviceptr freed;
    struct ptx_outside_work outside;
};
bool drv_work_copy(struct drv_work *to, const struct drv_work *from);
void drv_work_free(struct drv_work *w);

struct drv_op {
    uint64_t id;
    int slot, waiting, refs;
    uint64_t clock[PTX_SLOTS];                           /* what happened before it; its own entry is its id */
    uint64_t rank;                                       /* drawn from the seed */
    struct drv_op **deps; int ndeps;                     /* held until its times are known */
    struct drv_op **next; int nnext, next_room;          /* what waits for it */
    bool in_graph;                                       /* no call of its own gave it */
    bool done, extended, timed, is_sync;                 /* is_sync: no work, the host waited for deps[0] */
    struct drv_work work;
    double seconds, start, end;                          /* modelled; seconds: its own duration */
    double before[2];                                    /* of a mark: when what it stands behind began and ended */
    /* of a kernel, and a mark behind it: what its time is that of; NULL: no kernel */
    const char *bound;
    struct drv_op *later;                                /* the next one to be timed */
};
struct drv_deps { struct drv_op **at; int n, room; };

/* -- Objects: each begins with a magic number, 0 once it is gone -- */
enum {
    MAGIC_CTX = 0x7c01, MAGIC_STREAM, MAGIC_EVENT, MAGIC_MODULE, MAGIC_FUNCTION, MAGIC_GRAPH, MAGIC_NODE, MAGIC_EXEC
};
#define IS(p, kind) ((p) && *(const unsigned *)(p) == MAGIC_##kind)

struct drv_nodes { CUgraphNode *at; int n, room; };
struct CUstream_st {
    unsigned magic;
    CUcontext ctx;
    unsigned flags;
    int priority;
    bool legacy;
    pthread_t owner; bool per_thread;
    struct drv_op *last;
    struct drv_capture *capture; struct drv_nodes tips;  /* nodes that the next one depends on */
    CUstream next;
};
struct CUevent_st {
    unsigned magic;
    CUcontext ctx;
    unsigned flags;
    struct drv_op *op;
    struct drv_capture *capture;
    struct drv_nodes tips;
    CUevent next;
};
struct CUctx_st {
    unsigned magic;
    int device, refs;
    bool primary;
    unsigned flags, peers;                               /* peers: bits of the devices whose memory its kernels reach */
    CUresult sticky;
    uint64_t clock[PTX_SLOTS];                           /* of all its ops */
    struct CUstream_st legacy;
    CUstream streams;                                    /* created ones and those of threads */
    CUevent events;
    CUmodule modules;
};
struct CUfunc_st { unsigned magic; CUmodule module; const struct ptx_kernel *kernel; int dynamic; CUfunction next; };
struct CUmod_st { unsigned magic; CUcontext ctx; struct ptx_module *m; int sm; CUfunction functions; CUmodule next; };
struct CUgraphNode_st {
    unsigned magic;
    CUgraph graph;
    int type, number, exec_index;
    struct drv_work work;
    CUgraph child;
    struct drv_nodes deps;
};
struct CUgraph_st { unsigned magic; struct drv_nodes nodes; int refs; };
struct CUgraphExec_st {
    unsigned magic;
    int n;
    /* dependencies come first */
    struct drv_exec_node { int type, ndeps, *deps; struct drv_work work; CUgraphNode of; } *nodes;
    struct drv_op *last;
};
struct drv_capture {
    CUstream origin;
    CUgraph graph;
    CUcontext ctx;
    int mode, refs;
    bool broken, over;
    pthread_t thread;
    struct drv_capture *next;
};

/* -- The driver -- */
struct drv_pinned { void *p; size_t bytes; unsigned flags; bool registered; };
struct drv_reserved { uint64_t at; size_t bytes; };
struct drv_memory { struct ptx_memory *m; size_t bytes; int device, maps; bool released; };
/* access: bits of the devices that see it */
struct drv_mapping { uint64_t at; size_t bytes; int memory; unsigned access; size_t offset; };
struct CUmemPool_st { int device; uint64_t threshold; };
struct drv {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ready, executing, helper;
    int ndevices;
    const struct sim_machine *machine;
    size_t memory;                                       /* bytes of each device */
    struct drv_faults {
        int version;                                     /* that cuDriverGetVersion() says */
        char function[64]; uint64_t fail_at, calls; CUresult with;
        uint64_t lose_at, launches;
        uint64_t waits;                                  /* calls in which the host waited */
    } faults;
    struct drv_device {
        struct ptx_device *d;
        CUcontext primary; unsigned primary_flags;
        bool lost;
        size_t used;
        struct CUmemPool_st pool; size_t pool_high;
        struct ptx_counters count;
        double engine_busy[3];
        double links_free;                               /* modelled: when work of others' part is through */
        /* modelled: when kernels, copies from and to the host are through */
        double engine_free[3];
        struct drv_alloc { uint64_t at; size_t bytes; bool async; } *allocs; int nallocs, alloc_room;
    } devices[DRV_MAX_DEVICES];
    uint64_t seed, random, ids;
    FILE *transcript;                                    /* of calls; NULL: not asked for */
    int slots;
    struct drv_op **queue; int nqueue, queue_room;       /* ready */
    struct drv_op *untimed, **untimed_end;
    double host_time, last_end;                          /* modelled: of the host's calls, of all work */
    uint64_t host[PTX_SLOTS];                            /* what the host has waited for */
    bool time_only;                                      /* ptx_driver_time_only() */
    /* launches that have been timed */
    struct drv_samples { struct drv_sample { uint64_t key; double seconds; const char *bound; } *at; int n,
        room; bool decided; } samples;
    struct drv_capture *captures;
    struct drv_pinned *pinned; int npinned, pinned_room;
    struct drv_reserved *reserved; int nreserved, reserved_room;
    struct drv_memory *memories; int nmemories, memory_room;
    struct drv_mapping *mappings; int nmappings, mapping_room;
};
extern struct drv drv;

/* Takes the lock and says whether a function may go on; the lock is held in every case until drv_leave(). */
/* quiet: nothing executes; safe: forbidden while capturing; waits: the host does */
enum { NEED_INIT = 1, NEED_CTX = 2, NEED_QUIET = 4, NEED_SAFE = 8, WAITS = 16 };
CUresult drv_enter(const char *function, int need);
CUresult drv_leave(CUresult r);
CUresult drv_told(const char *function, CUresult r);     /* into the transcript, if there is one; r */
#define API(name, need, args, body)         \
    CUresult name args                      \
    {                                       \
        CUresult r_ = drv_enter(#name, need); \
        return drv_leave(drv_told(#name, r_ ? r_ : (body))); \
    }
CUcontext drv_current(void);
void drv_quiet(void);                                                /* waits until nothing executes */
bool drv_room(void *list, int n, int *room, size_t each);            /* list: address of a pointer; room for one more */
void drv_next_work(struct drv_work *w);                              /* takes what ptx_driver_next() said */
uint64_t drv_draw(void);
CUresult drv_error_named(const char *text, size_t n);                /* a number or a name; CUDA_SUCCESS: it is none */

/* -- Faults that the environment asks for (drv_fault.c) -- */
CUresult drv_fault_init(void);
/* what this call is to return, once it is its turn */
CUresult drv_fault_call(const char *function);
CUresult drv_fault_launch(CUcontext ctx);                            /* a kernel is about to run */
bool drv_is_sticky(CUresult r);                                      /* it ends its context */
bool drv_reads_ptx(const char *ptx);                                 /* is its .version one of the driver's time? */

/* -- Time alone (drv_sample.c); used while an op executes, so by one thread at a time -- */
/* a launch like one that has run */
bool drv_sample_known(const struct drv_work *w, double *seconds, const char **bound);
/* a few blocks; counters are the whole launch's */
bool drv_sample_run(struct drv_work *w, struct ptx_device *d, struct ptx_counters *c, char *error);
void drv_sample_keep(const struct drv_work *w, double seconds, const char *bound);
void drv_sample_forget(void);                                        /* sizes may be others now */

/* -- Queue (drv_queue.c) -- */
/* takes w and the list; *op: a reference */
CUresult drv_push(struct drv_deps *deps, struct drv_work *w, struct drv_op **op);
CUresult drv_dep(struct drv_deps *deps, struct drv_op *op);
void drv_unref(struct drv_op *op);
CUresult drv_wait(struct drv_op *op);                                /* the host waits; NULL: nothing to wait for */
void drv_seen(struct drv_op *op);                                    /* the host knows that it is done */
void drv_settle_all(void);                                           /* until those of all that is done are known */
void drv_time(struct drv_op *op);                                    /* until its modelled times are known */
void drv_drain(CUcontext ctx);                                       /* everything of a context; NULL: everything */
/* drv_run.c: executes; modelled seconds. again: it is not over */
double drv_run(struct drv_work *w, struct drv_op *op, bool *again);

/* -- Streams (drv_stream.c) and their capture (drv_capture.c) -- */
/* default handles become streams of the current context */
CUresult drv_stream(CUstream handle, CUstream *s);
/* into the stream, or as a node of its capture; takes w */
CUresult drv_enqueue(CUstream s, struct drv_work *w, bool wait);
void drv_stream_drop(CUstream s);
void drv_event_drop(CUevent e);
/* Whether a blocking stream of it is being captured, which what the legacy stream is given breaks. */
bool drv_ties_capture(CUcontext ctx);
/* an unsafe call while a capture is going on; breaks it */
bool drv_capture_forbids(void);
void drv_capture_unref(struct drv_capture *c);
CUresult drv_capture_breaks(struct drv_capture *c, CUresult why);    /* what is captured is lost; gives `why` */
void drv_nodes_free(struct drv_nodes *n);
bool drv_nodes_set(struct drv_nodes *to, const struct drv_nodes *from);

/* -- Graphs (drv_graph.c) -- */
CUgraph drv_graph_new(void);
void drv_graph_unref(CUgraph g);
/* takes w */
CUresult drv_node_add(CUgraph g, int type, struct drv_work *w, const CUgraphNode *deps, size_t n, CUgraphNode *node);
bool drv_nodes_add(struct drv_nodes *list, CUgraphNode node);        /* once */

/* -- Memory (drv_memory.c, drv_copy.c) -- */
int drv_device_of(uint64_t address);                                 /* -1: of the host */
bool drv_is_pinned(uint64_t address, size_t bytes);
bool drv_is_device(uint64_t address, size_t bytes);                  /* live memory of a device, or mapped */
void drv_release(struct drv_device *d, CUdeviceptr at);
void drv_device_reset(int device);

/* -- Modules (drv_module.c) -- */
void drv_module_drop(CUmodule m);
CUresult drv_kernel_work(struct drv_work *w, CUfunction f, const unsigned *grid, const unsigned *block,
                         unsigned shared, void **params, void **extra);

#endif
