/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_int.h - between the files of tensor parallel training (tensor.h): how values are cut, the rules of ops. */
#ifndef TCC_PASSES_PARALLEL_TENSOR_INT_H
#define TCC_PASSES_PARALLEL_TENSOR_INT_H

#include "passes/pass.h"

/* What a rank has of a value. */
enum shard_kind {
    SHARD_REPLICATED,                  /* all of it */
    SHARD_SPLIT,                       /* a part of an axis */
    SHARD_SUM, SHARD_MAX, SHARD_MIN    /* a tensor of its own; the value is all ranks' sum, maximum, minimum */
};

/*
 * SPLIT: the axis consists of `outer` blocks of equal size, and of each block rank r of T has the rth of T equal parts.
 * More than one: the columns of a product that gives q, k and v in one are cut in three blocks.
 * One block that T does not divide, a vocabulary's, is cut as if it were longer (shard_padding()). What parts hold
 * there is never looked at: it may be anything, NaN too, and what adds up or compares along the axis takes it for
 * zeros, or for the least or greatest number.
 */
struct sharding { enum shard_kind kind; int axis; ir_expr outer; };

/* A node, and what its operands and results are when one of them is cut. */
struct shard_node {
    struct ir_ctx *ctx;
    const struct tensor_plan *plan;
    const struct ir_node *n;
    struct sharding *in, *out;   /* all operands, all results */
    ir_expr undivided;           /* not NULL: it failed only because the ranks don't divide this */
};

/* Operand or result `index` is `c`: fills in all others. False: the node can't be run so. */
typedef bool shard_rule(struct shard_node *x, bool result, int index, struct sharding c);

struct rewriter;
/* Makes what x->n computes for one rank from operands that are cut as x says: its results; NULL after a diagnostic. */
typedef struct ir_value **shard_build(struct rewriter *w, const struct shard_node *x, struct ir_value *const *in);

struct shard_row { shard_rule *rule; shard_build *build; };
const struct shard_row *shard_row_of(enum ir_op op);     /* NULL: run whole */

/* Applies the row's rule, with room for operands and results from the context. False where there is none, too. */
bool shard_try(const struct tensor_plan *p, const struct ir_node *n, bool result, int index, struct sharding c,
               struct shard_node *x);

bool shard_same(struct sharding a, struct sharding b);
/* a / b where that is an integer for all values of the symbols; NULL: unknown, or not. */
ir_expr shard_divide(struct ir_ctx *ctx, ir_expr a, ir_expr b);
/* By how many elements the ranks' parts of an axis of that size are more than it has, at most a sixteenth, or, where
 * the sequence is cut, as many; 0: none are, or it can't be cut so. */
int64_t shard_padding(const struct tensor_plan *p, ir_expr size, struct sharding c);
/* Of an axis of that size, the size of a part; NULL: it can't be cut so. */
ir_expr shard_size(const struct tensor_plan *p, ir_expr size, struct sharding c);
ir_type shard_type(const struct tensor_plan *p, ir_type whole, struct sharding c); /* of what a rank has */

struct tensor_plan {
    struct ir_module *m;
    int parts;
    bool sequence;
    int nstates;
    struct sharding *cuts;       /* by the state variable's index */
    bool context;                /* the sequence is cut, padded if need be, and parameters are whole */
    int ninputs;                 /* inputs, which all ranks have, of which each takes its part */
    struct shard_input { const char *name; struct sharding c; } *inputs;
};

#define SHARD_KIND(kind, rule, build) shard_rule shard_##rule; shard_build shard_build_##build;
#define SHARD(op, rule, build) shard_rule shard_##rule; shard_build shard_build_##build;
#include "passes/parallel/tensor.def"

/* -- Rewriting (tensor.c), for what builds nodes */

struct rewriter {
    struct ir_ctx *ctx;
    const struct tensor_plan *plan;
    int parts;
    ir_expr rank;                /* the symbol of this rank's number in the group */
    struct ir_builder b;
    struct ir_value **main;      /* by id of a value of the function that is rewritten: what became of it */
    struct sharding *cuts;       /* the same: how it is cut */
    struct form **forms;         /* in other forms */
    /* state variable whose dims it has and from which it was computed elementwise; NULL: none */
    const struct ir_state **owner;
    bool *forward;               /* by node: the loss depends on it */
    bool behind;                 /* what is made now is the backward pass */
};

/* A function for one of the ranks. in: how the inputs are cut, NULL: they are whole. free_results: the results that may
 * stay cut, NULL: none; out: how the results are, filled in. False after a diagnostic. */
bool tensor_rewrite_func(struct ir_func *f, const struct tensor_plan *plan, ir_expr rank, const struct sharding *in,
                         const bool *free_results, struct sharding *out);

/* -- tensor_move.c: from one form to another, at the builder's point; NULL after a diagnostic */
struct ir_value *shard_take_part(struct rewriter *w, struct ir_value *whole, struct sharding c); /* no message */
struct ir_value *shard_all_gather(struct rewriter *w, struct ir_value *part, ir_type whole, struct sharding c);
struct ir_value *shard_all_reduce(struct rewriter *w, struct ir_value *v, enum shard_kind kind);
struct ir_value *shard_reduce_scatter(struct rewriter *w, struct ir_value *v, struct sharding c); /* of a SUM */
/* What is cut along one axis cut along another, by all-to-all; can it be? */
bool shard_can_reshard(const struct rewriter *w, ir_type whole, struct sharding from, struct sharding to);
struct ir_value *shard_reshard(struct rewriter *w, struct ir_value *part, struct sharding from, struct sharding to);
/* This rank's first index of an axis that is cut in one block of parts of that size: i64[]. */
struct ir_value *shard_offset(struct rewriter *w, ir_expr size);
/* The part of what is `whole` with padding that a reduction to `kind` can add up or compare; itself where there is
 * none. */
struct ir_value *shard_neutral(struct rewriter *w, struct ir_value *part, ir_type whole, struct sharding c,
                               enum shard_kind kind);

static inline double shard_bytes(const struct ir_value *v)
{
    return pass_bytes(&(struct pass_sizes){0}, v->type);
}

#endif
