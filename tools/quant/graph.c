/* SPDX-License-Identifier: Apache-2.0 */
/* The graph of an ONNX file, as far as quantising needs it: nodes with the values that they read and write, constants,
 * and what subgraphs read of the values outside. */
#include "ir/map.h"
#include "tools/quant/quant_int.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 64 }; /* of subgraphs in subgraphs */

static int malformed(const struct quant *q)
{
    return tool_error(q->o, EXIT_DATA, "%s: malformed: a record of the graph ends early", q->path);
}

const char *quant_text(struct quant *q, const struct wire_record *r)
{
    char *copy = ir_alloc(q->ctx, r->value + 1);

    memcpy(copy, r->payload, r->value);
    copy[r->value] = '\0';
    return ir_intern(q->ctx, copy);
}

/* -- Values ---------------------------------------------------------------------------------------------------- */

/* The value of that name; -1: "". There is room. */
static int value_of(struct quant *q, struct ir_map *t, const char *name)
{
    if (!*name)
        return -1;
    void **at = ir_map_add(q->ctx, t, ir_map_key(name));
    if (!*at) {
        *at = &q->values[q->nvalues++];
        *(struct quant_value *)*at = (struct quant_value){.name = name, .producer = -1, .tensor = -1};
    }
    return (int)((struct quant_value *)*at - q->values);
}

/* -- Reading ---------------------------------------------------------------------------------------------------- */

/* Names that nodes of a subgraph read, and what it returns: those of values outside become captured. */
static bool note_captured(struct quant *q, struct ir_map *t, const struct wire_record *graph, int depth);

static bool captured_by_attribute(struct quant *q, struct ir_map *t, const struct wire_record *attribute, int depth)
{
    struct wire_record r = {0};

    while (wire_next(&r, attribute->payload, attribute->end)) {
        if (r.wire == WIRE_BYTES && (r.number == ONNX_ATTR_G || r.number == ONNX_ATTR_GRAPHS) &&
            (depth >= MOST_DEPTH || !note_captured(q, t, &r, depth + 1)))
            return false;
    }
    return wire_whole(&r);
}

static void capture(struct quant *q, struct ir_map *t, const struct wire_record *name)
{
    void **at = ir_map_find(t, ir_map_key(quant_text(q, name)));
    if (at)
        ((struct quant_value *)*at)->captured = true;
}

static bool captured_by_node(struct quant *q, struct ir_map *t, const struct wire_record *node, bool reads, int depth)
{
    struct wire_record r = {0};

    while (wire_next(&r, node->payload, node->end)) {
        if (reads && r.number == ONNX_NODE_INPUT && r.wire == WIRE_BYTES)
            capture(q, t, &r);
        if (r.number == ONNX_NODE_ATTRIBUTE && r.wire == WIRE_BYTES && !captured_by_attribute(q, t, &r, depth))
            return false;
    }
    return wire_whole(&r);
}

static bool captured_by_output(struct quant *q, struct ir_map *t, const struct wire_record *info)
{
    struct wire_record r = {0};

    while (wire_next(&r, info->payload, info->end)) {
        if (r.number == ONNX_VALUE_NAME && r.wire == WIRE_BYTES)
            capture(q, t, &r);
    }
    return wire_whole(&r);
}

static bool note_captured(struct quant *q, struct ir_map *t, const struct wire_record *graph, int depth)
{
    struct wire_record r = {0};

    while (wire_next(&r, graph->payload, graph->end)) {
        if (r.wire != WIRE_BYTES)
            continue;
        if ((r.number == ONNX_GRAPH_NODE && !captured_by_node(q, t, &r, true, depth)) ||
            (r.number == ONNX_GRAPH_OUTPUT && !captured_by_output(q, t, &r)))
            return false;
    }
    return wire_whole(&r);
}

/* The value of a Constant node: a tensor as an initialiser has. */
static bool read_constant(const struct quant_node *n, struct onnx_tensor *t)
{
    struct wire_record r = {0}, field;

    while (wire_next(&r, n->record.payload, n->record.end)) {
        if (r.number != ONNX_NODE_ATTRIBUTE || r.wire != WIRE_BYTES)
            continue;
        for (const unsigned char *a = r.payload; a < r.end;) {
            if (wire_read_record(&a, r.end, &field))
                return false;
            if (field.number == ONNX_ATTR_T && field.wire == WIRE_BYTES)
                return onnx_tensor_read(&field, t);
        }
    }
    return false;
}

static bool read_node(struct quant *q, struct ir_map *t, const struct wire_record *record)
{
    struct quant_node *n = &q->nodes[q->nnodes];
    const unsigned char *at = record->payload;
    struct wire_record r;
    int nin = 0, nout = 0;

    *n = (struct quant_node){.name = "", .op = "", .domain = "", .record = *record};
    for (; at < record->end; nin += r.number == ONNX_NODE_INPUT, nout += r.number == ONNX_NODE_OUTPUT)
        if (wire_read_record(&at, record->end, &r))
            return false;
    n->in = IR_NEWN(q->ctx, nin + 1, int);
    n->out = IR_NEWN(q->ctx, nout + 1, int);
    for (at = record->payload; at < record->end;) {
        if (wire_read_record(&at, record->end, &r))
            return false;
        if (r.wire != WIRE_BYTES)
            continue;
        if (r.number == ONNX_NODE_NAME)
            n->name = quant_text(q, &r);
        if (r.number == ONNX_NODE_OP)
            n->op = quant_text(q, &r);
        if (r.number == ONNX_NODE_DOMAIN)
            n->domain = quant_text(q, &r);
        if (r.number == ONNX_NODE_INPUT && (n->in[n->nin++] = value_of(q, t, quant_text(q, &r))) >= 0)
            q->values[n->in[n->nin - 1]].uses++;
        if (r.number == ONNX_NODE_OUTPUT && (n->out[n->nout++] = value_of(q, t, quant_text(q, &r))) >= 0)
            q->values[n->out[n->nout - 1]].producer = q->nnodes;
    }
    if (!strcmp(n->op, "Constant") && n->nout == 1 && n->out[0] >= 0 && read_constant(n, &q->tensors[q->ntensors]))
        q->values[n->out[0]].tensor = q->ntensors++;
    q->nnodes++;
    return true;
}

static bool read_value(struct quant *q, struct ir_map *t, const struct wire_record *info, bool input)
{
    struct wire_record r = {0};

    while (wire_next(&r, info->payload, info->end)) {
        int v = r.number == ONNX_VALUE_NAME && r.wire == WIRE_BYTES ? value_of(q, t, quant_text(q, &r)) : -1;
        if (v >= 0)
            *(input ? &q->values[v].input : &q->values[v].output) = true;
    }
    return wire_whole(&r);
}

static bool read_initialiser(struct quant *q, struct ir_map *t, const struct wire_record *record)
{
    struct onnx_tensor *x = &q->tensors[q->ntensors];

    if (!onnx_tensor_read(record, x))
        return false;
    int v = value_of(q, t, ir_intern(q->ctx, x->name));
    if (v >= 0)
        q->values[v].tensor = q->ntensors;
    q->ntensors++;
    return true;
}

static bool read_item(struct quant *q, struct ir_map *t, const struct wire_record *r)
{
    if (r->wire != WIRE_BYTES)
        return true;
    if (r->number == ONNX_GRAPH_NODE)
        return read_node(q, t, r);
    if (r->number == ONNX_GRAPH_INPUT || r->number == ONNX_GRAPH_OUTPUT)
        return read_value(q, t, r, r->number == ONNX_GRAPH_INPUT);
    return r->number != ONNX_GRAPH_INITIALIZER || read_initialiser(q, t, r);
}

static bool turns(const struct quant_node *n);

/* The Transpose of a matrix that is constant is constant, too: exporters write weights so, and --net does. */
static void read_turned(struct quant *q)
{
    for (int i = 0; i < q->nnodes; i++) {
        const struct quant_node *n = &q->nodes[i];
        int in = n->nin == 1 ? n->in[0] : -1, out = n->nout == 1 ? n->out[0] : -1;
        if (in < 0 || out < 0 || q->values[in].tensor < 0 || q->values[out].tensor >= 0 || !turns(n))
            continue;
        const struct onnx_tensor *t = &q->tensors[q->values[in].tensor];
        if (t->rank != 2 || t->big || t->dtype != TCC_F32)
            continue;
        struct onnx_tensor *x = &q->tensors[q->ntensors];
        *x = *t;
        x->dims[0] = t->dims[1];
        x->dims[1] = t->dims[0];
        q->turned[q->ntensors] = !q->turned[q->values[in].tensor];
        q->values[out].tensor = q->ntensors++;
    }
}

/* How many there can be at most of nodes, tensors and names. */
static bool count(const struct quant *q, int64_t *nodes, int64_t *tensors, int64_t *names)
{
    const unsigned char *at = q->graph.payload;
    struct wire_record r, field;

    *nodes = *tensors = *names = 0;
    while (at < q->graph.end) {
        if (wire_read_record(&at, q->graph.end, &r))
            return false;
        *nodes += r.number == ONNX_GRAPH_NODE;
        *tensors += r.number == ONNX_GRAPH_NODE || r.number == ONNX_GRAPH_INITIALIZER;
        ++*names;
        for (const unsigned char *a = r.payload; r.number == ONNX_GRAPH_NODE && r.wire == WIRE_BYTES && a < r.end;) {
            if (wire_read_record(&a, r.end, &field))
                return false;
            *names += field.number == ONNX_NODE_INPUT || field.number == ONNX_NODE_OUTPUT;
        }
    }
    return true;
}

/* The model's own fields: version, opsets. */
static bool read_opsets(struct quant *q)
{
    const unsigned char *at = q->file->bytes, *end = at + q->file->size;
    struct wire_record r, field;

    while (at < end) {
        if (wire_read_record(&at, end, &r))
            return false;
        if (r.number == ONNX_MODEL_IR && r.wire == WIRE_VARINT)
            q->ir = (int64_t)r.value;
        if (r.number != ONNX_MODEL_OPSET || r.wire != WIRE_BYTES)
            continue;
        bool own = true;
        int64_t version = 0;
        for (const unsigned char *a = r.payload; a < r.end;) {
            if (wire_read_record(&a, r.end, &field))
                return false;
            if (field.number == ONNX_OPSET_DOMAIN && field.wire == WIRE_BYTES) {
                own = !field.value || onnx_is(&field, "ai.onnx");
                q->microsoft |= onnx_is(&field, "com.microsoft");
            }
            if (field.number == ONNX_OPSET_VERSION && field.wire == WIRE_VARINT)
                version = (int64_t)field.value;
        }
        q->opset = own ? version : q->opset;
    }
    return true;
}

int quant_open(struct quant *q)
{
    char error[ERROR_SIZE];
    int64_t nodes, tensors, names;
    struct ir_map t = {0};
    struct wire_record r;

    q->file = data_map(q->path, error);
    if (!q->file)
        return tool_error(q->o, data_map_code(), "%s", error);
    int code = onnx_find_graph(q->o, q->path, q->file, &q->graph);
    if (code != EXIT_FINE)
        return code;
    if (!read_opsets(q) || !count(q, &nodes, &tensors, &names) || names > 1 << 28)
        return malformed(q);
    q->nodes = IR_NEWN(q->ctx, nodes + 1, struct quant_node);
    q->tensors = IR_NEWN(q->ctx, tensors + 1, struct onnx_tensor);
    q->turned = IR_NEWN(q->ctx, tensors + 1, bool);
    q->values = IR_NEWN(q->ctx, names + 1, struct quant_value);
    for (const unsigned char *at = q->graph.payload; at < q->graph.end;)
        if (wire_read_record(&at, q->graph.end, &r) || !read_item(q, &t, &r))
            return malformed(q);
    for (int i = 0; i < q->nnodes; i++)
        if (!captured_by_node(q, &t, &q->nodes[i].record, false, 0))
            return malformed(q);
    read_turned(q);
    return EXIT_FINE;
}

void quant_close(struct quant *q)
{
    for (int i = 0; i < q->nvalues; i++) {
        free(q->values[i].hist);
        free(q->values[i].sums);
        free(q->values[i].hessian);
    }
    onnx_files_close(&q->files);
    if (q->file)
        data_unref(q->file);
}

/* -- Attributes and constants ------------------------------------------------------------------------------------ */

/* The attribute's field of that number; false: it has none. */
static bool find_attribute(const struct quant_node *n, const char *name, uint32_t number, struct wire_record *out)
{
    struct wire_record r = {0}, field;

    while (wire_next(&r, n->record.payload, n->record.end)) {
        bool named = false, found = false;
        if (r.number != ONNX_NODE_ATTRIBUTE || r.wire != WIRE_BYTES)
            continue;
        for (const unsigned char *a = r.payload; a < r.end && !wire_read_record(&a, r.end, &field);) {
            named |= field.number == ONNX_ATTR_NAME && onnx_is(&field, name);
            if (field.number == number) {
                *out = field;
                found = true;
            }
        }
        if (named && found)
            return true;
    }
    return false;
}

/* Is it a Transpose, of two axes, that exchanges them? */
static bool turns(const struct quant_node *n)
{
    struct wire_record r; /* of numbers that are no list, the last one */

    return !strcmp(n->op, "Transpose") && !*n->domain &&
           (!find_attribute(n, "perm", ONNX_ATTR_INTS, &r) ||
            (r.wire == WIRE_BYTES ? r.value == 2 && r.payload[0] == 1 : r.value == 0));
}

int64_t quant_attr_i(const struct quant_node *n, const char *name, int64_t otherwise)
{
    struct wire_record r;
    return find_attribute(n, name, ONNX_ATTR_I, &r) && r.wire == WIRE_VARINT ? (int64_t)r.value : otherwise;
}

double quant_attr_f(const struct quant_node *n, const char *name, double otherwise)
{
    struct wire_record r;
    float f;

    if (!find_attribute(n, name, ONNX_ATTR_F, &r) || r.wire != WIRE_FIX32)
        return otherwise;
    memcpy(&f, r.payload, sizeof f);
    return f;
}

int64_t quant_elements(const struct onnx_tensor *t)
{
    return tcc_elements(t->rank, t->dims);
}

/* Packed or single floats of float_data. How many; -1: malformed. */
static int64_t copy_floats(const struct onnx_tensor *t, float *to, int64_t n)
{
    const unsigned char *at = t->record.payload;
    struct wire_record r;
    int64_t got = 0;

    while (at < t->record.end) {
        if (wire_read_record(&at, t->record.end, &r))
            return -1;
        if (r.number != ONNX_TENSOR_FLOATS)
            continue;
        int64_t more = (r.end - r.payload) / 4;
        if (more > n - got)
            return -1;
        memcpy(to + got, r.payload, (size_t)more * 4);
        got += more;
    }
    return got;
}

/* raw_data. */
static const void *raw_of(const struct onnx_tensor *t, size_t *bytes)
{
    struct wire_record r = {0};

    while (wire_next(&r, t->record.payload, t->record.end))
        if (r.number == ONNX_TENSOR_RAW && r.wire == WIRE_BYTES) {
            *bytes = (size_t)r.value;
            return r.payload;
        }
    return NULL;
}

float *quant_floats(struct quant *q, int tensor, int *code)
{
    const struct onnx_tensor *t = &q->tensors[tensor];
    int64_t n = quant_elements(t), room = (t->record.end - t->record.payload) / 4;
    size_t bytes = 0;
    const void *from = t->external ? onnx_original(q->o, q->path, &q->files, t, &bytes, code) : raw_of(t, &bytes);

    if (*code != EXIT_FINE)
        return NULL;
    bool fits = n >= 0 && (from ? bytes == (size_t)n * 4 : n <= room);
    float *to = fits ? malloc((size_t)n * 4 + 1) : NULL;
    if (to && from)
        memcpy(to, from, bytes);
    fits = fits && (from || !to || copy_floats(t, to, n) == n);
    if (to && fits && !q->turned[tensor])
        return to;
    float *turned = to && fits ? malloc((size_t)n * 4 + 1) : NULL;
    for (int64_t i = 0; turned && i < n; i++)
        turned[i] = to[i % t->dims[1] * t->dims[0] + i / t->dims[1]];
    free(to);
    if (turned)
        return turned;
    *code = fits ? tool_error(q->o, EXIT_ENVIRONMENT, "no memory")
                 : tool_error(q->o, EXIT_DATA, "%s: '%s' has not as many elements as its shape says", q->path, t->name);
    return NULL;
}
