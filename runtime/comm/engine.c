/* SPDX-License-Identifier: Apache-2.0 */
/* Which engine of communication a process begins with, and what launchers say of it: the variables that they set. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm_int.h"

static const struct row {
    const char *name;
    const struct tcr_engine *engine;
} rows[] = {
#define ENGINE(name, engine) {#name, engine},
#include "runtime/comm/engines.def"
#undef ENGINE
};

/* -- Launchers --------------------------------------------------------------------------------------------------- */

static long env_number(const char *name)
{
    const char *text = getenv(name);

    return text && *text ? strtol(text, NULL, 10) : -1;
}

enum launch { ALONE, MPI, VARIABLES, NEITHER };

/* What started this process. torchrun's own variable beats those of an mpirun that started torchrun. */
static enum launch how_launched(void)
{
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"};
    long world = env_number("WORLD_SIZE"), tasks = env_number("SLURM_STEP_NUM_TASKS");

    if (world > 1 && getenv("TORCHELASTIC_RUN_ID"))
        return VARIABLES;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (env_number(sizes[i]) > 0)
            return env_number(sizes[i]) > 1 ? MPI : ALONE;
    if (env_number("PMIX_RANK") >= 0 || env_number("PMI_RANK") >= 0)
        return tasks == 1 ? ALONE : MPI;
    if (world > 1)
        return VARIABLES;
    return tasks > 1 ? NEITHER : ALONE;
}

/* A whole number of [least, most]; absent: what it is where the variable is not set, or below `least`: it must be. */
static int read_number(const char *name, int least, int most, int absent, int *value)
{
    const char *text = getenv(name);
    char *end;
    long n;

    *value = absent;
    if (!text || !*text)
        return absent >= least || absent == -1 ? TCC_OK
                                               : tcr_fail(TCC_EENV,
                                                          "ucx: %s is not set; it starts from RANK, WORLD_SIZE, "
                                                          "MASTER_ADDR and MASTER_PORT, as torchrun sets them",
                                                          name);
    errno = 0;
    n = strtol(text, &end, 10);
    if (end == text || *end || errno || n < least || n > most)
        return tcr_fail(TCC_EENV, "%s=%s: expected a number from %d to %d", name, text, least, most);
    *value = (int)n;
    return TCC_OK;
}

#define MOST_RANKS (1 << 20)
#define NEEDED INT_MIN
#define UNKNOWN (-1)

int tcr_launch_read(struct tcr_launch *l)
{
    const char *taken = getenv("TORCHELASTIC_USE_AGENT_STORE"), *host = getenv("MASTER_ADDR");
    int status;

    *l = (struct tcr_launch){.host = host, .port_taken = taken && strcmp(taken, "True") == 0};
    if ((status = read_number("WORLD_SIZE", 1, MOST_RANKS, NEEDED, &l->size)) ||
        (status = read_number("RANK", 0, l->size - 1, NEEDED, &l->rank)) ||
        (status = read_number("LOCAL_WORLD_SIZE", 1, l->size, UNKNOWN, &l->local_size)) ||
        (status = read_number("LOCAL_RANK", 0, l->local_size > 0 ? l->local_size - 1 : l->size - 1, UNKNOWN,
                              &l->local_rank)) ||
        (status = read_number("MASTER_PORT", 1, 65535, NEEDED, &l->port)))
        return status;
    return host && *host ? TCC_OK : read_number("MASTER_ADDR", 0, 0, NEEDED, &l->port);
}

/* -- Choosing ------------------------------------------------------------------------------------------------------ */

/* For MPI: is there an MPI launcher? */
static int launched_by_mpi(enum launch how, const struct tcr_engine **engine)
{
    if (how == MPI)
        *engine = &tcr_mpi;
    if (how == VARIABLES)
        return tcr_fail(TCC_EENV,
                        "mpi: this process is rank %ld of %ld of a launcher like torchrun, which is no MPI launcher: "
                        "start with `mpirun -np %ld PROGRAM ...` or `srun --mpi=pmix`, or name the engine ucx",
                        env_number("RANK"), env_number("WORLD_SIZE"), env_number("WORLD_SIZE"));
    if (how == NEITHER)
        return tcr_fail(TCC_EENV,
                        "this process is one of %ld that srun started without MPI: start with `srun --mpi=pmix`, or "
                        "set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT for the engine ucx",
                        env_number("SLURM_STEP_NUM_TASKS"));
    return TCC_OK;
}

/* For UCX, or the named one of its like: several processes, and the variables? */
static int launched_by_variables(enum launch how, const struct tcr_engine *named, const struct tcr_engine **engine)
{
    struct tcr_launch l;
    int status;

    if (how == ALONE && env_number("WORLD_SIZE") < 0)
        return TCC_OK;
    if ((status = tcr_launch_read(&l)))
        return status;
    if (l.size > 1)
        *engine = named ? named : &tcr_ucx;
    return TCC_OK;
}

static int unknown(const char *name)
{
    return tcr_fail(TCC_EUSAGE,
                    "unknown engine of communication '%s', expected auto, mpi, ucx, sim, or one of these and +nccl (or "
                    "+nccl:exact), or nccl alone",
                    name);
}

/* "ENGINE+nccl:exact" in parts: *n letters name an engine, 0: automatically. false: it says something else. */
static bool read_name(const char *name, size_t *n, struct tcr_choice *c)
{
    const char *plus = strchr(name, '+'), *rest = plus ? plus + 1 : name;

    *n = plus ? (size_t)(plus - name) : strlen(name);
    if (!plus && strncmp(name, "nccl", 4)) {
        c->peers = TCR_PEERS_NEVER;
    } else {
        *n = plus ? *n : 0;
        c->peers = TCR_PEERS_ALWAYS;
        c->exact = !strcmp(rest, "nccl:exact");
        if (!c->exact && strcmp(rest, "nccl"))
            return false;
    }
    if (*n == 4 && !strncmp(name, "auto", 4)) {
        *n = 0;
        c->peers = plus ? c->peers : TCR_PEERS_WHERE_THERE;
    }
    return true;
}

int tcr_engine_choose(const struct tccrt_comm_options *o, struct tcr_choice *choice)
{
    const char *name = o->engine && *o->engine ? o->engine : tccrt_env_text("TCCC_COMM");
    const struct tcr_engine *named = NULL, **engine = &choice->engine;
    enum launch how = how_launched();
    size_t n = 0;

    *choice = (struct tcr_choice){.peers = TCR_PEERS_WHERE_THERE};
    if (name && !read_name(name, &n, choice))
        return unknown(name);
    for (size_t i = 0; i < sizeof rows / sizeof *rows && n; i++)
        if (strlen(rows[i].name) == n && !strncmp(rows[i].name, name, n))
            named = rows[i].engine;
    if (n && !named)
        return unknown(name);
    if (o->adopt && named && named != &tcr_mpi)
        return tcr_fail(TCC_EUSAGE, "engine of communication '%s': a communicator to adopt requires 'mpi'", name);
    if (o->alone)
        return TCC_OK;
    if (o->adopt) {
        *engine = &tcr_mpi;
        return TCC_OK;
    }
    if (named ? named->launcher == TCR_LAUNCHER_VARIABLES : how == VARIABLES)
        return launched_by_variables(how, named, engine);
    return launched_by_mpi(how, engine);
}
