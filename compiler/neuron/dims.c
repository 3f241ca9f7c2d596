/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dims.c - how dims are gone over. In digits, where indices divide by constants: with v = 12 a + b, v floordiv 12 is
 * a, and an access is a pattern of a and b. As an odometer, from the points of one tile to those of the next.
 */
#include "compiler/neuron/neuron_int.h"

static int64_t period_of(const struct kn_kernel *k, ir_expr e, int dim, int64_t *list, int *n)
{
    int64_t c, most = 0;
    if (e->kind == IR_X_SYM)
        return e == k->dims[dim].var;
    for (int i = 0; i < e->nargs; i++) {
        int64_t p = period_of(k, e->arg[i], dim, list, n);
        most = p > most ? p : most;
    }
    if ((e->kind == IR_X_FLOORDIV || e->kind == IR_X_MOD) && most && ir_is_const(e->arg[1], &c) && c > 0) {
        if (most < INT32_MAX / c && *n < 32)
            list[(*n)++] = most * c;
        return e->kind == IR_X_FLOORDIV ? most * c : most;
    }
    return most;
}

/* m * v floordiv c has the period c / m where m divides c: the coefficient of the dim's variable. */
struct nk_digits nk_digits_of(struct nk *nk, int dim)
{
    struct nk_digits d = {1, {1}};
    int64_t list[32];
    int n = 0;
    for (int i = 0; i < nk->k->ninsns; i++) {
        const struct kn_insn *in = &nk->k->insns[i];
        for (int x = 0; x < in->nindex; x++)
            period_of(nk->k, in->index[x], dim, list, &n);
        for (int g = 0; g < in->nguards; g++)
            period_of(nk->k, in->guards[g].e, dim, list, &n);
        if (in->code == KN_EXPR)
            period_of(nk->k, in->expr, dim, list, &n);
    }
    for (int i = 0; i < n; i++) /* ascending */
        for (int j = i + 1; j < n; j++)
            if (list[j] < list[i]) {
                int64_t x = list[i];
                list[i] = list[j];
                list[j] = x;
            }
    for (int i = 0; i < n && d.n < NK_DIGITS; i++)
        if (list[i] % d.period[d.n - 1] == 0 && list[i] > d.period[d.n - 1] && list[i] < nk->extent[dim])
            d.period[d.n++] = list[i];
    return d;
}

/* Axes for points [.., + n) of a dim, from one of the partition's points on, the last digit first. */
void nk_add_axes(struct nk *nk, struct nk_tile *t, int dim, int64_t n, const struct nk_digits *d)
{
    int last = d->n - 1;
    while (last > 0 && n % d->period[last])
        last--;
    for (int i = last; i >= 0; i--) {
        int64_t size = i == last ? n / d->period[i] : d->period[i + 1] / d->period[i];
        if (size == 1)
            continue;
        if (t->n == NK_AXES)
            nk_refuse(nk, "more than %d dims", NK_AXES);
        t->axis[t->n++] = (struct nk_axis){dim, d->period[i], size};
    }
}

uint32_t nk_outer_but(const struct nk *nk, int but)
{
    uint32_t dims = 0;
    for (int d = 0; d < nk->k->ndims; d++)
        dims |= (uint32_t)(nk->k->dims[d].role == KN_OUTER && d != but) << d;
    return dims;
}

bool nk_next(const struct nk *nk, uint32_t dims, const int64_t *step, int64_t *at)
{
    for (int d = nk->k->ndims - 1; d >= 0; d--) {
        if (!(dims >> d & 1))
            continue;
        at[d] += step ? step[d] : 1;
        if (at[d] < nk->extent[d])
            return true;
        at[d] = 0;
    }
    return false;
}
