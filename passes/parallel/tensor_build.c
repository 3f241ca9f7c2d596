/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes of one rank's part, by the column `build` of tensor.def. */
#include "passes/parallel/tensor_int.h"

#include <string.h>

static struct ir_attr *copy_attrs(struct rewriter *w, const struct ir_node *n)
{
    struct ir_attr *attrs = IR_LONGER(w->ctx, n->attrs, n->nattrs);
    return attrs;
}

/* One entry of an attribute's list becomes e. */
static void change(struct rewriter *w, struct ir_attr *attrs, enum ir_attr_key key, int i, ir_expr e)
{
    while (attrs->key != key)
        attrs++;
    ir_expr *list = IR_NEWN(w->ctx, attrs->n, ir_expr);
    memcpy(list, attrs->exprs, (size_t)attrs->n * sizeof *list);
    list[i] = e;
    attrs->exprs = list;
}

static struct ir_value **build(struct rewriter *w, const struct ir_node *n, struct ir_value *const *in,
                               const struct ir_attr *attrs)
{
    struct ir_builder b = w->b;
    b.where = n->where;
    struct ir_node *made = ir_build(&b, n->op, n->nin, in, attrs);
    return made ? made->out : NULL;
}

struct ir_value **shard_build_plain(struct rewriter *w, const struct shard_node *x, struct ir_value *const *in)
{
    struct ir_attr *attrs = copy_attrs(w, x->n);
    struct sharding c = x->out[0];
    struct ir_value **own = IR_NEWN(w->ctx, x->n->nin + 1, struct ir_value *);
    if (ir_attr(x->n, IR_ATTR_shape) && c.kind == SHARD_SPLIT)
        change(w, attrs, IR_ATTR_shape, c.axis, shard_size(w->plan, x->n->out[0]->type->dim[c.axis], c));
    for (int i = 0; i < x->n->nin; i++) {
        own[i] = in[i];
        if (in[i] && x->in[i].kind == SHARD_SPLIT && c.kind != SHARD_SPLIT &&
            !(own[i] = shard_neutral(w, in[i], x->n->in[i].value->type, x->in[i], c.kind)))
            return NULL;
    }
    return build(w, x->n, own, attrs);
}

struct ir_value **shard_build_slice(struct rewriter *w, const struct shard_node *x, struct ir_value *const *in)
{
    struct ir_attr *attrs = copy_attrs(w, x->n);
    struct sharding c = x->out[0];
    if (c.kind == SHARD_SPLIT) {
        ir_expr start = ir_attr(x->n, IR_ATTR_starts)->exprs[c.axis];
        start = ir_is_value(start, 0) ? start : shard_divide(w->ctx, start, ir_const(w->ctx, w->parts));
        if (!start) { /* the blocks in front of it are parts too */
            return ir_diag(w->ctx, &x->n->where, IR_D_BUG, "tensor parallel: a slice that begins inside a part"), NULL;
        }
        change(w, attrs, IR_ATTR_starts, c.axis, start);
        change(w, attrs, IR_ATTR_sizes, c.axis, shard_size(w->plan, x->n->out[0]->type->dim[c.axis], c));
    }
    return build(w, x->n, in, attrs);
}

/* -- By index ------------------------------------------------------------------------------------------------------ */

/*
 * Indices of an axis of `whole` elements, of which this rank has `size`: those of its part, the first one for elements
 * of others (*here: is it this rank's?), and for indices outside the axis one outside the part, so that they fault on
 * all ranks.
 */
static struct ir_value *own_index(struct rewriter *w, struct ir_value *index, ir_expr whole, ir_expr size,
                                  struct ir_value **here)
{
    struct ir_builder *b = &w->b;
    struct ir_value *i = ir_cast_to(b, index, TCC_I64), *zero = ir_constant_i(b, TCC_I64, 0),
                    *n = ir_dim_value(&w->b, size), *all = ir_dim_value(&w->b, whole);
    struct ir_value *sum = ir_binary(b, IR_add, i, all);
    i = ir_select(&w->b, ir_binary(b, IR_lt, i, zero), sum, i);
    struct ir_value *own = ir_binary(b, IR_sub, i, shard_offset(w, size));
    struct ir_value *is_at_least = ir_binary(b, IR_ge, i, all);
    struct ir_value *outside = ir_binary(b, IR_or, ir_binary(b, IR_lt, i, zero), is_at_least);
    struct ir_value *is_less = ir_binary(b, IR_lt, own, n);
    *here = ir_binary(b, IR_and, ir_binary(b, IR_ge, own, zero), is_less);
    return ir_select(&w->b, *here, own, ir_select(&w->b, outside, n, zero));
}

/* v where `here` (v's axes from `first` on; others behind are broadcast), else 0. */
static struct ir_value *masked(struct rewriter *w, struct ir_value *v, struct ir_value *here, int first)
{
    ir_expr dims[TCC_MAX_RANK];
    int n = 0;
    if (!v || !here)
        return NULL;
    for (int i = 0; i < here->type->rank; i++)
        dims[n++] = here->type->dim[i];
    while (first + n < v->type->rank)
        dims[n++] = ir_const(w->ctx, 1);
    enum tcc_dtype dtype = (enum tcc_dtype)v->type->dtype;
    struct ir_value *zero = tcc_is_float(dtype) ? ir_constant_f(&w->b, dtype, 0) : ir_constant_i(&w->b, dtype, 0);
    return ir_select(&w->b, n == here->type->rank ? here : ir_reshape_to(&w->b, here, n, dims), v, zero);
}

/* Operand i; zeros where it is padded. */
static struct ir_value *without_padding(struct rewriter *w, const struct shard_node *x, struct ir_value *const *in,
                                        int i)
{
    return x->in[i].kind == SHARD_SPLIT ? shard_neutral(w, in[i], x->n->in[i].value->type, x->in[i], SHARD_SUM) : in[i];
}

struct ir_value **shard_build_gather(struct rewriter *w, const struct shard_node *x, struct ir_value *const *in)
{
    int axis = (int)ir_get_i(x->n, IR_ATTR_axis, 0);
    bool rows = x->in[0].kind == SHARD_SPLIT && x->in[0].axis == axis;
    struct ir_value *here = NULL, *own[2] = {in[0], rows ? in[1] : without_padding(w, x, in, 1)};
    if (!rows)
        return own[1] ? build(w, x->n, own, copy_attrs(w, x->n)) : NULL;
    own[1] = own_index(w, in[1], x->n->in[0].value->type->dim[axis], in[0]->type->dim[axis], &here);
    struct ir_value **out = own[1] ? build(w, x->n, own, copy_attrs(w, x->n)) : NULL;
    struct ir_value *v = out ? masked(w, out[0], here, x->n->op == IR_gather ? axis : 0) : NULL;
    return v ? v->def->out : NULL;
}

struct ir_value **shard_build_scatter(struct rewriter *w, const struct shard_node *x, struct ir_value *const *in)
{
    bool nd = x->n->op == IR_scatter_nd;
    int axis = nd ? 0 : (int)ir_get_i(x->n, IR_ATTR_axis, 0), batch = in[1]->type->rank - 1;
    bool rows = x->in[0].kind == SHARD_SPLIT && x->in[1].kind == SHARD_REPLICATED && x->in[2].kind == SHARD_REPLICATED;
    struct ir_value *here = NULL, *own[3] = {in[0], in[1], in[2]};
    if (!rows) {
        struct ir_value *index = without_padding(w, x, in, 1), *updates = without_padding(w, x, in, 2);
        own[1] = index;
        own[2] = updates;
        return index && updates ? build(w, x->n, own, copy_attrs(w, x->n)) : NULL;
    }
    own[1] = own_index(w, in[1], x->n->in[0].value->type->dim[axis], in[0]->type->dim[axis], &here);
    if (nd && here) /* [..., 1] */
        here = ir_reshape_to(&w->b, here, batch, here->type->dim);
    own[2] = masked(w, in[2], here, 0);
    return own[1] && own[2] ? build(w, x->n, own, copy_attrs(w, x->n)) : NULL;
}
