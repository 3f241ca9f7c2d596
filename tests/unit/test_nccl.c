/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated NCCL: ranks are processes with a simulated device each. Every collective against sums made here,
 * groups, messages, communicators that don't block, what differs between ranks, communicators in opposite order, ranks
 * that abort; the modelled time of an exchange.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim/link.h"
#include "sim/nccl/nccl.h"
#include "sim/ptx/driver.h"
#include "tests/unit/suite.h"

#define FINE(call) ck_assert_int_eq((call), 0)
/* An assertion of each element would be a message to the test's parent. */
#define NEAR(a, b)                                  \
    do {                                            \
        if (!(fabsf((a) - (b)) <= 1e-5f))           \
            ck_abort_msg("%g is not %g", (a), (b)); \
    } while (0)
enum { MOST = 4 };

static struct {
    ncclUniqueId ids[2];
    _Atomic int arrived;
} * shared;

static void device(int ordinal)
{
    CUcontext ctx;

    FINE(cuInit(0));
    FINE(cuDevicePrimaryCtxRetain(&ctx, ordinal));
    FINE(cuCtxSetCurrent(ctx));
}

static CUdeviceptr put(const void *from, size_t bytes)
{
    CUdeviceptr at;

    FINE(cuMemAlloc_v2(&at, bytes + 1));
    FINE(cuMemcpyHtoD_v2(at, from, bytes));
    return at;
}

static void *pointer(CUdeviceptr at)
{
    return (void *)(uintptr_t)at; // NOLINT
}

/* Runs `what` as n processes, each with device number `rank`; all must end well. */
static void as_ranks(int n, void (*what)(int rank, int n))
{
    pid_t child[MOST];

    setenv("TCCC_SIM_DEVICES", "4", 1);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    memset(shared, 0, sizeof *shared);
    FINE(ncclGetUniqueId(&shared->ids[0]));
    FINE(ncclGetUniqueId(&shared->ids[1]));
    fflush(NULL);
    for (int r = 0; r < n; r++)
        if (!(child[r] = fork())) {
            device(r);
            what(r, n);
            fflush(NULL);
            _exit(0);
        }
    for (int r = 0; r < n; r++) {
        int status;

        ck_assert_int_eq(waitpid(child[r], &status, 0), child[r]);
        ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status), "rank %d: status %x", r, status);
    }
    munmap(shared, sizeof *shared);
}

static ncclComm_t join(int rank, int n, int which)
{
    ncclComm_t c;

    FINE(ncclCommInitRankConfig(&c, n, shared->ids[which], rank, NULL));
    return c;
}

enum { N = 50003 };
static float mine[4 * N], got[4 * N];

static float value(int rank, size_t i)
{
    return (float)((i * 7 + (size_t)rank * 13) % 1001) / 256 - 1;
}

static void fill(int rank, size_t n)
{
    for (size_t i = 0; i < n; i++)
        mine[i] = value(rank, i);
}

static float sum(int n, size_t i)
{
    float s = 0;

    for (int k = 0; k < n; k++)
        s += value(k, i);
    return s;
}

static void collectives(int rank, int n)
{
    ncclComm_t c = join(rank, n, 0);
    CUdeviceptr in, out;
    CUstream s;

    fill(rank, 4 * N);
    in = put(mine, sizeof mine);
    out = put(mine, sizeof mine);
    FINE(cuStreamCreate(&s, 1));
    FINE(ncclAllReduce(pointer(in), pointer(out), N, ncclFloat32, ncclSum, c, s));
    FINE(cuMemcpyDtoHAsync_v2(got, out, N * 4, s)); /* behind it in its stream */
    FINE(cuStreamSynchronize(s));
    for (size_t i = 0; i < N; i++)
        NEAR(got[i], sum(n, i));
    FINE(ncclAllReduce(pointer(in), pointer(out), N, ncclFloat32, ncclAvg, c, s));
    FINE(ncclReduceScatter(pointer(in), pointer(out + 4 * N), 1000, ncclFloat32, ncclSum, c, s));
    FINE(ncclAllGather(pointer(in), pointer(out + 8 * N), 1000, ncclFloat32, c, s));
    FINE(ncclBroadcast(pointer(in), pointer(out + 12 * N), N, ncclFloat32, n - 1, c, s));
    FINE(cuMemcpyDtoHAsync_v2(got, out, sizeof got, s));
    FINE(cuStreamSynchronize(s));
    for (size_t i = 0; i < N; i++) {
        NEAR(got[i], sum(n, i) / (float)n);
        NEAR(got[3 * N + i], value(n - 1, i));
    }
    for (size_t i = 0; i < 1000; i++)
        NEAR(got[N + i], sum(n, (size_t)rank * 1000 + i));
    for (size_t i = 0; i < (size_t)n * 1000; i++)
        NEAR(got[2 * N + i], value((int)(i / 1000), i % 1000));
    FINE(ncclCommDestroy(c));
}

/* A group: uneven parts as reductions for each rank; and a ring of messages, both ways at once. */
static void groups(int rank, int n)
{
    ncclComm_t c = join(rank, n, 0);
    CUdeviceptr in, out;
    int next = (rank + 1) % n, last = (rank + n - 1) % n;

    fill(rank, 4 * N);
    in = put(mine, sizeof mine);
    out = put(mine, sizeof mine);
    FINE(ncclGroupStart());
    for (int k = 0; k < n; k++)
        FINE(ncclReduce(pointer(in + (CUdeviceptr)k * 4000), pointer(out), (size_t)(k + 1) * 100, ncclFloat32, ncclSum,
                        k, c, NULL));
    FINE(ncclSend(pointer(in), N, ncclFloat32, next, c, NULL));
    FINE(ncclRecv(pointer(out + 4 * N), N, ncclFloat32, last, c, NULL));
    FINE(ncclSend(pointer(in + 4 * N), 10, ncclFloat32, last, c, NULL));
    FINE(ncclRecv(pointer(out + 8 * N), 10, ncclFloat32, next, c, NULL));
    FINE(ncclGroupEnd());
    FINE(cuMemcpyDtoH_v2(got, out, sizeof got));
    for (size_t i = 0; i < (size_t)(rank + 1) * 100; i++)
        NEAR(got[i], sum(n, (size_t)rank * 1000 + i));
    for (size_t i = 0; i < N; i++)
        NEAR(got[N + i], value(last, i));
    for (size_t i = 0; i < 10; i++)
        NEAR(got[2 * N + i], value(next, N + i));
    FINE(ncclCommDestroy(c));
}

static ncclResult_t settle(ncclComm_t c)
{
    ncclResult_t r = ncclInProgress;
    struct timespec t = {0, 100000};

    for (int k = 0; k < 100000 && r == ncclInProgress; k++, nanosleep(&t, NULL))
        FINE(ncclCommGetAsyncError(c, &r));
    return r;
}

static void not_blocking(int rank, int n)
{
    ncclConfig_t config = {sizeof config, NCCL_CONFIG_MAGIC, 21700, 0, INT_MIN, INT_MIN, INT_MIN};
    float factor = 0.25f;
    ncclRedOp_t op;
    ncclComm_t c;
    CUdeviceptr in;
    ncclResult_t r;

    if (rank)
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    r = ncclCommInitRankConfig(&c, n, shared->ids[0], rank, &config);
    ck_assert(r == ncclInProgress || r == ncclSuccess);
    FINE(settle(c));
    fill(rank, N);
    in = put(mine, N * 4);
    FINE(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, ncclScalarHostImmediate, c));
    ck_assert_int_eq(ncclAllReduce(pointer(in), pointer(in), N, ncclFloat32, op, c, NULL), ncclInProgress);
    ck_assert_int_eq(ncclAllReduce(pointer(in), pointer(in), N, ncclFloat32, op, c, NULL),
                     ncclInvalidUsage); /* too early */
    FINE(settle(c));
    FINE(cuMemcpyDtoH_v2(got, in, N * 4));
    for (size_t i = 0; i < N; i++)
        NEAR(got[i], sum(n, i) / 4);
    FINE(ncclCommDestroy(c));
}

static void wrong(ncclComm_t c, const char *text)
{
    ck_assert_int_ne(settle(c), ncclSuccess);
    ck_assert_msg(strstr(ncclGetLastError(c), text) != NULL, "%s", ncclGetLastError(c));
    FINE(cuStreamSynchronize(NULL)); /* nothing is left that hangs */
    FINE(ncclCommAbort(c));
}

static void wait_wrong(ncclComm_t c, const char *text)
{
    ncclResult_t r = ncclSuccess;
    struct timespec t = {0, 1000000};

    for (int k = 0; k < 5000 && r == ncclSuccess; k++, nanosleep(&t, NULL))
        FINE(ncclCommGetAsyncError(c, &r));
    wrong(c, text);
}

static void counts_differ(int rank, int n)
{
    ncclComm_t c = join(rank, n, 0);
    CUdeviceptr in = put(mine, sizeof mine);

    FINE(ncclAllReduce(pointer(in), pointer(in), rank ? 10 : 11, ncclFloat32, ncclSum, c, NULL));
    wait_wrong(c, "operation 0 differs: rank");
}

static void types_differ(int rank, int n)
{
    ncclComm_t c = join(rank, n, 0);
    CUdeviceptr in = put(mine, sizeof mine);

    FINE(ncclBroadcast(pointer(in), pointer(in), 8, rank ? ncclFloat32 : ncclInt32, 0, c, NULL));
    wait_wrong(c, "of type");
}

static void messages_differ(int rank, int n)
{
    ncclComm_t c = join(rank, n, 0);
    CUdeviceptr in = put(mine, sizeof mine);

    if (rank)
        FINE(ncclRecv(pointer(in), 5, ncclFloat32, 0, c, NULL));
    else
        FINE(ncclSend(pointer(in), 6, ncclFloat32, 1, c, NULL));
    wait_wrong(c, "expects send of 20 bytes");
}

static void opposite_order(int rank, int n)
{
    ncclComm_t c[2] = {join(rank, n, 0), join(rank, n, 1)};
    CUdeviceptr in = put(mine, sizeof mine);

    FINE(ncclAllReduce(pointer(in), pointer(in), 10, ncclFloat32, ncclSum, c[rank], NULL));
    FINE(ncclAllReduce(pointer(in), pointer(in), 10, ncclFloat32, ncclSum, c[!rank], NULL));
    wait_wrong(c[0], "two communicators in opposite order");
}

static void one_device(int rank, int n)
{
    ncclComm_t c;

    device(0);
    ck_assert_int_eq(ncclCommInitRankConfig(&c, n, shared->ids[0], rank, NULL), ncclInvalidUsage);
    ck_assert_ptr_nonnull(strstr(ncclGetLastError(c), "Duplicate GPU"));
}

/* A rank that is not there holds the others up until they abort; their streams go on then. */
static void aborted(int rank, int n)
{
    ncclComm_t c = join(rank, n, 0);
    CUdeviceptr in = put(mine, sizeof mine);
    ncclResult_t r;

    if (rank == 1)
        return;
    FINE(ncclAllReduce(pointer(in), pointer(in), 10, ncclFloat32, ncclSum, c, NULL));
    nanosleep(&(struct timespec){0, 50000000}, NULL);
    ck_assert_int_eq(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    FINE(ncclCommGetAsyncError(c, &r));
    FINE(r);
    FINE(ncclCommAbort(c));
    FINE(cuStreamSynchronize(NULL));
}

/* Ranks that begin at different modelled times end together; the simulator's own time of it is the formula's. */
static void modelled(int rank, int n)
{
    ncclComm_t c = join(rank, n, 0);
    CUdeviceptr in = put(mine, sizeof mine), big;
    CUevent e;
    double start, end;

    FINE(cuMemAlloc_v2(&big, 16 << 20));
    for (int k = 0; k < 4 * rank; k++)
        FINE(cuMemsetD8Async(big, 0, 16 << 20, NULL));
    FINE(ncclAllReduce(pointer(in), pointer(in), N, ncclFloat32, ncclSum, c, NULL));
    FINE(cuEventCreate(&e, 0));
    FINE(cuEventRecord(e, NULL));
    FINE(cuEventSynchronize(e));
    FINE(ptx_driver_times(e, &start, &end));
    if (rank == n - 1) /* it was the last: the others waited */
        ck_assert_double_eq_tol(end - start, sim_exchange_seconds("h100", SIM_ALL_REDUCE, n, N * 4), 1e-9);
    else
        ck_assert_double_gt(end - start, sim_exchange_seconds("h100", SIM_ALL_REDUCE, n, N * 4) + 20e-6);
    FINE(ncclCommDestroy(c));
}

#define RANKS(name, n)        \
    START_TEST(name##_of_##n) \
    {                         \
        as_ranks(n, name);    \
    }                         \
    END_TEST
RANKS(collectives, 2)
RANKS(collectives, 3)
RANKS(collectives, 4)
RANKS(groups, 2)
RANKS(groups, 3)
RANKS(not_blocking, 3)
RANKS(counts_differ, 2)
RANKS(types_differ, 2)
RANKS(messages_differ, 2)
RANKS(opposite_order, 2)
RANKS(one_device, 2)
RANKS(aborted, 2)
RANKS(modelled, 2)

/* By hand: 4 ranks of an H100, 4 GB: 2 x 3/4 of it at 0.8 x 450 GB/s, 5 us and 6 hops of 1 us; short ones go by a tree,
 * 4 hops. */
START_TEST(times_by_hand)
{
    ck_assert_double_eq_tol(sim_exchange_seconds("h100", SIM_ALL_REDUCE, 4, 4e9), 1.5 * 4e9 / 360e9 + 11e-6, 1e-9);
    ck_assert_double_eq_tol(sim_exchange_seconds("h100", SIM_ALL_REDUCE, 4, 8), 9e-6, 1e-9);
    ck_assert_double_eq_tol(sim_exchange_seconds("a100", SIM_ALL_GATHER, 8, 8e9), 7.0 / 8 * 8e9 / 240e9 + 12e-6, 1e-9);
    ck_assert_double_eq_tol(sim_exchange_seconds("h100", SIM_SEND, 2, 36e9), 0.1 + 6e-6, 1e-9);
    ck_assert_double_eq(sim_exchange_seconds("h100", SIM_ALL_REDUCE, 1, 8), 0);
    ck_assert_double_lt(sim_exchange_seconds("a1", SIM_ALL_REDUCE, 2, 8), 0);
    /* 16 GPUs of two servers: what one server takes, and an eighth of the bytes between two at 40 GB/s. */
    ck_assert_double_eq_tol(sim_exchange_seconds("h100", SIM_ALL_REDUCE, 16, 8e9),
                            5e-6 + 14e-6 + 1.75 * 8e9 / 360e9 + 10e-6 + 1e9 / 40e9, 1e-9);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("nccl");
    TCase *c = tcase_create("ranks");

    tcase_set_timeout(c, 60);
    tcase_add_test(c, collectives_of_2);
    tcase_add_test(c, collectives_of_3);
    tcase_add_test(c, collectives_of_4);
    tcase_add_test(c, groups_of_2);
    tcase_add_test(c, groups_of_3);
    tcase_add_test(c, not_blocking_of_3);
    tcase_add_test(c, counts_differ_of_2);
    tcase_add_test(c, types_differ_of_2);
    tcase_add_test(c, messages_differ_of_2);
    tcase_add_test(c, opposite_order_of_2);
    tcase_add_test(c, one_device_of_2);
    tcase_add_test(c, aborted_of_2);
    tcase_add_test(c, modelled_of_2);
    tcase_add_test(c, times_by_hand);
    suite_add_tcase(s, c);
    return run_tests(s);
}
