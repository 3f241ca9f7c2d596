/* SPDX-License-Identifier: Apache-2.0 */
/* reduce.c - gradients of reductions and running sums and products. */
#include "passes/grad/grad_int.h"

#include <string.h>

#include "base/mutant.h"

void grad_rule_reduce_sum(struct grad *g, struct ir_node *n)
{
    grad_accumulate(g, n, 0, grad_keep(g, n, grad_out(g, n, 0)));
}

/* Equal extremes share the gradient evenly. */
void grad_rule_reduce_extreme(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_keep(g, n, grad_out(g, n, 0)), *x = n->in[0].value;
    enum tcc_dtype dt = (enum tcc_dtype)x->type->dtype, wide = tcc_small_float(dt) ? TCC_F32 : dt;
    if (!d)
        return;
    struct ir_value *mask = ir_binary(g->b, IR_eq, x, grad_keep(g, n, n->out[0]));
    struct ir_value *count = grad_reduce(g, IR_reduce_sum, ir_cast_to(g->b, mask, wide), grad_axes(n), true);
    struct ir_value *divisor = MUTANT(8, count, ir_constant_f(g->b, wide, 1));
    struct ir_value *share = ir_binary(g->b, IR_div, ir_cast_to(g->b, d, wide), divisor);
    grad_accumulate(g, n, 0, ir_select(g->b, mask, share, ir_constant_f(g->b, wide, 0)));
}

static struct ir_value *cumulate(struct grad *g, enum ir_op op, struct ir_value *x, int axis, bool exclusive,
                                 bool reverse)
{
    return ir_build1(g->b, op, 1, &x,
                     IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis), ir_attr_i(IR_ATTR_exclusive, exclusive),
                              ir_attr_i(IR_ATTR_reverse, reverse)));
}

/*
 * d times the product of the other elements: those before times those behind, along one axis that holds the reduced
 * ones. No division, so zeros need no care.
 */
void grad_rule_reduce_prod(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_keep(g, n, grad_out(g, n, 0)), *x = n->in[0].value;
    unsigned axes = grad_axes(n);
    ir_type t = x->type;
    int64_t perm[TCC_MAX_RANK], back[TCC_MAX_RANK];
    ir_expr moved[TCC_MAX_RANK], flat[TCC_MAX_RANK];
    int kept = 0, rank = 0;

    if (!d || !axes) {
        grad_accumulate(g, n, 0, d);
        return;
    }
    ir_expr size = ir_const(g->ctx, 1);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < t->rank; i++) {
            if ((axes >> i & 1) != (unsigned)pass)
                continue;
            back[i] = rank;
            moved[rank] = t->dim[i];
            perm[rank++] = i;
            if (pass)
                size = ir_mul(g->ctx, size, t->dim[i]);
            else
                flat[kept++] = t->dim[i];
        }
    }
    flat[kept] = size;
    struct ir_value *rows = ir_reshape_to(g->b, ir_transpose_by(g->b, x, perm), kept + 1, flat);
    struct ir_value *products_behind = cumulate(g, IR_cumprod, rows, kept, true, true);
    struct ir_value *others =
        ir_binary(g->b, IR_mul, cumulate(g, IR_cumprod, rows, kept, true, false), products_behind);
    others = ir_transpose_by(g->b, ir_reshape_to(g->b, others, rank, moved), back);
    grad_accumulate(g, n, 0, ir_binary(g->b, IR_mul, d, others));
}

void grad_rule_cumsum(struct grad *g, struct ir_node *n)
{
    bool exclusive = ir_get_i(n, IR_ATTR_exclusive, 0), reverse = ir_get_i(n, IR_ATTR_reverse, 0);
    grad_accumulate(g, n, 0,
                    cumulate(g, IR_cumsum, grad_out(g, n, 0), (int)ir_get_i(n, IR_ATTR_axis, 0), exclusive,
                             MUTANT(9, !reverse, reverse)));
}

/*
 * dx[k] = sum over the i whose product holds x[k] of d[i] prod of the others in it. With the axis last and doubled,
 * [..., k, i]: x[i] but 1 where i is k, running products along i, and only those i that hold k.
 */
void grad_rule_cumprod(struct grad *g, struct ir_node *n)
{
    struct ir_value *x = n->in[0].value, *d = grad_out(g, n, 0);
    int axis = (int)ir_get_i(n, IR_ATTR_axis, 0), rank = x->type->rank;
    bool exclusive = ir_get_i(n, IR_ATTR_exclusive, 0), reverse = ir_get_i(n, IR_ATTR_reverse, 0);
    ir_expr dims[TCC_MAX_RANK], square[2];

    if (!d)
        return;
    if (rank + 1 > TCC_MAX_RANK) {
        grad_fail(g, n, "rank %d is too high", rank);
        return;
    }
    struct ir_value *row = grad_move_axis(g, x, axis, 1, rank - 1), *drow = grad_move_axis(g, d, axis, 1, rank - 1);
    if (!row || !drow)
        return;
    memcpy(dims, row->type->dim, (size_t)rank * sizeof *dims);
    square[0] = square[1] = dims[rank] = dims[rank - 1];
    dims[rank - 1] = ir_const(g->ctx, 1);
    row = ir_reshape_to(g->b, row, rank + 1, dims);
    drow = ir_reshape_to(g->b, drow, rank + 1, dims);
    struct ir_value *k = ir_iota(g->b, 2, square, 0, TCC_I64), *i = ir_iota(g->b, 2, square, 1, TCC_I64);
    struct ir_value *without = ir_formula(g->b, "select(eq(y, z), 1, x)", row, k, i);
    struct ir_value *products = cumulate(g, IR_cumprod, without, rank, exclusive, reverse);
    struct ir_value *terms = ir_formula(g->b, exclusive ? "select(lt(z, u), x * y, 0)" : "select(le(z, u), x * y, 0)",
                                        drow, products, reverse ? i : k, reverse ? k : i);
    grad_accumulate(g, n, 0,
                    grad_move_axis(g, grad_reduce(g, IR_reduce_sum, terms, 1u << rank, false), rank - 1, 1, axis));
}
