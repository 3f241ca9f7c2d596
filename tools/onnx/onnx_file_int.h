/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to tools/: ONNX files as the records that they consist of (protobuf's wire format), for what writes a model
 * that differs from another in a few of them. The others are copied as they stand, so everything else stays bit for
 * bit, whatever its version.
 *
 *   onnx_pieces   what is written: pieces of memory in order
 *   onnx_tensor   a TensorProto's head, and where its elements lie
 */
#ifndef TCCC_TOOLS_ONNX_FILE_INT_H
#define TCCC_TOOLS_ONNX_FILE_INT_H

#include "base/wire.h"
#include "tools/data/data_int.h"

/* Numbers of fields (onnx.proto). */
enum { ONNX_MODEL_IR = 1, ONNX_MODEL_GRAPH = 7, ONNX_MODEL_OPSET = 8 };
enum { ONNX_OPSET_DOMAIN = 1, ONNX_OPSET_VERSION = 2 };
enum { ONNX_GRAPH_NODE = 1, ONNX_GRAPH_INITIALIZER = 5, ONNX_GRAPH_INPUT = 11, ONNX_GRAPH_OUTPUT = 12 };
enum { ONNX_VALUE_NAME = 1, ONNX_VALUE_TYPE = 2 };
enum { ONNX_TYPE_TENSOR = 1, ONNX_TENSOR_TYPE_ELEM = 1, ONNX_TENSOR_TYPE_SHAPE = 2, ONNX_SHAPE_DIM = 1,
       ONNX_DIM_VALUE = 1 };
enum { ONNX_NODE_INPUT = 1, ONNX_NODE_OUTPUT = 2, ONNX_NODE_NAME = 3, ONNX_NODE_OP = 4,
       ONNX_NODE_ATTRIBUTE = 5, ONNX_NODE_DOMAIN = 7 };
enum { ONNX_ATTR_NAME = 1, ONNX_ATTR_F = 2, ONNX_ATTR_I = 3, ONNX_ATTR_T = 5,
       ONNX_ATTR_G = 6, ONNX_ATTR_INTS = 8, ONNX_ATTR_GRAPHS = 11, ONNX_ATTR_TYPE = 20 };
enum { ONNX_TENSOR_DIMS = 1, ONNX_TENSOR_TYPE = 2, ONNX_TENSOR_FLOATS = 4, ONNX_TENSOR_INTS = 5,
       ONNX_TENSOR_NAME = 8, ONNX_TENSOR_RAW = 9, ONNX_TENSOR_DOUBLES = 10,
       ONNX_TENSOR_EXTERNAL = 13, ONNX_TENSOR_LOCATION = 14 };

/* Pieces of the output in order; `owned` ones are freed. failed: there was no memory. */
struct onnx_piece { const void *at; size_t n; bool owned; };
struct onnx_pieces { struct onnx_piece *at; int n, room; uint64_t bytes; bool failed; };
void onnx_put(struct onnx_pieces *p, const void *at, size_t n, bool owned);
void onnx_put_record(struct onnx_pieces *p, const struct wire_record *r);                /* as it stands */
void onnx_put_head(struct onnx_pieces *p, int field, uint64_t size);         /* of a record of bytes: key and length */
void onnx_put_number(struct onnx_pieces *p, int field, uint64_t value);
void onnx_put_text(struct onnx_pieces *p, int field, const char *text);                  /* copied */
/* A record of bytes that consists of those pieces, which `body` has no longer. */
void onnx_put_body(struct onnx_pieces *p, int field, struct onnx_pieces *body);
void onnx_move(struct onnx_pieces *to, struct onnx_pieces *from);                        /* to the end */
void onnx_free(struct onnx_pieces *p);
/* What goes to MODEL.data, where MODEL is the file that is to be written. */
struct onnx_external { const char *model; struct onnx_pieces pieces; };
/* The model external->model of three parts: its graph's records, and what stands before and behind the graph.
 * EXIT_FINE, or an exit code after a message: no ONNX file may have more than 2 GiB. */
struct onnx_parts { const struct onnx_pieces *before, *graph, *behind; };
int onnx_write_model(const struct options *o, const struct onnx_parts *parts, const struct onnx_external *external);

/* A record's bytes are that text. */
bool onnx_is(const struct wire_record *r, const char *text);
/* The file's graph. EXIT_FINE, or an exit code after a message. */
int onnx_find_graph(const struct options *o, const char *path, const struct data_file *file, struct wire_record *graph);

struct onnx_tensor {
    char name[1024];
    int rank;
    int64_t dims[TCC_MAX_RANK];
    enum tcc_dtype dtype;
    bool external, big;          /* big: more axes than we know */
    char location[512];
    uint64_t offset, length;
    bool has_length;
    struct wire_record record;   /* that it was read from */
};
bool onnx_tensor_read(const struct wire_record *message, struct onnx_tensor *t);         /* false: malformed */

/* Files of external data that are open. */
struct onnx_files { struct data_file *files[64]; char *paths[64]; int n; };
void onnx_files_close(struct onnx_files *f);
/* The bytes of a model's external tensor. NULL after a message: *code. */
const void *onnx_original(const struct options *o, const char *model, struct onnx_files *f,
                          const struct onnx_tensor *t, size_t *bytes, int *code);
/* The initialiser as it is, but for its elements; those of an external tensor go to MODEL.data. */
void onnx_put_tensor(struct onnx_pieces *graph, struct onnx_external *x, const struct onnx_tensor *t, const void *data,
                     size_t bytes, bool owned);

#endif
