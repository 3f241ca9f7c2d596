/* SPDX-License-Identifier: Apache-2.0 */
/* loops.c - a thread runs outer points by itself: one, or a vector of neighbours along one dim by wide accesses. */
#include "compiler/cuda/cuda_int.h"

void cuda_emit_points(struct cuda_fn *f)
{
    em_loops(f->e, (struct em_nest){.vector = f->s.vector, .width = f->s.width, .unroll = 1});
}
