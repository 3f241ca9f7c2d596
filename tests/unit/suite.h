/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of each unit test's main: run its suite, and say by the exit status whether all went well. How much is printed
 * is CK_VERBOSITY's (Check's manual); without it, the failures and a line that counts.
 */
#ifndef TESTS_UNIT_SUITE_H
#define TESTS_UNIT_SUITE_H

#include <check.h>

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
