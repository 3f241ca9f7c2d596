/* SPDX-License-Identifier: Apache-2.0 */
/* NumPy's .npy files, versions 1 to 3 (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html). */
#include "tools/values/values_int.h"

#include "base/mutant.h"
#include "base/safe.h"

#include <stdlib.h>
#include <string.h>

/* numpy's names of the types that both know. */
static const struct {
    enum tcc_dtype dtype;
    char kind;
    int bytes;
} npy_types[] = {{TCC_F16, 'f', 2}, {TCC_F32, 'f', 4},  {TCC_F64, 'f', 8}, {TCC_I8, 'i', 1},   {TCC_I16, 'i', 2},
                 {TCC_I32, 'i', 4}, {TCC_I64, 'i', 8},  {TCC_U8, 'u', 1},  {TCC_U16, 'u', 2},  {TCC_U32, 'u', 4},
                 {TCC_U64, 'u', 8}, {TCC_BOOL, 'b', 1}, {TCC_C64, 'c', 8}, {TCC_C128, 'c', 16}};
#define NTYPES (sizeof npy_types / sizeof *npy_types)

/* The value of a key in the header's dictionary, behind the colon and blanks; NULL: not there. */
static const char *find_key(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    if (!at || !(at = strchr(at, ':')))
        return NULL;
    return at + 1 + strspn(at + 1, " ");
}

static bool read_descr(struct npy_info *h, const char *text)
{
    const char *at = find_key(text, "'descr'");
    if (!at || *at++ != '\'')
        return false;
    h->swap = MUTANT(61, *at == '>', false);
    if (*at && strchr("<>|=", *at))
        at++;
    for (size_t i = 0; i < NTYPES; i++) {
        char *end;
        if (*at == npy_types[i].kind && strtol(at + 1, &end, 10) == npy_types[i].bytes && *end == '\'') {
            h->dtype = npy_types[i].dtype;
            h->bytes = npy_types[i].bytes;
            h->swap &= h->bytes > 1;
            return true;
        }
    }
    return false;
}

static bool read_shape(struct npy_info *h, const char *text)
{
    const char *at = find_key(text, "'shape'");
    if (!at || *at++ != '(')
        return false;
    while (at += strspn(at, " ,"), *at && *at != ')') {
        char *end;
        long long v = strtoll(at, &end, 10);
        if (end == at || v < 0 || h->rank == TCC_MAX_RANK)
            return false;
        h->dims[h->rank++] = v;
        at = end + (*end == 'L');
    }
    return *at == ')';
}

/* Where row-major element i lies in a column-major array. */
static int64_t fortran_index(const struct npy_info *h, int64_t i)
{
    int64_t index[TCC_MAX_RANK], at = 0;
    for (int k = h->rank - 1; k >= 0; k--) {
        index[k] = i % h->dims[k];
        i /= h->dims[k];
    }
    for (int k = h->rank - 1; k >= 0; k--)
        at = at * h->dims[k] + index[k];
    return at;
}

static void copy_elements(const struct npy_info *h, unsigned char *to, const unsigned char *from, int64_t n)
{
    int part = h->dtype == TCC_C64 || h->dtype == TCC_C128 ? h->bytes / 2 : h->bytes;

    if (!h->fortran && !h->swap) {
        memcpy(to, from, (size_t)n * (size_t)h->bytes);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const unsigned char *source = from + (h->fortran ? fortran_index(h, i) : i) * h->bytes;
        for (int k = 0; k < h->bytes; k++)
            to[i * h->bytes + k] = source[h->swap ? k / part * part + part - 1 - k % part : k];
    }
}

size_t npy_describe(const unsigned char *data, size_t size, struct npy_info *h)
{
    *h = (struct npy_info){0};
    if (size < 12 || memcmp(data, "\x93NUMPY", 6) != 0)
        return 0;
    size_t wide = data[6] > 1 ? 4 : 2, length = data[8] | (size_t)data[9] << 8, start = 8 + wide;
    if (wide == 4)
        length |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
    if (length > size - start || length > 1 << 20)
        return 0;
    char *text = malloc(length + 1);
    if (!text)
        return 0;
    memcpy(text, data + start, length);
    text[length] = '\0';
    const char *fortran = find_key(text, "'fortran_order'");
    bool ok = !memchr(text, 0, length) && fortran && read_descr(h, text) && read_shape(h, text);
    h->fortran = ok && MUTANT(60, *fortran == 'T', false);
    free(text);
    return ok ? start + length : 0;
}

struct tcc_object *npy_parse(const char *path, const unsigned char *data, size_t size, char *error)
{
    struct npy_info h = {0};
    struct tcc_object *v = NULL;
    size_t at = npy_describe(data, size, &h);
    int64_t n = at ? tcc_elements(h.rank, h.dims) : -1;
    if (n < 0)
        snprintf(error, ERROR_SIZE, "%s: not a .npy file of numbers with at most %d axes", path, TCC_MAX_RANK);
    else if ((uint64_t)n > (size - at) / (size_t)h.bytes)
        snprintf(error, ERROR_SIZE, "%s: the file ends before its last element", path);
    else if (!(v = tccrt_object_tensor(h.dtype, h.rank, h.dims)))
        snprintf(error, ERROR_SIZE, "%s: no memory", path);
    else
        copy_elements(&h, v->t.data, data + at, n);
    return v;
}

struct tcc_object *npy_read(const char *path, char *error)
{
    size_t size;
    unsigned char *data = file_read(path, &size, error);
    struct tcc_object *v = data ? npy_parse(path, data, size, error) : NULL;
    free(data);
    return v;
}

bool npy_can(const struct tcc_object *v)
{
    for (size_t i = 0; v && v->kind == TCC_OBJ_TENSOR && i < NTYPES; i++)
        if ((int)npy_types[i].dtype == v->t.dtype)
            return true;
    return false;
}

bool npy_put(FILE *out, const struct tcc_object *v)
{
    char text[512], shape[320] = "";
    size_t i = 0, used = 0;
    int64_t n = tcc_elements(v->t.rank, v->t.dims);

    while ((int)npy_types[i].dtype != v->t.dtype)
        i++;
    for (int k = 0; k < v->t.rank; k++)
        used += (size_t)snprintf(shape + used, sizeof shape - used, "%lld,%s", (long long)v->t.dims[k],
                                 k + 1 < v->t.rank ? " " : "");
    if (v->t.rank > 1)
        shape[used - 1] = '\0';
    int length = snprintf(text, sizeof text, "{'descr': '%c%c%d', 'fortran_order': False, 'shape': (%s), }",
                          npy_types[i].bytes > 1 ? '<' : '|', npy_types[i].kind, npy_types[i].bytes, shape);
    int padded = (10 + length + 1 + 63) / 64 * 64 - 10;
    fwrite("\x93NUMPY\x01\x00", 1, 8, out);
    fputc(padded & 255, out);
    fputc(padded >> 8, out);
    fprintf(out, "%s%*s\n", text, padded - length - 1, "");
    fwrite(v->t.data, (size_t)npy_types[i].bytes, (size_t)n, out);
    return ferror(out) == 0;
}

bool npy_write(const char *path, const struct tcc_object *v, char *error)
{
    struct tcr_save save;
    bool open = !tcr_save_open(&save, path, TCR_SAVE_STREAM);

    if (open)
        npy_put(save.stream, v);
    if (open && !tcr_save_commit(&save))
        return true;
    return put_error(error, "cannot write '%s': %m", path);
}
