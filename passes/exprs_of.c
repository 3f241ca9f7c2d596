/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows small integer tensors back to the expressions that they hold: constants, `dims`, and arithmetic and moves on
 * those. So shape arithmetic that came as tensors becomes expressions again.
 */
#include "passes/rewrite_int.h"

#include <string.h>

#define MAX_ELEMENTS 64
#define MAX_DEPTH 32

struct list {
    int n;
    ir_expr at[MAX_ELEMENTS];
};

static bool follow(struct ir_ctx *ctx, const struct ir_value *v, struct list *out, int depth);

/* Elements of the value, by its type; -1 when it is no small integer tensor of rank 0 or 1. */
static int elements(const struct ir_value *v)
{
    int64_t n = 1;
    ir_type t = v->type;
    if (t->kind != IR_T_TENSOR || (t->dtype != TCC_I64 && t->dtype != TCC_I32) || t->rank < 0 || t->rank > 1)
        return -1;
    if (t->rank == 1 && (!ir_is_const(t->dim[0], &n) || n > MAX_ELEMENTS))
        return -1;
    return (int)n;
}

static bool from_constant(struct ir_ctx *ctx, const struct ir_tensor *t, struct list *out)
{
    out->n = (int)t->nelems;
    for (int i = 0; i < out->n; i++)
        out->at[i] = ir_const(ctx, tcc_load_i64((enum tcc_dtype)t->dtype, ir_tensor_at(t, i)));
    return true;
}

static bool from_concat(struct ir_ctx *ctx, const struct ir_node *n, struct list *out, int depth)
{
    out->n = 0;
    for (int i = 0; i < n->nin; i++) {
        struct list part;
        if (!follow(ctx, n->in[i].value, &part, depth) || out->n + part.n > MAX_ELEMENTS)
            return false;
        memcpy(out->at + out->n, part.at, (size_t)part.n * sizeof *part.at);
        out->n += part.n;
    }
    return true;
}

static bool from_slice(struct ir_ctx *ctx, const struct ir_node *n, struct list *out, int depth)
{
    int64_t start, size, step;
    struct list x;

    if (!follow(ctx, n->in[0].value, &x, depth) || ir_attr(n, IR_ATTR_starts)->n != 1 ||
        !ir_is_const(ir_attr(n, IR_ATTR_starts)->exprs[0], &start) ||
        !ir_is_const(ir_attr(n, IR_ATTR_sizes)->exprs[0], &size) ||
        !ir_is_const(ir_attr(n, IR_ATTR_steps)->exprs[0], &step))
        return false;
    out->n = 0;
    for (int64_t i = 0; i < size; i++) {
        int64_t at = start + i * step;
        if (at < 0 || at >= x.n || out->n == MAX_ELEMENTS)
            return false;
        out->at[out->n++] = x.at[at];
    }
    return true;
}

static bool from_gather(struct ir_ctx *ctx, const struct ir_node *n, struct list *out, int depth)
{
    const struct ir_tensor *index = ir_const_of(n->in[1].value);
    struct list x;

    if (!index || index->nelems > MAX_ELEMENTS || !follow(ctx, n->in[0].value, &x, depth))
        return false;
    out->n = 0;
    for (int64_t i = 0; i < index->nelems; i++) {
        int64_t at = tcc_load_i64((enum tcc_dtype)index->dtype, ir_tensor_at(index, i));
        at += at < 0 ? x.n : 0;
        if (at < 0 || at >= x.n)
            return false;
        out->at[out->n++] = x.at[at];
    }
    return true;
}

/* min and max as the words of scalar.def; floordiv equals `div` where neither side is negative. */
static ir_expr combine(struct ir_ctx *ctx, enum ir_op op, ir_expr a, ir_expr b)
{
    int64_t divisor;
    bool divides = ir_is_const(b, &divisor) && divisor > 0;
    switch (op) {
    case IR_add: return ir_add(ctx, a, b);
    case IR_sub: return ir_sub(ctx, a, b);
    case IR_mul: return ir_mul(ctx, a, b);
    case IR_min: return ir_min(ctx, a, b);
    case IR_max: return ir_max(ctx, a, b);
    case IR_div: return divides && a->lo >= 0 ? ir_floordiv(ctx, a, b) : NULL;
    case IR_mod: return divides ? ir_mod(ctx, a, b) : NULL;
    default: return NULL;
    }
}

static bool from_map(struct ir_ctx *ctx, const struct ir_node *n, struct list *out, int depth)
{
    struct list x, y;

    if (n->nin != 2 || !follow(ctx, n->in[0].value, &x, depth) || !follow(ctx, n->in[1].value, &y, depth))
        return false;
    out->n = x.n > y.n ? x.n : y.n;
    if ((x.n != out->n && x.n != 1) || (y.n != out->n && y.n != 1))
        return false;
    for (int i = 0; i < out->n; i++) {
        out->at[i] = combine(ctx, n->op, x.at[x.n == 1 ? 0 : i], y.at[y.n == 1 ? 0 : i]);
        if (!out->at[i])
            return false;
    }
    return true;
}

static bool follow(struct ir_ctx *ctx, const struct ir_value *v, struct list *out, int depth)
{
    const struct ir_tensor *constant;
    const struct ir_node *n = v ? v->def : NULL;

    if (depth > MAX_DEPTH || !n || elements(v) < 0)
        return false;
    if ((constant = ir_const_of(v)) != NULL)
        return from_constant(ctx, constant, out);
    switch (n->op) {
    case IR_dims:
    case IR_dim:
        out->n = ir_attr(n, IR_ATTR_exprs)->n;
        if (out->n > MAX_ELEMENTS)
            return false;
        memcpy(out->at, ir_attr(n, IR_ATTR_exprs)->exprs, (size_t)out->n * sizeof *out->at);
        return true;
    case IR_reshape: return follow(ctx, n->in[0].value, out, depth + 1);
    case IR_concat: return from_concat(ctx, n, out, depth + 1);
    case IR_slice: return from_slice(ctx, n, out, depth + 1);
    case IR_gather: return from_gather(ctx, n, out, depth + 1);
    case IR_cast: return rewrite_dtype_of(n->in[0].value) != TCC_NONE && follow(ctx, n->in[0].value, out, depth + 1);
    default: return ir_op_info(n->op)->kind == IR_K_MAP && from_map(ctx, n, out, depth + 1);
    }
}

int pass_exprs_of(struct ir_ctx *ctx, const struct ir_value *v, ir_expr *out, int most)
{
    struct list list;
    if (!follow(ctx, v, &list, 0) || list.n > most || list.n != elements(v))
        return -1;
    memcpy(out, list.at, (size_t)list.n * sizeof *out);
    return list.n;
}
