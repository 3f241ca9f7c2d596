/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows.c - where threads that share a row meet between a kernel's stages (struct pass_cost's `rows_merge`), kernels
 * that reduce the same rows, and what is made of the rows and of what they come to, become one (chain.c), if they pay
 * here: a cross entropy's largest score, sum of exponentials and gradient, a norm's mean, deviation and result. The row
 * is read from near memory then, but for the first time; what a row comes to is stored where others want it.
 */
#include "passes/lower_int.h"

enum { LEAST_POINTS = 256 /* of a row */, LEAST_ROWS = 128 };

/* Beside what chain.c asks of it. */
static bool plain(const struct kn_kernel *k)
{
    return k->roles.form != KN_CONTRACTION && !kn_has_operand(k, KN_BIT(KN_LOCAL)) && !kn_has(k, KN_BIT(KN_ARGREDUCE));
}

/* Long rows by known numbers, of which each stage runs along all of one. */
static bool has_rows(const struct kn_kernel *k)
{
    double points = 1, rows = 1;
    uint32_t inner = 0;
    for (int d = 0; d < k->ndims; d++) {
        inner |= (uint32_t)(k->dims[d].role == KN_INNER) << d;
        *(k->dims[d].role == KN_INNER ? &points : &rows) *= (double)ir_const_or(k->dims[d].extent, 0);
    }
    for (int s = 0; s < k->nstages; s++)
        if (k->stages[s].inner && k->stages[s].inner != inner)
            return false;
    return inner && points >= LEAST_POINTS && rows >= LEAST_ROWS;
}

/* The same dims; b's are rows and what is along them too, or all points, one by one. */
static bool same_rows(const struct kn_kernel *a, const struct kn_kernel *b)
{
    bool map = kn_is_map(b);
    for (int d = 0; d < a->ndims && d < b->ndims; d++)
        if (a->dims[d].var != b->dims[d].var || a->dims[d].extent != b->dims[d].extent ||
            b->dims[d].role != (map ? KN_OUTER : a->dims[d].role))
            return false;
    return a->ndims == b->ndims && (map || b->kind == IR_K_REDUCE);
}

/* Do they read rows that are more than a cache holds? */
static bool share_rows(const struct lw *lw, const struct kn_step *a, const struct kn_step *b)
{
    for (int i = 0; i < a->nargs; i++)
        for (int j = 0; j < b->nargs; j++)
            if (lw_storage(lw, a->args[i]) == lw_storage(lw, b->args[j]) && kn_use(a, i) == KN_IN &&
                kn_use(b, j) == KN_IN && lw_same_shape(&a->kernel->operands[i], &b->kernel->operands[j]) &&
                ir_const_or(lw->buffers.at[b->args[j]].bytes, 0) >= 1 << 20)
                return true;
    return false;
}

bool lw_rows_pay(const struct lw *lw, const struct kn_step *a, const struct kn_step *b)
{
    return plain(a->kernel) && plain(b->kernel) && a->kernel->kind == IR_K_REDUCE && has_rows(a->kernel) &&
           same_rows(a->kernel, b->kernel) && share_rows(lw, a, b) && lw_fit_together(lw, a, b);
}
