/* SPDX-License-Identifier: Apache-2.0 */
/* --train: from the public options to the training transformation of passes/. */
#include "compiler/import/frontend.h"
#include "compiler/tccc.h"
#include "passes/pass.h"

#include <string.h>

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
                                  .ema = t->ema,
                                  .accumulate = t->accumulate,
                                  .memory_budget = t->memory_budget,
                                  .data_parallel = t->data_parallel,
                                  .bucket_cap_mb = t->bucket_cap_mb,
                                  .broadcast_buffers = t->broadcast_buffers,
                                  .zero = t->zero,
                                  .tensor_parallel = t->tensor_parallel,
                                  .sequence_parallel = t->sequence_parallel,
                                  .offload_optimizer = t->offload_optimizer,
                                  .offload_activations = t->offload_activations};
}

/* " --NAME=TEXT", in quotes for a shell; nothing where text is NULL. */
static const char *flag(struct ir_ctx *ctx, const char *flags, const char *name, const char *text)
{
    VEC(char) quoted = {0};
    if (!text)
        return flags;
    for (const char *c = text; *c; c++)
        for (const char *part = *c == '\'' ? "'\\''" : (char[]){*c, 0}; *part; part++)
            VEC_PUSH(ctx, quoted, *part);
    VEC_PUSH(ctx, quoted, 0);
    return ir_internf(ctx, "%s --%s='%s'", flags, name, quoted.at);
}

static const char *number_flag(struct ir_ctx *ctx, const char *flags, const char *name, double number)
{
    return number != 0 ? flag(ctx, flags, name, ir_internf(ctx, "%.17g", number)) : flags;
}

static const char *list_flags(struct ir_ctx *ctx, const char *flags, const char *name, const char *const *list)
{
    for (int i = 0; list && list[i]; i++)
        flags = flag(ctx, flags, name, list[i]);
    return flags;
}

static const char *split_flags(struct ir_ctx *ctx, const char *f, const struct tccc_split *s)
{
    f = number_flag(ctx, f, "partitions", s->partitions > 1 ? s->partitions : 1);
    f = number_flag(ctx, f, "microbatches", s->microbatches);
    f = number_flag(ctx, f, "active-microbatches", s->active);
    if (s->default_stage >= 0)
        f = flag(ctx, f, "default-partition", ir_internf(ctx, "%d", s->default_stage));
    f = flag(ctx, f, "pipeline", s->pipeline);
    f = flag(ctx, f, "optimize", s->optimize);
    f = flag(ctx, f, "partition-map", s->map);
    return list_flags(ctx, f, "split-axis", s->split_axes);
}

const char *frontend_train_flags(struct ir_ctx *ctx, const struct tccc_train *t)
{
    const struct {
        const char *name, *text;
    } texts[] = {{"loss", t->loss},
                 {"optimizer", t->optimizer},
                 {"optimizer-state", t->optimizer_state},
                 {"lr-schedule", t->schedule},
                 {"precision", t->precision},
                 {"auto-cast", t->auto_cast},
                 {"auto-cast-type", t->auto_cast_type},
                 {"loss-scale", t->loss_scale},
                 {"step-outputs", t->step_outputs},
                 {"data-parallel", t->data_parallel ? t->group ? t->group : "dp" : NULL},
                 {"broadcast-buffers", t->broadcast_buffers}};
    const char *f = "--train";
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        f = flag(ctx, f, texts[i].name, texts[i].text);
    f = number_flag(ctx, f, "unfreeze-after", t->unfreeze_after);
    f = list_flags(ctx, f, "freeze", t->freeze);
    f = list_flags(ctx, f, "train-only", t->train_only);
    f = number_flag(ctx, f, "clip-norm", t->clip_norm);
    f = number_flag(ctx, f, "ema", t->ema);
    f = number_flag(ctx, f, "accumulate", t->accumulate > 1 ? t->accumulate : 0);
    f = number_flag(ctx, f, "memory-budget", (double)t->memory_budget);
    f = number_flag(ctx, f, "bucket-cap-mb", t->bucket_cap_mb);
    f = number_flag(ctx, f, "zero", t->zero);
    f = number_flag(ctx, f, "tensor-parallel", t->tensor_parallel);
    f = t->sequence_parallel ? ir_internf(ctx, "%s --sequence-parallel", f) : f;
    if (t->offload_activations || t->offload_optimizer)
        f = flag(ctx, f, "offload",
                 ir_internf(ctx, "%s%s%s", t->offload_activations ? "activations" : "",
                            t->offload_activations && t->offload_optimizer ? "," : "",
                            t->offload_optimizer ? "optimizer" : ""));
    return t->split ? split_flags(ctx, f, t->split) : f;
}

/* The file's text, NULL after a diagnostic. */
static const char *read_map(struct ir_ctx *ctx, const char *path)
{
    char error[256];
    struct ir_file *f = ir_file_get(ctx, path, error, sizeof error);
    if (!f) {
        ir_error(ctx, NULL, "--partition-map=%s: %s", path, error);
        return NULL;
    }
    char *text = IR_NEWN(ctx, ir_file_size(f) + 1, char);
    if (ir_file_size(f))
        memcpy(text, ir_file_data(f), ir_file_size(f));
    ir_file_unref(f);
    return text;
}

bool frontend_split(struct ir_ctx *ctx, const struct tccc_split *s, struct train_split *out)
{
    *out = (struct train_split){.partitions = s->partitions > 1 ? s->partitions : 1,
                                .microbatches = s->microbatches > 1 ? s->microbatches : 1,
                                .active = s->active,
                                .default_stage = s->default_stage,
                                .pipeline = s->pipeline,
                                .optimize = s->optimize,
                                .map_name = s->map,
                                .split_axes = s->split_axes,
                                .report = s->report,
                                .chart = s->chart};
    if (s->map)
        out->map = read_map(ctx, s->map);
    else if (s->default_stage >= 0)
        out->map = ""; /* all in one place */
    return !s->map || out->map;
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
    return (!t->lora || train_lora_read(ctx, t->lora, &lora)) && train_check(ctx, &o);
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
    ir_error(m->ctx, &where, "the model carries its own training step, which cannot be cut; --loss replaces it");
    return NULL;
}
