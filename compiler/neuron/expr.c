/* SPDX-License-Identifier: Apache-2.0 */
/*
 * expr.c - integer expressions of the loops as values: GpSimd's index patterns, one for each box in which the
 * expression is linear. What divides along partitions, or depends on indices that a gather read, is computed from its
 * parts.
 */
#include "compiler/neuron/neuron_int.h"

enum { MOST_PATTERNS = 64 };

/* A box's numbers by one pattern, if it has no more than four dims. */
static bool pattern_of(struct nk *nk, const struct nk_tile *t, const struct nk_value *to, const struct nk_box *b,
                       const struct nk_line *l, struct neuron_instr *i)
{
    struct nk_pattern p = {0};
    int64_t step[NK_AXES];
    bool fits;
    *i = (struct neuron_instr){.op = NEURON_OP_IOTA, .noperands = 1};
    i->operand[0] = nk_box_operand(nk, t, to, b, &fits);
    for (int a = 1; a < t->n; a++) {
        int64_t n = b->n[a], stride = to->stride[a], last = p.n - 1;
        if (n == 1)
            continue;
        if (p.n && p.stride[last] == n * stride && step[last] == n * l->coef[a]) {
            p.size[last] *= n;
            p.stride[last] = stride;
            step[last] = l->coef[a];
            continue;
        }
        p.size[p.n] = n;
        p.stride[p.n] = stride;
        step[p.n++] = l->coef[a];
    }
    if (p.n > 4 || !nk_pattern_put(&p, &i->operand[0], 4))
        return false;
    for (int k = 0; k < p.n; k++)
        neuron_set_attr(i, (enum neuron_attr)(NEURON_ATTR_STEP0 + k), (union neuron_value){.i = (int32_t)step[k]});
    neuron_set_attr(i, NEURON_ATTR_BASE, (union neuron_value){.i = (int32_t)l->base});
    neuron_set_attr(i, NEURON_ATTR_CHANNEL, (union neuron_value){.i = (int32_t)l->coef[0]});
    return true;
}

/* NULL: not by a few patterns. */
static struct nk_value *by_patterns(struct nk *nk, const struct nk_tile *t, ir_expr e)
{
    VEC(struct nk_box) todo = {0};
    VEC(struct neuron_instr) made = {0};
    struct nk_value *to = nk_new(nk, t, TCC_I32);
    VEC_PUSH(nk->ctx, todo, nk_whole(t));
    for (int looked = 0; todo.n; looked++) {
        struct nk_box b = todo.at[--todo.n], half = b;
        struct neuron_instr i;
        struct nk_line l;
        int axis = 0;
        int64_t at;
        enum nk_linear how = nk_line_of(nk, t, &b, e, &l, &axis, &at);
        if (how == NK_LINEAR && pattern_of(nk, t, to, &b, &l, &i)) {
            VEC_PUSH(nk->ctx, made, i);
            continue;
        }
        if (how == NK_LINEAR) /* too many dims */
            for (axis = 1; b.n[axis] == 1; axis++)
                ;
        if (how == NK_LINEAR)
            at = b.n[axis] / 2;
        if (how == NK_UNKNOWN || axis == 0 || looked > 2 * MOST_PATTERNS) {
            nk_release(nk, to->buffer);
            return NULL;
        }
        half.lo[axis] += at;
        half.n[axis] -= at;
        b.n[axis] = at;
        VEC_PUSH(nk->ctx, todo, half);
        VEC_PUSH(nk->ctx, todo, b);
    }
    int group = ++nk->groups;
    for (int k = 0; k < made.n; k++)
        nk_emit(nk, NEURON_GPSIMD, &made.at[k], 1, (struct nk_use[]){{to->buffer, true, group}});
    return to;
}

/* Is it known to be an integer of 32 bits? Tensors of sizes that only the run knows have at most 2 GiB, so dims and
 * their indices are below 2^29. */
static bool fits(struct nk *nk, ir_expr e)
{
    enum { MOST = 1 << 29 };
    const struct kn_kernel *k = nk->k;
    ir_expr *from = IR_NEWN(nk->ctx, k->ndims + k->nsizes + 1, ir_expr),
            *to = IR_NEWN(nk->ctx, k->ndims + k->nsizes + 1, ir_expr);
    int n = 0;
    for (int i = 0; k->nsizes && i < k->ndims + k->nsizes; i++) {
        from[n] = i < k->ndims ? k->dims[i].var : k->sizes[i - k->ndims];
        if (from[n]->hi > MOST && ir_uses_sym(e, from[n])) {
            to[n] = ir_sym_bounded(nk->ctx, ir_internf(nk->ctx, "number %d below 2 GiB", n), 0, MOST);
            n++;
        }
    }
    e = ir_subst(nk->ctx, e, n, from, to);
    return e->lo >= INT32_MIN && e->hi <= INT32_MAX;
}

static const struct nk_value *by_parts(struct nk *nk, const struct nk_tile *t, ir_expr e)
{
    const struct nk_value *v;
    int64_t c;
    if (nk_size_of(nk->k, e) >= 0)
        return nk_size(nk, t, nk_size_of(nk->k, e));
    for (int i = 0; nk->where && i < nk->where->n; i++)
        if (nk->where->symbol[i] == e)
            return nk_where(nk, t, i);
    if (!fits(nk, e))
        nk_refuse(nk, "an index that may not fit in 32 bits");
    if (ir_is_const(e, &c))
        return nk_number(nk, TCC_I32, (double)c);
    for (int i = 0; e->kind == IR_X_SYM && i < nk->indices.n; i++)
        if (nk->indices.at[i].symbol == e)
            return nk->indices.at[i].value;
    if ((v = by_patterns(nk, t, e)))
        return v;
    if (e->kind == IR_X_SYM)
        nk_refuse(nk, "a number that only the run knows");
    v = by_parts(nk, t, e->arg[0]);
    for (int i = 1; i < e->nargs; i++) {
        static const enum neuron_alu alu[] = {[IR_X_ADD] = NEURON_ALU_ADD,
                                              [IR_X_MUL] = NEURON_ALU_MUL,
                                              [IR_X_MIN] = NEURON_ALU_MIN,
                                              [IR_X_MAX] = NEURON_ALU_MAX};
        const struct nk_value *other = by_parts(nk, t, e->arg[i]);
        switch ((enum ir_expr_kind)e->kind) {
        case IR_X_FLOORDIV:
        case IR_X_MOD:
            if (!other->is_number || other->number <= 0)
                nk_refuse(nk, "a number that is divided by what varies");
            v = nk_floor_divide(nk, t, v, other->number, e->kind == IR_X_MOD);
            break;
        case IR_X_ADD:
        case IR_X_MUL:
        case IR_X_MIN:
        case IR_X_MAX: v = nk_tt(nk, t, TCC_I32, alu[e->kind], v, other); break;
        default: nk_refuse(nk, "a number that is no expression of the loops");
        }
    }
    return v;
}

static bool is_small(struct nk *nk, const struct nk_tile *t, ir_expr e)
{
    enum { MOST = 1 << 24 };
    struct nk_box all = nk_whole(t);
    struct nk_line line;
    int axis;
    int64_t at, lo, hi;
    if (nk_line_of(nk, t, &all, e, &line, &axis, &at) != NK_LINEAR)
        return false;
    nk_line_range(&line, &all, &lo, &hi);
    return lo > -MOST && hi < MOST;
}

const struct nk_value *nk_expr(struct nk *nk, const struct nk_tile *t, enum tcc_dtype d, ir_expr e)
{
    int64_t known;
    if (ir_is_const(e, &known))
        return nk_is_wide(d) ? nk_wide_number(nk, d, known) : nk_number(nk, d, (double)known);
    const struct nk_value *v = by_parts(nk, t, e);
    if (d == TCC_BOOL)
        return nk_ts(nk, t, d, NEURON_ALU_NE, v, 0);
    if (nk_type(nk, d) != NEURON_I32)
        return nk_copy(nk, t, d, nk_solid(nk, t, v));
    struct nk_value *same = IR_NEW(nk->ctx, struct nk_value); /* i64 and u64, too */
    *same = *v;
    same->dtype = (uint8_t)d;
    same->small = is_small(nk, t, e);
    return same;
}
