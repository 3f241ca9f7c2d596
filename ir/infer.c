/* SPDX-License-Identifier: Apache-2.0 */
/* infer.c - type inference: the entry points and what the hooks share. */
#include <string.h>

#include "ir/infer_int.h"

#include "base/format.h"
#include "base/mutant.h"

bool infer_fail(struct ir_ctx *ctx, const struct ir_node *n, const char *format, ...)
{
    FORMATTED(text, 1024, format);
    return ir_error(ctx, &n->where, "%s: %s", ir_op_info(n->op)->name, text);
}

bool infer_sizes_fit(struct ir_ctx *ctx, struct ir_node *n, int rank, const ir_expr *dims)
{
    for (int i = 0; i < rank; i++)
        if (MUTANT(326, dims[i]->lo, 0) < 0 && dims[i]->hi >= 0 &&
            !infer_assume_le(ctx, n, ir_const(ctx, 0), dims[i], "dimension %d of the result is negative", i))
            return false;
    return true;
}

bool infer_set_type(struct ir_ctx *ctx, struct ir_node *n, int k, ir_type t)
{
    if (!t)
        return false;
    if (k >= n->nout)
        return infer_fail(ctx, n, "expected %d outputs, got %d", k + 1, n->nout);
    const char *why = ir_type_impossible(t);
    if (why)
        return infer_fail(ctx, n, "the result would be %s: %s", ir_type_text(ctx, t), why);
    n->out[k]->type = t;
    return true;
}

bool infer_set(struct ir_ctx *ctx, struct ir_node *n, int k, enum tcc_dtype dtype, int rank, const ir_expr *dims)
{
    if (rank > TCC_MAX_RANK)
        return infer_fail(ctx, n, "the result would have rank %d; at most %d is supported", rank, TCC_MAX_RANK);
    for (int i = 0; i < rank; i++) {
        if (dims[i]->hi < 0)
            return infer_fail(ctx, n, "dimension %d of the result would be %s", i, ir_expr_text(ctx, dims[i]));
    }
    return infer_set_type(ctx, n, k, ir_tensor_type(ctx, dtype, rank, dims));
}

ir_type infer_tensor(struct ir_ctx *ctx, struct ir_node *n, int i)
{
    ir_type t = n->in[i].value->type;
    if (ir_is_tensor(t))
        return t;
    infer_fail(ctx, n, "operand %d must be a ranked tensor of numbers or bools, got %s", i, ir_type_text(ctx, t));
    return NULL;
}

const struct ir_attr *infer_list(struct ir_ctx *ctx, struct ir_node *n, enum ir_attr_key key, int length)
{
    const struct ir_attr *a = ir_attr(n, key);
    if (!a) {
        infer_fail(ctx, n, "attribute %s is missing", ir_attr_name(key));
        return NULL;
    }
    if (length >= 0 && a->n != length) {
        infer_fail(ctx, n, "attribute %s must have %d elements, got %d", ir_attr_name(key), length, a->n);
        return NULL;
    }
    return a;
}

bool infer_axis(struct ir_ctx *ctx, struct ir_node *n, int rank, int64_t *axis)
{
    *axis = ir_get_i(n, IR_ATTR_axis, -1);
    if (*axis >= 0 && *axis < rank)
        return true;
    return infer_fail(ctx, n, "axis must be in [0, %d), got %lld", rank, (long long)*axis);
}

bool infer_dtype(struct ir_ctx *ctx, struct ir_node *n, enum tcc_dtype *out)
{
    const struct ir_attr *a = ir_attr(n, IR_ATTR_to);
    if (!a)
        return infer_fail(ctx, n, "attribute to is missing");
    *out = a->dtype;
    if (*out == TCC_NONE)
        return infer_fail(ctx, n, "attribute to names no element type");
    return *out != TCC_STRING || infer_fail(ctx, n, "strings are for library ops only");
}

bool infer_same_dtype(struct ir_ctx *ctx, struct ir_node *n, int i, int j)
{
    ir_type a = n->in[i].value->type, b = n->in[j].value->type;
    return a->dtype == b->dtype || infer_fail(ctx, n, "operands %d and %d must have one element type, got %s and %s", i,
                                              j, ir_type_text(ctx, a), ir_type_text(ctx, b));
}

bool infer_factors(struct ir_ctx *ctx, struct ir_node *n)
{
    enum tcc_dtype a = (enum tcc_dtype)n->in[0].value->type->dtype, b = (enum tcc_dtype)n->in[1].value->type->dtype;
    bool bytes = (a == TCC_U8 && b == TCC_I8) || (a == TCC_I8 && b == TCC_U8);
    return (bytes && ir_attr(n, IR_ATTR_to)) || infer_same_dtype(ctx, n, 0, 1);
}

bool infer_int_index(struct ir_ctx *ctx, struct ir_node *n, int i, ir_type *t)
{
    *t = infer_tensor(ctx, n, i);
    if (!*t)
        return false;
    return (*t)->dtype == TCC_I64 || (*t)->dtype == TCC_I32 ||
           infer_fail(ctx, n, "indices must be i32 or i64, got %s", ir_type_text(ctx, *t));
}

ir_expr infer_merge(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    if (a == b)
        return a;
    if (ir_expr_eq(ctx, a, b) == IR_NO)
        return NULL;
    ir_assume(ctx, &(struct ir_fact){IR_EQ, a, b, NULL});
    if (ir_is_const(a, NULL))
        return a;
    return ir_is_const(b, NULL) || ir_expr_cmp(a, b) > 0 ? b : a;
}

static ir_expr broadcast_dim(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    if (ir_is_value(a, 1))
        return b;
    if (a == b || ir_is_value(b, 1))
        return a;
    ir_expr both = infer_merge(ctx, a, b);
    if (both)
        return both;
    /* Different for sure: then one of them has to be 1. */
    bool first = a->lo <= 1 && a->hi >= 1 && !ir_is_const(a, NULL);
    if (!first && (b->lo > 1 || b->hi < 1 || ir_is_const(b, NULL)))
        return NULL;
    ir_assume(ctx, &(struct ir_fact){IR_EQ, first ? a : b, ir_const(ctx, 1), NULL});
    return first ? b : a;
}

int infer_broadcast(struct ir_ctx *ctx, int ra, const ir_expr *a, int rb, const ir_expr *b, ir_expr *out)
{
    int rank = ra > rb ? ra : rb;
    ir_expr dims[TCC_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        int ia = i - (rank - ra), ib = i - (rank - rb);
        dims[i] = ia < 0 ? b[ib] : ib < 0 ? a[ia] : broadcast_dim(ctx, a[ia], b[ib]);
        if (!dims[i])
            return -1;
    }
    if (rank)
        memcpy(out, dims, (size_t)rank * sizeof *out);
    return rank;
}

/* == Entry points == */

static bool check_arity(struct ir_ctx *ctx, struct ir_node *n)
{
    const struct ir_op_info *info = ir_op_info(n->op);
    if (n->nin < info->nin_min || (info->nin_max >= 0 && n->nin > info->nin_max)) {
        if (info->nin_min == info->nin_max)
            return infer_fail(ctx, n, "expected %d operands, got %d", info->nin_min, n->nin);
        if (info->nin_max < 0)
            return infer_fail(ctx, n, "expected %d or more operands, got %d", info->nin_min, n->nin);
        return infer_fail(ctx, n, "expected %d to %d operands, got %d", info->nin_min, info->nin_max, n->nin);
    }
    for (int i = 0; i < n->nin; i++) {
        if (!n->in[i].value && !ir_operand_optional(n->op, i))
            return infer_fail(ctx, n, "operand %d is missing", i);
    }
    for (int i = 0; i < n->nattrs; i++) {
        const struct ir_attr *a = &n->attrs[i];
        if (!ir_attr_allowed(n->op, a->key))
            return infer_fail(ctx, n, "has no attribute %s", ir_attr_name(a->key));
        if (a->key != IR_ATTR_user && a->kind != ir_attr_key_kind(a->key))
            return infer_fail(ctx, n, "attribute %s is of the wrong kind", ir_attr_name(a->key));
    }
    return true;
}

bool ir_infer_node(struct ir_ctx *ctx, struct ir_node *n)
{
    const struct ir_op_info *info = ir_op_info(n->op);
    if (!info->infer)
        return infer_fail(ctx, n, "is no op");
    return check_arity(ctx, n) && info->infer(ctx, n);
}

static bool infer_block(struct ir_ctx *ctx, struct ir_block *b)
{
    IR_EACH_NODE(n, b) {
        if (!ir_infer_node(ctx, n))
            return false;
        for (int i = 0; i < n->nregions; i++) {
            if (!infer_block(ctx, n->regions[i]))
                return false;
        }
    }
    return true;
}

bool ir_infer_func(struct ir_func *f)
{
    return infer_block(f->module->ctx, f->body);
}
