/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of values of the run (range.h). Where values are numbers the result is one, too, without an instruction; what
 * nobody reads LLVM drops.
 */
#include "compiler/emit/range.h"

#include "compiler/emit/emit.h"
#include "base/mutant.h"

#define V LLVMValueRef

bool em_known(V v, int64_t *n)
{
    if (!LLVMIsAConstantInt(v))
        return false;
    *n = LLVMConstIntGetSExtValue(v);
    return true;
}

static V chosen(struct em *e, const char *name, V a, V b, bool most)
{
    int64_t x, y;
    if (a == b)
        return a;
    if (em_known(a, &x) && em_known(b, &y))
        return (x < y) == most ? b : a;
    return em_intrinsic(e, name, 1, &e->t_i64, 2, (V[]){a, b});
}

V em_least(struct em *e, V a, V b)
{
    return chosen(e, "llvm.smin", a, b, false);
}

V em_most(struct em *e, V a, V b)
{
    return chosen(e, "llvm.smax", a, b, true);
}

struct em_range em_range(struct em *e, V lo, V hi)
{
    return (struct em_range){lo, MUTANT(360, em_most(e, lo, hi), hi), hi};
}

struct em_range em_below(struct em *e, V size)
{
    return (struct em_range){em_i64(e, 0), size, size};
}

/* A range whose ends are known to be in order. */
static struct em_range ordered(V lo, V hi)
{
    return (struct em_range){lo, hi, hi};
}

struct em_range em_tile(struct em *e, struct em_range r, V number, V width)
{
    int64_t from = 0, to, w;
    bool at_zero = em_known(r.lo, &from) && !from;
    bool fits = em_known(r.lo, &from) && em_known(r.hi, &to) && em_known(width, &w) && w > 0 && (to - from) % w == 0;
    V lo = LLVMBuildNSWMul(e->b, number, width, "lo");
    lo = at_zero ? lo : LLVMBuildNSWAdd(e->b, r.lo, lo, "");
    V hi = LLVMBuildNSWAdd(e->b, lo, width, "");
    return ordered(lo, fits ? hi : em_least(e, hi, r.hi));
}

struct em_range em_first(struct em *e, struct em_range r, V at, V n)
{
    return ordered(at, em_least(e, LLVMBuildAdd(e->b, at, n, ""), r.end)); /* `at` lies in r: so does its end */
}

struct em_range em_scale(struct em *e, struct em_range r, V n)
{
    LLVMValueRef product = LLVMBuildMul(e->b, r.hi, n, "");
    return ordered(LLVMBuildMul(e->b, r.lo, n, ""), product);
}

struct em_range em_cut(struct em *e, struct em_range r, struct em_range by)
{
    V lo = em_least(e, em_most(e, r.lo, by.lo), r.hi);
    V hi = em_least(e, r.hi, by.hi);
    return MUTANT(362, em_range(e, lo, hi), em_range(e, hi, lo));
}

struct em_parts em_tiles(struct em *e, struct em_range r, int64_t width)
{
    V n = em_length(e, r), mask = em_i64(e, width - 1);
    V rest =
        (width & (width - 1)) == 0 ? LLVMBuildAnd(e->b, n, mask, "") : LLVMBuildURem(e->b, n, em_i64(e, width), "");
    V border = LLVMBuildSub(e->b, r.hi, rest, "");
    return (struct em_parts){ordered(r.lo, border), ordered(border, r.hi)};
}

static struct em_edges edges(V lo, V inner, V outer, V hi)
{
    return (struct em_edges){ordered(lo, inner), ordered(inner, outer), ordered(outer, hi)};
}

struct em_edges em_peel(struct em *e, struct em_range r, V first, V last)
{
    V zero = em_i64(e, 0);
    V inner = em_least(e, LLVMBuildAdd(e->b, r.lo, em_most(e, first, zero), ""), r.hi);
    V outer = LLVMBuildSub(e->b, r.hi, em_most(e, last, zero), "");
    outer = MUTANT(361, em_most(e, outer, inner), outer);
    return edges(r.lo, inner, outer, r.hi);
}

struct em_edges em_edges_cut(struct em *e, struct em_edges r, struct em_range by)
{
    V inner = em_most(e, em_least(e, r.inner.lo, by.hi), by.lo);
    return edges(by.lo, inner, em_most(e, em_least(e, r.inner.hi, by.hi), inner), by.hi);
}

struct em_edges em_edges_unless(struct em *e, V done, struct em_edges r)
{
    V end = r.last.hi, at[3] = {r.first.lo, r.inner.lo, r.last.lo};
    for (int i = 0; done && i < 3; i++)
        at[i] = LLVMBuildSelect(e->b, done, end, at[i], "");
    return edges(at[0], at[1], at[2], end);
}

V em_length(struct em *e, struct em_range r)
{
    return LLVMBuildSub(e->b, r.hi, r.lo, "");
}
