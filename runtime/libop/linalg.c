/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Systems of linear equations: determinants, inverses, factorisations by Gauss and Cholesky, what solves by them. In
 * doubles; Golub and Van Loan, Matrix Computations, 4th edition, 3.4 (LU), 4.2 (Cholesky), 3.1 (triangles).
 */
#include <math.h>

#include "runtime/libop/linalg_int.h"

/* -- Matrices of operands and results ------------------------------------------------------------------------------ */

int lib_stack(struct tcc_lib_call *call, int i, bool square, struct lib_stack *s)
{
    const struct tcc_tensor *t;
    int status = lib_need(call, i, -1, LIB_NUMBER, &t), rank;

    *s = (struct lib_stack){0}; /* sizes are read in front of the status here and there */
    if (status)
        return status;
    s->t = t;
    rank = (int)t->rank;
    if (rank < 2)
        return LIB_FAIL(call, "operand %d: matrices expected", i);
    s->m = s->t->dims[rank - 2];
    s->n = s->t->dims[rank - 1];
    s->count = lib_product(rank - 2, s->t->dims);
    return square && s->m != s->n
               ? LIB_FAIL(call, "square matrices expected, not %lld x %lld", (long long)s->m, (long long)s->n)
               : TCC_OK;
}

int lib_stack_like(struct tcc_lib_call *call, int i, const struct lib_stack *like, int64_t m, int64_t n,
                   struct lib_stack *s)
{
    int status = lib_stack(call, i, false, s);

    if (status)
        return status;
    if (s->count != like->count)
        return LIB_FAIL(call, "operand %d: %lld matrices beside %lld", i, (long long)s->count, (long long)like->count);
    if (m >= 0 && s->m != m)
        return LIB_FAIL(call, "operand %d: %lld rows where %lld fit", i, (long long)s->m, (long long)m);
    return n >= 0 && s->n != n
               ? LIB_FAIL(call, "operand %d: %lld columns where %lld fit", i, (long long)s->n, (long long)n)
               : TCC_OK;
}

void lib_stack_get(const struct lib_stack *s, int64_t i, double *a)
{
    for (int64_t k = 0; k < s->m * s->n; k++)
        a[k] = lib_get(s->t, i * s->m * s->n + k);
}

void *lib_stack_out(struct tcc_lib_call *call, int k, const struct lib_stack *s, int dtype, int tail, int64_t first,
                    int64_t second)
{
    int64_t dims[TCC_MAX_RANK];
    int lead = (int)s->t->rank - 2;

    memcpy(dims, s->t->dims, (size_t)lead * sizeof *dims);
    if (tail > 0)
        dims[lead] = first;
    if (tail > 1)
        dims[lead + 1] = second;
    return lib_out(call, k, dtype, lead + tail, dims);
}

void lib_put_all(void *data, int dtype, int64_t at, const double *a, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        lib_put(data, dtype, at + k, a[k]);
}

double *lib_doubles(int64_t n, int64_t times)
{
    int64_t bytes;

    if (__builtin_mul_overflow(n, times, &bytes) || __builtin_add_overflow(bytes, 1, &bytes) ||
        __builtin_mul_overflow(bytes, (int64_t)sizeof(double), &bytes))
        return NULL;
    return malloc((size_t)bytes);
}

/* -- Factors ------------------------------------------------------------------------------------------------------- */

static void swap_rows(double *a, int64_t n, int64_t r, int64_t q)
{
    for (int64_t k = 0; r != q && k < n; k++) {
        double t = a[r * n + k];

        a[r * n + k] = a[q * n + k];
        a[q * n + k] = t;
    }
}

/* a [m, n] becomes L below the diagonal, whose own is 1, and U: Gaussian elimination with partial pivoting, as LAPACK's
 * getrf. pivot[k]: the row that row k changed places with (NULL: no row does). The number, from 1, of the first pivot
 * that is 0; 0: there is none. */
int64_t lib_lu(double *a, int64_t m, int64_t n, int64_t *pivot)
{
    int64_t zero = 0;

    for (int64_t c = 0; c < m && c < n; c++) {
        int64_t best = c;

        for (int64_t r = c + 1; pivot && r < m; r++)
            best = fabs(a[r * n + c]) > fabs(a[best * n + c]) ? r : best;
        if (pivot)
            pivot[c] = best;
        swap_rows(a, n, c, best);
        if (a[c * n + c] == 0) {
            zero = zero ? zero : c + 1;
            continue;
        }
        for (int64_t r = c + 1; r < m; r++) {
            double f = a[r * n + c] /= a[c * n + c];

            for (int64_t k = c + 1; f != 0 && k < n; k++)
                a[r * n + k] -= f * a[c * n + k];
        }
    }
    return zero;
}

/* a x = b for each of b's k columns, which become x: a triangle of a is read, or that of a transposed; `unit`: ones
 * instead of its diagonal. */
static void solve_triangle(const double *a, int64_t m, bool upper, bool transposed, bool unit, double *b, int64_t k)
{
    bool down = upper == transposed;

    for (int64_t i = 0; i < m; i++) {
        int64_t r = down ? i : m - 1 - i;

        for (int64_t c = down ? 0 : r + 1; c < (down ? r : m); c++) {
            double f = transposed ? a[c * m + r] : a[r * m + c];

            for (int64_t j = 0; j < k; j++)
                b[r * k + j] -= f * b[c * k + j];
        }
        for (int64_t j = 0; !unit && j < k; j++)
            b[r * k + j] /= a[r * m + r];
    }
}

/* x of the matrix that lu and pivot are the factors of, or of its transposed one. */
void lib_solve_lu(const double *lu, const int64_t *pivot, int64_t m, bool transposed, double *b, int64_t k)
{
    for (int64_t r = 0; !transposed && r < m; r++)
        swap_rows(b, k, r, pivot[r]);
    solve_triangle(lu, m, transposed, transposed, !transposed, b, k);
    solve_triangle(lu, m, !transposed, transposed, transposed, b, k);
    for (int64_t r = m - 1; transposed && r >= 0; r--)
        swap_rows(b, k, r, pivot[r]);
}

/* A matrix that has to have one: what an op with attribute `check` says where it has not. */
static int singular(struct tcc_lib_call *call, int64_t i, int64_t count, int64_t zero, const char *what)
{
    if (count > 1)
        return LIB_FAIL(call, "(batch element %lld): %s: pivot %lld is zero, the matrix is singular", (long long)i,
                        what, (long long)zero);
    return LIB_FAIL(call, "%s: pivot %lld is zero, the matrix is singular", what, (long long)zero);
}

int lib_squares(struct tcc_lib_call *call, int64_t room, struct lib_squares *s)
{
    int status = lib_stack(call, 0, true, &s->x);

    s->a = NULL;
    s->pivot = NULL;
    if (status)
        return status;
    s->a = lib_doubles(s->x.m * s->x.m, room);
    s->pivot = calloc((size_t)s->x.m + 1, sizeof *s->pivot);
    return s->a && s->pivot ? TCC_OK : LIB_NO_MEMORY(call);
}

int lib_squares_done(struct lib_squares *s, int status)
{
    free(s->a);
    free(s->pivot);
    return status;
}

/* -- Determinants -------------------------------------------------------------------------------------------------- */

/* Sign of a permutation by its exchanges. */
static int sign_of(const int64_t *pivot, int64_t m)
{
    int sign = 1;

    for (int64_t k = 0; k < m; k++)
        sign = pivot[k] != k ? -sign : sign;
    return sign;
}

/* x[..., m, m] -> [...] */
int tccrt_lib_det(struct tcc_lib_call *call)
{
    struct lib_squares s;
    int status = lib_squares(call, 1, &s);
    void *y = status ? NULL : lib_stack_out(call, 0, &s.x, s.x.t->dtype, 0, 0, 0);

    for (int64_t i = 0; y && i < s.x.count; i++) {
        double det = 1;

        lib_stack_get(&s.x, i, s.a);
        if (lib_lu(s.a, s.x.m, s.x.m, s.pivot))
            det = 0;
        for (int64_t k = 0; det != 0 && k < s.x.m; k++)
            det *= s.a[k * s.x.m + k];
        lib_put(y, s.x.t->dtype, i, det * sign_of(s.pivot, s.x.m));
    }
    return lib_squares_done(&s, status ? status : y ? TCC_OK : TCC_EENV);
}

/* x[..., m, m] -> signs [...], logarithms of the determinants' moduli; 0 and -infinity where there is none */
int tccrt_lib_slogdet(struct tcc_lib_call *call)
{
    struct lib_squares s;
    int status = lib_squares(call, 1, &s);
    void *sign = status ? NULL : lib_stack_out(call, 0, &s.x, s.x.t->dtype, 0, 0, 0);
    void *log_of = sign ? lib_stack_out(call, 1, &s.x, s.x.t->dtype, 0, 0, 0) : NULL;

    for (int64_t i = 0; log_of && i < s.x.count; i++) {
        double sum = 0;
        int turn;

        lib_stack_get(&s.x, i, s.a);
        turn = lib_lu(s.a, s.x.m, s.x.m, s.pivot) ? 0 : sign_of(s.pivot, s.x.m);
        for (int64_t k = 0; k < s.x.m; k++) {
            sum += log(fabs(s.a[k * s.x.m + k]));
            turn = s.a[k * s.x.m + k] < 0 ? -turn : turn;
        }
        lib_put(sign, s.x.t->dtype, i, turn);
        lib_put(log_of, s.x.t->dtype, i, turn || isnan(sum) ? sum : -INFINITY);
    }
    return lib_squares_done(&s, status ? status : log_of ? TCC_OK : TCC_EENV);
}

/* -- Inverses, solutions ------------------------------------------------------------------------------------------- */

/* x[..., m, m] -> the same shape; `check`: a matrix without an inverse is an error, else it gives infinities and NaNs.
 * Second result, if asked for: the pivot that is zero. */
int tccrt_lib_inverse(struct tcc_lib_call *call)
{
    struct lib_squares s;
    int status = lib_squares(call, 2, &s);
    void *y = status ? NULL : lib_stack_out(call, 0, &s.x, s.x.t->dtype, 2, s.x.m, s.x.m);
    int32_t *info = y && lib_wants(call, 1) ? lib_stack_out(call, 1, &s.x, TCC_I32, 0, 0, 0) : NULL;
    bool check = lib_int(call, "check", 0) != 0;
    int64_t m = s.x.m;

    if (!status && (!y || (lib_wants(call, 1) && !info)))
        status = TCC_EENV;
    for (int64_t i = 0; !status && i < s.x.count; i++) {
        double *b = s.a + m * m;

        lib_stack_get(&s.x, i, s.a);
        for (int64_t k = 0; k < m * m; k++)
            b[k] = k / m == k % m;
        int64_t zero = lib_lu(s.a, m, m, s.pivot);
        if (info)
            info[i] = (int32_t)zero;
        if (zero && check)
            status = singular(call, i, s.x.count, zero, "no inverse");
        lib_solve_lu(s.a, s.pivot, m, false, b, m);
        lib_put_all(y, s.x.t->dtype, i * m * m, b, m * m);
    }
    return lib_squares_done(&s, status);
}

/* Right-hand sides beside square matrices: b [..., m, k], or (right) [..., k, m], whose rows are the unknowns. */
struct sides {
    struct lib_stack b;
    double *v, *turned;
    int64_t m, k;
    bool right;
    void *y;
};

static int sides(struct tcc_lib_call *call, int i, const struct lib_stack *like, struct sides *s)
{
    int status;

    *s = (struct sides){.m = like->m, .right = lib_int(call, "left", 1) == 0};
    status = lib_stack_like(call, i, like, s->right ? -1 : s->m, s->right ? s->m : -1, &s->b);
    if (status)
        return status;
    s->k = s->right ? s->b.m : s->b.n;
    s->v = lib_doubles(s->b.m * s->b.n, 2);
    s->y = s->v ? lib_stack_out(call, 0, &s->b, s->b.t->dtype, 2, s->b.m, s->b.n) : NULL;
    if (!s->v)
        return LIB_NO_MEMORY(call);
    s->turned = s->v + s->b.m * s->b.n;
    return s->y ? TCC_OK : TCC_EENV;
}

static void turn(const double *a, int64_t m, int64_t n, double *to)
{
    for (int64_t r = 0; r < m; r++)
        for (int64_t c = 0; c < n; c++)
            to[c * m + r] = a[r * n + c];
}

/* Side i, as [m, k]. */
static double *side_get(struct sides *s, int64_t i)
{
    lib_stack_get(&s->b, i, s->v);
    if (s->right)
        turn(s->v, s->k, s->m, s->turned);
    return s->right ? s->turned : s->v;
}

static void side_put(struct sides *s, int64_t i)
{
    if (s->right)
        turn(s->turned, s->m, s->k, s->v);
    lib_put_all(s->y, s->b.t->dtype, i * s->m * s->k, s->v, s->m * s->k);
}

/* The n exchanges of one matrix of m rows, from 0; false after a report. */
static bool exchanges(struct tcc_lib_call *call, const struct tcc_tensor *t, int64_t at, int64_t n, int64_t m,
                      int64_t *pivot)
{
    for (int64_t k = 0; k < n; k++) {
        pivot[k] = lib_get_int(t, at + k) - 1;
        if (pivot[k] < 0 || pivot[k] >= m) {
            LIB_FAIL(call, "pivot %lld of %lld rows", (long long)(pivot[k] + 1), (long long)m);
            return false;
        }
    }
    return true;
}

enum solved_by { ITS_FACTORS, A_TRIANGLE, GIVEN_FACTORS };

/* Operand 0 is a matrix, a triangle, or factors whose exchanges are operand 1; the sides come behind. Where matrices
 * are factorised, the second result, if asked for, is the pivot that is zero. */
static int solve(struct tcc_lib_call *call, enum solved_by by)
{
    bool upper = lib_int(call, "upper", 0) != 0, transposed = lib_int(call, "transposed", 0) != 0,
         unit = lib_int(call, "unit", 0) != 0, check = lib_int(call, "check", 0) != 0,
         informs = by == ITS_FACTORS && lib_wants(call, 1);
    const struct tcc_tensor *rows = NULL;
    struct sides b = {.v = NULL};
    struct lib_squares s;
    int status = lib_squares(call, 1, &s);
    int32_t *info = NULL;

    status = status || by != GIVEN_FACTORS ? status : lib_need(call, 1, -1, LIB_NUMBER, &rows);
    status = status ? status : sides(call, by == GIVEN_FACTORS ? 2 : 1, &s.x, &b);
    if (!status && rows && lib_count(rows) != s.x.count * s.x.m)
        status =
            LIB_FAIL(call, "%lld pivots where %lld fit", (long long)lib_count(rows), (long long)(s.x.count * s.x.m));
    if (!status && informs && !(info = lib_stack_out(call, 1, &s.x, TCC_I32, 0, 0, 0)))
        status = TCC_EENV;
    for (int64_t i = 0; !status && i < s.x.count; i++) {
        int64_t m = s.x.m, zero = 0;

        if (rows && !exchanges(call, rows, i * m, m, m, s.pivot)) {
            status = TCC_EINPUT;
            break;
        }
        lib_stack_get(&s.x, i, s.a);
        if (by == ITS_FACTORS)
            zero = lib_lu(s.a, m, m, s.pivot);
        if (info)
            info[i] = (int32_t)zero;
        if (zero && check)
            status = singular(call, i, s.x.count, zero, "no solution");
        if (by == A_TRIANGLE)
            solve_triangle(s.a, m, upper, transposed != b.right, unit, side_get(&b, i), b.k);
        else
            lib_solve_lu(s.a, s.pivot, m, transposed != b.right, side_get(&b, i), b.k);
        side_put(&b, i);
    }
    free(b.v);
    return lib_squares_done(&s, status);
}

/* (a[..., m, m], b) -> x of a x = b, or (left 0) of x a = b; `transposed`: of a transposed; `check`: a singular matrix
 * is an error */
int tccrt_lib_solve(struct tcc_lib_call *call)
{
    return solve(call, ITS_FACTORS);
}

/* (a[..., m, m], b) -> x, of the triangle that `upper` names; left, transposed as in solve; `unit`: its diagonal is
 * 1 */
int tccrt_lib_triangular_solve(struct tcc_lib_call *call)
{
    return solve(call, A_TRIANGLE);
}

/* (lu[..., m, m], pivots[..., m], b) -> x; left and transposed as in solve */
int tccrt_lib_lu_solve(struct tcc_lib_call *call)
{
    return solve(call, GIVEN_FACTORS);
}

/* -- Factors as results -------------------------------------------------------------------------------------------- */

/* x[..., m, n] -> its L and U in one, i32 pivots[..., min(m, n)] from 1, i32 info[...]: the number of the first pivot
 * that is zero, or 0; `pivot` 0: no row changes places; `check`: a zero pivot is an error */
int tccrt_lib_lu(struct tcc_lib_call *call)
{
    bool pivots = lib_int(call, "pivot", 1) != 0, check = lib_int(call, "check", 0) != 0;
    struct lib_stack x;
    int status = lib_stack(call, 0, false, &x);
    int64_t k = status ? 0 : x.m < x.n ? x.m : x.n, *pivot = NULL;
    void *y = status ? NULL : lib_stack_out(call, 0, &x, x.t->dtype, 2, x.m, x.n);
    int32_t *rows = y ? lib_stack_out(call, 1, &x, TCC_I32, 1, k, 0) : NULL,
            *info = rows ? lib_stack_out(call, 2, &x, TCC_I32, 0, 0, 0) : NULL;
    double *a = NULL;

    if (status)
        return status;
    if (!info)
        return TCC_EENV;
    a = lib_doubles(x.m * x.n, 1);
    pivot = a ? calloc((size_t)k + 1, sizeof *pivot) : NULL;
    if (!pivot)
        status = LIB_NO_MEMORY(call);
    for (int64_t i = 0; !status && i < x.count; i++) {
        lib_stack_get(&x, i, a);
        info[i] = (int32_t)lib_lu(a, x.m, x.n, pivots ? pivot : NULL);
        if (info[i] && check)
            status = singular(call, i, x.count, info[i], "LU");
        for (int64_t r = 0; r < k; r++)
            rows[i * k + r] = (int32_t)((pivots ? pivot[r] : r) + 1);
        lib_put_all(y, x.t->dtype, i * x.m * x.n, a, x.m * x.n);
    }
    free(a);
    free(pivot);
    return status;
}

/* (x[..., m, n], pivots[..., k]) -> P[..., m, m] of x's type, which puts the rows of L U in their places */
int tccrt_lib_lu_permutation(struct tcc_lib_call *call)
{
    const struct tcc_tensor *rows;
    struct lib_stack x;
    int status = lib_stack(call, 0, false, &x);
    int64_t k, *pivot, *at;
    void *y;

    if (status || (status = lib_need(call, 1, -1, LIB_NUMBER, &rows)))
        return status;
    k = rows->rank ? rows->dims[rows->rank - 1] : 0;
    if (lib_count(rows) != x.count * k || k > x.m)
        return LIB_FAIL(call, "%lld pivots do not fit", (long long)lib_count(rows));
    if (!(y = lib_stack_out(call, 0, &x, x.t->dtype, 2, x.m, x.m)))
        return TCC_EENV;
    if (!(pivot = calloc((size_t)(k + x.m) + 1, sizeof *pivot)))
        return LIB_NO_MEMORY(call);
    at = pivot + k;
    for (int64_t i = 0; !status && i < x.count; i++) {
        status = exchanges(call, rows, i * k, k, x.m, pivot) ? TCC_OK : TCC_EINPUT;
        for (int64_t r = 0; r < x.m; r++)
            at[r] = r;
        for (int64_t r = 0; !status && r < k; r++) {
            int64_t t = at[r];

            at[r] = at[pivot[r]];
            at[pivot[r]] = t;
        }
        for (int64_t r = 0; !status && r < x.m; r++)
            for (int64_t c = 0; c < x.m; c++)
                lib_put(y, x.t->dtype, (i * x.m + at[r]) * x.m + c, c == r);
    }
    free(pivot);
    return status;
}

/* The lower factor in place of a lower triangle; zeros above. The order, from 1, of the first leading minor that is not
 * positive; 0: there is none. */
static int64_t cholesky(double *a, int64_t m)
{
    int64_t bad = 0;

    for (int64_t c = 0; c < m; c++) {
        for (int64_t k = 0; k < c; k++)
            for (int64_t r = c; r < m; r++)
                a[r * m + c] -= a[r * m + k] * a[c * m + k];
        if (!(a[c * m + c] > 0) && !bad)
            bad = c + 1;
        double root = sqrt(a[c * m + c]);
        for (int64_t r = c; r < m; r++)
            a[r * m + c] = r == c ? root : a[r * m + c] / root;
        for (int64_t k = c + 1; k < m; k++)
            a[c * m + k] = 0;
    }
    return bad;
}

/* x[..., m, m], of which one triangle is read -> L, or (`upper`) L transposed; i32 info[...]: the order of the first
 * leading minor that is not positive, or 0; `check`: that is an error */
int tccrt_lib_cholesky(struct tcc_lib_call *call)
{
    bool upper = lib_int(call, "upper", 0) != 0, check = lib_int(call, "check", 0) != 0;
    struct lib_squares s;
    int status = lib_squares(call, 2, &s);
    void *y = status ? NULL : lib_stack_out(call, 0, &s.x, s.x.t->dtype, 2, s.x.m, s.x.m);
    int32_t *info = y ? lib_stack_out(call, 1, &s.x, TCC_I32, 0, 0, 0) : NULL;
    int64_t m = s.x.m;

    if (!status && !info)
        status = TCC_EENV;
    for (int64_t i = 0; !status && i < s.x.count; i++) {
        double *b = s.a + m * m;

        lib_stack_get(&s.x, i, upper ? b : s.a);
        if (upper)
            turn(b, m, m, s.a);
        info[i] = (int32_t)cholesky(s.a, m);
        if (info[i] && check)
            status = LIB_FAIL(
                call, "the matrix is not positive definite: its leading minor of order %d is not positive", info[i]);
        if (upper)
            turn(s.a, m, m, b);
        lib_put_all(y, s.x.t->dtype, i * m * m, upper ? b : s.a, m * m);
    }
    return lib_squares_done(&s, status);
}
