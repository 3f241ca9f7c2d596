/* SPDX-License-Identifier: Apache-2.0 */
/* loss_build_int.h - one loss being built: shared by the files that know the formulas (loss.c, loss_more.c,
 * loss_ctc.c). */
#ifndef TCC_PASSES_TRAIN_LOSS_BUILD_INT_H
#define TCC_PASSES_TRAIN_LOSS_BUILD_INT_H

#include "passes/train/loss_int.h"

struct loss_build {
    struct ir_builder *b;
    const struct train_loss *loss;
    struct ir_value *x, *others[LOSS_MOST_SCORES - 1], *target;      /* x, others: f32 or f64 */
    struct ir_value *factor;     /* of x's type, rank 0, or NULL */
    enum tcc_dtype dtype;        /* of x */
    int rank, axis;              /* of classes */
    bool want_gradient;
    /* Results. gradient: by x, NULL where the loss is to be differentiated. */
    struct ir_value *value, *each, *gradient;
};

static inline struct ir_value *
op1(struct loss_build *l, enum ir_op op, struct ir_value *x)
{
    return ir_unary(l->b, op, x);
}

static inline struct ir_value *
op2(struct loss_build *l, enum ir_op op, struct ir_value *x, struct ir_value *y)
{
    return ir_binary(l->b, op, x, y);
}

static inline struct ir_value *
choose(struct loss_build *l, struct ir_value *c, struct ir_value *x, struct ir_value *y)
{
    struct ir_value *in[] = {c, x, y};
    return ir_build1(l->b, IR_select, 3, in, NULL);
}

static inline struct ir_value *
num(struct loss_build *l, double v)
{
    return ir_constant_f(l->b, l->dtype, v);
}

static inline struct ir_value *
times(struct loss_build *l, struct ir_value *x, struct ir_value *y)
{
    return x && y ? op2(l, IR_mul, x, y) : x ? x : y;
}

static inline struct ir_value *
reduce(struct loss_build *l, enum ir_op op, struct ir_value *x, int axis)
{
    int64_t axes[1] = {axis};
    return ir_reduce(l->b, op, x, 1, axes, true);
}

/* The target in x's type. */
static inline struct ir_value *
wanted(struct loss_build *l)
{
    return ir_cast_to(l->b, l->target, l->dtype);
}

/* False, after a diagnostic with both types. */
bool loss_wrong(struct loss_build *l, const char *what);
/* The value from each element's loss; slopes: by x, or NULL: to be differentiated. */
bool loss_elements(struct loss_build *l, struct ir_value *each, struct ir_value *slopes);
bool loss_values_fit(struct loss_build *l);
/* negative softplus(x) + positive softplus(-x), and its slopes: of targets t, negative is 1 - t and positive t, times a
 * weight perhaps. slopes: NULL, or where to put them. */
struct ir_value *loss_binary(struct loss_build *l, struct ir_value *negative, struct ir_value *positive,
                             struct ir_value **slopes);

#define LOSS(name, target, holds, build, others, keys, doc) bool loss_##build(struct loss_build *l);
#include "passes/train/losses.def"

#endif
