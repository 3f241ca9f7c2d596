/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a serialised ONNX message into the structures of onnx_int.h: one recursive walk, driven by the table wire.def.
 *
 * Nothing is trusted: depth is bounded, each length is checked against what holds it, so is the type of each value on
 * the wire. A message is gone through twice, without those inside it: at first its records are checked and counted and
 * single values are stored; then lists, whose lengths are known now, are filled and messages inside are read. Tensor
 * elements, most of a file, stay where they are; tensor.c looks at them.
 *
 * Wire format: protobuf.dev/programming-guides/encoding.
 */
#include "base/format.h"
#include "compiler/onnx/decode_int.h"

#include <stdio.h>
#include <string.h>

enum kind { K_NONE, K_INT, K_F32, K_F64, K_BYTES, K_STRING, K_MSG, K_REPEATED = 8 };
enum {
    K_INTS = K_INT | K_REPEATED,
    K_F32S = K_F32 | K_REPEATED,
    K_F64S = K_F64 | K_REPEATED,
    K_BYTESS = K_BYTES | K_REPEATED,
    K_MSGS = K_MSG | K_REPEATED,
};

enum use { USE_NONE, USE_MEMBER, USE_LIST, USE_PART };

struct field {
    const char *name;
    uint8_t kind, sub, use, size; /* size: of the member; of a list's count */
    uint16_t at, count;           /* offsets of the member and of a list's count */
};

static const struct {
    const char *name;
    size_t size;
    bool (*finish)(struct onnx_reader *r, const struct onnx_frame *f);
} messages[ONNX_MSG_COUNT] = {
#define MESSAGE(id, name, type, finish) [ONNX_MSG_##id] = {name, sizeof(struct type), onnx_finish_##finish},
#include "compiler/onnx/wire.def"
};

/* The structure of each message, by its id. */
#define MESSAGE(id, name, type, finish) typedef struct type struct_##id;
#include "compiler/onnx/wire.def"
#define SIZE_OF(id, member) sizeof(((struct_##id *)0)->member)

static const struct field fields[ONNX_MSG_COUNT][ONNX_FIELDS] = {
#define FIELD(id, number, name, kind, sub, member) \
    [ONNX_MSG_##id][number] = {                    \
        #name, K_##kind, ONNX_MSG_##sub, USE_MEMBER, SIZE_OF(id, member), offsetof(struct_##id, member), 0},
#define LIST(id, number, name, kind, sub, member, count)      \
    [ONNX_MSG_##id][number] = {#name,                         \
                               K_##kind | K_REPEATED,         \
                               ONNX_MSG_##sub,                \
                               USE_LIST,                      \
                               SIZE_OF(id, count),            \
                               offsetof(struct_##id, member), \
                               offsetof(struct_##id, count)},
#define PART(id, number, name, sub) [ONNX_MSG_##id][number] = {#name, K_MSG, ONNX_MSG_##sub, USE_PART, 0, 0, 0},
#define DATA(id, number, name, kind) [ONNX_MSG_##id][number] = {#name, K_##kind, ONNX_MSG_NONE, USE_NONE, 0, 0, 0},
#define SKIP DATA
#include "compiler/onnx/wire.def"
};

bool onnx_fail(struct onnx_error *err, enum onnx_status status, const char *format, ...)
{
    if (err->status != ONNX_OK)
        return false;
    FORMAT_INTO(err->text, sizeof err->text, format);
    err->status = status;
    return false;
}

/* NULL: newer than the table. */
static const struct field *field_of(const struct onnx_frame *f, uint32_t number)
{
    const struct field *d = number < ONNX_FIELDS ? &fields[f->message][number] : NULL;
    return d && d->name ? d : NULL;
}

/* Appends to `text` the path of the record being read, as "graph.node[3].attribute[0]". */
static void describe_path(const struct onnx_frame *f, char *text, size_t room)
{
    if (f->up)
        describe_path(f->up, text, room);
    const struct field *d = field_of(f, f->field);
    if (!d)
        return;
    size_t used = strlen(text);
    if (d->kind & K_REPEATED)
        snprintf(text + used, room - used, "%s%s[%u]", used ? "." : "", d->name, f->seen[f->field] - 1);
    else
        snprintf(text + used, room - used, "%s%s", used ? "." : "", d->name);
}

static bool bad(struct onnx_reader *r, const struct onnx_frame *f, const uint8_t *at, const char *what)
{
    unsigned long long byte = (unsigned long long)(at - r->model->files[0].map);
    char path[240] = "";
    describe_path(f, path, sizeof path);
    if (path[0])
        return onnx_fail(r->err, ONNX_BAD_FILE, "not a valid ONNX file: at byte %llu, in %s: %s", byte, path, what);
    return onnx_fail(r->err, ONNX_BAD_FILE, "not a valid ONNX file: at byte %llu, in the %s: %s", byte,
                     messages[f->message].name, what);
}

/* Zeroed. `count` is at most the file's bytes: the product does not overflow. */
static void *alloc(struct onnx_reader *r, size_t count, size_t size)
{
    return ir_arena_alloc(r->model->arena, count * size);
}

/* -- First round: checks, counts, single values --------------------------------------------------------------- */

static bool is_packed(const struct field *d, const struct wire_record *rec)
{
    return rec->wire == WIRE_BYTES && (d->kind & ~K_REPEATED) <= K_F64;
}

/* What a record of this field must look like on the wire; NULL, or what is wrong. */
static const char *check_kind(const struct field *d, const struct wire_record *rec)
{
    static const uint8_t wire_of[] = {[K_INT] = WIRE_VARINT,  [K_F32] = WIRE_FIX32,    [K_F64] = WIRE_FIX64,
                                      [K_BYTES] = WIRE_BYTES, [K_STRING] = WIRE_BYTES, [K_MSG] = WIRE_BYTES};
    uint32_t kind = d->kind & ~K_REPEATED;
    bool packed = is_packed(d, rec);
    if (packed && !(d->kind & K_REPEATED))
        return "expected one number, got a byte string";
    if (!packed && rec->wire != wire_of[kind])
        return "another type of value expected";
    if (packed && kind == K_F32 && rec->value % 4)
        return "the length of packed 32-bit values is not a multiple of 4";
    if (packed && kind == K_F64 && rec->value % 8)
        return "the length of packed 64-bit values is not a multiple of 8";
    if (kind == K_STRING && rec->value && memchr(rec->payload, 0, (size_t)rec->value))
        return "a name with a NUL byte";
    return NULL;
}

/* Adds the elements of a list's record to *n. */
static const char *count_elements(const struct field *d, const struct wire_record *rec, size_t *n)
{
    uint64_t v;
    if (!is_packed(d, rec))
        ++*n;
    else if (d->kind != K_INTS)
        *n += rec->value / (d->kind == K_F32S ? 4 : 8);
    else
        for (const uint8_t *at = rec->payload; at < rec->end; ++*n)
            if (!wire_read_number(&at, rec->end, &v))
                return "a packed number is cut off or too long";
    return NULL;
}

/* Stores a number of `size` bytes, a text, or bytes. */
static void store(struct onnx_reader *r, const struct field *d, const struct wire_record *rec, size_t size, void *to)
{
    enum kind kind = d->kind & ~K_REPEATED;
    if (kind < K_BYTES) {
        memcpy(to, kind == K_INT ? (const void *)&rec->value : rec->payload, size);
        return;
    }
    char *copy = alloc(r, (size_t)rec->value + 1, 1);
    memcpy(copy, rec->payload, (size_t)rec->value);
    if (kind == K_STRING)
        *(const char **)to = copy;
    else
        *(struct onnx_str *)to = (struct onnx_str){copy, (size_t)rec->value};
}

/* The field of a record that comes now; NULL: newer than the table. */
static const struct field *meet(struct onnx_frame *f, const struct wire_record *rec)
{
    const struct field *d = field_of(f, rec->number);
    if (d) {
        f->field = rec->number;
        f->seen[rec->number]++;
    }
    return d;
}

static bool read_value(struct onnx_reader *r, struct onnx_frame *f, const struct wire_record *rec)
{
    const struct field *d = meet(f, rec);
    if (!d)
        return true;
    const char *wrong = check_kind(d, rec);
    if (!wrong && d->use == USE_LIST)
        wrong = count_elements(d, rec, &f->count[rec->number]);
    if (!wrong && d->kind == K_MSG && d->use != USE_NONE && f->seen[rec->number] > 1)
        wrong = "given twice";
    if (wrong)
        return bad(r, f, rec->start, wrong);
    if (d->use == USE_MEMBER && d->kind != K_MSG)
        store(r, d, rec, d->size, (uint8_t *)f->to + d->at);
    return true;
}

static bool read_values(struct onnx_reader *r, struct onnx_frame *f)
{
    for (const uint8_t *at = f->start; at < f->end;) {
        const uint8_t *start = at;
        struct wire_record rec;
        const char *wrong = wire_read_record(&at, f->end, &rec);
        f->field = 0;
        if (wrong)
            return bad(r, f, start, wrong);
        if (!read_value(r, f, &rec))
            return false;
    }
    f->field = 0;
    return true;
}

/* Texts and bytes that are not given are empty. */
static void fill_absent(struct onnx_frame *f)
{
    for (int k = 1; k < ONNX_FIELDS; k++) {
        const struct field *d = &fields[f->message][k];
        void *to = (uint8_t *)f->to + d->at;
        if (d->use != USE_MEMBER || f->seen[k])
            continue;
        if (d->kind == K_STRING)
            *(const char **)to = "";
        else if (d->kind == K_BYTES)
            *(struct onnx_str *)to = (struct onnx_str){"", 0};
    }
}

/* -- Second round: lists, messages inside ----------------------------------------------------------------------- */

static size_t element_size(const struct field *d)
{
    switch (d->kind & ~K_REPEATED) {
    case K_F32: return sizeof(float);
    case K_STRING: return sizeof(char *);
    case K_BYTES: return sizeof(struct onnx_str);
    case K_MSG: return messages[d->sub].size;
    default: return 8;
    }
}

/* Makes the lists. Is there something for the second round? */
static bool make_lists(struct onnx_reader *r, struct onnx_frame *f)
{
    bool more = false;
    for (int k = 1; k < ONNX_FIELDS; k++) {
        const struct field *d = &fields[f->message][k];
        if (!f->seen[k] || (d->use != USE_LIST && (d->kind != K_MSG || d->use == USE_NONE)))
            continue;
        more = true;
        if (d->use != USE_LIST)
            continue;
        f->next[k] = alloc(r, f->count[k], element_size(d));
        memcpy((uint8_t *)f->to + d->at, &f->next[k], sizeof f->next[k]);
        memcpy((uint8_t *)f->to + d->count, &f->count[k], d->size);
    }
    return more;
}

static bool decode(struct onnx_reader *r, struct onnx_frame *f);

static bool read_message(struct onnx_reader *r, struct onnx_frame *f, const struct field *d,
                         const struct wire_record *rec, void *to)
{
    struct onnx_frame inner = {.up = f,
                               .message = d->sub,
                               .start = rec->payload,
                               .end = rec->end,
                               .to = d->use == USE_PART ? f->to : to,
                               .index = f->seen[rec->number] - 1,
                               .depth = f->depth + 1};
    if (d->use == USE_MEMBER) {
        inner.to = alloc(r, 1, messages[d->sub].size);
        memcpy((uint8_t *)f->to + d->at, &inner.to, sizeof inner.to);
    }
    return decode(r, &inner);
}

static bool read_element(struct onnx_reader *r, struct onnx_frame *f, const struct wire_record *rec)
{
    const struct field *d = meet(f, rec);
    if (!d)
        return true;
    size_t size = element_size(d);
    uint8_t *to = f->next[rec->number];
    if (d->use == USE_LIST && is_packed(d, rec)) {
        struct wire_record one = {.payload = rec->payload};
        while (one.payload < rec->end) {
            if (d->kind == K_INTS)
                wire_read_number(&one.payload, rec->end, &one.value);
            store(r, d, &one, size, f->next[rec->number]);
            one.payload += d->kind == K_INTS ? 0 : size;
            f->next[rec->number] += size;
        }
        return true;
    }
    if (d->use == USE_LIST)
        f->next[rec->number] += size;
    if ((d->kind & ~K_REPEATED) == K_MSG)
        return d->use == USE_NONE || read_message(r, f, d, rec, to);
    if (d->use == USE_LIST)
        store(r, d, rec, size, to);
    return true;
}

/* Checks and completes a message. An error says of which node it is, and of each node whose graph that one is in. */
static bool finish(struct onnx_reader *r, const struct onnx_frame *f)
{
    if (messages[f->message].finish(r, f))
        return true;
    for (const struct onnx_frame *up = f->up; up; up = up->up) {
        const struct onnx_node *n = up->to;
        struct onnx_error inner = *r->err;
        if (up->message != ONNX_MSG_NODE)
            continue;
        r->err->status = ONNX_OK;
        onnx_fail(r->err, inner.status, "node '%.100s' (%.60s): %.300s", n->name, n->op, inner.text);
    }
    return false;
}

static bool decode(struct onnx_reader *r, struct onnx_frame *f)
{
    struct wire_record rec = {0};
    if (f->depth > ONNX_MAX_NESTING)
        return bad(r, f->up, f->start, "messages are nested more than 100 deep");
    if (++r->messages > ONNX_MAX_MESSAGES)
        return bad(r, f->up ? f->up : f, f->start, "more than 8 million messages");
    if (!read_values(r, f))
        return false;
    fill_absent(f);
    if (make_lists(r, f)) {
        memset(f->seen, 0, sizeof f->seen);
        while (wire_next(&rec, f->start, f->end))
            if (!read_element(r, f, &rec))
                return false;
        f->field = 0;
    }
    return finish(r, f);
}

bool onnx_decode(struct onnx_reader *r, enum onnx_message root, void *to)
{
    const struct onnx_file *file = &r->model->files[0];
    struct onnx_frame f = {.message = root, .start = file->map, .end = file->map + file->size, .to = to, .depth = 1};
    return decode(r, &f);
}
