/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mma.c - tiles multiplied by mma.sync.m16n8k16 (PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type"): f16 or bf16 with sums in
 * f32. 2 x 4 warps; a warp has bm / 2 x bn / 4 results. Fragments come by ldmatrix, four 8 x 8 matrices at once, with .trans where rows
 * of shared memory are of one k. So that the eight rows of a matrix lie in different banks, rows of one k are padded by 16 bytes, and in rows along
 * k the chunks of 16 bytes change places by an exclusive or with the number of the 128-byte line.
 */
#include "compiler/cuda/contract_int.h"

#define V LLVMValueRef

static bool is_bf16(const struct ct *c)
{
    return c->e->k->insns[c->rows.load].dtype == TCC_BF16;
}

/* The factor is the element as a float: exact both ways. */
V ct_element16(struct ct *c, const struct ct_side *s, V value)
{
    struct em *e = c->e;
    LLVMTypeRef bits = em_like(e->t_i16, value);
    if (e->k->insns[s->load].dtype == TCC_F16)
        return LLVMBuildBitCast(e->b, LLVMBuildFPTrunc(e->b, value, em_like(LLVMHalfTypeInContext(e->lc), value), ""),
                                bits, "");
    V whole = LLVMBuildBitCast(e->b, value, em_like(e->t_i32, value), "");
    return LLVMBuildTrunc(e->b, LLVMBuildLShr(e->b, whole, em_int(LLVMTypeOf(whole), 16), ""), bits, "");
}

static void layout(struct ct_side *s, int bk)
{
    s->k_rows = !s->along_k;
    s->pitch = s->k_rows ? s->size + 8 : bk;
}

static V index_of(struct ct *c, const struct ct_side *s, V row, V k)
{
    struct em *e = c->e;
    V pitch = em_i64(e, s->pitch);
    if (s->k_rows)
        return LLVMBuildAdd(e->b, LLVMBuildMul(e->b, k, pitch, ""), row, "");
    int chunks = c->bk / 8;
    V line = LLVMBuildUDiv(e->b, row, em_i64(e, 8 / chunks), "");
    V swap = LLVMBuildAnd(e->b, line, em_i64(e, chunks - 1), "");
    k = LLVMBuildXor(e->b, k, LLVMBuildShl(e->b, swap, em_i64(e, 3), ""), "");
    return LLVMBuildAdd(e->b, LLVMBuildMul(e->b, row, pitch, ""), k, "");
}

struct warp {
    V lane, row, col; /* of the tile: the first of this warp's */
};

static struct warp warp_of(struct ct *c)
{
    struct em *e = c->e;
    V number = LLVMBuildUDiv(e->b, c->f->thread, em_i64(e, 32), ""), four = em_i64(e, 4);
    return (struct warp){
        .lane = LLVMBuildURem(e->b, c->f->thread, em_i64(e, 32), ""),
        .row = LLVMBuildMul(e->b, LLVMBuildUDiv(e->b, number, four, ""), em_i64(e, c->rows.size / 2), ""),
        .col = LLVMBuildMul(e->b, LLVMBuildURem(e->b, number, four, ""), em_i64(e, c->cols.size / 4), "")};
}

static V bit(struct em *e, V lane, int shift, int scale)
{
    V v = LLVMBuildAnd(e->b, LLVMBuildLShr(e->b, lane, em_i64(e, shift), ""), em_i64(e, 1), "");
    return LLVMBuildMul(e->b, v, em_i64(e, scale), "");
}

/* Four 8 x 8 matrices: rows from `first` on, 16 of them, and 16 steps of k from k on. Fragments of rows come in the order (row 0, k 0),
 * (8, 0), (0, 8), (8, 8), of columns (0, 0), (0, 8), (8, 0), (8, 8). */
static void load_fragments(struct ct *c, const struct ct_side *s, V buffer, V lane, V first, int k, bool rows, V *to)
{
    struct em *e = c->e;
    V low = LLVMBuildAnd(e->b, lane, em_i64(e, 7), ""), other = bit(e, lane, rows ? 3 : 4, 8),
      step = bit(e, lane, rows ? 4 : 3, 8);
    V row = LLVMBuildAdd(e->b, first, other, ""), at_k = LLVMBuildAdd(e->b, step, em_i64(e, k), "");
    if (s->k_rows)
        at_k = LLVMBuildAdd(e->b, at_k, low, "");
    else
        row = LLVMBuildAdd(e->b, row, low, "");
    V address = ct_at(e, ct_buffer(c, s, buffer), index_of(c, s, row, at_k), 2);
    LLVMTypeRef p = LLVMTypeOf(address);
    V four = em_intrinsic(e,
                          s->k_rows ? "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16"
                                    : "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16",
                          1, &p, 1, &address);
    for (unsigned i = 0; i < 4; i++)
        to[i] = LLVMBuildExtractValue(e->b, four, i, "");
}

static void multiply_fragments(struct ct *c, const V *a, const V *b, V *acc)
{
    struct em *e = c->e;
    V args[10];
    bool bf16 = is_bf16(c);
    LLVMTypeRef pair = LLVMVectorType(LLVMHalfTypeInContext(e->lc), 2);
    for (int i = 0; i < 6; i++) {
        args[i] = i < 4 ? a[i] : b[i - 4];
        if (!bf16)
            args[i] = LLVMBuildBitCast(e->b, args[i], pair, "");
    }
    for (int i = 0; i < 4; i++)
        args[6 + i] = acc[i];
    V d = em_intrinsic(e, bf16 ? "llvm.nvvm.mma.m16n8k16.row.col.bf16" : "llvm.nvvm.mma.m16n8k16.row.col.f32.f32", 0,
                       NULL, 10, args);
    for (unsigned i = 0; i < 4; i++)
        acc[i] = LLVMBuildExtractValue(e->b, d, i, "");
}

static void multiply(struct ct *c, V buffer)
{
    struct em *e = c->e;
    struct warp w = warp_of(c);
    int m = c->rows.size / 32, n = c->cols.size / 32;
    V rows[4][4], cols[8][2];
    for (int k = 0; k < c->bk; k += 16) {
        for (int i = 0; i < m; i++)
            load_fragments(c, &c->rows, buffer, w.lane, LLVMBuildAdd(e->b, w.row, em_i64(e, 16 * i), ""), k, true,
                           rows[i]);
        for (int j = 0; j < n; j += 2)
            load_fragments(c, &c->cols, buffer, w.lane, LLVMBuildAdd(e->b, w.col, em_i64(e, 8 * j), ""), k, false,
                           cols[j]);
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++)
                multiply_fragments(c, rows[i], cols[j], &c->acc[4 * (i * n + j)]);
    }
}

/* A strip: 16 rows of each of the two rows of warps. */
static void put(struct ct *c, int strip, V to)
{
    struct em *e = c->e;
    struct warp w = warp_of(c);
    int n = c->cols.size / 32;
    V up = LLVMBuildUDiv(e->b, w.row, em_i64(e, c->rows.size / 32), ""); /* 16 rows a row of warps */
    V row = LLVMBuildAdd(e->b, up, LLVMBuildLShr(e->b, w.lane, em_i64(e, 2), ""), "");
    V col = LLVMBuildMul(e->b, LLVMBuildAnd(e->b, w.lane, em_i64(e, 3), ""), em_i64(e, 2), "");
    V at = ct_at(e, ct_at(e, to, row, 4 * c->pitch), LLVMBuildAdd(e->b, w.col, col, ""), 4);
    for (int j = 0; j < n; j++)
        for (int half = 0; half < 2; half++) {
            V v = LLVMGetPoison(em_vec(e->t_f32, 2));
            for (int i = 0; i < 2; i++)
                v = LLVMBuildInsertElement(e->b, v, c->acc[4 * (strip * n + j) + 2 * half + i], em_i64(e, i), "");
            V there = ct_at(e, at, em_i64(e, 8 * j + (int64_t)8 * half * c->pitch), 4);
            LLVMSetAlignment(LLVMBuildStore(e->b, v, there), 8);
        }
}

static V row(struct ct *c, int strip, V r)
{
    struct em *e = c->e;
    V sixteen = em_i64(e, 16),
      warps = LLVMBuildMul(e->b, LLVMBuildUDiv(e->b, r, sixteen, ""), em_i64(e, c->rows.size / 2), "");
    return LLVMBuildAdd(e->b, LLVMBuildAdd(e->b, warps, em_i64(e, 16 * strip), ""), LLVMBuildURem(e->b, r, sixteen, ""),
                        "");
}

const struct ct_engine ct_mma = {.bytes = 2,
                                 .strip = 32,
                                 .element = ct_element16,
                                 .layout = layout,
                                 .index = index_of,
                                 .multiply = multiply,
                                 .put = put,
                                 .row = row};
