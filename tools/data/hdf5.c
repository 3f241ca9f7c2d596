/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datasets of HDF5 files, by libhdf5, opened at run time (the C interface of 1.10 and later, in which an identifier has
 * 64 bits; HDF5 Reference Manual, H5D, H5S, H5T). A row is read when it is asked for, as a hyperslab; the library is
 * not made for several threads, so one at a time. Floats become f32, or f64 where they have 64 bits; integers i64,
 * bytes u8.
 */
#include "tools/data/data_int.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef int64_t hid;

static struct hdf5 {
    bool tried, there;
    int (*open)(void);
    int (*set_auto)(hid, void *, void *);
    hid (*file_open)(const char *, unsigned, hid);
    int (*file_close)(hid);
    hid (*data_open)(hid, const char *, hid);
    int (*data_close)(hid);
    hid (*data_space)(hid);
    hid (*data_type)(hid);
    int (*data_read)(hid, hid, hid, hid, hid, void *);
    int (*space_close)(hid);
    int (*space_rank)(hid);
    int (*space_dims)(hid, uint64_t *, uint64_t *);
    int (*space_select)(hid, int, const uint64_t *, const uint64_t *, const uint64_t *, const uint64_t *);
    hid (*space_simple)(int, const uint64_t *, const uint64_t *);
    hid (*data_how)(hid);
    int (*how_external)(hid);
    int (*how_layout)(hid);
    int (*how_close)(hid);
    ssize_t (*file_name)(hid, char *, size_t);
    int (*type_close)(hid);
    int (*type_class)(hid);
    size_t (*type_size)(hid);
    int (*type_sign)(hid);
    const hid *f32, *f64, *i64, *u8;
} h5;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

enum { CLASS_INTEGER = 0, CLASS_FLOAT = 1, SELECT_SET = 0, LAYOUT_VIRTUAL = 3 };

struct dataset {
    struct data_source source;
    hid file, data, type; /* type: in memory */
    int rank;
    uint64_t dims[TCC_MAX_RANK];
    char name[256];
};

/* With the lock held. */
static bool load(void)
{
    static const char *const files[] = {
        "libhdf5_serial.so.103", "libhdf5.so.103", "libhdf5_serial.so.310", "libhdf5.so.310", "libhdf5.so.200",
        "libhdf5_serial.so",     "libhdf5.so"};
    const struct {
        const char *name;
        void **to;
    } names[] = {
        {"H5open", (void **)&h5.open},
        {"H5Eset_auto2", (void **)&h5.set_auto},
        {"H5Fopen", (void **)&h5.file_open},
        {"H5Fclose", (void **)&h5.file_close},
        {"H5Dopen2", (void **)&h5.data_open},
        {"H5Dclose", (void **)&h5.data_close},
        {"H5Dget_space", (void **)&h5.data_space},
        {"H5Dget_type", (void **)&h5.data_type},
        {"H5Dread", (void **)&h5.data_read},
        {"H5Sclose", (void **)&h5.space_close},
        {"H5Sget_simple_extent_ndims", (void **)&h5.space_rank},
        {"H5Sget_simple_extent_dims", (void **)&h5.space_dims},
        {"H5Sselect_hyperslab", (void **)&h5.space_select},
        {"H5Screate_simple", (void **)&h5.space_simple},
        {"H5Dget_create_plist", (void **)&h5.data_how},
        {"H5Pget_external_count", (void **)&h5.how_external},
        {"H5Pget_layout", (void **)&h5.how_layout},
        {"H5Pclose", (void **)&h5.how_close},
        {"H5Fget_name", (void **)&h5.file_name},
        {"H5Tclose", (void **)&h5.type_close},
        {"H5Tget_class", (void **)&h5.type_class},
        {"H5Tget_size", (void **)&h5.type_size},
        {"H5Tget_sign", (void **)&h5.type_sign},
        {"H5T_NATIVE_FLOAT_g", (void **)&h5.f32},
        {"H5T_NATIVE_DOUBLE_g", (void **)&h5.f64},
        {"H5T_NATIVE_LLONG_g", (void **)&h5.i64},
        {"H5T_NATIVE_UCHAR_g", (void **)&h5.u8},
    };
    void *library = NULL;

    if (h5.tried)
        return h5.there;
    h5.tried = true;
    for (size_t i = 0; i < sizeof files / sizeof *files && !library; i++)
        library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    h5.there = library != NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && h5.there; i++)
        h5.there = (*names[i].to = dlsym(library, names[i].name)) != NULL;
    h5.there = h5.there && h5.open() >= 0;
    if (h5.there)
        h5.set_auto(0, NULL, NULL); /* it prints nothing */
    return h5.there;
}

static void dataset_release(struct data_source *s)
{
    struct dataset *d = (struct dataset *)s;

    pthread_mutex_lock(&lock);
    if (d->data >= 0)
        h5.data_close(d->data);
    if (d->file >= 0)
        h5.file_close(d->file);
    pthread_mutex_unlock(&lock);
    free(d);
}

static bool read_slab(const struct dataset *d, int64_t row, void *to)
{
    uint64_t start[TCC_MAX_RANK] = {(uint64_t)row}, count[TCC_MAX_RANK];
    hid space = h5.data_space(d->data);

    memcpy(count, d->dims, sizeof count);
    count[0] = 1;
    hid memory = h5.space_simple(d->rank, count, NULL);
    bool ok = space >= 0 && memory >= 0 && h5.space_select(space, SELECT_SET, start, NULL, count, NULL) >= 0 &&
              h5.data_read(d->data, d->type, memory, space, 0, to) >= 0;
    if (space >= 0)
        h5.space_close(space);
    if (memory >= 0)
        h5.space_close(memory);
    return ok;
}

static bool dataset_row(const struct data_source *s, int64_t row, const struct data_draw *draw, void *to, char *error)
{
    const struct dataset *d = (const struct dataset *)s;

    (void)draw;
    pthread_mutex_lock(&lock);
    bool ok = read_slab(d, row, to);
    pthread_mutex_unlock(&lock);
    if (!ok)
        snprintf(error, ERROR_SIZE, "%s: row %lld cannot be read: damaged, or packed by a filter that is not installed",
                 d->name, (long long)row);
    return ok;
}

/* The type in memory and ours; TCC_NONE: it has none. */
static enum tcc_dtype type_of(struct dataset *d)
{
    hid type = h5.data_type(d->data);
    int class = type >= 0 ? h5.type_class(type) : -1;
    size_t size = type >= 0 ? h5.type_size(type) : 0;
    bool bytes = class == CLASS_INTEGER && size == 1 && h5.type_sign(type) == 0;

    if (type >= 0)
        h5.type_close(type);
    d->type = class == CLASS_FLOAT ? (size > 4 ? *h5.f64 : *h5.f32) : bytes ? *h5.u8 : *h5.i64;
    return class == CLASS_FLOAT     ? (size > 4 ? TCC_F64 : TCC_F32)
           : class != CLASS_INTEGER ? TCC_NONE
           : bytes                  ? TCC_U8
                                    : TCC_I64;
}

/* A dataset's name may be a link into another file, its elements may lie in others (raw ones, too: any file of the
 * machine), or be pieces of others' datasets. */
static bool is_own(const struct dataset *d, const char *path)
{
    hid how = h5.data_how(d->data);
    bool own = how >= 0 && h5.how_external(how) == 0 && h5.how_layout(how) != LAYOUT_VIRTUAL;
    char name[PATH_MAX];
    ssize_t n = h5.file_name(d->data, name, sizeof name);

    if (how >= 0)
        h5.how_close(how);
    return own && n > 0 && n < (ssize_t)sizeof name && !strcmp(name, path);
}

/* With the lock held: opens the dataset; false after `error`. */
static bool open_dataset(struct dataset *d, const struct data_request *q, const char *name, enum tcc_dtype *dtype,
                         bool *found, char *error)
{
    d->file = h5.file_open(q->path, 0, 0);
    d->data = d->file >= 0 ? h5.data_open(d->file, name, 0) : -1;
    hid space = d->data >= 0 ? h5.data_space(d->data) : -1;
    d->rank = space >= 0 ? h5.space_rank(space) : -1;
    bool dims = d->rank >= 1 && d->rank <= TCC_MAX_RANK && h5.space_dims(space, d->dims, NULL) == d->rank;
    if (space >= 0)
        h5.space_close(space);
    *dtype = d->data >= 0 ? type_of(d) : TCC_NONE;
    *found = d->file < 0 || d->data >= 0 || q->named;
    if (d->data >= 0 && !is_own(d, q->path))
        return put_error(error, "%s:%s: its elements lie in another file; only what the file itself holds is read",
                         q->path, name);
    if (d->file < 0 || d->data < 0)
        snprintf(error, ERROR_SIZE,
                 d->file < 0 ? "%s: damaged: no HDF5 file that libhdf5 reads" : "%s: no dataset '%s'", q->path, name);
    else if (!dims || *dtype == TCC_NONE)
        snprintf(error, ERROR_SIZE, "%s:%s: expected numbers on 1 to %d axes", q->path, name, TCC_MAX_RANK);
    return dims && *dtype != TCC_NONE;
}

bool data_open_hdf5(struct data_request *q, struct data_array *out, bool *found, char *error)
{
    const char *name = q->name ? q->name : q->info->name;
    struct dataset *d = calloc(1, sizeof *d);
    enum tcc_dtype dtype;
    int64_t dims[TCC_MAX_RANK];

    *found = true;
    if (!d)
        return put_error(error, "no memory");
    *d =
        (struct dataset){.source = {.refs = 1, .row = dataset_row, .release = dataset_release}, .file = -1, .data = -1};
    snprintf(d->name, sizeof d->name, "%.150s:%.90s", q->path, name);
    pthread_mutex_lock(&lock);
    bool there = load(), ok = there && open_dataset(d, q, name, &dtype, found, error);
    pthread_mutex_unlock(&lock);
    if (!there) {
        q->code = EXIT_ENVIRONMENT;
        snprintf(error, ERROR_SIZE,
                 "%s: HDF5 needs the library libhdf5 (Debian: libhdf5-103-1), which is not installed", q->path);
    }
    if (!ok) {
        dataset_release(&d->source);
        return false;
    }
    for (int i = 0; i < d->rank; i++)
        dims[i] = (int64_t)d->dims[i];
    if (tcc_elements(d->rank, dims) < 0) {
        snprintf(error, ERROR_SIZE, "%s: more elements than there can be", d->name);
        dataset_release(&d->source);
        return false;
    }
    return data_from_source(q, &d->source, dtype, d->rank, dims, out, error);
}
