/* SPDX-License-Identifier: Apache-2.0 */
/* parts.c - the parts of a training step one by one, for programs that record their own (train.h). */
#include "passes/train/train_int.h"
#include "passes/train/loss_int.h"

bool train_update_states(struct ir_module *m, const struct train_options *o, int n, struct ir_state *const *params)
{
    return optim_states(m, o, n, params);
}

bool train_update(struct ir_builder *b, const struct train_options *o, int n, struct ir_state *const *params,
                  struct ir_value *const *values, struct ir_value *const *grads)
{
    struct train_param *list = IR_NEWN(b->ctx, (size_t)n + 1, struct train_param);
    struct ir_value *rate;
    for (int i = 0; i < n; i++)
        list[i] = (struct train_param){.state = params[i], .grad = grads[i], .value = values[i]};
    return optim_update(b, o, n, list, &rate);
}

bool train_loss_at(struct ir_builder *b, const char *loss, struct ir_value *scores, struct ir_value *target,
                   struct ir_value *factor, struct ir_value **value, struct ir_value **gradient)
{
    struct train_loss l;
    if (!train_loss_read(b->ctx, loss, &l))
        return false;
    if (l.kind == LOSS_output || l.input || !train_loss_is_simple(&l))
        return ir_error(b->ctx, NULL, "loss '%s': expected one loss whose operands are given, not named", loss);
    if (!tcc_is_float((enum tcc_dtype)scores->type->dtype))
        return ir_error(b->ctx, NULL, "loss '%s': the scores must hold floats, got %s", loss,
                        ir_type_text(b->ctx, scores->type));
    struct train_loss_use use = {
        .scores = {scores}, .target = target, .factor = factor, .want_gradient = gradient != NULL};
    if (!train_loss_build(b, &l, &use))
        return false;
    *value = use.value;
    if (gradient)
        *gradient = use.gradient[0];
    return true;
}
