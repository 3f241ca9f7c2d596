/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of tensor.def: what an op's operands and results are when one of them is cut. A rule begins with all of
 * them whole, and knows nothing of costs: who asks compares what the ranks would have to exchange.
 */
#include "passes/parallel/tensor_int.h"

#include <string.h>

static const struct shard_row rows[IR_NOPS] = {
#define SHARD_KIND(kind, rule, build)
#define SHARD(op, rule, build) [IR_##op] = {shard_##rule, shard_build_##build},
#include "passes/parallel/tensor.def"
};

static const struct shard_row kinds[IR_NKINDS] = {
#define SHARD_KIND(kind, rule, build) [IR_K_##kind] = {shard_##rule, shard_build_##build},
#define SHARD(op, rule, build)
#include "passes/parallel/tensor.def"
};

const struct shard_row *shard_row_of(enum ir_op op)
{
    const struct shard_row *r = rows[op].rule ? &rows[op] : &kinds[ir_op_info(op)->kind];
    return r->rule ? r : NULL;
}

/* -- Trying a rule ------------------------------------------------------------------------------------------------- */

static bool all_divide(struct shard_node *x)
{
    for (int i = 0; i < x->n->nin + x->n->nout; i++) {
        bool result = i >= x->n->nin;
        const struct ir_value *v = result ? x->n->out[i - x->n->nin] : x->n->in[i].value;
        struct sharding c = result ? x->out[i - x->n->nin] : x->in[i];
        if (!v || c.kind != SHARD_SPLIT)
            continue;
        if (!ir_is_tensor(v->type) || c.axis < 0 || c.axis >= v->type->rank)
            return false;
        if (!shard_size(x->plan, v->type->dim[c.axis], c))
            return false;
    }
    return true;
}

static bool is_padded(const struct shard_node *x, ir_type t, struct sharding c)
{
    return c.kind == SHARD_SPLIT && shard_padding(x->plan, t->dim[c.axis], c) > 0;
}

/* Numbers that may be anything must not fault, as divisors of integers; as indices they count as 0 (tensor_build.c).
 * What compares along the axis knows floats alone. */
static bool bears_padding(const struct shard_node *x)
{
    const struct ir_node *n = x->n;
    bool any = n->nout && is_padded(x, n->out[0]->type, x->out[0]), floats = true;
    for (int i = 0; i < n->nin; i++) {
        bool padded = n->in[i].value && is_padded(x, n->in[i].value->type, x->in[i]);
        any |= padded;
        floats &= !padded || tcc_is_float((enum tcc_dtype)n->in[i].value->type->dtype);
    }
    if (!any)
        return true;
    shard_rule *rule = shard_row_of(n->op)->rule;
    if (rule == shard_gather || rule == shard_gather_elements || rule == shard_scatter_elements ||
        rule == shard_scatter_nd)
        return true;
    if (n->op == IR_div || n->op == IR_mod)
        return floats;
    if (rule == shard_attention)
        return x->out[0].axis == 2; /* tensor_ring.c hides it */
    return x->out[0].kind == SHARD_SPLIT || floats;
}

bool shard_try(const struct tensor_plan *p, const struct ir_node *n, bool result, int index, struct sharding c,
               struct shard_node *x)
{
    struct ir_ctx *ctx = p->m->ctx;
    const struct shard_row *row = shard_row_of(n->op);
    if (!row)
        return false;
    *x = (struct shard_node){.ctx = ctx,
                             .plan = p,
                             .n = n,
                             .in = IR_NEWN(ctx, n->nin + 1, struct sharding),
                             .out = IR_NEWN(ctx, n->nout + 1, struct sharding)};
    for (int i = 0; i < n->nin; i++)
        if (n->in[i].value && !ir_is_tensor(n->in[i].value->type))
            return false;
    for (int i = 0; i < n->nout; i++)
        if (!ir_is_tensor(n->out[i]->type))
            return false;
    if (!row->rule(x, result, index, c) || !all_divide(x) || !bears_padding(x))
        return false;
    return shard_same(result ? x->out[index] : x->in[index], c);
}

static struct sharding part(int axis, ir_expr outer)
{
    return (struct sharding){SHARD_SPLIT, axis, outer};
}

static ir_type in_type(const struct shard_node *x, int i)
{
    return x->n->in[i].value->type;
}

static ir_type out_type(const struct shard_node *x)
{
    return x->n->out[0]->type;
}

/* Every operand and result are that; where adding up and the op may be exchanged. */
static bool all_are(struct shard_node *x, struct sharding c)
{
    for (int i = 0; i < x->n->nin; i++)
        x->in[i] = c;
    for (int i = 0; i < x->n->nout; i++)
        x->out[i] = c;
    return true;
}

/* One tensor operand, and what is done to it is linear. */
static bool passes_on(struct shard_node *x, bool result, struct sharding c)
{
    if (result)
        return false;
    x->in[0] = x->out[0] = c;
    return true;
}

/* -- Elementwise --------------------------------------------------------------------------------------------------- */

/* Axis of operand i that belongs to that one of a result of `rank` axes, from the right; -1: it has none, or is
 * broadcast along it. */
static int operand_axis(ir_type t, int rank, int axis, ir_expr size)
{
    int a = axis - (rank - t->rank);
    return a >= 0 && (!ir_is_value(t->dim[a], 1) || ir_is_value(size, 1)) ? a : -1;
}

/* The result is cut along c's axis, which is the result's or that of operand `index`; so are the first n operands that
 * have it. */
static bool cut_along(struct shard_node *x, bool result, int index, int n, struct sharding c)
{
    ir_type to = out_type(x);
    int axis = result ? c.axis : c.axis + to->rank - in_type(x, index)->rank;
    for (int i = 0; i < n; i++) {
        int a = operand_axis(in_type(x, i), to->rank, axis, to->dim[axis]);
        if (a >= 0)
            x->in[i] = part(a, c.outer);
    }
    x->out[0] = part(axis, c.outer);
    return true;
}

bool shard_map(struct shard_node *x, bool result, int index, struct sharding c)
{
    enum ir_op op = x->n->op;
    if (c.kind == SHARD_SUM)
        return !result && (op == IR_add || op == IR_sub || op == IR_neg) && all_are(x, c);
    if (c.kind == SHARD_MAX || c.kind == SHARD_MIN)
        return !result && op == (c.kind == SHARD_MAX ? IR_max : IR_min) && all_are(x, c);
    return cut_along(x, result, index, x->n->nin, c);
}

/* -- Moves --------------------------------------------------------------------------------------------------------- */

static ir_expr product(struct ir_ctx *ctx, ir_type t, int n)
{
    ir_expr p = ir_const(ctx, 1);
    for (int i = 0; i < n; i++)
        p = ir_mul(ctx, p, t->dim[i]);
    return p;
}

/*
 * In row-major order an axis that is cut is `blocks` blocks, the product of the axes in front of it and of `outer`, of
 * which each rank has a part. In another shape the same blocks begin where the axes in front of some axis, and a
 * divisor of it, have the same product.
 */
static bool same_blocks(struct shard_node *x, ir_type from, struct sharding c, ir_type to, struct sharding *out)
{
    ir_expr blocks = ir_mul(x->ctx, product(x->ctx, from, c.axis), c.outer);
    for (int a = 0; a < to->rank; a++) {
        ir_expr outer = shard_divide(x->ctx, blocks, product(x->ctx, to, a));
        ir_expr size = outer ? shard_divide(x->ctx, to->dim[a], outer) : NULL;
        if (!size || ir_is_value(size, 1))
            continue;
        *out = part(a, outer);
        if (shard_divide(x->ctx, size, ir_const(x->ctx, x->plan->parts)))
            return true;
        if (ir_is_value(outer, 1) && shard_padding(x->plan, size, c) && size == from->dim[c.axis])
            return true;
        x->undivided = size;
        return false;
    }
    return false;
}

bool shard_reshape(struct shard_node *x, bool result, int index, struct sharding c)
{
    (void)index;
    if (c.kind != SHARD_SPLIT)
        return passes_on(x, result, c);
    struct sharding *other = result ? &x->in[0] : &x->out[0];
    *(result ? &x->out[0] : &x->in[0]) = c;
    return same_blocks(x, result ? out_type(x) : in_type(x, 0), c, result ? in_type(x, 0) : out_type(x), other);
}

bool shard_transpose(struct shard_node *x, bool result, int index, struct sharding c)
{
    const struct ir_attr *perm = ir_attr(x->n, IR_ATTR_perm);
    (void)index;
    if (c.kind != SHARD_SPLIT)
        return passes_on(x, result, c);
    for (int i = 0; i < perm->n; i++) {
        if ((result ? i : perm->ints[i]) != c.axis)
            continue;
        x->in[0] = part((int)perm->ints[i], c.outer);
        x->out[0] = part(i, c.outer);
    }
    return true;
}

bool shard_expand(struct shard_node *x, bool result, int index, struct sharding c)
{
    (void)index;
    if (c.kind != SHARD_SPLIT)
        return passes_on(x, result, c);
    ir_type from = in_type(x, 0), to = out_type(x);
    int axis = result ? c.axis : c.axis + to->rank - from->rank, a = operand_axis(from, to->rank, axis, to->dim[axis]);
    x->out[0] = part(axis, c.outer);
    if (a >= 0)
        x->in[0] = part(a, c.outer);
    return true;
}

bool shard_slice(struct shard_node *x, bool result, int index, struct sharding c)
{
    (void)index;
    if (c.kind != SHARD_SPLIT)
        return passes_on(x, result, c);
    int a = c.axis;
    ir_expr whole = in_type(x, 0)->dim[a], start = ir_attr(x->n, IR_ATTR_starts)->exprs[a],
            size = ir_attr(x->n, IR_ATTR_sizes)->exprs[a];
    x->in[0] = x->out[0] = c;
    if (!ir_is_value(ir_attr(x->n, IR_ATTR_steps)->exprs[a], 1))
        return false;
    if (ir_is_value(start, 0) && size == whole)
        return true;
    /* Whole blocks of it. */
    ir_expr block = shard_divide(x->ctx, result ? size : whole, c.outer);
    ir_expr taken = block ? shard_divide(x->ctx, size, block) : NULL,
            all = block ? shard_divide(x->ctx, whole, block) : NULL;
    if (!taken || !all || !shard_divide(x->ctx, start, block))
        return false;
    x->in[0].outer = all;
    x->out[0].outer = taken;
    return true;
}

bool shard_concat(struct shard_node *x, bool result, int index, struct sharding c)
{
    int64_t axis = ir_get_i(x->n, IR_ATTR_axis, 0);
    if (c.kind == SHARD_SUM || (c.kind == SHARD_SPLIT && c.axis != axis))
        return (c.kind == SHARD_SPLIT || !result) && all_are(x, c);
    if (c.kind != SHARD_SPLIT)
        return false;
    ir_type given = result ? out_type(x) : in_type(x, index);
    ir_expr block = shard_divide(x->ctx, given->dim[axis], c.outer);
    for (int i = 0; block && i <= x->n->nin; i++) {
        ir_type t = i < x->n->nin ? in_type(x, i) : out_type(x);
        ir_expr outer = shard_divide(x->ctx, t->dim[axis], block);
        if (!outer)
            return false;
        *(i < x->n->nin ? &x->in[i] : &x->out[0]) = part((int)axis, outer);
    }
    return block != NULL;
}

/* -- By index ------------------------------------------------------------------------------------------------------ */

bool shard_gather(struct shard_node *x, bool result, int index, struct sharding c)
{
    int axis = (int)ir_get_i(x->n, IR_ATTR_axis, 0), more = in_type(x, 1)->rank;
    if (c.kind == SHARD_SUM)
        return index == 0 && passes_on(x, result, c);
    if (c.kind != SHARD_SPLIT)
        return false;
    if (result ? c.axis >= axis && c.axis < axis + more : index == 1) {
        x->in[1] = part(result ? c.axis - axis : c.axis, c.outer);
        x->out[0] = part(x->in[1].axis + axis, c.outer);
        return true;
    }
    int a = result && c.axis >= axis + more ? c.axis - more + 1 : c.axis;
    x->in[0] = part(a, c.outer);
    if (!result && a == axis) { /* rows of other ranks count as 0 */
        x->out[0] = (struct sharding){.kind = SHARD_SUM};
        return ir_is_value(c.outer, 1);
    }
    x->out[0] = part(a < axis ? a : a + more - 1, c.outer);
    return true;
}

bool shard_gather_elements(struct shard_node *x, bool result, int index, struct sharding c)
{
    int axis = (int)ir_get_i(x->n, IR_ATTR_axis, 0);
    if (c.kind == SHARD_SUM)
        return index == 0 && passes_on(x, result, c);
    if (c.kind != SHARD_SPLIT)
        return false;
    if (c.axis != axis)
        return in_type(x, 0)->dim[c.axis] == in_type(x, 1)->dim[c.axis] && all_are(x, c);
    if (!result && index == 0) {
        x->in[0] = c;
        x->out[0] = (struct sharding){.kind = SHARD_SUM};
        return ir_is_value(c.outer, 1);
    }
    x->in[1] = x->out[0] = c;
    return true;
}

static bool adds(const struct ir_node *n)
{
    return !strcmp(ir_get_s(n, IR_ATTR_mode, "none"), "add");
}

bool shard_scatter_elements(struct shard_node *x, bool result, int index, struct sharding c)
{
    int axis = (int)ir_get_i(x->n, IR_ATTR_axis, 0);
    if (c.kind != SHARD_SPLIT)
        return false;
    if (c.axis != axis)
        return in_type(x, 0)->dim[c.axis] == in_type(x, 1)->dim[c.axis] && all_are(x, c);
    if (!adds(x->n))
        return false;
    if (result || index == 0) { /* updates of other ranks' elements count as 0 */
        x->in[0] = x->out[0] = c;
        return ir_is_value(c.outer, 1);
    }
    x->in[0] = x->out[0] = (struct sharding){.kind = SHARD_SUM};
    x->in[1] = x->in[2] = c;
    return true;
}

bool shard_scatter_nd(struct shard_node *x, bool result, int index, struct sharding c)
{
    ir_type at = in_type(x, 1);
    int64_t depth;
    int batch = at->rank - 1;
    if (c.kind != SHARD_SPLIT || batch < 0 || !ir_is_const(at->dim[batch], &depth))
        return false;
    bool tensor = result || index == 0;
    int a = tensor ? c.axis : index == 2 && c.axis >= batch ? c.axis - batch + (int)depth : -1;
    if (a >= depth) {
        x->in[0] = x->out[0] = part(a, c.outer);
        x->in[2] = part(a - (int)depth + batch, c.outer);
        return true;
    }
    if (!adds(x->n))
        return false;
    if (tensor) { /* as above */
        x->in[0] = x->out[0] = c;
        return depth == 1 && ir_is_value(c.outer, 1);
    }
    if (c.axis >= batch)
        return false;
    x->in[0] = x->out[0] = (struct sharding){.kind = SHARD_SUM};
    x->in[1] = x->in[2] = c;
    return true;
}

/* -- Reductions ---------------------------------------------------------------------------------------------------- */

static bool lists(const struct ir_attr *axes, int a)
{
    for (int i = 0; axes && i < axes->n; i++)
        if (axes->ints[i] == a)
            return true;
    return false;
}

/* The operand's axis that a result's axis is, and the other way round; -1: it is reduced. */
static int kept_axis(const struct ir_attr *axes, bool keep, int rank, int axis, bool of_result)
{
    int to = 0;
    for (int a = 0; a < rank; a++) {
        bool reduced = lists(axes, a);
        if ((of_result ? to == axis && (keep || !reduced) : a == axis))
            return reduced ? -1 : of_result ? a : to;
        to += keep || !reduced;
    }
    return -1;
}

static bool reduces(struct shard_node *x, const struct ir_attr *axes, bool result, struct sharding c,
                    enum shard_kind over)
{
    bool keep = ir_get_i(x->n, IR_ATTR_keepdims, 1) != 0;
    int other = kept_axis(axes, keep, in_type(x, 0)->rank, c.axis, result);
    if (other >= 0) {
        x->in[0] = part(result ? other : c.axis, c.outer);
        x->out[0] = part(result ? c.axis : other, c.outer);
        return true;
    }
    if (result || over == SHARD_REPLICATED)
        return false;
    x->in[0] = c;
    x->out[0] = (struct sharding){.kind = over};
    return true;
}

bool shard_reduce(struct shard_node *x, bool result, int index, struct sharding c)
{
    enum shard_kind over = x->n->op == IR_reduce_sum ? SHARD_SUM : x->n->op == IR_reduce_max ? SHARD_MAX : SHARD_MIN;
    (void)index;
    if (c.kind != SHARD_SPLIT)
        return c.kind == over && passes_on(x, result, c);
    return reduces(x, ir_attr(x->n, IR_ATTR_axes), result, c, over);
}

/* Something along one axis, which must be whole. */
bool shard_along(struct shard_node *x, bool result, int index, struct sharding c)
{
    int64_t axis = ir_get_i(x->n, IR_ATTR_axis, 0);
    struct ir_attr axes = {.n = 1, .ints = &axis};
    (void)index;
    if (c.kind != SHARD_SPLIT)
        return false;
    if (ir_op_info(x->n->op)->kind == IR_K_REDUCE)
        return reduces(x, &axes, result, c, SHARD_REPLICATED);
    return c.axis != axis && all_are(x, c);
}

/* -- Products ------------------------------------------------------------------------------------------------------ */

/* The axes of a matmul's operand, by role. */
enum role { ROW, COLUMN, INNER, LEADING };

static enum role role_of(const struct shard_node *x, int operand, int axis)
{
    int rank = operand < 2 ? in_type(x, operand)->rank : out_type(x)->rank;
    if (axis < rank - 2)
        return LEADING;
    bool last = axis == rank - 1, trans;
    if (operand == 2)
        return last ? COLUMN : ROW;
    trans = ir_get_i(x->n, operand ? IR_ATTR_trans_b : IR_ATTR_trans_a, 0) != 0;
    return operand ? (last != trans ? COLUMN : INNER) : (last != trans ? INNER : ROW);
}

static int axis_of(const struct shard_node *x, int operand, enum role role)
{
    int rank = operand < 2 ? in_type(x, operand)->rank : out_type(x)->rank;
    return role_of(x, operand, rank - 1) == role ? rank - 1 : rank - 2;
}

bool shard_matmul(struct shard_node *x, bool result, int index, struct sharding c)
{
    int given = result ? 2 : index;
    if (c.kind != SHARD_SPLIT || in_type(x, 0)->rank < 2 || in_type(x, 1)->rank < 2)
        return false;
    enum role role = role_of(x, given, c.axis);
    switch (role) {
    case INNER:
        x->in[0] = part(axis_of(x, 0, INNER), c.outer);
        x->in[1] = part(axis_of(x, 1, INNER), c.outer);
        x->out[0] = (struct sharding){.kind = SHARD_SUM};
        return true;
    case ROW:
    case COLUMN:
        x->in[role == COLUMN] = part(axis_of(x, role == COLUMN, role), c.outer);
        x->out[0] = part(axis_of(x, 2, role), c.outer);
        return true;
    case LEADING: break;
    }
    return cut_along(x, result, index, 2, c);
}

/* Is the queries' or keys' sequence cut? */
static bool is_sequence(const struct shard_node *x, bool result, int index, struct sharding c)
{
    bool forward = x->n->op == IR_attention || x->n->op == IR_attention_lse;
    return x->plan->context && (result || index < (forward ? 3 : 6)) && c.axis == 2 && ir_is_value(c.outer, 1);
}

/* Both, each rank the same part of them, and the mask's rows (tensor_ring.c). Later keys are hidden by parts only where
 * keys are as many as queries. */
static bool shard_ring(struct shard_node *x, struct sharding c)
{
    bool forward = x->n->op == IR_attention || x->n->op == IR_attention_lse;
    ir_expr queries = in_type(x, 0)->dim[2], keys = in_type(x, 1)->dim[2];
    if (ir_expr_eq(x->ctx, queries, keys) != IR_YES)
        return false;
    for (int i = 0; i < x->n->nin; i++) {
        if (!x->n->in[i].value)
            continue;
        int a = i < (forward ? 3 : 6) ? 2 : operand_axis(in_type(x, i), 4, 2, queries);
        if (a >= 0)
            x->in[i] = c, x->in[i].axis = a;
    }
    for (int i = 0; i < x->n->nout; i++)
        x->out[i] = c;
    return true;
}

/* Samples and heads; a mask may be broadcast along both. */
bool shard_attention(struct shard_node *x, bool result, int index, struct sharding c)
{
    if (c.kind != SHARD_SPLIT)
        return false;
    if (is_sequence(x, result, index, c))
        return shard_ring(x, c);
    bool forward = x->n->op == IR_attention || x->n->op == IR_attention_lse;
    int tensors = forward ? 3 : 6;
    int axis = !result && index >= tensors ? c.axis + 4 - in_type(x, index)->rank : c.axis;
    ir_expr size = in_type(x, 0)->dim[axis < 2 ? axis : 0];
    if (axis > 1 || (axis == 1 && !ir_is_value(c.outer, 1)))
        return false;
    for (int i = 0; i < x->n->nin; i++) {
        if (!x->n->in[i].value)
            continue;
        int a = i < tensors ? axis : operand_axis(in_type(x, i), 4, axis, size);
        if (a >= 0)
            x->in[i] = part(a, c.outer);
    }
    for (int i = 0; i < x->n->nout; i++)
        x->out[i] = part(axis, c.outer);
    return true;
}
