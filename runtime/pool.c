/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thread pools. A pool of n threads is n - 1 helpers and whoever calls tcr_pool_run(); sessions that ask for equally
 * many threads share one. Helpers spin for a short while after a region, then sleep on a futex.
 *
 * A region is opened by publishing one word, `gate`: its number, how many may join, have joined, are still at work.
 * Helpers join by compare-and-swap while it is open. When the caller has nothing left to do it closes the gate and
 * waits for those who joined, never for one that is still asleep: a region that ends quickly costs no wake-up latency.
 * When another session is using the pool, the caller does all the work alone: results do not depend on it.
 *
 * To wake a helper takes as long as a short network. A burst is regions that follow each other so closely that helpers
 * stay awake. Where all of them sleep, a burst begins without them if the one before it was too short for anybody to
 * come in time, and they are woken when it has lasted longer (tcr_pool_late()).
 */
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "runtime/rt_int.h"

#include "base/mutant.h"

/* gate: number of the region (32 bits), closed (1), limit (10), joined (10), at work (10) */
#define ACTIVE_ONE 1ull
#define JOINED_ONE (1ull << 10)
#define LIMIT_AT 20
#define CLOSED (1ull << 30)
#define FIELD(g, at) ((uint32_t)((g) >> (at)) & 1023)

#define SPIN_NS 60000  /* a helper's patience: longer than the serial gaps between launches */
#define WORTH_NS 40000 /* a burst in which whoever is woken at its beginning helps */

struct tcr_pool {
    struct tcr_pool *next; /* under registry.lock, as refs */
    int refs;
    int threads;
    int started;        /* helpers that run; changed by the holder of `busy` */
    _Atomic int unborn; /* helpers that are being made and do not run yet */
    bool crowded;       /* more threads than CPUs: spinning would steal from those at work */
    pthread_t *helpers;
    void (*fn)(void *arg, int i);
    void *arg;
    _Alignas(TCR_ALIGN) _Atomic uint64_t gate;
    _Alignas(TCR_ALIGN) _Atomic uint32_t number; /* of the newest region; what sleeping helpers wait on */
    _Atomic uint32_t sleepers;
    _Alignas(TCR_ALIGN) _Atomic int busy;
    _Atomic int stop;
    _Alignas(TCR_ALIGN) _Atomic uint32_t done; /* what a sleeping caller waits on */
    _Atomic int waiting;
    _Atomic int unwoken;     /* helpers that the open region may take and that sleep on */
    _Atomic uintptr_t owner; /* the thread that has that region */
    /* When the burst began; when the last region ended, as far as the helpers know; how long the burst before was. */
    _Atomic int64_t begun, ended, before;
};

static struct {
    pthread_mutex_t lock;
    struct tcr_pool *pools;
    pthread_once_t once;
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int n)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" : : : "memory"); /* waits a little, which YIELD does not do on most processors */
#endif
}

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* -- Helpers ---------------------------------------------------------------------------------------- */

static uint32_t next_region(struct tcr_pool *p, uint32_t seen)
{
    int64_t end = 0;

    for (;;) {
        for (int i = 0; i < 64; i++) {
            uint32_t n = atomic_load_explicit(&p->number, memory_order_acquire);

            if (n != seen)
                return n;
            relax();
        }
        if (!p->crowded && (end == 0 || now_ns() < end)) {
            end = end ? end : now_ns() + SPIN_NS;
            continue;
        }
        if (end)
            atomic_store_explicit(&p->ended, end - SPIN_NS, memory_order_relaxed);
        atomic_fetch_add(&p->sleepers, 1);
        if (atomic_load(&p->number) == seen)
            futex_wait(&p->number, seen);
        atomic_fetch_sub(&p->sleepers, 1);
        end = 0;
    }
}

static void take_part(struct tcr_pool *p, uint32_t number)
{
    uint64_t g = atomic_load_explicit(&p->gate, memory_order_acquire);

    while ((uint32_t)(g >> 32) == number && !(g & CLOSED) && MUTANT(106, FIELD(g, 10) < FIELD(g, LIMIT_AT), true)) {
        if (!atomic_compare_exchange_weak(&p->gate, &g, g + JOINED_ONE + ACTIVE_ONE))
            continue;
        p->fn(p->arg, (int)FIELD(g, 10) + 1);
        g = atomic_fetch_sub(&p->gate, ACTIVE_ONE);
        if (FIELD(g, 0) == 1 && atomic_load(&p->waiting)) {
            atomic_fetch_add(&p->done, 1);
            futex_wake(&p->done, 1);
        }
        return;
    }
}

static void *helper(void *arg)
{
    struct tcr_pool *p = arg;
    uint32_t seen = 0;

    atomic_fetch_sub(&p->unborn, 1);
    tcr_fp_enter();
    for (;;) {
        seen = next_region(p, seen);
        if (atomic_load(&p->stop))
            return NULL;
        take_part(p, seen);
    }
}

/* Starts the helpers; with fewer than wanted (a limit on threads) the pool works all the same. */
static void start(struct tcr_pool *p)
{
    sigset_t all, old;

    /* The program's signal handlers are not to run here. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (p->started < p->threads - 1) {
        atomic_fetch_add(&p->unborn, 1);
        if (pthread_create(&p->helpers[p->started], NULL, helper, p)) {
            atomic_fetch_sub(&p->unborn, 1);
            break;
        }
        p->started++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* -- Regions ---------------------------------------------------------------------------------------- */

static void wait_for_helpers(struct tcr_pool *p)
{
    uint64_t g = atomic_fetch_or(&p->gate, CLOSED);

    for (int i = 0; FIELD(g, 0); i++) {
        if (i < (p->crowded ? 100 : 4000)) {
            relax();
            g = atomic_load_explicit(&p->gate, memory_order_acquire);
            continue;
        }
        uint32_t seen = atomic_load(&p->done);

        atomic_store(&p->waiting, 1);
        g = atomic_load(&p->gate);
        if (FIELD(g, 0))
            futex_wait(&p->done, seen);
        atomic_store(&p->waiting, 0);
        g = atomic_load(&p->gate);
    }
}

/* Is it worth it to wake helpers now, all of which sleep or don't run yet? Others may not open regions. */
static bool is_worth(struct tcr_pool *p, int64_t now)
{
    int64_t ended = atomic_load_explicit(&p->ended, memory_order_relaxed);

    if (now - ended > SPIN_NS) {
        atomic_store_explicit(&p->before, ended - p->begun, memory_order_relaxed);
        atomic_store_explicit(&p->begun, now, memory_order_relaxed);
    }
    return p->before >= WORTH_NS || now - p->begun >= WORTH_NS;
}

static void open_region(struct tcr_pool *p, int n, void (*fn)(void *arg, int i), void *arg)
{
    uint32_t number = atomic_load_explicit(&p->number, memory_order_relaxed) + 1;

    p->fn = fn;
    p->arg = arg;
    atomic_store(&p->gate, (uint64_t)number << 32 | (uint64_t)(n - 1) << LIMIT_AT);
    atomic_store(&p->number, number);
}

static void wake(struct tcr_pool *p, int helpers)
{
    if (p->started < p->threads - 1)
        start(p);
    if (atomic_load(&p->sleepers))
        futex_wake(&p->number, helpers);
}

void tcr_pool_run(struct tcr_pool *p, int n, void (*fn)(void *arg, int i), void *arg)
{
    if (n > p->threads)
        n = p->threads;
    if (n <= 1 || atomic_exchange(&p->busy, 1)) {
        fn(arg, 0);
        return;
    }
    bool asleep = (int)atomic_load(&p->sleepers) >= p->started, late = asleep && !is_worth(p, now_ns());
    open_region(p, n, fn, arg);
    atomic_store_explicit(&p->owner, (uintptr_t)pthread_self(), memory_order_relaxed);
    if (late)
        atomic_store_explicit(&p->unwoken, n - 1, memory_order_relaxed);
    else
        wake(p, n - 1);
    fn(arg, 0);
    wait_for_helpers(p);
    atomic_store_explicit(&p->unwoken, 0, memory_order_relaxed);
    if (asleep)
        atomic_store_explicit(&p->ended, now_ns(), memory_order_relaxed);
    atomic_store_explicit(&p->busy, 0, memory_order_release);
}

/* Others, which work alone beside the open region, ask as well. */
void tcr_pool_late(struct tcr_pool *p)
{
    int helpers = atomic_load_explicit(&p->unwoken, memory_order_relaxed);

    if (!helpers || atomic_load_explicit(&p->owner, memory_order_relaxed) != (uintptr_t)pthread_self() ||
        now_ns() - atomic_load_explicit(&p->begun, memory_order_relaxed) < WORTH_NS)
        return;
    atomic_store_explicit(&p->unwoken, 0, memory_order_relaxed);
    wake(p, helpers);
}

/* -- Registry ---------------------------------------------------------------------------------------- */

/* No thread is to be half begun when a process forks: the loader, the C library and sanitizers hold locks then, which
 * nobody would release in the child. */
static void before_fork(void)
{
    pthread_mutex_lock(&registry.lock);
    for (struct tcr_pool *p = registry.pools; p; p = p->next)
        while (atomic_load(&p->unborn))
            sched_yield();
}

static void after_fork_parent(void)
{
    pthread_mutex_unlock(&registry.lock);
}

/* The child has only the forking thread: pools begin anew, helpers start with the next region. */
static void after_fork_child(void)
{
    for (struct tcr_pool *p = registry.pools; p; p = p->next) {
        p->started = 0;
        atomic_store(&p->unborn, 0);
        atomic_store(&p->gate, CLOSED);
        atomic_store(&p->number, 0);
        atomic_store(&p->sleepers, 0);
        atomic_store(&p->busy, 0);
        atomic_store(&p->waiting, 0);
        atomic_store(&p->unwoken, 0);
    }
    pthread_mutex_unlock(&registry.lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

struct tcr_pool *tcr_pool_get(int threads)
{
    struct tcr_pool *p;

    threads = threads < 1 ? 1 : threads > TCR_MAX_THREADS ? TCR_MAX_THREADS : threads;
    pthread_once(&registry.once, watch_forks);
    pthread_mutex_lock(&registry.lock);
    for (p = registry.pools; p && p->threads != threads; p = p->next)
        ;
    if (p) {
        p->refs++;
    } else if ((p = aligned_alloc(TCR_ALIGN, TCR_ROUND(sizeof *p)))) {
        memset(p, 0, sizeof *p);
        p->refs = 1;
        p->threads = threads;
        p->crowded = threads > tcr_cpu_count();
        atomic_init(&p->gate, CLOSED);
        p->helpers = calloc((size_t)threads, sizeof *p->helpers);
        if (p->helpers) {
            p->next = registry.pools;
            registry.pools = p;
        } else {
            free(p);
            p = NULL;
        }
    }
    pthread_mutex_unlock(&registry.lock);
    return p;
}

void tcr_pool_put(struct tcr_pool *p)
{
    struct tcr_pool **at;

    if (!p)
        return;
    pthread_mutex_lock(&registry.lock);
    if (--p->refs > 0) {
        pthread_mutex_unlock(&registry.lock);
        return;
    }
    for (at = &registry.pools; *at != p; at = &(*at)->next)
        ;
    *at = p->next;
    pthread_mutex_unlock(&registry.lock);
    atomic_store(&p->stop, 1);
    atomic_fetch_add(&p->number, 1);
    futex_wake(&p->number, p->threads);
    for (int i = 0; i < p->started; i++)
        pthread_join(p->helpers[i], NULL);
    free(p->helpers);
    free(p);
}
