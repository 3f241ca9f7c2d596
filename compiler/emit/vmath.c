/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector math: which function computes which word, and the building blocks that they share.
 *
 * Words that networks use in hot places have code of their own for float; the others are computed in double and
 * rounded.
 */
#include "compiler/emit/vmath.h"

#define V LLVMValueRef

/* -- Building blocks --------------------------------------------------------------------------------- */

struct vm vm_make(struct em *e, V like)
{
    LLVMTypeRef t = LLVMTypeOf(like);
    struct vm m = {.e = e, .lanes = em_lanes_of(like), .f = t};
    LLVMTypeRef elem = m.lanes > 1 ? LLVMGetElementType(t) : t;
    m.f64 = elem == e->t_f64;
    m.i = em_vec(m.f64 ? e->t_i64 : e->t_i32, m.lanes);
    return m;
}

/* the same lanes in double */
static struct vm vm_double(const struct vm *m)
{
    return (struct vm){.e = m->e,
                       .f64 = true,
                       .lanes = m->lanes,
                       .f = em_vec(m->e->t_f64, m->lanes),
                       .i = em_vec(m->e->t_i64, m->lanes)};
}

V vm_k(const struct vm *m, double c)
{
    return em_fp(m->f, c);
}
V vm_ik(const struct vm *m, int64_t c)
{
    return em_int(m->i, c);
}
V vm_add(const struct vm *m, V a, V b)
{
    return LLVMBuildFAdd(m->e->b, a, b, "");
}
V vm_sub(const struct vm *m, V a, V b)
{
    return LLVMBuildFSub(m->e->b, a, b, "");
}
V vm_mul(const struct vm *m, V a, V b)
{
    return LLVMBuildFMul(m->e->b, a, b, "");
}
V vm_div(const struct vm *m, V a, V b)
{
    return LLVMBuildFDiv(m->e->b, a, b, "");
}
V vm_fma(const struct vm *m, V a, V b, V c)
{
    return em_fma(m->e, a, b, c);
}
V vm_neg(const struct vm *m, V a)
{
    return LLVMBuildFNeg(m->e->b, a, "");
}
V vm_abs(const struct vm *m, V a)
{
    return em_unary_intrinsic(m->e, "llvm.fabs", a);
}
V vm_sqrt(const struct vm *m, V a)
{
    return em_unary_intrinsic(m->e, "llvm.sqrt", a);
}
V vm_sel(const struct vm *m, V c, V a, V b)
{
    return LLVMBuildSelect(m->e->b, c, a, b, "");
}
V vm_lt(const struct vm *m, V a, V b)
{
    return LLVMBuildFCmp(m->e->b, LLVMRealOLT, a, b, "");
}
V vm_gt(const struct vm *m, V a, V b)
{
    return LLVMBuildFCmp(m->e->b, LLVMRealOGT, a, b, "");
}
V vm_eq(const struct vm *m, V a, V b)
{
    return LLVMBuildFCmp(m->e->b, LLVMRealOEQ, a, b, "");
}
V vm_nan(const struct vm *m, V a)
{
    return LLVMBuildFCmp(m->e->b, LLVMRealUNO, a, a, "");
}
V vm_or(const struct vm *m, V a, V b)
{
    return LLVMBuildOr(m->e->b, a, b, "");
}
V vm_and(const struct vm *m, V a, V b)
{
    return LLVMBuildAnd(m->e->b, a, b, "");
}
V vm_not(const struct vm *m, V a)
{
    return LLVMBuildNot(m->e->b, a, "");
}
V vm_bits(const struct vm *m, V a)
{
    return LLVMBuildBitCast(m->e->b, a, m->i, "");
}
V vm_float(const struct vm *m, V a)
{
    return LLVMBuildBitCast(m->e->b, a, m->f, "");
}
V vm_iadd(const struct vm *m, V a, V b)
{
    return LLVMBuildAdd(m->e->b, a, b, "");
}
V vm_shl(const struct vm *m, V a, int n)
{
    return LLVMBuildShl(m->e->b, a, vm_ik(m, n), "");
}
V vm_min(const struct vm *m, V a, V b)
{
    return vm_sel(m, vm_lt(m, a, b), a, b);
}
V vm_max(const struct vm *m, V a, V b)
{
    return vm_sel(m, vm_gt(m, a, b), a, b);
}

V vm_copysign(const struct vm *m, V magnitude, V sign)
{
    return em_intrinsic(m->e, "llvm.copysign", 1, &m->f, 2, (V[]){magnitude, sign});
}

V vm_nearest(const struct vm *m, V x, V *integer)
{
    return vm_nearest_product(m, x, vm_k(m, 1), integer);
}

V vm_nearest_product(const struct vm *m, V x, V y, V *integer)
{
    /* Adding 1.5 * 2^23 (2^52) leaves the rounded integer in the low bits. */
    V magic = vm_k(m, m->f64 ? 0x1.8p52 : 0x1.8p23), t = vm_fma(m, x, y, magic);
    if (integer) {
        V magic_bits = vm_bits(m, magic);
        *integer = LLVMBuildSub(m->e->b, vm_bits(m, t), magic_bits, "");
    }
    return vm_sub(m, t, magic);
}

/* Even and odd powers apart, each by Horner's rule: half the latency. */
V vm_poly(const struct vm *m, V x, int n, const double *c)
{
    if (n < 5) {
        V p = vm_k(m, c[n - 1]);
        for (int i = n - 2; i >= 0; i--)
            p = vm_fma(m, p, x, vm_k(m, c[i]));
        return p;
    }
    V x2 = vm_mul(m, x, x), part[2];
    for (int parity = 0; parity < 2; parity++) {
        int top = (n - 1) % 2 == parity ? n - 1 : n - 2;
        part[parity] = vm_k(m, c[top]);
        for (int i = top - 2; i >= 0; i -= 2)
            part[parity] = vm_fma(m, part[parity], x2, vm_k(m, c[i]));
    }
    return vm_fma(m, part[1], x, part[0]);
}

/* Dekker's product with Veltkamp's splitting where there is no fused multiply-add. */
V vm_two_product(const struct vm *m, V a, V b, V *low)
{
    V p = vm_mul(m, a, b);
    if (m->e->m->fma) {
        *low = vm_fma(m, a, b, vm_neg(m, p));
        return p;
    }
    V splitter = vm_k(m, m->f64 ? 0x1p27 + 1 : 0x1p12 + 1), hi[2], lo[2], both[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        V t = vm_mul(m, both[i], splitter);
        hi[i] = vm_sub(m, t, vm_sub(m, t, both[i]));
        lo[i] = vm_sub(m, both[i], hi[i]);
    }
    V e = vm_sub(m, vm_mul(m, hi[0], hi[1]), p);
    e = vm_add(m, e, vm_mul(m, hi[0], lo[1]));
    e = vm_add(m, e, vm_mul(m, lo[0], hi[1]));
    *low = vm_add(m, e, vm_mul(m, lo[0], lo[1]));
    return p;
}

/* -- Rare lanes ------------------------------------------------------------------------------------------ */

/* The helper function `name`, made when it is first asked for. */
static V helper(const struct vm *m, const char *name, int nargs, void (*make)(struct em *e, V fn), LLVMTypeRef *type)
{
    struct em *e = m->e;
    LLVMTypeRef params[2] = {e->t_f64, e->t_f64};
    *type = LLVMFunctionType(e->t_f64, params, (unsigned)nargs, 0);
    V fn = LLVMGetNamedFunction(e->mod, name);
    if (fn)
        return fn;
    struct em inside = *e;
    fn = LLVMAddFunction(e->mod, name, *type);
    LLVMSetLinkage(fn, LLVMInternalLinkage);
    em_function_attributes(e, fn);
    unsigned cold = LLVMGetEnumAttributeKindForName("noinline", 8);
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(e->lc, cold, 0));
    inside.fn = fn;
    inside.entry = LLVMAppendBasicBlockInContext(e->lc, fn, "entry");
    inside.vdim = NULL;
    inside.lanes = 1;
    inside.mask = NULL;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
    LLVMPositionBuilderAtEnd(e->b, inside.entry);
    LLVMBasicBlockRef body = em_block(&inside, "body");
    LLVMBuildBr(e->b, body);
    LLVMPositionBuilderAtEnd(e->b, body);
    make(&inside, fn);
    LLVMPositionBuilderAtEnd(e->b, here);
    return fn;
}

V vm_per_lane(const struct vm *m, const char *name, void (*make)(struct em *e, V fn), V wanted, int nargs,
              const V *args, V value)
{
    struct em *e = m->e;
    LLVMTypeRef type;
    V fn = helper(m, name, nargs, make, &type);
    struct em_if rare;
    V any = m->lanes > 1 ? em_unary_intrinsic(e, "llvm.vector.reduce.or", wanted) : wanted;
    em_if_begin(e, &rare, any);
    if (m->lanes == 1) {
        V r = LLVMBuildCall2(e->b, type, fn, (V *)args, (unsigned)nargs, "");
        return em_if_end_value(e, &rare, r, value);
    }
    struct em_loop l;
    em_loop_begin(e, &l, em_below(e, em_i64(e, m->lanes)), em_i64(e, 1), "lane");
    V result = em_loop_carry(e, &l, value), on = LLVMBuildExtractElement(e->b, wanted, l.iv, ""), lane[2];
    struct em_if f;
    em_if_begin(e, &f, on);
    for (int i = 0; i < nargs; i++)
        lane[i] = LLVMBuildExtractElement(e->b, args[i], l.iv, "");
    V r = LLVMBuildCall2(e->b, type, fn, lane, (unsigned)nargs, "");
    V changed = em_if_end_value(e, &f, LLVMBuildInsertElement(e->b, result, r, l.iv, ""), result);
    em_loop_next(&l, 0, changed);
    em_loop_end(e, &l);
    return em_if_end_value(e, &rare, l.phi[0], value);
}

/* -- Words -------------------------------------------------------------------------------------------------- */

/* direct: has code for float; else float goes through double. */
struct word {
    enum ir_op op;
    bool direct;
    V (*unary)(const struct vm *, V);
    V (*binary)(const struct vm *, V, V);
};
static const struct word words[] = {
    {IR_exp, true, vm_exp, NULL},      {IR_expm1, true, vm_expm1, NULL},  {IR_log, true, vm_log, NULL},
    {IR_log1p, true, vm_log1p, NULL},  {IR_tanh, true, vm_tanh, NULL},    {IR_erf, true, vm_erf, NULL},
    {IR_sin, false, vm_sin, NULL},     {IR_cos, false, vm_cos, NULL},     {IR_tan, false, vm_tan, NULL},
    {IR_asin, false, vm_asin, NULL},   {IR_acos, false, vm_acos, NULL},   {IR_atan, false, vm_atan, NULL},
    {IR_sinh, false, vm_sinh, NULL},   {IR_cosh, false, vm_cosh, NULL},   {IR_asinh, false, vm_asinh, NULL},
    {IR_acosh, false, vm_acosh, NULL}, {IR_atanh, false, vm_atanh, NULL}, {IR_pow, false, NULL, vm_pow},
    {IR_fmod, false, NULL, vm_fmod},
};

static const struct word *find_word(enum ir_op op)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].op == op)
            return &words[i];
    return NULL;
}

bool vm_has(enum ir_op op)
{
    return find_word(op) != NULL;
}

V vm_scalar(struct em *e, enum ir_op op, int nargs, V *args)
{
    const struct word *w = find_word(op);
    if (!w)
        return NULL;
    struct vm m = vm_make(e, args[0]), inside = m;
    V a = args[0], b = nargs > 1 ? args[1] : NULL;
    if (!m.f64 && !w->direct) {
        inside = vm_double(&m);
        a = LLVMBuildFPExt(e->b, a, inside.f, "");
        b = b ? LLVMBuildFPExt(e->b, b, inside.f, "") : NULL;
    }
    V r = w->unary ? w->unary(&inside, a) : w->binary(&inside, a, b);
    return inside.f64 && !m.f64 ? LLVMBuildFPTrunc(e->b, r, m.f, "") : r;
}
