/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/grad_int.h"
void grad_rule_lib(struct grad *g, struct ir_node *n)
{
    grad_fail(g, n, "there is no rule for this library op");
}
