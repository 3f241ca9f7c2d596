/* SPDX-License-Identifier: Apache-2.0 */
/* wire.c - protobuf's wire format, read within bounds, and written. */
#include "base/wire.h"

#include <stdlib.h>
#include <string.h>

bool wire_read_number(const uint8_t **at, const uint8_t *end, uint64_t *value)
{
    const uint8_t *p = *at;
    uint64_t v = 0;

    for (int shift = 0; shift < 70; shift += 7) {
        if (p >= end)
            return false;
        uint8_t b = *p++;
        if (shift == 63 && b > 1)
            return false;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) {
            *at = p;
            *value = v;
            return true;
        }
    }
    return false;
}

const char *wire_read_record(const uint8_t **at, const uint8_t *end, struct wire_record *r)
{
    uint64_t tag;

    *r = (struct wire_record){.start = *at};
    if (!wire_read_number(at, end, &tag) || tag > UINT32_MAX || !(tag >> 3))
        return "no valid field tag";
    r->number = (uint32_t)(tag >> 3);
    r->wire = tag & 7;
    r->payload = *at;
    switch (r->wire) {
    case WIRE_VARINT:
        if (!wire_read_number(at, end, &r->value))
            return "a number is cut off or too long";
        break;
    case WIRE_FIX64:
        if (end - *at < 8)
            return "a 64-bit value is cut off";
        *at += 8;
        break;
    case WIRE_FIX32:
        if (end - *at < 4)
            return "a 32-bit value is cut off";
        *at += 4;
        break;
    case WIRE_BYTES:
        if (!wire_read_number(at, end, &r->value))
            return "a length is cut off or too long";
        if (r->value > (uint64_t)(end - *at))
            return "a length runs past the end of what holds it";
        r->payload = *at;
        *at += r->value;
        break;
    default: return "groups and unknown wire types are not used by ONNX";
    }
    r->end = *at;
    return NULL;
}

size_t wire_write_number(uint8_t *to, uint64_t value)
{
    size_t n = 0;

    for (; value >= 0x80; value >>= 7)
        to[n++] = (uint8_t)(value | 0x80);
    to[n++] = (uint8_t)value;
    return n;
}

/* -- Messages ---------------------------------------------------------------------------------------------- */

void wire_put(struct wire_buffer *b, const void *data, size_t n)
{
    if (b->n + n > b->room) {
        size_t room = 2 * (b->n + n) + 64;
        uint8_t *grown = b->failed ? NULL : realloc(b->data, room);
        if (!grown) {
            b->failed = true;
            return;
        }
        b->data = grown;
        b->room = room;
    }
    if (n)
        memcpy(b->data + b->n, data, n);
    b->n += n;
}

void wire_put_varint(struct wire_buffer *b, uint64_t value)
{
    uint8_t bytes[WIRE_MOST];

    wire_put(b, bytes, wire_write_number(bytes, value));
}

static void tag(struct wire_buffer *b, int field, int wire)
{
    wire_put_varint(b, (uint64_t)field << 3 | (unsigned)wire);
}

void wire_put_number(struct wire_buffer *b, int field, uint64_t value)
{
    tag(b, field, WIRE_VARINT);
    wire_put_varint(b, value);
}

void wire_put_double(struct wire_buffer *b, int field, double value)
{
    tag(b, field, WIRE_FIX64);
    wire_put(b, &value, sizeof value);
}

void wire_put_float(struct wire_buffer *b, int field, float value)
{
    tag(b, field, WIRE_FIX32);
    wire_put(b, &value, sizeof value);
}

void wire_put_bytes(struct wire_buffer *b, int field, const void *data, size_t n)
{
    tag(b, field, WIRE_BYTES);
    wire_put_varint(b, n);
    wire_put(b, data, n);
}

void wire_put_text(struct wire_buffer *b, int field, const char *text)
{
    wire_put_bytes(b, field, text, strlen(text));
}

void wire_put_message(struct wire_buffer *b, int field, struct wire_buffer *message)
{
    wire_put_bytes(b, field, message->data, message->n);
    b->failed |= message->failed;
    free(message->data);
    *message = (struct wire_buffer){0};
}
