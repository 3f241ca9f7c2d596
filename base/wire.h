/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - protobuf's wire format (protobuf.dev/programming-guides/encoding): numbers of 7 bits a byte, and records of
 * a tag and what stands behind it.
 */
#ifndef TCR_WIRE_H
#define TCR_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WIRE_VARINT = 0, WIRE_FIX64 = 1, WIRE_BYTES = 2, WIRE_FIX32 = 5 };
enum { WIRE_MOST = 10 }; /* bytes of a number */

struct wire_record {
    const uint8_t *start, *payload, *end; /* payload: behind tag and length */
    uint64_t value;                       /* of a number; of bytes how many */
    uint32_t number, wire;
};

/* False: it is cut off, or not of 64 bits; *at stays. */
bool wire_read_number(const uint8_t **at, const uint8_t *end, uint64_t *value);
/* The record at *at, moves on. NULL, or what is wrong with it, when only its start is known. */
const char *wire_read_record(const uint8_t **at, const uint8_t *end, struct wire_record *r);
/* The record behind r, or (r is all zeros) the first, of a message's bytes; false: there is none, or what is none. */
static inline bool wire_next(struct wire_record *r, const uint8_t *start, const uint8_t *end)
{
    const uint8_t *at = r->start ? r->end : start;

    return at < end && !wire_read_record(&at, end, r);
}
/* After that: were all of them records? */
static inline bool wire_whole(const struct wire_record *r)
{
    return !r->start || r->end;
}
/* How many bytes it takes, WIRE_MOST at most. */
size_t wire_write_number(uint8_t *to, uint64_t value);

/* A message as it grows. failed: no memory, from then on nothing is added. Its owner frees `data`. */
struct wire_buffer {
    uint8_t *data;
    size_t n, room;
    bool failed;
};
void wire_put(struct wire_buffer *b, const void *data, size_t n);
void wire_put_varint(struct wire_buffer *b, uint64_t value);
/* Records: of a number, of 8 and 4 bytes, of bytes, of a message, which is freed. */
void wire_put_number(struct wire_buffer *b, int field, uint64_t value);
void wire_put_double(struct wire_buffer *b, int field, double value);
void wire_put_float(struct wire_buffer *b, int field, float value);
void wire_put_bytes(struct wire_buffer *b, int field, const void *data, size_t n);
void wire_put_text(struct wire_buffer *b, int field, const char *text);
void wire_put_message(struct wire_buffer *b, int field, struct wire_buffer *message);

#endif
