/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collapse.c - neighbouring dims that every operand walks as one become one dim: longer vectors, fewer loops. Dims d
 * and d + 1 collapse when every access uses both as neighbouring indexes [i_d][i_d+1] of an operand whose inner dim is
 * d + 1's extent, or uses neither.
 */
#include "passes/lower_int.h"

#include <string.h>

struct pair {
    ir_expr a, b, extent, joined;
};

static bool mentions(const struct pair *p, ir_expr e)
{
    return ir_uses_sym(e, p->a) || ir_uses_sym(e, p->b);
}

/* Position of the index that holds a (b follows); -1: neither is used; -2: used in another way. */
static int place(const struct kn_kernel *k, const struct pair *p, const struct kn_insn *insn)
{
    int at = -1;
    for (int g = 0; g < insn->nguards; g++)
        if (mentions(p, insn->guards[g].e) || mentions(p, insn->guards[g].lo) || mentions(p, insn->guards[g].hi))
            return -2;
    for (int i = 0; i < insn->nindex; i++) {
        if (!mentions(p, insn->index[i]))
            continue;
        if (at >= 0 && i == at + 1)
            continue;
        if (at >= 0 || i + 1 >= insn->nindex || insn->index[i] != p->a || insn->index[i + 1] != p->b ||
            k->operands[insn->operand].dims[i + 1] != p->extent)
            return -2;
        at = i;
    }
    return at;
}

static bool may_collapse(const struct kn_kernel *k, const struct pair *p, int *at)
{
    for (int o = 0; o < k->noperands; o++)
        at[o] = -3;
    for (int i = 0; i < k->ninsns; i++) {
        const struct kn_insn *insn = &k->insns[i];
        if ((insn->code == KN_EXPR && mentions(p, insn->expr)))
            return false;
        if (insn->code != KN_LOAD && insn->code != KN_STORE)
            continue;
        int where = place(k, p, insn);
        if (where == -2 || (at[insn->operand] != -3 && at[insn->operand] != where))
            return false;
        at[insn->operand] = where;
    }
    return true;
}

static void join(struct lw *lw, struct kn_kernel *k, int d, const struct pair *p, const int *at)
{
    for (int i = 0; i < k->ninsns; i++) {
        struct kn_insn *insn = &k->insns[i];
        if ((insn->code != KN_LOAD && insn->code != KN_STORE) || at[insn->operand] < 0)
            continue;
        int where = at[insn->operand];
        ir_expr *index = IR_NEWN(lw->ctx, insn->nindex, ir_expr);
        memcpy(index, insn->index, (size_t)insn->nindex * sizeof *index);
        index[where] = p->joined;
        memmove(index + where + 1, index + where + 2, (size_t)(insn->nindex - where - 2) * sizeof *index);
        insn->index = index;
        insn->nindex--;
    }
    for (int o = 0; o < k->noperands; o++) {
        struct kn_operand *operand = &k->operands[o];
        int where = at[o];
        if (where < 0)
            continue;
        operand->dims[where] = ir_mul(lw->ctx, operand->dims[where], operand->dims[where + 1]);
        for (int i = where + 1; i + 1 < operand->rank; i++)
            operand->dims[i] = operand->dims[i + 1];
        operand->rank--;
    }
    k->dims[d].extent = ir_mul(lw->ctx, k->dims[d].extent, p->extent);
    k->dims[d].var = p->joined;
    kn_remove_dim(k, d + 1);
}

void lw_rename_dims(struct lw *lw, struct kn_kernel *k)
{
    ir_expr from[KN_MAX_DIMS], to[KN_MAX_DIMS];
    for (int d = 0; d < k->ndims; d++) {
        from[d] = k->dims[d].var;
        to[d] = k->dims[d].var = lw_iteration_var(lw, d, k->dims[d].extent);
    }
    kn_subst(lw->ctx, k, k->ndims, from, to);
}

void lw_collapse(struct lw *lw, struct kn_kernel *k)
{
    bool changed = false;
    int *at = IR_NEWN(lw->ctx, k->noperands + 1, int);
    for (int d = 0; d + 1 < k->ndims;) {
        struct pair p = {k->dims[d].var, k->dims[d + 1].var, k->dims[d + 1].extent, NULL};
        bool same = k->dims[d].role == k->dims[d + 1].role;
        for (int s = 0; s < k->nstages && same; s++)
            same = (k->stages[s].inner >> d & 1) == (k->stages[s].inner >> (d + 1) & 1);
        if (!same || !may_collapse(k, &p, at)) {
            d++;
            continue;
        }
        p.joined = ir_iter(lw->ctx, "j", ir_mul(lw->ctx, k->dims[d].extent, p.extent));
        join(lw, k, d, &p, at);
        changed = true;
    }
    if (changed)
        lw_rename_dims(lw, k);
}
