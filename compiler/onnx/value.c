/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values stored on their own (input_K.pb, output_K.pb of a test data set): TensorProto, SequenceProto, OptionalProto,
 * MapProto.
 *
 * The last three are in a schema of their own (onnx-data.proto) that not every package ships, so their few fields are
 * read from the slim copy with the scanner's own record reader; tensors go the way that a model's tensors go.
 */
#include "compiler/onnx/load_int.h"

#include <string.h>

static bool read_value(struct onnx_reader *r, const uint8_t *data, uint64_t size, enum onnx_type_kind kind,
                       struct onnx_value *v);

static bool name_of(struct onnx_reader *r, const uint8_t *data, const struct onnx_record *rec, const char **name)
{
    char *copy = onnx_arena_alloc(r->model->arena, (size_t)rec->value + 1, 1);
    if (!copy)
        return onnx_no_memory(r->err);
    memcpy(copy, data + rec->payload, (size_t)rec->value);
    *name = copy;
    return true;
}

static bool read_tensor_value(struct onnx_reader *r, const uint8_t *data, uint64_t size, struct onnx_value *v)
{
    ProtobufCAllocator allocator = onnx_protobuf_allocator(r->model->arena);
    const Onnx__TensorProto *p = onnx__tensor_proto__unpack(&allocator, (size_t)size, data);
    if (!p)
        return onnx_fail(r->err, ONNX_BAD_FILE, "not a valid ONNX tensor");
    v->tensor = onnx_load_tensor(r, p);
    if (v->tensor)
        v->name = v->tensor->name;
    return v->tensor != NULL;
}

/* SequenceProto and OptionalProto number their element fields alike; NONE for sparse tensors and maps. */
static enum onnx_type_kind element_kind(uint32_t number)
{
    static const enum onnx_type_kind kinds[] = {
        [3] = ONNX_TYPE_TENSOR, [5] = ONNX_TYPE_SEQUENCE, [7] = ONNX_TYPE_OPTIONAL};
    return number < sizeof kinds / sizeof *kinds ? kinds[number] : ONNX_TYPE_NONE;
}

static bool read_list(struct onnx_reader *r, const uint8_t *data, uint64_t size, struct onnx_value *v)
{
    size_t count = 0;
    struct onnx_record rec;
    for (uint64_t pos = 0; pos < size && !onnx_read_record(data, &pos, size, &rec);)
        count += rec.number >= 3 && rec.number <= 7;
    struct onnx_value *items = onnx_arena_alloc(r->model->arena, count, sizeof *items);
    if (!items)
        return onnx_no_memory(r->err);
    v->items = items;
    for (uint64_t pos = 0; pos < size && !onnx_read_record(data, &pos, size, &rec);) {
        if (rec.number == 1 && !name_of(r, data, &rec, &v->name))
            return false;
        if (rec.number < 3 || rec.number > 7)
            continue;
        enum onnx_type_kind kind = element_kind(rec.number);
        if (kind == ONNX_TYPE_NONE)
            return onnx_fail(r->err, ONNX_BAD_FILE,
                             "a stored sequence or optional of sparse tensors or maps is not supported");
        if (!read_value(r, data + rec.payload, rec.value, kind, &items[v->count++]))
            return false;
    }
    if (v->kind == ONNX_TYPE_OPTIONAL && v->count > 1)
        return onnx_fail(r->err, ONNX_BAD_FILE, "an optional with %zu values", v->count);
    return true;
}

static bool map_keys(struct onnx_reader *r, const uint8_t *data, const struct onnx_record *rec, int64_t *keys,
                     size_t room, size_t *n)
{
    uint64_t v = rec->value;
    if (rec->wire == WIRE_VARINT && *n < room)
        keys[(*n)++] = (int64_t)v;
    for (uint64_t p = rec->payload; rec->wire == WIRE_BYTES && p < rec->end && *n < room;) {
        if (!onnx_read_varint(data, &p, rec->end, &v))
            return onnx_fail(r->err, ONNX_BAD_FILE, "a map's key is cut off");
        keys[(*n)++] = (int64_t)v;
    }
    return true;
}

static bool read_map(struct onnx_reader *r, const uint8_t *data, uint64_t size, struct onnx_value *v)
{
    struct onnx_record rec;
    int64_t *keys = onnx_arena_alloc(r->model->arena, (size_t)size, sizeof *keys); /* a key takes a byte at least */
    struct onnx_str *words = onnx_arena_alloc(r->model->arena, (size_t)size / 2 + 1, sizeof *words);
    struct onnx_value *values = onnx_arena_alloc(r->model->arena, 1, sizeof *values);
    if (!keys || !words || !values)
        return onnx_no_memory(r->err);
    size_t word_count = 0;
    for (uint64_t pos = 0; pos < size && !onnx_read_record(data, &pos, size, &rec);) {
        if (rec.number == 1 && !name_of(r, data, &rec, &v->name))
            return false;
        if (rec.number == 2)
            v->key_type = rec.value < ONNX_DTYPE_COUNT ? (enum onnx_dtype)rec.value : ONNX_UNDEFINED;
        if (rec.number == 3 && !map_keys(r, data, &rec, keys, (size_t)size, &v->key_count))
            return false;
        if (rec.number == 4) {
            if (!name_of(r, data, &rec, &words[word_count].data))
                return false;
            words[word_count++].size = (size_t)rec.value;
        }
        if (rec.number == 5 && !read_value(r, data + rec.payload, rec.value, ONNX_TYPE_SEQUENCE, values))
            return false;
    }
    v->keys = keys;
    v->string_keys = words;
    if (word_count)
        v->key_count = word_count;
    v->items = values;
    v->count = 1;
    if (values->count != v->key_count)
        return onnx_fail(r->err, ONNX_BAD_FILE, "a map with %zu keys and %zu values", v->key_count, values->count);
    return true;
}

static bool read_value(struct onnx_reader *r, const uint8_t *data, uint64_t size, enum onnx_type_kind kind,
                       struct onnx_value *v)
{
    *v = (struct onnx_value){.kind = kind, .name = ""};
    if (kind == ONNX_TYPE_TENSOR)
        return read_tensor_value(r, data, size, v);
    return kind == ONNX_TYPE_MAP ? read_map(r, data, size, v) : read_list(r, data, size, v);
}

const struct onnx_value *onnx_read_value(struct onnx_model *m, enum onnx_type_kind kind, struct onnx_error *err)
{
    static const enum onnx_message roots[] = {[ONNX_TYPE_TENSOR] = ONNX_MSG_TENSOR,
                                              [ONNX_TYPE_SEQUENCE] = ONNX_MSG_SEQUENCE,
                                              [ONNX_TYPE_OPTIONAL] = ONNX_MSG_OPTIONAL,
                                              [ONNX_TYPE_MAP] = ONNX_MSG_MAP};
    if (kind >= sizeof roots / sizeof *roots || roots[kind] == ONNX_MSG_NONE) {
        onnx_fail(err, ONNX_BAD_FILE, "values of this type are not stored in files");
        return NULL;
    }
    struct onnx_reader r = {.model = m, .err = err};
    if (!onnx_scan(m->files[0].map, m->files[0].size, roots[kind], &r.scan, err))
        return NULL;
    struct onnx_value *v = onnx_arena_alloc(m->arena, 1, sizeof *v);
    bool fine = v ? read_value(&r, r.scan.slim, r.scan.slim_size, kind, v) : onnx_no_memory(err);
    onnx_scan_free(&r.scan);
    if (!fine && err->status == ONNX_OK)
        onnx_no_memory(err);
    return fine ? v : NULL;
}
