/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor maps (CUDA Driver API, "Tensor map object managment"): what cuTensorMapEncode* require, and our own layout of
 * the 128 opaque bytes, which only the simulator's copies read.
 */
#include <string.h>

#include "sim/ptx/drv_int.h"
#include "sim/ptx/ptx_int.h"

#define MAP_MAGIC 0x4d545854u

struct map {
    uint32_t magic;
    uint8_t type, rank, swizzle, flags; /* flags: 1 im2col, 2 NaN outside */
    uint64_t base;
    uint32_t dims[5];       /* less one */
    uint32_t strides[4][2]; /* in units of 16 bytes */
    uint16_t box[5];
    uint8_t step[5], spare;
    int16_t lower[3], upper[3];
    uint16_t channels, pixels;
};
_Static_assert(sizeof(struct map) <= 128, "a tensor map");

/* CUtensorMapDataType in its order; the 4- and 6-bit types are not there. */
static const struct {
    uint8_t bytes, type;
} types[] = {{1, PT_U8},  {2, PT_U16}, {4, PT_U32},  {4, PT_S32}, {8, PT_U64}, {8, PT_S64}, {2, PT_F16},
             {4, PT_F32}, {8, PT_F64}, {2, PT_BF16}, {4, PT_F32}, {4, PT_F32}, {4, PT_F32}};
enum { NTYPES = sizeof types / sizeof *types };

bool ptx_tensor_decode(const void *from, struct ptx_tensor *t)
{
    struct map m;
    memcpy(&m, from, sizeof m);
    if (m.magic != MAP_MAGIC)
        return false;
    *t = (struct ptx_tensor){.base = m.base,
                             .rank = m.rank,
                             .bytes = types[m.type].bytes,
                             .type = types[m.type].type,
                             .swizzle = m.swizzle,
                             .im2col = m.flags & 1,
                             .nan_fill = m.flags & 2,
                             .channels = m.channels,
                             .pixels = m.pixels};
    for (int d = 0; d < m.rank; d++) {
        t->dims[d] = (uint64_t)m.dims[d] + 1;
        t->box[d] = m.box[d];
        t->step[d] = m.step[d];
        t->strides[d] = d ? ((uint64_t)m.strides[d - 1][1] << 32 | m.strides[d - 1][0]) << 4 : 0;
    }
    for (int d = 0; d < 3; d++) {
        t->lower[d] = m.lower[d];
        t->upper[d] = m.upper[d];
    }
    return true;
}

/* What both kinds have in common. */
static bool common(struct map *m, int type, unsigned rank, const void *address, const uint64_t *dims,
                   const uint64_t *strides, const uint32_t *step, int interleave, int swizzle, int l2, int fill)
{
    if (type < 0 || type >= NTYPES || rank < 1 || rank > 5 || !dims || (rank > 1 && !strides) || !step ||
        (uintptr_t)address % 16 || interleave || swizzle < 0 || swizzle > 3 || l2 < 0 || l2 > 3 || fill < 0 || fill > 1)
        return false;
    if (fill && types[type].type != PT_F16 && types[type].type != PT_F32 && types[type].type != PT_F64 &&
        types[type].type != PT_BF16)
        return false;
    *m = (struct map){.magic = MAP_MAGIC,
                      .type = (uint8_t)type,
                      .rank = (uint8_t)rank,
                      .swizzle = (uint8_t)swizzle,
                      .flags = fill ? 2 : 0,
                      .base = (uintptr_t)address};
    for (unsigned d = 0; d < rank; d++) {
        if (!dims[d] || dims[d] > UINT64_C(1) << 32 || !step[d] || step[d] > 8)
            return false;
        m->dims[d] = (uint32_t)(dims[d] - 1);
        m->step[d] = (uint8_t)(d ? step[d] : 1);
        if (d && (strides[d - 1] % 16 || strides[d - 1] >= UINT64_C(1) << 40))
            return false;
        if (d) {
            m->strides[d - 1][0] = (uint32_t)(strides[d - 1] >> 4);
            m->strides[d - 1][1] = (uint32_t)(strides[d - 1] >> 36);
        }
    }
    return true;
}

static bool inner_fits(const struct map *m, uint64_t elements)
{
    static const unsigned spans[] = {0, 32, 64, 128};
    uint64_t bytes = elements * types[m->type].bytes;
    return bytes % 16 == 0 && (!m->swizzle || bytes <= spans[m->swizzle]);
}

int ptx_map_tiled(void *map, int type, unsigned rank, void *address, const uint64_t *dims, const uint64_t *strides,
                  const uint32_t *box, const uint32_t *step, int interleave, int swizzle, int l2, int fill)
{
    struct map m;
    if (!map || (uintptr_t)map % 64 || !box ||
        !common(&m, type, rank, address, dims, strides, step, interleave, swizzle, l2, fill))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned d = 0; d < rank; d++) {
        if (!box[d] || box[d] > 256)
            return CUDA_ERROR_INVALID_VALUE;
        m.box[d] = (uint16_t)box[d];
    }
    if (!inner_fits(&m, box[0]))
        return CUDA_ERROR_INVALID_VALUE;
    memset(map, 0, 128);
    memcpy(map, &m, sizeof m);
    return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *address, const uint64_t *dims,
                                const uint64_t *strides, const uint32_t *box, const uint32_t *step, int interleave,
                                int swizzle, int l2, int fill)
{
    CUresult r = drv_enter("cuTensorMapEncodeTiled", NEED_CTX);
    return drv_leave(
        r ? r
          : (CUresult)ptx_map_tiled(map, type, rank, address, dims, strides, box, step, interleave, swizzle, l2, fill));
}

int ptx_map_im2col(void *map, int type, unsigned rank, void *address, const uint64_t *dims, const uint64_t *strides,
                   const int *lower, const int *upper, unsigned channels, unsigned pixels, const uint32_t *step,
                   int interleave, int swizzle, int l2, int fill)
{
    static const int limits[] = {32768, 128, 16}; /* of a corner, by spatial dimensions */
    struct map m;
    if (!map || (uintptr_t)map % 64 || rank < 3 || !lower || !upper || !channels || channels > 256 || !pixels ||
        pixels > 1024 || !common(&m, type, rank, address, dims, strides, step, interleave, swizzle, l2, fill) ||
        !inner_fits(&m, channels))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned d = 0; d < rank - 2; d++) {
        int limit = limits[rank - 3];
        if (lower[d] < -limit || lower[d] >= limit || upper[d] < -limit || upper[d] >= limit)
            return CUDA_ERROR_INVALID_VALUE;
        m.lower[d] = (int16_t)lower[d];
        m.upper[d] = (int16_t)upper[d];
    }
    m.flags |= 1;
    m.channels = (uint16_t)channels;
    m.pixels = (uint16_t)pixels;
    memset(map, 0, 128);
    memcpy(map, &m, sizeof m);
    return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeIm2col(void *map, int type, unsigned rank, void *address, const uint64_t *dims,
                                 const uint64_t *strides, const int *lower, const int *upper, unsigned channels,
                                 unsigned pixels, const uint32_t *step, int interleave, int swizzle, int l2, int fill)
{
    CUresult r = drv_enter("cuTensorMapEncodeIm2col", NEED_CTX);
    return drv_leave(r ? r
                       : (CUresult)ptx_map_im2col(map, type, rank, address, dims, strides, lower, upper, channels,
                                                  pixels, step, interleave, swizzle, l2, fill));
}

CUresult cuTensorMapReplaceAddress(void *map, void *address)
{
    struct map m;
    if (!map || (uintptr_t)address % 16)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&m, map, sizeof m);
    if (m.magic != MAP_MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    m.base = (uintptr_t)address;
    memcpy(map, &m, sizeof m);
    return CUDA_SUCCESS;
}
