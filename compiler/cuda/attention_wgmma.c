/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_wgmma.c - attention's products by wgmma.m64nNk16 (PTX ISA, "Asynchronous Warpgroup Level Matrix
 * Instructions"): f16 or bf16 with sums in f32, 64 rows a warpgroup. A thread has the rows and columns that it has of
 * mma.sync's fragments (attention_mma.c), so the weights, rounded and in pairs, are the first operand of the second
 * product as they lie in registers.
 *
 * A side lies in shared memory in parts of 64 columns, [columns / 64][rows][64], whose rows of 128 bytes have their
 * chunks of 16 swapped by an exclusive or with the row's number modulo 8 (the 128-byte swizzle; sides begin at
 * multiples of 1024). Both products take the second operand as it lies there: scores with columns as terms (K-major),
 * means with rows as terms (MN-major).
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
    LLVMValueRef right = LLVMBuildXor(e->b, within, swap, "");
    V at = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, line, em_i64(e, PART), ""), right, "");
    V base = ct_at(e, a->pool, em_i64(e, s->at), 1);
    return ct_at(e, s->buffer ? ct_at(e, base, s->buffer, 1) : base, at, 2);
}

/* The matrix descriptor of a side from its row `row` on. Offsets in 16 bytes: to the next 8 rows, and, where rows are
 * terms, to the next 64 columns. */
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

/* A statement under construction, with descriptors x and y of its own: else all those of a loop would lie in registers.
 * `nsums` sums are its results, the first `fresh` of which begin at 0 and the others as the first operands have
 * them. */
struct statement {
    const char *text, *operands;
    int nsums, fresh, n;
    V args[R * FA_MAX_E + 3 + 2 * FA_MAX_C];
};

static V add(struct statement *s, V v)
{
    return s->args[s->n++] = v;
}

/* Number of the operand that is added next. */
static int next(const struct statement *s)
{
    return s->nsums + s->n;
}

/* Sums `first` and following, as a thread has them of that many columns: two neighbours of a row, two of the row eight
 * below. */
static int slot_of(int i, int columns)
{
    return i / 2 % 2 * columns + i / 4 * 2 + i % 2;
}

static struct statement begin(struct fa *a, int fresh, const struct fa_side *v, V *mean)
{
    int n = v ? v->part / ACROSS : 0;
    struct statement s = {"wgmma.fence.sync.aligned;\n", "", fresh + R * n, fresh, 0, {NULL}};
    for (int i = 0; i < R * n; i++)
        add(&s, fa_get(a, mean[slot_of(i, n)]));
    return s;
}

/* Rows times the other side's, sums `0` and following. */
static void add_scores(struct fa *a, struct statement *s, const struct fa_side *q, const struct fa_side *k)
{
    struct em *e = a->e;
    const char *sums = list(a, "$", 0, R * a->s.bn / ACROSS);
    V group = LLVMBuildUDiv(e->b, a->warp, em_i64(e, 4), "");
    V rows = descriptor(a, q, LLVMBuildMul(e->b, group, em_i64(e, FA_ROWS), "")), cols = descriptor(a, k, em_i64(e, 0));
    int at = next(s);
    add(s, rows);
    add(s, cols);
    s->operands = ir_internf(e->ctx, "%s,l,l", s->operands);
    for (int i = 0; i < q->columns / TERMS; i++) {
        int part = i * TERMS / PART, within = i * TERMS % PART * 2 / 16;
        s->text = ir_internf(e->ctx, "%sadd.s64 x, $%d, %d;\nadd.s64 y, $%d, %d;\n%s {%s}, x, y, %d, 1, 1, 0, 0;\n",
                             s->text, at, part * q->rows * LINE / 16 + within, at + 1,
                             part * k->rows * LINE / 16 + within, instruction(a, a->s.bn), sums, i > 0);
    }
    s->text = ir_internf(e->ctx, "%swgmma.commit_group.sync.aligned;\n", s->text);
}

/* Weights, in pairs, times the side's rows. */
static void add_means(struct fa *a, struct statement *s, const struct fa_side *v, const V *packed)
{
    struct em *e = a->e;
    const char *sums = list(a, "$", s->fresh, R * v->part / ACROSS);
    int values = next(s);
    add(s, descriptor(a, v, em_i64(e, 0)));
    s->operands = ir_internf(e->ctx, "%s,l", s->operands);
    for (int t = 0; t < a->s.bn / TERMS; t++) {
        int at = next(s);
        for (int i = 0; i < 4; i++)
            add(s, packed[4 * t + i]);
        s->text = ir_internf(e->ctx, "%sadd.s64 y, $%d, %d;\n%s {%s}, {%s}, y, 1, 1, 1, 1;\n", s->text, values,
                             t * TERMS * LINE / 16, instruction(a, v->part), sums, list(a, "$", at, 4));
        s->operands = ir_internf(e->ctx, "%s,r,r,r,r", s->operands);
    }
    s->text = ir_internf(e->ctx, "%swgmma.commit_group.sync.aligned;\n", s->text);
}

/* The statement, fence to wait, until `pending` groups are under way: nothing may touch the sums of these, and the
 * compiler doesn't know. */
static V end(struct fa *a, struct statement *s, int pending)
{
    struct em *e = a->e;
    LLVMTypeRef types[2 * FA_MAX_R * FA_MAX_E];
    for (int i = 0; i < s->nsums; i++)
        types[i] = e->t_f32;
    const char *results = s->fresh ? repeated(a, "=&f", s->fresh) : "", *carried = "";
    if (s->nsums > s->fresh) {
        results = ir_internf(e->ctx, "%s%s%s", results, s->fresh ? "," : "", repeated(a, "=&f", s->nsums - s->fresh));
        carried = ir_internf(e->ctx, ",%s", list(a, "", s->fresh, s->nsums - s->fresh));
    }
    return cuda_asm(e, LLVMStructTypeInContext(e->lc, types, (unsigned)s->nsums, 0),
                    ir_internf(e->ctx, "{\n.reg .b64 x, y;\n%swgmma.wait_group.sync.aligned %d;\n}", s->text, pending),
                    ir_internf(e->ctx, "%s%s%s,~{memory}", results, carried, s->operands), s->n, s->args);
}

/* Results from number `first` on to their slots. */
static void keep(struct fa *a, V results, int first, int columns, V *to)
{
    for (int i = 0; i < R * columns; i++)
        LLVMBuildStore(a->e->b, LLVMBuildExtractValue(a->e->b, results, (unsigned)(first + i), ""),
                       to[slot_of(i, columns)]);
}

static void scores(struct fa *a, const struct fa_side *q, const struct fa_side *k, V *score)
{
    struct statement s = begin(a, R * a->s.bn / ACROSS, NULL, NULL);
    add_scores(a, &s, q, k);
    keep(a, end(a, &s, 0), 0, a->s.bn / ACROSS, score);
}

void fa_pack(struct fa *a, V *p, V *packed)
{
    int own = a->s.bn / ACROSS;
    for (int t = 0; t < a->s.bn / TERMS; t++)
        for (int i = 0; i < 4; i++) {
            V *at = p + i % 2 * own + 4 * t + i / 2 * 2;
            packed[4 * t + i] = fa_packed(a, at[0], at[1]);
        }
}

void fa_packed_means(struct fa *a, const struct fa_side *v, const V *packed, V *mean)
{
    struct statement s = begin(a, 0, v, mean);
    add_means(a, &s, v, packed);
    keep(a, end(a, &s, 0), 0, v->part / ACROSS, mean);
}

static void means(struct fa *a, const struct fa_side *v, V *p, V *mean)
{
    V packed[FA_MAX_C * R / 2];
    fa_pack(a, p, packed);
    fa_packed_means(a, v, packed, mean);
}

void fa_start_means(struct fa *a, V *score, const V *packed)
{
    int fresh = R * a->s.bn / ACROSS;
    struct statement s = begin(a, fresh, &a->s.v, a->mean);
    add_scores(a, &s, &a->s.q, &a->s.k);
    add_means(a, &s, &a->s.v, packed);
    V d = end(a, &s, 1);
    keep(a, d, 0, a->s.bn / ACROSS, score);
    keep(a, d, fresh, a->s.v.part / ACROSS, a->mean);
}

void fa_end_means(struct fa *a)
{
    struct statement s = begin(a, 0, &a->s.v, a->mean);
    s.text = "";
    keep(a, end(a, &s, 0), 0, a->s.v.part / ACROSS, a->mean);
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
