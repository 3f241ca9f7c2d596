/* SPDX-License-Identifier: Apache-2.0 */
/* DOMAIN:NAME(operands) attributes -> results, for GPUs. Replace NAME, shape() and the device code, and give the file as --custom-op=DOMAIN:NAME=FILE.cu;
 * with a FILE.c for the same operator, its shape() is the one that counts. */
#include <tccc_custom.h>

#ifdef __CUDACC__ /* device code, by NVRTC: no headers but this one and your own; math functions, shuffles and atomics are there */

TCCC_CUDA_OP(NAME)
{
    const float *x = (const float *)c.in[0].data;
    float *y = (float *)c.out[0].data;
    for (long long i = tccc_thread(); i < c.out[0].elements; i += tccc_threads())
        y[i] = x[i];
}

#else /* the host's section, in C */

static int shape(struct tccc_custom *c)
{
    if (c->nin != 1 || c->nout != 1 || c->in[0].dtype != TCCC_F32)
        return c->fail(c, "expected one operand of f32 and one result");
    return tccc_custom_like(c, 0, 0);
}

TCCC_CUSTOM_OP(NAME) = {.version = TCCC_CUSTOM_VERSION, .shape = shape, .cuda = {.block = 256}};

#endif
