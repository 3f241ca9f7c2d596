/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ai.onnx.ml: tree ensembles, the form of version 5 (TreeEnsemble) and the older classifier and regressor. Both are
 * read into one list of nodes and laid out as the tables of runtime/trees.h, constant operands of one library op.
 */
#include "compiler/onnx/tree_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -- Attributes ----------------------------------------------------------------------------------------------- */

/* A list of numbers: integers, floats, or a tensor. */
struct list {
    int64_t n;
    const int64_t *ints;
    const float *floats;
    const struct ir_tensor *tensor;
};

static struct list list_of(struct imp *im, const char *name)
{
    struct list l = {0};
    const struct onnx_attr *a = imp_attr(im, name);
    if (!a)
        a = imp_attr(im, ir_internf(im->ctx, "%s_as_tensor", name));
    if (!a)
        return l;
    if (a->type == ONNX_ATTR_TENSOR && a->tensor && (l.tensor = imp_tensor_data(im, a->tensor)))
        l.n = l.tensor->dtype == TCC_STRING ? 0 : l.tensor->nelems;
    else if (a->type == ONNX_ATTR_INTS)
        l = (struct list){.n = (int64_t)a->count, .ints = a->ints};
    else if (a->type == ONNX_ATTR_FLOATS)
        l = (struct list){.n = (int64_t)a->count, .floats = a->floats};
    return l;
}

static double number(const struct list *l, int64_t i)
{
    return l->ints     ? (double)l->ints[i]
           : l->floats ? (double)l->floats[i]
                       : tcc_load_f64((enum tcc_dtype)l->tensor->dtype, ir_tensor_at(l->tensor, i));
}

static int64_t integer(const struct list *l, int64_t i)
{
    return l->ints     ? l->ints[i]
           : l->floats ? (int64_t)l->floats[i]
                       : tcc_load_i64((enum tcc_dtype)l->tensor->dtype, ir_tensor_at(l->tensor, i));
}

static bool make_room(struct tree_forest *f, int64_t nodes, int64_t shares)
{
    f->nodes = IR_NEWN(f->im->ctx, nodes + 1, struct tree_node);
    f->roots = IR_NEWN(f->im->ctx, nodes + 1, int64_t);
    f->shares = IR_NEWN(f->im->ctx, shares + 1, struct tree_share);
    f->nnodes = nodes;
    f->nshares = shares;
    return nodes < INT32_MAX && shares < INT32_MAX;
}

/* -- The older form: nodes named by tree and number ----------------------------------------------------------- */

struct name {
    int64_t tree, id, node;
};

static int by_name(const void *a, const void *b)
{
    const struct name *x = a, *y = b;
    return x->tree != y->tree ? (x->tree > y->tree) - (x->tree < y->tree) : (x->id > y->id) - (x->id < y->id);
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t find_node(const struct tree_forest *f, const struct name *names, int64_t tree, int64_t id)
{
    struct name key = {tree, id, 0};
    const struct name *found = bsearch(&key, names, (size_t)f->nnodes, sizeof *names, by_name);
    return found ? found->node : -1;
}

static int mode_of(const struct onnx_str *s)
{
    static const char *const modes[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE", "BRANCH_GT",
                                        "BRANCH_EQ",  "BRANCH_NEQ", NULL,         "LEAF"};
    for (int m = 0; m <= LEAF; m++)
        if (modes[m] && !strcmp(modes[m], s->data))
            return m;
    return -1;
}

/* A tree's root is the first of its nodes. */
static void find_roots(struct tree_forest *f, const struct name *names)
{
    for (int64_t i = 0; i < f->nnodes; i++) {
        if (!i || names[i].tree != names[i - 1].tree)
            f->roots[f->nroots++] = names[i].node;
        else if (names[i].node < f->roots[f->nroots - 1])
            f->roots[f->nroots - 1] = names[i].node;
    }
    qsort(f->roots, (size_t)f->nroots, sizeof *f->roots, by_number);
}

static bool read_named_nodes(struct tree_forest *f, int64_t nshares, struct name **names)
{
    struct imp *im = f->im;
    struct list tree = list_of(im, "nodes_treeids"), id = list_of(im, "nodes_nodeids"),
                feature = list_of(im, "nodes_featureids"), value = list_of(im, "nodes_values"),
                yes = list_of(im, "nodes_truenodeids"), no = list_of(im, "nodes_falsenodeids"),
                nan = list_of(im, "nodes_missing_value_tracks_true");
    int n;
    const struct onnx_str *modes = imp_strs(im, "nodes_modes", &n);
    if (!modes || !n || tree.n != n || id.n != n || feature.n != n || value.n != n || yes.n != n || no.n != n ||
        (nan.n && nan.n != n))
        return imp_bad(im, "nodes_* must be lists of the same length");
    if (!make_room(f, n, nshares))
        return imp_unsupported(im, "more than 2^31 nodes");
    *names = IR_NEWN(im->ctx, n, struct name);
    for (int64_t i = 0; i < n; i++)
        (*names)[i] = (struct name){integer(&tree, i), integer(&id, i), i};
    qsort(*names, (size_t)n, sizeof **names, by_name);
    find_roots(f, *names);
    for (int64_t i = 0; i < n; i++) {
        struct tree_node *to = &f->nodes[i];
        *to = (struct tree_node){
            mode_of(&modes[i]), nan.n && number(&nan, i) != 0, integer(&feature, i), -1, -1, number(&value, i), -1};
        if (to->mode < 0)
            return imp_bad(im, "node mode '%s' is not known", ir_shown(modes[i].data));
        if (to->mode != LEAF) {
            to->yes = find_node(f, *names, integer(&tree, i), integer(&yes, i));
            to->no = find_node(f, *names, integer(&tree, i), integer(&no, i));
        }
    }
    return true;
}

static int by_node(const void *a, const void *b)
{
    const struct tree_share *x = a, *y = b;
    return x->node != y->node ? (x->node > y->node) - (x->node < y->node)
                              : (x->order > y->order) - (x->order < y->order);
}

/* `kind` is "class" or "target": KIND_treeids, _nodeids, _ids, _weights. */
static bool read_named(struct tree_forest *f, const char *kind)
{
    struct imp *im = f->im;
    struct list tree = list_of(im, ir_internf(im->ctx, "%s_treeids", kind)),
                id = list_of(im, ir_internf(im->ctx, "%s_nodeids", kind)),
                target = list_of(im, ir_internf(im->ctx, "%s_ids", kind)),
                weight = list_of(im, ir_internf(im->ctx, "%s_weights", kind));
    struct name *names = NULL;
    if (tree.n != weight.n || id.n != weight.n || target.n != weight.n)
        return imp_bad(im, "%s_ids and its like must be lists of the same length", kind);
    if (!read_named_nodes(f, weight.n, &names))
        return false;
    for (int64_t i = 0; i < f->nshares; i++) {
        f->shares[i] = (struct tree_share){find_node(f, names, integer(&tree, i), integer(&id, i)), integer(&target, i),
                                           i, number(&weight, i)};
        if (f->shares[i].node < 0)
            return imp_bad(im, "%s_nodeids names a node that does not exist", kind);
    }
    qsort(f->shares, (size_t)f->nshares, sizeof *f->shares, by_node);
    for (int64_t i = f->nshares - 1; i >= 0; i--)
        f->nodes[f->shares[i].node].first = i;
    return true;
}

/* -- Version 5 ------------------------------------------------------------------------------------------------- */

/* Members of set nodes: in the order of the nodes, each set ended by NaN. */
static bool read_members(struct tree_forest *f, int64_t nodes)
{
    struct list l = list_of(f->im, "membership_values");
    int64_t at = 0;
    double *to = f->members = IR_NEWN(f->im->ctx, l.n + 1, double);
    f->nmembers = l.n;
    for (int64_t i = 0; i < l.n; i++)
        to[i] = number(&l, i);
    for (int64_t i = 0; i < nodes; i++) {
        if (f->nodes[i].mode != MEMBER)
            continue;
        f->nodes[i].first = at;
        while (at < l.n && !isnan(to[at]))
            at++;
        at++;
    }
    return at <= l.n || imp_bad(f->im, "membership_values has too few sets");
}

static bool read_nodes(struct tree_forest *f, int64_t n)
{
    struct imp *im = f->im;
    struct list split = list_of(im, "nodes_splits"), feature = list_of(im, "nodes_featureids"),
                mode = list_of(im, "nodes_modes"), yes = list_of(im, "nodes_truenodeids"),
                no = list_of(im, "nodes_falsenodeids"), yes_leaf = list_of(im, "nodes_trueleafs"),
                no_leaf = list_of(im, "nodes_falseleafs"), nan = list_of(im, "nodes_missing_value_tracks_true");
    if (split.n != n || mode.n != n || yes.n != n || no.n != n || yes_leaf.n != n || no_leaf.n != n ||
        (nan.n && nan.n != n))
        return imp_bad(im, "nodes_* must have the same length");
    for (int64_t i = 0; i < n; i++) {
        struct tree_node *to = &f->nodes[i];
        int64_t m = integer(&mode, i);
        if (m < 0 || m > MEMBER)
            return imp_bad(im, "node mode %lld is not known", (long long)m);
        *to = (struct tree_node){(int)m,
                                 nan.n && number(&nan, i) != 0,
                                 integer(&feature, i),
                                 integer(&yes, i),
                                 integer(&no, i),
                                 number(&split, i),
                                 -1};
        /* Leaves are the nodes behind the others. */
        if (to->yes >= 0 && to->yes < INT32_MAX && number(&yes_leaf, i) != 0)
            to->yes += n;
        if (to->no >= 0 && to->no < INT32_MAX && number(&no_leaf, i) != 0)
            to->no += n;
    }
    return read_members(f, n);
}

static bool read_numbered(struct tree_forest *f)
{
    struct imp *im = f->im;
    struct list feature = list_of(im, "nodes_featureids"), target = list_of(im, "leaf_targetids"),
                weight = list_of(im, "leaf_weights"), roots = list_of(im, "tree_roots");
    int64_t n = feature.n, leaves = weight.n;
    if (target.n != leaves || !roots.n || roots.n > n)
        return imp_bad(im, "leaf_* and tree_roots do not fit");
    if (!make_room(f, n + leaves, leaves))
        return imp_unsupported(im, "more than 2^31 nodes");
    if (!read_nodes(f, n))
        return false;
    for (int64_t i = 0; i < leaves; i++) {
        f->nodes[n + i] = (struct tree_node){.mode = LEAF, .first = i};
        f->shares[i] = (struct tree_share){n + i, integer(&target, i), i, number(&weight, i)};
    }
    for (; f->nroots < roots.n; f->nroots++) {
        f->roots[f->nroots] = integer(&roots, f->nroots);
        if (f->roots[f->nroots] < 0 || f->roots[f->nroots] >= n)
            return imp_bad(im, "root %lld does not exist", (long long)f->roots[f->nroots]);
    }
    return true;
}

static bool check(struct tree_forest *f)
{
    for (int64_t i = 0; i < f->nnodes; i++) {
        const struct tree_node *n = &f->nodes[i];
        if (n->mode != LEAF && (n->feature < 0 || n->feature > INT32_MAX || n->yes < 0 || n->yes >= f->nnodes ||
                                n->no < 0 || n->no >= f->nnodes))
            return imp_bad(f->im, "node %lld has a feature or a branch that does not exist", (long long)i);
    }
    for (int64_t i = 0; i < f->nshares; i++)
        if (f->shares[i].target < 0 || f->shares[i].target >= f->ntargets)
            return imp_bad(f->im, "target %lld does not exist", (long long)f->shares[i].target);
    return true;
}

/* -- Operators ------------------------------------------------------------------------------------------------- */

/* Weights of one class only stand for two. */
static bool is_binary(const struct tree_forest *f)
{
    for (int64_t i = 1; i < f->nshares; i++)
        if (f->shares[i].target != f->shares[0].target)
            return false;
    return f->nshares > 0;
}

/* The node's own attributes besides the tables, and those that say what the tables are. */
static bool build(struct tree_forest *f, const char *name, int nout, const ir_type *types, bool like_x, const char *how,
                  const char *post)
{
    static const char *const kept[] = {"base_values", "base_values_as_tensor", "classlabels_int64s",
                                       "classlabels_strings"};
    struct imp *im = f->im;
    struct ir_value *in[1 + TREE_TABLES] = {imp_in(im, 0)};
    struct ir_attr attrs[12];
    int n = 0;
    if (!tree_tables(f, imp_dtype(in[0]), in + 1))
        return false;
    attrs[n++] = imp_user_int(im, "n_targets", f->ntargets);
    attrs[n++] = imp_user_int(im, "binary", is_binary(f));
    attrs[n++] = imp_user_int(im, "like_x", like_x);
    attrs[n++] = imp_user_text(im, "aggregate_function", how);
    attrs[n++] = imp_user_text(im, "post_transform", post);
    for (size_t k = 0; k < sizeof kept / sizeof *kept; k++)
        n += imp_attr(im, kept[k]) && imp_user_attr(im, imp_attr(im, kept[k]), &attrs[n]);
    struct ir_node *node = imp_lib_of(im, name, 1 + TREE_TABLES, in, nout, types, n, attrs);
    for (int k = 0; node && k < nout; k++)
        imp_out(im, k, node->out[k]);
    return node != NULL;
}

static bool rows_of(struct imp *im, ir_expr *rows)
{
    struct ir_value *x = imp_in(im, 0);
    if (!x || x->type->kind != IR_T_TENSOR || imp_dtype(x) == TCC_STRING)
        return imp_bad(im, "a tensor of numbers is expected");
    *rows = imp_rank(x) == 1 ? ir_const(im->ctx, 1) : imp_rank(x) == 2 ? imp_dim(x, 0) : NULL;
    return imp_rank(x) < 0 || *rows || imp_bad(im, "x[rows, features] is expected");
}

/* arg: 0 TreeEnsembleRegressor, 1 TreeEnsemble */
bool onnx_op_trees(struct imp *im)
{
    int arg = im->row->arg;
    static const char *const posts[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"}, *const hows[] = {
                                                                                                      "AVERAGE", "SUM",
                                                                                                      "MIN", "MAX"};
    struct tree_forest f = {.im = im, .ntargets = imp_i(im, "n_targets", 1)};
    int64_t post = arg ? imp_i(im, "post_transform", 0) : 0, how = arg ? imp_i(im, "aggregate_function", 1) : 0;
    ir_expr dims[2] = {NULL, ir_const(im->ctx, f.ntargets)};
    if (!rows_of(im, &dims[0]))
        return false;
    if (post < 0 || post > 4 || how < 0 || how > 3 || f.ntargets < 1 || f.ntargets > 1 << 24)
        return imp_bad(im, "post_transform, aggregate_function or n_targets is out of range");
    if (!(arg ? read_numbered(&f) : read_named(&f, "target")) || !check(&f))
        return false;
    ir_type t = imp_fresh_type(im, arg ? imp_dtype(imp_in(im, 0)) : TCC_F32, 2, dims);
    return build(&f, "tree_ensemble", 1, &t, arg, arg ? hows[how] : imp_s(im, "aggregate_function", "SUM"),
                 arg ? posts[post] : imp_s(im, "post_transform", "NONE"));
}

bool onnx_op_tree_classifier(struct imp *im)
{
    int ints = 0, strings = 0;
    struct tree_forest f = {.im = im};
    ir_expr dims[2];
    imp_ints(im, "classlabels_int64s", &ints);
    imp_strs(im, "classlabels_strings", &strings);
    f.ntargets = strings ? strings : ints;
    if (!rows_of(im, &dims[0]))
        return false;
    if (!f.ntargets || (f.ntargets == 1 && strings))
        return imp_bad(im, "class labels are needed");
    if (!read_named(&f, "class") || !check(&f))
        return false;
    dims[1] = ir_const(im->ctx, f.ntargets == 1 && is_binary(&f) ? 2 : f.ntargets);
    ir_type types[2] = {imp_fresh_type(im, strings ? TCC_STRING : TCC_I64, 1, dims),
                        imp_fresh_type(im, TCC_F32, 2, dims)};
    return build(&f, "tree_ensemble_classifier", 2, types, false, "SUM", imp_s(im, "post_transform", "NONE"));
}
