/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tau.c - does the model that chooses register tiles order them as the processor does? Of each of 40 products and
 * convolutions, all tiles that the model knows are compiled and run by turns, one thread, the least of its processor
 * times. Printed: for each kernel Kendall's tau (pairs of tiles whose order agrees less those whose order doesn't, by
 * all pairs; those that are measured within 2 % of each other are left out), and what the model's choice takes over the
 * best one's time; at the end tau of all tiles of all kernels, by predicted and measured cycles, and the means.
 *
 * usage: tau [architecture [least tau of all]]     (default: native; below the least: exit status 1)
 */
#include "compiler/cpu/contract_sched.c" /* the model: what chooses is not for others to call */
#include "tests/unit/kernel_make.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#define OF_ONE 64
#define ROUNDS 9
#define TIE 1.02

struct tile {
    int mr, cv;
    double predicted, measured; /* predicted: in units of its own */
    struct kn_kernel *kernel;
    tcc_kernel_fn fn;
    void *scratch;
};

struct tally {
    int64_t agree, differ;
};

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* m, n, k; or channels, size, channels out, taps, stride */
static const int products[][3] = {{512, 512, 512},  {128, 512, 512}, {128, 2048, 512}, {128, 512, 2048},
                                  {128, 1152, 384}, {197, 768, 192}, {197, 192, 768},  {64, 256, 256},
                                  {16, 512, 128},   {1, 512, 128},   {1, 1024, 256},   {2, 576, 192},
                                  {4, 256, 1024},   {49, 384, 96},   {50, 1000, 64},   {7, 768, 768},
                                  {33, 100, 300},   {256, 64, 64},   {12, 48, 400},    {300, 40, 128}};
static const int convs[][5] = {{64, 56, 64, 1, 1},   {64, 56, 64, 3, 1},   {64, 56, 256, 1, 1},   {256, 56, 64, 1, 1},
                               {128, 56, 128, 3, 2}, {128, 28, 128, 3, 1}, {512, 28, 128, 1, 1},  {128, 28, 512, 1, 1},
                               {256, 56, 512, 1, 2}, {256, 14, 256, 3, 1}, {1024, 14, 256, 1, 1}, {256, 14, 1024, 1, 1},
                               {512, 7, 512, 3, 1},  {512, 7, 2048, 1, 1}, {96, 28, 96, 3, 1},    {32, 112, 64, 1, 1},
                               {160, 14, 960, 1, 1}, {48, 40, 48, 3, 1},   {80, 20, 160, 3, 2},   {32, 13, 32, 5, 1}};
#define NPRODUCTS ((int)(sizeof products / sizeof *products))
#define NKERNELS (NPRODUCTS + (int)(sizeof convs / sizeof *convs))

static struct kn_kernel *make(struct ir_ctx *ctx, int i, int panel, double *steps)
{
    if (i < NPRODUCTS) {
        const int *p = products[i];
        struct km_matmul v = {.b = 1, .m = p[0], .n = p[1], .k = p[2], .panel = panel, .relu = true};
        *steps = (double)p[0] * p[1] * p[2];
        return km_matmul(ctx, &v);
    }
    const int *p = convs[i - NPRODUCTS];
    struct km_conv v = {1, p[0], p[1], p[1], p[2], p[3], p[3], p[4], p[3] / 2, 1, .relu = true};
    int64_t out = km_conv_out(&v, true);
    *steps = (double)(out * out) * p[2] * p[3] * p[3] * p[0];
    return km_conv(ctx, &v);
}

static void name_of(int i, char *to, size_t room)
{
    const int *p = i < NPRODUCTS ? products[i] : convs[i - NPRODUCTS];
    if (i < NPRODUCTS)
        snprintf(to, room, "%d x %d x %d", p[0], p[1], p[2]);
    else
        snprintf(to, room, "%d of %d x %d to %d, %d x %d by %d", p[0], p[1], p[1], p[2], p[3], p[3], p[4]);
}

/* Schedules the kernel with that register tile. Cycles, about, of a multiply-add of one row and one column by the model
 * that chooses tiles; 0: it has no such tile, or sizes aren't known. */
static double schedule_tile(const struct cpu_machine *m, struct ir_ctx *ctx, struct kn_kernel *k, int mr, int cv)
{
    struct ct c;
    int evened = mr;
    if (!ct_analyse(m, ctx, k, &c) || c.nrows == CT_DYN || c.ncols == CT_DYN)
        return 0;
    double cost = tile_cost(m, &c, cv, &evened);
    if (cost <= 0 || evened != mr || too_many_edges(&c, mr))
        return 0;
    put_tile(m, &c, k, k->kind == IR_K_WINDOW ? CPU_CONV : CPU_CONTRACT, mr, cv);
    return cost / (double)(c.nrows * c.ncols);
}

/* All tiles of kernel i, the model's choice first. */
static int list_tiles(struct ir_ctx *ctx, const struct pass_machine *m, int i, struct tile *at)
{
    const struct cpu_machine *cpu = (const struct cpu_machine *)m;
    int panel = cpu->emit.vector_bytes >= 64 ? 32 : 16, n = 0;
    double steps;
    struct kn_kernel *k = make(ctx, i, panel, &steps);
    m->schedule(m, ctx, k);
    struct cpu_schedule chosen = cpu_get_schedule(k);
    for (int own = 1; own >= 0; own--)
        for (int cv = 1; cv <= CPU_TILE_VECTORS; cv++)
            for (int mr = 1; mr <= 24 && n < OF_ONE; mr++) {
                k = make(ctx, i, panel, &steps);
                double cost = schedule_tile(cpu, ctx, k, mr, cv);
                struct cpu_schedule s = cost > 0 ? cpu_get_schedule(k) : chosen;
                if (cost <= 0 || own != (s.mr == chosen.mr && s.nr == chosen.nr))
                    continue;
                k->id = n;
                at[n++] = (struct tile){mr, cv, cost * steps, INFINITY, k, NULL, NULL};
            }
    return n;
}

static size_t operand_bytes(const struct kn_operand *o)
{
    size_t n = (size_t)tcc_dtype_bytes(o->dtype);
    for (int i = 0; i < o->rank; i++)
        n *= (size_t)ir_const_or(o->dims[i], 1);
    return n;
}

static void measure(struct tile *t, int n)
{
    void *args[8];
    int64_t size = 0;
    struct tcc_env env = {0};
    for (int i = 0; i < t->kernel->noperands; i++) {
        size_t bytes = operand_bytes(&t->kernel->operands[i]);
        float *p = args[i] = aligned_alloc(64, bytes / 4096 * 4096 + 4096);
        for (size_t j = 0; j < bytes / sizeof *p; j++)
            p[j] = (float)(j % 17) * 0.1f;
    }
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < n; i++) {
            int64_t tiles = ir_const_or(t[i].kernel->tiles, 0);
            if (!t[i].scratch)
                t[i].scratch = aligned_alloc(64, (size_t)ir_const_or(t[i].kernel->scratch, 0) / 64 * 64 + 64);
            int times = round ? (int)(3e-4 / t[i].measured) + 1 : 1;
            for (int piece = 0; piece < 4; piece++) {
                double start = cpu_seconds();
                for (int j = 0; j < times; j++)
                    t[i].fn(args, &size, t[i].scratch, &env, 0, tiles);
                t[i].measured = fmin(t[i].measured, (cpu_seconds() - start) / times);
            }
        }
    for (int i = 0; i < t->kernel->noperands; i++)
        free(args[i]);
    for (int i = 0; i < n; i++)
        free(t[i].scratch);
}

static struct tally count(const struct tile *t, int n)
{
    struct tally r = {0, 0};
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++) {
            double a = t[i].measured, b = t[j].measured, order = (a - b) * (t[i].predicted - t[j].predicted);
            if (fmax(a, b) > TIE * fmin(a, b)) {
                r.agree += order > 0;
                r.differ += order < 0;
            }
        }
    return r;
}

static double tau(struct tally t)
{
    return t.agree + t.differ ? (double)(t.agree - t.differ) / (double)(t.agree + t.differ) : 1;
}

int main(int argc, char **argv)
{
    static struct tile all[NKERNELS * OF_ONE];
    int total = 0, chosen = 0;
    double loss = 0, sum = 0;
    struct ir_ctx *ctx = ir_ctx_new();
    const char *arch = target_cpu.resolve(ctx, argc > 1 ? argv[1] : "native");
    const struct pass_machine *m = target_cpu.machine(ctx, arch);
    if (!m) {
        fprintf(stderr, "tau: unknown architecture\n");
        return 2;
    }
    printf("| kernel | tiles | tau | choice | best | choice / best |\n| --- | --- | --- | --- | --- | --- |\n");
    for (int i = 0; i < NKERNELS; i++) {
        struct tile *t = all + total;
        struct kn_kernel *k[OF_ONE];
        tcc_kernel_fn f[OF_ONE];
        char name[80];
        int n = list_tiles(ctx, m, i, t), best = 0;
        for (int j = 0; j < n; j++)
            k[j] = t[j].kernel;
        if (n < 2 || !km_load(ctx, arch, NULL, n, k, f))
            continue;
        for (int j = 0; j < n; j++)
            t[j].fn = f[j];
        measure(t, n);
        for (int j = 0; j < n; j++)
            best = t[j].measured < t[best].measured ? j : best;
        name_of(i, name, sizeof name);
        printf("| %s | %d | %.2f | %d x %d | %d x %d | %.2f |\n", name, n, tau(count(t, n)), t->mr, t->cv, t[best].mr,
               t[best].cv, t->measured / t[best].measured);
        fflush(stdout);
        loss += log(t->measured / t[best].measured);
        sum += tau(count(t, n));
        total += n;
        chosen++;
    }
    double whole = tau(count(all, total));
    printf("\n%d kernels, %d tiles: tau %.3f, mean of the kernels' %.3f; choice / best %.3f (geometric mean)\n", chosen,
           total, whole, sum / chosen, exp(loss / chosen));
    ir_ctx_free(ctx);
    return argc > 2 && whole < strtod(argv[2], NULL);
}
