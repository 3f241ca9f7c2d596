/* SPDX-License-Identifier: Apache-2.0 */
/* lower.c - what all of fuse/, kernel/ and plan/ ask of the lowering at hand. */
#include "passes/lower_int.h"

bool lw_may_change(const struct lw *lw)
{
    return pass_changed(lw->run);
}

int lw_buffer_new(struct lw *lw, struct kn_buffer b)
{
    VEC_PUSH(lw->ctx, lw->buffers, b);
    return lw->buffers.n - 1;
}

bool lw_communicates(const struct kn_step *s)
{
    return (s->kind == TCC_STEP_COLLECTIVE && s->what != TCC_IS_OWNER) || s->kind == TCC_STEP_SEND ||
           s->kind == TCC_STEP_RECV;
}
