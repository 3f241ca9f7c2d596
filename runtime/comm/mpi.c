/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine over MPI. Three copies of the world's communicator keep our messages apart from the program's and the
 * lanes from each other. All calls are made under the net's lock, so MPI_THREAD_SERIALIZED is enough.
 */
#include <stdlib.h>

#include "runtime/comm/comm_int.h"
#include "runtime/comm/mpi_lib.h"

struct lanes {
    struct mpi *m;
    bool ours; /* we initialised it */
    union tcr_handle comm[TCR_NLANES];
};

static int failed(const struct mpi *m, const char *what, int code)
{
    char text[512];

    mpi_lib_text(m, code, text);
    return tcr_fail(TCC_EENV, "MPI: %s: %s", what, text);
}

int tccrt_comm_available(const char *library)
{
    struct mpi *m;

    tcr_clear_error();
    m = mpi_lib_open(library);
    mpi_lib_free(m);
    return m != NULL;
}

/* -- Beginning and end ---------------------------------------------------------------------------------------- */

enum { SERIALIZED = 2, MULTIPLE = 3 };

static int begin(struct lanes *l, bool *threaded)
{
    int level, code = mpi_lib_begin(l->m, &l->ours, &level);

    *threaded = level >= (l->ours ? SERIALIZED : MULTIPLE);
    return code ? tcr_fail(TCC_EENV, "MPI_Init_thread failed (%d)", code) : TCC_OK;
}

static int join(struct tcr_net *net, struct lanes *l, union tcr_handle world)
{
    union tcr_handle local = {0};
    int code = 0, most = mpi_lib_largest_tag(l->m);

    for (int i = 0; i < TCR_NLANES && !code; i++)
        code = mpi_lib_dup(l->m, world, &l->comm[i]);
    if (!code)
        code = mpi_lib_place(l->m, world, &net->rank, &net->size);
    if (!code)
        code = mpi_lib_shared(l->m, world, &local);
    if (code)
        return failed(l->m, "joining the world", code);
    mpi_lib_place(l->m, local, &net->local_rank, &net->local_size);
    mpi_lib_free_comm(l->m, &local);
    if (most < (1 << TCR_TAG_BITS) - 1)
        return tcr_fail(TCC_EENV, "MPI: message tags up to %d are needed, %d is this library's largest",
                        (1 << TCR_TAG_BITS) - 1, most);
    return TCC_OK;
}

static int mpi_open(struct tcr_net *net, const struct tccrt_comm_options *options)
{
    struct lanes *l = calloc(1, sizeof *l);
    int status;

    if (!l)
        return tcr_fail(TCC_EENV, "no memory for MPI");
    if (!(l->m = mpi_lib_open(options->library)))
        status = TCC_EENV;
    else if (!(status = begin(l, &net->threaded)) && options->adopt && l->ours)
        status = tcr_fail(TCC_EUSAGE, "a communicator is to be adopted, but the program has not initialised MPI");
    if (!status)
        status = join(net, l, options->adopt ? mpi_lib_adopt(l->m, options->adopt) : mpi_lib_world(l->m));
    if (status) {
        mpi_lib_free(l->m);
        free(l);
        return status;
    }
    net->data = l;
    return TCC_OK;
}

static void mpi_close(struct tcr_net *net, bool broken)
{
    struct lanes *l = net->data;

    for (int i = 0; i < TCR_NLANES && !broken; i++)
        mpi_lib_free_comm(l->m, &l->comm[i]);
    if (l->ours && !broken)
        mpi_lib_finalize(l->m);
    mpi_lib_free(l->m);
    free(l);
}

/* -- Messages ------------------------------------------------------------------------------------------------- */

static int mpi_send(struct tcr_net *net, int lane, int to, int tag, const void *data, size_t bytes,
                    struct tcr_pending *p)
{
    struct lanes *l = net->data;
    int code = mpi_lib_isend(l->m, data, (int)bytes, to, tag, l->comm[lane], &p->at[0]);

    return code ? failed(l->m, "send", code) : TCC_OK;
}

static int mpi_recv(struct tcr_net *net, int lane, int from, int tag, void *data, size_t bytes, struct tcr_pending *p)
{
    struct lanes *l = net->data;
    int code = mpi_lib_irecv(l->m, data, (int)bytes, from, tag, l->comm[lane], &p->at[0]);

    return code ? failed(l->m, "receive", code) : TCC_OK;
}

static int mpi_test(struct tcr_net *net, struct tcr_pending *p, bool *done)
{
    struct lanes *l = net->data;
    int flag = 0, code = mpi_lib_test(l->m, &p->at[0], &flag);

    *done = flag;
    return code ? failed(l->m, "test", code) : TCC_OK;
}

static void mpi_cancel(struct tcr_net *net, struct tcr_pending *p)
{
    struct lanes *l = net->data;

    mpi_lib_cancel(l->m, &p->at[0]);
}

const struct tcr_engine tcr_mpi = {.name = "mpi",
                                   .title = "MPI",
                                   .launcher = TCR_LAUNCHER_MPI,
                                   .open = mpi_open,
                                   .close = mpi_close,
                                   .send = mpi_send,
                                   .recv = mpi_recv,
                                   .test = mpi_test,
                                   .cancel = mpi_cancel};
