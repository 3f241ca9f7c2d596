/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tree ensembles: the tables of runtime/trees.h. A tree's nodes stand in the order of breadth first search, both
 * branches of a node side by side; one that several branches lead to stands once for each.
 */
#include "compiler/onnx/tree_int.h"

#include "runtime/trees.h"

#include <math.h>
#include <string.h>

struct layout {
    const struct tree_forest *f;
    struct tree_columns_made columns;
    int64_t *nodes;
    int64_t *from;  /* which of f's nodes stands there */
    int32_t *depth; /* of the node in its tree */
    int64_t n, cap;
    int32_t *trees, *leaves;
    int64_t *small, nsmall, nleaves;
    int32_t *shares; /* of the leaves in their order */
    double *weights;
    int64_t nshares;
    int32_t *seen; /* of f's nodes: 0 not yet, else the first share + 1, or -1 */
};

static int64_t biased(int rank)
{
    return (uint16_t)(int16_t)(rank - COLUMN_BIAS);
}

/* The leaf's shares, behind those of the leaves before it, or where they stand already. */
static bool put_leaf(struct layout *l, int64_t at, int64_t number)
{
    const struct tree_forest *f = l->f;
    int64_t node = l->from[at], i = f->nodes[node].first, first = l->nshares;
    l->nodes[at] = biased(COLUMN_CUTS_MOST) | number << NODE_COLUMN;
    for (; !l->seen[node] && i >= 0 && i < f->nshares && f->shares[i].node == node; i++) {
        l->weights[l->nshares] = f->shares[i].weight;
        l->shares[2 * l->nshares++] = (int32_t)f->shares[i].target;
    }
    for (int64_t s = first; s < l->nshares; s++)
        l->shares[2 * s + 1] = (int32_t)(l->nshares - 1 - s);
    if (!l->seen[node])
        l->seen[node] = l->nshares > first ? (int32_t)first + 1 : -1;
    l->leaves[l->nleaves++] = l->seen[node] > 0 ? l->seen[node] - 1 : -1;
    return number <= NODE_MOST || imp_unsupported(f->im, "a tree of more than 2^24 leaves");
}

static bool put_branches(struct layout *l, int64_t at)
{
    const struct tree_node *n = &l->f->nodes[l->from[at]];
    struct tree_place p = tree_place_of(&l->columns, n);
    if (l->n + 2 > l->cap)
        return imp_bad(l->f->im, "a tree runs in a circle, or its branches meet");
    if (l->n - at > NODE_MOST)
        return imp_unsupported(l->f->im, "a tree of more than 2^24 nodes");
    l->nodes[at] = biased(p.rank) | p.column << NODE_COLUMN | (int64_t)((uint64_t)(l->n - at) << NODE_AHEAD);
    l->from[l->n] = p.exchanged ? n->no : n->yes;
    l->from[l->n + 1] = p.exchanged ? n->yes : n->no;
    l->depth[l->n] = l->depth[l->n + 1] = l->depth[at] + 1;
    l->n += 2;
    return true;
}

/* What a branch to the node at `at` is called in a small tree, whose nodes without leaves are numbered so. */
static int64_t small_number(const struct layout *l, const int32_t *numbers, int64_t root, int64_t at, int64_t inner)
{
    uint64_t node = (uint64_t)l->nodes[at];
    return node >> NODE_AHEAD ? numbers[at - root] : inner + (int64_t)(node >> NODE_COLUMN);
}

static void put_small(struct layout *l, int64_t root, int32_t *tree)
{
    int32_t numbers[2 * SMALL_LEAVES];
    int64_t inner = tree[TREE_LEAVES] - 1, k = 0;
    if (tree[TREE_LEAVES] < 2 || tree[TREE_LEAVES] > SMALL_LEAVES)
        return;
    tree[TREE_SMALL] = (int32_t)l->nsmall;
    for (int64_t at = root; at < l->n; at++)
        if ((uint64_t)l->nodes[at] >> NODE_AHEAD)
            numbers[at - root] = (int32_t)k++;
    for (int64_t at = root; at < l->n; at++) {
        int64_t ahead = (int64_t)((uint64_t)l->nodes[at] >> NODE_AHEAD);
        if (ahead)
            l->small[l->nsmall++] = (l->nodes[at] & (((int64_t)1 << NODE_AHEAD) - 1)) |
                                    small_number(l, numbers, root, at + ahead, inner) << SMALL_YES |
                                    small_number(l, numbers, root, at + ahead + 1, inner) << SMALL_NO;
    }
}

/* Do the tree's leaves share in one target only, once each and in order? */
static void put_target(const struct layout *l, int32_t *tree)
{
    const int32_t *leaves = l->leaves + tree[TREE_FIRST_LEAF];
    tree[TREE_FIRST_SHARE] = leaves[0];
    tree[TREE_TARGET] = leaves[0] < 0 ? 0 : l->shares[2 * leaves[0]];
    for (int64_t i = 0; i < tree[TREE_LEAVES] && tree[TREE_FIRST_SHARE] >= 0; i++)
        if (leaves[i] != leaves[0] + i || l->shares[2 * leaves[i] + 1] || l->shares[2 * leaves[i]] != tree[TREE_TARGET])
            tree[TREE_FIRST_SHARE] = -1;
}

static bool put_tree(struct layout *l, int64_t t)
{
    int32_t *tree = l->trees + t * TREE_WORDS;
    int64_t root = l->n, first = l->nleaves;
    if (l->n == l->cap)
        return imp_bad(l->f->im, "a tree runs in a circle, or its branches meet");
    l->from[l->n] = l->f->roots[t];
    l->depth[l->n++] = 0;
    for (int64_t at = root; at < l->n; at++) {
        if (!(l->f->nodes[l->from[at]].mode == LEAF ? put_leaf(l, at, l->nleaves - first) : put_branches(l, at)))
            return false;
        tree[TREE_DEPTH] = l->depth[at];
    }
    tree[TREE_ROOT] = (int32_t)root;
    tree[TREE_LEAVES] = (int32_t)(l->nleaves - first);
    tree[TREE_FIRST_LEAF] = (int32_t)first;
    tree[TREE_SMALL] = -1;
    put_small(l, root, tree);
    put_target(l, tree);
    return true;
}

static struct ir_value *table(const struct tree_forest *f, enum tcc_dtype dtype, int64_t n, int64_t width,
                              const void *data)
{
    struct ir_tensor *t = ir_tensor_new(dtype, width ? 2 : 1, (int64_t[]){n, width});
    if (!t)
        ir_no_memory(f->im->ctx);
    if (t->bytes)
        memcpy((void *)(uintptr_t)t->data, data, (size_t)t->bytes);
    return imp_const(f->im, t);
}

/* Doubles, or floats where they are, or all of them are. */
static struct ir_value *numbers(const struct tree_forest *f, int64_t n, const double *v, bool narrow)
{
    float *floats = IR_NEWN(f->im->ctx, n, float);
    for (int64_t i = 0; i < n; i++)
        floats[i] = (float)v[i];
    return narrow ? table(f, TCC_F32, n, 0, floats) : table(f, TCC_F64, n, 0, v);
}

static bool all_floats(const double *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isnan(v[i]) && (double)(float)v[i] != v[i])
            return false;
    return true;
}

bool tree_tables(const struct tree_forest *f, enum tcc_dtype x, struct ir_value **to)
{
    struct ir_ctx *ctx = f->im->ctx;
    struct layout l = {.f = f, .cap = 3 * f->nnodes + 1};
    if (!tree_columns_make(f, x == TCC_F32, &l.columns))
        return false;
    l.nodes = IR_NEWN(ctx, l.cap, int64_t);
    l.from = IR_NEWN(ctx, l.cap, int64_t);
    l.depth = IR_NEWN(ctx, l.cap, int32_t);
    l.small = IR_NEWN(ctx, l.cap, int64_t);
    l.leaves = IR_NEWN(ctx, l.cap, int32_t);
    l.trees = IR_NEWN(ctx, f->nroots * TREE_WORDS + 1, int32_t);
    l.shares = IR_NEWN(ctx, 2 * f->nshares + 2, int32_t);
    l.weights = IR_NEWN(ctx, f->nshares + 1, double);
    l.seen = IR_NEWN(ctx, f->nnodes + 1, int32_t);
    for (int64_t t = 0; t < f->nroots; t++)
        if (!put_tree(&l, t))
            return false;
    l.nshares += !l.nshares; /* one that no leaf names: an empty operand is none */
    to[0] = table(f, TCC_I32, l.columns.ncolumns, COLUMN_WORDS, l.columns.columns);
    to[1] = numbers(f, l.columns.ncuts, l.columns.cuts, x == TCC_F32);
    to[2] = table(f, TCC_I64, l.n, 0, l.nodes);
    to[3] = table(f, TCC_I32, f->nroots, TREE_WORDS, l.trees);
    to[4] = l.nsmall ? table(f, TCC_I64, l.nsmall, 0, l.small) : NULL;
    to[5] = table(f, TCC_I32, l.nleaves, 0, l.leaves);
    to[6] = table(f, TCC_I32, l.nshares, 2, l.shares);
    to[7] = numbers(f, l.nshares, l.weights, all_floats(l.weights, l.nshares));
    for (int i = 0; i < TREE_TABLES; i++)
        if (!to[i] && i != 4)
            return false;
    return true;
}
