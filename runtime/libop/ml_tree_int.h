/* SPDX-License-Identifier: Apache-2.0 */
/* ml_tree_int.h - trees of few leaves, for many rows at a time; see ml_tree_masks.c. */
#ifndef TCC_RUNTIME_LIBOP_ML_TREE_INT_H
#define TCC_RUNTIME_LIBOP_ML_TREE_INT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TREE_ROWS = 32,  /* that are compared together */
    TREE_LEAVES = 64 /* at most, of such a tree */
};

/* The leaf that each row comes to. `nodes` is the table of trees.h, all of whose nodes have `mode` (TREE_LEQ or
 * TREE_LT), with TREE_NAN_YES somewhere if `nan`; `columns` f32[width, TREE_ROWS]. False: the tree at `root` has too
 * many leaves or none, they are not counted, or the table is wrong; then nothing is said. Safe for any table. */
bool lib_tree_leaves(const int32_t *nodes, int64_t nnodes, int64_t root, int mode, bool nan, const float *columns,
                     int64_t width, int64_t leaves[TREE_ROWS]);

#endif
