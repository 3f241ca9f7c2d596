/* SPDX-License-Identifier: Apache-2.0 */
/* Losses. */
#include "compiler/pt2/pt2_int.h"

#include <math.h>

static enum imp_reduction reduction(struct pt2 *p)
{
    return (enum imp_reduction)pt2_i(p, "reduction", IMP_MEAN);
}

/* The loss, as the argument `reduction` says; the mean of integers is a float. */
static bool out_reduced(struct pt2 *p, struct ir_value *loss)
{
    if (loss && !imp_is_float(loss) && tcc_is_float(pt2_out_type(p, 0)))
        loss = imp_cast(p->im, loss, pt2_out_type(p, 0));
    return pt2_out(p, 0, imp_reduced(p->im, loss, reduction(p)));
}

/* -- Labels */

static bool read_labels(struct pt2 *p, struct ir_value *logs, struct imp_labels_loss *l)
{
    *l = (struct imp_labels_loss){.logs = logs,
                                  .target = logs ? pt2_need(p, "target") : NULL,
                                  .weight = logs ? pt2_t(p, "weight") : NULL,
                                  .ignores = true,
                                  .ignored = pt2_i(p, "ignore_index", -100)};
    return l->target != NULL;
}

/* nll_loss, nll_loss2d, nll_loss_nd; nll_loss_forward (arg 1) gives the sum of weights too */
bool aten_nll_loss(struct pt2 *p)
{
    struct imp_labels_loss l;
    if (!read_labels(p, imp_wide(p->im, pt2_need(p, "self")), &l))
        return false;
    struct ir_value *loss = imp_likelihood(p->im, &l);
    return pt2_out(p, 0, imp_weighed(p->im, &l, loss, reduction(p))) &&
           (!p->row->arg || !pt2_wants(p, 1) || pt2_out(p, 1, imp_reduced(p->im, l.w, IMP_SUM)));
}

/* x by the weights of its classes, along an axis. */
static struct ir_value *by_class(struct pt2 *p, struct ir_value *x, struct ir_value *weight, int axis)
{
    return weight
               ? imp_bin(p->im, IR_mul, x, imp_along(p->im, imp_cast(p->im, weight, imp_dtype(x)), axis, imp_rank(x)))
               : x;
}

/* Targets as probabilities: -sum(target weight logs) along the classes */
static struct ir_value *against_probabilities(struct pt2 *p, const struct imp_labels_loss *l, int64_t axis,
                                              struct ir_value *each, double smoothing)
{
    struct imp *im = p->im;
    struct ir_value *t = imp_cast(im, l->target, imp_dtype(l->logs));
    if (smoothing > 0)
        t = imp_bin(im, IR_add, imp_with(im, IR_mul, t, 1 - smoothing), each);
    struct ir_value *terms = by_class(p, imp_bin(im, IR_mul, l->logs, t), l->weight, (int)axis);
    return imp_un(im, IR_neg, imp_reduce(im, IR_reduce_sum, terms, 1, &axis, false));
}

/* cross_entropy_loss(self, target, weight, reduction, ignore_index, label_smoothing) */
bool aten_cross_entropy(struct pt2 *p)
{
    struct imp *im = p->im;
    struct imp_labels_loss l;
    struct ir_value *x = imp_wide(im, pt2_need(p, "self"));
    int64_t axis = imp_rank(x) > 1;
    double smoothing = pt2_f(p, "label_smoothing", 0);
    if (!read_labels(p, x ? imp_softmax(im, x, (int)axis, true) : NULL, &l))
        return false;
    enum imp_reduction how = reduction(p);
    struct ir_value *count = imp_count(im, l.logs, 1, &axis, imp_dtype(l.logs));
    struct ir_value *part = /* of each class */
        imp_bin(im, IR_div, imp_like(im, l.logs, smoothing), count);
    if (imp_is_float(l.target))
        return out_reduced(p, against_probabilities(p, &l, axis, part, smoothing));
    struct ir_value *each = imp_likelihood(im, &l), *loss = imp_weighed(im, &l, each, how);
    if (smoothing == 0)
        return pt2_out(p, 0, loss);
    each = by_class(p, l.logs, l.weight, (int)axis);
    each = imp_un(im, IR_neg, imp_reduce(im, IR_reduce_sum, each, 1, &axis, false));
    each = imp_select(im, l.kept, each, imp_like(im, l.logs, 0));
    struct ir_value *smooth = imp_bin(im, IR_mul, imp_weighed(im, &l, each, how), part);
    return pt2_out(p, 0, imp_bin(im, IR_add, imp_with(im, IR_mul, loss, 1 - smoothing), smooth));
}

/* -- Differences */

enum { MSE, L1, SMOOTH_L1, HUBER };

bool aten_difference_loss(struct pt2 *p)
{
    int arg = p->row->arg;
    struct imp *im = p->im;
    struct pt2_operands o;
    if (!pt2_pair_of(p, "self", "target", TCC_NONE, &o))
        return false;
    struct ir_value *t = imp_wide(im, o.b), *d = imp_bin(im, IR_sub, imp_wide(im, o.a), t);
    static const char *const forms[] = {"square(x)", "abs(x)",
                                        "select(lt(abs(x), a), 0.5 * square(x) / a, abs(x) - 0.5 * a)",
                                        "select(lt(abs(x), a), 0.5 * square(x), (abs(x) - 0.5 * a) * a)"};
    double bound = arg == HUBER ? pt2_f(p, "delta", 1) : arg == SMOOTH_L1 ? pt2_f(p, "beta", 1) : 0;
    if (arg == SMOOTH_L1 && bound == 0)
        arg = L1;
    return out_reduced(p, imp_formula_n(im, forms[arg], IMP_NUMBERS(bound), d));
}

/* binary_cross_entropy; arg 1: with_logits, as in passes/train/loss.c: no difference of large numbers */
bool aten_bce(struct pt2 *p)
{
    int arg = p->row->arg;
    struct imp *im = p->im;
    struct ir_value *x = imp_wide(im, pt2_need(p, "self")), *t = x ? pt2_need(p, "target") : NULL,
                    *weight = t ? pt2_t(p, "weight") : NULL, *pos = t && arg ? pt2_t(p, "pos_weight") : NULL;
    if (!t)
        return false;
    t = imp_cast(im, t, imp_dtype(x));
    weight = weight ? imp_cast(im, weight, imp_dtype(x)) : NULL;
    pos = pos ? imp_cast(im, pos, imp_dtype(x)) : NULL;
    struct ir_value *loss = !p->row->arg
                                ? imp_formula(im, "-(y * max(log(x), -100) + (1 - y) * max(log1p(-x), -100))", x, t)
                            : pos ? imp_formula(im, "(1 - y) * softplus(x) + z * y * softplus(-x)", x, t, pos)
                                  : imp_formula(im, "(1 - y) * softplus(x) + y * softplus(-x)", x, t);
    if (weight)
        loss = imp_bin(im, IR_mul, loss, weight);
    return out_reduced(p, loss);
}

/* kl_div(self, target, reduction, log_target): target log target - target self, with 0 log 0 = 0 */
bool aten_kl_div(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *x = imp_wide(im, pt2_need(p, "self")),
                    *t = x ? imp_cast(im, pt2_need(p, "target"), imp_dtype(x)) : NULL;
    bool logs = pt2_b(p, "log_target", false);
    return out_reduced(p, imp_formula(im, logs ? "exp(y) * (y - x)" : "select(eq(y, 0), 0, y * log(y)) - y * x", x, t));
}

/* -- Losses of distances */

/* max(0, x), and its mean or sum. No gradient at 0. */
static bool hinge(struct pt2 *p, struct ir_value *x)
{
    return out_reduced(p, imp_un(p->im, IR_relu, x));
}

/* margin_ranking_loss(input1, input2, target, margin): max(0, -target (input1 - input2) + margin), each step in the
 * types that PyTorch takes: of integers it wraps around */
bool aten_margin_ranking_loss(struct pt2 *p)
{
    struct pt2_operands o;
    double margin = pt2_f(p, "margin", 0);
    struct ir_value *t = pt2_need(p, "target");
    if (!t || !pt2_pair_of(p, "input1", "input2", TCC_NONE, &o))
        return false;
    struct ir_value *apart = imp_bin(p->im, IR_sub, o.a, o.b);
    struct ir_value *wrong = apart ? pt2_times(p, imp_formula(p->im, "0 - x", t), apart) : NULL;
    return wrong && hinge(p, imp_with(p->im, IR_add, pt2_wide_float(p, wrong), margin));
}

/* hinge_embedding_loss(self, target, margin): self where target is 1, max(0, margin - self) where it is -1 */
bool aten_hinge_embedding_loss(struct pt2 *p)
{
    struct ir_value *x = imp_wide(p->im, pt2_need(p, "self")), *t = x ? pt2_need(p, "target") : NULL;
    double margin = pt2_f(p, "margin", 1);
    if (!t)
        return false;
    return out_reduced(p, imp_formula_n(p->im, "select(eq(y, 1), 0, relu(a - x)) + select(eq(y, -1), 0, x)",
                                        IMP_NUMBERS(margin), x, t));
}

/* triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap): max(0, d(a, p) - d(a, n) + margin) */
bool aten_triplet_margin_loss(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *a = imp_wide(im, pt2_need(p, "anchor")), *b = a ? imp_wide(im, pt2_need(p, "positive")) : NULL,
                    *c = b ? imp_wide(im, pt2_need(p, "negative")) : NULL;
    double margin = pt2_f(p, "margin", 1), order = pt2_f(p, "p", 2), eps = pt2_f(p, "eps", 1e-6);
    bool swap = pt2_b(p, "swap", false);
    if (!c)
        return false;
    struct ir_value *near = pt2_distance(p, a, b, order, eps, false), *far = pt2_distance(p, a, c, order, eps, false);
    if (swap)
        far = imp_bin(im, IR_min, far, pt2_distance(p, b, c, order, eps, false));
    return hinge(p, imp_with(im, IR_add, imp_bin(im, IR_sub, near, far), margin));
}

/* cosine_embedding_loss(input1, input2, target, margin): 1 - cos where target is 1, max(0, cos - margin) where it is
 * -1 */
bool aten_cosine_embedding_loss(struct pt2 *p)
{
    struct imp *im = p->im;
    struct pt2_operands o;
    double margin = pt2_f(p, "margin", 0), eps = 1e-12;
    struct ir_value *t = pt2_need(p, "target");
    if (!t || !pt2_pair_of(p, "input1", "input2", TCC_NONE, &o) || !imp_rank(o.a))
        return false;
    int64_t last = imp_rank(o.a) - 1;
    struct ir_value *a = imp_wide(im, o.a), *b = imp_wide(im, o.b);
    struct ir_value *both = pt2_summed_product(p, a, b, last, false);
    struct ir_value *aa = pt2_summed_product(p, a, a, last, false), *bb = pt2_summed_product(p, b, b, last, false);
    const double *n = IMP_NUMBERS(margin, eps);
    struct ir_value *cosine = imp_formula_n(im, "x / sqrt((y + b) * (z + b))", n, both, aa, bb);
    return out_reduced(
        p, imp_formula_n(im, "select(eq(y, 1), 1 - x, 0) + select(eq(y, -1), relu(x - a), 0)", n, cosine, t));
}

/* soft_margin_loss(self, target): log(1 + exp(-target self)) */
bool aten_soft_margin_loss(struct pt2 *p)
{
    struct ir_value *x = imp_wide(p->im, pt2_need(p, "self")), *t = x ? pt2_need(p, "target") : NULL;
    if (!t)
        return false;
    return out_reduced(p, imp_formula(p->im, "softplus(-(y * x))", x, imp_cast(p->im, t, imp_dtype(x))));
}

/* poisson_nll_loss(input, target, log_input, full, eps, reduction): with `full`, Stirling's approximation of log
 * target! where target exceeds 1 */
bool aten_poisson_nll_loss(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *x = imp_wide(im, pt2_need(p, "input")),
                    *t = x ? imp_cast(im, pt2_need(p, "target"), imp_dtype(x)) : NULL;
    bool logs = pt2_b(p, "log_input", true), full = pt2_b(p, "full", false);
    double eps = pt2_f(p, "eps", 1e-8);
    if (!t)
        return false;
    struct ir_value *loss = imp_formula_n(im, logs ? "exp(x) - y * x" : "x - y * log(x + a)", IMP_NUMBERS(eps), x, t);
    if (full) {
        struct ir_value *safe = imp_formula(im, "select(gt(x, 1), x, 1)", t);
        loss = imp_formula_n(im, "z + select(gt(x, 1), y * log(y) - y + log(y * a) * 0.5, 0)", IMP_NUMBERS(2 * M_PI), t,
                             safe, loss);
    }
    return out_reduced(p, loss);
}

/* -- Margins between classes: x is [n, c], or one row */

static bool read_rows(struct pt2 *p, struct ir_value **x, struct ir_value **target)
{
    *x = imp_wide(p->im, pt2_need(p, "self"));
    *target = *x ? pt2_need(p, "target") : NULL;
    if (!*target)
        return false;
    if (imp_rank(*x) < 1 || imp_rank(*x) > 2)
        return imp_bad(p->im, "%s; rows of scores are expected", ir_type_text(p->ctx, (*x)->type));
    *target = imp_cast(p->im, *target, TCC_I64);
    return true;
}

/* multi_margin_loss(self, target, p, margin, weight, reduction): of a row the sum of
 * max(0, margin - x[target] + x[k])^p over the other classes k, by their number */
bool aten_multi_margin_loss(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *x, *target;
    int64_t order = pt2_i(p, "p", 1);
    double margin = pt2_f(p, "margin", 1);
    if (!read_rows(p, &x, &target))
        return false;
    if (order != 1 && order != 2)
        return imp_bad(im, "p = %lld; 1 or 2 is expected", (long long)order);
    bool one = imp_rank(x) == 1 && imp_rank(target) == 0;
    x = imp_to_rank(im, x, 2);
    target = imp_to_rank(im, target, 1);
    const int64_t last = 1;
    struct ir_value *weight = pt2_t(p, "weight"), *class = imp_from_zero(p->im, imp_unsqueeze(im, target, 1, &last));
    struct ir_value *own = imp_gather_elements(im, x, class, 1);
    struct ir_value *over =
        own ? imp_un(im, IR_relu, imp_bin(im, IR_add, imp_bin(im, IR_sub, imp_like(im, x, margin), own), x)) : NULL;
    over = order == 2 ? imp_un(im, IR_square, over) : over;
    if (weight && over)
        over = imp_bin(im, IR_mul, over, imp_gather(im, imp_cast(im, weight, imp_dtype(x)), class, 0));
    struct ir_value *same = imp_bin(im, IR_eq, imp_iota(im, 1, &x->type->dim[1], 0, TCC_I64), class);
    struct ir_value *loss = imp_mean(im, imp_select(im, same, imp_like(im, x, 0), over), 1, &last, false);
    loss = one && loss ? imp_reshape(im, loss, 0, NULL) : loss;
    return out_reduced(p, loss);
}

/* multilabel_margin_loss(self, target, reduction); arg 1: multilabel_margin_loss_forward, with is_target. The targets
 * of a row end at -1: the sum of max(0, 1 - x[t] + x[k]) over targets t and classes k that are none, by the number of
 * classes. */
bool aten_multilabel_margin_loss(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *x, *target;
    const int64_t last = 1, behind = 2, all[] = {1, 2};
    if (!read_rows(p, &x, &target))
        return false;
    bool one = imp_rank(x) == 1;
    x = imp_to_rank(im, x, 2);
    target = imp_to_rank(im, target, 2);
    if (!x || !target)
        return false;
    ir_type rows = x->type;
    struct ir_value *ended = imp_cast(im, imp_with(im, IR_lt, target, 0), TCC_I64);
    ended = ended ? imp_op(im, IR_cumsum, 1, &ended, IR_ATTRS(ir_attr_i(IR_ATTR_axis, 1))) : NULL;
    struct ir_value *live = ended ? imp_with(im, IR_eq, ended, 0) : NULL;
    struct ir_value *own = imp_gather_elements(im, x, imp_select(im, live, target, imp_int(im, TCC_I64, 0)), 1);
    struct ir_value *rows_dim1 = imp_iota(im, 1, &x->type->dim[1], 0, TCC_I64);
    struct ir_value *here = imp_bin(im, IR_eq, imp_unsqueeze(im, target, 1, &behind), rows_dim1);
    here = imp_bin(im, IR_and, here, imp_unsqueeze(im, live, 1, &behind));
    struct ir_value *is = imp_reduce(im, IR_reduce_max, here, 1, &last, true); /* [n, 1, c] */
    struct ir_value *taken = own ? imp_unsqueeze(im, own, 1, &behind) : NULL;
    struct ir_value *apart = own ? imp_bin(im, IR_sub, imp_like(im, x, 1), taken) : NULL;
    struct ir_value *over = imp_un(im, IR_relu, imp_bin(im, IR_add, apart, imp_unsqueeze(im, x, 1, &last)));
    struct ir_value *other = imp_un(im, IR_not, is);
    struct ir_value *counts = imp_bin(im, IR_and, imp_unsqueeze(im, live, 1, &behind), other);
    struct ir_value *loss =
        imp_reduce(im, IR_reduce_sum, imp_select(im, counts, over, imp_like(im, x, 0)), 2, all, false);
    loss = loss ? imp_bin(im, IR_div, loss, imp_count(im, x, 1, &last, imp_dtype(x))) : NULL;
    loss = one && loss ? imp_reshape(im, loss, 0, NULL) : loss;
    if (!out_reduced(p, loss))
        return false;
    return !p->row->arg || !pt2_wants(p, 1) ||
           pt2_out(p, 1, imp_reshape(im, imp_cast(im, is, imp_dtype(x)), 2 - one, rows->dim + one));
}
