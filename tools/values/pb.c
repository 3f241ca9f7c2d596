/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX test data: TensorProto, SequenceProto and OptionalProto in files (onnx.proto says what they hold). A bounded
 * reader: every length is checked against what is left, nesting has a limit, and a field of an unexpected wire type is
 * an error. 4- and 2-bit elements are packed in files (from the low bits up) and one to a byte in memory.
 */
#include "base/wire.h"
#include "tools/values/values_int.h"

#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 32

struct span {
    const uint8_t *at, *end;
};
struct field {
    uint32_t number, wire;
    uint64_t value;
    struct span bytes;
};

struct pb {
    const char *path;
    char *error;
    bool failed;
};

static void *fail(struct pb *r, const char *what)
{
    if (!r->failed)
        snprintf(r->error, ERROR_SIZE, "%s: %s", r->path, what);
    r->failed = true;
    return NULL;
}

/* -- Wire format ------------------------------------------------------------------------------ */

static bool varint(struct pb *r, struct span *s, uint64_t *value)
{
    if (wire_read_number(&s->at, s->end, value))
        return true;
    fail(r, "not an ONNX value: a number does not end");
    return false;
}

/* The next field; false at the end or after an error. */
static bool next_field(struct pb *r, struct span *s, struct field *f)
{
    struct wire_record record;

    if (r->failed || s->at >= s->end)
        return false;
    if (wire_read_record(&s->at, s->end, &record)) {
        fail(r, "not an ONNX value: malformed field");
        return false;
    }
    *f = (struct field){record.number, record.wire, record.value, {record.payload, record.end}};
    return true;
}

/* -- TensorProto -------------------------------------------------------------------------------- */

struct tensor_proto {
    uint64_t dtype;
    int rank;
    int64_t dims[TCC_MAX_RANK];
    struct span raw, name;
    bool has_raw, external;
    struct span whole; /* the message, to be read again for lists of elements */
};

static void add_dim(struct pb *r, struct tensor_proto *t, uint64_t v)
{
    if (t->rank == TCC_MAX_RANK)
        fail(r, "the tensor has too many axes");
    else
        t->dims[t->rank++] = (int64_t)v;
}

static void tensor_field(struct pb *r, struct tensor_proto *t, struct field *f)
{
    uint64_t v;
    if (f->number == 1 && f->wire == 0) {
        add_dim(r, t, f->value);
    } else if (f->number == 1 && f->wire == 2) {
        while (!r->failed && f->bytes.at < f->bytes.end && varint(r, &f->bytes, &v))
            add_dim(r, t, v);
    } else if (f->number == 2 && f->wire == 0) {
        t->dtype = f->value;
    } else if (f->number == 8 && f->wire == 2) {
        t->name = f->bytes;
    } else if (f->number == 9 && f->wire == 2) {
        t->raw = f->bytes;
        t->has_raw = true;
    } else if (f->number == 14 && f->wire == 0) {
        t->external = f->value == 1;
    }
}

/* Bits of an element in files. */
static int file_bits(int dtype)
{
    static const uint8_t narrow[TCC_NDTYPES] = {
        [TCC_U4] = 4, [TCC_I4] = 4, [TCC_F4E2M1] = 4, [TCC_U2] = 2, [TCC_I2] = 2};
    return narrow[dtype] ? narrow[dtype] : 8 * tcc_dtype_bytes(dtype);
}

/* Element i of packed bytes, sign-extended where the type is signed. */
static uint8_t unpack(const uint8_t *data, int64_t i, int bits, bool is_signed)
{
    int per = 8 / bits, mask = (1 << bits) - 1, v = data[i / per] >> (bits * (int)(i % per)) & mask;
    if (is_signed && v >> (bits - 1))
        v -= 1 << bits;
    return (uint8_t)v;
}

static void fill_raw(struct pb *r, const struct tensor_proto *t, struct tcc_object *v, int64_t n)
{
    int bits = file_bits(v->t.dtype);
    uint64_t bytes = ((uint64_t)n * (uint64_t)bits + 7) / 8, have = (uint64_t)(t->raw.end - t->raw.at);

    if (have < bytes) {
        fail(r, "the data is shorter than the shape says");
        return;
    }
    if (bits >= 8) {
        if (bytes)
            memcpy(v->t.data, t->raw.at, bytes);
        return;
    }
    uint8_t *to = v->t.data;
    for (int64_t i = 0; i < n; i++)
        to[i] = unpack(t->raw.at, i, bits, tcc_is_signed(v->t.dtype));
}

/* Which field holds a type's elements when raw_data does not. */
static int list_field(int dtype)
{
    switch (dtype) {
    case TCC_F32:
    case TCC_C64: return 4;
    case TCC_STRING: return 6;
    case TCC_I64: return 7;
    case TCC_F64:
    case TCC_C128: return 10;
    case TCC_U32:
    case TCC_U64: return 11;
    default: return 5;
    }
}

struct filler {
    struct tcc_object *v;
    int64_t n, done;
    int bits;
};

/* One number of int32_data and the like: an element, or a byte of packed ones. */
static void put_number(struct filler *f, uint64_t value)
{
    uint8_t byte = (uint8_t)value;
    int bytes = tcc_dtype_bytes(f->v->t.dtype);

    if (f->bits >= 8) {
        if (f->done < f->n)
            memcpy((char *)f->v->t.data + f->done * bytes, &value, (size_t)bytes);
        f->done++;
        return;
    }
    for (int i = 0; i < 8 / f->bits && f->done < f->n; i++)
        ((uint8_t *)f->v->t.data)[f->done++] = unpack(&byte, i, f->bits, tcc_is_signed(f->v->t.dtype));
}

static void put_field(struct pb *r, struct filler *f, struct field *field)
{
    int dtype = f->v->t.dtype;
    uint64_t v;

    if (dtype == TCC_STRING) {
        if (field->wire == 2 && f->done < f->n &&
            tccrt_string_set((struct tcc_string *)f->v->t.data + f->done, (const char *)field->bytes.at,
                             field->bytes.end - field->bytes.at) != 0)
            fail(r, "no memory");
        f->done++;
    } else if (field->number == 4 || field->number == 10) {
        size_t have = (size_t)(field->bytes.end - field->bytes.at), one = field->number == 4 ? 4 : 8;
        size_t room = (size_t)(f->n - f->done) * (size_t)tcc_dtype_bytes(dtype);
        /* `done` counts elements; a complex one is two numbers, and unpacked lists give them one by one. */
        if (have % one || field->wire == 0 || have > room)
            fail(r, "the data is longer than the shape says");
        else if (have) {
            memcpy((char *)f->v->t.data + (size_t)f->done * (size_t)tcc_dtype_bytes(dtype), field->bytes.at, have);
            f->done += (int64_t)(have / (size_t)tcc_dtype_bytes(dtype));
        }
    } else if (field->wire == 0) {
        put_number(f, field->value);
    } else {
        while (!r->failed && field->bytes.at < field->bytes.end && varint(r, &field->bytes, &v))
            put_number(f, v);
    }
}

static void fill_list(struct pb *r, const struct tensor_proto *t, struct tcc_object *v, int64_t n)
{
    struct filler filler = {.v = v, .n = n, .bits = v->t.dtype == TCC_STRING ? 8 : file_bits(v->t.dtype)};
    struct span s = t->whole;
    struct field f;

    while (next_field(r, &s, &f))
        if ((int)f.number == list_field(v->t.dtype))
            put_field(r, &filler, &f);
    if (!r->failed && filler.done != n)
        fail(r, "the shape and the number of elements differ");
}

static struct tcc_object *read_tensor(struct pb *r, struct span s, struct span *name)
{
    struct tensor_proto t = {.whole = s};
    struct field f;

    while (next_field(r, &s, &f))
        tensor_field(r, &t, &f);
    if (r->failed)
        return NULL;
    int64_t n = tcc_elements(t.rank, t.dims);
    if (t.dtype == 0 || t.dtype >= TCC_NDTYPES)
        return fail(r, "not a TensorProto of a known element type");
    if (t.external)
        return fail(r, "external data is not supported in test data");
    /* Every element takes some bits of the file, so a huge shape is a lie. */
    if (n < 0 || (n > 0 && (uint64_t)n / 64 > (uint64_t)(t.whole.end - t.whole.at)))
        return fail(r, "the data is shorter than the shape says");
    struct tcc_object *v = tccrt_object_tensor((int)t.dtype, t.rank, t.dims);
    if (!v)
        return fail(r, "no memory");
    if (t.has_raw && t.dtype != TCC_STRING)
        fill_raw(r, &t, v, n);
    else
        fill_list(r, &t, v, n);
    if (name)
        *name = t.name;
    if (!r->failed)
        return v;
    tccrt_object_unref(v);
    return NULL;
}

/* -- SequenceProto, OptionalProto: field 1 the name, 2 the kind, 3 tensors, 5 sequences, 7 optionals ---- */

static struct tcc_object *read_container(struct pb *r, struct span s, bool optional, struct span *name, int depth);

static struct tcc_object *read_item(struct pb *r, const struct field *f, int depth)
{
    if (f->wire != 2)
        return fail(r, "malformed sequence or optional");
    if (f->number == 3)
        return read_tensor(r, f->bytes, NULL);
    if (f->number == 5 || f->number == 7)
        return read_container(r, f->bytes, f->number == 7, NULL, depth + 1);
    return fail(r, "sparse tensors and maps are not supported");
}

static struct tcc_object *read_container(struct pb *r, struct span s, bool optional, struct span *name, int depth)
{
    struct span again = s;
    struct field f;
    int64_t count = 0, at = 0;

    if (depth > MAX_DEPTH)
        return fail(r, "nested too deeply");
    while (next_field(r, &s, &f)) {
        if (f.number == 1 && f.wire == 2 && name)
            *name = f.bytes;
        count += f.number >= 3 && f.number <= 7;
    }
    if (r->failed)
        return NULL;
    if (optional && count > 1)
        return fail(r, "an optional that holds several values");
    struct tcc_object *v = optional && count == 0 ? tccrt_object_none()
                           : optional             ? NULL
                                                  : tccrt_object_sequence(count);
    if (!optional && !v)
        return fail(r, "no memory");
    while (!r->failed && next_field(r, &again, &f)) {
        if (f.number < 3 || f.number > 7)
            continue;
        struct tcc_object *item = read_item(r, &f, depth);
        if (optional)
            v = item;
        else
            v->items[at++] = item;
    }
    if (!r->failed)
        return v;
    tccrt_object_unref(v);
    return NULL;
}

struct tcc_object *pb_parse(const char *path, const unsigned char *data, size_t size, enum value_kind kind, char **name,
                            char *error)
{
    struct pb r = {.path = path, .error = error};
    struct span named = {0};
    struct span s = {data, data + size};
    struct tcc_object *v = kind == VALUE_TENSOR || kind == VALUE_DEFAULT
                               ? read_tensor(&r, s, &named)
                               : read_container(&r, s, kind == VALUE_OPTIONAL, &named, 0);
    if (v && name && !(*name = strndup(named.at ? (const char *)named.at : "", (size_t)(named.end - named.at)))) {
        snprintf(error, ERROR_SIZE, "no memory");
        tccrt_object_unref(v);
        v = NULL;
    }
    return v;
}

struct tcc_object *pb_read(const char *path, enum value_kind kind, char **name, char *error)
{
    size_t size;
    unsigned char *data = file_read(path, &size, error);
    struct tcc_object *v = data ? pb_parse(path, data, size, kind, name, error) : NULL;
    free(data);
    return v;
}
