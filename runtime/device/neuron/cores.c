/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which core of the instance a process has: the simulated cores of a machine's user are numbered as an instance's are,
 * and a process takes one for all of its sessions; a logical one of two physical ones (--lnc=2) is both of these, and
 * what variables number are logical ones. A core is a file in a folder of the user's ($XDG_RUNTIME_DIR, else /dev/shm),
 * locked as long as the process lives and mapped, so that others see what it does: tccrt_neuron_cores().
 *
 * NEURON_RT_VISIBLE_CORES ("0-3", "3-5,6": ascending, without gaps) and NEURON_RT_NUM_CORES say which cores there are
 * for this process. Workers of a launcher that sets LOCAL_RANK and LOCAL_WORLD_SIZE = N take core K N + LOCAL_RANK, and
 * N is what the vendor's collectives allow: part of an instance or all of it. Where no folder can be had, no core is
 * taken: nothing but what others see depends on it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/device/neuron/neuron_int.h"

#define MOST_CORES 128

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    int file[NEURON_PAIR], users, lnc;
    pid_t process; /* a fork's child has none */
    struct tccrt_neuron_core *record[NEURON_PAIR];
} mine;

static bool folder_of(char *to, size_t room, bool make)
{
    const char *runtime = tccrt_env_text("XDG_RUNTIME_DIR");
    struct stat st;
    int n = runtime ? snprintf(to, room, "%s/tccc-neuron", runtime)
                    : snprintf(to, room, "/dev/shm/tccc-neuron-%ld", (long)getuid());

    if (n < 0 || (size_t)n >= room || (make && mkdir(to, 0700) && errno != EEXIST))
        return false;
    return !lstat(to, &st) && S_ISDIR(st.st_mode) && st.st_uid == getuid();
}

/* -- What the variables say ------------------------------------------------------------------------------- */

static int bad_list(const char *text)
{
    return tcr_fail(TCC_EUSAGE,
                    "NEURON_RT_VISIBLE_CORES=%s: expected numbers and ranges, ascending and without gaps, as 0-3",
                    text);
}

/* *first and *count of "A", "A-B" and lists of them. */
static int read_list(const char *text, int *first, int *count)
{
    long next = -1;

    for (const char *s = text; *s;) {
        char *end;
        long a = strtol(s, &end, 10), b = a;

        if (end == s || a < 0)
            return bad_list(text);
        if (*end == '-') {
            s = end + 1;
            b = strtol(s, &end, 10);
            if (end == s)
                return bad_list(text);
        }
        if (b < a || b >= MOST_CORES || (next >= 0 && a != next) || (*end && (*end != ',' || !end[1])))
            return bad_list(text);
        if (next < 0)
            *first = (int)a;
        next = b + 1;
        s = end + (*end == ',');
    }
    *count = (int)next - *first;
    return TCC_OK;
}

static int number(const char *name, int otherwise, int *value)
{
    const char *text = tccrt_env_text(name);
    char *end = NULL;
    long n = text ? strtol(text, &end, 10) : otherwise;

    *value = otherwise;
    if (text && (*end || end == text || n < 0 || n > MOST_CORES))
        return tcr_fail(TCC_EUSAGE, "%s=%s: expected a number from 0 to %d", name, text, MOST_CORES);
    *value = (int)n;
    return TCC_OK;
}

/* The cores that this process may take: the first, how many, and in what steps. */
static int visible(int instance, int own, int *first, int *count, int *step)
{
    const char *list = tccrt_env_text("NEURON_RT_VISIBLE_CORES"), *world = getenv("WORLD_SIZE");
    int workers, rank, cores, lnc, status;

    *first = 0;
    *count = instance;
    if ((status = number("NEURON_RT_NUM_CORES", 0, &cores)) || (status = number("LOCAL_WORLD_SIZE", 1, &workers)) ||
        (status = number("LOCAL_RANK", 0, &rank)) || (status = number("NEURON_LOGICAL_NC_CONFIG", own, &lnc)))
        return status;
    if (lnc != own)
        return tcr_fail(TCC_EENV,
                        "NEURON_LOGICAL_NC_CONFIG=%d: the artifact was compiled for %s a logical one (--lnc=%d)", lnc,
                        own == 1 ? "one physical core" : "two physical cores", own);
    if (cores)
        *count = cores;
    if (list && (status = read_list(list, first, count)))
        return status;
    if (*first + *count > instance)
        return tcr_fail(TCC_EENV, "cores %d to %d: the instance has %d", *first, *first + *count - 1, instance);
    *step = 1;
    if (workers < 2)
        return TCC_OK;
    if (workers != 2 && workers != 8 && workers != 32 && workers != instance)
        return tcr_fail(TCC_EENV, "%d workers on an instance: collectives take 1, 2, 8 or 32 cores of it, or all %d",
                        workers, instance);
    if (world && atoi(world) > workers && workers != instance)
        return tcr_fail(TCC_EENV,
                        "%d workers of %s on this instance: jobs of several instances take all %d cores of each",
                        workers, world, instance);
    if (workers > *count)
        return tcr_fail(TCC_EENV, "%d workers: %d cores are visible", workers, *count);
    *first += rank;
    *step = workers;
    *count -= rank;
    return TCC_OK;
}

/* -- Taking one ------------------------------------------------------------------------------------------- */

static void describe(struct tccrt_neuron_core *r, int number)
{
    struct timespec t;
    FILE *f = fopen("/proc/self/comm", "re");

    clock_gettime(CLOCK_REALTIME, &t);
    *r = (struct tccrt_neuron_core){
        .core = number, .process = getpid(), .since = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec};
    if (f && !fgets(r->command, sizeof r->command, f))
        *r->command = 0;
    if (f)
        fclose(f);
    r->command[strcspn(r->command, "\n")] = 0;
}

/* The file of a core, locked; -1: somebody has it, -2: it can't be had at all. */
static int take(const char *folder, const char *kind, int core)
{
    char path[4200];
    int file;

    snprintf(path, sizeof path, "%s/%s-%d", folder, kind, core);
    file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return -2;
    for (int tries = 0; tries < 5; tries++) { /* who looks at it holds it for a moment */
        if (!flock(file, LOCK_EX | LOCK_NB))
            return file;
        nanosleep(&(struct timespec){0, 500000}, NULL);
    }
    close(file);
    return -1;
}

static void give(int k)
{
    if (!mine.record[k])
        return;
    munmap(mine.record[k], sizeof *mine.record[k]);
    close(mine.file[k]);
    mine.record[k] = NULL;
}

/* The k-th of the process's physical cores; -1: somebody has it, -2: it can't be had at all. */
static int take_part(const char *folder, const char *kind, int core, int k)
{
    int file = take(folder, kind, core);

    if (file < 0)
        return file;
    void *at = ftruncate(file, sizeof *mine.record[k])
                   ? MAP_FAILED
                   : mmap(NULL, sizeof *mine.record[k], PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) {
        close(file);
        return -2;
    }
    mine.file[k] = file;
    mine.record[k] = at;
    mine.process = getpid();
    describe(mine.record[k], core);
    return 0;
}

static int claim(const char *kind, int instance, int lnc)
{
    char folder[4096];
    int first, count, step, status = visible(instance, lnc, &first, &count, &step), got = -1;

    if (status || !folder_of(folder, sizeof folder, true))
        return status;
    for (int k = 0; k < count && got == -1; k += step) {
        got = 0;
        for (int part = 0; part < lnc && !got; part++)
            got = take_part(folder, kind, (first + k) * lnc + part, part);
        for (int part = 0; part < lnc && got; part++)
            give(part);
    }
    mine.lnc = lnc;
    if (got == -1)
        return tcr_fail(TCC_EENV, "no free core: other processes have all of %d to %d (tccc-neuron ls shows them)",
                        first, first + count - 1);
    return TCC_OK;
}

int neuron_core_take(const char *kind, int instance, int lnc, struct tccrt_neuron_core **record)
{
    int status = TCC_OK;

    pthread_mutex_lock(&lock);
    if (mine.record[0] && mine.process != getpid()) { /* its parent's */
        for (int k = 0; k < NEURON_PAIR; k++)
            give(k);
        mine.users = 0;
    }
    if (!mine.record[0])
        status = claim(kind, instance, lnc);
    else if (mine.lnc != lnc)
        status = tcr_fail(TCC_EENV,
                          "a session of this process has %s a logical one, another artifact wants %d: one "
                          "--lnc for all of a process",
                          mine.lnc == 1 ? "one physical core" : "two physical cores", lnc);
    if (!status && mine.record[0])
        mine.users++;
    for (int k = 0; k < NEURON_PAIR; k++)
        record[k] = mine.record[k];
    pthread_mutex_unlock(&lock);
    return status;
}

void neuron_core_give(const struct tccrt_neuron_core *record)
{
    if (!record)
        return;
    pthread_mutex_lock(&lock);
    if (record == mine.record[0] && mine.process == getpid() && !--mine.users)
        for (int k = 0; k < NEURON_PAIR; k++)
            give(k);
    pthread_mutex_unlock(&lock);
}

/* -- Looking ---------------------------------------------------------------------------------------------- */

int tccrt_neuron_cores(const char *kind, int room, struct tccrt_neuron_core *list)
{
    char folder[4096], path[4200];
    int n = 0;

    if (!kind || !list || !folder_of(folder, sizeof folder, false))
        return 0;
    for (int core = 0; core < MOST_CORES && n < room; core++) {
        snprintf(path, sizeof path, "%s/%s-%d", folder, kind, core);
        int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

        if (file < 0)
            continue;
        if (flock(file, LOCK_SH | LOCK_NB) && pread(file, &list[n], sizeof *list, 0) == sizeof *list &&
            list[n].core == core)
            list[n++].command[sizeof list->command - 1] = 0;
        close(file);
    }
    return n;
}
