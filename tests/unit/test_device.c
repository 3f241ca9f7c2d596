/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door to devices (runtime/device/device.h): what must work on each, and what cpu-split must notice: a host pointer
 * given to a kernel, memory that was freed, an access that nobody waits for whatever the order, a host that touches the
 * device's memory, an argument of a program that changes.
 */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/rt_int.h"
#include "tests/unit/mini_image.h"
#include "tests/unit/suite.h"

/* y = x + size; 64 tiles of one element. A size below 0 is an index out of range. */
static void add(void *const *args, const int64_t *sizes, void *scratch, struct tcc_env *env, int64_t first,
                int64_t last)
{
    const int64_t *x = args[0];
    int64_t *y = args[1];

    (void)scratch;
    if (sizes[0] < 0)
        *env = (struct tcc_env){.fault = TCC_EINDEX, .index = sizes[0], .extent = last};
    else
        for (int64_t i = first; i < last; i++)
            y[i] = x[i] + sizes[0];
}

/* y = the seed, the run */
static void control(void *const *args, const int64_t *sizes, void *scratch, struct tcc_env *env, int64_t first,
                    int64_t last)
{
    int64_t *y = args[0];

    (void)sizes, (void)scratch, (void)first, (void)last;
    y[0] = (int64_t)env->seed;
    y[1] = env->run;
}

enum { N = 64, BYTES = N * 8 };

/* y[0] = the sum of y[1] to y[N - 1], which N tiles write, each late, and one more adds. */
static void two_phases(void *const *args, const int64_t *sizes, void *scratch, struct tcc_env *env, int64_t first,
                       int64_t last)
{
    int64_t *y = args[0];

    (void)sizes, (void)scratch, (void)env;
    for (int64_t i = first; i < last && i < N; i++) {
        for (volatile int wait = 0; wait < 2000; wait++)
            ;
        y[i] = i;
    }
    for (int i = 1; i < N && first >= N; i++)
        y[0] += y[i];
}

static const tcc_kernel_fn kernels[] = {add, control, two_phases};
static struct tcr_heap heap;

static struct tcr_device *open_device(const char *name, const char *seed)
{
    static const struct tccrt_options options = {.threads = 2};
    static const struct tcc_pimage *images[1];
    struct tcr_device_request r = {
        .heap = &heap, .kernels = kernels, .images = images, .nimages = 1, .nkernels = MI_KERNELS, .options = &options};
    struct tcr_device *d;

    images[0] = images[0] ? images[0] : mi_image("sm_80");
    setenv("TCCC_ORDER_SEED", seed, 1);
    tcr_heap_init(&heap, NULL);
    ck_assert_msg(tcr_device_open(name, &r, &d) == TCC_OK, "%s", tccrt_error());
    ck_assert_str_eq(d->name, name);
    ck_assert_int_eq(d->ops->reserve(d, 0, 3, 8), TCC_OK);
    ck_assert_int_eq(d->ops->begin(d, &(struct tcr_control){.seed = 7, .run = 3}), TCC_OK);
    return d;
}

static int launch_add(struct tcr_device *d, int queue, void *x, void *y, int64_t n)
{
    void *args[] = {x, y};
    struct tcr_access access[] = {{x, BYTES, TCC_READS}, {y, BYTES, TCC_WRITES}};
    struct tcr_kernel_launch l = {.nargs = 2,
                                  .nsizes = 1,
                                  .tiles = N,
                                  .args = args,
                                  .sizes = &n,
                                  .access = d->checks ? access : NULL,
                                  .may_fault = true,
                                  .node = "add",
                                  .checks = "add"};

    return d->ops->launch(d, queue, &l);
}

static int copy(struct tcr_device *d, int queue, enum tcr_copy_kind kind, void *to, const void *from)
{
    return d->ops->copy(d, queue,
                        &(struct tcr_copy){.kind = kind, .to = to, .from = from, .bytes = BYTES, .node = "copy"});
}

static void says(int status, int want, const char *part)
{
    ck_assert_msg(status == want, "status %d: %s", status, tccrt_error());
    ck_assert_msg(strstr(tccrt_error(), part) != NULL, "expected '%s', got '%s'", part, tccrt_error());
}

/* Tiles of the second phase run when all of the first have ended, whoever runs them. */
static void check_phases(struct tcr_device *d)
{
    int64_t out[N] = {0}, *y = d->ops->alloc(d, 0, BYTES, true);
    struct tcr_access access = {y, BYTES, TCC_READS | TCC_WRITES};
    void *args[] = {y};

    for (int times = 1; times <= 50; times++) {
        struct tcr_kernel_launch l = {.kernel = 2,
                                      .nargs = 1,
                                      .tiles = N,
                                      .combining = 1,
                                      .args = args,
                                      .access = d->checks ? &access : NULL,
                                      .node = "phases"};
        ck_assert_int_eq(d->ops->launch(d, 0, &l), TCC_OK);
        ck_assert_int_eq(copy(d, 0, TCR_TO_HOST, out, y), TCC_OK);
        ck_assert_int_eq(d->ops->record(d, 0, 0), TCC_OK);
        ck_assert_int_eq(d->ops->sync(d, 0), TCC_OK);
        ck_assert_int_eq(out[0], N * (N - 1) / 2);
    }
    d->ops->free(d, 0, y, BYTES, true);
}

static const char *const names[] = {"cpu", "cpu-split", "sim", "cpu-split", "sim", "cpu-split", "sim"};

/* Copies in, adds on one queue what another has made, copies out: the same on all devices and in all orders. */
START_TEST(works)
{
    char seed[8];
    snprintf(seed, sizeof seed, "%d", _i);
    struct tcr_device *d = open_device(names[_i], seed);
    const struct tcr_device_ops *o = d->ops;
    int64_t in[N], out[N] = {0}, ran[2] = {0}, *x = o->alloc(d, 0, BYTES, false), *y = o->alloc(d, 0, BYTES, true),
                   *z = o->alloc(d, 0, BYTES, false);
    void *block = NULL, *first, *none[1] = {z};
    size_t held = 0;

    for (int i = 0; i < N; i++)
        in[i] = i;
    ck_assert(x && y && z);
    ck_assert_int_eq(copy(d, 1, TCR_TO_DEVICE, x, in), TCC_OK);
    ck_assert_int_eq(o->record(d, 1, 0), TCC_OK);
    ck_assert_int_eq(o->wait(d, 0, 0), TCC_OK);
    ck_assert_int_eq(launch_add(d, 0, x, y, 10), TCC_OK);
    ck_assert_int_eq(launch_add(d, 0, y, x, 100), TCC_OK);
    ck_assert_int_eq(o->record(d, 0, 1), TCC_OK);
    ck_assert_int_eq(o->wait(d, 2, 1), TCC_OK);
    ck_assert_int_eq(copy(d, 2, TCR_TO_HOST, out, x), TCC_OK);
    ck_assert_int_eq(o->record(d, 2, 2), TCC_OK);
    ck_assert_int_eq(o->sync(d, 2), TCC_OK);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(out[i], i + 110);
    /* What changes from run to run comes from the control block. */
    struct tcr_access a = {z, BYTES, TCC_WRITES};
    ck_assert_int_eq(o->launch(d, 0,
                               &(struct tcr_kernel_launch){
                                   .kernel = 1, .nargs = 1, .tiles = 1, .args = none, .access = &a, .node = "control"}),
                     TCC_OK);
    ck_assert_int_eq(
        o->copy(d, 0,
                &(struct tcr_copy){.kind = TCR_TO_HOST, .to = ran, .from = z, .bytes = sizeof ran, .node = "out"}),
        TCC_OK);
    ck_assert_int_eq(o->fill(d, 0, x, 0, BYTES), TCC_OK);
    ck_assert_int_eq(copy(d, 0, TCR_TO_HOST, out, x), TCC_OK);
    ck_assert_int_eq(o->sync(d, TCR_ALL), TCC_OK);
    ck_assert(ran[0] == 7 && ran[1] == 3 && out[0] == 0 && out[N - 1] == 0);
    /* A block grows where it lies. */
    ck_assert_int_eq(o->grow(d, &block, &held, 1000), TCC_OK);
    first = block;
    ck_assert_int_eq(o->grow(d, &block, &held, (size_t)64 << 20), TCC_OK);
    ck_assert(block == first && held == (size_t)64 << 20);
    o->release(d, block, held);
    o->free(d, 0, x, BYTES, false);
    o->free(d, 0, y, BYTES, true);
    o->free(d, 0, z, BYTES, false);
    if (strcmp(d->name, "sim"))
        check_phases(d);
    o->close(d);
    ck_assert_uint_eq(heap.held, 0);
}
END_TEST

/* A fault stops what comes later, and the host hears of it when it waits, or at once. */
START_TEST(faults)
{
    struct tcr_device *d = open_device(names[_i], "1");
    const struct tcr_device_ops *o = d->ops;
    int64_t *x = o->alloc(d, 0, BYTES, true), *y = o->alloc(d, 0, BYTES, true), out[N];
    int status = launch_add(d, 0, x, y, -1);

    if (!d->shared) {
        ck_assert_int_eq(status, TCC_OK);
        ck_assert_int_eq(launch_add(d, 0, x, y, 5), TCC_OK); /* not run */
        status = o->sync(d, TCR_ALL);
    }
    says(status, TCC_EINDEX, "node 'add': index -1 is outside an axis of 64");
    ck_assert_int_eq(o->begin(d, &(struct tcr_control){.run = 1}), TCC_OK);
    ck_assert_int_eq(copy(d, 0, TCR_TO_HOST, out, y), TCC_OK);
    ck_assert_int_eq(o->sync(d, TCR_ALL), TCC_OK);
    ck_assert_int_eq(out[0], 0);
    o->free(d, 0, x, BYTES, true);
    o->free(d, 0, y, BYTES, true);
    o->close(d);
}
END_TEST

START_TEST(bad_arguments)
{
    struct tcr_device *d = open_device("cpu-split", "0");
    const struct tcr_device_ops *o = d->ops;
    int64_t host[N] = {0}, *x = o->alloc(d, 0, BYTES, true), *y = o->alloc(d, 0, BYTES, true);

    says(launch_add(d, 0, host, y, 1), TCC_EBUG, "argument 0 of its kernel is a host pointer");
    says(launch_add(d, 0, x, host, 1), TCC_EBUG, "argument 1 of its kernel is a host pointer");
    says(launch_add(d, 0, x + 1, y, 1), TCC_EBUG, "past the end of its allocation");
    says(launch_add(d, 0, (char *)x + ((size_t)1 << 24), y, 1), TCC_EBUG, "not allocated");
    says(copy(d, 0, TCR_TO_DEVICE, host, x), TCC_EBUG, "expected the host's");
    says(copy(d, 0, TCR_TO_HOST, host, host), TCC_EBUG, "a copy from a host pointer");
    says(copy(d, 9, TCR_TO_DEVICE, x, host), TCC_EBUG, "no queue 9");
    o->free(d, 0, x, BYTES, true);
    says(launch_add(d, 0, x, y, 1), TCC_EBUG, "argument 0 of its kernel is memory that was freed");
    o->close(d);
}
END_TEST

/* Every access that nobody waits for is reported when it is given, in every order; with the wait it is fine. */
START_TEST(missing_waits)
{
    char seed[8];
    snprintf(seed, sizeof seed, "%d", _i);
    struct tcr_device *d = open_device("cpu-split", seed);
    const struct tcr_device_ops *o = d->ops;
    int64_t host[N] = {0}, *x = o->alloc(d, 0, BYTES, true), *y = o->alloc(d, 0, BYTES, true);
    struct tcr_access reads = {host, 8, TCC_READS}, writes = {host + 1, 8, TCC_WRITES};

    ck_assert_int_eq(launch_add(d, 0, x, y, 1), TCC_OK);
    says(copy(d, 1, TCR_TO_HOST, host, y), TCC_EBUG,
         "node 'copy' (queue 1) reads 512 bytes that node 'add' (queue 0) writes: requires a wait");
    says(o->fill(d, 1, x, 0, BYTES), TCC_EBUG, "node 'add' (queue 0) reads: requires a wait");
    ck_assert_int_eq(o->record(d, 0, 3), TCC_OK);
    ck_assert_int_eq(launch_add(d, 0, x, y, 2), TCC_OK);
    ck_assert_int_eq(o->wait(d, 1, 3), TCC_OK); /* for the first launch only */
    says(copy(d, 1, TCR_TO_HOST, host, y), TCC_EBUG, "requires a wait");
    ck_assert_int_eq(o->record(d, 0, 3), TCC_OK);
    ck_assert_int_eq(o->wait(d, 1, 3), TCC_OK);
    ck_assert_int_eq(copy(d, 1, TCR_TO_HOST, host, y), TCC_OK);
    /* The host waits as a queue does. */
    says(o->touch(d, &reads, "bind"), TCC_EBUG,
         "node 'bind' (the host) reads 8 bytes that node 'copy' (queue 1) writes");
    ck_assert_int_eq(o->record(d, 1, 4), TCC_OK);
    ck_assert_int_eq(o->sync(d, 4), TCC_OK);
    ck_assert_int_eq(o->touch(d, &reads, "bind"), TCC_OK);
    ck_assert_int_eq(host[0], 2);
    ck_assert_int_eq(copy(d, 2, TCR_TO_DEVICE, y, host), TCC_OK);
    says(o->touch(d, &writes, "lib"), TCC_EBUG, "node 'lib' (the host) writes");
    says(o->touch(d, &(struct tcr_access){x, 8, TCC_READS}, "lib"), TCC_EBUG,
         "the host reads memory of device 'cpu-split'");
    ck_assert_int_eq(o->sync(d, TCR_ALL), TCC_OK);
    ck_assert_int_eq(o->touch(d, &writes, "lib"), TCC_OK);
    o->close(d);
}
END_TEST

/* The host faults where it follows a device's address. (Sanitizers have a handler of their own.) */
START_TEST(host_touches)
{
    struct tcr_device *d = open_device("cpu-split", "0");
    volatile int64_t *x = d->ops->alloc(d, 0, BYTES, true);

    signal(SIGSEGV, SIG_DFL);
    if (_i)
        x[0] = 1;
    else
        ck_assert_int_eq(x[0], 0);
}
END_TEST

/* Freed and dead bytes are poison, and what was never written is, too. */
START_TEST(poison)
{
    struct tcr_device *d = open_device("cpu-split", "2");
    const struct tcr_device_ops *o = d->ops;
    int64_t out[N] = {0}, *x = o->alloc(d, 0, BYTES, false), *y = o->alloc(d, 0, BYTES, true);

    ck_assert_int_eq(copy(d, 0, TCR_TO_HOST, out, x), TCC_OK);
    ck_assert_int_eq(o->sync(d, TCR_ALL), TCC_OK);
    ck_assert(out[0] == -1 && out[N - 1] == -1);
    ck_assert_int_eq(launch_add(d, 0, y, y, 1), TCC_OK);
    ck_assert_int_eq(o->discard(d, 1, y, BYTES), TCC_OK); /* it may be in use there: not done */
    ck_assert_int_eq(copy(d, 0, TCR_TO_HOST, out, y), TCC_OK);
    ck_assert_int_eq(o->sync(d, TCR_ALL), TCC_OK);
    ck_assert_int_eq(out[5], 1);
    ck_assert_int_eq(o->discard(d, 1, y, BYTES), TCC_OK);
    ck_assert_int_eq(o->sync(d, TCR_ALL), TCC_OK);
    ck_assert_int_eq(copy(d, 0, TCR_TO_HOST, out, y), TCC_OK);
    ck_assert_int_eq(o->sync(d, TCR_ALL), TCC_OK);
    ck_assert_int_eq(out[5], -1);
    o->close(d);
}
END_TEST

/* Recorded, walked once more to compare, replayed: three times the same work. */
START_TEST(programs)
{
    struct tcr_device *d = open_device("cpu-split", "0");
    const struct tcr_device_ops *o = d->ops;
    int64_t out[N] = {0}, *x = o->alloc(d, 0, BYTES, true), *y = o->alloc(d, 0, BYTES, true);
    int how;

    for (int run = 0; run < 4; run++) {
        ck_assert_int_eq(o->program(d, 0, 1, 99, &how), TCC_OK);
        ck_assert_int_eq(how, run < 2 ? TCR_RECORD : TCR_REPLAY);
        if (how == TCR_RECORD) {
            ck_assert_int_eq(launch_add(d, 0, x, y, 1), TCC_OK);
            ck_assert_int_eq(launch_add(d, 0, y, x, 1), TCC_OK);
            ck_assert_int_eq(o->end(d, 0), TCC_OK);
        }
        ck_assert_int_eq(copy(d, 0, TCR_TO_HOST, out, x), TCC_OK);
        ck_assert_int_eq(o->sync(d, TCR_ALL), TCC_OK);
        ck_assert_int_eq(out[3], 2 * (run + 1));
    }
    ck_assert_int_eq(d->counts.programs, 1);
    ck_assert_int_eq(d->counts.replays, 2);
    /* An argument that changes. */
    ck_assert_int_eq(o->program(d, 0, 2, 99, &how), TCC_OK);
    ck_assert_int_eq(launch_add(d, 0, x, y, 1), TCC_OK);
    ck_assert_int_eq(o->end(d, 0), TCC_OK);
    ck_assert_int_eq(o->program(d, 0, 2, 99, &how), TCC_OK);
    says(launch_add(d, 0, x, y, 2), TCC_EBUG, "not those that its program was recorded with");
    o->close(d);
}
END_TEST

START_TEST(by_name)
{
    static const struct tccrt_options options;
    struct tcr_device_request r = {.heap = &heap, .kernels = kernels, .options = &options};
    struct tcr_device *d;

    tcr_heap_init(&heap, NULL);
    says(tcr_device_open("gpu", &r, &d), TCC_EUSAGE, "no device 'gpu'");
    says(tcr_device_open("neuron:1", &r, &d), TCC_EENV, "NeuronCores are simulated only");
    ck_assert_ptr_null(d);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("device");
    TCase *c = tcase_create("device");

    tcase_add_loop_test(c, works, 0, 7);
    tcase_add_loop_test(c, faults, 0, 3);
    tcase_add_test(c, bad_arguments);
    tcase_add_loop_test(c, missing_waits, 0, 4);
    tcase_add_loop_test_raise_signal(c, host_touches, SIGSEGV, 0, 2);
    tcase_add_test(c, poison);
    tcase_add_test(c, programs);
    tcase_add_test(c, by_name);
    suite_add_tcase(s, c);
    return run_tests(s);
}
