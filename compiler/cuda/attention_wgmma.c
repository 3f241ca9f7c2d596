/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_wgmma.c - attention's products by wgmma.m64nNk16 (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"): f16 or bf16 with sums in f32, 64
 * rows a warpgroup. A thread has the rows and columns that it has of mma.sync's fragments (attention_mma.c), so the weights, rounded and in pairs, are the first
 * operand of the second product as they lie in registers.
 *
 * A side lies in shared memory in parts of 64 columns, [columns / 64][rows][64], whose rows of 128 bytes have their chunks of 16 swapped by an exclusive or
 * with the row's number modulo 8 (the 128-byte swizzle; sides begin at multiples of 1024). Both products take the second operand as it lies there: scores with
 * columns as terms (K-major), means with rows as terms (MN-major).
 */
#include "compiler/cuda/attention_int.h"
#include "compiler/cuda/contract_int.h"

#define V LLVMValueRef
enum { R = 2, ACROSS = 4, TOGETHER = 2, PART = 64, LINE = 128, TERMS = 16, WIDE = 64 };

/* Registers are for scores and means: a gradient has two of each. */
static int keys(int widest, bool gradient)
{
    return gradient ? widest > WIDE ? 32 : 64 : widest > WIDE ? 64 : 128;
}

static void layout(struct fa_side *s, int width, bool summed)
{
    (void)summed;
    s->columns = (width + TERMS - 1) / TERMS * TERMS;
    s->pitch = (width + PART - 1) / PART * PART;
}

/* Of a part's rows. */
static V place(struct fa *a, const struct fa_side *s, V row, V column)
{
    struct em *e = a->e;
    V part = LLVMBuildUDiv(e->b, column, em_i64(e, PART), ""),
      within = LLVMBuildURem(e->b, column, em_i64(e, PART), "");
    V line = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, part, em_i64(e, s->rows), ""), row, "");
    V swap = LLVMBuildShl(e->b, LLVMBuildAnd(e->b, row, em_i64(e, 7), ""), em_i64(e, 3), "");
    V at = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, line, em_i64(e, PART), ""), LLVMBuildXor(e->b, within, swap, ""), "");
    V base = ct_at(e, a->pool, em_i64(e, s->at), 1);
    return ct_at(e, s->buffer ? ct_at(e, base, s->buffer, 1) : base, at, 2);
}

/* The matrix descriptor of a side from its row `row` on. Offsets in 16 bytes: to the next 8 rows, and, where rows are terms, to the next 64 columns. */
static V descriptor(struct fa *a, const struct fa_side *s, V row)
{
    struct em *e = a->e;
    uint64_t fields = 1ull << 62 | (uint64_t)(8 * LINE / 16) << 32 | (uint64_t)(s->rows * LINE / 16) << 16;
    V base = ct_at(e, a->pool, em_i64(e, s->at), 1);
    base = s->buffer ? ct_at(e, base, s->buffer, 1) : base;
    V at = LLVMBuildPtrToInt(e->b, ct_at(e, base, row, LINE), e->t_i64, "");
    at = LLVMBuildAnd(e->b, LLVMBuildLShr(e->b, at, em_i64(e, 4), ""), em_i64(e, 0x3fff), "");
    return LLVMBuildOr(e->b, at, em_i64(e, (int64_t)fields), "");
}

/* "prefix" first, first + 1, ... of n, with commas. */
static const char *list(struct fa *a, const char *prefix, int first, int n)
{
    const char *text = "";
    for (int i = 0; i < n; i++)
        text = ir_internf(a->e->ctx, "%s%s%s%d", text, i ? "," : "", prefix, first + i);
    return text;
}

static const char *repeated(struct fa *a, const char *what, int n)
{
    const char *text = "";
    for (int i = 0; i < n; i++)
        text = ir_internf(a->e->ctx, "%s%s%s", text, i ? "," : "", what);
    return text;
}

static const char *instruction(struct fa *a, int columns)
{
    const char *type = a->s.dtype == TCC_BF16 ? "bf16" : "f16";
    return ir_internf(a->e->ctx, "wgmma.mma_async.sync.aligned.m64n%dk16.f32.%s.%s", columns, type, type);
}

/* The statement, fence to wait: nothing may touch the sums between, and the compiler doesn't know. */
static V run(struct fa *a, int nsums, const char *products, const char *constraints, int n, const V *args)
{
    struct em *e = a->e;
    LLVMTypeRef types[2 * FA_MAX_R * FA_MAX_E];
    for (int i = 0; i < nsums; i++)
        types[i] = e->t_f32;
    const char *text = ir_internf(e->ctx,
                                  "wgmma.fence.sync.aligned;\n%swgmma.commit_group.sync.aligned;\n"
                                  "wgmma.wait_group.sync.aligned 0;",
                                  products);
    return cuda_asm(e, LLVMStructTypeInContext(e->lc, types, (unsigned)nsums, 0), text,
                    ir_internf(e->ctx, "%s,~{memory}", constraints), n, args);
}

static void scores(struct fa *a, const struct fa_side *q, const struct fa_side *k, V *score)
{
    struct em *e = a->e;
    int n = a->s.bn / ACROSS, nsums = R * n, steps = q->columns / TERMS;
    const char *sums = list(a, "$", 0, nsums), *products = "";
    V group = LLVMBuildUDiv(e->b, a->warp, em_i64(e, 4), ""), args[2 * FA_MOST_GRAD / TERMS];
    V rows = descriptor(a, q, LLVMBuildMul(e->b, group, em_i64(e, FA_ROWS), "")), cols = descriptor(a, k, em_i64(e, 0));
    for (int i = 0; i < steps; i++) {
        int part = i * TERMS / PART, within = i * TERMS % PART * 2 / 16;
        args[2 * i] = LLVMBuildAdd(e->b, rows, em_i64(e, part * q->rows * LINE / 16 + within), "");
        args[2 * i + 1] = LLVMBuildAdd(e->b, cols, em_i64(e, part * k->rows * LINE / 16 + within), "");
        products = ir_internf(e->ctx, "%s%s {%s}, $%d, $%d, %d, 1, 1, 0, 0;\n", products, instruction(a, a->s.bn), sums,
                              nsums + 2 * i, nsums + 2 * i + 1, i > 0);
    }
    const char *constraints =
        ir_internf(e->ctx, "%s,%s", repeated(a, "=f", nsums), repeated(a, "l", 2 * steps));
    V d = run(a, nsums, products, constraints, 2 * steps, args);
    for (int i = 0; i < nsums; i++) /* two neighbours of a row, two of the row eight below */
        LLVMBuildStore(e->b, LLVMBuildExtractValue(e->b, d, (unsigned)i, ""),
                       score[i / 2 % 2 * n + i / 4 * 2 + i % 2]);
}

static void means(struct fa *a, const struct fa_side *v, V *p, V *mean)
{
    struct em *e = a->e;
    int n = v->part / ACROSS, own = a->s.bn / ACROSS, nsums = R * n, steps = a->s.bn / TERMS, nargs = 0;
    const char *sums = list(a, "$", 0, nsums), *products = "";
    V args[R * FA_MAX_E + 5 * FA_MAX_C], values = descriptor(a, v, em_i64(e, 0));
    for (int i = 0; i < nsums; i++)
        args[nargs++] = fa_get(a, mean[i / 2 % 2 * n + i / 4 * 2 + i % 2]);
    for (int t = 0; t < steps; t++) {
        int first = nsums + nargs;
        for (int i = 0; i < 4; i++) {
            V *at = p + i % 2 * own + 4 * t + i / 2 * 2;
            args[nargs++] = fa_packed(a, at[0], at[1]);
        }
        args[nargs++] = LLVMBuildAdd(e->b, values, em_i64(e, t * TERMS * LINE / 16), "");
        products = ir_internf(e->ctx, "%s%s {%s}, {%s}, $%d, 1, 1, 1, 1;\n", products, instruction(a, v->part), sums,
                              list(a, "$", first, 4), first + 4);
    }
    const char *constraints = ir_internf(e->ctx, "%s,%s,%s", repeated(a, "=f", nsums), list(a, "", 0, nsums),
                                         repeated(a, "r,r,r,r,l", steps));
    V d = run(a, nsums, products, constraints, nargs, args);
    for (int i = 0; i < nsums; i++)
        LLVMBuildStore(e->b, LLVMBuildExtractValue(e->b, d, (unsigned)i, ""),
                       mean[i / 2 % 2 * n + i / 4 * 2 + i % 2]);
}

const struct fa_engine fa_wgmma = {.r = R,
                                   .across = ACROSS,
                                   .row = fa_row_of_eight,
                                   .key = fa_pair,
                                   .column = fa_pair,
                                   .together = TOGETHER,
                                   .keys = keys,
                                   .layout = layout,
                                   .place = place,
                                   .widest_ring = FA_MOST_GRAD,
                                   .async_proxy = true,
                                   .least = 16,
                                   .scores = scores,
                                   .means = means};
