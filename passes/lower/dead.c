/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dead.c - takes out stores that nobody reads: where launches were merged, the second one has the value at hand that the
 * first one stored for it, and the buffer in between is of no use any more.
 */
#include "passes/lower/lower_int.h"

static void count_list(const struct lw *lw, int n, const int *list, int *uses)
{
    for (int i = 0; i < n; i++)
        if (list[i] >= 0)
            uses[lw_storage(lw, list[i])]++;
}

static void count_uses(const struct lw *lw, const struct kn_steps *steps, int *uses)
{
    for (int i = 0; i < steps->n; i++) {
        const struct kn_step *s = &steps->at[i];
        count_list(lw, s->nargs, s->args, uses);
        for (int r = 0; r < s->nregions; r++) {
            const struct kn_region *g = &s->regions[r];
            count_list(lw, g->nparams, g->params, uses);
            count_list(lw, g->nresults, g->results, uses);
            count_list(lw, g->finals ? g->nresults - (s->kind == TCC_STEP_LOOP) : 0, g->finals, uses);
            count_uses(lw, &g->steps, uses);
        }
    }
}

static bool loads_from(const struct kn_kernel *k, int operand)
{
    for (int i = 0; i < k->ninsns; i++)
        if (k->insns[i].code == KN_LOAD && k->insns[i].operand == operand)
            return true;
    return false;
}

/* One stage and no TEMPs: arguments and operands correspond. */
static bool is_plain_map(const struct kn_step *s)
{
    if (s->kind != TCC_STEP_LAUNCH || s->kernel->nstages != 1 || s->kernel->stages[0].inner)
        return false;
    for (int i = 0; i < s->kernel->noperands; i++)
        if (s->kernel->operands[i].use == KN_TEMP)
            return false;
    return s->nargs == s->kernel->noperands;
}

static void remove_operand(struct lw *lw, struct kn_step *s, int operand)
{
    struct kn_kernel *k = s->kernel;
    int *at = IR_NEWN(lw->ctx, k->ninsns + 1, int), n = 0;

    for (int i = 0; i < k->ninsns; i++) {
        struct kn_insn insn = k->insns[i];
        bool access = insn.code == KN_LOAD || insn.code == KN_STORE;
        if (insn.code == KN_STORE && insn.operand == operand)
            continue;
        for (int a = 0; a < 3; a++)
            if (insn.arg[a] >= 0)
                insn.arg[a] = at[insn.arg[a]];
        if (access && insn.operand > operand)
            insn.operand--;
        at[i] = n;
        k->insns[n++] = insn;
    }
    k->ninsns = n;
    k->stages[0].last = n;
    for (int i = operand; i + 1 < k->noperands; i++) {
        k->operands[i] = k->operands[i + 1];
        s->args[i] = s->args[i + 1];
    }
    k->noperands--;
    s->nargs--;
}

static void drop_stores(struct lw *lw, struct kn_steps *steps, const int *uses)
{
    for (int i = 0; i < steps->n; i++) {
        struct kn_step *s = &steps->at[i];
        for (int r = 0; r < s->nregions; r++)
            drop_stores(lw, &s->regions[r].steps, uses);
        if (!is_plain_map(s))
            continue;
        for (int o = s->nargs - 1; o >= 0 && s->nargs > 1; o--)
            if (s->kernel->operands[o].use == KN_OUT && lw->buffers.at[s->args[o]].space == TCC_SPACE_ARENA &&
                uses[lw_storage(lw, s->args[o])] == 1 && !loads_from(s->kernel, o))
                remove_operand(lw, s, o);
    }
}

void lw_drop_dead_stores(struct lw *lw, struct kn_entry *e)
{
    int *uses = IR_NEWN(lw->ctx, lw->buffers.n + 1, int);

    count_uses(lw, &e->steps, uses);
    count_list(lw, e->noutputs, e->output_buffers, uses);
    drop_stores(lw, &e->steps, uses);
}
