/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_make.h - level-2 kernels built by hand, compiled by the CPU target and loaded: for tests and micro-benchmarks.
 * Everything belongs to the context; loaded code stays loaded.
 */
#ifndef TCC_TESTS_KERNEL_MAKE_H
#define TCC_TESTS_KERNEL_MAKE_H

#include "compiler/target.h"

/* out[b, m, n] = a[b, m, k] b[b, k, n]; operands a, b, bias[n], out. */
struct km_matmul {
    int64_t b, m, n, k;
    int panel;                       /* > 0: b is [n div panel, k, n mod panel], the same for all batches */
    int group;                       /* > 1, with panel: b is [n div panel, k div group, n mod panel, k mod group] */
    bool trans_a, trans_b;           /* a [b, k, m]; b [b, n, k] */
    bool relu;                       /* out = relu(out + bias) */
    bool longer;                     /* 24 times out = out * 0.75 + 0.25: an epilogue that is run by rows */
    bool dynamic;                    /* m is a symbol; pass its value as the one size */
    bool half;                       /* sums of f16 may be kept in f16 for a while (struct kn_kernel's partial) */
    /* of a and b; bf16 is cast to f32 first, bytes to i32, the type of their products. 0: f32 */
    enum tcc_dtype dtype;
    enum tcc_dtype dtype_b;          /* b's, where it differs */
};
struct kn_kernel *km_matmul(struct ir_ctx *ctx, const struct km_matmul *v);

/* x[n, c / 16, h, w, 16] (or [n, c, h, w] with plain), w blocked to match, bias[o / 16, 16], out, residual (as out). */
struct km_conv {
    int n, c, h, w, o, kh, kw, stride, pad, dilation;
    bool depthwise, plain, relu, residual;
    /* in km_plain_conv(), of one group: x[n, h, w, c], w[o, kh, kw, c], out[n, oh, ow, o] */
    bool last;
    enum tcc_dtype dtype;            /* of x and w, cast to f32, in km_plain_conv(). 0: f32 */
};
struct kn_kernel *km_conv(struct ir_ctx *ctx, const struct km_conv *v);
int64_t km_conv_out(const struct km_conv *v, bool height);

/* Everything plain: x[n, c, h, w], w[o, c / groups, kh, kw] -> out[n, o, oh, ow]; operands x, w, out. `pad`, ..: as
 * above. */
struct kn_kernel *km_plain_conv(struct ir_ctx *ctx, const struct km_conv *v, int groups);

/* x[n, c / 16, h, w, 16] -> max or sum over k x k taps; operands x, out. */
struct km_pool { int n, c, h, w, k, stride, pad; bool max; };
struct kn_kernel *km_pool(struct ir_ctx *ctx, const struct km_pool *v);

/* Compiles kernels (scheduled already, for the machine `planned`; NULL: for arch) for an architecture and loads them.
 * False: errors are on standard error. */
bool km_load(struct ir_ctx *ctx, const char *arch, const char *planned, int n, struct kn_kernel **kernels,
             tcc_kernel_fn *functions);
/* Runs all tiles of a kernel without sizes, or with one size. False: no memory. */
bool km_run(const struct kn_kernel *k, tcc_kernel_fn f, void *const *args, int64_t size);
/* Can this processor run code for x86-64-vN? */
bool km_can_run(const char *arch);

#endif
