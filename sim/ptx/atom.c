/* SPDX-License-Identifier: Apache-2.0 */
/* atom and red: each lane in turn. Blocks run on several threads of the host, so updates of global memory are
 * compare-and-swap loops. */
#include <math.h>

#include "sim/ptx/ptx_int.h"

enum { A_ADD = 1, A_MIN, A_MAX, A_AND, A_OR, A_XOR, A_EXCH, A_CAS, A_INC, A_DEC };

static double to_double(enum ptx_type t, uint64_t v)
{
    uint32_t low = (uint32_t)v;
    float f;
    double d;
    if (t == PT_F64) {
        memcpy(&d, &v, 8);
        return d;
    }
    if (t == PT_F32) {
        memcpy(&f, &low, 4);
        return f;
    }
    return t == PT_F16 || t == PT_F16X2 ? ptx_half_to_double((uint16_t)v) : ptx_bf16_to_double((uint16_t)v);
}

static uint64_t from_double(enum ptx_type t, double v)
{
    uint64_t r = 0;
    if (t == PT_F64) {
        memcpy(&r, &v, 8);
        return r;
    }
    if (t == PT_F32) {
        float f = ptx_double_to_float(v, 0);
        memcpy(&r, &f, 4);
        return r;
    }
    return t == PT_F16 || t == PT_F16X2 ? ptx_double_to_half(v, 0) : ptx_double_to_bf16(v, 0);
}

static uint64_t float_op(enum ptx_type t, int op, uint64_t a, uint64_t b)
{
    double x = to_double(t, a), y = to_double(t, b), r;
    if (op == A_ADD)
        r = x + y;
    else if (op == A_MIN)
        r = fmin(x, y);
    else
        r = fmax(x, y);
    if (op == A_ADD && t == PT_F32) { /* a single rounding: f32 has one of its own */
        float f = (float)x + (float)y;
        r = f;
    }
    return from_double(t, r);
}

static uint64_t int_op(const struct ptx_insn *i, uint64_t a, uint64_t b, uint64_t c)
{
    int bits = 8 * ptx_types[i->type].bytes;
    bool is_signed = ptx_types[i->type].cls == 's';
    int64_t sa = bits == 32 ? (int32_t)a : (int64_t)a, sb = bits == 32 ? (int32_t)b : (int64_t)b;
    bool less = is_signed ? sa < sb : a < b;
    switch (i->op) {
    case A_ADD: return a + b;
    case A_MIN: return less ? a : b;
    case A_MAX: return less ? b : a;
    case A_AND: return a & b;
    case A_OR: return a | b;
    case A_XOR: return a ^ b;
    case A_EXCH: return b;
    case A_CAS: return a == b ? c : a;
    case A_INC: return a >= b ? 0 : a + 1;
    default: return a == 0 || a > b ? b : a - 1;
    }
}

static uint64_t apply(const struct ptx_insn *i, uint64_t a, uint64_t b, uint64_t c)
{
    char cls = ptx_types[i->type].cls;
    if (i->op == A_EXCH || i->op == A_CAS || (cls != 'f' && cls != 'x'))
        return int_op(i, a, b, c);
    if (cls == 'f')
        return float_op(i->type, i->op, a, b);
    return float_op(i->type, i->op, a & 0xffff, b & 0xffff) | float_op(i->type, i->op, a >> 16, b >> 16) << 16;
}

static uint64_t update(const struct ptx_insn *i, void *at, uint64_t b, uint64_t c)
{
    switch (ptx_types[i->type].bytes) {
    case 2: {
        uint16_t old = __atomic_load_n((uint16_t *)at, __ATOMIC_ACQUIRE);
        while (!__atomic_compare_exchange_n((uint16_t *)at, &old, (uint16_t)apply(i, old, b, c), true, __ATOMIC_ACQ_REL,
                                            __ATOMIC_ACQUIRE)) {
        }
        return old;
    }
    case 4: {
        uint32_t old = __atomic_load_n((uint32_t *)at, __ATOMIC_ACQUIRE);
        while (!__atomic_compare_exchange_n((uint32_t *)at, &old, (uint32_t)apply(i, old, b, c), true, __ATOMIC_ACQ_REL,
                                            __ATOMIC_ACQUIRE)) {
        }
        return old;
    }
    default: {
        uint64_t old = __atomic_load_n((uint64_t *)at, __ATOMIC_ACQUIRE);
        while (!__atomic_compare_exchange_n((uint64_t *)at, &old, apply(i, old, b, c), true, __ATOMIC_ACQ_REL,
                                            __ATOMIC_ACQUIRE)) {
        }
        return old;
    }
    }
}

static void one(struct ptx_warp *w, const struct ptx_insn *i, int lane)
{
    size_t each = ptx_types[i->type].bytes, bytes = each * i->vec;
    uint64_t address = ptx_lane_address(w, i, 0, lane);
    int from = i->op2 ? 0 : i->vec;
    struct ptx_place p;
    if (!ptx_place(w, i->space, address, bytes, lane, true, &p))
        return;
    if (p.space != SP_GLOBAL && p.space != SP_SHARED) {
        ptx_report(w, PTX_CHECK_BOUNDS, lane, address, "an atomic operation requires global or shared memory");
        return;
    }
    ptx_check_read(w, &p, bytes, lane, address);
    if (p.space == SP_SHARED)
        ptx_race(w, p.b, lane, (uint32_t)p.offset, bytes, true, RACE_ATOMIC);
    if (p.space == SP_GLOBAL) {
        if (i->flags & F_ORDER)
            ptx_race_fence(w);
        if (w->b->fenced)
            ptx_race_sync(w, address, SYNC_RELEASE);
    }
    for (int k = 0; k < i->vec; k++) {
        uint64_t b = ptx_lane(w, &i->more[from + k], lane),
                 c = i->op == A_CAS ? ptx_lane(w, &i->more[from + 1], lane) : 0;
        uint64_t old = update(i, p.data + (size_t)k * each, b, c);
        if (!i->op2)
            ptx_set(w, &i->more[k], lane, old);
    }
    ptx_mark_written(&p, bytes);
    if (p.space == SP_GLOBAL) {
        ptx_race_global(w, lane, &p, bytes, true, true);
        if (w->b->fenced)
            ptx_race_sync(w, address, SYNC_ACQUIRE);
    }
}

void ptx_run_atom(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    if (!i->s[0].sink)
        ptx_need_defined(w, &i->s[0], mask, "the address");
    for (int k = i->op2 ? 0 : i->vec; k < i->nmore; k++)
        ptx_need_defined(w, &i->more[k], mask, "an operand of an atomic operation");
    EACH_LANE(l, mask)
        one(w, i, (int)l);
}
