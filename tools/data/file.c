/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays from files, told apart by their content: .npy (NumPy), IDX (the format of the MNIST files,
 * http://yann.lecun.com/exdb/mnist: two zero bytes, element type, rank, dims and elements big-endian), raw elements;
 * each may be packed by gzip. Files are mapped, so that data larger than memory works; what a pipe brings is kept.
 */
#include "tools/data/data_int.h"

#include "base/mutant.h"
#include "base/safe.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

struct data_file *data_take(unsigned char *bytes, size_t size, char *error)
{
    struct data_file *f = calloc(1, sizeof *f);
    if (!f) {
        free(bytes);
        return put_error(error, "no memory"), NULL;
    }
    *f = (struct data_file){1, bytes, size, false};
    return f;
}

void data_unref(struct data_file *f)
{
    if (!f || --f->refs > 0)
        return;
    if (f->mapped && f->size)
        munmap(f->bytes, f->size);
    else if (!f->mapped)
        free(f->bytes);
    free(f);
}

/* -- gzip ----------------------------------------------------------------------------------------- */

/* A byte of deflate becomes 1032 at most; and what is unpacked may take half of the machine's memory. */
static size_t most_unpacked(size_t packed)
{
    uint64_t pages = (uint64_t)sysconf(_SC_PHYS_PAGES), half = pages * (uint64_t)sysconf(_SC_PAGESIZE) / 2;

    return packed > half / 1040 ? (size_t)half : packed * 1040 + 64;
}

/* The size of a .npy file that begins so, by its header; 0: it does not say (another format). -1: more than
 * anything. */
static int64_t said_size(const unsigned char *head, size_t n)
{
    struct npy_info h;
    size_t start = npy_describe(head, n, &h);
    int64_t count = start ? tcc_elements(h.rank, h.dims) : 0, bytes;

    if (count < 0 || __builtin_mul_overflow(count, h.bytes, &bytes) ||
        __builtin_add_overflow(bytes, (int64_t)start, &bytes))
        return -1;
    return bytes;
}

/* Reads on up to `room` bytes in all; false: damaged. */
static bool read_up_to(gzFile in, unsigned char *bytes, size_t *size, size_t room)
{
    int got = 1;

    while (got > 0 && *size < room) {
        got = gzread(in, bytes + *size, room - *size > 1 << 30 ? 1 << 30 : (unsigned)(room - *size));
        *size += got > 0 ? (size_t)got : 0;
    }
    return got >= 0;
}

/* All that unpacks, `most` bytes at most. `why`: NULL, or what went wrong. */
static unsigned char *inflate_bounded(gzFile in, size_t most, size_t *size, const char **why)
{
    size_t room = 1 << 16;
    unsigned char *bytes = malloc(room), *grown;
    bool whole = bytes && read_up_to(in, bytes, size, room);
    int64_t said = whole ? said_size(bytes, *size) : 0;

    if (said > 0 && (uint64_t)said <= most)
        most = (size_t)said;
    *why = !bytes ? "no memory" : said < 0 || (uint64_t)said > most ? "truncated, or too large for this machine" : NULL;
    while (!*why && whole && *size == room) {
        room = said > 0 ? (size_t)said + 1 : room < most / 2 ? 2 * room : most + 1;
        if (room <= *size || *size > most)
            *why = said > 0 ? "it holds more than its header says" : "too large for this machine when unpacked";
        else if (!(grown = realloc(bytes, room)))
            *why = "no memory";
        else
            whole = read_up_to(in, bytes = grown, size, room);
    }
    if (!*why && said > 0 && *size > (size_t)said)
        *why = "it holds more than its header says";
    if (!*why && !whole)
        *why = "truncated or damaged gzip data";
    return bytes;
}

/* What `in` brings, which is closed; NULL: it could not be opened. */
static struct data_file *unpacked(const char *path, gzFile in, size_t most, char *error)
{
    const char *why = "cannot be opened";
    size_t size = 0;
    unsigned char *bytes = in ? inflate_bounded(in, most, &size, &why) : NULL;

    if (in && gzclose(in) != Z_OK && !why)
        why = "truncated or damaged gzip data";
    if (!why)
        return data_take(bytes, size, error);
    free(bytes);
    return put_error(error, "%s: %s", path, why), NULL;
}

/* -- Pipes ------------------------------------------------------------------------------------------ */

/* What came of pipes (standard input, a shell's <(COMMAND)), or why nothing did: a file is opened once for each input
 * that it may feed, and a pipe is empty then. */
static pthread_mutex_t piping = PTHREAD_MUTEX_INITIALIZER;
static struct piped {
    dev_t dev;
    ino_t ino;
    struct data_file *file;
    struct piped *next;
    char error[ERROR_SIZE];
} * pipes;

/* Packed or not: zlib sees. */
static struct data_file *read_pipe(const char *path, int fd, char *error)
{
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    gzFile in = own < 0 ? NULL : gzdopen(own, "rb");

    if (!in && own >= 0)
        close(own);
    return unpacked(path, in, most_unpacked(SIZE_MAX), error);
}

static struct data_file *map_pipe(const char *path, int fd, const struct stat *st, char *error)
{
    struct piped *p;

    pthread_mutex_lock(&piping);
    for (p = pipes; p && (p->dev != st->st_dev || p->ino != st->st_ino); p = p->next)
        ;
    if (!p && (p = calloc(1, sizeof *p))) {
        p->dev = st->st_dev;
        p->ino = st->st_ino;
        p->file = read_pipe(path, fd, p->error);
        p->next = pipes;
        pipes = p;
    }
    if (p && p->file)
        p->file->refs++;
    else
        put_error(error, "%s", p ? p->error : "no memory");
    pthread_mutex_unlock(&piping);
    return p ? p->file : NULL;
}

int data_map_code(void)
{
    return errno == ENOMEM || errno == EMFILE || errno == ENFILE ? EXIT_ENVIRONMENT : EXIT_DATA;
}

struct data_file *data_map(const char *path, char *error)
{
    static unsigned char nothing[1]; /* what an empty file holds: pointers are made of the bytes' address */
    struct data_file *f = calloc(1, sizeof *f);
    struct stat st;
    int fd = f ? tcr_open_input(path, true) : -1;

    if (fd < 0 || fstat(fd, &st) != 0) {
        snprintf(error, ERROR_SIZE, "cannot open '%s': %s", path,
                 !f                                   ? "no memory"
                 : errno == EINVAL || errno == EISDIR ? "it is not a file"
                                                      : strerror(errno));
        int why = f ? errno : ENOMEM;
        if (fd >= 0)
            close(fd);
        free(f);
        errno = why;
        return NULL;
    }
    if (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)) {
        free(f);
        f = map_pipe(path, fd, &st, error);
        close(fd);
        return f;
    }
    *f = (struct data_file){1, NULL, (size_t)st.st_size, true};
    void *map = f->size ? mmap(NULL, f->size, PROT_READ, MAP_PRIVATE, fd, 0) : nothing;
    close(fd);
    if (map == MAP_FAILED) {
        int why = errno;
        snprintf(error, ERROR_SIZE, "cannot map '%s': %m", path);
        free(f);
        errno = why;
        return NULL;
    }
    f->bytes = map;
    if (f->size < 2 || f->bytes[0] != 0x1f || f->bytes[1] != 0x8b)
        return f;
    size_t packed = f->size;
    data_unref(f);
    return unpacked(path, gzopen(path, "rbe"), most_unpacked(packed), error);
}

/* -- Formats -------------------------------------------------------------------------------------- */

/* The array's elements begin at `start`; do they end inside the file? */
static bool place(const char *path, const struct data_file *f, size_t start, struct data_array *a, char *error)
{
    int64_t n = tcc_elements(a->rank, a->dims);
    if (n < 0 || (uint64_t)n > MUTANT(64, (f->size - start) / (size_t)tcc_dtype_bytes(a->dtype), UINT64_MAX))
        return put_error(error, "%s: truncated: the file ends before its last element", path);
    a->at = f->bytes + start;
    return true;
}

/* Samples of whole arrays: on axis `axis` of what they are, but IDX's are always the first. */
static bool place_samples(const char *path, const struct tccrt_value_info *info, int axis, struct data_array *a,
                          char *error)
{
    int64_t inner = 1;

    a->axis = (a->reshape || a->source) && axis > 0 ? 0 : axis;
    if (a->axis >= a->rank)
        return put_error(error, "%s: input '%s': expected samples on axis %d, got an array of rank %d", path,
                         info->name, a->axis, a->rank);
    for (int i = a->axis + 1; i < a->rank && a->axis >= 0; i++)
        inner *= a->dims[i];
    a->outer = inner ? data_row_elements(a) / inner : 1;
    a->stride = a->axis < 0 ? 0 : inner;
    a->jump = a->axis < 0 ? 0 : inner * a->dims[a->axis];
    if (a->axis < 0)
        a->outer = 1;
    return true;
}

static bool read_npy(const char *path, const struct data_file *f, struct data_array *a, char *error)
{
    struct npy_info h;
    size_t start = npy_describe(f->bytes, f->size, &h);
    if (!start)
        return put_error(error, "%s: not a .npy file of numbers with at most %d axes", path, TCC_MAX_RANK);
    if (h.fortran && h.rank > 1)
        return put_error(error, "%s: it is in column-major order; save numpy.ascontiguousarray() of it", path);
    a->dtype = h.dtype;
    a->swap = h.swap;
    a->rank = h.rank;
    memcpy(a->dims, h.dims, sizeof a->dims);
    return place(path, f, start, a, error);
}

static enum tcc_dtype idx_dtype(unsigned char code)
{
    static const enum tcc_dtype types[] = {TCC_U8, TCC_I8, TCC_NONE, TCC_I16, TCC_I32, TCC_F32, TCC_F64};
    return code >= 8 && code <= 14 ? types[code - 8] : TCC_NONE;
}

static bool is_idx(const struct data_file *f)
{
    const unsigned char *b = f->bytes;
    return f->size >= 8 && !b[0] && !b[1] && idx_dtype(b[2]) != TCC_NONE && b[3] >= 1 && b[3] <= TCC_MAX_RANK &&
           f->size >= 4 + 4 * (size_t)b[3];
}

/* Does the array end where the file does? Raw elements that begin like a header don't. */
static bool idx_fills(const struct data_file *f)
{
    const unsigned char *b = f->bytes;
    uint64_t bytes = (uint64_t)tcc_dtype_bytes(idx_dtype(b[2])), dim;

    for (int i = 0; i < b[3]; i++) {
        dim = (uint64_t)b[4 + 4 * i] << 24 | (uint64_t)b[5 + 4 * i] << 16 | (uint64_t)b[6 + 4 * i] << 8 | b[7 + 4 * i];
        if (__builtin_mul_overflow(bytes, dim, &bytes))
            return false;
    }
    return bytes == f->size - 4 - 4 * (size_t)b[3];
}

/* Images of unsigned bytes become floats in [0, 1] where the input is of floats. */
static bool read_idx(const char *path, const struct data_file *f, struct data_array *a, char *error)
{
    const unsigned char *b = f->bytes;
    a->dtype = idx_dtype(b[2]);
    a->swap = tcc_dtype_bytes(a->dtype) > 1;
    a->reshape = true;
    a->rank = b[3];
    for (int i = 0; i < a->rank; i++)
        a->dims[i] = (int64_t)b[4 + 4 * i] << 24 | b[5 + 4 * i] << 16 | b[6 + 4 * i] << 8 | b[7 + 4 * i];
    if (a->dtype == TCC_U8)
        a->scale = 1.0 / MUTANT(63, 255, 256);
    return place(path, f, 4 + 4 * (size_t)a->rank, a, error);
}

/* Raw elements are a list of them, which is cut into samples. */
static void read_raw(const struct data_file *f, const struct data_options *o, struct data_array *a)
{
    a->dtype = o->dtype;
    a->reshape = true;
    a->windows = true;
    a->rank = 1;
    a->dims[0] = (int64_t)(f->size / (size_t)tcc_dtype_bytes(o->dtype));
    a->at = f->bytes;
}

/* Cuts a list of elements: sample k has `length` elements from element offset + k * stride on. */
static bool cut_samples(const char *path, const struct data_options *o, const struct tccrt_value_info *info,
                        struct data_array *a, char *error)
{
    int64_t dims[TCC_MAX_RANK] = {0}, length = o->length, n = a->dims[0];
    int rank = o->axis < 0 ? -1 : data_other_dims(info->rank, info->dims, o->axis, dims + 1);
    int64_t fixed = rank < 0 ? -1 : tcc_elements(rank, dims + 1);
    bool known = fixed >= 0;

    if (o->axis < 0)
        return put_error(
            error,
            "%s: raw elements, length=, stride= and offset= are of samples; input '%s' has none (--split-axis): "
            "give it a .npy file",
            path, info->name);
    if (a->source)
        return put_error(
            error,
            "%s: length=, stride= and offset= cut samples out of an array in a file; its rows are made one by one",
            path);
    if (a->rank != 1)
        return put_error(error,
                         "%s: length=, stride= and offset= cut samples out of an array of rank 1; this one has rank %d",
                         path, a->rank);
    if (!length && !known)
        return put_error(error, "%s: how long is a sample of input '%s'? Add ,length=N", path, info->name);
    length = length ? length : fixed;
    a->stride = o->stride ? o->stride : length;
    n -= o->offset;
    if (length < 1 || n < length)
        return put_error(error, "%s: %lld elements are too few for a sample of %lld", path, (long long)(n < 0 ? 0 : n),
                         (long long)length);
    a->windows = true;
    a->axis = 0;
    a->outer = 1;
    a->jump = 0;
    dims[0] = (n - length) / a->stride + MUTANT(62, 1, 0);
    a->rank = known && fixed == length ? 1 + rank : 2;
    if (!known || fixed != length)
        dims[1] = length;
    memcpy(a->dims, dims, sizeof dims);
    a->at += (size_t)o->offset * (size_t)tcc_dtype_bytes(a->dtype);
    return true;
}

bool data_apply(const char *path, const struct data_options *given, const struct tccrt_value_info *info,
                struct data_array *a, char *error)
{
    struct data_options own = *given;
    const struct data_options *o = &own;
    bool cut = o->length || o->stride || o->offset;

    if (tcc_is_float((enum tcc_dtype)info->dtype) && !data_table_scaling(path, &own, a->dtype, error))
        return false;
    if (o->dtype != TCC_NONE && o->dtype != a->dtype)
        return put_error(error, "%s: expected dtype %s, got %s", path, tcc_dtype_name(o->dtype),
                         tcc_dtype_name(a->dtype));
    if (cut || a->windows ? !cut_samples(path, o, info, a, error) : !place_samples(path, info, o->axis, a, error))
        return false;
    if (o->means.n > 1 || o->stds.n > 1)
        return put_error(error, "%s: several numbers of mean= and std= are for the channels of pictures", path);
    if (o->scaled)
        a->scale = o->scale;
    a->scaled = o->scaled || a->scale != 1;
    a->mean = o->means.n ? o->means.at[0] : 0;
    a->std = o->stds.n ? o->stds.at[0] : 1;
    if (o->limit && a->axis >= 0 && a->dims[a->axis] > o->limit)
        a->dims[a->axis] = o->limit;
    return true;
}

bool data_array_read(const char *path, struct data_file *f, const struct data_options *o,
                     const struct tccrt_value_info *info, struct data_array *out, char *error)
{
    bool ok = true;

    *out = (struct data_array){.scale = 1, .std = 1};
    snprintf(out->name, sizeof out->name, "%s", path);
    if (f->size >= 6 && memcmp(f->bytes, "\x93NUMPY", 6) == 0) {
        ok = read_npy(path, f, out, error);
    } else if (is_idx(f) && (o->dtype == TCC_NONE || idx_fills(f))) {
        ok = read_idx(path, f, out, error);
    } else if (o->dtype != TCC_NONE) {
        read_raw(f, o, out);
    } else {
        snprintf(
            error, ERROR_SIZE,
            "%s: neither .npz, .npy nor IDX; raw elements need their type: NAME=FILE,dtype=u16; a prefix names other "
            "readers: NAME=text:FILE",
            path);
        ok = false;
    }
    if (!ok || !data_apply(path, o, info, out, error))
        return false;
    out->file = f;
    f->refs++;
    return true;
}
