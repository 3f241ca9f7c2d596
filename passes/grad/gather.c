/* SPDX-License-Identifier: Apache-2.0 */
/* gather.c - gradients of gathers (scatters in mode add), of scatters, and of topk. */
#include "passes/grad/grad_int.h"

#include <string.h>

#include "base/mutant.h"

void grad_rule_gather(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0), *x = n->in[0].value, *index = n->in[1].value;
    const struct ir_tensor *constant = ir_const_of(index);
    int axis = (int)ir_get_i(n, IR_ATTR_axis, 0);
    ir_expr dims[TCC_MAX_RANK];

    if (!d || index->type->rank) {
        grad_accumulate(g, n, 0, d ? grad_put(g, x->type, axis, index, d) : NULL);
        return;
    }
    if (constant) { /* one element: a slice without its axis */
        int64_t at = tcc_load_i64((enum tcc_dtype)constant->dtype, constant->data);
        memcpy(dims, x->type->dim, (size_t)x->type->rank * sizeof *dims);
        dims[axis] = ir_const(g->ctx, 1);
        grad_add_cotangent(
            g, x,
            (struct cotangent){.form = GRAD_SLICE,
                               .axis = axis,
                               .start = at < 0 ? ir_addc(g->ctx, x->type->dim[axis], at) : ir_const(g->ctx, at),
                               .v = ir_reshape_to(g->b, d, x->type->rank, dims)});
        return;
    }
    grad_add_cotangent(g, x, (struct cotangent){.form = GRAD_PICK, .axis = axis, .v = d, .w = index});
}

static struct ir_value *scatter(struct grad *g, enum ir_op op, struct ir_value *x, struct ir_value *index,
                                struct ir_value *updates, int64_t axis, const char *mode)
{
    struct ir_value *in[] = {x, index, updates};
    struct ir_attr attrs[] = {ir_attr_s(IR_ATTR_mode, mode),
                              op == IR_scatter_elements ? ir_attr_i(IR_ATTR_axis, axis) : (struct ir_attr){0},
                              {0}};
    return ir_build1(g->b, op, 3, in, attrs);
}

/* Is one element taken per row, all rows being there? */
static bool one_each(struct grad *g, ir_type t, ir_type index, int axis)
{
    bool same = ir_is_value(index->dim[axis], 1);
    for (int i = 0; i < t->rank; i++)
        same &= i == axis || ir_expr_eq(g->ctx, t->dim[i], index->dim[i]) == IR_YES;
    return same;
}

/* d where the place along axis is the index, else 0: elementwise, nothing is scattered. */
static struct ir_value *one_hot(struct grad *g, ir_type t, int axis, struct ir_value *index, struct ir_value *d)
{
    enum tcc_dtype to = (enum tcc_dtype)index->type->dtype;
    struct ir_value *size = ir_cast_to(g->b, ir_dim_value(g->b, t->dim[axis]), to);
    struct ir_value *zero = ir_constant_i(g->b, to, 0);
    struct ir_value *from_end = ir_binary(g->b, IR_add, index, size);
    struct ir_value *at = ir_select(g->b, ir_binary(g->b, IR_lt, index, zero), MUTANT(10, from_end, index), index);
    struct ir_value *here = ir_binary(g->b, IR_eq, ir_iota(g->b, t->rank, t->dim, axis, to), at);
    return ir_select(g->b, here, d, ir_constant_f(g->b, (enum tcc_dtype)t->dtype, 0));
}

void grad_rule_gather_elements(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0), *index = n->in[1].value;
    ir_type t = n->in[0].value->type;
    int axis = (int)ir_get_i(n, IR_ATTR_axis, 0);
    if (!d)
        return;
    grad_accumulate(g, n, 0,
                    one_each(g, t, index->type, axis)
                        ? one_hot(g, t, axis, index, d)
                        : scatter(g, IR_scatter_elements, grad_full(g, t, 0), index, d, axis, "add"));
}

/* Index tuples with the batch axes' places in front. */
static struct ir_value *with_batch(struct grad *g, struct ir_value *index, int batch)
{
    struct ir_value *parts[TCC_MAX_RANK + 1];
    ir_expr dims[TCC_MAX_RANK];
    int rank = index->type->rank;
    memcpy(dims, index->type->dim, (size_t)rank * sizeof *dims);
    dims[rank - 1] = ir_const(g->ctx, 1);
    for (int i = 0; i < batch; i++)
        parts[i] = ir_iota(g->b, rank, dims, i, (enum tcc_dtype)index->type->dtype);
    parts[batch] = index;
    return batch ? ir_concat(g->b, batch + 1, parts, rank - 1) : index;
}

void grad_rule_gather_nd(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0);
    ir_type t = n->in[0].value->type;
    int batch = (int)ir_get_i(n, IR_ATTR_batch_dims, 0);
    if (d) {
        struct ir_value *index = with_batch(g, n->in[1].value, batch);
        grad_accumulate(g, n, 0, scatter(g, IR_scatter_nd, grad_full(g, t, 0), index, d, 0, "add"));
    }
}

/* -- Scatters -------------------------------------------------------------------------------------- */

struct scatter {
    struct grad *g;
    struct ir_node *n;
    struct ir_value *x, *index, *updates, *r, *d;
    int64_t axis;
};

/* What v holds where the updates went. */
static struct ir_value *taken(const struct scatter *s, struct ir_value *v)
{
    struct ir_value *in[] = {v, s->index};
    if (s->n->op == IR_scatter_elements)
        return ir_build1(s->g->b, IR_gather_elements, 2, in, IR_ATTRS(ir_attr_i(IR_ATTR_axis, s->axis)));
    return ir_build1(s->g->b, IR_gather_nd, 2, in, IR_ATTRS(ir_attr_i(IR_ATTR_batch_dims, 0)));
}

static struct ir_value *put(const struct scatter *s, struct ir_value *x, struct ir_value *updates, const char *mode)
{
    return scatter(s->g, s->n->op, x, s->index, updates, s->axis, mode);
}

/* none: the last update of a place wins, those before it get nothing. Each update's number is scattered to find it. */
static void replaced(const struct scatter *s)
{
    struct grad *g = s->g;
    ir_type u = s->updates->type;
    grad_accumulate(g, s->n, 0, grad_wants(g, s->n, 0) ? put(s, s->d, grad_full(g, u, 0), "none") : NULL);
    if (!grad_wants(g, s->n, 2))
        return;
    if (s->n->op == IR_scatter_nd) {
        grad_accumulate(g, s->n, 2, taken(s, s->d));
        return;
    }
    ir_expr size = ir_num_elements(g->ctx, u);
    struct ir_value *numbers = ir_reshape_to(g->b, ir_iota(g->b, 1, &size, 0, TCC_I64), u->rank, u->dim);
    ir_type at = ir_with_dtype(g->ctx, s->x->type, TCC_I64);
    struct ir_value *none = ir_expand_to(g->b, ir_constant_i(g->b, TCC_I64, -1), at->rank, at->dim);
    struct ir_value *last = ir_binary(g->b, IR_eq, taken(s, put(s, none, numbers, "none")), numbers);
    struct ir_value *zero = ir_constant_f(g->b, (enum tcc_dtype)u->dtype, 0);
    grad_accumulate(g, s->n, 2, ir_select(g->b, last, taken(s, s->d), zero));
}

/* mul: d times the product of what else the place has; of the only update there that is 0, of the others. */
static void multiplied(const struct scatter *s)
{
    struct grad *g = s->g;
    if (grad_wants(g, s->n, 0))
        grad_accumulate(g, s->n, 0, put(s, s->d, s->updates, "mul"));
    if (!grad_wants(g, s->n, 2))
        return;
    enum tcc_dtype dt = (enum tcc_dtype)s->x->type->dtype;
    struct ir_value *zero = ir_constant_f(g->b, dt, 0), *one = ir_constant_f(g->b, dt, 1);
    struct ir_value *is_zero = ir_binary(g->b, IR_eq, s->updates, zero);
    struct ir_value *rest = ir_select(g->b, is_zero, one, s->updates);
    struct ir_value *marks = ir_cast_to(g->b, is_zero, dt), *none = grad_full(g, s->x->type, 0);
    struct ir_value *only = ir_binary(g->b, IR_eq, put(s, none, marks, "add"), one);
    struct ir_value *others = ir_binary(g->b, IR_mul, s->d, put(s, s->x, rest, "mul"));
    struct ir_value *of_zero = taken(s, ir_select(g->b, only, others, zero));
    struct ir_value *of_others = ir_binary(g->b, IR_div, taken(s, ir_binary(g->b, IR_mul, s->d, s->r)), rest);
    grad_accumulate(g, s->n, 2, ir_select(g->b, is_zero, of_zero, of_others));
}

/* min, max: x and the updates that equal the result share its gradient evenly. */
static void extreme(const struct scatter *s)
{
    struct grad *g = s->g;
    enum tcc_dtype dt = (enum tcc_dtype)s->x->type->dtype;
    struct ir_value *zero = ir_constant_f(g->b, dt, 0);
    struct ir_value *kept = ir_binary(g->b, IR_eq, s->x, s->r),
                    *won = ir_binary(g->b, IR_eq, s->updates, taken(s, s->r));
    struct ir_value *won_cast = ir_cast_to(g->b, won, dt);
    struct ir_value *count = put(s, ir_cast_to(g->b, kept, dt), won_cast, "add");
    struct ir_value *share = ir_binary(g->b, IR_div, s->d, count);
    if (grad_wants(g, s->n, 0))
        grad_accumulate(g, s->n, 0, ir_select(g->b, kept, share, zero));
    if (grad_wants(g, s->n, 2))
        grad_accumulate(g, s->n, 2, ir_select(g->b, won, taken(s, share), zero));
}

void grad_rule_scatter(struct grad *g, struct ir_node *n)
{
    struct scatter s = {g,
                        n,
                        n->in[0].value,
                        n->in[1].value,
                        n->in[2].value,
                        n->out[0],
                        grad_out(g, n, 0),
                        ir_get_i(n, IR_ATTR_axis, 0)};
    const char *mode = ir_get_s(n, IR_ATTR_mode, "none");
    if (!s.d)
        return;
    if (!strcmp(mode, "none")) {
        replaced(&s);
    } else if (!strcmp(mode, "add")) {
        grad_accumulate(g, n, 0, s.d);
        grad_accumulate(g, n, 2, grad_wants(g, n, 2) ? taken(&s, s.d) : NULL);
    } else if (!strcmp(mode, "mul")) {
        multiplied(&s);
    } else {
        extreme(&s);
    }
}

void grad_rule_topk(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0);
    if (d)
        grad_accumulate(g, n, 0,
                        scatter(g, IR_scatter_elements, grad_full(g, n->in[0].value->type, 0), n->out[1], d,
                                ir_get_i(n, IR_ATTR_axis, 0), "add"));
}
