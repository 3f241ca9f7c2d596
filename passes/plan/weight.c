/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weight.c - the plan's weights by what they begin with, so that an equal one is found without looking at all.
 *
 * Equal tensors have equal first elements; the caller compares those that do.
 */
#include "passes/lower_int.h"

enum { LOOKED_AT = 16 }; /* elements */

/* FNV-1a over the first elements, the type and the layout. */
static uint64_t beginning(ir_type type, kn_layout layout, const struct ir_tensor *t)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ (uintptr_t)type ^ (uintptr_t)layout << 7;
    size_t size = (size_t)tcc_dtype_bytes((enum tcc_dtype)t->dtype);
    for (int64_t i = 0; i < t->nelems && i < LOOKED_AT; i++) {
        const unsigned char *p = ir_tensor_at(t, i);
        for (size_t b = 0; b < size; b++)
            h = (h ^ p[b]) * UINT64_C(0x100000001b3);
    }
    return h;
}

int lw_weight_find(struct lw *lw, ir_type type, kn_layout layout, const struct ir_tensor *t, lw_same_weight *same)
{
    uint64_t h = beginning(type, layout, t);
    int found = -1;
    for (int e = lw->weight_head[h % LW_WEIGHT_LISTS] - 1; e >= 0; e = lw->weights.at[e].next - 1) {
        int b = lw->weights.at[e].buffer;
        const struct kn_buffer *buffer = &lw->buffers.at[b];
        if (lw->weights.at[e].beginning == h && buffer->type == type && buffer->layout == layout &&
            (found < 0 || b < found) && same(lw, buffer, t))
            found = b;
    }
    return found;
}

int lw_weight_new(struct lw *lw, struct kn_buffer b)
{
    uint64_t h = beginning(b.type, b.layout, b.weight);
    int *head = &lw->weight_head[h % LW_WEIGHT_LISTS];
    VEC_PUSH(lw->ctx, lw->weights, (struct lw_weight){h, lw->buffers.n, *head});
    *head = lw->weights.n;
    return lw_buffer_new(lw, b);
}
