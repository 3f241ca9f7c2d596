/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transpose.c - a square of vectors transposed in registers, by shuffles that are one instruction each: pairs of
 * 32-bit, then of 64-bit elements inside 128-bit lanes, then the 128-bit lanes themselves.
 */
#include "compiler/cpu/contract_emit_int.h"

static LLVMValueRef shuffle(struct cg *g, LLVMValueRef a, LLVMValueRef b, const int *index)
{
    LLVMValueRef mask[16];
    for (int i = 0; i < g->lanes; i++)
        mask[i] = LLVMConstInt(g->e->t_i32, (unsigned)index[i], 0);
    return LLVMBuildShuffleVector(g->e->b, a, b, LLVMConstVector(mask, (unsigned)g->lanes), "");
}

/* Inside each 128-bit lane: elements pick[0..3] of the eight that a's and b's lane hold. */
static LLVMValueRef in_lanes(struct cg *g, LLVMValueRef a, LLVMValueRef b, const int *pick)
{
    int index[16];
    for (int i = 0; i < g->lanes; i++)
        index[i] = i / 4 * 4 + pick[i % 4] % 4 + (pick[i % 4] >= 4 ? g->lanes : 0);
    return shuffle(g, a, b, index);
}

/* 128-bit lanes lane[..] of a's and b's. */
static LLVMValueRef lanes_of(struct cg *g, LLVMValueRef a, LLVMValueRef b, const int *lane)
{
    int index[16];
    for (int i = 0; i < g->lanes; i++)
        index[i] = lane[i / 4] * 4 + i % 4;
    return shuffle(g, a, b, index);
}

void cg_transpose(struct cg *g, LLVMValueRef *v)
{
    static const int lo32[] = {0, 4, 1, 5}, hi32[] = {2, 6, 3, 7}, lo64[] = {0, 1, 4, 5}, hi64[] = {2, 3, 6, 7};
    static const int halves[2][2] = {{0, 2}, {1, 3}}, even[] = {0, 2, 4, 6}, odd[] = {1, 3, 5, 7};
    int w = g->lanes, groups = w / 4;
    LLVMValueRef u[4][4], out[16]; /* u[group][i]: step 4 * lane + i of the group's four columns, in each lane */
    for (int q = 0; q < groups; q++) {
        LLVMValueRef *c = v + 4 * q;
        LLVMValueRef t0 = in_lanes(g, c[0], c[1], lo32), t1 = in_lanes(g, c[0], c[1], hi32);
        LLVMValueRef t2 = in_lanes(g, c[2], c[3], lo32), t3 = in_lanes(g, c[2], c[3], hi32);
        u[q][0] = in_lanes(g, t0, t2, lo64);
        u[q][1] = in_lanes(g, t0, t2, hi64);
        u[q][2] = in_lanes(g, t1, t3, lo64);
        u[q][3] = in_lanes(g, t1, t3, hi64);
    }
    for (int i = 0; i < 4; i++) {
        if (w == 4) {
            out[i] = u[0][i];
        } else if (w == 8) {
            out[i] = lanes_of(g, u[0][i], u[1][i], halves[0]);
            out[4 + i] = lanes_of(g, u[0][i], u[1][i], halves[1]);
        } else {
            LLVMValueRef e01 = lanes_of(g, u[0][i], u[1][i], even), o01 = lanes_of(g, u[0][i], u[1][i], odd);
            LLVMValueRef e23 = lanes_of(g, u[2][i], u[3][i], even), o23 = lanes_of(g, u[2][i], u[3][i], odd);
            out[i] = lanes_of(g, e01, e23, even);
            out[8 + i] = lanes_of(g, e01, e23, odd);
            out[4 + i] = lanes_of(g, o01, o23, even);
            out[12 + i] = lanes_of(g, o01, o23, odd);
        }
    }
    for (int i = 0; i < w; i++)
        v[i] = out[i];
}
