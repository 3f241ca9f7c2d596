/* SPDX-License-Identifier: Apache-2.0 */
/* Private to compiler/onnx: what the files that build the structures of onnx_int.h share. */
#ifndef TCCC_ONNX_VIEW_INT_H
#define TCCC_ONNX_VIEW_INT_H

#include "compiler/onnx/onnx_int.h"
#include "compiler/onnx/scan_int.h"

/* Bump allocation, freed as a whole. Memory is zeroed; NULL when there is none (`size` * `count` may overflow:
 * NULL). */
struct onnx_arena;
struct onnx_arena *onnx_arena_new(void);
void *onnx_arena_alloc(struct onnx_arena *a, size_t count, size_t size);
void onnx_arena_free(struct onnx_arena *a);

struct Onnx__TensorProto;

struct onnx_reader {
    struct onnx_model *model;
    struct onnx_scan scan;
    struct onnx_error *err;
};

/* Fills `t` from its message and the side table: checks dtype, dims and the amount of data, decodes what can't stay in
 * the file. */
bool onnx_read_tensor(struct onnx_reader *r, const struct Onnx__TensorProto *proto, struct onnx_tensor *t);

/*
 * Maps the external file `location` (relative to the model's folder, inside it) unless it already is, and sets *index
 * in model->files. `name` is the tensor's, for messages.
 */
bool onnx_external_file(struct onnx_reader *r, const char *name, const char *location, uint32_t *index);

/* Maps a whole file read-only. An empty file gives map = "" and mapped = 0. */
bool onnx_map_file(const char *path, struct onnx_file *file, struct onnx_error *err);
void onnx_unmap_file(struct onnx_file *file);

#endif
