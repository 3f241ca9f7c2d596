/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trees.h - the tables of a tree ensemble, which importers write and the library ops tree_ensemble and
 * tree_ensemble_classifier read where they lie: nothing is made of them when the model runs.
 *
 * All comparisons are of small integers. A *column* is made of a feature: the rank of its value among the splits that
 * nodes compare it with, or whether it is in a set. How a node compares (<=, <, ==, whether it is true of NaN) is its
 * column's affair, so that every node asks the same: is the rank above mine? Then its no branch is taken.
 *
 * columns  i32[c, COLUMN_WORDS]
 * cuts     f32[m] (x is f32) or f64[m]: those of a column ascend, at most COLUMN_CUTS_MOST of them
 * nodes    i64[n], a tree's together, its root first; see NODE_*
 * trees    i32[t, TREE_WORDS]
 * small    i64[k]: the nodes without the leaves of trees of at most SMALL_LEAVES leaves, parents first; see SMALL_*
 * leaves   i32[l]: a leaf's first share; -1: none
 * shares   i32[s, 2] {target, how many more of this leaf follow}
 * weights  f32[s] or f64[s]
 */
#ifndef TCC_TREES_H
#define TCC_TREES_H

enum { COLUMN_FEATURE, COLUMN_FLAGS, COLUMN_FIRST, COLUMN_CUTS, COLUMN_WORDS };

/* The rank: how many cuts are below the value, COLUMN_LT: below it or equal to it; COLUMN_SET: 0 of a member, else 1.
 * NaN has the highest rank, COLUMN_NAN_YES: the lowest. 32,768 is subtracted from all ranks. */
enum { COLUMN_LT = 1, COLUMN_NAN_YES = 2, COLUMN_SET = 4, COLUMN_CUTS_MOST = 65535, COLUMN_BIAS = 32768 };

/* A node, from the lowest bit: 16 bits the rank that those of the yes branch don't exceed; 24 bits the column; 24 bits
 * how far behind the node its yes branch stands, with the no branch next to it. Of a leaf that is 0, its rank the
 * highest, so that whoever arrives stays, and its column is its number in the tree. */
enum { NODE_COLUMN = 16, NODE_AHEAD = 40, NODE_MOST = (1 << 24) - 1 };

/* The longest way from the root to a leaf; the tree's first leaf in `leaves`, and node in `small`, -1: none; where all
 * leaves have one share each, of the same target, in their order: the first, else -1, and that target. */
enum {
    TREE_ROOT,
    TREE_DEPTH,
    TREE_LEAVES,
    TREE_FIRST_LEAF,
    TREE_SMALL,
    TREE_FIRST_SHARE,
    TREE_TARGET,
    TREE_WORDS
};

/* As a node, but with 8 bits for each branch: the number of that node in `small`, counted from the tree's first, or,
 * of leaf l, how many those are and l. */
enum { SMALL_YES = 40, SMALL_NO = 48, SMALL_LEAVES = 128 };

#endif
