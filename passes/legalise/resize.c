/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resize.c - Resize and Upsample of f32 tensors, by factors and sizes known when compiling, as gathers and sums that kernels
 * fuse: axis by axis, every result is a weighted sum of 1 (nearest), 2 (linear) or 4 (cubic) neighbours, whose numbers and
 * weights are constants. Nearest is exact; the others are bounded: weights are rounded to f32, sums too. Everything else
 * (antialiasing, cropping, policies) stays with the library op, runtime/libop/resize.c, whose rules these are.
 */
#include "passes/legalise/legalise_int.h"
#include "runtime/mutant.h"

#include <math.h>
#include <string.h>

enum { MOST_TAPS = 4 };

struct axis {
    const struct ir_node *n;
    int64_t from, to;
    float scale;
};

static bool is_upsample(const struct ir_node *n)
{
    return !strcmp(ir_get_s(n, IR_ATTR_name, ""), "upsample");
}

/* Number of taps; 0: a form that stays with the library. */
static int tap_count(const struct ir_node *n)
{
    const char *mode = ir_user_s(n, "mode", "nearest");
    if (!strcmp(mode, "nearest"))
        return 1;
    if (ir_user_i(n, "antialias", 0) || ir_user_i(n, "exclude_outside", 0))
        return 0;
    return !strcmp(mode, "linear") || !strcmp(mode, "bilinear") ? 2 : !strcmp(mode, "cubic") ? 4 : 0;
}

/* The number that is told for an axis: its factor (`scales`), or 0 where only sizes are. False: not known. */
static bool told_scale(struct ir_ctx *ctx, const struct ir_node *n, int axis, float *scale)
{
    int place = axis, at = is_upsample(n) ? 1 : 2;
    const int64_t *axes;
    const double *scales;
    int naxes = ir_user_ints(n, "axes", &axes), nscales = ir_user_floats(n, "scales", &scales);
    if (naxes) {
        for (place = 0; place < naxes; place++)
            if (axes[place] == axis || axes[place] + n->in[0].value->type->rank == axis)
                break;
        if (place == naxes)
            return false;
    }
    struct ir_value *v = at < n->nin ? n->in[at].value : NULL;
    if (is_upsample(n) && place < nscales) {
        *scale = (float)scales[place];
        return true;
    }
    const struct ir_tensor *t = v ? ir_const_of(v) : NULL;
    *scale = 0;
    if (!v || ir_is_value(ir_num_elements(ctx, v->type), 0))
        return n->nin > 3 && n->in[3].value;
    if (!t || place >= t->nelems)
        return false;
    *scale = (float)tcc_load_f64(t->dtype, ir_tensor_at(t, place));
    return *scale > 0;
}

/* Where element `at` of the result lies in the source, as runtime/libop/resize.c computes it. False: by a rule of the library alone. */
static bool coordinate(const struct axis *a, int64_t at, double *source)
{
    const char *how =
        ir_user_s(a->n, "coordinate_transformation_mode", is_upsample(a->n) ? "asymmetric" : "half_pixel");
    float scale = a->scale, x = (float)at, from = (float)a->from, to = (float)a->to, y;
    if (!strcmp(how, "align_corners"))
        y = to == 1 ? 0 : x * (from - 1) / MUTANT(131, to - 1, to);
    else if (!strcmp(how, "asymmetric"))
        y = x / scale;
    else if (!strcmp(how, "pytorch_half_pixel") && to == 1)
        y = 0;
    else if (!strcmp(how, "half_pixel_symmetric"))
        y = (float)((double)(from / 2 * (1 - to / (scale * from))) + ((double)x + 0.5) / (double)scale - 0.5);
    else if (!strcmp(how, "half_pixel") || !strcmp(how, "pytorch_half_pixel"))
        y = (x + 0.5F) / scale - 0.5F;
    else
        return false;
    *source = (double)y;
    return true;
}

static double cubic(double a, double x)
{
    x = fabs(x);
    if (x <= 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

static bool goes_up(const struct ir_node *n, double ratio)
{
    const char *how = ir_user_s(n, "nearest_mode", is_upsample(n) ? "floor" : "round_prefer_floor");
    return ratio == 1 || !strcmp(how, "ceil") || (!strcmp(how, "round_prefer_floor") && ratio > 0.5) ||
           (!strcmp(how, "round_prefer_ceil") && MUTANT(132, ratio >= 0.5, ratio > 0.5));
}

/* Result o is the sum of w[k] x[at[k]]. */
static bool taps_of(const struct axis *a, int ntaps, int64_t o, int64_t *at, double *w)
{
    double x, ca = ir_user_f(a->n, "cubic_coeff_a", -0.75);
    if (!coordinate(a, o, &x))
        return false;
    double ratio = x - floor(x) == 0 ? 1 : x - floor(x);
    int64_t first = (int64_t)ceil(x) - (ntaps == 4 ? 2 : 1);
    for (int k = 0; k < ntaps; k++) {
        int64_t i = first + k;
        double d = (double)(k - ntaps / 2 + 1) - ratio;
        if (ntaps == 1)
            i += goes_up(a->n, ratio);
        at[k] = i < 0 ? 0 : i >= a->from ? MUTANT(130, a->from - 1, 0) : i;
        w[k] = ntaps == 1 ? 1 : ntaps == 2 ? fmax(0, 1 - fabs(d)) : cubic(ca, d);
    }
    return true;
}

static struct ir_tensor *table(struct ir_ctx *ctx, enum tcc_dtype d, int rank, int axis, int64_t n)
{
    int64_t dims[TCC_MAX_RANK];
    for (int i = 0; i < rank; i++)
        dims[i] = i == axis ? n : 1;
    struct ir_tensor *t = rank ? ir_tensor_new(d, rank, dims) : ir_tensor_new(d, 1, &n);
    if (!t)
        ir_no_memory(ctx);
    return t;
}

static struct ir_value *along(struct ir_builder *b, const struct axis *a, int axis, int ntaps, struct ir_value *x)
{
    struct ir_tensor *at[MOST_TAPS], *w[MOST_TAPS];
    int64_t i[MOST_TAPS];
    double v[MOST_TAPS];
    struct ir_value *sum = NULL;
    for (int k = 0; k < ntaps; k++) {
        at[k] = table(b->ctx, TCC_I64, 0, 0, a->to);
        w[k] = table(b->ctx, TCC_F32, x->type->rank, axis, a->to);
    }
    for (int64_t o = 0; o < a->to; o++) {
        taps_of(a, ntaps, o, i, v);
        for (int k = 0; k < ntaps; k++) {
            ((int64_t *)(uintptr_t)at[k]->data)[o] = i[k];
            ((float *)(uintptr_t)w[k]->data)[o] = (float)v[k];
        }
    }
    for (int k = 0; k < ntaps; k++) {
        struct ir_value *in[2] = {x, ir_constant(b, at[k])};
        struct ir_value *y = ir_build1(b, IR_gather, 2, in, IR_ATTRS(ir_attr_i(IR_ATTR_axis, axis)));
        struct ir_value *weights = ir_constant(b, w[k]);
        if (ntaps > 1)
            y = ir_binary(b, IR_mul, y, weights);
        sum = sum ? ir_binary(b, IR_add, sum, y) : y;
    }
    return sum;
}

struct ir_value *legalise_resize(struct pass_run *r, struct ir_builder *b, const struct ir_node *n)
{
    const char *name = ir_get_s(n, IR_ATTR_name, "");
    struct axis axes[TCC_MAX_RANK];
    if ((strcmp(name, "resize") != 0 && strcmp(name, "upsample") != 0) || n->nout != 1 || pass_opts(r)->level < 1)
        return NULL;
    struct ir_value *x = n->in[0].value;
    ir_type t = x->type, y = n->out[0]->type;
    int ntaps = tap_count(n);
    if (!ir_is_tensor(t) || !ir_is_tensor(y) || t->dtype != TCC_F32 || t->rank != y->rank || !ntaps ||
        ir_user_i(n, "fractional_length", 0) || (ntaps > 1 && !pass_bounded(r)) ||
        strcmp(ir_user_s(n, "keep_aspect_ratio_policy", "stretch"), "stretch") != 0)
        return NULL;
    for (int d = 0; d < t->rank; d++) {
        struct axis *a = &axes[d];
        double source;
        *a = (struct axis){.n = n};
        bool known = told_scale(b->ctx, n, d, &a->scale);
        if (t->dim[d] == y->dim[d] && (!known || a->scale == 0 || a->scale == 1))
            continue;
        if (!known || !ir_is_const(t->dim[d], &a->from) || !ir_is_const(y->dim[d], &a->to) || a->from < 1 || a->to < 1)
            return NULL;
        if (a->scale == 0)
            a->scale = (float)a->to / (float)a->from;
        if (!coordinate(a, 0, &source))
            return NULL;
    }
    for (int d = 0; d < t->rank && x; d++)
        if (axes[d].from)
            x = along(b, &axes[d], d, ntaps, x);
    return x == n->in[0].value ? NULL : x;
}
