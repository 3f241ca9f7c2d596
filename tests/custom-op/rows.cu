/* SPDX-License-Identifier: Apache-2.0 */
/* RowSums(x) w -> sums of rows times the list w, over and over: a block a row, shared memory. -DBUG-like mistakes are put in by the test, at HERE. */
#include <tccc_custom.h>
#ifdef __CUDACC__
TCCC_CUDA_OP(RowSums)
{
    extern __shared__ float part[];
    long long n = c.in[0].dims[c.in[0].rank - 1];
    const float *x = (const float *)c.in[0].data + tccc_row() * n;
    float sum = 0;
    for (long long k = threadIdx.x; k < n; k += blockDim.x)
        sum += x[k] * C::attr_ints("w", k % C::attr_count("w"), 1);
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int d = blockDim.x / 2; d; d /= 2) {
        if (threadIdx.x < d)
            part[threadIdx.x] += part[threadIdx.x + d];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        ((float *)c.out[0].data)[tccc_row() /* HERE */] = part[0];
}
#else
static int shape(struct tccc_custom *c)
{
    tccc_custom_like(c, 0, 0);
    c->out[0].dims[c->out[0].rank - 1] = 1;
    return 0;
}
TCCC_CUSTOM_OP(RowSums) = {.version = TCCC_CUSTOM_VERSION, .shape = shape, .cuda = {.block = 64, .rows = 1, .shared = 256}};
#endif
