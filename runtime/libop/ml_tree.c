/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ai.onnx.ml's tree ensembles, from the tables of trees.h.
 *
 * A walk from a root to a leaf waits for each node in turn, so LANES walks go side by side: rows in the same tree, or
 * trees of the same row where rows are few. Of a tree of few leaves nobody walks where rows are many: ml_tree_masks.c
 * compares at all of its nodes. Trees are taken in blocks that a cache holds, a block's sums are added in the order of
 * blocks: the bits are the same however many threads there are, and however many rows. Branches of a node lie behind
 * it, so every walk ends; what a table says besides is checked where it is used.
 */
#include <math.h>

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
    COLUMNS = 1 << 22 /* numbers of the rows that are kept by columns besides */
};

struct forest {
    const int32_t *nodes, *trees, *shares;
    const float *weights; /* or */
    const double *wide_weights, *splits, *members;
    int64_t nnodes, ntrees, nshares, nmembers, ntargets, nblocks;
    int mode; /* of all nodes, or TREE_MIXED */
    bool nan; /* may a node have TREE_NAN_YES? */
    enum aggregate how;
};

/* The rows: floats as they are, what is compared in double converted. */
struct rows {
    const struct tcc_tensor *x;
    int64_t n, width;
    bool wide;
    double *converted; /* [n, width] of the wave */
    float *columns;    /* [n / ROWS, width, ROWS] of the wave, where trees are compared at all nodes; or NULL */
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

static bool is_member(const struct forest *f, int32_t at, double x)
{
    for (int64_t i = at; i >= 0 && i < f->nmembers && !isnan(f->members[i]); i++)
        if (f->members[i] == x)
            return true;
    return false;
}

static inline bool holds(const struct forest *f, int mode, const int32_t *node, double x, double split)
{
    switch (mode) {
    case TREE_LEQ: return x <= split;
    case TREE_LT: return x < split;
    case TREE_EQ: return x == split;
    case TREE_NEQ: return x != split;
    case TREE_MEMBER: return is_member(f, node[TREE_SPLIT], x);
    default: return false;
    }
}

/* The node behind node i for the row, i itself of a leaf; -1: the tables are wrong. `mode`, `nan` and `wide` are
 * constants where this is inlined. */
static inline __attribute__((always_inline)) int64_t step(const struct forest *f, int mode, bool nan, bool wide,
                                                          const void *row, int64_t width, int64_t i)
{
    const int32_t *node = f->nodes + i * TREE_WORDS;
    int32_t test = node[TREE_TEST];
    int64_t feature = test & ((1 << TREE_MODE_SHIFT) - 1), next;
    int nan_yes = nan && (test & TREE_NAN_YES) != 0, yes;
    float split;

    if (feature >= width)
        return -1;
    memcpy(&split, &node[TREE_SPLIT], sizeof split);
    if (wide) {
        double x = ((const double *)row)[feature];

        yes = holds(f, test >> TREE_MODE_SHIFT & 7, node, x, f->splits ? f->splits[i] : (double)split) |
              (nan_yes & isnan(x));
    } else {
        float x = ((const float *)row)[feature];

        yes = (mode == TREE_LEQ  ? x <= split
               : mode == TREE_LT ? x < split
                                 : holds(f, test >> TREE_MODE_SHIFT & 7, node, (double)x, (double)split)) |
              (nan_yes & isnan(x));
    }
    next = node[TREE_NO];
    next ^= (next ^ (i + 1)) & -(int64_t)yes; /* no branch, which nobody could predict */
    return (uint64_t)next - (uint64_t)i < (uint64_t)(f->nnodes - i) ? next : -1; /* from i on, and there */
}

static inline __attribute__((always_inline)) bool walk(const struct forest *f, int mode, bool nan, bool wide,
                                                       int64_t width, const void *const *rows, int64_t *at)
{
    bool moved;

    do {
        moved = false;
        for (int k = 0; k < LANES; k++) {
            int64_t next = step(f, mode, nan, wide, rows[k], width, at[k]);

            if (next < 0)
                return false;
            moved |= next != at[k];
            at[k] = next;
        }
    } while (moved);
    return true;
}

/* Takes each lane from the root at[k] to its leaf. */
static bool to_leaves(const struct forest *f, const struct rows *r, const void *const *rows, int64_t *at)
{
    if (r->wide)
        return walk(f, TREE_MIXED, true, true, r->width, rows, at);
    switch (f->mode) {
    case TREE_LEQ:
        return f->nan ? walk(f, TREE_LEQ, true, false, r->width, rows, at)
                      : walk(f, TREE_LEQ, false, false, r->width, rows, at);
    case TREE_LT:
        return f->nan ? walk(f, TREE_LT, true, false, r->width, rows, at)
                      : walk(f, TREE_LT, false, false, r->width, rows, at);
    default: return walk(f, TREE_MIXED, true, false, r->width, rows, at);
    }
}

/* -- Adding up ------------------------------------------------------------------------------------------------ */

static void add(const struct forest *f, double *sum, bool *touched, double w)
{
    if (f->how == MIN || f->how == MAX)
        *sum = !*touched || (f->how == MIN ? w < *sum : w > *sum) ? w : *sum;
    else
        *sum += w;
    *touched = true;
}

/* Adds the leaf's shares to the sums of the chunk's row k. */
static bool add_leaf(const struct forest *f, int64_t leaf, int64_t k, const struct part *p)
{
    int64_t i = f->nodes[leaf * TREE_WORDS + TREE_LEAF];
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

/* The columns of the wave's chunk `item`. */
static void fill_columns(void *arg, int64_t item)
{
    const struct wave *w = arg;
    const struct rows *r = w->rows;
    int64_t n = w->n - item * ROWS < ROWS ? w->n - item * ROWS : ROWS;
    const float *from = (const float *)r->x->data + (w->first + item * ROWS) * r->width;
    float *to = r->columns + item * ROWS * r->width;

    for (int64_t c = 0; c < r->width; c++)
        for (int64_t k = 0; k < ROWS; k++)
            to[c * ROWS + k] = k < n ? from[k * r->width + c] : 0;
}

/* Lanes are rows of a tree, or, of a chunk of few rows, trees of a row. */
static bool walk_block(const struct wave *w, const struct part *p, int64_t from, int64_t rows, int64_t first,
                       int64_t trees)
{
    const struct forest *f = w->f;
    const struct rows *r = w->rows;
    bool by_tree = rows < LANES;
    int64_t outer = by_tree ? rows : trees, inner = by_tree ? trees : rows;

    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i += LANES) {
            const void *row[LANES];
            int64_t at[LANES], of[LANES], n = inner - i < LANES ? inner - i : LANES;

            for (int64_t k = 0; k < LANES; k++) { /* idle lanes do what the last one does */
                int64_t l = i + (k < n ? k : n - 1);

                of[k] = from + (by_tree ? o : l);
                at[k] = f->trees[first + (by_tree ? l : o)];
                if (at[k] < 0 || at[k] >= f->nnodes)
                    return false;
                row[k] = r->wide ? (const void *)(r->converted + of[k] * r->width)
                                 : (const void *)((const float *)r->x->data + (w->first + of[k]) * r->width);
            }
            if (!to_leaves(f, r, row, at))
                return false;
            for (int64_t k = 0; k < n; k++)
                if (!add_leaf(f, at[k], of[k] - from, p))
                    return false;
        }
    return true;
}

/* Trees [first, first + trees) for rows [from, from + rows). */
static bool add_block(const struct wave *w, const struct part *p, int64_t from, int64_t rows, int64_t first,
                      int64_t trees)
{
    const struct forest *f = w->f;
    const struct rows *r = w->rows;

    if (!r->columns || rows < LANES)
        return walk_block(w, p, from, rows, first, trees);
    for (int64_t t = first; t < first + trees; t++) {
        int64_t at[ROWS];

        if (!lib_tree_leaves(f->nodes, f->nnodes, f->trees[t], f->mode, f->nan, r->columns + from * r->width, r->width,
                             at)) {
            if (!walk_block(w, p, from, rows, t, 1))
                return false;
            continue;
        }
        for (int64_t k = 0; k < rows; k++)
            if (!add_leaf(f, at[k], k, p))
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

    if (!add_block(w, few ? &own : &all, from, rows, first, trees))
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

            if (w->touched[i])
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
    int64_t kept = w->n * w->f->nblocks * w->f->ntargets, items = (w->n + ROWS - 1) / ROWS * w->f->nblocks;
    int status = TCC_OK;

    memset(w->sums, 0, (size_t)kept * sizeof *w->sums);
    memset(w->touched, 0, (size_t)kept);
    for (int64_t i = 0; r->wide && i < w->n * r->width; i++)
        r->converted[i] = lib_get(r->x, w->first * r->width + i);
    if (r->columns)
        run_items(call, (w->n + ROWS - 1) / ROWS, fill_columns, w);
    run_items(call, items, run_block, w);
    if (w->wrong)
        return LIB_FAIL(call, "a node has a feature, a branch or a target that does not exist");
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
    int64_t each = f->nblocks * f->ntargets, most = WAVE / each;
    bool columns =
        !r->wide && (f->mode == TREE_LEQ || f->mode == TREE_LT) && r->width <= COLUMNS / ROWS && r->n >= LANES;
    struct wave w = {.f = f, .rows = r};
    double *sums;
    int status = TCC_OK;

    if (columns && most > COLUMNS / (r->width + 1))
        most = COLUMNS / (r->width + 1);
    most = most > ROWS ? most / ROWS * ROWS : most > 0 ? most : 1;
    most = most < r->n ? most : r->n;
    w.sums = malloc((size_t)(most * each + 1) * sizeof *w.sums);
    w.touched = malloc((size_t)(most * each + 1));
    r->converted = r->wide ? malloc((size_t)(most * r->width + 1) * sizeof *r->converted) : NULL;
    r->columns = columns ? malloc((size_t)((most + ROWS - 1) / ROWS * ROWS * r->width + 1) * sizeof *r->columns) : NULL;
    sums = malloc((size_t)(room + 1) * sizeof *sums);
    if (!w.sums || !w.touched || !sums || (r->wide && !r->converted) || (columns && !r->columns))
        status = LIB_NO_MEMORY(call);
    for (; w.first < r->n && !status; w.first += most) {
        w.n = r->n - w.first < most ? r->n - w.first : most;
        status = run_wave(call, &w, sums, finish, user);
    }
    free(w.sums);
    free(w.touched);
    free(r->converted);
    free(r->columns);
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

static int read_tables(struct tcc_lib_call *call, struct forest *f)
{
    const struct tcc_tensor *nodes, *trees, *shares, *weights, *splits = lib_in(call, 5), *members = lib_in(call, 6);
    int status = lib_need(call, 1, 2, TCC_I32, &nodes);

    status = status ? status : lib_need(call, 2, 1, TCC_I32, &trees);
    status = status ? status : lib_need(call, 3, 2, TCC_I32, &shares);
    status = status ? status : lib_need(call, 4, 1, LIB_NUMBER, &weights);
    if (status)
        return status;
    if (nodes->dims[1] != TREE_WORDS || shares->dims[1] != 2 || weights->dims[0] != shares->dims[0] ||
        (weights->dtype != TCC_F32 && weights->dtype != TCC_F64) ||
        (splits && (splits->dtype != TCC_F64 || splits->rank != 1 || splits->dims[0] != nodes->dims[0])) ||
        (members && (members->dtype != TCC_F64 || members->rank != 1)))
        return LIB_FAIL(call, "its tables do not fit together");
    f->nodes = nodes->data;
    f->trees = trees->data;
    f->shares = shares->data;
    f->weights = weights->dtype == TCC_F32 ? weights->data : NULL;
    f->wide_weights = weights->dtype == TCC_F64 ? weights->data : NULL;
    f->splits = splits ? splits->data : NULL;
    f->members = members ? members->data : NULL;
    f->nnodes = nodes->dims[0];
    f->ntrees = trees->dims[0];
    f->nshares = shares->dims[0];
    f->nmembers = members ? members->dims[0] : 0;
    f->nblocks = f->ntrees > BLOCK ? (f->ntrees + BLOCK - 1) / BLOCK : 1;
    f->mode = (int)lib_int(call, "mode", TREE_MIXED);
    f->nan = lib_int(call, "nan", 1) != 0;
    f->how = read_aggregate(call);
    return TCC_OK;
}

static int read_operands(struct tcc_lib_call *call, struct forest *f, struct rows *r)
{
    int status = lib_need(call, 0, -1, LIB_NUMBER, &r->x);

    if (!status)
        status = read_tables(call, f);
    if (status)
        return status;
    if (r->x->rank < 1 || r->x->rank > 2)
        return LIB_FAIL(call, "x must be [n, c]");
    f->ntargets = lib_int(call, "n_targets", 1);
    if (f->ntargets < 1 || f->ntargets > 1 << 24)
        return LIB_FAIL(call, "n_targets is out of range");
    r->width = r->x->dims[r->x->rank - 1];
    r->n = r->x->rank == 2 ? r->x->dims[0] : 1;
    r->wide = f->splits || r->x->dtype != TCC_F32;
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
