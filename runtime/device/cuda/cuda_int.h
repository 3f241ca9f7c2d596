/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_int.h - NVIDIA GPUs, through the CUDA driver that is opened when a session asks for it: libcuda.so.1, or the
 * simulator (libtccptx.so), which has the same functions. Nothing here is linked into artifacts that hold no image:
 * runtime/device/open.c refers to it weakly.
 *
 *   driver.c    the library, its functions (driver.def), its devices and their primary contexts: one of each a process
 *   image.c     images of an artifact (runtime/abi.h): which fits the device, its module and functions, the numbers of
 *               a launch
 *   helper.c    PTX of the runtime's own: copies that test the fault word, and what finds it
 *   memory.c    allocations in the order of streams, blocks that grow, weights
 *   staging.c   copies between the host and the device through pinned blocks
 *   launch.c    launches; maps.c: tensor maps, among their parameters
 *   program.c   programs as graphs
 *   timing.c    times of launches and copies, for profiles
 *   nccl.c      exchanges with other processes' devices
 *   cuda.c      the door: streams for queues, events, runs, faults
 *
 * Order. A queue is a stream, none of which waits for the driver's legacy stream. Memory is allocated in the order of
 * stream 0, for which the other streams then wait.
 *
 * Errors that end the context come with whatever call is made next: the message names the kernels that were under way,
 * from the first to the last that the host has not waited for. With CUDA_LAUNCH_BLOCKING=1, as for any program of CUDA,
 * each is waited for, and it is the one.
 *
 * Faults. The control block of the device (struct tcc_control) stands behind words that say which launch set the
 * fault: behind a kernel that may fault a helper notes its launch's `checks`, the run, and what the kernel says of the
 * index, once the fault word isn't 0. The host reads all when it waits.
 */
#ifndef TCCRT_DEVICE_CUDA_INT_H
#define TCCRT_DEVICE_CUDA_INT_H

#include "runtime/rt_int.h"

/* -- The driver's types: CUDA Driver API 13.0, x86-64 */

typedef struct CUctx_st *cuda_context;
typedef struct CUmod_st *cuda_module;
typedef struct CUfunc_st *cuda_function;
typedef struct CUstream_st *cuda_stream;
typedef struct CUevent_st *cuda_event;
typedef struct CUgraph_st *cuda_graph;
typedef struct CUgraphExec_st *cuda_graph_exec;
typedef struct CUmemPool_st *cuda_pool;
struct cuda_launch_attribute { uint32_t id, pad; union { char room[64]; uint32_t cluster[3]; } value; };
struct cuda_launch_config {
    uint32_t grid[3], block[3], shared;
    cuda_stream stream;
    struct cuda_launch_attribute *attributes;
    uint32_t count;
};
struct cuda_memory_kind { int type, handles, location, id; void *metadata; uint8_t flags[8]; };
struct cuda_memory_access { int location, id, flags; };
/* of the simulator, as ptxsim.h has it */
struct cuda_sim_range { uint64_t address, bytes; bool writable; char name[40]; };
struct ptx_report;
enum {
    CUDA_NO_MEMORY = 2, CUDA_NO_DEVICE = 100, CUDA_OLD_DRIVER = 222, CUDA_NOT_FOUND = 500, CUDA_NOT_READY = 600,
    CUDA_STREAM_NON_BLOCKING = 1, CUDA_EVENT_NO_TIMING = 2, CUDA_CAPTURE_RELAXED = 2,
    /* attributes of devices */
    CUDA_MULTIPROCESSORS = 16, CUDA_MAJOR = 75, CUDA_MINOR = 76, CUDA_HAS_VIRTUAL = 102, CUDA_HAS_POOLS = 115,
    CUDA_DYNAMIC_SHARED = 8,                                                              /* of functions */
    CUDA_POOL_KEEPS = 4, CUDA_ERROR_LOG = 5, CUDA_ERROR_LOG_SIZE = 6, CUDA_CLUSTER = 4
};

/* -- driver.c. Thread-safe */

struct cuda_api {
    void *library;
    const char *name;                /* "cuda" or "sim" */
    int devices;
    int version;                     /* 12040: CUDA 12.4 */
#define NEEDS(name, args) int(*name) args;
#define MAY(name, args) int(*name) args;
#include "runtime/device/cuda/driver.def"
};
/* One device of a driver, its primary context held. */
struct cuda_machine {
    struct cuda_machine *next;
    const struct cuda_api *cu;
    int ordinal, device, users;
    cuda_context context;
    int major, minor, multiprocessors;
    bool pools, virtual_memory;
    size_t memory, granule;          /* granule: of virtual memory */
    char name[80];
    cuda_module helper;
    cuda_function copy, note, probe; /* helper.c */
    struct cuda_code *codes;         /* image.c */
};
/* name: "cuda", "cuda:K", "sim", "sim:K". NULL: there is none, status and message set. */
struct cuda_machine *cuda_machine_get(const char *name, int *status);
void cuda_machine_hold(struct cuda_machine *m);
void cuda_machine_put(struct cuda_machine *m);
void cuda_lock(void);                /* for what a machine holds */
void cuda_unlock(void);
/* What a driver's result means, as tccrt_error() has it: "device 'cuda:0': cuMemAlloc: out of memory
 * (CUDA_ERROR_OUT_OF_MEMORY)". */
int cuda_says(const struct cuda_machine *m, int result, const char *call, const char *node);

/* -- helper.c */
extern const char cuda_helper_ptx[];

/* -- image.c */

struct cuda_launch {                 /* a function of a kernel */
    cuda_function function;
    const struct tcc_plaunch *record;
    uint32_t *needs;                 /* exprs that its numbers are made of, in their order */
    uint32_t nneeds;
    int shared;                      /* bytes that the function has been allowed */
};
struct cuda_code {                   /* an image on a machine, for all sessions */
    struct cuda_code *next;
    const struct tcc_pimage *image;
    int users;
    cuda_module *modules;
    uint32_t nmodules;
    struct cuda_launch *launches;
};
static inline const struct tcc_pmap *
cuda_map_list(const struct tcc_pimage *i, const struct tcc_plaunch *l)
{
    return (const void *)((const char *)i + i->bytes.first + l->recipes.first);
}
/* The first image that fits the machine; NULL: none does, status and message set. Put back with cuda_code_put(). */
struct cuda_code *cuda_code_get(struct cuda_machine *m, const struct tcr_device_request *r, int *status);
void cuda_code_put(struct cuda_machine *m, struct cuda_code *c);
static inline struct tcc_range
cuda_launches(const struct cuda_code *c, uint32_t kernel)
{
    return ((const struct tcc_range *)(const void *)((const char *)c->image + c->image->kernels.first))[kernel];
}

/* -- The device of a session */

enum { CUDA_MAX_QUEUES = 32, CUDA_BLOCKS = 2, CUDA_PROGRAMS = 8, CUDA_MAX_RANGES = 4 };
#define CUDA_OLDEST 11000                    /* version of a driver: the first with sm_80 */
#define CUDA_BLOCK ((size_t)4 << 20)         /* bytes of a pinned block */

struct cuda_block { char *at; size_t used; cuda_event passed; bool waits; };
/* Bytes that are under way to the host: they go from `from`, pinned, to `to` when `arrived` has been passed. */
struct cuda_landing { void *to; const void *from; size_t bytes; cuda_event arrived; };
struct cuda_queue {
    cuda_stream stream;
    struct cuda_block blocks[CUDA_BLOCKS];
    int block;                       /* the one that is filled */
    uint64_t scratch;
    size_t scratch_bytes;
};
/* Addresses of a block that grows. */
struct cuda_range { uint64_t at; size_t room, mapped; };
struct cuda_program {
    struct cuda_program *next;
    uint32_t number;
    uint64_t digest, age;
    cuda_graph_exec exec;            /* NULL: it was walked once */
    uint64_t *tables;                /* of its launches */
    uint32_t ntables;
    int64_t launches;                /* that it holds */
    const char *nodes[2];            /* of the first and the last of them */
};
struct cuda_timer { cuda_event from, to; struct tcr_timed what; };
struct tcr_cuda {
    struct tcr_device device;        /* first */
    struct cuda_machine *m;
    struct cuda_code *code;          /* NULL: the artifact has no image, and nothing is launched */
    struct tcr_heap *heap;
    const struct tccrt_device_allocator *allocator;  /* the caller's; NULL: the driver's */
    uint64_t own_weights;            /* with it */
    char name[24];
    int dead;                        /* a status: the context has failed, and `why` says how */
    char why[480];
    struct cuda_queue queues[CUDA_MAX_QUEUES];
    int nqueues;
    cuda_stream probe;               /* reads the fault word while queues go on */
    cuda_event *events, order;       /* order: what other streams wait for */
    uint32_t nevents;
    struct cuda_host { const char *at; size_t bytes; } *hosts;       /* the session's pinned memory */
    size_t nhosts, hosts_room;
    struct cuda_landing *landings;
    size_t nlandings, landings_room;
    cuda_event *spare;               /* events of landings that have arrived */
    size_t nspare, spare_room;
    struct cuda_timer *timers;       /* ntimers of them are in use */
    struct tcr_timed *timed;
    size_t ntimers, timers_made, timers_room;
    int64_t copy_bytes;              /* between the host and the device, so far */
    /* on the device: the word of the culprit's node, 64 bytes before struct tcc_control */
    uint64_t control;
    struct cuda_pinned *pinned;      /* what the control block is made of, and where the fault word is read to */
    size_t control_bytes;
    /* nodes of the first and the last kernel since the host has waited for all; NULL: there is none */
    const char *given[2];
    bool blocking;                   /* each kernel is waited for, and there are no graphs */
    bool unread;                     /* something may have faulted since the host read the word */
    /* room for the exprs of an image: what they are, or within what they lie for a program */
    struct tcr_interval *values;
    uint64_t *params;                /* and for the parameters of a launch */
    size_t params_room;
    struct cuda_range ranges[CUDA_MAX_RANGES];
    struct cuda_program *programs, *recording;
    int recording_queue;
    uint64_t age;
    struct cuda_applied *applied;    /* nccl.c: functions of the host that may be under way */
};

static inline struct tcr_cuda *
cuda_of(struct tcr_device *d)
{
    return (struct tcr_cuda *)d;
}
/* Every function of the door stands between these. enter: TCC_OK, or what the device died of. */
int cuda_enter(struct tcr_cuda *c);
int cuda_leave(struct tcr_cuda *c, int status);
/* A status for a driver's result, with a message; errors that end the context end the device. */
int cuda_check(struct tcr_cuda *c, int result, const char *call, const char *node);
#define CU(c, node, name, ...) cuda_check(c, (c)->m->cu->name(__VA_ARGS__), #name, node)
int cuda_queue_ok(const struct tcr_cuda *c, int queue);
int cuda_order_all(struct tcr_cuda *c, int queue);           /* all streams wait for what the queue was given */

/* memory.c */
void *cuda_alloc(struct tcr_device *d, int queue, size_t bytes, bool zeroed);
void cuda_free(struct tcr_device *d, int queue, void *p, size_t bytes, bool zeroed);
void *cuda_host_alloc(struct tcr_device *d, size_t bytes);
void cuda_host_free(struct tcr_device *d, void *p, size_t bytes);
int cuda_grow(struct tcr_device *d, void **p, size_t *held, size_t bytes);
void cuda_release(struct tcr_device *d, void *p, size_t held);
int cuda_weights(struct tcr_device *d, struct tccrt_model *m, const uint8_t **p);
int cuda_get(struct tcr_cuda *c, int queue, uint64_t *at, size_t bytes);     /* in the order of the queue */
void cuda_give(struct tcr_cuda *c, int queue, uint64_t at);

/* staging.c */
int cuda_copy(struct tcr_device *d, int queue, const struct tcr_copy *copy);
int cuda_fill(struct tcr_device *d, int queue, void *to, int byte, size_t bytes);
int cuda_upload(struct tcr_cuda *c, int queue, uint64_t to, const void *from, size_t bytes, bool guarded,
                const char *node);
int cuda_land(struct tcr_cuda *c);                           /* what has arrived goes where it belongs */
void cuda_staging_free(struct tcr_cuda *c);

/* launch.c */
void cuda_gave(const char *nodes[2], const char *first, const char *last);  /* one more, or several */
int cuda_launch(struct tcr_device *d, int queue, const struct tcr_kernel_launch *l);
int cuda_launch_rows(struct tcr_device *d, int queue, const struct tcr_kernel_launch *rows, uint32_t n);
bool cuda_holds(struct tcr_device *d, const struct tcr_kernel_launch *l, uint64_t *shape);
int cuda_guarded_copy(struct tcr_cuda *c, int queue, uint64_t to, uint64_t from, size_t bytes, const char *node);

int cuda_room_for_params(struct tcr_cuda *c, size_t n);

/* maps.c */
enum { CUDA_MAX_MAPS = 8 };
bool cuda_maps_ok(const struct tcc_pimage *i, const struct tcc_plaunch *l);
/* Writes those of a function behind *bytes of parameters. The launch's numbers have been evaluated. */
int cuda_maps(struct tcr_cuda *c, const struct cuda_launch *f, const struct tcr_kernel_launch *l, size_t *bytes);

/* timing.c: around what is given to a queue; nothing where the device is not timing, nor within a program that is
 * recorded */
int cuda_time_from(struct tcr_cuda *c, int queue);
int cuda_time_to(struct tcr_cuda *c, int queue, enum tcr_timed_kind kind, size_t bytes);
int cuda_timed(struct tcr_device *d, const struct tcr_timed **list, size_t *n);
void cuda_timing_free(struct tcr_cuda *c);
int cuda_simulated(struct tcr_device *d, struct tccrt_sim *out);

/* nccl.c */
extern const struct tcr_peers_ops cuda_peers;
void cuda_applied_free(struct tcr_cuda *c, bool all);        /* whose functions have run; all: nothing is under way */

/* program.c */
int cuda_program(struct tcr_device *d, int queue, uint32_t number, uint64_t digest, int *how);
int cuda_program_end(struct tcr_device *d, int queue);
void cuda_program_abort(struct tcr_cuda *c);                 /* a run that failed within one */
void cuda_programs_renew(struct tcr_cuda *c);                /* they are recorded again when they are next asked for */
void cuda_programs_free(struct tcr_cuda *c);
int cuda_program_table(struct tcr_cuda *c, uint64_t at);     /* the program that is recorded keeps it */

/* Where struct tcc_control lies from `control` on. */
enum { CUDA_CONTROL_AT = 64 };
/* fault word, culprit, its run, the index, its axis, the check; then what is uploaded */
struct cuda_pinned { int64_t fault[6]; _Alignas(64) uint8_t block[]; };
_Static_assert(offsetof(struct tcc_control, env.run) == 16 && offsetof(struct tcc_control, env.fault) == 0 &&
                   offsetof(struct tcc_control, env.index) == 24 && offsetof(struct tcc_control, env.check) == 40,
               "as the helper's PTX has it");

int tcr_device_cuda(const char *name, const struct tcr_device_request *r, struct tcr_device **out);

#endif
