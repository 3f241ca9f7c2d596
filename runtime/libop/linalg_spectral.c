/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orthogonal factors, eigenvalues, singular values. In doubles: Householder's reflections as LAPACK's geqrf signs them,
 * Jacobi's rotations for symmetric matrices (Golub and Van Loan, Matrix Computations, 4th edition, 8.5) and, one-sided,
 * for singular values (8.6.3).
 */
#include <float.h>
#include <math.h>

#include "runtime/libop/linalg_int.h"

enum { SWEEPS = 60 }; /* Jacobi's method needs six to ten */

/* -- Reflections --------------------------------------------------------------------------------------------------- */

/* Column j of q [m, w] by the reflection whose vector stands in column c of a [m, n]. */
static void reflect(const double *a, int64_t m, int64_t n, int64_t c, double tau, double *q, int64_t w, int64_t j)
{
    double dot = q[c * w + j];

    for (int64_t r = c + 1; r < m; r++)
        dot += a[r * n + c] * q[r * w + j];
    q[c * w + j] -= tau * dot;
    for (int64_t r = c + 1; r < m; r++)
        q[r * w + j] -= tau * dot * a[r * n + c];
}

/* a [m, n] becomes R on and above the diagonal, and below it vectors v, whose first element 1 is not stored: Q is the
 * product of I - tau v v'. */
static void triangle(double *a, int64_t m, int64_t n, double *tau)
{
    for (int64_t c = 0; c < m && c < n; c++) {
        double norm = 0, alpha = a[c * n + c];

        for (int64_t r = c + 1; r < m; r++)
            norm = hypot(norm, a[r * n + c]);
        tau[c] = 0;
        if (norm == 0)
            continue;
        double beta = -copysign(hypot(alpha, norm), alpha);
        tau[c] = (beta - alpha) / beta;
        for (int64_t r = c + 1; r < m; r++)
            a[r * n + c] /= alpha - beta;
        a[c * n + c] = beta;
        for (int64_t k = c + 1; k < n; k++)
            reflect(a, m, n, c, tau[c], a, n, k);
    }
}

/* The first w columns of the product of k reflections, whose vectors stand in the columns of a [m, n]. */
static void reflections(const double *a, int64_t m, int64_t n, const double *tau, int64_t k, double *q, int64_t w)
{
    for (int64_t i = 0; i < m * w; i++)
        q[i] = i / w == i % w;
    for (int64_t c = k - 1; c >= 0; c--)
        for (int64_t j = 0; j < w; j++)
            reflect(a, m, n, c, tau[c], q, w, j);
}

/* x[..., m, n] -> Q[..., m, k], R[..., k, n]: k the lesser of m and n, or (`complete`) m */
int tccrt_lib_qr(struct tcc_lib_call *call)
{
    struct lib_stack x;
    int status = lib_stack(call, 0, false, &x);
    int64_t least, k;
    void *q, *r;
    double *a, *tau, *made;

    if (status)
        return status;
    least = x.m < x.n ? x.m : x.n;
    k = lib_int(call, "complete", 0) ? x.m : least;
    q = lib_stack_out(call, 0, &x, x.t->dtype, 2, x.m, k);
    r = q ? lib_stack_out(call, 1, &x, x.t->dtype, 2, k, x.n) : NULL;
    if (!r)
        return TCC_EENV;
    if (!(a = lib_doubles(x.m * x.n + x.m * k + least, 1)))
        return LIB_NO_MEMORY(call);
    tau = a + x.m * x.n;
    made = tau + least;
    for (int64_t i = 0; i < x.count; i++) {
        lib_stack_get(&x, i, a);
        triangle(a, x.m, x.n, tau);
        reflections(a, x.m, x.n, tau, least, made, k);
        lib_put_all(q, x.t->dtype, i * x.m * k, made, x.m * k);
        for (int64_t j = 0; j < k * x.n; j++)
            lib_put(r, x.t->dtype, i * k * x.n + j, j / x.n <= j % x.n ? a[j] : 0);
    }
    free(a);
    return TCC_OK;
}

/* x[..., m, n] -> R and the vectors of its reflections in one, tau[..., min(m, n)] */
int tccrt_lib_geqrf(struct tcc_lib_call *call)
{
    struct lib_stack x;
    int status = lib_stack(call, 0, false, &x);
    int64_t k;
    void *y, *t;
    double *a;

    if (status)
        return status;
    k = x.m < x.n ? x.m : x.n;
    y = lib_stack_out(call, 0, &x, x.t->dtype, 2, x.m, x.n);
    t = y ? lib_stack_out(call, 1, &x, x.t->dtype, 1, k, 0) : NULL;
    if (!t)
        return TCC_EENV;
    if (!(a = lib_doubles(x.m * x.n + k, 1)))
        return LIB_NO_MEMORY(call);
    for (int64_t i = 0; i < x.count; i++) {
        lib_stack_get(&x, i, a);
        triangle(a, x.m, x.n, a + x.m * x.n);
        lib_put_all(y, x.t->dtype, i * x.m * x.n, a, x.m * x.n);
        lib_put_all(t, x.t->dtype, i * k, a + x.m * x.n, k);
    }
    free(a);
    return TCC_OK;
}

/* -- Rotations ----------------------------------------------------------------------------------------------------- */

/* x and y become c x - s y and s x + c y. */
static void rotate(double *x, double *y, int64_t n, int64_t step, double c, double s)
{
    for (int64_t k = 0; k < n; k++) {
        double a = x[k * step], b = y[k * step];

        x[k * step] = c * a - s * b;
        y[k * step] = s * a + c * b;
    }
}

/* The rotation that makes the symmetric [p, g; g, q] diagonal. */
static void rotation(double p, double q, double g, double *c, double *s)
{
    double zeta = (q - p) / (2 * g), t = copysign(1, zeta) / (fabs(zeta) + hypot(1, zeta));

    *c = 1 / hypot(1, t);
    *s = *c * t;
}

double lib_scale_of(const double *a, int64_t n)
{
    double most = 0;
    int e;

    for (int64_t k = 0; k < n; k++) {
        if (!isfinite(a[k]))
            return NAN;
        most = fmax(most, fabs(a[k]));
    }
    frexp(most, &e);
    return most > 0 ? ldexp(1, e) : 0;
}

/* a [m, m], symmetric, becomes diagonal; the rows of v its eigenvectors. */
static void diagonalise(double *a, int64_t m, double *v)
{
    bool turned = true;

    for (int64_t k = 0; k < m * m; k++)
        v[k] = k / m == k % m;
    for (int sweep = 0; turned && sweep < SWEEPS; sweep++) {
        turned = false;
        for (int64_t p = 0; p < m; p++)
            for (int64_t q = p + 1; q < m; q++) {
                double g = a[p * m + q], c, s;

                if (fabs(g) <= DBL_EPSILON / 8 * sqrt(fabs(a[p * m + p])) * sqrt(fabs(a[q * m + q])) ||
                    fabs(g) < DBL_MIN)
                    continue;
                rotation(a[p * m + p], a[q * m + q], g, &c, &s);
                rotate(a + p * m, a + q * m, m, 1, c, s);
                rotate(a + p, a + q, m, m, c, s);
                a[p * m + q] = a[q * m + p] = 0;
                rotate(v + p * m, v + q * m, m, 1, c, s);
                turned = true;
            }
    }
}

/* Numbers and, with each, a row of a matrix, and of another one (NULL: there is none), in ascending or descending
 * order; equal ones stay as they are. */
static void order(double *w, int64_t n, bool descending, double *rows, int64_t width, double *other,
                  int64_t other_width)
{
    for (int64_t i = 1; i < n; i++)
        for (int64_t k = i; k > 0 && (descending ? w[k] > w[k - 1] : w[k] < w[k - 1]); k--) {
            double t = w[k];

            w[k] = w[k - 1];
            w[k - 1] = t;
            rotate(rows + (k - 1) * width, rows + k * width, width, 1, 0, -1);
            if (other)
                rotate(other + (k - 1) * other_width, other + k * other_width, other_width, 1, 0, -1);
        }
}

/* x[..., m, m], of which one triangle is read (`lower` 1, the default) -> eigenvalues [..., m], ascending, and
 * eigenvectors [..., m, m], a column each */
int tccrt_lib_eigh(struct tcc_lib_call *call)
{
    bool lower = lib_int(call, "lower", 1) != 0;
    struct lib_stack x;
    int status = lib_stack(call, 0, true, &x);
    int64_t m = x.m;
    void *values, *vectors;
    double *a;

    if (status)
        return status;
    values = lib_stack_out(call, 0, &x, x.t->dtype, 1, m, 0);
    vectors = values ? lib_stack_out(call, 1, &x, x.t->dtype, 2, m, m) : NULL;
    if (!vectors)
        return TCC_EENV;
    if (!(a = lib_doubles(2 * m * m + m, 1)))
        return LIB_NO_MEMORY(call);
    for (int64_t i = 0; !status && i < x.count; i++) {
        double *v = a + m * m, *w = v + m * m, scale;

        lib_stack_get(&x, i, a);
        for (int64_t r = 0; r < m; r++)
            for (int64_t c = 0; c < r; c++)
                a[(lower ? c : r) * m + (lower ? r : c)] = a[(lower ? r : c) * m + (lower ? c : r)];
        scale = lib_scale_of(a, m * m);
        if (isnan(scale)) {
            status = LIB_FAIL(call, "the matrix has elements that are not finite");
            break;
        }
        for (int64_t k = 0; scale > 0 && k < m * m; k++)
            a[k] /= scale;
        diagonalise(a, m, v);
        for (int64_t k = 0; k < m; k++)
            w[k] = a[k * m + k] * scale;
        order(w, m, false, v, m, NULL, 0);
        lib_put_all(values, x.t->dtype, i * m, w, m);
        for (int64_t k = 0; k < m * m; k++)
            lib_put(vectors, x.t->dtype, i * m * m + k, v[k % m * m + k / m]);
    }
    free(a);
    return status;
}

/* -- Singular values ----------------------------------------------------------------------------------------------- */

static double dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;

    for (int64_t k = 0; k < n; k++)
        sum += x[k] * y[k];
    return sum;
}

/* The n rows of u, of m >= n elements, are turned until each two are orthogonal; the rows of v [n, n] with them. */
static void orthogonalise(double *u, int64_t n, int64_t m, double *v)
{
    double least = DBL_EPSILON * sqrt((double)m); /* a sum of m products is no more exact */
    bool turned = true;

    for (int64_t k = 0; k < n * n; k++)
        v[k] = k / n == k % n;
    for (int sweep = 0; turned && sweep < SWEEPS; sweep++) {
        turned = false;
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++) {
                double *x = u + p * m, *y = u + q * m, a = dot(x, x, m), b = dot(y, y, m), g = dot(x, y, m), c, s;

                if (fabs(g) <= least * sqrt(a) * sqrt(b) || fabs(g) < DBL_MIN)
                    continue;
                rotation(a, b, g, &c, &s);
                rotate(x, y, m, 1, c, s);
                rotate(v + p * n, v + q * n, n, 1, c, s);
                turned = true;
            }
    }
}

/* Rows `from` to n of q, of m elements, become unit vectors orthogonal to all before them: what is left of the axes'
 * own, the longest first. */
static void complete(double *q, int64_t from, int64_t n, int64_t m)
{
    for (int64_t r = from; r < n; r++) {
        double most = -1;
        int64_t best = 0;

        for (int64_t axis = 0; axis < m; axis++) {
            double left = 1;

            for (int64_t k = 0; k < r; k++)
                left -= q[k * m + axis] * q[k * m + axis];
            if (left > most) {
                most = left;
                best = axis;
            }
        }
        for (int64_t c = 0; c < m; c++)
            q[r * m + c] = c == best;
        for (int again = 0; again < 2; again++)
            for (int64_t k = 0; k < r; k++) {
                double part = dot(q + k * m, q + r * m, m);

                for (int64_t c = 0; c < m; c++)
                    q[r * m + c] -= part * q[k * m + c];
            }
        double norm = sqrt(dot(q + r * m, q + r * m, m));
        for (int64_t c = 0; c < m; c++)
            q[r * m + c] /= norm;
    }
}

/* Of a matrix [m, n] with k = min(m, n): s [k], descending; the rows of u [max(m, n)][...] and v are the vectors of the
 * longer and the shorter side. */
struct factors {
    int64_t m, n, k, longer;
    double *a, *u, *v, *s;
};

static bool factors_new(struct factors *f, int64_t m, int64_t n, int64_t more)
{
    f->m = m;
    f->n = n;
    f->k = m < n ? m : n;
    f->longer = m < n ? n : m;
    f->a = lib_doubles(m * n + f->longer * f->longer + f->k * f->k + f->k + more, 1);
    if (!f->a)
        return false;
    f->u = f->a + m * n;
    f->v = f->u + f->longer * f->longer;
    f->s = f->v + f->k * f->k;
    return true;
}

/* f->a is factored; u gets `rows` rows. False: an element is not finite. */
static bool factor(struct factors *f, int64_t rows)
{
    double scale = lib_scale_of(f->a, f->m * f->n);
    int64_t good = 0;

    if (isnan(scale))
        return false;
    for (int64_t i = 0; i < f->k; i++)
        for (int64_t j = 0; j < f->longer; j++)
            f->u[i * f->longer + j] = (f->m < f->n ? f->a[i * f->n + j] : f->a[j * f->n + i]) / (scale > 0 ? scale : 1);
    orthogonalise(f->u, f->k, f->longer, f->v);
    for (int64_t i = 0; i < f->k; i++)
        f->s[i] = sqrt(dot(f->u + i * f->longer, f->u + i * f->longer, f->longer));
    order(f->s, f->k, true, f->u, f->longer, f->v, f->k);
    while (good < f->k && f->s[good] > 0)
        good++;
    for (int64_t i = 0; i < f->k; i++) {
        for (int64_t j = 0; i < good && j < f->longer; j++)
            f->u[i * f->longer + j] /= f->s[i];
        f->s[i] *= scale;
    }
    complete(f->u, good, rows, f->longer);
    return true;
}

/* x[..., m, n] -> U[..., m, k], S[..., k], V transposed [..., k, n]: k the lesser of m and n; `full`: U and V are
 * square */
int tccrt_lib_svd(struct tcc_lib_call *call)
{
    bool full = lib_int(call, "full", 0) != 0;
    struct lib_stack x;
    struct factors f;
    int status = lib_stack(call, 0, false, &x);
    int64_t k, left, right;
    void *u, *s, *v;

    if (status)
        return status;
    k = x.m < x.n ? x.m : x.n;
    left = full ? x.m : k;
    right = full ? x.n : k;
    u = lib_stack_out(call, 0, &x, x.t->dtype, 2, x.m, left);
    s = u ? lib_stack_out(call, 1, &x, x.t->dtype, 1, k, 0) : NULL;
    v = s ? lib_stack_out(call, 2, &x, x.t->dtype, 2, right, x.n) : NULL;
    if (!v)
        return TCC_EENV;
    if (!factors_new(&f, x.m, x.n, 0))
        return LIB_NO_MEMORY(call);
    for (int64_t i = 0; !status && i < x.count; i++) {
        bool wide = x.m < x.n;
        const double *a = wide ? f.v : f.u, *b = wide ? f.u : f.v;
        int64_t width = wide ? f.k : f.longer;

        lib_stack_get(&x, i, f.a);
        if (!factor(&f, full ? f.longer : f.k)) {
            status = LIB_FAIL(call, "the matrix has elements that are not finite");
            break;
        }
        for (int64_t j = 0; j < x.m * left; j++)
            lib_put(u, x.t->dtype, i * x.m * left + j, a[j % left * width + j / left]);
        lib_put_all(s, x.t->dtype, i * k, f.s, k);
        lib_put_all(v, x.t->dtype, i * right * x.n, b, right * x.n);
    }
    free(f.a);
    return status;
}

/* (x[..., m, n], atol?, rtol?) -> [..., n, m], Moore and Penrose's inverse: singular values up to the greater of atol
 * and rtol times the largest count as zeros; both are numbers, or one a matrix. rtol, if neither is given: the type's
 * precision times the greater of m and n. */
int tccrt_lib_pinv(struct tcc_lib_call *call)
{
    const struct tcc_tensor *least[2] = {NULL, NULL};
    struct lib_stack x;
    struct factors f;
    int status = lib_stack(call, 0, false, &x);
    void *y;

    for (int j = 0; !status && j < 2; j++)
        if (lib_has(call, j + 1) && !(status = lib_need(call, j + 1, -1, LIB_NUMBER, &least[j])) &&
            lib_count(least[j]) != 1 && lib_count(least[j]) != x.count)
            status = LIB_FAIL(call, "operand %d: one number, or one a matrix", j + 1);
    if (status)
        return status;
    if (!(y = lib_stack_out(call, 0, &x, x.t->dtype, 2, x.n, x.m)))
        return TCC_EENV;
    if (!factors_new(&f, x.m, x.n, 0))
        return LIB_NO_MEMORY(call);
    for (int64_t i = 0; !status && i < x.count; i++) {
        double bound[2] = {0, least[0] ? 0 : (x.t->dtype == TCC_F64 ? DBL_EPSILON : FLT_EPSILON) * (double)f.longer};
        const double *a = x.m < x.n ? f.v : f.u, *b = x.m < x.n ? f.u : f.v;
        int64_t wa = x.m < x.n ? f.k : f.longer, wb = x.m < x.n ? f.longer : f.k, rank = 0;

        for (int j = 0; j < 2; j++)
            bound[j] = least[j] ? lib_get(least[j], lib_count(least[j]) == 1 ? 0 : i) : bound[j];
        lib_stack_get(&x, i, f.a);
        if (!factor(&f, f.k)) {
            status = LIB_FAIL(call, "the matrix has elements that are not finite");
            break;
        }
        while (rank < f.k && f.s[rank] > fmax(bound[0], bound[1] * f.s[0]))
            rank++;
        for (int64_t j = 0; j < x.n * x.m; j++) {
            double sum = 0;

            for (int64_t c = 0; c < rank; c++)
                sum += b[c * wb + j / x.m] * a[c * wa + j % x.m] / f.s[c];
            lib_put(y, x.t->dtype, i * x.n * x.m + j, sum);
        }
    }
    free(f.a);
    return status;
}
