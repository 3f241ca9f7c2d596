/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffer.c - a buffer of the plan: where it lies now, how long it is and what dims it has, by the sizes of the call.
 */
#include <string.h>

#include "runtime/rt_int.h"

const char *tcr_buffer_name(const struct tccrt_session *s, uint32_t b)
{
    return tcr_string(s->m, s->m->buffers[b].name);
}

int tcr_buffer_bytes(struct tccrt_session *s, uint32_t b, const char *node, int64_t *out)
{
    return tcr_size(s, s->m->buffers[b].bytes, tcr_buffer_name(s, b), node, out);
}

/* (Re)allocates a DYNAMIC buffer. */
int tcr_dynamic(struct tccrt_session *s, uint32_t b, int rank, const int64_t *dims, int64_t bytes)
{
    struct tcr_slot *slot = &s->slots[s->m->slot_of[b]];

    if (slot->data && slot->bytes != bytes)
        tcr_slot_clear(s, slot);
    if (!slot->data && !(slot->data = tcr_alloc(s, slot->memory = tcr_memory(s, b), (size_t)bytes)))
        return TCC_EENV;
    slot->bytes = bytes;
    slot->rank = rank;
    memcpy(slot->dims, dims, (size_t)rank * sizeof *dims);
    return TCC_OK;
}

static int known_size(struct tccrt_session *s, uint32_t b, const char *node, int64_t *dims, int64_t *bytes)
{
    int status = tcr_dims(s, s->m->buffers[b].dims, tcr_buffer_name(s, b), node, dims);

    return status ? status : tcr_buffer_bytes(s, b, node, bytes);
}

int tcr_make_dynamic(struct tccrt_session *s, uint32_t b, const char *node)
{
    int64_t dims[TCC_MAX_RANK], bytes;
    int status = known_size(s, b, node, dims, &bytes);

    return status ? status : tcr_dynamic(s, b, (int)s->m->buffers[b].rank, dims, bytes);
}

/* An output whose dims were not known when the run began. */
static int make_output(struct tccrt_session *s, uint32_t b, const char *node)
{
    const struct tcc_pbuffer *p = &s->m->buffers[b];
    int64_t dims[TCC_MAX_RANK], bytes;
    int status = known_size(s, b, node, dims, &bytes);

    if (!status)
        tcr_output_memory(s, p->index, tcr_memory(s, b), (int)p->dtype, (int)p->rank, dims, bytes, &status);
    return status;
}

static int object_data(struct tccrt_session *s, uint32_t b, const char *node, void **out)
{
    const struct tcc_object *o = s->slots[s->m->slot_of[b]].object;

    if (!o || o->kind != TCC_OBJ_TENSOR)
        return tcr_fail(o ? TCC_EINPUT : TCC_EBUG, "node '%s': '%s' is not a tensor", node, tcr_buffer_name(s, b));
    *out = o->t.data;
    return TCC_OK;
}

static int offset_from(struct tccrt_session *s, uint32_t b, const char *node, void *base, void **out)
{
    const struct tcc_pbuffer *p = &s->m->buffers[b];
    int64_t offset = p->offset == TCC_NO ? 0 : s->values[p->offset];

    if (p->space == TCC_SPACE_ARENA && p->offset == TCC_NO)
        offset = (int64_t)s->places[b];
    if (offset < 0)
        return tcr_size(s, p->offset, tcr_buffer_name(s, b), node, &offset);
    *out = base ? (char *)base + offset : NULL; /* of memory that nothing lies in */
    return TCC_OK;
}

int tcr_address(struct tccrt_session *s, uint32_t b, const char *node, void **out)
{
    const struct tcc_pbuffer *p = &s->m->buffers[b];
    void *base;
    int status;

    switch (p->space) {
    case TCC_SPACE_INPUT: *out = s->inputs[p->index]; return TCC_OK;
    case TCC_SPACE_OUTPUT:
        if (!s->outs[p->index].data && (status = make_output(s, b, node)))
            return status;
        *out = s->outs[p->index].data;
        return TCC_OK;
    case TCC_SPACE_ARENA:
        if (s->guard && (status = tcr_guard_address(s, b, node)))
            return status;
        if (s->rebound && s->rebound[b]) {
            *out = s->rebound[b];
            return TCC_OK;
        }
        return offset_from(s, b, node, s->arenas[tcr_arena(s, b)], out);
    case TCC_SPACE_WEIGHT:
        if (s->rebound && s->rebound[b]) {
            *out = s->rebound[b];
            return TCC_OK;
        }
        return offset_from(s, b, node, (void *)(tcr_memory(s, b) ? s->weights : s->m->weights), out);
    case TCC_SPACE_STATE: *out = s->states[p->index]; return *out ? TCC_OK : tcr_state_absent(s, p->index);
    case TCC_SPACE_ALIAS:
        status = tcr_address(s, p->index, node, &base);
        return status ? status : offset_from(s, b, node, base, out);
    case TCC_SPACE_OBJECT: return object_data(s, b, node, out);
    case TCC_SPACE_SLOT:
    case TCC_SPACE_SIZES:
        return tcr_fail(TCC_EBUG, "node '%s': '%s' is of a stage's list", node, tcr_buffer_name(s, b));
    default:
        if (!s->slots[s->m->slot_of[b]].data && (status = tcr_make_dynamic(s, b, node)))
            return status;
        *out = s->slots[s->m->slot_of[b]].data;
        return TCC_OK;
    }
}

/* A buffer as a tensor: a dynamic buffer and an object have the dims that they were made with. */
int tcr_buffer_tensor(struct tccrt_session *s, uint32_t b, const char *node, struct tcc_tensor *out)
{
    const struct tcc_pbuffer *p = &s->m->buffers[b];
    const struct tcr_slot *slot = s->m->slot_of[b] == TCC_NO ? NULL : &s->slots[s->m->slot_of[b]];
    bool lacks = tcr_lacks(s, b);
    int status = lacks ? TCC_OK : tcr_address(s, b, node, &out->data);

    if (status)
        return status;
    if (p->space == TCC_SPACE_OBJECT) {
        *out = slot->object->t;
        return TCC_OK;
    }
    out->dtype = (int32_t)p->dtype;
    out->rank = (int32_t)p->rank;
    if (!slot && !(status = tcr_dims(s, p->dims, tcr_buffer_name(s, b), node, out->dims)) &&
        (lacks || (p->space == TCC_SPACE_ARENA && s->values[p->bytes] == 0 &&
                   tcr_elements(out->dtype, out->rank, out->dims) > 0)))
        out->data = NULL;
    if (!slot)
        return status;
    out->rank = slot->rank;
    memcpy(out->dims, slot->dims, sizeof out->dims);
    return TCC_OK;
}

int tcr_host_tensor(struct tccrt_session *s, uint32_t b, const char *node, unsigned how, struct tcc_tensor *out)
{
    int status = tcr_buffer_tensor(s, b, node, out);

    if (status || !s->discrete || s->m->buffers[b].space == TCC_SPACE_OBJECT || !out->data)
        return status;
    return tcr_view(s, b, node, how, &out->data,
                    (size_t)(tcr_elements(out->dtype, out->rank, out->dims) * tcr_dtype_bytes(out->dtype)));
}
