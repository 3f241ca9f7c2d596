/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the CUDA driver promises, as a program that runs on any driver: driver_conformance LIBRARY prints what each call
 * returned and what memory held then. tests/driver.sh runs it on the simulator with several orders and compares with
 * tests/ptx/driver.expected: what the simulator printed, read line by line against the CUDA Driver API's manual. On a
 * machine with a GPU it runs on libcuda.so.1. Nothing that differs between devices is printed. Calls go through
 * cuGetProcAddress.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/ptx/driver.h"

static struct {
#define FN(symbol, name, version, args) CUresult(*symbol) args;
#include "sim/ptx/driver.def"
} cu;

static const char ptx[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".global .align 4 .u32 counter = 7;\n"
    ".visible .entry add(.param .u64 p, .param .u32 n, .param .u32 v) {\n"
    ".reg .pred %q; .reg .b32 %r<9>; .reg .b64 %d<4>;\n"
    "ld.param.u64 %d1, [p]; ld.param.u32 %r1, [n]; ld.param.u32 %r2, [v];\n"
    "mov.u32 %r3, %tid.x; mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ntid.x; mad.lo.u32 %r3, %r4, %r5, %r3;\n"
    "setp.ge.u32 %q, %r3, %r1; @%q ret;\n"
    "mul.wide.u32 %d2, %r3, 4; add.u64 %d1, %d1, %d2; ld.global.u32 %r6, [%d1]; add.u32 %r6, %r6, %r2; st.global.u32 "
    "[%d1], %r6; ret; }\n"
    ".visible .entry shared(.param .u64 p) { .reg .b32 %r<3>; .shared .align 4 .b8 s[1024]; mov.u32 %r1, %tid.x; "
    "shl.b32 %r1, %r1, 2; mov.u32 %r2, s; "
    "add.u32 %r1, %r1, %r2; st.shared.u32 [%r1], %r2; ret; }\n"
    ".visible .entry bound(.param .u64 p) .maxntid 64, 1, 1 { ret; }\n"
    ".visible .entry fault(.param .u64 p) { .reg .b64 %d<2>; .reg .b32 %r<2>; mov.u64 %d1, 64; mov.u32 %r1, 1; "
    "st.global.u32 [%d1], %r1; ret; }\n";
static const char broken[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() {\n    nonsense.u32 %r1;\n    ret;\n}\n";

static const char *name(CUresult r)
{
    const char *text = "?";
    cu.cuGetErrorName(r, &text);
    return strncmp(text, "CUDA_ERROR_", 11) == 0 ? text + 11 : strcmp(text, "CUDA_SUCCESS") == 0 ? "ok" : text;
}
#define CALL(fn, ...) printf("%s: %s\n", #fn, name(cu.fn(__VA_ARGS__)))
#define SAYS(what, fn, ...) printf("%s: %s: %s\n", what, #fn, name(cu.fn(__VA_ARGS__)))
#define MUST(fn, ...)                                             \
    do {                                                          \
        CUresult r_ = cu.fn(__VA_ARGS__);                         \
        if (r_) {                                                 \
            printf("line %d: %s: %s\n", __LINE__, #fn, name(r_)); \
            exit(1);                                              \
        }                                                         \
    } while (0)

static CUcontext ctx;
static CUmodule module;
static CUfunction add;

static CUresult launch_add(CUdeviceptr p, unsigned n, unsigned v, CUstream s)
{
    void *params[] = {&p, &n, &v};
    return cu.cuLaunchKernel(add, (n + 63) / 64, 1, 1, 64, 1, 1, 0, s, params, NULL);
}

static CUdeviceptr zeros(unsigned n)
{
    CUdeviceptr p = 0;
    MUST(cuMemAlloc_v2, &p, 4 * (size_t)n);
    MUST(cuMemsetD32_v2, p, 0, n);
    MUST(cuCtxSynchronize);
    return p;
}

static unsigned first(CUdeviceptr p)
{
    unsigned v = 0;
    MUST(cuMemcpyDtoH_v2, &v, p, 4);
    return v;
}

/* -- Parts -- */

static void before_init(void)
{
    int n;
    CALL(cuDeviceGetCount, &n);
    CALL(cuInit, 1);
    CALL(cuInit, 0);
    CALL(cuDeviceGetCount, NULL);
    MUST(cuDeviceGetCount, &n);
    printf("devices: %s\n", n > 0 ? "some" : "none");
}

static void devices(void)
{
    CUdevice d;
    int v;
    size_t bytes;
    void *fn;
    const char *text;
    SAYS("ordinal -1", cuDeviceGet, &d, -1);
    SAYS("ordinal 0", cuDeviceGet, &d, 0);
    SAYS("no such attribute", cuDeviceGetAttribute, &v, 100000, 0);
    SAYS("warp size", cuDeviceGetAttribute, &v, 10, 0);
    printf("%d\n", v);
    MUST(cuDeviceTotalMem_v2, &bytes, 0);
    printf("memory: %s\n", bytes > (1u << 30) ? "some" : "none");
    SAYS("no such error", cuGetErrorString, (CUresult)12345, &text);
    SAYS("unknown function", cuGetProcAddress_v2, "cuNoSuchThing", &fn, 13000, 0, &v);
    printf("%d\n", v);
    SAYS("too old a version", cuGetProcAddress_v2, "cuGraphInstantiateWithFlags", &fn, 11000, 0, &v);
    printf("%d\n", v);
    SAYS("a version that fits", cuGetProcAddress_v2, "cuGraphInstantiateWithFlags", &fn, 12000, 0, &v);
    printf("%d %s\n", v, fn ? "found" : "missing");
}

static void contexts(void)
{
    CUdeviceptr p;
    CUcontext again, other, top;
    unsigned flags;
    int active;
    SAYS("no context", cuMemAlloc_v2, &p, 4);
    SAYS("no context", cuStreamCreate, &(CUstream){0}, 0);
    SAYS("no context", cuCtxSynchronize);
    MUST(cuCtxGetCurrent, &top);
    printf("current: %s\n", top ? "one" : "none");
    SAYS("nothing to pop", cuCtxPopCurrent_v2, &top);
    MUST(cuDevicePrimaryCtxGetState, 0, &flags, &active);
    printf("primary active: %d\n", active);
    CALL(cuDevicePrimaryCtxRetain, &ctx, 0);
    MUST(cuDevicePrimaryCtxRetain, &again, 0);
    printf("same handle: %d\n", ctx == again);
    CALL(cuDevicePrimaryCtxRelease_v2, 0);
    MUST(cuDevicePrimaryCtxGetState, 0, &flags, &active);
    printf("primary active: %d\n", active);
    CALL(cuCtxSetCurrent, ctx);
    CALL(cuCtxCreate_v2, &other, 0, 0);
    MUST(cuCtxGetCurrent, &top);
    printf("the new one is current: %d\n", top == other);
    SAYS("primary", cuCtxDestroy_v2, ctx);
    SAYS("own", cuCtxDestroy_v2, other);
    MUST(cuCtxGetCurrent, &top);
    printf("the primary is current: %d\n", top == ctx);
}

static void modules(void)
{
    CUmodule m;
    CUfunction f;
    CUdeviceptr p;
    size_t bytes = 0;
    char log[512] = "";
    int options[] = {5, 6}, v; /* CU_JIT_ERROR_LOG_BUFFER and its size */
    void *values[] = {log, (void *)sizeof log};
    CUdeviceptr zero = 0;
    void *params[] = {&zero};
    SAYS("broken", cuModuleLoadDataEx, &m, broken, 2, options, values);
    printf("the log names line 5: %d\n", strstr(log, "line 5") != NULL);
    CALL(cuModuleLoadData, &module, ptx);
    SAYS("unknown", cuModuleGetFunction, &f, module, "none");
    CALL(cuModuleGetFunction, &add, module, "add");
    SAYS("unknown", cuModuleGetGlobal_v2, &p, &bytes, module, "none");
    CALL(cuModuleGetGlobal_v2, &p, &bytes, module, "counter");
    printf("%zu bytes, value %u\n", bytes, first(p));
    MUST(cuModuleGetFunction, &f, module, "shared");
    MUST(cuFuncGetAttribute, &v, 1, f);
    printf("static shared: %d\n", v);
    SAYS("1 GiB", cuFuncSetAttribute, f, 8, 1 << 30);
    SAYS("64 KiB", cuFuncSetAttribute, f, 8, 65536);
    SAYS("64 KiB of shared", cuLaunchKernel, f, 1, 1, 1, 32, 1, 1, 65536, NULL, params, NULL);
    SAYS("more than asked for", cuLaunchKernel, f, 1, 1, 1, 32, 1, 1, 65537, NULL, params, NULL);
    SAYS("an empty grid", cuLaunchKernel, f, 0, 1, 1, 32, 1, 1, 0, NULL, params, NULL);
    SAYS("2,048 threads", cuLaunchKernel, f, 1, 1, 1, 2048, 1, 1, 0, NULL, params, NULL);
    MUST(cuModuleGetFunction, &f, module, "bound");
    MUST(cuFuncGetAttribute, &v, 0, f);
    printf("threads of bound: %d\n", v);
    SAYS("parameters missing", cuLaunchKernel, f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
    size_t size = 8;
    void *extra[] = {(void *)1, &zero, (void *)2, &size, NULL};
    SAYS("one block of parameters", cuLaunchKernel, f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, extra);
    SAYS("both", cuLaunchKernel, f, 1, 1, 1, 32, 1, 1, 0, NULL, params, extra);
    CALL(cuCtxSynchronize);
    MUST(cuOccupancyMaxActiveBlocksPerMultiprocessor, &v, add, 1024, 0);
    printf("blocks of 1,024 threads: %d\n", v);
}

static void memory(void)
{
    CUdeviceptr p, q;
    unsigned host[64], back[64], type;
    size_t bytes;
    void *pinned, *own = aligned_alloc(4096, 8192);
    SAYS("0 bytes", cuMemAlloc_v2, &p, 0);
    SAYS("1 EiB", cuMemAlloc_v2, &p, (size_t)1 << 60);
    MUST(cuMemAlloc_v2, &p, 256);
    MUST(cuMemAlloc_v2, &q, 256);
    printf("aligned: %d\n", p % 256 == 0);
    for (unsigned i = 0; i < 64; i++)
        host[i] = i;
    CALL(cuMemcpyHtoD_v2, p, host, 256);
    CALL(cuMemcpyDtoD_v2, q, p, 256);
    CALL(cuMemcpyDtoH_v2, back, q, 256);
    printf("equal: %d\n", memcmp(host, back, 256) == 0);
    SAYS("host as device", cuMemcpyHtoD_v2, (CUdeviceptr)(uintptr_t)own, host, 16);
    SAYS("past the end", cuMemcpyDtoH_v2, back, 0, 16);
    CALL(cuMemsetD16_v2, q, 0x1234, 4);
    CALL(cuMemsetD8_v2, q + 8, 0xab, 3);
    SAYS("misaligned", cuMemsetD32_v2, q + 1, 0, 1);
    MUST(cuMemcpyDtoH_v2, back, q, 16);
    printf("%x %x %x %x\n", back[0], back[1], back[2], back[3]);
    CUDA_MEMCPY2D c = {.src_type = 2,
                       .src_device = p,
                       .src_pitch = 32,
                       .dst_type = 1,
                       .dst_host = back,
                       .dst_pitch = 16,
                       .width = 16,
                       .height = 4};
    CALL(cuMemcpy2D_v2, &c);
    printf("%u %u %u %u\n", back[0], back[4], back[8], back[15]);
    CALL(cuMemGetAddressRange_v2, &q, &bytes, p + 100);
    printf("base: %d, %zu bytes\n", q == p, bytes);
    CALL(cuPointerGetAttribute, &type, 2, p + 8);
    printf("type %u\n", type);
    SAYS("pageable", cuPointerGetAttribute, &type, 2, (CUdeviceptr)(uintptr_t)own);
    CALL(cuMemHostAlloc, &pinned, 4096, 0);
    CALL(cuPointerGetAttribute, &type, 2, (CUdeviceptr)(uintptr_t)pinned);
    printf("type %u\n", type);
    CALL(cuMemHostGetDevicePointer_v2, &q, pinned, 0);
    printf("one address: %d\n", q == (uintptr_t)pinned);
    memset(pinned, 0, 4096);
    printf("launch on pinned memory: %s\n", name(launch_add(q, 64, 5, NULL)));
    CALL(cuCtxSynchronize);
    printf("%u\n", *(unsigned *)pinned);
    CALL(cuMemFreeHost, pinned);
    CALL(cuMemHostRegister_v2, own, 8192, 0);
    SAYS("twice", cuMemHostRegister_v2, own, 8192, 0);
    CALL(cuMemHostUnregister, own);
    SAYS("twice", cuMemHostUnregister, own);
    SAYS("inside", cuMemFree_v2, p + 8);
    CALL(cuMemFree_v2, p);
    SAYS("NULL", cuMemFree_v2, 0);
    free(own);
}

static atomic_int gate, reached;
static CUresult from_callback;

static void wait_for_gate(void *unused)
{
    (void)unused;
    atomic_store(&reached, 1);
    while (!atomic_load(&gate))
        usleep(100);
}

static void call_from_callback(void *unused)
{
    CUdeviceptr p;
    (void)unused;
    from_callback = cu.cuMemAlloc_v2(&p, 4);
}

static void streams(void)
{
    CUstream a, b, free_running;
    CUevent e, timed, quiet;
    unsigned flags;
    int priority, least, greatest;
    float ms = -1;
    CUdeviceptr p = zeros(64);
    SAYS("unknown flags", cuStreamCreate, &a, 64);
    CALL(cuStreamCreate, &a, 0);
    CALL(cuStreamCreate, &b, 0);
    CALL(cuStreamCreateWithPriority, &free_running, 1, -100000);
    MUST(cuCtxGetStreamPriorityRange, &least, &greatest);
    MUST(cuStreamGetPriority, free_running, &priority);
    MUST(cuStreamGetFlags, free_running, &flags);
    printf("clamped: %d, non-blocking: %u\n", priority == greatest, flags);
    CALL(cuEventCreate, &e, 0);
    CALL(cuEventCreate, &timed, 0);
    CALL(cuEventCreate, &quiet, 2);
    SAYS("never recorded", cuEventQuery, e);
    SAYS("never recorded", cuEventSynchronize, e);
    SAYS("never recorded", cuEventElapsedTime, &ms, e, timed);
    SAYS("never recorded", cuStreamWaitEvent, a, e, 0);
    SAYS("idle", cuStreamQuery, a);

    MUST(cuEventRecord, timed, a);
    CALL(cuLaunchHostFunc, a, wait_for_gate, NULL);
    MUST(cuEventRecord, e, a);
    MUST(cuEventRecord, quiet, a);
    SAYS("behind a closed gate", cuStreamQuery, a);
    SAYS("behind a closed gate", cuEventQuery, e);
    SAYS("behind a closed gate", cuEventElapsedTime, &ms, timed, e);
    MUST(cuStreamWaitEvent, b, e, 0);
    printf("launch: %s\n", name(launch_add(p, 64, 1, b)));
    SAYS("waits for an event behind the gate", cuStreamQuery, b);
    printf("launch: %s\n", name(launch_add(p, 64, 1, NULL)));
    SAYS("legacy stream behind blocking ones", cuStreamQuery, NULL);
    SAYS("non-blocking", cuStreamSynchronize, free_running);
    atomic_store(&gate, 1);
    SAYS("gate open", cuStreamSynchronize, NULL);
    SAYS("legacy stream done", cuStreamQuery, b);
    SAYS("legacy stream done", cuEventQuery, e);
    printf("%u\n", first(p));
    SAYS("done", cuEventElapsedTime, &ms, timed, e);
    printf("not negative: %d\n", ms >= 0);
    SAYS("without timing", cuEventElapsedTime, &ms, timed, quiet);

    MUST(cuLaunchHostFunc, a, call_from_callback, NULL);
    MUST(cuStreamSynchronize, a);
    printf("a call of the driver in a host function: %s\n", name(from_callback));
    for (unsigned i = 0; i < 20; i++) /* a stream keeps its order, whatever others do */
        if (launch_add(p, 64, i, a) || cu.cuMemcpyDtoDAsync_v2(p, p, 256, a))
            printf("launch %u failed\n", i);
    MUST(cuStreamSynchronize, a);
    printf("%u\n", first(p));
    SAYS("no stream", cuStreamDestroy_v2, NULL);
    CALL(cuStreamDestroy_v2, a);
    CALL(cuStreamDestroy_v2, b);
    CALL(cuStreamDestroy_v2, free_running);
    CALL(cuEventDestroy_v2, e);
    MUST(cuEventDestroy_v2, timed);
    MUST(cuEventDestroy_v2, quiet);
    MUST(cuMemFree_v2, p);
}

static void staged_copies(void)
{
    CUstream s;
    unsigned host[64] = {1, 2, 3}, back[64] = {0}, *pinned;
    CUdeviceptr p = zeros(64);
    MUST(cuStreamCreate, &s, 1);
    CALL(cuMemcpyHtoDAsync_v2, p, host, 256, s);
    memset(host, 0xff, sizeof host); /* pageable memory may be reused at once */
    CALL(cuMemcpyDtoHAsync_v2, back, p, 256, s);
    printf("pageable: %u %u %u\n", back[0], back[1], back[2]);
    MUST(cuMemHostAlloc, (void **)&pinned, 256, 0);
    pinned[0] = 41;
    MUST(cuMemcpyHtoDAsync_v2, p, pinned, 256, s);
    printf("launch: %s\n", name(launch_add(p, 64, 1, s)));
    MUST(cuMemcpyDtoHAsync_v2, pinned, p, 256, s);
    MUST(cuStreamSynchronize, s);
    printf("pinned: %u\n", pinned[0]);
    MUST(cuMemFreeHost, pinned);
    MUST(cuStreamDestroy_v2, s);
    MUST(cuMemFree_v2, p);
}

static int status_of(CUstream s)
{
    int status = -1;
    cu.cuStreamIsCapturing(s, &status);
    return status;
}

static void capture(void)
{
    CUstream a, b, other;
    CUevent fork, join, outside;
    CUgraph g, h;
    CUgraphExec x;
    CUdeviceptr p = zeros(64), q;
    size_t n = 0;
    int mode = 2;
    MUST(cuStreamCreate, &a, 1);
    MUST(cuStreamCreate, &b, 1);
    MUST(cuStreamCreate, &other, 0);
    MUST(cuEventCreate, &fork, 2);
    MUST(cuEventCreate, &join, 2);
    MUST(cuEventCreate, &outside, 2);
    SAYS("legacy", cuStreamBeginCapture_v2, NULL, 0);
    SAYS("not capturing", cuStreamEndCapture, a, &g);
    CALL(cuStreamBeginCapture_v2, a, 0);
    SAYS("again", cuStreamBeginCapture_v2, a, 0);
    printf("status %d %d\n", status_of(a), status_of(b));
    printf("launch: %s\n", name(launch_add(p, 64, 1, a)));
    CALL(cuEventRecord, fork, a);
    CALL(cuStreamWaitEvent, b, fork, 0);
    printf("status %d %d\n", status_of(a), status_of(b));
    printf("launch: %s\n", name(launch_add(p + 128, 16, 10, b)));
    printf("launch: %s\n", name(launch_add(p, 16, 100, a)));
    CALL(cuEventRecord, join, b);
    CALL(cuStreamWaitEvent, a, join, 0);
    CALL(cuStreamEndCapture, a, &g);
    printf("status %d %d\n", status_of(a), status_of(b));
    MUST(cuGraphGetNodes, g, NULL, &n);
    printf("%zu nodes\n", n);
    MUST(cuGraphGetRootNodes, g, NULL, &n);
    printf("%zu roots\n", n);
    MUST(cuGraphGetEdges, g, NULL, NULL, &n);
    printf("%zu edges\n", n);
    printf("nothing ran: %u\n", first(p));
    CALL(cuGraphInstantiateWithFlags, &x, g, 0);
    for (int k = 0; k < 3; k++)
        MUST(cuGraphLaunch, x, a);
    MUST(cuStreamSynchronize, a);
    printf("three launches: %u %u\n", first(p), first(p + 128));

    /* What breaks a capture. */
    MUST(cuStreamBeginCapture_v2, a, 0);
    MUST(cuEventRecord, fork, a);
    MUST(cuStreamWaitEvent, b, fork, 0);
    launch_add(p, 16, 1, b);
    SAYS("unjoined", cuStreamEndCapture, a, &h);
    MUST(cuStreamBeginCapture_v2, a, 0);
    MUST(cuEventRecord, fork, a);
    MUST(cuStreamWaitEvent, b, fork, 0);
    SAYS("in the stream that joined", cuStreamEndCapture, b, &h);
    cu.cuStreamEndCapture(a, &h);
    printf("status %d %d\n", status_of(a), status_of(b));
    MUST(cuStreamBeginCapture_v2, a, 0);
    SAYS("while capturing", cuStreamSynchronize, a);
    printf("status %d\n", status_of(a));
    printf("after that: %s\n", name(launch_add(p, 16, 1, a)));
    SAYS("after that", cuStreamEndCapture, a, &h);
    MUST(cuStreamBeginCapture_v2, a, 0);
    SAYS("while capturing", cuStreamQuery, a);
    SAYS("after that", cuStreamEndCapture, a, &h);
    MUST(cuStreamBeginCapture_v2, a, 0);
    SAYS("unsafe", cuMemAlloc_v2, &q, 256);
    SAYS("after that", cuStreamEndCapture, a, &h);
    MUST(cuStreamBeginCapture_v2, a, 2);
    SAYS("relaxed", cuMemAlloc_v2, &q, 256);
    SAYS("relaxed", cuStreamEndCapture, a, &h);
    MUST(cuGraphDestroy, h);
    MUST(cuStreamBeginCapture_v2, a, 0);
    MUST(cuThreadExchangeStreamCaptureMode, &mode);
    SAYS("a relaxed thread", cuMemFree_v2, q);
    MUST(cuThreadExchangeStreamCaptureMode, &mode);
    MUST(cuEventRecord, fork, a);
    SAYS("captured event", cuEventQuery, fork);
    SAYS("after that", cuStreamEndCapture, a, &h);
    MUST(cuEventRecord, outside, b);
    MUST(cuStreamBeginCapture_v2, a, 0);
    SAYS("recorded outside", cuStreamWaitEvent, a, outside, 0);
    SAYS("after that", cuStreamEndCapture, a, &h);
    MUST(cuStreamBeginCapture_v2, a, 0);
    MUST(cuStreamBeginCapture_v2, b, 0);
    MUST(cuEventRecord, fork, a);
    SAYS("two captures", cuStreamWaitEvent, b, fork, 0);
    SAYS("after that", cuStreamEndCapture, a, &h);
    SAYS("after that", cuStreamEndCapture, b, &h);
    MUST(cuStreamBeginCapture_v2, other, 2);
    printf("legacy stream beside a blocking stream's capture: %s\n", name(launch_add(p, 16, 1, NULL)));
    SAYS("after that", cuStreamEndCapture, other, &h);
    MUST(cuStreamBeginCapture_v2, a, 2);
    printf("legacy stream beside a non-blocking stream's capture: %s\n", name(launch_add(p, 16, 1, NULL)));
    SAYS("after that", cuStreamEndCapture, a, &h);
    MUST(cuCtxSynchronize);
    MUST(cuGraphDestroy, h);
    MUST(cuGraphExecDestroy, x);
    MUST(cuGraphDestroy, g);
    MUST(cuStreamDestroy_v2, a);
    MUST(cuStreamDestroy_v2, b);
    MUST(cuStreamDestroy_v2, other);
    MUST(cuMemFree_v2, p);
}

static void bump(void *p)
{
    ++*(int *)p;
}

static void graphs(void)
{
    CUgraph g, other, child;
    CUgraphNode fill, k1, k2, copy, host, inner, nodes[8];
    CUgraphExec x;
    CUgraphExecUpdateResultInfo info;
    CUdeviceptr p = zeros(64), q = zeros(64);
    unsigned n = 64, v = 3, back = 0;
    int count = 0, type;
    void *params[] = {&p, &n, &v};
    CUDA_KERNEL_NODE_PARAMS kp = {.func = add, .grid = {1, 1, 1}, .block = {64, 1, 1}, .params = params}, read;
    CUDA_MEMSET_NODE_PARAMS mp = {.dst = p, .value = 1, .element = 4, .width = 64, .height = 1};
    CUDA_MEMCPY3D cp = {
        .src_type = 2, .src_device = p, .dst_type = 2, .dst_device = q, .width = 256, .height = 1, .depth = 1};
    CUDA_HOST_NODE_PARAMS hp = {bump, &count};
    CALL(cuGraphCreate, &g, 0);
    CALL(cuGraphAddMemsetNode, &fill, g, NULL, 0, &mp, ctx);
    CALL(cuGraphAddKernelNode_v2, &k1, g, &fill, 1, &kp);
    CALL(cuGraphAddKernelNode_v2, &k2, g, NULL, 0, &kp);
    CALL(cuGraphAddDependencies, g, &k1, &k2, 1);
    CALL(cuGraphAddMemcpyNode, &copy, g, &k2, 1, &cp, ctx);
    CALL(cuGraphAddHostNode, &host, g, &copy, 1, &hp);
    SAYS("a node of its own", cuGraphAddDependencies, g, &host, &host, 1);
    MUST(cuGraphNodeGetType, copy, &type);
    printf("type %d\n", type);
    CALL(cuGraphKernelNodeGetParams_v2, k1, &read);
    printf("block %u, same function: %d\n", read.block[0], read.func == add);
    CALL(cuGraphInstantiateWithFlags, &x, g, 0);
    CALL(cuGraphLaunch, x, CU_STREAM_PER_THREAD);
    CALL(cuGraphLaunch, x, CU_STREAM_PER_THREAD);
    CALL(cuStreamSynchronize, CU_STREAM_PER_THREAD);
    printf("%u, host function %d times\n", first(q), count);
    v = 20; /* parameters were copied when the node was made */
    MUST(cuGraphLaunch, x, NULL);
    MUST(cuStreamSynchronize, NULL);
    printf("%u\n", first(q));
    CALL(cuGraphExecKernelNodeSetParams_v2, x, k1, &kp);
    MUST(cuGraphLaunch, x, NULL);
    MUST(cuStreamSynchronize, NULL);
    printf("%u\n", first(q));

    /* Updates: parameters may change, the shape may not. */
    MUST(cuGraphCreate, &other, 0);
    v = 100;
    MUST(cuGraphAddMemsetNode, &nodes[0], other, NULL, 0, &mp, ctx);
    MUST(cuGraphAddKernelNode_v2, &nodes[1], other, &nodes[0], 1, &kp);
    MUST(cuGraphAddKernelNode_v2, &nodes[2], other, &nodes[1], 1, &kp);
    MUST(cuGraphAddMemcpyNode, &nodes[3], other, &nodes[2], 1, &cp, ctx);
    SAYS("a node is missing", cuGraphExecUpdate_v2, x, other, &info);
    printf("result %d\n", info.result);
    MUST(cuGraphAddHostNode, &nodes[4], other, &nodes[3], 1, &hp);
    CALL(cuGraphExecUpdate_v2, x, other, &info);
    printf("result %d\n", info.result);
    MUST(cuGraphLaunch, x, NULL);
    MUST(cuStreamSynchronize, NULL);
    printf("%u\n", first(q));
    MUST(cuGraphExecDestroy, x);

    /* A graph within a graph. */
    MUST(cuGraphCreate, &child, 0);
    v = 1;
    MUST(cuGraphAddKernelNode_v2, &nodes[5], child, NULL, 0, &kp);
    MUST(cuGraphAddKernelNode_v2, &nodes[6], child, &nodes[5], 1, &kp);
    MUST(cuGraphDestroy, other);
    MUST(cuGraphCreate, &other, 0);
    MUST(cuGraphAddMemsetNode, &nodes[0], other, NULL, 0, &mp, ctx);
    CALL(cuGraphAddChildGraphNode, &inner, other, &nodes[0], 1, child);
    MUST(cuGraphDestroy, child);
    MUST(cuGraphAddMemcpyNode, &nodes[1], other, &inner, 1, &cp, ctx);
    MUST(cuGraphInstantiateWithFlags, &x, other, 0);
    MUST(cuGraphLaunch, x, NULL);
    MUST(cuMemcpyDtoH_v2, &back, q, 4);
    printf("%u\n", back);
    MUST(cuGraphExecDestroy, x);
    MUST(cuGraphDestroy, other);
    MUST(cuGraphDestroy, g);
    MUST(cuMemFree_v2, p);
    MUST(cuMemFree_v2, q);
}

static void arenas(void)
{
    CUdeviceptr p, base;
    CUstream s;
    CUmemGenericAllocationHandle h[2];
    CUmemAllocationProp prop = {.type = 1, .location = {1, 0}};
    CUmemAccessDesc access = {{1, 0}, 3};
    size_t grain;
    MUST(cuStreamCreate, &s, 1);
    CALL(cuMemAllocAsync, &p, 1024, s);
    MUST(cuMemsetD32Async, p, 6, 256, s);
    printf("launch: %s\n", name(launch_add(p, 64, 1, s)));
    MUST(cuStreamSynchronize, s);
    printf("%u\n", first(p));
    CALL(cuMemFreeAsync, p, s);
    SAYS("freed", cuStreamSynchronize, s);
    CALL(cuMemGetAllocationGranularity, &grain, &prop, 0);
    SAYS("no multiple", cuMemAddressReserve, &base, grain + 1, 0, 0, 0);
    CALL(cuMemAddressReserve, &base, 4 * grain, 0, 0, 0);
    for (int k = 0; k < 2; k++) {
        MUST(cuMemCreate, &h[k], grain, &prop, 0);
        CALL(cuMemMap, base + (CUdeviceptr)k * grain, grain, 0, h[k], 0);
        CALL(cuMemSetAccess, base + (CUdeviceptr)k * grain, grain, &access, 1);
        CALL(cuMemRelease, h[k]);
    }
    CALL(cuMemsetD32_v2, base + grain - 128, 1, 64);
    printf("launch: %s\n", name(launch_add(base + grain - 128, 64, 1, NULL)));
    MUST(cuCtxSynchronize);
    printf("%u %u\n", first(base + grain - 128), first(base + grain + 124));
    SAYS("still mapped", cuMemAddressFree, base, 4 * grain);
    CALL(cuMemUnmap, base, 2 * grain);
    CALL(cuMemAddressFree, base, 4 * grain);
    MUST(cuStreamDestroy_v2, s);
}

static void sticky(void)
{
    CUfunction fault;
    CUdeviceptr p = 0, q;
    void *params[] = {&p};
    MUST(cuModuleGetFunction, &fault, module, "fault");
    SAYS("asynchronous", cuLaunchKernel, fault, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL);
    CALL(cuCtxSynchronize);
    SAYS("sticky", cuMemAlloc_v2, &q, 4);
    SAYS("sticky", cuCtxSynchronize);
    CALL(cuDevicePrimaryCtxReset_v2, 0);
    CALL(cuDevicePrimaryCtxRetain, &ctx, 0);
    MUST(cuCtxSetCurrent, ctx);
    SAYS("a new context", cuMemAlloc_v2, &q, 4);
    SAYS("a new context", cuCtxSynchronize);
}

static const struct {
    const char *name;
    void (*run)(void);
} parts[] = {
    {"initialisation", before_init},
    {"devices", devices},
    {"contexts", contexts},
    {"modules and launches", modules},
    {"memory", memory},
    {"streams", streams},
    {"copies", staged_copies},
    {"capture", capture},
    {"graphs", graphs},
    {"arenas", arenas},
    {"errors", sticky},
};

int main(int argc, char **argv)
{
    int status;
    void *lib = dlopen(argc > 1 ? argv[1] : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL),
         *find = lib ? dlsym(lib, "cuGetProcAddress_v2") : NULL;
    if (!find) {
        fprintf(stderr, "%s\n", lib ? "no cuGetProcAddress_v2" : dlerror());
        return 77;
    }
    memcpy(&cu.cuGetProcAddress_v2, &find, sizeof find);
#define FN(symbol, name, version, args)                                   \
    memcpy(&cu.symbol, &(void *){dlsym(lib, #symbol)}, sizeof cu.symbol); \
    if (!cu.symbol) {                                                     \
        fprintf(stderr, "no %s\n", #symbol);                              \
        return 1;                                                         \
    }
#include "sim/ptx/driver.def"
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        printf("-- %s\n", parts[k].name);
        parts[k].run();
        if (k == 0) { /* functions by their entry points, which requires an initialised driver */
#define FN(symbol, name, version, args) cu.cuGetProcAddress_v2(name, (void **)(void *)&cu.symbol, version, 0, &status);
#include "sim/ptx/driver.def"
        }
    }
    return 0;
}
