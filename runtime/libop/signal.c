/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fourier transforms (dft, stft) of any length. In doubles: powers of two by the iterative radix-2 algorithm
 * of Cooley and Tukey, other lengths by Bluestein's, which turns them into a convolution of such a length.
 */
#include <math.h>

#include "runtime/libop/libop_int.h"

#ifndef M_PI
#define M_PI 3.14159265358979323846
#endif
#ifndef M_LN10
#define M_LN10 2.30258509299404568402
#endif

/* A transform of length n, with tables: `m` is n, or for Bluestein a power of two of at least 2n - 1. */
struct plan {
    int64_t n, m;
    bool direct;    /* n is a power of two */
    double *root;   /* m pairs: exp(-2 pi i k / m) */
    double *chirp;  /* n pairs: exp(-pi i k^2 / n) */
    double *filter; /* m pairs: transform of the conjugate chirp */
    double *work;   /* m pairs */
};

static void unit(double *to, double turn)
{
    to[0] = cos(2 * M_PI * turn);
    to[1] = -sin(2 * M_PI * turn);
}

static void multiply(double *a, const double *b)
{
    double re = a[0] * b[0] - a[1] * b[1];

    a[1] = a[0] * b[1] + a[1] * b[0];
    a[0] = re;
}

/* In place, length m (a power of two). */
static void radix2(const struct plan *p, double *x)
{
    for (int64_t i = 1, j = 0; i < p->m; i++) {
        int64_t bit = p->m >> 1;

        for (; j & bit; bit >>= 1)
            j ^= bit;
        j |= bit;
        if (i < j) {
            for (int k = 0; k < 2; k++) {
                double t = x[2 * i + k];

                x[2 * i + k] = x[2 * j + k];
                x[2 * j + k] = t;
            }
        }
    }
    for (int64_t half = 1; half < p->m; half *= 2) {
        for (int64_t i = 0; i < p->m; i += 2 * half) {
            for (int64_t k = 0; k < half; k++) {
                double *a = x + 2 * (i + k), *b = a + 2 * half, t[2] = {b[0], b[1]};

                multiply(t, p->root + 2 * (k * (p->m / (2 * half))));
                b[0] = a[0] - t[0];
                b[1] = a[1] - t[1];
                a[0] += t[0];
                a[1] += t[1];
            }
        }
    }
}

static bool make_plan(struct plan *p, int64_t n)
{
    double *room;

    *p = (struct plan){.n = n, .m = 1};
    p->direct = (n & (n - 1)) == 0;
    while (p->m < (p->direct ? n : 2 * n - 1))
        p->m *= 2;
    room = calloc((size_t)(p->m * 3 + n) * 2, sizeof *room);
    if (!room)
        return false;
    p->root = room;
    p->filter = room + 2 * p->m;
    p->work = room + 4 * p->m;
    p->chirp = room + 6 * p->m;
    for (int64_t k = 0; k < p->m; k++)
        unit(p->root + 2 * k, (double)k / (double)p->m);
    for (int64_t k = 0; !p->direct && k < n; k++) {
        double *c = p->chirp + 2 * k;

        unit(c, (double)(k * k % (2 * n)) / (2 * (double)n));
        p->filter[2 * k] = c[0];
        p->filter[2 * k + 1] = -c[1];
        if (k) {
            p->filter[2 * (p->m - k)] = c[0];
            p->filter[2 * (p->m - k) + 1] = -c[1];
        }
    }
    if (!p->direct)
        radix2(p, p->filter);
    return true;
}

/* x[k] = sum of x[j] exp(-2 pi i j k / n), in place. */
static void forward(const struct plan *p, double *x)
{
    if (p->direct) {
        radix2(p, x);
        return;
    }
    memset(p->work, 0, (size_t)p->m * 2 * sizeof *x);
    memcpy(p->work, x, (size_t)p->n * 2 * sizeof *x);
    for (int64_t k = 0; k < p->n; k++)
        multiply(p->work + 2 * k, p->chirp + 2 * k);
    radix2(p, p->work);
    for (int64_t k = 0; k < p->m; k++) {
        multiply(p->work + 2 * k, p->filter + 2 * k);
        p->work[2 * k + 1] = -p->work[2 * k + 1]; /* conjugate: the inverse by a forward transform */
    }
    radix2(p, p->work);
    for (int64_t k = 0; k < p->n; k++) {
        x[2 * k] = p->work[2 * k] / (double)p->m;
        x[2 * k + 1] = -p->work[2 * k + 1] / (double)p->m;
        multiply(x + 2 * k, p->chirp + 2 * k);
    }
}

static void inverse(const struct plan *p, double *x)
{
    for (int64_t k = 0; k < p->n; k++)
        x[2 * k + 1] = -x[2 * k + 1];
    forward(p, x);
    for (int64_t k = 0; k < p->n; k++) {
        x[2 * k] /= (double)p->n;
        x[2 * k + 1] /= -(double)p->n;
    }
}

/* -- dft ------------------------------------------------------------------------------------------------------- */

struct dft {
    const struct tcc_tensor *x;
    void *y;
    int64_t outer, inner, from, to;
    int parts, out_parts;
    bool inverse, onesided;
};

/* One line of the tensor through `line` (n pairs). */
static void transform_line(const struct dft *d, const struct plan *p, int64_t o, int64_t i, double *line)
{
    int64_t have = d->from < p->n ? d->from : p->n;

    memset(line, 0, (size_t)p->n * 2 * sizeof *line);
    if (d->inverse && d->onesided)
        have = have < p->n / 2 + 1 ? have : p->n / 2 + 1;
    for (int64_t k = 0; k < have; k++)
        for (int c = 0; c < d->parts; c++)
            line[2 * k + c] = lib_get(d->x, ((o * d->from + k) * d->inner + i) * d->parts + c);
    if (d->inverse && d->onesided) {
        line[1] = 0;
        if (p->n % 2 == 0)
            line[p->n + 1] = 0;
        for (int64_t k = 1; k < (p->n + 1) / 2; k++) {
            line[2 * (p->n - k)] = line[2 * k];
            line[2 * (p->n - k) + 1] = -line[2 * k + 1];
        }
    }
    (d->inverse ? inverse : forward)(p, line);
    for (int64_t k = 0; k < d->to; k++)
        for (int c = 0; c < d->out_parts; c++)
            lib_put(d->y, d->x->dtype, ((o * d->to + k) * d->inner + i) * d->out_parts + c, line[2 * k + c]);
}

/* (x[..., 1 or 2], dft_length?, axis?) attrs axis, inverse, onesided. The last axis holds real and imaginary parts. A
 * one-sided transform keeps the first n / 2 + 1 results; a one-sided inverse takes those and gives real values. */
int tccrt_lib_dft(struct tcc_lib_call *call)
{
    const struct tcc_tensor *length = lib_in(call, 1), *at = lib_in(call, 2);
    struct dft d = {.inverse = lib_int(call, "inverse", 0) != 0, .onesided = lib_int(call, "onesided", 0) != 0};
    int64_t dims[TCC_MAX_RANK], n;
    struct plan p;
    double *line;
    int axis, rank, status = lib_need(call, 0, -1, LIB_NUMBER, &d.x);

    if (status)
        return status;
    rank = d.x->rank;
    axis = lib_axis(lib_int(call, "axis", at && lib_count(at) ? lib_get_int(at, 0) : -2), rank);
    if (rank < 2 || axis < 0 || axis == rank - 1 || d.x->dims[rank - 1] < 1 || d.x->dims[rank - 1] > 2)
        return LIB_FAIL(call, "x must be [..., 1 or 2], and the axis not its last");
    d.parts = (int)d.x->dims[rank - 1];
    d.out_parts = d.inverse && d.onesided ? 1 : 2;
    d.from = d.x->dims[axis];
    n = length && lib_count(length) ? lib_get_int(length, 0) : d.inverse && d.onesided ? 2 * (d.from - 1) : d.from;
    if (n < 1 || n > (int64_t)1 << 32)
        return LIB_FAIL(call, "a transform of length %lld is not possible", (long long)n);
    d.to = d.onesided && !d.inverse ? n / 2 + 1 : n;
    d.outer = lib_product(axis, d.x->dims);
    d.inner = lib_product(rank - axis - 2, d.x->dims + axis + 1);
    memcpy(dims, d.x->dims, sizeof dims);
    dims[axis] = d.to;
    dims[rank - 1] = d.out_parts;
    if (!(d.y = lib_out(call, 0, d.x->dtype, rank, dims)))
        return TCC_EENV;
    if (!make_plan(&p, n))
        return LIB_NO_MEMORY(call);
    if (!(line = malloc((size_t)n * 2 * sizeof *line))) {
        free(p.root);
        return LIB_NO_MEMORY(call);
    }
    for (int64_t o = 0; o < d.outer; o++)
        for (int64_t i = 0; i < d.inner; i++)
            transform_line(&d, &p, o, i, line);
    free(line);
    free(p.root);
    return TCC_OK;
}

/* -- stft ------------------------------------------------------------------------------------------------------- */

struct stft {
    const struct tcc_tensor *x, *window;
    int64_t step, n, frames, bins;
    int parts;
};

static int read_stft(struct tcc_lib_call *call, struct stft *s)
{
    const struct tcc_tensor *step, *length = lib_in(call, 3);
    int status;

    if ((status = lib_need(call, 0, -1, LIB_NUMBER, &s->x)) || (status = lib_need(call, 1, -1, LIB_NUMBER, &step)))
        return status;
    s->window = lib_in(call, 2);
    s->parts = s->x->rank == 3 ? (int)s->x->dims[2] : 1;
    s->step = lib_count(step) ? lib_get_int(step, 0) : 0;
    if (s->x->rank < 2 || s->x->rank > 3 || s->parts < 1 || s->parts > 2 || s->step < 1)
        return LIB_FAIL(call, "signal must be [batch, length, 1 or 2] and frame_step positive");
    s->n = length && lib_count(length) ? lib_get_int(length, 0) : s->window ? lib_count(s->window) : s->x->dims[1];
    if (s->n < 1 || s->n > s->x->dims[1])
        return LIB_FAIL(call, "frame length %lld does not fit a signal of length %lld", (long long)s->n,
                        (long long)s->x->dims[1]);
    if (s->window && lib_count(s->window) > s->n)
        return LIB_FAIL(call, "the window is longer than a frame");
    s->frames = 1 + (s->x->dims[1] - s->n) / s->step;
    s->bins = lib_int(call, "onesided", 1) && s->parts == 1 ? s->n / 2 + 1 : s->n;
    return TCC_OK;
}

/* (signal[b, length, 1 or 2], frame_step, window?, frame_length?) attr onesided (default 1) -> [b, frames, bins, 2] */
int tccrt_lib_stft(struct tcc_lib_call *call)
{
    struct stft s;
    struct plan p;
    int64_t dims[4], width;
    double *line;
    void *y;
    int status = read_stft(call, &s);

    if (status)
        return status;
    memcpy(dims, (int64_t[4]){s.x->dims[0], s.frames, s.bins, 2}, sizeof dims);
    if (!(y = lib_out(call, 0, s.x->dtype, 4, dims)))
        return TCC_EENV;
    if (!make_plan(&p, s.n))
        return LIB_NO_MEMORY(call);
    if (!(line = malloc((size_t)s.n * 2 * sizeof *line))) {
        free(p.root);
        return LIB_NO_MEMORY(call);
    }
    width = s.window ? lib_count(s.window) : s.n;
    for (int64_t f = 0; f < dims[0] * s.frames; f++) {
        int64_t start = f / s.frames * s.x->dims[1] + f % s.frames * s.step;

        memset(line, 0, (size_t)s.n * 2 * sizeof *line);
        for (int64_t k = 0; k < width; k++)
            for (int c = 0; c < s.parts; c++)
                line[2 * k + c] = lib_get(s.x, (start + k) * s.parts + c) * (s.window ? lib_get(s.window, k) : 1);
        forward(&p, line);
        for (int64_t k = 0; k < s.bins * 2; k++)
            lib_put(y, s.x->dtype, f * s.bins * 2 + k, line[k]);
    }
    free(line);
    free(p.root);
    return TCC_OK;
}

/* -- Mel weights ------------------------------------------------------------------------------------------------ */

/* Operand i, one number. */
static int read_number(struct tcc_lib_call *call, int i, double *v)
{
    const struct tcc_tensor *t;
    int status = lib_need(call, i, -1, LIB_NUMBER, &t);

    if (status)
        return status;
    if (lib_count(t) != 1)
        return LIB_FAIL(call, "operand %d must be one number", i);
    *v = lib_get(t, 0);
    return TCC_OK;
}

/* Triangles over [bins, nmel], of column i between the bins edge[i], edge[i + 1] and edge[i + 2]; where two of them
 * fall on one bin, as ONNX's reference has it. */
static void draw_triangles(void *y, int dtype, const int64_t *edge, int64_t bins, int64_t nmel)
{
    for (int64_t i = 0; i < nmel; i++) {
        int64_t lower = edge[i], center = edge[i + 1], upper = edge[i + 2];

        for (int64_t j = lower; j <= center && j < bins; j++)
            lib_put(y, dtype, j * nmel + i, center == lower ? 1 : (double)(j - lower) / (double)(center - lower));
        for (int64_t j = center; j < upper && j < bins; j++)
            lib_put(y, dtype, j * nmel + i, (double)(upper - j) / (double)(upper - center));
    }
}

/* (num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz) -> [dft_length / 2 + 1, num_mel_bins] */
int tccrt_lib_mel_weight_matrix(struct tcc_lib_call *call)
{
    int dtype = (int)lib_int(call, "output_datatype", TCC_F32), status;
    double in[5], low, high;
    int64_t dims[2], *edge;
    void *y;

    for (int i = 0; i < 5; i++)
        if ((status = read_number(call, i, &in[i])))
            return status;
    if (!(in[0] >= 0 && in[0] < 0x1p30 && in[1] >= 0 && in[1] < 0x1p30 && in[2] > 0 && in[3] >= 0 && in[4] >= in[3]))
        return LIB_FAIL(call, "%g mel bins, a transform of %g, %g samples a second, from %g to %g Hz are not possible",
                        in[0], in[1], in[2], in[3], in[4]);
    dims[0] = (int64_t)in[1] / 2 + 1;
    dims[1] = (int64_t)in[0];
    if (!(y = lib_out(call, 0, dtype, 2, dims)))
        return TCC_EENV;
    edge = malloc((size_t)(dims[1] + 2) * sizeof *edge);
    if (!edge)
        return LIB_NO_MEMORY(call);
    low = 2595 / M_LN10 * log1p(in[3] / 700);
    high = 2595 / M_LN10 * log1p(in[4] / 700);
    for (int64_t i = 0; i < dims[1] + 2; i++) {
        double mel = (double)i * (high - low) / (double)(dims[1] + 2) + low, hertz = 700 * expm1(mel / 2595 * M_LN10);

        edge[i] = (int64_t)fmin(floor((in[1] + 1) * hertz / in[2]), 0x1p40);
    }
    for (int64_t i = 0; i < dims[0] * dims[1]; i++)
        lib_put(y, dtype, i, 0);
    draw_triangles(y, dtype, edge, dims[0], dims[1]);
    free(edge);
    return TCC_OK;
}
