/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps by which a published worklog went from 0.3 to 21.8 TFLOP/s of float32 on one RTX A6000, a product of 4096^3
 * (S. Böhm, "How to Optimize a CUDA Matmul Kernel for cuBLAS-like Performance", 2022, siboehm/SGEMM_CUDA: the figures
 * of its table, its kernels 1 to 6, 9 and 10), written anew in PTX: a thread a result, neighbours along columns, tiles
 * in shared memory, 8 and 64 results a thread, vectors with a transposed factor, more terms at a time, tiles of warps.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/ptx/ptxsim.h"
#include "tests/unit/ranking.h"

enum { SIZE = 4096 };

struct step {
    const char *name;
    double tflops; /* as published */
    int bm, bn, bk, tm, tn;
    bool vectors;
    int wm, wn, groups; /* a warp's tile, 0: none; groups of tn columns that a thread has */
    enum { TILES, BY_ROWS, BY_COLUMNS } way;
};
static const struct step series[RANKED_FP32] = {
    {"a thread a result", 0.3090, 32, 32, 32, 1, 1, false, 0, 0, 1, BY_ROWS},
    {"neighbours along columns", 1.9865, 32, 32, 32, 1, 1, false, 0, 0, 1, BY_COLUMNS},
    {"tiles in shared memory", 2.9803, 32, 32, 32, 1, 1, false, 0, 0, 1, TILES},
    {"8 results a thread", 8.4747, 64, 64, 8, 8, 1, false, 0, 0, 1, TILES},
    {"8 x 8 results a thread", 15.9717, 128, 128, 8, 8, 8, false, 0, 0, 1, TILES},
    {"vectors", 18.2373, 128, 128, 8, 8, 8, true, 0, 0, 1, TILES},
    {"16 terms at a time", 19.7210, 128, 128, 16, 8, 8, true, 0, 0, 1, TILES},
    {"tiles of warps", 21.7793, 128, 128, 16, 8, 4, true, 64, 64, 4, TILES},
};

static FILE *out;
#define P(...) fprintf(out, __VA_ARGS__)

static int threads_of(const struct step *s)
{
    return s->bm * s->bn / (s->tm * s->tn * s->groups);
}

/* %d1 to %d3: a, b, c; %r1 the thread; %r2, %r3 n and k; %r4 the steps; %r5, %r6 its first row and column. */
static void head(const struct step *s)
{
    P(".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, "
      ".param .u32 n, "
      ".param .u32 k, .param .u32 steps) .maxntid %d, 1, 1 {\n.reg .pred %%p<4>; .reg .b32 %%r<64>; .reg .f32 "
      "%%f<256>; .reg .b64 "
      "%%d<32>;\n",
      threads_of(s));
    if (s->way == TILES)
        P(".shared .align 16 .b8 s[%d];\n", 4 * s->bk * (s->bm + s->bn));
    P("ld.param.u64 %%d1, [a]; cvta.to.global.u64 %%d1, %%d1; ld.param.u64 %%d2, [b]; cvta.to.global.u64 %%d2, %%d2; "
      "ld.param.u64 "
      "%%d3, [c]; cvta.to.global.u64 %%d3, %%d3; ld.param.u32 %%r2, [n]; ld.param.u32 %%r3, [k]; ld.param.u32 %%r4, "
      "[steps]; mov.u32 "
      "%%r1, %%tid.x;\n");
    if (s->wm)
        P("shr.u32 %%r10, %%r1, 5; and.b32 %%r11, %%r1, 31; div.u32 %%r12, %%r10, %d; rem.u32 %%r13, %%r10, %d; "
          "div.u32 %%r14, %%r11, "
          "%d; rem.u32 %%r15, %%r11, %d; mul.lo.u32 %%r5, %%r12, %d; mad.lo.u32 %%r5, %%r14, %d, %%r5; mul.lo.u32 "
          "%%r6, %%r13, %d; "
          "mad.lo.u32 %%r6, %%r15, %d, %%r6;\n",
          s->bn / s->wn, s->bn / s->wn, s->wn / s->groups / s->tn, s->wn / s->groups / s->tn, s->wm, s->tm, s->wn,
          s->tn);
    else
        P("div.u32 %%r5, %%r1, %d; rem.u32 %%r6, %%r1, %d; mul.lo.u32 %%r5, %%r5, %d; mul.lo.u32 %%r6, %%r6, %d;\n",
          s->bn / s->tn, s->bn / s->tn, s->tm, s->tn);
    if (s->way == BY_ROWS)
        P("mov.u32 %%r7, %%r5; mov.u32 %%r5, %%r6; mov.u32 %%r6, %%r7;\n");
}

static void by_results(const struct step *s)
{
    enum { TOGETHER = 4 };
    P("mul.lo.u32 %%r10, %%r5, %%r3; mul.wide.u32 %%d4, %%r10, 4; add.u64 %%d4, %%d1, %%d4; mul.wide.u32 %%d5, %%r6, "
      "4; add.u64 %%d5, "
      "%%d2, %%d5; mul.wide.u32 %%d6, %%r2, 4; mov.f32 %%f0, 0f00000000; mul.lo.u32 %%r4, %%r4, %d;\nSTEP:\n",
      s->bk / TOGETHER);
    for (int i = 0; i < TOGETHER; i++)
        P("ld.global.f32 %%f%d, [%%d4+%d]; ld.global.f32 %%f%d, [%%d5]; add.u64 %%d5, %%d5, %%d6;\n", 10 + i, 4 * i,
          20 + i);
    for (int i = 0; i < TOGETHER; i++)
        P("fma.rn.f32 %%f0, %%f%d, %%f%d, %%f0;\n", 10 + i, 20 + i);
    P("add.u64 %%d4, %%d4, %d; sub.u32 %%r4, %%r4, 1; setp.ne.u32 %%p1, %%r4, 0; @%%p1 bra STEP;\n", 4 * TOGETHER);
}

/* Where the thread brings from and to: of a factor of `rows` x `columns` elements, `each` at a time, in rows of
 * %r`length`; to byte `at` of s, by columns if `turned`. Pointer %d`from`, shared address %r`to`. */
static void places(const struct step *s, int columns, int each, int length, int base, int from, int to, int at,
                   int turned)
{
    int across = columns / each;
    P("div.u32 %%r10, %%r1, %d; rem.u32 %%r11, %%r1, %d; mul.lo.u32 %%r11, %%r11, %d; mad.lo.u32 %%r12, %%r10, %%r%d, "
      "%%r11; "
      "mul.wide.u32 %%d10, %%r12, 4; add.u64 %%d%d, %%d%d, %%d10;\n",
      across, across, each, length, from, base);
    if (turned)
        P("mad.lo.u32 %%r12, %%r11, %d, %%r10;\n", s->bm);
    else
        P("mad.lo.u32 %%r12, %%r10, %d, %%r11;\n", columns);
    P("mov.u32 %%r13, s; mad.lo.u32 %%r%d, %%r12, 4, %%r13; add.u32 %%r%d, %%r%d, %d;\n", to, to, to, at);
}

static void bring(const struct step *s, int rows, int columns, int each, int length, int from, int to, bool turned)
{
    int apart = threads_of(s) / (columns / each), n = rows / apart; /* rows between the parts that a thread brings */
    ck_assert_int_eq(n * apart, rows);
    P("mul.lo.u32 %%r14, %%r%d, %d; mul.wide.u32 %%d10, %%r14, 4; mov.u64 %%d11, %%d%d;\n", length, apart, from);
    for (int i = 0; i < n; i++) {
        if (each == 1)
            P("ld.global.f32 %%f200, [%%d11]; st.shared.f32 [%%r%d+%d], %%f200;", to, 4 * i * apart * columns);
        else
            P("ld.global.v4.f32 {%%f200, %%f201, %%f202, %%f203}, [%%d11];");
        if (each > 1 && turned)
            for (int j = 0; j < each; j++)
                P("st.shared.f32 [%%r%d+%d], %%f%d;", to, 4 * (j * s->bm + i * apart), 200 + j);
        else if (each > 1)
            P("st.shared.v4.f32 [%%r%d+%d], {%%f200, %%f201, %%f202, %%f203};", to, 4 * i * apart * columns);
        P(" add.u64 %%d11, %%d11, %%d10;\n");
    }
}

/* n consecutive floats of shared memory to %f`first` on. */
static void get(const struct step *s, int first, int n, int address, int at, int stride)
{
    for (int i = 0; i < n; i += s->vectors ? 4 : 1)
        if (s->vectors)
            P("ld.shared.v4.f32 {%%f%d, %%f%d, %%f%d, %%f%d}, [%%r%d+%d];\n", first + i, first + i + 1, first + i + 2,
              first + i + 3, address, at + 4 * i);
        else
            P("ld.shared.f32 %%f%d, [%%r%d+%d];\n", first + i, address, at + 4 * i * stride);
}

static void by_tiles(const struct step *s)
{
    enum { ROWS = 180, COLUMNS = 190 }; /* registers, behind the sums */
    int each = s->vectors ? 4 : 1, b = 4 * s->bm * s->bk, columns = s->tn * s->groups;
    places(s, s->bk, each, 3, 1, 4, 20, 0, s->vectors);
    places(s, s->bn, each, 2, 2, 5, 21, b, false);
    P("mov.u32 %%r13, s; mad.lo.u32 %%r22, %%r5, %d, %%r13; mad.lo.u32 %%r23, %%r6, 4, %%r13;\n",
      s->vectors ? 4 : 4 * s->bk);
    for (int i = 0; i < s->tm * columns; i++)
        P("mov.f32 %%f%d, 0f00000000;\n", i);
    P("mul.lo.u32 %%r24, %%r2, %d; mul.wide.u32 %%d6, %%r24, 4;\nSTEP:\n", s->bk);
    bring(s, s->bm, s->bk, each, 3, 4, 20, s->vectors);
    bring(s, s->bk, s->bn, each, 2, 5, 21, false);
    P("bar.sync 0; add.u64 %%d4, %%d4, %d; add.u64 %%d5, %%d5, %%d6;\n", 4 * s->bk);
    for (int dot = 0; dot < s->bk; dot++) {
        get(s, ROWS, s->tm, 22, s->vectors ? 4 * dot * s->bm : 4 * dot, s->bk);
        for (int g = 0; g < s->groups; g++)
            get(s, COLUMNS + g * s->tn, s->tn, 23, b + 4 * (dot * s->bn + (s->wm ? g * s->wn / s->groups : 0)), 1);
        for (int i = 0; i < s->tm; i++)
            for (int j = 0; j < columns; j++)
                P("fma.rn.f32 %%f%d, %%f%d, %%f%d, %%f%d;\n", i * columns + j, ROWS + i, COLUMNS + j, i * columns + j);
    }
    P("bar.sync 0; sub.u32 %%r4, %%r4, 1; setp.ne.u32 %%p1, %%r4, 0; @%%p1 bra STEP;\n");
}

static void store(const struct step *s)
{
    int columns = s->tn * s->groups;
    P("mad.lo.u32 %%r10, %%r5, %%r2, %%r6; mul.wide.u32 %%d4, %%r10, 4; add.u64 %%d4, %%d3, %%d4; mul.wide.u32 %%d6, "
      "%%r2, 4;\n");
    for (int i = 0; i < s->tm; i++) {
        for (int j = 0; j < columns; j += s->vectors ? 4 : 1) {
            int f = i * columns + j, at = 4 * (j % s->tn + (s->wm ? j / s->tn * s->wn / s->groups : 0));
            if (s->vectors)
                P("st.global.v4.f32 [%%d4+%d], {%%f%d, %%f%d, %%f%d, %%f%d};\n", at, f, f + 1, f + 2, f + 3);
            else
                P("st.global.f32 [%%d4+%d], %%f%d;\n", at, f);
        }
        P("add.u64 %%d4, %%d4, %%d6;\n");
    }
    P("ret;\n}\n");
}

static char *text_of(const struct step *s)
{
    char *text = NULL;
    size_t size;
    out = open_memstream(&text, &size);
    head(s);
    if (s->way == TILES)
        by_tiles(s);
    else
        by_results(s);
    store(s);
    fclose(out);
    return text;
}

/* Small whole numbers, so that all sums are exact. */
static int element(int i, int j, int odd)
{
    return (i * 7 + j * odd) % 3 - 1;
}

static uint64_t factor(struct ptx_device *d, int rows, int columns, int odd, char *error)
{
    float *x = malloc((size_t)rows * (size_t)columns * sizeof *x);
    for (int i = 0; i < rows * columns; i++)
        x[i] = (float)element(i / columns, i % columns, odd);
    uint64_t at = ptx_alloc(d, (size_t)rows * (size_t)columns * sizeof *x, "factor", error);
    ck_assert(at && ptx_write(d, at, x, (size_t)rows * (size_t)columns * sizeof *x, error));
    free(x);
    return at;
}

static void check_results(const struct step *s, struct ptx_device *d, uint64_t at, int k, char *error)
{
    float *c = malloc((size_t)s->bm * (size_t)s->bn * sizeof *c);
    ck_assert(ptx_read(d, c, at, (size_t)s->bm * (size_t)s->bn * sizeof *c, error));
    for (int i = 0; i < s->bm; i++)
        for (int j = 0; j < s->bn; j++) {
            int want = 0;
            for (int l = 0; l < k; l++)
                want += element(i, l, 5) * element(l, j, 4);
            ck_assert_msg(c[i * s->bn + j] == (float)want, "%s: %d, %d: %g, not %d", s->name, i, j,
                          (double)c[i * s->bn + j], want);
        }
    free(c);
}

/* One block; `time`: of the whole product, from what `before` and this count. */
static struct ptx_counters run(const struct step *s, int steps, bool checks, struct ptx_time *time, double scale,
                               const struct ptx_counters *before)
{
    char error[PTX_ERROR] = "", *text = text_of(s);
    struct ptx_config config = {.threads = 1, .checks = checks};
    struct ptx_device *d = ptx_device_new(&config, error);
    struct ptx_counters c;
    struct ptx_module *module = ptx_load(d, text, strlen(text), error);
    ck_assert_msg(module != NULL, "%s: %s", s->name, error);
    int k = steps * s->bk;
    struct {
        uint64_t a, b, c;
        uint32_t n, k, steps;
    } p = {
        factor(d, s->bm, k, 5, error), factor(d, k, s->bn, 4, error), 0, (uint32_t)s->bn, (uint32_t)k, (uint32_t)steps};
    p.c = ptx_alloc(d, (size_t)s->bm * (size_t)s->bn * 4, "results", error);
    struct ptx_launch l = {.grid = {1, 1, 1},
                           .block = {(unsigned)threads_of(s), 1, 1},
                           .cluster = {1, 1, 1},
                           .params = &p,
                           .params_size = 36};
    bool ok = ptx_run(d, ptx_find(module, "k"), &l, &c, error);
    const struct ptx_report *list;
    if (ptx_reports(d, &list))
        ptx_report_text(&list[0], error, sizeof error);
    ck_assert_msg(ok && !ptx_reports(d, &list), "%s: %s", s->name, error);
    if (checks)
        check_results(s, d, p.c, k, error);
    if (time) {
        uint64_t *to = (uint64_t *)&c;
        const uint64_t *less = (const uint64_t *)before;
        int blocks = SIZE / s->bm * (SIZE / s->bn);
        for (size_t i = 0; i < sizeof c / sizeof *to; i++)
            to[i] = (uint64_t)(((double)less[i] + ((double)to[i] - (double)less[i]) * scale) * blocks);
        c.memory_bytes = (uint64_t)3 * SIZE * SIZE * 4; /* what a block reads first others read, too */
        l.grid[0] = (unsigned)blocks;
        ck_assert(ptx_modelled(ptx_find(module, "k"), &l, &c, "a6000", time));
    }
    ptx_unload(module);
    ptx_device_free(d);
    free(text);
    return c;
}

void ranking_fp32_right(int i)
{
    run(&series[i], 3, true, NULL, 0, NULL);
}

void ranking_fp32(struct ranked list[RANKED_FP32])
{
    enum { SHORT = 4, LONG = 8 };
    for (int i = 0; i < RANKED_FP32; i++) {
        const struct step *s = &series[i];
        struct ptx_time t;
        struct ptx_counters before = run(s, SHORT, false, NULL, 0, NULL);
        run(s, LONG, false, &t, (double)(SIZE / s->bk - SHORT) / (LONG - SHORT), &before);
        list[i] = (struct ranked){s->name, s->tflops, 2.0 * SIZE * SIZE * SIZE / t.seconds * 1e-12};
        printf("# %-24s published %6.3f TFLOP/s, modelled %6.3f (%s)\n", s->name, s->tflops, list[i].modelled, t.bound);
    }
}
