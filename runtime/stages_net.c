/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stages in different processes: sends that don't wait, receives that are begun early, and what all stages exchange
 * once a step.
 *
 * On a device that models time the clock travels with the message, before it and by the same tag: what comes behind a
 * receive begins no earlier than the send and what a message takes.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/stages_int.h"

static int tag_of(const struct run *r, const struct tcc_pstep *t)
{
    return (int)((tcr_stage_value(r, t, 0) * r->p->micros + tcr_stage_micro(r->s->m, t)) % 8192);
}

int tcr_stages_settle(struct pslot *x)
{
    int status = TCC_OK;

    if (x->sending)
        status = tccrt_comm_wait(x->sending);
    if (x->telling && !status)
        status = tccrt_comm_wait(x->telling);
    if (x->hearing && !status)
        status = tccrt_comm_wait(x->hearing);
    if (x->receiving && !status)
        status = tccrt_comm_wait(x->receiving);
    x->sending = x->receiving = x->telling = x->hearing = NULL;
    return status;
}

/* -- Modelled time --------------------------------------------------------------------------------- */

static int tell_clock(struct run *r, struct pslot *x, const struct tcc_pstep *t)
{
    struct tcr_device *d = r->s->device;
    struct tcc_tensor clock = {&x->sent_at, TCC_F64, 1, {1}};

    if (!d->ops->reached)
        return TCC_OK;
    x->sent_at = d->ops->clock(d);
    return tccrt_comm_send(r->group, (int)tcr_stage_peer(r, t), tag_of(r, t), &clock, &x->telling);
}

static int hear_clock(struct run *r, struct pslot *x, const struct tcc_pstep *t)
{
    struct tcc_tensor clock = {&x->heard, TCC_F64, 1, {1}};

    return r->s->device->ops->reached
               ? tccrt_comm_recv(r->group, (int)tcr_stage_peer(r, t), tag_of(r, t), &clock, &x->hearing)
               : TCC_OK;
}

int tcr_stages_meet(struct run *r)
{
    struct tcr_device *d = r->s->device;
    double now;
    struct tcc_tensor clock = {&now, TCC_F64, 1, {1}};
    int status;

    if (!r->group || !d->ops->reached)
        return TCC_OK;
    now = d->ops->clock(d);
    if (!(status = tccrt_comm_all_reduce(r->group, TCCRT_MAX, 1, 1, &clock, &clock, NULL)))
        d->ops->reached(d, now, 0, NULL);
    return status;
}

/* -- Values ---------------------------------------------------------------------------------------- */

int tcr_stages_send(struct run *r, struct pslot *x, const struct tcc_pstep *t)
{
    struct tcc_tensor v = {
        .data = x->data, .dtype = (int32_t)r->values[tcr_stage_value(r, t, 0)].dtype, .rank = x->rank};
    int status;

    memcpy(v.dims, x->dims, sizeof v.dims);
    if (x->sending && (status = tcr_stages_settle(x))) /* to another stage, too */
        return status;
    status = tell_clock(r, x, t);
    return status ? status : tccrt_comm_send(r->group, (int)tcr_stage_peer(r, t), tag_of(r, t), &v, &x->sending);
}

int tcr_stages_begin_recv(struct run *r, struct pslot *x, const struct tcc_pstep *t)
{
    const struct tcc_pbuffer *b = &r->values[tcr_stage_value(r, t, 0)];
    uint32_t micro = tcr_stage_micro(r->s->m, t);
    struct tcc_tensor v = {.dtype = (int32_t)b->dtype, .rank = (int32_t)b->rank};
    int status;
    int64_t n;

    if (x->receiving && x->micro == micro)
        return TCC_OK;
    if ((status = tcr_stages_settle(x)))
        return status;
    memcpy(v.dims, r->state->dims[b - r->values], sizeof v.dims);
    n = tcr_elements(v.dtype, v.rank, v.dims);
    if (n < 0)
        return tcr_fail(TCC_EBUG, "value '%s' has no size that is known before it comes", tcr_string(r->s->m, b->name));
    if ((status = tcr_grow(r->s, 0, &x->data, &x->held, (size_t)(n * tcr_dtype_bytes(v.dtype)))))
        return status;
    v.data = x->data;
    x->rank = v.rank;
    memcpy(x->dims, v.dims, sizeof x->dims);
    x->micro = micro;
    status = hear_clock(r, x, t);
    return status ? status : tccrt_comm_recv(r->group, (int)tcr_stage_peer(r, t), tag_of(r, t), &v, &x->receiving);
}

int tcr_stages_recv(struct run *r, struct pslot *x, const struct tcc_pstep *t)
{
    struct tcr_device *d = r->s->device;
    int32_t dtype = (int32_t)r->values[tcr_stage_value(r, t, 0)].dtype;
    int status = tcr_stages_begin_recv(r, x, t);

    if (!status)
        status = tcr_stages_settle(x);
    if (!status && d->ops->reached)
        d->ops->reached(d, x->heard, tcr_elements(dtype, x->rank, x->dims) * tcr_dtype_bytes(dtype),
                        tcr_string(r->s->m, t->node));
    return status;
}

int tcr_stages_gather(struct run *r, const struct pslot *own, struct pslot *all, const struct tcc_pstep *t)
{
    int32_t dtype = (int32_t)r->values[tcr_stage_value(r, t, 0)].dtype;
    struct tcc_tensor in = {.data = own->data, .dtype = dtype, .rank = own->rank}, out = {.dtype = dtype};
    int64_t bytes = tcr_elements(dtype, own->rank, own->dims) * tcr_dtype_bytes(dtype);
    int status = tcr_grow(r->s, 0, &all->data, &all->held, (size_t)bytes * r->p->stages);

    if (status)
        return status;
    memcpy(in.dims, own->dims, sizeof in.dims);
    out.data = all->data;
    out.rank = all->rank = own->rank + 1;
    out.dims[0] = all->dims[0] = r->p->stages;
    memcpy(out.dims + 1, own->dims, (size_t)own->rank * sizeof *own->dims);
    memcpy(all->dims, out.dims, sizeof all->dims);
    status = tccrt_comm_all_gather(r->group, &in, &out, NULL, NULL);
    return status ? status : tcr_stages_meet(r);
}

/* First its dims, then what it holds. */
int tcr_stages_broadcast(struct run *r, uint32_t k)
{
    struct result *x = &r->state->results[k];
    int64_t head[TCC_MAX_RANK + 1] = {x->t.rank};
    struct tcc_tensor h = {.data = head, .dtype = TCC_I64, .rank = 1, .dims = {TCC_MAX_RANK + 1}};
    int root = (int)r->outputs[k].stage, status;
    int64_t n;

    memcpy(head + 1, x->t.dims, sizeof x->t.dims);
    if ((status = tccrt_comm_broadcast(r->group, root, 1, &h, NULL)))
        return status;
    x->t.rank = (int32_t)head[0];
    memcpy(x->t.dims, head + 1, sizeof x->t.dims);
    n = tcr_elements(x->t.dtype, x->t.rank, x->t.dims);
    if (n < 0 || (status = tcr_stages_result_room(x, (size_t)n * (size_t)tcr_dtype_bytes(x->t.dtype))))
        return n < 0 ? tcr_fail(TCC_EBUG, "an output has no size") : status;
    return tccrt_comm_broadcast(r->group, root, 1, &x->t, NULL);
}

int tcr_stages_result_room(struct result *x, size_t bytes)
{
    if (x->held < bytes || !x->data) {
        free(x->data);
        x->held = 0;
        if (!(x->data = malloc(bytes + 1)))
            return tcr_fail(TCC_EENV, "no memory for an output");
        x->held = bytes;
    }
    x->t.data = x->data;
    return TCC_OK;
}
