/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory and the views of it. Programs before decomposition write in place (x[:, 0] = y, buffer += 1); SSA has values only.
 *
 * A name is memory of its own or a view of another name's. Each has a version, which a write counts up. A write to a view becomes a write to what
 * it looks at, of the whole with that part replaced; a view whose operand was written to since is made again, by its own node, when it is
 * read. Which elements a view consists of is found by looking, through that view, at the elements' numbers.
 */
#include "compiler/pt2/pt2_int.h"

/* v's node built on another operand. NULL after a message. */
static struct ir_value *view_of(struct pt2 *p, struct pt2_value *v, struct ir_value *operand)
{
    struct pt2_value *instead = p->instead;
    struct ir_value *instead_v = p->instead_v, **outs = p->outs;
    ir_expr *exprs = p->out_exprs;
    p->instead = v->of;
    p->instead_v = operand;
    p->outs = IR_NEWN(p->ctx, v->index + 1, struct ir_value *);
    p->out_exprs = IR_NEWN(p->ctx, v->index + 1, ir_expr);
    struct ir_value *result = pt2_build(p, v->row, v->node, v->index + 1) ? p->outs[v->index] : NULL;
    p->instead = instead;
    p->instead_v = instead_v;
    p->outs = outs;
    p->out_exprs = exprs;
    return result;
}

struct ir_value *pt2_read(struct pt2 *p, struct pt2_value *v)
{
    if (v == p->instead)
        return p->instead_v;
    if (v->refused || !v->of)
        return v->v;
    struct ir_value *operand = pt2_read(p, v->of);
    if (v->seen != v->of->version) {
        v->v = operand ? view_of(p, v, operand) : NULL;
        v->seen = v->of->version;
        v->version++;
    }
    return v->v;
}

struct ir_value *pt2_put(struct pt2 *p, struct ir_value *x, struct ir_value *which, struct ir_value *part)
{
    struct ir_value *in[] = {pt2_flat(p, x), pt2_flat(p, which), pt2_flat(p, part)};
    if (!in[0] || !in[1] || !in[2])
        return NULL;
    struct ir_value *all = imp_op(p->im, IR_scatter_elements, 3, in,
                                  IR_ATTRS(ir_attr_i(IR_ATTR_axis, 0), ir_attr_s(IR_ATTR_mode, "none")));
    return all ? imp_reshape(p->im, all, imp_rank(x), x->type->dim) : NULL;
}

/* `whole` with the elements that view v looks at replaced by those of `part`. */
static struct ir_value *replaced(struct pt2 *p, struct pt2_value *v, struct ir_value *whole, struct ir_value *part)
{
    ir_expr count = ir_num_elements(p->ctx, whole->type);
    struct ir_value *numbers =
        imp_reshape(p->im, imp_iota(p->im, 1, &count, 0, TCC_I64), imp_rank(whole), whole->type->dim);
    struct ir_value *which = numbers ? view_of(p, v, numbers) : NULL;
    if (which == numbers) /* all of it, in order */
        return imp_reshape(p->im, part, imp_rank(whole), whole->type->dim);
    return pt2_put(p, whole, which, part);
}

bool pt2_write(struct pt2 *p, struct pt2_value *v, struct ir_value *to)
{
    if (v->shares)
        return imp_unsupported(p->im, "a write to what was made of a complex tensor");
    struct ir_value *old = pt2_read(p, v);
    if (!old || !to || !ir_is_tensor(old->type) || !ir_is_tensor(to->type))
        return false;
    to = imp_expand(p->im, imp_cast(p->im, to, imp_dtype(old)), imp_rank(old), old->type->dim);
    if (v->of) {
        struct ir_value *whole = pt2_read(p, v->of);
        to = to && whole ? replaced(p, v, whole, to) : NULL;
        return to && pt2_write(p, v->of, to) && pt2_read(p, v);
    }
    if (!to)
        return false;
    v->v = to;
    v->version++;
    for (int k = 0; k < p->mutated.n; k++) {
        if (p->mutated.at[k] == v)
            return true;
    }
    if (v->state || v->input)
        VEC_PUSH(p->ctx, p->mutated, v);
    return true;
}
