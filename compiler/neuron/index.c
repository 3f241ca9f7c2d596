/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index.c - accesses by indices that a kernel has read: gathers and scatters are DMA by an index in each partition, the
 * offset of a row, or of an element where the index varies inside one. An index outside its axis becomes one outside
 * the tensor, and ends the run.
 */
#include "compiler/neuron/neuron_int.h"

/* The tile with one point of the axes in each partition that an index does not vary with. */
static struct nk_tile narrowed(const struct nk_tile *t, uint32_t dims)
{
    struct nk_tile part = *t;
    for (int a = 1; a < t->n; a++)
        if (!(dims >> t->axis[a].dim & 1))
            part.axis[a].extent = 1;
    return part;
}

/* What the indices that addresses of an access depend on add to them, in elements; where one is wrong; the dims that
 * they vary with. */
struct offset {
    const struct nk_value *value, *wrong;
    uint32_t dims;
    bool falls; /* one more of an index is fewer elements */
};

/* How far one more of an index moves the access. */
static int64_t step_of(struct nk *nk, const struct kn_insn *n, ir_expr symbol)
{
    int64_t row = 1, step = 0;
    for (int i = n->nindex - 1; i >= 0; i--) {
        ir_expr coefficient, rest;
        int64_t c;
        if (ir_uses_sym(n->index[i], symbol)) {
            if (!ir_linear_in(nk->ctx, n->index[i], symbol, &coefficient, &rest) || !ir_is_const(coefficient, &c))
                nk_refuse(nk, "addresses that do not depend on an index linearly");
            step += c * row;
        }
        row *= ir_const_or(nk->k->operands[n->operand].dims[i], 0);
    }
    if (row > INT32_MAX / 4)
        nk_refuse(nk, "a gather from more elements than 32 bits address");
    return step;
}

bool nk_has_index(const struct nk *nk, const struct kn_insn *n)
{
    for (int x = 0; x < nk->indices.n; x++)
        for (int i = 0; i < n->nindex; i++)
            if (ir_uses_sym(n->index[i], nk->indices.at[x].symbol))
                return true;
    return false;
}

/* False: there is none. */
static bool offset_of(struct nk *nk, const struct nk_tile *t, const struct kn_insn *n, struct offset *o)
{
    *o = (struct offset){0};
    for (int x = 0; x < nk->indices.n; x++) {
        const struct nk_index *index = &nk->indices.at[x];
        int64_t step = step_of(nk, n, index->symbol);
        if (!step)
            continue;
        struct nk_tile own = narrowed(t, index->dims), both = narrowed(t, o->dims | index->dims);
        const struct nk_value *v = nk_ts(nk, &own, TCC_I32, NEURON_ALU_MUL, index->value, (double)step);
        v = nk_spread(nk, t, &own, v);
        o->value = o->value ? nk_spread(nk, t, &both, nk_tt(nk, &both, TCC_I32, NEURON_ALU_ADD, o->value, v)) : v;
        o->wrong = o->wrong ? nk_spread(nk, t, &both, nk_tt(nk, &both, TCC_I32, NEURON_ALU_LOR, o->wrong, index->wrong))
                            : index->wrong;
        o->dims |= index->dims;
        o->falls |= step < 0;
    }
    return o->value != NULL;
}

/* One transfer: the box of v that a row of the tensor makes in each partition, the offsets of the rows in the first of
 * its free elements. */
static void transfer(struct nk *nk, const struct nk_tile *t, const struct nk_value *v, int operand,
                     const struct nk_line *line, const struct nk_box *b, const struct nk_value *offset, bool out,
                     int group)
{
    int64_t bytes = neuron_type_bytes((enum neuron_type)v->type), reach = 0;
    int64_t total = neuron_tensor_bytes(&nk->p->tensors[nk->hbm[operand]->tensor]) / bytes;
    struct neuron_instr i = {.op = out ? NEURON_OP_DMA_SCATTER : NEURON_OP_DMA_GATHER, .noperands = 3};
    struct neuron_operand *rows = &i.operand[!out], *near = &i.operand[out];
    struct nk_pattern p = {.n = 1, .stride = {1}};
    struct nk_box first = *b;
    bool fits[2];
    for (int a = 1; a < t->n; a++) {
        if (line->coef[a] < 0)
            nk_refuse(nk, "an access by an index in descending order");
        reach += line->coef[a] * (b->n[a] - 1);
        first.n[a] = 1;
        if (b->n[a] == 1)
            continue;
        if (p.n > 1 && p.stride[p.n - 1] == line->coef[a] * b->n[a]) {
            p.size[p.n - 1] *= b->n[a];
            p.stride[p.n - 1] = line->coef[a];
        } else {
            p.size[p.n] = b->n[a];
            p.stride[p.n++] = line->coef[a];
        }
    }
    if (p.n == 1)
        p.size[1] = p.stride[1] = 1, p.n = 2;
    p.size[0] = total - reach - line->base;
    *near = nk_box_operand(nk, t, v, b, &fits[0]);
    *rows = (struct neuron_operand){.space = NEURON_HBM,
                                    .type = v->type,
                                    .reg = NEURON_NO_REGISTER,
                                    .tensor = nk->hbm[operand]->tensor,
                                    .offset = line->base * bytes};
    i.operand[2] = nk_box_operand(nk, t, offset, &first, &fits[1]);
    if (line->base < 0 || p.size[0] < 1 || !nk_pattern_put(&p, rows, NEURON_DIMS) || !fits[0] || !fits[1])
        nk_refuse(nk, "an access by an index that has no pattern");
    neuron_set_attr(&i, NEURON_ATTR_QUEUE, (union neuron_value){.i = NK_QUEUE_OUT});
    nk_emit(
        nk, NEURON_GPSIMD, &i, 3,
        (struct nk_use[]){{v->buffer, !out, out ? 0 : group}, {nk->hbm[operand], out, 0}, {offset->buffer, false, 0}});
}

/* A word of a piece's elements. Axes along which the index varies are taken point by point. */
static void move_piece(struct nk *nk, const struct nk_tile *t, const struct nk_value *v, int operand,
                       const struct nk_piece *piece, const struct offset *index, int words, int word, bool out)
{
    int64_t at[NK_AXES] = {0};
    struct nk_line line = piece->line;
    const struct nk_tile own = narrowed(t, index->dims), *part = &own;
    line.base = line.base * words + word;
    for (int a = 0; a < t->n; a++)
        line.coef[a] *= words;
    const struct nk_value *offset = nk_ts(nk, part, TCC_I32, NEURON_ALU_MUL, index->value, words);
    if (line.coef[0]) {
        struct nk_value *place = nk_new(nk, part, TCC_I32);
        struct neuron_instr i = {
            .op = NEURON_OP_IOTA, .noperands = 1, .operand = {nk_operand(nk, part, place, 0, NULL)}};
        neuron_set_attr(&i, NEURON_ATTR_CHANNEL, (union neuron_value){.i = (int32_t)line.coef[0]});
        nk_emit(nk, NEURON_GPSIMD, &i, 1, (struct nk_use[]){{place->buffer, true, 0}});
        offset = nk_tt(nk, part, TCC_I32, NEURON_ALU_ADD, offset, place);
    }
    if (index->falls || line.base < 0) { /* offsets are from the tensor's first element */
        offset = nk_ts(nk, part, TCC_I32, NEURON_ALU_ADD, offset, (double)line.base);
        line.base = 0;
    }
    /* Beyond everything, where it is wrong: the run ends there. */
    offset = nk_select(nk, part, TCC_I32, index->wrong, nk_number(nk, TCC_I32, INT32_MAX), offset);
    offset = nk_spread(nk, t, part, offset);
    int group = ++nk->groups;
    for (bool more = true; more;) {
        struct nk_box b = piece->box;
        struct nk_line l = line;
        for (int a = 1; a < t->n; a++) {
            if (!(index->dims >> t->axis[a].dim & 1))
                continue;
            b.lo[a] += at[a];
            b.n[a] = 1;
            l.base += l.coef[a] * at[a];
        }
        transfer(nk, t, v, operand, &l, &b, offset, out, group);
        more = false;
        for (int a = t->n - 1; a > 0 && !more; a--) {
            if (!(index->dims >> t->axis[a].dim & 1))
                continue;
            more = ++at[a] < piece->box.n[a];
            if (!more)
                at[a] = 0;
        }
    }
}

void nk_indexed(struct nk *nk, const struct nk_tile *t, const struct kn_insn *n, const struct nk_value *v,
                const struct nk_pieces *pieces, bool out)
{
    const struct nk_value *word[2] = {v, NULL};
    int words = nk_is_wide(nk->k->operands[n->operand].dtype) ? 2 : 1;
    struct offset offset;
    if (!offset_of(nk, t, n, &offset))
        nk_refuse(nk, "an index that addresses no element");
    if (words == 2)
        word[1] = out ? nk_solid(nk, t, nk_high(nk, t, v)) : v->high;
    for (int k = 0; k < pieces->n; k++) {
        if (pieces->at[k].box.lo[0] || pieces->at[k].box.n[0] != t->axis[0].extent)
            nk_refuse(nk, "an access by an index whose guards depend on partitions");
        for (int w = 0; w < words; w++)
            move_piece(nk, t, word[w], n->operand, &pieces->at[k], &offset, words, w, out);
    }
}

/* Is anything read or written where the symbol says? Only that ends a run whose index is wrong. */
static bool addresses(const struct nk *nk, ir_expr symbol)
{
    for (int i = 0; i < nk->k->ninsns; i++)
        for (int d = 0; d < nk->k->insns[i].nindex; d++)
            if (ir_uses_sym(nk->k->insns[i].index[d], symbol))
                return true;
    return false;
}

const struct nk_value *nk_bind_index(struct nk *nk, const struct nk_tile *t, const struct kn_insn *n,
                                     const struct nk_value *v)
{
    struct nk_index x = {.symbol = n->expr, .dims = nk_dims_of(nk, (int)(n - nk->k->insns))};
    const struct nk_tile part = narrowed(t, x.dims);
    const struct nk_value *given = nk_solid(nk, &part, v), *below;
    int64_t bound;
    if (!ir_is_const(n->bound, &bound) || bound > INT32_MAX / 2)
        nk_refuse(nk, "an index whose bound only the run knows");
    if (!addresses(nk, n->expr))
        nk_refuse(nk, "an index that addresses no element");
    v = nk_copy(nk, &part, TCC_I32, given);
    below = nk_ts(nk, &part, TCC_I32, NEURON_ALU_LT, v, 0);
    v = nk_tt(nk, &part, TCC_I32, NEURON_ALU_ADD, v, nk_ts(nk, &part, TCC_I32, NEURON_ALU_MUL, below, (double)bound));
    struct nk_value *right = nk_ts(nk, &part, TCC_I32, NEURON_ALU_GE, v, (double)bound);
    x.wrong = nk_tt(nk, &part, TCC_I32, NEURON_ALU_LOR, nk_ts(nk, &part, TCC_I32, NEURON_ALU_LT, v, 0), right);
    if (given->high) { /* words that the low ones don't say */
        const struct nk_value *sign = nk_ts(nk, &part, TCC_I32, NEURON_ALU_MUL, below, -1);
        x.wrong = nk_tt(nk, &part, TCC_I32, NEURON_ALU_LOR, x.wrong,
                        nk_tt(nk, &part, TCC_I32, NEURON_ALU_NE, given->high, sign));
    }
    v = nk_spread(nk, t, &part, v);
    x.wrong = nk_spread(nk, t, &part, x.wrong);
    x.value = v;
    for (int i = 0; i < nk->indices.n; i++)
        if (nk->indices.at[i].symbol == x.symbol) {
            nk->indices.at[i] = x;
            return v;
        }
    VEC_PUSH(nk->ctx, nk->indices, x);
    return v;
}
