/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dot.c - products of groups of four bytes, one side unsigned and the other signed, added to 32-bit lanes, by what the
 * machine has for them. Vectors may be wider than the machine's, whose schedule is another's then: they are multiplied
 * in parts.
 */
#include "compiler/cpu/emit_int.h"

#define V LLVMValueRef

/* Lanes first .. first + n of a vector that has at least as many. */
static V lanes_from(struct em *e, V v, int first, int n)
{
    int order[EM_MAX_LANES];
    for (int i = 0; i < n; i++)
        order[i] = first + i;
    return em_shuffle(e, v, v, n, order);
}

V cpu_dot_bytes_plain(struct em *e, V u, V s, V acc)
{
    LLVMTypeRef t = LLVMTypeOf(acc);
    V byte = em_int(t, 255), top = em_int(t, 24);
    for (int i = 0; i < 4; i++) {
        V from = em_int(t, 8 * i), a = LLVMBuildAnd(e->b, LLVMBuildLShr(e->b, u, from, ""), byte, "");
        V b = LLVMBuildAShr(e->b, LLVMBuildShl(e->b, s, em_int(t, 24 - 8 * i), ""), top, "");
        acc = LLVMBuildAdd(e->b, acc, LLVMBuildMul(e->b, a, b, ""), "");
    }
    return acc;
}

typedef V dot_fn(struct em *e, V a, V b, V acc);

/* a and b: a 32-bit lane for each of acc's. */
static V in_parts(struct em *e, V a, V b, V acc, dot_fn *dot)
{
    int lanes = em_lanes_of(acc);
    if (lanes * 4 > e->m->vector_bytes) {
        V part[2];
        for (int i = 0; i < 2; i++) {
            int from = i * lanes / 2, n = lanes / 2;
            LLVMValueRef right = lanes_from(e, acc, from, n);
            LLVMValueRef second = lanes_from(e, b, from, n);
            part[i] = in_parts(e, lanes_from(e, a, from, n), second, right, dot);
        }
        int order[EM_MAX_LANES];
        for (int i = 0; i < lanes; i++)
            order[i] = i;
        return em_shuffle(e, part[0], part[1], lanes, order);
    }
    return dot(e, a, b, acc);
}

V cpu_dot_bytes(struct em *e, V u, V s, V acc)
{
    return in_parts(e, u, s, acc, em_cpu(e)->dot_bytes);
}

V cpu_dot_bytes_signed(struct em *e, V a, V b, V acc)
{
    return in_parts(e, a, b, acc, em_cpu(e)->dot_bytes_signed);
}

V cpu_dot_bf16(struct em *e, V a, V b, V acc)
{
    return in_parts(e, a, b, acc, em_cpu(e)->dot_bf16);
}

V cpu_dot_halves(struct em *e, V a, V b, V acc)
{
    return in_parts(e, a, b, acc, em_cpu(e)->dot_halves);
}

V cpu_half_of(struct em *e, V groups, int which, bool is_unsigned)
{
    LLVMTypeRef whole = LLVMTypeOf(groups), half = em_vec(e->t_i16, em_lanes_of(groups) * 2);
    if (is_unsigned && !which)
        return LLVMBuildAnd(e->b, groups, em_int(whole, 0x00FF00FF), "");
    V eight = em_int(half, 8), v = LLVMBuildBitCast(e->b, groups, half, "");
    v = is_unsigned ? LLVMBuildLShr(e->b, v, eight, "")
                    : LLVMBuildAShr(e->b, which ? v : LLVMBuildShl(e->b, v, eight, ""), eight, "");
    return LLVMBuildBitCast(e->b, v, whole, "");
}

/* <4 * lanes x i8>: byte 4 * i + j is byte lanes * j + i of v. */
static V interleave(struct em *e, V v, int lanes)
{
    int order[EM_MAX_LANES];
    for (int i = 0; i < lanes; i++)
        for (int j = 0; j < 4; j++)
            order[4 * i + j] = lanes * j + i;
    return em_shuffle(e, v, LLVMConstNull(LLVMTypeOf(v)), 4 * lanes, order);
}

static V load_bytes(struct em *e, V p, int n, int operand)
{
    V v = LLVMBuildLoad2(e->b, em_vec(e->t_i8, n), p, "");
    LLVMSetAlignment(v, 1);
    em_tag(e, v, operand);
    return v;
}

static V load_some(struct em *e, V p, int n, int of, int operand)
{
    LLVMTypeRef t = em_vec(e->t_i8, of), types[2] = {t, e->t_ptr};
    V on[EM_MAX_LANES];
    for (int i = 0; i < of; i++)
        on[i] = LLVMConstInt(e->t_i1, i < n, 0);
    V args[4] = {p, LLVMConstInt(e->t_i32, 1, 0), LLVMConstVector(on, (unsigned)of), LLVMConstNull(t)};
    V v = em_intrinsic(e, "llvm.masked.load", 2, types, 4, args);
    em_tag(e, v, operand);
    return v;
}

V cpu_dot_group(struct em *e, V p, int64_t step, int n, int lanes, int operand)
{
    int order[EM_MAX_LANES];
    V v[4];
    LLVMTypeRef bits = em_vec(e->t_i32, lanes);
    if (n == 1)
        return LLVMBuildZExt(e->b, load_bytes(e, p, lanes, operand), bits, "");
    if (step == lanes && lanes == 16 && n >= 3 && em_cpu(e)->shuffles_bytes) {
        V all = n == 4 ? load_bytes(e, p, 64, operand) : load_some(e, p, n * lanes, 64, operand);
        return LLVMBuildBitCast(e->b, interleave(e, all, lanes), bits, "");
    }
    for (int i = 0; i < 2 * lanes; i++)
        order[i] = i;
    for (int j = 0; j < 4; j++) {
        V at = em_i64(e, step * j);
        v[j] = j < n ? load_bytes(e, LLVMBuildGEP2(e->b, e->t_i8, p, &at, 1, ""), lanes, operand)
                     : LLVMConstNull(em_vec(e->t_i8, lanes));
    }
    V low = em_shuffle(e, v[0], v[1], 2 * lanes, order), high = em_shuffle(e, v[2], v[3], 2 * lanes, order);
    for (int i = 0; i < 4 * lanes; i++)
        order[i] = i;
    return LLVMBuildBitCast(e->b, interleave(e, em_shuffle(e, low, high, 4 * lanes, order), lanes), bits, "");
}

V cpu_lane(struct em *e, V v, int lane, int n)
{
    int order[EM_MAX_LANES];
    for (int i = 0; i < n; i++)
        order[i] = lane;
    return em_shuffle(e, v, v, n, order);
}

V cpu_lane_fma(struct em *e, V a, int lane, V b, V acc)
{
    const struct cpu_machine *m = em_cpu(e);
    V sum = m->lane_product ? m->lane_product(e, CPU_FLOATS, a, lane, b, acc) : NULL;
    return sum ? sum : em_fma(e, cpu_lane(e, a, lane, em_lanes_of(b)), b, acc);
}
