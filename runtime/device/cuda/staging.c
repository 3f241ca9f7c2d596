/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between the host and the device. But for what host_alloc() gave (where copies go straight there), the host's
 * memory is not pinned, so the bytes go through pinned blocks, two for each queue that copies: one is filled while the
 * device still reads the other. What goes to the device is taken when the copy is given; what comes from it lands in a
 * block and goes to where it belongs when the host has waited (cuda_land), or when its block is needed again. A copy
 * that reads memory of the host for which something is still under way waits for that first.
 */
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "runtime/device/cuda/cuda_int.h"

/* -- Landings ------------------------------------------------------------------------------------------ */

static int spare_event(struct tcr_cuda *c, cuda_event *e)
{
    if (c->nspare) {
        *e = c->spare[--c->nspare];
        return TCC_OK;
    }
    return CU(c, NULL, cuEventCreate, e, CUDA_EVENT_NO_TIMING);
}

static void keep_event(struct tcr_cuda *c, cuda_event e)
{
    if (!GROWN(c->spare, c->nspare, c->spare_room, 16)) {
        c->m->cu->cuEventDestroy_v2(e);
        return;
    }
    c->spare[c->nspare++] = e;
}

int cuda_land(struct tcr_cuda *c)
{
    size_t n = 0;
    int status = TCC_OK;

    for (size_t i = 0; i < c->nlandings; i++) {
        struct cuda_landing l = c->landings[i];
        int result = c->m->cu->cuEventQuery(l.arrived);

        if (!result) {
            memcpy(l.to, l.from, l.bytes);
            keep_event(c, l.arrived);
            continue;
        }
        c->landings[n++] = l;
        if (result != CUDA_NOT_READY && !status)
            status = cuda_check(c, result, "cuEventQuery", NULL);
    }
    c->nlandings = n;
    return status;
}

/* What is under way to memory that a copy is about to read. */
static int settle(struct tcr_cuda *c, const char *from, size_t bytes)
{
    int status = TCC_OK;
    bool any = false;

    for (size_t i = 0; i < c->nlandings && !status; i++) {
        const char *to = c->landings[i].to;

        if (to < from + bytes && from < to + c->landings[i].bytes) {
            any = true;
            status = CU(c, NULL, cuEventSynchronize, c->landings[i].arrived);
        }
    }
    return status || !any ? status : cuda_land(c);
}

static int add_landing(struct tcr_cuda *c, int queue, void *to, const void *from, size_t bytes)
{
    cuda_event e;
    int status;

    if (!GROWN(c->landings, c->nlandings, c->landings_room, 16))
        return tcr_fail(TCC_EENV, "no memory for a list of copies");
    if ((status = spare_event(c, &e)))
        return status;
    if ((status = CU(c, NULL, cuEventRecord, e, c->queues[queue].stream))) {
        keep_event(c, e);
        return status;
    }
    c->landings[c->nlandings++] = (struct cuda_landing){to, from, bytes, e};
    return TCC_OK;
}

/* -- Pinned blocks ------------------------------------------------------------------------------------- */

static int open_block(struct tcr_cuda *c, struct cuda_block *b)
{
    void *p = NULL;
    int status = b->passed ? TCC_OK : CU(c, NULL, cuEventCreate, &b->passed, CUDA_EVENT_NO_TIMING);

    if (!status && !(status = CU(c, NULL, cuMemHostAlloc, &p, CUDA_BLOCK, 0)))
        b->at = p;
    return status;
}

/* Room for bytes, at most CUDA_BLOCK, in the queue's blocks. */
static int stage(struct tcr_cuda *c, int queue, size_t bytes, char **at)
{
    struct cuda_queue *q = &c->queues[queue];
    struct cuda_block *b = &q->blocks[q->block];
    int status = TCC_OK;

    if (b->at && b->used + bytes > CUDA_BLOCK) {
        if ((status = CU(c, NULL, cuEventRecord, b->passed, q->stream)))
            return status;
        b->waits = true;
        q->block = (q->block + 1) % CUDA_BLOCKS;
        b = &q->blocks[q->block];
        if (b->waits && ((status = CU(c, NULL, cuEventSynchronize, b->passed)) || (status = cuda_land(c))))
            return status;
        b->waits = false;
        b->used = 0;
    }
    if (!b->at && (status = open_block(c, b)))
        return status;
    *at = b->at + b->used;
    b->used += TCR_ROUND(bytes);
    return TCC_OK;
}

void cuda_staging_free(struct tcr_cuda *c)
{
    for (int q = 0; q < CUDA_MAX_QUEUES; q++)
        for (int i = 0; i < CUDA_BLOCKS; i++) {
            struct cuda_block *b = &c->queues[q].blocks[i];

            if (b->at)
                c->m->cu->cuMemFreeHost(b->at);
            if (b->passed)
                c->m->cu->cuEventDestroy_v2(b->passed);
        }
    for (size_t i = 0; i < c->nlandings; i++)
        c->m->cu->cuEventDestroy_v2(c->landings[i].arrived);
    for (size_t i = 0; i < c->nspare; i++)
        c->m->cu->cuEventDestroy_v2(c->spare[i]);
    free(c->hosts);
    free(c->landings);
    free(c->spare);
}

/* -- Copies --------------------------------------------------------------------------------------------- */

static bool is_pinned(const struct tcr_cuda *c, const void *p, size_t bytes)
{
    for (size_t i = 0; i < c->nhosts; i++)
        if ((uintptr_t)p >= (uintptr_t)c->hosts[i].at &&
            (uintptr_t)p + bytes <= (uintptr_t)c->hosts[i].at + c->hosts[i].bytes)
            return true;
    return false;
}

int cuda_upload(struct tcr_cuda *c, int queue, uint64_t to, const void *from, size_t bytes, bool guarded,
                const char *node)
{
    bool pinned = is_pinned(c, from, bytes);
    int status = pinned ? TCC_OK : settle(c, from, bytes);

    for (size_t done = 0, n; done < bytes && !status; done += n) {
        const char *at = (const char *)from + done;
        char *block;

        n = pinned || bytes - done < CUDA_BLOCK ? bytes - done : CUDA_BLOCK;
        if (!pinned && (status = stage(c, queue, n, &block)))
            break;
        if (!pinned)
            at = memcpy(block, at, n);
        if ((status = cuda_time_from(c, queue)))
            break;
        status = guarded ? cuda_guarded_copy(c, queue, to + done, (uint64_t)(uintptr_t)at, n, node)
                         : CU(c, node, cuMemcpyHtoDAsync_v2, to + done, at, n, c->queues[queue].stream);
        if (!status)
            status = cuda_time_to(c, queue, TCR_TIMED_COPY, n);
    }
    return status;
}

static int download(struct tcr_cuda *c, int queue, char *to, uint64_t from, size_t bytes, const char *node)
{
    bool pinned = is_pinned(c, to, bytes);
    int status = TCC_OK;

    for (size_t done = 0, n; done < bytes && !status; done += n) {
        char *at = to + done;

        n = pinned || bytes - done < CUDA_BLOCK ? bytes - done : CUDA_BLOCK;
        if ((!pinned && (status = stage(c, queue, n, &at))) || (status = cuda_time_from(c, queue)) ||
            (status = CU(c, node, cuMemcpyDtoHAsync_v2, at, from + done, n, c->queues[queue].stream)) ||
            (status = cuda_time_to(c, queue, TCR_TIMED_COPY, n)))
            break;
        status = pinned ? TCC_OK : add_landing(c, queue, to + done, at, n);
    }
    return status;
}

/* The two may overlap: then by way of other memory. */
static int within(struct tcr_cuda *c, int queue, const struct tcr_copy *copy)
{
    uint64_t to = (uint64_t)(uintptr_t)copy->to, from = (uint64_t)(uintptr_t)copy->from, other;
    cuda_stream s = c->queues[queue].stream;
    int status;

    if (copy->guarded && (to + copy->bytes <= from || from + copy->bytes <= to))
        return cuda_guarded_copy(c, queue, to, from, copy->bytes, copy->node);
    if (to + copy->bytes <= from || from + copy->bytes <= to)
        return CU(c, copy->node, cuMemcpyDtoDAsync_v2, to, from, copy->bytes, s);
    if ((status = cuda_get(c, queue, &other, copy->bytes)))
        return status;
    if (!(status = CU(c, copy->node, cuMemcpyDtoDAsync_v2, other, from, copy->bytes, s)))
        status = copy->guarded ? cuda_guarded_copy(c, queue, to, other, copy->bytes, copy->node)
                               : CU(c, copy->node, cuMemcpyDtoDAsync_v2, to, other, copy->bytes, s);
    cuda_give(c, queue, other);
    return status;
}

static int timed_within(struct tcr_cuda *c, int queue, const struct tcr_copy *copy)
{
    int status = cuda_time_from(c, queue);

    if (!status)
        status = within(c, queue, copy);
    return status ? status : cuda_time_to(c, queue, TCR_TIMED_COPY, copy->bytes);
}

int cuda_copy(struct tcr_device *d, int queue, const struct tcr_copy *copy)
{
    struct tcr_cuda *c = cuda_of(d);
    int status;

    if (!copy->bytes)
        return TCC_OK;
    if ((status = cuda_enter(c)) || (status = cuda_queue_ok(c, queue)))
        return cuda_leave(c, status);
    d->counts.copies++;
    c->copy_bytes += copy->kind == TCR_TO_DEVICE || copy->kind == TCR_TO_HOST ? (int64_t)copy->bytes : 0;
    if (copy->kind == TCR_TO_DEVICE)
        status =
            cuda_upload(c, queue, (uint64_t)(uintptr_t)copy->to, copy->from, copy->bytes, copy->guarded, copy->node);
    else if (copy->kind == TCR_TO_HOST)
        status = download(c, queue, copy->to, (uint64_t)(uintptr_t)copy->from, copy->bytes, copy->node);
    else
        status = timed_within(c, queue, copy);
    return cuda_leave(c, status);
}

int cuda_fill(struct tcr_device *d, int queue, void *to, int byte, size_t bytes)
{
    struct tcr_cuda *c = cuda_of(d);
    int status;

    if (!bytes)
        return TCC_OK;
    if (!(status = cuda_enter(c)) && !(status = cuda_queue_ok(c, queue)))
        status =
            CU(c, NULL, cuMemsetD8Async, (uint64_t)(uintptr_t)to, (unsigned char)byte, bytes, c->queues[queue].stream);
    return cuda_leave(c, status);
}
