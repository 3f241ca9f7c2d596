/* SPDX-License-Identifier: Apache-2.0 */
/* Private to passes/: questions about nodes that several passes ask. */
#ifndef TCC_PASSES_UTIL_INT_H
#define TCC_PASSES_UTIL_INT_H

#include "passes/pass.h"

/* Nodes in a block and the regions below it. */
int pass_count_nodes(const struct ir_block *b);

/* Has the node, or a node in its regions, an effect (a state update, a random draw, a binding of a symbol)? A bind
 * inside a region has none outside of it. */
bool pass_has_effect(const struct ir_node *n);

/* Removes nodes whose results nobody uses, last ones first (dce.c). */
bool pass_remove_unneeded(struct pass_run *r);
/* Replaces nodes by earlier ones that compute the same (cse.c). */
bool pass_share_equal(struct pass_run *r);

/* Calls visit for each symbol in the node's attributes and in its results' types; regions are not entered. */
void pass_each_symbol(const struct ir_node *n, void (*visit)(void *user, ir_expr sym), void *user);
void pass_each_type_symbol(ir_type t, void (*visit)(void *user, ir_expr sym), void *user);

/* An `if`, whose regions `then` and `otherwise` build, and whose n results both end with. */
struct pass_if {
    struct ir_node *node;
    struct ir_builder then, otherwise;
};
bool pass_begin_if(struct ir_builder *b, struct ir_value *condition, int n, const ir_type *types, struct pass_if *out);
bool pass_end_if(struct pass_if *x, struct ir_value *const *results, struct ir_value *const *others);

/* Are two nodes' attributes equal? Order is of no matter. */
bool pass_equal_attrs(const struct ir_node *a, const struct ir_node *b);
uint64_t pass_hash_attrs(const struct ir_node *n);

#endif
