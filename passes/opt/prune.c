/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prune: a node of the model that no result, update or check needs is not run, whatever the level; so it goes before
 * what it takes for granted of sizes is stated, and before the interpreter runs.
 */
#include "passes/util_int.h"

#include "base/mutant.h"

bool pass_prune_run(struct pass_run *r);

bool pass_prune_run(struct pass_run *r)
{
    return MUTANT(325, pass_remove_unneeded(r), true);
}
