/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention.c - attention, its rows' logarithms and its gradients, spelled out as products and what stands between them
 * (exact up to rounding), where the machine has no kernel for them. interp/attention.c has the formulas.
 */
#include "passes/legalise/legalise_int.h"
#include "passes/pass.h"

#include <float.h>
#include <math.h>

static double lowest_finite(enum tcc_dtype d)
{
    return d == TCC_F16 ? -65504 : d == TCC_BF16 ? -0x1.fep127 : d == TCC_F64 ? -DBL_MAX : -FLT_MAX;
}

/* softmax over the last axis; rows that hold -inf only give 0, as IR_attention says. */
static struct ir_value *softmax(struct ir_builder *b, struct ir_value *x, bool nan)
{
    int64_t axis = x->type->rank - 1;
    const struct ir_attr *attrs = IR_ATTRS(ir_attr_ints(IR_ATTR_axes, 1, &axis), ir_attr_i(IR_ATTR_keepdims, 1));
    struct ir_value *top = ir_build1(b, IR_reduce_max, 1, &x, attrs);
    if (!nan)
        top = ir_binary(b, IR_max, top, ir_constant_f(b, x->type->dtype, lowest_finite(x->type->dtype)));
    struct ir_value *e = ir_unary(b, IR_exp, ir_binary(b, IR_sub, x, top));
    struct ir_value *sum = ir_build1(b, IR_reduce_sum, 1, &e, attrs);
    if (!nan)
        sum = ir_binary(b, IR_max, sum, ir_constant_f(b, x->type->dtype, 0x1p-14));
    return ir_binary(b, IR_div, e, sum);
}

/* Heads that share keys: [b, g, t, d] -> [b, h, t, d]. */
static struct ir_value *repeat_heads(struct ir_builder *b, struct ir_value *x, ir_expr heads)
{
    ir_type t = x->type;
    if (t->dim[1] == heads)
        return x;
    ir_expr repeat = ir_floordiv(b->ctx, heads, t->dim[1]);
    ir_expr split[5] = {t->dim[0], t->dim[1], ir_const(b->ctx, 1), t->dim[2], t->dim[3]};
    ir_expr wide[5] = {t->dim[0], t->dim[1], repeat, t->dim[2], t->dim[3]},
            joined[4] = {t->dim[0], heads, t->dim[2], t->dim[3]};
    return ir_reshape_to(b, ir_expand_to(b, ir_reshape_to(b, x, 5, split), 5, wide), 4, joined);
}

/* The scores: scaled and masked, in type `to`. The mask is operand `mask_at`, if it is there. */
static struct ir_value *scores_of(struct ir_builder *b, const struct ir_node *n, int mask_at, enum tcc_dtype to)
{
    struct ir_value *q = n->in[0].value, *mask = n->nin > mask_at ? n->in[mask_at].value : NULL;
    struct ir_value *in[2] = {q, repeat_heads(b, n->in[1].value, q->type->dim[1])};
    struct ir_value *scores =
        ir_build1(b, IR_matmul, 2, in, IR_ATTRS(ir_attr_i(IR_ATTR_trans_b, 1), ir_attr_dtype(IR_ATTR_to, to)));
    double scale = ir_get_f(n, IR_ATTR_scale, 1.0);
    if (scale != 1.0)
        scores = ir_binary(b, IR_mul, scores, ir_constant_f(b, to, scale));
    if (mask)
        scores = ir_binary(b, IR_add, scores, ir_cast_to(b, mask, to));
    if (!ir_get_i(n, IR_ATTR_causal, 0) || !scores)
        return scores;
    ir_expr dims[2] = {scores->type->dim[2], scores->type->dim[3]};
    struct ir_value *position[2];
    for (int axis = 0; axis < 2; axis++)
        position[axis] = ir_build1(b, IR_iota, 0, NULL,
                                   IR_ATTRS(ir_attr_exprs(IR_ATTR_shape, 2, dims), ir_attr_i(IR_ATTR_axis, axis),
                                            ir_attr_dtype(IR_ATTR_to, TCC_I64)));
    struct ir_value *args[3] = {ir_binary(b, IR_ge, position[0], position[1]), scores, ir_constant_f(b, to, -INFINITY)};
    return args[0] ? ir_build1(b, IR_select, 3, args, NULL) : NULL;
}

static struct ir_value *weighted_mean(struct ir_builder *b, const struct ir_node *n)
{
    struct ir_value *q = n->in[0].value, *scores = scores_of(b, n, 3, q->type->dtype);
    bool nan = ir_get_s(n, IR_ATTR_mode, "zero")[0] == 'n';
    struct ir_value *in[2] = {scores ? softmax(b, scores, nan) : NULL,
                              repeat_heads(b, n->in[2].value, q->type->dim[1])};
    return in[0] ? ir_build1(b, IR_matmul, 2, in, NULL) : NULL;
}

static struct ir_value *reduced(struct ir_builder *b, enum ir_op op, struct ir_value *x, bool keep)
{
    int64_t axis = x ? x->type->rank - 1 : 0;
    const struct ir_attr *attrs = IR_ATTRS(ir_attr_ints(IR_ATTR_axes, 1, &axis), ir_attr_i(IR_ATTR_keepdims, keep));
    return x ? ir_build1(b, op, 1, &x, attrs) : NULL;
}

static struct ir_value *log_sum_exp(struct ir_builder *b, const struct ir_node *n)
{
    enum tcc_dtype to = (enum tcc_dtype)n->out[1]->type->dtype;
    struct ir_value *x = scores_of(b, n, 3, to), *lowest = ir_constant_f(b, to, -FLT_MAX);
    struct ir_value *top = x ? ir_binary(b, IR_max, reduced(b, IR_reduce_max, x, true), lowest) : NULL;
    if (!top)
        return NULL;
    struct ir_value *sum = reduced(b, IR_reduce_sum, ir_unary(b, IR_exp, ir_binary(b, IR_sub, x, top)), false);
    sum = ir_binary(b, IR_max, sum, ir_constant_f(b, to, FLT_MIN));
    struct ir_value *top_shaped = ir_reshape_to(b, top, 3, top->type->dim);
    return ir_binary(b, IR_add, ir_unary(b, IR_log, sum), top_shaped);
}

/* [b, h, s] -> [b, h, s, 1] */
static struct ir_value *column(struct ir_builder *b, struct ir_value *x)
{
    ir_expr dims[4] = {x->type->dim[0], x->type->dim[1], x->type->dim[2], ir_const(b->ctx, 1)};
    return ir_reshape_to(b, x, 4, dims);
}

static struct ir_value *product(struct ir_builder *b, struct ir_value *x, struct ir_value *y, bool turn_x, bool turn_y,
                                enum tcc_dtype to)
{
    struct ir_value *in[2] = {x, y};
    return x && y ? ir_build1(b, IR_matmul, 2, in,
                              IR_ATTRS(ir_attr_i(IR_ATTR_trans_a, turn_x), ir_attr_i(IR_ATTR_trans_b, turn_y),
                                       ir_attr_dtype(IR_ATTR_to, to)))
                  : NULL;
}

/* By q, or (of attention_grad_vk) result `of`. */
static struct ir_value *gradient(struct ir_builder *b, const struct ir_node *n, int of)
{
    enum tcc_dtype to = (enum tcc_dtype)n->out[0]->type->dtype, dtype = (enum tcc_dtype)n->in[0].value->type->dtype;
    struct ir_value *q = n->in[0].value, *dy = n->in[3].value, *s = scores_of(b, n, 6, to);
    struct ir_value *p = s ? ir_unary(b, IR_exp, ir_binary(b, IR_sub, s, column(b, n->in[4].value))) : NULL;
    if (!p)
        return NULL;
    if (n->op == IR_attention_grad_vk && !of)
        return product(b, ir_cast_to(b, p, dtype), dy, true, false, to);
    struct ir_value *ds = product(b, dy, repeat_heads(b, n->in[2].value, q->type->dim[1]), false, true, to);
    ds = ds ? ir_binary(b, IR_mul, p, ir_binary(b, IR_sub, ds, column(b, n->in[5].value))) : NULL;
    double scale = ir_get_f(n, IR_ATTR_scale, 1.0);
    if (scale != 1.0 && ds)
        ds = ir_binary(b, IR_mul, ds, ir_constant_f(b, to, scale));
    if (n->op == IR_attention_grad_q) {
        struct ir_value *repeat_heads_dim1 = repeat_heads(b, n->in[1].value, q->type->dim[1]);
        return product(b, ir_cast_to(b, ds, dtype), repeat_heads_dim1, false, false, to);
    }
    return product(b, ir_cast_to(b, ds, dtype), q, true, false, to);
}

static struct ir_value *spelled_out(struct ir_builder *b, const struct ir_node *n, int of)
{
    if (n->op != IR_attention && n->op != IR_attention_lse)
        return gradient(b, n, of);
    return of ? log_sum_exp(b, n) : weighted_mean(b, n);
}

bool legalise_attention(struct pass_run *r, struct ir_builder *b, struct ir_node *n)
{
    const struct pass_machine *m = pass_opts(r)->machine;
    bool kept = false;
    for (int i = 0; i < n->nout; i++) {
        if (!ir_has_uses(n->out[i]))
            continue;
        if (m && m->takes && pass_bounded(r) && m->takes(m, n, i)) { /* a kernel's sums are in another order */
            kept = true;
            continue;
        }
        struct ir_value *v = spelled_out(b, n, i);
        if (!v)
            return false;
        v->name = n->out[i]->name;
        ir_replace_uses(n->out[i], v);
    }
    if (!kept)
        ir_remove(n);
    return true;
}
