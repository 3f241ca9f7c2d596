/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model's graph for --tensorboard: a GraphDef (tensorflow/core/framework/graph.proto) of an ONNX file's nodes, each
 * called as its first result, whose slashes are the scopes that a viewer folds. Inputs are Placeholders, weights
 * Variables. Operators are ONNX's: viewers draw what they don't know, too.
 */
#include "tools/quant/quant_int.h"
#include "tools/train/train_int.h"

#include "base/wire.h"

#include <string.h>

/* Field numbers of graph.proto, node_def.proto and versions.proto. */
enum { GRAPH_NODE = 1, GRAPH_VERSIONS = 4, VERSIONS_PRODUCER = 1, PRODUCER = 1 };
enum { NODE_NAME = 1, NODE_OP = 2, NODE_INPUT = 3 };

static const char *shown_name(const struct quant *q, int value)
{
    const char *name = quant_value_name(q, value);
    return name + strspn(name, "/");
}

/* What a node reads: a node's name, of results but the first with ":K". */
static const char *source_of(const struct quant *q, int value)
{
    const struct quant_value *v = &q->values[value];
    int k = 0;
    if (v->producer < 0)
        return shown_name(q, value);
    const struct quant_node *n = &q->nodes[v->producer];
    while (n->out[k] != value)
        k++;
    return k ? ir_internf(q->ctx, "%s:%d", shown_name(q, n->out[0]), k) : shown_name(q, value);
}

static void put_head(struct wire_buffer *node, const char *name, const char *op)
{
    wire_put_text(node, NODE_NAME, name);
    wire_put_text(node, NODE_OP, op);
}

static void put_graph(const struct quant *q, struct wire_buffer *graph)
{
    struct wire_buffer versions = {0};

    for (int i = 0; i < q->nvalues; i++) {
        struct wire_buffer node = {0};
        if (q->values[i].producer >= 0 || (!q->values[i].uses && q->values[i].tensor < 0))
            continue;
        put_head(&node, shown_name(q, i), q->values[i].tensor < 0 ? "Placeholder" : "Variable");
        wire_put_message(graph, GRAPH_NODE, &node);
    }
    for (int i = 0; i < q->nnodes; i++) {
        const struct quant_node *n = &q->nodes[i];
        struct wire_buffer node = {0};
        if (!n->nout || n->out[0] < 0)
            continue;
        put_head(&node, shown_name(q, n->out[0]), n->op);
        for (int k = 0; k < n->nin; k++)
            if (n->in[k] >= 0)
                wire_put_text(&node, NODE_INPUT, source_of(q, n->in[k]));
        wire_put_message(graph, GRAPH_NODE, &node);
    }
    wire_put_number(&versions, VERSIONS_PRODUCER, PRODUCER);
    wire_put_message(graph, GRAPH_VERSIONS, &versions);
}

int train_events_graph(const struct options *o, struct wire_buffer *graph)
{
    struct quant q = {.o = o, .path = o->words[0]};
    const char *dot = strrchr(q.path, '.');
    struct ir_protect frame;
    volatile int code = EXIT_ENVIRONMENT;

    if (!dot || strcmp(dot, ".onnx"))
        return EXIT_FINE;
    q.ctx = ir_ctx_new();
    if (q.ctx && IR_PROTECT(q.ctx, &frame)) {
        code = quant_open(&q);
        if (code == EXIT_FINE)
            put_graph(&q, graph);
        ir_unprotect(q.ctx);
    } else {
        code = tool_error(o, EXIT_ENVIRONMENT, "no memory");
    }
    quant_close(&q);
    ir_ctx_free(q.ctx);
    return code;
}
