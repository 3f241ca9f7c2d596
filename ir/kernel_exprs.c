/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_exprs.c - the integer expressions of a kernel: visited, put in each other's place, and the sizes in them. */
#include "ir/ir.h"

void kn_each_expr(const struct kn_kernel *k, void (*visit)(void *user, ir_expr e), void *user)
{
    for (int i = 0; i < k->ndims; i++)
        visit(user, k->dims[i].extent);
    for (int i = 0; i < k->noperands; i++) {
        for (int d = 0; d < k->operands[i].rank; d++)
            visit(user, k->operands[i].dims[d]);
    }
    for (int i = 0; i < k->ninsns; i++) {
        const struct kn_insn *n = &k->insns[i];
        for (int d = 0; d < n->nindex; d++)
            visit(user, n->index[d]);
        for (int g = 0; g < n->nguards; g++) {
            visit(user, n->guards[g].e);
            visit(user, n->guards[g].lo);
            visit(user, n->guards[g].hi);
        }
        if (n->code == KN_EXPR)
            visit(user, n->expr);
        if (n->bound)
            visit(user, n->bound);
    }
    if (k->split.step)
        visit(user, k->split.step);
}

static void map_insn(struct ir_ctx *ctx, struct kn_insn *n, ir_expr (*map)(void *user, ir_expr e), void *user)
{
    ir_expr *index = IR_NEWN(ctx, n->nindex + 1, ir_expr);
    struct kn_guard *guards = IR_NEWN(ctx, n->nguards + 1, struct kn_guard);
    for (int d = 0; d < n->nindex; d++)
        index[d] = map(user, n->index[d]);
    for (int g = 0; g < n->nguards; g++)
        guards[g] =
            (struct kn_guard){map(user, n->guards[g].e), map(user, n->guards[g].lo), map(user, n->guards[g].hi)};
    n->index = index;
    n->guards = guards;
    if (n->code == KN_EXPR)
        n->expr = map(user, n->expr);
    if (n->bound)
        n->bound = map(user, n->bound);
}

void kn_map_exprs(struct ir_ctx *ctx, struct kn_kernel *k, ir_expr (*map)(void *user, ir_expr e), void *user)
{
    for (int d = 0; d < k->ndims; d++)
        k->dims[d].extent = map(user, k->dims[d].extent);
    for (int o = 0; o < k->noperands; o++)
        for (int d = 0; d < k->operands[o].rank; d++)
            k->operands[o].dims[d] = map(user, k->operands[o].dims[d]);
    for (int i = 0; i < k->ninsns; i++)
        map_insn(ctx, &k->insns[i], map, user);
    if (k->split.step)
        k->split.step = map(user, k->split.step);
}

struct substitution {
    struct ir_ctx *ctx;
    int n;
    const ir_expr *from, *to;
};

static ir_expr substituted(void *user, ir_expr e)
{
    const struct substitution *s = user;
    return ir_subst(s->ctx, e, s->n, s->from, s->to);
}

void kn_subst_insn(struct ir_ctx *ctx, struct kn_insn *insn, int n, const ir_expr *from, const ir_expr *to)
{
    map_insn(ctx, insn, substituted, &(struct substitution){ctx, n, from, to});
}

void kn_subst(struct ir_ctx *ctx, struct kn_kernel *k, int n, const ir_expr *from, const ir_expr *to)
{
    kn_map_exprs(ctx, k, substituted, &(struct substitution){ctx, n, from, to});
}

struct finder {
    struct ir_ctx *ctx;
    const struct kn_kernel *k;
    VEC(ir_expr) found;
};

static void note_size(void *user, ir_expr sym)
{
    struct finder *f = user;
    for (int i = 0; i < f->k->ndims; i++) {
        if (f->k->dims[i].var == sym)
            return;
    }
    for (int i = 0; i < f->k->ninsns; i++) {
        if (f->k->insns[i].code == KN_INDEX && f->k->insns[i].expr == sym)
            return;
    }
    for (int i = 0; i < f->found.n; i++) {
        if (f->found.at[i] == sym)
            return;
    }
    VEC_PUSH(f->ctx, f->found, sym);
}

static void note_expr(void *user, ir_expr e)
{
    ir_each_sym(e, note_size, user);
}

void kn_find_sizes(struct ir_ctx *ctx, struct kn_kernel *k)
{
    struct finder f = {.ctx = ctx, .k = k};
    kn_each_expr(k, note_expr, &f);
    VEC_GIVE(f.found, k->sizes, k->nsizes);
}
