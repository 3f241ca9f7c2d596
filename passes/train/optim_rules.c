/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The optimizers' formulas, one function each. Their order of operations is that of PyTorch's single-tensor code
 * (torch/optim, 2.15), so that results differ by rounding only; lamb and novograd follow apex's fused kernels. Whatever
 * depends on no element is computed once, as an f64 scalar, and rounded to the parameter's type.
 */
#include "passes/train/optim_int.h"

#include "base/mutant.h"

static struct ir_value *number(struct optim_update *u, double v)
{
    return ir_constant_f(u->b, u->dtype, v);
}

/* An f64 scalar as the parameter's type. */
static struct ir_value *scalar(struct optim_update *u, struct ir_value *f64)
{
    return f64 ? ir_cast_to(u->b, f64, u->dtype) : NULL;
}

static struct ir_value *add(struct optim_update *u, struct ir_value *x, struct ir_value *y)
{
    return ir_binary(u->b, IR_add, x, y);
}

static struct ir_value *sub(struct optim_update *u, struct ir_value *x, struct ir_value *y)
{
    return ir_binary(u->b, IR_sub, x, y);
}

static struct ir_value *mul(struct optim_update *u, struct ir_value *x, struct ir_value *y)
{
    return ir_binary(u->b, IR_mul, x, y);
}

static struct ir_value *div(struct optim_update *u, struct ir_value *x, struct ir_value *y)
{
    return ir_binary(u->b, IR_div, x, y);
}

static struct ir_value *root(struct optim_update *u, struct ir_value *x)
{
    return ir_unary(u->b, IR_sqrt, x);
}

/* factor * x, without a multiplication by 1. */
static struct ir_value *times(struct optim_update *u, struct ir_value *x, double factor)
{
    return factor == 1 ? x : mul(u, x, number(u, factor));
}

/* decay * mean + (1 - decay) * x * x */
static struct ir_value *mean_square(struct optim_update *u, struct ir_value *mean, double decay, struct ir_value *x)
{
    struct ir_value *product = mul(u, times(u, x, 1 - decay), x);
    return add(u, times(u, mean, decay), product);
}

struct ir_value *optim_lerp(struct optim_update *u, struct ir_value *from, struct ir_value *to, double weight)
{
    struct ir_value *d = sub(u, to, from);
    return weight < 0.5 ? add(u, from, times(u, d, weight)) : sub(u, to, times(u, d, MUTANT(20, 1 - weight, weight)));
}

/* f64[]: 1 - beta^t */
static struct ir_value *correction(struct optim_update *u, double beta)
{
    struct ir_builder *b = u->b;
    struct ir_value *power = ir_binary(b, IR_pow, ir_constant_f(b, TCC_F64, beta), u->shared->t);
    return ir_binary(b, IR_sub, ir_constant_f(b, TCC_F64, 1), power);
}

static struct ir_value *rate(struct optim_update *u)
{
    return scalar(u, u->rate);
}

/* The gradient, turned round to maximize, with weight decay as part of it. */
static struct ir_value *gradient(struct optim_update *u, bool decayed)
{
    struct ir_value *g = u->opt[OPT_maximize] != 0 ? ir_unary(u->b, IR_neg, u->g) : u->g;
    return decayed && u->opt[OPT_weight_decay] != 0 ? add(u, g, times(u, u->p, u->opt[OPT_weight_decay])) : g;
}

/* p * (1 - rate * weight_decay) */
static struct ir_value *decayed_parameter(struct optim_update *u)
{
    struct ir_builder *b = u->b;

    if (u->opt[OPT_weight_decay] == 0)
        return u->p;
    struct ir_value *product = ir_binary(b, IR_mul, u->rate, ir_constant_f(b, TCC_F64, u->opt[OPT_weight_decay]));
    return mul(u, u->p, scalar(u, ir_binary(b, IR_sub, ir_constant_f(b, TCC_F64, 1), product)));
}

static struct ir_value *sgd(struct optim_update *u)
{
    const double *o = u->opt;
    struct ir_value *g = gradient(u, true), *old = u->slot[0], *buffer;

    if (o[OPT_momentum] == 0)
        return sub(u, u->p, mul(u, rate(u), g));
    struct ir_value *product = times(u, g, 1 - o[OPT_dampening]);
    buffer = add(u, times(u, old, o[OPT_momentum]), product);
    if (MUTANT(22, o[OPT_dampening] != 0, false)) /* otherwise the zeros it starts from give the same */
        buffer = ir_select(u->b, u->shared->first, g, buffer);
    u->slot_new[0] = buffer;
    g = o[OPT_nesterov] != 0 ? add(u, g, MUTANT(21, times(u, buffer, o[OPT_momentum]), buffer)) : buffer;
    return sub(u, u->p, mul(u, rate(u), g));
}

/* p - (rate / bc1) * m / (sqrt(v) / sqrt(bc2) + eps), from the decayed gradient and parameter. */
static struct ir_value *adam_step(struct optim_update *u, struct ir_value *p, struct ir_value *g)
{
    const double *o = u->opt;
    struct ir_builder *b = u->b;
    struct ir_value *size = scalar(u, ir_binary(b, IR_div, u->rate, correction(u, o[OPT_beta1])));
    struct ir_value *bias = scalar(u, ir_unary(b, IR_sqrt, correction(u, o[OPT_beta2])));
    struct ir_value *v;

    u->slot_new[0] = optim_lerp(u, u->slot[0], g, 1 - o[OPT_beta1]);
    v = u->slot_new[1] = mean_square(u, u->slot[1], o[OPT_beta2], g);
    if (o[OPT_amsgrad] != 0)
        v = u->slot_new[2] = ir_binary(b, MUTANT(25, IR_max, IR_min), u->slot[2], v);
    struct ir_value *eps_value = number(u, o[OPT_eps]);
    v = add(u, div(u, root(u, v), bias), eps_value);
    return sub(u, p, mul(u, size, div(u, u->slot_new[0], v)));
}

static struct ir_value *adam(struct optim_update *u)
{
    return adam_step(u, u->p, gradient(u, true));
}

static struct ir_value *adamw(struct optim_update *u)
{
    struct ir_value *plain_gradient = gradient(u, MUTANT(23, false, true));
    return adam_step(u, decayed_parameter(u), plain_gradient);
}

static struct ir_value *adadelta(struct optim_update *u)
{
    const double *o = u->opt;
    struct ir_value *g = gradient(u, true), *eps = number(u, o[OPT_eps]), *delta;

    u->slot_new[0] = mean_square(u, u->slot[0], o[OPT_rho], g);
    struct ir_value *root_of_sum = root(u, add(u, u->slot_new[0], eps));
    delta = mul(u, div(u, root(u, add(u, u->slot[1], eps)), root_of_sum), g);
    u->slot_new[1] = mean_square(u, u->slot[1], o[OPT_rho], delta);
    return sub(u, u->p, mul(u, rate(u), delta));
}

static struct ir_value *adagrad(struct optim_update *u)
{
    const double *o = u->opt;
    struct ir_builder *b = u->b;
    struct ir_value *g = gradient(u, true), *one = ir_constant_f(b, TCC_F64, 1), *slower, *size;

    struct ir_value *decay_value = ir_constant_f(b, TCC_F64, o[OPT_lr_decay]);
    slower = ir_binary(b, IR_mul, MUTANT(24, ir_binary(b, IR_sub, u->shared->t, one), u->shared->t), decay_value);
    size = o[OPT_lr_decay] == 0 ? u->rate : ir_binary(b, IR_div, u->rate, ir_binary(b, IR_add, one, slower));
    u->slot_new[0] = add(u, u->slot[0], mul(u, g, g));
    struct ir_value *eps_value = number(u, o[OPT_eps]);
    struct ir_value *other = div(u, g, add(u, root(u, u->slot_new[0]), eps_value));
    return sub(u, u->p, mul(u, scalar(u, size), other));
}

static struct ir_value *rmsprop(struct optim_update *u)
{
    const double *o = u->opt;
    struct ir_value *g = gradient(u, true), *square, *step;

    square = u->slot_new[0] = mean_square(u, u->slot[0], o[OPT_alpha], g);
    if (o[OPT_centered] != 0) {
        u->slot_new[2] = optim_lerp(u, u->slot[2], g, 1 - o[OPT_alpha]);
        square = sub(u, square, mul(u, u->slot_new[2], u->slot_new[2]));
    }
    struct ir_value *eps_value = number(u, o[OPT_eps]);
    step = div(u, g, add(u, root(u, square), eps_value));
    if (o[OPT_momentum] != 0)
        step = u->slot_new[1] = add(u, times(u, u->slot[1], o[OPT_momentum]), step);
    return sub(u, u->p, mul(u, rate(u), step));
}

/* f32[]: the 2-norm of all elements (the largest magnitude where `largest`). */
static struct ir_value *norm(struct optim_update *u, struct ir_value *x, bool largest)
{
    struct ir_value *v = largest ? ir_unary(u->b, IR_abs, x) : mul(u, x, x);

    v = ir_reduce_from(u->b, largest ? IR_reduce_max : IR_reduce_sum, v, 0);
    return largest ? v : root(u, v);
}

/* apex: multi_tensor_lamb.cu, stage 1 (moments and direction) and 2 (trust ratio). */
static struct ir_value *lamb(struct optim_update *u)
{
    const double *o = u->opt;
    struct ir_value *g = u->g, *m, *v, *direction, *size = rate(u), *zero = number(u, 0);
    bool decay = o[OPT_weight_decay] != 0;

    if (o[OPT_max_grad_norm] != 0) {
        struct ir_value *limit = ir_constant_f(u->b, TCC_F32, o[OPT_max_grad_norm]);
        struct ir_value *over = ir_binary(u->b, IR_div, u->shared->norm, limit);
        struct ir_value *larger = ir_binary(u->b, IR_gt, u->shared->norm, limit);
        over = ir_select(u->b, larger, over, ir_constant_f(u->b, TCC_F32, 1));
        g = over ? div(u, g, ir_cast_to(u->b, over, u->dtype)) : NULL;
    }
    if (decay && o[OPT_adam_w_mode] == 0)
        g = add(u, g, times(u, u->p, o[OPT_weight_decay]));
    struct ir_value *product = times(u, g, o[OPT_grad_averaging] != 0 ? 1 - o[OPT_beta1] : 1);
    m = u->slot_new[0] = add(u, times(u, u->slot[0], o[OPT_beta1]), product);
    v = u->slot_new[1] = mean_square(u, u->slot[1], o[OPT_beta2], g);
    if (o[OPT_bias_correction] != 0) {
        m = div(u, m, scalar(u, correction(u, o[OPT_beta1])));
        v = div(u, v, scalar(u, correction(u, o[OPT_beta2])));
    }
    struct ir_value *eps_value = number(u, o[OPT_eps]);
    direction = div(u, m, add(u, root(u, v), eps_value));
    if (decay && o[OPT_adam_w_mode] != 0)
        direction = add(u, direction, times(u, u->p, o[OPT_weight_decay]));
    if (decay || o[OPT_use_nvlamb] != 0) {
        struct ir_value *np = norm(u, u->p, false), *nd = norm(u, direction, false);
        struct ir_value *other = ir_binary(u->b, IR_ne, nd, zero);
        struct ir_value *both = ir_binary(u->b, IR_and, ir_binary(u->b, IR_ne, np, zero), other);
        size = ir_select(u->b, both, mul(u, size, MUTANT(26, div(u, np, nd), div(u, nd, np))), size);
    }
    return sub(u, u->p, mul(u, size, direction));
}

/* apex: multi_tensor_novograd.cu; the slot holds the norm, not its square. */
static struct ir_value *novograd(struct optim_update *u)
{
    const double *o = u->opt;
    bool largest = o[OPT_norm_type] == 0;
    struct ir_value *now = norm(u, u->g, largest), *n, *den, *m, *step;
    struct ir_value *weight = number(u, o[OPT_grad_averaging] != 0 ? 1 - o[OPT_beta1] : 1);

    struct ir_value *part = times(u, largest ? now : mul(u, now, now), 1 - o[OPT_beta2]);
    n = add(u, times(u, largest ? u->slot[1] : mul(u, u->slot[1], u->slot[1]), o[OPT_beta2]), part);
    n = largest ? n : root(u, n);
    if (o[OPT_init_zero] == 0)
        n = ir_select(u->b, u->shared->first, now, n);
    u->slot_new[1] = den = n;
    if (o[OPT_bias_correction] != 0)
        den = div(u, n, scalar(u, ir_unary(u->b, IR_sqrt, correction(u, o[OPT_beta2]))));
    den = add(u, den, number(u, o[OPT_eps]));

    bool inside = o[OPT_reg_inside_moment] != 0;
    struct ir_value *decay = inside ? times(u, u->p, o[OPT_weight_decay]) : NULL;
    step = inside ? add(u, div(u, u->g, den), decay) : u->g;
    struct ir_value *other = mul(u, weight, step);
    m = u->slot_new[0] = add(u, times(u, u->slot[0], o[OPT_beta1]), other);
    if (o[OPT_bias_correction] != 0)
        m = div(u, m, scalar(u, correction(u, o[OPT_beta1])));
    if (o[OPT_reg_inside_moment] == 0) {
        m = div(u, m, den);
        if (o[OPT_weight_decay] != 0)
            m = add(u, m, times(u, u->p, o[OPT_weight_decay]));
    }
    return sub(u, u->p, mul(u, rate(u), m));
}

optim_rule *const optim_rules[OPTIM_N] = {
#define OPTIMIZER(name, meaning) name,
#include "passes/train/optim.def"
};
