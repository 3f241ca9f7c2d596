/* SPDX-License-Identifier: Apache-2.0 */
/* trace_nets.h - what the tests of traced programs share: contexts, values, a small network and its step. */
#ifndef TCC_TESTS_TRACE_NETS_H
#define TCC_TESTS_TRACE_NETS_H

#include <check.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/trace/trace_int.h"

#define T struct trace_tensor
#define DIMS(...)                                                                \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) \
    {                                                                            \
        __VA_ARGS__                                                              \
    }
#define LIST(...) ((T *[]){__VA_ARGS__})

static inline struct trace_ctx *context_with(const char *mode, const struct trace_options *o)
{
    struct trace_ctx *c;
    setenv("TCCC_TRACE", mode, 1);
    ck_assert_int_eq(trace_new(o, &c), TCC_OK);
    return c;
}

static inline struct trace_ctx *context(const char *mode)
{
    return context_with(mode, &(struct trace_options){.threads = 2, .seed = 7, .cache_dir = ""});
}

#define OK(c, call) ck_assert_msg((call) == TCC_OK, "%s", trace_error(c))

static inline T *floats(struct trace_ctx *c, const float *v, int rank, const int64_t *dims)
{
    struct tcc_tensor t = {(void *)(uintptr_t)v, TCC_F32, rank, {0}};
    memcpy(t.dims, dims, (size_t)rank * sizeof *dims);
    return trace_from(c, &t);
}

static inline T *labels(struct trace_ctx *c, int n, int classes)
{
    int64_t v[64];
    for (int i = 0; i < n; i++)
        v[i] = (i * 7 + 3) % classes;
    return trace_from(c, &(struct tcc_tensor){v, TCC_I64, 1, {n}});
}

static inline double item(T *t)
{
    double v = NAN;
    ck_assert_ptr_nonnull(t);
    OK(t->c, trace_item(t, &v));
    return v;
}

/* Two layers, layer norm and dropout, on 16 samples. */
struct net {
    struct trace_ctx *c;
    T *p[6];
};

static inline void net_make(struct net *n, struct trace_ctx *c)
{
    n->c = c;
    n->p[0] = trace_param(trace_layer_init(c, TCC_F32, DIMS(12, 8), 8), "one.weight");
    n->p[1] = trace_param(trace_layer_init(c, TCC_F32, DIMS(12), 8), "one.bias");
    n->p[2] = trace_param(trace_ones(c, TCC_F32, DIMS(12)), "norm.weight");
    n->p[3] = trace_param(trace_zeros(c, TCC_F32, DIMS(12)), "norm.bias");
    n->p[4] = trace_param(trace_layer_init(c, TCC_F32, DIMS(4, 12), 12), "two.weight");
    n->p[5] = trace_param(trace_layer_init(c, TCC_F32, DIMS(4), 12), "two.bias");
}

static inline T *net_loss(struct net *n, int batch, double dropout)
{
    float x[16 * 8];
    for (int i = 0; i < batch * 8; i++)
        x[i] = (float)sin(i * 0.7) + (i % 8 == (i / 8) % 4);
    int64_t dims[] = {batch, 8};
    T *h = trace_gelu(
        trace_layer_norm(trace_linear(floats(n->c, x, 2, dims), n->p[0], n->p[1]), 1, n->p[2], n->p[3], 1e-5));
    return trace_cross_entropy(trace_linear(trace_dropout(h, dropout), n->p[4], n->p[5]), labels(n->c, batch, 4));
}

static inline T *net_step(struct net *n, struct trace_optimizer *o)
{
    T *loss = net_loss(n, 16, 0.2);
    trace_zero_grad(o);
    ck_assert_msg(trace_backward(loss) == TCC_OK && trace_optimizer_step(o) == TCC_OK, "%s", trace_error(n->c));
    return loss;
}

#endif
