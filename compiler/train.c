/* SPDX-License-Identifier: Apache-2.0 */
/* --train: from the public options to the training transformation of passes/. */
#include "compiler/import/frontend.h"
#include "compiler/tccc.h"
#include "passes/pass.h"

#include <stddef.h>
#include <string.h>

/* Both begin with what options.def gives them. */
static struct train_options options_of(const struct tccc_train *t)
{
    enum { SHARED = offsetof(struct train_options, auto_cast) };
    struct train_options o;
    _Static_assert(SHARED == offsetof(struct tccc_train, auto_cast), "the same rows");
    memcpy(&o, t, SHARED);
    memset((char *)&o + SHARED, 0, sizeof o - SHARED);
    o.auto_cast = t->auto_cast;
    o.auto_cast_type = t->auto_cast_type;
    o.data_parallel = t->data_parallel;
    o.offload_optimizer = t->offload & TCCC_OFFLOAD_OPTIMIZER;
    o.offload_activations = t->offload & TCCC_OFFLOAD_ACTIVATIONS;
    return o;
}

/* The file's text, NULL after a diagnostic. */
static const char *read_map(struct ir_ctx *ctx, const char *path)
{
    char error[256];
    struct ir_file *f = ir_file_get(ctx, path, error, sizeof error);
    if (!f)
        return ir_error(ctx, NULL, "--partition-map=%s: %s", path, error), NULL;
    char *text = IR_NEWN(ctx, ir_file_size(f) + 1, char);
    if (ir_file_size(f))
        memcpy(text, ir_file_data(f), ir_file_size(f));
    ir_file_unref(f);
    return text;
}

bool frontend_split(struct ir_ctx *ctx, const struct tccc_split *s, struct train_split *out)
{
    _Static_assert(sizeof *s == offsetof(struct train_split, map_text), "the same rows");
    *out = (struct train_split){0};
    memcpy(out, s, sizeof *s);
    out->partitions = s->partitions > 1 ? s->partitions : 1;
    out->microbatches = s->microbatches > 1 ? s->microbatches : 1;
    out->map_text = s->map ? read_map(ctx, s->map) : s->default_stage >= 0 ? "" : NULL;
    return !s->map || out->map_text;
}

bool frontend_train_check(struct ir_ctx *ctx, const struct tccc_train *t)
{
    struct train_options o = options_of(t);
    struct train_split split;
    if (t->split) {
        if (!frontend_split(ctx, t->split, &split))
            return false;
        o.stages = &split;
    }
    struct train_lora lora;
    return (!t->lora || train_lora_read(ctx, t->lora, &lora)) && train_base_read(ctx, t->base, &lora.base) &&
           train_check(ctx, &o);
}

bool frontend_train(struct ir_module *m, const struct tccc_train *t, const struct pass_machine *machine, FILE *schedule,
                    struct train_recompute *recompute)
{
    struct train_options o = options_of(t);
    struct train_split split;
    struct ir_where where = {.file = m->name};
    bool own = ir_entry_by_name(m, "step") != NULL;
    o.machine = machine;
    o.report = t->report;
    if (t->split) {
        if (!frontend_split(m->ctx, t->split, &split))
            return false;
        split.schedule = schedule;
        split.memory_report = t->report;
        split.recompute = recompute;
        o.stages = &split;
    }
    if (!own) {
        o.optimizer = frontend_unfreeze(m, t);
        bool ok = (o.optimizer || !t->unfreeze_after) && train_build(m, &o);
        for (struct ir_func *f = ok && t->group ? m->funcs : NULL; f; f = f->next)
            train_use_group(f->body, 0, ir_intern(m->ctx, t->group));
        return ok;
    }
    if (t->split)
        ir_error(m->ctx, &where,
                 "the model carries its own training step, which --partitions cannot cut; --loss replaces it");
    else if (t->optimizer)
        ir_error(m->ctx, &where,
                 "the model carries its own training step; --optimizer requires --loss, which replaces it");
    return !t->split && !t->optimizer && train_finish_predict(m);
}

struct plan_model *frontend_plan(struct ir_module *m, const struct tccc_train *t)
{
    struct train_options o = options_of(t);
    struct train_split split;
    struct ir_where where = {.file = m->name};
    if (!frontend_split(m->ctx, t->split, &split))
        return NULL;
    o.stages = &split;
    if (!ir_entry_by_name(m, "step"))
        return plan_model_new(m, &o);
    return ir_error(m->ctx, &where, "the model carries its own training step, which cannot be cut; --loss replaces it"),
           NULL;
}
