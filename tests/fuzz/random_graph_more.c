/* SPDX-License-Identifier: Apache-2.0 */
/* Makers of the random-graph generator: indexed moves, transposed convolutions, sizes as values, bits, regions. */
#include <math.h>
#include <string.h>

#include "tests/fuzz/random_graph_int.h"

/* Constant indices of a given shape into an axis of `size`, a quarter of them counted from the end. */
static struct ir_value *indices(struct gen *g, int rank, const int64_t *dims, int64_t size)
{
    struct ir_tensor *t = ir_tensor_new(below(g, 2) ? TCC_I64 : TCC_I32, rank, dims);

    for (int64_t i = 0; t && i < t->nelems; i++)
        tcc_store_i64((enum tcc_dtype)t->dtype, (void *)ir_tensor_at(t, i),
                      below(g, (int)size) - (below(g, 4) == 0 ? size : 0));
    return t ? ir_constant(&g->b, t) : NULL;
}

static bool constant_dims(ir_type t, int64_t *dims)
{
    return t->rank >= 1 && t->rank <= 4 && ir_static_dims(t, dims) && dims[0] > 0;
}

void make_gather_elements(struct gen *g)
{
    struct item *x = pick(g);
    int64_t dims[TCC_MAX_RANK], index[TCC_MAX_RANK];

    if (!constant_dims(x->v->type, dims))
        return;
    int rank = x->v->type->rank, axis = below(g, rank);
    for (int i = 0; i < rank; i++)
        index[i] = i == axis ? 1 + below(g, 4) : 1 + below(g, (int)dims[i]);
    struct ir_value *in[2] = {x->v, indices(g, rank, index, dims[axis])};
    add(g, ir_build1(&g->b, IR_gather_elements, 2, in, IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis))), x->mag, x->scale,
        x->exact);
}

static bool same_kind(ir_type a, ir_type b)
{
    return tcc_is_float(a->dtype) && a->dtype == b->dtype && a->rank == b->rank;
}

/* Adds some value to the newest, into whose shape it is gathered axis by axis, as a residual that was enlarged. */
void make_residual(struct gen *g)
{
    struct item y = g->pool[g->npool - 1], x = *pick(g);
    int64_t to[TCC_MAX_RANK], from[TCC_MAX_RANK];

    for (int i = 0; i < 20 && !same_kind(x.v->type, y.v->type); i++)
        x = *pick(g);
    if (!same_kind(x.v->type, y.v->type) || !constant_dims(y.v->type, to) || !constant_dims(x.v->type, from))
        return;
    for (int i = 0; x.v && i < y.v->type->rank; i++) {
        if (from[i] < 1)
            return;
        if (from[i] == to[i] && below(g, 3))
            continue;
        struct ir_value *in[2] = {x.v, indices(g, 1, &to[i], from[i])};
        x.v = ir_build1(&g->b, IR_gather, 2, in, IR_ATTRS(ir_attr_i(IR_ATTR_axis, i)));
    }
    add(g, x.v ? ir_binary(&g->b, IR_add, y.v, x.v) : NULL, y.mag + x.mag, fmax(y.scale, x.scale),
        (x.exact < y.exact ? x.exact : y.exact) - 1);
}

void make_gather_nd(struct gen *g)
{
    struct item *x = pick(g);
    int64_t dims[TCC_MAX_RANK];

    if (!constant_dims(x->v->type, dims))
        return;
    int64_t k = 1 + below(g, x->v->type->rank), shape[2] = {1 + below(g, 4), k}, size = dims[0];
    for (int i = 1; i < k; i++)
        size = dims[i] < size ? dims[i] : size;
    if (size < 1)
        return;
    struct ir_value *in[2] = {x->v, indices(g, 2, shape, size)};
    add(g, ir_build1(&g->b, IR_gather_nd, 2, in, IR_ATTRS(ir_attr_i(IR_ATTR_batch_dims, 0))), x->mag, x->scale,
        x->exact);
}

/* Adding, and replacing at distinct places: what overlapping updates leave behind is tested elsewhere. */
void make_scatter(struct gen *g)
{
    static const char *const modes[] = {"none", "add", "max", "min"};
    struct item x = *pick(g);
    int64_t dims[TCC_MAX_RANK], shape[TCC_MAX_RANK];

    if (x.v->type->dtype != TCC_F32 || !constant_dims(x.v->type, dims))
        return;
    int rank = x.v->type->rank, axis = below(g, rank);
    memcpy(shape, dims, sizeof shape);
    shape[axis] = 1;
    for (int i = 0; i < rank; i++)
        if (i != axis && dims[i] > 1 && below(g, 2))
            shape[i] = 1 + below(g, (int)dims[i]);
    struct ir_value *in[3] = {x.v, indices(g, rank, shape, dims[axis]), constant(g, rank, shape, 1, true)};
    add(g,
        ir_build1(&g->b, IR_scatter_elements, 3, in,
                  IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis), ir_attr_s(IR_ATTR_mode, modes[below(g, 4)]))),
        x.mag + 3, x.scale, x.exact - 1);
}

void make_conv_transpose(struct gen *g)
{
    struct item *x = pick_float(g);
    int64_t c, w[TCC_MAX_RANK], strides[TCC_MAX_RANK], dilations[TCC_MAX_RANK], d;
    ir_expr before[TCC_MAX_RANK], shape[TCC_MAX_RANK];

    if (!x || x->v->type->dtype != TCC_F32 || x->v->type->rank < 3 || !ir_is_const(x->v->type->dim[1], &c) ||
        x->mag > 50)
        return;
    int rank = x->v->type->rank, groups = 1 + below(g, 3);
    groups = c % groups == 0 ? groups : 1;
    double summed = (double)c / groups;
    w[0] = c;
    w[1] = below(g, 3) ? 1 + below(g, 3) : 4 << below(g, 3);
    for (int i = 2; i < rank; i++) {
        int64_t cut = below(g, 2);
        w[i] = 1 + below(g, 3);
        strides[i - 2] = 1 + below(g, 2);
        dilations[i - 2] = 1 + below(g, 2);
        int64_t more = (w[i] - 1) * dilations[i - 2] + 1 - strides[i - 2];
        if (!dim_value(g, x->v->type->dim[i], &d) || d * strides[i - 2] + more <= cut)
            cut = 0;
        before[i - 2] = ir_const(g->ctx, cut);
        shape[i - 2] = ir_addc(g->ctx, ir_mulc(g->ctx, x->v->type->dim[i], strides[i - 2]), more - cut);
        summed *= (double)w[i];
    }
    struct ir_value *in[2] = {x->v, constant(g, rank, w, 1 / sqrt(summed), false)};
    add(g,
        ir_build1(&g->b, IR_conv_transpose, 2, in,
                  IR_ATTRS(ir_attr_ints(IR_ATTR_strides, rank - 2, strides),
                           ir_attr_ints(IR_ATTR_dilations, rank - 2, dilations),
                           ir_attr_exprs(IR_ATTR_before, rank - 2, before),
                           ir_attr_exprs(IR_ATTR_shape, rank - 2, shape), ir_attr_i(IR_ATTR_groups, groups))),
        3 * x->mag, x->scale, 0);
}

/* Along a symbolic axis: reversed, without its last element, or padded to one more. */
void make_symbolic(struct gen *g)
{
    struct item *x = pick(g);
    ir_type t = x->v->type;
    ir_expr starts[TCC_MAX_RANK], sizes[TCC_MAX_RANK], steps[TCC_MAX_RANK], zero = ir_const(g->ctx, 0);
    int what = below(g, 3), found = -1;
    int64_t size;

    for (int i = 0; i < t->rank; i++) {
        starts[i] = zero;
        sizes[i] = t->dim[i];
        steps[i] = ir_const(g->ctx, 1);
        if (!ir_is_const(t->dim[i], NULL))
            found = i;
    }
    if (found < 0 || !dim_value(g, t->dim[found], &size) || size < 2 ||
        ir_expr_le(g->ctx, ir_const(g->ctx, 2), t->dim[found]) == IR_NO)
        return;
    if (what == 0) {
        starts[found] = ir_addc(g->ctx, t->dim[found], -1);
        steps[found] = ir_const(g->ctx, -1);
    } else if (what == 1) {
        sizes[found] = ir_floordiv(g->ctx, t->dim[found], ir_const(g->ctx, 2));
    } else {
        ir_expr one[TCC_MAX_RANK];
        for (int i = 0; i < t->rank; i++)
            one[i] = ir_const(g->ctx, i == found);
        add(g,
            ir_build1(&g->b, IR_pad, 1, &x->v,
                      IR_ATTRS(ir_attr_exprs(IR_ATTR_before, t->rank, one),
                               ir_attr_exprs(IR_ATTR_after, t->rank, starts), ir_attr_s(IR_ATTR_mode, "constant"))),
            x->mag, x->scale, x->exact);
        return;
    }
    add(g,
        ir_build1(&g->b, IR_slice, 1, &x->v,
                  IR_ATTRS(ir_attr_exprs(IR_ATTR_starts, t->rank, starts), ir_attr_exprs(IR_ATTR_sizes, t->rank, sizes),
                           ir_attr_exprs(IR_ATTR_steps, t->rank, steps))),
        x->mag, x->scale, x->exact);
}

/* A value's dims as numbers, or counting along one of its axes, joined to it. */
void make_counting(struct gen *g)
{
    struct item *x = pick_float(g);

    if (!x || x->v->type->rank < 1)
        return;
    struct item from = *x;
    ir_type t = from.v->type;
    int axis = below(g, t->rank);
    int64_t size;
    if (!dim_value(g, t->dim[axis], &size))
        return;
    struct ir_value *n =
        below(g, 2)
            ? ir_build1(&g->b, IR_iota, 0, NULL,
                        IR_ATTRS(ir_attr_exprs(IR_ATTR_shape, t->rank, t->dim), ir_attr_i(IR_ATTR_axis, axis),
                                 ir_attr_dtype(IR_ATTR_to, t->dtype)))
            : ir_cast_to(&g->b,
                         ir_build1(&g->b, IR_dim, 0, NULL, IR_ATTRS(ir_attr_exprs(IR_ATTR_exprs, 1, &t->dim[axis]))),
                         (enum tcc_dtype)t->dtype);
    add(g, ir_binary(&g->b, IR_add, from.v, n), from.mag + (double)size, from.scale, from.exact - 1);
}

void make_bits(struct gen *g)
{
    static const enum ir_op words[] = {IR_and, IR_or, IR_xor, IR_shl, IR_shr, IR_fmod, IR_max};
    struct item *x = pick(g);

    if (x->v->type->dtype == TCC_BOOL)
        add(g, ir_binary(&g->b, words[below(g, 3)], ir_unary(&g->b, IR_not, x->v), x->v), 1, 1, 3);
    else if (tcc_is_int((enum tcc_dtype)x->v->type->dtype) && x->mag < 1e4)
        add(g,
            ir_binary(&g->b, words[below(g, 7)], x->v,
                      ir_constant_i(&g->b, (enum tcc_dtype)x->v->type->dtype, 1 + below(g, 3))),
            8 * x->mag, x->scale, 3);
}

struct ir_node *new_if(struct gen *g, struct item x, const ir_type *type)
{
    int64_t axes[TCC_MAX_RANK];

    if (x.v->type->dtype != TCC_F32 || x.exact <= 0)
        return NULL;
    for (int i = 0; i < x.v->type->rank; i++)
        axes[i] = i;
    struct ir_value *top =
        ir_build1(&g->b, IR_reduce_max, 1, &x.v,
                  IR_ATTRS(ir_attr_ints(IR_ATTR_axes, x.v->type->rank, axes), ir_attr_i(IR_ATTR_keepdims, 0)));
    struct ir_value *test = ir_binary(&g->b, IR_gt, top, ir_constant_f(&g->b, TCC_F32, below(g, 4)));
    return ir_build_typed(&g->b, IR_if, 1, &test, IR_ATTRS(ir_attr_types(IR_ATTR_types, 1, type)), 1, type);
}

/* if (something about x) x * c else -x + y */
void make_if(struct gen *g)
{
    struct item x = *pick(g);
    struct ir_node *n = x.mag > 100 ? NULL : new_if(g, x, &x.v->type);

    if (!n)
        return;
    for (int r = 0; r < 2; r++) {
        struct ir_builder in = g->b;
        in.block = ir_region_new(in.func, n);
        struct ir_value *y = r             ? ir_unary(&in, below(g, 2) ? IR_neg : IR_sigmoid, x.v)
                             : below(g, 4) ? ir_binary(&in, IR_mul, x.v, ir_constant_f(&in, TCC_F32, 1.5))
                                           : x.v;
        ir_build(&in, IR_yield, 1, &y, NULL);
    }
    add(g, n->out[0], 2 * x.mag, x.scale, 0);
}

/* y = x; a few times: y = tanh(y * c + x), every y collected */
void make_loop(struct gen *g)
{
    struct item x = *pick(g);
    ir_expr dims[TCC_MAX_RANK + 1];

    if (x.v->type->dtype != TCC_F32 || x.v->type->rank > 3)
        return;
    int64_t trips = below(g, 4);
    dims[0] = ir_const(g->ctx, trips);
    memcpy(dims + 1, x.v->type->dim, (size_t)x.v->type->rank * sizeof *dims);
    ir_type types[2] = {x.v->type, ir_tensor_type(g->ctx, TCC_F32, x.v->type->rank + 1, dims)};
    struct ir_value *in[3] = {ir_constant_i(&g->b, TCC_I64, trips), NULL, x.v};
    struct ir_node *n = ir_build_typed(
        &g->b, IR_loop, 3, in, IR_ATTRS(ir_attr_i(IR_ATTR_nscan, 1), ir_attr_types(IR_ATTR_types, 2, types)), 2, types);
    if (!n)
        return;
    struct ir_builder body = g->b;
    body.block = ir_region_new(body.func, n);
    ir_param_new(body.block, ir_scalar_type(g->ctx, TCC_I64), "i");
    struct ir_value *go = ir_param_new(body.block, ir_scalar_type(g->ctx, TCC_BOOL), "go");
    struct ir_value *y = ir_param_new(body.block, x.v->type, "y");
    struct ir_value *z = ir_binary(&body, IR_add, ir_binary(&body, IR_mul, y, ir_constant_f(&body, TCC_F32, 0.5)), x.v);
    z = ir_unary(&body, IR_tanh, z);
    struct ir_value *out[3] = {go, z, below(g, 2) ? z : y};
    ir_build(&body, IR_yield, 3, out, NULL);
    add(g, n->out[0], x.mag, x.scale, 0);
    if (trips)
        add(g, n->out[1], x.mag, x.scale, 0);
}
