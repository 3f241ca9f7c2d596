/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to passes/: local rewriting by rules. A rule looks at one node and returns the value that replaces its only
 * result: an old value, a new one built with w->b (which stands before the node), or n->out[0] itself when it changed
 * the node in place; NULL when it does not apply. It must not change the result's type, nor (but for tables that say
 * so) other nodes. Rules are tried until none applies; they must go one way (each makes the program smaller or more
 * canonical), so that this ends. tests/unit/test_rules.c runs each by itself on the texts of tests/passes, and compares
 * in the interpreter: a rule that none of them shows fails it.
 */
#ifndef TCC_PASSES_REWRITE_INT_H
#define TCC_PASSES_REWRITE_INT_H

#include "passes/pass.h"

struct rewrite { struct pass_run *run; struct ir_builder b; bool stop; };
typedef struct ir_value *(*rewrite_fn)(struct rewrite *w, struct ir_node *n);
struct rewrite_rule { enum ir_op op; rewrite_fn fn; const char *name; };      /* op IR_OP_NONE: tried on every node */
#define RULE(op, fn) {IR_##op, fn, #fn}
/* Of an op's rules the first in the table is tried first. */
struct rewrite_table {
    const char *name;
    const struct rewrite_rule *at;
    int n;
    bool far;                    /* rules change other nodes than theirs, too: each round tries all */
};
#define RULES(name, far, ...)                                                   \
    static const struct rewrite_rule name##_rules[] = {__VA_ARGS__};            \
    static const struct rewrite_table name = {#name, name##_rules, sizeof name##_rules / sizeof *name##_rules, far}
/* For tests: may the rule be tried; it has changed something. */
struct rewrite_watch {
    bool (*may)(void *user, const struct rewrite_table *t, const struct rewrite_rule *rule);
    void (*did)(void *user, const struct rewrite_table *t, const struct rewrite_rule *rule);
    void *user;
};

void rewrite_module(struct pass_run *r, const struct rewrite_table *table);

/* To be asked when a rule has matched, before it builds or changes anything. False: the change limit is reached. */
bool rewrite_go(struct rewrite *w);

/* Operand i, NULL when omitted or not there; the node that defines it, if it is of that op. */
struct ir_value *rewrite_operand(const struct ir_node *n, int i);
struct ir_node *rewrite_operand_node(const struct ir_node *n, int i, enum ir_op op);
/* Does x have the type of n's result? */
bool rewrite_has_result_type(const struct ir_node *n, const struct ir_value *x);
/* Is operand i a constant with all elements equal to v (and of the same sign)? */
bool rewrite_operand_is(const struct ir_node *n, int i, double v);
enum tcc_dtype rewrite_dtype_of(const struct ir_value *v);

/* The integer values of a small i64 or i32 tensor (rank 0 or 1) as expressions: constants, `dims`, and arithmetic and
 * moves on those. Their number, or -1. `out` has room for `most`. */
int pass_exprs_of(struct ir_ctx *ctx, const struct ir_value *v, ir_expr *out, int most);

#endif
