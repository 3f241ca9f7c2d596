/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loader.c - batches from arrays in memory, in the sampler's order. On a device with memory of its own the batches of
 * one execution are one tensor, which goes there by one transfer, and each batch a slice of it.
 */
#include "base/grow.h"
#include "compiler/trace/trace_int.h"

#include <stdlib.h>
#include <string.h>

/* -- The loader ------------------------------------------------------------------------------------------------ */

struct trace_loader {
    struct trace_ctx *c;
    struct trace_loader *next;
    struct trace_loader_options options;
    int n;
    struct tcc_tensor *arrays;
    struct trace_sampler sampler;
    int64_t batch, count, at; /* samples: in a batch, in an epoch, given in this one; this process's */
    int64_t *order;
    int given;                    /* batches since the last step ended */
    struct trace_tensor **blocks; /* by array: batches of an execution; retained while slices are still to be made */
    int64_t rows, sliced;         /* samples of a block, and of them given; 0: there is none */
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

/* This process's part of the samples and of each batch. */
static int share(struct trace_loader *l, int64_t samples)
{
    const struct trace_loader_options *o = &l->options;
    const char *group = o->group ? o->group : "dp";
    bool parallel = o->data_parallel || o->group;
    struct trace_ctx *c = l->c;
    l->options.group = NULL; /* the caller's text */
    if (parallel && trace_check_group(c, "loader", group))
        return c->status;
    l->sampler = (struct trace_sampler){.samples = samples,
                                        .ranks = parallel ? trace_group_size(c, group) : 1,
                                        .rank = parallel ? trace_group_rank(c, group) : 0,
                                        .shuffle = o->shuffle,
                                        .drop_last = !o->keep_last,
                                        .seed = o->seed};
    l->batch = o->batch / l->sampler.ranks > 1 ? o->batch / l->sampler.ranks : 1;
    l->count = trace_sampler_count(&l->sampler);
    if (o->batches_per_execution < 0)
        return trace_fail(c, TCC_EUSAGE, "loader: %d batches per execution", o->batches_per_execution);
    if (o->batch < 1 || !trace_loader_batches(l))
        return trace_fail(c, TCC_EUSAGE, "loader: batches of %lld from %lld samples", (long long)o->batch,
                          (long long)samples);
    return TCC_OK;
}

struct trace_loader *trace_loader(struct trace_ctx *c, int narrays, const struct tcc_tensor *arrays,
                                  const struct trace_loader_options *options)
{
    if (c->status || !check_arrays(c, narrays, arrays))
        return NULL;
    struct trace_loader *l = calloc(1, sizeof *l), **last = &c->loaders;
    if (!l)
        return trace_no_memory(c), NULL;
    *l = (struct trace_loader){.c = c, .next = *last, .options = *options, .n = narrays};
    *last = l;
    l->arrays = calloc((size_t)narrays, sizeof *l->arrays);
    l->blocks = calloc((size_t)narrays, sizeof(struct trace_tensor *));
    if (l->arrays && l->blocks)
        memcpy(l->arrays, arrays, (size_t)narrays * sizeof *arrays);
    else
        trace_no_memory(c);
    if (!c->status && !share(l, arrays[0].dims[0]))
        trace_loader_start(l, 0);
    if (!c->status)
        return l;
    trace_loader_free(l);
    return NULL;
}

static void drop_blocks(struct trace_loader *l)
{
    for (int i = 0; l->blocks && i < l->n; i++) {
        trace_release(l->blocks[i]);
        l->blocks[i] = NULL;
    }
    l->rows = l->sliced = 0;
}

void trace_loader_free(struct trace_loader *l)
{
    if (!l)
        return;
    drop_blocks(l);
    free(l->blocks);
    UNLINK(l->c->loaders, l);
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
    return l->options.keep_last ? (l->count + l->batch - 1) / l->batch : l->count / l->batch;
}

void trace_loader_start(struct trace_loader *l, int64_t epoch)
{
    int64_t count;
    free(l->order);
    drop_blocks(l);
    l->at = 0;
    if (!(l->order = trace_sampler_epoch(&l->sampler, epoch, &count)))
        trace_no_memory(l->c);
}

/* `count` samples from where the epoch is. */
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
               (const char *)array->data + (size_t)l->order[l->at + i] * each, each);
    return t;
}

/* Samples of the batches that the execution which begins now has, where they are to be one tensor; 0: each batch is its
 * own. */
static int64_t together(const struct trace_loader *l)
{
    int64_t batches = (l->count - l->at) / l->batch, most = l->options.batches_per_execution;

    batches = batches < most ? batches : most;
    return l->c->discrete && batches > 1 ? batches * l->batch : 0;
}

/* The next `count` samples of each array, from where the block or the epoch is. */
static int make_batch(struct trace_loader *l, struct trace_tensor **out, int64_t count)
{
    struct trace_ctx *c = l->c;

    if (!l->given && !l->rows && (l->rows = together(l)))
        for (int i = 0; i < l->n; i++)
            if (!(l->blocks[i] = trace_retain(batch_of(l, &l->arrays[i], l->rows))))
                return trace_report_status(c);
    for (int i = 0; i < l->n; i++) {
        out[i] = l->rows ? trace_slice(l->blocks[i], 0, l->sliced, count) : batch_of(l, &l->arrays[i], count);
        if (!out[i])
            return trace_report_status(c);
    }
    if (l->rows && (l->sliced += count) == l->rows)
        drop_blocks(l);
    return TCC_OK;
}

int trace_loader_next(struct trace_loader *l, struct trace_tensor **out, bool *more)
{
    struct trace_ctx *c = l->c;
    int64_t left = l->count - l->at, count = left < l->batch ? left : l->batch;
    bool ended = !count || !l->order || (count < l->batch && !l->options.keep_last);
    int status = TCC_OK;
    *more = false;
    for (int i = 0; i < l->n; i++)
        out[i] = NULL;
    if (ended || l->given >= l->options.batches_per_execution) {
        status = trace_mark_step(c);
        l->given = 0;
    }
    if (status || ended)
        return status;
    if ((status = make_batch(l, out, count)))
        return status;
    l->at += count;
    l->given++;
    *more = true;
    return TCC_OK;
}
