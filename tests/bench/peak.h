/* SPDX-License-Identifier: Apache-2.0 */
/* peak.h - what the processor can do at best: a loop of multiply-adds in registers only. */
#ifndef TCC_TESTS_PEAK_H
#define TCC_TESTS_PEAK_H

double peak_seconds(void);                   /* a monotonic clock */
/* GFLOP/s (float32) of one core over about a millisecond; bits: 512 or 256 (which need FMA), 128 (multiply and add). */
double peak_gflops(int bits);

#endif
