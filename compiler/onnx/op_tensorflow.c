/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators of TensorFlow that tf2onnx has no ONNX for and leaves as they are: in its domain, or, by
 * --continue_on_error, in ONNX's. What else it leaves, left.def has words for.
 */
#include "compiler/onnx/import_int.h"

#include <math.h>
#include <string.h>

bool onnx_op_erfc(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    return x && imp_out(im, 0, imp_cast(im, imp_erfc(im, imp_wide(im, x)), imp_dtype(x)));
}

/* One of library op special's functions. */
bool onnx_op_tf_special(struct imp *im)
{
    static const char *const names[][2] = {
        {"BesselI0", "i0"},     {"BesselI0e", "i0e"}, {"BesselI1", "i1"},   {"BesselI1e", "i1e"},
        {"Digamma", "digamma"}, {"Erfinv", "erfinv"}, {"Lgamma", "lgamma"}, {"Ndtri", "ndtri"},
    };
    struct ir_value *x = imp_tensor(im, 0);
    int k = 0;
    if (!x)
        return false;
    while (strcmp(names[k][0], im->node->op))
        k++;
    return imp_lib_node(im, "special", 1, &x->type, IR_ATTRS(imp_user_text(im, "function", names[k][1])));
}

/* `arg`: 0 the inverse, 1 Cholesky's factor. A matrix that has none is an error of the run, as in TensorFlow. */
bool onnx_op_tf_matrix(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    if (!x)
        return false;
    if (imp_rank(x) < 2 || imp_i(im, "adjoint", 0))
        return imp_unsupported(im, "no matrices, or the adjoint of them");
    ir_type types[] = {x->type, ir_tensor_type(im->ctx, TCC_I32, imp_rank(x) - 2, x->type->dim)};
    return imp_lib_node(im, im->row->arg ? "cholesky" : "inverse", 2, types, IR_ATTRS(imp_user_int(im, "check", 1)));
}

/* How many of the boundaries, which ascend, are not above x. */
bool onnx_op_tf_bucketize(struct imp *im)
{
    struct ir_value *x = imp_cast(im, imp_tensor(im, 0), TCC_F32);
    int n, rank = x ? imp_rank(x) : 0;
    const float *given = imp_floats(im, "boundaries", &n);
    int64_t last = rank, count = n;
    if (!x || rank == TCC_MAX_RANK)
        return false;
    struct ir_tensor *t = imp_keep(im, ir_tensor_new(TCC_F32, 1, &count));
    if (n)
        memcpy((void *)(uintptr_t)t->data, given, (size_t)n * sizeof *given);
    struct ir_value *right = imp_const(im, ir_tensor_ref(t));
    struct ir_value *reached = imp_bin(im, IR_ge, imp_unsqueeze(im, x, 1, &last), right);
    return imp_out(im, 0, imp_reduce(im, IR_reduce_sum, imp_cast(im, reached, TCC_I32), 1, &last, false));
}

/*
 * A complex tensor inside of a model is the sequence of its two parts, so that what knows nothing of complex numbers
 * refuses it.
 */
bool onnx_op_tf_complex(struct imp *im)
{
    struct ir_value *part[] = {imp_tensor(im, 0), imp_tensor(im, 1)};
    return part[0] && part[1] && imp_out(im, 0, imp_sequence(im, 2, part));
}

static const struct imp_items *parts_of(struct imp *im)
{
    struct ir_value *z = imp_in(im, 0);
    const struct imp_items *parts = z ? imp_items_of(im, z) : NULL;
    if (!parts || parts->n != 2)
        return imp_unsupported(im, "complex numbers that neither a transform nor Complex made"), NULL;
    return parts;
}

/* `arg`: 0 the real part, 1 the imaginary one. */
bool onnx_op_tf_part(struct imp *im)
{
    const struct imp_items *parts = parts_of(im);
    return parts && imp_out(im, 0, parts->at[im->row->arg]);
}

/* x[.., 2] as a complex tensor is result 0. */
static bool out_pair(struct imp *im, struct ir_value *x)
{
    int64_t last = x ? imp_rank(x) - 1 : 0;
    struct ir_value *part[2];
    for (int k = 0; k < 2; k++) {
        part[k] = x ? imp_slice1(im, x, (int)last, ir_const(im->ctx, k), ir_const(im->ctx, 1)) : NULL;
        part[k] = part[k] ? imp_squeeze(im, part[k], 1, &last) : NULL;
    }
    return part[0] && part[1] && imp_out(im, 0, imp_sequence(im, 2, part));
}

/* x, cut or filled with zeros to a length along its last axis. */
static struct ir_value *of_length(struct imp *im, struct ir_value *x, int64_t length)
{
    int rank = imp_rank(x);
    ir_expr zero = ir_const(im->ctx, 0), none[TCC_MAX_RANK], more[TCC_MAX_RANK];
    ir_expr want = ir_const(im->ctx, length), has = imp_dim(x, rank - 1);
    if (has == want)
        return x;
    for (int k = 0; k < rank; k++)
        none[k] = more[k] = zero;
    more[rank - 1] = ir_max(im->ctx, zero, ir_sub(im->ctx, want, has));
    return imp_slice1(im, imp_pad(im, x, imp_like(im, x, 0), none, more, "constant"), rank - 1, zero, want);
}

/* A number that operand 1 has alone, at least 1. */
static bool length_of(struct imp *im, int64_t *length)
{
    if (imp_ints_of(im, imp_in(im, 1), 1, length) == 1 && *length >= 1)
        return true;
    return imp_unsupported(im, "a length that is known only at run time");
}

bool onnx_op_tf_rfft(struct imp *im)
{
    struct ir_value *x = imp_wide(im, imp_tensor(im, 0));
    int64_t length, last = x ? imp_rank(x) : 0;
    if (!x || !length_of(im, &length))
        return false;
    if (!last || !imp_is_float(x))
        return imp_unsupported(im, "no floats");
    x = of_length(im, x, length);
    return out_pair(im, x ? imp_transform(im, imp_unsqueeze(im, x, 1, &last), (int)last - 1, false, true) : NULL);
}

/* The parts of operand 0 side by side on one more axis, their last one cut or filled to a length (0: as it is). */
static struct ir_value *pair_of(struct imp *im, int64_t length)
{
    const struct imp_items *parts = parts_of(im);
    struct ir_value *part[2];
    for (int k = 0; k < 2; k++) {
        part[k] = parts ? imp_wide(im, parts->at[k]) : NULL;
        int64_t last = part[k] ? imp_rank(part[k]) : 0;
        if (!last)
            return part[k] ? imp_unsupported(im, "a number alone"), NULL : NULL;
        part[k] = length ? of_length(im, part[k], length) : part[k];
        if (!part[k] || !(part[k] = imp_unsqueeze(im, part[k], 1, &last)))
            return NULL;
    }
    return imp_concat(im, 2, part, imp_rank(part[0]) - 1);
}

/* `arg`: along how many of the last axes; negative: the inverse. */
bool onnx_op_tf_fft(struct imp *im)
{
    int arg = im->row->arg, n = arg < 0 ? -arg : arg;
    struct ir_value *x = pair_of(im, 0);
    if (x && n >= imp_rank(x))
        return imp_bad(im, "%d axes at least are expected", n);
    for (int k = 0; x && k < n; k++)
        x = imp_transform(im, x, imp_rank(x) - 2 - k, arg < 0, false);
    return out_pair(im, x);
}

/* Real numbers of which half the transform is given. */
bool onnx_op_tf_irfft(struct imp *im)
{
    int64_t length;
    if (!length_of(im, &length))
        return false;
    if (length % 2)
        return imp_unsupported(im, "a length that is odd");
    struct ir_value *x = pair_of(im, length / 2 + 1);
    int64_t last = x ? imp_rank(x) - 1 : 0;
    return x && imp_out(im, 0, imp_squeeze(im, imp_transform(im, x, (int)last - 1, true, true), 1, &last));
}

/* As an input a complex tensor is two of floats for tf2onnx, one behind the other on a first axis. */
bool onnx_op_complex_abs(struct imp *im)
{
    struct ir_value *x = imp_in(im, 0), *part[2];
    const struct imp_items *parts = x ? imp_items_of(im, x) : NULL;
    int64_t first = 0;
    if (parts && parts->n == 2)
        return imp_out(im, 0, imp_hypot(im, parts->at[0], parts->at[1]));
    if (!(x = imp_tensor(im, 0)))
        return false;
    if (!imp_is_float(x) || imp_rank(x) < 1 || ir_expr_eq(im->ctx, imp_dim(x, 0), ir_const(im->ctx, 2)) == IR_NO)
        return imp_bad(im, "%s; floats whose first axis has real and imaginary parts are expected",
                       ir_type_text(im->ctx, x->type));
    if (!imp_assume(im, IR_EQ, imp_dim(x, 0), ir_const(im->ctx, 2), "the first axis has real and imaginary parts"))
        return false;
    for (int k = 0; k < 2; k++) {
        part[k] = imp_slice1(im, imp_wide(im, x), 0, ir_const(im->ctx, k), ir_const(im->ctx, 1));
        part[k] = part[k] ? imp_squeeze(im, part[k], 1, &first) : NULL;
    }
    return imp_out(im, 0, imp_cast(im, imp_hypot(im, part[0], part[1]), imp_dtype(x)));
}

/* One spatial axis of a window that is moved over x[n, height, width, c]. */
struct moved {
    int64_t taps, step, rate;
    ir_expr before, after, places;
};

/* As TensorFlow pads: VALID not at all, SAME so that there are ceil(size / step) places, the larger half at the end. */
static bool read_moved(struct imp *im, const char *list, int axis, bool same, ir_expr size, int64_t taps,
                       struct moved *m)
{
    int n, nrates;
    const int64_t *steps = imp_ints(im, "strides", &n), *rates = imp_ints(im, list, &nrates);
    if (!steps || n != 4 || (rates && nrates != 4) || steps[axis] < 1 || (rates && rates[axis] < 1))
        return imp_bad(im, "strides and %s of 4 positive numbers are expected", list);
    *m = (struct moved){.taps = taps, .step = steps[axis], .rate = rates ? rates[axis] : 1};
    ir_expr zero = ir_const(im->ctx, 0), step = ir_const(im->ctx, m->step);
    int64_t reach = (taps - 1) * m->rate + 1;
    m->places = same ? ir_ceildiv(im->ctx, size, step)
                     : ir_max(im->ctx, zero, ir_ceildiv(im->ctx, ir_addc(im->ctx, size, 1 - reach), step));
    ir_expr covered = ir_addc(im->ctx, ir_mulc(im->ctx, ir_addc(im->ctx, m->places, -1), m->step), reach);
    ir_expr pads = same ? ir_max(im->ctx, zero, ir_sub(im->ctx, covered, size)) : zero;
    m->before = ir_floordiv(im->ctx, pads, ir_const(im->ctx, 2));
    m->after = ir_sub(im->ctx, pads, m->before);
    return true;
}

/* What tap (i, j) of the window reads at all places, plus its weights. */
static struct ir_value *one_tap(struct imp *im, struct ir_value *x, struct ir_value *w, const struct moved *m,
                                int64_t i, int64_t j)
{
    ir_expr zero = ir_const(im->ctx, 0), one = ir_const(im->ctx, 1);
    ir_expr starts[] = {zero, ir_const(im->ctx, i * m[0].rate), ir_const(im->ctx, j * m[1].rate), zero},
            sizes[] = {imp_dim(x, 0), m[0].places, m[1].places, imp_dim(x, 3)},
            steps[] = {one, ir_const(im->ctx, m[0].step), ir_const(im->ctx, m[1].step), one};
    struct ir_value *row = imp_slice1(im, w, 0, ir_const(im->ctx, i), one);
    struct ir_value *weight = row ? imp_slice1(im, row, 1, ir_const(im->ctx, j), one) : NULL;
    struct ir_value *weight_shaped = weight ? imp_reshape(im, weight, 1, &sizes[3]) : NULL;
    return imp_bin(im, IR_add, imp_slice(im, x, starts, sizes, steps), weight_shaped);
}

/* Grey-scale dilation: max over taps of x + filter[height, width, c]; what lies outside of x is left out. */
bool onnx_op_dilation(struct imp *im)
{
    enum { MOST_TAPS = 256 };
    struct ir_value *x = imp_tensor(im, 0), *w = x ? imp_tensor(im, 1) : NULL, *best = NULL;
    const char *padding = imp_s(im, "padding", "");
    bool same = !strcmp(padding, "SAME");
    int64_t taps[2];
    struct moved m[2];
    if (!w)
        return false;
    if (imp_rank(x) != 4 || imp_rank(w) != 3 || !imp_is_float(x) || imp_dtype(x) != imp_dtype(w) ||
        (!same && strcmp(padding, "VALID")))
        return imp_bad(
            im, "x[n, height, width, c], filter[height, width, c] of floats and padding SAME or VALID are expected");
    if (!ir_is_const(imp_dim(w, 0), &taps[0]) || !ir_is_const(imp_dim(w, 1), &taps[1]))
        return imp_unsupported(im, "a filter whose height or width is known only at run time");
    if (taps[0] < 1 || taps[1] < 1 || taps[0] > MOST_TAPS || taps[0] * taps[1] > MOST_TAPS)
        return imp_unsupported(im, "a filter of %lld x %lld; at most %d elements are supported", (long long)taps[0],
                               (long long)taps[1], MOST_TAPS);
    const char *rates = imp_attr(im, "rates") ? "rates" : "dilations";
    for (int k = 0; k < 2; k++)
        if (!read_moved(im, rates, k + 1, same, imp_dim(x, k + 1), taps[k], &m[k]))
            return false;
    ir_expr zero = ir_const(im->ctx, 0), before[] = {zero, m[0].before, m[1].before, zero},
            after[] = {zero, m[0].after, m[1].after, zero};
    x = imp_pad(im, x, imp_like(im, x, -INFINITY), before, after, "constant");
    for (int64_t k = 0; x && k < taps[0] * taps[1]; k++) {
        struct ir_value *tap = one_tap(im, x, w, m, k / taps[1], k % taps[1]);
        best = k ? imp_bin(im, IR_max, best, tap) : tap;
    }
    return imp_out(im, 0, best);
}

/* The dims of what two tensors of these dims give together. */
bool onnx_op_tf_broadcast_args(struct imp *im)
{
    struct ir_value *a = imp_tensor(im, 0), *b = a ? imp_tensor(im, 1) : NULL;
    if (!b)
        return false;
    if (imp_rank(a) != 1 || imp_rank(b) != 1 || ir_expr_eq(im->ctx, imp_dim(a, 0), imp_dim(b, 0)) != IR_YES)
        return imp_unsupported(im, "dims of two ranks");
    return imp_out(im, 0, imp_formula(im, "select(eq(x, 1), y, x)", a, b));
}

/* Elements 0, 1, 2 of the last axis, which stays. */
static bool three(struct imp *im, struct ir_value *x, struct ir_value *part[3])
{
    int last = x ? imp_rank(x) - 1 : -1;
    if (last < 0 || !imp_is_float(x) || !ir_is_value(imp_dim(x, last), 3))
        return x && imp_unsupported(im, "%s; floats with 3 elements on the last axis are expected",
                                    ir_type_text(im->ctx, x->type));
    for (int k = 0; k < 3; k++)
        if (!(part[k] = imp_slice1(im, x, last, ir_const(im->ctx, k), ir_const(im->ctx, 1))))
            return false;
    return true;
}

static bool out_three(struct imp *im, struct ir_value *part[3])
{
    return part[0] && part[1] && part[2] && imp_out(im, 0, imp_concat(im, 3, part, imp_rank(part[0]) - 1));
}

bool onnx_op_tf_cross(struct imp *im)
{
    struct ir_value *a[3], *b[3], *y[3];
    if (!three(im, imp_tensor(im, 0), a) || !three(im, imp_tensor(im, 1), b))
        return false;
    for (int k = 0; k < 3; k++) {
        int i = (k + 1) % 3, j = (k + 2) % 3;
        y[k] = imp_formula(im, "x * u - y * z", a[i], a[j], b[i], b[j]);
    }
    return out_three(im, y);
}

bool onnx_op_tf_rgb_to_hsv(struct imp *im)
{
    struct ir_value *c[3];
    if (!three(im, imp_tensor(im, 0), c))
        return false;
    struct ir_value *most = imp_formula(im, "max(x, max(y, z))", c[0], c[1], c[2]);
    struct ir_value *range = imp_formula(im, "u - min(x, min(y, z))", c[0], c[1], c[2], most);
    struct ir_value *red = imp_formula(im, "(x - y) / (6 * z)", c[1], c[2], range);
    struct ir_value *green = imp_formula(im, "(x - y) / (6 * z) + 2 / 6", c[2], c[0], range);
    struct ir_value *blue = imp_formula(im, "(x - y) / (6 * z) + 4 / 6", c[0], c[1], range);
    struct ir_value *hue = imp_formula(im, "select(eq(x, y), z, u)", c[1], most, green, blue);
    hue = imp_formula(im, "select(eq(x, y), z, u)", c[0], most, red, hue);
    hue = imp_formula(im, "select(gt(y, 0), select(lt(x, 0), x + 1, x), 0)", hue, range);
    struct ir_value *y[3] = {hue, imp_formula(im, "select(gt(x, 0), y / x, 0)", most, range), most};
    return out_three(im, y);
}

bool onnx_op_tf_hsv_to_rgb(struct imp *im)
{
    static const char *const share[] = {"min(max(abs(x * 6 - 3) - 1, 0), 1)", "min(max(2 - abs(x * 6 - 2), 0), 1)",
                                        "min(max(2 - abs(x * 6 - 4), 0), 1)"};
    struct ir_value *c[3], *y[3];
    if (!three(im, imp_tensor(im, 0), c))
        return false;
    for (int k = 0; k < 3; k++)
        y[k] = imp_formula(im, "((1 - y) + y * x) * z", imp_formula(im, share[k], c[0]), c[1], c[2]);
    return out_three(im, y);
}

/* A = Q R */
bool onnx_op_tf_qr(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    int rank = x ? imp_rank(x) : 0;
    bool whole = imp_i(im, "full_matrices", 0);
    if (rank < 2)
        return x && imp_unsupported(im, "no matrices");
    ir_expr rows = imp_dim(x, rank - 2), columns = imp_dim(x, rank - 1), q[TCC_MAX_RANK], r[TCC_MAX_RANK];
    for (int k = 0; k < rank; k++)
        q[k] = r[k] = imp_dim(x, k);
    q[rank - 1] = r[rank - 2] = whole ? rows : ir_min(im->ctx, rows, columns);
    ir_type types[] = {ir_tensor_type(im->ctx, imp_dtype(x), rank, q), ir_tensor_type(im->ctx, imp_dtype(x), rank, r)};
    return imp_lib_node(im, "qr", 2, types, IR_ATTRS(imp_user_int(im, "complete", whole)));
}

/* Is the target's element a number, among whose row fewer than k are larger? */
bool onnx_op_tf_in_top_k(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0), *at = x ? imp_tensor(im, 1) : NULL, *k = at ? imp_tensor(im, 2) : NULL;
    int64_t last = 1;
    if (!k)
        return false;
    if (imp_rank(x) != 2 || imp_rank(at) != 1 || imp_rank(k) != 0)
        return imp_bad(im, "predictions[n, classes], targets[n] and a number are expected");
    at = imp_unsqueeze(im, imp_cast(im, at, TCC_I64), 1, &last);
    struct ir_value *classes = imp_dim_value(im, imp_dim(x, 1));
    struct ir_value *there = imp_formula(im, "and(ge(x, 0), lt(x, y))", at, classes);
    struct ir_value *safe = imp_formula(im, "select(z, x, 0)", at, classes, there);
    struct ir_value *mine = safe ? imp_gather_elements(im, x, safe, 1) : NULL;
    struct ir_value *larger = imp_cast(im, imp_bin(im, IR_gt, x, mine), TCC_I64);
    struct ir_value *count = larger ? imp_reduce(im, IR_reduce_sum, larger, 1, &last, true) : NULL;
    struct ir_value *finite = imp_formula(im, "eq(x - x, 0)", mine);
    struct ir_value *y = imp_formula(im, "and(z, and(u, lt(x, y)))", count, imp_cast(im, k, TCC_I64), there, finite);
    return y && imp_out(im, 0, imp_squeeze(im, y, 1, &last));
}
