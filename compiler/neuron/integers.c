/* SPDX-License-Identifier: Apache-2.0 */
/*
 * integers.c - sums, products, extremes and running ones of integers, along the last axes of a tile. GpSimd has no
 * reductions of words in pairs, and running combinations are Vector's, in float32; so rows are combined by halves and
 * at distances, in instructions that take whole rows.
 */
#include <math.h>

#include "compiler/neuron/neuron_int.h"

enum ir_op nk_word_of(const struct kn_insn *n)
{
    static const enum ir_op of[] = {[KN_SUM] = IR_add, [KN_PROD] = IR_mul, [KN_MAX] = IR_max, [KN_MIN] = IR_min};
    return of[n->reducer];
}

double nk_identity_of(const struct kn_insn *n)
{
    static const double of[] = {[KN_SUM] = 0, [KN_PROD] = 1, [KN_MAX] = -INFINITY, [KN_MIN] = INFINITY};
    return of[n->reducer];
}

/* Integers that are combined. */
const struct nk_value *nk_combine(struct nk *nk, const struct nk_tile *t, enum ir_op op, enum tcc_dtype d,
                                  const struct nk_value *a, const struct nk_value *b)
{
    static const enum neuron_alu alu[IR_NOPS] = {
        [IR_add] = NEURON_ALU_ADD, [IR_mul] = NEURON_ALU_MUL, [IR_max] = NEURON_ALU_MAX, [IR_min] = NEURON_ALU_MIN};
    if (nk_is_wide(d))
        return nk_wide(nk, t, op, d, d, (const struct nk_value *const[]){a, b}, 2);
    return nk_tt(nk, t, d, alu[op], a, b);
}

/* A copy of v whose inner points lie side by side, one axis; wide ones with both words. */
static struct nk_value *in_rows(struct nk *nk, const struct nk_tile *all, int ninner, const struct nk_value *v,
                                enum tcc_dtype d, struct nk_tile *t)
{
    struct nk_value *to = nk_new(nk, all, d), *high = NULL;
    int64_t n = nk_free_elements(all);
    *t = *all;
    t->n -= ninner;
    if (nk_is_wide(d))
        to->high = high = nk_new(nk, all, TCC_I32);
    nk_copy_to(nk, all, to, v);
    n /= nk_free_elements(t);
    t->axis[t->n] = (struct nk_axis){0, 0, n};
    to->stride[t->n] = 1;
    if (high)
        high->stride[t->n] = 1;
    t->n++;
    return to;
}

/* From one of its points on. */
static struct nk_value *from_point(struct nk *nk, const struct nk_value *v, int64_t point)
{
    struct nk_value *to = IR_NEW(nk->ctx, struct nk_value);
    *to = *v;
    to->offset += point * neuron_type_bytes((enum neuron_type)v->type);
    if (v->high)
        to->high = from_point(nk, v->high, point);
    return to;
}

/* Integers of the inner points, by halves. */
const struct nk_value *nk_combined(struct nk *nk, const struct nk_tile *all, int ninner, enum ir_op op,
                                   enum tcc_dtype d, const struct nk_value *v)
{
    struct nk_tile t;
    const struct nk_value *to = in_rows(nk, all, ninner, v, d, &t);
    for (int64_t n = t.axis[t.n - 1].extent, half; n > 1; n -= half) {
        int mark = nk_mark(nk);
        t.axis[t.n - 1].extent = half = n / 2;
        nk_copy_to(nk, &t, to, nk_combine(nk, &t, op, d, to, from_point(nk, to, n - half)));
        nk_release_to(nk, mark, NULL, 0);
    }
    return to;
}

static int64_t neutral(const struct kn_insn *n)
{
    int bits = 8 * (int)tcc_dtype_bytes((enum tcc_dtype)n->dtype);
    bool sign = tcc_is_signed((enum tcc_dtype)n->dtype);
    uint64_t most = UINT64_MAX >> (64 - bits + sign);
    switch ((enum kn_reducer)n->reducer) {
    case KN_SUM: return 0;
    case KN_PROD: return 1;
    case KN_MAX: return sign ? -(int64_t)most - 1 : 0;
    default: return (int64_t)most;
    }
}

/* Each round combines with what stands twice as far before (Hillis and Steele, "Data parallel algorithms", 1986). */
const struct nk_value *nk_scan_integers(struct nk *nk, const struct nk_tile *all, int ninner, const struct kn_insn *n,
                                        const struct nk_value *from)
{
    enum tcc_dtype d = (enum tcc_dtype)n->dtype;
    struct nk_tile t;
    const struct nk_value *to = in_rows(nk, all, ninner, from, d, &t);
    int64_t length = t.axis[t.n - 1].extent;
    if (n->ivalue) { /* exclusive: begins with what changes nothing */
        t.axis[t.n - 1].extent = 1;
        int64_t v = neutral(n);
        nk_copy_to(nk, &t, to, nk_is_wide(d) ? nk_wide_number(nk, d, v) : nk_number(nk, d, (double)v));
        t.axis[t.n - 1].extent = length - 1;
        struct nk_tile whole = t;
        whole.axis[t.n - 1].extent = length;
        const struct nk_value *rows = in_rows(nk, all, ninner, from, d, &whole);
        if (length > 1)
            nk_copy_to(nk, &t, from_point(nk, to, 1), rows);
    }
    for (int64_t step = 1; step < length; step *= 2) {
        int mark = nk_mark(nk);
        t.axis[t.n - 1].extent = length - step;
        const struct nk_value *later = from_point(nk, to, step);
        nk_copy_to(nk, &t, later, nk_combine(nk, &t, nk_word_of(n), d, later, to));
        nk_release_to(nk, mark, NULL, 0);
    }
    return to;
}
