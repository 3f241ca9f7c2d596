/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boxes.c - loads of an open kernel (open.c) that have a value at some points of an open dim only, as those of a pad.
 * Whether a turn's points are such points would depend on where it is. So the kernel is two, one behind the other: with
 * what the loads give elsewhere, at all points; then as it is, at the points inside, which are a box.
 */
#include <string.h>

#include "compiler/neuron/neuron_int.h"

/* Points [lo, hi) of a dim; dim -1: it is none yet. */
struct side {
    int dim;
    ir_expr lo, hi;
};
struct box {
    int n;
    struct side side[KN_MAX_DIMS];
};

/* The open outer dim that the guard is of, and its points inside; -1: it is of none; -2: of several, or not so. */
static int side_of(struct ir_ctx *ctx, const struct kn_kernel *k, const struct kn_guard *g, struct side *to)
{
    ir_expr times, rest;
    int dim = -1;
    for (int d = 0; d < k->ndims; d++) {
        if (!nk_uses_size(k, k->dims[d].extent) || !ir_uses_sym(g->e, k->dims[d].var))
            continue;
        if (dim >= 0 || k->dims[d].role != KN_OUTER || !ir_linear_in(ctx, g->e, k->dims[d].var, &times, &rest) ||
            !ir_is_value(times, 1))
            return -2;
        dim = d;
    }
    for (int d = 0; dim >= 0 && d < k->ndims; d++)
        if (ir_uses_sym(rest, k->dims[d].var) || ir_uses_sym(g->lo, k->dims[d].var) ||
            ir_uses_sym(g->hi, k->dims[d].var))
            return -2;
    if (dim >= 0)
        *to = (struct side){dim, ir_sub(ctx, g->lo, rest), ir_sub(ctx, g->hi, rest)};
    return dim;
}

/* Where a load has a value, as far as open dims say. False: it is no box. */
static bool box_of(struct ir_ctx *ctx, const struct kn_kernel *k, const struct kn_insn *n, struct box *to)
{
    to->n = 0;
    for (int g = 0; g < n->nguards; g++) {
        struct side s;
        int dim = side_of(ctx, k, &n->guards[g], &s);
        if (dim == -2 || to->n == KN_MAX_DIMS)
            return false;
        if (dim < 0)
            continue;
        for (int i = 0; i < to->n; i++)
            if (to->side[i].dim == dim)
                return false;
        to->side[to->n++] = s;
    }
    return true;
}

static bool is_same(const struct box *a, const struct box *b)
{
    for (int i = 0; i < a->n && a->n == b->n; i++)
        if (a->side[i].dim != b->side[i].dim || a->side[i].lo != b->side[i].lo || a->side[i].hi != b->side[i].hi)
            return false;
    return a->n == b->n;
}

/* The box of all loads that have one; n 0: none has, or they have several. */
static struct box find_box(struct ir_ctx *ctx, const struct kn_kernel *k)
{
    struct box all = {0}, one;
    for (int i = 0; i < k->ninsns; i++) {
        if (!k->insns[i].nguards)
            continue;
        if (!box_of(ctx, k, &k->insns[i], &one) ||
            (one.n && (k->insns[i].code != KN_LOAD || (all.n && !is_same(&all, &one)))))
            return (struct box){0};
        all = one.n ? one : all;
    }
    for (int i = 0; i < all.n; i++) { /* inside the kernel's points */
        struct side *s = &all.side[i];
        ir_expr zero = ir_const(ctx, 0), extent = k->dims[s->dim].extent;
        s->lo = ir_expr_le(ctx, s->lo, zero) == IR_YES ? zero : s->lo;
        s->hi = ir_expr_le(ctx, extent, s->hi) == IR_YES ? extent : s->hi;
        if (ir_expr_le(ctx, zero, s->lo) != IR_YES || ir_expr_le(ctx, s->hi, extent) != IR_YES)
            return (struct box){0};
    }
    return all;
}

static bool has_side(struct ir_ctx *ctx, const struct kn_kernel *k, const struct kn_guard *g)
{
    struct side s;
    return side_of(ctx, k, g, &s) >= 0;
}

/* The kernel with what loads give outside of the box. */
static const struct kn_kernel *outside(struct ir_ctx *ctx, const struct kn_kernel *from)
{
    struct kn_kernel *k = nk_copy_kernel(ctx, from);
    for (int i = 0; i < k->ninsns; i++) {
        struct kn_insn *n = &k->insns[i];
        bool leaves = false;
        for (int g = 0; n->code == KN_LOAD && g < n->nguards; g++)
            leaves |= has_side(ctx, from, &n->guards[g]);
        if (leaves && n->arg[0] >= 0)
            *n = (struct kn_insn){
                .code = KN_SCALAR, .dtype = n->dtype, .op = IR_cast, .nargs = 1, .arg = {n->arg[0], -1, -1}};
        else if (leaves)
            *n = (struct kn_insn){.code = KN_CONST, .dtype = n->dtype, .arg = {-1, -1, -1}};
    }
    kn_find_roles(k, &k->roles);
    return k;
}

/* The kernel at the points of the box, without the guards that say so. */
static const struct kn_kernel *inside(struct ir_ctx *ctx, const struct kn_kernel *from, const struct box *b)
{
    struct kn_kernel *k = nk_copy_kernel(ctx, from);
    ir_expr old[KN_MAX_DIMS], at[KN_MAX_DIMS];
    struct kn_dim dims[KN_MAX_DIMS];
    for (int i = 0; i < k->ninsns; i++) {
        struct kn_insn *n = &k->insns[i];
        struct kn_guard *left = IR_NEWN(ctx, n->nguards + 1, struct kn_guard);
        int nleft = 0;
        for (int g = 0; g < n->nguards; g++)
            if (!has_side(ctx, from, &n->guards[g]))
                left[nleft++] = n->guards[g];
        n->guards = left;
        n->nguards = nleft;
    }
    memcpy(dims, k->dims, (size_t)k->ndims * sizeof *dims);
    for (int i = 0; i < b->n; i++) {
        const struct side *s = &b->side[i];
        ir_expr extent = ir_sub(ctx, s->hi, s->lo);
        dims[s->dim].var = ir_iter_at(ctx, KN_MAX_DIMS + 2 * k->ndims + 2 + s->dim, extent);
        dims[s->dim].extent = extent;
        old[i] = k->dims[s->dim].var;
        at[i] = ir_add(ctx, dims[s->dim].var, s->lo);
    }
    kn_subst(ctx, k, b->n, old, at);
    memcpy(k->dims, dims, (size_t)k->ndims * sizeof *dims);
    kn_find_roles(k, &k->roles);
    return k;
}

int nk_boxes(struct ir_ctx *ctx, const struct kn_kernel *k, const struct kn_kernel **to)
{
    struct box b = find_box(ctx, k);
    to[0] = k;
    if (!b.n || kn_has(k, KN_BIT(KN_SCAN)))
        return 1;
    to[0] = outside(ctx, k);
    to[1] = inside(ctx, k, &b);
    return 2;
}
