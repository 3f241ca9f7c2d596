/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Factors L D L' of symmetric matrices that need not be definite, D of blocks of one and two rows, and what solves by
 * them: diagonal pivoting (Bunch and Kaufman, Some Stable Methods for Calculating Inertia and Solving Symmetric Linear
 * Systems, 1977), with factors and pivots laid out as LAPACK's sytrf lays them out for the lower triangle. In doubles.
 */
#include <math.h>

#include "runtime/libop/linalg_int.h"

static void swap(double *x, double *y)
{
    double t = *x;

    *x = *y;
    *y = t;
}

/* -- Factors: a [m, m], of which the lower triangle is read and written -------------------------------------------- */

/* Rows and columns i < j of what is left from i on. */
static void exchange(double *a, int64_t m, int64_t i, int64_t j)
{
    for (int64_t k = j + 1; k < m; k++)
        swap(a + k * m + i, a + k * m + j);
    for (int64_t k = i + 1; k < j; k++)
        swap(a + k * m + i, a + j * m + k);
    swap(a + i * m + i, a + j * m + j);
}

/* The row that comes next to row k, or to row k + 1 where the pivot is a block of two. */
static int64_t choose(const double *a, int64_t m, int64_t k, bool *two)
{
    const double alpha = (1 + sqrt(17)) / 8;
    double here = fabs(a[k * m + k]), column = 0, row = 0;
    int64_t best = k;

    for (int64_t i = k + 1; i < m; i++)
        if (fabs(a[i * m + k]) > column) {
            column = fabs(a[i * m + k]);
            best = i;
        }
    *two = false;
    if (here >= alpha * column)
        return k;
    for (int64_t j = k; j < m; j++)
        if (j != best)
            row = fmax(row, fabs(a[j < best ? best * m + j : j * m + best]));
    if (here >= alpha * column * (column / row))
        return k;
    *two = fabs(a[best * m + best]) < alpha * row;
    return best;
}

/* Column k of L, or k and k + 1, and what it leaves of the rest. */
static void eliminate(double *a, int64_t m, int64_t k, bool two)
{
    double *d = a + k * m + k;

    if (!two) {
        for (int64_t j = k + 1; j < m; j++) {
            double by = a[j * m + k] / d[0];

            for (int64_t i = j; i < m; i++)
                a[i * m + j] -= a[i * m + k] * by;
        }
        for (int64_t i = k + 1; i < m; i++)
            a[i * m + k] /= d[0];
        return;
    }
    double below = d[m], first = d[m + 1] / below, second = d[0] / below, t = 1 / (first * second - 1) / below;
    for (int64_t j = k + 2; j < m; j++) {
        double *x = a + j * m + k, u = t * (first * x[0] - x[1]), w = t * (second * x[1] - x[0]);

        for (int64_t i = j; i < m; i++)
            a[i * m + j] -= a[i * m + k] * u + a[i * m + k + 1] * w;
        x[0] = u;
        x[1] = w;
    }
}

/* The order of the first block of D that is 0; 0: none is. */
static int32_t factor(double *a, int64_t m, int32_t *pivot)
{
    int32_t zero = 0;

    for (int64_t k = 0, step; k < m; k += step) {
        double most = 0;
        bool two = false;
        int64_t row = k;

        for (int64_t i = k; i < m; i++)
            most = fmax(most, fabs(a[i * m + k]));
        if (most > 0) {
            row = choose(a, m, k, &two);
            if (row != k + two)
                exchange(a, m, k + two, row);
            if (two && row != k + 1)
                swap(a + (k + 1) * m + k, a + row * m + k);
            eliminate(a, m, k, two);
        } else if (!zero) {
            zero = (int32_t)k + 1;
        }
        step = two ? 2 : 1;
        for (int64_t i = 0; i < step; i++)
            pivot[k + i] = (int32_t)(two ? -row - 1 : row + 1);
    }
    return zero;
}

/* x[..., m, m] -> L and D in one [..., m, m], pivots [..., m], info [...] */
int tccrt_lib_ldl(struct tcc_lib_call *call)
{
    bool check = lib_int(call, "check", 0) != 0;
    struct lib_stack x;
    int status = lib_stack(call, 0, true, &x);
    int64_t m = x.m;
    int32_t *pivots, *info;
    double *a;
    void *y;

    if (status)
        return status;
    y = lib_stack_out(call, 0, &x, x.t->dtype, 2, m, m);
    pivots = y ? lib_stack_out(call, 1, &x, TCC_I32, 1, m, 0) : NULL;
    info = pivots ? lib_stack_out(call, 2, &x, TCC_I32, 0, 0, 0) : NULL;
    if (!info)
        return TCC_EENV;
    if (!(a = lib_doubles(m * m, 1)))
        return LIB_NO_MEMORY(call);
    for (int64_t i = 0; !status && i < x.count; i++) {
        lib_stack_get(&x, i, a);
        for (int64_t k = 0; k < m * m; k++)
            a[k] = k % m > k / m ? 0 : a[k];
        info[i] = factor(a, m, pivots + i * m);
        if (info[i] && check)
            status = LIB_FAIL(call, "the matrix is singular: block %d of its factor D is 0", info[i]);
        lib_put_all(y, x.t->dtype, i * m * m, a, m * m);
    }
    free(a);
    return status;
}

/* -- Solutions ----------------------------------------------------------------------------------------------------- */

/* Row i of b [m, k] less `by` times row j. */
static void less(double *b, int64_t k, int64_t i, double by, int64_t j)
{
    for (int64_t c = 0; c < k; c++)
        b[i * k + c] -= by * b[j * k + c];
}

static void swap_rows(double *b, int64_t k, int64_t i, int64_t j)
{
    for (int64_t c = 0; i != j && c < k; c++)
        swap(b + i * k + c, b + j * k + c);
}

/* b becomes D^-1 L^-1 b, the rows in the order of the pivots. */
static void forward(const double *a, const int32_t *pivot, int64_t m, double *b, int64_t k)
{
    for (int64_t r = 0; r < m; r++) {
        const double *d = a + r * m + r;

        if (pivot[r] > 0) {
            swap_rows(b, k, r, pivot[r] - 1);
            for (int64_t i = r + 1; i < m; i++)
                less(b, k, i, a[i * m + r], r);
            for (int64_t c = 0; c < k; c++)
                b[r * k + c] /= d[0];
            continue;
        }
        swap_rows(b, k, r + 1, -pivot[r] - 1);
        for (int64_t i = r + 2; i < m; i++) {
            less(b, k, i, a[i * m + r], r);
            less(b, k, i, a[i * m + r + 1], r + 1);
        }
        double first = d[0] / d[m], second = d[m + 1] / d[m], t = first * second - 1;
        for (int64_t c = 0; c < k; c++) {
            double u = b[r * k + c] / d[m], w = b[(r + 1) * k + c] / d[m];

            b[r * k + c] = (second * u - w) / t;
            b[(r + 1) * k + c] = (first * w - u) / t;
        }
        r++;
    }
}

/* b becomes L'^-1 b, the rows in their own order again. */
static void backward(const double *a, const int32_t *pivot, int64_t m, double *b, int64_t k)
{
    for (int64_t r = m - 1; r >= 0; r--) {
        int64_t top = pivot[r] < 0 ? r - 1 : r;

        for (int64_t i = r + 1; i < m; i++)
            for (int64_t j = top; j <= r; j++)
                less(b, k, j, a[i * m + j], i);
        swap_rows(b, k, r, (pivot[r] < 0 ? -pivot[r] : pivot[r]) - 1);
        r = top;
    }
}

/* m pivots, the first of them number `at`. False: no factorisation gives such ones. */
static bool read_pivots(const struct tcc_tensor *t, int64_t at, int64_t m, int32_t *pivot)
{
    for (int64_t r = 0; r < m; r++) {
        double v = lib_get(t, at + r);
        int64_t row = r + (v < 0);

        if (!(fabs(v) - 1 >= (double)row && fabs(v) <= (double)m))
            return false;
        pivot[r] = (int32_t)v;
        if (v > 0)
            continue;
        if (lib_get(t, at + row) != v)
            return false;
        pivot[row] = pivot[r];
        r = row;
    }
    return true;
}

/* (ld[..., m, m], pivots[..., m], b[..., m, k]) -> x */
int tccrt_lib_ldl_solve(struct tcc_lib_call *call)
{
    const struct tcc_tensor *pivots;
    struct lib_stack x, b;
    int status = lib_stack(call, 0, true, &x);
    int64_t m = x.m;
    int32_t *pivot;
    double *a;
    void *y;

    status = status ? status : lib_need(call, 1, -1, LIB_NUMBER, &pivots);
    status = status ? status : lib_stack_like(call, 2, &x, m, -1, &b);
    if (status)
        return status;
    if (lib_count(pivots) != x.count * m)
        return LIB_FAIL(call, "%lld pivots where %lld fit", (long long)lib_count(pivots), (long long)(x.count * m));
    if (!(y = lib_stack_out(call, 0, &b, x.t->dtype, 2, m, b.n)))
        return TCC_EENV;
    a = lib_doubles(m * m + m * b.n, 1);
    pivot = a ? malloc((size_t)m * sizeof *pivot + 1) : NULL;
    for (int64_t i = 0; pivot && !status && i < x.count; i++) {
        if (!read_pivots(pivots, i * m, m, pivot)) {
            status = LIB_FAIL(call, "the pivots of matrix %lld are none of ldl_factor", (long long)i);
            break;
        }
        lib_stack_get(&x, i, a);
        lib_stack_get(&b, i, a + m * m);
        forward(a, pivot, m, a + m * m, b.n);
        backward(a, pivot, m, a + m * m, b.n);
        lib_put_all(y, x.t->dtype, i * m * b.n, a + m * m, m * b.n);
    }
    status = pivot ? status : LIB_NO_MEMORY(call);
    free(pivot);
    free(a);
    return status;
}
