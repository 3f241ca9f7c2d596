/* SPDX-License-Identifier: Apache-2.0 */
/* Library ops that read images at fractional positions: grid_sample, affine_grid, roialign, deform_conv. In doubles. */
#include <math.h>

#include "runtime/libop/libop_int.h"

/* -- grid_sample -------------------------------------------------------------------------------------------------- */

enum padding { ZEROS, BORDER, REFLECTION };
enum sampling { NEAREST, LINEAR, CUBIC };

struct sampler {
    enum padding padding;
    enum sampling mode;
    bool align, narrow; /* narrow: positions are rounded to f32 */
    int nd;             /* spatial dims */
    const int64_t *dims;
    const struct tcc_tensor *x;
    int64_t plane; /* first element of the plane that is read */
};

/* Back and forth between lo and hi. */
static double reflect(double v, double lo, double hi)
{
    double range = hi - lo, d, r;
    bool over = v > hi;

    if (v >= lo && v <= hi)
        return v;
    if (range <= 0)
        return lo;
    d = over ? v - hi : lo - v;
    r = fmod(d, range);
    return fmod(trunc(d / range), 2) == 0 ? (over ? hi - r : lo + r) : (over ? lo + r : hi - r);
}

/* Element index along an axis for tap i, or -1: it reads as 0. */
static int64_t tap_index(const struct sampler *s, int axis, double i)
{
    double n = (double)s->dims[axis];

    if (s->padding == REFLECTION)
        i = trunc(reflect(i, s->align ? 0 : -0.5, s->align ? n - 1 : n - 0.5));
    else if (s->padding == ZEROS && (i < 0 || i >= n))
        return -1;
    i = fmin(fmax(i, 0), n - 1);
    return (int64_t)i;
}

static void cubic_weights(double t, double *w)
{
    const double a = -0.75;

    w[0] = ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a;
    w[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
    w[2] = ((a + 2) * (1 - t) - (a + 3)) * (1 - t) * (1 - t) + 1;
    w[3] = ((a * (2 - t) - 5 * a) * (2 - t) + 8 * a) * (2 - t) - 4 * a;
}

/* Interpolates over the axes from `axis` on; `at` is the element reached by the axes before. */
static double sample_axes(const struct sampler *s, int axis, int64_t at, const double *x)
{
    double w[4] = {1}, first, sum = 0;
    int taps = s->mode == NEAREST ? 1 : s->mode == LINEAR ? 2 : 4;

    if (axis == s->nd)
        return lib_get(s->x, s->plane + at);
    first = s->mode == NEAREST ? x[axis] : floor(x[axis]);
    if (s->mode == LINEAR) {
        w[1] = x[axis] - first;
        w[0] = 1 - w[1];
    } else if (s->mode == CUBIC) {
        cubic_weights(x[axis] - first, w);
        first -= 1;
    }
    for (int k = 0; k < taps; k++) {
        int64_t i = w[k] == 0 ? -1 : tap_index(s, axis, first + k);

        if (i >= 0)
            sum += w[k] * sample_axes(s, axis + 1, at * s->dims[axis] + i, x);
    }
    return sum;
}

/* From [-1, 1] to elements; positions outside are brought in as the padding says. A border's cubic ones are not, only
 * their taps are: what ONNX Runtime and PyTorch do. */
static double position(const struct sampler *s, int axis, double v)
{
    double n = (double)s->dims[axis], lo = s->align ? 0 : -0.5, hi = s->align ? n - 1 : n - 0.5;

    v = s->align ? (v + 1) / 2 * (n - 1) : ((v + 1) * n - 1) / 2;
    if (s->narrow)
        v = (float)v;
    if (isnan(v))
        v = s->padding == ZEROS ? -100 : 0;
    if (s->mode == NEAREST)
        v = nearbyint(v);
    if (v < lo || v > hi) {
        if (s->padding == BORDER && s->mode != CUBIC)
            v = fmin(fmax(v, 0), n - 1);
        else if (s->padding == REFLECTION)
            v = reflect(v, lo, hi);
    }
    return s->mode == NEAREST ? trunc(v) : v;
}

static int read_sampler(struct tcc_lib_call *call, struct sampler *s)
{
    const char *mode = lib_text(call, "mode", "linear"), *padding = lib_text(call, "padding_mode", "zeros");

    s->align = lib_int(call, "align_corners", 0) != 0;
    s->mode = strstr(mode, "linear") ? LINEAR : strstr(mode, "cubic") ? CUBIC : NEAREST;
    s->padding = strcmp(padding, "border") == 0 ? BORDER : strcmp(padding, "reflection") == 0 ? REFLECTION : ZEROS;
    if ((s->mode == NEAREST && strcmp(mode, "nearest") != 0) || (s->padding == ZEROS && strcmp(padding, "zeros") != 0))
        return LIB_FAIL(call, "mode '%s' with padding '%s' is not known", mode, padding);
    return TCC_OK;
}

/* (x[n, c, d1...dr], grid[n, e1...er, r]) -> y[n, c, e1...er]; the grid's last axis counts dims from the last. */
int tccrt_lib_grid_sample(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x, *grid;
    int64_t dims[TCC_MAX_RANK], points, plane;
    struct sampler s;
    void *y;
    int status;

    if ((status = lib_need(call, 0, -1, LIB_NUMBER, &x)) || (status = lib_need(call, 1, x->rank, LIB_NUMBER, &grid)) ||
        (status = read_sampler(call, &s)))
        return status;
    s.nd = x->rank - 2;
    s.dims = x->dims + 2;
    s.x = x;
    s.narrow = grid->dtype != TCC_F64;
    if (s.nd < 1 || grid->dims[0] != x->dims[0] || grid->dims[x->rank - 1] != s.nd)
        return LIB_FAIL(call, "x and grid do not fit: the grid's first dim must be x's, its last the %d spatial dims",
                        s.nd);
    dims[0] = x->dims[0];
    dims[1] = x->dims[1];
    memcpy(dims + 2, grid->dims + 1, (size_t)s.nd * sizeof *dims);
    y = lib_out(call, 0, x->dtype, x->rank, dims);
    if (!y)
        return TCC_EENV;
    points = lib_product(s.nd, dims + 2);
    plane = lib_product(s.nd, s.dims);
    if (points && dims[0] && dims[1] && !plane)
        return LIB_FAIL(call, "x has no elements to sample");
    for (int64_t b = 0; b < dims[0]; b++) {
        for (int64_t p = 0; p < points; p++) {
            double at[TCC_MAX_RANK];

            for (int k = 0; k < s.nd; k++)
                at[k] = position(&s, k, lib_get(grid, (b * points + p) * s.nd + s.nd - 1 - k));
            for (int64_t c = 0; c < dims[1]; c++) {
                s.plane = (b * dims[1] + c) * plane;
                lib_put(y, x->dtype, (b * dims[1] + c) * points + p, sample_axes(&s, 0, 0, at));
            }
        }
    }
    return TCC_OK;
}

/* (theta[n, k, k + 1], size: i64[k + 2]) -> grid[n, spatial..., k]; k is 2 or 3. */
int tccrt_lib_affine_grid(struct tcc_lib_call *call)
{
    const struct tcc_tensor *theta;
    bool align = lib_int(call, "align_corners", 0) != 0;
    int64_t size[5], dims[5], index[3] = {0}, points;
    int n, k, status = lib_need(call, 0, 3, LIB_NUMBER, &theta);
    void *y;

    if (status)
        return status;
    if ((n = lib_values(call, 1, size, 5)) < 0)
        return TCC_EINPUT;
    k = n - 2;
    if (k < 2 || theta->dims[0] != size[0] || theta->dims[1] != k || theta->dims[2] != k + 1)
        return LIB_FAIL(call, "theta and size do not fit: theta[n, k, k + 1] and k + 2 sizes expected, k = 2 or 3");
    dims[0] = size[0];
    memcpy(dims + 1, size + 2, (size_t)k * sizeof *dims);
    dims[k + 1] = k;
    for (int i = 0; i <= k; i++)
        if (dims[i] < 0)
            return LIB_FAIL(call, "size %lld is negative", (long long)dims[i]);
    y = lib_out(call, 0, theta->dtype, k + 2, dims);
    if (!y)
        return TCC_EENV;
    points = lib_product(k, dims + 1);
    for (int64_t b = 0; b < dims[0]; b++) {
        for (int64_t p = 0; p < points; p++) {
            double at[4];

            for (int i = 0; i < k; i++) {
                double d = (double)dims[1 + i], v = (double)index[i];

                at[k - 1 - i] = align ? (d > 1 ? -1 + 2 * v / (d - 1) : -1) : -1 + (2 * v + 1) / d;
            }
            at[k] = 1;
            for (int i = 0; i < k; i++) {
                double sum = 0;

                for (int j = 0; j <= k; j++)
                    sum += lib_get(theta, (b * k + i) * (k + 1) + j) * at[j];
                lib_put(y, theta->dtype, (b * points + p) * k + i, sum);
            }
            lib_next(k, dims + 1, index);
        }
    }
    return TCC_OK;
}

/* -- roialign -------------------------------------------------------------------------------------------------------
 */

struct corner {
    int64_t at[4];
    double w[4];
};

/* The four elements around (y, x) of an h-by-w plane and their weights; all zero outside. */
static void find_corners(double y, double x, int64_t h, int64_t w, struct corner *c)
{
    int64_t y0, x0, y1, x1;

    memset(c, 0, sizeof *c);
    if (!(y >= -1 && y <= (double)h && x >= -1 && x <= (double)w) || h == 0 || w == 0)
        return;
    y = fmax(y, 0);
    x = fmax(x, 0);
    y0 = (int64_t)y;
    x0 = (int64_t)x;
    if (y0 >= h - 1)
        y = (double)(y0 = h - 1);
    if (x0 >= w - 1)
        x = (double)(x0 = w - 1);
    y1 = y0 < h - 1 ? y0 + 1 : y0;
    x1 = x0 < w - 1 ? x0 + 1 : x0;
    y -= (double)y0;
    x -= (double)x0;
    *c = (struct corner){{y0 * w + x0, y0 * w + x1, y1 * w + x0, y1 * w + x1},
                         {(1 - y) * (1 - x), (1 - y) * x, y * (1 - x), y * x}};
}

struct roi {
    double y, x, bin_h, bin_w;
    int64_t grid_h, grid_w;
};

/* One bin of one plane: mean or maximum over its sampling points. */
static double pool_bin(const struct tcc_tensor *t, int64_t plane, const struct roi *r, int64_t ph, int64_t pw, bool max)
{
    double value = 0;
    bool any = false;

    for (int64_t iy = 0; iy < r->grid_h; iy++) {
        for (int64_t ix = 0; ix < r->grid_w; ix++) {
            struct corner c;
            double v[4];

            find_corners(r->y + (double)ph * r->bin_h + ((double)iy + 0.5) * r->bin_h / (double)r->grid_h,
                         r->x + (double)pw * r->bin_w + ((double)ix + 0.5) * r->bin_w / (double)r->grid_w, t->dims[2],
                         t->dims[3], &c);
            for (int k = 0; k < 4; k++)
                v[k] = c.w[k] * lib_get(t, plane + c.at[k]);
            if (!max) {
                value += v[0] + v[1] + v[2] + v[3];
                continue;
            }
            for (int k = 0; k < 4; k++, any = true)
                value = any ? fmax(value, v[k]) : v[k];
        }
    }
    if (!max)
        value /= r->grid_h * r->grid_w > 1 ? (double)(r->grid_h * r->grid_w) : 1;
    return value;
}

static int64_t grid_of(double length, int64_t bins, int64_t ratio)
{
    double n = ratio > 0 ? (double)ratio : ceil(length / (double)bins);

    return n < 0 || isnan(n) ? 0 : n > 4096 ? 4096 : (int64_t)n;
}

/* What roialign and its gradient read. dims: of y. */
struct rois {
    const struct tcc_tensor *x, *boxes, *batch;
    int64_t dims[4], ratio;
    double scale, offset;
    bool max;
};

static int read_rois(struct tcc_lib_call *call, int x, struct rois *r)
{
    const char *transform = lib_text(call, "coordinate_transformation_mode", "half_pixel");
    int status = lib_need(call, x, 4, LIB_NUMBER, &r->x);

    if (status || (status = lib_need(call, 1, 2, LIB_NUMBER, &r->boxes)) ||
        (status = lib_need(call, 2, 1, LIB_NUMBER, &r->batch)))
        return status;
    r->scale = lib_float(call, "spatial_scale", 1);
    r->offset = strcmp(transform, "half_pixel") == 0 ? 0.5 : 0;
    r->max = strcmp(lib_text(call, "mode", "avg"), "max") == 0;
    r->ratio = lib_int(call, "sampling_ratio", 0);
    r->dims[0] = r->boxes->dims[0];
    r->dims[1] = r->x->dims[1];
    r->dims[2] = lib_int(call, "output_height", 1);
    r->dims[3] = lib_int(call, "output_width", 1);
    if (r->boxes->dims[1] != 4 || r->batch->dims[0] != r->dims[0] || r->dims[2] < 1 || r->dims[3] < 1)
        return LIB_FAIL(call, "rois must be [n, 4], batch_indices [n] and the output at least 1x1");
    return TCC_OK;
}

/* Region i, and the picture that it lies in. */
static int region(struct tcc_lib_call *call, const struct rois *r, int64_t i, struct roi *to, int64_t *picture)
{
    double at[4], h, w;

    *picture = lib_get_int(r->batch, i);
    if (*picture < 0 || *picture >= r->x->dims[0])
        return call->host->fail(call, TCC_EINDEX, "batch index %lld is outside [0, %lld)", (long long)*picture,
                                (long long)r->x->dims[0]);
    for (int k = 0; k < 4; k++)
        at[k] = lib_get(r->boxes, 4 * i + k) * r->scale - r->offset;
    h = r->offset == 0 ? fmax(at[3] - at[1], 1) : at[3] - at[1];
    w = r->offset == 0 ? fmax(at[2] - at[0], 1) : at[2] - at[0];
    *to = (struct roi){at[1],
                       at[0],
                       h / (double)r->dims[2],
                       w / (double)r->dims[3],
                       grid_of(h, r->dims[2], r->ratio),
                       grid_of(w, r->dims[3], r->ratio)};
    return TCC_OK;
}

/* (x[n, c, h, w], rois[r, 4], batch_indices[r]) -> y[r, c, output_height, output_width] */
int tccrt_lib_roialign(struct tcc_lib_call *call)
{
    struct rois r;
    int64_t picture, plane;
    int status = read_rois(call, 0, &r);
    void *y;

    if (status)
        return status;
    if (!(y = lib_out(call, 0, r.x->dtype, 4, r.dims)))
        return TCC_EENV;
    plane = r.x->dims[2] * r.x->dims[3];
    for (int64_t i = 0; i < r.dims[0]; i++) {
        struct roi roi;

        if ((status = region(call, &r, i, &roi, &picture)))
            return status;
        for (int64_t c = 0; c < r.dims[1]; c++)
            for (int64_t p = 0; p < r.dims[2] * r.dims[3]; p++)
                lib_put(
                    y, r.x->dtype, (i * r.dims[1] + c) * r.dims[2] * r.dims[3] + p,
                    plane ? pool_bin(r.x, (picture * r.dims[1] + c) * plane, &roi, p / r.dims[3], p % r.dims[3], r.max)
                          : 0);
    }
    return TCC_OK;
}

/* A bin's gradient to the elements that its mean was taken of. */
static void spread_bin(double *plane, const int64_t *dims, const struct roi *r, int64_t ph, int64_t pw, double d)
{
    int64_t points = r->grid_h * r->grid_w;

    for (int64_t k = 0; k < points; k++) {
        struct corner c;
        double iy = (double)(k / r->grid_w) + 0.5, ix = (double)(k % r->grid_w) + 0.5;

        find_corners(r->y + (double)ph * r->bin_h + iy * r->bin_h / (double)r->grid_h,
                     r->x + (double)pw * r->bin_w + ix * r->bin_w / (double)r->grid_w, dims[2], dims[3], &c);
        for (int n = 0; n < 4; n++)
            plane[c.at[n]] += c.w[n] * d / (double)points;
    }
}

/* (dy, rois, batch_indices, x) -> dx, of the mean */
int tccrt_lib_roialign_grad(struct tcc_lib_call *call)
{
    const struct tcc_tensor *dy;
    struct rois r;
    int64_t picture, plane, bins;
    int status = read_rois(call, 3, &r);
    double *sums;
    void *dx;

    if (status || (status = lib_need(call, 0, 4, LIB_NUMBER, &dy)))
        return status;
    if (memcmp(dy->dims, r.dims, sizeof r.dims) != 0 || r.max)
        return LIB_FAIL(call, "the gradient of a mean over regions, with the dims of the result, is expected");
    if (!(dx = lib_out(call, 0, r.x->dtype, 4, r.x->dims)))
        return TCC_EENV;
    if (!(sums = calloc((size_t)lib_count(r.x) + 1, sizeof *sums)))
        return LIB_NO_MEMORY(call);
    plane = r.x->dims[2] * r.x->dims[3];
    bins = r.dims[2] * r.dims[3];
    for (int64_t i = 0; i < r.dims[0] && !status; i++) {
        struct roi roi;

        status = region(call, &r, i, &roi, &picture);
        for (int64_t p = 0; !status && plane && p < r.dims[1] * bins; p++)
            spread_bin(sums + (picture * r.dims[1] + p / bins) * plane, r.x->dims, &roi, p % bins / r.dims[3],
                       p % r.dims[3], lib_get(dy, i * r.dims[1] * bins + p));
    }
    for (int64_t k = 0; k < lib_count(r.x); k++)
        lib_put(dx, r.x->dtype, k, sums[k]);
    free(sums);
    return status;
}

/* -- deform_conv ------------------------------------------------------------------------------------------------------
 */

struct deform {
    const struct tcc_tensor *x, *w, *offset, *bias, *mask;
    int64_t k[2], pads[4], strides[2], dilations[2], group, offset_group, out[4];
};

static void list_attr(struct tcc_lib_call *call, const char *name, int n, int64_t *to)
{
    const struct tcc_attr *a = lib_attr(call, name);

    for (int i = 0; a && a->kind == TCC_ATTR_INTS && i < n && i < a->n; i++)
        to[i] = a->ints[i];
}

static int read_deform(struct tcc_lib_call *call, struct deform *d)
{
    int status;

    if ((status = lib_need(call, 0, 4, LIB_NUMBER, &d->x)) || (status = lib_need(call, 1, 4, LIB_NUMBER, &d->w)) ||
        (status = lib_need(call, 2, 4, LIB_NUMBER, &d->offset)))
        return status;
    d->bias = lib_in(call, 3);
    d->mask = lib_in(call, 4);
    d->strides[0] = d->strides[1] = d->dilations[0] = d->dilations[1] = 1;
    memset(d->pads, 0, sizeof d->pads);
    memcpy(d->k, d->w->dims + 2, sizeof d->k);
    list_attr(call, "strides", 2, d->strides);
    list_attr(call, "dilations", 2, d->dilations);
    list_attr(call, "pads", 4, d->pads);
    d->group = lib_int(call, "group", 1);
    d->offset_group = lib_int(call, "offset_group", 1);
    d->out[0] = d->x->dims[0];
    d->out[1] = d->w->dims[0];
    if (d->group < 1 || d->offset_group < 1 || d->x->dims[1] != d->w->dims[1] * d->group || d->w->dims[0] % d->group ||
        d->x->dims[1] % d->offset_group)
        return LIB_FAIL(call, "channels do not fit the groups");
    for (int i = 0; i < 2; i++) {
        int64_t span = d->x->dims[2 + i] + d->pads[i] + d->pads[i + 2] - (d->dilations[i] * (d->k[i] - 1) + 1);

        if (d->strides[i] < 1 || d->k[i] < 1 || span < 0)
            return LIB_FAIL(call, "the kernel does not fit axis %d", 2 + i);
        d->out[2 + i] = span / d->strides[i] + 1;
    }
    if (d->offset->dims[0] != d->out[0] || d->offset->dims[1] != d->offset_group * d->k[0] * d->k[1] * 2 ||
        d->offset->dims[2] != d->out[2] || d->offset->dims[3] != d->out[3] ||
        (d->mask && lib_count(d->mask) * 2 != lib_count(d->offset)) || (d->bias && lib_count(d->bias) != d->out[1]))
        return LIB_FAIL(call, "offset, mask or bias do not fit the kernel and the result");
    return TCC_OK;
}

/* Result element (b, o, i, j). Samples outside the plane read as 0, between its edge and there they fade out. */
static double deform_at(const struct deform *d, int64_t b, int64_t o, int64_t i, int64_t j)
{
    int64_t per_group = d->w->dims[1], taps = d->k[0] * d->k[1], first = o / (d->out[1] / d->group) * per_group;
    double sum = d->bias ? lib_get(d->bias, o) : 0;
    struct sampler s = {.padding = ZEROS, .mode = LINEAR, .align = true, .nd = 2, .dims = d->x->dims + 2, .x = d->x};

    for (int64_t c = 0; c < per_group; c++) {
        int64_t channel = first + c, og = channel / (d->x->dims[1] / d->offset_group);

        s.plane = (b * d->x->dims[1] + channel) * s.dims[0] * s.dims[1];
        for (int64_t t = 0; t < taps; t++) {
            int64_t pixel = i * d->out[3] + j, plane = d->out[2] * d->out[3],
                    at = (b * d->offset_group + og) * taps + t;
            double y[2] = {(double)(i * d->strides[0] - d->pads[0] + t / d->k[1] * d->dilations[0]) +
                               lib_get(d->offset, 2 * at * plane + pixel),
                           (double)(j * d->strides[1] - d->pads[1] + t % d->k[1] * d->dilations[1]) +
                               lib_get(d->offset, (2 * at + 1) * plane + pixel)};
            double m = d->mask ? lib_get(d->mask, at * plane + pixel) : 1;

            sum += m * lib_get(d->w, (o * per_group + c) * taps + t) * sample_axes(&s, 0, 0, y);
        }
    }
    return sum;
}

/* (x[n, c, h, w], w[o, c / group, kh, kw], offset[n, offset_group * kh * kw * 2, ...], b[o]?, mask?) */
int tccrt_lib_deform_conv(struct tcc_lib_call *call)
{
    int64_t index[4] = {0}, n;
    struct deform d;
    int status = read_deform(call, &d);
    void *y;

    if (status)
        return status;
    if (!(y = lib_out(call, 0, d.x->dtype, 4, d.out)))
        return TCC_EENV;
    n = lib_product(4, d.out);
    for (int64_t e = 0; e < n; e++) {
        lib_put(y, d.x->dtype, e, deform_at(&d, index[0], index[1], index[2], index[3]));
        lib_next(4, d.out, index);
    }
    return TCC_OK;
}
