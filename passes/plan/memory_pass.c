/* SPDX-License-Identifier: Apache-2.0 */
/* memory: lifetimes of buffers and their places in the arena (memory.c), checked by kn_verify_program(). */
#include "passes/lower_int.h"

bool pass_memory_run(struct pass_run *r);

/* Weights lie one behind the other, 64-byte aligned. */
static void place_weights(struct ir_ctx *ctx, struct kn_program *p)
{
    int64_t at = 0, bytes;
    for (int b = kn_next_weight(p, -1); b < p->nbuffers; b = kn_next_weight(p, b)) {
        struct kn_buffer *buffer = &p->buffers[b];
        buffer->offset = ir_const(ctx, at);
        if (ir_is_const(buffer->bytes, &bytes))
            at += (bytes + 63) / 64 * 64;
    }
    p->weight_bytes = at;
}

bool pass_memory_run(struct pass_run *r)
{
    struct ir_ctx *ctx = pass_ctx(r);
    struct kn_program *p = pass_module(r)->program;
    if (!p)
        return ir_error(ctx, NULL, "memory: the module has not been lowered");
    for (int e = 0; e < p->nentries; e++)
        if (!lw_plan_memory(ctx, p, &p->entries[e]))
            return false;
    place_weights(ctx, p);
    return kn_verify_program(p);
}
