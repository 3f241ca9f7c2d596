/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes, parameters and their first values as records of an ONNX file (protobuf's wire format). Numbers that say how a
 * network works are Constant nodes: initialisers of floats are parameters, which training changes.
 */
#include "tools/net/net_int.h"

#include "base/format.h"
#include "base/draw.h"
#include "tools/onnx/onnx_file_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GRAPH_NAME = 2, MODEL_PRODUCER = 2, VALUE_TYPE = 2, TYPE_TENSOR = 1, TENSOR_ELEMENTS = 1, TENSOR_SHAPE = 2 };
enum { SHAPE_DIM = 1, DIM_VALUE = 1, DIM_NAME = 2, ATTR_INTS = 8 };
enum { KIND_FLOAT = 1, KIND_INT = 2, KIND_TENSOR = 4, KIND_INTS = 7 };
enum { IR_VERSION = 9, OPSET = 20 };

const char *net_text(struct net *n, const char *format, ...)
{
    FORMATTED(text, 512, format);
    return ir_intern(n->ctx, text);
}

/* A TensorProto. */
static void put_tensor(struct wire_buffer *to, const char *name, enum tcc_dtype type, int rank, const int64_t *dims,
                       const void *data)
{
    int64_t count = tcc_elements(rank, dims);
    for (int i = 0; i < rank; i++)
        wire_put_number(to, ONNX_TENSOR_DIMS, (uint64_t)dims[i]);
    wire_put_number(to, ONNX_TENSOR_TYPE, (uint64_t)type);
    if (name)
        wire_put_text(to, ONNX_TENSOR_NAME, name);
    wire_put_bytes(to, ONNX_TENSOR_RAW, data, (size_t)(count * tcc_dtype_bytes(type)));
}

static void add_tensor(struct net *n, const char *name, enum tcc_dtype type, int rank, const int64_t *dims,
                       const void *data)
{
    struct wire_buffer body = {0};
    put_tensor(&body, name, type, rank, dims, data);
    wire_put_message(&n->tensors, ONNX_GRAPH_INITIALIZER, &body);
}

/* -- First values ------------------------------------------------------------------------------------------------ */

/* Box and Muller's transform. */
static double draw_normal(uint64_t *state)
{
    double u = 1 - tcr_draw_unit(state), v = tcr_draw_unit(state);
    return sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v);
}

static double draw(enum net_init init, double scale, uint64_t *state)
{
    switch (init) {
    case NET_ZEROS: return 0;
    case NET_ONES: return 1;
    case NET_UNIFORM: return (2 * tcr_draw_unit(state) - 1) * scale;
    case NET_NORMAL: return draw_normal(state) * scale;
    }
    return 0;
}

const char *net_param(struct net *n, const char *name, int rank, const int64_t *dims, enum net_init init, double scale)
{
    int64_t count = tcc_elements(rank, dims);
    float *values = count > 0 ? malloc((size_t)count * sizeof *values) : NULL;
    uint64_t state = tcr_draw_begin(n->seed, name);
    if (!values) {
        n->tensors.failed = true;
        return name;
    }
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)draw(init, scale, &state);
    add_tensor(n, name, TCC_F32, rank, dims, values);
    n->parameters += count;
    free(values);
    return name;
}

/* -- Nodes ------------------------------------------------------------------------------------------------------- */

static void put_attr(struct wire_buffer *node, const struct net_attr *a)
{
    struct wire_buffer body = {0}, tensor = {0};
    int kind = a->kind == 'i' ? KIND_INT : a->kind == 'f' ? KIND_FLOAT : a->kind == 't' ? KIND_TENSOR : KIND_INTS;
    wire_put_text(&body, ONNX_ATTR_NAME, a->name);
    if (kind == KIND_INT)
        wire_put_number(&body, ONNX_ATTR_I, (uint64_t)a->i);
    if (kind == KIND_FLOAT)
        wire_put_float(&body, ONNX_ATTR_F, (float)a->f);
    for (int i = 0; kind == KIND_INTS && i < a->n; i++)
        wire_put_number(&body, ATTR_INTS, (uint64_t)a->ints[i]);
    if (kind == KIND_TENSOR) {
        put_tensor(&tensor, NULL, TCC_F32, a->n, a->ints, a->floats);
        wire_put_message(&body, ONNX_ATTR_T, &tensor);
    }
    wire_put_number(&body, ONNX_ATTR_TYPE, (uint64_t)kind);
    wire_put_message(node, ONNX_NODE_ATTRIBUTE, &body);
}

struct net_named {
    const char *name;
    int more; /* nodes that would be called so, too */
    struct net_named *next;
};

/* PATH/OP, and as in PyTorch's exporter PATH/OP_1 of a second one: ONNX Runtime takes no name twice. */
static const char *node_name(struct net *n, const char *path, const char *op)
{
    const char *name = net_text(n, "%s%s%s", path, *path ? "/" : "", op);
    struct net_named *x = n->named;
    while (x && x->name != name)
        x = x->next;
    if (x)
        return net_text(n, "%s_%d", name, ++x->more);
    x = IR_NEW(n->ctx, struct net_named);
    *x = (struct net_named){name, 0, n->named};
    n->named = x;
    return name;
}

void net_node(struct net *n, const char *op, const char *path, const char *const *in, int nout, const char **out,
              const struct net_attr *attrs)
{
    struct wire_buffer body = {0};
    for (int i = 0; in[i]; i++)
        wire_put_text(&body, ONNX_NODE_INPUT, in[i]);
    for (int k = 0; k < nout; k++) {
        out[k] = net_text(n, "v%d", ++n->values);
        wire_put_text(&body, ONNX_NODE_OUTPUT, out[k]);
    }
    wire_put_text(&body, ONNX_NODE_NAME, node_name(n, path, op));
    wire_put_text(&body, ONNX_NODE_OP, op);
    for (; attrs && attrs->name; attrs++)
        put_attr(&body, attrs);
    wire_put_message(&n->nodes, ONNX_GRAPH_NODE, &body);
}

const char *net_node1(struct net *n, const char *op, const char *path, const char *const *in,
                      const struct net_attr *attrs)
{
    const char *out;
    net_node(n, op, path, in, 1, &out, attrs);
    return out;
}

const char *net_int64s(struct net *n, int count, const int64_t *values)
{
    const char *name = net_text(n, "i%d", ++n->values);
    add_tensor(n, name, TCC_I64, 1, (const int64_t[]){count}, values);
    return name;
}

const char *net_floats(struct net *n, int rank, const int64_t *dims, const float *values)
{
    struct net_attr value = {.name = "value", .kind = 't', .n = rank, .ints = dims, .floats = values};
    return net_node1(n, "Constant", "", NET_IN(NULL), NET_ATTRS(value));
}

struct net_value net_map(struct net *n, const char *op, const char *path, struct net_value x)
{
    x.name = net_node1(n, op, path, NET_IN(x.name), NULL);
    return x;
}

struct net_value net_reshape(struct net *n, const char *path, struct net_value x, int rank, const int64_t *dims)
{
    struct net_value y = {.rank = rank};
    memcpy(y.dims, dims, (size_t)rank * sizeof *dims);
    y.name = net_node1(n, "Reshape", path, NET_IN(x.name, net_int64s(n, rank, dims)), NULL);
    return y;
}

struct net_value net_transpose(struct net *n, const char *path, struct net_value x, const int64_t *perm)
{
    struct net_value y = x;
    for (int i = 0; i < x.rank; i++)
        y.dims[i] = x.dims[perm[i]];
    y.name = net_node1(n, "Transpose", path, NET_IN(x.name), NET_ATTRS(NET_INTS("perm", x.rank, perm)));
    return y;
}

/* -- The file ---------------------------------------------------------------------------------------------------- */

/* A ValueInfoProto. */
static void put_value(struct wire_buffer *graph, int field, const char *name, enum tcc_dtype type, struct net_value v)
{
    struct wire_buffer info = {0}, of = {0}, tensor = {0}, shape = {0};
    for (int i = 0; i < v.rank; i++) {
        struct wire_buffer dim = {0};
        if (i)
            wire_put_number(&dim, DIM_VALUE, (uint64_t)v.dims[i]);
        else
            wire_put_text(&dim, DIM_NAME, "batch");
        wire_put_message(&shape, SHAPE_DIM, &dim);
    }
    wire_put_number(&tensor, TENSOR_ELEMENTS, (uint64_t)type);
    wire_put_message(&tensor, TENSOR_SHAPE, &shape);
    wire_put_message(&of, TYPE_TENSOR, &tensor);
    wire_put_text(&info, ONNX_VALUE_NAME, name);
    wire_put_message(&info, VALUE_TYPE, &of);
    wire_put_message(graph, field, &info);
}

void net_finish(struct net *n, struct net_value in, struct net_value out, struct wire_buffer *to)
{
    struct wire_buffer graph = {0}, opset = {0}, last = {0};
    wire_put_text(&last, ONNX_NODE_INPUT, out.name);
    wire_put_text(&last, ONNX_NODE_OUTPUT, "output");
    wire_put_text(&last, ONNX_NODE_NAME, "output");
    wire_put_text(&last, ONNX_NODE_OP, "Identity");
    wire_put_message(&n->nodes, ONNX_GRAPH_NODE, &last);

    wire_put(&graph, n->nodes.data, n->nodes.n);
    wire_put_text(&graph, GRAPH_NAME, n->spec->row->name);
    wire_put(&graph, n->tensors.data, n->tensors.n);
    put_value(&graph, ONNX_GRAPH_INPUT, "input", n->data->tokens ? TCC_I64 : TCC_F32, in);
    put_value(&graph, ONNX_GRAPH_OUTPUT, "output", TCC_F32, out);
    graph.failed |= n->nodes.failed || n->tensors.failed;

    wire_put_number(to, ONNX_MODEL_IR, IR_VERSION);
    wire_put_text(to, MODEL_PRODUCER, "tccc");
    wire_put_message(to, ONNX_MODEL_GRAPH, &graph);
    wire_put_number(&opset, ONNX_OPSET_VERSION, OPSET);
    wire_put_message(to, ONNX_MODEL_OPSET, &opset);
    free(n->nodes.data);
    free(n->tensors.data);
    n->nodes = n->tensors = (struct wire_buffer){0};
}
