/* SPDX-License-Identifier: Apache-2.0 */
/* infer_reduce.c - types of reductions, running sums, contractions, sorting and random numbers. */
#include <string.h>

#include "ir/infer_int.h"

static bool set_reduced(struct ir_ctx *ctx, struct ir_node *n, ir_type t, enum tcc_dtype dtype, unsigned axes)
{
    bool keep = ir_get_i(n, IR_ATTR_keepdims, 0) != 0;
    ir_expr dims[TCC_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < t->rank; i++) {
        if (!(axes >> i & 1))
            dims[rank++] = t->dim[i];
        else if (keep)
            dims[rank++] = ir_const(ctx, 1);
    }
    return infer_set(ctx, n, 0, dtype, rank, dims);
}

INFER(reduce)
{
    ir_type t = infer_tensor(ctx, n, 0);
    const struct ir_attr *axes = t ? infer_list(ctx, n, IR_ATTR_axes, -1) : NULL;
    bool orders = n->op == IR_reduce_max || n->op == IR_reduce_min;
    unsigned set = 0;
    if (!axes)
        return false;
    if (!tcc_is_float(t->dtype) && !tcc_is_int(t->dtype) && !(orders && t->dtype == TCC_BOOL))
        return infer_fail(ctx, n, "expected numbers, got %s", ir_type_text(ctx, t));
    for (int i = 0; i < axes->n; i++) {
        int64_t a = axes->ints[i];
        if (a < 0 || a >= t->rank || (i && a <= axes->ints[i - 1]))
            return infer_fail(ctx, n, "axes must be ascending and in [0, %d)", t->rank);
        set |= 1u << a;
    }
    return set_reduced(ctx, n, t, t->dtype, set);
}

INFER(argreduce)
{
    ir_type t = infer_tensor(ctx, n, 0);
    int64_t axis;
    if (!t || !infer_axis(ctx, n, t->rank, &axis))
        return false;
    ir_expr rows = ir_const(ctx, 1);
    for (int i = 0; i < t->rank; i++)
        rows = i == axis ? rows : ir_mul(ctx, rows, t->dim[i]);
    return infer_assume_le(ctx, n, ir_min(ctx, rows, ir_const(ctx, 1)), t->dim[axis],
                           "axis %lld is empty, no element is the largest or smallest", (long long)axis) &&
           set_reduced(ctx, n, t, TCC_I64, 1u << axis);
}

/* The first operand's type; an axis, where the op has one, is one of its axes. */
INFER(same)
{
    ir_type t = infer_tensor(ctx, n, 0);
    bool along = ir_op_info(n->op)->attrs[0] == IR_ATTR_axis;
    int64_t axis;
    return t && (!along || infer_axis(ctx, n, t->rank, &axis)) && infer_set_type(ctx, n, 0, t);
}

/* Groups are whole, and what 8 bits hold of them the operands' types can hold, too. */
static bool infer_mx(struct ir_ctx *ctx, const struct ir_node *n, ir_expr sum)
{
    const struct ir_attr *mx = ir_attr(n, IR_ATTR_mx);
    int64_t k;
    if (!mx)
        return true;
    if (mx->dtype != TCC_F8E4M3FN && mx->dtype != TCC_F8E5M2)
        return infer_fail(ctx, n, "mx is f8e4m3fn or f8e5m2, not %s", tcc_dtype_name(mx->dtype));
    for (int i = 0; i < 2; i++) {
        enum tcc_dtype d = n->in[i].value->type->dtype;
        if (d != TCC_BF16 && d != TCC_F16 && d != TCC_F32)
            return infer_fail(ctx, n, "no MX format is made of %s", tcc_dtype_name(d));
    }
    if (!ir_is_const(sum, &k) || k % TCC_MX_GROUP)
        return infer_fail(ctx, n, "MX formats have groups of %d points of the sum, which has %s", TCC_MX_GROUP,
                          ir_expr_text(ctx, sum));
    return true;
}

INFER(matmul)
{
    ir_type a = infer_tensor(ctx, n, 0), b = infer_tensor(ctx, n, 1);
    if (!a || !b || !infer_factors(ctx, n))
        return false;
    if (a->rank < 2 || b->rank < 2)
        return infer_fail(ctx, n, "operands need rank 2 or more, got %s and %s", ir_type_text(ctx, a),
                          ir_type_text(ctx, b));
    bool ta = ir_get_i(n, IR_ATTR_trans_a, 0) != 0, tb = ir_get_i(n, IR_ATTR_trans_b, 0) != 0;
    const ir_expr *am = a->dim + a->rank - 2, *bm = b->dim + b->rank - 2;
    if (!infer_merge(ctx, am[!ta], bm[tb]))
        return infer_fail(ctx, n, "the summed dims must be equal, got %s of %s and %s of %s",
                          ir_expr_text(ctx, am[!ta]), ir_type_text(ctx, a), ir_expr_text(ctx, bm[tb]),
                          ir_type_text(ctx, b));
    if (!infer_mx(ctx, n, am[!ta]))
        return false;
    ir_expr dims[TCC_MAX_RANK];
    int rank = infer_broadcast(ctx, a->rank - 2, a->dim, b->rank - 2, b->dim, dims);
    if (rank < 0)
        return infer_fail(ctx, n, "leading dims don't broadcast: %s and %s", ir_type_text(ctx, a),
                          ir_type_text(ctx, b));
    dims[rank] = am[ta];
    dims[rank + 1] = bm[!tb];
    enum tcc_dtype to = a->dtype;
    if (ir_attr(n, IR_ATTR_to) && !infer_dtype(ctx, n, &to))
        return false;
    return infer_set(ctx, n, 0, to, rank + 2, dims);
}

/* Each of the key heads has as many query heads. */
static bool heads_fit(struct ir_ctx *ctx, ir_expr heads, ir_expr groups)
{
    if (heads == groups || ir_is_value(groups, 1))
        return true;
    ir_expr each = ir_floordiv(ctx, heads, ir_max(ctx, groups, ir_const(ctx, 1))), all = ir_mul(ctx, each, groups);
    ir_assume(ctx,
              &(struct ir_fact){IR_EQ, all, heads, ir_intern(ctx, "the query heads are no multiple of the key heads")});
    return ir_expr_eq(ctx, all, heads) != IR_NO;
}

/* Operands q, k and v of rank 4; the mask is number `mask`, if it is there. */
static bool infer_attended(struct ir_ctx *ctx, struct ir_node *n, int mask_at)
{
    ir_type q = infer_tensor(ctx, n, 0), k = infer_tensor(ctx, n, 1), v = infer_tensor(ctx, n, 2);
    if (!q || !k || !v || !infer_same_dtype(ctx, n, 0, 1) || !infer_same_dtype(ctx, n, 0, 2))
        return false;
    if (!tcc_is_float(q->dtype) || q->rank != 4 || k->rank != 4 || v->rank != 4)
        return infer_fail(ctx, n, "q, k and v must be float tensors of rank 4, got %s, %s and %s", ir_type_text(ctx, q),
                          ir_type_text(ctx, k), ir_type_text(ctx, v));
    bool ok = infer_merge(ctx, q->dim[0], k->dim[0]) && infer_merge(ctx, k->dim[0], v->dim[0]) &&
              infer_merge(ctx, k->dim[1], v->dim[1]) && infer_merge(ctx, k->dim[2], v->dim[2]) &&
              infer_merge(ctx, q->dim[3], k->dim[3]) && heads_fit(ctx, q->dim[1], k->dim[1]);
    if (!ok)
        return infer_fail(ctx, n, "q[b,h,s,d], k[b,g,t,d] and v[b,g,t,e] don't fit: %s, %s and %s",
                          ir_type_text(ctx, q), ir_type_text(ctx, k), ir_type_text(ctx, v));
    if (n->nin > mask_at && n->in[mask_at].value) {
        ir_type mask = infer_tensor(ctx, n, mask_at);
        ir_expr scores[] = {q->dim[0], q->dim[1], q->dim[2], k->dim[2]}, joined[TCC_MAX_RANK];
        if (!mask || !infer_same_dtype(ctx, n, 0, mask_at))
            return false;
        if (mask->rank > 4 || infer_broadcast(ctx, 4, scores, mask->rank, mask->dim, joined) < 0)
            return infer_fail(ctx, n, "the mask %s does not broadcast to %s", ir_type_text(ctx, mask),
                              ir_type_text(ctx, ir_tensor_type(ctx, q->dtype, 4, scores)));
    }
    return true;
}

static enum tcc_dtype wide_of(ir_type t)
{
    return tcc_small_float((enum tcc_dtype)t->dtype) ? TCC_F32 : (enum tcc_dtype)t->dtype;
}

INFER(attention)
{
    if (!infer_attended(ctx, n, 3))
        return false;
    ir_type q = n->in[0].value->type, v = n->in[2].value->type;
    return infer_set(ctx, n, 0, q->dtype, 4, (ir_expr[]){q->dim[0], q->dim[1], q->dim[2], v->dim[3]}) &&
           (n->nout == 1 || infer_set(ctx, n, 1, wide_of(q), 3, q->dim));
}

INFER(attention_grad)
{
    if (!infer_attended(ctx, n, 6) || !infer_same_dtype(ctx, n, 0, 3) || !infer_tensor(ctx, n, 4) ||
        !infer_same_dtype(ctx, n, 4, 5))
        return false;
    ir_type q = n->in[0].value->type, k = n->in[1].value->type, v = n->in[2].value->type, dy = n->in[3].value->type;
    bool ok = dy->rank == 4 && infer_merge(ctx, dy->dim[3], v->dim[3]);
    for (int i = 3; i < 6; i++) /* dy, lse, delta */
        for (int d = 0; d < 3; d++)
            ok = ok && n->in[i].value->type->rank == (i == 3 ? 4 : 3) &&
                 infer_merge(ctx, n->in[i].value->type->dim[d], q->dim[d]);
    if (!ok || (enum tcc_dtype)n->in[4].value->type->dtype != wide_of(q))
        return infer_fail(ctx, n, "dy[b,h,s,e], lse[b,h,s] and delta[b,h,s] don't fit: %s, %s and %s",
                          ir_type_text(ctx, dy), ir_type_text(ctx, n->in[4].value->type),
                          ir_type_text(ctx, n->in[5].value->type));
    if (n->op == IR_attention_grad_q)
        return infer_set(ctx, n, 0, wide_of(q), 4, q->dim);
    for (int i = 0; i < 2; i++)
        if (!infer_set(ctx, n, i, wide_of(q), 4,
                       (ir_expr[]){q->dim[0], q->dim[1], k->dim[2], i ? q->dim[3] : v->dim[3]}))
            return false;
    return true;
}

INFER(topk)
{
    ir_type t = infer_tensor(ctx, n, 0);
    const struct ir_attr *k = t ? infer_list(ctx, n, IR_ATTR_k, -1) : NULL;
    ir_expr dims[TCC_MAX_RANK];
    int64_t axis;
    if (!k || !infer_axis(ctx, n, t->rank, &axis))
        return false;
    if (ir_expr_le(ctx, k->e, t->dim[axis]) == IR_NO)
        return infer_fail(ctx, n, "k is %s, axis %lld of %s has fewer elements", ir_expr_text(ctx, k->e),
                          (long long)axis, ir_type_text(ctx, t));
    if (!infer_assume_le(ctx, n, k->e, t->dim[axis], "more elements are wanted than axis %lld has", (long long)axis))
        return false;
    ir_type places = n->nin > 1 ? n->in[1].value->type : NULL;
    if (places && (places->dtype != TCC_I32 || !ir_same_dims(places, t)))
        return infer_fail(ctx, n, "places must be i32 and have the dims of %s, got %s", ir_type_text(ctx, t),
                          ir_type_text(ctx, places));
    memcpy(dims, t->dim, (size_t)t->rank * sizeof *dims);
    dims[axis] = k->e;
    return infer_set(ctx, n, 0, (enum tcc_dtype)t->dtype, t->rank, dims) &&
           infer_set(ctx, n, 1, TCC_I64, t->rank, dims);
}

INFER(random)
{
    const struct ir_attr *shape = infer_list(ctx, n, IR_ATTR_shape, -1);
    enum tcc_dtype dtype;
    if (!shape || !infer_dtype(ctx, n, &dtype))
        return false;
    if (!tcc_is_float(dtype))
        return infer_fail(ctx, n, "the result must hold floats, got %s", tcc_dtype_name(dtype));
    return infer_sizes_fit(ctx, n, shape->n, shape->exprs) && infer_set(ctx, n, 0, dtype, shape->n, shape->exprs);
}
