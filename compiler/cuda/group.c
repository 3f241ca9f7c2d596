/* SPDX-License-Identifier: Apache-2.0 */
/*
 * group.c - a warp or a block runs an outer point together. A stage's inner points are dealt to its threads in turn,
 * the last inner dim fastest, so that neighbours read neighbouring addresses. Each thread reduces its own points in
 * ascending order, long sums in parts; then the threads' values meet in a butterfly of shuffles, and the warps' values,
 * in a block, by shared memory in another. All of this depends on shapes alone: same sizes, same bits. Every thread
 * ends up with the result, since both partners of a butterfly combine the same two values.
 *
 * Local operands lie in shared memory or scratch, for the whole group; barriers stand between stages. What a stage
 * without inner dims computes, all threads compute; the first one stores it.
 */
#include "compiler/cuda/cuda_int.h"
#include "compiler/emit/loops.h"

#define V LLVMValueRef
#define MAX_REDUCTIONS 64
#define SUM_PART 256 /* terms of a thread's part of a sum */

struct stage {
    struct cuda_fn *f;
    const struct kn_stage *s;
    int last;               /* the dim that is dealt, or the last of all, when all are */
    bool flat;              /* all dims are dealt as one */
    struct em_range points; /* that are dealt */
    V base;                 /* flat: of the first dim, where the piece begins; NULL: 0 */
    bool parts;
    int width; /* neighbours along `last` that a thread runs at once */
    int nacc;
    struct loops_acc acc[MAX_REDUCTIONS];
};

/* -- Inner points ------------------------------------------------------------------------------------------------ */

static void body(struct stage *r)
{
    struct em *e = r->f->e;
    int n = 0;
    em_forget(e, r->s->first, r->s->last);
    for (int i = r->s->first; i < r->s->last; i++) {
        if (loops_is_reduction(&e->k->insns[i]))
            loops_acc_step(e, &r->acc[n++]);
        else
            em_insn(e, i);
    }
}

/* The dims of point number i of those that are dealt. */
static void bind_point(struct stage *r, V i)
{
    struct em *e = r->f->e;
    if (!r->flat) {
        em_bind(e, e->k->dims[r->last].var, i);
        return;
    }
    /* Constant extents, of fewer than 2^31 points: divisions in 32 bits. */
    V rest = LLVMBuildTrunc(e->b, i, e->t_i32, "");
    for (int d = r->last; d >= 0; d--) {
        if (!(r->s->inner >> d & 1))
            continue;
        V n = LLVMConstInt(e->t_i32, (unsigned long long)ir_const_or(e->k->dims[d].extent, 1), 0);
        bool first = !(r->s->inner & ((1u << d) - 1));
        V v = LLVMBuildZExt(e->b, first ? rest : LLVMBuildURem(e->b, rest, n, ""), e->t_i64, "");
        em_bind(e, e->k->dims[d].var, first && r->base ? LLVMBuildNSWAdd(e->b, r->base, v, "") : v);
        if (!first)
            rest = LLVMBuildUDiv(e->b, rest, n, "");
    }
}

/* This thread's points of those. */
static void dealt(struct stage *r, struct em_range all)
{
    struct em *e = r->f->e;
    struct em_loop l;
    V first = LLVMBuildNSWMul(e->b, r->f->lane, em_i64(e, r->width), "");
    em_loop_begin(e, &l, em_range(e, LLVMBuildNSWAdd(e->b, all.lo, first, ""), all.hi),
                  em_i64(e, (int64_t)r->f->s.group * r->width), "i");
    bind_point(r, l.iv);
    if (r->width > 1)
        em_set_lanes(e, e->k->dims[r->last].var, r->width, NULL);
    body(r);
    if (r->width > 1)
        em_set_lanes(e, NULL, 1, NULL);
    em_loop_end(e, &l);
}

static void deal(struct stage *r)
{
    struct em *e = r->f->e;
    struct em_loop l;
    V step = em_i64(e, (int64_t)SUM_PART * r->f->s.group * r->width);
    if (!r->parts) {
        dealt(r, r->points);
        return;
    }
    em_loop_begin(e, &l, r->points, step, "part");
    dealt(r, em_first(e, r->points, l.iv, step));
    for (int i = 0; i < r->nacc; i++)
        if (r->acc[i].total)
            loops_acc_end_part(e, &r->acc[i]);
    em_loop_end(e, &l);
}

/* Dims that are not dealt are loops of the whole group. */
static void run_dims(struct stage *r, int d)
{
    struct em *e = r->f->e;
    struct em_loop l;
    while (d < r->last && (r->flat || !(r->s->inner >> d & 1)))
        d++;
    if (d >= r->last) {
        deal(r);
        return;
    }
    em_loop_begin(e, &l, loops_bounds(e, d), em_i64(e, 1), "d");
    em_bind(e, e->k->dims[d].var, l.iv);
    run_dims(r, d + 1);
    em_loop_end(e, &l);
}

/* -- Threads' values meet ------------------------------------------------------------------------------------------ */

static V slot(struct em *e, V base, int bytes, V index)
{
    V at = LLVMBuildNSWMul(e->b, index, em_i64(e, 16), "");
    at = LLVMBuildNSWAdd(e->b, at, em_i64(e, bytes), "");
    return LLVMBuildInBoundsGEP2(e->b, e->t_i8, base, &at, 1, "");
}

/* In a butterfly over `width` neighbouring lanes. */
static void meet_lanes(struct em *e, struct loops_acc *a, int width)
{
    for (int distance = width / 2; distance; distance /= 2) {
        V value, position;
        loops_acc_get(e, a, &value, &position);
        value = cuda_shuffle_xor(e, value, distance);
        loops_acc_merge(e, a, value, position ? cuda_shuffle_xor(e, position, distance) : NULL);
    }
}

/* Those of the warps, which stand in a table in shared memory: each warp has all of them, one in a lane, and theirs
 * meet alike. Shuffles stay where they are; if a thread read the table whole, LLVM would move its sums to where the
 * last stage wants them, and keep as many values as warps of each reduction until then. */
static void meet_warps(struct cuda_fn *f, struct loops_acc *a)
{
    struct em *e = f->e;
    int warps = f->s.group / 32;
    V value, position, lane = LLVMBuildURem(e->b, f->lane, em_i64(e, 32), ""),
                       warp = LLVMBuildUDiv(e->b, f->lane, em_i64(e, 32), ""),
                       other = LLVMBuildURem(e->b, f->lane, em_i64(e, warps), "");
    struct em_if first;
    loops_acc_get(e, a, &value, &position);
    LLVMTypeRef t = LLVMTypeOf(value);
    bool truth = t == e->t_i1;
    em_if_begin(e, &first, LLVMBuildICmp(e->b, LLVMIntEQ, lane, em_i64(e, 0), ""));
    V at = slot(e, f->partial, 0, warp);
    LLVMBuildStore(e->b, truth ? LLVMBuildZExt(e->b, value, e->t_i8, "") : value, at);
    if (position)
        LLVMBuildStore(e->b, position, slot(e, f->partial, 8, warp));
    em_if_end(e, &first);
    cuda_barrier(e);
    value = LLVMBuildLoad2(e->b, truth ? e->t_i8 : t, slot(e, f->partial, 0, other), "");
    position = position ? LLVMBuildLoad2(e->b, e->t_i64, slot(e, f->partial, 8, other), "") : NULL;
    loops_acc_set(e, a, truth ? LLVMBuildTrunc(e->b, value, t, "") : value, position);
    meet_lanes(e, a, warps);
    cuda_barrier(e);
}

static V meet(struct cuda_fn *f, struct loops_acc *a)
{
    meet_lanes(f->e, a, 32);
    if (f->s.group > 32)
        meet_warps(f, a);
    return loops_acc_result(f->e, a, 1, false);
}

/* -- Stages -------------------------------------------------------------------------------------------------------- */

static void meet_between_steps(void *user)
{
    cuda_group_barrier(user);
}

/* Once for all threads, which share sorts; the first stores. */
static void run_uniform(struct cuda_fn *f, const struct kn_stage *s)
{
    struct em *e = f->e;
    struct em_if first;
    struct em_threads threads = {f->lane, f->s.group, meet_between_steps, f};
    for (int i = s->first; i < s->last; i++) {
        if (e->value[i])
            continue;
        if (e->k->insns[i].code == KN_SORT) {
            em_sort(e, &e->k->insns[i], &threads);
            continue;
        }
        if (e->k->insns[i].code != KN_STORE) {
            em_insn(e, i);
            continue;
        }
        em_if_begin(e, &first, LLVMBuildICmp(e->b, LLVMIntEQ, f->lane, em_i64(e, 0), ""));
        em_insn(e, i);
        em_if_end(e, &first);
    }
}

/* Points of an inner dim, where they are known, at most: those of a piece. */
static bool most_points(const struct stage *r, int dim, int64_t *n)
{
    const struct em *e = r->f->e;
    return ir_is_const(em_is_piece(e->k, dim) && !e->combining ? e->k->split.step : e->k->dims[dim].extent, n);
}

/* How the stage's dims are dealt: all as one where that is known to be few, else the last, in loops over the others.
 * What a piece is cut from is dealt with the others where it is the first of them. */
static void plan_stage(struct stage *r)
{
    struct em *e = r->f->e;
    int64_t n = 1, rest = 1, one;
    int first = __builtin_ctz(r->s->inner);
    r->last = 31 - __builtin_clz(r->s->inner);
    r->flat = r->last > first;
    for (int d = 0; d <= r->last && r->flat; d++)
        if (r->s->inner >> d & 1) {
            r->flat = most_points(r, d, &one) && one < (1 << 28) && (d == first || !em_is_piece(e->k, d));
            n = r->flat ? n * one : 0;
            rest = d == first ? 1 : rest * one;
            r->flat = r->flat && n < (1 << 30);
        }
    int dealt_dim = r->flat ? first : r->last;
    r->points = loops_bounds(e, dealt_dim);
    if (!r->flat) {
        n = most_points(r, r->last, &one) ? one : INT32_MAX;
    } else {
        if (em_is_piece(e->k, first) && !e->combining)
            r->base = r->points.lo;
        r->points = em_below(e, LLVMBuildNSWMul(e->b, em_length(e, r->points), em_i64(e, rest), ""));
    }
    r->parts = n / r->f->s.group / r->width > SUM_PART + SUM_PART / 2;
}

static void run_stage(struct cuda_fn *f, const struct kn_stage *s)
{
    struct em *e = f->e;
    struct stage *r = IR_NEW(e->ctx, struct stage);
    if (!s->inner) {
        run_uniform(f, s);
        return;
    }
    if (kn_stage_has(e->k, s, KN_BIT(KN_SCAN))) {
        cuda_scan_stage(f, s);
        return;
    }
    *r = (struct stage){.f = f, .s = s, .width = cuda_stage_width(e->ctx, e->k, s, f->wide ? f->s.width : 1, NULL)};
    plan_stage(r);
    for (int i = s->first; i < s->last; i++) {
        if (!loops_is_reduction(&e->k->insns[i]))
            continue;
        loops_acc_init(e, &r->acc[r->nacc], i, r->width);
        if (r->parts && loops_in_parts(&e->k->insns[i]))
            loops_acc_parts(e, &r->acc[r->nacc]);
        r->nacc++;
    }
    run_dims(r, 0);
    em_forget(e, s->first, s->last);
    for (int i = 0; i < r->nacc && r->width > 1; i++) { /* no positions: cuda_stage_width() */
        V all = loops_acc_result(e, &r->acc[i], 1, true);
        loops_acc_init(e, &r->acc[i], r->acc[i].insn, 1);
        loops_acc_set(e, &r->acc[i], all, NULL);
    }
    for (int i = 0; i < r->nacc; i++) {
        V extreme = loops_acc_extreme(r->acc, 1, i);
        e->value[r->acc[i].insn] = extreme ? extreme : meet(f, &r->acc[i]);
    }
}

static void groups(void *user, bool wide)
{
    struct cuda_fn *f = user;
    struct em *e = f->e;
    struct em_tiles t;
    f->wide = wide;
    e->aligned = wide;
    em_tiles_begin(e, &t);
    int combine = e->k->split.combine, last = combine && !e->combining ? combine : e->k->nstages;
    for (int i = e->combining; i < em_nouter(e->k); i++)
        em_bind(e, e->k->dims[i].var, t.at[i].lo);
    em_forget(e, 0, e->k->ninsns);
    for (int i = e->combining ? combine : 0; i < last; i++) {
        run_stage(f, &e->k->stages[i]);
        if (f->shared_locals || e->k->nstages > 1) /* a result may lie in the place of what other stages read */
            cuda_group_barrier(f);
    }
    em_tiles_end(e, &t);
}

void cuda_emit_group(struct cuda_fn *f)
{
    struct em *e = f->e;
    int *align = IR_NEWN(e->ctx, e->k->noperands + 1, int);
    for (int i = 0; i < e->k->nstages && f->s.width > 1; i++)
        cuda_stage_width(e->ctx, e->k, &e->k->stages[i], f->s.width, align);
    cuda_twice(f, align, groups, f);
    e->aligned = false;
}
