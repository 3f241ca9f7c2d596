/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of an ONNX file that is to be written (protobuf: https://protobuf.dev/programming-guides/encoding): a list of
 * pieces of memory, most of which lie in the mapped file that they were read from.
 */
#include "base/grow.h"
#include "tools/onnx/onnx_file_int.h"

#include "base/safe.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

void onnx_put(struct onnx_pieces *p, const void *at, size_t n, bool owned)
{
    if (!GROWN(p->at, p->n, p->room, 256)) {
        p->failed = true;
        if (owned)
            free((void *)(uintptr_t)at);
        return;
    }
    p->at[p->n++] = (struct onnx_piece){at, n, owned};
    p->bytes += n;
}

void onnx_put_record(struct onnx_pieces *p, const struct wire_record *r)
{
    onnx_put(p, r->start, (size_t)(r->end - r->start), false);
}

/* A key and a number. */
static void put_pair(struct onnx_pieces *p, int field, int wire, uint64_t value)
{
    unsigned char *head = malloc(24);
    if (!head) {
        p->failed = true;
        return;
    }
    size_t n = wire_write_number(head, (uint64_t)field << 3 | (uint64_t)wire);
    n += wire_write_number(head + n, value);
    onnx_put(p, head, n, true);
}

void onnx_put_head(struct onnx_pieces *p, int field, uint64_t size)
{
    put_pair(p, field, WIRE_BYTES, size);
}

void onnx_put_number(struct onnx_pieces *p, int field, uint64_t value)
{
    put_pair(p, field, WIRE_VARINT, value);
}

void onnx_put_text(struct onnx_pieces *p, int field, const char *text)
{
    size_t n = strlen(text);
    char *copy = strdup(text);
    if (!copy) {
        p->failed = true;
        return;
    }
    onnx_put_head(p, field, n);
    onnx_put(p, copy, n, true);
}

void onnx_move(struct onnx_pieces *to, struct onnx_pieces *from)
{
    for (int i = 0; i < from->n; i++)
        onnx_put(to, from->at[i].at, from->at[i].n, from->at[i].owned);
    to->failed |= from->failed;
    free(from->at);
    *from = (struct onnx_pieces){0};
}

void onnx_put_body(struct onnx_pieces *p, int field, struct onnx_pieces *body)
{
    onnx_put_head(p, field, body->bytes);
    onnx_move(p, body);
}

void onnx_free(struct onnx_pieces *p)
{
    for (int i = 0; i < p->n; i++)
        if (p->at[i].owned)
            free((void *)(uintptr_t)p->at[i].at);
    free(p->at);
    *p = (struct onnx_pieces){0};
}

static int write_file(const struct options *o, const char *path, const struct onnx_pieces *p)
{
    struct tcr_save save;
    bool open = !tcr_save_open(&save, path, TCR_SAVE_STREAM | TCR_SAVE_SYNC);

    for (int i = 0; open && i < p->n; i++)
        fwrite(p->at[i].at, 1, p->at[i].n, save.stream);
    if (open && !tcr_save_commit(&save))
        return EXIT_FINE;
    return tool_error(o, EXIT_ENVIRONMENT, "cannot write '%s': %m", path);
}

int onnx_write_model(const struct options *o, const struct onnx_parts *parts, const struct onnx_external *external)
{
    const struct onnx_pieces *const list[] = {parts->before, parts->graph, parts->behind};
    struct onnx_pieces model = {.failed = external->pieces.failed};
    char path[PATH_MAX];
    int code = EXIT_FINE;

    for (int k = 0; k < 3; k++) {
        if (k == 1)
            onnx_put_head(&model, ONNX_MODEL_GRAPH, parts->graph->bytes);
        for (int i = 0; i < list[k]->n; i++)
            onnx_put(&model, list[k]->at[i].at, list[k]->at[i].n, false);
        model.failed |= list[k]->failed;
    }
    if (model.failed)
        code = tool_error(o, EXIT_ENVIRONMENT, "no memory");
    else if (model.bytes > INT32_MAX)
        code = tool_error(o, EXIT_DATA,
                          "%s: more than 2 GiB, which no ONNX file may have; keep its weights in external data",
                          external->model);
    if (code == EXIT_FINE && external->pieces.n) {
        snprintf(path, sizeof path, "%s.data", external->model);
        code = write_file(o, path, &external->pieces);
    }
    if (code == EXIT_FINE)
        code = write_file(o, external->model, &model);
    onnx_free(&model);
    return code;
}

bool onnx_is(const struct wire_record *r, const char *text)
{
    return r->wire == WIRE_BYTES && r->value == strlen(text) && !memcmp(r->payload, text, r->value);
}

int onnx_find_graph(const struct options *o, const char *path, const struct data_file *file, struct wire_record *graph)
{
    const unsigned char *at = file->bytes, *end = file->bytes + file->size;
    struct wire_record r;

    *graph = (struct wire_record){0};
    while (at < end) {
        if (wire_read_record(&at, end, &r))
            return tool_error(o, EXIT_DATA, "%s: not an ONNX model", path);
        if (r.number == ONNX_MODEL_GRAPH && r.wire == WIRE_BYTES)
            *graph = r;
    }
    return graph->start ? EXIT_FINE : tool_error(o, EXIT_DATA, "%s: not an ONNX model: it has no graph", path);
}
