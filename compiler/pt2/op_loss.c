/* SPDX-License-Identifier: Apache-2.0 */
/* Losses. `reduction` is 0 none, 1 mean, 2 sum. */
#include "compiler/pt2/pt2_int.h"

#include <math.h>
#include <string.h>

#define UNUSED(arg) ((void)(arg))

static struct ir_value *reduced(struct pt2 *p, struct ir_value *loss, int64_t reduction)
{
    int64_t axes[TCC_MAX_RANK];
    for (int k = 0; k < TCC_MAX_RANK; k++)
        axes[k] = k;
    if (!loss || reduction == 0)
        return loss;
    int n = imp_rank(loss);
    return reduction == 1 ? imp_mean(p->im, loss, n, axes, false)
                          : imp_reduce(p->im, IR_reduce_sum, loss, n, axes, false);
}

/* -- Labels */

struct labelled {
    struct ir_value *logs, *target, *weight, *kept, *w; /* logs: [n, c, ...]; w: each target's weight */
    int axis;
    int64_t reduction, ignored;
};

static bool read_labels(struct pt2 *p, struct ir_value *logs, struct labelled *l)
{
    struct imp *im = p->im;
    l->logs = logs;
    l->target = logs ? pt2_need(p, "target") : NULL;
    l->weight = logs ? pt2_t(p, "weight") : NULL;
    l->reduction = pt2_i(p, "reduction", 1);
    l->ignored = pt2_i(p, "ignore_index", -100);
    if (!l->target)
        return false;
    l->axis = imp_rank(logs) > 1;
    if (!imp_is_float(l->target)) {
        l->target = imp_cast(im, l->target, TCC_I64);
        l->kept = imp_bin(im, IR_ne, l->target, imp_int(im, TCC_I64, l->ignored));
        l->target = imp_tri(im, IR_select, l->kept, l->target, imp_int(im, TCC_I64, 0));
        l->w =
            l->weight ? imp_gather(im, imp_cast(im, l->weight, imp_dtype(logs)), l->target, 0) : imp_like(im, logs, 1);
        l->w = imp_tri(im, IR_select, l->kept, l->w, imp_like(im, logs, 0));
    }
    return l->target != NULL;
}

/* -logs[target], weighted; *total: the weights' sum */
static struct ir_value *likelihood(struct pt2 *p, struct labelled *l)
{
    struct imp *im = p->im;
    int64_t axis = l->axis;
    struct ir_value *in[] = {l->logs, imp_unsqueeze(im, l->target, 1, &axis)};
    struct ir_value *picked =
        in[1] ? imp_op(im, IR_gather_elements, 2, in, IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis))) : NULL;
    return picked ? imp_un(im, IR_neg, imp_bin(im, IR_mul, imp_squeeze(im, picked, 1, &axis), l->w)) : NULL;
}

static struct ir_value *weighted(struct pt2 *p, struct labelled *l, struct ir_value *loss)
{
    if (l->reduction != 1 || !loss)
        return reduced(p, loss, l->reduction);
    return imp_bin(p->im, IR_div, reduced(p, loss, 2), reduced(p, pt2_expand_as(p, l->w, loss), 2));
}

/* nll_loss, nll_loss2d, nll_loss_nd; nll_loss_forward (arg 1) gives the sum of weights too */
bool aten_nll_loss(struct pt2 *p, int arg)
{
    struct labelled l;
    if (!read_labels(p, imp_wide(p->im, pt2_need(p, "self")), &l))
        return false;
    struct ir_value *loss = likelihood(p, &l);
    return pt2_out(p, 0, weighted(p, &l, loss)) &&
           (!arg || !pt2_wants(p, 1) || pt2_out(p, 1, reduced(p, pt2_expand_as(p, l.w, loss), 2)));
}

/* Targets as probabilities: -sum(target weight logs) along the classes */
static struct ir_value *against_probabilities(struct pt2 *p, struct labelled *l, double smoothing)
{
    struct imp *im = p->im;
    int64_t axis = l->axis;
    struct ir_value *t = imp_cast(im, l->target, imp_dtype(l->logs));
    if (smoothing > 0) {
        struct ir_value *each =
            imp_bin(im, IR_div, imp_like(im, l->logs, smoothing), imp_count(im, l->logs, 1, &axis, imp_dtype(l->logs)));
        t = imp_bin(im, IR_add, imp_bin(im, IR_mul, t, imp_like(im, t, 1 - smoothing)), each);
    }
    struct ir_value *terms = imp_bin(im, IR_mul, l->logs, t);
    if (l->weight && terms)
        terms = imp_bin(im, IR_mul, terms,
                        imp_along(im, imp_cast(im, l->weight, imp_dtype(terms)), l->axis, imp_rank(terms)));
    struct ir_value *loss = imp_un(im, IR_neg, imp_reduce(im, IR_reduce_sum, terms, 1, &axis, false));
    return reduced(p, loss, l->reduction);
}

/* cross_entropy_loss(self, target, weight, reduction, ignore_index, label_smoothing) */
bool aten_cross_entropy(struct pt2 *p, int arg)
{
    UNUSED(arg);
    struct imp *im = p->im;
    struct labelled l;
    struct ir_value *x = imp_wide(im, pt2_need(p, "self"));
    int64_t axis = x && imp_rank(x) > 1;
    double smoothing = pt2_f(p, "label_smoothing", 0);
    if (!read_labels(p, x ? imp_softmax(im, x, (int)axis, true) : NULL, &l))
        return false;
    if (imp_is_float(l.target))
        return pt2_out(p, 0, against_probabilities(p, &l, smoothing));
    struct ir_value *loss = weighted(p, &l, likelihood(p, &l));
    if (smoothing == 0)
        return pt2_out(p, 0, loss);
    struct ir_value *each = l.logs;
    if (l.weight)
        each =
            imp_bin(im, IR_mul, each, imp_along(im, imp_cast(im, l.weight, imp_dtype(each)), l.axis, imp_rank(each)));
    each = imp_un(im, IR_neg, imp_reduce(im, IR_reduce_sum, each, 1, &axis, false));
    each = imp_tri(im, IR_select, l.kept, each, imp_like(im, l.logs, 0));
    struct ir_value *smooth = l.reduction == 1
                                  ? imp_bin(im, IR_div, reduced(p, each, 2), reduced(p, pt2_expand_as(p, l.w, each), 2))
                                  : reduced(p, each, l.reduction);
    smooth = imp_bin(
        im, IR_mul, smooth,
        imp_bin(im, IR_div, imp_like(im, l.logs, smoothing), imp_count(im, l.logs, 1, &axis, imp_dtype(l.logs))));
    return pt2_out(p, 0, imp_bin(im, IR_add, imp_bin(im, IR_mul, loss, imp_like(im, l.logs, 1 - smoothing)), smooth));
}

/* -- Differences */

enum { MSE, L1, SMOOTH_L1, HUBER };

bool aten_difference_loss(struct pt2 *p, int arg)
{
    struct imp *im = p->im;
    struct ir_value *x = imp_wide(im, pt2_need(p, "self")), *t = x ? pt2_need(p, "target") : NULL;
    if (!t)
        return false;
    struct ir_value *d = imp_bin(im, IR_sub, x, imp_cast(im, t, imp_dtype(x))), *size = imp_un(im, IR_abs, d), *loss;
    if (arg == MSE || arg == L1) {
        loss = arg == MSE ? imp_un(im, IR_square, d) : size;
    } else {
        double bound = arg == HUBER ? pt2_f(p, "delta", 1) : pt2_f(p, "beta", 1);
        struct ir_value *b = imp_like(im, x, bound), *half = imp_like(im, x, 0.5);
        struct ir_value *near = imp_bin(im, IR_mul, half, imp_un(im, IR_square, d)),
                        *far = imp_bin(im, IR_sub, size, imp_bin(im, IR_mul, half, b));
        if (arg == HUBER)
            far = imp_bin(im, IR_mul, far, b);
        else if (bound > 0)
            near = imp_bin(im, IR_div, near, b);
        loss = arg == SMOOTH_L1 && bound == 0 ? size : imp_tri(im, IR_select, imp_bin(im, IR_lt, size, b), near, far);
    }
    return pt2_out(p, 0, reduced(p, loss, pt2_i(p, "reduction", 1)));
}

/* binary_cross_entropy; arg 1: with_logits, max(x, 0) - x t + log1p(exp(-|x|)) and its form with pos_weight */
bool aten_bce(struct pt2 *p, int arg)
{
    struct imp *im = p->im;
    struct ir_value *x = imp_wide(im, pt2_need(p, "self")), *t = x ? pt2_need(p, "target") : NULL,
                    *weight = t ? pt2_t(p, "weight") : NULL, *pos = t && arg ? pt2_t(p, "pos_weight") : NULL;
    if (!t)
        return false;
    t = imp_cast(im, t, imp_dtype(x));
    struct ir_value *one = imp_like(im, x, 1), *rest = imp_bin(im, IR_sub, one, t), *loss;
    if (arg) {
        struct ir_value *factor =
            pos ? imp_bin(im, IR_add, imp_bin(im, IR_mul, imp_bin(im, IR_sub, pos, one), t), one) : one;
        loss = imp_bin(im, IR_add, imp_bin(im, IR_mul, rest, x),
                       imp_bin(im, IR_mul, factor, imp_un(im, IR_softplus, imp_un(im, IR_neg, x))));
    } else {
        struct ir_value *least = imp_like(im, x, -100);
        struct ir_value *a = imp_bin(im, IR_max, imp_un(im, IR_log, x), least),
                        *b = imp_bin(im, IR_max, imp_un(im, IR_log1p, imp_un(im, IR_neg, x)), least);
        loss = imp_un(im, IR_neg, imp_bin(im, IR_add, imp_bin(im, IR_mul, t, a), imp_bin(im, IR_mul, rest, b)));
    }
    if (weight)
        loss = imp_bin(im, IR_mul, loss, weight);
    return pt2_out(p, 0, reduced(p, loss, pt2_i(p, "reduction", 1)));
}

/* kl_div(self, target, reduction, log_target): target (log target - self), 0 where target is 0 */
bool aten_kl_div(struct pt2 *p, int arg)
{
    UNUSED(arg);
    struct imp *im = p->im;
    struct ir_value *x = imp_wide(im, pt2_need(p, "self")),
                    *t = x ? imp_cast(im, pt2_need(p, "target"), imp_dtype(x)) : NULL;
    bool logs = pt2_b(p, "log_target", false);
    struct ir_value *chance = logs ? imp_un(im, IR_exp, t) : t;
    struct ir_value *loss = imp_bin(im, IR_mul, chance, imp_bin(im, IR_sub, logs ? t : imp_un(im, IR_log, t), x));
    if (!logs)
        loss = imp_tri(im, IR_select, imp_bin(im, IR_gt, t, imp_like(im, x, 0)), loss, imp_like(im, x, 0));
    return pt2_out(p, 0, reduced(p, loss, pt2_i(p, "reduction", 1)));
}
