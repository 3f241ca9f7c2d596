/* SPDX-License-Identifier: Apache-2.0 */
/* --split: a share of the samples is held out for evaluation, both sets share the arrays. */
#include "tools/data/data_int.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/trace.h"

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* n samples, the last `held` of which are held out, as the seed shuffles them; overlapping ones are not shuffled. */
static int64_t *share_samples(const struct data_set *set, int64_t held, uint64_t seed)
{
    struct trace_sampler sampler = {.samples = set->samples, .ranks = 1, .shuffle = true, .seed = seed};
    int64_t count, kept = set->samples - held;

    for (int i = 0; i < set->n; i++)
        sampler.shuffle &= !set->arrays[i].windows;
    int64_t *order = trace_sampler_epoch(&sampler, 0, &count);
    if (order && sampler.shuffle) {
        qsort(order, (size_t)kept, sizeof *order, ascending);
        qsort(order + kept, (size_t)held, sizeof *order, ascending);
    }
    return order;
}

/* The array that feeds an input of the same name. */
static const struct data_array *array_named(const struct data_set *set, const char *name)
{
    for (int i = 0; i < set->n; i++)
        if (!strcmp(set->inputs[i].name, name))
            return &set->arrays[i];
    return NULL;
}

int data_set_split(const struct options *o, struct data_set *set, double share, uint64_t seed,
                   const struct tccrt_value_info *inputs, const int *axes, int n, struct data_set *held)
{
    int64_t count = (int64_t)((double)set->samples * share + 0.5), kept = set->samples - count;

    if (count < 1 || kept < 1)
        return tool_error(o, EXIT_DATA, "--split=%g: %lld samples cannot be cut so", share, (long long)set->samples);
    *held = (struct data_set){.n = n, .inputs = inputs, .axes = axes, .samples = count};
    held->arrays = calloc((size_t)n + 1, sizeof *held->arrays);
    held->rows = malloc((size_t)count * sizeof *held->rows);
    set->rows = share_samples(set, count, seed);
    if (!held->arrays || !held->rows || !set->rows)
        return tool_error(o, EXIT_ENVIRONMENT, "no memory");
    memcpy(held->rows, set->rows + kept, (size_t)count * sizeof *held->rows);
    set->samples = kept;
    for (int i = 0; i < n; i++) {
        const struct data_array *a = array_named(set, inputs[i].name);
        if (!a)
            return tool_error(o, EXIT_DATA, "--split: 'eval' has an input '%s' that 'step' has not", inputs[i].name);
        held->arrays[i] = *a;
        if (a->file)
            a->file->refs++;
        if (a->source)
            a->source->refs++;
    }
    return EXIT_FINE;
}
