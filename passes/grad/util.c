/* SPDX-License-Identifier: Apache-2.0 */
/* util.c - what the rules build with: broadcasting undone, constants, and the shorthands for common nodes. */
#include "passes/grad/grad_int.h"

#include <string.h>

#include "base/mutant.h"

struct ir_value *grad_reduce(struct grad *g, enum ir_op op, struct ir_value *v, unsigned axes, bool keep)
{
    int64_t list[TCC_MAX_RANK];
    int n = 0;
    if (!v || !axes)
        return v;
    for (int i = 0; i < v->type->rank; i++)
        if (axes >> i & 1)
            list[n++] = i;
    return ir_reduce(g->b, op, v, n, list, keep);
}

/* Is v, which broadcasts to t, one value along the axes? */
static bool constant_along(const struct ir_value *v, ir_type t, unsigned axes)
{
    int lead = t->rank - v->type->rank;
    for (int i = lead; i < t->rank; i++)
        if (axes >> i & 1 && !ir_is_value(v->type->dim[i - lead], 1))
            return false;
    return true;
}

/*
 * Sums v. A factor that is one value along the axes goes in front of the sum: that is less work, and what is left is
 * often a sum that another operand needs too (a norm's bias and its mean). Reduced axes stay as 1.
 */
static struct ir_value *factored_sum(struct grad *g, struct ir_value *v, unsigned axes)
{
    struct ir_node *mul = v->def && v->def->op == IR_mul ? v->def : NULL;
    for (int i = 0; i < 2 && mul; i++) {
        struct ir_value *p = mul->in[1 - i].value, *q = mul->in[i].value;
        if (p->type != v->type || !MUTANT(14, constant_along(q, v->type, axes), true) ||
            ir_is_value(ir_num_elements(g->ctx, q->type), 1))
            continue;
        return ir_binary(g->b, IR_mul, factored_sum(g, p, axes), q);
    }
    return grad_reduce(g, IR_reduce_sum, v, axes, true);
}

/* Sums v over the axes along which t, aligned at the end, is 1 or has none. */
static struct ir_value *sum_to(struct grad *g, struct ir_value *v, ir_type t)
{
    ir_expr dims[TCC_MAX_RANK];
    int lead = v->type->rank - t->rank;
    unsigned axes = 0;
    for (int i = 0; i < v->type->rank; i++) {
        bool reduced = i < lead || (ir_is_value(t->dim[i - lead], 1) && !ir_is_value(v->type->dim[i], 1));
        axes |= (unsigned)reduced << i;
        if (i >= lead)
            dims[i - lead] = reduced ? t->dim[i - lead] : v->type->dim[i];
    }
    if (!axes)
        return v;
    v = factored_sum(g, v, axes);
    return v && lead ? ir_reshape_to(g->b, v, t->rank, dims) : v;
}

/* Does v have to be expanded to become t? */
static bool smaller(ir_type v, ir_type t)
{
    if (v->rank < t->rank)
        return true;
    for (int i = 0; v->rank == t->rank && i < t->rank; i++)
        if (ir_is_value(v->dim[i], 1) && !ir_is_value(t->dim[i], 1))
            return true;
    return false;
}

struct ir_value *grad_fit(struct grad *g, struct ir_value *v, ir_type t)
{
    if (!v)
        return NULL;
    if (!ir_same_dims(v->type, t) && v->type->rank >= t->rank)
        v = sum_to(g, v, t);
    if (v && !ir_same_dims(v->type, t))
        v = smaller(v->type, t) ? ir_expand_to(g->b, v, t->rank, t->dim) : ir_reshape_to(g->b, v, t->rank, t->dim);
    return ir_cast_to(g->b, v, (enum tcc_dtype)t->dtype);
}

struct ir_value *grad_full(struct grad *g, ir_type t, double v)
{
    struct ir_value *c = ir_constant_f(g->b, (enum tcc_dtype)t->dtype, v);
    return t->rank ? ir_expand_to(g->b, c, t->rank, t->dim) : c;
}

struct ir_value *grad_library(struct grad *g, const char *name, int nin, struct ir_value *const *in, ir_type type,
                              const struct ir_attr *own)
{
    int n = 0;
    for (int k = 0; k < nin; k++)
        if (!in[k])
            return NULL;
    while (own && own[n].key != IR_ATTR_NONE)
        n++;
    struct ir_attr *attrs = IR_NEWN(g->ctx, n + 3, struct ir_attr);
    attrs[0] = ir_attr_s(IR_ATTR_name, name);
    attrs[1] = ir_attr_types(IR_ATTR_types, 1, &type);
    for (int k = 0; k < n; k++)
        attrs[k + 2] = own[k];
    struct ir_node *made = ir_build_typed(g->b, IR_lib, nin, in, attrs, 1, &type);
    return made ? made->out[0] : NULL;
}

/* The `count` axes from `from` on stand at `to` in the result, the others keep their order; none moved: v itself. */
struct ir_value *grad_move_axis(struct grad *g, struct ir_value *v, int from, int count, int to)
{
    int64_t perm[TCC_MAX_RANK];
    int rank = v ? v->type->rank : 0, rest = 0;
    if (!v || from == to || !count)
        return v;
    for (int i = 0; i < rank; i++) { /* i: place in the result */
        if (i >= to && i < to + count) {
            perm[i] = from + i - to;
            continue;
        }
        rest = rest == from ? from + count : rest;
        perm[i] = rest++;
    }
    return ir_transpose_by(g->b, v, perm);
}

/* Along axis 0 after moving axes: index[...] becomes [..., 1], tuples of length 1 for scatter_nd. */
struct ir_value *grad_put(struct grad *g, ir_type t, int axis, struct ir_value *index, struct ir_value *v)
{
    ir_expr dims[TCC_MAX_RANK], tuples[TCC_MAX_RANK];
    int nindex = index ? index->type->rank : 0, n = 0;
    if (!v || !index)
        return NULL;
    dims[n++] = t->dim[axis];
    for (int i = 0; i < t->rank; i++)
        if (i != axis)
            dims[n++] = t->dim[i];
    memcpy(tuples, index->type->dim, (size_t)nindex * sizeof *tuples);
    tuples[nindex] = ir_const(g->ctx, 1);
    struct ir_value *in[] = {grad_full(g, ir_tensor_type(g->ctx, (enum tcc_dtype)t->dtype, n, dims), 0),
                             ir_reshape_to(g->b, index, nindex + 1, tuples), grad_move_axis(g, v, axis, nindex, 0)};
    struct ir_value *sum = ir_build1(g->b, IR_scatter_nd, 3, in, IR_ATTRS(ir_attr_s(IR_ATTR_mode, "add")));
    return grad_move_axis(g, sum, 0, 1, axis);
}

unsigned grad_axes(const struct ir_node *n)
{
    const struct ir_attr *a = ir_attr(n, IR_ATTR_axes);
    unsigned axes = 0;
    for (int i = 0; a && i < a->n; i++)
        axes |= 1u << a->ints[i];
    return axes;
}

struct ir_value *grad_keep(struct grad *g, const struct ir_node *n, struct ir_value *v)
{
    ir_type t = n->in[0].value->type;
    ir_expr dims[TCC_MAX_RANK];
    unsigned axes = grad_axes(n);
    if (!v || ir_get_i(n, IR_ATTR_keepdims, 0) || !axes)
        return v;
    for (int i = 0; i < t->rank; i++)
        dims[i] = axes >> i & 1 ? ir_const(g->ctx, 1) : t->dim[i];
    return ir_reshape_to(g->b, v, t->rank, dims);
}
