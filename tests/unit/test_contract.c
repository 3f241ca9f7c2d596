/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contractions, convolutions and pools of the CPU target, over shapes with tails, strides, padding and batches, for
 * every instruction set that this processor has; compared with plain loops in double precision.
 */
#include "tests/unit/kernel_make.h"
#include "tests/unit/kernels.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/suite.h"
#include "tools/values/values_int.h"

static float *values(size_t n, unsigned seed)
{
    float *p = aligned_alloc(64, (n * sizeof *p + 191) / 64 * 64);
    unsigned s = seed * 7919 + 1;
    for (size_t i = 0; i < n; i++) {
        s = s * 1664525 + 1013904223;
        p[i] = (float)((int)(s >> 16) % 201 - 100) / 100;
    }
    return p;
}

/* `share`: of the largest, by which results may be off. */
static void compare(const char *what, const float *got, const double *want, size_t n, double share)
{
    double big = 0;
    for (size_t i = 0; i < n; i++)
        big = fmax(big, fabs(want[i]));
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(float_excess(got[i], want[i], 0, share * big + 1e-6) == 0, "%s: element %zu is %g, expected %g",
                      what, i, got[i], want[i]);
}

#define F32_SHARE 2e-5

/* -- Matrix products ------------------------------------------------------------------------------- */

static const struct km_matmul matmuls[] = {
    {.b = 1, .m = 32, .n = 64, .k = 16, .panel = 32, .relu = true},
    {.b = 1, .m = 17, .n = 77, .k = 33, .panel = 32, .relu = true},
    {.b = 1, .m = 17, .n = 77, .k = 33, .panel = 16, .relu = true},
    {.b = 1, .m = 1, .n = 1000, .k = 65, .panel = 32, .relu = true},
    {.b = 1, .m = 3, .n = 100, .k = 7, .panel = 16},
    {.b = 1, .m = 1, .n = 520, .k = 66, .panel = 16, .relu = true},
    {.b = 1, .m = 1, .n = 301, .k = 66},
    {.b = 1, .m = 128, .n = 512, .k = 64, .panel = 32, .relu = true},
    {.b = 2, .m = 50, .n = 40, .k = 31, .panel = 32, .relu = true},
    {.b = 3, .m = 33, .n = 29, .k = 64, .trans_b = true},
    {.b = 3, .m = 33, .n = 64, .k = 29},
    {.b = 2, .m = 20, .n = 37, .k = 19, .trans_a = true},
    {.b = 2, .m = 20, .n = 37, .k = 19, .trans_a = true, .trans_b = true},
    {.b = 1, .m = 300, .n = 10, .k = 40, .panel = 32, .relu = true},
    {.b = 1, .m = 129, .n = 300, .k = 40, .panel = 32, .longer = true},
    {.b = 1, .m = 64, .n = 96, .k = 1, .panel = 16},
    {.b = 1, .m = 45, .n = 96, .k = 50, .panel = 32, .relu = true, .dynamic = true},
    {.b = 2, .m = 45, .n = 33, .k = 50, .trans_b = true, .dynamic = true},
    {.b = 1, .m = 1, .n = 96, .k = 50, .panel = 32, .relu = true, .dynamic = true},
    {.b = 1, .m = 21, .n = 50, .k = 37, .dtype = TCC_BF16, .panel = 32, .relu = true},
    {.b = 2, .m = 21, .n = 50, .k = 37, .dtype = TCC_BF16, .trans_b = true},
    {.b = 1, .m = 40, .n = 70, .k = 36, .dtype = TCC_BF16, .panel = 32, .group = 2, .relu = true},
    {.b = 1, .m = 128, .n = 512, .k = 256, .dtype = TCC_BF16, .panel = 32, .group = 2},
    {.b = 1, .m = 40, .n = 70, .k = 36, .dtype = TCC_F16, .panel = 32, .group = 2, .relu = true, .half = true},
    {.b = 1, .m = 33, .n = 512, .k = 200, .dtype = TCC_F16, .panel = 32, .group = 2, .half = true},
    {.b = 2, .m = 21, .n = 50, .k = 37, .dtype = TCC_F16, .trans_b = true, .half = true},
    {.b = 1, .m = 6, .n = 5, .k = 3},
    /* B's steps fall into few sets of the caches: it is copied where rows are many */
    {.b = 1, .m = 50, .n = 1024, .k = 260},
    {.b = 1, .m = 97, .n = 2048, .k = 515},
    {.b = 1, .m = 97, .n = 2048, .k = 515, .dynamic = true},
    {.b = 1, .m = 20, .n = 1024, .k = 260, .dynamic = true},
};
#define NMATMULS ((int)(sizeof matmuls / sizeof *matmuls))

static void *in_dtype(float *p, size_t n, enum tcc_dtype d)
{
    if (!d || d == TCC_F32)
        return p;
    char *q = aligned_alloc(64, (n * 4 + 191) / 64 * 64);
    for (size_t i = 0; i < n; i++) {
        tcc_store_f64(d, q + i * (size_t)tcc_dtype_bytes(d), p[i]);
        p[i] = (float)tcc_load_f64(d, q + i * (size_t)tcc_dtype_bytes(d));
    }
    return q;
}

static void check_matmul(const struct km_matmul *v, const struct kn_kernel *k, tcc_kernel_fn f, const char *arch)
{
    size_t na = (size_t)(v->b * v->m * v->k), nb = (size_t)((v->panel ? 1 : v->b) * v->k * v->n),
           nc = (size_t)(v->b * v->m * v->n);
    int64_t g = v->group > 1 ? v->group : 1;
    size_t np = v->panel ? (size_t)((v->n + v->panel - 1) / v->panel * v->panel * v->k) : nb;
    float *a = values(na, 1), *b = values(nb, 2), *bias = values((size_t)v->n, 3), *out = values(nc, 4),
          *packed = values(np, 5);
    double *want = calloc(nc, sizeof *want);
    char what[200];
    void *pa = in_dtype(a, na, v->dtype), *rounded = in_dtype(b, nb, v->dtype);
    if (v->panel) {
        memset(packed, 0, np * sizeof *packed);
        for (int64_t j = 0; j < v->n; j++)
            for (int64_t x = 0; x < v->k; x++)
                packed[(j / v->panel * (v->k / g) + x / g) * v->panel * g + j % v->panel * g + x % g] = b[x * v->n + j];
    } else {
        memcpy(packed, b, nb * sizeof *b);
    }
    void *pb = in_dtype(packed, np, v->dtype);
    for (int64_t q = 0; q < v->b; q++)
        for (int64_t i = 0; i < v->m; i++)
            for (int64_t j = 0; j < v->n; j++) {
                double s = 0;
                for (int64_t x = 0; x < v->k; x++)
                    s += (double)(v->trans_a ? a[(q * v->k + x) * v->m + i] : a[(q * v->m + i) * v->k + x]) *
                         (v->panel     ? b[x * v->n + j]
                          : v->trans_b ? b[(q * v->n + j) * v->k + x]
                                       : b[(q * v->k + x) * v->n + j]);
                s = v->relu ? fmax(0, s + bias[j]) : s;
                for (int t = 0; v->longer && t < 24; t++)
                    s = s * 0.75 + 0.25;
                want[(q * v->m + i) * v->n + j] = s;
            }
    void *args[] = {pa, pb, bias, out};
    ck_assert(km_run(k, f, args, v->m));
    snprintf(what, sizeof what, "matmul %s b%d m%d n%d k%d panel %d", arch, (int)v->b, (int)v->m, (int)v->n, (int)v->k,
             v->panel);
    compare(what, out, want, nc, v->half ? 4e-3 : F32_SHARE);
    if (rounded != b)
        free(rounded);
    if (pa != a)
        free(pa);
    if (pb != packed)
        free(pb);
    free(a), free(b), free(bias), free(out), free(packed), free(want);
}

/* -- Convolutions ------------------------------------------------------------------------------------ */

static const struct km_conv convs[] = {
    /*n  c   h   w   o  kh kw s  p  d */
    {1, 16, 8, 8, 16, 1, 1, 1, 0, 1, .relu = false},
    {2, 32, 9, 11, 64, 1, 1, 1, 0, 1, .relu = true, .residual = true},
    {2, 32, 9, 11, 48, 3, 3, 1, 1, 1, .relu = true, .residual = true},
    {1, 24, 14, 14, 40, 3, 3, 2, 1, 1, .relu = true},
    {1, 32, 7, 7, 64, 3, 3, 1, 1, 1, .relu = true},
    {1, 3, 32, 32, 64, 7, 7, 2, 3, 1, .plain = true, .relu = true},
    {1, 16, 56, 56, 32, 3, 3, 1, 1, 1, .relu = true},
    {1, 16, 20, 20, 32, 3, 3, 1, 4, 4, .relu = true},
    {1, 64, 13, 13, 32, 1, 1, 2, 0, 1, .relu = true},
    {1, 16, 1, 1, 32, 1, 1, 1, 0, 1, .relu = true},
    {1, 32, 1, 40, 32, 1, 5, 1, 2, 1, .relu = true},
    {1, 32, 40, 3, 32, 5, 1, 1, 2, 1, .relu = true},
    {1, 16, 5, 5, 16, 5, 5, 1, 4, 1, .relu = false},
    {2, 48, 14, 14, 48, 3, 3, 1, 1, 1, .depthwise = true, .relu = true, .residual = true},
    {1, 32, 30, 30, 32, 5, 5, 2, 2, 1, .depthwise = true, .relu = true},
    {1, 32, 7, 7, 32, 5, 5, 1, 2, 1, .depthwise = true, .relu = true},
    {1, 32, 56, 56, 32, 3, 3, 1, 1, 1, .depthwise = true, .relu = true},
};
#define NCONVS ((int)(sizeof convs / sizeof *convs))

static double conv_at(const struct km_conv *v, const float *x, const float *w, int64_t n, int64_t b, int64_t y,
                      int64_t xx, int l)
{
    int64_t cb = (v->c + 15) / 16, channels = v->depthwise ? 1 : v->plain ? v->c : cb * 16;
    double s = 0;
    for (int64_t i = 0; i < channels; i++)
        for (int ty = 0; ty < v->kh; ty++)
            for (int tx = 0; tx < v->kw; tx++) {
                int64_t iy = y * v->stride + ty * v->dilation - v->pad, ix = xx * v->stride + tx * v->dilation - v->pad;
                if (iy < 0 || ix < 0 || iy >= v->h || ix >= v->w)
                    continue;
                int64_t tap = ty * v->kw + tx, taps = v->kh * v->kw, block = v->depthwise ? b : i / 16,
                        lane = v->depthwise ? l : i % 16;
                s += (double)(v->plain ? x[((n * v->c + i) * v->h + iy) * v->w + ix]
                                       : x[(((n * cb + block) * v->h + iy) * v->w + ix) * 16 + lane]) *
                     (v->depthwise ? w[(b * taps + tap) * 16 + l]
                      : v->plain   ? w[((b * v->c + i) * taps + tap) * 16 + l]
                                   : w[(((b * cb + i / 16) * taps + tap) * 16 + i % 16) * 16 + l]);
            }
    return s;
}

static void check_conv(const struct km_conv *v, const struct kn_kernel *k, tcc_kernel_fn f, const char *arch)
{
    int64_t oh = km_conv_out(v, true), ow = km_conv_out(v, false), cb = (v->c + 15) / 16, ob = (v->o + 15) / 16,
            taps = v->kh * v->kw;
    size_t nx = (size_t)(v->n * (v->plain ? v->c : cb * 16) * v->h * v->w), no = (size_t)(v->n * ob * 16 * oh * ow);
    size_t nw = (size_t)(v->depthwise ? ob * taps * 16 : v->plain ? ob * v->c * taps * 16 : ob * cb * taps * 256);
    float *x = values(nx, 1), *w = values(nw, 2), *bias = values((size_t)ob * 16, 3), *out = values(no, 4),
          *residual = values(no, 5);
    double *want = calloc(no, sizeof *want);
    char what[200];
    size_t at = 0;
    for (int64_t n = 0; n < v->n; n++)
        for (int64_t b = 0; b < ob; b++)
            for (int64_t y = 0; y < oh; y++)
                for (int64_t xx = 0; xx < ow; xx++)
                    for (int l = 0; l < 16; l++, at++) {
                        double s =
                            conv_at(v, x, w, n, b, y, xx, l) + bias[b * 16 + l] + (v->residual ? residual[at] : 0);
                        want[at] = v->relu ? fmax(0, s) : s;
                    }
    void *args[] = {x, w, bias, out, residual};
    ck_assert(km_run(k, f, args, 0));
    snprintf(what, sizeof what, "conv %s %dx%dx%d -> %d, %dx%d/%d", arch, v->c, v->h, v->w, v->o, v->kh, v->kw,
             v->stride);
    compare(what, out, want, no, F32_SHARE);
    free(x), free(w), free(bias), free(out), free(residual), free(want);
}

/* Plain tensors, with groups: the vectors run along pixels. */
static const struct {
    struct km_conv v;
    int groups;
} plains[] = {
    {{1, 12, 9, 13, 20, 1, 1, 1, 0, 1, .relu = true}, 1},  {{2, 12, 9, 13, 20, 1, 1, 1, 0, 1, .relu = true}, 4},
    {{1, 102, 7, 7, 34, 1, 1, 1, 0, 1, .relu = true}, 2},  {{2, 6, 9, 33, 4, 3, 3, 1, 1, 1, .relu = true}, 1},
    {{1, 12, 17, 17, 18, 3, 3, 2, 1, 1, .relu = true}, 3},
};
#define NPLAINS ((int)(sizeof plains / sizeof *plains))

static void check_plain(int index, const struct kn_kernel *k, tcc_kernel_fn f, const char *arch)
{
    const struct km_conv *v = &plains[index].v;
    int groups = plains[index].groups, per_in = v->c / groups, per_out = v->o / groups, taps = v->kh * v->kw;
    int64_t oh = km_conv_out(v, true), ow = km_conv_out(v, false);
    size_t nx = (size_t)(v->n * v->c * v->h * v->w), nw = (size_t)(v->o * per_in * taps),
           no = (size_t)(v->n * v->o * oh * ow), at = 0;
    float *x = values(nx, 1), *w = values(nw, 2), *out = values(no, 3);
    double *want = calloc(no, sizeof *want);
    char what[100];
    for (int n = 0; n < v->n; n++)
        for (int o = 0; o < v->o; o++)
            for (int64_t p = 0; p < oh * ow; p++, at++) {
                for (int q = 0; q < per_in * taps; q++) {
                    int64_t iy = p / ow * v->stride + q % taps / v->kw - v->pad,
                            ix = p % ow * v->stride + q % v->kw - v->pad;
                    if (iy >= 0 && ix >= 0 && iy < v->h && ix < v->w)
                        want[at] += (double)x[((n * v->c + o / per_out * per_in + q / taps) * v->h + iy) * v->w + ix] *
                                    w[o * per_in * taps + q];
                }
                want[at] = fmax(0, want[at]);
            }
    void *args[] = {x, w, out};
    ck_assert(km_run(k, f, args, 0));
    snprintf(what, sizeof what, "plain convolution %d, %s", index, arch);
    compare(what, out, want, no, F32_SHARE);
    free(x), free(w), free(out), free(want);
}

/* -- Pools --------------------------------------------------------------------------------------------- */

static const struct km_pool pools[] = {
    {1, 64, 112, 112, 3, 2, 1, true},
    {2, 32, 9, 9, 3, 1, 1, true},
    {1, 40, 14, 14, 2, 2, 0, true},
    {1, 32, 14, 14, 3, 1, 1, false},
};
#define NPOOLS ((int)(sizeof pools / sizeof *pools))

static void check_pool(const struct km_pool *v, const struct kn_kernel *k, tcc_kernel_fn f, const char *arch)
{
    int64_t oh = (v->h + 2 * v->pad - v->k) / v->stride + 1, ow = (v->w + 2 * v->pad - v->k) / v->stride + 1,
            planes = v->n * ((v->c + 15) / 16);
    size_t nx = (size_t)(planes * v->h * v->w * 16), no = (size_t)(planes * oh * ow * 16), at = 0;
    float *x = values(nx, 1), *out = values(no, 2);
    double *want = calloc(no, sizeof *want);
    for (int64_t p = 0; p < planes; p++)
        for (int64_t y = 0; y < oh; y++)
            for (int64_t xx = 0; xx < ow; xx++)
                for (int l = 0; l < 16; l++, at++) {
                    double s = v->max ? -INFINITY : 0;
                    for (int t = 0; t < v->k * v->k; t++) {
                        int64_t iy = y * v->stride + t / v->k - v->pad, ix = xx * v->stride + t % v->k - v->pad;
                        if (iy < 0 || ix < 0 || iy >= v->h || ix >= v->w)
                            continue;
                        double e = x[((p * v->h + iy) * v->w + ix) * 16 + l];
                        s = v->max ? fmax(s, e) : s + e;
                    }
                    want[at] = s;
                }
    void *args[] = {x, out};
    ck_assert(km_run(k, f, args, 0));
    compare(arch, out, want, no, F32_SHARE);
    free(x), free(out), free(want);
}

/* -- All of them ------------------------------------------------------------------------------------------- */

/* As hk_arch() reads them. */
static const char *const archs[] = {"x86-64-v2",
                                    "x86-64-v3",
                                    "x86-64-v4",
                                    "native",
                                    "native-avx512fp16",
                                    "x86-64-v2/x86-64-v3",
                                    "x86-64-v2/x86-64-v4",
                                    "x86-64-v3/x86-64-v4",
                                    "x86-64-v3/x86-64-v4+avx512bf16",
                                    "x86-64-v2/x86-64-v4+avx512bf16",
                                    "x86-64-v3/x86-64-v4+avx512fp16"};

/* A schedule from text that this target has no template or parameter for, or that the kernel cannot run by. */
static void refuses_wrong_schedules(const struct pass_machine *m, struct ir_ctx *ctx, const struct kn_kernel *k)
{
    static const struct kn_schedule wrong[] = {
        {.how = "mma"},
        {.how = "contract", .nparams = 1, .params = {{"stages", 4}}},
        {.how = "contract", .nparams = 2, .params = {{"width", 16}, {"nr", 24}}},
        {.how = "contract", .nparams = 3, .params = {{"width", 8}, {"mr", 1}, {"nr", 104}}},
        {.how = "contract", .nparams = 3, .params = {{"width", 8}, {"mr", 17}, {"nr", 32}}},
        {.how = "loops", .nparams = 1, .params = {{"width", 3}}},
        {.how = "loops", .nparams = 1, .params = {{"unroll", 1000}}},
        {.how = "loops", .nparams = 1, .params = {{"vector", KN_MAX_DIMS - 1}}},
        {.how = "winograd"},
        {.how = "attention", .nparams = 1, .params = {{"mr", 4}}},
    };
    struct kn_kernel copy = *k;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        copy.schedule = wrong[i];
        ck_assert_msg(!m->verify_schedule(m, ctx, &copy), "kernel %s: schedule %zu passes", k->name, i);
    }
    copy.schedule = k->schedule;
    copy.scratch = NULL;
    ck_assert(!m->verify_schedule(m, ctx, &copy));
}

START_TEST(kernels)
{
    struct ir_ctx *ctx = ir_ctx_new();
    struct hk_arch arch = hk_arch(ctx, archs[_i]);
    struct kn_kernel *k[NMATMULS + NCONVS + NPOOLS + NPLAINS];
    tcc_kernel_fn f[NMATMULS + NCONVS + NPOOLS + NPLAINS];
    int n = 0;
    if (!hk_cpu_runs(ctx, archs[_i])) {
        ir_ctx_free(ctx);
        return;
    }
    const struct pass_machine *m = target_cpu.machine(ctx, arch.planned);
    ck_assert(m);
    for (int i = 0; i < NMATMULS; i++)
        k[n++] = km_matmul(ctx, &matmuls[i]);
    for (int i = 0; i < NCONVS; i++)
        k[n++] = km_conv(ctx, &convs[i]);
    for (int i = 0; i < NPOOLS; i++)
        k[n++] = km_pool(ctx, &pools[i]);
    for (int i = 0; i < NPLAINS; i++)
        k[n++] = km_plain_conv(ctx, &plains[i].v, plains[i].groups);
    for (int i = 0; i < n; i++) {
        k[i]->id = i;
        m->schedule(m, ctx, k[i]);
        const char *want = i < NMATMULS                      ? "contract"
                           : i >= NMATMULS + NCONVS + NPOOLS ? "conv"
                           : i >= NMATMULS + NCONVS          ? "pool"
                           : convs[i - NMATMULS].depthwise   ? "depthwise"
                                                             : "conv";
        ck_assert_msg(!strcmp(k[i]->schedule.how, want), "kernel %d has template %s, expected %s", i,
                      k[i]->schedule.how, want);
        ck_assert(m->verify_schedule(m, ctx, k[i]));
        refuses_wrong_schedules(m, ctx, k[i]);
    }
    ck_assert(km_load(ctx, arch.code, arch.planned, n, k, f));
    for (int i = 0; i < n; i++)
        if (i < NMATMULS)
            check_matmul(&matmuls[i], k[i], f[i], archs[_i]);
        else if (i < NMATMULS + NCONVS)
            check_conv(&convs[i - NMATMULS], k[i], f[i], archs[_i]);
        else if (i >= NMATMULS + NCONVS + NPOOLS)
            check_plain(i - NMATMULS - NCONVS - NPOOLS, k[i], f[i], archs[_i]);
        else
            check_pool(&pools[i - NMATMULS - NCONVS], k[i], f[i], archs[_i]);
    ir_ctx_free(ctx);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("contract");
    TCase *t = tcase_create("kernels");
    tcase_set_timeout(t, 120);
    ADD_ROUNDS(t, kernels, (int)(sizeof archs / sizeof *archs));
    suite_add_tcase(s, t);
    return run_tests(s);
}
