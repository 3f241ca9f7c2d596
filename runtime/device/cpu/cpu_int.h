/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_int.h - the host as a device: memory.c, host.c. */
#ifndef TCCRT_DEVICE_CPU_INT_H
#define TCCRT_DEVICE_CPU_INT_H

#include "runtime/rt_int.h"

/* A thread's environment on a cache line of its own. */
struct tcr_env { _Alignas(TCR_ALIGN) struct tcc_env env; };

/* A block that grows where it lies: `room` bytes of addresses from `at` on are its own, of a mapping that begins at
 * `base`. */
struct tcr_range { void *at, *base; size_t room; };
#define TCR_MAX_RANGES 4

/* A thread's share of a launch's tiles: [next, end) are still to be run. */
struct tcr_share { _Alignas(TCR_ALIGN) _Atomic int64_t next; int64_t end; };

struct tcr_cpu {
    _Alignas(TCR_ALIGN) struct tcr_device device;    /* first; lanes keep off each other's cache lines */
    struct tcr_heap *heap;
    const tcc_kernel_fn *kernels;
    struct tccrt_threads user_pool;  /* count 0: none */
    struct tcr_pool *pool;           /* NULL: one thread, or the caller's threads */
    struct tcr_env *envs;            /* by thread */
    struct tcr_share *shares;
    uint8_t *scratch;                /* threads * scratch_step */
    size_t scratch_bytes, scratch_step;      /* of a thread; from one to the next */
    struct tcr_range ranges[TCR_MAX_RANGES];
    /* by thread: the host as that thread alone (tcr_host_lane()); NULL: nobody has asked */
    struct tcr_cpu *lanes;
    /* of a host of one thread: tiles run and are timed one by one; NULL: nobody asks */
    tccrt_tile_observer observer;
    void *observed;                  /* the observer's */
    bool apart;                      /* each as the first of its thread */
    double *tile_ns;                 /* room for tile_room times */
    int64_t tile_room;
};

/* host.c. kernels: of the code version that runs, by number. */
int tcr_device_cpu(const struct tcr_device_request *r, struct tcr_device **out);
/* Runs a kernel on addresses of the host's; env: by thread, where it lies if not in the device's own memory. */
int tcr_cpu_run(struct tcr_cpu *c, const struct tcr_kernel_launch *l, struct tcr_env *envs, const struct tcc_env **met);

/* memory.c */
void *tcr_cpu_alloc(struct tcr_device *d, int queue, size_t bytes, bool zeroed);
void tcr_cpu_free(struct tcr_device *d, int queue, void *p, size_t bytes, bool zeroed);
int tcr_cpu_grow(struct tcr_device *d, void **p, size_t *held, size_t bytes);
void tcr_cpu_release(struct tcr_device *d, void *p, size_t held);
int tcr_cpu_copy(struct tcr_device *d, int queue, const struct tcr_copy *c);
int tcr_cpu_fill(struct tcr_device *d, int queue, void *to, int byte, size_t bytes);

#endif
