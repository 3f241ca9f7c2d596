/* SPDX-License-Identifier: Apache-2.0 */
/*
 * along.c - which outer dim of a kernel of the lanes lies on partitions, and how many points of the others, and of
 * itself, lie beside each other in each of them. The dim with most points is as good as any, but for where rows of DMA
 * get short by it: of a kernel that is a map, dims, and more points beside each other, are compared by what transfers
 * and instructions take.
 */
#include <math.h>

#include "compiler/neuron/tile_int.h"

/* How many outer points lie beside each other in a partition: as many as there is room for, but so few that several
 * tiles follow each other, of which one is loaded and one stored while one is computed; rows of DMA stay long. */
static int64_t free_points(const struct nk *nk, int64_t inner)
{
    enum { TILES = 8, MANY = 256, LEAST = 512, MOST = 1024, ROW = 128, DEPTH = 8 };
    int64_t all = inner, room = nk->room, most;
    for (int d = 0; d < nk->k->ndims; d++)
        if (nk->k->dims[d].role == KN_OUTER)
            all *= nk->extent[d];
    most = all / (NEURON_PARTITIONS * MANY);
    most = most < MOST ? MOST : most;
    all /= NEURON_PARTITIONS * TILES;
    all = all < LEAST ? LEAST : all > most ? most : all;
    all = (room < all ? room : all) / inner;
    if (all < ROW && nk_is_by_rows(nk->k)) /* what is reduced comes a chunk at a time */
        all = ROW < room / DEPTH ? ROW : room / DEPTH;
    return all < 1 ? 1 : all;
}

/* Does a guard depend on the dim? Then what it keeps out lies in some of the partitions only. */
static bool is_guarded(const struct nk *nk, int dim)
{
    for (int i = 0; i < nk->k->ninsns; i++)
        for (int g = 0; g < nk->k->insns[i].nguards; g++)
            if (ir_uses_sym(nk->k->insns[i].guards[g].e, nk->k->dims[dim].var))
                return true;
    return false;
}

/* The dim with most points on partitions; of those with more than there are partitions, the first. Guarded ones count
 * for less. */
static int dim_on_partitions(const struct nk *nk)
{
    enum { GUARDED = 8 };
    int best = -1;
    int64_t most = 0;
    for (int d = 0; d < nk->k->ndims; d++) {
        int64_t n = nk->extent[d] < NEURON_PARTITIONS ? nk->extent[d] : NEURON_PARTITIONS;
        n = is_guarded(nk, d) ? (n + GUARDED - 1) / GUARDED : n;
        if (nk->k->dims[d].role == KN_OUTER && n > most) {
            best = d;
            most = n;
        }
    }
    return best;
}

/* Points of the dim on partitions that lie beside each other, where there is room for so many; even: fewer, so that all
 * partitions have as many. */
static int64_t each_of(const struct plan *p, int64_t free, bool even)
{
    const struct nk_digits *g = &p->digits[p->along];
    int64_t n = p->nk->extent[p->along], each = (n + NEURON_PARTITIONS - 1) / NEURON_PARTITIONS;
    each = each < free ? each : free;
    while (even && each > 1 && n % (each * NEURON_PARTITIONS))
        each--;
    for (int i = g->n - 1; i > 0; i--) { /* whole digits, more points if they fit */
        int64_t up = (each + g->period[i] - 1) / g->period[i] * g->period[i];
        if (up <= free && up <= n)
            return up;
    }
    return each;
}

/* Points of each free dim at once, and of the dim on partitions beside each other, where so many lie in a partition:
 * what the others leave room for, or (most, not 0) so many at most, before the dims in front of it. */
static void find_chunks(struct plan *p, int64_t free, int64_t most)
{
    const struct nk *nk = p->nk;
    p->each = 1;
    for (int d = nk->k->ndims - 1; d >= 0; d--) {
        if (nk->k->dims[d].role != KN_OUTER)
            continue;
        if (d == p->along && most) {
            p->each = each_of(p, most < free ? most : free, true);
            free /= p->each;
        } else if (d != p->along) {
            p->chunk[d] = nk->extent[d] < free ? nk->extent[d] : free;
            free = p->chunk[d] == nk->extent[d] ? free / p->chunk[d] : 1;
            free = free < 1 ? 1 : free;
        }
    }
    if (p->along >= 0 && !most)
        p->each = each_of(p, free, false);
}

/* -- What a choice costs -- */

static const double CYCLE = 1 / 1.12; /* of Vector, in ns */

/* ns; false: addresses are not linear in the tile. Transfers of rows side by side in HBM, at least 512 bytes each; what
 * does not lie so in the tile is turned over on chip (move.c). */
static bool add_transfer(struct plan *p, const struct nk_tile *t, const struct kn_insn *n, double *ns, double *computed)
{
    enum { LEAST_ROW = 512, BYTES_A_NS = 272 };
    const struct kn_operand *o = &p->nk->k->operands[n->operand];
    struct nk_box all = nk_whole(t);
    int64_t coef[NK_AXES] = {0}, row = 1, run = 1, in_order = 1;
    double elements = (double)t->axis[0].extent;
    for (int i = n->nindex - 1, axis; i >= 0; row *= ir_const_or(o->dims[i--], 0)) {
        struct nk_line l;
        int64_t at;
        if (nk_line_of(p->nk, t, &all, n->index[i], &l, &axis, &at) != NK_LINEAR)
            return false;
        for (int a = 0; a < t->n; a++)
            coef[a] += l.coef[a] * row;
    }
    for (int a = 1; a < t->n; a++)
        elements *= coef[a] ? (double)t->axis[a].extent : 1;
    for (int a = t->n - 1; a > 0 && (coef[a] == in_order || t->axis[a].extent == 1); a--)
        in_order *= t->axis[a].extent;
    for (int a = 1; a < t->n; a++)
        if (coef[a] == run && t->axis[a].extent > 1) {
            run *= t->axis[a].extent;
            a = 0; /* what follows it may stand anywhere */
        }
    double bytes = (double)tcc_dtype_bytes(o->dtype) * (double)run;
    *ns += elements / (double)run * (bytes < LEAST_ROW ? LEAST_ROW : bytes) / BYTES_A_NS;
    *computed += run > in_order ? CYCLE * (double)nk_free_elements(t) : 0;
    return true;
}

/* Of the whole kernel, as the plan has it; INFINITY: that isn't known. */
static double cost(struct plan *p)
{
    struct nk *nk = p->nk;
    const struct kn_kernel *k = nk->k;
    int64_t n = nk->extent[p->along], f = p->each < n ? p->each : n, parts = n / f;
    double moved = 0, computed = 0, tiles = (double)n / (double)f;
    struct nk_tile t = {.n = 1, .axis = {{p->along, f, parts > NEURON_PARTITIONS ? NEURON_PARTITIONS : parts}}};
    tiles /= (double)t.axis[0].extent;
    for (int d = 0; d < k->ndims; d++) {
        nk_add_axes(nk, &t, d, d == p->along ? f : p->chunk[d], &p->digits[d]);
        tiles *= d == p->along ? 1 : (double)nk->extent[d] / (double)p->chunk[d];
    }
    t.nouter = t.n;
    for (int i = 0; i < k->ninsns; i++) {
        const struct kn_insn *in = &k->insns[i];
        if ((in->code == KN_LOAD || in->code == KN_STORE) && !add_transfer(p, &t, in, &moved, &computed))
            return INFINITY;
        if (in->code == KN_SCALAR) /* two cycles of Vector an element */
            computed += 2 * CYCLE * (double)nk_free_elements(&t);
    }
    return tiles * (moved > computed ? moved : computed);
}

/* Does the kernel have outer dims alone, and operands in HBM that are accessed as its loops go? */
static bool is_plain(const struct nk *nk)
{
    const struct kn_kernel *k = nk->k;
    bool plain = kn_is_map(k) && !nk->pieces && !kn_has(k, KN_BIT(KN_INDEX) | KN_BIT(KN_ENV)) &&
                 !kn_has_operand(k, KN_BIT(KN_LOCAL));
    for (int i = 0; i < k->ninsns; i++)
        plain &= !k->insns[i].nguards;
    return plain;
}

void nk_find_along(struct plan *p)
{
    enum { BESIDE = 16 };
    const struct nk *nk = p->nk;
    int64_t inner = 1;
    for (int d = 0; d < nk->k->ndims; d++)
        p->digits[d] = nk_digits_of(p->nk, d);
    for (int i = 0; i < nk->k->nstages; i++) {
        int64_t n = nk_stage_points(nk, &nk->k->stages[i]);
        inner = n > inner ? n : inner;
    }
    int64_t free = free_points(nk, inner);
    p->along = nk->pieces ? 0 : dim_on_partitions(nk);
    find_chunks(p, free, 0);
    if (p->along < 0 || !is_plain(nk))
        return;
    struct plan other = *p;
    double least = cost(p) / 2; /* another one is to be better by far */
    for (int d = 0; d < nk->k->ndims; d++)
        for (int64_t most = 0; most <= BESIDE && isfinite(least); most += most + !most) {
            other.along = d;
            find_chunks(&other, most ? nk->room / inner : free, most);
            double x = cost(&other);
            if (x < least) {
                least = x;
                *p = other;
            }
        }
}
