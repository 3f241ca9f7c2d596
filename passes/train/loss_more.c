/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Losses that are differentiated rather than written out, but for kl: torch.nn.functional's kl_div, triplet_margin_loss
 * (p = 2, eps = 1e-6) and cosine_embedding_loss (eps = 1e-12), torchvision.ops.sigmoid_focal_loss, and the Dice loss of
 * Milletari, Navab, Ahmadi, "V-Net" (2016), with unsquared denominators and Laplace smoothing.
 */
#include "passes/train/loss_build_int.h"

/* t (log t - x), 0 where t is 0; or e^t (t - x) */
bool loss_divergence(struct loss_build *l)
{
    if (!loss_values_fit(l))
        return false;
    struct ir_value *t = wanted(l), *p = l->loss->log_target != 0 ? op1(l, IR_exp, t) : NULL;
    struct ir_value *each = p ? ir_formula(l->b, "z * (y - x)", l->x, t, p)
                              : ir_formula(l->b, "y * log(select(ne(y, 0), y, 1)) - y * x", l->x, t);
    return loss_elements(l, each, op1(l, IR_neg, p ? p : t));
}

/* The binary cross entropy times (1 - p_t)^gamma alpha_t, 1 - p_t = p (1 - t) + (1 - p) t */
bool loss_focal(struct loss_build *l)
{
    if (!loss_values_fit(l))
        return false;
    double alpha = l->loss->alpha, gamma = l->loss->gamma;
    struct ir_value *t = wanted(l), *rest = ir_formula(l->b, "1 - x", t), *each = loss_binary(l, rest, t, NULL);
    struct ir_value *p = op1(l, IR_sigmoid, l->x);
    struct ir_value *miss = ir_formula(l->b, "sigmoid(-x) * y + u * z", l->x, t, rest, p);
    if (gamma != 0)
        each = ir_formula_n(l->b, gamma == 2 ? "x * square(y)" : "x * pow(y, a)", IR_NUMBERS(gamma), each, miss);
    if (alpha >= 0)
        each = ir_formula_n(l->b, "x * (y * a + z * b)", IR_NUMBERS(alpha, 1 - alpha), each, t, rest);
    return loss_elements(l, each, NULL);
}

bool loss_dice(struct loss_build *l)
{
    if (l->rank < 1)
        return loss_wrong(l, "dice takes an axis of samples");
    if (!loss_values_fit(l))
        return false;
    struct ir_value *t = wanted(l), *p = op1(l, IR_sigmoid, l->x);
    if (t->type->rank != l->rank)
        return loss_wrong(l, "the target must have the scores' dims");
    struct ir_value *sum = ir_reduce_from(l->b, IR_reduce_sum, op2(l, IR_mul, p, t), 1);
    struct ir_value *sum_p = ir_reduce_from(l->b, IR_reduce_sum, p, 1),
                    *sum_t = ir_reduce_from(l->b, IR_reduce_sum, t, 1);
    struct ir_value *each =
        ir_formula_n(l->b, "1 - (2 * x + a) / (y + z + a)", IR_NUMBERS(l->loss->smooth), sum, sum_p, sum_t);
    return loss_elements(l, each, NULL);
}

static bool alike(struct loss_build *l, int n)
{
    for (int k = 0; k < n; k++) {
        ir_type a = l->x->type, b = l->others[k]->type;
        bool same = a->rank == b->rank && a->rank >= 1;
        for (int i = 0; same && i < a->rank; i++)
            same = ir_expr_eq(l->b->ctx, a->dim[i], b->dim[i]) != IR_NO;
        if (!same)
            return loss_wrong(
                l, ir_internf(l->b->ctx, "the outputs must have equal dims, the last one that of features; one has %s",
                              ir_type_text(l->b->ctx, b)));
    }
    return true;
}

static struct ir_value *along_last(struct loss_build *l, struct ir_value *x)
{
    return ir_reduce_from(l->b, IR_reduce_sum, x, l->rank - 1);
}

static struct ir_value *euclidean(struct loss_build *l, struct ir_value *x, struct ir_value *y)
{
    return op1(l, IR_sqrt, along_last(l, ir_formula(l->b, "square(x - y + 1e-6)", x, y)));
}

bool loss_triplet(struct loss_build *l)
{
    if (!alike(l, 2))
        return false;
    struct ir_value *near = euclidean(l, l->x, l->others[0]), *far = euclidean(l, l->x, l->others[1]);
    if (l->loss->swap != 0)
        far = op2(l, IR_min, far, euclidean(l, l->others[0], l->others[1]));
    return loss_elements(l, ir_formula_n(l->b, "relu(x - y + a)", IR_NUMBERS(l->loss->margin), near, far), NULL);
}

bool loss_cosine(struct loss_build *l)
{
    ir_type t = l->target->type;
    if (!alike(l, 1))
        return false;
    bool fits = t->rank == l->rank - 1;
    for (int i = 0; fits && i < t->rank; i++)
        fits = ir_expr_eq(l->b->ctx, t->dim[i], l->x->type->dim[i]) != IR_NO;
    if (!fits)
        return loss_wrong(l, "the target must have the scores' dims without the last one");
    struct ir_value *x = l->x, *y = l->others[0], *sign = wanted(l);
    struct ir_value *xx = along_last(l, op1(l, IR_square, x)), *yy = along_last(l, op1(l, IR_square, y));
    struct ir_value *xy = along_last(l, op2(l, IR_mul, x, y));
    struct ir_value *cos = ir_formula(l->b, "x / sqrt((y + 1e-12) * (z + 1e-12))", xy, xx, yy);
    struct ir_value *each = ir_formula_n(l->b, "select(gt(y, 0), 1 - x, select(lt(y, 0), relu(x - a), 0))",
                                         IR_NUMBERS(l->loss->margin), cos, sign);
    return loss_elements(l, each, NULL);
}
