/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sequences and optionals: library ops on objects. Where their structure is known (items.c) an item is the tensor that
 * went in, a piece a slice, a concatenation one of tensors. What depends on values of the run stays a library op.
 */
#include "compiler/onnx/import_int.h"

#define MAX_ITEMS 256 /* pieces that a tensor is split into when compiling */

/* -- Types */

static ir_type tensor_of(struct imp *im, ir_type t)
{
    return t->kind == IR_T_TENSOR && t->rank >= 0 && !ir_static_dims(t, NULL)
               ? ir_unranked_type(im->ctx, (enum tcc_dtype)t->dtype)
               : t;
}

/* The element type that both fit: the same, or without a shape. */
static ir_type join_types(struct imp *im, ir_type a, ir_type b)
{
    return a == b || a->kind != IR_T_TENSOR || b->kind != IR_T_TENSOR
               ? a
               : ir_unranked_type(im->ctx, (enum tcc_dtype)a->dtype);
}

static ir_type sequence_operand(struct imp *im, int k)
{
    struct ir_value *v = imp_in(im, k);
    ir_type t = v ? v->type : NULL;
    if (t && t->kind == IR_T_OPTIONAL)
        t = t->elem;
    if (t && t->kind == IR_T_SEQUENCE && t->elem)
        return t;
    return imp_bad(im, "operand %d is %s; a sequence is expected", k, v ? ir_type_text(im->ctx, v->type) : "missing"),
           NULL;
}

/* -- Known structure */

/* Of an optional sequence: of the sequence in it. */
static const struct imp_items *items_in(struct imp *im)
{
    struct ir_value *v = imp_in(im, 0);
    const struct imp_items *items = imp_items_of(im, v);
    bool optional = items && v->type->kind == IR_T_OPTIONAL;
    return optional ? (items->n ? imp_items_of(im, items->at[0]) : NULL) : items;
}

/* Operand k as a position among n items (`end`: behind the last, too), `otherwise` where it is not given; -1: it is not
 * known, or there is none such. */
static int position(struct imp *im, int k, int n, int otherwise, bool end)
{
    int64_t at;
    if (!imp_in(im, k))
        return otherwise;
    if (imp_ints_of(im, imp_in(im, k), 1, &at) != 1)
        return -1;
    at += at < 0 ? n : 0;
    return at >= 0 && at < n + end ? (int)at : -1;
}

/* Can the items be put together on that axis? What is not certain when compiling is taken as Concat takes it. */
static bool fit(struct imp *im, const struct imp_items *items, int64_t axis, bool stack)
{
    ir_type first = items->n ? items->at[0]->type : NULL;
    if (!first || !ir_is_tensor(first) || first->rank + stack > TCC_MAX_RANK || axis < -first->rank - stack ||
        axis >= first->rank + stack)
        return false;
    axis += axis < 0 ? first->rank + stack : 0;
    for (int i = 0; i < items->n; i++) {
        ir_type t = items->at[i]->type;
        if (!ir_is_tensor(t) || t->dtype != first->dtype || t->rank != first->rank)
            return false;
        for (int a = 0; a < t->rank; a++)
            if ((stack || a != axis) && ir_expr_eq(im->ctx, t->dim[a], first->dim[a]) == IR_NO)
                return false;
    }
    return true;
}

/* Are they of one type, for certain? */
static bool alike(struct imp *im, const struct imp_items *items)
{
    if (!fit(im, items, 0, true))
        return false;
    for (int i = 1; i < items->n; i++)
        for (int a = 0; a < items->at[0]->type->rank; a++)
            if (ir_expr_eq(im->ctx, items->at[i]->type->dim[a], items->at[0]->type->dim[a]) != IR_YES)
                return false;
    return true;
}

/* Items that fit, one behind the other on an axis, or on a new one. */
static struct ir_value *join(struct imp *im, const struct imp_items *items, int64_t axis, bool stack)
{
    int rank = imp_rank(items->at[0]) + stack;
    struct ir_value **in = IR_NEWN(im->ctx, items->n, struct ir_value *);
    axis += axis < 0 ? rank : 0;
    for (int i = 0; i < items->n; i++)
        in[i] = stack ? imp_unsqueeze(im, items->at[i], 1, &axis) : items->at[i];
    return imp_concat(im, items->n, in, (int)axis);
}

/* -- Sequences */

struct ir_value *imp_sequence(struct imp *im, int n, struct ir_value *const *at)
{
    ir_type elem = NULL;
    for (int k = 0; k < n; k++)
        elem = elem ? join_types(im, elem, tensor_of(im, at[k]->type)) : tensor_of(im, at[k]->type);
    ir_type t = ir_sequence_type(im->ctx, elem);
    struct ir_node *made = imp_lib(im, "sequence_construct", n, at, 1, &t, NULL);
    return made && imp_set_items(im, made->out[0], n, at) ? made->out[0] : NULL;
}

bool onnx_op_sequence_construct(struct imp *im)
{
    int n = imp_nin(im);
    struct ir_value **in = IR_NEWN(im->ctx, n + 1, struct ir_value *);
    for (int k = 0; k < n; k++)
        if (!(in[k] = imp_in(im, k)))
            return imp_bad(im, "operand %d is missing", k);
    return n ? imp_out(im, 0, imp_sequence(im, n, in)) : imp_bad(im, "no operands");
}

bool onnx_op_sequence_empty(struct imp *im)
{
    enum tcc_dtype d = imp_dtype_of(im, imp_i(im, "dtype", 1));
    ir_type t = d == TCC_NONE ? NULL : ir_sequence_type(im->ctx, ir_unranked_type(im->ctx, d));
    return t && imp_lib_node(im, "sequence_empty", 1, &t, NULL) && imp_set_items(im, im->outs[0], 0, NULL);
}

/* What the changed sequence holds, if that is known. */
static bool note_change(struct imp *im, bool insert, struct ir_value *x)
{
    const struct imp_items *items = items_in(im);
    int at = items ? position(im, insert ? 2 : 1, items->n, insert ? items->n : items->n - 1, insert) : -1, n = 0;
    if (at < 0)
        return true;
    struct ir_value **now = IR_NEWN(im->ctx, items->n + 1, struct ir_value *);
    for (int i = 0; i <= items->n; i++) {
        if (i == at && insert)
            now[n++] = x;
        if (i < items->n && (i != at || insert))
            now[n++] = items->at[i];
    }
    return imp_set_items(im, im->outs[0], n, now);
}

/* The result of an operation that changes a sequence; `x`: what comes in, may be NULL. */
bool onnx_op_sequence_change(struct imp *im)
{
    int arg = im->row->arg;
    ir_type t = sequence_operand(im, 0);
    struct ir_value *x = arg ? imp_in(im, 1) : NULL;
    if (!t)
        return false;
    if (x)
        t = ir_sequence_type(im->ctx, join_types(im, t->elem, tensor_of(im, x->type)));
    return imp_lib_node(im, arg ? "sequence_insert" : "sequence_erase", 1, &t, NULL) && note_change(im, arg, x);
}

bool onnx_op_sequence_at(struct imp *im)
{
    ir_type t = sequence_operand(im, 0);
    const struct imp_items *items = items_in(im);
    int at = items ? position(im, 1, items->n, -1, false) : -1;
    if (!t)
        return false;
    if (at >= 0)
        return imp_out(im, 0, items->at[at]);
    if (im->training && items && alike(im, items) && imp_in(im, 1)) {
        struct ir_value *index = imp_single(im, imp_in(im, 1));
        return imp_out(im, 0, imp_gather(im, join(im, items, 0, true), index, 0));
    }
    ir_type e = t->elem->kind == IR_T_TENSOR && t->elem->rank < 0
                    ? imp_declared_result(im, 0, (enum tcc_dtype)t->elem->dtype)
                    : t->elem;
    return imp_lib_node(im, "sequence_at", 1, &e, NULL);
}

bool onnx_op_sequence_length(struct imp *im)
{
    ir_type t = ir_scalar_type(im->ctx, TCC_I64);
    const struct imp_items *items = items_in(im);
    if (items)
        return imp_out(im, 0, imp_int(im, TCC_I64, items->n));
    return sequence_operand(im, 0) && imp_lib_node(im, "sequence_length", 1, &t, NULL);
}

/* The pieces' sizes; -1: they are not known. As runtime/libop/sequence.c has it, the axis of pieces of 1 goes where
 * keepdims is 0. */
static int piece_sizes(struct imp *im, ir_expr whole, ir_expr *sizes, bool *squeeze)
{
    struct ir_value *split = imp_in(im, 1);
    int64_t each = 1, length;
    *squeeze = false;
    if (split && imp_rank(split) != 0) {
        ir_expr total = ir_const(im->ctx, 0);
        int n = imp_exprs_of(im, split, MAX_ITEMS, sizes);
        for (int i = 0; i < n; i++) {
            total = ir_add(im->ctx, total, sizes[i]);
            if (ir_expr_le(im->ctx, ir_const(im->ctx, 0), sizes[i]) != IR_YES)
                return -1;
        }
        return n >= 0 && ir_expr_eq(im->ctx, total, whole) == IR_YES ? n : -1;
    }
    if ((split && imp_ints_of(im, split, 1, &each) != 1) || each < 1 || !ir_is_const(whole, &length) ||
        (length - 1) / each >= MAX_ITEMS)
        return -1;
    *squeeze = each == 1 && !imp_i(im, "keepdims", 1);
    int n = 0;
    for (int64_t at = 0; at < length; at += each)
        sizes[n++] = ir_const(im->ctx, each < length - at ? each : length - at);
    return n;
}

static bool note_pieces(struct imp *im, struct ir_value *x)
{
    ir_expr sizes[MAX_ITEMS], at = ir_const(im->ctx, 0);
    struct ir_value *pieces[MAX_ITEMS];
    int64_t axis = imp_i(im, "axis", 0);
    bool squeeze;
    if (!ir_is_tensor(x->type) || axis < -imp_rank(x) || axis >= imp_rank(x))
        return true;
    axis += axis < 0 ? imp_rank(x) : 0;
    int n = piece_sizes(im, imp_dim(x, (int)axis), sizes, &squeeze);
    for (int i = 0; i < n; i++) {
        pieces[i] = imp_slice1(im, x, (int)axis, at, sizes[i]);
        if (squeeze)
            pieces[i] = imp_squeeze(im, pieces[i], 1, &axis);
        at = ir_add(im->ctx, at, sizes[i]);
        if (!pieces[i])
            return false;
    }
    return n < 0 || imp_set_items(im, im->outs[0], n, pieces);
}

/* Pieces of 1 have one type; of others the sizes differ. */
static ir_type piece_type(struct imp *im, const struct ir_value *x)
{
    ir_expr dims[TCC_MAX_RANK];
    int64_t axis = imp_i(im, "axis", 0);
    int n = 0;
    if (imp_has(im, 1) || !ir_is_tensor(x->type) || axis < -imp_rank(x) || axis >= imp_rank(x))
        return ir_unranked_type(im->ctx, imp_dtype(x));
    axis += axis < 0 ? imp_rank(x) : 0;
    for (int k = 0; k < imp_rank(x); k++)
        if (k != axis || imp_i(im, "keepdims", 1))
            dims[n++] = k == axis ? ir_const(im->ctx, 1) : imp_dim(x, k);
    return ir_tensor_type(im->ctx, imp_dtype(x), n, dims);
}

bool onnx_op_split_to_sequence(struct imp *im)
{
    struct ir_value *x = imp_in(im, 0);
    if (!x || x->type->kind != IR_T_TENSOR)
        return imp_bad(im, "a tensor is expected");
    ir_type t = ir_sequence_type(im->ctx, piece_type(im, x));
    return imp_lib_node(im, "split_to_sequence", 1, &t, NULL) && note_pieces(im, x);
}

bool onnx_op_concat_from_sequence(struct imp *im)
{
    ir_type t = sequence_operand(im, 0);
    if (!t || t->elem->kind != IR_T_TENSOR)
        return t && imp_bad(im, "a sequence of tensors is expected");
    const struct imp_items *items = items_in(im);
    bool stack = imp_i(im, "new_axis", 0) != 0;
    int64_t axis = imp_i(im, "axis", 0);
    if (items && fit(im, items, axis, stack))
        return imp_out(im, 0, join(im, items, axis, stack));
    ir_type e = imp_declared_result(im, 0, (enum tcc_dtype)t->elem->dtype);
    if (e->rank < 0 && t->elem->rank >= 0)
        e = imp_fresh_type(im, (enum tcc_dtype)t->elem->dtype, t->elem->rank + stack, NULL);
    return imp_lib_node(im, "concat_from_sequence", 1, &e, NULL);
}

/* -- Optionals */

bool onnx_op_optional(struct imp *im)
{
    const struct onnx_attr *a = imp_attr(im, "type");
    struct ir_value *x = imp_in(im, 0);
    ir_type e = x ? x->type : a && a->type == ONNX_ATTR_TYPE ? imp_type_of(im, a->tp) : NULL;
    if (!e)
        return imp_bad(im, "neither a value nor its type is given");
    ir_type t = ir_optional_type(im->ctx, e);
    return imp_lib_node(im, "optional", 1, &t, NULL) && imp_set_items(im, im->outs[0], x != NULL, &x);
}

bool onnx_op_optional_has(struct imp *im)
{
    struct ir_value *x = imp_in(im, 0);
    if (!x || x->type->kind != IR_T_OPTIONAL)
        return imp_out(im, 0, imp_int(im, TCC_BOOL, x != NULL));
    if (imp_items_of(im, x))
        return imp_out(im, 0, imp_int(im, TCC_BOOL, imp_items_of(im, x)->n));
    ir_type t = ir_scalar_type(im->ctx, TCC_BOOL);
    return imp_lib_node(im, "optional_has_element", 1, &t, NULL);
}

/* Of a value that is no optional: itself. */
bool onnx_op_optional_get(struct imp *im)
{
    struct ir_value *x = imp_in(im, 0);
    if (!x)
        return imp_bad(im, "operand 0 is missing");
    if (x->type->kind != IR_T_OPTIONAL)
        return imp_out(im, 0, x);
    const struct imp_items *items = imp_items_of(im, x);
    if (items && items->n)
        return imp_out(im, 0, items->at[0]);
    ir_type t = x->type->elem;
    if (!t)
        return imp_unsupported(im, "an optional of unknown type");
    if (t->kind == IR_T_TENSOR && t->rank < 0)
        t = imp_declared_result(im, 0, (enum tcc_dtype)t->dtype);
    return imp_lib_node(im, "optional_get_element", 1, &t, NULL);
}
