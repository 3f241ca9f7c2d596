/* SPDX-License-Identifier: Apache-2.0 */
/* Which engine of communication a process begins with, and what launchers say of it: the variables that they set. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm_int.h"

static const struct row {
    const char *name;
    const struct tcr_engine *engine; /* NULL: not in this build */
    const char *why;
} rows[] = {
#define ENGINE(name, engine, why) {#name, engine, why},
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
    return tcr_fail(TCC_EUSAGE, "unknown engine of communication '%s', expected auto, mpi, ucx, nccl or sim", name);
}

int tcr_engine_choose(const struct tccrt_comm_options *o, const struct tcr_engine **engine)
{
    const char *name = o->engine && *o->engine ? o->engine : tccrt_env_text("TCCC_COMM");
    bool automatic = !name || strcmp(name, "auto") == 0;
    const struct row *row = NULL;
    enum launch how = how_launched();

    *engine = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !automatic; i++)
        if (strcmp(rows[i].name, name) == 0)
            row = &rows[i];
    if (!automatic && !row)
        return unknown(name);
    if (row && !row->engine)
        return tcr_fail(TCC_EENV, "engine of communication '%s': not in this version: %s", name, row->why);
    if (o->adopt && row && row->engine != &tcr_mpi)
        return tcr_fail(TCC_EUSAGE, "engine of communication '%s': a communicator to adopt requires 'mpi'", name);
    if (o->alone)
        return TCC_OK;
    if (o->adopt) {
        *engine = &tcr_mpi;
        return TCC_OK;
    }
    if (row ? row->engine->launcher == TCR_LAUNCHER_VARIABLES : how == VARIABLES)
        return launched_by_variables(how, row ? row->engine : NULL, engine);
    return launched_by_mpi(how, engine);
}
