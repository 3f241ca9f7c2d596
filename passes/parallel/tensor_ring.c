/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention whose sequence is cut (--context-parallel): ring attention (Liu, Zaharia and Abbeel 2023, arXiv
 * 2310.01889). Each rank has a part of the queries, and one of the keys and values, which go around: at step t of T
 * rank r has those of rank r - t, gives them on to rank r + 1, and takes them into its queries' result, by the running
 * maximum and sum of each row, as logarithm of the sum of exp(scores) (attention_lse). No rank ever has more than two
 * parts of keys.
 *
 * The backward pass knows each row's whole sum, so that what a part of the keys adds to the gradient of the queries is
 * added up; the gradients of keys and values go around with them, and are at home again after T steps.
 *
 * A mask of large finite numbers that hides all keys of a row leaves no room for the logarithm of a sum beside it: the
 * result is then the mean of the keys with the largest of them, and parts of keys count by how many those are.
 *
 * Later keys (causal) lie in a rank's own part, or are all those of a later one: a step with these computes nothing.
 * What pads a sequence that T does not divide counts as zeros, and its keys are hidden.
 */
#include "passes/parallel/tensor_int.h"

#include <math.h>
#include <string.h>

#include "passes/attention.h"
#include "passes/util_int.h"

struct ring {
    struct rewriter *w;
    const struct shard_node *x;
    struct ir_value *in[8]; /* the operands; keys and values are those of this step */
    int tensors;            /* operands in front of the mask */
    ir_expr part;           /* keys of a part */
    bool padded;            /* some parts hold fewer */
};

/* To the next rank, and from the one before. */
static struct ir_value *pass_on(struct rewriter *w, struct ir_value *v)
{
    return v ? ir_build1(&w->b, IR_all_to_all, 1, &v,
                         IR_ATTRS(ir_attr_s(IR_ATTR_group, TENSOR_GROUP), ir_attr_s(IR_ATTR_mode, "next")))
             : NULL;
}

/* -- What hides keys ----------------------------------------------------------------------------------------------- */

/* [1, 1, 1, part]: -inf behind the sequence's end, of the part that begins with key `first`. */
static struct ir_value *hide_padding(struct ring *r, ir_expr first)
{
    struct rewriter *w = r->w;
    struct ir_builder *b = &w->b;
    ir_expr one = ir_const(w->ctx, 1), dims[] = {one, one, one, r->part};
    struct ir_value *i = ir_iota(b, 4, dims, 3, TCC_I64);
    struct ir_value *at = ir_dim_value(b, first);
    int64_t keys = ir_const_or(r->x->n->in[1].value->type->dim[2], 0);
    const struct ir_value *like = r->x->n->nin > r->tensors ? r->in[r->tensors] : r->in[0];
    enum tcc_dtype dtype = (enum tcc_dtype)like->type->dtype;
    struct ir_value *zero = ir_constant_f(b, dtype, 0), *never = ir_constant_f(b, dtype, -INFINITY);
    struct ir_value *key = ir_binary(b, IR_add, i, at), *end = ir_constant_i(b, TCC_I64, keys);
    return ir_select(b, ir_binary(b, IR_lt, key, end), zero, never);
}

/* Of a mask with a number for each key those of the part that begins with key `first`; what pads it is hidden. */
static struct ir_value *columns_of(struct ring *r, struct ir_value *mask, ir_expr first)
{
    struct rewriter *w = r->w;
    int last = mask->type->rank - 1;
    ir_expr behind = ir_sub(w->ctx, ir_mulc(w->ctx, r->part, w->parts), mask->type->dim[last]);
    struct ir_value *never = ir_constant_f(&w->b, (enum tcc_dtype)mask->type->dtype, -INFINITY);
    if (r->padded)
        mask = ir_pad_axis(&w->b, mask, never, last, ir_const(w->ctx, 0), behind);
    return ir_slice_axis(&w->b, mask, last, first, r->part);
}

/* What is added to the scores at step t; NULL: nothing. False after a diagnostic. */
static bool mask_at(struct ring *r, int t, bool causal, struct ir_value **out)
{
    struct rewriter *w = r->w;
    struct ir_value *mask = r->x->n->nin > r->tensors ? r->in[r->tensors] : NULL;
    ir_expr from = ir_mod(w->ctx, ir_addc(w->ctx, w->rank, w->parts - t), ir_const(w->ctx, w->parts)),
            first = ir_mul(w->ctx, from, r->part);
    bool columns = mask && !ir_is_value(mask->type->dim[mask->type->rank - 1], 1);
    if (columns && !(mask = columns_of(r, mask, first)))
        return false;
    if (r->padded && !columns && !causal) {
        struct ir_value *more = hide_padding(r, first);
        mask = mask && more ? ir_binary(&w->b, IR_add, mask, more) : more;
    }
    *out = mask;
    return !ir_nerrors(w->ctx);
}

/* -- Steps --------------------------------------------------------------------------------------------------------- */

/* The node for the keys of step t. */
static struct ir_node *at_step(struct ring *r, enum ir_op op, int t)
{
    const struct ir_node *n = r->x->n;
    bool causal = ir_get_i(n, IR_ATTR_causal, 0) != 0;
    struct ir_value *in[8];
    struct ir_builder b = r->w->b;
    memcpy(in, r->in, sizeof in);
    b.where = n->where;
    if (!mask_at(r, t, causal, &in[r->tensors]))
        return NULL;
    struct ir_attr attrs[3] = {ir_attr_i(IR_ATTR_causal, causal && !t)};
    if (ir_attr(n, IR_ATTR_scale))
        attrs[1] = *ir_attr(n, IR_ATTR_scale);
    return ir_build(&b, op, r->tensors + (in[r->tensors] != NULL), in, attrs);
}

/* How many keys of a step have the largest number of their row. NULL where there is no mask. */
static struct ir_value *count_keys(struct ring *r, const struct ir_node *n, bool causal)
{
    if (r->x->n->nin <= r->tensors)
        return NULL;
    return attention_ties(&r->w->b, n->in[r->tensors].value, r->part, r->part, causal, n->out[1]);
}

/* The results of two sets of keys as that of both, by the logarithms of their rows' sums, and their counts. */
static bool join(struct rewriter *w, struct ir_value *const *more, struct ir_value *count, struct ir_value **out)
{
    struct ir_builder *b = &w->b;
    struct ir_value *most = ir_binary(b, IR_max, out[1], more[1]);
    struct ir_value *old = ir_formula(b, "exp(x - y)", out[1], most), *new = ir_formula(b, "exp(x - y)", more[1], most);
    if (count) {
        struct ir_value *of_old = ir_binary(b, IR_mul, old, out[2]), *of_new = ir_binary(b, IR_mul, new, count);
        out[2] = ir_binary(b, IR_add, of_old, of_new);
        struct ir_value *hidden = ir_formula(b, "and(x, gt(y, 0))", attention_hidden(b, most), out[2]);
        old = ir_select(b, hidden, of_old, old);
        new = ir_select(b, hidden, of_new, new);
    }
    struct ir_value *sum = ir_binary(b, IR_add, old, new);
    struct ir_value *first = ir_binary(b, IR_mul, out[0], attention_column(&w->b, ir_binary(b, IR_div, old, sum)));
    struct ir_value *scale = attention_column(&w->b, ir_binary(b, IR_div, new, sum));
    struct ir_value *second = ir_binary(b, IR_mul, ir_cast_to(b, more[0], (enum tcc_dtype)out[0]->type->dtype), scale);
    out[0] = ir_binary(b, IR_add, first, second);
    out[1] = ir_binary(b, IR_add, most, ir_unary(b, IR_log, sum));
    return out[0] && out[1];
}

/* Rows that a mask hides wholly, where they are to be NaN (`mode`). */
static struct ir_value *put_nan(struct ring *r, struct ir_value *const *out)
{
    struct ir_builder *b = &r->w->b;
    enum tcc_dtype dtype = (enum tcc_dtype)out[0]->type->dtype;
    if (r->x->n->nin <= r->tensors || strcmp(ir_get_s(r->x->n, IR_ATTR_mode, "zero"), "nan"))
        return out[0];
    struct ir_value *none = ir_constant_f(b, (enum tcc_dtype)out[2]->type->dtype, 0);
    struct ir_value *hidden = attention_column(&r->w->b, ir_binary(b, IR_eq, out[2], none));
    return ir_select(b, hidden, ir_constant_f(b, dtype, NAN), out[0]);
}

/* Takes the keys of step t into the result, out, of those before; out[2]: count_keys() */
static bool forward(struct ring *r, int t, struct ir_value **out)
{
    struct ir_node *n = at_step(r, IR_attention_lse, t);
    if (!n)
        return false;
    struct ir_value *count = count_keys(r, n, !t && ir_get_i(n, IR_ATTR_causal, 0));
    if (t)
        return join(r->w, n->out, count, out);
    out[2] = count ? ir_expand_to(&r->w->b, count, 3, n->out[1]->type->dim) : NULL;
    out[0] = ir_cast_to(&r->w->b, n->out[0], (enum tcc_dtype)n->out[1]->type->dtype);
    out[1] = n->out[1];
    return out[0] && (out[2] || !count);
}

static bool backward(struct ring *r, int t, struct ir_value **out)
{
    struct ir_node *n = at_step(r, r->x->n->op, t);
    for (int i = 0; n && i < n->nout; i++)
        if (!(out[i] = t ? ir_binary(&r->w->b, IR_add, out[i], n->out[i]) : n->out[i]))
            return false;
    return n != NULL;
}

/* A step, which a rank leaves out whose queries may see none of its keys (causal: those of a later part). */
static bool step(struct ring *r, int t, struct ir_value **out)
{
    struct rewriter *w = r->w;
    bool (*take)(struct ring *, int, struct ir_value **) = r->tensors == 3 ? forward : backward;
    if (!t || !ir_get_i(r->x->n, IR_ATTR_causal, 0))
        return take(r, t, out);
    struct ir_builder *b = &w->b, outside = *b;
    struct ir_value *rank = shard_offset(w, ir_const(w->ctx, 1)), *with[3];
    struct ir_value *sees = ir_binary(b, IR_ge, rank, ir_constant_i(b, TCC_I64, t));
    struct pass_if x;
    ir_type types[3];
    int n = 0;
    for (; n < 3 && out[n]; n++) {
        types[n] = out[n]->type;
        with[n] = out[n];
    }
    if (!pass_begin_if(b, sees, n, types, &x))
        return false;
    *b = x.then;
    bool good = take(r, t, with);
    *b = outside;
    if (!good || !pass_end_if(&x, with, out))
        return false;
    memcpy(out, x.node->out, (size_t)n * sizeof(struct ir_value *));
    return true;
}

static bool go_around(struct ring *r, struct ir_value **out)
{
    struct rewriter *w = r->w;
    for (int t = 0; t < w->parts; t++) {
        bool last = t == w->parts - 1; /* what comes next is on its way while this is computed */
        struct ir_value *k = last ? NULL : pass_on(w, r->in[1]), *v = last ? NULL : pass_on(w, r->in[2]);
        if (!step(r, t, out) || (!last && (!k || !v)))
            return false;
        for (int i = 0; i < 2 && r->x->n->op == IR_attention_grad_vk; i++)
            if (!(out[i] = pass_on(w, out[i])))
                return false;
        r->in[1] = k;
        r->in[2] = v;
    }
    return true;
}

struct ir_value **shard_build_ring(struct rewriter *w, const struct shard_node *x, struct ir_value *const *in)
{
    bool is_forward = x->n->op == IR_attention || x->n->op == IR_attention_lse;
    struct ring r = {.w = w, .x = x, .tensors = is_forward ? 3 : 6};
    struct ir_value **out = IR_NEWN(w->ctx, 3, struct ir_value *);
    if (x->out[0].axis != 2) /* samples or heads */
        return shard_build_plain(w, x, in);
    for (int i = 0; i < x->n->nin; i++) {
        r.in[i] = in[i];
        if (in[i] && x->in[i].kind == SHARD_SPLIT &&
            !(r.in[i] = shard_neutral(w, in[i], x->n->in[i].value->type, x->in[i], SHARD_SUM)))
            return NULL;
    }
    r.part = r.in[1]->type->dim[2];
    r.padded = shard_padding(w->plan, x->n->in[1].value->type->dim[2], x->in[1]) > 0;
    if (!go_around(&r, out))
        return NULL;
    if (is_forward)
        out[0] = ir_cast_to(&w->b, put_nan(&r, out), (enum tcc_dtype)r.in[0]->type->dtype);
    return out[0] ? out : NULL;
}
