/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bounded protobuf scanner: checks a serialised ONNX message and writes a slim copy of it for protobuf-c.
 *
 * protobuf-c alone copies every weight (a 2 GB model would cost 4 GB) and recurses once per nested message until the
 * stack ends, so nothing reaches it that has not passed here. One recursive walk, driven by the table wire.def: the
 * depth is bounded, each length is checked against its parent, tensor elements are noted as runs of file bytes and left
 * behind. A nested message is copied as it is walked; its length is not known before its end, so five bytes are kept
 * for it and filled afterwards (a padded varint is valid).
 *
 * Wire format: protobuf.dev/programming-guides/encoding.
 */
#include "base/format.h"
#include "compiler/onnx/scan_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { K_NONE, K_INT, K_F32, K_F64, K_BYTES, K_STRING, K_MSG, K_REPEATED = 8 };
enum {
    K_INTS = K_INT | K_REPEATED,
    K_F32S = K_F32 | K_REPEATED,
    K_F64S = K_F64 | K_REPEATED,
    K_BYTESS = K_BYTES | K_REPEATED,
    K_STRINGS = K_STRING | K_REPEATED,
    K_MSGS = K_MSG | K_REPEATED,
};
enum action { A_KEEP, A_DROP, A_DATA, A_MOVE };

struct field {
    const char *name;
    uint8_t kind, sub, action;
};

#define FIELD_LIMIT 32

static const char *const message_names[ONNX_MSG_COUNT] = {
#define MESSAGE(id, name) [ONNX_MSG_##id] = name,
#include "compiler/onnx/wire.def"
};

static const struct field fields[ONNX_MSG_COUNT][FIELD_LIMIT] = {
#define FIELD(id, number, name, kind, sub, action) \
    [ONNX_MSG_##id][number] = {#name, K_##kind, ONNX_MSG_##sub, A_##action},
#include "compiler/onnx/wire.def"
};

/* Where the walk is: one frame a message, on the C stack, linked for the message of an error. */
struct frame {
    const struct frame *up;
    enum onnx_message message;
    uint32_t field;             /* being read */
    uint32_t seen[FIELD_LIMIT]; /* occurrences so far */
    uint32_t tensor;            /* TENSOR: its row in the side table */
    int depth;
};

struct scanner {
    const uint8_t *data;
    struct onnx_scan *out;
    struct onnx_error *err;
    uint32_t messages;
};

bool onnx_fail(struct onnx_error *err, enum onnx_status status, const char *format, ...)
{
    if (err->status != ONNX_OK)
        return false;
    FORMAT_INTO(err->text, sizeof err->text, format);
    err->status = status;
    return false;
}

bool onnx_no_memory(struct onnx_error *err)
{
    return onnx_fail(err, ONNX_ENVIRONMENT, "out of memory");
}

/* Appends to `text` the path of the record being read, as "graph.node[3].attribute[0]". */
static void describe_path(const struct frame *f, char *text, size_t room)
{
    if (f->up)
        describe_path(f->up, text, room);
    if (!f->field || f->field >= FIELD_LIMIT || !fields[f->message][f->field].name)
        return;
    const struct field *d = &fields[f->message][f->field];
    size_t used = strlen(text);
    if (d->kind & K_REPEATED)
        snprintf(text + used, room - used, "%s%s[%u]", used ? "." : "", d->name, f->seen[f->field] - 1);
    else
        snprintf(text + used, room - used, "%s%s", used ? "." : "", d->name);
}

static bool bad(struct scanner *s, const struct frame *f, uint64_t pos, const char *what)
{
    char path[240] = "";
    describe_path(f, path, sizeof path);
    if (path[0])
        return onnx_fail(s->err, ONNX_BAD_FILE, "not a valid ONNX file: at byte %llu, in %s: %s",
                         (unsigned long long)pos, path, what);
    return onnx_fail(s->err, ONNX_BAD_FILE, "not a valid ONNX file: at byte %llu, in the %s: %s",
                     (unsigned long long)pos, message_names[f->message], what);
}

bool onnx_read_varint(const uint8_t *data, uint64_t *pos, uint64_t end, uint64_t *value)
{
    const uint8_t *at = data + *pos;
    bool ok = wire_read_number(&at, data + end, value);
    *pos = (uint64_t)(at - data);
    return ok;
}

const char *onnx_read_record(const uint8_t *data, uint64_t *pos, uint64_t end, struct onnx_record *rec)
{
    const uint8_t *at = data + *pos;
    struct wire_record r;
    const char *wrong = wire_read_record(&at, data + end, &r);

    *rec = (struct onnx_record){
        r.number, r.wire, r.value, *pos, (uint64_t)((wrong ? at : r.payload) - data), (uint64_t)(at - data)};
    *pos = rec->end;
    return wrong;
}

/* Makes room for `more` elements of `size` bytes behind the `count` that *array holds. */
static bool grow(struct scanner *s, void *array, size_t *room, size_t count, size_t more, size_t size)
{
    if (count + more <= *room)
        return true;
    size_t want = *room + *room / 2;
    if (want < count + more)
        want = count + more + 64;
    void *p = realloc(*(void **)array, want * size);
    if (!p)
        return onnx_no_memory(s->err);
    *(void **)array = p;
    *room = want;
    return true;
}

static bool emit(struct scanner *s, const struct frame *f, const void *bytes, uint64_t size)
{
    struct onnx_scan *out = s->out;
    if (size > ONNX_MAX_SLIM - out->slim_size)
        return bad(s, f, 0, "more than 1 GiB without tensor elements");
    if (!grow(s, &out->slim, &out->slim_room, out->slim_size, (size_t)size, 1))
        return false;
    memcpy(out->slim + out->slim_size, bytes, (size_t)size);
    out->slim_size += (size_t)size;
    return true;
}

static bool emit_tag(struct scanner *s, const struct frame *f, uint32_t number, uint32_t wire)
{
    uint8_t tag[10];
    return emit(s, f, tag, wire_write_number(tag, (uint64_t)number << 3 | wire));
}

/* Tells protobuf-c's TensorProto which row of the side table is its own. */
static bool emit_tensor_index(struct scanner *s, const struct frame *f)
{
    uint8_t segment[16];
    size_t n = wire_write_number(segment + 3, f->tensor);
    segment[0] = 3 << 3 | WIRE_BYTES;
    segment[1] = (uint8_t)(n + 1);
    segment[2] = 1 << 3 | WIRE_VARINT;
    return emit(s, f, segment, n + 3);
}

/* Notes a record of tensor elements, as part of the run before it if it continues that. */
static bool note_data(struct scanner *s, const struct frame *f, const struct onnx_record *rec)
{
    struct onnx_scan *out = s->out;
    struct onnx_scan_tensor *t = &out->tensors[f->tensor];
    if (t->count) {
        struct onnx_run *last = &out->runs[t->first + t->count - 1];
        if (last->field == rec->number && last->offset + last->length == rec->start && last->records < UINT32_MAX) {
            last->length += rec->end - rec->start;
            last->records++;
            return true;
        }
    }
    if (out->run_count >= ONNX_MAX_MESSAGES)
        return bad(s, f, rec->start, "too many scattered pieces of tensor elements");
    if (!grow(s, &out->runs, &out->run_room, out->run_count, 1, sizeof *out->runs))
        return false;
    if (!t->count)
        t->first = out->run_count;
    t->count++;
    out->runs[out->run_count++] =
        (struct onnx_run){.offset = rec->start, .length = rec->end - rec->start, .field = rec->number, .records = 1};
    return true;
}

static bool scan_message(struct scanner *s, const struct frame *up, enum onnx_message message, uint64_t pos,
                         uint64_t end);

static bool scan_submessage(struct scanner *s, const struct frame *f, const struct field *d,
                            const struct onnx_record *rec)
{
    static const uint8_t blank[5] = {0x80, 0x80, 0x80, 0x80, 0};
    uint32_t number = rec->number + (d->action == A_MOVE ? ONNX_MOVED : 0);
    if (!emit_tag(s, f, number, WIRE_BYTES) || !emit(s, f, blank, sizeof blank))
        return false;
    size_t from = s->out->slim_size;
    if (!scan_message(s, f, d->sub, rec->payload, rec->end))
        return false;
    uint64_t length = s->out->slim_size - from;
    uint8_t *at = s->out->slim + from - 5;
    for (int i = 0; i < 5; i++, length >>= 7)
        at[i] |= length & 0x7f;
    return true;
}

/* What a record of this field must look like on the wire; NULL, or what is wrong. */
static const char *check_kind(const struct scanner *s, const struct field *d, const struct onnx_record *rec)
{
    static const uint8_t wire_of[] = {[K_INT] = WIRE_VARINT,  [K_F32] = WIRE_FIX32,    [K_F64] = WIRE_FIX64,
                                      [K_BYTES] = WIRE_BYTES, [K_STRING] = WIRE_BYTES, [K_MSG] = WIRE_BYTES};
    uint32_t kind = d->kind & ~K_REPEATED;
    bool packed = rec->wire == WIRE_BYTES && kind <= K_F64;
    if (packed && !(d->kind & K_REPEATED))
        return "expected one number, got a byte string";
    if (!packed && rec->wire != wire_of[kind])
        return "another type of value expected";
    if (packed && kind == K_F32 && rec->value % 4)
        return "the length of packed 32-bit values is not a multiple of 4";
    if (packed && kind == K_F64 && rec->value % 8)
        return "the length of packed 64-bit values is not a multiple of 8";
    if (packed && kind == K_INT && d->action != A_DATA) {
        uint64_t v;
        for (uint64_t p = rec->payload; p < rec->end;) {
            if (!onnx_read_varint(s->data, &p, rec->end, &v))
                return "a packed number is cut off or too long";
        }
    }
    if (kind == K_STRING && rec->value && memchr(s->data + rec->payload, 0, (size_t)rec->value))
        return "a name with a NUL byte";
    return NULL;
}

static bool scan_record(struct scanner *s, struct frame *f, const struct onnx_record *rec)
{
    f->field = rec->number;
    if (rec->number >= FIELD_LIMIT || !fields[f->message][rec->number].name)
        return true; /* newer than the table: skip */
    const struct field *d = &fields[f->message][rec->number];
    f->seen[rec->number]++;
    const char *wrong = check_kind(s, d, rec);
    if (wrong)
        return bad(s, f, rec->start, wrong);
    switch (d->action) {
    case A_DROP: return true;
    case A_DATA: return note_data(s, f, rec);
    default: break;
    }
    if ((d->kind & ~K_REPEATED) == K_MSG) {
        if (d->kind == K_MSG && f->seen[rec->number] > 1)
            return bad(s, f, rec->start, "given twice");
        return scan_submessage(s, f, d, rec);
    }
    if (d->action == A_KEEP)
        return emit(s, f, s->data + rec->start, rec->end - rec->start);
    uint64_t after_tag = rec->start;
    uint64_t tag;
    return onnx_read_varint(s->data, &after_tag, rec->end, &tag) &&
           emit_tag(s, f, rec->number + ONNX_MOVED, rec->wire) && emit(s, f, s->data + after_tag, rec->end - after_tag);
}

static bool open_tensor(struct scanner *s, struct frame *f)
{
    struct onnx_scan *out = s->out;
    if (!grow(s, &out->tensors, &out->tensor_room, out->tensor_count, 1, sizeof *out->tensors))
        return false;
    f->tensor = out->tensor_count;
    out->tensors[out->tensor_count++] = (struct onnx_scan_tensor){0, 0};
    return true;
}

static bool scan_message(struct scanner *s, const struct frame *up, enum onnx_message message, uint64_t pos,
                         uint64_t end)
{
    struct frame f = {.up = up, .message = message, .depth = up ? up->depth + 1 : 1};
    if (f.depth > ONNX_MAX_NESTING)
        return bad(s, up, pos, "messages are nested more than 100 deep");
    if (++s->messages > ONNX_MAX_MESSAGES)
        return bad(s, up ? up : &f, pos, "more than 8 million messages");
    if (message == ONNX_MSG_TENSOR && !open_tensor(s, &f))
        return false;
    while (pos < end) {
        struct onnx_record rec;
        uint64_t at = pos;
        const char *wrong = onnx_read_record(s->data, &pos, end, &rec);
        if (wrong) {
            f.field = 0;
            return bad(s, &f, at, wrong);
        }
        if (!scan_record(s, &f, &rec))
            return false;
    }
    f.field = 0;
    return message != ONNX_MSG_TENSOR || emit_tensor_index(s, &f);
}

bool onnx_scan(const uint8_t *data, uint64_t size, enum onnx_message root, struct onnx_scan *out,
               struct onnx_error *err)
{
    struct scanner s = {.data = data, .out = out, .err = err};
    *out = (struct onnx_scan){0};
    if (scan_message(&s, NULL, root, 0, size))
        return true;
    onnx_scan_free(out);
    return false;
}

void onnx_scan_free(struct onnx_scan *scan)
{
    free(scan->slim);
    free(scan->runs);
    free(scan->tensors);
    *scan = (struct onnx_scan){0};
}
