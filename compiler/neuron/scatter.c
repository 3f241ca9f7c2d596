/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scatter.c - rows that are added to a tensor's rows by an index, as gradients of an embedding are: 128 updates at a
 * time, one on each partition.
 *
 *     same[i, j] = 1 where updates i and j have the same index: a row of indices on all partitions compared with a
 *     column of them, by Vector sums = same' updates: each update's row becomes the sum of all that go where it goes,
 *     by the tensor engine rows of the tensor are gathered by DMA, sums added, and rows scattered: those that go to the
 *     same place are equal, whichever comes last
 *
 * The next updates are gathered when the last ones are scattered. Sums of 128 updates are float32's, where the CPU
 * rounds after each.
 *
 * 0 times NaN is NaN: what isn't finite would spread to all rows. It is 0 in the product, and a second product says to
 * which sums it belongs: they become NaN.
 */
#include "compiler/neuron/neuron_int.h"

#include <math.h>
#include <string.h>

struct scatter {
    struct nk *nk;
    int index, store, update; /* roles; what is added is float32 */
    int value;                /* it, in 16 bits if it comes from there */
    int dim;                  /* on partitions; inner, as the dims in `others` */
    uint32_t others;
    int64_t chunk[KN_MAX_DIMS]; /* of outer dims: points at once */
    struct nk_digits digits[KN_MAX_DIMS];
};

/* -- Which kernels ------------------------------------------------------------------------------------------------- */

static int without_casts(const struct kn_kernel *k, int i)
{
    while (kn_is_cast(&k->insns[i]) && tcc_is_float((enum tcc_dtype)k->insns[k->insns[i].arg[0]].dtype))
        i = k->insns[i].arg[0];
    return i;
}

/* One index, by which floats are added. */
static bool adds_rows(const struct kn_kernel *k)
{
    const struct kn_scatter *r = &k->roles.scatter;
    if (k->roles.form != KN_SCATTER || r->index[1] >= 0 || r->combine < 0)
        return false;
    const struct kn_insn *sum = &k->insns[r->combine];
    return sum->op == IR_add && sum->dtype == TCC_F32 && k->operands[r->result].use == KN_INOUT &&
           !k->insns[r->load].nguards && !k->insns[r->store].nguards;
}

static bool plan(struct nk *nk, struct scatter *s)
{
    enum { LEAST = 8, MOST_INDEX = 1 << 24 }; /* updates; what float32 has exactly */
    const struct kn_kernel *k = nk->k;
    int64_t bound, left = NEURON_MOVING;
    const struct kn_scatter *r = &k->roles.scatter;
    *s = (struct scatter){.nk = nk, .dim = -1, .index = r->index[0], .store = r->store, .update = r->update};
    if (nk->room < NK_ROOM || !adds_rows(k) || !ir_is_const(k->insns[s->index].bound, &bound) || bound > MOST_INDEX)
        return false;
    for (int d = k->ndims - 1; d >= 0; d--) {
        s->digits[d] = nk_digits_of(nk, d);
        if (k->dims[d].role == KN_OUTER) { /* as equal parts as there have to be */
            int64_t parts = (nk->extent[d] + left - 1) / left;
            s->chunk[d] = (nk->extent[d] + parts - 1) / parts;
            left = parts > 1 ? 1 : left / nk->extent[d];
            left = left < 1 ? 1 : left;
        } else if (s->dim < 0 || nk->extent[d] > nk->extent[s->dim]) {
            s->dim = d;
        }
    }
    s->others = kn_main_stage(k)->inner & ~(UINT32_C(1) << s->dim);
    int value = without_casts(k, s->update);
    enum tcc_dtype d = (enum tcc_dtype)k->insns[value].dtype;
    s->value = d == TCC_BF16 || d == TCC_F16 ? value : s->update;
    return nk->extent[s->dim] >= LEAST;
}

bool nk_takes_scatter(struct nk *nk)
{
    struct scatter s;
    return plan(nk, &s);
}

/* -- Updates ------------------------------------------------------------------------------------------------------- */

/* As float32, and from the axis's end where they are below 0. */
static const struct nk_value *places(struct nk *nk, const struct nk_tile *t, const struct nk_value *v, int64_t bound)
{
    v = nk_copy(nk, t, TCC_F32, v);
    const struct nk_value *below = nk_ts(nk, t, TCC_F32, NEURON_ALU_LT, v, 0);
    return nk_tt(nk, t, TCC_F32, NEURON_ALU_ADD, v, nk_ts(nk, t, TCC_F32, NEURON_ALU_MUL, below, (double)bound));
}

/* The low words of an i64 index say all that counts: nk_bind_index() has looked at the others. */
static const struct nk_value *index_at(const struct scatter *s, const struct nk_tile *t)
{
    struct nk *nk = s->nk;
    const struct nk_value **made = IR_NEWN(nk->ctx, nk->k->ninsns + 1, const struct nk_value *), *v;
    int64_t bound = ir_const_or(nk->k->insns[s->index].bound, 0);
    struct nk_value low;
    v = nk_solid(nk, t, nk_computed(nk, t, nk_evaluate(nk, t, made, nk->k->insns[s->index].arg[0])));
    low = *v;
    low.high = NULL;
    low.dtype = TCC_I32;
    return places(nk, t, &low, bound);
}

/* [n, n]: 1 where updates have the same index. */
static const struct nk_value *find_same(const struct scatter *s, const struct nk_tile *one, enum tcc_dtype d)
{
    struct nk *nk = s->nk;
    int64_t n = one->axis[0].extent;
    struct nk_tile rows = *one, all = nk_lanes(n, n);
    int mark = nk_mark(nk);
    rows.axis[0] = (struct nk_axis){KN_MAX_DIMS - 1, 1, n};
    rows.axis[rows.n++] = (struct nk_axis){s->dim, 1, n};
    rows.nouter = rows.n;
    const struct nk_value *row = nk_solid(nk, &rows, index_at(s, &rows)), *column = nk_solid(nk, one, index_at(s, one));
    struct nk_value *same = nk_new(nk, &all, d), x = *row;
    struct neuron_instr i = {.op = NEURON_OP_TENSOR_SCALAR, .noperands = 3};
    if (!row->stride[1]) /* the index is the same for all of them */
        x.stride[1] = 0;
    i.operand[0] = nk_operand(nk, &all, same, 0, NULL);
    i.operand[1] = nk_operand(nk, &all, &x, 0, NULL);
    i.operand[2] = nk_operand(nk, one, column, 0, NULL);
    neuron_set_attr(&i, NEURON_ATTR_OP0, (union neuron_value){.i = NEURON_ALU_EQ});
    nk_emit(nk, NEURON_VECTOR, &i, 3,
            (struct nk_use[]){{same->buffer, true, 0}, {row->buffer, false, 0}, {column->buffer, false, 0}});
    nk_release_to(nk, mark, (const struct nk_value *const[]){same}, 1);
    return same;
}

/* same' x in a bank of PSUM, over tile t. */
static const struct nk_value *sums(struct nk *nk, const struct nk_tile *t, const struct nk_value *same,
                                   const struct nk_value *x)
{
    struct nk_tile left = nk_lanes(t->axis[0].extent, t->axis[0].extent);
    struct nk_value *to = IR_NEW(nk->ctx, struct nk_value);
    *to = *nk_bank(nk);
    int64_t n = 1;
    for (int a = t->n - 1; a > 0; a--) {
        to->stride[a] = (int32_t)n;
        n *= t->axis[a].extent;
    }
    struct neuron_operand sum = nk_operand(nk, t, to, 0, NULL), stationary = nk_operand(nk, &left, same, 0, NULL),
                          moving = nk_operand(nk, t, x, 0, NULL);
    nk_multiply(nk, &sum, to->buffer, &stationary, same->buffer, &moving, x->buffer, true);
    return to;
}

/* x 0 is NaN where x isn't finite, which equals nothing. */
static const struct nk_value *not_finite(struct nk *nk, const struct nk_tile *t, enum tcc_dtype d,
                                         const struct nk_value *x)
{
    struct nk_value *to = nk_new(nk, t, d);
    struct nk_value *right = nk_number(nk, TCC_F32, 0);
    nk_scale_by(nk, t, to, x, NEURON_ALU_MUL, nk_number(nk, TCC_F32, 0), NEURON_ALU_NE, right);
    return to;
}

static void add_updates(const struct scatter *s, const struct nk_tile *t, const struct nk_value *same)
{
    struct nk *nk = s->nk;
    int mark = nk_mark(nk);
    const struct kn_insn *index = &nk->k->insns[s->index];
    const struct nk_value **made = IR_NEWN(nk->ctx, nk->k->ninsns + 1, const struct nk_value *);
    enum tcc_dtype d = (enum tcc_dtype)same->dtype;
    nk_begin_tile(nk);
    nk->indices.n = 0;
    nk_bind_index(nk, t, index, nk_evaluate(nk, t, made, index->arg[0]));
    const struct nk_value *x = nk_computed(nk, t, nk_evaluate(nk, t, made, s->value));
    x = nk_copy(nk, t, d, nk_solid(nk, t, x));
    const struct nk_value *bad = not_finite(nk, t, d, x);
    struct nk_value *yes = nk_number(nk, d, 0);
    x = nk_select(nk, t, d, not_finite(nk, t, TCC_BOOL, x), yes, x);
    const struct nk_value *sum = sums(nk, t, same, x), *spoiled = sums(nk, t, same, bad);
    spoiled = nk_ts(nk, t, TCC_BOOL, NEURON_ALU_GT, spoiled, 0);
    memset(made, 0, (size_t)nk->k->ninsns * sizeof *made);
    made[s->update] = nk_select(nk, t, TCC_F32, spoiled, nk_number(nk, TCC_F32, NAN), sum);
    nk_evaluate(nk, t, made, s->store);
    nk_release_to(nk, mark, NULL, 0);
}

void nk_run_scatter(struct nk *nk)
{
    struct scatter s;
    int64_t at[KN_MAX_DIMS] = {0}, each[KN_MAX_DIMS];
    uint32_t outer = nk_outer_but(nk, -1);
    if (!plan(nk, &s))
        nk_refuse(nk, "a scatter of another form");
    nk->optional = true;
    for (int d = 0; d < nk->k->ndims; d++)
        each[d] = d == s.dim ? NEURON_PARTITIONS : 1;
    do {
        int mark = nk_mark(nk);
        int64_t left = nk->extent[s.dim] - at[s.dim];
        struct nk_tile one = {
            .n = 1, .nouter = 1, .axis = {{s.dim, 1, left < NEURON_PARTITIONS ? left : NEURON_PARTITIONS}}};
        enum tcc_dtype d = (enum tcc_dtype)nk->k->insns[s.value].dtype;
        memcpy(one.base, at, sizeof one.base);
        const struct nk_value *same = find_same(&s, &one, d);
        do {
            struct nk_tile t = one;
            memcpy(t.base, at, sizeof t.base);
            for (int o = 0; o < nk->k->ndims; o++)
                if (outer >> o & 1)
                    nk_add_axes(nk, &t, o, nk->extent[o] - at[o] < s.chunk[o] ? nk->extent[o] - at[o] : s.chunk[o],
                                &s.digits[o]);
            t.nouter = t.n;
            add_updates(&s, &t, same);
        } while (nk_next(nk, outer, s.chunk, at));
        nk_release_to(nk, mark, NULL, 0);
    } while (nk_next(nk, kn_main_stage(nk->k)->inner, each, at));
}
