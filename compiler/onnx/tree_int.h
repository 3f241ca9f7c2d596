/* SPDX-License-Identifier: Apache-2.0 */
/* tree_int.h - a tree ensemble between what the operators' attributes say (op_tree.c) and the tables of runtime/trees.h
 * (tree_tables.c, what nodes compare in tree_columns.c). */
#ifndef TCC_COMPILER_ONNX_TREE_INT_H
#define TCC_COMPILER_ONNX_TREE_INT_H

#include "compiler/onnx/import_int.h"

enum tree_mode { LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, LEAF }; /* as TreeEnsemble numbers them */

struct tree_node {
    int mode;
    bool nan_yes;
    int64_t feature, yes, no;
    double split;
    int64_t first; /* LEAF: place of its first share, -1: none; MEMBER: of its set */
};

struct tree_share {
    int64_t node, target, order;
    double weight;
};

struct tree_forest {
    struct imp *im;
    int64_t nnodes, nroots, nshares, ntargets, nmembers;
    struct tree_node *nodes;
    int64_t *roots;
    struct tree_share *shares; /* by node */
    double *members;           /* sets, each ended by NaN */
};

/* Where a node finds its answer: its yes branch is taken by ranks of the column up to `rank`. */
struct tree_place {
    int64_t column;
    int rank;
    bool exchanged; /* its branches are */
};

struct tree_columns_made {
    const struct tree_forest *f;
    bool narrow; /* x is of floats */
    int64_t nkeys, ncolumns, ncuts;
    struct tree_key *keys; /* in order */
    int32_t *columns;
    double *cuts;
};

/* The columns that the nodes ask for; at least one, with a cut. False after a message. */
bool tree_columns_make(const struct tree_forest *f, bool narrow, struct tree_columns_made *c);
struct tree_place tree_place_of(const struct tree_columns_made *c, const struct tree_node *n);

enum { TREE_TABLES = 8 };

/* The tables as constants, the library op's operands behind x, in order; NULL for one that is not needed. x has
 * elements of that type. False after a message. */
bool tree_tables(const struct tree_forest *f, enum tcc_dtype x, struct ir_value **to);

#endif
