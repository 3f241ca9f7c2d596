/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simplify_moves: ops that only move or rename elements are composed, cancelled, or folded into their user. All exact.
 *
 *   transpose   of nothing; of a transpose; that moves axes of extent 1 only (a reshape); of a stack, that moves the
 *               stacked axis only (a stack along another axis); into matmul's trans_a, trans_b
 *   reshape     to the same dims; of a reshape; of a stack, that joins the stacked axis with the next (a concat)
 *   expand      to the same dims; of an expand; under a MAP op whose other operands have the dims already
 *   slice       of everything; of a slice; of a concat, from one of its operands
 *   concat      of one; of empty operands; of a concat along the same axis; that begins as another one does (a concat
 *               of that)
 *   pad         by nothing
 *   cast        to the same type; of a cast that lost nothing
 *   gather      of one constant index: a slice and a reshape
 *   gather_nd   by the places along axes themselves, as vectorised functions index: a transpose, a reshape, an expand
 */
#include "passes/rewrite_int.h"

#include <string.h>

bool pass_simplify_moves_run(struct pass_run *r);

/* Shared first rule of reshape, expand, cast, transpose...: nothing happens at all. */
static struct ir_value *same_type(struct rewrite *w, struct ir_node *n)
{
    return rewrite_has_result_type(n, n->in[0].value) && rewrite_go(w) ? n->in[0].value : NULL;
}

/* -- transpose ------------------------------------------------------------------------------------ */

static struct ir_value *transpose_nothing(struct rewrite *w, struct ir_node *n)
{
    const struct ir_attr *perm = ir_attr(n, IR_ATTR_perm);
    for (int i = 0; i < perm->n; i++)
        if (perm->ints[i] != i)
            return NULL;
    return rewrite_go(w) ? n->in[0].value : NULL;
}

static struct ir_value *transpose_transpose(struct rewrite *w, struct ir_node *n)
{
    struct ir_node *inner = rewrite_operand_node(n, 0, IR_transpose);
    int64_t composed[TCC_MAX_RANK];

    if (!inner || !rewrite_go(w))
        return NULL;
    const int64_t *outer = ir_attr(n, IR_ATTR_perm)->ints, *first = ir_attr(inner, IR_ATTR_perm)->ints;
    for (int i = 0; i < n->out[0]->type->rank; i++)
        composed[i] = first[outer[i]];
    return ir_transpose_by(&w->b, inner->in[0].value, composed);
}

/* The axes whose extent is not 1 keep their order: the elements do too. */
static struct ir_value *transpose_ones(struct rewrite *w, struct ir_node *n)
{
    const int64_t *perm = ir_attr(n, IR_ATTR_perm)->ints;
    ir_type from = n->in[0].value->type, to = n->out[0]->type;
    int64_t last = -1;

    for (int i = 0; i < to->rank; i++) {
        if (ir_is_value(from->dim[perm[i]], 1))
            continue;
        if (perm[i] < last)
            return NULL;
        last = perm[i];
    }
    return rewrite_go(w) ? ir_reshape_to(&w->b, n->in[0].value, to->rank, to->dim) : NULL;
}

/* A concat of values of extent 1 along its axis, which nobody else reads: values that are stacked. */
static struct ir_node *stack_of(const struct ir_node *n, int64_t *axis)
{
    struct ir_node *c = rewrite_operand_node(n, 0, IR_concat);
    if (!c || !ir_has_one_use(c->out[0]) || c->nin < 2)
        return NULL;
    *axis = ir_get_i(c, IR_ATTR_axis, 0);
    for (int i = 0; i < c->nin; i++)
        if (!ir_is_value(c->in[i].value->type->dim[*axis], 1))
            return NULL;
    return c;
}

/* The concat along `axis` of the stacked values, each with those dims. */
static struct ir_value *restack(struct rewrite *w, const struct ir_node *stack, int64_t axis, int rank,
                                const ir_expr *dims)
{
    struct ir_value **pieces = IR_NEWN(w->b.ctx, stack->nin, struct ir_value *);
    for (int i = 0; i < stack->nin; i++) {
        pieces[i] = ir_reshape_to(&w->b, stack->in[i].value, rank, dims);
        if (!pieces[i])
            return NULL;
    }
    return ir_concat(&w->b, stack->nin, pieces, axis);
}

static struct ir_value *transpose_stack(struct rewrite *w, struct ir_node *n)
{
    const int64_t *perm = ir_attr(n, IR_ATTR_perm)->ints;
    int64_t axis, to = 0, last = -1;
    struct ir_node *stack = stack_of(n, &axis);
    ir_type t = n->out[0]->type;
    ir_expr dims[TCC_MAX_RANK];
    for (int i = 0; stack && i < t->rank; i++) {
        dims[i] = t->dim[i];
        if (perm[i] == axis) {
            to = i;
            dims[i] = ir_const(w->b.ctx, 1);
        } else if (perm[i] < last) {
            return NULL;
        } else {
            last = perm[i];
        }
    }
    return stack && rewrite_go(w) ? restack(w, stack, to, t->rank, dims) : NULL;
}

static struct ir_value *reshape_stack(struct rewrite *w, struct ir_node *n)
{
    int64_t axis;
    struct ir_node *stack = stack_of(n, &axis);
    ir_type from = n->in[0].value->type, to = n->out[0]->type;
    ir_expr dims[TCC_MAX_RANK];
    if (!stack || to->rank != from->rank - 1 || axis + 1 >= from->rank)
        return NULL;
    for (int i = 0; i < to->rank; i++) {
        dims[i] = i < axis ? from->dim[i] : from->dim[i + 1];
        if (to->dim[i] != (i == axis ? ir_mulc(w->b.ctx, dims[i], stack->nin) : dims[i]))
            return NULL;
    }
    return rewrite_go(w) ? restack(w, stack, axis, to->rank, dims) : NULL;
}

/* matmul(transpose(a), b) = matmul(a, b) with trans_a: when the last two axes are swapped and no other is moved */
static struct ir_value *matmul_transpose(struct rewrite *w, struct ir_node *n)
{
    for (int i = 0; i < 2; i++) {
        struct ir_node *move = rewrite_operand_node(n, i, IR_transpose);
        if (!move)
            continue;
        const struct ir_attr *perm = ir_attr(move, IR_ATTR_perm);
        int rank = perm->n;
        bool swapped = rank >= 2 && perm->ints[rank - 1] == rank - 2 && perm->ints[rank - 2] == rank - 1;
        for (int k = 0; k < rank - 2; k++)
            swapped &= perm->ints[k] == k;
        if (!swapped || !rewrite_go(w))
            continue;
        enum ir_attr_key key = i == 0 ? IR_ATTR_trans_a : IR_ATTR_trans_b;
        ir_set_operand(n, i, move->in[0].value);
        ir_set_attr(n, ir_attr_i(key, !ir_get_i(n, key, 0)));
        return n->out[0];
    }
    return NULL;
}

/* -- reshape, expand --------------------------------------------------------------------------------- */

static struct ir_value *reshape_reshape(struct rewrite *w, struct ir_node *n)
{
    struct ir_node *inner = rewrite_operand_node(n, 0, IR_reshape);
    ir_type t = n->out[0]->type;
    if (!inner || !rewrite_go(w))
        return NULL;
    struct ir_value *x = inner->in[0].value;
    return rewrite_has_result_type(n, x) ? x : ir_reshape_to(&w->b, x, t->rank, t->dim);
}

static struct ir_value *expand_expand(struct rewrite *w, struct ir_node *n)
{
    struct ir_node *inner = rewrite_operand_node(n, 0, IR_expand);
    ir_type t = n->out[0]->type;
    return inner && rewrite_go(w) ? ir_expand_to(&w->b, inner->in[0].value, t->rank, t->dim) : NULL;
}

/* Does broadcasting give the result's dims when operand `skip` has the type `t` instead of its own? */
static bool dims_without(const struct ir_node *n, int skip, ir_type t)
{
    ir_type out = n->out[0]->type;
    int rank = t->rank;

    for (int i = 0; i < n->nin; i++)
        rank = i != skip && n->in[i].value->type->rank > rank ? n->in[i].value->type->rank : rank;
    if (rank != out->rank)
        return false;
    for (int axis = 0; axis < out->rank; axis++) {
        bool found = ir_is_value(out->dim[axis], 1);
        for (int i = 0; i < n->nin && !found; i++) {
            ir_type x = i == skip ? t : n->in[i].value->type;
            int at = axis - (out->rank - x->rank);
            found = at >= 0 && x->dim[at] == out->dim[axis];
        }
        if (!found)
            return false;
    }
    return true;
}

/* MAP ops broadcast by themselves. */
static struct ir_value *expand_under_map(struct rewrite *w, struct ir_node *n)
{
    if (ir_op_info(n->op)->kind != IR_K_MAP || n->nin < 2)
        return NULL;
    for (int i = 0; i < n->nin; i++) {
        struct ir_node *expand = rewrite_operand_node(n, i, IR_expand);
        if (!expand || !dims_without(n, i, expand->in[0].value->type) || !rewrite_go(w))
            continue;
        ir_set_operand(n, i, expand->in[0].value);
        return n->out[0];
    }
    return NULL;
}

/* -- slice, concat, pad --------------------------------------------------------------------------------- */

static bool whole_axis(const struct ir_node *slice, int axis)
{
    return ir_is_value(ir_attr(slice, IR_ATTR_starts)->exprs[axis], 0) &&
           ir_is_value(ir_attr(slice, IR_ATTR_steps)->exprs[axis], 1) &&
           ir_attr(slice, IR_ATTR_sizes)->exprs[axis] == slice->in[0].value->type->dim[axis];
}

static struct ir_value *slice_nothing(struct rewrite *w, struct ir_node *n)
{
    for (int i = 0; i < n->out[0]->type->rank; i++)
        if (!whole_axis(n, i))
            return NULL;
    return rewrite_go(w) ? n->in[0].value : NULL;
}

static struct ir_value *slice_slice(struct rewrite *w, struct ir_node *n)
{
    struct ir_node *inner = rewrite_operand_node(n, 0, IR_slice);
    ir_expr starts[TCC_MAX_RANK], steps[TCC_MAX_RANK];
    struct ir_ctx *ctx = w->b.ctx;
    int rank = n->out[0]->type->rank;

    if (!inner || !rewrite_go(w))
        return NULL;
    for (int i = 0; i < rank; i++) {
        ir_expr step = ir_attr(inner, IR_ATTR_steps)->exprs[i];
        starts[i] = ir_add(ctx, ir_attr(inner, IR_ATTR_starts)->exprs[i],
                           ir_mul(ctx, ir_attr(n, IR_ATTR_starts)->exprs[i], step));
        steps[i] = ir_mul(ctx, ir_attr(n, IR_ATTR_steps)->exprs[i], step);
    }
    return ir_slice(&w->b, inner->in[0].value, starts, ir_attr(n, IR_ATTR_sizes)->exprs, steps);
}

/* What is taken lies in one operand for certain: slice that. */
static struct ir_value *slice_concat(struct rewrite *w, struct ir_node *n)
{
    struct ir_node *concat = rewrite_operand_node(n, 0, IR_concat);
    ir_expr starts[TCC_MAX_RANK];
    struct ir_ctx *ctx = w->b.ctx;
    int rank = n->out[0]->type->rank;

    if (!concat)
        return NULL;
    int axis = (int)ir_get_i(concat, IR_ATTR_axis, 0);
    ir_expr start = ir_attr(n, IR_ATTR_starts)->exprs[axis],
            end = ir_add(ctx, start, ir_attr(n, IR_ATTR_sizes)->exprs[axis]);
    if (!ir_is_value(ir_attr(n, IR_ATTR_steps)->exprs[axis], 1))
        return NULL;
    ir_expr at = ir_const(ctx, 0);
    for (int i = 0; i < concat->nin; i++) {
        struct ir_value *x = concat->in[i].value;
        ir_expr next = ir_add(ctx, at, x->type->dim[axis]);
        if (ir_expr_le(ctx, at, start) == IR_YES && ir_expr_le(ctx, end, next) == IR_YES) {
            if (!rewrite_go(w))
                return NULL;
            memcpy(starts, ir_attr(n, IR_ATTR_starts)->exprs, (size_t)rank * sizeof *starts);
            starts[axis] = ir_sub(ctx, start, at);
            return ir_slice(&w->b, x, starts, ir_attr(n, IR_ATTR_sizes)->exprs, ir_attr(n, IR_ATTR_steps)->exprs);
        }
        at = next;
    }
    return NULL;
}

/* Leaves out empty operands and takes in those of a concat along the same axis that nobody else uses. */
static struct ir_value *concat_flat(struct rewrite *w, struct ir_node *n)
{
    int64_t axis = ir_get_i(n, IR_ATTR_axis, 0);
    VEC(struct ir_value *) flat = {0};
    bool changed = false;

    for (int i = 0; i < n->nin; i++) {
        struct ir_value *x = n->in[i].value;
        struct ir_node *inner = rewrite_operand_node(n, i, IR_concat);
        if (ir_is_value(x->type->dim[axis], 0)) {
            changed = true;
        } else if (inner && ir_get_i(inner, IR_ATTR_axis, 0) == axis && ir_has_one_use(x)) {
            for (int k = 0; k < inner->nin; k++)
                VEC_PUSH(w->b.ctx, flat, inner->in[k].value);
            changed = true;
        } else {
            VEC_PUSH(w->b.ctx, flat, x);
        }
    }
    if (flat.n == 0 || (!changed && flat.n > 1) || !rewrite_go(w))
        return NULL;
    if (flat.n == 1)
        return flat.at[0];
    return ir_concat(&w->b, flat.n, flat.at, axis);
}

/* Does n begin with all operands of m, a concat along the same axis, that stands before it? */
static bool begins_as(const struct ir_node *n, const struct ir_node *m)
{
    if (m->op != IR_concat || m == n || m->block != n->block || m->nin < 2 || m->nin >= n->nin ||
        ir_get_i(m, IR_ATTR_axis, 0) != ir_get_i(n, IR_ATTR_axis, 0) || !ir_has_uses(m->out[0]))
        return false;
    for (int i = 0; i < m->nin; i++)
        if (m->in[i].value != n->in[i].value)
            return false;
    const struct ir_node *p = n->prev;
    for (int i = 0; p && p != m && i < 4000; i++)
        p = p->prev;
    return p == m;
}

/* Layers that read all results before them: each adds to the concat of the one before. Where that is one run of
 * memory. */
static struct ir_value *concat_prefix(struct rewrite *w, struct ir_node *n)
{
    int64_t axis = ir_get_i(n, IR_ATTR_axis, 0);
    struct ir_node *best = NULL;
    for (int i = 0; i < axis; i++)
        if (!ir_is_value(n->out[0]->type->dim[i], 1))
            return NULL;
    for (struct ir_use *u = n->nin > 2 ? n->in[0].value->uses : NULL; u; u = u->next)
        if (u->index == 0 && begins_as(n, u->user) && (!best || u->user->nin > best->nin))
            best = u->user;
    if (!best || !rewrite_go(w))
        return NULL;
    VEC(struct ir_value *) in = {0};
    VEC_PUSH(w->b.ctx, in, best->out[0]);
    for (int i = best->nin; i < n->nin; i++)
        VEC_PUSH(w->b.ctx, in, n->in[i].value);
    return ir_concat(&w->b, in.n, in.at, axis);
}

static struct ir_value *pad_nothing(struct rewrite *w, struct ir_node *n)
{
    for (int i = 0; i < n->out[0]->type->rank; i++)
        if (!ir_is_value(ir_attr(n, IR_ATTR_before)->exprs[i], 0) ||
            !ir_is_value(ir_attr(n, IR_ATTR_after)->exprs[i], 0))
            return NULL;
    return rewrite_has_result_type(n, n->in[0].value) && rewrite_go(w) ? n->in[0].value : NULL;
}

/* -- cast ---------------------------------------------------------------------------------------------------- */

/* Does `wide` hold every value of `narrow`, so that a later cast sees the same value? */
static bool holds_all(enum tcc_dtype narrow, enum tcc_dtype wide)
{
    int n = tcc_dtype_bytes(narrow), w = tcc_dtype_bytes(wide);
    if (narrow == TCC_BOOL)
        return tcc_is_int(wide) || wide == TCC_F32 || wide == TCC_F64;
    if (tcc_is_float(narrow))
        return (wide == TCC_F32 || wide == TCC_F64) && n < w;
    /* Types of less than a byte are held in one: leave them. */
    bool bytes = tcc_is_int(narrow) && tcc_is_int(wide) && narrow != TCC_U4 && narrow != TCC_I4 && narrow != TCC_U2 &&
                 narrow != TCC_I2;
    return bytes && n < w && (tcc_is_signed(wide) || !tcc_is_signed(narrow));
}

static struct ir_value *cast_cast(struct rewrite *w, struct ir_node *n)
{
    struct ir_node *inner = rewrite_operand_node(n, 0, IR_cast);
    if (!inner)
        return NULL;
    struct ir_value *x = inner->in[0].value;
    if (!holds_all(rewrite_dtype_of(x), rewrite_dtype_of(n->in[0].value)) || !rewrite_go(w))
        return NULL;
    if (rewrite_has_result_type(n, x))
        return x;
    ir_set_operand(n, 0, x);
    return n->out[0];
}

/* -- gather ---------------------------------------------------------------------------------------------------- */

static struct ir_value *gather_one(struct rewrite *w, struct ir_node *n)
{
    const struct ir_tensor *index = ir_const_of(n->in[1].value);
    struct ir_value *x = n->in[0].value;
    struct ir_ctx *ctx = w->b.ctx;
    ir_type t = x->type, out = n->out[0]->type;
    ir_expr starts[TCC_MAX_RANK], sizes[TCC_MAX_RANK], steps[TCC_MAX_RANK];

    if (!index || index->nelems != 1)
        return NULL;
    int axis = (int)ir_get_i(n, IR_ATTR_axis, 0);
    int64_t at = tcc_load_i64((enum tcc_dtype)index->dtype, ir_tensor_at(index, 0));
    ir_expr start = at < 0 ? ir_addc(ctx, t->dim[axis], at) : ir_const(ctx, at);
    /* An index that may be outside is an error at run time, which the slice would not report. */
    if (ir_expr_le(ctx, ir_const(ctx, 0), start) != IR_YES ||
        ir_expr_le(ctx, ir_addc(ctx, start, 1), t->dim[axis]) != IR_YES || !rewrite_go(w))
        return NULL;
    for (int i = 0; i < t->rank; i++) {
        starts[i] = i == axis ? start : ir_const(ctx, 0);
        sizes[i] = i == axis ? ir_const(ctx, 1) : t->dim[i];
        steps[i] = ir_const(ctx, 1);
    }
    struct ir_value *taken = ir_slice(&w->b, x, starts, sizes, steps);
    return taken && rewrite_has_result_type(n, taken) ? taken
           : taken                                    ? ir_reshape_to(&w->b, taken, out->rank, out->dim)
                                                      : NULL;
}

/* The axis of `to` that axis `axis` of `from` becomes where a reshape puts in or takes out axes of extent 1; -1: it is
 * another one. */
static int axis_reshaped(ir_type from, ir_type to, int axis)
{
    int i = 0, j = 0, found = -1;
    for (;; i++, j++) {
        while (i < from->rank && ir_is_value(from->dim[i], 1))
            i++;
        while (j < to->rank && ir_is_value(to->dim[j], 1))
            j++;
        if (i == from->rank || j == to->rank)
            return i == from->rank && j == to->rank ? found : -1;
        if (from->dim[i] != to->dim[j])
            return -1;
        found = i == axis ? j : found;
    }
}

/* The axis along which each element is its place; -1: there is none. */
static int axis_of_places(const struct ir_value *v)
{
    const struct ir_node *n = v->def;
    const struct ir_value *x = n && n->nin ? n->in[0].value : NULL;
    if (!n)
        return -1;
    if (n->op == IR_iota)
        return (int)ir_get_i(n, IR_ATTR_axis, 0);
    int axis = n->op == IR_reshape || n->op == IR_expand ? axis_of_places(x) : -1;
    if (axis < 0 || n->op == IR_reshape)
        return axis < 0 ? -1 : axis_reshaped(x->type, v->type, axis);
    int to = axis + v->type->rank - x->type->rank;
    return x->type->dim[axis] == v->type->dim[to] ? to : -1;
}

/* Each index is the place along an axis of its own, of as many places as the axis of x that it chooses of. */
static bool find_places(const struct ir_node *n, const struct ir_node *indices, int *axis)
{
    ir_type x = n->in[0].value->type, index = n->in[1].value->type;
    if (!indices || ir_get_i(n, IR_ATTR_batch_dims, 0) || ir_get_i(indices, IR_ATTR_axis, 0) != index->rank - 1)
        return false;
    for (int d = 0; d < indices->nin; d++) {
        axis[d] = axis_of_places(indices->in[d].value);
        if (axis[d] < 0 || axis[d] == index->rank - 1 || index->dim[axis[d]] != x->dim[d] ||
            !ir_is_value(indices->in[d].value->type->dim[index->rank - 1], 1))
            return false;
        for (int e = 0; e < d; e++)
            if (axis[e] == axis[d])
                return false;
    }
    return true;
}

static struct ir_value *gather_places(struct rewrite *w, struct ir_node *n)
{
    struct ir_node *indices = rewrite_operand_node(n, 1, IR_concat);
    struct ir_value *x = n->in[0].value;
    ir_type out = n->out[0]->type, t = x->type;
    int axis[TCC_MAX_RANK], taken = 0;
    int64_t perm[TCC_MAX_RANK];
    ir_expr dims[TCC_MAX_RANK];

    if (!find_places(n, indices, axis) || !rewrite_go(w))
        return NULL;
    int chosen = indices->nin, first = out->rank - (t->rank - chosen);
    for (int i = 0; i < out->rank; i++) { /* axes of the indices, then what they choose */
        dims[i] = i < first ? ir_const(w->b.ctx, 1) : t->dim[i - first + chosen];
        for (int d = 0; d < chosen && i < first; d++)
            if (axis[d] == i) {
                perm[taken++] = d;
                dims[i] = t->dim[d];
            }
    }
    for (; taken < t->rank; taken++)
        perm[taken] = taken;
    x = ir_transpose_by(&w->b, x, perm);
    x = x ? ir_reshape_to(&w->b, x, out->rank, dims) : NULL;
    return x ? ir_expand_to(&w->b, x, out->rank, out->dim) : NULL;
}

RULES(simplify_moves, false, RULE(transpose, transpose_nothing), RULE(transpose, transpose_transpose),
      RULE(transpose, transpose_ones), RULE(transpose, transpose_stack), RULE(matmul, matmul_transpose),
      RULE(reshape, same_type), RULE(reshape, reshape_reshape), RULE(reshape, reshape_stack), RULE(expand, same_type),
      RULE(expand, expand_expand), RULE(OP_NONE, expand_under_map), RULE(slice, slice_nothing),
      RULE(slice, slice_slice), RULE(slice, slice_concat), RULE(concat, concat_flat), RULE(concat, concat_prefix),
      RULE(pad, pad_nothing), RULE(cast, same_type), RULE(cast, cast_cast), RULE(gather, gather_one),
      RULE(gather_nd, gather_places));

bool pass_simplify_moves_run(struct pass_run *r)
{
    rewrite_module(r, &simplify_moves);
    return true;
}
