/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/grad_int.h"
void grad_rule_if(struct grad *g, struct ir_node *n)
{
    grad_fail(g, n, "not yet");
}
void grad_rule_loop(struct grad *g, struct ir_node *n)
{
    grad_fail(g, n, "not yet");
}
