/* SPDX-License-Identifier: Apache-2.0 */
/*
 * com.example:ScaledTanh for GPUs, beside scaled_tanh.c: the host's section says how it is launched, device code what it computes. It is given
 * as a second --custom-op=com.example:ScaledTanh=scaled_tanh.cu
 */
#include <tccc_custom.h>

#ifdef __CUDACC__ /* NVRTC */

template <typename T> static __device__ void scaled_tanh(const T *x, T *y, long long n, T alpha, T beta)
{
    for (long long i = tccc_thread(); i < n; i += tccc_threads())
        y[i] = alpha * tanh(beta * x[i]);
}

TCCC_CUDA_OP(ScaledTanh)
{
    constexpr double alpha = C::attr_float("alpha", 1), beta = C::attr_float("beta", 1);
    if (c.in[0].dtype == TCCC_F32)
        scaled_tanh((const float *)c.in[0].data, (float *)c.out[0].data, c.out[0].elements, (float)alpha, (float)beta);
    else
        scaled_tanh((const double *)c.in[0].data, (double *)c.out[0].data, c.out[0].elements, alpha, beta);
}

template <typename T> static __device__ void scaled_tanh_grad(const T *y, const T *dy, T *dx, long long n, T alpha, T beta)
{
    for (long long i = tccc_thread(); i < n; i += tccc_threads())
        dx[i] = alpha == 0 ? 0 : dy[i] * beta * (alpha - y[i] * y[i] / alpha);
}

TCCC_CUDA_OP(ScaledTanh_grad)
{
    constexpr double alpha = C::attr_float("alpha", 1), beta = C::attr_float("beta", 1);
    if (c.in[0].dtype == TCCC_F32)
        scaled_tanh_grad((const float *)c.in[1].data, (const float *)c.in[2].data, (float *)c.out[0].data, c.out[0].elements,
                         (float)alpha, (float)beta);
    else
        scaled_tanh_grad((const double *)c.in[1].data, (const double *)c.in[2].data, (double *)c.out[0].data, c.out[0].elements,
                         alpha, beta);
}

#else /* the host's section, in C */

static int shape(struct tccc_custom *c)
{
    if (c->nin != 1 || c->nout != 1 || (c->in[0].dtype != TCCC_F32 && c->in[0].dtype != TCCC_F64))
        return c->fail(c, "expected one operand of f32 or f64, and one result");
    return tccc_custom_like(c, 0, 0);
}

TCCC_CUSTOM_OP(ScaledTanh) = {.version = TCCC_CUSTOM_VERSION, .shape = shape, .cuda = {.block = 256}};
TCCC_CUSTOM_OP(ScaledTanh_grad) = {.version = TCCC_CUSTOM_VERSION, .cuda = {.block = 256}};

#endif
