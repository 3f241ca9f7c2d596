/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions of kernel bodies, and the combining steps of reductions.
 */
#include "compiler/emit/vmath.h"

#include <math.h>

#include "base/mutant.h"

#define V LLVMValueRef

/* Words whose result is always exact in the operands' type: no rounding needed after them. */
static bool is_exact_op(enum ir_op op)
{
    switch (op) {
    case IR_min:
    case IR_max:
    case IR_neg:
    case IR_abs:
    case IR_sign:
    case IR_floor:
    case IR_ceil:
    case IR_trunc:
    case IR_round:
    case IR_select:
    case IR_fmod: return true;
    default: return false;
    }
}

static V argument(struct em *e, const struct kn_insn *n, int i)
{
    return e->value[n->arg[i]];
}

static enum tcc_dtype argument_dtype(const struct em *e, const struct kn_insn *n, int i)
{
    return (enum tcc_dtype)e->k->insns[n->arg[i]].dtype;
}

static bool is_scalar(const struct kn_insn *n, enum ir_op op, enum tcc_dtype d)
{
    return n->code == KN_SCALAR && n->op == op && n->dtype == d;
}

/* Does n keep only the low bits, up to four, of a byte? *mask: which; returns the argument that it keeps them of. */
static const struct kn_insn *low_bits(const struct em *e, const struct kn_insn *n, int64_t *mask)
{
    for (int i = 0; is_scalar(n, IR_and, TCC_U8) && i < 2; i++) {
        const struct kn_insn *c = &e->k->insns[n->arg[i]];
        if (c->code == KN_CONST && c->ivalue > 0 && c->ivalue < 16 && (c->ivalue & (c->ivalue + 1)) == 0) {
            *mask = c->ivalue;
            return &e->k->insns[n->arg[1 - i]];
        }
    }
    return NULL;
}

/*
 * float(byte >> s & mask) + b or - b, b the same in all lanes, as quantised weights are taken out of their bytes: each
 * result is one of sixteen numbers, made once for all bytes that have that b, and looked up by the bits. NULL: it is no
 * such sum.
 */
static V from_table(struct em *e, const struct kn_insn *n)
{
    const struct kn_insn *insns = e->k->insns;
    int64_t mask;
    if (e->m->looked_up != 16 || !(is_scalar(n, IR_add, TCC_F32) || is_scalar(n, IR_sub, TCC_F32)))
        return NULL;
    const struct kn_insn *cast = &insns[n->arg[0]];
    if (!is_scalar(cast, IR_cast, TCC_F32) || em_lanes_of(argument(e, n, 1)) != 1)
        return NULL;
    const struct kn_insn *byte = low_bits(e, &insns[cast->arg[0]], &mask);
    if (!byte)
        return NULL;
    const struct kn_insn *by = is_scalar(byte, IR_shr, TCC_U8) ? &insns[byte->arg[1]] : NULL;
    bool shifted = by && by->code == KN_CONST && by->ivalue >= 0 && by->ivalue < 8;
    V bytes = e->value[shifted ? byte->arg[0] : (int)(byte - insns)];
    int lanes = em_lanes_of(bytes), parts = lanes / 16;
    if (lanes % 16 || (parts & (parts - 1)))
        return NULL;
    V number[16], value[EM_MAX_LANES / 16], b = em_splat(e, argument(e, n, 1), 16);
    for (int i = 0; i < 16; i++)
        number[i] = LLVMConstReal(e->t_f32, (double)(i & mask));
    V table = LLVMConstVector(number, 16);
    table = em_scalar(e, (enum ir_op)n->op, TCC_F32, 2, (V[]){table, b});
    for (int i = 0; i < parts; i++) {
        V index = LLVMBuildZExt(e->b, em_part(e, bytes, 16 * i, 16), em_vec(e->t_i32, 16), "");
        if (shifted)
            index = LLVMBuildLShr(e->b, index, em_int(em_vec(e->t_i32, 16), by->ivalue), "");
        value[i] = e->m->look_up(e, table, index);
    }
    return em_side_by_side(e, parts, value);
}

/* erf's argument; a quotient by a constant, as of GELU by the root of 2, as the product with its inverse: erf changes
 * by at most half of what x does. */
static V erf_argument(struct em *e, const struct kn_insn *erf)
{
    const struct kn_insn *insns = e->k->insns, *x = &insns[erf->arg[0]];
    if (!is_scalar(x, IR_div, TCC_F32) || insns[x->arg[1]].code != KN_CONST)
        return argument(e, erf, 0);
    double inverse = 1 / insns[x->arg[1]].fvalue;
    if (!(fabs(inverse) > 1e-30 && fabs(inverse) < 1e30))
        return argument(e, erf, 0);
    V dividend = argument(e, x, 0);
    return LLVMBuildFMul(e->b, dividend, em_fp(LLVMTypeOf(dividend), inverse), "");
}

/* Do others than n read instruction i? */
static bool is_shared(const struct kn_kernel *k, int i, const struct kn_insn *n)
{
    for (const struct kn_insn *user = k->insns; user < k->insns + k->ninsns; user++)
        for (int j = 0; user != n && j < user->nargs; j++)
            if (user->arg[j] == i)
                return true;
    return false;
}

/* Instruction i as a polynomial in instruction x, of a degree up to 3; false: it is none. */
static bool as_cubic(const struct em *e, int i, int x, int depth, double c[4])
{
    const struct kn_insn *n = &e->k->insns[i];
    double side[2][4], sign = is_scalar(n, IR_sub, TCC_F32) ? -1 : 1;
    bool product = is_scalar(n, IR_mul, TCC_F32), power = is_scalar(n, IR_pow, TCC_F32);
    for (int j = 0; j < 4; j++)
        c[j] = i == x ? j == 1 : n->code == KN_CONST && j == 0 ? n->fvalue : 0;
    if (i == x || n->code == KN_CONST)
        return n->dtype == TCC_F32;
    if (!depth || !(product || power || sign < 0 || is_scalar(n, IR_add, TCC_F32)))
        return false;
    for (int j = 0; j < 2; j++)
        if (!as_cubic(e, n->arg[j], x, depth - 1, side[j]))
            return false;
    for (int j = 0; j < 4; j++)
        for (int k = 0; k < 4; k++) {
            if (product && j + k > 3 && side[0][j] != 0 && side[1][k] != 0)
                return false;
            c[j] += product ? (k <= j ? side[0][k] * side[1][j - k] : 0) : k ? 0 : side[0][j] + sign * side[1][j];
        }
    if (!power)
        return true;
    c[0] = c[1] = c[2] = 0; /* x^3 */
    c[3] = 1;
    return n->arg[0] == x && e->k->insns[n->arg[1]].code == KN_CONST && side[1][0] == 3;
}

static bool is_near(double a, double b)
{
    return fabs(a / b - 1) < 2e-7; /* as a float */
}

/* The x whose sqrt(2 / pi) (x + 0.044715 x^3) a tanh is of, as in GELU; NULL: it is not of such. */
static V gelu_argument(struct em *e, const struct kn_insn *tanh)
{
    double c[4];
    int i = tanh->arg[0];
    for (int x = i - 1; x >= 0 && i - x < 12; x--)
        if (e->value[x] && as_cubic(e, i, x, 6, c) && c[0] == 0 && c[2] == 0 && is_near(c[1], sqrt(2 / M_PI)) &&
            is_near(c[3] / c[1], 0.044715))
            return e->value[x];
    return NULL;
}

/* 1 + erf(x) and 1 + tanh(x), as in GELU, and 1 + exp(x), as in sigmoids; else NULL. Of erf, tanh and exp nothing stays
 * if nobody else wants them. */
static V one_plus(struct em *e, const struct kn_insn *n)
{
    const struct kn_insn *insns = e->k->insns;
    if (n->op != IR_add || n->dtype != TCC_F32)
        return NULL;
    for (int i = 0; i < 2; i++) {
        const struct kn_insn *word = &insns[n->arg[i]], *one = &insns[n->arg[!i]];
        bool erf = is_scalar(word, IR_erf, TCC_F32), tanh = is_scalar(word, IR_tanh, TCC_F32);
        bool exp = is_scalar(word, IR_exp, TCC_F32) && !is_shared(e->k, n->arg[i], n);
        if ((!erf && !exp && !tanh) || one->code != KN_CONST || one->fvalue != 1)
            continue;
        V x = erf ? erf_argument(e, word) : tanh ? gelu_argument(e, word) : argument(e, word, 0);
        if (!x)
            continue;
        struct vm m = vm_make(e, x);
        return erf ? vm_one_plus_erf(&m, x) : tanh ? vm_one_plus_gelu_tanh(&m, x) : vm_one_plus_exp(&m, x);
    }
    return NULL;
}

/* A power by a constant that takes but square roots, as in local response normalisation; else NULL. */
static V power_by_roots(struct em *e, const struct kn_insn *n)
{
    const struct kn_insn *exponent = n->op == IR_pow ? &e->k->insns[n->arg[1]] : NULL;
    if (!exponent || exponent->code != KN_CONST || (n->dtype != TCC_F32 && n->dtype != TCC_F64))
        return NULL;
    V x = argument(e, n, 0);
    struct vm m = vm_make(e, x);
    return vm_pow_quarters(&m, x, exponent->fvalue);
}

/* y, where x is round(y) + z with a whole constant z of a byte's size; else NULL. */
static V rounded(struct em *e, const struct kn_insn *x, double *z)
{
    const struct kn_insn *insns = e->k->insns;
    *z = 0;
    if (is_scalar(x, IR_round, TCC_F32))
        return argument(e, x, 0);
    for (int i = 0; is_scalar(x, IR_add, TCC_F32) && i < 2; i++) {
        const struct kn_insn *round = &insns[x->arg[i]], *c = &insns[x->arg[1 - i]];
        *z = c->fvalue;
        if (is_scalar(round, IR_round, TCC_F32) && c->code == KN_CONST && fabs(*z) < 256 && *z == floor(*z))
            return argument(e, round, 0);
    }
    return NULL;
}

static bool is_short(enum tcc_dtype d)
{
    return d == TCC_U8 || d == TCC_I8 || d == TCC_U16 || d == TCC_I16;
}

/* Casts of floats to bytes, as quantised results are made, and back again; else NULL. */
static V quantised(struct em *e, const struct kn_insn *n)
{
    const struct kn_insn *x = n->op == IR_cast ? &e->k->insns[n->arg[0]] : NULL;
    double z;
    if (x && is_short((enum tcc_dtype)n->dtype) && x->dtype == TCC_F32) {
        V y = rounded(e, x, &z);
        return y ? em_quantise(e, (enum tcc_dtype)n->dtype, y, z) : NULL;
    }
    if (!x || n->dtype != TCC_F32 || !is_short((enum tcc_dtype)x->dtype) || x->code != KN_SCALAR || x->op != IR_cast ||
        argument_dtype(e, x, 0) != TCC_F32)
        return NULL;
    V v = argument(e, x, 0);
    return v ? em_cast_and_back(e, (enum tcc_dtype)x->dtype, v, rounded(e, &e->k->insns[x->arg[0]], &z)) : NULL;
}

static V emit_scalar(struct em *e, const struct kn_insn *n)
{
    V args[3], known = from_table(e, n);
    known = known ? known : quantised(e, n);
    known = known ? known : one_plus(e, n);
    known = known ? known : power_by_roots(e, n);
    int lanes = 1;
    enum ir_op op = (enum ir_op)n->op;
    if (known)
        return known;
    for (int i = 0; i < n->nargs; i++) {
        args[i] = argument(e, n, i);
        if (em_lanes_of(args[i]) > lanes)
            lanes = em_lanes_of(args[i]);
    }
    for (int i = 0; i < n->nargs; i++)
        args[i] = em_splat(e, args[i], lanes);
    if (op == IR_cast)
        return em_cast_by(e, (enum tcc_dtype)n->dtype, argument_dtype(e, n, 0), args[0], (int)n->ivalue);
    enum tcc_dtype d = argument_dtype(e, n, op == IR_select ? 1 : 0);
    V v = em_scalar(e, op, d, n->nargs, args);
    return is_exact_op(op) || n->dtype == TCC_BOOL ? v : em_round_to(e, (enum tcc_dtype)n->dtype, v);
}

/* Where the guards of an access hold and no index is bad; loads whose bad indices do no harm are told those in *bad
 * instead, else it is NULL. */
static void conditions(struct em *e, const struct kn_insn *n, V *uniform, V *lanes, V *bad)
{
    bool harmless;
    em_guards_split(e, n->nguards, n->guards, uniform, lanes);
    V wrong = MUTANT(340, em_bad_index(e, n, &harmless), NULL);
    *bad = n->code == KN_LOAD && harmless ? wrong : NULL;
    if (!wrong || *bad)
        return;
    V *into = em_lanes_of(wrong) > 1 ? lanes : uniform;
    *into = em_and_mask(e, *into, LLVMBuildNot(e->b, wrong, ""));
}

/* What a load gives that does not happen where `bad` says so. */
static V without_bad(struct em *e, V loaded, V bad, V otherwise)
{
    if (!bad)
        return loaded;
    V none = otherwise ? otherwise : LLVMConstNull(LLVMTypeOf(loaded));
    int lanes = em_lanes_of(loaded) > em_lanes_of(bad) ? em_lanes_of(loaded) : em_lanes_of(bad);
    lanes = em_lanes_of(none) > lanes ? em_lanes_of(none) : lanes;
    if (em_lanes_of(bad) > 1)
        bad = em_splat(e, bad, lanes);
    LLVMValueRef loaded_lanes = em_splat(e, loaded, lanes);
    return LLVMBuildSelect(e->b, bad, em_splat(e, none, lanes), loaded_lanes, "");
}

static V load_where(struct em *e, const struct kn_insn *n, V uniform, V lanes, V otherwise)
{
    enum tcc_dtype d = (enum tcc_dtype)e->k->operands[n->operand].dtype;
    if (!uniform || !lanes)
        return em_load_at(e, n->operand, n->index, uniform ? uniform : lanes, otherwise);
    struct em_if f;
    V none = em_splat(e, otherwise ? otherwise : LLVMConstNull(em_reg_type(e, d)), e->lanes);
    em_if_begin(e, &f, uniform);
    V v = em_splat(e, em_load_at(e, n->operand, n->index, lanes, none), e->lanes);
    return em_if_end_value(e, &f, v, none);
}

V em_load_insn(struct em *e, const struct kn_insn *n)
{
    V uniform, lanes, bad;
    conditions(e, n, &uniform, &lanes, &bad);
    bool may_miss = n->nguards || bad || uniform || lanes;
    V when_missing = may_miss && n->nargs > 0 && n->arg[0] >= 0 ? argument(e, n, 0) : NULL;
    return without_bad(e, load_where(e, n, uniform, lanes, when_missing), bad, when_missing);
}

static void emit_store(struct em *e, const struct kn_insn *n)
{
    V uniform, lanes, bad, value = argument(e, n, 0);
    struct em_if f;
    conditions(e, n, &uniform, &lanes, &bad);
    if (uniform && lanes)
        em_if_begin(e, &f, uniform);
    em_store_at(e, n->operand, n->index, lanes ? lanes : uniform, value);
    if (uniform && lanes)
        em_if_end(e, &f);
}

/* Volatile: threads of a device may do so at once. */
static void tell(struct em *e, size_t at, V value)
{
    V offset = em_i64(e, (int64_t)at);
    LLVMSetVolatile(LLVMBuildStore(e->b, value, LLVMBuildGEP2(e->b, e->t_i8, e->env, &offset, 1, "")), 1);
}

/* One of the lanes' numbers where `bad` holds: the greatest. */
static V bad_one(struct em *e, V bad, V x)
{
    if (em_lanes_of(bad) == 1)
        return x;
    V least = em_splat(e, em_i64(e, INT64_MIN), em_lanes_of(bad));
    return em_unary_intrinsic(e, "llvm.vector.reduce.smax", LLVMBuildSelect(e->b, bad, x, least, ""));
}

/* Records that the index of instruction n was bad, in any lane that is on: what it was, and of how many there are. */
static void report_fault(struct em *e, const struct kn_insn *n, V bad, V index, V extent)
{
    struct em_if f;
    int check = 0;
    V any = bad;
    for (const struct kn_insn *i = e->k->insns; i < n; i++)
        check += i->code == KN_INDEX;
    if (em_lanes_of(bad) > 1) {
        if (e->mask)
            bad = LLVMBuildAnd(e->b, bad, em_splat(e, e->mask, e->lanes), "");
        any = em_unary_intrinsic(e, "llvm.vector.reduce.or", bad);
    }
    em_if_begin(e, &f, any);
    tell(e, offsetof(struct tcc_env, index), bad_one(e, bad, index));
    tell(e, offsetof(struct tcc_env, extent), em_lanes_of(extent) > 1 ? bad_one(e, bad, extent) : extent);
    tell(e, offsetof(struct tcc_env, check), em_i64(e, check));
    tell(e, offsetof(struct tcc_env, fault), LLVMConstInt(e->t_i32, TCC_EINDEX, 0));
    em_if_end(e, &f);
}

/* Where the value is one of what is stored somewhere, or of numbers, and no zero for a load that does not happen; NULL:
 * everywhere. */
static V is_there(struct em *e, int insn)
{
    const struct kn_insn *n = &e->k->insns[insn];
    V there = NULL;
    if (n->code == KN_LOAD && n->nguards) {
        V other = n->nargs && n->arg[0] >= 0 ? is_there(e, n->arg[0]) : NULL;
        bool always = n->nargs && n->arg[0] >= 0 && !other;
        there = always ? NULL : em_guards(e, n->nguards, n->guards);
        if (there && other) {
            int lanes = em_lanes_of(there) > em_lanes_of(other) ? em_lanes_of(there) : em_lanes_of(other);
            LLVMValueRef other_lanes = em_splat(e, other, lanes);
            there = LLVMBuildOr(e->b, em_splat(e, there, lanes), other_lanes, "");
        }
    }
    for (int i = 0; n->code == KN_SCALAR && i < n->nargs; i++)
        there = em_and_mask(e, there, is_there(e, n->arg[i]));
    return there;
}

static V emit_index(struct em *e, const struct kn_insn *n)
{
    V v = em_cast(e, TCC_I64, argument_dtype(e, n, 0), argument(e, n, 0)), extent = em_expr_lanes(e, n->bound);
    int lanes = em_lanes_of(v) > em_lanes_of(extent) ? em_lanes_of(v) : em_lanes_of(extent);
    v = em_splat(e, v, lanes);
    V given = v, bound = em_splat(e, extent, lanes);
    V zero = LLVMConstNull(LLVMTypeOf(v)), low = LLVMBuildICmp(e->b, LLVMIntSLT, v, zero, "");
    v = LLVMBuildSelect(e->b, low, LLVMBuildAdd(e->b, v, bound, ""), v, "");
    V bad = LLVMBuildICmp(e->b, LLVMIntUGE, v, bound, "");
    /* A zero that stands for no index is bad only where there is nothing, and nobody is to hear of it. */
    report_fault(e, n, n->bound->lo < 1 ? em_and_mask(e, bad, is_there(e, n->arg[0])) : bad, given, extent);
    v = LLVMBuildSelect(e->b, bad, zero, v, "");
    em_bind_index(e, n->expr, v, bad, n->bound);
    return v;
}

static V emit_env(struct em *e, const struct kn_insn *n)
{
    V at = em_i64(e, n->ivalue == KN_SEED ? offsetof(struct tcc_env, seed) : offsetof(struct tcc_env, run));
    return LLVMBuildLoad2(e->b, e->t_i64, LLVMBuildGEP2(e->b, e->t_i8, e->env, &at, 1, ""), "env");
}

void em_insn(struct em *e, int i)
{
    const struct kn_insn *n = &e->k->insns[i];
    enum tcc_dtype d = (enum tcc_dtype)n->dtype;
    switch ((enum kn_code)n->code) {
    case KN_CONST: e->value[i] = em_const(e, d, n->fvalue, n->ivalue); break;
    case KN_EXPR: e->value[i] = em_cast(e, d, TCC_I64, em_expr_lanes(e, n->expr)); break;
    case KN_ENV: e->value[i] = emit_env(e, n); break;
    case KN_LOAD: e->value[i] = em_load_insn(e, n); break;
    case KN_STORE: emit_store(e, n); break;
    case KN_SCALAR: e->value[i] = emit_scalar(e, n); break;
    case KN_INDEX: e->value[i] = emit_index(e, n); break;
    case KN_REDUCE:
    case KN_ARGREDUCE:
    case KN_SCAN: break;
    case KN_SORT: em_sort(e, n, NULL); break;
    }
}

void em_insn_needed(struct em *e, int i)
{
    const struct kn_insn *in = &e->k->insns[i];
    if (e->value[i])
        return;
    for (int a = 0; a < in->nargs; a++)
        if (in->arg[a] >= 0)
            em_insn_needed(e, in->arg[a]);
    for (int j = 0; j < i; j++)
        if (e->k->insns[j].code == KN_INDEX && kn_insn_uses(in, e->k->insns[j].expr))
            em_insn_needed(e, j);
    em_insn(e, i);
}

void em_insns(struct em *e, int first, int last)
{
    for (int i = first; i < last; i++)
        if (!e->value[i])
            em_insn(e, i);
}

void em_forget(struct em *e, int first, int last)
{
    for (int i = first; i < last; i++)
        e->value[i] = NULL;
}

/* -- Reductions -------------------------------------------------------------------------------------- */

V em_reduce_init(struct em *e, enum kn_reducer r, enum tcc_dtype d)
{
    LLVMTypeRef t = em_reg_type(e, d);
    int bits = 8 * tcc_dtype_bytes(d);
    if (r == KN_SUM || r == KN_PROD)
        return em_const(e, d, r == KN_PROD, r == KN_PROD);
    if (tcc_is_float(d))
        return em_fp(t, r == KN_MAX ? -__builtin_inf() : __builtin_inf());
    if (!tcc_is_signed(d))
        return r == KN_MAX ? LLVMConstNull(t) : LLVMConstAllOnes(t);
    int64_t lowest = (int64_t)(~0ull << (bits - 1));
    return em_int(t, r == KN_MAX ? lowest : ~lowest);
}

V em_reduce_step(struct em *e, enum kn_reducer r, enum tcc_dtype d, V acc, V x)
{
    static const enum ir_op words[] = {[KN_SUM] = IR_add, [KN_PROD] = IR_mul, [KN_MAX] = IR_max, [KN_MIN] = IR_min};
    if (d == TCC_BOOL) /* sum and max of truths: any; product and min: all */
        return r == KN_SUM || r == KN_MAX ? LLVMBuildOr(e->b, acc, x, "") : LLVMBuildAnd(e->b, acc, x, "");
    V v = em_scalar(e, words[r], d, 2, (V[]){acc, x});
    return em_round_to(e, d, v);
}

V em_reduce_lanes(struct em *e, enum kn_reducer r, enum tcc_dtype d, V v)
{
    LLVMValueRef order[EM_MAX_LANES];
    for (int lanes = em_lanes_of(v); lanes > 1; lanes = lanes / 2) {
        int half = lanes / 2;
        V parts[2];
        for (int p = 0; p < 2; p++) {
            for (int i = 0; i < half; i++)
                order[i] = LLVMConstInt(e->t_i32, (unsigned)(p * half + i), 0);
            parts[p] = half == 1 ? LLVMBuildExtractElement(e->b, v, em_i64(e, p), "")
                                 : LLVMBuildShuffleVector(e->b, v, v, LLVMConstVector(order, (unsigned)half), "");
        }
        v = em_reduce_step(e, r, d, parts[0], parts[1]);
    }
    return v;
}
