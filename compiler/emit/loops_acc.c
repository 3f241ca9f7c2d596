/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accumulators of loop nests: reductions, extreme positions, running combinations. Lanes that ran along the reduced dim
 * are folded in a fixed halving tree, segments in their order, so that a result depends on shape and machine only.
 */
#include "compiler/emit/loops.h"

#include "base/mutant.h"

#define V LLVMValueRef

bool loops_is_reduction(const struct kn_insn *n)
{
    return n->code == KN_REDUCE || n->code == KN_ARGREDUCE || n->code == KN_SCAN;
}

bool loops_folds(const struct kn_insn *n)
{
    return n->code == KN_REDUCE || n->code == KN_ARGREDUCE;
}

/* The type that is compared or combined: the accumulator's, or for ARGREDUCE its first argument's. */
static enum tcc_dtype acc_dtype(const struct em *e, const struct kn_insn *n)
{
    return (enum tcc_dtype)(n->code == KN_ARGREDUCE ? e->k->insns[n->arg[0]].dtype : n->dtype);
}

/* The instruction in front of `insn`, in its stage, that finds the position of the same extreme; -1: none. */
static int position_of(const struct kn_kernel *k, int insn)
{
    const struct kn_insn *n = &k->insns[insn];
    int stage = 0;
    while (insn >= k->stages[stage].last)
        stage++;
    for (int i = k->stages[stage].first; i < insn && n->code == KN_REDUCE && n->reducer >= KN_MAX; i++) {
        const struct kn_insn *other = &k->insns[i];
        if (other->code == KN_ARGREDUCE && other->reducer == n->reducer && other->arg[0] == n->arg[0] &&
            k->insns[n->arg[0]].dtype == n->dtype)
            return i;
    }
    return -1;
}

void loops_acc_init(struct em *e, struct loops_acc *a, int insn, int lanes)
{
    const struct kn_insn *n = &e->k->insns[insn];
    enum tcc_dtype d = acc_dtype(e, n);
    *a = (struct loops_acc){.insn = insn, .lanes = lanes, .position_of = position_of(e->k, insn)};
    if (a->position_of >= 0)
        return;
    a->value = em_alloca(e, em_vec(em_reg_type(e, d), lanes), 1, 0);
    LLVMBuildStore(e->b, em_splat(e, em_reduce_init(e, (enum kn_reducer)n->reducer, d), lanes), a->value);
    if (n->code == KN_ARGREDUCE) {
        a->position = em_alloca(e, em_vec(e->t_i64, lanes), 1, 0);
        LLVMBuildStore(e->b, em_int(em_vec(e->t_i64, lanes), -1), a->position);
    }
}

bool loops_in_parts(const struct kn_insn *n)
{
    return n->code == KN_REDUCE && n->reducer == KN_SUM && tcc_is_float((enum tcc_dtype)n->dtype);
}

void loops_acc_parts(struct em *e, struct loops_acc *a)
{
    LLVMTypeRef t = em_vec(em_reg_type(e, acc_dtype(e, &e->k->insns[a->insn])), a->lanes);
    a->total = em_alloca(e, t, 1, 0);
    LLVMBuildStore(e->b, LLVMConstNull(t), a->total);
}

void loops_acc_end_part(struct em *e, struct loops_acc *a)
{
    LLVMTypeRef t = em_vec(em_reg_type(e, acc_dtype(e, &e->k->insns[a->insn])), a->lanes);
    V part = LLVMBuildLoad2(e->b, t, a->value, ""), total = LLVMBuildLoad2(e->b, t, a->total, "");
    LLVMBuildStore(e->b, LLVMBuildFAdd(e->b, total, part, ""), a->total);
    LLVMBuildStore(e->b, LLVMConstNull(t), a->value);
}

static V load_slot(struct em *e, V slot, LLVMTypeRef t)
{
    return LLVMBuildLoad2(e->b, t, slot, "");
}

/* Is (x, p) to be preferred to (best, at)? at is -1 while there is none. A NaN is an extreme of either kind. */
static V better(struct em *e, const struct kn_insn *n, enum tcc_dtype d, V x, V p, V best, V at)
{
    LLVMTypeRef t64 = LLVMTypeOf(at);
    V take = em_scalar(e, n->reducer == KN_MAX ? IR_gt : IR_lt, d, 2, (V[]){x, best});
    V same = em_scalar(e, IR_eq, d, 2, (V[]){x, best});
    if (tcc_is_float(d)) {
        V x_nan = LLVMBuildFCmp(e->b, LLVMRealUNO, x, x, ""),
          best_nan = LLVMBuildFCmp(e->b, LLVMRealUNO, best, best, "");
        take = LLVMBuildOr(e->b, take, LLVMBuildAnd(e->b, x_nan, LLVMBuildNot(e->b, best_nan, ""), ""), "");
        same = LLVMBuildOr(e->b, same, LLVMBuildAnd(e->b, x_nan, best_nan, ""), "");
    }
    V order = LLVMBuildICmp(e->b, MUTANT(93, n->ivalue, !n->ivalue) ? LLVMIntSGT : LLVMIntSLT, p, at, "");
    V none = LLVMBuildICmp(e->b, LLVMIntSLT, at, LLVMConstNull(t64), "");
    V some = LLVMBuildICmp(e->b, LLVMIntSGE, p, LLVMConstNull(t64), "");
    take = LLVMBuildOr(e->b, take, LLVMBuildAnd(e->b, same, order, ""), "");
    return LLVMBuildAnd(e->b, some, LLVMBuildOr(e->b, none, take, ""), "");
}

static void arg_step(struct em *e, struct loops_acc *a, const struct kn_insn *n, enum tcc_dtype d)
{
    LLVMTypeRef t = em_vec(em_reg_type(e, d), a->lanes), t64 = em_vec(e->t_i64, a->lanes);
    V x = em_splat(e, e->value[n->arg[0]], a->lanes);
    V p = em_cast(e, TCC_I64, (enum tcc_dtype)e->k->insns[n->arg[1]].dtype, e->value[n->arg[1]]);
    p = em_splat(e, p, a->lanes);
    V best = load_slot(e, a->value, t), at = load_slot(e, a->position, t64);
    V take = better(e, n, d, x, p, best, at);
    if (e->mask)
        take = LLVMBuildAnd(e->b, take, em_splat(e, e->mask, a->lanes), "");
    LLVMBuildStore(e->b, LLVMBuildSelect(e->b, take, x, best, ""), a->value);
    LLVMBuildStore(e->b, LLVMBuildSelect(e->b, take, p, at, ""), a->position);
}

void loops_acc_step(struct em *e, struct loops_acc *a)
{
    const struct kn_insn *n = &e->k->insns[a->insn];
    enum tcc_dtype d = acc_dtype(e, n);
    if (a->position_of >= 0)
        return;
    if (n->code == KN_ARGREDUCE) {
        arg_step(e, a, n, d);
        return;
    }
    V x = em_cast(e, d, (enum tcc_dtype)e->k->insns[n->arg[0]].dtype, e->value[n->arg[0]]);
    V old = load_slot(e, a->value, em_vec(em_reg_type(e, d), a->lanes));
    V now = em_reduce_step(e, (enum kn_reducer)n->reducer, d, old, em_splat(e, x, a->lanes));
    if (n->code == KN_SCAN)
        e->value[a->insn] = MUTANT(94, n->ivalue, 0) ? old : now;
    if (MUTANT(95, e->mask, NULL))
        now = LLVMBuildSelect(e->b, em_splat(e, e->mask, a->lanes), now, old, "");
    LLVMBuildStore(e->b, now, a->value);
}

void loops_acc_get(struct em *e, struct loops_acc *a, V *value, V *position)
{
    const struct kn_insn *n = &e->k->insns[a->insn];
    V from = a->total ? a->total : a->value;
    *value = load_slot(e, from, em_vec(em_reg_type(e, acc_dtype(e, n)), a->lanes));
    *position = n->code == KN_ARGREDUCE ? load_slot(e, a->position, em_vec(e->t_i64, a->lanes)) : NULL;
}

void loops_acc_set(struct em *e, struct loops_acc *a, V value, V position)
{
    LLVMBuildStore(e->b, value, a->total ? a->total : a->value);
    if (position)
        LLVMBuildStore(e->b, position, a->position);
}

void loops_acc_merge(struct em *e, struct loops_acc *a, V value, V position)
{
    const struct kn_insn *n = &e->k->insns[a->insn];
    enum tcc_dtype d = acc_dtype(e, n);
    V old, at;
    loops_acc_get(e, a, &old, &at);
    if (n->code == KN_ARGREDUCE) {
        V take = better(e, n, d, value, position, old, at);
        LLVMValueRef selected = LLVMBuildSelect(e->b, take, position, at, "");
        loops_acc_set(e, a, LLVMBuildSelect(e->b, take, value, old, ""), selected);
        return;
    }
    loops_acc_set(e, a, em_reduce_step(e, (enum kn_reducer)n->reducer, d, old, value), NULL);
}

/* One half of a vector's lanes. */
static V half_of(struct em *e, V v, int part)
{
    V order[EM_MAX_LANES];
    int half = em_lanes_of(v) / 2;
    if (half == 1)
        return LLVMBuildExtractElement(e->b, v, em_i64(e, part), "");
    for (int i = 0; i < half; i++)
        order[i] = LLVMConstInt(e->t_i32, (unsigned)(part * half + i), 0);
    return LLVMBuildShuffleVector(e->b, v, v, LLVMConstVector(order, (unsigned)half), "");
}

static V arg_result(struct em *e, struct loops_acc *a, int n, bool fold)
{
    const struct kn_insn *insn = &e->k->insns[a->insn];
    enum tcc_dtype d = acc_dtype(e, insn);
    V best = NULL, at = NULL;
    for (int i = 0; i < n; i++) {
        V x = load_slot(e, a[i].value, em_vec(em_reg_type(e, d), a[i].lanes));
        V p = load_slot(e, a[i].position, em_vec(e->t_i64, a[i].lanes));
        while (fold && em_lanes_of(x) > 1) {
            V x1 = half_of(e, x, 1), p1 = half_of(e, p, 1);
            x = half_of(e, x, 0);
            p = half_of(e, p, 0);
            V take = better(e, insn, d, x1, p1, x, p);
            x = LLVMBuildSelect(e->b, take, x1, x, "");
            p = LLVMBuildSelect(e->b, take, p1, p, "");
        }
        if (i == 0) {
            best = x;
            at = p;
            continue;
        }
        V take = better(e, insn, d, x, p, best, at);
        best = LLVMBuildSelect(e->b, take, x, best, "");
        at = LLVMBuildSelect(e->b, take, p, at, "");
    }
    a->extreme = best;
    return em_cast(e, (enum tcc_dtype)insn->dtype, TCC_I64, at);
}

V loops_acc_extreme(const struct loops_acc *all, int stride, int i)
{
    int insn = all[(ptrdiff_t)i * stride].position_of;
    for (int j = 0; j < i && insn >= 0; j++)
        if (all[(ptrdiff_t)j * stride].insn == insn)
            return all[(ptrdiff_t)j * stride].extreme;
    return NULL;
}

V loops_acc_result(struct em *e, struct loops_acc *a, int n, bool fold)
{
    const struct kn_insn *insn = &e->k->insns[a->insn];
    enum tcc_dtype d = acc_dtype(e, insn);
    enum kn_reducer r = (enum kn_reducer)insn->reducer;
    if (insn->code == KN_ARGREDUCE)
        return arg_result(e, a, n, fold);
    V sum = NULL;
    for (int i = 0; i < n; i++) {
        V v = load_slot(e, a[i].total ? a[i].total : a[i].value, em_vec(em_reg_type(e, d), a[i].lanes));
        if (fold)
            v = em_reduce_lanes(e, r, d, v);
        sum = i == 0 ? v : em_reduce_step(e, r, d, sum, v);
    }
    return sum;
}
