/* SPDX-License-Identifier: Apache-2.0 */
/* attention.c - the parts of attention that passes build, and its gradients by kernels (attention.h). */
#include "passes/attention.h"
#include "base/mutant.h"

#include <math.h>
#include <string.h>

static enum tcc_dtype type_of(const struct ir_value *x)
{
    return (enum tcc_dtype)x->type->dtype;
}

static struct ir_value *over_last(struct ir_builder *b, enum ir_op op, struct ir_value *x, bool keep)
{
    int64_t axis = x ? x->type->rank - 1 : 0;
    return ir_reduce(b, op, x, 1, &axis, keep);
}

struct ir_value *attention_column(struct ir_builder *b, struct ir_value *x)
{
    ir_expr dims[TCC_MAX_RANK];
    if (!x)
        return NULL;
    memcpy(dims, x->type->dim, (size_t)x->type->rank * sizeof *dims);
    dims[x->type->rank] = ir_const(b->ctx, 1);
    return ir_reshape_to(b, x, x->type->rank + 1, dims);
}

/* -- Scores and weights */

struct ir_value *attention_scores(struct ir_builder *b, struct ir_value *q, struct ir_value *k, struct ir_value *mask,
                                  double scale, bool causal, enum tcc_dtype to)
{
    struct ir_value *s = ir_matmul(b, q, k, false, true, to);
    if (scale != 1)
        s = ir_binary(b, IR_mul, s, ir_constant_f(b, to, scale));
    if (mask)
        s = ir_binary(b, IR_add, s, ir_cast_to(b, mask, to));
    if (!causal || !s)
        return s;
    const ir_expr *dims = s->type->dim + s->type->rank - 2;
    struct ir_value *query = ir_iota(b, 2, dims, 0, TCC_I64), *key = ir_iota(b, 2, dims, 1, TCC_I64);
    struct ir_value *seen = ir_binary(b, IR_ge, query, key);
    return ir_select(b, seen, s, ir_constant_f(b, to, -(double)INFINITY));
}

struct ir_value *attention_softmax(struct ir_builder *b, struct ir_value *scores, double least)
{
    struct ir_value *top = over_last(b, IR_reduce_max, scores, true);
    if (least > 0)
        top = top ? ir_binary(b, IR_max, top, ir_constant_f(b, type_of(top), -tcc_largest(type_of(top)))) : NULL;
    struct ir_value *e = ir_unary(b, IR_exp, ir_binary(b, IR_sub, scores, top));
    struct ir_value *sum = over_last(b, IR_reduce_sum, e, true);
    if (least > 0)
        sum = sum ? ir_binary(b, IR_max, sum, ir_constant_f(b, type_of(sum), least)) : NULL;
    return ir_binary(b, IR_div, e, sum);
}

struct ir_value *attention_weights(struct ir_builder *b, struct ir_value *scores, struct ir_value *lse)
{
    return ir_unary(b, IR_exp, ir_binary(b, IR_sub, scores, lse));
}

struct ir_value *attention_by_scores(struct ir_builder *b, struct ir_value *p, struct ir_value *dp,
                                     struct ir_value *delta)
{
    return ir_binary(b, IR_mul, p, ir_binary(b, MUTANT(4, IR_sub, IR_add), dp, delta));
}

/* -- Rows that a mask hides */

struct ir_value *attention_hidden(struct ir_builder *b, struct ir_value *lse)
{
    struct ir_value *low = ir_constant_f(b, type_of(lse), type_of(lse) == TCC_F64 ? -0x1p58 : -0x1p29);
    return ir_binary(b, IR_lt, lse, low);
}

static struct ir_value *places(struct ir_builder *b, int axis, ir_expr n)
{
    ir_expr one = ir_const(b->ctx, 1), dims[] = {one, one, one, one};
    dims[axis] = n;
    return ir_iota(b, 4, dims, axis, TCC_I64);
}

struct ir_value *attention_ties(struct ir_builder *b, struct ir_value *mask, ir_expr queries, ir_expr keys, bool causal,
                                const struct ir_value *lse)
{
    enum tcc_dtype dtype = type_of(lse);
    struct ir_value *key = places(b, 3, keys), *row = causal ? places(b, 2, queries) : key;
    struct ir_value *cast = ir_cast_to(b, mask, dtype), *none = ir_constant_f(b, dtype, -(double)INFINITY);
    struct ir_value *lowest = ir_constant_f(b, dtype, -tcc_largest(dtype)), *shown = ir_binary(b, IR_ge, row, key);
    cast = ir_select(b, shown, cast, none);
    struct ir_value *most = ir_binary(b, IR_max, over_last(b, IR_reduce_max, cast, true), lowest);
    return over_last(b, IR_reduce_sum, ir_cast_to(b, ir_binary(b, IR_eq, cast, most), dtype), false);
}

/* -- Gradients by kernels of their own */

/* Summed over the heads that share one of `shared`: [b, h, t, d] -> [b, g, t, d]. */
static struct ir_value *sum_heads(struct ir_builder *b, struct ir_value *x, ir_expr shared)
{
    static const int64_t axis[] = {2};
    if (!x || ir_expr_eq(b->ctx, shared, x->type->dim[1]) == IR_YES)
        return x;
    const ir_expr *t = x->type->dim;
    ir_expr dims[5] = {t[0], shared, ir_floordiv(b->ctx, t[1], shared), t[2], t[3]};
    return ir_reduce(b, IR_reduce_sum, ir_reshape_to(b, x, 5, dims), 1, axis, false);
}

static struct ir_node *gradient(struct ir_builder *b, enum ir_op op, const struct attention_parts *a,
                                struct ir_value *delta)
{
    struct ir_value *in[7] = {a->q, a->k, a->v, a->dy, a->lse, delta, a->mask};
    return ir_build(b, op, a->mask ? 7 : 6, in,
                    IR_ATTRS(ir_attr_f(IR_ATTR_scale, a->scale), ir_attr_i(IR_ATTR_causal, a->causal)));
}

bool attention_gradients(struct ir_builder *b, const struct attention_parts *a, const bool *wanted,
                         struct ir_value **out)
{
    enum tcc_dtype wide = tcc_small_float(type_of(a->q)) ? TCC_F32 : type_of(a->q);
    struct ir_value *y = ir_cast_to(b, a->y, wide);
    struct ir_value *delta = over_last(b, IR_reduce_sum, ir_binary(b, IR_mul, ir_cast_to(b, a->dy, wide), y), false);
    struct ir_node *n;
    if (!delta)
        return false;
    if (wanted[0]) {
        if (!(n = gradient(b, IR_attention_grad_q, a, delta)))
            return false;
        out[0] = n->out[0];
    }
    if (!wanted[1] && !wanted[2])
        return true;
    if (!(n = gradient(b, IR_attention_grad_vk, a, delta)))
        return false;
    for (int i = 1; i < 3; i++)
        out[i] = wanted[i] ? sum_heads(b, n->out[i == 1], a->k->type->dim[1]) : NULL;
    return (out[1] || !wanted[1]) && (out[2] || !wanted[2]);
}
