/* SPDX-License-Identifier: Apache-2.0 */
/*
 * custom.c - calls of a user's own operators (tccc_custom.h): the description of a call of a library op becomes one of
 * theirs, shape() says what the results are, and run() fills them in. What shape() says is checked: a user's mistake is
 * a message, not a broken run.
 */
#include <stdio.h>

#include "base/format.h"
#include "runtime/libop/libop_int.h"
#include "runtime/tccc_custom.h"

#define SAME(a, b, field) _Static_assert(offsetof(struct a, field) == offsetof(struct b, field), "equal structures")
SAME(tccc_custom_tensor, tcc_tensor, data);
SAME(tccc_custom_tensor, tcc_tensor, dtype);
SAME(tccc_custom_tensor, tcc_tensor, rank);
SAME(tccc_custom_tensor, tcc_tensor, dims);
SAME(tccc_custom_attr, tcc_attr, name);
SAME(tccc_custom_attr, tcc_attr, kind);
SAME(tccc_custom_attr, tcc_attr, n);
SAME(tccc_custom_attr, tcc_attr, ints);
SAME(tccc_custom_attr, tcc_attr, floats);
SAME(tccc_custom_attr, tcc_attr, strings);
SAME(tccc_custom_attr, tcc_attr, tensor);
_Static_assert(sizeof(struct tccc_custom_tensor) == sizeof(struct tcc_tensor), "equal structures");
_Static_assert(sizeof(struct tccc_custom_attr) == sizeof(struct tcc_attr), "equal structures");
_Static_assert(TCCC_CUSTOM_RANK == TCC_MAX_RANK && (int)TCCC_I2 == (int)TCC_I2 && (int)TCCC_BF16 == (int)TCC_BF16,
               "equal numbers");
_Static_assert((int)TCCC_ATTR_TENSOR == (int)TCC_ATTR_TENSOR, "equal numbers");

struct call {
    struct tccc_custom c; /* first: the user's functions get its address */
    struct tcc_lib_call *lib;
    bool failed;
};

static int user_fail(struct tccc_custom *c, const char *format, ...)
{
    struct call *k = (struct call *)c;

    FORMATTED(text, 300, format);
    k->failed = true;
    return k->lib->host->fail(k->lib, TCC_EINPUT, "%s", text);
}

static void user_each(struct tccc_custom *c, int64_t n, void (*body)(void *arg, int64_t i), void *arg)
{
    struct call *k = (struct call *)c;

    if (k->lib->host->each)
        k->lib->host->each(k->lib, n, body, arg);
    else
        for (int64_t i = 0; i < n; i++)
            body(arg, i);
}

/* What the user's function returned, with a message where it gave none. */
static int status_of(struct call *k, int returned, const char *function)
{
    if (!returned && !k->failed)
        return TCC_OK;
    return k->failed
               ? TCC_EINPUT
               : k->lib->host->fail(k->lib, TCC_EINPUT, "its %s() returned %d and gave no reason", function, returned);
}

int tccrt_custom_shape(struct tccc_custom *c, const struct tccc_custom_op *op)
{
    int k = 0;

    if (op->shape)
        return op->shape(c);
    for (int i = 0; i < c->nin && k < c->nout; i++)
        if (lib_class(c->in[i].dtype) == TCC_CLASS_FLOAT)
            c->out[k++] = c->in[i];
    return k == c->nout ? 0
                        : c->fail(c, "it has no shape(), and its %d results meet %d operands of floats", c->nout, k);
}

static int check_result(struct call *k, int i)
{
    const struct tccc_custom_tensor *t = &k->c.out[i];

    if (t->dtype <= 0 || t->dtype >= TCC_NDTYPES || t->dtype == TCC_STRING)
        return k->lib->host->fail(k->lib, TCC_EINPUT,
                                  "its shape() gives result %d the element type %d, which there is not", i, t->dtype);
    if (t->rank < 0 || t->rank > TCC_MAX_RANK)
        return k->lib->host->fail(k->lib, TCC_EINPUT, "its shape() gives result %d %d dims, expected 0 to %d", i,
                                  t->rank, TCC_MAX_RANK);
    if (tcc_elements(t->rank, t->dims) >= 0)
        return TCC_OK;
    for (int d = 0; d < t->rank; d++)
        if (t->dims[d] < 0)
            return k->lib->host->fail(k->lib, TCC_EINPUT, "its shape() gives dim %d of result %d the size %lld", d, i,
                                      (long long)t->dims[d]);
    return k->lib->host->fail(k->lib, TCC_EENV, "its result %d is larger than memory", i);
}

static int read_operands(struct call *k, struct tccc_custom_tensor *in)
{
    for (int i = 0; i < k->lib->nin; i++) {
        const struct tcc_object *o = k->lib->in[i];

        if (!o || o->kind == TCC_OBJ_NONE)
            continue;
        if (o->kind != TCC_OBJ_TENSOR || o->t.dtype == TCC_STRING)
            return k->lib->host->fail(k->lib, TCC_EINPUT, "operand %d is no tensor of numbers", i);
        memcpy(&in[i], &o->t, sizeof in[i]);
    }
    return TCC_OK;
}

static int run_call(struct call *k, const struct tccc_custom_op *op)
{
    void *room = NULL;
    int status = status_of(k, tccrt_custom_shape(&k->c, op), "shape");

    for (int i = 0; i < k->c.nout && !status; i++)
        status = check_result(k, i);
    for (int i = 0; i < k->c.nout && !status; i++) {
        struct tccc_custom_tensor *t = &k->c.out[i];

        t->data = lib_out(k->lib, i, t->dtype, t->rank, t->dims);
        status = t->data ? TCC_OK : TCC_EENV;
    }
    if (!status && k->c.workspace) {
        uint64_t bytes = k->c.workspace > SIZE_MAX / 2 ? 0 : (k->c.workspace + 63) / 64 * 64;

        room = bytes ? aligned_alloc(64, bytes) : NULL;
        k->c.work = room;
        status = room ? TCC_OK
                      : k->lib->host->fail(k->lib, TCC_EENV, "no memory for its workspace of %llu bytes",
                                           (unsigned long long)k->c.workspace);
    }
    if (!status)
        status = status_of(k, op->run(&k->c), "run");
    free(room);
    return status;
}

int tccrt_custom_call(struct tcc_lib_call *lib, const struct tccc_custom_op *op)
{
    size_t n = (size_t)lib->nin + (size_t)lib->nout;
    struct tccc_custom_tensor *tensors;
    struct call k = {.c = {.nin = lib->nin,
                           .nout = lib->nout,
                           .nattrs = lib->nattrs,
                           .attrs = (const struct tccc_custom_attr *)(const void *)lib->attrs,
                           .fail = user_fail,
                           .each = user_each},
                     .lib = lib};
    int status;

    if (!op->run)
        return lib->host->fail(lib, TCC_EINPUT, "it has no .run for the CPU: give a FILE.c for it too");
    if (!(tensors = calloc(n + 1, sizeof *tensors)))
        return LIB_NO_MEMORY(lib);
    k.c.in = tensors;
    k.c.out = tensors + lib->nin;
    status = read_operands(&k, tensors);
    if (!status)
        status = run_call(&k, op);
    free(tensors);
    return status;
}
