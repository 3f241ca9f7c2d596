/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads safetensors files: 8 bytes little-endian length of the header, the header (json.c), the tensors' bytes. The
 * file is mapped; every offset is checked against its size before anything is looked at.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/ckpt/ckpt_int.h"
#include "base/mutant.h"
#include "base/safe.h"

static const struct {
    int dtype;
    const char *name;
} names[] = {{TCC_F64, "F64"},   {TCC_F32, "F32"},          {TCC_F16, "F16"},        {TCC_BF16, "BF16"},
             {TCC_I64, "I64"},   {TCC_I32, "I32"},          {TCC_I16, "I16"},        {TCC_I8, "I8"},
             {TCC_U64, "U64"},   {TCC_U32, "U32"},          {TCC_U16, "U16"},        {TCC_U8, "U8"},
             {TCC_BOOL, "BOOL"}, {TCC_F8E4M3FN, "F8_E4M3"}, {TCC_F8E5M2, "F8_E5M2"}, {TCC_F8E8M0, "F8_E8M0"},
             {TCC_C64, "C64"}};

const char *ckpt_dtype_name(int dtype)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].dtype == dtype)
            return names[i].name;
    return NULL;
}

static int ckpt_dtype(const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, name) == 0)
            return names[i].dtype;
    return TCC_NONE;
}

int ckpt_by_name(const void *a, const void *b)
{
    const struct tccrt_named *x = a, *y = b;

    return strcmp(x->name, y->name);
}

static int place(const char *what, struct tccrt_tensors *f, size_t start)
{
    size_t room = f->size - start;

    f->tensors = calloc((size_t)f->header.nentries + 1, sizeof *f->tensors);
    if (!f->tensors)
        return tcr_fail(TCC_EENV, "%s: no memory", what);
    for (int i = 0; i < f->header.nentries; i++) {
        const struct ckpt_entry *e = &f->header.entries[i];
        struct tcc_tensor *t = &f->tensors[i].t;
        int dtype = ckpt_dtype(e->dtype);
        int64_t n = dtype ? tcr_elements(dtype, e->rank, e->dims) : 0;

        if (!dtype)
            return tcr_fail(TCC_EINPUT, "%s: '%s': element type '%s' is not known", what, e->name, e->dtype);
        if (e->first > e->last || MUTANT(50, e->last > room, false))
            return tcr_fail(TCC_EINPUT, "%s: '%s' lies at bytes %llu to %llu of %zu: the file is truncated or damaged",
                            what, e->name, (unsigned long long)e->first, (unsigned long long)e->last, room);
        if (n < 0 || (uint64_t)n * (uint64_t)tcr_dtype_bytes(dtype) != e->last - e->first)
            return tcr_fail(TCC_EINPUT, "%s: '%s' has %llu bytes, which its shape does not need", what, e->name,
                            (unsigned long long)(e->last - e->first));
        f->tensors[i].name = e->name;
        *t = (struct tcc_tensor){.data = (void *)(f->data + start + e->first), .dtype = dtype, .rank = e->rank};
        memcpy(t->dims, e->dims, sizeof t->dims);
    }
    f->ntensors = f->header.nentries;
    qsort(f->tensors, (size_t)f->ntensors, sizeof *f->tensors, ckpt_by_name);
    for (int i = 1; i < f->header.nentries; i++)
        if (strcmp(f->tensors[i - 1].name, f->tensors[i].name) == 0)
            return tcr_fail(TCC_EINPUT, "%s: '%s' is there twice", what, f->tensors[i].name);
    return TCC_OK;
}

static int parse(const char *what, struct tccrt_tensors *f)
{
    uint64_t length = 0;
    char why[256];
    int status;

    if (f->size < 8)
        return tcr_fail(TCC_EINPUT, "%s: not a safetensors file: it has %zu bytes", what, f->size);
    for (int i = 7; i >= 0; i--)
        length = length << 8 | f->data[i];
    if (length > CKPT_MAX_HEADER || length > f->size - 8)
        return tcr_fail(TCC_EINPUT,
                        "%s: not a safetensors file, or truncated: a header of %llu bytes is announced, the file "
                        "has %zu",
                        what, (unsigned long long)length, f->size);
    if ((status = ckpt_json(&f->header, (const char *)f->data + 8, (size_t)length, why)))
        return tcr_fail(status, status == TCC_EENV ? "%s: %s" : "%s: not a safetensors file: %s", what, why);
    f->digest = tccrt_tensors_value(f, CKPT_DIGEST_KEY);
    f->format = tccrt_tensors_value(f, CKPT_FORMAT_KEY);
    return place(what, f, 8 + (size_t)length);
}

int tcr_tensors_parse(const char *what, const uint8_t *data, size_t size, struct tccrt_tensors **out)
{
    struct tccrt_tensors *f = calloc(1, sizeof *f);
    int status;

    *out = NULL;
    if (!f)
        return tcr_fail(TCC_EENV, "%s: no memory", what);
    f->data = data;
    f->size = size;
    status = parse(what, f);
    if (status)
        tccrt_tensors_close(f);
    else
        *out = f;
    return status;
}

int ckpt_open_file(const char *path, struct tccrt_tensors **out)
{
    void *map = NULL;
    struct stat st;
    int fd, status;

    *out = NULL;
    tcr_clear_error();
    fd = tcr_open_input(path, true);
    if (fd < 0 && (errno == EINVAL || errno == EISDIR))
        return tcr_fail(TCC_EINPUT, "%s: not a file", path);
    if (fd < 0)
        return tcr_fail(errno == ENOENT || errno == ENOTDIR ? TCC_EINPUT : TCC_EENV, "%s: %s", path, strerror(errno));
    if (fstat(fd, &st)) {
        close(fd);
        return tcr_fail(TCC_EENV, "%s: %s", path, strerror(errno));
    }
    if (st.st_size > 0)
        map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return tcr_fail(TCC_EENV, "%s: %s", path, strerror(errno));
    status = tcr_tensors_parse(path, map, (size_t)st.st_size, out);
    if (status && map)
        munmap(map, (size_t)st.st_size);
    else if (!status)
        (*out)->mapped = true;
    return status;
}

int tccrt_tensors_open(const char *path, struct tccrt_tensors **out)
{
    int status;

    if (!path || !out)
        return tcr_fail(TCC_EUSAGE, "a path and a place for the file are required, got NULL");
    status = ckpt_open_file(path, out);
    if (!status && ckpt_nparts(*out) && (status = ckpt_join(path, *out))) {
        tccrt_tensors_close(*out);
        *out = NULL;
    }
    return status;
}

void tccrt_tensors_close(struct tccrt_tensors *f)
{
    if (!f)
        return;
    for (int k = 0; f->parts && k < f->nparts; k++)
        tccrt_tensors_close(f->parts[k]);
    free(f->parts);
    if (f->mapped)
        munmap((void *)f->data, f->size);
    ckpt_json_free(&f->header);
    free(f->tensors);
    free(f);
}

int tccrt_tensors_count(const struct tccrt_tensors *f)
{
    return f ? f->ntensors : 0;
}

const struct tccrt_named *tccrt_tensors_at(const struct tccrt_tensors *f, int i)
{
    return f && i >= 0 && i < f->ntensors ? &f->tensors[i] : NULL;
}

const struct tccrt_named *tccrt_tensors_find(const struct tccrt_tensors *f, const char *name)
{
    struct tccrt_named key = {.name = name};

    return !f || !name ? NULL : bsearch(&key, f->tensors, (size_t)f->ntensors, sizeof key, ckpt_by_name);
}

const struct tccrt_pair *tccrt_tensors_meta(const struct tccrt_tensors *f, int *n)
{
    if (n)
        *n = f ? f->header.nmeta : 0;
    return f ? f->header.meta : NULL;
}

const char *tccrt_tensors_value(const struct tccrt_tensors *f, const char *key)
{
    for (int i = 0; f && key && i < f->header.nmeta; i++)
        if (strcmp(f->header.meta[i].key, key) == 0)
            return f->header.meta[i].value;
    return NULL;
}

/* Of before: of the tensors' bytes, by name. */
static bool older_digest(const struct tccrt_tensors *f, char text[CKPT_DIGEST])
{
    uint64_t *each = calloc((size_t)f->ntensors + 1, sizeof *each);

    for (int i = 0; each && i < f->ntensors; i++) {
        const struct tcc_tensor *t = &f->tensors[i].t;

        each[i] = tcr_xxh3(t->data, (size_t)(tcr_elements(t->dtype, t->rank, t->dims) * tcr_dtype_bytes(t->dtype)));
    }
    if (each)
        snprintf(text, CKPT_DIGEST, "%016llx", (unsigned long long)tcr_xxh3(each, (size_t)f->ntensors * sizeof *each));
    free(each);
    return each != NULL;
}

int tccrt_tensors_covered(const struct tccrt_tensors *f)
{
    int least = TCCRT_DIGEST_FILE, k;

    if (!f || (!f->digest && !f->format))
        return TCCRT_DIGEST_NONE;
    for (k = 0; k < f->nparts; k++)
        least = tccrt_tensors_covered(f->parts[k]) < least ? tccrt_tensors_covered(f->parts[k]) : least;
    return f->format ? least : TCCRT_DIGEST_TENSORS;
}

static int check_file(const struct tccrt_tensors *f)
{
    bool whole = ckpt_covers_file(f->digest, f->format);
    char found[CKPT_DIGEST] = "";

    if (!whole && !f->digest)
        return TCC_OK;
    if (whole &&
        (!f->digest || !f->format || strcmp(f->format, CKPT_FORMAT) || !ckpt_file_digest(f->data, f->size, found)))
        return tcr_fail(TCC_EINPUT, "the file's bytes are damaged: what it says of its digest is");
    if (!whole && !older_digest(f, found))
        return tcr_fail(TCC_EENV, "no memory");
    if (MUTANT(51, strcmp(f->digest, found), 0))
        return tcr_fail(TCC_EINPUT, "the %s bytes are damaged: expected digest %s, got %s",
                        whole ? "file's" : "tensors'", f->digest, found);
    return TCC_OK;
}

int tccrt_tensors_check(const struct tccrt_tensors *f)
{
    int status = f ? TCC_OK : tcr_fail(TCC_EUSAGE, "a file is required, got NULL");

    if (status)
        return status;
    tcr_clear_error();
    for (int k = 0; k < f->nparts && !status; k++)
        status = tccrt_tensors_check(f->parts[k]);
    if (status || (f->nparts && !f->format)) /* an older index's digest is of no tensors, which are others' now */
        return status;
    return check_file(f);
}
