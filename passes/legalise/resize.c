/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resize.c - Resize and Upsample of f32 tensors as gathers and sums that kernels fuse: axis by axis, every result is a
 * weighted sum of 1 (nearest), 2 (linear) or 4 (cubic) neighbours. Their positions and weights are constants where
 * sizes are known when compiling, and else tensors of the result's length, computed by the same operations in the same
 * order; where each element is repeated a whole number of times, its position is an index expression and costs nothing.
 * Nearest is exact; the others are bounded: weights are rounded to f32, sums too. Everything else (antialiasing,
 * cropping, policies) stays with the library op, runtime/libop/resize.c, whose rules these are.
 */
#include "passes/legalise/legalise_int.h"
#include "base/mutant.h"

#include <math.h>
#include <string.h>

enum { MOST_TAPS = 4 };

struct axis {
    const struct ir_node *n;
    bool resized;
    ir_expr length, result; /* of the operand's and the result's axis */
    int64_t from, to;       /* the same where both are known, else 0 */
    float scale;            /* 0: result by length, of which one is not known */
    int repeats;            /* so often each element stands there, one after the other; 0: another pattern */
};

/* What result o is made of, for all o: element at[k] (i64) with weight w[k] (NULL: 1). */
struct taps {
    int n;
    struct ir_value *at[MOST_TAPS], *w[MOST_TAPS];
};

static bool is_upsample(const struct ir_node *n)
{
    return !strcmp(ir_get_s(n, IR_ATTR_name, ""), "upsample");
}

/* Which element a result lies over, and to which neighbour that is rounded. */
static const char *coordinate_rule(const struct ir_node *n)
{
    return ir_user_s(n, "coordinate_transformation_mode", is_upsample(n) ? "asymmetric" : "half_pixel");
}

static const char *rounding_rule(const struct ir_node *n)
{
    return ir_user_s(n, "nearest_mode", is_upsample(n) ? "floor" : "round_prefer_floor");
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

/* Where element `at` of the result lies in the source, as runtime/libop/resize.c computes it. False: by a rule of the
 * library alone. */
static bool coordinate(const struct axis *a, int64_t at, double *source)
{
    const char *how = coordinate_rule(a->n);
    float scale = a->scale, x = (float)at, from = (float)a->from, to = (float)a->to, y;
    if (!strcmp(how, "align_corners"))
        y = to == 1 ? 0 : x * (from - 1) / MUTANT(131, to - 1, to);
    else if (!strcmp(how, "asymmetric"))
        y = x / scale;
    else if (!strcmp(how, "tf_half_pixel_for_nn"))
        y = (x + 0.5F) / scale;
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

/* "simple", opset 10's: up where the result is smaller. */
static bool goes_up(const struct axis *a, double ratio)
{
    const char *how = rounding_rule(a->n);
    ratio = fabs(ratio - 0.5) < TCC_RESIZE_TIE ? 0.5 : ratio;
    return ratio == 1 || !strcmp(how, "ceil") || (!strcmp(how, "simple") && a->scale < 1) ||
           (!strcmp(how, "round_prefer_floor") && ratio > 0.5) ||
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
            i += goes_up(a, ratio);
        at[k] = i < 0 ? 0 : i >= a->from ? MUTANT(130, a->from - 1, 0) : i;
        w[k] = ntaps == 1 ? 1 : ntaps == 2 ? fmax(0, 1 - fabs(d)) : cubic(ca, d);
    }
    return true;
}

static struct ir_tensor *table(struct ir_ctx *ctx, enum tcc_dtype d, int64_t n)
{
    struct ir_tensor *t = ir_tensor_new(d, 1, &n);
    if (!t)
        ir_no_memory(ctx);
    return t;
}

/* -- Sizes that are known: constants ---------------------------------------------------------------------- */

static void constant_taps(struct ir_builder *b, const struct axis *a, struct taps *taps)
{
    struct ir_tensor *at[MOST_TAPS], *w[MOST_TAPS];
    int64_t i[MOST_TAPS];
    double v[MOST_TAPS];
    for (int k = 0; k < taps->n; k++) {
        at[k] = table(b->ctx, TCC_I64, a->to);
        w[k] = table(b->ctx, TCC_F32, a->to);
    }
    for (int64_t o = 0; o < a->to; o++) {
        taps_of(a, taps->n, o, i, v);
        for (int k = 0; k < taps->n; k++) {
            ((int64_t *)(uintptr_t)at[k]->data)[o] = i[k];
            ((float *)(uintptr_t)w[k]->data)[o] = (float)v[k];
        }
    }
    for (int k = 0; k < taps->n; k++) {
        taps->at[k] = ir_constant(b, at[k]);
        taps->w[k] = ir_constant(b, w[k]);
    }
}

/* -- Whole factors: each element several times --------------------------------------------------------------- */

/*
 * Does result o take element o / repeats? Of a length that is not known a few periods show it, where what lies where
 * does not depend on the length: f32 keeps the distances from a tie (1 / (2 factor) at least) up to 2^22 results. A
 * known length is tried whole: by the other rules results come as near to a tie as one part in the length, and rounding
 * decides.
 */
static int repeats_of(struct ir_ctx *ctx, const struct axis *a)
{
    const char *how = coordinate_rule(a->n);
    struct axis some = *a;
    int factor = (int)fminf(a->scale, 64);
    if ((float)factor != a->scale || factor < 1 || a->result != ir_mulc(ctx, a->length, factor))
        return 0;
    if (!a->to) {
        if (!strcmp(how, "align_corners") || !strcmp(how, "half_pixel_symmetric"))
            return 0;
        some.from = 4;
        some.to = some.from * factor;
    }
    for (int64_t o = 0; o < some.to; o++) {
        int64_t at;
        double w;
        if (!taps_of(&some, 1, o, &at, &w) || at != o / factor)
            return 0;
    }
    return factor;
}

static struct ir_value *repeated(struct ir_builder *b, const struct axis *a)
{
    ir_expr dims[2] = {a->length, ir_const(b->ctx, a->repeats)};
    return ir_reshape_to(b, ir_iota(b, 2, dims, 0, TCC_I64), 1, &a->result);
}

/* -- Sizes that are known only while running ------------------------------------------------------------------- */

static struct ir_value *size_of(struct ir_builder *b, ir_expr e, enum tcc_dtype d)
{
    return ir_cast_to(b, ir_dim_value(b, e), d);
}

/* coordinate(), of all results, by a rule that study_axis() has let pass. */
static struct ir_value *coordinates(struct ir_builder *b, const struct axis *a)
{
    const char *how = coordinate_rule(a->n);
    struct ir_value *x = ir_iota(b, 1, &a->result, 0, TCC_F32);
    struct ir_value *from = size_of(b, a->length, TCC_F32), *to = size_of(b, a->result, TCC_F32);
    struct ir_value *scale =
        a->scale > 0 ? ir_constant_f(b, TCC_F32, (double)a->scale) : ir_binary(b, IR_div, to, from);
    const char *text = "(x + 0.5) / y - 0.5";
    if (!strcmp(how, "align_corners")) /* of one result x is 0, and so is the quotient */
        text = "x * (z - 1) / max(u - 1, 1)";
    else if (!strcmp(how, "asymmetric"))
        text = "x / y";
    else if (!strcmp(how, "tf_half_pixel_for_nn")) /* an axis that keeps its size is not resized */
        text = "select(eq(y, 1), x, (x + 0.5) / y)";
    else if (!strcmp(how, "pytorch_half_pixel"))
        text = "select(eq(u, 1), 0, (x + 0.5) / y - 0.5)";
    return ir_formula(b, text, x, scale, from, to);
}

/* cubic() of the distance to neighbour k, where `ratio` in (0, 1] is that to neighbour 1. */
static struct ir_value *cubic_weight(struct ir_builder *b, double a, int k, struct ir_value *ratio)
{
    const double near[4] = {a + 2, -(a + 3), 0, 1}, far[4] = {a, -5 * a, 8 * a, -4 * a};
    struct ir_value *d = ir_formula_n(b, k < 2 ? "x + a" : "b - x", IR_NUMBERS(1 - k, k - 1), ratio);
    return ir_formula_n(b, "((a * x + b) * x + c) * x + d", k == 1 || k == 2 ? near : far, d);
}

/* taps_of(), of all results. */
static void computed_taps(struct ir_builder *b, const struct axis *a, struct taps *taps)
{
    struct ir_value *x = coordinates(b, a), *ratio = ir_formula(b, "x - floor(x)", x), *up = ir_unary(b, IR_ceil, x);
    ratio = ir_formula(b, "select(eq(x, 0), 1, x)", ratio);
    if (taps->n == 1) {
        const char *how = rounding_rule(a->n);
        how = strcmp(how, "simple") ? how : a->scale < 1 ? "ceil" : "floor"; /* opset 10 gives scales */
        const char *text = !strcmp(how, "ceil")                ? "x + 1"
                           : !strcmp(how, "floor")             ? "floor(z) + 1"
                           : !strcmp(how, "round_prefer_ceil") ? "select(gt(y, a), x + 1, x)"
                                                               : "select(ge(y, b), x + 1, x)";
        up = ir_formula_n(b, text, IR_NUMBERS(0.5 - TCC_RESIZE_TIE, 0.5 + TCC_RESIZE_TIE), up, ratio, x);
    }
    struct ir_value *last = ir_formula(b, "x - 1", size_of(b, a->length, TCC_I64));
    for (int k = 0; k < taps->n; k++) {
        struct ir_value *at = ir_formula_n(b, "x + a", IR_NUMBERS(k - (taps->n == 4 ? 2 : 1)), up);
        taps->at[k] = ir_formula(b, "min(max(x, 0), y)", ir_cast_to(b, at, TCC_I64), last);
        taps->w[k] = taps->n == 1   ? NULL
                     : taps->n == 2 ? k ? ratio : ir_formula(b, "1 - x", ratio)
                                    : cubic_weight(b, ir_user_f(a->n, "cubic_coeff_a", -0.75), k, ratio);
    }
}

/* -- Both ------------------------------------------------------------------------------------------------------- */

/* x resized along an axis. */
static struct ir_value *along(struct ir_builder *b, const struct axis *a, int axis, int ntaps, struct ir_value *x)
{
    struct taps taps = {.n = ntaps};
    struct ir_value *sum = NULL;
    ir_expr dims[TCC_MAX_RANK];
    for (int i = 0; i < x->type->rank; i++)
        dims[i] = i == axis ? a->result : ir_const(b->ctx, 1);
    if (a->repeats)
        taps.at[0] = repeated(b, a);
    else if (a->to)
        constant_taps(b, a, &taps);
    else
        computed_taps(b, a, &taps);
    for (int k = 0; k < ntaps; k++) {
        struct ir_value *y = ir_gather(b, x, taps.at[k], axis);
        if (ntaps > 1)
            y = ir_binary(b, IR_mul, y, ir_reshape_to(b, taps.w[k], x->type->rank, dims));
        sum = sum ? ir_binary(b, IR_add, sum, y) : y;
    }
    return sum;
}

struct origin {
    const struct ir_func *f;
    ir_type x;
    bool known;
};

static bool in_type(ir_type t, ir_expr sym)
{
    for (int i = 0; ir_is_tensor(t) && i < t->rank; i++)
        if (ir_uses_sym(t->dim[i], sym))
            return true;
    return false;
}

static void find_origin(void *user, ir_expr sym)
{
    struct origin *o = user;
    bool found = in_type(o->x, sym);
    for (int i = 0; i < o->f->body->nparams && !found; i++)
        found = in_type(o->f->body->params[i]->type, sym);
    o->known = o->known && found;
}

/* Is a size of the result known without the library op, which binds those that are not? */
static bool is_known(const struct ir_func *f, const struct ir_node *n, ir_expr size)
{
    struct origin o = {f, n->in[0].value->type, true};
    ir_each_sym(size, find_origin, &o);
    return o.known;
}

/* What is to be done along axis d. False: a form that stays with the library. */
static bool study_axis(const struct ir_builder *b, const struct ir_node *n, int d, int ntaps, struct axis *a)
{
    struct ir_ctx *ctx = b->ctx;
    ir_expr length = n->in[0].value->type->dim[d], result = n->out[0]->type->dim[d];
    double source;
    *a = (struct axis){.n = n, .length = length, .result = result};
    bool known = told_scale(ctx, n, d, &a->scale);
    if (length == result && (!known || a->scale == 0 || a->scale == 1))
        return true;
    if (!known || ir_is_value(length, 0) || ir_is_value(result, 0) || !is_known(b->func, n, result))
        return false;
    if (!ir_is_const(length, &a->from) || !ir_is_const(result, &a->to))
        a->from = a->to = 0;
    if (a->scale == 0 && a->to)
        a->scale = (float)a->to / (float)a->from;
    a->resized = true;
    a->repeats = ntaps == 1 && a->scale > 0 ? repeats_of(ctx, a) : 0;
    if (!a->to && !a->repeats && !strcmp(coordinate_rule(n), "half_pixel_symmetric"))
        return false; /* it counts in f64 */
    return coordinate(a, 0, &source);
}

/* The axis, of those that are left, that grows least; -1: none is left. A length that is not known is guessed. */
static int next_axis(int rank, const struct axis *axes)
{
    struct pass_sizes guess = {0};
    int next = -1;
    double least = 0;
    for (int d = rank - 1; d >= 0; d--) {
        double growth = pass_extent(&guess, axes[d].result) / pass_extent(&guess, axes[d].length);
        if (axes[d].resized && (next < 0 || growth < least)) {
            next = d;
            least = growth;
        }
    }
    return next;
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
    for (int d = 0; d < t->rank; d++)
        if (!study_axis(b, n, d, ntaps, &axes[d]))
            return NULL;
    /* What grows most comes last, for all before works on fewer elements; of those that grow alike the innermost, whose
     * elements lie apart, first. */
    for (int d; (d = next_axis(t->rank, axes)) >= 0; axes[d].resized = false)
        x = along(b, &axes[d], d, ntaps, x);
    return x == n->in[0].value ? NULL : x;
}
