/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches: the numbers of a launch record are evaluated for the step's sizes, the parameters are written as
 * runtime/abi.h says, and the functions of the kernel are launched one after the other. Scratch belongs to the queue,
 * whose launches follow each other.
 */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/device/cuda/cuda_int.h"
#include "base/grow.h"
#include "base/mutant.h"

/* -- Numbers -------------------------------------------------------------------------------------------- */

static struct tcr_interval point(int64_t v)
{
    return (struct tcr_interval){v, v};
}

/* Of a launch that a program holds for other sizes too: within what they lie. */
static struct tcr_interval size_of(const struct tcr_kernel_launch *l, uint32_t i)
{
    return l->at ? l->ranges[i] : point(i == l->nsizes ? l->tiles : l->sizes[i]);
}

static int evaluate(struct tcr_cuda *c, const struct cuda_launch *f, const struct tcr_kernel_launch *l)
{
    const struct tcc_pimage *i = c->code->image;
    const struct tcc_pexpr *exprs = (const void *)((const char *)i + i->exprs.first);

    for (uint32_t k = 0; k < f->nneeds; k++) {
        const struct tcc_pexpr *e = &exprs[f->needs[k]];
        struct tcr_interval *v = &c->values[f->needs[k]];

        if (e->op == TCC_EX_CONST)
            *v = point(e->k);
        else if (e->op != TCC_EX_SYM)
            *v = tcr_interval(e->op, c->values[e->a], c->values[e->b]);
        else if (e->k > l->nsizes)
            return tcr_fail(TCC_EBUG, "node '%s': its launch record has size %lld of %u", l->node, (long long)e->k,
                            l->nsizes);
        else
            *v = size_of(l, (uint32_t)e->k);
    }
    return TCC_OK;
}

/* The most that it may be. */
static int number(struct tcr_cuda *c, uint32_t e, int64_t otherwise, int64_t least, int64_t most, const char *what,
                  const char *node, int64_t *out)
{
    *out = e == TCC_NO ? otherwise : c->values[e].hi;
    return *out >= least && *out <= most
               ? TCC_OK
               : tcr_fail(TCC_EINPUT, "node '%s': %s of its launch must be in [%lld, %lld], got %lld", node, what,
                          (long long)least, (long long)most, (long long)*out);
}

struct shape {
    unsigned grid[3], block[3], cluster[3], shared;
};

static int shape_of(struct tcr_cuda *c, const struct cuda_launch *f, const char *node, struct shape *s)
{
    static const int64_t most_grid[3] = {0x7fffffff, 65535, 65535}, most_block[3] = {1024, 1024, 64};
    int64_t n;
    int status;

    for (int i = 0; i < 3; i++) {
        if ((status = number(c, f->record->grid[i], 1, 1, most_grid[i], "the grid", node, &n)))
            return status;
        s->grid[i] = (unsigned)n;
        if ((status = number(c, f->record->block[i], 1, 1, most_block[i], "the block", node, &n)))
            return status;
        s->block[i] = (unsigned)n;
        if ((status = number(c, f->record->cluster[i], 1, 1, 16, "the cluster", node, &n)))
            return status;
        s->cluster[i] = (unsigned)n;
    }
    s->grid[0] = tcc_launch_blocks(f->record->flags, s->grid[0], s->cluster[0], (uint32_t)c->m->multiprocessors);
    status = number(c, f->record->shared, 0, 0, 1 << 20, "shared memory", node, &n);
    s->shared = (unsigned)n;
    return status;
}

/* -- Parameters ------------------------------------------------------------------------------------------ */

/* Scratch for the longest of a kernel's functions. What the queue had goes when the queue has passed it. */
static int reserve_scratch(struct tcr_cuda *c, int queue, size_t bytes, const char *node)
{
    struct cuda_queue *q = &c->queues[queue];
    int status;

    if (bytes <= q->scratch_bytes)
        return TCC_OK;
    if (c->recording)
        return tcr_fail(TCC_EBUG, "node '%s': scratch of %zu bytes inside a program that was walked with %zu", node,
                        bytes, q->scratch_bytes);
    cuda_programs_renew(c); /* they have the old address */
    cuda_give(c, queue, q->scratch);
    tcr_holds(&c->device, -(ptrdiff_t)q->scratch_bytes);
    q->scratch = 0;
    q->scratch_bytes = 0;
    if ((status = cuda_get(c, queue, &q->scratch, bytes)))
        return status;
    q->scratch_bytes = TCR_ROUND(bytes);
    tcr_holds(&c->device, (ptrdiff_t)(q->scratch_bytes));
    return TCC_OK;
}

int cuda_room_for_params(struct tcr_cuda *c, size_t n)
{
    return RESERVED(c->params, c->params_room, n) ? TCC_OK
                                                  : tcr_fail(TCC_EENV, "no memory for the parameters of a launch");
}

/* Arguments and sizes in a table of the device's, for the launches of one kernel. A program that is being recorded
 * keeps it, and it is there before the program runs, by way of a stream that isn't recorded. */
static int make_table(struct tcr_cuda *c, int queue, size_t n, uint64_t *at, const char *node)
{
    int other = c->recording ? 0 : queue, status = cuda_get(c, other, at, n * 8);

    if (!status)
        status = cuda_upload(c, other, *at, c->params, n * 8, false, node);
    if (!status && c->recording && !(status = CU(c, node, cuStreamSynchronize, c->queues[0].stream)))
        status = cuda_program_table(c, *at);
    return status;
}

/* Writes the parameters; *bytes: how many bytes they have. *table: to be given back behind the launches; 0: there is
 * none. */
static int parameters(struct tcr_cuda *c, int queue, const struct tcr_kernel_launch *l, size_t *bytes, uint64_t *table)
{
    size_t n = (size_t)l->nargs + l->nsizes;
    uint64_t scratch = c->queues[queue].scratch;
    bool by_control = MUTANT(181, l->at != NULL, false);
    int status = cuda_room_for_params(c, n + 5);

    if (status)
        return status;
    for (uint32_t i = 0; i < l->nargs; i++)
        c->params[i] = (uint64_t)(uintptr_t)l->args[i];
    for (uint32_t i = 0; i < l->nsizes; i++)
        c->params[l->nargs + i] = by_control ? l->at[i] : (uint64_t)l->sizes[i];
    *table = 0;
    if (tcc_launch_has_table(l->nargs, l->nsizes)) {
        uint64_t at;

        if ((status = make_table(c, queue, n, &at, l->node)))
            return status;
        c->params[0] = at;
        n = 1;
        *table = c->recording ? 0 : at;
    }
    c->params[n] = scratch;
    c->params[n + 1] = c->control + CUDA_CONTROL_AT;
    c->params[n + 2] = by_control ? l->at[l->nsizes] : (uint64_t)l->tiles;
    c->params[n + 3] = by_control ? c->control + CUDA_CONTROL_AT + offsetof(struct tcc_control, values) : 0;
    *bytes = 8 * (n + 4);
    return TCC_OK;
}

/* -- Launches -------------------------------------------------------------------------------------------- */

/* The simulator's reports name the node and check that launches given as one stay within their arguments. */
static void tell_simulator(struct tcr_cuda *c, const struct tcr_kernel_launch *rows, uint32_t nrows)
{
    struct cuda_sim_range *list = NULL;
    int n = 0;

    if (!c->m->cu->ptx_driver_next)
        return;
    if (rows->access && (list = calloc((size_t)nrows * rows->nargs + 1, sizeof *list)))
        for (const struct tcr_kernel_launch *l = rows; l < rows + nrows; l++)
            for (uint32_t i = 0; i < l->nargs; i++) {
                if (!l->access[i].bytes)
                    continue;
                list[n].address = (uint64_t)(uintptr_t)l->access[i].at;
                list[n].bytes = l->access[i].bytes;
                list[n].writable = l->access[i].how & TCC_WRITES;
                snprintf(list[n++].name, sizeof list->name, "argument %u", i);
            }
    c->m->cu->ptx_driver_next(rows->node, list, n);
    free(list);
}

static int launch_one(struct tcr_cuda *c, cuda_stream stream, struct cuda_launch *f, const struct shape *s,
                      size_t bytes, const char *node)
{
    void *extra[] = {(void *)1, c->params, (void *)2, &bytes, NULL};
    bool cluster = s->cluster[0] * s->cluster[1] * s->cluster[2] > 1;
    struct cuda_launch_attribute a = {.id = CUDA_CLUSTER,
                                      .value.cluster = {s->cluster[0], s->cluster[1], s->cluster[2]}};
    struct cuda_launch_config config = {
        {s->grid[0], s->grid[1], s->grid[2]}, {s->block[0], s->block[1], s->block[2]}, s->shared, stream, &a, 1};
    int status;

    if (s->shared > (unsigned)f->shared) {
        if ((status = CU(c, node, cuFuncSetAttribute, f->function, CUDA_DYNAMIC_SHARED, (int)s->shared)))
            return status;
        f->shared = (int)s->shared;
    }
    if (cluster && !c->m->cu->cuLaunchKernelEx)
        return tcr_fail(TCC_EENV, "node '%s': this CUDA driver has no clusters", node);
    if (cluster)
        return CU(c, node, cuLaunchKernelEx, &config, f->function, NULL, extra);
    return CU(c, node, cuLaunchKernel, f->function, s->grid[0], s->grid[1], s->grid[2], s->block[0], s->block[1],
              s->block[2], s->shared, stream, NULL, extra);
}

/* Behind a kernel that may fault: whose fault it is. */
static int note(struct tcr_cuda *c, cuda_stream stream, const struct tcr_kernel_launch *l)
{
    uint64_t params[] = {c->control + CUDA_CONTROL_AT, (uint64_t)(uintptr_t)l->checks};
    size_t bytes = sizeof params;
    void *extra[] = {(void *)1, params, (void *)2, &bytes, NULL};

    c->unread = true;
    return CU(c, l->node, cuLaunchKernel, c->m->note, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra);
}

int cuda_guarded_copy(struct tcr_cuda *c, int queue, uint64_t to, uint64_t from, size_t bytes, const char *node)
{
    uint64_t params[] = {to, from, bytes, c->control + CUDA_CONTROL_AT};
    size_t size = sizeof params, blocks = (bytes / 16 + 255) / 256;
    void *extra[] = {(void *)1, params, (void *)2, &size, NULL};

    return CU(c, node, cuLaunchKernel, c->m->copy,
              (unsigned)(blocks < 1      ? 1
                         : blocks > 1024 ? 1024
                                         : blocks),
              1, 1, 256, 1, 1, 0, c->queues[queue].stream, NULL, extra);
}

void cuda_gave(const char *nodes[2], const char *first, const char *last)
{
    nodes[0] = nodes[0] ? nodes[0] : first;
    nodes[1] = last;
}

/* Launches from `first` to `last` have been given, with that status. */
static int gave(struct tcr_cuda *c, int queue, const struct tcr_kernel_launch *first,
                const struct tcr_kernel_launch *last, int status)
{
    cuda_gave(c->recording ? c->recording->nodes : c->given, first->node, last->node);
    if (!status && c->blocking && !(status = CU(c, NULL, cuStreamSynchronize, c->queues[queue].stream)))
        c->given[0] = c->given[1] = NULL;
    return status || !first->may_fault ? status : note(c, c->queues[queue].stream, first);
}

static int launch(struct tcr_cuda *c, int queue, const struct tcr_kernel_launch *l)
{
    struct tcc_range list = c->code && l->kernel < c->code->image->kernels.count ? cuda_launches(c->code, l->kernel)
                                                                                 : (struct tcc_range){0, 0};
    int64_t scratch, most = 0;
    uint64_t table = 0;
    struct shape s;
    size_t plain, bytes;
    int status = TCC_OK;

    if (!list.count)
        return tcr_fail(TCC_EENV, "node '%s': the artifact has no code of kernel %u for device '%s'", l->node,
                        l->kernel, c->name);
    for (uint32_t k = 0; k < list.count && !status; k++) {
        struct cuda_launch *f = &c->code->launches[list.first + k];

        if (!(status = evaluate(c, f, l)) &&
            !(status = number(c, f->record->scratch, 0, 0, INT64_MAX / 2, "scratch", l->node, &scratch)))
            most = scratch > most ? scratch : most;
    }
    if (status || (status = reserve_scratch(c, queue, (size_t)most, l->node)) ||
        (status = parameters(c, queue, l, &plain, &table)))
        return status;
    for (uint32_t k = 0; k < list.count && !status; k++) {
        struct cuda_launch *f = &c->code->launches[list.first + k];

        bytes = plain;
        if ((status = evaluate(c, f, l)) || (status = shape_of(c, f, l->node, &s)) ||
            (status = cuda_maps(c, f, l, &bytes)))
            break;
        if ((status = cuda_time_from(c, queue)))
            break;
        tell_simulator(c, l, 1);
        if (!(status = launch_one(c, c->queues[queue].stream, f, &s, bytes, l->node)))
            status = cuda_time_to(c, queue, TCR_TIMED_LAUNCH, 0);
    }
    cuda_give(c, queue, table);
    return gave(c, queue, l, l, status);
}

/* What the driver is told of the kernel's functions must do for all sizes, and is the same for all. */
bool cuda_holds(struct tcr_device *d, const struct tcr_kernel_launch *l, uint64_t *shape)
{
    struct tcr_cuda *c = cuda_of(d);
    struct tcc_range list = c->code && l->kernel < c->code->image->kernels.count ? cuda_launches(c->code, l->kernel)
                                                                                 : (struct tcc_range){0, 0};
    struct {
        struct shape s;
        uint32_t pad;
        int64_t scratch;
        uint64_t before;
    } all = {.before = 0};

    for (uint32_t k = 0; k < list.count; k++) {
        struct cuda_launch *f = &c->code->launches[list.first + k];

        if (evaluate(c, f, l) || shape_of(c, f, l->node, &all.s) ||
            number(c, f->record->scratch, 0, 0, INT64_MAX / 2, "scratch", l->node, &all.scratch))
            return false;
        all.before = tcr_xxh3(&all, sizeof all);
    }
    *shape = all.before;
    return list.count > 0;
}

int cuda_launch(struct tcr_device *d, int queue, const struct tcr_kernel_launch *l)
{
    struct tcr_cuda *c = cuda_of(d);
    int status;

    if (!(status = cuda_enter(c)) && !(status = cuda_queue_ok(c, queue))) {
        d->counts.launches++;
        status = launch(c, queue, l);
    }
    return cuda_leave(c, status);
}

/* -- Several as one ------------------------------------------------------------------------------------ */

/* The function that runs several launches of that kernel; NULL: it has none. */
static struct cuda_launch *rows_function(struct tcr_cuda *c, uint32_t kernel)
{
    const struct tcc_pimage *i = c->code ? c->code->image : NULL;
    struct tcc_range list = i && kernel < i->kernels.count ? cuda_launches(c->code, kernel) : (struct tcc_range){0, 0};
    uint32_t at = list.first + list.count;

    return list.count == 1 && at < i->launches.count && (c->code->launches[at].record->flags & TCC_LAUNCH_ROWS)
               ? &c->code->launches[at]
               : NULL;
}

/* Writes the table (runtime/abi.h, TCC_LAUNCH_ROWS): *blocks of them in all. */
static int fill_table(struct tcr_cuda *c, const struct cuda_launch *f, const struct tcr_kernel_launch *rows, uint32_t n,
                      int64_t *blocks)
{
    uint64_t *to = c->params + n + 1;
    struct shape s;
    int status = TCC_OK;

    *blocks = 0;
    for (uint32_t r = 0; r < n && !status; r++) {
        const struct tcr_kernel_launch *l = &rows[r];

        if ((status = evaluate(c, f, l)) || (status = shape_of(c, f, l->node, &s)))
            break;
        c->params[r] = (uint64_t)*blocks;
        *blocks += s.grid[0];
        for (uint32_t i = 0; i < l->nargs; i++)
            *to++ = (uint64_t)(uintptr_t)l->args[i];
        for (uint32_t i = 0; i < l->nsizes; i++)
            *to++ = (uint64_t)l->sizes[i];
        *to++ = (uint64_t)l->tiles;
    }
    c->params[n] = (uint64_t)*blocks;
    return status;
}

static int launch_rows(struct tcr_cuda *c, int queue, struct cuda_launch *f, const struct tcr_kernel_launch *rows,
                       uint32_t n)
{
    size_t words = tcc_rows_words(n, rows->nargs, rows->nsizes);
    uint64_t table = 0;
    int64_t blocks;
    struct shape s;
    int status = cuda_room_for_params(c, words);

    if (status || (status = fill_table(c, f, rows, n, &blocks)) || (status = evaluate(c, f, rows)) ||
        (status = shape_of(c, f, rows->node, &s)) || (status = make_table(c, queue, words, &table, rows->node)))
        return status;
    if (blocks > INT32_MAX)
        status = tcr_fail(TCC_EINPUT, "node '%s': %lld blocks for %u launches", rows->node, (long long)blocks, n);
    s.grid[0] = (unsigned)blocks;
    c->params[0] = table;
    c->params[1] = 0;
    c->params[2] = c->control + CUDA_CONTROL_AT;
    c->params[3] = n;
    c->params[4] = 0;
    if (!status && !(status = cuda_time_from(c, queue))) {
        tell_simulator(c, rows, n);
        if (!(status = launch_one(c, c->queues[queue].stream, f, &s, 5 * sizeof *c->params, rows->node)))
            status = cuda_time_to(c, queue, TCR_TIMED_LAUNCH, 0);
    }
    if (!c->recording)
        cuda_give(c, queue, table);
    return gave(c, queue, rows, &rows[n - 1], status);
}

int cuda_launch_rows(struct tcr_device *d, int queue, const struct tcr_kernel_launch *rows, uint32_t n)
{
    struct tcr_cuda *c = cuda_of(d);
    struct cuda_launch *f = n > 1 ? rows_function(c, rows->kernel) : NULL;
    int status;

    if ((status = cuda_enter(c)) || (status = cuda_queue_ok(c, queue)))
        return cuda_leave(c, status);
    d->counts.launches += f ? 1 : n;
    if (f)
        status = launch_rows(c, queue, f, rows, n);
    for (uint32_t i = 0; !f && i < n && !status; i++)
        status = launch(c, queue, &rows[i]);
    return cuda_leave(c, status);
}
