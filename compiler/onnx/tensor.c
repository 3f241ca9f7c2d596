/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors of an ONNX file: where their elements lie, and decoding those that protobuf stores in another form than
 * raw_data.
 *
 * raw_data, packed float_data and packed double_data are the elements as they should be and stay in the file. Varint
 * fields (int32_data for everything up to 32 bits wide, int64_data, uint64_data), unpacked lists and strings are
 * decoded into the arena. The amount of data is checked against the dims in both cases, so that nobody after this needs
 * to.
 */
#include "compiler/onnx/decode_int.h"
#include "runtime/abi.h"
#include "base/mutant.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { F_FLOAT = 4, F_INT32 = 5, F_STRING = 6, F_INT64 = 7, F_RAW = 9, F_DOUBLE = 10, F_UINT64 = 11 };

static const struct {
    const char *name;
    uint32_t bits;
} dtypes[ONNX_DTYPE_COUNT] = {{"UNDEFINED", 0},
#define _(id, number, bits) [number] = {#id, bits},
                              ONNX_DTYPES(_)
#undef _
};

/* Which typed field holds a dtype, and how many bytes of memory one record element becomes. */
static const struct {
    uint8_t field, bytes;
} typed[ONNX_DTYPE_COUNT] = {
    [ONNX_FLOAT] = {F_FLOAT, 4},       [ONNX_COMPLEX64] = {F_FLOAT, 4},      [ONNX_DOUBLE] = {F_DOUBLE, 8},
    [ONNX_COMPLEX128] = {F_DOUBLE, 8}, [ONNX_INT64] = {F_INT64, 8},          [ONNX_UINT64] = {F_UINT64, 8},
    [ONNX_UINT32] = {F_UINT64, 4},     [ONNX_STRING] = {F_STRING, 0},        [ONNX_INT32] = {F_INT32, 4},
    [ONNX_UINT16] = {F_INT32, 2},      [ONNX_INT16] = {F_INT32, 2},          [ONNX_FLOAT16] = {F_INT32, 2},
    [ONNX_BFLOAT16] = {F_INT32, 2},    [ONNX_UINT8] = {F_INT32, 1},          [ONNX_INT8] = {F_INT32, 1},
    [ONNX_BOOL] = {F_INT32, 1},        [ONNX_FLOAT8E4M3FN] = {F_INT32, 1},   [ONNX_FLOAT8E4M3FNUZ] = {F_INT32, 1},
    [ONNX_FLOAT8E5M2] = {F_INT32, 1},  [ONNX_FLOAT8E5M2FNUZ] = {F_INT32, 1}, [ONNX_FLOAT8E8M0] = {F_INT32, 1},
    [ONNX_UINT4] = {F_INT32, 1},       [ONNX_INT4] = {F_INT32, 1},           [ONNX_FLOAT4E2M1] = {F_INT32, 1},
    [ONNX_UINT2] = {F_INT32, 1},       [ONNX_INT2] = {F_INT32, 1},           [ONNX_FLOAT6E2M3] = {F_INT32, 1},
    [ONNX_FLOAT6E3M2] = {F_INT32, 1},
};

static const char *const field_names[] = {
    [F_FLOAT] = "float_data", [F_INT32] = "int32_data",   [F_STRING] = "string_data", [F_INT64] = "int64_data",
    [F_RAW] = "raw_data",     [F_DOUBLE] = "double_data", [F_UINT64] = "uint64_data"};

const char *onnx_dtype_name(int64_t dtype)
{
    return dtype >= 0 && dtype < ONNX_DTYPE_COUNT ? dtypes[dtype].name : NULL;
}

uint32_t onnx_dtype_bits(int64_t dtype)
{
    return dtype >= 0 && dtype < ONNX_DTYPE_COUNT ? dtypes[dtype].bits : 0;
}

#define FAIL(...) onnx_fail(r->err, ONNX_BAD_FILE, __VA_ARGS__)

/* Writes decoded elements: `next` of `end` bytes are filled. */
struct sink {
    uint8_t *bytes;
    uint64_t next, end;
    uint32_t width;
    bool six; /* one 6-bit element a byte, to be packed afterwards */
};

static bool put(struct sink *s, const void *bytes, uint64_t size)
{
    if (size > s->end - s->next)
        return false;
    memcpy(s->bytes + s->next, bytes, (size_t)size);
    s->next += size;
    return true;
}

/* Elements are little endian in memory as on the wire: the low bytes of the varint are the element. */
static bool put_number(struct sink *s, uint64_t value)
{
    uint8_t b[8];
    for (int i = 0; i < 8; i++)
        b[i] = (uint8_t)(value >> (8 * i));
    return put(s, b, s->width);
}

/* Appends the elements of one record; false: more than the dims say, or cut off. */
static bool decode_record(const struct wire_record *rec, struct sink *s)
{
    if (rec->wire == WIRE_VARINT)
        return put_number(s, rec->value);
    if (rec->number == F_FLOAT || rec->number == F_DOUBLE)
        return put(s, rec->payload, (uint64_t)(rec->end - rec->payload));
    for (const uint8_t *p = rec->payload; p < rec->end;) {
        uint64_t v;
        if (!wire_read_number(&p, rec->end, &v) || !put_number(s, v))
            return false;
    }
    return true;
}

/* The next record of elements, in whatever form, of a tensor's message. */
static bool next_data(const struct onnx_frame *f, struct wire_record *rec)
{
    while (wire_next(rec, f->start, f->end))
        if (rec->number < sizeof field_names / sizeof *field_names && field_names[rec->number])
            return true;
    return false;
}

static bool decode_numbers(struct onnx_reader *r, const struct onnx_frame *f, struct onnx_tensor *t)
{
    bool six = dtypes[t->dtype].bits == 6;
    uint64_t room = six ? t->count : t->byte_count;
    /* Each element takes a byte of the file at least: a size that the file can't hold is refused before memory is asked
     * for. */
    if (room / 8 > r->model->files[0].size)
        return FAIL("tensor '%.100s': its dims ask for more elements than the file can hold", t->name);
    struct sink s = {
        .bytes = ir_arena_alloc(r->model->arena, (size_t)room), .end = room, .width = typed[t->dtype].bytes};
    for (struct wire_record rec = {0}; next_data(f, &rec);)
        if (rec.number == typed[t->dtype].field && !decode_record(&rec, &s))
            return FAIL("tensor '%.100s': %s holds more elements than its dims say (%" PRIu64 ")", t->name,
                        field_names[rec.number], t->count);
    if (MUTANT(124, s.next != s.end, false))
        return FAIL("tensor '%.100s': %s holds fewer elements than its dims say (%" PRIu64 ")", t->name,
                    field_names[typed[t->dtype].field], t->count);
    t->bytes = s.bytes;
    if (!six)
        return true;
    uint8_t *packed = ir_arena_alloc(r->model->arena, (size_t)t->byte_count + 1);
    for (uint64_t k = 0; k < t->count; k++) {
        uint32_t v = (uint32_t)(s.bytes[k] & 63) << (k * 6 % 8);
        packed[k * 6 / 8] |= (uint8_t)v;
        packed[k * 6 / 8 + 1] |= (uint8_t)(v >> 8);
    }
    t->bytes = packed;
    return true;
}

static bool decode_strings(struct onnx_reader *r, const struct onnx_frame *f, struct onnx_tensor *t)
{
    uint64_t records = f->seen[F_STRING], n = 0;
    if (records != t->count)
        return FAIL("tensor '%.100s': %" PRIu64 " strings, but its dims say %" PRIu64, t->name, records, t->count);
    struct onnx_str *strings = ir_arena_alloc(r->model->arena, (size_t)records * sizeof *strings);
    for (struct wire_record rec = {0}; next_data(f, &rec);) {
        if (rec.number != F_STRING)
            continue;
        char *text = ir_arena_alloc(r->model->arena, (size_t)rec.value + 1);
        memcpy(text, rec.payload, (size_t)rec.value);
        strings[n++] = (struct onnx_str){text, (size_t)rec.value};
    }
    t->strings = strings;
    return true;
}

static bool parse_number(const char *text, uint64_t *value)
{
    if (!*text || strspn(text, "0123456789") != strlen(text) || strlen(text) > 19)
        return false;
    *value = strtoull(text, NULL, 10);
    return true;
}

static bool read_external(struct onnx_reader *r, struct onnx_tensor *t)
{
    const char *location = "";
    uint64_t offset = 0;
    uint64_t length = t->byte_count;
    for (size_t k = 0; k < t->external_count; k++) {
        const char *key = t->external[k].key, *value = t->external[k].value;
        if (!strcmp(key, "location"))
            location = value;
        else if (!strcmp(key, "offset") && !parse_number(value, &offset))
            return FAIL("tensor '%.100s': external data offset '%.40s' is not a number", t->name, value);
        else if (!strcmp(key, "length") && !parse_number(value, &length))
            return FAIL("tensor '%.100s': external data length '%.40s' is not a number", t->name, value);
    }
    if (t->dtype == ONNX_STRING)
        return FAIL("tensor '%.100s': strings cannot be external data", t->name);
    if (length != t->byte_count)
        return FAIL("tensor '%.100s': external data length %" PRIu64 ", but its dims and type need %" PRIu64 " bytes",
                    t->name, length, t->byte_count);
    if (!onnx_external_file(r, t->name, location, &t->file))
        return false;
    const struct onnx_file *file = &r->model->files[t->file];
    if (offset > file->size || MUTANT(123, length > file->size - offset, false))
        return FAIL("tensor '%.100s': external data at offset %" PRIu64 ", %" PRIu64
                    " bytes, runs past the end of '%.150s' (%" PRIu64 " bytes)",
                    t->name, offset, length, location, file->size);
    t->offset = offset;
    t->bytes = file->map + offset;
    return true;
}

/* raw_data, and packed lists in one record that are the raw bytes already: they stay in the file. */
static bool read_in_file(struct onnx_reader *r, const struct onnx_frame *f, struct onnx_tensor *t, bool *done)
{
    const struct onnx_file *file = &r->model->files[0];
    struct wire_record rec = {0}, best = {0};
    uint32_t field = typed[t->dtype].field, records = 0;
    bool raw = f->seen[F_RAW] > 0;
    for (size_t k = 0; k < sizeof field_names / sizeof *field_names; k++)
        records += field_names[k] ? f->seen[k] : 0;
    if (!raw && (records != 1 || !f->seen[field] || (field != F_FLOAT && field != F_DOUBLE)))
        return true;
    while (next_data(f, &rec))
        if (!raw || rec.number == F_RAW)
            best = rec;
    if (best.wire != WIRE_BYTES)
        return true;
    if (t->dtype == ONNX_STRING)
        return FAIL("tensor '%.100s': strings stored as raw_data", t->name);
    if (raw && !best.value && records > 1)
        return true; /* an empty raw_data beside a typed list */
    *done = true;
    if (MUTANT(122, best.value != t->byte_count, best.value < t->byte_count))
        return FAIL("tensor '%.100s': %s has %" PRIu64 " bytes, but its dims and type (%s) need %" PRIu64, t->name,
                    field_names[best.number], best.value, dtypes[t->dtype].name, t->byte_count);
    t->file = 0;
    t->offset = (uint64_t)(best.payload - file->map);
    t->bytes = best.payload;
    return true;
}

static bool check_dims(struct onnx_reader *r, struct onnx_tensor *t)
{
    if (t->rank > 64)
        return FAIL("tensor '%.100s': %u dims; at most 64 are read", t->name, t->rank);
    for (uint32_t k = 0; k < t->rank; k++) {
        if (t->dims[k] < 0)
            return FAIL("tensor '%.100s': dim %u is negative (%" PRId64 ")", t->name, k, t->dims[k]);
    }
    int64_t count = tcc_elements((int)t->rank, t->dims);
    if (count < 0)
        return FAIL("tensor '%.100s': its dims multiply to more than 2^47 elements", t->name);
    t->count = (uint64_t)count;
    t->byte_count = (t->count * dtypes[t->dtype].bits + 7) / 8;
    return true;
}

/* Checks dtype, dims and the amount of data, decodes what can't stay in the file. */
bool onnx_finish_tensor(struct onnx_reader *r, const struct onnx_frame *f)
{
    struct onnx_tensor *t = f->to;
    int dtype = (int)t->dtype;
    bool done = false;
    t->file = ONNX_NO_FILE;
    if (dtype <= 0 || dtype >= ONNX_DTYPE_COUNT)
        return FAIL("tensor '%.100s': data type %d; ONNX defines 1 to %d", t->name, dtype, ONNX_DTYPE_COUNT - 1);
    if (!check_dims(r, t))
        return false;
    if (t->location == 1)
        return read_external(r, t);
    if (!read_in_file(r, f, t, &done))
        return false;
    if (done)
        return true;
    return t->dtype == ONNX_STRING ? decode_strings(r, f, t) : decode_numbers(r, f, t);
}
