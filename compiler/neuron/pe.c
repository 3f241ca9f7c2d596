/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pe.c - contractions by the tensor engine. Results lie with one dim of one operand on partitions (at most 128 points)
 * and dims of the other side by side (at most 512): a bank of PSUM. Of the summed dims the longest lies on the
 * partitions of both operands, 128 points at a time; the others, as the taps of a convolution, are products of their
 * own that accumulate in the bank. The stages behind the sum then read the bank.
 *
 * Operands on chip are kept for later tiles as long as there is room for them. Factors of one dim each that loads find
 * in order come in panels (panel.c): those of as many points of the one as fit, and 128 points of the other after the
 * other, each loaded while the one before it is multiplied.
 */
#include "compiler/neuron/pe_int.h"

#include <string.h>

bool nk_takes_product(struct nk *nk)
{
    struct product *p = IR_NEW(nk->ctx, struct product);
    return nk->k->roles.form == KN_CONTRACTION && nk_plan_product(nk, p);
}

/* -- Factors ------------------------------------------------------------------------------------------------------- */

static bool same_tile(const struct nk_tile *a, const struct nk_tile *b)
{
    bool same = a->n == b->n && a->quarter == b->quarter && !memcmp(a->base, b->base, sizeof a->base);
    for (int i = 0; same && i < a->n; i++)
        same = a->axis[i].dim == b->axis[i].dim && a->axis[i].mult == b->axis[i].mult &&
               a->axis[i].extent == b->axis[i].extent;
    return same;
}

/* A tile of a factor, as the tensor engine takes it; what it is made of is given back. */
static const struct nk_value *evaluate(struct product *p, int side, const struct nk_tile *t)
{
    struct nk *nk = p->nk;
    int mark = nk_mark(nk);
    const struct nk_value **made = IR_NEWN(nk->ctx, nk->k->ninsns + 1, const struct nk_value *);
    nk->taps = p->c->k & ~(1u << p->summed) & ~nk_packed_dims(p);
    const struct nk_value *v = nk_solid(nk, t, nk_evaluate(nk, t, made, p->root[side]));
    nk->taps = 0;
    if (p->wide && v->dtype != TCC_F32)
        v = nk_copy(nk, t, TCC_F32, v);
    nk_release_to(nk, mark, &v, 1);
    return v;
}

/* What a tile of a factor is, in the cache: of packed numbers, the last axis has the four of an element. */
static const struct cached *factor(struct product *p, int side, const struct nk_tile *t)
{
    struct nk *nk = p->nk;
    for (int i = 0; i < p->ncached; i++)
        if (p->cache[i].v && p->cache[i].side == side && same_tile(&p->cache[i].t, t))
            return &p->cache[i];
    const struct nk_value *v = evaluate(p, side, t);
    struct nk_value *scale = NULL;
    if (p->mx >= 0) {
        const struct nk_value *from = v;
        if (v->type != NEURON_BF16 && v->type != NEURON_F16)
            from = nk_copy(nk, t, (enum tcc_dtype)nk->k->insns[p->root[side]].dtype, v);
        v = nk_quantise(nk, t, p->mx, from, &scale);
    }
    p->alone = (struct cached){side, *t, v, scale};
    if (v->buffer->stays)
        return &p->alone;
    struct cached *at = &p->cache[p->next];
    if (p->ncached == CACHED && at->v)
        nk_release(nk, at->v->buffer);
    if (p->ncached == CACHED && at->scale)
        nk_release(nk, at->scale->buffer);
    *at = p->alone;
    p->next = (p->next + 1) % CACHED;
    p->ncached += p->ncached < CACHED;
    return at;
}

static void release(struct product *p, int mark)
{
    const struct nk_value *keep[2 * CACHED + WEIGHTS * NK_PANEL_PIECES];
    int n = 0;
    for (int i = 0; i < p->ncached; i++) {
        keep[n++] = p->cache[i].v;
        if (p->cache[i].scale)
            keep[n++] = p->cache[i].scale;
    }
    for (int i = 0; i < p->nweights; i++)
        n += nk_panel_values(p->weights[i], keep + n);
    nk_release_to(p->nk, mark, keep, n);
}

/* -- Products ------------------------------------------------------------------------------------------------------ */

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
        int own = nk_only_dim(nk, p->dims[side]);
        int64_t n = nk_free_elements(t);
        return nk_panel_operand(nk, weights(p, t->base[own], n), number, t->base[own], n, t->base, buffer);
    }
    const struct nk_value *v = factor(p, side, t)->v;
    *buffer = v->buffer;
    return nk_operand(nk, t, v, 0, NULL);
}

/* The same of packed numbers: the operand, and its scales. */
static void packed_operand(struct product *p, int side, const struct nk_tile *t, struct neuron_operand *o,
                           struct nk_use *use)
{
    struct nk_tile elements = *t;
    elements.axis[elements.n] = (struct nk_axis){__builtin_ctz(nk_packed_dims(p)), 1, 4};
    elements.nouter = ++elements.n;
    const struct cached *f = factor(p, side, &elements);
    o[0] = nk_operand(p->nk, t, f->v, 0, NULL);
    o[1] = nk_operand(p->nk, t, f->scale, 0, NULL);
    use[0].b = f->v->buffer;
    use[1].b = f->scale->buffer;
}

static void multiply_packed(struct product *p, const struct nk_tile *ts, const struct nk_tile *tm,
                            struct nk_buffer *bank, const struct neuron_operand *result, bool first)
{
    struct neuron_instr load = {.op = NEURON_OP_LOAD_STATIONARY_MX, .noperands = 2},
                        i = {.op = NEURON_OP_MATMUL_MX, .noperands = 3};
    struct nk_use s[2] = {0}, m[3] = {{bank, true, 0}};
    packed_operand(p, p->rows, ts, load.operand, s);
    packed_operand(p, !p->rows, tm, i.operand + 1, m + 1);
    nk_emit(p->nk, NEURON_TENSOR, &load, 2, s);
    i.operand[0] = *result;
    neuron_set_attr(&i, NEURON_ATTR_ACCUMULATE, (union neuron_value){.i = !first});
    nk_emit(p->nk, NEURON_TENSOR, &i, 3, m);
}

void nk_multiply_factors(struct product *p, const struct nk_tile *ts, const struct nk_tile *tm, int64_t number,
                         struct nk_buffer *bank, const struct neuron_operand *result, bool first)
{
    struct nk *nk = p->nk;
    struct nk_buffer *s, *m;
    struct neuron_instr load = {.op = NEURON_OP_LOAD_STATIONARY, .noperands = 1},
                        i = {.op = NEURON_OP_MATMUL, .noperands = 2};
    if (p->mx >= 0) {
        multiply_packed(p, ts, tm, bank, result, first);
        return;
    }
    load.operand[0] = operand(p, p->rows, ts, number, &s);
    i.operand[1] = operand(p, !p->rows, tm, number, &m);
    nk_emit(nk, NEURON_TENSOR, &load, 1, (struct nk_use[]){{s, false, 0}});
    i.operand[0] = *result;
    neuron_set_attr(&i, NEURON_ATTR_ACCUMULATE, (union neuron_value){.i = !first});
    nk_emit(nk, NEURON_TENSOR, &i, 2, (struct nk_use[]){{bank, true, 0}, {m, false, 0}});
}

void nk_multiply_panels(struct product *p, struct nk_panel *const *panel, int64_t number, const struct nk_tile *t,
                        bool load, struct nk_buffer *bank, const struct neuron_operand *to, bool first)
{
    struct nk *nk = p->nk;
    bool mx = p->mx >= 0;
    struct neuron_instr l = {.op = mx ? NEURON_OP_LOAD_STATIONARY_MX : NEURON_OP_LOAD_STATIONARY, .noperands = mx + 1},
                        i = {.op = mx ? NEURON_OP_MATMUL_MX : NEURON_OP_MATMUL, .noperands = mx + 2};
    struct nk_use s[2] = {0}, m[3] = {{bank, true, 0}};
    int64_t rows = t->axis[0].extent, n = nk_free_elements(t), lo = t->base[p->along], at = t->base[p->across];
    l.operand[0] = nk_panel_operand(nk, panel[p->rows], number, lo, rows, t->base, &s[0].b);
    i.operand[0] = *to;
    i.operand[1] = nk_panel_operand(nk, panel[!p->rows], number, at, n, t->base, &m[1].b);
    if (mx) {
        l.operand[1] = nk_panel_scale(nk, panel[p->rows], number, lo, rows, t->base, &s[1].b);
        i.operand[2] = nk_panel_scale(nk, panel[!p->rows], number, at, n, t->base, &m[2].b);
    }
    if (load)
        nk_emit(nk, NEURON_TENSOR, &l, l.noperands, s);
    neuron_set_attr(&i, NEURON_ATTR_ACCUMULATE, (union neuron_value){.i = !first});
    nk_emit(nk, NEURON_TENSOR, &i, i.noperands, m);
}

/* The same by panels. */
static void sum_panels(struct product *p, const struct nk_tile *t, struct nk_buffer *bank,
                       const struct neuron_operand *to)
{
    for (int64_t j = 0; j < nk_panel_products(p->panel[0]); j++)
        nk_multiply_panels(p, p->panel, j, t, true, bank, to, j == 0);
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
            nk_multiply_factors(p, &ts, &tm, number, bank, to, first);
            first = false;
        }
        more = nk_next(nk, p->c->k & ~(1u << p->summed) & ~nk_packed_dims(p), NULL, at);
    }
}

/* The same where it is a product with ones (sum_by_product.c) alone: each partition has neighbours among the summed
 * points, so that rows of DMA, and columns that rows are multiplied by, come several at once. False: it is another
 * one. */
static bool sum_neighbours(struct product *p, const struct nk_tile *result, struct nk_buffer *bank,
                           const struct neuron_operand *to)
{
    enum { BESIDE = 2048, TIMES = 8 }; /* elements at once; so often at least, for engines to work side by side */
    struct nk *nk = p->nk;
    int64_t each = nk->extent[p->summed] / NEURON_PARTITIONS, n = BESIDE / nk_free_elements(result);
    struct nk_tile ts = {.n = 1, .nouter = 1, .axis = {{p->summed, 1, NEURON_PARTITIONS}}};
    if (!nk->product || nk_dims_of(nk, p->root[p->rows]) || nk_only_dim(nk, p->c->k) != p->summed ||
        p->digits[p->summed].n > 1 || nk->extent[p->summed] % NEURON_PARTITIONS || n < 1)
        return false;
    n = n < each / TIMES ? n : each / TIMES;
    while (n > 1 && each % n)
        n--;
    n = n < 1 ? 1 : n;
    const struct nk_value *ones = factor(p, p->rows, &ts)->v;
    struct neuron_operand stationary = nk_operand(nk, &ts, ones, 0, NULL);
    for (int64_t k = 0; k < each; k += n) {
        struct nk_tile tm = *result, one;
        int mark = nk_mark(nk);
        tm.base[p->summed] = k * NEURON_PARTITIONS;
        tm.axis[0] = (struct nk_axis){p->summed, n, NEURON_PARTITIONS};
        one = tm;
        memmove(tm.axis + 2, tm.axis + 1, (size_t)(tm.n - 1) * sizeof *tm.axis);
        tm.axis[1] = (struct nk_axis){p->summed, 1, n};
        tm.nouter = ++tm.n;
        const struct nk_value *v = evaluate(p, !p->rows, &tm);
        for (int64_t i = 0; i < n; i++) {
            struct nk_value x = nk_from(v, i * v->stride[1]);
            memmove(x.stride + 1, x.stride + 2, (size_t)(one.n - 1) * sizeof *x.stride);
            struct neuron_operand moving = nk_operand(nk, &one, &x, 0, NULL);
            nk_multiply(nk, to, bank, &stationary, ones->buffer, &moving, v->buffer, k + i == 0);
        }
        nk_release_to(nk, mark, NULL, 0);
    }
    return true;
}

/* A bank for the sums of a tile. */
struct nk_value *nk_new_sums(struct nk *nk, const struct nk_tile *t)
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

/* May instructions of tiles take turns? Symbols of indices have one value. */
int nk_together(const struct nk *nk)
{
    return kn_has(nk->k, KN_BIT(KN_INDEX)) ? 1 : nk->together < NK_TOGETHER ? nk->together : NK_TOGETHER - 1;
}

static bool shares(const struct nk_value *v, const struct nk_buffer *b)
{
    return v && ((!v->is_number && v->buffer == b) || shares(v->high, b) || (v->half && shares(v->half->with, b)));
}

/* Gives back what instruction i was the last to read. */
static void forget(struct nk *nk, const struct nk_value *const *value, int i)
{
    const struct kn_insn *insns = nk->k->insns;
    for (int a = 0; a < insns[i].nargs && a < 3; a++) {
        const struct nk_value *v = insns[i].arg[a] >= 0 ? value[insns[i].arg[a]] : NULL;
        bool needed = !v || v->is_number || v->high || v->buffer->space != NEURON_SBUF;
        for (int j = 0; j <= i && !needed; j++)
            for (int l = i + 1; l < nk->k->ninsns && !needed && shares(value[j], v->buffer); l++)
                for (int b = 0; b < insns[l].nargs; b++)
                    needed |= insns[l].arg[b] == j;
        if (!needed)
            nk_release(nk, v->buffer);
    }
}

/* What the kernel makes of the sums of n tiles, which take turns. */
void nk_finish_sums(struct product *p, int n, const struct nk_tile *t, const struct nk_value *const *s)
{
    struct nk *nk = p->nk;
    const struct kn_kernel *k = nk->k;
    const struct nk_value **value[NK_TOGETHER];
    enum tcc_dtype d = (enum tcc_dtype)k->insns[p->c->reduce].dtype;
    nk->indices.n = 0;
    for (int j = 0; j < n; j++) {
        value[j] = IR_NEWN(nk->ctx, k->ninsns + 1, const struct nk_value *);
        value[j][p->c->reduce] = d == TCC_F32 ? s[j] : nk_copy(nk, &t[j], d, s[j]);
    }
    for (int i = kn_main_stage(k)->last; i < k->ninsns; i++)
        for (int j = 0; j < n; j++) {
            const struct nk_value *args[3] = {NULL, NULL, NULL};
            for (int a = 0; a < k->insns[i].nargs && a < 3; a++)
                args[a] = k->insns[i].arg[a] >= 0 ? value[j][k->insns[i].arg[a]] : NULL;
            value[j][i] = nk_wait(nk, &t[j], i, args);
            if (!value[j][i])
                value[j][i] = nk_body(nk, &t[j], &k->insns[i], args);
            forget(nk, value[j], i);
        }
}

static void run_tiles(struct product *p, int n, const struct nk_tile *t)
{
    struct nk *nk = p->nk;
    int mark = nk_mark(nk);
    const struct nk_value *s[NK_TOGETHER];
    nk_begin_tile(nk);
    for (int j = 0; j < n; j++) {
        s[j] = nk_new_sums(nk, &t[j]);
        struct neuron_operand to = nk_operand(nk, &t[j], s[j], 0, NULL);
        if (p->panel[0] && p->each > 1)
            nk_sum_each(p, &t[j], s[j]);
        else if (p->panel[0])
            sum_panels(p, &t[j], s[j]->buffer, &to);
        else if (!sum_neighbours(p, &t[j], s[j]->buffer, &to))
            sum(p, &t[j], s[j]->buffer, &to);
    }
    nk_finish_sums(p, n, t, s);
    release(p, mark);
}

/* How many rows of the result are made at once, from that one on. */
int64_t nk_rows_at(const struct product *p, int64_t row)
{
    if (p->each > 1)
        return p->each * NEURON_PARTITIONS;
    return nk_panel_part(p->panel[p->rows], p->nk->extent[p->along] - row, NEURON_PARTITIONS);
}

/* Those rows of the result by the points of the other panel. */
static void run_rows(struct product *p, const int64_t *at, int64_t last)
{
    struct nk *nk = p->nk;
    int64_t chunk;
    struct nk_tile t[NK_TOGETHER];
    int ntiles = 0, most = nk_together(nk);
    for (int64_t n = at[p->across]; n < last; n += chunk) {
        struct nk_tile *x = &t[ntiles++];
        memset(x, 0, sizeof *x);
        memcpy(x->base, at, sizeof x->base);
        x->n = 1;
        x->base[p->across] = n;
        if (p->each > 1) {
            chunk = last - n < NEURON_MOVING / p->each ? last - n : NEURON_MOVING / p->each;
            *x = nk_each_tile(p, x->base, chunk);
            if (ntiles < most && n + chunk < last)
                continue;
            run_tiles(p, ntiles, t);
            ntiles = 0;
            continue;
        }
        x->axis[0] = (struct nk_axis){p->along, 1, nk_rows_at(p, at[p->along])};
        chunk = nk_panel_part(p->panel[!p->rows], last - n, NEURON_MOVING);
        nk_add_axes(nk, x, p->across, chunk, &p->digits[p->across]);
        x->nouter = x->n;
        if (ntiles < most && n + chunk < last)
            continue;
        run_tiles(p, ntiles, t);
        ntiles = 0;
    }
}

static void load_rows(struct product *p, struct nk_panel *panel, const int64_t *at, int64_t row)
{
    if (row < p->nk->extent[p->along])
        nk_panel_load(p->nk, panel, at, row, nk_rows_at(p, row));
}

static void run_panels(struct product *p, int64_t *at)
{
    struct nk *nk = p->nk;
    struct nk_panel *rows[2] = {p->panel[p->rows], nk_panel_copy(nk, p->panel[p->rows])}, *other = p->panel[!p->rows];
    int64_t n = nk->extent[p->across];
    bool stays = p->block >= n && !(p->c->batch | (p->beside & p->dims[!p->rows])); /* for the next turn */
    for (int64_t lo = 0; lo < n; lo += p->block) {
        int64_t last = n - lo < p->block ? n : lo + p->block;
        int now = 0;
        if (!stays || !nk_panel_holds(other, lo, last - lo))
            nk_panel_load(nk, other, at, lo, last - lo);
        load_rows(p, rows[0], at, 0);
        for (int64_t row = 0, step; row < nk->extent[p->along]; row += step, now ^= 1) {
            step = nk_rows_at(p, row);
            load_rows(p, rows[!now], at, row + step);
            p->panel[p->rows] = rows[now];
            at[p->along] = row;
            at[p->across] = lo;
            run_rows(p, at, last);
            nk_panel_release(nk, rows[now]);
        }
    }
    if (!stays)
        nk_panel_release(nk, other);
    at[p->along] = at[p->across] = 0;
}

void nk_run_product(struct nk *nk)
{
    struct product *p = IR_NEW(nk->ctx, struct product);
    const struct kn_kernel *k = nk->k;
    int64_t at[KN_MAX_DIMS] = {0};
    bool more = true;
    nk_plan_product(nk, p);
    nk->optional = p->panel[0] || p->turned >= 0;
    if (p->panel[0]) {
        do
            if (p->part)
                nk_run_parts(p, at);
            else
                run_panels(p, at);
        while (nk_next(nk, p->c->batch | p->beside, NULL, at));
        nk_panel_release(nk, p->panel[!p->rows]);
        return;
    }
    int64_t each[KN_MAX_DIMS];
    for (int d = 0; d < k->ndims; d++)
        each[d] = d == p->along ? NEURON_PARTITIONS : 1;
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
        run_tiles(p, 1, &t);
        more = nk_next(nk, p->dims[!p->rows], p->chunk, at) || nk_next(nk, p->dims[p->rows], each, at) ||
               nk_next(nk, p->c->batch, each, at);
    }
}
