/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sums.c - sums of many sizes in a kernel become sizes of their own, whose values its launches give. Of a mixture of experts, the rows of each begin where
 * those of all before it end: products that differ in that sum alone are one kernel.
 */
#include "passes/lower/lower_int.h"

/* Sums of fewer sizes stay, since what holds between them and their terms is not known of the symbol. */
enum { MANY = 4 };

struct sums {
    struct lw *lw;
    const struct kn_kernel *k;
    ir_expr *sum; /* what lw->sums stand for */
    int n;
};

static void find_other(void *user, ir_expr sym)
{
    struct sums *s = user;
    bool found = false;
    for (int i = 0; i < s->k->nsizes && !found; i++)
        found = s->k->sizes[i] == sym;
    if (!found)
        s->n = -1;
}

static bool of_sizes(const struct sums *s, ir_expr e)
{
    struct sums found = {.k = s->k};
    ir_each_sym(e, find_other, &found);
    return found.n == 0 && e->kind != IR_X_CONST;
}

/* NULL: there are too many. */
static ir_expr symbol_of(struct sums *s, ir_expr sum)
{
    struct lw *lw = s->lw;
    int i = 0;
    while (i < s->n && s->sum[i] != sum)
        i++;
    if (i == LW_SUMS || sum->lo < 0)
        return NULL;
    if (!lw->sums[i])
        lw->sums[i] = ir_fresh(lw->ctx, "sum", 0, INT64_C(1) << 40);
    s->sum[i] = sum;
    s->n += i == s->n;
    return lw->sums[i];
}

static ir_expr shorter(struct sums *s, ir_expr e)
{
    struct ir_ctx *ctx = s->lw->ctx;
    if (!e || e->kind == IR_X_CONST || e->kind == IR_X_SYM)
        return e;
    ir_expr *arg = IR_NEWN(ctx, e->nargs, ir_expr), sum = ir_const(ctx, 0), rest = sum;
    int terms = 0;
    for (int i = 0; i < e->nargs; i++)
        if (e->kind == IR_X_ADD && of_sizes(s, e->arg[i])) {
            sum = ir_add(ctx, sum, e->arg[i]);
            terms++;
        }
    ir_expr symbol = terms >= MANY ? symbol_of(s, sum) : NULL;
    if (symbol)
        rest = symbol;
    for (int i = 0; i < e->nargs; i++)
        if (!symbol)
            arg[i] = shorter(s, e->arg[i]);
        else if (!of_sizes(s, e->arg[i]))
            rest = ir_add(ctx, rest, shorter(s, e->arg[i]));
    return symbol ? rest : ir_rebuild(ctx, e, arg);
}

static void shorten(struct sums *s, struct kn_kernel *k)
{
    struct ir_ctx *ctx = s->lw->ctx;
    for (int d = 0; d < k->ndims; d++)
        k->dims[d].extent = shorter(s, k->dims[d].extent);
    for (int o = 0; o < k->noperands; o++)
        for (int d = 0; d < k->operands[o].rank; d++)
            k->operands[o].dims[d] = shorter(s, k->operands[o].dims[d]);
    for (int i = 0; i < k->ninsns; i++) {
        struct kn_insn *n = &k->insns[i];
        ir_expr *index = IR_NEWN(ctx, n->nindex + 1, ir_expr);
        struct kn_guard *guards = IR_NEWN(ctx, n->nguards + 1, struct kn_guard);
        for (int d = 0; d < n->nindex; d++)
            index[d] = shorter(s, n->index[d]);
        for (int g = 0; g < n->nguards; g++)
            guards[g] = (struct kn_guard){shorter(s, n->guards[g].e), shorter(s, n->guards[g].lo), shorter(s, n->guards[g].hi)};
        n->index = index;
        n->guards = guards;
        if (n->code == KN_EXPR)
            n->expr = shorter(s, n->expr);
        n->bound = shorter(s, n->bound);
    }
}

ir_expr *lw_shorten_sums(struct lw *lw, struct kn_kernel *k, ir_expr *sizes)
{
    ir_expr sum[LW_SUMS];
    struct sums s = {.lw = lw, .k = k, .sum = sum};
    const ir_expr *before = k->sizes;
    int n = k->nsizes;
    if (n < MANY || k->split.combine)
        return sizes;
    shorten(&s, k);
    if (!s.n)
        return sizes;
    kn_find_sizes(lw->ctx, k);
    ir_expr *args = IR_NEWN(lw->ctx, k->nsizes + 1, ir_expr);
    for (int i = 0; i < k->nsizes; i++) {
        args[i] = k->sizes[i];
        for (int j = 0; j < s.n; j++)
            if (args[i] == lw->sums[j])
                args[i] = sum[j];
        args[i] = ir_subst(lw->ctx, args[i], n, before, sizes);
    }
    return args;
}
