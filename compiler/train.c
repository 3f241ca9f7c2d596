/* SPDX-License-Identifier: Apache-2.0 */
/* --train: from the public options to the training transformation of passes/. */
#include "compiler/frontend.h"
#include "compiler/tccc.h"
#include "passes/pass.h"

static struct train_options options_of(const struct tccc_train *t)
{
    return (struct train_options){.loss = t->loss,
                                  .optimizer = t->optimizer,
                                  .optimizer_state = t->optimizer_state,
                                  .schedule = t->schedule,
                                  .precision = t->precision,
                                  .auto_cast = t->auto_cast,
                                  .auto_cast_type = t->auto_cast_type,
                                  .loss_scale = t->loss_scale,
                                  .step_outputs = t->step_outputs,
                                  .freeze = t->freeze,
                                  .train_only = t->train_only,
                                  .clip_norm = t->clip_norm,
                                  .accumulate = t->accumulate,
                                  .memory_budget = t->memory_budget};
}

bool frontend_train_check(struct ir_ctx *ctx, const struct tccc_train *t)
{
    struct train_options o = options_of(t);
    return train_check(ctx, &o);
}

bool frontend_train(struct ir_module *m, const struct tccc_train *t)
{
    struct train_options o = options_of(t);
    if (!ir_func_by_name(m, "step"))
        return train_build(m, &o);
    if (!t->optimizer)
        return true;
    struct ir_where where = {.file = m->name};
    ir_error(m->ctx, &where, "the model carries its own training step; --optimizer needs --loss, which replaces it");
    return false;
}
