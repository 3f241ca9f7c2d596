/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.h - where the data of a session lies, and what runs its kernels: the runtime's door to a machine. The session keeps tables,
 * objects and control flow on the host; buffers, state variables and outputs that it owns are a device's memory.
 *
 *   cpu/   the host itself: the caller's allocator, threads and kernels (runtime/device/cpu/)
 *
 * A device belongs to one session and is used by the thread that is in it. Functions that can fail return a tcc_status, with the message
 * in tccrt_error().
 */
#ifndef TCCRT_DEVICE_DEVICE_H
#define TCCRT_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/abi.h"
#include "runtime/tccrt.h"

#define TCR_ALIGN 64
#define TCR_ROUND(n) (((size_t)(n) + TCR_ALIGN - 1) & ~(size_t)(TCR_ALIGN - 1))

/* Memory of the host by the caller's allocator, and how much of it (and of the device) is held. */
struct tcr_heap { struct tccrt_allocator allocator; size_t held; };

/* Kernel number `kernel` of the plan, for tiles [0, tiles). args: addresses in the device's memory; scratch: bytes that each of its
 * threads needs. */
struct tcr_kernel_launch {
    uint32_t kernel;
    int64_t tiles, scratch;
    void *const *args;
    const int64_t *sizes;
};

/* From where to where a copy goes. On a device whose memory is the host's they are the same. */
enum tcr_copy_kind { TCR_WITHIN, TCR_TO_DEVICE };

struct tcr_device;
struct tcr_device_ops {
    void (*close)(struct tcr_device *d);
    /* TCR_ALIGN-aligned memory; NULL: there is none, message set. zeroed: its bytes are 0, and pages that nobody writes cost nothing.
     * free() is given what alloc() was; NULL is fine. */
    void *(*alloc)(struct tcr_device *d, size_t bytes, bool zeroed);
    void (*free)(struct tcr_device *d, void *p, size_t bytes, bool zeroed);
    /* Done when they return. Within a device the two may overlap. */
    int (*copy)(struct tcr_device *d, enum tcr_copy_kind kind, void *to, const void *from, size_t bytes);
    /* A run begins: what kernels read in struct tcc_env. No fault yet. */
    void (*begin)(struct tcr_device *d, uint64_t seed, int64_t run);
    /* Scratch for launches of up to so many bytes a thread is taken now instead of by the first of them. */
    int (*reserve)(struct tcr_device *d, int64_t scratch);
    /* *fault: 0, or the TCC_E... that a kernel of this run has met. */
    int (*launch)(struct tcr_device *d, const struct tcr_kernel_launch *l, int *fault);
};
struct tcr_device { const struct tcr_device_ops *ops; int threads; /* that run a kernel's tiles */ };

/* The host. kernels: of the code version that runs, by number. The heap and kernels must outlive it. */
int tcr_device_cpu(struct tcr_heap *heap, const tcc_kernel_fn *kernels, const struct tccrt_options *o, struct tcr_device **out);

/* -- The heap (cpu/memory.c) -------------------------------------------------------------------------- */
/* The caller's allocator, or the C library's: 64-byte aligned, blocks that are worth it on huge pages. */
void tcr_heap_init(struct tcr_heap *h, const struct tccrt_allocator *allocator);
void *tcr_heap_alloc(struct tcr_heap *h, size_t bytes);      /* TCR_ALIGN-aligned; NULL: no memory, message set */
void tcr_heap_free(struct tcr_heap *h, void *p, size_t bytes);

#endif
