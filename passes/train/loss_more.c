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
    struct ir_value *t = wanted(l), *zero = num(l, 0);
    if (l->loss->log_target != 0) {
        struct ir_value *p = op1(l, IR_exp, t);
        struct ir_value *slopes = op1(l, IR_neg, p);
        return loss_elements(l, op2(l, IR_mul, p, op2(l, IR_sub, t, l->x)), slopes);
    }
    struct ir_value *some = op2(l, IR_ne, t, zero);
    struct ir_value *log = op1(l, IR_log, choose(l, some, t, num(l, 1)));
    struct ir_value *product = op2(l, IR_mul, t, l->x);
    struct ir_value *each = op2(l, IR_sub, op2(l, IR_mul, t, log), product);
    return loss_elements(l, each, op1(l, IR_neg, t));
}

/* The binary cross entropy times (1 - p_t)^gamma alpha_t, 1 - p_t = p (1 - t) + (1 - p) t */
bool loss_focal(struct loss_build *l)
{
    if (!loss_values_fit(l))
        return false;
    struct ir_value *t = wanted(l), *rest = op2(l, IR_sub, num(l, 1), t), *cost = loss_binary(l, rest, t, NULL);
    struct ir_value *p = op1(l, IR_sigmoid, l->x), *other_p = op1(l, IR_sigmoid, op1(l, IR_neg, l->x));
    struct ir_value *here = op2(l, IR_mul, other_p, t), *miss = op2(l, IR_add, here, op2(l, IR_mul, p, rest));
    double alpha = l->loss->alpha, gamma = l->loss->gamma;
    struct ir_value *share = gamma == 2 ? op1(l, IR_square, miss) : op2(l, IR_pow, miss, num(l, gamma));
    struct ir_value *each = gamma == 0 ? cost : op2(l, IR_mul, cost, share);
    if (alpha >= 0) {
        struct ir_value *other = op2(l, IR_mul, rest, num(l, 1 - alpha));
        each = op2(l, IR_mul, each, op2(l, IR_add, op2(l, IR_mul, t, num(l, alpha)), other));
    }
    return loss_elements(l, each, NULL);
}

bool loss_dice(struct loss_build *l)
{
    if (l->rank < 1)
        return loss_wrong(l, "dice takes an axis of samples");
    if (!loss_values_fit(l))
        return false;
    struct ir_value *t = wanted(l), *p = op1(l, IR_sigmoid, l->x), *smooth = num(l, l->loss->smooth);
    if (t->type->rank != l->rank)
        return loss_wrong(l, "the target must have the scores' dims");
    struct ir_value *sum = ir_reduce_from(l->b, IR_reduce_sum, op2(l, IR_mul, p, t), 1);
    struct ir_value *both = op2(l, IR_mul, num(l, 2), sum);
    struct ir_value *sum_t = ir_reduce_from(l->b, IR_reduce_sum, t, 1);
    struct ir_value *all = op2(l, IR_add, ir_reduce_from(l->b, IR_reduce_sum, p, 1), sum_t);
    struct ir_value *other = op2(l, IR_add, all, smooth);
    struct ir_value *ratio = op2(l, IR_div, op2(l, IR_add, both, smooth), other);
    return loss_elements(l, op2(l, IR_sub, num(l, 1), ratio), NULL);
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
    struct ir_value *tiny = num(l, 1e-6);
    struct ir_value *d = op2(l, IR_add, op2(l, IR_sub, x, y), tiny);
    return op1(l, IR_sqrt, along_last(l, op1(l, IR_square, d)));
}

bool loss_triplet(struct loss_build *l)
{
    if (!alike(l, 2))
        return false;
    struct ir_value *near = euclidean(l, l->x, l->others[0]), *far = euclidean(l, l->x, l->others[1]);
    if (l->loss->swap != 0)
        far = op2(l, IR_min, far, euclidean(l, l->others[0], l->others[1]));
    struct ir_value *margin_value = num(l, l->loss->margin);
    struct ir_value *gap = op2(l, IR_add, op2(l, IR_sub, near, far), margin_value);
    return loss_elements(l, op1(l, IR_relu, gap), NULL);
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
    struct ir_value *x = l->x, *y = l->others[0], *eps = num(l, 1e-12), *sign = wanted(l), *zero = num(l, 0);
    struct ir_value *nx = op2(l, IR_add, along_last(l, op1(l, IR_square, x)), eps);
    struct ir_value *ny = op2(l, IR_add, along_last(l, op1(l, IR_square, y)), eps);
    struct ir_value *root = op1(l, IR_sqrt, op2(l, IR_mul, nx, ny));
    struct ir_value *cos = op2(l, IR_div, along_last(l, op2(l, IR_mul, x, y)), root);
    struct ir_value *apart = op1(l, IR_relu, op2(l, IR_sub, cos, num(l, l->loss->margin)));
    struct ir_value *together = op2(l, IR_sub, num(l, 1), cos);
    struct ir_value *selected = choose(l, op2(l, IR_lt, sign, zero), apart, zero);
    struct ir_value *each = choose(l, op2(l, IR_gt, sign, zero), together, selected);
    return loss_elements(l, each, NULL);
}
