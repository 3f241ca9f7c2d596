/* SPDX-License-Identifier: Apache-2.0 */
/* ml_tree_int.h - the parts of the tree ensembles: ranks of a chunk of rows (ml_tree_rank.c), the leaves they come to
 * in a small tree (ml_tree_small.c), and what adds up (ml_tree.c). */
#ifndef TCC_RUNTIME_LIBOP_ML_TREE_INT_H
#define TCC_RUNTIME_LIBOP_ML_TREE_INT_H

#include <stdbool.h>
#include <stdint.h>

enum { TREE_ROWS = 32 }; /* of a chunk */

struct tree_columns {
    const int32_t *columns;
    int64_t ncolumns, ncuts, width; /* features of a row */
    const float *cuts;              /* of rows of f32; or */
    const double *wide_cuts;
};

/* The ranks of `rows` <= TREE_ROWS rows: to[column * stride + row], those of missing rows whatever. `x`: the first row,
 * of the type of the cuts. False: a column has a feature or cuts that do not exist; nothing outside is read. */
bool lib_tree_ranks(const struct tree_columns *c, const void *x, int64_t rows, int64_t stride, int16_t *to);

/* The number of the leaf that each of TREE_ROWS rows comes to in a tree of `leaves` leaves, 2 to SMALL_LEAVES: its
 * nodes[leaves - 1] are those of trees.h. `ranks` i16[ncolumns, TREE_ROWS]. Safe for any nodes; numbers are below
 * `leaves`. */
void lib_tree_small(const int64_t *nodes, int leaves, const int16_t *ranks, int64_t ncolumns,
                    int32_t numbers[TREE_ROWS]);

/* Which forms of a function this processor runs: 0 any, 1 x86-64-v3, 2 x86-64-v4. */
int lib_tree_level(void);

#endif
