/* SPDX-License-Identifier: Apache-2.0 */
/* targets.c - targets by name: those that are built in, and those that the program has registered. */
#include "compiler/target.h"

#include <string.h>

enum { BUILT_IN = 3, MOST = 8 };
static const struct target *targets[MOST] = {&target_cpu, &target_cpu_split, &target_cuda};
static int ntargets = BUILT_IN;

const struct target *target_by_name(const char *name)
{
    for (int i = 0; i < ntargets; i++)
        if (!strcmp(targets[i]->name, name))
            return targets[i];
    return NULL;
}

bool target_register(const struct target *t)
{
    const struct target *there = target_by_name(t->name);
    if (there || ntargets == MOST)
        return there == t;
    targets[ntargets++] = t;
    return true;
}
