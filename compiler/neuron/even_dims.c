/* SPDX-License-Identifier: Apache-2.0 */
/*
 * even_dims.c - dims of a kernel as loops of turns (open.c) need them: one that accesses divide by sizes becomes two,
 * and two axes of an operand of which accesses have quotient and remainder of one number are one axis.
 */
#include <string.h>

#include "compiler/neuron/open_int.h"

static bool is_part(ir_expr e, enum ir_expr_kind kind, ir_expr of, ir_expr by)
{
    return by && e->kind == kind && (!of || e->arg[0] == of) && e->arg[1] == by;
}

/* Do all accesses of the operand have quotient and remainder of a number by axis a + 1 in these two axes? */
static bool is_one_axis(const struct kn_kernel *k, int operand, int a)
{
    ir_expr by = k->operands[operand].dims[a + 1];
    bool any = false;
    for (int i = 0; i < k->ninsns; i++) {
        const struct kn_insn *n = &k->insns[i];
        if (!kn_accesses(n, operand))
            continue;
        if (!is_part(n->index[a], IR_X_FLOORDIV, NULL, by) ||
            !is_part(n->index[a + 1], IR_X_MOD, n->index[a]->arg[0], by))
            return false;
        any = true;
    }
    return any && nk_uses_size(k, by);
}

static void make_one_axis(struct ir_ctx *ctx, struct kn_kernel *k, int operand, int a)
{
    struct kn_operand *o = &k->operands[operand];
    o->dims[a] = ir_mul(ctx, o->dims[a], o->dims[a + 1]);
    o->rank--;
    for (int d = a + 1; d < o->rank; d++)
        o->dims[d] = o->dims[d + 1];
    for (int i = 0; i < k->ninsns; i++) {
        struct kn_insn *n = &k->insns[i];
        if (!kn_accesses(n, operand))
            continue;
        ir_expr *index = IR_NEWN(ctx, n->nindex, ir_expr);
        for (int d = 0; d < n->nindex - 1; d++)
            index[d] = d == a ? n->index[a]->arg[0] : n->index[d + (d > a)];
        n->index = index;
        n->nindex--;
    }
}

/* What the variable is divided by that has sizes; NULL: nothing. */
static ir_expr divisor_of(const struct kn_kernel *k, ir_expr e, ir_expr var)
{
    ir_expr found = NULL;
    if ((e->kind == IR_X_MOD || e->kind == IR_X_FLOORDIV) && e->arg[0] == var && nk_uses_size(k, e->arg[1]))
        return e->arg[1];
    for (int a = 0; a < e->nargs && !found; a++)
        found = divisor_of(k, e->arg[a], var);
    return found;
}

static uint32_t make_room(uint32_t set, int d)
{
    uint32_t below = (1u << d) - 1;
    return (set & below) | (set & ~below) << 1;
}

/* How often `by` is in e, as an expression; NULL: it is no factor of it. */
static ir_expr times_in(struct ir_ctx *ctx, const struct kn_kernel *k, ir_expr e, ir_expr by)
{
    int64_t all = 1, part = 1;
    uint16_t sizes = 0, some = 0;
    if (!nk_factors(k, e, &all, &sizes) || !nk_factors(k, by, &part, &some) || part < 1 || all % part)
        return NULL;
    ir_expr high = ir_const(ctx, all / part);
    for (int s = 0; s < NEURON_SIZES; s++) {
        int left = (sizes >> 2 * s & NEURON_POWER) - (some >> 2 * s & NEURON_POWER);
        if (left < 0)
            return NULL;
        for (; left; left--)
            high = ir_mul(ctx, high, k->sizes[s]);
    }
    return high;
}

/* Outer dim d as two: quotient, `high` of them, and remainder by `by`. */
static void split_dim(struct ir_ctx *ctx, struct kn_kernel *k, int d, ir_expr high, ir_expr by)
{
    ir_expr var = k->dims[d].var, quotient = ir_iter_at(ctx, KN_MAX_DIMS + 2 * k->ndims, high);
    ir_expr rest = ir_iter_at(ctx, KN_MAX_DIMS + 2 * k->ndims + 1, by);
    ir_expr from[] = {ir_floordiv(ctx, var, by), ir_mod(ctx, var, by), var};
    ir_expr to[] = {quotient, rest, ir_add(ctx, ir_mul(ctx, quotient, by), rest)};
    struct kn_dim *dims = IR_NEWN(ctx, k->ndims + 1, struct kn_dim);
    for (int i = 0; i < k->ndims; i++)
        dims[i + (i > d)] = k->dims[i];
    dims[d] = (struct kn_dim){quotient, high, KN_OUTER};
    dims[d + 1] = (struct kn_dim){rest, by, KN_OUTER};
    kn_subst(ctx, k, 3, from, to);
    k->dims = dims;
    k->ndims++;
    for (int s = 0; s < k->nstages; s++) {
        k->stages[s].inner = make_room(k->stages[s].inner, d);
        k->stages[s].repeat = make_room(k->stages[s].repeat, d);
    }
}

/* Of one dim of the kernel, if one is divided. */
static bool split_any(struct ir_ctx *ctx, struct kn_kernel *k)
{
    for (int d = 0; d < k->ndims; d++)
        for (int i = 0; i < k->ninsns && k->dims[d].role == KN_OUTER && k->ndims < KN_MAX_DIMS; i++)
            for (int x = 0; x < k->insns[i].nindex; x++) {
                ir_expr by = divisor_of(k, k->insns[i].index[x], k->dims[d].var);
                ir_expr high = by ? times_in(ctx, k, k->dims[d].extent, by) : NULL;
                if (!high)
                    continue;
                split_dim(ctx, k, d, high, by);
                return true;
            }
    return false;
}

/* Is it an index of which all is known, by a dim, of the first axis? Where there are more points than the axis has, the
 * access is beyond its tensor, which the run is told. */
static bool is_dim_index(const struct kn_kernel *k, int insn)
{
    const struct kn_insn *n = &k->insns[insn];
    bool fine = n->code == KN_INDEX && k->insns[n->arg[0]].code == KN_EXPR && !n->nguards, is_dim = false;
    for (int d = 0; fine && d < k->ndims; d++)
        is_dim |= k->insns[n->arg[0]].expr == k->dims[d].var;
    for (int i = 0; fine && is_dim && i < k->ninsns; i++) {
        const struct kn_insn *x = &k->insns[i];
        bool elsewhere = x != n && (x->code != KN_LOAD || kn_guards_use(x, n->expr)) && kn_insn_uses(x, n->expr);
        for (int p = 1; p < x->nindex; p++)
            elsewhere |= ir_uses_sym(x->index[p], n->expr);
        fine = !elsewhere;
        for (int a = 0; a < x->nargs; a++)
            fine &= x->arg[a] != insn && (x->arg[a] != n->arg[0] || x == n);
    }
    return fine && is_dim;
}

/* Such an index is the dim; what it was is a number that nobody asks for. */
static void put_dim(struct ir_ctx *ctx, struct kn_kernel *k, int insn)
{
    struct kn_insn *n = &k->insns[insn], *value = &k->insns[n->arg[0]];
    ir_expr from = n->expr, to = value->expr;
    *n = *value = (struct kn_insn){.code = KN_CONST, .dtype = value->dtype, .arg = {-1, -1, -1}};
    kn_subst(ctx, k, 1, &from, &to);
}

bool nk_even_dims(struct ir_ctx *ctx, struct kn_kernel *k)
{
    bool changed = false;
    for (int o = 0; o < k->noperands; o++)
        for (int a = k->operands[o].rank - 2; a >= 0; a--)
            if (is_one_axis(k, o, a)) {
                make_one_axis(ctx, k, o, a);
                changed = true;
            }
    for (int i = 0; i < k->ninsns; i++)
        if (is_dim_index(k, i)) {
            put_dim(ctx, k, i);
            changed = true;
        }
    while (split_any(ctx, k))
        changed = true;
    if (changed)
        kn_find_roles(k, &k->roles);
    return changed;
}
