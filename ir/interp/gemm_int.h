/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_int.h - the one matrix loop, included per element type: GEMM (name), GEMM_T (8-byte type), GEMM_V (a
 * vector of two of them). No guard: a template.
 *
 * b is taken in panels of 256 rows by 8 columns, copied to the stack, against which two rows of c at a time are kept in
 * registers. The sum over k runs in ascending order for every element.
 */
#define GEMM_KB 256

void GEMM(int64_t m, int64_t n, int64_t k, const GEMM_T *a, const GEMM_T *b, GEMM_T *c)
{
    GEMM_V panel[GEMM_KB][4];
    for (int64_t k0 = 0; k0 < k; k0 += GEMM_KB) {
        int64_t kb = k - k0 < GEMM_KB ? k - k0 : GEMM_KB;
        for (int64_t j0 = 0; j0 < n; j0 += 8) {
            size_t w = (size_t)(n - j0 < 8 ? n - j0 : 8) * sizeof(GEMM_T);
            memset(panel, 0, w < 64 ? sizeof panel : 0);
            for (int64_t p = 0; p < kb; p++)
                memcpy(panel[p], b + (k0 + p) * n + j0, w);
            for (int64_t i = 0; i < m; i += 2) {
                bool pair = i + 1 < m;
                GEMM_V r0[4] = { { 0 } }, r1[4] = { { 0 } };
                const GEMM_T *a0 = a + i * k + k0, *a1 = pair ? a0 + k : a0;
                memcpy(r0, c + i * n + j0, w);
                if (pair)
                    memcpy(r1, c + (i + 1) * n + j0, w);
                for (int64_t p = 0; p < kb; p++) {
                    GEMM_V x0 = { a0[p], a0[p] }, x1 = { a1[p], a1[p] };
#pragma GCC unroll 4
                    for (int q = 0; q < 4; q++) {
                        r0[q] += x0 * panel[p][q];
                        r1[q] += x1 * panel[p][q];
                    }
                }
                memcpy(c + i * n + j0, r0, w);
                if (pair)
                    memcpy(c + (i + 1) * n + j0, r1, w);
            }
        }
    }
}
#undef GEMM_KB
#undef GEMM
#undef GEMM_T
#undef GEMM_V
