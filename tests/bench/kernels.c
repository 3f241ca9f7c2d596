/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernels.c - how near the machine's peak the generated kernels come: prints time, GFLOP/s, share of the peak measured
 * in the same moments, and GB/s of operands, one thread, for the convolutions of ResNet-50 and MobileNetV3 and the
 * matrix products of small transformers.
 *
 * usage: kernels [architecture [part of a name]]     (default: native, all)
 */
#include "compiler/cpu/cpu_int.h"
#include "tools/bench/peak_int.h"
#include "tests/unit/kernel_make.h"

#include <stdlib.h>
#include <string.h>

struct shape {
    char name[64];
    struct kn_kernel *k;
    double flops;
};

static struct shape shapes[200];
static int nshapes;
static struct ir_ctx *ctx;
static const char *filter;

static void add(struct kn_kernel *k, double flops, const char *name)
{
    if (filter && !strstr(name, filter))
        return;
    k->id = nshapes;
    shapes[nshapes] = (struct shape){.k = k, .flops = flops};
    snprintf(shapes[nshapes++].name, sizeof shapes->name, "%s", name);
}

static void matmul(int64_t b, int64_t m, int64_t n, int64_t k, int panel, bool trans_b)
{
    char name[64];
    struct km_matmul v = {.b = b, .m = m, .n = n, .k = k, .panel = panel, .trans_b = trans_b, .relu = true};
    snprintf(name, sizeof name, "matmul %dx%dx%dx%d%s%s", (int)b, (int)m, (int)n, (int)k, panel ? "" : " not packed",
             trans_b ? " b'" : "");
    add(km_matmul(ctx, &v), 2.0 * (double)(b * m * n * k), name);
}

static void conv(int c, int h, int o, int taps, int stride, bool depthwise)
{
    char name[64];
    struct km_conv v = {
        1, c, h, h, o, taps, taps, stride, taps / 2, 1, .depthwise = depthwise, .plain = c < 8, .relu = true};
    int64_t out = km_conv_out(&v, true);
    snprintf(name, sizeof name, "%s %dx%dx%d -> %d %dx%d/%d", depthwise ? "depthwise" : "conv", c, h, h, o, taps, taps,
             stride);
    add(km_conv(ctx, &v), 2.0 * (double)(out * out) * o * taps * taps * (depthwise ? 1 : c), name);
}

static void all_shapes(int panel)
{
    static const int convs[][5] = {
        {3, 224, 64, 7, 2},    {64, 56, 64, 1, 1},   {64, 56, 64, 3, 1},   {64, 56, 256, 1, 1},
        {256, 56, 64, 1, 1},   {128, 56, 128, 3, 2}, {128, 28, 128, 3, 1}, {512, 28, 128, 1, 1},
        {128, 28, 512, 1, 1},  {256, 56, 512, 1, 2}, {256, 14, 256, 3, 1}, {1024, 14, 256, 1, 1},
        {256, 14, 1024, 1, 1}, {512, 7, 512, 3, 1},  {512, 7, 2048, 1, 1}, {2048, 7, 512, 1, 1}};
    static const int depthwise[][4] = {{16, 112, 3, 1}, {64, 112, 3, 2}, {72, 56, 5, 2},
                                       {240, 28, 3, 2}, {480, 14, 3, 1}, {960, 7, 5, 1}};
    static const int products[][3] = {{1024, 1024, 1024}, {128, 512, 512},  {128, 2048, 512}, {128, 512, 2048},
                                      {128, 1152, 384},   {128, 8192, 384}, {197, 768, 192},  {197, 192, 768},
                                      {1, 1000, 2048},    {2, 576, 192}};
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        matmul(1, products[i][0], products[i][1], products[i][2], panel, false);
    matmul(8, 128, 128, 64, 0, true);
    matmul(8, 128, 64, 128, 0, false);
    matmul(3, 197, 197, 64, 0, true);
    for (size_t i = 0; i < sizeof convs / sizeof *convs; i++)
        conv(convs[i][0], convs[i][1], convs[i][2], convs[i][3], convs[i][4], false);
    for (size_t i = 0; i < sizeof depthwise / sizeof *depthwise; i++)
        conv(depthwise[i][0], depthwise[i][1], depthwise[i][0], depthwise[i][2], depthwise[i][3], true);
}

static size_t operand_bytes(const struct kn_operand *o)
{
    size_t n = (size_t)tcc_dtype_bytes(o->dtype);
    for (int i = 0; i < o->rank; i++)
        n *= (size_t)ir_const_or(o->dims[i], 1);
    return n;
}

static void measure(const struct shape *s, tcc_kernel_fn f, int bits)
{
    void *args[8];
    size_t bytes = 0;
    double best = 1e9, total = 0, peak = 0;
    for (int i = 0; i < s->k->noperands; i++) {
        size_t n = operand_bytes(&s->k->operands[i]);
        float *p = aligned_alloc(64, n / 4096 * 4096 + 4096);
        for (size_t j = 0; j < n / sizeof *p; j++)
            p[j] = (float)(j % 17) * 0.1f;
        args[i] = p;
        bytes += i != 4 ? n : 0; /* operand 4, the residual, isn't read here */
    }
    int64_t tiles = ir_const_or(s->k->tiles, 0), size = 0;
    void *scratch = aligned_alloc(64, (size_t)ir_const_or(s->k->scratch, 0) / 64 * 64 + 64);
    struct tcc_env env = {0};
    f(args, &size, scratch, &env, 0, tiles);
    for (int run = 0; run < 300 && total < 0.3; run++) {
        double now = run % 16 ? 0 : peak_gflops(bits), t = peak_seconds();
        peak = now > peak ? now : peak;
        f(args, &size, scratch, &env, 0, tiles);
        t = peak_seconds() - t;
        total += t;
        best = t < best ? t : best;
    }
    struct cpu_schedule c = cpu_get_schedule(s->k);
    printf("%-34s %2dx%-3d %3d tiles %9.1f us %6.1f GFLOP/s %5.1f%% of %.0f %6.1f GB/s\n", s->name, c.mr, c.nr,
           (int)tiles, best * 1e6, s->flops / best * 1e-9, 100 * s->flops / best * 1e-9 / peak, peak,
           (double)bytes / best * 1e-9);
    fflush(stdout);
    for (int i = 0; i < s->k->noperands; i++)
        free(args[i]);
    free(scratch);
}

int main(int argc, char **argv)
{
    struct kn_kernel *k[200];
    tcc_kernel_fn f[200];
    ctx = ir_ctx_new();
    const char *arch = target_cpu.resolve(ctx, argc > 1 ? argv[1] : "native");
    const struct pass_machine *m = target_cpu.machine(ctx, arch);
    if (!m) {
        fprintf(stderr, "kernels: unknown architecture '%s'\n", arch);
        return 2;
    }
    const struct cpu_machine *cpu = (const struct cpu_machine *)m;
    filter = argc > 2 ? argv[2] : NULL;
    all_shapes(cpu->emit.vector_bytes >= 64 ? 32 : 16);
    for (int i = 0; i < nshapes; i++) {
        k[i] = shapes[i].k;
        m->schedule(m, ctx, k[i]);
    }
    if (!km_load(ctx, arch, NULL, nshapes, k, f))
        return 4;
    for (int i = 0; i < nshapes; i++)
        measure(&shapes[i], f[i], cpu->emit.fma ? cpu->emit.vector_bytes * 8 : 128);
    ir_ctx_free(ctx);
    return 0;
}
