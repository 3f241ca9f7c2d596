/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch.linalg: solvers, factorisations, eigenvalues and singular values of small dense matrices. Each is a library op
 * (runtime/libop/linalg*.c), whose gradient stands in passes/grad/matrix.c. What PyTorch checks when it runs (a
 * singular matrix, one that is not positive definite) the library op checks, if its attribute `check` says so: the ops
 * whose names end in _ex leave it to who reads their `info`.
 */
#include "compiler/pt2/pt2_int.h"

#include <string.h>

/* -- Library ops --------------------------------------------------------------------------------------------------- */

struct word {
    const char *name;
    int64_t value;
};

#define WORDS(...) \
    (int)(sizeof((const struct word[]){__VA_ARGS__}) / sizeof(struct word)), ((const struct word[]){__VA_ARGS__})

/* NULL after a message. */
static struct ir_node *library(struct pt2 *p, const char *name, int nin, struct ir_value *const *in, int nout,
                               const ir_type *types, int n, const struct word *words)
{
    struct ir_attr *attrs = IR_NEWN(p->ctx, n + 1, struct ir_attr);
    for (int k = 0; k < nin; k++)
        if (!in[k] && k == 0)
            return NULL;
    for (int k = 0; k < n; k++)
        attrs[k] = imp_user_int(p->im, words[k].name, words[k].value);
    return imp_lib_of(p->im, name, nin, in, nout, types, n, attrs);
}

/* x's leading dims, and `tail` more. */
static ir_type stacked(struct pt2 *p, const struct ir_value *x, enum tcc_dtype dtype, int tail, ir_expr first,
                       ir_expr second)
{
    ir_expr dims[TCC_MAX_RANK];
    int lead = imp_rank(x) - 2;
    memcpy(dims, x->type->dim, (size_t)lead * sizeof *dims);
    if (tail > 0)
        dims[lead] = first;
    if (tail > 1)
        dims[lead + 1] = second;
    return ir_tensor_type(p->ctx, dtype, lead + tail, dims);
}

static ir_expr rows(const struct ir_value *x)
{
    int rank = imp_rank(x);
    return rank < 2 ? NULL : imp_dim(x, rank - 2);
}

static ir_expr columns(const struct ir_value *x)
{
    int rank = imp_rank(x);
    return rank < 2 ? NULL : imp_dim(x, rank - 1);
}

static ir_expr lesser(struct pt2 *p, const struct ir_value *x)
{
    return ir_min(p->ctx, rows(x), columns(x));
}

/* An operand that has to be of matrices; NULL after a message. */
static struct ir_value *matrices(struct pt2 *p, const char *name)
{
    struct ir_value *x = pt2_need(p, name);
    if (x && imp_rank(x) < 2)
        return imp_bad(p->im, "'%s' holds no matrices", name), NULL;
    if (x && imp_dtype(x) != TCC_F32 && imp_dtype(x) != TCC_F64)
        return imp_unsupported(p->im, "matrices of %s", tcc_dtype_name(imp_dtype(x))), NULL;
    return x;
}

/* Results that a node of the library gives in the order of `which` (-1: none of it); those that nothing uses may be
 * missing. */
static bool results(struct pt2 *p, const struct ir_node *made, int n, const int *which)
{
    for (int k = 0; k < n && made; k++)
        if (which[k] >= 0 && k < pt2_nouts(p) && !pt2_out(p, k, made->out[which[k]]))
            return false;
    return made != NULL;
}

/* A result that is no use to a program, as the copy of an operand is, but may be asked for. */
static bool spare(struct pt2 *p, int k, struct ir_value *v)
{
    return k >= pt2_nouts(p) || !pt2_wants(p, k) || pt2_out(p, k, v);
}

/* A vector of no elements. */
static struct ir_value *nothing(struct pt2 *p, enum tcc_dtype dtype)
{
    const ir_expr none = ir_const(p->ctx, 0);
    return imp_expand(p->im, imp_num(p->im, dtype, 0), 1, &none);
}

/* The identity of n x n, as often as x has matrices. */
static struct ir_value *identity(struct pt2 *p, const struct ir_value *x, ir_expr n)
{
    ir_type t = stacked(p, x, imp_dtype(x), 2, n, n);
    return imp_expand(p->im, imp_cast(p->im, pt2_on_diagonal(p, n, n, 0), imp_dtype(x)), t->rank, t->dim);
}

static struct ir_value *turned(struct pt2 *p, struct ir_value *x)
{
    int64_t perm[TCC_MAX_RANK];
    int rank = x ? imp_rank(x) : 0;
    for (int k = 0; k < rank; k++)
        perm[k] = k < rank - 2 ? k : 2 * rank - 3 - k;
    return x ? imp_transpose(p->im, x, perm) : NULL;
}

/* -- Systems of equations ------------------------------------------------------------------------------------------ */

/* Both operands with the same leading dims. */
static bool beside(struct pt2 *p, struct ir_value **a, struct ir_value **b)
{
    struct ir_value *in[2] = {*a, *b};
    int rank = imp_rank(*a) > imp_rank(*b) ? imp_rank(*a) : imp_rank(*b);
    ir_expr lead[TCC_MAX_RANK], dims[TCC_MAX_RANK];
    for (int k = 0; k < 2; k++)
        if (!(in[k] = imp_to_rank(p->im, in[k], rank)))
            return false;
    for (int k = 0; k < rank - 2; k++)
        if (!(lead[k] = imp_join(p->im, imp_dim(in[0], k), imp_dim(in[1], k))))
            return false;
    for (int k = 0; k < 2; k++) {
        memcpy(dims, in[k]->type->dim, (size_t)rank * sizeof *dims);
        memcpy(dims, lead, (size_t)(rank - 2) * sizeof *dims);
        if (!(in[k] = imp_expand(p->im, in[k], rank, dims)))
            return false;
    }
    *a = in[0];
    *b = in[1];
    return true;
}

/* What a solver says of matrices that stand beside more right-hand sides, of each matrix once. */
static struct ir_value *of_each(struct pt2 *p, struct ir_value *info, const struct ir_value *a)
{
    int lead = imp_rank(a) - 2, more = info ? imp_rank(info) - lead : 0;
    for (int k = 0; info && k < imp_rank(info); k++)
        if (k < more || ir_expr_eq(p->ctx, imp_dim(info, k), imp_dim(a, k - more)) != IR_YES)
            info =
                imp_slice1(p->im, info, k, ir_const(p->ctx, 0), k < more ? ir_const(p->ctx, 1) : imp_dim(a, k - more));
    return info && more ? imp_reshape(p->im, info, lead, a->type->dim) : info;
}

/* The solution for right-hand sides b; the node, whose second result is `info`. */
static struct ir_node *solution(struct pt2 *p, struct ir_value *a, struct ir_value *b, bool left, bool check)
{
    if (!beside(p, &a, &b))
        return NULL;
    const ir_type types[2] = {b->type, stacked(p, a, TCC_I32, 0, NULL, NULL)};
    return library(p, "solve", 2, (struct ir_value *[]){a, b}, 2, types, WORDS({"left", left}, {"check", check}));
}

static struct ir_value *by_triangle(struct pt2 *p, struct ir_value *a, struct ir_value *b, bool upper, bool left,
                                    bool transposed, bool unit)
{
    if (!a || !b || !beside(p, &a, &b))
        return NULL;
    struct ir_node *made = library(p, "triangular_solve", 2, (struct ir_value *[]){a, b}, 1, &b->type,
                                   WORDS({"upper", upper}, {"left", left}, {"transposed", transposed}, {"unit", unit}));
    return made ? made->out[0] : NULL;
}

static struct ir_node *factors(struct pt2 *p, struct ir_value *x, bool pivot, bool check)
{
    const ir_type types[3] = {x->type, stacked(p, x, TCC_I32, 1, lesser(p, x), NULL),
                              stacked(p, x, TCC_I32, 0, NULL, NULL)};
    return library(p, "lu", 1, &x, 3, types, WORDS({"pivot", pivot}, {"check", check}));
}

/* linalg_solve(A, B, left), arg 0; linalg_solve_ex(A, B, left, check_errors) -> result, info, arg 1; _linalg_solve_ex
 * -> result, LU, pivots, info, arg 2 */
bool aten_solve(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *a = matrices(p, "A"), *b = a ? pt2_need(p, "B") : NULL;
    bool left = pt2_b(p, "left", true), check = arg ? pt2_b(p, "check_errors", false) : true;
    if (!b)
        return false;
    /* PyTorch's rule: B holds vectors if it has one dim, or one less than A and A's leading ones. */
    bool vectors = imp_rank(b) == 1;
    if (imp_rank(b) == imp_rank(a) - 1 && !vectors) {
        vectors = true;
        for (int k = 0; k < imp_rank(b); k++)
            vectors = vectors && ir_expr_eq(p->ctx, imp_dim(a, k), imp_dim(b, k)) == IR_YES;
    }
    const int64_t last = imp_rank(b);
    struct ir_node *made = solution(p, a, vectors ? imp_unsqueeze(p->im, b, 1, &last) : b, left, check);
    struct ir_value *x = made ? made->out[0] : NULL;
    const int64_t axis = x ? imp_rank(x) - 1 : 0;
    if (!x || !pt2_out(p, 0, vectors ? imp_squeeze(p->im, x, 1, &axis) : x))
        return false;
    if (arg == 1)
        return spare(p, 1, of_each(p, made->out[1], a));
    if (arg == 2 && (pt2_wants(p, 1) || pt2_wants(p, 2))) {
        struct ir_node *lu = factors(p, a, true, false);
        if (!lu || !spare(p, 1, lu->out[0]) || !spare(p, 2, lu->out[1]))
            return false;
    }
    return arg != 2 || spare(p, 3, of_each(p, made->out[1], a));
}

/* linalg_solve_triangular(self, B, upper, left, unitriangular) */
bool aten_solve_triangular(struct pt2 *p)
{
    struct ir_value *a = matrices(p, "self"), *b = a ? matrices(p, "B") : NULL;
    bool upper = pt2_b(p, "upper", false), left = pt2_b(p, "left", true), unit = pt2_b(p, "unitriangular", false);
    return b && pt2_out(p, 0, by_triangle(p, a, b, upper, left, false, unit));
}

/* triangular_solve(self, A, upper, transpose, unitriangular) -> solution, a copy of A */
bool aten_triangular_solve(struct pt2 *p)
{
    struct ir_value *b = matrices(p, "self"), *a = b ? matrices(p, "A") : NULL;
    bool upper = pt2_b(p, "upper", true), transposed = pt2_b(p, "transpose", false),
         unit = pt2_b(p, "unitriangular", false);
    return a && pt2_out(p, 0, by_triangle(p, a, b, upper, true, transposed, unit)) && spare(p, 1, a);
}

static struct ir_node *inverted(struct pt2 *p, struct ir_value *x, bool check)
{
    const ir_type types[2] = {x->type, stacked(p, x, TCC_I32, 0, NULL, NULL)};
    return library(p, "inverse", 1, &x, 2, types, WORDS({"check", check}));
}

struct ir_value *pt2_inverse(struct pt2 *p, struct ir_value *x)
{
    struct ir_node *made = x ? inverted(p, x, true) : NULL;
    return made ? made->out[0] : NULL;
}

/* linalg_inv(A), inverse(self), arg 0; linalg_inv_ex(A, check_errors) -> inverse, info, arg 1 */
bool aten_inverse(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *x = matrices(p, pt2_given(p, "A") ? "A" : "self");
    bool check = arg ? pt2_b(p, "check_errors", false) : true;
    struct ir_node *made = x ? inverted(p, x, check) : NULL;
    return made && pt2_out(p, 0, made->out[0]) && (!arg || spare(p, 1, made->out[1]));
}

/* -- Factors ------------------------------------------------------------------------------------------------------- */

/* linalg_cholesky(self, upper), arg 0; linalg_cholesky_ex(self, upper, check_errors) -> L, info, arg 1 */
bool aten_cholesky(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *x = matrices(p, "self");
    bool upper = pt2_b(p, "upper", false), check = arg ? pt2_b(p, "check_errors", false) : true;
    if (!x)
        return false;
    const ir_type types[2] = {x->type, stacked(p, x, TCC_I32, 0, NULL, NULL)};
    struct ir_node *made = library(p, "cholesky", 1, &x, 2, types, WORDS({"upper", upper}, {"check", check}));
    return made && pt2_out(p, 0, made->out[0]) && (!arg || spare(p, 1, made->out[1]));
}

/* cholesky_solve(self, input2, upper): of input2's product with its transpose; cholesky_inverse(self, upper), arg 1 */
bool aten_cholesky_solve(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *l = matrices(p, arg ? "self" : "input2"), *b = l && !arg ? matrices(p, "self") : l;
    bool upper = pt2_b(p, "upper", false);
    if (!b)
        return false;
    b = arg ? identity(p, l, rows(l)) : b;
    struct ir_value *half = by_triangle(p, l, b, upper, true, upper, false);
    return pt2_out(p, 0, by_triangle(p, l, half, upper, true, !upper, false));
}

/* linalg_lu_factor(A, pivot) -> LU, pivots, arg 0; linalg_lu_factor_ex(A, pivot, check_errors), _lu_with_info(self,
 * pivot, check_errors) -> LU, pivots, info, arg 1 */
bool aten_lu_factor(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *x = matrices(p, pt2_given(p, "A") ? "A" : "self");
    bool pivot = pt2_b(p, "pivot", true), check = arg ? pt2_b(p, "check_errors", false) : true;
    return x && results(p, factors(p, x, pivot, check), arg ? 3 : 2, (const int[]){0, 1, 2});
}

/* What stands below the diagonal of the first k columns, and ones on it. */
static struct ir_value *unit_lower(struct pt2 *p, struct ir_value *x, ir_expr k)
{
    struct ir_value *l =
        imp_slice1(p->im, pt2_triangle(p, x, false, ir_const(p->ctx, -1)), imp_rank(x) - 1, ir_const(p->ctx, 0), k);
    struct ir_value *ones = pt2_on_diagonal(p, rows(x), k, 0);
    return l ? imp_select(p->im, ones, imp_like(p->im, l, 1), l) : NULL;
}

/* P, L and U of factors in one. */
static bool unpacked(struct pt2 *p, struct ir_value *lu, struct ir_value *pivots, bool data, bool swaps)
{
    struct imp *im = p->im;
    ir_expr k = lesser(p, lu), zero = ir_const(p->ctx, 0);
    if (swaps && pt2_wants(p, 0)) {
        ir_type t = stacked(p, lu, imp_dtype(lu), 2, rows(lu), rows(lu));
        struct ir_node *made = library(p, "lu_permutation", 2, (struct ir_value *[]){lu, pivots}, 1, &t, 0, NULL);
        if (!made || !pt2_out(p, 0, made->out[0]))
            return false;
    }
    if (!data)
        return true;
    struct ir_value *u = imp_slice1(im, pt2_triangle(p, lu, true, pt2_zero(p)), imp_rank(lu) - 2, zero, k);
    return pt2_out(p, 1, unit_lower(p, lu, k)) && pt2_out(p, 2, u);
}

/* linalg_lu(A, pivot) -> P, L, U */
bool aten_lu(struct pt2 *p)
{
    struct ir_value *x = matrices(p, "A");
    struct ir_node *made = x ? factors(p, x, pt2_b(p, "pivot", true), false) : NULL;
    return made && unpacked(p, made->out[0], made->out[1], true, true);
}

/* lu_unpack(LU_data, LU_pivots, unpack_data, unpack_pivots) -> P, L, U */
bool aten_lu_unpack(struct pt2 *p)
{
    struct ir_value *lu = matrices(p, "LU_data"), *pivots = lu ? pt2_need(p, "LU_pivots") : NULL;
    bool data = pt2_b(p, "unpack_data", true), swaps = pt2_b(p, "unpack_pivots", true);
    return pivots && unpacked(p, lu, pivots, data, swaps);
}

/* By factors in one matrix, as LAPACK has them, and pivots. */
static bool by_factors(struct pt2 *p, const char *name, struct ir_value *in_one, struct ir_value *pivots,
                       struct ir_value *b, int n, const struct word *words)
{
    if (!b || !beside(p, &in_one, &b))
        return false;
    ir_type t = stacked(p, in_one, TCC_I32, 1, rows(in_one), NULL);
    pivots = imp_expand(p->im, imp_to_rank(p->im, pivots, t->rank), t->rank, t->dim);
    struct ir_value *in[] = {in_one, pivots, b};
    return pivots && results(p, library(p, name, 3, in, 1, &b->type, n, words), 1, (const int[]){0});
}

/* linalg_lu_solve(LU, pivots, B, left, adjoint), arg 0; lu_solve(self, LU_data, LU_pivots), arg 1 */
bool aten_lu_solve(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *lu = matrices(p, arg ? "LU_data" : "LU"),
                    *pivots = lu ? pt2_need(p, arg ? "LU_pivots" : "pivots") : NULL,
                    *b = pivots ? matrices(p, arg ? "self" : "B") : NULL;
    bool left = arg || pt2_b(p, "left", true), adjoint = !arg && pt2_b(p, "adjoint", false);
    return by_factors(p, "lu_solve", lu, pivots, b, WORDS({"left", left}, {"transposed", adjoint}));
}

/* linalg_ldl_factor(self, hermitian) -> LD, pivots, arg 0; linalg_ldl_factor_ex(self, hermitian, check_errors) -> LD,
 * pivots, info, arg 1. A real matrix is Hermitian if it is symmetric. */
bool aten_ldl_factor(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *x = matrices(p, "self");
    bool check = arg ? pt2_b(p, "check_errors", false) : true;
    pt2_ignore(p, "hermitian");
    if (!x)
        return false;
    const ir_type types[3] = {x->type, stacked(p, x, TCC_I32, 1, rows(x), NULL), stacked(p, x, TCC_I32, 0, NULL, NULL)};
    return results(p, library(p, "ldl", 1, &x, 3, types, WORDS({"check", check})), arg ? 3 : 2, (const int[]){0, 1, 2});
}

/* linalg_ldl_solve(LD, pivots, B, hermitian) */
bool aten_ldl_solve(struct pt2 *p)
{
    struct ir_value *ld = matrices(p, "LD"), *pivots = ld ? pt2_need(p, "pivots") : NULL,
                    *b = pivots ? matrices(p, "B") : NULL;
    pt2_ignore(p, "hermitian");
    return by_factors(p, "ldl_solve", ld, pivots, b, 0, NULL);
}

/* linalg_qr(A, mode) -> Q, R */
bool aten_qr(struct pt2 *p)
{
    struct ir_value *x = matrices(p, "A");
    const char *mode = pt2_s(p, "mode", "reduced");
    if (!x || !mode)
        return false;
    bool complete = !strcmp(mode, "complete");
    ir_expr k = complete ? rows(x) : lesser(p, x);
    const ir_type types[2] = {stacked(p, x, imp_dtype(x), 2, rows(x), k),
                              stacked(p, x, imp_dtype(x), 2, k, columns(x))};
    struct ir_node *made = library(p, "qr", 1, &x, 2, types, WORDS({"complete", complete}));
    if (!made || !spare(p, 1, made->out[1]))
        return false;
    if (strcmp(mode, "r") != 0)
        return spare(p, 0, made->out[0]);
    return spare(p, 0, nothing(p, imp_dtype(x)));
}

/* geqrf(self) -> a, tau */
bool aten_geqrf(struct pt2 *p)
{
    struct ir_value *x = matrices(p, "self");
    if (!x)
        return false;
    const ir_type types[2] = {x->type, stacked(p, x, imp_dtype(x), 1, lesser(p, x), NULL)};
    return results(p, library(p, "geqrf", 1, &x, 2, types, 0, NULL), 2, (const int[]){0, 1});
}

/*
 * linalg_householder_product(input, tau); orgqr(self, input2), arg 1: the first n columns E of the product of the
 * reflections I - tau v v'. With their vectors as the columns of V and D = diag(tau) it is E - V (I + D S)^-1 D V' E, S
 * being what stands above the diagonal of V' V (Schreiber, Van Loan: A storage-efficient WY representation, 1989).
 */
bool aten_householder_product(struct pt2 *p)
{
    struct imp *im = p->im;
    int arg = p->row->arg;
    struct ir_value *x = matrices(p, arg ? "self" : "input"), *tau = x ? pt2_need(p, arg ? "input2" : "tau") : NULL;
    int64_t last = tau ? imp_rank(tau) : 0, row = last - 1;
    if (!tau || last != imp_rank(x) - 1)
        return tau && imp_bad(p->im, "the reflections' factors do not fit the matrices");
    ir_expr n = columns(x), k = imp_dim(tau, (int)row);
    if (!imp_assume(im, IR_LE, k, n, "there are no more factors than columns") ||
        !imp_assume(im, IR_LE, n, rows(x), "there are no more columns than rows"))
        return false;
    struct ir_value *v = unit_lower(p, x, k), *scale = imp_unsqueeze(im, tau, 1, &last);
    struct ir_value *s = imp_bin(im, IR_mul, imp_matmul(im, v, v, true, false, TCC_NONE), scale);
    struct ir_value *top = imp_slice1(im, v, (int)row, ir_const(p->ctx, 0), n);
    struct ir_value *side = imp_bin(im, IR_mul, top, imp_unsqueeze(im, tau, 1, &row));
    struct ir_value *by = by_triangle(p, s, turned(p, side), true, true, false, true);
    struct ir_value *taken = by ? imp_matmul(im, v, by, false, false, TCC_NONE) : NULL;
    struct ir_value *e = imp_cast(im, pt2_on_diagonal(p, rows(x), n, 0), imp_dtype(x));
    return taken && e && pt2_out(p, 0, imp_bin(im, IR_sub, e, taken));
}

/* -- Eigenvalues, singular values ---------------------------------------------------------------------------------- */

/* linalg_eigh(self, UPLO), _linalg_eigh(A, UPLO, compute_v) -> values, vectors; linalg_eigvalsh(self, UPLO), arg 1 */
bool aten_eigh(struct pt2 *p)
{
    struct ir_value *x = matrices(p, pt2_given(p, "A") ? "A" : "self");
    const char *triangle_of = pt2_s(p, "UPLO", "L");
    pt2_ignore(p, "compute_v"); /* what nothing uses falls away */
    if (!x || !triangle_of)
        return false;
    const ir_type types[2] = {stacked(p, x, imp_dtype(x), 1, rows(x), NULL), x->type};
    struct ir_node *made =
        library(p, "eigh", 1, &x, 2, types, WORDS({"lower", *triangle_of == 'L' || *triangle_of == 'l'}));
    return made && pt2_out(p, 0, made->out[0]) && (p->row->arg || spare(p, 1, made->out[1]));
}

/* linalg_eig(self) -> complex values and vectors; linalg_eigvals(self), arg 1, and _linalg_eigvals(self) -> values */
bool aten_eig(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *x = matrices(p, "self");
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
    struct ir_node *made = library(p, "eig", 1, &x, 2, types, 0, NULL);
    return made && pt2_out(p, 0, made->out[0]) && (arg || spare(p, 1, made->out[1]));
}

static struct ir_node *singular(struct pt2 *p, struct ir_value *x, bool full)
{
    ir_expr k = lesser(p, x);
    const ir_type types[3] = {stacked(p, x, imp_dtype(x), 2, rows(x), full ? rows(x) : k),
                              stacked(p, x, imp_dtype(x), 1, k, NULL),
                              stacked(p, x, imp_dtype(x), 2, full ? columns(x) : k, columns(x))};
    return library(p, "svd", 1, &x, 3, types, WORDS({"full", full}));
}

/* linalg_svd(A, full_matrices, driver), whose factors are square (arg 1) unless it says otherwise, _linalg_svd(A,
 * full_matrices, compute_uv, driver) -> U, S, Vh */
bool aten_svd(struct pt2 *p)
{
    struct ir_value *x = matrices(p, "A");
    bool full = pt2_b(p, "full_matrices", p->row->arg);
    pt2_ignore(p, "driver", "compute_uv");
    struct ir_node *made = x ? singular(p, x, full && (pt2_wants(p, 0) || pt2_wants(p, 2))) : NULL;
    return made && spare(p, 0, made->out[0]) && spare(p, 1, made->out[1]) && spare(p, 2, made->out[2]);
}

/* svd(self, some, compute_uv) -> U, S, V */
bool aten_svd_some(struct pt2 *p)
{
    struct ir_value *x = matrices(p, "self");
    bool some = pt2_b(p, "some", true);
    if (!x || !pt2_b(p, "compute_uv", true))
        return x && imp_unsupported(p->im, "compute_uv=False");
    struct ir_node *made = singular(p, x, !some);
    return made && spare(p, 0, made->out[0]) && spare(p, 1, made->out[1]) && spare(p, 2, turned(p, made->out[2]));
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
    return pt2_out(p, 0, pt2_singular_values(p, matrices(p, "A")));
}

/* linalg_cond(self, p): by the 2-norm */
bool aten_cond_number(struct pt2 *p)
{
    struct ir_value *s =
        pt2_given(p, "p") && pt2_f(p, "p", 2) != 2 ? NULL : pt2_singular_values(p, matrices(p, "self"));
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

/* linalg_pinv(self, atol, rtol, hermitian); pinverse(self, rcond), linalg_pinv(self, rcond, hermitian), arg 1 */
bool aten_pinv(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *x = matrices(p, "self");
    pt2_ignore(p, "hermitian"); /* then it has the same singular values */
    if (!x)
        return false;
    struct ir_value *least = arg ? NULL : bound(p, "atol", x), *rate = bound(p, arg ? "rcond" : "rtol", x);
    if (arg && !rate)
        rate = imp_like(p->im, x, 1e-15);
    ir_type t = stacked(p, x, imp_dtype(x), 2, columns(x), rows(x));
    return results(p, library(p, "pinv", 3, (struct ir_value *[]){x, least, rate}, 1, &t, 0, NULL), 1,
                   (const int[]){0});
}

/* linalg_matrix_rank(self or input, atol, rtol, hermitian): how many singular values are above the greater of atol and
 * rtol times the largest; tol in arg 1 */
bool aten_matrix_rank(struct pt2 *p)
{
    int arg = p->row->arg;
    struct imp *im = p->im;
    struct ir_value *x = matrices(p, pt2_given(p, "input") ? "input" : "self"), *s = pt2_singular_values(p, x);
    pt2_ignore(p, "hermitian");
    if (!s)
        return false;
    int axis = imp_rank(s) - 1;
    const int64_t last = axis;
    struct ir_value *least = bound(p, arg ? "tol" : "atol", x), *rate = arg ? NULL : bound(p, "rtol", x);
    if (!rate && !least) {
        ir_expr longer = ir_max(p->ctx, rows(x), columns(x));
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
    a = !meta || pt2_row_major(p, meta) == IR_YES ? turned(p, a) : a;
    return a ? factors(p, a, true, false) : NULL;
}

/* linalg_det(A), det(self), arg 0; _linalg_det(A) -> result, LU, pivots, arg 1 */
bool aten_det(struct pt2 *p)
{
    struct ir_value *x = matrices(p, pt2_given(p, "A") ? "A" : "self");
    if (!x)
        return false;
    ir_type t = stacked(p, x, imp_dtype(x), 0, NULL, NULL);
    struct ir_node *made = library(p, "det", 1, &x, 1, &t, 0, NULL), *lu = NULL;
    if (made && p->row->arg && (pt2_wants(p, 1) || pt2_wants(p, 2)) && !(lu = saved_factors(p, "A", x)))
        return false;
    return made && pt2_out(p, 0, made->out[0]) && (!lu || (spare(p, 1, lu->out[0]) && spare(p, 2, lu->out[1])));
}

/* linalg_slogdet(A), slogdet(self), _linalg_slogdet(A) -> sign, logabsdet, LU, pivots; logdet(self), arg 1: NaN where
 * the determinant is negative */
bool aten_slogdet(struct pt2 *p)
{
    struct ir_value *x = matrices(p, pt2_given(p, "A") ? "A" : "self");
    if (!x)
        return false;
    ir_type t = stacked(p, x, imp_dtype(x), 0, NULL, NULL);
    struct ir_node *made = library(p, "slogdet", 1, &x, 2, (const ir_type[]){t, t}, 0, NULL), *lu = NULL;
    if (!made)
        return false;
    struct ir_value *sign = made->out[0], *log = made->out[1];
    if (p->row->arg) {
        struct ir_value *not_a_number = imp_like(p->im, x, __builtin_nan(""));
        return pt2_out(p, 0, imp_select(p->im, imp_with(p->im, IR_lt, sign, 0), not_a_number, log));
    }
    if (pt2_nouts(p) > 2 && (pt2_wants(p, 2) || pt2_wants(p, 3)) && !(lu = saved_factors(p, "A", x)))
        return false;
    return spare(p, 0, sign) && spare(p, 1, log) && (!lu || (spare(p, 2, lu->out[0]) && spare(p, 3, lu->out[1])));
}

/* linalg_matrix_exp(self), matrix_exp(self) */
bool aten_matrix_exp(struct pt2 *p)
{
    struct ir_value *x = matrices(p, "self");
    return x && results(p, library(p, "matrix_exp", 1, &x, 1, &x->type, 0, NULL), 1, (const int[]){0});
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
    struct ir_node *made = m && side ? solution(p, m, side, true, true) : NULL;
    return made && pt2_out(p, 0, imp_reshape(p->im, made->out[0], rank - imp_rank(b), x->type->dim + imp_rank(b)));
}

/* -- Checks -------------------------------------------------------------------------------------------------------- */

/* The `info` of this value has to be 0: the op that gives it says what is wrong. */
static bool checked(struct pt2 *p, struct ir_value *info)
{
    struct ir_node *made = info ? info->def : NULL;
    while (made && (made->op == IR_slice || made->op == IR_reshape))
        made = made->in[0].value->def;
    if (!made || made->op != IR_lib)
        return info && imp_unsupported(p->im, "a check of what is no result of a solver");
    ir_set_attr(made, imp_user_int(p->im, "check", 1));
    return true;
}

/* _linalg_check_errors(info, api_name, is_matrix) */
bool aten_check_errors(struct pt2 *p)
{
    pt2_ignore(p, "api_name", "is_matrix");
    return checked(p, pt2_need(p, "info"));
}

/* prims._make_token(): what the first effect waits for */
bool aten_make_token(struct pt2 *p)
{
    return pt2_out(p, 0, nothing(p, TCC_F32));
}

/* higher_order.with_effects(token, op, operands...): an op that is there for what it does, in the order of the
 * tokens. */
bool aten_with_effects(struct pt2 *p)
{
    json_t *inputs = js_array(p->at.node, "inputs"), *value;
    const char *kind = js_union(json_object_get(json_array_get(inputs, 1), "arg"), &value);
    const char *target = kind && json_is_string(value) ? json_string_value(value) : "";
    memset(p->asked, 0xff, sizeof p->asked);
    if (strcmp(target, "torch.ops.aten._linalg_check_errors.default") != 0)
        return imp_unsupported(p->im, "the effect of '%s'", target);
    struct pt2_value *info = pt2_named(p, json_object_get(json_array_get(inputs, 2), "arg"));
    return info && checked(p, info->v) && pt2_out(p, 0, nothing(p, TCC_F32)); /* a token holds nothing */
}
