/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has not come. A library that starts (MPI_Init) waits for all ranks, and says nothing of those that are missing. So each
 * rank leaves a file named after the job and itself until the library has started; when it does not, the ranks of this
 * machine without a file are the ones to name, and the ranks of other machines say that it is none of theirs. Jobs are told apart by
 * what Open MPI's and Slurm's launchers set.
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

    return job && snprintf(path, size, "%s/tccc-%lu-%016llx.%ld", base && *base ? base : "/tmp",
                           (unsigned long)getuid(), (unsigned long long)tcr_xxh3(job, strlen(job)), rank) < (int)size;
}

static long number(const char *const *names)
{
    const char *text = variable(names);

    return text ? strtol(text, NULL, 10) : -1;
}

static const char *const rank_names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", NULL};
static const char *const size_names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", NULL};
static const char *const local_sizes[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE", NULL};
static const char *const local_ranks[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", NULL};

/* The file holds the rank's number on this machine. */
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
    if (fd < 0)
        return;
    dprintf(fd, "%ld", number(local_ranks));
    close(fd);
}

/* Number on this machine of a rank that has left a file; -1: none, or not known. */
static long arrived(long rank, bool *here)
{
    char path[512], text[32] = "";
    int fd = file_of(rank, path, sizeof path) ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;

    *here = fd >= 0;
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    return n > 0 ? strtol(text, NULL, 10) : -1;
}

/* Which ranks run here, as far as two that have come tell: ranks of a machine are evenly spaced. rank = first + step * number. */
struct spacing {
    long first, step;
    int known; /* ranks that it was found from */
    bool even;
};

static void notice(struct spacing *s, long local, long rank, long *one_local, long *one_rank)
{
    if (!s->known++) {
        *one_local = local;
        *one_rank = rank;
    } else if (s->known == 2) {
        s->step = local != *one_local ? (rank - *one_rank) / (local - *one_local) : 0;
        s->first = *one_rank - s->step * *one_local;
        s->even = s->step > 0;
    }
    if (s->known >= 2)
        s->even &= s->first + s->step * local == rank;
}

/* Ranks run on several machines: those of this one that are missing, by their number here if their rank can't be told. */
static void absent_here(long ranks, long local, char *text, size_t size)
{
    struct spacing s = {.even = true};
    char host[64] = "this machine";
    uint64_t seen = 0;
    long one_local = 0, one_rank = 0;
    size_t n = 0;

    gethostname(host, sizeof host - 1);
    for (long r = 0; r < ranks; r++) {
        bool here;
        long l = arrived(r, &here);

        if (l >= 0 && l < local) {
            seen |= 1ull << l;
            notice(&s, l, r, &one_local, &one_rank);
        }
    }
    for (long l = 0; l < local && n + 32 < size; l++) {
        if (seen >> l & 1)
            continue;
        if (s.known >= 2 && s.even)
            n += (size_t)snprintf(text + n, size - n, "%s %ld", n ? "," : "rank", s.first + s.step * l);
        else
            n += (size_t)snprintf(text + n, size - n, "%s %ld", n ? "," : "process", l + 1);
    }
    if (!n)
        snprintf(text, size, "a rank of another machine (all %ld of %s have come) has", local, host);
    else if (s.known >= 2 && s.even)
        snprintf(text + n, size - n, ", on %s, has", host);
    else
        snprintf(text + n, size - n, " of the %ld on %s has", local, host);
}

/* Those that have left no file, of this machine's ranks: files of others are not seen. */
void tcr_absent(char *text, size_t size)
{
    long ranks = number(size_names), local = number(local_sizes);
    size_t n = 0;
    bool here;

    snprintf(text, size, "a rank of the job has");
    if (ranks < 1 || local < 1 || number(local_ranks) < 0)
        return;
    if (local != ranks) {
        if (local <= 64)
            absent_here(ranks, local, text, size);
        return;
    }
    for (long r = 0; r < ranks && n + 32 < size; r++) {
        arrived(r, &here);
        if (!here)
            n += (size_t)snprintf(text + n, size - n, "%s %ld", n ? "," : "rank", r);
    }
    if (n)
        snprintf(text + n, size - n, " has");
}
