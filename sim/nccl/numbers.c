/* SPDX-License-Identifier: Apache-2.0 */
/* Elements: reduced in their own type, rounded after each addition, as when partial sums go around a ring. */
#include <string.h>

#include "sim/nccl/nccl_int.h"

#define SHORT_TYPES(X) X(ncclInt8, int8_t, int8_t) X(ncclUint8, uint8_t, uint8_t) X(ncclFloat16, _Float16, float)
#define TYPES_OF_32(X) X(ncclInt32, int32_t, uint32_t) X(ncclUint32, uint32_t, uint32_t) X(ncclFloat32, float, float)
#define TYPES_OF_64(X) X(ncclInt64, int64_t, uint64_t) X(ncclUint64, uint64_t, uint64_t) X(ncclFloat64, double, double)
#define TYPES(X) SHORT_TYPES(X) TYPES_OF_32(X) TYPES_OF_64(X)

size_t fake_bytes(int type)
{
#define BYTES(id, stored, computed) [id] = sizeof(stored),
    static const size_t bytes[] = {TYPES(BYTES)[ncclBfloat16] = 2};
#undef BYTES
    return bytes[type];
}

static float from_bf16(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint16_t to_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if (f != f)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* The order of ranks is from, from + 1, ... around. */
#define REDUCE(id, stored, computed)                                                                          \
    static void reduce_##id(int op, double factor, int ranks, int from, char *const *in, size_t at, size_t n, \
                            char *out)                                                                        \
    {                                                                                                         \
        bool scaled = op < 0 || (op == ncclAvg && id >= ncclFloat16);                                         \
        computed f = scaled ? (computed)(stored)(op < 0 ? factor : 1.0 / ranks) : 0;                          \
        for (size_t i = 0; i < n; i++) {                                                                      \
            stored acc = 0;                                                                                   \
            for (int k = 0; k < ranks; k++) {                                                                 \
                stored x;                                                                                     \
                memcpy(&x, in[(from + k) % ranks] + (at + i) * sizeof x, sizeof x);                           \
                x = scaled ? (stored)((computed)x * f) : x;                                                   \
                acc = !k               ? x                                                                    \
                      : op == ncclProd ? (stored)((computed)acc * (computed)x)                                \
                      : op == ncclMax  ? (x > acc ? x : acc)                                                  \
                      : op == ncclMin  ? (x < acc ? x : acc)                                                  \
                                       : (stored)((computed)acc + (computed)x);                                \
            }                                                                                                 \
            if (op == ncclAvg && !scaled)                                                                     \
                acc = (stored)(acc / (stored)ranks);                                                          \
            memcpy(out + i * sizeof acc, &acc, sizeof acc);                                                   \
        }                                                                                                     \
    }
TYPES(REDUCE)
#undef REDUCE

static void reduce_bf16(int op, double factor, int ranks, int from, char *const *in, size_t at, size_t n, char *out)
{
    bool scaled = op < 0 || op == ncclAvg;
    float f = from_bf16(to_bf16((float)(op < 0 ? factor : 1.0 / ranks)));
    for (size_t i = 0; i < n; i++) {
        float acc = 0;
        for (int k = 0; k < ranks; k++) {
            uint16_t h;
            memcpy(&h, in[(from + k) % ranks] + (at + i) * 2, 2);
            float x = scaled ? from_bf16(to_bf16(from_bf16(h) * f)) : from_bf16(h);
            acc = !k               ? x
                  : op == ncclProd ? acc * x
                  : op == ncclMax  ? (x > acc ? x : acc)
                  : op == ncclMin  ? (x < acc ? x : acc)
                                   : acc + x;
            acc = from_bf16(to_bf16(acc));
        }
        memcpy(out + i * 2, &(uint16_t){to_bf16(acc)}, 2);
    }
}

void fake_reduce(int type, int op, double factor, int ranks, int first, char *const *in, size_t at, size_t n, char *out)
{
    switch (type) {
#define CASE(id, stored, computed) \
    case id: reduce_##id(op, factor, ranks, first, in, at, n, out); return;
        TYPES(CASE)
#undef CASE
    default: reduce_bf16(op, factor, ranks, first, in, at, n, out);
    }
}
