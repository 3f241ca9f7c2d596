/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loops.c - a thread runs outer points by itself: one, or a vector of neighbours along one dim by accesses of 128 bits.
 *
 * Vectors of an operand lie at multiples of their bytes where its index says so, and where its first byte does: which is known when the kernel
 * runs, as what the user gives lies anywhere. So such a kernel has its loop twice, and all threads take the same.
 */
#include "compiler/cuda/cuda_int.h"

#define V LLVMValueRef

/* Do all operands that are accessed by aligned vectors begin at multiples of 16 bytes? */
static V begin_aligned(struct cuda_fn *f, const int *align)
{
    struct em *e = f->e;
    V any = em_i64(e, 0);
    for (int i = 0; i < e->k->noperands; i++)
        if (align[i])
            any = LLVMBuildOr(e->b, any, LLVMBuildPtrToInt(e->b, e->base[i], e->t_i64, ""), "");
    any = LLVMBuildAnd(e->b, any, em_i64(e, 15), "");
    return LLVMBuildICmp(e->b, LLVMIntEQ, any, em_i64(e, 0), "aligned");
}

void cuda_emit_points(struct cuda_fn *f)
{
    struct em *e = f->e;
    static const struct em_nest plain = {.vector = -1, .width = 1, .unroll = 1};
    if (f->s.width == 1) {
        em_phase(e, plain);
        return;
    }
    int *align = IR_NEWN(e->ctx, e->k->noperands + 1, int);
    cuda_vector_width(e->ctx, e->k, f->s.vector, align);
    LLVMBasicBlockRef wide = em_block(e, "wide"), narrow = em_block(e, "narrow"), done = em_block(e, "done");
    LLVMBuildCondBr(e->b, begin_aligned(f, align), wide, narrow);
    LLVMPositionBuilderAtEnd(e->b, wide);
    e->align = align;
    em_loops(e, (struct em_nest){.vector = f->s.vector, .width = f->s.width, .unroll = 1});
    LLVMBuildBr(e->b, done);
    LLVMPositionBuilderAtEnd(e->b, narrow);
    e->align = NULL;
    em_loops(e, plain);
    LLVMBuildBr(e->b, done);
    LLVMPositionBuilderAtEnd(e->b, done);
}
