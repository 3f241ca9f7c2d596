/* SPDX-License-Identifier: Apache-2.0 */
/* attention_fragments.c - what a thread has of the sums of mma.sync and of wgmma alike: rows g and g + 8 of its warp's
 * 16, g its lane div 4, and of each eight columns two neighbours. */
#include "compiler/cuda/attention_int.h"

#define V LLVMValueRef

V fa_row_of_eight(struct fa *a, int i)
{
    struct em *e = a->e;
    return LLVMBuildAdd(e->b, LLVMBuildLShr(e->b, a->lane, em_i64(e, 2), ""), em_i64(e, (int64_t)8 * i), "");
}

/* Number j of a thread's places along what has eight of them a fragment. */
V fa_pair(struct fa *a, int j)
{
    struct em *e = a->e;
    V two = LLVMBuildShl(e->b, LLVMBuildAnd(e->b, a->lane, em_i64(e, 3), ""), em_i64(e, 1), "");
    return LLVMBuildAdd(e->b, two, em_i64(e, (int64_t)j / 2 * 8 + j % 2), "");
}

/* Two floats as one register of the small type, the first in the low half. */
V fa_packed(struct fa *a, V low, V high)
{
    struct em *e = a->e;
    const char *name = a->s.dtype == TCC_BF16 ? "llvm.nvvm.ff2bf16x2.rn" : "llvm.nvvm.ff2f16x2.rn";
    return LLVMBuildBitCast(e->b, em_intrinsic(e, name, 0, NULL, 2, (V[]){high, low}), e->t_i32, "");
}
