/* SPDX-License-Identifier: Apache-2.0 */
/*
 * two_cores.c - a kernel in two, for a logical core of two physical ones (--lnc=2): points of one outer dim, the first
 * half for one core, the others for its neighbour. Each half is a kernel of its own, which any template takes; tensors
 * lie in the HBM that both cores share, and each has an SBUF of its own.
 *
 * Which dim depends on the shape alone: that which leaves the busier core least to do, by products where there are some
 * (as many rows of 128 as there are left, and what both cores have to load), else by points and by how many of the
 * partitions have some. Of equal ones it is the outermost: rows stay long.
 *
 * A reduction to few results has no such dim: its pieces are cut (reduce_partitions.c), and what they come to is
 * reduced by the first core when both have ended, by a program of its own.
 *
 * What is written must depend on the dim, and nothing may be written or read by an index where something is written:
 * then neither half touches what the other one writes, and values cross only when the kernel has ended, where the
 * runtime lets both cores meet.
 */
#include "compiler/neuron/cost.h"
#include "compiler/neuron/neuron_int.h"

#include <string.h>

enum { LEAST_POINTS = 1 << 14 }; /* of a kernel: below, a transfer's fixed time is most of it */

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static bool is_independent(const struct kn_kernel *k, int dim)
{
    for (int i = 0; i < k->ninsns; i++) {
        const struct kn_insn *n = &k->insns[i];
        if (n->code == KN_STORE && k->operands[n->operand].use != KN_LOCAL && !kn_runs_along(n, k->dims[dim].var))
            return false;
    }
    return true;
}

/* Is something written to where an index says, or read so where something is written? */
static bool has_scatter(const struct kn_kernel *k)
{
    for (int i = 0; i < k->ninsns; i++)
        for (int j = 0; j < i && (k->insns[i].code == KN_STORE || k->insns[i].code == KN_LOAD); j++)
            if (k->insns[j].code == KN_INDEX && kn_runs_along(&k->insns[i], k->insns[j].expr) &&
                k->operands[k->insns[i].operand].use != KN_IN)
                return true;
    return false;
}

/* Cycles of the tensor engine for m x n results of one point of the sum, whichever of the two lies on partitions. */
static double columns(double m, double n)
{
    double by_m = (double)ceil_div((int64_t)m, NEURON_PARTITIONS) * (n < 64 ? 64 : n),
           by_n = (double)ceil_div((int64_t)n, NEURON_PARTITIONS) * (m < 64 ? 64 : m);
    return by_m < by_n ? by_m : by_n;
}

static double product_of(const int64_t *extent, uint32_t dims)
{
    double n = 1;
    for (int d = 0; d < KN_MAX_DIMS; d++)
        if (dims >> d & 1)
            n *= (double)extent[d];
    return n;
}

/* How long a core takes with these extents, in no unit. */
static double work(const struct kn_kernel *k, const int64_t *extent)
{
    enum { LOADS = 4 }; /* a quarter of the products' time, about, where loads are hidden */
    const struct kn_contraction *c = &k->roles.contraction;
    if (k->roles.form == KN_CONTRACTION) {
        double batch = product_of(extent, c->batch), m = product_of(extent, c->m), n = product_of(extent, c->n),
               sum = product_of(extent, c->k);
        return batch * sum * (columns(m, n) + (m + n) / LOADS);
    }
    int64_t most = 1;
    double points = 1;
    for (int d = 0; d < k->ndims; d++) {
        points *= (double)extent[d];
        if (k->dims[d].role == KN_OUTER && extent[d] > most)
            most = extent[d];
    }
    return points / (double)(most < NEURON_PARTITIONS ? most : NEURON_PARTITIONS);
}

/* The dim to be cut; -1: the kernel stays whole. */
static int dim_to_cut(const struct kn_kernel *k, const int64_t *extent)
{
    double least = 0.9 * work(k, extent);
    int best = -1;
    if (has_scatter(k))
        return -1;
    for (int d = 0; d < k->ndims; d++) {
        int64_t half[KN_MAX_DIMS];
        if (k->dims[d].role != KN_OUTER || extent[d] < 2 || !is_independent(k, d))
            continue;
        memcpy(half, extent, sizeof half);
        half[d] = ceil_div(extent[d], 2);
        double w = work(k, half);
        if (w >= least)
            continue;
        least = w;
        best = d;
    }
    return best;
}

/* Points [lo, lo + n) of the dim. */
static const struct kn_kernel *part(struct ir_ctx *ctx, const struct kn_kernel *k, int dim, int64_t lo, int64_t n)
{
    struct kn_kernel *p = IR_NEW(ctx, struct kn_kernel);
    ir_expr var = k->dims[dim].var, moved = ir_addc(ctx, var, lo);
    *p = *k;
    p->dims = IR_NEWN(ctx, k->ndims, struct kn_dim);
    memcpy(p->dims, k->dims, (size_t)k->ndims * sizeof *p->dims);
    p->dims[dim].extent = ir_const(ctx, n);
    p->insns = IR_NEWN(ctx, k->ninsns + 1, struct kn_insn);
    for (int i = 0; i < k->ninsns; i++) {
        p->insns[i] = k->insns[i];
        kn_subst_insn(ctx, &p->insns[i], 1, &var, &moved);
    }
    return p;
}

static void halve(struct ir_ctx *ctx, const struct kn_kernel *k, int dim, int64_t n, struct nk_halves *to)
{
    int64_t first = ceil_div(n, 2);
    to->half[0] = part(ctx, k, dim, 0, first);
    to->half[1] = part(ctx, k, dim, first, n - first);
}

/* What both cores save, and what it costs that they meet and that the first one starts anew, in ns: loads, or a
 * partition's points by Vector. */
static bool pays(const struct nk_machine *m, const struct kn_kernel *k, double points, int64_t pieces)
{
    const struct nk_core_cost *c = &nk_costs.core[m->core];
    double bytes = 0, start = nk_costs.transfer[NK_TRANSFER_START_NS], loads,
           vector = points / (double)pieces * 1e3 / c->mhz[NEURON_VECTOR];
    for (int i = 0; i < kn_main_stage(k)->last; i++)
        if (k->insns[i].code == KN_LOAD)
            bytes += points * (double)tcc_dtype_bytes(k->operands[k->insns[i].operand].dtype);
    loads = bytes / c->dma / NEURON_DMA_ENGINES;
    return (loads > vector ? loads : vector) / 2 > 2 * start;
}

/* The pieces that one core would reduce by its partitions: the results are the same, bit by bit. */
static bool reduction(struct ir_ctx *ctx, const struct nk_machine *m, const struct kn_kernel *k, double points,
                      struct nk_halves *to)
{
    const struct kn_kernel *pass[2];
    int64_t pieces;
    if (kn_has(k, KN_BIT(KN_ENV)) || nk_with_ones(ctx, k) || !nk_few(ctx, m->core, k, pass) ||
        !ir_is_const(pass[0]->dims[0].extent, &pieces) || pieces < 2 || !pays(m, k, points, pieces))
        return false;
    halve(ctx, pass[0], 0, pieces, to);
    to->then = pass[1];
    return true;
}

bool nk_halves(struct ir_ctx *ctx, const struct nk_machine *m, const struct kn_kernel *k, struct nk_halves *to)
{
    int64_t extent[KN_MAX_DIMS] = {0};
    double points = 1;
    *to = (struct nk_halves){0};
    for (int d = 0; d < k->ndims; d++) {
        if (!ir_is_const(k->dims[d].extent, &extent[d]) || extent[d] < 1)
            return false;
        points *= (double)extent[d];
    }
    if (points < LEAST_POINTS)
        return false;
    int dim = dim_to_cut(k, extent);
    if (dim < 0)
        return reduction(ctx, m, k, points, to);
    halve(ctx, k, dim, extent[dim], to);
    return true;
}
