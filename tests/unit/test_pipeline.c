/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pipeline schedules of equal stages: makespans, bubbles and microbatches held are those of the published formulas;
 * every schedule runs each forward and backward pass once, in an order that never blocks.
 */
#include "passes/pass.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

static struct ir_ctx *ctx;

static void setup(void)
{
    ctx = ir_ctx_new();
}

static void teardown(void)
{
    ir_ctx_free(ctx);
}

static struct pipeline_order *make(enum pipeline_kind kind, int p, int m, int chunks, int active, double tf, double tb)
{
    struct pipeline_options o = {kind, chunks, m, active};
    double *f = IR_NEWN(ctx, p * chunks, double), *b = IR_NEWN(ctx, p * chunks, double);
    for (int i = 0; i < p * chunks; i++) {
        f[i] = tf / chunks;
        b[i] = tb / chunks;
    }
    struct pipeline_order *order = pipeline_make(ctx, &o, p, p * chunks, NULL, f, b, true);
    ck_assert_ptr_nonnull(order);
    return order;
}

static void check_whole(const struct pipeline_order *o)
{
    for (int s = 0; s < o->stages; s++) {
        int v = o->segments / o->stages, *next = IR_NEWN(ctx, 2 * v, int);
        ck_assert_int_eq(o->stage[s].n, 2 * v * o->o.micros);
        for (int i = 0; i < o->stage[s].n; i++) {
            const struct pipeline_task *t = &o->stage[s].at[i];
            ck_assert_int_eq(t->segment % o->stages, s);
            ck_assert_int_eq(t->micro, next[2 * (t->segment / o->stages) + t->backward]++);
            if (i)
                ck_assert(t->start >= t[-1].end - 1e-9);
        }
    }
}

START_TEST(gpipe_and_1f1b)
{
    static const int kinds[] = {PIPELINE_SIMPLE, PIPELINE_1F1B};
    for (int k = 0; k < 2; k++)
        for (int p = 1; p <= 8; p++)
            for (int m = 1; m <= 17; m++)
                for (int tb = 1; tb <= 3; tb++) {
                    struct pipeline_order *o = make(kinds[k], p, m, 1, 0, 1, tb);
                    check_whole(o);
                    ck_assert_double_eq_tol(o->makespan, (m + p - 1) * (1.0 + tb), 1e-9);
                    ck_assert_double_eq_tol(pipeline_bubble(o), (p - 1.0) / (m + p - 1), 1e-9);
                    for (int r = 0; r < p; r++)
                        ck_assert_int_eq(o->peak[r], k == 0 ? m : m < p - r ? m : p - r);
                }
}
END_TEST

/* Rank r: min(m, p-1-r) forward passes, then one forward and one backward in turn, then the other backward passes. */
START_TEST(order_of_1f1b)
{
    int p = 4, m = 7;
    struct pipeline_order *o = make(PIPELINE_1F1B, p, m, 1, 0, 1, 2);
    for (int r = 0; r < p; r++) {
        int warm = p - 1 - r, at = 0;
        const struct pipeline_task *t = o->stage[r].at;
        for (int i = 0; i < warm; i++, at++)
            ck_assert(!t[at].backward && t[at].micro == i);
        for (int i = warm; i < m; i++, at += 2) {
            ck_assert(!t[at].backward && t[at].micro == i);
            ck_assert(t[at + 1].backward && t[at + 1].micro == i - warm);
        }
        for (int i = m - warm; i < m; i++, at++)
            ck_assert(t[at].backward && t[at].micro == i);
    }
}
END_TEST

START_TEST(interleaved_1f1b)
{
    for (int p = 2; p <= 4; p++)
        for (int v = 1; v <= 4; v++)
            for (int rounds = 1; rounds <= 4; rounds++)
                for (int tb = 1; tb <= 2; tb++) {
                    int m = p * rounds;
                    struct pipeline_order *o = make(PIPELINE_1F1B_INTERLEAVED, p, m, v, 0, 1, tb);
                    check_whole(o);
                    ck_assert_double_eq_tol(o->makespan, m * (1.0 + tb) + (p - 1) * (1.0 + tb) / v, 1e-9);
                }
    struct pipeline_order *o = make(PIPELINE_1F1B_INTERLEAVED, 4, 8, 2, 0, 1, 1);
    static const int peaks[] = {11, 9, 7, 5};
    for (int r = 0; r < 4; r++)
        ck_assert_int_eq(o->peak[r], peaks[r]);
}
END_TEST

START_TEST(microbatches_that_do_not_fit)
{
    struct pipeline_options o = {PIPELINE_1F1B_INTERLEAVED, 2, 9, 0};
    ck_assert_ptr_null(pipeline_make(ctx, &o, 4, 8, NULL, NULL, NULL, true));
    ck_assert_int_eq(ir_nerrors(ctx), 1);
}
END_TEST

/* SageMaker's interleaved: as fast as 1F1B on equal stages; never more in flight than asked. */
START_TEST(backward_first)
{
    for (int p = 1; p <= 6; p++)
        for (int m = 1; m <= 16; m++) {
            struct pipeline_order *o = make(PIPELINE_INTERLEAVED, p, m, 1, 0, 1, 2);
            check_whole(o);
            for (int r = 0; r < p; r++)
                ck_assert_int_le(o->peak[r], p + 2);
            ck_assert_double_eq_tol(o->makespan, (m + p - 1) * 3.0, 1e-9);
        }
}
END_TEST

/* Every schedule's bubble is its formula: of m microbatches on p stages, each of v chunks, the part (p-1)/v of m +
 * (p-1)/v. */
START_TEST(bubbles)
{
    static const int kinds[] = {PIPELINE_SIMPLE, PIPELINE_INTERLEAVED, PIPELINE_1F1B, PIPELINE_1F1B_INTERLEAVED};
    for (int k = 0; k < 4; k++)
        for (int p = 1; p <= 8; p++)
            for (int rounds = 1; rounds <= 6; rounds++)
                for (int v = 1; v <= (kinds[k] == PIPELINE_1F1B_INTERLEAVED ? 4 : 1); v++)
                    for (int tb = 1; tb <= 3; tb++) {
                        int m = p * rounds;
                        struct pipeline_order *o = make(kinds[k], p, m, v, 0, 1, tb);
                        double waits = (p - 1.0) / v;
                        check_whole(o);
                        ck_assert_double_eq_tol(pipeline_bubble(o), waits / (m + waits), 1e-9);
                        ck_assert_double_eq_tol(o->makespan, (m + waits) * (1.0 + tb), 1e-9);
                        for (int r = 0; r < p; r++)
                            ck_assert_double_eq_tol(o->busy[r], m * (1.0 + tb), 1e-9);
                    }
}
END_TEST

START_TEST(bounds_in_flight)
{
    static const int kinds[] = {PIPELINE_SIMPLE, PIPELINE_INTERLEAVED, PIPELINE_1F1B};
    for (int k = 0; k < 3; k++)
        for (int active = 1; active <= 8; active++) {
            struct pipeline_order *o = make(kinds[k], 4, 12, 1, active, 1, 2);
            check_whole(o);
            for (int r = 0; r < 4; r++)
                ck_assert_int_le(o->peak[r], active);
        }
    /* One in flight: one microbatch after the other. */
    ck_assert_double_eq_tol(make(PIPELINE_SIMPLE, 4, 12, 1, 1, 1, 2)->makespan, 12 * 4 * 3.0, 1e-9);
}
END_TEST

/* Segments without work, and a stage that owns first and last layers. */
START_TEST(uneven_segments)
{
    const bool empty[] = {false, false, false, true};
    struct pipeline_options o = {PIPELINE_1F1B, 1, 6, 0};
    struct pipeline_order *order = pipeline_make(ctx, &o, 2, 4, empty, NULL, NULL, true);
    ck_assert_ptr_nonnull(order);
    ck_assert_int_eq(order->stage[0].n, 4 * 6);
    ck_assert_int_eq(order->stage[1].n, 2 * 6);
    order = pipeline_make(ctx, &o, 2, 4, empty, NULL, NULL, false);
    ck_assert_int_eq(order->stage[0].n, 2 * 6);
}
END_TEST

START_TEST(texts)
{
    struct pipeline_options o = {0};
    ck_assert(pipeline_parse(ctx, NULL, &o) && o.kind == PIPELINE_INTERLEAVED);
    ck_assert(pipeline_parse(ctx, "1f1b", &o) && o.kind == PIPELINE_1F1B && o.chunks == 1);
    ck_assert(pipeline_parse(ctx, "1f1b-interleaved:chunks=3", &o) && o.chunks == 3);
    ck_assert(!pipeline_parse(ctx, "1f1b:chunks=3", &o));
    ck_assert(!pipeline_parse(ctx, "1f1b-interleaved:chunks=0", &o));
    ck_assert(!pipeline_parse(ctx, "zigzag", &o));
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("pipeline");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, gpipe_and_1f1b);
    tcase_add_test(c, order_of_1f1b);
    tcase_add_test(c, interleaved_1f1b);
    tcase_add_test(c, microbatches_that_do_not_fit);
    tcase_add_test(c, backward_first);
    tcase_add_test(c, bubbles);
    tcase_add_test(c, bounds_in_flight);
    tcase_add_test(c, uneven_segments);
    tcase_add_test(c, texts);
    Suite *s = suite_create("pipeline");
    suite_add_tcase(s, c);
    return run_tests(s);
}
