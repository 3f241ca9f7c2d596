/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wgmma, bulk and tensor copies, clusters in the simulator, through its driver functions: products against plain loops
 * for types, swizzles and both majors of the operands; boxes with edges outside the tensor; im2col against the
 * definition; multicast and remote arrivals; and each check of these instructions, provoked.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/ptx/driver.h"
#include "tests/unit/suite.h"

#define OK(call) ck_assert_int_eq(call, CUDA_SUCCESS)
static CUcontext ctx;

static const char head[] =
    ".version 8.6\n.target sm_90a\n.address_size 64\n"
    ".visible .entry k(.param .align 64 .b8 map[128], .param .u64 in, .param .u64 out) {\n"
    ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<64>; .reg .f32 %f<64>; .reg .b64 %d<32>;\n"
    ".shared .align 1024 .b8 s[32768]; .shared .align 8 .b64 bar;\n"
    "mov.u64 %d1, map; cvta.param.u64 %d1, %d1; ld.param.u64 %d2, [in]; ld.param.u64 %d3, [out];\n"
    "mov.u32 %r1, %tid.x; mov.u32 %r2, s; mov.u32 %r3, bar; setp.eq.u32 %p1, %r1, 0; mov.u32 %r4, %cluster_ctarank;\n"
    "@%p1 mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster;\n";
#define SYNC "bar.sync 0;\n"
#define CLUSTER "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
#define WAITS "W: mbarrier.try_wait.parity.shared.b64 %%p2, [%%r3], 0; @!%%p2 bra W;\n" /* within a format */
#define WAIT "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra W;\n"
/* The first n bytes of shared memory into `out`, by 128 threads; blocks of a cluster one after the other. */
#define DUMP(n)                                                                                                   \
    "mov.u32 %r20, %r1; mad.lo.u32 %r21, %r4, " n ", 0; cvt.u64.u32 %d20, %r21; add.u64 %d20, %d3, %d20;\n"       \
    "D: mul.lo.u32 %r22, %r20, 4; setp.ge.u32 %p7, %r22, " n                                                      \
    "; @%p7 bra E; add.u32 %r23, %r2, %r22; ld.shared.u32 %r24, [%r23];\n"                                        \
    "cvt.u64.u32 %d21, %r22; add.u64 %d21, %d20, %d21; st.global.u32 [%d21], %r24; add.u32 %r20, %r20, 128; bra " \
    "D;\nE: ret; }\n"

static void start(unsigned seed)
{
    char text[16];
    snprintf(text, sizeof text, "%u", seed);
    setenv("TCCC_ORDER_SEED", text, 1);
    setenv("TCCC_SIM_THREADS", "1", 1);
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&ctx, 0));
    OK(cuCtxSetCurrent(ctx));
}

static CUdeviceptr device(const void *from, size_t bytes)
{
    CUdeviceptr p;
    OK(cuMemAlloc_v2(&p, bytes));
    if (from)
        OK(cuMemcpyHtoD_v2(p, from, bytes));
    else
        OK(cuMemsetD8_v2(p, 0, bytes));
    return p;
}

/* Runs head + body on clusters of `cluster` blocks of 128 threads; the sticky error, and in *failed the checks as
 * bits. */
static CUresult run(const char *body, const void *map, CUdeviceptr in, CUdeviceptr out, unsigned cluster,
                    unsigned *failed)
{
    size_t room = strlen(head) + strlen(body) + 1;
    char *text = malloc(room), log[512] = "";
    int options[] = {5, 6};
    void *values[] = {log, (void *)sizeof log}, *params[] = {(void *)(uintptr_t)map, &in, &out};
    static const char none[128];
    const struct ptx_report *list;
    CUmodule m;
    CUfunction f;
    CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.cluster = {cluster, 1, 1}};
    CUlaunchConfig c = {.grid = {cluster, 1, 1}, .block = {128, 1, 1}, .attrs = &a, .nattrs = 1};
    snprintf(text, room, "%s%s", head, body);
    params[0] = (void *)(uintptr_t)(map ? map : none);
    CUresult r = cuModuleLoadDataEx(&m, text, 2, options, values);
    ck_assert_msg(!r, "%s", log);
    OK(cuModuleGetFunction(&f, m, "k"));
    OK(cuLaunchKernelEx(&c, f, params, NULL));
    r = cuCtxSynchronize();
    int n = ptx_driver_reports(0, &list);
    *failed = 0;
    for (int k = 0; k < n; k++)
        *failed |= 1u << list[k].check;
    if (n && getenv("SHOW"))
        for (int k = 0; k < n; k++)
            fprintf(stderr, "%s line %d: %s\n", ptx_check_name(list[k].check), list[k].line, list[k].text);
    free(text);
    return r;
}

/* -- Copies -- */

START_TEST(bulk_copies)
{
    uint32_t host[256], back[256];
    unsigned failed;
    start((unsigned)_i);
    for (unsigned k = 0; k < 256; k++)
        host[k] = k * 7;
    CUdeviceptr in = device(host, sizeof host), out = device(NULL, sizeof host);
    /* In, waited for on an mbarrier, changed by threads, and out again by a bulk store. */
    OK(run(SYNC
           "@%p1 mbarrier.arrive.expect_tx.shared.b64 %d9, [%r3], 1024;\n"
           "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%d2], 1024, [%r3];\n" WAIT
           "shl.b32 %r5, %r1, 2; add.u32 %r5, %r2, %r5; ld.shared.u32 %r6, [%r5]; add.u32 %r6, %r6, 1; st.shared.u32 "
           "[%r5], %r6;\n"
           "fence.proxy.async.shared::cta; bar.sync 0;\n"
           "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%d3], [%r2], 1024; @%p1 cp.async.bulk.commit_group;\n"
           "@%p1 cp.async.bulk.wait_group 0; ret; }",
           NULL, in, out, 1, &failed));
    OK(cuMemcpyDtoH_v2(back, out, sizeof back));
    for (unsigned k = 0; k < 256; k++)
        ck_assert_uint_eq(back[k], k * 7 + (k < 128));
}
END_TEST

/* A 2-D box of 16-bit elements with every swizzle, partly outside the tensor. */
START_TEST(tensor_copies)
{
    enum { W = 72, H = 10, ROWS = 16 };
    static const unsigned spans[] = {64, 16, 32, 64}, masks[] = {0, 1, 3, 7};
    static _Alignas(64) char map[128];
    uint16_t host[H][W], back[ROWS][64];
    unsigned failed, swizzle = (unsigned)_i % 4, box_w = spans[swizzle];
    start((unsigned)_i / 4);
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            host[y][x] = (uint16_t)(y * 1000 + x + 1);
    CUdeviceptr in = device(host, sizeof host), out = device(NULL, sizeof back);
    uint64_t dims[] = {W, H}, strides[] = {W * 2};
    uint32_t box[] = {box_w, ROWS}, step[] = {1, 1};
    OK(cuTensorMapEncodeTiled(map, 1, 2, (void *)(uintptr_t)in, dims, strides, box, step, 0, (int)swizzle, 0, 0));
    char body[4096];
    snprintf(body, sizeof body,
             SYNC
             "mov.u32 %%r10, 20; mov.u32 %%r11, -3;\n@%%p1 mbarrier.arrive.expect_tx.shared.b64 %%d9, [%%r3], %u;\n"
             "@%%p1 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%%r2], [%%d1, "
             "{%%r10, %%r11}], [%%r3];\n",
             box_w * ROWS * 2);
    snprintf(body + strlen(body), sizeof body - strlen(body), WAITS "mov.u32 %%r30, %u;\n", box_w * ROWS * 2);
    strcat(body, "mov.u32 %r20, %r1; D: mul.lo.u32 %r22, %r20, 4; setp.ge.u32 %p7, %r22, %r30; @%p7 bra E; add.u32 "
                 "%r23, %r2, %r22; ld.shared.u32 "
                 "%r24, [%r23]; cvt.u64.u32 %d21, %r22; add.u64 %d21, %d3, %d21; st.global.u32 [%d21], %r24; add.u32 "
                 "%r20, %r20, 128; bra D; E: ret; }");
    OK(run(body, map, in, out, 1, &failed));
    uint16_t *flat = back[0];
    OK(cuMemcpyDtoH_v2(back, out, sizeof back));
    for (unsigned y = 0; y < ROWS; y++)
        for (unsigned x = 0; x < box_w; x++) {
            int ty = (int)y - 3, tx = (int)x + 20;
            unsigned at = (y * box_w + x) * 2, phys = at ^ ((at >> 7 & masks[swizzle]) << 4);
            ck_assert_uint_eq(flat[phys / 2], ty >= 0 && ty < H && tx < W ? host[ty][tx] : 0);
        }
}
END_TEST

/* A tensor store drops what lies outside; an addition adds. */
START_TEST(tensor_stores)
{
    static _Alignas(64) char map[128];
    float host[6][8], back[6][8];
    unsigned failed;
    start((unsigned)_i);
    for (int y = 0; y < 6; y++)
        for (int x = 0; x < 8; x++)
            host[y][x] = 100;
    CUdeviceptr in = device(NULL, 16), out = device(host, sizeof host);
    uint64_t dims[] = {8, 6}, strides[] = {32};
    uint32_t box[] = {4, 4}, step[] = {1, 1};
    OK(cuTensorMapEncodeTiled(map, 7, 2, (void *)(uintptr_t)out, dims, strides, box, step, 0, 0, 0, 0));
    char body[2048];
    snprintf(body, sizeof body,
             "setp.lt.u32 %%p3, %%r1, 16; shl.b32 %%r5, %%r1, 2; add.u32 %%r5, %%r2, %%r5; cvt.rn.f32.u32 %%f1, %%r1; "
             "@%%p3 st.shared.f32 [%%r5], "
             "%%f1;\nfence.proxy.async; bar.sync 0; mov.u32 %%r10, 6; mov.u32 %%r11, 4;\n"
             "@%%p1 cp.%sasync.bulk.tensor.2d.global.shared::cta.%stile.bulk_group [%%d1, {%%r10, %%r11}], [%%r2];\n"
             "@%%p1 cp.async.bulk.commit_group; @%%p1 cp.async.bulk.wait_group.read 0; ret; }",
             _i & 1 ? "reduce." : "", _i & 1 ? "add." : "");
    OK(run(body, map, in, out, 1, &failed));
    OK(cuMemcpyDtoH_v2(back, out, sizeof back));
    for (int y = 0; y < 6; y++)
        for (int x = 0; x < 8; x++) {
            bool in_box = y >= 4 && x >= 6;
            ck_assert_float_eq(back[y][x], !in_box ? 100 : (float)((y - 4) * 4 + x - 6) + (_i & 1 ? 100 : 0));
        }
}
END_TEST

/* im2col: 3x3 filter taps of an NHWC image with padding 1, a column of pixels that goes over rows and into the next
 * image. */
START_TEST(im2col)
{
    enum { C = 8, W = 5, H = 4, N = 2, PIXELS = 32 };
    static _Alignas(64) char map[128];
    uint16_t host[N][H][W][C], back[PIXELS][C];
    unsigned failed;
    start((unsigned)_i);
    for (unsigned k = 0; k < N * H * W * C; k++)
        (&host[0][0][0][0])[k] = (uint16_t)(k + 1);
    CUdeviceptr in = device(host, sizeof host), out = device(NULL, sizeof back);
    uint64_t dims[] = {C, W, H, N}, strides[] = {C * 2, W * C * 2, H * W * C * 2};
    int lower[] = {-1, -1}, upper[] = {-1, -1}; /* output as large as the input: the last start is at W - 1 - 1 */
    uint32_t step[] = {1, 1, 1, 1};
    OK(cuTensorMapEncodeIm2col(map, 1, 4, (void *)(uintptr_t)in, dims, strides, lower, upper, C, PIXELS, step, 0, 0, 0,
                               0));
    OK(run(SYNC "mov.u32 %r10, 0; mov.u32 %r11, 1; mov.u32 %r12, 0; mov.b16 %h1, 2; mov.b16 %h2, 1;\n"
                "@%p1 mbarrier.arrive.expect_tx.shared.b64 %d9, [%r3], 512;\n"
                "@%p1 cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r2], [%d1, "
                "{%r10, %r11, %r12, %r10}], "
                "[%r3], {%h1, %h2};\n" WAIT DUMP("512"),
           map, in, out, 1, &failed));
    OK(cuMemcpyDtoH_v2(back, out, sizeof back));
    /* Output pixels (p, q) of one image from (w = 1, h = 0) on: tap (s = 2, r = 1) of output (h, w) reads (h + 1, w +
     * 2). */
    int w = 1, h = 0, n = 0;
    for (int k = 0; k < PIXELS; k++) {
        int y = h + 1, x = w + 2;
        for (int c = 0; c < C; c++)
            ck_assert_uint_eq(back[k][c], n < N && x < W && y < H && x >= 0 && y >= 0 ? host[n][y][x][c] : 0);
        if (++w > W - 1 - 1) {
            w = -1;
            if (++h > H - 1 - 1) {
                h = -1;
                n++;
            }
        }
    }
}
END_TEST

/* -- Clusters -- */

START_TEST(clusters)
{
    uint32_t host[128], back[512];
    unsigned failed;
    start((unsigned)_i);
    for (unsigned k = 0; k < 128; k++)
        host[k] = k + 5;
    CUdeviceptr in = device(host, sizeof host), out = device(NULL, sizeof back);
    /* Each block adds its rank to what its neighbour holds, through mapa, between barriers of the cluster. */
    OK(run(
        "shl.b32 %r5, %r1, 2; add.u32 %r5, %r2, %r5; st.shared.u32 [%r5], %r1;\n" CLUSTER
        "add.u32 %r6, %r4, 1; and.b32 %r6, %r6, 3; mapa.shared::cluster.u32 %r7, %r5, %r6; mul.lo.u32 %r8, %r4, 1000;\n"
        "ld.shared::cluster.u32 %r9, [%r7]; add.u32 %r9, %r9, %r8; st.shared::cluster.u32 [%r7], %r9;\n" CLUSTER DUMP(
            "512"),
        NULL, in, out, 4, &failed));
    OK(cuMemcpyDtoH_v2(back, out, sizeof back));
    for (unsigned k = 0; k < 512; k++)
        ck_assert_uint_eq(back[k], k % 128 + 1000 * ((k / 128 + 3) % 4));
    /* One block's copy into all four; each waits on its own mbarrier. */
    OK(run("@%p1 mbarrier.arrive.expect_tx.shared.b64 %d9, [%r3], 512;\n" CLUSTER
           "setp.eq.u32 %p3, %r4, 1; and.pred %p3, %p3, %p1; mov.b16 %h1, 15;\n"
           "@%p3 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r2], [%d2], "
           "512, [%r3], %h1;\n" WAIT DUMP("512"),
           NULL, in, out, 4, &failed));
    OK(cuMemcpyDtoH_v2(back, out, sizeof back));
    for (unsigned k = 0; k < 512; k++)
        ck_assert_uint_eq(back[k], k % 128 + 5);
    /* A remote arrival: block 0 waits until block 1 has said that its data are in block 0's memory. */
    OK(run(CLUSTER
           "setp.eq.u32 %p3, %r4, 1; mov.u32 %r6, 0; shl.b32 %r5, %r1, 2; add.u32 %r5, %r2, %r5; "
           "mapa.shared::cluster.u32 %r7, %r5, %r6;\n"
           "mapa.shared::cluster.u32 %r8, %r3, %r6; @!%p3 bra A; st.shared::cluster.u32 [%r7], %r1; bar.sync 0;\n"
           "@%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r8]; bra Z;\n"
           "A: " WAIT "ld.shared.u32 %r9, [%r5]; cvt.u64.u32 %d5, %r5; mul.wide.u32 %d5, %r1, 4; add.u64 %d5, %d3, "
                      "%d5; st.global.u32 [%d5], %r9;\n"
           "Z: " CLUSTER "ret; }",
           NULL, in, out, 2, &failed));
    OK(cuMemcpyDtoH_v2(back, out, 512));
    for (unsigned k = 0; k < 128; k++)
        ck_assert_uint_eq(back[k], k);
}
END_TEST

/* -- Products -- */

static uint16_t half(int v)
{ /* small integers are exact in f16 */
    float f = (float)v;
    uint32_t b;
    memcpy(&b, &f, 4);
    return v ? (uint16_t)((b >> 16 & 0x8000) | ((((b >> 23 & 255) - 112) << 10) | (b >> 13 & 1023))) : 0;
}

static uint8_t fp8(int v)
{ /* -8 .. 8 in e4m3 */
    static const uint8_t codes[] = {0, 0x38, 0x40, 0x44, 0x48, 0x4a, 0x4c, 0x4e, 0x50};
    return (uint8_t)((v < 0 ? 0x80 : 0) | codes[abs(v)]);
}

static void put(uint8_t *to, const char *type, int v)
{
    float f = (float)v;
    uint16_t h = half(v);
    if (!strcmp(type, "f16"))
        memcpy(to, &h, 2);
    else if (!strcmp(type, "bf16"))
        memcpy(to, (char *)&f + 2, 2);
    else if (!strcmp(type, "tf32"))
        memcpy(to, &f, 4);
    else
        *to = !strcmp(type, "e4m3") ? fp8(v) : (uint8_t)v;
}

static const struct product {
    const char *type;
    int size, n, swizzle, trans_a, trans_b;
} products[] = {
    {"bf16", 2, 16, 1, 0, 0}, {"f16", 2, 64, 1, 0, 0},  {"f16", 2, 24, 2, 0, 0},  {"f16", 2, 8, 3, 0, 0},
    {"f16", 2, 40, 0, 0, 0},  {"f16", 2, 64, 1, 0, 1},  {"f16", 2, 64, 2, 0, 1},  {"f16", 2, 32, 3, 0, 1},
    {"f16", 2, 16, 0, 0, 1},  {"bf16", 2, 64, 1, 1, 1}, {"bf16", 2, 8, 0, 1, 0},  {"tf32", 4, 32, 1, 0, 0},
    {"tf32", 4, 8, 0, 0, 0},  {"e4m3", 1, 32, 1, 0, 0}, {"e4m3", 1, 16, 3, 0, 0}, {"s8", 1, 32, 1, 0, 0},
    {"u8", 1, 16, 2, 0, 0},
};

/* Where element (row, k) lies, by the tables of canonical layouts; rows and ks of the whole operand. Offsets as the
 * descriptor has them. */
static unsigned layout(const struct product *p, bool mn, unsigned rows, unsigned row, unsigned k, unsigned *leading,
                       unsigned *stride)
{
    static const unsigned spans[] = {16, 128, 64, 32}, masks[] = {0, 7, 3, 1};
    unsigned s = (unsigned)p->size, span = spans[p->swizzle], per = span / s, at; /* elements in a row of the pattern */
    /* rows of `span` bytes, groups of 8; without a swizzle chunks of 16 bytes of all rows one after the other */
    if (!mn) {
        *stride = 8 * span;
        *leading = p->swizzle ? 16 : rows * 16;
        at = p->swizzle ? row * span + k * s : row * 16 + k / per * rows * 16 + k % per * s;
    } else { /* ks are rows of `span` bytes, groups of 8; the next `per` rows of the operand follow all 16 ks */
        unsigned group = 16 * span;
        *stride = p->swizzle ? 8 * span : group;
        *leading = p->swizzle ? group : 8 * span;
        at = row / per * group + k * span + row % per * s;
    }
    return at ^ ((at >> 7 & masks[p->swizzle]) << 4);
}

START_TEST(wgmma)
{
    const struct product *p = &products[_i];
    const unsigned K = 32 / (unsigned)p->size, N = (unsigned)p->n, B_AT = 16384;
    uint8_t *image = calloc(1, 32768);
    static int a[64][32], b[256][32];
    unsigned la, sa, lb, sb, failed;
    bool whole = p->type[1] == '8', fp = !whole;
    char body[16384], regs[2048] = "", d_type[4];
    start((unsigned)_i);
    srand((unsigned)_i);
    for (unsigned k = 0; k < K; k++) {
        for (unsigned m = 0; m < 64; m++) {
            a[m][k] = rand() % 9 - (p->type[0] == 'u' ? 0 : 4);
            put(image + layout(p, p->trans_a, 64, m, k, &la, &sa), p->type, a[m][k]);
        }
        for (unsigned n = 0; n < N; n++) {
            b[n][k] = rand() % 9 - (p->type[0] == 'u' ? 0 : 4);
            put(image + B_AT + layout(p, p->trans_b, N, n, k, &lb, &sb), p->type, b[n][k]);
        }
    }
    CUdeviceptr in = device(image, 32768), out = device(NULL, 64 * 256 * 4);
    snprintf(d_type, sizeof d_type, "%s", whole ? "s32" : "f32");
    for (unsigned r = 0; r < N / 2; r++)
        snprintf(regs + strlen(regs), sizeof regs - strlen(regs), "%s%%a%u", r ? "," : "", r);
    unsigned long long code = (unsigned long long)p->swizzle << 62;
    unsigned long long da = code | (unsigned long long)(sa >> 4) << 32 | (la >> 4) << 16,
                       db = code | (unsigned long long)(sb >> 4) << 32 | (lb >> 4) << 16;
    int at = snprintf(
        body, sizeof body,
        ".reg .b32 %%a<128>;\n" SYNC "@%%p1 mbarrier.arrive.expect_tx.shared.b64 %%d9, [%%r3], 32768;\n"
        "@%%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%%r2], [%%d2], 32768, [%%r3];\n" WAITS
        "cvt.u64.u32 %%d10, %%r2; shr.u64 %%d10, %%d10, 4; add.u64 %%d11, %%d10, %u; mov.b64 %%d12, %llu; or.b64 "
        "%%d10, %%d10, %%d12; "
        "mov.b64 %%d12, %llu; or.b64 %%d11, %%d11, %%d12;\nwgmma.fence.sync.aligned;\n",
        B_AT / 16, da, db);
    for (int twice = 0; twice < 2; twice++) { /* D = A B, then D += A B */
        at += snprintf(body + at, sizeof body - (size_t)at,
                       "wgmma.mma_async.sync.aligned.m64n%uk%u.%s.%s.%s {%s}, %%d10, %%d11, %d", N, K, d_type, p->type,
                       p->type, regs, twice);
        if (fp)
            at += snprintf(body + at, sizeof body - (size_t)at, ", 1, %d", twice ? 1 : 1);
        if (p->size == 2)
            at += snprintf(body + at, sizeof body - (size_t)at, ", %d, %d", p->trans_a, p->trans_b);
        at += snprintf(body + at, sizeof body - (size_t)at, ";\n");
    }
    at += snprintf(
        body + at, sizeof body - (size_t)at,
        "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\nmad.wide.u32 %%d5, %%r1, %u, %%d3;\n",
        N * 2);
    for (unsigned r = 0; r < N / 2; r++)
        at += snprintf(body + at, sizeof body - (size_t)at, "st.global.b32 [%%d5+%u], %%a%u;\n", r * 4, r);
    snprintf(body + at, sizeof body - (size_t)at, "ret; }");
    OK(run(body, NULL, in, out, 1, &failed));
    uint32_t *back = malloc(64 * N * 4);
    OK(cuMemcpyDtoH_v2(back, out, 64 * (size_t)N * 4));
    for (unsigned t = 0; t < 128; t++)
        for (unsigned r = 0; r < N / 2; r++) {
            unsigned m = 16 * (t / 32) + t % 32 / 4 + 8 * (r / 2 % 2), n = 8 * (r / 4) + 2 * (t % 4) + r % 2;
            int want = 0, got;
            float f;
            for (unsigned k = 0; k < K; k++)
                want += 2 * a[m][k] * b[n][k];
            memcpy(&got, &back[t * (N / 2) + r], 4);
            memcpy(&f, &got, 4);
            ck_assert_int_eq(whole ? got : (int)f, want);
        }
    free(image);
    free(back);
}
END_TEST

/* -- Checks -- */

#define LOAD                                                             \
    "@%p1 mbarrier.arrive.expect_tx.shared.b64 %d9, [%r3], 2048;\n@%p1 " \
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%d2], 2048, [%r3];\n"
#define ROW "shl.b32 %r5, %r1, 2; add.u32 %r5, %r2, %r5;\n"
#define PRODUCT "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1,%f2,%f3,%f4}, %d10, %d10, 0, 1, 1, 0, 0;\n"
#define DESC \
    "cvt.u64.u32 %d10, %r2; shr.u64 %d10, %d10, 4; mov.b64 %d12, 68719542272; or.b64 %d10, %d10, %d12;\n" /* no swizzle: 16 and 16 units */
#define STORE "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%d3], [%r2], 512; @%p1 cp.async.bulk.commit_group;\n"
static const struct {
    enum ptx_check check;
    unsigned cluster;
    const char *wrong, *right;
} provoked[] = {
    {PTX_CHECK_ASYNC, 1, SYNC LOAD ROW "bar.sync 0; ld.shared.u32 %r6, [%r5]; ret; }",
     SYNC LOAD ROW WAIT "ld.shared.u32 %r6, [%r5]; ret; }"},
    {PTX_CHECK_DEADLOCK, 1,
     SYNC "@%p1 mbarrier.arrive.expect_tx.shared.b64 %d9, [%r3], 1040;\n@%p1 "
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%d2], 1024, [%r3];\n" WAIT
          "ret; }",
     NULL},
    {PTX_CHECK_DESCRIPTOR, 1,
     SYNC "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%d2], 1000, [%r3]; ret; }",
     NULL},
    {PTX_CHECK_DESCRIPTOR, 1,
     SYNC "mov.u32 %r10, 0; @%p1 cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], "
          "[%d1, {%r10}], [%r3]; ret; }",
     NULL},
    {PTX_CHECK_MBARRIER, 1,
     SYNC
     "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%d2], 512, [%r2+4096]; ret; }",
     NULL},
    {PTX_CHECK_PROXY, 1, ROW "st.shared.u32 [%r5], %r1; bar.sync 0;\n" STORE "ret; }",
     ROW "st.shared.u32 [%r5], %r1; fence.proxy.async; bar.sync 0;\n" STORE "ret; }"},
    {PTX_CHECK_ASYNC, 1,
     ROW "st.shared.u32 [%r5], %r1; fence.proxy.async; bar.sync 0;\n" STORE
         "bar.sync 0; st.shared.u32 [%r5], %r1; ret; }",
     ROW "st.shared.u32 [%r5], %r1; fence.proxy.async; bar.sync 0;\n" STORE
         "@%p1 cp.async.bulk.wait_group.read 0; bar.sync 0; st.shared.u32 [%r5], %r1; ret; }"},
    {PTX_CHECK_ASYNC, 1,
     SYNC LOAD WAIT DESC "wgmma.fence.sync.aligned;\n" PRODUCT
                         "wgmma.commit_group.sync.aligned; add.f32 %f5, %f1, %f2; ret; }",
     SYNC LOAD WAIT DESC
     "wgmma.fence.sync.aligned;\n" PRODUCT
     "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; add.f32 %f5, %f1, %f2; ret; }"},
    {PTX_CHECK_ASYNC, 1,
     SYNC LOAD WAIT DESC PRODUCT "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; ret; }", NULL},
    {PTX_CHECK_BOUNDS, 1, SYNC LOAD WAIT "mov.b64 %d10, 12288; wgmma.fence.sync.aligned;\n" PRODUCT "ret; }", NULL},
    {PTX_CHECK_UNINIT, 1, DESC "wgmma.fence.sync.aligned;\n" PRODUCT "ret; }", NULL},
    {PTX_CHECK_BARRIER, 2, "barrier.cluster.arrive.aligned; barrier.cluster.arrive.aligned; ret; }", NULL},
    {PTX_CHECK_BOUNDS, 2, CLUSTER "mov.u32 %r6, 2; mapa.shared::cluster.u32 %r7, %r2, %r6; ret; }", NULL},
    {PTX_CHECK_RACE, 2,
     ROW "st.shared.u32 [%r5], %r1; setp.eq.u32 %p3, %r4, 1; mov.u32 %r6, 0; mapa.shared::cluster.u32 %r7, %r5, "
         "%r6;\n@%p3 st.shared::cluster.u32 [%r7], %r1;\n" CLUSTER "ret; }",
     ROW "st.shared.u32 [%r5], %r1;\n" CLUSTER "setp.eq.u32 %p3, %r4, 1; mov.u32 %r6, 0; mapa.shared::cluster.u32 %r7, "
                                               "%r5, %r6;\n@%p3 st.shared::cluster.u32 [%r7], %r1;\n" CLUSTER "ret; }"},
    {PTX_CHECK_DIVERGED, 1, "@%p1 wgmma.fence.sync.aligned; ret; }",
     "wgmma.fence.sync.aligned; griddepcontrol.wait; setmaxnreg.inc.sync.aligned.u32 240; ret; }"},
};

START_TEST(checks)
{
    uint8_t zeros[2048] = {0};
    unsigned failed;
    bool right = _i & 1;
    start((unsigned)_i / 2);
    const char *body = right ? provoked[_i / 2].right : provoked[_i / 2].wrong;
    if (!body)
        return;
    CUdeviceptr in = device(zeros, sizeof zeros), out = device(NULL, 4096);
    CUresult r = run(body, NULL, in, out, provoked[_i / 2].cluster, &failed);
    if (right)
        ck_assert_msg(!r && !failed, "checks %#x fire: %s", failed, body);
    else
        ck_assert_msg(r && failed >> provoked[_i / 2].check & 1, "%s does not fire (%#x): %s",
                      ptx_check_name(provoked[_i / 2].check), failed, body);
}
END_TEST

/* The swizzle of the descriptor is not the tensor copy's. */
START_TEST(swizzle_check)
{
    static _Alignas(64) char map[128];
    uint16_t host[64][64] = {{0}};
    unsigned failed;
    char body[2048];
    start(0);
    CUdeviceptr in = device(host, sizeof host), out = device(NULL, 16);
    uint64_t dims[] = {64, 64}, strides[] = {128};
    uint32_t box[] = {64, 64}, step[] = {1, 1};
    OK(cuTensorMapEncodeTiled(map, 9, 2, (void *)(uintptr_t)in, dims, strides, box, step, 0, 3, 0, 0));
    snprintf(body, sizeof body,
             SYNC
             "mov.u32 %%r10, 0; @%%p1 mbarrier.arrive.expect_tx.shared.b64 %%d9, [%%r3], 8192;\n"
             "@%%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%%r2], [%%d1, {%%r10, "
             "%%r10}], [%%r3];\n" WAITS "cvt.u64.u32 %%d10, %%r2; shr.u64 %%d10, %%d10, 4; mov.b64 %%d12, %llu; or.b64 "
                                        "%%d10, %%d10, %%d12;\nwgmma.fence.sync.aligned;\n"
             "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%%f1,%%f2,%%f3,%%f4}, %%d10, %%d10, 0, 1, 1, 0, 0;\n"
             "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; ret; }",
             (unsigned long long)(_i ? 1 : 2) << 62 | 64ull << 32 | 1 << 16);
    CUresult r = run(body, map, in, out, 1, &failed);
    ck_assert_int_eq(failed, _i ? 0 : 1u << PTX_CHECK_DESCRIPTOR);
    ck_assert_int_eq(r != CUDA_SUCCESS, !_i);
}
END_TEST

/* A turn that ends in a wait is no sign of a deadlock while phases go on ending: a warp sends, three others look at
 * what came, in more turns than a block may idle. */
START_TEST(long_turns)
{
    unsigned failed;
    start((unsigned)_i);
    CUdeviceptr in = device(NULL, 4096);
    OK(run("mov.u32 %r8, s; add.u32 %r8, %r8, 64; @%p1 mbarrier.init.shared.b64 [%r8], 3; bar.sync 0;\n"
           "shr.u32 %r9, %r1, 5; and.b32 %r10, %r1, 31; setp.eq.u32 %p3, %r9, 0; setp.eq.u32 %p4, %r10, 0; mov.u32 "
           "%r11, 0;\n"
           "L: and.b32 %r12, %r11, 1; xor.b32 %r13, %r12, 1; @!%p3 bra R;\n"
           "E: mbarrier.try_wait.parity.shared.b64 %p2, [%r8], %r13; @!%p2 bra E;\n"
           "@%p1 mbarrier.arrive.expect_tx.shared.b64 %d9, [%r3], 16;\n"
           "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%d2], 16, [%r3]; bra N;\n"
           "R: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], %r12; @!%p2 bra R;\n"
           "@%p4 mbarrier.arrive.shared.b64 %d9, [%r8];\n"
           "N: add.u32 %r11, %r11, 1; setp.lt.u32 %p5, %r11, 3000; @%p5 bra L; ret; }",
           NULL, in, in, 1, &failed));
    ck_assert_int_eq(failed, 0);
}
END_TEST

/* What an encoded map requires. */
START_TEST(map_errors)
{
    static _Alignas(64) char map[128];
    uint64_t dims[] = {64, 8}, strides[] = {128}, odd[] = {120};
    uint32_t box[] = {64, 8}, wide[] = {72, 8}, large[] = {64, 257}, step[] = {1, 1};
    void *at = (void *)4096;
    start(1);
    OK(cuTensorMapEncodeTiled(map, 9, 2, at, dims, strides, box, step, 0, 3, 2, 0));
    ck_assert_int_eq(cuTensorMapEncodeTiled(map, 9, 2, (char *)at + 8, dims, strides, box, step, 0, 3, 2, 0),
                     CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuTensorMapEncodeTiled(map, 9, 2, at, dims, odd, box, step, 0, 3, 2, 0), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuTensorMapEncodeTiled(map, 9, 2, at, dims, strides, wide, step, 0, 3, 2, 0),
                     CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuTensorMapEncodeTiled(map, 9, 2, at, dims, strides, large, step, 0, 3, 2, 0),
                     CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuTensorMapEncodeTiled(map, 9, 6, at, dims, strides, box, step, 0, 3, 2, 0),
                     CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuTensorMapEncodeTiled(map, 1, 2, at, dims, strides, box, step, 0, 3, 2, 1),
                     CUDA_ERROR_INVALID_VALUE);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("hopper");
    TCase *t = tcase_create("hopper");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, bulk_copies, 0, 4);
    tcase_add_loop_test(t, tensor_copies, 0, 8);
    tcase_add_loop_test(t, tensor_stores, 0, 4);
    tcase_add_loop_test(t, im2col, 0, 2);
    tcase_add_loop_test(t, clusters, 0, 4);
    tcase_add_loop_test(t, wgmma, 0, (int)(sizeof products / sizeof *products));
    tcase_add_loop_test(t, checks, 0, 2 * (int)(sizeof provoked / sizeof *provoked));
    tcase_add_loop_test(t, swizzle_check, 0, 2);
    tcase_add_loop_test(t, long_turns, 0, 2);
    tcase_add_test(t, map_errors);
    suite_add_tcase(s, t);
    return run_tests(s);
}
