/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA device of the runtime, on the driver's simulator: what the door (tests/unit/test_device.c) does not show.
 * Programs as graphs, tables of arguments, scratch, copies longer than a pinned block, copies of memory to which
 * something is still under way, guarded copies, what a wrong image, a wrong address or no driver at all lead to.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/rt_int.h"
#include "tests/unit/mini_image.h"
#include "tests/unit/suite.h"

enum { N = 64, BYTES = N * 8, MANY = 600 };
static struct tcr_heap heap;

static int try_open(const char *name, const char *machine, struct tcr_device **d)
{
    static const struct tccrt_options options = {.threads = 2};
    static struct tcc_pimage *made; /* as long as the device: until the next one is opened */
    free(made);
    made = mi_image(machine);
    const struct tcc_pimage *images[1] = {made};
    struct tcr_device_request r = {
        .heap = &heap, .images = images, .nimages = 1, .nkernels = MI_KERNELS, .options = &options};

    tcr_heap_init(&heap, NULL);
    return tcr_device_open(name, &r, d);
}

static struct tcr_device *open_sim(int seed)
{
    char text[16];
    struct tcr_device *d;

    snprintf(text, sizeof text, "%d", seed);
    setenv("TCCC_ORDER_SEED", text, 1);
    ck_assert_msg(try_open("sim", "sm_80", &d) == TCC_OK, "%s", tccrt_error());
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
                                  .access = access,
                                  .may_fault = true,
                                  .node = "add",
                                  .checks = "other\tGather\nadd\tAdd\n"};

    return d->ops->launch(d, queue, &l);
}

static int copy(struct tcr_device *d, int queue, enum tcr_copy_kind kind, void *to, const void *from, size_t bytes)
{
    return d->ops->copy(d, queue,
                        &(struct tcr_copy){.kind = kind, .to = to, .from = from, .bytes = bytes, .node = "copy"});
}

static void says(int status, int want, const char *part)
{
    ck_assert_msg(status == want, "status %d: %s", status, tccrt_error());
    ck_assert_msg(strstr(tccrt_error(), part) != NULL, "expected '%s', got '%s'", part, tccrt_error());
}

static int64_t *memory(struct tcr_device *d, size_t bytes)
{
    int64_t *p = d->ops->alloc(d, 0, bytes, true);

    ck_assert_msg(p != NULL, "%s", tccrt_error());
    return p;
}

/* Walked, recorded and run, replayed; a launch that the graph holds counts when it runs. The run number in a replay is
 * the run's. */
START_TEST(programs)
{
    struct tcr_device *d = open_sim(_i);
    const struct tcr_device_ops *o = d->ops;
    static const int want[] = {TCR_WALK, TCR_RECORD, TCR_REPLAY, TCR_REPLAY};
    int64_t out[N] = {0}, ran[2], *x = memory(d, BYTES), *y = memory(d, BYTES), *z = memory(d, BYTES);
    void *args[] = {z};
    struct tcr_access access = {z, BYTES, TCC_WRITES};
    int how;

    for (int run = 0; run < 4; run++) {
        ck_assert_int_eq(o->begin(d, &(struct tcr_control){.seed = 7, .run = 10 + run}), TCC_OK);
        ck_assert_int_eq(o->program(d, 1, 1, 99, &how), TCC_OK);
        ck_assert_int_eq(how, want[run]);
        if (how != TCR_REPLAY) {
            ck_assert_int_eq(launch_add(d, 1, x, y, 1), TCC_OK);
            ck_assert_int_eq(launch_add(d, 1, y, x, 1), TCC_OK);
            ck_assert_int_eq(
                o->launch(d, 1,
                          &(struct tcr_kernel_launch){
                              .kernel = 1, .nargs = 1, .tiles = 1, .args = args, .access = &access, .node = "control"}),
                TCC_OK);
        }
        if (how == TCR_RECORD)
            ck_assert_int_eq(o->end(d, 1), TCC_OK);
        ck_assert_int_eq(o->sync(d, TCR_ALL), TCC_OK);
        ck_assert_int_eq(copy(d, 0, TCR_TO_HOST, out, x, BYTES), TCC_OK);
        ck_assert_int_eq(copy(d, 0, TCR_TO_HOST, ran, z, sizeof ran), TCC_OK);
        ck_assert_int_eq(o->sync(d, TCR_ALL), TCC_OK);
        ck_assert_int_eq(out[3], 2 * (run + 1));
        ck_assert_int_eq(ran[1], 10 + run);
        ck_assert_int_eq(d->counts.launches, 3 * (run + 1));
    }
    ck_assert(d->counts.programs == 1 && d->counts.replays == 2);
    /* More sizes than are kept: the one that was not used for longest is walked again. */
    for (uint64_t digest = 100; digest < 120; digest++) {
        ck_assert_int_eq(o->program(d, 1, 1, digest, &how), TCC_OK);
        ck_assert_int_eq(how, TCR_WALK);
    }
    ck_assert_int_eq(o->program(d, 1, 1, 119, &how), TCC_OK);
    ck_assert_int_eq(how, TCR_RECORD);
    ck_assert_int_eq(launch_add(d, 1, x, y, 1), TCC_OK);
    ck_assert_int_eq(o->sync(d, TCR_ALL), TCC_OK); /* a run that failed leaves the program */
    ck_assert_int_eq(o->program(d, 1, 1, 99, &how), TCC_OK);
    ck_assert_int_eq(how, TCR_WALK);
    o->close(d);
    ck_assert_uint_eq(heap.held, 0);
}
END_TEST

/* A graph that was recorded for one size serves the others: the function finds them and its tiles in the run's control
 * block. */
START_TEST(sizes_of_runs)
{
    struct tcr_device *d = open_sim(_i);
    const struct tcr_device_ops *o = d->ops;
    int64_t out[N], *x = memory(d, BYTES), *y = memory(d, BYTES), size = 100, values[] = {7, 0, 0};
    void *args[] = {x, y};
    struct tcr_access access[] = {{x, BYTES, TCC_READS}, {y, BYTES, TCC_WRITES}};
    uint32_t at[] = {2, 1, TCC_NO};
    struct tcr_interval ranges[] = {{0, 1000}, {1, N}, {0, 0}};
    struct tcr_kernel_launch l = {.nargs = 2,
                                  .nsizes = 1,
                                  .tiles = 1,
                                  .args = args,
                                  .sizes = &size,
                                  .at = at,
                                  .ranges = ranges,
                                  .access = access,
                                  .node = "add"};
    uint64_t shape = 0, other = 0;
    int how;

    ck_assert(o->holds(d, &l, &shape) && shape);
    l.tiles = 2;
    ck_assert(o->holds(d, &l, &other) && shape == other); /* what it is now doesn't matter */
    ranges[1].hi = 3;
    ck_assert(o->holds(d, &l, &other) && shape != other); /* a smaller grid */
    ranges[1] = (struct tcr_interval){INT64_MIN, 1};
    ck_assert(!o->holds(d, &l, &other));
    ranges[1] = (struct tcr_interval){1, N};
    for (int run = 0; run < 5; run++) {
        values[1] = 1 + 15 * run;
        values[2] = 100 + run;
        ck_assert_int_eq(o->begin(d, &(struct tcr_control){.nvalues = 3, .values = values}), TCC_OK);
        ck_assert_int_eq(o->fill(d, 0, y, 0, BYTES), TCC_OK);
        ck_assert_int_eq(o->sync(d, TCR_ALL), TCC_OK);
        ck_assert_int_eq(o->program(d, 1, 1, 1, &how), TCC_OK);
        ck_assert_int_eq(how, run == 0 ? TCR_WALK : run == 1 ? TCR_RECORD : TCR_REPLAY);
        if (how != TCR_REPLAY)
            ck_assert_int_eq(o->launch(d, 1, &l), TCC_OK);
        if (how == TCR_RECORD)
            ck_assert_int_eq(o->end(d, 1), TCC_OK);
        ck_assert_int_eq(o->sync(d, TCR_ALL), TCC_OK);
        ck_assert_int_eq(copy(d, 0, TCR_TO_HOST, out, y, BYTES), TCC_OK);
        ck_assert_int_eq(o->sync(d, TCR_ALL), TCC_OK);
        for (int i = 0; i < N; i++)
            ck_assert_int_eq(out[i], i < values[1] ? values[2] : 0);
    }
    o->close(d);
}
END_TEST

static int launch_total(struct tcr_device *d, int queue, int64_t *y, int64_t *x, int64_t size)
{
    void *args[MANY + 1];
    struct tcr_kernel_launch l = {
        .kernel = 2, .nargs = MANY + 1, .nsizes = 1, .tiles = MANY, .args = args, .sizes = &size, .node = "total"};

    args[0] = y;
    for (int i = 0; i < MANY; i++)
        args[i + 1] = x + i % N;
    return d->ops->launch(d, queue, &l);
}

/* 601 arguments lie in a table; a program keeps its own. */
START_TEST(tables)
{
    struct tcr_device *d = open_sim(_i);
    const struct tcr_device_ops *o = d->ops;
    int64_t in[N], out = 0, sum = 0, *x = memory(d, BYTES), *y = memory(d, BYTES);
    int how;

    for (int i = 0; i < N; i++)
        in[i] = 3 * i;
    for (int i = 0; i < MANY; i++)
        sum += in[i % N];
    ck_assert_int_eq(copy(d, 0, TCR_TO_DEVICE, x, in, BYTES), TCC_OK);
    ck_assert_int_eq(launch_total(d, 0, y, x, 5), TCC_OK);
    ck_assert_int_eq(copy(d, 0, TCR_TO_HOST, &out, y, 8), TCC_OK);
    ck_assert_int_eq(o->sync(d, TCR_ALL), TCC_OK);
    ck_assert_int_eq(out, sum + 5);
    for (int run = 0; run < 4; run++) {
        ck_assert_int_eq(o->program(d, 2, 4, 1, &how), TCC_OK);
        if (how != TCR_REPLAY)
            ck_assert_int_eq(launch_total(d, 2, y, x, 6), TCC_OK);
        if (how == TCR_RECORD)
            ck_assert_int_eq(o->end(d, 2), TCC_OK);
        ck_assert_int_eq(o->sync(d, TCR_ALL), TCC_OK);
        ck_assert_int_eq(copy(d, 0, TCR_TO_HOST, &out, y, 8), TCC_OK);
        ck_assert_int_eq(o->fill(d, 0, y, 0, 8), TCC_OK);
        ck_assert_int_eq(o->sync(d, TCR_ALL), TCC_OK);
        ck_assert_int_eq(out, sum + 6);
    }
    ck_assert_int_eq(d->counts.replays, 2);
    o->close(d);
}
END_TEST

/* 11 MB by way of blocks of 4; there and back, and within the device, overlapping. */
START_TEST(long_copies)
{
    struct tcr_device *d = open_sim(_i);
    const struct tcr_device_ops *o = d->ops;
    size_t n = (size_t)11 << 20, shift = 5000;
    uint8_t *in = malloc(n), *out = calloc(n, 1), *x = d->ops->alloc(d, 0, n, false);

    for (size_t i = 0; i < n; i++)
        in[i] = (uint8_t)(i * 2654435761u >> 13);
    ck_assert_int_eq(copy(d, 1, TCR_TO_DEVICE, x, in, n), TCC_OK);
    ck_assert_int_eq(o->record(d, 1, 0), TCC_OK);
    ck_assert_int_eq(o->wait(d, 2, 0), TCC_OK);
    ck_assert_int_eq(copy(d, 2, TCR_TO_HOST, out, x, n), TCC_OK);
    ck_assert_int_eq(copy(d, 2, TCR_WITHIN, x + shift, x, n - shift), TCC_OK);
    ck_assert_int_eq(o->record(d, 2, 1), TCC_OK);
    ck_assert_int_eq(o->sync(d, 1), TCC_OK);
    ck_assert(memcmp(in, out, n) == 0);
    ck_assert_int_eq(copy(d, 2, TCR_TO_HOST, out, x, n), TCC_OK);
    ck_assert_int_eq(o->sync(d, TCR_ALL), TCC_OK);
    ck_assert(memcmp(in, out, shift) == 0 && memcmp(in, out + shift, n - shift) == 0);
    o->free(d, 0, x, n, false);
    o->close(d);
    free(in);
    free(out);
}
END_TEST

/* A block of the host's between two copies that an event orders: the second takes what the first brings. */
START_TEST(by_way_of_the_host)
{
    struct tcr_device *d = open_sim(_i);
    const struct tcr_device_ops *o = d->ops;
    int64_t middle[N] = {0}, out[N] = {0}, *x = memory(d, BYTES), *y = memory(d, BYTES);

    ck_assert_int_eq(launch_add(d, 0, x, x, 41), TCC_OK);
    ck_assert_int_eq(copy(d, 0, TCR_TO_HOST, middle, x, BYTES), TCC_OK);
    ck_assert_int_eq(o->record(d, 0, 0), TCC_OK);
    ck_assert_int_eq(o->wait(d, 1, 0), TCC_OK);
    ck_assert_int_eq(copy(d, 1, TCR_TO_DEVICE, y, middle, BYTES), TCC_OK);
    ck_assert_int_eq(copy(d, 1, TCR_TO_HOST, out, y, BYTES), TCC_OK);
    ck_assert_int_eq(o->sync(d, TCR_ALL), TCC_OK);
    ck_assert(middle[9] == 41 && out[9] == 41);
    o->close(d);
}
END_TEST

/* Behind a bad index state is not written: neither from the device nor from the host, of any alignment; what is no
 * state is. */
START_TEST(guarded)
{
    struct tcr_device *d = open_sim(_i);
    const struct tcr_device_ops *o = d->ops;
    int64_t in[N], out[N], *x = memory(d, BYTES), *state = memory(d, BYTES);

    memset(in, 0x55, sizeof in);
    for (int bad = 0; bad < 2; bad++) {
        ck_assert_int_eq(o->begin(d, &(struct tcr_control){.seed = 7}), TCC_OK);
        ck_assert_int_eq(o->fill(d, 0, state, 0, BYTES), TCC_OK);
        ck_assert_int_eq(launch_add(d, 0, x, x, bad ? -1 : 1), TCC_OK);
        struct tcr_copy c = {
            .kind = TCR_WITHIN, .to = state, .from = x, .bytes = 256, .node = "state", .guarded = true};
        ck_assert_int_eq(o->copy(d, 0, &c), TCC_OK);
        c = (struct tcr_copy){TCR_TO_DEVICE, (char *)state + 257, in, 100, "state", .guarded = true};
        ck_assert_int_eq(o->copy(d, 0, &c), TCC_OK);
        ck_assert_int_eq(copy(d, 0, TCR_TO_DEVICE, x, in, 8), TCC_OK);
        if (bad)
            says(o->sync(d, TCR_ALL), TCC_EINDEX, "node 'add' (Add): index -1 is outside an axis of 64");
        else
            ck_assert_int_eq(o->sync(d, TCR_ALL), TCC_OK);
        ck_assert_int_eq(o->begin(d, &(struct tcr_control){.seed = 7}), TCC_OK);
        ck_assert_int_eq(copy(d, 0, TCR_TO_HOST, out, state, BYTES), TCC_OK);
        ck_assert_int_eq(o->sync(d, TCR_ALL), TCC_OK);
        ck_assert_int_eq(out[1], bad ? 0 : 1);
        ck_assert_int_eq(((uint8_t *)out)[257], bad ? 0 : 0x55);
        ck_assert_int_eq(((uint8_t *)out)[356], bad ? 0 : 0x55);
        ck_assert(((uint8_t *)out)[256] == 0 && ((uint8_t *)out)[357] == 0);
        ck_assert_int_eq(copy(d, 0, TCR_TO_HOST, out, x, 8), TCC_OK);
        ck_assert_int_eq(o->sync(d, TCR_ALL), TCC_OK);
        ck_assert_int_eq(out[0], in[0]);
        ck_assert_int_eq(o->fill(d, 0, x, 0, BYTES), TCC_OK);
        ck_assert_int_eq(o->sync(d, TCR_ALL), TCC_OK);
    }
    o->close(d);
}
END_TEST

/* A host that waits for one event hears of the fault while another queue goes on. */
START_TEST(faults_by_event)
{
    struct tcr_device *d = open_sim(_i);
    const struct tcr_device_ops *o = d->ops;
    int64_t *x = memory(d, BYTES), *y = memory(d, BYTES);

    ck_assert_int_eq(launch_add(d, 1, x, x, 1), TCC_OK);
    ck_assert_int_eq(o->record(d, 1, 2), TCC_OK);
    ck_assert_int_eq(o->sync(d, 2), TCC_OK);
    ck_assert_int_eq(launch_add(d, 1, x, x, -1), TCC_OK);
    ck_assert_int_eq(o->record(d, 1, 2), TCC_OK);
    ck_assert_int_eq(launch_add(d, 2, y, y, 2), TCC_OK);
    says(o->sync(d, 2), TCC_EINDEX, "node 'add' (Add): index -1 is outside an axis of 64");
    says(o->sync(d, TCR_ALL), TCC_EINDEX, "is outside an axis of");
    o->close(d);
}
END_TEST

/* What a kernel does outside its arguments ends the device, with one message that names the node. */
START_TEST(dead)
{
    struct tcr_device *d = open_sim(0);
    const struct tcr_device_ops *o = d->ops;
    int64_t host[N] = {0}, *x = memory(d, BYTES);

    ck_assert_int_eq(launch_add(d, 0, x, _i ? host : (int64_t *)0x1000, 1), TCC_OK);
    says(o->sync(d, TCR_ALL), TCC_EENV, "add");
    ck_assert(strstr(tccrt_error(), "of no more use to this process"));
    says(launch_add(d, 0, x, x, 1), TCC_EENV, "of no more use to this process");
    ck_assert_ptr_null(o->alloc(d, 0, 64, false));
    o->close(d);
    ck_assert_uint_eq(heap.held, 0);
}
END_TEST

START_TEST(refusals)
{
    struct tcr_device *d = open_sim(0);
    const struct tcr_device_ops *o = d->ops;
    struct tcr_kernel_launch l = {.kernel = 7, .tiles = 1, .node = "seven"};
    int64_t *x = memory(d, BYTES);
    void *block = NULL;
    size_t held = 0;

    says(o->launch(d, 0, &l), TCC_EENV, "node 'seven': the artifact has no code of kernel 7 for device 'sim'");
    says(launch_add(d, 9, x, x, 1), TCC_EBUG, "no queue 9");
    says(o->record(d, 0, 8), TCC_EBUG, "no event 8");
    says(o->end(d, 0), TCC_EBUG, "the end of no program");
    ck_assert_ptr_null(o->alloc(d, 0, (size_t)1 << 50, false));
    says(TCC_EENV, TCC_EENV, "device 'sim': no memory for 1125899906842624 bytes");
    says(o->grow(d, &block, &held, (size_t)1 << 50), TCC_EENV, "no memory for");
    ck_assert(!block && !held);
    ck_assert_int_eq(o->grow(d, &block, &held, 100), TCC_OK);
    o->release(d, block, held);
    o->close(d);
    says(try_open("sim", "sm_100", &d), TCC_EENV, "the artifact holds code for sm_100 (ptx), device 'sim:0' is");
    says(try_open("sim", "trn1", &d), TCC_EENV, "compile it with --target=cuda:sm_");
    says(try_open("sim:3", "sm_80", &d), TCC_EENV, "no device 'sim:3': there is 1");
    says(try_open("sim:x", "sm_80", &d), TCC_EUSAGE, "no device 'sim:x'");
    ck_assert_ptr_null(d);
    ck_assert_uint_eq(heap.held, 0);
}
END_TEST

/* No driver, one that lacks functions, and one of the user's choice. */
START_TEST(drivers)
{
    static const char *const want[] = {"no CUDA driver (/nowhere/libcuda.so.1: cannot open",
                                       "no CUDA driver (libm.so.6: it has no cu"};
    char path[512];
    struct tcr_device *d;

    snprintf(path, sizeof path, "%s/libtccptx.so.0", getenv("TCCC_LIBDIR"));
    setenv("TCCC_CUDA_LIBRARY", _i == 0 ? "/nowhere/libcuda.so.1" : _i == 1 ? "libm.so.6" : path, 1);
    if (_i < 2) {
        says(try_open("cuda", "sm_80", &d), TCC_EENV, want[_i]);
        ck_assert(strstr(tccrt_error(), "--device=sim runs it in the simulator"));
        return;
    }
    setenv("TCCC_SIM_DEVICES", "3", 1);
    setenv("LOCAL_RANK", "4", 1);
    ck_assert_msg(try_open("cuda", "sm_80", &d) == TCC_OK, "%s", tccrt_error());
    ck_assert_str_eq(d->name, "cuda:1");
    d->ops->close(d);
    ck_assert_int_eq(try_open("cuda:2", "sm_80", &d), TCC_OK);
    ck_assert_str_eq(d->name, "cuda:2");
    d->ops->close(d);
}
END_TEST

/* Every word of an image, replaced in turn: it is refused, or harmless. */
START_TEST(damaged)
{
    static const uint32_t values[] = {0, 3, 0x7fffffff, 0xfffffff0};
    static const struct tccrt_options options;
    struct tcc_pimage *good = mi_image("sm_80"), *image = aligned_alloc(64, 16 << 10);
    const struct tcc_pimage *images[1] = {image};
    struct tcr_device_request r = {
        .heap = &heap, .images = images, .nimages = 1, .nkernels = MI_KERNELS, .options = &options};
    size_t words = good->code.first / 4;
    struct tcr_device *d;
    int refused = 0;

    tcr_heap_init(&heap, NULL);
    for (size_t w = 0; w < words; w++) {
        memcpy(image, good, 16 << 10);
        memcpy((char *)image + 4 * w, &values[w % 4], 4);
        if (tcr_device_open("sim", &r, &d)) {
            refused++;
            ck_assert_ptr_null(d);
            continue;
        }
        d->ops->close(d);
    }
    free(good);
    free(image);
    ck_assert_msg(refused > (int)words / 3, "%d of %zu", refused, words);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cuda");
    TCase *c = tcase_create("cuda");

    tcase_add_loop_test(c, programs, 0, 3);
    tcase_add_loop_test(c, sizes_of_runs, 0, 3);
    tcase_add_loop_test(c, tables, 0, 2);
    tcase_add_loop_test(c, long_copies, 0, 2);
    tcase_add_loop_test(c, by_way_of_the_host, 0, 4);
    tcase_add_loop_test(c, guarded, 0, 2);
    tcase_add_loop_test(c, faults_by_event, 0, 4);
    tcase_add_loop_test(c, dead, 0, 2);
    tcase_add_test(c, refusals);
    tcase_add_loop_test(c, drivers, 0, 3);
    tcase_add_test(c, damaged);
    suite_add_tcase(s, c);
    return run_tests(s);
}
