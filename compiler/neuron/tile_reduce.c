/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tile_reduce.c - what the lanes' stages keep for later ones, and reductions and scans over a stage's inner dims: by
 * Vector along the last axes of a tile, chunks combined; places of the largest; scans a row after the other.
 */
#include "compiler/neuron/tile_int.h"

static const struct nk_value *words_at(struct nk *nk, const struct nk_tile *t, const struct kept *k,
                                       const struct nk_value *words)
{
    struct nk_value *v = IR_NEW(nk->ctx, struct nk_value);
    *v = *words;
    if (v->high)
        v->high = words_at(nk, t, k, v->high);
    if (v->is_number)
        return v;
    for (int a = t->nouter; a < t->n; a++)
        v->stride[a] = (int32_t)(k->stride[t->axis[a].dim] * t->axis[a].mult);
    for (int d = 0; d < nk->k->ndims; d++)
        v->offset += t->base[d] * k->stride[d] * neuron_type_bytes((enum neuron_type)v->type);
    return v;
}

const struct nk_value *nk_kept_at(struct nk *nk, const struct nk_tile *t, const struct kept *k)
{
    return words_at(nk, t, k, &k->v);
}

const struct nk_value *nk_stage_arg(struct stage *s, int i)
{
    if (!s->value[i])
        s->value[i] = nk_kept_at(s->p->nk, &s->t, &s->kept[i]);
    return s->value[i];
}

static enum neuron_alu reducer(const struct kn_insn *n)
{
    static const enum neuron_alu of[] = {NEURON_ALU_ADD, NEURON_ALU_MUL, NEURON_ALU_MAX, NEURON_ALU_MIN};
    if (n->dtype == TCC_BOOL)
        return n->reducer == KN_SUM || n->reducer == KN_MAX ? NEURON_ALU_MAX : NEURON_ALU_MIN;
    return of[n->reducer];
}

/* The tile without the inner dims. */
static struct nk_tile reduced(const struct stage *s)
{
    struct nk_tile t = s->t;
    t.n -= s->ninner;
    return t;
}

static void reduce_into(struct stage *s, const struct nk_value *to, const struct nk_value *v, enum neuron_alu op)
{
    struct nk *nk = s->p->nk;
    struct neuron_instr i = {.op = NEURON_OP_TENSOR_REDUCE, .noperands = 2};
    struct nk_tile t = reduced(s);
    int axes;
    if (!s->ninner) { /* one element each */
        nk_copy_to(nk, &t, to, v);
        return;
    }
    v = nk_solid(nk, &s->t, v);
    i.operand[0] = nk_operand(nk, &t, to, 0, NULL);
    i.operand[1] = nk_operand(nk, &s->t, v, s->ninner, &axes);
    neuron_set_attr(&i, NEURON_ATTR_OP0, (union neuron_value){.i = op});
    neuron_set_attr(&i, NEURON_ATTR_AXES, (union neuron_value){.i = axes});
    nk_emit(nk, tcc_is_int((enum tcc_dtype)to->dtype) ? NEURON_GPSIMD : NEURON_VECTOR, &i, 2,
            (struct nk_use[]){{to->buffer, true, 0}, {v->buffer, false, 0}});
}

/* Over outer axes and all points of the repeated dims. */
void nk_make_kept(struct stage *s, int insn, enum tcc_dtype d, bool wide)
{
    struct nk *nk = s->p->nk;
    struct kept *k = &s->kept[insn];
    struct nk_tile t = s->p->tile;
    int64_t n = 1;
    if (k->present)
        return;
    for (int dim = nk->k->ndims - 1; dim >= 0; dim--) {
        k->stride[dim] = 0;
        if (!(s->repeat >> dim & 1))
            continue;
        k->stride[dim] = n;
        n *= nk->extent[dim];
    }
    if (n > 1) /* as the last axis */
        t.axis[t.n++] = (struct nk_axis){0, 0, n};
    k->v = *nk_new(nk, &t, d);
    k->v.stride[t.n - (n > 1)] = 0;
    if (wide) {
        struct nk_value *high = nk_new(nk, &t, TCC_I32);
        high->stride[t.n - (n > 1)] = 0;
        k->v.high = high;
    }
    k->present = true;
}

/* A value without inner points, the same for all of them. */
static const struct nk_value *repeated(struct stage *s, const struct nk_value *v)
{
    struct nk_value *to = IR_NEW(s->p->nk->ctx, struct nk_value);
    *to = *v;
    for (int a = s->t.n - s->ninner; a < s->t.n; a++)
        to->stride[a] = 0;
    if (v->high)
        to->high = repeated(s, v->high);
    return to;
}

/* One row a partition, of more than a few elements: reading its sum takes 64 cycles. */
static bool has_long_rows(const struct stage *s)
{
    enum { FEW = 128 };
    struct nk_tile t = reduced(s);
    return nk_free_elements(&t) == 1 && nk_free_elements(&s->t) >= FEW;
}

/* f(x), whose sum along a row, instruction `sum`, Scalar leaves. */
static const struct nk_value *sum_by_scalar(struct stage *s, int sum, enum neuron_func f, const struct nk_value *x)
{
    struct nk *nk = s->p->nk;
    struct nk_tile t = reduced(s);
    struct neuron_instr read = {.op = NEURON_OP_READ_ACC, .noperands = 1};
    struct nk_value *to = nk_new(nk, &s->t, TCC_F32);
    nk_make_kept(s, sum, TCC_F32, false);
    const struct nk_value *kept = nk_kept_at(nk, &t, &s->kept[sum]);
    nk_activate(nk, &s->t, f, to, x->half ? x->half->x : x, 1, x->half ? nk_bias(nk, &s->t, x) : NULL,
                NEURON_ACC_RESET_REDUCE);
    const struct nk_value *part = s->first ? kept : nk_new(nk, &t, TCC_F32);
    read.operand[0] = nk_operand(nk, &t, part, 0, NULL);
    nk_emit(nk, NEURON_SCALAR, &read, 1, (struct nk_use[]){{part->buffer, true, 0}});
    if (!s->first)
        nk_copy_to(nk, &t, kept, nk_tt(nk, &t, TCC_F32, NEURON_ALU_ADD, kept, part));
    return to;
}

bool nk_function_and_sum(struct stage *s, int insn, const struct nk_value *x)
{
    struct nk *nk = s->p->nk;
    const struct kn_insn *insns = nk->k->insns, *n = &insns[insn];
    const struct kn_stage *g = &nk->k->stages[s->number];
    enum neuron_func f = NEURON_FUNC_SQUARE;
    int sum = -1;
    for (int i = g->first; i < g->last; i++)
        if (insns[i].code == KN_REDUCE && insns[i].arg[0] == insn && insns[i].reducer == KN_SUM &&
            insns[i].dtype == TCC_F32)
            sum = i;
    if (sum < 0 || !s->summed || s->repeat || !has_long_rows(s) || n->dtype != TCC_F32 || x->is_number || x->high ||
        x->dtype != TCC_F32)
        return false;
    if (!(n->nargs == 2 && n->op == IR_mul && n->arg[0] == n->arg[1]) &&
        !(n->nargs == 1 && nk_is_function((enum ir_op)n->op, &f)))
        return false;
    s->value[insn] = sum_by_scalar(s, sum, f, x);
    return s->summed[sum] = true;
}

void nk_reduce(struct stage *s, int insn)
{
    if (s->summed && s->summed[insn])
        return;
    struct nk *nk = s->p->nk;
    const struct kn_insn *n = &nk->k->insns[insn];
    enum tcc_dtype d = (enum tcc_dtype)n->dtype;
    const struct nk_value *v = nk_stage_arg(s, n->arg[0]);
    struct nk_tile t = reduced(s);
    enum neuron_alu op = reducer(n);
    if (nk_is_wide(d)) {
        v = nk_combined(nk, &s->t, s->ninner, nk_word_of(n), d, v);
        nk_make_kept(s, insn, d, true);
        const struct nk_value *sum = nk_kept_at(nk, &t, &s->kept[insn]);
        nk_copy_to(nk, &t, sum, s->first ? v : nk_combine(nk, &t, nk_word_of(n), d, sum, v));
        return;
    }
    if (nk_type(nk, (enum tcc_dtype)v->dtype) != nk_type(nk, d) || v->is_number)
        v = nk_copy(nk, &s->t, d, nk_solid(nk, &s->t, v));
    if (n->reducer == KN_SUM && d == TCC_F32 && !s->repeat && has_long_rows(s) &&
        nk_lighter(nk, &s->t) == NEURON_SCALAR) {
        nk_release(nk, sum_by_scalar(s, insn, NEURON_FUNC_COPY, nk_solid(nk, &s->t, v))->buffer);
        return;
    }
    nk_make_kept(s, insn, d, false);
    const struct nk_value *to = nk_kept_at(nk, &t, &s->kept[insn]);
    if (s->first) {
        reduce_into(s, to, v, op);
        return;
    }
    struct nk_value *part = nk_new(nk, &t, d);
    reduce_into(s, part, v, op);
    nk_copy_to(nk, &t, to, nk_tt(nk, &t, d, op, to, part));
}

/* The place of the largest or smallest: of those that equal it, or are NaN where it is, the first or the last. */
void nk_argreduce(struct stage *s, int insn)
{
    struct nk *nk = s->p->nk;
    const struct kn_insn *n = &nk->k->insns[insn];
    const struct nk_value *v = nk_solid(nk, &s->t, nk_stage_arg(s, n->arg[0])),
                          *place = nk_solid(nk, &s->t, nk_stage_arg(s, n->arg[1]));
    enum tcc_dtype d = (enum tcc_dtype)v->dtype;
    struct nk_tile t = reduced(s);
    if (place->type != NEURON_I32 || place->high)
        nk_refuse(nk, "an argmax of places of two words");
    const struct nk_value *best = nk_is_wide(d) ? nk_combined(nk, &s->t, s->ninner, nk_word_of(n), d, v)
                                                : nk_new(nk, &t, d),
                          *is;
    if (!nk_is_wide(d))
        reduce_into(s, best, v, n->reducer == KN_MAX ? NEURON_ALU_MAX : NEURON_ALU_MIN);
    best = repeated(s, best);
    if (nk_is_wide(d))
        is = nk_wide(nk, &s->t, IR_eq, d, TCC_BOOL, (const struct nk_value *const[]){v, best}, 2);
    else
        is = nk_tt(nk, &s->t, TCC_BOOL, NEURON_ALU_EQ, v, best);
    if (tcc_is_float(d))
        is = nk_tt(nk, &s->t, TCC_BOOL, NEURON_ALU_LOR, is, nk_tt(nk, &s->t, TCC_BOOL, NEURON_ALU_NE, v, v));
    double other = n->ivalue ? -1 : 1 << 24;
    place = nk_select(nk, &s->t, TCC_I32, is, place, nk_number(nk, TCC_I32, other));
    nk_make_kept(s, insn, TCC_I64, false);
    const struct nk_value *to = nk_kept_at(nk, &t, &s->kept[insn]);
    reduce_into(s, to, place, n->ivalue ? NEURON_ALU_MAX : NEURON_ALU_MIN);
}

/* A row after the other: the engine's scan goes along all free elements. */
const struct nk_value *nk_scan(struct stage *s, int insn)
{
    struct nk *nk = s->p->nk;
    const struct kn_insn *n = &nk->k->insns[insn];
    enum tcc_dtype d = (enum tcc_dtype)n->dtype;
    double start = nk_identity_of(n);
    if (!s->whole)
        nk_full(nk, "a row of a scan that does not fit");
    if (!tcc_is_float(d))
        return nk_scan_integers(nk, &s->t, s->ninner, n, nk_stage_arg(s, n->arg[0]));
    const struct nk_value *v = nk_copy(nk, &s->t, TCC_F32, nk_solid(nk, &s->t, nk_stage_arg(s, n->arg[0])));
    struct nk_value *to = nk_new(nk, &s->t, TCC_F32);
    struct nk_tile t = reduced(s), row = {.n = 2, .nouter = 1, .axis = {s->t.axis[0], {0, 1, 1}}};
    int64_t rows = nk_free_elements(&t), length = nk_free_elements(&s->t) / rows;
    for (int64_t r = 0; r < rows; r++) {
        struct nk_value x = *v, y = *to;
        int64_t shift = n->ivalue && length > 0;
        x.stride[1] = y.stride[1] = 1;
        x.offset += 4 * r * length;
        y.offset += 4 * r * length;
        row.axis[1].extent = 1;
        if (shift)
            nk_fill(nk, &row, &y, start);
        row.axis[1].extent = length - shift;
        y.offset += 4 * shift;
        if (!row.axis[1].extent)
            continue;
        struct neuron_instr i = {.op = NEURON_OP_TENSOR_TENSOR_SCAN, .noperands = 4};
        i.operand[0] = nk_operand(nk, &row, &y, 0, NULL);
        i.operand[1] = i.operand[2] = nk_operand(nk, &row, &x, 0, NULL);
        i.operand[3] = nk_literal(start);
        neuron_set_attr(&i, NEURON_ATTR_OP0, (union neuron_value){.i = reducer(n)});
        neuron_set_attr(&i, NEURON_ATTR_OP1, (union neuron_value){.i = NEURON_ALU_BYPASS});
        nk_emit(nk, NEURON_VECTOR, &i, 2, (struct nk_use[]){{to->buffer, true, 0}, {v->buffer, false, 0}});
    }
    return d == TCC_F32 ? to : nk_copy(nk, &s->t, d, to);
}
