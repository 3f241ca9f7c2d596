/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch.linalg: solvers and factorisations of small dense matrices. Each is a library op (runtime/libop/linalg*.c),
 * whose gradient stands in passes/grad/matrix.c. What PyTorch checks when it runs (a singular matrix, one that is not
 * positive definite) the library op checks, if its attribute `check` says so: the ops whose names end in _ex leave it
 * to who reads their `info`.
 */
#include "compiler/pt2/matrix_int.h"

#include <string.h>

/* -- Library ops --------------------------------------------------------------------------------------------------- */

struct ir_node *mat_library(struct pt2 *p, const char *name, int nin, struct ir_value *const *in, int nout,
                            const ir_type *types, int n, const struct mat_word *words)
{
    struct ir_attr *attrs = IR_NEWN(p->ctx, n + 1, struct ir_attr);
    for (int k = 0; k < nin; k++)
        if (!in[k] && k == 0)
            return NULL;
    for (int k = 0; k < n; k++)
        attrs[k] = imp_user_int(p->im, words[k].name, words[k].value);
    return imp_lib_of(p->im, name, nin, in, nout, types, n, attrs);
}

ir_type mat_stacked(struct pt2 *p, const struct ir_value *x, enum tcc_dtype dtype, int tail, ir_expr first,
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

ir_expr mat_rows(const struct ir_value *x)
{
    int rank = imp_rank(x);
    return rank < 2 ? NULL : imp_dim(x, rank - 2);
}

ir_expr mat_columns(const struct ir_value *x)
{
    int rank = imp_rank(x);
    return rank < 2 ? NULL : imp_dim(x, rank - 1);
}

ir_expr mat_shorter_side(struct pt2 *p, const struct ir_value *x)
{
    return ir_min(p->ctx, mat_rows(x), mat_columns(x));
}

struct ir_value *mat_operand(struct pt2 *p, const char *name)
{
    struct ir_value *x = imp_wide(p->im, pt2_need(p, name));
    if (x && imp_rank(x) < 2)
        return imp_bad(p->im, "'%s' holds no matrices", name), NULL;
    if (x && imp_dtype(x) != TCC_F32 && imp_dtype(x) != TCC_F64)
        return imp_unsupported(p->im, "matrices of %s", tcc_dtype_name(imp_dtype(x))), NULL;
    return x;
}

bool mat_results(struct pt2 *p, const struct ir_node *made, int n, const int *which)
{
    for (int k = 0; k < n && made; k++)
        if (which[k] >= 0 && k < pt2_nouts(p) && !pt2_out(p, k, made->out[which[k]]))
            return false;
    return made != NULL;
}

bool mat_optional_result(struct pt2 *p, int k, struct ir_value *v)
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
    ir_type t = mat_stacked(p, x, imp_dtype(x), 2, n, n);
    return imp_expand(p->im, imp_cast(p->im, pt2_on_diagonal(p, n, n, 0), imp_dtype(x)), t->rank, t->dim);
}

struct ir_value *mat_transposed(struct pt2 *p, struct ir_value *x)
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

struct ir_node *mat_solution(struct pt2 *p, struct ir_value *a, struct ir_value *b, bool left, bool check)
{
    if (!beside(p, &a, &b))
        return NULL;
    const ir_type types[2] = {b->type, mat_stacked(p, a, TCC_I32, 0, NULL, NULL)};
    return mat_library(p, "solve", 2, (struct ir_value *[]){a, b}, 2, types,
                       MAT_WORDS({"left", left}, {"check", check}));
}

static struct ir_value *by_triangle(struct pt2 *p, struct ir_value *a, struct ir_value *b, bool upper, bool left,
                                    bool transposed, bool unit)
{
    if (!a || !b || !beside(p, &a, &b))
        return NULL;
    struct ir_node *made =
        mat_library(p, "triangular_solve", 2, (struct ir_value *[]){a, b}, 1, &b->type,
                    MAT_WORDS({"upper", upper}, {"left", left}, {"transposed", transposed}, {"unit", unit}));
    return made ? made->out[0] : NULL;
}

struct ir_node *mat_factors(struct pt2 *p, struct ir_value *x, bool pivot, bool check)
{
    const ir_type types[3] = {x->type, mat_stacked(p, x, TCC_I32, 1, mat_shorter_side(p, x), NULL),
                              mat_stacked(p, x, TCC_I32, 0, NULL, NULL)};
    return mat_library(p, "lu", 1, &x, 3, types, MAT_WORDS({"pivot", pivot}, {"check", check}));
}

/* linalg_solve(A, B, left), arg 0; linalg_solve_ex(A, B, left, check_errors) -> result, info, arg 1; _linalg_solve_ex
 * -> result, LU, pivots, info, arg 2 */
bool aten_solve(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *a = mat_operand(p, "A"), *b = a ? pt2_need(p, "B") : NULL;
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
    struct ir_node *made = mat_solution(p, a, vectors ? imp_unsqueeze(p->im, b, 1, &last) : b, left, check);
    struct ir_value *x = made ? made->out[0] : NULL;
    const int64_t axis = x ? imp_rank(x) - 1 : 0;
    if (!x || !pt2_out(p, 0, vectors ? imp_squeeze(p->im, x, 1, &axis) : x))
        return false;
    if (arg == 1)
        return mat_optional_result(p, 1, of_each(p, made->out[1], a));
    if (arg == 2 && (pt2_wants(p, 1) || pt2_wants(p, 2))) {
        struct ir_node *lu = mat_factors(p, a, true, false);
        if (!lu || !mat_optional_result(p, 1, lu->out[0]) || !mat_optional_result(p, 2, lu->out[1]))
            return false;
    }
    return arg != 2 || mat_optional_result(p, 3, of_each(p, made->out[1], a));
}

/* linalg_solve_triangular(self, B, upper, left, unitriangular) */
bool aten_solve_triangular(struct pt2 *p)
{
    struct ir_value *a = mat_operand(p, "self"), *b = a ? mat_operand(p, "B") : NULL;
    bool upper = pt2_b(p, "upper", false), left = pt2_b(p, "left", true), unit = pt2_b(p, "unitriangular", false);
    return b && pt2_out(p, 0, by_triangle(p, a, b, upper, left, false, unit));
}

/* triangular_solve(self, A, upper, transpose, unitriangular) -> solution, a copy of A */
bool aten_triangular_solve(struct pt2 *p)
{
    struct ir_value *b = mat_operand(p, "self"), *a = b ? mat_operand(p, "A") : NULL;
    bool upper = pt2_b(p, "upper", true), transposed = pt2_b(p, "transpose", false),
         unit = pt2_b(p, "unitriangular", false);
    return a && pt2_out(p, 0, by_triangle(p, a, b, upper, true, transposed, unit)) && mat_optional_result(p, 1, a);
}

static struct ir_node *inverted(struct pt2 *p, struct ir_value *x, bool check)
{
    const ir_type types[2] = {x->type, mat_stacked(p, x, TCC_I32, 0, NULL, NULL)};
    return mat_library(p, "inverse", 1, &x, 2, types, MAT_WORDS({"check", check}));
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
    struct ir_value *x = mat_operand(p, pt2_given(p, "A") ? "A" : "self");
    bool check = arg ? pt2_b(p, "check_errors", false) : true;
    struct ir_node *made = x ? inverted(p, x, check) : NULL;
    return made && pt2_out(p, 0, made->out[0]) && (!arg || mat_optional_result(p, 1, made->out[1]));
}

/* -- Factors ------------------------------------------------------------------------------------------------------- */

/* linalg_cholesky(self, upper), arg 0; linalg_cholesky_ex(self, upper, check_errors) -> L, info, arg 1 */
bool aten_cholesky(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *x = mat_operand(p, "self");
    bool upper = pt2_b(p, "upper", false), check = arg ? pt2_b(p, "check_errors", false) : true;
    if (!x)
        return false;
    const ir_type types[2] = {x->type, mat_stacked(p, x, TCC_I32, 0, NULL, NULL)};
    struct ir_node *made = mat_library(p, "cholesky", 1, &x, 2, types, MAT_WORDS({"upper", upper}, {"check", check}));
    return made && pt2_out(p, 0, made->out[0]) && (!arg || mat_optional_result(p, 1, made->out[1]));
}

/* cholesky_solve(self, input2, upper): of input2's product with its transpose; cholesky_inverse(self, upper), arg 1 */
bool aten_cholesky_solve(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *l = mat_operand(p, arg ? "self" : "input2"), *b = l && !arg ? mat_operand(p, "self") : l;
    bool upper = pt2_b(p, "upper", false);
    if (!b)
        return false;
    b = arg ? identity(p, l, mat_rows(l)) : b;
    struct ir_value *half = by_triangle(p, l, b, upper, true, upper, false);
    return pt2_out(p, 0, by_triangle(p, l, half, upper, true, !upper, false));
}

/* linalg_lu_factor(A, pivot) -> LU, pivots, arg 0; linalg_lu_factor_ex(A, pivot, check_errors), _lu_with_info(self,
 * pivot, check_errors) -> LU, pivots, info, arg 1 */
bool aten_lu_factor(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *x = mat_operand(p, pt2_given(p, "A") ? "A" : "self");
    bool pivot = pt2_b(p, "pivot", true), check = arg ? pt2_b(p, "check_errors", false) : true;
    return x && mat_results(p, mat_factors(p, x, pivot, check), arg ? 3 : 2, (const int[]){0, 1, 2});
}

/* What stands below the diagonal of the first k columns, and ones on it. */
static struct ir_value *unit_lower(struct pt2 *p, struct ir_value *x, ir_expr k)
{
    struct ir_value *l =
        imp_slice1(p->im, pt2_triangle(p, x, false, ir_const(p->ctx, -1)), imp_rank(x) - 1, ir_const(p->ctx, 0), k);
    struct ir_value *ones = pt2_on_diagonal(p, mat_rows(x), k, 0);
    return l ? imp_select(p->im, ones, imp_like(p->im, l, 1), l) : NULL;
}

/* P, L and U of factors in one. */
static bool unpacked(struct pt2 *p, struct ir_value *lu, struct ir_value *pivots, bool data, bool swaps)
{
    struct imp *im = p->im;
    ir_expr k = mat_shorter_side(p, lu), zero = ir_const(p->ctx, 0);
    if (swaps && pt2_wants(p, 0)) {
        ir_type t = mat_stacked(p, lu, imp_dtype(lu), 2, mat_rows(lu), mat_rows(lu));
        struct ir_node *made = mat_library(p, "lu_permutation", 2, (struct ir_value *[]){lu, pivots}, 1, &t, 0, NULL);
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
    struct ir_value *x = mat_operand(p, "A");
    struct ir_node *made = x ? mat_factors(p, x, pt2_b(p, "pivot", true), false) : NULL;
    return made && unpacked(p, made->out[0], made->out[1], true, true);
}

/* lu_unpack(LU_data, LU_pivots, unpack_data, unpack_pivots) -> P, L, U */
bool aten_lu_unpack(struct pt2 *p)
{
    struct ir_value *lu = mat_operand(p, "LU_data"), *pivots = lu ? pt2_need(p, "LU_pivots") : NULL;
    bool data = pt2_b(p, "unpack_data", true), swaps = pt2_b(p, "unpack_pivots", true);
    return pivots && unpacked(p, lu, pivots, data, swaps);
}

/* By factors in one matrix, as LAPACK has them, and pivots. */
static bool by_factors(struct pt2 *p, const char *name, struct ir_value *in_one, struct ir_value *pivots,
                       struct ir_value *b, int n, const struct mat_word *words)
{
    if (!b || !beside(p, &in_one, &b))
        return false;
    ir_type t = mat_stacked(p, in_one, TCC_I32, 1, mat_rows(in_one), NULL);
    pivots = imp_expand(p->im, imp_to_rank(p->im, pivots, t->rank), t->rank, t->dim);
    struct ir_value *in[] = {in_one, pivots, b};
    return pivots && mat_results(p, mat_library(p, name, 3, in, 1, &b->type, n, words), 1, (const int[]){0});
}

/* linalg_lu_solve(LU, pivots, B, left, adjoint), arg 0; lu_solve(self, LU_data, LU_pivots), arg 1 */
bool aten_lu_solve(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *lu = mat_operand(p, arg ? "LU_data" : "LU"),
                    *pivots = lu ? pt2_need(p, arg ? "LU_pivots" : "pivots") : NULL,
                    *b = pivots ? mat_operand(p, arg ? "self" : "B") : NULL;
    bool left = arg || pt2_b(p, "left", true), adjoint = !arg && pt2_b(p, "adjoint", false);
    return by_factors(p, "lu_solve", lu, pivots, b, MAT_WORDS({"left", left}, {"transposed", adjoint}));
}

/* linalg_ldl_factor(self, hermitian) -> LD, pivots, arg 0; linalg_ldl_factor_ex(self, hermitian, check_errors) -> LD,
 * pivots, info, arg 1. A real matrix is Hermitian if it is symmetric. */
bool aten_ldl_factor(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *x = mat_operand(p, "self");
    bool check = arg ? pt2_b(p, "check_errors", false) : true;
    pt2_ignore(p, "hermitian");
    if (!x)
        return false;
    const ir_type types[3] = {x->type, mat_stacked(p, x, TCC_I32, 1, mat_rows(x), NULL),
                              mat_stacked(p, x, TCC_I32, 0, NULL, NULL)};
    return mat_results(p, mat_library(p, "ldl", 1, &x, 3, types, MAT_WORDS({"check", check})), arg ? 3 : 2,
                       (const int[]){0, 1, 2});
}

/* linalg_ldl_solve(LD, pivots, B, hermitian) */
bool aten_ldl_solve(struct pt2 *p)
{
    struct ir_value *ld = mat_operand(p, "LD"), *pivots = ld ? pt2_need(p, "pivots") : NULL,
                    *b = pivots ? mat_operand(p, "B") : NULL;
    pt2_ignore(p, "hermitian");
    return by_factors(p, "ldl_solve", ld, pivots, b, 0, NULL);
}

/* linalg_qr(A, mode) -> Q, R */
bool aten_qr(struct pt2 *p)
{
    struct ir_value *x = mat_operand(p, "A");
    const char *mode = pt2_s(p, "mode", "reduced");
    if (!x || !mode)
        return false;
    bool complete = !strcmp(mode, "complete");
    ir_expr k = complete ? mat_rows(x) : mat_shorter_side(p, x);
    const ir_type types[2] = {mat_stacked(p, x, imp_dtype(x), 2, mat_rows(x), k),
                              mat_stacked(p, x, imp_dtype(x), 2, k, mat_columns(x))};
    struct ir_node *made = mat_library(p, "qr", 1, &x, 2, types, MAT_WORDS({"complete", complete}));
    if (!made || !mat_optional_result(p, 1, made->out[1]))
        return false;
    if (strcmp(mode, "r") != 0)
        return mat_optional_result(p, 0, made->out[0]);
    return mat_optional_result(p, 0, nothing(p, imp_dtype(x)));
}

/* geqrf(self) -> a, tau */
bool aten_geqrf(struct pt2 *p)
{
    struct ir_value *x = mat_operand(p, "self");
    if (!x)
        return false;
    const ir_type types[2] = {x->type, mat_stacked(p, x, imp_dtype(x), 1, mat_shorter_side(p, x), NULL)};
    return mat_results(p, mat_library(p, "geqrf", 1, &x, 2, types, 0, NULL), 2, (const int[]){0, 1});
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
    struct ir_value *x = mat_operand(p, arg ? "self" : "input"), *tau = x ? pt2_need(p, arg ? "input2" : "tau") : NULL;
    int64_t last = tau ? imp_rank(tau) : 0, row = last - 1;
    if (!tau || last != imp_rank(x) - 1)
        return tau && imp_bad(p->im, "the reflections' factors do not fit the matrices");
    ir_expr n = mat_columns(x), k = imp_dim(tau, (int)row);
    if (!imp_assume(im, IR_LE, k, n, "there are no more factors than columns") ||
        !imp_assume(im, IR_LE, n, mat_rows(x), "there are no more columns than rows"))
        return false;
    struct ir_value *v = unit_lower(p, x, k), *scale = imp_unsqueeze(im, tau, 1, &last);
    struct ir_value *s = imp_bin(im, IR_mul, imp_matmul(im, v, v, true, false, TCC_NONE), scale);
    struct ir_value *top = imp_slice1(im, v, (int)row, ir_const(p->ctx, 0), n);
    struct ir_value *side = imp_bin(im, IR_mul, top, imp_unsqueeze(im, tau, 1, &row));
    struct ir_value *by = by_triangle(p, s, mat_transposed(p, side), true, true, false, true);
    struct ir_value *taken = by ? imp_matmul(im, v, by, false, false, TCC_NONE) : NULL;
    struct ir_value *e = imp_cast(im, pt2_on_diagonal(p, mat_rows(x), n, 0), imp_dtype(x));
    return taken && e && pt2_out(p, 0, imp_bin(im, IR_sub, e, taken));
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
