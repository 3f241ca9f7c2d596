/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call's outputs: memory for them, the caller's or the session's, before the first step or when their dims are known;
 * and what lies elsewhere when the plan has been walked.
 */
#include <string.h>

#include "runtime/rt_int.h"

void tcr_reset_outputs(struct tccrt_session *s)
{
    for (uint32_t k = 0; k < s->max_outputs; k++) {
        tccrt_object_unref(s->outs[k].object);
        s->outs[k].object = NULL;
        s->outs[k].data = s->outs[k].host = NULL;
        s->outs[k].user = NULL;
    }
}

static const char *output_name(const struct tccrt_session *s, uint32_t k)
{
    return tcr_string(s->m, s->m->signatures[s->running->outputs.first + k].name);
}

static int check_user_output(const struct tccrt_session *s, uint32_t k, const struct tcc_tensor *user, int dtype,
                             int rank, const int64_t *dims)
{
    char want[256], found[256];

    if (user->dtype == dtype && user->rank == rank && memcmp(user->dims, dims, (size_t)rank * sizeof *dims) == 0)
        return TCC_OK;
    return tcr_fail(TCC_EINPUT, "output '%s': the result is %s%s, but the memory given is for %s%s", output_name(s, k),
                    tcr_dtype_name(dtype), tcr_dims_text(want, rank, dims), tcr_dtype_name(user->dtype),
                    tcr_dims_text(found,
                                  user->rank < 0              ? 0
                                  : user->rank > TCC_MAX_RANK ? TCC_MAX_RANK
                                                              : user->rank,
                                  user->dims));
}

/* Where the caller finds it. */
static int output_on_host(struct tccrt_session *s, uint32_t k, int dtype, int rank, const int64_t *dims, int64_t need)
{
    struct tcr_out *o = &s->outs[k];
    int status;

    if (o->user) {
        status = check_user_output(s, k, o->user, dtype, rank, dims);
        o->host = status ? NULL : o->user->data;
        return status;
    }
    if (s->objects) {
        tccrt_object_unref(o->object);
        o->object = tccrt_object_tensor(dtype, rank, dims);
        o->host = o->object ? o->object->t.data : NULL;
        return o->object ? TCC_OK : tcr_fail(TCC_EENV, "output '%s': no memory", output_name(s, k));
    }
    status = tcr_grow(s, 0, &o->own, &o->own_bytes, (size_t)need);
    o->host = status ? NULL : o->own;
    return status;
}

void *tcr_output_memory(struct tccrt_session *s, uint32_t k, uint32_t memory, int dtype, int rank, const int64_t *dims,
                        int64_t bytes, int *status)
{
    struct tcr_out *o = &s->outs[k];
    int64_t n = tcr_elements(dtype, rank, dims);
    int64_t need = n < 0 ? -1 : n * tcr_dtype_bytes(dtype);

    if (need < 0) {
        *status = tcr_fail(TCC_EENV, "output '%s': its shape is larger than memory", output_name(s, k));
        return NULL;
    }
    need = bytes > need ? bytes : need;
    *status = output_on_host(s, k, dtype, rank, dims, need);
    o->data = o->host;
    if (!*status && memory && s->discrete && !(s->out_on_device && s->out_on_device[k])) {
        *status = tcr_grow(s, 1, &o->there, &o->there_bytes, (size_t)need);
        o->data = o->there;
    }
    o->bytes = need;
    if (!*status && s->guard && o->data && o->data == o->host)
        *status = tcr_guard_output(s, k, dtype);
    o->rank = rank;
    memcpy(o->dims, dims, (size_t)rank * sizeof *dims);
    return *status ? NULL : o->data;
}

/* Their memory is known before the first step. */
int tcr_early_outputs(struct tccrt_session *s, const struct tcc_pentry *e)
{
    const struct tccrt_model *m = s->m;

    for (uint32_t k = 0; k < e->outputs.count; k++) {
        const struct tcc_pbuffer *b = &m->buffers[m->u32s[e->output_buffers.first + k]];
        int64_t dims[TCC_MAX_RANK];
        bool known = b->space == TCC_SPACE_OUTPUT;
        int status;

        for (uint32_t i = 0; known && i < b->dims.count; i++) {
            dims[i] = s->values[m->u32s[b->dims.first + i]];
            known = dims[i] >= 0;
        }
        if (known && !tcr_output_memory(s, k, tcr_memory(s, m->u32s[e->output_buffers.first + k]), (int)b->dtype,
                                        (int)b->rank, dims, s->values[b->bytes], &status))
            return status;
    }
    return TCC_OK;
}

/* The result lies in a buffer that is not an output of its own: an input, a weight, a dynamic buffer, an object. */
static int copy_output(struct tccrt_session *s, uint32_t k, uint32_t buffer)
{
    struct tcc_tensor t;
    int status = tcr_buffer_tensor(s, buffer, output_name(s, k), &t);
    uint32_t there = s->discrete && s->out_on_device && s->out_on_device[k];
    int64_t n;
    void *to;

    if (status)
        return status;
    if (t.dtype == TCC_STRING)
        return tcr_fail(TCC_EUSAGE, "output '%s': a string tensor cannot be written to memory of the caller's",
                        output_name(s, k));
    to = tcr_output_memory(s, k, there, t.dtype, t.rank, t.dims, 0, &status);
    if (!to)
        return status;
    n = tcr_elements(t.dtype, t.rank, t.dims);
    return n > 0 ? tcr_copy(s, there, to, tcr_memory(s, buffer), t.data, (size_t)n * (size_t)tcr_dtype_bytes(t.dtype),
                            output_name(s, k))
                 : TCC_OK;
}

static int object_output(struct tccrt_session *s, uint32_t k, uint32_t buffer)
{
    struct tcc_object *o = s->slots[s->m->slot_of[buffer]].object;

    if (!o)
        return tcr_fail(TCC_EBUG, "output '%s' was never made", output_name(s, k));
    if (!s->objects && o->kind != TCC_OBJ_TENSOR)
        return tcr_fail(TCC_EUSAGE, "output '%s' is a %s: use tccrt_run_objects()", output_name(s, k),
                        tcr_kind_name((uint32_t)o->kind));
    if (s->outs[k].user)
        return copy_output(s, k, buffer);
    tccrt_object_unref(s->outs[k].object);
    s->outs[k].object = tccrt_object_ref(o);
    return s->outs[k].object ? TCC_OK : tcr_fail(TCC_EENV, "output '%s': no memory", output_name(s, k));
}

int tcr_late_outputs(struct tccrt_session *s, const struct tcc_pentry *e)
{
    for (uint32_t k = 0; k < e->outputs.count; k++) {
        uint32_t buffer = s->m->u32s[e->output_buffers.first + k];
        const struct tcc_pbuffer *b = &s->m->buffers[buffer];
        int status;
        void *data;

        if (b->space == TCC_SPACE_OBJECT)
            status = object_output(s, k, buffer);
        else if (b->space == TCC_SPACE_OUTPUT && b->index == k)
            status = s->outs[k].data ? TCC_OK : tcr_address(s, buffer, output_name(s, k), &data);
        else
            status = copy_output(s, k, buffer);
        if (status)
            return status;
    }
    return TCC_OK;
}

int tcr_outputs_to_host(struct tccrt_session *s)
{
    int status = TCC_OK;

    for (uint32_t k = 0; !status && k < s->running->outputs.count; k++) {
        const struct tcr_out *o = &s->outs[k];

        if (o->data && o->data == o->there)
            status = tcr_copy(s, 0, o->host, 1, o->data, (size_t)o->bytes, output_name(s, k));
    }
    return status;
}
