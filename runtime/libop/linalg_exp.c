/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linalg_exp.c - the exponential of a matrix, by Pade approximants with scaling and squaring: Higham, "The scaling and
 * squaring method for the matrix exponential revisited" (2005).
 */
#include <math.h>

#include "runtime/libop/linalg_int.h"

/* c = a b, of m x m. */
static void product(const double *a, const double *b, int64_t m, double *c)
{
    for (int64_t r = 0; r < m; r++) {
        memset(c + r * m, 0, (size_t)m * sizeof *c);
        for (int64_t k = 0; k < m; k++)
            for (int64_t j = 0; j < m; j++)
                c[r * m + j] += a[r * m + k] * b[k * m + j];
    }
}

static double norm1(const double *a, int64_t m)
{
    double most = 0;

    for (int64_t c = 0; c < m; c++) {
        double sum = 0;

        for (int64_t r = 0; r < m; r++)
            sum += fabs(a[r * m + c]);
        most = sum > most || isnan(sum) ? sum : most;
    }
    return most;
}

/* The quotient of two polynomials of degree 13 for a / 2^s, squared s times. w: room for six matrices; the result is
 * its first. */
static void exponential(double *a, int64_t m, int64_t *pivot, double *w)
{
    static const double b[] = {64764752532480000.0,
                               32382376266240000.0,
                               7771770303897600.0,
                               1187353796428800.0,
                               129060195264000.0,
                               10559470521600.0,
                               670442572800.0,
                               33522128640.0,
                               1323241920.0,
                               40840800.0,
                               960960.0,
                               16380.0,
                               182.0,
                               1.0};
    const double theta = 5.371920351148152;
    double norm = norm1(a, m), *u = w, *v = w + m * m, *a2 = v + m * m, *a4 = a2 + m * m, *a6 = a4 + m * m,
           *t = a6 + m * m;
    int s = 0;

    while (isfinite(norm) && norm > theta) {
        norm /= 2;
        s++;
    }
    for (int64_t k = 0; k < m * m; k++)
        a[k] = ldexp(a[k], -s);
    product(a, a, m, a2);
    product(a2, a2, m, a4);
    product(a4, a2, m, a6);
    for (int64_t k = 0; k < m * m; k++) {
        v[k] = b[13] * a6[k] + b[11] * a4[k] + b[9] * a2[k];
        t[k] = b[12] * a6[k] + b[10] * a4[k] + b[8] * a2[k];
    }
    product(a6, v, m, u);
    product(a6, t, m, v);
    for (int64_t k = 0; k < m * m; k++) {
        double one = k / m == k % m;

        u[k] += b[7] * a6[k] + b[5] * a4[k] + b[3] * a2[k] + b[1] * one;
        v[k] += b[6] * a6[k] + b[4] * a4[k] + b[2] * a2[k] + b[0] * one;
    }
    product(a, u, m, t);
    for (int64_t k = 0; k < m * m; k++) {
        a2[k] = v[k] - t[k];
        u[k] = v[k] + t[k];
    }
    lib_lu(a2, m, m, pivot);
    lib_solve_lu(a2, pivot, m, false, u, m);
    for (; s > 0; s--) {
        product(u, u, m, v);
        memcpy(u, v, (size_t)(m * m) * sizeof *u);
    }
}

/* x[..., m, m] -> exp(x) */
int tccrt_lib_matrix_exp(struct tcc_lib_call *call)
{
    struct lib_squares s;
    int status = lib_squares(call, 7, &s);
    void *y = status ? NULL : lib_stack_out(call, 0, &s.x, s.x.t->dtype, 2, s.x.m, s.x.m);
    int64_t m = s.x.m;

    for (int64_t i = 0; y && i < s.x.count; i++) {
        lib_stack_get(&s.x, i, s.a);
        exponential(s.a, m, s.pivot, s.a + m * m);
        lib_put_all(y, s.x.t->dtype, i * m * m, s.a + m * m, m * m);
    }
    return lib_squares_done(&s, status ? status : y ? TCC_OK : TCC_EENV);
}
