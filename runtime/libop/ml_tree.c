/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ai.onnx.ml: tree ensembles, the form of version 5 (TreeEnsemble) and the older classifier and regressor. Both are
 * read into one table of nodes, whose leaves add to targets.
 */
#include <math.h>

#include "runtime/libop/libop_int.h"

enum mode { LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, LEAF };
enum aggregate { AVERAGE, SUM, MIN, MAX };

struct node {
    uint8_t mode;
    bool nan_true;
    int64_t feature;
    double split;
    int64_t yes, no;      /* nodes */
    int64_t first, count; /* LEAF: of the contributions; MEMBER: of the members */
};
struct share {
    int64_t node, target;
    double weight;
};

struct forest {
    struct node *nodes;
    struct share *shares; /* sorted by node */
    int64_t *roots, *order;
    double *members;
    int64_t nnodes, nshares, nroots, ntargets, width;
    enum aggregate how;
};

static void free_forest(struct forest *f)
{
    free(f->nodes);
    free(f->shares);
    free(f->roots);
    free(f->order);
    free(f->members);
}

static bool make_room(struct forest *f, int64_t nodes, int64_t shares)
{
    f->nodes = calloc((size_t)nodes + 1, sizeof *f->nodes);
    f->shares = calloc((size_t)shares + 1, sizeof *f->shares);
    f->roots = calloc((size_t)nodes + 1, sizeof *f->roots);
    f->order = calloc((size_t)nodes + 1, sizeof *f->order);
    f->nnodes = nodes;
    f->nshares = shares;
    return f->nodes && f->shares && f->roots && f->order;
}

static bool goes_yes(const struct forest *f, const struct node *n, double x)
{
    bool found = false;

    if (isnan(x))
        return n->nan_true;
    switch (n->mode) {
    case LEQ: return x <= n->split;
    case LT: return x < n->split;
    case GTE: return x >= n->split;
    case GT: return x > n->split;
    case EQ: return x == n->split;
    case NEQ: return x != n->split;
    default:
        for (int64_t i = 0; i < n->count; i++)
            found = found || f->members[n->first + i] == x;
        return found;
    }
}

/* The leaf that a row reaches; a path longer than there are nodes runs in a circle: NULL. */
static const struct node *find_leaf(const struct forest *f, int64_t root, const struct tcc_tensor *x, int64_t row)
{
    const struct node *n = &f->nodes[root];

    for (int64_t steps = 0; n->mode != LEAF; steps++) {
        if (steps > f->nnodes)
            return NULL;
        n = &f->nodes[goes_yes(f, n, lib_get(x, row * f->width + n->feature)) ? n->yes : n->no];
    }
    return n;
}

static int sum_row(struct tcc_lib_call *call, const struct forest *f, const struct tcc_tensor *x, int64_t row,
                   double *out, bool *touched)
{
    memset(touched, 0, (size_t)f->ntargets);
    for (int64_t t = 0; t < f->ntargets; t++)
        out[t] = 0;
    for (int64_t r = 0; r < f->nroots; r++) {
        const struct node *leaf = find_leaf(f, f->roots[r], x, row);

        if (!leaf)
            return LIB_FAIL(call, "tree %lld runs in a circle", (long long)r);
        for (int64_t i = leaf->first; i < leaf->first + leaf->count; i++) {
            double *v = &out[f->shares[i].target], w = f->shares[i].weight;

            if (f->how == MIN || f->how == MAX)
                *v = !touched[f->shares[i].target] || (f->how == MIN ? w < *v : w > *v) ? w : *v;
            else
                *v += w;
            touched[f->shares[i].target] = true;
        }
    }
    for (int64_t t = 0; f->how == AVERAGE && t < f->ntargets; t++)
        out[t] /= (double)f->nroots;
    return TCC_OK;
}

static int check_nodes(struct tcc_lib_call *call, const struct forest *f)
{
    for (int64_t i = 0; i < f->nnodes; i++) {
        const struct node *n = &f->nodes[i];

        if (n->mode != LEAF && (n->feature < 0 || n->feature >= f->width || n->yes < 0 || n->yes >= f->nnodes ||
                                n->no < 0 || n->no >= f->nnodes))
            return LIB_FAIL(call, "node %lld has a feature or a branch that does not exist", (long long)i);
    }
    for (int64_t i = 0; i < f->nshares; i++)
        if (f->shares[i].target < 0 || f->shares[i].target >= f->ntargets)
            return LIB_FAIL(call, "target %lld does not exist", (long long)f->shares[i].target);
    return TCC_OK;
}

static int need_x(struct tcc_lib_call *call, const struct tcc_tensor **x, struct forest *f, int64_t *rows)
{
    int status = lib_need(call, 0, -1, LIB_NUMBER, x);

    if (status)
        return status;
    if ((*x)->rank < 1 || (*x)->rank > 2 || (*x)->dtype == TCC_STRING)
        return LIB_FAIL(call, "x must be [n, c]");
    f->width = (*x)->dims[(*x)->rank - 1];
    *rows = (*x)->rank == 2 ? (*x)->dims[0] : 1;
    return TCC_OK;
}

/* -- The older form: nodes named by tree and number
 * --------------------------------------------------------------------- */

struct lists {
    const struct tcc_attr *tree, *id, *feature, *mode, *value, *yes, *no, *nan;
};

static _Thread_local const struct lists *sorting; /* for qsort and bsearch */

static int by_name(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    int64_t tx = sorting->tree->ints[x], ty = sorting->tree->ints[y], ix = sorting->id->ints[x],
            iy = sorting->id->ints[y];

    return tx != ty ? (tx > ty) - (tx < ty) : (ix > iy) - (ix < iy);
}

struct name {
    int64_t tree, id;
};

static int compare_name(const void *key, const void *element)
{
    const struct name *k = key;
    int64_t i = *(const int64_t *)element, tree = sorting->tree->ints[i], id = sorting->id->ints[i];

    return k->tree != tree ? (k->tree > tree) - (k->tree < tree) : (k->id > id) - (k->id < id);
}

static int64_t find_node(const struct forest *f, int64_t tree, int64_t id)
{
    struct name key = {tree, id};
    const int64_t *found = bsearch(&key, f->order, (size_t)f->nnodes, sizeof *f->order, compare_name);

    return found ? *found : -1;
}

static int by_node(const void *a, const void *b)
{
    const struct share *x = a, *y = b;

    return (x->node > y->node) - (x->node < y->node);
}

static int read_lists(struct tcc_lib_call *call, struct lists *l, int64_t *n)
{
    l->tree = lib_attr(call, "nodes_treeids");
    l->id = lib_attr(call, "nodes_nodeids");
    l->feature = lib_attr(call, "nodes_featureids");
    l->mode = lib_attr(call, "nodes_modes");
    l->value = lib_list(call, "nodes_values");
    l->yes = lib_attr(call, "nodes_truenodeids");
    l->no = lib_attr(call, "nodes_falsenodeids");
    l->nan = lib_list(call, "nodes_missing_value_tracks_true");
    *n = lib_list_size(l->tree);
    for (int i = 0; i < 5; i++) {
        const struct tcc_attr *a = (const struct tcc_attr *[]){l->tree, l->id, l->feature, l->yes, l->no}[i];

        if (!a || a->kind != TCC_ATTR_INTS || a->n != *n)
            return LIB_FAIL(call, "nodes_* must be lists of the same length");
    }
    if (*n == 0 || !l->mode || l->mode->kind != TCC_ATTR_STRINGS || l->mode->n != *n || lib_list_size(l->value) != *n ||
        (l->nan && lib_list_size(l->nan) != *n))
        return LIB_FAIL(call, "nodes_* must be lists of the same length");
    return TCC_OK;
}

static int read_old_nodes(struct tcc_lib_call *call, struct forest *f, const struct lists *l)
{
    static const char *const modes[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE", "BRANCH_GT",
                                        "BRANCH_EQ",  "BRANCH_NEQ", "",           "LEAF"};

    for (int64_t i = 0; i < f->nnodes; i++)
        f->order[i] = i;
    sorting = l;
    qsort(f->order, (size_t)f->nnodes, sizeof *f->order, by_name);
    for (int64_t i = 0; i < f->nnodes; i++) {
        struct node *n = &f->nodes[i];
        int mode = -1;

        for (int k = 0; k <= LEAF; k++)
            mode = strcmp(modes[k], l->mode->strings[i]) == 0 ? k : mode;
        if (mode < 0)
            return LIB_FAIL(call, "node mode '%s' is not known", l->mode->strings[i]);
        *n = (struct node){.mode = (uint8_t)mode,
                           .nan_true = l->nan && lib_list_value(l->nan, i) != 0,
                           .feature = l->feature->ints[i],
                           .split = (float)lib_list_value(l->value, i)};
        if (mode != LEAF) {
            n->yes = find_node(f, l->tree->ints[i], l->yes->ints[i]);
            n->no = find_node(f, l->tree->ints[i], l->no->ints[i]);
        }
    }
    /* A tree's root is the first of its nodes. */
    for (int64_t i = 0; i < f->nnodes; i++) {
        bool known = false;

        for (int64_t r = f->nroots - 1; r >= 0 && !known; r--)
            known = l->tree->ints[f->roots[r]] == l->tree->ints[i];
        if (!known)
            f->roots[f->nroots++] = i;
    }
    return TCC_OK;
}

/* `kind` is "class" or "target": KIND_treeids, _nodeids, _ids, _weights. */
static int read_old(struct tcc_lib_call *call, struct forest *f, const char *const *names)
{
    const struct tcc_attr *tree = lib_attr(call, names[0]), *id = lib_attr(call, names[1]),
                          *target = lib_attr(call, names[2]);
    const struct tcc_attr *weight = lib_list(call, names[3]);
    struct lists l;
    int64_t n;
    int status = read_lists(call, &l, &n);

    if (status)
        return status;
    for (int i = 0; i < 3; i++) {
        const struct tcc_attr *a = (const struct tcc_attr *[]){tree, id, target}[i];

        if (!a || a->kind != TCC_ATTR_INTS || a->n != lib_list_size(weight))
            return LIB_FAIL(call, "%s and its like must be lists of the same length", names[2]);
    }
    if (!make_room(f, n, lib_list_size(weight)))
        return LIB_NO_MEMORY(call);
    if ((status = read_old_nodes(call, f, &l)))
        return status;
    for (int64_t i = 0; i < f->nshares; i++) {
        f->shares[i] =
            (struct share){find_node(f, tree->ints[i], id->ints[i]), target->ints[i], (float)lib_list_value(weight, i)};
        if (f->shares[i].node < 0)
            return LIB_FAIL(call, "%s names a node that does not exist", names[1]);
    }
    sorting = NULL;
    qsort(f->shares, (size_t)f->nshares, sizeof *f->shares, by_node);
    for (int64_t i = f->nshares - 1; i >= 0; i--) {
        f->nodes[f->shares[i].node].first = i;
        f->nodes[f->shares[i].node].count++;
    }
    return check_nodes(call, f);
}

static enum aggregate read_aggregate(struct tcc_lib_call *call)
{
    const char *name = lib_text(call, "aggregate_function", "SUM");

    return strcmp(name, "AVERAGE") == 0 ? AVERAGE
           : strcmp(name, "MIN") == 0   ? MIN
           : strcmp(name, "MAX") == 0   ? MAX
                                        : SUM;
}

/* Every row: targets, base values, post-transform into y[rows, ntargets]. */
static int regress(struct tcc_lib_call *call, const struct forest *f, const struct tcc_tensor *x, int64_t rows,
                   int dtype, const char *post)
{
    const struct tcc_attr *base = lib_list(call, "base_values");
    int64_t dims[2] = {rows, f->ntargets};
    double *row;
    void *y;
    int status = TCC_OK;

    if (base && lib_list_size(base) != 1 && lib_list_size(base) != f->ntargets)
        return LIB_FAIL(call, "base_values must have %lld values", (long long)f->ntargets);
    if (!(y = lib_out(call, 0, dtype, 2, dims)))
        return TCC_EENV;
    if (!(row = malloc(((size_t)f->ntargets + 1) * (sizeof *row + 1))))
        return LIB_NO_MEMORY(call);
    for (int64_t r = 0; r < rows && !status; r++) {
        if ((status = sum_row(call, f, x, r, row, (bool *)(row + f->ntargets))))
            break;
        for (int64_t t = 0; base && t < f->ntargets; t++)
            row[t] += lib_list_value(base, lib_list_size(base) == 1 ? 0 : t);
        status = lib_post_transform(call, post, row, f->ntargets);
        for (int64_t t = 0; t < f->ntargets; t++)
            lib_put(y, dtype, r * f->ntargets + t, row[t]);
    }
    free(row);
    return status;
}

int tccrt_lib_tree_ensemble_regressor(struct tcc_lib_call *call)
{
    static const char *const names[] = {"target_treeids", "target_nodeids", "target_ids", "target_weights"};
    struct forest f = {.ntargets = lib_int(call, "n_targets", 1), .how = read_aggregate(call)};
    const struct tcc_tensor *x;
    int64_t rows;
    int status = need_x(call, &x, &f, &rows);

    if (!status)
        status = read_old(call, &f, names);
    if (!status)
        status = regress(call, &f, x, rows, TCC_F32, lib_text(call, "post_transform", "NONE"));
    free_forest(&f);
    return status;
}

/* -- Classifier
 * -------------------------------------------------------------------------------------------------------------- */

/* Models that give weights to one class only stand for two: the other's score is what is left. */
static bool is_binary(const struct forest *f)
{
    for (int64_t i = 1; i < f->nshares; i++)
        if (f->shares[i].target != f->shares[0].target)
            return false;
    return f->nshares > 0;
}

static int classify(struct tcc_lib_call *call, const struct forest *f, const struct tcc_tensor *x, int64_t rows)
{
    const char *post = lib_text(call, "post_transform", "NONE");
    const struct tcc_attr *base = lib_list(call, "base_values");
    bool binary = is_binary(f), complement = strcmp(post, "NONE") == 0 || strcmp(post, "PROBIT") == 0;
    int64_t dims[2] = {rows, f->ntargets == 1 && binary ? 2 : f->ntargets};
    struct lib_labels labels;
    double *row;
    float *y;
    int status = lib_labels_begin(call, "classlabels_int64s", "classlabels_strings", rows, &labels);

    if (status)
        return status;
    if (!(y = lib_out(call, 1, TCC_F32, 2, dims)))
        return TCC_EENV;
    if (!(row = malloc(((size_t)dims[1] + 1) * (sizeof *row + 1))))
        return LIB_NO_MEMORY(call);
    for (int64_t r = 0; r < rows && !status; r++) {
        if ((status = sum_row(call, f, x, r, row, (bool *)(row + dims[1]))))
            break;
        for (int64_t t = 0; t < f->ntargets && base; t++)
            row[t] += lib_list_value(base, t < lib_list_size(base) ? t : 0);
        if (binary && dims[1] == 2) {
            row[1] = row[0];
            row[0] = complement ? 1 - row[1] : -row[1];
        }
        status = lib_post_transform(call, post, row, dims[1]);
        for (int64_t t = 0; t < dims[1]; t++)
            y[r * dims[1] + t] = (float)row[t];
        if (!status && lib_labels_count(&labels) == 1)
            ((int64_t *)labels.out)[r] = lib_largest(row, dims[1]);
        else if (!status)
            status = lib_labels_put(call, &labels, r, lib_largest(row, dims[1]));
    }
    free(row);
    return status;
}

int tccrt_lib_tree_ensemble_classifier(struct tcc_lib_call *call)
{
    static const char *const names[] = {"class_treeids", "class_nodeids", "class_ids", "class_weights"};
    const struct tcc_attr *ints = lib_attr(call, "classlabels_int64s"),
                          *strings = lib_attr(call, "classlabels_strings");
    struct forest f = {.ntargets = lib_list_size(ints) ? lib_list_size(ints) : strings ? strings->n : 0, .how = SUM};
    const struct tcc_tensor *x;
    int64_t rows;
    int status = need_x(call, &x, &f, &rows);

    if (!status && (f.ntargets < 1 || (f.ntargets == 1 && !lib_list_size(ints))))
        status = LIB_FAIL(call, "class labels are needed");
    if (!status)
        status = read_old(call, &f, names);
    if (!status)
        status = classify(call, &f, x, rows);
    free_forest(&f);
    return status;
}

/* -- Version 5
 * ---------------------------------------------------------------------------------------------------------------- */

/* Members of set nodes: in the order of the nodes, ended by NaN. */
static int read_members(struct tcc_lib_call *call, struct forest *f, int64_t nodes)
{
    const struct tcc_attr *list = lib_attr(call, "membership_values");
    int64_t n = lib_list_size(list), at = 0;

    if (!(f->members = calloc((size_t)n + 1, sizeof *f->members)))
        return LIB_NO_MEMORY(call);
    for (int64_t i = 0; i < n; i++)
        f->members[i] = lib_list_value(list, i);
    for (int64_t i = 0; i < nodes; i++) {
        if (f->nodes[i].mode != MEMBER)
            continue;
        f->nodes[i].first = at;
        while (at < n && !isnan(f->members[at]))
            at++;
        f->nodes[i].count = at - f->nodes[i].first;
        at++;
    }
    return at <= n ? TCC_OK : LIB_FAIL(call, "membership_values has too few sets");
}

static int read_nodes(struct tcc_lib_call *call, struct forest *f, int64_t n)
{
    const struct tcc_attr *split = lib_attr(call, "nodes_splits"), *feature = lib_attr(call, "nodes_featureids"),
                          *mode = lib_attr(call, "nodes_modes");
    const struct tcc_attr *yes = lib_attr(call, "nodes_truenodeids"), *no = lib_attr(call, "nodes_falsenodeids");
    const struct tcc_attr *yes_leaf = lib_attr(call, "nodes_trueleafs"), *no_leaf = lib_attr(call, "nodes_falseleafs");
    const struct tcc_attr *nan = lib_attr(call, "nodes_missing_value_tracks_true");

    if (lib_list_size(split) != n || lib_list_size(mode) != n || lib_list_size(yes) != n || lib_list_size(no) != n ||
        lib_list_size(yes_leaf) != n || lib_list_size(no_leaf) != n || (nan && lib_list_size(nan) != n))
        return LIB_FAIL(call, "nodes_* must have the same length");
    for (int64_t i = 0; i < n; i++) {
        int64_t m = (int64_t)lib_list_value(mode, i);

        if (m < 0 || m > MEMBER)
            return LIB_FAIL(call, "node mode %lld is not known", (long long)m);
        f->nodes[i] = (struct node){.mode = (uint8_t)m,
                                    .nan_true = nan && lib_list_value(nan, i) != 0,
                                    .feature = (int64_t)lib_list_value(feature, i),
                                    .split = lib_list_value(split, i),
                                    .yes = (int64_t)lib_list_value(yes, i),
                                    .no = (int64_t)lib_list_value(no, i)};
        /* Leaves are the nodes behind the others. */
        if (f->nodes[i].yes >= 0)
            f->nodes[i].yes += lib_list_value(yes_leaf, i) != 0 ? n : 0;
        if (f->nodes[i].no >= 0)
            f->nodes[i].no += lib_list_value(no_leaf, i) != 0 ? n : 0;
    }
    return read_members(call, f, n);
}

static int read_forest(struct tcc_lib_call *call, struct forest *f)
{
    const struct tcc_attr *feature = lib_attr(call, "nodes_featureids"), *target = lib_attr(call, "leaf_targetids");
    const struct tcc_attr *weight = lib_attr(call, "leaf_weights"), *roots = lib_attr(call, "tree_roots");
    int64_t n = lib_list_size(feature), leaves = lib_list_size(weight);
    int status;

    if (lib_list_size(target) != leaves || !lib_list_size(roots) || lib_list_size(roots) > n)
        return LIB_FAIL(call, "leaf_* and tree_roots do not fit");
    if (!make_room(f, n + leaves, leaves))
        return LIB_NO_MEMORY(call);
    if ((status = read_nodes(call, f, n)))
        return status;
    for (int64_t i = 0; i < leaves; i++) {
        f->nodes[n + i] = (struct node){.mode = LEAF, .first = i, .count = 1};
        f->shares[i] = (struct share){n + i, (int64_t)lib_list_value(target, i), lib_list_value(weight, i)};
    }
    for (f->nroots = 0; f->nroots < lib_list_size(roots); f->nroots++) {
        int64_t root = (int64_t)lib_list_value(roots, f->nroots);

        if (root < 0 || root >= n)
            return LIB_FAIL(call, "root %lld does not exist", (long long)root);
        f->roots[f->nroots] = root;
    }
    return check_nodes(call, f);
}

/* x attrs as ONNX's TreeEnsemble (ai.onnx.ml 5): modes 0..6 are <=, <, >=, >, ==, !=, member -> [n, n_targets] */
int tccrt_lib_tree_ensemble(struct tcc_lib_call *call)
{
    static const char *const posts[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
    int64_t post = lib_int(call, "post_transform", 0), how = lib_int(call, "aggregate_function", SUM), rows;
    struct forest f = {.ntargets = lib_int(call, "n_targets", 1)};
    const struct tcc_tensor *x;
    int status = need_x(call, &x, &f, &rows);

    if (!status && (post < 0 || post > 4 || how < 0 || how > MAX || f.ntargets < 1 || f.ntargets > 1 << 24))
        status = LIB_FAIL(call, "post_transform, aggregate_function or n_targets is out of range");
    f.how = status ? SUM : (enum aggregate)how;
    if (!status)
        status = read_forest(call, &f);
    if (!status)
        status = regress(call, &f, x, rows, x->dtype, posts[post]);
    free_forest(&f);
    return status;
}
