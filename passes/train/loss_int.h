/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loss_int.h - what the files of the training transformation know of losses: reading --loss (options.c),
 * building values and gradients (loss.c).
 */
#ifndef TCC_PASSES_TRAIN_LOSS_INT_H
#define TCC_PASSES_TRAIN_LOSS_INT_H

#include "passes/pass.h"

enum loss_kind {
#define LOSS(name, target, keys, doc) LOSS_##name,
#include "passes/train/losses.def"
#undef LOSS
    LOSS_output,                 /* output:NAME: the model computes it */
    NLOSSES
};

struct train_loss {
    enum loss_kind kind;
    const char *input, *target;  /* names; input NULL: the model's first float output */
    bool sum;                    /* reduction */
    int64_t ignore_index;
    bool has_axis;
    int64_t axis;                /* of classes; may be negative */
    double smoothing, beta;
    enum tcc_dtype target_type;  /* TCC_NONE: by the loss */
    int nweights, npos_weights;
    const double *weights, *pos_weights;
};

/* False after a diagnostic: a usage error. */
bool train_loss_read(struct ir_ctx *ctx, const char *text, struct train_loss *loss);

/* The type of a target that the model has not: what the loss expects for scores of that type. */
ir_type train_loss_target(struct ir_ctx *ctx, const struct train_loss *loss, ir_type scores);

/*
 * Builds, at b's point, the loss of `scores` against `target` (*value: f32[]) and, where `gradient` is not NULL, its gradient by the
 * scores (scores' type), times `factor` (f32[]; NULL: 1). The formulas are written out rather than differentiated: one pass over
 * the scores with nothing to keep but a maximum and a sum a row. False after a diagnostic: types that don't fit.
 */
bool train_loss_build(struct ir_builder *b, const struct train_loss *loss, struct ir_value *scores, struct ir_value *target,
                      struct ir_value *factor, struct ir_value **value, struct ir_value **gradient);

#endif
