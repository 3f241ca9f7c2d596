/* SPDX-License-Identifier: Apache-2.0 */
/* targets.c - the targets that are built in, by name. */
#include "compiler/target.h"

#include <string.h>

static const struct target *const targets[] = {&target_cpu, &target_cuda};

const struct target *target_by_name(const char *name)
{
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (!strcmp(targets[i]->name, name))
            return targets[i];
    return NULL;
}
