/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives of samples, as webdataset has them: POSIX tar (ustar, GNU's long names, pax's path), in which the files of a
 * sample follow each other and have one name up to the first dot of their last part: 000017.jpg, 000017.cls.
 * FILE:EXTENSION names what an input gets; without it an input of pictures gets the first extension of a picture, one
 * of class numbers .cls (or .txt, a number in digits). Other files are .npy arrays, one a sample. The archive is
 * mapped; sizes are checked against it, so that none can be larger than it.
 */
#include "base/grow.h"
#include "tools/data/data_int.h"

#include <stdlib.h>
#include <string.h>

struct member {
    char *key; /* the name up to the dot, with its folder */
    const char *extension;
    const unsigned char *at;
    size_t size;
};

struct tar {
    struct data_source source;
    struct data_picture picture;
    struct data_file *file;
    char path[200];
    int64_t n, room;
    struct member *members;
    /* Of .npy files: what each holds. */
    enum tcc_dtype dtype;
    int rank;
    int64_t dims[TCC_MAX_RANK];
};

static void tar_release(struct data_source *s)
{
    struct tar *t = (struct tar *)s;

    for (int64_t i = 0; i < t->n; i++)
        free(t->members[i].key);
    free(t->members);
    data_unref(t->file);
    free(t);
}

/* -- Headers ------------------------------------------------------------------------------------------------------- */

/* Octal digits, or GNU's base 256 (the first bit set); -1: neither. */
static int64_t number_of(const unsigned char *p, int n)
{
    int64_t v = 0;

    if (*p & 0x80) {
        for (int i = 1; i < n; i++)
            if (v >> 54 || (v = v << 8 | p[i]) < 0)
                return -1;
        return *p & 0x7f ? -1 : v;
    }
    while (n && *p == ' ')
        p++, n--;
    for (; n && *p >= '0' && *p <= '7'; p++, n--)
        v = v << 3 | (*p - '0');
    return n && *p && *p != ' ' ? -1 : v;
}

static bool sum_fits(const unsigned char *h)
{
    int64_t sum = 8 * ' ';

    for (int i = 0; i < 512; i++)
        sum += i >= 148 && i < 156 ? 0 : h[i];
    return number_of(h + 148, 8) == sum;
}

/* "LENGTH path=NAME\n" among a pax header's records. */
static char *pax_path(const unsigned char *p, size_t size)
{
    for (size_t at = 0; at < size;) {
        size_t length = 0, start = at;
        while (at < size && p[at] >= '0' && p[at] <= '9' && length < size)
            length = 10 * length + (size_t)(p[at++] - '0');
        if (length < at - start + 3 || length > size - start || p[at] != ' ')
            return NULL;
        if (length > at - start + 7 && !memcmp(p + at + 1, "path=", 5))
            return strndup((const char *)p + at + 6, start + length - 1 - (at + 6));
        at = start + length;
    }
    return NULL;
}

static char *plain_name(const unsigned char *h)
{
    char name[260];
    bool prefix = !memcmp(h + 257, "ustar", 5) && !memcmp(h + 263, "00", 2) && h[345];

    snprintf(name, sizeof name, "%.*s%s%.100s", prefix ? 155 : 0, (const char *)h + 345, prefix ? "/" : "",
             (const char *)h);
    return strdup(name);
}

/* Takes the name over. */
static bool add(struct tar *t, char *name, const unsigned char *at, size_t size)
{
    char *slash = strrchr(name, '/'), *dot = strchr(slash ? slash : name, '.');

    if (!dot || dot == name || dot[-1] == '/') { /* no extension, or a hidden file */
        free(name);
        return true;
    }
    if (!GROWN(t->members, t->n, t->room, 256)) {
        free(name);
        return false;
    }
    *dot = '\0';
    t->members[t->n++] = (struct member){name, dot + 1, at, size};
    return true;
}

/* One entry at *at; false after `error`. */
static bool read_entry(struct tar *t, size_t *at, char **next_name, char *error)
{
    const unsigned char *h = t->file->bytes + *at;
    int64_t size = number_of(h + 124, 12);
    char *name = NULL;

    if (!sum_fits(h) || size < 0 || (uint64_t)size > t->file->size - *at - 512)
        return put_error(error, "%s: the entry at byte %zu is %s", t->path, *at,
                         sum_fits(h) ? "larger than the rest of the archive: truncated" : "damaged");
    const unsigned char *content = h + 512;
    char kind = (char)h[156];
    *at += 512 + (size_t)(size + 511) / 512 * 512;
    if (kind == 'L' || kind == 'x') {
        free(*next_name);
        *next_name = kind == 'L' ? strndup((const char *)content, (size_t)size) : pax_path(content, (size_t)size);
        return true;
    }
    name = *next_name ? *next_name : plain_name(h);
    *next_name = NULL;
    bool file = kind == '0' || kind == '\0' || kind == '7';
    if (name && file && add(t, name, content, (size_t)size))
        return true;
    if (!file)
        free(name);
    else
        snprintf(error, ERROR_SIZE, "no memory");
    return !file;
}

static bool read_archive(struct tar *t, char *error)
{
    static const unsigned char zero[512];
    char *next_name = NULL;
    size_t at = 0;
    bool ok = true;

    while (ok && at + 512 <= t->file->size && memcmp(t->file->bytes + at, zero, 512))
        ok = read_entry(t, &at, &next_name, error);
    free(next_name);
    return ok;
}

/* -- Samples ------------------------------------------------------------------------------------------------------- */

/* The extension that the request is for; NULL: the archive has none. */
static const char *extension_for(const struct tar *t, const struct data_request *q)
{
    if (q->name)
        return q->name;
    for (int64_t i = 0; i < t->n; i++) {
        const char *e = t->members[i].extension;
        if (data_takes_pictures(q->info)  ? data_is_picture(e)
            : data_takes_classes(q->info) ? !strcmp(e, "cls") || !strcmp(e, "txt")
                                          : !strcmp(e, "npy"))
            return e;
    }
    return NULL;
}

/* Keeps the members with that extension, one a sample. */
static bool select_members(struct tar *t, const char *extension, char *error)
{
    int64_t kept = 0, samples = 0;
    const char *lacks = NULL;
    bool has = true;

    for (int64_t i = 0; i <= t->n; i++) {
        bool begins = i == t->n || !samples || strcmp(t->members[i].key, t->members[i - 1].key);
        if (begins && samples && !has && !lacks)
            lacks = t->members[i - 1].key;
        if (i == t->n)
            break;
        samples += begins;
        has = begins ? !strcmp(t->members[i].extension, extension) : has || !strcmp(t->members[i].extension, extension);
    }
    if (lacks)
        return put_error(error, "%s: sample '%.200s' has no file .%.60s", t->path, lacks, extension);
    for (int64_t i = 0; i < t->n; i++) {
        struct member m = t->members[i];
        if (!strcmp(m.extension, extension))
            t->members[kept++] = m;
        else
            free(m.key);
    }
    t->n = kept;
    return true;
}

static bool picture_row(const struct data_source *s, int64_t row, const struct data_draw *draw, void *to, char *error)
{
    const struct tar *t = (const struct tar *)s;
    const struct member *m = &t->members[row];
    char name[400];

    snprintf(name, sizeof name, "%s:%.120s.%.40s", t->path, m->key, m->extension);
    return data_picture_row(&t->picture, name, m->at, m->size, row, draw, to, error);
}

static bool class_row(const struct data_source *s, int64_t row, const struct data_draw *draw, void *to, char *error)
{
    const struct tar *t = (const struct tar *)s;
    const struct member *m = &t->members[row];
    char digits[24] = "", *end;

    (void)draw;
    memcpy(digits, m->at, m->size < sizeof digits - 1 ? m->size : sizeof digits - 1);
    int64_t v = strtoll(digits, &end, 10);
    while (*end == '\n' || *end == '\r' || *end == ' ')
        end++;
    if (end == digits || *end || m->size >= sizeof digits)
        return put_error(error, "%s:%.120s.%.40s: expected a class number in digits", t->path, m->key, m->extension);
    memcpy(to, &v, sizeof v);
    return true;
}

static bool array_row(const struct data_source *s, int64_t row, const struct data_draw *draw, void *to, char *error)
{
    const struct tar *t = (const struct tar *)s;
    const struct member *m = &t->members[row];
    struct npy_info h;
    size_t start = npy_describe(m->at, m->size, &h), bytes;
    bool same = start && h.dtype == t->dtype && h.rank == t->rank && !h.swap && !(h.fortran && h.rank > 1) &&
                !memcmp(h.dims, t->dims, (size_t)h.rank * sizeof *h.dims);

    (void)draw;
    bytes = same ? (size_t)tcc_elements(h.rank, h.dims) * (size_t)h.bytes : 0;
    if (!same || bytes > m->size - start)
        return put_error(error, "%s:%.120s.%.40s: %s", t->path, m->key, m->extension,
                         same ? "truncated" : "no .npy file of the first sample's type and shape");
    memcpy(to, m->at + start, bytes);
    return true;
}

static bool open_rows(struct tar *t, struct data_request *q, const char *extension, struct data_array *out, char *error)
{
    struct data_request own = *q;
    struct data_options plain = *q->o;
    struct npy_info h;
    int64_t dims[TCC_MAX_RANK] = {t->n};

    own.o = &plain;
    const char *last = strrchr(extension, '.');
    if (data_takes_classes(q->info) && strcmp(last ? last + 1 : extension, "npy") != 0) {
        t->source.row = class_row;
        return data_from_source(&own, &t->source, TCC_I64, 1, dims, out, error);
    }
    if (data_is_picture(extension)) {
        t->source.row = picture_row;
        plain.table = NULL;
        plain.means.n = plain.stds.n = 0; /* they are normalised by channel already */
        if (data_picture_for(q, &t->picture, dims + 1, error))
            return data_from_source(&own, &t->source, (enum tcc_dtype)t->picture.as.dtype, 4, dims, out, error);
        tar_release(&t->source);
        return false;
    }
    const struct member *m = &t->members[0];
    if (!npy_describe(m->at, m->size, &h) || h.rank >= TCC_MAX_RANK || tcc_elements(h.rank, h.dims) < 0) {
        snprintf(error, ERROR_SIZE, "%s: .%.60s: expected pictures, .cls, or .npy arrays, one a sample", t->path,
                 extension);
        tar_release(&t->source);
        return false;
    }
    t->source.row = array_row;
    t->dtype = h.dtype;
    t->rank = h.rank;
    memcpy(t->dims, h.dims, sizeof t->dims);
    memcpy(dims + 1, h.dims, (size_t)h.rank * sizeof *dims);
    return data_from_source(&own, &t->source, h.dtype, h.rank + 1, dims, out, error);
}

bool data_open_tar(struct data_request *q, struct data_array *out, bool *found, char *error)
{
    struct tar *t = calloc(1, sizeof *t);
    char extension[64] = "";

    *found = true;
    if (!t)
        return put_error(error, "no memory");
    t->source = (struct data_source){.refs = 1, .release = tar_release};
    t->file = q->file;
    t->file->refs++;
    snprintf(t->path, sizeof t->path, "%.190s", q->path);
    bool ok = read_archive(t, error);
    if (ok) {
        const char *e = extension_for(t, q);
        *found = e || q->named;
        snprintf(extension, sizeof extension, "%.60s", e ? e : "");
        ok = e && select_members(t, extension, error) && t->n;
        if (!e || (*error == '\0' && !t->n))
            snprintf(error, ERROR_SIZE, "%s: no file for input '%s': NAME=FILE:EXTENSION", t->path, q->info->name);
    }
    if (!ok) {
        tar_release(&t->source);
        return false;
    }
    return open_rows(t, q, extension, out, error);
}
