/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_mma.c - attention's products by mma.sync.m16n8k16 (PTX ISA, "Matrix fragments for mma.m16n8k16 with
 * floating point type"): f16 or bf16 with sums in f32. A thread has rows g and g + 8 of its warp's 16, g its lane div
 * 4, and of each eight keys or columns two neighbours. The weights are rounded to the small type; a fragment of sums,
 * as it lies in registers, is one of the next product's first operand. Rows of shared memory are padded by 16 bytes:
 * the eight rows that ldmatrix reads lie in different banks.
 */
#include "compiler/cuda/attention_int.h"

#define V LLVMValueRef
enum { R = 2, ACROSS = 4, TOGETHER = 2, KEYS = 64, FEW_KEYS = 32, WIDE = 80, WIDEST = 128, MOST_UNROLLED = 192 };

/* Registers are for scores and means: a gradient has two of each. */
static int keys(int widest, bool gradient)
{
    int n = widest > WIDEST ? FEW_KEYS / 2 : widest > WIDE ? FEW_KEYS : KEYS;
    return gradient && n > FEW_KEYS / 2 ? n / 2 : n;
}

static void layout(struct fa_side *s, int width, bool summed)
{
    (void)summed;
    s->columns = (width + 15) / 16 * 16;
    s->pitch = s->columns + 8;
}

/* Four 8 x 8 matrices of a side, from (row, column) on: the second has the next eight rows (by_rows) or columns, the
 * third the others, the fourth both. */
static void matrices(struct fa *a, const struct fa_side *s, V first, V column, bool by_rows, bool turned, V *to)
{
    struct em *e = a->e;
    V low = LLVMBuildAnd(e->b, a->lane, em_i64(e, 7), "");
    V bit3 = LLVMBuildAnd(e->b, a->lane, em_i64(e, 8), "");
    V bit4 = LLVMBuildLShr(e->b, LLVMBuildAnd(e->b, a->lane, em_i64(e, 16), ""), em_i64(e, 1), "");
    V at = LLVMBuildAdd(e->b, first, LLVMBuildAdd(e->b, low, by_rows ? bit3 : bit4, ""), "");
    V address = fa_place(a, s, at, LLVMBuildAdd(e->b, column, by_rows ? bit4 : bit3, ""));
    LLVMTypeRef p = LLVMTypeOf(address);
    V found = em_intrinsic(
        e, turned ? "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16" : "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16",
        1, &p, 1, &address);
    for (unsigned i = 0; i < 4; i++)
        to[i] = LLVMBuildExtractValue(e->b, found, i, "");
}

static void multiply(struct fa *a, const V *x, const V *y, V *acc)
{
    struct em *e = a->e;
    V args[10];
    bool bf16 = a->s.dtype == TCC_BF16;
    LLVMTypeRef half2 = LLVMVectorType(LLVMHalfTypeInContext(e->lc), 2);
    for (int i = 0; i < 6; i++) {
        V v = i < 4 ? x[i] : y[i - 4];
        args[i] = bf16 ? v : LLVMBuildBitCast(e->b, v, half2, "");
    }
    for (int i = 0; i < 4; i++)
        args[6 + i] = acc[i];
    V d = em_intrinsic(e, bf16 ? "llvm.nvvm.mma.m16n8k16.row.col.bf16" : "llvm.nvvm.mma.m16n8k16.row.col.f32.f32", 0,
                       NULL, 10, args);
    for (unsigned i = 0; i < 4; i++)
        acc[i] = LLVMBuildExtractValue(e->b, d, i, "");
}

/* Adds the products of 16 columns from d (i64) on. */
static void add_scores(struct fa *a, const struct fa_side *q, const struct fa_side *k, V d, V (*acc)[4])
{
    V rows[4], other[4];
    matrices(a, q, LLVMBuildMul(a->e->b, a->warp, em_i64(a->e, 16), ""), d, true, false, rows);
    for (int j = 0; j < a->s.bn / 8; j += 2) {
        matrices(a, k, em_i64(a->e, (int64_t)8 * j), d, false, false, other);
        multiply(a, rows, other, acc[j]);
        multiply(a, rows, other + 2, acc[j + 1]);
    }
}

/* Wide rows in a loop: ptxas would keep too much of them, and their addresses, in registers. */
static void scores(struct fa *a, const struct fa_side *q, const struct fa_side *k, V *score)
{
    struct em *e = a->e;
    int n = a->s.bn / ACROSS, fragments = a->s.bn / 8;
    V acc[KEYS / 8][4];
    struct em_loop l;
    for (int j = 0; j < fragments; j++)
        for (int i = 0; i < 4; i++)
            acc[j][i] = em_fp(e->t_f32, 0);
    bool wide = q->columns > MOST_UNROLLED;
    for (int d = 0; d < q->columns && !wide; d += 16)
        add_scores(a, q, k, em_i64(e, d), acc);
    if (wide) {
        em_loop_begin(e, &l, em_below(e, em_i64(e, q->columns)), em_i64(e, 16), "d");
        for (int j = 0; j < 4 * fragments; j++)
            acc[j / 4][j % 4] = em_loop_carry(e, &l, acc[j / 4][j % 4]);
        add_scores(a, q, k, l.iv, acc);
        for (int j = 0; j < 4 * fragments; j++)
            em_loop_next(&l, j, acc[j / 4][j % 4]);
        cuda_loop_end(e, &l);
        for (int j = 0; j < 4 * fragments; j++)
            acc[j / 4][j % 4] = l.phi[j];
    }
    for (int j = 0; j < fragments; j++)
        for (int i = 0; i < 4; i++)
            LLVMBuildStore(e->b, acc[j][i], score[i / 2 * n + 2 * j + i % 2]);
}

static void means(struct fa *a, const struct fa_side *v, V *p, V *mean)
{
    struct em *e = a->e;
    int n = v->part / ACROSS, own = a->s.bn / ACROSS;
    for (int t = 0; t < a->s.bn; t += 16) {
        V weights[4];
        for (int i = 0; i < 4; i++) {
            V *at = p + i % 2 * own + t / 4 + i / 2 * 2;
            weights[i] = fa_packed(a, at[0], at[1]);
        }
        for (int c = 0; c < v->part; c += 16) {
            V columns[4], at = v->apart ? em_i64(e, c) : fa_of_part(a, v, em_i64(e, c));
            matrices(a, v, em_i64(e, t), at, true, true, columns);
            for (int half = 0; half < 2; half++) {
                V acc[4];
                for (int i = 0; i < 4; i++)
                    acc[i] = fa_get(a, mean[i / 2 * n + c / 4 + 2 * half + i % 2]);
                multiply(a, weights, columns + 2 * half, acc);
                for (int i = 0; i < 4; i++)
                    LLVMBuildStore(e->b, acc[i], mean[i / 2 * n + c / 4 + 2 * half + i % 2]);
            }
        }
    }
}

const struct fa_engine fa_mma = {.r = R,
                                 .across = ACROSS,
                                 .row = fa_row_of_eight,
                                 .key = fa_pair,
                                 .column = fa_pair,
                                 .together = TOGETHER,
                                 .keys = keys,
                                 .layout = layout,
                                 .place = fa_place,
                                 .widest_ring = WIDE,
                                 .least = 16,
                                 .scores = scores,
                                 .means = means};
