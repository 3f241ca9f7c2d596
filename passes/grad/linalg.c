/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linalg.c - gradients of the library ops of linear algebra (runtime/libop/linalg*.c). The formulas are those of Giles,
 * Collected Matrix Derivative Results for Forward and Reverse Mode Algorithmic Differentiation (2008), of Walter and
 * Lehmann for QR (2018), and of Golub and Pereyra for the inverse of Moore and Penrose (1973); where eigenvalues or
 * singular values are equal, they have none. Matrices that are read as symmetric get a symmetric gradient.
 */
#include <string.h>

#include "passes/grad/grad_int.h"
#include "passes/rewrite_int.h"

/* -- Shorthand; NULL operands: NULL ---------------------------------------------------------------- */

static struct ir_value *turned(struct grad *g, struct ir_value *x)
{
    int64_t perm[TCC_MAX_RANK];
    int rank = x ? x->type->rank : 0;
    for (int k = 0; k < rank; k++)
        perm[k] = k < rank - 2 ? k : 2 * rank - 3 - k;
    return x ? ir_transpose_by(g->b, x, perm) : NULL;
}

/* a b; of each the transposed, if so said. */
static struct ir_value *times(struct grad *g, struct ir_value *a, bool turn_a, struct ir_value *b, bool turn_b)
{
    return a && b ? ir_matmul(g->b, a, b, turn_a, turn_b, (enum tcc_dtype)a->type->dtype) : NULL;
}

static struct ir_value *plus(struct grad *g, struct ir_value *a, struct ir_value *b)
{
    return ir_binary(g->b, IR_add, a, b);
}

static struct ir_value *minus(struct grad *g, struct ir_value *a, struct ir_value *b)
{
    return ir_binary(g->b, IR_sub, a, b);
}

/* What may be missing counts as 0. */
static struct ir_value *plus_if(struct grad *g, struct ir_value *a, struct ir_value *b)
{
    return a && b ? plus(g, a, b) : a ? a : b;
}

static struct ir_value *scaled(struct grad *g, struct ir_value *x, double by)
{
    return x ? ir_binary(g->b, IR_mul, x, ir_constant_f(g->b, (enum tcc_dtype)x->type->dtype, by)) : NULL;
}

static ir_expr rows(const struct ir_value *x)
{
    return x->type->dim[x->type->rank - 2];
}

static ir_expr columns(const struct ir_value *x)
{
    return x->type->dim[x->type->rank - 1];
}

/* Column - row of x's matrices, compared with a number. */
static struct ir_value *across(struct grad *g, const struct ir_value *x, enum ir_op compare, int64_t with)
{
    const ir_expr dims[2] = {rows(x), columns(x)};
    struct ir_value *rows_dims = ir_iota(g->b, 2, dims, 0, TCC_I64);
    struct ir_value *d = minus(g, ir_iota(g->b, 2, dims, 1, TCC_I64), rows_dims);
    return ir_binary(g->b, compare, d, ir_constant_i(g->b, TCC_I64, with));
}

/* The elements of x for which that holds, `otherwise` elsewhere. */
static struct ir_value *where(struct grad *g, struct ir_value *x, enum ir_op compare, int64_t with, double otherwise)
{
    struct ir_value *other = x ? ir_constant_f(g->b, (enum tcc_dtype)x->type->dtype, otherwise) : NULL;
    return x ? ir_select(g->b, across(g, x, compare, with), x, other) : NULL;
}

/* L of factors in one: ones on its diagonal. */
static struct ir_value *unit_lower(struct grad *g, struct ir_value *lu)
{
    return where(g, where(g, lu, IR_lt, 1, 0), IR_ne, 0, 1);
}

/* Numbers [..., k] beside matrices: one a row, or one a column. */
static struct ir_value *along(struct grad *g, struct ir_value *s, bool a_row)
{
    ir_expr dims[TCC_MAX_RANK];
    int rank = s->type->rank;
    memcpy(dims, s->type->dim, (size_t)rank * sizeof *dims);
    dims[rank] = ir_const(g->ctx, 1);
    if (!a_row) {
        dims[rank] = dims[rank - 1];
        dims[rank - 1] = ir_const(g->ctx, 1);
    }
    return ir_reshape_to(g->b, s, rank + 1, dims);
}

/* Numbers [...] beside matrices: one a matrix. */
static struct ir_value *each(struct grad *g, struct ir_value *s)
{
    ir_expr dims[TCC_MAX_RANK];
    int rank = s->type->rank;
    memcpy(dims, s->type->dim, (size_t)rank * sizeof *dims);
    dims[rank] = dims[rank + 1] = ir_const(g->ctx, 1);
    return ir_reshape_to(g->b, s, rank + 2, dims);
}

/* How a triangle of a matrix stands in an equation. */
enum { UPPER = 1, RIGHT = 2, TURNED = 4, UNIT = 8 };

static struct ir_value *by_triangle(struct grad *g, struct ir_value *a, struct ir_value *b, int how)
{
    return b ? grad_library(g, "triangular_solve", 2, (struct ir_value *[]){a, b}, b->type,
                            IR_ATTRS(ir_attr_user_i("upper", (how & UPPER) != 0),
                                     ir_attr_user_i("left", !(how & RIGHT)),
                                     ir_attr_user_i("transposed", (how & TURNED) != 0),
                                     ir_attr_user_i("unit", (how & UNIT) != 0)))
             : NULL;
}

static struct ir_value *inverse_of(struct grad *g, struct ir_value *x)
{
    return grad_library(g, "inverse", 1, &x, x->type, NULL);
}

/* -- Determinants, inverses ------------------------------------------------------------------------ */

/* Jacobi's formula: det(x) times the inverse, transposed. */
void grad_det(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0);
    if (d) {
        struct ir_value *each_product = each(g, ir_binary(g->b, IR_mul, d, n->out[0]));
        grad_accumulate(g, n, 0, ir_binary(g->b, IR_mul, turned(g, inverse_of(g, n->in[0].value)), each_product));
    }
}

void grad_slogdet(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 1);
    if (d) {
        struct ir_value *each_d = each(g, d);
        grad_accumulate(g, n, 0, ir_binary(g->b, IR_mul, turned(g, inverse_of(g, n->in[0].value)), each_d));
    }
}

/* -(y' d y'), y being the inverse. */
void grad_inverse(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0), *y = n->out[0];
    if (d)
        grad_accumulate(g, n, 0, ir_unary(g->b, IR_neg, times(g, times(g, y, true, d, false), false, y, true)));
}

/* Golub and Pereyra's: of three terms, two vanish where x has full rank. */
void grad_pinv(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0), *x = n->in[0].value, *y = n->out[0];
    if (!d)
        return;
    struct ir_value *one = turned(g, times(g, times(g, y, false, turned(g, d), false), false, y, false));
    struct ir_value *product = times(g, x, false, times(g, y, false, turned(g, d), false), false);
    struct ir_value *difference = minus(g, turned(g, d), product);
    /* (I - x y) d' y y' + y' y d' (I - y x) - (y d' y)' */
    struct ir_value *two = times(g, times(g, difference, false, y, false), false, y, true);
    struct ir_value *other = times(g, times(g, turned(g, d), false, y, false), false, x, false);
    struct ir_value *left = minus(g, turned(g, d), other);
    struct ir_value *three = times(g, times(g, y, true, y, false), false, left, false);
    grad_accumulate(g, n, 0, minus(g, plus(g, two, three), one));
}

/* -- Solutions ------------------------------------------------------------------------------------- */

/* The gradient of a matrix in a x = b, x a = b, or of its transposed one: that of b times x, negative. */
static struct ir_value *of_matrix(struct grad *g, struct ir_node *n, struct ir_value *side)
{
    bool right = ir_user_i(n, "left", 1) == 0, transposed = ir_user_i(n, "transposed", 0) != 0;
    struct ir_value *x = n->out[0];
    struct ir_value *v = right ? times(g, x, true, side, false) : times(g, side, false, x, true);
    v = transposed ? turned(g, v) : v;
    return v ? ir_unary(g->b, IR_neg, v) : NULL;
}

void grad_solve(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0);
    if (!d)
        return;
    struct ir_value *side = grad_library(g, "solve", 2, (struct ir_value *[]){n->in[0].value, d}, d->type,
                                         IR_ATTRS(ir_attr_user_i("left", ir_user_i(n, "left", 1)),
                                                  ir_attr_user_i("transposed", !ir_user_i(n, "transposed", 0))));
    grad_accumulate(g, n, 1, side);
    if (grad_wants(g, n, 0))
        grad_accumulate(g, n, 0, of_matrix(g, n, side));
}

void grad_triangular_solve(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0);
    bool upper = ir_user_i(n, "upper", 0) != 0, unit = ir_user_i(n, "unit", 0) != 0;
    if (!d)
        return;
    struct ir_value *side = by_triangle(g, n->in[0].value, d,
                                        (upper ? UPPER : 0) | (ir_user_i(n, "left", 1) ? 0 : RIGHT) |
                                            (ir_user_i(n, "transposed", 0) ? 0 : TURNED) | (unit ? UNIT : 0));
    grad_accumulate(g, n, 1, side);
    if (grad_wants(g, n, 0))
        grad_accumulate(g, n, 0, where(g, of_matrix(g, n, side), upper ? IR_ge : IR_le, !unit ? 0 : upper ? 1 : -1, 0));
}

/* The matrix that brings L's rows into the order of those that were factored. */
static struct ir_value *order_of(struct grad *g, struct ir_value *lu, struct ir_value *pivots)
{
    ir_expr dims[TCC_MAX_RANK];
    memcpy(dims, lu->type->dim, (size_t)lu->type->rank * sizeof *dims);
    dims[lu->type->rank - 1] = rows(lu);
    ir_type t = ir_tensor_type(g->ctx, (enum tcc_dtype)lu->type->dtype, lu->type->rank, dims);
    return grad_library(g, "lu_permutation", 2, (struct ir_value *[]){lu, pivots}, t, NULL);
}

/* Of L and U in one, by those of the matrix, whose rows are in the order of L's. */
void grad_lu_solve(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0), *lu = n->in[0].value, *pivots = n->in[1].value;
    if (!d)
        return;
    struct ir_value *side = grad_library(g, "lu_solve", 3, (struct ir_value *[]){lu, pivots, d}, d->type,
                                         IR_ATTRS(ir_attr_user_i("left", ir_user_i(n, "left", 1)),
                                                  ir_attr_user_i("transposed", !ir_user_i(n, "transposed", 0))));
    grad_accumulate(g, n, 2, side);
    if (!grad_wants(g, n, 0))
        return;
    struct ir_value *order = order_of(g, lu, pivots), *z = times(g, order, true, of_matrix(g, n, side), false);
    struct ir_value *u = where(g, lu, IR_ge, 0, 0), *l = unit_lower(g, lu);
    struct ir_value *lower = where(g, times(g, l, true, z, false), IR_ge, 0, 0);
    grad_accumulate(g, n, 0, plus(g, where(g, times(g, z, false, u, true), IR_lt, 0, 0), lower));
}

/* -- Factors --------------------------------------------------------------------------------------- */

void grad_cholesky(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0), *l = n->out[0];
    if (!d)
        return;
    if (ir_user_i(n, "upper", 0)) {
        l = turned(g, l);
        d = turned(g, d);
    }
    struct ir_value *p = times(g, l, true, d, false);
    struct ir_value *upper_turned = turned(g, where(g, p, IR_lt, 0, 0));
    struct ir_value *core = scaled(g, plus(g, where(g, p, IR_le, 0, 0), upper_turned), 0.5);
    grad_accumulate(g, n, 0, by_triangle(g, l, by_triangle(g, l, core, TURNED), RIGHT));
}

/* x's first k rows (axis 0) or columns (1) of each matrix. */
static struct ir_value *first(struct grad *g, struct ir_value *x, int axis, ir_expr k)
{
    return ir_slice_axis(g->b, x, x->type->rank - 2 + axis, ir_const(g->ctx, 0), k);
}

/* The triangle that meets the sides of length k is solved first, beside what lies on or behind the other's diagonal. */
void grad_lu(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0), *lu = n->out[0];
    ir_expr k = ir_min(g->ctx, rows(lu), columns(lu));
    bool high = ir_expr_eq(g->ctx, columns(lu), k) == IR_YES;
    if (!d)
        return;
    if (!high && ir_expr_eq(g->ctx, rows(lu), k) != IR_YES) {
        grad_fail(g, n, "the factors of matrices that may be higher or wider, as the run says, are not differentiated");
        return;
    }
    int longer = high ? 0 : 1, axis = lu->type->rank - 2 + longer;
    struct ir_value *l = first(g, unit_lower(g, lu), 1, k), *u = first(g, where(g, lu, IR_ge, 0, 0), 0, k);
    struct ir_value *below = first(g, where(g, d, IR_lt, 0, 0), 1, k),
                    *above = first(g, where(g, d, IR_ge, 0, 0), 0, k);
    struct ir_value *square = first(g, lu, longer, k);
    struct ir_value *by_above = times(g, above, false, u, true), *by_below = times(g, l, true, below, false);
    int turned_l = TURNED | UNIT, turned_u = UPPER | RIGHT | TURNED;
    struct ir_value *core = high ? where(g, minus(g, by_above, by_below), IR_ge, 0, 0)
                                 : where(g, minus(g, by_below, by_above), IR_lt, 0, 0);
    core = by_triangle(g, square, core, high ? turned_l : turned_u);
    struct ir_value *side = high ? below : above, *parts[2] = {plus(g, core, first(g, side, longer, k)), NULL};
    parts[1] = ir_slice_axis(g->b, side, axis, k, ir_sub(g->ctx, lu->type->dim[axis], k));
    struct ir_value *v = by_triangle(g, square, ir_concat(g->b, 2, parts, axis), high ? turned_u : turned_l);
    grad_accumulate(g, n, 0, times(g, order_of(g, lu, n->out[1]), false, v, false));
}

/* Of x = q r, q having as many columns as x. */
static struct ir_value *of_tall(struct grad *g, struct ir_value *q, struct ir_value *r, struct ir_value *dq,
                                struct ir_value *dr)
{
    struct ir_value *m = dr ? times(g, dr, false, r, true) : NULL, *back = dq ? times(g, q, true, dq, false) : NULL;
    m = m && back ? minus(g, m, back) : m ? m : ir_unary(g->b, IR_neg, back);
    struct ir_value *lower_turned = turned(g, where(g, m, IR_gt, 0, 0));
    m = plus(g, where(g, m, IR_ge, 0, 0), lower_turned);
    return by_triangle(g, r, plus_if(g, dq, times(g, q, false, m, false)), UPPER | RIGHT | TURNED);
}

void grad_qr(struct grad *g, struct ir_node *n)
{
    struct ir_value *dq = grad_out(g, n, 0), *dr = grad_out(g, n, 1), *x = n->in[0].value, *q = n->out[0],
                    *r = n->out[1];
    ir_expr zero = ir_const(g->ctx, 0), k = ir_min(g->ctx, rows(x), columns(x));
    int last = x->type->rank - 1;
    if (!dq && !dr)
        return;
    if (ir_expr_eq(g->ctx, k, columns(x)) == IR_YES && ir_expr_eq(g->ctx, columns(q), columns(x)) == IR_YES) {
        grad_accumulate(g, n, 0, of_tall(g, q, r, dq, dr));
        return;
    }
    if (ir_expr_eq(g->ctx, k, columns(q)) != IR_YES) {
        grad_fail(g, n,
                  "the complete factors of matrices that have, or may have, more rows than columns have no "
                  "derivative, in PyTorch neither: the further columns of Q are any that complete a basis; "
                  "mode 'reduced' has one");
        return;
    }
    ir_expr rest = ir_sub(g->ctx, columns(x), k);
    struct ir_value *square = ir_slice_axis(g->b, r, last, zero, k), *beside = ir_slice_axis(g->b, x, last, k, rest),
                    *dr_square = dr ? ir_slice_axis(g->b, dr, last, zero, k) : NULL,
                    *dr_beside = dr ? ir_slice_axis(g->b, dr, last, k, rest) : NULL;
    if (dr_beside)
        dq = plus_if(g, dq, times(g, beside, false, dr_beside, true));
    struct ir_value *parts[2] = {of_tall(g, q, square, dq, dr_square),
                                 dr_beside ? times(g, q, false, dr_beside, false) : grad_full(g, beside->type, 0)};
    grad_accumulate(g, n, 0, ir_concat(g->b, 2, parts, last));
}

/* -- Eigenvalues, singular values -------------------------------------------------------------------- */

/* m over the differences s_j - s_i, whose diagonal counts as 1. */
static struct ir_value *over_differences(struct grad *g, struct ir_value *m, struct ir_value *s)
{
    struct ir_value *s_along_rows = along(g, s, true);
    struct ir_value *e = minus(g, along(g, s, false), s_along_rows);
    return ir_binary(g->b, IR_div, m, where(g, e, IR_ne, 0, 1));
}

/* Numbers on the diagonals of matrices like m. */
static struct ir_value *diagonal(struct grad *g, struct ir_value *s, struct ir_value *v)
{
    return s && v ? where(g, ir_expand_to(g->b, along(g, s, true), v->type->rank, v->type->dim), IR_eq, 0, 0) : NULL;
}

void grad_eigh(struct grad *g, struct ir_node *n)
{
    struct ir_value *dw = grad_out(g, n, 0), *dv = grad_out(g, n, 1), *w = n->out[0], *v = n->out[1];
    if (!dw && !dv)
        return;
    struct ir_value *core = dv ? where(g, over_differences(g, times(g, v, true, dv, false), w), IR_ne, 0, 0) : NULL;
    if (!dv) {
        struct ir_value *by = ir_binary(g->b, IR_mul, v, along(g, dw, false));
        grad_accumulate(g, n, 0, times(g, by, false, v, true));
        return;
    }
    core = dw ? plus(g, core, diagonal(g, dw, v)) : core;
    core = times(g, times(g, v, false, core, false), false, v, true);
    /* Of a matrix that is read as symmetric. */
    grad_accumulate(g, n, 0, scaled(g, plus(g, core, turned(g, core)), 0.5));
}

/* By the library: the vectors are complex. */
void grad_eig(struct grad *g, struct ir_node *n)
{
    struct ir_value *in[4] = {n->out[0], n->out[1], grad_out(g, n, 0), grad_out(g, n, 1)};
    if (!in[2] && !in[3])
        return;
    for (int k = 2; k < 4; k++)
        in[k] = in[k] ? in[k] : grad_full(g, n->out[k - 2]->type, 0);
    grad_accumulate(g, n, 0, grad_library(g, "eig_grad", 4, in, n->in[0].value->type, NULL));
}

static struct ir_value *skew(struct grad *g, struct ir_value *x)
{
    return minus(g, x, turned(g, x));
}

void grad_svd(struct grad *g, struct ir_node *n)
{
    struct ir_value *du = grad_out(g, n, 0), *ds = grad_out(g, n, 1), *dv = grad_out(g, n, 2), *u = n->out[0],
                    *s = n->out[1], *v = n->out[2];
    int rank = u->type->rank;
    ir_expr zero = ir_const(g->ctx, 0), k = s->type->dim[rank - 2];
    if (!du && !ds && !dv)
        return;
    /* What belongs to the singular values; the rest of square factors is chosen freely. */
    u = ir_slice_axis(g->b, u, rank - 1, zero, k);
    v = ir_slice_axis(g->b, v, rank - 2, zero, k);
    du = du ? ir_slice_axis(g->b, du, rank - 1, zero, k) : NULL;
    dv = dv ? ir_slice_axis(g->b, dv, rank - 2, zero, k) : NULL;
    struct ir_value *squares = ir_binary(g->b, IR_mul, s, s), *core = NULL, *more = NULL;
    if (ds && !du && !dv) {
        grad_accumulate(g, n, 0, times(g, ir_binary(g->b, IR_mul, u, along(g, ds, false)), false, v, false));
        return;
    }
    if (du) {
        struct ir_value *by = ir_binary(g->b, IR_div, du, along(g, s, false));
        struct ir_value *s_along_columns = along(g, s, false);
        core = ir_binary(g->b, IR_mul, over_differences(g, skew(g, times(g, u, true, du, false)), squares),
                         s_along_columns);
        more = times(g, minus(g, by, times(g, u, false, times(g, u, true, by, false), false)), false, v, false);
    }
    if (dv) {
        struct ir_value *by = ir_binary(g->b, IR_div, dv, along(g, s, true));
        struct ir_value *skewed = over_differences(g, skew(g, times(g, v, false, dv, true)), squares);
        core = plus_if(g, core, ir_binary(g->b, IR_mul, along(g, s, true), skewed));
        more = plus_if(
            g, more, times(g, u, false, minus(g, by, times(g, times(g, by, false, v, true), false, v, false)), false));
    }
    if (ds)
        core = plus(g, core, diagonal(g, ds, core));
    grad_accumulate(g, n, 0, plus(g, times(g, times(g, u, false, core, false), false, v, false), more));
}

/* -- Functions ------------------------------------------------------------------------------------- */

/* The derivative at x' in the direction d is a block of exp([x', d; 0, x']) (Van Loan, 1978). */
void grad_matrix_exp(struct grad *g, struct ir_node *n)
{
    struct ir_value *d = grad_out(g, n, 0), *x = n->in[0].value;
    if (!d)
        return;
    ir_expr m = rows(x), zero = ir_const(g->ctx, 0), dims[TCC_MAX_RANK];
    int rank = x->type->rank;
    struct ir_value *back = turned(g, x), *above[2] = {back, d}, *below[2] = {grad_full(g, x->type, 0), back}, *half[2];
    half[0] = ir_concat(g->b, 2, above, rank - 1);
    half[1] = ir_concat(g->b, 2, below, rank - 1);
    struct ir_value *all = ir_concat(g->b, 2, half, rank - 2);
    if (!all)
        return;
    memcpy(dims, all->type->dim, (size_t)rank * sizeof *dims);
    all = grad_library(g, "matrix_exp", 1, &all, all->type, NULL);
    grad_accumulate(g, n, 0, ir_slice_axis(g->b, ir_slice_axis(g->b, all, rank - 2, zero, m), rank - 1, m, m));
}
