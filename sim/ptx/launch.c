/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A launch: blocks are handed out to threads of the host by a counter; each thread keeps one block's memory and reuses
 * it. The warps of a block take turns, in an order drawn from the seed, the block's number and nothing else: results of
 * race-free kernels, reports and counters do not depend on the number of host threads. The blocks of a cooperative
 * launch take turns on one thread instead.
 */
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/ptx/ptx_int.h"

static void block_free(struct ptx_block *b)
{
    for (int k = 0; b->warps && k < b->nwarps; k++) {
        for (int f = 0; f < 64; f++)
            free(b->warps[k].frames[f].memory);
        free(b->warps[k].split);
        free(b->warps[k].copies);
        free(b->warps[k].products);
    }
    free(b->warps);
    free(b->shared);
    free(b->shadow);
    free(b->cells);
    free(b->local);
    free(b->local_shadow);
    free(b->mbars);
    free(b->seen.at);
    free(b->bulk);
    free(b->tags);
}

static bool block_new(struct ptx_block *b, struct ptx_grid *g)
{
    const struct ptx_func *f = &g->k->f;
    const struct ptx_launch *l = g->l;
    size_t func = f->m->func_local - FUNC_LOCAL;
    b->d = g->d;
    b->f = f;
    b->l = l;
    b->g = g;
    b->nthreads = (int)(l->block[0] * l->block[1] * l->block[2]);
    b->nwarps = (b->nthreads + LANES - 1) / LANES;
    b->shared_bytes = l->shared    ? (size_t)f->dynamic_at + l->shared
                      : f->nshared ? (size_t)f->shared[f->nshared - 1].to
                                   : 0;
    b->local_bytes = f->local_bytes + func;
    b->warps = calloc((size_t)b->nwarps, sizeof *b->warps);
    b->shared = aligned_alloc(1024, (b->shared_bytes + 2047) & ~(size_t)1023);
    b->shadow = malloc(b->shared_bytes + 64);
    b->cells = g->d->config.checks ? malloc((b->shared_bytes / 4 + 16) * sizeof *b->cells) : NULL;
    size_t local = b->local_bytes * (size_t)b->nwarps * LANES + 64;
    b->local = malloc(local);
    b->local_shadow = malloc(local);
    b->tags = malloc(b->shared_bytes / 128 + 2);
    return b->warps && b->shared && b->shadow && b->local && b->local_shadow && b->tags &&
           (b->cells || !g->d->config.checks);
}

static void block_start(struct ptx_block *b, uint64_t cluster, int rank, int n)
{
    const unsigned *grid = b->l->grid, *c = b->g->cluster;
    uint64_t nx = grid[0] / c[0], ny = grid[1] / c[1];
    b->id[0] = (unsigned)(cluster % nx) * c[0] + (unsigned)rank % c[0];
    b->id[1] = (unsigned)(cluster / nx % ny) * c[1] + (unsigned)rank / c[0] % c[1];
    b->id[2] = (unsigned)(cluster / nx / ny) * c[2] + (unsigned)rank / c[0] / c[1];
    uint64_t number = ((uint64_t)b->id[2] * grid[1] + b->id[1]) * grid[0] + b->id[0];
    b->lead = b - rank;
    b->rank = rank;
    b->nblocks = n;
    b->nclock = (n - 1) * MAX_WARPS + b->nwarps;
    b->cluster_phase = 0;
    memset(b->cluster_clock, 0, sizeof b->cluster_clock);
    memset(b->cluster_now, 0, sizeof b->cluster_now);
    b->nbulk = 0;
    memset(b->tags, 0, b->shared_bytes / 128 + 1);
    b->random = b->d->config.seed * 0x9e3779b97f4a7c15 + number;
    b->era = 1;
    b->number = b->g->blocks < 0xffff0 ? (uint32_t)number + 1 : 0;
    b->fenced = 0;
    if (b->seen.n)
        memset(b->seen.at, 0, b->seen.room * sizeof *b->seen.at);
    b->seen.n = 0;
    b->executed = 0;
    b->idle = 0;
    b->ended = false;
    b->nmbars = 0;
    memset(b->barriers, 0, sizeof b->barriers);
    memset(b->shared, 0xcd, b->shared_bytes);
    memset(b->shadow, 0, b->shared_bytes);
    if (b->cells)
        memset(b->cells, 0, (b->shared_bytes / 4 + 1) * sizeof *b->cells);
    memset(b->local_shadow, 0, b->local_bytes * (size_t)b->nwarps * LANES);
    for (int k = 0; k < b->nwarps; k++) {
        struct ptx_warp *w = &b->warps[k];
        int lanes = b->nthreads - k * LANES;
        w->b = b;
        w->rows = b->d->rows;
        w->id = k;
        w->state = W_READY;
        w->live = lanes >= LANES ? FULL : (1u << lanes) - 1;
        w->cc = 0;
        w->nframes = w->nsplit = w->ncopies = 0;
        memset(w->group, 0, sizeof w->group);
        w->tick = w->counted = 0;
        w->now = w->bulk_until = w->product_until = (struct ptx_path){{0}};
        w->tries = w->multiplies = false;
        memset(w->copies_at, 0, sizeof w->copies_at);
        w->copy_group = 0;
        w->at = NULL;
        w->last = NULL;
        w->range = NULL;
        w->floor = 0;
        w->nproducts = w->product_group = 0;
        w->product_fence = w->in_cluster = false;
        memset(w->proxy, 0, sizeof w->proxy);
        memset(w->bulk_group, 0, sizeof w->bulk_group);
        memset(w->clock, 0, (size_t)b->nclock * sizeof *w->clock);
        ptx_push_frame(w, b->f, w->live, NULL);
    }
}

static struct ptx_warp *warp_at(struct ptx_block *lead, int k)
{
    return &lead[k / lead->nwarps].warps[k % lead->nwarps];
}

static void deadlock(struct ptx_block *lead)
{
    for (int k = 0; k < lead->nblocks * lead->nwarps; k++) {
        struct ptx_warp *w = warp_at(lead, k);
        if (w->state != W_BARRIER)
            continue;
        const struct ptx_barrier *r = &w->b->barriers[w->barrier];
        ptx_report(w, PTX_CHECK_DEADLOCK, __builtin_ctz(w->live ? w->live : 1), 0,
                   "the warp waits at barrier %d, where %u of %u threads have arrived; no other warp can go on",
                   w->barrier, r->arrived, r->expected);
        return;
    }
}

/* Time passes for copies and products: one of those on their way ends. */
static void pass_time(struct ptx_block *lead, struct ptx_warp *w)
{
    if (w->ncopies && ptx_random(&lead->random) & 1)
        ptx_copies_land(w);
    if (lead->nbulk && ptx_random(&lead->random) & 1) {
        int first = (int)(ptx_random(&lead->random) % (unsigned)lead->nbulk), k = 0;
        while (k < lead->nbulk && lead->bulk[(first + k) % lead->nbulk].landed)
            k++;
        ptx_bulk_land(lead, (first + k) % lead->nbulk);
    }
    if (w->nproducts && ptx_random(&lead->random) & 1)
        ptx_product_run(w);
}

static void land_all(struct ptx_block *lead)
{
    for (int k = lead->nbulk - 1; k >= 0; k--)
        ptx_bulk_land(lead, k);
}

/* A turn of one of a cluster's warps (or the one block's); false: all are done, or none goes on. A warp that waits for
 * an mbarrier or the cluster polls: when all that are left only poll, time passes for copies. */
static bool cluster_turn(struct ptx_block *lead)
{
    int all = lead->nblocks * lead->nwarps, ready[MAX_CLOCK], n = 0, done = 0;
    for (int k = 0; k < all; k++) {
        struct ptx_warp *w = warp_at(lead, k);
        if (w->state == W_WAIT)
            w->state = W_READY;
        if (w->state == W_READY)
            ready[n++] = k;
        done += w->state == W_DONE;
        if (w->b->stop)
            return false;
    }
    if (done == all) {
        land_all(lead);
        return false;
    }
    if (!n) {
        deadlock(lead);
        return false;
    }
    struct ptx_warp *w = warp_at(lead, ready[ptx_random(&lead->random) % (unsigned)n]);
    w->quantum = 256 + (int)(ptx_random(&lead->random) & 1023);
    pass_time(lead, w);
    ptx_step_warp(w);
    lead->idle = w->state == W_WAIT ? lead->idle + 1 : 0;
    if (lead->idle > 100 * all)
        land_all(lead);
    if (lead->idle <= 1000 * all)
        return true;
    return ptx_report(w, PTX_CHECK_DEADLOCK, __builtin_ctz(w->live ? w->live : 1), 0,
                      w->in_cluster ? "the warp waits for the cluster's barrier, at which others do not arrive"
                                    : "the warp waits for a phase of an mbarrier that nobody completes"),
           false;
}

static void add_counters(struct ptx_counters *to, const struct ptx_counters *from)
{
    uint64_t *t = (uint64_t *)to;
    const uint64_t *f = (const uint64_t *)from;
    for (size_t k = 0; k < sizeof *to / sizeof *t; k++)
        t[k] += f[k];
}

/* Clusters of n blocks, one after the other; of a cooperative launch all, in turns drawn from the seed. */
static bool run_clusters(struct ptx_grid *g, struct ptx_block *b, uint64_t first, int n, int clusters)
{
    uint64_t random = g->d->config.seed + 1;
    bool stop = false;
    for (int c = 0; c < clusters; c++)
        for (int k = 0; k < n; k++)
            block_start(&b[c * n + k], first + (uint64_t)c, k, n);
    for (int left = clusters; left && !stop;) {
        int c = (int)(ptx_random(&random) % (unsigned)clusters);
        while (b[c * n].ended)
            c = (c + 1) % clusters;
        b[c * n].ended = !cluster_turn(&b[c * n]);
        left -= b[c * n].ended;
        for (int k = 0; k < n; k++)
            stop |= b[c * n + k].stop;
    }
    for (int k = 0; k < n * clusters; k++)
        ptx_path_end(&b[k]);
    return stop;
}

/* Of `all` clusters those that run. */
static uint64_t sampled(const struct ptx_grid *g, uint64_t all)
{
    uint64_t n = g->l->cooperative ? 0 : g->l->sample;
    return n && n < all ? n : all;
}

/* Number `number` of those that run: somewhere in its share of them all, by the golden ratio: at equal distances all
 * could be alike (each head's first rows, of which a causal mask hides the most). */
static uint64_t place_of(uint64_t number, uint64_t all, uint64_t some)
{
    uint64_t part = some < all ? (uint32_t)(number * UINT32_C(0x9e3779b9)) : 0;
    return (uint64_t)(((__uint128_t)number << 32 | part) * all / some >> 32);
}

/* What those that ran have counted, as if all had. */
static void scale_counters(const struct ptx_grid *g, struct ptx_counters *c)
{
    uint64_t all = g->blocks / (g->cluster[0] * g->cluster[1] * g->cluster[2]), some = sampled(g, all);
    uint64_t *to = (uint64_t *)c;
    for (size_t k = 0; k < sizeof *c / sizeof *to && some < all; k++)
        to[k] = (uint64_t)((__uint128_t)to[k] * all / some);
}

static void *worker(void *arg)
{
    struct ptx_grid *g = arg;
    int per = (int)(g->cluster[0] * g->cluster[1] * g->cluster[2]), n = g->l->cooperative ? (int)g->blocks : per;
    struct ptx_block *b = calloc((size_t)n, sizeof *b);
    struct ptx_counters sum = {0};
    bool stop = false;
    fenv_t env;
    fegetenv(&env);
    fesetenv(FE_DFL_ENV);
    for (int k = 0; k < n; k++)
        if (!b || !block_new(&b[k], g))
            g->no_memory = true;
    uint64_t all = g->blocks / (unsigned)n, some = sampled(g, all);
    while (!g->no_memory && !stop && !atomic_load(&g->stop)) {
        uint64_t number = atomic_fetch_add(&g->next, 1);
        if (number >= some)
            break;
        number = place_of(number, all, some);
        stop = run_clusters(g, b, number, per, n / per);
    }
    for (int k = 0; b && k < n; k++) {
        add_counters(&sum, &b[k].count);
        block_free(&b[k]);
    }
    free(b);
    fesetenv(&env);
    pthread_mutex_lock(&g->lock);
    add_counters(&g->count, &sum);
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

static bool check_shape(const struct ptx_device *d, const struct ptx_func *f, const struct ptx_launch *l, char *error)
{
    static const unsigned most_grid[3] = {0x7fffffff, 65535, 65535}, most_block[3] = {1024, 1024, 64};
    uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2], most = 1;
    for (int i = 0; i < 3; i++)
        if (!l->grid[i] || l->grid[i] > most_grid[i] || !l->block[i] || l->block[i] > most_block[i]) {
            snprintf(error, PTX_ERROR, "grid (%u,%u,%u) of blocks (%u,%u,%u) is out of range", l->grid[0], l->grid[1],
                     l->grid[2], l->block[0], l->block[1], l->block[2]);
            return false;
        }
    for (int i = 0; i < 3; i++) {
        most *= f->maxntid[i] ? (uint64_t)f->maxntid[i] : 1;
        if (f->reqntid[0] && (unsigned)f->reqntid[i] != l->block[i]) {
            snprintf(error, PTX_ERROR, "kernel %s requires blocks of (%d,%d,%d) threads", f->name, f->reqntid[0],
                     f->reqntid[1], f->reqntid[2]);
            return false;
        }
    }
    if (threads > 1024 || (f->maxntid[0] && threads > most)) {
        snprintf(error, PTX_ERROR, "%llu threads a block, kernel %s takes at most %llu", (unsigned long long)threads,
                 f->name, (unsigned long long)(f->maxntid[0] ? most : 1024));
        return false;
    }
    if (f->shared_bytes + l->shared > (size_t)d->config.shared_limit) {
        snprintf(error, PTX_ERROR, "%zu bytes of shared memory a block, the device has %d", f->shared_bytes + l->shared,
                 d->config.shared_limit);
        return false;
    }
    if (l->params_size != f->param_bytes) {
        snprintf(error, PTX_ERROR, "%zu bytes of parameters, kernel %s takes %zu", l->params_size, f->name,
                 f->param_bytes);
        return false;
    }
    return true;
}

/* The cluster's shape: the launch's, the kernel's, or one block. */
static bool cluster_shape(struct ptx_grid *g, char *error)
{
    const int *own = g->k->f.cluster;
    uint64_t n = 1;
    for (int i = 0; i < 3; i++) {
        g->cluster[i] = g->l->cluster[i] ? g->l->cluster[i] : own[i] > 0 ? (unsigned)own[i] : 1;
        n *= g->cluster[i];
        if (g->l->grid[i] % g->cluster[i] || n > MAX_CLUSTER || (own[0] && g->cluster[i] != (unsigned)own[i])) {
            snprintf(error, PTX_ERROR, "clusters of (%u,%u,%u) blocks do not fit kernel %s and the grid", g->cluster[0],
                     g->cluster[1], g->cluster[2], g->k->f.name);
            return false;
        }
    }
    return true;
}

bool ptx_run(struct ptx_device *d, const struct ptx_kernel *k, const struct ptx_launch *l,
             struct ptx_counters *counters, char *error)
{
    struct ptx_grid g = {.d = d, .k = k, .l = l};
    pthread_t threads[256];
    int n = 0;
    if (counters)
        memset(counters, 0, sizeof *counters);
    if (!check_shape(d, &k->f, l, error) || !cluster_shape(&g, error))
        return false;
    if (!d->clock) /* by itself: everything before it is done */
        ptx_begin(d, 0, 0, NULL, NULL);
    g.blocks = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
    pthread_mutex_init(&g.lock, NULL);
    while (!l->cooperative && n < d->config.threads - 1 && n < 255 && (uint64_t)n + 1 < g.blocks &&
           !pthread_create(&threads[n], NULL, worker, &g))
        n++;
    worker(&g);
    while (n)
        pthread_join(threads[--n], NULL);
    pthread_mutex_destroy(&g.lock);
    for (int k = 0; k < g.nflags; k++)
        free(g.flags[k].seen.at);
    free(g.flags);
    if (counters) {
        *counters = g.count;
        scale_counters(&g, counters);
    }
    if (g.no_memory)
        snprintf(error, PTX_ERROR, "no memory");
    else if (atomic_load(&g.stop))
        snprintf(error, PTX_ERROR, "%s", g.error);
    return !g.no_memory && !atomic_load(&g.stop);
}
