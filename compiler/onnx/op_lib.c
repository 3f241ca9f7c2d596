/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators that become library ops: the long tail (libs.def), strings, image operators, and any shape operator on
 * values whose rank is known only at run time (imp_dynamic). Sequences: op_sequence.c.
 */
#include "compiler/onnx/import_int.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *results;
} libs[] = {
#define LIB(id, name, results) {name, results},
#include "compiler/onnx/libs.def"
};

/* -- The little language of libs.def */

struct spec {
    struct imp *im;
    const char *p;
    ir_expr dims[TCC_MAX_RANK];
    int rank; /* -1: not known */
};

static bool operand_type(struct spec *s, long k, ir_type *t)
{
    struct ir_value *v = imp_in(s->im, (int)k);
    if (!v)
        return imp_bad(s->im, "operand %ld is missing", k);
    *t = v->type;
    return t[0]->kind == IR_T_TENSOR || imp_unsupported(s->im, "operand %ld is no tensor", k);
}

static bool add_dim(struct spec *s, ir_expr e)
{
    if (s->rank < 0 || s->rank == TCC_MAX_RANK)
        return true; /* unranked stays unranked */
    s->dims[s->rank] = e ? e : imp_fresh_dim(s->im, 0, s->rank);
    s->rank++;
    return true;
}

/* One dim of the list: '?', N, K.D, =K, ~K; "-N=K": all dims of K but the last N. */
static bool read_dim(struct spec *s)
{
    char *end;
    ir_type t = NULL;
    long less = 0;
    if (*s->p == '?') {
        s->p++;
        return add_dim(s, NULL);
    }
    if (*s->p == '-') {
        less = strtol(s->p + 1, &end, 10);
        s->p = end;
    }
    if (*s->p == '=' || *s->p == '~') {
        bool same = *s->p == '=';
        long k = strtol(s->p + 1, &end, 10);
        s->p = end;
        if (!operand_type(s, k, &t))
            return false;
        if (t->rank < 0)
            s->rank = -1;
        for (int i = 0; i < t->rank - (int)less; i++)
            add_dim(s, same ? t->dim[i] : NULL);
        return true;
    }
    long n = strtol(s->p, &end, 10);
    s->p = end;
    if (*s->p != '.')
        return add_dim(s, ir_const(s->im->ctx, n));
    long d = strtol(s->p + 1, &end, 10);
    s->p = end;
    if (!operand_type(s, n, &t))
        return false;
    if (d < 0)
        d += t->rank;
    return add_dim(s, d >= 0 && d < t->rank ? t->dim[d] : NULL);
}

static bool read_result(struct spec *s, ir_type *out)
{
    char name[32];
    size_t n = strcspn(s->p, "[");
    ir_type t = NULL;
    enum tcc_dtype dtype;
    if (isdigit((unsigned char)*s->p)) {
        if (!operand_type(s, strtol(s->p, NULL, 10), &t))
            return false;
        dtype = (enum tcc_dtype)t->dtype;
    } else {
        snprintf(name, sizeof name, "%.*s", (int)n, s->p);
        dtype = tcc_dtype_by_name(name);
    }
    s->p += n + 1;
    s->rank = 0;
    while (*s->p != ']') {
        if (!read_dim(s))
            return false;
        s->p += *s->p == ',';
    }
    s->p++;
    s->p += *s->p == ';';
    *out = s->rank < 0 ? ir_unranked_type(s->im->ctx, dtype) : ir_tensor_type(s->im->ctx, dtype, s->rank, s->dims);
    return true;
}

/* All operands of the node, NULL where omitted. */
static struct ir_value **operands(struct imp *im)
{
    struct ir_value **in = IR_NEWN(im->ctx, imp_nin(im) + 1, struct ir_value *);
    for (int k = 0; k < imp_nin(im); k++)
        in[k] = imp_in(im, k);
    return in;
}

bool imp_lib_node(struct imp *im, const char *name, int nout, const ir_type *types, const struct ir_attr *more)
{
    struct ir_node *n = imp_lib(im, name, imp_nin(im), operands(im), nout, types, more);
    for (int k = 0; n && k < nout; k++)
        imp_out(im, k, n->out[k]);
    return n != NULL;
}

bool onnx_op_lib(struct imp *im)
{
    int arg = im->row->arg;
    struct spec s = {.im = im, .p = libs[arg].results};
    ir_type types[8];
    int n = 0;
    while (*s.p && n < 8) {
        if (!read_result(&s, &types[n++]))
            return false;
    }
    return imp_lib_node(im, libs[arg].name, n, types, NULL);
}

/* -- Results of unknown shape */

/* What is known of a value's shape from its declaration: its rank and its fixed dims; unranked otherwise. */
ir_type imp_declared_result(struct imp *im, int result, enum tcc_dtype dtype)
{
    ir_expr dims[TCC_MAX_RANK];
    ir_type t = imp_wants(im, result) ? imp_declared(im, im->node->outputs[result]) : NULL;
    if (!t || t->kind != IR_T_TENSOR || t->rank < 0)
        return ir_unranked_type(im->ctx, dtype);
    for (int k = 0; k < t->rank; k++)
        dims[k] = ir_is_const(t->dim[k], NULL) ? t->dim[k] : NULL;
    return imp_fresh_type(im, dtype, t->rank, dims);
}

/* Operators that have a form for any rank and element type, strings included. `from`: the operand whose type the result
 * has; -1: i64. */
static const struct {
    const char *op, *name, *kind;
    int from;
} dynamics[] = {
    {"ArgMax", "dyn_arg", "argmax", -1},
    {"ArgMin", "dyn_arg", "argmin", -1},
    {"Concat", "dyn_concat", NULL, 0},
    {"CumProd", "dyn_cumulate", "prod", 0},
    {"CumSum", "dyn_cumulate", "sum", 0},
    {"Expand", "dyn_expand", NULL, 0},
    {"Flatten", "dyn_flatten", NULL, 0},
    {"Gather", "dyn_gather", NULL, 0},
    {"GatherElements", "dyn_gather_elements", NULL, 0},
    {"Pad", "dyn_pad", NULL, 0},
    {"ReduceL1", "dyn_reduce", "l1", 0},
    {"ReduceL2", "dyn_reduce", "l2", 0},
    {"ReduceLogSum", "dyn_reduce", "log_sum", 0},
    {"ReduceLogSumExp", "dyn_reduce", "log_sum_exp", 0},
    {"ReduceMax", "dyn_reduce", "max", 0},
    {"ReduceMean", "dyn_reduce", "mean", 0},
    {"ReduceMin", "dyn_reduce", "min", 0},
    {"ReduceProd", "dyn_reduce", "prod", 0},
    {"ReduceSum", "dyn_reduce", "sum", 0},
    {"ReduceSumSquare", "dyn_reduce", "sum_square", 0},
    {"Reshape", "dyn_reshape", NULL, 0},
    {"ReverseSequence", "dyn_reverse_sequence", NULL, 0},
    {"Shape", "dyn_shape", NULL, -1},
    {"Size", "dyn_size", NULL, -1},
    {"Slice", "dyn_slice", NULL, 0},
    {"Split", "dyn_split", NULL, 0},
    {"Squeeze", "dyn_squeeze", NULL, 0},
    {"Tile", "dyn_tile", NULL, 0},
    {"TopK", "topk", NULL, 0},
    {"Transpose", "dyn_transpose", NULL, 0},
    {"Unsqueeze", "dyn_unsqueeze", NULL, 0},
    {"Where", "dyn_select", NULL, 1},
};

static bool is_dynamic(const struct ir_value *v)
{
    return v && v->type->kind == IR_T_TENSOR && !ir_is_tensor(v->type);
}

bool imp_open_list(const struct ir_value *v)
{
    return v && v->type->kind == IR_T_TENSOR && imp_rank(v) == 1 && !ir_is_const(imp_dim(v, 0), NULL);
}

bool imp_dynamic(struct imp *im, const struct imp_row *row, bool *done)
{
    bool any = !strcmp(im->node->op, "Expand") && imp_open_list(imp_in(im, 1)), known;
    *done = false;
    for (int k = 0; k < imp_nin(im); k++)
        any |= is_dynamic(imp_in(im, k));
    for (size_t k = 0; any && k < sizeof dynamics / sizeof *dynamics; k++) {
        if (strcmp(dynamics[k].op, im->node->op) || im->domain[0])
            continue;
        struct ir_value *from = dynamics[k].from < 0 ? NULL : imp_in(im, dynamics[k].from);
        if (from && from->type->kind != IR_T_TENSOR)
            return true;
        enum tcc_dtype dtype = from ? imp_dtype(from) : TCC_I64;
        int n = imp_nout(im);
        ir_type *types = IR_NEWN(im->ctx, n + 1, ir_type);
        if (!imp_string_shapes(im, row, &known))
            return false;
        if (known && !from) { /* sizes */
            *done = true;
            return true;
        }
        for (int j = 0; j < n; j++)
            types[j] = known && im->outs[j]
                           ? ir_tensor_type(im->ctx, dtype, imp_rank(im->outs[j]), im->outs[j]->type->dim)
                           : imp_declared_result(im, j, dtype);
        if (!strcmp(dynamics[k].op, "Size"))
            types[0] = ir_scalar_type(im->ctx, TCC_I64);
        else if (!strcmp(dynamics[k].op, "Shape"))
            types[0] = imp_fresh_type(im, TCC_I64, 1, NULL);
        else if (!strcmp(dynamics[k].op, "TopK") && n > 1)
            types[1] = imp_declared_result(im, 1, TCC_I64);
        *done = true;
        struct ir_attr kind = imp_user_text(im, "kind", dynamics[k].kind ? dynamics[k].kind : "");
        return imp_lib_node(im, dynamics[k].name, n, types, dynamics[k].kind ? IR_ATTRS(kind) : NULL);
    }
    return true;
}

/* -- Strings */

bool onnx_op_string_concat(struct imp *im)
{
    bool equal = im->row->arg == IR_eq; /* Equal's row */
    struct ir_value *x = imp_in(im, 0), *y = imp_in(im, 1);
    if (!x || !y || imp_rank(x) < 0 || imp_rank(y) < 0)
        return imp_unsupported(im, "operands of unknown rank");
    /* The broadcast shape of both: equal dims or the one that is not 1, which may be known when the op has run. */
    int rank = imp_rank(x) > imp_rank(y) ? imp_rank(x) : imp_rank(y);
    ir_expr dims[TCC_MAX_RANK];
    for (int k = 0; k < rank; k++) {
        int i = k - (rank - imp_rank(x)), j = k - (rank - imp_rank(y));
        ir_expr a = i < 0 ? ir_const(im->ctx, 1) : imp_dim(x, i), b = j < 0 ? ir_const(im->ctx, 1) : imp_dim(y, j);
        dims[k] = ir_is_value(a, 1) ? b : ir_is_value(b, 1) || a == b ? a : NULL;
    }
    ir_type t = imp_fresh_type(im, equal ? TCC_BOOL : TCC_STRING, rank, dims);
    return imp_lib_node(im, equal ? "string_equal" : "string_concat", 1, &t, NULL);
}

bool onnx_op_string_split(struct imp *im)
{
    struct ir_value *x = imp_in(im, 0);
    ir_expr dims[TCC_MAX_RANK + 1] = {NULL};
    if (!x || imp_rank(x) < 0 || imp_rank(x) == TCC_MAX_RANK)
        return imp_unsupported(im, "an operand of unknown rank");
    for (int k = 0; k < imp_rank(x); k++)
        dims[k] = imp_dim(x, k);
    ir_type types[2] = {imp_fresh_type(im, TCC_STRING, imp_rank(x) + 1, dims),
                        imp_fresh_type(im, TCC_I64, imp_rank(x), dims)};
    return imp_lib_node(im, "string_split", 2, types, NULL);
}

/* -- Sizes that the data decides */

bool onnx_op_nonzero(struct imp *im)
{
    return imp_out(im, 0, imp_nonzero(im, imp_tensor(im, 0)));
}

/* By a constant condition: what it keeps is gathered. NULL: there is none. */
static struct ir_value *compress_known(struct imp *im, struct ir_value *x, bool flat, int axis)
{
    struct ir_value *condition = imp_tensor(im, 1);
    const struct ir_tensor *t = condition ? ir_const_of(condition) : NULL;
    int kept = 0;
    if (!t || t->dtype != TCC_BOOL || t->nelems > INT32_MAX)
        return NULL;
    int64_t *keep = IR_NEWN(im->ctx, (size_t)t->nelems + 1, int64_t);
    for (int64_t i = 0; i < t->nelems; i++)
        if (*(const uint8_t *)ir_tensor_at(t, i))
            keep[kept++] = i;
    ir_expr n = ir_const(im->ctx, 1);
    for (int k = 0; k < imp_rank(x); k++)
        n = ir_mul(im->ctx, n, imp_dim(x, k));
    struct ir_value *index = imp_i64s(im, kept, keep);
    return imp_gather(im, flat ? imp_reshape(im, x, 1, &n) : x, index, axis);
}

bool onnx_op_compress(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *known;
    int64_t axis = imp_i(im, "axis", 0);
    bool flat = !imp_attr(im, "axis");
    ir_expr dims[TCC_MAX_RANK] = {NULL};
    if (!x || (!flat && !imp_axis(im, &axis, imp_rank(x))))
        return false;
    if ((known = compress_known(im, x, flat, flat ? 0 : (int)axis)))
        return imp_out(im, 0, known);
    for (int k = 0; k < imp_rank(x) && !flat; k++)
        dims[k] = k == axis ? NULL : imp_dim(x, k);
    ir_type t = imp_fresh_type(im, imp_dtype(x), flat ? 1 : imp_rank(x), dims);
    return imp_lib_node(im, "compress", 1, &t, NULL);
}

bool onnx_op_unique(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    int64_t axis = imp_i(im, "axis", 0);
    bool flat = !imp_attr(im, "axis");
    ir_expr dims[TCC_MAX_RANK] = {NULL}, n = imp_fresh_dim(im, 0, flat ? 0 : (int)axis);
    if (!x || (!flat && !imp_axis(im, &axis, imp_rank(x))))
        return false;
    for (int k = 0; k < imp_rank(x) && !flat; k++)
        dims[k] = k == axis ? n : imp_dim(x, k);
    if (flat)
        dims[0] = n;
    ir_expr all = flat ? ir_num_elements(im->ctx, x->type) : imp_dim(x, (int)axis);
    ir_type types[4] = {imp_fresh_type(im, imp_dtype(x), flat ? 1 : imp_rank(x), dims),
                        imp_fresh_type(im, TCC_I64, 1, &n), imp_fresh_type(im, TCC_I64, 1, &all),
                        imp_fresh_type(im, TCC_I64, 1, &n)};
    return imp_lib_node(im, "unique", 4, types, NULL);
}

/* -- Image and signal operators whose result's size follows from operands */

/* The maxima of regions' parts, 0 of a part without elements: the library op says where in its plane each is. A row
 * of rois is its picture's number and its corners. */
bool onnx_op_max_roi_pool(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *rois = x ? imp_tensor(im, 1) : NULL;
    int n = 0;
    const int64_t *pooled = imp_ints(im, "pooled_shape", &n);
    if (!rois)
        return false;
    if (imp_rank(x) != 4 || imp_rank(rois) != 2 || !pooled || n != 2)
        return imp_bad(im, "X with 4 dims, rois with 2 and a pooled_shape of 2 are expected");
    const ir_expr *dims = x->type->dim, planes = ir_mul(im->ctx, dims[0], dims[1]),
                  plane = ir_mul(im->ctx, dims[2], dims[3]);
    const ir_expr parts[] = {imp_dim(rois, 0), dims[1], ir_const(im->ctx, pooled[0]), ir_const(im->ctx, pooled[1])};
    const ir_expr all = ir_mul(im->ctx, planes, plane),
                  each[] = {parts[0], ir_const(im->ctx, 1), ir_const(im->ctx, 1), ir_const(im->ctx, 1)};
    ir_type type = ir_tensor_type(im->ctx, TCC_I32, 4, parts);
    struct ir_attr high = imp_user_int(im, "output_height", pooled[0]),
                   wide = imp_user_int(im, "output_width", pooled[1]);
    struct ir_node *lib = imp_lib(im, "roi_pool", 2, (struct ir_value *[]){x, rois}, 1, &type, IR_ATTRS(high, wide));
    struct ir_value *number = imp_slice1(im, rois, 1, ir_const(im->ctx, 0), ir_const(im->ctx, 1));
    if (!lib || !number)
        return false;
    struct ir_value *at = imp_cast(im, lib->out[0], TCC_I64), *zero = imp_int(im, TCC_I64, 0);
    struct ir_value *row = imp_cast(im, imp_reshape(im, number, 4, each), TCC_I64);
    struct ir_value *columns = imp_iota(im, 4, parts, 1, TCC_I64);
    row = imp_bin(im, IR_add, imp_bin(im, IR_mul, row, imp_dim_value(im, dims[1])), columns);
    struct ir_value *most = imp_bin(im, IR_max, at, zero);
    row = imp_bin(im, IR_add, imp_bin(im, IR_mul, row, imp_dim_value(im, plane)), most);
    struct ir_value *y = row ? imp_gather(im, imp_reshape(im, x, 1, &all), row, 0) : NULL;
    struct ir_value *zero_2 = y ? imp_like(im, x, 0) : NULL;
    return y && imp_out(im, 0, imp_select(im, imp_bin(im, IR_lt, at, zero), zero_2, y));
}

bool onnx_op_grid_sample(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *grid = x ? imp_tensor(im, 1) : NULL;
    int n;
    const struct ir_attr *words = imp_words(im, &n);
    return grid && imp_out(im, 0, imp_grid_sample(im, x, grid, n, words));
}

bool onnx_op_roi_align(struct imp *im)
{
    struct ir_value *in[] = {imp_tensor(im, 0), imp_tensor(im, 1), imp_in(im, 2)};
    int n, old = im->opset < 16;
    const struct ir_attr *given = imp_words(im, &n);
    struct ir_attr *words = IR_NEWN(im->ctx, n + 1, struct ir_attr);
    memcpy(words, given, (size_t)n * sizeof *words);
    /* Before opset 16 there was one coordinate mode, the later output_half_pixel. */
    words[n] = imp_user_text(im, "coordinate_transformation_mode", "output_half_pixel");
    return imp_out(im, 0,
                   imp_roi_align(im, in, imp_i(im, "output_height", 1), imp_i(im, "output_width", 1), n + old, words));
}

bool onnx_op_col2im(struct imp *im)
{
    struct ir_value *in[] = {imp_tensor(im, 0), imp_in(im, 1), imp_in(im, 2)};
    int n;
    const struct ir_attr *words = imp_words(im, &n);
    return imp_out(im, 0, imp_col2im(im, in, n, words));
}

bool onnx_op_affine_grid(struct imp *im)
{
    struct ir_value *theta = imp_tensor(im, 0);
    ir_expr size[TCC_MAX_RANK], dims[TCC_MAX_RANK];
    if (!theta)
        return false;
    struct ir_value *sizes = imp_in(im, 1);
    if (imp_rank(sizes) == 1 && !ir_is_const(imp_dim(sizes, 0), NULL)) {
        if (imp_rank(theta) != 3 || !ir_is_const(imp_dim(theta, 1), NULL)) {
            ir_type open = imp_declared_result(im, 0, imp_dtype(theta));
            return imp_lib_node(im, "affine_grid", 1, &open, NULL);
        }
        ir_expr count = ir_addc(im->ctx, imp_dim(theta, 1), 2);
        sizes = imp_with_dims(im, sizes, &count, (const char *[]){"there are two sizes more than theta has rows"});
    }
    int n = sizes ? imp_bound_exprs(im, sizes, 5, 0, IMP_MAX_DIM, size) : -1;
    if (n < 0)
        return false;
    if (n != 4 && n != 5)
        return imp_bad(im, "size has %d elements; 4 or 5 are expected", n);
    for (int k = 0; k < n; k++)
        dims[k] = !k ? size[0] : k == n - 1 ? ir_const(im->ctx, n - 2) : size[k + 1];
    ir_type t = ir_tensor_type(im->ctx, imp_dtype(theta), n, dims);
    return imp_lib_node(im, "affine_grid", 1, &t, NULL);
}

bool onnx_op_max_unpool(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    ir_expr dims[TCC_MAX_RANK];
    int nk, ns, np;
    const int64_t *kernel = imp_ints(im, "kernel_shape", &nk), *strides = imp_ints(im, "strides", &ns),
                  *pads = imp_ints(im, "pads", &np);
    if (!x)
        return false;
    int rank = imp_rank(x), s = rank - 2;
    if (s < 1 || !kernel || nk != s || (strides && ns != s) || (pads && np != 2 * s))
        return imp_bad(im, "x with spatial axes, and kernel_shape, strides, pads for them are expected");
    for (int k = 0; k < rank; k++) {
        dims[k] = imp_dim(x, k);
        if (k >= 2)
            dims[k] = ir_addc(im->ctx, ir_mulc(im->ctx, ir_addc(im->ctx, dims[k], -1), strides ? strides[k - 2] : 1),
                              kernel[k - 2] - (pads ? pads[k - 2] + pads[k - 2 + s] : 0));
    }
    if (imp_has(im, 2) && imp_bound_exprs(im, imp_in(im, 2), TCC_MAX_RANK, 0, IMP_MAX_DIM, dims) != rank)
        return imp_bad(im, "output_shape must have %d elements", rank);
    ir_type t = ir_tensor_type(im->ctx, imp_dtype(x), rank, dims);
    return imp_lib_node(im, "max_unpool", 1, &t, NULL);
}

bool onnx_op_resize(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    int first = im->opset < 11 ? 1 : 2;
    struct ir_value *scales = imp_in(im, first), *sizes = im->opset < 11 ? NULL : imp_in(im, 3);
    ir_expr dims[TCC_MAX_RANK], wanted[TCC_MAX_RANK];
    int64_t axes[TCC_MAX_RANK];
    double values[TCC_MAX_RANK];
    int n;
    if (!x)
        return false;
    const int64_t *given = imp_ints(im, "axes", &n);
    if (!given || !n || n > imp_rank(x)) { /* none: all of them */
        given = n > 0 ? given : NULL;
        n = imp_rank(x);
    }
    for (int k = 0; k < n; k++) {
        axes[k] = given ? given[k] : k;
        if (!imp_axis(im, &axes[k], imp_rank(x)))
            return false;
    }
    for (int k = 0; k < imp_rank(x); k++)
        dims[k] = imp_dim(x, k);
    bool stretch = !strcmp(imp_s(im, "keep_aspect_ratio_policy", "stretch"), "stretch");
    int m = sizes ? imp_exprs_of(im, sizes, TCC_MAX_RANK, wanted) : imp_scale_values(scales, values);
    if (m >= 0 && m != n && !(m == 0 && !sizes))
        return imp_bad(im, "%d sizes or scales for %d axes", m, n);
    for (int k = 0; k < n && (m < 0 || !stretch); k++)
        dims[axes[k]] = NULL;
    if (m == n && stretch && sizes) {
        for (int k = 0; k < n; k++)
            dims[axes[k]] = wanted[k];
    } else if (m == n && stretch) {
        if (!imp_scaled_dims(im, x, values, false, n, axes, dims))
            return false;
    }
    if (!imp_resizes_something(im, x, dims))
        return false;
    ir_type t = imp_fresh_type(im, imp_dtype(x), imp_rank(x), dims);
    /* The stored cases of align_corners give their scales when the model runs, and count as ONNX's reference does;
     * engines don't. */
    struct ir_attr fractional = ir_attr_user_i("fractional_length", scales && !scales->def);
    if (im->opset >= 11)
        return imp_lib_node(im, "resize", 1, &t, fractional.i ? IR_ATTRS(fractional) : NULL);
    struct ir_value *in[] = {x, NULL, scales};
    /* Opset 10: asymmetric coordinates, rounded down to the nearest, but up where the result is smaller: its text's
     * example, and engines. */
    struct ir_attr how = imp_user_text(im, "coordinate_transformation_mode", "asymmetric"),
                   round = imp_user_text(im, "nearest_mode", "simple");
    struct ir_node *node = imp_lib(im, "resize", 3, in, 1, &t, IR_ATTRS(how, round));
    return node && imp_out(im, 0, node->out[0]);
}

bool onnx_op_upsample(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    ir_expr dims[TCC_MAX_RANK] = {NULL};
    int64_t axes[TCC_MAX_RANK];
    double values[TCC_MAX_RANK];
    int n;
    if (!x)
        return false;
    const float *attr = imp_floats(im, "scales", &n);
    for (int k = 0; attr && k < n && k < TCC_MAX_RANK; k++)
        values[k] = (double)attr[k];
    if (!attr)
        n = imp_scale_values(imp_in(im, 1), values);
    for (int k = 0; k < imp_rank(x); k++)
        axes[k] = k;
    if (n >= 0 && n != imp_rank(x))
        return imp_bad(im, "%d scales for %d axes", n, imp_rank(x));
    if (n >= 0 && !imp_scaled_dims(im, x, values, false, n, axes, dims))
        return false;
    ir_type t = imp_fresh_type(im, imp_dtype(x), imp_rank(x), dims);
    return imp_lib_node(im, "upsample", 1, &t, NULL);
}

/* DFT, STFT: complex numbers are a last axis of 2. */
bool onnx_op_dft(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    ir_expr dims[TCC_MAX_RANK], n;
    int64_t axis = imp_i(im, "axis", im->opset < 20 ? 1 : -2), given;
    bool onesided = imp_i(im, "onesided", 0), inverse = imp_i(im, "inverse", 0), known = true;
    if (!x)
        return false;
    if (im->opset >= 20 && imp_has(im, 2) && !(known = imp_ints_of(im, imp_in(im, 2), 1, &given) == 1))
        axis = 0;
    else if (im->opset >= 20 && imp_has(im, 2))
        axis = given;
    int rank = imp_rank(x);
    if (!imp_axis(im, &axis, rank))
        return false;
    for (int k = 0; k < rank; k++)
        dims[k] = known ? imp_dim(x, k) : NULL;
    dims[rank - 1] = ir_const(im->ctx, onesided && inverse ? 1 : 2);
    n = imp_dim(x, (int)axis);
    if (known && imp_has(im, 1) && imp_exprs_of(im, imp_in(im, 1), 1, &n) != 1)
        n = NULL;
    if (n && onesided && inverse && !imp_has(im, 1))
        n = ir_addc(im->ctx, ir_mulc(im->ctx, n, 2), -2);
    if (known && n && !imp_assume(im, IR_LE, ir_const(im->ctx, 1), n, "a transform has a length of 1 at least"))
        return false;
    if (known)
        dims[axis] = n && onesided && !inverse ? ir_addc(im->ctx, ir_floordiv(im->ctx, n, ir_const(im->ctx, 2)), 1) : n;
    ir_type t = imp_fresh_type(im, imp_dtype(x), rank, dims);
    struct ir_attr attr = imp_user_int(im, "axis", 1);
    return imp_lib_node(im, "dft", 1, &t, im->opset < 20 && !imp_attr(im, "axis") ? IR_ATTRS(attr) : NULL);
}

bool onnx_op_stft(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    if (!x)
        return false;
    int64_t step, parts, known;
    if (imp_rank(x) < 2 || imp_rank(x) > 3)
        return imp_bad(im, "a signal of [batch, length, 1 or 2] is expected, not %s", ir_type_text(im->ctx, x->type));
    ir_expr dims[4] = {imp_dim(x, 0), NULL, NULL, ir_const(im->ctx, 2)}, n = NULL;
    bool complex = imp_rank(x) == 3 && !ir_is_value(imp_dim(x, 2), 1);
    if (imp_has(im, 3))
        n = imp_exprs_of(im, imp_in(im, 3), 1, &n) == 1 ? n : NULL;
    else
        n = imp_has(im, 2) && imp_rank(imp_in(im, 2)) == 1 ? imp_dim(imp_in(im, 2), 0) : imp_dim(x, 1);
    ir_expr more = n ? ir_sub(im->ctx, imp_dim(x, 1), n) : NULL;
    if (more && ir_is_const(more, &known) && known < 0)
        return imp_bad(im, "frames are longer than the signal");
    if (n && imp_ints_of(im, imp_in(im, 1), 1, &step) == 1 && step > 0)
        dims[1] = ir_addc(im->ctx, ir_floordiv(im->ctx, more, ir_const(im->ctx, step)), 1);
    if (n && (!complex || ir_is_const(imp_dim(x, 2), &parts)))
        dims[2] = imp_i(im, "onesided", 1) && !complex
                      ? ir_addc(im->ctx, ir_floordiv(im->ctx, n, ir_const(im->ctx, 2)), 1)
                      : n;
    ir_type t = imp_fresh_type(im, imp_dtype(x), 4, dims);
    return imp_lib_node(im, "stft", 1, &t, NULL);
}
