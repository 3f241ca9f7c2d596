/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of each unit test's main: run its suite, and say by the exit status whether all went well. How much is
 * printed is CK_VERBOSITY's (Check's manual); without it, the failures and a line that counts.
 */
#ifndef TESTS_UNIT_SUITE_H
#define TESTS_UNIT_SUITE_H

#include <check.h>
#include <stdlib.h>

/* A loop test of n rounds: all of them; in an instrumented build, where a round takes ten times as long, one of `every`
 * (all with TCCC_TEST_FULL), from the first on. What is computed is the plain build's to say; these are to find what the
 * compiler and the simulators do to memory, in which rounds differ little. */
#define ADD_ROUNDS_EVERY(tcase, test, n, every)                                                                  \
    do {                                                                                                         \
        const char *flags_ = getenv("INSTRUMENT"), *full_ = getenv("TCCC_TEST_FULL");                            \
        int step_ = flags_ && *flags_ && !(full_ && *full_) ? (every) : 1;                                       \
        for (int round_ = 0; round_ < (n); round_ += step_)                                                      \
            tcase_add_loop_test(tcase, test, round_, round_ + 1);                                                \
    } while (0)
#define ADD_ROUNDS(tcase, test, n) ADD_ROUNDS_EVERY(tcase, test, n, 4)

/* Run a suite, which is freed. The value is an exit status: 0, or 1 where a test failed. */
static inline int run_tests(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

#endif
