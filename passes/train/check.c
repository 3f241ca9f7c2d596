/* SPDX-License-Identifier: Apache-2.0 */
/* Are the options of training well-formed, and do they go together? Before anything is built. */
#include "passes/train/entry_int.h"

#include <stdlib.h>
#include <string.h>

static bool bad_option(struct ir_ctx *ctx, const char *option, const char *text, const char *expected)
{
    return ir_error(ctx, NULL, "--%s=%s: expected %s", option, text, expected);
}

static bool check_stages(struct ir_ctx *ctx, const struct train_options *o)
{
    const struct train_split *s = o->stages;
    struct pipeline_options pipeline = {0};
    struct partition_options map = {
        .stages = s->partitions, .map = s->map_text, .map_name = s->map, .default_stage = s->default_stage};
    if (!pipeline_parse(ctx, s->schedule_of_stages, &pipeline) || !partition_map_check(ctx, &map))
        return false;
    if (s->optimize && strcmp(s->optimize, "speed") && strcmp(s->optimize, "memory"))
        return bad_option(ctx, "optimize", s->optimize, "speed or memory");
    for (int i = 0; s->split_axes && s->split_axes[i]; i++) {
        const char *colon = strrchr(s->split_axes[i], ':');
        char *end = NULL;
        long axis = colon ? strtol(colon + 1, &end, 10) : -1;
        bool number = colon && end != colon + 1 && !*end && axis >= 0 && axis < TCC_MAX_RANK;
        if (!number && (!colon || strcmp(colon, ":none")))
            return bad_option(ctx, "split-axis", s->split_axes[i], "INPUT:AXIS or INPUT:none");
    }
    if (s->default_stage >= s->partitions)
        return ir_error(ctx, NULL, "--default-partition=%d: there are %d partitions", s->default_stage, s->partitions);
    return true;
}

/* What ranks of one group divide: one thing at most. */
static bool check_divided(struct ir_ctx *ctx, const struct train_options *o)
{
    const struct {
        const char *name;
        int parts;
    } all[] = {{"tensor-parallel", o->tensor_parallel},
               {"context-parallel", o->context_parallel},
               {"expert-parallel", o->expert_parallel}};
    const char *with = NULL;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].parts < 0 || all[i].parts > 1 << 16)
            return ir_error(ctx, NULL, "--%s=%d: expected 1 to %d", all[i].name, all[i].parts, 1 << 16);
        if (all[i].parts < 2)
            continue;
        if (with || (i && o->stages))
            return ir_error(ctx, NULL, "--%s and --%s exclude each other", with ? with : "partitions", all[i].name);
        with = all[i].name;
    }
    return true;
}

bool train_check(struct ir_ctx *ctx, const struct train_options *o)
{
    struct train_loss loss;
    if (o->loss && !train_loss_read(ctx, o->loss, &loss))
        return false;
    if (o->accumulate < 0 || o->accumulate > 1 << 20)
        return ir_error(ctx, NULL, "--accumulate=%d: expected 1 to %d", o->accumulate, 1 << 20);
    if (o->stages && !check_stages(ctx, o))
        return false;
    if (o->stages && o->loss && !train_loss_is_simple(&loss))
        return ir_error(
            ctx, NULL,
            "--loss=%s: a step in stages has one loss of one output, with a factor of 1, and not reduction=none",
            o->loss);
    if (!check_divided(ctx, o))
        return false;
    if (o->sequence_parallel && o->tensor_parallel < 2)
        return ir_error(ctx, NULL, "--sequence-parallel requires --tensor-parallel=2 or more");
    return train_parallel_check(ctx, o) && train_qat_check(ctx, o) && optim_check(ctx, o);
}
