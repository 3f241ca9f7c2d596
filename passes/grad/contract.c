/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contract.c - gradients of matrix products and of attention.
 *
 * For y = a b with a[m, k], b[k, n]: da = dy b', db = a' dy; stored transposed, the product's sides change places. A
 * matrix b for many a (a linear layer) is differentiated by one product whose sum goes over all rows of all a.
 */
#include "passes/attention.h"
#include "passes/grad/grad_int.h"

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
            grad_accumulate(g, n, 1, ir_matmul(g->b, p.v, p.w, true, false, dt));
        return;
    }
    grad_accumulate(g, n, 1, tb ? ir_matmul(g->b, d, a, true, ta, dt) : ir_matmul(g->b, a, d, !ta, false, dt));
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
        grad_accumulate(g, n, 0, ta ? ir_matmul(g->b, b, d, tb, true, dt) : ir_matmul(g->b, d, b, false, !tb, dt));
    if (grad_wants(g, n, 1))
        by_b(g, n, d);
}

/* -- attention ------------------------------------------------------------------------------------- */

struct attention {
    struct grad *g;
    struct ir_node *n;
    struct ir_value *q, *k, *v, *mask, *d;
    ir_expr groups, repeat; /* heads = groups * repeat */
    enum tcc_dtype dt, wide;
    double scale;
    bool causal;
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

static struct ir_value *scores(const struct attention *a)
{
    struct ir_value *k = grouped(a, a->k, true), *q = grouped(a, a->q, false), *mask = a->mask ? grouped_mask(a) : NULL;
    return attention_scores(a->g->b, q, k, mask, a->scale, a->causal, a->wide);
}

/* [b, g, r or 1, t, d] summed over the heads that share it, as operand i. */
static void accumulate_heads(const struct attention *a, int i, struct ir_value *v)
{
    struct grad *g = a->g;
    ir_type t = a->n->in[i].value->type;
    if (v && i > 0 && !ir_is_value(a->repeat, 1))
        v = grad_reduce(g, IR_reduce_sum, v, 1u << 2, true);
    grad_accumulate(g, a->n, i, v ? ir_reshape_to(g->b, v, t->rank, t->dim) : NULL);
}

/* p (dp - delta), the scores' gradient before the scale: dp = d v', and delta, the sum over t of dp p, is the sum over
 * e of d y, for rows are long in t and short in e. */
static struct ir_value *score_gradient(const struct attention *a, struct ir_value *p, struct ir_value *d)
{
    struct grad *g = a->g;
    struct ir_value *dp = ir_matmul(g->b, d, grouped(a, a->v, true), false, true, a->wide);
    struct ir_value *cast = ir_cast_to(g->b, grouped(a, a->n->out[0], false), a->wide);
    struct ir_value *y = ir_binary(g->b, IR_mul, ir_cast_to(g->b, d, a->wide), cast);
    return attention_by_scores(g->b, p, dp, grad_reduce(g, IR_reduce_sum, y, 1u << 4, true));
}

/* ds to the mask: its gradient before the scale, [b, g, r, s, t] -> [b, h, s, t]. */
static void accumulate_mask(const struct attention *a, struct ir_value *ds)
{
    if (!ds)
        return;
    const ir_expr *s = ds->type->dim;
    ir_expr dims[4] = {s[0], a->q->type->dim[1], s[3], s[4]};
    grad_accumulate(a->g, a->n, 3, ir_reshape_to(a->g->b, ds, 4, dims));
}

/* -- By kernels of their own */

/* The mask's gradient is as large as the scores are: by products, whose weights come from the rows' logarithms. */
static void give_mask_by(const struct attention *a, struct ir_value *lse)
{
    struct ir_builder *b = a->g->b;
    ir_type t = lse->type;
    ir_expr dims[5] = {t->dim[0], a->groups, a->repeat, t->dim[2], ir_const(a->g->ctx, 1)};
    struct ir_value *s = scores(a), *l = ir_cast_to(b, ir_reshape_to(b, lse, 5, dims), a->wide);
    struct ir_value *d = grouped(a, a->d, false);
    accumulate_mask(a, score_gradient(a, attention_weights(b, s, l), d));
}

/*
 * A mask of large finite numbers that hides all keys of a row leaves no room for the logarithm of a sum beside it:
 * exp() of scores less `lse` is then 1 for each key that has the row's largest number, where the weight is one by their
 * count. Weights are factors of all gradients, as dy is.
 */
static void share_hidden(struct attention *a, struct ir_value *lse)
{
    struct ir_builder *b = a->g->b;
    ir_expr queries = a->q->type->dim[2], keys = a->k->type->dim[2];
    struct ir_value *one = ir_constant_f(b, (enum tcc_dtype)lse->type->dtype, 1);
    struct ir_value *count = attention_ties(b, a->mask, queries, keys, a->causal, lse);
    struct ir_value *part = ir_binary(b, IR_div, one, ir_binary(b, IR_max, count, one));
    part = ir_select(b, attention_hidden(b, lse), part, one);
    part = attention_column(b, part);
    if (part)
        a->d = ir_binary(b, IR_mul, a->d, ir_cast_to(b, part, (enum tcc_dtype)a->d->type->dtype));
}

static void by_kernels(struct attention *a, struct ir_value *lse)
{
    struct grad *g = a->g;
    struct attention_parts parts = {a->q, a->k,     a->v,     a->mask, a->n->out[0], ir_cast_to(g->b, a->d, a->dt),
                                    lse,  a->scale, a->causal};
    bool wanted[3] = {grad_wants(g, a->n, 0), grad_wants(g, a->n, 1), grad_wants(g, a->n, 2)};
    struct ir_value *by[3] = {NULL};
    attention_gradients(g->b, &parts, wanted, by);
    for (int i = 0; i < 3; i++)
        grad_accumulate(g, a->n, i, by[i]);
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
                          .scale = ir_get_f(n, IR_ATTR_scale, 1),
                          .causal = ir_get_i(n, IR_ATTR_causal, 0)};
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
    struct ir_value *p = attention_softmax(g->b, scores(&a), a.mask || a.causal ? 1.0e-37 : 0);
    struct ir_value *d = grouped(&a, a.d, false);
    if (grad_wants(g, n, 2))
        accumulate_heads(&a, 2, ir_matmul(g->b, ir_cast_to(g->b, p, a.dt), d, true, false, a.wide));
    if (!grad_wants(g, n, 0) && !grad_wants(g, n, 1) && !grad_wants(g, n, 3))
        return;
    struct ir_value *ds = score_gradient(&a, p, d);
    if (grad_wants(g, n, 3))
        accumulate_mask(&a, ds);
    if (MUTANT(3, a.scale != 1, false) && ds)
        ds = ir_binary(g->b, IR_mul, ds, ir_constant_f(g->b, a.wide, a.scale));
    ds = ir_cast_to(g->b, ds, a.dt);
    if (grad_wants(g, n, 0))
        accumulate_heads(&a, 0, ir_matmul(g->b, ds, grouped(&a, a.k, true), false, false, a.wide));
    if (grad_wants(g, n, 1))
        accumulate_heads(&a, 1, ir_matmul(g->b, ds, grouped(&a, a.q, false), true, false, a.wide));
}
