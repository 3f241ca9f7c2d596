/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_int.h - the host as a device: memory.c, host.c. */
#ifndef TCCRT_DEVICE_CPU_INT_H
#define TCCRT_DEVICE_CPU_INT_H

#include "runtime/rt_int.h"

/* A thread's environment on a cache line of its own. */
struct tcr_env { _Alignas(TCR_ALIGN) struct tcc_env env; };

/* A thread's share of a launch's tiles: [next, end) are still to be run. */
struct tcr_share { _Alignas(TCR_ALIGN) _Atomic int64_t next; int64_t end; };

struct tcr_cpu {
    struct tcr_device device;        /* first */
    struct tcr_heap *heap;
    const tcc_kernel_fn *kernels;
    struct tccrt_threads user_pool;  /* count 0: none */
    struct tcr_pool *pool;           /* NULL: one thread, or the caller's threads */
    struct tcr_env *envs;            /* by thread */
    struct tcr_share *shares;
    uint8_t *scratch;                /* threads * scratch_bytes */
    size_t scratch_bytes;
};

void *tcr_cpu_alloc(struct tcr_device *d, size_t bytes, bool zeroed);
void tcr_cpu_free(struct tcr_device *d, void *p, size_t bytes, bool zeroed);
int tcr_cpu_copy(struct tcr_device *d, enum tcr_copy_kind kind, void *to, const void *from, size_t bytes);

#endif
