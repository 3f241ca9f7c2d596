/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dead.c - takes out stores that nobody reads: where launches were merged, the second one has the value at hand that
 * the first one stored for it, and the buffer in between is of no use any more. Then the buffers that no step names go.
 */
#include "passes/lower_int.h"

#include <string.h>

static void count_list(const struct lw *lw, int n, const int *list, int *uses)
{
    for (int i = 0; i < n; i++)
        if (list[i] >= 0)
            uses[lw_storage(lw, list[i])]++;
}

static bool loads_from(const struct kn_kernel *k, int operand)
{
    for (int i = 0; i < k->ninsns; i++)
        if (k->insns[i].code == KN_LOAD && k->insns[i].operand == operand)
            return true;
    return false;
}

/* One stage and no local operands: arguments and operands correspond. */
static bool is_plain_map(const struct kn_step *s)
{
    return s->kind == TCC_STEP_LAUNCH && kn_is_map(s->kernel) && !kn_has_operand(s->kernel, KN_BIT(KN_LOCAL)) &&
           s->nargs == s->kernel->noperands;
}

void lw_remove_operand(struct kn_kernel *k, int *args, int operand)
{
    for (int i = k->ninsns - 1; i >= 0; i--) {
        struct kn_insn *n = &k->insns[i];
        bool access = n->code == KN_LOAD || n->code == KN_STORE;
        if (!access || n->operand != operand)
            continue;
        memmove(n, n + 1, (size_t)(k->ninsns - i - 1) * sizeof *n);
        k->ninsns--;
        for (int j = i; j < k->ninsns; j++)
            for (int a = 0; a < 3; a++)
                k->insns[j].arg[a] -= k->insns[j].arg[a] > i;
        for (int s = 0; s < k->nstages; s++) {
            k->stages[s].first -= k->stages[s].first > i;
            k->stages[s].last -= k->stages[s].last > i;
        }
        kn_leave_roles(&k->roles, KN_ROLE_INSN, i);
    }
    kn_remove_operand(k, operand);
    memmove(args + operand, args + operand + 1, (size_t)(k->noperands - operand) * sizeof *args);
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
                uses[lw_storage(lw, s->args[o])] == 1 && !loads_from(s->kernel, o) && lw_may_change(lw)) {
                lw_remove_operand(s->kernel, s->args, o);
                s->nargs--;
            }
    }
}

void lw_drop_dead_stores(struct lw *lw, struct kn_entry *e)
{
    int *uses = IR_NEWN(lw->ctx, lw->buffers.n + 1, int);

    kn_count_uses(lw->buffers.at, &e->steps, uses);
    count_list(lw, e->noutputs, e->output_buffers, uses);
    drop_stores(lw, &e->steps, uses);
}

/* -- Buffers ------------------------------------------------------------------------------------------------------ */

/* A list of its own: others may share the old one. */
static int *renumbered(const struct lw *lw, int n, const int *list, const int *number)
{
    int *new = IR_NEWN(lw->ctx, n + 1, int);
    for (int i = 0; i < n; i++)
        new[i] = list[i] < 0 ? list[i] : number[list[i]];
    return new;
}

static void renumber(const struct lw *lw, struct kn_steps *steps, const int *number)
{
    for (int i = 0; i < steps->n; i++) {
        struct kn_step *s = &steps->at[i];
        s->args = renumbered(lw, s->nargs, s->args, number);
        for (int v = 0; v < s->nversions; v++)
            s->versions[v].buffer = number[s->versions[v].buffer];
        for (int r = 0; r < s->nregions; r++) {
            struct kn_region *g = &s->regions[r];
            g->params = renumbered(lw, g->nparams, g->params, number);
            g->results = renumbered(lw, g->nresults, g->results, number);
            if (g->exits)
                g->exits = renumbered(lw, g->nresults - (s->kind == TCC_STEP_LOOP), g->exits, number);
            renumber(lw, &g->steps, number);
        }
    }
}

void lw_drop_dead_buffers(struct lw *lw, struct kn_program *p)
{
    int *uses = IR_NEWN(lw->ctx, lw->buffers.n + 1, int), *number = IR_NEWN(lw->ctx, lw->buffers.n + 1, int), n = 0;
    for (int e = 0; e < p->nentries; e++) {
        kn_count_uses(lw->buffers.at, &p->entries[e].steps, uses);
        count_list(lw, p->entries[e].noutputs, p->entries[e].output_buffers, uses);
    }
    for (int b = 0; b < lw->buffers.n; b++) {
        bool dead = lw->buffers.at[b].space == TCC_SPACE_ARENA && !uses[b];
        number[b] = dead ? -1 : n;
        lw->buffers.at[n] = lw->buffers.at[b];
        n += !dead;
    }
    lw->buffers.n = n;
    for (int b = 0; b < n; b++)
        if (lw->buffers.at[b].space == TCC_SPACE_ALIAS)
            lw->buffers.at[b].index = number[lw->buffers.at[b].index];
    for (int w = 0; w < lw->weights.n; w++)
        lw->weights.at[w].buffer = number[lw->weights.at[w].buffer];
    for (int e = 0; e < p->nentries; e++) {
        struct kn_entry *entry = &p->entries[e];
        renumber(lw, &entry->steps, number);
        entry->input_buffers = renumbered(lw, entry->ninputs, entry->input_buffers, number);
        entry->output_buffers = renumbered(lw, entry->noutputs, entry->output_buffers, number);
    }
}
