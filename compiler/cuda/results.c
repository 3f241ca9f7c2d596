/* SPDX-License-Identifier: Apache-2.0 */
/*
 * results.c - a product's results on their way from accumulators to memory: through shared memory, so that neighbours
 * are stored by neighbours, four at once where all stores allow it. The kernel's other stages run at each.
 *
 * All threads together, a strip of rows at a time; or each warp by itself (wgmma, whose warps have 16 rows of all
 * columns): 64 columns of its rows at a time, in a place of its own that copies do not reach, so that the next tile's
 * come meanwhile. There a row of 256 bytes has its pieces of 32 bytes swapped by an exclusive or with the row's number
 * modulo 4: neither side has bank conflicts.
 */
#include "compiler/cuda/contract_int.h"

#define V LLVMValueRef
enum { WARP = 32, ROWS = 16, COLUMNS = 64, SWAP = 32 };

int64_t ct_own_bytes(void)
{
    return (int64_t)CT_THREADS / WARP * ROWS * COLUMNS * 4;
}

/* -- Together --------------------------------------------------------------------------------------------------- */

static bool stores_together(struct ir_ctx *ctx, const struct kn_kernel *k, int dim)
{
    for (int i = kn_main_stage(k)->last; i < k->ninsns; i++) {
        const struct kn_insn *n = &k->insns[i];
        if (n->code == KN_INDEX || (n->code == KN_STORE && cuda_load_width(ctx, k, i, dim, CT_TOGETHER) != CT_TOGETHER))
            return false;
    }
    return true;
}

int ct_together(struct ir_ctx *ctx, const struct kn_kernel *k, uint32_t columns, int *align)
{
    int dim = ct_last_dim(k, columns);
    if (ir_const_or(k->dims[dim].extent, 1) % CT_TOGETHER || !stores_together(ctx, k, dim))
        return 1;
    for (int i = kn_main_stage(k)->last; i < k->ninsns && align; i++) {
        const struct kn_insn *n = &k->insns[i];
        if ((n->code != KN_STORE && n->code != KN_LOAD) || cuda_load_width(ctx, k, i, dim, CT_TOGETHER) != CT_TOGETHER)
            continue;
        int bytes = CT_TOGETHER * tcc_dtype_bytes((enum tcc_dtype)k->operands[n->operand].dtype),
            *to = &align[n->operand];
        *to = *to && *to < bytes ? *to : bytes > 16 ? 16 : bytes;
    }
    return CT_TOGETHER;
}

/* -- One or several neighbours of a row ---------------------------------------------------------------------------- */

void ct_epilogue(struct ct *c, V row, V col, V value)
{
    struct em *e = c->e;
    int n = em_lanes_of(value);
    ct_bind(e, c->rows.dims, row);
    ct_bind(e, c->cols.dims, col);
    em_forget(e, 0, e->k->ninsns);
    if (n > 1)
        em_set_lanes(e, e->k->dims[ct_last_dim(e->k, c->cols.dims)].var, n, NULL);
    e->value[e->k->roles.contraction.reduce] = value;
    for (int s = 1; s < e->k->nstages; s++)
        for (int i = e->k->stages[s].first; i < e->k->stages[s].last; i++)
            em_insn(e, i);
    if (n > 1)
        em_set_lanes(e, NULL, 1, NULL);
}

static V load(struct ct *c, V at)
{
    V v = LLVMBuildLoad2(c->e->b, em_vec(ct_sum_type(c), c->together), at, "");
    LLVMSetAlignment(v, (unsigned)(4 * c->together));
    return v;
}

/* Do tiles end where the side does? */
static bool whole(const struct ct *c, const struct ct_side *s)
{
    int64_t n = 1, one;
    for (int d = 0; d < c->e->k->ndims; d++)
        if (s->dims >> d & 1)
            n = ir_is_const(c->e->k->dims[d].extent, &one) && n && one < INT32_MAX / n ? n * one : 0;
    return n && n % s->size == 0;
}

/* What lies there, if it is a result. */
static void result(struct ct *c, V row, V col, V at)
{
    struct em *e = c->e;
    struct em_if inside;
    V ok = whole(c, &c->rows) ? NULL : LLVMBuildICmp(e->b, LLVMIntSLT, row, c->rows.count, "");
    V across = whole(c, &c->cols) ? NULL : LLVMBuildICmp(e->b, LLVMIntSLT, col, c->cols.count, "");
    ok = ok && across ? LLVMBuildAnd(e->b, ok, across, "") : ok ? ok : across;
    if (ok)
        em_if_begin(e, &inside, ok);
    V value = load(c, at);
    if (c->pieces > 1) {
        V to = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, row, c->cols.count, ""), col, "");
        LLVMSetAlignment(LLVMBuildStore(e->b, value, ct_at(e, c->partial, to, 4)), (unsigned)(4 * c->together));
    } else {
        ct_epilogue(c, row, col, value);
    }
    if (ok)
        em_if_end(e, &inside);
}

/* -- By all threads ------------------------------------------------------------------------------------------------ */

static void by_strips(struct ct *c)
{
    struct em *e = c->e;
    struct em_loop l;
    V width = em_i64(e, c->cols.size / c->together), step = em_i64(e, c->together);
    for (int s = 0; s < c->strips; s++) {
        c->engine->put(c, s, c->pool);
        ct_barrier(c);
        em_loop_begin(e, &l, em_range(e, c->f->thread, em_i64(e, (int64_t)c->strip * c->cols.size / c->together)),
                      em_i64(e, CT_THREADS), "r");
        V r = LLVMBuildUDiv(e->b, l.iv, width, ""), n = LLVMBuildURem(e->b, l.iv, width, "");
        n = LLVMBuildMul(e->b, n, step, "");
        V at = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, r, em_i64(e, c->pitch), ""), n, "");
        V right = ct_at(e, c->pool, at, 4);
        LLVMValueRef col = LLVMBuildAdd(e->b, c->cols.first, n, "");
        result(c, LLVMBuildAdd(e->b, c->rows.first, c->engine->row(c, s, r), ""), col, right);
        em_loop_end(e, &l);
        ct_barrier(c);
    }
}

/* -- By each warp -------------------------------------------------------------------------------------------------- */

V ct_own_place(struct ct *c, V row, V column)
{
    struct em *e = c->e;
    V swap = LLVMBuildMul(e->b, LLVMBuildAnd(e->b, row, em_i64(e, 3), ""), em_i64(e, SWAP), "");
    V at = LLVMBuildXor(e->b, LLVMBuildMul(e->b, column, em_i64(e, 4), ""), swap, "");
    V warp = LLVMBuildUDiv(e->b, c->f->thread, em_i64(e, WARP), "");
    V base = ct_at(e, ct_at(e, c->pool, em_i64(e, c->own), 1), warp, ROWS * COLUMNS * 4);
    return ct_at(e, ct_at(e, base, row, COLUMNS * 4), at, 1);
}

/* Rows `line`, line + rows, ..: one behind the other where the epilogue is short, else in a loop. */
static void each_row(struct ct *c, V line, int rows, V first, V column, V col)
{
    enum { SHORT = 24 };
    struct em *e = c->e;
    struct em_loop l;
    if (e->k->ninsns - kn_main_stage(e->k)->last <= SHORT) {
        for (int r = 0; r < ROWS; r += rows) {
            V row = LLVMBuildAdd(e->b, line, em_i64(e, r), "");
            V right = ct_own_place(c, row, column);
            result(c, LLVMBuildAdd(e->b, first, row, ""), col, right);
        }
        return;
    }
    em_loop_begin(e, &l, em_range(e, line, em_i64(e, ROWS)), em_i64(e, rows), "row");
    V second = ct_own_place(c, l.iv, column);
    result(c, LLVMBuildAdd(e->b, first, l.iv, ""), col, second);
    em_loop_end(e, &l);
}

/* A lane has one column, or vector, of a row, or two columns; so what only depends on columns is worked out once. */
static void by_warps(struct ct *c)
{
    struct em *e = c->e;
    int across = COLUMNS / c->together < WARP ? COLUMNS / c->together : WARP, rows = WARP / across;
    V lane = LLVMBuildURem(e->b, c->f->thread, em_i64(e, WARP), ""),
      warp = LLVMBuildUDiv(e->b, c->f->thread, em_i64(e, WARP), "");
    V first = LLVMBuildAdd(e->b, c->rows.first, LLVMBuildMul(e->b, warp, em_i64(e, ROWS), ""), "");
    V line = LLVMBuildUDiv(e->b, lane, em_i64(e, across), ""),
      own = LLVMBuildMul(e->b, LLVMBuildURem(e->b, lane, em_i64(e, across), ""), em_i64(e, c->together), "");
    for (int s = 0; s < c->cols.size / COLUMNS; s++) {
        c->engine->put(c, s, NULL);
        cuda_warp_barrier(e);
        for (int n = 0; n < COLUMNS; n += across * c->together) {
            V column = LLVMBuildAdd(e->b, own, em_i64(e, n), "");
            V col = LLVMBuildAdd(e->b, c->cols.first, LLVMBuildAdd(e->b, column, em_i64(e, s * COLUMNS), ""), "");
            each_row(c, line, rows, first, column, col);
        }
        cuda_warp_barrier(e);
    }
}

void ct_results(struct ct *c)
{
    if (!c->engine->by_warps) {
        by_strips(c);
        return;
    }
    by_warps(c);
    if (!c->own) /* they lie where tiles do */
        ct_barrier(c);
}

/* -- Pieces' sums -------------------------------------------------------------------------------------------------- */

/* Of results l.iv on: the pieces' in order. */
V ct_add_pieces(struct ct *c, V all, V result, bool whole)
{
    struct em *e = c->e;
    V sum = NULL;
    for (int p = 0; p < (e->exact && !whole ? 1 : c->pieces); p++) {
        V at = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, all, em_i64(e, p), ""), result, "");
        V v = LLVMBuildLoad2(e->b, em_vec(whole ? e->t_i32 : e->t_f32, c->together), ct_at(e, e->scratch, at, 4), "");
        LLVMSetAlignment(v, (unsigned)(4 * c->together));
        sum = !sum ? v : whole ? LLVMBuildAdd(e->b, sum, v, "") : LLVMBuildFAdd(e->b, sum, v, "");
    }
    return sum;
}
