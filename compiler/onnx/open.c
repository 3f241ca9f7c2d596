/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a model: maps it, recognises what is not ONNX, reads the structures. */
#include "compiler/import/sniff.h"
#include "compiler/onnx/decode_int.h"

#include <stdlib.h>
#include <string.h>

static struct onnx_model *new_model(struct onnx_error *err)
{
    struct onnx_model *m = calloc(1, sizeof *m);
    if (m) {
        m->path = "";
        m->arena = onnx_arena_new();
        m->files = calloc(1, sizeof *m->files);
        m->file_count = m->files != NULL;
    }
    if (m && m->arena && m->files) {
        m->files[0] = (struct onnx_file){.path = "", .map = (const uint8_t *)""};
        return m;
    }
    onnx_close(m);
    onnx_no_memory(err);
    return NULL;
}

void onnx_close(struct onnx_model *m)
{
    if (!m)
        return;
    for (size_t k = 0; k < m->file_count; k++)
        onnx_unmap_file(&m->files[k]);
    free(m->files);
    onnx_arena_free(m->arena);
    free(m);
}

static bool set_path(struct onnx_model *m, const char *path)
{
    char *copy = onnx_arena_alloc(m->arena, strlen(path) + 1, 1);
    char *folder = onnx_arena_alloc(m->arena, strlen(path) + 2, 1);
    if (!copy || !folder)
        return false;
    m->path = m->files[0].path = strcpy(copy, path);
    strcpy(folder, path);
    char *slash = strrchr(folder, '/');
    if (!slash)
        strcpy(folder, ".");
    else
        slash[slash == folder] = 0;
    m->folder = folder;
    return true;
}

static bool read_model(struct onnx_model *m, struct onnx_error *err)
{
    const struct onnx_file *file = &m->files[0];
    struct onnx_reader r = {.model = m, .err = err};
    const char *other = imp_sniff(file->map, file->size);
    if (other)
        return onnx_fail(err, ONNX_BAD_FILE, "%s", other);
    return onnx_decode(&r, ONNX_MSG_MODEL, m);
}

struct onnx_model *onnx_open(const char *path, struct onnx_error *err)
{
    struct onnx_model *m = new_model(err);
    if (!m)
        return NULL;
    if (onnx_map_file(path, &m->files[0], err) && (set_path(m, path) || onnx_no_memory(err)) && read_model(m, err))
        return m;
    onnx_close(m);
    return NULL;
}

struct onnx_model *onnx_open_memory(const void *data, uint64_t size, const char *folder, struct onnx_error *err)
{
    struct onnx_model *m = new_model(err);
    if (!m)
        return NULL;
    m->files[0].map = data;
    m->files[0].size = size;
    if (folder) {
        char *copy = onnx_arena_alloc(m->arena, strlen(folder) + 1, 1);
        m->folder = copy ? strcpy(copy, folder) : NULL;
    }
    if (read_model(m, err))
        return m;
    onnx_close(m);
    return NULL;
}
