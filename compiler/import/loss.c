/* SPDX-License-Identifier: Apache-2.0 */
/* Losses of labels. */
#include "compiler/import/import.h"

struct ir_value *imp_reduced(struct imp *im, struct ir_value *loss, enum imp_reduction how)
{
    int64_t axes[TCC_MAX_RANK];
    if (how != IMP_MEAN)
        return how == IMP_SUM ? imp_reduce_all(im, IR_reduce_sum, loss) : loss;
    return imp_mean(im, loss, imp_axes_from(0, imp_rank(loss), axes), axes, false);
}

struct ir_value *imp_likelihood(struct imp *im, struct imp_labels_loss *l)
{
    struct ir_value *target = imp_cast(im, l->target, TCC_I64);
    int64_t axis = imp_rank(l->logs) > 1;
    l->kept = l->w = NULL;
    if (l->ignores) {
        l->kept = imp_bin(im, IR_ne, target, imp_int(im, TCC_I64, l->ignored));
        target = imp_select(im, l->kept, target, imp_int(im, TCC_I64, 0));
    }
    target = imp_from_zero(im, target);
    struct ir_value *picked = imp_gather_elements(im, l->logs, imp_unsqueeze(im, target, 1, &axis), (int)axis);
    struct ir_value *loss = imp_un(im, IR_neg, imp_squeeze(im, picked, 1, &axis));
    if (!loss)
        return NULL;
    if (l->weight)
        l->w = imp_gather(im, imp_cast(im, l->weight, imp_dtype(loss)), target, 0);
    if (l->w)
        loss = imp_bin(im, IR_mul, loss, l->w);
    if (!l->kept)
        return loss;
    struct ir_value *none = imp_like(im, loss, 0);
    l->w = l->w ? imp_select(im, l->kept, l->w, none) : imp_cast(im, l->kept, imp_dtype(loss));
    return imp_select(im, l->kept, loss, none); /* infinite ones too, which a weight of 0 would make NaN */
}

struct ir_value *imp_weighed(struct imp *im, const struct imp_labels_loss *l, struct ir_value *loss,
                             enum imp_reduction how)
{
    if (how != IMP_MEAN || !l->w)
        return imp_reduced(im, loss, how);
    struct ir_value *reduced = imp_reduced(im, l->w, IMP_SUM);
    return imp_bin(im, IR_div, imp_reduced(im, loss, IMP_SUM), reduced);
}
