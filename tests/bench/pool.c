/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.c - what a parallel region costs, on 2 threads up to all cores: the time from the call to its return
 *   empty     with parts that do nothing: the caller waits for nobody who hasn't come
 *   all join  with parts that end when all threads have come: a fork and a join
 * Gaps between regions are as in a network: a helper spins through short ones and sleeps in long ones.
 *
 * usage: pool     a Markdown table on standard output; times in microseconds
 */
#include "runtime/rt_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define REGIONS 4001

static double microseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + 1e-3 * (double)t.tv_nsec;
}

struct meeting {
    _Alignas(TCR_ALIGN) _Atomic int come;
    int threads;
    struct tcr_pool *pool;
};

static void nothing(void *arg, int i)
{
    (void)arg;
    (void)i;
}

/* Ends after 10 ms at the latest: the system may refuse threads. */
static void meet(void *arg, int i)
{
    struct meeting *m = arg;
    double end = microseconds() + 10e3;
    atomic_fetch_add(&m->come, 1);
    while (atomic_load_explicit(&m->come, memory_order_acquire) < m->threads && microseconds() < end)
        if (i == 0)
            tcr_pool_late(m->pool);
}

static void wait_for(double us)
{
    for (double end = microseconds() + us; microseconds() < end;)
        ;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double regions(struct tcr_pool *p, int threads, double gap, void (*part)(void *arg, int i), double *often)
{
    static double us[REGIONS];
    struct meeting m = {.threads = threads, .pool = p};
    for (int i = 0; i < REGIONS; i++) {
        wait_for(gap);
        atomic_store(&m.come, 0);
        us[i] = microseconds();
        tcr_pool_run(p, threads, part, &m);
        us[i] = microseconds() - us[i];
    }
    qsort(us, REGIONS, sizeof *us, ascending);
    *often = us[REGIONS * 9 / 10];
    return us[REGIONS / 2];
}

int main(void)
{
    int cores = tcr_cpu_count();
    printf("| threads | gap | empty: median | nine of ten within | all join: median | nine of ten within |\n"
           "| --- | --- | --- | --- | --- | --- |\n");
    for (int threads = 2; threads <= cores; threads = threads < cores && threads * 2 > cores ? cores : threads * 2) {
        struct tcr_pool *p = tcr_pool_get(threads);
        for (int gap = 0; p && gap <= 50; gap = gap ? gap * 5 : 2) {
            double empty, all, empty_often, all_often;
            empty = regions(p, threads, gap, nothing, &empty_often);
            all = regions(p, threads, gap, meet, &all_often);
            printf("| %d | %d | %.2f | %.2f | %.2f | %.2f |\n", threads, gap, empty, empty_often, all, all_often);
        }
        tcr_pool_put(p);
    }
    return 0;
}
