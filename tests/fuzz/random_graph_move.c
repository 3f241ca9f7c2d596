/* SPDX-License-Identifier: Apache-2.0 */
/* Makers of the random-graph generator: moves, scans, sorting. All but cumsum keep values as they are. */
#include "tests/fuzz/random_graph_int.h"

void make_transpose(struct gen *g)
{
    struct item *x = pick(g);
    int64_t perm[TCC_MAX_RANK];
    int rank = x->v->type->rank;

    if (rank < 2)
        return;
    for (int i = 0; i < rank; i++)
        perm[i] = i;
    for (int i = rank - 1; i > 0; i--) {
        int j = below(g, i + 1);
        int64_t t = perm[i];
        perm[i] = perm[j];
        perm[j] = t;
    }
    add(g, ir_transpose_by(&g->b, x->v, perm), x->mag, x->scale, x->exact);
}

/* Merges two neighbouring axes, splits one, or adds a 1. */
void make_reshape(struct gen *g)
{
    struct item *x = pick(g);
    ir_type t = x->v->type;
    ir_expr dims[TCC_MAX_RANK];
    int n = 0, what = below(g, 3), at = t->rank ? below(g, t->rank) : 0;
    int64_t size;

    if (t->rank < 1 || (what == 0 && at + 1 >= t->rank))
        return;
    for (int i = 0; i < t->rank; i++) {
        if (i == at && what == 0) {
            dims[n++] = ir_mul(g->ctx, t->dim[i], t->dim[i + 1]);
            i++;
        } else if (i == at && what == 1) {
            int64_t factor = 2 + below(g, 3);
            if (!dim_value(g, t->dim[i], &size) || size % factor != 0)
                return;
            ir_expr f = ir_const(g->ctx, factor), rest = ir_floordiv(g->ctx, t->dim[i], f);
            bool swap = below(g, 2);
            dims[n++] = swap ? rest : f;
            dims[n++] = swap ? f : rest;
        } else if (i == at) {
            dims[n++] = ir_const(g->ctx, 1);
            dims[n++] = t->dim[i];
        } else {
            dims[n++] = t->dim[i];
        }
    }
    add(g, ir_reshape_to(&g->b, x->v, n, dims), x->mag, x->scale, x->exact);
}

void make_slice(struct gen *g)
{
    struct item *x = pick(g);
    ir_type t = x->v->type;
    ir_expr starts[TCC_MAX_RANK], sizes[TCC_MAX_RANK], steps[TCC_MAX_RANK];
    int64_t size;

    if (t->rank < 1)
        return;
    for (int i = 0; i < t->rank; i++) {
        starts[i] = ir_const(g->ctx, 0);
        steps[i] = ir_const(g->ctx, 1);
        sizes[i] = t->dim[i];
        if (below(g, 2) || !dim_value(g, t->dim[i], &size) || size < 2)
            continue;
        if (!ir_is_const(t->dim[i], NULL) && below(g, 2)) { /* all but some at an end, or every other */
            int cut = 1 + below(g, 2);
            if (cut < size)
                sizes[i] = ir_addc(g->ctx, t->dim[i], -cut);
            starts[i] = ir_const(g->ctx, below(g, 2) && cut < size ? cut : 0);
            if (below(g, 3) == 0) {
                steps[i] = ir_const(g->ctx, 2);
                sizes[i] = ir_ceildiv(g->ctx, sizes[i], steps[i]);
            }
            continue;
        }
        int64_t step = below(g, 4) == 0 ? -1 : 1 + (below(g, 3) == 0), start = below(g, (int)size / 2 + 1);
        int64_t most = step < 0 ? start + 1 : (size - start + step - 1) / step;
        starts[i] = ir_const(g->ctx, start);
        steps[i] = ir_const(g->ctx, step);
        sizes[i] = ir_const(g->ctx, 1 + below(g, (int)most));
    }
    add(g,
        ir_build1(&g->b, IR_slice, 1, &x->v,
                  IR_ATTRS(ir_attr_exprs(IR_ATTR_starts, t->rank, starts), ir_attr_exprs(IR_ATTR_sizes, t->rank, sizes),
                           ir_attr_exprs(IR_ATTR_steps, t->rank, steps))),
        x->mag, x->scale, x->exact);
}

void make_concat(struct gen *g)
{
    struct item *x = pick(g), *y = pick(g);

    if (x->v->type->rank < 1)
        return;
    if (y->v->type != x->v->type)
        y = x;
    struct ir_value *in[3] = {x->v, y->v, x->v};
    add(g,
        ir_build1(&g->b, IR_concat, 2 + below(g, 2), in, IR_ATTRS(ir_attr_i(IR_ATTR_axis, below(g, x->v->type->rank)))),
        x->mag > y->mag ? x->mag : y->mag, x->scale > y->scale ? x->scale : y->scale,
        x->exact < y->exact ? x->exact : y->exact);
}

void make_interleave(struct gen *g)
{
    struct item *x = pick(g), *y = pick(g);
    int rank = x->v->type->rank, axes = 1 + below(g, 2), pieces = 1;
    int64_t strides[2];

    if (rank < axes || x->v->type->kind != IR_T_TENSOR)
        return;
    if (y->v->type != x->v->type)
        y = x;
    for (int i = 0; i < axes; i++) {
        strides[i] = 1 + below(g, 2);
        pieces *= (int)strides[i];
    }
    struct ir_value *in[4] = {x->v, y->v, y->v, x->v};
    add(g, ir_build1(&g->b, IR_interleave, pieces, in, IR_ATTRS(ir_attr_ints(IR_ATTR_strides, axes, strides))),
        x->mag > y->mag ? x->mag : y->mag, x->scale > y->scale ? x->scale : y->scale,
        x->exact < y->exact ? x->exact : y->exact);
}

void make_pad(struct gen *g)
{
    static const char *const modes[] = {"constant", "edge", "reflect", "wrap"};
    struct item *x = pick(g);
    ir_type t = x->v->type;
    ir_expr before[TCC_MAX_RANK], after[TCC_MAX_RANK];
    int mode = below(g, 4);
    int64_t size;

    if (t->rank < 1)
        return;
    for (int i = 0; i < t->rank; i++) {
        int b = below(g, 3), a = below(g, 3);
        if (below(g, 2) || (mode && (!dim_value(g, t->dim[i], &size) || size < 4)))
            a = b = 0;
        before[i] = ir_const(g->ctx, b);
        after[i] = ir_const(g->ctx, a);
    }
    add(g,
        ir_build1(&g->b, IR_pad, 1, &x->v,
                  IR_ATTRS(ir_attr_exprs(IR_ATTR_before, t->rank, before), ir_attr_exprs(IR_ATTR_after, t->rank, after),
                           ir_attr_s(IR_ATTR_mode, modes[mode]))),
        x->mag, x->scale, x->exact);
}

void make_expand(struct gen *g)
{
    struct item *x = pick(g);
    ir_type t = x->v->type;
    ir_expr dims[TCC_MAX_RANK];

    struct item *like = below(g, 3) ? NULL : pick(g);
    dims[0] = like && like->v->type->rank ? like->v->type->dim[0] : ir_const(g->ctx, 1 + below(g, 3));
    for (int i = 0; i < t->rank; i++)
        dims[i + 1] = ir_is_value(t->dim[i], 1) && below(g, 2) ? ir_const(g->ctx, 1 + below(g, 4)) : t->dim[i];
    bool longer = below(g, 2);
    add(g, ir_expand_to(&g->b, x->v, t->rank + longer, dims + !longer), x->mag, x->scale, x->exact);
}

void make_gather(struct gen *g)
{
    struct item *x = pick(g);
    ir_type t = x->v->type;
    int64_t size, index[6];
    int n = 1 + below(g, 6);

    if (t->rank < 1)
        return;
    int axis = below(g, t->rank);
    if (!dim_value(g, t->dim[axis], &size) || size < 1)
        return;
    for (int i = 0; i < n; i++)
        index[i] = below(g, (int)size) - (below(g, 4) == 0 ? size : 0);
    struct ir_value *in[2] = {
        x->v, ir_constant(&g->b, below(g, 4) ? ir_tensor_ints(n, index) : ir_tensor_scalar_i(TCC_I64, index[0]))};
    add(g, ir_build1(&g->b, IR_gather, 2, in, IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis))), x->mag, x->scale, x->exact);
}

void make_cumsum(struct gen *g)
{
    struct item *x = pick_float(g);
    int64_t size;

    if (!x || x->v->type->rank < 1)
        return;
    int axis = below(g, x->v->type->rank);
    if (!dim_value(g, x->v->type->dim[axis], &size))
        return;
    add(g,
        ir_build1(&g->b, IR_cumsum, 1, &x->v,
                  IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis), ir_attr_i(IR_ATTR_exclusive, below(g, 2)),
                           ir_attr_i(IR_ATTR_reverse, below(g, 2)))),
        x->mag * (double)(size + 1), x->scale, 0);
}

void make_sort(struct gen *g)
{
    struct item *x = pick(g);
    int64_t size;

    if (x->v->type->rank < 1 || x->exact <= 0 || x->v->type->dtype == TCC_BOOL)
        return;
    int axis = below(g, x->v->type->rank);
    if (!dim_value(g, x->v->type->dim[axis], &size) || size < 1)
        return;
    if (below(g, 2)) {
        add(g,
            ir_build1(&g->b, below(g, 2) ? IR_argmax : IR_argmin, 1, &x->v,
                      IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis), ir_attr_i(IR_ATTR_keepdims, below(g, 2)),
                               ir_attr_i(IR_ATTR_last, below(g, 2)))),
            (double)size, (double)size, 3);
        return;
    }
    struct item from = *x;
    struct ir_node *n = ir_build(
        &g->b, IR_topk, 1, &from.v,
        IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis),
                 ir_attr_e(IR_ATTR_k, below(g, 3) ? ir_const(g->ctx, 1 + below(g, (int)size))
                                                  : ir_ceildiv(g->ctx, from.v->type->dim[axis], ir_const(g->ctx, 2))),
                 ir_attr_i(IR_ATTR_largest, below(g, 2)), ir_attr_i(IR_ATTR_sorted, 1)));
    add(g, n ? n->out[0] : NULL, from.mag, from.scale, from.exact);
    if (n)
        add(g, n->out[1], (double)size, (double)size, 3);
}
