/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traced programs on devices with memory of their own: the CPU's losses and parameters, state that stays on the device
 * from step to step, what goes between host and device when it is asked for, failures.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/trace/trace_int.h"
#include "tests/unit/suite.h"

#define T struct trace_tensor
#define OK(c, call) ck_assert_msg((call) == TCC_OK, "%s", trace_error(c))

enum { ROWS = 8, WIDTH = 6, HIDDEN = 10, CLASSES = 4, STEPS = 6 };

static const struct {
    const char *device;
    double tolerance;
} devices[] = {{"cpu-split", 0}, {"sim", 2e-6}};
enum { NDEVICES = sizeof devices / sizeof *devices };

static struct trace_ctx *context(const char *device)
{
    struct trace_ctx *c;
    int status = trace_new(&(struct trace_options){.threads = 1, .seed = 7, .cache_dir = "", .device = device}, &c);
    ck_assert_msg(status == TCC_OK, "%s", trace_error(NULL));
    return c;
}

static T *batch(struct trace_ctx *c, int step)
{
    float v[ROWS * WIDTH];
    for (int i = 0; i < ROWS * WIDTH; i++)
        v[i] = sinf((float)(i * 3 + step));
    return trace_from(c, &(struct tcc_tensor){v, TCC_F32, 2, {ROWS, WIDTH}});
}

static T *labels(struct trace_ctx *c, int64_t first)
{
    int64_t v[ROWS];
    for (int i = 0; i < ROWS; i++)
        v[i] = i ? i % CLASSES : first;
    return trace_from(c, &(struct tcc_tensor){v, TCC_I64, 1, {ROWS}});
}

struct net {
    T *w[2], *b[2];
    struct trace_optimizer *optimizer;
};

static void make_net(struct trace_ctx *c, struct net *n)
{
    static const int widths[] = {WIDTH, HIDDEN, CLASSES};
    static const char *const names[] = {"w0", "w1", "b0", "b1"};
    for (int i = 0; i < 2; i++) {
        n->w[i] = trace_param(trace_kaiming(c, TCC_F32, 2, (int64_t[]){widths[i + 1], widths[i]}, widths[i]), names[i]);
        n->b[i] = trace_param(trace_zeros(c, TCC_F32, 1, (int64_t[]){widths[i + 1]}), names[2 + i]);
    }
    n->optimizer = trace_optimizer(c, "adamw:lr=0.01", 4, (T *[]){n->w[0], n->w[1], n->b[0], n->b[1]}, NULL);
    ck_assert_msg(n->optimizer != NULL, "%s", trace_error(c));
}

static T *record(struct trace_ctx *c, struct net *n, int step, int64_t label)
{
    T *hidden = trace_relu(trace_linear(batch(c, step), n->w[0], n->b[0]));
    T *loss = trace_cross_entropy(trace_linear(trace_dropout(hidden, 0.25), n->w[1], n->b[1]), labels(c, label));
    trace_zero_grad(n->optimizer);
    OK(c, trace_backward(loss));
    OK(c, trace_optimizer_step(n->optimizer));
    return loss;
}

struct curve {
    double loss[STEPS];
    float w[CLASSES * HIDDEN];
    struct trace_counters counters;
};

static void closure(void *user, int n, const struct tcc_tensor *values)
{
    ck_assert_int_eq(n, 2);
    ((double *)user)[0] = *(const float *)values[0].data;
    ((double *)user)[1] = *(const float *)values[1].data;
}

/* Losses by closures and by reading; halfway a parameter is read, changed and written. */
static void train(const char *device, struct curve *out)
{
    struct trace_ctx *c = context(device);
    struct net n;
    double seen[STEPS][2];
    make_net(c, &n);
    for (int i = 0; i < STEPS; i++) {
        T *loss = trace_retain(record(c, &n, i, 0));
        OK(c, trace_step_closure(c, closure, seen[i], 2, (T *[]){loss, n.b[1]}));
        OK(c, trace_mark_step(c));
        if (i == STEPS / 2) {
            float b[HIDDEN];
            OK(c, trace_read(n.b[0], b, sizeof b));
            b[3] += 0.5f;
            OK(c, trace_set(n.b[0], &(struct tcc_tensor){b, TCC_F32, 1, {HIDDEN}}));
        }
        if (i % 2)
            OK(c, trace_item(loss, &out->loss[i]));
        trace_release(loss);
    }
    OK(c, trace_wait(c));
    for (int i = 0; i < STEPS; i++) {
        if (i % 2)
            ck_assert_double_eq(out->loss[i], seen[i][0]);
        out->loss[i] = seen[i][0];
        ck_assert_double_ne(seen[i][1], i ? seen[i - 1][1] : 0);
    }
    OK(c, trace_read(n.w[1], out->w, sizeof out->w));
    if (strcmp(device, "cpu")) {
        ck_assert(n.w[1]->data->device && !n.w[1]->data->stale);
        ck_assert_ptr_eq(trace_to(n.w[0], device), n.w[0]);
        ck_assert(n.w[0]->data->stale); /* nobody has read it: it is the device's alone */
        ck_assert_ptr_eq(trace_to(n.w[0], "cpu"), n.w[0]);
        ck_assert(!n.w[0]->data->stale);
        ck_assert_ptr_null(trace_to(n.w[0], "cuda:7"));
        ck_assert_int_eq(trace_mark_step(c), TCC_EUSAGE);
    }
    trace_count(c, &out->counters);
    trace_free(c);
}

START_TEST(trains)
{
    struct curve want, got;
    train("cpu", &want);
    train(devices[_i].device, &got);
    for (int i = 0; i < STEPS; i++)
        ck_assert(fabs(got.loss[i] - want.loss[i]) <= devices[_i].tolerance);
    for (int i = 0; i < CLASSES * HIDDEN; i++)
        ck_assert(fabs((double)got.w[i] - (double)want.w[i]) <= 10 * devices[_i].tolerance);
    ck_assert_int_eq(got.counters.executed, want.counters.executed);
    ck_assert_int_eq(got.counters.compiled, want.counters.compiled);
}
END_TEST

/* A step that fails leaves what lies on the device as it was. */
START_TEST(fails)
{
    struct trace_ctx *c = context(devices[_i].device);
    struct net n;
    float before[CLASSES * HIDDEN], after[CLASSES * HIDDEN];
    make_net(c, &n);
    record(c, &n, 0, 0);
    OK(c, trace_mark_step(c));
    OK(c, trace_read(n.w[1], before, sizeof before));
    record(c, &n, 1, CLASSES + 3);
    trace_mark_step(c);
    ck_assert_int_eq(trace_wait(c), TCC_EINDEX);
    OK(c, trace_read(n.w[1], after, sizeof after));
    ck_assert_mem_eq(before, after, sizeof before);
    record(c, &n, 1, 0);
    OK(c, trace_mark_step(c));
    OK(c, trace_read(n.w[1], after, sizeof after));
    ck_assert_mem_ne(before, after, sizeof before);
    trace_free(c);
}
END_TEST

/* Inputs that many steps read lie on the device from the second on; memory that nobody holds is given back. */
START_TEST(inputs)
{
    struct trace_ctx *c = context(devices[_i].device);
    T *x = trace_retain(batch(c, 0)), *sum = trace_retain(trace_from_number(c, TCC_F32, 0));
    double total;
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(x->data->device != NULL, i > 1);
        trace_assign(sum, trace_add(sum, trace_sum(trace_mul(x, x), -1, NULL, false)));
        OK(c, trace_mark_step(c));
        OK(c, trace_wait(c));
    }
    OK(c, trace_item(sum, &total));
    ck_assert_double_gt(total, 1);
    trace_release(x);
    OK(c, trace_mark_step(c));
    ck_assert_ptr_nonnull(c->executor.garbage);
    trace_assign(sum, trace_add(sum, sum));
    OK(c, trace_mark_step(c));
    OK(c, trace_wait(c));
    ck_assert_ptr_null(c->executor.garbage);
    trace_free(c);
}
END_TEST

/* What is brought there before the first step is there with it. */
START_TEST(at_once)
{
    struct trace_ctx *c = context(devices[_i].device);
    T *x = trace_retain(batch(c, 0)), *other = trace_retain(batch(c, 1));
    ck_assert_ptr_eq(trace_to(x, devices[_i].device), x);
    ck_assert_ptr_eq(trace_to(trace_to(other, devices[_i].device), "cpu"), other);
    T *sum = trace_retain(trace_sum(trace_mul(x, other), -1, NULL, false));
    OK(c, trace_mark_step(c));
    OK(c, trace_wait(c));
    ck_assert_ptr_nonnull(x->data->device);
    ck_assert_ptr_null(other->data->device);
    double total;
    OK(c, trace_item(sum, &total));
    ck_assert_double_ne(total, 0);
    trace_free(c);
}
END_TEST

/* A step begins while the one before is under way: the batch is copied meanwhile. A failure among them is the failing
 * step's. */
START_TEST(ahead)
{
    struct trace_ctx *c = context(devices[_i].device);
    struct net n;
    float before[CLASSES * HIDDEN], after[CLASSES * HIDDEN];
    make_net(c, &n);
    for (int i = 0; i < STEPS; i++) {
        record(c, &n, i, 0);
        OK(c, trace_mark_step(c));
    }
    OK(c, trace_wait(c));
    ck_assert_int_ge(c->executor.ahead, STEPS - 3);
    OK(c, trace_read(n.w[1], before, sizeof before));
    record(c, &n, 1, CLASSES + 3);
    OK(c, trace_mark_step(c));
    record(c, &n, 2, 0);
    trace_mark_step(c);
    ck_assert_int_eq(trace_wait(c), TCC_EINDEX);
    OK(c, trace_read(n.w[1], after, sizeof after));
    ck_assert_mem_eq(before, after, sizeof before);
    record(c, &n, 2, 0);
    OK(c, trace_mark_step(c));
    OK(c, trace_read(n.w[1], after, sizeof after));
    ck_assert_mem_ne(before, after, sizeof before);
    trace_free(c);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("trace_device");
    TCase *t = tcase_create("trace_device");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, trains, 0, NDEVICES);
    tcase_add_loop_test(t, fails, 0, NDEVICES);
    tcase_add_loop_test(t, inputs, 0, NDEVICES);
    tcase_add_loop_test(t, at_once, 0, NDEVICES);
    tcase_add_loop_test(t, ahead, 0, NDEVICES);
    suite_add_tcase(s, t);
    return run_tests(s);
}
