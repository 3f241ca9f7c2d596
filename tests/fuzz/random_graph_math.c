/* SPDX-License-Identifier: Apache-2.0 */
/* Makers of the random-graph generator: elementwise words, reductions, contractions, windows, attention. */
#include <math.h>

#include "tests/fuzz/random_graph_int.h"

static struct ir_value *scalar_like(struct gen *g, struct ir_value *v, double value)
{
    return ir_constant_f(&g->b, v->type->dtype, value);
}

void make_unary(struct gen *g)
{
    /* how large the result is: a factor of the operand's size, or, when negative, a bound */
    static const struct {
        enum ir_op op;
        double mag;
        bool exact, jumps;
    } words[] = {
        {IR_neg, 1, true, false},         {IR_abs, 1, true, false},        {IR_relu, 1, true, false},
        {IR_square, 0, false, false},     {IR_tanh, -1, false, false},     {IR_sigmoid, -1, false, false},
        {IR_silu, 1, false, false},       {IR_erf, -1, false, false},      {IR_gelu, 1, false, false},
        {IR_gelu_tanh, 1, false, false},  {IR_hardswish, 1, false, false}, {IR_mish, 1, false, false},
        {IR_softplus, 1.2, false, false}, {IR_softsign, -1, false, false}, {IR_sin, -1, false, false},
        {IR_cos, -1, false, false},       {IR_atan, -1.6, false, false},   {IR_floor, 1, true, true},
        {IR_ceil, 1, true, true},         {IR_round, 1, true, true},       {IR_trunc, 1, true, true},
        {IR_sign, -1, true, true},
    };
    struct item *x = pick_float(g);
    int k = below(g, (int)(sizeof words / sizeof *words));

    if (!x || (words[k].jumps && x->exact <= 0) || ((words[k].op == IR_sin || words[k].op == IR_cos) && x->scale > 100))
        return;
    double mag = words[k].mag < 0 ? -words[k].mag : words[k].mag == 0 ? x->mag * x->mag : words[k].mag * x->mag;
    add(g, ir_unary(&g->b, words[k].op, x->v), mag, x->scale, words[k].exact ? x->exact : 0);
}

/* A binary word on two operands of one type. */
static void combine(struct gen *g, const struct item *x, const struct item *y)
{
    static const enum ir_op words[] = {IR_add, IR_sub, IR_mul, IR_min, IR_max, IR_add, IR_mul};
    enum ir_op op = words[below(g, 7)];
    int exact = x->exact < y->exact ? x->exact : y->exact;
    double mag = op == IR_mul ? x->mag * y->mag : op == IR_add || op == IR_sub ? x->mag + y->mag : fmax(x->mag, y->mag);

    add(g, ir_binary(&g->b, op, x->v, y->v), mag, fmax(x->scale, y->scale),
        op == IR_min || op == IR_max ? exact : exact - 1);
}

void make_binary(struct gen *g)
{
    struct item *x = pick_float(g);

    for (int i = 0; x && i < 10; i++) {
        struct item *y = pick(g);
        if (y != x && y->v->type == x->v->type) {
            combine(g, x, y);
            return;
        }
    }
}

/* One operand smaller: a constant that broadcasts, or a reduction of the value itself. */
void make_broadcast(struct gen *g)
{
    struct item *x = pick_float(g);
    int64_t dims[TCC_MAX_RANK];

    if (!x || x->v->type->dtype != TCC_F32)
        return;
    int skip = x->v->type->rank ? below(g, x->v->type->rank + 1) : 0, rank = x->v->type->rank - skip;
    ir_expr open[TCC_MAX_RANK];
    bool grid = true;
    for (int i = 0; i < rank; i++) {
        bool one = below(g, 2);
        if (one || !ir_is_const(x->v->type->dim[skip + i], &dims[i]))
            dims[i] = 1;
        open[i] = one ? ir_const(g->ctx, 1) : x->v->type->dim[skip + i];
        grid = grid && ir_is_value(open[i], dims[i]);
    }
    struct item left = *x, c = {NULL, 3, 3, grid ? 3 : 0};
    c.v = grid ? constant(g, rank, dims, 1, true) : filled(g, rank, open, 1);
    if (!c.v)
        g->failed = true;
    else if (below(g, 4))
        combine(g, &left, &c);
    else /* a divisor that keeps away from 0 */
        add(g,
            ir_binary(&g->b, IR_div, left.v,
                      ir_binary(&g->b, IR_add, ir_unary(&g->b, IR_abs, c.v), scalar_like(g, c.v, 1))),
            left.mag, left.scale, 0);
}

void make_select(struct gen *g)
{
    static const enum ir_op words[] = {IR_lt, IR_le, IR_gt, IR_ge, IR_eq, IR_ne};
    struct item *x = pick(g), *y = pick(g);

    if (x->exact <= 0 || x->v->type->dtype == TCC_BOOL)
        return;
    struct ir_value *limit = tcc_is_float(x->v->type->dtype) ? scalar_like(g, x->v, (below(g, 9) - 4) / 4.0)
                                                             : ir_constant_i(&g->b, x->v->type->dtype, below(g, 5));
    struct ir_value *test = ir_binary(&g->b, words[below(g, 6)], x->v, limit);
    if (y->v->type == x->v->type)
        add(g, ir_build1(&g->b, IR_select, 3, (struct ir_value *[]){test, x->v, y->v}, NULL), fmax(x->mag, y->mag),
            fmax(x->scale, y->scale), x->exact < y->exact ? x->exact : y->exact);
    else
        add(g, test, 1, 1, 3);
}

void make_cast(struct gen *g)
{
    static const enum tcc_dtype to[] = {TCC_F32, TCC_F32, TCC_F32, TCC_F32,  TCC_F64,
                                        TCC_I32, TCC_I64, TCC_F16, TCC_BF16, TCC_I8};
    struct item *x = pick(g);
    enum tcc_dtype dtype = x->v->type->dtype == TCC_F32 ? to[4 + below(g, 6)] : TCC_F32;

    if (!tcc_is_float(dtype) && (x->exact <= 0 || x->mag > 100))
        return;
    if (dtype == TCC_F16 || dtype == TCC_BF16)
        g->result->coarse = true;
    bool loses = dtype == TCC_BF16 || dtype == TCC_F16 || x->v->type->dtype == TCC_F64;
    add(g, ir_cast_to(&g->b, x->v, dtype), x->mag, x->scale, loses ? 0 : x->exact);
}

void make_integer(struct gen *g)
{
    static const enum ir_op words[] = {IR_add, IR_sub, IR_mul, IR_min, IR_max, IR_div, IR_mod};
    struct item *x = pick(g), *y = pick(g);

    if (!tcc_is_int(x->v->type->dtype) || x->mag > 1e4)
        return;
    if (y->v->type != x->v->type)
        add(g, ir_binary(&g->b, words[below(g, 7)], x->v, ir_constant_i(&g->b, x->v->type->dtype, 1 + below(g, 5))),
            5 * x->mag, x->scale, 3);
    else
        add(g, ir_binary(&g->b, words[below(g, 7)], x->v, y->v), x->mag * y->mag + y->mag, x->scale, 3);
}

/* Reduction of x over axes, kept as 1 or not. */
static struct ir_value *reduce(struct gen *g, enum ir_op op, struct ir_value *x, int n, const int64_t *axes, bool keep)
{
    return ir_build1(&g->b, op, 1, &x,
                     IR_ATTRS(ir_attr_ints(IR_ATTR_axes, n, axes), ir_attr_i(IR_ATTR_keepdims, keep)));
}

void make_reduce(struct gen *g)
{
    static const enum ir_op words[] = {IR_reduce_sum, IR_reduce_sum, IR_reduce_max, IR_reduce_min, IR_reduce_prod};
    struct item *x = below(g, 4) ? pick_float(g) : pick(g);
    int64_t axes[TCC_MAX_RANK], size = 1, d;
    int n = 0, k = below(g, 5);

    if (!x || x->v->type->rank < 1)
        return;
    for (int i = 0; i < x->v->type->rank; i++) {
        if (below(g, 2) && dim_value(g, x->v->type->dim[i], &d)) {
            axes[n++] = i;
            size *= d;
        }
    }
    bool extreme = words[k] == IR_reduce_max || words[k] == IR_reduce_min;
    if (n == 0 || (x->v->type->dtype == TCC_BOOL && !extreme) ||
        (words[k] == IR_reduce_prod && (size > 6 || x->mag > 4)))
        return;
    double mag = extreme ? x->mag : words[k] == IR_reduce_prod ? pow(x->mag, (double)size) : x->mag * (double)size;
    if (!tcc_is_float(x->v->type->dtype) && mag > 1e6)
        return;
    add(g, reduce(g, words[k], x->v, n, axes, below(g, 2)), mag, x->scale,
        extreme                         ? x->exact
        : tcc_is_int(x->v->type->dtype) ? 3
                                        : 0);
}

void make_softmax(struct gen *g)
{
    struct item *x = pick_float(g);

    if (!x || x->v->type->rank < 1 || x->mag > 50)
        return;
    int64_t axis = below(g, x->v->type->rank);
    struct ir_value *e =
        ir_unary(&g->b, IR_exp, ir_binary(&g->b, IR_sub, x->v, reduce(g, IR_reduce_max, x->v, 1, &axis, true)));
    add(g, ir_binary(&g->b, IR_div, e, reduce(g, IR_reduce_sum, e, 1, &axis, true)), 1, x->scale, 0);
}

void make_layernorm(struct gen *g)
{
    struct item *x = pick_float(g);
    int64_t n;

    if (!x || x->v->type->rank < 1 || x->v->type->dtype != TCC_F32)
        return;
    int64_t axis = x->v->type->rank - 1;
    ir_expr size = x->v->type->dim[axis];
    if (!dim_value(g, size, &n) || n < 1)
        return;
    struct ir_value *inv = scalar_like(g, x->v, 1.0 / (double)n);
    if (!ir_is_const(size, NULL))
        inv = ir_unary(&g->b, IR_recip,
                       ir_cast_to(&g->b,
                                  ir_build1(&g->b, IR_dim, 0, NULL, IR_ATTRS(ir_attr_exprs(IR_ATTR_exprs, 1, &size))),
                                  TCC_F32));
    struct ir_value *mean = ir_binary(&g->b, IR_mul, reduce(g, IR_reduce_sum, x->v, 1, &axis, true), inv);
    struct ir_value *c = ir_binary(&g->b, IR_sub, x->v, mean);
    struct ir_value *var =
        ir_binary(&g->b, IR_mul, reduce(g, IR_reduce_sum, ir_unary(&g->b, IR_square, c), 1, &axis, true), inv);
    struct ir_value *r = ir_unary(&g->b, IR_rsqrt, ir_binary(&g->b, IR_add, var, scalar_like(g, x->v, 0.1)));
    double scale = x->scale;
    struct ir_value *w = filled(g, 1, &size, 1);
    add(g, w ? ir_binary(&g->b, IR_mul, ir_binary(&g->b, IR_mul, c, r), w) : NULL, 3, scale * 3, 0);
}

void make_matmul(struct gen *g)
{
    struct item *x = pick_float(g);
    int64_t k;

    if (!x || x->v->type->rank < 2 || x->v->type->dtype != TCC_F32)
        return;
    bool trans_a = below(g, 5) == 0, trans_b = below(g, 3) == 0;
    ir_expr inner = x->v->type->dim[x->v->type->rank - (trans_a ? 2 : 1)],
            n = ir_const(g->ctx, 1 + below(g, below(g, 4) ? 8 : 70));
    if (!dim_value(g, inner, &k) || k < 1)
        return;
    if (g->open && below(g, 4) == 0)
        n = x->v->type->dim[below(g, x->v->type->rank)];
    struct item left = *x;
    struct ir_value *w = filled(g, 2, trans_b ? (ir_expr[]){n, inner} : (ir_expr[]){inner, n}, 1 / sqrt((double)k));
    if (!w) {
        g->failed = true;
        return;
    }
    struct ir_value *y = ir_build1(&g->b, IR_matmul, 2, (struct ir_value *[]){left.v, w},
                                   IR_ATTRS(ir_attr_i(IR_ATTR_trans_a, trans_a), ir_attr_i(IR_ATTR_trans_b, trans_b)));
    add(g, y, 2 * left.mag, left.scale * 3, 0);
    if (below(g, 4) == 0)
        make_residual(g);
}

/* x x', as attention scores are made: both operands are computed. */
void make_self_matmul(struct gen *g)
{
    struct item *x = pick_float(g);

    if (!x || x->v->type->rank < 2 || x->mag > 10)
        return;
    int64_t k;
    if (!dim_value(g, x->v->type->dim[x->v->type->rank - 1], &k))
        return;
    add(g, ir_build1(&g->b, IR_matmul, 2, (struct ir_value *[]){x->v, x->v}, IR_ATTRS(ir_attr_i(IR_ATTR_trans_b, 1))),
        x->mag * x->mag * (double)k, x->scale, 0);
}

/* Window geometry for the spatial axes of x; false where a window would not fit. */
struct window {
    int n;
    int64_t kernel[3], strides[3], dilations[3];
    ir_expr before[3], after[3];
};

static bool make_window(struct gen *g, ir_type t, bool dilate, struct window *w)
{
    w->n = t->rank - 2;
    for (int i = 0; i < w->n; i++) {
        int64_t size, before = below(g, 2), after = below(g, 2);
        w->kernel[i] = 1 + below(g, 3);
        w->strides[i] = 1 + (below(g, 3) == 0);
        w->dilations[i] = dilate && below(g, 5) == 0 ? 2 : 1;
        int64_t extent = (w->kernel[i] - 1) * w->dilations[i] + 1;
        if (before >= extent)
            before = 0;
        if (after >= extent)
            after = 0;
        if (!dim_value(g, t->dim[2 + i], &size) || size + before + after < extent)
            return false;
        w->before[i] = ir_const(g->ctx, before);
        w->after[i] = ir_const(g->ctx, after);
    }
    return true;
}

void make_conv(struct gen *g)
{
    struct item *x = pick_float(g);
    struct window w;
    int64_t c, taps = 1;
    ir_expr dims[5];

    if (!x || x->v->type->dtype != TCC_F32 || x->v->type->rank < 3 || x->v->type->rank > 4 ||
        !dim_value(g, x->v->type->dim[1], &c) || c < 1 || !make_window(g, x->v->type, true, &w))
        return;
    bool fixed = ir_is_const(x->v->type->dim[1], NULL);
    int64_t groups = !fixed ? 1 : below(g, 3) == 0 ? c : c % 2 == 0 && below(g, 3) == 0 ? 2 : 1;
    dims[0] = ir_const(g->ctx, groups * (1 + below(g, groups > 1 ? 2 : 20)));
    dims[1] = fixed ? ir_const(g->ctx, c / groups) : x->v->type->dim[1];
    for (int i = 0; i < w.n; i++) {
        taps *= w.kernel[i];
        dims[2 + i] = ir_const(g->ctx, w.kernel[i]);
    }
    struct item left = *x;
    struct ir_value *in[3] = {left.v, filled(g, 2 + w.n, dims, 1 / sqrt((double)(taps * c / groups))),
                              below(g, 2) ? filled(g, 1, dims, 0.5) : NULL};
    add(g,
        in[1] ? ir_build1(&g->b, IR_conv, in[2] ? 3 : 2, in,
                          IR_ATTRS(ir_attr_ints(IR_ATTR_strides, w.n, w.strides),
                                   ir_attr_ints(IR_ATTR_dilations, w.n, w.dilations),
                                   ir_attr_exprs(IR_ATTR_before, w.n, w.before),
                                   ir_attr_exprs(IR_ATTR_after, w.n, w.after), ir_attr_i(IR_ATTR_groups, groups)))
              : NULL,
        2 * left.mag, left.scale * 3, 0);
    if (below(g, 4) == 0)
        make_residual(g);
}

/* By weight: of a convolution whose result's gradient is made up. */
void make_conv_gradient(struct gen *g)
{
    struct item *x = pick_float(g);
    struct window w;
    int64_t c, points, d;
    ir_expr dims[5];

    if (!x || x->v->type->dtype != TCC_F32 || x->v->type->rank < 3 || x->v->type->rank > 4 ||
        !ir_is_const(x->v->type->dim[1], &c) || c < 1 || !dim_value(g, x->v->type->dim[0], &points) ||
        !make_window(g, x->v->type, true, &w))
        return;
    int64_t groups = 1 + below(g, 3);
    groups = c % groups == 0 ? groups : 1;
    dims[0] = x->v->type->dim[0];
    dims[1] = ir_const(g->ctx, groups * (below(g, 3) ? 1 + below(g, 3) : 4 << below(g, 3)));
    for (int i = 0; i < w.n; i++) {
        dims[2 + i] = ir_add(g->ctx, x->v->type->dim[2 + i], ir_add(g->ctx, w.before[i], w.after[i]));
        dims[2 + i] = ir_addc(g->ctx, dims[2 + i], -(w.kernel[i] - 1) * w.dilations[i] - 1);
        dims[2 + i] = ir_addc(g->ctx, ir_floordiv(g->ctx, dims[2 + i], ir_const(g->ctx, w.strides[i])), 1);
        points *= dim_value(g, dims[2 + i], &d) ? d : 1;
    }
    ir_expr kernel[3];
    for (int i = 0; i < w.n; i++)
        kernel[i] = ir_const(g->ctx, w.kernel[i]);
    struct item left = *x;
    struct ir_value *in[2] = {left.v, filled(g, 2 + w.n, dims, 1 / sqrt((double)points + 1))};
    add(g,
        in[1] ? ir_build1(&g->b, IR_conv_grad_weight, 2, in,
                          IR_ATTRS(ir_attr_ints(IR_ATTR_strides, w.n, w.strides),
                                   ir_attr_ints(IR_ATTR_dilations, w.n, w.dilations),
                                   ir_attr_exprs(IR_ATTR_before, w.n, w.before), ir_attr_i(IR_ATTR_groups, groups),
                                   ir_attr_exprs(IR_ATTR_shape, w.n, kernel)))
              : NULL,
        2 * left.mag, left.scale * 3, 0);
}

void make_pool(struct gen *g)
{
    static const char *const modes[] = {"valid", "full", "sum"};
    struct item *x = pick_float(g);
    struct window w;
    bool max = below(g, 2);

    if (!x || x->v->type->rank < 3 || x->v->type->rank > 4 || !make_window(g, x->v->type, max, &w))
        return;
    const struct ir_attr common[] = {ir_attr_ints(IR_ATTR_kernel, w.n, w.kernel),
                                     ir_attr_ints(IR_ATTR_strides, w.n, w.strides),
                                     ir_attr_ints(IR_ATTR_dilations, w.n, w.dilations),
                                     ir_attr_exprs(IR_ATTR_before, w.n, w.before),
                                     ir_attr_exprs(IR_ATTR_after, w.n, w.after),
                                     max ? (struct ir_attr){0} : ir_attr_s(IR_ATTR_mode, modes[below(g, 3)]),
                                     {0}};
    add(g, ir_build1(&g->b, max ? IR_max_pool : IR_avg_pool, 1, &x->v, common), max ? x->mag : 9 * x->mag, x->scale,
        max ? x->exact : 0);
}

void make_attention(struct gen *g)
{
    struct item *x = pick_float(g);

    if (!x || x->v->type->rank != 4 || x->v->type->dtype != TCC_F32 || x->mag > 20)
        return;
    add(g,
        ir_build1(&g->b, IR_attention, 3, (struct ir_value *[]){x->v, x->v, x->v},
                  IR_ATTRS(ir_attr_f(IR_ATTR_scale, 0.25), ir_attr_i(IR_ATTR_causal, below(g, 2)))),
        x->mag, x->scale * 3, 0);
}
