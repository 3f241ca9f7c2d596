/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pe.c - contractions by the tensor engine. Results lie with one dim of one operand on partitions (at most 128 points) and dims of the other side by
 * side (at most 512): a bank of PSUM. Of the summed dims the longest lies on the partitions of both operands, 128 points at a time; the others, as
 * the taps of a convolution, are products of their own that accumulate in the bank. The stages behind the sum then read the bank.
 *
 * Sums of so many points that no panel holds them come in parts: as many results as there are banks stay in PSUM, while panels of the next points of both factors
 * are loaded and multiplied ones are given back; less than 128 points that are left over come as other factors do.
 *
 * Operands on chip are kept for later tiles as long as there is room for them. Factors of one dim each that loads find in order come in panels (panel.c): those of
 * as many points of the one as fit, and 128 points of the other after the other, each loaded while the one before it is multiplied.
 */
#include "compiler/neuron/neuron_int.h"

#include <string.h>

enum { SIDES = 2, CACHED = 48, WEIGHTS = 16, PSUM_BANKS = 8 };

struct cached {
    int side;
    struct nk_tile t;
    const struct nk_value *v;
};

struct product {
    struct nk *nk;
    const struct kn_contraction *c;
    int root[SIDES];            /* factors: instructions */
    uint32_t dims[SIDES];       /* outer dims of one factor alone */
    int rows;                   /* whose dim lies on partitions of the result */
    int along, summed;          /* that dim, -1: none; the summed dim on partitions of the factors */
    int64_t chunk[KN_MAX_DIMS]; /* of a dim of the other factor: points at once */
    struct nk_digits digits[KN_MAX_DIMS];
    bool wide; /* multiply float32; else 16 bits */
    struct cached cache[CACHED];
    int ncached, next;
    struct nk_panel *panel[SIDES]; /* NULL: none */
    int across;                    /* the dim of the other factor, where there are panels */
    int64_t block;                 /* points of it in a panel */
    int64_t part;                  /* summed points of a panel, where they come in parts; 0: they don't */
    int turned; /* the factor whose loads are turned over though the other one comes as it may; -1: none */
    struct nk_panel *weights[WEIGHTS];
    int nweights, weight; /* how many fit; the one that goes next */
};

static int64_t points(const struct nk *nk, uint32_t dims)
{
    int64_t n = 1;
    for (int d = 0; d < nk->k->ndims; d++)
        if (dims >> d & 1)
            n *= nk->extent[d];
    return n;
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
    const struct kn_contraction *c = &k->contraction;
    if (!c->present || k->insns[c->reduce].reducer != KN_SUM || k->insns[c->reduce].arg[0] != c->mul ||
        k->insns[c->mul].op != IR_mul || k->stages[0].repeat || !tcc_is_float((enum tcc_dtype)k->insns[c->mul].dtype))
        return false;
    for (int s = 1; s < k->nstages; s++)
        if (k->stages[s].inner || k->stages[s].repeat)
            return false;
    for (int o = 0; o < k->noperands; o++)
        if (k->operands[o].use == KN_LOCAL)
            return false;
    for (int i = k->stages[0].first; i < k->stages[0].last; i++)
        if (k->insns[i].code == KN_INDEX)
            return false;
    for (int i = 0; i < SIDES; i++) {
        p->root[i] = k->insns[c->mul].arg[i];
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

/* Does a result of the kernel lie side by side in HBM along that dim alone? */
static bool stored_along(const struct product *p, int dim)
{
    const struct nk *nk = p->nk;
    for (int i = nk->k->stages[0].last; i < nk->k->ninsns; i++) {
        const struct kn_insn *n = &nk->k->insns[i];
        if (n->code == KN_STORE && n->nindex && dim >= 0 && ir_uses_sym(n->index[n->nindex - 1], nk->k->dims[dim].var))
            return true;
    }
    return false;
}

/* About how many ns it takes with that dim on partitions: products, and results that are stored one by one; sets the chunks of the other factor's dims. */
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
           (stored_along(p, along) ? ELEMENT * results : 0);
}

static bool is_half(enum tcc_dtype d)
{
    return d == TCC_F16 || d == TCC_BF16;
}

/* The product of two numbers of 16 bits is exact: they are multiplied as they were before they were cast. */
static void peel(struct product *p)
{
    const struct kn_insn *insns = p->nk->k->insns;
    int from[SIDES];
    for (int i = 0; i < SIDES; i++) {
        const struct kn_insn *n = &insns[p->root[i]];
        if (n->code != KN_SCALAR || n->op != IR_cast || n->dtype != TCC_F32 ||
            !is_half((enum tcc_dtype)insns[n->arg[0]].dtype))
            return;
        from[i] = n->arg[0];
    }
    memcpy(p->root, from, sizeof from);
}

/* The one dim among these with more than one point; -1: there is none, or there are several. */
static int only(const struct nk *nk, uint32_t dims)
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

/* Panels, if both factors have them and they fit: two of 128 rows, which are turned over as they come, and one of the other factor. */
static void find_panels(struct product *p)
{
    enum { LEFT = 24 << 10, LARGEST = 128 << 10 }; /* for what is behind the sum; bytes of a panel */
    struct nk *nk = p->nk;
    int summed = only(nk, p->c->k), own[SIDES];
    own[p->rows] = only(nk, p->dims[p->rows]);
    own[!p->rows] = only(nk, p->dims[!p->rows]);
    if (nk->room < NK_ROOM || summed < 0 || own[0] < 0 || own[1] < 0 || own[p->rows] != p->along || summed != p->summed)
        return;
    for (int i = 0; i < SIDES; i++)
        if (!(p->panel[i] = nk_panel_new(nk, p->root[i], summed, own[i], 0, nk->extent[summed])))
            break;
    if (!p->panel[0] || !p->panel[1] ||
        p->wide != (nk->k->insns[p->root[0]].dtype == TCC_F32 && nk->k->insns[p->root[1]].dtype == TCC_F32)) {
        p->panel[0] = p->panel[1] = NULL;
        return;
    }
    p->across = own[!p->rows];
    int64_t left = neuron_sbuf_bytes(nk->machine->core) - LEFT, each = nk_panel_bytes(nk, p->panel[!p->rows], 1);
    left -= (nk_panel_turned(p->panel[p->rows]) ? 3 : 2) * nk_panel_bytes(nk, p->panel[p->rows], NEURON_PARTITIONS);
    left = left > LARGEST ? LARGEST : left;
    p->block = nk->extent[p->across];
    if (nk_panel_turned(p->panel[!p->rows]))
        left -= left / 4;
    if (p->block * each > left)
        p->block = left / each / NEURON_MOVING * NEURON_MOVING;
    if (p->block < 1)
        p->panel[0] = p->panel[1] = NULL;
}

/* Panels of a part of the sum, two of each factor: the largest that fit; all columns of the result, or those of four banks, and 128 rows for each set of banks. */
static void find_parts(struct product *p)
{
    enum { LEFT = 24 << 10, MOST = 4096, LEAST = 512, ALL = 4 * NEURON_MOVING };
    struct nk *nk = p->nk;
    int summed = only(nk, p->c->k), own[SIDES];
    own[p->rows] = only(nk, p->dims[p->rows]);
    own[!p->rows] = only(nk, p->dims[!p->rows]);
    if (p->panel[0] || nk->room < NK_ROOM || summed < 0 || own[0] < 0 || own[1] < 0 || own[p->rows] != p->along ||
        summed != p->summed ||
        p->wide != (nk->k->insns[p->root[0]].dtype == TCC_F32 && nk->k->insns[p->root[1]].dtype == TCC_F32))
        return;
    int64_t banks = (nk->extent[own[!p->rows]] + NEURON_MOVING - 1) / NEURON_MOVING;
    banks = banks > 4 ? 4 : banks;
    for (int64_t part = MOST; part >= LEAST && !p->part; part /= 2) {
        int64_t bytes = 0;
        if (part > nk->extent[summed])
            continue;
        for (int i = 0; i < SIDES; i++) {
            int64_t n = nk->extent[own[i]], most = i == p->rows ? PSUM_BANKS / banks * NEURON_PARTITIONS : ALL;
            p->panel[i] = nk_panel_new(nk, p->root[i], summed, own[i], 0, part);
            if (!p->panel[i]) {
                p->panel[0] = p->panel[1] = NULL;
                return;
            }
            bytes += (nk_panel_turned(p->panel[i]) ? 3 : 2) * nk_panel_bytes(nk, p->panel[i], n < most ? n : most);
        }
        if (bytes <= neuron_sbuf_bytes(nk->machine->core) - LEFT)
            p->part = part;
    }
    p->across = own[!p->rows];
    if (!p->part)
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
    if (p->panel[0] || nk->room < NK_ROOM || p->summed < 0 || points(nk, p->c->batch) > 1)
        return;
    for (int i = 0; i < SIDES && p->turned < 0; i++) {
        int own = only(nk, p->dims[i]);
        if (own < 0 || !is_plain(nk, p->root[!i]) || (i == p->rows && own != p->along))
            continue;
        p->weights[0] =
            nk_panel_new(nk, p->root[i], p->summed, own, p->c->k & ~(1u << p->summed), nk->extent[p->summed]);
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
    for (int i = nk->k->stages[0].first; i < nk->k->stages[0].last; i++)
        for (int x = 0; x < nk->k->insns[i].nindex; x++)
            for (int d = 0; d < nk->k->ndims && ir_uses_sym(nk->k->insns[i].index[x], nk->k->dims[dim].var); d++)
                if (nk->k->dims[d].role == KN_OUTER && ir_uses_sym(nk->k->insns[i].index[x], nk->k->dims[d].var))
                    return true;
    return false;
}

/* The longest dim on partitions; no taps, whose windows would lie otherwise in each partition, if there is another one. */
static bool better_summed(const struct product *p, int d)
{
    enum { FEW = 3 };
    const struct nk *nk = p->nk;
    bool tap = is_tap(nk, d), other = is_tap(nk, p->summed);
    if (tap != other && nk->extent[tap ? p->summed : d] >= FEW)
        return other;
    return nk->extent[d] > nk->extent[p->summed];
}

static bool plan(struct nk *nk, struct product *p)
{
    int64_t best = INT64_MAX, chunk[KN_MAX_DIMS] = {0};
    p->nk = nk;
    p->c = &nk->k->contraction;
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
    find_panels(p);
    find_parts(p);
    find_turned(p);
    return true;
}

bool nk_takes_product(struct nk *nk)
{
    struct product *p = IR_NEW(nk->ctx, struct product);
    return nk->k->contraction.present && plan(nk, p);
}

/* -- Factors ------------------------------------------------------------------------------------------------------------- */

static const struct nk_value *evaluate(struct nk *nk, const struct nk_tile *t, int insn)
{
    const struct kn_insn *n = &nk->k->insns[insn];
    const struct nk_value *args[3] = {NULL, NULL, NULL};
    for (int a = 0; a < n->nargs && a < 3; a++)
        args[a] = n->arg[a] >= 0 ? evaluate(nk, t, n->arg[a]) : NULL;
    return nk_body(nk, t, n, args);
}

static bool same_tile(const struct nk_tile *a, const struct nk_tile *b)
{
    bool same = a->n == b->n && a->quarter == b->quarter && !memcmp(a->base, b->base, sizeof a->base);
    for (int i = 0; same && i < a->n; i++)
        same = a->axis[i].dim == b->axis[i].dim && a->axis[i].mult == b->axis[i].mult &&
               a->axis[i].extent == b->axis[i].extent;
    return same;
}

static const struct nk_value *factor(struct product *p, int side, const struct nk_tile *t)
{
    struct nk *nk = p->nk;
    for (int i = 0; i < p->ncached; i++)
        if (p->cache[i].v && p->cache[i].side == side && same_tile(&p->cache[i].t, t))
            return p->cache[i].v;
    nk->taps = p->c->k & ~(1u << p->summed);
    const struct nk_value *v = nk_solid(nk, t, evaluate(nk, t, p->root[side]));
    nk->taps = 0;
    if (p->wide && v->dtype != TCC_F32)
        v = nk_copy(nk, t, TCC_F32, v);
    if (v->buffer->stays)
        return v;
    if (p->ncached == CACHED && p->cache[p->next].v)
        nk_release(nk, p->cache[p->next].v->buffer);
    p->cache[p->next] = (struct cached){side, *t, v};
    p->next = (p->next + 1) % CACHED;
    p->ncached += p->ncached < CACHED;
    return v;
}

static void release(struct product *p, int mark)
{
    const struct nk_value *keep[CACHED + WEIGHTS * NK_PANEL_PIECES];
    int n = 0;
    for (int i = 0; i < p->ncached; i++)
        keep[n++] = p->cache[i].v;
    for (int i = 0; i < p->nweights; i++)
        n += nk_panel_values(p->weights[i], keep + n);
    nk_release_to(p->nk, mark, keep, n);
}

/* -- Products -------------------------------------------------------------------------------------------------------------- */

/* The weights of a tile's own points: those that were loaded last are kept. */
static struct nk_panel *weights(struct product *p, int64_t lo, int64_t n)
{
    static const int64_t origin[KN_MAX_DIMS];
    for (int i = 0; i < p->nweights; i++)
        if (nk_panel_holds(p->weights[i], lo, n))
            return p->weights[i];
    struct nk_panel *w = p->weights[p->weight];
    p->weight = (p->weight + 1) % p->nweights;
    nk_panel_load(p->nk, w, origin, lo, n);
    return w;
}

/* A side's operand, and the buffer that it lies in. */
static struct neuron_operand operand(struct product *p, int side, const struct nk_tile *t, int64_t number,
                                     struct nk_buffer **buffer)
{
    struct nk *nk = p->nk;
    if (side == p->turned) {
        int own = only(nk, p->dims[side]);
        int64_t n = nk_free_elements(t);
        return nk_panel_operand(nk, weights(p, t->base[own], n), number, t->base[own], n, t->base, buffer);
    }
    const struct nk_value *v = factor(p, side, t);
    *buffer = v->buffer;
    return nk_operand(nk, t, v, 0, NULL);
}

static void multiply(struct product *p, const struct nk_tile *ts, const struct nk_tile *tm, int64_t number,
                     struct nk_buffer *bank, const struct neuron_operand *result, bool first)
{
    struct nk *nk = p->nk;
    struct nk_buffer *s, *m;
    struct neuron_instr load = {.op = NEURON_OP_LOAD_STATIONARY, .noperands = 1},
                        i = {.op = NEURON_OP_MATMUL, .noperands = 2};
    load.operand[0] = operand(p, p->rows, ts, number, &s);
    i.operand[1] = operand(p, !p->rows, tm, number, &m);
    nk_emit(nk, NEURON_TENSOR, &load, 1, (struct nk_use[]){{s, false, 0}});
    i.operand[0] = *result;
    neuron_set_attr(&i, NEURON_ATTR_ACCUMULATE, (union neuron_value){.i = !first});
    nk_emit(nk, NEURON_TENSOR, &i, 2, (struct nk_use[]){{bank, true, 0}, {m, false, 0}});
}

/* The same by panels. */
static void sum_panels(struct product *p, const struct nk_tile *t, struct nk_buffer *bank,
                       const struct neuron_operand *to)
{
    struct nk *nk = p->nk;
    int64_t n = nk_free_elements(t);
    for (int64_t j = 0; j < nk_panel_products(p->panel[0]); j++) {
        struct neuron_instr load = {.op = NEURON_OP_LOAD_STATIONARY, .noperands = 1},
                            i = {.op = NEURON_OP_MATMUL, .noperands = 2};
        struct nk_buffer *s, *m;
        load.operand[0] = nk_panel_operand(nk, p->panel[p->rows], j, t->base[p->along], t->axis[0].extent, t->base, &s);
        nk_emit(nk, NEURON_TENSOR, &load, 1, (struct nk_use[]){{s, false, 0}});
        i.operand[0] = *to;
        i.operand[1] = nk_panel_operand(nk, p->panel[!p->rows], j, t->base[p->across], n, t->base, &m);
        neuron_set_attr(&i, NEURON_ATTR_ACCUMULATE, (union neuron_value){.i = j > 0});
        nk_emit(nk, NEURON_TENSOR, &i, 2, (struct nk_use[]){{bank, true, 0}, {m, false, 0}});
    }
}

/* Sums over all summed points: `at` counts the dims that are not on partitions. */
static void sum(struct product *p, const struct nk_tile *result, struct nk_buffer *bank,
                const struct neuron_operand *to)
{
    struct nk *nk = p->nk;
    int64_t at[KN_MAX_DIMS] = {0};
    bool first = true, more = true;
    while (more) {
        int64_t all = nk->extent[p->summed], products = (all + NEURON_PARTITIONS - 1) / NEURON_PARTITIONS;
        products = p->turned < 0 ? products : nk_panel_products(p->weights[0]);
        for (int64_t number = 0; number < products; number++) {
            struct nk_tile ts, tm;
            int64_t k = (p->turned < 0 ? NEURON_PARTITIONS : 32) * number;
            int64_t chunk = p->turned < 0 ? all - k : nk_panel_rows(p->weights[0], number);
            chunk = chunk > NEURON_PARTITIONS ? NEURON_PARTITIONS : chunk;
            memset(&ts, 0, sizeof ts);
            ts.n = ts.nouter = 1;
            ts.axis[0] = (struct nk_axis){p->summed, 1, chunk};
            ts.quarter = p->turned < 0 ? 0 : nk_panel_quarter(p->weights[0]);
            for (int d = 0; d < nk->k->ndims; d++)
                ts.base[d] = d == p->summed ? k : p->c->k >> d & 1 ? at[d] : 0;
            tm = ts;
            for (int d = 0; d < nk->k->ndims; d++) {
                if ((p->dims[p->rows] | p->c->batch) >> d & 1)
                    ts.base[d] = result->base[d];
                if ((p->dims[!p->rows] | p->c->batch) >> d & 1)
                    tm.base[d] = result->base[d];
            }
            if (result->axis[0].extent > 1)
                nk_add_axes(nk, &ts, p->along, result->axis[0].extent, &p->digits[p->along]);
            for (int a = 1; a < result->n; a++)
                tm.axis[tm.n++] = result->axis[a];
            ts.nouter = ts.n;
            tm.nouter = tm.n;
            multiply(p, &ts, &tm, number, bank, to, first);
            first = false;
        }
        more = false;
        for (int d = nk->k->ndims - 1; d >= 0 && !more; d--) {
            if (!(p->c->k >> d & 1) || d == p->summed)
                continue;
            more = ++at[d] < nk->extent[d];
            if (!more)
                at[d] = 0;
        }
    }
}

/* A bank for the sums of a tile. */
static struct nk_value *new_sums(struct nk *nk, const struct nk_tile *t)
{
    struct nk_value *s = IR_NEW(nk->ctx, struct nk_value);
    *s = (struct nk_value){.dtype = TCC_F32, .type = NEURON_F32, .buffer = nk_psum(nk)};
    int64_t n = 1;
    for (int a = t->n - 1; a > 0; a--) {
        s->stride[a] = (int32_t)n;
        n *= t->axis[a].extent;
    }
    return s;
}

/* What the kernel makes of a tile's sums. */
static void finish(struct product *p, const struct nk_tile *t, const struct nk_value *s)
{
    struct nk *nk = p->nk;
    const struct kn_kernel *k = nk->k;
    const struct nk_value **value = IR_NEWN(nk->ctx, k->ninsns + 1, const struct nk_value *);
    nk->indices.n = 0;
    enum tcc_dtype d = (enum tcc_dtype)k->insns[p->c->reduce].dtype;
    value[p->c->reduce] = d == TCC_F32 ? s : nk_copy(nk, t, d, s);
    for (int i = k->stages[0].last; i < k->ninsns; i++) {
        const struct nk_value *args[3] = {NULL, NULL, NULL};
        for (int a = 0; a < k->insns[i].nargs && a < 3; a++)
            args[a] = k->insns[i].arg[a] >= 0 ? value[k->insns[i].arg[a]] : NULL;
        value[i] = nk_wait(nk, t, i, args);
        if (!value[i])
            value[i] = nk_body(nk, t, &k->insns[i], args);
    }
}

static void run_tile(struct product *p, const struct nk_tile *t)
{
    struct nk *nk = p->nk;
    int mark = nk_mark(nk);
    nk_begin_tile(nk);
    const struct nk_value *s = new_sums(nk, t);
    struct neuron_operand to = nk_operand(nk, t, s, 0, NULL);
    if (p->panel[0])
        sum_panels(p, t, s->buffer, &to);
    else
        sum(p, t, s->buffer, &to);
    finish(p, t, s);
    release(p, mark);
}

/* How many rows of the result are made at once, from that one on. */
static int64_t rows_at(const struct product *p, int64_t row)
{
    return nk_panel_part(p->panel[p->rows], p->nk->extent[p->along] - row, NEURON_PARTITIONS);
}

/* Those rows of the result by the points of the other panel. */
static void run_rows(struct product *p, const int64_t *at, int64_t last)
{
    struct nk *nk = p->nk;
    int64_t chunk;
    for (int64_t n = at[p->across]; n < last; n += chunk) {
        struct nk_tile t;
        memset(&t, 0, sizeof t);
        memcpy(t.base, at, sizeof t.base);
        t.n = 1;
        t.base[p->across] = n;
        t.axis[0] = (struct nk_axis){p->along, 1, rows_at(p, at[p->along])};
        chunk = nk_panel_part(p->panel[!p->rows], last - n, NEURON_MOVING);
        nk_add_axes(nk, &t, p->across, chunk, &p->digits[p->across]);
        t.nouter = t.n;
        run_tile(p, &t);
    }
}

static void load_rows(struct product *p, struct nk_panel *panel, const int64_t *at, int64_t row)
{
    if (row < p->nk->extent[p->along])
        nk_panel_load(p->nk, panel, at, row, rows_at(p, row));
}

static void run_panels(struct product *p, int64_t *at)
{
    struct nk *nk = p->nk;
    struct nk_panel *rows[2] = {p->panel[p->rows], nk_panel_copy(nk, p->panel[p->rows])}, *other = p->panel[!p->rows];
    int64_t n = nk->extent[p->across];
    for (int64_t lo = 0; lo < n; lo += p->block) {
        int64_t last = n - lo < p->block ? n : lo + p->block;
        int now = 0;
        nk_panel_load(nk, other, at, lo, last - lo);
        load_rows(p, rows[0], at, 0);
        for (int64_t row = 0, step; row < nk->extent[p->along]; row += step, now ^= 1) {
            step = rows_at(p, row);
            load_rows(p, rows[!now], at, row + step);
            p->panel[p->rows] = rows[now];
            at[p->along] = row;
            at[p->across] = lo;
            run_rows(p, at, last);
            nk_panel_release(nk, rows[now]);
        }
    }
    nk_panel_release(nk, other);
    at[p->along] = at[p->across] = 0;
}

/* -- Sums in parts --------------------------------------------------------------------------------------------------------- */

/* Results whose sums stand in PSUM together: up to 8 tiles. */
struct block {
    int ntiles, across; /* how many of them share their rows */
    struct nk_tile tile[PSUM_BANKS];
    const struct nk_value *sums[PSUM_BANKS];
    struct neuron_operand to[PSUM_BANKS];
    int64_t lo[SIDES], n[SIDES]; /* points of the factors' own dims */
};

/* Tiles from `at` on: four banks beside each other at most, and as many below them as there are banks. */
static void lay_out(struct product *p, const int64_t *at, struct block *b)
{
    struct nk *nk = p->nk;
    int64_t lo[4], n[4], end = at[p->across], row = at[p->along];
    *b = (struct block){0};
    for (; b->across < 4 && end < nk->extent[p->across]; b->across++) {
        lo[b->across] = end;
        n[b->across] = nk_panel_part(p->panel[!p->rows], nk->extent[p->across] - end, NEURON_MOVING);
        end += n[b->across];
    }
    while (row < nk->extent[p->along] && b->ntiles + b->across <= PSUM_BANKS) {
        int64_t rows = rows_at(p, row);
        for (int c = 0; c < b->across; c++) {
            struct nk_tile *t = &b->tile[b->ntiles];
            memset(t, 0, sizeof *t);
            memcpy(t->base, at, sizeof t->base);
            t->n = 1;
            t->base[p->along] = row;
            t->base[p->across] = lo[c];
            t->axis[0] = (struct nk_axis){p->along, 1, rows};
            nk_add_axes(nk, t, p->across, n[c], &p->digits[p->across]);
            t->nouter = t->n;
            b->sums[b->ntiles] = new_sums(nk, t);
            b->to[b->ntiles] = nk_operand(nk, t, b->sums[b->ntiles], 0, NULL);
            b->ntiles++;
        }
        row += rows;
    }
    b->lo[p->rows] = at[p->along];
    b->n[p->rows] = row - at[p->along];
    b->lo[!p->rows] = at[p->across];
    b->n[!p->rows] = end - at[p->across];
}

/* Adds the products of panels that are on chip. */
static void add_part(struct product *p, const struct block *b, struct nk_panel *const *panel, bool first)
{
    struct nk *nk = p->nk;
    for (int64_t j = 0; j < nk_panel_products(panel[0]); j++)
        for (int i = 0; i < b->ntiles; i++) {
            const struct nk_tile *t = &b->tile[i];
            struct neuron_instr load = {.op = NEURON_OP_LOAD_STATIONARY, .noperands = 1},
                                multiply = {.op = NEURON_OP_MATMUL, .noperands = 2};
            struct nk_buffer *s, *m;
            load.operand[0] =
                nk_panel_operand(nk, panel[p->rows], j, t->base[p->along], t->axis[0].extent, t->base, &s);
            if (i % b->across == 0)
                nk_emit(nk, NEURON_TENSOR, &load, 1, (struct nk_use[]){{s, false, 0}});
            multiply.operand[0] = b->to[i];
            multiply.operand[1] =
                nk_panel_operand(nk, panel[!p->rows], j, t->base[p->across], nk_free_elements(t), t->base, &m);
            neuron_set_attr(&multiply, NEURON_ATTR_ACCUMULATE, (union neuron_value){.i = !first || j > 0});
            nk_emit(nk, NEURON_TENSOR, &multiply, 2, (struct nk_use[]){{b->sums[i]->buffer, true, 0}, {m, false, 0}});
        }
}

/* Adds the points of the sum from k on, fewer than there are partitions. */
static void add_rest(struct product *p, const struct block *b, int64_t k)
{
    struct nk *nk = p->nk;
    for (int i = 0; i < b->ntiles; i++) {
        struct nk_tile ts = {.n = 1, .nouter = 1, .axis = {{p->summed, 1, nk->extent[p->summed] - k}}};
        memcpy(ts.base, b->tile[i].base, sizeof ts.base);
        ts.base[p->summed] = k;
        struct nk_tile tm = ts;
        ts.base[p->across] = tm.base[p->along] = 0;
        nk_add_axes(nk, &ts, p->along, b->tile[i].axis[0].extent, &p->digits[p->along]);
        for (int a = 1; a < b->tile[i].n; a++)
            tm.axis[tm.n++] = b->tile[i].axis[a];
        ts.nouter = ts.n;
        tm.nouter = tm.n;
        multiply(p, &ts, &tm, 0, b->sums[i]->buffer, &b->to[i], false);
    }
}

/* Panels of the part from k on, as long as one of `panel` at most; NULL: there are fewer points than partitions left. */
static bool load_part(struct product *p, const struct block *b, const int64_t *at, int64_t k, struct nk_panel **panel)
{
    struct nk *nk = p->nk;
    int64_t left = nk->extent[p->summed] - k,
            n = left < p->part ? left / NEURON_PARTITIONS * NEURON_PARTITIONS : p->part;
    if (!n)
        return false;
    for (int i = 0; i < SIDES; i++) {
        int own = i == p->rows ? p->along : p->across;
        panel[i] = n == p->part ? nk_panel_copy(nk, p->panel[i]) : nk_panel_new(nk, p->root[i], p->summed, own, 0, n);
        if (!panel[i])
            nk_refuse(nk, "a part of a sum that is no panel");
        nk_panel_at(panel[i], k);
        nk_panel_load(nk, panel[i], at, b->lo[i], b->n[i]);
    }
    return true;
}

static void run_block(struct product *p, const int64_t *at, struct block *b)
{
    struct nk *nk = p->nk;
    struct nk_panel *panel[2][SIDES];
    int mark = nk_mark(nk), now = 0;
    int64_t k = 0;
    nk_begin_tile(nk);
    lay_out(p, at, b);
    for (bool more = load_part(p, b, at, 0, panel[0]); more; now ^= 1) {
        int64_t left = nk->extent[p->summed] - k,
                behind = k + (left < p->part ? left / NEURON_PARTITIONS * NEURON_PARTITIONS : p->part);
        more = behind < nk->extent[p->summed] && load_part(p, b, at, behind, panel[!now]);
        add_part(p, b, panel[now], k == 0);
        for (int i = 0; i < SIDES; i++)
            nk_panel_release(nk, panel[now][i]);
        k = behind;
    }
    if (k < nk->extent[p->summed])
        add_rest(p, b, k);
    for (int i = 0; i < b->ntiles; i++) {
        int own = nk_mark(nk);
        finish(p, &b->tile[i], b->sums[i]);
        nk_release_to(nk, own, NULL, 0);
    }
    p->ncached = p->next = 0;
    nk_release_to(nk, mark, NULL, 0);
}

static void run_parts(struct product *p, int64_t *at)
{
    struct nk *nk = p->nk;
    struct block b;
    for (at[p->across] = 0; at[p->across] < nk->extent[p->across]; at[p->across] += b.n[!p->rows])
        for (at[p->along] = 0; at[p->along] < nk->extent[p->along]; at[p->along] += b.n[p->rows])
            run_block(p, at, &b);
    at[p->along] = at[p->across] = 0;
}

static bool next(const struct nk *nk, uint32_t dims, int64_t *at)
{
    for (int d = nk->k->ndims - 1; d >= 0; d--) {
        if (!(dims >> d & 1))
            continue;
        if (++at[d] < nk->extent[d])
            return true;
        at[d] = 0;
    }
    return false;
}

void nk_run_product(struct nk *nk)
{
    struct product *p = IR_NEW(nk->ctx, struct product);
    const struct kn_kernel *k = nk->k;
    int64_t at[KN_MAX_DIMS] = {0};
    bool more = true;
    plan(nk, p);
    nk->optional = p->panel[0] || p->turned >= 0;
    if (p->panel[0]) {
        do
            if (p->part)
                run_parts(p, at);
            else
                run_panels(p, at);
        while (next(nk, p->c->batch, at));
        return;
    }
    while (more) {
        struct nk_tile t;
        memset(&t, 0, sizeof t);
        t.n = 1;
        t.axis[0] = (struct nk_axis){p->along < 0 ? KN_MAX_DIMS - 1 : p->along, 1, 1};
        for (int d = 0; d < k->ndims; d++) {
            t.base[d] = at[d];
            int64_t left = nk->extent[d] - at[d];
            if (d == p->along)
                t.axis[0].extent = left > NEURON_PARTITIONS ? NEURON_PARTITIONS : left;
            if (p->dims[!p->rows] >> d & 1)
                nk_add_axes(nk, &t, d, left < p->chunk[d] ? left : p->chunk[d], &p->digits[d]);
        }
        t.nouter = t.n;
        run_tile(p, &t);
        more = false;
        uint32_t order[3] = {p->dims[!p->rows], p->dims[p->rows], p->c->batch};
        for (int pass = 0; pass < 3 && !more; pass++)
            for (int d = k->ndims - 1; d >= 0 && !more; d--) {
                if (!(order[pass] >> d & 1))
                    continue;
                at[d] += pass == 0 ? p->chunk[d] : d == p->along ? NEURON_PARTITIONS : 1;
                more = at[d] < nk->extent[d];
                if (!more)
                    at[d] = 0;
            }
    }
}
