/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The products of the tensor engine: sums[m, n] = the sum over k, ascending from 0, of stationary[k, m] * moving[k, n],
 * each product and each sum rounded to float32, so that every host gives the same bits whatever the width of its
 * vectors. Columns are padded to what a block takes; what is computed there is not used.
 */
#include "sim/neuron/neuron_int.h"

/* A block of rows x 2 vectors of sums in registers. */
#define MULTIPLY(name, attributes, lanes, block)                                                                  \
    typedef float name##_vector __attribute__((vector_size((lanes)*4), aligned(4), may_alias));                   \
    attributes static void name(int rows, int columns, int n, const float *stationary, const float *moving,       \
                                float *sums)                                                                      \
    {                                                                                                             \
        for (int m = 0; m < columns; m += (block))                                                                \
            for (int c = 0; c < n; c += 2 * (lanes)) {                                                            \
                name##_vector sum[block][2];                                                                      \
                for (int b = 0; b < (block); b++)                                                                 \
                    sum[b][0] = sum[b][1] = (name##_vector){0};                                                   \
                for (int k = 0; k < rows; k++) {                                                                  \
                    const float *s = stationary + k * NEURON_STATIONARY + m, *v = moving + k * NEURON_MOVING + c; \
                    name##_vector x = *(const name##_vector *)v, y = *(const name##_vector *)(v + (lanes));       \
                    _Pragma("GCC unroll 8") for (int b = 0; b < (block); b++)                                     \
                    {                                                                                             \
                        sum[b][0] += s[b] * x;                                                                    \
                        sum[b][1] += s[b] * y;                                                                    \
                    }                                                                                             \
                }                                                                                                 \
                for (int b = 0; b < (block); b++) {                                                               \
                    *(name##_vector *)(sums + (m + b) * NEURON_MOVING + c) = sum[b][0];                           \
                    *(name##_vector *)(sums + (m + b) * NEURON_MOVING + c + (lanes)) = sum[b][1];                 \
                }                                                                                                 \
            }                                                                                                     \
    }

MULTIPLY(multiply4, , 4, 4)
#if defined __x86_64__
MULTIPLY(multiply8, __attribute__((target("avx2"))), 8, 4)
MULTIPLY(multiply16, __attribute__((target("avx512f"))), 16, 8)
#endif

void neuron_multiply(int rows, int columns, int n, const float *stationary, const float *moving, float *sums)
{
#if defined __x86_64__
    if (__builtin_cpu_supports("avx512f")) {
        multiply16(rows, columns, n, stationary, moving, sums);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        multiply8(rows, columns, n, stationary, moving, sums);
        return;
    }
#endif
    multiply4(rows, columns, n, stationary, moving, sums);
}
