/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products and convolutions of the CUDA target in the simulator, its checks on: every tile of both engines over shapes
 * with tails, all orders of the operands, batches, a size that is known when they run; compared with the interpreter.
 * Tiles of whole vectors touch no more sectors of global memory than they must, and banks of shared memory without
 * conflicts. Whether tensor copies bring them is counted, too.
 */
#include "compiler/cuda/cuda_int.h"
#include "tests/unit/kernel_make.h"
#include "tests/unit/suite.h"
#include "tools/prove/prove_int.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_KERNELS = 64 };

static struct ir_ctx *ctx;
static struct kn_kernel *kernels[MAX_KERNELS];
static int nkernels;
static const char *arch; /* of the machine */
static bool fp8;         /* products of 8-bit floats as such */

static void begin(void)
{
    ctx = ir_ctx_new();
    nkernels = 0;
    arch = "sm_80";
    fp8 = false;
}

static void end(void)
{
    ir_ctx_free(ctx);
}

/* With the machine's schedule; how, bm: with that template, tile, ring and pieces instead. */
static void add(struct kn_kernel *k, enum cuda_how how, int bm, int bn, int stages, int split)
{
    const struct pass_machine *m = target_cuda.machine(ctx, arch);
    k->name = ir_internf(ctx, "%s_%d", k->name, nkernels);
    m->schedule(m, ctx, k);
    if (bm) {
        struct cuda_schedule s = cuda_plain_schedule(how);
        s.threads = 256;
        s.bm = bm;
        s.bn = bn;
        s.fp8 = fp8;
        s.bk = how == CUDA_WGMMA ? 128 / (fp8 ? 1 : 2)
               : fp8             ? 64
               : how == CUDA_MMA ? 64 / cuda_product_bytes(ctx, k)
                                 : 8;
        s.stages = stages;
        s.split = split;
        cuda_put_schedule(k, s);
        k->tiles = cuda_product_tiles(ctx, k, &s);
    }
    ck_assert_msg(m->verify_schedule(m, ctx, k), "%s: %s", k->name, ir_message(ctx, 0)->text);
    ck_assert(nkernels < MAX_KERNELS);
    kernels[nkernels++] = k;
}

static void compile(struct prove *p, bool exact, int seed)
{
    char folder[] = "/tmp/tccc-code-XXXXXX", error[PROVE_TEXT] = "";
    struct target_code code = {0};
    struct target_options o = {.arch = arch,
                               .level = 2,
                               .jobs = 1,
                               .exact = exact,
                               .dump = getenv("KERNELS_DUMP") ? "ptx" : NULL,
                               .dump_to = stderr};
    struct kn_program program = {.nkernels = nkernels, .kernels = kernels};
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_msg(target_cuda.compile(ctx, &program, &o, "p", folder, &code), "%s", ir_message(ctx, 0)->text);
    rmdir(folder);
    ck_assert_msg(prove_open(p, (const struct tcc_pimage *)code.images[0].bytes, (uint64_t)seed, error), "%s", error);
}

static void prove_all(bool exact, int seed)
{
    static const int64_t sizes[] = {77};
    struct prove p;
    compile(&p, exact, seed);
    for (int i = 0; i < nkernels; i++) {
        char error[PROVE_TEXT] = "";
        const char *skipped;
        if (!prove_kernel(&p, i, kernels[i], sizes, (uint64_t)i + 1, &skipped, error) || skipped) {
            kn_print_kernel(stderr, kernels[i]);
            ck_abort_msg("%s: %s", kernels[i]->name, skipped ? skipped : error);
        }
    }
    prove_close(&p);
}

static const struct km_matmul matmuls[] = {
    {.b = 1, .m = 130, .n = 72, .k = 40, .relu = true},
    {.b = 2, .m = 67, .n = 70, .k = 33},
    {.b = 1, .m = 72, .n = 96, .k = 24, .trans_a = true},
    {.b = 1, .m = 96, .n = 72, .k = 40, .trans_b = true},
    {.b = 2, .m = 40, .n = 136, .k = 8, .trans_a = true, .trans_b = true},
    {.b = 1, .m = 77, .n = 64, .k = 48, .dynamic = true},
};
enum { NMATMULS = sizeof matmuls / sizeof *matmuls };

START_TEST(multiply_adds)
{
    static const int tiles[][2] = {{32, 32}, {64, 32}, {32, 64}, {64, 64}, {128, 64}, {64, 128}, {128, 128}, {32, 128}};
    begin();
    for (int i = 0; i < NMATMULS; i++)
        add(km_matmul(ctx, &matmuls[i]), CUDA_CONTRACT, tiles[_i][0], tiles[_i][1], 2 + (i + _i) % 4, 1);
    prove_all(_i % 3 == 2, _i);
    end();
}
END_TEST

START_TEST(tensor_cores)
{
    static const int tiles[][2] = {{64, 64}, {128, 64}, {64, 128}, {128, 128}};
    begin();
    for (int i = 0; i < NMATMULS; i++) {
        struct km_matmul m = matmuls[i];
        m.dtype = i & 1 ? TCC_F16 : TCC_BF16;
        add(km_matmul(ctx, &m), CUDA_MMA, tiles[_i % 4][0], tiles[_i % 4][1], 2 + (i + _i) % 3, 1);
    }
    prove_all(_i >= 4, _i); /* --exact: by multiply-adds */
    end();
}
END_TEST

/* Float32 as three products of tf32 parts; bytes of either sign. */
START_TEST(parts_and_bytes)
{
    static const enum tcc_dtype types[][2] = {
        {TCC_F32}, {TCC_I8, TCC_I8}, {TCC_U8, TCC_I8}, {TCC_I8, TCC_U8}, {TCC_U8, TCC_U8}};
    static const int tiles[][2] = {{64, 64}, {128, 64}, {64, 128}, {128, 128}};
    begin();
    for (int i = 0; i < NMATMULS; i++) {
        struct km_matmul m = matmuls[i];
        m.dtype = types[_i % 5][0];
        m.dtype_b = types[_i % 5][1];
        m.relu &= _i == 0;
        add(km_matmul(ctx, &m), CUDA_MMA, tiles[(i + _i) % 4][0], tiles[(i + _i) % 4][1], 2 + (i + _i) % 3,
            1 + (i == 3));
    }
    prove_all(_i >= 5, _i); /* --exact: float32 by multiply-adds, whole numbers as before */
    end();
}
END_TEST

/* 8-bit floats of either kind: by their own instruction on sm_89, which is what the machine chooses there, on sm_80 as
 * f16; --exact: by multiply-adds. */
START_TEST(eight_bit_floats)
{
    static const enum tcc_dtype types[][2] = {
        {TCC_F8E4M3FN, TCC_F8E4M3FN}, {TCC_F8E5M2, TCC_F8E4M3FN}, {TCC_F8E4M3FN, TCC_F8E5M2}, {TCC_F8E5M2, TCC_F8E5M2}};
    static const int tiles[][2] = {{64, 64}, {128, 64}, {64, 128}, {128, 128}};
    begin();
    fp8 = _i < 5;
    arch = fp8 ? "sm_89" : "sm_80";
    for (int i = 0; i < NMATMULS; i++) {
        struct km_matmul m = matmuls[i];
        m.dtype = types[_i % 4][0];
        m.dtype_b = types[_i % 4][1];
        add(km_matmul(ctx, &m), CUDA_MMA, 0, 0, 0, 1);
        ck_assert_int_eq(cuda_get_schedule(kernels[nkernels - 1]).fp8, fp8);
        add(km_matmul(ctx, &m), CUDA_MMA, tiles[(i + _i) % 4][0], tiles[(i + _i) % 4][1], 2 + (i + _i) % 3,
            1 + (i == 3));
    }
    prove_all(_i == 4, _i);
    end();
}
END_TEST

/* With tensor copies where both factors are matrices that they take. */
static void add_warpgroups(struct kn_kernel *k, int bn, int stages, int split, int cluster)
{
    add(k, CUDA_WGMMA, 128, bn, stages, split);
    struct cuda_schedule s = cuda_get_schedule(k);
    if (!cuda_may_map(ctx, k, &s))
        return;
    s.threads = CUDA_SENDING;
    s.cluster = cluster;
    cuda_put_schedule(k, s);
    k->tiles = cuda_product_tiles(ctx, k, &s);
    ck_assert(target_cuda.machine(ctx, arch)->verify_schedule(target_cuda.machine(ctx, arch), ctx, k));
}

/* The same by wgmma on sm_90a: factors along the terms by tensor copies, others through registers; what the machine
 * chooses itself, too. */
START_TEST(eight_bit_warpgroups)
{
    static const enum tcc_dtype types[][2] = {
        {TCC_F8E4M3FN, TCC_F8E4M3FN}, {TCC_F8E5M2, TCC_F8E4M3FN}, {TCC_F8E4M3FN, TCC_F8E5M2}, {TCC_F8E5M2, TCC_F8E5M2}};
    static const struct km_matmul more[] = {
        {.b = 1, .m = 130, .n = 72, .k = 320, .trans_b = true, .relu = true},
        {.b = 2, .m = 64, .n = 200, .k = 144, .trans_b = true},
        {.b = 1, .m = 77, .n = 64, .k = 272, .trans_b = true, .dynamic = true},
        {.b = 1, .m = 72, .n = 96, .k = 160},
    };
    begin();
    fp8 = true;
    arch = "sm_90a";
    for (int i = 0; i < 4; i++) {
        struct km_matmul m = more[i];
        m.dtype = types[(i + _i) % 4][0];
        m.dtype_b = types[(i + _i) % 4][1];
        struct kn_kernel *k = km_matmul(ctx, &m);
        add_warpgroups(k, 64 << (i + _i) % 2, 2 + (i + _i) % 3, 1 + (i == 1), 1 + (i + _i) % 2);
        ck_assert_int_eq(cuda_get_schedule(k).threads, i < 3 ? CUDA_SENDING : 256);
        add(k = km_matmul(ctx, &m), CUDA_WGMMA, 0, 0, 0, 1);
        ck_assert_int_eq(cuda_get_schedule(k).fp8, 1);
        ck_assert_int_eq(cuda_get_schedule(k).how, CUDA_WGMMA);
    }
    prove_all(_i == 3, _i);
    end();
}
END_TEST

/* Infinities and NaN of float32 reach the results that they belong to and no others; a number near the largest stays
 * what it is. */
START_TEST(not_finite)
{
    enum { M = 64, N = 64, K = 32 };
    static float a[M][K], b[K][N], bias[N], out[M][N];
    struct km_matmul m = {.b = 1, .m = M, .n = N, .k = K};
    void *args[] = {a, b, bias, out};
    size_t bytes[] = {sizeof a, sizeof b, sizeof bias, sizeof out};
    enum kn_operand_use uses[] = {KN_IN, KN_IN, KN_IN, KN_OUT};
    char error[PROVE_TEXT] = "";
    struct prove p;
    begin();
    add(km_matmul(ctx, &m), CUDA_MMA, 64, 64, 2, 1);
    for (int i = 0; i < M * K; i++)
        (&a[0][0])[i] = 0.3f + (float)(i % 7);
    for (int i = 0; i < K * N; i++)
        (&b[0][0])[i] = i % 5 == 0 ? 1 : -0.7f;
    a[0][3] = INFINITY;
    a[1][0] = NAN;
    b[5][7] = -INFINITY;
    b[6][9] = 3e38f;
    for (int i = 0; i < M; i++)
        a[i][6] = 0.25f;
    compile(&p, false, 1);
    struct prove_launch l = {.nargs = 4, .args = args, .bytes = bytes, .uses = uses, .tiles = 1};
    ck_assert_msg(prove_run(&p, &l, error), "%s", error);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double want = 0, got = (double)out[i][j];
            for (int k = 0; k < K; k++)
                want += (double)a[i][k] * (double)b[k][j];
            ck_assert_msg(want == got || (isnan(want) && isnan(got)) ||
                              fabs(want - got) <= 1e-5 * fmax(100, fabs(want)),
                          "%d, %d: expected %g, found %g", i, j, want, got);
        }
    prove_close(&p);
    end();
}
END_TEST

START_TEST(warpgroups)
{
    begin();
    arch = "sm_90a";
    for (int i = 0; i < NMATMULS; i++) {
        struct km_matmul m = matmuls[i];
        m.dtype = (i + _i) & 1 ? TCC_F16 : TCC_BF16;
        m.k *= 4;
        add_warpgroups(km_matmul(ctx, &m), 64 * (1 + _i % 4), 2 + (i + _i) % 3, 1 + (i == 2), 1);
    }
    if (_i == 4) /* the artifact's other machine, which has no wgmma: tiles of its own */
        arch = "sm_80";
    prove_all(_i == 3, _i); /* --exact: by multiply-adds */
    end();
}
END_TEST

/* Few results of many terms: by pieces of the terms, some of them empty, and by as many as the machine chooses. */
START_TEST(pieces)
{
    static const struct km_matmul few = {.b = 1, .m = 70, .n = 65, .k = 2000, .trans_a = true, .relu = true};
    begin();
    for (int i = 0; i < NMATMULS; i++) {
        struct km_matmul m = matmuls[i];
        m.dtype = _i & 1 ? TCC_BF16 : TCC_F32;
        add(km_matmul(ctx, &m), _i & 1 ? CUDA_MMA : CUDA_CONTRACT, 64, 64, 3, 2 + i);
    }
    struct km_matmul m = few;
    m.dtype = _i & 1 ? TCC_F16 : TCC_F32;
    add(km_matmul(ctx, &m), CUDA_MMA, 0, 0, 0, 0);
    ck_assert_int_eq(cuda_get_schedule(kernels[nkernels - 1]).split, 7);
    prove_all(_i >= 2, _i); /* --exact: the first piece has all terms */
    end();
}
END_TEST

/* Factors that tensor copies bring: both orders of both, batches in dims of their own, tails of rows, columns and
 * terms, several tiles a block, pieces, blocks alone and pairs that share rows; and those that they don't: rows of no
 * multiple of 16 bytes, which is seen when it runs where the size isn't known. */
START_TEST(tensor_copies)
{
    static const struct km_matmul whole[] = {
        {.b = 1, .m = 136, .n = 72, .k = 200, .relu = true},
        {.b = 3, .m = 64, .n = 264, .k = 72, .trans_b = true},
        {.b = 1, .m = 200, .n = 128, .k = 64, .trans_a = true},
        {.b = 2, .m = 16, .n = 80, .k = 328, .trans_a = true, .trans_b = true},
        {.b = 1, .m = 72, .n = 64, .k = 448, .dynamic = true},
        {.b = 1, .m = 64, .n = 96, .k = 64, .dynamic = true, .trans_a = true},
    };
    begin();
    arch = "sm_90a";
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        struct km_matmul m = whole[i];
        m.dtype = (i + (size_t)_i) & 1 ? TCC_F16 : TCC_BF16;
        struct kn_kernel *k = km_matmul(ctx, &m);
        add_warpgroups(k, 64 * (1 + _i % 4), 2 + (int)(i + (size_t)_i) % 3, 1 + (i == 0) * 2,
                       1 + (int)(i / 2 + (size_t)_i) % 2);
        ck_assert_int_eq(cuda_get_schedule(k).threads, CUDA_SENDING);
    }
    struct km_matmul odd = {.b = 1, .m = 64, .n = 63, .k = 64, .dtype = TCC_F16};
    struct cuda_schedule plain = cuda_plain_schedule(CUDA_WGMMA);
    ck_assert(!cuda_may_map(ctx, km_matmul(ctx, &odd), &plain));
    prove_all(_i == 3, _i);
    end();
}
END_TEST

START_TEST(convolutions)
{
    static const struct km_conv convs[] = {
        {.n = 2, .c = 5, .h = 9, .w = 11, .o = 19, .kh = 3, .kw = 3, .stride = 1, .pad = 1, .dilation = 1},
        {.n = 1, .c = 16, .h = 8, .w = 8, .o = 32, .kh = 1, .kw = 1, .stride = 1, .pad = 0, .dilation = 1},
        {.n = 1, .c = 3, .h = 20, .w = 20, .o = 16, .kh = 7, .kw = 7, .stride = 2, .pad = 3, .dilation = 1},
        {.n = 2, .c = 4, .h = 12, .w = 10, .o = 17, .kh = 3, .kw = 2, .stride = 1, .pad = 2, .dilation = 2},
    };
    static const enum cuda_how hows[] = {CUDA_CONTRACT, CUDA_MMA, CUDA_MMA, CUDA_WGMMA};
    begin();
    if (_i == 3)
        arch = "sm_90a";
    for (size_t i = 0; i < sizeof convs / sizeof *convs; i++)
        for (int groups = 1; groups < 2 + (convs[i].c % 4 == 0 && convs[i].o % 4 == 0); groups++) {
            struct km_conv c = convs[i];
            c.dtype = _i < 2 ? TCC_F32 : _i == 2 ? TCC_F16 : TCC_BF16;
            int bm = groups > 1 ? 0 : _i == 3 ? 128 : 64; /* by groups it is the machine's: a point a thread */
            add(km_plain_conv(ctx, &c, groups == 1 ? 1 : 4), hows[_i], bm, 64, 3, 1 + (int)i % 2);
        }
    prove_all(false, 3);
    end();
}
END_TEST

/* Windows that tensor copies bring: taps, strides, dilations, what lies outside, images that end within a tile, pieces,
 * tails of rows and columns; and channels that are no multiple of a step, which cp.async brings. */
START_TEST(windows)
{
    static const struct km_conv convs[] = {
        {.n = 2, .c = 64, .h = 9, .w = 11, .o = 72, .kh = 3, .kw = 3, .stride = 1, .pad = 1, .dilation = 1},
        {.n = 1, .c = 128, .h = 12, .w = 15, .o = 64, .kh = 3, .kw = 2, .stride = 2, .pad = 1, .dilation = 1},
        {.n = 3,
         .c = 64,
         .h = 8,
         .w = 9,
         .o = 40,
         .kh = 3,
         .kw = 3,
         .stride = 1,
         .pad = 2,
         .dilation = 2,
         .relu = true},
        {.n = 2, .c = 64, .h = 7, .w = 7, .o = 130, .kh = 1, .kw = 1, .stride = 2, .pad = 0, .dilation = 1},
        {.n = 2, .c = 64, .h = 9, .w = 8, .o = 64, .kh = 5, .kw = 5, .stride = 1, .pad = 0, .dilation = 1},
        {.n = 1, .c = 48, .h = 9, .w = 9, .o = 64, .kh = 3, .kw = 3, .stride = 1, .pad = 1, .dilation = 1},
    };
    begin();
    arch = "sm_90a";
    for (int i = 0; i < 6; i++) {
        struct km_conv v = convs[i];
        v.last = true;
        v.dtype = (i + _i) & 1 ? TCC_F16 : TCC_BF16;
        struct kn_kernel *k = km_plain_conv(ctx, &v, 1);
        add_warpgroups(k, 64 << (i + _i) % 3, 2 + (i + _i) % 3, 1 + (i == 1), 1 + (i / 2 + _i) % 2);
        ck_assert_int_eq(cuda_get_schedule(k).threads, i < 5 ? CUDA_SENDING : 256);
    }
    if (_i == 2) /* the artifact's other machine: by mma.sync, 16 bytes at a time */
        arch = "sm_80";
    prove_all(false, _i);
    end();
}
END_TEST

/* Sectors and wavefronts of products whose tiles are whole. */
START_TEST(counted)
{
    static const struct km_matmul large[] = {{.b = 1, .m = 256, .n = 256, .k = 64},
                                             {.b = 1, .m = 256, .n = 256, .k = 64, .trans_b = true},
                                             {.b = 1, .m = 256, .n = 256, .k = 64, .trans_a = true}};
    struct prove p;
    begin();
    for (int i = 0; i < 9; i++) {
        struct km_matmul m = large[i % 3];
        m.dtype = i < 3 || i >= 6 ? TCC_F32 : TCC_BF16;
        if (_i)
            m.dtype = i & 1 ? TCC_F16 : TCC_BF16;
        arch = _i ? "sm_90a" : "sm_80";
        if (_i)
            add_warpgroups(km_matmul(ctx, &m), 128, 2 + i / 3, 1, 1);
        else
            add(km_matmul(ctx, &m), i < 3 ? CUDA_CONTRACT : CUDA_MMA, 128, 128, i < 3 ? 3 : 4, 1);
    }
    compile(&p, false, 1);
    for (int i = 0; i < nkernels; i++) {
        const struct kn_kernel *k = kernels[i];
        void *args[8];
        size_t bytes[8];
        enum kn_operand_use uses[8];
        char error[PROVE_TEXT] = "";
        for (int j = 0; j < k->noperands; j++) {
            bytes[j] = (size_t)tcc_dtype_bytes(k->operands[j].dtype);
            for (int d = 0; d < k->operands[j].rank; d++)
                bytes[j] *= (size_t)ir_const_or(k->operands[j].dims[d], 0);
            args[j] = calloc(1, bytes[j]);
            uses[j] = k->operands[j].use;
        }
        struct prove_launch l = {.kernel = i,
                                 .nargs = k->noperands,
                                 .args = args,
                                 .bytes = bytes,
                                 .uses = uses,
                                 .tiles = ir_const_or(k->tiles, 0)};
        ck_assert_int_eq(l.tiles, 4);
        ck_assert_msg(prove_run(&p, &l, error), "%s: %s", k->name, error);
        const struct ptx_counters *c = &l.counters;
        ck_assert_msg((c->shared_wavefronts - c->shared_ideal) * 20 <= c->shared_ideal,
                      "%s: %lu wavefronts, ideally %lu", k->name, (unsigned long)c->shared_wavefronts,
                      (unsigned long)c->shared_ideal);
        ck_assert_msg(c->global_sectors * 10 <= c->ideal_sectors * 11, "%s: %lu sectors, ideally %lu", k->name,
                      (unsigned long)c->global_sectors, (unsigned long)c->ideal_sectors);
        /* By 16 bytes a lane; sides of float32 along k come through registers: they are turned on their way. */
        static const int copied[] = {1, 0, 2, 2, 2, 2, 2, 2, 2};
        if (_i) { /* a step of each of the 4 tiles: a box a side along k, two else; by a warp m64n128k16 */
            static const int boxes[] = {3, 2, 4};
            ck_assert_int_eq(c->async_copies, 4 * boxes[i % 3]);
            ck_assert_int_eq(c->mma, 4 * 2 * 4 * 4);
        } else {
            ck_assert_uint_ge(c->async_copies, copied[i] * 4 * 128 * 64 / (i < 3 || i >= 6 ? 4 : 8) / 32);
            ck_assert_int_eq(c->mma, i < 3 ? 0 : 256 * 256 * 64 / (16 * 8 * 16) * (i < 6 ? 1 : 6));
        }
        for (int j = 0; j < k->noperands; j++)
            free(args[j]);
    }
    prove_close(&p);
    end();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cuda code");
    TCase *c = tcase_create("products");
    tcase_set_timeout(c, 300);
    ADD_ROUNDS(c, multiply_adds, 8);
    ADD_ROUNDS(c, tensor_cores, 5);
    ADD_ROUNDS(c, parts_and_bytes, 7);
    ADD_ROUNDS(c, eight_bit_floats, 6);
    ADD_ROUNDS_EVERY(c, eight_bit_warpgroups, 4, 4);
    tcase_add_test(c, not_finite);
    ADD_ROUNDS_EVERY(c, warpgroups, 5, 5);
    ADD_ROUNDS_EVERY(c, tensor_copies, 4, 4);
    ADD_ROUNDS_EVERY(c, pieces, 4, 4);
    ADD_ROUNDS(c, convolutions, 4);
    ADD_ROUNDS(c, windows, 3);
    ADD_ROUNDS(c, counted, 2);
    suite_add_tcase(s, c);
    return run_tests(s);
}
