/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trained weights back into an ONNX model. The file's wire format (protobuf:
 * https://protobuf.dev/programming-guides/encoding) is copied record by record; only initialisers of the graph that
 * have a trained value are written anew, as raw data, or, where the model keeps them in another file, into
 * OUT.onnx.data. So everything else in the model stays bit for bit, whatever its version. The result is written beside
 * the output and renamed.
 */
#include "tools/train/ckpt_tool_int.h"

#include "base/safe.h"
#include "base/wire.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Fields of ModelProto, GraphProto, TensorProto and StringStringEntryProto (onnx.proto). */
enum { MODEL_GRAPH = 7, GRAPH_INITIALIZER = 5 };
enum {
    T_DIMS = 1,
    T_TYPE = 2,
    T_FLOATS = 4,
    T_INTS = 5,
    T_NAME = 8,
    T_RAW = 9,
    T_DOUBLES = 10,
    T_EXTERNAL = 13,
    T_LOCATION = 14
};

/* -- What is written ---------------------------------------------------------------------------------------- */

/* Pieces of the output in order; `owned` ones are freed. */
struct piece {
    const void *at;
    size_t n;
    bool owned;
};
struct pieces {
    struct piece *at;
    int n, room;
    uint64_t bytes;
    bool failed;
};

struct export
{
    const struct options *o;
    const struct tensors *t;
    const char *model, *output;
    struct pieces graph, external; /* external: what goes to OUT.onnx.data */
    struct data_file *files[64];   /* the model's own external data */
    char *paths[64];
    int nfiles, replaced;
};

static void put(struct pieces *p, const void *at, size_t n, bool owned)
{
    if (p->n == p->room) {
        int room = p->room ? 2 * p->room : 256;
        struct piece *grown = realloc(p->at, (size_t)room * sizeof *grown);
        if (!grown) {
            p->failed = true;
            if (owned)
                free((void *)(uintptr_t)at);
            return;
        }
        p->at = grown;
        p->room = room;
    }
    p->at[p->n++] = (struct piece){at, n, owned};
    p->bytes += n;
}

/* The head of a record of bytes: key and length. */
static void put_head(struct pieces *p, int field, uint64_t size)
{
    unsigned char *head = malloc(24);
    if (!head) {
        p->failed = true;
        return;
    }
    size_t n = wire_write_number(head, (uint64_t)field << 3 | WIRE_BYTES);
    n += wire_write_number(head + n, size);
    put(p, head, n, true);
}

static void free_pieces(struct pieces *p)
{
    for (int i = 0; i < p->n; i++)
        if (p->at[i].owned)
            free((void *)(uintptr_t)p->at[i].at);
    free(p->at);
}

/* -- Tensors -------------------------------------------------------------------------------------------------- */

struct tensor {
    char name[1024];
    int rank;
    int64_t dims[TCC_MAX_RANK];
    enum tcc_dtype dtype;
    bool external, big; /* big: more axes than we know */
    char location[512];
    uint64_t offset, length;
    bool has_length;
};

static void add_dim(struct tensor *t, uint64_t v)
{
    if (t->rank < TCC_MAX_RANK)
        t->dims[t->rank++] = (int64_t)v;
    else
        t->big = true;
}

static bool read_external(struct tensor *t, const struct wire_record *entry)
{
    const unsigned char *at = entry->payload;
    char key[32] = "", value[512] = "";
    struct wire_record r;

    while (at < entry->end) {
        if (wire_read_record(&at, entry->end, &r))
            return false;
        char *to = r.number == 1 ? key : value;
        size_t room = r.number == 1 ? sizeof key : sizeof value;
        if (r.wire == WIRE_BYTES && r.number <= 2 && r.value < room) {
            memcpy(to, r.payload, r.value);
            to[r.value] = '\0';
        }
    }
    if (strcmp(key, "location") == 0)
        snprintf(t->location, sizeof t->location, "%s", value);
    else if (strcmp(key, "offset") == 0)
        t->offset = strtoull(value, NULL, 10);
    else if (strcmp(key, "length") == 0) {
        t->length = strtoull(value, NULL, 10);
        t->has_length = true;
    }
    return true;
}

static bool read_tensor(const struct wire_record *message, struct tensor *t)
{
    const unsigned char *at = message->payload;
    struct wire_record r;
    uint64_t v;

    *t = (struct tensor){.dtype = TCC_NONE};
    while (at < message->end) {
        if (wire_read_record(&at, message->end, &r))
            return false;
        if (r.number == T_DIMS && r.wire == WIRE_VARINT)
            add_dim(t, r.value);
        for (const unsigned char *d = r.payload; r.number == T_DIMS && r.wire == WIRE_BYTES && d < r.end;) {
            if (!wire_read_number(&d, r.end, &v))
                return false;
            add_dim(t, v);
        }
        if (r.number == T_TYPE && r.wire == WIRE_VARINT)
            t->dtype = r.value < TCC_NDTYPES ? (enum tcc_dtype)r.value : TCC_NONE;
        if (r.number == T_LOCATION && r.wire == WIRE_VARINT)
            t->external = r.value == 1;
        if (r.number == T_NAME && r.wire == WIRE_BYTES && r.value < sizeof t->name)
            memcpy(t->name, r.payload, r.value);
        if (r.number == T_EXTERNAL && r.wire == WIRE_BYTES && !read_external(t, &r))
            return false;
    }
    return true;
}

/* The trained value, in the model's element type, in memory of its own. NULL: there is none, or an error (*code). */
static void *trained(struct export *e, const struct tensor *t, size_t *bytes, int *code)
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

/* The bytes of the model's own external data. */
static const void *original(struct export *e, const struct tensor *t, size_t *bytes, int *code)
{
    char path[PATH_MAX], copy[PATH_MAX], error[ERROR_SIZE];
    int k = 0;

    snprintf(copy, sizeof copy, "%s", e->model);
    char *real = tcr_path_below(dirname(copy), t->location);
    if (!real && errno != EPERM && errno != EXDEV) {
        *code = tool_error(e->o, data_map_code(), "cannot open '%s': %m", t->location);
        return NULL;
    }
    if (!real || snprintf(path, sizeof path, "%s", real) >= (int)sizeof path) {
        free(real);
        *code = tool_error(e->o, EXIT_DATA, "%s: '%s': its data lies outside the model's folder", e->model, t->name);
        return NULL;
    }
    free(real);
    while (k < e->nfiles && strcmp(e->paths[k], path))
        k++;
    if (k == e->nfiles) {
        if (k == 64 || !(e->files[k] = data_map(path, error)) || !(e->paths[k] = strdup(path))) {
            *code = tool_error(e->o, k == 64 ? EXIT_DATA : data_map_code(), "%s",
                               k == 64 ? "too many files of external data" : error);
            return NULL;
        }
        e->nfiles++;
    }
    uint64_t size = e->files[k]->size, length = t->has_length ? t->length : t->offset <= size ? size - t->offset : 0;
    if (t->offset > size || length > size - t->offset) {
        *code = tool_error(e->o, EXIT_DATA, "%s: truncated: '%s' lies behind its end", path, t->name);
        return NULL;
    }
    *bytes = (size_t)length;
    return e->files[k]->bytes + t->offset;
}

/* Adds the data to OUT.onnx.data and describes its place in `to`. */
static void put_external(struct export *e, struct pieces *to, const void *data, size_t bytes, bool owned)
{
    static const char zeros[64];
    static const char *const keys[] = {"location", "offset", "length"};
    char base[PATH_MAX], values[3][PATH_MAX + 8];

    put(&e->external, zeros, (size_t)((64 - e->external.bytes % 64) % 64), false);
    snprintf(base, sizeof base, "%s", e->output);
    snprintf(values[0], sizeof values[0], "%s.data", basename(base));
    snprintf(values[1], sizeof values[1], "%llu", (unsigned long long)e->external.bytes);
    snprintf(values[2], sizeof values[2], "%zu", bytes);
    put(&e->external, data, bytes, owned);
    for (int i = 0; i < 3; i++) {
        size_t key = strlen(keys[i]), value = strlen(values[i]), n = 0;
        unsigned char *entry = malloc(key + value + 24), head[12];
        if (!entry) {
            to->failed = true;
            return;
        }
        entry[n++] = 1 << 3 | WIRE_BYTES;
        n += wire_write_number(entry + n, key);
        memcpy(entry + n, keys[i], key);
        n += key;
        entry[n++] = 2 << 3 | WIRE_BYTES;
        size_t k = wire_write_number(head, value);
        memcpy(entry + n, head, k);
        memcpy(entry + n + k, values[i], value);
        n += k + value;
        put_head(to, T_EXTERNAL, n);
        put(to, entry, n, true);
    }
}

/* The initialiser as it is, but for its elements. */
static int put_tensor(struct export *e, const struct wire_record *message)
{
    struct tensor t;
    struct pieces body = {0};
    const unsigned char *at = message->payload;
    struct wire_record r;
    size_t bytes = 0;
    int code = EXIT_FINE;

    if (!read_tensor(message, &t))
        return tool_error(e->o, EXIT_DATA, "%s: malformed: an initialiser's record ends early", e->model);
    void *own = trained(e, &t, &bytes, &code);
    const void *data = own;
    if (code == EXIT_FINE && !own && t.external)
        data = original(e, &t, &bytes, &code);
    if (code != EXIT_FINE)
        return code;
    if (!data) {
        put(&e->graph, message->start, (size_t)(message->end - message->start), false);
        return EXIT_FINE;
    }
    while (at < message->end && !wire_read_record(&at, message->end, &r))
        if (r.number != T_FLOATS && r.number != T_INTS && r.number != T_RAW && r.number != T_DOUBLES &&
            r.number != T_EXTERNAL)
            put(&body, r.start, (size_t)(r.end - r.start), false);
    if (t.external) {
        put_external(e, &body, data, bytes, own != NULL);
    } else {
        put_head(&body, T_RAW, bytes);
        put(&body, data, bytes, own != NULL);
    }
    put_head(&e->graph, GRAPH_INITIALIZER, body.bytes);
    for (int i = 0; i < body.n; i++)
        put(&e->graph, body.at[i].at, body.at[i].n, body.at[i].owned);
    e->graph.failed |= body.failed;
    free(body.at);
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
        if (r.number == GRAPH_INITIALIZER && r.wire == WIRE_BYTES)
            code = put_tensor(e, &r);
        else
            put(&e->graph, r.start, (size_t)(r.end - r.start), false);
    }
    return code;
}

/* -- Files --------------------------------------------------------------------------------------------------- */

static int write_file(const struct export *e, const char *path, const struct pieces *p)
{
    struct tcr_save save;
    bool open = !tcr_save_open(&save, path, TCR_SAVE_STREAM | TCR_SAVE_SYNC);

    for (int i = 0; open && i < p->n; i++)
        fwrite(p->at[i].at, 1, p->at[i].n, save.stream);
    if (open && !tcr_save_commit(&save))
        return EXIT_FINE;
    return tool_error(e->o, EXIT_ENVIRONMENT, "cannot write '%s': %m", path);
}

static int write_model(struct export *e, const struct data_file *in, const struct wire_record *graph)
{
    struct pieces model = {0};
    char path[PATH_MAX];
    int code = EXIT_FINE;

    put(&model, in->bytes, (size_t)(graph->start - in->bytes), false);
    put_head(&model, MODEL_GRAPH, e->graph.bytes);
    uint64_t total = model.bytes + e->graph.bytes + (uint64_t)(in->bytes + in->size - graph->end);
    for (int i = 0; i < e->graph.n; i++)
        put(&model, e->graph.at[i].at, e->graph.at[i].n, false);
    put(&model, graph->end, (size_t)(in->bytes + in->size - graph->end), false);
    if (model.failed || e->graph.failed || e->external.failed)
        code = tool_error(e->o, EXIT_ENVIRONMENT, "no memory");
    else if (total > INT32_MAX)
        code = tool_error(e->o, EXIT_DATA,
                          "%s: more than 2 GiB, which no ONNX file may have; keep its weights in external data",
                          e->output);
    if (code == EXIT_FINE && e->external.n) {
        snprintf(path, sizeof path, "%s.data", e->output);
        code = write_file(e, path, &e->external);
    }
    if (code == EXIT_FINE)
        code = write_file(e, e->output, &model);
    free_pieces(&model);
    return code;
}

int onnx_export(const struct options *o, const struct tensors *t, const char *model, const char *output, int *replaced)
{
    struct export e = {.o = o, .t = t, .model = model, .output = output};
    struct wire_record r, graph = {0};
    char error[ERROR_SIZE];
    struct data_file *in = data_map(model, error);
    int code = EXIT_FINE;

    if (!in)
        return tool_error(o, data_map_code(), "%s", error);
    const unsigned char *at = in->bytes, *end = in->bytes + in->size;
    while (code == EXIT_FINE && at < end) {
        if (wire_read_record(&at, end, &r))
            code = tool_error(o, EXIT_DATA, "%s: not an ONNX model", model);
        else if (r.number == MODEL_GRAPH && r.wire == WIRE_BYTES)
            graph = r;
    }
    if (code == EXIT_FINE && !graph.start)
        code = tool_error(o, EXIT_DATA, "%s: not an ONNX model: it has no graph", model);
    if (code == EXIT_FINE)
        code = put_graph(&e, &graph);
    if (code == EXIT_FINE && !e.replaced)
        code = tool_error(o, EXIT_DATA, "%s: no initialiser has a name that is in the checkpoint", model);
    if (code == EXIT_FINE)
        code = write_model(&e, in, &graph);
    *replaced = e.replaced;
    free_pieces(&e.graph);
    free_pieces(&e.external);
    for (int i = 0; i < e.nfiles; i++) {
        data_unref(e.files[i]);
        free(e.paths[i]);
    }
    data_unref(in);
    return code;
}
