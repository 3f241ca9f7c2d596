/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank of an elastic world that does nothing but count steps, and meets anew whenever it has to: what regroup.py makes
 * schedules of. It says on standard output, a line each: "world SIZE RANK STEP" behind each meeting, "step STEP" behind
 * each step of which it is rank 0.
 *
 *   LIMIT=SECONDS   the time limit from the first meeting on, in place of TCCC_COMM_TIMEOUT
 *   JOINS           it comes to a job that runs
 *   FAULT=AT:WHAT   at the AT-th event of its meetings behind the first one (of a process that joins: of all): `die`, or
 *                   so many milliseconds in which it does nothing. Events are what can come between two processes:
 *                   connections that are asked for and taken, ports that are opened, messages that leave and arrive.
 *
 * The functions of the socket library are defined here, in front of the C library's.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "runtime/tccrt.h"

static int events, fault_at;
static long milliseconds; /* 0: die */
static bool armed;
static volatile sig_atomic_t stop;

static void rest(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

static void event(void)
{
    if (!armed || ++events != fault_at)
        return;
    if (!milliseconds)
        kill(getpid(), SIGKILL);
    rest(milliseconds);
}

/* A pointer to a function is no pointer to an object in C, but dlsym() gives it as one. */
#define REAL(result, name, ...)         \
    static result (*real)(__VA_ARGS__); \
    if (!real)                          \
    *(void **)&real = dlsym(RTLD_NEXT, #name)

int connect(int fd, const struct sockaddr *to, socklen_t n)
{
    REAL(int, connect, int, const struct sockaddr *, socklen_t);
    event();
    return real(fd, to, n);
}

int bind(int fd, const struct sockaddr *to, socklen_t n)
{
    REAL(int, bind, int, const struct sockaddr *, socklen_t);
    event();
    return real(fd, to, n);
}

int listen(int fd, int n)
{
    REAL(int, listen, int, int);
    event();
    return real(fd, n);
}

ssize_t send(int fd, const void *data, size_t n, int flags)
{
    REAL(ssize_t, send, int, const void *, size_t, int);
    event();
    return real(fd, data, n, flags);
}

ssize_t recv(int fd, void *data, size_t n, int flags)
{
    ssize_t got;

    REAL(ssize_t, recv, int, void *, size_t, int);
    got = real(fd, data, n, flags);
    if (got > 0)
        event();
    return got;
}

int accept4(int fd, struct sockaddr *from, socklen_t *n, int flags)
{
    int got;

    REAL(int, accept4, int, struct sockaddr *, socklen_t *, int);
    got = real(fd, from, n, flags);
    if (got >= 0)
        event();
    return got;
}

static void on_term(int signal)
{
    (void)signal;
    stop = 1;
}

static int fail(const char *what)
{
    printf("fail %s: %s\n", what, tccrt_error());
    return 3;
}

/* Meets, and has the count of the rank that is furthest; a rank that has just come has none. */
static int meet(struct tccrt_comm **world, long long *done)
{
    long long all[64];
    struct tcc_tensor in = {done, TCC_I64, 1, {1}}, out = {all, TCC_I64, 1, {0}};
    int size;

    do {
        if (tccrt_comm_regroup(world, 1))
            return fail("regroup");
        size = tccrt_comm_size(*world);
        out.dims[0] = size;
    } while (tccrt_comm_all_gather(*world, &in, &out, NULL, NULL));
    for (int i = 0; i < size; i++)
        *done = all[i] > *done ? all[i] : *done;
    printf("world %d %d %lld\n", size, tccrt_comm_rank(*world), *done);
    if (*done >= 0)
        return 0;
    printf("fail no rank has the state any more\n");
    return 4;
}

/* A step is made by all or by none: as the trainer's is, whose last exchange all wait behind. */
static int step(struct tccrt_comm *world, long long *done, long long flags[2])
{
    long long mine[2] = {stop, tccrt_comm_rank(world) ? 0 : tccrt_comm_waiting(world)};
    struct tcc_tensor in = {mine, TCC_I64, 1, {2}}, out = {flags, TCC_I64, 1, {2}};

    if (tccrt_comm_all_reduce(world, TCCRT_MAX, 1, 1, &in, &out, NULL) || tccrt_comm_barrier(world, NULL))
        return 1;
    ++*done;
    if (!tccrt_comm_rank(world))
        printf("step %lld\n", *done);
    return 0;
}

int main(void)
{
    const char *limit = getenv("LIMIT"), *fault = getenv("FAULT"), *what = fault ? strchr(fault, ':') : NULL;
    struct tccrt_comm_options options = {.elastic = true};
    struct tccrt_comm *world;
    long long done = 0, flags[2] = {0, 0};
    int status;

    if (!limit)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGTERM, on_term);
    if (what) {
        fault_at = atoi(fault);
        milliseconds = atol(what + 1); /* of "die" it is 0 */
    }
    armed = getenv("JOINS") != NULL;
    if (armed)
        setenv("TCCC_COMM_TIMEOUT", limit, 1);
    if (tccrt_comm_init(&options, &world))
        return fail("init");
    setenv("TCCC_COMM_TIMEOUT", limit, 1);
    tccrt_comm_timeout(world, atof(limit));
    if (tccrt_comm_joins(world)) {
        done = -1;
        rest(100); /* compiles, opens its data */
        if ((status = meet(&world, &done)))
            return status;
    }
    while (!flags[0]) {
        bool lost = step(world, &done, flags) != 0;

        if (lost && !tccrt_comm_broken(world))
            return fail("step");
        armed = true;
        if ((lost || flags[1]) && (status = meet(&world, &done)))
            return status;
        rest(5);
    }
    tccrt_comm_finalize(world, NULL);
    printf("end %lld\n", done);
    return 0;
}
