/* SPDX-License-Identifier: Apache-2.0 */
/*
 * formulas.c - how each scalar op is computed (engine_ops.def). What the engines lack is made of what they have, within
 * the inputs for which functions are documented (runtime/neuron_isa.def): ranges are reduced, ends of the range put
 * right by copies under a mask. Formulas: Kahan, "Branch Cuts for Complex Elementary Functions" (1987) for log1p; Cody
 * and Waite, "Software Manual for the Elementary Functions" (1980) for the reduction of angles; Dekker, "A
 * Floating-Point Technique for Extending the Available Precision" (1971) for quotients.
 */
#include "base/mutant.h"
#include "compiler/neuron/ops_int.h"

#include <math.h>

#define F TCC_F32
static value tt(struct nk_op o, enum neuron_alu op, value a, value b)
{
    return nk_tt(o.nk, o.t, F, op, a, b);
}
static value ts(struct nk_op o, enum neuron_alu op, value a, double b)
{
    return nk_ts(o.nk, o.t, F, op, a, b);
}
static value rts(struct nk_op o, enum neuron_alu op, double a, value b)
{
    return nk_tt(o.nk, o.t, F, op, nk_number(o.nk, F, a), b);
}
static value mask(struct nk_op o, enum neuron_alu op, value a, double b)
{
    return nk_ts(o.nk, o.t, TCC_BOOL, op, a, b);
}
static value function(struct nk_op o, enum neuron_func f, value a)
{
    return nk_act(o.nk, o.t, F, f, a, 1);
}
static value choose(struct nk_op o, value m, value yes, value no)
{
    return nk_select(o.nk, o.t, F, m, yes, no);
}
static value choose_number(struct nk_op o, value m, double yes, value no)
{
    return choose(o, m, nk_number(o.nk, F, yes), no);
}
static value magnitude(struct nk_op o, value x)
{
    return ts(o, NEURON_ALU_ABS, x, 0);
}
#define ADD(a, b) tt(o, NEURON_ALU_ADD, a, b)
#define SUB(a, b) tt(o, NEURON_ALU_SUB, a, b)
#define MUL(a, b) tt(o, NEURON_ALU_MUL, a, b)
#define ADDN(a, n) ts(o, NEURON_ALU_ADD, a, n)
#define MULN(a, n) ts(o, NEURON_ALU_MUL, a, n)
#define SIGN(a) function(o, NEURON_FUNC_SIGN, a)
#define LARGEST 3.4028234663852886e38

static value inverse(struct nk_op o, value x)
{
    return nk_inverse(o.nk, o.t, x);
}

/* -- Floats -------------------------------------------------------------------------------------------------------- */

/* Is it made of places along loops (`places`: of any) and of single elements alone? most: instructions to look at. */
static bool is_place(const struct kn_kernel *k, int insn, bool *places, int *most)
{
    const struct kn_insn *n = &k->insns[insn];
    if (n->code == KN_EXPR)
        *places |= !ir_is_const(n->expr, NULL);
    if (n->code == KN_LOAD)
        return k->operands[n->operand].rank == 0;
    if (n->code != KN_SCALAR)
        return n->code == KN_EXPR || n->code == KN_CONST;
    for (int i = 0; i < n->nargs; i++)
        if (--*most < 0 || !is_place(k, n->arg[i], places, most))
            return false;
    return true;
}

/* A quotient that is a place between elements, as Resize computes them, or what such a quotient is divided by: whether
 * it is a whole number decides which elements are taken. */
static bool decides_element(const struct nk *nk, const struct kn_insn *n)
{
    const struct kn_kernel *k = nk->k;
    bool places = false;
    int most = 64, number = (int)(n - k->insns);
    if (n < k->insns || n >= k->insns + k->ninsns || !is_place(k, number, &places, &most))
        return false;
    int reader = places ? -1 : nk_reader_of(k, number);
    return places || (reader >= 0 && k->insns[reader].op == IR_div && is_place(k, reader, &places, &most) && places);
}

/* x in two parts of 12 bits, whose products are exact: the first. */
static value first_bits(struct nk_op o, value x)
{
    value c = MULN(x, 4097);
    return SUB(c, SUB(c, x));
}
/* The quotient near q that is rounded once: q and what q b lacks of a, times 1 / b (Dekker's product). */
static value round_quotient(struct nk_op o, value q, value a, value b)
{
    value q1 = first_bits(o, q), q2 = SUB(q, q1), b1 = first_bits(o, b), b2 = SUB(b, b1), p = MUL(q, b);
    value rest = SUB(MUL(q1, b1), p);
    rest = ADD(rest, MUL(q1, b2));
    rest = ADD(rest, MUL(q2, b1));
    rest = ADD(rest, MUL(q2, b2));
    rest = SUB(SUB(a, p), rest);
    value better = ADD(q, MUL(rest, inverse(o, b)));
    return choose(o, nk_tt(o.nk, o.t, TCC_BOOL, NEURON_ALU_EQ, better, better), better, q); /* not of what overflows */
}
static value make_quotient(struct nk_op o, const value *x)
{
    bool rounds = MUTANT(414, decides_element(o.nk, o.insn), false);
    if (x[1]->is_number && !rounds)
        return nk_ts(o.nk, o.t, o.to, NEURON_ALU_MUL, x[0], 1 / x[1]->number);
    if (x[0]->is_number && x[0]->number == 1 && !rounds)
        return inverse(o, x[1]);
    if (!rounds)
        return nk_tt(o.nk, o.t, o.to, NEURON_ALU_MUL, inverse(o, x[1]), x[0]);
    value b = nk_solid(o.nk, o.t, x[1]);
    return round_quotient(o, MUL(inverse(o, b), x[0]), x[0], b);
}

/* Whole numbers near x, by a conversion to i32 and back; from 2^23 on, and for NaN, x is one itself. */
static value nearest(struct nk_op o, value x)
{
    return nk_copy(o.nk, o.t, F, nk_copy(o.nk, o.t, TCC_I32, x));
}
static value where_small(struct nk_op o, value x, value whole)
{
    value chosen = MULN(x, 0);
    whole = choose(o, mask(o, NEURON_ALU_EQ, whole, 0), chosen, whole); /* of x's sign */
    return choose(o, mask(o, NEURON_ALU_LT, magnitude(o, x), 0x1p23), whole, x);
}
static value make_round(struct nk_op o, const value *x)
{
    return where_small(o, x[0], nearest(o, x[0]));
}
static value make_floor(struct nk_op o, const value *x)
{
    value n = nearest(o, x[0]);
    return where_small(o, x[0], SUB(n, tt(o, NEURON_ALU_GT, n, x[0])));
}
static value make_ceil(struct nk_op o, const value *x)
{
    value n = nearest(o, x[0]);
    return where_small(o, x[0], ADD(n, tt(o, NEURON_ALU_LT, n, x[0])));
}
static value make_trunc(struct nk_op o, const value *x)
{
    value a = magnitude(o, x[0]), n = nearest(o, a);
    value right = SIGN(x[0]);
    n = MUL(SUB(n, tt(o, NEURON_ALU_GT, n, a)), right);
    return where_small(o, x[0], n);
}

/* |x| - floor(|x| / |y|) |y|, put right where the quotient was rounded across a whole number. */
static value rest_of(struct nk_op o, value a, value b)
{
    value q = MUL(a, inverse(o, b)), whole = make_floor(o, &q), r = SUB(a, MUL(whole, b));
    r = ADD(r, MUL(ts(o, NEURON_ALU_LT, r, 0), b));
    r = SUB(r, MUL(tt(o, NEURON_ALU_GE, r, b), b));
    value chosen = SUB(a, MULN(a, 0));
    return choose(o, mask(o, NEURON_ALU_GT, b, LARGEST), chosen, r); /* |x|; NaN if that is infinite, too */
}
static value make_remainder(struct nk_op o, const value *x)
{
    value y = nk_solid(o.nk, o.t, x[1]);
    value right = SIGN(x[0]);
    value second = magnitude(o, y);
    return MUL(rest_of(o, magnitude(o, x[0]), second), right);
}
/* The remainder, plus y where their signs differ. */
static value make_modulo(struct nk_op o, const value *x)
{
    value y = nk_solid(o.nk, o.t, x[1]), args[2] = {x[0], y}, r = make_remainder(o, args);
    value right = SIGN(y);
    value other = mask(o, NEURON_ALU_LT, MUL(SIGN(r), right), 0);
    r = choose(o, other, ADD(r, y), r);
    value chosen = MULN(SIGN(y), 0);
    return choose(o, mask(o, NEURON_ALU_EQ, r, 0), chosen, r); /* 0 has y's sign */
}

static value make_negative(struct nk_op o, const value *x)
{
    return nk_ts(o.nk, o.t, o.to, NEURON_ALU_MUL, x[0], -1);
}
static value make_absolute(struct nk_op o, const value *x)
{
    return nk_ts(o.nk, o.t, o.to, NEURON_ALU_ABS, x[0], 0);
}
/* Does it make a difference whether a zero that the instruction gives is negative? Not where all that becomes of it is
 * added to another number. */
static bool sign_of_zero_matters(const struct nk *nk, const struct kn_insn *n)
{
    const struct kn_kernel *k = nk->k;
    int reader = nk_reader_of(k, (int)(n - k->insns));
    const struct kn_insn *r = reader < 0 ? NULL : &k->insns[reader];
    if (!r || r->code != KN_SCALAR)
        return true;
    int other = k->insns[r->arg[0]].code == KN_CONST ? r->arg[0] : r->arg[r->nargs - 1];
    if (r->op == IR_add && k->insns[other].code == KN_CONST && k->insns[other].fvalue != 0)
        return false;
    bool product = r->op == IR_mul || (r->op == IR_div && &k->insns[r->arg[0]] == n);
    return !product || sign_of_zero_matters(nk, r);
}

static value root_of(struct nk_op o, value x)
{
    return nk_powers(o.nk, o.t, x, NEURON_ALU_MAX, -LARGEST, NEURON_ALU_POW, 0.5);
}

/* Powers know no sign of 0, and -inf's is inf: the larger of the power and of what x is below 0. */
static value signed_root(struct nk_op o, value x)
{
    x = nk_solid(o.nk, o.t, x);
    struct nk_half below = {x, nk_number(o.nk, F, 0), NEURON_ALU_MIN, true};
    struct nk_value least = *x;
    least.half = &below;
    return nk_pair(o.nk, o.t, F, NEURON_ALU_MAX, root_of(o, x), &least);
}
static value make_sqrt(struct nk_op o, const value *x)
{
    return sign_of_zero_matters(o.nk, o.insn) ? signed_root(o, x[0]) : root_of(o, x[0]);
}
/* tanh(x / 2) (e^x + 1), exact for all x. */
static value make_expm1(struct nk_op o, const value *x)
{
    value right = ADDN(function(o, NEURON_FUNC_EXP, x[0]), 1);
    return MUL(nk_act(o.nk, o.t, F, NEURON_FUNC_TANH, x[0], 0.5), right);
}
static value make_log(struct nk_op o, const value *arg)
{
    value x = arg[0], small = mask(o, NEURON_ALU_LT, x, 0x1p-60), big = mask(o, NEURON_ALU_GT, x, 0x1p60);
    value otherwise = choose(o, small, MULN(x, 0x1p88), x);
    value y = choose(o, big, MULN(x, 0x1p-68), otherwise);
    y = ts(o, NEURON_ALU_MIN, ts(o, NEURON_ALU_MAX, y, 0x1p-64), 0x1p64);
    y = function(o, NEURON_FUNC_LOG, y);
    value right = MULN(big, 68 * 0.69314718055994531);
    y = ADD(y, ADD(MULN(small, -88 * 0.69314718055994531), right));
    y = choose(o, mask(o, NEURON_ALU_GT, x, LARGEST), x, y);
    y = choose_number(o, mask(o, NEURON_ALU_EQ, x, 0), -INFINITY, y);
    return choose_number(o, mask(o, NEURON_ALU_LT, x, 0), NAN, y);
}
static value make_log1p(struct nk_op o, const value *arg)
{
    value x = arg[0], u = ADDN(x, 1), l = make_log(o, &u), d = ADDN(u, -1), y = MUL(l, MUL(x, inverse(o, d)));
    y = choose(o, mask(o, NEURON_ALU_EQ, d, 0), x, y);
    return choose(o, mask(o, NEURON_ALU_GT, u, LARGEST), u, y);
}

/* x - 2 pi k, within [-pi, pi]: 2 pi in two parts, of which the first has few bits. */
static value angle(struct nk_op o, value x)
{
    value q = MULN(x, 0.15915494309189535), k = make_round(o, &q);
    value right = MULN(k, 0.0019353071795864769);
    value r = SUB(SUB(x, MULN(k, 6.28125)), right);
    return ts(o, NEURON_ALU_MIN, ts(o, NEURON_ALU_MAX, r, -0x1.921fb4p1), 0x1.921fb4p1);
}
static value make_sin(struct nk_op o, const value *x)
{
    return function(o, NEURON_FUNC_SIN, angle(o, x[0]));
}
static value make_cos(struct nk_op o, const value *x)
{
    return function(o, NEURON_FUNC_SIN, rts(o, NEURON_ALU_SUB, 1.5707963267948966, magnitude(o, angle(o, x[0]))));
}
static value make_tan(struct nk_op o, const value *x)
{
    value right = inverse(o, make_cos(o, x));
    return MUL(make_sin(o, x), right);
}
static value make_atan(struct nk_op o, const value *x)
{
    value a = magnitude(o, x[0]), far = mask(o, NEURON_ALU_GT, a, 1);
    value y = function(o, NEURON_FUNC_ARCTAN, choose(o, far, inverse(o, a), a));
    value right = SIGN(x[0]);
    return MUL(choose(o, far, rts(o, NEURON_ALU_SUB, 1.5707963267948966, y), y), right);
}
static value make_asin(struct nk_op o, const value *x)
{
    value right = ADDN(x[0], 1);
    value s = MUL(rts(o, NEURON_ALU_SUB, 1, x[0]), right);
    value y = MUL(x[0], inverse(o, signed_root(o, s)));
    return make_atan(o, &y);
}
static value make_acos(struct nk_op o, const value *x)
{
    value right = inverse(o, ADDN(x[0], 1));
    value q = MUL(rts(o, NEURON_ALU_SUB, 1, x[0]), right);
    value s = make_sqrt(o, &q);
    return MULN(make_atan(o, &s), 2);
}
static value make_sinh(struct nk_op o, const value *x)
{
    value a = magnitude(o, x[0]), e = make_expm1(o, &a), y = ADD(e, MUL(e, inverse(o, ADDN(e, 1))));
    y = choose(o, mask(o, NEURON_ALU_GT, e, LARGEST), e, y);
    value right = SIGN(x[0]);
    return MUL(MULN(y, 0.5), right);
}
static value make_cosh(struct nk_op o, const value *x)
{
    value e = function(o, NEURON_FUNC_EXP, magnitude(o, x[0]));
    return MULN(ADD(e, inverse(o, e)), 0.5);
}
static value make_asinh(struct nk_op o, const value *x)
{
    value a = magnitude(o, x[0]), square = MUL(a, a), s = ADDN(square, 1);
    value near = ADD(a, MUL(square, inverse(o, ADDN(signed_root(o, s), 1))));
    value otherwise = make_log1p(o, &near);
    value chosen = ADDN(make_log(o, &a), 0.69314718055994531);
    value y = choose(o, mask(o, NEURON_ALU_GT, a, 0x1p40), chosen, otherwise);
    return MUL(y, SIGN(x[0]));
}
static value make_acosh(struct nk_op o, const value *x)
{
    value d = ADDN(x[0], -1), s = MUL(d, ADDN(d, 2)), y = ADD(d, signed_root(o, s));
    y = make_log1p(o, &y);
    value chosen = ADDN(make_log(o, x), 0.69314718055994531);
    return choose(o, mask(o, NEURON_ALU_GT, x[0], 0x1p40), chosen, y);
}
static value make_atanh(struct nk_op o, const value *x)
{
    value a = magnitude(o, x[0]);
    value right = inverse(o, rts(o, NEURON_ALU_SUB, 1, a));
    value q = MUL(MULN(a, 2), right);
    value second = SIGN(x[0]);
    return MUL(MULN(make_log1p(o, &q), 0.5), second);
}
/* The same bytes as another type of as many. */
static value seen_as(struct nk_op o, value v, enum tcc_dtype d)
{
    struct nk_value *same = IR_NEW(o.nk->ctx, struct nk_value);
    *same = *v;
    same->dtype = (uint8_t)d;
    same->type = (uint8_t)nk_type(o.nk, d);
    return same;
}
/* Random bits are added below bf16's last place and what is there is cut off. */
static value make_dither(struct nk_op o, const value *x)
{
    value v = nk_copy(o.nk, o.t, F, nk_solid(o.nk, o.t, x[0])), bits = seen_as(o, v, TCC_I32);
    bits = nk_tt(o.nk, o.t, TCC_I32, NEURON_ALU_ADD, bits, nk_copy(o.nk, o.t, TCC_I32, nk_solid(o.nk, o.t, x[1])));
    bits = nk_ts(o.nk, o.t, TCC_I32, NEURON_ALU_AND, bits, -65536);
    return choose(o, mask(o, NEURON_ALU_LE, magnitude(o, v), LARGEST), seen_as(o, bits, F), v);
}
static value make_isnan(struct nk_op o, const value *x)
{
    return nk_tt(o.nk, o.t, TCC_BOOL, NEURON_ALU_NE, x[0], x[0]);
}
static value make_isinf(struct nk_op o, const value *x)
{
    return mask(o, NEURON_ALU_GT, magnitude(o, x[0]), LARGEST);
}

/* -- Integers ------------------------------------------------------------------------------------------------------ */

static value itt(struct nk_op o, enum neuron_alu op, value a, value b)
{
    return nk_tt(o.nk, o.t, TCC_I32, op, a, b);
}
static value its(struct nk_op o, enum neuron_alu op, value a, double b)
{
    return nk_ts(o.nk, o.t, TCC_I32, op, a, b);
}

/* a = q b + r, |r| < |b|, r of a's sign or 0; q = r = 0 for b = 0. Quotients of float32 are near; twice refined, off by
 * one at most. */
static void divide(struct nk_op o, value a, value b, value *q, value *r)
{
    a = nk_copy(o.nk, o.t, TCC_I32, nk_solid(o.nk, o.t, a));
    b = nk_copy(o.nk, o.t, TCC_I32, nk_solid(o.nk, o.t, b));
    value zero = its(o, NEURON_ALU_EQ, b, 0), d = itt(o, NEURON_ALU_ADD, b, zero); /* 0 becomes 1 */
    value scale = inverse(o, nk_copy(o.nk, o.t, F, d));
    *q = NULL;
    *r = a;
    for (int k = 0; k < 2; k++) {
        value more = nk_copy(o.nk, o.t, TCC_I32, MUL(nk_copy(o.nk, o.t, F, *r), scale));
        *q = *q ? itt(o, NEURON_ALU_ADD, *q, more) : more;
        *r = itt(o, NEURON_ALU_SUB, a, itt(o, NEURON_ALU_MUL, *q, d));
    }
    /* r has a's sign, or q goes one towards zero: by the sign of d where r is below 0 and a is not, the other way where
     * it is above. */
    value right = its(o, NEURON_ALU_LT, a, 0);
    value sa = itt(o, NEURON_ALU_SUB, its(o, NEURON_ALU_GT, a, 0), right);
    value second = its(o, NEURON_ALU_LT, *r, 0);
    value sr = itt(o, NEURON_ALU_SUB, its(o, NEURON_ALU_GT, *r, 0), second);
    value other = its(o, NEURON_ALU_LT, d, 0);
    value sd = itt(o, NEURON_ALU_SUB, its(o, NEURON_ALU_GT, d, 0), other);
    value wrong = its(o, NEURON_ALU_LT, itt(o, NEURON_ALU_MUL, sa, sr), 0);
    value step = itt(o, NEURON_ALU_MUL, itt(o, NEURON_ALU_MUL, wrong, sr), sd);
    *q = itt(o, NEURON_ALU_ADD, *q, step);
    *r = itt(o, NEURON_ALU_SUB, *r, itt(o, NEURON_ALU_MUL, step, d));
    /* a multiple too few: |r| = |b| */
    value rest = its(o, NEURON_ALU_ABS, d, 0);
    value full = itt(o, NEURON_ALU_EQ, its(o, NEURON_ALU_ABS, *r, 0), rest);
    step = itt(o, NEURON_ALU_MUL, full, itt(o, NEURON_ALU_MUL, sa, sd));
    *q = itt(o, NEURON_ALU_ADD, *q, step);
    *r = itt(o, NEURON_ALU_SUB, *r, itt(o, NEURON_ALU_MUL, step, d));
    value some = its(o, NEURON_ALU_NE, b, 0);
    *q = itt(o, NEURON_ALU_MUL, *q, some);
    *r = itt(o, NEURON_ALU_MUL, *r, some);
}

/* Engines fill with zeros: what is negative is turned over before and after. */
static value make_shr(struct nk_op o, const value *x)
{
    value v = x[0], sign = NULL;
    if (tcc_is_signed(o.from)) {
        sign = nk_ts(o.nk, o.t, o.to, NEURON_ALU_MUL, nk_ts(o.nk, o.t, o.to, NEURON_ALU_LT, v, 0), -1);
        v = nk_tt(o.nk, o.t, o.to, NEURON_ALU_XOR, v, sign);
    }
    v = nk_tt(o.nk, o.t, o.to, NEURON_ALU_SHR, v, x[1]);
    return sign ? nk_tt(o.nk, o.t, o.to, NEURON_ALU_XOR, v, sign) : v;
}
const struct nk_value *nk_floor_divide(struct nk *nk, const struct nk_tile *t, const struct nk_value *v, double by,
                                       bool mod)
{
    struct nk_op o = {.nk = nk, .t = t, .to = TCC_I32, .from = TCC_I32};
    value q, r;
    int exponent;
    if (frexp(by, &exponent) == 0.5) { /* a power of two */
        if (mod)
            return its(o, NEURON_ALU_AND, v, by - 1);
        return make_shr(o, (value[]){v, nk_number(nk, TCC_I32, exponent - 1)});
    }
    divide(o, v, nk_number(nk, TCC_I32, by), &q, &r);
    value less = its(o, NEURON_ALU_LT, r, 0);
    return mod ? itt(o, NEURON_ALU_ADD, r, its(o, NEURON_ALU_MUL, less, by)) : itt(o, NEURON_ALU_SUB, q, less);
}

static void not_u32(struct nk_op o)
{
    if (o.from == TCC_U32)
        nk_refuse(o.nk, "division of u32");
}
static value make_idiv(struct nk_op o, const value *x)
{
    value q, r;
    not_u32(o);
    divide(o, x[0], x[1], &q, &r);
    return q;
}
static value make_ifmod(struct nk_op o, const value *x)
{
    value q, r;
    not_u32(o);
    divide(o, x[0], x[1], &q, &r);
    return r;
}
static value make_imod(struct nk_op o, const value *x)
{
    value r = make_ifmod(o, x), y = nk_copy(o.nk, o.t, TCC_I32, nk_solid(o.nk, o.t, x[1]));
    value right = its(o, NEURON_ALU_LT, y, 0);
    value negative = itt(o, NEURON_ALU_LXOR, its(o, NEURON_ALU_LT, r, 0), right);
    negative = itt(o, NEURON_ALU_MUL, negative, its(o, NEURON_ALU_NE, r, 0));
    return itt(o, NEURON_ALU_ADD, r, itt(o, NEURON_ALU_MUL, negative, y));
}
static value make_isign(struct nk_op o, const value *x)
{
    struct nk_value *right = nk_ts(o.nk, o.t, o.to, NEURON_ALU_LT, x[0], 0);
    return nk_tt(o.nk, o.t, o.to, NEURON_ALU_SUB, nk_ts(o.nk, o.t, o.to, NEURON_ALU_GT, x[0], 0), right);
}
static value make_philox(struct nk_op o, const value *x)
{
    value wide[3];
    for (int i = 0; i < 3; i++)
        wide[i] = nk_wide(o.nk, o.t, IR_cast, o.from, TCC_U64, &x[i], 1);
    value v = nk_wide(o.nk, o.t, IR_philox, TCC_U64, TCC_U64, wide, 3);
    return nk_wide(o.nk, o.t, IR_cast, TCC_U64, o.to, &v, 1);
}
static value make_inot(struct nk_op o, const value *x)
{
    return nk_ts(o.nk, o.t, o.to, NEURON_ALU_NOT, x[0], 0);
}
static value make_lnot(struct nk_op o, const value *x)
{
    return mask(o, NEURON_ALU_EQ, x[0], 0);
}

/* -- Of any type --------------------------------------------------------------------------------------------------- */

static value make_select(struct nk_op o, const value *x)
{
    return nk_select(o.nk, o.t, o.to, x[0], x[1], x[2]);
}

static value make_cast(struct nk_op o, const value *x)
{
    value v = x[0];
    bool from_float = tcc_is_float(o.from), to_float = tcc_is_float(o.to);
    if (tcc_dtype_bytes(o.to) == 1 && to_float)
        nk_refuse(o.nk, "a cast to %s", tcc_dtype_name(o.to));
    if (o.from == o.to && !v->is_number && v->type == nk_type(o.nk, o.to)) /* who made it rounded it */
        return v;
    if (v->is_number) {
        if (!from_float && to_float)
            return nk_number(o.nk, o.to, v->number);
        v = nk_solid(o.nk, o.t, v);
    }
    if (o.to == TCC_BOOL)
        return mask(o, NEURON_ALU_NE, v, 0);
    if (from_float && !to_float)
        v = make_trunc(o, &v);
    return nk_copy(o.nk, o.t, o.to, v);
}

/* -- The table ----------------------------------------------------------------------------------------------------- */

#define ALU(op)                       \
    {                                 \
        BY_ALU, NEURON_ALU_##op, NULL \
    }
#define FUNC(f)                        \
    {                                  \
        BY_FUNC, NEURON_FUNC_##f, NULL \
    }
#define MAKE(f)              \
    {                        \
        BY_MAKE, 0, make_##f \
    }
#define HOST             \
    {                    \
        BY_HOST, 0, NULL \
    }
const struct nk_way nk_ways[IR_NOPS + NEURON_NFUNCS][3] = {
#define ROW(op, f, i, b) [IR_##op] = {f, i, b},
#include "compiler/neuron/engine_ops.def"
#undef ALU
#undef FUNC
#define FUNC(id, name, lo, hi) [IR_NOPS + NEURON_FUNC_##id] = {{BY_FUNC, NEURON_FUNC_##id, NULL}},
#include "runtime/neuron_isa.def"
};
