/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The quantised model. The graph's records are copied, but for nodes that read other values than before, and constants
 * that nobody reads any more; new nodes stand before the first that reads what they make.
 */
#include "tools/quant/quant_int.h"

#include <stdlib.h>
#include <string.h>

enum { ATTRIBUTE_INT = 2 };
enum { DYNAMIC_IR = 4, FP8_IR = 9, INT4_IR = 10 }; /* versions of the format that first knew such elements */
enum { MICROSOFT_OPSET = 1 };

const char *quant_value_name(const struct quant *q, int value)
{
    return value >= 0 ? q->values[value].name : "";
}

const char *quant_name(struct quant *q, const char *base, const char *suffix)
{
    const char *name = ir_internf(q->ctx, "%s%s", base, suffix);
    int i = 0;

    while (i < q->nvalues && q->values[i].name != name)
        i++;
    return i == q->nvalues ? name : quant_name(q, name, "_");
}

const char *quant_result(const struct quant_out *w, int value)
{
    const char *name = quant_value_name(w->q, value);
    return w->switches ? quant_name(w->q, name, "_beside") : name;
}

void quant_put_node(struct quant_out *w, const char *domain, const char *op, const char *const *in,
                    const char *const *out, const struct quant_attr *attrs)
{
    struct onnx_pieces body = {0};

    for (; *in; in++)
        onnx_put_text(&body, ONNX_NODE_INPUT, *in);
    onnx_put_text(&body, ONNX_NODE_NAME, quant_name(w->q, *out, "_node"));
    for (; *out; out++)
        onnx_put_text(&body, ONNX_NODE_OUTPUT, *out);
    onnx_put_text(&body, ONNX_NODE_OP, op);
    if (*domain)
        onnx_put_text(&body, ONNX_NODE_DOMAIN, domain);
    for (; attrs && attrs->name; attrs++) {
        struct onnx_pieces attr = {0};
        onnx_put_text(&attr, ONNX_ATTR_NAME, attrs->name);
        onnx_put_number(&attr, ONNX_ATTR_I, (uint64_t)attrs->i);
        onnx_put_number(&attr, ONNX_ATTR_TYPE, ATTRIBUTE_INT);
        onnx_put_body(&body, ONNX_NODE_ATTRIBUTE, &attr);
    }
    w->microsoft |= *domain != '\0';
    onnx_put_body(&w->nodes, ONNX_GRAPH_NODE, &body);
}

static bool of_four_bits(enum tcc_dtype dtype)
{
    return dtype == TCC_U4 || dtype == TCC_I4;
}

const char *quant_put_tensor(struct quant_out *w, const char *name, enum tcc_dtype dtype, int rank, const int64_t *dims,
                             const void *data)
{
    struct onnx_pieces body = {0};
    int64_t n = tcc_elements(rank, dims);
    size_t bytes = of_four_bits(dtype) ? (size_t)(n + 1) / 2 : (size_t)(n * tcc_dtype_bytes(dtype));
    void *copy = malloc(bytes + 1);

    for (int i = 0; i < rank; i++)
        onnx_put_number(&body, ONNX_TENSOR_DIMS, (uint64_t)dims[i]);
    onnx_put_number(&body, ONNX_TENSOR_TYPE, (uint64_t)dtype);
    onnx_put_text(&body, ONNX_TENSOR_NAME, name);
    onnx_put_head(&body, ONNX_TENSOR_RAW, bytes);
    if (copy)
        memcpy(copy, data, bytes);
    else
        w->tensors.failed = true;
    onnx_put(&body, copy, copy ? bytes : 0, true);
    onnx_put_body(&w->tensors, ONNX_GRAPH_INITIALIZER, &body);
    w->ir = of_four_bits(dtype) ? INT4_IR : dtype == TCC_F8E4M3FN && w->ir < FP8_IR ? FP8_IR : w->ir;
    return name;
}

/* out: its result's name; NULL: those that it has. */
static void put_copy(struct quant_out *w, const struct quant_node *n, const char *const *in, const char *out)
{
    struct onnx_pieces body = {0};
    struct wire_record r = {0};

    if (out)
        onnx_put_text(&body, ONNX_NODE_OUTPUT, out);
    for (int i = 0; i < n->nin; i++)
        onnx_put_text(&body, ONNX_NODE_INPUT, in[i]);
    while (wire_next(&r, n->record.payload, n->record.end))
        if (r.number != ONNX_NODE_INPUT && !(out && (r.number == ONNX_NODE_OUTPUT || r.number == ONNX_NODE_NAME)))
            onnx_put_record(&body, &r);
    onnx_put_body(&w->nodes, ONNX_GRAPH_NODE, &body);
}

void quant_put_copy(struct quant_out *w, const struct quant_node *n, const char *const *in)
{
    put_copy(w, n, in, w->switches ? quant_result(w, n->out[0]) : NULL);
}

/* -- The graph ------------------------------------------------------------------------------------------------ */

static bool unread(const struct quant_out *w, int value)
{
    const struct quant_value *v = &w->q->values[value];
    return v->tensor >= 0 && w->replaced[value] && w->replaced[value] == v->uses && !v->captured && !v->output;
}

/* What will be read no more: a weight whose users are all quantised, a bias that goes with them. */
static void count_replaced(struct quant_out *w)
{
    struct quant *q = w->q;

    for (int i = 0; i < q->nnodes; i++) {
        const struct quant_node *n = &q->nodes[i];
        if (!n->chosen || n->excluded)
            continue;
        w->replaced[n->in[1]]++;
        if (q->mode == QUANT_STATIC && quant_bias_fits(q, n))
            w->replaced[n->in[2]]++;
    }
    for (int i = 0; i < q->nnodes; i++) { /* a Transpose that made such a weight */
        const struct quant_node *n = &q->nodes[i];
        if (n->nin == 1 && n->in[0] >= 0 && n->nout == 1 && n->out[0] >= 0 && unread(w, n->out[0]))
            w->replaced[n->in[0]]++;
    }
}

static void (*const by_mode[])(struct quant_out *, int) = {
    [QUANT_STATIC] = quant_put_qdq,     [QUANT_DYNAMIC] = quant_put_dynamic, [QUANT_WEIGHT8] = quant_put_qdq,
    [QUANT_WEIGHT4] = quant_put_blocks, [QUANT_FP8] = quant_put_qdq,
};

/* out = plain + on (bytes - plain). */
static void put_choice(struct quant_out *w, const char *plain, const char *bytes, const char *on, const char *out)
{
    const char *more = quant_name(w->q, out, "_difference"), *counts = quant_name(w->q, out, "_counted");

    quant_put_node(w, "", "Sub", (const char *[]){bytes, plain, NULL}, (const char *[]){more, NULL}, NULL);
    quant_put_node(w, "", "Mul", (const char *[]){more, on, NULL}, (const char *[]){counts, NULL}, NULL);
    quant_put_node(w, "", "Add", (const char *[]){plain, counts, NULL}, (const char *[]){out, NULL}, NULL);
}

/* A value that all nodes read in 8 bits, where its maker and the chosen nodes that read it are quantised. */
static const char *put_whole(struct quant_out *w, int value)
{
    struct quant *q = w->q;
    const char *name = quant_value_name(q, value), *bytes = quant_dequantized(w, value);
    const char *on = w->on[w->whole[value] - 1];

    if (w->made[1][value])
        return w->made[1][value];
    for (int i = 0; i < q->nnodes; i++) {
        if (!quant_used(&q->nodes[i]) || q->nodes[i].in[0] != value)
            continue;
        const char *both = quant_name(q, ir_internf(q->ctx, "%s_%d", name, i), "_on");
        quant_put_node(w, "", "Mul", (const char *[]){on, w->on[i], NULL}, (const char *[]){both, NULL}, NULL);
        on = both;
    }
    put_choice(w, name, bytes, on, w->made[1][value] = quant_name(q, name, "_switched"));
    return w->made[1][value];
}

static void put_node(struct quant_out *w, int node)
{
    struct quant *q = w->q;
    const struct quant_node *n = &q->nodes[node];
    bool other = false;

    if (n->chosen && !n->excluded) {
        by_mode[q->mode](w, node);
        return;
    }
    if (n->nout == 1 && n->out[0] >= 0 && unread(w, n->out[0]))
        return; /* the Constant, or the Transpose, that was a weight */
    const char **in = IR_NEWN(q->ctx, n->nin + 1, const char *);
    for (int i = 0; i < n->nin; i++) {
        bool whole = n->in[i] >= 0 && w->whole[n->in[i]];
        in[i] = !whole        ? quant_value_name(q, n->in[i])
                : w->switches ? put_whole(w, n->in[i])
                              : quant_dequantized(w, n->in[i]);
        other |= whole;
    }
    if (other)
        put_copy(w, n, in, NULL);
    else
        onnx_put_record(&w->nodes, &n->record);
}

/* The name that a record of a value or a tensor has; -1: none that is known. */
static int named(struct quant *q, const struct wire_record *record, uint32_t field)
{
    struct wire_record r = {0};

    while (wire_next(&r, record->payload, record->end)) {
        if (r.number != field || r.wire != WIRE_BYTES)
            continue;
        const char *name = quant_text(q, &r);
        for (int i = 0; i < q->nvalues; i++)
            if (q->values[i].name == name)
                return i;
    }
    return -1;
}

/* An initialiser as it is; one in another file goes to the new model's. */
static int put_initialiser(struct quant *q, struct onnx_pieces *to, struct onnx_external *x,
                           const struct wire_record *r)
{
    struct onnx_tensor t;
    size_t bytes;
    int code = EXIT_FINE;

    if (!onnx_tensor_read(r, &t) || !t.external) {
        onnx_put_record(to, r);
        return EXIT_FINE;
    }
    const void *data = onnx_original(q->o, q->path, &q->files, &t, &bytes, &code);
    if (data)
        onnx_put_tensor(to, x, &t, data, bytes, false);
    return code;
}

/* All but the nodes. w NULL: everything is kept. */
static int put_rest(struct quant *q, struct quant_out *w, struct onnx_pieces *to, struct onnx_external *x)
{
    int code = EXIT_FINE;
    struct wire_record r;

    for (const unsigned char *at = q->graph.payload; at < q->graph.end && code == EXIT_FINE;) {
        if (wire_read_record(&at, q->graph.end, &r))
            break;
        bool tensor = r.number == ONNX_GRAPH_INITIALIZER, value = r.number == ONNX_GRAPH_INPUT;
        int v = w && (tensor || value) ? named(q, &r, tensor ? ONNX_TENSOR_NAME : ONNX_VALUE_NAME) : -1;
        if ((w && r.number == ONNX_GRAPH_NODE) || (v >= 0 && unread(w, v)))
            continue;
        if (tensor)
            code = put_initialiser(q, to, x, &r);
        else
            onnx_put_record(to, &r);
    }
    return code;
}

/* -- The file ------------------------------------------------------------------------------------------------- */

/* The model's own fields, with the version and the opset that the new nodes need. */
static void put_model(const struct quant *q, const struct quant_out *w, struct onnx_pieces *before,
                      struct onnx_pieces *behind)
{
    const unsigned char *at = q->file->bytes, *end = at + q->file->size;
    struct wire_record r;
    int64_t ir = w && w->ir > q->ir ? w->ir : q->ir;

    onnx_put_number(before, ONNX_MODEL_IR, (uint64_t)ir);
    while (at < end && !wire_read_record(&at, end, &r))
        if (r.number != ONNX_MODEL_GRAPH && r.number != ONNX_MODEL_IR)
            onnx_put_record(r.start < q->graph.start ? before : behind, &r);
    if (w && w->microsoft && !q->microsoft) {
        struct onnx_pieces opset = {0};
        onnx_put_text(&opset, ONNX_OPSET_DOMAIN, "com.microsoft");
        onnx_put_number(&opset, ONNX_OPSET_VERSION, MICROSOFT_OPSET);
        onnx_put_body(behind, ONNX_MODEL_OPSET, &opset);
    }
}

static int write_model(const struct quant *q, const struct quant_out *w, const struct onnx_pieces *graph,
                       const struct onnx_external *x)
{
    struct onnx_pieces before = {0}, behind = {0};

    put_model(q, w, &before, &behind);
    int code = onnx_write_model(q->o, &(struct onnx_parts){&before, graph, &behind}, x);
    onnx_free(&before);
    onnx_free(&behind);
    return code;
}

static struct quant_out out_new(struct quant *q, const char *path)
{
    struct quant_out w = {.q = q, .ir = DYNAMIC_IR, .external.model = path};

    for (int i = 0; i < 3; i++)
        w.made[i] = IR_NEWN(q->ctx, q->nvalues + 1, const char *);
    w.whole = IR_NEWN(q->ctx, q->nvalues + 1, int);
    w.replaced = IR_NEWN(q->ctx, q->nvalues + 1, int);
    return w;
}

/* The graph's other fields, then the new tensors and nodes. */
static int finish(struct quant_out *w, struct onnx_pieces *graph, int code)
{
    onnx_move(graph, &w->tensors);
    onnx_move(graph, &w->nodes);
    if (code == EXIT_FINE)
        code = write_model(w->q, w, graph, &w->external);
    onnx_free(graph);
    onnx_free(&w->external.pieces);
    return code;
}

int quant_write(struct quant *q, const char *path)
{
    struct quant_out w = out_new(q, path);
    struct onnx_pieces graph = {0};

    if (q->mode == QUANT_STATIC || q->mode == QUANT_FP8)
        quant_want_static(q, w.whole);
    count_replaced(&w);
    for (int i = 0; i < q->nnodes && w.code == EXIT_FINE; i++)
        put_node(&w, i);
    int code = w.code == EXIT_FINE ? put_rest(q, &w, &graph, &w.external) : w.code;
    return finish(&w, &graph, code);
}

static void put_output(struct onnx_pieces *graph, const char *name)
{
    struct onnx_pieces info = {0};

    onnx_put_text(&info, ONNX_VALUE_NAME, name);
    onnx_put_body(graph, ONNX_GRAPH_OUTPUT, &info);
}

/* The input of the switches, n numbers, and an element of it for each used node. */
static void put_switches(struct quant_out *w, struct onnx_pieces *graph, int64_t n)
{
    struct quant *q = w->q;
    struct onnx_pieces dim = {0}, shape = {0}, tensor = {0}, type = {0}, info = {0};
    const float *zeros = IR_NEWN(q->ctx, (size_t)n + 1, float);
    int64_t k = 0;

    w->on = IR_NEWN(q->ctx, q->nnodes + 1, const char *);
    w->switches = quant_put_tensor(w, QUANT_SWITCHES, TCC_F32, 1, &n, zeros);
    onnx_put_number(&dim, ONNX_DIM_VALUE, (uint64_t)n);
    onnx_put_body(&shape, ONNX_SHAPE_DIM, &dim);
    onnx_put_number(&tensor, ONNX_TENSOR_TYPE_ELEM, TCC_F32);
    onnx_put_body(&tensor, ONNX_TENSOR_TYPE_SHAPE, &shape);
    onnx_put_body(&type, ONNX_TYPE_TENSOR, &tensor);
    onnx_put_text(&info, ONNX_VALUE_NAME, w->switches);
    onnx_put_body(&info, ONNX_VALUE_TYPE, &type);
    onnx_put_body(graph, ONNX_GRAPH_INPUT, &info);
    for (int i = 0; i < q->nnodes; i++) {
        if (!quant_used(&q->nodes[i]))
            continue;
        const char *at = quant_put_tensor(w, ir_internf(q->ctx, QUANT_SWITCHES "_%d", i), TCC_I64, 0, NULL, &k);
        w->on[i] = quant_name(q, at, "_on");
        quant_put_node(w, "", "Gather", (const char *[]){w->switches, at, NULL}, (const char *[]){w->on[i], NULL},
                       NULL);
        k++;
    }
}

int quant_write_switched(struct quant *q, const char *path)
{
    struct quant_out w = out_new(q, path);
    struct onnx_pieces graph = {0};

    put_switches(&w, &graph, quant_chosen(q));
    if (q->mode == QUANT_STATIC || q->mode == QUANT_FP8)
        quant_want_static(q, w.whole);
    for (int i = 0; i < q->nnodes && w.code == EXIT_FINE; i++) {
        const struct quant_node *n = &q->nodes[i];
        put_node(&w, i);
        if (!quant_used(n))
            continue;
        const char *y = quant_value_name(q, n->out[0]), *plain = quant_name(q, y, "_plain");
        const char **in = IR_NEWN(q->ctx, n->nin + 1, const char *);
        for (int k = 0; k < n->nin; k++)
            in[k] = quant_value_name(q, n->in[k]);
        put_copy(&w, n, in, plain);
        put_choice(&w, plain, quant_result(&w, n->out[0]), w.on[i], y);
    }
    int code = w.code == EXIT_FINE ? put_rest(q, &w, &graph, &w.external) : w.code;
    return finish(&w, &graph, code);
}

int quant_write_observed(struct quant *q, const char *path)
{
    struct onnx_external x = {.model = path};
    struct onnx_pieces graph = {0};
    int code = put_rest(q, NULL, &graph, &x);

    for (int i = 0; i < q->nvalues; i++)
        if (q->values[i].wanted && !q->values[i].input && !q->values[i].output)
            put_output(&graph, q->values[i].name);
    if (code == EXIT_FINE)
        code = write_model(q, NULL, &graph, &x);
    onnx_free(&graph);
    onnx_free(&x.pieces);
    return code;
}
