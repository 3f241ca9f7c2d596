/* SPDX-License-Identifier: Apache-2.0 */
/* Private to tools/ (and tests/bench): what the processor can do at best: a loop of multiply-adds in registers only. */
#ifndef TCCC_TOOLS_PEAK_INT_H
#define TCCC_TOOLS_PEAK_INT_H

double peak_seconds(void);                   /* a monotonic clock */
/* GFLOP/s (float32) of one core over about a millisecond; bits: 512 or 256 (which need FMA), 128 (multiply and add). */
double peak_gflops(int bits);
int peak_bits(void);                         /* the widest of them that this processor has; 0: no x86-64 */
/* The widest vectors that code for `isa` (tccrt_isa_used()) may use here, in bits; GFLOP/s of that many cores by
 * them. */
int peak_bits_of(const char *isa);
double peak_of(const char *isa, int threads);

#endif
