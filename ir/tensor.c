/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensor.c - constant tensors: owned, splat, or a range of a mapped file.
 *
 * Files are mapped read-only and counted, so that gigabytes of weights are neither read nor copied until a target lays
 * them out. Counters are atomic: contexts of different threads may share tensors. The characters of string elements are
 * malloc'd, as tccrt_string_set does.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "ir/ir.h"

/* -- Files ------------------------------------------------------------------------------ */

struct ir_file {
    int refs;
    uint64_t size;
    void *data; /* NULL: empty file */
    char *path;
};

static void *map_file(int fd, uint64_t *size, char *error, size_t error_size)
{
    struct stat st;
    if (fstat(fd, &st)) {
        snprintf(error, error_size, "%s", strerror(errno));
        return MAP_FAILED;
    }
    if (!S_ISREG(st.st_mode)) {
        snprintf(error, error_size, "not a regular file");
        errno = EINVAL;
        return MAP_FAILED;
    }
    *size = (uint64_t)st.st_size;
    if (*size == 0)
        return NULL;
    void *data = mmap(NULL, (size_t)*size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        snprintf(error, error_size, "%s", strerror(errno));
    return data;
}

struct ir_file *ir_file_open(const char *path, char *error, size_t error_size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        snprintf(error, error_size, "%s", strerror(errno));
        return NULL;
    }
    struct ir_file *file = malloc(sizeof *file);
    if (file && !(file->path = strdup(path))) {
        free(file);
        file = NULL;
    }
    if (!file)
        snprintf(error, error_size, "no memory");
    else
        file->data = map_file(fd, &file->size, error, error_size);
    int why = file ? errno : ENOMEM;
    close(fd);
    if (file && file->data == MAP_FAILED) {
        free(file->path);
        free(file);
        file = NULL;
    }
    if (file)
        file->refs = 1;
    else
        errno = why;
    return file;
}

struct ir_file *ir_file_get(struct ir_ctx *ctx, const char *path, char *error, size_t error_size)
{
    struct ir_file *file = ir_file_open(path, error, error_size);
    if (!file && errno == ENOMEM)
        ir_no_memory(ctx);
    return file;
}

static struct ir_file *ir_file_ref(struct ir_file *file)
{
    if (file)
        __atomic_add_fetch(&file->refs, 1, __ATOMIC_RELAXED);
    return file;
}

void ir_file_unref(struct ir_file *file)
{
    if (!file || __atomic_sub_fetch(&file->refs, 1, __ATOMIC_ACQ_REL))
        return;
    if (file->data)
        munmap(file->data, (size_t)file->size);
    free(file->path);
    free(file);
}

const char *ir_file_path(const struct ir_file *file)
{
    return file->path;
}

const uint8_t *ir_file_data(const struct ir_file *file)
{
    return file->data;
}

uint64_t ir_file_size(const struct ir_file *file)
{
    return file->size;
}

void ir_tensor_cool(const struct ir_tensor *t)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)t->data, to = from + t->bytes;
    from = (from + page - 1) / page * page;
    to = to / page * page;
    if (t->file && to > from)
        madvise((void *)from, to - from, MADV_DONTNEED); /* clean pages of a private mapping that nobody writes */
}

/* -- Tensors ---------------------------------------------------------------------------- */

/* Without data. NULL: bad rank or dims, or no memory. */
static struct ir_tensor *tensor_header(enum tcc_dtype dtype, int rank, const int64_t *dims)
{
    int64_t n, size = tcc_dtype_bytes(dtype);
    if (rank < 0 || rank > TCC_MAX_RANK || size == 0 || (n = tcc_elements(rank, dims)) < 0)
        return NULL;
    struct ir_tensor *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->refs = 1;
    t->dtype = (uint8_t)dtype;
    t->rank = (uint8_t)rank;
    if (rank)
        memcpy(t->dims, dims, (size_t)rank * sizeof *dims);
    t->nelems = n;
    t->bytes = (uint64_t)(t->nelems * size);
    return t;
}

static void *zeroed(uint64_t bytes)
{
    void *p;
    if (bytes > SIZE_MAX / 2 || posix_memalign(&p, 64, bytes ? (size_t)bytes : 64))
        return NULL;
    return memset(p, 0, (size_t)bytes);
}

struct ir_tensor *ir_tensor_new(enum tcc_dtype dtype, int rank, const int64_t *dims)
{
    struct ir_tensor *t = tensor_header(dtype, rank, dims);
    if (t && !(t->data = zeroed(t->bytes))) {
        free(t);
        return NULL;
    }
    return t;
}

struct ir_tensor *ir_tensor_splat(enum tcc_dtype dtype, int rank, const int64_t *dims, const void *element)
{
    struct ir_tensor *t = tensor_header(dtype, rank, dims);
    if (!t)
        return NULL;
    t->bytes = (uint64_t)tcc_dtype_bytes(dtype);
    t->splat = true;
    void *data = zeroed(t->bytes);
    if (!data) {
        free(t);
        return NULL;
    }
    if (dtype == TCC_STRING) {
        const struct tcc_string *from = element;
        struct tcc_string *to = data;
        to->size = from->size;
        to->data = malloc(from->size ? (size_t)from->size : 1);
        if (!to->data) {
            free(data);
            free(t);
            return NULL;
        }
        if (from->size)
            memcpy(to->data, from->data, (size_t)from->size);
    } else {
        memcpy(data, element, (size_t)t->bytes);
    }
    t->data = data;
    return t;
}

/* Bits of an element in a file; types narrower than a byte are packed there, low bits first. */
static int file_bits(enum tcc_dtype d)
{
    switch (d) {
    case TCC_U4:
    case TCC_I4:
    case TCC_F4E2M1: return 4;
    case TCC_U2:
    case TCC_I2: return 2;
    case TCC_STRING: return 0;
    default: return 8 * tcc_dtype_bytes(d);
    }
}

static struct ir_tensor *unpacked(struct ir_tensor *t, const uint8_t *packed, int bits)
{
    uint8_t *data = zeroed(t->bytes);
    if (!data) {
        free(t);
        return NULL;
    }
    for (int64_t i = 0; i < t->nelems; i++) {
        int per = 8 / bits, shift = (int)(i % per) * bits;
        uint8_t code = (uint8_t)(packed[i / per] >> shift & ((1 << bits) - 1));
        if (t->dtype == TCC_F4E2M1)
            data[i] = code;
        else
            tcc_store_i64((enum tcc_dtype)t->dtype, &data[i], code);
    }
    t->data = data;
    return t;
}

struct ir_tensor *ir_tensor_file(enum tcc_dtype dtype, int rank, const int64_t *dims, struct ir_file *file,
                                 uint64_t offset)
{
    struct ir_tensor *t = tensor_header(dtype, rank, dims);
    int bits = file_bits(dtype);
    if (!t)
        return NULL;
    uint64_t need = bits < 8 ? ((uint64_t)t->nelems * (uint64_t)bits + 7) / 8 : t->bytes;
    if (bits == 0 || offset > file->size || need > file->size - offset) {
        free(t);
        return NULL;
    }
    const uint8_t *at = file->data ? (const uint8_t *)file->data + offset : NULL;
    if (bits < 8)
        return unpacked(t, at, bits);
    if (!at) { /* no elements, and an empty file */
        if (!(t->data = zeroed(0))) {
            free(t);
            return NULL;
        }
        return t;
    }
    t->data = at;
    t->file = ir_file_ref(file);
    return t;
}

struct ir_tensor *ir_tensor_scalar_f(enum tcc_dtype dtype, double v)
{
    struct ir_tensor *t = ir_tensor_new(dtype, 0, NULL);
    if (t)
        tcc_store_f64(dtype, (void *)t->data, v);
    return t;
}

struct ir_tensor *ir_tensor_scalar_i(enum tcc_dtype dtype, int64_t v)
{
    struct ir_tensor *t = ir_tensor_new(dtype, 0, NULL);
    if (t)
        tcc_store_i64(dtype, (void *)t->data, v);
    return t;
}

struct ir_tensor *ir_tensor_ints(int64_t n, const int64_t *values)
{
    struct ir_tensor *t = ir_tensor_new(TCC_I64, 1, &n);
    if (t && n)
        memcpy((void *)t->data, values, (size_t)t->bytes);
    return t;
}

struct ir_tensor *ir_tensor_ref(const struct ir_tensor *t)
{
    struct ir_tensor *shared = (struct ir_tensor *)t;
    if (shared)
        __atomic_add_fetch(&shared->refs, 1, __ATOMIC_RELAXED);
    return shared;
}

void ir_tensor_unref(struct ir_tensor *t)
{
    if (!t || __atomic_sub_fetch(&t->refs, 1, __ATOMIC_ACQ_REL))
        return;
    if (t->file) {
        ir_file_unref(t->file);
    } else {
        struct tcc_string *s = (struct tcc_string *)t->data;
        for (uint64_t i = 0; t->dtype == TCC_STRING && i < t->bytes / sizeof *s; i++)
            free(s[i].data);
        free((void *)t->data);
    }
    free(t);
}

const void *ir_tensor_at(const struct ir_tensor *t, int64_t i)
{
    return (const char *)t->data + (t->splat ? 0 : (size_t)i * (size_t)tcc_dtype_bytes((enum tcc_dtype)t->dtype));
}

static bool same_element(enum tcc_dtype d, const void *a, const void *b)
{
    if (d != TCC_STRING)
        return !memcmp(a, b, (size_t)tcc_dtype_bytes(d));
    const struct tcc_string *s = a, *t = b;
    return s->size == t->size && (s->size == 0 || !memcmp(s->data, t->data, (size_t)s->size));
}

bool ir_tensor_equal(const struct ir_tensor *a, const struct ir_tensor *b)
{
    if (a == b)
        return true;
    if (a->dtype != b->dtype || a->rank != b->rank || memcmp(a->dims, b->dims, a->rank * sizeof *a->dims))
        return false;
    if (!a->splat && !b->splat && a->dtype != TCC_STRING)
        return a->bytes == 0 || !memcmp(a->data, b->data, (size_t)a->bytes);
    for (int64_t i = 0; i < (a->splat && b->splat ? a->nelems > 0 : a->nelems); i++)
        if (!same_element((enum tcc_dtype)a->dtype, ir_tensor_at(a, i), ir_tensor_at(b, i)))
            return false;
    return true;
}

/* A splat has the digest of its dense form, since the two are equal. */
uint64_t ir_tensor_digest(const struct ir_tensor *t)
{
    size_t size = (size_t)tcc_dtype_bytes((enum tcc_dtype)t->dtype);
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return 0;
    XXH3_64bits_reset(state);
    XXH3_64bits_update(state, &t->dtype, 1);
    XXH3_64bits_update(state, &t->rank, 1);
    XXH3_64bits_update(state, t->dims, t->rank * sizeof *t->dims);
    if (t->dtype == TCC_STRING || t->splat) {
        for (int64_t i = 0; i < t->nelems; i++) {
            const struct tcc_string *s = ir_tensor_at(t, i);
            if (t->dtype == TCC_STRING)
                XXH3_64bits_update(state, &s->size, sizeof s->size);
            XXH3_64bits_update(state, t->dtype == TCC_STRING ? (void *)s->data : (void *)s,
                               t->dtype == TCC_STRING ? (size_t)s->size : size);
        }
    } else {
        XXH3_64bits_update(state, t->data, (size_t)t->bytes);
    }
    uint64_t digest = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return digest;
}
