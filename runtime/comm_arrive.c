/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has not come. A library that starts (MPI_Init) waits for all ranks, and says nothing of those that are missing. So each
 * rank leaves an empty file named after the job and itself until the library has started; when it does not, the ranks of this
 * machine without a file are the ones to name. Jobs are told apart by what Open MPI's and Slurm's launchers set.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/comm_int.h"

static const char *variable(const char *const *names)
{
    for (; *names; names++) {
        const char *text = getenv(*names);

        if (text && *text)
            return text;
    }
    return NULL;
}

static bool file_of(long rank, char *path, size_t size)
{
    static const char *const jobs[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID", NULL};
    const char *job = variable(jobs), *base = getenv("TMPDIR");

    return job && snprintf(path, size, "%s/tccc-%lu-%016llx.%ld", base && *base ? base : "/tmp", (unsigned long)getuid(),
                           (unsigned long long)tcr_xxh3(job, strlen(job)), rank) < (int)size;
}

static long number(const char *const *names)
{
    const char *text = variable(names);

    return text ? strtol(text, NULL, 10) : -1;
}

static const char *const rank_names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", NULL};
static const char *const size_names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", NULL};
static const char *const local_names[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE", NULL};

void tcr_arrive(bool here)
{
    char path[512];
    int fd;

    if (!file_of(number(rank_names), path, sizeof path))
        return;
    if (!here) {
        unlink(path);
        return;
    }
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0)
        close(fd);
}

/* Where all ranks run on this machine, those that have left no file. */
void tcr_absent(char *text, size_t size)
{
    long ranks = number(size_names);
    char path[512];
    size_t n = 0;

    snprintf(text, size, "a rank of the job has");
    if (ranks < 1 || number(local_names) != ranks)
        return;
    for (long r = 0; r < ranks && n + 32 < size; r++)
        if (file_of(r, path, sizeof path) && access(path, F_OK) != 0)
            n += (size_t)snprintf(text + n, size - n, "%s %ld", n ? "," : "rank", r);
    if (n)
        snprintf(text + n, size - n, " has");
}
