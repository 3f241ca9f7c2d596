/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pe_rows.c - products whose results HBM has in short runs, as heads of attention have: where a run of one row stands
 * behind that of the row before, a partition has several neighbouring rows, and DMA stores their runs as one.
 */
#include "compiler/neuron/pe_int.h"

#include <string.h>

enum { ROW_BYTES = 512, HALF_RATE = 16 }; /* of DMA at least; elements so far apart come at half the rate */

/* Bytes of a run, if each row's lies behind that of the row before; 0: they don't. */
static int64_t run_bytes(const struct product *p, const struct kn_insn *store, int64_t run)
{
    struct nk *nk = p->nk;
    struct nk_tile t = {
        .n = 3, .nouter = 3, .axis = {{p->along, 1, NEURON_PARTITIONS}, {p->across, run, 2}, {p->across, 1, run}}};
    struct nk_pieces pieces = {0};
    if (!nk_pieces_of(nk, &t, store, &pieces) || pieces.n != 1)
        return 0;
    const int64_t *coef = pieces.at[0].line.coef;
    bool follow = coef[0] == run && coef[2] == 1 && coef[1] != run;
    return follow ? run * tcc_dtype_bytes(nk->k->operands[store->operand].dtype) : 0;
}

void nk_find_each(struct product *p)
{
    struct nk *nk = p->nk;
    const struct nk_digits *d = &p->digits[p->across];
    int64_t run = d->n == 2 ? d->period[1] : 0, bytes, most = HALF_RATE / (p->wide ? 4 : 2) / 2;
    p->each = 1;
    if (!run || p->mx >= 0 || nk->extent[p->across] % (NEURON_MOVING / most) || NEURON_MOVING / most % run ||
        p->digits[p->along].n > 1)
        return;
    for (int i = kn_main_stage(nk->k)->last; i < nk->k->ninsns; i++)
        if (nk->k->insns[i].code == KN_STORE && (bytes = run_bytes(p, &nk->k->insns[i], run)))
            while (p->each < most && p->each * bytes < ROW_BYTES &&
                   nk->extent[p->along] % (2 * p->each * NEURON_PARTITIONS) == 0)
                p->each *= 2;
}

struct nk_tile nk_each_tile(const struct product *p, const int64_t *base, int64_t n)
{
    int64_t run = p->digits[p->across].period[1];
    struct nk_tile t = {.n = 4,
                        .nouter = 4,
                        .axis = {{p->along, p->each, NEURON_PARTITIONS},
                                 {p->across, run, n / run},
                                 {p->along, 1, p->each},
                                 {p->across, 1, run}}};
    memcpy(t.base, base, sizeof t.base);
    return t;
}

void nk_sum_each(struct product *p, const struct nk_tile *t, const struct nk_value *sums)
{
    struct nk *nk = p->nk;
    int64_t n = t->axis[1].extent * t->axis[3].extent;
    for (int64_t j = 0; j < nk_panel_products(p->panel[0]); j++)
        for (int64_t i = 0; i < p->each; i++) {
            struct nk_box b = nk_whole(t);
            struct nk_buffer *s, *m;
            bool fits = true;
            b.lo[2] = i;
            b.n[2] = 1;
            struct neuron_operand to = nk_box_operand(nk, t, sums, &b, &fits),
                                  row = nk_panel_every(nk, p->panel[p->rows], j, t->base[p->along] + i,
                                                       NEURON_PARTITIONS, p->each, t->base, &s),
                                  other =
                                      nk_panel_operand(nk, p->panel[!p->rows], j, t->base[p->across], n, t->base, &m);
            if (!fits)
                nk_refuse(nk, "rows of a bank that have no pattern");
            nk_multiply(nk, &to, sums->buffer, &row, s, &other, m, j == 0);
        }
}
