/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects: reference-counted tensors and sequences whose shape is known at run time only.
 *
 * An object and its data are one block, so that whichever copy of the runtime lets go last frees it with the C
 * library's free(). A header whose count is negative stands for somebody else's memory (tcr_object_borrow): taking a
 * reference to it copies it, so library ops may keep any input without asking where it lives.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/rt_int.h"

static const struct {
    uint8_t bytes;
    const char *name;
} dtypes[TCC_NDTYPES] = {
#define X(id, n, name, bytes, class) [n] = {bytes, name},
    TCC_DTYPES(X)
#undef X
};

int tcr_dtype_bytes(int dtype)
{
    return dtype > 0 && dtype < TCC_NDTYPES ? dtypes[dtype].bytes : 0;
}

bool tcr_dtype_is_float(int dtype)
{
    switch (dtype) {
#define X(id, n, name, bytes, class) \
    case n: return TCC_CLASS_##class == TCC_CLASS_FLOAT || TCC_CLASS_##class == TCC_CLASS_COMPLEX;
        TCC_DTYPES(X)
#undef X
    default: return false;
    }
}

const char *tcr_dtype_name(int dtype)
{
    return dtype > 0 && dtype < TCC_NDTYPES ? dtypes[dtype].name : "none";
}

int64_t tcr_elements(int dtype, int rank, const int64_t *dims)
{
    return tcr_dtype_bytes(dtype) && rank >= 0 && rank <= TCC_MAX_RANK ? tcc_elements(rank, dims) : -1;
}

char *tcr_dims_text(char *to, int rank, const int64_t *dims)
{
    size_t n = 0;

    to[n++] = '[';
    for (int i = 0; i < rank && i < TCC_MAX_RANK && n < 220; i++)
        n += (size_t)snprintf(to + n, 32, i ? ", %lld" : "%lld", (long long)dims[i]);
    to[n++] = ']';
    to[n] = 0;
    return to;
}

void tcr_object_borrow(struct tcc_object *to, const struct tcc_tensor *t)
{
    *to = (struct tcc_object){.refs = -1, .kind = TCC_OBJ_TENSOR, .t = *t};
}

/* A tensor of zeros (strings: empty). NULL: no memory, or dims that no memory holds. */
struct tcc_object *tccrt_object_tensor(int dtype, int rank, const int64_t *dims)
{
    int64_t n = tcr_elements(dtype, rank, dims);
    size_t head = TCR_ROUND(sizeof(struct tcc_object)), bytes;
    struct tcc_object *o;

    if (n < 0)
        return NULL;
    bytes = TCR_ROUND((size_t)n * tcr_dtype_bytes(dtype));
    o = aligned_alloc(TCR_ALIGN, head + bytes);
    if (!o)
        return NULL;
    memset(o, 0, head + bytes);
    o->refs = 1;
    o->kind = TCC_OBJ_TENSOR;
    o->t.data = (char *)o + head;
    o->t.dtype = dtype;
    o->t.rank = rank;
    for (int i = 0; i < rank; i++)
        o->t.dims[i] = dims[i];
    return o;
}

struct tcc_object *tccrt_object_sequence(int64_t n)
{
    size_t head = TCR_ROUND(sizeof(struct tcc_object));
    struct tcc_object *o;

    if (n < 0 || (uint64_t)n > (PTRDIFF_MAX - 4096) / sizeof(void *))
        return NULL;
    o = calloc(1, head + (size_t)n * sizeof(void *));
    if (!o)
        return NULL;
    o->refs = 1;
    o->kind = TCC_OBJ_SEQUENCE;
    o->n = n;
    o->items = (struct tcc_object **)((char *)o + head);
    return o;
}

/* The empty optional. */
struct tcc_object *tccrt_object_none(void)
{
    struct tcc_object *o = calloc(1, sizeof *o);

    if (o)
        o->refs = 1;
    return o;
}

static struct tcc_object *copy_tensor(const struct tcc_tensor *t)
{
    struct tcc_object *o = tccrt_object_tensor(t->dtype, t->rank, t->dims);
    int64_t n;

    if (!o)
        return NULL;
    n = tcr_elements(t->dtype, t->rank, t->dims);
    if (t->dtype != TCC_STRING) {
        if (n)
            memcpy(o->t.data, t->data, (size_t)n * tcr_dtype_bytes(t->dtype));
        return o;
    }
    for (int64_t i = 0; i < n; i++) {
        const struct tcc_string *s = (const struct tcc_string *)t->data + i;

        if (tccrt_string_set((struct tcc_string *)o->t.data + i, s->data, s->size)) {
            tccrt_object_unref(o);
            return NULL;
        }
    }
    return o;
}

/* Another reference; a copy if the object stands for borrowed memory (the only case that can fail). */
struct tcc_object *tccrt_object_ref(const struct tcc_object *object)
{
    struct tcc_object *o = (struct tcc_object *)object;

    if (!o)
        return NULL;
    if (__atomic_load_n(&o->refs, __ATOMIC_RELAXED) < 0)
        return copy_tensor(&o->t);
    __atomic_add_fetch(&o->refs, 1, __ATOMIC_RELAXED);
    return o;
}

void tccrt_object_unref(struct tcc_object *o)
{
    if (!o || __atomic_load_n(&o->refs, __ATOMIC_RELAXED) < 0)
        return;
    if (__atomic_sub_fetch(&o->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    if (o->kind == TCC_OBJ_SEQUENCE) {
        for (int64_t i = 0; i < o->n; i++)
            tccrt_object_unref(o->items[i]);
    } else if (o->kind == TCC_OBJ_TENSOR && o->t.dtype == TCC_STRING) {
        int64_t n = tcr_elements(o->t.dtype, o->t.rank, o->t.dims);

        for (int64_t i = 0; i < n; i++)
            free(((struct tcc_string *)o->t.data)[i].data);
    }
    free(o);
}

/* Replaces *to (zeroed, or set before) by a copy of `size` bytes. */
int tccrt_string_set(struct tcc_string *to, const char *data, int64_t size)
{
    char *copy = NULL;

    if (size < 0)
        return -1;
    if (size > 0) {
        copy = malloc((size_t)size);
        if (!copy)
            return -1;
        memcpy(copy, data, (size_t)size);
    }
    free(to->data);
    to->data = copy;
    to->size = size;
    return 0;
}
