/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PTX simulator: each check is provoked, and does not fire in the corrected kernel; errors of loading name the
 * line; kernels that use shared memory, barriers, asynchronous copies and tensor cores give what plain loops give.
 */
#include <check.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/ptx/ptxsim.h"
#include "tests/unit/suite.h"

static const char head[] = ".version 8.0\n.target sm_90\n.address_size 64\n";
/* Kernel k(a, n): %rd1 = a, %r1 = n, %r2 = tid.x, %rd2 = a + 4 tid.x, %r3 = 4 tid.x */
static const char begin[] =
    ".visible .entry k(.param .u64 a, .param .u32 n) {\n"
    ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<32>; .reg .f32 %f<16>; .reg .b64 %rd<16>;\n"
    ".shared .align 16 .b8 s[8192];\n"
    "ld.param.u64 %rd1, [a]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x; mul.wide.u32 %rd2, %r2, 4; add.s64 %rd2, "
    "%rd1, %rd2;\n"
    "shl.b32 %r3, %r2, 2; mov.u32 %r4, s; add.u32 %r5, %r4, %r3;\n";

static struct ptx_device *device(uint64_t seed)
{
    char error[PTX_ERROR] = "";
    struct ptx_config c = {.threads = 2, .seed = seed, .checks = true, .limit = 300000};
    struct ptx_device *d = ptx_device_new(&c, error);
    ck_assert_msg(d != NULL, "%s", error);
    return d;
}

/* -- Checks -- */

/* Each block writes its half; the one that comes last reads both. What stands before the counter decides. */
#define LAST_BLOCK(fence)                                                                                              \
    "mov.u32 %r8, %ctaid.x; mul.lo.u32 %r9, %r8, 64; setp.lt.u32 %p1, %r2, 16; cvt.u64.u32 %rd4, %r9; add.u64 %rd5, "  \
    "%rd2, %rd4; @%p1 st.global.u32 [%rd5], %r1; bar.sync 0; mov.u32 %r10, 0; setp.eq.u32 %p2, %r2, 0; mov.u32 %r11, " \
    "0; " fence " @%p2 atom.global.add.u32 %r11, [%rd1+128], 1; " fence " shfl.sync.idx.b32 %r11, %r11, 0, 31, -1; "   \
    "bar.sync 0; setp.eq.u32 %p3, %r11, 1; @%p3 ld.global.u32 %r12, [%rd2];"

struct provoked {
    enum ptx_check check;
    unsigned threads;
    const char *wrong, *right; /* bodies; right: NULL, there is none */
};
static const struct provoked provoked[] = {
    {PTX_CHECK_BOUNDS, 64, "add.s64 %rd2, %rd2, 128; st.global.u32 [%rd2], %r1;", "st.global.u32 [%rd2], %r1;"},
    {PTX_CHECK_BOUNDS, 64, "st.shared.u32 [%r5+8000], %r1;", "st.shared.u32 [%r5], %r1;"},
    {PTX_CHECK_BOUNDS, 32, "ld.param.u32 %r6, [a+16]; st.global.u32 [%rd1], %r6;", NULL},
    {PTX_CHECK_HOST, 32, "mov.u64 %rd3, 4096; ld.global.u32 %r6, [%rd3];", NULL},
    {PTX_CHECK_MISALIGNED, 32, "st.global.u32 [%rd2+2], %r1;", "st.global.u16 [%rd2+2], %h1;"},
    {PTX_CHECK_MISALIGNED, 32, "ld.global.v4.u32 {%r6,%r7,%r8,%r9}, [%rd2];",
     "mad.wide.u32 %rd2, %r2, 12, %rd2; ld.global.v4.u32 {%r6,%r7,%r8,%r9}, [%rd1];"},
    {PTX_CHECK_READONLY, 32, "st.global.u32 [c], %r1;", "ld.const.u32 %r6, [c];"},
    {PTX_CHECK_UNINIT, 32, "ld.shared.u32 %r6, [%r5];", "st.shared.u32 [%r5], %r1; ld.shared.u32 %r6, [%r5];"},
    {PTX_CHECK_UNINIT, 32, "ld.local.u32 %r6, [l];", "st.local.u32 [l], %r1; ld.local.u32 %r6, [l];"},
    {PTX_CHECK_REGISTER, 32, "st.global.u32 [%rd2], %r9;", "mov.u32 %r9, 1; st.global.u32 [%rd2], %r9;"},
    {PTX_CHECK_REGISTER, 32, "add.u32 %r8, %r9, 1; setp.eq.u32 %p1, %r8, 0; @%p1 bra D; D:",
     "mov.u32 %r9, 1; add.u32 %r8, %r9, 1; setp.eq.u32 %p1, %r8, 0; @%p1 bra D; D:"},
    {PTX_CHECK_REGISTER, 32, "add.u64 %rd4, %rd4, 4; ld.global.u32 %r6, [%rd4];", NULL},
    {PTX_CHECK_RACE, 64, "st.shared.u32 [%r5], %r1; xor.b32 %r6, %r5, 128; ld.shared.u32 %r7, [%r6];",
     "st.shared.u32 [%r5], %r1; bar.sync 0; xor.b32 %r6, %r5, 128; ld.shared.u32 %r7, [%r6];"},
    {PTX_CHECK_RACE, 64, "st.shared.u32 [%r4], %r2;",
     "setp.eq.u32 %p1, %r2, 0; @%p1 st.shared.u32 [%r4], %r2; bar.sync 0; red.shared.add.u32 [%r4], 1;"},
    {PTX_CHECK_RACE, 32, "st.shared.u32 [%r5], %r1; xor.b32 %r6, %r5, 4; ld.shared.u32 %r7, [%r6];",
     "st.shared.u32 [%r5], %r1; bar.warp.sync -1; xor.b32 %r6, %r5, 4; ld.shared.u32 %r7, [%r6];"},
    {PTX_CHECK_RACE, 64,
     "st.shared.u32 [%r5], %r1; bar.sync 0; xor.b32 %r6, %r5, 128; ld.shared.u32 %r7, [%r6]; st.shared.u32 [%r5], %r7;",
     "st.shared.u32 [%r5], %r1; bar.sync 0; xor.b32 %r6, %r5, 128; ld.shared.u32 %r7, [%r6]; bar.sync 0; st.shared.u32 "
     "[%r5], %r7;"},
    {PTX_CHECK_ASYNC, 32, "cp.async.ca.shared.global [%r5], [%rd2], 4; ld.shared.u32 %r6, [%r5];",
     "cp.async.ca.shared.global [%r5], [%rd2], 4; cp.async.wait_all; ld.shared.u32 %r6, [%r5];"},
    {PTX_CHECK_ASYNC, 32,
     "cp.async.ca.shared.global [%r5], [%rd2], 4; cp.async.commit_group; cp.async.wait_group 1; ld.shared.u32 %r6, "
     "[%r5];",
     "cp.async.ca.shared.global [%r5], [%rd2], 4; cp.async.commit_group; cp.async.wait_group 0; ld.shared.u32 %r6, "
     "[%r5];"},
    {PTX_CHECK_DIVERGED, 32, "setp.lt.u32 %p1, %r2, 16; @%p1 bar.sync 0;",
     "setp.lt.u32 %p1, %r2, 99; @%p1 bar.sync 0;"},
    {PTX_CHECK_DIVERGED, 32,
     "setp.lt.u32 %p1, %r2, 16; st.shared.v4.u32 [s], {%r1,%r1,%r1,%r1}; @%p1 ldmatrix.sync.aligned.m8n8.x1.shared.b16 "
     "{%r6}, [%r4];",
     NULL},
    {PTX_CHECK_MEMBERS, 32, "setp.lt.u32 %p1, %r2, 16; @%p1 shfl.sync.bfly.b32 %r6, %r2, 1, 31, -1;",
     "setp.lt.u32 %p1, %r2, 16; @%p1 shfl.sync.bfly.b32 %r6, %r2, 1, 31, 0xffff;"},
    {PTX_CHECK_MEMBERS, 32, "bar.warp.sync 1;", "bar.warp.sync 0xffffffff;"},
    {PTX_CHECK_BARRIER, 64, "setp.lt.u32 %p1, %r2, 32; @%p1 bra A; bar.sync 1, 64; bra D; A: bar.sync 1, 96; D:",
     "setp.lt.u32 %p1, %r2, 32; @%p1 bra A; bar.sync 1, 64; bra D; A: bar.sync 1, 64; D:"},
    {PTX_CHECK_DEADLOCK, 64,
     "setp.lt.u32 %p1, %r2, 32; @%p1 bra A; bar.sync 1, 64; bra D; A: bar.sync 2, 64; D:", NULL},
    {PTX_CHECK_DEADLOCK, 32,
     "mbarrier.init.shared.b64 [s], 33; bar.warp.sync -1; mbarrier.arrive.shared.b64 %rd5, [s]; W: "
     "mbarrier.try_wait.shared.b64 %p1, [s], %rd5; @!%p1 bra W;",
     "setp.eq.u32 %p2, %r2, 0; @%p2 mbarrier.init.shared.b64 [s], 32; bar.warp.sync -1; mbarrier.arrive.shared.b64 "
     "%rd5, [s]; W: mbarrier.try_wait.shared.b64 %p1, [s], %rd5; @!%p1 bra W;"},
    {PTX_CHECK_MBARRIER, 32, "mbarrier.arrive.shared.b64 %rd5, [s];", NULL},
    {PTX_CHECK_MBARRIER, 32,
     "setp.eq.u32 %p2, %r2, 0; @%p2 mbarrier.init.shared.b64 [s], 1; @%p2 mbarrier.arrive.noComplete.shared.b64 %rd5, "
     "[s], 2;",
     "setp.eq.u32 %p2, %r2, 0; @%p2 mbarrier.init.shared.b64 [s], 3; @%p2 mbarrier.arrive.noComplete.shared.b64 %rd5, "
     "[s], 2;"},
    {PTX_CHECK_UNIFORM, 32, "setp.lt.u32 %p1, %r2, 16; @%p1 bra.uni D; D:", "setp.lt.u32 %p1, %r2, 16; @%p1 bra D; D:"},
    {PTX_CHECK_TRAP, 32, "trap;", NULL},
    {PTX_CHECK_LIMIT, 32, "W: bra W;", NULL},
    {PTX_CHECK_STACK, 32, "call.uni f;", NULL},
    {PTX_CHECK_RACE, 64,
     "st.global.u32 [%rd2], %r1; xor.b32 %r6, %r3, 128; cvt.u64.u32 %rd4, %r6; add.u64 %rd4, %rd1, %rd4; "
     "ld.global.u32 %r7, [%rd4];",
     "st.global.u32 [%rd2], %r1; bar.sync 0; xor.b32 %r6, %r3, 128; cvt.u64.u32 %rd4, %r6; add.u64 %rd4, %rd1, %rd4; "
     "ld.global.u32 %r7, [%rd4];"},
};

/* The same with two blocks, which share global memory. */
static const struct provoked two_blocks[] = {
    {PTX_CHECK_BLOCK_RACE, 32, "st.global.u32 [%rd2], %r1;", "red.global.add.u32 [%rd2], %r1;"},
    {PTX_CHECK_BLOCK_RACE, 32,
     "mov.u32 %r8, %ctaid.x; setp.eq.u32 %p1, %r8, 0; @%p1 st.global.u32 [%rd2+128], %r1; @!%p1 ld.global.u32 %r7, "
     "[%rd2+128];",
     "mov.u32 %r8, %ctaid.x; mul.lo.u32 %r8, %r8, 128; cvt.u64.u32 %rd4, %r8; add.u64 %rd2, %rd2, %rd4; st.global.u32 "
     "[%rd2], %r1; ld.global.u32 %r7, [%rd2];"},
    {PTX_CHECK_BLOCK_RACE, 32, LAST_BLOCK(""), LAST_BLOCK("fence.acq_rel.gpu;")},
};

/* Runs a body; the checks that failed, as bits. */
static unsigned run_body(const char *body, unsigned threads, unsigned blocks, uint64_t seed)
{
    char text[8192], error[PTX_ERROR] = "";
    struct ptx_device *d = device(seed);
    uint32_t zeros[64] = {0};
    struct {
        uint64_t a;
        uint32_t n;
    } params = {ptx_alloc(d, sizeof zeros, "a", error), 7};
    const struct ptx_report *list;
    unsigned failed = 0;
    ptx_write(d, params.a, zeros, sizeof zeros, error);
    snprintf(text, sizeof text,
             "%s.const .u32 c = 5;\n.func f() { call.uni f; ret; }\n%s.local .align 4 .b8 l[16];\nmov.b16 %%h1, "
             "3;\n%s\nret; }\n",
             head, begin, body);
    struct ptx_module *m = ptx_load(d, text, strlen(text), error);
    ck_assert_msg(m != NULL, "%s: %s", body, error);
    struct ptx_launch l = {{blocks, 1, 1}, {threads, 1, 1}, 0, &params, 12, {0}, false, 0};
    bool ran = ptx_run(d, ptx_find(m, "k"), &l, NULL, error);
    int n = ptx_reports(d, &list);
    for (int i = 0; i < n; i++)
        failed |= 1u << list[i].check;
    ck_assert_msg(ran || n, "%s: %s", body, error);
    ptx_unload(m);
    ptx_device_free(d);
    return failed;
}

static void provoke(const struct provoked *p, unsigned blocks)
{
    for (uint64_t seed = 0; seed < 5; seed++) {
        unsigned failed = run_body(p->wrong, p->threads, blocks, seed);
        ck_assert_msg(failed >> p->check & 1, "%s does not fire: %s", ptx_check_name(p->check), p->wrong);
        failed = p->right ? run_body(p->right, p->threads, blocks, seed) : 0;
        ck_assert_msg(!failed, "checks %#x fire: %s", failed, p->right);
    }
}

START_TEST(checks)
{
    provoke(&provoked[_i], 1);
}
END_TEST

START_TEST(checks_between_blocks)
{
    provoke(&two_blocks[_i], 2);
}
END_TEST

START_TEST(freed_memory)
{
    char text[2048], error[PTX_ERROR] = "";
    struct ptx_device *d = device(0);
    struct {
        uint64_t a;
        uint32_t n;
    } params = {ptx_alloc(d, 256, "buffer", error), 0};
    const struct ptx_report *list;
    snprintf(text, sizeof text, "%s%sst.global.u32 [%%rd2], %%r1; ret; }", head, begin);
    struct ptx_module *m = ptx_load(d, text, strlen(text), error);
    ck_assert_msg(m != NULL, "%s", error);
    struct ptx_launch l = {{1, 1, 1}, {32, 1, 1}, 0, &params, 12, {0}, false, 0};
    ck_assert(ptx_run(d, ptx_find(m, "k"), &l, NULL, error));
    ck_assert(ptx_free(d, params.a, error));
    ck_assert(!ptx_free(d, params.a, error));
    ck_assert(!ptx_run(d, ptx_find(m, "k"), &l, NULL, error));
    ck_assert_int_eq(ptx_reports(d, &list), 1);
    ck_assert_int_eq(list[0].check, PTX_CHECK_FREED);
    ck_assert(strstr(error, "buffer") && strstr(error, "kernel k"));
    ptx_unload(m);
    ptx_device_free(d);
}
END_TEST

/* An arena whose tensors are named: what a launch may read and write, and the gaps between them. */
START_TEST(ranges)
{
    char text[2048], error[PTX_ERROR] = "";
    struct ptx_device *d = device(0);
    struct {
        uint64_t a;
        uint32_t n;
    } params = {ptx_alloc(d, 4096, "arena", error), 0};
    const struct ptx_report *list;
    snprintf(text, sizeof text, "%s%sst.global.u32 [%%rd2], %%r1; ret; }", head, begin);
    struct ptx_module *m = ptx_load(d, text, strlen(text), error);
    ck_assert_msg(m != NULL, "%s", error);
    struct ptx_launch l = {{1, 1, 1}, {64, 1, 1}, 0, &params, 12, {0}, false, 0};
    struct ptx_range fits[2] = {{params.a, 256, true, "x"}, {params.a + 512, 64, true, "y"}};
    ck_assert(ptx_ranges(d, fits, 2) && ptx_run(d, ptx_find(m, "k"), &l, NULL, error));
    fits[0].bytes = 252;
    ck_assert(ptx_ranges(d, fits, 2) && !ptx_run(d, ptx_find(m, "k"), &l, NULL, error));
    ck_assert_int_eq(ptx_reports(d, &list), 1);
    ck_assert_int_eq(list[0].check, PTX_CHECK_BOUNDS);
    ck_assert_msg(strstr(error, "0 bytes past the end of 'x' in 'arena'"), "%s", error);
    ptx_reports_clear(d);
    fits[0] = (struct ptx_range){params.a, 256, false, "weights"};
    ck_assert(ptx_ranges(d, fits, 2) && !ptx_run(d, ptx_find(m, "k"), &l, NULL, error));
    ck_assert_int_eq(ptx_reports(d, &list), 1);
    ck_assert_int_eq(list[0].check, PTX_CHECK_READONLY);
    ck_assert_msg(strstr(error, "'weights'"), "%s", error);
    ck_assert(ptx_ranges(d, NULL, 0) && ptx_run(d, ptx_find(m, "k"), &l, NULL, error));
    ptx_unload(m);
    ptx_device_free(d);
}
END_TEST

/* Two launches and a copy in chains of a partial order: a conflict only where the clock orders nothing. */
START_TEST(chains)
{
    char text[2048], error[PTX_ERROR] = "";
    struct ptx_device *d = device(0);
    struct {
        uint64_t a;
        uint32_t n;
    } params = {ptx_alloc(d, 256, "a", error), 0};
    const struct ptx_report *list;
    uint64_t nothing[PTX_SLOTS] = {0}, after1[PTX_SLOTS] = {[3] = 1}, after12[PTX_SLOTS] = {[3] = 1, [5] = 2};
    uint32_t host[64];
    snprintf(text, sizeof text, "%s%sst.global.u32 [%%rd2], %%r1; ret; }", head, begin);
    struct ptx_module *m = ptx_load(d, text, strlen(text), error);
    ck_assert_msg(m != NULL, "%s", error);
    struct ptx_launch l = {{1, 1, 1}, {32, 1, 1}, 0, &params, 12, {0}, false, 0};
    for (int ordered = 0; ordered < 2; ordered++) {
        ptx_begin(d, 3, 1, nothing, "first");
        ck_assert(ptx_run(d, ptx_find(m, "k"), &l, NULL, error));
        ptx_begin(d, 5, 2, ordered ? after1 : nothing, "second");
        ck_assert(ptx_run(d, ptx_find(m, "k"), &l, NULL, error));
        ck_assert_int_eq(ptx_reports(d, &list), !ordered);
        ck_assert(ordered || list[0].check == PTX_CHECK_STREAM_RACE);
        ptx_reports_clear(d);
        ptx_begin(d, 7, 3, ordered ? after12 : after1, "copy");
        ck_assert(ptx_read(d, host, params.a + 128, 128, error));
        ck_assert_int_eq(ptx_reports(d, &list), 0); /* other bytes */
        ck_assert(ptx_read(d, host, params.a, 256, error));
        ck_assert_int_eq(ptx_reports(d, &list), !ordered);
        ck_assert(ordered || (list[0].check == PTX_CHECK_STREAM_RACE && strcmp(list[0].kernel, "copy") == 0));
        ptx_reports_clear(d);
        ptx_begin(d, 0, 0, NULL, NULL);
        ck_assert(ptx_fill(d, params.a, 0, 256, error)); /* all before it happened before */
    }
    ptx_unload(m);
    ptx_device_free(d);
}
END_TEST

/* Memory that is mapped: a range that grows in place; memory of the host under its own address. */
START_TEST(mapped)
{
    char error[PTX_ERROR] = "";
    struct ptx_device *d = device(0);
    enum { PART = 1 << 16 };
    uint64_t at = ptx_reserve(d, 4 * PART, PART);
    uint8_t here[256], back[256];
    struct ptx_memory *m = ptx_memory_new(d, 2 * PART);
    ck_assert(at && at % PART == 0 && m);
    for (int i = 0; i < 256; i++)
        here[i] = (uint8_t)i;
    ck_assert(!ptx_write(d, at, here, 256, error));
    ck_assert(ptx_map(d, at, m, 0, PART, error) && !ptx_map(d, at, m, 0, PART, error));
    ck_assert(!ptx_write(d, at + PART - 128, here, 256, error));
    ck_assert(ptx_map(d, at + PART, m, PART, PART, error));
    ck_assert(ptx_write(d, at + PART - 128, here, 256, error) && ptx_read(d, back, at + PART - 128, 256, error));
    ck_assert_mem_eq(here, back, 256);
    ck_assert(ptx_unmap(d, at, error) && !ptx_unmap(d, at, error) && !ptx_read(d, back, at, 1, error));
    ck_assert(ptx_read(d, back, at + PART, 128, error) && back[0] == 128);
    ck_assert(ptx_map_host(d, here, sizeof here, "here", error));
    ck_assert(ptx_copy(d, at + PART, d, (uintptr_t)here, 256, error) && ptx_read(d, back, at + PART, 256, error));
    ck_assert_mem_eq(here, back, 256);
    ck_assert(ptx_unmap(d, (uintptr_t)here, error) && ptx_unmap(d, at + PART, error));
    ptx_memory_free(m);
    ptx_device_free(d);
}
END_TEST

/* Some blocks of a grid stand for all: what is counted is the same where they are alike, and only those have
 * written. */
START_TEST(samples)
{
    enum { BLOCKS = 64 };
    char text[2048], error[PTX_ERROR] = "";
    struct ptx_device *d = device(0);
    uint32_t zeros[32 * BLOCKS] = {0}, got[32 * BLOCKS];
    struct {
        uint64_t a;
        uint32_t n;
    } params = {ptx_alloc(d, sizeof zeros, "a", error), 1};
    struct ptx_counters all, some;
    snprintf(text, sizeof text,
             "%s%smov.u32 %%r8, %%ctaid.x; mul.wide.u32 %%rd3, %%r8, 128; add.u64 %%rd2, %%rd2, %%rd3; ld.global.u32 "
             "%%r9, [%%rd2]; add.u32 %%r9, %%r9, %%r1; st.global.u32 [%%rd2], %%r9; ret; }",
             head, begin);
    struct ptx_module *m = ptx_load(d, text, strlen(text), error);
    ck_assert_msg(m != NULL, "%s", error);
    struct ptx_launch l = {.grid = {BLOCKS, 1, 1}, .block = {32, 1, 1}, .params = &params, .params_size = 12};
    ck_assert(ptx_write(d, params.a, zeros, sizeof zeros, error));
    ck_assert(ptx_run(d, ptx_find(m, "k"), &l, &all, error));
    ck_assert(ptx_write(d, params.a, zeros, sizeof zeros, error));
    for (int n = 1; n <= 2 * BLOCKS; n *= 4) {
        int written = 0;
        l.sample = (uint64_t)n;
        ck_assert(ptx_run(d, ptx_find(m, "k"), &l, &some, error));
        ck_assert(ptx_read(d, got, params.a, sizeof got, error));
        for (int b = 0; b < BLOCKS; b++)
            written += got[32 * b] != 0;
        ck_assert_int_eq(written, n < BLOCKS ? n : BLOCKS);
        ck_assert_mem_eq(&some, &all, offsetof(struct ptx_counters, path_cycles));
        ck_assert(ptx_write(d, params.a, zeros, sizeof zeros, error));
    }
    ptx_unload(m);
    ptx_device_free(d);
}
END_TEST

/* -- Errors of loading -- */

static const struct {
    const char *body;
    int line;
    const char *text;
} refused[] = {
    {"\n\ntcgen05.fence::before_thread_sync;", 3, "tcgen05"},
    {"add.u32 %r1, %r2;", 1, "operands"},
    {"add.u32 %r1, %r2, %rd3;", 1, "%rd3"},
    {"\nadd.u32 %r1, %r2, %x;", 2, "%x"},
    {"add.u32.foo %r1, %r2, 1;", 1, "foo"},
    {"ld.global.v3.u32 {%r1,%r2,%r3}, [%rd1];", 1, "registers"},
    {"bra NOWHERE;", 1, "NOWHERE"},
    {"A: A: ret;", 1, "twice"},
    {"mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 {%r1,%r2,%r3,%r4}, {%r1,%r2}, {%r1}, {%r1,%r2,%r3,%r4};", 1,
     "mma"},
    {"cp.async.bulk.global.global.bulk_group [%rd1], [%rd2], %r1;", 1, "bulk"},
    {"setmaxnreg.inc.sync.aligned.u32 20;", 1, "multiple of 8"},
    {"wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {%r1}, %rd1, %rd2, 1, 1, 1, 0, 0;", 1, "wgmma"},
    {"call.uni g;", 1, "g"},
    {"mov.u32 %r1, 0x;", 1, "number"},
};

START_TEST(load_errors)
{
    char text[4096], error[PTX_ERROR] = "", line[32];
    struct ptx_device *d = device(0);
    snprintf(text, sizeof text, "%s.entry k() { .reg .b32 %%r<9>; .reg .b64 %%rd<9>; %s }", head, refused[_i].body);
    ck_assert_msg(!ptx_load(d, text, strlen(text), error), "loads: %s", refused[_i].body);
    snprintf(line, sizeof line, "line %d: ", refused[_i].line + 3);
    ck_assert_msg(strncmp(error, line, strlen(line)) == 0 && strstr(error, refused[_i].text), "%s: %s",
                  refused[_i].body, error);
    for (size_t n = 0; n < strlen(text); n += 3) /* no part of it does harm */
        ptx_unload(ptx_load(d, text, n, error));
    ptx_device_free(d);
}
END_TEST

START_TEST(launch_errors)
{
    char text[2048], error[PTX_ERROR] = "";
    struct ptx_device *d = device(0);
    struct {
        uint64_t a;
        uint32_t n;
    } params = {0};
    snprintf(text, sizeof text, "%s.entry k(.param .u64 a, .param .u32 n) .maxntid 64, 1, 1 { ret; }", head);
    struct ptx_module *m = ptx_load(d, text, strlen(text), error);
    ck_assert_msg(m != NULL, "%s", error);
    struct ptx_launch fine = {{1, 1, 1}, {64, 1, 1}, 0, &params, 12, {0}, false, 0}, l = fine;
    ck_assert(ptx_run(d, ptx_find(m, "k"), &l, NULL, error));
    l.block[0] = 65;
    ck_assert(!ptx_run(d, ptx_find(m, "k"), &l, NULL, error) && strstr(error, "threads a block"));
    l = fine, l.grid[1] = 0;
    ck_assert(!ptx_run(d, ptx_find(m, "k"), &l, NULL, error) && strstr(error, "out of range"));
    l = fine, l.shared = 300000;
    ck_assert(!ptx_run(d, ptx_find(m, "k"), &l, NULL, error) && strstr(error, "shared memory"));
    l = fine, l.params_size = 8;
    ck_assert(!ptx_run(d, ptx_find(m, "k"), &l, NULL, error) && strstr(error, "parameters"));
    ptx_unload(m);
    ptx_device_free(d);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ptxsim");
    TCase *t = tcase_create("ptxsim");
    tcase_add_loop_test(t, checks, 0, (int)(sizeof provoked / sizeof *provoked));
    tcase_add_loop_test(t, checks_between_blocks, 0, (int)(sizeof two_blocks / sizeof *two_blocks));
    tcase_add_test(t, freed_memory);
    tcase_add_test(t, ranges);
    tcase_add_test(t, chains);
    tcase_add_test(t, mapped);
    tcase_add_test(t, samples);
    tcase_add_loop_test(t, load_errors, 0, (int)(sizeof refused / sizeof *refused));
    tcase_add_test(t, launch_errors);
    suite_add_tcase(s, t);
    return run_tests(s);
}
