/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Integer expressions as LLVM values: uniform (at lane 0) or one per lane, how they vary between lanes, and guards.
 *
 * Lanes run along e->vdim from a start that is a multiple of e->lanes when e->aligned says so: then v is lanes * q + l
 * with 0 <= l < lanes, and v floordiv 16 is seen to be equal in all of 16 lanes (blocked layouts).
 */
#include "compiler/emit/emit.h"
#include "base/mutant.h"

void em_bind_index(struct em *e, ir_expr sym, LLVMValueRef value, LLVMValueRef bad, ir_expr bound)
{
    const struct em_binding b = {sym, value, bad, bound};
    for (int i = e->nbind - 1; i >= 0; i--) {
        if (e->bind[i].sym == sym) {
            e->bind[i] = b;
            return;
        }
    }
    IR_PUSH(e->ctx, e->bind, e->nbind, e->capbind, b);
}

void em_bind(struct em *e, ir_expr sym, LLVMValueRef value)
{
    em_bind_index(e, sym, value, NULL, NULL);
}

static LLVMValueRef bound_value(struct em *e, ir_expr sym)
{
    for (int i = 0; i < e->nbind; i++)
        if (e->bind[i].sym == sym)
            return e->bind[i].value;
    return em_i64(e, 0); /* not reached for verified kernels */
}

void em_set_lanes(struct em *e, ir_expr vdim, int lanes, LLVMValueRef mask)
{
    e->vdim = lanes > 1 ? vdim : NULL;
    e->lanes = lanes > 1 ? lanes : 1;
    e->mask = mask;
}

/* does it differ between lanes? */
static bool em_varies(struct em *e, ir_expr x)
{
    switch (x->kind) {
    case IR_X_CONST: return false;
    case IR_X_SYM:
        if (e->lanes <= 1)
            return false;
        return x == e->vdim || em_lanes_of(bound_value(e, x)) > 1;
    default:
        for (int i = 0; i < x->nargs; i++)
            if (em_varies(e, x->arg[i]))
                return true;
        return false;
    }
}

/* -- Uniform values ----------------------------------------------------------------------------- */

static bool nonnegative(ir_expr x)
{
    return x->lo >= 0;
}

/* Do all values of x, and of what it is computed from, fit 32 bits with a sign? */
static bool fits_32(ir_expr x)
{
    if (x->lo < INT32_MIN || x->hi > INT32_MAX)
        return false;
    if (x->kind == IR_X_CONST || x->kind == IR_X_SYM)
        return true;
    for (int i = 0; i < x->nargs; i++)
        if (!fits_32(x->arg[i]))
            return false;
    return true;
}

static int64_t power_of_two(ir_expr x)
{
    int64_t c = ir_const_or(x, 0);
    return c > 0 && (c & (c - 1)) == 0 ? c : 0;
}

/* Integers of a smaller magnitude: the quotient of two, rounded to double, reaches no integer that it does not reach
 * exactly. */
#define EXACT_QUOTIENT (INT64_C(1) << 52)

static bool divides_exactly(ir_expr a, ir_expr b)
{
    return a->lo > -EXACT_QUOTIENT && a->hi < EXACT_QUOTIENT && b->hi < EXACT_QUOTIENT;
}

/*
 * a floordiv b or a mod b in lanes, by divisions of doubles: there is no instruction that divides several integers. An
 * integer n next to a / b is at least 1 / b away, half a unit in the last place of doubles next to it at most n *
 * 2^-53, and n * b is below 2^53.
 */
static LLVMValueRef divide_lanes(struct em *e, bool quotient, LLVMValueRef a, LLVMValueRef b)
{
    LLVMTypeRef wide = em_vec(e->t_f64, em_lanes_of(a));
    LLVMValueRef as_float = LLVMBuildSIToFP(e->b, b, wide, "");
    LLVMValueRef q = LLVMBuildFDiv(e->b, LLVMBuildSIToFP(e->b, a, wide, ""), as_float, "");
    q = LLVMBuildFPToSI(e->b, em_unary_intrinsic(e, "llvm.floor", q), LLVMTypeOf(a), "");
    return quotient ? q : LLVMBuildSub(e->b, a, LLVMBuildMul(e->b, q, b, ""), "");
}

/*
 * a floordiv b (quotient) or a mod b, for b > 0; scalars or vectors of one type. A size that may be 0 divides as 1
 * does: an index by it is of a point that a guard leaves out, and is computed all the same (padding around a copy of
 * nothing).
 */
static LLVMValueRef floor_divide(struct em *e, ir_expr x, LLVMValueRef a, LLVMValueRef b)
{
    bool quotient = x->kind == IR_X_FLOORDIV;
    LLVMTypeRef t = LLVMTypeOf(a);
    int64_t p = power_of_two(x->arg[1]);
    if (x->arg[1]->lo < 1)
        b = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, b, em_int(t, 1), ""), em_int(t, 1), b, "");
    if (p)
        return quotient ? LLVMBuildAShr(e->b, a, em_int(t, __builtin_ctzll((unsigned long long)p)), "")
                        : LLVMBuildAnd(e->b, a, em_int(t, p - 1), "");
    if (e->m->divides_lanes && em_lanes_of(a) > 1 && !LLVMIsConstant(b) && divides_exactly(x->arg[0], x->arg[1]))
        return divide_lanes(e, quotient, a, b);
    if (nonnegative(x->arg[0]) && nonnegative(x->arg[1]))
        return quotient ? LLVMBuildUDiv(e->b, a, b, "") : LLVMBuildURem(e->b, a, b, "");
    LLVMValueRef zero = em_int(t, 0);
    LLVMValueRef r = LLVMBuildSRem(e->b, a, b, ""), low = LLVMBuildICmp(e->b, LLVMIntSLT, r, zero, "");
    if (!quotient)
        return LLVMBuildSelect(e->b, low, LLVMBuildAdd(e->b, r, b, ""), r, "");
    LLVMValueRef q = LLVMBuildSDiv(e->b, a, b, "");
    return LLVMBuildSelect(e->b, low, LLVMBuildSub(e->b, q, em_int(t, 1), ""), q, "");
}

static LLVMValueRef combine(struct em *e, ir_expr x, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef less;
    switch (x->kind) {
    case IR_X_ADD: return LLVMBuildAdd(e->b, a, b, "");
    case IR_X_MUL: return LLVMBuildMul(e->b, a, b, "");
    case IR_X_MIN:
    case IR_X_MAX:
        less = LLVMBuildICmp(e->b, x->kind == IR_X_MIN ? LLVMIntSLT : LLVMIntSGT, a, b, "");
        return LLVMBuildSelect(e->b, less, a, b, "");
    default: return floor_divide(e, x, a, b);
    }
}

/* x, all of which fits 32 bits, in as many. */
static LLVMValueRef narrow_expr(struct em *e, ir_expr x)
{
    if (x->kind == IR_X_CONST)
        return LLVMConstInt(e->t_i32, (unsigned long long)x->value, 1);
    if (x->kind == IR_X_SYM)
        return LLVMBuildTrunc(e->b, em_expr(e, x), e->t_i32, "");
    LLVMValueRef v = narrow_expr(e, x->arg[0]);
    for (int i = 1; i < x->nargs; i++)
        v = combine(e, x, v, narrow_expr(e, x->arg[i]));
    return v;
}

LLVMValueRef em_expr(struct em *e, ir_expr x)
{
    LLVMValueRef v;
    if (e->m->index32 && x->kind != IR_X_CONST && x->kind != IR_X_SYM && fits_32(x))
        return LLVMBuildSExt(e->b, narrow_expr(e, x), e->t_i64, "");
    switch (x->kind) {
    case IR_X_CONST: return em_i64(e, x->value);
    case IR_X_SYM:
        v = bound_value(e, x);
        return em_lanes_of(v) > 1 ? LLVMBuildExtractElement(e->b, v, em_i64(e, 0), "") : v;
    default: break;
    }
    /* Divisions are several times faster in 32 bits. */
    bool narrow = (x->kind == IR_X_FLOORDIV || x->kind == IR_X_MOD) && !power_of_two(x->arg[1]) &&
                  nonnegative(x->arg[0]) && x->arg[0]->hi <= INT32_MAX && x->arg[1]->hi <= INT32_MAX &&
                  nonnegative(x->arg[1]);
    v = em_expr(e, x->arg[0]);
    for (int i = 1; i < x->nargs; i++) {
        LLVMValueRef w = em_expr(e, x->arg[i]);
        if (narrow) {
            LLVMValueRef low_word = LLVMBuildTrunc(e->b, w, e->t_i32, "");
            v = combine(e, x, LLVMBuildTrunc(e->b, v, e->t_i32, ""), low_word);
            v = LLVMBuildZExt(e->b, v, e->t_i64, "");
        } else {
            v = combine(e, x, v, w);
        }
    }
    return v;
}

/* -- Lanes ------------------------------------------------------------------------------------------ */

/* x in all lanes, as a vector of `elem` (i32 or i64). */
static LLVMValueRef lanes_of(struct em *e, ir_expr x, LLVMTypeRef elem)
{
    if (!em_varies(e, x)) {
        LLVMValueRef v = em_expr(e, x);
        return em_splat(e, elem == e->t_i64 ? v : LLVMBuildTrunc(e->b, v, elem, ""), e->lanes);
    }
    if (x->kind == IR_X_SYM) {
        LLVMValueRef v = bound_value(e, x);
        if (elem != e->t_i64)
            v = LLVMBuildTrunc(e->b, v, em_like(elem, v), "");
        v = em_splat(e, v, e->lanes);
        return x == e->vdim ? LLVMBuildAdd(e->b, v, em_iota(e, elem, e->lanes), "") : v;
    }
    LLVMValueRef v = lanes_of(e, x->arg[0], elem);
    for (int i = 1; i < x->nargs; i++)
        v = combine(e, x, v, lanes_of(e, x->arg[i], elem));
    return v;
}

LLVMValueRef em_expr_lanes(struct em *e, ir_expr x)
{
    if (!em_varies(e, x))
        return em_expr(e, x);
    if (!fits_32(x))
        return lanes_of(e, x, e->t_i64);
    return LLVMBuildSExt(e->b, lanes_of(e, x, e->t_i32), em_vec(e->t_i64, e->lanes), "");
}

/* Does x depend on a symbol, other than the vector dim's, that has a value per lane? */
static bool has_gathered(struct em *e, ir_expr x)
{
    if (x->kind == IR_X_SYM)
        return x != e->vdim && em_lanes_of(bound_value(e, x)) > 1;
    for (int i = 0; i < x->nargs && x->kind != IR_X_CONST; i++)
        if (has_gathered(e, x->arg[i]))
            return true;
    return false;
}

bool em_lane_stride(struct ir_ctx *ctx, ir_expr x, ir_expr var, int lanes, bool aligned, int64_t *stride)
{
    ir_expr coefficient, rest;
    *stride = 0;
    if (!ir_uses_sym(x, var))
        return true;
    if (ir_linear_in(ctx, x, var, &coefficient, &rest))
        return ir_is_const(coefficient, stride);
    if (!aligned || !var->extent || lanes <= 1)
        return false;
    /* The variable as lanes * q + l. */
    ir_expr n = ir_const(ctx, lanes), q = ir_iter(ctx, "q", ir_ceildiv(ctx, var->extent, n)), l = ir_iter(ctx, "l", n);
    ir_expr v = ir_add(ctx, ir_mulc(ctx, q, lanes), l), split = ir_subst(ctx, x, 1, &var, &v);
    if (!ir_uses_sym(split, l))
        return true;
    return ir_linear_in(ctx, split, l, &coefficient, &rest) && ir_is_const(coefficient, stride);
}

bool em_stride(struct em *e, ir_expr x, int64_t *stride)
{
    *stride = 0;
    if (!em_varies(e, x))
        return true;
    return !has_gathered(e, x) && em_lane_stride(e->ctx, x, e->vdim, e->lanes, e->aligned, stride);
}

/* -- Guards --------------------------------------------------------------------------------------------- */

/* e0 + lane < bound. */
static LLVMValueRef lanes_below(struct em *e, LLVMValueRef e0, LLVMValueRef bound)
{
    return em_tail_mask(e, LLVMBuildSub(e->b, bound, e0, ""), e->lanes);
}

static LLVMValueRef lanes_compare(struct em *e, ir_expr a, ir_expr b)
{
    LLVMTypeRef elem = fits_32(a) && fits_32(b) ? e->t_i32 : e->t_i64;
    LLVMValueRef lanes_of_elem = lanes_of(e, b, elem);
    return LLVMBuildICmp(e->b, LLVMIntSLT, lanes_of(e, a, elem), lanes_of_elem, "");
}

/* a < b: i1, or a mask when it differs between lanes. */
static LLVMValueRef less(struct em *e, ir_expr a, ir_expr b)
{
    int64_t stride;
    if (!em_varies(e, a) && !em_varies(e, b)) {
        LLVMValueRef b_value = em_expr(e, b);
        return LLVMBuildICmp(e->b, LLVMIntSLT, em_expr(e, a), b_value, "");
    }
    if (!em_varies(e, b) && em_stride(e, a, &stride) && stride == 1) {
        LLVMValueRef bound = em_expr(e, b);
        return lanes_below(e, em_expr(e, a), bound);
    }
    return lanes_compare(e, a, b);
}

/* lo <= x: for x of stride 1 the lanes that are not below lo. */
static LLVMValueRef at_least(struct em *e, ir_expr x, ir_expr lo)
{
    int64_t stride;
    if (em_varies(e, x) && !em_varies(e, lo) && em_stride(e, x, &stride) && stride == 1) {
        LLVMValueRef bound = em_expr(e, lo);
        return LLVMBuildNot(e->b, lanes_below(e, em_expr(e, x), bound), "");
    }
    return less(e, ir_addc(e->ctx, lo, -1), x);
}

void em_guards_split(struct em *e, int nguards, const struct kn_guard *guards, LLVMValueRef *uniform,
                     LLVMValueRef *lanes)
{
    *uniform = *lanes = NULL;
    for (int i = MUTANT(342, 0, 1); i < nguards && !e->unguarded; i++) {
        const struct kn_guard *g = &guards[i];
        LLVMValueRef parts[2] = {NULL, NULL};
        if (ir_expr_le(e->ctx, g->lo, g->e) != IR_YES)
            parts[0] = at_least(e, g->e, g->lo);
        if (ir_expr_le(e->ctx, ir_addc(e->ctx, g->e, 1), g->hi) != IR_YES)
            parts[1] = less(e, g->e, g->hi);
        for (int j = 0; j < 2; j++) {
            if (!parts[j])
                continue;
            LLVMValueRef *into = em_lanes_of(parts[j]) > 1 ? lanes : uniform;
            *into = em_and_mask(e, *into, parts[j]);
        }
    }
}

LLVMValueRef em_guards(struct em *e, int nguards, const struct kn_guard *guards)
{
    LLVMValueRef uniform, lanes;
    em_guards_split(e, nguards, guards, &uniform, &lanes);
    return em_and_mask(e, uniform, lanes);
}

LLVMValueRef em_bad_index(struct em *e, const struct kn_insn *n, bool *harmless)
{
    LLVMValueRef bad = NULL;
    *harmless = true;
    for (int i = 0; i < e->nbind; i++) {
        const struct em_binding *b = &e->bind[i];
        if (!b->bad || !kn_insn_uses(n, b->sym))
            continue;
        int lanes = em_lanes_of(b->bad) > 1 ? em_lanes_of(b->bad) : bad ? em_lanes_of(bad) : 1;
        LLVMValueRef also = em_splat(e, b->bad, lanes);
        bad = bad ? LLVMBuildOr(e->b, em_splat(e, bad, lanes), also, "") : also;
        *harmless &= b->bound->lo >= 1;
    }
    return bad;
}
