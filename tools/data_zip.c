/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays of .npz files: a zip archive of .npy files (numpy.savez: stored, so used where they lie in the mapping;
 * numpy.savez_compressed: unpacked). Sizes and places come from the central directory (PKWARE APPNOTE 6.3.9, with the zip64
 * fields that numpy always writes); everything is checked against the file's size.
 */
#include "tools/data_int.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

struct entry {
    const unsigned char *name;
    size_t name_size;
    unsigned method, flags;
    uint64_t packed, size, at; /* at: of the local header */
};

static uint64_t little(const unsigned char *p, int n)
{
    uint64_t v = 0;
    while (n--)
        v = v << 8 | p[n];
    return v;
}

bool data_zip_is(const struct data_file *f)
{
    return f->size >= 22 && (memcmp(f->bytes, "PK\3\4", 4) == 0 || memcmp(f->bytes, "PK\5\6", 4) == 0);
}

/* Finds the directory; its size. 0: none. */
static size_t directory(const struct data_file *f, size_t *start)
{
    const unsigned char *b = f->bytes;
    size_t lowest = f->size > 22 + 65535 ? f->size - 22 - 65535 : 0;

    for (size_t at = f->size - 22;; at--) {
        if (memcmp(b + at, "PK\5\6", 4) == 0) {
            uint64_t size = little(b + at + 12, 4), first = little(b + at + 16, 4);
            if (first == 0xffffffff && at >= 20 && memcmp(b + at - 20, "PK\6\7", 4) == 0) {
                uint64_t end = little(b + at - 12, 8);
                if (end > f->size - 56 || memcmp(b + end, "PK\6\6", 4) != 0)
                    return 0;
                size = little(b + end + 40, 8);
                first = little(b + end + 48, 8);
            }
            *start = (size_t)first;
            return first <= f->size && size <= f->size - first ? (size_t)size : 0;
        }
        if (at == lowest)
            return 0;
    }
}

/* The zip64 extra field replaces sizes of all ones, in this order. */
static void zip64(struct entry *e, const unsigned char *extra, size_t n)
{
    while (n >= 4) {
        size_t size = (size_t)little(extra + 2, 2);
        const unsigned char *p = extra + 4;
        if (size > n - 4)
            return;
        if (little(extra, 2) == 1) {
            uint64_t *fields[] = {&e->size, &e->packed, &e->at};
            for (int i = 0; i < 3; i++)
                if (*fields[i] == 0xffffffff && p + 8 <= extra + 4 + size) {
                    *fields[i] = little(p, 8);
                    p += 8;
                }
            return;
        }
        extra += 4 + size;
        n -= 4 + size;
    }
}

/* The entry at *at of the directory, which ends at `end`; moves on. */
static bool next_entry(const struct data_file *f, size_t *at, size_t end, struct entry *e)
{
    const unsigned char *p = f->bytes + *at;
    if (end - *at < 46 || memcmp(p, "PK\1\2", 4) != 0)
        return false;
    size_t name = (size_t)little(p + 28, 2), extra = (size_t)little(p + 30, 2), comment = (size_t)little(p + 32, 2);
    if (name + extra + comment > end - *at - 46)
        return false;
    *e = (struct entry){.name = p + 46,
                        .name_size = name,
                        .flags = (unsigned)little(p + 8, 2),
                        .method = (unsigned)little(p + 10, 2),
                        .packed = little(p + 20, 4),
                        .size = little(p + 24, 4),
                        .at = little(p + 42, 4)};
    zip64(e, p + 46 + name, extra);
    *at += 46 + name + extra + comment;
    return true;
}

/* Where the entry's bytes begin; 0: nowhere in the file. */
static size_t content(const struct data_file *f, const struct entry *e)
{
    if (f->size < 30 || e->at > f->size - 30 || memcmp(f->bytes + e->at, "PK\3\4", 4) != 0)
        return 0;
    uint64_t start = e->at + 30 + little(f->bytes + e->at + 26, 2) + little(f->bytes + e->at + 28, 2);
    return start <= f->size && e->packed <= f->size - start ? (size_t)start : 0;
}

static unsigned char *inflate_all(const unsigned char *from, uint64_t packed, uint64_t size)
{
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)from};
    unsigned char *to = size / 1100 <= packed ? malloc((size_t)size + 1) : NULL;
    int status = Z_OK;

    if (!to || inflateInit2(&z, -15) != Z_OK) {
        free(to);
        return NULL;
    }
    z.next_out = to;
    uint64_t left_in = packed, left_out = size;
    while (status == Z_OK) {
        if (!z.avail_in) {
            z.avail_in = left_in > 1 << 30 ? 1 << 30 : (unsigned)left_in;
            left_in -= z.avail_in;
        }
        if (!z.avail_out) {
            z.avail_out = left_out > 1 << 30 ? 1 << 30 : (unsigned)left_out;
            left_out -= z.avail_out;
        }
        status = inflate(&z, Z_NO_FLUSH);
    }
    bool whole = status == Z_STREAM_END && !left_out && !z.avail_out;
    inflateEnd(&z);
    if (!whole) {
        free(to);
        return NULL;
    }
    return to;
}

static bool is_named(const struct entry *e, const char *name)
{
    size_t n = strlen(name);
    return (e->name_size == n || (e->name_size == n + 4 && memcmp(e->name + n, ".npy", 4) == 0)) &&
           memcmp(e->name, name, n) == 0;
}

/* Looks for the array; lists the names there are in `names`. -1: damaged; else the number of entries. */
static int find(const struct data_file *f, const char *name, struct entry *e, bool *found, char *names, size_t room)
{
    size_t at = 0, size = directory(f, &at), end = at + size, used = 0;
    int n = 0;
    struct entry x;

    names[0] = '\0';
    *found = false;
    while (size && at < end) {
        if (!next_entry(f, &at, end, &x))
            return -1;
        size_t length =
            x.name_size > 4 && memcmp(x.name + x.name_size - 4, ".npy", 4) == 0 ? x.name_size - 4 : x.name_size;
        if (used < room - 80)
            used += (size_t)snprintf(names + used, room - used, "%s'%.*s'", n ? ", " : "",
                                     (int)(length > 60 ? 60 : length), (const char *)x.name);
        if (!*found && (!name || is_named(&x, name))) {
            *e = x;
            *found = true;
        }
        n++;
    }
    return size ? n : -1;
}

bool data_zip_array(const char *path, struct data_file *f, const char *name, const struct data_options *o,
                    const struct tccrt_value_info *info, struct data_array *out, bool *found, char *error)
{
    char names[512], shown[320];
    struct entry e = {0};
    int n = find(f, name, &e, found, names, sizeof names);

    if (n < 0) {
        snprintf(error, ERROR_SIZE, "%s: damaged: it has no zip directory", path);
        return false;
    }
    if (!*found || (!name && n > 1)) {
        snprintf(error, ERROR_SIZE, "%s: no array '%s'; it has %s", path, name ? name : info->name,
                 *names ? names : "none");
        *found = false;
        return false;
    }
    snprintf(shown, sizeof shown, "%s:%.*s", path, (int)(e.name_size > 100 ? 100 : e.name_size), (const char *)e.name);
    size_t start = content(f, &e);
    struct data_file *inner = NULL;
    if (!start || (e.flags & 1) || (e.method == 0 && e.size != e.packed)) {
        snprintf(error, ERROR_SIZE, "%s: truncated, damaged or encrypted", shown);
        return false;
    }
    if (e.method == 0) {
        inner = calloc(1, sizeof *inner); /* a view: the bytes are the archive's */
        if (inner)
            *inner = (struct data_file){1, f->bytes + start, (size_t)e.size, false};
    } else if (e.method == 8) {
        unsigned char *bytes = inflate_all(f->bytes + start, e.packed, e.size);
        inner = bytes ? data_take(bytes, (size_t)e.size, error) : NULL;
    }
    if (!inner) {
        snprintf(error, ERROR_SIZE, "%s: %s", shown,
                 e.method == 0 || e.method == 8 ? "damaged, or no memory" : "its compression method is not known");
        return false;
    }
    bool ok = data_array_read(shown, inner, o, info, out, error);
    if (e.method == 0) {
        free(inner);
        if (ok) {
            out->file = f;
            f->refs++;
        }
    } else {
        data_unref(inner);
    }
    return ok;
}

char **data_zip_names(const struct data_file *f, int *n)
{
    size_t at = 0, size = directory(f, &at), end = at + size;
    char **names = calloc(1, sizeof *names);
    struct entry e;

    for (*n = 0; names && size && at < end && next_entry(f, &at, end, &e);) {
        bool npy = e.name_size > 4 && memcmp(e.name + e.name_size - 4, ".npy", 4) == 0;
        char **grown = realloc(names, ((size_t)*n + 2) * sizeof *names);
        if (!grown)
            break;
        names = grown;
        names[*n] = strndup((const char *)e.name, npy ? e.name_size - 4 : e.name_size);
        if (names[*n])
            ++*n;
    }
    return names;
}
