/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_products.c - products inside index expressions that may be more than 64 bits hold: i * n of (i * n) floordiv
 * m. Code computes them modulo 2^64, and a proof that the index stays inside its operand (kernel_bounds.c) is about
 * numbers. So whoever launches the kernel has to compute the greatest of each once, in checked arithmetic. A divisor of
 * an operand's number of elements is computed for its bytes already. Only products of variables and sizes are looked
 * at.
 */
#include "ir/text/kernel_words_int.h"

struct products {
    struct ir_ctx *ctx;
    const struct kn_kernel *k;
    void (*each)(void *user, ir_expr greatest);
    void *user;
};

/* A factor's greatest value, at least; NULL: it is none of sizes. */
static ir_expr greatest_of(const struct products *p, ir_expr factor)
{
    if (factor->kind != IR_X_SYM || factor->lo < 0)
        return NULL;
    for (int i = 0; i < p->k->ninsns; i++)
        if (p->k->insns[i].code == KN_INDEX && p->k->insns[i].expr == factor)
            return p->k->insns[i].bound->kind == IR_X_SYM && p->k->insns[i].bound->extent ? NULL : p->k->insns[i].bound;
    return factor->extent ? factor->extent : factor;
}

/* Does it divide the number of an operand's elements? */
static bool is_held(const struct products *p, ir_expr product)
{
    struct ir_poly one, all;
    bool divides;
    if (!ir_poly_of(&one, product) || one.n != 1)
        return false;
    for (int i = 0; i < p->k->noperands; i++) {
        const struct kn_operand *o = &p->k->operands[i];
        ir_expr elements = ir_const(p->ctx, 1);
        for (int d = 0; d < o->rank; d++)
            elements = ir_mul(p->ctx, elements, o->dims[d]);
        if (!ir_poly_of(&all, elements) || all.n != 1 || all.at[0].coef < one.at[0].coef)
            continue;
        ir_mono_div(p->ctx, all.at[0].mono, one.at[0].mono, &divides);
        if (divides)
            return true;
    }
    return false;
}

static void look_at_term(const struct products *p, struct ir_term t)
{
    const ir_expr *factor;
    int n = ir_mono_factors(&t.mono, &factor);
    int64_t most = ir_sat_mul(t.mono->hi, t.coef < 0 ? ir_sat_mul(t.coef, -1) : t.coef);
    ir_expr product = ir_const(p->ctx, t.coef < 0 ? -t.coef : t.coef);
    if (t.mono->lo != INT64_MIN && most != INT64_MAX)
        return;
    for (int i = 0; i < n; i++) {
        ir_expr x = greatest_of(p, factor[i]);
        if (!x)
            return;
        product = ir_mul(p->ctx, product, x);
    }
    if (!is_held(p, product))
        p->each(p->user, product);
}

static void look(const struct products *p, ir_expr e)
{
    struct ir_poly terms;
    const ir_expr *factor;
    if (!ir_poly_of(&terms, e))
        return;
    for (int i = 0; i < terms.n; i++) {
        if (!terms.at[i].mono || terms.at[i].coef == INT64_MIN)
            continue;
        look_at_term(p, terms.at[i]);
        int n = ir_mono_factors(&terms.at[i].mono, &factor);
        for (int f = 0; f < n; f++)
            for (int a = 0; a < factor[f]->nargs && factor[f]->kind >= IR_X_FLOORDIV; a++)
                look(p, factor[f]->arg[a]);
    }
}

void kn_each_product(struct ir_ctx *ctx, const struct kn_kernel *k, void (*each)(void *user, ir_expr greatest),
                     void *user)
{
    const struct products p = {ctx, k, each, user};
    for (int i = 0; i < k->ninsns; i++) {
        const struct kn_insn *n = &k->insns[i];
        for (int x = 0; x < n->nindex; x++)
            look(&p, n->index[x]);
        for (int g = 0; g < n->nguards; g++)
            look(&p, n->guards[g].e);
    }
}
