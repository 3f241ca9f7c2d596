/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mma.c - tiles multiplied by mma.sync (PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type" and its
 * neighbours for 8 and 32 terms): f16 or bf16 with sums in f32, 8-bit floats (whose sums in the tensor cores have few
 * bits: those of a step of bk terms are added up outside), bytes with sums in i32, and float32 as three products of
 * tf32 parts. 2 x 4 warps; a warp has bm / 2 x bn / 4 results. In each type a lane's word is the same 4 bytes of a row
 * of 16, so fragments come by ldmatrix, four 8 x 8 matrices of pairs of bytes at once: with .trans where rows of shared
 * memory are of one k and elements have two bytes; float32 of such rows comes word by word. So that what is read
 * together lies in different banks, rows of one k are padded by 8 elements, and in rows along k the chunks of 16 bytes
 * change places by an exclusive or with the number of the 128-byte line.
 */
#include "compiler/cuda/contract_int.h"

#include <string.h>

#define V LLVMValueRef

/* The factor is the element as a float: exact both ways. */
V ct_element16(struct ct *c, const struct ct_side *s, V value)
{
    struct em *e = c->e;
    LLVMTypeRef bits = em_like(e->t_i16, value);
    if (s->type == TCC_F16)
        return LLVMBuildBitCast(e->b, LLVMBuildFPTrunc(e->b, value, em_like(LLVMHalfTypeInContext(e->lc), value), ""),
                                bits, "");
    V whole = LLVMBuildBitCast(e->b, value, em_like(e->t_i32, value), "");
    return LLVMBuildTrunc(e->b, LLVMBuildLShr(e->b, whole, em_int(LLVMTypeOf(whole), 16), ""), bits, "");
}

static V element8(struct ct *c, const struct ct_side *s, V value)
{
    (void)s;
    return LLVMBuildTrunc(c->e->b, value, em_like(c->e->t_i8, value), "");
}

V ct_element_fp8(struct ct *c, const struct ct_side *s, V value)
{
    return em_to_bits(c->e, s->type, value);
}

static V element32(struct ct *c, const struct ct_side *s, V value)
{
    (void)c, (void)s;
    return value;
}

static void layout(struct ct_side *s, int bk)
{
    s->k_rows = !s->along_k;
    s->pitch = s->k_rows ? s->size + 8 : bk;
}

/* ldmatrix transposes no bytes. */
static void layout8(struct ct_side *s, int bk)
{
    s->k_rows = false;
    s->pitch = bk;
}

static V index_of(struct ct *c, const struct ct_side *s, V row, V k)
{
    struct em *e = c->e;
    V pitch = em_i64(e, s->pitch);
    if (s->k_rows)
        return LLVMBuildAdd(e->b, LLVMBuildMul(e->b, k, pitch, ""), row, "");
    int chunk = 16 / c->engine->bytes, chunks = c->bk / chunk;
    V line = LLVMBuildUDiv(e->b, row, em_i64(e, 8 / chunks), "");
    V swap = LLVMBuildAnd(e->b, line, em_i64(e, chunks - 1), "");
    k = LLVMBuildXor(e->b, k, LLVMBuildMul(e->b, swap, em_i64(e, chunk), ""), "");
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

/* Words of a float32 side whose rows are of one k, in the order of load_fragments(). */
static void load_words(struct ct *c, const struct ct_side *s, V buffer, V lane, V first, int k, bool rows, V *to)
{
    struct em *e = c->e;
    V row = LLVMBuildAdd(e->b, first, LLVMBuildLShr(e->b, lane, em_i64(e, 2), ""), "");
    V at_k = LLVMBuildAdd(e->b, LLVMBuildAnd(e->b, lane, em_i64(e, 3), ""), em_i64(e, k), "");
    for (int i = 0; i < 4; i++) {
        V r = LLVMBuildAdd(e->b, row, em_i64(e, (rows ? i & 1 : i >> 1) * 8), ""),
          t = LLVMBuildAdd(e->b, at_k, em_i64(e, (rows ? i >> 1 : i & 1) * 4), "");
        V index = index_of(c, s, r, t);
        to[i] = LLVMBuildLoad2(e->b, e->t_i32, ct_at(e, ct_buffer(c, s, buffer), index, 4), "");
    }
}

/* Four 8 x 8 matrices of pairs of bytes: rows from `first` on, 16 of them, and 32 bytes of steps from k on. With n
 * steps in 16 bytes, fragments of rows come in the order (row 0, k 0), (8, 0), (0, n), (8, n), of columns (0, 0), (0,
 * n), (8, 0), (8, n). */
static void load_fragments(struct ct *c, const struct ct_side *s, V buffer, V lane, V first, int k, bool rows, V *to)
{
    struct em *e = c->e;
    int n = 16 / c->engine->bytes;
    if (s->k_rows && n == 4) {
        load_words(c, s, buffer, lane, first, k, rows, to);
        return;
    }
    V low = LLVMBuildAnd(e->b, lane, em_i64(e, 7), ""), other = bit(e, lane, rows ? 3 : 4, 8),
      step = bit(e, lane, rows ? 4 : 3, n);
    V row = LLVMBuildAdd(e->b, first, other, ""), at_k = LLVMBuildAdd(e->b, step, em_i64(e, k), "");
    if (s->k_rows)
        at_k = LLVMBuildAdd(e->b, at_k, low, "");
    else
        row = LLVMBuildAdd(e->b, row, low, "");
    V index = index_of(c, s, row, at_k);
    V address = ct_at(e, ct_buffer(c, s, buffer), index, c->engine->bytes);
    LLVMTypeRef p = LLVMTypeOf(address);
    V four = em_intrinsic(e,
                          s->k_rows ? "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16"
                                    : "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16",
                          1, &p, 1, &address);
    for (unsigned i = 0; i < 4; i++)
        to[i] = LLVMBuildExtractValue(e->b, four, i, "");
}

/* The instruction for the types of the sides. */
static const char *instruction(const struct ct *c)
{
    bool a = c->rows.type == TCC_U8, b = c->cols.type == TCC_U8;
    switch (c->rows.type) {
    case TCC_F16: return "llvm.nvvm.mma.m16n8k16.row.col.f32.f32";
    case TCC_BF16: return "llvm.nvvm.mma.m16n8k16.row.col.bf16";
    case TCC_F32: return "llvm.nvvm.mma.m16n8k8.row.col.tf32";
    default:
        return a && b ? "llvm.nvvm.mma.m16n8k32.row.col.u8"
               : a    ? "llvm.nvvm.mma.m16n8k32.row.col.u8.s8"
               : b    ? "llvm.nvvm.mma.m16n8k32.row.col.s8.u8"
                      : "llvm.nvvm.mma.m16n8k32.row.col.s8";
    }
}

static bool is_fp8(const struct ct_side *s)
{
    return s->type == TCC_F8E4M3FN || s->type == TCC_F8E5M2;
}

/* LLVM has no intrinsic for it. */
static void multiply_fp8(struct ct *c, const V *a, const V *b, V *acc)
{
    struct em *e = c->e;
    V args[10];
    LLVMTypeRef sums[4] = {e->t_f32, e->t_f32, e->t_f32, e->t_f32};
    for (int i = 0; i < 10; i++)
        args[i] = i < 4 ? a[i] : i < 6 ? b[i - 4] : acc[i - 6];
    const char *text =
        ir_internf(e->ctx,
                   "mma.sync.aligned.m16n8k32.row.col.f32.%s.%s.f32 {$0, $1, $2, $3}, {$4, $5, $6, $7}, "
                   "{$8, $9}, {$10, $11, $12, $13};",
                   c->rows.type == TCC_F8E5M2 ? "e5m2" : "e4m3", c->cols.type == TCC_F8E5M2 ? "e5m2" : "e4m3");
    V d = cuda_asm(e, LLVMStructTypeInContext(e->lc, sums, 4, 0), text, "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f", 10, args);
    for (unsigned i = 0; i < 4; i++)
        acc[i] = LLVMBuildExtractValue(e->b, d, i, "");
}

static void multiply_fragments(struct ct *c, const V *a, const V *b, V *acc)
{
    struct em *e = c->e;
    V args[10];
    if (is_fp8(&c->rows)) {
        multiply_fp8(c, a, b, acc);
        return;
    }
    LLVMTypeRef pair = LLVMVectorType(LLVMHalfTypeInContext(e->lc), 2);
    for (int i = 0; i < 6; i++) {
        args[i] = i < 4 ? a[i] : b[i - 4];
        if (c->rows.type == TCC_F16)
            args[i] = LLVMBuildBitCast(e->b, args[i], pair, "");
    }
    for (int i = 0; i < 4; i++)
        args[6 + i] = acc[i];
    V d = em_intrinsic(e, instruction(c), 0, NULL, 10, args);
    for (unsigned i = 0; i < 4; i++)
        acc[i] = LLVMBuildExtractValue(e->b, d, i, "");
}

/* A float32 as two tf32, of which the second is what the first one lacks; in products with a second one stands
 * `finite`, the first or 0. Where the first is not finite the second is 0 (infinity less itself is none), and 0 times
 * infinity must not be added. */
struct parts {
    V first[4], second[4], finite[4];
};

static void split_parts(struct ct *c, struct parts *p, const V *words, int n)
{
    struct em *e = c->e;
    V exponent = LLVMConstInt(e->t_i32, 0x7f800000, 0), zero = LLVMConstNull(e->t_i32);
    for (int i = 0; i < n; i++) {
        V x = LLVMBuildBitCast(e->b, words[i], e->t_f32, "");
        V first = em_intrinsic(e, "llvm.nvvm.f2tf32.rna", 0, NULL, 1, &x);
        V rest = LLVMBuildFSub(e->b, x, LLVMBuildBitCast(e->b, first, e->t_f32, ""), "");
        V ok = LLVMBuildICmp(e->b, LLVMIntNE, LLVMBuildAnd(e->b, first, exponent, ""), exponent, "");
        V second = em_intrinsic(e, "llvm.nvvm.f2tf32.rna", 0, NULL, 1, &rest);
        p->first[i] = first;
        p->finite[i] = LLVMBuildSelect(e->b, ok, first, zero, "");
        p->second[i] = LLVMBuildSelect(e->b, ok, second, zero, "");
    }
}

static void multiply_parts(struct ct *c, const struct parts *a, const struct parts *b, V *acc)
{
    multiply_fragments(c, a->second, b->finite, acc);
    multiply_fragments(c, a->finite, b->second, acc);
    multiply_fragments(c, a->first, b->first, acc);
}

static void multiply(struct ct *c, V buffer)
{
    struct em *e = c->e;
    struct warp w = warp_of(c);
    struct parts row_parts[4], col_parts[4];
    int m = c->rows.size / 32, n = c->cols.size / 32;
    bool parts = c->rows.type == TCC_F32;
    V rows[4][4], cols[8][2];
    for (int k = 0; k < c->bk; k += 32 / c->engine->bytes) {
        for (int i = 0; i < m; i++)
            load_fragments(c, &c->rows, buffer, w.lane, LLVMBuildAdd(e->b, w.row, em_i64(e, 16 * i), ""), k, true,
                           rows[i]);
        for (int j = 0; j < n; j += 2)
            load_fragments(c, &c->cols, buffer, w.lane, LLVMBuildAdd(e->b, w.col, em_i64(e, 8 * j), ""), k, false,
                           cols[j]);
        for (int i = 0; i < m && parts; i++)
            split_parts(c, &row_parts[i], rows[i], 4);
        for (int j = 0; j < n && parts; j++)
            split_parts(c, &col_parts[j], cols[j], 2);
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++)
                if (parts)
                    multiply_parts(c, &row_parts[i], &col_parts[j], &c->acc[4 * (i * n + j)]);
                else
                    multiply_fragments(c, rows[i], cols[j], &c->acc[4 * (i * n + j)]);
    }
}

static void multiply_step(struct ct *c, V buffer)
{
    struct em *e = c->e;
    V before[CT_MAX_ACC];
    memcpy(before, c->acc, sizeof before);
    for (int i = 0; i < c->nacc; i++)
        c->acc[i] = LLVMConstNull(e->t_f32);
    multiply(c, buffer);
    for (int i = 0; i < c->nacc; i++)
        c->acc[i] = LLVMBuildFAdd(e->b, before[i], c->acc[i], "");
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
    LLVMValueRef index = LLVMBuildAdd(e->b, w.col, col, "");
    V at = ct_at(e, ct_at(e, to, row, 4 * c->pitch), index, 4);
    for (int j = 0; j < n; j++)
        for (int half = 0; half < 2; half++) {
            V v = LLVMGetPoison(em_vec(ct_sum_type(c), 2));
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
    LLVMValueRef right = LLVMBuildURem(e->b, r, sixteen, "");
    return LLVMBuildAdd(e->b, LLVMBuildAdd(e->b, warps, em_i64(e, 16 * strip), ""), right, "");
}

#define ENGINE(name, ...) \
    const struct ct_engine name = {.strip = 32, .index = index_of, .put = put, .row = row, __VA_ARGS__}

ENGINE(ct_mma, .bytes = 2, .element = ct_element16, .layout = layout, .multiply = multiply);
ENGINE(ct_mma_tf32, .bytes = 4, .element = element32, .layout = layout, .multiply = multiply);
ENGINE(ct_mma_bytes, .bytes = 1, .whole = true, .element = element8, .layout = layout8, .multiply = multiply);
ENGINE(ct_mma_fp8, .bytes = 1, .element = ct_element_fp8, .layout = layout8, .multiply = multiply_step);
