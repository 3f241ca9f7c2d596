/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loss_int.h - what the files of the training transformation know of losses: reading --loss (options.c),
 * building values and gradients (loss.c).
 */
#ifndef TCC_PASSES_TRAIN_LOSS_INT_H
#define TCC_PASSES_TRAIN_LOSS_INT_H

#include "passes/pass.h"

enum loss_kind {
#define LOSS(name, target, holds, build, others, keys, doc) LOSS_##name,
#include "passes/train/losses.def"
    LOSS_output,                 /* output:NAME: the model computes it */
    NLOSSES
};

enum loss_target { TARGET_CLASSES, TARGET_VALUES, TARGET_SIGNS, TARGET_LABELS, TARGET_NOTHING };

/* none: trained on as mean, and each element's loss is an output of its own. */
enum loss_reduction { REDUCE_MEAN, REDUCE_SUM, REDUCE_BATCHMEAN, REDUCE_NONE };

enum { LOSS_MOST_SCORES = 3 };   /* outputs that one loss takes */

/* One term of the loss, which is the sum of all, each times its factor. */
struct train_loss {
    enum loss_kind kind;
    double factor;
    struct train_loss *next;
    const char *input, *target;  /* names; input NULL: the model's first float output */
    const char *others[LOSS_MOST_SCORES - 1];
    enum loss_reduction reduction;
    int64_t ignore_index, blank;
    bool has_axis;
    int64_t axis;                /* of classes; may be negative */
    double smoothing, beta, delta, alpha, gamma, margin, smooth, log_target, swap, zero_infinity;
    enum tcc_dtype target_type;  /* TCC_NONE: by the loss */
    int nweights, npos_weights;
    const double *weights, *pos_weights;
};

/* False after a diagnostic: a usage error. */
bool train_loss_read(struct ir_ctx *ctx, const char *text, struct train_loss *loss);

/* What a step in stages requires: one term of one output, reduced. */
bool train_loss_is_simple(const struct train_loss *loss);
enum loss_target train_loss_target_kind(const struct train_loss *loss);
int train_loss_nscores(const struct train_loss *loss);
/* A line a term, for the artifact: the loss, what makes probabilities of its input (losses.def), and that output;
 * `input`: the one of a loss that names none. */
const char *train_loss_text(struct ir_ctx *ctx, const struct train_loss *loss, const char *input);

/* The type of a target that the model has not: what the loss expects for scores of that type. */
ir_type train_loss_target(struct ir_ctx *ctx, const struct train_loss *loss, ir_type scores);

/* What one term is built from, and what it gives. target NULL: it has none. factor: f32[], of the gradient; NULL: 1.
 * each: of reduction=none, else NULL. */
struct train_loss_use {
    struct ir_value *scores[LOSS_MOST_SCORES], *target, *factor;
    bool want_gradient;
    struct ir_value *value, *each, *gradient[LOSS_MOST_SCORES];
};

/*
 * Builds, at b's point, the loss (value: f32[]) and, where it is wanted, its gradient by each of the scores (their
 * types), times the factor. Formulas of the losses that are used most are written out rather than differentiated: one
 * pass over the scores with nothing to keep but a maximum and a sum a row. False after a diagnostic: types that don't
 * fit.
 */
bool train_loss_build(struct ir_builder *b, const struct train_loss *loss, struct train_loss_use *use);

#endif
