/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First values of parameters that a model did not have. A parameter's numbers are SplitMix64's (Steele, Lea, Flood:
 * Fast splittable pseudorandom number generators, OOPSLA 2014), begun at the seed and the digest of its name, so that
 * they depend on no other parameter.
 */
#include "passes/train/adapt_int.h"

static uint64_t mix(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* FNV-1a. */
static uint64_t digest(const char *name)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    return h;
}

struct ir_tensor *train_draw_uniform(struct ir_ctx *ctx, enum tcc_dtype type, int rank, const int64_t *dims,
                                     double bound, uint64_t seed, const char *name)
{
    struct ir_tensor *t = ir_tensor_new(type, rank, dims);
    uint64_t state = mix(&seed) ^ digest(name);
    if (!t)
        ir_no_memory(ctx);
    for (int64_t i = 0; i < t->nelems; i++) {
        double unit = (double)(mix(&state) >> 11) * 0x1p-53;
        tcc_store_f64(type, (char *)(uintptr_t)t->data + (size_t)i * (size_t)tcc_dtype_bytes(type),
                      (2 * unit - 1) * bound);
    }
    return t;
}
