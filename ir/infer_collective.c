/* SPDX-License-Identifier: Apache-2.0 */
/* infer_collective.c - types of ops of kind COLLECTIVE. */
#include <string.h>

#include "ir/infer_int.h"

static bool known_mode(struct ir_ctx *ctx, struct ir_node *n)
{
    static const char *const modes[] = {"sum", "avg", "min", "max", "product"};
    const char *mode = ir_get_s(n, IR_ATTR_mode, "sum");
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(mode, modes[i]))
            return true;
    return infer_fail(ctx, n, "mode must be sum, avg, min, max or product, got '%s'", mode);
}

/* Results are as the operands, one by one. */
INFER(collective)
{
    if (n->nin != n->nout)
        return infer_fail(ctx, n, "%d operands and %d results (attribute types)", n->nin, n->nout);
    for (int i = 0; i < n->nin; i++) {
        ir_type t = infer_tensor(ctx, n, i);
        if (!t || !infer_set_type(ctx, n, i, t))
            return false;
    }
    return known_mode(ctx, n);
}

INFER(is_owner)
{
    const struct ir_attr *bytes = ir_attr(n, IR_ATTR_bytes);
    if (!bytes || bytes->n != n->nout)
        return infer_fail(ctx, n, "%d sizes and %d results (attributes bytes, types)", bytes ? bytes->n : 0, n->nout);
    for (int i = 0; i < n->nout; i++)
        if (!infer_set_type(ctx, n, i, ir_scalar_type(ctx, TCC_BOOL)))
            return false;
    return true;
}

/* The number of ranks, or 0 after a diagnostic. */
static int64_t count_of(struct ir_ctx *ctx, struct ir_node *n)
{
    int64_t count = ir_get_i(n, IR_ATTR_count, 1);
    if (count < 1)
        infer_fail(ctx, n, "count must be at least 1, got %lld", (long long)count);
    return count < 1 ? 0 : count;
}

static bool set_first_dim(struct ir_ctx *ctx, struct ir_node *n, ir_type t, ir_expr dim)
{
    ir_expr dims[TCC_MAX_RANK];
    memcpy(dims, t->dim, (size_t)t->rank * sizeof *dims);
    dims[0] = dim;
    return infer_set_type(ctx, n, 0, ir_tensor_type(ctx, t->dtype, t->rank, dims));
}

INFER(all_gather)
{
    ir_type t = infer_tensor(ctx, n, 0);
    int64_t count = count_of(ctx, n);
    if (!t || !count)
        return false;
    if (t->rank < 1)
        return infer_fail(ctx, n, "the operand needs an axis");
    return set_first_dim(ctx, n, t, ir_mulc(ctx, t->dim[0], count));
}

static int64_t rows_of(struct ir_ctx *ctx, struct ir_node *n, const struct ir_attr *a)
{
    int64_t sum = 0;
    for (int i = 0; i < a->n; i++) {
        if (a->ints[i] < 0 || __builtin_add_overflow(sum, a->ints[i], &sum)) {
            infer_fail(ctx, n, "%s must be counts of rows, got %lld", ir_attr_name(a->key), (long long)a->ints[i]);
            return -1;
        }
    }
    return sum;
}

INFER(all_to_all)
{
    const struct ir_attr *give = ir_attr(n, IR_ATTR_give), *take = ir_attr(n, IR_ATTR_take);
    ir_type t = infer_tensor(ctx, n, 0);
    const char *mode = ir_get_s(n, IR_ATTR_mode, NULL);
    if (mode && (strcmp(mode, "next") || give || take))
        return infer_fail(ctx, n, "mode must be next, without give and take, got '%s'", mode);
    if (!t || (!give && !take))
        return t && infer_set_type(ctx, n, 0, t);
    if (!give || !take || give->n != take->n || t->rank < 1)
        return infer_fail(ctx, n, "give and take are lists of one length, of an operand with an axis");
    int64_t given = rows_of(ctx, n, give), taken = rows_of(ctx, n, take);
    if (given < 0 || taken < 0)
        return false;
    if (!ir_is_value(t->dim[0], given))
        return infer_fail(ctx, n, "axis 0 of %s must be the sum of give, %lld", ir_type_text(ctx, t), (long long)given);
    return set_first_dim(ctx, n, t, ir_const(ctx, taken));
}

INFER(reduce_scatter)
{
    ir_type t = infer_tensor(ctx, n, 0);
    int64_t count = count_of(ctx, n);
    if (!t || !count || !known_mode(ctx, n))
        return false;
    if (t->rank < 1)
        return infer_fail(ctx, n, "the operand needs an axis");
    ir_expr by = ir_const(ctx, count);
    if (!ir_is_value(ir_mod(ctx, t->dim[0], by), 0))
        return infer_fail(ctx, n, "axis 0 of %s must be a multiple of %lld", ir_type_text(ctx, t), (long long)count);
    return set_first_dim(ctx, n, t, ir_floordiv(ctx, t->dim[0], by));
}

static bool has_peer(struct ir_ctx *ctx, struct ir_node *n)
{
    return ir_attr(n, IR_ATTR_peer) || infer_fail(ctx, n, "attribute peer is missing");
}

INFER(send)
{
    return infer_tensor(ctx, n, 0) && has_peer(ctx, n);
}

INFER(recv)
{
    const struct ir_attr *types = infer_list(ctx, n, IR_ATTR_types, 1);
    if (!types || !has_peer(ctx, n))
        return false;
    return ir_is_tensor(types->types[0]) ? infer_set_type(ctx, n, 0, types->types[0])
                                         : infer_fail(ctx, n, "only ranked tensors can be received");
}
