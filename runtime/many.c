/* SPDX-License-Identifier: Apache-2.0 */
/*
 * many.c - several runs of one call, each given to the device before the one before is waited for.
 *
 * Where a copy to the device takes long to start, an input's batches go there together: one block of the device's
 * memory for each input, one transfer, and every run reads its part of the block where it lies
 * (tccrt_async.in_on_device). The blocks stay with the session until a call needs larger ones. They come on top of what
 * a run takes: N batches of every input, on the device, and where the caller's lie apart from each other on the host,
 * too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/rt_int.h"

/* Of an input. */
struct block {
    void *on_device, *on_host;
    size_t device_bytes, host_bytes;
};
struct tcr_batches {
    struct block *blocks; /* by input */
};

/* What a call gives to its runs in place of the caller's lists. */
struct call {
    struct tcc_tensor *in; /* n times nin; NULL: as the caller has them */
    bool *there;           /* by input: it lies on the device */
    struct tccrt_async how;
};

static void free_batches(struct tccrt_session *s)
{
    for (uint32_t i = 0; s->batches->blocks && i < s->max_inputs; i++) {
        tcr_free(s, 1, s->batches->blocks[i].on_device, s->batches->blocks[i].device_bytes);
        tcr_heap_free(&s->heap, s->batches->blocks[i].on_host, s->batches->blocks[i].host_bytes);
    }
    tcr_heap_free(&s->heap, s->batches->blocks, s->max_inputs * sizeof *s->batches->blocks);
    tcr_heap_free(&s->heap, s->batches, sizeof *s->batches);
    s->batches = NULL;
}

static int make_batches(struct tccrt_session *s)
{
    size_t bytes = s->max_inputs * sizeof(struct block);

    if (!(s->batches = tcr_heap_alloc(&s->heap, sizeof *s->batches)))
        return TCC_EENV;
    s->free_batches = free_batches;
    if (!(s->batches->blocks = tcr_heap_alloc(&s->heap, bytes)))
        return TCC_EENV;
    memset(s->batches->blocks, 0, bytes);
    return TCC_OK;
}

/* Bytes of input i, the same in all n batches; 0: they differ, or there is nothing to send. */
static size_t bytes_each(int64_t n, int nin, int i, const struct tcc_tensor *in)
{
    const struct tcc_tensor *first = &in[i];

    if (first->rank < 0 || first->rank > TCC_MAX_RANK || !first->data)
        return 0;
    for (int64_t k = 1; k < n; k++) {
        const struct tcc_tensor *t = &in[k * nin + i];

        if (t->dtype != first->dtype || t->rank != first->rank || !t->data ||
            memcmp(t->dims, first->dims, (size_t)first->rank * sizeof *t->dims))
            return 0;
    }
    int64_t elements = tcr_elements(first->dtype, first->rank, first->dims);
    return elements > 0 ? (size_t)elements * (size_t)tcr_dtype_bytes(first->dtype) : 0;
}

/* The batches side by side on the host, `stride` apart: where the caller has them, or a copy; NULL: no memory. */
static const void *side_by_side(struct tccrt_session *s, struct block *b, size_t bytes, size_t stride, int64_t n,
                                int nin, const struct tcc_tensor *in)
{
    bool are = true;

    for (int64_t k = 1; k < n && are; k++)
        are = (const char *)in[k * nin].data == (const char *)in->data + (size_t)k * stride;
    if (are)
        return in->data;
    if (b->host_bytes < (size_t)n * stride) {
        tcr_heap_free(&s->heap, b->on_host, b->host_bytes);
        b->host_bytes = 0;
        if (!(b->on_host = tcr_heap_alloc(&s->heap, (size_t)n * stride)))
            return NULL;
        b->host_bytes = (size_t)n * stride;
    }
    for (int64_t k = 0; k < n; k++)
        memcpy((char *)b->on_host + (size_t)k * stride, in[k * nin].data, bytes);
    return b->on_host;
}

/* Input i of all batches, in one transfer. */
static int send(struct tccrt_session *s, struct call *c, size_t bytes, int64_t n, int nin, int i)
{
    struct block *b = &s->batches->blocks[i];
    size_t stride = TCR_ROUND(bytes);
    const void *from = side_by_side(s, b, bytes, stride, n, nin, c->in + i);
    int status = from ? tcr_grow(s, 1, &b->on_device, &b->device_bytes, (size_t)n * stride) : TCC_EENV;

    if (!status)
        status = tcr_copy(s, 1, b->on_device, 0, from, (size_t)(n - 1) * stride + bytes, "batches of an input");
    for (int64_t k = 0; k < n && !status; k++)
        c->in[k * nin + i].data = (char *)b->on_device + (size_t)k * stride;
    c->there[i] = !status;
    return status;
}

static void end_call(struct call *c)
{
    free(c->in);
    free(c->there);
}

/* Blocks are the session's alone once its earlier runs have been waited for. */
static int send_all(struct tccrt_session *s, const struct tcc_pentry *e, struct call *c, int64_t n, int nin,
                    const struct tcc_tensor *in)
{
    size_t list = (size_t)n * (size_t)nin * sizeof *in;
    int status = tcr_settle(s);

    if (status || (!s->batches && (status = make_batches(s))))
        return status;
    if (!(c->in = malloc(list)) || !(c->there = calloc((size_t)nin, sizeof *c->there)))
        return tcr_fail(TCC_EENV, "no memory for a run");
    memcpy(c->in, in, list);
    for (int i = 0; i < nin && !status; i++) {
        size_t bytes = bytes_each(n, nin, i, in);
        bool goes = false;

        if (!bytes || bytes > SIZE_MAX / (size_t)n - TCR_ALIGN)
            continue;
        status = tcr_goes_ahead(s, e, (uint32_t)i, &goes);
        if (!status && goes)
            status = send(s, c, bytes, n, nin, i);
    }
    c->how.in_on_device = c->there;
    return status;
}

/* Nothing to send, or nothing gained: the runs take what the caller has. What is wrong with it they tell. */
static int begin_call(struct tccrt_session *s, struct call *c, const char *entry, int64_t n, int nin,
                      const struct tcc_tensor *in)
{
    const struct tcc_pentry *e;
    int status = tcr_enter(s);

    if (status)
        return status;
    e = s->device->one_transfer && n > 1 && nin > 0 ? tcr_find_entry(s->m, entry) : NULL;
    if (e && !e->staged && e->inputs.count == (uint32_t)nin)
        status = send_all(s, e, c, n, nin, in);
    else
        tcr_clear_error();
    return tcr_leave(s, status);
}

/* A run can't be given: does the one before it, of that number, end well? What is wrong is still what is said. */
static int count_last(struct tccrt_session *s, int64_t number, int status, int64_t *done)
{
    char why[1024];

    snprintf(why, sizeof why, "%s", tccrt_error());
    *done += tccrt_wait(s, number) == TCC_OK;
    return tcr_fail(status, "%s", why);
}

int tccrt_run_many(struct tccrt_session *s, const char *entry, int64_t n, int nin, const struct tcc_tensor *in,
                   int nout, struct tcc_tensor *out, int64_t *done)
{
    struct call c = {0};
    int64_t first;
    int status;

    if (!done || (n > 0 && ((nin && !in) || (nout && !out))))
        return tcr_fail(TCC_EUSAGE, "lists of inputs and outputs and a place for the count are required, got NULL");
    *done = 0;
    if (n == 1) {
        status = tccrt_run(s, entry, nin, in, nout, out);
        *done = !status;
        return status;
    }
    status = begin_call(s, &c, entry, n, nin, in);
    in = c.in ? c.in : in;
    first = s ? s->given : 0;
    for (int64_t k = 0; k < n && !status; k++) {
        status = tccrt_run_async(s, entry, nin, in + k * nin, nout, out + k * nout, &c.how, NULL);
        if (k && status) {
            status = count_last(s, first + k, status, done);
        } else if (k) {
            status = tccrt_wait(s, first + k);
            *done += !status;
        }
    }
    if (!status && n) {
        status = tccrt_wait(s, 0);
        *done += !status;
    }
    end_call(&c);
    return status;
}
