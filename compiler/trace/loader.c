/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loader.c - batches from arrays in memory. The order of an epoch is torch.randperm's on the CPU: a Fisher-Yates
 * shuffle by the 32-bit Mersenne Twister (Matsumoto and Nishimura, 1998), seeded with seed + epoch.
 */
#include "compiler/trace/trace_int.h"

#include <stdlib.h>
#include <string.h>

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

/* -- The loader ------------------------------------------------------------------------------------------------ */

struct trace_loader {
    struct trace_ctx *c;
    struct trace_loader *next;
    struct trace_loader_options options;
    int n;
    struct tcc_tensor *arrays;
    int64_t samples, at;
    int64_t ranks, rank; /* that share each batch */
    int64_t *order;
};

static bool check_arrays(struct trace_ctx *c, int n, const struct tcc_tensor *arrays)
{
    for (int i = 0; i < n; i++) {
        bool ok = arrays[i].data && arrays[i].rank > 0 && arrays[i].rank <= TCC_MAX_RANK && arrays[i].dtype > 0 &&
                  arrays[i].dtype < TCC_NDTYPES && arrays[i].dtype != TCC_STRING;
        if (!ok || arrays[i].dims[0] < 1 || arrays[i].dims[0] != arrays[0].dims[0]) {
            trace_fail(c, TCC_EUSAGE, "loader: array %d has no samples along its first axis, or another number of them",
                       i);
            return false;
        }
    }
    return n > 0 || trace_fail(c, TCC_EUSAGE, "loader: no arrays") == TCC_OK;
}

struct trace_loader *trace_loader(struct trace_ctx *c, int narrays, const struct tcc_tensor *arrays,
                                  const struct trace_loader_options *options)
{
    if (c->status || !check_arrays(c, narrays, arrays))
        return NULL;
    int64_t samples = arrays[0].dims[0];
    if (options->batch < 1 || (options->batch > samples && !options->keep_last)) {
        trace_fail(c, TCC_EUSAGE, "loader: batches of %lld from %lld samples", (long long)options->batch,
                   (long long)samples);
        return NULL;
    }
    struct trace_loader *l = calloc(1, sizeof *l);
    if (!l) {
        trace_no_memory(c);
        return NULL;
    }
    *l = (struct trace_loader){.c = c, .next = c->loaders, .options = *options, .n = narrays, .samples = samples};
    c->loaders = l;
    l->ranks = options->data_parallel ? trace_group_size(c, "dp") : 1;
    l->rank = options->data_parallel ? trace_group_rank(c, "dp") : 0;
    l->arrays = calloc((size_t)narrays, sizeof *l->arrays);
    l->order = calloc((size_t)samples, sizeof *l->order);
    if (!l->arrays || !l->order) {
        trace_no_memory(c);
        trace_loader_free(l);
        return NULL;
    }
    memcpy(l->arrays, arrays, (size_t)narrays * sizeof *arrays);
    trace_loader_start(l, 0);
    return l;
}

void trace_loader_free(struct trace_loader *l)
{
    if (!l)
        return;
    struct trace_loader **at = &l->c->loaders;
    while (*at && *at != l)
        at = &(*at)->next;
    if (*at)
        *at = l->next;
    free(l->arrays);
    free(l->order);
    free(l);
}

void trace_loaders_free(struct trace_ctx *c)
{
    while (c->loaders)
        trace_loader_free(c->loaders);
}

int64_t trace_loader_batches(const struct trace_loader *l)
{
    int64_t batch = l->options.batch < l->ranks ? l->ranks : l->options.batch;
    return l->options.keep_last ? (l->samples + batch - 1) / batch : l->samples / batch;
}

void trace_loader_start(struct trace_loader *l, int64_t epoch)
{
    l->at = 0;
    if (l->options.shuffle)
        trace_randperm(l->options.seed + (uint64_t)epoch, l->samples, l->order);
    else
        for (int64_t i = 0; i < l->samples; i++)
            l->order[i] = i;
}

/* Samples rank, rank + ranks, ... of the batch that begins at `at`. */
static struct trace_tensor *batch_of(struct trace_loader *l, const struct tcc_tensor *array, int64_t count)
{
    int64_t dims[TCC_MAX_RANK];
    memcpy(dims, array->dims, (size_t)array->rank * sizeof *dims);
    dims[0] = count;
    struct trace_tensor *t = trace_tensor_data(l->c, trace_data_new(array->dtype, array->rank, dims));
    if (!t)
        return NULL;
    size_t each = trace_bytes(t) / (size_t)count;
    for (int64_t i = 0; i < count; i++)
        memcpy((char *)t->data->o->t.data + (size_t)i * each,
               (const char *)array->data + (size_t)l->order[l->at + l->rank + i * l->ranks] * each, each);
    return t;
}

int trace_loader_next(struct trace_loader *l, struct trace_tensor **out, bool *more)
{
    int status = trace_mark_step(l->c);
    int64_t left = l->samples - l->at, whole = l->options.batch < l->ranks ? l->ranks : l->options.batch;
    int64_t count = (left < whole ? left : whole) / l->ranks;
    *more = false;
    for (int i = 0; i < l->n; i++)
        out[i] = NULL;
    if (status || !count || (left < whole && !l->options.keep_last))
        return status;
    for (int i = 0; i < l->n; i++)
        if (!(out[i] = batch_of(l, &l->arrays[i], count)))
            return l->c->status;
    l->at += left < whole ? left : whole;
    *more = true;
    return TCC_OK;
}
