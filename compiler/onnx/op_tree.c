/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ai.onnx.ml: tree ensembles, the form of version 5 (TreeEnsemble) and the older classifier and regressor. Both are
 * read into one list of nodes and laid out as the tables of runtime/trees.h, constant operands of one library op.
 */
#include "compiler/onnx/import_int.h"
#include "runtime/trees.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, LEAF }; /* as TreeEnsemble numbers them */

struct tree_node {
    int mode;
    bool nan_yes;
    int64_t feature, yes, no;
    double split;
    int64_t first; /* LEAF: place of its first share, -1: none; MEMBER: of its set */
};

struct share {
    int64_t node, target, order;
    double weight;
};

struct forest {
    struct imp *im;
    int64_t nnodes, nroots, nshares, ntargets;
    struct tree_node *nodes;
    int64_t *roots;
    struct share *shares; /* by node */
    bool wide;            /* a split or a weight is no float */
    struct ir_tensor *members;
};

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

static bool make_room(struct forest *f, int64_t nodes, int64_t shares)
{
    f->nodes = IR_NEWN(f->im->ctx, nodes + 1, struct tree_node);
    f->roots = IR_NEWN(f->im->ctx, nodes + 1, int64_t);
    f->shares = IR_NEWN(f->im->ctx, shares + 1, struct share);
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

static int64_t find_node(const struct forest *f, const struct name *names, int64_t tree, int64_t id)
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
static void find_roots(struct forest *f, const struct name *names)
{
    for (int64_t i = 0; i < f->nnodes; i++) {
        if (!i || names[i].tree != names[i - 1].tree)
            f->roots[f->nroots++] = names[i].node;
        else if (names[i].node < f->roots[f->nroots - 1])
            f->roots[f->nroots - 1] = names[i].node;
    }
    qsort(f->roots, (size_t)f->nroots, sizeof *f->roots, by_number);
}

static bool read_named_nodes(struct forest *f, int64_t nshares, struct name **names)
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
    const struct share *x = a, *y = b;
    return x->node != y->node ? (x->node > y->node) - (x->node < y->node)
                              : (x->order > y->order) - (x->order < y->order);
}

/* `kind` is "class" or "target": KIND_treeids, _nodeids, _ids, _weights. */
static bool read_named(struct forest *f, const char *kind)
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
        f->shares[i] = (struct share){find_node(f, names, integer(&tree, i), integer(&id, i)), integer(&target, i), i,
                                      number(&weight, i)};
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
static bool read_members(struct forest *f, int64_t nodes)
{
    struct list l = list_of(f->im, "membership_values");
    int64_t at = 0, dims[1] = {l.n};
    double *to;
    if (!l.n)
        return true;
    f->members = ir_tensor_new(TCC_F64, 1, dims);
    if (!f->members)
        ir_no_memory(f->im->ctx);
    to = (double *)(uintptr_t)f->members->data;
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

static bool read_nodes(struct forest *f, int64_t n)
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

static bool read_numbered(struct forest *f)
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
        f->shares[i] = (struct share){n + i, integer(&target, i), i, number(&weight, i)};
    }
    for (; f->nroots < roots.n; f->nroots++) {
        f->roots[f->nroots] = integer(&roots, f->nroots);
        if (f->roots[f->nroots] < 0 || f->roots[f->nroots] >= n)
            return imp_bad(im, "root %lld does not exist", (long long)f->roots[f->nroots]);
    }
    return true;
}

static bool is_float(double v)
{
    return isnan(v) || (double)(float)v == v;
}

static bool check(struct forest *f)
{
    for (int64_t i = 0; i < f->nnodes; i++) {
        const struct tree_node *n = &f->nodes[i];
        if (n->mode != LEAF && (n->feature < 0 || n->feature >= 1 << TREE_MODE_SHIFT || n->yes < 0 ||
                                n->yes >= f->nnodes || n->no < 0 || n->no >= f->nnodes))
            return imp_bad(f->im, "node %lld has a feature or a branch that does not exist", (long long)i);
        f->wide |= n->mode != LEAF && !is_float(n->split);
    }
    for (int64_t i = 0; i < f->nshares; i++)
        if (f->shares[i].target < 0 || f->shares[i].target >= f->ntargets)
            return imp_bad(f->im, "target %lld does not exist", (long long)f->shares[i].target);
    return true;
}

/* -- Tables ---------------------------------------------------------------------------------------------------- */

/* Where a walk goes on laying nodes out: node `node`, whose place the node laid at `from` waits for (-1: none does). */
struct todo {
    int64_t node, from;
};

struct layout {
    const struct forest *f;
    int32_t *words;
    double *splits;
    int64_t n, cap;
    struct todo *todo;
    int ntodo, todo_cap;
};

static void put_node(struct layout *l, const struct tree_node *n)
{
    static const struct {
        int8_t mode;
        bool exchanged;
    } as[] = {{TREE_LEQ, false}, {TREE_LT, false},  {TREE_LT, true},      {TREE_LEQ, true},
              {TREE_EQ, false},  {TREE_NEQ, false}, {TREE_MEMBER, false}, {TREE_LEQ, false}};
    int32_t *to = &l->words[l->n * TREE_WORDS];
    float split = n->mode == LEAF ? NAN : (float)n->split;
    bool nan_yes = n->mode != LEAF && n->nan_yes != as[n->mode].exchanged;
    to[TREE_TEST] = (int32_t)(n->mode == LEAF ? 0 : n->feature) | as[n->mode].mode << TREE_MODE_SHIFT |
                    (nan_yes ? TREE_NAN_YES : 0);
    to[TREE_NO] = (int32_t)l->n;
    memcpy(&to[TREE_SPLIT], &split, sizeof split);
    if (n->mode == MEMBER)
        to[TREE_SPLIT] = (int32_t)n->first;
    to[TREE_LEAF] = n->mode == LEAF ? (int32_t)n->first : -1;
    l->splits[l->n] = n->mode == LEAF ? NAN : n->split;
    if (n->mode != LEAF) {
        int64_t next = as[n->mode].exchanged ? n->no : n->yes;
        if (l->ntodo + 2 > l->todo_cap)
            l->todo = ir_grow(l->f->im->ctx, l->todo, &l->todo_cap, sizeof *l->todo);
        l->todo[l->ntodo++] = (struct todo){n->yes + n->no - next, l->n};
        l->todo[l->ntodo++] = (struct todo){next, -1};
    }
    l->n++;
}

/* Nodes in preorder, one that several branches lead to once for each. */
static bool lay_out(struct layout *l, int32_t *trees)
{
    const struct forest *f = l->f;
    for (int64_t r = 0; r < f->nroots; r++) {
        trees[r] = (int32_t)l->n;
        for (struct todo next = {f->roots[r], -1};; next = l->todo[--l->ntodo]) {
            if (l->n == l->cap)
                return imp_bad(f->im, "tree %lld runs in a circle, or its branches meet", (long long)r);
            if (next.from >= 0)
                l->words[next.from * TREE_WORDS + TREE_NO] = (int32_t)l->n;
            put_node(l, &f->nodes[next.node]);
            if (!l->ntodo)
                break;
        }
    }
    return true;
}

/* TREE_LEAF of the nodes that compare. Branches lie behind their node, so that they are counted first. */
static void count_leaves(struct layout *l)
{
    int32_t *leaves = IR_NEWN(l->f->im->ctx, l->n + 1, int32_t);
    for (int64_t i = l->n - 1; i >= 0; i--) {
        int32_t *node = l->words + i * TREE_WORDS, no = node[TREE_NO];
        leaves[i] = no == i ? 1 : leaves[i + 1] + leaves[no];
        if (no != i)
            node[TREE_LEAF] = leaves[i + 1];
    }
}

/* What is true of all nodes, so that a walk needn't look. */
struct common {
    int mode; /* or TREE_MIXED */
    bool nan; /* has one TREE_NAN_YES? */
};

static struct common common_of(const struct layout *l)
{
    struct common c = {-1, false};
    for (int64_t i = 0; i < l->n; i++) {
        const int32_t *node = l->words + i * TREE_WORDS;
        int m = node[TREE_TEST] >> TREE_MODE_SHIFT & 7;
        if (node[TREE_NO] == i)
            continue;
        c.mode = c.mode < 0 || c.mode == m ? m : TREE_MIXED;
        c.nan |= (node[TREE_TEST] & TREE_NAN_YES) != 0;
    }
    c.mode = c.mode < 0 ? TREE_LEQ : c.mode;
    return c;
}

static struct ir_value *table(struct forest *f, enum tcc_dtype dtype, int64_t n, int64_t width, const void *data)
{
    struct ir_tensor *t = ir_tensor_new(dtype, width ? 2 : 1, (int64_t[]){n, width});
    if (!t)
        ir_no_memory(f->im->ctx);
    if (t->bytes)
        memcpy((void *)(uintptr_t)t->data, data, (size_t)t->bytes);
    return imp_const(f->im, t);
}

/* At least one, which no leaf names: an empty operand is none. */
static struct ir_value *weights_of(struct forest *f)
{
    bool wide = false;
    double *w = IR_NEWN(f->im->ctx, f->nshares + 1, double);
    float *narrow = IR_NEWN(f->im->ctx, f->nshares + 1, float);
    for (int64_t i = 0; i < f->nshares; i++) {
        narrow[i] = (float)(w[i] = f->shares[i].weight);
        wide |= !is_float(w[i]);
    }
    return wide ? table(f, TCC_F64, f->nshares + !f->nshares, 0, w)
                : table(f, TCC_F32, f->nshares + !f->nshares, 0, narrow);
}

static struct ir_value *shares_of(struct forest *f)
{
    int32_t *s = IR_NEWN(f->im->ctx, 2 * f->nshares + 2, int32_t);
    for (int64_t i = f->nshares - 1; i >= 0; i--) {
        s[2 * i] = (int32_t)f->shares[i].target;
        s[2 * i + 1] = i + 1 < f->nshares && f->shares[i + 1].node == f->shares[i].node ? s[2 * i + 3] + 1 : 0;
    }
    return table(f, TCC_I32, f->nshares + !f->nshares, 2, s);
}

/* Operands 1 to 6 of the library op. */
static bool make_tables(struct forest *f, struct ir_value **to, struct common *common)
{
    struct ir_ctx *ctx = f->im->ctx;
    struct layout l = {.f = f, .cap = 3 * f->nnodes + 1};
    int32_t *trees = IR_NEWN(ctx, f->nroots + 1, int32_t);
    l.words = IR_NEWN(ctx, l.cap * TREE_WORDS, int32_t);
    l.splits = IR_NEWN(ctx, l.cap, double);
    if (!lay_out(&l, trees))
        return false;
    count_leaves(&l);
    *common = common_of(&l);
    to[0] = table(f, TCC_I32, l.n, TREE_WORDS, l.words);
    to[1] = table(f, TCC_I32, f->nroots, 0, trees);
    to[2] = shares_of(f);
    to[3] = weights_of(f);
    to[4] = f->wide ? table(f, TCC_F64, l.n, 0, l.splits) : NULL;
    to[5] = f->members ? imp_const(f->im, f->members) : NULL;
    return to[0] && to[1] && to[2] && to[3];
}

/* -- Operators ------------------------------------------------------------------------------------------------- */

/* Weights of one class only stand for two. */
static bool is_binary(const struct forest *f)
{
    for (int64_t i = 1; i < f->nshares; i++)
        if (f->shares[i].target != f->shares[0].target)
            return false;
    return f->nshares > 0;
}

/* The node's own attributes besides the tables, and those that say what the tables are. */
static bool build(struct forest *f, const char *name, int nout, const ir_type *types, bool like_x, const char *how,
                  const char *post)
{
    static const char *const kept[] = {"base_values", "base_values_as_tensor", "classlabels_int64s",
                                       "classlabels_strings"};
    struct imp *im = f->im;
    struct ir_value *in[7] = {imp_in(im, 0)};
    struct ir_attr attrs[12];
    struct common common;
    int n = 0;
    if (!make_tables(f, in + 1, &common))
        return false;
    attrs[n++] = imp_user_int(im, "n_targets", f->ntargets);
    attrs[n++] = imp_user_int(im, "mode", common.mode);
    attrs[n++] = imp_user_int(im, "nan", common.nan);
    attrs[n++] = imp_user_int(im, "binary", is_binary(f));
    attrs[n++] = imp_user_int(im, "like_x", like_x);
    attrs[n++] = imp_user_text(im, "aggregate_function", how);
    attrs[n++] = imp_user_text(im, "post_transform", post);
    for (size_t k = 0; k < sizeof kept / sizeof *kept; k++)
        n += imp_attr(im, kept[k]) && imp_user_attr(im, imp_attr(im, kept[k]), &attrs[n]);
    struct ir_node *node = imp_lib_of(im, name, 7, in, nout, types, n, attrs);
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
bool onnx_op_trees(struct imp *im, int arg)
{
    static const char *const posts[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"}, *const hows[] = {
                                                                                                      "AVERAGE", "SUM",
                                                                                                      "MIN", "MAX"};
    struct forest f = {.im = im, .ntargets = imp_i(im, "n_targets", 1)};
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

bool onnx_op_tree_classifier(struct imp *im, int arg)
{
    int ints = 0, strings = 0;
    struct forest f = {.im = im};
    ir_expr dims[2];
    (void)arg;
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
