/* SPDX-License-Identifier: Apache-2.0 */
/* attention_emit.c - code of attention kernels; attention_int.h says what it does. */
#include "compiler/cpu/attention_emit_int.h"

#include <float.h>
#include <math.h>

#include "compiler/cpu/contract_emit_int.h"
#include "compiler/emit/vmath.h"
#include "base/mutant.h"

#define MAX_ACC 64
#define MOST_VECTORS 8

static LLVMValueRef larger(struct ag *g, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildSelect(g->e->b, LLVMBuildFCmp(g->e->b, LLVMRealOGT, a, b, ""), a, b, "");
}

/* e^x for x <= 0; what is below the smallest normal number is 0: products with subnormals take a hundred cycles
 * each. */
static LLVMValueRef exponential(struct ag *g, LLVMValueRef x)
{
    struct vm m = vm_make(g->e, x);
    return vm_exp_normal(&m, x);
}

/* -- Register tiles --------------------------------------------------------------------------------------- */

struct tile {
    int cv;
    LLVMValueRef a, b; /* a[row * a_row + i], vectors b[i * b_step] */
    int64_t a_row;
    LLVMValueRef b_step;
    LLVMValueRef mask[MOST_VECTORS];
    int op_b;
    LLVMValueRef ahead; /* step i fetches key ahead + i; NULL: none */
    LLVMValueRef acc[MAX_ACC];
};

static void tile_step(struct ag *g, struct tile *t, LLVMValueRef a, LLVMValueRef b)
{
    struct em *e = g->e;
    LLVMValueRef bv[MOST_VECTORS];
    for (int c = 0; c < t->cv; c++)
        bv[c] = em_load(e, TCC_F32, ag_element(g, b, em_i64(e, (int64_t)c * g->a.lanes)), g->a.lanes, t->mask[c], NULL,
                        t->op_b);
    for (int r = 0; r < g->a.mr; r++) {
        LLVMValueRef av = em_splat(e, ag_load(g, ag_element(g, a, em_i64(e, r * t->a_row)), 1), g->a.lanes);
        for (int c = 0; c < t->cv; c++)
            t->acc[r * t->cv + c] = em_fma(e, av, bv[c], t->acc[r * t->cv + c]);
    }
}

/* Of one row, keys and values are read once, as fast as the memory gives them: while a block's keys are read its values
 * come into the cache, and while these are read, the next block's keys. `along` (d or e), from `first` on, of key `t`;
 * what lies behind the last is fetched in vain. */
static void fetch(struct ag *g, int load, ir_expr off, int along, LLVMValueRef first, LLVMValueRef t)
{
    struct em *e = g->e;
    ag_bind_dim(g, g->a.r.t, t);
    ag_bind_dim(g, along, first);
    em_prefetch(e, em_address(e, g->a.k->insns[load].operand, em_expr(e, off)), 2);
}

/* Steps [from, to), `unroll` at a time. */
static void tile_steps(struct ag *g, struct tile *t, LLVMValueRef from, LLVMValueRef to, int unroll)
{
    struct em *e = g->e;
    struct em_loop l;
    int n = g->a.mr * t->cv;
    em_loop_begin(e, &l, em_range(e, from, to), em_i64(e, unroll), "sum");
    for (int i = 0; i < n; i++)
        t->acc[i] = em_loop_carry(e, &l, t->acc[i]);
    for (int u = 0; u < unroll; u++) {
        LLVMValueRef i = u ? ag_add(g, l.iv, em_i64(e, u)) : l.iv;
        LLVMValueRef right = ag_element(g, t->b, LLVMBuildMul(e->b, i, t->b_step, ""));
        tile_step(g, t, ag_element(g, t->a, i), right);
        for (int64_t d = 0; t->ahead && d < g->a.nd; d += g->a.lanes)
            fetch(g, g->a.r.load_k, g->a.off_k, g->a.r.d, em_i64(e, d), ag_add(g, t->ahead, i));
    }
    for (int i = 0; i < n; i++)
        em_loop_next(&l, i, t->acc[i]);
    em_loop_end(e, &l);
    for (int i = 0; i < n; i++)
        t->acc[i] = l.phi[i];
}

static void tile_sum(struct ag *g, struct tile *t, LLVMValueRef n)
{
    struct em *e = g->e;
    int unroll = g->a.mr * t->cv >= 16 ? 2 : 4;
    LLVMValueRef whole = LLVMBuildAnd(e->b, n, em_i64(e, ~(int64_t)(unroll - 1)), "");
    tile_steps(g, t, em_i64(e, 0), whole, unroll);
    tile_steps(g, t, whole, n, 1);
}

/* -- One row block ---------------------------------------------------------------------------------------- */

static void block_scores(struct ag *g, LLVMValueRef row, LLVMValueRef npanels)
{
    struct em *e = g->e;
    struct em_loop l;
    int64_t panel = (int64_t)g->a.cv * g->a.lanes;
    em_loop_begin(e, &l, em_below(e, npanels), em_i64(e, 1), "panel");
    struct tile t = {.cv = g->a.cv, .a_row = g->a.nd, .b_step = em_i64(e, panel), .op_b = -1};
    LLVMValueRef right = ag_times(g, row, g->a.nd);
    t.a = ag_element(g, ag_part(g, g->at.q), right);
    LLVMValueRef second = ag_times(g, l.iv, panel * g->a.nd);
    t.b = ag_element(g, ag_part(g, g->at.keys), second);
    for (int i = 0; i < g->a.mr * t.cv; i++)
        t.acc[i] = LLVMConstNull(g->vec);
    tile_sum(g, &t, em_i64(e, g->a.nd));
    LLVMValueRef other = ag_times(g, l.iv, panel);
    LLVMValueRef to = ag_element(g, ag_part(g, g->at.scores), other);
    for (int r = 0; r < g->a.mr; r++)
        for (int c = 0; c < t.cv; c++)
            ag_store(g, ag_element(g, to, em_i64(e, (int64_t)r * g->a.block + (int64_t)c * g->a.lanes)),
                     t.acc[r * t.cv + c]);
    em_loop_end(e, &l);
}

/* Products of the row's elements [d, d + lanes) with those of `lanes` keys from `key` on, no key behind `last` (NULL:
 * there is none), added to acc. */
static void row_products(struct ag *g, LLVMValueRef key, LLVMValueRef last, LLVMValueRef d, int count,
                         LLVMValueRef *acc)
{
    struct em *e = g->e;
    LLVMValueRef mask = count < g->a.lanes ? em_tail_mask(e, em_i64(e, count), g->a.lanes) : NULL;
    LLVMValueRef q = em_load(e, TCC_F32, ag_element(g, ag_part(g, g->at.q), d), g->a.lanes, mask, NULL, -1);
    for (int j = 0; j < g->a.lanes; j++) {
        LLVMValueRef at = ag_add(g, key, em_i64(e, j));
        ag_bind_dim(g, g->a.r.t, last ? em_least(g->e, at, last) : at);
        ag_lanes_along(g, g->a.r.d, d, mask);
        acc[j] = em_fma(e, q, ag_value(g, g->a.r.val_k), acc[j]);
        ag_no_lanes(g);
        if (g->a.off_v && g->a.ne == g->a.nd)
            fetch(g, g->a.r.load_v, g->a.off_v, g->a.r.e, d, at);
    }
}

/* Scores of vectors [from, to) of the block's keys. */
static void row_score_vectors(struct ag *g, LLVMValueRef t0, LLVMValueRef from, LLVMValueRef to, LLVMValueRef last)
{
    struct em *e = g->e;
    struct em_loop l, x;
    struct cg square = {.e = e, .lanes = g->a.lanes};
    int64_t whole = g->a.nd / g->a.lanes * g->a.lanes;
    LLVMValueRef acc[16];
    em_loop_begin(e, &l, em_range(e, from, to), em_i64(e, 1), "score");
    LLVMValueRef at = ag_times(g, l.iv, g->a.lanes), key = ag_add(g, t0, at);
    for (int j = 0; j < g->a.lanes; j++)
        acc[j] = LLVMConstNull(g->vec);
    if (whole) {
        em_loop_begin(e, &x, em_below(e, em_i64(e, whole)), em_i64(e, g->a.lanes), "d");
        for (int j = 0; j < g->a.lanes; j++)
            acc[j] = em_loop_carry(e, &x, acc[j]);
        row_products(g, key, last, x.iv, g->a.lanes, acc);
        for (int j = 0; j < g->a.lanes; j++)
            em_loop_next(&x, j, acc[j]);
        em_loop_end(e, &x);
        for (int j = 0; j < g->a.lanes; j++)
            acc[j] = x.phi[j];
    }
    if (whole < g->a.nd)
        row_products(g, key, last, em_i64(e, whole), (int)(g->a.nd - whole), acc);
    cg_transpose(&square, acc);
    for (int n = g->a.lanes / 2; n; n /= 2)
        for (int j = 0; j < n; j++)
            acc[j] = LLVMBuildFAdd(e->b, acc[j], acc[j + n], "");
    ag_store(g, ag_element(g, ag_part(g, g->at.scores), at), acc[0]);
    em_loop_end(e, &l);
}

/*
 * Scores of one row with `nvectors` vectors of keys from t0 on. Keys are read where they lie, along d: panels would be
 * used once. A vector of sums a key is summed up by a transpose of as many keys as there are lanes.
 */
static void row_scores(struct ag *g, LLVMValueRef t0, LLVMValueRef nvectors)
{
    struct em *e = g->e;
    LLVMValueRef last = LLVMBuildSub(e->b, em_extent(e, g->a.r.t), em_i64(e, 1), "");
    LLVMValueRef behind = ag_add(g, LLVMBuildSub(e->b, last, t0, ""), em_i64(e, 1));
    LLVMValueRef whole = em_least(g->e, nvectors, LLVMBuildUDiv(e->b, behind, em_i64(e, g->a.lanes), ""));
    row_score_vectors(g, t0, em_i64(e, 0), whole, NULL);
    row_score_vectors(g, t0, whole, nvectors, last);
}

static LLVMValueRef score_row(struct ag *g, LLVMValueRef r)
{
    LLVMValueRef right = ag_times(g, r, g->a.block);
    return ag_element(g, ag_part(g, g->at.scores), right);
}

/* The largest lane. NaN may get lost: the weights that are made of the scores have it. */
static LLVMValueRef largest(struct ag *g, LLVMValueRef v)
{
    LLVMValueRef order[EM_MAX_LANES];
    for (int lanes = g->a.lanes; lanes > 1; lanes /= 2) {
        for (int i = 0; i < lanes; i++)
            order[i] = em_int(g->e->t_i32, (i + lanes / 2) % lanes);
        v = larger(g, v, LLVMBuildShuffleVector(g->e->b, v, v, LLVMConstVector(order, (unsigned)g->a.lanes), ""));
    }
    return LLVMBuildExtractElement(g->e->b, v, em_i64(g->e, 0), "");
}

/* Scale and mask a row's vectors [from, to) of keys, of which some are missing if `cut`; the lanes' largest, or
 * `most`. */
static LLVMValueRef mask_scores(struct ag *g, LLVMValueRef scores, LLVMValueRef t0, LLVMValueRef from, LLVMValueRef to,
                                bool cut, LLVMValueRef most)
{
    struct em *e = g->e;
    struct em_loop x;
    LLVMValueRef mask = NULL, hidden = em_fp(g->vec, -INFINITY);
    em_loop_begin(e, &x, em_range(e, from, to), em_i64(e, 1), "mask");
    most = em_loop_carry(e, &x, most);
    LLVMValueRef at = ag_times(g, x.iv, g->a.lanes), p = ag_element(g, scores, at), key = ag_add(g, t0, at);
    if (cut)
        mask = em_tail_mask(e, LLVMBuildSub(e->b, em_extent(e, g->a.r.t), key, ""), g->a.lanes);
    ag_lanes_along(g, g->a.r.t, key, mask);
    e->value[g->a.r.dot] = ag_load(g, p, g->a.lanes);
    LLVMValueRef v = ag_value(g, g->a.r.is.score);
    e->value[g->a.r.dot] = NULL;
    ag_no_lanes(g);
    if (mask)
        v = MUTANT(97, LLVMBuildSelect(e->b, mask, v, hidden, ""), v);
    ag_store(g, p, v);
    em_loop_next(&x, 0, larger(g, v, most));
    em_loop_end(e, &x);
    return x.phi[0];
}

/* Scale and mask; tops[row + r] becomes the larger one, fixes[r] the old one. */
static void block_tops(struct ag *g, LLVMValueRef row, LLVMValueRef t0, LLVMValueRef nvectors)
{
    struct em *e = g->e;
    struct em_loop l;
    bool never_cut = g->a.nt >= 0 && g->a.nt % (g->a.cv * g->a.lanes) == 0;
    LLVMValueRef whole = nvectors, begin = em_i64(e, 0), behind = LLVMBuildSub(e->b, em_extent(e, g->a.r.t), t0, "");
    if (!never_cut)
        whole = em_least(g->e, nvectors, LLVMBuildUDiv(e->b, behind, em_i64(e, g->a.lanes), ""));
    em_loop_begin(e, &l, em_range(e, begin, em_i64(e, g->a.mr)), em_i64(e, 1), "row");
    LLVMValueRef scores = score_row(g, l.iv);
    ag_bind_row(g, ag_add(g, row, l.iv));
    LLVMValueRef most = mask_scores(g, scores, t0, begin, whole, false, em_fp(g->vec, -INFINITY));
    if (!never_cut)
        most = mask_scores(g, scores, t0, whole, nvectors, true, most);
    LLVMValueRef top = largest(g, most);
    LLVMValueRef right = ag_add(g, row, l.iv);
    LLVMValueRef kept = ag_element(g, ag_part(g, g->at.tops), right);
    LLVMValueRef old = ag_load(g, kept, 1);
    ag_store(g, ag_element(g, ag_part(g, g->at.fixes), l.iv), old);
    ag_store(g, kept, larger(g, larger(g, top, old), em_fp(e->t_f32, -FLT_MAX)));
    em_loop_end(e, &l);
}

/* fixes = exp(fixes - tops) */
static void block_fixes(struct ag *g, LLVMValueRef row)
{
    struct em *e = g->e;
    for (int r = 0; r < g->a.mr && !g->single; r += g->a.lanes) {
        LLVMValueRef p = ag_element(g, ag_part(g, g->at.fixes), em_i64(e, r));
        LLVMValueRef right = ag_add(g, row, em_i64(e, r));
        LLVMValueRef tops = ag_load(g, ag_element(g, ag_part(g, g->at.tops), right), g->a.lanes);
        ag_store(g, p, exponential(g, LLVMBuildFSub(e->b, ag_load(g, p, g->a.lanes), tops, "")));
    }
}

static void block_weights(struct ag *g, LLVMValueRef row, LLVMValueRef nvectors)
{
    struct em *e = g->e;
    struct em_loop l, x;
    em_loop_begin(e, &l, em_below(e, em_i64(e, g->a.mr)), em_i64(e, 1), "row");
    LLVMValueRef scores = score_row(g, l.iv), this = ag_add(g, row, l.iv);
    int n = g->a.cv * g->a.lanes;
    LLVMValueRef top = em_splat(e, ag_load(g, ag_element(g, ag_part(g, g->at.tops), this), 1), n);
    em_loop_begin(e, &x, em_below(e, nvectors), em_i64(e, g->a.cv), "exp");
    LLVMValueRef sum = em_loop_carry(e, &x, LLVMConstNull(g->vec));
    LLVMValueRef p = ag_element(g, scores, ag_times(g, x.iv, g->a.lanes));
    LLVMValueRef v = exponential(g, LLVMBuildFSub(e->b, ag_load(g, p, n), top, ""));
    ag_store(g, p, v);
    for (int c = 0; c < g->a.cv; c++)
        sum = LLVMBuildFAdd(e->b, sum, em_part(e, v, c * g->a.lanes, g->a.lanes), "");
    em_loop_next(&x, 0, sum);
    em_loop_end(e, &x);
    LLVMValueRef all = em_reduce_lanes(e, KN_SUM, TCC_F32, x.phi[0]);
    LLVMValueRef kept = ag_element(g, ag_part(g, g->at.sums), this);
    if (!g->single) {
        LLVMValueRef fix = ag_load(g, ag_element(g, ag_part(g, g->at.fixes), l.iv), 1);
        all = LLVMBuildFAdd(e->b, all,
                            LLVMBuildFMul(e->b, ag_load(g, kept, 1), MUTANT(96, fix, em_fp(e->t_f32, 1)), ""), "");
    }
    ag_store(g, kept, all);
    em_loop_end(e, &l);
}

/* Means of `cv` vectors of e from x on. */
static void block_means(struct ag *g, LLVMValueRef row, LLVMValueRef t0, LLVMValueRef n, int64_t x, int cv)
{
    struct em *e = g->e;
    int64_t width = at_round(g->a.ne, g->a.lanes);
    struct tile t = {.cv = cv, .a_row = g->a.block, .op_b = -1, .a = ag_part(g, g->at.scores)};
    if (g->a.off_v) {
        t.op_b = g->a.k->insns[g->a.r.load_v].operand;
        ag_bind_dim(g, g->a.r.t, t0);
        ag_bind_dim(g, g->a.r.e, em_i64(e, x));
        t.b = em_address(e, t.op_b, em_expr(e, g->a.off_v));
        t.b_step = em_expr(e, g->a.step_v);
        for (int c = 0; c < cv; c++)
            t.mask[c] = ag_const_mask(g, x + (int64_t)c * g->a.lanes, g->a.ne);
    } else {
        t.b = ag_part(g, g->at.values + x);
        t.b_step = em_i64(e, width);
    }
    LLVMValueRef right = ag_times(g, row, width);
    LLVMValueRef means = ag_element(g, ag_part(g, g->at.means + x), right);
    for (int r = 0; r < g->a.mr; r++)
        for (int c = 0; c < cv; c++) {
            t.acc[r * cv + c] = LLVMConstNull(g->vec);
            if (g->single)
                continue;
            LLVMValueRef fix = ag_load(g, ag_part(g, g->at.fixes + r), 1);
            LLVMValueRef old =
                ag_load(g, ag_element(g, means, em_i64(e, r * width + (int64_t)c * g->a.lanes)), g->a.lanes);
            t.acc[r * cv + c] = LLVMBuildFMul(e->b, old, em_splat(e, fix, g->a.lanes), "");
        }
    if (g->one_row && g->a.off_k && !x)
        t.ahead = ag_add(g, t0, em_i64(e, g->a.block));
    tile_sum(g, &t, n);
    for (int r = 0; r < g->a.mr; r++)
        for (int c = 0; c < cv; c++)
            ag_store(g, ag_element(g, means, em_i64(e, r * width + (int64_t)c * g->a.lanes)), t.acc[r * cv + c]);
}

static void row_block(struct ag *g, LLVMValueRef row, LLVMValueRef t0, LLVMValueRef n)
{
    struct em *e = g->e;
    struct em_if f;
    if (g->a.keys) {
        ag_bind_row(g, ag_add(g, row, em_i64(e, g->a.mr - 1)));
        n = em_least(g->e, n, LLVMBuildSub(e->b, em_expr(e, g->a.keys), t0, ""));
        em_if_begin(e, &f, LLVMBuildICmp(e->b, LLVMIntSGT, n, em_i64(e, 0), ""));
    }
    LLVMValueRef npanels = ag_pieces(g, n, (int64_t)g->a.cv * g->a.lanes), nvectors = ag_times(g, npanels, g->a.cv);
    if (g->one_row && !ag_keys_are_lanes(g))
        row_scores(g, t0, nvectors);
    else
        block_scores(g, row, npanels);
    block_tops(g, row, t0, nvectors);
    block_fixes(g, row);
    block_weights(g, row, nvectors);
    int vectors = (int)(at_round(g->a.ne, g->a.lanes) / g->a.lanes);
    int wide = g->one_row ? MOST_VECTORS
                          : g->a.cv; /* with one row, more of them, so that additions needn't wait for each other */
    for (int x = 0; x < vectors; x += wide)
        block_means(g, row, t0, n, (int64_t)x * g->a.lanes, vectors - x < wide ? vectors - x : wide);
    if (g->a.keys)
        em_if_end(e, &f);
}

/* -- The tile --------------------------------------------------------------------------------------------- */

static void clear_rows(struct ag *g)
{
    struct em *e = g->e;
    struct em_loop l;
    LLVMValueRef rows = ag_times(g, ag_pieces(g, g->rows, g->a.mr), g->a.mr);
    em_loop_begin(e, &l, em_below(e, rows), em_i64(e, 1), "clear");
    ag_store(g, ag_element(g, ag_part(g, g->at.tops), l.iv), em_fp(e->t_f32, -INFINITY));
    ag_store(g, ag_element(g, ag_part(g, g->at.sums), l.iv), em_fp(e->t_f32, 0));
    int64_t width = at_round(g->a.ne, g->a.lanes);
    LLVMValueRef right = ag_times(g, l.iv, width);
    LLVMValueRef to = ag_element(g, ag_part(g, g->at.means), right);
    for (int64_t x = 0; x < width; x += g->a.lanes)
        ag_store(g, ag_element(g, to, em_i64(e, x)), LLVMConstNull(g->vec));
    em_loop_end(e, &l);
}

static void finish_rows(struct ag *g)
{
    struct em *e = g->e;
    const struct kn_stage *s = &g->a.k->stages[g->a.r.last];
    struct em_loop l;
    int64_t width = at_round(g->a.ne, g->a.lanes);
    em_loop_begin(e, &l, em_below(e, g->rows), em_i64(e, 1), "finish");
    ag_bind_dim(g, g->a.r.row, ag_add(g, g->lo, l.iv));
    LLVMValueRef right = ag_times(g, l.iv, width);
    LLVMValueRef from = ag_element(g, ag_part(g, g->at.means), right);
    LLVMValueRef sum = ag_load(g, ag_element(g, ag_part(g, g->at.sums), l.iv), 1);
    for (int64_t x = 0; x < g->a.ne; x += g->a.lanes) {
        ag_lanes_along(g, g->a.r.e, em_i64(e, x), ag_const_mask(g, x, g->a.ne));
        e->value[g->a.r.sum] = sum;
        e->value[g->a.r.mean] = ag_load(g, ag_element(g, from, em_i64(e, x)), g->a.lanes);
        em_insns(e, s->first, s->last);
        em_forget(e, s->first, s->last);
        e->value[g->a.r.sum] = e->value[g->a.r.mean] = NULL;
        ag_no_lanes(g);
    }
    em_loop_end(e, &l);
}

static void emit_tile(struct ag *g)
{
    struct em *e = g->e;
    struct em_loop blocks, rows;
    ag_take_queries(g);
    clear_rows(g);
    g->nkeys = em_extent(e, g->a.r.t);
    if (g->a.keys) {
        ag_bind_row(g, g->rows);
        g->nkeys = em_least(g->e, g->nkeys, em_expr(e, g->a.keys));
    }
    em_loop_begin(e, &blocks, em_below(e, g->nkeys), em_i64(e, g->a.block), "block");
    LLVMValueRef n = em_least(g->e, em_i64(e, g->a.block), LLVMBuildSub(e->b, g->nkeys, blocks.iv, ""));
    if (!g->one_row || ag_keys_are_lanes(g))
        ag_take_keys(g, blocks.iv, n);
    ag_take_values(g, blocks.iv, n);
    em_loop_begin(e, &rows, em_below(e, g->rows), em_i64(e, g->a.mr), "rows");
    row_block(g, rows.iv, blocks.iv, n);
    em_loop_end(e, &rows);
    em_loop_end(e, &blocks);
    finish_rows(g);
}

/* Where only the run knows the number of rows, a tile of one row has code of its own: the others' works on row
 * blocks. */
static void emit_tiles(struct ag *g)
{
    struct em *e = g->e;
    struct em_if f;
    LLVMValueRef one = LLVMBuildICmp(e->b, LLVMIntEQ, g->rows, em_i64(e, 1), "");
    if (g->a.nrows < 0)
        em_if_begin(e, &f, LLVMBuildNot(e->b, one, ""));
    if (g->a.nrows != 1)
        emit_tile(g);
    if (g->a.nrows < 0) {
        em_if_end(e, &f);
        em_if_begin(e, &f, one);
    }
    g->one_row = g->a.nrows < 0 || g->a.nrows == 1;
    g->a.mr = g->one_row ? 1 : g->a.mr;
    if (g->one_row)
        emit_tile(g);
    if (g->a.nrows < 0)
        em_if_end(e, &f);
}

void at_emit(struct em *e)
{
    struct ag g = {.e = e};
    struct em_tiles t;
    if (!at_analyse(em_cpu(e), e->ctx, e->k, &g.a))
        return; /* cannot be: its schedule said that it can */
    struct cpu_schedule s = cpu_get_schedule(e->k);
    g.a.mr = s.mr < g.a.mr ? s.mr : g.a.mr;
    if (g.a.r.row >= 0) /* the schedule may have been made for a wider machine */
        g.a.tile_rows = e->k->schedule.tile[g.a.r.row];
    g.at = at_scratch(&g.a);
    g.scratch = e->scratch;
    g.vec = em_vec(e->t_f32, g.a.lanes);
    g.single = g.a.nt >= 0 && g.a.nt <= g.a.block;
    em_tiles_begin(e, &t);
    for (int i = 0; i < em_nouter(e->k); i++)
        em_bind(e, e->k->dims[i].var, t.at[i].lo);
    g.lo = g.a.r.row < 0 ? em_i64(e, 0) : t.at[g.a.r.row].lo;
    g.hi = g.a.r.row < 0 ? em_i64(e, 1) : t.at[g.a.r.row].hi;
    g.rows = LLVMBuildSub(e->b, g.hi, g.lo, "");
    emit_tiles(&g);
    em_tiles_end(e, &t);
}
