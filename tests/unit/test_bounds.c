/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Intervals of the integer program (runtime/bounds.c) against all values that they stand for: each result lies in the
 * interval, of the operations that are monotone the interval is the least one, and what may fail has none.
 */
#include <check.h>

#include "runtime/rt_int.h"
#include "tests/unit/suite.h"

enum { LEAST = -5, MOST = 6 };

static void compare(uint32_t op, struct tcr_interval a, struct tcr_interval b)
{
    struct tcr_interval x = tcr_interval(op, a, b);
    int64_t lo = INT64_MAX, hi = INT64_MIN;
    bool fails = false;

    for (int64_t i = a.lo; i <= a.hi; i++)
        for (int64_t k = b.lo; k <= b.hi; k++) {
            int64_t v = tcr_compute(op, i, k);

            fails |= !TCR_IS_VALUE(v);
            lo = v < lo ? v : lo;
            hi = v > hi ? v : hi;
        }
    if (!tcr_is_bounded(x)) {
        ck_assert_msg(fails || ((op == TCC_EX_FLOORDIV || op == TCC_EX_MOD) && b.lo <= 0), "op %u: not bounded", op);
        return;
    }
    ck_assert_msg(!fails && x.lo <= lo && x.hi >= hi, "op %u of [%d, %d] and [%d, %d]: [%d, %d], expected [%d, %d]", op,
                  (int)a.lo, (int)a.hi, (int)b.lo, (int)b.hi, (int)x.lo, (int)x.hi, (int)lo, (int)hi);
    if (op != TCC_EX_MOD)
        ck_assert_msg(x.lo == lo && x.hi == hi, "op %u of [%d, %d] and [%d, %d]: more than there is", op, (int)a.lo,
                      (int)a.hi, (int)b.lo, (int)b.hi);
}

START_TEST(all_values)
{
    for (int64_t i = LEAST; i <= MOST; i++)
        for (int64_t k = i; k <= MOST; k++)
            for (int64_t m = LEAST; m <= MOST; m++)
                for (int64_t n = m; n <= MOST; n++)
                    compare((uint32_t)_i, (struct tcr_interval){i, k}, (struct tcr_interval){m, n});
}
END_TEST

START_TEST(overflow)
{
    struct tcr_interval large = {1, INT64_MAX / 2}, three = {3, 3}, none = {TCR_BAD, TCR_BAD};

    ck_assert(!tcr_is_bounded(tcr_interval(TCC_EX_MUL, large, three)));
    ck_assert(!tcr_is_bounded(tcr_interval(TCC_EX_ADD, (struct tcr_interval){0, INT64_MAX}, three)));
    ck_assert(!tcr_is_bounded(tcr_interval(TCC_EX_MIN, none, three)));
    ck_assert(!tcr_is_bounded(tcr_interval(TCC_EX_FLOORDIV, three, (struct tcr_interval){0, 0})));
    ck_assert(tcr_interval(TCC_EX_MOD, (struct tcr_interval){13, 15}, (struct tcr_interval){12, 12}).hi == 3);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bounds");
    TCase *tc = tcase_create("bounds");

    tcase_add_loop_test(tc, all_values, TCC_EX_ADD, TCC_EX_MAX + 1);
    tcase_add_test(tc, overflow);
    suite_add_tcase(suite, tc);
    return run_tests(suite);
}
