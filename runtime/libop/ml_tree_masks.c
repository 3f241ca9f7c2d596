/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trees of few leaves, for rows side by side, without a walk: each row has a bit for each leaf that it may still come
 * to, numbered in the tables' order (the yes branch first). Every node is compared, and where its comparison does not
 * hold, the leaves of its yes branch are cleared: the first leaf that is left is the row's. No load waits for another,
 * and rows are the lanes of vectors. After QuickScorer (Lucchese et al., SIGIR 2015, section 3), which reads nodes by
 * feature and stops early; with few leaves and all rows at once, that saves nothing.
 */
#include <string.h>

#include "runtime/libop/ml_tree_int.h"
#include "runtime/rt_int.h"
#include "runtime/trees.h"

enum { WORDS = TREE_LEAVES / 32 };

/* The tree's leaves: those before the no branch of the nodes from the root down along no, and the last one. 0: not
 * counted, or more than TREE_LEAVES. */
static int leaves_of(const int32_t *nodes, int64_t nnodes, int64_t root)
{
    int64_t leaves = 1, i = root;

    for (;;) {
        const int32_t *node;
        int64_t no;

        if (i < 0 || i >= nnodes)
            return 0;
        node = nodes + i * TREE_WORDS;
        no = node[TREE_NO];
        if (no == i)
            return (int)leaves;
        if (no < i || node[TREE_LEAF] < 1 || (leaves += node[TREE_LEAF]) > TREE_LEAVES)
            return 0;
        i = no;
    }
}

/* Rows whose comparison does not hold lose the leaves that `mask` has not. `mode` and `nan` are constants where this is
 * inlined. */
static inline __attribute__((always_inline)) void clear(uint32_t *restrict left, const float *restrict x, float split,
                                                        uint32_t mask, int mode, bool nan, bool nan_yes)
{
    for (int k = 0; k < TREE_ROWS; k++) {
        bool yes = (mode == TREE_LEQ ? x[k] <= split : x[k] < split) | (nan && nan_yes && x[k] != x[k]);

        left[k] &= yes ? ~(uint32_t)0 : mask;
    }
}

static inline __attribute__((always_inline)) bool compare(const int32_t *nodes, int64_t nnodes, int64_t root, int count,
                                                          int mode, bool nan, const float *columns, int64_t width,
                                                          int64_t *leaves)
{
    uint32_t left[WORDS][TREE_ROWS];
    int64_t place[TREE_LEAVES];
    int seen = 0;

    if (root + 2 * (int64_t)count - 1 > nnodes)
        return false;
    memset(left, 0xff, sizeof left);
    for (int64_t i = root; i < root + 2 * count - 1; i++) {
        const int32_t *node = nodes + i * TREE_WORDS;
        int32_t test = node[TREE_TEST], behind = node[TREE_LEAF];
        int64_t feature = test & ((1 << TREE_MODE_SHIFT) - 1);
        uint64_t mask;
        float split;

        if (node[TREE_NO] == i) {
            if (seen == count)
                return false;
            place[seen++] = i;
            continue;
        }
        if (feature >= width || behind < 1 || behind >= count)
            return false;
        memcpy(&split, &node[TREE_SPLIT], sizeof split);
        mask = ~((~(uint64_t)0 >> (64 - behind)) << (seen & 63));
        for (int w = 0; w < WORDS; w++)
            if ((uint32_t)(mask >> 32 * w) != ~(uint32_t)0)
                clear(left[w], columns + feature * TREE_ROWS, split, (uint32_t)(mask >> 32 * w), mode, nan,
                      (test & TREE_NAN_YES) != 0);
    }
    if (seen != count)
        return false;
    for (int k = 0; k < TREE_ROWS; k++) {
        uint64_t all = left[0][k] | (uint64_t)left[1][k] << 32;
        int first = all ? __builtin_ctzll(all) : 0;

        leaves[k] = place[first < count ? first : 0];
    }
    return true;
}

typedef bool compare_fn(const int32_t *nodes, int64_t nnodes, int64_t root, int count, int mode, bool nan,
                        const float *columns, int64_t width, int64_t *leaves);

#define COMPARE(suffix, attribute)                                                                                  \
    attribute static bool compare_##suffix(const int32_t *nodes, int64_t nnodes, int64_t root, int count, int mode, \
                                           bool nan, const float *columns, int64_t width, int64_t *leaves)          \
    {                                                                                                               \
        if (mode == TREE_LEQ)                                                                                       \
            return nan ? compare(nodes, nnodes, root, count, TREE_LEQ, true, columns, width, leaves)                \
                       : compare(nodes, nnodes, root, count, TREE_LEQ, false, columns, width, leaves);              \
        return nan ? compare(nodes, nnodes, root, count, TREE_LT, true, columns, width, leaves)                     \
                   : compare(nodes, nnodes, root, count, TREE_LT, false, columns, width, leaves);                   \
    }

COMPARE(plain, )
#ifdef __x86_64__
COMPARE(v3, __attribute__((target("avx2"))))
COMPARE(v4, __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq"))))
#endif

static compare_fn *best(void)
{
#ifdef __x86_64__
    char missing[64];

    if (tcr_cpu_runs("x86-64-v4", missing, sizeof missing))
        return compare_v4;
    if (tcr_cpu_runs("x86-64-v3", missing, sizeof missing))
        return compare_v3;
#endif
    return compare_plain;
}

bool lib_tree_leaves(const int32_t *nodes, int64_t nnodes, int64_t root, int mode, bool nan, const float *columns,
                     int64_t width, int64_t leaves[TREE_ROWS])
{
    static compare_fn *_Atomic known;
    compare_fn *fn = known;
    int count = leaves_of(nodes, nnodes, root);

    if (!count)
        return false;
    if (!fn)
        known = fn = best();
    return fn(nodes, nnodes, root, count, mode, nan, columns, width, leaves);
}
