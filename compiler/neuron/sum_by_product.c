/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sum_by_product.c - sums over rows of HBM as products with ones. Where results lie side by side in HBM and what is
 * summed lies rows apart, as in the gradient of a bias, the lanes would load element by element, each of which DMA
 * counts as 512 bytes. A product sums over partitions instead: rows are loaded as they are, one a partition, and the
 * tensor engine multiplies them by ones.
 *
 * The kernel is written anew, with a factor 1 before its sum and the roles of a contraction, and pe.c takes it as any
 * other. Products by 1 are exact; sums are in float32 as everywhere. What is a cast from 16 bits is multiplied by a 1
 * in 16 bits, four times as fast.
 */
#include "compiler/neuron/neuron_int.h"

enum { LEAST_SUMMED = 64, ADDED = 3 };

static bool uses_any(const struct kn_kernel *k, ir_expr e, uint32_t dims)
{
    for (int d = 0; d < k->ndims; d++)
        if (dims >> d & 1 && ir_uses_sym(e, k->dims[d].var))
            return true;
    return false;
}

int nk_only_reduction(const struct kn_kernel *k)
{
    const int *reduce = k->roles.reduction.reduce;
    bool product = kn_only_multiplies(k) && !kn_is_product(k); /* of one value by another, point by point */
    if (!product && (k->roles.form != KN_REDUCTION || reduce[1] >= 0))
        return -1;
    return kn_has(k, KN_BIT(KN_INDEX)) ? -1 : product ? k->roles.contraction.reduce : reduce[0];
}

/* The kernel's reduction, if it is a sum of floats; -1: it is of another form. */
static int only_sum(const struct kn_kernel *k)
{
    int sum = nk_only_reduction(k);
    const struct kn_insn *n = sum >= 0 ? &k->insns[sum] : NULL;
    bool takes =
        n && n->reducer == KN_SUM && n->dtype == TCC_F32 && tcc_is_float((enum tcc_dtype)k->insns[n->arg[0]].dtype);
    return takes ? sum : -1;
}

bool nk_is_by_rows(const struct kn_kernel *k)
{
    uint32_t inner = k->nstages ? k->stages[0].inner : 0, outer = 0;
    bool rows = false;
    for (int d = 0; d < k->ndims; d++)
        outer |= (uint32_t)(k->dims[d].role == KN_OUTER) << d;
    if (!inner)
        return false;
    for (int i = k->stages[0].first; i < k->stages[0].last; i++) {
        const struct kn_insn *n = &k->insns[i];
        if (n->code == KN_STORE)
            return false;
        if (n->code != KN_LOAD || !n->nindex)
            continue;
        if (n->nguards || uses_any(k, n->index[n->nindex - 1], inner))
            return false;
        rows |= uses_any(k, n->index[n->nindex - 1], outer);
    }
    return rows;
}

/* Instructions from `at` on stand ADDED places later. */
static struct kn_insn *moved(struct ir_ctx *ctx, const struct kn_kernel *k, int at)
{
    struct kn_insn *to = IR_NEWN(ctx, k->ninsns + ADDED, struct kn_insn);
    for (int i = 0; i < k->ninsns; i++) {
        struct kn_insn *n = &to[i < at ? i : i + ADDED];
        *n = k->insns[i];
        for (int a = 0; a < n->nargs; a++)
            n->arg[a] += n->arg[a] >= at ? ADDED : 0;
    }
    return to;
}

const struct kn_kernel *nk_with_ones(struct ir_ctx *ctx, const struct kn_kernel *k)
{
    uint32_t inner = 0, outer = 0;
    int64_t summed = 1, extent;
    int sum = only_sum(k);
    if (sum < 0)
        return NULL;
    const struct nk probe = {.k = k};
    uint32_t used = nk_dims_of(&probe, k->insns[sum].arg[0]);
    for (int d = 0; d < k->ndims; d++) {
        if (!ir_is_const(k->dims[d].extent, &extent))
            return NULL;
        bool is_inner = kn_main_stage(k)->inner >> d & 1;
        *(is_inner ? &inner : &outer) |= 1u << d;
        summed *= is_inner ? extent : 1;
        if (!is_inner && extent > 1 && !(used >> d & 1)) /* pe.c loops over dims of factors */
            return NULL;
    }
    if (summed < LEAST_SUMMED || !outer || !nk_is_by_rows(k))
        return NULL;
    struct kn_kernel *to = IR_NEW(ctx, struct kn_kernel);
    int summand = k->insns[sum].arg[0];
    enum tcc_dtype d = (enum tcc_dtype)k->insns[summand].dtype,
                   from = (enum tcc_dtype)k->insns[kn_uncast(k, summand)].dtype;
    *to = *k;
    to->insns = moved(ctx, k, sum);
    to->ninsns = k->ninsns + ADDED;
    from = d == TCC_F32 && tcc_is_half(from) ? from : d;
    to->insns[sum] = (struct kn_insn){.code = KN_CONST, .dtype = (uint8_t)from, .arg = {-1, -1, -1}, .fvalue = 1};
    to->insns[sum + 1] =
        (struct kn_insn){.code = KN_SCALAR, .dtype = (uint8_t)d, .op = IR_cast, .nargs = 1, .arg = {sum, -1, -1}};
    to->insns[sum + 2] = (struct kn_insn){
        .code = KN_SCALAR, .dtype = (uint8_t)d, .op = IR_mul, .nargs = 2, .arg = {summand, sum + 1, -1}};
    to->insns[sum + ADDED].arg[0] = sum + 2;
    to->stages = IR_NEWN(ctx, k->nstages, struct kn_stage);
    for (int s = 0; s < k->nstages; s++) {
        to->stages[s] = k->stages[s];
        to->stages[s].first += s ? ADDED : 0;
        to->stages[s].last += ADDED;
    }
    to->roles = kn_roles_of(KN_CONTRACTION);
    struct kn_contraction *c = &to->roles.contraction;
    c->factor[0] = summand;
    c->factor[1] = sum + 1;
    c->mul = sum + 2;
    c->reduce = sum + ADDED;
    c->m = outer;
    c->k = inner;
    return to;
}
