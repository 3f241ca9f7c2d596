/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wgmma.c - tiles multiplied by wgmma.m64nNk16 (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"): f16 or
 * bf16 with sums in f32, or by m64nNk32: 8-bit floats, whose sums in the tensor cores have few bits: those of a step of
 * 128 terms are added up outside. Both factors in shared memory. Two warpgroups, each of 64 rows and all columns. A row
 * of shared memory is 128 bytes whose chunks of 16 bytes change places by an exclusive or with the row's number modulo
 * 8 (the 128-byte swizzle; buffers begin at multiples of 1024):
 *
 *     a side along k       [size][64 of k]: one row of the side is one row of the pattern; bytes: 128 of k
 *     else                 [size / 64][bk][64 of size]: not of bytes, which wgmma does not transpose
 *
 * A step of bk terms is one statement of assembly, fence to wait: nothing may touch the accumulators between, and the
 * compiler doesn't know. Copies of the next steps run meanwhile; where tensor copies bring them, the wait is for the
 * step before, so that the tensor cores always have one to do, and between two statements stands nothing that touches
 * the accumulators either.
 */
#include "compiler/cuda/contract_int.h"

#define V LLVMValueRef
enum { ROWS = 64, GROUP = 128, STEP = 32 }; /* rows and threads of a warpgroup; bytes of the terms of an instruction */

static void layout(struct ct_side *s, int bk)
{
    s->k_rows = !s->along_k;
    s->pitch = s->k_rows ? s->size : bk; /* of all rows of one k */
}

static void layout8(struct ct_side *s, int bk)
{
    s->k_rows = false;
    s->pitch = bk;
}

static V index_of(struct ct *c, const struct ct_side *s, V row, V k)
{
    struct em *e = c->e;
    int bytes = c->engine->bytes;
    V seven = em_i64(e, 7), chunk = em_i64(e, bytes == 1 ? 4 : 3), wide = em_i64(e, CT_ROW / bytes), line = row,
      fast = k;
    if (s->k_rows) {
        V block = LLVMBuildMul(e->b, LLVMBuildUDiv(e->b, row, wide, ""), em_i64(e, c->bk), "");
        line = LLVMBuildAdd(e->b, block, k, "");
        fast = LLVMBuildURem(e->b, row, wide, "");
    }
    V swap = LLVMBuildShl(e->b, LLVMBuildAnd(e->b, line, seven, ""), chunk, "");
    LLVMValueRef right = LLVMBuildXor(e->b, fast, swap, "");
    return LLVMBuildAdd(e->b, LLVMBuildMul(e->b, line, wide, ""), right, "");
}

/* The matrix descriptor of a side from byte `offset` of its buffer on. Offsets in 16 bytes: to the next 8 rows of the
 * pattern, and, where rows of the pattern are of one k, to the next 64 of the side. */
static V descriptor(struct ct *c, const struct ct_side *s, V buffer, V offset)
{
    struct em *e = c->e;
    uint64_t next = s->k_rows ? (uint64_t)c->bk * 128 / 16 : 1;
    uint64_t fields = 1ull << 62 | 1024ull / 16 << 32 | next << 16;
    V at = LLVMBuildPtrToInt(e->b, ct_buffer(c, s, buffer), e->t_i64, "");
    at = LLVMBuildLShr(e->b, LLVMBuildAdd(e->b, at, offset, ""), em_i64(e, 4), "");
    at = LLVMBuildAnd(e->b, at, em_i64(e, 0x3fff), "");
    return LLVMBuildOr(e->b, at, em_i64(e, (int64_t)fields), "");
}

/* An instruction's terms further, in the units of a descriptor. */
static int k_step(const struct ct_side *s)
{
    return s->k_rows ? 16 * CT_ROW / 16 : STEP / 16;
}

static const char *list(struct ct *c, const char *format, int n)
{
    const char *text = "";
    for (int i = 0; i < n; i++)
        text = ir_internf(c->e->ctx, format, text, i ? ", " : "", i);
    return text;
}

static bool is_fp8(const struct ct *c)
{
    return c->engine->bytes == 1;
}

static const char *type_name(const struct ct_side *s)
{
    return s->type == TCC_F16 ? "f16" : s->type == TCC_BF16 ? "bf16" : s->type == TCC_F8E5M2 ? "e5m2" : "e4m3";
}

static int instructions(const struct ct *c)
{
    return c->bk * c->engine->bytes / STEP;
}

/* Operands of the statement: the sums, but for 8-bit floats twice; then for each instruction the descriptors of rows
 * and columns. The first one of 8-bit floats begins at zero. */
static const char *assembly(struct ct *c)
{
    struct ir_ctx *ctx = c->e->ctx;
    const char *text = "wgmma.fence.sync.aligned;\n", *sums = list(c, "%s%s$%d", c->nacc);
    const char *majors = is_fp8(c) ? "" : ir_internf(ctx, ", %d, %d", c->rows.k_rows, c->cols.k_rows);
    int first = is_fp8(c) ? c->nacc : 2 * c->nacc;
    for (int i = 0; i < instructions(c); i++)
        text = ir_internf(ctx, "%swgmma.mma_async.sync.aligned.m64n%dk%d.f32.%s.%s {%s}, $%d, $%d, %d, 1, 1%s;\n", text,
                          c->cols.size, STEP / c->engine->bytes, type_name(&c->rows), type_name(&c->cols), sums,
                          first + 2 * i, first + 2 * i + 1, !is_fp8(c) || i > 0, majors);
    return ir_internf(ctx, "%swgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned %d;", text,
                      c->role == CT_MULTIPLIES && c->engine->finish);
}

static const char *constraints(struct ct *c)
{
    const char *text = "=f";
    for (int i = 1; i < c->nacc; i++)
        text = ir_internf(c->e->ctx, "%s,=f", text);
    if (!is_fp8(c))
        text = ir_internf(c->e->ctx, "%s,%s", text, list(c, "%s%.1s%d", c->nacc));
    for (int i = 0; i < instructions(c); i++)
        text = ir_internf(c->e->ctx, "%s,l,l", text);
    return ir_internf(c->e->ctx, "%s,~{memory}", text);
}

static void multiply(struct ct *c, V buffer)
{
    struct em *e = c->e;
    V args[CT_MAX_ACC + 8], zero = em_i64(e, 0);
    int n = 0;
    V group = LLVMBuildUDiv(e->b, c->f->thread, em_i64(e, GROUP), "");
    V half = LLVMBuildMul(e->b, group, em_i64(e, ROWS * CT_ROW), ""); /* 64 rows, or 64 ks of 64 rows */
    V rows = descriptor(c, &c->rows, buffer, half), cols = descriptor(c, &c->cols, buffer, zero);
    LLVMTypeRef types[CT_MAX_ACC];
    for (int i = 0; i < c->nacc; i++)
        types[i] = e->t_f32;
    for (; n < c->nacc && !is_fp8(c); n++)
        args[n] = c->acc[n];
    for (int i = 0; i < instructions(c); i++) {
        args[n++] = LLVMBuildAdd(e->b, rows, em_i64(e, i * k_step(&c->rows)), "");
        args[n++] = LLVMBuildAdd(e->b, cols, em_i64(e, i * k_step(&c->cols)), "");
    }
    LLVMTypeRef sums = LLVMStructTypeInContext(e->lc, types, (unsigned)c->nacc, 0);
    V d = cuda_asm(e, sums, assembly(c), constraints(c), n, args);
    for (int i = 0; i < c->nacc; i++) {
        V sum = LLVMBuildExtractValue(e->b, d, (unsigned)i, "");
        c->acc[i] = is_fp8(c) ? LLVMBuildFAdd(e->b, c->acc[i], sum, "") : sum;
    }
}

/* Nothing that reads the sums comes before the wait: they go through it. */
static void finish(struct ct *c)
{
    struct em *e = c->e;
    const char *results = "=f", *sums = list(c, "%s%.1s%d", c->nacc);
    LLVMTypeRef types[CT_MAX_ACC];
    for (int i = 0; i < c->nacc; i++) {
        types[i] = e->t_f32;
        results = i ? ir_internf(e->ctx, "%s,=f", results) : results;
    }
    V d = cuda_asm(e, LLVMStructTypeInContext(e->lc, types, (unsigned)c->nacc, 0), "wgmma.wait_group.sync.aligned 0;",
                   ir_internf(e->ctx, "%s,%s,~{memory}", results, sums), c->nacc, c->acc);
    for (int i = 0; i < c->nacc; i++)
        c->acc[i] = LLVMBuildExtractValue(e->b, d, (unsigned)i, "");
}

/* A thread has two rows of its warp's 16, neighbouring pairs of columns. */
static void put(struct ct *c, int strip, V to)
{
    enum { COLUMNS = 64, BELOW = 8 * COLUMNS * 4 };
    struct em *e = c->e;
    (void)to;
    V lane = LLVMBuildURem(e->b, c->f->thread, em_i64(e, 32), "");
    V row = LLVMBuildLShr(e->b, lane, em_i64(e, 2), "");
    V col = LLVMBuildMul(e->b, LLVMBuildAnd(e->b, lane, em_i64(e, 3), ""), em_i64(e, 2), "");
    for (int i = 0; i < COLUMNS / 2; i += 2) {
        V v = LLVMGetPoison(em_vec(e->t_f32, 2));
        for (int j = 0; j < 2; j++)
            v = LLVMBuildInsertElement(e->b, v, c->acc[strip * COLUMNS / 2 + i + j], em_i64(e, j), "");
        V there = ct_own_place(c, row, LLVMBuildAdd(e->b, col, em_i64(e, i / 4 * 8), ""));
        there = ct_at(e, there, em_i64(e, i / 2 % 2), BELOW);
        LLVMSetAlignment(LLVMBuildStore(e->b, v, there), 8);
    }
}

static V row(struct ct *c, int strip, V r)
{
    (void)c, (void)strip;
    return r;
}

const struct ct_engine ct_wgmma = {.bytes = 2,
                                   .async_proxy = true,
                                   .element = ct_element16,
                                   .layout = layout,
                                   .index = index_of,
                                   .multiply = multiply,
                                   .finish = finish,
                                   .by_warps = true,
                                   .put = put,
                                   .row = row};
const struct ct_engine ct_wgmma_fp8 = {.bytes = 1,
                                       .async_proxy = true,
                                       .element = ct_element_fp8,
                                       .layout = layout8,
                                       .index = index_of,
                                       .multiply = multiply,
                                       .by_warps = true,
                                       .put = put,
                                       .row = row};
