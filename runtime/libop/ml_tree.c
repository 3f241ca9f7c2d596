/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ai.onnx.ml's tree ensembles, from the tables of trees.h.
 *
 * Rows go through in chunks, whose values become ranks first. A walk from a root to a leaf waits for each node in turn,
 * so LANES walks go side by side: rows in the same tree, or trees of the same row where rows are few. Of a small tree
 * nobody walks where rows are many: ml_tree_small.c compares at all of its nodes. Trees are taken in blocks that a
 * cache holds, a block's sums are added in the order of blocks: the bits are the same however many threads there are,
 * and however many rows. What a table says is checked where it is used.
 */

#include "runtime/libop/libop_int.h"
#include "runtime/libop/ml_tree_int.h"
#include "runtime/trees.h"

enum aggregate { AVERAGE, SUM, MIN, MAX };
enum {
    LANES = 8,
    BLOCK = 128,      /* trees whose sums are added first */
    ROWS = TREE_ROWS, /* that go through a block together */
    TARGETS = 8,      /* of a row whose sums are added up on the stack */
    WAVE = 1 << 19,   /* sums that are kept at a time */
    RANKS = 1 << 22   /* and ranks */
};

struct forest {
    struct tree_columns columns;
    const int64_t *nodes, *small;
    const int32_t *trees, *leaves, *shares;
    const float *weights; /* or */
    const double *wide_weights;
    int64_t nnodes, nsmall, ntrees, nleaves, nshares, ntargets, nblocks;
    enum aggregate how;
};

/* The rows: as they are where they have the type of the cuts, else converted to double. */
struct rows {
    const struct tcc_tensor *x;
    int64_t n, stride; /* stride: of a column of ranks, 1 or ROWS */
    double *converted; /* [n, width] of the wave, or NULL */
    int16_t *ranks;    /* [chunks, columns, stride] of the wave */
};

struct wave {
    const struct forest *f;
    const struct rows *rows;
    int64_t first, n; /* rows */
    double *sums;     /* [rows, blocks, targets] */
    bool *touched;    /* the same: has a leaf added something? */
    _Atomic bool wrong;
};

/* Where a block's sums of a chunk of rows are added up: the targets of its k-th row at k * step * targets. */
struct part {
    double *sums;
    bool *touched;
    int64_t step;
};

/* -- Walking -------------------------------------------------------------------------------------------------- */

/* The node behind node i, i itself of a leaf, by a row's ranks. Whatever the tables say, it is one of the nodes. */
static inline __attribute__((always_inline)) int64_t step(const struct forest *f, const int16_t *ranks, int64_t stride,
                                                          int64_t i)
{
    uint64_t node = (uint64_t)f->nodes[i], column = node >> NODE_COLUMN & NODE_MOST;
    int64_t rank = ranks[(column < (uint64_t)f->columns.ncolumns ? column : 0) * (uint64_t)stride],
            next = i + (int64_t)(node >> NODE_AHEAD) + (rank > (int16_t)node);

    return next < f->nnodes ? next : i;
}

/* Takes each lane from the node at[k] to its leaf: `depth` steps, or until no lane moves. The lanes' ranks are `apart`
 * from each other: 0 of one row, 1 of as many. It and `stride` are constants where this is inlined. */
static inline __attribute__((always_inline)) void walk(const struct forest *f, const int16_t *ranks, int64_t stride,
                                                       int apart, int64_t depth, int64_t *at)
{
    for (int64_t moved = 1; moved && depth > 0; depth--) {
        moved = 0;
#pragma GCC unroll 8
        for (int k = 0; k < LANES; k++) {
            int64_t next = step(f, ranks + k * apart, stride, at[k]);

            moved |= next ^ at[k];
            at[k] = next;
        }
    }
}

/* The tree, if its parts are there. */
static const int32_t *tree_of(const struct forest *f, int64_t t)
{
    const int32_t *tree = f->trees + t * TREE_WORDS;

    return tree[TREE_ROOT] >= 0 && tree[TREE_ROOT] < f->nnodes && tree[TREE_LEAVES] > 0 && tree[TREE_FIRST_LEAF] >= 0 &&
                   (int64_t)tree[TREE_FIRST_LEAF] + tree[TREE_LEAVES] <= f->nleaves
               ? tree
               : NULL;
}

/* The nodes of a small tree, or NULL. */
static const int64_t *small_of(const struct forest *f, const int32_t *tree)
{
    int64_t first = tree[TREE_SMALL], leaves = tree[TREE_LEAVES];

    return first >= 0 && leaves >= 2 && leaves <= SMALL_LEAVES && first + leaves - 1 <= f->nsmall ? f->small + first
                                                                                                  : NULL;
}

/* -- Adding up ------------------------------------------------------------------------------------------------ */

/* `touched`: of the least and the greatest, has anything come before? */
static void add(const struct forest *f, double *sum, bool *touched, double w)
{
    if (f->how == MIN || f->how == MAX)
        *sum = !*touched || (f->how == MIN ? w < *sum : w > *sum) ? w : *sum;
    else
        *sum += w;
    *touched = true;
}

/* Adds the shares of the tree's leaf of that number to the sums of the chunk's row k. */
static inline bool add_leaf(const struct forest *f, const int32_t *tree, int64_t number, int64_t k,
                            const struct part *p)
{
    int64_t i = f->leaves[tree[TREE_FIRST_LEAF] + number];
    double *sums = p->sums + k * p->step * f->ntargets;
    bool *touched = p->touched + k * p->step * f->ntargets;

    if (i < 0)
        return true;
    do {
        int32_t target;

        if (i >= f->nshares || (target = f->shares[2 * i]) < 0 || target >= f->ntargets)
            return false;
        add(f, &sums[target], &touched[target], f->weights ? (double)f->weights[i] : f->wide_weights[i]);
    } while (f->shares[2 * i++ + 1] > 0);
    return true;
}

/* The ranks of the wave's chunk `item`. */
static void fill_ranks(void *arg, int64_t item)
{
    struct wave *w = arg;
    const struct rows *r = w->rows;
    int64_t width = w->f->columns.width, from = item * ROWS, n = w->n - from < ROWS ? w->n - from : ROWS;
    size_t element = r->converted || !w->f->columns.cuts ? sizeof(double) : sizeof(float);
    const char *x = r->converted ? (const char *)(r->converted + from * width)
                                 : (const char *)r->x->data + (size_t)((w->first + from) * width) * element;

    if (!lib_tree_ranks(&w->f->columns, x, n, r->stride, r->ranks + from * w->f->columns.ncolumns))
        w->wrong = true;
}

/* Of the tree whose lane came to node `at`. */
static inline int64_t leaf_number(const struct forest *f, const int32_t *tree, int64_t at)
{
    uint64_t leaf = (uint64_t)f->nodes[at], number = leaf >> NODE_COLUMN & NODE_MOST;

    return leaf >> NODE_AHEAD || number >= (uint64_t)tree[TREE_LEAVES] ? -1 : (int64_t)number;
}

/* Lanes are trees of a row; idle ones do what the last one does. */
static bool walk_trees(const struct wave *w, const struct part *p, const int16_t *ranks, int64_t row, int64_t first,
                       int64_t trees)
{
    const struct forest *f = w->f;

    for (int64_t i = 0; i < trees; i += LANES) {
        const int32_t *tree[LANES];
        int64_t at[LANES], depth = 0;

        for (int64_t k = 0; k < LANES; k++) {
            if (!(tree[k] = tree_of(f, first + (i + k < trees ? i + k : trees - 1))))
                return false;
            at[k] = tree[k][TREE_ROOT];
            depth = tree[k][TREE_DEPTH] > depth ? tree[k][TREE_DEPTH] : depth;
        }
        if (w->rows->stride == 1)
            walk(f, ranks + row, 1, 0, depth, at);
        else
            walk(f, ranks + row, ROWS, 0, depth, at);
        for (int64_t k = 0; k < LANES && i + k < trees; k++) {
            int64_t number = leaf_number(f, tree[k], at[k]);

            if (number < 0 || !add_leaf(f, tree[k], number, row, p))
                return false;
        }
    }
    return true;
}

/* Lanes are rows: the numbers of the leaves that they come to in a tree. */
static bool walk_rows(const struct wave *w, const int32_t *tree, const int16_t *ranks, int64_t rows, int32_t *numbers)
{
    for (int64_t i = 0; i < rows; i += LANES) {
        int64_t at[LANES];

        for (int k = 0; k < LANES; k++)
            at[k] = tree[TREE_ROOT];
        walk(w->f, ranks + i, ROWS, 1, tree[TREE_DEPTH], at);
        for (int k = 0; k < LANES; k++) {
            int64_t number = leaf_number(w->f, tree, at[k]);

            if (number < 0)
                return false;
            numbers[i + k] = (int32_t)number;
        }
    }
    return true;
}

/* What the leaves of a tree add to the sums of the chunk's rows. */
static bool add_leaves(const struct forest *f, const int32_t *tree, const int32_t *numbers, int64_t rows,
                       const struct part *p)
{
    int64_t first = tree[TREE_FIRST_SHARE], target = tree[TREE_TARGET], step = p->step * f->ntargets;
    double *sums = p->sums + target;

    if (first < 0 || f->how == MIN || f->how == MAX) {
        for (int64_t k = 0; k < rows; k++)
            if (!add_leaf(f, tree, numbers[k], k, p))
                return false;
        return true;
    }
    if (first + tree[TREE_LEAVES] > f->nshares || target < 0 || target >= f->ntargets)
        return false;
    for (int64_t k = 0; f->weights && k < rows; k++)
        sums[k * step] += (double)f->weights[first + numbers[k]];
    for (int64_t k = 0; !f->weights && k < rows; k++)
        sums[k * step] += f->wide_weights[first + numbers[k]];
    return true;
}

/* Trees [first, first + trees) for the chunk's `rows` rows. */
static bool add_block(const struct wave *w, const struct part *p, const int16_t *ranks, int64_t rows, int64_t first,
                      int64_t trees)
{
    const struct forest *f = w->f;

    for (int64_t k = 0; rows < LANES && k < rows; k++)
        if (!walk_trees(w, p, ranks, k, first, trees))
            return false;
    for (int64_t t = first; rows >= LANES && t < first + trees; t++) {
        const int32_t *tree = tree_of(f, t);
        const int64_t *small = tree ? small_of(f, tree) : NULL;
        int32_t numbers[ROWS];

        if (!tree)
            return false;
        if (small && tree[TREE_LEAVES] <= rows * tree[TREE_DEPTH]) /* all nodes, or the way of each row */
            lib_tree_small(small, tree[TREE_LEAVES], ranks, f->columns.ncolumns, numbers);
        else if (!walk_rows(w, tree, ranks, rows, numbers))
            return false;
        if (!add_leaves(f, tree, numbers, rows, p))
            return false;
    }
    return true;
}

/* One block of trees for one chunk of rows. Few targets are added up on the stack: in the wave's sums, the next
 * block's, which another thread may be adding up, lie beside them. */
static void run_block(void *arg, int64_t item)
{
    struct wave *w = arg;
    const struct forest *f = w->f;
    int64_t block = item % f->nblocks, from = item / f->nblocks * ROWS,
            place = (from * f->nblocks + block) * f->ntargets;
    int64_t rows = w->n - from < ROWS ? w->n - from : ROWS;
    int64_t first = block * BLOCK, trees = f->ntrees - first < BLOCK ? f->ntrees - first : BLOCK;
    double sums[ROWS * TARGETS] = {0};
    bool touched[ROWS * TARGETS] = {false}, few = f->ntargets <= TARGETS;
    struct part own = {sums, touched, 1}, all = {w->sums + place, w->touched + place, f->nblocks};

    if (!add_block(w, few ? &own : &all, w->rows->ranks + from * f->columns.ncolumns, rows, first, trees))
        w->wrong = true;
    for (int64_t k = 0; few && k < rows; k++)
        for (int64_t t = 0; t < f->ntargets; t++) {
            all.sums[k * f->nblocks * f->ntargets + t] = sums[k * f->ntargets + t];
            all.touched[k * f->nblocks * f->ntargets + t] = touched[k * f->ntargets + t];
        }
}

/* A row's sums over all blocks. */
static void finish_row(const struct wave *w, int64_t row, double *out)
{
    const struct forest *f = w->f;

    for (int64_t t = 0; t < f->ntargets; t++) {
        bool touched = false;

        out[t] = 0;
        for (int64_t b = 0; b < f->nblocks; b++) {
            int64_t i = (row * f->nblocks + b) * f->ntargets + t;

            if (w->touched[i] || (f->how != MIN && f->how != MAX))
                add(f, &out[t], &touched, w->sums[i]);
        }
        if (f->how == AVERAGE)
            out[t] /= (double)f->ntrees;
    }
}

/* What becomes of a row's sums. */
typedef int (*finish_fn)(struct tcc_lib_call *call, void *user, int64_t row, double *sums);

static void run_items(struct tcc_lib_call *call, int64_t n, void (*body)(void *arg, int64_t i), struct wave *w)
{
    if (call->host->each && n > 1)
        call->host->each(call, n, body, w);
    else
        for (int64_t i = 0; i < n; i++)
            body(w, i);
}

static int run_wave(struct tcc_lib_call *call, struct wave *w, double *sums, finish_fn finish, void *user)
{
    const struct rows *r = w->rows;
    int64_t width = w->f->columns.width, kept = w->n * w->f->nblocks * w->f->ntargets,
            items = (w->n + ROWS - 1) / ROWS * w->f->nblocks;
    int status = TCC_OK;

    memset(w->sums, 0, (size_t)kept * sizeof *w->sums);
    memset(w->touched, 0, (size_t)kept);
    for (int64_t i = 0; r->converted && i < w->n * width; i++)
        r->converted[i] = lib_get(r->x, w->first * width + i);
    run_items(call, (w->n + ROWS - 1) / ROWS, fill_ranks, w);
    if (!w->wrong)
        run_items(call, items, run_block, w);
    if (w->wrong)
        return LIB_FAIL(call, "a node, a column or a leaf names what does not exist");
    for (int64_t i = 0; i < w->n && !status; i++) {
        finish_row(w, i, sums);
        status = finish(call, user, w->first + i, sums);
    }
    return status;
}

/* Every row through the forest. `room`: how many numbers finish() needs in `sums`. */
static int run_forest(struct tcc_lib_call *call, const struct forest *f, struct rows *r, int64_t room, finish_fn finish,
                      void *user)
{
    int64_t each = f->nblocks * f->ntargets, columns = f->columns.ncolumns + 1, most = WAVE / each;
    bool convert = r->x->dtype != (f->columns.cuts ? TCC_F32 : TCC_F64);
    struct wave w = {.f = f, .rows = r};
    double *sums;
    int status = TCC_OK;

    most = most < RANKS / columns ? most : RANKS / columns;
    most = most > ROWS ? most / ROWS * ROWS : most > 0 ? most : 1;
    most = most < r->n ? most : r->n;
    r->stride = most == 1 ? 1 : ROWS;
    w.sums = malloc((size_t)(most * each + 1) * sizeof *w.sums);
    w.touched = malloc((size_t)(most * each + 1));
    r->converted = convert ? malloc((size_t)(most * f->columns.width + 1) * sizeof *r->converted) : NULL;
    r->ranks = malloc((size_t)((most + r->stride - 1) / r->stride * r->stride * columns + 1) * sizeof *r->ranks);
    sums = malloc((size_t)(room + 1) * sizeof *sums);
    if (!w.sums || !w.touched || !sums || !r->ranks || (convert && !r->converted))
        status = LIB_NO_MEMORY(call);
    for (; w.first < r->n && !status; w.first += most) {
        w.n = r->n - w.first < most ? r->n - w.first : most;
        status = run_wave(call, &w, sums, finish, user);
    }
    free(w.sums);
    free(w.touched);
    free(r->converted);
    free(r->ranks);
    free(sums);
    return status;
}

/* -- Operands ------------------------------------------------------------------------------------------------- */

static enum aggregate read_aggregate(struct tcc_lib_call *call)
{
    const char *name = lib_text(call, "aggregate_function", "SUM");

    return strcmp(name, "AVERAGE") == 0 ? AVERAGE
           : strcmp(name, "MIN") == 0   ? MIN
           : strcmp(name, "MAX") == 0   ? MAX
                                        : SUM;
}

enum { X, COLUMNS, CUTS, NODES, TREES, SMALL, LEAVES, SHARES, WEIGHTS };

/* A table of floats or doubles, which one it is. */
static int read_numbers(struct tcc_lib_call *call, int i, const float **narrow, const double **wide, int64_t *n)
{
    const struct tcc_tensor *t;
    int status = lib_need(call, i, 1, LIB_NUMBER, &t);

    if (status)
        return status;
    if (t->dtype != TCC_F32 && t->dtype != TCC_F64)
        return LIB_FAIL(call, "its tables do not fit together");
    *narrow = t->dtype == TCC_F32 ? t->data : NULL;
    *wide = t->dtype == TCC_F64 ? t->data : NULL;
    *n = t->dims[0];
    return TCC_OK;
}

static int read_tables(struct tcc_lib_call *call, struct forest *f)
{
    const struct tcc_tensor *columns, *nodes, *trees, *small = lib_in(call, SMALL), *leaves, *shares;
    int64_t nweights = 0;
    int status = lib_need(call, COLUMNS, 2, TCC_I32, &columns);

    status = status ? status : read_numbers(call, CUTS, &f->columns.cuts, &f->columns.wide_cuts, &f->columns.ncuts);
    status = status ? status : lib_need(call, NODES, 1, TCC_I64, &nodes);
    status = status ? status : lib_need(call, TREES, 2, TCC_I32, &trees);
    status = status ? status : lib_need(call, LEAVES, 1, TCC_I32, &leaves);
    status = status ? status : lib_need(call, SHARES, 2, TCC_I32, &shares);
    status = status ? status : read_numbers(call, WEIGHTS, &f->weights, &f->wide_weights, &nweights);
    if (status)
        return status;
    if (columns->dims[1] != COLUMN_WORDS || columns->dims[0] < 1 || trees->dims[1] != TREE_WORDS ||
        shares->dims[1] != 2 || nweights != shares->dims[0] || (small && (small->dtype != TCC_I64 || small->rank != 1)))
        return LIB_FAIL(call, "its tables do not fit together");
    f->columns.columns = columns->data;
    f->columns.ncolumns = columns->dims[0];
    f->nodes = nodes->data;
    f->trees = trees->data;
    f->small = small ? small->data : NULL;
    f->leaves = leaves->data;
    f->shares = shares->data;
    f->nnodes = nodes->dims[0];
    f->ntrees = trees->dims[0];
    f->nsmall = small ? small->dims[0] : 0;
    f->nleaves = leaves->dims[0];
    f->nshares = shares->dims[0];
    f->nblocks = f->ntrees > BLOCK ? (f->ntrees + BLOCK - 1) / BLOCK : 1;
    f->how = read_aggregate(call);
    return TCC_OK;
}

static int read_operands(struct tcc_lib_call *call, struct forest *f, struct rows *r)
{
    int status = lib_need(call, X, -1, LIB_NUMBER, &r->x);

    if (!status)
        status = read_tables(call, f);
    if (status)
        return status;
    if (r->x->rank < 1 || r->x->rank > 2)
        return LIB_FAIL(call, "x must be [n, c]");
    f->ntargets = lib_int(call, "n_targets", 1);
    if (f->ntargets < 1 || f->ntargets > 1 << 24)
        return LIB_FAIL(call, "n_targets is out of range");
    r->n = r->x->rank == 2 ? r->x->dims[0] : 1;
    f->columns.width = r->x->dims[r->x->rank - 1];
    if (f->columns.cuts && r->x->dtype != TCC_F32)
        return LIB_FAIL(call, "cuts of floats are for rows of floats");
    return TCC_OK;
}

/* -- Sums ----------------------------------------------------------------------------------------------------- */

struct regression {
    int64_t ntargets;
    const struct tcc_attr *base;
    const char *post;
    int dtype;
    void *y;
};

static int finish_regression(struct tcc_lib_call *call, void *user, int64_t row, double *sums)
{
    const struct regression *r = user;
    int status;

    for (int64_t t = 0; r->base && t < r->ntargets; t++)
        sums[t] += lib_list_value(r->base, lib_list_size(r->base) == 1 ? 0 : t);
    status = lib_post_transform(call, r->post, sums, r->ntargets);
    for (int64_t t = 0; t < r->ntargets; t++)
        lib_put(r->y, r->dtype, row * r->ntargets + t, sums[t]);
    return status;
}

/* x and the tables -> y[n, n_targets], of x's type where `like_x` */
int tccrt_lib_tree_ensemble(struct tcc_lib_call *call)
{
    struct forest f = {0};
    struct rows rows = {0};
    struct regression r = {.base = lib_list(call, "base_values"), .post = lib_text(call, "post_transform", "NONE")};
    int status = read_operands(call, &f, &rows);
    int64_t dims[2] = {rows.n, f.ntargets};

    if (status)
        return status;
    r.ntargets = f.ntargets;
    r.dtype = lib_int(call, "like_x", 0) ? rows.x->dtype : TCC_F32;
    if (r.base && lib_list_size(r.base) != 1 && lib_list_size(r.base) != f.ntargets)
        return LIB_FAIL(call, "base_values must have %lld values", (long long)f.ntargets);
    if (!(r.y = lib_out(call, 0, r.dtype, 2, dims)))
        return TCC_EENV;
    return run_forest(call, &f, &rows, f.ntargets, finish_regression, &r);
}

/* -- Classes -------------------------------------------------------------------------------------------------- */

struct classification {
    int64_t ntargets, nscores;
    const struct tcc_attr *base;
    const char *post;
    bool binary;     /* weights are of one class: the other's score is what is left */
    bool complement; /* of 1 */
    struct lib_labels labels;
    float *y;
};

static int finish_classification(struct tcc_lib_call *call, void *user, int64_t row, double *sums)
{
    struct classification *c = user;
    int status;

    for (int64_t t = 0; t < c->ntargets && c->base; t++)
        sums[t] += lib_list_value(c->base, t < lib_list_size(c->base) ? t : 0);
    if (c->binary && c->nscores == 2) {
        sums[1] = sums[0];
        sums[0] = c->complement ? 1 - sums[1] : -sums[1];
    }
    status = lib_post_transform(call, c->post, sums, c->nscores);
    for (int64_t t = 0; t < c->nscores; t++)
        c->y[row * c->nscores + t] = (float)sums[t];
    if (!status && lib_labels_count(&c->labels) == 1)
        ((int64_t *)c->labels.out)[row] = lib_largest(sums, c->nscores);
    else if (!status)
        status = lib_labels_put(call, &c->labels, row, lib_largest(sums, c->nscores));
    return status;
}

/* x and the tables -> labels[n], scores[n, classes] */
int tccrt_lib_tree_ensemble_classifier(struct tcc_lib_call *call)
{
    struct forest f = {0};
    struct rows rows = {0};
    struct classification c = {.base = lib_list(call, "base_values"),
                               .post = lib_text(call, "post_transform", "NONE"),
                               .binary = lib_int(call, "binary", 0) != 0};
    int status = read_operands(call, &f, &rows);

    if (!status)
        status = lib_labels_begin(call, "classlabels_int64s", "classlabels_strings", rows.n, &c.labels);
    if (status)
        return status;
    c.ntargets = f.ntargets;
    c.nscores = f.ntargets == 1 && c.binary ? 2 : f.ntargets;
    c.complement = strcmp(c.post, "NONE") == 0 || strcmp(c.post, "PROBIT") == 0;
    if (lib_labels_count(&c.labels) != f.ntargets)
        return LIB_FAIL(call, "%lld class labels are needed", (long long)f.ntargets);
    int64_t dims[2] = {rows.n, c.nscores};
    if (!(c.y = lib_out(call, 1, TCC_F32, 2, dims)))
        return TCC_EENV;
    return run_forest(call, &f, &rows, c.nscores, finish_classification, &c);
}
