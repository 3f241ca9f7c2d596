/* SPDX-License-Identifier: Apache-2.0 */
/*
 * padding.c - convolutions that read a tensor of their own, made of x: with the zeros of the padding, so that no tap
 * has to be left out (exact, but that a weight which is not finite meets these zeros), or with the points alone that
 * one tap steps on, which then are neighbours (exact).
 */
#include "passes/legalise/legalise_int.h"

#include <string.h>

/* x with padding of its last axes; a padding that x already is becomes part of it where the new one's values don't
 * matter. */
static struct ir_value *longer(struct ir_builder *b, struct ir_value *x, ir_expr *before, ir_expr *after,
                               bool any_value)
{
    struct ir_node *inner = x->def && x->def->op == IR_pad && ir_has_one_use(x) ? x->def : NULL;
    struct ir_value *with;
    enum tcc_dtype d = (enum tcc_dtype)x->type->dtype;
    if (inner && any_value && strcmp(ir_get_s(inner, IR_ATTR_mode, "constant"), "constant") == 0) {
        for (int i = 0; i < x->type->rank; i++) {
            before[i] = ir_add(b->ctx, before[i], ir_attr(inner, IR_ATTR_before)->exprs[i]);
            after[i] = ir_add(b->ctx, after[i], ir_attr(inner, IR_ATTR_after)->exprs[i]);
        }
        x = inner->in[0].value;
        with = inner->nin > 1 ? inner->in[1].value : NULL;
    } else {
        with = tcc_is_float(d) ? ir_constant_f(b, d, 0) : ir_constant_i(b, d, 0);
    }
    return ir_pad(b, x, with, before, after);
}

bool pass_is_padded(const struct ir_node *n)
{
    const struct ir_attr *before = ir_attr(n, IR_ATTR_before), *after = ir_attr(n, IR_ATTR_after);
    for (int i = 0; i < before->n; i++)
        if (!ir_is_value(before->exprs[i], 0) || !ir_is_value(after->exprs[i], 0))
            return true;
    return false;
}

struct ir_value *legalise_conv_padded(struct ir_builder *b, const struct ir_node *n, struct ir_value *w, int64_t more)
{
    struct ir_value *x = n->in[0].value, *in[3] = {NULL, w, n->nin > 2 ? n->in[2].value : NULL};
    const struct ir_attr *lo = ir_attr(n, IR_ATTR_before), *hi = ir_attr(n, IR_ATTR_after),
                         *s = ir_attr(n, IR_ATTR_strides), *d = ir_attr(n, IR_ATTR_dilations);
    ir_expr before[TCC_MAX_RANK], after[TCC_MAX_RANK], zero[TCC_MAX_RANK];
    int rank = x->type->rank;
    for (int i = 0; i < rank; i++) {
        zero[i] = ir_const(b->ctx, 0);
        before[i] = i < 2 ? zero[i] : lo->exprs[i - 2];
        after[i] = i < 2 ? zero[i] : hi->exprs[i - 2];
    }
    after[rank - 1] = ir_addc(b->ctx, after[rank - 1], more);
    in[0] = longer(b, x, before, after, !pass_is_padded(n));
    const struct ir_attr *mode = ir_attr(n, IR_ATTR_mode);
    return in[0] ? ir_build1(b, IR_conv, in[2] ? 3 : 2, in,
                             IR_ATTRS(ir_attr_ints(IR_ATTR_strides, s->n, s->ints),
                                      ir_attr_ints(IR_ATTR_dilations, d->n, d->ints),
                                      ir_attr_exprs(IR_ATTR_before, rank - 2, zero),
                                      ir_attr_exprs(IR_ATTR_after, rank - 2, zero),
                                      ir_attr_i(IR_ATTR_groups, ir_get_i(n, IR_ATTR_groups, 1)),
                                      ir_attr_dtype(IR_ATTR_to, (enum tcc_dtype)n->out[0]->type->dtype),
                                      mode ? *mode : (struct ir_attr){0}))
                 : NULL;
}

int64_t legalise_window(struct pass_run *r, const struct ir_node *n, enum pass_window what)
{
    const struct pass_machine *m = pass_opts(r)->machine;
    return m && m->window ? m->window(m, n, what) : 0;
}

struct ir_value *legalise_padding(struct pass_run *r, struct ir_builder *b, const struct ir_node *n)
{
    if (n->op != IR_conv || !pass_bounded(r) || !pass_is_padded(n) || !legalise_window(r, n, PASS_WINDOW_PADDED))
        return NULL;
    return legalise_conv_padded(b, n, n->in[1].value, 0);
}

/* x at every strides[i]-th point of its axes behind the channels, as many as the results are. */
static struct ir_value *gathered(struct ir_builder *b, const struct ir_node *n, const struct ir_attr *strides)
{
    struct ir_value *x = n->in[0].value;
    ir_type t = x->type, y = n->out[0]->type;
    ir_expr start[TCC_MAX_RANK], size[TCC_MAX_RANK], step[TCC_MAX_RANK];
    for (int i = 0; i < t->rank; i++) {
        start[i] = ir_const(b->ctx, 0);
        size[i] = i < 2 ? t->dim[i] : y->dim[i];
        step[i] = ir_const(b->ctx, i < 2 ? 1 : strides->ints[i - 2]);
    }
    return ir_slice(b, x, start, size, step);
}

struct ir_value *legalise_strided(struct pass_run *r, struct ir_builder *b, const struct ir_node *n)
{
    if (n->op != IR_conv || !legalise_window(r, n, PASS_WINDOW_GATHERED))
        return NULL;
    const struct ir_attr *s = ir_attr(n, IR_ATTR_strides);
    int64_t ones[TCC_MAX_RANK];
    for (int i = 0; i < s->n; i++)
        ones[i] = 1;
    struct ir_value *in[3] = {gathered(b, n, s), n->in[1].value, n->nin > 2 ? n->in[2].value : NULL};
    struct ir_attr *attrs = IR_NEWN(b->ctx, n->nattrs + 1, struct ir_attr); /* ends with zeros */
    for (int i = 0; i < n->nattrs; i++)
        attrs[i] = n->attrs[i].key == IR_ATTR_strides ? ir_attr_ints(IR_ATTR_strides, s->n, ones) : n->attrs[i];
    return in[0] ? ir_build1(b, IR_conv, in[2] ? 3 : 2, in, attrs) : NULL;
}
