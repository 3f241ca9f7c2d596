/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions that are executed lane by lane or on predicates: conversions, bit fields, selections, packing,
 * carries. */
#include <fenv.h>
#include <math.h>

#include "sim/ptx/ptx_int.h"

/* -- Conversions (PTX ISA, cvt) -- */

struct value {
    bool is_float, is_signed;
    double f;
    uint64_t u;
};

static uint64_t narrow(uint64_t v, int bytes, bool is_signed)
{
    if (bytes >= 8)
        return v;
    uint64_t mask = (UINT64_C(1) << (8 * bytes)) - 1;
    v &= mask;
    return is_signed && v >> (8 * bytes - 1) ? v | ~mask : v;
}

static struct value decode(enum ptx_type type, uint64_t bits)
{
    struct value v = {.is_signed = ptx_types[type].cls == 's'};
    float f;
    uint32_t low = (uint32_t)bits;
    switch (type) {
    case PT_F16: v.is_float = true, v.f = ptx_half_to_double((uint16_t)bits); break;
    case PT_BF16: v.is_float = true, v.f = ptx_bf16_to_double((uint16_t)bits); break;
    case PT_F32:
    case PT_TF32: v.is_float = true, memcpy(&f, &low, 4), v.f = f; break;
    case PT_F64: v.is_float = true, memcpy(&v.f, &bits, 8); break;
    default: v.u = narrow(bits, ptx_types[type].bytes, v.is_signed);
    }
    return v;
}

static double round_whole(double v, int round)
{
    return round == 0 ? nearbyint(v) : round == 1 ? trunc(v) : round == 2 ? floor(v) : ceil(v);
}

/* Saturates; NaN is 0 for integers (most negative for 64 bits as the hardware does? the ISA: 0). */
static uint64_t to_int(double v, enum ptx_type to, int round)
{
    int bits = 8 * ptx_types[to].bytes;
    bool is_signed = ptx_types[to].cls == 's';
    double most = ldexp(1, is_signed ? bits - 1 : bits), least = is_signed ? -most : 0;
    if (isnan(v))
        return 0;
    v = round_whole(v, round);
    if (v >= most)
        return is_signed ? (UINT64_C(1) << (bits - 1)) - 1 : bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    if (v <= least)
        return is_signed ? (uint64_t)INT64_MIN >> (64 - bits) << 0 : 0;
    return is_signed ? (uint64_t)(int64_t)v : (uint64_t)v;
}

static uint64_t clamp_int(struct value v, enum ptx_type to)
{
    int bits = 8 * ptx_types[to].bytes;
    bool is_signed = ptx_types[to].cls == 's', negative = v.is_signed && (int64_t)v.u < 0;
    uint64_t most = is_signed ? (UINT64_C(1) << (bits - 1)) - 1 : bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    if (negative)
        return !is_signed ? 0 : (int64_t)v.u < -(int64_t)most - 1 ? ~most : v.u;
    return v.u > most ? most : v.u;
}

/* An integer to f32 with a single rounding: 64-bit integers don't fit a double. */
static double int_to_double(struct value v, int round)
{
    int mode = fegetround();
    static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD, FE_TONEAREST};
    fesetround(modes[round]);
    volatile double d = v.is_signed ? (double)(int64_t)v.u : (double)v.u;
    fesetround(mode);
    return d;
}

/* The nearest double below in magnitude, made odd where inexact: rounding it again is right. */
static double int_to_odd(struct value v)
{
    double d = int_to_double(v, 1);
    uint64_t bits;
    bool exact = v.is_signed ? (__int128)d == (int64_t)v.u : (__int128)d == (__int128)v.u;
    memcpy(&bits, &d, 8);
    bits |= exact ? 0 : 1;
    memcpy(&d, &bits, 8);
    return d;
}

static uint64_t encode(double v, enum ptx_type to, int round)
{
    uint64_t bits = 0;
    float f;
    switch (to) {
    case PT_F16: return ptx_double_to_half(v, round);
    case PT_BF16: return ptx_double_to_bf16(v, round);
    case PT_F64: memcpy(&bits, &v, 8); return bits;
    case PT_TF32: f = ptx_round_tf32((float)v, round == 4); break;
    default: f = ptx_double_to_float(v, round);
    }
    memcpy(&bits, &f, 4);
    return bits;
}

static double flush(double v, bool ftz)
{
    return ftz && fabs(v) < 0x1p-126 ? copysign(0, v) : v;
}

static uint64_t convert(const struct ptx_insn *i, uint64_t bits)
{
    enum ptx_type to = i->type, from = i->type2;
    struct value v = decode(from, bits);
    bool to_float = ptx_types[to].cls == 'f' || to == PT_TF32;
    if (!v.is_float && !to_float)
        return i->flags & F_SAT ? clamp_int(v, to) : narrow(v.u, ptx_types[to].bytes, ptx_types[to].cls == 's');
    if (!v.is_float)
        return to == PT_F64 ? encode(int_to_double(v, i->round), to, 0) : encode(int_to_odd(v), to, i->round);
    v.f = flush(v.f, i->flags & F_FTZ && from == PT_F32);
    if (!to_float)
        return to_int(v.f, to, i->round);
    if (i->op2 && !isnan(v.f) && !isinf(v.f))
        v.f = copysign(round_whole(v.f, i->round), v.f);
    if (i->flags & F_SAT)
        v.f = isnan(v.f) || v.f <= 0 ? 0 : v.f > 1 ? 1 : v.f;
    if (i->op & 1 && v.f < 0)
        v.f = 0;
    uint64_t r = encode(v.f, to, i->op2 ? 0 : i->round);
    if (i->op & 2 && isinf(v.f + 0) && to == PT_F16)
        r = signbit(v.f) ? 0xfbff : 0x7bff;
    if (i->flags & F_FTZ && to == PT_F32 && !(r & 0x7f800000))
        r &= 0x80000000;
    return r;
}

/* d.hi = a, d.lo = b for pairs made of two scalars. */
static uint64_t convert_pair(const struct ptx_insn *i, uint64_t a, uint64_t b)
{
    double x = decode(i->type2, a).f, y = decode(i->type2, b).f;
    if (i->op & 1) {
        x = x < 0 ? 0 : x;
        y = y < 0 ? 0 : y;
    }
    switch (i->type) {
    case PT_F16X2: return (uint64_t)ptx_double_to_half(x, i->round) << 16 | ptx_double_to_half(y, i->round);
    case PT_BF16X2: return (uint64_t)ptx_double_to_bf16(x, i->round) << 16 | ptx_double_to_bf16(y, i->round);
    default: {
        bool e5 = i->type == PT_E5M2X2;
        return (uint64_t)ptx_double_to_fp8(x, e5) << 8 | ptx_double_to_fp8(y, e5);
    }
    }
}

/* Pairs to pairs: fp8 to f16 and back. */
static uint64_t convert_pairs(const struct ptx_insn *i, uint64_t v)
{
    bool from8 = i->type2 == PT_E4M3X2 || i->type2 == PT_E5M2X2, e5 = i->type2 == PT_E5M2X2 || i->type == PT_E5M2X2;
    uint64_t r = 0;
    for (int k = 0; k < 2; k++)
        if (from8) {
            double x = ptx_fp8_to_double((uint8_t)(v >> (8 * k)), e5);
            r |= (uint64_t)ptx_double_to_half(i->op & 1 && x < 0 ? 0 : x, 0) << (16 * k);
        } else {
            double x = ptx_half_to_double((uint16_t)(v >> (16 * k)));
            r |= (uint64_t)ptx_double_to_fp8(i->op & 1 && x < 0 ? 0 : x, e5) << (8 * k);
        }
    return r;
}

/* Whole rows: an integer to one of another width (index arithmetic is full of them), a float to tf32. */
static bool convert_row(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    const struct ptx_type_row *to = &ptx_types[i->type], *from = &ptx_types[i->type2];
    uint64_t wide[LANES];
    if (mask == FULL && i->type == PT_TF32 && i->type2 == PT_F32 && !(i->flags & F_SAT) && !i->op &&
        (i->round == 0 || i->round == 4) && i->s[0].bytes == 4 && i->d.bytes == 4 && !i->d.sink) {
        w->rows->tf32(w->frame->rows + i->d.at, ptx_row(w, &i->s[0]), i->round == 4);
        w->frame->def[i->d.reg] = FULL;
        return true;
    }
    if (mask != FULL || i->flags & F_SAT || i->type == PT_TF32 || !strchr("usb", to->cls) ||
        !strchr("usb", from->cls) || from->bytes != i->s[0].bytes || to->bytes != i->d.bytes || to->bytes < 4 ||
        from->bytes < 4 || i->d.sink)
        return false;
    const void *s = ptx_row(w, &i->s[0]);
    void *d = w->frame->rows + i->d.at;
    for (int l = 0; l < LANES; l++)
        wide[l] = from->bytes == 8   ? ((const uint64_t *)s)[l]
                  : from->cls == 's' ? (uint64_t)(int64_t)((const int32_t *)s)[l]
                                     : ((const uint32_t *)s)[l];
    for (int l = 0; l < LANES && to->bytes == 8; l++)
        ((uint64_t *)d)[l] = wide[l];
    for (int l = 0; l < LANES && to->bytes == 4; l++)
        ((uint32_t *)d)[l] = (uint32_t)wide[l];
    w->frame->def[i->d.reg] = FULL;
    return true;
}

void ptx_run_cvt(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    if (convert_row(w, i, mask))
        return;
    bool to_pair = ptx_types[i->type].cls == 'x', from_pair = ptx_types[i->type2].cls == 'x';
    EACH_LANE(l, mask) {
        uint64_t a = ptx_lane(w, &i->s[0], (int)l);
        uint64_t r = to_pair && !from_pair ? convert_pair(i, a, ptx_lane(w, &i->s[1], (int)l))
                     : to_pair             ? convert_pairs(i, a)
                                           : convert(i, a);
        ptx_set(w, &i->d, (int)l, ptx_types[i->type].cls == 's' ? narrow(r, ptx_types[i->type].bytes, true) : r);
    }
}

/* -- Bit fields -- */

static uint64_t bfe(uint64_t a, uint32_t at, uint32_t n, int bits, bool is_signed)
{
    at &= 255, n &= 255;
    uint64_t sign = 0, r = 0;
    if (is_signed && n) {
        uint32_t top = at + n - 1 < (uint32_t)bits - 1 ? at + n - 1 : (uint32_t)bits - 1;
        sign = a >> top & 1;
    }
    for (uint32_t k = 0; k < (uint32_t)bits; k++)
        r |= (k < n && at + k < (uint32_t)bits ? a >> (at + k) & 1 : sign) << k;
    return r;
}

static uint64_t bfi(uint64_t a, uint64_t b, uint32_t at, uint32_t n, int bits)
{
    at &= 255, n &= 255;
    for (uint32_t k = 0; k < n && at + k < (uint32_t)bits; k++)
        b = (b & ~(UINT64_C(1) << (at + k))) | (a >> k & 1) << (at + k);
    return b;
}

static uint32_t fns(uint32_t mask, uint32_t base, int32_t n)
{
    uint32_t found = 0;
    if (n == 0)
        return base < 32 && mask >> base & 1 ? base : FULL;
    for (int64_t k = base; k >= 0 && k<32; k += n> 0 ? 1 : -1)
        if (mask >> k & 1 && ++found == (uint32_t)(n < 0 ? -n : n))
            return (uint32_t)k;
    return FULL;
}

static uint32_t bit_mask(uint32_t at, uint32_t n, bool wrap)
{
    if (wrap)
        at &= 31, n &= 31;
    uint64_t r = at > 31 ? 0 : ((n > 31 ? UINT64_C(0xffffffff) : (UINT64_C(1) << n) - 1) << at);
    return (uint32_t)r;
}

static uint32_t extend(uint32_t a, uint32_t n, bool is_signed, bool wrap)
{
    if (wrap)
        n &= 31;
    if (n > 31)
        return a;
    uint32_t low = n ? a & ((1u << n) - 1) : 0;
    return is_signed && n && a >> (n - 1) & 1 ? low | ~((1u << n) - 1) : low;
}

static uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table)
{
    uint32_t r = 0;
    for (int k = 0; k < 8; k++)
        if (table >> k & 1)
            r |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
    return r;
}

void ptx_run_bits(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    int bits = 8 * ptx_types[i->type].bytes;
    bool is_signed = ptx_types[i->type].cls == 's';
    EACH_LANE(l, mask) {
        uint64_t v[4] = {0}, r;
        for (int s = 0; s < i->nsrc; s++)
            v[s] = ptx_lane(w, &i->s[s], (int)l);
        switch (i->op) {
        case 'e': r = bfe(v[0], (uint32_t)v[1], (uint32_t)v[2], bits, is_signed); break;
        case 'i': r = bfi(v[0], v[1], (uint32_t)v[2], (uint32_t)v[3], bits); break;
        case 'm': r = bit_mask((uint32_t)v[0], (uint32_t)v[1], i->op2); break;
        case 'n': r = fns((uint32_t)v[0], (uint32_t)v[1], (int32_t)v[2]); break;
        case 's': r = extend((uint32_t)v[0], (uint32_t)v[1], is_signed, i->op2); break;
        default: r = lop3((uint32_t)v[0], (uint32_t)v[1], (uint32_t)v[2], (uint32_t)v[3]);
        }
        ptx_set(w, &i->d, (int)l, r);
    }
}

/* -- Predicates, selections -- */

void ptx_run_pred(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    uint32_t a = ptx_pred(w, &i->s[0]), b = i->nsrc > 1 ? ptx_pred(w, &i->s[1]) : 0;
    ptx_set_pred(w, &i->d, mask,
                 i->op == 'a'   ? a & b
                 : i->op == 'o' ? a | b
                 : i->op == 'x' ? a ^ b
                 : i->op == 'n' ? ~a
                                : a);
}

void ptx_run_selp(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    uint32_t p = ptx_pred(w, &i->s[2]), *def = w->frame->def;
    const void *a = ptx_row(w, &i->s[0]), *b = ptx_row(w, &i->s[1]);
    uint8_t *d = w->frame->rows + i->d.at;
    uint32_t defined = def[i->s[2].reg] & ((p & def[i->s[0].reg]) | (~p & def[i->s[1].reg]));
    uint32_t to_a = mask & p, to_b = mask & ~p;
#define SELECT(T)                                                        \
    for (int l = 0; l < LANES; l++) {                                    \
        T x = ((const T *)a)[l], y = ((const T *)b)[l], z = ((T *)d)[l]; \
        ((T *)d)[l] = to_a >> l & 1 ? x : to_b >> l & 1 ? y : z;         \
    }
    switch (i->d.bytes) {
    case 2: SELECT(uint16_t) break;
    case 4: SELECT(uint32_t) break;
    default: SELECT(uint64_t)
    }
#undef SELECT
    def[i->d.reg] = (def[i->d.reg] & ~mask) | (mask & defined);
}

void ptx_run_slct(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    EACH_LANE(l, mask) {
        uint64_t by = ptx_lane(w, &i->s[2], (int)l);
        float f;
        uint32_t low = (uint32_t)by;
        memcpy(&f, &low, 4);
        bool first = i->type2 == PT_F32 ? flush(f, i->flags & F_FTZ) >= 0 : (int32_t)by >= 0;
        ptx_set(w, &i->d, (int)l, ptx_lane(w, &i->s[first ? 0 : 1], (int)l));
    }
}

/* Comparisons by number of compare_names (decode.c): eq ne lt le gt ge, then unsigned, then the unordered ones. */
static bool compare_half(int op, double x, double y)
{
    bool nan = isnan(x) || isnan(y);
    switch (op) {
    case 0: return x == y;
    case 1: return !nan && x != y;
    case 2: return x < y;
    case 3: return x <= y;
    case 4: return x > y;
    case 5: return x >= y;
    case 10: return nan || x == y;
    case 11: return nan || x != y;
    case 12: return nan || x < y;
    case 13: return nan || x <= y;
    case 14: return nan || x > y;
    case 15: return nan || x >= y;
    case 16: return !nan;
    default: return nan;
    }
}

static double half_of(enum ptx_type type, uint64_t v, int part)
{
    uint16_t h = (uint16_t)(v >> (16 * part));
    return type == PT_F16 || type == PT_F16X2 ? ptx_half_to_double(h) : ptx_bf16_to_double(h);
}

static uint32_t half_mask(const struct ptx_warp *w, const struct ptx_insn *i, int part)
{
    uint32_t r = 0;
    for (int l = 0; l < LANES; l++)
        r |= (uint32_t)compare_half(i->op, half_of(i->type, ptx_lane(w, &i->s[0], l), part),
                                    half_of(i->type, ptx_lane(w, &i->s[1], l), part))
             << l;
    return r;
}

static uint32_t compared(const struct ptx_warp *w, const struct ptx_insn *i, int part)
{
    ptx_cmp_fn *cmp;
    memcpy(&cmp, i->more, sizeof cmp);
    if (!cmp)
        return half_mask(w, i, part);
    if (!(i->flags & F_FTZ))
        return cmp(ptx_row(w, &i->s[0]), ptx_row(w, &i->s[1]));
    float a[2][LANES];
    for (int s = 0; s < 2; s++) {
        memcpy(a[s], ptx_row(w, &i->s[s]), sizeof a[s]);
        for (int l = 0; l < LANES; l++)
            a[s][l] = (float)flush(a[s][l], true);
    }
    return cmp(a[0], a[1]);
}

static uint32_t combine(uint32_t r, uint32_t p, int op)
{
    return op == '&' ? r & p : op == '|' ? r | p : op == '^' ? r ^ p : r;
}

void ptx_run_setp(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    uint32_t p = i->op2 ? ptx_pred(w, &i->s[2]) : 0, r = compared(w, i, 0);
    bool pair = ptx_types[i->type].cls == 'x';
    ptx_set_pred(w, &i->d, mask, combine(r, p, i->op2));
    ptx_set_pred(w, &i->d2, mask, combine(pair ? compared(w, i, 1) : ~r, p, i->op2));
}

void ptx_run_set(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    uint32_t p = i->op2 ? ptx_pred(w, &i->s[2]) : 0, r = combine(compared(w, i, 0), p, i->op2);
    bool pair = ptx_types[i->type].cls == 'x';
    uint32_t high = pair ? combine(compared(w, i, 1), p, i->op2) : 0;
    uint64_t one = i->type2 == PT_F32                             ? 0x3f800000
                   : i->type2 == PT_F16 || i->type2 == PT_F16X2   ? 0x3c00
                   : i->type2 == PT_BF16 || i->type2 == PT_BF16X2 ? 0x3f80
                   : pair                                         ? 0xffff
                                                                  : UINT64_MAX;
    EACH_LANE(l, mask)
        ptx_set(w, &i->d, (int)l, (r >> l & 1 ? one : 0) | (high >> l & 1 ? one << 16 : 0));
}

void ptx_run_testp(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    uint32_t r = 0;
    for (int l = 0; l < LANES; l++) {
        uint64_t b = ptx_lane(w, &i->s[0], l);
        bool wide = i->type == PT_F64;
        uint64_t e = wide ? b >> 52 & 2047 : b >> 23 & 255, m = wide ? b << 12 : b << 41, top = wide ? 2047 : 255;
        bool is[7] = {0, e != top, e == top && !m, e != top || !m, e == top && m, e != top && e, !e && m};
        r |= (uint32_t)is[i->op] << l;
    }
    ptx_set_pred(w, &i->d, mask, r);
}

/* -- Packing -- */

void ptx_run_pack(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    int each = i->d.bytes / i->nmore;
    EACH_LANE(l, mask) {
        uint8_t *to = w->frame->rows + i->d.at + (size_t)l * i->d.bytes;
        bool defined = true;
        for (int k = 0; k < i->nmore; k++) {
            uint64_t v = ptx_lane(w, &i->more[k], (int)l);
            memcpy(to + k * each, &v, (size_t)each);
            defined &= w->frame->def[i->more[k].reg] >> l & 1;
        }
        w->frame->def[i->d.reg] = (w->frame->def[i->d.reg] & ~(1u << l)) | (uint32_t)defined << l;
    }
}

void ptx_run_unpack(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    int each = i->s[0].bytes / i->nmore;
    uint32_t defined = w->frame->def[i->s[0].reg];
    EACH_LANE(l, mask) {
        uint8_t from[16];
        memcpy(from, (const uint8_t *)ptx_row(w, &i->s[0]) + (size_t)l * i->s[0].bytes, i->s[0].bytes);
        for (int k = 0; k < i->nmore; k++) {
            uint64_t v = 0;
            memcpy(&v, from + k * each, (size_t)each);
            ptx_set(w, &i->more[k], (int)l, v);
            if (!i->more[k].sink && !(defined >> l & 1))
                w->frame->def[i->more[k].reg] &= ~(1u << l);
        }
    }
}

/* -- Carries -- */

void ptx_run_carry(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    int bits = 8 * ptx_types[i->type].bytes;
    uint64_t most = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    bool is_signed = ptx_types[i->type].cls == 's';
    EACH_LANE(l, mask) {
        uint64_t v[3] = {0}, cc = i->flags & F_CC_IN ? w->cc >> l & 1 : 0;
        for (int s = 0; s < i->nsrc; s++)
            v[s] = ptx_lane(w, &i->s[s], (int)l);
        unsigned __int128 sum;
        if (i->op == 's') {
            sum = (unsigned __int128)v[0] - v[1] - cc;
        } else if (i->op == 'a') {
            sum = (unsigned __int128)v[0] + v[1] + cc;
        } else {
            unsigned __int128 product = is_signed
                                            ? (unsigned __int128)((__int128)(int64_t)narrow(v[0], bits / 8, true) *
                                                                  (int64_t)narrow(v[1], bits / 8, true))
                                            : (unsigned __int128)v[0] * v[1];
            sum = (unsigned __int128)((uint64_t)(i->op == 'h' ? product >> bits : product) & most) + v[2] + cc;
        }
        ptx_set(w, &i->d, (int)l, (uint64_t)sum & most);
        if (i->flags & F_CC)
            w->cc = (w->cc & ~(1u << l)) | (uint32_t)(sum >> bits & 1) << l;
    }
}

/* -- Addresses -- */

static uint64_t window(int space)
{
    return space == SP_SHARED ? WINDOW_SHARED : space == SP_LOCAL ? WINDOW_LOCAL : space == SP_PARAM ? WINDOW_PARAM : 0;
}

void ptx_run_cvta(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    uint64_t add = window(i->space);
    EACH_LANE(l, mask) {
        uint64_t v = ptx_lane(w, &i->s[0], (int)l);
        ptx_set(w, &i->d, (int)l, i->op ? v - add : v + add);
    }
}

void ptx_run_isspace(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    EACH_LANE(l, mask) {
        uint64_t v = ptx_lane(w, &i->s[0], (int)l), of = window(i->space);
        const struct ptx_alloc *a = ptx_lookup(w->b->d, v);
        bool is = of                     ? (v & WINDOW_MASK) == of
                  : i->space == SP_CONST ? a && a->constant
                                         : (v & WINDOW_MASK) == 0 && !(a && a->constant);
        ptx_set(w, &i->d, (int)l, is);
    }
}

void ptx_run_nothing(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    (void)w, (void)i, (void)mask;
}

void ptx_run_trap(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    (void)i;
    ptx_report(w, PTX_CHECK_TRAP, __builtin_ctz(mask), 0, "trap");
}
