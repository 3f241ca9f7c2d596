/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LD_PRELOAD: makes one call of a program, and of the processes that it forks, fail. The environment says which:
 *
 *   FAULT=alloc:K         the K-th call of malloc, calloc, realloc, aligned_alloc or posix_memalign returns NULL (all
 *   after it work)
 *   FAULT=full:K          and all after it fail too, as where a limit is reached
 *   FAULT=KIND:K          the K-th call of write, read, pread, fsync, rename(at), linkat or openat(2) for writing
 *   fails: KIND is enospc, eio or eintr;
 *                         short: it transfers one byte; kill: the process is killed before it
 *   FAULT=map:K           the K-th call of mmap fails
 *   FAULT_COUNT=FILE      at the end FILE holds how many such calls there were: "ALLOCATIONS OPERATIONS MAPS"
 *
 * Programs that are started (the linker) run undisturbed. Idea: SQLite's test suites
 * (https://www.sqlite.org/testing.html, 3.1 and 3.2).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);

enum kind { NOTHING, ALLOC, FULL, ENOSPACE, EINOUT, EINTERRUPT, SHORT, KILL, MAP };
static const char *const kinds[] = {"", "alloc", "full", "enospc", "eio", "eintr", "short", "kill", "map"};
static const int errors[] = {[ENOSPACE] = ENOSPC, [EINOUT] = EIO, [EINTERRUPT] = EINTR};

static struct counts { atomic_long allocations, operations, maps; } none, *counts = &none; /* of all processes */
static enum kind kind;
static long which;
static bool armed;
static pid_t first;
static char count_file[4096];

static __attribute__((constructor)) void begin(void)
{
    const char *text = getenv("FAULT"), *file = getenv("FAULT_COUNT"), *colon = text ? strchr(text, ':') : NULL;

    for (int k = 1; colon && k <= MAP; k++)
        if (strlen(kinds[k]) == (size_t)(colon - text) && !strncmp(text, kinds[k], (size_t)(colon - text)))
            kind = (enum kind)k;
    which = colon ? atol(colon + 1) : 0;
    snprintf(count_file, sizeof count_file, "%s", file ? file : "");
    counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    first = getpid();
    unsetenv("LD_PRELOAD");
}

static __attribute__((destructor)) void end(void)
{
    FILE *f = armed && getpid() == first && *count_file ? fopen(count_file, "w") : NULL;

    armed = false;
    if (!f)
        return;
    fprintf(f, "%ld %ld %ld\n", counts->allocations, counts->operations, counts->maps);
    fclose(f);
}

/* What libraries set up before main() is not the program's. */
static int (*program)(int, char **, char **);

static int armed_main(int argc, char **argv, char **envp)
{
    armed = true;
    return program(argc, argv, envp);
}

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack)
{
    int (*next)(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void), void (*)(void), void *) =
        (__typeof__(next))dlsym(RTLD_NEXT, "__libc_start_main");

    program = main;
    return next(armed_main, argc, argv, init, fini, rtld_fini, stack);
}

static bool no_memory(void)
{
    if (!armed)
        return false;
    long n = atomic_fetch_add(&counts->allocations, 1) + 1;
    if ((kind == ALLOC && n == which) || (kind == FULL && n >= which)) {
        errno = ENOMEM;
        return true;
    }
    return false;
}

void *malloc(size_t n)
{
    return no_memory() ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    return no_memory() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    return no_memory() ? NULL : __libc_realloc(p, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    return no_memory() ? NULL : __libc_memalign(alignment, n);
}

int posix_memalign(void **p, size_t alignment, size_t n)
{
    return no_memory() || !(*p = __libc_memalign(alignment, n)) ? ENOMEM : 0;
}

/* 0: go on; 1: one byte only; -1 with errno. */
static int disturb(bool bytes)
{
    if (!armed || kind == ALLOC || kind == FULL || kind == MAP)
        return armed ? (void)atomic_fetch_add(&counts->operations, 1), 0 : 0;
    if (atomic_fetch_add(&counts->operations, 1) + 1 != which)
        return 0;
    if (kind == KILL)
        kill(getpid(), SIGKILL);
    if (kind == SHORT)
        return bytes;
    errno = errors[kind];
    return kind == NOTHING ? 0 : -1;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *data, size_t n)
{
    int d = fd > 2 ? disturb(true) : 0;
    return d < 0 ? -1 : NEXT(write)(fd, data, d && n ? 1 : n);
}

ssize_t read(int fd, void *data, size_t n)
{
    int d = fd > 2 ? disturb(true) : 0;
    return d < 0 ? -1 : NEXT(read)(fd, data, d && n ? 1 : n);
}

ssize_t pread(int fd, void *data, size_t n, off_t at)
{
    int d = disturb(true);
    return d < 0 ? -1 : NEXT(pread)(fd, data, d && n ? 1 : n, at);
}

int fsync(int fd)
{
    return disturb(false) < 0 ? -1 : NEXT(fsync)(fd);
}

int rename(const char *from, const char *to)
{
    return disturb(false) < 0 ? -1 : NEXT(rename)(from, to);
}

int renameat(int a, const char *from, int b, const char *to)
{
    return disturb(false) < 0 ? -1 : NEXT(renameat)(a, from, b, to);
}

int linkat(int a, const char *from, int b, const char *to, int flags)
{
    return disturb(false) < 0 ? -1 : NEXT(linkat)(a, from, b, to, flags);
}

int openat(int folder, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    return flags & (O_WRONLY | O_RDWR) && disturb(false) < 0 ? -1 : NEXT(openat)(folder, path, flags, mode);
}

void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    if (armed && atomic_fetch_add(&counts->maps, 1) + 1 == which && kind == MAP) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, at, n, protection, flags, fd, offset);
}
