/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Library calls: operands become objects (headers over dense buffers, or the objects themselves), attributes are read
 * from the plan, results go to their buffers.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/rt_int.h"

struct call {
    struct tcc_lib_call c; /* first: the host's functions get its address */
    struct tccrt_session *s;
    const struct tcc_pstep *p;
    const uint32_t *args;
    struct tcc_object *heads; /* one per dense input */
    const struct tcc_object **in;
    struct tcc_object **out;
    struct tcc_attr *attrs;
    struct tcc_tensor *tensors; /* of TENSOR attributes */
    const char **strings;
    struct tcc_string *texts; /* elements of TENSOR attributes of strings */
    int status;               /* of a failure that the op cannot report itself */
};

static const char *node_of(const struct call *k)
{
    return tcr_string(k->s->m, k->p->node);
}

/* -- What the op calls --------------------------------------------------------------------------------- */

/* A dense result: DYNAMIC buffers take any dims of the declared rank, others must have those of the plan. */
static void *dense_output(struct call *k, uint32_t b, int dtype, int rank, const int64_t *dims, int64_t bytes)
{
    struct tccrt_session *s = k->s;
    const struct tcc_pbuffer *p = &s->m->buffers[b];
    struct tcc_tensor t;
    char want[256], found[256];

    if ((int)p->dtype != dtype || (int)p->rank != rank) {
        k->status = tcr_fail(TCC_EINPUT, "node '%s': expected a result of dtype %s and rank %u, got %s and rank %d",
                             node_of(k), tcr_dtype_name((int)p->dtype), p->rank, tcr_dtype_name(dtype), rank);
        return NULL;
    }
    if (p->space == TCC_SPACE_DYNAMIC)
        k->status = tcr_dynamic(s, b, rank, dims, bytes);
    else if (p->space == TCC_SPACE_OUTPUT && !s->outs[p->index].data)
        tcr_output_memory(s, p->index, tcr_memory(s, b), dtype, rank, dims, bytes, &k->status);
    if (!k->status)
        k->status = tcr_host_tensor(s, b, node_of(k), TCC_WRITES, &t);
    if (k->status)
        return NULL;
    if (rank && memcmp(t.dims, dims, (size_t)rank * sizeof *dims)) {
        k->status = tcr_fail(TCC_EINPUT, "node '%s': expected a result of shape %s, got %s", node_of(k),
                             tcr_dims_text(want, rank, t.dims), tcr_dims_text(found, rank, dims));
        return NULL;
    }
    return t.data;
}

static void *host_output(struct tcc_lib_call *call, int n, int dtype, int rank, const int64_t *dims)
{
    struct call *k = (struct call *)call;
    uint32_t b = n >= 0 && n < call->nout ? k->args[call->nin + n] : TCC_NO;
    int64_t elements = tcr_elements(dtype, rank, dims);

    if (n < 0 || n >= call->nout) {
        k->status = tcr_fail(TCC_EBUG, "node '%s': the library op has no output %d here", node_of(k), n);
        return NULL;
    }
    if (elements < 0) {
        k->status = tcr_fail(TCC_EENV, "node '%s': its result is larger than memory", node_of(k));
        return NULL;
    }
    if (b != TCC_NO && k->s->m->buffers[b].space != TCC_SPACE_OBJECT)
        return dense_output(k, b, dtype, rank, dims, elements * tcr_dtype_bytes(dtype));
    tccrt_object_unref(k->out[n]);
    k->out[n] = tccrt_object_tensor(dtype, rank, dims);
    if (!k->out[n]) {
        k->status = tcr_fail(TCC_EENV, "node '%s': no memory for its result", node_of(k));
        return NULL;
    }
    return k->out[n]->t.data;
}

static void host_set(struct tcc_lib_call *call, int n, struct tcc_object *object)
{
    struct call *k = (struct call *)call;
    uint32_t b = n < call->nout ? k->args[call->nin + n] : TCC_NO;

    if (b == TCC_NO || k->s->m->buffers[b].space == TCC_SPACE_OBJECT) {
        if (n < call->nout) {
            tccrt_object_unref(k->out[n]);
            k->out[n] = object;
        } else {
            tccrt_object_unref(object);
        }
        return;
    }
    if (object->kind == TCC_OBJ_TENSOR) {
        const struct tcc_tensor *t = &object->t;
        void *to = host_output(call, n, t->dtype, t->rank, t->dims);

        if (to && t->dtype != TCC_STRING)
            memcpy(to, t->data, (size_t)(tcr_elements(t->dtype, t->rank, t->dims) * tcr_dtype_bytes(t->dtype)));
    } else {
        k->status = tcr_fail(TCC_EINPUT, "node '%s': its result must be a tensor", node_of(k));
    }
    tccrt_object_unref(object);
}

static int host_fail(struct tcc_lib_call *call, int status, const char *format, ...)
{
    struct call *k = (struct call *)call;
    char prefix[256];
    va_list args;

    snprintf(prefix, sizeof prefix, "node '%.200s': ", node_of(k));
    va_start(args, format);
    tcr_vfail(status, prefix, format, args);
    va_end(args);
    return status;
}

static void host_each(struct tcc_lib_call *call, int64_t n, void (*body)(void *arg, int64_t i), void *arg)
{
    struct call *k = (struct call *)call;

    tcr_host_each(k->s->host, n, body, arg);
}

static const struct tcc_lib_host host = {host_output, host_set, host_fail, host_each};

/* -- The call -------------------------------------------------------------------------------------------- */

/* Strings of an attribute: of a list, or of a tensor. */
static size_t count_strings(const struct tccrt_model *m, const struct tcc_pattr *p, bool tensor)
{
    size_t n = 1;

    if (tensor != (p->kind == TCC_ATTR_TENSOR) || (tensor ? p->dtype != TCC_STRING : p->kind != TCC_ATTR_STRINGS))
        return 0;
    for (uint32_t i = 0; tensor && i < p->dims.count; i++)
        n *= m->u32s[p->dims.first + i];
    return tensor ? n : p->n;
}

static void read_texts(struct call *k, const struct tcc_pattr *p, struct tcc_string *to)
{
    const struct tccrt_model *m = k->s->m;
    size_t n = count_strings(m, p, true);

    for (size_t i = 0; i < n; i++) {
        to[i].data = (char *)tcr_string(m, m->u32s[p->data + i]);
        to[i].size = (int64_t)strlen(to[i].data);
    }
}

static void read_attr(struct call *k, const struct tcc_pattr *p, struct tcc_attr *a, struct tcc_tensor *t,
                      const char ***strings, struct tcc_string **texts)
{
    const struct tccrt_model *m = k->s->m;
    bool in_bytes = p->kind != TCC_ATTR_STRINGS && !(p->kind == TCC_ATTR_TENSOR && p->dtype == TCC_STRING);
    const uint8_t *data = in_bytes ? m->bytes + p->data : NULL;

    *a = (struct tcc_attr){.name = tcr_string(m, p->name), .kind = (int32_t)p->kind, .n = (int32_t)p->n};
    switch (p->kind) {
    case TCC_ATTR_INTS: a->ints = (const int64_t *)data; break;
    case TCC_ATTR_FLOATS: a->floats = (const double *)data; break;
    case TCC_ATTR_STRINGS:
        a->strings = *strings;
        for (uint32_t i = 0; i < p->n; i++)
            (*strings)[i] = tcr_string(m, m->u32s[p->data + i]);
        *strings += p->n;
        break;
    default:
        *t = (struct tcc_tensor){.data = (void *)data, .dtype = (int32_t)p->dtype, .rank = (int32_t)p->rank};
        for (uint32_t i = 0; i < p->dims.count; i++)
            t->dims[i] = m->u32s[p->dims.first + i];
        if (p->dtype == TCC_STRING) {
            read_texts(k, p, *texts);
            t->data = *texts;
            *texts += count_strings(m, p, true);
        }
        a->tensor = t;
    }
}

static int gather_inputs(struct call *k)
{
    struct tccrt_session *s = k->s;

    for (int i = 0; i < k->c.nin; i++) {
        uint32_t b = k->args[i];
        struct tcc_tensor t;
        int status;

        if (b == TCC_NO)
            continue;
        if (s->m->buffers[b].space == TCC_SPACE_OBJECT) {
            k->in[i] = s->slots[s->m->slot_of[b]].object;
            if (!k->in[i])
                return tcr_fail(TCC_EBUG, "node '%s': operand %d is used before it is made", node_of(k), i);
            continue;
        }
        if ((status = tcr_host_tensor(s, b, node_of(k), TCC_READS, &t)))
            return status;
        tcr_object_borrow(&k->heads[i], &t);
        k->in[i] = &k->heads[i];
    }
    return TCC_OK;
}

static int deliver(struct call *k)
{
    struct tccrt_session *s = k->s;

    for (int i = 0; i < k->c.nout; i++) {
        uint32_t b = k->args[k->c.nin + i];

        if (b == TCC_NO || s->m->buffers[b].space != TCC_SPACE_OBJECT)
            continue;
        if (!k->out[i])
            return tcr_fail(TCC_EBUG, "node '%s': the library op made no output %d", node_of(k), i);
        tcr_slot_set(s, &s->slots[s->m->slot_of[b]], k->out[i]);
        k->out[i] = NULL;
    }
    return TCC_OK;
}

static int call_op(struct call *k)
{
    const struct tccrt_model *m = k->s->m;
    const char **strings = k->strings;
    struct tcc_string *texts = k->texts;
    int status;

    for (uint32_t i = 0; i < k->p->attrs.count; i++)
        read_attr(k, &m->attrs[k->p->attrs.first + i], &k->attrs[i], &k->tensors[i], &strings, &texts);
    if ((status = gather_inputs(k)))
        return status;
    k->c.in = k->in;
    k->c.out = k->out;
    k->c.attrs = k->attrs;
    status = m->desc->libops[k->p->what](&k->c);
    if (k->status)
        return k->status;
    if (status)
        return status;
    return deliver(k);
}

int tcr_step_lib(struct tccrt_session *s, const struct tcc_pstep *p)
{
    struct call k = {.s = s, .p = p, .args = s->m->u32s + p->args.first};
    size_t nin = p->nin, nout = p->args.count - p->nin, nattrs = p->attrs.count, nstrings = 0, ntexts = 0, bytes;
    char *room, *at;
    int status;

    for (size_t i = 0; i < nattrs; i++) {
        nstrings += count_strings(s->m, &s->m->attrs[p->attrs.first + i], false);
        ntexts += count_strings(s->m, &s->m->attrs[p->attrs.first + i], true);
    }
    bytes = nin * (sizeof *k.heads + sizeof *k.in) + nout * sizeof *k.out +
            nattrs * (sizeof *k.attrs + sizeof *k.tensors) + nstrings * sizeof *k.strings + ntexts * sizeof *k.texts;
    room = at = tcr_heap_alloc(&s->heap, bytes);
    if (!room)
        return TCC_EENV;
    memset(room, 0, bytes);
#define TAKE(field, n) (k.field = (void *)at, at += (n) * sizeof *k.field)
    TAKE(heads, nin);
    TAKE(in, nin);
    TAKE(out, nout);
    TAKE(attrs, nattrs);
    TAKE(tensors, nattrs);
    TAKE(strings, nstrings);
    TAKE(texts, ntexts);
#undef TAKE
    k.c = (struct tcc_lib_call){.host = &host,
                                .user = s,
                                .nin = (int32_t)nin,
                                .nout = (int32_t)nout,
                                .nattrs = (int32_t)nattrs,
                                .seed = s->seed,
                                .run = s->runs};
    status = call_op(&k);
    for (size_t i = 0; i < nout; i++)
        tccrt_object_unref(k.out[i]);
    tcr_heap_free(&s->heap, room, bytes);
    return status;
}
