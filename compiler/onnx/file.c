/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a model: mapping them, and finding external data without leaving the model's folder.
 *
 * A location comes from an untrusted file. It must be relative, without "..", and what it resolves to (symbolic links
 * followed) must be a regular file below the model's folder; otherwise a model could read any file of the user into an
 * artifact.
 */
#include "compiler/onnx/decode_int.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/safe.h"

static bool map_descriptor(int fd, struct onnx_file *file, struct onnx_error *err)
{
    struct stat st;
    if (fstat(fd, &st))
        return onnx_fail(err, ONNX_ENVIRONMENT, "cannot be read: %s", strerror(errno));
    if (S_ISDIR(st.st_mode))
        return onnx_fail(err, ONNX_BAD_FILE,
                         "is a folder; an ONNX file (.onnx) or tccc's own text (.tcir) is expected");
    if (!S_ISREG(st.st_mode))
        return onnx_fail(err, ONNX_BAD_FILE, "is not a regular file");
    file->size = (uint64_t)st.st_size;
    file->map = (const uint8_t *)"";
    file->mapped = 0;
    if (!file->size)
        return true;
    void *map = mmap(NULL, (size_t)file->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return onnx_fail(err, ONNX_ENVIRONMENT, "cannot be mapped: %s", strerror(errno));
    file->map = map;
    file->mapped = file->size;
    return true;
}

bool onnx_map_file(const char *path, struct onnx_file *file, struct onnx_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        bool absent = errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ELOOP ||
                      errno == ENAMETOOLONG || errno == EISDIR;
        return onnx_fail(err, absent ? ONNX_BAD_FILE : ONNX_ENVIRONMENT, "cannot be opened: %s", strerror(errno));
    }
    bool fine = map_descriptor(fd, file, err);
    close(fd);
    return fine;
}

void onnx_unmap_file(struct onnx_file *file)
{
    if (file->mapped)
        munmap((void *)(uintptr_t)file->map, (size_t)file->mapped);
    file->mapped = 0;
}

/* The real path of `location` below `folder`, malloc'd; NULL with an error. */
static char *resolve(const char *folder, const char *name, const char *location, struct onnx_error *err)
{
    char *real = tcr_path_below(folder, location);

    if (real)
        return real;
    if (errno == EPERM)
        onnx_fail(err, ONNX_BAD_FILE,
                  "tensor '%.100s': external data location '%.150s' leaves the model's folder; only relative paths "
                  "without '..' are read",
                  name, location);
    else if (errno == EXDEV)
        onnx_fail(err, ONNX_BAD_FILE,
                  "tensor '%.100s': external data file '%.150s' is a link that leaves the model's folder; only files "
                  "inside that folder are read",
                  name, location);
    else
        onnx_fail(err, errno == ENOMEM ? ONNX_ENVIRONMENT : ONNX_BAD_FILE,
                  "tensor '%.100s': external data file '%.150s' cannot be opened: %s", name, location, strerror(errno));
    return NULL;
}

bool onnx_external_file(struct onnx_reader *r, const char *name, const char *location, uint32_t *index)
{
    struct onnx_model *m = r->model;
    if (!*location)
        return onnx_fail(r->err, ONNX_BAD_FILE, "tensor '%.100s': external data without a location", name);
    if (!m->folder)
        return onnx_fail(r->err, ONNX_BAD_FILE, "tensor '%.100s': external data needs a model that is read from a file",
                         name);
    char *real = resolve(m->folder, name, location, r->err), path[PATH_MAX];
    if (!real)
        return false;
    snprintf(path, sizeof path, "%s", real);
    free(real);
    for (size_t k = 0; k < m->file_count; k++) {
        if (!strcmp(m->files[k].path, path)) {
            *index = (uint32_t)k;
            return true;
        }
    }
    /* Memory first: where there is none, no file is left mapped. */
    struct onnx_file *files = ir_arena_alloc(m->arena, (m->file_count + 1) * sizeof *files);
    char *kept = strcpy(ir_arena_alloc(m->arena, strlen(path) + 1), path);
    struct onnx_error err = {0};
    memcpy(files, m->files, m->file_count * sizeof *files);
    if (!onnx_map_file(path, &files[m->file_count], &err))
        return onnx_fail(r->err, err.status, "tensor '%.100s': external data file '%.150s' %s", name, location,
                         err.text);
    files[m->file_count].path = kept;
    *index = (uint32_t)m->file_count++;
    m->files = files;
    return true;
}
