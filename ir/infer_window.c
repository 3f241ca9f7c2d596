/* SPDX-License-Identifier: Apache-2.0 */
/* infer_window.c - types of convolutions and pools. Spatial lists that are left out mean 1 (strides, dilations) or 0
 * (padding). */
#include <string.h>

#include "ir/infer_int.h"
#include "ir/winograd.h"

/* The spatial attributes of a window op, defaults filled in. */
struct window {
    int rank;
    int64_t strides[TCC_MAX_RANK], dilations[TCC_MAX_RANK];
    ir_expr before[TCC_MAX_RANK], after[TCC_MAX_RANK];
};

static bool positive_list(struct ir_ctx *ctx, struct ir_node *n, enum ir_attr_key key, int rank, int64_t *out)
{
    for (int i = 0; i < rank; i++)
        out[i] = 1;
    if (!ir_attr(n, key))
        return true;
    const struct ir_attr *a = infer_list(ctx, n, key, rank);
    for (int i = 0; a && i < rank; i++) {
        out[i] = a->ints[i];
        if (out[i] < 1 || out[i] > INT32_MAX)
            return infer_fail(ctx, n, "%s must be positive, got %lld", ir_attr_name(key), (long long)out[i]);
    }
    return a != NULL;
}

static bool padding_list(struct ir_ctx *ctx, struct ir_node *n, enum ir_attr_key key, int rank, ir_expr *out)
{
    for (int i = 0; i < rank; i++)
        out[i] = ir_const(ctx, 0);
    if (!ir_attr(n, key))
        return true;
    const struct ir_attr *a = infer_list(ctx, n, key, rank);
    for (int i = 0; a && i < rank; i++)
        out[i] = a->exprs[i];
    return a != NULL;
}

static bool get_window(struct ir_ctx *ctx, struct ir_node *n, ir_type x, struct window *w)
{
    w->rank = x->rank - 2;
    if (x->rank < 3)
        return infer_fail(ctx, n, "expected x[n, c, spatial...], got %s", ir_type_text(ctx, x));
    return positive_list(ctx, n, IR_ATTR_strides, w->rank, w->strides) &&
           positive_list(ctx, n, IR_ATTR_dilations, w->rank, w->dilations) &&
           padding_list(ctx, n, IR_ATTR_before, w->rank, w->before) &&
           padding_list(ctx, n, IR_ATTR_after, w->rank, w->after);
}

/* (in + before + after - (taps - 1) * dilation - 1) floordiv stride + 1; `empty`: which may be 0 */
static bool window_dim(struct ir_ctx *ctx, struct ir_node *n, const struct window *w, int i, ir_expr in, ir_expr taps,
                       bool empty, ir_expr *out)
{
    ir_expr padded = ir_add(ctx, in, ir_add(ctx, w->before[i], w->after[i]));
    ir_expr reach = ir_addc(ctx, ir_mulc(ctx, ir_addc(ctx, taps, -1), w->dilations[i]), 1);
    ir_expr least = empty ? ir_addc(ctx, reach, -w->strides[i]) : reach;
    if (ir_is_const(padded, NULL) && ir_is_const(least, NULL) && padded->value < least->value)
        return infer_fail(ctx, n,
                          "along spatial axis %d the window reaches over %s elements, x and its padding have %s", i,
                          ir_expr_text(ctx, reach), ir_expr_text(ctx, padded));
    if (!infer_assume_le(ctx, n, least, padded,
                         "the window reaches over more elements than spatial axis %d has with its padding", i))
        return false;
    *out = ir_addc(ctx, ir_floordiv(ctx, ir_sub(ctx, padded, reach), ir_const(ctx, w->strides[i])), 1);
    return true;
}

static bool check_bias(struct ir_ctx *ctx, struct ir_node *n, ir_expr channels)
{
    if (n->nin < 3 || !n->in[2].value)
        return true;
    ir_type bias = infer_tensor(ctx, n, 2);
    return bias && ((bias->rank == 1 && infer_merge(ctx, bias->dim[0], channels)) ||
                    infer_fail(ctx, n, "the bias must have %s elements, got %s", ir_expr_text(ctx, channels),
                               ir_type_text(ctx, bias)));
}

/* Channels that are cut in groups of one size. */
static bool in_groups(struct ir_ctx *ctx, struct ir_node *n, ir_expr channels, int64_t groups, const char *what)
{
    if (groups == 1)
        return true;
    ir_expr whole = ir_mulc(ctx, ir_floordiv(ctx, channels, ir_const(ctx, groups)), groups);
    if (ir_expr_eq(ctx, whole, channels) == IR_NO)
        return infer_fail(ctx, n, "%s %s cannot be split into %lld groups", ir_expr_text(ctx, channels), what,
                          (long long)groups);
    ir_assume(ctx,
              &(struct ir_fact){IR_EQ, whole, channels, ir_internf(ctx, "the %s are no multiple of the groups", what)});
    return true;
}

/* Common to both convolutions: ranks, element types, groups. */
static bool conv_operands(struct ir_ctx *ctx, struct ir_node *n, struct window *w, ir_type *x, ir_type *weight,
                          int64_t *groups)
{
    *x = infer_tensor(ctx, n, 0);
    *weight = *x ? infer_tensor(ctx, n, 1) : NULL;
    *groups = ir_get_i(n, IR_ATTR_groups, 1);
    if (!*weight || !get_window(ctx, n, *x, w) || !infer_factors(ctx, n))
        return false;
    if ((*weight)->rank != (*x)->rank)
        return infer_fail(ctx, n, "x and the weights must have one rank, got %s and %s", ir_type_text(ctx, *x),
                          ir_type_text(ctx, *weight));
    return *groups > 0 || infer_fail(ctx, n, "groups must be positive, got %lld", (long long)*groups);
}

INFER(conv)
{
    struct window w;
    ir_type x, weight;
    ir_expr dims[TCC_MAX_RANK];
    int64_t groups;
    if (!conv_operands(ctx, n, &w, &x, &weight, &groups))
        return false;
    if (!infer_merge(ctx, x->dim[1], ir_mulc(ctx, weight->dim[1], groups)))
        return infer_fail(ctx, n, "%s channels in %lld groups don't fit weights %s", ir_expr_text(ctx, x->dim[1]),
                          (long long)groups, ir_type_text(ctx, weight));
    if (!in_groups(ctx, n, weight->dim[0], groups, "output channels"))
        return false;
    dims[0] = x->dim[0];
    dims[1] = weight->dim[0];
    const char *mode = ir_get_s(n, IR_ATTR_mode, "valid");
    bool empty = !strcmp(mode, "empty");
    if (!empty && strcmp(mode, "valid") != 0)
        return infer_fail(ctx, n, "unknown mode '%s'", mode);
    for (int i = 0; i < w.rank; i++) {
        if (!window_dim(ctx, n, &w, i, x->dim[i + 2], weight->dim[i + 2], empty, &dims[i + 2]))
            return false;
    }
    enum tcc_dtype to = x->dtype;
    if (ir_attr(n, IR_ATTR_to) && !infer_dtype(ctx, n, &to))
        return false;
    return check_bias(ctx, n, dims[1]) && infer_set(ctx, n, 0, to, x->rank, dims);
}

INFER(winograd)
{
    ir_type x = infer_tensor(ctx, n, 0), u = infer_tensor(ctx, n, 1);
    struct ir_winograd w[2];
    int axes = x ? x->rank - 2 : 0;
    if (!x || !u)
        return false;
    if (u->rank != 3 || !ir_winograd_of(n, 0, w) ||
        !infer_merge(ctx, ir_mulc(ctx, x->dim[1], ir_winograd_filters(w)), u->dim[1]))
        return infer_fail(ctx, n, "%s does not fit transformed weights %s", ir_type_text(ctx, x), ir_type_text(ctx, u));
    for (int i = 1; i < 3; i++)
        if (!ir_is_value(ir_mod(ctx, u->dim[i], ir_const(ctx, IR_WINOGRAD_BLOCK)), 0))
            return infer_fail(ctx, n, "%s: channels must be multiples of %d", ir_type_text(ctx, u), IR_WINOGRAD_BLOCK);
    const struct ir_attr *shape = infer_list(ctx, n, IR_ATTR_shape, axes);
    if (!shape || !infer_list(ctx, n, IR_ATTR_before, axes))
        return false;
    ir_expr dims[4] = {x->dim[0], u->dim[2], shape->exprs[0], shape->exprs[axes - 1]};
    return check_bias(ctx, n, dims[1]) && infer_set(ctx, n, 0, x->dtype, x->rank, dims);
}

INFER(conv_transpose)
{
    struct window w;
    ir_type x, weight;
    ir_expr dims[TCC_MAX_RANK];
    int64_t groups;
    if (!conv_operands(ctx, n, &w, &x, &weight, &groups))
        return false;
    const struct ir_attr *shape = infer_list(ctx, n, IR_ATTR_shape, w.rank);
    if (!shape)
        return false;
    if (!infer_merge(ctx, x->dim[1], weight->dim[0]))
        return infer_fail(ctx, n, "%s channels don't fit weights %s", ir_expr_text(ctx, x->dim[1]),
                          ir_type_text(ctx, weight));
    if (!in_groups(ctx, n, x->dim[1], groups, "channels"))
        return false;
    dims[0] = x->dim[0];
    dims[1] = ir_mulc(ctx, weight->dim[1], groups);
    memcpy(dims + 2, shape->exprs, (size_t)w.rank * sizeof *dims);
    return check_bias(ctx, n, dims[1]) && infer_sizes_fit(ctx, n, x->rank, dims) &&
           infer_set(ctx, n, 0, x->dtype, x->rank, dims);
}

static bool set_pooled(struct ir_ctx *ctx, struct ir_node *n, bool index)
{
    struct window w;
    ir_type x = infer_tensor(ctx, n, 0);
    ir_expr dims[TCC_MAX_RANK];
    if (!x || !get_window(ctx, n, x, &w))
        return false;
    int64_t taps[TCC_MAX_RANK];
    if (!infer_list(ctx, n, IR_ATTR_kernel, w.rank) || !positive_list(ctx, n, IR_ATTR_kernel, w.rank, taps))
        return false;
    dims[0] = x->dim[0];
    dims[1] = x->dim[1];
    for (int i = 0; i < w.rank; i++) {
        if (!window_dim(ctx, n, &w, i, x->dim[i + 2], ir_const(ctx, taps[i]), false, &dims[i + 2]))
            return false;
    }
    return infer_set(ctx, n, 0, index ? TCC_I64 : x->dtype, x->rank, dims);
}

INFER(pool)
{
    const char *mode = ir_get_s(n, IR_ATTR_mode, "valid");
    if (strcmp(mode, "valid") != 0 && strcmp(mode, "full") != 0 && strcmp(mode, "sum") != 0)
        return infer_fail(ctx, n, "mode must be valid, full or sum, got '%s'", mode);
    return set_pooled(ctx, n, false);
}

INFER(pool_index)
{
    return set_pooled(ctx, n, true);
}

/* -- Gradients ------------------------------------------------------------------------------------ */

/* The spatial dims that attribute `shape` lists, after `n` leading ones. */
static bool shaped(struct ir_ctx *ctx, struct ir_node *n, enum tcc_dtype dtype, ir_expr first, ir_expr second, int rank)
{
    const struct ir_attr *shape = infer_list(ctx, n, IR_ATTR_shape, rank);
    ir_expr dims[TCC_MAX_RANK] = {first, second};
    if (!shape)
        return false;
    memcpy(dims + 2, shape->exprs, (size_t)rank * sizeof *dims);
    return infer_set(ctx, n, 0, dtype, rank + 2, dims);
}

INFER(conv_grad_weight)
{
    struct window w;
    ir_type x = infer_tensor(ctx, n, 0), dy = x ? infer_tensor(ctx, n, 1) : NULL;
    int64_t groups = ir_get_i(n, IR_ATTR_groups, 1);
    if (!dy || !get_window(ctx, n, x, &w) || !infer_same_dtype(ctx, n, 0, 1))
        return false;
    if (dy->rank != x->rank || groups < 1 || !infer_merge(ctx, dy->dim[0], x->dim[0]))
        return infer_fail(ctx, n, "expected x[n, c, ...] and dy[n, o, ...], got %s and %s", ir_type_text(ctx, x),
                          ir_type_text(ctx, dy));
    if (!in_groups(ctx, n, x->dim[1], groups, "channels") || !in_groups(ctx, n, dy->dim[1], groups, "output channels"))
        return false;
    ir_expr per_group = ir_floordiv(ctx, x->dim[1], ir_const(ctx, groups));
    enum tcc_dtype to = x->dtype;
    if (ir_attr(n, IR_ATTR_to) && !infer_dtype(ctx, n, &to))
        return false;
    return shaped(ctx, n, to, dy->dim[1], per_group, w.rank);
}

INFER(max_pool_grad)
{
    struct window w;
    ir_type dy = infer_tensor(ctx, n, 0), index = dy ? infer_tensor(ctx, n, 1) : NULL;
    if (!index || !get_window(ctx, n, dy, &w))
        return false;
    if (index->dtype != TCC_I64 || index->rank != dy->rank)
        return infer_fail(ctx, n, "expected i64 indices of dy's shape, got %s", ir_type_text(ctx, index));
    for (int i = 0; i < dy->rank; i++)
        if (!infer_merge(ctx, index->dim[i], dy->dim[i]))
            return infer_fail(ctx, n, "indices %s and dy %s differ", ir_type_text(ctx, index), ir_type_text(ctx, dy));
    return infer_list(ctx, n, IR_ATTR_kernel, w.rank) && shaped(ctx, n, dy->dtype, dy->dim[0], dy->dim[1], w.rank);
}

INFER(sum_pool_grad)
{
    struct window w;
    ir_type dy = infer_tensor(ctx, n, 0);
    return dy && get_window(ctx, n, dy, &w) && infer_list(ctx, n, IR_ATTR_kernel, w.rank) &&
           shaped(ctx, n, dy->dtype, dy->dim[0], dy->dim[1], w.rank);
}
