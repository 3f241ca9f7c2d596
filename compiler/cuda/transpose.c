/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transpose.c - kernels that read along one outer dim and store along another: a block runs 32 x 32 points. Loads that
 * are consecutive along `along` are done by threads that are neighbours there, into shared memory; then threads that
 * are neighbours along `vector`, the dim of the stores, run the rest with what those loads gave. A row of shared memory
 * has 33 elements, so both ways go without conflicts.
 */
#include "compiler/cuda/cuda_int.h"

#define V LLVMValueRef
enum { SIDE = 32, MAX_LOADS = 4 };

bool cuda_is_turned(struct ir_ctx *ctx, const struct kn_kernel *k, int insn, int along, int vector)
{
    const struct kn_insn *n = &k->insns[insn];
    int64_t stride;
    if (n->code != KN_LOAD)
        return false;
    ir_expr offset = kn_flat_offset(ctx, &k->operands[n->operand], n->index);
    if (kn_is_gathered(k, offset) || !ir_uses_sym(offset, k->dims[vector].var))
        return false;
    bool here = em_lane_stride(ctx, offset, k->dims[vector].var, SIDE, true, &stride) && stride <= 1 && stride >= -1;
    return !here && em_lane_stride(ctx, offset, k->dims[along].var, SIDE, true, &stride) && stride == 1;
}

struct turned {
    struct cuda_fn *f;
    struct em_tiles tiles;
    int n, load[MAX_LOADS];
    V shared[MAX_LOADS];
    LLVMTypeRef type[MAX_LOADS]; /* in shared memory: 4 or 8 bytes */
    V x, y;                      /* of the thread in 32 x threads / 32 */
};

/* This thread's points with `fast` by x: calls body where they are inside. */
static void points(struct turned *t, int fast, int slow, void (*body)(struct turned *t, V x, V y))
{
    struct em *e = t->f->e;
    for (int r = 0; r < SIDE; r += t->f->s.threads / SIDE) {
        struct em_if inside;
        V y = LLVMBuildAdd(e->b, t->y, em_i64(e, r), "");
        V at = LLVMBuildAdd(e->b, t->tiles.at[fast].lo, t->x, ""),
          across = LLVMBuildAdd(e->b, t->tiles.at[slow].lo, y, "");
        LLVMValueRef right = LLVMBuildICmp(e->b, LLVMIntSLT, across, t->tiles.at[slow].hi, "");
        V ok = LLVMBuildAnd(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, at, t->tiles.at[fast].hi, ""), right, "");
        em_if_begin(e, &inside, ok);
        em_bind(e, e->k->dims[fast].var, at);
        em_bind(e, e->k->dims[slow].var, across);
        em_forget(e, 0, e->k->ninsns);
        body(t, t->x, y);
        em_if_end(e, &inside);
    }
}

static V element(struct turned *t, int i, V row, V column)
{
    struct em *e = t->f->e;
    V index = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, row, em_i64(e, SIDE + 1), ""), column, "");
    return LLVMBuildInBoundsGEP2(e->b, t->type[i], t->shared[i], &index, 1, "");
}

static V bits_of(struct em *e, V v, LLVMTypeRef to)
{
    LLVMTypeRef t = LLVMTypeOf(v);
    LLVMTypeKind kind = LLVMGetTypeKind(t);
    if (kind == LLVMFloatTypeKind || kind == LLVMDoubleTypeKind)
        return LLVMBuildBitCast(e->b, v, to, "");
    return LLVMBuildZExt(e->b, v, to, "");
}

static void fetch(struct turned *t, V x, V y)
{
    struct em *e = t->f->e;
    for (int i = 0; i < t->n; i++) {
        em_insn_needed(e, t->load[i]);
        V at = element(t, i, y, x);
        LLVMBuildStore(e->b, bits_of(e, e->value[t->load[i]], t->type[i]), at);
    }
}

static void rest(struct turned *t, V x, V y)
{
    struct em *e = t->f->e;
    for (int i = 0; i < t->n; i++) {
        LLVMTypeRef to = em_reg_type(e, (enum tcc_dtype)e->k->insns[t->load[i]].dtype);
        LLVMTypeKind kind = LLVMGetTypeKind(to);
        V v = LLVMBuildLoad2(e->b, t->type[i], element(t, i, x, y), "");
        bool real = kind == LLVMFloatTypeKind || kind == LLVMDoubleTypeKind;
        e->value[t->load[i]] = real ? LLVMBuildBitCast(e->b, v, to, "") : LLVMBuildTrunc(e->b, v, to, "");
    }
    em_insns(e, 0, e->k->ninsns);
}

void cuda_emit_transpose(struct cuda_fn *f)
{
    struct em *e = f->e;
    struct turned t = {.f = f};
    for (int i = 0; i < e->k->ninsns && t.n < MAX_LOADS; i++) {
        if (!cuda_is_turned(e->ctx, e->k, i, f->s.along, f->s.vector))
            continue;
        int bytes = tcc_dtype_bytes((enum tcc_dtype)e->k->insns[i].dtype) > 4 ? 8 : 4;
        t.type[t.n] = bytes == 8 ? e->t_i64 : e->t_i32;
        t.shared[t.n] = cuda_shared(e, ir_internf(e->ctx, "%s_turned%d", f->name, t.n), SIDE * (SIDE + 1) * bytes, 8);
        t.load[t.n++] = i;
    }
    t.x = LLVMBuildURem(e->b, f->thread, em_i64(e, SIDE), "");
    t.y = LLVMBuildUDiv(e->b, f->thread, em_i64(e, SIDE), "");
    em_tiles_begin(e, &t.tiles);
    for (int i = 0; i < em_nouter(e->k); i++)
        em_bind(e, e->k->dims[i].var, t.tiles.at[i].lo);
    points(&t, f->s.along, f->s.vector, fetch);
    cuda_barrier(e);
    points(&t, f->s.vector, f->s.along, rest);
    cuda_barrier(e);
    em_tiles_end(e, &t.tiles);
}
