/* SPDX-License-Identifier: Apache-2.0 */
/* targets.c - targets by name: those that are built in, and those that the program has registered; what they give. */
#include "compiler/target.h"

#include <string.h>

enum { BUILT_IN = 4, MOST = 8 };
static const struct target *targets[MOST] = {&target_cpu, &target_cpu_split, &target_cuda, &target_neuron};
static int ntargets = BUILT_IN;

const struct target *target_by_name(const char *name)
{
    for (int i = 0; i < ntargets; i++)
        if (!strcmp(targets[i]->name, name))
            return targets[i];
    return NULL;
}

const struct target *target_at(int i)
{
    return i < ntargets ? targets[i] : NULL;
}

bool target_register(const struct target *t)
{
    const struct target *there = target_by_name(t->name);
    if (there || ntargets == MOST)
        return there == t;
    targets[ntargets++] = t;
    return true;
}

void target_add_object(struct ir_ctx *ctx, struct target_code *code, const char *path)
{
    IR_PUSH(ctx, code->objects, code->nobjects, code->capobjects, ir_strdup(ctx, path));
}

void target_add_image(struct ir_ctx *ctx, struct target_code *code, struct target_image image)
{
    IR_PUSH(ctx, code->images, code->nimages, code->capimages, image);
}
