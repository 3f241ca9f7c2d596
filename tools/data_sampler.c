/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of samples: torch.utils.data.DistributedSampler's, bit for bit. Its permutation is torch.randperm on the CPU, seeded
 * with seed + epoch.
 */
#include "tools/data_int.h"

#include "compiler/trace.h"

#include <stdlib.h>

void sampler_randperm(uint64_t seed, int64_t n, int64_t *out)
{
    trace_randperm(seed, n, out);
}

int64_t *sampler_epoch(const struct sampler *s, int64_t epoch, int64_t *count)
{
    int64_t n = s->samples, ranks = s->ranks > 0 ? s->ranks : 1;
    bool drop = s->drop_last && n % ranks;
    int64_t each = drop ? n / ranks : (n + ranks - 1) / ranks, total = each * ranks;
    int64_t *order = calloc((size_t)n + 1, sizeof *order), *mine = calloc((size_t)each + 1, sizeof *mine);

    if (order && mine) {
        if (s->shuffle)
            sampler_randperm(s->seed + (uint64_t)epoch, n, order);
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
