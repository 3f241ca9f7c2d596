/* SPDX-License-Identifier: Apache-2.0 */
/* What the simulator's driver functions do beyond the driver's manual: races between streams, names and ranges,
 * counters, two devices. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "sim/ptx/driver.h"
#include "tests/unit/suite.h"

static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                          ".visible .entry put(.param .u64 p, .param .u32 v) {\n"
                          ".reg .b32 %r<4>; .reg .b64 %d<4>;\n"
                          "ld.param.u64 %d1, [p]; ld.param.u32 %r1, [v]; mov.u32 %r2, %tid.x;\n"
                          "mul.wide.u32 %d2, %r2, 4; add.u64 %d1, %d1, %d2; st.global.u32 [%d1], %r1; ret; }\n";
/* Each block says that it is there and waits for all others; then block k reads what block k + 1 wrote before. */
static const char together[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry meet(.param .u64 p) {\n"
    ".reg .b32 %r<9>; .reg .b64 %d<5>; .reg .pred %q;\n"
    "ld.param.u64 %d1, [p]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x;\n"
    "mul.wide.u32 %d2, %r1, 4; add.u64 %d2, %d1, %d2; add.u32 %r3, %r1, 5; st.global.u32 [%d2+256], %r3;\n"
    "fence.acq_rel.gpu; atom.global.add.u32 %r4, [%d1], 1;\n"
    "again: ld.acquire.gpu.global.u32 %r5, [%d1]; setp.lt.u32 %q, %r5, %r2; @%q bra again;\n"
    "add.u32 %r6, %r1, 1; rem.u32 %r6, %r6, %r2; mul.wide.u32 %d3, %r6, 4; add.u64 %d3, %d1, %d3;\n"
    "ld.global.u32 %r7, [%d3+256]; st.global.u32 [%d2+1024], %r7; ret; }\n";
static CUcontext ctx[2];
static CUfunction put;

#define OK(call) ck_assert_int_eq(call, CUDA_SUCCESS)

static void start(const char *seed)
{
    CUmodule m;
    setenv("TCCC_SIM_DEVICES", "2", 1);
    setenv("TCCC_ORDER_SEED", seed, 1);
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&ctx[0], 0));
    OK(cuDevicePrimaryCtxRetain(&ctx[1], 1));
    OK(cuCtxSetCurrent(ctx[0]));
    OK(cuModuleLoadData(&m, ptx));
    OK(cuModuleGetFunction(&put, m, "put"));
}

static CUresult launch(CUdeviceptr p, unsigned v, CUstream s)
{
    void *params[] = {&p, &v};
    return cuLaunchKernel(put, 1, 1, 1, 32, 1, 1, 0, s, params, NULL);
}

static int reports(enum ptx_check check)
{
    const struct ptx_report *list;
    int n = ptx_driver_reports(0, &list), found = 0;
    for (int k = 0; k < n; k++)
        found += list[k].check == check;
    return found;
}

/* Two streams write the same bytes: with an event between them it is no race; with the host between them neither. */
START_TEST(stream_races)
{
    static const char *const seeds[] = {"0", "1", "2", "3"};
    CUstream a, b;
    CUevent e;
    CUdeviceptr p;
    unsigned back[32];
    start(seeds[_i % 4]);
    OK(cuMemAlloc_v2(&p, 256));
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    OK(launch(p, 1, a));
    switch (_i / 4) {
    case 0: break;
    case 1:
        OK(cuEventRecord(e, a));
        OK(cuStreamWaitEvent(b, e, 0));
        break;
    case 2: OK(cuStreamSynchronize(a)); break;
    case 3:
        OK(cuEventRecord(e, a));
        while (cuEventQuery(e) == CUDA_ERROR_NOT_READY) {
        }
        break;
    default: p += 128; /* other bytes */
    }
    OK(launch(p, 2, b));
    CUresult r = cuCtxSynchronize();
    ck_assert_int_eq(reports(PTX_CHECK_STREAM_RACE), _i < 4);
    ck_assert_int_eq(r, _i < 4 ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS);
    if (_i >= 4) {
        OK(cuMemcpyDtoH_v2(back, p, 128));
        ck_assert_int_eq(back[0], 2);
    }
}
END_TEST

/* A copy that reads what a launch of another stream writes. */
START_TEST(copy_races)
{
    CUstream a;
    CUdeviceptr p, q;
    start("0");
    OK(cuMemAlloc_v2(&p, 128));
    OK(cuMemAlloc_v2(&q, 128));
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(launch(p, 1, NULL));
    ck_assert(ptx_driver_next("step 7", NULL, 0));
    OK(cuMemcpyDtoDAsync_v2(q, p, 128, a));
    ck_assert_int_eq(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
    ck_assert_int_eq(reports(PTX_CHECK_STREAM_RACE), 1);
}
END_TEST

/* Branches of a graph that write the same bytes; a chain does not. */
START_TEST(graph_races)
{
    CUgraph g;
    CUgraphNode a, b;
    CUgraphExec x;
    CUdeviceptr p;
    unsigned v = 3;
    start("1");
    OK(cuMemAlloc_v2(&p, 128));
    void *params[] = {&p, &v};
    CUDA_KERNEL_NODE_PARAMS k = {.func = put, .grid = {1, 1, 1}, .block = {32, 1, 1}, .params = params};
    OK(cuGraphCreate(&g, 0));
    OK(cuGraphAddKernelNode_v2(&a, g, NULL, 0, &k));
    OK(cuGraphAddKernelNode_v2(&b, g, &a, (size_t)_i, &k));
    OK(cuGraphInstantiateWithFlags(&x, g, 0));
    OK(cuGraphLaunch(x, NULL));
    OK(cuGraphLaunch(x, NULL));
    ck_assert_int_eq(cuCtxSynchronize(), _i ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED);
    ck_assert_int_eq(reports(PTX_CHECK_STREAM_RACE), !_i);
    OK(cuGraphExecDestroy(x));
    OK(cuGraphDestroy(g));
}
END_TEST

/* Events return modelled time: the same under every order; two copies of different directions overlap, two of one do
 * not. */
START_TEST(modelled_time)
{
    static const char *const seeds[] = {"0", "1", "2", "3"};
    enum { BYTES = 1 << 20 };
    CUstream a, b;
    CUevent start_event, end, fork;
    CUdeviceptr p, q;
    void *in, *out;
    float alone, both, apart;
    start(seeds[_i]);
    OK(cuMemAlloc_v2(&p, BYTES));
    OK(cuMemAlloc_v2(&q, BYTES));
    OK(cuMemHostAlloc(&in, BYTES, 0));
    OK(cuMemHostAlloc(&out, BYTES, 0));
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&start_event, 0));
    OK(cuEventCreate(&end, 0));
    OK(cuEventCreate(&fork, 0));
    for (int k = 0; k < 3; k++) {
        OK(cuEventRecord(start_event, a));
        OK(cuMemcpyHtoDAsync_v2(p, in, BYTES, a));
        if (k)
            OK(k == 1 ? cuMemcpyDtoHAsync_v2(out, q, BYTES, b) : cuMemcpyHtoDAsync_v2(q, out, BYTES, b));
        OK(cuEventRecord(fork, b));
        OK(cuStreamWaitEvent(a, fork, 0));
        OK(cuEventRecord(end, a));
        OK(cuEventSynchronize(end));
        OK(cuEventElapsedTime(k == 0 ? &alone : k == 1 ? &both : &apart, start_event, end));
    }
    /* 2,000 cycles of 1.83 GHz and 1 MiB at 50 GB/s: 22.06 us; calls cost 2 us each. */
    ck_assert_float_eq_tol(alone, 0.02206F, 0.0061F);
    ck_assert_float_eq_tol(both, alone, 0.0061F);
    ck_assert_float_eq_tol(apart, 2 * alone, 0.0061F);
}
END_TEST

/* What a launch may touch; who it is. */
START_TEST(names_and_ranges)
{
    CUdeviceptr p;
    struct ptx_counters c;
    start("0");
    OK(cuMemAlloc_v2(&p, 4096));
    struct ptx_range fits = {p, 128, true, "x"}, short_one = {p, 124, true, "x"};
    ck_assert(ptx_driver_next("conv1", &fits, 1));
    OK(launch(p, 1, NULL));
    OK(launch(p + 1024, 1, NULL)); /* ranges hold for one launch */
    OK(cuCtxSynchronize());
    ptx_driver_counters(0, &c);
    ck_assert_uint_eq(c.global_requests, 2);
    ck_assert(ptx_driver_next("conv2", &short_one, 1));
    OK(launch(p, 1, NULL));
    ck_assert_int_eq(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_assert_int_eq(reports(PTX_CHECK_BOUNDS), 1);
    ptx_driver_reports_clear(0);
    ck_assert_int_eq(reports(PTX_CHECK_BOUNDS), 0);
}
END_TEST

START_TEST(two_devices)
{
    CUdeviceptr p, q;
    unsigned back[32];
    int n;
    start("0");
    OK(cuDeviceGetCount(&n));
    ck_assert_int_eq(n, 2);
    OK(cuMemAlloc_v2(&p, 128));
    OK(launch(p, 9, NULL));
    OK(cuCtxPushCurrent_v2(ctx[1]));
    OK(cuMemAlloc_v2(&q, 128));
    ck_assert_int_eq(launch(q, 1, NULL), CUDA_ERROR_INVALID_HANDLE); /* a function of the other context */
    OK(cuCtxPopCurrent_v2(NULL));
    ck_assert_int_eq(cuMemcpyPeer(q, ctx[0], p, ctx[0], 128), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemcpyPeerAsync(q, ctx[1], p, ctx[0], 128, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH_v2(back, q, 128));
    ck_assert_int_eq(back[31], 9);
}
END_TEST

static CUdeviceptr alloc_on(int device, size_t bytes)
{
    CUdeviceptr p;
    OK(cuCtxPushCurrent_v2(ctx[device]));
    OK(cuMemAlloc_v2(&p, bytes));
    OK(cuCtxPopCurrent_v2(NULL));
    return p;
}

/* Kernels of device 0 in memory of device 1: with access they do, and without they don't; races are found there,
 * too. */
START_TEST(peers)
{
    unsigned back[32];
    int can = 0, way = 0;
    start(_i & 1 ? "1" : "0");
    OK(cuDeviceCanAccessPeer(&can, 0, 1));
    ck_assert_int_eq(can, 1);
    OK(cuDeviceCanAccessPeer(&can, 1, 1));
    ck_assert_int_eq(can, 0);
    OK(cuDeviceGetP2PAttribute(&way, 2, 0, 1));
    ck_assert_int_eq(way, 1);
    ck_assert_int_eq(cuDeviceGetP2PAttribute(&way, 2, 1, 1), CUDA_ERROR_INVALID_DEVICE);
    ck_assert_int_eq(cuCtxEnablePeerAccess(ctx[0], 0), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuCtxDisablePeerAccess(ctx[1]), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    OK(cuCtxEnablePeerAccess(ctx[1], 0));
    ck_assert_int_eq(cuCtxEnablePeerAccess(ctx[1], 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    CUdeviceptr q = alloc_on(1, 128);
    OK(launch(q, 7, NULL));
    if (_i < 2) {
        struct ptx_counters c;
        OK(cuCtxSynchronize());
        OK(cuMemcpyDtoH_v2(back, q, 128));
        ck_assert_int_eq(back[31], 7);
        ptx_driver_counters(0, &c);
        ck_assert_uint_eq(c.peer_bytes, 128);
        ck_assert_uint_eq(c.memory_bytes, 0);
        OK(cuCtxDisablePeerAccess(ctx[1]));
        OK(launch(q, 8, NULL));
        ck_assert_int_eq(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
        return;
    }
    OK(cuCtxSetCurrent(ctx[1])); /* nothing orders device 1's fill and device 0's launch */
    OK(cuMemsetD32Async(q, 3, 32, NULL));
    cuCtxSynchronize();
    OK(cuCtxSetCurrent(ctx[0]));
    cuCtxSynchronize();
    const struct ptx_report *list;
    int found = reports(PTX_CHECK_STREAM_RACE);
    for (int k = ptx_driver_reports(1, &list); k > 0; k--)
        found += list[k - 1].check == PTX_CHECK_STREAM_RACE;
    ck_assert_int_gt(found, 0);
}
END_TEST

/* Memory of device 1 in a range of addresses of device 0's, which both see. */
START_TEST(peers_mapped)
{
    const size_t bytes = (size_t)2 << 20;
    CUmemAllocationProp on_1 = {.type = 1, .location = {1, 1}};
    CUmemAccessDesc both[2] = {{{1, 0}, 3}, {{1, 1}, 3}};
    CUmemGenericAllocationHandle h;
    CUdeviceptr p;
    unsigned back[32];
    start("0");
    OK(cuMemAddressReserve(&p, bytes, 0, 0, 0));
    OK(cuMemCreate(&h, bytes, &on_1, 0));
    OK(cuMemMap(p, bytes, 0, h, 0));
    OK(cuMemSetAccess(p, bytes, both, 2));
    OK(launch(p, 5, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH_v2(back, p, 128));
    ck_assert_int_eq(back[31], 5);
    OK(cuMemUnmap(p, bytes));
    OK(launch(p, 5, NULL));
    ck_assert_int_eq(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}
END_TEST

/* Blocks that wait for each other: a cooperative launch holds them all at once, and no more than the machine does. */
START_TEST(cooperative)
{
    static const char *const seeds[] = {"0", "1", "2"};
    CUmodule m;
    CUfunction meet;
    CUdeviceptr p;
    unsigned back[40];
    start(seeds[_i]);
    OK(cuModuleLoadData(&m, together));
    OK(cuModuleGetFunction(&meet, m, "meet"));
    OK(cuMemAlloc_v2(&p, 2048));
    OK(cuMemsetD32_v2(p, 0, 64));
    void *params[] = {&p};
    OK(cuLaunchCooperativeKernel(meet, 40, 1, 1, 1, 1, 1, 0, NULL, params));
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH_v2(back, p + 1024, sizeof back));
    for (unsigned k = 0; k < 40; k++)
        ck_assert_uint_eq(back[k], (k + 1) % 40 + 5);
    CUlaunchAttribute all = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = {.value = 1}};
    CUlaunchConfig c = {{3, 1, 1}, {1, 1, 1}, 0, NULL, &all, 1};
    OK(cuMemsetD32_v2(p, 0, 64));
    OK(cuLaunchKernelEx(&c, meet, params, NULL));
    OK(cuCtxSynchronize());
    ck_assert_int_eq(cuLaunchCooperativeKernel(meet, 1000000, 1, 1, 1, 1, 1, 0, NULL, params),
                     CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
}
END_TEST

/* A pending launch keeps running without anybody who waits for it. */
START_TEST(progress)
{
    unsigned *pinned;
    start("2");
    OK(cuMemHostAlloc((void **)&pinned, 128, 0));
    pinned[31] = 0;
    OK(launch((uintptr_t)pinned, 5, NULL));
    while (*(volatile unsigned *)&pinned[31] != 5) {
    }
    OK(cuCtxSynchronize());
}
END_TEST

int main(void)
{
    Suite *s = suite_create("driver");
    TCase *t = tcase_create("driver");
    tcase_add_loop_test(t, stream_races, 0, 20);
    tcase_add_test(t, copy_races);
    tcase_add_loop_test(t, graph_races, 0, 2);
    tcase_add_loop_test(t, modelled_time, 0, 4);
    tcase_add_test(t, names_and_ranges);
    tcase_add_test(t, two_devices);
    tcase_add_loop_test(t, peers, 0, 4);
    tcase_add_test(t, peers_mapped);
    tcase_add_loop_test(t, cooperative, 0, 3);
    tcase_add_test(t, progress);
    suite_add_tcase(s, t);
    return run_tests(s);
}
