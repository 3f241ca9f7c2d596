/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bandwidth of all-reduces: MPI_Allreduce of float32 beside tccrt_comm_all_reduce of float32 and bf16, on as many
 * bytes.
 *   mpicc -O2 -I. tests/bench/allreduce.c build/libtccrt.a -lm -lpthread -o allreduce && mpirun -np 2 ./allreduce [MB]
 * The best of ten, in turn; MPI's is measured before the runtime's thread begins.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/tccrt.h"

static void report(int rank, const char *what, size_t bytes, double best)
{
    if (rank == 0)
        printf("%-24s %5zu MB %8.2f ms %6.2f GB/s\n", what, bytes >> 20, best * 1e3, (double)bytes / best * 1e-9);
}

int main(int argc, char **argv)
{
    size_t bytes = (size_t)(argc > 1 ? atol(argv[1]) : 64) << 20;
    float *x = malloc(bytes), *y = malloc(bytes);
    MPI_Comm all = MPI_COMM_WORLD;
    struct tccrt_comm_options options = {.adopt = &all};
    struct tccrt_comm *world;
    double best = 1e9;
    int level, rank;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(all, &rank);
    for (size_t i = 0; i < bytes / 4; i++)
        x[i] = 1;
    for (int k = 0; k < 10; k++) {
        MPI_Barrier(all);
        double start = MPI_Wtime();
        MPI_Allreduce(x, y, (int)(bytes / 4), MPI_FLOAT, MPI_SUM, all);
        best = MPI_Wtime() - start < best ? MPI_Wtime() - start : best;
    }
    report(rank, "MPI_Allreduce f32", bytes, best);
    if (tccrt_comm_init(&options, &world)) {
        fprintf(stderr, "%s\n", tccrt_error());
        return 3;
    }
    for (int bf16 = 0; bf16 < 2; bf16++) {
        struct tcc_tensor in = {x, bf16 ? TCC_BF16 : TCC_F32, 1, {(int64_t)(bytes / (bf16 ? 2 : 4))}}, out = in;
        out.data = y;
        best = 1e9;
        for (int k = 0; k < 10; k++) {
            tccrt_comm_barrier(world, NULL);
            double start = MPI_Wtime();
            if (tccrt_comm_all_reduce(world, TCCRT_SUM, 1, 1, &in, &out, NULL))
                fprintf(stderr, "%s\n", tccrt_error());
            best = MPI_Wtime() - start < best ? MPI_Wtime() - start : best;
        }
        report(rank, bf16 ? "all_reduce bf16" : "all_reduce f32", bytes, best);
    }
    tccrt_comm_finalize(world, NULL);
    MPI_Finalize();
    return 0;
}
