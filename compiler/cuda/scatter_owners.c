/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scatter_owners.c - scatters by owners: a block owns some rows of the result (a row: what one value of the indices
 * names), and applies their updates in the order of the points, so that repeated indices give the same bits in every
 * run, without atomics. Its threads look at the indices of all points together, `threads` of them at a time; ballots
 * say which ones are the block's, in order, and all threads then go through those, each by itself over its own outer
 * points: an embedding's gradient of V rows, D elements each, from T tokens.
 *
 * All blocks read all indices, which are few beside the updates and soon in L2. Nothing is sorted, and no memory is
 * asked for.
 */
#include "compiler/cuda/cuda_int.h"

#define V LLVMValueRef

/* -- Which kernels ------------------------------------------------------------------------------------------------- */

bool cuda_owner_rows(struct ir_ctx *ctx, const struct kn_kernel *k, ir_expr *rows)
{
    const struct kn_scatter *s = &k->roles.scatter;
    if (k->roles.form != KN_SCATTER || !tcc_is_float((enum tcc_dtype)k->operands[s->result].dtype))
        return false; /* small kernels of integers may be the host's, whose tiles are outer points */
    *rows = ir_const(ctx, 1);
    for (int i = 0; i < TCC_MAX_RANK && s->index[i] >= 0; i++)
        *rows = ir_mul(ctx, *rows, k->insns[s->index[i]].bound);
    *rows = ir_max(ctx, *rows, ir_const(ctx, 1)); /* without elements, too, one has an owner, who reports the indices */
    return true;
}

/* -- The function -------------------------------------------------------------------------------------------------- */

struct owners {
    struct cuda_fn *f;
    uint32_t inner, outer;
    V points, outer_points; /* numbers of them */
    V counts, list; /* shared memory: a warp's own points, twice; numbers of the block's own among those looked at */
};

/* Dims of a set by the number of the point, the last fastest. */
static void bind_dims(struct em *e, uint32_t dims, V point)
{
    for (int d = e->k->ndims - 1; d >= 0; d--) {
        if (!(dims >> d & 1))
            continue;
        dims &= ~(1u << d);
        V n = em_extent(e, d);
        em_bind(e, e->k->dims[d].var, dims ? LLVMBuildURem(e->b, point, n, "") : point);
        if (dims)
            point = LLVMBuildUDiv(e->b, point, n, "");
    }
}

static V count_points(struct em *e, uint32_t dims)
{
    V n = em_i64(e, 1);
    for (int d = 0; d < e->k->ndims; d++)
        if (dims >> d & 1)
            n = LLVMBuildNSWMul(e->b, n, em_extent(e, d), "");
    return n;
}

/* The row that the indices of the bound point name. */
static V row_of(struct owners *o)
{
    struct em *e = o->f->e;
    V row = em_i64(e, 0);
    em_forget(e, 0, e->k->ninsns);
    const int *index = e->k->roles.scatter.index;
    for (int i = 0; i < TCC_MAX_RANK && index[i] >= 0; i++) {
        const struct kn_insn *n = &e->k->insns[index[i]];
        em_insn_needed(e, index[i]);
        LLVMValueRef right = em_expr(e, n->expr);
        row = LLVMBuildNSWAdd(e->b, LLVMBuildNSWMul(e->b, row, em_expr(e, n->bound), ""), right, "");
    }
    return row;
}

static V word_at(struct em *e, V base, V index)
{
    return LLVMBuildInBoundsGEP2(e->b, e->t_i32, base, &index, 1, "");
}

/* Threads' flags to a list of those that are set, in order; how many there are, and *mine, where this thread's stands.
 * A barrier: `half`, 0 or 1 by turns, keeps what slower warps read. */
static V list_own(struct owners *o, V own, V half, V *mine)
{
    struct em *e = o->f->e;
    int warps = o->f->s.threads / 32;
    V thread = o->f->thread, warp = LLVMBuildLShr(e->b, thread, em_i64(e, 5), ""),
      lane = LLVMBuildTrunc(e->b, LLVMBuildAnd(e->b, thread, em_i64(e, 31), ""), e->t_i32, "");
    V ballot =
        em_intrinsic(e, "llvm.nvvm.vote.ballot.sync", 0, NULL, 2, (V[]){LLVMConstInt(e->t_i32, 0xffffffffu, 0), own});
    V below = LLVMBuildSub(e->b, LLVMBuildShl(e->b, LLVMConstInt(e->t_i32, 1, 0), lane, ""),
                           LLVMConstInt(e->t_i32, 1, 0), "");
    V before = em_unary_intrinsic(e, "llvm.ctpop", LLVMBuildAnd(e->b, ballot, below, "")), total = em_i64(e, 0);
    V first = LLVMBuildNSWMul(e->b, half, em_i64(e, warps), "");
    struct em_if one;
    em_if_begin(e, &one, LLVMBuildICmp(e->b, LLVMIntEQ, lane, LLVMConstInt(e->t_i32, 0, 0), ""));
    V right = word_at(e, o->counts, LLVMBuildNSWAdd(e->b, first, warp, ""));
    LLVMBuildStore(e->b, em_unary_intrinsic(e, "llvm.ctpop", ballot), right);
    em_if_end(e, &one);
    cuda_barrier(e);
    *mine = LLVMBuildZExt(e->b, before, e->t_i64, "");
    for (int w = 0; w < warps; w++) {
        V at = LLVMBuildNSWAdd(e->b, first, em_i64(e, w), "");
        V n = LLVMBuildZExt(e->b, LLVMBuildLoad2(e->b, e->t_i32, word_at(e, o->counts, at), ""), e->t_i64, "");
        V earlier = LLVMBuildICmp(e->b, LLVMIntSGT, warp, em_i64(e, w), "");
        *mine = LLVMBuildNSWAdd(e->b, *mine, LLVMBuildSelect(e->b, earlier, n, em_i64(e, 0), ""), "");
        total = LLVMBuildNSWAdd(e->b, total, n, "");
    }
    return total;
}

/* The updates of `n` points of the list, one after the other. */
static void update(struct owners *o, V from, V n)
{
    struct em *e = o->f->e;
    struct em_loop points, outer;
    em_loop_begin(e, &points, em_below(e, n), em_i64(e, 1), "update");
    V at = LLVMBuildZExt(e->b, LLVMBuildLoad2(e->b, e->t_i32, word_at(e, o->list, points.iv), ""), e->t_i64, "");
    bind_dims(e, o->inner, LLVMBuildNSWAdd(e->b, from, at, ""));
    em_loop_begin(e, &outer, em_range(e, o->f->thread, o->outer_points), em_i64(e, o->f->s.threads), "point");
    bind_dims(e, o->outer, outer.iv);
    em_forget(e, 0, e->k->ninsns);
    em_insns(e, 0, e->k->ninsns);
    em_loop_end(e, &outer);
    em_loop_end(e, &points);
}

/* The points from `from` on, as many as there are threads. */
static void look(struct owners *o, V from, V low, V high)
{
    struct em *e = o->f->e;
    V point = LLVMBuildNSWAdd(e->b, from, o->f->thread, ""), mine;
    V half = LLVMBuildAnd(e->b, LLVMBuildUDiv(e->b, from, em_i64(e, o->f->s.threads), ""), em_i64(e, 1), "");
    bind_dims(e, o->inner, cuda_below(e, point, o->points));
    V row = row_of(o), own = LLVMBuildICmp(e->b, LLVMIntSLT, point, o->points, "");
    own = LLVMBuildAnd(e->b, own, LLVMBuildICmp(e->b, LLVMIntSGE, row, low, ""), "");
    own = LLVMBuildAnd(e->b, own, LLVMBuildICmp(e->b, LLVMIntSLT, row, high, ""), "");
    V n = list_own(o, own, half, &mine);
    struct em_if some, is_own;
    em_if_begin(e, &some, LLVMBuildICmp(e->b, LLVMIntSGT, n, em_i64(e, 0), ""));
    cuda_barrier(e); /* nobody reads the list of the points before */
    em_if_begin(e, &is_own, own);
    V at = word_at(e, o->list, mine);
    LLVMBuildStore(e->b, LLVMBuildTrunc(e->b, o->f->thread, e->t_i32, ""), at);
    em_if_end(e, &is_own);
    cuda_barrier(e);
    update(o, from, n);
    em_if_end(e, &some);
}

void cuda_emit_owners(struct cuda_fn *f)
{
    struct em *e = f->e;
    uint32_t inner = kn_main_stage(e->k)->inner;
    struct owners o = {.f = f, .inner = inner, .outer = ((1u << e->k->ndims) - 1) & ~inner};
    struct em_loop tiles, points;
    o.points = count_points(e, o.inner);
    o.outer_points = count_points(e, o.outer);
    o.counts = cuda_shared(e, ir_internf(e->ctx, "%s_counts", f->name), (int64_t)4 * 2 * (f->s.threads / 32), 16);
    o.list = cuda_shared(e, ir_internf(e->ctx, "%s_list", f->name), (int64_t)4 * f->s.threads, 16);
    em_loop_begin(e, &tiles, em_range(e, f->unit, f->tiles), f->units, "tile");
    V low = LLVMBuildNSWMul(e->b, tiles.iv, em_i64(e, f->s.rows), ""),
      high = LLVMBuildNSWAdd(e->b, low, em_i64(e, f->s.rows), "");
    em_loop_begin(e, &points, em_below(e, o.points), em_i64(e, f->s.threads), "from");
    look(&o, points.iv, low, high);
    em_loop_end(e, &points);
    cuda_barrier(e); /* the next rows begin with the first half of the counts again */
    em_loop_end(e, &tiles);
}
