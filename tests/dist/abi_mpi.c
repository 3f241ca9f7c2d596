/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An MPI library with the standard's binary interface (MPI 5.0, chapter 20), made of Open MPI's: predefined handles,
 * constants and levels of threads are the standard's, and become Open MPI's. As much as runtime/comm/mpi_lib.c calls.
 * The values are those of the MPI Forum's mpi.h.
 *   cc -shared -fPIC abi_mpi.c -o libmpi_abi.so.0 -l:libmpi.so.40, then TCCC_MPI_LIBRARY=libmpi_abi.so.0
 */
#include <stdint.h>

extern char ompi_mpi_comm_world[], ompi_mpi_byte[], ompi_mpi_info_null[], ompi_mpi_errors_return[];

int PMPI_Initialized(int *), PMPI_Init_thread(int *, char ***, int, int *), PMPI_Query_thread(int *),
    PMPI_Finalize(void), PMPI_Error_string(int, char *, int *), PMPI_Get_library_version(char *, int *),
    PMPI_Comm_dup(void *, void **), PMPI_Comm_free(void **), PMPI_Comm_rank(void *, int *),
    PMPI_Comm_size(void *, int *), PMPI_Comm_split_type(void *, int, int, void *, void **),
    PMPI_Comm_set_errhandler(void *, void *), PMPI_Comm_get_attr(void *, int, void *, int *),
    PMPI_Isend(const void *, int, void *, int, int, void *, void **),
    PMPI_Irecv(void *, int, void *, int, int, void *, void **), PMPI_Test(void **, int *, void *), PMPI_Cancel(void **),
    PMPI_Request_free(void **);

static void *handle(void *h)
{
    switch ((uintptr_t)h) {
    case 0x101: return ompi_mpi_comm_world;
    case 0x130: return ompi_mpi_info_null;
    case 0x142: return ompi_mpi_errors_return;
    case 0x247: return ompi_mpi_byte;
    default: return h;
    }
}

static const int levels[] = {0, 1024, 2048, 4096};

static int level(int standard)
{
    int n = 0;

    while (n < 3 && levels[n] < standard)
        n++;
    return n;
}

int MPI_Initialized(int *flag)
{
    return PMPI_Initialized(flag);
}
int MPI_Finalize(void)
{
    return PMPI_Finalize();
}
int MPI_Error_string(int code, char *text, int *n)
{
    return PMPI_Error_string(code, text, n);
}
int MPI_Get_library_version(char *text, int *n)
{
    return PMPI_Get_library_version(text, n);
}
int MPI_Init_thread(int *argc, char ***argv, int wanted, int *given)
{
    int code = PMPI_Init_thread(argc, argv, level(wanted), given);

    *given = levels[*given];
    return code;
}
int MPI_Query_thread(int *given)
{
    int code = PMPI_Query_thread(given);

    *given = levels[*given];
    return code;
}
int MPI_Comm_dup(void *c, void **out)
{
    return PMPI_Comm_dup(handle(c), out);
}
int MPI_Comm_free(void **c)
{
    return PMPI_Comm_free(c);
}
int MPI_Comm_rank(void *c, int *rank)
{
    return PMPI_Comm_rank(handle(c), rank);
}
int MPI_Comm_size(void *c, int *size)
{
    return PMPI_Comm_size(handle(c), size);
}
int MPI_Comm_split_type(void *c, int how, int key, void *info, void **out)
{
    return PMPI_Comm_split_type(handle(c), how == 221 ? 0 : -1, key, handle(info), out);
}
int MPI_Comm_set_errhandler(void *c, void *e)
{
    return PMPI_Comm_set_errhandler(handle(c), handle(e));
}
int MPI_Comm_get_attr(void *c, int key, void *value, int *found)
{
    return PMPI_Comm_get_attr(handle(c), key == 501 ? 0 : -1, value, found);
}
int MPI_Isend(const void *data, int n, void *type, int to, int tag, void *c, void **request)
{
    return PMPI_Isend(data, n, handle(type), to, tag, handle(c), request);
}
int MPI_Irecv(void *data, int n, void *type, int from, int tag, void *c, void **request)
{
    return PMPI_Irecv(data, n, handle(type), from, tag, handle(c), request);
}
int MPI_Test(void **request, int *flag, void *status)
{
    return PMPI_Test(request, flag, status);
}
int MPI_Cancel(void **request)
{
    return PMPI_Cancel(request);
}
int MPI_Request_free(void **request)
{
    return PMPI_Request_free(request);
}
