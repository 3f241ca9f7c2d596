/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contract.c - gradients of matrix products and of attention.
 *
 * For y = a b with a[m, k], b[k, n]: da = dy b', db = a' dy; stored transposed, the product's sides change places. A
 * matrix b for many a (a linear layer) is differentiated by one product whose sum goes over all rows of all a.
 */
#include "passes/grad/grad_int.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/mutant.h"

/* All leading axes of 1, or none? */
static bool is_matrix(ir_type t)
{
    for (int i = 0; i < t->rank - 2; i++)
        if (!ir_is_value(t->dim[i], 1))
            return false;
    return true;
}

static struct ir_value *as_rows(struct grad *g, struct ir_value *v)
{
    ir_expr dims[2] = {ir_const(g->ctx, 1), NULL};
    if (!v || v->type->rank == 2)
        return v;
    for (int i = 0; i < v->type->rank - 1; i++)
        dims[0] = ir_mul(g->ctx, dims[0], v->type->dim[i]);
    dims[1] = v->type->dim[v->type->rank - 1];
    return ir_reshape_to(g->b, v, 2, dims);
}

static void by_b(struct grad *g, struct ir_node *n, struct ir_value *d)
{
    struct ir_value *a = n->in[0].value, *b = n->in[1].value;
    bool ta = ir_get_i(n, IR_ATTR_trans_a, 0), tb = ir_get_i(n, IR_ATTR_trans_b, 0);
    enum tcc_dtype dt = (enum tcc_dtype)b->type->dtype;
    if (is_matrix(b->type) && !ta && a->type->rank == d->type->rank) {
        struct ir_value *rows = as_rows(g, a), *drows = as_rows(g, d);
        struct cotangent p = {.form = GRAD_PRODUCT, .v = tb ? drows : rows, .w = tb ? rows : drows};
        if (b->type->rank == 2)
            grad_add_cotangent(g, b, p);
        else
            grad_give(g, n, 1, grad_matmul(g, p.v, p.w, true, false, dt));
        return;
    }
    grad_give(g, n, 1, tb ? grad_matmul(g, d, a, true, ta, dt) : grad_matmul(g, a, d, !ta, false, dt));
}

void grad_rule_matmul(struct grad *g, struct ir_node *n)
{
    struct ir_value *a = n->in[0].value, *b = n->in[1].value;
    bool ta = ir_get_i(n, IR_ATTR_trans_a, 0), tb = ir_get_i(n, IR_ATTR_trans_b, 0);
    enum tcc_dtype dt = (enum tcc_dtype)a->type->dtype;
    struct ir_value *d = ir_cast_to(g->b, grad_out(g, n, 0), dt);
    if (!d)
        return;
    if (grad_wants(g, n, 0))
        grad_give(g, n, 0, ta ? grad_matmul(g, b, d, tb, true, dt) : grad_matmul(g, d, b, false, !tb, dt));
    if (grad_wants(g, n, 1))
        by_b(g, n, d);
}

/* -- attention ------------------------------------------------------------------------------------- */

static struct ir_value *over_keys(struct ir_builder *b, enum ir_op op, struct ir_value *x, int keep)
{
    static const int64_t axis[] = {3};
    return ir_build1(b, op, 1, &x, IR_ATTRS(ir_attr_ints(IR_ATTR_axes, 1, axis), ir_attr_i(IR_ATTR_keepdims, keep)));
}

static struct ir_value *places(struct ir_builder *b, int axis, ir_expr n)
{
    ir_expr one = ir_const(b->ctx, 1), dims[] = {one, one, one, one};
    dims[axis] = n;
    return ir_build1(b, IR_iota, 0, NULL,
                     IR_ATTRS(ir_attr_exprs(IR_ATTR_shape, 4, dims), ir_attr_i(IR_ATTR_axis, axis),
                              ir_attr_dtype(IR_ATTR_to, TCC_I64)));
}

struct ir_value *grad_attention_ties(struct ir_builder *b, struct ir_value *mask, ir_expr queries, ir_expr keys,
                                     bool causal, const struct ir_value *lse)
{
    enum tcc_dtype dtype = (enum tcc_dtype)lse->type->dtype;
    struct ir_value *key = places(b, 3, keys), *row = causal ? places(b, 2, queries) : key;
    struct ir_value *cast = ir_cast_to(b, mask, dtype), *none = ir_constant_f(b, dtype, -(double)INFINITY);
    struct ir_value *lowest = ir_constant_f(b, dtype, -FLT_MAX), *shown = ir_binary(b, IR_ge, row, key);
    cast = ir_select(b, shown, cast, none);
    struct ir_value *most = ir_binary(b, IR_max, over_keys(b, IR_reduce_max, cast, 1), lowest);
    return over_keys(b, IR_reduce_sum, ir_cast_to(b, ir_binary(b, IR_eq, cast, most), dtype), 0);
}

struct ir_value *grad_attention_hidden(struct ir_builder *b, struct ir_value *lse)
{
    enum tcc_dtype dtype = (enum tcc_dtype)lse->type->dtype;
    struct ir_value *low = ir_constant_f(b, dtype, dtype == TCC_F64 ? -0x1p58 : -0x1p29);
    return ir_binary(b, IR_lt, lse, low);
}

struct attention {
    struct grad *g;
    struct ir_node *n;
    struct ir_value *q, *k, *v, *mask, *d;
    ir_expr groups, repeat; /* heads = groups * repeat */
    enum tcc_dtype dt, wide;
    double scale;
};

/* Heads that share keys side by side: [b, h, s, d] -> [b, g, r, s, d]. */
static struct ir_value *grouped(const struct attention *a, struct ir_value *x, bool shared)
{
    if (!x)
        return NULL;
    ir_type t = x->type;
    ir_expr dims[5] = {t->dim[0], a->groups, shared ? ir_const(a->g->ctx, 1) : a->repeat, t->dim[2], t->dim[3]};
    return ir_reshape_to(a->g->b, x, 5, dims);
}

/* The added mask, broadcast to [b, h, s, t] at most, with its heads split. */
static struct ir_value *grouped_mask(const struct attention *a)
{
    ir_type t = a->mask->type;
    ir_expr dims[5], one = ir_const(a->g->ctx, 1);
    ir_expr four[4];
    for (int i = 0; i < 4; i++)
        four[i] = i < 4 - t->rank ? one : t->dim[i - (4 - t->rank)];
    bool heads = !ir_is_value(four[1], 1);
    dims[0] = four[0];
    dims[1] = heads ? a->groups : one;
    dims[2] = heads ? a->repeat : one;
    dims[3] = four[2];
    dims[4] = four[3];
    return ir_reshape_to(a->g->b, a->mask, 5, dims);
}

/* q k' scale + mask, -inf where later keys are hidden. */
static struct ir_value *scores(const struct attention *a)
{
    struct grad *g = a->g;
    struct ir_builder *b = g->b;
    bool causal = ir_get_i(a->n, IR_ATTR_causal, 0);
    struct ir_value *grouped_a = grouped(a, a->k, true);
    struct ir_value *s = grad_matmul(g, grouped(a, a->q, false), grouped_a, false, true, a->wide);
    if (a->scale != 1)
        s = ir_binary(b, IR_mul, s, ir_constant_f(b, a->wide, a->scale));
    if (a->mask)
        s = ir_binary(b, IR_add, s, ir_cast_to(b, grouped_mask(a), a->wide));
    if (causal && s) {
        const ir_expr *dims = s->type->dim + 3;
        struct ir_value *columns = grad_iota(g, 2, dims, 1, TCC_I64);
        struct ir_value *seen = ir_binary(b, IR_ge, grad_iota(g, 2, dims, 0, TCC_I64), columns);
        s = ir_select(g->b, seen, s, ir_constant_f(b, a->wide, -(double)INFINITY));
    }
    return s;
}

/* Their softmax as the forward op has it: rows that are masked whole give 0. */
static struct ir_value *weights(const struct attention *a)
{
    struct grad *g = a->g;
    struct ir_builder *b = g->b;
    bool causal = ir_get_i(a->n, IR_ATTR_causal, 0);
    struct ir_value *s = scores(a);
    struct ir_value *top = grad_reduce(g, IR_reduce_max, s, 1u << 4, true);
    if (a->mask || causal)
        top = ir_binary(b, IR_max, top, ir_constant_f(b, a->wide, -FLT_MAX));
    struct ir_value *e = ir_unary(b, IR_exp, ir_binary(b, IR_sub, s, top));
    struct ir_value *sum = grad_reduce(g, IR_reduce_sum, e, 1u << 4, true);
    if (a->mask || causal)
        sum = ir_binary(b, IR_max, sum, ir_constant_f(b, a->wide, 1.0e-37));
    return ir_binary(b, IR_div, e, sum);
}

/* [b, g, r or 1, t, d] summed over the heads that share it, as operand i. */
static void give_heads(const struct attention *a, int i, struct ir_value *v)
{
    struct grad *g = a->g;
    ir_type t = a->n->in[i].value->type;
    if (v && i > 0 && !ir_is_value(a->repeat, 1))
        v = grad_reduce(g, IR_reduce_sum, v, 1u << 2, true);
    grad_give(g, a->n, i, v ? ir_reshape_to(g->b, v, t->rank, t->dim) : NULL);
}

/* p (dp - delta), the scores' gradient before the scale: dp = d v', and delta, the sum over t of dp p, is the sum over
 * e of d y, for rows are long in t and short in e. */
static struct ir_value *score_gradient(const struct attention *a, struct ir_value *p, struct ir_value *d)
{
    struct grad *g = a->g;
    struct ir_value *dp = grad_matmul(g, d, grouped(a, a->v, true), false, true, a->wide);
    struct ir_value *cast = ir_cast_to(g->b, grouped(a, a->n->out[0], false), a->wide);
    struct ir_value *y = ir_binary(g->b, IR_mul, ir_cast_to(g->b, d, a->wide), cast);
    return ir_binary(g->b, IR_mul, p,
                     ir_binary(g->b, MUTANT(4, IR_sub, IR_add), dp, grad_reduce(g, IR_reduce_sum, y, 1u << 4, true)));
}

/* ds to the mask: its gradient before the scale, [b, g, r, s, t] -> [b, h, s, t]. */
static void give_mask(const struct attention *a, struct ir_value *ds)
{
    if (!ds)
        return;
    const ir_expr *s = ds->type->dim;
    ir_expr dims[4] = {s[0], a->q->type->dim[1], s[3], s[4]};
    grad_give(a->g, a->n, 3, ir_reshape_to(a->g->b, ds, 4, dims));
}

/* -- By kernels of their own */

static struct ir_node *gradients(const struct attention *a, enum ir_op op, struct ir_value *lse, struct ir_value *delta)
{
    struct ir_value *in[7] = {a->q, a->k, a->v, a->d, lse, delta, a->mask};
    return delta ? ir_build(a->g->b, op, a->mask ? 7 : 6, in,
                            IR_ATTRS(ir_attr_f(IR_ATTR_scale, a->scale),
                                     ir_attr_i(IR_ATTR_causal, ir_get_i(a->n, IR_ATTR_causal, 0))))
                 : NULL;
}

/* The mask's gradient is as large as the scores are: by products, whose weights come from the rows' logarithms. */
static void give_mask_by(const struct attention *a, struct ir_value *lse)
{
    struct ir_builder *b = a->g->b;
    ir_type t = lse->type;
    ir_expr dims[5] = {t->dim[0], a->groups, a->repeat, t->dim[2], ir_const(a->g->ctx, 1)};
    struct ir_value *s = scores(a), *l = ir_cast_to(b, ir_reshape_to(b, lse, 5, dims), a->wide);
    if (s) {
        struct ir_value *grouped_a = grouped(a, a->d, false);
        give_mask(a, score_gradient(a, ir_unary(b, IR_exp, ir_binary(b, IR_sub, s, l)), grouped_a));
    }
}

/*
 * A mask of large finite numbers that hides all keys of a row leaves no room for the logarithm of a sum beside it:
 * exp() of scores less `lse` is then 1 for each key that has the row's largest number, where the weight is one by their
 * count. Weights are factors of all gradients, as dy is.
 */
static void share_hidden(struct attention *a, struct ir_value *lse)
{
    struct ir_builder *b = a->g->b;
    ir_expr dims[4], queries = a->q->type->dim[2], keys = a->k->type->dim[2];
    bool causal = ir_get_i(a->n, IR_ATTR_causal, 0);
    struct ir_value *one = ir_constant_f(b, (enum tcc_dtype)lse->type->dtype, 1);
    struct ir_value *count = grad_attention_ties(b, a->mask, queries, keys, causal, lse);
    struct ir_value *part = ir_binary(b, IR_div, one, ir_binary(b, IR_max, count, one));
    part = ir_select(b, grad_attention_hidden(b, lse), part, one);
    if (!part)
        return;
    memcpy(dims, part->type->dim, 3 * sizeof *dims);
    dims[3] = ir_const(a->g->ctx, 1);
    part = ir_reshape_to(b, part, 4, dims);
    a->d = ir_binary(b, IR_mul, a->d, ir_cast_to(b, part, (enum tcc_dtype)a->d->type->dtype));
}

/* delta is the sum over t of dp p, which is the sum over e of dy y. */
static void by_kernels(struct attention *a, struct ir_value *lse)
{
    struct grad *g = a->g;
    a->d = ir_cast_to(g->b, a->d, a->dt);
    struct ir_value *out0_cast = ir_cast_to(g->b, a->n->out[0], a->wide);
    struct ir_value *y = ir_binary(g->b, IR_mul, ir_cast_to(g->b, a->d, a->wide), out0_cast);
    struct ir_value *delta = grad_reduce(g, IR_reduce_sum, y, 1u << 3, false);
    struct ir_node *by = grad_wants(g, a->n, 0) ? gradients(a, IR_attention_grad_q, lse, delta) : NULL;
    if (by)
        grad_give(g, a->n, 0, by->out[0]);
    if (!grad_wants(g, a->n, 1) && !grad_wants(g, a->n, 2))
        return;
    by = gradients(a, IR_attention_grad_vk, lse, delta);
    for (int i = 1; i < 3 && by; i++) {
        struct ir_value *v = grad_wants(g, a->n, i) ? by->out[i == 1] : NULL;
        if (v && ir_is_value(a->repeat, 1))
            grad_give(g, a->n, i, v);
        else
            give_heads(a, i, grouped(a, v, false));
    }
}

void grad_rule_attention(struct grad *g, struct ir_node *n)
{
    struct attention a = {.g = g,
                          .n = n,
                          .q = n->in[0].value,
                          .k = n->in[1].value,
                          .v = n->in[2].value,
                          .mask = grad_in(n, 3),
                          .d = grad_out(g, n, 0),
                          .scale = ir_get_f(n, IR_ATTR_scale, 1)};
    if (!a.d)
        return;
    a.dt = (enum tcc_dtype)a.q->type->dtype;
    a.wide = tcc_small_float(a.dt) ? TCC_F32 : a.dt;
    a.groups = a.k->type->dim[1];
    a.repeat = ir_expr_eq(g->ctx, a.groups, a.q->type->dim[1]) == IR_YES
                   ? ir_const(g->ctx, 1)
                   : ir_floordiv(g->ctx, a.q->type->dim[1], a.groups);
    struct ir_value *lse = n->op == IR_attention_lse ? n->out[1] : NULL;
    if (lse) {
        if (a.mask)
            share_hidden(&a, lse);
        by_kernels(&a, lse);
        if (grad_wants(g, n, 3))
            give_mask_by(&a, lse);
        return;
    }
    struct ir_value *p = weights(&a), *d = grouped(&a, a.d, false);
    if (grad_wants(g, n, 2))
        give_heads(&a, 2, grad_matmul(g, ir_cast_to(g->b, p, a.dt), d, true, false, a.wide));
    if (!grad_wants(g, n, 0) && !grad_wants(g, n, 1) && !grad_wants(g, n, 3))
        return;
    struct ir_value *ds = score_gradient(&a, p, d);
    if (grad_wants(g, n, 3))
        give_mask(&a, ds);
    if (MUTANT(3, a.scale != 1, false) && ds)
        ds = ir_binary(g->b, IR_mul, ds, ir_constant_f(g->b, a.wide, a.scale));
    ds = ir_cast_to(g->b, ds, a.dt);
    if (grad_wants(g, n, 0))
        give_heads(&a, 0, grad_matmul(g, ds, grouped(&a, a.k, true), false, false, a.wide));
    if (grad_wants(g, n, 1))
        give_heads(&a, 1, grad_matmul(g, ds, grouped(&a, a.q, false), true, false, a.wide));
}
