/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.h - where the data of a session lies, and what runs its kernels: the runtime's door to a machine. The session
 * keeps tables, objects, control flow and what the plan puts into memory 0 on the host; what the plan puts into a
 * device's memory is that device's, and the host never touches it: it copies, and waits for the copy.
 *
 *   cpu/     the host itself: the caller's allocator, threads and kernels. Its memory is the host's ('shared'): nothing
 *            is copied to it
 *   split/   the host's kernels over a memory that the host can't touch, with queues that run in an adversarial legal
 *            order: a device for tests, which every build has
 *   cuda/    NVIDIA GPUs through the CUDA driver, or through the simulator, which has the driver's functions: a stream
 *            a queue, an event of the driver's an event, a graph a program
 *   neuron/  NeuronCores, in the simulator: a program of the artifact's image for each launch
 *
 * Order. A device has queues, numbered from 0. Work in one queue happens in the order in which it was given; work in
 * different queues, and what the host does, is ordered by events only: record() marks what a queue was given so far,
 * wait() makes a queue's later work wait for it, sync() makes the host wait. Whatever the host did before a call
 * happens before the work that the call gives. Memory that work uses, of the device and of the host, stays as it is
 * until an event behind the work has been waited for; free() and release() may come earlier: they take effect when
 * their queue gets there.
 *
 * Faults. A kernel that meets a bad index sets the device's fault word; launches and guarded copies of that run that
 * come later test it first and do nothing, and whatever else comes later writes no state. sync() reports it. A device
 * that is done when launch() returns may report it there.
 *
 * A struct tcr_device belongs to one session and is used by the thread that is in it. Functions that can fail return a
 * tcc_status, with the message in tccrt_error().
 */
#ifndef TCCRT_DEVICE_DEVICE_H
#define TCCRT_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/abi.h"
#include "runtime/tccrt.h"

#define TCR_ALIGN 64
#define TCR_ROUND(n) (((size_t)(n) + TCR_ALIGN - 1) & ~(size_t)(TCR_ALIGN - 1))

/* Memory of the host by the caller's allocator, and how much of it (and of the device) is held. */
/* exact: blocks are not rounded up (guard.c) */
struct tcr_heap { struct tccrt_allocator allocator; size_t held; bool exact; };

/* What a step does with bytes [at, at + bytes): TCC_READS, TCC_WRITES. TCR_HANDS_OVER: it looks at none of them, but
 * orders who does: a step of the host that hands over a device's memory, as a loop its carried values, comes behind
 * those that wrote it. */
enum { TCR_HANDS_OVER = 4 };
struct tcr_access { const void *at; size_t bytes; unsigned how; };

/* From the least to the largest of values that may be. */
struct tcr_interval { int64_t lo, hi; };

/* Kernel number `kernel` of the plan, for tiles [0, tiles), and then, when these have ended, for `combining` more.
 * args: addresses in the device's memory; scratch: bytes that each of its threads needs. access: what it does with each
 * argument; NULL unless the device checks. The lists are read before launch() returns.
 *
 * A launch that a program holds for other sizes than those at hand has `at`: by size, then tiles and combining, which
 * of the control block's values it is when the launch runs (TCC_NO: it is 0); and `ranges`: between which values it
 * lies then. Scratch and accesses are then the most that there may be. */
struct tcr_kernel_launch {
    uint32_t kernel, nargs, nsizes;
    int64_t tiles, combining, scratch;
    void *const *args;
    const int64_t *sizes;
    const uint32_t *at;              /* NULL: sizes, tiles and combining are those that are given */
    const struct tcr_interval *ranges;
    const struct tcr_access *access;
    bool may_fault;                  /* it may meet a bad index */
    bool small;                      /* it takes less time than threads need to meet */
    const char *node;                /* for messages; good while the model is open */
    const char *checks;              /* whose the kernel's indices are: the step's `checks` (abi.h), or `node` */
};

/* From where to where a copy goes. On a device whose memory is the host's they are the same. */
enum tcr_copy_kind { TCR_WITHIN, TCR_TO_DEVICE, TCR_TO_HOST, TCR_BETWEEN };
struct tcr_copy {
    enum tcr_copy_kind kind;         /* BETWEEN: `from` lies in another device's memory of the same kind */
    void *to;
    const void *from;
    size_t bytes;                    /* WITHIN: the two may overlap */
    const char *node;
    /* to the device: it writes state, and is not done once a kernel has met a bad index */
    bool guarded;
    /* a collective's own: on the machine that is simulated it reads and writes the device's memory itself */
    bool carried;
};

/* What changes from run to run lies in a control block in the device's memory, where kernels of a program read it
 * (struct tcc_control). */
struct tcr_control { uint64_t seed; int64_t run; uint32_t nvalues; const int64_t *values;
                     /* work of runs before it may be under way: it is written in the order of queue 0, and their fault
                      * stays */
                     bool behind;
                     int ahead; };           /* how many have not been waited for, at most TCR_RUNS - 1 */
enum { TCR_RUNS = 8 };

/* Work that a device has done, for profiles. tag: struct tcr_device's when the work was given; nanoseconds of the
 * device's clock, modelled where it is simulated. */
enum tcr_timed_kind { TCR_TIMED_LAUNCH, TCR_TIMED_COPY };
struct tcr_timed { uint32_t tag; int queue; enum tcr_timed_kind kind; size_t bytes; double start, end;
                   /* of a launch, where the device is simulated: what its time is that of; NULL: not known */
                   const char *bound; };
static inline void tcr_times_from_first(struct tcr_timed *t, size_t n)
{
    double base = n ? t[0].start : 0;

    for (size_t i = 0; i < n; i++) {
        t[i].start -= base;
        t[i].end -= base;
    }
}

struct tcr_device;

/* -- Exchanges between the memories of several processes' devices, by a library of the devices' own (NCCL). A
 * communicator (struct tcr_peers) makes the process one of several ranks; it outlives the device through which it was
 * made, as marks do. */
struct tcr_peers;
struct tcr_mark;                     /* a place in what a queue was given */
enum { TCR_PEERS_ID = 128 };         /* bytes of what names a communicator */
enum tcr_peer_kind {
    TCR_PEER_ALL_REDUCE, TCR_PEER_REDUCE, TCR_PEER_REDUCE_SCATTER, TCR_PEER_BROADCAST, TCR_PEER_ALL_GATHER,
        TCR_PEER_SEND, TCR_PEER_RECV
};
/* n: elements that a rank gives, of reduce_scatter those that it gets. root: the other rank of a message, too. how:
 * enum tccrt_reduction. */
struct tcr_peer_item {
    enum tcr_peer_kind kind;
    const void *in;
    void *out;
    int64_t n;
    int dtype, how;
    double scale;
    int root;
};
/* to[to_bytes] = fn(from[from_bytes]), of the device's memory, by the host in the order of a queue; arg is freed behind
 * it. */
struct tcr_apply {
    void (*fn)(void *arg, const void *from, void *to);
    void *arg;
    const void *from;
    size_t from_bytes;
    void *to;
    size_t to_bytes;
    const char *node;
};
struct tcr_peers_ops {
    int (*there)(struct tcr_device *d);                      /* TCC_EENV: no library, and why */
    int (*id)(struct tcr_device *d, unsigned char *id);      /* by one rank, for all */
    /* begins; ready() says when it has */
    int (*join)(struct tcr_device *d, const unsigned char *id, int rank, int size, struct tcr_peers **out);
    /* Reductions that the library does, to the letter of tccrt.h but for the order of sums, and for the rounding of f16
     * and bf16 */
    bool (*takes)(int dtype, int how, double scale);
    /* As one group, all of one type and way; nothing else may be given to the queue or the communicator before it is
     * ready(). */
    int (*give)(struct tcr_device *d, int queue, struct tcr_peers *p, const struct tcr_peer_item *items, int n);
    /* bytes: of the exchange that ends here; 0: none does */
    int (*mark)(struct tcr_device *d, int queue, size_t bytes, struct tcr_mark **out);
    int (*apply)(struct tcr_device *d, int queue, const struct tcr_apply *w);
    /* By any thread, one at a time for each communicator or mark */
    int (*ready)(struct tcr_peers *p, bool *ready);          /* TCC_EENV: it has failed */
    int (*passed)(struct tcr_mark *m, bool *passed);
    void (*unmark)(struct tcr_mark *m);
    void (*abandon)(struct tcr_peers *p);                    /* what is under way ends, without results */
    void (*leave)(struct tcr_peers *p);                      /* frees it; nothing is under way */
};

struct tcr_device_ops {
    const struct tcr_peers_ops *peers;       /* NULL: it has none */

    void (*close)(struct tcr_device *d);

    /* -- Memory */
    /* TCR_ALIGN-aligned memory for work in `queue`; NULL: there is none, message set. zeroed: its bytes are 0, and
     * pages that nobody writes cost nothing. free() is given what alloc() was; NULL is fine. */
    void *(*alloc)(struct tcr_device *d, int queue, size_t bytes, bool zeroed);
    void (*free)(struct tcr_device *d, int queue, void *p, size_t bytes, bool zeroed);
    /* A block that grows: *p (NULL: none yet) of *held bytes becomes at least `bytes` long; its contents are lost.
     * Where the machine has the addresses to spare it stays where it is; where it must move, nothing may be under way.
     * release() ends it. */
    int (*grow)(struct tcr_device *d, void **p, size_t *held, size_t bytes);
    void (*release)(struct tcr_device *d, void *p, size_t held);
    /* Memory of the host, TCR_ALIGN-aligned, its bytes 0, that copies of this device reach without a block in between.
     * NULL: there is no such, and the host's own does as well. */
    void *(*host_alloc)(struct tcr_device *d, size_t bytes);
    void (*host_free)(struct tcr_device *d, void *p, size_t bytes);      /* no work uses it */
    /* Weights of a model, once per model and machine: *p is where they lie there, until the model is closed. */
    int (*weights)(struct tcr_device *d, struct tccrt_model *m, const uint8_t **p);

    /* -- Work. A device that works while it is called is done when they return */
    int (*copy)(struct tcr_device *d, int queue, const struct tcr_copy *c);
    int (*fill)(struct tcr_device *d, int queue, void *to, int byte, size_t bytes);
    int (*launch)(struct tcr_device *d, int queue, const struct tcr_kernel_launch *l);
    /* Several of one kernel, on tensors of their own, in any order or at once. NULL: it takes them one by one. */
    int (*launch_rows)(struct tcr_device *d, int queue, const struct tcr_kernel_launch *rows, uint32_t n);

    /* -- Order. Events have numbers, below what reserve() was told; recording one again moves it */
    int (*record)(struct tcr_device *d, int queue, uint32_t event);
    int (*wait)(struct tcr_device *d, int queue, uint32_t event);
    /* The host waits for an event (TCR_ALL: for everything). TCC_EINDEX, with the node, where a kernel has met a bad
     * index. */
    int (*sync)(struct tcr_device *d, uint32_t event);

    /* -- Runs */
    /* Scratch for launches of up to so many bytes a thread, queues and events are taken now instead of when they are
     * first needed. */
    int (*reserve)(struct tcr_device *d, int64_t scratch, int queues, uint32_t events);
    /* A run begins: what its kernels read in the control block. None is under way; copies of its inputs may be. No
     * fault yet. Or it comes behind others, for which queue 0 has waited (defers). */
    int (*begin)(struct tcr_device *d, const struct tcr_control *c);
    /* Values of the control block from number `first` on, which has room for them, become these in the order of a
     * queue, for what is given to it next. NULL: the device has no programs. */
    int (*control)(struct tcr_device *d, int queue, uint32_t first, uint32_t n, const int64_t *values);
    /* The queue waits for what a stream of the caller's was given so far, or (behind) the stream for the queue. NULL:
     * it has no streams. */
    int (*stream)(struct tcr_device *d, uintptr_t stream, int queue, bool behind);

    /* -- Times, while the device is `timing`; NULL: it keeps none. *list: of what was given since the last call, all of
     * it done; good until the next one. */
    int (*timed)(struct tcr_device *d, const struct tcr_timed **list, size_t *n);

    /* -- Modelled time of a simulated machine; NULL: it has none. trace() adds the last run's events to a Chrome
     * trace's list, the first without a comma before it. */
    int (*simulated)(struct tcr_device *d, struct tccrt_sim *out);
    void (*trace)(struct tcr_device *d, FILE *f);
    /* Modelled time of communication. clock(): ns so far, when the next work would begin. collective(): one of `ranks`
     * ranks on `bytes` in all, which the last of them began at `start`, goes on in `queue`; collected(): the next work
     * comes behind it. */
    double (*clock)(struct tcr_device *d);
    void (*collective)(struct tcr_device *d, int queue, enum tcc_collective kind, int ranks, int64_t bytes,
        double start, const char *node);
    void (*collected)(struct tcr_device *d, int queue);
    /* A message of so many bytes has come that was sent at that time: work that is given from now on begins no earlier.
     * bytes 0: nothing but the time. */
    void (*reached)(struct tcr_device *d, double sent, int64_t bytes, const char *node);

    /* -- Programs: work that is recorded once and replayed; NULL: the device has none, and its regions are walked.
     * program() is asked first: *how becomes TCR_REPLAY (the program `number` is there with all that it has for good,
     * which `digest` stands for, and was given to the queue: the region is done), TCR_RECORD (what follows, up to
     * end(), is recorded, then run) or TCR_WALK. A device keeps so many programs; of others it forgets the one that was
     * not used for longest. */
    int (*program)(struct tcr_device *d, int queue, uint32_t number, uint64_t digest, int *how);
    int (*end)(struct tcr_device *d, int queue);
    /* May a program hold this launch (which has `at`) for all its ranges? *shape: a number of what is the same for all
     * of them, as the grid. NULL: any launch, with nothing of that kind. */
    bool (*holds)(struct tcr_device *d, const struct tcr_kernel_launch *l, uint64_t *shape);

    /* -- Checks; NULL: the device has none. The host itself reads or writes memory of its own: is it waited for? */
    int (*touch)(struct tcr_device *d, const struct tcr_access *a, const char *node);
    /* Nobody reads these bytes any more. */
    int (*discard)(struct tcr_device *d, int queue, void *at, size_t bytes);
};
enum { TCR_WALK, TCR_RECORD, TCR_REPLAY };
#define TCR_ALL 0xffffffffu

/* A thread's part in what a host ran last. end 0: it had none. */
struct tcr_part { _Alignas(TCR_ALIGN) double start, end; };

struct tcr_device {
    const struct tcr_device_ops *ops;
    const char *name;                /* as --device says it */
    bool shared;                     /* its memory is the host's: a copy to or from it is needless, and so is waiting */
    bool runs_host_kernels;          /* by tcr_device_request.kernels; else by its images */
    bool checks;                     /* launches say what they do with their arguments, the host says what it touches */
    bool timing;                     /* launches and copies are timed (timed()) */
    uint32_t tag;                    /* for what is given now */
    bool modelled;                   /* these times are a simulator's */
    bool one_transfer;               /* a copy takes long to start: batches of one call go to it together */
    bool defers;                     /* work is done later than it is given: runs may be given one behind the other */
    int64_t faulted;                 /* the run (struct tcr_control) in which sync() has found a fault */
    int threads;                     /* that run a kernel's tiles */
    int ranks;                       /* alike, for which this one stands where time is all that is asked for; 0: none */
    /* of a host whose runs are profiled: by thread, the profile's; NULL: nobody asks */
    struct tcr_part *parts;
    size_t memory;                   /* bytes that it has; 0: not known */
    size_t held, peak;               /* of them, by this session, now and at most; 0 where the heap counts */
    /* of work that was given to it */
    struct tcr_device_counts { int64_t launches, copies, programs, replays; } counts;
};

/* The session holds so many bytes more, or fewer. */
static inline void
tcr_holds(struct tcr_device *d, ptrdiff_t more)
{
    d->held += (size_t)more;
    d->peak = d->held > d->peak ? d->held : d->peak;
}

/* What a device is opened with. kernels: of the code version that runs, by number; images: of the same kernels. The
 * heap, kernels, images and names outlive it. */
struct tcr_device_request {
    struct tcr_heap *heap;
    const tcc_kernel_fn *kernels;
    const struct tcc_pimage *const *images;
    uint32_t nimages, nkernels;
    const struct tccrt_options *options;
};
/* Where the library of that name (PATH_MAX bytes in `to`) lies: $TCCC_LIBDIR, or beside the program or this code; else
 * the name, for the system to find. */
const char *tcr_library_path(const char *name, char *to);

/* Is all of an image inside of it, for that many kernels (image.c)? tcr_device_open() has asked when a device sees its
 * images. false: the message is set, TCC_EBUG. */
bool tcr_image_ok(const struct tcc_pimage *image, uint32_t nkernels);
const char *tcr_image_text(const struct tcc_pimage *image, uint32_t at); /* a string of an image that is ok */

/* "cpu", "cpu-split", "cuda", "cuda:K", "neuron", "sim" (the simulator of what the artifact has images for).
 * TCC_EUSAGE: no device has that name; TCC_EENV: it is not there (the message says why). */
int tcr_device_open(const char *name, const struct tcr_device_request *r, struct tcr_device **out);
/* Devices that are opened only where they are linked: those of the artifact that brings the runtime, all where somebody
 * refers to this list (optional.c). NULL ends it. */
typedef int tcr_device_opener(const char *name, const struct tcr_device_request *r, struct tcr_device **out);
extern tcr_device_opener *const tcr_optional_devices[];

/* body(arg, i) for each i in [0, n) on the threads of a host (cpu/host.c), in any order; returns when all have ended.
 * Calls do not nest. */
void tcr_host_each(struct tcr_device *host, int64_t n, void (*body)(void *arg, int64_t i), void *arg);

/* The host as a device of one thread, the i-th, for use in such calls: it lies on the host's memory and has that
 * thread's scratch, as large as reserve() has made it. Good until the next reserve(). NULL: no memory. */
struct tcr_device *tcr_host_lane(struct tcr_device *host, int i);

/* -- The heap (cpu/memory.c) -------------------------------------------------------------------------- */
/* The caller's allocator, or the C library's: 64-byte aligned, blocks that are worth it on huge pages. */
void tcr_heap_init(struct tcr_heap *h, const struct tccrt_allocator *allocator);
void *tcr_heap_alloc(struct tcr_heap *h, size_t bytes);      /* TCR_ALIGN-aligned; NULL: no memory, message set */
void tcr_heap_free(struct tcr_heap *h, void *p, size_t bytes);

#endif
