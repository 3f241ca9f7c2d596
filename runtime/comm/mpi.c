/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport over MPI, opened at run time: neither the build nor an artifact needs MPI's headers or library.
 *
 * It speaks Open MPI's binary interface, in which a predefined handle is the address of an exported object (MPI_COMM_WORLD is
 * &ompi_mpi_comm_world) and every handle is a pointer: that has been so since its version 1.5, up to 5. Of other MPI
 * libraries it says what they lack. Three copies of the world's communicator keep our messages apart from the program's
 * and the lanes from each other. All calls are made under the net's lock, so MPI_THREAD_SERIALIZED is enough.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm_int.h"

struct status {
    int source, tag, error, cancelled;
    size_t count;
};

enum { THREAD_SERIALIZED = 2, THREAD_MULTIPLE = 3, TAG_UB = 0, TYPE_SHARED = 0, ANY_SOURCE = -1 };

/* name, arguments */
#define FUNCTIONS(X)                                                 \
    X(Initialized, (int *))                                          \
    X(Init_thread, (int *, char ***, int, int *))                    \
    X(Query_thread, (int *))                                         \
    X(Finalize, (void))                                              \
    X(Comm_dup, (void *, void **))                                   \
    X(Comm_free, (void **))                                          \
    X(Comm_rank, (void *, int *))                                    \
    X(Comm_size, (void *, int *))                                    \
    X(Comm_split_type, (void *, int, int, void *, void **))          \
    X(Comm_set_errhandler, (void *, void *))                         \
    X(Comm_get_attr, (void *, int, void *, int *))                   \
    X(Error_string, (int, char *, int *))                            \
    X(Isend, (const void *, int, void *, int, int, void *, void **)) \
    X(Irecv, (void *, int, void *, int, int, void *, void **))       \
    X(Test, (void **, int *, struct status *))                       \
    X(Cancel, (void **))                                             \
    X(Request_free, (void **))

#define OBJECTS(X) X(ompi_mpi_comm_world) X(ompi_mpi_byte) X(ompi_mpi_info_null) X(ompi_mpi_errors_return)

struct mpi {
    void *library;
    bool ours; /* we initialised it */
    void *comm[TCR_NLANES];
#define X(name, arguments) int(*name) arguments;
    FUNCTIONS(X)
#undef X
#define X(name) void *name;
    OBJECTS(X)
#undef X
};

static int failed(struct mpi *m, const char *what, int code)
{
    char text[512] = "";
    int n;

    m->Error_string(code, text, &n);
    return tcr_fail(TCC_EENV, "MPI: %s: %s", what, text);
}

/* -- Opening ------------------------------------------------------------------------------------------------ */

/* Open MPI loads plug-ins that need its symbols, so they are made global. */
static void *open_library(const char *name)
{
    static const char *const names[] = {"libmpi.so.40", "libmpi.so", NULL};
    const char *asked = name ? name : tccrt_env_text("TCCC_MPI_LIBRARY");
    void *library = NULL;

    if (asked && *asked)
        library = dlopen(asked, RTLD_NOW | RTLD_GLOBAL);
    for (int i = 0; !(asked && *asked) && !library && names[i]; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        tcr_fail(TCC_EENV, "no MPI library: %s; install Open MPI, or name its library with TCCC_MPI_LIBRARY",
                 dlerror());
    return library;
}

/* A program that is linked with MPI has copies of its objects, which the library uses too: so the program's come first. */
static bool resolve(struct mpi *m)
{
    const char *missing = NULL;

#define X(name, arguments)                                \
    *(void **)&m->name = dlsym(m->library, "MPI_" #name); \
    if (!m->name)                                         \
        missing = "MPI_" #name;
    FUNCTIONS(X)
#undef X
#define X(name)                                                                           \
    if (!(m->name = dlsym(RTLD_DEFAULT, #name)) && !(m->name = dlsym(m->library, #name))) \
        missing = #name;
    OBJECTS(X)
#undef X
    if (missing)
        tcr_fail(TCC_EENV, "the MPI library is not Open MPI's: it has no '%s'", missing);
    return !missing;
}

int tccrt_comm_available(const char *library)
{
    struct mpi m = {0};
    bool good;

    tcr_clear_error();
    m.library = open_library(library);
    good = m.library && resolve(&m);
    return good; /* it stays open: MPI libraries do not survive being closed */
}

static int begin(struct mpi *m, bool *threaded)
{
    int there = 0, level = 0, code;

    m->Initialized(&there);
    if (there) {
        m->Query_thread(&level);
        *threaded = level >= THREAD_MULTIPLE;
        return TCC_OK;
    }
    if ((code = m->Init_thread(NULL, NULL, THREAD_SERIALIZED, &level)))
        return tcr_fail(TCC_EENV, "MPI_Init_thread failed (%d)", code);
    m->ours = true;
    *threaded = level >= THREAD_SERIALIZED;
    return TCC_OK;
}

static int check_tags(struct mpi *m)
{
    int *most = NULL, found = 0;

    m->Comm_get_attr(m->ompi_mpi_comm_world, TAG_UB, &most, &found);
    if (!found || *most < (1 << TCR_TAG_BITS) - 1)
        return tcr_fail(TCC_EENV, "MPI: message tags up to %d are needed, %d is this library's largest",
                        (1 << TCR_TAG_BITS) - 1, found ? *most : -1);
    return TCC_OK;
}

static int join(struct tcr_net *net, struct mpi *m, void *world)
{
    void *local;
    int code = 0;

    for (int i = 0; i < TCR_NLANES && !code; i++)
        if (!(code = m->Comm_dup(world, &m->comm[i])))
            code = m->Comm_set_errhandler(m->comm[i], m->ompi_mpi_errors_return);
    if (!code)
        code = m->Comm_rank(world, &net->rank);
    if (!code)
        code = m->Comm_size(world, &net->size);
    if (!code)
        code = m->Comm_split_type(world, TYPE_SHARED, 0, m->ompi_mpi_info_null, &local);
    if (code)
        return failed(m, "joining the world", code);
    m->Comm_rank(local, &net->local_rank);
    m->Comm_size(local, &net->local_size);
    m->Comm_free(&local);
    return check_tags(m);
}

static int mpi_open(struct tcr_net *net, const struct tccrt_comm_options *options)
{
    struct mpi *m = calloc(1, sizeof *m);
    int status;

    net->data = m;
    if (!m)
        return tcr_fail(TCC_EENV, "no memory for MPI");
    if (!(m->library = open_library(options->library)) || !resolve(m))
        return TCC_EENV;
    if ((status = begin(m, &net->threaded)))
        return status;
    if (options->adopt && m->ours)
        return tcr_fail(TCC_EUSAGE, "a communicator is to be adopted, but the program has not initialised MPI");
    return join(net, m, options->adopt ? *(void *const *)options->adopt : m->ompi_mpi_comm_world);
}

static void mpi_close(struct tcr_net *net, bool broken)
{
    struct mpi *m = net->data;

    if (m && !broken && m->comm[0]) {
        for (int i = 0; i < TCR_NLANES; i++)
            m->Comm_free(&m->comm[i]);
        if (m->ours)
            m->Finalize();
    }
    free(m);
}

/* -- Messages ------------------------------------------------------------------------------------------------- */

static int mpi_send(struct tcr_net *net, int lane, int to, int tag, const void *data, size_t bytes,
                    struct tcr_pending *p)
{
    struct mpi *m = net->data;
    int code = m->Isend(data, (int)bytes, m->ompi_mpi_byte, to, tag, m->comm[lane], &p->at[0]);

    return code ? failed(m, "send", code) : TCC_OK;
}

static int mpi_recv(struct tcr_net *net, int lane, int from, int tag, void *data, size_t bytes, struct tcr_pending *p)
{
    struct mpi *m = net->data;
    int code =
        m->Irecv(data, (int)bytes, m->ompi_mpi_byte, from < 0 ? ANY_SOURCE : from, tag, m->comm[lane], &p->at[0]);

    return code ? failed(m, "receive", code) : TCC_OK;
}

static int mpi_test(struct tcr_net *net, struct tcr_pending *p, bool *done)
{
    struct mpi *m = net->data;
    struct status s;
    int flag = 0, code = m->Test(&p->at[0], &flag, &s);

    *done = flag;
    return code ? failed(m, "test", code) : TCC_OK;
}

static void mpi_cancel(struct tcr_net *net, struct tcr_pending *p)
{
    struct mpi *m = net->data;

    m->Cancel(&p->at[0]);
    m->Request_free(&p->at[0]);
}

const struct tcr_transport tcr_mpi = {"MPI", mpi_open, mpi_close, mpi_send, mpi_recv, mpi_test, mpi_cancel, NULL};
