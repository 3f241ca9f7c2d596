/* SPDX-License-Identifier: Apache-2.0 */
/* ai.onnx.ml's operators but trees (op_tree.c), and TfIdfVectorizer, whose labels or values have a type or a number
 * that attributes decide. */
#include "compiler/onnx/import_int.h"

/*
 * x has as many columns (a vector: elements; a scalar: one) as an attribute of n values has a value for. A fact, not a
 * check of the library op's: a node whose result is empty or that nobody needs is refused too, at every level.
 */
static bool fit_columns(struct imp *im, const char *name, int64_t n)
{
    const struct ir_value *x = imp_in(im, 0);
    int rank = x && x->type->kind == IR_T_TENSOR ? imp_rank(x) : -1;
    ir_expr columns = rank > 0 ? imp_dim(x, rank - 1) : ir_const(im->ctx, 1);
    return rank < 0 ||
           imp_assume(im, IR_EQ, columns, ir_const(im->ctx, n), "columns of x, of which %s has a value each", name);
}

/* Scaler, Imputer: lists of one value, or of one a column. `arg`: the row of libs.def. */
bool onnx_op_columns(struct imp *im)
{
    static const char *const lists[] = {"offset", "scale", "imputed_value_floats", "imputed_value_int64s"};
    for (int k = 0; k < 4; k++) {
        int n = 0;
        if (k < 3)
            imp_floats(im, lists[k], &n);
        else
            imp_ints(im, lists[k], &n);
        if (n > 1 && !fit_columns(im, lists[k], n))
            return false;
    }
    return onnx_op_lib(im);
}

/* Linear models: `scores` coefficients a column. Numbers that do not fit each other are told by the library op. */
static bool fit_coefficients(struct imp *im, int64_t scores)
{
    int n = 0;
    imp_floats(im, "coefficients", &n);
    return n == 0 || scores < 1 || n % scores || fit_columns(im, "coefficients", n / scores);
}

bool onnx_op_tfidf(struct imp *im)
{
    struct ir_value *x = imp_in(im, 0);
    int n;
    if (!x || imp_rank(x) < 1 || imp_rank(x) > 2)
        return imp_bad(im, "x with 1 or 2 dims is expected");
    const int64_t *at = imp_ints(im, "ngram_indexes", &n);
    int64_t width = 0;
    for (int k = 0; at && k < n; k++)
        width = at[k] + 1 > width ? at[k] + 1 : width;
    ir_expr dims[2] = {imp_dim(x, 0), ir_const(im->ctx, width)};
    ir_type t = ir_tensor_type(im->ctx, TCC_F32, imp_rank(x), imp_rank(x) == 2 ? dims : dims + 1);
    return imp_lib_node(im, "tfidfvectorizer", 1, &t, NULL);
}

/* Columns of the last axis; of a vector as of one row. */
bool onnx_op_array_features(struct imp *im)
{
    struct ir_value *x = imp_in(im, 0), *columns = imp_in(im, 1);
    ir_expr dims[TCC_MAX_RANK] = {ir_const(im->ctx, 1)};
    int rank = imp_rank(x) == 1 ? 2 : imp_rank(x);
    if (imp_rank(x) == 0)
        return imp_bad(im, "x with 1 dim at least is expected");
    if (rank < 0) {
        ir_type open = imp_declared_result(im, 0, imp_dtype(x));
        return imp_lib_node(im, "array_feature_extractor", 1, &open, NULL);
    }
    for (int k = 0; k + 1 < imp_rank(x); k++)
        dims[k] = imp_dim(x, k);
    dims[rank - 1] = imp_rank(columns) < 0 ? NULL : ir_num_elements(im->ctx, columns->type);
    ir_type t = imp_fresh_type(im, imp_dtype(x), rank, dims);
    return imp_lib_node(im, "array_feature_extractor", 1, &t, NULL);
}

/* Version 1: a list of words, which stand for their places. The library op takes keys and values. */
static bool classes_by_place(struct imp *im, enum tcc_dtype to, ir_type t)
{
    const struct onnx_attr *classes = imp_attr(im, "classes_strings");
    struct ir_value *x = imp_in(im, 0);
    struct ir_attr more[3] = {0};
    int n = 2;
    if (!classes || !imp_user_attr(im, classes, &more[0]))
        return imp_bad(im, "attribute 'classes_strings' is expected");
    int64_t *places = IR_NEWN(im->ctx, more[0].n + 1, int64_t);
    for (int k = 0; k < more[0].n; k++)
        places[k] = k;
    more[1] = imp_user_ints(im, to == TCC_I64 ? "values_int64s" : "keys_int64s", more[0].n, places);
    more[0].name = to == TCC_I64 ? "keys_strings" : "values_strings";
    const struct onnx_attr *other = imp_attr(im, to == TCC_I64 ? "default_int64" : "default_string");
    n += other && imp_user_attr(im, other, &more[2]);
    struct ir_node *node = imp_lib_of(im, "label_encoder", 1, &x, 1, &t, n, more);
    return node && imp_out(im, 0, node->out[0]);
}

bool onnx_op_label_encoder(struct imp *im)
{
    struct ir_value *x = imp_in(im, 0);
    const struct onnx_attr *values = imp_attr(im, "values_tensor");
    enum tcc_dtype to = values && values->tensor        ? (enum tcc_dtype)values->tensor->dtype
                        : imp_attr(im, "values_floats") ? TCC_F32
                        : imp_attr(im, "values_int64s") ? TCC_I64
                                                        : TCC_STRING;
    if (!x || x->type->kind != IR_T_TENSOR)
        return imp_bad(im, "a tensor is expected");
    if (im->opset < 2)
        to = imp_dtype(x) == TCC_STRING ? TCC_I64 : TCC_STRING;
    ir_type t =
        imp_rank(x) < 0 ? ir_unranked_type(im->ctx, to) : ir_tensor_type(im->ctx, to, imp_rank(x), x->type->dim);
    if (im->opset < 2)
        return classes_by_place(im, to, t);
    return imp_lib_node(im, "label_encoder", 1, &t, NULL);
}

bool onnx_op_category_mapper(struct imp *im)
{
    struct ir_value *x = imp_in(im, 0);
    if (!x || imp_rank(x) < 0)
        return imp_bad(im, "a tensor is expected");
    ir_type t = ir_tensor_type(im->ctx, imp_dtype(x) == TCC_STRING ? TCC_I64 : TCC_STRING, imp_rank(x), x->type->dim);
    return imp_lib_node(im, "category_mapper", 1, &t, NULL);
}

bool onnx_op_one_hot_encoder(struct imp *im)
{
    struct ir_value *x = imp_in(im, 0);
    ir_expr dims[TCC_MAX_RANK + 1];
    int n;
    if (!x || imp_rank(x) < 0 || imp_rank(x) == TCC_MAX_RANK)
        return imp_bad(im, "a tensor is expected");
    if (!imp_ints(im, "cats_int64s", &n))
        imp_strs(im, "cats_strings", &n);
    for (int k = 0; k < imp_rank(x); k++)
        dims[k] = imp_dim(x, k);
    dims[imp_rank(x)] = ir_const(im->ctx, n);
    ir_type t = ir_tensor_type(im->ctx, TCC_F32, imp_rank(x) + 1, dims);
    return imp_lib_node(im, "one_hot_encoder", 1, &t, NULL);
}

/* Labels [n] and scores [n, classes]. `arg`: which library op. */
bool onnx_op_classifier(struct imp *im)
{
    int arg = im->row->arg;
    static const char *const names[] = {"linear_classifier", "svm_classifier"};
    struct ir_value *x = imp_tensor(im, 0);
    int n;
    if (!x || imp_rank(x) < 1)
        return x && imp_bad(im, "x[n, features] is expected");
    if (arg == 0 && imp_floats(im, "intercepts", &n) && !fit_coefficients(im, n))
        return false;
    bool words = imp_strs(im, "classlabels_strings", &n) && n;
    ir_expr rows = imp_rank(x) == 1 ? ir_const(im->ctx, 1) : imp_dim(x, 0), dims[2] = {rows, NULL};
    ir_type types[2] = {ir_tensor_type(im->ctx, words ? TCC_STRING : TCC_I64, 1, &rows),
                        imp_fresh_type(im, TCC_F32, 2, dims)};
    return imp_lib_node(im, names[arg], 2, types, NULL);
}

/* As the classifiers, a vector is one row. */
bool onnx_op_linear_regressor(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    if (!x || imp_rank(x) < 1)
        return x && imp_bad(im, "x[n, features] is expected");
    if (!fit_coefficients(im, imp_i(im, "targets", 1)))
        return false;
    ir_expr dims[2] = {imp_rank(x) == 1 ? ir_const(im->ctx, 1) : imp_dim(x, 0),
                       ir_const(im->ctx, imp_i(im, "targets", 1))};
    ir_type t = ir_tensor_type(im->ctx, TCC_F32, 2, dims);
    return imp_lib_node(im, "linear_regressor", 1, &t, NULL);
}

/* -- Maps: a row of values each, whose columns have the keys as names */

/* One of two lists of keys; NULL after a message. */
static const char **keys_of(struct imp *im, const char *numbers, const char *words, int *n)
{
    int nwords;
    const int64_t *number = imp_ints(im, numbers, n);
    const struct onnx_str *word = imp_strs(im, words, &nwords);
    if ((*n > 0) == (nwords > 0))
        return imp_bad(im, "either %s or %s is expected", numbers, words), NULL;
    *n += nwords;
    const char **at = IR_NEWN(im->ctx, *n, const char *);
    for (int k = 0; k < *n; k++)
        at[k] = nwords ? ir_internf(im->ctx, "%s", word[k].data) : ir_internf(im->ctx, "%lld", (long long)number[k]);
    return at;
}

/* x, whose last axis has n elements; of strings a run checks it. */
static struct ir_value *columns(struct imp *im, struct ir_value *x, int n, const char *otherwise)
{
    ir_expr dims[TCC_MAX_RANK] = {NULL};
    const char *what[TCC_MAX_RANK] = {NULL};
    if (!ir_is_tensor(x->type))
        return imp_assume(im, IR_EQ, imp_dim(x, imp_rank(x) - 1), ir_const(im->ctx, n), "%s", otherwise) ? x : NULL;
    dims[imp_rank(x) - 1] = ir_const(im->ctx, n);
    what[imp_rank(x) - 1] = otherwise;
    return imp_with_dims(im, x, dims, what);
}

/* A sequence of maps from classes to probabilities: here the probabilities. */
bool onnx_op_zipmap(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    int n;
    if (!x)
        return false;
    if (imp_rank(x) != 1 && imp_rank(x) != 2)
        return imp_bad(im, "x[n, classes] is expected, got %s", ir_type_text(im->ctx, x->type));
    const char **at = keys_of(im, "classlabels_int64s", "classlabels_strings", &n);
    x = at ? columns(im, x, n, "there are more or fewer columns than classes") : NULL;
    if (x)
        VEC_PUSH(im->ctx, im->labels, (struct imp_labels){x, n, at});
    return imp_out(im, 0, x);
}

static bool is_map(struct imp *im, const struct ir_value *x)
{
    return (x && x->type->kind == IR_T_TENSOR && imp_rank(x) == 2) ||
           imp_bad(im, "a map is expected, got %s", x ? ir_type_text(im->ctx, x->type) : "nothing");
}

/* What a map has for each word of a vocabulary, 0 where it has nothing: who gives the map's row puts it there. */
bool onnx_op_dict_vectorizer(struct imp *im)
{
    struct ir_value *x = imp_in(im, 0);
    int n;
    const char **at = is_map(im, x) ? keys_of(im, "int64_vocabulary", "string_vocabulary", &n) : NULL;
    if (!at)
        return false;
    VEC_PUSH(im->ctx, im->labels, (struct imp_labels){x, n, at});
    return imp_out(im, 0, columns(im, x, n, "there are more or fewer columns than words of the vocabulary"));
}

/* The values in the order of their keys; sparse: those of the keys 0 to max_map - 1. */
bool onnx_op_cast_map(struct imp *im)
{
    static const enum tcc_dtype types[] = {TCC_F32, TCC_I64, TCC_STRING};
    static const char *const names[] = {"TO_FLOAT", "TO_INT64", "TO_STRING"};
    struct ir_value *x = imp_in(im, 0);
    const char *to = imp_s(im, "cast_to", "TO_FLOAT");
    int64_t most = imp_i(im, "max_map", 1);
    int k = 0;
    if (!is_map(im, x))
        return false;
    if (!strcmp(imp_s(im, "map_form", "DENSE"), "SPARSE")) {
        if (most < 1 || most > IMP_MAX_DIM)
            return imp_bad(im, "max_map is %lld, a size is expected", (long long)most);
        x = columns(im, x, (int)most, "there are more or fewer columns than max_map");
    }
    while (k < 2 && strcmp(names[k], to))
        k++;
    return x && imp_out_as(im, x, types[k]);
}
