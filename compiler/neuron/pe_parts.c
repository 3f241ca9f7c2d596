/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pe_parts.c - sums of so many points that no panel holds them come in parts: as many results as there are banks stay
 * in PSUM, while panels of the next points of both factors are loaded and multiplied ones are given back; less than 128
 * points that are left over come as other factors do.
 */
#include "compiler/neuron/pe_int.h"

#include <string.h>

/* Points of a part, where so many are left. */
static int64_t part_of(const struct product *p, int64_t left)
{
    int64_t unit = p->mx >= 0 ? NEURON_PARTITIONS / 4 : NEURON_PARTITIONS;
    return left < p->part ? left / unit * unit : p->part;
}

/* Panels of a part of the sum, two of each factor: the largest that fit; all columns of the result, or those of four
 * banks, and 128 rows for each set of banks. */
void nk_find_parts(struct product *p)
{
    enum { LEFT = 24 << 10, MOST = 4096, LEAST = 512, ALL = 4 * NEURON_MOVING };
    struct nk *nk = p->nk;
    int summed = p->mx >= 0 ? p->summed : nk_only_dim(nk, p->c->k), own[SIDES];
    uint32_t taps = nk_packed_dims(p);
    if (p->panel[0] || nk->room < NK_ROOM || summed < 0 || summed != p->summed || !nk_find_own(p, own) ||
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
            p->panel[i] = nk_panel_new(nk, p->root[i], summed, own[i], taps, p->mx, part);
            if (!p->panel[i]) {
                p->panel[0] = p->panel[1] = NULL;
                return;
            }
            n = n < most ? n : most;
            bytes += (nk_panel_turned(p->panel[i]) ? 3 : 2) * nk_panel_bytes(nk, p->panel[i], n);
            if (p->mx >= 0)
                bytes += nk_panel_loading(nk, p->panel[i], n);
        }
        if (bytes <= neuron_sbuf_bytes(nk->machine->core) - LEFT)
            p->part = part;
    }
    p->across = own[!p->rows];
    if (!p->part)
        p->panel[0] = p->panel[1] = NULL;
}

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
        int64_t rows = nk_rows_at(p, row);
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
            b->sums[b->ntiles] = nk_new_sums(nk, t);
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
    for (int64_t j = 0; j < nk_panel_products(panel[0]); j++)
        for (int i = 0; i < b->ntiles; i++)
            nk_multiply_panels(p, panel, j, &b->tile[i], i % b->across == 0, b->sums[i]->buffer, &b->to[i],
                               first && j == 0);
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
        nk_multiply_factors(p, &ts, &tm, 0, b->sums[i]->buffer, &b->to[i], false);
    }
}

/* Panels of the part from k on, as long as one of `panel` at most; NULL: there are fewer points than partitions
 * left. */
static bool load_part(struct product *p, const struct block *b, const int64_t *at, int64_t k, struct nk_panel **panel)
{
    struct nk *nk = p->nk;
    int64_t n = part_of(p, nk->extent[p->summed] - k);
    if (!n)
        return false;
    for (int i = 0; i < SIDES; i++) {
        int own = i == p->rows ? p->along : p->across;
        panel[i] = n == p->part ? nk_panel_copy(nk, p->panel[i])
                                : nk_panel_new(nk, p->root[i], p->summed, own, nk_packed_dims(p), p->mx, n);
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
        int64_t behind = k + part_of(p, nk->extent[p->summed] - k);
        more = behind < nk->extent[p->summed] && load_part(p, b, at, behind, panel[!now]);
        add_part(p, b, panel[now], k == 0);
        for (int i = 0; i < SIDES; i++)
            nk_panel_release(nk, panel[now][i]);
        k = behind;
    }
    if (k < nk->extent[p->summed])
        add_rest(p, b, k);
    for (int i = 0, n; i < b->ntiles; i += n) {
        int own = nk_mark(nk);
        n = b->ntiles - i < nk_together(nk) ? b->ntiles - i : nk_together(nk);
        nk_finish_sums(p, n, &b->tile[i], &b->sums[i]);
        nk_release_to(nk, own, NULL, 0);
    }
    p->ncached = p->next = 0;
    nk_release_to(nk, mark, NULL, 0);
}

void nk_run_parts(struct product *p, int64_t *at)
{
    struct nk *nk = p->nk;
    struct block b;
    for (at[p->across] = 0; at[p->across] < nk->extent[p->across]; at[p->across] += b.n[!p->rows])
        for (at[p->along] = 0; at[p->along] < nk->extent[p->along]; at[p->along] += b.n[p->rows])
            run_block(p, at, &b);
    at[p->along] = at[p->across] = 0;
}
