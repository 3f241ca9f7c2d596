/* SPDX-License-Identifier: Apache-2.0 */
/* sharding.c - sizes of an axis in parts, padding and all: what rules, choice and rewriting of tensor.def's ops ask. */
#include "passes/parallel/tensor_int.h"

#include <string.h>

bool shard_same(struct sharding a, struct sharding b)
{
    return a.kind == b.kind && (a.kind != SHARD_SPLIT || (a.axis == b.axis && a.outer == b.outer));
}

/* Takes the factors of b out of those of a. */
static ir_expr without_factors(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    if (a == b)
        return ir_const(ctx, 1);
    if (b->kind == IR_X_MUL) {
        for (int i = 0; a && i < b->nargs; i++)
            a = shard_divide(ctx, a, b->arg[i]);
        return a;
    }
    ir_expr rest = ir_const(ctx, 1);
    bool found = false;
    for (int i = 0; a->kind == IR_X_MUL && i < a->nargs; i++) {
        ir_expr f = a->arg[i], q = found ? NULL : f == b ? ir_const(ctx, 1) : NULL;
        int64_t x, y;
        if (!found && !q && ir_is_const(f, &x) && ir_is_const(b, &y) && y > 0 && x % y == 0)
            q = ir_const(ctx, x / y);
        found |= q != NULL;
        rest = ir_mul(ctx, rest, q ? q : f);
    }
    return found ? rest : NULL;
}

ir_expr shard_divide(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    int64_t x, y;
    if (ir_is_value(b, 1))
        return a;
    if (ir_is_const(a, &x) && ir_is_const(b, &y))
        return y > 0 && x % y == 0 ? ir_const(ctx, x / y) : NULL;
    return without_factors(ctx, a, b);
}

#define PADDING 16 /* an axis of a parameter is this many times as long at least */

int64_t shard_padding(const struct tensor_plan *p, ir_expr size, struct sharding c)
{
    int64_t n;
    if (!ir_is_value(c.outer, 1) || !ir_is_const(size, &n) || n <= 0)
        return 0;
    int64_t more = (p->parts - n % p->parts) % p->parts;
    return more <= n / (p->context ? 1 : PADDING) ? more : 0;
}

ir_expr shard_size(const struct tensor_plan *p, ir_expr size, struct sharding c)
{
    struct ir_ctx *ctx = p->m->ctx;
    int64_t more = shard_padding(p, size, c);
    if (more)
        size = ir_const(ctx, ir_const_or(size, 0) + more);
    ir_expr block = shard_divide(ctx, size, c.outer);
    ir_expr part = block ? shard_divide(ctx, block, ir_const(ctx, p->parts)) : NULL;
    return part && !ir_is_value(part, 0) ? ir_mul(ctx, c.outer, part) : NULL;
}

ir_type shard_type(const struct tensor_plan *p, ir_type whole, struct sharding c)
{
    ir_expr dims[TCC_MAX_RANK];
    if (c.kind != SHARD_SPLIT)
        return whole;
    memcpy(dims, whole->dim, (size_t)whole->rank * sizeof *dims);
    dims[c.axis] = shard_size(p, dims[c.axis], c);
    return ir_tensor_type(p->m->ctx, (enum tcc_dtype)whole->dtype, whole->rank, dims);
}
