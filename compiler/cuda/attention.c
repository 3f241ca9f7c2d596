/* SPDX-License-Identifier: Apache-2.0 */
/* attention.c - attention as one kernel: what the engines share. attention_int.h says how it works. */
#include "compiler/cuda/attention_int.h"

#include <float.h>
#include <math.h>

#include "compiler/cuda/contract_int.h"

#define V LLVMValueRef
enum { VECTOR = 4 }; /* results that a thread stores at once */
/* -- Small things -------------------------------------------------------------------------------------------------- */

V fa_shared(struct fa *a, int64_t at, V row, V column, int pitch, int bytes)
{
    struct em *e = a->e;
    V index = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, row, em_i64(e, pitch), ""), column, "");
    return ct_at(e, ct_at(e, a->pool, em_i64(e, at), 1), index, bytes);
}

V fa_get(struct fa *a, V slot)
{
    return LLVMBuildLoad2(a->e->b, a->e->t_f32, slot, "");
}

V fa_larger(struct em *e, V x, V y)
{
    return em_intrinsic(e, "llvm.maxnum", 1, &e->t_f32, 2, (V[]){x, y});
}

V fa_place(struct fa *a, const struct fa_side *s, V row, V column)
{
    int bytes = tcc_dtype_bytes(a->s.dtype);
    V at = fa_shared(a, s->at, row, column, s->pitch, bytes);
    return s->buffer ? ct_at(a->e, at, s->buffer, 1) : at;
}

V fa_power(struct em *e, V x)
{
    return em_intrinsic(e, "llvm.nvvm.ex2.approx.ftz.f", 0, NULL, 1, &x);
}

/* e^x to about 2 units in the last place: x is a difference of a score and the row's largest. */
V fa_exponential(struct em *e, V x)
{
    return fa_power(e, LLVMBuildFMul(e->b, x, em_fp(e->t_f32, FA_LOG2_E), ""));
}

void fa_bind(struct fa *a, int dim, V v)
{
    if (dim >= 0)
        em_bind(a->e, a->e->k->dims[dim].var, v);
}

void fa_bind_row(struct fa *a, V row)
{
    fa_bind(a, a->s.row, cuda_below(a->e, LLVMBuildAdd(a->e->b, a->first, row, ""), a->rows));
}

/* -- Softmax ------------------------------------------------------------------------------------------------------- */

int fa_keys(const struct fa *a)
{
    return a->s.bn / a->s.engine->across;
}

int fa_columns(const struct fa *a, const struct fa_side *s)
{
    return s->part / a->s.engine->across;
}

static V over_row(struct fa *a, V v, V (*combine)(struct em *e, V x, V y))
{
    for (int distance = 1; distance < a->s.engine->across; distance *= 2)
        v = combine(a->e, v, cuda_shuffle_xor(a->e, v, distance));
    return v;
}

static V sum_of(struct em *e, V x, V y)
{
    return LLVMBuildFAdd(e->b, x, y, "");
}

V fa_own_row(struct fa *a, int i)
{
    struct em *e = a->e;
    V row = a->s.engine->row(a, i);
    return LLVMBuildAdd(e->b, LLVMBuildMul(e->b, a->warp, em_i64(e, 16), ""), row, "");
}

V fa_bind_column(struct fa *a, int j, V block)
{
    struct em *e = a->e;
    V key = LLVMBuildAdd(e->b, block, a->s.engine->key(a, j), "");
    int64_t nt = 0;
    bool whole = a->full || (ir_is_const(e->k->dims[a->s.col].extent, &nt) && nt % a->s.bn == 0);
    fa_bind(a, a->s.col, whole ? key : cuda_below(e, key, a->keys));
    return whole ? NULL : LLVMBuildICmp(e->b, LLVMIntSLT, key, a->keys, "");
}

/* Scaled and masked: the kernel's own stage at one row and key. Plain scores: masked alone. */
static V masked(struct fa *a, int i, int j, V block)
{
    struct em *e = a->e;
    const struct kn_score *is = a->s.is;
    const struct kn_stage *s = &e->k->stages[kn_stage_of(e->k, is->score)];
    V inside = fa_bind_column(a, j, block), v = fa_get(a, a->score[i * fa_keys(a) + j]);
    em_forget(e, s->first, s->last);
    e->value[a->s.r.dot] = v;
    if (is->compare >= 0 && a->full)
        e->value[is->compare] = LLVMConstInt(e->t_i1, 1, 0);
    if (!a->s.plain) {
        em_insn_needed(e, is->score);
        v = e->value[is->score];
    } else if (is->compare >= 0) {
        em_insn_needed(e, is->compare);
        v = LLVMBuildSelect(e->b, e->value[is->compare], v, em_fp(e->t_f32, -INFINITY), "");
    }
    e->value[a->s.r.dot] = NULL;
    em_forget(e, s->first, s->last);
    return inside ? LLVMBuildSelect(e->b, inside, v, em_fp(e->t_f32, -INFINITY), "") : v;
}

/* The maximum in powers of two, bounded: a row may have seen nothing but -inf so far. */
static V exponent(struct fa *a, V top)
{
    struct em *e = a->e;
    V bounded = fa_larger(e, top, em_fp(e->t_f32, -FLT_MAX / 4));
    return LLVMBuildFMul(e->b, bounded, em_fp(e->t_f32, FA_LOG2_E), "");
}

/* All of x in pairs, pairs of pairs, .. */
static V fold(struct em *e, V *x, int n, V (*combine)(struct em *e, V x, V y))
{
    if (n == 1)
        return x[0];
    V right = fold(e, x + n / 2, n - n / 2, combine);
    return combine(e, fold(e, x, n / 2, combine), right);
}

/* p of row i, in the places of its scores; how much smaller its means get. exp(x scale - top) is 2^(x scale log2 e -
 * top log2 e) in one multiply-add; what rounding top log2 e does, it does to all weights of the row. */
V fa_weigh(struct fa *a, int i, V block, V *p)
{
    struct em *e = a->e;
    int n = fa_keys(a);
    bool plain = a->s.plain;
    V old = fa_get(a, a->top[i]), less;
    fa_bind_row(a, fa_own_row(a, i));
    for (int j = 0; j < n; j++)
        p[i * n + j] = masked(a, i, j, block);
    V top = over_row(a, fold(e, p + (ptrdiff_t)i * n, n, fa_larger), fa_larger);
    if (plain)
        top = LLVMBuildFMul(e->b, top, em_fp(e->t_f32, a->s.scale), "");
    top = fa_larger(e, old, top);
    LLVMBuildStore(e->b, top, a->top[i]);
    if (plain) {
        V power = exponent(a, top), minus = LLVMBuildFNeg(e->b, power, "");
        V scale = em_fp(e->t_f32, a->s.scale * FA_LOG2_E);
        for (int j = 0; j < n; j++)
            p[i * n + j] = fa_power(e, em_fma(e, p[i * n + j], scale, minus));
        less = fa_power(e, LLVMBuildFSub(e->b, exponent(a, old), power, ""));
    } else {
        for (int j = 0; j < n; j++)
            p[i * n + j] = fa_exponential(e, LLVMBuildFSub(e->b, p[i * n + j], top, ""));
        less = fa_exponential(e, LLVMBuildFSub(e->b, old, top, ""));
    }
    V sum = fold(e, p + (ptrdiff_t)i * n, n, sum_of);
    LLVMBuildStore(e->b, LLVMBuildFAdd(e->b, LLVMBuildFMul(e->b, fa_get(a, a->sum[i]), less, ""), sum, ""), a->sum[i]);
    return less;
}

void fa_scale_means(struct fa *a, int i, V by)
{
    for (int j = 0; j < fa_columns(a, &a->s.v); j++) {
        V at = a->mean[i * fa_columns(a, &a->s.v) + j];
        LLVMBuildStore(a->e->b, LLVMBuildFMul(a->e->b, fa_get(a, at), by, ""), at);
    }
}

/* -- A tile -------------------------------------------------------------------------------------------------------- */

V fa_of_part(struct fa *a, const struct fa_side *s, V column)
{
    return s->base ? LLVMBuildAdd(a->e->b, s->base, column, "") : column;
}

V fa_part(struct fa *a, const struct fa_side *s)
{
    struct em *e = a->e;
    V all = em_extent(e, s->col);
    if (!s->base)
        return all;
    return em_least(e, LLVMBuildSub(e->b, all, s->base, ""), em_i64(e, s->part));
}

/* A side that has fewer parts than another, or a last one that is short: a pass sums again what there is. */
static void begin_part(struct fa *a, struct fa_side *s, V pass)
{
    struct em *e = a->e;
    V at = LLVMBuildMul(e->b, pass, em_i64(e, s->part), "");
    s->base = s->apart ? at : em_least(e, at, em_i64(e, s->columns - s->part));
}

/* Runs the tile once for each part of the columns that are summed. */
static void fa_each_pass(struct fa *a, void (*run)(struct fa *a))
{
    struct em *e = a->e;
    struct em_loop l;
    if (a->s.passes == 1) {
        run(a);
        return;
    }
    em_loop_begin(e, &l, em_below(e, em_i64(e, a->s.passes)), em_i64(e, 1), "pass");
    if (a->s.k.part)
        begin_part(a, &a->s.k, l.iv);
    begin_part(a, &a->s.v, l.iv);
    run(a);
    cuda_loop_end(e, &l);
    a->s.k.base = a->s.v.base = NULL;
}

void fa_clear(struct fa *a, V *slots, int n)
{
    for (int i = 0; i < n; i++)
        LLVMBuildStore(a->e->b, em_fp(a->e->t_f32, 0), slots[i]);
}

static void key_block(struct fa *a, V at)
{
    V p[FA_MAX_R * FA_MAX_C];
    a->s.engine->scores(a, &a->s.q, &a->s.k, a->score);
    for (int i = 0; i < a->s.engine->r; i++)
        fa_scale_means(a, i, fa_weigh(a, i, at, p));
    if (a->s.r.mean >= 0)
        a->s.engine->means(a, &a->s.v, p, a->mean);
}

void fa_hand_over(struct fa *a, const struct fa_side *s, V *mean)
{
    struct em *e = a->e;
    int n = fa_columns(a, s), together = a->s.engine->together;
    for (int i = 0; i < a->s.engine->r; i++)
        for (int j = 0; j < n; j += together) {
            V v = LLVMGetPoison(em_vec(e->t_f32, together));
            for (int x = 0; x < together; x++)
                v = LLVMBuildInsertElement(e->b, v, fa_get(a, mean[i * n + j + x]), em_i64(e, x), "");
            V column = a->s.engine->column(a, j);
            V to = fa_shared(a, 0, fa_own_row(a, i), column, a->s.pitch_out, 4);
            LLVMSetAlignment(LLVMBuildStore(e->b, v, to), (unsigned)(4 * together));
        }
}

/* Where the sum of a row's weights is on its way out, or (1) its maximum. */
V fa_sum_place(struct fa *a, V row, int which)
{
    return fa_shared(a, (int64_t)4 * a->s.rows * (a->s.pitch_out + which), em_i64(a->e, 0), row, 0, 4);
}

/* The sums too, and the rows' logarithms, which the threads store that have both. */
static void hand_over_sums(struct fa *a)
{
    struct em *e = a->e;
    const struct kn_attention *r = &a->s.r;
    for (int i = 0; i < a->s.engine->r; i++) {
        V row = fa_own_row(a, i), sum = over_row(a, fa_get(a, a->sum[i]), sum_of);
        struct em_if one; /* of the threads that share the row */
        em_if_begin(e, &one, LLVMBuildICmp(e->b, LLVMIntEQ, a->s.engine->key(a, 0), em_i64(e, 0), ""));
        LLVMBuildStore(e->b, sum, fa_sum_place(a, row, 0));
        if (a->piece) {
            V at = fa_sum_place(a, row, 1);
            LLVMBuildStore(e->b, fa_get(a, a->top[i]), at);
        }
        em_if_end(e, &one);
        if (r->lse < 0 || a->piece)
            continue;
        V there = LLVMBuildICmp(e->b, LLVMIntSLT, LLVMBuildAdd(e->b, a->first, row, ""), a->rows, "");
        V first = LLVMBuildICmp(e->b, LLVMIntEQ, a->s.engine->key(a, 0), em_i64(e, 0), "");
        em_if_begin(e, &one, LLVMBuildAnd(e->b, there, first, ""));
        fa_bind_row(a, row);
        em_forget(e, 0, e->k->ninsns);
        e->value[r->sum] = sum;
        e->value[r->clamped] = fa_get(a, a->top[i]);
        em_insns(e, e->k->stages[r->lse].first, e->k->stages[r->lse].last);
        em_forget(e, 0, e->k->ninsns);
        em_if_end(e, &one);
    }
}

/* Results that a thread stores at once in that stage; align: as cuda_twice() has it, or NULL. */
static int together(struct fa *a, int stage, const struct fa_side *side, int *align)
{
    const struct kn_kernel *k = a->e->k;
    const struct kn_stage *s = &k->stages[stage];
    bool all = a->s.passes == 1;
    for (int i = s->first; i < s->last; i++)
        all = all && (k->insns[i].code != KN_STORE || cuda_load_width(a->e->ctx, k, i, side->col, VECTOR) == VECTOR);
    for (int i = s->first; i < s->last && all && align; i++)
        if (k->insns[i].code == KN_STORE)
            align[k->insns[i].operand] =
                VECTOR * tcc_dtype_bytes((enum tcc_dtype)k->operands[k->insns[i].operand].dtype);
    return all ? VECTOR : 1;
}

void fa_finish(struct fa *a, int stage, int id, const struct fa_side *side)
{
    struct em *e = a->e;
    const struct kn_stage *s = &e->k->stages[stage];
    struct em_loop l;
    int n = a->wide ? together(a, stage, side, NULL) : 1;
    V width = LLVMBuildUDiv(e->b, fa_part(a, side), em_i64(e, n), ""), rows = LLVMBuildSub(e->b, a->rows, a->first, "");
    em_loop_begin(e, &l, em_range(e, a->f->thread, LLVMBuildMul(e->b, rows, width, "")), em_i64(e, a->s.threads),
                  "result");
    V row = LLVMBuildUDiv(e->b, l.iv, width, ""), column = LLVMBuildURem(e->b, l.iv, width, "");
    column = LLVMBuildMul(e->b, column, em_i64(e, n), "");
    fa_bind_row(a, row);
    fa_bind(a, side->col, fa_of_part(a, side, column));
    if (n > 1)
        em_set_lanes(e, e->k->dims[side->col].var, n, NULL);
    em_forget(e, 0, e->k->ninsns);
    if (!a->s.gradient)
        e->value[a->s.r.sum] = fa_get(a, fa_sum_place(a, row, 0));
    V v = LLVMBuildLoad2(e->b, em_vec(e->t_f32, n), fa_shared(a, 0, row, column, a->s.pitch_out, 4), "");
    LLVMSetAlignment(v, (unsigned)(4 * n));
    e->value[id] = v;
    em_insns(e, s->first, s->last);
    em_set_lanes(e, NULL, 1, NULL);
    em_forget(e, 0, e->k->ninsns);
    em_loop_end(e, &l);
}

/* The tile's outer dims, rows and columns. */
static void fa_begin_tile(struct fa *a, const struct em_tiles *t)
{
    struct em *e = a->e;
    for (int i = 0; i < em_nouter(e->k); i++)
        em_bind(e, e->k->dims[i].var, t->at[i].lo);
    int row = a->s.row;
    a->first = row < 0 ? em_i64(e, 0) : t->at[row].lo;
    a->rows = row < 0 ? em_i64(e, 1) : t->at[row].hi;
    a->keys = em_extent(e, a->s.col);
}

void fa_key_range(struct fa *a, V *from, V *all_see, V *to)
{
    struct em *e = a->e;
    V nkeys = a->keys, seen = nkeys;
    int64_t all;
    *from = em_i64(e, 0);
    if (a->s.to) { /* of the tile's last row, and of its first */
        fa_bind_row(a, em_i64(e, a->s.rows));
        nkeys = em_least(a->e, nkeys, em_expr(e, a->s.to));
        fa_bind_row(a, em_i64(e, 0));
        seen = em_least(a->e, seen, em_expr(e, a->s.to));
    }
    if (a->piece)
        fa_piece(a, from, &nkeys);
    seen = em_most(a->e, *from, em_least(a->e, fa_round(a, seen, false), nkeys));
    if (!a->s.to && ir_is_const(e->k->dims[a->s.col].extent, &all) && all % a->s.bn == 0)
        seen = nkeys;
    *all_see = seen;
    *to = nkeys;
}

void fa_begin_rows(struct fa *a)
{
    struct em *e = a->e;
    fa_bring(a, &a->s.q, a->first, a->rows);
    for (int i = 0; i < a->s.engine->r; i++)
        LLVMBuildStore(e->b, em_fp(e->t_f32, -FLT_MAX), a->top[i]);
    fa_clear(a, a->sum, a->s.engine->r);
    fa_clear(a, a->mean, a->s.engine->r * fa_columns(a, &a->s.v));
}

static void forward_tile(struct fa *a)
{
    V from, seen, to;
    fa_key_range(a, &from, &seen, &to);
    fa_begin_rows(a);
    fa_columns_in(a, from, from, seen, to, key_block);
    fa_end_rows(a);
}

void fa_end_rows(struct fa *a)
{
    fa_arrived(a);
    hand_over_sums(a);
    if (a->s.r.mean >= 0) {
        fa_hand_over(a, &a->s.v, a->mean);
        fa_barrier(a);
        if (a->piece)
            fa_keep_piece(a);
        else
            fa_finish(a, a->s.r.last, a->s.r.mean, &a->s.v);
    }
    fa_barrier(a);
}

void fa_each_tile(struct fa *a, void (*run)(struct fa *a))
{
    struct em_tiles t;
    em_tiles_begin(a->e, &t);
    fa_begin_tile(a, &t);
    a->head = a->piece ? t.loop.iv : NULL;
    fa_each_pass(a, run);
    em_tiles_end(a->e, &t);
}

/* -- The kernel ---------------------------------------------------------------------------------------------------- */

/* All of it, where `wide` says that vectors lie at multiples of their bytes. */
static void emit(void *user, bool wide)
{
    struct fa a = *(struct fa *)user;
    struct fa_side *side[4];
    int n = fa_sides(&a.s, side);
    for (int i = 0; i < n; i++)
        side[i]->width = wide ? side[i]->width : 1;
    a.wide = wide;
    a.e->aligned = true;
    fa_each_tile(&a, a.s.gradient ? fa_gradient_tile : forward_tile);
}

static void slots(struct fa *a, V *to, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = em_alloca(a->e, a->e->t_f32, 1, 4);
}

void cuda_emit_attention(struct cuda_fn *f)
{
    struct em *e = f->e;
    struct fa a = {.f = f, .e = e};
    cuda_attention_shape(e->ctx, e->k, &a.s);
    f->tiles = e->last =
        em_expr(e, em_tile_count(e->ctx, e->k)); /* other images of the artifact may have other tiles */
    a.pool = a.s.bytes > CUDA_MOST_STATIC ? cuda_launch_shared(e)
                                          : cuda_shared(e, ir_internf(e->ctx, "%s_pool", f->name), a.s.bytes, FA_ALIGN);
    if (f->s.split > 1)
        fa_begin_pieces(&a);
    a.lane = LLVMBuildURem(e->b, f->thread, em_i64(e, 32), "lane");
    a.warp = LLVMBuildUDiv(e->b, f->thread, em_i64(e, 32), "warp");
    slots(&a, a.score, a.s.engine->r * fa_keys(&a));
    slots(&a, a.mean, a.s.engine->r * fa_columns(&a, a.s.gradient ? &a.s.k : &a.s.v));
    slots(&a, a.top, a.s.engine->r);
    slots(&a, a.sum, a.s.engine->r);
    slots(&a, a.score2, a.s.gradient ? a.s.engine->r * fa_keys(&a) : 0);
    slots(&a, a.mean2, a.s.gradient ? a.s.engine->r * fa_columns(&a, &a.s.v) : 0);
    struct fa_side *side[4];
    int *align = IR_NEWN(e->ctx, e->k->noperands + 1, int), n = fa_sides(&a.s, side);
    for (int i = 0; i < n; i++)
        if (side[i]->width > 1)
            align[e->k->insns[side[i]->load].operand] = 16;
    if (a.s.gradient) {
        for (int i = 0; i < 2; i++)
            if (a.s.g.sum[i] >= 0)
                together(&a, a.s.g.last[i], i ? &a.s.v : &a.s.k, align);
    } else if (a.s.r.mean >= 0 && f->s.split == 1) {
        together(&a, a.s.r.last, &a.s.v, align);
    }
    if (a.s.sent)
        fa_emit_sent(&a, align, emit);
    else
        cuda_twice(f, align, emit, &a);
}
