/* SPDX-License-Identifier: Apache-2.0 */
/* wire.h - protobuf's wire format: numbers of 7 bits a byte, and records of a tag and what stands behind it. */
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
/* How many bytes it takes, WIRE_MOST at most. */
size_t wire_write_number(uint8_t *to, uint64_t value);

#endif
