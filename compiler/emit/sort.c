/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sort.c - a row of keys and the row that moves with it (KN_SORT), by a bitonic network (Batcher, "Sorting networks and
 * their applications", 1968): runs of 2^s elements become sorted in s steps of comparisons that don't touch each other,
 * so that threads share them and meet in between. In a run's first step elements are compared with their mirror images,
 * so all comparisons have the smaller one go to the front; then what would stand behind a row's end never moves, and
 * rows of any length need no padding.
 */
#include "compiler/emit/emit.h"

#define V LLVMValueRef

struct sorter {
    struct em *e;
    const struct kn_insn *n;
    const struct em_threads *t;
    V count, half; /* i32: elements; comparisons of a step, half of the next power of two */
};

static V one_of(const struct sorter *s)
{
    return em_int(s->e->t_i32, 1);
}

static V at(const struct sorter *s, int operand, V index)
{
    return em_address(s->e, operand, LLVMBuildZExt(s->e->b, index, s->e->t_i64, ""));
}

/* x < y in the order of sorts: a NaN is the largest, of which none is smaller than another. */
static V less(const struct sorter *s, V x, V y)
{
    LLVMBuilderRef b = s->e->b;
    enum tcc_dtype d = s->e->k->operands[s->n->operand].dtype;
    if (tcc_is_float(d)) {
        LLVMValueRef is_number = LLVMBuildFCmp(b, LLVMRealORD, x, x, "");
        return LLVMBuildAnd(b, LLVMBuildFCmp(b, LLVMRealULT, x, y, ""), is_number, "");
    }
    return LLVMBuildICmp(b, tcc_is_signed(d) ? LLVMIntSLT : LLVMIntULT, x, y, "");
}

/* Compares element i with element j behind it, if that is there, and exchanges them if they stand the wrong way
 * round. */
static void compare(const struct sorter *s, V i, V j)
{
    struct em *e = s->e;
    int keys = s->n->operand, others = (int)s->n->ivalue;
    enum tcc_dtype d = e->k->operands[keys].dtype;
    struct em_if there, wrong;
    em_if_begin(e, &there, LLVMBuildICmp(e->b, LLVMIntULT, j, s->count, ""));
    V x = em_load(e, d, at(s, keys, i), 1, NULL, NULL, keys), y = em_load(e, d, at(s, keys, j), 1, NULL, NULL, keys);
    V p = em_load(e, TCC_I32, at(s, others, i), 1, NULL, NULL, others),
      q = em_load(e, TCC_I32, at(s, others, j), 1, NULL, NULL, others);
    bool down = s->n->reducer == KN_MAX;
    V before = less(s, down ? x : y, down ? y : x), behind = less(s, down ? y : x, down ? x : y);
    LLVMValueRef is_less = LLVMBuildICmp(e->b, LLVMIntSLT, q, p, "");
    V lower = LLVMBuildAnd(e->b, LLVMBuildNot(e->b, behind, ""), is_less, "");
    em_if_begin(e, &wrong, LLVMBuildOr(e->b, before, lower, ""));
    em_store(e, d, at(s, keys, i), y, NULL, keys);
    em_store(e, d, at(s, keys, j), x, NULL, keys);
    em_store(e, TCC_I32, at(s, others, i), q, NULL, others);
    em_store(e, TCC_I32, at(s, others, j), p, NULL, others);
    em_if_end(e, &wrong);
    em_if_end(e, &there);
}

/* One step, of this thread's comparisons: within runs of 2^log elements, each of the first half with its mirror image,
 * or with the one as far into the second. */
static void step(const struct sorter *s, V log, bool mirror)
{
    struct em *e = s->e;
    struct em_loop l;
    V one = one_of(s), below = LLVMBuildSub(e->b, log, one, ""), size = LLVMBuildShl(e->b, one, log, "");
    V lane = s->t ? s->t->lane : em_i64(e, 0), lanes = em_i64(e, s->t ? s->t->lanes : 1);
    em_loop_begin(e, &l, em_range(e, lane, LLVMBuildZExt(e->b, s->half, e->t_i64, "")), lanes, "pair");
    V pair = LLVMBuildTrunc(e->b, l.iv, e->t_i32, "");
    V start = LLVMBuildShl(e->b, LLVMBuildLShr(e->b, pair, below, ""), log, "");
    V within = LLVMBuildAnd(e->b, pair, LLVMBuildSub(e->b, LLVMBuildShl(e->b, one, below, ""), one, ""), "");
    V partner = mirror ? LLVMBuildSub(e->b, LLVMBuildSub(e->b, size, one, ""), within, "")
                       : LLVMBuildAdd(e->b, within, LLVMBuildShl(e->b, one, below, ""), "");
    LLVMValueRef sum = LLVMBuildAdd(e->b, start, partner, "");
    compare(s, LLVMBuildAdd(e->b, start, within, ""), sum);
    em_loop_end(e, &l);
    if (s->t)
        s->t->meet(s->t->user);
}

void em_sort(struct em *e, const struct kn_insn *n, const struct em_threads *t)
{
    struct sorter s = {.e = e, .n = n, .t = t};
    struct em_loop runs, steps;
    V count = em_expr(e, e->k->operands[n->operand].dims[0]), no = LLVMConstNull(e->t_i1), zero = em_i64(e, 0),
      one = em_i64(e, 1);
    /* 64 - clz(count - 1): the logarithm of the next power of two; of none, and of one, 0. */
    V last = LLVMBuildSub(e->b, em_most(e, count, one), one, "");
    V zeros = em_intrinsic(e, "llvm.ctlz", 1, &e->t_i64, 2, (V[]){last, no});
    V log = LLVMBuildSub(e->b, em_i64(e, 64), zeros, "");
    s.count = LLVMBuildTrunc(e->b, count, e->t_i32, "");
    s.half = LLVMBuildLShr(e->b, LLVMBuildShl(e->b, one_of(&s), LLVMBuildTrunc(e->b, log, e->t_i32, ""), ""),
                           one_of(&s), "");
    em_loop_begin(e, &runs, em_range(e, one, LLVMBuildAdd(e->b, log, one, "")), one, "run");
    step(&s, LLVMBuildTrunc(e->b, runs.iv, e->t_i32, ""), true);
    em_loop_begin(e, &steps, em_range(e, zero, LLVMBuildSub(e->b, runs.iv, one, "")), one, "step");
    V shorter = LLVMBuildSub(e->b, LLVMBuildSub(e->b, runs.iv, one, ""), steps.iv, "");
    step(&s, LLVMBuildTrunc(e->b, shorter, e->t_i32, ""), false);
    em_loop_end(e, &steps);
    em_loop_end(e, &runs);
}
