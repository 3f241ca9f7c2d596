/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensor_map.h - how a driver makes a tensor map (struct tcc_pmap) whose numbers are known: by the two functions of the
 * CUDA driver, which the run-time library and tools take from it, and proofs from the simulator. Source: CUDA Driver
 * API, "Tensor Map Object Management".
 */
#ifndef TCC_TENSOR_MAP_H
#define TCC_TENSOR_MAP_H

#include "runtime/abi.h"

#include <stdbool.h>

/* cuTensorMapEncodeTiled, cuTensorMapEncodeIm2col; NULL: this driver has none. */
struct tcc_map_driver {
    int (*tiled)(void *map, int type, unsigned rank, void *address, const uint64_t *dims, const uint64_t *strides,
        const uint32_t *box,
                 const uint32_t *steps, int interleave, int swizzle, int promotion, int fill);
    int (*im2col)(void *map, int type, unsigned rank, void *address, const uint64_t *dims, const uint64_t *strides,
        const int *lower, const int *upper,
                  unsigned channels, unsigned pixels, const uint32_t *steps, int interleave, int swizzle,
                      int promotion, int fill);
};

/* The driver's number of an element's type, -1: it has none. 8-bit floats are bytes to it. */
static inline int
tcc_map_type(uint32_t dtype)
{
    switch (dtype) {
    case TCC_F16: return 6;
    case TCC_BF16: return 9;
    case TCC_U8: case TCC_I8: case TCC_F8E4M3FN: case TCC_F8E5M2: return 0;
    default: return -1;
    }
}

/* Can a map have these numbers, but for exprs? */
static inline bool
tcc_map_ok(const struct tcc_pmap *m)
{
    bool ok = m->rank >= (m->windows ? 3 : 1) && m->rank <= TCC_MAP_RANK && m->windows <= 1
        && tcc_map_type(m->type) >= 0;

    for (uint32_t d = 0; ok && d < m->rank; d++)
        ok = m->step[d] >= 1 && m->step[d] <= 8;
    return ok;
}

/* m's at address `at`, of so many elements and bytes: TCC_MAP_BYTES to `to`, which is at a multiple of 64. strides[0]
 * is not looked at. False: the driver does not take it. */
static inline bool
tcc_map_encode(const struct tcc_map_driver *d, void *to, const struct tcc_pmap *m, uint64_t at, const uint64_t *dims,
               const uint64_t *strides)
{
    enum { SWIZZLE_128 = 3, PROMOTE_256 = 3 };
    void *address = (void *)(uintptr_t)at;
    int type = tcc_map_type(m->type);

    if (m->windows)
        return d->im2col && d->im2col(to, type, m->rank, address, dims, strides + 1, m->lower, m->upper, m->box[0],
                                      m->box[1], m->step, 0, SWIZZLE_128,
                                      PROMOTE_256, 0) == 0;
    return d->tiled && d->tiled(to, type, m->rank, address, dims, strides + 1, m->box, m->step, 0, SWIZZLE_128,
                                PROMOTE_256, 0) == 0;
}

#endif
