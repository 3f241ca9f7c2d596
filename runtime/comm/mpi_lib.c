/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MPI libraries of three binary interfaces, opened at run time: neither the build nor an artifact needs MPI's headers
 * or library.
 *
 *   Open MPI   handles are pointers; a predefined one is the address of an exported object (MPI_COMM_WORLD is
 *   &ompi_mpi_comm_world):
 *              so since its version 1.5, up to 5
 *   MPICH      handles are ints; predefined ones are numbers: the ABI that MPICH, Intel MPI, MVAPICH and Cray MPICH
 *              share
 *   MPI-5      handles are pointers; predefined ones are small numbers: the standard's ABI, in libmpi_abi.so
 *
 * Sources: the libraries' mpi.h; the MPI standard 5.0, chapter 20. Other libraries are refused by name.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm_int.h"
#include "runtime/comm/mpi_lib.h"

enum { OPEN_MPI, MPICH, STANDARD };

static const struct abi {
    bool numbers;                                 /* handles are ints */
    uint32_t world, byte, no_info, errors_return; /* 0: an object's address */
    int any_source, largest_tag, shared, levels[4];
} abis[] = {
    [OPEN_MPI] = {false, 0, 0, 0, 0, -1, 0, 0, {0, 1, 2, 3}},
    [MPICH] = {true, 0x44000000, 0x4c00010d, 0x1c000000, 0x54000001, -2, 0x64400001, 1, {0, 1, 2, 3}},
    [STANDARD] = {false, 0x101, 0x247, 0x130, 0x142, -1, 501, 221, {0, 1024, 2048, 4096}},
};

/* name, arguments; without handles, and with handles of type H */
#define PLAIN(X)                                  \
    X(Initialized, (int *))                       \
    X(Init_thread, (int *, char ***, int, int *)) \
    X(Query_thread, (int *))                      \
    X(Finalize, (void))                           \
    X(Error_string, (int, char *, int *))         \
    X(Get_library_version, (char *, int *))

#define WITH_HANDLES(X, H)                             \
    X(Comm_dup, (H, H *))                              \
    X(Comm_free, (H *))                                \
    X(Comm_rank, (H, int *))                           \
    X(Comm_size, (H, int *))                           \
    X(Comm_split_type, (H, int, int, H, H *))          \
    X(Comm_set_errhandler, (H, H))                     \
    X(Comm_get_attr, (H, int, void *, int *))          \
    X(Isend, (const void *, int, H, int, int, H, H *)) \
    X(Irecv, (void *, int, H, int, int, H, H *))       \
    X(Test, (H *, int *, void *))                      \
    X(Cancel, (H *))                                   \
    X(Request_free, (H *))

struct mpi {
    void *library;
    const struct abi *abi;
    union tcr_handle world, byte, no_info, errors_return;
#define X(name, arguments) int(*name) arguments;
    PLAIN(X)
    union {
        struct {
            WITH_HANDLES(X, void *)
        } p;
        struct {
            WITH_HANDLES(X, int)
        } n;
    };
#undef X
};

/* -- Opening ------------------------------------------------------------------------------------------------ */

/* The launcher's library first: another one would start a world of its own in each process. MPICH's launcher sets
 * PMI_RANK alone. */
static void *open_first(void)
{
    static const char *const open_mpi[] = {"libmpi.so.40", "libmpi_abi.so.0", "libmpi_abi.so",
                                           "libmpi.so",    "libmpich.so.12",  NULL};
    static const char *const mpich[] = {"libmpich.so.12", "libmpi.so.12", "libmpi_abi.so.0",
                                        "libmpi_abi.so",  "libmpi.so",    NULL};
    bool hydra = getenv("PMI_RANK") && !getenv("OMPI_COMM_WORLD_RANK") && !getenv("PMIX_RANK");
    void *library = NULL;

    for (const char *const *name = hydra ? mpich : open_mpi; *name && !library; name++)
        library = dlopen(*name, RTLD_NOW | RTLD_GLOBAL);
    return library;
}

/* MPI loads plug-ins that need its symbols, so they are made global. A program that is linked with MPI has its own. */
static void *open_library(const char *name)
{
    const char *asked = name ? name : tccrt_env_text("TCCC_MPI_LIBRARY");
    void *library;

    if (!(asked && *asked) && dlsym(RTLD_DEFAULT, "MPI_Init_thread"))
        library = dlopen(NULL, RTLD_NOW);
    else
        library = asked && *asked ? dlopen(asked, RTLD_NOW | RTLD_GLOBAL) : open_first();
    if (!library)
        tcr_fail(TCC_EENV, "no MPI library: %s; install Open MPI or MPICH, or name its library with TCCC_MPI_LIBRARY",
                 dlerror());
    return library;
}

/* A program that is linked with MPI has copies of its objects, which the library uses too: so the program's come
 * first. */
static void *object(const struct mpi *m, const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);

    return found ? found : dlsym(m->library, name);
}

static const struct abi *recognise(const struct mpi *m)
{
    char text[8192] = "";
    Dl_info where;
    int n = 0;

    if (dladdr(*(void *const *)&m->Init_thread, &where) && where.dli_fname && strstr(where.dli_fname, "libmpi_abi"))
        return &abis[STANDARD];
    if (object(m, "ompi_mpi_comm_world"))
        return &abis[OPEN_MPI];
    m->Get_library_version(text, &n);
    if (strstr(text, "MPICH") || strstr(text, "Intel(R) MPI") || strstr(text, "MVAPICH"))
        return &abis[MPICH];
    text[strcspn(text, "\n")] = 0;
    return tcr_fail(TCC_EENV,
                    "the MPI library is neither Open MPI's nor MPICH's, and has not the standard's ABI: '%.100s'",
                    text),
           NULL;
}

static bool lacks(const char *name)
{
    tcr_fail(TCC_EENV, "the MPI library has no '%s'", name);
    return true;
}

#define X(name, arguments)                                \
    *(void **)&m->name = dlsym(m->library, "MPI_" #name); \
    if (!m->name)                                         \
        return !lacks("MPI_" #name);

static bool resolve(struct mpi *m)
{
    PLAIN(X)
    if (!(m->abi = recognise(m)))
        return false;
#undef X
#define X(name, arguments)                                                                       \
    {                                                                                            \
        void *found = dlsym(m->library, "MPI_" #name);                                           \
                                                                                                 \
        if (!found)                                                                              \
            return !lacks("MPI_" #name);                                                         \
        memcpy(m->abi->numbers ? (void *)&m->n.name : (void *)&m->p.name, &found, sizeof found); \
    }
    WITH_HANDLES(X, void *)
#undef X
    return true;
}

static bool predefined(const struct mpi *m, union tcr_handle *h, uint32_t number, const char *name)
{
    if (m->abi->numbers)
        h->number = (int)number;
    else
        h->pointer = number ? (void *)(uintptr_t)number : object(m, name);
    return m->abi->numbers || h->pointer || !lacks(name);
}

struct mpi *mpi_lib_open(const char *name)
{
    struct mpi *m = calloc(1, sizeof *m);

    if (!m)
        return tcr_fail(TCC_EENV, "no memory for MPI"), NULL;
    if ((m->library = open_library(name)) && resolve(m) &&
        predefined(m, &m->world, m->abi->world, "ompi_mpi_comm_world") &&
        predefined(m, &m->byte, m->abi->byte, "ompi_mpi_byte") &&
        predefined(m, &m->no_info, m->abi->no_info, "ompi_mpi_info_null") &&
        predefined(m, &m->errors_return, m->abi->errors_return, "ompi_mpi_errors_return"))
        return m;
    free(m);
    return NULL;
}

void mpi_lib_free(struct mpi *m)
{
    free(m);
}

union tcr_handle mpi_lib_world(const struct mpi *m)
{
    return m->world;
}

union tcr_handle mpi_lib_adopt(const struct mpi *m, const void *communicator)
{
    union tcr_handle h = {0};

    memcpy(&h, communicator, m->abi->numbers ? sizeof h.number : sizeof h.pointer);
    return h;
}

/* -- Calling ------------------------------------------------------------------------------------------------ */

void mpi_lib_text(const struct mpi *m, int code, char text[512])
{
    int n;

    *text = 0;
    m->Error_string(code, text, &n);
}

int mpi_lib_begin(const struct mpi *m, bool *ours, int *level)
{
    int there = 0, given = 0, code;

    m->Initialized(&there);
    *ours = !there;
    code = there ? m->Query_thread(&given) : m->Init_thread(NULL, NULL, m->abi->levels[2], &given);
    *level = 0;
    for (int i = 1; i < 4; i++)
        *level += given >= m->abi->levels[i];
    return code;
}

int mpi_lib_finalize(const struct mpi *m)
{
    return m->Finalize();
}

int mpi_lib_dup(const struct mpi *m, union tcr_handle comm, union tcr_handle *out)
{
    int code = m->abi->numbers ? m->n.Comm_dup(comm.number, &out->number) : m->p.Comm_dup(comm.pointer, &out->pointer);

    if (code)
        return code;
    return m->abi->numbers ? m->n.Comm_set_errhandler(out->number, m->errors_return.number)
                           : m->p.Comm_set_errhandler(out->pointer, m->errors_return.pointer);
}

int mpi_lib_free_comm(const struct mpi *m, union tcr_handle *comm)
{
    return m->abi->numbers ? m->n.Comm_free(&comm->number) : m->p.Comm_free(&comm->pointer);
}

int mpi_lib_place(const struct mpi *m, union tcr_handle comm, int *rank, int *size)
{
    int code = m->abi->numbers ? m->n.Comm_rank(comm.number, rank) : m->p.Comm_rank(comm.pointer, rank);

    if (code)
        return code;
    return m->abi->numbers ? m->n.Comm_size(comm.number, size) : m->p.Comm_size(comm.pointer, size);
}

int mpi_lib_shared(const struct mpi *m, union tcr_handle comm, union tcr_handle *out)
{
    int how = m->abi->shared;

    return m->abi->numbers ? m->n.Comm_split_type(comm.number, how, 0, m->no_info.number, &out->number)
                           : m->p.Comm_split_type(comm.pointer, how, 0, m->no_info.pointer, &out->pointer);
}

int mpi_lib_largest_tag(const struct mpi *m)
{
    int *most = NULL, found = 0, key = m->abi->largest_tag;
    int code = m->abi->numbers ? m->n.Comm_get_attr(m->world.number, key, &most, &found)
                               : m->p.Comm_get_attr(m->world.pointer, key, &most, &found);

    return !code && found ? *most : -1;
}

int mpi_lib_isend(const struct mpi *m, const void *data, int n, int to, int tag, union tcr_handle comm,
                  union tcr_handle *request)
{
    return m->abi->numbers ? m->n.Isend(data, n, m->byte.number, to, tag, comm.number, &request->number)
                           : m->p.Isend(data, n, m->byte.pointer, to, tag, comm.pointer, &request->pointer);
}

int mpi_lib_irecv(const struct mpi *m, void *data, int n, int from, int tag, union tcr_handle comm,
                  union tcr_handle *request)
{
    int source = from < 0 ? m->abi->any_source : from;

    return m->abi->numbers ? m->n.Irecv(data, n, m->byte.number, source, tag, comm.number, &request->number)
                           : m->p.Irecv(data, n, m->byte.pointer, source, tag, comm.pointer, &request->pointer);
}

int mpi_lib_test(const struct mpi *m, union tcr_handle *request, int *done)
{
    _Alignas(16) char status[64]; /* 20 to 32 bytes, by the interface; nobody reads it */

    return m->abi->numbers ? m->n.Test(&request->number, done, status) : m->p.Test(&request->pointer, done, status);
}

void mpi_lib_cancel(const struct mpi *m, union tcr_handle *request)
{
    if (m->abi->numbers) {
        m->n.Cancel(&request->number);
        m->n.Request_free(&request->number);
    } else {
        m->p.Cancel(&request->pointer);
        m->p.Request_free(&request->pointer);
    }
}
