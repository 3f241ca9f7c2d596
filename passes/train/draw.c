/* SPDX-License-Identifier: Apache-2.0 */
/* First values of parameters that a model did not have. */
#include "passes/train/adapt_int.h"

#include "base/draw.h"

struct ir_tensor *train_draw_uniform(struct ir_ctx *ctx, enum tcc_dtype type, int rank, const int64_t *dims,
                                     double bound, uint64_t seed, const char *name)
{
    struct ir_tensor *t = ir_tensor_new(type, rank, dims);
    uint64_t state = tcr_draw_begin(seed, name);
    if (!t)
        ir_no_memory(ctx);
    for (int64_t i = 0; i < t->nelems; i++)
        tcc_store_f64(type, (char *)(uintptr_t)t->data + (size_t)i * (size_t)tcc_dtype_bytes(type),
                      (2 * tcr_draw_unit(&state) - 1) * bound);
    return t;
}
