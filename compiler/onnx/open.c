/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a model: maps it, recognises what is not ONNX, reads the structures. */
#include "compiler/import/sniff.h"
#include "compiler/onnx/decode_int.h"

#include <string.h>

static struct onnx_model *new_model(struct ir_ctx *ctx, const char *path)
{
    struct ir_arena *arena = ir_arena_new(ctx);
    struct onnx_model *m = ir_arena_alloc(arena, sizeof *m);
    m->arena = arena;
    m->files = ir_arena_alloc(arena, sizeof *m->files);
    m->file_count = 1;
    m->path = strcpy(ir_arena_alloc(arena, strlen(path) + 1), path);
    m->files[0] = (struct onnx_file){.path = m->path, .map = (const uint8_t *)""};
    return m;
}

void onnx_close(struct onnx_model *m)
{
    if (!m)
        return;
    for (size_t k = 0; k < m->file_count; k++)
        onnx_unmap_file(&m->files[k]);
    ir_arena_free(m->arena);
}

/* Reads a model whose file is mapped. NULL: the model is closed, as it is when there is no memory. */
static struct onnx_model *read_model(struct ir_ctx *ctx, struct onnx_model *volatile m, struct onnx_error *err)
{
    struct onnx_reader r = {.model = m, .err = err};
    struct ir_protect frame;
    if (!IR_PROTECT(ctx, &frame)) {
        onnx_close(m);
        ir_no_memory(ctx);
    }
    const char *other = imp_sniff(m->files[0].map, m->files[0].size);
    bool fine = other ? onnx_fail(err, ONNX_BAD_FILE, "%s", other) : onnx_decode(&r, ONNX_MSG_MODEL, m);
    ir_unprotect(ctx);
    if (fine)
        return m;
    onnx_close(m);
    return NULL;
}

struct onnx_model *onnx_open(struct ir_ctx *ctx, const char *path, struct onnx_error *err)
{
    struct onnx_model *m = new_model(ctx, path);
    char *folder = strcpy(ir_arena_alloc(m->arena, strlen(path) + 2), path), *slash = strrchr(folder, '/');
    if (!slash)
        strcpy(folder, ".");
    else
        slash[slash == folder] = 0;
    m->folder = folder;
    if (onnx_map_file(path, &m->files[0], err))
        return read_model(ctx, m, err);
    onnx_close(m);
    return NULL;
}
