/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peak.c - the machine's peak. Twelve independent chains hide the latency of two multiply-adds a cycle. Measured again
 * and again between kernels, since the clock of a shared machine moves; in processor time, which others' work doesn't
 * count in.
 */
#include "tools/bench/peak_int.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>

double peak_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#define CHAINS(X) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define CLOBBERED \
    "xmm0", "xmm1", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"
#define FMA512(i) "vfmadd231ps %%zmm0, %%zmm0, %%zmm" #i "\n"
#define FMA256(i) "vfmadd231ps %%ymm0, %%ymm0, %%ymm" #i "\n"
#define MULADD(i) "mulps %%xmm0, %%xmm" #i "\n addps %%xmm0, %%xmm" #i "\n"

#ifdef __x86_64__
static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int peak_bits(void)
{
    if (__builtin_cpu_supports("avx512f"))
        return 512;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 256 : 128;
}

double peak_gflops(int bits)
{
    long n = 200000, left = n;
    double t = processor_seconds();
    if (bits == 512)
        __asm__ volatile("vpxorq %%zmm0, %%zmm0, %%zmm0\n1:\n" CHAINS(FMA512) "dec %0\n jnz 1b\n vzeroupper"
                         : "+r"(left)
                         :
                         : CLOBBERED);
    else if (bits == 256)
        __asm__ volatile("vpxor %%ymm0, %%ymm0, %%ymm0\n1:\n" CHAINS(FMA256) "dec %0\n jnz 1b\n vzeroupper"
                         : "+r"(left)
                         :
                         : CLOBBERED);
    else
        __asm__ volatile("xorps %%xmm0, %%xmm0\n1:\n" CHAINS(MULADD) "dec %0\n jnz 1b\n" : "+r"(left) : : CLOBBERED);
    t = processor_seconds() - t;
    return (double)n * 12 * 2 * (bits / 32) / t * 1e-9;
}
#else
int peak_bits(void)
{
    return 0;
}

double peak_gflops(int bits)
{
    (void)bits;
    return 0;
}
#endif

int peak_bits_of(const char *isa)
{
    bool v4 = !strcmp(isa, "x86-64-v4") || strstr(isa, "avx512f");
    bool v3 = !strcmp(isa, "x86-64-v3") || (strstr(isa, "avx2") && strstr(isa, "fma"));
    int here = peak_bits(), bits = v4 ? 512 : v3 ? 256 : 128;
    return bits < here ? bits : here;
}

double peak_of(const char *isa, int threads)
{
    int bits = peak_bits_of(isa);
    return bits ? threads * peak_gflops(bits) : 0;
}
