/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that uses MPI itself lends half of its processes (even ranks, odd ranks) to the runtime, at the thread
 * level that the argument says (0: MPI_THREAD_SINGLE, 3: MULTIPLE), and goes on with MPI afterwards. Exit 0: all is
 * right.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/tccrt.h"

int main(int argc, char **argv)
{
    struct tccrt_comm_options options = {.timeout = 20};
    struct tccrt_comm *world;
    struct tccrt_request *request;
    float x[3] = {0, 1, 2};
    struct tcc_tensor t = {x, TCC_F32, 1, {3}};
    int level, rank, size, sum = 0, all = 0, want = 0;
    MPI_Comm half;
    bool done = false;

    MPI_Init_thread(&argc, &argv, argc > 1 ? atoi(argv[1]) : MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    options.adopt = &half;
    x[0] = (float)rank;
    for (int i = rank % 2; i < size; i += 2)
        want += i;
    if (tccrt_comm_init(&options, &world) || tccrt_comm_all_reduce(world, TCCRT_SUM, 1, 1, &t, &t, &request)) {
        fprintf(stderr, "rank %d: %s\n", rank, tccrt_error());
        return 3;
    }
    while (!done)
        tccrt_comm_test(request, &done);
    if (tccrt_comm_wait(request) || x[0] != (float)want || x[2] != 2 * (float)tccrt_comm_size(world) ||
        tccrt_comm_rank(world) != rank / 2 || tccrt_comm_finalize(world, NULL)) {
        fprintf(stderr, "rank %d: %g, not %d; %s\n", rank, (double)x[0], want, tccrt_error());
        return 3;
    }
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++)
        all += i;
    MPI_Finalize();
    return sum != all;
}
