/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state_stack.c - stack(concat(in[0], new0), concat(in[1], new1)) is concat(in, stack(new0, new1)): a cache of keys and
 * values in one tensor, as ONNX Runtime's tools write GPT-2. Attention reads the keys before anything else needs the
 * new values, so what computes those moves up.
 */
#include "passes/opt/state_int.h"

struct stack {
    struct ir_func *f;
    struct ir_ctx *ctx;
    struct ir_value *in;
    int axis, along; /* that grows; that parts are stacked on */
    int n;
    struct ir_node **joins; /* concat(in[i], new_i) */
    int *position;          /* of the body's nodes, by id; -1: in front of all joins now */
};

static struct ir_node *defined_by(const struct ir_value *v, enum ir_op op)
{
    return v && v->def && v->def->op == op ? v->def : NULL;
}

/* Behind reshapes that add or take off a dim of 1. */
static struct ir_value *without_units(struct ir_value *v)
{
    while (defined_by(v, IR_reshape))
        v = v->def->in[0].value;
    return v;
}

/* Is v, but for a dim of 1, part i of the input along the axis of the stack? */
static bool is_part(const struct stack *s, struct ir_value *v, int i)
{
    v = without_units(v);
    const struct ir_node *n = v->def;
    const struct ir_tensor *index = n && n->op == IR_gather ? ir_const_of(n->in[1].value) : NULL;
    if (!n || n->nin < 1 || n->in[0].value != s->in)
        return false;
    if (index)
        return index->nelems == 1 && ir_get_i(n, IR_ATTR_axis, 0) == s->along &&
               tcc_load_i64((enum tcc_dtype)index->dtype, ir_tensor_at(index, 0)) == i;
    if (n->op != IR_slice)
        return false;
    const struct ir_attr *starts = ir_attr(n, IR_ATTR_starts), *sizes = ir_attr(n, IR_ATTR_sizes),
                         *steps = ir_attr(n, IR_ATTR_steps);
    for (int d = 0; d < s->in->type->rank; d++)
        if (!ir_is_value(starts->exprs[d], d == s->along ? i : 0) || !ir_is_value(steps->exprs[d], 1) ||
            (d == s->along ? !ir_is_value(sizes->exprs[d], 1) : sizes->exprs[d] != s->in->type->dim[d]))
            return false;
    return true;
}

/* The type without the stack's dim, or with 1 there. */
static bool is_layer(const struct stack *s, ir_type t, ir_type whole)
{
    int rank = whole->rank, skip = t->rank == rank ? 0 : 1;
    if (t->kind != IR_T_TENSOR || t->rank != rank - skip || (!skip && !ir_is_value(t->dim[s->along], 1)))
        return false;
    for (int d = 0; d < rank; d++)
        if (d != s->along && t->dim[d - (skip && d > s->along)] != whole->dim[d])
            return false;
    return true;
}

static bool find_joins(struct stack *s, const struct ir_value *out)
{
    const struct ir_node *stack = defined_by(out, IR_concat);
    if (!stack || stack->block != s->f->body || (s->along = (int)ir_get_i(stack, IR_ATTR_axis, 0)) == s->axis ||
        !ir_is_value(s->in->type->dim[s->along], stack->nin))
        return false;
    s->n = stack->nin;
    s->joins = IR_NEWN(s->ctx, s->n, struct ir_node *);
    for (int i = 0; i < s->n; i++) {
        struct ir_node *join = defined_by(without_units(stack->in[i].value), IR_concat);
        if (!join || join->block != s->f->body || join->nin != 2 || !is_layer(s, join->out[0]->type, out->type) ||
            ir_get_i(join, IR_ATTR_axis, 0) !=
                s->axis - (join->out[0]->type->rank < out->type->rank && s->axis > s->along) ||
            !is_part(s, join->in[0].value, i))
            return false;
        s->joins[i] = join;
    }
    return true;
}

/* -- Order --------------------------------------------------------------------------------------------------------- */

/* May v be computed in front of the node at `first`? Its nodes that stand behind are marked. */
static bool may_rise(struct stack *s, const struct ir_value *v, int first)
{
    const struct ir_node *n = v ? v->def : NULL;
    if (!n || n->block != s->f->body || s->position[n->id] < first)
        return true;
    if (n->nregions || (ir_op_info(n->op)->flags & (IR_F_EFFECT | IR_F_DEFINES_SYMS)))
        return false;
    for (int i = 0; i < s->n; i++)
        if (s->joins[i] == n)
            return false;
    for (int i = 0; i < n->nin; i++)
        if (!may_rise(s, n->in[i].value, first))
            return false;
    return true;
}

static void rise(struct stack *s, const struct ir_value *v, int first, struct ir_node *before)
{
    struct ir_node *n = v ? v->def : NULL;
    if (!n || n->block != s->f->body || s->position[n->id] < first)
        return;
    s->position[n->id] = -1;
    for (int i = 0; i < n->nin; i++)
        rise(s, n->in[i].value, first, before);
    ir_move_before(n, before);
}

/* -- The rewriting ------------------------------------------------------------------------------------------------- */

static struct ir_value *as_layer(struct stack *s, struct ir_builder *b, struct ir_value *v)
{
    int rank = s->in->type->rank;
    ir_expr dims[TCC_MAX_RANK];
    for (int d = 0, k = 0; d < rank; d++)
        dims[d] = v->type->rank == rank ? v->type->dim[d] : d == s->along ? ir_const(s->ctx, 1) : v->type->dim[k++];
    return v->type->rank == rank ? v : ir_reshape_to(b, v, rank, dims);
}

struct ir_value *pass_unstack(struct ir_func *f, struct ir_value *in, struct ir_value *out, int axis)
{
    struct stack s = {.f = f, .ctx = f->module->ctx, .in = in, .axis = axis};
    int n = 0, first = 0;
    if (!find_joins(&s, out))
        return out;
    s.position = IR_NEWN(s.ctx, f->nnodes + 1, int);
    IR_EACH_NODE(node, f->body)
        s.position[node->id] = n++;
    struct ir_node *before = s.joins[0];
    for (int i = 1; i < s.n; i++)
        before = s.position[s.joins[i]->id] < s.position[before->id] ? s.joins[i] : before;
    first = s.position[before->id];
    for (int i = 0; i < s.n; i++)
        if (!may_rise(&s, s.joins[i]->in[1].value, first))
            return out;
    struct ir_builder b = {.ctx = s.ctx, .func = f, .block = f->body, .before = before, .where = before->where};
    struct ir_value **news = IR_NEWN(s.ctx, s.n, struct ir_value *);
    for (int i = 0; i < s.n; i++) {
        rise(&s, s.joins[i]->in[1].value, first, before);
        news[i] = as_layer(&s, &b, s.joins[i]->in[1].value);
    }
    struct ir_value *both[] = {in, ir_concat(&b, s.n, news, s.along)};
    struct ir_value *whole = ir_concat(&b, 2, both, axis);
    for (int i = 0; i < s.n && whole; i++) {
        struct ir_value *old = s.joins[i]->out[0];
        struct ir_value *part = ir_slice_axis(&b, whole, s.along, ir_const(s.ctx, i), ir_const(s.ctx, 1));
        part = part && part->type != old->type ? ir_reshape_to(&b, part, old->type->rank, old->type->dim) : part;
        if (!part)
            return out;
        ir_replace_uses(old, part);
    }
    if (!whole || whole->type != out->type)
        return out;
    ir_replace_uses(out, whole);
    return whole;
}
