/* SPDX-License-Identifier: Apache-2.0 */
/* attention_grad.c - a gradient of attention as one kernel: attention_int.h says how it works. */
#include "compiler/cuda/attention_int.h"

#define V LLVMValueRef

/* Weights of row i, in the places of its scores, by the kernel's own stage: 0 of columns behind the last one. */
static void weigh(struct fa *a, int i, V block, V *ds, V *p)
{
    struct em *e = a->e;
    const struct em_attention_grad *g = &a->s.g;
    const struct kn_stage *s = &e->k->stages[AT_GRAD_WEIGHTS];
    V *const to[2] = {ds, p};
    int n = fa_keys(a);
    fa_bind_row(a, fa_own_row(a, i));
    for (int j = 0; j < n; j++) {
        V inside = fa_bind_column(a, j, block);
        em_forget(e, s->first, s->last);
        e->value[g->dot[0]] = fa_get(a, a->score[i * n + j]);
        e->value[g->dot[1]] = fa_get(a, a->score2[i * n + j]);
        for (int x = 0; x < 2; x++) {
            if (g->sum[x] < 0)
                continue;
            em_insn_needed(e, g->weight[x]);
            V v = e->value[g->weight[x]];
            to[x][i * n + j] = inside ? LLVMBuildSelect(e->b, inside, v, em_fp(e->t_f32, 0), "") : v;
        }
        e->value[g->dot[0]] = e->value[g->dot[1]] = NULL;
        em_forget(e, s->first, s->last);
    }
}

/* The first column that a row of the tile sees, from a block's start on; the end of those that one sees. */
static void range(struct fa *a, V *from, V *to)
{
    struct em *e = a->e;
    V step = em_i64(e, a->s.bn);
    *from = em_i64(e, 0);
    *to = a->keys;
    if (a->s.g.from) {
        fa_bind_row(a, em_i64(e, 0));
        V first = em_expr(e, a->s.g.from);
        *from = LLVMBuildSub(e->b, first, LLVMBuildURem(e->b, first, step, ""), "");
    }
    if (a->s.g.to) {
        fa_bind_row(a, em_i64(e, FA_ROWS));
        *to = em_intrinsic(e, "llvm.smin", 1, &e->t_i64, 2, (V[]){*to, em_expr(e, a->s.g.to)});
    }
}

static void columns(struct fa *a, V from, V to)
{
    struct em *e = a->e;
    V ds[FA_MAX_R * FA_MAX_C], p[FA_MAX_R * FA_MAX_C];
    struct em_loop l;
    em_loop_begin(e, &l, from, to, em_i64(e, a->s.bn), "columns");
    V next = LLVMBuildAdd(e->b, l.iv, em_i64(e, a->s.bn), "");
    fa_arrived(a);
    a->s.engine->scores(a, &a->s.q, &a->s.k, a->score);
    a->s.engine->scores(a, &a->s.dy, &a->s.v, a->score2);
    for (int i = 0; i < a->s.engine->r; i++)
        weigh(a, i, l.iv, ds, p);
    if (a->s.g.sum[1] >= 0)
        a->s.engine->means(a, &a->s.v, p, a->mean2);
    cuda_barrier(e);
    fa_bring(a, &a->s.v, next, a->keys);
    if (a->s.g.sum[0] >= 0)
        a->s.engine->means(a, &a->s.k, ds, a->mean);
    cuda_barrier(e);
    fa_bring(a, &a->s.k, next, a->keys);
    em_loop_end(e, &l);
}

void fa_gradient_tile(struct fa *a)
{
    struct em *e = a->e;
    V from, to;
    range(a, &from, &to);
    fa_bring(a, &a->s.q, a->first, a->rows);
    fa_bring(a, &a->s.dy, a->first, a->rows);
    struct em_if some; /* no columns: none to bring */
    em_if_begin(e, &some, LLVMBuildICmp(e->b, LLVMIntSLT, from, to, ""));
    fa_bring(a, &a->s.k, from, a->keys);
    fa_bring(a, &a->s.v, from, a->keys);
    em_if_end(e, &some);
    fa_clear(a, a->mean, a->s.engine->r * fa_columns(a, &a->s.k));
    fa_clear(a, a->mean2, a->s.engine->r * fa_columns(a, &a->s.v));
    columns(a, from, to);
    const struct fa_side *side[2] = {&a->s.k, &a->s.v};
    for (int i = 0; i < 2; i++) {
        if (a->s.g.sum[i] < 0)
            continue;
        fa_arrived(a);
        fa_hand_over(a, side[i], i ? a->mean2 : a->mean);
        cuda_barrier(e);
        fa_finish(a, a->s.g.last[i], a->s.g.sum[i], side[i]);
    }
    cuda_barrier(e);
}
