/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which reader takes a file, and shards: the files that a pattern matches, in the order of their names, are one array
 * whose rows are those of the first file, then of the second.
 */
#include "tools/data/data_int.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct reader_row {
    const char *suffixes;
    bool all, looks;
    bool (*open)(struct data_request *q, struct data_array *out, bool *found, char *error);
} readers[] = {
#define READER(id, prefix, suffixes, keys, all, looks, text) {suffixes, all, looks, data_open_##id},
#include "tools/data/readers.def"
};

/* -- Formats ---------------------------------------------------------------------------------------------------- */

static bool begins(const struct data_file *f, size_t at, const char *bytes, size_t n)
{
    return f && f->size >= at + n && !memcmp(f->bytes + at, bytes, n);
}

/* By what the file holds; -1: that says nothing. */
static int reader_by_content(const struct data_file *f)
{
    return begins(f, 0, "\x89HDF\r\n\x1a\n", 8) ? READER_hdf5
           : begins(f, 0, "PAR1", 4)            ? READER_parquet
           : f && data_zip_is(f)                ? READER_npz
           : begins(f, 0, "\x93NUMPY", 6)       ? READER_array
           : begins(f, 257, "ustar", 5)         ? READER_tar
                                                : -1;
}

static bool has_suffix(const char *path, const char *suffixes)
{
    size_t n = strlen(path);

    n -= n > 3 && !strcmp(path + n - 3, ".gz") ? 3 : 0;
    for (const char *s = suffixes; *s; s += strcspn(s, " ") + 1) {
        size_t k = strcspn(s, " ");
        if (n > k && !strncmp(path + n - k, s, k))
            return true;
    }
    return false;
}

int data_reader_of(const char *path, const struct data_file *f, int asked)
{
    int id = asked >= 0 ? asked : f ? reader_by_content(f) : READER_folder;
    const char *dot = strrchr(path, '.');

    if (id < 0 && dot && (data_is_picture(dot + 1) || data_is_other_picture(dot + 1)))
        id = READER_folder;
    for (int i = 0; i < NREADERS && id < 0; i++)
        if (has_suffix(path, readers[i].suffixes))
            id = i;
    return id < 0 ? READER_array : id;
}

bool data_reader_feeds_all(int reader)
{
    return readers[reader].all;
}

bool data_open_array(struct data_request *q, struct data_array *out, bool *found, char *error)
{
    *found = true;
    if (q->name)
        return put_error(error, "%s:%s: only archives (.npz, .h5, .csv, .tar) have named arrays", q->path, q->name);
    return data_array_read(q->path, q->file, q->o, q->info, out, error);
}

/* The array of that name; without one the input's, else (--data NAME=FILE) the only one, whatever its name. */
bool data_open_npz(struct data_request *q, struct data_array *out, bool *found, char *error)
{
    const char *name = q->name ? q->name : q->info->name;
    bool ok = data_zip_array(q->path, q->file, name, q->o, q->info, out, found, error);

    if (!ok && !*found && q->named && !q->name)
        ok = data_zip_array(q->path, q->file, NULL, q->o, q->info, out, found, error);
    return ok;
}

bool data_open_parquet(struct data_request *q, struct data_array *out, bool *found, char *error)
{
    (void)out;
    *found = true;
    return put_error(error,
                     "%s: Parquet is not read; convert it: python3 -c \"import pandas; "
                     "pandas.read_parquet('%.200s').to_csv('table.csv', index=False)\", then --data table.csv",
                     q->path, q->path);
}

/* -- Arrays of what a reader has ----------------------------------------------------------------------------------- */

static struct data_array new_array(const struct data_request *q, enum tcc_dtype dtype, int rank, const int64_t *dims)
{
    struct data_array a = {.scale = 1, .std = 1, .dtype = dtype, .rank = rank};

    memcpy(a.dims, dims, (size_t)rank * sizeof *dims);
    snprintf(a.name, sizeof a.name, q->name ? "%.150s:%.100s" : "%.250s", q->path, q->name);
    return a;
}

bool data_from_source(const struct data_request *q, struct data_source *s, enum tcc_dtype dtype, int rank,
                      const int64_t *dims, struct data_array *out, char *error)
{
    *out = new_array(q, dtype, rank, dims);
    s->refs = 1;
    out->source = s;
    if (q->o->axis < 0) {
        snprintf(error, ERROR_SIZE, "%s: holds samples; input '%s' has none (--split-axis): give it a .npy file",
                 out->name, q->info->name);
        data_release(out);
        return false;
    }
    if (data_apply(q->path, q->o, q->info, out, error))
        return true;
    data_release(out);
    return false;
}

bool data_from_memory(const struct data_request *q, void *elements, enum tcc_dtype dtype, int rank, const int64_t *dims,
                      struct data_array *out, char *error)
{
    int64_t n = tcc_elements(rank, dims);

    *out = new_array(q, dtype, rank, dims);
    out->file = data_take(elements, (size_t)n * (size_t)tcc_dtype_bytes(dtype), error);
    if (!out->file)
        return false;
    out->at = out->file->bytes;
    if (data_apply(q->path, q->o, q->info, out, error))
        return true;
    data_release(out);
    return false;
}

void data_release(struct data_array *a)
{
    if (a->source && --a->source->refs == 0)
        a->source->release(a->source);
    data_unref(a->file);
    a->source = NULL;
    a->file = NULL;
}

/* -- Shards -------------------------------------------------------------------------------------------------------- */

struct shards {
    struct data_source source;
    int n;
    int64_t *first; /* [n + 1]: the number of each one's first row */
    struct data_array *arrays;
};

static void shards_release(struct data_source *s)
{
    struct shards *x = (struct shards *)s;

    for (int i = 0; x->arrays && i < x->n; i++)
        data_release(&x->arrays[i]);
    free(x->arrays);
    free(x->first);
    free(x);
}

/* The last one that begins at the row or before it. */
static int shard_of(const struct shards *x, int64_t row)
{
    int low = 0, high = x->n;

    while (high - low > 1) {
        int middle = (low + high) / 2;
        *(x->first[middle] <= row ? &low : &high) = middle;
    }
    return low;
}

static const char *shards_name(const struct data_source *s, int64_t row)
{
    const struct shards *x = (const struct shards *)s;
    int k = shard_of(x, row);
    const struct data_source *own = x->arrays[k].source;

    return own && own->name ? own->name(own, row - x->first[k]) : NULL;
}

static bool shards_row(const struct data_source *s, int64_t row, const struct data_draw *draw, void *to, char *error)
{
    const struct shards *x = (const struct shards *)s;
    int low = shard_of(x, row);
    const struct data_array *a = &x->arrays[low];
    size_t bytes = (size_t)tcc_dtype_bytes(a->dtype);
    if (a->source)
        return a->source->row(a->source, row - x->first[low], draw, to, error);
    memcpy(to, a->at + (size_t)((row - x->first[low]) * a->stride) * bytes, (size_t)data_row_elements(a) * bytes);
    return true;
}

static bool alike(const struct data_array *a, const struct data_array *b)
{
    return a->dtype == b->dtype && a->swap == b->swap && a->rank == b->rank && a->scale == b->scale &&
           !memcmp(a->dims + 1, b->dims + 1, (size_t)(a->rank > 1 ? a->rank - 1 : 0) * sizeof *a->dims);
}

static void dims_text(const struct data_array *a, char *to, size_t room)
{
    size_t used = (size_t)snprintf(to, room, "%s[", tcc_dtype_name(a->dtype));

    for (int i = 1; i < a->rank && used < room - 30; i++)
        used += (size_t)snprintf(to + used, room - used, "%s%lld", i > 1 ? ", " : "", (long long)a->dims[i]);
    snprintf(to + used, room - used, "]");
}

/* Scales are encode='s. */
static bool has_phase(const struct data_options *o, int phase)
{
    return phase != PHASE_SCALES || o->encode;
}

/* The phases from..to of reading a file; a reader that looks for nothing before has the last one only. */
static bool read_file(struct data_request *q, int asked, enum data_phase from, enum data_phase to,
                      struct data_array *out, bool *found, char *error)
{
    struct stat st;
    bool folder = stat(q->path, &st) == 0 && S_ISDIR(st.st_mode), ok = true;

    *found = true;
    q->file = folder ? NULL : data_map(q->path, error);
    if (!q->file && !folder) {
        q->code = data_map_code();
        return false;
    }
    const struct reader_row *r = &readers[data_reader_of(q->path, q->file, asked)];
    for (int phase = (int)from; ok && phase <= (int)to; phase++) {
        q->phase = (enum data_phase)phase;
        if (phase == PHASE_ROWS || (r->looks && has_phase(q->o, phase)))
            ok = r->open(q, out, found, error);
    }
    data_unref(q->file);
    q->file = NULL;
    return ok;
}

/* What all shards hold, before rows of any are read. */
static bool look_at_shards(const struct data_request *q, int asked, const glob_t *g, bool *found, char *error)
{
    struct data_array none;
    bool ok = true, looks = !q->o->table->ncolumns;

    for (int phase = PHASE_COLUMNS; looks && phase < PHASE_ROWS; phase++)
        for (size_t i = 0; ok && looks && has_phase(q->o, phase) && i < g->gl_pathc; i++) {
            struct data_request own = *q;
            own.path = g->gl_pathv[i];
            ok = read_file(&own, asked, (enum data_phase)phase, (enum data_phase)phase, &none, found, error);
            looks = q->o->table->ncolumns > 0;
        }
    return ok;
}

static bool read_shard(const struct data_request *q, int asked, const char *path, struct shards *x, bool *found,
                       char *error)
{
    struct data_request own = *q;
    struct data_options o = *q->o;
    struct data_array *a = &x->arrays[x->n];
    char want[200], got[200];

    own.path = path;
    own.o = &o;
    o.limit = 0; /* it is for all of them */
    if (!read_file(&own, asked, PHASE_ROWS, PHASE_ROWS, a, found, error))
        return false;
    x->n++;
    if (a->axis != 0 || a->windows)
        return put_error(error, "%s: shards have their samples first, one after the other", path);
    if (!alike(&x->arrays[0], a)) {
        dims_text(&x->arrays[0], want, sizeof want);
        dims_text(a, got, sizeof got);
        return put_error(error, "%s: expected samples of %s as in %s, got %s", path, want, x->arrays[0].name, got);
    }
    x->first[x->n] = x->first[x->n - 1] + a->dims[0];
    return true;
}

static bool read_shards(struct data_request *q, int asked, const glob_t *g, struct data_array *out, bool *found,
                        char *error)
{
    struct shards *x = calloc(1, sizeof *x);
    bool ok = x != NULL;

    if (!look_at_shards(q, asked, g, found, error)) {
        free(x);
        return false;
    }
    if (x) {
        x->source = (struct data_source){.refs = 1, .row = shards_row, .name = shards_name, .release = shards_release};
        x->arrays = calloc(g->gl_pathc, sizeof *x->arrays);
        x->first = calloc(g->gl_pathc + 1, sizeof *x->first);
        ok = x->arrays && x->first;
    }
    if (!ok)
        snprintf(error, ERROR_SIZE, "no memory");
    for (size_t i = 0; ok && i < g->gl_pathc; i++)
        ok = read_shard(q, asked, g->gl_pathv[i], x, found, error);
    if (!ok) {
        if (x)
            shards_release(&x->source);
        return false;
    }
    struct data_array *first = &x->arrays[0];
    *out = *first;
    out->file = NULL;
    out->source = &x->source;
    out->at = NULL;
    out->dims[0] = x->first[x->n];
    if (q->o->limit && out->dims[0] > q->o->limit)
        out->dims[0] = q->o->limit;
    snprintf(out->name, sizeof out->name, q->name ? "%.150s:%.100s" : "%.250s", q->path, q->name);
    return true;
}

bool data_read(struct data_request *q, int reader, struct data_array *out, bool *found, char *error)
{
    glob_t g;

    q->code = EXIT_DATA;
    *found = true;
    if (!data_words_glob(q->path))
        return read_file(q, reader, q->o->table->ncolumns ? PHASE_ROWS : PHASE_COLUMNS, PHASE_ROWS, out, found, error);
    int status = glob(q->path, 0, NULL, &g);
    bool ok = !status && read_shards(q, reader, &g, out, found, error);
    if (status)
        snprintf(error, ERROR_SIZE, "%s: no file has such a name", q->path);
    else
        globfree(&g);
    return ok;
}
