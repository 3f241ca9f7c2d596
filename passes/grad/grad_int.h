/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the gradient pass (grad*.c): what the rules share.
 *
 * A sweep goes over one block's nodes from the last to the first. A rule asks for the gradient of its node's results
 * (grad_out) and adds contributions to its operands' (grad_accumulate...), which are summed when the sweep reaches the
 * node that made them. Contributions are kept apart until then, in a form that says where they come from: slices that
 * tile their operand become one concat, and a loop's gradient sums products outside of the loop.
 */
#ifndef TCC_PASSES_GRAD_GRAD_INT_H
#define TCC_PASSES_GRAD_GRAD_INT_H

#include "passes/grad/grad.h"

enum grad_form {
    GRAD_WHOLE,          /* v has the value's type */
    GRAD_SLICE,          /* v lies at start along axis, the rest is 0 */
    GRAD_PICK,           /* v lies at index[] along axis, which v does not have */
    GRAD_PRODUCT         /* v' w (matrices of rank 2) */
};
struct cotangent {
    enum grad_form form;
    int axis;
    ir_expr start;
    struct ir_value *v, *w;      /* PICK: w is the index */
    enum tcc_dtype to;           /* of a PRODUCT behind a cast: rounded to this; TCC_NONE: to the value's type */
};
struct grad_sum { VEC(struct cotangent) parts; };

struct grad {
    struct ir_ctx *ctx;
    struct ir_builder *b;        /* where gradients are built */
    uint32_t nvalues;            /* of the arrays */
    bool *active;                /* by value id: does an x reach it? */
    /* by value id: so it does, but it is an object without a gradient of its own (a sequence, an optional, a tensor of
     * unknown rank) */
    bool *hidden;
    bool *is_leaf;               /* by value id: an x; nothing flows through */
    struct grad_sum *sums;       /* by value id */
    /* gradients of stops are summed as products come, so that their operands need not be kept */
    bool early;
    bool failed;
};
typedef void (*grad_rule)(struct grad *g, struct ir_node *n);

/* Operand i, NULL when it is omitted; does its gradient matter? */
struct ir_value *grad_in(const struct ir_node *n, int i);
bool grad_wants(const struct grad *g, const struct ir_node *n, int i);
bool grad_wants_value(const struct grad *g, const struct ir_value *v);
/* The gradient of result k, NULL where there is none. */
struct ir_value *grad_out(struct grad *g, struct ir_node *n, int k);
/* The whole gradient of a value, NULL where there is none. */
struct ir_value *grad_total(struct grad *g, struct ir_value *v);
/* Contributions. v is summed over broadcast axes and cast to the operand's type; NULL is ignored. */
void grad_accumulate(struct grad *g, struct ir_node *n, int i, struct ir_value *v);
void grad_accumulate_value(struct grad *g, struct ir_value *to, struct ir_value *v);
void grad_add_cotangent(struct grad *g, struct ir_value *to, struct cotangent part);
/* Reports "no gradient": the node and why. */
void grad_fail(struct grad *g, const struct ir_node *n, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Sweeps: `active` is filled from the xs marked in it; ys' gradients have been given. From `last` back to the block's
 * start. */
struct grad *grad_new(struct ir_ctx *ctx, struct ir_builder *b, struct ir_func *f);
/* Makes whoever reads, in front of b's point, a version of a state variable that the function has made take what was
 * written; leaves (xs) stay. The ys as they are then. */
struct ir_value *const *grad_forward_state(struct ir_builder *b, int ny, struct ir_value *const *ys, int nx,
                                           struct ir_value *const *xs);
void grad_mark(struct grad *g, const struct ir_block *block, const struct ir_node *end);
void grad_sweep(struct grad *g, struct ir_block *block, struct ir_node *last);

/* -- Building blocks (util.c). All return NULL when an operand is NULL. */
/* sum over broadcast axes, expand, cast */
struct ir_value *grad_fit(struct grad *g, struct ir_value *v, ir_type t);
struct ir_value *grad_full(struct grad *g, ir_type t, double v);                        /* that number everywhere */
struct ir_value *grad_reduce(struct grad *g, enum ir_op op, struct ir_value *v, unsigned axes, bool keep);
/* zeros, v added at index along axis */
struct ir_value *grad_put(struct grad *g, ir_type t, int axis, struct ir_value *index, struct ir_value *v);
struct ir_value *grad_move_axis(struct grad *g, struct ir_value *v, int from, int count, int to);
/* A library op of one result and its own attributes (IR_ATTRS of ir_attr_user_i and the like; NULL: none). */
struct ir_value *grad_library(struct grad *g, const char *name, int nin, struct ir_value *const *in, ir_type type,
                              const struct ir_attr *own);
unsigned grad_axes(const struct ir_node *n);                                             /* attribute axes as a set */
/* With reduced axes as 1, so that it broadcasts to the operand. */
struct ir_value *grad_keep(struct grad *g, const struct ir_node *n, struct ir_value *v);

/* -- Expressions (expr.c): builds `text` (see grad.def) over the named values; `to`: the type that sum() reduces to,
 * NULL: none. */
struct grad_names { struct ir_value *x, *y, *z, *r, *d; };
struct ir_value *grad_expr(struct grad *g, const char *text, const struct grad_names *names, ir_type to);

/* -- Tables (grad.c, map.c) */
bool grad_passes(const struct ir_node *n, int i);        /* may anything flow from the results to operand i? */
/* why nothing flows to operand i; NULL: something does */
const char *grad_why_not(const struct ir_node *n, int i);
bool grad_map_passes(const struct ir_node *n, int i);
bool grad_lib_passes(const struct ir_node *n, int i);
void grad_map(struct grad *g, struct ir_node *n);

/* Nodes that are differentiated together with what they were computed from (softmax and the like): false, no such
 * pattern. */
bool grad_whole(struct grad *g, struct ir_node *n);

#define GRAD_MAP(word, x, y, z)
#define GRAD_OP(op, rule, meaning) void grad_rule_##rule(struct grad *g, struct ir_node *n);
#define GRAD_NONE(op, why)
#define GRAD_REFUSED(op, why)
#define GRAD_LIB(name, rule, operands) void grad_##rule(struct grad *g, struct ir_node *n);
#include "passes/grad/grad.def"

#endif
