/* SPDX-License-Identifier: Apache-2.0 */
/* move.c - what front ends build nodes of: casts, and moves of elements (reshape, expand, slice, concat, ...). */
#include "compiler/import/import.h"

#include "base/index.h"

struct ir_value *imp_cast(struct imp *im, struct ir_value *x, enum tcc_dtype to)
{
    if (!x || imp_dtype(x) == to)
        return x;
    if (to == TCC_NONE)
        return imp_unsupported(im, "a value of a type that there is not here"), NULL;
    return imp_op(im, IR_cast, 1, &x, IR_ATTRS(ir_attr_dtype(IR_ATTR_to, to)));
}

struct ir_value *imp_wide(struct imp *im, struct ir_value *x)
{
    return x && imp_is_float(x) ? imp_cast(im, x, tcc_wide_float(imp_dtype(x))) : x;
}

static bool same_dims(const struct ir_value *x, int rank, const ir_expr *dims)
{
    bool same = imp_rank(x) == rank;
    for (int k = 0; k < rank && same; k++)
        same = imp_dim(x, k) == dims[k];
    return same;
}

static struct ir_value *shaped(struct imp *im, enum ir_op op, struct ir_value *x, int rank, const ir_expr *dims)
{
    if (!x || same_dims(x, rank, dims))
        return x;
    return imp_op(im, op, 1, &x, IR_ATTRS(ir_attr_exprs(IR_ATTR_shape, rank, dims)));
}

struct ir_value *imp_reshape(struct imp *im, struct ir_value *x, int rank, const ir_expr *dims)
{
    return shaped(im, IR_reshape, x, rank, dims);
}

struct ir_value *imp_transpose(struct imp *im, struct ir_value *x, const int64_t *perm)
{
    bool identity = true;
    for (int k = 0; x && k < imp_rank(x); k++)
        identity &= perm[k] == k;
    if (!x || identity)
        return x;
    return imp_op(im, IR_transpose, 1, &x, IR_ATTRS(ir_attr_ints(IR_ATTR_perm, imp_rank(x), perm)));
}

struct ir_value *imp_expand(struct imp *im, struct ir_value *x, int rank, const ir_expr *dims)
{
    return shaped(im, IR_expand, x, rank, dims);
}

struct ir_value *imp_slice(struct imp *im, struct ir_value *x, const ir_expr *starts, const ir_expr *sizes,
                           const ir_expr *steps)
{
    bool whole = x != NULL;
    for (int k = 0; x && k < imp_rank(x); k++)
        whole &= ir_is_value(starts[k], 0) && sizes[k] == imp_dim(x, k) && ir_is_value(steps[k], 1);
    if (!x || whole)
        return x;
    int n = imp_rank(x);
    return imp_op(im, IR_slice, 1, &x,
                  IR_ATTRS(ir_attr_exprs(IR_ATTR_starts, n, starts), ir_attr_exprs(IR_ATTR_sizes, n, sizes),
                           ir_attr_exprs(IR_ATTR_steps, n, steps)));
}

struct ir_value *imp_slice1(struct imp *im, struct ir_value *x, int axis, ir_expr start, ir_expr size)
{
    ir_expr starts[TCC_MAX_RANK], sizes[TCC_MAX_RANK], steps[TCC_MAX_RANK];
    if (!x)
        return NULL;
    for (int k = 0; k < imp_rank(x); k++) {
        starts[k] = k == axis ? start : ir_const(im->ctx, 0);
        sizes[k] = k == axis ? size : imp_dim(x, k);
        steps[k] = ir_const(im->ctx, 1);
    }
    return imp_slice(im, x, starts, sizes, steps);
}

struct ir_value *imp_concat(struct imp *im, int n, struct ir_value *const *in, int axis)
{
    if (n == 1)
        return in[0];
    return imp_op(im, IR_concat, n, in, IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis)));
}

struct ir_value *imp_gather(struct imp *im, struct ir_value *x, struct ir_value *index, int axis)
{
    struct ir_value *in[] = {x, index};
    return imp_op(im, IR_gather, 2, in, IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis)));
}

/* Elements of a constant below 0. */
static bool any_negative(const struct ir_tensor *t)
{
    bool any = false;
    for (int64_t k = 0; k < (t->splat ? t->nelems > 0 : t->nelems) && !any; k++) {
        const void *at = ir_tensor_at(t, k);
        any = t->dtype == TCC_I64 ? *(const int64_t *)at < 0 : t->dtype != TCC_I32 || *(const int32_t *)at < 0;
    }
    return any;
}

struct ir_value *imp_from_zero(struct imp *im, struct ir_value *index)
{
    const struct ir_tensor *known = index ? ir_const_of(index) : NULL;
    if (!index || (known && !any_negative(known)))
        return index;
    index = imp_cast(im, index, TCC_I64);
    struct ir_value *difference = imp_bin(im, IR_sub, index, imp_int(im, TCC_I64, TCC_FROM_ZERO));
    return imp_select(im, imp_bin(im, IR_lt, index, imp_int(im, TCC_I64, 0)), difference, index);
}

struct ir_value *imp_gather_elements(struct imp *im, struct ir_value *x, struct ir_value *index, int axis)
{
    struct ir_value *in[] = {x, index};
    return imp_op(im, IR_gather_elements, 2, in, IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis)));
}

struct ir_value *imp_gather_row(struct imp *im, struct ir_value *table, struct ir_value *index)
{
    struct ir_value *wide = imp_cast(im, index, TCC_I64);
    return imp_gather(im, table, wide && ir_const_of(wide) ? wide : imp_from_zero(im, wide), 0);
}

struct ir_value *imp_pad(struct imp *im, struct ir_value *x, struct ir_value *fill, const ir_expr *before,
                         const ir_expr *after, const char *mode)
{
    struct ir_value *in[] = {x, fill};
    bool none = x != NULL;
    for (int k = 0; x && k < imp_rank(x); k++)
        none &= ir_is_value(before[k], 0) && ir_is_value(after[k], 0);
    if (!x || none)
        return x;
    int n = imp_rank(x);
    return imp_op(im, IR_pad, fill ? 2 : 1, in,
                  IR_ATTRS(ir_attr_exprs(IR_ATTR_before, n, before), ir_attr_exprs(IR_ATTR_after, n, after),
                           ir_attr_s(IR_ATTR_mode, mode)));
}

struct ir_value *imp_unsqueeze(struct imp *im, struct ir_value *x, int n, const int64_t *axes)
{
    ir_expr dims[TCC_MAX_RANK];
    if (!x)
        return NULL;
    int rank = imp_rank(x) + n;
    if (rank > TCC_MAX_RANK)
        return imp_unsupported(im, "a tensor with %d dims; at most %d are supported", rank, TCC_MAX_RANK), NULL;
    if (n && axes[n - 1] >= rank)
        return imp_bad(im, "%s has too few dims", ir_type_text(im->ctx, x->type)), NULL;
    for (int k = 0, from = 0, a = 0; k < rank; k++) {
        if (a < n && axes[a] == k) {
            dims[k] = ir_const(im->ctx, 1);
            a++;
        } else {
            dims[k] = imp_dim(x, from++);
        }
    }
    return imp_reshape(im, x, rank, dims);
}

struct ir_value *imp_squeeze(struct imp *im, struct ir_value *x, int n, const int64_t *axes)
{
    ir_expr dims[TCC_MAX_RANK];
    int rank = 0;
    for (int k = 0, a = 0; x && k < imp_rank(x); k++) {
        if (a < n && axes[a] == k)
            a++;
        else
            dims[rank++] = imp_dim(x, k);
    }
    return imp_reshape(im, x, rank, dims);
}

struct ir_value *imp_to_rank(struct imp *im, struct ir_value *x, int rank)
{
    int64_t axes[TCC_MAX_RANK];
    if (!x || imp_rank(x) >= rank)
        return x;
    for (int k = 0; k < rank - imp_rank(x); k++)
        axes[k] = k;
    return imp_unsqueeze(im, x, rank - imp_rank(x), axes);
}

struct ir_value *imp_along(struct imp *im, struct ir_value *x, int axis, int rank)
{
    ir_expr dims[TCC_MAX_RANK];
    if (!x)
        return NULL;
    if (imp_rank(x) != 1 || axis < 0 || axis >= rank)
        return imp_bad(im, "%s; one dim is expected", ir_type_text(im->ctx, x->type)), NULL;
    for (int k = 0; k < rank; k++)
        dims[k] = k == axis ? imp_dim(x, 0) : ir_const(im->ctx, 1);
    return imp_reshape(im, x, rank, dims);
}
