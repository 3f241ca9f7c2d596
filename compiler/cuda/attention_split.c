/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_split.c - attention whose keys come in pieces, each a block's. A piece leaves in scratch, for each row of
 * its tile, the mean that it has so far, not yet divided, its weights' sum and its maximum:
 *
 *     means[piece][tile][row][e], sums[piece][tile][row], tops[piece][tile][row]              a tile's rows, floats
 *
 * The second function, SYMBOL_sum, takes an element of the result a thread: the largest maximum, means and sums times
 * exp(their own - it), in the pieces' order; then the kernel's last stages.
 */
#include "compiler/cuda/attention_int.h"

#include "compiler/cuda/contract_int.h"

#define V LLVMValueRef

static int64_t width(const struct fa *a)
{
    return ir_const_or(a->e->k->dims[a->s.r.e].extent, 0);
}

/* Row `row` of a tile in a piece, of all; in elements of the sums. */
static V place(struct fa *a, V piece, V tile, V row)
{
    struct em *e = a->e;
    V at = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, piece, a->f->tiles, ""), tile, "");
    return LLVMBuildAdd(e->b, LLVMBuildMul(e->b, at, em_i64(e, a->s.rows), ""), row, "");
}

/* Address of element `column` of the means, or of the sum (0) or maximum (1) there. */
static V mean_at(struct fa *a, V at, V column)
{
    struct em *e = a->e;
    return ct_at(e, e->scratch, LLVMBuildAdd(e->b, LLVMBuildMul(e->b, at, em_i64(e, width(a)), ""), column, ""), 4);
}

static V sum_at(struct fa *a, V at, int which)
{
    struct em *e = a->e;
    V all = LLVMBuildMul(e->b, a->f->tiles, em_i64(e, (int64_t)a->s.rows * a->f->s.split), "");
    V behind = LLVMBuildMul(e->b, all, em_i64(e, width(a) + which), "");
    return ct_at(e, e->scratch, LLVMBuildAdd(e->b, behind, at, ""), 4);
}

void fa_begin_pieces(struct fa *a)
{
    struct em *e = a->e;
    V split = em_i64(e, a->f->s.split);
    a->piece = LLVMBuildURem(e->b, a->f->unit, split, "piece");
    e->first = LLVMBuildUDiv(e->b, a->f->unit, split, "");
    e->tile_step = LLVMBuildUDiv(e->b, a->f->units, split, "");
}

void fa_piece(struct fa *a, V *from, V *to)
{
    struct em *e = a->e;
    int64_t keys = ir_const_or(e->k->dims[a->s.col].extent, 0), split = a->f->s.split;
    int64_t own = (keys + split - 1) / split, step = (own + a->s.bn - 1) / a->s.bn * a->s.bn;
    *from = LLVMBuildMul(e->b, a->piece, em_i64(e, step), "");
    V end = LLVMBuildAdd(e->b, *from, em_i64(e, step), "");
    *to = em_least(e, *to, end);
}

void fa_keep_piece(struct fa *a)
{
    struct em *e = a->e;
    struct em_loop l;
    V columns = fa_part(a, &a->s.v), rows = LLVMBuildSub(e->b, a->rows, a->first, "");
    em_loop_begin(e, &l, em_range(e, a->f->thread, LLVMBuildMul(e->b, rows, columns, "")), em_i64(e, a->s.threads),
                  "kept");
    V row = LLVMBuildUDiv(e->b, l.iv, columns, ""), column = LLVMBuildURem(e->b, l.iv, columns, "");
    V at = place(a, a->piece, a->head, row);
    V right = mean_at(a, at, fa_of_part(a, &a->s.v, column));
    LLVMBuildStore(e->b, fa_get(a, fa_shared(a, 0, row, column, a->s.pitch_out, 4)), right);
    struct em_if one;
    em_if_begin(e, &one, LLVMBuildICmp(e->b, LLVMIntEQ, column, em_i64(e, 0), ""));
    for (int i = 0; i < 2; i++) {
        V second = sum_at(a, at, i);
        LLVMBuildStore(e->b, fa_get(a, fa_sum_place(a, row, i)), second);
    }
    em_if_end(e, &one);
    em_loop_end(e, &l);
}

/* The tile and the row in it of outer point `point`, whose dims are bound. */
static V bind_point(struct fa *a, V point, V *row)
{
    struct em *e = a->e;
    V tile = em_i64(e, 0), along = em_i64(e, 1);
    *row = em_i64(e, 0);
    for (int i = em_nouter(e->k) - 1; i >= 0; i--) {
        V extent = em_extent(e, i), index = LLVMBuildURem(e->b, point, extent, "");
        point = LLVMBuildUDiv(e->b, point, extent, "");
        em_bind(e, e->k->dims[i].var, index);
        if (i == a->s.row) {
            *row = LLVMBuildURem(e->b, index, em_i64(e, a->s.rows), "");
            index = LLVMBuildUDiv(e->b, index, em_i64(e, a->s.rows), "");
            extent = LLVMBuildAdd(e->b, extent, em_i64(e, a->s.rows - 1), "");
            extent = LLVMBuildUDiv(e->b, extent, em_i64(e, a->s.rows), "");
        }
        tile = LLVMBuildAdd(e->b, tile, LLVMBuildMul(e->b, index, along, ""), "");
        along = LLVMBuildMul(e->b, along, extent, "");
    }
    return tile;
}

void cuda_emit_attention_sum(struct cuda_fn *f)
{
    struct em *e = f->e;
    struct fa a = {.f = f, .e = e};
    struct em_loop l;
    cuda_attention_shape(e->ctx, e->k, &a.s);
    f->tiles = em_expr(e, em_tile_count(e->ctx, e->k));
    const struct kn_attention *r = &a.s.r;
    V results = em_i64(e, width(&a)), threads = em_i64(e, f->s.threads), tops[64], at[64], row;
    for (int i = 0; i < em_nouter(e->k); i++)
        results = LLVMBuildMul(e->b, results, em_extent(e, i), "");
    V first = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, f->block, threads, ""), f->thread, "");
    LLVMValueRef step = LLVMBuildMul(e->b, f->blocks, threads, "");
    em_loop_begin(e, &l, em_range(e, first, results), step, "result");
    V column = LLVMBuildURem(e->b, l.iv, em_i64(e, width(&a)), "");
    V tile = bind_point(&a, LLVMBuildUDiv(e->b, l.iv, em_i64(e, width(&a)), ""), &row), top = NULL, sum = NULL,
      mean = NULL;
    for (int p = 0; p < f->s.split; p++) {
        at[p] = place(&a, em_i64(e, p), tile, row);
        tops[p] = fa_get(&a, sum_at(&a, at[p], 1));
        top = top ? fa_larger(e, top, tops[p]) : tops[p];
    }
    for (int p = 0; p < f->s.split; p++) {
        V less = fa_exponential(e, LLVMBuildFSub(e->b, tops[p], top, ""));
        V own_sum = LLVMBuildFMul(e->b, fa_get(&a, sum_at(&a, at[p], 0)), less, "");
        V own_mean = LLVMBuildFMul(e->b, fa_get(&a, mean_at(&a, at[p], column)), less, "");
        sum = sum ? LLVMBuildFAdd(e->b, sum, own_sum, "") : own_sum;
        mean = mean ? LLVMBuildFAdd(e->b, mean, own_mean, "") : own_mean;
    }
    fa_bind(&a, r->e, column);
    const int stages[] = {r->last, r->lse};
    for (int i = 0; i < 2 && stages[i] >= 0; i++) {
        const struct kn_stage *s = &e->k->stages[stages[i]];
        struct em_if one; /* the logarithms: once a row */
        if (i)
            em_if_begin(e, &one, LLVMBuildICmp(e->b, LLVMIntEQ, column, em_i64(e, 0), ""));
        em_forget(e, 0, e->k->ninsns);
        e->value[r->sum] = sum;
        e->value[r->mean] = mean;
        e->value[r->clamped] = top;
        em_insns(e, s->first, s->last);
        em_forget(e, 0, e->k->ninsns);
        if (i)
            em_if_end(e, &one);
    }
    em_loop_end(e, &l);
}

static int64_t width_of(struct ir_ctx *ctx, const struct kn_kernel *k)
{
    struct fa_shape s;
    return cuda_attention_shape(ctx, k, &s) ? ir_const_or(k->dims[s.r.e].extent, 0) : 0;
}

ir_expr cuda_attention_scratch(struct ir_ctx *ctx, const struct kn_kernel *k, int split)
{
    struct fa_shape s;
    int rows = cuda_attention_shape(ctx, k, &s) ? s.rows : 0;
    return ir_mulc(ctx, em_tile_count(ctx, k), 4 * rows * split * (width_of(ctx, k) + 2));
}

ir_expr cuda_attention_results(struct ir_ctx *ctx, const struct kn_kernel *k, ir_expr rows)
{
    return ir_mulc(ctx, rows, width_of(ctx, k));
}
