/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libop_random.c - random_uniform and random_normal: (dims i64[n]) dtype, seed, stream -> numbers by Philox4x32-10
 * (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011). What key, counter and words are
 * is said in ir/ops.def; the reference interpreter computes the same bits. The session's own seed (tccrt_options) is
 * added to the node's; the step count is the number of the session's runs so far.
 */
#include "runtime/libop_int.h"

#include <math.h>

static void philox(uint64_t seed, const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    memcpy(out, counter, 16);
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)out[0] * 0xD2511F53u, b = (uint64_t)out[2] * 0xCD9E8D57u;
        out[0] = (uint32_t)(b >> 32) ^ out[1] ^ k0;
        out[1] = (uint32_t)b;
        out[2] = (uint32_t)(a >> 32) ^ out[3] ^ k1;
        out[3] = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* Significand bits of the type, the hidden one included; at most a word's. */
static int precision(int dtype)
{
    switch (dtype) {
    case TCC_F64: return 32;
    case TCC_F32: return 24;
    case TCC_F16: return 11;
    case TCC_BF16: return 8;
    case TCC_F8E4M3FN:
    case TCC_F8E4M3FNUZ: return 4;
    default: return 3;
    }
}

static double uniform(const uint32_t *words, int i, int bits)
{
    return ldexp(words[i] >> (32 - bits), -bits);
}

static double normal(const uint32_t *words, int i, int bits)
{
    (void)bits;
    double u = ((words[i & ~1] >> 8) + 1) * 0x1p-24, v = (words[i | 1] >> 8) * 0x1p-24;
    double r = sqrt(-2 * log(u)), angle = 6.283185307179586 * v;
    return i & 1 ? r * sin(angle) : r * cos(angle);
}

static int fill(struct tcc_lib_call *call, double (*number)(const uint32_t *words, int i, int bits))
{
    int64_t dims[TCC_MAX_RANK];
    int rank = lib_values(call, 0, dims, TCC_MAX_RANK), dtype = (int)lib_int(call, "dtype", TCC_F32);
    if (rank < 0)
        return LIB_FAIL(call, "a random tensor's dims must be integers");
    if (lib_class(dtype) != TCC_CLASS_FLOAT)
        return LIB_FAIL(call, "random numbers have a float type, %d found", dtype);
    void *data = lib_out(call, 0, dtype, rank, dims);
    if (!data)
        return LIB_NO_MEMORY(call);
    uint64_t seed = (uint64_t)lib_int(call, "seed", 0) + call->seed;
    int64_t n = lib_product(rank, dims);
    uint32_t words[4] = {0};
    for (int64_t i = 0; i < n; i++) {
        if (i % 4 == 0) {
            uint32_t counter[4] = {(uint32_t)(i / 4), (uint32_t)((uint64_t)(i / 4) >> 32),
                                   (uint32_t)lib_int(call, "stream", 0), (uint32_t)call->run};
            philox(seed, counter, words);
        }
        lib_put(data, dtype, i, number(words, (int)(i % 4), precision(dtype)));
    }
    return TCC_OK;
}

int tccrt_lib_random_uniform(struct tcc_lib_call *call)
{
    return fill(call, uniform);
}

int tccrt_lib_random_normal(struct tcc_lib_call *call)
{
    return fill(call, normal);
}
