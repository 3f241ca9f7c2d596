/* SPDX-License-Identifier: Apache-2.0 */
/* Values: files, the screen, random ones. */
#include "tools/values/values_int.h"
#include "base/draw.h"

#include "base/safe.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

bool put_error(char *error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(error, ERROR_SIZE, format, args);
    va_end(args);
    return false;
}

/* -- Files ------------------------------------------------------------------------------------ */

unsigned char *file_read(const char *path, size_t *size, char *error)
{
    FILE *in = tcr_stream_input(path);
    unsigned char *data = NULL;
    size_t room = 65536, n = 0, got;

    if (!in)
        return put_error(error, "cannot open '%s': %s", path, strerror(errno)), NULL;
    if (fseek(in, 0, SEEK_END) == 0 && ftell(in) > 0)
        room = (size_t)ftell(in) + 1;
    rewind(in);
    data = malloc(room);
    while (data && (got = fread(data + n, 1, room - n, in)) > 0) {
        n += got;
        if (n == room) {
            unsigned char *grown = realloc(data, room *= 2);
            if (!grown)
                free(data);
            data = grown;
        }
    }
    if (!data || ferror(in)) {
        snprintf(error, ERROR_SIZE, data ? "cannot read '%s': %s" : "no memory for '%s': %s", path, strerror(errno));
        free(data);
        data = NULL;
    }
    fclose(in);
    *size = n;
    return data;
}

struct tcc_object *value_read(const char *path, enum value_kind kind, char **name, char *error)
{
    const char *dot = strrchr(path, '.');

    if (name)
        *name = NULL;
    if (dot && strcmp(dot, ".npy") == 0) {
        if (kind != VALUE_SEQUENCE)
            return npy_read(path, error);
        return put_error(error, "%s: a sequence is read from a .pb file", path), NULL;
    }
    if (dot && strcmp(dot, ".pb") == 0)
        return pb_read(path, kind, name, error);
    return put_error(error, "%s: expected a .npy or .pb file", path), NULL;
}

/* -- Printing ---------------------------------------------------------------------------------- */

#define SHOWN 8

static void print_string(FILE *out, const struct tcc_string *s)
{
    ir_print_bytes(out, s->data, (size_t)(s->size > 60 ? 60 : s->size));
    fputs(s->size > 60 ? "..." : "", out);
}

void value_print_element(FILE *out, int dtype, const void *data, int64_t i)
{
    const char *p = (const char *)data + i * tcc_dtype_bytes((enum tcc_dtype)dtype);
    float c[2];
    double d[2];
    uint64_t u;

    switch (tcc_dtype_class((enum tcc_dtype)dtype)) {
    case TCC_CLASS_STRING: print_string(out, (const struct tcc_string *)p); break;
    case TCC_CLASS_COMPLEX:
        if (dtype == TCC_C64) {
            memcpy(c, p, sizeof c);
            d[0] = c[0], d[1] = c[1];
        } else {
            memcpy(d, p, sizeof d);
        }
        fprintf(out, "%g%+gi", d[0], d[1]);
        break;
    case TCC_CLASS_FLOAT:
        fprintf(out, dtype == TCC_F64 ? "%.10g" : "%.7g", tcc_load_f64((enum tcc_dtype)dtype, p));
        break;
    case TCC_CLASS_BOOL: fputs(*p ? "true" : "false", out); break;
    default:
        if (dtype == TCC_U64) {
            memcpy(&u, p, sizeof u);
            fprintf(out, "%" PRIu64, u);
        } else {
            fprintf(out, "%" PRId64, tcc_load_i64((enum tcc_dtype)dtype, p));
        }
    }
}

void value_print(FILE *out, const struct tcc_object *v)
{
    if (v->kind == TCC_OBJ_NONE) {
        fputs("none", out);
        return;
    }
    if (v->kind == TCC_OBJ_SEQUENCE) {
        fprintf(out, "sequence of %" PRId64 " [", v->n);
        for (int64_t i = 0; i < v->n && i < SHOWN; i++) {
            fputs(i ? "; " : "", out);
            value_print(out, v->items[i]);
        }
        fputs(v->n > SHOWN ? "; ...]" : "]", out);
        return;
    }
    int64_t n = tcc_elements(v->t.rank, v->t.dims);
    fprintf(out, "%s[", tcc_dtype_name((enum tcc_dtype)v->t.dtype));
    for (int i = 0; i < v->t.rank; i++)
        fprintf(out, "%s%" PRId64, i ? "," : "", v->t.dims[i]);
    fputs("]:", out);
    for (int64_t i = 0; i < n && i < SHOWN; i++) {
        fputc(' ', out);
        value_print_element(out, v->t.dtype, v->t.data, i);
    }
    fputs(n > SHOWN ? " ..." : "", out);
}

/* -- Random values ------------------------------------------------------------------------------ */

/* One step per element, so that a value depends on seed, stream and position only. */
static uint64_t scramble(uint64_t x)
{
    return tcr_draw_next(&x);
}

struct tcc_object *value_random(int dtype, int rank, const int64_t *dims, uint64_t seed, int stream)
{
    struct tcc_object *v = tccrt_object_tensor(dtype, rank, dims);
    int64_t n = tcc_elements(rank, dims);
    enum tcc_class class = tcc_dtype_class((enum tcc_dtype)dtype);
    uint64_t key = scramble(seed ^ scramble((uint64_t)stream));

    for (int64_t i = 0; v && i < n && (class == TCC_CLASS_FLOAT || class == TCC_CLASS_COMPLEX); i++) {
        double x = (double)(scramble(key + (uint64_t)i) >> 11) * 0x1p-52 - 1;
        if (dtype == TCC_C64)
            ((float *)v->t.data)[2 * i] = (float)x;
        else if (dtype == TCC_C128)
            ((double *)v->t.data)[2 * i] = x;
        else
            tcc_store_f64((enum tcc_dtype)dtype, (char *)v->t.data + i * tcc_dtype_bytes((enum tcc_dtype)dtype), x);
    }
    return v;
}

struct tcc_object *value_widened(const struct tcc_tensor *t)
{
    struct tcc_object *w = tccrt_object_tensor(TCC_F32, t->rank, t->dims);
    int64_t n = tcc_elements(t->rank, t->dims), bytes = tcc_dtype_bytes((enum tcc_dtype)t->dtype);

    for (int64_t i = 0; w && i < n; i++)
        ((float *)w->t.data)[i] = (float)tcc_load_f64((enum tcc_dtype)t->dtype, (const char *)t->data + i * bytes);
    return w;
}
