/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to compiler/onnx: the bounded protobuf scanner.
 *
 * onnx_scan() walks a serialised ONNX message before any library does. It checks the wire structure (nesting, lengths,
 * varints, field types, counts), and writes a slim copy: the same message without documentation and without tensor
 * elements. In the slim copy every TensorProto carries `segment.begin` = its index in the side table, which says where
 * its elements lie in the file.
 */
#ifndef TCCC_ONNX_SCAN_INT_H
#define TCCC_ONNX_SCAN_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/wire.h"
#include "compiler/onnx/error_int.h"

#define ONNX_MAX_NESTING 100          /* messages inside each other; protobuf's own readers stop there too */
#define ONNX_MAX_MESSAGES 8000000u    /* messages in one file */
#define ONNX_MAX_SLIM (1ull << 30)    /* bytes that remain without documentation and tensor elements */
#define ONNX_MOVED 5000               /* added to the number of a field marked MOVE in wire.def */

enum onnx_message {
    ONNX_MSG_NONE,
#define MESSAGE(id, name) ONNX_MSG_##id,
#include "compiler/onnx/wire.def"
    ONNX_MSG_COUNT
};


/* Consecutive records of one data field of a TensorProto: `length` bytes at `offset`, tags included. */
struct onnx_run {
    uint64_t offset, length;
    uint32_t field;   /* field number, 4..11 */
    uint32_t records;
};

struct onnx_scan_tensor {
    uint32_t first, count; /* its runs */
};

struct onnx_scan {
    uint8_t *slim;
    size_t slim_size;
    struct onnx_run *runs;
    uint32_t run_count;
    struct onnx_scan_tensor *tensors;
    uint32_t tensor_count;
    size_t slim_room, run_room, tensor_room;
};

/* One record of the wire format. */
struct onnx_record {
    uint32_t number, wire; /* field number, base/wire.h */
    uint64_t value;        /* VARINT: the value; WIRE_BYTES: the length */
    uint64_t start;        /* of the tag */
    uint64_t payload;      /* of the bytes (WIRE_BYTES) or of the value */
    uint64_t end;          /* of the record */
};

/*
 * Scans `size` bytes at `data` as a `root` message. True: `out` is filled and owned by the caller (onnx_scan_free).
 * False: `err` says what is wrong and `out` is empty. Reads nothing outside the bytes; the stack used is bounded by
 * ONNX_MAX_NESTING.
 */
bool onnx_scan(const uint8_t *data, uint64_t size, enum onnx_message root, struct onnx_scan *out,
               struct onnx_error *err);
void onnx_scan_free(struct onnx_scan *scan);

/* Reads a varint at *pos (< end) and moves *pos past it. False when it is cut off or longer than 10 bytes / 64 bits. */
bool onnx_read_varint(const uint8_t *data, uint64_t *pos, uint64_t end, uint64_t *value);

/* Reads the record at *pos and moves *pos past it. NULL, or what is wrong with it. */
const char *onnx_read_record(const uint8_t *data, uint64_t *pos, uint64_t end, struct onnx_record *rec);

#endif
