/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makers of the random-graph generator for sizes that only a run knows: pieces that are split and joined anywhere,
 * positions, sizes, indices, trip counts and branches that values of the run decide. What a maker builds is right for
 * the sizes of the first run; others may be refused, and an artifact has to refuse what the interpreter does.
 */
#include <math.h>
#include <string.h>

#include "tests/fuzz/random_graph_int.h"

/* Positions from..from+size along an axis, the others whole. */
static struct ir_value *part(struct ir_builder *b, struct ir_value *x, int axis, ir_expr from, ir_expr size)
{
    ir_expr starts[TCC_MAX_RANK], sizes[TCC_MAX_RANK], steps[TCC_MAX_RANK];
    int rank = x->type->rank;

    for (int i = 0; i < rank; i++) {
        starts[i] = i == axis ? from : ir_const(b->ctx, 0);
        sizes[i] = i == axis ? size : x->type->dim[i];
        steps[i] = ir_const(b->ctx, 1);
    }
    return ir_build1(b, IR_slice, 1, &x,
                     IR_ATTRS(ir_attr_exprs(IR_ATTR_starts, rank, starts), ir_attr_exprs(IR_ATTR_sizes, rank, sizes),
                              ir_attr_exprs(IR_ATTR_steps, rank, steps)));
}

static struct ir_value *join(struct ir_builder *b, int n, struct ir_value *const *pieces, int axis)
{
    return ir_build1(b, IR_concat, n, pieces, IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis)));
}

/* x, and an axis of at least `least` elements in the first run; -1: none. */
static int some_axis(struct gen *g, const struct item *x, int64_t least)
{
    int axis = x->v->type->rank > 0 ? below(g, x->v->type->rank) : -1;
    int64_t size;

    return axis >= 0 && dim_value(g, x->v->type->dim[axis], &size) && size >= least ? axis : -1;
}

/* Two pieces, cut at the middle or beside an end. */
void make_split(struct gen *g)
{
    struct item x = *pick(g);
    int axis = some_axis(g, &x, 2);

    if (axis < 0)
        return;
    ir_expr d = x.v->type->dim[axis], one = ir_const(g->ctx, 1);
    ir_expr cut[] = {ir_floordiv(g->ctx, d, ir_const(g->ctx, 2)), one, ir_addc(g->ctx, d, -1)};
    ir_expr at = cut[below(g, 3)];
    struct ir_value *second = part(&g->b, x.v, axis, at, ir_sub(g->ctx, d, at));
    add(g, part(&g->b, x.v, axis, ir_const(g->ctx, 0), at), x.mag, x.scale, x.exact);
    add(g, second, x.mag, x.scale, x.exact);
}

static bool joins(ir_type a, ir_type b, int axis)
{
    if (a->dtype != b->dtype || a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (i != axis && a->dim[i] != b->dim[i])
            return false;
    return true;
}

/* Up to four pieces of different sizes: other values that fit, or parts of the first. */
void make_joined(struct gen *g)
{
    struct item x = *pick(g);
    int axis = some_axis(g, &x, 1), n = 1, want = 2 + below(g, 3);
    struct ir_value *pieces[4] = {x.v};

    for (int tries = 0; axis >= 0 && n < want && tries < 12; tries++) {
        struct item y = *pick(g);
        if (!joins(x.v->type, y.v->type, axis))
            continue;
        pieces[n++] = y.v;
        x.mag = fmax(x.mag, y.mag);
        x.scale = fmax(x.scale, y.scale);
        x.exact = x.exact < y.exact ? x.exact : y.exact;
    }
    while (axis >= 0 && n < want)
        pieces[n++] = part(&g->b, x.v, axis, ir_const(g->ctx, 0), ir_const(g->ctx, 1));
    for (int i = n - 1; i > 0; i--) { /* which is first changes */
        int k = below(g, i + 1);
        struct ir_value *t = pieces[i];
        pieces[i] = pieces[k];
        pieces[k] = t;
    }
    if (axis >= 0)
        add(g, join(&g->b, n, pieces, axis), x.mag, x.scale, x.exact);
}

/* The places that are not 0, and what stands there in a value of the same dims. */
void make_nonzero(struct gen *g)
{
    struct item x = *pick(g), y = *pick(g);
    int64_t n = 1, d;

    for (int i = 0; i < x.v->type->rank; i++)
        n *= dim_value(g, x.v->type->dim[i], &d) ? d : 1000;
    if (x.exact <= 0 || x.v->type->rank < 1 || n > 200 || x.v->type->dtype == TCC_F16 || x.v->type->dtype == TCC_BF16)
        return;
    ir_expr found = bound_symbol(g, 0, 1 << 20, n), dims[2] = {ir_const(g->ctx, x.v->type->rank), found};
    if (!found)
        return;
    ir_type type = ir_tensor_type(g->ctx, TCC_I64, 2, dims);
    struct ir_node *places =
        ir_build_typed(&g->b, IR_lib, 1, &x.v,
                       IR_ATTRS(ir_attr_s(IR_ATTR_name, "nonzero"), ir_attr_types(IR_ATTR_types, 1, &type)), 1, &type);
    if (!places) {
        g->failed = true;
        return;
    }
    if (y.v->type->rank != x.v->type->rank ||
        memcmp(y.v->type->dim, x.v->type->dim, sizeof(ir_expr) * (size_t)x.v->type->rank))
        y = x;
    struct ir_value *in[2] = {y.v, ir_transpose_by(&g->b, places->out[0], (int64_t[]){1, 0})};
    add(g, ir_build1(&g->b, IR_gather_nd, 2, in, IR_ATTRS(ir_attr_i(IR_ATTR_batch_dims, 0))), y.mag, y.scale, y.exact);
    add(g, places->out[0], (double)n, (double)n, 3);
}

/* A scalar of the inputs, or a small number that is computed from one. NULL: this program has none. */
static struct ir_value *hostile(struct gen *g)
{
    return g->nhostile ? g->hostile[below(g, g->nhostile)] : NULL;
}

/* Such a scalar as a symbol. */
static ir_expr hostile_size(struct gen *g)
{
    struct ir_value *v = hostile(g);
    ir_expr s = v ? bound_symbol(g, below(g, 4) ? 0 : -4, below(g, 4) ? INT64_C(1) << 40 : 64, 3) : NULL;

    if (s && !ir_build(&g->b, IR_bind, 1, &v, IR_ATTRS(ir_attr_exprs(IR_ATTR_syms, 1, &s))))
        g->failed = true;
    return s;
}

static struct ir_value *padded(struct gen *g, struct ir_value *x, int axis, ir_expr by)
{
    ir_expr before[TCC_MAX_RANK], after[TCC_MAX_RANK];

    for (int i = 0; i < x->type->rank; i++) {
        before[i] = ir_const(g->ctx, 0);
        after[i] = i == axis ? by : before[i];
    }
    return ir_build1(&g->b, IR_pad, 1, &x,
                     IR_ATTRS(ir_attr_exprs(IR_ATTR_before, x->type->rank, before),
                              ir_attr_exprs(IR_ATTR_after, x->type->rank, after), ir_attr_s(IR_ATTR_mode, "constant")));
}

/* A position or a size that is a value of the run. */
void make_taken(struct gen *g)
{
    struct item x = *pick(g);
    int axis = some_axis(g, &x, 4), what = below(g, 6);
    ir_expr k = axis >= 0 && g->nhostile ? hostile_size(g) : NULL, zero = ir_const(g->ctx, 0);

    if (!k)
        return;
    ir_expr d = x.v->type->dim[axis];
    struct ir_value *y, *pieces[2];
    if (what == 0) {
        y = part(&g->b, x.v, axis, k, ir_sub(g->ctx, d, k));
    } else if (what == 1) {
        y = part(&g->b, x.v, axis, zero, k);
    } else if (what == 2) { /* rotated */
        pieces[0] = part(&g->b, x.v, axis, k, ir_sub(g->ctx, d, k));
        pieces[1] = part(&g->b, x.v, axis, zero, k);
        y = join(&g->b, 2, pieces, axis);
    } else if (what == 3) {
        y = padded(g, x.v, axis, ir_min(g->ctx, k, ir_const(g->ctx, 5)));
    } else if (what == 4) {
        y = part(&g->b, x.v, axis, k, ir_const(g->ctx, 1));
    } else {
        struct ir_value *in[2] = {x.v, hostile(g)};
        y = ir_build1(&g->b, IR_gather, 2, in, IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis)));
    }
    add(g, y, x.mag, x.scale, x.exact);
}

/* y = x; as often as a value of the run says, or until a condition: y = tanh(y / 2 + x), every y or part of it
 * collected */
void make_counted(struct gen *g)
{
    struct item x = *pick(g);
    ir_expr dims[TCC_MAX_RANK + 1];
    struct ir_value *trips = hostile(g);

    if (!trips || x.v->type->dtype != TCC_F32 || x.v->type->rank > 3 || !(dims[0] = bound_symbol(g, 0, 1 << 20, 4)))
        return;
    memcpy(dims + 1, x.v->type->dim, (size_t)x.v->type->rank * sizeof *dims);
    ir_type types[2] = {x.v->type, ir_tensor_type(g->ctx, TCC_F32, x.v->type->rank + 1, dims)};
    struct ir_value *in[3] = {ir_binary(&g->b, IR_min, trips, ir_constant_i(&g->b, TCC_I64, 4)), NULL, x.v};
    struct ir_node *n = ir_build_typed(
        &g->b, IR_loop, 3, in, IR_ATTRS(ir_attr_i(IR_ATTR_nscan, 1), ir_attr_types(IR_ATTR_types, 2, types)), 2, types);
    if (!n)
        return;
    struct ir_builder body = g->b;
    body.block = ir_region_new(body.func, n);
    struct ir_value *i = ir_param_new(body.block, ir_scalar_type(g->ctx, TCC_I64), "i");
    struct ir_value *go = ir_param_new(body.block, ir_scalar_type(g->ctx, TCC_BOOL), "go");
    struct ir_value *y = ir_param_new(body.block, x.v->type, "y");
    struct ir_value *z = ir_binary(&body, IR_add, ir_binary(&body, IR_mul, y, ir_constant_f(&body, TCC_F32, 0.5)), x.v);
    z = ir_unary(&body, IR_tanh, z);
    if (below(g, 2))
        go = ir_binary(&body, IR_lt, i, ir_constant_i(&body, TCC_I64, 1 + below(g, 3)));
    struct ir_value *out[3] = {go, z, below(g, 2) ? z : y};
    ir_build(&body, IR_yield, 3, out, NULL);
    add(g, n->out[0], x.mag, x.scale, 0);
    add(g, n->out[1], x.mag, x.scale, 0);
}

/* Indices that are computed: as they are, so that some lie outside, or brought inside. */
static struct ir_value *computed_indices(struct gen *g, ir_expr size)
{
    for (int i = 0; i < 8; i++) {
        struct item y = *pick(g);
        enum tcc_dtype dtype = (enum tcc_dtype)y.v->type->dtype;
        if ((dtype != TCC_I64 && dtype != TCC_I32) || y.v->type->rank > 2 || y.mag > 1e4)
            continue;
        struct ir_value *n = ir_build1(&g->b, IR_dim, 0, NULL, IR_ATTRS(ir_attr_exprs(IR_ATTR_exprs, 1, &size)));
        n = ir_binary(&g->b, IR_max, ir_cast_to(&g->b, n, dtype), ir_constant_i(&g->b, dtype, 1));
        return below(g, 4) ? ir_binary(&g->b, IR_mod, y.v, n) : y.v;
    }
    return NULL;
}

/* A gather by computed indices, or adding to the places of computed ones. */
void make_indexed(struct gen *g)
{
    struct item x = *pick(g);
    int axis = some_axis(g, &x, 1);
    struct ir_value *index = axis >= 0 ? computed_indices(g, x.v->type->dim[axis]) : NULL;

    if (!index)
        return;
    if (index->type->rank != x.v->type->rank || x.v->type->dtype != TCC_F32 || below(g, 2)) {
        struct ir_value *in[2] = {x.v, index};
        if (x.v->type->rank + index->type->rank - 1 <= 5)
            add(g, ir_build1(&g->b, IR_gather, 2, in, IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis))), x.mag, x.scale,
                x.exact);
        return;
    }
    for (int i = 0; i < index->type->rank; i++) { /* the other axes must not be longer than x's */
        int64_t a, b;
        if (!dim_value(g, index->type->dim[i], &a) || !dim_value(g, x.v->type->dim[i], &b) || (i != axis && a > b))
            return;
    }
    if (below(g, 2)) {
        struct ir_value *in[2] = {x.v, index};
        add(g, ir_build1(&g->b, IR_gather_elements, 2, in, IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis))), x.mag, x.scale,
            x.exact);
        return;
    }
    struct ir_value *in[3] = {x.v, index, filled(g, index->type->rank, index->type->dim, 1)};
    add(g,
        in[2] ? ir_build1(&g->b, IR_scatter_elements, 3, in,
                          IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis), ir_attr_s(IR_ATTR_mode, "add")))
              : NULL,
        30 + x.mag, x.scale + 30, 0);
}

/* if (something) x plus the sum of its first three along an axis, else x / 2: a branch that not every size allows. */
void make_choice(struct gen *g)
{
    struct item x = *pick(g);
    int axis = some_axis(g, &x, 3), first = below(g, 2);
    struct ir_value *k = hostile(g);

    if (axis < 0 || x.v->type->dtype != TCC_F32)
        return;
    struct ir_node *n;
    if (k && below(g, 2)) {
        struct ir_value *test = ir_binary(&g->b, IR_lt, k, ir_constant_i(&g->b, TCC_I64, below(g, 4)));
        n = ir_build_typed(&g->b, IR_if, 1, &test, IR_ATTRS(ir_attr_types(IR_ATTR_types, 1, &x.v->type)), 1,
                           &x.v->type);
    } else {
        n = new_if(g, x, &x.v->type);
    }
    for (int r = 0; n && r < 2; r++) {
        struct ir_builder in = g->b;
        int64_t axes = axis;
        in.block = ir_region_new(in.func, n);
        struct ir_value *y = ir_constant_f(&in, TCC_F32, 0.5);
        if (r == first)
            y = ir_binary(&in, IR_mul, x.v, y);
        else {
            y = part(&in, x.v, axis, ir_const(g->ctx, below(g, 2)), ir_const(g->ctx, 2));
            y = ir_build1(&in, IR_reduce_sum, 1, &y,
                          IR_ATTRS(ir_attr_ints(IR_ATTR_axes, 1, &axes), ir_attr_i(IR_ATTR_keepdims, 1)));
            y = ir_binary(&in, IR_add, x.v, y);
        }
        ir_build(&in, IR_yield, 1, &y, NULL);
    }
    if (n)
        add(g, n->out[0], 3 * x.mag, x.scale, 0);
}

/* x y of two values that fit. */
void make_product(struct gen *g)
{
    struct item x = *pick(g);
    int64_t k;

    if (x.v->type->dtype != TCC_F32 || x.v->type->rank < 2 || !dim_value(g, x.v->type->dim[x.v->type->rank - 1], &k))
        return;
    for (int i = 0; i < 12; i++) {
        struct item y = *pick(g);
        if (y.v->type->dtype != TCC_F32 || y.v->type->rank != 2 ||
            y.v->type->dim[0] != x.v->type->dim[x.v->type->rank - 1] || x.mag * y.mag > 100)
            continue;
        add(g, ir_build1(&g->b, IR_matmul, 2, (struct ir_value *[]){x.v, y.v}, NULL), x.mag * y.mag * (double)(k + 1),
            fmax(x.scale, y.scale) * 3, 0);
        return;
    }
}
