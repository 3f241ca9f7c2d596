/* SPDX-License-Identifier: Apache-2.0 */
/* Losses, and the optimizers of ai.onnx.preview.training. */
#include "compiler/onnx/import_int.h"

#include <string.h>

static bool read_reduction(struct imp *im, enum imp_reduction *how)
{
    static const char *const names[] = {"none", "mean", "sum"};
    const char *given = imp_s(im, "reduction", "mean");
    for (*how = IMP_NONE; *how <= IMP_SUM; (*how)++)
        if (!strcmp(given, names[*how]))
            return true;
    return imp_bad(im, "reduction '%s'", given);
}

/* The row's argument: 1 takes the logarithm of the softmax first. */
bool onnx_op_loss(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *target = x ? imp_tensor(im, 1) : NULL;
    enum imp_reduction how;
    if (!target || !read_reduction(im, &how))
        return false;
    if (imp_rank(x) < 2 || imp_rank(target) != imp_rank(x) - 1)
        return imp_bad(im, "scores %s for labels %s", ir_type_text(im->ctx, x->type),
                       ir_type_text(im->ctx, target->type));
    bool softmax = im->row->arg;
    struct imp_labels_loss l = {.logs = softmax ? imp_softmax(im, imp_wide(im, x), 1, true) : imp_wide(im, x),
                                .target = target,
                                .weight = imp_in(im, 2),
                                .ignores = imp_attr(im, "ignore_index"),
                                .ignored = imp_i(im, "ignore_index", 0)};
    struct ir_value *each = imp_likelihood(im, &l), *loss = imp_weighed(im, &l, each, how);
    return loss && imp_out(im, 0, imp_cast(im, loss, imp_dtype(x))) &&
           (!softmax || !imp_wants(im, 1) || imp_out(im, 1, imp_cast(im, l.logs, imp_dtype(x))));
}

/* -- Optimizers: (rate, step count, parameters..., gradients..., states...) -> (parameters..., states...) */

struct step {
    struct ir_value *rate, *count;
    struct ir_value *x, *g;
    struct ir_value *state[2];
};

static struct ir_value *regularised(struct imp *im, const struct step *s)
{
    double norm = imp_f(im, "norm_coefficient", 0);
    return norm == 0 ? s->g : imp_formula_n(im, "x + a * y", IMP_NUMBERS(norm), s->g, s->x);
}

/* Is this not the first step? */
static struct ir_value *later(struct imp *im, const struct step *s)
{
    return imp_with(im, IR_gt, imp_cast(im, s->count, TCC_I64), 0);
}

static bool adagrad(struct imp *im, struct step *s)
{
    struct ir_value *g = regularised(im, s), *t = imp_cast(im, s->count, imp_dtype(s->x));
    const double *n = IMP_NUMBERS(imp_f(im, "decay_factor", 0), imp_f(im, "epsilon", 1e-6f));
    s->state[0] = imp_formula(im, "x + square(y)", s->state[0], g);
    s->x = imp_formula_n(im, "x - u / (1 + v * a) * y / (sqrt(z) + b)", n, s->x, g, s->state[0], s->rate, t);
    return s->x != NULL;
}

static bool momentum(struct imp *im, struct step *s)
{
    struct ir_value *g = regularised(im, s);
    const double *n = IMP_NUMBERS(imp_f(im, "alpha", 0), imp_f(im, "beta", 0));
    bool nesterov = !strcmp(imp_s(im, "mode", "standard"), "nesterov");
    /* The first step takes the gradient whole. */
    s->state[0] = imp_formula_n(im, "a * x + select(z, b, 1) * y", n, s->state[0], g, later(im, s));
    s->x = imp_formula_n(im, nesterov ? "x - z * (u + a * y)" : "x - z * y", n, s->x, s->state[0], s->rate, g);
    return s->x != NULL;
}

static bool adam(struct imp *im, struct step *s)
{
    double a = imp_f(im, "alpha", 0.9f), b = imp_f(im, "beta", 0.999f), post = imp_f(im, "norm_coefficient_post", 0);
    struct ir_value *g = regularised(im, s), *t = imp_cast(im, s->count, imp_dtype(s->x));
    const double *n = IMP_NUMBERS(a, b, imp_f(im, "epsilon", 1e-6f));
    s->state[0] = imp_formula_n(im, "a * x + b * y", IMP_NUMBERS(a, 1 - a), s->state[0], g);
    s->state[1] = imp_formula_n(im, "a * x + b * square(y)", IMP_NUMBERS(b, 1 - b), s->state[1], g);
    struct ir_value *warm = imp_formula_n(im, "sqrt(1 - pow(b, x)) / (1 - pow(a, x))", n, t);
    struct ir_value *rate = imp_formula(im, "x * select(z, y, 1)", s->rate, warm, later(im, s));
    s->x = imp_formula_n(im, "x - u * y / (sqrt(z) + c)", n, s->x, s->state[0], s->state[1], rate);
    if (post != 0)
        s->x = imp_with(im, IR_mul, s->x, 1 - post);
    return s->x != NULL;
}

/* `arg`: 0 Adagrad, 1 Momentum, 2 Adam. */
bool onnx_op_optimizer(struct imp *im)
{
    int arg = im->row->arg;
    static bool (*const steps[])(struct imp *, struct step *) = {adagrad, momentum, adam};
    int nstate = arg == 2 ? 2 : 1, groups = 2 + nstate, n = (imp_nin(im) - 2) / groups;
    if (n < 1 || imp_nin(im) != 2 + n * groups)
        return imp_bad(im, "%d operands; R, T and %d for each parameter are expected", imp_nin(im), groups);
    for (int k = 0; k < n; k++) {
        struct step s = {.rate = imp_tensor(im, 0),
                         .count = imp_tensor(im, 1),
                         .x = imp_tensor(im, 2 + k),
                         .g = imp_tensor(im, 2 + n + k)};
        if (!s.rate || !s.count || !s.x || !s.g)
            return false;
        for (int j = 0; j < nstate; j++) {
            if (!(s.state[j] = imp_tensor(im, 2 + (2 + j) * n + k)))
                return false;
        }
        s.rate = imp_cast(im, s.rate, imp_dtype(s.x));
        if (!steps[arg](im, &s) || !imp_out(im, k, s.x))
            return false;
        for (int j = 0; j < nstate; j++) {
            if (!imp_out(im, (1 + j) * n + k, s.state[j]))
                return false;
        }
    }
    return true;
}
