/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions, ArgMax/ArgMin, TopK, running sums and products. */
#include "compiler/onnx/import_int.h"

/* What is done before, in and after the reduction; `arg` of the rows. */
enum { R_SUM, R_MEAN, R_PROD, R_MAX, R_MIN, R_L1, R_L2, R_LOG_SUM, R_LOG_SUM_EXP, R_SUM_SQUARE };

static const struct {
    enum ir_op before, reduce, after;
} forms[] = {
    [R_SUM] = {IR_OP_NONE, IR_reduce_sum, IR_OP_NONE},   [R_MEAN] = {IR_OP_NONE, IR_reduce_sum, IR_OP_NONE},
    [R_PROD] = {IR_OP_NONE, IR_reduce_prod, IR_OP_NONE}, [R_MAX] = {IR_OP_NONE, IR_reduce_max, IR_OP_NONE},
    [R_MIN] = {IR_OP_NONE, IR_reduce_min, IR_OP_NONE},   [R_L1] = {IR_abs, IR_reduce_sum, IR_OP_NONE},
    [R_L2] = {IR_square, IR_reduce_sum, IR_sqrt},        [R_LOG_SUM] = {IR_OP_NONE, IR_reduce_sum, IR_log},
    [R_LOG_SUM_EXP] = {IR_exp, IR_reduce_sum, IR_log},   [R_SUM_SQUARE] = {IR_square, IR_reduce_sum, IR_OP_NONE},
};

static bool finished(struct imp *im, struct ir_value *v, enum tcc_dtype type)
{
    enum ir_op after = forms[im->row->arg].after;
    if (v && after != IR_OP_NONE)
        v = imp_un(im, after, imp_cast(im, v, imp_is_float(v) ? imp_dtype(v) : TCC_F64));
    return v && imp_out(im, 0, imp_cast(im, v, type));
}

bool onnx_op_reduce(struct imp *im)
{
    int arg = im->row->arg;
    struct ir_value *x = imp_tensor(im, 0);
    int64_t axes[TCC_MAX_RANK];
    bool keep = imp_i(im, "keepdims", 1);
    if (!x)
        return false;
    int n = imp_axes(im, 1, imp_rank(x), axes);
    if (n == -3)
        return false;
    if (n == -2)
        return imp_reduce_opaque(im);
    if (n <= 0) {
        /* noop_with_empty_axes: only the reduction itself is left out. */
        bool none = imp_i(im, "noop_with_empty_axes", 0);
        n = none ? 0 : imp_rank(x);
        for (int k = 0; k < n; k++)
            axes[k] = k;
    }
    struct ir_value *v = imp_wide(im, x);
    if (arg == R_LOG_SUM_EXP && n && imp_is_float(v))
        return imp_out(im, 0, imp_cast(im, imp_log_sum_exp(im, v, n, axes, keep), imp_dtype(x)));
    if (forms[arg].before == IR_exp && !imp_is_float(v))
        return imp_unsupported(im, "integers");
    if (forms[arg].before != IR_OP_NONE)
        v = imp_un(im, forms[arg].before, v);
    v = arg == R_MEAN ? imp_mean(im, v, n, axes, keep) : imp_reduce(im, forms[arg].reduce, v, n, axes, keep);
    return finished(im, v, imp_dtype(x));
}

/* Axes known only at run time: every element is scattered to its place in the result (opaque.c does the arithmetic). */

bool imp_reduce_opaque(struct imp *im)
{
    int arg = im->row->arg;
    struct ir_value *x = imp_tensor(im, 0), *count = NULL;
    struct ir_value *v = imp_wide(im, x);
    bool keep = imp_i(im, "keepdims", 1);
    if (forms[arg].before == IR_exp && v && !imp_is_float(v))
        return imp_unsupported(im, "integers");
    if (v && forms[arg].before != IR_OP_NONE)
        v = imp_un(im, forms[arg].before, v);
    v = v ? imp_reduce_scatter(im, v, imp_in(im, 1), keep, forms[arg].reduce, &count) : NULL;
    if (v && arg == R_MEAN)
        v = imp_bin(im, IR_div, v, imp_cast(im, count, imp_dtype(v)));
    return v && finished(im, v, imp_dtype(x));
}

bool onnx_op_arg(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    int64_t axis = imp_i(im, "axis", 0);
    return x && imp_axis(im, &axis, imp_rank(x)) &&
           imp_out(im, 0,
                   imp_op(im, (enum ir_op)im->row->arg, 1, &x,
                          IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis), ir_attr_i(IR_ATTR_keepdims, imp_i(im, "keepdims", 1)),
                                   ir_attr_i(IR_ATTR_last, imp_i(im, "select_last_index", 0)))));
}

bool onnx_op_topk(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    int64_t axis = imp_i(im, "axis", -1);
    ir_expr k;
    if (!x || !imp_axis(im, &axis, imp_rank(x)))
        return false;
    if (im->opset < 10)
        k = ir_const(im->ctx, imp_i(im, "k", 0));
    else if (imp_bound_exprs(im, imp_in(im, 1), 1, 0, IMP_MAX_DIM, &k) != 1)
        return false;
    struct ir_node *n = imp_topk(im, x, axis, k, imp_i(im, "largest", 1), imp_i(im, "sorted", 1));
    return n && imp_out(im, 0, n->out[0]) && imp_out(im, 1, n->out[1]);
}

/* Running sums and products; `arg`: the op. */
bool onnx_op_cumulate(struct imp *im)
{
    int arg = im->row->arg;
    struct ir_value *x = imp_tensor(im, 0);
    int64_t axis;
    if (!x)
        return false;
    if (imp_ints_of(im, imp_in(im, 1), 1, &axis) != 1)
        return imp_cumulate_opaque(im);
    return imp_axis(im, &axis, imp_rank(x)) &&
           imp_out(
               im, 0,
               imp_op(im, (enum ir_op)arg, 1, &x,
                      IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis), ir_attr_i(IR_ATTR_exclusive, imp_i(im, "exclusive", 0)),
                               ir_attr_i(IR_ATTR_reverse, imp_i(im, "reverse", 0)))));
}
