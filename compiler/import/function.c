/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that have no op: erfc, hypot, activations by their names in ONNX; random numbers and dropout. */
#include "compiler/import/import.h"

#include <float.h>
#include <math.h>
#include <strings.h>

/* erfc(x) = 1 - erf(x), for x > 0.5 too small to be a difference: there by the rational approximation of Numerical
 * Recipes 6.2 (Press et al.), of relative error 1.2e-7, which is f32's. */
struct ir_value *imp_erfc(struct imp *im, struct ir_value *x)
{
    static const double terms[] = {0.17087277,  -0.82215223, 1.48851587, -1.13520398, 0.27886807,
                                   -0.18628806, 0.09678418,  0.37409196, 1.00002368,  -1.26551223};
    struct ir_value *plain = imp_formula(im, "1 - erf(x)", x);
    if (imp_dtype(x) == TCC_F64)
        return plain;
    struct ir_value *size = imp_with(im, IR_max, x, 0.5);
    struct ir_value *t = imp_formula(im, "recip(x * 0.5 + 1)", size), *sum = imp_like(im, x, terms[0]);
    for (size_t k = 1; k < sizeof terms / sizeof *terms; k++)
        sum = imp_formula_n(im, "x * y + a", &terms[k], sum, t);
    return imp_formula(im, "select(gt(x, 0.5), y * exp(z - square(u)), v)", x, t, sum, size, plain);
}

/* Infinite beside NaN, too. */
struct ir_value *imp_hypot(struct imp *im, struct ir_value *a, struct ir_value *b)
{
    a = imp_un(im, IR_abs, a);
    b = imp_un(im, IR_abs, b);
    struct ir_value *top = imp_bin(im, IR_max, a, b);
    struct ir_value *part = imp_formula(im, "min(x, y) / select(eq(z, 0), 1, z)", a, b, top);
    return imp_formula_n(im, "select(or(isinf(x), isinf(y)), a, z * sqrt(square(u) + 1))", IMP_NUMBERS(INFINITY), a, b,
                         top, part);
}

/* -- Activations of the recurrent and the fused operators */

struct activation {
    const char *name;
    enum ir_op op;
    int constants; /* how many of alpha, beta it takes */
    double alpha, beta;
};

static const struct activation activations[] = {
    {"Relu", IR_relu, 0, 0, 0},
    {"Tanh", IR_tanh, 0, 0, 0},
    {"Sigmoid", IR_sigmoid, 0, 0, 0},
    {"Softsign", IR_softsign, 0, 0, 0},
    {"Softplus", IR_softplus, 0, 0, 0},
    {"LeakyRelu", IR_leaky_relu, 1, 0.01, 0},
    {"ThresholdedRelu", IR_thresholded_relu, 1, 1.0, 0},
    {"Elu", IR_elu, 1, 1.0, 0},
    {"HardSigmoid", IR_hardsigmoid, 2, 0.2, 0.5},
    {"HardSwish", IR_hardswish, 0, 0, 0},
    {"Clip", IR_clip, 2, -FLT_MAX, FLT_MAX},
    {"Affine", IR_add, 2, 1.0, 0},      /* alpha x + beta */
    {"ScaledTanh", IR_tanh, 2, 1.0, 1}, /* alpha tanh(beta x) */
};

static const struct activation *find_activation(const char *name)
{
    for (size_t k = 0; k < sizeof activations / sizeof *activations; k++)
        if (!strcasecmp(activations[k].name, name))
            return &activations[k];
    return NULL;
}

int imp_activation_constants(const char *name)
{
    const struct activation *a = find_activation(name);
    return a ? a->constants : 0;
}

/* alpha and beta: NaN where the node gives none. */
struct ir_value *imp_activation(struct imp *im, const char *name, struct ir_value *x, double alpha, double beta)
{
    const struct activation *a = find_activation(name);
    if (!x)
        return NULL;
    if (!a)
        return imp_bad(im, "there is no activation '%s'", name), NULL;
    struct ir_value *in[] = {x, NULL, NULL};
    if (a->constants > 0)
        in[1] = imp_like(im, x, alpha == alpha ? alpha : a->alpha);
    if (a->constants > 1)
        in[2] = imp_like(im, x, beta == beta ? beta : a->beta);
    if (a->op == IR_tanh && a->constants)
        return imp_bin(im, IR_mul, in[1], imp_un(im, IR_tanh, imp_bin(im, IR_mul, in[2], x)));
    if (a->op == IR_add)
        return imp_bin(im, IR_add, imp_bin(im, IR_mul, in[1], x), in[2]);
    return imp_op(im, a->op, 1 + a->constants, in, NULL);
}

/* -- Random numbers: Philox's, the same for the same seed whatever the threads */

struct ir_value *imp_random(struct imp *im, enum ir_op op, int rank, const ir_expr *dims, enum tcc_dtype dtype,
                            int64_t seed)
{
    struct ir_node *n = ir_build(&im->b, op, 0, NULL,
                                 IR_ATTRS(ir_attr_exprs(IR_ATTR_shape, rank, dims), ir_attr_dtype(IR_ATTR_to, dtype),
                                          ir_attr_i(IR_ATTR_seed, seed), ir_attr_i(IR_ATTR_stream, im->stream++)));
    return n ? n->out[0] : NULL;
}

struct ir_value *imp_dropout(struct imp *im, struct ir_value *x, struct ir_value *probability, int64_t seed,
                             struct ir_value *training, struct ir_value **mask)
{
    struct ir_value *u = x ? imp_random(im, IR_random_uniform, imp_rank(x), x->type->dim, TCC_F32, seed) : NULL;
    struct ir_value *p = imp_cast(im, probability, TCC_F32), *one = imp_num(im, TCC_F32, 1);
    *mask = imp_bin(im, IR_ge, u, p);
    if (training)
        *mask = imp_bin(im, IR_or, *mask, imp_un(im, IR_not, training));
    struct ir_value *scale = imp_bin(im, IR_div, one, imp_bin(im, IR_sub, one, p));
    if (training)
        scale = imp_select(im, training, scale, one);
    struct ir_value *zero = x ? imp_like(im, x, 0) : NULL;
    return x ? imp_select(im, *mask, imp_bin(im, IR_mul, x, imp_cast(im, scale, imp_dtype(x))), zero) : NULL;
}
