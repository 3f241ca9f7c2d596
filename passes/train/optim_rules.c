/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The optimizers' formulas, one function each. Their order of operations is that of PyTorch's single-tensor code
 * (torch/optim, 2.15), so that results differ by rounding only; lamb and novograd follow apex's fused kernels. Whatever
 * depends on no element is computed once, as an f64 scalar, and rounded to the parameter's type.
 */
#include "passes/train/optim_int.h"

#include "base/mutant.h"

/* An f64 scalar as the parameter's type. */
static struct ir_value *scalar(struct optim_update *u, struct ir_value *f64)
{
    return f64 ? ir_cast_to(u->b, f64, u->dtype) : NULL;
}

/* x + y * a */
static struct ir_value *plus(struct optim_update *u, struct ir_value *x, struct ir_value *y, double a)
{
    return ir_formula_n(u->b, "x + y * a", IR_NUMBERS(a), x, y);
}

/* x * a + y * b */
static struct ir_value *mix(struct optim_update *u, struct ir_value *x, double a, struct ir_value *y, double b)
{
    return ir_formula_n(u->b, "x * a + y * b", IR_NUMBERS(a, b), x, y);
}

static struct ir_value *mean_square(struct optim_update *u, struct ir_value *mean, double decay, struct ir_value *x)
{
    return ir_formula_n(u->b, "x * a + y * b * y", IR_NUMBERS(decay, 1 - decay), mean, x);
}

struct ir_value *optim_lerp(struct optim_update *u, struct ir_value *from, struct ir_value *to, double weight)
{
    return weight < 0.5 ? ir_formula_n(u->b, "x + (y - x) * a", IR_NUMBERS(weight), from, to)
                        : ir_formula_n(u->b, "y - (y - x) * a", IR_NUMBERS(MUTANT(20, 1 - weight, weight)), from, to);
}

/* x, of the type of a parameter, over one of Adam's corrections of a beta (or its square root): 1 - beta^t */
static struct ir_value *corrected(struct optim_update *u, struct ir_value *x, const char *text, double beta)
{
    return ir_binary(u->b, IR_div, x, scalar(u, ir_formula_n(u->b, text, IR_NUMBERS(beta), u->shared->t)));
}
#define CORRECTION "1 - pow(a, x)"
#define ROOT_OF_CORRECTION "sqrt(1 - pow(a, x))"

static struct ir_value *rate(struct optim_update *u)
{
    return scalar(u, u->rate);
}

/* The gradient, turned round to maximize, with weight decay as part of it. */
static struct ir_value *gradient(struct optim_update *u, bool decayed)
{
    struct ir_value *g = u->opt[OPT_maximize] != 0 ? ir_unary(u->b, IR_neg, u->g) : u->g;
    return decayed && u->opt[OPT_weight_decay] != 0 ? plus(u, g, u->p, u->opt[OPT_weight_decay]) : g;
}

/* p * (1 - rate * weight_decay) */
static struct ir_value *decayed_parameter(struct optim_update *u)
{
    if (u->opt[OPT_weight_decay] == 0)
        return u->p;
    struct ir_value *kept = ir_formula_n(u->b, "1 - x * a", IR_NUMBERS(u->opt[OPT_weight_decay]), u->rate);
    return ir_binary(u->b, IR_mul, u->p, scalar(u, kept));
}

/* p - rate * direction */
static struct ir_value *step(struct optim_update *u, struct ir_value *direction)
{
    return ir_formula(u->b, "x - y * z", u->p, rate(u), direction);
}

static struct ir_value *sgd(struct optim_update *u)
{
    const double *o = u->opt;
    struct ir_value *g = gradient(u, true), *old = u->slot[0], *buffer;

    if (o[OPT_momentum] == 0)
        return step(u, g);
    buffer = mix(u, old, o[OPT_momentum], g, 1 - o[OPT_dampening]);
    if (MUTANT(22, o[OPT_dampening] != 0, false)) /* otherwise the zeros it starts from give the same */
        buffer = ir_select(u->b, u->shared->first, g, buffer);
    u->slot_new[0] = buffer;
    return step(u, o[OPT_nesterov] != 0 ? plus(u, g, buffer, MUTANT(21, o[OPT_momentum], 1)) : buffer);
}

/* p - (rate / bc1) * m / (sqrt(v) / sqrt(bc2) + eps), from the decayed gradient and parameter. */
static struct ir_value *adam_step(struct optim_update *u, struct ir_value *p, struct ir_value *g)
{
    const double *o = u->opt;
    struct ir_builder *b = u->b;
    struct ir_value *size = ir_formula_n(b, "y / (1 - pow(a, x))", IR_NUMBERS(o[OPT_beta1]), u->shared->t, u->rate), *v;

    u->slot_new[0] = optim_lerp(u, u->slot[0], g, 1 - o[OPT_beta1]);
    v = u->slot_new[1] = mean_square(u, u->slot[1], o[OPT_beta2], g);
    if (o[OPT_amsgrad] != 0)
        v = u->slot_new[2] = ir_binary(b, MUTANT(25, IR_max, IR_min), u->slot[2], v);
    v = corrected(u, ir_unary(b, IR_sqrt, v), ROOT_OF_CORRECTION, o[OPT_beta2]);
    return ir_formula_n(b, "x - y * (z / (u + a))", IR_NUMBERS(o[OPT_eps]), p, scalar(u, size), u->slot_new[0], v);
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
    struct ir_value *g = gradient(u, true), *delta;

    u->slot_new[0] = mean_square(u, u->slot[0], o[OPT_rho], g);
    delta = ir_formula_n(u->b, "sqrt(x + a) / sqrt(y + a) * z", IR_NUMBERS(o[OPT_eps]), u->slot[1], u->slot_new[0], g);
    u->slot_new[1] = mean_square(u, u->slot[1], o[OPT_rho], delta);
    return step(u, delta);
}

static struct ir_value *adagrad(struct optim_update *u)
{
    const double *o = u->opt;
    struct ir_value *g = gradient(u, true), *size = u->rate;

    if (o[OPT_lr_decay] != 0)
        size = ir_formula_n(u->b, "x / (1 + (y - a) * b)", IR_NUMBERS(MUTANT(24, 1, 0), o[OPT_lr_decay]), size,
                            u->shared->t);
    u->slot_new[0] = ir_formula(u->b, "x + y * y", u->slot[0], g);
    return ir_formula_n(u->b, "x - y * (z / (sqrt(u) + a))", IR_NUMBERS(o[OPT_eps]), u->p, scalar(u, size), g,
                        u->slot_new[0]);
}

static struct ir_value *rmsprop(struct optim_update *u)
{
    const double *o = u->opt;
    struct ir_value *g = gradient(u, true), *square, *direction;

    square = u->slot_new[0] = mean_square(u, u->slot[0], o[OPT_alpha], g);
    if (o[OPT_centered] != 0) {
        u->slot_new[2] = optim_lerp(u, u->slot[2], g, 1 - o[OPT_alpha]);
        square = ir_formula(u->b, "x - y * y", square, u->slot_new[2]);
    }
    direction = ir_formula_n(u->b, "x / (sqrt(y) + a)", IR_NUMBERS(o[OPT_eps]), g, square);
    if (o[OPT_momentum] != 0)
        direction = u->slot_new[1] =
            ir_formula_n(u->b, "x * a + y", IR_NUMBERS(o[OPT_momentum]), u->slot[1], direction);
    return step(u, direction);
}

/* f32[]: the 2-norm of all elements (the largest magnitude where `largest`). */
static struct ir_value *norm(struct optim_update *u, struct ir_value *x, bool largest)
{
    struct ir_value *v = ir_formula(u->b, largest ? "abs(x)" : "x * x", x);

    v = ir_reduce_from(u->b, largest ? IR_reduce_max : IR_reduce_sum, v, 0);
    return largest ? v : ir_unary(u->b, IR_sqrt, v);
}

/* apex: multi_tensor_lamb.cu, stage 1 (moments and direction) and 2 (trust ratio). */
static struct ir_value *lamb(struct optim_update *u)
{
    const double *o = u->opt;
    struct ir_value *g = u->g, *m, *v, *direction, *size = rate(u);
    bool decay = o[OPT_weight_decay] != 0;

    if (o[OPT_max_grad_norm] != 0) {
        struct ir_value *over =
            ir_formula_n(u->b, "select(gt(x, a), x / a, 1)", IR_NUMBERS(o[OPT_max_grad_norm]), u->shared->norm);
        g = ir_binary(u->b, IR_div, g, scalar(u, over));
    }
    if (decay && o[OPT_adam_w_mode] == 0)
        g = plus(u, g, u->p, o[OPT_weight_decay]);
    m = u->slot_new[0] = mix(u, u->slot[0], o[OPT_beta1], g, o[OPT_grad_averaging] != 0 ? 1 - o[OPT_beta1] : 1);
    v = u->slot_new[1] = mean_square(u, u->slot[1], o[OPT_beta2], g);
    if (o[OPT_bias_correction] != 0) {
        m = corrected(u, m, CORRECTION, o[OPT_beta1]);
        v = corrected(u, v, CORRECTION, o[OPT_beta2]);
    }
    direction = ir_formula_n(u->b, "x / (sqrt(y) + a)", IR_NUMBERS(o[OPT_eps]), m, v);
    if (decay && o[OPT_adam_w_mode] != 0)
        direction = plus(u, direction, u->p, o[OPT_weight_decay]);
    if (decay || o[OPT_use_nvlamb] != 0) {
        struct ir_value *np = norm(u, u->p, false), *nd = norm(u, direction, false);
        size = ir_formula(u->b,
                          MUTANT(26, "select(and(ne(y, 0), ne(z, 0)), x * (y / z), x)",
                                 "select(and(ne(y, 0), ne(z, 0)), x * (z / y), x)"),
                          size, np, nd);
    }
    return ir_formula(u->b, "x - y * z", u->p, size, direction);
}

/* apex: multi_tensor_novograd.cu; the slot holds the norm, not its square. */
static struct ir_value *novograd(struct optim_update *u)
{
    const double *o = u->opt;
    bool largest = o[OPT_norm_type] == 0;
    struct ir_value *now = norm(u, u->g, largest), *n, *den, *m, *direction = u->g;

    n = ir_formula_n(u->b, largest ? "x * a + y * b" : "sqrt(x * x * a + y * y * b)",
                     IR_NUMBERS(o[OPT_beta2], 1 - o[OPT_beta2]), u->slot[1], now);
    if (o[OPT_init_zero] == 0)
        n = ir_select(u->b, u->shared->first, now, n);
    u->slot_new[1] = den = n;
    if (o[OPT_bias_correction] != 0)
        den = corrected(u, n, ROOT_OF_CORRECTION, o[OPT_beta2]);
    den = ir_formula_n(u->b, "x + a", IR_NUMBERS(o[OPT_eps]), den);

    if (o[OPT_reg_inside_moment] != 0)
        direction = plus(u, ir_binary(u->b, IR_div, u->g, den), u->p, o[OPT_weight_decay]);
    m = u->slot_new[0] = mix(u, u->slot[0], o[OPT_beta1], direction, o[OPT_grad_averaging] != 0 ? 1 - o[OPT_beta1] : 1);
    if (o[OPT_bias_correction] != 0)
        m = corrected(u, m, CORRECTION, o[OPT_beta1]);
    if (o[OPT_reg_inside_moment] == 0) {
        m = ir_binary(u->b, IR_div, m, den);
        if (o[OPT_weight_decay] != 0)
            m = plus(u, m, u->p, o[OPT_weight_decay]);
    }
    return step(u, m);
}

optim_rule *const optim_rules[OPTIM_N] = {
#define OPTIMIZER(name, meaning) name,
#include "passes/train/optim.def"
};
