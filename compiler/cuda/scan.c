/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan.c - a stage of running combinations (KN_SCAN) by a warp or a block: as many points as there are threads at a
 * time, in ascending order. Within a warp values are combined over 1, 2, 4, 8, 16 lanes (Hillis and Steele, "Data
 * parallel algorithms", 1986), warps' totals in their order, and what came before in front of them: the order follows
 * from the size alone. Where each combination is rounded to a small type, or with --exact, one thread combines the
 * values, in shared memory, in the order of the points.
 */
#include "compiler/cuda/cuda_int.h"
#include "compiler/emit/loops.h"

#define V LLVMValueRef

struct scan {
    struct cuda_fn *f;
    const struct kn_insn *n;
    int insn;
    enum tcc_dtype dtype;
    V before; /* stack slot: all points before these */
};

static V combine(struct scan *s, V a, V b)
{
    return em_reduce_step(s->f->e, (enum kn_reducer)s->n->reducer, s->dtype, a, b);
}

static V neutral(struct scan *s)
{
    return em_reduce_init(s->f->e, (enum kn_reducer)s->n->reducer, s->dtype);
}

static bool in_order(const struct scan *s)
{
    bool rounds = tcc_is_float(s->dtype) && (s->n->reducer == KN_SUM || s->n->reducer == KN_PROD);
    return rounds && (s->f->e->exact || tcc_small_float(s->dtype));
}

/* Element i of 8 bytes each; values of one bit have a byte. */
static V slot(struct scan *s, V base, V i)
{
    return LLVMBuildInBoundsGEP2(s->f->e->b, s->f->e->t_i64, base, &i, 1, "");
}

static void put(struct scan *s, V v, V at)
{
    struct em *e = s->f->e;
    LLVMBuildStore(e->b, LLVMTypeOf(v) == e->t_i1 ? LLVMBuildZExt(e->b, v, e->t_i8, "") : v, at);
}

static V get(struct scan *s, V at)
{
    struct em *e = s->f->e;
    LLVMTypeRef t = em_reg_type(e, s->dtype);
    return t == e->t_i1 ? LLVMBuildTrunc(e->b, LLVMBuildLoad2(e->b, e->t_i8, at, ""), t, "")
                        : LLVMBuildLoad2(e->b, t, at, "");
}

/* Shared memory of this group, 8 bytes a thread. */
static V room(struct scan *s)
{
    struct cuda_fn *f = s->f;
    struct em *e = f->e;
    const char *name = ir_internf(e->ctx, "%s_scan", f->name);
    V all = LLVMGetNamedGlobal(e->mod, name);
    if (!all)
        all = cuda_shared(e, name, (int64_t)8 * f->s.threads, 16);
    V first = LLVMBuildSub(e->b, f->thread, f->lane, "");
    return slot(s, all, first);
}

/* x combined with those of the warp's lanes before it. */
static V within_warp(struct scan *s, V x, V lane)
{
    struct em *e = s->f->e;
    for (int distance = 1; distance < 32; distance *= 2) {
        V other = cuda_shuffle_up(e, x, distance),
          some = LLVMBuildICmp(e->b, LLVMIntSGE, lane, em_i64(e, distance), "");
        x = LLVMBuildSelect(e->b, some, combine(s, other, x), x, "");
    }
    return x;
}

/* What comes before this thread's value, and in *all what these points come to with it. */
static V before_warp(struct scan *s, V x, V lane, V *all)
{
    struct cuda_fn *f = s->f;
    struct em *e = f->e;
    struct em_if last;
    V before = LLVMBuildLoad2(e->b, em_reg_type(e, s->dtype), s->before, ""), base = room(s),
      warp = LLVMBuildUDiv(e->b, f->lane, em_i64(e, 32), ""), own = before;
    em_if_begin(e, &last, LLVMBuildICmp(e->b, LLVMIntEQ, lane, em_i64(e, 31), ""));
    put(s, x, slot(s, base, warp));
    em_if_end(e, &last);
    cuda_group_barrier(f);
    for (int w = 0; w < f->s.group / 32; w++) {
        V here = LLVMBuildICmp(e->b, LLVMIntEQ, warp, em_i64(e, w), "");
        own = w ? LLVMBuildSelect(e->b, here, before, own, "") : own;
        before = combine(s, before, get(s, slot(s, base, em_i64(e, w))));
    }
    cuda_group_barrier(f);
    *all = before;
    return own;
}

static V by_all(struct scan *s, V x)
{
    struct em *e = s->f->e;
    V lane = LLVMBuildURem(e->b, s->f->lane, em_i64(e, 32), ""), all;
    V own = within_warp(s, x, lane), before = before_warp(s, own, lane, &all);
    if (s->n->ivalue) {
        V first = LLVMBuildICmp(e->b, LLVMIntEQ, lane, em_i64(e, 0), "");
        own = LLVMBuildSelect(e->b, first, neutral(s), cuda_shuffle_up(e, own, 1), "");
    }
    LLVMBuildStore(e->b, all, s->before);
    return combine(s, before, own);
}

static V by_one(struct scan *s, V x)
{
    struct cuda_fn *f = s->f;
    struct em *e = f->e;
    struct em_if one;
    struct em_loop l;
    V base = room(s), own = slot(s, base, f->lane);
    put(s, x, own);
    cuda_group_barrier(f);
    em_if_begin(e, &one, LLVMBuildICmp(e->b, LLVMIntEQ, f->lane, em_i64(e, 0), ""));
    em_loop_begin(e, &l, em_below(e, em_i64(e, f->s.group)), em_i64(e, 1), "scan");
    V old = LLVMBuildLoad2(e->b, em_reg_type(e, s->dtype), s->before, ""), at = slot(s, base, l.iv),
      now = combine(s, old, get(s, at));
    put(s, s->n->ivalue ? old : now, at);
    LLVMBuildStore(e->b, now, s->before);
    em_loop_end(e, &l);
    em_if_end(e, &one);
    cuda_group_barrier(f);
    return get(s, own);
}

/* One instruction at this thread's point, which is there where `inside` says so. */
static void step(struct scan *s, int i, V inside)
{
    struct cuda_fn *f = s->f;
    struct em *e = f->e;
    struct em_if some;
    if (e->k->insns[i].code == KN_STORE) {
        em_if_begin(e, &some, inside);
        em_insn(e, i);
        em_if_end(e, &some);
        return;
    }
    if (e->k->insns[i].code != KN_SCAN) {
        em_insn(e, i);
        return;
    }
    const struct kn_insn *n = s->n;
    V x = em_cast(e, s->dtype, (enum tcc_dtype)e->k->insns[n->arg[0]].dtype, e->value[n->arg[0]]);
    x = LLVMBuildSelect(e->b, inside, x, neutral(s), "");
    e->value[i] = in_order(s) ? by_one(s, x) : by_all(s, x);
}

void cuda_scan_stage(struct cuda_fn *f, const struct kn_stage *stage)
{
    struct em *e = f->e;
    struct em_loop l;
    int dim = __builtin_ctz(stage->inner);
    struct scan *scans = IR_NEWN(e->ctx, stage->last - stage->first + 1, struct scan);
    for (int i = stage->first; i < stage->last; i++) {
        struct scan *s = &scans[i - stage->first];
        *s = (struct scan){.f = f, .n = &e->k->insns[i], .insn = i, .dtype = (enum tcc_dtype)e->k->insns[i].dtype};
        if (s->n->code != KN_SCAN)
            continue;
        s->before = em_alloca(e, em_reg_type(e, s->dtype), 1, 0);
        LLVMBuildStore(e->b, neutral(s), s->before);
    }
    V hi = em_extent(e, dim);
    em_loop_begin(e, &l, em_below(e, hi), em_i64(e, f->s.group), "points");
    V at = LLVMBuildNSWAdd(e->b, l.iv, f->lane, ""), inside = LLVMBuildICmp(e->b, LLVMIntSLT, at, hi, "");
    at = em_least(e, at, LLVMBuildSub(e->b, hi, em_i64(e, 1), ""));
    em_bind(e, e->k->dims[dim].var, at);
    em_forget(e, stage->first, stage->last);
    for (int i = stage->first; i < stage->last; i++)
        step(&scans[i - stage->first], i, inside);
    em_loop_end(e, &l);
    em_forget(e, stage->first, stage->last);
}
