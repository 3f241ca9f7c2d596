/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A private folder that is gone whatever happens. A watching process holds nothing but the read end of a pipe, whose
 * write end the maker and its children have: when all of them have ended, killed or not, the read returns and the
 * watcher removes the folder. It is in a session of its own, so that signals for the maker's group pass it by.
 */
#include "base/safe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Removes what lies in the folder that is open; closes it. Links are removed, not followed. */
static void empty_folder(int folder, int depth)
{
    DIR *d = fdopendir(folder);

    if (!d) {
        close(folder);
        return;
    }
    for (struct dirent *e; (e = readdir(d));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        if (!unlinkat(folder, e->d_name, 0) || depth == 16)
            continue;
        int inner = openat(folder, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (inner >= 0) {
            empty_folder(inner, depth + 1);
            unlinkat(folder, e->d_name, AT_REMOVEDIR);
        }
    }
    closedir(d);
}

/* A child that is being killed may still make a file: then once more. */
static void remove_folder(const char *path)
{
    const struct timespec pause = {.tv_nsec = 20000000};

    for (int tries = 0; tries < 100; tries++) {
        int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (folder >= 0)
            empty_folder(folder, 0);
        if (!rmdir(path) || errno != ENOTEMPTY)
            return;
        nanosleep(&pause, NULL);
    }
}

static _Noreturn void watch(const char *path, int end)
{
    sigset_t none;
    char byte;

    setsid();
    for (int i = 1; i < NSIG; i++)
        signal(i, i == SIGSEGV || i == SIGBUS || i == SIGILL || i == SIGFPE ? SIG_DFL : SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (end != 3 && dup2(end, 3) < 0)
        _exit(1);
    close_range(4, ~0u, 0);
    for (int i = 0; i < 3; i++)
        close(i);
    while (read(3, &byte, 1) < 0 && errno == EINTR) {
    }
    remove_folder(path);
    _exit(0);
}

const char *tcr_temporary(void)
{
    const char *set = getenv("TMPDIR");

    return set && *set ? set : "/tmp";
}

int tcr_scratch_make(struct tcr_scratch *s, const char *where, const char *prefix)
{
    int ends[2], length;

    *s = (struct tcr_scratch){.alive = -1};
    length = snprintf(s->path, sizeof s->path, "%s/%sXXXXXX", where ? where : tcr_temporary(), prefix);
    if (length >= (int)sizeof s->path || !mkdtemp(s->path)) {
        errno = length >= (int)sizeof s->path ? ENAMETOOLONG : errno;
        s->path[0] = '\0';
        return -1;
    }
    if (*s->path != '/') { /* the process may change its working directory */
        char full[PATH_MAX];
        if (realpath(s->path, full))
            memcpy(s->path, full, strlen(full) + 1);
    }
    /* The write end is inherited by forked children, on purpose, and closed by programs that they start. */
    if (pipe2(ends, O_CLOEXEC)) {
        tcr_scratch_remove(s);
        return -1;
    }
    s->watcher = fork();
    if (s->watcher == 0) {
        close(ends[1]);
        watch(s->path, ends[0]);
    }
    close(ends[0]);
    s->alive = ends[1];
    if (s->watcher > 0)
        return 0;
    s->watcher = 0;
    tcr_scratch_remove(s);
    return -1;
}

void tcr_scratch_remove(struct tcr_scratch *s)
{
    int why = errno;

    if (*s->path)
        remove_folder(s->path);
    if (s->watcher > 0) {
        kill(s->watcher, SIGKILL);
        while (waitpid(s->watcher, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    if (s->alive >= 0)
        close(s->alive);
    *s = (struct tcr_scratch){.alive = -1};
    errno = why;
}

void tcr_die_with_parent(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it has ended before the call */
        _exit(1);
}
