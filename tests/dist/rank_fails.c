/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that fail, run by all ranks of a job: rank 1 does what the argument says, and every other rank must be told by
 * a status that names it: at once, or within the time limit (3 s) where rank 1 is there and says nothing. A limit of
 * 15 s leaves those that are told at once time on a machine with much else to do.
 *   rank-fails late|early|hang|sleep|stop|die|quit|abort|order|count|differ
 * on_device.h: on GPUs.
 * Prints a line for each rank that got its status; exits with 3, as a program does that has met one.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/tccrt.h"
#include "tests/dist/on_device.h"

enum { LIMIT = 3, LONG_LIMIT = 15 };

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What rank 1 does instead of the second all_reduce. */
static int misbehave(const char *how, struct tccrt_comm *world, struct tcc_tensor *x)
{
    if (!strcmp(how, "hang"))
        for (double end = now() + 20; now() < end;) /* busy, but with nothing of ours */
            ;
    if (!strcmp(how, "sleep"))
        sleep(20);
    if (!strcmp(how, "stop"))
        raise(SIGSTOP);
    if (!strcmp(how, "die"))
        raise(SIGKILL);
    if (!strcmp(how, "quit"))
        return tccrt_comm_finalize(world, "it ran out of data after step 1");
    if (!strcmp(how, "abort"))
        tccrt_comm_abort(world, "no space left on device: model.safetensors");
    if (!strcmp(how, "order"))
        return tccrt_comm_recv(world, 0, 5, x, NULL);
    if (!strcmp(how, "count"))
        x->dims[0]--;
    return tccrt_comm_all_reduce(world, TCCRT_SUM, 1, 1, x, x, NULL);
}

int main(int argc, char **argv)
{
    struct tccrt_comm_options options = {.timeout = 10};
    struct tccrt_comm *world;
    float data[1000] = {0};
    struct tcc_tensor x = {data, TCC_F32, 1, {1000}};
    const char *how = argc > 1 ? argv[1] : "";
    int rank, status;

    const char *me = getenv("OMPI_COMM_WORLD_RANK") ? getenv("OMPI_COMM_WORLD_RANK") : getenv("RANK");
    bool late = !strcmp(how, "late") || !strcmp(how, "early");
    if (late)
        options.timeout = 2 * LIMIT;
    if (!strcmp(how, "early") && me && !strcmp(me, "0")) /* gives up before the others */
        options.timeout = LIMIT;
    if (late && me && !strcmp(me, "1"))
        sleep(20);
    if (tccrt_comm_init(&options, &world)) {
        printf("rank ?: %s\n", tccrt_error());
        return 3;
    }
    rank = tccrt_comm_rank(world);
    on_begin(rank);
    bool silent = !strcmp(how, "hang") || !strcmp(how, "sleep") || !strcmp(how, "stop");
    tccrt_comm_timeout(world, silent ? LIMIT : LONG_LIMIT);
    status = strcmp(how, "differ") ? TCC_OK : tccrt_comm_agree(world, "artifact", rank == 1 ? "other" : "this");
    if (!status)
        status = tccrt_comm_all_reduce(world, TCCRT_SUM, 1, 1, &x, &x, NULL);
    if (status) {
        printf("rank %d: status %d after 0.0 s: %s\n", rank, status, tccrt_error());
        tccrt_comm_finalize(world, tccrt_error());
        return 3;
    }
    double start = now();
    status = rank == 1 ? misbehave(how, world, &x) : tccrt_comm_all_reduce(world, TCCRT_SUM, 1, 1, &x, &x, NULL);
    printf("rank %d: status %d after %.1f s: %s\n", rank, status, now() - start, tccrt_error());
    fflush(stdout);
    if (tccrt_comm_barrier(world, NULL) == TCC_OK && status)
        printf("rank %d: a later call went well\n", rank);
    tccrt_comm_finalize(world, NULL);
    return 3;
}
