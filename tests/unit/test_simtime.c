/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modelled time: tiny kernels whose cycles are computed here by hand with the formulas of doc/ptxsim.md. 2,000 cycles
 * are the launch's, 600 the first access to memory; n instructions of one warp alone take 4 n, of many warps n / 4.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/ptx/ptxsim.h"
#include "sim/time.h"
#include "tests/unit/suite.h"

#define TEN(x) x x x x x x x x x x
#define HUNDRED(x) TEN(TEN(x))

static const struct {
    const char *body, *machine;
    unsigned grid, block;
    uint64_t cycles;
    const char *bound;
} kernels[] = {
    /* One instruction of one warp: 4. */
    {"", "h100", 1, 32, 2004, "issue"},
    /* 102 instructions, one warp: 408; 101 of them integer at 2 cycles: 202 / 4 schedulers = 50.5. */
    {"mov.u32 %r1, 0;" HUNDRED("add.u32 %r1, %r1, 1;"), "h100", 1, 32, 2408, "issue"},
    /* 32 warps: issue 3,264 / 4 = 816, integers 101 x 32 x 32 / 64 = 1,616. */
    {"mov.u32 %r1, 0;" HUNDRED("add.u32 %r1, %r1, 1;"), "h100", 1, 1024, 3616, "int pipe"},
    /* The same on 133 blocks for 132 SMs: one of them does two. */
    {"mov.u32 %r1, 0;" HUNDRED("add.u32 %r1, %r1, 1;"), "h100", 133, 1024, 5232, "int pipe"},
    /* Floats: issue 816 on both; 100 x 32 x 32 / 128 = 800, on 64 lanes 1,600. */
    {"mov.f32 %f1, 0f3f800000;" HUNDRED("fma.rn.f32 %f1, %f1, %f1, %f1;"), "h100", 1, 1024, 2816, "issue"},
    {"mov.f32 %f1, 0f3f800000;" HUNDRED("fma.rn.f32 %f1, %f1, %f1, %f1;"), "a100", 1, 1024, 3600, "float pipe"},
    /* Doubles, 8 warps: issue 102 x 8 / 2 = 408; 100 x 8 x 32 / 32 = 800 on a machine with 32 lanes. */
    {"mov.f64 %g1, 0d3ff0000000000000;" HUNDRED("fma.rn.f64 %g1, %g1, %g1, %g1;"), "h100", 1, 256, 2408, "issue"},
    {"mov.f64 %g1, 0d3ff0000000000000;" HUNDRED("fma.rn.f64 %g1, %g1, %g1, %g1;"), "a100", 1, 256, 2800, "double pipe"},
    /* Special functions, 4 warps: 100 x 4 x 32 / 16 = 800. */
    {"mov.f32 %f1, 0f3f800000;" HUNDRED("ex2.approx.ftz.f32 %f1, %f1;"), "h100", 1, 128, 2800, "special pipe"},
    /* One load by one warp: 600 / 4 in flight = 150. */
    {"ld.param.u64 %d1, [a]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2; ld.global.u32 %r2, "
     "[%d1];",
     "h100", 1, 32, 2750, "latency"},
    /* 1,056 blocks of 1,024 threads read 16 bytes each: 17,301,504 x 1.83e9 / 3.35e12 = 9,451.3; L2 3,072; latency 256
     * x 600 / 256. */
    {"ld.param.u64 %d1, [a]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, 1024, %r1; mul.wide.u32 "
     "%d2, %r1, 16; "
     "add.u64 %d1, %d1, %d2; ld.global.v4.u32 {%r3,%r4,%r5,%r6}, [%d1];",
     "h100", 1056, 1024, 12052, "memory"},
    /* 32 warps store a row (32 wavefronts) and read a column of 32 words in one bank (1,024). */
    {"mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, s; add.u32 %r2, %r2, %r3; st.shared.u32 [%r2], %r1; "
     "bar.sync 0; and.b32 %r4, "
     "%r1, 31; shl.b32 %r4, %r4, 7; add.u32 %r4, %r4, %r3; ld.shared.u32 %r5, [%r4];",
     "h100", 1, 1024, 3056, "shared memory"},
    /* 4 warps, 10 products of 4,096 FLOPs each: 163,840 / 2,540 = 64.5; on the other machine / 2,048 = 80. */
    {TEN("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r1,%r2}, "
         "{%f1,%f2,%f3,%f4};"),
     "h100", 1, 128, 2065, "tensor cores"},
    {TEN("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r1,%r2}, "
         "{%f1,%f2,%f3,%f4};"),
     "a100", 1, 128, 2080, "tensor cores"},
};

START_TEST(cycles)
{
    char *text = malloc(65536), error[PTX_ERROR] = "";
    struct ptx_config config = {.threads = 1, .checks = false};
    struct ptx_device *d = ptx_device_new(&config, error);
    size_t bytes = (size_t)1056 * 1024 * 16;
    uint64_t a = ptx_alloc(d, bytes, "a", error);
    struct ptx_counters c;
    struct ptx_time t;
    snprintf(text, 65536,
             ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 a) { .reg .b32 %%r<9>; .reg "
             ".f32 %%f<9>; .reg "
             ".f64 %%g<3>; .reg .b64 %%d<4>; .shared .align 16 .b8 s[4096]; %s ret; }",
             kernels[_i].body);
    struct ptx_module *m = ptx_load(d, text, strlen(text), error);
    ck_assert_msg(m != NULL, "%s", error);
    struct ptx_launch l = {
        .grid = {kernels[_i].grid, 1, 1}, .block = {kernels[_i].block, 1, 1}, .params = &a, .params_size = 8};
    ck_assert_msg(ptx_run(d, ptx_find(m, "k"), &l, &c, error), "%s", error);
    ck_assert(ptx_modelled(ptx_find(m, "k"), &l, &c, kernels[_i].machine, &t));
    ck_assert_uint_eq(t.cycles, kernels[_i].cycles);
    ck_assert_str_eq(t.bound, kernels[_i].bound);
    ck_assert(!ptx_modelled(ptx_find(m, "k"), &l, &c, "abacus", &t));
    ptx_unload(m);
    ptx_device_free(d);
    free(text);
}
END_TEST

/* Blocks an SM, by what limits them (CUDA occupancy calculator). */
START_TEST(occupancy)
{
    const struct sim_machine *h = sim_machine("h100"), *a = sim_machine("a100");
    ck_assert(h && a && !sim_machine("abacus"));
    const struct sim_machine *half = sim_machine("h100,sms=66,hbm=1e12");
    ck_assert(half && half == sim_machine("h100,sms=66,hbm=1e12") && half->sms == 66 && half->memory_rate == 1e12);
    ck_assert(half->mhz == h->mhz && h->sms == 132);
    ck_assert(!sim_machine("h100,sms=0") && !sim_machine("h100,colour=3") && !sim_machine("h100,sms=6x") &&
              !sim_machine("h100,") && !sim_machine("h1,sms=3"));
    ck_assert_int_eq(sim_occupancy(h, 1024, 32, 0), 2);     /* threads */
    ck_assert_int_eq(sim_occupancy(h, 32, 32, 0), 32);      /* blocks */
    ck_assert_int_eq(sim_occupancy(h, 256, 64, 0), 4);      /* registers: 65,536 / (64 x 256) */
    ck_assert_int_eq(sim_occupancy(h, 128, 168, 0), 3);     /* 12 warps of 168 x 32 registers */
    ck_assert_int_eq(sim_occupancy(h, 128, 32, 100000), 2); /* shared: 233,472 / 101,120 */
    ck_assert_int_eq(sim_occupancy(a, 128, 32, 100000), 1);
    ck_assert_int_eq(sim_occupancy(h, 128, 32, 232448), 1);
    ck_assert_int_eq(sim_occupancy(h, 128, 32, 232449), 0);
    ck_assert_int_eq(sim_occupancy(h, 1025, 32, 0), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("simtime");
    TCase *t = tcase_create("simtime");
    tcase_add_loop_test(t, cycles, 0, (int)(sizeof kernels / sizeof *kernels));
    tcase_add_test(t, occupancy);
    suite_add_tcase(s, t);
    return run_tests(s);
}
