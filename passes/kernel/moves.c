/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moves.c - moves inside a kernel: the element of a move's result at an index is that of its operand at another, so
 * moves are access maps (Halide's inlining, inline.c). Gathers bind a symbol to an index that is read; pads and concats
 * choose under guards.
 */
#include "passes/lower_int.h"

#include <math.h>
#include <string.h>

#include "base/mutant.h"

static int inline_reshape(struct kb *k, int stage, struct ir_value *v, const ir_expr *idx)
{
    struct ir_value *x = v->def->in[0].value;
    ir_expr at[TCC_MAX_RANK];
    /* Reshapes of a value that lies plainly in memory: the same memory, read with the last one's dims. */
    while (kb_is_here(k, x) && x->def->op == IR_reshape && x != k->group->results[0].value)
        x = x->def->in[0].value;
    if (!kb_is_here(k, x) && !kb_may_join(k, x) && !k->lw->layout[x->id] && !ir_splat_f(x, &(double){0}))
        return kb_load_as(k, stage, x, v->type, idx);
    x = v->def->in[0].value;
    lw_reshape_index(k->ctx, v->type, x->type, idx, at);
    return kb_value(k, stage, x, at);
}

static int inline_pad(struct kb *k, int stage, struct ir_value *v, const ir_expr *idx)
{
    const struct ir_node *n = v->def;
    struct ir_value *x = n->in[0].value;
    const struct ir_attr *before = ir_attr(n, IR_ATTR_before);
    const char *mode = ir_get_s(n, IR_ATTR_mode, "constant");
    struct ir_ctx *ctx = k->ctx;
    ir_expr at[TCC_MAX_RANK], zero = ir_const(ctx, 0);
    struct kn_guard guards[TCC_MAX_RANK];
    int nguards = 0;
    for (int i = 0; i < v->type->rank; i++) {
        ir_expr d = x->type->dim[i], e = ir_sub(ctx, idx[i], before->exprs[i]);
        at[i] = e;
        if (v->type->dim[i] == d)
            continue;
        if (!strcmp(mode, "constant")) {
            guards[nguards++] = (struct kn_guard){e, zero, d};
        } else if (!strcmp(mode, "edge")) {
            at[i] = ir_max(ctx, zero, ir_min(ctx, e, ir_addc(ctx, d, -1)));
        } else if (!strcmp(mode, "wrap")) {
            at[i] = ir_mod(ctx, e, d);
        } else { /* reflect: period 2(d-1); |e| folded back */
            ir_expr last = ir_addc(ctx, d, -1), period = ir_max(ctx, ir_const(ctx, 1), ir_mulc(ctx, last, 2));
            ir_expr m = ir_mod(ctx, e, period);
            at[i] = ir_min(ctx, m, ir_max(ctx, zero, ir_sub(ctx, period, m)));
        }
    }
    if (!nguards)
        return kb_value(k, stage, x, at);
    int otherwise;
    if (n->nin > 1 && n->in[1].value)
        otherwise = kb_value(k, stage, n->in[1].value, NULL);
    else
        otherwise = kb_const(k, stage, v->type->dtype, 0, 0);
    int saved = kb_push_guards(k, nguards, guards);
    if (k->guards == saved)
        return kb_value(k, stage, x, at);
    int id = kb_value(k, stage, x, at);
    struct kn_insn insn = k->insns.at[id].insn, *other = &k->insns.at[otherwise].insn;
    bool alone = insn.guards == k->guard_sets.at[k->guards].at && !k->guard_sets.at[saved].n && !k->locals.n;
    bool zero_pad = other->code == KN_CONST && other->fvalue == 0 && !signbit(other->fvalue) && other->ivalue == 0;
    k->guards = saved;
    if (insn.code == KN_LOAD && zero_pad)
        return id;
    if (insn.code == KN_LOAD && alone && other->code == KN_CONST && insn.arg[0] < 0 && insn.dtype == other->dtype) {
        insn.arg[0] = otherwise;
        insn.nargs = 1;
        return kb_insn(k, stage, insn);
    }
    int args[3] = {kb_inside(k, stage, nguards, guards), id, otherwise};
    return kb_scalar(k, stage, IR_select, v->type->dtype, 3, args);
}

/* x where the guards hold that are pushed, in terms of what is left to vary then. */
static ir_expr where_guarded(struct kb *k, ir_expr x)
{
    struct ir_ctx *ctx = k->ctx;
    for (int g = 0; g < k->guard_sets.at[k->guards].n; g++) {
        const struct kn_guard *t = &k->guard_sets.at[k->guards].at[g];
        for (int d = 0; d < k->dims.n; d++) {
            ir_expr var = k->dims.at[d].var, coef, rest;
            if (!ir_uses_sym(x, var) || !ir_uses_sym(t->e, var) || !ir_linear_in(ctx, t->e, var, &coef, &rest) ||
                !ir_is_value(coef, 1))
                continue;
            ir_expr inside = ir_iter(ctx, "t", ir_sub(ctx, t->hi, t->lo));
            ir_expr at = ir_add(ctx, inside, ir_sub(ctx, t->lo, rest));
            x = ir_subst(ctx, x, 1, &var, &at);
            break;
        }
    }
    return x;
}

/* Integer instruction `id` where the guards hold that are pushed, elsewhere 0: of a point that is not read no index is
 * bad. */
static int index_where_guarded(struct kb *k, int stage, int id)
{
    const struct kn_insn *n = &k->insns.at[id].insn;
    int nguards = k->guard_sets.at[k->guards].n, dtype = n->dtype;
    if (!nguards || n->code == KN_CONST || (n->code == KN_LOAD && n->arg[0] < 0))
        return id;
    int inside = kb_inside(k, stage, nguards, k->guard_sets.at[k->guards].at);
    return kb_scalar(k, stage, IR_select, dtype, 3, (int[]){inside, id, kb_const(k, stage, dtype, 0, 0)});
}

/* The symbol that stands for the value of integer instruction `id` as an index of node n's in [0, bound). */
static ir_expr index_symbol(struct kb *k, int stage, const struct ir_node *n, int id, ir_expr bound)
{
    const struct kn_insn *known = &k->insns.at[id].insn;
    int64_t limit;
    if (known->code == KN_CONST && ir_is_const(bound, &limit)) {
        int64_t v = known->ivalue < 0 ? known->ivalue + limit : known->ivalue;
        if (v >= 0 && v < limit)
            return ir_const(k->ctx, v);
    }
    ir_expr value = known->code == KN_EXPR ? where_guarded(k, known->expr) : NULL;
    if (value && ir_expr_le(k->ctx, ir_const(k->ctx, 0), value) == IR_YES &&
        ir_expr_le(k->ctx, ir_addc(k->ctx, value, 1), bound) == IR_YES)
        return known->expr;
    id = index_where_guarded(k, stage, id);
    for (int i = 0; i < k->insns.n; i++) {
        const struct kn_insn *insn = &k->insns.at[i].insn;
        if (insn->code == KN_INDEX && insn->arg[0] == id && insn->bound == bound &&
            kb_usable_from(k, stage, k->insns.at[i].stage, i))
            return insn->expr;
    }
    if (k->stages.at[stage].repeat && k->stages.at[stage].inner)
        k->failed = "attention's products read by an indirect index"; /* targets walk their operands */
    int64_t hi;
    ir_expr sym = ir_fresh(k->ctx, "g", 0, ir_is_const(bound, &hi) && hi > 0 ? hi - 1 : INT64_C(1) << 40);
    VEC_PUSH(k->ctx, k->locals, (__typeof__(*k->locals.at)){sym, stage});
    kb_index(k, stage, n, id, sym, bound);
    return sym;
}

/* x's element where indices from data are among `at`. It may be the same everywhere: then only this finds a bad
 * index. */
static int picked(struct kb *k, int stage, struct ir_value *x, const ir_expr *at)
{
    int id = kb_value(k, stage, x, at);
    for (int i = 0; i < k->insns.n; i++) {
        const struct kn_insn *insn = &k->insns.at[i].insn;
        for (int d = 0; insn->code == KN_INDEX && d < x->type->rank; d++)
            if (MUTANT(331, ir_uses_sym(at[d], insn->expr), false))
                VEC_PUSH(k->ctx, k->needs, (__typeof__(*k->needs.at)){id, i});
    }
    return id;
}

static int inline_gather(struct kb *k, int stage, struct ir_value *v, const ir_expr *idx)
{
    const struct ir_node *n = v->def;
    struct ir_value *x = n->in[0].value, *index = n->in[1].value;
    int axis = ir_get_i(n, IR_ATTR_axis, 0), q = index->type->rank;
    ir_expr at[TCC_MAX_RANK];
    int id = kb_value(k, stage, index, idx + axis);
    ir_expr sym = index_symbol(k, stage, n, id, x->type->dim[axis]);
    for (int i = 0; i < x->type->rank; i++)
        at[i] = i < axis ? idx[i] : i == axis ? sym : idx[i + q - 1];
    return picked(k, stage, x, at);
}

static int inline_gather_elements(struct kb *k, int stage, struct ir_value *v, const ir_expr *idx)
{
    const struct ir_node *n = v->def;
    struct ir_value *x = n->in[0].value;
    int axis = ir_get_i(n, IR_ATTR_axis, 0);
    ir_expr at[TCC_MAX_RANK];
    int id = kb_value(k, stage, n->in[1].value, idx);
    for (int i = 0; i < x->type->rank; i++)
        at[i] = i == axis ? index_symbol(k, stage, n, id, x->type->dim[axis]) : idx[i];
    return picked(k, stage, x, at);
}

static int inline_gather_nd(struct kb *k, int stage, struct ir_value *v, const ir_expr *idx)
{
    const struct ir_node *n = v->def;
    struct ir_value *x = n->in[0].value, *index = n->in[1].value;
    int batch = ir_get_i(n, IR_ATTR_batch_dims, 0), q = index->type->rank;
    int64_t depth = ir_const_or(index->type->dim[q - 1], 0);
    ir_expr at[TCC_MAX_RANK], sub[TCC_MAX_RANK];
    for (int i = 0; i < q - 1; i++)
        sub[i] = idx[i];
    for (int i = 0; i < batch; i++)
        at[i] = idx[i];
    for (int64_t d = 0; d < depth; d++) {
        sub[q - 1] = ir_const(k->ctx, d);
        int id = kb_value(k, stage, index, sub);
        at[batch + d] = index_symbol(k, stage, n, id, x->type->dim[batch + d]);
    }
    for (int i = batch + depth; i < x->type->rank; i++)
        at[i] = idx[q - 1 + i - (batch + depth)];
    return picked(k, stage, x, at);
}

static int inline_concat(struct kb *k, int stage, struct ir_value *v, const ir_expr *idx)
{
    const struct ir_node *n = v->def;
    int axis = ir_get_i(n, IR_ATTR_axis, 0), result = -1;
    ir_expr offset = ir_const(k->ctx, 0), at[TCC_MAX_RANK];
    for (int i = 0; i < v->type->rank; i++)
        at[i] = idx[i];
    int64_t shift, size;
    if (lw_is_circular_shift(n, &shift, &size)) {
        at[axis] = ir_mod(k->ctx, ir_addc(k->ctx, idx[axis], shift), ir_const(k->ctx, size));
        return kb_value(k, stage, n->in[0].value->def->in[0].value, at);
    }
    for (int i = 0; i < n->nin; i++) {
        struct ir_value *x = n->in[i].value;
        at[axis] = ir_sub(k->ctx, idx[axis], offset);
        struct kn_guard g = {at[axis], ir_const(k->ctx, 0), x->type->dim[axis]};
        int saved = kb_push_guards(k, 1, &g);
        int id = kb_value(k, stage, x, at);
        k->guards = saved;
        if (result < 0) {
            result = id;
        } else {
            int args[3] = {kb_inside(k, stage, 1, &g), id, result};
            result = kb_scalar(k, stage, IR_select, v->type->dtype, 3, args);
        }
        offset = ir_add(k->ctx, offset, x->type->dim[axis]);
    }
    return result;
}

static int inline_dims(struct kb *k, int stage, struct ir_value *v, const ir_expr *idx)
{
    const struct ir_attr *a = ir_attr(v->def, IR_ATTR_exprs);
    int64_t at;
    if (v->type->rank == 0)
        return kb_expr(k, stage, TCC_I64, a->exprs[0]);
    if (ir_is_const(idx[0], &at) && at >= 0 && at < a->n)
        return kb_expr(k, stage, TCC_I64, a->exprs[at]);
    int result = kb_expr(k, stage, TCC_I64, a->exprs[0]);
    for (int i = 1; i < a->n; i++) {
        int where[2] = {kb_expr(k, stage, TCC_I64, idx[0]), kb_const(k, stage, TCC_I64, i, i)};
        int args[3] = {kb_scalar(k, stage, IR_eq, TCC_BOOL, 2, where), kb_expr(k, stage, TCC_I64, a->exprs[i]), result};
        result = kb_scalar(k, stage, IR_select, TCC_I64, 3, args);
    }
    return result;
}

static int random_seed(struct kb *k, int stage, const struct ir_node *n)
{
    int args[2] = {kb_const(k, stage, TCC_U64, 0, ir_get_i(n, IR_ATTR_seed, 0)), kb_env(k, stage, KN_SEED)};
    return kb_scalar(k, stage, IR_add, TCC_U64, 2, args);
}

static int random_counter(struct kb *k, int stage, const struct ir_node *n)
{
    int shift[2] = {kb_cast(k, stage, kb_env(k, stage, KN_RUN), TCC_U64), kb_const(k, stage, TCC_U64, 0, 32)};
    int args[2] = {kb_const(k, stage, TCC_U64, 0, (int64_t)(uint32_t)ir_get_i(n, IR_ATTR_stream, 0)),
                   kb_scalar(k, stage, IR_shl, TCC_U64, 2, shift)};
    return kb_scalar(k, stage, IR_or, TCC_U64, 2, args);
}

/* Two numbers, of which kernels read one each: seed and run are the environment's, so no step in front makes them. */
static int inline_random_key(struct kb *k, int stage, const struct ir_node *n, const ir_expr *idx)
{
    int64_t which;
    if (ir_is_const(idx[0], &which))
        return which == 0 ? random_seed(k, stage, n) : random_counter(k, stage, n);
    int first[2] = {kb_expr(k, stage, TCC_I64, idx[0]), kb_const(k, stage, TCC_I64, 0, 0)};
    int args[3] = {kb_scalar(k, stage, IR_eq, TCC_BOOL, 2, first), random_seed(k, stage, n),
                   random_counter(k, stage, n)};
    return kb_scalar(k, stage, IR_select, TCC_U64, 3, args);
}

int kb_move(struct kb *k, int stage, struct ir_value *v, const ir_expr *idx)
{
    const struct ir_node *n = v->def;
    struct ir_value *x = n->nin ? n->in[0].value : NULL;
    ir_expr at[TCC_MAX_RANK];
    const struct ir_attr *a;
    switch (n->op) {
    case IR_relayout: return kb_value(k, stage, x, idx);
    case IR_reshape: return inline_reshape(k, stage, v, idx);
    case IR_transpose:
        a = ir_attr(n, IR_ATTR_perm);
        for (int i = 0; i < a->n; i++)
            at[a->ints[i]] = idx[i];
        return kb_value(k, stage, x, at);
    case IR_expand: kb_broadcast_index(k, x, idx, v->type->rank, at); return kb_value(k, stage, x, at);
    case IR_slice:
        for (int i = 0; i < v->type->rank; i++)
            at[i] = ir_add(k->ctx, ir_attr(n, IR_ATTR_starts)->exprs[i],
                           ir_mul(k->ctx, idx[i], ir_attr(n, IR_ATTR_steps)->exprs[i]));
        return kb_value(k, stage, x, at);
    case IR_iota: return kb_expr(k, stage, v->type->dtype, idx[ir_get_i(n, IR_ATTR_axis, 0)]);
    case IR_random_key: return inline_random_key(k, stage, n, idx);
    case IR_dim:
    case IR_dims: return inline_dims(k, stage, v, idx);
    case IR_pad: return inline_pad(k, stage, v, idx);
    case IR_gather: return inline_gather(k, stage, v, idx);
    case IR_gather_elements: return inline_gather_elements(k, stage, v, idx);
    case IR_gather_nd: return inline_gather_nd(k, stage, v, idx);
    case IR_concat: return inline_concat(k, stage, v, idx);
    default: k->failed = "not a move"; return 0;
    }
}
