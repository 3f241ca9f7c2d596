/* SPDX-License-Identifier: Apache-2.0 */
/* The options of --train. */
#include "compiler/import/frontend.h"
#include "compiler/tccc.h"
#include "tools/run/model_int.h"

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

    s = (struct tccc_split){.default_stage = -1};
    if (!fields_split(o, &s))
        return EXIT_USAGE;
    if (o->tool == TOOL_P)
        return EXIT_FINE; /* it tries them all */
    if (!option_set(o, OPT_partitions) && !option_set(o, OPT_microbatches)) {
        for (size_t i = 0; i < sizeof with / sizeof *with; i++)
            if (option_set(o, with[i]) && !of_data(o, with[i]))
                return usage_error(o, "--%s requires --partitions or --microbatches", option_table[with[i]].long_name);
        return EXIT_FINE;
    }
    t->split = &s;
    if (s.map && access(s.map, R_OK) != 0)
        return tool_error(o, EXIT_DATA, "--partition-map=%s: %m", s.map);
    return EXIT_FINE;
}

/* --new-head, --unfreeze-after, --lora. */
static int adapt_flags(const struct options *o, struct tccc_train *t)
{
    int64_t seed = 0;

    if (o->tool == TOOL_T && !option_int(o, OPT_seed, 0, INT64_MAX, &seed))
        return EXIT_USAGE;
    t->seed = (unsigned long long)seed;
    if (t->head_at && !t->new_head)
        return usage_error(o, "--head-at requires --new-head");
    if (t->base && !t->lora)
        return usage_error(o, "--base requires --lora");
    if (t->unfreeze_after && t->lora)
        return usage_error(o, "--unfreeze-after and --lora exclude each other: with --lora only adapters are trained");
    if (t->qat && t->lora)
        return usage_error(
            o, "--qat and --lora exclude each other: with --lora the weights are not trained, and steps can't "
               "be learned for them");
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
    if (!fields_train(o, t))
        return EXIT_USAGE;
    t->auto_cast = auto_cast_words(o);
    t->auto_cast_type = option_text(o, OPT_auto_cast_type, NULL);
    if ((code = adapt_flags(o, t)) != EXIT_FINE)
        return code;
    bool divides = t->tensor_parallel > 1 || t->context_parallel > 1 || t->expert_parallel > 1;
    if (divides && t->group && !strcmp(t->group, "tp"))
        return usage_error(o, "--data-parallel=tp: that is the group of --tensor-parallel and its like");
    if (t->sync_bn && !t->data_parallel)
        return usage_error(o, "--sync-bn requires --data-parallel");
    if (option_set(o, OPT_bucket_cap) && !(t->bucket_cap_mb > 0))
        return usage_error(o, "--bucket-cap-mb: expected a number above 0");
    t->report = option_set(o, OPT_report) ? stderr : NULL;
    code = split_flags(o, t);
    return code != EXIT_FINE ? code : check(o, t);
}
