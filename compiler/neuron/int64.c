/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int64.c - integers of 64 bits as pairs of words: the low one, and the high one where it is not the sign of the low
 * one (struct nk_value). GpSimd computes words modulo 2^32; carries are comparisons, products are made of halves.
 * Quotients are refined from those of float32, each a little too small, so that remainders stay positive. Algorithms:
 * Knuth, "The Art of Computer Programming" 2, 4.3; Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011)
 * for Philox.
 */
#include "compiler/neuron/neuron_int.h"

typedef const struct nk_value *value;

struct pair {
    value lo, hi;
};
struct wide {
    struct nk *nk;
    const struct nk_tile *t;
    bool sign; /* i64 */
};

bool nk_is_wide(enum tcc_dtype d)
{
    return d == TCC_I64 || d == TCC_U64;
}

/* -- Words --------------------------------------------------------------------------------------------------------- */

static value tt(struct wide w, enum neuron_alu op, value a, value b)
{
    return nk_tt(w.nk, w.t, TCC_I32, op, a, b);
}
static value ts(struct wide w, enum neuron_alu op, value a, double b)
{
    return nk_ts(w.nk, w.t, TCC_I32, op, a, b);
}
static value ftt(struct wide w, enum neuron_alu op, value a, value b)
{
    return nk_tt(w.nk, w.t, TCC_F32, op, a, b);
}
static value fts(struct wide w, enum neuron_alu op, value a, double b)
{
    return nk_ts(w.nk, w.t, TCC_F32, op, a, b);
}
static value word(struct wide w, double v)
{
    return nk_number(w.nk, TCC_I32, v);
}
static value as(struct wide w, value v, enum tcc_dtype d)
{
    struct nk_value *same = IR_NEW(w.nk->ctx, struct nk_value);
    *same = *v;
    same->dtype = (uint8_t)d;
    same->type = (uint8_t)nk_type(w.nk, d);
    same->high = NULL;
    return same;
}
/* The word without a sign. */
static value natural(struct wide w, value v)
{
    if (v->is_number && v->number < 0)
        v = nk_solid(w.nk, w.t, as(w, v, TCC_I32));
    return as(w, v, TCC_U32);
}
/* 1 where a < b as naturals, else 0. */
static value below(struct wide w, value a, value b)
{
    a = natural(w, a);
    b = natural(w, b);
    return tt(w, NEURON_ALU_LT, a->is_number ? nk_solid(w.nk, w.t, a) : a, b);
}
static value high_half(struct wide w, value v)
{
    return nk_ts(w.nk, w.t, TCC_U32, NEURON_ALU_SHR, natural(w, v), 16);
}
#define ADD(a, b) tt(w, NEURON_ALU_ADD, a, b)
#define SUB(a, b) tt(w, NEURON_ALU_SUB, a, b)
#define MUL(a, b) tt(w, NEURON_ALU_MUL, a, b)
#define AND(a, b) tt(w, NEURON_ALU_LAND, a, b)
#define OR(a, b) tt(w, NEURON_ALU_LOR, a, b)

value nk_high(struct nk *nk, const struct nk_tile *t, value v)
{
    struct wide w = {nk, t, true};
    if (v->high)
        return v->high;
    if (v->is_number)
        return word(w, v->number < 0 ? -1 : 0);
    return ts(w, NEURON_ALU_MUL, ts(w, NEURON_ALU_LT, as(w, v, TCC_I32), 0), -1);
}

value nk_wide_number(struct nk *nk, enum tcc_dtype d, int64_t v)
{
    struct nk_value *low = nk_number(nk, d, (double)(int32_t)(uint32_t)v);
    if ((int32_t)(uint32_t)v != v)
        low->high = nk_number(nk, TCC_I32, (double)(v >> 32));
    return low;
}

static struct pair pair_of(struct wide w, value v)
{
    return (struct pair){as(w, v, TCC_I32), nk_high(w.nk, w.t, v)};
}
static struct pair pair_number(struct wide w, int64_t v)
{
    return pair_of(w, nk_wide_number(w.nk, TCC_I64, v));
}
static value joined(struct wide w, struct pair p, enum tcc_dtype d)
{
    struct nk_value *v = IR_NEW(w.nk->ctx, struct nk_value);
    if (p.lo->is_number != p.hi->is_number) {
        p.lo = nk_solid(w.nk, w.t, p.lo);
        p.hi = nk_solid(w.nk, w.t, p.hi);
    }
    *v = *p.lo;
    v->dtype = (uint8_t)d;
    v->high = p.hi;
    return v;
}

/* -- Arithmetic ---------------------------------------------------------------------------------------------------- */

static struct pair add(struct wide w, struct pair a, struct pair b)
{
    value lo = ADD(a.lo, b.lo), carry = below(w, lo, a.lo);
    return (struct pair){lo, ADD(ADD(a.hi, b.hi), carry)};
}
static struct pair sub(struct wide w, struct pair a, struct pair b)
{
    value borrow = below(w, a.lo, b.lo);
    return (struct pair){SUB(a.lo, b.lo), SUB(SUB(a.hi, b.hi), borrow)};
}
/* The high word of the product of two words without sign: of halves, none of whose sums overflows. */
static value high_product(struct wide w, value a, value b)
{
    value a0 = nk_ts(w.nk, w.t, TCC_U32, NEURON_ALU_AND, natural(w, a), 65535), a1 = high_half(w, a);
    value b0 = nk_ts(w.nk, w.t, TCC_U32, NEURON_ALU_AND, natural(w, b), 65535), b1 = high_half(w, b);
    value p01 = MUL(a0, b1), p10 = MUL(a1, b0);
    value right = ts(w, NEURON_ALU_AND, p01, 65535);
    value middle = ADD(high_half(w, MUL(a0, b0)), right);
    middle = ADD(middle, ts(w, NEURON_ALU_AND, p10, 65535));
    value second = high_half(w, p10);
    value other = ADD(high_half(w, p01), second);
    value high = ADD(MUL(a1, b1), other);
    return ADD(high, high_half(w, middle));
}
static struct pair mul(struct wide w, struct pair a, struct pair b)
{
    value right = MUL(a.hi, b.lo);
    value crossed = ADD(MUL(a.lo, b.hi), right);
    return (struct pair){MUL(a.lo, b.lo), ADD(high_product(w, a.lo, b.lo), crossed)};
}
static struct pair choose(struct wide w, value mask, struct pair yes, struct pair no)
{
    return (struct pair){nk_select(w.nk, w.t, TCC_I32, mask, yes.lo, no.lo),
                         nk_select(w.nk, w.t, TCC_I32, mask, yes.hi, no.hi)};
}
static value is_zero(struct wide w, struct pair a)
{
    value right = ts(w, NEURON_ALU_EQ, a.hi, 0);
    return AND(ts(w, NEURON_ALU_EQ, a.lo, 0), right);
}
static value is_negative(struct wide w, struct pair a)
{
    return ts(w, NEURON_ALU_LT, a.hi, 0);
}
static value less(struct wide w, struct pair a, struct pair b)
{
    value high = w.sign ? tt(w, NEURON_ALU_LT, a.hi, b.hi) : below(w, a.hi, b.hi);
    value right = below(w, a.lo, b.lo);
    return OR(high, AND(tt(w, NEURON_ALU_EQ, a.hi, b.hi), right));
}
static value equal(struct wide w, struct pair a, struct pair b)
{
    value right = tt(w, NEURON_ALU_EQ, a.hi, b.hi);
    return AND(tt(w, NEURON_ALU_EQ, a.lo, b.lo), right);
}
value nk_index_as_float(struct nk *nk, const struct nk_tile *t, value y)
{
    struct nk_value low = *y;
    struct nk_tile part;
    value to;
    low.dtype = TCC_I32;
    low.high = NULL;
    if (!nk_distinct(t, 1, &y, &part))
        part = *t;
    to = nk_copy(nk, &part, TCC_F32, &low);
    if (y->high) {
        value sign = nk_ts(nk, &part, TCC_I32, NEURON_ALU_MUL, nk_ts(nk, &part, TCC_I32, NEURON_ALU_LT, &low, 0), -1),
              more = nk_tt(nk, &part, TCC_BOOL, NEURON_ALU_NE, y->high, sign);
        to = nk_select(nk, &part, TCC_F32, more, nk_number(nk, TCC_F32, 0x1p30), to);
    }
    return nk_spread(nk, t, &part, to);
}

/* One comparison by Vector. */
static value equal_small(struct wide w, value x, value y)
{
    struct nk_value words = *x;
    words.dtype = TCC_I32;
    words.high = NULL;
    return nk_tt(w.nk, w.t, TCC_BOOL, NEURON_ALU_EQ, &words, nk_index_as_float(w.nk, w.t, y));
}
static struct pair negative(struct wide w, struct pair a)
{
    return sub(w, pair_number(w, 0), a);
}
static struct pair magnitude(struct wide w, struct pair a)
{
    if (!w.sign)
        return a;
    struct pair chosen = negative(w, a);
    return choose(w, is_negative(w, a), chosen, a);
}
static struct pair sign_of(struct wide w, struct pair a)
{
    value some = ts(w, NEURON_ALU_EQ, is_zero(w, a), 0), v = some;
    if (w.sign)
        v = SUB(some, ts(w, NEURON_ALU_MUL, is_negative(w, a), 2));
    return (struct pair){v, ts(w, NEURON_ALU_MUL, ts(w, NEURON_ALU_LT, v, 0), -1)};
}

/* -- Floats -------------------------------------------------------------------------------------------------------- */

/* A natural number as float32. */
static value to_float(struct wide w, struct pair a)
{
    value hi = nk_copy(w.nk, w.t, TCC_F32, nk_solid(w.nk, w.t, natural(w, a.hi)));
    value lo = nk_copy(w.nk, w.t, TCC_F32, nk_solid(w.nk, w.t, natural(w, a.lo)));
    return ftt(w, NEURON_ALU_ADD, fts(w, NEURON_ALU_MUL, hi, 0x1p32), lo);
}
/* The whole number of 32 bits at or below x >= 0. */
static value floored(struct wide w, value x)
{
    value n = nk_copy(w.nk, w.t, TCC_U32, x);
    value above = tt(w, NEURON_ALU_GT, nk_copy(w.nk, w.t, TCC_F32, n), x);
    return SUB(n, above);
}
/* Of x from 0 to below 2^64. */
static struct pair whole(struct wide w, value x)
{
    value hi = floored(w, fts(w, NEURON_ALU_MUL, x, 0x1p-32));
    value rest = ftt(w, NEURON_ALU_SUB, x, fts(w, NEURON_ALU_MUL, nk_copy(w.nk, w.t, TCC_F32, natural(w, hi)), 0x1p32));
    return (struct pair){floored(w, rest), hi};
}

static value cast_from_float(struct wide w, value x, enum tcc_dtype d)
{
    x = nk_copy(w.nk, w.t, TCC_F32, nk_solid(w.nk, w.t, x));
    value most = nk_ts(w.nk, w.t, TCC_BOOL, NEURON_ALU_GE, x, w.sign ? 0x1p63 : 0x1p64);
    value negatives = nk_ts(w.nk, w.t, TCC_BOOL, NEURON_ALU_LT, x, 0);
    value size = fts(w, NEURON_ALU_MIN, fts(w, NEURON_ALU_ABS, x, 0), 0x1.fffffep63);
    struct pair p = whole(w, size);
    if (w.sign) {
        value least = nk_ts(w.nk, w.t, TCC_BOOL, NEURON_ALU_LT, x, -0x1p63);
        p = choose(w, negatives, negative(w, p), p);
        p = choose(w, least, pair_number(w, INT64_MIN), p);
        p = choose(w, most, pair_number(w, INT64_MAX), p);
    } else {
        p = choose(w, negatives, pair_number(w, 0), p);
        p = choose(w, most, pair_number(w, -1), p);
    }
    return joined(w, p, d);
}

static value cast_to_float(struct wide w, struct pair a)
{
    value f = to_float(w, magnitude(w, a));
    if (!w.sign)
        return f;
    value below_zero = nk_copy(w.nk, w.t, TCC_F32, is_negative(w, a));
    return ftt(w, NEURON_ALU_SUB, f, ftt(w, NEURON_ALU_MUL, fts(w, NEURON_ALU_MUL, f, 2), below_zero));
}

/* -- Quotients ----------------------------------------------------------------------------------------------------- */

/* Of naturals; by 0: q = r = 0. A quotient of up to 64 bits gets 19 more right by each round; what is left is below 3
 * divisors. */
static void divide(struct wide w, struct pair a, struct pair b, struct pair *q, struct pair *r)
{
    value none = is_zero(w, b), some = ts(w, NEURON_ALU_EQ, none, 0);
    struct pair d = {ADD(b.lo, none), b.hi};
    value scale = fts(w, NEURON_ALU_MUL, nk_inverse(w.nk, w.t, to_float(w, d)), 1 - 0x1p-20);
    *q = pair_number(w, 0);
    *r = a;
    for (int k = 0; k < 4; k++) {
        struct pair more = whole(w, ftt(w, NEURON_ALU_MUL, to_float(w, *r), scale));
        *q = add(w, *q, more);
        *r = sub(w, *r, mul(w, more, d));
    }
    for (int k = 0; k < 2; k++) {
        struct wide naturals = {w.nk, w.t, false};
        value still = ts(w, NEURON_ALU_EQ, less(naturals, *r, d), 0);
        *q = add(w, *q, (struct pair){still, word(w, 0)});
        *r = sub(w, *r, (struct pair){MUL(d.lo, still), MUL(d.hi, still)});
    }
    *q = (struct pair){MUL(q->lo, some), MUL(q->hi, some)};
    *r = (struct pair){MUL(r->lo, some), MUL(r->hi, some)};
}

static struct pair quotient(struct wide w, enum ir_op op, struct pair a, struct pair b)
{
    struct pair q, r;
    struct pair right = magnitude(w, b);
    divide(w, magnitude(w, a), right, &q, &r);
    if (!w.sign)
        return op == IR_div ? q : r;
    value na = is_negative(w, a), other = tt(w, NEURON_ALU_LXOR, na, is_negative(w, b));
    if (op == IR_div)
        return choose(w, other, negative(w, q), q);
    r = choose(w, na, negative(w, r), r);
    if (op == IR_fmod)
        return r;
    /* b's sign: b is added where there is a remainder of the other one */
    value put = AND(other, ts(w, NEURON_ALU_EQ, is_zero(w, r), 0));
    return add(w, r, (struct pair){MUL(b.lo, put), MUL(b.hi, put)});
}

/* -- Bits ---------------------------------------------------------------------------------------------------------- */

static value bits(struct wide w, enum neuron_alu op, value a, value b)
{
    a = as(w, nk_solid(w.nk, w.t, as(w, a, TCC_I32)), TCC_I32);
    b = as(w, nk_solid(w.nk, w.t, as(w, b, TCC_I32)), TCC_I32);
    return tt(w, op, a, b);
}
static struct pair bitwise(struct wide w, enum neuron_alu op, struct pair a, struct pair b)
{
    return (struct pair){bits(w, op, a.lo, b.lo), bits(w, op, a.hi, b.hi)};
}

/* Shifts of a word by 32 or more, which 32 - n becomes for n = 0 and negative numbers are, too, give 0. A number that
 * shifts by 2^32 is one of 64. */
static struct pair shift(struct wide w, bool left, struct pair a, struct pair by)
{
    value many = ts(w, NEURON_ALU_NE, by.hi, 0), n = nk_select(w.nk, w.t, TCC_I32, many, word(w, 64), by.lo);
    value mirrored = SUB(word(w, 32), n), beyond = ts(w, NEURON_ALU_ADD, n, -32);
    enum neuron_alu on = left ? NEURON_ALU_SHL : NEURON_ALU_SHR, back = left ? NEURON_ALU_SHR : NEURON_ALU_SHL;
    value sign = !left && w.sign ? ts(w, NEURON_ALU_MUL, is_negative(w, a), -1) : NULL;
    if (sign)
        a = bitwise(w, NEURON_ALU_XOR, a, (struct pair){sign, sign});
    value near = left ? a.lo : a.hi, far = left ? a.hi : a.lo;
    value right = bits(w, back, near, mirrored);
    far = bits(w, NEURON_ALU_OR, bits(w, on, far, n), right);
    far = bits(w, NEURON_ALU_OR, far, bits(w, on, near, beyond));
    near = bits(w, on, near, n);
    struct pair p = left ? (struct pair){near, far} : (struct pair){far, near};
    return sign ? bitwise(w, NEURON_ALU_XOR, p, (struct pair){sign, sign}) : p;
}

/* -- Philox4x32-10 ------------------------------------------------------------------------------------------------- */

/* Word x mod 4 of the block of the counter (x / 4, z) and the key y. */
static struct pair philox(struct wide w, struct pair x, struct pair y, struct pair z)
{
    static const uint32_t factor[2] = {0xd2511f53, 0xcd9e8d57}, step[2] = {0x9e3779b9, 0xbb67ae85};
    struct pair two = pair_number(w, 2);
    struct wide naturals = {w.nk, w.t, false};
    struct pair block = shift(naturals, false, x, two);
    value c[4] = {block.lo, block.hi, z.lo, z.hi}, key[2] = {y.lo, y.hi};
    for (int round = 0; round < 10; round++) {
        value m0 = word(w, (double)(int32_t)factor[0]), m1 = word(w, (double)(int32_t)factor[1]);
        value h0 = high_product(w, c[0], m0), l0 = MUL(c[0], m0), h1 = high_product(w, c[2], m1), l1 = MUL(c[2], m1);
        c[0] = bits(w, NEURON_ALU_XOR, bits(w, NEURON_ALU_XOR, h1, c[1]), key[0]);
        c[1] = l1;
        c[2] = bits(w, NEURON_ALU_XOR, bits(w, NEURON_ALU_XOR, h0, c[3]), key[1]);
        c[3] = l0;
        for (int k = 0; k < 2; k++)
            key[k] = ADD(key[k], word(w, (double)(int32_t)step[k]));
    }
    value which = bits(w, NEURON_ALU_AND, x.lo, word(w, 3)), v = c[0];
    for (int k = 1; k < 4; k++)
        v = nk_select(w.nk, w.t, TCC_I32, ts(w, NEURON_ALU_EQ, which, k), c[k], v);
    return (struct pair){v, word(w, 0)};
}

/* -- Scalar ops ---------------------------------------------------------------------------------------------------- */

static value cast(struct wide w, value x, enum tcc_dtype from, enum tcc_dtype to)
{
    if (!nk_is_wide(from)) {
        if (tcc_is_float(from))
            return cast_from_float(w, x, to);
        if (from != TCC_U32)
            return as(w, nk_copy(w.nk, w.t, TCC_I32, nk_solid(w.nk, w.t, x)), to);
        return joined(w, (struct pair){nk_solid(w.nk, w.t, as(w, nk_solid(w.nk, w.t, x), TCC_I32)), word(w, 0)}, to);
    }
    if (nk_is_wide(to))
        return joined(w, pair_of(w, x), to);
    struct pair a = pair_of(w, x);
    w.sign = from == TCC_I64;
    if (to == TCC_BOOL)
        return nk_ts(w.nk, w.t, to, NEURON_ALU_EQ, is_zero(w, a), 0);
    if (tcc_is_float(to))
        return x->high ? cast_to_float(w, a) : nk_copy(w.nk, w.t, TCC_F32, a.lo);
    return nk_copy(w.nk, w.t, to, nk_solid(w.nk, w.t, a.lo)); /* the lowest bits */
}

value nk_wide(struct nk *nk, const struct nk_tile *t, enum ir_op op, enum tcc_dtype from, enum tcc_dtype to,
              const struct nk_value *const *x, int n)
{
    struct wide w = {nk, t, (nk_is_wide(from) ? from : to) == TCC_I64};
    struct pair p[3];
    if (op == IR_cast)
        return cast(w, x[0], from, to);
    for (int i = 0; i < n && (op == IR_eq || op == IR_ne); i++)
        if (x[i]->small && !x[!i]->is_number) {
            value same = equal_small(w, x[i], x[!i]);
            return op == IR_eq ? same : nk_ts(nk, t, TCC_BOOL, NEURON_ALU_EQ, same, 0);
        }
    for (int i = op == IR_select; i < n; i++)
        p[i] = pair_of(w, x[i]);
    switch (op) {
    case IR_add: return joined(w, add(w, p[0], p[1]), to);
    case IR_sub: return joined(w, sub(w, p[0], p[1]), to);
    case IR_mul: return joined(w, mul(w, p[0], p[1]), to);
    case IR_div:
    case IR_mod:
    case IR_fmod: return joined(w, quotient(w, op, p[0], p[1]), to);
    case IR_neg: return joined(w, negative(w, p[0]), to);
    case IR_abs: return joined(w, magnitude(w, p[0]), to);
    case IR_sign: return joined(w, sign_of(w, p[0]), to);
    case IR_min: return joined(w, choose(w, less(w, p[0], p[1]), p[0], p[1]), to);
    case IR_max: return joined(w, choose(w, less(w, p[0], p[1]), p[1], p[0]), to);
    case IR_and: return joined(w, bitwise(w, NEURON_ALU_AND, p[0], p[1]), to);
    case IR_or: return joined(w, bitwise(w, NEURON_ALU_OR, p[0], p[1]), to);
    case IR_xor: return joined(w, bitwise(w, NEURON_ALU_XOR, p[0], p[1]), to);
    case IR_not: return joined(w, bitwise(w, NEURON_ALU_XOR, p[0], pair_number(w, -1)), to);
    case IR_shl:
    case IR_shr: return joined(w, shift(w, op == IR_shl, p[0], p[1]), to);
    case IR_philox: return joined(w, philox(w, p[0], p[1], p[2]), to);
    case IR_select: return joined(w, choose(w, x[0], p[1], p[2]), to);
    case IR_eq: return nk_copy(nk, t, TCC_BOOL, equal(w, p[0], p[1]));
    case IR_ne: return nk_ts(nk, t, TCC_BOOL, NEURON_ALU_EQ, equal(w, p[0], p[1]), 0);
    case IR_lt: return nk_copy(nk, t, TCC_BOOL, less(w, p[0], p[1]));
    case IR_gt: return nk_copy(nk, t, TCC_BOOL, less(w, p[1], p[0]));
    case IR_ge: return nk_ts(nk, t, TCC_BOOL, NEURON_ALU_EQ, less(w, p[0], p[1]), 0);
    case IR_le: return nk_ts(nk, t, TCC_BOOL, NEURON_ALU_EQ, less(w, p[1], p[0]), 0);
    default: nk_refuse(nk, "the engines have no %s of %s", ir_op_info(op)->name, tcc_dtype_name(from));
    }
}
