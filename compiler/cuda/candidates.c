/* SPDX-License-Identifier: Apache-2.0 */
/*
 * candidates.c - the schedules of a kernel that are worth timing (tccc --tune): what choose.c weighs by a formula, and the sizes of blocks that it
 * takes as they are.
 *
 *   products     every template that takes it, each with all of its tiles, depths of a step and, on sm_90a, both ways of bringing factors; as
 *                many pieces of the terms as the shape says, so that the order of a sum depends on the template alone
 *   reductions   threads, warps or blocks of several sizes that share an outer point
 *   others       blocks of several sizes
 *
 * Sorts, scans, scatters and attention have one way each.
 */
#include "compiler/cuda/contract_int.h"

#include <string.h>

struct list {
    const struct pass_machine *m;
    struct ir_ctx *ctx;
    const struct kn_kernel *k;
    struct kn_schedule *at;
    int n, room;
};

static bool same(const struct kn_schedule *a, const struct kn_schedule *b)
{
    if (strcmp(a->how, b->how) || a->nparams != b->nparams)
        return false;
    for (int i = 0; i < a->nparams; i++)
        if (strcmp(a->params[i].key, b->params[i].key) || a->params[i].value != b->params[i].value)
            return false;
    return true;
}

/* Those that the machine runs, once each. */
static void add(struct list *l, struct cuda_schedule s)
{
    struct kn_kernel tried = *l->k;
    cuda_put_schedule(&tried, s);
    struct kn_schedule want = tried.schedule;
    for (int i = 0; i < l->n; i++)
        if (same(&l->at[i], &want))
            return;
    tried = *l->k;
    if (l->n < l->room && !cuda_pick_schedule(l->m, l->ctx, &tried, &want))
        l->at[l->n++] = tried.schedule;
}

static void add_products(struct list *l, struct cuda_schedule own)
{
    const struct cuda_machine *m = (const struct cuda_machine *)l->m;
    int bytes = cuda_product_bytes(l->ctx, l->k);
    int64_t terms = cuda_points(l->k, l->k->contraction.k);
    for (int how = CUDA_CONTRACT; how <= CUDA_WGMMA; how++) {
        int least_bk = how == CUDA_CONTRACT ? 8
                       : how == CUDA_MMA    ? 32 / bytes
                                            : CT_ROW / bytes,
            most_bk = how == CUDA_MMA ? 128 / bytes : least_bk;
        if (!cuda_takes_contract(l->ctx, l->k, (enum cuda_how)how) || (how == CUDA_MMA && bytes == 4 && !m->tf32))
            continue;
        for (int bm = 32; bm <= 128; bm *= 2)
            for (int bn = 32; bn <= 256; bn *= 2)
                for (int bk = least_bk; bk <= most_bk; bk *= 2)
                    for (int sends = how == CUDA_WGMMA ? 1 : 0; sends >= 0; sends--) {
                        struct cuda_schedule s = cuda_plain_schedule((enum cuda_how)how);
                        s.threads = sends ? CUDA_SENDING : CT_THREADS;
                        s.bm = bm;
                        s.bn = bn;
                        s.bk = bk;
                        s.split = own.split;
                        cuda_choose_stages(m, terms, bytes, &s);
                        add(l, s);
                        if (how != m->fp8 || !cuda_may_fp8(l->ctx, l->k))
                            continue;
                        s.fp8 = 1;
                        s.bk = how == CUDA_WGMMA ? CT_ROW : bk;
                        cuda_choose_stages(m, terms, 1, &s);
                        add(l, s);
                    }
    }
}

static bool has_one_way(const struct kn_kernel *k)
{
    for (int i = 0; i < k->ninsns; i++)
        if (k->insns[i].code == KN_SORT || k->insns[i].code == KN_SCAN)
            return true;
    return false;
}

static void add_groups(struct list *l)
{
    static const int sizes[][2] = {{1, 128}, {32, 64}, {32, 128}, {32, 256}, {128, 128}, {256, 256}, {512, 512}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct cuda_schedule s = cuda_plain_schedule(sizes[i][0] > 1 ? CUDA_GROUPS : CUDA_POINTS);
        s.group = sizes[i][0];
        s.threads = sizes[i][1];
        add(l, s);
    }
}

int cuda_candidates(const struct pass_machine *m, struct ir_ctx *ctx, const struct kn_kernel *k,
                    struct kn_schedule *list, int room)
{
    struct list l = {m, ctx, k, list, 1, room};
    struct cuda_schedule own = cuda_get_schedule(k);
    bool inner = false;
    list[0] = k->schedule;
    for (int i = 0; i < k->nstages; i++)
        inner |= k->stages[i].inner != 0;
    if (cuda_is_product(own.how))
        add_products(&l, own);
    else if (own.how == CUDA_ATTENTION || own.how == CUDA_OWNERS || own.how == CUDA_TRANSPOSE || has_one_way(k))
        return 1;
    else if (inner)
        add_groups(&l);
    else
        for (own.threads = 64; own.threads <= 512; own.threads *= 2)
            add(&l, own);
    return l.n;
}
