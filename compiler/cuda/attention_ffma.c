/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_ffma.c - attention's products in float32, by multiply-adds. A thread has rows rg, rg + 4, .. of its warp's
 * 16, rg its lane div 8, keys cg, cg + 8, .., and columns cg * 4 .. + 3 of every 32, cg its lane mod 8. Rows of shared
 * memory are padded so that the addresses of eight lanes, of 16 bytes each, lie in different banks.
 */
#include "compiler/cuda/attention_int.h"

#define V LLVMValueRef
enum { R = 4, ACROSS = 8, TOGETHER = 4, KEYS = 32, WIDE = 128 };

static V across(struct fa *a)
{
    return LLVMBuildAnd(a->e->b, a->lane, em_i64(a->e, ACROSS - 1), "");
}

static V row(struct fa *a, int i)
{
    struct em *e = a->e;
    return LLVMBuildAdd(e->b, LLVMBuildLShr(e->b, a->lane, em_i64(e, 3), ""), em_i64(e, (int64_t)4 * i), "");
}

static V key(struct fa *a, int j)
{
    return LLVMBuildAdd(a->e->b, across(a), em_i64(a->e, (int64_t)ACROSS * j), "");
}

static V column(struct fa *a, int j)
{
    struct em *e = a->e;
    V four = LLVMBuildMul(e->b, across(a), em_i64(e, TOGETHER), "");
    return LLVMBuildAdd(e->b, four, em_i64(e, (int64_t)j / TOGETHER * ACROSS * TOGETHER + j % TOGETHER), "");
}

static int keys(int widest, bool gradient)
{
    (void)gradient;
    return widest > WIDE ? KEYS / 4 : KEYS;
}

static void layout(struct fa_side *s, int width, bool summed)
{
    s->columns = summed ? (width + 31) / 32 * 32 : (width + 7) / 8 * 8;
    s->pitch = s->columns + 4;
}

static V four(struct fa *a, V at)
{
    V v = LLVMBuildLoad2(a->e->b, em_vec(a->e->t_f32, 4), at, "");
    LLVMSetAlignment(v, 16);
    return v;
}

static V part(struct fa *a, V v, int i)
{
    return LLVMBuildExtractElement(a->e->b, v, em_i64(a->e, i), "");
}

static void add_product(struct fa *a, V slot, V x, V y)
{
    LLVMBuildStore(a->e->b, em_fma(a->e, x, y, fa_get(a, slot)), slot);
}

static void scores(struct fa *a, const struct fa_side *q, const struct fa_side *k, V *score)
{
    struct em *e = a->e;
    struct em_loop l;
    V rows[R];
    int n = fa_keys(a);
    for (int i = 0; i < R * n; i++)
        LLVMBuildStore(e->b, em_fp(e->t_f32, 0), score[i]);
    em_loop_begin(e, &l, em_below(e, em_i64(e, q->columns)), em_i64(e, 4), "d");
    for (int i = 0; i < R; i++)
        rows[i] = four(a, fa_place(a, q, fa_own_row(a, i), l.iv));
    for (int j = 0; j < n; j++) {
        V row_of_k = four(a, fa_place(a, k, key(a, j), l.iv));
        for (int x = 0; x < 4; x++)
            for (int i = 0; i < R; i++) {
                V right = part(a, row_of_k, x);
                add_product(a, score[i * n + j], part(a, rows[i], x), right);
            }
    }
    cuda_loop_end(e, &l); /* of more steps at once ptxas would have all rows in registers first, and spill others */
}

/* Weights go through shared memory: other lanes of the warp have what a lane needs of them. */
static void means(struct fa *a, const struct fa_side *v, V *p, V *mean)
{
    struct em *e = a->e;
    struct em_loop l;
    int n = v->part / ACROSS, own = fa_keys(a);
    V weights[R];
    for (int i = 0; i < R; i++)
        for (int j = 0; j < own; j++) {
            V right = key(a, j);
            LLVMBuildStore(e->b, p[i * own + j], fa_shared(a, a->s.weights, fa_own_row(a, i), right, a->s.pitch_p, 4));
        }
    cuda_warp_barrier(e);
    em_loop_begin(e, &l, em_below(e, em_i64(e, a->s.bn)), em_i64(e, 4), "t");
    for (int i = 0; i < R; i++)
        weights[i] = four(a, fa_shared(a, a->s.weights, fa_own_row(a, i), l.iv, a->s.pitch_p, 4));
    for (int x = 0; x < 4; x++)
        for (int j = 0; j < n; j += TOGETHER) {
            V t = LLVMBuildAdd(e->b, l.iv, em_i64(e, x), "");
            V at = v->apart ? column(a, j) : fa_of_part(a, v, column(a, j));
            V values = four(a, fa_place(a, v, t, at));
            for (int i = 0; i < R; i++)
                for (int c = 0; c < TOGETHER; c++) {
                    V second = part(a, values, c);
                    add_product(a, mean[i * n + j + c], part(a, weights[i], x), second);
                }
        }
    cuda_loop_end(e, &l);
    cuda_warp_barrier(e);
}

const struct fa_engine fa_ffma = {.r = R,
                                  .across = ACROSS,
                                  .row = row,
                                  .key = key,
                                  .column = column,
                                  .together = TOGETHER,
                                  .keys = keys,
                                  .layout = layout,
                                  .place = fa_place,
                                  .widest_ring = WIDE,
                                  .pad_p = 8,
                                  .least = 8,
                                  .scores = scores,
                                  .means = means};
