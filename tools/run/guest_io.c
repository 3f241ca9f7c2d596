/* SPDX-License-Identifier: Apache-2.0 */
/* guest_io.c - numbers, texts and values through a pipe (guest_io_int.h). */
#include "tools/run/guest_io_int.h"

#include <stdlib.h>
#include <string.h>

enum { ABSENT = -1, MOST_TEXT = 1 << 20 };

bool guest_put_number(FILE *to, int64_t v)
{
    return fwrite(&v, sizeof v, 1, to) == 1;
}

bool guest_get_number(FILE *from, int64_t *v)
{
    return fread(v, sizeof *v, 1, from) == 1;
}

bool guest_put_text(FILE *to, const char *s)
{
    size_t n = s ? strlen(s) : 0;
    return guest_put_number(to, s ? (int64_t)n : ABSENT) && fwrite(s ? s : "", 1, n, to) == n;
}

bool guest_get_text(FILE *from, char **s)
{
    int64_t n;
    *s = NULL;
    if (!guest_get_number(from, &n) || n < ABSENT || n > MOST_TEXT)
        return false;
    if (n == ABSENT)
        return true;
    *s = calloc(1, (size_t)n + 1);
    return *s && fread(*s, 1, (size_t)n, from) == (size_t)n;
}

bool guest_put_value(FILE *to, const struct guest_value *v)
{
    bool ok = guest_put_text(to, v->info.name) && fwrite(v, sizeof *v, 1, to) == 1;
    for (int i = 0; ok && i < v->info.rank; i++)
        ok = guest_put_text(to, v->info.dim_names[i]);
    return ok;
}

bool guest_get_value(FILE *from, struct guest_value *v)
{
    char *name;
    if (!guest_get_text(from, &name))
        return false;
    bool ok = fread(v, sizeof *v, 1, from) == 1;
    v->info.name = name; /* pointers of the other side are nothing here */
    memset(v->info.dim_names, 0, sizeof v->info.dim_names);
    for (int i = 0; ok && i < v->info.rank && i < TCC_MAX_RANK; i++) {
        char *dim;
        ok = guest_get_text(from, &dim);
        v->info.dim_names[i] = dim;
    }
    return ok;
}

/* -- Objects ------------------------------------------------------------------------------------------ */

static const uint8_t element_bytes[] = {
#define BYTES(id, n, name, bytes, class) [n] = bytes,
    TCC_DTYPES(BYTES)
#undef BYTES
};

static bool known_type(int64_t dtype)
{
    return dtype >= 0 && dtype < (int64_t)sizeof element_bytes && element_bytes[dtype];
}

static size_t bytes_of(const struct tcc_tensor *t)
{
    int64_t n = tcc_elements(t->rank, t->dims);
    return n > 0 && known_type(t->dtype) ? (size_t)n * element_bytes[t->dtype] : 0;
}

static bool put_tensor(FILE *to, const struct tcc_tensor *t)
{
    int64_t n = tcc_elements(t->rank, t->dims);
    bool ok = guest_put_number(to, t->dtype) && guest_put_number(to, t->rank);
    for (int i = 0; ok && i < t->rank; i++)
        ok = guest_put_number(to, t->dims[i]);
    if (t->dtype != TCC_STRING)
        return ok && fwrite(t->data, 1, bytes_of(t), to) == bytes_of(t);
    const struct tcc_string *s = t->data;
    for (int64_t i = 0; ok && i < n; i++)
        ok = guest_put_number(to, s[i].size) && fwrite(s[i].data, 1, (size_t)s[i].size, to) == (size_t)s[i].size;
    return ok;
}

bool guest_put_object(FILE *to, const struct tcc_object *o)
{
    bool ok = guest_put_number(to, o ? o->kind : ABSENT);
    if (!ok || !o || o->kind == TCC_OBJ_NONE)
        return ok;
    if (o->kind == TCC_OBJ_TENSOR)
        return put_tensor(to, &o->t);
    ok = guest_put_number(to, o->n);
    for (int64_t i = 0; ok && i < o->n; i++)
        ok = guest_put_object(to, o->items[i]);
    return ok;
}

static bool get_string(FILE *from, struct tcc_string *s)
{
    int64_t n;
    if (!guest_get_number(from, &n) || n < 0)
        return false;
    char *text = malloc((size_t)n + 1);
    bool ok = text && fread(text, 1, (size_t)n, from) == (size_t)n && tccrt_string_set(s, text, n) == 0;
    free(text);
    return ok;
}

static bool get_tensor(FILE *from, struct tcc_object **o)
{
    int64_t dtype, rank, dims[TCC_MAX_RANK];
    if (!guest_get_number(from, &dtype) || !guest_get_number(from, &rank) || rank < 0 || rank > TCC_MAX_RANK ||
        (dtype && !known_type(dtype)))
        return false;
    for (int i = 0; i < rank; i++)
        if (!guest_get_number(from, &dims[i]))
            return false;
    *o = tccrt_object_tensor((int)dtype, (int)rank, dims);
    if (!*o)
        return false;
    struct tcc_tensor *t = &(*o)->t;
    if (t->dtype != TCC_STRING)
        return fread(t->data, 1, bytes_of(t), from) == bytes_of(t);
    int64_t n = tcc_elements(t->rank, t->dims);
    for (int64_t i = 0; i < n; i++)
        if (!get_string(from, (struct tcc_string *)t->data + i))
            return false;
    return true;
}

bool guest_get_object(FILE *from, struct tcc_object **o)
{
    int64_t kind, n;
    *o = NULL;
    if (!guest_get_number(from, &kind))
        return false;
    if (kind == ABSENT)
        return true;
    if (kind == TCC_OBJ_TENSOR)
        return get_tensor(from, o);
    if (kind == TCC_OBJ_NONE)
        return (*o = tccrt_object_none()) != NULL;
    if (kind != TCC_OBJ_SEQUENCE || !guest_get_number(from, &n) || n < 0)
        return false;
    *o = tccrt_object_sequence(n);
    bool ok = *o != NULL;
    for (int64_t i = 0; ok && i < n; i++)
        ok = guest_get_object(from, &(*o)->items[i]);
    return ok;
}
