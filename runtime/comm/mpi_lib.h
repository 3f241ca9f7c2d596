/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpi_lib.h - an MPI library, opened at run time, whichever binary interface it has. Functions return MPI's codes (0:
 * well); all handles go through union tcr_handle, of which the library's interface uses one member.
 */
#ifndef TCCRT_COMM_MPI_LIB_H
#define TCCRT_COMM_MPI_LIB_H

#include "runtime/comm/engine.h"

struct mpi;

/* NULL with a message: not there, or of an unknown interface. `name`: NULL: $TCCC_MPI_LIBRARY, else the launcher's. It
 * stays open, since MPI libraries do not survive being closed; mpi_lib_free() gives back what is ours. */
struct mpi *mpi_lib_open(const char *name);
void mpi_lib_free(struct mpi *m);
union tcr_handle mpi_lib_world(const struct mpi *m);
union tcr_handle mpi_lib_adopt(const struct mpi *m, const void *communicator);       /* of an MPI_Comm's address */
void mpi_lib_text(const struct mpi *m, int code, char text[512]);

/* Initialises it unless that is done already (*ours: it was not). *level: 0, 1, 2, 3: single, funneled, serialized,
 * multiple. */
int mpi_lib_begin(const struct mpi *m, bool *ours, int *level);
int mpi_lib_finalize(const struct mpi *m);
int mpi_lib_dup(const struct mpi *m, union tcr_handle comm, union tcr_handle *out);  /* its errors are returned */
int mpi_lib_free_comm(const struct mpi *m, union tcr_handle *comm);
int mpi_lib_place(const struct mpi *m, union tcr_handle comm, int *rank, int *size);
/* the ranks of this machine */
int mpi_lib_shared(const struct mpi *m, union tcr_handle comm, union tcr_handle *out);
int mpi_lib_largest_tag(const struct mpi *m);                                        /* -1: not known */
int mpi_lib_isend(const struct mpi *m, const void *data, int n, int to, int tag, union tcr_handle comm,
                  union tcr_handle *request);
int mpi_lib_irecv(const struct mpi *m, void *data, int n, int from, int tag, union tcr_handle comm,
                  union tcr_handle *request);
int mpi_lib_test(const struct mpi *m, union tcr_handle *request, int *done);
void mpi_lib_cancel(const struct mpi *m, union tcr_handle *request);

#endif
