/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host as a device, and its launches: a kernel's tiles are handed to threads. Each thread has a share of
 * adjacent tiles, so that it finds in its cache what it wrote in the launch before, and takes it in chunks from an
 * atomic counter; with its own share done it takes chunks of others. A kernel's result does not depend on who runs
 * which tile. A launch takes no more threads than it has tiles, and one that is known to be small one thread: the
 * calling one, without an atomic operation.
 */

#include "runtime/device/cpu/cpu_int.h"
#include "base/mutant.h"

#define CHUNKS_PER_SHARE 8

struct launch {
    struct tcr_cpu *c;
    struct tcr_env *envs;
    const struct tcr_kernel_launch *what;
    int64_t begin, chunk; /* begin: the phase's first tile */
    int shares;
};

/* behind: the tile behind the last that the thread has run in this phase; -1: none. */
static void run_tiles(struct tcr_cpu *c, const struct tcr_kernel_launch *l, struct tcr_env *envs, int thread,
                      int64_t behind, int64_t first, int64_t last)
{
    uint8_t *scratch = c->scratch + (size_t)thread * c->scratch_step;
    bool continues = MUTANT(416, first == behind, true);

    if (c->heap->exact)
        scratch = tcr_guard_scratch(scratch, c->scratch_step, (size_t)l->scratch, continues);
    envs[thread].env.continues = continues;
    c->kernels[l->kernel](l->args, l->sizes, scratch, &envs[thread].env, first, last);
}

/* For a profile: the thread was at work since `start`. Phases of a launch are one part. */
static void took_part(struct tcr_device *d, int thread, double start)
{
    if (d->parts)
        d->parts[thread] = (struct tcr_part){d->parts[thread].end > 0 ? d->parts[thread].start : start, tcr_now()};
}

static double now_of(const struct tcr_device *d)
{
    return d->parts ? tcr_now() : 0;
}

static void part(void *arg, int i)
{
    struct launch *l = arg;
    double start = now_of(&l->c->device);
    int64_t behind = -1;

    for (int k = 0; k < l->shares; k++) {
        struct tcr_share *share = &l->c->shares[i + k < l->shares ? i + k : i + k - l->shares];

        for (;;) {
            int64_t first = atomic_fetch_add_explicit(&share->next, l->chunk, memory_order_relaxed);
            int64_t last = first + l->chunk < share->end ? first + l->chunk : share->end;

            if (first >= share->end)
                break;
            run_tiles(l->c, l->what, l->envs, i, behind, l->begin + first, l->begin + last);
            behind = l->begin + last;
            if (!i && l->c->pool)
                tcr_pool_late(l->c->pool);
        }
    }
    took_part(&l->c->device, i, start);
}

/* The caller's threads have a floating-point mode of their own. */
static void foreign_part(void *arg, int i)
{
    uint32_t mode = tcr_fp_enter();

    part(arg, i);
    tcr_fp_leave(mode);
}

/* Tiles [begin, begin + tiles). */
static void spread(struct tcr_cpu *c, const struct tcr_kernel_launch *what, int64_t begin, int64_t tiles,
                   struct tcr_env *envs, int threads)
{
    struct launch l = {.c = c,
                       .envs = envs,
                       .what = what,
                       .begin = begin,
                       .chunk = tiles / ((int64_t)threads * CHUNKS_PER_SHARE),
                       .shares = threads};
    int64_t each = tiles / threads, more = tiles % threads;

    l.chunk = l.chunk < 1 ? 1 : l.chunk;
    for (int i = 0; i < threads; i++) {
        atomic_store_explicit(&c->shares[i].next, each * i + (i < more ? i : more), memory_order_relaxed);
        c->shares[i].end = each * (i + 1) + (i + 1 < more ? i + 1 : MUTANT(105, more, 0));
    }
    if (c->pool)
        tcr_pool_run(c->pool, threads, part, &l);
    else
        c->user_pool.run(c->user_pool.user, threads, foreign_part, &l);
}

static void free_scratch(struct tcr_cpu *c)
{
    if (c->heap->exact)
        tcr_guard_free(c->scratch);
    else
        tcr_heap_free(c->heap, c->scratch, c->scratch_bytes * (size_t)c->device.threads);
    c->scratch = NULL;
    c->scratch_bytes = 0;
}

/* Scratch of at least `bytes` for every thread. */
static int reserve_scratch(struct tcr_cpu *c, int64_t bytes)
{
    size_t each = TCR_ROUND(bytes), all, threads = (size_t)c->device.threads;

    if (each <= c->scratch_bytes && c->scratch)
        return TCC_OK;
    if (bytes < 0 || bytes > INT64_MAX / 2 || __builtin_mul_overflow(each ? each : TCR_ALIGN, threads, &all))
        return tcr_fail(TCC_EENV, "no memory for %lld bytes of scratch per thread", (long long)bytes);
    free_scratch(c);
    if (c->heap->exact)
        c->scratch = tcr_guard_rows(threads, all / threads, &c->scratch_step);
    else if ((c->scratch = tcr_heap_alloc(c->heap, all)))
        c->scratch_step = all / threads;
    if (!c->scratch)
        return tcr_fail(TCC_EENV, "no memory for %lld bytes of scratch per thread", (long long)bytes);
    c->scratch_bytes = all / threads;
    return TCC_OK;
}

/* -- Tiles that are observed ------------------------------------------------------------------------------ */

/* Room for the times of so many tiles. false: they are not observed. */
static bool is_observed(struct tcr_cpu *c, int64_t tiles)
{
    if (!c->observer || tiles < 2)
        return false;
    if (tiles > c->tile_room) {
        tcr_heap_free(c->heap, c->tile_ns, (size_t)c->tile_room * sizeof *c->tile_ns);
        c->tile_ns = tcr_heap_alloc(c->heap, (size_t)tiles * sizeof *c->tile_ns);
        c->tile_room = c->tile_ns ? tiles : 0;
    }
    return c->tile_ns;
}

static void time_each(struct tcr_cpu *c, int64_t n, void (*body)(void *arg, int64_t i), void *arg)
{
    double start = tcr_now();

    for (int64_t i = 0; i < n; i++) {
        body(arg, i);
        double end = tcr_now();
        c->tile_ns[i] = end - start;
        start = end;
    }
    c->observer(c->observed, n, c->tile_ns);
}

static void one_tile(void *arg, int64_t i)
{
    struct launch *l = arg;
    int64_t tile = l->begin + i;

    run_tiles(l->c, l->what, l->envs, 0, i && !l->c->apart ? tile : -1, tile, tile + 1);
}

int tccrt_observe_tiles(struct tccrt_session *s, bool apart, tccrt_tile_observer observer, void *user)
{
    if (!s)
        return tcr_fail(TCC_EUSAGE, "observe tiles: a session is required, got NULL");
    struct tcr_cpu *c = (struct tcr_cpu *)s->host;

    c->observer = s->host->threads > 1 ? NULL : observer; /* lanes would share the times */
    c->observed = user;
    c->apart = apart;
    return TCC_OK;
}

/* Runs tiles [begin, begin + tiles) to their end. The environment of a thread that met a bad index, or NULL. */
static const struct tcc_env *run_phase(struct tcr_cpu *c, const struct tcr_kernel_launch *l, int64_t begin,
                                       int64_t tiles, struct tcr_env *envs)
{
    int most = l->small ? 1 : c->device.threads, threads = tiles < most ? (int)tiles : most;

    if (threads <= 1) {
        double start = now_of(&c->device);
        if (!l->small && is_observed(c, tiles))
            time_each(c, tiles, one_tile, &(struct launch){.c = c, .envs = envs, .what = l, .begin = begin});
        else
            run_tiles(c, l, envs, 0, -1, begin, begin + tiles);
        took_part(&c->device, 0, start);
    } else {
        spread(c, l, begin, tiles, envs, threads);
    }
    for (int i = MUTANT(104, 0, threads - 1); i < threads; i++)
        if (envs[i].env.fault)
            return &envs[i].env;
    return NULL;
}

int tcr_cpu_run(struct tcr_cpu *c, const struct tcr_kernel_launch *l, struct tcr_env *envs, const struct tcc_env **met)
{
    int status = reserve_scratch(c, l->scratch);

    *met = NULL;
    if (status)
        return status;
    if (c->heap->exact)
        tcr_guard_launch(l);
    *met = run_phase(c, l, 0, l->tiles, envs);
    if (l->combining && !*met)
        *met = run_phase(c, l, l->tiles, l->combining, envs);
    return TCC_OK;
}

struct each {
    struct tcr_device *host;
    void (*body)(void *arg, int64_t i);
    void *arg;
    int64_t n;
    struct tcr_pool *pool;
    _Atomic int64_t next;
};

static void each_part(void *arg, int i)
{
    struct each *e = arg;
    double start = now_of(e->host);

    for (int64_t k; (k = atomic_fetch_add_explicit(&e->next, 1, memory_order_relaxed)) < e->n;) {
        e->body(e->arg, k);
        if (!i && e->pool)
            tcr_pool_late(e->pool);
    }
    took_part(e->host, i, start);
}

static void foreign_each_part(void *arg, int i)
{
    uint32_t mode = tcr_fp_enter();

    each_part(arg, i);
    tcr_fp_leave(mode);
}

void tcr_host_each(struct tcr_device *host, int64_t n, void (*body)(void *arg, int64_t i), void *arg)
{
    struct tcr_cpu *c = (struct tcr_cpu *)host;
    struct each e = {.host = host, .body = body, .arg = arg, .n = n, .pool = c->pool};
    int threads = n < host->threads ? (int)n : host->threads;

    if (is_observed(c, n))
        time_each(c, n, body, arg);
    else if (threads <= 1)
        each_part(&e, 0);
    else if (c->pool)
        tcr_pool_run(c->pool, threads, each_part, &e);
    else
        c->user_pool.run(c->user_pool.user, threads, foreign_each_part, &e);
}

struct tcr_device *tcr_host_lane(struct tcr_device *host, int i)
{
    struct tcr_cpu *c = (struct tcr_cpu *)host;
    size_t bytes = (size_t)host->threads * sizeof *c->lanes;

    if (!c->lanes && !(c->lanes = tcr_heap_alloc(c->heap, bytes)))
        return NULL;
    c->lanes[i] = *c;
    c->lanes[i].device.threads = 1;
    c->lanes[i].device.parts = NULL;
    c->lanes[i].pool = NULL;
    c->lanes[i].envs = &c->envs[i];
    c->lanes[i].scratch = c->scratch + (size_t)i * c->scratch_step;
    return &c->lanes[i].device;
}

static int launch(struct tcr_device *d, int queue, const struct tcr_kernel_launch *l)
{
    struct tcr_cpu *c = (struct tcr_cpu *)d;
    const struct tcc_env *met;
    int status = tcr_cpu_run(c, l, c->envs, &met);

    (void)queue;
    return status ? status : met ? tcr_bad_index(l->checks, met) : TCC_OK;
}

static int reserve(struct tcr_device *d, int64_t scratch, int queues, uint32_t events)
{
    (void)queues, (void)events;
    return reserve_scratch((struct tcr_cpu *)d, scratch);
}

static int begin(struct tcr_device *d, const struct tcr_control *control)
{
    struct tcr_cpu *c = (struct tcr_cpu *)d;

    for (int i = 0; i < d->threads; i++)
        c->envs[i].env = (struct tcc_env){.seed = control->seed, .run = control->run};
    return TCC_OK;
}

/* -- What there is nothing to do for: work is done when it has been given ------------------------------------------ */

static int weights(struct tcr_device *d, struct tccrt_model *m, const uint8_t **p)
{
    (void)d;
    *p = m->weights;
    return TCC_OK;
}

static int order(struct tcr_device *d, int queue, uint32_t event)
{
    (void)d, (void)queue, (void)event;
    return TCC_OK;
}

static int sync_all(struct tcr_device *d, uint32_t event)
{
    (void)d, (void)event;
    return TCC_OK;
}

/* -- Opening and closing ---------------------------------------------------------------------------------- */

static void close_cpu(struct tcr_device *d)
{
    struct tcr_cpu *c = (struct tcr_cpu *)d;
    size_t threads = (size_t)d->threads;

    tcr_pool_put(c->pool);
    free_scratch(c);
    tcr_heap_free(c->heap, c->envs, threads * sizeof *c->envs);
    tcr_heap_free(c->heap, c->shares, threads * sizeof *c->shares);
    tcr_heap_free(c->heap, c->tile_ns, (size_t)c->tile_room * sizeof *c->tile_ns);
    tcr_heap_free(c->heap, c->lanes, c->lanes ? threads * sizeof *c->lanes : 0);
    tcr_heap_free(c->heap, c, sizeof *c);
}

static const struct tcr_device_ops cpu = {.close = close_cpu,
                                          .alloc = tcr_cpu_alloc,
                                          .free = tcr_cpu_free,
                                          .grow = tcr_cpu_grow,
                                          .release = tcr_cpu_release,
                                          .weights = weights,
                                          .copy = tcr_cpu_copy,
                                          .fill = tcr_cpu_fill,
                                          .launch = launch,
                                          .record = order,
                                          .wait = order,
                                          .sync = sync_all,
                                          .reserve = reserve,
                                          .begin = begin};

int tcr_device_cpu(const struct tcr_device_request *r, struct tcr_device **out)
{
    const struct tccrt_options *o = r->options;
    struct tcr_heap *heap = r->heap;
    struct tcr_cpu *c = tcr_heap_alloc(heap, sizeof *c);
    int threads = o->pool ? o->pool->count : o->threads ? o->threads : tcr_cpu_count();
    int status = TCC_OK;

    *out = NULL;
    if (!c)
        return TCC_EENV;
    threads = threads > TCR_MAX_THREADS ? TCR_MAX_THREADS : threads;
    *c = (struct tcr_cpu){
        .device = {.ops = &cpu, .name = "cpu", .shared = true, .runs_host_kernels = true, .threads = threads},
        .heap = heap,
        .kernels = r->kernels};
    if (o->pool)
        c->user_pool = *o->pool;
    if (!(c->envs = tcr_heap_alloc(heap, (size_t)threads * sizeof *c->envs)) ||
        !(c->shares = tcr_heap_alloc(heap, (size_t)threads * sizeof *c->shares)))
        status = TCC_EENV;
    else if (!o->pool && threads > 1 && !(c->pool = tcr_pool_get(threads)))
        status = tcr_fail(TCC_EENV, "no memory for a thread pool");
    if (status) {
        close_cpu(&c->device);
        return status;
    }
    *out = &c->device;
    return TCC_OK;
}
