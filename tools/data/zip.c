/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays of .npz files: a zip archive of .npy files, read by libzip (numpy.savez: stored, so used where they lie in the
 * mapping; numpy.savez_compressed: unpacked). libzip does not tell where a stored entry lies; but it reads through
 * functions of ours, and what it reads first for an entry is its first byte.
 */
#include "base/mutant.h"
#include "tools/data/data_int.h"

#include <stdlib.h>
#include <string.h>
#include <zip.h>

#define DEFLATE_MOST 1100 /* bytes that one byte of deflate can become: 1032 */

/* A file in memory as libzip reads it. */
struct reader {
    const struct data_file *file;
    size_t at, last; /* last: where the last read began */
    zip_error_t error;
};

static zip_int64_t serve(void *user, void *data, zip_uint64_t size, zip_source_cmd_t command)
{
    struct reader *r = user;
    zip_int64_t to;

    switch (command) {
    case ZIP_SOURCE_OPEN: r->at = 0; return 0;
    case ZIP_SOURCE_READ:
        size = size < r->file->size - r->at ? size : r->file->size - r->at;
        if (size)
            memcpy(data, r->file->bytes + r->at, size);
        r->last = r->at;
        r->at += size;
        return (zip_int64_t)size;
    case ZIP_SOURCE_SEEK:
        to = zip_source_seek_compute_offset(r->at, r->file->size, data, size, &r->error);
        if (to >= 0)
            r->at = (size_t)to;
        return to < 0 ? -1 : 0;
    case ZIP_SOURCE_TELL: return (zip_int64_t)r->at;
    case ZIP_SOURCE_STAT:
        zip_stat_init(data);
        ((zip_stat_t *)data)->size = r->file->size;
        ((zip_stat_t *)data)->valid = ZIP_STAT_SIZE;
        return sizeof(zip_stat_t);
    case ZIP_SOURCE_ERROR: return zip_error_to_data(&r->error, data, size);
    case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT,
                                              ZIP_SOURCE_ERROR, ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL, ZIP_SOURCE_SUPPORTS,
                                              -1);
    default: return 0;
    }
}

/* NULL: damaged (*memory false) or no memory. `r` lives as long. */
static zip_t *open_zip(const struct data_file *f, struct reader *r, bool *memory)
{
    zip_error_t error;

    zip_error_init(&error);
    *r = (struct reader){.file = f};
    zip_error_init(&r->error);
    zip_source_t *s = zip_source_function_create(serve, r, &error);
    zip_t *z = s ? zip_open_from_source(s, ZIP_RDONLY, &error) : NULL;
    if (!z && s)
        zip_source_free(s);
    *memory = zip_error_code_zip(&error) == ZIP_ER_MEMORY;
    zip_error_fini(&error);
    return z;
}

bool data_zip_is(const struct data_file *f)
{
    return f->size >= 22 && (memcmp(f->bytes, "PK\3\4", 4) == 0 || memcmp(f->bytes, "PK\5\6", 4) == 0);
}

/* An entry's name, and its length without .npy. */
static const char *entry_name(zip_t *z, zip_int64_t i, size_t *n)
{
    const char *name = zip_get_name(z, (zip_uint64_t)i, ZIP_FL_ENC_RAW);

    *n = name ? strlen(name) : 0;
    if (*n > 4 && !strcmp(name + *n - 4, ".npy"))
        *n -= 4;
    return name;
}

/* The entry of that name (NULL: the only one), -1: there is none; `names` lists those that are. */
static zip_int64_t find(zip_t *z, const char *name, char *names, size_t room)
{
    zip_int64_t found = -1, n = zip_get_num_entries(z, 0);
    size_t used = 0, length;

    names[0] = '\0';
    for (zip_int64_t i = 0; i < n; i++) {
        const char *entry = entry_name(z, i, &length);
        if (!entry)
            continue;
        if (used < room - 80)
            used += (size_t)snprintf(names + used, room - used, "%s'%.*s'", used ? ", " : "",
                                     (int)(length > 60 ? 60 : length), entry);
        if (found < 0 && name && (!strcmp(entry, name) || (strlen(name) == length && !strncmp(entry, name, length))))
            found = i;
    }
    return !name && n == 1 ? 0 : found;
}

/* All bytes of an entry, checked against its digest by libzip. */
static struct data_file *unpack(zip_file_t *in, size_t size, char *error)
{
    unsigned char *to = malloc(size + 1);
    size_t got = 0;
    zip_int64_t n = 1;

    if (!to)
        return put_error(error, "no memory"), NULL;
    while (n > 0 && got <= size)
        if ((n = zip_fread(in, to + got, size + 1 - got)) > 0)
            got += (size_t)n;
    if (!n && got == size)
        return data_take(to, size, error);
    free(to);
    return put_error(error, "damaged"), NULL;
}

/* The entry's content: a view of the archive's bytes or unpacked. */
static struct data_file *content(zip_t *z, struct reader *r, zip_int64_t i, bool *view, char *error)
{
    zip_stat_t st;
    zip_file_t *in = NULL;
    struct data_file *f = NULL;
    char byte;

    *view = false;
    if (zip_stat_index(z, (zip_uint64_t)i, 0, &st) ||
        (~st.valid & (ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD)) ||
        (st.valid & ZIP_STAT_ENCRYPTION_METHOD && st.encryption_method != ZIP_EM_NONE) || st.comp_size > r->file->size)
        snprintf(error, ERROR_SIZE, "truncated, damaged or encrypted");
    else if (st.comp_method != ZIP_CM_STORE && st.comp_method != ZIP_CM_DEFLATE)
        snprintf(error, ERROR_SIZE, "unsupported compression method");
    else if (st.size / DEFLATE_MOST > st.comp_size || !(in = zip_fopen_index(z, (zip_uint64_t)i, 0)))
        snprintf(error, ERROR_SIZE, "damaged");
    else if (st.comp_method == ZIP_CM_DEFLATE)
        f = unpack(in, st.size, error);
    else if (MUTANT(67, st.size != st.comp_size, false) || zip_fread(in, &byte, 1) != 1 ||
             st.size > r->file->size - r->last)
        snprintf(error, ERROR_SIZE, "truncated or damaged");
    else if (!(f = calloc(1, sizeof *f)))
        snprintf(error, ERROR_SIZE, "no memory");
    else
        *view = true, *f = (struct data_file){1, r->file->bytes + r->last, st.size, false};
    if (in)
        zip_fclose(in);
    return f;
}

static bool read_entry(const char *path, zip_t *z, struct reader *r, zip_int64_t i, struct data_file *f,
                       const struct data_options *o, const struct tccrt_value_info *info, struct data_array *out,
                       char *error)
{
    char shown[320], why[ERROR_SIZE];
    bool view;
    struct data_file *inner = content(z, r, i, &view, why);

    snprintf(shown, sizeof shown, "%.200s:%.100s", path, zip_get_name(z, (zip_uint64_t)i, ZIP_FL_ENC_RAW));
    if (!inner)
        return put_error(error, "%s: %.500s", shown, why);
    bool ok = data_array_read(shown, inner, o, info, out, error);
    if (!view) {
        data_unref(inner);
        return ok;
    }
    free(inner);
    if (ok) {
        out->file = f;
        f->refs++;
    }
    return ok;
}

bool data_zip_array(const char *path, struct data_file *f, const char *name, const struct data_options *o,
                    const struct tccrt_value_info *info, struct data_array *out, bool *found, char *error)
{
    char names[512];
    struct reader r;
    bool ok = false, memory;
    zip_t *z = open_zip(f, &r, &memory);

    *found = !z; /* whatever it should have: that it cannot be read is what matters */
    if (!z)
        return put_error(error, "%s: %s", path, memory ? "no memory" : "damaged: no zip archive that libzip reads");
    zip_int64_t i = find(z, name, names, sizeof names);
    *found = i >= 0;
    if (*found)
        ok = read_entry(path, z, &r, i, f, o, info, out, error);
    else
        snprintf(error, ERROR_SIZE, "%s: no array '%s'; it has %s", path, name ? name : info->name,
                 *names ? names : "none");
    zip_discard(z);
    return ok;
}

char **data_zip_names(const struct data_file *f, int *n)
{
    struct reader r;
    bool memory;
    zip_t *z = open_zip(f, &r, &memory);
    zip_int64_t count = z ? zip_get_num_entries(z, 0) : 0;
    char **names = z ? calloc((size_t)count + 1, sizeof *names) : NULL;
    size_t length;

    *n = 0;
    for (zip_int64_t i = 0; names && i < count; i++) {
        const char *name = entry_name(z, i, &length);
        if (name && (names[*n] = strndup(name, length)))
            ++*n;
    }
    if (z)
        zip_discard(z);
    return names;
}
