/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eigenvalues and eigenvectors of matrices that need not be symmetric, which are complex, and their gradient. In
 * doubles; Golub and Van Loan, Matrix Computations, 4th edition: balancing (7.5.7), Hessenberg's form (7.4.2), the QR
 * iteration with Francis's double shift (7.5.1, 7.5.2). Complex numbers are pairs along a last axis. Eigenvalues of
 * conjugate pairs are exact conjugates, real ones have an imaginary part of 0.
 */
#include <float.h>
#include <math.h>

#include "runtime/libop/linalg_int.h"

enum { MOST_STEPS = 100, EXCEPTIONAL = 10 }; /* QR steps for an eigenvalue: two or three are usual */

/* -- Complex numbers (the artifact has no functions of libgcc for C's own) ----------------------------------------- */

struct cx {
    double re, im;
};

static struct cx cx_mul(struct cx a, struct cx b)
{
    return (struct cx){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* a + b c */
static struct cx cx_more(struct cx a, struct cx b, struct cx c)
{
    struct cx p = cx_mul(b, c);

    return (struct cx){a.re + p.re, a.im + p.im};
}

/* a - b c */
static struct cx cx_less(struct cx a, struct cx b, struct cx c)
{
    struct cx p = cx_mul(b, c);

    return (struct cx){a.re - p.re, a.im - p.im};
}

static struct cx cx_conj(struct cx a)
{
    return (struct cx){a.re, -a.im};
}

/* Smith's way, which keeps squares from overflowing. */
static struct cx cx_div(struct cx a, struct cx b)
{
    bool wide = fabs(b.re) >= fabs(b.im);
    double r = wide ? b.im / b.re : b.re / b.im, d = wide ? b.re + b.im * r : b.re * r + b.im;

    return wide ? (struct cx){(a.re + a.im * r) / d, (a.im - a.re * r) / d}
                : (struct cx){(a.re * r + a.im) / d, (a.im * r - a.re) / d};
}

static double cx_abs(struct cx a)
{
    return hypot(a.re, a.im);
}

/* -- Schur's form -------------------------------------------------------------------------------------------------- */

/* a and its transformation q, both [m, m]: the matrix that was given is diag(scale) q a q' diag(scale)^-1, row i of it
 * standing in row place[i]. */
struct schur {
    int64_t m, *place;
    double *a, *q, *scale;
    struct cx *values, *t, *z; /* the eigenvalues, and the same form in complex numbers, triangular */
};

static void exchange(struct schur *s, int64_t i, int64_t j)
{
    int64_t m = s->m, place = s->place[i];

    for (int k = 0; k < 2; k++) /* rows, then columns */
        for (int64_t n = 0; n < m; n++) {
            double *x = s->a + (k ? n * m + i : i * m + n), *y = s->a + (k ? n * m + j : j * m + n), t = *x;

            *x = *y;
            *y = t;
        }
    s->place[i] = s->place[j];
    s->place[j] = place;
}

/* Are the elements of row (or column) i from lo to hi, but for the diagonal's, zeros? */
static bool alone(const struct schur *s, int64_t i, int64_t lo, int64_t hi, bool row)
{
    for (int64_t k = lo; k <= hi; k++)
        if (k != i && s->a[row ? i * s->m + k : k * s->m + i] != 0)
            return false;
    return true;
}

/* Eigenvalues that can be read off are moved out of the way, rows to the end and columns to the start, so that no
 * rounding reaches them (Parlett and Reinsch, Balancing a Matrix for Calculation of Eigenvalues and Eigenvectors,
 * 1969). */
static void isolate(struct schur *s)
{
    int64_t lo = 0, hi = s->m - 1;

    for (int64_t i = 0; i < s->m; i++)
        s->place[i] = i;
    for (int64_t i = hi; i >= 0; i--)
        if (alone(s, i, 0, hi, true)) {
            exchange(s, i, hi--);
            i = hi + 1;
        }
    for (int64_t i = 0; i <= hi; i++)
        if (alone(s, i, lo, hi, false)) {
            exchange(s, i, lo++);
            i = lo - 1;
        }
}

/* Rows and columns get norms of one size, by powers of two. */
static void balance(struct schur *s)
{
    int64_t m = s->m;
    bool changed = true;

    for (int64_t i = 0; i < m; i++)
        s->scale[i] = 1;
    while (changed) {
        changed = false;
        for (int64_t i = 0; i < m; i++) {
            double row = 0, column = 0, f = 1, both;

            for (int64_t k = 0; k < m; k++)
                if (k != i) {
                    row = hypot(row, s->a[i * m + k]);
                    column = hypot(column, s->a[k * m + i]);
                }
            if (row == 0 || column == 0)
                continue;
            both = row + column;
            for (; column < row / 2 && f < 0x1p500; f *= 2, column *= 2, row /= 2)
                continue;
            for (; column >= row * 2 && f > 0x1p-500; f /= 2, column /= 2, row *= 2)
                continue;
            if (row + column >= 0.95 * both)
                continue;
            changed = true;
            s->scale[i] *= f;
            for (int64_t k = 0; k < m; k++) {
                s->a[i * m + k] /= f;
                s->a[k * m + i] *= f;
            }
        }
    }
}

/* The reflection I - beta v v' of n = 2 or 3 rows, v[0] = 1, that turns x to a multiple of the first axis. */
struct mirror {
    double v[3], beta;
    int n;
};

static struct mirror mirror_of(const double *x, int n)
{
    struct mirror p = {{1, 0, 0}, 0, n};
    double tail = n == 3 ? hypot(x[1], x[2]) : fabs(x[1]), norm = hypot(x[0], tail), first;

    if (tail == 0)
        return p;
    first = x[0] + copysign(norm, x[0]);
    for (int k = 1; k < n; k++)
        p.v[k] = x[k] / first;
    p.beta = fabs(first) / norm;
    return p;
}

/* To n vectors of which it takes p->n elements each, `step` apart; the vectors lie `next` apart. */
static void reflect_all(const struct mirror *p, double *x, int64_t step, int64_t next, int64_t n)
{
    for (int64_t i = 0; i < n; i++, x += next) {
        double dot = 0;

        for (int k = 0; k < p->n; k++)
            dot += p->v[k] * x[k * step];
        for (int k = 0; k < p->n; k++)
            x[k * step] -= p->beta * dot * p->v[k];
    }
}

/* Zeros below the first subdiagonal, by rotations of neighbouring rows from below. */
static void hessenberg(struct schur *s)
{
    int64_t m = s->m;

    for (int64_t i = 0; i < m * m; i++)
        s->q[i] = i / m == i % m;
    for (int64_t c = 0; c + 2 < m; c++)
        for (int64_t r = m - 1; r > c + 1; r--) {
            struct mirror p = mirror_of((const double[]){s->a[(r - 1) * m + c], s->a[r * m + c]}, 2);

            if (p.beta == 0)
                continue;
            reflect_all(&p, s->a + (r - 1) * m + c, m, 1, m - c);
            reflect_all(&p, s->a + r - 1, 1, m, m);
            reflect_all(&p, s->q + r - 1, 1, m, m);
            s->a[r * m + c] = 0;
        }
}

/* A step of the QR iteration on rows and columns lo to hi, three at least. */
static void francis(struct schur *s, int64_t lo, int64_t hi, int step)
{
    int64_t m = s->m;
    double *a = s->a, sum = a[(hi - 1) * m + hi - 1] + a[hi * m + hi],
           product = a[(hi - 1) * m + hi - 1] * a[hi * m + hi] - a[(hi - 1) * m + hi] * a[hi * m + hi - 1], x[3];

    if (step % EXCEPTIONAL == 0) { /* another shift, which breaks cycles (EISPACK's hqr) */
        sum = fabs(a[hi * m + hi - 1]) + fabs(a[(hi - 1) * m + hi - 2]);
        product = sum * sum;
        sum *= 1.5;
    }
    x[0] = a[lo * m + lo] * a[lo * m + lo] + a[lo * m + lo + 1] * a[(lo + 1) * m + lo] - sum * a[lo * m + lo] + product;
    x[1] = a[(lo + 1) * m + lo] * (a[lo * m + lo] + a[(lo + 1) * m + lo + 1] - sum);
    x[2] = a[(lo + 1) * m + lo] * a[(lo + 2) * m + lo + 1];
    for (int64_t k = lo; k < hi; k++) {
        int n = hi - k >= 2 ? 3 : 2;
        struct mirror p = mirror_of(x, n);
        int64_t left = k > lo ? k - 1 : lo, low = k + 3 < hi ? k + 3 : hi;

        reflect_all(&p, a + k * m + left, m, 1, m - left);
        reflect_all(&p, a + k, 1, m, low + 1);
        reflect_all(&p, s->q + k, 1, m, m);
        for (int j = 1; k > lo && j < n; j++)
            a[(k + j) * m + k - 1] = 0;
        for (int j = 0; j < 3 && k + 1 + j <= hi; j++)
            x[j] = a[(k + 1 + j) * m + k];
    }
}

/* Blocks of one and two rows on the diagonal are left. False: no end was found. */
static bool iterate(struct schur *s)
{
    int64_t m = s->m;
    int step = 0;

    for (int64_t hi = m - 1, lo; hi > 0;) {
        for (lo = hi; lo > 0; lo--) {
            double *below = &s->a[lo * m + lo - 1],
                   beside = fabs(s->a[(lo - 1) * m + lo - 1]) + fabs(s->a[lo * m + lo]);

            if (fabs(*below) <= DBL_EPSILON * beside || fabs(*below) < DBL_MIN) {
                *below = 0;
                break;
            }
        }
        if (hi - lo < 2) {
            hi -= hi - lo + 1;
            step = 0;
        } else if (++step > MOST_STEPS) {
            return false;
        } else {
            francis(s, lo, hi, step);
        }
    }
    return true;
}

/* The eigenvalues of rows k and k + 1: of a conjugate pair the one above the real axis first. */
static void pair(struct schur *s, int64_t k)
{
    const double *a = s->a + k * s->m + k;
    double b = a[1], c = a[s->m], d = a[s->m + 1], half = (a[0] - d) / 2, root = half * half + b * c;

    if (root < 0) {
        s->values[k] = (struct cx){d + half, sqrt(-root)};
        s->values[k + 1] = cx_conj(s->values[k]);
        return;
    }
    half += copysign(sqrt(root), half);
    s->values[k] = (struct cx){d + half, 0};
    s->values[k + 1] = (struct cx){half != 0 ? d - b * c / half : d, 0};
}

/* n pairs of elements, `step` apart; the pairs lie `next` apart. */
static void turn(struct cx *x, int64_t step, int64_t n, int64_t next, struct cx c, double sine)
{
    for (int64_t i = 0; i < n; i++, x += next) {
        struct cx u = cx_mul(x[0], c), w = cx_mul(x[step], cx_conj(c)), old = x[0];

        x[0] = (struct cx){u.re + sine * x[step].re, u.im + sine * x[step].im};
        x[step] = (struct cx){w.re - sine * old.re, w.im - sine * old.im};
    }
}

/* The blocks of two become triangles, whose rows and columns k and k + 1 are turned. */
static void triangles(struct schur *s)
{
    int64_t m = s->m;

    for (int64_t i = 0; i < m * m; i++) {
        s->t[i] = (struct cx){s->a[i], 0};
        s->z[i] = (struct cx){s->q[i], 0};
    }
    for (int64_t k = 0; k < m; k++)
        s->values[k] = s->t[k * m + k];
    for (int64_t k = m - 2; k >= 0; k--) {
        double below = s->a[(k + 1) * m + k];
        struct cx first, c, *t = s->t, *z = s->z;

        if (below == 0)
            continue;
        pair(s, k);
        first = (struct cx){s->values[k].re - s->a[(k + 1) * m + k + 1], s->values[k].im};
        double norm = hypot(cx_abs(first), below), sine = below / norm;
        c = (struct cx){first.re / norm, first.im / norm};
        turn(t + k * m + k, m, m - k, 1, cx_conj(c), sine);
        turn(t + k, 1, k + 2, m, c, sine);
        turn(z + k, 1, m, m, c, sine);
        t[(k + 1) * m + k] = (struct cx){0, 0};
        t[k * m + k] = s->values[k];
        t[(k + 1) * m + k + 1] = s->values[k + 1];
    }
}

/* -- Eigenvectors -------------------------------------------------------------------------------------------------- */

/* v becomes the unit vector whose largest element is real. */
static void normalise(struct cx *v, int64_t m, bool real)
{
    double most = 0, norm = 0;
    struct cx turn = {1, 0};

    for (int64_t i = 0; i < m; i++)
        most = fmax(most, fmax(fabs(v[i].re), fabs(v[i].im)));
    for (int64_t i = 0; most > 0 && i < m; i++) {
        v[i] = (struct cx){v[i].re / most, real ? 0 : v[i].im / most};
        norm = hypot(norm, cx_abs(v[i]));
    }
    for (int64_t i = 0, best = -1; !real && i < m; i++)
        if (best < 0 || cx_abs(v[i]) > cx_abs(v[best])) {
            best = i;
            turn = cx_conj(v[i]);
        }
    double size = cx_abs(turn) * norm;
    for (int64_t i = 0; size > 0 && i < m; i++) {
        v[i] = cx_mul(v[i], turn);
        v[i] = (struct cx){v[i].re / size, v[i].im / size};
    }
}

/* Eigenvector k in v, by way of x [m]; the triangle's equations from the last row up. */
static void eigenvector(const struct schur *s, int64_t k, double least, struct cx *x, struct cx *v)
{
    int64_t m = s->m;

    x[k] = (struct cx){1, 0};
    for (int64_t i = k - 1; i >= 0; i--) {
        struct cx sum = {0, 0}, gap = {s->values[k].re - s->values[i].re, s->values[k].im - s->values[i].im};
        double size;

        for (int64_t j = i + 1; j <= k; j++)
            sum = cx_more(sum, s->t[i * m + j], x[j]);
        if (cx_abs(gap) < least)
            gap = (struct cx){least, 0};
        x[i] = cx_div(sum, gap);
        size = cx_abs(x[i]);
        for (int64_t j = i; size > 1e100 && j <= k; j++)
            x[j] = (struct cx){x[j].re / size, x[j].im / size};
    }
    for (int64_t i = 0; i < m; i++) {
        struct cx sum = {0, 0};

        for (int64_t j = 0; j <= k; j++)
            sum = cx_more(sum, s->z[i * m + j], x[j]);
        v[s->place[i]] = (struct cx){sum.re * s->scale[i], sum.im * s->scale[i]};
    }
    normalise(v, m, s->values[k].im == 0);
}

/* Of s->a; a column of v [m, m] each. False: the iteration found no end. */
static bool decompose(struct schur *s, struct cx *v, struct cx *x)
{
    int64_t m = s->m;
    double most = 0;

    isolate(s);
    balance(s);
    hessenberg(s);
    if (!iterate(s))
        return false;
    triangles(s);
    for (int64_t i = 0; i < m * m; i++)
        most = fmax(most, cx_abs(s->t[i]));
    for (int64_t k = 0; k < m; k++) {
        struct cx *column = x + m;
        bool second = k && s->values[k].im < 0; /* the first of the pair has its conjugate */

        if (!second)
            eigenvector(s, k, fmax(DBL_EPSILON * most, DBL_MIN), x, column);
        for (int64_t i = 0; i < m; i++)
            v[i * m + k] = second ? cx_conj(column[i]) : column[i];
    }
    return true;
}

/* x[..., m, m] -> eigenvalues [..., m, 2], eigenvectors [..., m, m, 2], a column each */
int tccrt_lib_eig(struct tcc_lib_call *call)
{
    struct lib_stack x;
    int status = lib_stack(call, 0, true, &x);
    int64_t m = x.m, n = m * m, dims[TCC_MAX_RANK];
    int lead = status ? 0 : (int)x.t->rank - 2;
    void *values, *vectors;
    double *room;

    if (status)
        return status;
    if (lead + 3 > TCC_MAX_RANK)
        return LIB_FAIL(call, "matrices of %d dims", lead + 2);
    memcpy(dims, x.t->dims, (size_t)(lead + 2) * sizeof *dims);
    dims[lead + 2] = 2;
    vectors = lib_out(call, 1, x.t->dtype, lead + 3, dims);
    dims[lead + 1] = 2;
    values = vectors ? lib_out(call, 0, x.t->dtype, lead + 2, dims) : NULL;
    if (!values)
        return TCC_EENV;
    if (!(room = lib_doubles(8 * n + 8 * m, 1)))
        return LIB_NO_MEMORY(call);
    struct cx *complexes = (struct cx *)(room + 2 * n + m);
    struct schur s = {m, NULL, room, room + n, room + 2 * n, complexes, complexes + m, complexes + m + n};
    struct cx *v = s.z + n;
    s.place = (int64_t *)(v + n + 2 * m);
    for (int64_t i = 0; !status && i < x.count; i++) {
        double scale;

        lib_stack_get(&x, i, s.a);
        scale = lib_scale_of(s.a, n);
        for (int64_t k = 0; scale > 0 && k < n; k++)
            s.a[k] /= scale;
        if (isnan(scale))
            status = LIB_FAIL(call, "the matrix has elements that are not finite");
        else if (!decompose(&s, v, v + n))
            status = LIB_FAIL(call, "the eigenvalues of matrix %lld were not found", (long long)i);
        for (int64_t k = 0; !status && k < m; k++)
            s.values[k] = (struct cx){s.values[k].re * scale, s.values[k].im * scale};
        if (!status) {
            lib_put_all(values, x.t->dtype, i * m * 2, &s.values->re, m * 2);
            lib_put_all(vectors, x.t->dtype, i * n * 2, &v->re, n * 2);
        }
    }
    free(room);
    return status;
}

/* -- Their gradient ------------------------------------------------------------------------------------------------ */

/* a x = b for b [m, m], which x replaces; a is destroyed. False: a is singular. */
static bool solve(struct cx *a, struct cx *b, int64_t m)
{
    for (int64_t c = 0; c < m; c++) {
        int64_t best = c;

        for (int64_t r = c + 1; r < m; r++)
            best = cx_abs(a[r * m + c]) > cx_abs(a[best * m + c]) ? r : best;
        if (cx_abs(a[best * m + c]) == 0)
            return false;
        for (int64_t k = 0; best != c && k < m; k++) {
            struct cx t = a[c * m + k], u = b[c * m + k];

            a[c * m + k] = a[best * m + k];
            a[best * m + k] = t;
            b[c * m + k] = b[best * m + k];
            b[best * m + k] = u;
        }
        for (int64_t r = 0; r < m; r++) {
            struct cx f = cx_div(a[r * m + c], a[c * m + c]);

            for (int64_t k = 0; r != c && k < m; k++) {
                if (k >= c)
                    a[r * m + k] = cx_less(a[r * m + k], f, a[c * m + k]);
                b[r * m + k] = cx_less(b[r * m + k], f, b[c * m + k]);
            }
        }
    }
    for (int64_t i = 0; i < m * m; i++)
        b[i] = cx_div(b[i], a[i / m * m + i / m]);
    return true;
}

/* y = a' b, a' the conjugate transposed */
static void times(const struct cx *a, const struct cx *b, int64_t m, struct cx *y)
{
    for (int64_t i = 0; i < m * m; i++) {
        struct cx sum = {0, 0};

        for (int64_t k = 0; k < m; k++)
            sum = cx_more(sum, cx_conj(a[k * m + i / m]), b[k * m + i % m]);
        y[i] = sum;
    }
}

/* Boeddeker et al., On the Computation of Complex-valued Gradients with Application to Statistically Optimum
 * Beamforming (2017), 4.77, for vectors of length 1 (as PyTorch): with p = v' dv, v'^-1 ((p - v'v Re(diag p)) / (w_j -
 * w_i)* + diag(dw)) v', of which y takes the real part. room: 3 m m. False: v is singular. */
static bool slope(const struct cx *w, const struct cx *v, const struct cx *dw, const struct cx *dv, int64_t m,
                  struct cx *room, double *y)
{
    struct cx *core = room, *other = core + m * m, *turned = other + m * m;

    times(v, dv, m, core);
    times(v, v, m, other);
    for (int64_t k = 0; k < m * m; k++)
        turned[k].re = core[k % m * m + k % m].re;
    for (int64_t k = 0; k < m * m; k++) {
        int64_t i = k / m, j = k % m;
        struct cx less = {core[k].re - other[k].re * turned[k].re, core[k].im - other[k].im * turned[k].re};

        other[k] = i == j ? dw[i] : cx_div(less, (struct cx){w[j].re - w[i].re, w[i].im - w[j].im});
    }
    for (int64_t k = 0; k < m * m; k++) { /* the core times v' */
        struct cx sum = {0, 0};

        for (int64_t j = 0; j < m; j++)
            sum = cx_more(sum, other[k / m * m + j], cx_conj(v[k % m * m + j]));
        core[k] = sum;
    }
    for (int64_t k = 0; k < m * m; k++)
        turned[k] = cx_conj(v[k % m * m + k / m]);
    if (!solve(turned, core, m))
        return false;
    for (int64_t k = 0; k < m * m; k++)
        y[k] = core[k].re;
    return true;
}

/* (w[..., m, 2], v[..., m, m, 2], dw, dv): the gradient [..., m, m] of the matrix that eig had */
int tccrt_lib_eig_grad(struct tcc_lib_call *call)
{
    const struct tcc_tensor *in[4];
    int status = 0, rank;
    int64_t m, count;
    double *room;
    void *y;

    for (int k = 0; k < 4; k++)
        if ((status = lib_need(call, k, -1, LIB_NUMBER, &in[k])))
            return status;
    rank = (int)in[1]->rank;
    if (rank < 3 || in[1]->dims[rank - 1] != 2 || in[1]->dims[rank - 2] != in[1]->dims[rank - 3])
        return LIB_FAIL(call, "operand 1 holds no eigenvectors");
    m = in[1]->dims[rank - 2];
    count = lib_product(rank - 3, in[1]->dims);
    for (int k = 0; k < 4; k++)
        if (lib_count(in[k]) != count * m * 2 * (k % 2 ? m : 1))
            return LIB_FAIL(call, "operand %d has %lld elements", k, (long long)lib_count(in[k]));
    if (!(y = lib_out(call, 0, in[1]->dtype, rank - 1, in[1]->dims)))
        return TCC_EENV;
    if (!(room = lib_doubles(11 * m * m + 4 * m, 1)))
        return LIB_NO_MEMORY(call);
    struct cx *each[4] = {(struct cx *)room, (struct cx *)room + m, (struct cx *)room + m + m * m,
                          (struct cx *)room + 2 * m + m * m};
    for (int64_t i = 0; !status && i < count; i++) {
        for (int k = 0; k < 4; k++)
            for (int64_t j = 0, n = m * 2 * (k % 2 ? m : 1); j < n; j++)
                (&each[k]->re)[j] = lib_get(in[k], i * n + j);
        double *made = &each[3][m * m].re;
        if (slope(each[0], each[1], each[2], each[3], m, (struct cx *)(made + m * m), made))
            lib_put_all(y, in[1]->dtype, i * m * m, made, m * m);
        else
            status = LIB_FAIL(call, "the eigenvectors of matrix %lld depend on each other: no gradient", (long long)i);
    }
    free(room);
    return status;
}
