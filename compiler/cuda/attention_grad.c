/* SPDX-License-Identifier: Apache-2.0 */
/* attention_grad.c - a gradient of attention as one kernel: attention_int.h says how it works. */
#include "compiler/cuda/attention_int.h"

#define V LLVMValueRef

/* Presets the weight, the stage's exponential, of a column that is bound: of plain scores 2^(x scale log2 e - lse log2
 * e) in one multiply-add. */
static void set_weight(struct fa *a)
{
    struct em *e = a->e;
    const struct kn_attention_grad *g = &a->s.g;
    if (g->is.compare >= 0 && a->full)
        e->value[g->is.compare] = LLVMConstInt(e->t_i1, 1, 0);
    if (!a->s.plain) {
        em_insn_needed(e, g->less);
        e->value[g->weight[1]] = fa_exponential(e, e->value[g->less]);
        return;
    }
    em_insn_needed(e, g->lse);
    V less = LLVMBuildFMul(e->b, e->value[g->lse], em_fp(e->t_f32, -FA_LOG2_E), "");
    V p = fa_power(e, em_fma(e, e->value[g->dot[0]], em_fp(e->t_f32, a->s.scale * FA_LOG2_E), less));
    if (g->is.compare >= 0) {
        em_insn_needed(e, g->is.compare);
        p = LLVMBuildSelect(e->b, e->value[g->is.compare], p, em_fp(e->t_f32, 0), "");
    }
    e->value[g->weight[1]] = p;
}

/* Weights of row i, in the places of its scores, by the kernel's own stage: 0 of columns behind the last one. */
static void weigh(struct fa *a, int i, V block, V *ds, V *p)
{
    struct em *e = a->e;
    const struct kn_attention_grad *g = &a->s.g;
    const struct kn_stage *s = &e->k->stages[kn_stage_of(e->k, g->less)];
    V *const to[2] = {ds, p};
    int n = fa_keys(a);
    fa_bind_row(a, fa_own_row(a, i));
    for (int j = 0; j < n; j++) {
        V inside = fa_bind_column(a, j, block);
        em_forget(e, s->first, s->last);
        e->value[g->dot[0]] = fa_get(a, a->score[i * n + j]);
        e->value[g->dot[1]] = fa_get(a, a->score2[i * n + j]);
        fa_set_vectors(a, i, j, block);
        set_weight(a);
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

/* The first column that a row of the tile sees, from a block's start on, and the end of those that one sees; blocks in
 * first..last all rows see whole. */
struct range {
    V from, first, last, to;
};
static struct range range_of(struct fa *a)
{
    struct em *e = a->e;
    struct range r = {em_i64(e, 0), NULL, fa_round(a, a->keys, false), a->keys};
    int64_t all;
    if (ir_is_const(e->k->dims[a->s.col].extent, &all) && all % a->s.bn == 0)
        r.last = a->keys;
    if (a->s.to) {
        fa_bind_row(a, em_i64(e, 0));
        r.last = em_least(a->e, r.last, fa_round(a, em_expr(e, a->s.to), false));
        fa_bind_row(a, em_i64(e, a->s.rows));
        r.to = em_least(a->e, a->keys, em_expr(e, a->s.to));
    }
    r.first = r.from;
    if (a->s.from) {
        fa_bind_row(a, em_i64(e, 0));
        r.from = fa_round(a, em_expr(e, a->s.from), false);
        fa_bind_row(a, em_i64(e, a->s.rows));
        r.first = em_least(a->e, fa_round(a, em_expr(e, a->s.from), true), r.to);
        r.last = r.last == r.to ? r.to : em_most(a->e, r.first, r.last);
    }
    return r;
}

static void columns(struct fa *a, V at)
{
    V ds[FA_MAX_R * FA_MAX_C], p[FA_MAX_R * FA_MAX_C];
    a->s.engine->scores(a, &a->s.q, &a->s.k, a->score);
    a->s.engine->scores(a, &a->s.dy, &a->s.v, a->score2);
    for (int i = 0; i < a->s.engine->r; i++)
        weigh(a, i, at, ds, p);
    if (a->s.g.sum[1] >= 0)
        a->s.engine->means(a, &a->s.v, p, a->mean2);
    if (a->s.g.sum[0] >= 0)
        a->s.engine->means(a, &a->s.k, ds, a->mean);
}

/* What the weights of the thread's rows are made of, once for all columns. */
static void load_rows(struct fa *a)
{
    struct em *e = a->e;
    for (int i = 0; i < a->s.engine->r; i++) {
        fa_bind_row(a, fa_own_row(a, i));
        for (int x = 0; x < a->s.nrow_vectors; x++) {
            struct fa_vector *v = &a->s.row_vectors[x];
            em_forget(e, 0, e->k->ninsns);
            em_insn_needed(e, v->load);
            v->of_row[i] = e->value[v->load];
        }
    }
    em_forget(e, 0, e->k->ninsns);
}

void fa_gradient_tile(struct fa *a)
{
    struct range r = range_of(a);
    fa_bring(a, &a->s.q, a->first, a->rows);
    fa_bring(a, &a->s.dy, a->first, a->rows);
    load_rows(a);
    fa_clear(a, a->mean, a->s.engine->r * fa_columns(a, &a->s.k));
    fa_clear(a, a->mean2, a->s.engine->r * fa_columns(a, &a->s.v));
    fa_columns_in(a, r.from, r.first, r.last, r.to, columns);
    const struct fa_side *side[2] = {&a->s.k, &a->s.v};
    for (int i = 0; i < 2; i++) {
        if (a->s.g.sum[i] < 0)
            continue;
        fa_arrived(a);
        fa_hand_over(a, side[i], i ? a->mean2 : a->mean);
        fa_barrier(a);
        fa_finish(a, a->s.g.last[i], a->s.g.sum[i], side[i]);
    }
    fa_barrier(a);
}
