/* SPDX-License-Identifier: Apache-2.0 */
/*
 * max8.c - the largest of a row, and the first few of a row in order, by the instructions that find eight at once:
 * max8, their places (find_index8), and those replaced by something else (match_replace8), eight after eight.
 *
 * Of equals the first place comes first, and a NaN is the largest, in these instructions as in argmax and topk. Once
 * eight are taken, they count as -inf for the largest of the others, and a place is looked for where nothing that is
 * taken can be found: of a NaN where those taken are -inf, of all else where they are NaN.
 */
#include "compiler/neuron/tile_int.h"

#include <math.h>

enum { EIGHT = 8, MOST_ROW = 16384, LEAST_ROW = 16 /* of an argmax: few are as soon compared */ };

/* Elements side by side in each partition. */
struct row {
    struct neuron_operand o;
    struct nk_buffer *buffer;
};

static struct row row_of(struct nk *nk, const struct nk_value *v, int64_t parts, int64_t at, int64_t stride, int64_t n)
{
    const struct nk_tile lanes = nk_lanes(parts, n);
    struct nk_value x = *v;

    x.offset += at * neuron_type_bytes((enum neuron_type)v->type);
    x.stride[0] = 0;
    x.stride[1] = (int32_t)stride;
    return (struct row){nk_operand(nk, &lanes, &x, 0, NULL), v->buffer};
}

/* op out, x[, values][, by] */
static void eight(struct nk *nk, enum neuron_op op, const struct row *out, const struct row *x,
                  const struct row *values, double by)
{
    struct neuron_instr i = {.op = op, .noperands = 2, .operand = {out->o, x->o}};
    struct nk_use uses[3] = {{out->buffer, true, 0}, {x->buffer, false, 0}};
    int n = 2;

    if (values) {
        i.operand[i.noperands++] = values->o;
        uses[n++] = (struct nk_use){values->buffer, false, 0};
    }
    if (op == NEURON_OP_MATCH_REPLACE8)
        i.operand[i.noperands++] = nk_literal(by);
    nk_emit(nk, NEURON_VECTOR, &i, n, uses);
}

static bool is_short_float(enum tcc_dtype d)
{
    return d == TCC_F32 || d == TCC_F16 || d == TCC_BF16;
}

/* -- The largest --------------------------------------------------------------------------------------------------- */

/* The one inner dim of the stage whose points the places are; -1: they are something else. */
static int dim_of_places(const struct nk *nk, const struct kn_stage *g, const struct kn_insn *places)
{
    for (int d = 0; d < nk->k->ndims; d++)
        if (g->inner == 1u << d && places->code == KN_EXPR && places->expr == nk->k->dims[d].var)
            return d;
    return -1;
}

bool nk_is_argmax8(const struct nk *nk, const struct kn_stage *g, int insn)
{
    const struct kn_insn *n = &nk->k->insns[insn];
    int d;

    if (n->code != KN_ARGREDUCE || n->reducer != KN_MAX || n->ivalue ||
        !is_short_float((enum tcc_dtype)nk->k->insns[n->arg[0]].dtype))
        return false;
    d = dim_of_places(nk, g, &nk->k->insns[n->arg[1]]);
    return d >= 0 && nk->extent[d] >= LEAST_ROW && nk->extent[d] <= MOST_ROW;
}

void nk_argmax8(struct stage *s, int insn)
{
    struct nk *nk = s->p->nk;
    const struct nk_value *v = nk_computed(nk, &s->t, nk_solid(nk, &s->t, nk_stage_arg(s, nk->k->insns[insn].arg[0])));
    struct nk_tile t = s->t;
    int64_t at[NK_AXES] = {0}, n = s->t.axis[s->t.n - 1].extent, parts = t.axis[0].extent, number = 0;

    t.n -= s->ninner;
    const struct nk_tile lanes = nk_lanes(parts, EIGHT * nk_free_elements(&t));
    struct nk_value *places = nk_new(nk, &lanes, TCC_I32), *top = nk_new(nk, &lanes, TCC_F32);
    for (bool more = true; more; number++) {
        int64_t from = 0;
        for (int a = 1; a < t.n; a++)
            from += at[a] * v->stride[a];
        struct row x = row_of(nk, v, parts, from, v->stride[s->t.n - 1], n),
                   largest = row_of(nk, top, parts, EIGHT * number, 1, EIGHT),
                   found = row_of(nk, places, parts, EIGHT * number, 1, EIGHT);
        eight(nk, NEURON_OP_MAX8, &largest, &x, NULL, 0);
        eight(nk, NEURON_OP_FIND_INDEX8, &found, &x, &largest, 0);
        more = false;
        for (int a = t.n - 1; a > 0 && !more; a--) {
            more = ++at[a] < t.axis[a].extent;
            at[a] = more ? at[a] : 0;
        }
    }
    struct nk_value first = *places;
    int64_t stride = EIGHT;
    for (int a = t.n - 1; a > 0; a--) {
        first.stride[a] = (int32_t)stride;
        stride *= t.axis[a].extent;
    }
    nk_make_kept(s, insn, TCC_I64, false);
    nk_copy_to(nk, &t, nk_kept_at(nk, &t, &s->kept[insn]), &first);
    nk_drop(nk, top);
    nk_drop(nk, places);
}

/* -- The first few, in order --------------------------------------------------------------------------------------- */

/* How many of the row buffer are read behind the sort: where each load's index is a dim. */
static int64_t wanted_of(struct nk *nk, int number, int operand)
{
    int64_t most = 0;

    for (int i = nk->k->stages[number].last; i < nk->k->ninsns; i++) {
        const struct kn_insn *n = &nk->k->insns[i];
        int d = 0;

        if (n->code != KN_LOAD || n->operand != operand)
            continue;
        while (d < nk->k->ndims && n->index[0] != nk->k->dims[d].var)
            d++;
        if (d == nk->k->ndims)
            nk_refuse(nk, "a sorted row that is read otherwise than in order");
        most = nk->extent[d] > most ? nk->extent[d] : most;
    }
    return most;
}

/* Are the places those of the elements, rather than some that are given? */
static bool are_own_places(const struct nk *nk, int operand)
{
    for (int i = 0; i < nk->k->ninsns; i++) {
        const struct kn_insn *n = &nk->k->insns[i];

        if (n->code == KN_STORE && n->operand == operand && nk->k->operands[operand].use == KN_LOCAL)
            return nk->k->insns[n->arg[0]].code == KN_EXPR && nk->k->insns[n->arg[0]].expr == n->index[0];
    }
    return false;
}

/* So many elements of a row; of fewer than eight, what comes behind them is what nothing sorts behind. */
static struct nk_value *copy_of(struct nk *nk, int64_t parts, int64_t n, const struct nk_value *v)
{
    const struct nk_tile line = nk_lanes(parts, n), room = nk_lanes(parts, EIGHT);
    struct nk_value *to = nk_new(nk, n < EIGHT ? &room : &line, TCC_F32);

    if (n < EIGHT)
        nk_fill(nk, &room, to, -INFINITY);
    nk_copy_to(nk, &line, to, v);
    return to;
}

void nk_sort(struct stage *s, int insn)
{
    struct nk *nk = s->p->nk;
    const struct kn_insn *n = &nk->k->insns[insn];
    int keys = n->operand, places = (int)n->ivalue;
    enum tcc_dtype d = nk->k->operands[keys].dtype;
    int64_t length = nk->local_elements[keys], parts = s->t.axis[0].extent, rows = nk_free_elements(&s->t),
            wanted = wanted_of(nk, s->number, keys), more = wanted_of(nk, s->number, places);

    wanted = wanted > more ? wanted : more;
    int64_t all = (wanted + EIGHT - 1) / EIGHT * EIGHT;
    if (n->reducer != KN_MAX || !is_short_float(d) || length > MOST_ROW || all > NK_SORTED ||
        !are_own_places(nk, places))
        nk_refuse(nk, "a sort of more than the first %d floats of a row", NK_SORTED);
    const struct nk_tile few = nk_lanes(parts, all), first = nk_lanes(parts, wanted);
    for (int64_t r = 0; r < rows; r++) {
        int mark = nk_mark(nk);
        struct nk_value row = {.dtype = (uint8_t)d, .type = (uint8_t)nk_type(nk, d), .buffer = nk->local[keys]},
                        at = {.dtype = TCC_I32, .type = NEURON_I32, .buffer = nk->local[places]};
        row.offset = r * length * neuron_type_bytes((enum neuron_type)row.type);
        at.offset = r * length * neuron_type_bytes(NEURON_I32);
        row.stride[1] = at.stride[1] = 1;
        struct nk_value *top = nk_new(nk, &few, TCC_F32), *found = nk_new(nk, &few, TCC_I32), *left = NULL,
                        *others = NULL, *of_nan = NULL;
        const int64_t room = length < EIGHT ? EIGHT : length;
        if (all > EIGHT || length < EIGHT)
            left = copy_of(nk, parts, length, &row);
        if (all > EIGHT) {
            others = copy_of(nk, parts, length, &row);
            of_nan = nk_new(nk, &few, TCC_I32);
        }
        for (int64_t e = 0; e < all; e += EIGHT) {
            struct row x = row_of(nk, left ? left : &row, parts, 0, 1, room),
                       y = others ? row_of(nk, others, parts, 0, 1, room) : x,
                       best = row_of(nk, top, parts, e, 1, EIGHT), where = row_of(nk, found, parts, e, 1, EIGHT);
            eight(nk, NEURON_OP_MAX8, &best, &x, NULL, 0);
            eight(nk, NEURON_OP_FIND_INDEX8, &where, &y, &best, 0);
            if (!others)
                continue;
            struct row nan = row_of(nk, of_nan, parts, e, 1, EIGHT);
            eight(nk, NEURON_OP_FIND_INDEX8, &nan, &x, &best, 0);
            if (e + EIGHT == all)
                continue;
            eight(nk, NEURON_OP_MATCH_REPLACE8, &x, &x, &best, -INFINITY);
            eight(nk, NEURON_OP_MATCH_REPLACE8, &y, &y, &best, NAN);
        }
        const struct nk_value *order = found;
        if (others) {
            const struct nk_value *is_nan = nk_tt(nk, &few, TCC_BOOL, NEURON_ALU_NE, top, top);
            order = nk_select(nk, &few, TCC_I32, is_nan, of_nan, found);
        }
        nk_copy_to(nk, &first, &row, top);
        nk_copy_to(nk, &first, &at, order);
        nk_release_to(nk, mark, NULL, 0);
    }
}
