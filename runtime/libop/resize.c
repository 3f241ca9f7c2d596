/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX Resize and Upsample. Interpolation is separable: one axis after the other, in doubles. Along an axis every
 * result is a weighted sum of a few neighbours (taps), which depend on its coordinate only; taps outside repeat the
 * edge.
 */
#include <math.h>

#include "runtime/libop/libop_int.h"

enum coordinates {
    HALF_PIXEL,
    HALF_PIXEL_SYMMETRIC,
    PYTORCH_HALF_PIXEL,
    ALIGN_CORNERS,
    ASYMMETRIC,
    TF_HALF_PIXEL,
    TF_CROP,
    NCOORDINATES
};
static const char *const coordinate_names[NCOORDINATES] = {
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
    "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"};
enum mode { NEAREST, LINEAR, CUBIC, NMODES };
static const char *const mode_names[NMODES] = {"nearest", "linear", "cubic"};
enum rounding {
    ROUND_PREFER_FLOOR,
    ROUND_PREFER_CEIL,
    FLOOR,
    CEIL,
    SIMPLE,
    NROUNDINGS
}; /* SIMPLE, opset 10's: of smaller results up */
static const char *const rounding_names[NROUNDINGS] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil",
                                                       "simple"};

struct resize {
    enum coordinates coordinates;
    enum mode mode;
    enum rounding rounding;
    bool antialias, exclude_outside;
    bool fractional; /* align_corners counts with length * scale, not rounded down */
    bool precise;    /* coordinates and scales in f64, as PyTorch's of f64 are */
    bool fixed;      /* bytes are weighed in fixed point, as Pillow and PyTorch do: fixed_point() */
    double a, extrapolation, scales[TCC_MAX_RANK];
    float roi[2 * TCC_MAX_RANK];
    int64_t sizes[TCC_MAX_RANK];
};

/* -- Dims ----------------------------------------------------------------------------------------------------- */

static int find_name(const char *const *names, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

/* The size of an axis of n elements, n times the scale, in f32 where the scale is of that type; -1 after a report. */
static int64_t scaled_size(struct tcc_lib_call *call, double scale, int dtype, int64_t n, int axis)
{
    double size = dtype == TCC_F64 ? scale * (double)n : (double)((float)scale * (float)n);

    if (!(scale > 0) || !(size <= 0x1p40))
        return LIB_FAIL(call, "scale %g of axis %d is not possible", scale, axis), -1;
    return (int64_t)size;
}

static double in_precision(const struct resize *r, double scale)
{
    return r->precise ? scale : (double)(float)scale;
}

/* Sizes and scales of all axes from the operands `scales` and `sizes` (one of them) of the axes listed. */
static int find_sizes(struct tcc_lib_call *call, int at_scales, int at_sizes, int rank, const int64_t *dims,
                      struct resize *r, int *axes, int *naxes)
{
    const struct tcc_tensor *scales = lib_in(call, at_scales), *sizes = lib_in(call, at_sizes);
    const char *policy = lib_text(call, "keep_aspect_ratio_policy", "stretch");
    double common = strcmp(policy, "not_larger") == 0 ? INFINITY : 0;

    *naxes = lib_axes(call, call->nin, rank, axes);
    if (*naxes < 0)
        return TCC_EINPUT;
    for (int i = 0; *naxes == 0 && i < rank; i++)
        axes[i] = i;
    *naxes = *naxes ? *naxes : rank;
    for (int i = 0; i < rank; i++) {
        r->scales[i] = 1;
        r->sizes[i] = dims[i];
    }
    scales = scales && lib_count(scales) ? scales : NULL;
    sizes = sizes && lib_count(sizes) ? sizes : NULL;
    if ((scales != NULL) == (sizes != NULL) || lib_count(scales ? scales : sizes) != *naxes)
        return LIB_FAIL(call, "either scales or sizes must be given, with %d values", *naxes);
    for (int k = 0; k < *naxes; k++) {
        int i = axes[k];

        if (scales) {
            r->scales[i] = in_precision(r, lib_get(scales, k));
            if ((r->sizes[i] = scaled_size(call, lib_get(scales, k), scales->dtype, dims[i], i)) < 0)
                return TCC_EINPUT;
            continue;
        }
        r->sizes[i] = lib_get_int(sizes, k);
        if (r->sizes[i] < 0)
            return LIB_FAIL(call, "size %lld of axis %d is negative", (long long)r->sizes[i], i);
        r->scales[i] = dims[i] ? in_precision(r, (double)r->sizes[i] / (double)dims[i]) : 1;
        common = strcmp(policy, "not_larger") == 0 ? fmin(common, r->scales[i]) : fmax(common, r->scales[i]);
    }
    if (scales || strcmp(policy, "stretch") == 0)
        return TCC_OK;
    for (int k = 0; k < *naxes; k++) {
        r->scales[axes[k]] = common;
        r->sizes[axes[k]] = (int64_t)roundf((float)common * (float)dims[axes[k]]);
    }
    return TCC_OK;
}

/* (dims of x: i64[rank], scales?, sizes?) attrs axes, keep_aspect_ratio_policy -> i64[rank] */
int tccrt_lib_resize_dims(struct tcc_lib_call *call)
{
    int64_t dims[TCC_MAX_RANK], *out, n;
    int axes[TCC_MAX_RANK], naxes, rank = lib_values(call, 0, dims, TCC_MAX_RANK), status;
    struct resize r = {0};

    if (rank < 0)
        return TCC_EINPUT;
    if ((status = find_sizes(call, 1, 2, rank, dims, &r, axes, &naxes)))
        return status;
    n = rank;
    out = lib_out(call, 0, TCC_I64, 1, &n);
    if (!out)
        return TCC_EENV;
    memcpy(out, r.sizes, (size_t)rank * sizeof *out);
    return TCC_OK;
}

/* -- Taps ------------------------------------------------------------------------------------------------------- */

/*
 * Where element `at` of the result lies along an axis of `length` elements. In f32, and in this order of operations:
 * what is rounded to a neighbour depends on the last bit, and engines agree on it.
 */
static float rounded_coordinate(const struct resize *r, int axis, int rank, int64_t length, int64_t at)
{
    float scale = (float)r->scales[axis], x = (float)at, from = (float)length, to = (float)r->sizes[axis];
    float lo, hi, offset;

    switch (r->coordinates) {
    case ALIGN_CORNERS: to = r->fractional ? scale * from : to; return to == 1 ? 0 : x * (from - 1) / (to - 1);
    case ASYMMETRIC: return x / scale;
    case TF_HALF_PIXEL: return (x + 0.5F) / scale;
    case TF_CROP:
        lo = r->roi[axis];
        hi = r->roi[axis + rank];
        return to > 1 ? lo * (from - 1) + x * (hi - lo) * (from - 1) / (to - 1) : 0.5F * (lo + hi) * (from - 1);
    case PYTORCH_HALF_PIXEL: return to > 1 ? (x + 0.5F) / scale - 0.5F : 0;
    case HALF_PIXEL_SYMMETRIC: /* the one rule where they go on in f64 */
        offset = from / 2 * (1 - to / (scale * from));
        return (float)((double)offset + ((double)x + 0.5) / (double)scale - 0.5);
    default: return (x + 0.5F) / scale - 0.5F;
    }
}

/* The same in f64, by the rules that PyTorch has (area_pixel_compute_source_index). */
static double source_coordinate(const struct resize *r, int axis, int rank, int64_t length, int64_t at)
{
    double to = (double)r->sizes[axis];

    if (!r->precise)
        return (double)rounded_coordinate(r, axis, rank, length, at);
    if (r->coordinates == ALIGN_CORNERS)
        return to == 1 ? 0 : (double)at * ((double)(length - 1) / (to - 1));
    return ((double)at + 0.5) * (1 / r->scales[axis]) - 0.5;
}

static double cubic(double a, double x)
{
    x = fabs(x);
    if (x <= 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* Number of taps: 2 or 4, stretched when a smaller result is to be free of aliasing. */
static int64_t tap_count(const struct resize *r, double scale)
{
    int64_t reach = r->mode == CUBIC ? 2 : 1;

    if (r->antialias && r->mode != NEAREST && scale < 1)
        return 2 - 2 * ((int64_t)floor((double)-reach / scale) + 1);
    return 2 * reach;
}

/* Weights of n taps; `ratio` in (0, 1] is how far the coordinate lies beyond tap n/2 - 1. */
static void weigh(const struct resize *r, double ratio, double scale, int64_t n, double *w)
{
    double sum = 0;
    bool upper;

    if (r->mode == NEAREST) {
        if (fabs(ratio - 0.5) < TCC_RESIZE_TIE)
            ratio = 0.5;
        upper = ratio == 1 || r->rounding == CEIL || (r->rounding == SIMPLE && scale < 1) ||
                (r->rounding == ROUND_PREFER_FLOOR && ratio > 0.5) ||
                (r->rounding == ROUND_PREFER_CEIL && ratio >= 0.5);
        w[0] = !upper;
        w[1] = upper;
        return;
    }
    scale = r->antialias && scale < 1 ? scale : 1;
    for (int64_t i = 0; i < n; i++) {
        double x = scale * ((double)(i - n / 2 + 1) - ratio);

        w[i] = r->mode == CUBIC ? cubic(r->a, x) : fmax(0, 1 - fabs(x));
        sum += w[i];
    }
    for (int64_t i = 0; r->antialias && i < n; i++)
        w[i] /= sum;
}

static int64_t clamp(int64_t v, int64_t lo, int64_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

/* Where the n taps of an element begin that lies at x; their weights in w. */
static int64_t find_taps(const struct resize *r, int axis, int64_t length, double x, int64_t n, double *w)
{
    double ratio = x - floor(x), sum = 0;
    int64_t first = clamp((int64_t)ceil(x) - n / 2, -(n / 2), length + n / 2 - n);

    weigh(r, ratio == 0 ? 1 : ratio, r->scales[axis], n, w);
    for (int64_t k = 0; r->exclude_outside && k < n; k++) {
        w[k] = first + k < 0 || first + k >= length ? 0 : w[k];
        sum += w[k];
    }
    for (int64_t k = 0; r->exclude_outside && k < n; k++)
        w[k] /= sum;
    for (int64_t k = 0; r->fixed && k < n; k++) { /* an edge that taps repeat has one weight, since it is rounded */
        double more = w[k];

        w[k] = 0;
        w[clamp(first + k, 0, length - 1) - first] += more;
    }
    return first;
}

/* In how many parts of 1 an axis's weights are counted in fixed point: they are 16-bit numbers, so the largest decides
 * (Pillow's Resample.c, PyTorch's UpSampleKernel.cpp). */
static double fixed_point(const struct resize *r, int axis, int rank, int64_t length, int64_t n, double *w)
{
    double most = 0, parts = 1;

    for (int64_t o = 0; o < r->sizes[axis]; o++) {
        find_taps(r, axis, length, source_coordinate(r, axis, rank, length, o), n, w);
        for (int64_t k = 0; k < n; k++)
            most = fmax(most, w[k]);
    }
    while (parts < 0x1p22 && 0.5 + most * parts * 2 < 0x1p15)
        parts *= 2;
    return parts;
}

/* One axis: from[outer][length][inner] to to[outer][size][inner]. `w` has room for the taps. A weight of 0 times an
 * infinity is NaN, as ONNX's reference and engines have it; where taps are picked or left out there is no such product.
 */
static void resize_axis(const struct resize *r, int axis, int rank, int64_t outer, int64_t length, int64_t inner,
                        const double *from, double *to, double *w)
{
    int64_t size = r->sizes[axis], n = tap_count(r, r->scales[axis]);
    bool picked = r->mode == NEAREST || r->antialias || r->exclude_outside || r->fixed;
    double parts = r->fixed ? fixed_point(r, axis, rank, length, n, w) : 1;

    for (int64_t o = 0; o < size; o++) {
        double x = source_coordinate(r, axis, rank, length, o);
        bool outside = r->coordinates == TF_CROP && (x < 0 || x > (double)(length - 1));
        int64_t first = find_taps(r, axis, length, x, n, w);

        for (int64_t k = 0; r->fixed && k < n; k++)
            w[k] = round(w[k] * parts) / parts;
        for (int64_t b = 0; b < outer; b++) {
            double *y = to + (b * size + o) * inner;

            for (int64_t i = 0; i < inner; i++)
                y[i] = outside ? r->extrapolation : 0;
            for (int64_t k = 0; !outside && k < n; k++) {
                const double *p = from + (b * length + clamp(first + k, 0, length - 1)) * inner;

                for (int64_t i = 0; (w[k] != 0 || !picked) && i < inner; i++)
                    y[i] += w[k] * p[i];
            }
            for (int64_t i = 0; r->fixed && i < inner; i++)
                y[i] = fmin(fmax(floor(y[i] + 0.5), 0), 255);
        }
    }
}

/* -- The op ------------------------------------------------------------------------------------------------------ */

static int read_attrs(struct tcc_lib_call *call, struct resize *r, bool upsample)
{
    int coordinates =
        find_name(coordinate_names, NCOORDINATES,
                  lib_text(call, "coordinate_transformation_mode", upsample ? "asymmetric" : "half_pixel"));
    const char *name = lib_text(call, "mode", "nearest");
    int mode = find_name(mode_names, NMODES, strcmp(name, "bilinear") == 0 ? "linear" : name);
    int rounding = find_name(rounding_names, NROUNDINGS,
                             lib_text(call, "nearest_mode", upsample ? "floor" : "round_prefer_floor"));

    if (coordinates < 0 || mode < 0 || rounding < 0)
        return LIB_FAIL(call, "unknown mode, nearest_mode or coordinate_transformation_mode");
    r->coordinates = (enum coordinates)coordinates;
    r->mode = (enum mode)mode;
    r->rounding = (enum rounding)rounding;
    r->antialias = lib_int(call, "antialias", 0) != 0;
    r->exclude_outside = lib_int(call, "exclude_outside", 0) != 0;
    r->fractional = lib_int(call, "fractional_length", 0) != 0;
    r->precise = lib_int(call, "precise", 0) != 0;
    r->fixed = lib_int(call, "fixed_point", 0) != 0;
    if (r->fixed && r->mode == NEAREST)
        return LIB_FAIL(call, "fixed_point is for linear and cubic");
    if (r->precise && r->coordinates != ALIGN_CORNERS && r->coordinates != HALF_PIXEL)
        return LIB_FAIL(call, "precise coordinates are half_pixel or align_corners");
    r->a = lib_float(call, "cubic_coeff_a", -0.75);
    r->extrapolation = lib_float(call, "extrapolation_value", 0);
    return TCC_OK;
}

static int read_roi(struct tcc_lib_call *call, const struct tcc_tensor *roi, int rank, const int *axes, int naxes,
                    struct resize *r)
{
    for (int i = 0; i < rank; i++) {
        r->roi[i] = 0;
        r->roi[i + rank] = 1;
    }
    if (r->coordinates != TF_CROP)
        return TCC_OK;
    if (!roi || lib_count(roi) != 2 * naxes)
        return LIB_FAIL(call, "tf_crop_and_resize needs %d values in roi", 2 * naxes);
    for (int k = 0; k < naxes; k++) {
        r->roi[axes[k]] = (float)lib_get(roi, k);
        r->roi[axes[k] + rank] = (float)lib_get(roi, naxes + k);
    }
    return TCC_OK;
}

static void store(const double *from, void *to, int dtype, int64_t n)
{
    static const struct {
        int dtype;
        double lo, hi;
    } limits[] = {
        {TCC_I8, -128, 127},
        {TCC_U8, 0, 255},
        {TCC_I16, -32768, 32767},
        {TCC_U16, 0, 65535},
        {TCC_I32, -0x1p31, 0x1p31 - 1},
        {TCC_U32, 0, 0x1p32 - 1},
        {TCC_I64, -0x1p63, 0x1.fffffffffffffp62},
        {TCC_U64, 0, 0x1.fffffffffffffp63},
    };
    double lo = -INFINITY, hi = INFINITY;
    bool whole = false;

    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        if (limits[i].dtype == dtype) {
            lo = limits[i].lo;
            hi = limits[i].hi;
            whole = true;
        }
    }
    for (int64_t i = 0; i < n; i++)
        lib_put(to, dtype, i, whole ? fmin(fmax(nearbyint(from[i]), lo), hi) : from[i]);
}

/* Whether nothing happens along an axis. A filter against aliasing, and fixed point, leave axes alone whose size stays,
 * as engines do. */
static bool is_identity(const struct resize *r, int axis, int rank, int64_t length)
{
    if (((r->antialias && r->mode != NEAREST && r->coordinates != TF_CROP) || r->fixed) && r->sizes[axis] == length)
        return true;
    return r->sizes[axis] == length && r->scales[axis] == 1 && r->roi[axis] == 0 && r->roi[axis + rank] == 1;
}

static int interpolate(struct tcc_lib_call *call, const struct tcc_tensor *x, const struct resize *r)
{
    int64_t dims[TCC_MAX_RANK], largest = lib_count(x), taps = 4, n = largest;
    double *room, *from, *to, *w;
    void *out;

    memcpy(dims, x->dims, sizeof dims);
    for (int k = 0; k < x->rank; k++) {
        int i = r->fixed ? x->rank - 1 - k : k; /* rounded after each axis: Pillow takes the last one first */
        int64_t t = tap_count(r, r->scales[i]);

        dims[i] = r->sizes[i];
        taps = t > taps ? t : taps;
        if (!is_identity(r, i, x->rank, x->dims[i]))
            largest = lib_product(x->rank, dims) > largest ? lib_product(x->rank, dims) : largest;
    }
    out = lib_out(call, 0, x->dtype, x->rank, r->sizes);
    if (!out)
        return TCC_EENV;
    for (int i = 0; i < x->rank; i++)
        if (x->dims[i] == 0 && r->sizes[i] > 0)
            return LIB_FAIL(call, "axis %d is empty, and can't be resized to one with elements", i);
    if (lib_product(x->rank, r->sizes) == 0)
        return TCC_OK;
    room = largest > TCC_MAX_ELEMENTS ? NULL : calloc((size_t)largest * 2 + (size_t)taps, sizeof *room);
    if (!room)
        return LIB_NO_MEMORY(call);
    from = room;
    to = room + largest;
    w = room + 2 * largest;
    memcpy(dims, x->dims, sizeof dims);
    for (int64_t i = 0; i < n; i++)
        from[i] = lib_get(x, i);
    for (int k = 0; k < x->rank; k++) {
        int i = r->fixed ? x->rank - 1 - k : k;
        double *swap = from;

        if (is_identity(r, i, x->rank, dims[i]))
            continue;
        resize_axis(r, i, x->rank, lib_product(i, dims), dims[i], lib_product(x->rank - i - 1, dims + i + 1), from, to,
                    w);
        dims[i] = r->sizes[i];
        from = to;
        to = swap;
    }
    store(from, out, x->dtype, lib_product(x->rank, dims));
    free(room);
    return TCC_OK;
}

/* (x, roi?, scales?, sizes?): see libops.def. Integers round to nearest and saturate. */
int tccrt_lib_resize(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x;
    struct resize r = {0};
    int axes[TCC_MAX_RANK], naxes, status;

    if ((status = lib_need(call, 0, -1, LIB_NUMBER, &x)) || (status = read_attrs(call, &r, false)) ||
        (status = find_sizes(call, 2, 3, x->rank, x->dims, &r, axes, &naxes)) ||
        (status = read_roi(call, lib_in(call, 1), x->rank, axes, naxes, &r)))
        return status;
    return interpolate(call, x, &r);
}

/* (x, scales?) attrs mode, scales (when the operand is omitted): Resize with asymmetric coordinates, rounded down. */
int tccrt_lib_upsample(struct tcc_lib_call *call)
{
    const struct tcc_attr *scales = lib_attr(call, "scales");
    const struct tcc_tensor *x;
    struct resize r = {0};
    int axes[TCC_MAX_RANK], naxes, status;

    if ((status = lib_need(call, 0, -1, LIB_NUMBER, &x)) || (status = read_attrs(call, &r, true)))
        return status;
    if (lib_has(call, 1) || !scales) {
        if ((status = find_sizes(call, 1, 2, x->rank, x->dims, &r, axes, &naxes)))
            return status;
    } else {
        if (scales->n != x->rank || scales->kind != TCC_ATTR_FLOATS)
            return LIB_FAIL(call, "scales must have %d values", x->rank);
        for (int i = 0; i < x->rank; i++) {
            r.scales[i] = (double)(float)scales->floats[i];
            if ((r.sizes[i] = scaled_size(call, r.scales[i], TCC_F32, x->dims[i], i)) < 0)
                return TCC_EINPUT;
        }
    }
    read_roi(call, NULL, x->rank, axes, 0, &r);
    return interpolate(call, x, &r);
}
