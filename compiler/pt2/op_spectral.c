/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch.linalg: eigenvalues and singular values, determinants and functions of small dense matrices, by the library's
 * factorisations (op_factor.c).
 */
#include "compiler/pt2/matrix_int.h"

#include <string.h>

/* -- Eigenvalues, singular values ---------------------------------------------------------------------------------- */

/* linalg_eigh(self, UPLO), _linalg_eigh(A, UPLO, compute_v) -> values, vectors; linalg_eigvalsh(self, UPLO), arg 1 */
bool aten_eigh(struct pt2 *p)
{
    struct ir_value *x = mat_operand(p, pt2_given(p, "A") ? "A" : "self");
    const char *triangle_of = pt2_s(p, "UPLO", "L");
    pt2_ignore(p, "compute_v"); /* what nothing uses falls away */
    if (!x || !triangle_of)
        return false;
    const ir_type types[2] = {mat_stacked(p, x, imp_dtype(x), 1, mat_rows(x), NULL), x->type};
    struct ir_node *made =
        mat_library(p, "eigh", 1, &x, 2, types, MAT_WORDS({"lower", *triangle_of == 'L' || *triangle_of == 'l'}));
    return made && pt2_out(p, 0, made->out[0]) && (p->row->arg || mat_optional_result(p, 1, made->out[1]));
}

/* linalg_eig(self) -> complex values and vectors; linalg_eigvals(self), arg 1, and _linalg_eigvals(self) -> values */
bool aten_eig(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *x = mat_operand(p, "self");
    if (!x)
        return false;
    if (pt2_is_complex(p, "self"))
        return imp_unsupported(p->im, "eigenvalues of complex matrices");
    int rank = imp_rank(x);
    if (rank + 1 > TCC_MAX_RANK)
        return imp_unsupported(p->im, "matrices of %d dims", rank);
    ir_expr dims[TCC_MAX_RANK];
    memcpy(dims, x->type->dim, (size_t)rank * sizeof *dims);
    dims[rank] = ir_const(p->ctx, 2);
    ir_type vectors = ir_tensor_type(p->ctx, imp_dtype(x), rank + 1, dims);
    dims[rank - 1] = dims[rank];
    const ir_type types[2] = {ir_tensor_type(p->ctx, imp_dtype(x), rank, dims), vectors};
    struct ir_node *made = mat_library(p, "eig", 1, &x, 2, types, 0, NULL);
    return made && pt2_out(p, 0, made->out[0]) && (arg || mat_optional_result(p, 1, made->out[1]));
}

static struct ir_node *singular(struct pt2 *p, struct ir_value *x, bool full)
{
    ir_expr k = mat_shorter_side(p, x);
    const ir_type types[3] = {mat_stacked(p, x, imp_dtype(x), 2, mat_rows(x), full ? mat_rows(x) : k),
                              mat_stacked(p, x, imp_dtype(x), 1, k, NULL),
                              mat_stacked(p, x, imp_dtype(x), 2, full ? mat_columns(x) : k, mat_columns(x))};
    return mat_library(p, "svd", 1, &x, 3, types, MAT_WORDS({"full", full}));
}

/* linalg_svd(A, full_matrices, driver), whose factors are square (arg 1) unless it says otherwise, _linalg_svd(A,
 * full_matrices, compute_uv, driver) -> U, S, Vh */
bool aten_svd(struct pt2 *p)
{
    struct ir_value *x = mat_operand(p, "A");
    bool full = pt2_b(p, "full_matrices", p->row->arg);
    pt2_ignore(p, "driver", "compute_uv");
    struct ir_node *made = x ? singular(p, x, full && (pt2_wants(p, 0) || pt2_wants(p, 2))) : NULL;
    return made && mat_optional_result(p, 0, made->out[0]) && mat_optional_result(p, 1, made->out[1]) &&
           mat_optional_result(p, 2, made->out[2]);
}

/* svd(self, some, compute_uv) -> U, S, V */
bool aten_svd_some(struct pt2 *p)
{
    struct ir_value *x = mat_operand(p, "self");
    bool some = pt2_b(p, "some", true);
    if (!x || !pt2_b(p, "compute_uv", true))
        return x && imp_unsupported(p->im, "compute_uv=False");
    struct ir_node *made = singular(p, x, !some);
    return made && mat_optional_result(p, 0, made->out[0]) && mat_optional_result(p, 1, made->out[1]) &&
           mat_optional_result(p, 2, mat_transposed(p, made->out[2]));
}

struct ir_value *pt2_singular_values(struct pt2 *p, struct ir_value *x)
{
    struct ir_node *made = x ? singular(p, x, false) : NULL;
    return made ? made->out[1] : NULL;
}

/* linalg_svdvals(A, driver) */
bool aten_svdvals(struct pt2 *p)
{
    pt2_ignore(p, "driver");
    return pt2_out(p, 0, pt2_singular_values(p, mat_operand(p, "A")));
}

/* linalg_cond(self, p): by the 2-norm */
bool aten_cond_number(struct pt2 *p)
{
    struct ir_value *s =
        pt2_given(p, "p") && pt2_f(p, "p", 2) != 2 ? NULL : pt2_singular_values(p, mat_operand(p, "self"));
    if (!s)
        return imp_unsupported(p->im, "a norm other than 2");
    int axis = imp_rank(s) - 1;
    int64_t last = axis;
    ir_expr n = imp_dim(s, axis), one = ir_const(p->ctx, 1);
    struct ir_value *most = imp_slice1(p->im, s, axis, ir_const(p->ctx, 0), one),
                    *least = imp_slice1(p->im, s, axis, ir_addc(p->ctx, n, -1), one);
    return pt2_out(p, 0, imp_squeeze(p->im, imp_bin(p->im, IR_div, most, least), 1, &last));
}

/* A bound that may be a number, a tensor or None. NULL without a message: None. */
static struct ir_value *bound(struct pt2 *p, const char *name, const struct ir_value *x)
{
    bool number;
    struct ir_value *v = pt2_given(p, name) ? pt2_operand(p, name, &number) : NULL;
    return v ? imp_cast(p->im, v, imp_dtype(x)) : NULL;
}

/* x; with `hermitian` the symmetric matrix that its lower half tells of, which is all that PyTorch reads then. */
static struct ir_value *by_lower_half(struct pt2 *p, struct ir_value *x)
{
    int64_t perm[TCC_MAX_RANK];
    if (!pt2_b(p, "hermitian", false) || !x)
        return x;
    int rank = imp_rank(x);
    for (int k = 0; k < rank; k++)
        perm[k] = k < rank - 2 ? k : 2 * rank - 3 - k;
    struct ir_value *lower = imp_band(p->im, IR_le, x->type->dim + rank - 2, imp_int(p->im, TCC_I64, 0));
    return lower ? imp_select(p->im, lower, x, imp_transpose(p->im, x, perm)) : NULL;
}

/* linalg_pinv(self, atol, rtol, hermitian); pinverse(self, rcond), linalg_pinv(self, rcond, hermitian), arg 1 */
bool aten_pinv(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *x = by_lower_half(p, mat_operand(p, "self"));
    if (!x)
        return false;
    struct ir_value *least = arg ? NULL : bound(p, "atol", x), *rate = bound(p, arg ? "rcond" : "rtol", x);
    if (arg && !rate)
        rate = imp_like(p->im, x, 1e-15);
    ir_type t = mat_stacked(p, x, imp_dtype(x), 2, mat_columns(x), mat_rows(x));
    return mat_results(p, mat_library(p, "pinv", 3, (struct ir_value *[]){x, least, rate}, 1, &t, 0, NULL), 1,
                       (const int[]){0});
}

/* linalg_matrix_rank(self or input, atol, rtol, hermitian): how many singular values are above the greater of atol and
 * rtol times the largest; tol in arg 1 */
bool aten_matrix_rank(struct pt2 *p)
{
    int arg = p->row->arg;
    struct imp *im = p->im;
    struct ir_value *x = by_lower_half(p, mat_operand(p, pt2_given(p, "input") ? "input" : "self")),
                    *s = pt2_singular_values(p, x);
    if (!s)
        return false;
    int axis = imp_rank(s) - 1;
    const int64_t last = axis;
    struct ir_value *least = bound(p, arg ? "tol" : "atol", x), *rate = arg ? NULL : bound(p, "rtol", x);
    if (!rate && !least) {
        ir_expr longer = ir_max(p->ctx, mat_rows(x), mat_columns(x));
        rate = imp_with(im, IR_mul, imp_cast(im, imp_dim_value(im, longer), imp_dtype(x)),
                        imp_dtype(x) == TCC_F64 ? 0x1p-52 : 0x1p-23);
    }
    struct ir_value *largest = imp_reduce(im, IR_reduce_max, s, 1, &last, true);
    if (rate && imp_rank(rate))
        rate = imp_unsqueeze(im, rate, 1, &(int64_t){imp_rank(rate)});
    if (least && imp_rank(least))
        least = imp_unsqueeze(im, least, 1, &(int64_t){imp_rank(least)});
    struct ir_value *from = rate ? imp_bin(im, IR_mul, largest, rate) : imp_like(im, x, 0);
    from = least ? imp_bin(im, IR_max, from, least) : from;
    return pt2_out(p, 0,
                   imp_reduce(im, IR_reduce_sum, imp_cast(im, imp_bin(im, IR_gt, s, from), TCC_I64), 1, &last, false));
}

/* -- Determinants, functions of matrices --------------------------------------------------------------------------- */

/* The factors that determinants give besides, for their backward pass: PyTorch takes those of A transposed where A lies
 * in row-major order (ATen/native/BatchLinearAlgebra.cpp). */
static struct ir_node *saved_factors(struct pt2 *p, const char *name, struct ir_value *a)
{
    const char *kind;
    json_t *of = pt2_arg(p, name, &kind), *meta = of ? pt2_meta(p, js_string(of, "name")) : NULL;
    a = !meta || pt2_row_major(p, meta) == IR_YES ? mat_transposed(p, a) : a;
    return a ? mat_factors(p, a, true, false) : NULL;
}

/* linalg_det(A), det(self), arg 0; _linalg_det(A) -> result, LU, pivots, arg 1 */
bool aten_det(struct pt2 *p)
{
    struct ir_value *x = mat_operand(p, pt2_given(p, "A") ? "A" : "self");
    if (!x)
        return false;
    ir_type t = mat_stacked(p, x, imp_dtype(x), 0, NULL, NULL);
    struct ir_node *made = mat_library(p, "det", 1, &x, 1, &t, 0, NULL), *lu = NULL;
    if (made && p->row->arg && (pt2_wants(p, 1) || pt2_wants(p, 2)) && !(lu = saved_factors(p, "A", x)))
        return false;
    return made && pt2_out(p, 0, made->out[0]) &&
           (!lu || (mat_optional_result(p, 1, lu->out[0]) && mat_optional_result(p, 2, lu->out[1])));
}

/* linalg_slogdet(A), slogdet(self), _linalg_slogdet(A) -> sign, logabsdet, LU, pivots; logdet(self), arg 1: NaN where
 * the determinant is negative */
bool aten_slogdet(struct pt2 *p)
{
    struct ir_value *x = mat_operand(p, pt2_given(p, "A") ? "A" : "self");
    if (!x)
        return false;
    ir_type t = mat_stacked(p, x, imp_dtype(x), 0, NULL, NULL);
    struct ir_node *made = mat_library(p, "slogdet", 1, &x, 2, (const ir_type[]){t, t}, 0, NULL), *lu = NULL;
    if (!made)
        return false;
    struct ir_value *sign = made->out[0], *log = made->out[1];
    if (p->row->arg) {
        struct ir_value *not_a_number = imp_like(p->im, x, __builtin_nan(""));
        return pt2_out(p, 0, imp_select(p->im, imp_with(p->im, IR_lt, sign, 0), not_a_number, log));
    }
    if (pt2_nouts(p) > 2 && (pt2_wants(p, 2) || pt2_wants(p, 3)) && !(lu = saved_factors(p, "A", x)))
        return false;
    return mat_optional_result(p, 0, sign) && mat_optional_result(p, 1, log) &&
           (!lu || (mat_optional_result(p, 2, lu->out[0]) && mat_optional_result(p, 3, lu->out[1])));
}

/* linalg_matrix_exp(self), matrix_exp(self) */
bool aten_matrix_exp(struct pt2 *p)
{
    struct ir_value *x = mat_operand(p, "self");
    return x && mat_results(p, mat_library(p, "matrix_exp", 1, &x, 1, &x->type, 0, NULL), 1, (const int[]){0});
}

/* linalg_tensorinv(self, ind): the inverse of the matrix whose rows are the first `ind` dims */
bool aten_tensorinv(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    int64_t ind = pt2_i(p, "ind", 2);
    ir_expr dims[TCC_MAX_RANK];
    if (!x || ind < 1 || ind >= imp_rank(x))
        return x && imp_bad(p->im, "ind is %lld", (long long)ind);
    int rank = imp_rank(x), n = 0;
    struct ir_value *m =
        imp_reshape(p->im, x, 2, (const ir_expr[]){pt2_product(p, x, 0, (int)ind), pt2_product(p, x, (int)ind, rank)});
    m = pt2_inverse(p, m);
    for (int k = 0; k < rank; k++)
        dims[n++] = imp_dim(x, (k + (int)ind) % rank);
    return m && pt2_out(p, 0, imp_reshape(p->im, m, rank, dims));
}

/* linalg_tensorsolve(self, other, dims): the matrix's columns are the dims behind those that other has */
bool aten_tensorsolve(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self"), *b = x ? pt2_need(p, "other") : NULL;
    int64_t perm[TCC_MAX_RANK], moved[TCC_MAX_RANK];
    if (!b)
        return false;
    int rank = imp_rank(x), n = pt2_ints(p, "dims", TCC_MAX_RANK, moved), kept = 0;
    bool last[TCC_MAX_RANK] = {false};
    for (int k = 0; k < n; k++) {
        moved[k] += moved[k] < 0 ? rank : 0;
        if (moved[k] < 0 || moved[k] >= rank)
            return imp_bad(p->im, "dims that the operand does not have");
        last[moved[k]] = true;
    }
    for (int k = 0; k < rank; k++)
        if (!last[k])
            perm[kept++] = k;
    for (int k = 0; k < n; k++)
        perm[kept++] = moved[k];
    if (kept != rank || imp_rank(b) > rank)
        return imp_bad(p->im, "dims that do not fit");
    x = n > 0 ? imp_transpose(p->im, x, perm) : x;
    struct ir_value *m = x ? imp_reshape(p->im, x, 2,
                                         (const ir_expr[]){pt2_product(p, x, 0, imp_rank(b)),
                                                           pt2_product(p, x, imp_rank(b), rank)})
                           : NULL,
                    *side = imp_reshape(p->im, b, 2,
                                        (const ir_expr[]){pt2_product(p, b, 0, imp_rank(b)), ir_const(p->ctx, 1)});
    struct ir_node *made = m && side ? mat_solution(p, m, side, true, true) : NULL;
    return made && pt2_out(p, 0, imp_reshape(p->im, made->out[0], rank - imp_rank(b), x->type->dim + imp_rank(b)));
}
