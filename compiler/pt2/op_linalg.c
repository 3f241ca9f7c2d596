/* SPDX-License-Identifier: Apache-2.0 */
/* Products of tensors beyond matmul, norms of matrices, similarities. */
#include "compiler/pt2/pt2_int.h"

#include <math.h>
#include <string.h>

ir_expr pt2_product(struct pt2 *p, const struct ir_value *x, int from, int to)
{
    ir_expr n = ir_const(p->ctx, 1);
    for (int k = from; k < to; k++)
        n = ir_mul(p->ctx, n, imp_dim(x, k));
    return n;
}

/* x as a matrix: rows of what is not summed, columns of the n axes that are; or (`front`) those first. */
static struct ir_value *as_matrix(struct pt2 *p, struct ir_value *x, int n, const int64_t *axes, bool front,
                                  int64_t *perm)
{
    int rank = imp_rank(x), kept = 0;
    bool summed[TCC_MAX_RANK] = {false};
    for (int k = 0; k < n; k++)
        summed[axes[k]] = true;
    for (int k = 0; k < n; k++)
        perm[(front ? 0 : rank - n) + k] = axes[k];
    for (int k = 0; k < rank; k++) {
        if (!summed[k])
            perm[(front ? n : 0) + kept++] = k;
    }
    struct ir_value *y = imp_transpose(p->im, x, perm);
    int cut = front ? n : rank - n;
    return y ? imp_reshape(p->im, y, 2, (const ir_expr[]){pt2_product(p, y, 0, cut), pt2_product(p, y, cut, rank)})
             : NULL;
}

static bool contracted(struct pt2 *p, struct ir_value *a, struct ir_value *b, int n, const int64_t *from,
                       const int64_t *to)
{
    int64_t pa[TCC_MAX_RANK], pb[TCC_MAX_RANK];
    ir_expr dims[2 * TCC_MAX_RANK];
    int rank = 0;
    struct ir_value *x = as_matrix(p, a, n, from, false, pa), *y = x ? as_matrix(p, b, n, to, true, pb) : NULL;
    if (!y)
        return false;
    for (int k = 0; k < imp_rank(a) - n; k++)
        dims[rank++] = imp_dim(a, (int)pa[k]);
    for (int k = n; k < imp_rank(b); k++)
        dims[rank++] = imp_dim(b, (int)pb[k]);
    if (rank > TCC_MAX_RANK)
        return imp_unsupported(p->im, "a result of %d dims", rank);
    struct ir_value *z = imp_matmul(p->im, x, y, false, false, TCC_NONE);
    return z && pt2_out(p, 0, imp_reshape(p->im, z, rank, dims));
}

/* tensordot(self, other, dims_self, dims_other) */
bool aten_tensordot(struct pt2 *p)
{
    struct ir_value *a = pt2_need(p, "self"), *b = a ? pt2_need(p, "other") : NULL;
    int64_t from[TCC_MAX_RANK], to[TCC_MAX_RANK];
    int n = pt2_ints(p, "dims_self", TCC_MAX_RANK, from), m = pt2_ints(p, "dims_other", TCC_MAX_RANK, to);
    if (!b || n < 0 || n != m)
        return false;
    for (int k = 0; k < n; k++) {
        from[k] += from[k] < 0 ? imp_rank(a) : 0;
        to[k] += to[k] < 0 ? imp_rank(b) : 0;
        if (from[k] < 0 || from[k] >= imp_rank(a) || to[k] < 0 || to[k] >= imp_rank(b))
            return imp_bad(p->im, "dims that the operands do not have");
    }
    return contracted(p, a, b, n, from, to);
}

/* inner(self, other): over the last axis of both */
bool aten_inner(struct pt2 *p)
{
    struct ir_value *a = pt2_need(p, "self"), *b = a ? pt2_need(p, "other") : NULL;
    struct pt2_operands o;
    if (!b)
        return false;
    if (!imp_rank(a) || !imp_rank(b))
        return pt2_factors(p, "self", "other", &o) && pt2_out(p, 0, pt2_bin(p, IR_mul, o.a, o.b));
    return contracted(p, a, b, 1, &(int64_t){imp_rank(a) - 1}, &(int64_t){imp_rank(b) - 1});
}

/* kron(self, other): each element of self times the whole of other */
bool aten_kron(struct pt2 *p)
{
    struct pt2_operands o;
    ir_expr left[2 * TCC_MAX_RANK], right[2 * TCC_MAX_RANK], dims[TCC_MAX_RANK];
    if (!pt2_factors(p, "self", "other", &o))
        return false;
    int rank = imp_rank(o.a) > imp_rank(o.b) ? imp_rank(o.a) : imp_rank(o.b);
    if (2 * rank > TCC_MAX_RANK)
        return imp_unsupported(p->im, "operands of %d dims", rank);
    struct ir_value *a = imp_to_rank(p->im, o.a, rank), *b = imp_to_rank(p->im, o.b, rank);
    for (int k = 0; a && b && k < rank; k++) {
        left[2 * k] = imp_dim(a, k);
        right[2 * k + 1] = imp_dim(b, k);
        left[2 * k + 1] = right[2 * k] = ir_const(p->ctx, 1);
        dims[k] = ir_mul(p->ctx, imp_dim(a, k), imp_dim(b, k));
    }
    if (!a || !b)
        return false;
    struct ir_value *b_shaped = imp_reshape(p->im, b, 2 * rank, right);
    struct ir_value *y = pt2_bin(p, IR_mul, imp_reshape(p->im, a, 2 * rank, left), b_shaped);
    return pt2_out(p, 0, imp_reshape(p->im, y, rank, dims));
}

/* Elements 1, 2, 0 (turn 1) or 2, 0, 1 along an axis of three. */
static struct ir_value *turned(struct pt2 *p, struct ir_value *x, int64_t axis, int turn)
{
    const int64_t at[] = {turn % 3, (turn + 1) % 3, (turn + 2) % 3};
    return x ? imp_gather(p->im, x, imp_i64s(p->im, 3, at), (int)axis) : NULL;
}

/* linalg_cross(self, other, dim = -1); cross (arg 1): by default the first axis of three */
bool aten_cross(struct pt2 *p)
{
    struct pt2_operands o;
    int64_t axis = 0;
    if (!pt2_pair_of(p, "self", "other", pt2_out_type(p, 0), &o))
        return false;
    int rank = imp_rank(o.a) > imp_rank(o.b) ? imp_rank(o.a) : imp_rank(o.b);
    struct ir_value *a = imp_to_rank(p->im, o.a, rank), *b = imp_to_rank(p->im, o.b, rank);
    if (!a || !b)
        return false;
    if (p->row->arg && !pt2_given(p, "dim")) {
        while (axis < rank - 1 && !ir_is_value(imp_dim(a, (int)axis), 3))
            axis++;
    } else if (!pt2_axis(p, "dim", -1, rank, &axis)) {
        return false;
    }
    if (!ir_is_value(imp_dim(a, (int)axis), 3) || !ir_is_value(imp_dim(b, (int)axis), 3))
        return imp_bad(p->im, "axis %lld is none of three", (long long)axis);
    struct ir_value *turned_by_2 = turned(p, b, axis, 2);
    struct ir_value *first = imp_bin(p->im, IR_mul, turned(p, a, axis, 1), turned_by_2);
    struct ir_value *turned_by_1 = turned(p, b, axis, 1);
    return pt2_out(p, 0, imp_bin(p->im, IR_sub, first, imp_bin(p->im, IR_mul, turned(p, a, axis, 2), turned_by_1)));
}

struct ir_value *pt2_summed_product(struct pt2 *p, struct ir_value *a, struct ir_value *b, int64_t axis, bool keep)
{
    struct ir_value *b_wide = imp_wide(p->im, b);
    struct ir_value *y = imp_bin(p->im, IR_mul, imp_wide(p->im, a), b_wide);
    if (!y)
        return NULL;
    axis += axis < 0 ? imp_rank(y) : 0;
    if (axis < 0 || axis >= imp_rank(y))
        return imp_bad(p->im, "axis %lld of %d dims", (long long)axis, imp_rank(y)), NULL;
    return imp_reduce(p->im, IR_reduce_sum, y, 1, &axis, keep);
}

/* linalg_vecdot(x, y, dim) */
bool aten_vecdot(struct pt2 *p)
{
    struct ir_value *a = pt2_need(p, "x"), *b = a ? pt2_need(p, "y") : NULL;
    return b && pt2_out(p, 0, pt2_summed_product(p, a, b, pt2_i(p, "dim", -1), false));
}

/* linalg_multi_dot(tensors), chain_matmul(matrices): from the left */
bool aten_multi_dot(struct pt2 *p)
{
    struct ir_value **in;
    int n = pt2_list(p, p->row->arg ? "matrices" : "tensors", &in);
    struct ir_value *y = n > 0 ? in[0] : NULL;
    for (int k = 1; y && k < n; k++)
        y = in[k] ? imp_matmul_nd(p->im, y, in[k], imp_dtype(y)) : NULL;
    return pt2_out(p, 0, y);
}

/* matrix_power(self, n) */
bool aten_matrix_power(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self"), *y = NULL;
    int64_t n = pt2_i(p, "n", 1);
    if (!x || imp_rank(x) < 2)
        return x && imp_bad(p->im, "a power of what is no matrix");
    if (n < 0 && !(x = pt2_inverse(p, x)))
        return false;
    n = n < 0 ? -n : n;
    const ir_expr *dims = x->type->dim + imp_rank(x) - 2;
    if (!n) {
        y = imp_cast(p->im, imp_band(p->im, IR_eq, dims, imp_int(p->im, TCC_I64, 0)), imp_dtype(x));
        return pt2_out(p, 0, pt2_expand_as(p, y, x));
    }
    for (struct ir_value *square = x; n && square; n >>= 1) {
        if (n & 1)
            y = y ? imp_matmul(p->im, y, square, false, false, TCC_NONE) : square;
        square = n > 1 ? imp_matmul(p->im, square, square, false, false, TCC_NONE) : square;
    }
    return pt2_out(p, 0, y);
}

/* Of bools a factor is one, too. */
static struct ir_value *times(struct pt2 *p, struct ir_value *x, double factor)
{
    factor = x && imp_dtype(x) == TCC_BOOL ? factor != 0 : factor;
    return x && factor != 1 ? pt2_bin(p, IR_mul, x, imp_like(p->im, x, factor)) : x;
}

/* beta self + alpha y */
static bool added(struct pt2 *p, struct ir_value *y)
{
    struct ir_value *c = pt2_need(p, "self");
    double beta = pt2_f(p, "beta", 1);
    y = times(p, y, pt2_f(p, "alpha", 1));
    if (beta == 0)
        return pt2_out(p, 0, y);
    c = imp_cast(p->im, c, y ? imp_dtype(y) : TCC_F32);
    return pt2_out(p, 0, pt2_bin(p, IR_add, times(p, c, beta), y));
}

/* addbmm(self, batch1, batch2): the products' sum */
bool aten_addbmm(struct pt2 *p)
{
    struct ir_value *a = pt2_need(p, "batch1"), *b = a ? pt2_need(p, "batch2") : NULL;
    int64_t first = 0;
    enum tcc_dtype d = pt2_out_type(p, 0);
    struct ir_value *y = b ? imp_matmul(p->im, a, b, false, false, tcc_small_float(d) ? TCC_F32 : TCC_NONE) : NULL;
    return added(p, imp_reduce(p->im, IR_reduce_sum, y, 1, &first, false));
}

/* addr(self, vec1, vec2): the outer product */
bool aten_addr(struct pt2 *p)
{
    struct pt2_operands o;
    if (!pt2_pair_of(p, "vec1", "vec2", pt2_out_type(p, 0), &o))
        return false;
    struct ir_value *row = imp_along(p->im, o.b, 1, 2);
    return added(p, pt2_bin(p, IR_mul, imp_along(p->im, o.a, 0, 2), row));
}

/* bilinear(input1[..., i], input2[..., j], weight[o, i, j], bias[o]): (input1 weight[o]) . input2 */
bool aten_bilinear(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *x = pt2_need(p, "input1"), *y = x ? pt2_need(p, "input2") : NULL,
                    *w = y ? pt2_need(p, "weight") : NULL, *bias = w ? pt2_t(p, "bias") : NULL;
    if (!w || !imp_rank(x) || imp_rank(w) != 3)
        return false;
    int rank = imp_rank(x);
    ir_expr rows = pt2_product(p, x, 0, rank - 1), dims[TCC_MAX_RANK];
    const int64_t perm[] = {1, 0, 2}, middle = 1, last = 2;
    struct ir_value *flat = imp_reshape(im, x, 2, (const ir_expr[]){rows, imp_dim(x, rank - 1)});
    struct ir_value *sides =
        imp_reshape(im, imp_transpose(im, w, perm), 2,
                    (const ir_expr[]){imp_dim(w, 1), ir_mul(p->ctx, imp_dim(w, 0), imp_dim(w, 2))});
    struct ir_value *half = flat && sides ? imp_matmul(im, flat, sides, false, false, TCC_NONE) : NULL;
    half = imp_reshape(im, half, 3, (const ir_expr[]){rows, imp_dim(w, 0), imp_dim(w, 2)});
    struct ir_value *other =
        imp_unsqueeze(im, imp_reshape(im, y, 2, (const ir_expr[]){rows, imp_dim(w, 2)}), 1, &middle);
    struct ir_value *z = imp_reduce(im, IR_reduce_sum, imp_bin(im, IR_mul, half, other), 1, &last, false);
    for (int k = 0; k < rank; k++)
        dims[k] = k == rank - 1 ? imp_dim(w, 0) : imp_dim(x, k);
    z = imp_reshape(im, bias ? imp_bin(im, IR_add, z, bias) : z, rank, dims);
    return pt2_out(p, 0, z);
}

/* The letters of an operand's axes in _trilinear: those of all, but for the axes that it is expanded along. -1: they
 * don't fit. */
static int letters_of(struct pt2 *p, const char *name, const char *expanded, int total, char *to)
{
    int64_t axes[TCC_MAX_RANK];
    struct ir_value *x = pt2_need(p, name);
    int n = x ? pt2_ints(p, expanded, TCC_MAX_RANK, axes) : -2, count = 0;
    unsigned without = 0;
    total = total < 0 && n >= 0 ? imp_rank(x) + n : total;
    if (n < 0 || total > TCC_MAX_RANK)
        return -1;
    for (int k = 0; k < n; k++) {
        if (!imp_axis(p->im, &axes[k], total))
            return -1;
        without |= 1u << axes[k];
    }
    for (int k = 0; k < total; k++)
        if (!(without >> k & 1))
            to[count++] = (char)('a' + k);
    to[count] = 0;
    return count == imp_rank(x) ? total : -1;
}

/* _trilinear(i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim): what bilinear decomposes to. Each operand gets
 * axes of 1 at `expand`; the product of the three, summed over `sumdim`. */
bool aten_trilinear(struct pt2 *p)
{
    char parts[4][TCC_MAX_RANK + 1], equation[4 * (TCC_MAX_RANK + 3)];
    int64_t summed[TCC_MAX_RANK];
    int total = letters_of(p, "i1", "expand1", -1, parts[0]), n = pt2_ints(p, "sumdim", TCC_MAX_RANK, summed),
        count = 0;
    unsigned without = 0;
    pt2_ignore(p, "unroll_dim"); /* how it is computed */
    if (total < 0 || n < 0 || letters_of(p, "i2", "expand2", total, parts[1]) < 0 ||
        letters_of(p, "i3", "expand3", total, parts[2]) < 0)
        return imp_bad(p->im, "axes that do not fit its operands");
    for (int k = 0; k < n; k++) {
        if (!imp_axis(p->im, &summed[k], total))
            return false;
        without |= 1u << summed[k];
    }
    for (int k = 0; k < total; k++)
        if (!(without >> k & 1))
            parts[3][count++] = (char)('a' + k);
    parts[3][count] = 0;
    snprintf(equation, sizeof equation, "%s,%s,%s->%s", parts[0], parts[1], parts[2], parts[3]);
    struct ir_value *in[] = {pt2_need(p, "i1"), pt2_need(p, "i2"), pt2_need(p, "i3")};
    return pt2_out(p, 0, imp_einsum(p->im, equation, 3, in));
}

/* -- Similarities and distances */

/* cosine_similarity(x1, x2, dim, eps): each divided by its norm, or eps */
bool aten_cosine_similarity(struct pt2 *p)
{
    struct pt2_operands o;
    double eps = pt2_f(p, "eps", 1e-8);
    int64_t axis = pt2_i(p, "dim", 1);
    if (!pt2_pair_of(p, "x1", "x2", TCC_NONE, &o))
        return false;
    int rank = imp_rank(o.a) > imp_rank(o.b) ? imp_rank(o.a) : imp_rank(o.b);
    struct ir_value *a = imp_wide(p->im, imp_to_rank(p->im, o.a, rank)),
                    *b = imp_wide(p->im, imp_to_rank(p->im, o.b, rank));
    axis += axis < 0 ? rank : 0;
    if (axis < 0 || axis >= rank)
        return imp_bad(p->im, "axis %lld of %d dims", (long long)axis, rank);
    a = imp_bin(p->im, IR_div, a, imp_with(p->im, IR_max, pt2_norm(p, a, 2, 1, &axis, true), eps));
    b = imp_bin(p->im, IR_div, b, imp_with(p->im, IR_max, pt2_norm(p, b, 2, 1, &axis, true), eps));
    return a && b && pt2_out(p, 0, pt2_summed_product(p, a, b, axis, false));
}

struct ir_value *pt2_distance(struct pt2 *p, struct ir_value *a, struct ir_value *b, double order, double eps,
                              bool keep)
{
    struct ir_value *d = imp_bin(p->im, IR_sub, a, b);
    if (d && !imp_is_float(d))
        d = imp_cast(p->im, d, TCC_F32);
    d = imp_with(p->im, IR_add, d, eps);
    int64_t last = d ? imp_rank(d) - 1 : -1;
    return last >= 0 ? pt2_norm(p, d, order, 1, &last, keep) : NULL;
}

/* pairwise_distance(x1, x2, p, eps, keepdim): the norm of x1 - x2 + eps along the last axis */
bool aten_pairwise_distance(struct pt2 *p)
{
    struct pt2_operands o;
    double order = pt2_f(p, "p", 2), eps = pt2_f(p, "eps", 1e-6);
    bool keep = pt2_b(p, "keepdim", false);
    if (!pt2_pair_of(p, "x1", "x2", TCC_NONE, &o))
        return false;
    struct ir_value *b_wide = imp_wide(p->im, o.b);
    return pt2_out(p, 0, pt2_distance(p, imp_wide(p->im, o.a), b_wide, order, eps, keep));
}

/* dist(self, other, p): the norm of all of self - other */
bool aten_dist(struct pt2 *p)
{
    struct pt2_operands o;
    double order = pt2_f(p, "p", 2);
    if (!pt2_pair_of(p, "self", "other", pt2_out_type(p, 0), &o))
        return false;
    struct ir_value *b_wide = imp_wide(p->im, o.b);
    struct ir_value *d = imp_bin(p->im, IR_sub, imp_wide(p->im, o.a), b_wide);
    const int64_t first = 0;
    return pt2_out(p, 0, pt2_norm(p, pt2_flat(p, d), order, 1, &first, false));
}

/* The largest or smallest along an axis of what is not negative; the largest of nothing is 0. */
static struct ir_value *extreme(struct pt2 *p, struct ir_value *x, bool least, int64_t axis, bool keep)
{
    struct ir_value *y = imp_reduce(p->im, least ? IR_reduce_min : IR_reduce_max, x, 1, &axis, keep);
    return least ? y : imp_formula(p->im, "select(lt(x, 0), 0, x)", y);
}

/* Norms of the matrices of two axes, rows and columns: by sums of columns (1, -1) or rows (infinite), or by singular
 * values (2, -2; nuclear: their sum). Those axes stay, with size 1. */
static struct ir_value *matrix_norm(struct pt2 *p, struct ir_value *x, double order, bool nuclear, const int64_t *axes)
{
    struct imp *im = p->im;
    int64_t perm[TCC_MAX_RANK];
    ir_expr dims[TCC_MAX_RANK];
    int rank = imp_rank(x), n = 0;
    if (!nuclear && (fabs(order) == 1 || isinf(order))) {
        int first = isinf(order) ? 1 : 0;
        struct ir_value *sums = imp_reduce(im, IR_reduce_sum, imp_un(im, IR_abs, x), 1, &axes[first], true);
        return extreme(p, sums, order < 0, axes[1 - first], true);
    }
    if (!nuclear && fabs(order) != 2)
        return imp_bad(im, "a matrix has no norm of order %g", order), NULL;
    for (int k = 0; k < rank; k++) {
        dims[k] = k == axes[0] || k == axes[1] ? ir_const(p->ctx, 1) : imp_dim(x, k);
        if (k != axes[0] && k != axes[1])
            perm[n++] = k;
    }
    perm[n] = axes[0];
    perm[n + 1] = axes[1];
    struct ir_value *values = pt2_singular_values(p, imp_transpose(im, x, perm));
    const int64_t last = rank - 2;
    values =
        nuclear ? imp_reduce(im, IR_reduce_sum, values, 1, &last, false) : extreme(p, values, order < 0, last, false);
    return values ? imp_reshape(im, values, rank, dims) : NULL;
}

/* linalg_norm(self, ord, dim, keepdim), linalg_matrix_norm, frobenius_norm: of vectors and of matrices */
bool aten_linalg_norm(struct pt2 *p)
{
    int arg = p->row->arg;
    struct imp *im = p->im;
    struct ir_value *x = pt2_wide_float(p, pt2_need(p, "self"));
    int64_t axes[TCC_MAX_RANK];
    const char *kind;
    bool keep = pt2_b(p, "keepdim", false);
    json_t *ord = pt2_arg(p, "ord", &kind);
    bool number = ord && strcmp(kind, "as_string") != 0;
    double order = number ? pt2_f(p, "ord", 2) : 2;
    bool nuclear = ord && !number && !strcmp(pt2_s(p, "ord", "fro"), "nuc");
    pt2_ignore(p, "dtype");
    if (!x)
        return false;
    int n = pt2_ints(p, "dim", TCC_MAX_RANK, axes), rank = imp_rank(x);
    if (n < 0 && (arg || (ord && rank == 2))) { /* of matrices: the last two axes */
        axes[0] = rank - 2;
        axes[1] = rank - 1;
        n = 2;
    }
    for (int k = 0; k < n; k++) {
        axes[k] += axes[k] < 0 ? rank : 0;
        if (axes[k] < 0 || axes[k] >= rank)
            return imp_bad(im, "axis %lld of %d dims", (long long)axes[k], rank);
    }
    if (n == 2 && (number || nuclear)) {
        struct ir_value *y = axes[0] != axes[1] ? matrix_norm(p, x, order, nuclear, axes) : NULL;
        const int64_t both[2] = {axes[0] < axes[1] ? axes[0] : axes[1], axes[0] < axes[1] ? axes[1] : axes[0]};
        return y && pt2_out(p, 0, keep ? y : imp_squeeze(im, y, 2, both));
    }
    if (nuclear || (number && n > 2))
        return imp_unsupported(im, "that norm of %d dims", n);
    n = arg && n == 2 ? n : pt2_axes(p, "dim", rank, axes);
    if (n < 0)
        return false;
    return pt2_out(p, 0, pt2_norm(p, x, order, n, axes, keep));
}
