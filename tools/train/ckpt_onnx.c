/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trained weights back into an ONNX model. The file's wire format (protobuf:
 * https://protobuf.dev/programming-guides/encoding) is copied record by record; only initialisers of the graph that
 * have a trained value are written anew, as raw data, or, where the model keeps them in another file, into
 * OUT.onnx.data. So everything else in the model stays bit for bit, whatever its version. The result is written beside
 * the output and renamed.
 */
#include "tools/train/ckpt_tool_int.h"

#include "tools/onnx/onnx_file_int.h"

#include <libgen.h>
#include <stdlib.h>
#include <string.h>

struct export
{
    const struct options *o;
    const struct tensors *t;
    const char *model, *output;
    struct onnx_pieces graph;
    struct onnx_external external; /* what goes to OUT.onnx.data */
    struct onnx_files files;       /* the model's own external data */
    int replaced;
};

/* The trained value, in the model's element type, in memory of its own. NULL: there is none, or an error (*code). */
static void *trained(struct export *e, const struct onnx_tensor *t, size_t *bytes, int *code)
{
    char full[1100];
    snprintf(full, sizeof full, "master.%s", t->name);
    const struct tccrt_named *x = tccrt_tensors_parameter(e->t->n, e->t->at, t->name),
                             *master = tccrt_tensors_parameter(e->t->n, e->t->at, full);
    size_t size = t->dtype ? (size_t)tcc_dtype_bytes(t->dtype) : 0, from;

    if (!x || !*t->name || !size || !tcc_is_float(t->dtype) || t->big)
        return NULL;
    if (x->t.rank != t->rank || memcmp(x->t.dims, t->dims, (size_t)t->rank * sizeof *t->dims) ||
        !tcc_is_float((enum tcc_dtype)x->t.dtype)) {
        *code = tool_error(e->o, EXIT_DATA, "%s: initialiser '%s' has another shape or type than in the checkpoint",
                           e->model, t->name);
        return NULL;
    }
    if (master && master->t.rank == t->rank && !memcmp(master->t.dims, t->dims, (size_t)t->rank * sizeof *t->dims))
        x = master; /* the precise one of bf16-master */
    int64_t n = tcc_elements(t->rank, t->dims);
    char *data = malloc((size_t)n * size + 1);
    if (!data) {
        *code = tool_error(e->o, EXIT_ENVIRONMENT, "no memory");
        return NULL;
    }
    from = (size_t)tcc_dtype_bytes((enum tcc_dtype)x->t.dtype);
    *bytes = (size_t)n * size;
    if (x->t.dtype == (int)t->dtype)
        memcpy(data, x->t.data, *bytes);
    for (int64_t i = 0; x->t.dtype != (int)t->dtype && i < n; i++) {
        uint64_t v = 0;
        memcpy(&v, (const char *)x->t.data + (size_t)i * from, from);
        tcc_store_f64(t->dtype, data + (size_t)i * size, tcc_load_f64((enum tcc_dtype)x->t.dtype, &v));
    }
    e->replaced++;
    return data;
}

/* The initialiser as it is, but for its elements. */
static int put_tensor(struct export *e, const struct wire_record *message)
{
    struct onnx_tensor t;
    size_t bytes = 0;
    int code = EXIT_FINE;

    if (!onnx_tensor_read(message, &t))
        return tool_error(e->o, EXIT_DATA, "%s: malformed: an initialiser's record ends early", e->model);
    void *own = trained(e, &t, &bytes, &code);
    const void *data = own;
    if (code == EXIT_FINE && !own && t.external)
        data = onnx_original(e->o, e->model, &e->files, &t, &bytes, &code);
    if (code != EXIT_FINE)
        return code;
    if (!data) {
        onnx_put_record(&e->graph, message);
        return EXIT_FINE;
    }
    onnx_put_tensor(&e->graph, &e->external, &t, data, bytes, own != NULL);
    return EXIT_FINE;
}

static int put_graph(struct export *e, const struct wire_record *graph)
{
    const unsigned char *at = graph->payload;
    struct wire_record r;
    int code = EXIT_FINE;

    while (code == EXIT_FINE && at < graph->end) {
        if (wire_read_record(&at, graph->end, &r))
            return tool_error(e->o, EXIT_DATA, "%s: malformed: a record of the graph ends early", e->model);
        if (r.number == ONNX_GRAPH_INITIALIZER && r.wire == WIRE_BYTES)
            code = put_tensor(e, &r);
        else
            onnx_put_record(&e->graph, &r);
    }
    return code;
}

int onnx_export(const struct options *o, const struct tensors *t, const char *model, const char *output, int *replaced)
{
    struct export e = {.o = o, .t = t, .model = model, .output = output, .external.model = output};
    struct onnx_pieces before = {0}, behind = {0};
    struct wire_record graph;
    char error[ERROR_SIZE];
    struct data_file *in = data_map(model, error);

    if (!in)
        return tool_error(o, data_map_code(), "%s", error);
    int code = onnx_find_graph(o, model, in, &graph);
    if (code == EXIT_FINE)
        code = put_graph(&e, &graph);
    if (code == EXIT_FINE && !e.replaced)
        code = tool_error(o, EXIT_DATA, "%s: no initialiser has a name that is in the checkpoint", model);
    if (code == EXIT_FINE) {
        onnx_put(&before, in->bytes, (size_t)(graph.start - in->bytes), false);
        onnx_put(&behind, graph.end, (size_t)(in->bytes + in->size - graph.end), false);
        code = onnx_write_model(o, &(struct onnx_parts){&before, &e.graph, &behind}, &e.external);
    }
    *replaced = e.replaced;
    onnx_free(&before);
    onnx_free(&behind);
    onnx_free(&e.graph);
    onnx_free(&e.external.pieces);
    onnx_files_close(&e.files);
    data_unref(in);
    return code;
}
