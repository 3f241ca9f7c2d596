/* SPDX-License-Identifier: Apache-2.0 */
/* attention.h - the parts of an attention kernel: for templates that don't hold a row's scores whole. */
#ifndef TCC_EMIT_ATTENTION_H
#define TCC_EMIT_ATTENTION_H

#include "compiler/emit/emit.h"

/* What a score is, where a target computes it otherwise. */
struct em_score {
    int compare;                         /* does the query see the key? Of causal attention; -1: it sees all */
    bool plain;                          /* the product times `scale`, a positive number, and nothing else */
    double scale;
};

struct em_attention {
    int dot, top, sum, mean;             /* reductions */
    int clamped;                         /* the row's maximum, bounded: what stage AT_CLAMP computes */
    int val_q, val_k, val_v;             /* factors: the loads, or words of one operand of them */
    int load_q, load_k, load_v;
    int score;                           /* value that stage AT_SCORE stores */
    struct em_score is;
    int t, d, e, row;                    /* dims; row -1: a single one */
    ir_expr keys;                        /* keys that a row may look at, or NULL: all */
    /* the stage that stores the rows' logarithms; 0: none. Alone (attention_lse): mean and e are -1 */
    int lse;
};
enum { AT_DOT, AT_SCORE, AT_TOP, AT_CLAMP, AT_WEIGHTS, AT_MEAN, AT_LAST, AT_STAGES };
/* False: the kernel is none of these. */
bool em_attention_roles(struct ir_ctx *ctx, const struct kn_kernel *k, struct em_attention *a);

/*
 * A gradient's kernel, of as many rows (queries, by k: keys) as the outer dim has, over columns (keys, by k: queries):
 * weights are made of the products of two sides of rows, q and dy, with two of columns, k and v (by k: k and v with q
 * and dy), and columns summed by them.
 */
struct em_attention_grad {
    int dot[2];                          /* products */
    /* values of the weights stage and sums by them: of the first columns' side, and the second's; -1: none */
    int weight[2], sum[2];
    int val_row[2], val_col[2], load_row[2], load_col[2];
    int row, col, d, e;                  /* dims; row -1: a single one */
    int last[2];                         /* stages that store the sums */
    /* in the weights' stage: the weight, score - lse, of which it is the exponential, and lse; -1: not found */
    int exp, less, lse;
    struct em_score is;
    ir_expr from, to;                    /* columns that a row may look at; NULL: from the first, to the last */
};
enum { AT_GRAD_DOT, AT_GRAD_DOT2, AT_GRAD_WEIGHTS, AT_GRAD_SUM, AT_GRAD_LAST, AT_GRAD_SUM2, AT_GRAD_LAST2 };
/* False: the kernel is none of these. */
bool em_attention_grad_roles(struct ir_ctx *ctx, const struct kn_kernel *k, struct em_attention_grad *a);

#endif
