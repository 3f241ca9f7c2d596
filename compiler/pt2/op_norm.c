/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisations, their backward ops, and lookups that reduce. */
#include "compiler/pt2/pt2_int.h"

#include <string.h>

/* native_layer_norm, layer_norm: over the last axes; also the mean and 1 / deviation. arg 1: rms_norm */
bool aten_layer_norm(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *x = imp_wide(p->im, pt2_need(p, "input")), *weight = x ? pt2_t(p, "weight") : NULL,
                    *bias = x ? pt2_t(p, "bias") : NULL, *mean = NULL, *inverse = NULL;
    int64_t axes[TCC_MAX_RANK];
    ir_expr shape[TCC_MAX_RANK];
    int n = pt2_exprs(p, "normalized_shape", TCC_MAX_RANK, shape);
    double epsilon = pt2_f(p, "eps",
                           !arg                           ? 1e-5
                           : x && imp_dtype(x) == TCC_F64 ? 2.220446049250313e-16
                                                          : 1.1920928955078125e-07);
    pt2_ignore(p, "cudnn_enable");
    if (!x || n < 1 || n > imp_rank(x))
        return false;
    imp_axes_from(imp_rank(x) - n, imp_rank(x), axes);
    struct ir_value *y = arg ? imp_rms_normalise(p->im, x, n, axes, epsilon, &inverse)
                             : imp_normalise(p->im, x, n, axes, epsilon, &mean, &inverse);
    return pt2_out(p, 0, imp_scaled(p->im, y, weight, bias)) &&
           (!pt2_wants(p, 1) || pt2_out(p, 1, arg ? inverse : mean)) && (!pt2_wants(p, 2) || pt2_out(p, 2, inverse));
}

/* native_group_norm(input, weight, bias, N, C, HxW, group, eps), group_norm(input, num_groups, ...) */
bool aten_group_norm(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *x = imp_wide(im, pt2_need(p, "input")), *weight = x ? pt2_t(p, "weight") : NULL,
                    *bias = x ? pt2_t(p, "bias") : NULL, *mean, *inverse;
    int64_t axes[TCC_MAX_RANK], groups = pt2_i(p, pt2_given(p, "group") ? "group" : "num_groups", 1);
    double epsilon = pt2_f(p, "eps", 1e-5);
    pt2_ignore(p, "N", "C", "HxW", "cudnn_enabled");
    if (!x || imp_rank(x) < 2 || imp_rank(x) >= TCC_MAX_RANK || groups < 1)
        return false;
    int rank = imp_rank(x), n;
    struct ir_value *y = imp_grouped(im, x, 1, groups, &n, axes);
    y = imp_normalise(im, y, n, axes, epsilon, &mean, &inverse);
    y = imp_reshape(im, y, rank, x->type->dim);
    struct ir_value *bias_along = imp_along(im, bias, 1, rank);
    y = imp_scaled(p->im, y, imp_along(im, weight, 1, rank), bias_along);
    return pt2_out(p, 0, y) && (!pt2_wants(p, 1) || pt2_out(p, 1, imp_squeeze(im, mean, n, axes))) &&
           (!pt2_wants(p, 2) || pt2_out(p, 2, imp_squeeze(im, inverse, n, axes)));
}

/* -- Batch normalisation */

static bool read_batch_norm(struct pt2 *p, bool *training, struct imp_batch_norm *b)
{
    double momentum = pt2_f(p, "momentum", 0.1);
    *b = (struct imp_batch_norm){pt2_need(p, "input"),     pt2_t(p, "weight"),      pt2_t(p, "bias"),
                                 pt2_t(p, "running_mean"), pt2_t(p, "running_var"), .epsilon = pt2_f(p, "eps", 1e-5),
                                 .keep = 1 - momentum,     .fresh = momentum};
    b->axis = imp_rank(b->x) > 1;
    *training = *training && !(p->eval && b->mean && b->var);
    return b->x && (*training || (b->mean && b->var) || imp_unsupported(p->im, "inference without running statistics"));
}

/* By the running statistics, in floats of 32 bits at least. */
static struct ir_value *inferred(struct pt2 *p, struct imp_batch_norm b)
{
    b.var = imp_wide(p->im, b.var);
    b.mean = imp_cast(p->im, b.mean, imp_dtype(b.var));
    return imp_batch_norm(p->im, &b);
}

bool pt2_write_operand(struct pt2 *p, const char *name, struct ir_value *v)
{
    json_t *inputs = js_array(p->at.node, "inputs");
    for (size_t k = 0; k < json_array_size(inputs); k++) {
        const char *called = js_string(json_array_get(inputs, k), "name");
        if (called && !strcmp(called, name))
            return pt2_write(p, pt2_named(p, json_object_get(json_array_get(inputs, k), "arg")), v);
    }
    return true;
}

/*
 * arg 0: batch_norm, _native_batch_norm_legit, native_batch_norm: the argument `training` says, and running statistics
 * are written in place. 1: _native_batch_norm_legit_no_training. 2: ..._functional, whose last results are the new
 * running statistics.
 */
bool aten_batch_norm(struct pt2 *p)
{
    int arg = p->row->arg;
    struct imp_batch_norm b;
    bool training = arg != 1 && pt2_b(p, "training", true);
    pt2_ignore(p, "cudnn_enabled");
    if (!read_batch_norm(p, &training, &b))
        return false;
    enum tcc_dtype d = tcc_small_float(imp_dtype(b.x)) ? TCC_F32 : imp_dtype(b.x);
    struct ir_value *y = training ? imp_batch_norm_train(p->im, &b, d) : inferred(p, b);
    ir_expr none = ir_const(p->ctx, 0);
    struct ir_value *empty = imp_splat(p->im, TCC_F32, 0, 1, &none);
    bool infers = !training && p->eval; /* what a program that trains expects of shapes */
    struct ir_value *mean = training ? b.batch_mean
                            : infers ? b.mean
                                     : empty,
                    *inverse = training ? b.inverse
                               : infers ? b.var
                                        : empty;
    if (!pt2_out(p, 0, y) || (pt2_wants(p, 1) && !pt2_out(p, 1, mean)) || (pt2_wants(p, 2) && !pt2_out(p, 2, inverse)))
        return false;
    if (arg == 2)
        return pt2_out(p, 3, training ? b.next[0] : b.mean) && pt2_out(p, 4, training ? b.next[1] : b.var);
    return !training || !b.mean ||
           (pt2_write_operand(p, "running_mean", b.next[0]) && pt2_write_operand(p, "running_var", b.next[1]));
}

/* instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled) */
bool aten_instance_norm(struct pt2 *p)
{
    struct imp *im = p->im;
    struct imp_batch_norm b;
    bool training = false;
    int64_t axes[TCC_MAX_RANK];
    pt2_ignore(p, "cudnn_enabled");
    if (!pt2_b(p, "use_input_stats", true))
        return read_batch_norm(p, &training, &b) && pt2_out(p, 0, inferred(p, b));
    struct ir_value *x = pt2_need(p, "input"), *weight = x ? pt2_t(p, "weight") : NULL,
                    *bias = x ? pt2_t(p, "bias") : NULL;
    if (!x || pt2_given(p, "running_mean"))
        return x && imp_unsupported(im, "running statistics that are written");
    pt2_ignore(p, "running_var", "momentum");
    int rank = imp_rank(x), n = imp_axes_from(2, rank, axes);
    double epsilon = pt2_f(p, "eps", 1e-5);
    struct ir_value *y = imp_normalise(im, imp_wide(im, x), n, axes, epsilon, NULL, NULL);
    struct ir_value *bias_along = imp_along(im, bias, 1, rank);
    return pt2_out(p, 0, imp_scaled(p->im, y, imp_along(im, weight, 1, rank), bias_along));
}

/* -- Backward */

/* By the operand of (x - mean) * inverse, `over` whose axes; h: the gradient by that. (h - mean(h) - xhat mean(h xhat))
 * inverse */
static struct ir_value *normalise_backward(struct pt2 *p, struct ir_value *h, struct ir_value *xhat,
                                           struct ir_value *inverse, int n, const int64_t *axes)
{
    struct imp *im = p->im;
    struct ir_value *a = imp_mean(im, h, n, axes, true), *b = imp_mean(im, imp_bin(im, IR_mul, h, xhat), n, axes, true);
    return imp_formula(im, "(x - y - z * u) * v", h, a, xhat, b, inverse);
}

bool aten_layer_norm_backward(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *dy = imp_wide(im, pt2_need(p, "grad_out")), *x = dy ? imp_wide(im, pt2_need(p, "input")) : NULL;
    ir_expr shape[TCC_MAX_RANK];
    int64_t inner[TCC_MAX_RANK], outer[TCC_MAX_RANK];
    int n = pt2_exprs(p, "normalized_shape", TCC_MAX_RANK, shape);
    pt2_ignore(p, "bias", "output_mask");
    struct ir_value *mean = x ? pt2_need(p, "mean") : NULL, *inverse = mean ? pt2_need(p, "rstd") : NULL,
                    *weight = pt2_t(p, "weight");
    if (!inverse || n < 1 || n > imp_rank(x))
        return false;
    int first = imp_rank(x) - n;
    imp_axes_from(first, imp_rank(x), inner);
    imp_axes_from(0, first, outer);
    mean = imp_cast(im, mean, imp_dtype(x));
    inverse = imp_cast(im, inverse, imp_dtype(x));
    struct ir_value *xhat = imp_bin(im, IR_mul, imp_bin(im, IR_sub, x, mean), inverse);
    struct ir_value *h = imp_scaled(p->im, dy, weight, NULL);
    return (!pt2_wants(p, 0) || pt2_out(p, 0, normalise_backward(p, h, xhat, inverse, n, inner))) &&
           (!pt2_wants(p, 1) ||
            pt2_out(p, 1, imp_reduce(im, IR_reduce_sum, imp_bin(im, IR_mul, dy, xhat), first, outer, false))) &&
           (!pt2_wants(p, 2) || pt2_out(p, 2, imp_reduce(im, IR_reduce_sum, dy, first, outer, false)));
}

bool aten_group_norm_backward(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *dy = imp_wide(im, pt2_need(p, "grad_out")), *x = dy ? imp_wide(im, pt2_need(p, "input")) : NULL;
    struct ir_value *mean = x ? pt2_need(p, "mean") : NULL, *inverse = mean ? pt2_need(p, "rstd") : NULL,
                    *weight = pt2_t(p, "weight");
    int64_t axes[TCC_MAX_RANK], sums[TCC_MAX_RANK], groups = pt2_i(p, "group", 1);
    pt2_ignore(p, "N", "C", "HxW", "output_mask");
    if (!inverse || imp_rank(x) < 2 || imp_rank(x) >= TCC_MAX_RANK || groups < 1)
        return false;
    int rank = imp_rank(x), n;
    struct ir_value *parts = imp_grouped(im, x, 1, groups, &n, axes);
    mean = imp_unsqueeze(im, imp_cast(im, mean, imp_dtype(x)), n, axes);
    inverse = imp_unsqueeze(im, imp_cast(im, inverse, imp_dtype(x)), n, axes);
    struct ir_value *xhat = imp_bin(im, IR_mul, imp_bin(im, IR_sub, parts, mean), inverse);
    struct ir_value *h = imp_scaled(im, dy, imp_along(im, weight, 1, rank), NULL);
    h = imp_grouped(im, h, 1, groups, &n, axes);
    struct ir_value *dx = normalise_backward(p, h, xhat, inverse, n, axes),
                    *flat = xhat ? imp_reshape(im, xhat, rank, x->type->dim) : NULL;
    sums[0] = 0;
    imp_axes_from(2, rank, sums + 1);
    return dx && (!pt2_wants(p, 0) || pt2_out(p, 0, imp_reshape(im, dx, rank, x->type->dim))) &&
           (!pt2_wants(p, 1) ||
            pt2_out(p, 1, imp_reduce(im, IR_reduce_sum, imp_bin(im, IR_mul, dy, flat), rank - 1, sums, false))) &&
           (!pt2_wants(p, 2) || pt2_out(p, 2, imp_reduce(im, IR_reduce_sum, dy, rank - 1, sums, false)));
}

/* embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq) */
bool aten_embedding_backward(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *dy = pt2_need(p, "grad_output"), *index = dy ? pt2_need(p, "indices") : NULL;
    ir_expr rows = pt2_e(p, "num_weights", 0);
    int64_t padding = pt2_i(p, "padding_idx", -1), last;
    if (!index || !rows || pt2_b(p, "scale_grad_by_freq", false))
        return index && imp_unsupported(im, "scale_grad_by_freq");
    last = imp_rank(index);
    index = imp_unsqueeze(im, imp_cast(im, index, TCC_I64), 1, &last);
    struct ir_value *learns = imp_bin(im, IR_ne, index, imp_int(im, TCC_I64, padding));
    ir_expr dims[] = {rows, imp_dim(dy, imp_rank(dy) - 1)};
    struct ir_value *in[] = {imp_splat(im, imp_dtype(dy), 0, 2, dims), index,
                             imp_select(im, learns, dy, imp_like(im, dy, 0))};
    return pt2_out(p, 0, imp_op(im, IR_scatter_nd, 3, in, IR_ATTRS(ir_attr_s(IR_ATTR_mode, "add"))));
}

/* All axes but one, or (-1) all of them. */
static int axes_but(const struct ir_value *v, int64_t axis, int64_t *axes)
{
    int n = 0;
    for (int k = 0; k < imp_rank(v); k++)
        if (k != axis + (axis < -1 ? imp_rank(v) : 0))
            axes[n++] = k;
    return n;
}

/* _weight_norm(v, g, dim): v g / norm, over all axes but `dim`; _weight_norm_interface gives the norms too */
bool aten_weight_norm(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *v = pt2_need(p, "v"), *g = v ? pt2_need(p, "g") : NULL;
    int64_t axis = pt2_i(p, "dim", 0), axes[TCC_MAX_RANK];
    if (!g)
        return false;
    int n = axes_but(v, axis, axes);
    struct ir_value *wide = imp_wide(im, v);
    struct ir_value *norm = pt2_root(p, imp_reduce(im, IR_reduce_sum, imp_un(im, IR_square, wide), n, axes, true));
    struct ir_value *y = imp_bin(im, IR_mul, wide, imp_bin(im, IR_div, imp_cast(im, g, imp_dtype(wide)), norm));
    return pt2_out(p, 0, y) && (!pt2_wants(p, 1) || pt2_out(p, 1, norm));
}

/*
 * _weight_norm_interface_backward(grad_w, saved_v, saved_g, saved_norms, dim): of w = g v / |v|, with s = the sum of dw
 * v along what the norm is of, dg = s / |v| and dv = g (dw - v s / |v|^2) / |v|.
 */
bool aten_weight_norm_backward(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *dw = pt2_need(p, "grad_w"), *v = dw ? pt2_need(p, "saved_v") : NULL,
                    *g = v ? pt2_need(p, "saved_g") : NULL, *norm = g ? pt2_need(p, "saved_norms") : NULL;
    int64_t axis = pt2_i(p, "dim", 0), axes[TCC_MAX_RANK];
    if (!norm)
        return false;
    int n = axes_but(v, axis, axes);
    struct ir_value *wide = imp_wide(im, v);
    enum tcc_dtype d = wide ? imp_dtype(wide) : TCC_F32;
    dw = imp_cast(im, dw, d);
    norm = imp_cast(im, norm, d);
    struct ir_value *s = imp_reduce(im, IR_reduce_sum, imp_bin(im, IR_mul, dw, wide), n, axes, true);
    struct ir_value *dg = imp_bin(im, IR_div, s, norm);
    struct ir_value *dv = imp_formula(im, "x / y * (z - u / y * v)", imp_cast(im, g, d), norm, dw, wide, dg);
    return dv && pt2_out(p, 0, dv) && pt2_out(p, 1, dg ? imp_reshape(im, dg, imp_rank(g), g->type->dim) : NULL);
}

/* -- Norms that are bounded */

/* x's parts along an axis, each with a p-norm of `most` at most. */
static struct ir_value *renormed(struct pt2 *p, struct ir_value *x, int64_t axis, double order, double most)
{
    int64_t axes[TCC_MAX_RANK];
    int n = 0;
    struct ir_value *wide = imp_wide(p->im, x);
    for (int k = 0; wide && k < imp_rank(wide); k++)
        if (k != axis)
            axes[n++] = k;
    struct ir_value *norm = pt2_norm(p, wide, order, n, axes, true);
    struct ir_value *y = imp_formula_n(p->im, "y * select(gt(x, a), a / (x + 1e-7), 1)", IMP_NUMBERS(most), norm, wide);
    return y ? imp_cast(p->im, y, imp_dtype(x)) : NULL;
}

/* renorm(self, p, dim, maxnorm) */
bool aten_renorm(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    double order = pt2_f(p, "p", 2), most = pt2_f(p, "maxnorm", 0);
    int64_t axis;
    if (!x || imp_rank(x) < 2 || order <= 0 || most < 0)
        return x && imp_bad(p->im, "two dims at least, p > 0 and a norm that is not negative are expected");
    return pt2_axis(p, "dim", 0, imp_rank(x), &axis) && pt2_out(p, 0, renormed(p, x, axis, order, most));
}

/* embedding_renorm(self, indices, max_norm, norm_type): of those rows that are read */
bool aten_embedding_renorm(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *x = pt2_need(p, "self"), *index = x ? pt2_need(p, "indices") : NULL;
    double order = pt2_f(p, "norm_type", 2), most = pt2_f(p, "max_norm", 0);
    if (!index || imp_rank(x) != 2)
        return index && imp_bad(im, "%s; a table of rows is expected", ir_type_text(p->ctx, x->type));
    const int64_t behind = 1;
    index = pt2_flat(p, imp_from_zero(p->im, index));
    struct ir_value *in[] = {imp_splat(im, TCC_I32, 0, 1, x->type->dim), index,
                             index ? imp_splat(im, TCC_I32, 1, 1, index->type->dim) : NULL};
    struct ir_value *read = in[2] ? imp_op(im, IR_scatter_elements, 3, in,
                                           IR_ATTRS(ir_attr_i(IR_ATTR_axis, 0), ir_attr_s(IR_ATTR_mode, "none")))
                                  : NULL;
    struct ir_value *rows = imp_unsqueeze(im, read, 1, &behind);
    struct ir_value *renormed_rows = rows ? renormed(p, x, 0, order, most) : NULL;
    return rows && pt2_out(p, 0, imp_select(im, imp_with(im, IR_ne, rows, 0), renormed_rows, x));
}
