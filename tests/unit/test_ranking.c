/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does modelled time rank products as a device does? The steps by which a published worklog went from 32 to 764 TFLOP/s
 * of bf16 on one H100, a product of 4096^3 (pranjalssh/fast.cu, figures as its author gives them), written anew in PTX:
 * multiply-adds, tile sizes, a ring of buffers, a warpgroup that sends, persistent blocks, plain mbarriers, a cluster
 * that shares its columns, a first step that needs no zeros, results stored by tensor copies, an order of tiles read
 * from a table (there a Hilbert curve), stmatrix; the last two have one figure together. And eight steps of another, of
 * float32 (ranking_fp32.c), on the device of theirs. Each kernel's results are right, with all checks on; its counters
 * at two lengths of the sum give those at 4096, since a step counts as the one before; one block (or cluster) gives
 * those of the grid.
 */
#include <check.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/ptx/driver.h"
#include "sim/ptx/ptxsim.h"
#include "tests/unit/ranking.h"
#include "tests/unit/suite.h"

enum { SIZE = 4096, BK = 64, MOST_TILES = 4 };

struct variant {
    const char *name;
    double tflops;              /* as published */
    int bm, bn, groups, stages; /* groups: warpgroups that multiply */
    bool sends;                 /* a warpgroup of its own sends */
    bool persistent;            /* 128 blocks of 4 tiles */
    bool plain;                 /* a warp arrives once, not by each of its threads */
    int cluster;                /* blocks that share a tile of columns */
    bool peeled;                /* the first step writes the sums, the others add */
    enum { BY_THREADS, BY_COPIES, BY_STMATRIX } store;
    bool table; /* tiles in the order of a table */
    bool simt;  /* by multiply-adds, without tensor cores */
};
static const struct variant variants[] = {
    {"multiply-adds", 32, 128, 128, 2, 1, false, false, false, 0, false, BY_THREADS, false, true},
    {"tensor copies and wgmma", 317, 64, 64, 1, 1, false, false, false, 0, false, BY_THREADS, false, false},
    {"larger tile", 423, 128, 128, 1, 1, false, false, false, 0, false, BY_THREADS, false, false},
    {"a warpgroup that sends", 500, 128, 128, 1, 5, true, false, false, 0, false, BY_THREADS, false, false},
    {"two that multiply", 610, 128, 256, 2, 3, true, false, false, 0, false, BY_THREADS, false, false},
    {"persistent", 660, 128, 256, 2, 3, true, true, false, 0, false, BY_THREADS, false, false},
    {"plain mbarriers", 704, 128, 256, 2, 3, true, true, true, 0, false, BY_THREADS, false, false},
    {"clusters", 734, 128, 256, 2, 3, true, true, true, 2, false, BY_THREADS, false, false},
    {"no zeros", 747, 128, 256, 2, 3, true, true, true, 2, true, BY_THREADS, false, false},
    {"stored by copies", 758, 128, 256, 2, 3, true, true, true, 2, true, BY_COPIES, false, false},
    {"tiles by a table", 764, 128, 256, 2, 3, true, true, true, 2, true, BY_COPIES, true, false},
    {"stmatrix", 764, 128, 256, 2, 3, true, true, true, 2, true, BY_STMATRIX, true, false},
};
enum { NVARIANTS = sizeof variants / sizeof *variants };

/* -- A kernel's text ----------------------------------------------------------------------------------------------- */

static FILE *out;
#define P(...) fprintf(out, __VA_ARGS__)

/* Rows of m64 that a warpgroup multiplies. */
static int pieces(const struct variant *v)
{
    return v->bm / 64 / v->groups;
}

static int stage_bytes(const struct variant *v)
{
    return (v->bm + v->bn) * BK * 2;
}

static int staging(const struct variant *v)
{
    return v->store ? v->bm * v->bn * 2 : 0;
}

static size_t shared_bytes(const struct variant *v)
{
    return (size_t)(v->stages * stage_bytes(v) + staging(v) + 256);
}

static int threads(const struct variant *v)
{
    return 128 * (v->groups + v->sends);
}

static void head(const struct variant *v)
{
    P(".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 s[];\n"
      ".visible .entry k(.param .align 64 .b8 ma[128], .param .align 64 .b8 mb[128], .param .align 64 .b8 mc[128], "
      ".param .u64 c, .param .u32 n, .param .u32 steps, .param .u32 tiles, .param .u64 fa, .param .u64 fb, .param .u64 "
      "order) "
      ".maxntid %d, 1, 1 {\n"
      ".reg .pred %%p<8>; .reg .b16 %%h; .reg .b32 %%r<64>, %%q<64>; .reg .f32 %%f<%d>; .reg .b64 %%d<32>;\n"
      "mov.u64 %%d1, ma; cvta.param.u64 %%d1, %%d1; mov.u64 %%d2, mb; cvta.param.u64 %%d2, %%d2; mov.u64 %%d3, mc; "
      "cvta.param.u64 %%d3, %%d3;\n"
      "ld.param.u64 %%d22, [order]; cvta.to.global.u64 %%d22, %%d22; ld.param.u64 %%d4, [c]; cvta.to.global.u64 %%d4, "
      "%%d4; ld.param.u32 %%r5, [n]; ld.param.u32 %%r6, [steps]; "
      "ld.param.u32 %%r7, [tiles];\n"
      "mov.u32 %%r1, %%tid.x; mov.u32 %%r2, %%ctaid.x; mov.u32 %%r3, s; add.u32 %%r4, %%r3, %d;\n"
      "and.b32 %%r8, %%r1, 31; shr.u32 %%r9, %%r1, 5; and.b32 %%r9, %%r9, 3; shr.u32 %%r10, %%r1, 7; mov.u32 %%r11, "
      "%%cluster_ctarank;\n",
      threads(v), 128 * 2, v->stages * stage_bytes(v) + staging(v));
    /* r4: full barriers, 8 bytes each, the empty ones 128 behind; lane r8, warp of the group r9, group r10, rank r11;
     * tile r12, stage r13, parity r14. */
    int arrivals = (v->plain ? 4 : 128) * v->groups * (v->cluster ? v->cluster : 1);
    P("setp.ne.u32 %%p1, %%r1, 0; @%%p1 bra READY;\n");
    for (int i = 0; i < v->stages; i++)
        P("mbarrier.init.shared::cta.b64 [%%r4+%d], %d; mbarrier.init.shared::cta.b64 [%%r4+%d], %d;\n", 8 * i,
          v->plain || !v->sends ? 1 : 1 + 128 * v->groups, 128 + 8 * i, arrivals);
    P("fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;\nREADY: %s\nmov.u32 %%r12, 0; mov.u32 "
      "%%r13, "
      "0; mov.u32 %%r14, 0;\n",
      v->cluster ? "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" : "bar.sync 0;");
}

static void wait_for(const char *barrier, const char *parity, const char *label)
{
    P("%s: mbarrier.try_wait.parity.shared::cta.b64 %%p2, [%s], %s; @!%%p2 bra %s;\n", label, barrier, parity, label);
}

/* Buffer, barriers and coordinates of the step in r13: r20 buffer, r21 full, r22 empty. */
static void places(const struct variant *v)
{
    P("mad.lo.u32 %%r20, %%r13, %d, %%r3; shl.b32 %%r21, %%r13, 3; add.u32 %%r21, %%r4, %%r21; add.u32 %%r22, %%r21, "
      "128;\n",
      stage_bytes(v));
}

static void advance(const struct variant *v)
{
    P("add.u32 %%r13, %%r13, 1; setp.eq.u32 %%p3, %%r13, %d; selp.u32 %%r13, 0, %%r13, %%p3; selp.u32 %%r23, 1, 0, "
      "%%p3; xor.b32 %%r14, %%r14, %%r23;\n",
      v->stages);
}

/* Sends for the step r15's tiles. */
static void send(const struct variant *v)
{
    static const char copy[] = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes";
    P("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%%r21], %d; shl.b32 %%r24, %%r15, 6; mul.lo.u32 %%r25, %%r60, %d; "
      "mul.lo.u32 %%r26, %%r61, %d;\n",
      stage_bytes(v), v->bm, v->bn);
    P("%s [%%r20], [%%d1, {%%r24, %%r25}], [%%r21];\n", copy);
    if (v->cluster) /* half of the columns each, for both */
        P("mad.lo.u32 %%r26, %%r11, %d, %%r26; mad.lo.u32 %%r27, %%r11, %d, %%r20; add.u32 %%r27, %%r27, %d; mov.u16 "
          "%%h, 3;\n%s.multicast::cluster [%%r27], [%%d2, {%%r24, %%r26}], [%%r21], %%h;\n",
          v->bn / 2, v->bn / 2 * BK * 2, v->bm * BK * 2, copy);
    else
        P("add.u32 %%r27, %%r20, %d; %s [%%r27], [%%d2, {%%r24, %%r26}], [%%r21];\n", v->bm * BK * 2, copy);
}

static void list(const char *name, int first, int n)
{
    for (int i = 0; i < n; i++)
        P("%s%%%s%d", i ? ", " : "", name, first + i);
}

static void products(const struct variant *v)
{
    int sums = v->bn / 2;
    P("wgmma.fence.sync.aligned; mul.lo.u32 %%r30, %%r10, %d; add.u32 %%r30, %%r30, %%r20; add.u32 %%r31, %%r20, %d;\n",
      pieces(v) * 64 * BK * 2, v->bm * BK * 2);
    for (int side = 0; side < 2; side++)
        P("shr.u32 %%r32, %%r%d, 4; and.b32 %%r32, %%r32, 0x3fff; cvt.u64.u32 %%d%d, %%r32; or.b64 %%d%d, %%d%d, "
          "%llu;\n",
          30 + side, 10 + side, 10 + side, 10 + side, 1ull << 62 | 64ull << 32 | 1ull << 16);
    for (int k = 0; k < BK / 16; k++)
        for (int m = 0; m < pieces(v); m++) {
            P("add.u64 %%d12, %%d10, %d; add.u64 %%d13, %%d11, "
              "%d;\nwgmma.mma_async.sync.aligned.m64n%dk16.f32.bf16.bf16 {",
              m * 64 * BK * 2 / 16 + 2 * k, 2 * k, v->bn);
            list("f", m * sums, sums);
            P("}, %%d12, %%d13, %s, 1, 1, 0, 0;\n", v->peeled && k == 0 ? "%p4" : "1");
        }
    P("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n");
}

/* The group's rows of the tile, by threads: C[row][col] of bf16. */
static void store_by_threads(const struct variant *v)
{
    P("mul.lo.u32 %%r40, %%r60, %d; mad.lo.u32 %%r40, %%r10, %d, %%r40; mad.lo.u32 %%r40, %%r9, 16, %%r40; shr.u32 "
      "%%r41, %%r8, 2; add.u32 %%r40, %%r40, %%r41; mul.lo.u32 %%r42, %%r61, %d; and.b32 %%r43, %%r8, 3; mad.lo.u32 "
      "%%r42, %%r43, 2, %%r42;\n",
      v->bm, pieces(v) * 64, v->bn);
    for (int m = 0; m < pieces(v); m++)
        for (int half = 0; half < 2; half++) {
            P("add.u32 %%r44, %%r40, %d; mad.lo.u32 %%r44, %%r44, %%r5, %%r42; mul.wide.u32 %%d20, %%r44, 2; add.u64 "
              "%%d20, %%d4, %%d20;\n",
              64 * m + 8 * half);
            for (int i = 0; i < v->bn / 8; i++)
                for (int j = 0; j < 2; j++)
                    P("cvt.rn.bf16.f32 %%h, %%f%d; st.global.b16 [%%d20+%d], %%h;\n",
                      m * v->bn / 2 + 4 * i + 2 * half + j, 16 * i + 2 * j);
        }
}

/* The same through shared memory, in blocks of 64 columns, by tensor copies that are waited for when the next tile's
 * results come. */
static void store_by_copies(const struct variant *v)
{
    int base = v->stages * stage_bytes(v);
    P("setp.eq.u32 %%p5, %%r8, 0; setp.eq.u32 %%p6, %%r9, 0; and.pred %%p5, %%p5, %%p6;\n"
      "@%%p5 cp.async.bulk.wait_group.read 0; add.u32 %%r50, %%r10, 1; bar.sync %%r50, 128;\n"
      "mad.lo.u32 %%r51, %%r10, %d, %%r3; add.u32 %%r51, %%r51, %d; mad.lo.u32 %%r52, %%r9, 2048, %%r51;\n",
      64 * v->bn * 2, base);
    if (v->store == BY_STMATRIX) /* a lane's row of the four 8 x 8 matrices */
        P("and.b32 %%r53, %%r8, 15; mad.lo.u32 %%r52, %%r53, 128, %%r52; shr.u32 %%r53, %%r8, 4; mad.lo.u32 %%r52, "
          "%%r53, 16, %%r52;\n");
    else
        P("shr.u32 %%r53, %%r8, 2; mad.lo.u32 %%r52, %%r53, 128, %%r52; and.b32 %%r53, %%r8, 3; mad.lo.u32 %%r52, "
          "%%r53, 4, %%r52;\n");
    for (int i = 0; i < v->bn / 16; i++) {
        int at = i / 4 * 64 * 128 + i % 4 * 32;
        for (int j = 0; j < 4; j++)
            P("cvt.rn.bf16x2.f32 %%q%d, %%f%d, %%f%d;\n", j, 8 * i + 2 * j + 1, 8 * i + 2 * j);
        if (v->store == BY_STMATRIX)
            P("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%%r52+%d], {%%q0, %%q1, %%q2, %%q3};\n", at);
        else
            for (int j = 0; j < 4; j++)
                P("st.shared.b32 [%%r52+%d], %%q%d;\n", at + j % 2 * 8 * 128 + j / 2 * 16, j);
    }
    P("fence.proxy.async.shared::cta; bar.sync %%r50, 128; @!%%p5 bra STORED;\nmul.lo.u32 %%r54, %%r60, %d; mad.lo.u32 "
      "%%r54, %%r10, 64, %%r54; mul.lo.u32 %%r55, %%r61, %d;\n",
      v->bm, v->bn);
    for (int i = 0; i < v->bn / 64; i++)
        P("add.u32 %%r56, %%r55, %d; add.u32 %%r57, %%r51, %d; "
          "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group "
          "[%%d3, {%%r56, %%r54}], [%%r57];\n",
          64 * i, i * 64 * 128);
    P("cp.async.bulk.commit_group;\nSTORED:\n");
}

static void zeros(const struct variant *v)
{
    for (int i = 0; i < pieces(v) * v->bn / 2 && !v->peeled; i++)
        P("mov.f32 %%f%d, 0f00000000;\n", i);
}

/* A warp is done with a buffer: for all blocks that sent for it. */
static void leave(const struct variant *v)
{
    if (!v->plain) {
        P("mbarrier.arrive.shared::cta.b64 _, [%%r22];\n");
        return;
    }
    P("setp.lt.u32 %%p5, %%r8, %d;\n", v->cluster ? v->cluster : 1);
    if (v->cluster)
        P("@%%p5 mapa.shared::cluster.u32 %%r28, %%r22, %%r8; @%%p5 "
          "mbarrier.arrive.release.cluster.shared::cluster.b64 _, "
          "[%%r28];\n");
    else
        P("@%%p5 mbarrier.arrive.shared::cta.b64 _, [%%r22];\n");
}

/* The tile's row and column of tiles: r60, r61. */
static void place_tile(const struct variant *v)
{
    if (v->table)
        P("mul.wide.u32 %%d21, %%r12, 8; add.u64 %%d21, %%d22, %%d21; ld.global.nc.v2.u32 {%%r60, %%r61}, [%%d21]; "
          "add.u32 %%r60, %%r60, %%r2;\n");
    else
        P("mov.u32 %%r60, %%r2; mov.u32 %%r61, %%r12;\n");
}

static void multiply_sent(const struct variant *v)
{
    P("MTILE:\n");
    place_tile(v);
    zeros(v);
    P("mov.u32 %%r15, 0;\nMSTEP:\n");
    places(v);
    if (!v->plain)
        P("mbarrier.arrive.shared::cta.b64 _, [%%r21];\n");
    wait_for("%r21", "%r14", "FULL");
    P("setp.ne.u32 %%p4, %%r15, 0;\n");
    products(v);
    leave(v);
    advance(v);
    P("add.u32 %%r15, %%r15, 1; setp.lt.u32 %%p1, %%r15, %%r6; @%%p1 bra MSTEP;\n");
    if (v->store)
        store_by_copies(v);
    else
        store_by_threads(v);
    P("add.u32 %%r12, %%r12, 1; setp.lt.u32 %%p1, %%r12, %%r7; @%%p1 bra MTILE;\n");
    if (v->store)
        P("@%%p5 cp.async.bulk.wait_group 0;\n");
}

static void body_sent(const struct variant *v)
{
    P("setp.ge.u32 %%p1, %%r10, %d; @%%p1 bra SENDS;\nsetmaxnreg.inc.sync.aligned.u32 240;\n", v->groups);
    multiply_sent(v);
    P("bra END;\nSENDS: setmaxnreg.dec.sync.aligned.u32 24; setp.ne.u32 %%p1, %%r1, %d; @%%p1 bra END;\nSTILE:\n",
      128 * v->groups);
    place_tile(v);
    P("mov.u32 %%r15, 0;\nSSTEP:\n");
    places(v);
    P("xor.b32 %%r29, %%r14, 1;\n");
    wait_for("%r22", "%r29", "EMPTY");
    send(v);
    advance(v);
    P("add.u32 %%r15, %%r15, 1; setp.lt.u32 %%p1, %%r15, %%r6; @%%p1 bra SSTEP;\nadd.u32 %%r12, %%r12, 1; setp.lt.u32 "
      "%%p1, %%r12, %%r7; @%%p1 bra STILE;\nEND: %s ret;\n}\n",
      v->cluster ? "barrier.cluster.arrive; barrier.cluster.wait;" : "");
}

/* One warpgroup does all, a step after the other. */
static void body_alone(const struct variant *v)
{
    zeros(v);
    place_tile(v);
    P("mov.u32 %%r15, 0;\nSTEP:\n");
    places(v);
    P("setp.ne.u32 %%p1, %%r1, 0; @%%p1 bra SENT;\n");
    send(v);
    P("SENT:\n");
    wait_for("%r21", "%r14", "FULL");
    products(v);
    P("bar.sync 0;\n");
    advance(v);
    P("add.u32 %%r15, %%r15, 1; setp.lt.u32 %%p1, %%r15, %%r6; @%%p1 bra STEP;\n");
    store_by_threads(v);
    P("ret;\n}\n");
}

/* Each of 256 threads 8 x 8 of 128 x 128 results by multiply-adds, 16 terms at a time through shared memory as float32,
 * a row of it 132 of them. */
static void body_simt(void)
{
    enum { ROW = 132 * 4, COLS = 16 * ROW };
    P("ld.param.u64 %%d5, [fa]; cvta.to.global.u64 %%d5, %%d5; ld.param.u64 %%d6, [fb]; cvta.to.global.u64 %%d6, "
      "%%d6;\n"
      "shr.u32 %%r16, %%r1, 1; and.b32 %%r17, %%r1, 1; shl.b32 %%r17, %%r17, 3; shl.b32 %%r18, %%r6, 6;\n"
      "mad.lo.u32 %%r19, %%r2, 128, %%r16; mad.lo.u32 %%r19, %%r19, %%r18, %%r17; mul.wide.u32 %%d7, %%r19, 2; add.u64 "
      "%%d7, %%d5, %%d7;\n"
      "mad.lo.u32 %%r19, %%r16, %%r18, %%r17; mul.wide.u32 %%d8, %%r19, 2; add.u64 %%d8, %%d6, %%d8;\n"
      "mad.lo.u32 %%r20, %%r17, 132, %%r16; shl.b32 %%r20, %%r20, 2; add.u32 %%r20, %%r20, %%r3;\n"
      "shr.u32 %%r21, %%r1, 4; shl.b32 %%r21, %%r21, 5; add.u32 %%r21, %%r21, %%r3; and.b32 %%r22, %%r1, 15; shl.b32 "
      "%%r22, %%r22, 4; add.u32 %%r22, %%r22, %%r3;\n");
    for (int i = 0; i < 64; i++)
        P("mov.f32 %%f%d, 0f00000000;\n", i);
    P("mov.u32 %%r15, 0; shl.b32 %%r23, %%r6, 2;\nSTEP: ld.global.nc.v4.b32 {%%q0, %%q1, %%q2, %%q3}, [%%d7]; "
      "ld.global.nc.v4.b32 {%%q4, %%q5, %%q6, %%q7}, [%%d8]; bar.sync 0;\n");
    for (int i = 0; i < 16; i++) {
        P(i % 2 ? "and.b32 %%q8, %%q%d, 0xffff0000;" : "shl.b32 %%q8, %%q%d, 16;", i / 2);
        P(" st.shared.b32 [%%r20+%d], %%q8;\n", i / 8 * COLS + i % 8 * ROW);
    }
    P("bar.sync 0; add.u64 %%d7, %%d7, 32; add.u64 %%d8, %%d8, 32;\n");
    for (int k = 0; k < 16; k++) {
        static const int at[] = {0, 16, COLS, COLS + 256};
        for (int i = 0; i < 4; i++)
            P("ld.shared.v4.f32 {%%f%d, %%f%d, %%f%d, %%f%d}, [%%r%d+%d];\n", 64 + 4 * i, 65 + 4 * i, 66 + 4 * i,
              67 + 4 * i, i < 2 ? 21 : 22, at[i] + k * ROW);
        for (int i = 0; i < 64; i++)
            P("fma.rn.f32 %%f%d, %%f%d, %%f%d, %%f%d;\n", i, 64 + i / 8, 72 + i % 8, i);
    }
    P("add.u32 %%r15, %%r15, 1; setp.lt.u32 %%p1, %%r15, %%r23; @%%p1 bra STEP;\n"
      "shr.u32 %%r24, %%r1, 4; shl.b32 %%r24, %%r24, 3; mad.lo.u32 %%r24, %%r2, 128, %%r24; mul.lo.u32 %%r24, %%r24, "
      "%%r5; and.b32 %%r25, %%r1, 15; mad.lo.u32 %%r24, %%r25, 4, %%r24; mul.wide.u32 %%d9, %%r24, 2; add.u64 %%d9, "
      "%%d4, "
      "%%d9; mul.wide.u32 %%d10, %%r5, 2;\n");
    for (int i = 0; i < 8; i++) {
        for (int j = 0; j < 8; j++)
            P("cvt.rn.bf16.f32 %%h, %%f%d; st.global.b16 [%%d9+%d], %%h;\n", 8 * i + j, (j / 4 * 64 + j % 4) * 2);
        P("add.u64 %%d9, %%d9, %%d10;\n");
    }
    P("ret;\n}\n");
}

static char *text_of(const struct variant *v)
{
    char *text = NULL;
    size_t size;
    out = open_memstream(&text, &size);
    head(v);
    if (v->simt)
        body_simt();
    else if (v->sends)
        body_sent(v);
    else
        body_alone(v);
    fclose(out);
    return text;
}

/* -- Runs ---------------------------------------------------------------------------------------------------------- */

static int blocks_of(const struct variant *v)
{
    return v->cluster ? v->cluster : 1;
}

static uint16_t bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

struct params {
    _Alignas(64) char a[128];
    _Alignas(64) char b[128];
    _Alignas(64) char c[128];
    uint64_t at;
    uint32_t n, steps, tiles;
    uint64_t fa, fb, order;
};

/* A and B of small whole numbers, so that all sums are exact. */
static uint64_t factor(struct ptx_device *d, int rows, int k, int odd, char *error)
{
    uint16_t *x = malloc((size_t)rows * (size_t)k * 2);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < k; j++)
            x[i * k + j] = bf16((float)((i * 7 + j * odd) % 3 - 1));
    uint64_t at = ptx_alloc(d, (size_t)rows * (size_t)k * 2, "factor", error);
    ck_assert(at && ptx_write(d, at, x, (size_t)rows * (size_t)k * 2, error));
    free(x);
    return at;
}

static void make_map(void *map, uint64_t at, int rows, int cols, int box_rows, bool swizzled)
{
    uint64_t dims[] = {(uint64_t)cols, (uint64_t)rows}, stride[] = {(uint64_t)cols * 2};
    uint32_t box[] = {64, (uint32_t)box_rows}, step[] = {1, 1};
    ck_assert_int_eq(
        cuTensorMapEncodeTiled(map, 9, 2, (void *)(uintptr_t)at, dims, stride, box, step, 0, swizzled ? 3 : 0, 0, 0),
        CUDA_SUCCESS);
}

static void check_results(struct ptx_device *d, uint64_t at, int m, int n, int k, char *error)
{
    uint16_t *c = malloc((size_t)m * (size_t)n * 2);
    ck_assert(ptx_read(d, c, at, (size_t)m * (size_t)n * 2, error));
    for (int i = 0; i < m; i += 13)
        for (int j = 0; j < n; j += 11) {
            int want = 0;
            for (int l = 0; l < k; l++)
                want += ((i * 7 + l * 5) % 3 - 1) * ((j * 7 + l * 4) % 3 - 1);
            ck_assert_msg(c[i * n + j] == bf16((float)want), "%d, %d: not %d", i, j, want);
        }
    free(c);
}

/* One block or cluster, its tiles, `steps` steps of the sum. */
static struct ptx_counters run(const struct variant *v, int tiles, int steps, bool checks, struct ptx_time *time,
                               double scale, const struct ptx_counters *before)
{
    char error[PTX_ERROR] = "", *text = text_of(v);
    struct ptx_config config = {.threads = 1, .checks = checks};
    struct ptx_device *d = ptx_device_new(&config, error);
    int m = v->bm * blocks_of(v), n = v->bn * tiles, k = steps * BK;
    struct params p = {.n = (uint32_t)n, .steps = (uint32_t)steps, .tiles = (uint32_t)tiles};
    struct ptx_counters c;
    struct ptx_module *module = ptx_load(d, text, strlen(text), error);
    ck_assert_msg(module != NULL, "%s: %s", v->name, error);
    uint64_t a = factor(d, m, k, 5, error), b = factor(d, n, k, 4, error);
    p.at = ptx_alloc(d, (size_t)m * (size_t)n * 2, "results", error);
    p.fa = a;
    p.fb = b;
    uint32_t order[2 * MOST_TILES] = {0};
    for (int i = 0; i < tiles; i++) /* the last first */
        order[2 * i + 1] = (uint32_t)(tiles - 1 - i);
    p.order = ptx_alloc(d, sizeof order, "order", error);
    ck_assert(p.order && ptx_write(d, p.order, order, sizeof order, error));
    make_map(p.a, a, m, k, v->bm, true);
    make_map(p.b, b, n, k, v->cluster ? v->bn / v->cluster : v->bn, true);
    make_map(p.c, p.at, m, n, 64, false);
    struct ptx_launch l = {.grid = {(unsigned)blocks_of(v), 1, 1},
                           .block = {(unsigned)threads(v), 1, 1},
                           .cluster = {(unsigned)blocks_of(v), 1, 1},
                           .shared = shared_bytes(v),
                           .params = &p,
                           .params_size = offsetof(struct params, order) + sizeof p.order};
    bool ok = ptx_run(d, ptx_find(module, "k"), &l, &c, error);
    ck_assert_msg(ok, "%s: %s", v->name, error);
    const struct ptx_report *list;
    if (ptx_reports(d, &list))
        ptx_report_text(&list[0], error, sizeof error);
    ck_assert_msg(!ptx_reports(d, &list), "%s: %s", v->name, error);
    if (checks)
        check_results(d, p.at, m, n, k, error);
    if (time) { /* of the whole product */
        uint64_t *to = (uint64_t *)&c;
        const uint64_t *less = (const uint64_t *)before;
        for (size_t i = 0; i < sizeof c / sizeof *to; i++)
            to[i] = (uint64_t)(((double)less[i] + ((double)to[i] - (double)less[i]) * scale) *
                               (v->persistent ? 128 : SIZE / v->bm * SIZE / v->bn) / blocks_of(v));
        c.memory_bytes = (uint64_t)3 * SIZE * SIZE * 2; /* what a block reads first others read, too */
        l.grid[0] = v->persistent ? 128 : (unsigned)(SIZE / v->bm * SIZE / v->bn);
        ck_assert(ptx_modelled(ptx_find(module, "k"), &l, &c, "h100", time));
    }
    ptx_unload(module);
    ptx_device_free(d);
    free(text);
    return c;
}

static void start(void)
{
    CUcontext ctx;
    ck_assert_int_eq(cuInit(0), CUDA_SUCCESS);
    ck_assert_int_eq(cuDevicePrimaryCtxRetain(&ctx, 0), CUDA_SUCCESS);
    ck_assert_int_eq(cuCtxSetCurrent(ctx), CUDA_SUCCESS);
}

START_TEST(right)
{
    start();
    run(&variants[_i], variants[_i].persistent ? 2 : 1, 2 + variants[_i].stages, true, NULL, 0, NULL);
}
END_TEST

static struct ranked modelled(const struct variant *v)
{
    enum { SHORT = 6, LONG = 10 };
    struct ptx_time t;
    int tiles = v->persistent ? MOST_TILES : 1;
    struct ptx_counters before = run(v, tiles, SHORT, false, NULL, 0, NULL);
    run(v, tiles, LONG, false, &t, (double)(SIZE / BK - SHORT) / (LONG - SHORT), &before);
    struct ranked r = {v->name, v->tflops, 2.0 * SIZE * SIZE * SIZE / t.seconds * 1e-12};
    printf("# %-24s published %3.0f TFLOP/s, modelled %5.1f (%s)\n", r.name, r.published, r.modelled, t.bound);
    return r;
}

/* Kendall's tau of those is at least `least`, and the published figure of the model's best at least `near` of the
 * best. */
static void check_order(const char *what, const struct ranked *r, int n, double least, double near)
{
    int agree = 0, pairs = 0, best = 0, last = 0;
    for (int i = 0; i < n; i++) {
        best = r[i].modelled > r[best].modelled ? i : best;
        last = r[i].published > r[last].published ? i : last;
        for (int j = 0; j < i; j++, pairs++) {
            double published = r[i].published - r[j].published, ours = r[i].modelled - r[j].modelled;
            pairs -= published == 0; /* one figure for both */
            agree += published == 0 || ours == 0 ? 0 : (published > 0) == (ours > 0) ? 1 : -1;
        }
    }
    printf("# %s: %d variants, Kendall's tau %.3f, the best '%s'\n", what, n, (double)agree / pairs, r[best].name);
    ck_assert_msg(agree >= least * pairs, "%s: Kendall's tau %g", what, (double)agree / pairs);
    ck_assert_msg(r[best].published >= near * r[last].published, "%s: the best by the model is '%s'", what,
                  r[best].name);
}

START_TEST(right_fp32)
{
    ranking_fp32_right(_i);
}
END_TEST

START_TEST(ranked)
{
    struct ranked all[RANKED_FP32 + NVARIANTS];
    ranking_fp32(all);
    start();
    for (int i = 0; i < NVARIANTS; i++)
        all[RANKED_FP32 + i] = modelled(&variants[i]);
    /* A warp gets nothing for instructions that do not wait for each other: of float32 the last step, with few warps
     * and many sums each, is put too low. */
    check_order("float32 on an A6000", all, RANKED_FP32, 0.75, 0.8);
    check_order("bf16 on an H100", all + RANKED_FP32, NVARIANTS, 0.8, 0.95);
    check_order("both", all, RANKED_FP32 + NVARIANTS, 0.8, 0.95);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ranking");
    TCase *t = tcase_create("ranking");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, right, 0, NVARIANTS);
    tcase_add_loop_test(t, right_fp32, 0, RANKED_FP32);
    tcase_add_test(t, ranked);
    suite_add_tcase(s, t);
    return run_tests(s);
}
