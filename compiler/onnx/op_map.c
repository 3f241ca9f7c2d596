/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise operators: arithmetic, logic, comparisons, activations, casts, constants. */
#include "compiler/onnx/import_int.h"

#include <math.h>
#include <string.h>

/* -- Plain words: the row's argument is the op */

static bool map1(struct imp *im, enum ir_op op)
{
    return imp_out(im, 0, imp_un(im, op, imp_tensor(im, 0)));
}

bool onnx_op_map1(struct imp *im)
{
    return map1(im, (enum ir_op)im->row->arg);
}

static bool map2(struct imp *im, enum ir_op op)
{
    struct ir_value *x = imp_tensor(im, 0), *y = x ? imp_tensor(im, 1) : NULL;
    return x && y && imp_out(im, 0, imp_bin(im, op, x, y));
}

bool onnx_op_map2(struct imp *im)
{
    return map2(im, (enum ir_op)im->row->arg);
}

/* Floor, Ceil, Round of integers (not in the standard, but exporters write them) are the integers. */
bool onnx_op_rounding(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    return x && imp_out(im, 0, imp_is_float(x) ? imp_un(im, (enum ir_op)im->row->arg, x) : x);
}

/* Equal compares strings too. */
bool onnx_op_equal(struct imp *im)
{
    struct ir_value *x = imp_in(im, 0), *y = imp_in(im, 1);
    if (imp_has_unranked(im))
        return imp_map_unranked(im, im->row);
    if (!x || !y || imp_rank(x) < 0 || imp_dtype(x) != TCC_STRING)
        return map2(im, IR_eq);
    return onnx_op_string_concat(im);
}

/* Max, Min, Sum, Mean of any number of operands. */
bool onnx_op_variadic(struct imp *im)
{
    struct ir_value *sum = imp_tensor(im, 0);
    for (int k = 1; sum && k < imp_nin(im); k++)
        sum = imp_bin(im, (enum ir_op)im->row->arg, sum, imp_tensor(im, k));
    return imp_out(im, 0, sum);
}

bool onnx_op_mean(struct imp *im)
{
    struct ir_value *sum = imp_wide(im, imp_tensor(im, 0));
    for (int k = 1; sum && k < imp_nin(im); k++)
        sum = imp_bin(im, IR_add, sum, imp_wide(im, imp_tensor(im, k)));
    if (!sum)
        return false;
    sum = imp_with(im, IR_div, sum, imp_nin(im));
    return sum && imp_out(im, 0, imp_cast(im, sum, imp_dtype(imp_in(im, 0))));
}

bool onnx_op_mod(struct imp *im)
{
    return map2(im, imp_i(im, "fmod", 0) ? IR_fmod : IR_mod);
}

/* The result has the base's type; a float exponent of an integer base computes in floats. */
bool onnx_op_pow(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *y = x ? imp_tensor(im, 1) : NULL;
    double e;
    if (!y)
        return false;
    enum tcc_dtype to = imp_dtype(x);
    if (imp_scalar_of(y, &e) && e == 2 && imp_rank(y) <= imp_rank(x))
        return imp_out(im, 0, imp_un(im, IR_square, x));
    if (!imp_is_float(x) && imp_is_float(y)) {
        enum tcc_dtype wide = tcc_dtype_bytes(to) > 2 ? TCC_F64 : TCC_F32;
        struct ir_value *y_cast = imp_cast(im, y, wide);
        struct ir_value *p = imp_bin(im, IR_pow, imp_cast(im, x, wide), y_cast);
        return imp_out(im, 0, imp_cast(im, p, to));
    }
    return imp_out(im, 0, imp_bin(im, IR_pow, x, imp_cast(im, y, to)));
}

bool onnx_op_bitshift(struct imp *im)
{
    const char *d = imp_s(im, "direction", "");
    if (strcmp(d, "LEFT") && strcmp(d, "RIGHT"))
        return imp_bad(im, "direction '%s'; LEFT or RIGHT is expected", d);
    return map2(im, d[0] == 'L' ? IR_shl : IR_shr);
}

bool onnx_op_where(struct imp *im)
{
    struct ir_value *c = imp_tensor(im, 0), *x = c ? imp_tensor(im, 1) : NULL, *y = x ? imp_tensor(im, 2) : NULL;
    return y && imp_out(im, 0, imp_select(im, c, x, y));
}

bool onnx_op_isinf(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    bool minus = imp_i(im, "detect_negative", 1), plus = imp_i(im, "detect_positive", 1);
    if (!x)
        return false;
    struct ir_value *y = imp_un(im, IR_isinf, x);
    if (!minus && !plus)
        y = imp_bin(im, IR_and, y, imp_int(im, TCC_BOOL, 0));
    else if (!minus || !plus)
        y = imp_bin(im, IR_and, y, imp_bin(im, minus ? IR_lt : IR_gt, x, imp_like(im, x, 0)));
    return imp_out(im, 0, y);
}

/* -- Activations with constants */

/* Up to two attributes as further operands. */
static const struct {
    enum ir_op op;
    const char *a;
    double a0;
    const char *b;
    double b0;
} constants[] = {
    {IR_leaky_relu, "alpha", 0.01, NULL, 0},
    {IR_elu, "alpha", 1, NULL, 0},
    {IR_celu, "alpha", 1, NULL, 0},
    {IR_selu, "alpha", 1.67326319217681884765625, "gamma", 1.05070102214813232421875},
    {IR_thresholded_relu, "alpha", 1, NULL, 0},
    {IR_hardsigmoid, "alpha", 0.2f, "beta", 0.5},
    {IR_swish, "alpha", 1, NULL, 0},
};

bool onnx_op_with_constants(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    size_t k = 0;
    if (!x)
        return false;
    while ((int)constants[k].op != im->row->arg)
        k++;
    struct ir_value *in[3] = {x, imp_like(im, x, imp_f(im, constants[k].a, constants[k].a0))};
    in[2] = constants[k].b ? imp_like(im, x, imp_f(im, constants[k].b, constants[k].b0)) : NULL;
    return imp_out(im, 0, imp_op(im, constants[k].op, constants[k].b ? 3 : 2, in, NULL));
}

/* Of integers too: computed as floats, truncated. */
bool onnx_op_shrink(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *in[3];
    if (!x)
        return false;
    in[0] = imp_is_float(x) ? x : imp_cast(im, x, TCC_F64);
    in[1] = imp_like(im, in[0], imp_f(im, "lambd", 0.5));
    in[2] = imp_like(im, in[0], imp_f(im, "bias", 0));
    return imp_out(im, 0, imp_cast(im, imp_op(im, IR_shrink, 3, in, NULL), imp_dtype(x)));
}

bool onnx_op_swish(struct imp *im)
{
    return imp_f(im, "alpha", 1) == 1 ? map1(im, IR_silu) : onnx_op_with_constants(im);
}

bool onnx_op_gelu(struct imp *im)
{
    const char *how = imp_s(im, "approximate", "none");
    if (strcmp(how, "none") && strcmp(how, "tanh"))
        return imp_bad(im, "approximate '%s'; none or tanh is expected", how);
    return map1(im, how[0] == 't' ? IR_gelu_tanh : IR_gelu);
}

/* PRelu's slope broadcasts one way, to x. */
bool onnx_op_prelu(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *s = x ? imp_tensor(im, 1) : NULL;
    if (!s)
        return false;
    if (im->opset < 7 && imp_rank(s) == 1 && imp_rank(x) > 1)
        s = imp_along(im, s, 1, imp_rank(x));
    return imp_out(im, 0, imp_bin(im, IR_leaky_relu, x, s));
}

/* Clip: limits were attributes up to opset 10. A NaN stays; no limit given costs nothing. */
bool onnx_op_clip(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    if (!x)
        return false;
    if (im->row->arg) {
        const struct onnx_attr *lo = imp_attr(im, "min"), *hi = imp_attr(im, "max");
        if (lo)
            x = imp_bin(im, IR_max, imp_like(im, x, imp_f(im, "min", 0)), x);
        if (hi)
            x = imp_bin(im, IR_min, imp_like(im, x, imp_f(im, "max", 0)), x);
        return imp_out(im, 0, x);
    }
    struct ir_value *lo = imp_in(im, 1), *hi = imp_in(im, 2);
    if (lo && hi)
        return imp_out(im, 0, imp_tri(im, IR_clip, x, lo, hi));
    if (lo)
        x = imp_bin(im, IR_max, lo, x);
    if (hi)
        x = imp_bin(im, IR_min, hi, x);
    return imp_out(im, 0, x);
}

/* -- Casts */

static struct ir_value *convert(struct imp *im, struct ir_value *x, int dtype)
{
    enum tcc_dtype to = (enum tcc_dtype)dtype;
    const char *round = imp_s(im, "round_mode", "up");
    if (!x || to == TCC_NONE)
        return NULL;
    if (imp_dtype(x) == to)
        return x;
    if (tcc_dtype_class(to) == TCC_CLASS_COMPLEX || tcc_dtype_class(imp_dtype(x)) == TCC_CLASS_COMPLEX)
        return imp_unsupported(im, "conversions of complex numbers"), NULL;
    struct ir_attr attrs[4] = {ir_attr_dtype(IR_ATTR_to, to)};
    int n = 1;
    if (!imp_i(im, "saturate", 1))
        attrs[n++] = ir_attr_i(IR_ATTR_saturate, 0);
    if (to == TCC_F8E8M0)
        attrs[n++] = ir_attr_s(IR_ATTR_round_mode, round);
    return imp_op(im, IR_cast, 1, &x, attrs);
}

/* Strings and numbers: a library op, on values of any rank. */
static bool convert_string(struct imp *im, struct ir_value *x, enum tcc_dtype to)
{
    ir_type type =
        imp_rank(x) < 0 ? ir_unranked_type(im->ctx, to) : ir_tensor_type(im->ctx, to, imp_rank(x), x->type->dim);
    struct ir_attr attr = imp_user_int(im, "to", to);
    struct ir_node *n =
        imp_lib(im, to == TCC_STRING ? "cast_to_string" : "cast_from_string", 1, &x, 1, &type, IR_ATTRS(attr));
    return n && imp_out(im, 0, n->out[0]);
}

bool imp_out_as(struct imp *im, struct ir_value *x, enum tcc_dtype to)
{
    if (x && to != TCC_NONE && x->type->kind == IR_T_TENSOR && (to == TCC_STRING) != (imp_dtype(x) == TCC_STRING))
        return convert_string(im, x, to);
    if (x && x->type->kind == IR_T_TENSOR && to == imp_dtype(x))
        return imp_out(im, 0, x);
    if (x && to != TCC_NONE && x->type->kind == IR_T_TENSOR && imp_rank(x) < 0)
        return imp_out(im, 0, imp_map1_unranked(im, x, convert, to));
    return imp_out(im, 0, convert(im, x && ir_is_tensor(x->type) ? x : imp_tensor(im, 0), to));
}

bool onnx_op_cast(struct imp *im)
{
    enum tcc_dtype to = imp_dtype_of(im, imp_i(im, "to", 0));
    return to != TCC_NONE && imp_out_as(im, imp_in(im, 0), to);
}

bool onnx_op_castlike(struct imp *im)
{
    struct ir_value *like = imp_in(im, 1);
    if (!like || like->type->kind != IR_T_TENSOR)
        return imp_bad(im, "operand 1 must be a tensor");
    return imp_out_as(im, imp_in(im, 0), imp_dtype(like));
}

/* -- Constants */

static bool constant_list(struct imp *im, enum tcc_dtype dtype, int n, const int64_t *ints, const float *floats)
{
    int64_t dims[1] = {n};
    struct ir_tensor *t = imp_keep(im, ir_tensor_new(dtype, 1, dims));
    if (n)
        memcpy((void *)(uintptr_t)t->data, ints ? (const void *)ints : (const void *)floats,
               (size_t)n * (ints ? 8 : 4));
    return imp_out(im, 0, imp_const(im, ir_tensor_ref(t)));
}

static bool constant_strings(struct imp *im, const struct onnx_str *s, int n, int rank)
{
    int64_t dims[1] = {n};
    struct onnx_tensor t = {.name = "",
                            .dtype = ONNX_STRING,
                            .rank = (uint32_t)rank,
                            .dims = dims,
                            .count = (uint64_t)n,
                            .strings = s,
                            .file = ONNX_NO_FILE};
    return imp_out(im, 0, imp_tensor_const(im, &t));
}

bool onnx_op_constant(struct imp *im)
{
    const struct onnx_attr *a;
    int n;
    if ((a = imp_attr(im, "value")) && a->type == ONNX_ATTR_TENSOR)
        return imp_out(im, 0, imp_tensor_const(im, a->tensor));
    if ((a = imp_attr(im, "value_float")))
        return imp_out(im, 0, imp_num(im, TCC_F32, (double)a->f));
    if ((a = imp_attr(im, "value_int")))
        return imp_out(im, 0, imp_int(im, TCC_I64, a->i));
    if ((a = imp_attr(im, "value_floats")))
        return constant_list(im, TCC_F32, (int)a->count, NULL, imp_floats(im, "value_floats", &n));
    if ((a = imp_attr(im, "value_ints")))
        return constant_list(im, TCC_I64, (int)a->count, imp_ints(im, "value_ints", &n), NULL);
    if ((a = imp_attr(im, "value_string")))
        return constant_strings(im, &a->s, 1, 0);
    if ((a = imp_attr(im, "value_strings")))
        return constant_strings(im, a->strings, (int)a->count, 1);
    if ((a = imp_attr(im, "sparse_value")) && a->type == ONNX_ATTR_SPARSE)
        return imp_out(im, 0, imp_sparse_const(im, a->sparse));
    return imp_bad(im, "a constant without a value");
}

bool onnx_op_constant_of_shape(struct imp *im)
{
    const struct onnx_attr *a = imp_attr(im, "value");
    ir_expr dims[TCC_MAX_RANK];
    struct ir_tensor *one = a && a->type == ONNX_ATTR_TENSOR ? imp_tensor_data(im, a->tensor)
                                                             : imp_keep(im, ir_tensor_scalar_f(TCC_F32, 0));
    int64_t sizes[TCC_MAX_RANK];
    if (one && one->nelems != 1)
        return imp_bad(im, "value has %lld elements, 1 is expected", (long long)one->nelems);
    if (one && imp_open_list(imp_in(im, 0))) {
        struct ir_value *in[] = {imp_const(im, ir_tensor_ref(one)), imp_in(im, 0)};
        ir_type type = imp_declared_result(im, 0, one->dtype);
        struct ir_node *wide = imp_lib(im, "dyn_expand", 2, in, 1, &type, NULL);
        return wide && imp_out(im, 0, wide->out[0]);
    }
    int n = one ? imp_bound_exprs(im, imp_in(im, 0), TCC_MAX_RANK, 0, IMP_MAX_DIM, dims) : -1;
    if (n < 0)
        return false;
    bool fixed = true;
    for (int k = 0; k < n; k++) {
        fixed &= ir_is_const(dims[k], &sizes[k]);
        if (ir_const_or(dims[k], 0) < 0)
            return imp_bad(im, "dim %d is negative (%lld)", k, (long long)sizes[k]);
    }
    if (fixed && !ir_type_impossible(ir_tensor_type_i(im->ctx, one->dtype, n, sizes)))
        return imp_out(im, 0, imp_const(im, ir_tensor_splat(one->dtype, n, sizes, ir_tensor_at(one, 0))));
    return imp_out(im, 0, imp_expand(im, imp_reshape(im, imp_const(im, ir_tensor_ref(one)), 0, NULL), n, dims));
}

bool onnx_op_identity(struct imp *im)
{
    struct ir_value *x = imp_in(im, 0);
    return x ? imp_out(im, 0, x) : imp_bad(im, "operand 0 is missing");
}

/* Training mode: elements are dropped where a uniform number is below the ratio, the others scaled up. */
static bool random_dropout(struct imp *im, struct ir_value *x, struct ir_value *ratio, struct ir_value *training)
{
    struct ir_value *mask;
    ratio = ratio ? ratio : imp_num(im, TCC_F32, 0.5);
    return imp_out(im, 0, imp_dropout(im, x, ratio, imp_i(im, "seed", 0), training, &mask)) && imp_out(im, 1, mask);
}

/* Read for training: what the node does when its model is trained, whatever it says now. Up to opset 11 the ratio is an
 * attribute. */
static bool train_dropout(struct imp *im, struct ir_value *x, struct ir_value *ratio)
{
    double p = im->opset < 12 ? imp_f(im, "ratio", 0.5) : 0.5;
    bool known = !ratio || imp_scalar_of(ratio, &p);
    if (known && (p < 0 || p >= 1))
        return imp_bad(im, "ratio %g; 0 to below 1 is expected", p);
    if (!known || p > 0)
        return random_dropout(im, x, known ? imp_num(im, TCC_F32, p) : ratio, NULL);
    struct ir_value *mask = imp_wants(im, 1) ? imp_splat(im, TCC_BOOL, 1, imp_rank(x), x->type->dim) : NULL;
    return imp_out(im, 0, x) && (!imp_wants(im, 1) || imp_out(im, 1, mask));
}

/* Inference: the operand itself, and a mask of ones. */
bool onnx_op_dropout(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *training = imp_in(im, 2), *ratio = imp_in(im, 1);
    double on = 0, p = 0.5;
    if (!x)
        return false;
    if (im->infers || (im->training && !im->train))
        training = NULL;
    if (im->train)
        return train_dropout(im, x, ratio);
    bool known = !training || imp_scalar_of(training, &on);
    if (!known || (on && (!ratio || !imp_scalar_of(ratio, &p) || p > 0)))
        return random_dropout(im, x, ratio, known ? NULL : training);
    struct ir_value *mask =
        imp_wants(im, 1) ? imp_splat(im, im->opset < 10 ? imp_dtype(x) : TCC_BOOL, 1, imp_rank(x), x->type->dim) : NULL;
    return imp_out(im, 0, x) && (!imp_wants(im, 1) || imp_out(im, 1, mask));
}
