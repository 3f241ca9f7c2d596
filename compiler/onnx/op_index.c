/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that take indices or are made of them: Gather, Scatter, Range, Trilu, OneHot, ... */
#include "compiler/onnx/import_int.h"

#include <string.h>

/* -- Gather and scatter */

bool onnx_op_gather(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *index = x ? imp_tensor(im, 1) : NULL;
    int64_t axis = imp_i(im, "axis", 0);
    return index && imp_axis(im, &axis, imp_rank(x)) && imp_out(im, 0, imp_gather(im, x, index, (int)axis));
}

bool onnx_op_gather_elements(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *index = imp_tensor(im, 1);
    int64_t axis = imp_i(im, "axis", 0);
    return x && index && imp_axis(im, &axis, imp_rank(x)) &&
           imp_out(im, 0, imp_gather_elements(im, x, index, (int)axis));
}

/* How long the tuples of indices are is a size that must be known. */
static bool known_tuples(struct imp *im, const struct ir_value *indices)
{
    int rank = imp_rank(indices);
    return rank < 1 || ir_is_const(imp_dim(indices, rank - 1), NULL) ||
           imp_open_size(im, imp_dim(indices, rank - 1), NULL, "indices whose last dim is known only at run time");
}

/* By tuples of one index, of operands of any rank: a Gather along the first axis. */
static bool gather_single(struct imp *im, struct ir_value *x)
{
    struct ir_value *index = imp_tensor(im, 1);
    int rank = index ? imp_rank(index) : 0;
    if (rank < 1 || !ir_is_value(imp_dim(index, rank - 1), 1) || imp_i(im, "batch_dims", 0))
        return imp_tensor(im, 0) != NULL;
    struct ir_value *in[] = {x, imp_reshape(im, index, rank - 1, index->type->dim)};
    ir_type type = ir_unranked_type(im->ctx, imp_dtype(x));
    struct ir_node *n = in[1] ? imp_lib(im, "dyn_gather", 2, in, 1, &type, NULL) : NULL;
    return n && imp_out(im, 0, n->out[0]);
}

bool onnx_op_gather_nd(struct imp *im)
{
    struct ir_value *x = imp_in(im, 0);
    if (x && x->type->kind == IR_T_TENSOR && imp_rank(x) < 0)
        return gather_single(im, x);
    struct ir_value *in[] = {imp_tensor(im, 0), imp_tensor(im, 1)};
    return in[0] && in[1] && known_tuples(im, in[1]) &&
           imp_out(
               im, 0,
               imp_op(im, IR_gather_nd, 2, in, IR_ATTRS(ir_attr_i(IR_ATTR_batch_dims, imp_i(im, "batch_dims", 0)))));
}

static const char *reduction(struct imp *im)
{
    const char *r = imp_s(im, "reduction", "none");
    static const char *const known[] = {"none", "add", "mul", "min", "max"};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        if (!strcmp(r, known[k]))
            return known[k];
    }
    return imp_bad(im, "reduction '%s'; none, add, mul, min or max is expected", r), NULL;
}

bool onnx_op_scatter_elements(struct imp *im)
{
    struct ir_value *in[] = {imp_tensor(im, 0), imp_tensor(im, 1), imp_tensor(im, 2)};
    int64_t axis = imp_i(im, "axis", 0);
    const char *mode = reduction(im);
    return in[0] && in[1] && in[2] && mode && imp_axis(im, &axis, imp_rank(in[0])) &&
           imp_out(im, 0,
                   imp_op(im, IR_scatter_elements, 3, in,
                          IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis), ir_attr_s(IR_ATTR_mode, mode))));
}

/* Updates have the rank that x and indices say. */
static struct ir_value *updates(struct imp *im, const struct ir_value *x, const struct ir_value *indices)
{
    struct ir_value *v = imp_in(im, 2);
    int64_t tuple;
    if (!v || v->type->kind != IR_T_TENSOR || imp_rank(v) >= 0 || !x || !indices || imp_rank(indices) < 1 ||
        !ir_is_const(imp_dim(indices, imp_rank(indices) - 1), &tuple))
        return imp_tensor(im, 2);
    ir_type type = imp_fresh_type(im, imp_dtype(v), imp_rank(x) + imp_rank(indices) - 1 - (int)tuple, NULL);
    struct ir_node *n = imp_lib(im, "dyn_identity", 1, &v, 1, &type, NULL);
    return n ? n->out[0] : NULL;
}

bool onnx_op_scatter_nd(struct imp *im)
{
    struct ir_value *in[] = {imp_tensor(im, 0), imp_tensor(im, 1), NULL};
    in[2] = updates(im, in[0], in[1]);
    const char *mode = reduction(im);
    return in[0] && in[1] && in[2] && mode && known_tuples(im, in[1]) &&
           imp_out(im, 0, imp_op(im, IR_scatter_nd, 3, in, IR_ATTRS(ir_attr_s(IR_ATTR_mode, mode))));
}

/* -- Made of indices */

/* Range: the count is known when all three are integers that can be followed; otherwise it is computed and bound. */
bool onnx_op_range(struct imp *im)
{
    struct ir_value *v[3] = {imp_tensor(im, 0)};
    for (int k = 1; v[k - 1] && k < 3; k++) /* ONNX Runtime's has a step of 1 */
        v[k] = k == 2 && !imp_in(im, k) ? imp_like(im, v[0], 1) : imp_tensor(im, k);
    for (int k = 0; v[2] && k < 3; k++)
        v[k] = imp_one(im, v[k]);
    return v[2] && imp_out(im, 0, imp_range(im, v[0], v[1], v[2]));
}

/* The lower or upper triangle, the rest 0. */
bool onnx_op_trilu(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *k = imp_in(im, 1);
    if (!x)
        return false;
    int r = imp_rank(x);
    if (r < 2)
        return imp_bad(im, "a tensor with %d dims; at least 2 are expected", r);
    struct ir_value *edge = k ? imp_reshape(im, imp_cast(im, k, TCC_I64), 0, NULL) : imp_int(im, TCC_I64, 0);
    struct ir_value *keep = imp_band(im, imp_i(im, "upper", 1) ? IR_ge : IR_le, x->type->dim + r - 2, edge);
    return imp_out(im, 0, imp_select(im, keep, x, imp_like(im, x, 0)));
}

bool onnx_op_eyelike(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    if (!x)
        return false;
    enum tcc_dtype t = imp_attr(im, "dtype") ? imp_dtype_of(im, imp_i(im, "dtype", 0)) : imp_dtype(x);
    if (imp_rank(x) != 2 || t == TCC_NONE)
        return imp_rank(x) != 2 && imp_bad(im, "a matrix is expected");
    struct ir_value *on = imp_band(im, IR_eq, x->type->dim, imp_int(im, TCC_I64, imp_i(im, "k", 0)));
    return imp_out(im, 0, imp_cast(im, on, t));
}

bool onnx_op_onehot(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *depth = imp_in(im, 1), *values = imp_in(im, 2);
    int64_t axis = imp_i(im, "axis", -1);
    ir_expr n;
    if (!x)
        return false;
    if (!depth || !values)
        return imp_bad(im, "depth and values are expected");
    if (!tcc_is_int(imp_dtype(depth)))
        depth = imp_cast(im, depth, TCC_I64);
    if (!imp_axis(im, &axis, imp_rank(x) + 1) || imp_bound_exprs(im, depth, 1, 0, IMP_MAX_DIM, &n) != 1)
        return false;
    struct ir_value *index = imp_unsqueeze(im, imp_cast(im, x, TCC_I64), 1, &axis);
    struct ir_value *count = imp_dim_value(im, n), *zero = imp_int(im, TCC_I64, 0);
    struct ir_value *sum = imp_bin(im, IR_add, index, count);
    index = imp_select(im, imp_bin(im, IR_lt, index, zero), sum, index);
    struct ir_value *on =
        imp_bin(im, IR_eq, index, imp_along(im, imp_iota(im, 1, &n, 0, TCC_I64), (int)axis, imp_rank(x) + 1));
    ir_expr one = ir_const(im->ctx, 1), none = ir_const(im->ctx, 0);
    struct ir_value *off_value = imp_reshape(im, imp_slice1(im, values, 0, none, one), 0, NULL);
    struct ir_value *on_value = imp_reshape(im, imp_slice1(im, values, 0, one, one), 0, NULL);
    return imp_out(im, 0, imp_select(im, on, on_value, off_value));
}
