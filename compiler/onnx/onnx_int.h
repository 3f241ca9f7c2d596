/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to compiler/onnx: an ONNX file as plain C structures.
 *
 * onnx_open() maps the file and reads it (decode.c) into the structures below, by the table wire.def; everything lives
 * in the model's arena and goes with onnx_close(). Strings are never NULL ("" where the file has none), arrays may be
 * NULL when their count is 0. Tensor elements stay in the file wherever their bytes are there
 * as they should be; onnx_tensor says where. Nothing here knows an operator: the structures say what the file says,
 * checked only as far as reading it safely needs.
 */
#ifndef TCCC_ONNX_INT_H
#define TCCC_ONNX_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compiler/onnx/error_int.h"
#include "ir/ir.h"

/* TensorProto.DataType: id, number, bits of an element. */
#define ONNX_DTYPES(_) \
    _(FLOAT, 1, 32) _(UINT8, 2, 8) _(INT8, 3, 8) _(UINT16, 4, 16) _(INT16, 5, 16) _(INT32, 6, 32) _(INT64, 7, 64) \
    _(STRING, 8, 0) \
    _(BOOL, 9, 8) _(FLOAT16, 10, 16) _(DOUBLE, 11, 64) _(UINT32, 12, 32) _(UINT64, 13, 64) _(COMPLEX64, 14, 64) \
    _(COMPLEX128, 15, 128) _(BFLOAT16, 16, 16) _(FLOAT8E4M3FN, 17, 8) _(FLOAT8E4M3FNUZ, 18, 8) _(FLOAT8E5M2, 19, 8) \
    _(FLOAT8E5M2FNUZ, 20, 8) _(UINT4, 21, 4) _(INT4, 22, 4) _(FLOAT4E2M1, 23, 4) _(FLOAT8E8M0, 24, 8) \
    _(UINT2, 25, 2) _(INT2, 26, 2) \
    _(FLOAT6E2M3, 27, 6) _(FLOAT6E3M2, 28, 6)

enum onnx_dtype {
    ONNX_UNDEFINED = 0,
#define _(id, number, bits) ONNX_##id = number,
    ONNX_DTYPES(_)
#undef _
    ONNX_DTYPE_COUNT
};

/* AttributeProto.AttributeType */
enum onnx_attr_type {
    ONNX_ATTR_NONE = 0, ONNX_ATTR_FLOAT = 1, ONNX_ATTR_INT = 2, ONNX_ATTR_STRING = 3, ONNX_ATTR_TENSOR = 4,
        ONNX_ATTR_GRAPH = 5,
    ONNX_ATTR_FLOATS = 6, ONNX_ATTR_INTS = 7, ONNX_ATTR_STRINGS = 8, ONNX_ATTR_TENSORS = 9, ONNX_ATTR_GRAPHS = 10,
    ONNX_ATTR_SPARSE = 11, ONNX_ATTR_SPARSES = 12, ONNX_ATTR_TYPE = 13, ONNX_ATTR_TYPES = 14, ONNX_ATTR_TYPE_COUNT
};

/* Bytes that may hold anything, NUL included; one NUL follows them. */
struct onnx_str {
    const char *data;
    size_t size;
};

/*
 * A file that tensors lie in: files[0] is the model. It stays mapped until onnx_close(). `path` is "" for a model given
 * as memory.
 */
struct onnx_file {
    const char *path;
    const uint8_t *map;
    uint64_t size;
    uint64_t mapped; /* bytes to unmap; 0: not ours */
};

#define ONNX_NO_FILE UINT32_MAX

struct onnx_binding {
    const char *key, *value;
};

/*
 * `bytes` holds byte_count bytes as raw_data would: row major, little endian, 2- and 4-bit elements packed from the low
 * bits up, 6-bit elements as a stream of bits; no alignment is promised. When `file` is not ONNX_NO_FILE these are the
 * bytes at `offset` of that file. For STRING, `strings` holds `count` strings and `bytes` is NULL.
 */
struct onnx_tensor {
    const char *name;
    enum onnx_dtype dtype;
    uint32_t rank;
    const int64_t *dims;
    uint64_t count, byte_count;
    const uint8_t *bytes;
    const struct onnx_str *strings;
    uint32_t file;
    uint64_t offset;
    uint32_t location;                   /* 1: the elements are in another file, which `external` says */
    size_t external_count;
    const struct onnx_binding *external;
};

/* COO format: element k of `values` [nnz] has the linear index indices[k] ([nnz]) or the coordinates indices[k][*]
 * ([nnz, rank]). */
struct onnx_sparse {
    const struct onnx_tensor *values, *indices;
    uint32_t rank;
    const int64_t *dims;
};

enum onnx_type_kind {
    ONNX_TYPE_NONE, ONNX_TYPE_TENSOR, ONNX_TYPE_SPARSE, ONNX_TYPE_SEQUENCE, ONNX_TYPE_OPTIONAL, ONNX_TYPE_MAP
};

struct onnx_dim {
    int64_t value;     /* -1: not given */
    const char *param; /* "": not given */
};

struct onnx_type {
    enum onnx_type_kind kind;
    enum onnx_dtype dtype;        /* TENSOR, SPARSE: of the elements; MAP: of the keys */
    bool has_shape;
    uint32_t rank;
    const struct onnx_dim *dims;
    const struct onnx_type *elem; /* SEQUENCE, OPTIONAL: of the elements; MAP: of the values */
};

struct onnx_value_info {
    const char *name;
    const struct onnx_type *type;
};

struct onnx_graph;

struct onnx_attr {
    const char *name;
    const char *ref; /* inside a function: the function's attribute whose value this takes; else "" */
    enum onnx_attr_type type;
    float f;
    int64_t i;
    struct onnx_str s;
    const struct onnx_tensor *tensor;
    const struct onnx_sparse *sparse;
    const struct onnx_type *tp;
    const struct onnx_graph *graph;
    size_t count; /* of the list below that `type` names */
    const float *floats;
    const int64_t *ints;
    const struct onnx_str *strings;
    const struct onnx_graph *graphs;
};

struct onnx_node {
    const char *name, *op, *domain, *overload; /* domain "" is ai.onnx */
    const char *scope;                         /* the module that torch.onnx.export says it is of; "": it doesn't */
    size_t index;                              /* in its graph */
    size_t input_count, output_count, attr_count;
    const char *const *inputs, *const *outputs; /* "": optional, left out */
    const struct onnx_attr *attrs;
};

struct onnx_graph {
    const char *name;
    size_t node_count, init_count, sparse_count, input_count, output_count, info_count;
    const struct onnx_node *nodes;
    const struct onnx_tensor *inits;
    const struct onnx_sparse *sparse; /* called as their values */
    const struct onnx_value_info *inputs, *outputs, *infos;
};

struct onnx_opset {
    const char *domain; /* "" is ai.onnx */
    int64_t version;
};

struct onnx_function {
    const char *name, *domain, *overload;
    size_t input_count, output_count, attr_count, default_count, node_count, opset_count, info_count;
    const char *const *inputs, *const *outputs;
    const char *const *attrs;         /* attributes without a default */
    const struct onnx_attr *defaults; /* attributes with one */
    const struct onnx_node *nodes;
    const struct onnx_opset *opsets;
    const struct onnx_value_info *infos;
};

struct onnx_training {
    const struct onnx_graph *initialization, *algorithm; /* may be NULL */
    size_t init_count, update_count;
    const struct onnx_binding *inits, *updates;
};

struct onnx_model {
    const char *path, *folder;
    int64_t ir_version;
    const char *producer, *producer_version;
    const struct onnx_graph *graph;
    size_t opset_count, function_count, training_count, file_count;
    const struct onnx_opset *opsets;
    const struct onnx_function *functions;
    const struct onnx_training *training;
    struct onnx_file *files;
    struct ir_arena *arena;
};

/* Opens a model file. NULL: `err` says why, without the path in front. Free with onnx_close. */
struct onnx_model *onnx_open(struct ir_ctx *ctx, const char *path, struct onnx_error *err);

void onnx_close(struct onnx_model *model);

/* Names a dtype ("FLOAT"); "UNDEFINED" for 0, NULL for a number that ONNX does not define. */
const char *onnx_dtype_name(int64_t dtype);

/* The bits of one element; 0 for strings and undefined ones. */
uint32_t onnx_dtype_bits(int64_t dtype);

#endif
