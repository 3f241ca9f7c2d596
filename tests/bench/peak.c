/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peak.c - the share of the processor's peak that the micro-kernel of matrix products reaches, one thread. The peak is
 * a loop of multiply-adds in registers only (tools/bench/peak.c). Panels are products whose operands fit the first or
 * the second cache, so that little but the micro-kernel is timed; whole products have packed right sides, as weights
 * are.
 *
 * Where the architecture multiplies bf16 in pairs, the same products of bf16 follow, beside a loop of such products in
 * registers.
 *
 * Both are timed by turns, in the thread's processor time: the clock of a shared machine moves. Printed: medians of the
 * rounds.
 *
 * usage: peak [architecture]     (default: native); a Markdown table on standard output
 */
#include "compiler/cpu/cpu_int.h"
#include "tools/bench/peak_int.h"
#include "tests/unit/kernel_make.h"

#include <stdlib.h>
#include <time.h>

#define ROUNDS 31

struct shape {
    const char *what;
    int m, n, k;
    struct kn_kernel *kernel;
    tcc_kernel_fn fn;
    void *args[4]; /* a, b, bias, out */
    void *scratch;
    double gflops[ROUNDS], share[ROUNDS];
};

static struct shape shapes[] = {
    {.what = "panels in the first cache", .m = 14, .n = 32, .k = 128},
    {.what = "panels in the first cache", .m = 28, .n = 64, .k = 96},
    {.what = "panels in the second cache", .m = 140, .n = 128, .k = 256},
    {.what = "panels in the second cache", .m = 280, .n = 256, .k = 384},
    {.what = "a whole product", .m = 512, .n = 512, .k = 512},
    {.what = "a whole product", .m = 768, .n = 768, .k = 768},
    {.what = "a whole product", .m = 1024, .n = 1024, .k = 1024},
    {.what = "a whole product", .m = 1536, .n = 1536, .k = 1536},
    {.what = "a whole product", .m = 2048, .n = 2048, .k = 2048},
};
#define SHAPES ((int)(sizeof shapes / sizeof *shapes))

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* GFLOP/s of products of bf16 in pairs, summed in float32 (VDPBF16PS on 512 bits): twelve independent chains. 0: this
 * processor has none. */
static double peak_pairs(void)
{
#ifdef __x86_64__
    long n = 100000, left = n;
    if (!__builtin_cpu_supports("avx512bf16"))
        return 0;
    double t = cpu_seconds();
    __asm__ volatile("vpxorq %%zmm0, %%zmm0, %%zmm0\n1:\n"
                     ".irp i, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n vdpbf16ps %%zmm0, %%zmm0, %%zmm\\i\n .endr\n"
                     "dec %0\n jnz 1b\n vzeroupper"
                     : "+r"(left)
                     :
                     : "xmm0", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13",
                       "xmm14", "xmm15");
    return (double)n * 12 * 4 * 16 / (cpu_seconds() - t) * 1e-9;
#else
    return 0;
#endif
}

static float *numbers(size_t n)
{
    float *p = aligned_alloc(64, (n * sizeof *p + 127) / 64 * 64);
    for (size_t i = 0; p && i < n; i++)
        p[i] = (float)(i % 17) * 0.1f;
    return p;
}

static bool prepare(struct shape *s)
{
    size_t m = (size_t)s->m, n = (size_t)s->n, k = (size_t)s->k, sizes[4] = {m * k, k * n, n, m * n};
    for (int i = 0; i < 4; i++) {
        free(s->args[i]);
        if (!(s->args[i] = numbers(sizes[i])))
            return false;
    }
    free(s->scratch);
    s->scratch = aligned_alloc(64, (size_t)ir_const_or(s->kernel->scratch, 0) / 64 * 64 + 64);
    return s->scratch;
}

static void run(const struct shape *s, int times)
{
    void *args[4] = {s->args[0], s->args[1], s->args[2], s->args[3]};
    struct tcc_env env = {0};
    int64_t size = 0, tiles = ir_const_or(s->kernel->tiles, 0);
    for (int i = 0; i < times; i++)
        s->fn(args, &size, s->scratch, &env, 0, tiles);
}

/* Best of four pieces of about half a millisecond, or one run, between two of the peak: a piece that lost its caches to
 * another program says nothing. */
static void measure(struct shape *s, int round, double (*peak)(void))
{
    double flops = 2.0 * s->m * s->n * s->k, before = peak();
    double best = 0;
    int times = (int)(5e-4 * before * 1e9 / flops) + 1;
    for (int i = 0; i < 4; i++) {
        double t = cpu_seconds();
        run(s, times);
        t = cpu_seconds() - t;
        best = flops * times / t * 1e-9 > best ? flops * times / t * 1e-9 : best;
    }
    double after = peak();
    s->gflops[round] = best;
    s->share[round] = best / (before > after ? before : after);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int bits; /* of the architecture's vectors */

static double peak_floats(void)
{
    return peak_gflops(bits);
}

/* The table of products of operands in one dtype. Returns an exit status. */
static int table(struct ir_ctx *ctx, const struct pass_machine *m, const char *arch, enum tcc_dtype dtype,
                 double (*peak)(void))
{
    struct kn_kernel *k[SHAPES];
    tcc_kernel_fn f[SHAPES];
    for (int i = 0; i < SHAPES; i++) {
        struct shape *s = &shapes[i];
        struct km_matmul v = {.b = 1,
                              .m = s->m,
                              .n = s->n,
                              .k = s->k,
                              .panel = ((const struct cpu_machine *)m)->emit.vector_bytes >= 64 ? 32 : 16,
                              .dtype = dtype};
        v.group = dtype == TCC_BF16 ? 2 : 1;
        k[i] = s->kernel = km_matmul(ctx, &v);
        k[i]->id = i;
        m->schedule(m, ctx, k[i]);
    }
    if (!km_load(ctx, arch, NULL, SHAPES, k, f))
        return 4;
    printf("| product | m x n x k | register tile | GFLOP/s | of peak |\n| --- | --- | --- | --- | --- |\n");
    for (int i = 0; i < SHAPES; i++) {
        struct shape *s = &shapes[i];
        s->fn = f[i];
        if (!prepare(s))
            return 3;
        run(s, 1);
        int rounds = (double)s->m * s->n * s->k > 1e9 ? ROUNDS / 4 : ROUNDS;
        for (int r = 0; r < rounds; r++)
            measure(s, r, peak);
        qsort(s->gflops, (size_t)rounds, sizeof *s->gflops, ascending);
        qsort(s->share, (size_t)rounds, sizeof *s->share, ascending);
        printf("| %s | %d x %d x %d | %d x %d | %.1f | %.1f %% |\n", s->what, s->m, s->n, s->k,
               cpu_get_schedule(k[i]).mr, cpu_get_schedule(k[i]).nr, s->gflops[rounds / 2], 100 * s->share[rounds / 2]);
        fflush(stdout);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct ir_ctx *ctx = ir_ctx_new();
    const char *arch = target_cpu.resolve(ctx, argc > 1 ? argv[1] : "native");
    const struct pass_machine *m = target_cpu.machine(ctx, arch);
    if (!m) {
        fprintf(stderr, "peak: unknown architecture '%s'\n", arch);
        return 2;
    }
    const struct cpu_machine *cpu = (const struct cpu_machine *)m;
    bits = cpu->emit.fma ? cpu->emit.vector_bytes * 8 : 128;
    int status = table(ctx, m, arch, TCC_F32, peak_floats);
    if (status)
        return status;
    printf("\npeak: %.1f GFLOP/s a core, %d-bit vectors\n", peak_floats(), bits);
    if (!cpu->multiplies_bf16 || peak_pairs() == 0)
        return 0;
    printf("\nbf16 in pairs:\n\n");
    status = table(ctx, m, arch, TCC_BF16, peak_pairs);
    printf("\npeak: %.1f GFLOP/s a core\n", peak_pairs());
    return status;
}
