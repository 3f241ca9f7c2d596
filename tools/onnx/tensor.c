/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of an ONNX file: what their records say, and elements that lie in other files. */
#include "tools/onnx/onnx_file_int.h"

#include "base/safe.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static void add_dim(struct onnx_tensor *t, uint64_t v)
{
    if (t->rank < TCC_MAX_RANK)
        t->dims[t->rank++] = (int64_t)v;
    else
        t->big = true;
}

static bool read_external(struct onnx_tensor *t, const struct wire_record *entry)
{
    char key[32] = "", value[512] = "";
    struct wire_record r = {0};

    while (wire_next(&r, entry->payload, entry->end)) {
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
    return wire_whole(&r);
}

bool onnx_tensor_read(const struct wire_record *message, struct onnx_tensor *t)
{
    struct wire_record r = {0};
    uint64_t v;

    *t = (struct onnx_tensor){.dtype = TCC_NONE, .record = *message};
    while (wire_next(&r, message->payload, message->end)) {
        if (r.number == ONNX_TENSOR_DIMS && r.wire == WIRE_VARINT)
            add_dim(t, r.value);
        for (const unsigned char *d = r.payload; r.number == ONNX_TENSOR_DIMS && r.wire == WIRE_BYTES && d < r.end;) {
            if (!wire_read_number(&d, r.end, &v))
                return false;
            add_dim(t, v);
        }
        if (r.number == ONNX_TENSOR_TYPE && r.wire == WIRE_VARINT)
            t->dtype = r.value < TCC_NDTYPES ? (enum tcc_dtype)r.value : TCC_NONE;
        if (r.number == ONNX_TENSOR_LOCATION && r.wire == WIRE_VARINT)
            t->external = r.value == 1;
        if (r.number == ONNX_TENSOR_NAME && r.wire == WIRE_BYTES && r.value < sizeof t->name)
            memcpy(t->name, r.payload, r.value);
        if (r.number == ONNX_TENSOR_EXTERNAL && r.wire == WIRE_BYTES && !read_external(t, &r))
            return false;
    }
    return wire_whole(&r);
}

/* The bytes of the model's own external data. */
const void *onnx_original(const struct options *o, const char *model, struct onnx_files *f, const struct onnx_tensor *t,
                          size_t *bytes, int *code)
{
    char path[PATH_MAX], copy[PATH_MAX], error[ERROR_SIZE];
    int k = 0;

    snprintf(copy, sizeof copy, "%s", model);
    char *real = tcr_path_below(dirname(copy), t->location);
    if (!real && errno != EPERM && errno != EXDEV) {
        *code = tool_error(o, data_map_code(), "cannot open '%s': %m", t->location);
        return NULL;
    }
    if (!real || snprintf(path, sizeof path, "%s", real) >= (int)sizeof path) {
        free(real);
        *code = tool_error(o, EXIT_DATA, "%s: '%s': its data lies outside the model's folder", model, t->name);
        return NULL;
    }
    free(real);
    while (k < f->n && strcmp(f->paths[k], path))
        k++;
    if (k == f->n) {
        if (k == 64 || !(f->files[k] = data_map(path, error)) || !(f->paths[k] = strdup(path))) {
            *code = tool_error(o, k == 64 ? EXIT_DATA : data_map_code(), "%s",
                               k == 64 ? "too many files of external data" : error);
            return NULL;
        }
        f->n++;
    }
    uint64_t size = f->files[k]->size, length = t->has_length ? t->length : t->offset <= size ? size - t->offset : 0;
    if (t->offset > size || length > size - t->offset) {
        *code = tool_error(o, EXIT_DATA, "%s: truncated: '%s' lies behind its end", path, t->name);
        return NULL;
    }
    *bytes = (size_t)length;
    return f->files[k]->bytes + t->offset;
}

/* Adds the data to MODEL.data, and its place to a tensor's record. */
static void put_external(struct onnx_external *x, struct onnx_pieces *to, const void *data, size_t bytes, bool owned)
{
    static const char zeros[64];
    static const char *const keys[] = {"location", "offset", "length"};
    char base[PATH_MAX], values[3][PATH_MAX + 8];

    onnx_put(&x->pieces, zeros, (size_t)((64 - x->pieces.bytes % 64) % 64), false);
    snprintf(base, sizeof base, "%s", x->model);
    snprintf(values[0], sizeof values[0], "%s.data", basename(base));
    snprintf(values[1], sizeof values[1], "%llu", (unsigned long long)x->pieces.bytes);
    snprintf(values[2], sizeof values[2], "%zu", bytes);
    onnx_put(&x->pieces, data, bytes, owned);
    for (int i = 0; i < 3; i++) {
        struct onnx_pieces entry = {0};
        onnx_put_text(&entry, 1, keys[i]);
        onnx_put_text(&entry, 2, values[i]);
        onnx_put_body(to, ONNX_TENSOR_EXTERNAL, &entry);
    }
}

void onnx_files_close(struct onnx_files *f)
{
    for (int i = 0; i < f->n; i++) {
        data_unref(f->files[i]);
        free(f->paths[i]);
    }
    f->n = 0;
}

void onnx_put_tensor(struct onnx_pieces *graph, struct onnx_external *x, const struct onnx_tensor *t, const void *data,
                     size_t bytes, bool owned)
{
    struct onnx_pieces body = {0};
    struct wire_record r = {0};

    while (wire_next(&r, t->record.payload, t->record.end))
        if (r.number != ONNX_TENSOR_FLOATS && r.number != ONNX_TENSOR_INTS && r.number != ONNX_TENSOR_RAW &&
            r.number != ONNX_TENSOR_DOUBLES && r.number != ONNX_TENSOR_EXTERNAL)
            onnx_put_record(&body, &r);
    if (t->external) {
        put_external(x, &body, data, bytes, owned);
    } else {
        onnx_put_head(&body, ONNX_TENSOR_RAW, bytes);
        onnx_put(&body, data, bytes, owned);
    }
    onnx_put_body(graph, ONNX_GRAPH_INITIALIZER, &body);
}
