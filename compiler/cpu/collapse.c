/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes kernels easy to run as loops: dims of one point are dropped, and neighbouring dims that all accesses walk as
 * one are joined (n, c, h, w of an addition become one dim; h, w of a mean over both become one). Operands become flat:
 * one physical axis, the index being the linear offset. The kernel's meaning stays the same.
 */
#include "compiler/cpu/emit_int.h"

struct collapse {
    struct ir_ctx *ctx;
    struct kn_kernel *k;
};

/* Instructions alone: operands are flat when dims are joined. */
static void substitute(struct collapse *c, ir_expr from, ir_expr to)
{
    for (int i = 0; i < c->k->ninsns; i++)
        kn_subst_insn(c->ctx, &c->k->insns[i], 1, &from, &to);
}

/* -- Flat operands --------------------------------------------------------------------------------------- */

static void flatten(struct collapse *c)
{
    struct kn_kernel *k = c->k;
    for (int i = 0; i < k->ninsns; i++) {
        struct kn_insn *n = &k->insns[i];
        if (n->code != KN_LOAD && n->code != KN_STORE)
            continue;
        ir_expr *index = IR_NEW(c->ctx, ir_expr);
        *index = kn_flat_offset(c->ctx, &k->operands[n->operand], n->index);
        n->index = index;
        n->nindex = 1;
    }
    for (int i = 0; i < k->noperands; i++) {
        struct kn_operand *o = &k->operands[i];
        ir_expr size = ir_const(c->ctx, 1);
        for (int j = 0; j < o->rank; j++)
            size = ir_mul(c->ctx, size, o->dims[j]);
        o->rank = 1;
        o->dims[0] = size;
    }
}

/* -- Joining ----------------------------------------------------------------------------------------------- */

static bool insn_mentions(const struct kn_insn *n, ir_expr var)
{
    return kn_guards_use(n, var) || (n->code == KN_EXPR && ir_uses_sym(n->expr, var)) ||
           (n->code == KN_INDEX && ir_uses_sym(n->bound, var));
}

/* Does every access move along (a, b) as along one dim: one step of a equals extent(b) steps of b? */
static bool walk_as_one(struct collapse *c, const struct kn_dim *a, const struct kn_dim *b)
{
    for (int i = 0; i < c->k->ninsns; i++) {
        const struct kn_insn *n = &c->k->insns[i];
        ir_expr ca, cb, rest;
        if (insn_mentions(n, a->var) || insn_mentions(n, b->var))
            return false;
        if (n->code == KN_SCAN && b->role == KN_INNER)
            return false;
        if (n->nindex == 0)
            continue;
        if (!ir_linear_in(c->ctx, n->index[0], a->var, &ca, &rest) || !ir_linear_in(c->ctx, rest, b->var, &cb, &rest))
            return false;
        if (ir_uses_sym(ca, b->var) || ca != ir_mul(c->ctx, cb, b->extent))
            return false;
    }
    return true;
}

/* Joins dims d and d + 1 if that is possible. */
static bool join(struct collapse *c, int d)
{
    struct kn_kernel *k = c->k;
    struct kn_dim *a = &k->dims[d], *b = &k->dims[d + 1];
    if (a->role != b->role || em_is_piece(k, d + 1))
        return false;
    for (int s = 0; s < k->nstages; s++)
        if ((k->stages[s].inner >> d & 1) != (k->stages[s].inner >> (d + 1) & 1))
            return false;
    if (!walk_as_one(c, a, b))
        return false;
    ir_expr extent = ir_mul(c->ctx, a->extent, b->extent), both = ir_iter(c->ctx, "c", extent);
    /* offset = ca a + cb b + rest = cb (extent(b) a + b) + rest: put the new variable for b, and 0 for a. */
    substitute(c, a->var, ir_const(c->ctx, 0));
    substitute(c, b->var, both);
    if (em_is_piece(k, d))
        k->split.step = ir_mul(c->ctx, k->split.step, b->extent);
    k->dims[d] = (struct kn_dim){both, extent, a->role};
    kn_remove_dim(k, d + 1);
    return true;
}

void cpu_collapse(struct ir_ctx *ctx, struct kn_kernel *k)
{
    struct collapse c = {ctx, k};
    if (kn_names_dims(k->roles.form))
        k->roles = (struct kn_roles){0};
    for (int d = k->ndims - 1; d >= 0; d--) {
        /* The last inner dim stays: its stages must keep one. */
        bool needed = em_is_piece(k, d);
        for (int s = 0; s < k->nstages; s++)
            needed = needed || k->stages[s].inner == 1u << d;
        if (!ir_is_value(k->dims[d].extent, 1) || needed)
            continue;
        substitute(&c, k->dims[d].var, ir_const(ctx, 0));
        kn_remove_dim(k, d);
    }
    flatten(&c);
    for (int d = k->ndims - 2; d >= 0; d--)
        while (d + 1 < k->ndims && join(&c, d))
            continue;
}
