/* SPDX-License-Identifier: Apache-2.0 */
/* Private to compiler/onnx: what the files that build the structures of onnx_int.h share. */
#ifndef TCCC_ONNX_DECODE_INT_H
#define TCCC_ONNX_DECODE_INT_H

#include "base/wire.h"
#include "compiler/onnx/onnx_int.h"

#define ONNX_MAX_NESTING 100          /* messages inside each other; protobuf's own readers stop there too */
#define ONNX_MAX_MESSAGES 8000000u    /* messages in one file */
#define ONNX_FIELDS 32                /* above the numbers of all fields in wire.def */

enum onnx_message {
    ONNX_MSG_NONE,
#define MESSAGE(id, name, type, finish) ONNX_MSG_##id,
#include "compiler/onnx/wire.def"
    ONNX_MSG_COUNT
};

struct onnx_reader {
    struct onnx_model *model;
    struct onnx_error *err;
    uint32_t messages; /* read so far */
};

/* A message that is being read: frames lie on the C stack, each knows the one around it. */
struct onnx_frame {
    const struct onnx_frame *up;
    enum onnx_message message;
    const uint8_t *start, *end; /* its bytes, in the file */
    void *to;                   /* the structure that it fills */
    size_t index;               /* where it is one of a list: its place there */
    int depth;
    uint32_t field;               /* being read; 0: none */
    uint32_t seen[ONNX_FIELDS];   /* records of each field */
    size_t count[ONNX_FIELDS];    /* elements of each list */
    uint8_t *next[ONNX_FIELDS];   /* where the next element goes */
};

/*
 * Reads the file's bytes as a `root` message into the structure `to`, by the table wire.def. False: r->err says what is
 * wrong. Reads nothing outside the bytes; the stack used is bounded by ONNX_MAX_NESTING.
 */
bool onnx_decode(struct onnx_reader *r, enum onnx_message root, void *to);

/* What wire.def names: checks a message whose fields are read, and completes its structure. */
#define MESSAGE(id, name, type, finish) bool onnx_finish_##finish(struct onnx_reader *r, const struct onnx_frame *f);
#include "compiler/onnx/wire.def"

/*
 * Maps the external file `location` (relative to the model's folder, inside it) unless it already is, and sets *index
 * in model->files. `name` is the tensor's, for messages.
 */
bool onnx_external_file(struct onnx_reader *r, const char *name, const char *location, uint32_t *index);

/* Maps a whole file read-only. An empty file gives map = "" and mapped = 0. */
bool onnx_map_file(const char *path, struct onnx_file *file, struct onnx_error *err);
void onnx_unmap_file(struct onnx_file *file);

#endif
