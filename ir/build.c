/* SPDX-License-Identifier: Apache-2.0 */
/* build.c - building nodes with inference, and the shorthands for common nodes. */

#include "ir/ir_int.h"

/* Number of outputs of a node about to be built: the table's, or the length of attribute `types`. */
static int count_outputs(enum ir_op op, const struct ir_attr *attrs)
{
    int nout = ir_op_info(op)->nout;
    for (; nout < 0 && attrs && attrs->key != IR_ATTR_NONE; attrs++) {
        if (attrs->key == IR_ATTR_types && attrs->kind == IR_A_TYPES)
            return attrs->n;
    }
    return nout < 0 ? 0 : nout;
}

struct ir_node *ir_build(struct ir_builder *b, enum ir_op op, int nin, struct ir_value *const *in,
                         const struct ir_attr *attrs)
{
    struct ir_node *n = ir_build_typed(b, op, nin, in, attrs, count_outputs(op, attrs), NULL);
    if (ir_infer_node(b->ctx, n))
        return n;
    ir_remove(n);
    return NULL;
}

struct ir_node *ir_return(struct ir_builder *b, int n, struct ir_value *const *values, const char *const *names)
{
    struct ir_node *r = ir_build(b, IR_return, n, values, NULL);
    if (r && names) {
        b->func->output_names = IR_NEWN(b->ctx, n, const char *);
        for (int i = 0; i < n; i++)
            b->func->output_names[i] = names[i] ? ir_intern(b->ctx, names[i]) : NULL;
    }
    ir_state_versions(b->func);
    return r;
}

struct ir_value *ir_build1(struct ir_builder *b, enum ir_op op, int nin, struct ir_value *const *in,
                           const struct ir_attr *attrs)
{
    for (int i = 0; i < nin; i++) {
        if (!in[i] && !ir_operand_optional(op, i))
            return NULL;
    }
    struct ir_node *n = ir_build(b, op, nin, in, attrs);
    return n && n->nout ? n->out[0] : NULL;
}

struct ir_value *ir_unary(struct ir_builder *b, enum ir_op op, struct ir_value *x)
{
    return ir_build1(b, op, 1, &x, NULL);
}

struct ir_value *ir_binary(struct ir_builder *b, enum ir_op op, struct ir_value *x, struct ir_value *y)
{
    return ir_build1(b, op, 2, (struct ir_value *[]){x, y}, NULL);
}

struct ir_value *ir_select(struct ir_builder *b, struct ir_value *which, struct ir_value *x, struct ir_value *y)
{
    return ir_build1(b, IR_select, 3, (struct ir_value *[]){which, x, y}, NULL);
}

struct ir_value *ir_constant(struct ir_builder *b, struct ir_tensor *t)
{
    if (!t)
        ir_no_memory(b->ctx);
    struct ir_value *v = ir_build1(b, IR_constant, 0, NULL, IR_ATTRS(ir_attr_t(IR_ATTR_value, t)));
    ir_tensor_unref(t);
    return v;
}

struct ir_value *ir_constant_f(struct ir_builder *b, enum tcc_dtype dtype, double v)
{
    return ir_constant(b, ir_tensor_scalar_f(dtype, v));
}

struct ir_value *ir_constant_i(struct ir_builder *b, enum tcc_dtype dtype, int64_t v)
{
    return ir_constant(b, ir_tensor_scalar_i(dtype, v));
}

struct ir_value *ir_cast_to(struct ir_builder *b, struct ir_value *x, enum tcc_dtype to)
{
    if (!x || x->type->dtype == to)
        return x;
    return ir_build1(b, IR_cast, 1, &x, IR_ATTRS(ir_attr_dtype(IR_ATTR_to, to)));
}

struct ir_value *ir_reshape_to(struct ir_builder *b, struct ir_value *x, int rank, const ir_expr *dims)
{
    return ir_build1(b, IR_reshape, 1, &x, IR_ATTRS(ir_attr_exprs(IR_ATTR_shape, rank, dims)));
}

struct ir_value *ir_transpose_by(struct ir_builder *b, struct ir_value *x, const int64_t *perm)
{
    if (!x)
        return NULL;
    return ir_build1(b, IR_transpose, 1, &x,
                     IR_ATTRS(ir_attr_ints(IR_ATTR_perm, x->type->rank < 0 ? 0 : x->type->rank, perm)));
}

struct ir_value *ir_expand_to(struct ir_builder *b, struct ir_value *x, int rank, const ir_expr *dims)
{
    return ir_build1(b, IR_expand, 1, &x, IR_ATTRS(ir_attr_exprs(IR_ATTR_shape, rank, dims)));
}

struct ir_value *ir_slice(struct ir_builder *b, struct ir_value *x, const ir_expr *starts, const ir_expr *sizes,
                          const ir_expr *steps)
{
    int n = x ? x->type->rank : 0;
    return ir_build1(b, IR_slice, 1, &x,
                     IR_ATTRS(ir_attr_exprs(IR_ATTR_starts, n, starts), ir_attr_exprs(IR_ATTR_sizes, n, sizes),
                              ir_attr_exprs(IR_ATTR_steps, n, steps)));
}

struct ir_value *ir_slice_axis(struct ir_builder *b, struct ir_value *x, int axis, ir_expr start, ir_expr size)
{
    ir_expr starts[TCC_MAX_RANK], sizes[TCC_MAX_RANK], steps[TCC_MAX_RANK];
    for (int i = 0; x && i < x->type->rank; i++) {
        starts[i] = i == axis ? start : ir_const(b->ctx, 0);
        sizes[i] = i == axis ? size : x->type->dim[i];
        steps[i] = ir_const(b->ctx, 1);
    }
    return ir_slice(b, x, starts, sizes, steps);
}

struct ir_value *ir_pad(struct ir_builder *b, struct ir_value *x, struct ir_value *with, const ir_expr *before,
                        const ir_expr *after)
{
    struct ir_value *in[] = {x, with};
    bool any = false;
    int n = x ? x->type->rank : 0;
    for (int i = 0; i < n; i++)
        any |= !ir_is_value(before[i], 0) || !ir_is_value(after[i], 0);
    return any ? ir_build1(b, IR_pad, with ? 2 : 1, in,
                           IR_ATTRS(ir_attr_exprs(IR_ATTR_before, n, before), ir_attr_exprs(IR_ATTR_after, n, after),
                                    ir_attr_s(IR_ATTR_mode, "constant")))
               : x;
}

struct ir_value *ir_pad_axis(struct ir_builder *b, struct ir_value *x, struct ir_value *with, int axis, ir_expr before,
                             ir_expr after)
{
    ir_expr in_front[TCC_MAX_RANK], behind[TCC_MAX_RANK];
    for (int i = 0; x && i < x->type->rank; i++) {
        in_front[i] = i == axis ? before : ir_const(b->ctx, 0);
        behind[i] = i == axis ? after : ir_const(b->ctx, 0);
    }
    return ir_pad(b, x, with, in_front, behind);
}

struct ir_value *ir_concat(struct ir_builder *b, int n, struct ir_value *const *in, int64_t axis)
{
    return ir_build1(b, IR_concat, n, in, IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis)));
}

struct ir_value *ir_gather(struct ir_builder *b, struct ir_value *x, struct ir_value *index, int64_t axis)
{
    struct ir_value *in[] = {x, index};
    return ir_build1(b, IR_gather, 2, in, IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis)));
}

struct ir_value *ir_iota(struct ir_builder *b, int rank, const ir_expr *dims, int axis, enum tcc_dtype to)
{
    return ir_build1(b, IR_iota, 0, NULL,
                     IR_ATTRS(ir_attr_exprs(IR_ATTR_shape, rank, dims), ir_attr_i(IR_ATTR_axis, axis),
                              ir_attr_dtype(IR_ATTR_to, to)));
}

struct ir_value *ir_dim_value(struct ir_builder *b, ir_expr e)
{
    return ir_build1(b, IR_dim, 0, NULL, IR_ATTRS(ir_attr_exprs(IR_ATTR_exprs, 1, &e)));
}

struct ir_value *ir_reduce(struct ir_builder *b, enum ir_op op, struct ir_value *x, int n, const int64_t *axes,
                           bool keep)
{
    return ir_build1(b, op, 1, &x, IR_ATTRS(ir_attr_ints(IR_ATTR_axes, n, axes), ir_attr_i(IR_ATTR_keepdims, keep)));
}

struct ir_value *ir_reduce_from(struct ir_builder *b, enum ir_op op, struct ir_value *x, int first)
{
    int64_t axes[TCC_MAX_RANK];
    int n = x ? x->type->rank - first : 0;
    for (int i = 0; i < n; i++)
        axes[i] = first + i;
    return n > 0 ? ir_reduce(b, op, x, n, axes, false) : x;
}

struct ir_value *ir_matmul(struct ir_builder *b, struct ir_value *x, struct ir_value *y, bool trans_x, bool trans_y,
                           enum tcc_dtype to)
{
    struct ir_value *in[] = {x, y};
    return ir_build1(b, IR_matmul, 2, in,
                     IR_ATTRS(ir_attr_i(IR_ATTR_trans_a, trans_x), ir_attr_i(IR_ATTR_trans_b, trans_y),
                              ir_attr_dtype(IR_ATTR_to, to)));
}

struct ir_value *ir_state_version(struct ir_builder *b, struct ir_state *s)
{
    ir_type type = ir_version_type(b->ctx, s);
    return ir_build1(b, IR_state_version, 0, NULL, IR_ATTRS(ir_attr_types(IR_ATTR_types, 1, &type)));
}

struct ir_value *ir_read_state(struct ir_builder *b, struct ir_state *s)
{
    struct ir_value *version = ir_state_version(b, s);
    return ir_build1(b, IR_state_read, 1, &version, NULL);
}

bool ir_write_state(struct ir_builder *b, struct ir_state *s, struct ir_value *v)
{
    struct ir_value *in[] = {v, v ? ir_state_version(b, s) : NULL};
    return v && ir_build1(b, IR_state_write, 2, in, NULL);
}
