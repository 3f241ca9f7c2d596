/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the memory gives: GB/s of the median of 9 passes that add up 1 GiB, each thread its part.
 * usage: bandwidth THREADS
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_THREADS = 64, SUMS = 64, PASSES = 9 };

struct part {
    const unsigned *from;
    size_t count;
    unsigned sum;
};

static void *add_up(void *arg)
{
    struct part *p = arg;
    unsigned sums[SUMS] = {0};
    for (size_t i = 0; i + SUMS <= p->count; i += SUMS)
        for (size_t k = 0; k < SUMS; k++)
            sums[k] += p->from[i + k];
    for (size_t k = 0; k < SUMS; k++)
        p->sum += sums[k];
    return NULL;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int longer(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    size_t bytes = (size_t)1 << 30, threads = argc > 1 ? (size_t)atoi(argv[1]) : 1;
    unsigned *data = malloc(bytes), sum = 0;
    struct part parts[MOST_THREADS] = {0};
    pthread_t thread[MOST_THREADS];
    double took[PASSES];
    if (!data || threads < 1 || threads > MOST_THREADS)
        return 2;
    memset(data, 1, bytes);
    for (int pass = 0; pass < PASSES; pass++) {
        double start = seconds();
        for (size_t k = 0; k < threads; k++) {
            parts[k] = (struct part){data + k * (bytes / 4 / threads), bytes / 4 / threads, 0};
            if (pthread_create(&thread[k], NULL, add_up, &parts[k]))
                return 1;
        }
        for (size_t k = 0; k < threads; k++) {
            pthread_join(thread[k], NULL);
            sum += parts[k].sum;
        }
        took[pass] = seconds() - start;
    }
    free(data);
    qsort(took, PASSES, sizeof *took, longer);
    printf("%.2f\n", (double)bytes / took[PASSES / 2] / 1e9 + (sum == 12345 ? 1e-9 : 0)); /* the sum is used */
    return 0;
}
