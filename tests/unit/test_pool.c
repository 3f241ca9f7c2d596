/* SPDX-License-Identifier: Apache-2.0 */
/* Thread pools: every tile once, many callers, sleeping helpers, forks; and the digest against libxxhash. */
#include <check.h>

#include "tests/unit/suite.h"
#undef fail
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <xmmintrin.h>
#include <xxhash.h>

#include "runtime/rt_int.h"

#define TILES 1000

struct work {
    _Atomic int next;
    int hits[TILES];
    _Atomic int parts;
    bool slow;
    struct tcr_pool *p;
};

static void tick(void *arg, int i)
{
    struct work *w = arg;
    int t;

    ck_assert_uint_eq(_mm_getcsr() & 0xffc0, 0x1f80);
    atomic_fetch_add(&w->parts, 1);
    while ((t = atomic_fetch_add(&w->next, 1)) < TILES) {
        w->hits[t]++;
        if (w->slow && t % 100 == 0)
            usleep(200);
        if (i == 0)
            tcr_pool_late(w->p);
    }
}

static void check_region(struct tcr_pool *p, int n, bool slow)
{
    struct work w = {.slow = slow, .p = p};

    tcr_pool_run(p, n, tick, &w);
    for (int i = 0; i < TILES; i++)
        ck_assert_int_eq(w.hits[i], 1);
    ck_assert_int_le(atomic_load(&w.parts), n);
}

START_TEST(regions)
{
    for (int n = 1; n <= 5; n++) {
        struct tcr_pool *p = tcr_pool_get(n), *q = tcr_pool_get(n);

        ck_assert_ptr_eq(p, q);
        for (int i = 0; i < 300; i++)
            check_region(p, 1 + i % (n + 1), i % 50 == 0);
        usleep(3000); /* helpers fall asleep */
        check_region(p, n, true);
        tcr_pool_put(q);
        check_region(p, n, false);
        tcr_pool_put(p);
    }
}
END_TEST

static void *caller(void *arg)
{
    for (int i = 0; i < 200; i++)
        check_region(arg, 3, i % 40 == 0);
    return NULL;
}

START_TEST(many_callers)
{
    struct tcr_pool *p = tcr_pool_get(3);
    pthread_t t[4];

    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, caller, p);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    tcr_pool_put(p);
}
END_TEST

#ifndef __SANITIZE_THREAD__ /* which cannot follow threads that a forked child starts */
START_TEST(forks)
{
    struct tcr_pool *p = tcr_pool_get(3);

    check_region(p, 3, true);
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        int status;

        if (child == 0) {
            check_region(p, 3, true);
            tcr_pool_put(p);
            _exit(0);
        }
        check_region(p, 3, false);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_int_eq(status, 0);
    }
    tcr_pool_put(p);
}
END_TEST
#endif

static void nothing(void *arg, int i)
{
    (void)arg;
    (void)i;
}

static int tasks(void)
{
    DIR *d = opendir("/proc/self/task");
    int n = 0;

    ck_assert(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* Until another thread comes, for two seconds at most. */
static void meet(void *arg, int i)
{
    struct work *w = arg;
    double end = tcr_now() + 2e9;

    if (i)
        atomic_fetch_add(&w->parts, 1);
    while (!atomic_load(&w->parts) && tcr_now() < end)
        tcr_pool_late(w->p);
}

/* Regions that are short and far apart take no second thread, not even when they begin; one that lasts does. A caller
 * who is kept from its processor has long ones: one of several pools must be without another thread. */
START_TEST(short_bursts)
{
    int quiet = 0;

    for (int n = 2; n <= 6; n++) {
        struct tcr_pool *p = tcr_pool_get(n);
        struct work w = {.p = p};
        int before = tasks();

        for (int i = 0; i < 20; i++) {
            tcr_pool_run(p, n, nothing, NULL);
            usleep(500);
        }
        quiet += tasks() == before;
        tcr_pool_run(p, n, meet, &w);
        ck_assert_int_ge(w.parts, 1);
        usleep(3000);
        atomic_store(&w.parts, 0);
        tcr_pool_run(p, n, meet, &w);
        ck_assert_int_ge(w.parts, 1);
        tcr_pool_put(p);
    }
    ck_assert_int_ge(quiet, 1);
}
END_TEST

/* Prints the cost of an empty region, for information: a test asserts no time. */
START_TEST(cost)
{
    struct tcr_pool *p = tcr_pool_get(2);
    double start;
    int n = 100000;

    tcr_pool_run(p, 2, nothing, NULL);
    start = tcr_now();
    for (int i = 0; i < n; i++)
        tcr_pool_run(p, 2, nothing, NULL);
    printf("empty region, 2 threads: %.0f ns\n", (tcr_now() - start) / n);
    tcr_pool_put(p);
}
END_TEST

START_TEST(digest)
{
    static unsigned char data[20000];

    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 131 + (i >> 7));
    for (size_t n = 0; n < sizeof data; n += n < 3000 ? 1 : 61)
        ck_assert_msg(tcr_xxh3(data + n % 7, n) == XXH3_64bits(data + n % 7, n), "%zu bytes", n);
}
END_TEST

START_TEST(cores)
{
    char missing[64] = "";

    ck_assert_int_ge(tcr_cpu_count(), 1);
    ck_assert_int_le(tcr_cpu_count(), (int)sysconf(_SC_NPROCESSORS_ONLN));
    ck_assert(tcr_cpu_runs("x86-64", missing, sizeof missing));
    ck_assert(tcr_cpu_runs("native:+sse2,+cmov", missing, sizeof missing));
    ck_assert(!tcr_cpu_runs("native:sse2,perpetuum", missing, sizeof missing));
    ck_assert_str_eq(missing, "perpetuum");
    ck_assert(!tcr_cpu_runs("x86-64-v9", missing, sizeof missing));
    ck_assert_int_eq(tcr_cpu_runs("x86-64-v3", missing, sizeof missing), __builtin_cpu_supports("x86-64-v3") != 0);
    ck_assert_int_eq(tcr_cpu_runs("x86-64-v4", missing, sizeof missing), __builtin_cpu_supports("x86-64-v4") != 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pool");
    TCase *tc = tcase_create("pool");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, regions);
    tcase_add_test(tc, many_callers);
    tcase_add_test(tc, short_bursts);
#ifndef __SANITIZE_THREAD__
    tcase_add_test(tc, forks);
#endif
    tcase_add_test(tc, cost);
    tcase_add_test(tc, digest);
    tcase_add_test(tc, cores);
    suite_add_tcase(suite, tc);
    return run_tests(suite);
}
