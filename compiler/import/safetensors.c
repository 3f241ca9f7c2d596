/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors of a safetensors file (https://huggingface.co/docs/safetensors): eight bytes, the length of a JSON header,
 * then the header, then the tensors' bytes. The run-time library has a reader for checkpoints; the compiler uses
 * nothing of it.
 */
#include "base/checkpoint.h"
#include "compiler/import/adapter.h"

#include <jansson.h>
#include <string.h>

#define MAX_HEADER ((uint64_t)100 << 20) /* as in the reference implementation */

static const struct {
    const char *name;
    enum tcc_dtype type;
} types[] = {{"F64", TCC_F64}, {"F32", TCC_F32}, {"F16", TCC_F16}, {"BF16", TCC_BF16},
             {"I64", TCC_I64}, {"I32", TCC_I32}, {"U8", TCC_U8},   {"I8", TCC_I8}};

struct reader {
    struct ir_ctx *ctx;
    const char *path;
    const uint8_t *bytes; /* behind the header */
    uint64_t nbytes;
    struct named_tensors *out;
};

static bool wrong(struct ir_ctx *ctx, const char *path, const char *what)
{
    return ir_error(ctx, &(struct ir_where){.file = path}, "%s", what);
}

static enum tcc_dtype type_named(const char *name)
{
    for (size_t i = 0; name && i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].name, name))
            return types[i].type;
    return TCC_NONE;
}

static bool read_dims(const json_t *shape, int *rank, int64_t *dims)
{
    *rank = (int)json_array_size(shape);
    if (!json_is_array(shape) || json_array_size(shape) > TCC_MAX_RANK)
        return false;
    for (int i = 0; i < *rank; i++) {
        const json_t *d = json_array_get(shape, (size_t)i);
        dims[i] = json_is_integer(d) ? json_integer_value(d) : -1;
        if (dims[i] < 0)
            return false;
    }
    return true;
}

/* Bytes first to last of the data. */
static bool read_range(const json_t *offsets, uint64_t nbytes, uint64_t *first, uint64_t *last)
{
    const json_t *a = json_array_get(offsets, 0), *b = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(a) || !json_is_integer(b) || json_integer_value(a) < 0 ||
        json_integer_value(b) < json_integer_value(a) || (uint64_t)json_integer_value(b) > nbytes)
        return false;
    *first = (uint64_t)json_integer_value(a);
    *last = (uint64_t)json_integer_value(b);
    return true;
}

static bool read_tensor(struct reader *r, const char *name, const json_t *entry)
{
    enum tcc_dtype type = type_named(json_string_value(json_object_get(entry, "dtype")));
    int64_t dims[TCC_MAX_RANK];
    uint64_t first, last;
    int rank;
    if (type == TCC_NONE || !read_dims(json_object_get(entry, "shape"), &rank, dims) ||
        !read_range(json_object_get(entry, "data_offsets"), r->nbytes, &first, &last))
        return wrong(r->ctx, r->path,
                     ir_internf(r->ctx, "the header's entry '%s' has no known type, shape or place in the file", name));
    uint64_t bytes = (uint64_t)tcc_dtype_bytes(type);
    for (int i = 0; i < rank; i++)
        if (__builtin_mul_overflow(bytes, (uint64_t)dims[i], &bytes))
            bytes = UINT64_MAX;
    if (bytes != last - first)
        return wrong(r->ctx, r->path, ir_internf(r->ctx, "the shape of '%s' is not that of its bytes", name));
    struct ir_tensor *t = ir_tensor_new(type, rank, dims);
    if (!t)
        ir_no_memory(r->ctx);
    ir_keep_tensor(r->ctx, t);
    if (bytes)
        memcpy((void *)(uintptr_t)t->data, r->bytes + first, bytes);
    VEC_PUSH(r->ctx, r->out->list, (struct named_tensor){ir_intern(r->ctx, name), t});
    return true;
}

static bool read_header(struct reader *r, json_t *root)
{
    const char *name;
    json_t *entry;
    json_object_foreach(root, name, entry)
    {
        if (strcmp(name, "__metadata__") && !read_tensor(r, name, entry))
            return false;
    }
    return true;
}

/* The header, an object; the bytes behind it are r's. NULL after a diagnostic. */
static json_t *open_header(struct reader *r, const uint8_t *data, uint64_t size)
{
    uint64_t length = 0;
    for (int i = 0; i < 8 && size >= 8; i++)
        length |= (uint64_t)data[i] << (8 * i);
    if (size < 8 || length > MAX_HEADER || length > size - 8)
        return wrong(r->ctx, r->path, "no safetensors file: it is shorter than its header"), NULL;
    json_error_t error;
    json_t *root = json_loadb((const char *)data + 8, length, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(root)) {
        wrong(r->ctx, r->path,
              root ? "its header is no JSON object"
                   : ir_internf(r->ctx, "no safetensors file: its header is no JSON: %s", error.text));
        json_decref(root);
        return NULL;
    }
    r->bytes = data + 8 + length;
    r->nbytes = size - 8 - length;
    return root;
}

/* The file, and its header; NULL after a diagnostic. */
static struct ir_file *open_file(struct reader *r, json_t **root)
{
    char error[256];
    struct ir_file *file = ir_file_get(r->ctx, r->path, error, sizeof error);
    if (!file)
        return wrong(r->ctx, r->path, error), NULL;
    *root = open_header(r, ir_file_data(file), ir_file_size(file));
    if (*root)
        return file;
    ir_file_unref(file);
    return NULL;
}

bool safetensors_read(struct ir_ctx *ctx, const char *path, struct named_tensors *out)
{
    struct reader r = {.ctx = ctx, .path = path, .out = out};
    json_t *root;
    struct ir_file *file = open_file(&r, &root);
    bool ok = file && read_header(&r, root);
    if (file) {
        json_decref(root);
        ir_file_unref(file);
    }
    return ok;
}

/* A checkpoint that has a digest of its bytes is what was written: else a changed one would go into artifacts. */
static bool is_whole(const struct ir_file *file, const json_t *metadata)
{
    const char *digest = json_string_value(json_object_get(metadata, CKPT_DIGEST_KEY)),
               *format = json_string_value(json_object_get(metadata, CKPT_FORMAT_KEY));
    char found[CKPT_DIGEST];

    if (!ckpt_covers_file(digest, format))
        return true;
    return digest && format && !strcmp(format, CKPT_FORMAT) &&
           ckpt_file_digest(ir_file_data(file), ir_file_size(file), found) && !strcmp(digest, found);
}

bool safetensors_values(struct ir_ctx *ctx, const char *path, int n, const char *const *keys, const char **texts)
{
    struct reader r = {.ctx = ctx, .path = path};
    json_t *root;
    struct ir_file *file = open_file(&r, &root);
    if (!file)
        return false;
    const json_t *metadata = json_object_get(root, "__metadata__");
    bool whole = is_whole(file, metadata);
    for (int k = 0; k < n; k++) {
        const char *text = json_string_value(json_object_get(metadata, keys[k]));
        texts[k] = text ? ir_intern(ctx, text) : NULL;
    }
    json_decref(root);
    ir_file_unref(file);
    return whole || wrong(ctx, path, "the file's bytes are damaged: they have another digest than it says");
}
