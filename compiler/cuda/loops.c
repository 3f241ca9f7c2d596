/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loops.c - a thread runs outer points by itself: one, or a vector of neighbours along one dim by accesses of 128 bits.
 *
 * Vectors of an operand lie at multiples of their bytes where its index says so, and where its first byte does: which
 * is known when the kernel runs, as what the user gives lies anywhere. So such a kernel has its loop twice, and all
 * threads take the same.
 */
#include "compiler/cuda/cuda_int.h"

static const struct em_nest plain = {.vector = -1, .width = 1, .unroll = 1};

static void points(void *user, bool wide)
{
    const struct cuda_fn *f = user;
    struct em_nest vectors = {.vector = f->s.vector, .width = f->s.width, .unroll = 1};
    em_loops(f->e, wide ? vectors : plain);
}

void cuda_emit_points(struct cuda_fn *f)
{
    struct em *e = f->e;
    if (f->s.width == 1) {
        em_phase(e, plain);
        return;
    }
    int *align = IR_NEWN(e->ctx, e->k->noperands + 1, int);
    cuda_vector_width(e->ctx, e->k, f->s.vector, align);
    cuda_twice(f, align, points, f);
}
