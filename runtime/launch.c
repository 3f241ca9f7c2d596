/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches: arguments and sizes of a kernel are gathered, its tiles handed to threads. Each thread has a share of
 * adjacent tiles, so that it finds in its cache what it wrote in the launch before, and takes it in chunks from an
 * atomic counter; with its own share done it takes chunks of others. A kernel's result does not depend on who runs
 * which tile. A launch takes no more threads than it has tiles, so small ones stay on the calling thread, without an
 * atomic operation.
 */
#include "runtime/rt_int.h"

#include "runtime/mutant.h"

#define CHUNKS_PER_SHARE 8

struct launch {
    struct tccrt_session *s;
    tcc_kernel_fn fn;
    int64_t chunk;
    int shares;
};

static void part(void *arg, int i)
{
    struct launch *l = arg;
    struct tccrt_session *s = l->s;
    uint8_t *scratch = s->scratch + (size_t)i * s->scratch_bytes;

    for (int k = 0; k < l->shares; k++) {
        struct tcr_share *share = &s->shares[i + k < l->shares ? i + k : i + k - l->shares];

        for (;;) {
            int64_t first = atomic_fetch_add_explicit(&share->next, l->chunk, memory_order_relaxed);
            int64_t last = first + l->chunk < share->end ? first + l->chunk : share->end;

            if (first >= share->end)
                break;
            l->fn(s->args, s->sizes, scratch, &s->envs[i].env, first, last);
        }
    }
}

/* The caller's threads have a floating-point mode of their own. */
static void foreign_part(void *arg, int i)
{
    uint32_t mode = tcr_fp_enter();

    part(arg, i);
    tcr_fp_leave(mode);
}

static void spread(struct tccrt_session *s, tcc_kernel_fn fn, int64_t tiles, int threads)
{
    struct launch l = {.s = s, .fn = fn, .chunk = tiles / ((int64_t)threads * CHUNKS_PER_SHARE), .shares = threads};
    int64_t each = tiles / threads, more = tiles % threads;

    l.chunk = l.chunk < 1 ? 1 : l.chunk;
    for (int i = 0; i < threads; i++) {
        atomic_store_explicit(&s->shares[i].next, each * i + (i < more ? i : more), memory_order_relaxed);
        s->shares[i].end = each * (i + 1) + (i + 1 < more ? i + 1 : MUTANT(105, more, 0));
    }
    if (s->pool)
        tcr_pool_run(s->pool, threads, part, &l);
    else
        s->user_pool.run(s->user_pool.user, threads, foreign_part, &l);
}

static int gather(struct tccrt_session *s, const struct tcc_pstep *p, const char *node)
{
    const uint32_t *args = s->m->u32s + p->args.first, *sizes = s->m->u32s + p->sizes.first;

    for (uint32_t i = 0; i < p->args.count; i++) {
        int status = tcr_address(s, args[i], node, &s->args[i]);

        if (status)
            return status;
    }
    for (uint32_t i = 0; i < p->sizes.count; i++) {
        s->sizes[i] = s->values[sizes[i]];
        if (!TCR_IS_VALUE(s->sizes[i]))
            return tcr_size(s, sizes[i], "a size", node, &s->sizes[i]);
    }
    return TCC_OK;
}

int tcr_step_launch(struct tccrt_session *s, const struct tcc_pstep *p)
{
    const char *node = tcr_string(s->m, p->node);
    tcc_kernel_fn fn = s->m->kernels[p->what];
    int64_t tiles = s->values[p->tiles], scratch = p->scratch == TCC_NO ? 0 : s->values[p->scratch];
    int threads, status;
    int32_t fault = 0;

    if (tiles < 0)
        return tcr_size(s, p->tiles, "the number of tiles", node, &tiles);
    if (tiles == 0)
        return TCC_OK;
    if (scratch < 0)
        return tcr_size(s, p->scratch, "scratch", node, &scratch);
    if ((status = tcr_need_scratch(s, scratch)) || (status = gather(s, p, node)))
        return status;
    threads = tiles < s->threads ? (int)tiles : s->threads;
    if (threads == 1)
        fn(s->args, s->sizes, s->scratch, &s->envs[0].env, 0, tiles);
    else
        spread(s, fn, tiles, threads);
    for (int i = 0; i < threads; i++)
        fault = MUTANT(104, fault, 0) | s->envs[i].env.fault;
    return fault ? tcr_fail(TCC_EINDEX, "node '%s': index out of range", node) : TCC_OK;
}
