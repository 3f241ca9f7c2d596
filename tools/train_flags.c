/* SPDX-License-Identifier: Apache-2.0 */
/* The options of --train. */
#include "compiler/import/frontend.h"
#include "compiler/tccc.h"
#include "tools/run/model_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool train_option(enum option_id id)
{
    const char *group = option_table[id].group;
    return !strncmp(group, "Training", 8) || !strcmp(group, "Many ranks");
}

/* One that means nothing without --train. */
static bool only_with_train(enum option_id id)
{
    return train_option(id) && id != OPT_train && id != OPT_auto_cast && id != OPT_auto_cast_type;
}

/* One that says something of the data, too. */
static bool of_data(const struct options *o, enum option_id id)
{
    return id == OPT_split_axis && option_set(o, OPT_data);
}

/* 1500000, 64M, 1.5G: powers of 1024. */
static int read_size(const struct options *o, const char *text, unsigned long long *bytes)
{
    static const char units[] = "KMGT";
    char *end;
    double v = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;

    if (unit)
        end++;
    for (long i = 0; unit && i <= unit - units; i++)
        v *= 1024;
    if (end == text || *end || !(v >= 1 && v < 1e18))
        return usage_error(o, "--memory-budget=%s: expected a number of bytes, or one with K, M or G", text);
    *bytes = (unsigned long long)v;
    return EXIT_FINE;
}

/* What passes/ finds wrong with the texts. */
static int check(const struct options *o, const struct tccc_train *t)
{
    struct ir_ctx *ctx = ir_ctx_new();
    struct ir_protect frame;
    volatile int code = EXIT_ENVIRONMENT;

    if (ctx && IR_PROTECT(ctx, &frame)) {
        code = EXIT_FINE;
        if (!frontend_train_check(ctx, t))
            code = usage_error(o, "%s", ir_nmessages(ctx) ? ir_message(ctx, ir_nmessages(ctx) - 1)->text : "--train");
        ir_unprotect(ctx);
    }
    ir_ctx_free(ctx);
    return code == EXIT_ENVIRONMENT ? tool_error(o, code, "no memory") : code;
}

/* --partitions and what goes with it. The result lives as long as the program. */
static int split_flags(const struct options *o, struct tccc_train *t)
{
    static struct tccc_split s;
    static const enum option_id with[] = {
        OPT_stage_order,       OPT_active,     OPT_optimize,         OPT_partition_map,
        OPT_default_partition, OPT_split_axis, OPT_partition_report, OPT_pipeline_chart};
    int64_t partitions = 1, micros = 1, active = 0, otherwise = -1;

    if (!option_int(o, OPT_partitions, 1, 1024, &partitions) || !option_int(o, OPT_microbatches, 1, 65536, &micros) ||
        !option_int(o, OPT_active, 1, 65536, &active) || !option_int(o, OPT_default_partition, 0, 1023, &otherwise))
        return EXIT_USAGE;
    if (o->tool == TOOL_P)
        return EXIT_FINE; /* it tries them all */
    if (!option_set(o, OPT_partitions) && !option_set(o, OPT_microbatches)) {
        for (size_t i = 0; i < sizeof with / sizeof *with; i++)
            if (option_set(o, with[i]) && !of_data(o, with[i]))
                return usage_error(o, "--%s requires --partitions or --microbatches", option_table[with[i]].long_name);
        return EXIT_FINE;
    }
    s = (struct tccc_split){.partitions = (int)partitions,
                            .microbatches = (int)micros,
                            .active = (int)active,
                            .default_stage = (int)otherwise,
                            .pipeline = option_text(o, OPT_stage_order, NULL),
                            .optimize = option_text(o, OPT_optimize, NULL),
                            .map = option_text(o, OPT_partition_map, NULL),
                            .split_axes = o->given[OPT_split_axis].at,
                            .report = option_set(o, OPT_partition_report) ? stderr : NULL,
                            .chart = option_text(o, OPT_pipeline_chart, NULL)};
    t->split = &s;
    if (s.map && access(s.map, R_OK) != 0)
        return tool_error(o, EXIT_DATA, "--partition-map=%s: %m", s.map);
    return EXIT_FINE;
}

/* --offload: words, comma-separated. */
static int offload_flags(const struct options *o, struct tccc_train *t)
{
    const char *text = option_text(o, OPT_offload, NULL);

    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        size_t n = strcspn(at, ",");

        if (n == strlen("activations") && !strncmp(at, "activations", n))
            t->offload_activations = true;
        else if (n == strlen("optimizer") && !strncmp(at, "optimizer", n))
            t->offload_optimizer = true;
        else
            return usage_error(o, "--offload=%s: expected activations, optimizer or both, comma-separated", text);
    }
    return EXIT_FINE;
}

/* --new-head, --unfreeze-after, --lora. */
static int adapt_flags(const struct options *o, struct tccc_train *t)
{
    int64_t classes = 0, epochs = 0, seed = 0;

    if (!option_int(o, OPT_new_head, 1, 1 << 24, &classes) || !option_int(o, OPT_unfreeze_after, 1, 1 << 24, &epochs) ||
        (o->tool == TOOL_T && !option_int(o, OPT_seed, 0, INT64_MAX, &seed)))
        return EXIT_USAGE;
    t->new_head = (int)classes;
    t->head_at = option_text(o, OPT_head_at, NULL);
    t->unfreeze_after = (int)epochs;
    t->lora = option_text(o, OPT_lora, NULL);
    t->seed = (unsigned long long)seed;
    if (t->head_at && !t->new_head)
        return usage_error(o, "--head-at requires --new-head");
    if (t->unfreeze_after && t->lora)
        return usage_error(o, "--unfreeze-after and --lora exclude each other: with --lora only adapters are trained");
    if (t->unfreeze_after && strchr(option_text(o, OPT_optimizer, ""), ';'))
        return usage_error(o,
                           "--unfreeze-after and groups of --optimizer exclude each other: say from=N in the groups");
    return EXIT_FINE;
}

bool train_wanted(const struct options *o)
{
    return option_set(o, OPT_train) || o->tool == TOOL_T;
}

int train_flags(const struct options *o, struct tccc_train *t)
{
    int64_t accumulate = 1;
    int code = EXIT_FINE;

    *t = (struct tccc_train){0};
    if (!train_wanted(o)) {
        t->auto_cast = auto_cast_words(o);
        t->auto_cast_type = option_text(o, OPT_auto_cast_type, NULL);
        for (int id = 0; id < NOPTIONS; id++)
            if (only_with_train((enum option_id)id) && option_set(o, (enum option_id)id) &&
                !of_data(o, (enum option_id)id))
                return usage_error(o, "--%s requires --train", option_table[id].long_name);
        return t->auto_cast || t->auto_cast_type ? check(o, t) : EXIT_FINE;
    }
    if (!strcmp(option_text(o, OPT_clip_norm, ""), "inf"))
        t->clip_norm = INFINITY;
    else if (!option_float(o, OPT_clip_norm, &t->clip_norm))
        return EXIT_USAGE;
    if (!option_int(o, OPT_accumulate, 1, 1 << 20, &accumulate) || !option_float(o, OPT_ema, &t->ema))
        return EXIT_USAGE;
    if (option_set(o, OPT_memory_budget) &&
        (code = read_size(o, option_text(o, OPT_memory_budget, ""), &t->memory_budget)) != EXIT_FINE)
        return code;
    t->accumulate = (int)accumulate;
    t->loss = option_text(o, OPT_loss, NULL);
    t->optimizer = option_text(o, OPT_optimizer, NULL);
    t->optimizer_state = option_text(o, OPT_optimizer_state, NULL);
    t->schedule = option_text(o, OPT_schedule, NULL);
    t->precision = option_text(o, OPT_precision, NULL);
    t->auto_cast = auto_cast_words(o);
    t->auto_cast_type = option_text(o, OPT_auto_cast_type, NULL);
    t->loss_scale = option_text(o, OPT_loss_scale, NULL);
    t->step_outputs = option_text(o, OPT_step_outputs, NULL);
    t->freeze = o->given[OPT_freeze].at;
    t->train_only = o->given[OPT_train_only].at;
    if ((code = adapt_flags(o, t)) != EXIT_FINE)
        return code;
    t->data_parallel = option_set(o, OPT_data_parallel);
    t->group = *option_text(o, OPT_data_parallel, "") ? option_text(o, OPT_data_parallel, "") : NULL;
    if (t->group && strlen(t->group) > 15)
        return usage_error(o, "--data-parallel=%s: expected the name of a group, at most 15 letters", t->group);
    int64_t zero = 0, parts = 1;
    if (!option_int(o, OPT_zero, 0, 3, &zero) || !option_int(o, OPT_tensor_parallel, 1, 1 << 16, &parts))
        return EXIT_USAGE;
    if (parts > 1 && t->group && !strcmp(t->group, "tp"))
        return usage_error(o, "--data-parallel=tp: that is the group of --tensor-parallel");
    t->tensor_parallel = (int)parts;
    t->sequence_parallel = option_set(o, OPT_sequence_parallel);
    t->zero = (int)zero;
    t->sync_bn = option_set(o, OPT_sync_bn);
    if (t->sync_bn && !t->data_parallel)
        return usage_error(o, "--sync-bn requires --data-parallel");
    t->broadcast_buffers = option_text(o, OPT_broadcast_buffers, NULL);
    if (option_set(o, OPT_bucket_cap) && (!option_float(o, OPT_bucket_cap, &t->bucket_cap_mb)))
        return EXIT_USAGE;
    if (option_set(o, OPT_bucket_cap) && !(t->bucket_cap_mb > 0))
        return usage_error(o, "--bucket-cap-mb: expected a number above 0");
    t->report = option_set(o, OPT_report) ? stderr : NULL;
    if ((code = split_flags(o, t)) != EXIT_FINE || (code = offload_flags(o, t)) != EXIT_FINE)
        return code;
    return check(o, t);
}
