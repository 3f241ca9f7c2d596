/* SPDX-License-Identifier: Apache-2.0 */
/* ranking.h - published series of products, as the simulator's model ranks them (test_ranking.c). */
#ifndef TCC_TEST_RANKING_H
#define TCC_TEST_RANKING_H

struct ranked {
    const char *name;
    double published, modelled;      /* TFLOP/s */
};
enum { RANKED_FP32 = 8 };

/* ranking_fp32.c. Step i gives the right results, with all checks on. */
void ranking_fp32_right(int i);
/* The series, modelled on the device on which it was measured. */
void ranking_fp32(struct ranked list[RANKED_FP32]);

#endif
