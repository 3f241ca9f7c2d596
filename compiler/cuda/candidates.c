/* SPDX-License-Identifier: Apache-2.0 */
/*
 * candidates.c - the schedules of a kernel that are worth timing (tccc --tune): what choose.c weighs by a formula, and
 * the sizes of blocks that it takes as they are.
 *
 *   products     every template that takes it, each with all of its tiles, depths of a step and, on sm_90a, both ways
 *                of bringing factors, by blocks alone and by pairs; as many pieces of the terms as the shape says, so
 *                that the order of a sum depends on the template alone
 *   others       rows of schedules.def (CUDA_OFFER), by what kind of kernel it is
 *
 * Orders of sums are those of the template, but for groups of other sizes and attention with fewer keys at a time.
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
    if (l->n < l->room && !cuda_override_schedule(l->m, l->ctx, &tried, &want))
        l->at[l->n++] = tried.schedule;
}

static void add_products(struct list *l, struct cuda_schedule own)
{
    const struct cuda_machine *m = (const struct cuda_machine *)l->m;
    int bytes = cuda_product_bytes(l->ctx, l->k);
    int64_t terms = cuda_points(l->k, l->k->roles.contraction.k);
    for (int how = CUDA_CONTRACT; how <= CUDA_WGMMA; how++) {
        int least_bk = how == CUDA_CONTRACT ? 8
                       : how == CUDA_MMA    ? 32 / bytes
                                            : CT_ROW / bytes,
            most_bk = how == CUDA_MMA ? 128 / bytes : least_bk;
        if (!cuda_takes_contract(l->ctx, l->k, (enum cuda_how)how) || (how == CUDA_MMA && bytes == 4 && !m->tf32))
            continue;
        for (int bm = 32; bm <= 128; bm *= 2)
            for (int bn = 32; bn <= 256; bn += bn < 64 || how != CUDA_WGMMA ? bn : 64)
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
                        s.cluster = 2; /* only where tensor copies bring factors */
                        add(l, s);
                        s.cluster = 1;
                        if (how != m->fp8 || !cuda_may_fp8(l->ctx, l->k))
                            continue;
                        s.fp8 = 1;
                        s.bk = how == CUDA_WGMMA ? CT_ROW : bk;
                        cuda_choose_stages(m, terms, 1, &s);
                        add(l, s);
                    }
    }
}

/* -- The others ---------------------------------------------------------------------------------------------------- */

enum kind { POINTS, TURNS, REDUCES, SCANS, SORTS, SCATTERS, ATTENDS };
static const struct offer {
    enum kind kind;
    int group, threads, bn, rows;
} offers[] = {
#define CUDA_OFFER(kind, group, threads, bn, rows) {kind, group, threads, bn, rows},
#include "compiler/cuda/schedules.def"
};

static bool has(const struct kn_kernel *k, int code)
{
    for (int i = 0; i < k->ninsns; i++)
        if ((int)k->insns[i].code == code)
            return true;
    return false;
}

static enum kind kind_of(const struct kn_kernel *k, const struct cuda_schedule *own)
{
    bool inner = false;
    for (int i = 0; i < k->nstages; i++)
        inner |= k->stages[i].inner != 0;
    return own->how == CUDA_ATTENTION   ? ATTENDS
           : own->how == CUDA_OWNERS    ? SCATTERS
           : own->how == CUDA_TRANSPOSE ? TURNS
           : has(k, KN_SORT)            ? SORTS
           : has(k, KN_SCAN)            ? SCANS
           : inner                      ? REDUCES
                                        : POINTS;
}

static void add_offers(struct list *l, const struct cuda_schedule *own)
{
    enum kind kind = kind_of(l->k, own);
    for (size_t i = 0; i < sizeof offers / sizeof *offers; i++) {
        const struct offer *o = &offers[i];
        struct cuda_schedule s = *own;
        if (o->kind != kind)
            continue;
        if (o->group) {
            s = cuda_plain_schedule(o->group > 1 ? CUDA_GROUPS : CUDA_POINTS);
            s.group = o->group;
        }
        s.threads = o->threads ? o->threads : s.threads;
        s.bn = o->bn ? o->bn : s.bn;
        s.rows = o->rows ? (int)(((int64_t)s.rows * o->rows + 99) / 100) : s.rows;
        add(l, s);
    }
}

int cuda_candidates(const struct pass_machine *m, struct ir_ctx *ctx, const struct kn_kernel *k,
                    struct kn_schedule *list, int room)
{
    struct list l = {m, ctx, k, list, 1, room};
    struct cuda_schedule own = cuda_get_schedule(k);
    list[0] = k->schedule;
    if (cuda_is_product(own.how))
        add_products(&l, own);
    else
        add_offers(&l, &own);
    return l.n;
}
