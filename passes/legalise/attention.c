/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention.c - attention, its rows' logarithms and its gradients, spelled out as products and what stands between them
 * (exact up to rounding), where the machine has no kernel for them. interp/attention.c has the formulas.
 */
#include "passes/legalise/legalise_int.h"
#include "passes/attention.h"
#include "passes/pass.h"

#include <float.h>

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

/* The scores, in type `to`. The mask is operand `mask_at`, if it is there. */
static struct ir_value *scores_of(struct ir_builder *b, const struct ir_node *n, int mask_at, enum tcc_dtype to)
{
    struct ir_value *q = n->in[0].value, *k = repeat_heads(b, n->in[1].value, q->type->dim[1]);
    struct ir_value *mask = n->nin > mask_at ? n->in[mask_at].value : NULL;
    return attention_scores(b, q, k, mask, ir_get_f(n, IR_ATTR_scale, 1), ir_get_i(n, IR_ATTR_causal, 0), to);
}

static struct ir_value *weighted_mean(struct ir_builder *b, const struct ir_node *n)
{
    struct ir_value *q = n->in[0].value, *scores = scores_of(b, n, 3, q->type->dtype);
    bool nan = ir_get_s(n, IR_ATTR_mode, "zero")[0] == 'n';
    struct ir_value *p = attention_softmax(b, scores, nan ? 0 : 0x1p-14);
    return ir_matmul(b, p, repeat_heads(b, n->in[2].value, q->type->dim[1]), false, false, q->type->dtype);
}

static struct ir_value *log_sum_exp(struct ir_builder *b, const struct ir_node *n)
{
    enum tcc_dtype to = (enum tcc_dtype)n->out[1]->type->dtype;
    struct ir_value *x = scores_of(b, n, 3, to), *lowest = ir_constant_f(b, to, -tcc_largest(to));
    int64_t axis = 3;
    struct ir_value *top = ir_binary(b, IR_max, ir_reduce(b, IR_reduce_max, x, 1, &axis, true), lowest);
    if (!top)
        return NULL;
    struct ir_value *e = ir_unary(b, IR_exp, ir_binary(b, IR_sub, x, top));
    struct ir_value *sum = ir_reduce(b, IR_reduce_sum, e, 1, &axis, false);
    sum = ir_binary(b, IR_max, sum, ir_constant_f(b, to, FLT_MIN));
    struct ir_value *top_shaped = ir_reshape_to(b, top, 3, top->type->dim);
    return ir_binary(b, IR_add, ir_unary(b, IR_log, sum), top_shaped);
}

/* By q, or (of attention_grad_vk) result `of`. */
static struct ir_value *gradient(struct ir_builder *b, const struct ir_node *n, int of)
{
    enum tcc_dtype to = (enum tcc_dtype)n->out[0]->type->dtype, dtype = (enum tcc_dtype)n->in[0].value->type->dtype;
    struct ir_value *q = n->in[0].value, *dy = n->in[3].value, *s = scores_of(b, n, 6, to);
    struct ir_value *p = attention_weights(b, s, attention_column(b, n->in[4].value));
    if (n->op == IR_attention_grad_vk && !of)
        return ir_matmul(b, ir_cast_to(b, p, dtype), dy, true, false, to);
    struct ir_value *dp = ir_matmul(b, dy, repeat_heads(b, n->in[2].value, q->type->dim[1]), false, true, to);
    struct ir_value *ds = attention_by_scores(b, p, dp, attention_column(b, n->in[5].value));
    double scale = ir_get_f(n, IR_ATTR_scale, 1.0);
    if (scale != 1.0)
        ds = ir_binary(b, IR_mul, ds, ir_constant_f(b, to, scale));
    if (n->op != IR_attention_grad_q)
        return ir_matmul(b, ir_cast_to(b, ds, dtype), q, true, false, to);
    struct ir_value *k = repeat_heads(b, n->in[1].value, q->type->dim[1]);
    return ir_matmul(b, ir_cast_to(b, ds, dtype), k, false, false, to);
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
