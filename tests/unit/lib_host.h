/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of library ops from tests: a host that keeps results as objects, operands from C arrays, attributes by list. */
#ifndef LIB_HOST_H
#define LIB_HOST_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/abi.h"

static char lib_message[512];

static void *
lib_host_output(struct tcc_lib_call *call, int k, int dtype, int rank, const int64_t *dims)
{
    tccrt_object_unref(call->out[k]);
    call->out[k] = tccrt_object_tensor(dtype, rank, dims);
    return call->out[k] ? call->out[k]->t.data : NULL;
}

static void
lib_host_set(struct tcc_lib_call *call, int k, struct tcc_object *object)
{
    tccrt_object_unref(call->out[k]);
    call->out[k] = object;
}

static int
lib_host_fail(struct tcc_lib_call *call, int status, const char *format, ...)
{
    va_list args;

    (void)call;
    va_start(args, format);
    vsnprintf(lib_message, sizeof lib_message, format, args);
    va_end(args);
    return status;
}

static const struct tcc_lib_host lib_host = {lib_host_output, lib_host_set, lib_host_fail, NULL};

#define LIB_MAX 8
static struct tcc_object *lib_results[LIB_MAX];

static inline void
lib_drop(void)
{
    for (int i = 0; i < LIB_MAX; i++) {
        tccrt_object_unref(lib_results[i]);
        lib_results[i] = NULL;
    }
}

static const struct tcc_libop *
lib_find(const char *name)
{
    for (int i = 0; i < tccrt_nlibops; i++)
        if (strcmp(tccrt_libops[i].name, name) == 0)
            return &tccrt_libops[i];
    return NULL;
}

/* Runs an op; results are in lib_results until the next call. */
static int
lib_run(const char *name, int nin, struct tcc_object *const *in, int nout, int nattrs, const struct tcc_attr *attrs)
{
    struct tcc_lib_call call = {.host = &lib_host, .nin = nin, .nout = nout, .in = (const struct tcc_object *const *)in,
                                .out = lib_results, .nattrs = nattrs, .attrs = attrs};

    lib_drop();
    lib_message[0] = 0;
    return lib_find(name)->fn(&call);
}

/* A tensor with a copy of the data. */
static struct tcc_object *
lib_tensor(int dtype, int bytes, const void *data, int rank, const int64_t *dims)
{
    struct tcc_object *o = tccrt_object_tensor(dtype, rank, dims);
    int64_t n = 1;

    for (int i = 0; i < rank; i++)
        n *= dims[i];
    if (n)
        memcpy(o->t.data, data, (size_t)(n * bytes));
    return o;
}

static inline struct tcc_object *
lib_strings(int n, const char *const *s)
{
    struct tcc_object *o = tccrt_object_tensor(TCC_STRING, 1, (int64_t[]){n});

    for (int i = 0; i < n; i++)
        tccrt_string_set((struct tcc_string *)o->t.data + i, s[i], (int64_t)strlen(s[i]));
    return o;
}

#define DIMS(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]){__VA_ARGS__}
#define F32(values, ...) lib_tensor(TCC_F32, 4, (float[]) values, DIMS(__VA_ARGS__))
#define I64(values, ...) lib_tensor(TCC_I64, 8, (int64_t[]) values, DIMS(__VA_ARGS__))
#define I32(values, ...) lib_tensor(TCC_I32, 4, (int32_t[]) values, DIMS(__VA_ARGS__))
#define BOOLS(values, ...) lib_tensor(TCC_BOOL, 1, (uint8_t[]) values, DIMS(__VA_ARGS__))
#define SCALAR_I64(v) lib_tensor(TCC_I64, 8, (int64_t[]){v}, 0, NULL)
#define STRINGS(...) lib_strings((int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)), (const char *[]){__VA_ARGS__})
#define V(...) {__VA_ARGS__}
#define A_INTS(key, ...) {.name = key, .kind = TCC_ATTR_INTS, .n = (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / 8), .ints = (int64_t[]){__VA_ARGS__}}
#define A_FLOATS(key, ...) {.name = key, .kind = TCC_ATTR_FLOATS, .n = (int32_t)(sizeof((double[]){__VA_ARGS__}) / 8), .floats = (double[]){__VA_ARGS__}}
#define A_STRINGS(key, ...) {.name = key, .kind = TCC_ATTR_STRINGS, .n = (int32_t)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)), .strings = (const char *[]){__VA_ARGS__}}

#endif
