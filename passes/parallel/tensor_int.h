/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_int.h - between the files of tensor parallel training (tensor.h): how values are cut, the rules of ops. */
#ifndef TCC_PASSES_PARALLEL_TENSOR_INT_H
#define TCC_PASSES_PARALLEL_TENSOR_INT_H

#include "passes/pass.h"

/* What a rank has of a value. */
enum cut_kind {
    CUT_WHOLE,                   /* all of it */
    CUT_PART,                    /* a part of an axis */
    CUT_SUM, CUT_MAX, CUT_MIN    /* a tensor of its own; the value is all ranks' sum, maximum, minimum */
};

/*
 * PART: the axis consists of `outer` blocks of equal size, and of each block rank r of T has the rth of T equal parts.
 * More than one: the columns of a product that gives q, k and v in one are cut in three blocks.
 * One block that T does not divide, a vocabulary's, is cut as if it were longer (cut_padding()). What parts hold there
 * is never looked at: it may be anything, NaN too, and what adds up or compares along the axis takes it for zeros, or
 * for the least or greatest number.
 */
struct cut { enum cut_kind kind; int axis; ir_expr outer; };

/* A node, and what its operands and results are when one of them is cut. */
struct cut_node {
    struct ir_ctx *ctx;
    const struct tensor_plan *plan;
    const struct ir_node *n;
    struct cut *in, *out;        /* all operands, all results */
    ir_expr undivided;           /* not NULL: it failed only because the ranks don't divide this */
};

/* Operand or result `index` is `c`: fills in all others. False: the node can't be run so. */
typedef bool cut_rule(struct cut_node *x, bool result, int index, struct cut c);

struct rewriter;
/* Makes what x->n computes for one rank from operands that are cut as x says: its results; NULL after a diagnostic. */
typedef struct ir_value **cut_build(struct rewriter *w, const struct cut_node *x, struct ir_value *const *in);

struct cut_row { cut_rule *rule; cut_build *build; };
const struct cut_row *cut_row_of(enum ir_op op);     /* NULL: run whole */

/* Applies the row's rule, with room for operands and results from the context. False where there is none, too. */
bool cut_try(const struct tensor_plan *p, const struct ir_node *n, bool result, int index, struct cut c,
             struct cut_node *x);

bool cut_same(struct cut a, struct cut b);
/* a / b where that is an integer for all values of the symbols; NULL: unknown, or not. */
ir_expr cut_divide(struct ir_ctx *ctx, ir_expr a, ir_expr b);
/* By how many elements the ranks' parts of an axis of that size are more than it has, at most a sixteenth, or, where
 * the sequence is cut, as many; 0: none are, or it can't be cut so. */
int64_t cut_padding(const struct tensor_plan *p, ir_expr size, struct cut c);
/* Of an axis of that size, the size of a part; NULL: it can't be cut so. */
ir_expr cut_size(const struct tensor_plan *p, ir_expr size, struct cut c);
ir_type cut_type(const struct tensor_plan *p, ir_type whole, struct cut c);         /* of what a rank has */

struct tensor_plan {
    struct ir_module *m;
    int parts;
    bool sequence;
    int nstates;
    struct cut *cuts;            /* by the state variable's index */
    bool context;                /* the sequence is cut, padded if need be, and parameters are whole */
    int ninputs;                 /* inputs, which all ranks have, of which each takes its part */
    struct cut_input { const char *name; struct cut c; } *inputs;
};

#define CUT_KIND(kind, rule, build) cut_rule cut_##rule; cut_build cut_build_##build;
#define CUT(op, rule, build) cut_rule cut_##rule; cut_build cut_build_##build;
#include "passes/parallel/tensor.def"
#undef CUT_KIND
#undef CUT

/* -- Rewriting (tensor.c), for what builds nodes */

struct rewriter {
    struct ir_ctx *ctx;
    const struct tensor_plan *plan;
    int parts;
    ir_expr rank;                /* the symbol of this rank's number in the group */
    struct ir_builder b;
    struct ir_value **main;      /* by id of a value of the function that is rewritten: what became of it */
    struct cut *cuts;            /* the same: how it is cut */
    struct form **forms;         /* in other forms */
    /* state variable whose dims it has and from which it was computed elementwise; NULL: none */
    const struct ir_state **owner;
    bool *forward;               /* by node: the loss depends on it */
    bool behind;                 /* what is made now is the backward pass */
};

/* A function for one of the ranks. in: how the inputs are cut, NULL: they are whole. free_results: the results that may
 * stay cut, NULL: none; out: how the results are, filled in. False after a diagnostic. */
bool tensor_rewrite_func(struct ir_func *f, const struct tensor_plan *plan, ir_expr rank, const struct cut *in,
                         const bool *free_results, struct cut *out);

/* -- tensor_move.c: from one form to another, at the builder's point; NULL after a diagnostic */
struct ir_value *cut_take_part(struct rewriter *w, struct ir_value *whole, struct cut c);      /* no message */
struct ir_value *cut_all_gather(struct rewriter *w, struct ir_value *part, ir_type whole, struct cut c);
struct ir_value *cut_all_reduce(struct rewriter *w, struct ir_value *v, enum cut_kind kind);
struct ir_value *cut_reduce_scatter(struct rewriter *w, struct ir_value *v, struct cut c);        /* of a SUM */
/* What is cut along one axis cut along another, by all-to-all; can it be? */
bool cut_recuts(const struct rewriter *w, ir_type whole, struct cut from, struct cut to);
struct ir_value *cut_recut(struct rewriter *w, struct ir_value *part, struct cut from, struct cut to);
/* This rank's first index of an axis that is cut in one block of parts of that size: i64[]. */
struct ir_value *cut_offset(struct rewriter *w, ir_expr size);
/* The part of what is `whole` with padding that a reduction to `kind` can add up or compare; itself where there is
 * none. */
struct ir_value *cut_neutral(struct rewriter *w, struct ir_value *part, ir_type whole, struct cut c,
                             enum cut_kind kind);

static inline double
cut_bytes(const struct ir_value *v)
{
    return pass_bytes(&(struct pass_sizes){0}, v->type);
}

#endif
