/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shim between the runtime and MPI that makes messages slow: TCCC_MPI_LIBRARY=libslow_mpi.so. What has been received
 * is held back as a network of SLOW_MPI_BYTES_PER_SECOND and SLOW_MPI_SECONDS of latency would, one message after the
 * other. So tests can show on one machine what overlapping communication with computation is worth. With
 * SLOW_MPI_REPORT it says on standard error how many bytes the process has sent. Linked with MPI's library, whose other
 * functions are found behind this one's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct handle { void *real; size_t bytes; int receives, arrived; double due; };

int PMPI_Isend(const void *, int, void *, int, int, void *, void **);
int PMPI_Irecv(void *, int, void *, int, int, void *, void **);
int PMPI_Test(void **, int *, void *);
int PMPI_Cancel(void **);
int PMPI_Request_free(void **);

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double number(const char *name, double otherwise)
{
    const char *text = getenv(name);

    return text ? strtod(text, NULL) : otherwise;
}

static struct handle *handle_new(size_t bytes, int receives)
{
    struct handle *h = calloc(1, sizeof *h);

    if (!h)
        abort();
    h->bytes = bytes;
    h->receives = receives;
    return h;
}

static double sent;

__attribute__((destructor)) static void report(void)
{
    if (getenv("SLOW_MPI_REPORT"))
        fprintf(stderr, "sent %.0f bytes\n", sent);
}

int MPI_Isend(const void *data, int n, void *type, int to, int tag, void *comm, void **request)
{
    struct handle *h = handle_new((size_t)n, 0);

    sent += n;

    *request = h;
    return PMPI_Isend(data, n, type, to, tag, comm, &h->real);
}

int MPI_Irecv(void *data, int n, void *type, int from, int tag, void *comm, void **request)
{
    struct handle *h = handle_new((size_t)n, from >= 0); /* notes from anybody are not slowed down */

    *request = h;
    return PMPI_Irecv(data, n, type, from, tag, comm, &h->real);
}

int MPI_Test(void **request, int *flag, void *status)
{
    static double busy; /* the link, until then */
    struct handle *h = *request;
    int code = h->arrived ? 0 : PMPI_Test(&h->real, flag, status);

    if (h->arrived)
        *flag = now() >= h->due;
    else if (*flag && h->receives) {
        double t = now();

        busy = (busy > t ? busy : t) + (double)h->bytes / number("SLOW_MPI_BYTES_PER_SECOND", 1e9);
        h->due = busy + number("SLOW_MPI_SECONDS", 0);
        h->arrived = 1;
        *flag = 0;
    }
    if (*flag) {
        free(h);
        *request = NULL;
    }
    return code;
}

int MPI_Cancel(void **request)
{
    struct handle *h = *request;

    return h->arrived ? 0 : PMPI_Cancel(&h->real);
}

int MPI_Request_free(void **request)
{
    struct handle *h = *request;
    int code = h->arrived ? 0 : PMPI_Request_free(&h->real);

    free(h);
    *request = NULL;
    return code;
}
