/* SPDX-License-Identifier: Apache-2.0 */
/* Writes TensorProto, SequenceProto and OptionalProto (see pb.c). */
#include "tools/values/values_int.h"

#include "base/safe.h"
#include "base/wire.h"

#include <stdlib.h>

/* 4- and 2-bit elements are packed, the first in the low bits. */
static void put_packed(struct wire_buffer *b, const uint8_t *data, int64_t n, int bits)
{
    int per = 8 / bits;
    wire_put_varint(b, 9 << 3 | 2);
    wire_put_varint(b, (uint64_t)((n + per - 1) / per));
    for (int64_t i = 0; i < n; i += per) {
        uint8_t byte = 0;
        for (int k = 0; k < per && i + k < n; k++)
            byte |= (uint8_t)((data[i + k] & ((1 << bits) - 1)) << (bits * k));
        wire_put(b, &byte, 1);
    }
}

static void put_tensor(struct wire_buffer *b, const struct tcc_tensor *t, const char *name)
{
    int64_t n = tcc_elements(t->rank, t->dims);

    for (int i = 0; i < t->rank; i++)
        wire_put_number(b, 1, (uint64_t)t->dims[i]);
    wire_put_number(b, 2, (uint64_t)t->dtype);
    if (t->dtype == TCC_STRING) {
        const struct tcc_string *s = t->data;
        for (int64_t i = 0; i < n; i++)
            wire_put_bytes(b, 6, s[i].data, (size_t)s[i].size);
    }
    if (name)
        wire_put_text(b, 8, name);
    if (t->dtype == TCC_U4 || t->dtype == TCC_I4 || t->dtype == TCC_F4E2M1)
        put_packed(b, t->data, n, 4);
    else if (t->dtype == TCC_U2 || t->dtype == TCC_I2)
        put_packed(b, t->data, n, 2);
    else if (t->dtype != TCC_STRING)
        wire_put_bytes(b, 9, t->data, (size_t)n * (size_t)tcc_dtype_bytes((enum tcc_dtype)t->dtype));
}

/* The kinds that SequenceProto and OptionalProto name, and the fields that hold them. */
enum { ELEM_TENSOR = 1, ELEM_SEQUENCE = 3, FIELD_TENSOR = 3, FIELD_SEQUENCE = 5 };

static void put_sequence(struct wire_buffer *b, const struct tcc_object *v, const char *name);

static void put_item(struct wire_buffer *b, const struct tcc_object *v)
{
    struct wire_buffer inner = {0};
    bool tensor = v->kind == TCC_OBJ_TENSOR;
    if (tensor)
        put_tensor(&inner, &v->t, NULL);
    else
        put_sequence(&inner, v, NULL);
    wire_put_message(b, tensor ? FIELD_TENSOR : FIELD_SEQUENCE, &inner);
}

static void put_sequence(struct wire_buffer *b, const struct tcc_object *v, const char *name)
{
    if (name)
        wire_put_text(b, 1, name);
    wire_put_number(b, 2, v->n && v->items[0]->kind == TCC_OBJ_SEQUENCE ? ELEM_SEQUENCE : ELEM_TENSOR);
    for (int64_t i = 0; i < v->n; i++)
        put_item(b, v->items[i]);
}

static void put_optional(struct wire_buffer *b, const struct tcc_object *v, const char *name)
{
    if (name)
        wire_put_text(b, 1, name);
    wire_put_number(b, 2, v->kind == TCC_OBJ_NONE ? 0 : v->kind == TCC_OBJ_SEQUENCE ? ELEM_SEQUENCE : ELEM_TENSOR);
    if (v->kind != TCC_OBJ_NONE)
        put_item(b, v);
}

bool pb_write(const char *path, const char *name, enum value_kind kind, const struct tcc_object *v, char *error)
{
    struct wire_buffer b = {0};

    if (kind == VALUE_OPTIONAL || v->kind == TCC_OBJ_NONE)
        put_optional(&b, v, name);
    else if (v->kind == TCC_OBJ_SEQUENCE)
        put_sequence(&b, v, name);
    else
        put_tensor(&b, &v->t, name);
    struct tcr_save save;
    bool open = !b.failed && !tcr_save_open(&save, path, 0), ok = open && !tcr_write_all(save.fd, b.data, b.n);
    if (open && !ok)
        tcr_save_drop(&save);
    ok = ok && !tcr_save_commit(&save);
    if (!ok)
        snprintf(error, ERROR_SIZE, b.failed ? "no memory to write '%s'" : "cannot write '%s': %m", path);
    free(b.data);
    return ok;
}
