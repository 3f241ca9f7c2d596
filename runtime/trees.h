/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trees.h - the tables of a tree ensemble, which importers write and the library ops tree_ensemble and
 * tree_ensemble_classifier read where they lie: nothing is made of them when the model runs.
 *
 * nodes    i32[n, TREE_WORDS]. The branch taken where the comparison holds is the next node; the other, TREE_NO, comes
 *          later still. A leaf's TREE_NO is itself, and it compares with NaN, so that whoever arrives stays.
 * trees    i32[t], the roots
 * shares   i32[s, 2] {target, how many more of this leaf follow}; TREE_LEAF names a leaf's first (-1: none). Of another
 *          node it counts the leaves behind its comparison's yes (-1: not counted), which stand in front of those
 *          behind its no.
 * weights  f32[s] or f64[s]
 * splits   f64[n], instead of TREE_SPLIT, where not all are floats; or omitted
 * members  f64[m], sets, each ended by NaN; or omitted. A node of mode TREE_MEMBER has the place of its set in
 *          TREE_SPLIT.
 */
#ifndef TCC_TREES_H
#define TCC_TREES_H

enum {
    TREE_TEST,          /* feature | mode << TREE_MODE_SHIFT | TREE_NAN_YES: NaN takes the next node */
    TREE_NO,
    TREE_SPLIT,         /* the bits of a float */
    TREE_LEAF,
    TREE_WORDS,
    TREE_MODE_SHIFT = 27,
    TREE_NAN_YES = 1 << 30
};

/* x and the split; GT and GTE are LEQ and LT with the branches exchanged. */
enum { TREE_LEQ, TREE_LT, TREE_EQ, TREE_NEQ, TREE_MEMBER, TREE_MIXED };

#endif
