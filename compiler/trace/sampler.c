/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sampler.c - the order of samples: torch.utils.data.DistributedSampler's, bit for bit; of traced programs and of
 * tccc-train. Its permutation is torch.randperm's on the CPU: a Fisher-Yates shuffle by the 32-bit Mersenne Twister
 * (Matsumoto and Nishimura, 1998), seeded with seed + epoch.
 */
#include "compiler/trace.h"

#include <stdlib.h>

struct twister {
    uint32_t at[624];
    int next;
};

static void twister_seed(struct twister *t, uint32_t seed)
{
    t->at[0] = seed;
    for (uint32_t i = 1; i < 624; i++)
        t->at[i] = 1812433253u * (t->at[i - 1] ^ t->at[i - 1] >> 30) + i;
    t->next = 624;
}

static uint32_t twister_next(struct twister *t)
{
    if (t->next == 624) {
        for (int i = 0; i < 624; i++) {
            uint32_t y = (t->at[i] & 0x80000000u) | (t->at[(i + 1) % 624] & 0x7fffffffu);
            t->at[i] = t->at[(i + 397) % 624] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
        }
        t->next = 0;
    }
    uint32_t y = t->at[t->next++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

void trace_randperm(uint64_t seed, int64_t n, int64_t *out)
{
    struct twister t;
    twister_seed(&t, (uint32_t)seed);
    for (int64_t i = 0; i < n; i++)
        out[i] = i;
    for (int64_t i = 0; i < n - 1; i++) {
        int64_t k = i + (int64_t)(twister_next(&t) % (uint64_t)(n - i)), kept = out[i];
        out[i] = out[k];
        out[k] = kept;
    }
}

int64_t trace_sampler_count(const struct trace_sampler *s)
{
    int64_t ranks = s->ranks > 0 ? s->ranks : 1;

    return s->drop_last ? s->samples / ranks : (s->samples + ranks - 1) / ranks;
}

int64_t *trace_sampler_epoch(const struct trace_sampler *s, int64_t epoch, int64_t *count)
{
    int64_t n = s->samples, ranks = s->ranks > 0 ? s->ranks : 1, each = trace_sampler_count(s), total = each * ranks;
    int64_t *order = calloc((size_t)n + 1, sizeof *order), *mine = calloc((size_t)each + 1, sizeof *mine);

    if (order && mine) {
        if (s->shuffle)
            trace_randperm(s->seed + (uint64_t)epoch, n, order);
        else
            for (int64_t i = 0; i < n; i++)
                order[i] = i;
        for (int64_t k = 0; k < each; k++) {
            int64_t at = s->contiguous ? s->rank * each + k : s->rank + k * ranks;
            mine[k] = n && at < total ? order[at % n] : 0;
        }
        *count = n ? each : 0;
    } else {
        free(mine);
        mine = NULL;
    }
    free(order);
    return mine;
}
