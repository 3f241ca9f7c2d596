/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keep.c - what stays in SBUF: rows that are the same in all partitions (a bias, a norm's weights), from the first tile
 * that loads them to the last; and values that a later stage of a tile works out again over the same points (a row from
 * which a mean was taken, then a variance, then the result), where a tile's rows are on chip whole. A kernel that does
 * not fit with them is made without (kernel.c).
 */
#include "compiler/neuron/tile_int.h"

#include <string.h>

/* -- Rows ---------------------------------------------------------------------------------------------------------- */

/* An operand's elements at a line over a tile's free axes. */
struct nk_row {
    int operand;
    struct nk_tile tile;
    struct nk_line line;
    const struct nk_value *value;
};

static bool is_row(const struct nk_row *r, const struct nk_tile *t, const struct kn_insn *n, const struct nk_line *l)
{
    bool same = r->operand == n->operand && r->tile.n == t->n && r->line.base == l->base;
    for (int a = 1; same && a < t->n; a++)
        same = r->tile.axis[a].extent == t->axis[a].extent && r->line.coef[a] == l->coef[a];
    return same;
}

/* The same row in PSUM, if banks are free: there it is an operand of Vector's `tensor_tensor` that takes no longer than
 * one, while two in SBUF are read one behind the other (cost.def). */
static const struct nk_value *in_banks(struct nk *nk, const struct nk_tile *t, const struct nk_value *v)
{
    enum { FEW = 64 };
    struct nk_tile part;
    if (!nk_distinct(t, 1, &v, &part))
        part = *t;
    int64_t n = nk_free_elements(&part);
    struct nk_buffer *banks = nk->banks && n >= FEW ? nk_psum_row(nk, n * neuron_type_bytes(NEURON_F32)) : NULL;
    if (!banks)
        return v;
    struct nk_value *to = IR_NEW(nk->ctx, struct nk_value);
    *to = (struct nk_value){.dtype = v->dtype, .type = NEURON_F32, .buffer = banks};
    int64_t stride = 1;
    for (int a = part.n - 1; a > 0; a--)
        if (part.axis[a].extent > 1) {
            to->stride[a] = (int32_t)stride;
            stride *= part.axis[a].extent;
        }
    nk_copy_to(nk, &part, to, v);
    nk_drop(nk, v);
    return nk_spread(nk, t, &part, to);
}

const struct nk_value *nk_row(struct nk *nk, const struct nk_tile *t, const struct kn_insn *n, const struct nk_line *l)
{
    enum { ALL = 16 << 10, EACH = 4 << 10 }; /* bytes of a partition */
    const struct kn_operand *o = &nk->k->operands[n->operand];
    struct nk_row row = {.operand = n->operand, .tile = *t, .line = *l};
    int64_t bytes = neuron_type_bytes(nk_type(nk, o->dtype));
    if (!nk->keeps || nk->makes_row || l->coef[0] || o->use != KN_IN || n->nguards || !tcc_is_float(o->dtype))
        return NULL;
    for (int i = 0; i < nk->rows.n; i++)
        if (is_row(&nk->rows.at[i], t, n, l))
            return nk->rows.at[i].value;
    for (int a = 1; a < t->n; a++)
        bytes *= l->coef[a] ? t->axis[a].extent : 1;
    if (2 * t->axis[0].extent < NEURON_PARTITIONS || bytes > EACH || nk->row_bytes + bytes > ALL)
        return NULL;
    row.tile.quarter = 0;
    row.tile.axis[0].extent = NEURON_PARTITIONS; /* a last tile has fewer */
    nk->makes_row = true;
    row.value = in_banks(nk, &row.tile, nk_load(nk, &row.tile, n, NULL));
    nk->makes_row = false;
    row.value->buffer->stays = true;
    nk->row_bytes += bytes;
    VEC_PUSH(nk->ctx, nk->rows, row);
    return row.value;
}

/* -- Values of earlier stages -------------------------------------------------------------------------------------- */

static int first_of(const struct nk_again *g, int insn)
{
    return g->of[insn] >= 0 ? g->of[insn] : insn;
}

static bool same_argument(const struct kn_kernel *k, const struct nk_again *g, int a, int b)
{
    const struct kn_insn *x = &k->insns[a], *y = &k->insns[b];
    if (first_of(g, a) == first_of(g, b))
        return true;
    return x->code == KN_CONST && y->code == KN_CONST && x->dtype == y->dtype && x->ivalue == y->ivalue &&
           memcmp(&x->fvalue, &y->fvalue, sizeof x->fvalue) == 0;
}

/* Is load b of what is stored as a's value? */
static bool is_stored(const struct kn_kernel *k, const struct nk_again *g, int a, int b)
{
    const struct kn_insn *y = &k->insns[b];
    int store = y->nguards ? -1 : kn_store_to(k, y->operand);
    bool same =
        store >= 0 && !k->insns[store].nguards && store < b && first_of(g, k->insns[store].arg[0]) == first_of(g, a);
    for (int i = 0; same && i < y->nindex; i++)
        same = y->index[i] == k->insns[store].index[i];
    return same;
}

/* Has instruction b, of a later stage over the same points, the value of a? */
static bool same_value(const struct kn_kernel *k, const struct nk_again *g, int a, int b)
{
    const struct kn_insn *x = &k->insns[a], *y = &k->insns[b];
    if (y->code == KN_LOAD && k->operands[y->operand].use == KN_LOCAL)
        return x->code != KN_STORE && x->dtype == y->dtype && tcc_is_float((enum tcc_dtype)y->dtype) &&
               is_stored(k, g, a, b);
    if (x->code != y->code || x->dtype != y->dtype || x->nargs != y->nargs || !tcc_is_float((enum tcc_dtype)x->dtype))
        return false;
    if (x->code == KN_LOAD)
        return !x->nargs && !x->nguards && k->operands[x->operand].use == KN_IN && nk_loads_same(k, a, b);
    if (x->code != KN_SCALAR || x->op != y->op || x->ivalue != y->ivalue)
        return false;
    for (int i = 0; i < x->nargs; i++)
        if (!same_argument(k, g, x->arg[i], y->arg[i]))
            return false;
    return true;
}

static void find_in_stage(const struct kn_kernel *k, struct nk_again *g, int number)
{
    const struct kn_stage *late = &k->stages[number];
    for (int b = late->first; b < late->last; b++)
        for (int s = 0; s < number && g->of[b] < 0; s++) {
            const struct kn_stage *early = &k->stages[s];
            if (!late->inner || early->inner != late->inner || early->repeat || late->repeat)
                continue;
            for (int a = early->first; a < early->last && g->of[b] < 0; a++)
                if (same_value(k, g, a, b))
                    g->of[b] = first_of(g, a);
        }
}

/* Is every load of a row buffer taken from what was stored there? */
static bool is_forwarded(const struct kn_kernel *k, const struct nk_again *g, int operand)
{
    bool all = k->operands[operand].use == KN_LOCAL, any = false;
    for (int i = 0; i < k->ninsns && all; i++)
        if (k->insns[i].operand == operand && (k->insns[i].code == KN_LOAD || k->insns[i].code == KN_SORT)) {
            all = g->of[i] >= 0;
            any = true;
        }
    return all && any;
}

/* What of a stage is worked out still, and what it takes of earlier ones. */
static void find_needed(const struct kn_kernel *k, struct nk_again *g, int number)
{
    const struct kn_stage *s = &k->stages[number];
    bool any = false;
    for (int i = s->first; i < s->last; i++)
        any |= g->of[i] >= 0 || (k->insns[i].code == KN_STORE && g->forwarded[k->insns[i].operand]);
    for (int i = s->last - 1; any && i >= s->first; i--) {
        bool pure = k->insns[i].code == KN_LOAD || k->insns[i].code == KN_SCALAR || k->insns[i].code == KN_CONST;
        bool needed = g->hold[i] || (!pure && !(k->insns[i].code == KN_STORE && g->forwarded[k->insns[i].operand]));
        for (int j = i + 1; j < k->ninsns && !needed; j++)
            for (int a = 0; a < k->insns[j].nargs; a++) /* an instruction that is taken from elsewhere needs none */
                needed |= k->insns[j].arg[a] == i && (j >= s->last || (!g->skip[j] && g->of[j] < 0));
        g->skip[i] = !needed;
        if (needed && g->of[i] >= 0)
            g->hold[g->of[i]] = true;
    }
}

struct nk_again nk_find_again(struct nk *nk)
{
    enum { MOST = 512 };
    const struct kn_kernel *k = nk->k;
    struct nk_again g = {IR_NEWN(nk->ctx, k->ninsns + 1, int), IR_NEWN(nk->ctx, k->ninsns + 1, bool),
                         IR_NEWN(nk->ctx, k->ninsns + 1, bool), IR_NEWN(nk->ctx, k->noperands + 1, bool)};
    bool fine = nk->keeps && k->ninsns <= MOST;
    for (int i = 0; i < k->ninsns; i++) {
        g.of[i] = -1;
        fine &= k->insns[i].code != KN_INDEX;
    }
    for (int s = 0; s < k->nstages && fine; s++)
        find_in_stage(k, &g, s);
    for (int o = 0; o < k->noperands && fine; o++)
        g.forwarded[o] = is_forwarded(k, &g, o);
    for (int s = k->nstages - 1; s >= 0 && fine; s--)
        find_needed(k, &g, s);
    return g;
}
