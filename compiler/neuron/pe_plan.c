/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pe_plan.c - which kernels are products, which of their dims lie on partitions, and in what form their factors come:
 * panels, weights that are turned over, or as other loads do.
 */
#include "compiler/neuron/pe_int.h"

#include <stdlib.h>
#include <string.h>

static int64_t points(const struct nk *nk, uint32_t dims)
{
    int64_t n = 1;
    for (int d = 0; d < nk->k->ndims; d++)
        if (dims >> d & 1)
            n *= nk->extent[d];
    return n;
}

/* The one dim among these with more than one point; -1: there is none, or there are several. */
int nk_only_dim(const struct nk *nk, uint32_t dims)
{
    int found = -1;
    for (int d = 0; d < nk->k->ndims; d++)
        if (dims >> d & 1 && nk->extent[d] > 1) {
            if (found >= 0)
                return -1;
            found = d;
        }
    return found;
}

uint32_t nk_dims_of(const struct nk *nk, int insn)
{
    const struct kn_insn *n = &nk->k->insns[insn];
    uint32_t dims = 0;
    for (int d = 0; d < nk->k->ndims; d++) {
        bool uses = n->code == KN_EXPR && ir_uses_sym(n->expr, nk->k->dims[d].var);
        for (int i = 0; i < n->nindex; i++)
            uses |= ir_uses_sym(n->index[i], nk->k->dims[d].var);
        for (int g = 0; g < n->nguards; g++)
            uses |= ir_uses_sym(n->guards[g].e, nk->k->dims[d].var);
        dims |= (uint32_t)uses << d;
    }
    for (int a = 0; a < n->nargs; a++)
        if (n->arg[a] >= 0)
            dims |= nk_dims_of(nk, n->arg[a]);
    return dims;
}

static bool is_plain_sum(const struct nk *nk, struct product *p)
{
    const struct kn_kernel *k = nk->k;
    const struct kn_contraction *c = &k->roles.contraction;
    if (!kn_only_multiplies(k) || !tcc_is_float((enum tcc_dtype)k->insns[c->mul].dtype))
        return false;
    for (int i = 0; i < SIDES; i++) {
        p->root[i] = c->factor[i];
        uint32_t dims = nk_dims_of(nk, p->root[i]);
        p->dims[i] = dims & c->m ? c->m : c->n;
        if (dims & (dims & c->m ? c->n : c->m))
            return false;
        if (!tcc_is_float((enum tcc_dtype)k->insns[p->root[i]].dtype))
            return false;
    }
    if (c->m && c->n && p->dims[0] == p->dims[1])
        return false;
    if (!c->m || !c->n) { /* one factor has no dims of its own */
        uint32_t all = c->m | c->n;
        for (int i = 0; i < SIDES; i++)
            p->dims[i] = nk_dims_of(nk, p->root[i]) & all ? all : 0;
        if (p->dims[0] && p->dims[1])
            return false;
    }
    return true;
}

/* The least that the index goes on by with a point of one of these dims; 1 where that is no number. */
static int64_t least_step(const struct nk *nk, ir_expr index, uint32_t dims)
{
    int64_t least = INT64_MAX, step;
    for (int d = 0; d < nk->k->ndims; d++) {
        ir_expr by, rest;
        if (!(dims >> d & 1) || nk->extent[d] < 2 || !ir_uses_sym(index, nk->k->dims[d].var))
            continue;
        if (!ir_linear_in(nk->ctx, index, nk->k->dims[d].var, &by, &rest) || !ir_is_const(by, &step))
            step = 1;
        least = llabs(step) < least ? llabs(step) : least;
    }
    return least;
}

/* Do results lie side by side in HBM along dims of that factor, of which one point is made at a time or which are on
 * partitions? */
static bool stored_along(const struct product *p, int rows)
{
    const struct nk *nk = p->nk;
    for (int i = kn_main_stage(nk->k)->last; i < nk->k->ninsns; i++) {
        const struct kn_insn *n = &nk->k->insns[i];
        int x = n->nindex - 1;
        if (n->code != KN_STORE)
            continue;
        while (x >= 0 && ir_is_const(n->index[x], NULL))
            x--;
        int64_t step = x < 0 ? INT64_MAX : least_step(nk, n->index[x], p->dims[rows]);
        if (step < INT64_MAX && step <= least_step(nk, n->index[x], p->dims[!rows]))
            return true;
    }
    return false;
}

/* About how many ns it takes with that dim on partitions: products, and results that are stored one by one; sets the
 * chunks of the other factor's dims. */
static int64_t cost(const struct product *p, int rows, int along, int64_t *chunk)
{
    enum { PRODUCT = 200, ELEMENT = 2 };
    const struct nk *nk = p->nk;
    int64_t left = NEURON_MOVING, n = 1;
    for (int d = nk->k->ndims - 1; d >= 0; d--) {
        if (p->dims[rows] >> d & 1)
            n *= d == along ? (nk->extent[d] + NEURON_PARTITIONS - 1) / NEURON_PARTITIONS : nk->extent[d];
        if (!(p->dims[!rows] >> d & 1))
            continue;
        chunk[d] = nk->extent[d] < left ? nk->extent[d] : left;
        n *= (nk->extent[d] + chunk[d] - 1) / chunk[d];
        left = chunk[d] == nk->extent[d] ? left / chunk[d] : 1;
        left = left < 1 ? 1 : left;
    }
    int64_t results = points(nk, p->dims[0] | p->dims[1]);
    return PRODUCT * n * ((points(nk, p->c->k) + NEURON_PARTITIONS - 1) / NEURON_PARTITIONS) +
           (stored_along(p, rows) ? ELEMENT * results : 0);
}

/* The product of two numbers of 16 bits is exact: they are multiplied as they were before they were cast. */
static void peel(struct product *p)
{
    const struct kn_insn *insns = p->nk->k->insns;
    int from[SIDES];
    for (int i = 0; i < SIDES; i++) {
        from[i] = kn_uncast(p->nk->k, p->root[i]);
        if (insns[p->root[i]].dtype != TCC_F32 || !tcc_is_half((enum tcc_dtype)insns[from[i]].dtype))
            return;
    }
    memcpy(p->root, from, sizeof from);
}

/* The type of packed MX numbers that the kernel's factors are rounded to; -1: none, or the engines lack them. */
static int packed_type(const struct product *p)
{
    const struct kn_insn *insns = p->nk->k->insns;
    if (!p->nk->k->mx || neuron_generation(p->nk->machine->core) < 4 || p->wide)
        return -1;
    if (!tcc_is_half((enum tcc_dtype)insns[p->root[0]].dtype) || !tcc_is_half((enum tcc_dtype)insns[p->root[1]].dtype))
        return -1;
    return p->nk->k->mx == TCC_F8E5M2 ? NEURON_E5M2X4 : NEURON_E4M3X4;
}

uint32_t nk_packed_dims(const struct product *p)
{
    return p->mx >= 0 ? p->c->k & ~(1u << p->summed) : 0;
}

/* The dim of its own that a factor's panel has: what lies along the result's rows; the other factor's longest. Where
 * that alone fills what a product takes, the others are turns, as a batch is. */
bool nk_find_own(struct product *p, int own[SIDES])
{
    const struct nk *nk = p->nk;
    p->beside = 0;
    for (int i = 0; i < SIDES; i++) {
        own[i] = i == p->rows ? p->along : -1;
        for (int d = 0; i != p->rows && d < nk->k->ndims; d++)
            if (p->dims[i] >> d & 1 && nk->extent[d] > 1 && (own[i] < 0 || nk->extent[d] > nk->extent[own[i]]))
                own[i] = d;
        if (own[i] < 0 || nk->extent[own[i]] == 1)
            return false;
        uint32_t others = 0;
        for (int d = 0; d < nk->k->ndims; d++)
            others |= (uint32_t)(p->dims[i] >> d & 1 && d != own[i] && nk->extent[d] > 1) << d;
        if (others && nk->extent[own[i]] < (i == p->rows ? NEURON_PARTITIONS : NEURON_MOVING))
            return false;
        p->beside |= others;
    }
    return true;
}

/* Panels, if both factors have them and they fit: two of 128 rows, which are turned over as they come, and one of the
 * other factor. */
static void find_panels(struct product *p)
{
    enum { LEFT = 24 << 10, LARGEST = 128 << 10 }; /* for what is behind the sum; bytes of a panel */
    struct nk *nk = p->nk;
    int summed = p->mx >= 0 ? p->summed : nk_only_dim(nk, p->c->k), own[SIDES];
    uint32_t taps = nk_packed_dims(p);
    if (nk->room < NK_ROOM || summed < 0 || summed != p->summed || !nk_find_own(p, own))
        return;
    for (int i = 0; i < SIDES; i++)
        if (!(p->panel[i] = nk_panel_new(nk, p->root[i], summed, own[i], taps, p->mx, nk->extent[summed])))
            break;
    if (!p->panel[0] || !p->panel[1] ||
        p->wide != (nk->k->insns[p->root[0]].dtype == TCC_F32 && nk->k->insns[p->root[1]].dtype == TCC_F32)) {
        p->panel[0] = p->panel[1] = NULL;
        return;
    }
    p->across = own[!p->rows];
    nk_find_each(p);
    int64_t left = neuron_sbuf_bytes(nk->machine->core) - LEFT, each = nk_panel_bytes(nk, p->panel[!p->rows], 1);
    left -= (nk_panel_turned(p->panel[p->rows]) ? 3 : 2) *
            nk_panel_bytes(nk, p->panel[p->rows], p->each * NEURON_PARTITIONS);
    int64_t loading = nk_panel_loading(nk, p->panel[!p->rows], 1), most = left / (each + loading) * each;
    left = left > LARGEST ? LARGEST : left;
    p->block = nk->extent[p->across];
    if (nk_panel_turned(p->panel[!p->rows]) || p->mx >= 0)
        left -= left / 4;
    left = left > most ? most : left;
    if (p->block * each > left)
        p->block = left / each / NEURON_MOVING * NEURON_MOVING;
    int64_t elements = loading / tcc_dtype_bytes(TCC_BF16), fit = elements ? UINT16_MAX / elements : INT64_MAX;
    if (p->mx >= 0 && p->block > fit) /* what is quantised is one value */
        p->block = fit / NEURON_MOVING * NEURON_MOVING;
    if (p->block < 1)
        p->panel[0] = p->panel[1] = NULL;
}

/* Is it made of loads and scalar ops alone? */
static bool is_plain(const struct nk *nk, int insn)
{
    const struct kn_insn *n = &nk->k->insns[insn];
    bool plain = n->code == KN_LOAD || n->code == KN_SCALAR || n->code == KN_CONST;
    for (int a = 0; a < n->nargs; a++)
        plain &= n->arg[a] < 0 || is_plain(nk, n->arg[a]);
    return plain;
}

/* A factor whose summed points lie side by side, as a convolution's weights, beside one that comes as it may. */
static void find_turned(struct product *p)
{
    enum { ROOM = 72 << 10 };
    struct nk *nk = p->nk;
    p->turned = -1;
    if (p->panel[0] || p->mx >= 0 || nk->room < NK_ROOM || p->summed < 0 || points(nk, p->c->batch) > 1)
        return;
    for (int i = 0; i < SIDES && p->turned < 0; i++) {
        int own = nk_only_dim(nk, p->dims[i]);
        if (own < 0 || !is_plain(nk, p->root[!i]) || (i == p->rows && own != p->along))
            continue;
        p->weights[0] =
            nk_panel_new(nk, p->root[i], p->summed, own, p->c->k & ~(1u << p->summed), -1, nk->extent[p->summed]);
        if (!p->weights[0] || !nk_panel_turned(p->weights[0]) || p->wide != (nk->k->insns[p->root[i]].dtype == TCC_F32))
            continue;
        int64_t most = i == p->rows ? NEURON_PARTITIONS : NEURON_MOVING;
        int64_t bytes = nk_panel_bytes(nk, p->weights[0], nk->extent[own] < most ? nk->extent[own] : most);
        if (bytes > ROOM)
            continue;
        p->turned = i;
        p->nweights = (int)(ROOM / bytes < WEIGHTS ? ROOM / bytes : WEIGHTS);
        for (int k = 1; k < p->nweights; k++)
            p->weights[k] = nk_panel_copy(nk, p->weights[0]);
    }
}

/* Does an index of a factor depend on the dim together with an outer one, as on a convolution's taps? */
static bool is_tap(const struct nk *nk, int dim)
{
    for (int i = kn_main_stage(nk->k)->first; i < kn_main_stage(nk->k)->last; i++)
        for (int x = 0; x < nk->k->insns[i].nindex; x++)
            for (int d = 0; d < nk->k->ndims && ir_uses_sym(nk->k->insns[i].index[x], nk->k->dims[dim].var); d++)
                if (nk->k->dims[d].role == KN_OUTER && ir_uses_sym(nk->k->insns[i].index[x], nk->k->dims[d].var))
                    return true;
    return false;
}

/* The longest dim on partitions; no taps, whose windows would lie otherwise in each partition, if there is another
 * one. */
static bool better_summed(const struct product *p, int d)
{
    enum { FEW = 3 };
    const struct nk *nk = p->nk;
    bool tap = is_tap(nk, d), other = is_tap(nk, p->summed);
    if (tap != other && nk->extent[tap ? p->summed : d] >= FEW)
        return other;
    return nk->extent[d] > nk->extent[p->summed];
}

bool nk_plan_product(struct nk *nk, struct product *p)
{
    int64_t best = INT64_MAX, chunk[KN_MAX_DIMS] = {0};
    p->nk = nk;
    p->c = &nk->k->roles.contraction;
    if (!is_plain_sum(nk, p))
        return false;
    int64_t m = points(nk, p->dims[0]), n = points(nk, p->dims[1]), k = points(nk, p->c->k);
    if ((m == 1 || n == 1) && (points(nk, p->c->batch) > 1 || k < 64))
        return false;
    p->summed = -1;
    for (int d = 0; d < nk->k->ndims; d++) {
        p->digits[d] = nk_digits_of(nk, d);
        if (p->c->k >> d & 1 && (p->summed < 0 || better_summed(p, d)))
            p->summed = d;
    }
    if (p->summed < 0)
        return false;
    for (int rows = 0; rows < SIDES; rows++)
        for (int d = -1; d < nk->k->ndims; d++) {
            if (d < 0 ? p->dims[rows] != 0 : !(p->dims[rows] >> d & 1))
                continue;
            int64_t x = cost(p, rows, d, chunk);
            if (x >= best)
                continue;
            best = x;
            p->rows = rows;
            p->along = d;
            memcpy(p->chunk, chunk, sizeof chunk);
        }
    peel(p);
    p->wide = nk->k->insns[p->root[0]].dtype == TCC_F32 || nk->k->insns[p->root[1]].dtype == TCC_F32;
    if (best == INT64_MAX)
        return false;
    p->mx = packed_type(p);
    find_panels(p);
    nk_find_parts(p);
    find_turned(p);
    return true;
}
