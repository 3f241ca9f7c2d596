/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is here. A library that starts (MPI_Init) waits for all ranks, and says nothing of those that are missing; and a
 * launcher sees only the processes that it started itself, which may be shells that outlive their rank. So each rank
 * listens on a local socket named after the job, the machine and itself (Linux's abstract names: no file, and the
 * kernel takes the name back when the process ends, however that happens). A rank of this machine whose name nobody
 * holds has not come, or has ended; the process that holds a name can be looked up, and may be stopped. Ranks of other
 * machines can't be seen so. Jobs are told apart by what Open MPI's and Slurm's launchers set, or by where rank 0 is
 * and what torchrun sets.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "runtime/comm/comm_int.h"

static const char *variable(const char *const *names)
{
    for (; *names; names++) {
        const char *text = getenv(*names);

        if (text && *text)
            return text;
    }
    return NULL;
}

static enum tcr_launcher launcher;

void tcr_launched(enum tcr_launcher how)
{
    launcher = how;
}

/* All of them, a line each; false: none is set. */
static bool variables(const char *const *names, char *text, size_t size)
{
    bool any = false;

    for (*text = 0; *names; names++) {
        const char *value = getenv(*names);
        size_t n = strlen(text);

        any |= value && *value;
        snprintf(text + n, size - n, "%s\n", value ? value : "");
    }
    return any;
}

/* A rank's name. The launcher's daemon stands for the machine: its ranks have it in common. 0: this is no launcher's
 * process. */
static socklen_t address_of(long rank, struct sockaddr_un *to)
{
    static const char *const jobs[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID", NULL};
    static const char *const daemons[] = {"OMPI_MCA_orte_local_daemon_uri",
                                          "PMIX_SERVER_URI41",
                                          "PMIX_SERVER_URI4",
                                          "PMIX_SERVER_URI3",
                                          "PMIX_SERVER_URI2",
                                          NULL};
    static const char *const meeting[] = {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
                                          "TORCHELASTIC_RESTART_COUNT", NULL};
    const char *job = variable(jobs), *daemon = variable(daemons);
    char told[400];
    int n;

    if (launcher == TCR_LAUNCHER_VARIABLES) {
        job = variables(meeting, told, sizeof told) ? told : NULL;
        daemon = getenv("GROUP_RANK"); /* the machine's number */
    }

    *to = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (!job || rank < 0)
        return 0;
    if (!daemon)
        daemon = "";
    n = snprintf(to->sun_path + 1, sizeof to->sun_path - 1, "tccc-%lu-%016llx-%016llx.%ld", (unsigned long)getuid(),
                 (unsigned long long)tcr_xxh3(job, strlen(job)), (unsigned long long)tcr_xxh3(daemon, strlen(daemon)),
                 rank);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static long number(const char *const *names)
{
    const char *text = variable(names);

    return text ? strtol(text, NULL, 10) : -1;
}

/* By launcher. */
static const char *const rank_names[][4] = {{"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}, {"RANK"}};
static const char *const size_names[][4] = {{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"},
                                            {"WORLD_SIZE"}};
static const char *const local_sizes[][4] = {{"OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE"},
                                             {"LOCAL_WORLD_SIZE"}};
static const char *const local_ranks[][4] = {{"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}, {"LOCAL_RANK"}};

/* Names that this process holds: by its rank in the world, and by its number on this machine. */
#define LOCAL_NAMES (1L << 40)
#define DEAD_NAMES (1L << 41)   /* of a rank that somebody has found dead */
#define ABSENT_NAMES (1L << 42) /* of one that somebody has waited for in vain */
#define HEARD_NAMES (1L << 43)  /* held by one that gives up */
static int held[2] = {-1, -1};

static int hold(long rank)
{
    struct sockaddr_un name;
    socklen_t n = address_of(rank, &name);
    int fd = n ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;

    if (fd >= 0 && (bind(fd, (struct sockaddr *)&name, n) || listen(fd, 4096))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

void tcr_arrive(bool here)
{
    long local = number(local_ranks[launcher]);

    for (int i = 0; i < 2; i++)
        if (!here && held[i] >= 0) {
            close(held[i]);
            held[i] = -1;
        }
    if (!here)
        return;
    held[0] = held[0] < 0 ? hold(number(rank_names[launcher])) : held[0];
    held[1] = held[1] < 0 && local >= 0 ? hold(LOCAL_NAMES + local) : held[1];
}

/* Is the process there that holds the name? Its number: 0 where it can't be told (a container of its own). */
static bool held_by(long rank, long *process)
{
    struct sockaddr_un name;
    struct ucred who = {.pid = 0};
    socklen_t n = address_of(rank, &name), size = sizeof who;
    int fd = n ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) : -1;
    bool there = fd >= 0 && (!connect(fd, (struct sockaddr *)&name, n) || errno == EAGAIN);

    *process = 0;
    if (there && !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) && who.uid == getuid())
        *process = who.pid;
    if (fd >= 0)
        close(fd);
    return there;
}

/* As /proc says: R, S, T (stopped), Z (dead)...; '?': not known. */
static char process_state(long process)
{
    char path[64], text[512] = "", *end;
    int fd;

    if (kill((pid_t)process, 0) && errno == ESRCH)
        return 'X';
    snprintf(path, sizeof path, "/proc/%ld/stat", process);
    if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        return '?';
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    end = n > 0 ? strrchr(text, ')') : NULL;
    return end && end[1] ? end[2] : '?';
}

static bool is_stopped(long process)
{
    char state = process ? process_state(process) : '?';

    return state == 'T' || state == 't';
}

enum tcr_life tcr_look(int rank, long *process)
{
    long now;
    bool there = held_by(rank, &now);
    char state = '?';

    if (!*process)
        *process = now;
    if (*process) /* a child that it forked may still hold the name */
        state = process_state(*process);
    if (!there || state == 'X' || state == 'Z')
        return TCR_GONE;
    return *process && is_stopped(*process) ? TCR_STOPPED : TCR_ALIVE;
}

/* Others, who may not have seen that rank, hear of it before this process ends and looks dead to them. */
void tcr_accuse(int rank)
{
    hold(DEAD_NAMES + rank); /* as long as the process lives */
}

/* The name behind those of the ranks: of one that is not known, or runs on another machine. */
static bool accused(long names, long *rank)
{
    long ranks = number(size_names[launcher]), process;

    for (*rank = 0; *rank <= ranks; ++*rank)
        if (held_by(names + *rank, &process))
            return true;
    return false;
}

bool tcr_given_up(void)
{
    long rank;

    return accused(ABSENT_NAMES, &rank);
}

/* Has every rank that is here and not stopped given up, as this one has? */
static bool all_heard(void)
{
    long ranks = number(size_names[launcher]), own = number(rank_names[launcher]), process;

    for (long r = 0; r < ranks; r++)
        if (r != own && held_by(r, &process) && !is_stopped(process) && !held_by(HEARD_NAMES + r, &process))
            return false;
    return true;
}

void tcr_part(double least, double most)
{
    double start = tcr_seconds();
    const struct timespec pause = {.tv_nsec = 20000000};

    hold(HEARD_NAMES + number(rank_names[launcher]));
    while (tcr_seconds() - start < least || (tcr_seconds() - start < most && !all_heard()))
        nanosleep(&pause, NULL);
}

int tcr_left(void)
{
    static long *known, count; /* processes by rank: 0 not seen yet, -1 of no known number */
    long ranks = number(size_names[launcher]), now, process, dead;

    /* Ranks that meet by themselves are told who is gone, and may give up at other times: that is no death. */
    if (!known && ranks > 0 && launcher == TCR_LAUNCHER_MPI && (known = calloc((size_t)ranks, sizeof *known)))
        count = ranks;
    if (accused(DEAD_NAMES, &dead))
        return (int)dead;
    for (long r = 0; r < count; r++) {
        if (!known[r])
            known[r] = held_by(r, &now) ? (now ? now : -1) : 0;
        else if (process = known[r] > 0 ? known[r] : 0, tcr_look((int)r, &process) == TCR_GONE)
            return (int)r;
    }
    return -1;
}

bool tcr_numbered_as_launched(int rank, int size)
{
    return held[0] >= 0 && number(rank_names[launcher]) == rank && number(size_names[launcher]) == size;
}

/* Which ranks run here, as far as two that have come tell: ranks of a machine are evenly spaced. rank = first + step *
 * number. */
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

#define MOST_HERE 64

/* Ranks run on several machines: those of this one that are missing, by their number here if their rank can't be told.
 * The others of this machine hear of it, and give up too; those of other machines have no way to, before the library
 * has started. */
static void absent_here(long ranks, long local, char *text, size_t size)
{
    struct spacing s = {.even = true};
    char host[64] = "this machine";
    uint64_t seen = 0;
    long one_local = 0, one_rank = 0, process, processes[MOST_HERE] = {0};
    size_t n = 0;

    gethostname(host, sizeof host - 1);
    for (long l = 0; l < local; l++)
        if (held_by(LOCAL_NAMES + l, &processes[l]) && !is_stopped(processes[l]))
            seen |= 1ull << l;
    for (long r = 0; r < ranks; r++)
        if (held_by(r, &process) && process)
            for (long l = 0; l < local; l++)
                if (processes[l] == process)
                    notice(&s, l, r, &one_local, &one_rank);
    for (long l = 0; l < local && n + 32 < size; l++) {
        if (seen >> l & 1)
            continue;
        if (s.known >= 2 && s.even) {
            n += (size_t)snprintf(text + n, size - n, "%s %ld", n ? "," : "rank", s.first + s.step * l);
            hold(ABSENT_NAMES + s.first + s.step * l);
        } else
            n += (size_t)snprintf(text + n, size - n, "%s %ld", n ? "," : "process", l + 1);
    }
    if (!n || s.known < 2 || !s.even)
        hold(ABSENT_NAMES + ranks);
    if (!n)
        snprintf(text, size, "a rank of another machine (all %ld of %s have come) has", local, host);
    else if (s.known >= 2 && s.even)
        snprintf(text + n, size - n, ", on %s, has", host);
    else
        snprintf(text + n, size - n, " of the %ld on %s has", local, host);
}

/* Those whose name nobody holds, of this machine's ranks: those of others are not seen. */
void tcr_absent(char *text, size_t size)
{
    long ranks = number(size_names[launcher]), local = number(local_sizes[launcher]);
    long process;
    size_t n = 0;

    snprintf(text, size, "a rank of the job has");
    if (ranks < 1 || local < 1 || number(local_ranks[launcher]) < 0)
        return;
    if (local != ranks) {
        if (local <= MOST_HERE)
            absent_here(ranks, local, text, size);
        return;
    }
    for (long r = 0; r < ranks && n + 48 < size; r++) {
        bool there = held_by(r, &process), waits = there && is_stopped(process);

        if (there && !waits && !held_by(ABSENT_NAMES + r, &process))
            continue;
        n += (size_t)snprintf(text + n, size - n, "%s %ld%s", n ? "," : "rank", r, waits ? " (stopped)" : "");
        hold(ABSENT_NAMES + r);
    }
    if (n)
        snprintf(text + n, size - n, " has");
}
