/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sums.c - sums of many sizes in a kernel become sizes of their own, whose values its launches give. Of a mixture of
 * experts, the rows of each begin where those of all before it end: products that differ in that sum alone are one
 * kernel.
 */
#include "passes/lower_int.h"

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

static ir_expr shorter(void *user, ir_expr e)
{
    struct sums *s = user;
    struct ir_ctx *ctx = s->lw->ctx;
    if (e->kind == IR_X_CONST || e->kind == IR_X_SYM)
        return e;
    ir_expr *arg = IR_NEWN(ctx, e->nargs, ir_expr), sum = ir_const(ctx, 0), rest = sum;
    int terms = 0;
    for (int i = 0; i < e->nargs; i++) {
        arg[i] = shorter(s, e->arg[i]);
        if (e->kind == IR_X_ADD && of_sizes(s, e->arg[i])) {
            sum = ir_add(ctx, sum, e->arg[i]);
            terms++;
        } else if (e->kind == IR_X_ADD) {
            rest = ir_add(ctx, rest, arg[i]);
        }
    }
    ir_expr symbol = terms >= MANY ? symbol_of(s, sum) : NULL;
    return symbol ? ir_add(ctx, rest, symbol) : ir_rebuild(ctx, e, arg);
}

ir_expr *lw_shorten_sums(struct lw *lw, struct kn_kernel *k, ir_expr *sizes)
{
    ir_expr sum[LW_SUMS];
    struct sums s = {.lw = lw, .k = k, .sum = sum};
    const ir_expr *before = k->sizes;
    int n = k->nsizes;
    if (n < MANY || k->split.combine)
        return sizes;
    kn_map_exprs(lw->ctx, k, shorter, &s);
    if (!s.n)
        return sizes;
    lw_rename_dims(lw, k); /* an extent may be such a sum: what a reduction over joined pieces walks */
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
